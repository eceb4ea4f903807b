"""Messages that go to every consumer once, behind all that came before them and before all that came after (x-barrier-expression).

RabbitMQ passes over the argument: there the cases are skipped.
"""

import json
import random
import time

from proton import Delivery, Message
from proton.reactor import AtLeastOnce

from lab.cases import Skip, equal, eventually
from suites import proton_bench
from suites.apart import apart
from suites.pika_bench import Consumer
from suites.queue_bench import BOTH, CLASSIC, QUORUM, Bench, QueueSuite, killable, refusal

suite = QueueSuite("barrier")
EXPRESSION = "body.end = TRUE"
WAITS_SECONDS = 30
_are_there = []


def message(number):
    return json.dumps({"n": number}).encode()


def barrier(number):
    return json.dumps({"n": number, "end": True}).encode()


def of(body):
    """The number of a message, and whether it is a barrier."""
    document = json.loads(body)
    return document["n"], document.get("end", False)


class Taker(Consumer):
    """Keeps its deliveries, and notes them where all do: of one channel in the order in which they came."""

    def __init__(self, channel, queue, seen, **options):
        self.seen = seen
        super().__init__(channel, queue, **options)

    def _take(self, channel, method, properties, body):
        super()._take(channel, method, properties, body)
        self.seen.append((self, method, body))

    @property
    def numbers(self):
        return [of(body)[0] for body in self.bodies]

    @property
    def last_tag(self):
        return self.deliveries[-1][0].delivery_tag


class Desk(Bench):
    def __init__(self, **changed):
        super().__init__(**changed)
        self.seen = []

    def barred(self, kind, expression=EXPRESSION, **arguments):
        return self.make(kind, x_barrier_expression=expression, **arguments)

    def taker(self, queue, prefetch=1, **options):
        channel = self.connection.channel()
        channel.basic_qos(prefetch_count=prefetch)
        return Taker(channel, queue, self.seen, **options)

    def together(self, queue, *prefetches):
        """Consumers of one channel: in which order their deliveries come is seen there alone."""
        channel = self.connection.channel()
        takers = []
        for prefetch in prefetches:
            channel.basic_qos(prefetch_count=prefetch)
            takers.append(Taker(channel, queue, self.seen))
        return takers

    def turn(self, seconds=0.005):
        self.connection.process_data_events(seconds)

    def acks_until(self, is_over):
        """Acks all that comes but barriers, until it is over."""
        looked = 0

        def step():
            nonlocal looked
            self.turn(0.01)
            for taker, method, body in self.seen[looked:]:
                if not of(body)[1]:
                    taker.channel.basic_ack(method.delivery_tag)
            looked = len(self.seen)
            return is_over()

        eventually(step, "all of it")

    def gets(self, taker, *numbers):
        """A consumer was given these in all, and is given nothing more."""
        eventually(lambda: self.turn() or len(taker.deliveries) >= len(numbers), f"{len(numbers)} deliveries")
        self.turn(0.15)
        equal(taker.numbers, list(numbers))


def needs_barriers():
    if not _are_there:
        with Desk() as desk:
            _are_there.append(refusal(lambda: desk.barred(CLASSIC, "body.end >")) is not None)
    # RabbitMQ may; a broker of ours that passes over the argument has lost it.
    assert _are_there[0] or not suite.options.broker, "x-barrier-expression is passed over"
    if not _are_there[0]:
        raise Skip("it knows no expressions")


each = suite.each_at(Desk, needs_barriers)


def receiver_of(connection, queue, credit, **options):
    return proton_bench.Receiver(connection, queue, credit, **options)


def connect():
    proton_bench.suite.uri = suite.uri
    return proton_bench.connect()


def work(connection, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection.container.do_work(timeout=max(0.01, min(0.05, end - time.monotonic())))


@each("five", "five consumers of a channel, of prefetch 1, 3, 10, 2 and without a limit, 400 messages of which ten are barriers, settled in random order",
      "each barrier reaches each of the five once, after all before it were settled, and before all after it", seconds_max=60)
def _(desk, kind):
    queue = desk.barred(kind)
    dice = random.Random(suite.options.seed)
    barriers = sorted(dice.sample(range(400), 10))
    takers = desk.together(queue, 1, 3, 10, 2, 0)
    desk.send(queue, *[barrier(number) if number in barriers else message(number) for number in range(400)])
    held, settled, reached = [], set(), {number: [] for number in barriers}
    looked = 0

    def look():
        nonlocal looked
        for taker, method, body in desk.seen[looked:]:
            number, is_barrier = of(body)
            before = [passed for passed in barriers if passed < number]
            equal(all(len(reached[passed]) == 5 for passed in before), True, f"{number} before a barrier in front of it")
            if is_barrier:
                equal(sorted(range(number)), sorted(settled), f"settled when barrier {number} came")
                equal(taker in reached[number], False, f"barrier {number} twice")
                reached[number].append(taker)
                if len(reached[number]) == 5:
                    settled.add(number)
                # Some say nothing of it for the time being.
                if dice.random() < 0.5:
                    taker.channel.basic_ack(method.delivery_tag)
            else:
                held.append((taker, method.delivery_tag, number))
        looked = len(desk.seen)

    def step():
        desk.turn(0.002)
        look()
        for _ in range(min(len(held), dice.randrange(1, 8))):
            taker, tag, number = held.pop(dice.randrange(len(held)))
            taker.channel.basic_ack(tag)
            settled.add(number)
        return len(settled) == 400

    eventually(step, "all settled", 50)
    desk.stays(queue, 0)


@each("words", "acks, nacks and rejects of barriers, with requeue and without, one by one and of all up to it, in transactions, and cancels",
      "nothing comes of them, and no channel is closed; the barrier takes no room of a prefetch")
def _(desk, kind):
    queue = desk.barred(kind)
    taker, other = desk.taker(queue, 1), desk.taker(queue, 1)
    words = (lambda channel, tag: channel.basic_ack(tag), lambda channel, tag: channel.basic_nack(tag, requeue=True),
             lambda channel, tag: channel.basic_nack(tag, requeue=False), lambda channel, tag: channel.basic_reject(tag, requeue=True),
             lambda channel, tag: channel.basic_reject(tag, requeue=False), lambda channel, tag: channel.basic_ack(tag, multiple=True))
    numbers = []
    for at, word in enumerate(words):
        desk.send(queue, barrier(at))
        numbers.append(at)
        desk.gets(taker, *numbers)
        desk.gets(other, *numbers)
        word(taker.channel, taker.last_tag)
        desk.turn(0.05)
    # Of all that the other never settled nothing takes room.
    desk.send(queue, message(100), message(101))
    eventually(lambda: desk.turn() or len(taker.deliveries) + len(other.deliveries) == 14, "two more")
    equal(sorted([taker.numbers[-1], other.numbers[-1]]), [100, 101])
    taker.channel.basic_ack(0, multiple=True)
    other.channel.basic_ack(0, multiple=True)
    desk.stays(queue, 0)
    channel = desk.connection.channel()
    channel.tx_select()
    late = Taker(channel, queue, desk.seen)
    desk.send(queue, barrier(200))
    desk.gets(late, 200)
    channel.basic_ack(late.last_tag)
    channel.tx_rollback()
    channel.basic_ack(late.last_tag)
    channel.tx_commit()
    channel.basic_cancel(late.tag)
    for one in (taker, other):
        equal(refusal(lambda one=one: one.channel.basic_qos(prefetch_count=1)), None)
        one.channel.close()
    desk.stays(queue, 0)


@each("unacknowledged", "consumers that ack nothing (no-ack) beside one that does, messages in front that are given back",
      "the barrier waits until that is settled, and reaches all three")
def _(desk, kind):
    queue = desk.barred(kind)
    first = desk.taker(queue, 1)
    desk.send(queue, message(0), barrier(1), message(2))
    desk.gets(first, 0)
    free = [desk.taker(queue, 0, auto_ack=True) for _ in range(2)]
    first.channel.basic_nack(first.last_tag, requeue=True)
    eventually(lambda: desk.turn() or sum(taker.numbers.count(1) for taker in (first, *free)) == 3 or (
        first.numbers[-1] == 0 and len(first.deliveries) > 1 and first.channel.basic_ack(first.last_tag)), "it reaches all three")
    desk.turn(0.15)
    rest = [taker.numbers for taker in (first, *free)]
    equal([numbers.count(1) for numbers in rest], [1, 1, 1])
    equal(sum(numbers.count(2) for numbers in rest), 1)
    equal(all(numbers[-1] == 2 for numbers in rest if 2 in numbers), True, str(rest))


@each("shared", "consumers of a channel that share a prefetch (basic.qos global)", "each is given it", types=(CLASSIC,))
def _(desk, kind):
    queue = desk.barred(kind)
    channel = desk.connection.channel()
    channel.basic_qos(prefetch_count=4, global_qos=True)
    takers = [Taker(channel, queue, desk.seen) for _ in range(2)]
    desk.send(queue, message(0), barrier(1), message(2))
    eventually(lambda: desk.turn() or len(desk.seen) == 1, "the first")
    channel.basic_ack(desk.seen[0][1].delivery_tag)
    eventually(lambda: desk.turn() or len(desk.seen) == 4, "the barrier, and the message behind it")
    equal([of(body)[0] for _taker, _method, body in desk.seen], [0, 1, 1, 2])
    equal([taker.numbers.count(1) for taker in takers], [1, 1])
    channel.basic_ack(0, multiple=True)
    desk.stays(queue, 0)


@each("proton", "AMQP 1.0: receivers with credit beside a consumer of 0-9-1, a barrier between messages", "each is sent it once, settled "
      "(`settled=true`), in its place; it uses one credit of each")
def _(desk, kind):
    queue = desk.barred(kind)
    connection = connect()
    receivers = [receiver_of(connection, queue, 2) for _ in range(2)]
    taker = desk.taker(queue, 1)
    sender = connection.create_sender(proton_bench.queue_address(queue))
    for body in (message(0), barrier(1), message(2), message(3), message(4)):
        sender.send(Message(body=body, inferred=True, durable=True))
    work(connection, 0.3)
    first = [receiver for receiver in receivers if receiver.incoming]
    if first:
        equal(of(proton_bench.body_of(first[0].receive()))[0], 0)
        first[0].settle(Delivery.ACCEPTED)
    else:
        desk.gets(taker, 0)
        taker.channel.basic_ack(taker.last_tag)
    for receiver in receivers:
        connection.wait(lambda receiver=receiver: receiver.incoming, timeout=10, msg="the barrier")
        delivered, delivery = receiver.incoming.popleft()
        equal((of(proton_bench.body_of(delivered)), delivery.settled), ((1, True), True))
    eventually(lambda: desk.turn() or 1 in taker.numbers, "the barrier over 0-9-1")
    # Two credits each: one was for the barrier, and one of them had another message.
    eventually(lambda: desk.turn() or work(connection, 0.05) or
               sum(len(receiver.incoming) for receiver in receivers) + len(taker.deliveries) == (4 if not first else 3), "the rest")
    left = [(of(proton_bench.body_of(delivered))[0], delivery.settled) for receiver in receivers for delivered, delivery in receiver.incoming]
    equal(all(number > 1 and not settled for number, settled in left), True, str(left))
    connection.close()


@each("unsettled", "AMQP 1.0: receivers that want all unsettled (snd-settle-mode 0), and say accepted, released, rejected and modified",
      "it is sent unsettled, and nothing comes of what they say")
def _(desk, kind):
    queue = desk.barred(kind)
    connection = connect()
    receivers = [receiver_of(connection, queue, 5, options=AtLeastOnce()) for _ in range(4)]
    desk.send(queue, barrier(0))
    for receiver, state in zip(receivers, (Delivery.ACCEPTED, Delivery.RELEASED, Delivery.REJECTED, Delivery.MODIFIED), strict=True):
        equal((of(proton_bench.body_of(receiver.receive())), len(receiver.unsettled)), ((0, True), 1))
        receiver.settle(state)
    work(connection, 0.5)
    equal([len(receiver.incoming) for receiver in receivers], [0, 0, 0, 0])
    desk.stays(queue, 0)
    connection.close()


@suite.each("credit", "AMQP 1.0: one receiver with credit, one that gets some 2 s later, and two that never have any",
            "it goes to the second as it can; the last two are passed over 30 s after the first had it, and counted (`barriers`, "
            "`barriers_passed_over`, a metric); then the rest goes on", BOTH, seconds_max=90)
def _(kind):
    needs_barriers()
    with apart(suite) as api, Desk() as desk:
        queue = desk.barred(kind)
        connection = connect()
        receivers = [receiver_of(connection, queue, credit) for credit in (10, 0, 0, 0)]
        desk.send(queue, barrier(0), message(1))
        begin = time.monotonic()
        connection.wait(lambda: receivers[0].incoming, timeout=10, msg="the barrier")
        work(connection, 2)
        equal([len(receiver.incoming) for receiver in receivers], [1, 0, 0, 0])
        receivers[1].link.flow(1)
        connection.wait(lambda: receivers[1].incoming, timeout=5, msg="the barrier, with credit")
        if api:
            listed = eventually(lambda: (lambda row: row.get("barriers") == 1 and row)(api.get(f"/queues/%2F/{queue}")), "a row")
            equal(listed["barriers_passed_over"], 0)
        connection.wait(lambda: len(receivers[0].incoming) == 2, timeout=40, msg="the rest")
        took = time.monotonic() - begin
        equal(WAITS_SECONDS - 0.5 <= took <= WAITS_SECONDS + 3, True, f"{took:.1f} s")
        equal([len(receiver.incoming) for receiver in receivers], [2, 1, 0, 0])
        for receiver in receivers[2:]:
            receiver.link.flow(5)
        work(connection, 0.5)
        equal([len(receiver.incoming) for receiver in receivers], [2, 1, 0, 0])
        if api:
            listed = eventually(lambda: (lambda row: row.get("barriers_passed_over") == 2 and row)(api.get(f"/queues/%2F/{queue}")), "a row")
            equal(listed["barriers"], 0)
        connection.close()


@each("nobody", "no consumer, gets, then a consumer", "a get takes what is in front, and the barrier once that is settled, and what is "
      "behind once the barrier is; where somebody consumes gets are not given it")
def _(desk, kind):
    queue = desk.barred(kind)
    desk.send(queue, message(0), barrier(1), message(2), barrier(3), message(4))
    held = desk.get(queue)
    equal(of(held[2])[0], 0)
    equal(desk.channel.basic_get(queue)[0], None)
    desk.channel.basic_ack(held[0].delivery_tag)
    held = desk.get(queue)
    equal(of(held[2])[0], 1)
    equal(desk.channel.basic_get(queue)[0], None)
    desk.channel.basic_ack(held[0].delivery_tag)
    equal(of(desk.get(queue, auto_ack=True)[2])[0], 2)
    connection = connect()
    idle = receiver_of(connection, queue, 0)
    equal(desk.channel.basic_get(queue)[0], None)
    taker = desk.taker(queue, 9)
    desk.gets(taker, 3)
    idle.close()
    desk.gets(taker, 3, 4)
    connection.close()


@each("come-and-go", "a consumer that comes while a barrier is handed out, one that goes, and one that comes after", "the first is given "
      "it too; nobody waits for the second; the third is not given it")
def _(desk, kind):
    queue = desk.barred(kind)
    connection = connect()
    idle = receiver_of(connection, queue, 0)
    first = desk.taker(queue, 9)
    desk.send(queue, barrier(0), message(1))
    desk.gets(first, 0)
    second = desk.taker(queue, 9)
    desk.gets(second, 0)
    idle.close()
    eventually(lambda: desk.turn() or len(first.deliveries) + len(second.deliveries) == 3, "the rest")
    third = desk.taker(queue, 9)
    desk.turn(0.2)
    equal(third.numbers, [])
    connection.close()


@each("choosers", "consumers that choose (x-filter), one of which wants no barrier", "both are given it")
def _(desk, kind):
    queue = desk.barred(kind)
    takers = [desk.taker(queue, 9, arguments={"x-filter": f"body.n = {number}"}) for number in (0, 2)]
    desk.send(queue, message(0), barrier(1), message(2))
    desk.gets(takers[0], 0)
    takers[0].channel.basic_ack(takers[0].last_tag)
    desk.gets(takers[0], 0, 1)
    desk.gets(takers[1], 1, 2)


@each("active", "a queue with one active consumer (x-single-active-consumer)", "the active one alone is given it")
def _(desk, kind):
    queue = desk.barred(kind, x_single_active_consumer=True)
    takers = [desk.taker(queue, 9) for _ in range(2)]
    desk.send(queue, barrier(0), message(1))
    desk.gets(takers[0], 0, 1)
    desk.gets(takers[1])


@each("rules", "x-fairness, x-max-unsettled 1 and x-lease 1,000", "the barrier is neither held nor leased: no header, no second delivery; "
      "the messages around it are")
def _(desk, kind):
    queue = desk.barred(kind, x_fairness="proportional", x_max_unsettled=1, x_lease=1000)
    takers = [desk.taker(queue, 9) for _ in range(2)]
    desk.send(queue, message(0), barrier(1), barrier(2))
    eventually(lambda: desk.turn() or len(desk.seen) == 1, "the first")
    taker, method, _body = desk.seen[0]
    equal("x-opt-locked-until" in taker.deliveries[0][1].headers, True)
    taker.channel.basic_ack(method.delivery_tag)
    eventually(lambda: desk.turn() or len(desk.seen) == 5, "two barriers for two")
    for one in takers:
        equal(one.numbers[-2:], [1, 2])
        equal([(properties.headers or {}).get("x-opt-locked-until") for _method, properties, _body in one.deliveries[-2:]], [None, None])
    desk.turn(1.6)
    equal(len(desk.seen), 5)
    desk.stays(queue, 0)


@each("limits", "x-max-length 2 with drop-head, x-message-ttl 300, a purge, each while a barrier waits for a consumer", "it goes as any "
      "other message, and what is behind it goes on")
def _(desk, kind):
    connection = connect()
    for arguments, act in (({"x_max_length": 2}, lambda queue: desk.send(queue, message(2), message(3))),
                           ({"x_message_ttl": 300}, lambda queue: desk.turn(0.6) or desk.send(queue, message(3))),
                           ({}, lambda queue: desk.channel.queue_purge(queue) and desk.send(queue, message(3)))):
        queue = desk.barred(kind, **arguments)
        idle = receiver_of(connection, queue, 0)
        taker = desk.taker(queue, 9)
        desk.send(queue, barrier(0), message(1))
        desk.gets(taker, 0)
        act(queue)
        eventually(lambda: desk.turn() or 3 in taker.numbers, f"what came later, {arguments}")
        equal(taker.numbers.count(0), 1)
        idle.close()
    connection.close()


@each("dead-letters", "messages in front that are rejected, to a queue whose expression is true of them", "the barrier goes when they are "
      "gone; they are barriers where they come to")
def _(desk, kind):
    dead = desk.barred(kind, "body.n = 0")
    queue = desk.barred(kind, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    takers = [desk.taker(dead, 9) for _ in range(2)]
    taker = desk.taker(queue, 9)
    desk.send(queue, message(0), barrier(1))
    desk.gets(taker, 0)
    taker.channel.basic_reject(taker.last_tag, requeue=False)
    desk.gets(taker, 0, 1)
    for one in takers:
        desk.gets(one, 0)


@each("retry", "x-delayed-retry of a message in front, and a message that is delayed in front", "the barrier waits as long", types=(QUORUM,))
def _(desk, kind):
    queue = desk.barred(kind, x_delayed_retry_type="all", x_delayed_retry_min=700)
    taker = desk.taker(queue, 9)
    desk.send(queue, message(0), barrier(1), message(2))
    desk.gets(taker, 0)
    begin = time.monotonic()
    taker.channel.basic_nack(taker.last_tag, requeue=True)
    eventually(lambda: desk.turn() or len(taker.deliveries) == 2, "it again")
    equal(time.monotonic() - begin >= 0.6, True)
    equal(taker.numbers, [0, 0])
    taker.channel.basic_ack(taker.last_tag)
    desk.gets(taker, 0, 0, 1, 2)


@each("priorities", "messages with priorities", "in the order in which they came")
def _(desk, kind):
    queue = desk.barred(kind)
    for number, priority in enumerate((1, 9, 4, 7)):
        desk.send(queue, message(number), priority=priority)
    equal([of(body)[0] for body in desk.bodies(queue, 4)], [0, 1, 2, 3])


@each("several", "one exchange with two queues of different expressions, and one without", "in each another is the barrier, or none")
def _(desk, kind):
    exchange = desk.exchange("fanout")
    queues = [desk.barred(kind, "body.n = 0"), desk.barred(kind, "body.n = 1"), desk.make(kind)]
    takers = []
    for queue in queues:
        desk.channel.queue_bind(queue, exchange, "")
        takers.append([desk.taker(queue, 1) for _ in range(2)])
    desk.send("", *[message(number) for number in range(2)], exchange=exchange)
    desk.turn(0.3)
    equal(sorted(taker.numbers for taker in takers[0]), [[0], [0, 1]])
    equal(sorted(taker.numbers for taker in takers[1]), [[], [0]])
    equal(sorted(taker.numbers for taker in takers[2]), [[0], [1]])


@each("stream", "a queue that is filled from a stream, small messages and large ones", "the same")
def _(desk, kind):
    stream = desk.queue(arguments={"x-queue-type": "stream"})
    filler = "x" * 3000
    desk.send(stream, *[json.dumps({"n": number, "end": number % 5 == 4, "filler": filler if number % 2 else ""}).encode()
                        for number in range(20)])
    queue = desk.barred(kind, x_source_stream=stream, x_source_offset="first")
    takers = desk.together(queue, 0, 0)
    desk.acks_until(lambda: len(desk.seen) == 24)
    order = [of(body)[0] for _taker, _method, body in desk.seen]
    for number in (4, 9, 14, 19):
        at = order.index(number)
        equal((order[at:at + 2], sorted(set(order[:at]))), ([number] * 2, list(range(number))))


@each("arguments", "no text, expressions with a fault, of the present or of a consumer, and beside x-max-priority, x-group-key or "
      "x-priority-expression", "406 with what is wrong")
def _(desk, kind):
    for value, why in ((5, ": {unacceptable_type,signedint}"), ("body.p > > 3", "at byte 9"), ("UTC() > 5", "a barrier hangs on the message alone"),
                       ("DELIVERIES() > 1", "DELIVERIES"), ("CLIENT_ID() = 'a'", "CLIENT_ID")):
        code, about, text = refused(desk, kind, {"x-barrier-expression": value})
        equal((code, about, why in text), (406, "invalid arg 'x-barrier-expression'", True), text)
    others = [("x-group-key", "of", "barrier_expression_and_group_key"),
              ("x-priority-expression", "body.p", "barrier_expression_and_priority_expression")]
    others += [("x-max-priority", 9, "barrier_expression_and_max_priority")] if kind == CLASSIC else []
    for name, value, why in others:
        equal(refused(desk, kind, {"x-barrier-expression": "body.p", name: value}),
              (406, "invalid arg 'x-barrier-expression'", f": {why}"))


def refused(desk, kind, arguments, queue="foreign.absent"):
    """The code of a refusal, what it is about, and why."""
    channel = desk.connection.channel()
    code, text = refusal(lambda: channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind, **arguments}))
    about, why = text.removeprefix("PRECONDITION_FAILED - ").split(f" for queue '{queue}' in vhost '{suite.uri.vhost}'")
    return code, about, why


@suite.case("streams", "a stream with x-barrier-expression", "406, of queue type rabbit_stream_queue")
def _():
    needs_barriers()
    with Desk() as desk:
        equal(refused(desk, "stream", {"x-barrier-expression": "body.end"}),
              (406, "invalid arg 'x-barrier-expression'", " of queue type rabbit_stream_queue"))


@each("same", "declared again with another expression", "406, inequivalent arg")
def _(desk, kind):
    queue = desk.barred(kind, "body.end")
    equal(refused(desk, kind, {"x-barrier-expression": "body.q"}, queue),
          (406, "inequivalent arg 'x-barrier-expression'", ": received 'body.q' but current is 'body.end'"))
    desk.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind, "x-barrier-expression": "body.end"})


@suite.each("killed", "the broker is killed while a barrier is handed out, which one consumer has and another not", "it goes to all again, "
            "redelivered, behind all that was not settled; nothing is lost", BOTH, seconds_max=60)
def _(kind):
    needs_barriers()
    with killable(suite) as kill:
        desk = Desk()
        queue = desk.barred(kind)
        desk.send(queue, message(0), message(1), barrier(2), message(3), barrier(4), message(5))
        connection = connect()
        receiver_of(connection, queue, 0)
        taker = desk.taker(queue, 9)
        desk.gets(taker, 0, 1)
        taker.channel.basic_ack(taker.last_tag, multiple=True)
        desk.gets(taker, 0, 1, 2)
        kill()
        desk = Desk()
        # It waits for this one while the others come.
        connection = connect()
        idle = receiver_of(connection, queue, 0)
        takers = desk.together(queue, 9, 9, 9)
        idle.close()
        # What was settled may be there again, where that was on no disk yet.
        desk.acks_until(lambda: [taker.numbers.count(4) for taker in takers] == [1, 1, 1]
                        and any(of(body)[0] == 5 for _, _, body in desk.seen))
        order = [of(body)[0] for _taker, _method, body in desk.seen]
        equal([taker.numbers.count(2) for taker in takers], [1, 1, 1])
        at = order.index(2)
        equal((order[at:at + 3], order[at + 3:]), ([2, 2, 2], [3, 4, 4, 4, 5]))
        equal(set(order[:at]) <= {0, 1}, True, str(order))
        again = [method.redelivered for _taker, method, body in desk.seen if of(body)[0] == 2]
        equal(again, [True, True, True])
        desk.stays(queue, 0)


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default="", help="a leveret to start"))
