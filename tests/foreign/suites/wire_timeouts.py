"""How long a consumer of a quorum queue may hold a message, and what it is told then: both protocols, frame by frame.

Raw, because a client library takes the basic.cancel for the end of its consumer, which it is not.
"""

import struct
import time

from lab import wire
from lab.cases import equal
from lab.wire10 import ATTACH, BEGIN, DISPOSITION, END, FLOW, TRANSFER, Described, Symbol, Uint, performative
from suites.wire091 import suite
from suites.wire10_bench import ACCEPTED, DATA, HEADER, MODIFIED, REJECTED, RELEASED, Bench, credit, delivery, send, settle

TIMEOUT, LATER = 400, 0.9
DEAF = {"capabilities": {"authentication_failure_close": True, "consumer_cancel_notify": False}}
LATE_CLOSE = ("channel", 406, "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: "
              "-1 ms. This timeout value can be configured, see consumers doc guide to learn more", (0, 0))
ACK, REJECT, NACK = (60, 80), (60, 90), (60, 120)


class Client(wire.Peer):
    """A 0-9-1 connection with one channel, which sees every method; reads give up after a while."""

    def __init__(self, uri, client=None):
        super().__init__(uri, 5.0)
        self.client = client

    def __enter__(self):
        self.login(client=self.client)
        self.channel()
        return self

    def consume(self, queue, tag="t", bits=0, prefetch=0, **arguments):
        if prefetch:
            self.send(wire.method(1, 60, 10, struct.pack(">IHB", 0, prefetch, 0)))
            self.expect(60, 11)
        values = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        self.send(wire.method(1, 60, 20, b"\0\0" + wire.short(queue) + wire.short(tag) + bytes([bits]) + wire.table(values)))
        self.expect(60, 21)

    def get(self, queue):
        self.send(wire.method(1, 60, 70, b"\0\0" + wire.short(queue) + b"\0"))
        self.expect(60, 71)
        self.content()

    def content(self):
        """The header and the body behind a delivery; answers the body."""
        size = struct.unpack(">Q", self.frame()[2][4:12])[0]
        return self.frame()[2] if size else b""

    def delivered(self):
        """The next delivery: tag of the consumer, delivery tag, redelivered, body."""
        _channel, arguments = self.expect(60, 60)
        size = arguments[0]
        number, again = struct.unpack(">Q?", arguments[1 + size:10 + size])
        return arguments[1:1 + size].decode(), number, again, self.content()

    def cancelled(self):
        """The next method is a basic.cancel that wants no answer: of this consumer."""
        _channel, arguments = self.expect(60, 30)
        equal(arguments[-1:], b"\1", "nowait")
        return arguments[1:-1].decode()

    def settle(self, how, number, bits=0):
        self.send(wire.method(1, *how, struct.pack(">QB", number, bits)))

    def quiet(self, seconds=0.3):
        """Nothing was to come: the answer to a question is the next method."""
        time.sleep(seconds)
        self.send(wire.method(1, 20, 20, b"\1"))
        self.expect(20, 21)


def case(name, words, answer, **options):
    def register(function):
        def run():
            with Bench("quorum") as bench:
                function(bench)

        suite.add(f"timeout.{name}", words, answer, run, **options)
        return function

    return register


def elsewhere(bench, queue, body, count=1):
    """Another consumer gets it, redelivered."""
    with Client(suite.uri) as other:
        other.consume(queue, "other")
        for _ in range(count):
            _tag, _number, again, seen = other.delivered()
            equal((again, seen), (True, body))


@case("cancel", "`x-consumer-timeout` of the consumer, two messages held for longer",
      "one basic.cancel (nowait), when the time is over; another consumer gets them; the channel stays")
def _(bench):
    # Also where deliveries say their positions.
    for more in ({}, {"leveret_position": True}):
        queue = bench.declare()
        with Client(suite.uri) as client:
            bench.publish(queue, b"1")
            bench.publish(queue, b"2")
            client.consume(queue, consumer_timeout=TIMEOUT, **more)
            begin = time.monotonic()
            equal([client.delivered()[3] for _ in range(2)], [b"1", b"2"])
            equal(client.cancelled(), "t")
            waited = time.monotonic() - begin
            equal(TIMEOUT / 1000 <= waited + 0.05 and waited < 2 * TIMEOUT / 1000, True, f"waited {waited:.3f} s")
            client.quiet()
            with Client(suite.uri) as other:
                other.consume(queue, "other")
                equal([other.delivered()[2:] for _ in range(2)], [(True, b"1"), (True, b"2")])


@case("again", "the cancelled consumer acknowledges what was taken back, one after the other",
      "it is not cancelled at all: with the last of them it gets messages again, those included")
def _(bench):
    queue = bench.declare()
    with Client(suite.uri) as client:
        bench.publish(queue, b"1")
        bench.publish(queue, b"2")
        client.consume(queue, consumer_timeout=TIMEOUT)
        for _ in range(2):
            client.delivered()
        client.cancelled()
        client.settle(ACK, 1)
        client.quiet()
        client.settle(ACK, 2)
        equal([client.delivered()[1:] for _ in range(2)], [(3, True, b"1"), (4, True, b"2")])


for how, name, words, bits in [
    (ACK, "ack", "basic.ack", 0), (REJECT, "reject", "basic.reject", 0), (NACK, "requeue", "basic.nack with requeue", 2),
]:
    def settled_late(bench, how=how, bits=bits):
        queue = bench.declare()
        with Client(suite.uri) as client:
            bench.publish(queue, b"1")
            client.consume(queue, consumer_timeout=TIMEOUT)
            client.delivered()
            client.cancelled()
            elsewhere(bench, queue, b"1")
            client.settle(how, 1, bits)
            time.sleep(0.2)
        elsewhere(bench, queue, b"1")

    case(f"late-{name}", f"{words} of what was taken back", "the message is not touched")(settled_late)


@case("reject-again", "basic.reject of what was taken back", "the consumer gets messages again")
def _(bench):
    queue = bench.declare()
    with Client(suite.uri) as client:
        bench.publish(queue, b"1")
        client.consume(queue, consumer_timeout=TIMEOUT)
        client.delivered()
        client.cancelled()
        client.settle(REJECT, 1)
        equal(client.delivered()[1:], (2, True, b"1"))


@case("partly", "of two messages the first is held for too long, the second not yet; the second is acknowledged in time",
      "a basic.cancel for the first; nothing more until that is settled too")
def _(bench):
    queue = bench.declare()
    with Client(suite.uri) as client:
        bench.publish(queue, b"1")
        client.consume(queue, consumer_timeout=1000)
        client.delivered()
        time.sleep(0.6)
        bench.publish(queue, b"2")
        client.delivered()
        client.cancelled()
        client.settle(ACK, 2)
        client.quiet(0.8)
        client.settle(ACK, 1)
        equal(client.delivered()[1:], (3, True, b"1"))


@case("anew", "a message returned in time and delivered to the same consumer again", "its time begins anew")
def _(bench):
    queue = bench.declare()
    with Client(suite.uri) as client:
        bench.publish(queue, b"1")
        client.consume(queue, consumer_timeout=1000)
        client.delivered()
        time.sleep(0.7)
        client.settle(NACK, 1, 2)
        client.delivered()
        client.quiet(0.7)
        client.cancelled()


@case("in-time", "messages acknowledged, and others of a consumer with no-ack, before the time is over", "nothing happens")
def _(bench):
    queue, other = bench.declare(), bench.declare()
    with Client(suite.uri) as client:
        bench.publish(queue, b"1")
        bench.publish(other, b"1")
        client.consume(queue, consumer_timeout=TIMEOUT)
        client.settle(ACK, client.delivered()[1])
        client.consume(other, "other", bits=2, consumer_timeout=TIMEOUT)
        client.delivered()
        client.quiet(LATER)


@case("deaf", "a client without the capability consumer_cancel_notify", "its channel is closed: 406")
def _(bench):
    queue = bench.declare()
    with Client(suite.uri, DEAF) as client:
        bench.publish(queue, b"1")
        client.consume(queue, consumer_timeout=TIMEOUT)
        client.delivered()
        equal(client.close_seen(), LATE_CLOSE)
    elsewhere(bench, queue, b"1")


@case("get", "a basic.get from a queue with `x-consumer-timeout`, not acknowledged in time", "the channel is closed: 406")
def _(bench):
    queue = bench.declare(consumer_timeout=TIMEOUT)
    with Client(suite.uri) as client:
        bench.publish(queue, b"1")
        time.sleep(0.2)
        client.get(queue)
        equal(client.close_seen(), LATE_CLOSE)
    elsewhere(bench, queue, b"1")


@case("cancelled", "a consumer that was cancelled by its client holds a message for longer", "the channel is closed: 406")
def _(bench):
    queue = bench.declare()
    with Client(suite.uri) as client:
        bench.publish(queue, b"1")
        client.consume(queue, consumer_timeout=TIMEOUT)
        client.delivered()
        client.send(wire.method(1, 60, 30, wire.short("t") + b"\0"))
        client.expect(60, 31)
        equal(client.close_seen(), LATE_CLOSE)
    elsewhere(bench, queue, b"1")


@case("zero", "`x-consumer-timeout` 0 of the consumer", "delivered, and taken back at once")
def _(bench):
    queue = bench.declare()
    with Client(suite.uri) as client:
        bench.publish(queue, b"1")
        client.consume(queue, prefetch=1, consumer_timeout=0)
        begin = time.monotonic()
        client.delivered()
        client.cancelled()
        equal(time.monotonic() - begin < 0.3, True, "at once")
        client.quiet()


@case("queue", "`x-consumer-timeout` of the queue", "counts where the consumer says nothing")
def _(bench):
    queue = bench.declare(consumer_timeout=TIMEOUT)
    with Client(suite.uri) as client:
        bench.publish(queue, b"1")
        client.consume(queue)
        client.delivered()
        client.cancelled()


for name, words, of_queue, of_consumer in [
    ("consumer-longer", "a longer one of the consumer", TIMEOUT, 60_000), ("consumer-shorter", "a shorter one", 60_000, TIMEOUT),
]:
    def precedence(bench, of_queue=of_queue, of_consumer=of_consumer):
        queue = bench.declare(consumer_timeout=of_queue)
        with Client(suite.uri) as client:
            bench.publish(queue, b"1")
            client.consume(queue, consumer_timeout=of_consumer)
            client.delivered()
            client.quiet(LATER) if of_consumer > TIMEOUT else client.cancelled()

    case(name, f"`x-consumer-timeout` of the queue, and {words}", "the consumer's counts")(precedence)


@case("counts", "taken back three times from a queue with a delivery limit of 1",
      "delivered a fourth time: it counts as acquired, not as failed")
def _(bench):
    queue = bench.declare(delivery_limit=1)
    with Client(suite.uri) as client:
        bench.publish(queue, b"1")
        client.consume(queue, consumer_timeout=100)
        for number in range(1, 4):
            equal(client.delivered()[1:], (number, number > 1, b"1"))
            client.cancelled()
            client.settle(ACK, number)
        equal(client.delivered()[1:], (4, True, b"1"))


@case("single", "the active one of two consumers of a queue with x-single-active-consumer holds a message for too long",
      "the other is active and gets it; the first settles, and is active again when the other goes")
def _(bench):
    queue = bench.declare(single_active_consumer=True)
    with Client(suite.uri) as first, Client(suite.uri) as second:
        bench.publish(queue, b"1")
        first.consume(queue, consumer_timeout=TIMEOUT, prefetch=1)
        first.delivered()
        second.consume(queue, prefetch=1)
        first.cancelled()
        equal(second.delivered()[1:], (1, True, b"1"))
        first.settle(ACK, 1)
        first.quiet()
        second.settle(ACK, 1)
        second.send(wire.method(1, 60, 30, wire.short("t") + b"\0"))
        second.expect(60, 31)
        bench.publish(queue, b"2")
        equal(first.delivered()[3], b"2")


@case("other-queue", "a consumer of another queue on the same channel", "goes on")
def _(bench):
    queue, other = bench.declare(), bench.declare()
    with Client(suite.uri) as client:
        bench.publish(queue, b"1")
        client.consume(queue, consumer_timeout=TIMEOUT)
        client.delivered()
        client.consume(other, "other")
        equal(client.cancelled(), "t")
        bench.publish(other, b"2")
        equal(client.delivered()[0], "other")


def refused(bench, kind, arguments, text):
    queue = bench.declare(plain=kind == "classic")
    with Client(suite.uri) as client:
        try:
            client.consume(queue, **arguments)
        except AssertionError as error:
            named = f"invalid arg 'x-consumer-timeout' for queue '{queue}' in vhost '/'"
            seen = ("channel", 406, f"PRECONDITION_FAILED - {named}{text}", (60, 20))
            equal(str(error), f"saw {seen}, expected method {(60, 21)}")
            return
    raise AssertionError("it was accepted")


for name, words, kind, value, text in [
    ("negative", "-1", "quorum", -1, ": {value_negative,-1}"),
    ("text", "a text", "quorum", "a", ": \"expected integer, got longstr\""),
    ("bool", "true", "quorum", True, ": \"expected integer, got bool\""),
    ("classic", "1000 from a classic queue", "classic", 1000, " of queue type rabbit_classic_queue"),
    ("classic-negative", "-1 from a classic queue", "classic", -1, " of queue type rabbit_classic_queue"),
]:
    case(f"invalid-{name}", f"basic.consume with `x-consumer-timeout` {words}", f"channel closed: 406 `invalid arg ...{text}`")(
        lambda bench, kind=kind, value=value, text=text: refused(bench, kind, {"consumer_timeout": value}, text))


# AMQP 1.0.

def attach(bench, queue, timeout=TIMEOUT):
    """A receiver with this timeout, and credit."""
    receiver = bench.peer()
    properties = {Symbol("rabbitmq:consumer-timeout"): Uint(timeout)} if timeout is not None else None
    source, target = Described(0x28, [f"/queues/{queue}"]), Described(0x29, ["local"])
    send(receiver, ATTACH, ["late", Uint(0), True, None, None, source, target, None, None, None, None, None, None, properties])
    receiver.expect10(ATTACH)
    credit(receiver)
    return receiver


def disposition(receiver):
    """The next disposition: role, first, last or first, settled, outcome."""
    while True:
        _channel, value, _payload = receiver.frame10()
        if value.code == DISPOSITION:
            role, first, last, settled, state = (value.value + [None] * 5)[:5]
            return role, first, first if last is None else last, bool(settled), state.code
        equal(value.code in (FLOW, TRANSFER), True, f"saw {value}")


def silent(receiver):
    """Neither a delivery nor a disposition was to come."""
    time.sleep(0.3)
    receiver.send(performative(BEGIN, None, Uint(0), Uint(9), Uint(9), channel=9))
    seen = None
    while seen != BEGIN:
        seen = receiver.frame10()[1].code
        equal(seen in (FLOW, BEGIN), True, f"saw {seen:#x}")
    receiver.send(performative(END, channel=9))
    receiver.expect10(END)


def count_of(sections):
    return (sections.get(HEADER, []) + [None] * 5)[4] or 0


for outcome, name, words, fields in [
    (ACCEPTED, "accepted", "accepts", ()), (REJECTED, "rejected", "rejects", ()),
    (MODIFIED, "undeliverable", "modifies as undeliverable here", (False, True)),
]:
    def settled_late10(bench, outcome=outcome, fields=fields):
        queue = bench.declare()
        bench.publish(queue, b"1")
        bench.publish(queue, b"2")
        receiver = attach(bench, queue)
        first, second = (delivery(receiver)[0] for _ in range(2))
        equal(disposition(receiver), (False, first, second, False, RELEASED))
        settle(receiver, first, outcome, fields)
        silent(receiver)
        settle(receiver, second, outcome, fields)
        again = [delivery(receiver)[1] for _ in range(2)]
        equal([(sections[DATA], count_of(sections)) for sections in again], [(b"1", 0), (b"2", 0)])

    case(f"receiver-{name}", f"a 1.0 receiver {words} what was taken back, one after the other",
         "after the last of them it gets messages again, those included, with a delivery-count of 0")(settled_late10)


@case("receiver-queue", "`x-consumer-timeout` of the queue, a 1.0 receiver without a timeout", "the queue's counts")
def _(bench):
    queue = bench.declare(consumer_timeout=TIMEOUT)
    bench.publish(queue, b"1")
    receiver = attach(bench, queue, None)
    number = delivery(receiver)[0]
    equal(disposition(receiver), (False, number, number, False, RELEASED))


@case("receiver-longer", "`x-consumer-timeout` of the queue, a 1.0 receiver with a longer one", "the receiver's counts")
def _(bench):
    queue = bench.declare(consumer_timeout=TIMEOUT)
    bench.publish(queue, b"1")
    receiver = attach(bench, queue, 60_000)
    delivery(receiver)
    time.sleep(LATER)
    silent(receiver)


@case("receiver-link-open", "a 1.0 receiver that was late is given credit, and another message is published",
      "the link stays; it gets nothing")
def _(bench):
    queue = bench.declare()
    bench.publish(queue, b"1")
    receiver = attach(bench, queue)
    delivery(receiver)
    disposition(receiver)
    credit(receiver)
    bench.publish(queue, b"2")
    silent(receiver)
