"""How long a queue may get: x-max-length, x-max-length-bytes, and what happens to one message too many."""

import pika

from lab.cases import equal, eventually
from suites.pika_bench import Consumer, fresh
from suites.queue_bench import BOTH, CLASSIC, QUORUM, Bench, QueueSuite, refusal

suite = QueueSuite("queue-limits")


def numbered(count, size=1):
    return [b"%d" % number * size for number in range(count)]


@suite.each("head.length", "x-max-length 3, five messages", "all confirmed; the oldest two are dropped")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=3)
        equal(desk.send(queue, *numbered(5)), [True] * 5)
        equal(desk.bodies(queue, 3), [b"2", b"3", b"4"])


@suite.each("head.bytes", "x-max-length-bytes 350, five messages with bodies of 100 bytes",
            "the oldest two are dropped")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length_bytes=350)
        equal(desk.send(queue, *numbered(5, 100)), [True] * 5)
        equal(desk.bodies(queue, 3), numbered(5, 100)[2:])


@suite.each("head.both", "x-max-length 3 and x-max-length-bytes 250", "whichever is reached first counts")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=3, x_max_length_bytes=250)
        desk.send(queue, *numbered(5))
        equal(desk.bodies(queue, 3), [b"2", b"3", b"4"])
        desk.send(queue, *numbered(5, 100))
        equal(desk.bodies(queue, 2), numbered(5, 100)[3:])


@suite.each("head.explicit", "x-overflow drop-head", "as without x-overflow")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=1, x_overflow="drop-head")
        desk.send(queue, b"1", b"2")
        equal(desk.bodies(queue, 1), [b"2"])


@suite.each("head.too-large", "a message that is larger than x-max-length-bytes",
            "confirmed, and dropped with everything before it")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length_bytes=150)
        equal(desk.send(queue, b"1", b"2", b"3" * 200), [True] * 3)
        desk.stays(queue, 0)


@suite.each("head.bytes-count", "what x-max-length-bytes counts, delivery-mode 2 and three bodies of 10 bytes",
            {CLASSIC: "bodies: two fit in 29, three in 30",
             QUORUM: "bodies and encoded properties, 3 bytes here: two fit in 38, three in 39"})
def _(kind):
    with Bench() as desk:
        size = 10 if kind == CLASSIC else 13
        for limit, count in (3 * size - 1, 2), (3 * size, 3):
            queue = desk.make(kind, x_max_length_bytes=limit)
            desk.send(queue, *[b"0123456789"] * 3)
            desk.stays(queue, count)


@suite.each("zero", "x-max-length 0, no consumer and one", "dropped at once where nobody waits; confirmed")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=0)
        equal(desk.send(queue, b"1", b"2"), [True, True])
        desk.stays(queue, 0)


@suite.each("zero.consumer", "x-max-length 0 and a consumer that waits", "delivered")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=0)
        consumer = Consumer(desk.channel, queue, auto_ack=True)
        equal(desk.send(queue, b"1", b"2"), [True, True])
        consumer.wait(2)
        equal(consumer.bodies, [b"1", b"2"])


@suite.each("zero.bytes", "x-max-length-bytes 0, no consumer", "dropped at once, confirmed")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length_bytes=0)
        equal(desk.send(queue, b"1"), [True])
        desk.stays(queue, 0)


@suite.each("held", "x-max-length 2 with five messages held by a consumer", "what is held does not count")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=2)
        desk.channel.basic_qos(prefetch_count=5)
        consumer = Consumer(desk.channel, queue)
        for body in numbered(5):
            desk.send(queue, body)
            consumer.wait(len(consumer.deliveries) + 1)
        desk.send(queue, b"5", b"6")
        desk.stays(queue, 2)
        desk.send(queue, b"7")
        desk.stays(queue, 2)
        desk.channel.basic_cancel(consumer.tag)
        equal(desk.bodies(queue, 2), [b"6", b"7"])
        desk.channel.basic_ack(0, multiple=True)


@suite.each("held.bytes", "x-max-length-bytes with messages held by a consumer", "what is held does not count")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length_bytes=250)
        desk.channel.basic_qos(prefetch_count=2)
        consumer = Consumer(desk.channel, queue)
        desk.send(queue, *numbered(5, 100))
        consumer.wait(2)
        desk.stays(queue, 2)
        desk.channel.basic_cancel(consumer.tag)
        equal(desk.bodies(queue, 2), numbered(5, 100)[3:])


@suite.each("returned", "three held messages come back to a queue with x-max-length 2 that has two",
            "they count at once: the three oldest are dropped, which are those that came back")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=2)
        desk.channel.basic_qos(prefetch_count=3)
        consumer = Consumer(desk.channel, queue)
        for body in numbered(3):
            desk.send(queue, body)
            consumer.wait(len(consumer.deliveries) + 1)
        desk.send(queue, b"3", b"4")
        desk.channel.basic_cancel(consumer.tag)
        desk.channel.basic_nack(0, multiple=True)
        desk.stays(queue, 2)
        equal(desk.bodies(queue, 2), [b"3", b"4"])


@suite.each("refuse.length", "x-overflow reject-publish, x-max-length 2, one publish after the other",
            {CLASSIC: "two confirmed, then basic.nack", QUORUM: "two or three confirmed, then basic.nack"})
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=2, x_overflow="reject-publish")
        sent = desk.send(queue, *numbered(6))
        taken = sent.count(True)
        equal(taken in ((2,) if kind == CLASSIC else (2, 3)), True, f"{taken} confirmed")
        equal(sent, [True] * taken + [False] * (6 - taken))
        equal(desk.bodies(queue, taken), numbered(taken))


@suite.each("refuse.bytes", "x-overflow reject-publish, x-max-length-bytes 250, bodies of 100 bytes",
            "confirmed until the limit is reached or passed, then basic.nack")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length_bytes=250, x_overflow="reject-publish")
        sent = desk.send(queue, *numbered(6, 100))
        taken = sent.count(True)
        equal(taken in (2, 3, 4), True, f"{taken} confirmed")
        equal(sent, [True] * taken + [False] * (6 - taken))
        equal(desk.bodies(queue, taken), numbered(taken, 100))


@suite.each("refuse.again", "x-overflow reject-publish: a full queue is read", "publishes are taken again")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=1, x_overflow="reject-publish")
        equal(desk.send(queue, *numbered(4))[-1], False)
        while desk.channel.basic_get(queue, auto_ack=True)[0]:
            pass
        eventually(lambda: desk.send(queue, b"again")[0], "taken again")
        equal(desk.bodies(queue, 1), [b"again"])


@suite.each("refuse.held", "x-overflow reject-publish with held messages", "what is held does not count")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=1, x_overflow="reject-publish")
        consumer = Consumer(desk.channel, queue)
        for body in numbered(4):
            equal(desk.send(queue, body), [True])
            consumer.wait(len(consumer.deliveries) + 1)


@suite.each("refuse.unconfirmed", "x-overflow reject-publish, publishing without confirms", "dropped without a word")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=1, x_overflow="reject-publish")
        desk.send(queue, *numbered(3))
        ready = desk.count(queue)
        for _number in range(3):
            desk.channel.basic_publish("", queue, b"x")
        desk.later()
        equal((desk.count(queue), desk.channel.is_open), (ready, True))


@suite.each("refuse.mandatory", "a mandatory message to a full queue with reject-publish", "basic.nack, not returned")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=1, x_overflow="reject-publish")
        desk.send(queue, *numbered(3))
        channel = desk.connection.channel()
        channel.confirm_delivery()
        try:
            channel.basic_publish("", queue, b"x", mandatory=True)
        except pika.exceptions.NackError as error:
            equal(error.messages, [])
        else:
            raise AssertionError("taken")


@suite.each("refuse.zero", "x-max-length 0 with reject-publish, a consumer that waits",
            {CLASSIC: "every publish is refused", QUORUM: "delivered, as nothing is ever ready (ours: refused as in "
                "a classic queue)"})
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=0, x_overflow="reject-publish")
        Consumer(desk.channel, queue, auto_ack=True)
        sent = desk.send(queue, *numbered(3))
        equal(sent == [False] * 3 or kind == QUORUM and sent == [True] * 3, True, f"{sent}")


@suite.each("refuse.fanout", "one message to a full queue and to one that is not", "basic.nack; the other has it")
def _(kind):
    with Bench() as desk:
        exchange = desk.exchange("fanout")
        full, free = desk.make(kind, x_max_length=1, x_overflow="reject-publish"), desk.make(kind)
        desk.send(full, *numbered(3))
        for queue in (full, free):
            desk.channel.queue_bind(queue, exchange)
        equal(desk.send("", b"x", exchange=exchange), [False])
        equal(desk.bodies(free, 1), [b"x"])


@suite.each("refuse.many", "1,000 publishes without waiting to a queue with x-max-length 100, reject-publish, "
            "confirms on",
            {CLASSIC: "100 taken, 900 refused", QUORUM: "100 and what was under way taken, the others refused"})
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=100, x_overflow="reject-publish")
        acks, nacks = answered(desk, queue, 1000)
        if kind == CLASSIC:
            equal((acks, nacks), (100, 900))
        equal((100 <= acks < 1000, acks + nacks), (True, 1000), f"{acks} taken, {nacks} refused")
        desk.becomes(queue, acks)


def answered(desk, queue, count):
    """How many of so many publishes were acked and nacked; sent without waiting for either."""
    connection = desk.connection
    channel = connection.channel()
    channel._impl.confirm_delivery(lambda frame: take(frame.method))
    settled, last = {}, 0

    def take(method):
        nonlocal last
        ack = isinstance(method, pika.spec.Basic.Ack)
        tags = range(1, method.delivery_tag + 1) if method.multiple else [method.delivery_tag]
        for tag in tags:
            settled.setdefault(tag, ack)

    for number in range(count):
        channel.basic_publish("", queue, b"%d" % number)
    eventually(lambda: connection.process_data_events(0.02) or len(settled) == count, "all answered")
    channel.close()
    acks = sum(settled.values())
    return acks, count - acks


@suite.each("tx", "tx.commit of three publishes to a queue with x-max-length 1 and reject-publish",
            {CLASSIC: "what fits is taken; channel closed: 406 `PRECONDITION_FAILED - partial tx completion`",
             QUORUM: "tx.commit-ok, all three are taken (ours: as in a classic queue)"})
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=1, x_overflow="reject-publish")
        channel = desk.connection.channel()
        channel.tx_select()
        for body in numbered(3):
            channel.basic_publish("", queue, body)
        seen = refusal(channel.tx_commit)
        desk.later()
        partly = (seen, desk.count(queue)) == ((406, "PRECONDITION_FAILED - partial tx completion"), 1)
        whole = (seen, desk.count(queue)) == (None, 3)
        equal(partly or kind == QUORUM and whole, True, f"{seen}, {desk.count(queue)} ready")


@suite.each("priorities", "x-max-length 2 with messages of priorities 9, 1, 9, 1 and 9",
            "the head is dropped, which is the oldest of the highest priority")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=2, **({"x_max_priority": 9} if kind == CLASSIC else {}))
        for body, priority in (b"h1", 9), (b"l1", 1), (b"h2", 9), (b"l2", 1), (b"h3", 9):
            desk.send(queue, body, priority=priority)
        equal(desk.bodies(queue, 2), [b"l1", b"l2"])


@suite.each("equal", "declaring again with another limit, or without", "406 inequivalent arg `x-max-length`")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_max_length=2)
        for arguments, said in [({"x-max-length": 3}, "received '3' but current is '2'"),
                                ({}, "received none but current is the value '2' of type 'signedint'")]:
            equal(refusal(lambda arguments=arguments: desk.connection.channel().queue_declare(
                queue, durable=True, arguments={"x-queue-type": kind, **arguments})),
                (406, f"PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '{queue}' in vhost "
                      f"'{suite.uri.vhost}': {said}"))


ARGUMENTS = [
    ("length-negative", {"x-max-length": -1}, "invalid arg 'x-max-length' for queue '{}' in vhost '{}': "
        "{{value_negative,-1}}"),
    ("length-text", {"x-max-length": "1"},
     "invalid arg 'x-max-length' for queue '{}' in vhost '{}': \"expected integer, got longstr\""),
    ("bytes-negative", {"x-max-length-bytes": -1},
     "invalid arg 'x-max-length-bytes' for queue '{}' in vhost '{}': {{value_negative,-1}}"),
    ("overflow", {"x-overflow": "x"}, "invalid arg 'x-overflow' for queue '{}' in vhost '{}': invalid_overflow"),
    ("overflow-type", {"x-overflow": 1},
     "invalid arg 'x-overflow' for queue '{}' in vhost '{}': {{unacceptable_type,signedint}}"),
]


def add_argument(name, arguments, why, types=BOTH):
    @suite.each(f"argument.{name}", f"declaring with {arguments}".replace("'", ""),
                f"406 `{why.format('...', '/')}`", types=types)
    def _(kind):
        with Bench() as desk:
            queue = fresh("absent")
            equal(refusal(lambda: desk.channel.queue_declare(
                queue, durable=True, arguments={"x-queue-type": kind, **arguments})),
                (406, "PRECONDITION_FAILED - " + why.format(queue, suite.uri.vhost)))


for one_argument in ARGUMENTS:
    add_argument(*one_argument)


# Messages that a basic.get finds at once, behind others that go over a limit.

LIMITS_BEHIND = (1, 2, 3)


def over(desk, kind, count, **arguments):
    """As many messages were got from a queue that holds so many at most, and as many came meanwhile: the queue, that of its
    dead, and the deliveries."""
    dead = desk.make(kind)
    queue = desk.make(kind, x_dead_letter_exchange="", x_dead_letter_routing_key=dead, **arguments)
    desk.send(queue, *numbered(count, 10))
    got = [desk.get(queue)[0].delivery_tag for _ in range(count)]
    desk.send(queue, *[b"n%08d." % number for number in range(count)])
    return queue, dead, got


def found(desk, queue):
    """The message that one basic.get finds: the body, and how many are left."""
    method, _properties, body = desk.channel.basic_get(queue, auto_ack=True)
    return (body, method.message_count) if method else None


@suite.each("behind.requeue", "x-max-length N, N messages put back by basic.nack over N that came meanwhile, and basic.get at once "
            "from the queue and from that of its dead", "those that came back went, the oldest first; the others are left",
            types=[CLASSIC])
def _(kind):
    with Bench() as desk:
        for count in LIMITS_BEHIND:
            queue, dead, got = over(desk, kind, count, x_max_length=count)
            desk.channel.basic_nack(got[0], False, True)
            if count > 1:
                desk.channel.basic_nack(got[-1], True, True)
            equal(found(desk, queue), (b"n00000000.", count - 1))
            equal(found(desk, dead), (b"0" * 10, count - 1))
            equal(desk.drained(dead), numbered(count, 10)[1:])


@suite.each("behind.requeue-bytes", "the same with x-max-length-bytes", "the same", types=[CLASSIC])
def _(kind):
    with Bench() as desk:
        for count in LIMITS_BEHIND:
            queue, dead, got = over(desk, kind, count, x_max_length_bytes=10 * count)
            desk.channel.basic_nack(got[-1], True, True)
            equal(found(desk, queue), (b"n00000000.", count - 1))
            equal(found(desk, dead), (b"0" * 10, count - 1))


@suite.each("behind.requeue-closed", "the same where the channel that holds them closes", "the same", types=[CLASSIC])
def _(kind):
    with Bench() as desk:
        queue, dead, _got = over(desk, kind, 2, x_max_length=2)
        desk.channel.close()
        desk.channel = desk.connection.channel()
        equal(found(desk, queue), (b"n00000000.", 1))
        equal(found(desk, dead), (b"0" * 10, 1))


@suite.each("behind.requeue-counted", "the same, counted at once: queue.declare, and what queue.purge tells", "N", types=[CLASSIC])
def _(kind):
    with Bench() as desk:
        for count in LIMITS_BEHIND:
            queue, _dead, got = over(desk, kind, count, x_max_length=count)
            desk.channel.basic_nack(got[-1], True, True)
            equal(desk.count(queue), count)
            queue, _dead, got = over(desk, kind, count, x_max_length=count)
            desk.channel.basic_nack(got[-1], True, True)
            equal(desk.channel.queue_purge(queue).method.message_count, count)


@suite.each("behind.requeue-refusing", "the same with x-overflow reject-publish", "nothing goes: 2 N are there, those that came back first",
            types=[CLASSIC])
def _(kind):
    with Bench() as desk:
        for count in LIMITS_BEHIND:
            queue, dead, got = over(desk, kind, count, x_max_length=count, x_overflow="reject-publish")
            desk.channel.basic_nack(got[-1], True, True)
            equal(found(desk, queue), (b"0" * 10, 2 * count - 1))
            equal(desk.drained(queue)[count - 1:], [b"n%08d." % number for number in range(count)])
            equal(found(desk, dead), None)


@suite.each("behind.dead", "a message that basic.reject lets go, and one too many; basic.get from the queue of the dead behind that from "
            "the queue", "there", types=[CLASSIC])
def _(kind):
    with Bench() as desk:
        for _ in range(20):
            dead = desk.make(kind)
            queue = desk.make(kind, x_dead_letter_exchange="", x_dead_letter_routing_key=dead, x_max_length=2)
            desk.send(queue, b"0", b"1")
            desk.channel.basic_reject(desk.get(queue)[0].delivery_tag, False)
            equal(found(desk, queue), (b"1", 0))
            equal(found(desk, dead), (b"0", 0))
            properties = pika.BasicProperties(delivery_mode=1)
            for body in numbered(3):
                desk.channel.basic_publish("", queue, body, properties)
            equal(found(desk, queue), (b"1", 1))
            equal(found(desk, dead), (b"0", 0))


if __name__ == "__main__":
    suite.main()
