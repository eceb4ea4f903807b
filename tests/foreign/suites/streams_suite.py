"""Streams over both AMQPs: declaring them, reading from anywhere, filters; with pika and proton."""

import datetime
import time

import pika
from proton import Message, symbol, timestamp, ulong
from proton.utils import LinkDetached

from lab.cases import Skip, Suite, Uri, equal, eventually
from suites import pika_bench, proton_bench, streams_beyond, streams_content
from suites.pika_bench import Consumer, Desk, fresh
from suites.queue_bench import needs_broker, refusal

suite = Suite("streams")
pika_bench.suite = suite
proton_bench.suite = suite

TYPE = {"x-queue-type": "stream"}
OFFSET, FILTER, UNFILTERED = ("rabbitmq:stream-" + word for word in ("offset-spec", "filter", "match-unfiltered"))


class Streams(Desk):
    def stream(self, **arguments):
        return self.queue(arguments={**TYPE, **{name.replace("_", "-"): value for name, value in arguments.items()}})

    def send(self, stream, *bodies, exchange="", **properties):
        channel = self.connection.channel()
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish(exchange, stream, body, pika.BasicProperties(delivery_mode=2, **properties), mandatory=True)
        channel.close()

    def reader(self, stream, offset=None, prefetch=100, **arguments):
        channel = self.connection.channel()
        channel.basic_qos(prefetch_count=prefetch)
        arguments = {name.replace("_", "-"): value for name, value in arguments.items()}
        if offset is not None:
            arguments["x-stream-offset"] = offset
        return Consumer(channel, stream, arguments=arguments)

    def read(self, stream, count, offset="first", **arguments):
        """Offset and body of so many messages, and there are no more."""
        reader = self.reader(stream, offset, **arguments)
        if count:
            reader.wait(count)
        self.later()
        seen = [(properties.headers["x-stream-offset"], body) for _method, properties, body in reader.deliveries]
        reader.channel.close()
        return seen


def numbered(*numbers):
    return [(number, b"%d" % number) for number in numbers]


def declared(durable=True, exclusive=False, auto_delete=False, **arguments):
    """With what a declaration is refused, its queue's name left out."""
    name = fresh("queue")
    arguments = {**TYPE, **{key.replace("_", "-"): value for key, value in arguments.items()}}
    with Desk() as desk:
        def act():
            desk.channel.queue_declare(name, durable=durable, exclusive=exclusive, auto_delete=auto_delete,
                                       arguments=arguments)
            desk.channel.queue_delete(name)
        refused = refusal(act)
        return refused and (refused[0], refused[1].replace(name, "Q"))


INVALID = "PRECONDITION_FAILED - invalid arg '%s' for queue 'Q' in vhost '/'%s"

REFUSED = [
    ("age", {"x_max_age": "abc"}, INVALID % ("x-max-age", ": invalid_max_age")),
    ("age-zero", {"x_max_age": "0s"}, INVALID % ("x-max-age", ": invalid_max_age")),
    ("segment", {"x_stream_max_segment_size_bytes": 3_000_000_001},
     "PRECONDITION_FAILED - Exceeded max value for x-stream-max-segment-size-bytes"),
    ("filter-size", {"x_stream_filter_size_bytes": 256},
     "PRECONDITION_FAILED - Invalid value for x-stream-filter-size-bytes"),
    ("cluster-size", {"x_initial_cluster_size": 0}, INVALID % ("x-initial-cluster-size", ": {value_zero,0}")),
    ("length", {"x_max_length": 5}, INVALID % ("x-max-length", " of queue type rabbit_stream_queue")),
    ("ttl", {"x_message_ttl": 5}, INVALID % ("x-message-ttl", " of queue type rabbit_stream_queue")),
    ("transient", {"durable": False}, "PRECONDITION_FAILED - invalid property 'non-durable' for queue 'Q' in vhost '/'"),
    ("exclusive", {"exclusive": True},
     "PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue 'Q' in vhost '/'"),
    ("auto-delete", {"auto_delete": True},
     "PRECONDITION_FAILED - invalid property 'auto-delete' for queue 'Q' in vhost '/'"),
]

for word, options, text in REFUSED:
    suite.add(f"declare.{word}", f"a stream declared with {word} as it cannot be", f"406 {text}",
              lambda options=options, text=text: equal(declared(**options), (406, text)))


@suite.case("declare.all", "a stream with all its arguments, and again with the same age in other units", "declared")
def _():
    every = {"x_max_length_bytes": 1000, "x_max_age": "1h", "x_stream_max_segment_size_bytes": 5000,
             "x_stream_filter_size_bytes": 32, "x_initial_cluster_size": 1, "x_queue_leader_locator": "client-local"}
    with Streams() as desk:
        stream = desk.stream(**every)
        again = {**TYPE, **{name.replace("_", "-"): value for name, value in {**every, "x_max_age": "60m"}.items()}}
        desk.channel.queue_declare(stream, durable=True, arguments=again)
        other = refusal(lambda: desk.channel.queue_declare(stream, durable=True, arguments={**again, "x-max-age": "2h"}))
        equal(other[1].replace(stream, "Q"), "PRECONDITION_FAILED - inequivalent arg 'x-max-age' for queue 'Q' in vhost "
              "'/': received '7200000' but current is '3600000'")


@suite.case("refused.get", "basic.get of a stream", "540 NOT_IMPLEMENTED, the connection is closed")
def _():
    with Streams() as desk:
        stream = desk.stream()
        equal(refusal(lambda: desk.channel.basic_get(stream)),
              (540, f"NOT_IMPLEMENTED - basic.get not supported by stream queues queue '{stream}' in vhost '/'"))


@suite.case("refused.purge", "queue.purge of a stream", "540 NOT_IMPLEMENTED, the connection is closed")
def _():
    with Streams() as desk:
        stream = desk.stream()
        equal(refusal(lambda: desk.channel.queue_purge(stream)),
              (540, f"NOT_IMPLEMENTED - queue.purge not supported by stream queues queue '{stream}' in vhost '/'"))


@suite.case("refused.consume", "a consumer without prefetch, without acks, with a priority, from nowhere",
            "406, 540, 406, 406, each by name")
def _():
    named = "queue 'Q' in vhost '/'"

    def consumed(prefetch=5, **options):
        with Streams() as desk:
            stream = desk.stream()
            if prefetch:
                desk.channel.basic_qos(prefetch_count=prefetch)
            code, text = refusal(lambda: Consumer(desk.channel, stream, **options))
            return code, text.replace(stream, "Q")

    equal(consumed(prefetch=0), (406, f"PRECONDITION_FAILED - consumer prefetch count is not set for stream {named}"))
    equal(consumed(auto_ack=True),
          (540, f"NOT_IMPLEMENTED - automatic acknowledgement not supported by stream {named}"))
    equal(consumed(arguments={"x-priority": 5}),
          (406, f"PRECONDITION_FAILED - invalid arg 'x-priority' for {named} of queue type rabbit_stream_queue"))
    equal(consumed(arguments={"x-stream-offset": "bogus"}),
          (406, f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for {named}: "
                "{invalid_stream_offset_arg,{longstr,<<\"bogus\">>}}"))


@suite.case("offset.091", "x-stream-offset first, last, next, a number, one that is to come, an age, a time",
            "all, the last chunk, none, from there, none, all, all or none")
def _():
    with Streams() as desk:
        stream = desk.stream()
        for number in range(5):
            desk.send(stream, b"%d" % number)
        equal(desk.read(stream, 5, "first"), numbered(0, 1, 2, 3, 4))
        equal(desk.read(stream, 1, "last"), numbered(4))
        equal(desk.read(stream, 0, "next"), [])
        equal(desk.read(stream, 2, 3), numbered(3, 4))
        equal(desk.read(stream, 0, 100), [])
        equal(desk.read(stream, 5, "1h"), numbered(0, 1, 2, 3, 4))
        hour, now = datetime.timedelta(hours=1), datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
        equal(desk.read(stream, 5, now - hour), numbered(0, 1, 2, 3, 4))
        equal(desk.read(stream, 0, now + hour), [])


@suite.case("offset.none", "a consumer that does not say where, and then messages", "it gets what comes")
def _():
    with Streams() as desk:
        stream = desk.stream()
        desk.send(stream, b"0")
        reader = desk.reader(stream)
        desk.later()
        desk.send(stream, b"1", b"2")
        reader.wait(2)
        equal(reader.bodies, [b"1", b"2"])


@suite.case("read.again", "two consumers of a stream, one after the other", "each gets all, and again")
def _():
    with Streams() as desk:
        stream = desk.stream()
        desk.send(stream, b"0", b"1")
        equal(desk.read(stream, 2), numbered(0, 1))
        equal(desk.read(stream, 2), numbered(0, 1))


@suite.case("read.prefetch", "a prefetch of 2; acks, rejects and requeues", "each gives way to one more; nothing comes again")
def _():
    with Streams() as desk:
        stream = desk.stream()
        desk.send(stream, *(b"%d" % number for number in range(6)))
        reader = desk.reader(stream, "first", prefetch=2)
        reader.wait(2)
        desk.later()
        equal(reader.bodies, [b"0", b"1"])
        tags = reader.tags
        reader.channel.basic_ack(tags[0])
        reader.wait(3)
        reader.channel.basic_reject(tags[1], requeue=True)
        reader.wait(4)
        reader.channel.basic_nack(reader.tags[2], requeue=False)
        reader.wait(5)
        desk.later()
        equal(reader.bodies, [b"%d" % number for number in range(5)])
        equal([method.redelivered for method, _properties, _body in reader.deliveries], [False] * 5)


@suite.case("read.properties", "a message with properties and headers, through an exchange", "as published, with x-stream-offset "
            "as a last header; exchange and routing key as published")
def _():
    with Streams() as desk:
        stream, exchange = desk.stream(), desk.exchange("topic")
        desk.channel.queue_bind(stream, exchange, "a.*")
        desk.send("a.b", b"body", exchange=exchange, headers={"n": 1, "x-own": "v"}, message_id="id", priority=3,
                  content_type="text/plain", correlation_id="c", app_id="app", type="t")
        reader = desk.reader(stream, "first")
        reader.wait(1)
        method, properties, body = reader.deliveries[0]
        equal((method.exchange, method.routing_key, body), (exchange, "a.b", b"body"))
        equal(dict(properties.headers), {"n": 1, "x-own": "v", "x-stream-offset": 0})
        equal((properties.message_id, properties.priority, properties.content_type, properties.correlation_id,
               properties.app_id, properties.type, properties.delivery_mode),
              ("id", 3, "text/plain", "c", "app", "t", 2))


@suite.case("filter.091", "x-stream-filter with a value, several, one with x-stream-match-unfiltered",
            "chunks that may hold them; with messages of no value")
def _():
    with Streams() as desk:
        stream = desk.stream()
        for body, value in ((b"0", "red"), (b"1", "blue"), (b"2", None)):
            headers = {"x-stream-filter-value": value} if value else None
            desk.send(stream, body, headers=headers)
        equal(desk.read(stream, 1, x_stream_filter="red"), numbered(0))
        equal(desk.read(stream, 2, x_stream_filter=["red", "blue"]), numbered(0, 1))
        equal(desk.read(stream, 2, x_stream_filter="red", x_stream_match_unfiltered=True), numbered(0, 2))
        equal(desk.read(stream, 0, x_stream_filter="green"), [])


@suite.case("delete", "a stream that is not empty and in use, deleted if-unused and if-empty", "deleted; its consumer is cancelled")
def _():
    with Streams() as desk:
        stream = desk.stream()
        desk.send(stream, b"0")
        reader = desk.reader(stream, "first")
        reader.wait(1)
        cancelled = []
        reader.channel.add_on_cancel_callback(cancelled.append)
        desk.forget(stream)
        equal(desk.channel.queue_delete(stream, if_unused=True, if_empty=True).method.message_count, 0)
        deadline = time.monotonic() + 10
        while not cancelled and time.monotonic() < deadline:
            desk.connection.process_data_events(0.05)
        equal(len(cancelled), 1)


def seen10(stream, count, filters, credit=20):
    """Offset and body of so many messages that a receiver with these filters gets, and there are no more; and which of
    the filters are in place."""
    with proton_bench.Bench() as bench:
        receiver = bench.receiver(stream, credit=credit, options=proton_bench.Wants({"offset": (OFFSET, "first"), **filters}))
        seen = []
        for _ in range(count):
            message = receiver.receive()
            seen.append((message.annotations[symbol("x-stream-offset")], proton_bench.body_of(message)))
        receiver.gets_nothing()
        return seen, receiver.filters()


def ten(*numbers):
    return [(number, b"%d" % number) for number in numbers]


@suite.case("offset.10", "rabbitmq:stream-offset-spec first, last, next, a number, an age, a time, and one that means nothing",
            "as over 0-9-1; amqp:precondition-failed")
def _():
    with Streams() as desk:
        stream = desk.stream()
        for number in range(4):
            desk.send(stream, b"%d" % number)
        for value, numbers in (("first", (0, 1, 2, 3)), ("last", (3,)), ("next", ()), (ulong(2), (2, 3)),
                               ("1h", (0, 1, 2, 3)), (timestamp(0), (0, 1, 2, 3))):
            equal(seen10(stream, len(numbers), {"offset": (OFFSET, value)}), (ten(*numbers), ["offset"]), f"from {value}")
        try:
            seen10(stream, 1, {"offset": (OFFSET, "bogus")})
        except LinkDetached as error:
            equal(error.condition, "amqp:precondition-failed")
        else:
            raise AssertionError("attached")


@suite.case("filter.10", "filters by value, by properties, by application properties, by SQL, by both", "what they say; the answer "
            "has those that are in place")
def _():
    with proton_bench.Bench() as bench:
        with Streams() as desk:
            stream = desk.stream()
            sender = bench.sender(stream)
            for number, (subject, color) in enumerate((("s1", "red"), ("s2", "blue"), ("x3", "red"))):
                annotations = {symbol("x-stream-filter-value"): color}
                sender.send(Message(body=b"%d" % number, subject=subject, properties={"color": color, "n": number},
                                    annotations=annotations, priority=number + 4))
            by_properties = {"p": ("amqp:properties-filter", {symbol("subject"): "&p:s"})}
            by_color = {"a": ("amqp:application-properties-filter", {"color": "red"})}
            by_sql = {"sql-filter": ("amqp:sql-filter", "n > 0 AND color IN ('red', 'blue')")}
            equal(seen10(stream, 2, by_properties), (ten(0, 1), ["offset", "p"]))
            equal(seen10(stream, 2, by_color), (ten(0, 2), ["a", "offset"]))
            equal(seen10(stream, 1, {**by_properties, **by_color}), (ten(0), ["a", "offset", "p"]))
            equal(seen10(stream, 2, by_sql), (ten(1, 2), ["offset", "sql-filter"]))
            equal(seen10(stream, 1, {"sql-filter": (0x120, "header.priority > 5")}), (ten(2), ["offset", "sql-filter"]))
            equal(seen10(stream, 3, {"sql-filter": ("amqp:sql-filter", "n >")}), (ten(0, 1, 2), ["offset"]))
            equal(seen10(stream, 3, {"p": ("amqp:properties-filter", {symbol("nothing"): "s"})}),
                  (ten(0, 1, 2), ["offset"]))
            equal(seen10(stream, 1, {"f": (FILTER, "blue")}), (ten(1), ["f", "offset"]))
            equal(seen10(stream, 2, {"f": (FILTER, ["red"]), "u": (UNFILTERED, True)}), (ten(0, 2), ["f", "offset", "u"]))


@suite.case("message.10", "a 1.0 message with all kinds of properties, read over 1.0 and 0-9-1", "as sent, with x-stream-offset "
            "in the annotations as a long")
def _():
    with proton_bench.Bench() as bench, Streams() as desk:
        stream = desk.stream()
        sender = bench.sender(stream)
        sender.send(Message(body="text", durable=True, priority=7, subject="s", id="five", correlation_id="c",
                            properties={"k": "v"}, annotations={symbol("x-opt"): 5}))
        receiver = bench.receiver(stream, credit=5, options=proton_bench.Wants({"offset": (OFFSET, "first")}))
        message = receiver.receive()
        equal((message.body, message.durable, message.priority, message.subject, message.id, message.properties),
              ("text", True, 7, "s", "five", {"k": "v"}))
        annotations = message.annotations
        equal((annotations[symbol("x-stream-offset")], annotations[symbol("x-opt")], annotations[symbol("x-exchange")],
               annotations[symbol("x-routing-key")]), (0, 5, "", stream))
        equal(type(annotations[symbol("x-stream-offset")]), int, "a long")
        reader = desk.reader(stream, "first")
        reader.wait(1)
        _method, properties, _body = reader.deliveries[0]
        equal(dict(properties.headers), {"k": "v", "x-opt": 5, "x-stream-offset": 0})
        equal((properties.type, properties.delivery_mode, properties.message_id), ("amqp-1.0", 2, "five"))


@suite.case("keep.bytes", "a stream of at most 100,000 bytes in segments of 20,000, filled many times over",
            "the oldest segments are gone, the rest is there in order")
def _():
    with Streams() as desk:
        stream = desk.stream(x_max_length_bytes=100_000, x_stream_max_segment_size_bytes=20_000)
        for start in range(0, 400, 50):
            desk.send(stream, *(b"%08d" % number + bytes(1000) for number in range(start, start + 50)))
        desk.connection.sleep(2)  # RabbitMQ looks what to remove when it likes
        reader = desk.reader(stream, "first", prefetch=500)

        def ends():
            desk.connection.process_data_events(0.05)
            return reader.bodies and reader.bodies[-1][:8] == b"%08d" % 399
        eventually(ends, "the last message", 20)
        # RabbitMQ's offsets have gaps where segments begin.
        numbers = [int(body[:8]) for body in reader.bodies]
        equal(numbers, list(range(numbers[0], 400)))
        if not 200 < numbers[0] < 380:
            raise AssertionError(f"the first message is {numbers[0]}")


RATE = "x-replay-rate"


def needs_replay(stream):
    """RabbitMQ takes an offset below 0 for the first, and passes over what it does not know."""
    if seen10(stream, 0, {"offset": (OFFSET, "next"), "rate": (RATE, ulong(5))})[1] != ["offset", "rate"]:
        raise Skip("it replays streams at no set rate, and counts no offsets from the end")


@suite.case("offset.negative", "x-stream-offset and rabbitmq:stream-offset-spec below 0; one beyond the beginning",
            "so many messages before the end, wherever chunks begin; all")
def _():
    with Streams() as desk:
        stream = desk.stream()
        needs_replay(stream)
        # One chunk, or nearly so.
        desk.send(stream, b"0", b"1")
        with proton_bench.Bench() as bench:
            sender = bench.sender(stream)
            for number in range(2, 6):
                sender.send(Message(body=b"%d" % number, inferred=True))
        equal(desk.read(stream, 1, -1), numbered(5))
        equal(desk.read(stream, 3, -3), numbered(3, 4, 5))
        equal(desk.read(stream, 6, -100), numbered(*range(6)))
        equal(seen10(stream, 2, {"offset": (OFFSET, -2)}), (ten(4, 5), ["offset"]))
        equal(seen10(stream, 6, {"offset": (OFFSET, -7)}), (ten(*range(6)), ["offset"]))


def paced(receive):
    """Seconds that pass between the first and the eleventh message."""
    receive()
    begun = time.monotonic()
    for _ in range(10):
        receive()
    return time.monotonic() - begun


@suite.case("rate.read", "a consumer with x-replay-rate 20, over 0-9-1 and as a filter over 1.0; another without",
            "ten messages take half a second; all come, in order; the other has them at once")
def _():
    with Streams() as desk:
        stream = desk.stream()
        needs_replay(stream)
        desk.send(stream, *(b"%d" % number for number in range(15)))
        reader = desk.reader(stream, "first", **{RATE: 20})
        counts = iter(range(1, 16))
        # The machine may be slow; the broker may not be fast.
        took = paced(lambda: reader.wait(next(counts)))
        assert took > 0.4, took
        reader.wait(15)
        equal(reader.bodies, [b"%d" % number for number in range(15)])
        with proton_bench.Bench() as bench:
            options = proton_bench.Wants({"offset": (OFFSET, "first"), "rate": (RATE, ulong(20))})
            receiver = bench.receiver(stream, credit=100, options=options)
            took = paced(receiver.receive)
            assert took > 0.4, took
        equal(desk.read(stream, 15), numbered(*range(15)))


@suite.case("rate.credit", "a consumer with x-replay-rate 50 that leaves its prefetch of 3 unsettled, and then settles",
            "three, and then as many as are settled: what it missed meanwhile is not made up for")
def _():
    with Streams() as desk:
        stream = desk.stream()
        needs_replay(stream)
        desk.send(stream, *(b"%d" % number for number in range(8)))
        reader = desk.reader(stream, "first", prefetch=3, **{RATE: 50})
        reader.wait(3)
        desk.later()
        equal(len(reader.bodies), 3)
        reader.channel.basic_ack(reader.tags[2], multiple=True)
        reader.wait(6)
        desk.later()
        equal(reader.bodies, [b"%d" % number for number in range(6)])


@suite.case("rate.refused", "x-replay-rate 0, beyond a million, and a text; a filter of 0", "406, by name; not in place")
def _():
    with Streams() as desk:
        stream = desk.stream()
        needs_replay(stream)
        why = "it is to be a number of messages a second, 1 to 1000000"
        for rate in (0, -1, 1_000_001, "fast"):
            code, text = refusal(lambda rate=rate: desk.reader(stream, **{RATE: rate}))
            expected = f"PRECONDITION_FAILED - invalid arg 'x-replay-rate' for queue '{stream}' in vhost '/': {why}"
            equal((code, text), (406, expected), f"{rate}")
        equal(seen10(stream, 0, {"rate": (RATE, ulong(0))}), ([], ["offset"]))


@suite.case("restart", "streams written over both AMQPs, the broker killed and started, and stopped and started",
            "all is there with its offsets, and goes on from there")
def _():
    broker = needs_broker(suite)
    broker.start()
    before, suite.uri = suite.uri, Uri(broker.uri)
    try:
        with Streams() as desk:
            stream = desk.stream()
            desk.forget(stream)
            desk.send(stream, *(b"%d" % number for number in range(100)))

        def check(count):
            suite.uri = Uri(broker.uri)
            with Streams() as desk:
                equal(desk.read(stream, count, prefetch=500) == numbered(*range(count)), True)
                desk.send(stream, b"%d" % count)

        broker.kill()
        broker.start()
        check(100)
        broker.stop()
        broker.start()
        check(101)
    finally:
        suite.uri = before
        broker.close()


streams_beyond.add(suite, Streams, needs_replay, seen10, numbered)
streams_content.add(suite, Streams, seen10)


def options(parser):
    parser.add_argument("--broker", default="", help="a leveret binary, for cases that restart one")


if __name__ == "__main__":
    suite.main(options)
