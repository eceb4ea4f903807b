"""Readers of streams that say what is to be in the body: over both AMQPs, and queues filled so."""

import json
import time

from proton import Message, symbol
from proton.reactor import Selector

from lab.cases import equal, eventually
from suites import proton_bench
from suites.pika_bench import Consumer, Desk, fresh
from suites.queue_bench import refusal

ORDERS = [
    {"symbol": "IBM", "price": 120.5, "desk": "rates", "legs": [{"venue": "XNYS"}, {"venue": "BATS"}], "tags": ["algo"]},
    {"symbol": "AAPL", "price": 90, "desk": None, "legs": [], "note": "say \"hello\" \u00f6\n"},
    {"symbol": "IBM", "price": 80, "legs": [{"venue": "EDGX", "qty": 7}], "tags": ["algo", "vwap"], "open": True},
]

# Expressions, and the orders of which they are true.
EXPRESSIONS = [
    ("body.symbol = 'IBM'", (0, 2)),
    ("/symbol = 'IBM' AND /price < 100", (2,)),
    ("body.price * 2 > 170", (0, 1)),
    ("body.legs.venue = 'BATS'", (0,)),
    ("body.legs[0].qty = 7", (2,)),
    ("body.legs.venue IN ('BATS', 'EDGX')", (0, 2)),
    ("NOT body.legs.venue = 'BATS'", (1, 2)),
    ("body.tags = 'vwap' OR body.desk = 'rates'", (0, 2)),
    ("body.desk IS NULL", (1, 2)),
    ("body.desk = 'rates' IS UNKNOWN", (1, 2)),
    ("EXISTS(body.legs)", (0, 1, 2)),
    ("body.open", (2,)),
    ("body.price BETWEEN 80 AND 90", (1, 2)),
    ("REGEXP_LIKE(body.symbol, '^a', 'i')", (1,)),
    ("CONTAINS(body.note, '\"hello\" \u00f6')", (1,)),
    ("LOWER(body.symbol) = 'ibm' AND kind = 'k2'", (2,)),
    ("CASE WHEN body.price > 100 THEN 'large' ELSE 'small' END = 'large'", (0,)),
    ("ARRAY_LENGTH(body.legs) = 0", (1,)),
    ("body.nothing = 1 OR NOT body.nothing = 1", ()),
    ("annotations['x-exchange'] = ''", (0, 1, 2)),
]

# Where messages are, and where they came from: one to the stream's name, two through an exchange of topics.
WHERE = [
    ("EXCHANGE() = ''", (0,)),
    ("EXCHANGE() = '{exchange}' AND ROUTING_KEY() LIKE 'orders.%'", (1, 2)),
    ("ROUTING_KEY() = '{stream}'", (0,)),
    ("TOPIC_MATCH('orders.*.#')", (1, 2)),
    ("TOPIC_MATCH('orders.*')", (2,)),
    ("TOPIC_MATCH('#.eu.*') OR ROUTING_KEY() IS NULL", (1,)),
    ("SIZE() BETWEEN 2 AND 3", (1, 2)),
    ("OFFSET() % 2 = 0 AND DURABLE()", (0, 2)),
    ("RECEIVED() BETWEEN UTC() - 600000 AND UTC() + 60000", (0, 1, 2)),
    ("RECEIVED() < 1000000000000 OR REDELIVERED() OR DELIVERIES() > 0", ()),
    ("USER() = '{user}' AND VHOST() = '{vhost}' AND CLAIM('sub') IS NULL", (0, 1, 2)),
    ("REGEXP_REPLACE(ROUTING_KEY(), '[.].*', '') = 'orders' AND SIZE() = 3", (2,)),
]

# Selectors of JMS on two messages.
SELECTORS = [
    ("JMSPriority > 4", (0,)),
    ("JMSPriority = 4 and not region = 'eu'", (1,)),
    ("JMSType = 'order' And region In ('eu', 'us')", (0,)),
    ("JMSMessageID = 'ID:2' or amqp.message_id = 'ID:3'", (1,)),
    ("JMSDeliveryMode = 'PERSISTENT'", (0,)),
    ("amqp.delivery_mode = 'NON_PERSISTENT' AND amqp.subject LIKE 'q%'", (1,)),
    ("JMSCorrelationID IS NOT NULL", (0,)),
    ("JMSXGroupID = 'g' AND JMSXGroupSeq BETWEEN 1 AND 2", (0,)),
    ("JMSTimestamp < 2000000 AND JMSReplyTo LIKE '/queues/%'", (1,)),
    ("NOT JMSRedelivered AND JMSXDeliveryCount = 1", (0, 1)),
    ("JMSDeliveryMode IS NULL OR body.open", ()),
]

SQL = "amqp:sql-filter"
SELECTOR = "apache.org:selector-filter:string"
SELECTOR_CODE = 0x0000468C00000004
BAD = ("body.price > > 3", "at byte 13: a value expected")
CHARACTERS_MAX = 65_536


def of_length(length):
    return "body.symbol = 'IBM'" + " " * (length - 19)


def add(suite, streams, seen10):
    """Registers them; `streams` is a desk for streams, `seen10` what a receiver with filters gets."""

    def filled(desk):
        stream = desk.stream()
        for number, order in enumerate(ORDERS):
            desk.send(stream, json.dumps(order).encode(), headers={"kind": f"k{number}"})
        return stream

    def numbers(seen):
        return tuple(offset for offset, _body in seen)

    def routed(desk):
        """A stream with one message by its name and two by an exchange, and what stands for names in expressions."""
        stream, exchange = desk.stream(), desk.exchange("topic")
        desk.channel.queue_bind(stream, exchange, "#")
        desk.send(stream, b"1")
        desk.send("orders.eu.new", b"22", exchange=exchange)
        desk.send("orders.us", b"333", exchange=exchange)
        return stream, {"stream": stream, "exchange": exchange, "user": suite.uri.user, "vhost": suite.uri.vhost}

    def check091(desk, stream, expression, expected):
        channel = desk.connection.channel()
        channel.basic_qos(prefetch_count=10)
        reader = Consumer(channel, stream, arguments={"x-stream-offset": "first", "x-filter": expression})
        if expected:
            reader.wait(len(expected))
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            desk.connection.process_data_events(0.02)
        seen = tuple(properties.headers["x-stream-offset"] for _m, properties, _b in reader.deliveries)
        equal(seen, expected, expression)
        channel.close()

    @suite.case("content.091", "consumers over 0-9-1 with x-filter on bodies of JSON, twenty expressions",
                "ours alone: each gets the messages of which its expression is true, and no others")
    def _():
        with streams() as desk:
            stream = filled(desk)
            for expression, expected in EXPRESSIONS:
                check091(desk, stream, expression, expected)

    @suite.case("content.where.091", "consumers over 0-9-1 that ask for exchange, key, topic, size, offset, time, and their own user",
                "ours alone: each gets the messages of which its expression is true; STATE() is refused by name, and of a source USER() too")
    def _():
        with streams() as desk:
            stream, names = routed(desk)
            for expression, expected in WHERE:
                check091(desk, stream, expression.format(**names), expected)
            channel = desk.connection.channel()
            channel.basic_qos(prefetch_count=10)
            code, text = refusal(lambda: Consumer(channel, stream, arguments={"x-filter": "a = 1 OR STATE() = 'ready'"}))
            equal((code, "at byte 9: STATE() is not known here" in text), (406, True), text)
            with Desk() as other:
                arguments = {"x-source-stream": stream, "x-source-filter": "owner = USER()"}
                code, text = refusal(lambda: other.channel.queue_declare(fresh("queue"), durable=True, arguments=arguments))
                equal((code, "at byte 8: USER() is not known here" in text), (406, True), text)
            arguments = {"x-source-stream": stream, "x-source-offset": "first", "x-source-filter": "TOPIC_MATCH('#.us') AND OFFSET() = 2"}
            queue = desk.queue(arguments=arguments)
            eventually(lambda: desk.count(queue) == 1, "one by its key")

    @suite.case("content.where.10", "receivers over 1.0 with amqp:sql-filter that ask for the same",
                "ours alone: those of which it is true; a filter that asks for STATE() is not in place")
    def _():
        with streams() as desk:
            stream, names = routed(desk)
            for expression, expected in [*WHERE, ("CLIENT_ID() IS NOT NULL AND OFFSET() = 1", (1,))]:
                expression = expression.format(**names)
                seen, in_place = seen10(stream, len(expected), {"sql-filter": (SQL, expression)})
                equal((numbers(seen), in_place), (expected, ["offset", "sql-filter"]), expression)
            seen, in_place = seen10(stream, 3, {"sql-filter": (SQL, "STATE() = 'ready'")})
            equal((numbers(seen), in_place), ((0, 1, 2), ["offset"]))

    @suite.case("content.jms", "receivers of a stream with selectors of JMS, by name, by code and by the client's own option",
                "ours alone: names of JMS and of Qpid are fields; one with a fault, or of a text that is no selector, is not in place")
    def _():
        with proton_bench.Bench() as bench, streams() as desk:
            stream = desk.stream()
            sender = bench.sender(stream)
            sender.send(Message(body="a", id="ID:1", subject="order", priority=7, durable=True, correlation_id="c-1", group_id="g",
                                group_sequence=1, properties={"region": "eu"}))
            sender.send(Message(body="b", id="ID:2", subject="quote", durable=False, creation_time=1000, reply_to="/queues/x",
                                properties={"region": "us"}))
            for number, (expression, expected) in enumerate(SELECTORS):
                descriptor = SELECTOR_CODE if number % 2 else SELECTOR
                seen, in_place = seen10(stream, len(expected), {"jms-selector": (descriptor, expression)})
                equal((numbers(seen), in_place), (expected, ["jms-selector", "offset"]), expression)
            for descriptor, expression in ((SELECTOR, "JMSType = "), (SELECTOR, 5), (SQL, "JMSType = 'order'")):
                seen, in_place = seen10(stream, 2, {"jms-selector": (descriptor, expression)})
                equal((numbers(seen), in_place), ((0, 1), ["offset"]), expression)
            receiver = bench.receiver(stream, credit=10, options=Selector("JMSType = 'order' AND OFFSET() > 1"))
            for subject in ("quote", "order"):
                sender.send(Message(body=subject, subject=subject))
            message = receiver.receive()
            equal((message.subject, message.annotations[symbol("x-stream-offset")]), ("order", 3))

    @suite.case("content.10", "receivers over 1.0 with amqp:sql-filter on bodies: JSON, maps of AMQP, sequences, text",
                "ours alone: those of which it is true")
    def _():
        with proton_bench.Bench() as bench, streams() as desk:
            stream = filled(desk)
            sender = bench.sender(stream)
            sender.send(Message(body={"symbol": "IBM", "price": 5, "legs": [{"venue": "BATS"}], 55: "tag"}))
            sender.send(Message(body=["IBM", {"price": 7}]))
            sender.send(Message(body=json.dumps({"symbol": "IBM"})))
            sender.send(Message(body=b'{"symbol": "IBM"}', inferred=True, content_encoding="gzip"))
            for expression, expected in (("body.symbol = 'IBM'", (0, 2, 3)), ("body.legs.venue = 'BATS'", (0, 3)), ("/55 = 'tag'", (3,)),
                                         ("body[0] = 'IBM' AND body.price = 7", (4,)), ("body[1].price = 7", (4,)),
                                         ("body.price = 5", (3,)), ("body.symbol IS NULL", (4, 5))):
                seen, in_place = seen10(stream, len(expected), {"sql-filter": (SQL, expression)})
                equal((numbers(seen), in_place), (expected, ["offset", "sql-filter"]), expression)

    @suite.case("content.refused", "x-filter with a fault, of another type, too long",
                "ours alone: 406 with the place of the fault, the channel alone is closed")
    def _():
        def consumed(value):
            with streams() as desk:
                stream = desk.stream()
                channel = desk.connection.channel()
                channel.basic_qos(prefetch_count=10)
                code, text = refusal(lambda: Consumer(channel, stream, arguments={"x-filter": value}))
                equal(desk.connection.is_open, True)
                return code, text.replace(stream, "Q")

        invalid = "PRECONDITION_FAILED - invalid arg 'x-filter' for queue 'Q' in vhost '/'"
        equal(consumed(BAD[0]), (406, f"{invalid}: {BAD[1]}"))
        equal(consumed(5), (406, f"{invalid}: it is to be an expression"))
        equal(consumed(of_length(CHARACTERS_MAX + 1)), (406, f"{invalid}: at byte {CHARACTERS_MAX}: more than {CHARACTERS_MAX} characters"))

    @suite.case("content.source", "a queue filled from a stream by what is in the bodies, past and to come; an expression with a fault",
                "ours alone: it holds those; 406 with the place")
    def _():
        with streams() as desk:
            stream = filled(desk)
            arguments = {"x-source-stream": stream, "x-source-offset": "first", "x-source-filter": "body.legs.venue = 'EDGX'"}
            queue = desk.queue(arguments=arguments)
            eventually(lambda: desk.count(queue) == 1, "one of the past")
            desk.send(stream, json.dumps(ORDERS[2]).encode(), json.dumps(ORDERS[0]).encode())
            eventually(lambda: desk.count(queue) == 2, "one more")
            with Desk() as other:
                arguments["x-source-filter"] = BAD[0]
                code, text = refusal(lambda: other.channel.queue_declare(fresh("queue"), durable=True, arguments=arguments))
                equal((code, BAD[1] in text), (406, True), text)

    @suite.case("content.hostile", "bodies that are cut off, nested 100,000 deep, of a million brackets, with one member a million times",
                "ours alone: unknown where they cannot be read; the reader and the node go on")
    def _():
        with streams() as desk:
            stream = desk.stream()
            deep = b'{"a":' * 100_000
            bodies = (b'{"a":1,"b":', b"{" * 1_000_000, deep, b"[" + b'{"a":2},' * 120_000 + b'{"a":1}]', b'{"x":[1,2,,],"a":1}',
                      b'{"a":"\\ud800"}', b"\xff\xfe{", b'{"a":1}')
            desk.send(stream, *bodies)
            equal(numbers(desk.read(stream, 3, **{"x_filter": "body.a = 1"})), (0, 4, 7))
            # Nothing is known of what stands behind the first thousand values, and of what cannot be read.
            equal(numbers(desk.read(stream, 0, **{"x_filter": "body.a IS NULL"})), ())
