"""Corners of rows that no client shows: windows and credit of AMQP 1.0 as they run low, frames of the least size, methods of
0-9-1 that clients no longer send.
"""

import struct
import time

from lab import wire
from lab.cases import equal
from lab.wire import method, short
from lab.wire10 import (
    ATTACH, BEGIN, DETACH, DISPOSITION, FLOW, TRANSFER, Peer10, Uint, is_ours, performative,
)
from suites.wire091 import suite
from suites.wire10_bench import ACCEPTED, DATA, LIMIT, PAYLOAD, REJECTED, Bench, credit, delivery, quiet, transfer

WINDOW = 400
CREDIT = 170


def case(name, words, answer, kind="classic", **options):
    def add(act):
        def run():
            with Bench(kind) as bench:
                act(bench)

        suite.add(name, words, answer, run, **options)

    return add


def granted(bench, address, handle=0, peer=None):
    """A sender, and the credit it is given."""
    peer = peer or bench.peer()
    peer.attach(f"sender-{handle}", handle, False, address)
    peer.expect10(ATTACH)
    return peer, peer.expect10(FLOW)[1][6]


@case("window.again", f"{3 * WINDOW} settled messages, sent as credit and the server's incoming-window allow",
      f"the window is said anew before it is used up, at most {WINDOW} each time (ours: {WINDOW} or more, as credit grows)")
def _(bench):
    peer, room = granted(bench, "/exchanges/amq.fanout")
    window, sent, said = WINDOW, 0, []
    while sent < 3 * WINDOW:
        count = min(room, window, 3 * WINDOW - sent)
        peer.send(*[transfer(number, settled=True) for number in range(sent, sent + count)])
        sent, room, window = sent + count, room - count, window - count
        while (room == 0 or window == 0) and sent < 3 * WINDOW:
            flow = peer.expect10(FLOW)[1]
            said.append(flow[1])
            window = flow[0] + flow[1] - sent
            if flow[4] is not None:
                room = flow[5] + flow[6] - sent
    equal(said[0], WINDOW)
    equal(max(said) >= WINDOW if is_ours(suite.uri) else max(said) == WINDOW, True, f"windows {said}")


@case("credit.half", f"a sender uses half of its link credit of {CREDIT}",
      f"it is given {CREDIT} again (ours: {CREDIT} or more, as the queue keeps up); not after two messages")
def _(bench):
    peer, room = granted(bench, "/exchanges/amq.fanout")
    equal(room, CREDIT)
    peer.send(transfer(0, settled=True), transfer(1, settled=True))
    time.sleep(0.3)
    peer.send(performative(BEGIN, None, Uint(0), Uint(9), Uint(9), channel=9))
    peer.expect10(BEGIN)
    peer.send(*[transfer(number, settled=True) for number in range(2, CREDIT // 2 + 1)])
    count, given = peer.expect10(FLOW)[1][5:7]
    equal(count in (CREDIT // 2, CREDIT // 2 + 1), True, f"delivery-count {count}")
    equal(given >= CREDIT if is_ours(suite.uri) else given == CREDIT, True, f"credit {given}")


@case("credit.beside", "a sender uses all its credit at once, another link of its session sends as well",
      "all are accepted, those of the other link too", kind="quorum")
def _(bench):
    slow, quick = bench.declare(), bench.declare(plain=True)
    peer, room = granted(bench, f"/queues/{slow}")
    granted(bench, f"/queues/{quick}", 1, peer)
    peer.send(*[transfer(number) for number in range(room)])
    peer.send(*[transfer(room + number, 1) for number in range(20)])
    seen = set()
    while len(seen) < room + 20:
        _channel, value, _payload = peer.frame10()
        if value.code == DISPOSITION:
            _role, first, last, settled, state = value.value[:5]
            equal((settled, state.code), (True, ACCEPTED))
            seen.update(range(first, (first if last is None else last) + 1))


@case("credit.session-echo", "a flow with echo that names no link", "no answer (ours: a flow with the session's windows)")
def _(bench):
    peer = bench.peer()
    peer.send(performative(FLOW, Uint(0), Uint(100), Uint(0), Uint(100), None, None, None, None, False, True))
    if is_ours(suite.uri):
        flow = peer.expect10(FLOW)[1]
        equal((flow[:3], flow[4]), ([0, WINDOW, 0], None))
    time.sleep(0.3)
    peer.send(performative(BEGIN, None, Uint(0), Uint(9), Uint(9), channel=9))
    peer.expect10(BEGIN)


@case("open.least-frames", "max-frame-size 512, a message of 3,000 bytes", "delivered in frames of at most 512 bytes")
def _(bench):
    queue = bench.declare()
    bench.publish(queue, bytes(3000))
    peer = Peer10(suite.uri)
    bench.peers.append(peer)
    peer.login10(frame_max=512)
    peer.session()
    peer.attach("receiver", 0, True, f"/queues/{queue}")
    peer.expect10(ATTACH)
    credit(peer, 1)
    sizes, body, more = [], b"", True
    while more:
        _channel, value, payload = peer.frame10()
        if value.code == TRANSFER:
            sizes.append(len(payload))
            body, more = body + payload, value.value[5]
    equal((len(sizes) >= 6, max(sizes) < 512, body.count(b"\0") >= 3000), (True, True, True), f"payloads of {sizes}")


@case("transfer.settled-late", "a message of two frames, the first not settled, the last one settled",
      "link detached: `amqp:invalid-field` `field 'settled' of continuation transfer (true) differs from (interpreted) field "
      "'settled' on first transfer (false)` (ours: stored, settled)")
def _(bench):
    queue = bench.declare()
    peer, _room = granted(bench, f"/queues/{queue}")
    half = len(PAYLOAD) // 2
    peer.send(transfer(0, more=True, payload=PAYLOAD[:half]), transfer(0, settled=True, payload=PAYLOAD[half:]))
    if is_ours(suite.uri):
        quiet(peer)
        receiver = bench.receiver(queue)
        credit(receiver, 1)
        return equal(delivery(receiver)[1][DATA], b"x")
    text = ("field 'settled' of continuation transfer (true) differs from (interpreted) field 'settled' on first transfer "
            "(false)")
    equal(peer.end_seen(), (DETACH, "amqp:invalid-field", text))


@case("outcome.full-beside", "a message to two queues by an exchange, of which one is full and refuses",
      "rejected, with the full one's name; the other has it")
def _(bench):
    full, other = bench.declare(max_length=1, overflow="reject-publish"), bench.declare()
    bench.publish(full)
    key = f"foreign.rows.{time.monotonic_ns():x}"
    for queue in (full, other):
        bench.owner.send(method(1, 50, 20, b"\0\0" + short(queue) + short("amq.direct") + short(key) + b"\0" + wire.table({})))
        bench.owner.expect(50, 21)
    peer, _room = granted(bench, f"/exchanges/amq.direct/{key}")
    peer.send(transfer(0))
    state = peer.expect10(DISPOSITION)[1][4]
    error = state.value[0].value
    equal((state.code, error[0], error[2].get("queue")), (REJECTED, LIMIT, full))
    receiver = bench.receiver(other)
    credit(receiver, 1)
    equal(delivery(receiver)[1][DATA], b"x")


def held(bench):
    """A queue whose only message the owner's channel holds, with its delivery tag."""
    queue = bench.declare()
    bench.publish(queue)
    bench.owner.send(method(1, 60, 70, b"\0\0" + short(queue) + b"\0"))
    return queue, got(bench.owner)


def got(peer):
    """Tag and redelivered of a get that finds something; its header and body are read."""
    _channel, arguments = peer.expect(60, 71)
    while peer.frame()[0] != wire.BODY:
        pass
    tag, redelivered = struct.unpack(">Q?", arguments[:9])
    return tag, redelivered


@case("method.recover-async", "basic.recover-async with requeue", "what is held is ready again, redelivered; no answer")
def _(bench):
    queue, _tag = held(bench)
    bench.owner.send(method(1, 60, 100, b"\x01"), method(1, 60, 70, b"\0\0" + short(queue) + b"\x01"))
    equal(got(bench.owner)[1], True)


@case("method.recover-async-keep", "basic.recover-async without requeue",
      "connection closed: 540 `NOT_IMPLEMENTED - requeue=false` (60, 100)")
def _(bench):
    with wire.Peer(suite.uri) as peer:
        peer.login()
        peer.channel()
        peer.send(method(1, 60, 100, b"\0"))
        equal(peer.close_seen(), ("connection", 540, "NOT_IMPLEMENTED - requeue=false", (60, 100)))


@case("method.no-local", "basic.consume with no-local, the connection's own messages", "delivered all the same")
def _(bench):
    queue = bench.declare()
    bench.owner.send(method(1, 60, 20, b"\0\0" + short(queue) + short("tag") + b"\x03" + wire.table({})))
    bench.owner.expect(60, 21)
    bench.publish(queue)
    bench.owner.expect(60, 60)
    while bench.owner.frame()[0] != wire.BODY:
        pass


@case("method.flow-on", "channel.flow with active=true", "channel.flow-ok, active")
def _(bench):
    bench.owner.send(method(1, 20, 20, b"\x01"))
    equal(bench.owner.expect(20, 21)[1], b"\x01")
