"""Messages after the broker: within AMQP 1.0 and across to 0-9-1."""

import datetime
import uuid

import pika
from proton import Delivery, Message, symbol, timestamp, ubyte, ulong

from lab.cases import equal
from suites.proton_bench import Bench, body_of, suite

HEADERS = {
    "text": "grün", "int": -5, "large": 1 << 40, "true": True, "bytes": b"\x00\xff", "void": None,
    "time": datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc),
    "x-mark": "annotation", "list": [1, "two"], "table": {"a": 1},
}


def full_message():
    return Message(
        body=b"x", inferred=True, durable=True, priority=9, ttl=5, id="mid", user_id=b"guest", subject="subj",
        reply_to="rt", correlation_id="corr", content_type="a/b", content_encoding="gz", creation_time=1_700_000_000,
        group_id="g", group_sequence=3, reply_to_group_id="rg",
        properties={"s": "v", "i": 5, "b": True, "n": None, "u": ulong(7), "ub": ubyte(3), "c": "é",
                    "ts": timestamp(1_700_000_000_000)},
        annotations={symbol("x-a"): "ann", symbol("x-n"): 4},
    )


def through(bench, queue, message):
    bench.sender(queue).send(message)
    return bench.receiver(queue, credit=1).receive(timeout=10)


@suite.case("message.whole", "every section of a message, AMQP 1.0 to 1.0",
            "equal; `x-exchange` and `x-routing-key` are added to its annotations")
def _():
    with Bench() as bench:
        queue = bench.queue()
        sent = full_message()
        seen = through(bench, queue, sent)
        for name in ("durable", "priority", "id", "user_id", "subject", "reply_to", "correlation_id", "content_type",
                     "content_encoding", "creation_time", "group_id", "group_sequence", "reply_to_group_id",
                     "properties"):
            equal(getattr(seen, name), getattr(sent, name), name)
        equal((body_of(seen), seen.inferred), (b"x", True))
        equal(dict(seen.annotations), {"x-a": "ann", "x-n": 4, "x-exchange": "", "x-routing-key": queue})
        equal((seen.first_acquirer, seen.delivery_count, 0 < seen.ttl <= 5), (True, 0, True))


@suite.case("message.plain", "a message with nothing but a body", "not durable, priority 4, no properties")
def _():
    with Bench() as bench:
        seen = through(bench, bench.queue(), Message(body="x"))
        equal((seen.durable, seen.priority, seen.ttl, seen.id, seen.properties), (False, 4, 0, None, None))


for name, body, inferred in [
    ("data", b"\x00\xff", True), ("binary-value", b"\x00\xff", False), ("text", "grün", False), ("number", 5, False),
    ("map", {"a": [1, 2]}, False), ("list", [1, "two", None], False), ("sequence", [1, 2], True),
    ("empty-data", b"", True),
]:
    def body_kept(body=body, inferred=inferred):
        with Bench() as bench:
            seen = through(bench, bench.queue(), Message(body=body, inferred=inferred))
            equal((body_of(seen), seen.inferred), (body, inferred))

    suite.add(f"message.body-{name}", f"a body of {name.replace('-', ' ')}", "the same section and value", body_kept)


def to_091(message):
    with Bench() as bench:
        queue = bench.queue()
        bench.sender(queue).send(message)
        method, properties, body = bench.desk.get(queue)
        equal((method.exchange, method.routing_key, method.redelivered), ("", queue, False))
        return {name: value for name, value in vars(properties).items() if value is not None}, body


@suite.case("cross.to-091", "a full AMQP 1.0 message consumed over 0-9-1",
            "header, properties, application properties and annotations become properties and headers; "
            "group-id is app-id, ttl is expiration")
def _():
    seen, body = to_091(full_message())
    headers = seen.pop("headers")
    equal(body, b"x")
    equal(seen, {
        "content_type": "a/b", "content_encoding": "gz", "delivery_mode": 2, "priority": 9, "correlation_id": "corr",
        "reply_to": "rt", "expiration": "5000", "message_id": "mid", "timestamp": 1_700_000_000, "user_id": "guest",
        "app_id": "g",
    })
    equal(headers, {
        "s": "v", "i": 5, "b": True, "n": None, "u": 7, "ub": 3, "c": "é", "x-a": "ann", "x-n": 4,
        "ts": datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.timezone.utc),
    })


for name, message, expected, body in [
    ("data", Message(body=b"x", inferred=True, durable=True), {"delivery_mode": 2}, b"x"),
    ("transient", Message(body=b"x", inferred=True), {}, b"x"),
    ("text", Message(body="text"), {"type": "amqp-1.0"}, b"\x00Sw\xa1\x04text"),
    ("number", Message(body=5), {"type": "amqp-1.0"}, b"\x00SwU\x05"),
    ("ulong-id", Message(body=b"x", inferred=True, id=ulong(5), correlation_id=ulong(6)),
     {"message_id": "5", "correlation_id": "6"}, b"x"),
    ("uuid-id", Message(body=b"x", inferred=True, id=uuid.UUID(int=7), correlation_id=uuid.UUID(int=8)),
     {"message_id": "urn:uuid:00000000-0000-0000-0000-000000000007",
      "correlation_id": "urn:uuid:00000000-0000-0000-0000-000000000008"}, b"x"),
    ("binary-id", Message(body=b"x", inferred=True, id=b"bin", correlation_id=b"cor"),
     {"headers": {"x-message-id": b"bin", "x-correlation-id": b"cor"}}, b"x"),
]:
    answer = f"properties {expected}, body {body!r}"
    suite.add(f"cross.to-091-{name}", f"an AMQP 1.0 message ({name}) consumed over 0-9-1", answer,
              lambda m=message, e=expected, b=body: equal(to_091(m), (e, b)))


def from_091(properties, body=b"body"):
    with Bench() as bench:
        queue = bench.queue()
        bench.desk.channel.basic_publish("", queue, body, properties)
        message = bench.receiver(queue, credit=1).receive(timeout=10)
        annotations = dict(message.annotations)
        equal((annotations.pop("x-exchange"), annotations.pop("x-routing-key")), ("", queue))
        equal((body_of(message), message.inferred), (body, True), "one data section")
        return message, annotations


@suite.case("cross.to-10", "a full 0-9-1 message received over AMQP 1.0",
            "properties and headers become header, properties, application properties; `x-` headers and type become "
            "annotations; lists and tables are left out; reply-to becomes a queue address; app-id is group-id")
def _():
    message, annotations = from_091(pika.BasicProperties(
        content_type="text/plain", content_encoding="utf-8", headers=HEADERS, delivery_mode=2, priority=7,
        correlation_id="c", reply_to="r", expiration="60000", message_id="m", timestamp=1_700_000_000, type="t",
        user_id="guest", app_id="a", cluster_id="k"))
    equal(annotations, {"x-basic-type": "t", "x-mark": "annotation"})
    equal((message.durable, message.priority, 59 < message.ttl <= 60), (True, 7, True), "header")
    equal((message.id, message.user_id, message.reply_to, message.correlation_id),
          ("m", b"guest", "/queues/r", "c"))
    equal((message.content_type, message.content_encoding, message.creation_time, message.group_id),
          ("text/plain", "utf-8", 1_700_000_000, "a"))
    properties = dict(message.properties)
    equal(bytes(properties.pop("bytes")), b"\x00\xff")
    equal(properties, {"text": "grün", "int": -5, "large": 1 << 40, "true": True, "void": None,
                       "time": timestamp(1_767_312_000_000)})


@suite.case("cross.to-10-plain", "a 0-9-1 message without properties received over AMQP 1.0",
            "not durable, no properties")
def _():
    message, annotations = from_091(pika.BasicProperties())
    equal((annotations, message.durable, message.id, message.properties), ({}, False, None, None))


@suite.case("cross.large", "10 MiB from each protocol to the other", "the same bytes")
def _():
    body = (bytes(range(251)) * 41_800)[: 10 << 20]
    message, _annotations = from_091(pika.BasicProperties(delivery_mode=2), body)
    equal(to_091(Message(body=body_of(message), inferred=True))[1] == body, True, "body")


@suite.case("cross.redelivered", "a message released over AMQP 1.0 and got over 0-9-1, and the other way",
            "redelivered=true; first-acquirer=false")
def _():
    with Bench() as bench:
        queue = bench.queue()
        bench.send(queue, b"x")
        receiver = bench.receiver(queue, credit=1)
        receiver.receive(timeout=10)
        receiver.settle(Delivery.RELEASED)
        receiver.close()
        method = bench.desk.get(queue)[0]
        equal(method.redelivered, True)
        bench.desk.channel.basic_nack(method.delivery_tag, requeue=True)
        equal(bench.receiver(queue, credit=1).receive(timeout=10).first_acquirer, False)
