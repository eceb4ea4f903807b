"""The firehose: what `amq.rabbitmq.trace` tells of publishes and deliveries; `python -m suites.firehose_suite --uri URI`.

Each case traces a virtual host of its own, made over the HTTP API (--admin) or with `leveret ctl` on a broker of our own
(--broker). Of a header table the names and types are compared, not their order.
"""

import contextlib
import os
import subprocess
import time
import urllib.parse

import pika
from proton import Message
from proton.utils import BlockingConnection

from lab.broker import Broker
from lab.cases import Skip, Suite, Uri, equal, eventually
from suites import permission_bench
from suites.pika_bench import CLOSED
from suites.permission_bench import Api, Tool

suite = Suite("firehose")
permission_bench.suite = suite
TRACE = "amq.rabbitmq.trace"


class Admin:
    """The administrator, for making virtual hosts and tracing them."""

    def __init__(self):
        if not (suite.options.admin or suite.options.broker):
            raise Skip("needs --broker or --admin")
        self.api = Api(suite.options.admin) if suite.options.admin else None
        self.tool = None if self.api else Tool()
        uri = suite.uri if self.api else Uri(self.tool.broker.uri)
        self.vhost = f"firehose-{os.getpid():x}-{time.monotonic_ns():x}"
        self.uri = Uri(f"amqp://{uri.user}:{uri.password}@{uri.host}:{uri.port}/{self.vhost}")

    def make(self):
        if self.api:
            return self.api.call("PUT", f"vhosts/{self.vhost}", {})
        self.tool.call("add_vhost", self.vhost)
        return self.tool.call("set_permissions", "-p", self.vhost, self.uri.user, ".*", ".*", ".*")

    def trace(self, on=True):
        if self.api:
            return self.api.call("PUT", f"vhosts/{self.vhost}", {"tracing": on})
        return self.tool.call("trace_on" if on else "trace_off", "-p", self.vhost)

    def remove(self):
        if self.api:
            return self.api.call("DELETE", f"vhosts/{self.vhost}")
        return self.tool.call("delete_vhost", self.vhost)


def connect(uri):
    return pika.BlockingConnection(pika.ConnectionParameters(
        uri.host, uri.port, uri.vhost, pika.PlainCredentials(uri.user, uri.password), socket_timeout=15))


def name_of(connection, uri):
    host, port = connection._impl._transport._sock.getsockname()[:2]
    return f"{host}:{port} -> {uri.host}:{uri.port}"


class Bench:
    """A virtual host with a queue `q`, and ears at its firehose: a connection of their own."""

    def __init__(self, on=True):
        self.admin = Admin()
        self.uri = self.admin.uri
        self.admin.make()
        self.ears = connect(self.uri)
        self.heard = self.ears.channel()
        self.queue = self.heard.queue_declare("", exclusive=True).method.queue
        self.heard.queue_bind(self.queue, TRACE, "#")
        self.connection = connect(self.uri)
        self.channel = self.connection.channel(7)
        self.channel.queue_declare("q", durable=True)
        if on:
            self.admin.trace()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        for connection in (self.connection, self.ears):
            with contextlib.suppress(Exception):
                connection.close()
        self.admin.remove()

    @property
    def name(self):
        return name_of(self.connection, self.uri)

    def send(self, body=b"m", key="q", exchange="", **properties):
        self.channel.basic_publish(exchange, key, body, pika.BasicProperties(**properties))

    def told(self, count=None, quiet_s=0.4, seconds_max=10.0):
        """Traces so far: routing key, headers, body, the message's own properties. Without a count all until it is quiet."""
        told, deadline = [], time.monotonic() + (seconds_max if count else quiet_s)
        while count is None or len(told) < count:
            method, properties, body = self.heard.basic_get(self.queue, auto_ack=True)
            if method is not None:
                told.append((method.routing_key, properties.headers, body, properties))
                deadline = max(deadline, time.monotonic() + quiet_s)
            elif time.monotonic() > deadline:
                break
            else:
                self.ears.sleep(0.02)
        if count is not None:
            equal(len(told), count, f"{[entry[0] for entry in told]}")
        return told

    def got(self):
        def get():
            return self.channel.basic_get("q", auto_ack=True)
        return eventually(lambda: (found := get())[0] and found, "a message")


def of_connection(bench, **more):
    return {"vhost": bench.uri.vhost, "connection": bench.name, "channel": 7, "user": bench.uri.user, **more}


def same(headers, expected):
    node = headers.pop("node")
    equal("@" in node, True, node)
    equal(headers, expected)


@suite.case("publish", "a publish to an exchange", "key `publish.EXCHANGE`; the body; headers exchange_name, "
            "routing_keys, properties, routed_queues, node, vhost, connection, channel, user, and no other property")
def publish():
    with Bench() as bench:
        bench.channel.exchange_declare("ex", "topic")
        bench.channel.queue_bind("q", "ex", "a.#")
        bench.send(b"two", "a.b", "ex")
        [(key, headers, body, properties)] = bench.told(1)
        equal((key, body), ("publish.ex", b"two"))
        same(headers, of_connection(bench, exchange_name="ex", routing_keys=["a.b"], properties={}, routed_queues=["q"]))
        properties.headers = None
        equal(properties == pika.BasicProperties(), True, str(properties))


@suite.case("default", "a publish to the default exchange", "key `publish.`, an empty exchange_name")
def default_exchange():
    with Bench() as bench:
        bench.send()
        [(key, headers, _body, _properties)] = bench.told(1)
        equal((key, headers["exchange_name"], headers["routed_queues"]), ("publish.", "", ["q"]))


@suite.case("unroutable", "a publish that leads nowhere, mandatory or not", "told; of the default exchange with the key in routed_queues, else with none")
def unroutable():
    with Bench() as bench:
        bench.send(key="nowhere")
        bench.channel.basic_publish("amq.direct", "nowhere", b"", mandatory=True)
        equal([(key, headers["routed_queues"]) for key, headers, _body, _properties in bench.told(2)],
              [("publish.", ["nowhere"]), ("publish.amq.direct", [])])


@suite.case("properties", "a publish with every property, headers, CC and BCC", "each under its name in `properties`, "
            "numbers as 32-bit integers; all keys in routing_keys, BCC not among the headers")
def every_property():
    given = {"content_type": "text/plain", "content_encoding": "utf8", "delivery_mode": 2, "priority": 3, "correlation_id": "c",
             "reply_to": "r", "expiration": "60000", "message_id": "m", "timestamp": 1700000000, "type": "t", "app_id": "a",
             "cluster_id": "k"}
    with Bench() as bench:
        given["user_id"] = bench.uri.user
        bench.send(headers={"h": 1, "t": {"x": [1, "2"]}, "CC": ["cc"], "BCC": ["bcc"]}, **given)
        bench.got()
        for headers in [entry[1] for entry in bench.told(2)]:
            kept = {"h": 1, "t": {"x": [1, "2"]}, "CC": ["cc"]}
            equal(headers["properties"], {**given, "headers": kept})
            equal(headers["routing_keys"][:2], ["q", "cc"])


@suite.case("deep", "a publish whose headers are nested deeply", "told, and delivered as it was")
def deep():
    table = {}
    for _ in range(20):
        table = {"t": table}
    with Bench() as bench:
        bench.send(headers=table)
        equal(bench.got()[1].headers, table)
        equal([entry[0] for entry in bench.told(2)], ["publish.", "deliver.q"])
        equal(bench.told(), [])


@suite.case("get", "a message is got, given back and got again", "key `deliver.QUEUE` each time; `redelivered` 0, then 1, "
            "and no routed_queues")
def got():
    with Bench() as bench:
        bench.send(b"one")
        method, _properties, _body = eventually(lambda: (found := bench.channel.basic_get("q"))[0] and found, "a message")
        bench.channel.basic_nack(method.delivery_tag)
        bench.got()
        told = bench.told(3)
        equal([(key, body) for key, _headers, body, _properties in told],
              [("publish.", b"one"), ("deliver.q", b"one"), ("deliver.q", b"one")])
        for redelivered, entry in enumerate(told[1:]):
            same(entry[1], of_connection(bench, exchange_name="", routing_keys=["q"], properties={}, redelivered=redelivered))


@suite.case("consume", "messages are delivered to a consumer, with and without acknowledgement", "each is told of, with "
            "the consumer's connection and channel")
def consumed():
    for auto_ack in (False, True):
        with Bench() as bench:
            for body in (b"1", b"2", b"3"):
                bench.send(body)
            other = connect(bench.uri)
            channel = other.channel(3)
            channel.basic_qos(prefetch_count=1)
            for method, _properties, _body in channel.consume("q", auto_ack=auto_ack, inactivity_timeout=10):
                equal(method is not None, True)
                if not auto_ack:
                    channel.basic_ack(method.delivery_tag)
                if _body == b"3":
                    break
            told = [entry for entry in bench.told(6) if entry[0] == "deliver.q"]
            equal([(body, headers["channel"], headers["connection"]) for _key, headers, body, _properties in told],
                  [(body, 3, name_of(other, bench.uri)) for body in (b"1", b"2", b"3")])
            other.close()


@suite.case("stream", "messages of a stream are delivered to a consumer over AMQP 0-9-1",
            "each is told of, with its `x-stream-offset` among its headers and `redelivered` 0")
def stream():
    with Bench() as bench:
        bench.channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        bench.channel.confirm_delivery()
        for body in (b"1", b"2"):
            bench.send(body, key="s")
        bench.channel.basic_qos(prefetch_count=10)
        for method, _properties, body in bench.channel.consume("s", arguments={"x-stream-offset": "first"},
                                                              inactivity_timeout=10):
            equal(method is not None, True)
            bench.channel.basic_ack(method.delivery_tag)
            if body == b"2":
                break
        told = [entry for entry in bench.told(4) if entry[0] == "deliver.s"]
        equal([(body, headers["redelivered"], headers["properties"]["headers"]["x-stream-offset"], headers["routing_keys"],
                headers["exchange_name"]) for _key, headers, body, _properties in told],
              [(b"1", 0, 0, ["s"], ""), (b"2", 0, 1, ["s"], "")])


@suite.case("live", "tracing begins and ends while a publisher and a consumer are at work", "what comes between is told, "
            "once each; what comes before and after is not, and all is delivered")
def live():
    with Bench(on=False) as bench:
        other = connect(bench.uri)
        channel, taken = other.channel(), []
        channel.basic_consume("q", lambda _c, _m, _p, body: taken.append(body), auto_ack=True)

        def sends(body):
            bench.send(body)
            def arrived():
                other.process_data_events(0.01)
                return body in taken
            eventually(arrived, "the delivery")

        sends(b"before")
        bench.admin.trace()
        sends(b"during")
        bench.admin.trace()
        sends(b"still")
        equal([(key, body) for key, _headers, body, _properties in bench.told(4)],
              [("publish.", b"during"), ("deliver.q", b"during"), ("publish.", b"still"), ("deliver.q", b"still")])
        bench.admin.trace(False)
        sends(b"after")
        equal((bench.told(), taken), ([], [b"before", b"during", b"still", b"after"]))
        other.close()


@suite.case("itself", "what is told is consumed from a queue of the traced virtual host", "of that nothing is told; "
            "a client's publish to `amq.rabbitmq.trace` is refused (403)")
def itself():
    with Bench() as bench:
        bench.send()
        equal([entry[0] for entry in bench.told()], ["publish."])
        channel = bench.connection.channel()
        channel.confirm_delivery()
        try:
            channel.basic_publish(TRACE, "k", b"x")
            raise AssertionError("taken")
        except CLOSED as closed:
            equal(closed.reply_code, 403)
        equal(bench.told(), [])


@suite.case("others", "another virtual host is traced", "nothing is told of this one")
def others():
    with Bench(on=False) as bench, Bench() as traced:
        bench.send()
        bench.got()
        equal((bench.told(), traced.told()), ([], []))


@suite.case("dead-letter", "a message of a traced virtual host is dead-lettered", "its publish and deliveries are told, "
            "the dead letter's own publish is not")
def dead_letter():
    with Bench() as bench:
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
        bench.channel.queue_declare("dying", arguments=arguments)
        bench.send(key="dying", expiration="1")
        bench.got()
        equal([entry[0] for entry in bench.told(2)], ["publish.", "deliver.q"])
        equal(bench.told(), [])


@suite.case("amqp10", "a message is sent and received over AMQP 1.0", "told in 0-9-1's terms: properties, annotations "
            "and application properties as 0-9-1 clients see them, the data section as the body")
def amqp10():
    with Bench() as bench:
        uri = bench.uri
        user = f"{urllib.parse.quote(uri.user)}:{urllib.parse.quote(uri.password)}"
        connection = BlockingConnection(f"amqp://{user}@{uri.host}:{uri.port}", timeout=20,
                                        virtual_host=f"vhost:{uri.vhost}", allowed_mechs="PLAIN")
        sender = connection.create_sender("/queues/q")
        message = Message(body=b"ten", durable=True, id="i", subject="s", content_type="text/plain", properties={"p": "v"})
        message.inferred = True
        sender.send(message)
        receiver = connection.create_receiver("/queues/q", credit=1)
        received = receiver.receive(timeout=20)
        equal(bytes(received.body), b"ten")
        receiver.accept()
        told = bench.told(2)
        connection.close()
        equal([(key, bytes(body)) for key, _headers, body, _properties in told], [("publish.", b"ten"), ("deliver.q", b"ten")])
        for _key, headers, _body, _properties in told:
            equal(headers["properties"], {"delivery_mode": 2, "content_type": "text/plain", "message_id": "i", "headers": {
                "p": "v", **({"x-basic-subject": "s"} if "x-basic-subject" in headers["properties"]["headers"] else {})}})
            equal((headers["channel"], headers["user"], headers["routing_keys"]), (0, uri.user, ["q"]))
        equal(told[1][1]["redelivered"], 0)


@suite.case("restart", "the broker restarts", "tracing is off; list_vhosts says so in `tracing`")
def restart():
    if not suite.options.broker:
        raise Skip("needs --broker")
    broker = Broker(suite.options.broker)

    def tool(*words):
        command = [broker.binary, "ctl", "--data-dir", os.path.join(broker.folder, "data"), *words]
        return subprocess.run(command, check=True, capture_output=True, timeout=20, text=True).stdout

    try:
        broker.start()
        equal(tool("trace_on"), 'Starting tracing for vhost "/" ...\nTrace enabled for vhost /\n')
        equal(tool("-q", "list_vhosts", "name", "tracing").split(), ["name", "tracing", "/", "true"])
        equal(broker.stop(), 0)
        broker.start()
        equal(tool("-q", "list_vhosts", "name", "tracing").split(), ["name", "tracing", "/", "false"])
        equal(tool("-q", "trace_off"), "Trace disabled for vhost /\n")
    finally:
        broker.close()


def options(parser):
    parser.add_argument("--broker", default="", help="a leveret to start")


if __name__ == "__main__":
    suite.main(options)
