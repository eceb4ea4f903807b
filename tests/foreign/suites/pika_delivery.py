"""Messages through pika: publish, confirm, get, consume, settle, requeue, prefetch."""

import datetime
import decimal
import socket

import pika
from pika import exceptions, spec

from lab.cases import equal, eventually
from suites.pika_bench import CLOSED, Consumer, Desk, fresh, suite, watch_methods

MEBIBYTE = 1 << 20
FRAME_MAX = 131072
HEADERS = {
    "text": "grün",
    "bytes": b"\x00\xff",
    "true": True,
    "int": -5,
    "large": 1 << 40,
    "decimal": decimal.Decimal("3.14"),
    "time": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
    "void": None,
    "list": [1, "two", {"three": 3}],
    "table": {"inner": {"deep": "x"}},
}


def numbered(count):
    return [b"%d" % number for number in range(1, count + 1)]


@suite.case("confirm.persistent", "a persistent message to a durable queue is confirmed", "basic.ack")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, [b"x"])
        method, properties, body = desk.get(queue)
        equal((body, properties.delivery_mode, method.exchange, method.routing_key), (b"x", 2, "", queue))
        equal((method.delivery_tag, method.redelivered, method.message_count), (1, False, 0))


@suite.case("confirm.transient", "a transient message to a durable queue is confirmed and delivered", "basic.ack")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.channel.confirm_delivery()
        desk.channel.basic_publish("", queue, b"x", pika.BasicProperties(delivery_mode=1))
        equal(desk.get(queue)[1].delivery_mode, 1)


@suite.case("confirm.unroutable", "an unroutable message that is not mandatory is confirmed", "basic.ack")
def _():
    with Desk() as desk:
        desk.channel.confirm_delivery()
        desk.channel.basic_publish("", fresh("absent"), b"x")
        desk.channel.basic_publish("amq.topic", fresh("absent"), b"x")


@suite.case("return.mandatory", "a mandatory unroutable message comes back before its confirm",
            "basic.return 312 `NO_ROUTE` with exchange, key, properties and body, then basic.ack")
def _():
    with Desk() as desk:
        absent = fresh("absent")
        order = []
        watch_methods(desk.channel, lambda method: order.append(method.NAME))
        desk.channel.confirm_delivery()
        try:
            desk.channel.basic_publish("amq.direct", absent, b"back", pika.BasicProperties(message_id="m"),
                                       mandatory=True)
        except exceptions.UnroutableError as error:
            (returned,) = error.messages
        equal(order, ["Confirm.SelectOk", "Basic.Return", "Basic.Ack"])
        equal((returned.method.reply_code, returned.method.reply_text), (312, "NO_ROUTE"))
        equal((returned.method.exchange, returned.method.routing_key), ("amq.direct", absent))
        equal((returned.properties.message_id, returned.body), ("m", b"back"))


@suite.case("return.mandatory-unconfirmed", "mandatory works without confirms, and for bodies of many frames",
            "basic.return 312 `NO_ROUTE`")
def _():
    with Desk() as desk:
        returned = []
        desk.channel.add_on_return_callback(lambda _channel, method, _properties, body: returned.append((method, body)))
        body = bytes(range(256)) * 2048
        desk.channel.basic_publish("", fresh("absent"), body, mandatory=True)
        eventually(lambda: desk.connection.process_data_events(0.05) or returned, "returned")
        equal((returned[0][0].reply_code, returned[0][1] == body), (312, True))


@suite.case("return.routed", "a mandatory message that is routed is not returned", "basic.ack")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.channel.confirm_delivery()
        desk.channel.basic_publish("", queue, b"x", mandatory=True)
        equal(desk.get(queue)[2], b"x")


def round_trip(size):
    def act():
        body = (bytes(range(251)) * (size // 251 + 1))[:size]
        with Desk() as desk:
            queue = desk.queue()
            desk.fill(queue, [body, body])
            equal(desk.get(queue, auto_ack=True)[2] == body, True, "body by get")
            consumer = Consumer(desk.channel, queue, auto_ack=True)
            equal(consumer.wait(1, 30)[0][2] == body, True, "body by consume")

    return act


for size, label in [
    (0, "no bytes"), (1, "one byte"), (FRAME_MAX - 8, "exactly one frame"), (FRAME_MAX - 7, "a frame and a byte"),
    (MEBIBYTE, "1 MiB"), (10 * MEBIBYTE, "10 MiB"), (16 * MEBIBYTE, "16 MiB, the largest"),
]:
    suite.add(f"body.{size}", f"a body of {label}, both ways", "the same bytes", round_trip(size))


@suite.case("properties.all", "the fourteen properties and every header type arrive as sent", "equal")
def _():
    sent = pika.BasicProperties(
        content_type="text/plain", content_encoding="utf-8", headers=HEADERS, delivery_mode=2, priority=7,
        correlation_id="c", reply_to="r", expiration="60000", message_id="m", timestamp=1_700_000_000,
        type="t", user_id=suite.uri.user, app_id="a", cluster_id="k",
    )
    with Desk() as desk:
        queue = desk.queue()
        desk.channel.basic_publish("", queue, b"x", sent)
        seen = desk.get(queue)[1]
        equal(vars(seen), vars(sent))


@suite.case("properties.none", "a message without properties arrives without", "equal")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.channel.basic_publish("", queue, b"x")
        equal(vars(desk.get(queue)[1]), vars(pika.BasicProperties()))


@suite.case("get.empty", "basic.get on an empty queue", "basic.get-empty")
def _():
    with Desk() as desk:
        equal(desk.channel.basic_get(desk.queue()), (None, None, None))


@suite.case("get.message-count", "basic.get tells how many are left", "message-count falls 2, 1, 0")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, numbered(3))
        equal([desk.get(queue)[0].message_count for _ in range(3)], [2, 1, 0])


def behind(delivery_mode):
    """Messages that are published right before a get count as left behind the one that was there."""
    properties = pika.BasicProperties(delivery_mode=delivery_mode)
    with Desk() as desk:
        for others in (1, 2, 5, 50):
            queue = desk.queue()
            desk.fill(queue, [b"first"])
            for _ in range(others):
                desk.channel.basic_publish("", queue, b"later", properties)
            method, _properties, body = desk.channel.basic_get(queue)
            equal((body, method.message_count), (b"first", others))


suite.add("get.message-count-behind", "basic.get where a message is, right behind some that are published",
          "all that were published before are counted", lambda: behind(2))
suite.add("get.message-count-behind-transient", "the same with transient messages", "the same", lambda: behind(1))


@suite.case("get.no-ack", "basic.get with no-ack takes the message for good", "gone after the channel closed")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, numbered(2))
        desk.get(queue, auto_ack=True)
        desk.channel.close()
        desk.channel = desk.connection.channel()
        equal((desk.count(queue), desk.get(queue)[2]), (1, b"2"))


def after_close(close):
    """Unsettled messages go back to their places, redelivered; settled ones do not."""
    with Desk() as desk, Desk() as other:
        queue = desk.queue()
        desk.fill(queue, numbered(6))
        other.channel.basic_qos(prefetch_count=4)
        consumer = Consumer(other.channel, queue)
        consumer.wait(4)
        other.channel.basic_ack(2)
        consumer.wait(5)
        close(other)
        eventually(lambda: desk.count(queue) == 5, "messages are back")
        seen = [(body, method.redelivered) for method, _properties, body in (desk.get(queue) for _ in range(5))]
        equal(seen, [(b"1", True), (b"3", True), (b"4", True), (b"5", True), (b"6", False)])


def cut(desk):
    """The socket goes away without a word of AMQP."""
    desk.connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)


for name, words, close in [
    ("channel-close", "closing the channel", lambda desk: desk.channel.close()),
    ("connection-close", "closing the connection", lambda desk: desk.connection.close()),
    ("connection-cut", "cutting the socket", cut),
]:
    suite.add(f"requeue.{name}", f"{words} puts unsettled messages back",
              "original order, redelivered=true for those that had been delivered",
              lambda close=close: after_close(close))


@suite.case("requeue.nack-multiple", "basic.nack multiple with requeue", "original order, redelivered=true")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, numbered(5))
        for _ in range(4):
            method = desk.get(queue)[0]
        desk.channel.basic_nack(method.delivery_tag, multiple=True, requeue=True)
        seen = [(body, method.redelivered) for method, _properties, body in (desk.get(queue) for _ in range(5))]
        equal(seen, [(b"1", True), (b"2", True), (b"3", True), (b"4", True), (b"5", False)])


@suite.case("requeue.reject-middle", "basic.reject with requeue of one of several",
            "back in its place, before later messages, redelivered=true")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, numbered(5))
        tags = [desk.get(queue)[0].delivery_tag for _ in range(3)]
        desk.channel.basic_reject(tags[1], requeue=True)
        seen = [(body, method.redelivered) for method, _properties, body in (desk.get(queue) for _ in range(3))]
        equal(seen, [(b"2", True), (b"4", False), (b"5", False)])


@suite.case("requeue.consumer-first", "a requeued message goes to a waiting consumer before later ones",
            "delivered again, redelivered=true")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, numbered(3))
        desk.channel.basic_qos(prefetch_count=1)
        consumer = Consumer(desk.channel, queue)
        consumer.wait(1)
        desk.channel.basic_nack(1, requeue=True)
        consumer.wait(2)
        equal((consumer.bodies, consumer.deliveries[1][0].redelivered), ([b"1", b"1"], True))


@suite.case("settle.drop", "nack and reject without requeue, in a queue without dead-lettering", "dropped")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, numbered(5))
        tags = [desk.get(queue)[0].delivery_tag for _ in range(4)]
        desk.channel.basic_reject(tags[0], requeue=False)
        desk.channel.basic_nack(tags[2], multiple=True, requeue=False)
        desk.channel.close()
        desk.channel = desk.connection.channel()
        eventually(lambda: desk.count(queue) == 2, "two are left")
        equal(desk.drained(queue), [b"4", b"5"])


@suite.case("settle.multiple", "basic.ack multiple settles up to its tag; tag 0 means all so far", "settled")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, numbered(6))
        consumer = Consumer(desk.channel, queue)
        consumer.wait(6)
        desk.channel.basic_ack(3, multiple=True)
        desk.channel.basic_ack(0, multiple=True)
        desk.channel.basic_ack(0, multiple=True)
        desk.channel.close()
        desk.channel = desk.connection.channel()
        equal(desk.count(queue), 0)


@suite.case("settle.out-of-order", "acknowledging in any order", "the others stay unsettled, in order")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, numbered(6))
        Consumer(desk.channel, queue).wait(6)
        for tag in (5, 1, 3):
            desk.channel.basic_ack(tag)
        desk.channel.close()
        desk.channel = desk.connection.channel()
        eventually(lambda: desk.count(queue) == 3, "three are back")
        equal(desk.drained(queue), [b"2", b"4", b"6"])


@suite.case("consume.no-ack", "a consumer with no-ack", "taken for good")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, numbered(20))
        consumer = Consumer(desk.channel, queue, auto_ack=True)
        consumer.wait(20)
        equal(consumer.bodies, numbered(20))
        desk.channel.close()
        desk.channel = desk.connection.channel()
        equal(desk.count(queue), 0)


@suite.case("consume.tags", "delivery tags count per channel over all its consumers", "1, 2, 3, ...")
def _():
    with Desk() as desk:
        queues = [desk.queue(), desk.queue()]
        consumers = [Consumer(desk.channel, queue) for queue in queues]
        for number in range(4):
            desk.fill(queues[number % 2], [b"x"])
            consumers[number % 2].wait(number // 2 + 1)
        equal([consumer.tags for consumer in consumers], [[1, 3], [2, 4]])


@suite.case("consume.generated-tag", "an empty consumer tag", "the broker makes one, `amq.ctag-...`")
def _():
    with Desk() as desk:
        queue = desk.queue()
        answers = []
        desk.channel._impl.add_callback(answers.append, [spec.Basic.ConsumeOk])
        desk.channel._impl._send_method(spec.Basic.Consume(queue=queue, consumer_tag=""))
        eventually(lambda: desk.connection.process_data_events(0.05) or answers, "consume-ok")
        equal(answers[0].method.consumer_tag.startswith("amq.ctag-"), True, answers[0].method.consumer_tag)


@suite.case("consume.exclusive-freed", "cancelling an exclusive consumer frees the queue", "the next may consume")
def _():
    with Desk() as desk:
        queue = desk.queue()
        consumer = Consumer(desk.channel, queue, exclusive=True)
        desk.channel.basic_cancel(consumer.tag)
        Consumer(desk.channel, queue)
        equal(desk.channel.queue_declare(queue, passive=True).method.consumer_count, 1)


@suite.case("cancel.keeps-unsettled", "basic.cancel stops deliveries, what was delivered can still be settled",
            "no more deliveries; ack accepted")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, [b"1"])
        consumer = Consumer(desk.channel, queue)
        consumer.wait(1)
        # pika's own cancel would reject what it holds; the plain method does not
        desk.channel._impl._send_method(spec.Basic.Cancel(consumer_tag=consumer.tag, nowait=True))
        desk.fill(queue, [b"2"])
        desk.later()
        equal(consumer.bodies, [b"1"])
        desk.channel.basic_ack(1)
        desk.channel.close()
        desk.channel = desk.connection.channel()
        equal(desk.drained(queue), [b"2"])


@suite.case("cancel.unknown", "cancelling an unknown consumer tag", "basic.cancel-ok")
def _():
    with Desk() as desk:
        answers = []
        desk.channel._impl.add_callback(answers.append, [spec.Basic.CancelOk])
        desk.channel._impl._send_method(spec.Basic.Cancel(consumer_tag="absent"))
        eventually(lambda: desk.connection.process_data_events(0.05) or answers, "cancel-ok")
        equal(answers[0].method.consumer_tag, "absent")


@suite.case("cancel.notify", "deleting a queue cancels its consumers", "basic.cancel to the client")
def _():
    with Desk() as desk:
        queue = desk.queue()
        cancelled = []
        desk.channel.add_on_cancel_callback(cancelled.append)
        consumer = Consumer(desk.channel, queue)
        desk.connection.channel().queue_delete(queue)
        eventually(lambda: desk.connection.process_data_events(0.05) or cancelled, "cancel")
        equal(cancelled[0].method.consumer_tag, consumer.tag)


@suite.case("qos.window", "a prefetch of 3", "three at once; each ack brings one more; ack multiple brings as many")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, numbered(10))
        desk.channel.basic_qos(prefetch_count=3)
        consumer = Consumer(desk.channel, queue)
        for acknowledge, multiple, expected in [(None, False, 3), (1, False, 4), (4, True, 7), (7, True, 10)]:
            if acknowledge:
                desk.channel.basic_ack(acknowledge, multiple=multiple)
            consumer.wait(expected)
            desk.later()
            equal(len(consumer.deliveries), expected)
        equal(consumer.bodies, numbered(10))


@suite.case("qos.zero", "a prefetch of 0", "no bound")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, numbered(300))
        desk.channel.basic_qos(prefetch_count=1)
        desk.channel.basic_qos(prefetch_count=0)
        consumer = Consumer(desk.channel, queue)
        consumer.wait(300)
        equal(consumer.bodies, numbered(300))


def prefetch_for_each(**options):
    with Desk() as desk:
        queues = [desk.queue(), desk.queue()]
        for queue in queues:
            desk.fill(queue, numbered(5))
        desk.channel.basic_qos(prefetch_count=2, **options)
        consumers = [Consumer(desk.channel, queue) for queue in queues]
        for consumer in consumers:
            consumer.wait(2)
        desk.later()
        equal([consumer.bodies for consumer in consumers], [numbered(2), numbered(2)])


suite.add("qos.per-consumer", "the prefetch counts for each consumer of the channel", "two each", prefetch_for_each)
suite.add("qos.global", "basic.qos global=true", "basic.qos-ok; the prefetch still counts for each consumer",
          lambda: prefetch_for_each(global_qos=True))


@suite.case("qos.later-consumers", "a new prefetch holds for consumers started after it",
            "the old consumer keeps its prefetch")
def _():
    with Desk() as desk:
        queues = [desk.queue(), desk.queue()]
        for queue in queues:
            desk.fill(queue, numbered(6))
        desk.channel.basic_qos(prefetch_count=1)
        first = Consumer(desk.channel, queues[0])
        first.wait(1)
        desk.channel.basic_qos(prefetch_count=4)
        second = Consumer(desk.channel, queues[1])
        second.wait(4)
        desk.later()
        equal((len(first.deliveries), len(second.deliveries)), (1, 4))


@suite.case("qos.get", "basic.get is not bound by the prefetch", "messages come")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, numbered(3))
        desk.channel.basic_qos(prefetch_count=1)
        equal([desk.get(queue)[2] for _ in range(3)], numbered(3))


@suite.case("share.round-robin", "three consumers with room share a queue in turns", "each gets every third message")
def _():
    with Desk() as desk:
        queue = desk.queue()
        consumers = [Consumer(desk.connection.channel(), queue) for _ in range(3)]
        for count, body in enumerate(numbered(9), start=1):
            desk.fill(queue, [body])
            eventually(
                lambda: desk.connection.process_data_events(0.02)
                or sum(len(consumer.deliveries) for consumer in consumers) == count, "delivered")
        equal([consumer.bodies for consumer in consumers], [numbered(9)[start::3] for start in range(3)])


@suite.case("share.blocked-skipped", "a consumer without room is passed over", "the other one gets the rest")
def _():
    with Desk() as desk:
        queue = desk.queue()
        narrow_channel = desk.connection.channel()
        narrow_channel.basic_qos(prefetch_count=1)
        narrow = Consumer(narrow_channel, queue)
        wide = Consumer(desk.channel, queue)
        desk.fill(queue, numbered(10))
        wide.wait(9)
        desk.later()
        equal((len(narrow.deliveries), len(wide.deliveries)), (1, 9))
        equal(sorted(narrow.bodies + wide.bodies), sorted(numbered(10)))


@suite.case("share.priority", "consumers with x-priority 5, 0 and -1",
            "the highest gets all while it has room, then the next")
def _():
    with Desk() as desk:
        queue = desk.queue()
        consumers = []
        for priority, prefetch in ((0, 0), (5, 2), (-1, 0)):
            channel = desk.connection.channel()
            channel.basic_qos(prefetch_count=prefetch)
            consumers.append(Consumer(channel, queue, arguments={"x-priority": priority}))
        middle, high, low = consumers
        desk.fill(queue, numbered(5))
        high.wait(2)
        middle.wait(3)
        equal((high.bodies, middle.bodies), ([b"1", b"2"], [b"3", b"4", b"5"]))
        high.channel.basic_ack(high.tags[-1], multiple=True)
        desk.fill(queue, [b"6"])
        high.wait(3)
        equal((high.bodies[2:], low.bodies), ([b"6"], []))


@suite.case("consume.exclusive-edges", "an exclusive consumer: its own second one, basic.get, purge, publishing beside it",
            "403 for the consumer; the rest is allowed")
def _():
    with Desk() as desk, Desk() as other:
        queue = desk.queue()
        consumer = Consumer(desk.channel, queue, exclusive=True)
        second = desk.connection.channel()
        try:
            second.basic_consume(queue, lambda *_: None)
        except CLOSED as closed:
            equal(closed.reply_code, 403)
        else:
            raise AssertionError("a second consumer was let in")
        equal(other.channel.basic_get(queue), (None, None, None))
        equal(other.channel.queue_purge(queue).method.message_count, 0)
        other.fill(queue, [b"x"])
        consumer.wait(1)
        desk.channel.basic_ack(1)
        desk.connection.channel().queue_delete(queue)
        desk.later()
        equal(desk.channel.is_open, True)


@suite.case("isolation.channel-error", "an error closes its channel alone",
            "consumer and confirms on another channel go on")
def _():
    with Desk() as desk:
        queue = desk.queue()
        consumer = Consumer(desk.channel, queue)
        other = desk.connection.channel()
        try:
            other.queue_declare(fresh("absent"), passive=True)
        except CLOSED as closed:
            equal(closed.reply_code, 404)
        desk.fill(queue, [b"x"])
        consumer.wait(1)
        desk.channel.basic_ack(1)
        equal((desk.connection.is_open, desk.channel.is_open, other.is_open), (True, True, False))


@suite.case("expiration.past", "a message past its expiration is not delivered", "gone")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, [b"short"], expiration="50")
        desk.fill(queue, [b"long"], expiration="60000")
        desk.later()
        equal(desk.get(queue)[2], b"long")


@suite.case("recover.requeue", "basic.recover with requeue", "everything unsettled is delivered again")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, numbered(3))
        consumer = Consumer(desk.channel, queue)
        consumer.wait(3)
        desk.channel.basic_recover(requeue=True)
        consumer.wait(6)
        equal(consumer.bodies[3:], numbered(3))
        equal(all(method.redelivered for method, _properties, _body in consumer.deliveries[3:]), True)


@suite.case("tx.commit", "publishes and acks of a transaction take effect at tx.commit", "not before")
def _():
    with Desk() as desk, Desk() as other:
        queue = desk.queue()
        desk.channel.tx_select()
        desk.channel.basic_publish("", queue, b"1")
        desk.channel.basic_publish("", queue, b"2")
        equal(other.channel.basic_get(queue)[0], None)
        desk.channel.tx_commit()
        equal([other.get(queue)[2] for _ in range(2)], [b"1", b"2"])


@suite.case("tx.rollback", "tx.rollback drops the publishes of the transaction", "nothing arrives")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.channel.tx_select()
        desk.channel.basic_publish("", queue, b"1")
        desk.channel.tx_rollback()
        desk.channel.tx_commit()
        equal(desk.count(queue), 0)


@suite.case("reply-to.direct", "amq.rabbitmq.reply-to carries a reply to the requester", "delivered")
def _():
    with Desk() as desk, Desk() as server:
        queue = desk.queue()
        reply = Consumer(desk.channel, "amq.rabbitmq.reply-to", auto_ack=True)
        desk.channel.basic_publish("", queue, b"ask", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
        _method, properties, _body = server.get(queue)
        equal(properties.reply_to.startswith("amq.rabbitmq.reply-to."), True)
        server.channel.basic_publish("", properties.reply_to, b"answer")
        equal(reply.wait(1)[0][2], b"answer")
