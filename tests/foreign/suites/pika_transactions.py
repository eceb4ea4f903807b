"""tx.select, tx.commit and tx.rollback through pika, and basic.recover beside them."""

import pika

from lab.cases import equal
from suites.pika_bench import Consumer, Desk, fresh, suite


def held(desk, queue, count):
    """Delivery tags of so many messages that are got and not settled."""
    desk.fill(queue, [b"%d" % number for number in range(count)])
    return [desk.get(queue)[0].delivery_tag for _ in range(count)]


@suite.case("tx.acks", "acks, nacks and rejects in a transaction", "take effect at tx.commit")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.channel.tx_select()
        ack, nack, reject = held(desk, queue, 3)
        desk.channel.basic_ack(ack)
        desk.channel.basic_nack(nack, requeue=True)
        desk.channel.basic_reject(reject, requeue=False)
        equal(desk.count(queue), 0)
        desk.channel.tx_commit()
        method, _properties, body = desk.get(queue)
        equal((body, method.redelivered), (b"1", True))
        equal(desk.drained(queue), [])


@suite.case("tx.rollback-acks", "tx.rollback after acks", "the deliveries can be settled again")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.channel.tx_select()
        first, second, third = held(desk, queue, 3)
        desk.channel.basic_ack(second, multiple=True)
        desk.channel.tx_rollback()
        desk.channel.basic_ack(first)
        desk.channel.basic_nack(third, multiple=True, requeue=True)
        desk.channel.tx_commit()
        equal([desk.get(queue)[2] for _ in range(2)], [b"1", b"2"])


@suite.case("tx.ack-publish", "a consumed message acked and its answer published in one transaction, prefetch 1",
            "the next delivery comes with the commit")
def _():
    with Desk() as desk:
        source, target = desk.queue(), desk.queue()
        desk.fill(source, [b"0", b"1"])
        desk.channel.basic_qos(prefetch_count=1)
        desk.channel.tx_select()
        consumer = Consumer(desk.channel, source)
        consumer.wait(1)
        desk.channel.basic_publish("", target, b"answer", pika.BasicProperties(delivery_mode=2))
        desk.channel.basic_ack(1)
        desk.later()
        equal((len(consumer.deliveries), desk.connection.channel().basic_get(target)[0]), (1, None))
        desk.channel.tx_commit()
        consumer.wait(2)
        with Desk() as other:
            equal(other.get(target)[2], b"answer")


@suite.case("tx.durable", "a transaction of 2000 persistent messages to two queues", "all of them, in order")
def _():
    with Desk() as desk:
        queues = [desk.queue(), desk.queue(arguments={"x-queue-type": "quorum"})]
        exchange = desk.exchange("fanout")
        for queue in queues:
            desk.channel.queue_bind(queue, exchange)
        desk.channel.tx_select()
        bodies = [b"%d" % number for number in range(2000)]
        for body in bodies:
            desk.channel.basic_publish(exchange, "", body, pika.BasicProperties(delivery_mode=2))
        desk.channel.tx_commit()
        for queue in queues:
            consumer = Consumer(desk.connection.channel(), queue, auto_ack=True)
            consumer.wait(2000)
            equal(consumer.bodies, bodies)


@suite.case("tx.mandatory", "an unroutable mandatory message in a transaction",
            "basic.return 312 at tx.commit; none after tx.rollback")
def _():
    with Desk() as desk:
        returned = []
        desk.channel.add_on_return_callback(lambda _channel, method, *_: returned.append(method.reply_code))
        desk.channel.tx_select()
        desk.channel.basic_publish("", fresh("absent"), b"x", mandatory=True)
        desk.later()
        equal(returned, [])
        desk.channel.tx_commit()
        desk.later()
        equal(returned, [312])
        desk.channel.basic_publish("", fresh("absent"), b"x", mandatory=True)
        desk.channel.tx_rollback()
        desk.later()
        equal(returned, [312])


@suite.case("tx.again", "tx.select twice, commits and rollbacks of nothing", "answered")
def _():
    with Desk() as desk:
        for _round in range(2):
            desk.channel.tx_select()
            desk.channel.tx_commit()
            desk.channel.tx_rollback()


def left(leave):
    def act():
        with Desk() as desk, Desk() as other:
            queue = desk.queue()
            desk.channel.tx_select()
            held(desk, queue, 1)
            desk.channel.basic_publish("", queue, b"unborn")
            desk.channel.basic_ack(1)
            leave(desk)
            equal(other.get(queue)[2], b"0")
            equal(other.drained(queue), [])

    return act


suite.add("tx.channel-close", "closing the channel in a transaction", "rolled back: acked messages come back",
          left(lambda desk: desk.channel.close()))
suite.add("tx.connection-close", "closing the connection in a transaction", "rolled back: acked messages come back",
          left(lambda desk: desk.connection.close()))


@suite.case("tx.cancelled-consumer", "acks of a consumer cancelled in the transaction", "take effect at tx.commit")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, [b"0"])
        desk.channel.tx_select()
        consumer = Consumer(desk.channel, queue)
        consumer.wait(1)
        desk.channel.basic_ack(1)
        desk.channel.basic_cancel(consumer.tag)
        desk.later()
        desk.channel.tx_commit()
        desk.channel.close()
        with Desk() as other:
            other.later()
            equal(other.drained(queue), [])


@suite.case("tx.recover", "basic.recover in a transaction", "what is acked in it stays away until a rollback")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.channel.tx_select()
        tags = held(desk, queue, 3)
        desk.channel.basic_ack(tags[1])
        desk.channel.basic_recover(requeue=True)
        equal([desk.get(queue)[2] for _ in range(2)], [b"0", b"2"])
        desk.channel.basic_recover(requeue=True)
        desk.channel.tx_rollback()
        desk.channel.basic_recover(requeue=True)
        equal([desk.get(queue)[2] for _ in range(3)], [b"0", b"1", b"2"])


@suite.case("recover.order", "basic.recover after acks of some", "the rest in order, redelivered=true, nothing new first")
def _():
    with Desk() as desk:
        queue = desk.queue()
        tags = held(desk, queue, 4)
        desk.fill(queue, [b"new"])
        desk.channel.basic_ack(tags[1])
        desk.channel.basic_recover(requeue=True)
        got = [desk.get(queue) for _ in range(4)]
        equal([body for _, _, body in got], [b"0", b"2", b"3", b"new"])
        equal([method.redelivered for method, _, _ in got], [True, True, True, False])
