"""Annotations that AMQP 1.0 receivers give messages with the outcome `modified`: kept, merged, read over 0-9-1."""

import struct
import time

from lab import wire
from lab.cases import equal
from lab.typed import fields091
from lab.wire10 import END, Described, Symbol, Ubyte, Uint, Ushort, encode
from suites.wire10_bench import (
    ANNOTATIONS, DATA, MODIFIED, REJECTED, RELEASED, credit, delivery, each, quiet, sender, settle, transfer,
)


def modify(bench, queue, annotations):
    """A receiver that gives the first message back so."""
    receiver = bench.receiver(queue)
    credit(receiver, 1)
    settle(receiver, delivery(receiver)[0], MODIFIED, [False, False, annotations])
    time.sleep(0.3)
    return receiver


def received(bench, queue):
    """Annotations and body of the first message."""
    receiver = bench.receiver(queue)
    credit(receiver, 1)
    sections = delivery(receiver)[1]
    return sections[ANNOTATIONS], sections.get(DATA)


def annotated(bench):
    queue = bench.declare()
    bench.publish(queue)
    receiver = bench.receiver(queue)
    credit(receiver)
    settle(receiver, delivery(receiver)[0], MODIFIED, [False, False, {Symbol("x-a"): "one", Symbol("x-b"): 5}])
    number, sections = delivery(receiver)
    first = sections[ANNOTATIONS]
    settle(receiver, number, MODIFIED, [True, False, {Symbol("x-a"): "two"}])
    number, sections = delivery(receiver)
    second = sections[ANNOTATIONS]
    settle(receiver, number, RELEASED)
    third = delivery(receiver)[1][ANNOTATIONS]
    return [[annotations.get(name) for name in ("x-a", "x-b")] for annotations in (first, second, third)]


each("annotated", "a delivery modified with annotations, twice, then released",
     "merged into the annotations of every later delivery",
     lambda bench: equal(annotated(bench), [["one", 5], ["two", 5], ["two", 5]]), ("quorum",))
each("annotated", "a delivery modified with annotations, twice, then released", "the annotations are not kept",
     lambda bench: equal(annotated(bench), [[None, None]] * 3), ("classic",))


def got(bench, queue):
    """The headers of a get, in letters of their types."""
    bench.owner.send(wire.method(1, 60, 70, b"\0\0" + wire.short(queue) + b"\x01"))
    bench.owner.expect(60, 71)
    payload = bench.owner.frame()[2]
    size, flags = struct.unpack(">QH", payload[4:14])
    if size:
        bench.owner.frame()
    if not flags & 0x2000:
        return []
    at = 14
    if flags & 0x8000:
        at += 1 + payload[at]
    if flags & 0x4000:
        at += 1 + payload[at]
    return fields091(payload[at + 4:at + 4 + struct.unpack(">I", payload[at:at + 4])[0]])


SIMPLE = {Symbol("x-text"): "t", Symbol("x-symbol"): Symbol("s"), Symbol("x-true"): True, Symbol("x-byte"): Ubyte(7),
          Symbol("x-short"): Ushort(8), Symbol("x-number"): Uint(9), Symbol("x-long"): -5, Symbol("x-data"): b"d"}


def over_091(bench):
    queue = bench.declare()
    bench.publish(queue)
    modify(bench, queue, SIMPLE)
    equal(got(bench, queue),
          ["'x-acquired-count': l 1", "'x-byte': l 7", "'x-data': S 'd'", "'x-long': l -5", "'x-number': l 9",
           "'x-short': l 8", "'x-symbol': S 's'", "'x-text': S 't'", "'x-true': t True"])


each("annotated-091", "annotations of simple values, read over 0-9-1",
     "headers: whole numbers are long, text, symbols and binary are text", over_091, ("quorum",))


def over_10(bench):
    queue = bench.declare()
    bench.publish(queue)
    modify(bench, queue, SIMPLE)
    annotations = received(bench, queue)[0]
    equal({name: annotations.get(str(name)) for name in SIMPLE},
          {**SIMPLE, "x-data": "d"}, "values")
    equal({type(annotations[name]) for name in ("x-text", "x-symbol", "x-data")}, {str}, "types")


each("annotated-types", "annotations of simple values, read over 1.0", "text, symbols and binary are strings", over_10,
     ("quorum",))


def own(bench):
    """A message that comes over 1.0 with annotations of its publisher's."""
    queue = bench.declare()
    peer = sender(bench, queue)
    annotations = encode(Described(ANNOTATIONS, {Symbol("x-a"): "own", Symbol("x-own"): "mine"}))
    payload = annotations + encode(Described(DATA, b"x"))
    peer.send(transfer(0, settled=True, payload=payload))
    quiet(peer)
    modify(bench, queue, {Symbol("x-a"): "new", Symbol("x-b"): True})
    return queue


def own_10(bench):
    annotations, data = received(bench, own(bench))
    equal(({name: annotations.get(name) for name in ("x-a", "x-b", "x-own")}, data),
          ({"x-a": "new", "x-b": True, "x-own": "mine"}, b"x"))


def own_091(bench):
    equal(got(bench, own(bench)),
          ["'x-a': S 'new'", "'x-acquired-count': l 1", "'x-b': t True", "'x-own': S 'mine'"])


OWN = "a 1.0 message that has annotations is modified with some"
each("annotated-own", OWN, "those of the same name take the place of the publisher's", own_10, ("quorum",))
each("annotated-own-091", f"{OWN}, read over 0-9-1", "headers: those of the same name take the place of the publisher's",
     own_091, ("quorum",))


def dead(outcome, fields, expected):
    def act(bench):
        grave = bench.declare(plain=True)
        queue = bench.declare(dead_letter_exchange="", dead_letter_routing_key=grave)
        bench.publish(queue)
        receiver = bench.receiver(queue)
        credit(receiver)
        settle(receiver, delivery(receiver)[0], MODIFIED, [False, False, {Symbol("x-a"): "one", Symbol("x-b"): 1}])
        settle(receiver, delivery(receiver)[0], outcome, fields)
        annotations = received(bench, grave)[0]
        equal({name: annotations.get(name) for name in ("x-a", "x-b", "x-last-death-reason")},
              {"x-last-death-reason": "rejected", **expected})

    return act


DEAD = "dead-lettered with all annotations it was given"
each("annotated-dead", "a delivery modified with annotations, then with others and undeliverable-here", DEAD,
     dead(MODIFIED, [True, True, {Symbol("x-b"): 2}], {"x-a": "one", "x-b": 2}), ("quorum",))
each("annotated-rejected", "a delivery modified with annotations, then rejected", DEAD,
     dead(REJECTED, [], {"x-a": "one", "x-b": 1}), ("quorum",))


def reserved(bench):
    for key in (Symbol("a"), "x-a"):
        queue = bench.declare()
        bench.publish(queue)
        equal(modify(bench, queue, {key: "one"}).end_seen()[0], END)
        equal(received(bench, queue)[1], b"x", "back in the queue")


each("annotated-reserved", "a delivery modified with annotations whose key does not begin with `x-`, or is no symbol",
     "the session ends (RabbitMQ: `amqp:internal-error` with a stack trace); the message is back", reserved)


def counted(bench):
    queue = bench.declare()
    bench.publish(queue)
    receiver = bench.receiver(queue)
    credit(receiver)
    seen = []
    for outcome, fields in ((RELEASED, []), (MODIFIED, [True, False]), (RELEASED, [])):
        number, sections = delivery(receiver)
        seen.append([sections[ANNOTATIONS].get(f"x-{which}-count") for which in ("acquired", "delivery")])
        settle(receiver, number, outcome, fields)
    return seen


each("counted", "a delivery released, then modified with delivery-failed: its annotations",
     "`x-acquired-count` and, once one failed, `x-delivery-count`",
     lambda bench: equal(counted(bench), [[None, None], [1, None], [2, 1]]), ("quorum",))
each("counted", "a delivery released, then modified with delivery-failed: its annotations", "none tells of counts",
     lambda bench: equal(counted(bench), [[None, None]] * 3), ("classic",))
