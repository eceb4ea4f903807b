"""Message groups: messages with one value of the header that `x-group-key` names are with one consumer at a time, in order.

RabbitMQ has none, and passes over the argument: there the cases are skipped.
"""

import random
import time

import pika
from proton import Delivery, Message

from lab.cases import Skip, equal, eventually
from suites import proton_bench
from suites.pika_bench import Consumer
from suites.queue_bench import CLASSIC, QUORUM, Bench, QueueSuite, killable, refusal

suite = QueueSuite("groups")
KEY = "x-key"
_are_there = []


class Desk(Bench):
    def grouped(self, kind, **arguments):
        return self.make(kind, x_group_key=KEY, **arguments)

    def keyed(self, queue, *bodies, **properties):
        """One message for each body, its key the letters it begins with; of a body that has none, no key."""
        for body in bodies:
            letters = body.rstrip("0123456789")
            headers = {KEY: letters} if letters else {}
            self.send(queue, body.encode(), headers=headers, **properties)

    def taker(self, queue, prefetch=1, **options):
        channel = self.connection.channel()
        channel.basic_qos(prefetch_count=prefetch)
        return Consumer(channel, queue, **options)


def held(consumer):
    return [body.decode() for body in consumer.bodies]


def needs_groups():
    if not _are_there:
        with Desk() as desk:
            queue = desk.grouped(CLASSIC)
            desk.keyed(queue, "a1", "a2")
            desk.taker(queue).wait(1)
            desk.taker(queue)
            desk.later()
            _are_there.append(desk.count(queue) == 1)
    if not _are_there[0]:
        raise Skip("it has no message groups")


each = suite.each_at(Desk, needs_groups)


@each("one-consumer", "messages of key a, of key b and of none, two consumers", "each key is with one consumer; those without "
      "go to anybody")
def _(desk, kind):
    queue = desk.grouped(kind)
    desk.keyed(queue, "a1", "a2", "1", "b1", "a3")
    one = desk.taker(queue)
    one.wait(1)
    two = desk.taker(queue, prefetch=3)
    two.wait(2)
    desk.later()
    equal((held(one), held(two), desk.count(queue)), (["a1"], ["1", "b1"], 2))
    one.channel.basic_ack(one.tags[0])
    # The group whose turn it is may have the next.
    eventually(lambda: desk.connection.process_data_events(0.02) or len(held(one) + held(two)) == 4, "a2 delivered")
    equal(sorted(held(one) + held(two)), ["1", "a1", "a2", "b1"])


@each("prefetch", "a consumer with room for more while it holds one of a key", "it gets the next of the key too, in order")
def _(desk, kind):
    queue = desk.grouped(kind)
    desk.keyed(queue, "a1", "a2", "a3")
    one = desk.taker(queue, prefetch=2)
    one.wait(2)
    two = desk.taker(queue, prefetch=9)
    desk.later()
    equal((held(one), held(two)), (["a1", "a2"], []))
    one.channel.basic_ack(one.tags[0])
    one.wait(3)
    equal((held(one), held(two)), (["a1", "a2", "a3"], []))


@each("requeued", "a message that is requeued while others of its key wait", "it comes before them, redelivered")
def _(desk, kind):
    queue = desk.grouped(kind)
    desk.keyed(queue, "a1", "a2", "a3")
    one = desk.taker(queue)
    one.wait(1)
    one.channel.basic_cancel(one.tag)
    two = desk.taker(queue)
    desk.later()
    equal(held(two), [])
    one.channel.basic_nack(one.tags[0])
    two.wait(1)
    two.channel.basic_ack(two.tags[0])
    two.wait(2)
    redelivered = [method.redelivered for method, _properties, _body in two.deliveries]
    equal((held(two), redelivered), (["a1", "a2"], [True, False]))


@each("gone", "the consumer that holds some of a key goes", "another gets them, and what follows, in order")
def _(desk, kind):
    queue = desk.grouped(kind)
    desk.keyed(queue, "a1", "a2", "a3")
    one = desk.taker(queue, prefetch=2)
    one.wait(2)
    two = desk.taker(queue, prefetch=9)
    one.channel.close()
    two.wait(3)
    equal(held(two), ["a1", "a2", "a3"])


@each("cancelled", "a consumer that holds one of a key is cancelled", "others get none of the key until that is settled")
def _(desk, kind):
    queue = desk.grouped(kind)
    desk.keyed(queue, "a1", "a2")
    one = desk.taker(queue)
    one.wait(1)
    one.channel.basic_cancel(one.tag)
    two = desk.taker(queue)
    desk.later()
    equal(held(two), [])
    one.channel.basic_ack(one.tags[0])
    two.wait(1)
    equal(held(two), ["a2"])


@each("rejected", "a message of a key is rejected to the dead letters", "the next of the key is delivered")
def _(desk, kind):
    grave = desk.make(kind)
    queue = desk.grouped(kind, x_dead_letter_exchange="", x_dead_letter_routing_key=grave)
    desk.keyed(queue, "a1", "a2")
    one = desk.taker(queue)
    one.wait(1)
    one.channel.basic_reject(one.tags[0], requeue=False)
    one.wait(2)
    equal(held(one), ["a1", "a2"])
    desk.becomes(grave, 1)


@each("get", "basic.get while another holds a key, and what a get holds", "get passes over what is not for it; a get holds "
      "as a consumer does")
def _(desk, kind):
    queue = desk.grouped(kind)
    desk.keyed(queue, "a1", "a2", "b1", "b2")
    one = desk.taker(queue)
    one.wait(1)
    method, _properties, body = desk.get(queue)
    equal(body, b"b1")
    other = desk.connection.channel()
    equal(other.basic_get(queue)[0], None)
    desk.channel.basic_ack(method.delivery_tag)
    eventually(lambda: other.basic_get(queue, auto_ack=True)[2] == b"b2", "b2")
    equal(other.basic_get(queue)[0], None)


@each("browse", "a browser while a key is held", "is shown all that is ready, in order")
def _(desk, kind):
    queue = desk.grouped(kind)
    desk.keyed(queue, "a1", "a2", "1", "a3")
    one = desk.taker(queue)
    one.wait(1)
    two = desk.taker(queue)
    two.wait(1)
    equal(held(two), ["1"])
    browser = Consumer(desk.connection.channel(), queue, auto_ack=True, arguments={"x-browse": True})
    browser.wait(2)
    desk.later()
    equal(held(browser), ["a2", "a3"])


@each("expired", "messages with an expiration behind one of their key that is held", "expire there, anywhere in the queue")
def _(desk, kind):
    queue = desk.grouped(kind)
    desk.keyed(queue, "a1")
    desk.keyed(queue, "a2", expiration="100")
    desk.keyed(queue, "a3")
    one = desk.taker(queue)
    one.wait(1)
    desk.becomes(queue, 1)
    one.channel.basic_ack(one.tags[0])
    one.wait(2)
    equal(held(one), ["a1", "a3"])


@each("purged", "a queue is purged while a key is held", "all that is ready goes; what comes waits for the key")
def _(desk, kind):
    queue = desk.grouped(kind)
    desk.keyed(queue, "a1", "a2", "a3")
    one = desk.taker(queue)
    one.wait(1)
    equal(desk.channel.queue_purge(queue).method.message_count, 2)
    desk.keyed(queue, "a4")
    two = desk.taker(queue)
    desk.later()
    equal((held(two), desk.count(queue)), ([], 1))
    one.channel.basic_ack(one.tags[0])
    eventually(lambda: desk.connection.process_data_events(0.02) or held(one)[1:] + held(two) == ["a4"], "a4")


@each("length", "x-max-length 2 while a key is held", "the oldest that is ready goes, whatever its key")
def _(desk, kind):
    queue = desk.grouped(kind, x_max_length=2)
    desk.keyed(queue, "a1")
    one = desk.taker(queue)
    one.wait(1)
    desk.keyed(queue, "a2", "a3", "a4")
    desk.becomes(queue, 2)
    for number in (2, 3):
        one.channel.basic_ack(one.tags[-1])
        one.wait(number)
    equal(held(one), ["a1", "a3", "a4"])


@each("retried", "a message of a key comes back and waits (x-delayed-retry-type)", "the others of the key wait for it",
      types=(QUORUM,))
def _(desk, kind):
    queue = desk.grouped(kind, x_delayed_retry_type="all", x_delayed_retry_min=600, x_delayed_retry_max=600)
    desk.keyed(queue, "a1", "a2", "b1")
    one = desk.taker(queue)
    one.wait(1)
    one.channel.basic_nack(one.tags[0])
    one.wait(2)
    one.channel.basic_ack(one.tags[1])
    one.wait(3)
    one.channel.basic_ack(one.tags[2])
    one.wait(4)
    equal(held(one), ["a1", "b1", "a1", "a2"])


@each("single-active", "x-single-active-consumer beside x-group-key", "one consumer gets all, in order")
def _(desk, kind):
    queue = desk.grouped(kind, x_single_active_consumer=True)
    one, two = desk.taker(queue, prefetch=9), desk.taker(queue, prefetch=9)
    desk.keyed(queue, "a1", "b1", "1", "a2")
    one.wait(4)
    equal((held(one), held(two)), (["a1", "b1", "1", "a2"], []))


@each("priority", "messages of a key with different priorities", "a key is in order of arrival")
def _(desk, kind):
    queue = desk.grouped(kind)
    for priority in (1, 9, 5):
        desk.keyed(queue, f"a{priority}", priority=priority)
    one = desk.taker(queue, prefetch=9)
    one.wait(3)
    equal(held(one), ["a1", "a9", "a5"])


@each("values", "keys that are text, numbers, truth values, an array", "one value is one key whatever its width; an array is "
      "none")
def _(desk, kind):
    queue = desk.grouped(kind)
    for key in (7, 7 << 40, "7", True, ["a"], ["a"], None):
        desk.send(queue, repr(key).encode(), headers={KEY: key})
    desk.send(queue, b"again", headers={KEY: 7})
    one = desk.taker(queue)
    one.wait(1)
    two = desk.taker(queue, prefetch=0)
    two.wait(6)
    desk.later()
    equal((held(one), len(held(two)), "again" in held(two)), (["7"], 6, False))


@each("proton", "AMQP 1.0: the key as application property and as annotation, receivers on both protocols", "the same value "
      "is the same key")
def _(desk, kind):
    queue = desk.grouped(kind)
    proton_bench.suite.uri = suite.uri
    connection = proton_bench.connect()
    sender = connection.create_sender(proton_bench.queue_address(queue))
    for body, options in ((b"a1", {"properties": {KEY: "a"}}), (b"b1", {"annotations": {KEY: "b"}})):
        equal(proton_bench.outcome(sender.send(Message(body=body, durable=True, inferred=True, **options))), "accepted")
    desk.keyed(queue, "a2", "b2", "1")
    one = desk.taker(queue)
    one.wait(1)
    receiver = proton_bench.Receiver(connection, queue, 5)
    bodies = [proton_bench.body_of(receiver.receive()) for _ in range(3)]
    equal(bodies, [b"b1", b"b2", b"1"])
    one.channel.basic_nack(one.tags[0])
    one.channel.close()
    equal([proton_bench.body_of(receiver.receive()) for _ in range(2)], [b"a1", b"a2"])
    two = desk.taker(queue, prefetch=9)
    for _ in range(5):
        receiver.settle(Delivery.RELEASED)
    receiver.close()
    connection.close()
    two.wait(5)
    equal(sorted(held(two)), ["1", "a1", "a2", "b1", "b2"])
    order = [body for body in held(two) if body[0] == "a"]
    equal(order, ["a1", "a2"])


@each("proton-drain", "AMQP 1.0: a receiver drains while all that is ready is of a key that another holds", "its credit is used "
      "up at once")
def _(desk, kind):
    queue = desk.grouped(kind)
    desk.keyed(queue, "a1", "a2")
    one = desk.taker(queue)
    one.wait(1)
    proton_bench.suite.uri = suite.uri
    connection = proton_bench.connect()
    receiver = proton_bench.Receiver(connection, queue, 0)
    receiver.link.drain(5)
    connection.wait(lambda: not receiver.link.draining() or receiver.link.credit == 0, timeout=10, msg="drained")
    equal(len(receiver.incoming), 0)
    connection.close()


@each("arguments", "x-group-key 5, an empty string; with x-max-priority in classic queues", "406 with what is wrong")
def _(desk, kind):
    wrong = [({"x-group-key": 5}, "{unacceptable_type,signedint}"), ({"x-group-key": ""}, "value_empty")]
    if kind == CLASSIC:
        wrong.append(({"x-group-key": KEY, "x-max-priority": 5}, "group_key_and_max_priority"))
    for arguments, why in wrong:
        channel = desk.connection.channel()
        code, text = refusal(lambda: channel.queue_declare("foreign.absent", durable=True, arguments={  # noqa: B023
            "x-queue-type": kind, **arguments}))  # noqa: B023
        about = f"PRECONDITION_FAILED - invalid arg 'x-group-key' for queue 'foreign.absent' in vhost '{suite.uri.vhost}'"
        equal((code, text), (406, f"{about}: {why}"))


@each("same", "declared again with another x-group-key, or without", "406, inequivalent arg")
def _(desk, kind):
    queue = desk.grouped(kind)
    for arguments, how in (({"x-group-key": "id"}, f"received 'id' but current is '{KEY}'"),
                           ({}, f"received none but current is the value '{KEY}' of type 'longstr'")):
        channel = desk.connection.channel()
        code, text = refusal(lambda: channel.queue_declare(queue, durable=True, arguments={  # noqa: B023
            "x-queue-type": kind, **arguments}))  # noqa: B023
        about = f"PRECONDITION_FAILED - inequivalent arg 'x-group-key' for queue '{queue}' in vhost '{suite.uri.vhost}'"
        equal((code, text), (406, f"{about}: {how}"))


@each("many", "four consumers of 300 messages with seven keys, some requeued", "no key is ever with two; each key is acknowledged "
      "in order; none is lost", seconds_max=60)
def _(desk, kind):
    queue = desk.grouped(kind, **({"x_delivery_limit": -1} if kind == QUORUM else {}))
    dice = random.Random(suite.options.seed if hasattr(suite.options, "seed") else 1)
    channel = desk.connection.channel()
    bodies = [f"{'abcdefg'[dice.randrange(7)]}{number}" for number in range(300)]
    for body in bodies:
        channel.basic_publish("", queue, body.encode(), pika.BasicProperties(delivery_mode=2, headers={KEY: body[0]}))
    # A consumer that holds several and gives one back has the others still: only those with a prefetch of 1 give any back.
    prefetches = (1, 1, 3, 5)
    consumers = [desk.taker(queue, prefetch=prefetch) for prefetch in prefetches]
    seen, holds, done = [0] * 4, [[] for _ in consumers], {key: [] for key in "abcdefg"}
    deadline = time.monotonic() + 50
    while sum(len(all_of) for all_of in done.values()) < len(bodies):
        equal(time.monotonic() < deadline, True, f"done in time, {holds}")
        desk.connection.process_data_events(0.01)
        for at, consumer in enumerate(consumers):
            holds[at] += [(method.delivery_tag, body.decode()) for method, _p, body in consumer.deliveries[seen[at]:]]
            seen[at] = len(consumer.deliveries)
        for one, theirs in enumerate(holds):
            for other in holds[:one]:
                equal({body[0] for _tag, body in theirs} & {body[0] for _tag, body in other}, set(), "with two consumers")
        for at, consumer in enumerate(consumers):
            while holds[at] and dice.randrange(3):
                tag, body = holds[at].pop(0)
                if prefetches[at] == 1 and dice.randrange(4) == 0:
                    consumer.channel.basic_nack(tag)
                else:
                    consumer.channel.basic_ack(tag)
                    done[body[0]].append(body)
    equal([body for key in "abcdefg" for body in done[key]],
          [body for key in "abcdefg" for body in bodies if body[0] == key])


@suite.each("killed", "5 times: the broker is killed while consumers hold messages of ten keys", "all are there again, each key in "
            "order and with one consumer", seconds_max=120)
def _(kind):
    with killable(suite) as kill:
        desk = Desk()
        queue = desk.grouped(kind)
        left = []
        for turn in range(5):
            bodies = [f"{'abcdefghij'[number % 10]}{turn * 100 + number}" for number in range(100)]
            desk.keyed(queue, *bodies)
            left += bodies
            takers = [desk.taker(queue, prefetch=prefetch) for prefetch in (1, 3, 7)]
            eventually(lambda: desk.connection.process_data_events(0.05) or len(held(takers[2])) == 7, "held")  # noqa: B023
            desk.later()
            keys = [{body[0] for body in held(taker)} for taker in takers]
            equal(sum(map(len, keys)), len(set.union(*keys)), "a key is with one consumer")
            kill()
            desk = Desk()
            taker = desk.taker(queue, prefetch=40)
            taker.wait(40)
            gone = held(taker)
            equal(gone, left[:40], "in order")
            taker.channel.basic_ack(taker.tags[-1], multiple=True)
            taker.channel.basic_cancel(taker.tag)
            extra = held(taker)[40:]
            taker.channel.close()
            equal(extra == [] or extra == left[40:40 + len(extra)], True)
            left = left[40:]
            desk.becomes(queue, len(left))
        one = desk.taker(queue, prefetch=0)
        one.wait(len(left))
        equal(held(one), left)


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default="", help="a leveret to start"))
