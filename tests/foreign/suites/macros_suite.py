"""Macros of expressions, parameters of a virtual host (`filter-macro`): wherever expressions are, and what keeps one from changing.

RabbitMQ knows no such component: there the cases are skipped. A broker of our own is started, with its HTTP API.
"""

import asyncio
import json
import subprocess
import time

from proton.reactor import Selector
from rstream import Consumer as StreamConsumer
from rstream import ConsumerOffsetSpecification, OffsetType, amqp_decoder

from lab.broker import Broker
from lab.cases import Skip, Suite, Uri, equal
from suites import pika_bench, proton_bench
from suites.management_suite import HTTP, Api
from suites.pika_bench import Consumer
from suites.queue_bench import BOTH, CLASSIC, Bench, refusal
from suites.streams_content import SQL

suite = Suite("macros")
pika_bench.suite = suite
proton_bench.suite = suite
SETTINGS = ["management.tcp.ip=127.0.0.1", "management.tcp.port=0", "stream.listeners.tcp.1=127.0.0.1:0"]
MACROS = {
    "big": {"parameters": ["low"], "expression": "/qty * /price > low"},
    "huge": {"parameters": [], "expression": "big(1000)"},
    "traded_at": {"parameters": ["venue"], "expression": "/legs/venue LIKE venue"},
}
ORDERS = [
    {"qty": 10, "price": 5, "legs": [{"venue": "XNYS"}], "number": 0},
    {"qty": 10, "price": 500, "legs": [{"venue": "BATS"}], "number": 1},
    {"qty": 1, "price": 120, "legs": [{"venue": "XNYS"}, {"venue": "BATS"}], "number": 2},
    {"price": 5000, "legs": [], "number": 3},
]
# Expressions, and the orders of which they are true.
EXPRESSIONS = [
    ("big(100)", (1, 2)),
    ("BIG(60 * 2) OR traded_at('X%')", (0, 1, 2)),
    ("huge() AND NOT traded_at('X%')", (1,)),
    ("big(100) IS UNKNOWN", (3,)),
    ("CASE WHEN huge() THEN 'h' WHEN big(100) THEN 'b' ELSE 's' END = 'b'", (2,)),
]


class Desk(Bench):
    """A desk at a broker of its own, with the macros and the HTTP API."""

    def __init__(self):
        if not suite.options.broker:
            raise Skip("needs a broker of ours (--broker)")
        self.broker, self.before = Broker(suite.options.broker, SETTINGS), suite.uri
        self.start()
        for name, value in MACROS.items():
            equal(self.set(name, value), (201, None), name)

    def start(self):
        self.broker.start()
        suite.uri = Uri(self.broker.uri)
        self.api = Api("127.0.0.1", self.broker.port_of(HTTP, "HTTP"), self.broker.uri)
        super().__init__()

    def again(self, kill):
        self.connection.close()
        self.broker.kill() if kill else self.broker.stop()
        self.start()

    def __exit__(self, *_error):
        suite.uri = self.before
        self.broker.close()

    def asked(self, method, path, body=None):
        """Status and reason."""
        status, _, value = self.api.ask(method, path, body)
        return status, value["reason"] if isinstance(value, dict) and "reason" in value else None

    def set(self, name, value, vhost="%2F"):
        return self.asked("PUT", f"/parameters/filter-macro/{vhost}/{name}", {"value": value})

    def clear(self, name):
        return self.asked("DELETE", f"/parameters/filter-macro/%2F/{name}")

    def used(self, name, user):
        """It is neither changed nor cleared, for the sake of this user; the same again is no change."""
        told = (409, f"macro '{name}' in vhost '/' is used by {user}")
        equal(self.set(name, {"expression": "FALSE"}), told)
        equal(self.clear(name), told)
        equal(self.set(name, MACROS[name]), (204, None))

    def ctl(self, *words):
        folder = f"{self.broker.folder}/data"
        return subprocess.run([self.broker.binary, "ctl", "--data-dir", folder, *words], capture_output=True, text=True,
                              check=False, timeout=20)

    def send_orders(self, queue, exchange=""):
        self.send(queue, *[json.dumps(order).encode() for order in ORDERS], exchange=exchange)

    def empty(self, *queues):
        """What was taken just before a kill may come again."""
        for queue in queues:
            self.channel.queue_purge(queue)

    def numbers(self, queue, count):
        self.becomes(queue, count)
        return tuple(json.loads(body)["number"] for body in self.bodies(queue, count))

    def consumed(self, queue, expression, count, stream=False):
        """The numbers of the orders that a consumer is given, of which there are so many."""
        channel = self.connection.channel()
        channel.basic_qos(prefetch_count=10)
        consumer = Consumer(channel, queue, arguments={"x-filter": expression, **({"x-stream-offset": "first"} if stream else {})})
        consumer.wait(count)
        self.connection.process_data_events(0.1)
        channel.close()
        return tuple(json.loads(body)["number"] for body in consumer.bodies)


def case(name, behaviour, answer, **options):
    def register(function):
        def act():
            with Desk() as desk:
                function(desk)
        suite.add(name, behaviour, answer, act, **options)
        return function
    return register


@case("bindings", "bindings of a topic and an x-content exchange by expressions with macros; the broker is stopped, and killed",
      "each queue gets the messages of which its expression is true, before and after", seconds_max=60)
def _(desk):
    exchange, topic = desk.exchange("x-content"), desk.exchange("topic")
    desk.channel.exchange_bind(topic, exchange, "", {"x-filter": "big(0) OR NOT big(0) OR TRUE"})
    queues = [desk.queue() for _ in EXPRESSIONS]
    other = desk.queue()
    for queue, (expression, _expected) in zip(queues, EXPRESSIONS, strict=True):
        desk.channel.queue_bind(queue, exchange, "", {"x-filter": expression})
    desk.channel.queue_bind(other, topic, "#", {"x-filter": "traded_at('BATS')"})
    for kill in (None, False, True):
        if kill is not None:
            desk.again(kill)
            desk.empty(*queues, other)
        desk.send_orders("", exchange)
        for queue, (expression, expected) in zip(queues, EXPRESSIONS, strict=True):
            equal(desk.numbers(queue, len(expected)), expected, expression)
        equal(desk.numbers(other, 2), (1, 2))
    equal(refusal(lambda: desk.channel.queue_bind(other, exchange, "", {"x-filter": "a = 1 AND bigger(1)"})),
          (406, "PRECONDITION_FAILED - invalid arg 'x-filter': at byte 10: bigger is no function"))


@case("queues", "x-priority-expression, x-barrier-expression and x-source-filter with macros; the broker is killed",
      "messages are ranked and fed by them, before and after; each keeps its macro as it is", seconds_max=60)
def _(desk):
    stream = desk.queue(arguments={"x-queue-type": "stream"})
    for kind in BOTH:
        ranked = desk.make(kind, x_priority_expression="CASE WHEN huge() THEN 9 WHEN big(100) THEN 5 END")
        fed = desk.make(kind, x_source_stream=stream, x_source_filter="traded_at('X%')")
        barred = desk.make(kind, x_barrier_expression="huge()")
        for again in (False, True):
            if again:
                desk.again(kill=True)
                desk.empty(ranked, fed)
            desk.send_orders(ranked)
            equal(desk.numbers(ranked, 4), (1, 2, 0, 3), kind)
            desk.send_orders(stream)
            equal(desk.numbers(fed, 2), (0, 2), kind)
        desk.used("traded_at", f"queue '{fed}'")
        desk.used("huge", f"queue '{ranked}'")
        desk.channel.queue_delete(ranked)
        desk.used("huge", f"queue '{barred}'")
        for queue in (fed, barred):
            desk.channel.queue_delete(queue)
        stream = desk.queue(arguments={"x-queue-type": "stream"})
    desk.used("big", "macro 'huge'")
    equal(desk.clear("huge"), (204, None))
    equal(desk.set("big", {"expression": "FALSE"}), (204, None))
    for name in ("x-priority-expression", "x-barrier-expression"):
        told = refusal(lambda name=name: desk.connection.channel().queue_declare(
            pika_bench.fresh("queue"), durable=True, arguments={name: "bigger(1)"}))
        assert told[0] == 406 and told[1].endswith("at byte 0: bigger is no function"), told


@case("consumers", "consumers of queues over 0-9-1 (x-filter) and receivers over 1.0 (amqp:sql-filter, selectors of JMS), by expressions with "
      "macros", "each is given those of which its expression is true; it keeps the macro that it attached with, and does not count as a user",
      seconds_max=60)
def _(desk):
    for kind in BOTH:
        for expression, expected in EXPRESSIONS:
            queue = desk.make(kind)
            desk.send_orders(queue)
            equal(desk.consumed(queue, expression, len(expected)), expected, expression)
        queue = desk.make(kind)
        desk.send_orders(queue)
        channel = desk.connection.channel()
        told = refusal(lambda: Consumer(channel, queue, arguments={"x-filter": "big()"}))
        equal(told, (406, f"PRECONDITION_FAILED - invalid arg 'x-filter' for queue '{queue}' in vhost '/': at byte 0: big takes 1 arguments"))
        connection = proton_bench.connect()
        for options in (proton_bench.Wants({"sql-filter": (SQL, "big(100)")}), Selector("Big(JMSPriority * 25)")):
            receiver = proton_bench.Receiver(connection, queue, 10, options=options)
            equal([json.loads(proton_bench.body_of(receiver.receive()))["number"] for _ in range(2)], [1, 2])
            receiver.blocking.close()
        connection.close()
    queue = desk.make(CLASSIC)
    consumer = Consumer(desk.connection.channel(), queue, arguments={"x-filter": "traded_at('B%')"})
    equal(desk.set("traded_at", {"expression": "FALSE"}), (204, None))
    equal(desk.clear("traded_at"), (204, None))
    desk.send_orders(queue)
    consumer.wait(2)
    equal([json.loads(body)["number"] for body in consumer.bodies], [1, 2])


@case("streams", "readers of a stream over 0-9-1, 1.0 and the stream protocol, by expressions with macros",
      "each is given those of which its expression is true", seconds_max=60)
def _(desk):
    stream = desk.queue(arguments={"x-queue-type": "stream"})
    desk.send_orders(stream)
    for expression, expected in EXPRESSIONS:
        equal(desk.consumed(stream, expression, len(expected), stream=True), expected, expression)
    with proton_bench.Bench() as bench:
        wants = proton_bench.Wants({"sql-filter": (SQL, "huge() OR OFFSET() = 0"), "rabbitmq:stream-offset-spec": ("rabbitmq:stream-offset-spec", "first")})
        receiver = bench.receiver(stream, credit=10, options=wants)
        equal([json.loads(proton_bench.body_of(receiver.receive()))["number"] for _ in range(2)], [0, 1])

    async def chunks(wanted):
        # A chunk of which nothing is wanted is not sent; one comes whole.
        taken = []
        consumer = StreamConsumer(host=suite.uri.host, port=desk.broker.stream_port(), username="guest", password="guest")
        await consumer.start()
        await consumer.subscribe(stream, lambda message, _context: taken.append(message), decoder=amqp_decoder,
                                 offset_specification=ConsumerOffsetSpecification(OffsetType.FIRST, None), properties={"x-filter": wanted})
        await asyncio.sleep(0.3)
        await consumer.close()
        return len(taken)

    equal(asyncio.run(chunks("big(1000000)")), 0)
    assert asyncio.run(chunks("huge()")) > 0


@case("http", "filter check, messages that are looked for, moved and settled over HTTP, by expressions with macros; ctl; another virtual host",
      "macros of the virtual host are expanded; the answer has none of them")
def _(desk):
    told = desk.api.ask("POST", "/x/filter/check", {"filter": "huge() OR traded_at('X%')", "payload": json.dumps(ORDERS[0])})[2]
    equal(told, {"filter": "body.qty * body.price > 1000 OR body.legs.venue LIKE 'X%'", "reads": ["body.qty", "body.price", "body.legs.venue"],
                 "class": "stable", "matches": True})
    equal(desk.asked("POST", "/x/filter/check", {"filter": "a AND big(1, 2)"}), (400, "filter: at byte 6: big takes 1 arguments"))
    equal(desk.api.status("PUT", "/vhosts/other"), 201)
    equal(desk.asked("POST", "/x/filter/check", {"filter": "huge()", "vhost": "other"}), (400, "filter: at byte 0: huge is no function"))
    equal(desk.api.status("POST", "/x/filter/check", {"filter": "a", "vhost": "none"}), 404)
    equal(desk.set("huge", {"expression": "/size > 5"}, "other"), (201, None))
    equal(desk.api.ask("POST", "/x/filter/check", {"filter": "huge()", "vhost": "other"})[2]["filter"], "body.size > 5")
    queue, target = desk.make(CLASSIC), desk.make(CLASSIC)
    desk.send_orders(queue)
    where = f"/x/queues/%2F/{queue}"
    found = desk.api.get(f"{where}/messages?where=big(100)")
    equal([json.loads(message["payload"])["number"] for message in found["messages"]], [1, 2])
    equal(desk.api.status("POST", f"{where}/move", {"where": "huge()", "exchange": "", "routing_key": target}), 200)
    equal(desk.numbers(target, 1), (1,))
    equal(desk.api.status("POST", f"{where}/settle", {"where": "traded_at('BATS')", "outcome": "accepted"}), 200)
    equal(desk.numbers(queue, 2), (0, 3))
    told = desk.ctl("-q", "check_filter", "huge()")
    equal((told.returncode, told.stdout.splitlines()[0]), (0, "filter: body.qty * body.price > 1000"))
    equal(desk.ctl("-q", "check_filter", "huge()", "-p", "other").stdout.splitlines()[0], "filter: body.size > 5")
    told = desk.ctl("-q", "clear_parameter", "filter-macro", "big")
    assert told.returncode != 0 and "macro 'big' in vhost '/' is used by macro 'huge'" in told.stderr, told
    equal(desk.ctl("-q", "set_parameter", "filter-macro", "small", '{"expression": "NOT big(100)"}').returncode, 0)
    told = desk.ctl("-q", "set_parameter", "filter-macro", "wrong", '{"expression": "NOT bigger(100)"}')
    assert told.returncode != 0 and "macro 'wrong': at byte 4: bigger is no function" in told.stderr, told


@case("refused", "macros with wrong names, parameters and expressions, deeper than 16, more than 250",
      "400 with what is wrong and where")
def _(desk):
    for name, value, why in (
            ("upper", {"expression": "1"}, "upper is a word or a function of the language"),
            ("a-b", {"expression": "1"}, "'a-b' is no name: it takes a letter, then letters, digits and underscores"),
            ("m", {}, "expression is to be a text"),
            ("m", [], "it is to be an object"),
            ("m", {"expression": "1", "more": 1}, "more is no key of a macro: it has expression and parameters"),
            ("m", {"expression": "1", "parameters": "x"}, "parameters are to be a list of texts"),
            ("m", {"expression": "1", "parameters": ["x", "x"]}, "two parameters have the name x"),
            ("m", {"expression": "a = "}, "at byte 4: a value expected"),
            ("m", {"expression": "m()"}, "at byte 0: m is no function")):
        equal(desk.set(name, value), (400, f"Validation failed\n\nmacro '{name}': {why}\n"))
    equal(desk.set("BIG", MACROS["big"]), (400, "macro 'big' in vhost '/' is there already"))
    equal(desk.set("m1", {"expression": "1"}), (201, None))
    for level in range(2, 17):
        equal(desk.set(f"m{level}", {"expression": f"m{level - 1}()"}), (201, None))
    status, why = desk.set("m17", {"expression": "m16()"})
    assert status == 400 and "more than 16 macros within one another" in why, why
    # Each doubles its argument: what it would be expanded to is refused, and takes no time.
    equal(desk.set("d1", {"parameters": ["x"], "expression": "x + x"}), (201, None))
    for level in range(2, 15):
        status, why = desk.set(f"d{level}", {"parameters": ["x"], "expression": f"d{level - 1}(x) + d{level - 1}(x)"})
        if status != 201:
            break
    begin = time.monotonic()
    told = desk.asked("POST", "/x/filter/check", {"filter": f"d{level - 1}(d5(d5(1))) > 0"})
    assert told[0] == 400 and "more than 4096 tokens" in told[1], told
    assert time.monotonic() - begin < 1
    for number in range(250 - len(desk.api.get("/parameters/filter-macro"))):
        equal(desk.set(f"n{number}", {"expression": "1"}), (201, None))
    equal(desk.set("one_more", {"expression": "1"}), (400, "vhost '/' has as many macros as it may: 250"))


@case("used", "macros that bindings, queues and other macros use are set and cleared, again after a kill; definitions that change one",
      "409 with one that uses it; definitions are refused with its name; what used it goes, and it may change", seconds_max=60)
def _(desk):
    exchange, queue = desk.exchange("x-content"), desk.queue()
    for expression in ("traded_at('X%')", "traded_at('B%')"):
        desk.channel.queue_bind(queue, exchange, "", {"x-filter": expression})
    user = f"a binding from exchange '{exchange}' to queue '{queue}'"
    desk.used("traded_at", user)
    desk.again(kill=True)
    desk.used("traded_at", user)
    desk.used("big", "macro 'huge'")
    changed = {"parameters": [{"vhost": "/", "component": "filter-macro", "name": "traded_at", "value": {"expression": "1"}}]}
    status, _, value = desk.api.ask("POST", "/definitions", changed)
    assert status == 400 and f"macro 'traded_at' in vhost '/' is used by {user}" in json.dumps(value), value
    desk.channel.queue_unbind(queue, exchange, "", {"x-filter": "traded_at('X%')"})
    desk.used("traded_at", user)
    desk.channel.exchange_delete(exchange)
    equal(desk.set("traded_at", {"expression": "TRUE"}), (204, None))
    equal(desk.clear("traded_at"), (204, None))
    equal(desk.clear("traded_at")[0], 404)
    # Those of a virtual host go with it.
    equal(desk.api.status("PUT", "/vhosts/other"), 201)
    equal(desk.set("mine", {"expression": "1"}, "other"), (201, None))
    equal(desk.api.status("DELETE", "/vhosts/other"), 204)
    equal(desk.api.status("PUT", "/vhosts/other"), 201)
    equal(desk.api.get("/parameters/filter-macro/other"), [])


@case("definitions", "definitions with macros that use one another, in the order of their names, bindings and queues that use them; exported, and "
      "imported into an empty broker and into a virtual host", "all is there again, and routes as before", seconds_max=60)
def _(desk):
    equal(desk.set("a_first", {"parameters": ["x"], "expression": "huge() OR traded_at(x)"}), (201, None))
    exchange, queue = "macro-orders", "macro-queue"
    ranked = "macro-ranked"
    desk.channel.exchange_declare(exchange, "x-content", durable=True)
    desk.channel.queue_declare(queue, durable=True)
    desk.channel.queue_declare(ranked, durable=True, arguments={"x-priority-expression": "CASE WHEN a_first('none') THEN 1 END"})
    desk.channel.queue_bind(queue, exchange, "", {"x-filter": "a_first('X%') AND big(60)"})
    desk.channel.queue_bind(ranked, exchange, "")
    exported = desk.api.get("/definitions")
    names = [row["name"] for row in exported["parameters"]]
    assert names == ["a_first", "big", "huge", "traded_at"], names
    own = desk.api.get("/definitions/%2F")
    with Desk() as other:
        for name in ("huge", "big", "traded_at"):
            equal(other.clear(name), (204, None))
        equal(other.asked("POST", "/definitions", exported), (204, None))
        other.send_orders("", exchange)
        equal(other.numbers(queue, 2), (1, 2))
        equal(other.numbers(ranked, 4), (1, 0, 2, 3))
        equal(other.asked("POST", "/definitions", exported), (204, None))
        equal(other.api.status("PUT", "/vhosts/other"), 201)
        equal(other.asked("POST", "/definitions/other", own), (204, None))
        equal(len(other.api.get("/parameters/filter-macro/other")), 4)
        equal(len(other.api.get(f"/exchanges/other/{exchange}/bindings/source")), 2)
        missing = {"parameters": [row for row in exported["parameters"] if row["name"] != "huge"]}
        equal(other.api.status("PUT", "/vhosts/third"), 201)
        status, _, value = other.api.ask("POST", "/definitions/third", missing)
        told = json.dumps(value)
        assert status == 400 and "'a_first' of component 'filter-macro'" in told and "huge is no function" in told, told
        equal(other.api.get("/parameters/filter-macro/third"), [])


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default="", help="a leveret to start"))
