"""Consumers of queues that choose by what is in the messages: x-filter over 0-9-1, filters of a source over 1.0.

RabbitMQ passes over all of them, and gives every consumer everything: there the cases are skipped.
"""

import json
import random

from proton import Message
from proton.reactor import Copy, Selector
from proton.utils import LinkDetached

from lab.cases import Skip, equal, eventually
from suites import proton_bench, selectors_many
from suites.apart import apart
from suites.pika_bench import Consumer
from suites.queue_bench import BOTH, CLASSIC, Bench, QueueSuite, killable, refusal
from suites.streams_content import BAD, EXPRESSIONS, ORDERS, SELECTORS, SQL, SELECTOR, SELECTOR_CODE

suite = QueueSuite("selectors")
proton_bench.suite = suite
_are_there = []


def needs_selectors():
    if not _are_there:
        with Desk() as desk:
            queue = desk.make(CLASSIC)
            _are_there.append(refusal(lambda: desk.chooser(queue, BAD[0])) is not None)
    # RabbitMQ may; a broker of ours that passes over the argument has lost it.
    assert _are_there[0] or not suite.options.broker, "x-filter is passed over"
    if not _are_there[0]:
        raise Skip("its consumers take everything")


class Desk(Bench):
    def chooser(self, queue, expression, prefetch=0, **options):
        channel = self.connection.channel()
        channel.basic_qos(prefetch_count=prefetch)
        arguments = {"x-filter": expression, **options.pop("arguments", {})}
        return Consumer(channel, queue, arguments=arguments, **options)

    def numbered(self, queue, documents, **properties):
        """Sends documents, each with its number."""
        bodies = [json.dumps({**document, "number": at}).encode() for at, document in enumerate(documents)]
        self.send(queue, *bodies, **{"content_type": "application/json", **properties})

    def turn(self, seconds=0.01):
        self.connection.process_data_events(seconds)

    def gets(self, consumer, expected):
        """A consumer was given these numbers, and is given nothing more."""
        eventually(lambda: self.turn() or len(consumer.deliveries) >= len(expected), f"{len(expected)} deliveries")
        self.turn(0.15)
        equal(numbers(consumer), list(expected))


each = suite.each_at(Desk, needs_selectors)


def numbers(consumer):
    return [json.loads(body)["number"] for body in consumer.bodies]


@each("expressions", "consumers with x-filter on bodies of JSON and headers, twenty expressions, messages before and after",
      "each is given those of which its expression is true, in order, and nothing else goes", seconds_max=120)
def _(desk, kind):
    for at, (expression, expected) in enumerate(EXPRESSIONS):
        if "x-exchange" in expression or "kind" in expression:
            continue
        queue = desk.make(kind)
        desk.numbered(queue, ORDERS[:1 + at % 3])
        consumer = desk.chooser(queue, expression)
        channel = desk.connection.channel()
        channel.confirm_delivery()
        for number, order in list(enumerate(ORDERS))[1 + at % 3:]:
            channel.basic_publish("", queue, json.dumps({**order, "number": number}).encode())
        desk.gets(consumer, expected)
        channel.close()
        desk.stays(queue, len(ORDERS) - len(expected))


def many():
    return 1_000_000 if suite.options.full else 20_000


@suite.each("tenants", "a hundred consumers with a selector each, 20,000 messages in random order, some for nobody (--full: 1 M)",
            "each is given exactly its own, in order, each once; the others stay and are counted", BOTH, seconds_max=400)
def _(kind):
    needs_selectors()
    with apart(suite) as api, Desk() as desk:
        queue = desk.make(kind)
        dice = random.Random(suite.options.seed)
        left = selectors_many.tenants(suite.uri, queue, many(), dice, lambda: api and api.get(f"/queues/%2F/{queue}")["messages_unmatched"])
        desk.stays(queue, left)


@suite.each("backlog", "20,000 messages of 1 KB (--full: 1 M), the last ten of which a new consumer wants, beside others that take all the time",
            "it is given them in order, and the others theirs; with --full the first within 2 s, with the same selector again within "
            "20 ms, while the others keep 80 % of 40,000 a second", BOTH, seconds_max=400)
def _(kind):
    needs_selectors()
    with apart(suite), Desk() as desk:
        queue = desk.make(kind)
        left = selectors_many.backlog(suite.uri, queue, many(), suite.options.full)
        desk.stays(queue, left)


@each("between", "consumers that choose beside one that takes everything, of higher and lower priority; round by round",
      "who chooses is given nothing else; the one without a selector is given what is next")
def _(desk, kind):
    queue = desk.make(kind)
    low = desk.chooser(queue, "body.k = 1", prefetch=1)
    plain_channel = desk.connection.channel()
    plain_channel.basic_qos(prefetch_count=2)
    plain = Consumer(plain_channel, queue, arguments={"x-priority": 5})
    high = desk.chooser(queue, "body.k = 2", prefetch=1, arguments={"x-priority": 9})
    desk.numbered(queue, [{"k": k} for k in (1, 2, 1, 2, 1)])
    desk.gets(high, [1])
    desk.gets(plain, [0, 2])
    desk.gets(low, [4])
    high.channel.basic_ack(high.tags[0])
    desk.gets(high, [1, 3])


@each("returns", "a consumer that chooses gives messages back, and is closed with some; the connection of another one is closed", "they are at their places for the next one "
      "with the same selector, marked as redelivered")
def _(desk, kind):
    queue = desk.make(kind)
    desk.numbered(queue, [{"k": at % 3} for at in range(12)])
    consumer = desk.chooser(queue, "body.k = 1", prefetch=3)
    desk.gets(consumer, [1, 4, 7])
    consumer.channel.basic_nack(consumer.tags[1], requeue=True)
    desk.gets(consumer, [1, 4, 7, 4])
    equal(consumer.deliveries[3][0].redelivered, True)
    consumer.channel.close()
    # The connection of another one goes.
    gone = Desk()
    gone.gets(gone.chooser(queue, "body.k = 1 AND TRUE", prefetch=2), [1, 4])
    gone.connection.close()
    other = desk.chooser(queue, "body.k = 1 AND TRUE", prefetch=0)
    desk.gets(other, [1, 4, 7, 10])


@each("ends", "messages that a consumer chose are refused, expire, die of a limit; the queue is purged",
      "they go where they would go without a selector", seconds_max=60)
def _(desk, kind):
    dead = desk.make(CLASSIC)
    queue = desk.make(kind, x_dead_letter_exchange="", x_dead_letter_routing_key=dead, x_message_ttl=700)
    consumer = desk.chooser(queue, "body.k = 1", prefetch=1)
    desk.numbered(queue, [{"k": at % 2} for at in range(6)])
    desk.gets(consumer, [1])
    consumer.channel.basic_nack(consumer.tags[0], requeue=False)
    desk.becomes(dead, 1)
    # The rest expires but for what is held.
    desk.becomes(dead, 5)
    taken = [json.loads(body)["number"] for body in desk.bodies(dead, 5)]
    equal((taken[0], sorted(taken)), (1, [0, 1, 2, 4, 5]))
    consumer.channel.basic_ack(consumer.tags[-1])
    desk.numbered(queue, [{"k": 0}] * 3)
    desk.channel.queue_purge(queue)
    desk.becomes(queue, 0)


@suite.each("priority", "a consumer that chooses from a queue with priorities", "the highest first, and within one in order", (CLASSIC,))
def _(kind):
    needs_selectors()
    with Desk() as desk:
        queue = desk.make(kind, x_max_priority=5)
        for priority, k in ((0, 1), (3, 0), (3, 1), (5, 1), (0, 1)):
            desk.send(queue, json.dumps({"k": k, "number": priority * 10 + desk.count(queue)}).encode(), priority=priority)
        consumer = desk.chooser(queue, "body.k = 1")
        desk.gets(consumer, [53, 32, 0, 4])


@each("single-active", "two consumers that choose at a queue of which one is active at a time", "the first alone is given what it chooses; "
      "the second when it goes")
def _(desk, kind):
    queue = desk.make(kind, x_single_active_consumer=True)
    first, second = desk.chooser(queue, "body.k = 1"), desk.chooser(queue, "body.k = 2")
    desk.numbered(queue, [{"k": 1}, {"k": 2}, {"k": 3}])
    desk.gets(first, [0])
    desk.gets(second, [])
    first.channel.close()
    desk.gets(second, [1])


@each("shared", "x-fairness proportional and x-max-unsettled with consumers that choose", "both hold; nobody is given what is not his")
def _(desk, kind):
    queue = desk.make(kind, x_fairness="proportional", x_max_unsettled=5)
    small, large = desk.chooser(queue, "body.k = 1", prefetch=2), desk.chooser(queue, "body.k IN (1, 2)", prefetch=8)
    desk.numbered(queue, [{"k": 1 + at % 2} for at in range(10)])
    eventually(lambda: desk.turn() or len(small.deliveries) + len(large.deliveries) == 5, "5 are held")
    desk.turn(0.2)
    equal(len(small.deliveries) + len(large.deliveries), 5)
    assert all(number % 2 == 0 for number in numbers(small)), numbers(small)
    large.channel.basic_ack(large.tags[-1], multiple=True)
    eventually(lambda: desk.turn() or len(small.deliveries) + len(large.deliveries) > 5, "more")


@suite.each("killed", "the broker is killed while consumers that choose hold messages", "all are there again, and each is given its own",
            BOTH, seconds_max=60)
def _(kind):
    needs_selectors()
    with killable(suite) as kill:
        desk = Desk()
        queue = desk.make(kind)
        desk.numbered(queue, [{"k": at % 3} for at in range(30)])
        for _ in range(2):
            ones, twos = desk.chooser(queue, "body.k = 1", prefetch=5), desk.chooser(queue, "body.k = 2")
            desk.gets(ones, [1, 4, 7, 10, 13])
            desk.gets(twos, range(2, 30, 3))
            kill()
            desk = Desk()
        desk.becomes(queue, 30)


@suite.case("refused", "x-filter with a fault, of another type, at a queue with groups, and the 257th selector",
            "406 with the place of the fault, the channel alone is closed, nothing is taken")
def _():
    needs_selectors()
    with Desk() as desk:
        queue = desk.make(CLASSIC)
        desk.numbered(queue, ORDERS)
        invalid = f"PRECONDITION_FAILED - invalid arg 'x-filter' for queue '{queue}' in vhost '/'"
        equal(refusal(lambda: desk.chooser(queue, BAD[0])), (406, f"{invalid}: {BAD[1]}"))
        equal(refusal(lambda: desk.chooser(queue, 5)), (406, f"{invalid}: it is to be an expression"))
        code, text = refusal(lambda: desk.chooser(queue, "OFFSET() = 1"))
        equal((code, "at byte 0: OFFSET() is not known here" in text), (406, True), text)
        grouped = desk.make(CLASSIC, x_group_key="properties.group_id")
        code, text = refusal(lambda: desk.chooser(grouped, "a = 1"))
        equal((code, "whose messages are in groups" in text), (406, True), text)
        equal(desk.connection.is_open, True)
        channel = desk.connection.channel()
        for number in range(256):
            Consumer(channel, queue, arguments={"x-filter": f"body.none = {number}"})
        code, text = refusal(lambda: desk.chooser(queue, "body.none = 256"))
        equal((code, "has 256 selectors, which is the most" in text), (406, True), text)
        desk.stays(queue, len(ORDERS))


@suite.each("10.sql", "receivers of queues with amqp:sql-filter, selectors of JMS by name and by code, and filters of properties",
            "ours alone: each is given those of which it is true, and the answer repeats the filter", BOTH)
def _(kind):
    needs_selectors()
    with proton_bench.Bench() as bench:
        for descriptor, name, expression, expected in (
                (SQL, "sql-filter", "region = 'eu' AND properties.subject LIKE 'o%'", [0, 3]), (SELECTOR, "jms-selector", "JMSPriority > 4", [1]),
                (SELECTOR_CODE, "s", "JMSType = 'quote' OR region IS NULL", [1, 2])):
            queue = bench.queue(arguments={"x-queue-type": kind})
            sender = bench.sender(queue)
            for number, (subject, priority, properties) in enumerate((("order", 4, {"region": "eu"}), ("quote", 7, {"region": "us"}),
                                                                      ("order", 4, {}), ("offer", 1, {"region": "eu"}))):
                sender.send(Message(body=number, subject=subject, priority=priority, properties=properties, durable=True))
            receiver = bench.receiver(queue, credit=10, options=proton_bench.Wants({name: (descriptor, expression)}))
            equal([receiver.receive().body for _ in expected], expected, expression)
            equal(receiver.filters(), [name], expression)
            receiver.gets_nothing()
            receiver.close()


@suite.case("10.refused", "a receiver of a queue with a filter that cannot be read", "ours alone: the link is detached with "
            "amqp:invalid-field and the place, and nothing is taken")
def _():
    needs_selectors()
    with proton_bench.Bench() as bench:
        queue = bench.queue()
        bench.send(queue, "a")
        for name, descriptor, text, fault in (("sql-filter", SQL, BAD[0], BAD[1]), ("jms-selector", SELECTOR, "JMSType = ", "at byte 10"),
                                              ("jms-selector", SELECTOR, 5, "expected a string")):
            try:
                bench.receiver(queue, credit=1, options=proton_bench.Wants({name: (descriptor, text)}))
                raise AssertionError(f"{text}: not refused")
            except LinkDetached as detached:
                equal(detached.condition, "amqp:invalid-field", text)
                assert fault in str(detached), detached
        equal(bench.desk.count(queue), 1)


@suite.case("10.browse", "a browser of a queue with a selector of JMS", "ours alone: it is shown those of which it is true, and takes none")
def _():
    needs_selectors()
    with proton_bench.Bench() as bench:
        queue = bench.queue()
        sender = bench.sender(queue)
        for number in range(6):
            sender.send(Message(body=number, properties={"k": number % 3}))
        receiver = bench.receiver(queue, credit=10, options=[Copy(), Selector("k = 2")])
        equal([receiver.receive().body for _ in range(2)], [2, 5])
        receiver.gets_nothing()
        equal(bench.desk.count(queue), 6)


@suite.case("10.jms", "selectors of JMS on two messages in a queue", "ours alone: names of JMS and of Qpid are fields")
def _():
    needs_selectors()
    with proton_bench.Bench() as bench:
        for expression, expected in SELECTORS:
            if "Redelivered" in expression or "body" in expression:
                continue
            queue = bench.queue()
            sender = bench.sender(queue)
            sender.send(Message(body=0, id="ID:1", subject="order", priority=7, durable=True, correlation_id="c-1", group_id="g",
                                group_sequence=1, properties={"region": "eu"}))
            sender.send(Message(body=1, id="ID:2", subject="quote", durable=False, creation_time=1000, reply_to="/queues/x",
                                properties={"region": "us"}))
            receiver = bench.receiver(queue, credit=10, options=Selector(expression))
            equal([receiver.receive().body for _ in expected], list(expected), expression)
            receiver.gets_nothing()
            receiver.close()


@suite.case("10.drain", "a receiver that chooses drains: with messages of its own before others, and with none",
            "ours alone: it is given its own, and then told that there are no more")
def _():
    needs_selectors()
    with proton_bench.Bench() as bench:
        queue = bench.queue()
        sender = bench.sender(queue)
        for number in range(100):
            sender.send(Message(body=number, properties={"k": number % 50}))
        receiver = bench.receiver(queue, options=Selector("k = 49"))
        for expected in ([49, 99], []):
            receiver.link.drain(10)
            bench.connection.wait(lambda: receiver.link.credit == 0, timeout=10, msg="draining")
            equal([message.body for message, _delivery in receiver.incoming], expected)
            receiver.incoming.clear()
            receiver.link.drained()
            receiver.link.drain_mode = False


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default="", help="a leveret to start"))
