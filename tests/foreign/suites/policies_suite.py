"""Policies and operator policies: what may be set, what counts, what changes while queues are there; and the type of
queues that a virtual host has where none is named.

Set over the HTTP API (--admin), or with `leveret ctl` on a broker of our own (--broker). Every case has a virtual host
of its own. What counts is seen by what queues do: how many messages they keep, what they refuse, where the dead go.
"""

import atexit
import contextlib
import itertools
import json
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pika
from pika import exceptions

from lab.broker import Broker
from lab.cases import Skip, Suite, Uri, equal, eventually
from suites.permission_bench import Api

suite = Suite("policies")
_brokers = []
_numbers = itertools.count()
WAIT_SECONDS_MAX = 12.0  # RabbitMQ looks at quorum queues every 5 s


class Http:
    """A running broker's HTTP API."""

    def __init__(self):
        self.api = Api(suite.options.admin)
        self.uri = suite.uri

    def call(self, *request):
        """The error, or None."""
        try:
            self.api.call(*request)
        except urllib.error.HTTPError as error:
            return json.load(error)["reason"].strip()
        return None

    def add_vhost(self, name, queue_type):
        equal(self.call("PUT", f"vhosts/{name}", {"default_queue_type": queue_type} if queue_type else {}), None)
        permissions = {"configure": ".*", "write": ".*", "read": ".*"}
        equal(self.call("PUT", f"permissions/{name}/{self.uri.user}", permissions), None)

    def delete_vhost(self, name):
        self.call("DELETE", f"vhosts/{name}")

    def set(self, kind, vhost, name, pattern, definition, priority, apply_to):
        kind = {"policy": "policies", "operator_policy": "operator-policies"}[kind]
        value = {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": apply_to}
        return self.call("PUT", f"{kind}/{vhost}/{name}", value)

    def clear(self, kind, vhost, name):
        kind = {"policy": "policies", "operator_policy": "operator-policies"}[kind]
        return self.call("DELETE", f"{kind}/{vhost}/{name}")


class Ctl:
    """The tool of a broker of our own, which is started once."""

    def __init__(self):
        if not _brokers:
            _brokers.append(Broker(suite.options.broker))
            atexit.register(_brokers[0].close)
            _brokers[0].start()
        self.broker = _brokers[0]
        self.uri = Uri(self.broker.uri)

    def call(self, *words):
        """The error, or None."""
        data = os.path.join(self.broker.folder, "data")
        done = subprocess.run([self.broker.binary, "ctl", "-q", "--data-dir", data, *words], timeout=20, check=False,
                              capture_output=True, text=True)
        return None if done.returncode == 0 else done.stderr.removeprefix("Error:\n").strip()

    def add_vhost(self, name, queue_type):
        words = ("--default-queue-type", queue_type) if queue_type else ()
        equal(self.call("add_vhost", name, *words), None)
        equal(self.call("set_permissions", "-p", name, self.uri.user, ".*", ".*", ".*"), None)

    def delete_vhost(self, name):
        self.call("delete_vhost", name)

    def set(self, kind, vhost, name, pattern, definition, priority, apply_to):
        return self.call(f"set_{kind}", "-p", vhost, "--priority", str(priority), "--apply-to", apply_to, name, pattern,
                         json.dumps(definition))

    def clear(self, kind, vhost, name):
        return self.call(f"clear_{kind}", "-p", vhost, name)


def desk():
    if suite.options.admin:
        return Http()
    if suite.options.broker:
        return Ctl()
    raise Skip("needs --broker or --admin")


class Room:
    """A virtual host, policies in it, and a connection to it."""

    def __init__(self, queue_type=None):
        self.desk = desk()
        self.vhost = f"foreign-policies-{os.getpid():x}-{next(_numbers)}"
        self.desk.add_vhost(self.vhost, queue_type)
        self.connect()

    def connect(self):
        uri = self.desk.uri
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(
            uri.host, uri.port, self.vhost, pika.PlainCredentials(uri.user, uri.password), socket_timeout=15))
        self.channel = self.connection.channel()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        with contextlib.suppress(exceptions.AMQPError):
            self.connection.close()
        self.desk.delete_vhost(self.vhost)

    def kill(self):
        """Kills the broker, which must be one of ours, starts it again and connects."""
        if not isinstance(self.desk, Ctl):
            raise Skip("needs a broker that it may stop (--broker)")
        self.desk.broker.kill()
        self.desk.broker.start()
        self.desk.uri = Uri(self.desk.broker.uri)
        self.connect()

    def try_policy(self, definition, pattern="", name="p", kind="policy", priority=0, apply_to="all"):
        return self.desk.set(kind, self.vhost, name, pattern, definition, priority, apply_to)

    def policy(self, definition, pattern="", **more):
        equal(self.try_policy(definition, pattern, **more), None)

    def operator_policy(self, definition, pattern="", **more):
        self.policy(definition, pattern, kind="operator_policy", **more)

    def clear(self, name="p", kind="policy"):
        return self.desk.clear(kind, self.vhost, name)

    def queue(self, name, kind=None, **arguments):
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        if kind:
            named["x-queue-type"] = kind
        self.channel.queue_declare(name, durable=True, arguments=named)
        return name

    def fill(self, queue, count=9, size=1):
        """Publishes so many, each its number so many times, and answers how many were confirmed."""
        channel = self.connection.channel()
        channel.confirm_delivery()
        confirmed = 0
        for number in range(count):
            with contextlib.suppress(exceptions.NackError):
                channel.basic_publish("", queue, b"%d" % number * size, pika.BasicProperties(delivery_mode=2))
                confirmed += 1
        channel.close()
        return confirmed

    def count(self, queue):
        return self.channel.queue_declare(queue, passive=True).method.message_count

    def keeps(self, queue, count):
        eventually(lambda: self.count(queue) == count, f"{count} messages in {queue} ({self.count(queue)} now)",
                   WAIT_SECONDS_MAX)

    def keeps_of_nine(self, queue, count):
        """Of nine messages published to it so many stay."""
        self.fill(queue)
        self.keeps(queue, count)
        self.channel.queue_purge(queue)

    def declared(self, name, **options):
        """Declares a queue on a channel of its own: ok, or code and text."""
        channel = self.connection.channel()
        try:
            channel.queue_declare(name, **{"durable": True, **options})
        except exceptions.ChannelClosedByBroker as closed:
            return closed.reply_code, closed.reply_text
        channel.close()
        return "ok"


def failed(*lines):
    return "Validation failed\n\n" + "\n".join(lines)


WRONG = (
    ({"max-length": -1}, "-1 is not a valid maximum length"),
    ({"max-length": "5"}, '<<"5">> is not a valid maximum length'),
    ({"max-length-bytes": 1.5}, "1.5 is not a valid maximum length in bytes"),
    ({"message-ttl": True}, "true is not a valid message TTL"),
    ({"expires": 0}, "0 is not a valid queue expiry"),
    ({"expires": None}, "null is not a valid queue expiry"),
    ({"overflow": "x"}, '<<"x">> is not a valid overflow value'),
    ({"overflow": {"a": 1}}, '#{<<"a">> => 1} is not a valid overflow value'),
    ({"delivery-limit": [1]}, "[1] is not a valid delivery limit"),
    ({"dead-letter-exchange": 1}, "1 is not a valid dead letter exchange name"),
    ({"dead-letter-routing-key": 1}, "1 is not a valid dead letter routing key"),
    ({"dead-letter-strategy": "x"}, '<<"x">> is not a valid dead letter strategy'),
    ({"alternate-exchange": 1}, "1 is not a valid alternate exchange name"),
    ({"consumer-timeout": -1}, "-1 is not a valid consumer timeout"),
    ({"consumer-disconnected-timeout": -1}, "-1 is not a valid consumer disconnected timeout"),
    ({"max-in-memory-length": -1}, "-1 is not a valid maximum memory in bytes"),
    ({"max-in-memory-bytes": -1}, "-1 is not a valid maximum memory in bytes"),
    ({"queue-mode": "x"}, '<<"x">> is not a valid queue-mode value'),
    ({"queue-version": 3}, "3 is not a valid queue-version value"),
    ({"queue-leader-locator": "x"}, '<<"x">> is not a valid queue leader locator value'),
    ({"queue-master-locator": "x"}, "use of deprecated queue-master-locator argument is not permitted"),
    ({"target-group-size": 0}, "0 is not a valid qq target count value"),
    ({"max-age": "1x"}, '<<"1x">> is not a valid max age'),
    ({"max-age": "0s"}, '<<"0s">> is not a valid max age'),
    ({"max-age": ""}, '<<>> is not a valid max age'),
    ({"stream-max-segment-size-bytes": -1}, "-1 is not a valid segment size"),
    ({"stream-filter-size-bytes": 15}, "15 is not a valid filter size. Valid range is 16-255"),
    ({"initial-cluster-size": -1}, "-1 is not a valid cluster size"),
    ({"delayed-retry-type": "x"},
     '<<"x">> is not a valid delayed retry type. Must be one of: all, failed, returned, disabled'),
    ({"delayed-retry-type": "all"}, "delayed-retry-min is required when delayed-retry-type is all"),
    ({"delayed-retry-min": 0}, "0 is not a valid delayed retry minimum delay. Must be a positive integer"),
    ({"delayed-retry-min": 9, "delayed-retry-max": 5},
     "delayed-retry-max (5) must not be smaller than delayed-retry-min (9)"),
    ({}, "no policy provided"),
    ({"nonsense": 1, "max-length": 5}, '[{<<"nonsense">>,1}] are not recognised policy settings'),
    ({"zz": 1, "aa": "x"}, '[{<<"aa">>,<<"x">>},{<<"zz">>,1}] are not recognised policy settings'),
    ({"max-priority": 5}, '[{<<"max-priority">>,5}] are not recognised policy settings'),
    ({"max-length": -5, "expires": 0}, "0 is not a valid queue expiry"),
    ({"max-length": -5, "zz": 0}, "-5 is not a valid maximum length"),
)


@suite.case("wrong", "setting a policy to a value that a key may not have, or to a key that is not there",
            "refused: `Validation failed` and what the value is not: `-1 is not a valid maximum length`, "
            "`[{<<\"zz\">>,1}] are not recognised policy settings`; of several keys the first in order is named")
def _():
    with Room() as room:
        for definition, text in WRONG:
            equal(room.try_policy(definition), failed(text), str(definition))


@suite.case("wrong.apply-to", "setting a policy for what is not there to apply to",
            "refused: `apply-to 'zz' unrecognised; should be one of: ...`, after what else is wrong")
def _():
    text = ("apply-to 'zz' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', 'streams', "
            "'exchanges', or 'all'")
    with Room() as room:
        equal(room.try_policy({"max-length": 1}, apply_to="zz"), failed(text))
        equal(room.try_policy({"max-length": -1}, apply_to="zz"), failed("-1 is not a valid maximum length", text))


@suite.case("pattern.around", "policies whose patterns look ahead, look behind and refer back, with queues whose names do and do not match",
            "they count for the queues that match")
def _():
    rows = [(r"^(?!amq\.).*", ["orders"], []), (r"^(?!(amq\.)|(.*_fanout_)|(reply_)).*", ["nova"], ["reply_1", "a_fanout_2"]),
            (r"^(.*(?<![E|e]rror))?$", ["orders"], ["orders_error"]), (r"(.)\1$", ["aa"], ["ab"]), ("^(?>a+)b", ["aab"], ["aac"])]
    with Room() as room:
        for pattern, yes, no in rows:
            room.policy({"max-length": 1}, pattern)
            for name in yes + no:
                room.channel.queue_declare(name)
                for _number in range(3):
                    room.channel.basic_publish("", name, b"x")
                wanted = 1 if name in yes else 3
                eventually(lambda: room.channel.queue_declare(name, passive=True).method.message_count == wanted,
                           f"{pattern} on {name}")
                room.channel.queue_delete(name)
            room.clear()


@suite.case("wrong.pattern", "setting a policy with a pattern that is none",
            "refused: `pattern should be regular expression but is invalid: ...`")
def _():
    with Room() as room:
        begin = failed("pattern should be regular expression but is invalid: ")
        equal((room.try_policy({"queue-mode": "lazy"}, "(") or "").startswith(begin), True)


@suite.case("wrong.operator", "setting an operator policy with keys that it may not have",
            "refused: `... are not recognised policy settings`; `expires`, `message-ttl`, `max-length`, "
            "`max-length-bytes`, `delivery-limit`, `overflow` and some of no effect it may have")
def _():
    with Room() as room:
        for key in ("dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy", "alternate-exchange",
                    "consumer-timeout", "queue-mode", "max-age", "queue-leader-locator"):
            equal(room.try_policy({key: "x"}, kind="operator_policy"),
                  failed(f'[{{<<"{key}">>,<<"x">>}}] are not recognised policy settings'))
        equal(room.try_policy({"overflow": 1}, kind="operator_policy"), failed("1 is not a valid overflow value"))
        room.operator_policy({"max-in-memory-length": 5, "overflow": "drop-head", "queue-version": 2,
                              "target-group-size": 3, "delivery-limit": -1})


@suite.case("clear.unknown", "clearing a policy that is not there", "refused; one that is there is cleared once")
def _():
    with Room() as room:
        room.policy({"queue-mode": "lazy"})
        equal(room.clear(), None)
        equal(room.clear() is None, False)
        room.operator_policy({"overflow": "drop-head"})
        equal(room.clear() is None, False, "the operator's is another")
        equal(room.clear(kind="operator_policy"), None)


@suite.case("count.priority", "several policies match the name of a queue",
            "the one of highest priority counts, alone; when it goes the next does, at once")
def _():
    with Room() as room:
        queue = room.queue("q")
        room.policy({"max-length": 2}, "^q", name="low")
        room.policy({"max-length": 4}, "q$", name="high", priority=7)
        room.policy({"max-length": 3}, "", name="lowest", priority=-7)
        room.policy({"max-length": 1}, "^x", name="other", priority=9)
        room.keeps_of_nine(queue, 4)
        equal(room.clear("high"), None)
        room.keeps_of_nine(queue, 2)
        equal(room.clear("low"), None)
        room.keeps_of_nine(queue, 3)
        equal(room.clear("lowest"), None)
        room.keeps_of_nine(queue, 9)


@suite.case("count.apply-to", "policies for `classic_queues`, `quorum_queues`, `streams` and `exchanges`",
            "each counts for queues of its type alone")
def _():
    with Room() as room:
        classic, quorum = room.queue("qc", "classic"), room.queue("qq", "quorum")
        room.policy({"max-length": 2}, name="c", apply_to="classic_queues", priority=1)
        room.policy({"max-length": 3}, name="q", apply_to="quorum_queues", priority=1)
        room.policy({"max-length": 4}, name="s", apply_to="streams", priority=2)
        room.policy({"max-length": 5}, name="e", apply_to="exchanges", priority=2)
        room.keeps_of_nine(classic, 2)
        room.keeps_of_nine(quorum, 3)
        room.policy({"max-length": 6}, name="b", apply_to="queues", priority=3)
        room.keeps_of_nine(classic, 6)
        room.keeps_of_nine(quorum, 6)


@suite.case("count.foreign-key", "a policy of highest priority with a key that is not for queues of a type",
            "it does not count for them at all, the next one does: `delivery-limit` keeps a policy from classic queues, "
            "`queue-mode` from quorum queues")
def _():
    with Room() as room:
        classic, quorum = room.queue("qc", "classic"), room.queue("qq", "quorum")
        room.policy({"max-length": 2}, name="low")
        room.policy({"max-length": 3, "delivery-limit": 5}, name="high", priority=1)
        room.keeps_of_nine(classic, 2)
        room.keeps_of_nine(quorum, 3)
        room.policy({"max-length": 4, "queue-mode": "lazy"}, name="high", priority=1)
        room.keeps_of_nine(classic, 4)
        room.keeps_of_nine(quorum, 2)


@suite.case("count.lowest", "the same limit by argument, policy and operator policy", "the lowest counts")
def _():
    with Room() as room:
        for kind in ("classic", "quorum"):
            for own, user, operator in itertools.permutations((2, 4, 6)):
                queue = room.queue(f"{kind}{own}{user}", kind, x_max_length=own)
                room.policy({"max-length": user})
                room.operator_policy({"max-length": operator})
                room.keeps_of_nine(queue, 2)


@suite.case("count.overflow", "`overflow` by argument, policy and operator policy",
            "in a classic queue the argument counts, in a quorum queue the policy; the operator's over the users'")
def _():
    with Room() as room:
        made = {kind: room.queue(kind, kind, x_max_length=3, x_overflow="reject-publish")
                for kind in ("classic", "quorum")}
        plain = room.queue("plain", "classic", x_max_length=3)
        room.policy({"overflow": "drop-head"})
        equal(room.fill(made["classic"]), 3)
        equal(room.fill(made["quorum"]), 9)
        equal(room.fill(plain), 9)
        room.channel.queue_purge(plain)
        room.operator_policy({"overflow": "reject-publish"})
        equal(room.fill(plain), 3)


@suite.case("live.length", "a policy with `max-length` comes and goes over a queue with messages",
            "the oldest go at once; when it is cleared there is no limit")
def _():
    with Room() as room:
        for kind in ("classic", "quorum"):
            queue = room.queue(kind, kind)
            room.fill(queue)
            room.policy({"max-length": 4}, f"^{kind}$")
            room.keeps(queue, 4)
            equal(room.channel.basic_get(queue, auto_ack=True)[2], b"5")
            equal(room.clear(), None)
            room.fill(queue)
            room.keeps(queue, 12)


@suite.case("live.bytes", "a policy with `max-length-bytes` comes and goes over a queue with messages",
            "what is there counts: the oldest go at once; when it is cleared there is no limit")
def _():
    with Room() as room:
        for kind in ("classic", "quorum"):
            queue = room.queue(kind, kind)
            room.fill(queue, 9, 100)
            room.policy({"max-length-bytes": 450}, f"^{kind}$")
            room.keeps(queue, 4)
            equal(room.channel.basic_get(queue, auto_ack=True)[2], b"5" * 100)
            room.fill(queue, 1, 100)
            room.keeps(queue, 4)
            room.fill(queue, 1, 100)
            room.keeps(queue, 4)
            equal(room.clear(), None)
            room.fill(queue, 9, 100)
            room.keeps(queue, 13)


@suite.case("live.bytes-smaller", "a policy with `max-length-bytes` is followed by a smaller one, and by one of the operator",
            "what is there counts for each")
def _():
    with Room() as room:
        for kind in ("classic", "quorum"):
            queue = room.queue(kind, kind)
            room.fill(queue, 9, 100)
            room.policy({"max-length-bytes": 100_000}, f"^{kind}$")
            room.fill(queue, 1, 100)
            room.keeps(queue, 10)
            room.policy({"max-length-bytes": 650}, f"^{kind}$")
            room.keeps(queue, 6)
            room.operator_policy({"max-length-bytes": 350}, f"^{kind}$", name="o")
            room.keeps(queue, 3)


@suite.case("live.bytes-refused", "a policy with `max-length-bytes` and `overflow` `reject-publish` over a queue with more in it",
            "nothing goes, and what is published is refused until enough is gone")
def _():
    with Room() as room:
        for kind in ("classic", "quorum"):
            queue = room.queue(kind, kind)
            room.fill(queue, 9, 100)
            room.policy({"max-length-bytes": 450, "overflow": "reject-publish"}, f"^{kind}$")
            eventually(lambda: room.fill(queue, 1, 100) == 0, "a publish that is refused", WAIT_SECONDS_MAX)
            there = room.count(queue)
            # Quorum queues take messages again from four fifths of the limit on.
            for _ in range(there - 3):
                room.channel.basic_get(queue, auto_ack=True)
            eventually(lambda: room.fill(queue, 1, 100) == 1, "a publish that is taken", WAIT_SECONDS_MAX)


@suite.case("live.bytes-held", "a policy with `max-length-bytes` over a queue of which a consumer holds five of nine messages",
            "what is held does not count until it comes back, then it goes first")
def _():
    with Room() as room:
        for kind in ("classic", "quorum"):
            queue = room.queue(kind, kind)
            room.fill(queue, 9, 100)
            channel = room.connection.channel()
            tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(5)]
            room.policy({"max-length-bytes": 450}, f"^{kind}$")
            room.fill(queue, 1)
            room.keeps(queue, 5)
            channel.basic_nack(tags[-1], multiple=True)
            room.keeps(queue, 5)
            equal(room.channel.basic_get(queue, auto_ack=True)[2][:1], b"5")
            channel.close()


@suite.case("live.bytes-disk", "a policy with `max-length-bytes` over 1,500 messages of 20 kB, after the broker was killed, and killed "
            "again meanwhile", "what is on disk counts too, and goes", seconds_max=60)
def _():
    with Room() as room:
        for kind in ("classic", "quorum"):
            queue = room.queue(kind, kind)
            for number in range(1500):
                room.channel.basic_publish("", queue, b"%04d" % number * 5000, pika.BasicProperties(delivery_mode=2))
            room.keeps(queue, 1500)
            room.kill()
            room.policy({"max-length-bytes": 450_000}, f"^{kind}$")
            room.kill()
            room.keeps(queue, 22)
            equal(room.channel.basic_get(queue, auto_ack=True)[2][:4], b"1478")
            equal(room.clear(), None)


@suite.case("live.ttl", "a policy with `message-ttl` comes over a queue with messages",
            "messages that come from then on expire; classic queue: those that are there already stay")
def _():
    with Room() as room:
        queue = room.queue("q", "classic")
        room.fill(queue, 2)
        room.policy({"message-ttl": 100})
        other = room.queue("r", "classic")
        room.fill(other, 3)
        room.keeps(other, 0)
        equal(room.count(queue), 2)


@suite.case("live.expires", "a policy with `expires` comes over a queue that is not used", "the queue goes in time")
def _():
    with Room() as room:
        queue = room.queue("q", "classic")
        room.policy({"expires": 500})

        room.channel.confirm_delivery()

        def is_gone():
            # A declaration, even a passive one, would be a use; a message that nobody can take comes back.
            try:
                room.channel.basic_publish("", queue, b"?", mandatory=True)
            except (exceptions.UnroutableError, exceptions.NackError):
                return True
            return False

        eventually(is_gone, "the queue gone", WAIT_SECONDS_MAX)


@suite.case("live.consumer-timeout", "a policy with `consumer-timeout` comes over a quorum queue with `x-consumer-timeout`",
            "the lower counts, for consumers that come from then on")
def _():
    with Room() as room:
        queue = room.queue("q", "quorum", x_consumer_timeout=60_000)
        room.fill(queue, 2)
        told = []
        room.channel.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
        room.channel.basic_qos(prefetch_count=1)
        room.channel.basic_consume(queue, lambda *_delivery: None, consumer_tag="before")
        room.policy({"consumer-timeout": 400}, apply_to="quorum_queues")
        room.connection.process_data_events(0.5)
        room.channel.basic_consume(queue, lambda *_delivery: None, consumer_tag="after")
        for _number in range(15):
            room.connection.process_data_events(0.1)
        equal(told, ["after"])


@suite.case("live.dead-letter", "a policy with `dead-letter-exchange` and `dead-letter-routing-key`",
            "what is rejected goes there from then on; a queue's own arguments count more")
def _():
    with Room() as room:
        queue, dead, own = room.queue("q"), room.queue("dead"), room.queue("own")
        special = room.queue("special", x_dead_letter_exchange="", x_dead_letter_routing_key=own)
        room.fill(queue, 1)
        room.fill(special, 1)
        room.policy({"dead-letter-exchange": "", "dead-letter-routing-key": dead}, "^(q|special)$")
        for name in (queue, special):
            method, _properties, _body = room.channel.basic_get(name)
            room.channel.basic_reject(method.delivery_tag, requeue=False)
        room.keeps(dead, 1)
        room.keeps(own, 1)


@suite.case("exchange.alternate", "a policy with `alternate-exchange` comes and goes over exchanges",
            "what leads nowhere goes there; an exchange's own argument counts more; the default exchange has none")
def _():
    with Room() as room:
        channel = room.channel
        queue, own = room.queue("q"), room.queue("own")
        channel.queue_bind(queue, "amq.fanout")
        channel.exchange_declare("x", "direct")
        channel.exchange_declare("other", "fanout")
        channel.queue_bind(own, "other")
        channel.exchange_declare("y", "direct", arguments={"alternate-exchange": "other"})
        channel.confirm_delivery()

        def returned(exchange, key):
            try:
                channel.basic_publish(exchange, key, b"m", mandatory=True)
            except exceptions.UnroutableError:
                return True
            return False

        equal(returned("x", "k"), True)
        room.policy({"alternate-exchange": "amq.fanout"}, apply_to="exchanges")
        equal([returned("x", "k"), returned("y", "k"), returned("", "nowhere")], [False, False, True])
        room.keeps(queue, 1)
        room.keeps(own, 1)
        channel.exchange_declare("z", "topic")
        equal(returned("z", "k"), False, "made under the policy")
        room.keeps(queue, 2)
        room.policy({"alternate-exchange": "amq.fanout"}, "^z$", apply_to="exchanges")
        equal([returned("x", "k"), returned("z", "k")], [True, False])
        equal(room.clear(), None)
        equal(returned("z", "k"), True)


@suite.case("exchange.alternate-default", "an alternate exchange with the empty name", "it leads nowhere, also not to the "
            "queue that has the key as its name")
def _():
    with Room() as room:
        queue = room.queue("q")
        room.channel.exchange_declare("x", "direct", arguments={"alternate-exchange": ""})
        room.channel.confirm_delivery()
        try:
            room.channel.basic_publish("x", queue, b"m", mandatory=True)
        except exceptions.UnroutableError:
            return
        raise AssertionError("it was routed")


@suite.case("vhost.queue-type", "queues without a type in a virtual host whose default type is quorum",
            "are quorum queues; those that cannot be (exclusive, auto-delete, transient) are classic; a server-named "
            "one is 406 `Cannot declare a server-named queue for type rabbit_quorum_queue`; declaring again compares "
            "with the default")
def _():
    with Room("quorum") as room:
        def named(kind):
            return {"arguments": {"x-queue-type": kind}}

        def differs(name, received, current):
            return 406, (f"PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue '{name}' in vhost "
                         f"'{room.vhost}': received '{received}' but current is '{current}'")

        equal(room.declared("q"), "ok")
        equal(room.declared("q"), "ok")
        equal(room.declared("q", **named("quorum")), "ok")
        equal(room.declared("q", **named("classic")), differs("q", "classic", "quorum"))
        equal(room.declared("c", **named("classic")), "ok")
        equal(room.declared("c"), differs("c", "quorum", "classic"))
        equal(room.declared("a", auto_delete=True), "ok")
        equal(room.declared("a", auto_delete=True, **named("classic")), "ok")
        equal(room.declared("e", exclusive=True), "ok")
        equal(room.declared("e", exclusive=True, **named("classic")), "ok")
        equal(room.declared("l", arguments={"x-max-priority": 5}),
              (406, f"PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue 'l' in vhost '{room.vhost}' of queue "
                    "type rabbit_quorum_queue"))
        equal(room.declared(""),
              (406, "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"))
        equal(room.declared("", durable=False, exclusive=True), "ok")


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default="", help="a leveret to start"))
