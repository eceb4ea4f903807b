"""Messages that are a consumer's for some time (x-lease): then they are another's, and the consumer goes on.

RabbitMQ has no leases, and passes over the argument: there the cases are skipped.
"""

import time

from proton import Delivery

from lab.cases import Skip, equal, eventually
from suites import proton_bench
from suites.pika_bench import Consumer
from suites.queue_bench import BOTH, CLASSIC, QUORUM, Bench, QueueSuite, killable, refusal

suite = QueueSuite("lease")
_are_there = []


class Desk(Bench):
    """A desk that notes when deliveries come."""

    def taker(self, queue, prefetch=1, **options):
        channel = self.connection.channel()
        channel.basic_qos(prefetch_count=prefetch)
        return Taker(channel, queue, **options)

    def turn(self, seconds=0.005):
        self.connection.process_data_events(seconds)

    def until(self, taker, count, seconds_max=10):
        """Waits until the consumer has had so many deliveries in all, and tells when."""
        eventually(lambda: self.turn() or len(taker.deliveries) >= count, f"{count} delivered", seconds_max)
        equal(len(taker.deliveries), count)
        return time.monotonic()

    def quiet(self, seconds, *takers):
        """For so long none of the consumers is given anything."""
        before = [len(taker.deliveries) for taker in takers]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.turn(0.02)
        equal([len(taker.deliveries) for taker in takers], before)


class Taker(Consumer):
    @property
    def last(self):
        return self.deliveries[-1]


def locked_until(properties):
    return properties.headers["x-opt-locked-until"]


def counts(properties):
    return [(properties.headers or {}).get(name) for name in ("x-acquired-count", "x-delivery-count")]


def on_time(seconds, sent, came):
    """Now is so long after a message was sent, and no half second longer after it came: its delivery lies between the two."""
    now = time.monotonic()
    equal(now - sent >= seconds and now - came <= seconds + 0.5, True, f"{now - came:.3f} to {now - sent:.3f} s after its delivery")


def needs_leases():
    if not _are_there:
        with Desk() as desk:
            _are_there.append(refusal(lambda: desk.make(CLASSIC, x_lease=0)) is not None)
    # RabbitMQ may; a broker of ours that passes over the argument has lost it.
    assert _are_there[0] or not suite.options.broker, "x-lease is passed over"
    if not _are_there[0]:
        raise Skip("it has no leases")


each = suite.each_at(Desk, needs_leases)


def receiver_of(queue, credit):
    proton_bench.suite.uri = suite.uri
    connection = proton_bench.connect()
    return connection, proton_bench.Receiver(connection, queue, credit)


@each("over", "x-lease 2,000, a consumer that does not settle, and another that is idle", "2.0 to 2.5 s after its delivery the message "
      "is the other's, redelivered, failed once more; a late ack changes nothing and closes nothing, and the first goes on",
      seconds_max=30)
def _(desk, kind):
    queue = desk.make(kind, x_lease=2000)
    first, other = desk.taker(queue), desk.taker(queue)
    sent = time.monotonic()
    desk.send(queue, b"1")
    came = desk.until(first, 1)
    desk.until(other, 1)
    on_time(2.0, sent, came)
    method, properties, body = other.last
    equal((body, method.redelivered), (b"1", True))
    equal(counts(properties), [1, 1] if kind == QUORUM else [None, None])
    desk.send(queue, b"2")
    desk.quiet(0.3, first, other)
    first.channel.basic_ack(first.tags[0])
    desk.until(first, 2)
    equal(first.last[2], b"2")
    desk.quiet(0.3, first, other)
    other.channel.basic_ack(method.delivery_tag)
    first.channel.basic_ack(first.tags[1])
    desk.stays(queue, 0)
    equal(desk.channel.basic_get(queue)[0], None)


@each("place", "x-lease 500, three messages with a consumer and three behind them", "those that come back go first, in their order")
def _(desk, kind):
    queue = desk.make(kind, x_lease=500)
    first = desk.taker(queue, prefetch=3)
    desk.send(queue, *[f"{number}".encode() for number in range(6)])
    desk.until(first, 3)
    desk.becomes(queue, 6)
    equal([body for _method, _properties, body in desk.collected(queue, 6)], [f"{number}".encode() for number in range(6)])


@each("prefetch", "x-lease 300, a consumer of prefetch 3 that hangs, alone", "it is given no more than three deliveries in all, until "
      "it settles")
def _(desk, kind):
    queue = desk.make(kind, x_lease=300)
    only = desk.taker(queue, prefetch=3)
    desk.send(queue, b"1")
    desk.until(only, 3)
    equal([body for _method, _properties, body in only.deliveries], [b"1"] * 3)
    desk.quiet(1, only)
    desk.becomes(queue, 1)
    only.channel.basic_ack(only.tags[0])
    desk.until(only, 4)
    only.channel.basic_ack(only.tags[3])
    only.channel.basic_ack(only.tags[2], multiple=True)
    desk.send(queue, b"2", b"3", b"4")
    desk.until(only, 7)
    equal([body for _method, _properties, body in only.deliveries[4:]], [b"2", b"3", b"4"])


@each("settled", "x-lease 400, messages settled in every way in time, and one by all that are late", "no message comes twice, no "
      "channel is closed")
def _(desk, kind):
    queue = desk.make(kind, x_lease=400)
    first = desk.taker(queue, prefetch=9)
    desk.send(queue, *[f"{number}".encode() for number in range(6)])
    desk.until(first, 6)
    first.channel.basic_ack(first.tags[2])
    first.channel.basic_reject(first.tags[3], requeue=False)
    desk.becomes(queue, 4)
    other = desk.taker(queue, prefetch=4)
    desk.until(other, 4)
    for act in ("basic_nack", "basic_reject"):
        getattr(first.channel, act)(first.tags[0 if act == "basic_nack" else 1], requeue=True)
    first.channel.basic_ack(first.tags[-1], multiple=True)
    other.channel.basic_ack(other.tags[-1], multiple=True)
    desk.stays(queue, 0)
    desk.quiet(0.6, first, other)
    equal(refusal(lambda: first.channel.basic_qos(prefetch_count=1)), None)


@each("locked-until", "the header x-opt-locked-until of deliveries and of messages got", "until when the message is leased, milliseconds "
      "since 1970; without acknowledgements there is none")
def _(desk, kind):
    queue = desk.make(kind, x_lease=60000)
    desk.send(queue, b"1", b"2", b"3", headers={"own": 1, "x-opt-locked-until": "theirs"})
    before = time.time() * 1000
    consumer = desk.taker(queue)
    desk.until(consumer, 1)
    _method, got, _body = desk.get(queue)
    after = time.time() * 1000
    for properties in (consumer.last[1], got):
        equal(before + 59000 <= locked_until(properties) <= after + 60001, True, str(properties.headers))
        equal(properties.headers["own"], 1)
    equal(desk.get(queue, auto_ack=True)[1].headers["x-opt-locked-until"], "theirs")


@each("got", "x-lease 500, a message got and not settled, and a late ack of it", "it comes back; the ack closes nothing")
def _(desk, kind):
    queue = desk.make(kind, x_lease=500)
    desk.send(queue, b"1")
    tag = desk.get(queue)[0].delivery_tag
    desk.becomes(queue, 1)
    desk.channel.basic_ack(tag)
    desk.stays(queue, 1)
    equal(desk.bodies(queue, 1), [b"1"])


@each("cancelled", "x-lease 500, a consumer that is cancelled with a message", "it comes back; a late ack closes nothing")
def _(desk, kind):
    queue = desk.make(kind, x_lease=500)
    consumer = desk.taker(queue)
    desk.send(queue, b"1")
    desk.until(consumer, 1)
    tag = consumer.tags[0]
    consumer.channel.basic_cancel(consumer.last[0].consumer_tag)
    desk.becomes(queue, 1)
    consumer.channel.basic_ack(tag)
    desk.stays(queue, 1)


@each("transaction", "x-lease 400, an ack within a transaction that is committed after that time", "it holds: the message is gone")
def _(desk, kind):
    queue = desk.make(kind, x_lease=400)
    desk.send(queue, b"1")
    channel = desk.connection.channel()
    channel.tx_select()
    consumer = Taker(channel, queue)
    desk.until(consumer, 1)
    channel.basic_ack(consumer.tags[0])
    desk.quiet(1.2, consumer)
    equal(desk.count(queue), 0)
    channel.tx_commit()
    desk.stays(queue, 0)
    # Undone, it is unsettled again, and its lease begins anew.
    desk.send(queue, b"2")
    desk.until(consumer, 2)
    channel.basic_ack(consumer.tags[1])
    desk.quiet(0.6, consumer)
    channel.tx_rollback()
    desk.until(consumer, 3)
    equal(consumer.last[2], b"2")


@each("received", "AMQP 1.0: x-lease 2,000, the state received once a second for 20 s", "the message is the receiver's as long, and "
      "accepted", seconds_max=60)
def _(desk, kind):
    queue = desk.make(kind, x_lease=2000)
    desk.send(queue, b"1")
    connection, receiver = receiver_of(queue, 5)
    message = receiver.receive()
    equal(abs(message.annotations["x-opt-locked-until"] - time.time() * 1000 - 2000) < 1000, True, str(message.annotations))
    begin = time.monotonic()
    delivery = receiver.unsettled[0]
    while time.monotonic() - begin < 20:
        delivery.update(Delivery.RECEIVED)
        wait(connection, 1)
        equal((delivery.settled, desk.count(queue), len(receiver.incoming)), (False, 0, 0))
    receiver.settle(Delivery.ACCEPTED)
    wait(connection, 2.6)
    equal((desk.count(queue), len(receiver.incoming)), (0, 0))
    connection.close()


def wait(connection, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection.container.do_work(timeout=max(0.01, min(0.1, end - time.monotonic())))


@each("released", "AMQP 1.0: x-lease 1,000, a receiver that does not settle", "the broker settles the delivery as released, 1.0 to "
      "1.5 s after it came; the message comes again, its delivery-count is 1, and an outcome of the first delivery changes nothing",
      seconds_max=30)
def _(desk, kind):
    queue = desk.make(kind, x_lease=1000)
    connection, receiver = receiver_of(queue, 5)
    sent = time.monotonic()
    desk.send(queue, b"1")
    equal(receiver.receive().delivery_count, 0)
    came = time.monotonic()
    delivery = receiver.unsettled[0]
    connection.wait(lambda: receiver.incoming, timeout=10, msg="again")
    on_time(1.0, sent, came)
    equal((delivery.remote_state, delivery.settled), (Delivery.RELEASED, True))
    message = receiver.receive()
    equal((proton_bench.body_of(message), message.delivery_count, message.first_acquirer), (b"1", 1, False))
    # Of the first delivery: the second is with it all the same, until its own lease is over.
    receiver.settle(Delivery.ACCEPTED)
    equal(receiver.receive().delivery_count, 2)
    receiver.unsettled.popleft()
    receiver.settle(Delivery.ACCEPTED)
    wait(connection, 0.3)
    equal(desk.channel.basic_get(queue)[0], None)
    connection.close()


@each("limit", "x-lease 300, x-delivery-limit 1, a dead-letter exchange, a consumer that hangs", "dead-lettered after the second lease, "
      "reason `delivery_limit`", types=(QUORUM,))
def _(desk, kind):
    dead = desk.make(CLASSIC)
    queue = desk.make(kind, x_lease=300, x_delivery_limit=1, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    consumer = desk.taker(queue, prefetch=9)
    desk.send(queue, b"1")
    _method, properties, body = desk.get(dead, auto_ack=True)
    equal((body, properties.headers["x-first-death-reason"]), (b"1", "delivery_limit"))
    desk.turn()
    equal(len(consumer.deliveries), 2)
    desk.stays(queue, 0)


@each("arguments", "wrong values of x-lease", "406 with what is wrong")
def _(desk, kind):
    for value, why in ((0, ": {value_zero,0}"), (-1, ": {value_negative,-1}"), (99, ": {value_too_small,99}"),
                       (10 ** 12, ": {value_too_large,1000000000000}"), ("5000", ': "expected integer, got longstr"')):
        equal(refused(desk, "foreign.absent", kind, {"x-lease": value}), (406, "invalid arg 'x-lease'", why))


def refused(desk, queue, kind, arguments):
    """The code of a refusal, what it is about, and why."""
    channel = desk.connection.channel()
    code, text = refusal(lambda: channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind, **arguments}))
    about, why = text.removeprefix("PRECONDITION_FAILED - ").split(f" for queue '{queue}' in vhost '{suite.uri.vhost}'")
    return code, about, why


@suite.case("streams", "a stream with x-lease", "406, of queue type rabbit_stream_queue")
def _():
    needs_leases()
    with Desk() as desk:
        equal(refused(desk, "foreign.absent", "stream", {"x-lease": 5000}),
              (406, "invalid arg 'x-lease'", " of queue type rabbit_stream_queue"))


@each("same", "declared again with another lease, or without", "406, inequivalent arg")
def _(desk, kind):
    queue = desk.make(kind, x_lease=5000)
    for arguments, how in (({"x-lease": 6000}, ": received '6000' but current is '5000'"),
                           ({}, ": received none but current is the value '5000' of type 'signedint'")):
        equal(refused(desk, queue, kind, arguments), (406, "inequivalent arg 'x-lease'", how))
    desk.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind, "x-lease": 5000})


@suite.each("killed", "the broker is killed while consumers hold leased messages", "all are there again, in order, and are leased",
            BOTH, seconds_max=60)
def _(kind):
    needs_leases()
    with killable(suite) as kill:
        desk = Desk()
        queue = desk.make(kind, x_lease=1500)
        bodies = [f"{number}".encode() for number in range(20)]
        desk.send(queue, *bodies)
        holder = desk.taker(queue, prefetch=7)
        desk.until(holder, 7)
        kill()
        desk = Desk()
        desk.becomes(queue, 20)
        holder = desk.taker(queue, prefetch=20)
        begin = desk.until(holder, 20)
        equal([body for _method, _properties, body in holder.deliveries], bodies)
        desk.becomes(queue, 20)
        took = time.monotonic() - begin
        equal(1.4 <= took <= 2.3, True, f"after {took:.3f} s")
        other = desk.taker(queue, prefetch=0)
        desk.until(other, 20)
        equal([body for _method, _properties, body in other.deliveries], bodies)
        other.channel.basic_ack(other.tags[-1], multiple=True)
        holder.channel.basic_ack(holder.tags[-1], multiple=True)
        desk.stays(queue, 0)


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default="", help="a leveret to start"))
