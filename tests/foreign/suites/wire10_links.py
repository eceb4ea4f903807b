"""The life of an AMQP 1.0 link's handle and of a session's channel: what comes for one that is gone, and one used again."""

from lab.cases import equal
from lab.wire10 import (
    ATTACH, BEGIN, DETACH, DISPOSITION, END, ERROR, FLOW, Described, Symbol, Uint, is_ours, performative,
)
from suites.wire091 import suite
from suites.wire10_bench import (
    ACCEPTED, DATA, MODIFIED, Bench, credit, delivery, quiet, send, sender, settle, transfer,
)

UNATTACHED = "amqp:session:unattached-handle"


def detach(peer, handle=0, closed=True, error=None):
    send(peer, DETACH, [Uint(handle), closed, error])


def flow(handle, count=10, delivered=0):
    return performative(FLOW, Uint(0), Uint(100), Uint(0), Uint(100), Uint(handle), Uint(delivered), Uint(count), None,
                        False, False)


def case(name, words, answer):
    def add(act):
        def run():
            with Bench("classic") as bench:
                act(bench)

        suite.add(f"life.{name}", words, answer, run)

    return add


@case("sender-again", "a sender detached, then another attached to the same handle, to another queue",
      "each message in the queue of its link")
def _(bench):
    first, second = bench.declare(), bench.declare()
    peer = sender(bench, first)
    peer.send(transfer(0))
    equal(peer.expect10(DISPOSITION)[1][4].code, ACCEPTED)
    detach(peer)
    equal(peer.expect10(DETACH)[1][:3], [0, True, None])
    sender(bench, second, peer=peer)
    peer.send(transfer(1))
    equal(peer.expect10(DISPOSITION)[1][4].code, ACCEPTED)
    for queue in (first, second):
        receiver = bench.receiver(queue)
        credit(receiver)
        delivery(receiver)
        quiet(receiver)


@case("role-again", "a sender detached, then a receiver attached to the same handle with the same name",
      "it gets what was sent; what it holds when it detaches is back in the queue")
def _(bench):
    queue = bench.declare()
    peer = sender(bench, queue, name="link")
    peer.send(transfer(0))
    equal(peer.expect10(DISPOSITION)[1][4].code, ACCEPTED)
    detach(peer)
    peer.expect10(DETACH)
    for _ in range(2):
        peer.attach("link", 0, True, f"/queues/{queue}")
        peer.expect10(ATTACH)
        peer.send(flow(0))
        delivery(peer)
        detach(peer)
        peer.expect10(DETACH)


@case("settle-gone", "a receiver settles what it held when it detached", "passed over: the message is delivered again")
def _(bench):
    queue = bench.declare()
    bench.publish(queue)
    peer = bench.receiver(queue)
    credit(peer)
    number = delivery(peer)[0]
    detach(peer)
    peer.expect10(DETACH)
    settle(peer, number, ACCEPTED)
    quiet(peer)
    other = bench.receiver(queue)
    credit(other)
    delivery(other)


@case("settle-again", "a receiver settles a delivery twice, the second time with another outcome", "passed over")
def _(bench):
    queue = bench.declare()
    bench.publish(queue)
    peer = bench.receiver(queue)
    credit(peer)
    number = delivery(peer)[0]
    settle(peer, number, ACCEPTED)
    settle(peer, number, MODIFIED, [True, False])
    settle(peer, number + 7, ACCEPTED)
    quiet(peer)


@case("transfer-gone", "a transfer on a handle that was detached", f"session ended: `{UNATTACHED}` `Unknown link handle: 0`")
def _(bench):
    peer = sender(bench, bench.declare())
    detach(peer)
    peer.expect10(DETACH)
    peer.send(transfer(0))
    equal(peer.end_seen(), (END, UNATTACHED, "Unknown link handle: 0"))


@case("transfer-never", "a transfer on a handle that was never attached",
      f"session ended: `{UNATTACHED}` `Unknown link handle: 3`")
def _(bench):
    peer = bench.peer()
    peer.send(transfer(0, handle=3))
    equal(peer.end_seen(), (END, UNATTACHED, "Unknown link handle: 3"))


@case("transfer-receiver", "a transfer on the handle of a receiver",
      f"session ended: `{UNATTACHED}` `Unknown link handle: 0`")
def _(bench):
    peer = bench.receiver(bench.declare())
    peer.send(transfer(0))
    equal(peer.end_seen(), (END, UNATTACHED, "Unknown link handle: 0"))


@case("flow-gone", "a flow for a handle that was detached", f"session ended: `{UNATTACHED}` `Unattached link handle: 0`")
def _(bench):
    peer = bench.receiver(bench.declare())
    detach(peer)
    peer.expect10(DETACH)
    credit(peer)
    equal(peer.end_seen(), (END, UNATTACHED, "Unattached link handle: 0"))


@case("detach-gone", "a handle detached twice, and one that never was", "no answer; the session lives")
def _(bench):
    peer = bench.receiver(bench.declare())
    detach(peer)
    peer.expect10(DETACH)
    detach(peer)
    detach(peer, handle=9)
    quiet(peer)


@case("detach-error", "a detach with an error, closed or not", "answered: closed as it was, no error")
def _(bench):
    queue = bench.declare()
    for closed in (True, False):
        peer = sender(bench, queue)
        detach(peer, closed=closed, error=Described(ERROR, [Symbol("my:error"), "why"]))
        answer = peer.expect10(DETACH)[1]
        equal((answer[0], bool(answer[1]), answer[2]), (0, closed, None))


@case("detach-partly", "a sender detached in the middle of a message of several frames",
      "nothing of it is in the queue; the next link of the handle sends a whole one")
def _(bench):
    queue = bench.declare()
    peer = sender(bench, queue)
    peer.send(transfer(0, more=True))
    detach(peer)
    peer.expect10(DETACH)
    sender(bench, queue, peer=peer)
    peer.send(transfer(1))
    equal(peer.expect10(DISPOSITION)[1][4].code, ACCEPTED)
    receiver = bench.receiver(queue)
    credit(receiver)
    equal(delivery(receiver)[1][DATA], b"x")
    quiet(receiver)


@case("names", "two links of one name in one session, of one role and of both", "all attached")
def _(bench):
    queue = bench.declare()
    peer = sender(bench, queue, name="link")
    sender(bench, queue, handle=1, name="link", peer=peer)
    peer.attach("link", 2, True, f"/queues/{queue}")
    peer.expect10(ATTACH)
    quiet(peer)


@case("handles", "links on handles 255, 7 and 0, the middle one detached and attached again", "each at its own handle")
def _(bench):
    queue = bench.declare()
    peer = bench.peer()
    for handle in (255, 7, 0):
        sender(bench, queue, handle=handle, name=f"link-{handle}", peer=peer)
    detach(peer, handle=7)
    equal(peer.expect10(DETACH)[1][0], 7)
    sender(bench, queue, handle=7, name="other", peer=peer)
    for number, handle in enumerate((7, 255, 0)):
        peer.send(transfer(number, handle=handle))
        answer = peer.expect10(DISPOSITION)[1]
        equal((answer[1], answer[4].code), (number, ACCEPTED))


@case("channel-again", "a session ended that holds a delivery, then another begun on the same channel",
      "the delivery is back; delivery-ids begin anew")
def _(bench):
    queue = bench.declare()
    bench.publish(queue)
    peer = bench.receiver(queue)
    credit(peer)
    first = delivery(peer)[0]
    send(peer, END, [])
    peer.expect10(END)
    peer.session()
    bench.receiver(queue, peer=peer)
    credit(peer)
    equal((first, delivery(peer)[0]), (0, 0), "delivery-ids")


@case("begin-again", "a begin on a channel in use", "session ended (RabbitMQ: `amqp:internal-error`; ours: `amqp:not-allowed`)")
def _(bench):
    peer = bench.peer()
    peer.send(performative(BEGIN, None, Uint(0), Uint(9), Uint(9)))
    code, condition, _text = peer.end_seen()
    equal((code, condition), (END, "amqp:not-allowed" if is_ours(suite.uri) else "amqp:internal-error"))


@case("end-error", "an end with an error", "answered without one; the connection lives")
def _(bench):
    peer = bench.peer()
    send(peer, END, [Described(ERROR, [Symbol("my:error"), "why"])])
    equal(peer.expect10(END)[1][0], None)
    peer.session(channel=3)


@case("frames-gone", "a flow, a transfer, a detach and an end on a channel whose session has ended",
      "passed over; another session begins")
def _(bench):
    peer = sender(bench, bench.declare())
    send(peer, END, [])
    peer.expect10(END)
    peer.send(flow(0), transfer(0))
    detach(peer)
    send(peer, END, [])
    peer.send(performative(BEGIN, None, Uint(0), Uint(9), Uint(9), channel=2))
    peer.expect10(BEGIN)


@case("echo", "a flow with echo from a receiver", "answered by a flow of the link: its credit and its delivery-count")
def _(bench):
    peer = bench.receiver(bench.declare())
    peer.send(performative(FLOW, Uint(0), Uint(9), Uint(0), Uint(9), Uint(0), Uint(0), Uint(5), None, False, True))
    answer = peer.expect10(FLOW)[1]
    equal((answer[4], answer[5], answer[6]), (0, 0, 5))
