"""How AMQP 1.0 peers settle, and what is said of a message besides its body: corners that clients do not show."""

from lab.cases import equal
from lab.wire10 import DISPOSITION, END, FLOW, TRANSFER, Described, Ubyte, Uint, encode, is_ours, performative
from suites.wire091 import suite
from suites.wire10_attach import Raw
from suites.wire10_bench import (
    ACCEPTED, DATA, HEADER, MODIFIED, PAYLOAD, RELEASED, credit, delivery, each, quiet, send, sender, settle, transfer,
)

RECEIVED = 0x23


def refused(peer, state):
    """Where RabbitMQ ends the session; we do not."""
    if is_ours(suite.uri):
        quiet(peer, flows=True)
        return False
    code, condition, text = peer.end_seen()
    equal((code, condition, text.startswith(f"Unrecognised state: {state}")), (END, "amqp:invalid-field", True))
    return True


def came_back(bench, queue, count=1):
    """Body, first-acquirer and delivery-count of what is in the queue."""
    receiver = bench.receiver(queue)
    credit(receiver)
    seen = []
    for _ in range(count):
        number, sections = delivery(receiver)
        fields = sections.get(HEADER, []) + [None] * 5
        seen.append((sections[DATA], bool(fields[3]), fields[4] or 0))
        settle(receiver, number, ACCEPTED)
    quiet(receiver, flows=True)
    return seen


def stateless(bench):
    queue = bench.declare()
    bench.publish(queue)
    receiver = bench.receiver(queue)
    credit(receiver, 1)
    send(receiver, DISPOSITION, [True, Uint(delivery(receiver)[0]), None, True, None])
    was_refused = refused(receiver, "undefined")
    equal(came_back(bench, queue), [(b"x", False, int(was_refused))])


each("settle-stateless", "a delivery settled without a state",
     "session ended: `amqp:invalid-field`, the message is back as failed (ours: released, the default outcome)", stateless)


def unsettled(bench):
    queue = bench.declare()
    for body in (b"1", b"2", b"3"):
        bench.publish(queue, body)
    receiver = bench.receiver(queue)
    credit(receiver)
    numbers = [delivery(receiver)[0] for _ in range(3)]
    for number, outcome in zip(numbers, (ACCEPTED, RELEASED), strict=False):
        send(receiver, DISPOSITION, [True, Uint(number), None, False, Described(outcome, [])])
        while True:
            _channel, value, _payload = receiver.frame10()
            if value.code == DISPOSITION:
                break
        role, first, last, settled, state = value.value[:5]
        equal((role, first, last or first, settled, state.code), (False, number, number, True, outcome))


each("settle-unsettled", "outcomes that do not settle: accepted, released",
     "each answered by a disposition that settles with the same outcome", unsettled)


def received(bench):
    queue = bench.declare()
    bench.publish(queue)
    receiver = bench.receiver(queue)
    credit(receiver)
    number = delivery(receiver)[0]
    send(receiver, DISPOSITION, [True, Uint(number), None, False, Described(RECEIVED, [Uint(0), Raw(b"\x44")])])
    if refused(receiver, "{'v1_0.received'"):
        return
    settle(receiver, number, ACCEPTED)
    quiet(receiver, flows=True)
    equal(came_back(bench, queue, 0), [])


each("settle-received", "the state received, then accepted",
     "session ended: `amqp:invalid-field` (ours: nothing ends by the first; settled by the second)", received)


def ranges(bench):
    queues = bench.declare(), bench.declare()
    peer = bench.peer()
    for handle, queue in enumerate(queues):
        for body in (b"1", b"2", b"3"):
            bench.publish(queue, body)
        bench.receiver(queue, handle=handle, peer=peer)
    order = []
    for turn in range(6):
        handle = turn % 2
        count = turn // 2
        peer.send(performative(FLOW, Uint(turn), Uint(100), Uint(0), Uint(100), Uint(handle), Uint(count), Uint(1)))
        order.append(delivery(peer)[0])
    equal(order, list(range(6)), "delivery-ids, the links by turns")
    send(peer, DISPOSITION, [True, Uint(1), Uint(4), True, Described(ACCEPTED, [])])
    quiet(peer, flows=True)
    peer.__exit__(None, None, None)
    bench.peers.remove(peer)
    equal([[body for body, _first, _count in came_back(bench, queue)] for queue in queues], [[b"1"], [b"3"]])


each("settle-range", "deliveries of two links by turns, those between the first and the last accepted as one range",
     "settled on both links; the other two are back", ranges)


def kept(bench):
    queue = bench.declare()
    peer = sender(bench, queue)
    header = encode(Described(HEADER, [True, Ubyte(5), Uint(600_000), True, Uint(3)]))
    peer.send(transfer(0, settled=True, payload=header + PAYLOAD))
    quiet(peer, flows=True)
    receiver = bench.receiver(queue)
    seen = []
    for outcome, fields in ((RELEASED, []), (MODIFIED, [True, False]), (ACCEPTED, [])):
        credit(receiver, 10)
        number, sections = delivery(receiver)
        durable, priority, ttl, first, count = (sections[HEADER] + [None] * 5)[:5]
        equal(0 < ttl <= 600_000, True, f"ttl {ttl}")
        seen.append((durable, priority, bool(first), count or 0))
        settle(receiver, number, outcome, fields)
    equal(seen, [(True, 5, True, 0), (True, 5, False, 0), (True, 5, False, 1)])


each("header-kept", "a header with all fields, as it is delivered, after released, after modified with delivery-failed",
     "durable, priority and ttl are kept; first-acquirer and delivery-count are the broker's", kept)


def mixed(bench):
    """The second frame of a message says that it is settled, or the first."""
    queue = bench.declare()
    peer = sender(bench, queue)
    half = len(PAYLOAD) // 2
    peer.send(performative(TRANSFER, Uint(0), Uint(0), b"t", Uint(0), True, True, payload=PAYLOAD[:half]))
    peer.send(performative(TRANSFER, Uint(0), None, None, None, None, False, payload=PAYLOAD[half:]))
    quiet(peer, flows=True)
    peer.send(performative(TRANSFER, Uint(0), Uint(1), b"u", Uint(0), None, True, payload=PAYLOAD[:half]))
    peer.send(performative(TRANSFER, Uint(0), None, None, None, None, False, payload=PAYLOAD[half:]))
    answer = peer.expect10(DISPOSITION)[1]
    equal((answer[1], answer[3], answer[4].code), (1, True, ACCEPTED))
    equal([body for body, _first, _count in came_back(bench, queue, 2)], [b"x", b"x"])


each("settle-mixed", "messages of two frames over one link, the first sent settled, the second not",
     "a disposition for the second alone; both are in the queue", mixed)


def aborted(bench):
    queue = bench.declare()
    peer = sender(bench, queue)
    half = len(PAYLOAD) // 2
    peer.send(
        performative(TRANSFER, Uint(0), Uint(0), b"t", Uint(0), False, True, payload=PAYLOAD),
        performative(TRANSFER, Uint(0), Uint(0), b"t", Uint(0), False, False, None, None, None, True),
        performative(TRANSFER, Uint(0), Uint(1), b"u", Uint(0), False, False, payload=PAYLOAD),
        performative(TRANSFER, Uint(0), Uint(2), b"v", Uint(0), False, True, payload=PAYLOAD[:half]),
        performative(TRANSFER, Uint(0), Uint(2), b"v", Uint(0), False, False, payload=PAYLOAD[half:]),
    )
    taken = [1, 2] if is_ours(suite.uri) else [0, 1, 2]
    seen = []
    while len(seen) < len(taken):
        _channel, value, _payload = peer.frame10()
        if value.code == DISPOSITION:
            first, last = value.value[1], value.value[2]
            seen += range(first, (last or first) + 1)
    equal(seen, taken, "delivery-ids")
    equal(len(came_back(bench, queue, len(taken))), len(taken))


each("aborted", "a message whose second frame aborts it, then two that are whole",
     "all three are taken (ours: as if the first had never been sent)", aborted)
