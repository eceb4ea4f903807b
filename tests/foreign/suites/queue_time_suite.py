"""Time in queues: messages that expire, queues that expire; each against what RabbitMQ does with both types of queue.

RabbitMQ looks at the head of a queue only, ours anywhere: where that shows, the case says what both may do.
"""

import time

import pika

from lab.cases import Uri, equal, eventually
from suites.pika_bench import CLOSED, Consumer, fresh
from suites.queue_bench import (
    BOTH, CLASSIC, GONE_SECONDS_MAX, QUORUM, Bench, QueueSuite, exists, gone_after, needs_broker, refusal,
)

suite = QueueSuite("queue-time")
SHORT, LONG = 200, 60_000


@suite.each("ttl.argument", "x-message-ttl", "gone when it has passed, without anybody asking for the message")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_message_ttl=SHORT)
        desk.send(queue, b"1", b"2")
        equal(desk.count(queue) <= 2, True)
        desk.becomes(queue, 0)
        equal(desk.channel.basic_get(queue)[0], None)


@suite.each("ttl.property", "expiration of the message", "gone when it has passed; without one it stays")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind)
        desk.send(queue, b"short", expiration=str(SHORT))
        desk.send(queue, b"stays")
        desk.becomes(queue, 1)
        _method, properties, body = desk.get(queue)
        equal((body, properties.expiration), (b"stays", None))


@suite.each("ttl.lower", "x-message-ttl and expiration", "the lower wins, whichever it is")
def _(kind):
    with Bench() as desk:
        short, long = desk.make(kind, x_message_ttl=SHORT), desk.make(kind, x_message_ttl=LONG)
        desk.send(short, b"1", expiration=str(LONG))
        desk.send(long, b"1", expiration=str(SHORT))
        desk.becomes(short, 0)
        desk.becomes(long, 0)


@suite.each("ttl.kept", "expiration of a message that is delivered in time",
            "the property comes with it as it was sent")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_message_ttl=LONG)
        desk.send(queue, b"1", expiration="7000")
        equal(desk.get(queue)[1].expiration, "7000")


@suite.each("ttl.zero", "x-message-ttl of 0, and expiration 0",
            "delivered to a consumer that waits; gone at once where none does; confirmed both times")
def _(kind):
    with Bench() as desk:
        for arguments, properties in ({"x_message_ttl": 0}, {}), ({}, {"expiration": "0"}):
            queue = desk.make(kind, **arguments)
            equal(desk.send(queue, b"nobody", **properties), [True])
            desk.becomes(queue, 0)
            consumer = Consumer(desk.channel, queue)
            equal(desk.send(queue, b"waited for", **properties), [True])
            consumer.wait(1)
            desk.channel.basic_cancel(consumer.tag)
            equal(consumer.bodies, [b"waited for"])


@suite.each("ttl.zero-prefetch", "expiration 0 while the only consumer's prefetch is used up", "gone")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind)
        desk.channel.basic_qos(prefetch_count=1)
        consumer = Consumer(desk.channel, queue)
        desk.send(queue, b"1", b"2", expiration="0")
        consumer.wait(1)
        desk.becomes(queue, 0)
        desk.channel.basic_ack(consumer.tags[0])
        desk.later()
        equal(consumer.bodies, [b"1"])


@suite.each("ttl.mandatory", "a mandatory message with expiration 0, no consumer", "confirmed, not returned")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind)
        desk.channel.confirm_delivery()
        desk.channel.basic_publish("", queue, b"x", pika.BasicProperties(expiration="0"), mandatory=True)
        desk.becomes(queue, 0)


@suite.each("ttl.behind", "a message that expires behind one that does not",
            "counted until the head is taken (ours: gone before); never delivered")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind)
        desk.send(queue, b"head")
        desk.send(queue, b"behind", expiration="50")
        desk.send(queue, b"last")
        desk.later()
        equal(desk.count(queue) in (2, 3), True, "ready")
        equal(desk.bodies(queue, 2), [b"head", b"last"])


@suite.each("ttl.order", "messages of three times to live, the shortest first and last",
            "each goes at its time, the others keep their order")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind)
        for body, milliseconds in (b"1", "50"), (b"2", "30000"), (b"3", "40000"), (b"4", "50"), (b"5", "20000"):
            desk.send(queue, body, expiration=milliseconds)
        desk.later()
        equal(desk.bodies(queue, 3), [b"2", b"3", b"5"])


@suite.each("ttl.many", "500 messages of one time to live, the last one sent later",
            "all gone, the last at its own time")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_message_ttl=600)
        for _number in range(500):
            desk.channel.basic_publish("", queue, b"x")
        desk.becomes(queue, 500)
        desk.connection.sleep(0.3)
        desk.send(queue, b"last")
        eventually(lambda: desk.count(queue) == 1, "one left", pause=0.005)
        desk.becomes(queue, 0)


@suite.each("ttl.held", "a message that is held when its time passes",
            "stays with its consumer, which may acknowledge it")
def _(kind):
    with Bench() as desk:
        dead = desk.make(CLASSIC)
        queue = desk.make(kind, x_message_ttl=SHORT, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
        desk.send(queue, b"1")
        consumer = desk.hold(queue)
        desk.connection.sleep(0.4)
        desk.channel.basic_ack(consumer.tags[0])
        desk.later()
        equal((desk.count(queue), desk.count(dead)), (0, 0))


@suite.each("ttl.returned", "a message that comes back when its time has passed: basic.nack, basic.reject, channel "
            "closed",
            "expires, is not delivered again")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_message_ttl=SHORT)
        for way in ("nack", "reject", "close"):
            desk.send(queue, b"1")
            channel = desk.connection.channel()
            tag = channel_get(channel, queue)
            desk.connection.sleep(0.3)
            if way == "nack":
                channel.basic_nack(tag)
            elif way == "reject":
                channel.basic_reject(tag)
            else:
                channel.close()
            desk.becomes(queue, 0)
            equal(desk.channel.basic_get(queue)[0], None, way)


def channel_get(channel, queue):
    def taken():
        method, _properties, _body = channel.basic_get(queue)
        return method and method.delivery_tag

    return eventually(taken, "a message")


@suite.each("ttl.not-renewed", "a message that comes back in time", "keeps its deadline: a requeue gives it no new one")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_message_ttl=500)
        desk.send(queue, b"1")
        begin = time.monotonic()
        tag = channel_get(desk.channel, queue)
        desk.connection.sleep(0.35)
        desk.channel.basic_nack(tag)
        desk.becomes(queue, 0)
        equal(time.monotonic() - begin < 0.8, True, "gone before a second time to live")


@suite.each("ttl.full-consumer", "messages behind a consumer with a prefetch of 1", "expire while it is busy")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind)
        desk.channel.basic_qos(prefetch_count=1)
        consumer = Consumer(desk.channel, queue)
        desk.send(queue, b"1")
        consumer.wait(1)
        desk.send(queue, b"2", expiration="50")
        desk.send(queue, b"3")
        desk.becomes(queue, 1)
        desk.channel.basic_ack(consumer.tags[0])
        equal([body for _method, _properties, body in consumer.wait(2)], [b"1", b"3"])


@suite.each("ttl.transient", "expiration of a transient message", "as of a durable one")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind)
        desk.send(queue, b"1", delivery_mode=1, expiration=str(SHORT))
        desk.becomes(queue, 0)


@suite.each("ttl.fanout", "one message to queues with different times to live", "each queue goes by its own")
def _(kind):
    with Bench() as desk:
        exchange = desk.exchange("fanout")
        queues = [desk.make(kind, **arguments) for arguments in ({"x_message_ttl": SHORT}, {"x_message_ttl": LONG}, {})]
        for queue in queues:
            desk.channel.queue_bind(queue, exchange)
        desk.send("", b"1", exchange=exchange)
        desk.becomes(queues[0], 0)
        equal([desk.count(queue) for queue in queues], [0, 1, 1])


EXPIRATIONS = {
    "empty": ("", "no_integer"),
    "text": ("abc", "no_integer"),
    "blank-before": (" 12", "no_integer"),
    "blank-after": ("12 ", '{leftover_string," "}'),
    "fraction": ("1.5", '{leftover_string,".5"}'),
    "unit": ("12ms", '{leftover_string,"ms"}'),
    "negative": ("-1", "{value_negative,-1}"),
    "large": ("315360000001", "{value_too_large,315360000001}"),
}


def add_expiration(name, value, why):
    @suite.case(f"expiration.{name}", f"publishing with expiration {value!r}",
                f"channel closed: 406 `PRECONDITION_FAILED - invalid expiration '{value}': {why}`")
    def _():
        with Bench() as desk:
            queue = desk.queue()
            equal(refusal(lambda: desk.send(queue, b"x", expiration=value)),
                  (406, f"PRECONDITION_FAILED - invalid expiration '{value}': {why}"))


for one_name, (one_value, one_why) in EXPIRATIONS.items():
    add_expiration(one_name, one_value, one_why)


@suite.case("expiration.taken", "expiration '+12000', '007000', '4294967296', '315360000000' (ten years)", "taken")
def _():
    with Bench() as desk:
        queue = desk.queue()
        for value in ("+12000", "007000", "4294967296", "315360000000"):
            equal(desk.send(queue, b"x", expiration=value), [True])
        equal(desk.count(queue), 4)


@suite.case("expiration.unroutable", "an expiration that is no number, to an exchange without bindings",
            "406 all the same")
def _():
    with Bench() as desk:
        exchange = desk.exchange("fanout")
        equal(refusal(lambda: desk.send("", b"x", exchange=exchange, expiration="x")),
              (406, "PRECONDITION_FAILED - invalid expiration 'x': no_integer"))


ARGUMENTS = [
    ("ttl-negative", "x-message-ttl", -1, "{value_negative,-1}"),
    ("ttl-text", "x-message-ttl", "1", '"expected integer, got longstr"'),
    ("ttl-bool", "x-message-ttl", True, '"expected integer, got bool"'),
    ("ttl-large", "x-message-ttl", 315360000001, "{value_too_large,315360000001}"),
    ("expires-zero", "x-expires", 0, "{value_zero,0}"),
    ("expires-negative", "x-expires", -1, "{value_negative,-1}"),
    ("expires-text", "x-expires", "1", '"expected integer, got longstr"'),
    ("expires-large", "x-expires", 315360000001, "{value_too_large,315360000001}"),
]


def add_argument(name, argument, value, why):
    @suite.each(f"argument.{name}", f"declaring with {argument} {value!r}",
                f"406 `invalid arg '{argument}' for queue ...: {why}`")
    def _(kind):
        with Bench() as desk:
            queue = fresh("absent")
            equal(refusal(lambda: desk.channel.queue_declare(
                queue, durable=True, arguments={"x-queue-type": kind, argument: value})),
                (406, f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost "
                      f"'{suite.uri.vhost}': {why}"))


for one_argument in ARGUMENTS:
    add_argument(*one_argument)


@suite.each("argument.taken", "x-message-ttl 2^32, x-expires ten years",
            "taken, and must be the same on declaring again")
def _(kind):
    with Bench() as desk:
        queue = desk.make(kind, x_message_ttl=2 ** 32, x_expires=315360000000)
        expected = (f"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '{queue}' in vhost "
                    f"'{suite.uri.vhost}': received '5' but current is '4294967296'")
        seen = refusal(lambda: desk.channel.queue_declare(queue, durable=True, arguments={
            "x-queue-type": kind, "x-message-ttl": 5, "x-expires": 315360000000}))
        equal(seen, (406, expected))


# queues that expire


def lease(desk, kind, milliseconds=1000, **arguments):
    queue = desk.make(kind, x_expires=milliseconds, **arguments)
    desk.forget(queue)
    return queue


@suite.each("expires.idle", "x-expires, nobody uses the queue",
            "the queue goes, with its messages; publishing keeps nothing")
def _(kind):
    with Bench() as desk:
        queue = lease(desk, kind, 300)
        desk.send(queue, b"1")
        gone_after(queue)
        seen = refusal(lambda: desk.channel.queue_declare(queue, passive=True))
        equal(seen, (404, f"NOT_FOUND - no queue '{queue}' in vhost '{suite.uri.vhost}'"))


@suite.each("expires.dead-letters", "a queue with messages and a dead-letter exchange expires",
            "nothing is dead-lettered")
def _(kind):
    with Bench() as desk:
        dead = desk.make(CLASSIC)
        queue = lease(desk, kind, 300, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
        desk.send(queue, b"1")
        gone_after(queue)
        desk.stays(dead, 0)


@suite.each("expires.consumer", "x-expires with a consumer", "stays while it is there; the time begins when it goes")
def _(kind):
    with Bench() as desk:
        queue = lease(desk, kind, 300)
        consumer = Consumer(desk.channel, queue)
        desk.connection.sleep(0.8)
        equal(exists(queue), True, "there with a consumer")
        desk.channel.basic_cancel(consumer.tag)
        equal(exists(queue), True, "there when it has gone")
        gone_after(queue)


@suite.each("expires.get", "x-expires and basic.get", "each get begins the time anew, of an empty queue too")
def _(kind):
    with Bench() as desk:
        queue = lease(desk, kind)
        for _number in range(4):
            desk.connection.sleep(0.4)
            desk.channel.basic_get(queue, auto_ack=True)
        equal(exists(queue), True, "there after 1.6 s of gets")
        gone_after(queue)


@suite.each("expires.redeclare", "x-expires and queue.declare, actively or passively", "begins the time anew",
            types=(CLASSIC,))
def _(kind):
    with Bench() as desk:
        for passive in (False, True):
            queue = lease(desk, kind)
            arguments = {"x-queue-type": kind, "x-expires": 1000}
            for _number in range(4):
                desk.connection.sleep(0.4)
                desk.channel.queue_declare(queue, durable=True, passive=passive, arguments=arguments)
            equal(exists(queue), True, f"there after 1.6 s of declaring, passive={passive}")
            gone_after(queue)


@suite.each("expires.redeclare", "x-expires and queue.declare every 0.2 s", "begins no new time", types=(QUORUM,))
def _(kind):
    with Bench() as desk:
        queue = lease(desk, kind)

        def declared():
            try:
                desk.channel.queue_declare(queue, durable=True, passive=True)
            except CLOSED as closed:
                return closed.reply_code == 404
            return False

        eventually(declared, "gone", GONE_SECONDS_MAX, pause=0.2)


@suite.each("expires.publish", "x-expires and publishing", "publishing begins no new time")
def _(kind):
    with Bench() as desk:
        queue = lease(desk, kind)
        eventually(lambda: not exists(queue), "gone though a message comes every 0.1 s", GONE_SECONDS_MAX, pause=0.1)


@suite.each("expires.held", "x-expires while a message taken with basic.get is held",
            {CLASSIC: "the queue goes; the ack that comes then is ignored",
             QUORUM: "the queue stays until it is settled"})
def _(kind):
    with Bench() as desk:
        queue = lease(desk, kind, 300)
        desk.send(queue, b"1")
        method, _properties, _body = desk.get(queue)
        if kind == QUORUM:
            desk.connection.sleep(0.8)
            equal(exists(queue), True, "there while the message is held")
        else:
            gone_after(queue)
        desk.channel.basic_ack(method.delivery_tag)
        desk.later()
        equal(desk.channel.is_open, True)
        if kind == QUORUM:
            desk.channel.queue_purge(queue)
            gone_after(queue)


@suite.each("expires.exclusive", "x-expires of an exclusive queue", "goes as any other", types=(CLASSIC,))
def _(_kind):
    with Bench() as desk:
        queue = desk.channel.queue_declare("", exclusive=True, arguments={"x-expires": 200}).method.queue
        gone_after(queue)
        equal(desk.connection.is_open, True)


@suite.each("expires.binding", "bindings of a queue that expires", "go with it: a mandatory message comes back")
def _(kind):
    with Bench() as desk:
        exchange = desk.exchange("fanout")
        queue = lease(desk, kind, 300)
        desk.channel.queue_bind(queue, exchange)
        gone_after(queue)
        desk.channel.confirm_delivery()
        try:
            desk.channel.basic_publish(exchange, "", b"x", mandatory=True)
        except pika.exceptions.UnroutableError as error:
            equal(error.messages[0].method.reply_code, 312)
        else:
            raise AssertionError("the message was routed")


@suite.each("expires.again", "declaring a queue anew that has expired", "a new, empty queue")
def _(kind):
    with Bench() as desk:
        queue = lease(desk, kind, 300)
        desk.send(queue, b"1")
        gone_after(queue)
        equal(desk.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind}).method.message_count, 0)
        desk.channel.queue_delete(queue)


@suite.case("restart", "SIGTERM and a new start with messages and queues that expire",
            "what has expired meanwhile is gone, what has time left goes at its deadline; a queue's time begins anew")
def _():
    broker = needs_broker(suite)
    try:
        broker.start()
        uri, suite.uri = suite.uri, Uri(broker.uri)
        desk = Bench()
        queues = {kind: (desk.make(kind, x_message_ttl=1500), desk.make(kind), desk.make(kind, x_expires=1000))
                  for kind in BOTH}
        for ttl, plain, _expiring in queues.values():
            desk.send(ttl, b"1")
            desk.send(plain, b"short", expiration="200")
            desk.send(plain, b"stays")
        desk.connection.close()
        broker.stop()
        time.sleep(0.3)
        broker.start()
        suite.uri = Uri(broker.uri)
        desk = Bench()
        for kind, (_ttl, _plain, expiring) in queues.items():
            equal(exists(expiring), True, f"{kind}: the queue's time begins anew")
        for ttl, plain, expiring in queues.values():
            desk.becomes(plain, 1)
            equal(desk.get(plain)[2], b"stays")
            desk.becomes(ttl, 0)
            gone_after(expiring)
        desk.connection.close()
    finally:
        suite.uri = uri
        broker.close()


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default="", help="a leveret to start"))
