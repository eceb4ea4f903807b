"""Objects made in different ways, value by value: by a user over AMQP and HTTP, by another with definitions, and by the server.

`made(base, uri)` makes them in a virtual host of its own and gives what each is, without what changes from node to node and from
moment to moment. What RabbitMQ answers is in `shapes_made_answers.json`, written by `shapes_suite --record`.
"""

import re
import time
import urllib.parse

import pika
from suites.management_shapes import ask

# Of a node, a moment or a process, or counted: `shapes.types` compares their types.
PASSING = re.compile(
    r".*(_details|_stats)$|node|leader|members|online|memory|reductions|garbage_collection|idle_since|.*_at|timestamp|password_hash|state"
    r"|message.*|consumer_(utilisation|capacity)|recv_.*|send_.*|name|host|peer_.*|port|open_files|segments|readers|first_timestamp|reason|channels"
    r"|pid|properties_key|cluster_state|platform|version|delivery_limit_.*|internal_cluster_id|publishers")
ANY = {"configure": ".*", "write": ".*", "read": ".*"}


def plain(value):
    """Without what passes; an empty text and null are one."""
    if isinstance(value, dict):
        return {key: plain(field) for key, field in value.items() if not PASSING.fullmatch(key)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return "" if value is None else value


class Maker:
    """A virtual host, and users that make things in it."""

    def __init__(self, base, uri):
        self.base, self.uri = base, uri
        self.vhost = f"made-{time.time_ns():x}"
        self.user = self.vhost + "-u"
        parts = urllib.parse.urlsplit(base)
        self.theirs = f"{parts.scheme}://{self.user}:p@{parts.hostname}:{parts.port}"

    def make(self):
        vhost, user = self.vhost, self.user
        ask(self.base, "PUT", f"/vhosts/{vhost}", {"description": "d", "tags": "a,b"})
        ask(self.base, "PUT", f"/users/{user}", {"password": "p", "tags": "administrator"})
        for name in (user, "guest"):
            ask(self.base, "PUT", f"/permissions/{vhost}/{name}", ANY)
        ask(self.theirs, "PUT", f"/exchanges/{vhost}/http", {"type": "headers", "durable": True, "arguments": {"alternate-exchange": "amq.fanout"}})
        ask(self.theirs, "PUT", f"/queues/{vhost}/http", {"durable": True, "arguments": {"x-max-length": 5, "x-message-ttl": 1000}})
        ask(self.theirs, "PUT", f"/queues/{vhost}/quorum", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
        ask(self.theirs, "PUT", f"/queues/{vhost}/stream", {"durable": True, "arguments": {"x-queue-type": "stream", "x-max-age": "1D"}})
        ask(self.base, "POST", "/definitions", {
            "exchanges": [{"name": "file", "vhost": vhost, "type": "fanout", "durable": True, "auto_delete": False, "internal": True, "arguments": {}}],
            "queues": [{"name": "file", "vhost": vhost, "durable": True, "auto_delete": False, "arguments": {"x-overflow": "reject-publish"}}],
            "bindings": [{"source": "file", "vhost": vhost, "destination": "file", "destination_type": "queue", "routing_key": "k", "arguments": {"n": 1}}],
            "policies": [{"vhost": vhost, "name": "p", "pattern": "^http", "apply-to": "classic_queues", "priority": 3, "definition": {"max-length": 3}}]})
        ask(self.theirs, "PUT", f"/operator-policies/{vhost}/o", {"pattern": "http", "definition": {"message-ttl": 500}})
        parameters = pika.URLParameters(self.uri)
        parameters.virtual_host, parameters.credentials = vhost, pika.PlainCredentials(user, "p")
        parameters.client_properties = {"connection_name": "made", "application": "a", "list": [1, True, "x"], "table": {"n": -1}}
        self.client = pika.BlockingConnection(parameters)
        channel = self.client.channel()
        channel.exchange_declare("amqp", "topic", auto_delete=True)
        channel.queue_declare("amqp", auto_delete=True)
        channel.queue_declare("exclusive", exclusive=True)
        channel.queue_bind("amqp", "amqp", "a.#")
        channel.basic_consume("amqp", lambda *_: None, consumer_tag="tag", arguments={"x-priority": 3})

    def told(self):
        vhost = self.vhost
        found = {}
        for name in ("", "amq.direct", "amq.rabbitmq.trace", "http", "file", "amqp"):
            found[f"exchange {name}"] = ask(self.base, "GET", f"/exchanges/{vhost}/{name or 'amq.default'}")
        for name in ("http", "quorum", "stream", "file", "amqp", "exclusive"):
            found[f"queue {name}"] = ask(self.base, "GET", f"/queues/{vhost}/{name}")
        for row in ask(self.base, "GET", f"/bindings/{vhost}"):
            found[f"binding {row['source']} {row['destination']}"] = row
        found["policies"] = ask(self.base, "GET", f"/policies/{vhost}")
        found["operator policies"] = ask(self.base, "GET", f"/operator-policies/{vhost}")
        found["permissions"] = sorted(ask(self.base, "GET", f"/vhosts/{vhost}/permissions"), key=lambda row: row["user"])
        found["user"] = ask(self.base, "GET", f"/users/{self.user}")
        found["vhost"] = ask(self.base, "GET", f"/vhosts/{vhost}")
        found["consumers"] = ask(self.base, "GET", f"/consumers/{vhost}")
        found["connections"] = ask(self.base, "GET", f"/vhosts/{vhost}/connections")
        return {name: self.nameless(plain(value)) for name, value in found.items()}

    def nameless(self, value):
        if isinstance(value, dict):
            return {key: self.nameless(field) for key, field in value.items()}
        if isinstance(value, list):
            return [self.nameless(item) for item in value]
        return value.replace(self.vhost, "VHOST") if isinstance(value, str) else value

    def close(self):
        if getattr(self, "client", None):
            self.client.close()
        for path in (f"/vhosts/{self.vhost}", f"/users/{self.user}"):
            try:
                ask(self.base, "DELETE", path)
            except (SystemExit, OSError):
                pass


def made(base, uri, settle_s):
    """The shape of each thing: fields that are its own."""
    maker = Maker(base, uri)
    try:
        maker.make()
        time.sleep(settle_s)
        return maker.told()
    finally:
        maker.close()


def fields(value, path="", into=None):
    """Values by path."""
    into = {} if into is None else into
    if isinstance(value, dict) and value:
        for key, field in value.items():
            fields(field, f"{path}.{key}", into)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, item in enumerate(value):
            fields(item, f"{path}[{number}]", into)
    else:
        into[path] = value
    return into
