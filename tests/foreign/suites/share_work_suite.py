"""Which consumer is given the next message (x-fairness), and how many all of them hold (x-max-unsettled); messages that
are given back too often without failure (x-cancel-limit).

RabbitMQ has none of these, and passes over the arguments: there the cases are skipped.
"""

from proton import Delivery

from lab.cases import Skip, equal, eventually
from suites import proton_bench
from suites.pika_bench import Consumer
from suites.queue_bench import BOTH, CLASSIC, QUORUM, Bench, QueueSuite, killable, refusal

suite = QueueSuite("share-work")
ARGUMENTS = ("x-fairness", "x-max-unsettled", "x-cancel-limit")
_are_there = []


class Desk(Bench):
    def taker(self, queue, prefetch=1, **options):
        channel = self.connection.channel()
        channel.basic_qos(prefetch_count=prefetch)
        return Consumer(channel, queue, **options)

    def spread(self, queue, takers, messages, expected):
        """Sends so many messages more, one by one; so many deliveries each consumer has had by then."""
        for _ in range(messages):
            before = total(takers)
            self.send(queue, b"m")
            eventually(lambda: self.turn() or total(takers) > before, "delivered")  # noqa: B023
        equal([len(taker.deliveries) for taker in takers], expected)

    def turn(self):
        self.connection.process_data_events(0.01)

    def limited(self, limit, **arguments):
        self.dead = self.make(CLASSIC)
        return self.make(QUORUM, x_dead_letter_exchange="", x_dead_letter_routing_key=self.dead,
                         **({"x_cancel_limit": limit} if limit is not None else {}), **arguments)


def total(takers):
    return sum(len(taker.deliveries) for taker in takers)


def needs_sharing():
    if not _are_there:
        with Desk() as desk:
            code = refusal(lambda: desk.make(CLASSIC, x_fairness="lazy"))
            _are_there.append(code is not None)
    # RabbitMQ may; a broker of ours that passes over the arguments has lost them.
    assert _are_there[0] or not suite.options.broker, "x-fairness is passed over"
    if not _are_there[0]:
        raise Skip("its consumers take turns")


each = suite.each_at(Desk, needs_sharing)


@each("proportional", "x-fairness proportional, consumers of prefetch 4, 2 and 10 that hold 3, 1 and 4", "the third is given the "
      "next, then the one of those with an equal share that has waited longest")
def _(desk, kind):
    queue = desk.make(kind, x_fairness="proportional")
    takers = [desk.taker(queue, prefetch=4)]
    desk.spread(queue, takers, 3, [3])
    takers.append(desk.taker(queue, prefetch=2))
    desk.spread(queue, takers, 1, [3, 1])
    takers.append(desk.taker(queue, prefetch=10))
    desk.spread(queue, takers, 4, [3, 1, 4])
    desk.spread(queue, takers, 1, [3, 1, 5])
    desk.spread(queue, takers, 1, [3, 2, 5])
    desk.spread(queue, takers, 3, [3, 2, 8])


@each("fast", "x-fairness fast, two consumers of prefetch 3", "the first that came has all it has room for, the second the rest")
def _(desk, kind):
    queue = desk.make(kind, x_fairness="fast")
    takers = [desk.taker(queue, prefetch=3), desk.taker(queue, prefetch=3)]
    desk.spread(queue, takers, 4, [3, 1])
    takers[0].channel.basic_ack(takers[0].tags[0])
    desk.spread(queue, takers, 2, [4, 2])


@each("round-robin", "x-fairness round-robin, and none, three consumers, 30 messages", "each is given 10, in turn")
def _(desk, kind):
    for arguments in ({"x_fairness": "round-robin"}, {}):
        queue = desk.make(kind, **arguments)
        takers = [desk.taker(queue, prefetch=0) for _ in range(3)]
        desk.spread(queue, takers, 30, [10, 10, 10])


GREEDY = {"proportional": range(15, 51), "round-robin": range(49, 52), "fast": range(1)}


@each("greedy", "consumers of prefetch 1,000 and 10, five messages held at any time, 100 messages in all", "the second is given 15 "
      "or more (proportional), half of them (round-robin), none (fast)", seconds_max=60)
def _(desk, kind):
    for fairness, expected in GREEDY.items():
        queue = desk.make(kind, x_fairness=fairness)
        takers = [desk.taker(queue, prefetch=1000), desk.taker(queue, prefetch=10)]
        held, seen = [], [0, 0]
        for number in range(100):
            desk.channel.basic_publish("", queue, b"m")
            eventually(lambda: desk.turn() or total(takers) > number, "delivered")  # noqa: B023
            for at, taker in enumerate(takers):
                held += [(taker, tag) for tag in taker.tags[seen[at]:]]
                seen[at] = len(taker.deliveries)
            if len(held) == 5:
                taker, tag = held.pop(0)
                taker.channel.basic_ack(tag)
        equal(seen[1] in expected and sum(seen) == 100, True, f"{fairness}: {seen}")


@each("priority", "x-fairness, consumers of priority 0 and 5", "those of the higher priority first, as far as they have room")
def _(desk, kind):
    for fairness in ("fast", "proportional"):
        queue = desk.make(kind, x_fairness=fairness)
        takers = [desk.taker(queue, prefetch=3), desk.taker(queue, prefetch=2, arguments={"x-priority": 5})]
        desk.spread(queue, takers, 4, [2, 2])


@each("single-active", "x-single-active-consumer beside x-fairness", "one consumer is given all")
def _(desk, kind):
    queue = desk.make(kind, x_fairness="proportional", x_single_active_consumer=True)
    takers = [desk.taker(queue, prefetch=5), desk.taker(queue, prefetch=50)]
    desk.spread(queue, takers, 5, [5, 0])


@each("proton", "AMQP 1.0: receivers of credit 10 and 2, x-fairness proportional", "each is given its share of what it holds and has "
      "credit for")
def _(desk, kind):
    queue = desk.make(kind, x_fairness="proportional")
    proton_bench.suite.uri = suite.uri
    connection = proton_bench.connect()
    receivers = [proton_bench.Receiver(connection, queue, credit) for credit in (10, 2)]
    # Behind their credit: when this link is there, so is that.
    connection.create_sender(proton_bench.queue_address(queue)).close()
    desk.send(queue, *[b"m"] * 6)
    connection.wait(lambda: sum(len(receiver.incoming) for receiver in receivers) == 6, timeout=10, msg="delivered")
    equal([len(receiver.incoming) for receiver in receivers], [5, 1])
    connection.close()


@each("unsettled", "x-max-unsettled 5, consumers without a prefetch, 9 messages", "5 are out; one more for each that is settled; "
      "basic.get is given its message, and counts")
def _(desk, kind):
    queue = desk.make(kind, x_max_unsettled=5)
    takers = [desk.taker(queue, prefetch=0), desk.taker(queue, prefetch=0)]
    desk.send(queue, *[b"m"] * 9)
    eventually(lambda: desk.turn() or total(takers) == 5, "5 delivered")
    desk.stays(queue, 4)
    takers[0].channel.basic_ack(takers[0].tags[0])
    eventually(lambda: desk.turn() or total(takers) == 6, "6 delivered")
    desk.stays(queue, 3)
    method, _properties, _body = desk.get(queue)
    takers[0].channel.basic_ack(takers[0].tags[1])
    desk.stays(queue, 2)
    equal(total(takers), 6)
    desk.channel.basic_ack(method.delivery_tag)
    eventually(lambda: desk.turn() or total(takers) == 7, "7 delivered")
    # A consumer that goes away makes room.
    takers[0].channel.close()
    eventually(lambda: desk.turn() or len(takers[1].deliveries) == 5, "5 with the other")


@each("unsettled-no-ack", "x-max-unsettled 1, reached, and a consumer without acknowledgements", "that one is given all others")
def _(desk, kind):
    queue = desk.make(kind, x_max_unsettled=1)
    one = desk.taker(queue, prefetch=0)
    desk.send(queue, *[b"m"] * 4)
    one.wait(1)
    desk.stays(queue, 3)
    two = desk.taker(queue, auto_ack=True)
    two.wait(3)
    equal(len(one.deliveries), 1)


@each("unsettled-drain", "AMQP 1.0: a receiver drains where x-max-unsettled is reached", "its credit is used up at once")
def _(desk, kind):
    queue = desk.make(kind, x_max_unsettled=1)
    desk.send(queue, b"1", b"2")
    desk.taker(queue, prefetch=0).wait(1)
    proton_bench.suite.uri = suite.uri
    connection = proton_bench.connect()
    receiver = proton_bench.Receiver(connection, queue, 0)
    receiver.link.drain(5)
    connection.wait(lambda: not receiver.link.draining() or receiver.link.credit == 0, timeout=10, msg="drained")
    equal(len(receiver.incoming), 0)
    connection.close()


@each("cancel", "x-cancel-limit 2, a message given back by basic.nack three times, and rejected twice between", "dead-lettered the "
      "third time, reason `delivery_limit`", types=(QUORUM,))
def _(desk, _kind):
    queue = desk.limited(2)
    desk.send(queue, b"1")
    for act in ("nack", "reject", "nack", "reject", "nack"):
        desk.becomes(queue, 1)
        tag = desk.get(queue)[0].delivery_tag
        getattr(desk.channel, f"basic_{act}")(tag, requeue=True)
    _method, properties, body = desk.get(desk.dead, auto_ack=True)
    equal((body, properties.headers["x-first-death-reason"]), (b"1", "delivery_limit"))
    equal(properties.headers["x-death"][0]["count"], 1)


@each("cancel-zero", "x-cancel-limit 0 without a dead-letter exchange, basic.nack", "the message is dropped", types=(QUORUM,))
def _(desk, kind):
    queue = desk.make(kind, x_cancel_limit=0)
    desk.send(queue, b"1")
    desk.channel.basic_nack(desk.get(queue)[0].delivery_tag)
    desk.stays(queue, 0)
    equal(desk.channel.basic_get(queue)[0], None)


@each("cancel-proton", "AMQP 1.0: x-cancel-limit 1, released, then modified without delivery-failed", "dead-lettered", types=(QUORUM,))
def _(desk, _kind):
    queue = desk.limited(1)
    desk.send(queue, b"1")
    proton_bench.suite.uri = suite.uri
    connection = proton_bench.connect()
    receiver = proton_bench.Receiver(connection, queue, 5)
    for state in (Delivery.RELEASED, Delivery.MODIFIED):
        receiver.receive()
        receiver.settle(state)
    # Nothing comes back that the client would wait for: its last words are out when it has an answer to others.
    connection.create_sender(proton_bench.queue_address(queue))
    desk.becomes(desk.dead, 1)
    connection.close()


@each("arguments", "wrong values of the arguments", "406 with what is wrong")
def _(desk, kind):
    wrong = [("x-fairness", "lazy", ": invalid_fairness"), ("x-fairness", 5, ": {unacceptable_type,signedint}"),
             ("x-max-unsettled", 0, ": {value_zero,0}"), ("x-max-unsettled", -1, ": {value_negative,-1}"),
             ("x-max-unsettled", "5", ': "expected integer, got longstr"')]
    wrong += {CLASSIC: [("x-cancel-limit", 3, " of queue type rabbit_classic_queue")],
              QUORUM: [("x-cancel-limit", -1, ": {value_negative,-1}")]}[kind]
    for name, value, why in wrong:
        equal(refused(desk, "foreign.absent", kind, {name: value}), (406, f"invalid arg '{name}'", why))


def refused(desk, queue, kind, arguments):
    """The code of a refusal, what it is about, and why."""
    channel = desk.connection.channel()
    code, text = refusal(lambda: channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind, **arguments}))
    about, why = text.removeprefix("PRECONDITION_FAILED - ").split(f" for queue '{queue}' in vhost '{suite.uri.vhost}'")
    return code, about, why


@suite.case("streams", "a stream with each of the arguments", "406, of queue type rabbit_stream_queue")
def _():
    needs_sharing()
    with Desk() as desk:
        for name, value in zip(ARGUMENTS, ("fast", 5, 5), strict=True):
            equal(refused(desk, "foreign.absent", "stream", {name: value}),
                  (406, f"invalid arg '{name}'", " of queue type rabbit_stream_queue"))


@each("same", "declared again with another of the arguments, or without", "406, inequivalent arg")
def _(desk, kind):
    queue = desk.make(kind, x_fairness="fast", x_max_unsettled=5)
    others = [({"x-fairness": "proportional"}, "x-fairness", ": received 'proportional' but current is 'fast'"),
              ({"x-fairness": "fast"}, "x-max-unsettled", ": received none but current is the value '5' of type 'signedint'")]
    for arguments, name, how in others:
        equal(refused(desk, queue, kind, arguments), (406, f"inequivalent arg '{name}'", how))
    desk.channel.queue_declare(queue, durable=True, arguments={
        "x-queue-type": kind, "x-fairness": "fast", "x-max-unsettled": 5})


@suite.case("cancel-killed", "x-cancel-limit 2: given back twice, then the broker is killed", "the counts are there again: the third "
            "time ends the message", seconds_max=60)
def _():
    needs_sharing()
    with killable(suite) as kill:
        desk = Desk()
        queue = desk.limited(2)
        desk.send(queue, b"1")
        for _ in range(2):
            desk.channel.basic_nack(desk.get(queue)[0].delivery_tag)
            desk.becomes(queue, 1)
        # What is confirmed behind the returns is on disk, and so are they: they are of one log.
        desk.send(queue, b"2")
        dead = desk.dead
        kill()
        desk = Desk()
        desk.channel.basic_nack(desk.get(queue)[0].delivery_tag)
        equal(desk.get(dead, auto_ack=True)[2], b"1")


@suite.each("killed", "the broker is killed while the consumers of a queue with both arguments hold messages", "all are there "
            "again, and the arguments hold", BOTH, seconds_max=60)
def _(kind):
    needs_sharing()
    with killable(suite) as kill:
        desk = Desk()
        queue = desk.make(kind, x_fairness="fast", x_max_unsettled=7)
        desk.send(queue, *[f"{number}".encode() for number in range(20)])
        for again in (False, True):
            takers = [desk.taker(queue, prefetch=5), desk.taker(queue, prefetch=5)]
            eventually(lambda: desk.turn() or total(takers) == 7, "7 delivered")  # noqa: B023
            desk.later()
            equal([len(taker.deliveries) for taker in takers], [5, 2])
            equal([method.redelivered for method, _p, _b in takers[0].deliveries][:5], [again] * 5)
            kill()
            desk = Desk()
        desk.becomes(queue, 20)
        one = desk.taker(queue, prefetch=0)
        bodies = []
        while len(bodies) < 20:
            one.wait(min(20, len(bodies) + 1))
            bodies = [int(body) for body in one.bodies]
            one.channel.basic_ack(one.tags[-1], multiple=True)
        equal(bodies, list(range(20)))


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default="", help="a leveret to start"))
