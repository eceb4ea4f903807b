"""Headers of dead letters: deaths, properties, CC and BCC, counts."""

import datetime

from lab.cases import equal
from suites.dead_letter_bench import Morgue, death, deaths, suite
from suites.pika_bench import connect, fresh
from suites.queue_bench import CLASSIC, QUORUM, killable


def fail(desk, queue):
    """Publishes a message and gives it back once, as failed."""
    desk.send(queue, b"1")
    desk.channel.basic_reject(desk.get(queue)[0].delivery_tag)


def to_quorum(desk, kind, **arguments):
    """A queue whose dead go to a quorum queue, and that queue."""
    dead = desk.make(QUORUM)
    return desk.mortal(kind, x_dead_letter_routing_key=dead, **arguments), dead


def counted(desk, queue):
    """Takes a message: the tag, whether it is redelivered, its x-delivery-count and x-acquired-count."""
    method, properties, _body = desk.get(queue)
    headers = properties.headers or {}
    return method.delivery_tag, method.redelivered, headers.get("x-delivery-count"), headers.get("x-acquired-count")


@suite.each("fields.death", "the fields of x-death, in order",
            "original-expiration, count (long), reason, queue, time (timestamp), exchange, routing-keys (array)")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind)
        desk.send(queue, b"1", expiration="100")
        entry = desk.buried()[0][1].headers["x-death"][0]
        equal(list(entry), ["original-expiration", "count", "reason", "queue", "time", "exchange", "routing-keys"])
        equal((type(entry["count"]).__name__, type(entry["time"])), ("long", datetime.datetime))


@suite.each("fields.first-last", "x-first-death-* and x-last-death-* after one death",
            "queue, reason and exchange of it")
def _(kind):
    with Morgue() as desk:
        source = desk.exchange("fanout")
        queue = desk.mortal(kind)
        desk.channel.queue_bind(queue, source)
        desk.send("key", b"1", exchange=source)
        desk.reject(queue)
        headers = desk.buried()[0][1].headers
        expected = {f"x-{which}-death-{what}": value for which in ("first", "last")
                    for what, value in (("queue", queue), ("reason", "rejected"), ("exchange", source))}
        equal({name: value for name, value in headers.items() if name != "x-death"}, expected)


@suite.each("fields.own", "properties and headers of the dead", "all as published but for expiration and what is added")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind)
        sent = dict(content_type="text/plain", content_encoding="gzip", priority=3, correlation_id="c", reply_to="r",
                    message_id="m", timestamp=1_700_000_000, type="t", user_id=suite.uri.user, app_id="a",
                    delivery_mode=2)
        desk.send(queue, b"body", headers={"number": 5, "list": [1, "two"], "table": {"a": None}}, **sent)
        desk.reject(queue)
        _method, properties, body = desk.buried()[0]
        equal(body, b"body")
        equal({name: getattr(properties, name) for name in sent}, sent)
        equal({name: value for name, value in properties.headers.items() if not name.startswith("x-")},
              {"number": 5, "list": [1, "two"], "table": {"a": None}})


@suite.each("fields.mode", "delivery mode of the dead", "kept: 2, 1, and none where there was none")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind)
        for mode in (2, 1, None):
            desk.send(queue, b"1", delivery_mode=mode)
            desk.reject(queue)
            equal(desk.buried()[0][1].delivery_mode, mode)


@suite.each("fields.redelivered", "a message that was redelivered before it died, given back with basic.nack",
            "not redelivered where it comes to")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind)
        desk.send(queue, b"1")
        desk.channel.basic_nack(desk.get(queue)[0].delivery_tag)
        desk.channel.basic_nack(desk.get(queue)[0].delivery_tag, requeue=False)
        equal(desk.buried()[0][0].redelivered, False)


@suite.each("fields.counts", "a message that was rejected twice, once with requeue, in the quorum queue it comes to",
            "its failures come with it: redelivered, x-delivery-count 2, x-acquired-count 2")
def _(kind):
    with Morgue() as desk:
        queue, dead = to_quorum(desk, kind)
        fail(desk, queue)
        desk.reject(queue)
        equal(counted(desk, dead)[1:], (True, 2, 2))


@suite.each("fields.counts-none", "a message that expired and never was delivered, in the quorum queue it comes to",
            "not redelivered, no counts")
def _(kind):
    with Morgue() as desk:
        queue, dead = to_quorum(desk, kind)
        desk.send(queue, b"1", expiration="1")
        equal(counted(desk, dead)[1:], (False, None, None))


@suite.each("fields.counts-expired", "a message that was rejected with requeue, then expired, in the quorum queue it comes to",
            "the failure comes with it, the expiry is none: redelivered, both counts 1")
def _(kind):
    with Morgue() as desk:
        queue, dead = to_quorum(desk, kind)
        desk.send(queue, b"1", expiration="700")
        desk.channel.basic_reject(desk.get(queue)[0].delivery_tag)
        equal(counted(desk, dead)[1:], (True, 1, 1))


@suite.each("fields.counts-maxlen", "a message that was rejected with requeue, then dropped by a limit, in the quorum queue it "
            "comes to", "redelivered, both counts 1")
def _(kind):
    with Morgue() as desk:
        queue, dead = to_quorum(desk, kind, x_max_length=1)
        fail(desk, queue)
        desk.becomes(queue, 1)
        desk.send(queue, b"2")
        equal(counted(desk, dead)[1:], (True, 1, 1))


@suite.each("fields.counts-on", "the dead in a quorum queue, given back with basic.reject",
            "failures go on from those it came with, x-acquired-count begins at 1")
def _(kind):
    with Morgue() as desk:
        queue, dead = to_quorum(desk, kind)
        fail(desk, queue)
        desk.reject(queue)
        seen = []
        for _ in range(3):
            tag, *counts = counted(desk, dead)
            seen.append(tuple(counts))
            desk.channel.basic_reject(tag)
        equal(seen, [(True, 2, 2), (True, 3, 1), (True, 4, 2)])


@suite.each("fields.counts-order", "the dead in a quorum queue, between messages that never failed",
            "in order of arrival; those alone that failed are redelivered and have counts")
def _(kind):
    with Morgue() as desk:
        queue, dead = to_quorum(desk, kind)
        desk.send(dead, b"a")
        for number, body in enumerate((b"1", b"2")):
            desk.send(queue, body)
            desk.reject(queue)
            desk.becomes(dead, 2 + number)
        desk.send(dead, b"b")
        consumer = desk.hold(dead, 4)
        seen = [(body, method.redelivered, (properties.headers or {}).get("x-delivery-count"))
                for method, properties, body in consumer.deliveries]
        equal(seen, [(b"a", False, None), (b"1", True, 1), (b"2", True, 1), (b"b", False, None)])


@suite.each("fields.counts-far", "a message that is rejected in two queues, one behind the other",
            "each counts: x-delivery-count 2")
def _(kind):
    with Morgue() as desk:
        middle, dead = to_quorum(desk, kind)
        first = desk.mortal(kind, x_dead_letter_routing_key=middle)
        desk.send(first, b"1")
        desk.reject(first)
        desk.reject(middle)
        equal(counted(desk, dead)[1:], (True, 2, 2))


@suite.each("fields.counts-classic", "a message that was rejected twice, once with requeue, in the classic queue it comes to",
            "redelivered, no counts over 0-9-1")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind)
        fail(desk, queue)
        desk.reject(queue)
        equal(counted(desk, desk.dead)[1:], (True, None, None))


@suite.each("fields.counts-limit", "the dead of a delivery limit of 2, in a quorum queue with a limit of 2",
            "delivered with a count of 3; given back it is over the limit and gone", types=(QUORUM,))
def _(kind):
    with Morgue() as desk:
        dead = desk.make(QUORUM, x_delivery_limit=2)
        queue = desk.mortal(kind, x_dead_letter_routing_key=dead, x_delivery_limit=2)
        desk.send(queue, b"1")
        for _ in range(3):
            desk.channel.basic_reject(desk.get(queue)[0].delivery_tag)
        tag, *counts = counted(desk, dead)
        equal(tuple(counts), (True, 3, 3))
        desk.channel.basic_nack(tag)
        desk.stays(dead, 0)


@suite.each("fields.cc", "CC of the dead, no dead-letter routing key",
            "routed by routing key and CC; the death names both; the header CC stays")
def _(kind):
    with Morgue() as desk:
        source, exchange = desk.exchange("direct"), desk.exchange("direct")
        queue = desk.make(kind, x_dead_letter_exchange=exchange)
        desk.channel.queue_bind(queue, source, "key")
        desk.channel.queue_bind(desk.dead, exchange, "copy")
        desk.send("key", b"1", exchange=source, headers={"CC": ["copy"]})
        desk.reject(queue)
        method, properties, _body = desk.buried()[0]
        equal(method.routing_key, "key")
        equal(deaths(properties), [death(queue, "rejected", ["key", "copy"], source)])
        equal(properties.headers.get("CC"), ["copy"])


@suite.each("fields.bcc", "BCC of the dead, no dead-letter routing key",
            "routed by BCC too, which neither headers nor death name")
def _(kind):
    with Morgue() as desk:
        source, exchange = desk.exchange("direct"), desk.exchange("direct")
        queue = desk.make(kind, x_dead_letter_exchange=exchange)
        desk.channel.queue_bind(queue, source, "key")
        desk.channel.queue_bind(desk.dead, exchange, "blind")
        desk.send("key", b"1", exchange=source, headers={"BCC": ["blind"]})
        desk.reject(queue)
        _method, properties, _body = desk.buried()[0]
        equal(deaths(properties), [death(queue, "rejected", ["key"], source)])
        equal("BCC" in properties.headers, False)


@suite.each("fields.bcc-key", "BCC of the dead, with a dead-letter routing key", "routed by that key alone")
def _(kind):
    with Morgue() as desk:
        other = desk.make(CLASSIC)
        queue = desk.mortal(kind)
        desk.send(queue, b"1", headers={"BCC": [other]})
        desk.becomes(other, 1)
        desk.reject(queue)
        desk.buried()
        desk.stays(other, 1)


@suite.each("fields.bcc-far", "BCC of a message that dies in two queues, one behind the other, no dead-letter routing key",
            "routed by BCC both times")
def _(kind):
    with Morgue() as desk:
        source, first, second = (desk.exchange("direct") for _ in range(3))
        queue = desk.make(kind, x_dead_letter_exchange=first)
        middle = desk.make(kind, x_dead_letter_exchange=second)
        desk.channel.queue_bind(queue, source, "key")
        desk.channel.queue_bind(middle, first, "blind")
        desk.channel.queue_bind(desk.dead, second, "blind")
        desk.send("key", b"1", exchange=source, headers={"BCC": ["other", "blind"], "CC": ["copy"]})
        desk.reject(queue)
        desk.reject(middle)
        method, properties, _body = desk.buried()[0]
        equal((method.routing_key, "BCC" in properties.headers), ("key", False))
        equal([entry["routing-keys"] for entry in deaths(properties)], [["key", "copy"]] * 2)


@suite.each("fields.cc-key", "CC of the dead, with a dead-letter routing key",
            "routed by that key alone; the header stays")
def _(kind):
    with Morgue() as desk:
        other = desk.make(CLASSIC)
        queue = desk.mortal(kind)
        desk.send(queue, b"1", headers={"CC": [other]})
        desk.reject(queue)
        _method, properties, _body = desk.buried()[0]
        equal(deaths(properties), [death(queue, "rejected", [queue, other])])
        equal(properties.headers.get("CC"), [other])
        equal(desk.bodies(other, 1), [b"1"])


@suite.each("fields.client", "x-death, x-first-death-queue and the like sent by a client",
            "not taken for deaths: the broker's own stand in their place")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind)
        forged = {"count": 7, "reason": "rejected", "queue": queue, "exchange": "", "routing-keys": ["k"],
                  "time": datetime.datetime(2020, 1, 1)}
        desk.send(queue, b"1", headers={"x-death": [forged], "x-first-death-queue": "forged",
                                        "x-last-death-reason": "forged"})
        desk.reject(queue)
        headers = desk.buried()[0][1].headers
        equal([entry["count"] for entry in headers["x-death"]], [1])
        equal((headers["x-first-death-queue"], headers["x-last-death-reason"]), (queue, "rejected"))


@suite.each("fields.client-kept", "x-death sent by a client, the message does not die", "delivered as it was sent")
def _(kind):
    with Morgue() as desk:
        queue = desk.make(kind)
        desk.send(queue, b"1", headers={"x-death": [{"count": 7, "queue": "q"}], "x-first-death-queue": "forged"})
        equal(desk.get(queue)[1].headers,
              {"x-death": [{"count": 7, "queue": "q"}], "x-first-death-queue": "forged"})


@suite.each("chain", "three queues, each the dead-letter queue of the one before",
            "one death each, the newest first; first and last death name their queues")
def _(kind):
    with Morgue() as desk:
        third = desk.mortal(kind)
        second = desk.mortal(kind, x_dead_letter_routing_key=third, x_max_length=0)
        first = desk.mortal(kind, x_dead_letter_routing_key=second, x_message_ttl=100)
        desk.send(first, b"1")
        desk.reject(third)
        _method, properties, body = desk.buried()[0]
        equal((body, deaths(properties)),
              (b"1", [death(third, "rejected"), death(second, "maxlen"), death(first, "expired")]))
        headers = properties.headers
        equal([headers[f"x-{which}-death-{what}"] for which in ("first", "last") for what in ("queue", "reason")],
              [first, "expired", third, "rejected"])


@suite.each("again", "a message that dies of the same in the same queue three times, sent back each time",
            "one death with count 3; the other queue's has count 2 and stands behind it")
def _(kind):
    with Morgue() as desk:
        first, second = desk.make(kind), fresh("second")
        desk.channel.queue_delete(first)
        arguments = {"x-queue-type": kind, "x-dead-letter-exchange": ""}
        desk.channel.queue_declare(first, durable=True, arguments={**arguments, "x-dead-letter-routing-key": second})
        desk.channel.queue_declare(second, durable=True, arguments={**arguments, "x-dead-letter-routing-key": first})
        desk.send(first, b"1")
        for _number in range(2):
            desk.reject(first)
            desk.reject(second)
        desk.reject(first)
        _method, properties, _body = desk.get(second)
        equal(deaths(properties), [death(first, "rejected", count=3), death(second, "rejected", count=2)])
        equal((properties.headers["x-first-death-queue"], properties.headers["x-last-death-queue"]), (first, first))
        desk.channel.queue_delete(second)


@suite.each("again.reasons", "a message that dies in one queue for two reasons", "two deaths")
def _(kind):
    with Morgue() as desk:
        second = desk.make(CLASSIC)
        first = desk.mortal(kind, x_dead_letter_routing_key=second)
        desk.channel.queue_delete(second)
        desk.channel.queue_declare(second, durable=True, arguments={
            "x-dead-letter-exchange": "", "x-dead-letter-routing-key": first})
        desk.send(first, b"1", expiration="100")
        desk.reject(second)
        desk.reject(first)
        _method, properties, _body = desk.get(second)
        equal([(entry["queue"], entry["reason"], entry["count"]) for entry in deaths(properties)],
              [(first, "rejected", 1), (second, "rejected", 1), (first, "expired", 1)])


@suite.case("fields.kill", "dead letters in a quorum queue, one with BCC, and the broker killed, twice",
            "their counts are as before, and the one that dies again is routed by BCC")
def _():
    with killable(suite) as kill:
        with Morgue() as desk:
            source, exchange, last = (desk.exchange("direct") for _ in range(3))
            queue = desk.make(CLASSIC, x_dead_letter_exchange=exchange)
            dead = desk.make(QUORUM, x_dead_letter_exchange=last)
            desk.channel.queue_bind(queue, source, "key")
            desk.channel.queue_bind(dead, exchange, "key")
            desk.channel.queue_bind(desk.dead, last, "blind")
            desk.send("key", b"1", exchange=source, headers={"BCC": ["blind"]})
            desk.channel.basic_reject(desk.get(queue)[0].delivery_tag)
            desk.reject(queue)
            desk.becomes(dead, 1)
            for _ in range(2):
                kill()
                desk.connection = connect()
                desk.channel = desk.connection.channel()
                tag, *counts = counted(desk, dead)
                equal(tuple(counts), (True, 2, 2))
            desk.channel.basic_reject(tag)
            tag, *counts = counted(desk, dead)
            equal(tuple(counts), (True, 3, 1))
            desk.channel.basic_nack(tag)
            desk.reject(dead)
            _method, properties, _body = desk.buried()[0]
            equal([entry["reason"] for entry in deaths(properties)], ["rejected", "rejected"])
