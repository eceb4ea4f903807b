"""How large a message an AMQP 1.0 receiver takes (max-message-size in its attach): what it is told, what it gets."""

import struct
import time

from lab.cases import equal
from lab.wire10 import ATTACH, END, FLOW, TRANSFER, Described, Symbol, Ubyte, Uint, encode, performative
from suites.wire10_attach import Raw
from suites.wire10_bench import DATA, credit, delivery, each, send

NULL_VALUE = encode(Described(0x77, None))
PROPERTIES = 0x73


def ulong(number):
    return Raw(b"\x80" + struct.pack(">Q", number))


def attach(peer, name, handle, receiver, source, target, most, settles=None, properties=None):
    fields = [name, Uint(handle), receiver, settles, None, Described(0x28, source), Described(0x29, target), None, None,
              None if receiver else Uint(0), most, None, None, properties]
    send(peer, ATTACH, fields)
    return peer.expect10(ATTACH)[1]


def receiver(bench, queue, most, settles=None):
    """A peer that receives from the queue, and what it is told of its limit."""
    peer = bench.peer()
    return peer, attach(peer, "r", 0, True, [f"/queues/{queue}"], ["local"], most, settles)[10]


def first(bench, queue):
    """The first message for a receiver without limit."""
    peer, _told = receiver(bench, queue, None)
    credit(peer)
    return delivery(peer)[1][DATA]


def refused(peer, most):
    code, condition, text = peer.end_seen()
    equal((code, condition), (END, "amqp:link:message-size-exceeded"))
    equal(text.startswith("message size (") and text.endswith(f" bytes) > maximum message size ({most} bytes)"), True, text)


def large(bench):
    queue = bench.declare()
    bench.publish(queue, b"y" * 500)
    peer, told = receiver(bench, queue, ulong(100))
    equal(told, 100, "max-message-size in the answer")
    credit(peer)
    refused(peer, 100)
    equal(first(bench, queue), b"y" * 500, "back in the queue")


ENDED = "session ended: `amqp:link:message-size-exceeded` `message size (N bytes) > maximum message size (100 bytes)`"
each("large", "a message of 500 bytes for a receiver whose max-message-size is 100",
     f"the attach repeats 100; {ENDED}; the message is back", large)


def large_frames(bench):
    queue = bench.declare()
    bench.publish(queue, b"\xff" * 300_000)
    peer, _told = receiver(bench, queue, ulong(200_000))
    credit(peer)
    refused(peer, 200_000)
    equal(first_long(bench, queue, None), 300_000, "back in the queue")
    equal(first_long(bench, queue, ulong(301_000)), 300_000, "one that takes so much")


def first_long(bench, queue, most):
    """The bytes of the first message's body, which comes in several frames."""
    peer, _told = receiver(bench, queue, most)
    credit(peer)
    size, more = 0, True
    while more:
        _channel, value, payload = peer.frame10()
        if value.code == TRANSFER:
            size, more = size + payload.count(b"\xff"), value.value[5]
    peer.__exit__(None, None, None)
    bench.peers.remove(peer)
    return size


each("large-frames", "a message of 300,000 bytes for receivers whose max-message-size is 200,000 and 301,000",
     "session ended: `amqp:link:message-size-exceeded`; the other gets it, in several frames", large_frames)


def large_later(bench):
    queue = bench.declare()
    bench.publish(queue, b"y")
    bench.publish(queue, b"y" * 500)
    bench.publish(queue, b"z")
    peer, _told = receiver(bench, queue, ulong(400))
    credit(peer, 1)
    equal(delivery(peer)[1][DATA], b"y", "one that is small enough")
    credit(peer, 2)
    refused(peer, 400)


each("large-later", "messages of 1, 500 and 1 bytes for a receiver whose max-message-size is 400, one credit at a time",
     "the first; then the session ends", large_later)


def large_settled(bench):
    queue = bench.declare()
    bench.publish(queue, b"y" * 500)
    bench.publish(queue, b"z")
    peer, told = receiver(bench, queue, ulong(100), Ubyte(1))
    equal(told, 100, "max-message-size in the answer")
    credit(peer, 1)
    refused(peer, 100)
    equal(first(bench, queue), b"z", "the next; the large one is gone")


each("large-settled", "a message of 500 bytes for a receiver that takes what is settled, max-message-size 100",
     f"{ENDED}; the message is gone, settled when it was to be sent", large_settled, ("classic",))


def repeated(bench):
    queue = bench.declare()
    bench.publish(queue, b"y" * 500)
    for most, told in ((None, None), (ulong(0), 0), (ulong(1 << 40), 1 << 40)):
        peer, answer = receiver(bench, queue, most)
        equal(answer, told, "max-message-size in the answer")
        credit(peer, 1)
        equal(delivery(peer)[1][DATA], b"y" * 500)
        peer.__exit__(None, None, None)
        bench.peers.remove(peer)


each("large-none", "receivers whose max-message-size is absent, 0, 2^40",
     "the attach repeats it; messages of any size", repeated)


def large_answer(bench):
    queue = bench.declare()
    peer = bench.peer()
    paired = {Symbol("paired"): True}
    most = attach(peer, "pair", 0, False, ["/management"], ["/management"], None, Ubyte(1), paired)[10]
    equal(most > 0, True, f"{most} bytes of a request")
    peer.expect10(FLOW)
    equal(attach(peer, "pair", 1, True, ["/management"], ["/management"], ulong(100), Ubyte(1), paired)[10], 100,
          "max-message-size in the answer")
    peer.send(performative(FLOW, Uint(0), Uint(100), Uint(0), Uint(100), Uint(1), Uint(0), Uint(10), None, False, False))
    request = encode(Described(PROPERTIES, [1, None, f"/queues/{queue}", "GET", "$me"])) + NULL_VALUE
    peer.send(performative(TRANSFER, Uint(0), Uint(0), b"t", Uint(0), True, False, payload=request))
    refused(peer, 100)


each("large-answer", "an answer of the management node to a receiver whose max-message-size is 100",
     f"the attach repeats 100; {ENDED}", large_answer, ("classic",))


def large_sent(bench):
    """A delivery to the broker is bounded by the broker's own limit, at any size that the sender says."""
    queue = bench.declare()
    peer = bench.peer()
    equal(attach(peer, "s", 0, False, ["local"], [f"/queues/{queue}"], ulong(100))[10], 16_777_216)
    peer.expect10(FLOW)
    payload = encode(Described(DATA, b"y" * 500))
    peer.send(performative(TRANSFER, Uint(0), Uint(0), b"t", Uint(0), True, False, payload=payload))
    time.sleep(0.3)
    equal(first(bench, queue), b"y" * 500)


each("large-sent", "a sender whose max-message-size is 100 sends 500 bytes", "attach: 16777216; the message is taken",
     large_sent)
