"""Links through qpid-proton: sending, settling, credit, drain, addresses, ends."""

import time

from proton import ConnectionException, Delivery, Message
from proton.reactor import AtMostOnce
from proton.utils import LinkDetached, SendException

from lab.cases import equal, eventually
from suites.pika_bench import fresh
from suites.proton_bench import Bench, body_of, connect, outcome, queue_address, suite

MEBIBYTE = 1 << 20
QUIET_SECONDS = 0.25


def wait_quiet(connection):
    """Runs the connection for a while; what should not come had its time."""
    end = time.monotonic() + QUIET_SECONDS
    try:
        connection.wait(lambda: time.monotonic() > end, timeout=QUIET_SECONDS + 1)
    except Exception as error:  # noqa: BLE001 - only a timeout is nothing
        if "timed out" not in str(error):
            raise


def bodies(receiver, count):
    """Takes `count` messages and leaves them unsettled."""
    return [body_of(receiver.receive(timeout=10)) for _ in range(count)]


def settle(delivery, state, **local):
    for name, value in local.items():
        setattr(delivery.local, name, value)
    delivery.update(state)
    delivery.settle()


@suite.case("send.accepted", "an unsettled durable message to a queue", "accepted, settled by the broker")
def _():
    with Bench() as bench:
        queue = bench.queue()
        delivery = bench.sender(queue).send(Message(body="x", durable=True))
        equal((outcome(delivery), bench.desk.count(queue)), ("accepted", 1))


@suite.case("send.settled", "settled messages", "stored; no outcome is sent")
def _():
    with Bench() as bench:
        queue = bench.queue()
        sender = bench.sender(queue, options=AtMostOnce())
        for number in range(50):
            sender.send(Message(body=number, durable=True))
        sender.close()
        eventually(lambda: bench.desk.count(queue) == 50, "stored")


@suite.case("send.order", "500 messages with all credit used, then received", "accepted each; the same order")
def _():
    with Bench() as bench:
        queue = bench.queue()
        sender = bench.sender(queue)
        deliveries = []
        for number in range(500):
            bench.connection.wait(lambda: sender.link.credit > 0)
            deliveries.append(sender.link.send(Message(body=number, durable=True)))
        bench.connection.wait(lambda: all(delivery.settled for delivery in deliveries))
        equal({outcome(delivery) for delivery in deliveries}, {"accepted"})
        equal(bodies(bench.receiver(queue, credit=500), 500), list(range(500)))


@suite.case("send.unroutable", "a message that no queue takes", "released")
def _():
    with Bench() as bench:
        try:
            bench.sender(address=f"/exchanges/amq.direct/{fresh('key')}").send(Message(body="x"))
        except SendException as error:
            equal(error.state, Delivery.RELEASED)
            return
    raise AssertionError("it was accepted")


@suite.case("send.anonymous", "the anonymous terminus", "each message goes where its `to` says")
def _():
    with Bench() as bench:
        queue, key = bench.queue(), fresh("key")
        bench.desk.channel.queue_bind(queue, "amq.direct", key)
        sender = bench.sender()
        absent = fresh("absent")
        for address, state in [
            (queue_address(queue), Delivery.ACCEPTED), (f"/exchanges/amq.direct/{key}", Delivery.ACCEPTED),
            (queue_address(absent), Delivery.RELEASED), (f"/exchanges/amq.direct/{absent}", Delivery.RELEASED),
            (f"/exchanges/{absent}/k", Delivery.REJECTED), ("plain", Delivery.REJECTED), (None, Delivery.REJECTED),
            (queue_address(queue), Delivery.ACCEPTED),
        ]:
            try:
                seen = sender.send(Message(address=address, body="x")).remote_state
            except SendException as error:
                seen = error.state
            equal(seen, state, f"outcome for {address}")
        equal(bench.desk.count(queue), 3)


@suite.case("send.exchange", "targets `/exchanges/x/key` and `/exchanges/x`", "routed by the key; by the empty key")
def _():
    with Bench() as bench:
        keyed, empty = bench.queue(), bench.queue()
        exchange = bench.desk.exchange("direct")
        bench.desk.channel.queue_bind(keyed, exchange, "a/b")
        bench.desk.channel.queue_bind(empty, exchange, "")
        bench.sender(address=f"/exchanges/{exchange}/a%2Fb").send(Message(body="1"))
        bench.sender(address=f"/exchanges/{exchange}").send(Message(body="2", subject="a/b"))
        equal((bodies(bench.receiver(keyed, 9), 1), bodies(bench.receiver(empty, 9), 1)), (["1"], ["2"]))


def detached(condition, text, act):
    with Bench() as bench:
        absent = fresh("absent")
        try:
            act(bench, absent)
        except LinkDetached as error:
            equal(error.condition, condition)
            if text is not None:
                equal(text.format(absent=absent) in str(error), True, str(error))
        else:
            raise AssertionError("it was attached")
        queue = bench.queue()
        bench.send(queue, "the session lives on")


for name, words, condition, text, act in [
    ("sender-unknown-queue", "a sender to an unknown queue", "amq:not-found", "no queue '{absent}' in vhost '/'",
     lambda bench, absent: bench.sender(absent)),
    ("receiver-unknown-queue", "a receiver from an unknown queue", "amq:not-found", "no queue '{absent}' in vhost '/'",
     lambda bench, absent: bench.receiver(absent)),
    ("sender-unknown-exchange", "a sender to an unknown exchange", "amq:not-found",
     "no exchange '{absent}' in vhost '/'", lambda bench, absent: bench.sender(address=f"/exchanges/{absent}/k")),
    ("sender-v1-address", "a sender to an address of the old form", "amq:invalid-field", None,
     lambda bench, absent: bench.sender(address=absent)),
    ("receiver-v1-address", "a receiver from an address of the old form", "amq:invalid-field", None,
     lambda bench, absent: bench.connection.create_receiver(absent)),
]:
    condition = condition.replace("amq:", "amqp:")
    answer = f"detach closed: `{condition}`" + (f" `{text}`" if text else "") + "; the session lives on"
    suite.add(f"attach.{name}", words, answer, lambda c=condition, t=text, a=act: detached(c, t, a))


@suite.case("attach.wrong-password", "a wrong password", "refused by SASL (`amqp:unauthorized-access` in this client)")
def _():
    uri = suite.uri
    try:
        connect(f"{uri.user}:wrong")
    except ConnectionException as error:
        equal("amqp:unauthorized-access" in str(error), True, str(error))
        return
    raise AssertionError("it was opened")


def received(state, local, left, queue_type):
    """Settles the first of two messages with a state; looks at what is left, from the front."""
    with Bench() as bench:
        queue = bench.queue(arguments={"x-queue-type": queue_type})
        bench.send(queue, b"1", b"2")
        receiver = bench.receiver(queue, credit=2)
        equal(bodies(receiver, 2), [b"1", b"2"])
        settle(receiver.unsettled[0], state, **local)
        settle(receiver.unsettled[1], Delivery.ACCEPTED)
        receiver.unsettled.clear()
        receiver.close()
        eventually(lambda: bench.desk.count(queue) == left, f"{left} left")
        if left:
            message = bench.receiver(queue, credit=1).receive(timeout=10)
            failures = 1 if local.get("failed") else 0
            equal((body_of(message), message.first_acquirer, message.delivery_count), (b"1", False, failures))


for queue_type in ("classic", "quorum"):
    for name, state, local, left, answer in [
        ("accepted", Delivery.ACCEPTED, {}, 0, "removed"),
        ("rejected", Delivery.REJECTED, {}, 0, "removed (no dead-lettering here)"),
        ("released", Delivery.RELEASED, {}, 1, "back in the queue, first-acquirer=false, delivery-count 0"),
        ("modified", Delivery.MODIFIED, {"failed": True}, 1,
         "back in the queue, first-acquirer=false, delivery-count 1"),
    ]:
        suite.add(f"receive.{name}-{queue_type}", f"settling a delivery as {name} ({queue_type} queue)", answer,
                  lambda s=state, o=local, n=left, q=queue_type: received(s, o, n, q))


@suite.case("receive.order", "releasing deliveries of several", "back in their places, before later messages")
def _():
    with Bench() as bench:
        queue = bench.queue()
        bench.send(queue, *[b"%d" % number for number in range(1, 7)])
        receiver = bench.receiver(queue, credit=4)
        bodies(receiver, 4)
        unsettled = list(receiver.unsettled)
        receiver.unsettled.clear()
        settle(unsettled[0], Delivery.ACCEPTED)
        for delivery in (unsettled[3], unsettled[1]):
            settle(delivery, Delivery.RELEASED)
        settle(unsettled[2], Delivery.ACCEPTED)
        receiver.close()
        eventually(lambda: bench.desk.count(queue) == 4, "four are left")
        equal(bodies(bench.receiver(queue, credit=4), 4), [b"2", b"4", b"5", b"6"])


def goes_back(leave):
    with Bench() as bench, Bench() as other:
        queue = bench.queue()
        bench.send(queue, b"1", b"2", b"3", b"4")
        receiver = other.receiver(queue, credit=3)
        bodies(receiver, 3)
        settle(receiver.unsettled[1], Delivery.ACCEPTED)
        wait_quiet(other.connection)
        leave(other, receiver)
        eventually(lambda: bench.desk.count(queue) == 3, "back in the queue")
        seen = bench.receiver(queue, credit=3)
        messages = [seen.receive(timeout=10) for _ in range(3)]
        equal([(body_of(message), message.first_acquirer) for message in messages],
              [(b"1", False), (b"3", False), (b"4", True)])


for name, words, leave in [
    ("detach", "detaching the link", lambda _bench, receiver: receiver.link.close() or _bench.connection.wait(
        lambda: not receiver.link.state & receiver.link.REMOTE_ACTIVE)),
    ("session-end", "ending the session", lambda bench, receiver: receiver.link.session.close() or
        bench.connection.wait(lambda: not receiver.link.session.state & receiver.link.REMOTE_ACTIVE)),
    ("connection-close", "closing the connection", lambda bench, _receiver: bench.connection.close()),
]:
    suite.add(f"receive.back-on-{name}", f"{words} with unsettled deliveries",
              "back in their places, first-acquirer=false", lambda leave=leave: goes_back(leave))


@suite.case("receive.settled", "a receiver that asks for settled deliveries", "settled by the broker, removed at once")
def _():
    with Bench() as bench:
        queue = bench.queue()
        bench.send(queue, *range(20))
        receiver = bench.receiver(queue, credit=20, options=AtMostOnce())
        equal(bodies(receiver, 20), list(range(20)))
        equal(len(receiver.unsettled), 0, "unsettled")
        receiver.close()
        equal(bench.desk.count(queue), 0)


@suite.case("receive.many", "1000 deliveries settled together", "all removed (ranges of dispositions)")
def _():
    with Bench() as bench:
        queue = bench.queue()
        bench.desk.fill(queue, [b"%d" % number for number in range(1000)])
        receiver = bench.receiver(queue, credit=1000)
        bodies(receiver, 1000)
        while receiver.unsettled:
            receiver.settle(Delivery.ACCEPTED)
        receiver.close()
        eventually(lambda: bench.desk.count(queue) == 0, "all removed")


@suite.case("credit.drain-empty", "drain on an empty queue", "credit 0 at once; new credit works")
def _():
    with Bench() as bench:
        queue = bench.queue()
        receiver = bench.receiver(queue)
        receiver.link.drain(5)
        bench.connection.wait(lambda: not receiver.link.draining(), timeout=10)
        receiver.link.drain_mode = False
        receiver.link.flow(1)
        bench.send(queue, "x")
        equal(body_of(receiver.receive(timeout=10)), "x")


@suite.case("credit.other-links", "a link without credit", "does not hold up another link of the session")
def _():
    with Bench() as bench:
        stuck, lively = bench.queue(), bench.queue()
        bench.send(stuck, *range(5))
        bench.receiver(stuck, credit=1)
        receiver = bench.receiver(lively, credit=10)
        bench.send(lively, *range(10))
        equal(bodies(receiver, 10), list(range(10)))


@suite.case("share.receivers", "two receivers with credit on one queue", "each message once; both get some")
def _():
    with Bench() as bench:
        queue = bench.queue()
        receivers = [bench.receiver(queue, credit=50), bench.receiver(queue, credit=50)]
        bench.send(queue, *range(40))
        counts = [receiver.incoming for receiver in receivers]
        bench.connection.wait(lambda: sum(map(len, counts)) >= 40, timeout=10)
        seen = [message.body for incoming in counts for message, _delivery in incoming]
        equal((sorted(seen), [len(incoming) for incoming in counts]), (list(range(40)), [20, 20]))


def large(size, **options):
    def act():
        body = (bytes(range(251)) * (size // 251 + 1))[:size]
        with Bench(**options) as bench:
            queue = bench.queue()
            equal(outcome(bench.sender(queue).send(Message(body=body, durable=True, inferred=True))), "accepted")
            message = bench.receiver(queue, credit=1).receive(timeout=30)
            equal(body_of(message) == body, True, "body")

    return act


for name, words, size, options in [
    ("64KiB", "64 KiB", 65536, {}), ("1MiB", "1 MiB", MEBIBYTE, {}), ("10MiB", "10 MiB", 10 * MEBIBYTE, {}),
    ("small-frames", "256 KiB in frames of 4096 bytes", 262144, {"max_frame_size": 4096}),
]:
    suite.add(f"large.{name}", f"a body of {words}, both ways", "accepted; the same bytes", large(size, **options))


@suite.case("large.too-large", "a message over max-message-size (16 MiB)",
            "session ended: `amqp:link:message-size-exceeded`")
def _():
    with Bench() as bench:
        sender = bench.sender(bench.queue())
        sender.link.send(Message(body=bytes(16 * MEBIBYTE + 1), inferred=True))
        session = sender.link.session
        bench.connection.wait(lambda: session.remote_condition is not None, timeout=30)
        equal(session.remote_condition.name, "amqp:link:message-size-exceeded")


@suite.case("queue.deleted", "deleting the queue of a receiver", "detach closed: `amqp:resource-deleted`")
def _():
    with Bench() as bench:
        queue = bench.queue()
        receiver = bench.receiver(queue, credit=1)
        bench.desk.channel.queue_delete(queue)
        try:
            receiver.receive(timeout=10)
        except LinkDetached as error:
            equal(error.condition, "amqp:resource-deleted")
            return
    raise AssertionError("it was not detached")
