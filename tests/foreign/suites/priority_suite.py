"""Priorities of messages: x-max-priority of classic queues, the 32 of quorum queues."""

import pika

from lab.cases import equal
from suites.pika_bench import Consumer, fresh
from suites.queue_bench import CLASSIC, QUORUM, Bench, QueueSuite, refusal

suite = QueueSuite("priority")


class Ranks(Bench):
    def ranked(self, kind, most=10, **arguments):
        return self.make(kind, **({"x_max_priority": most} if kind == CLASSIC else {}), **arguments)

    def rank(self, queue, *priorities):
        """Publishes a message for each priority; its body is `number:priority`."""
        for number, priority in enumerate(priorities):
            self.send(queue, f"{number}:{priority}".encode(), priority=priority)


def order(*words):
    return [word.encode() for word in words]


@suite.each("order", "priorities 1, 9, 5, 9 and 1", "highest first; of one priority the oldest first")
def _(kind):
    with Ranks() as desk:
        queue = desk.ranked(kind)
        desk.rank(queue, 1, 9, 5, 9, 1)
        equal(desk.bodies(queue, 5), order("1:9", "3:9", "2:5", "0:1", "4:1"))


@suite.each("strict", "50 messages of priority 3, then 50 of priority 8, one consumer",
            "all of priority 8 come before any other: no share is kept for the lower")
def _(kind):
    with Ranks() as desk:
        queue = desk.ranked(kind)
        for priority in (3, 8):
            for number in range(50):
                desk.send(queue, b"%d:%d" % (number, priority), priority=priority)
        consumer = Consumer(desk.channel, queue, auto_ack=True)
        consumer.wait(100)
        equal(consumer.bodies, [b"%d:%d" % (number, priority) for priority in (8, 3) for number in range(50)])


@suite.each("none", "a message without priority among others",
            {CLASSIC: "as priority 0", QUORUM: "as priority 4"})
def _(kind):
    with Ranks() as desk:
        queue = desk.ranked(kind)
        desk.rank(queue, None, 0, 3, 4, 5)
        expected = {CLASSIC: order("4:5", "3:4", "2:3", "0:None", "1:0"),
                    QUORUM: order("4:5", "0:None", "3:4", "2:3", "1:0")}
        equal(desk.bodies(queue, 5), expected[kind])


@suite.each("above", "priorities above the highest", {
    CLASSIC: "as x-max-priority: 10 here", QUORUM: "as 31"})
def _(kind):
    with Ranks() as desk:
        queue = desk.ranked(kind)
        top = 10 if kind == CLASSIC else 31
        desk.rank(queue, top - 1, 255, top, top + 1)
        equal(desk.bodies(queue, 4), order("1:255", f"2:{top}", f"3:{top + 1}", f"0:{top - 1}"))


@suite.each("shown", "the priority a consumer sees",
            "what was published, above the highest too; none where there was none")
def _(kind):
    with Ranks() as desk:
        queue = desk.ranked(kind)
        desk.rank(queue, 255, None, 0)
        equal(sorted(str(properties.priority) for _method, properties, _body in desk.collected(queue, 3)),
              ["0", "255", "None"])


@suite.each("off", "priorities in a classic queue without x-max-priority, or with 0", "in order of arrival",
            types=(CLASSIC,))
def _(kind):
    with Ranks() as desk:
        for queue in (desk.make(kind), desk.make(kind, x_max_priority=0)):
            desk.rank(queue, 1, 9, 5)
            equal(desk.bodies(queue, 3), order("0:1", "1:9", "2:5"))


@suite.each("all", "every priority that is different, published from the lowest up", "from the highest down")
def _(kind):
    with Ranks() as desk:
        most = 255 if kind == CLASSIC else 31
        queue = desk.ranked(kind, most)
        desk.rank(queue, *range(most + 1))
        equal(desk.bodies(queue, most + 1), order(*(f"{priority}:{priority}" for priority in range(most, -1, -1))))


@suite.each("waiting", "a message of priority 9 while the consumer has its prefetch of 1", "next; what is held stays")
def _(kind):
    with Ranks() as desk:
        queue = desk.ranked(kind)
        desk.channel.basic_qos(prefetch_count=1)
        consumer = Consumer(desk.channel, queue)
        desk.rank(queue, 1, 2, 9)
        consumer.wait(1)
        equal(consumer.bodies, order("0:1"))
        for tag in (1, 2):
            desk.channel.basic_ack(tag)
            consumer.wait(tag + 1)
        equal(consumer.bodies, order("0:1", "2:9", "1:2"))


@suite.each("prefetched", "a consumer without prefetch has them all before the highest comes", "in order of arrival")
def _(kind):
    with Ranks() as desk:
        queue = desk.ranked(kind)
        consumer = Consumer(desk.channel, queue)
        for body, priority in (b"low", 1), (b"middle", 5), (b"high", 9):
            desk.send(queue, body, priority=priority)
            consumer.wait(len(consumer.deliveries) + 1)
        equal(consumer.bodies, [b"low", b"middle", b"high"])


@suite.each("requeue", "a message of priority 5 comes back while one of priority 9 waits",
            {CLASSIC: "to the front of its priority: after 9, before the other 5",
             QUORUM: "before all others (ours: to the front of its priority)"})
def _(kind):
    with Ranks() as desk:
        queue = desk.ranked(kind)
        desk.rank(queue, 5, 5, 1)
        tag = desk.get(queue)[0].delivery_tag
        desk.rank(queue, 9)
        desk.channel.basic_nack(tag)
        desk.becomes(queue, 4)
        among, first = order("0:9", "0:5", "1:5", "2:1"), order("0:5", "0:9", "1:5", "2:1")
        seen = desk.bodies(queue, 4)
        equal(seen == among or kind == QUORUM and seen == first, True, f"{seen}")


@suite.each("requeue-many", "held messages of different priorities come back, in one nack and by a channel that closes",
            "each to its priority, in their order")
def _(kind):
    with Ranks() as desk:
        for close in (False, True):
            queue = desk.ranked(kind)
            channel = desk.connection.channel()
            desk.rank(queue, 1, 9, 5, 9, 1)
            consumer = Consumer(channel, queue)
            consumer.wait(5)
            if close:
                channel.close()
            else:
                channel.basic_cancel(consumer.tag)
                channel.basic_nack(0, multiple=True)
            desk.becomes(queue, 5)
            equal(desk.bodies(queue, 5), order("1:9", "3:9", "2:5", "0:1", "4:1"))


@suite.each("redelivered", "the redelivered mark, one message back among three",
            "on what was delivered before, on nothing else")
def _(kind):
    with Ranks() as desk:
        queue = desk.ranked(kind)
        desk.rank(queue, 1, 1)
        desk.channel.basic_nack(desk.get(queue)[0].delivery_tag)
        desk.rank(queue, 9)
        desk.becomes(queue, 3)
        equal(sorted((body, method.redelivered) for method, _properties, body in desk.collected(queue, 3)),
              [(b"0:1", True), (b"0:9", False), (b"1:1", False)])


@suite.each("count", "messages of five priorities, some held",
            "declare-ok counts what is ready of all; purge removes that")
def _(kind):
    with Ranks() as desk:
        queue = desk.ranked(kind)
        desk.rank(queue, 1, 2, 3, 4, 5)
        method = desk.get(queue)[0]
        desk.becomes(queue, 4)
        equal(desk.channel.queue_purge(queue).method.message_count, 4)
        desk.channel.basic_nack(method.delivery_tag)
        desk.becomes(queue, 1)
        equal(desk.bodies(queue, 1), order("4:5"))


@suite.each("consumers", "two consumers with a prefetch of 1", "each next message is the highest that is ready")
def _(kind):
    with Ranks() as desk:
        queue = desk.ranked(kind)
        desk.rank(queue, 1, 2, 3, 4)
        consumers = []
        for _number in range(2):
            channel = desk.connection.channel()
            channel.basic_qos(prefetch_count=1)
            consumers.append(Consumer(channel, queue))
            consumers[-1].wait(1)
        equal([consumer.bodies for consumer in consumers], [order("3:4"), order("2:3")])
        consumers[1].channel.basic_ack(1)
        consumers[1].wait(2)
        equal(consumers[1].bodies, order("2:3", "1:2"))


@suite.each("ttl", "a message of priority 9 that expires before one of priority 1",
            {CLASSIC: "delivered nevertheless: only a message that comes into an empty queue has its time watched "
                "(ours: gone)",
             QUORUM: "gone"})
def _(kind):
    with Ranks() as desk:
        queue = desk.ranked(kind)
        desk.send(queue, b"low", priority=1)
        desk.send(queue, b"high", priority=9, expiration="100")
        desk.later()
        if kind == CLASSIC and desk.count(queue) == 2:
            equal(desk.bodies(queue, 2), [b"high", b"low"])
        else:
            equal(desk.bodies(queue, 1), [b"low"])


@suite.each("ttl-low", "a message of priority 1 that expires below one of priority 9",
            "counted until the higher is taken (ours: gone before); never delivered")
def _(kind):
    with Ranks() as desk:
        queue = desk.ranked(kind)
        desk.send(queue, b"low", priority=1, expiration="50")
        desk.send(queue, b"high", priority=9)
        desk.later()
        equal(desk.count(queue) in (1, 2), True, "ready")
        equal(desk.bodies(queue, 1), [b"high"])


@suite.each("dead", "messages of priorities 1, 9, 5 expire", "each keeps its priority where it comes to")
def _(kind):
    with Ranks() as desk:
        dead = desk.make(CLASSIC)
        queue = desk.ranked(kind, x_message_ttl=200, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
        desk.rank(queue, 1, 9, 5)
        seen = [properties.priority for _method, properties, _body in desk.collected(dead, 3)]
        equal(sorted(seen), [1, 5, 9])


@suite.each("many", "3,000 messages of ten priorities in turn, one consumer with a prefetch of 50",
            "all of them, highest first, each priority in order")
def _(kind):
    with Ranks() as desk:
        queue, count = desk.ranked(kind, 9), 3000
        channel = desk.connection.channel()
        for number in range(count):
            desk.channel.basic_publish("", queue, b"%d" % number, properties(number % 10))
        desk.becomes(queue, count)
        channel.basic_qos(prefetch_count=50)
        consumer = Consumer(channel, queue)
        while len(consumer.deliveries) < count:
            seen = len(consumer.deliveries)
            consumer.wait(min(seen + 50, count))
            channel.basic_ack(consumer.tags[-1], multiple=True)
        expected = [number for priority in range(9, -1, -1) for number in range(priority, count, 10)]
        equal([int(body) for body in consumer.bodies], expected)


def properties(priority):


    return pika.BasicProperties(delivery_mode=2, priority=priority)


@suite.each("equal", "declaring again with another x-max-priority", "406 inequivalent arg `x-max-priority`",
            types=(CLASSIC,))
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_priority=5)
        equal(refusal(lambda: desk.channel.queue_declare(
            queue, durable=True, arguments={"x-queue-type": kind, "x-max-priority": 6})),
            (406, f"PRECONDITION_FAILED - inequivalent arg 'x-max-priority' for queue '{queue}' in vhost "
                  f"'{suite.uri.vhost}': received '6' but current is '5'"))


ARGUMENTS = [
    ("negative", CLASSIC, -1, ": {value_negative,-1}"),
    ("large", CLASSIC, 256, ": {max_value_exceeded,256}"),
    ("text", CLASSIC, "5", ': "expected integer, got longstr"'),
    ("quorum", QUORUM, 5, " of queue type rabbit_quorum_queue"),
]


def add_argument(name, kind, value, why):
    @suite.case(f"argument.{name}", f"declaring a {kind} queue with x-max-priority {value!r}",
                f"406 `invalid arg 'x-max-priority' for queue '...' in vhost '/'{why}`")
    def _():
        with Bench() as desk:
            queue = fresh("absent")
            equal(refusal(lambda: desk.channel.queue_declare(
                queue, durable=True, arguments={"x-queue-type": kind, "x-max-priority": value})),
                (406, f"PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue '{queue}' in vhost "
                      f"'{suite.uri.vhost}'{why}"))


for one_argument in ARGUMENTS:
    add_argument(*one_argument)


if __name__ == "__main__":
    suite.main()
