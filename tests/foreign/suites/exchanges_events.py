"""The event exchange: what `amq.rabbitmq.event` says of what changes.

What an administrator does is done over the HTTP API (--admin), or with `leveret ctl` on a broker of our own (--broker).
The headers that are compared are those both have; RabbitMQ's have the node and its processes as well.
"""

import atexit
import json
import os
import subprocess
import time
import urllib.parse

import pika
from pika import exceptions

from lab.broker import Broker
from lab.cases import Skip, Uri, equal
from suites import pika_bench
from suites.exchanges_bench import Bench, fresh, refused, suite
from suites.permission_bench import Api

EVENTS = "amq.rabbitmq.event"
_brokers = []


class Ears:
    """A connection that hears events of some routing keys."""

    def __init__(self, *patterns, uri=None):
        uri = uri or suite.uri
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(
            uri.host, uri.port, uri.vhost, pika.PlainCredentials(uri.user, uri.password), socket_timeout=15))
        self.channel = self.connection.channel()
        self.queue = self.channel.queue_declare("", exclusive=True).method.queue
        for pattern in patterns:
            self.channel.queue_bind(self.queue, EVENTS, pattern)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.connection.close()

    def hear(self, count, about, seconds_max=8.0):
        """The first events of which `about` says so: routing key, properties, headers, body."""
        heard, deadline = [], time.monotonic() + seconds_max
        while len(heard) < count:
            method, properties, body = self.channel.basic_get(self.queue, auto_ack=True)
            if method is None:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{len(heard)} events of {count}: {[event[0] for event in heard]}")
                self.connection.sleep(0.02)
            elif about(properties.headers):
                heard.append((method.routing_key, properties, properties.headers, body))
        return heard

    def told(self, about, *rows, **options):
        """Hears as many events as there are rows, each a routing key and the headers it must have."""
        events = self.hear(len(rows), about, **options)
        equal([event[0] for event in events], [key for key, _headers in rows])
        for (key, _properties, headers, _body), (_key, expected) in zip(events, rows):
            equal({name: headers.get(name) for name in expected}, expected, key)
        return events

    def silent(self, about):
        self.connection.sleep(0.4)
        while True:
            method, properties, _body = self.channel.basic_get(self.queue, auto_ack=True)
            if method is None:
                return
            equal(about(properties.headers), False, f"{method.routing_key} {properties.headers}")


def named(*names):
    fields = ("name", "source_name", "destination_name", "user", "username", "vhost")
    return lambda headers: any(headers.get(field) in names for field in fields)


def of_queue(name):
    return {"name": name, "vhost": suite.uri.vhost}


@suite.case("events.exchange-itself", f"`{EVENTS}`", "topic, durable, internal; a publish to it is refused (403), and so is "
            "its deletion")
def events_itself():
    with Bench() as desk:
        desk.channel.exchange_declare(EVENTS, "topic", durable=True, internal=True, passive=True)
        channel = desk.connection.channel()
        channel.exchange_declare(EVENTS, "topic", durable=True, internal=True)
        equal(refused(lambda: channel.exchange_delete(EVENTS))[0], 403)
        channel = desk.connection.channel()
        channel.confirm_delivery()
        equal(refused(lambda: channel.basic_publish(EVENTS, "k", b"x"))[0], 403)


@suite.case("events.message", "an event as a message", "the routing key says what happened; no body, delivery-mode 2, a "
            "timestamp, headers with `timestamp_in_ms` and `user_who_performed_action`")
def events_message():
    with Ears("queue.*") as ears, Bench() as desk:
        name = desk.queue()
        key, properties, headers, body = ears.hear(1, named(name))[0]
        equal((key, body, properties.delivery_mode), ("queue.created", b"", 2))
        equal(headers["user_who_performed_action"], suite.uri.user)
        equal(abs(headers["timestamp_in_ms"] / 1000 - properties.timestamp) < 1.1, True)
        equal(abs(properties.timestamp - time.time()) < 30, True)


@suite.case("events.queue", "a queue is declared, declared again and deleted", "queue.created with its flags, type and "
            "arguments; nothing; queue.deleted")
def events_queue():
    with Ears("queue.#") as ears, Bench() as desk:
        for kind in ("classic", "quorum"):
            name = fresh("queue")
            for _ in range(2):
                desk.channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind, "x-max-length": 5})
            desk.channel.queue_delete(name)
            shown = ['{<<"x-max-length">>,signedint,5}', f'{{<<"x-queue-type">>,longstr,<<"{kind}">>}}']
            typed = {**of_queue(name), "type": f"rabbit_{kind}_queue"}
            flags = {"durable": True, "auto_delete": False, "exclusive": False}
            events = ears.told(named(name), ("queue.created", {**typed, **flags}), ("queue.deleted", typed))
            equal(sorted(events[0][2]["arguments"]), shown)
        ears.silent(named(name))


@suite.case("events.queue-exclusive", "an exclusive queue goes with its connection", "queue.deleted by `rmq-internal`")
def events_exclusive():
    with Ears("queue.#") as ears:
        with Bench() as desk:
            name = fresh("queue")
            desk.channel.queue_declare(name, exclusive=True)
        ears.told(named(name), ("queue.created", {**of_queue(name), "exclusive": True, "durable": False}),
                  ("queue.deleted", {**of_queue(name), "user_who_performed_action": "rmq-internal"}))


@suite.case("events.exchange", "an exchange is declared, declared again and deleted", "exchange.created with type, flags and "
            "arguments; nothing; exchange.deleted")
def events_exchange():
    with Ears("exchange.#") as ears, Bench() as desk:
        name = fresh("exchange")
        for _ in range(2):
            desk.channel.exchange_declare(name, "topic", auto_delete=True, arguments={"alternate-exchange": "amq.fanout"})
        desk.channel.exchange_delete(name)
        created = {**of_queue(name), "type": "topic", "durable": False, "auto_delete": True, "internal": False,
                   "arguments": ['{<<"alternate-exchange">>,longstr,<<"amq.fanout">>}'], "policy": "",
                   "user_who_performed_action": suite.uri.user}
        ears.told(named(name), ("exchange.created", created), ("exchange.deleted", of_queue(name)))


@suite.case("events.binding", "bindings come and go", "binding.created and binding.deleted with both ends, key and arguments; "
            "nothing for an unbind of what is not bound")
def events_binding():
    with Ears("binding.#") as ears, Bench() as desk:
        queue, exchange = desk.queue(), desk.exchange("topic")
        ends = {"source_name": exchange, "source_kind": "exchange", "vhost": suite.uri.vhost}
        to_queue = {**ends, "destination_name": queue, "destination_kind": "queue", "routing_key": "a.b",
                    "arguments": ['{<<"n">>,signedint,1}', '{<<"s">>,longstr,<<"x">>}'],
                    "user_who_performed_action": suite.uri.user}
        desk.channel.queue_bind(queue, exchange, "a.b", arguments={"n": 1, "s": "x"})
        for _ in range(2):
            desk.channel.queue_unbind(queue, exchange, "a.b", arguments={"n": 1, "s": "x"})
        other = desk.exchange("fanout")
        desk.channel.exchange_bind(other, exchange, "k")
        ears.told(named(exchange), ("binding.created", to_queue), ("binding.deleted", to_queue), ("binding.created", {
            **ends, "destination_name": other, "destination_kind": "exchange", "routing_key": "k", "arguments": []}))


@suite.case("events.binding-gone", "a queue, or an exchange, is deleted with its bindings", "binding.deleted for each, by "
            "`rmq-internal` where a queue goes")
def events_binding_gone():
    with Ears("binding.deleted", "queue.deleted", "exchange.deleted") as ears, Bench() as desk:
        queue, exchange = fresh("queue"), fresh("exchange")
        for _ in range(2):
            desk.channel.queue_declare(queue, durable=True)
            desk.channel.exchange_declare(exchange, "direct", durable=True)
            desk.channel.queue_bind(queue, exchange, "k")
            if _ == 0:
                desk.channel.queue_delete(queue)
                events = ears.told(named(queue), ("binding.deleted", {"user_who_performed_action": "rmq-internal"}),
                                   ("queue.deleted", of_queue(queue)))
                equal(events[0][2]["destination_name"], queue)
        desk.channel.exchange_delete(exchange)
        keys = sorted(event[0] for event in ears.hear(2, named(exchange, queue)))
        equal(keys, ["binding.deleted", "exchange.deleted"])
        desk.channel.queue_delete(queue)


@suite.case("events.connection", "a connection logs in, opens and closes", "user.authentication.success, connection.created "
            "with user, virtual host, addresses and protocol; connection.closed with the same `pid` and name")
def events_connection():
    with Ears("connection.*", "user.authentication.*") as ears:
        connection = pika_bench.connect()
        host, port = connection._impl._transport._sock.getsockname()[:2]
        name = f"{host}:{port} -> {suite.uri.host}:{suite.uri.port}"
        mine = {"peer_host": f"{{{host.replace('.', ',')}}}", "peer_port": port, "protocol": "{0,9,1}", "ssl": False}
        connection.close()

        def about(headers):
            return headers.get("name") == name or headers.get("connection_name") == name

        events = ears.told(
            about,
            ("user.authentication.success",
             {**mine, "name": suite.uri.user, "connection_name": name, "auth_mechanism": "PLAIN", "connection_type": "network"}),
            ("connection.created",
             {**mine, "name": name, "user": suite.uri.user, "vhost": suite.uri.vhost, "port": suite.uri.port, "type": "network",
              "user_who_performed_action": suite.uri.user}),
            ("connection.closed", {"name": name}))
        equal(events[1][2]["pid"], events[2][2]["pid"])


@suite.case("events.login-refused", "a wrong password", "user.authentication.failure with mechanism and addresses")
def events_refused():
    with Ears("user.authentication.failure") as ears:
        try:
            pika_bench.connect(credentials=pika.PlainCredentials(suite.uri.user, "wrong"))
        except (exceptions.AMQPConnectionError, exceptions.ProbableAuthenticationError):
            pass
        event = ears.hear(1, lambda headers: True)[0]
        equal((event[2]["auth_mechanism"], event[2]["ssl"], "error" in event[2]), ("PLAIN", False, True))


class Http:
    """An administrator of a running broker."""

    def __init__(self):
        self.api = Api(suite.options.admin)
        self.uri = suite.uri
        self.who = urllib.parse.urlsplit(suite.options.admin).username

    def do(self, wish, vhost="", user=""):
        whole = {"configure": ".*", "write": "a", "read": ""}
        policy = {"pattern": "^ev", "definition": {"max-length": 3}, "priority": 1, "apply-to": "queues"}
        self.api.call(*{
            "add_vhost": ("PUT", f"vhosts/{vhost}", {}),
            "delete_vhost": ("DELETE", f"vhosts/{vhost}"),
            "add_user": ("PUT", f"users/{user}", {"password": "x", "tags": ""}),
            "tag": ("PUT", f"users/{user}", {"password": "x", "tags": "monitoring"}),
            "delete_user": ("DELETE", f"users/{user}"),
            "permit": ("PUT", f"permissions/{vhost}/{user}", whole),
            "enter": ("PUT", f"permissions/{vhost}/{user}", {"configure": ".*", "write": ".*", "read": ".*"}),
            "forbid": ("DELETE", f"permissions/{vhost}/{user}"),
            "permit_topics": ("PUT", f"topic-permissions/{vhost}/{user}", {"exchange": "amq.topic", "write": "a", "read": ""}),
            "forbid_topics": ("DELETE", f"topic-permissions/{vhost}/{user}"),
            "policy": ("PUT", f"policies/{vhost}/p", policy),
            "no_policy": ("DELETE", f"policies/{vhost}/p"),
            "operator_policy": ("PUT", f"operator-policies/{vhost}/p", policy),
            "no_operator_policy": ("DELETE", f"operator-policies/{vhost}/p"),
            "limit": ("PUT", f"vhost-limits/{vhost}/max-queues", {"value": 5}),
            "limit_user": ("PUT", f"user-limits/{user}/max-connections", {"value": 5}),
            "unlimit_user": ("DELETE", f"user-limits/{user}/max-connections"),
        }[wish])


class Ctl:
    """The tool of a broker of our own, which is started once."""

    def __init__(self):
        if not _brokers:
            _brokers.append(Broker(suite.options.broker))
            atexit.register(_brokers[0].close)
            _brokers[0].start()
        self.uri = Uri(_brokers[0].uri)
        self.who = "rmq-cli"

    def do(self, wish, vhost="", user=""):
        policy = ("-p", vhost, "--priority", "1", "--apply-to", "queues", "p", "^ev", json.dumps({"max-length": 3}))
        words = {
            "add_vhost": ("add_vhost", vhost),
            "delete_vhost": ("delete_vhost", vhost),
            "add_user": ("add_user", user, "x"),
            "tag": ("set_user_tags", user, "monitoring"),
            "delete_user": ("delete_user", user),
            "permit": ("set_permissions", "-p", vhost, user, ".*", "a", ""),
            "enter": ("set_permissions", "-p", vhost, user, ".*", ".*", ".*"),
            "forbid": ("clear_permissions", "-p", vhost, user),
            "permit_topics": ("set_topic_permissions", "-p", vhost, user, "amq.topic", "a", ""),
            "forbid_topics": ("clear_topic_permissions", "-p", vhost, user),
            "policy": ("set_policy", *policy),
            "no_policy": ("clear_policy", "-p", vhost, "p"),
            "operator_policy": ("set_operator_policy", *policy),
            "no_operator_policy": ("clear_operator_policy", "-p", vhost, "p"),
            "limit": ("set_vhost_limits", "-p", vhost, json.dumps({"max-queues": 5})),
            "limit_user": ("set_user_limits", user, json.dumps({"max-connections": 5})),
            "unlimit_user": ("clear_user_limits", user, "max-connections"),
        }[wish]
        data = os.path.join(_brokers[0].folder, "data")
        subprocess.run([_brokers[0].binary, "ctl", "-q", "--data-dir", data, *words], timeout=20, check=True,
                       capture_output=True)


def administrator():
    if suite.options.admin:
        return Http()
    if suite.options.broker:
        return Ctl()
    raise Skip("needs --broker or --admin")


def add_deed(name, behaviour, answer, patterns, deeds, rows):
    """`rows` are given virtual host, user and who did it; `deeds` are wishes, those in brackets before anybody listens."""

    @suite.case(f"events.{name}", behaviour, answer)
    def deed():
        admin = administrator()
        vhost, user = f"events-{os.getpid():x}-{name}", f"user-{os.getpid():x}-{name}"
        before = [wish[1:-1] for wish in deeds if wish.startswith("(")]
        try:
            for wish in before:
                admin.do(wish, vhost, user)
            with Ears(*patterns, uri=admin.uri) as ears:
                for wish in deeds:
                    if not wish.startswith("("):
                        admin.do(wish, vhost, user)
                expected = [(key, {**headers, "user_who_performed_action": admin.who})
                            for key, headers in rows(vhost, user)]
                ears.told(named(vhost, user), *expected)
        finally:
            if "(add_vhost)" in deeds:
                admin.do("delete_vhost", vhost, user)
            if "(add_user)" in deeds:
                admin.do("delete_user", vhost, user)


add_deed("vhost", "a virtual host comes and goes", "vhost.created, vhost.deleted", ["vhost.created", "vhost.deleted"],
         ["add_vhost", "delete_vhost"],
         lambda vhost, user: [("vhost.created", {"name": vhost, "description": "", "default_queue_type": "classic",
                                                 "tracing": False, "tags": []}),
                              ("vhost.deleted", {"name": vhost})])
add_deed("vhost-whole", "what a virtual host begins with and is deleted with", "exchange.created and exchange.deleted for each",
         ["exchange.*"], ["add_vhost", "delete_vhost"],
         lambda vhost, user: 7 * [("exchange.created", {"vhost": vhost, "durable": True})]
         + 7 * [("exchange.deleted", {"vhost": vhost})])
add_deed("user", "a user comes, is tagged and goes", "user.created, user.tags.set, user.deleted",
         ["user.created", "user.tags.set", "user.deleted"], ["add_user", "tag", "delete_user"],
         lambda vhost, user: [("user.created", {"name": user}), ("user.tags.set", {"name": user, "tags": ["monitoring"]}),
                              ("user.deleted", {"name": user})])
add_deed("permission", "permissions are given and taken", "permission.created with the patterns, permission.deleted",
         ["permission.*"], ["(add_vhost)", "(add_user)", "permit", "forbid"],
         lambda vhost, user: [("permission.created", {"user": user, "vhost": vhost, "configure": ".*", "write": "a",
                                                      "read": ""}),
                              ("permission.deleted", {"user": user, "vhost": vhost})])
add_deed("topic-permission", "topic permissions are given and taken", "topic.permission.created, topic.permission.deleted",
         ["topic.permission.*"], ["(add_vhost)", "(add_user)", "permit_topics", "forbid_topics"],
         lambda vhost, user: [("topic.permission.created", {"user": user, "vhost": vhost, "exchange": "amq.topic",
                                                            "write": "a", "read": ""}),
                              ("topic.permission.deleted", {"user": user, "vhost": vhost})])
POLICY = {"name": "p", "pattern": "^ev", "definition": {"max-length": 3}, "priority": 1, "apply-to": "queues"}
add_deed("policy", "a policy comes and goes", "policy.set with what it says, policy.cleared", ["policy.*"],
         ["(add_vhost)", "policy", "no_policy"],
         lambda vhost, user: [("policy.set", {**POLICY, "vhost": vhost}), ("policy.cleared", {"name": "p", "vhost": vhost})])
add_deed("operator-policy", "an operator policy comes and goes", "parameter.set, policy.set; parameter.cleared, "
         "operator.policy.cleared", ["policy.*", "operator.#", "parameter.*"],
         ["(add_vhost)", "operator_policy", "no_operator_policy"],
         lambda vhost, user: [("parameter.set", {"component": "operator_policy", "name": "p", "vhost": vhost}),
                              ("policy.set", {**POLICY, "vhost": vhost}),
                              ("parameter.cleared", {"component": "operator_policy", "name": "p", "vhost": vhost}),
                              ("operator.policy.cleared", {"name": "p", "vhost": vhost})])
add_deed("vhost-limits", "limits of a virtual host are set", "parameter.set, vhost.limits.set", ["vhost.limits.*", "parameter.*"],
         ["(add_vhost)", "limit"],
         lambda vhost, user: [("parameter.set", {"component": "vhost-limits", "name": "limits", "vhost": vhost,
                                                 "value": {"max-queues": 5}}),
                              ("vhost.limits.set", {"name": "limits", "vhost": vhost, "max-queues": 5})])
add_deed("user-limits", "limits of a user are set and cleared", "user.limits.set, user.limits.cleared", ["user.limits.*"],
         ["(add_user)", "limit_user", "unlimit_user"],
         lambda vhost, user: [("user.limits.set", {"name": "limits", "username": user, "max-connections": 5}),
                              ("user.limits.cleared", {"name": "limits", "username": user})])
