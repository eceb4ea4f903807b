"""How often a quorum queue delivers a message that fails: x-delivery-limit, what counts, and the counts shown."""

import socket

from proton import Delivery

from lab.cases import equal, eventually
from suites import proton_bench
from suites.pika_bench import Consumer, connect
from suites.queue_bench import CLASSIC, QUORUM, Bench, QueueSuite, refusal

suite = QueueSuite("delivery-limit")


class Trial(Bench):
    """A desk with a dead-letter queue, and a queue whose failed messages go there."""

    def __init__(self):
        super().__init__()
        self.dead = self.make(CLASSIC)

    def limited(self, limit=None, **arguments):
        if limit is not None:
            arguments["x_delivery_limit"] = limit
        return self.make(QUORUM, x_dead_letter_exchange="", x_dead_letter_routing_key=self.dead, **arguments)

    def counts(self, queue):
        """Takes the message: the tag, and what its headers count."""
        method, properties, _body = self.get(queue)
        headers = properties.headers or {}
        return method.delivery_tag, (headers.get("x-delivery-count"), headers.get("x-acquired-count"))


def reject(desk, queue):
    desk.channel.basic_reject(desk.get(queue)[0].delivery_tag)


def nack(desk, queue):
    desk.channel.basic_nack(desk.get(queue)[0].delivery_tag)


def close_channel(desk, queue):
    channel = desk.connection.channel()
    eventually(lambda: channel.basic_get(queue)[0], "a message")
    channel.close()


def close_consumer(desk, queue):
    channel = desk.connection.channel()
    Consumer(channel, queue).wait(1)
    channel.close()


def close_connection(_desk, queue):
    other = connect()
    channel = other.channel()
    eventually(lambda: channel.basic_get(queue)[0], "a message")
    other.close()


def cut_connection(_desk, queue):
    other = connect()
    channel = other.channel()
    eventually(lambda: channel.basic_get(queue)[0], "a message")
    other._impl._transport._sock.shutdown(socket.SHUT_RDWR)


def recover(desk, queue):
    channel = desk.connection.channel()
    eventually(lambda: channel.basic_get(queue)[0], "a message")
    channel.basic_recover(requeue=True)
    channel.close()


def cancel_then_nack(desk, queue):
    channel = desk.connection.channel()
    consumer = Consumer(channel, queue)
    consumer.wait(1)
    channel.basic_cancel(consumer.tag)
    channel.basic_nack(1)
    channel.close()


WAYS = [
    ("reject", reject, "basic.reject with requeue", True),
    ("nack", nack, "basic.nack with requeue", False),
    ("channel", close_channel, "the channel of a basic.get closed", True),
    ("consumer", close_consumer, "the channel of a consumer closed", True),
    ("connection", close_connection, "the connection closed", True),
    ("cut", cut_connection, "the connection cut", True),
    ("recover", recover, "basic.recover", False),
    ("cancel", cancel_then_nack, "the consumer cancelled, then basic.nack", False),
]


def add_way(name, act, words, fails):
    @suite.case(f"way.{name}", f"x-delivery-limit 2, a message held, then {words}: three times",
                "counts as failed: dead-lettered the third time" if fails else "does not count: still there, "
                "x-acquired-count 3, no x-delivery-count")
    def _():
        with Trial() as desk:
            queue = desk.limited(2)
            desk.send(queue, b"1")
            for number in range(3):
                act(desk, queue)
                if fails and number < 2:
                    desk.becomes(queue, 1)
            if fails:
                _method, properties, body = desk.get(desk.dead, auto_ack=True)
                equal((body, properties.headers["x-first-death-reason"]), (b"1", "delivery_limit"))
            else:
                equal(desk.counts(queue)[1], (None, 3))
                equal(desk.count(desk.dead), 0)


for one_way in WAYS:
    add_way(*one_way)


@suite.case("default", "no x-delivery-limit", "20: the 21st failure ends the message")
def _():
    with Trial() as desk:
        queue = desk.limited()
        desk.send(queue, b"1")
        for number in range(20):
            reject(desk, queue)
        tag, counts = desk.counts(queue)
        equal(counts, (20, 20))
        desk.channel.basic_reject(tag)
        equal(desk.get(desk.dead)[2], b"1")


@suite.case("zero", "x-delivery-limit 0", "the first failure ends the message")
def _():
    with Trial() as desk:
        queue = desk.limited(0)
        desk.send(queue, b"1")
        reject(desk, queue)
        equal(desk.get(desk.dead)[2], b"1")


@suite.case("off", "x-delivery-limit -1, 25 failures", "no limit; still there with x-delivery-count 25")
def _():
    with Trial() as desk:
        queue = desk.limited(-1)
        desk.send(queue, b"1")
        for _number in range(25):
            reject(desk, queue)
        equal(desk.counts(queue)[1], (25, 25))


@suite.case("dropped", "x-delivery-limit 1 without a dead-letter exchange", "dropped at the second failure")
def _():
    with Trial() as desk:
        queue = desk.make(QUORUM, x_delivery_limit=1)
        desk.send(queue, b"1", b"2")
        for _number in range(2):
            reject(desk, queue)
        equal(desk.bodies(queue, 1), [b"2"])


@suite.case("counts", "x-delivery-count and x-acquired-count: fresh, after a reject, after a nack too",
            "neither; 1 and 1; 1 and 2")
def _():
    with Trial() as desk:
        queue = desk.limited()
        desk.send(queue, b"1")
        seen = []
        for give_back in (desk.channel.basic_reject, desk.channel.basic_nack, desk.channel.basic_nack):
            tag, counts = desk.counts(queue)
            seen.append(counts)
            give_back(tag)
        equal(seen, [(None, None), (1, 1), (1, 2)])


@suite.case("counts.each", "five messages held, one rejected, one acknowledged, the channel closed",
            "each has its own count: 1, and 2 for the one that had failed before")
def _():
    with Trial() as desk:
        queue = desk.limited()
        desk.send(queue, b"1")
        reject(desk, queue)
        desk.becomes(queue, 1)
        desk.send(queue, b"2", b"3", b"4")
        channel = desk.connection.channel()
        consumer = Consumer(channel, queue)
        consumer.wait(4)
        channel.basic_ack(consumer.tags[2])
        channel.close()
        desk.becomes(queue, 3)
        seen = {body: properties.headers["x-delivery-count"]
                for _method, properties, body in desk.collected(queue, 3)}
        equal(seen, {b"1": 2, b"2": 1, b"4": 1})


@suite.case("counts.client", "x-delivery-count sent by a client",
            "delivered as sent while nothing failed; counts for nothing")
def _():
    with Trial() as desk:
        queue = desk.limited(1)
        desk.send(queue, b"1", headers={"x-delivery-count": 7})
        tag, counts = desk.counts(queue)
        desk.channel.basic_reject(tag)
        equal((counts, desk.counts(queue)[1]), ((7, None), (1, 1)))


@suite.case("counts.classic", "a classic queue: two rejects", "redelivered, no counts in headers, no limit")
def _():
    with Trial() as desk:
        queue = desk.make(CLASSIC)
        desk.send(queue, b"1")
        for _number in range(25):
            reject(desk, queue)
        equal(desk.counts(queue)[1], (None, None))


@suite.case("place", "a message fails among others", "comes back to the front until its limit, then the others")
def _():
    with Trial() as desk:
        queue = desk.limited(2)
        desk.send(queue, b"1", b"2")
        seen = []
        for _number in range(4):
            method, _properties, body = desk.get(queue)
            seen.append(body)
            desk.channel.basic_reject(method.delivery_tag)
            desk.later()
        equal(seen, [b"1", b"1", b"1", b"2"])


@suite.case("many", "100 messages held by a consumer, x-delivery-limit 0, its connection cut",
            "all dead-lettered, in order")
def _():
    with Trial() as desk:
        queue = desk.limited(0)
        desk.send(queue, *[b"%d" % number for number in range(100)])
        other = connect()
        Consumer(other.channel(), queue).wait(100)
        other._impl._transport._sock.shutdown(socket.SHUT_RDWR)
        desk.becomes(desk.dead, 100)
        equal(desk.bodies(desk.dead, 100), [b"%d" % number for number in range(100)])


@suite.case("classic", "x-delivery-limit for a classic queue",
            "406 `invalid arg 'x-delivery-limit' for queue ... of queue type rabbit_classic_queue`")
def _():
    with Bench() as desk:
        queue = desk.make(CLASSIC)
        desk.channel.queue_delete(queue)
        equal(refusal(lambda: desk.channel.queue_declare(queue, durable=True, arguments={"x-delivery-limit": 3})),
              (406, f"PRECONDITION_FAILED - invalid arg 'x-delivery-limit' for queue '{queue}' in vhost "
                    f"'{suite.uri.vhost}' of queue type rabbit_classic_queue"))


# AMQP 1.0

MODIFIED = {"modified-failed": (True, False), "modified": (False, False)}


def settle10(queue, name, times):
    """Receives and settles so often; answers the delivery counts seen."""
    proton_bench.suite.uri = suite.uri
    with proton_bench.Bench() as bench:
        receiver = bench.receiver(queue, credit=1)
        seen = []
        for number in range(times):
            seen.append(receiver.receive().delivery_count)
            if name == "released":
                receiver.settle(Delivery.RELEASED)
            else:
                delivery = receiver.unsettled.popleft()
                delivery.local.failed, delivery.local.undeliverable = MODIFIED[name]
                delivery.update(Delivery.MODIFIED)
                delivery.settle()
            if number + 1 < times:
                receiver.blocking.flow(1)
        receiver.close()
        return seen


@suite.case("10.modified-failed", "AMQP 1.0: modified with delivery-failed, x-delivery-limit 2",
            "delivery-count 0, 1, 2 in the header; then dead-lettered")
def _():
    with Trial() as desk:
        queue = desk.limited(2)
        desk.send(queue, b"1")
        equal(settle10(queue, "modified-failed", 3), [0, 1, 2])
        equal(desk.get(desk.dead)[2], b"1")


@suite.case("10.released", "AMQP 1.0: released, and modified without delivery-failed, four times each, "
            "x-delivery-limit 2",
            "delivery-count stays 0; still there, x-acquired-count 8")
def _():
    with Trial() as desk:
        queue = desk.limited(2)
        desk.send(queue, b"1")
        equal(settle10(queue, "released", 4) + settle10(queue, "modified", 4), [0] * 8)
        equal(desk.counts(queue)[1], (None, 8))


@suite.case("10.rejected", "AMQP 1.0: rejected, x-delivery-limit 2", "dead-lettered at once, reason `rejected`")
def _():
    with Trial() as desk:
        queue = desk.limited(2)
        desk.send(queue, b"1")
        proton_bench.suite.uri = suite.uri
        with proton_bench.Bench() as bench:
            receiver = bench.receiver(queue, credit=1)
            receiver.receive()
            receiver.settle(Delivery.REJECTED)
            receiver.close()
        _method, properties, body = desk.get(desk.dead)
        equal((body, properties.headers["x-first-death-reason"]), (b"1", "rejected"))


if __name__ == "__main__":
    suite.main()
