"""Reasons for dead letters, how surely they arrive, and the arguments that are taken."""

import pika

from lab.cases import equal, eventually
from suites.dead_letter_bench import Morgue, death, deaths, nothing, suite
from suites.pika_bench import Consumer, fresh
from suites.queue_bench import BOTH, CLASSIC, QUORUM, Bench, refusal


@suite.each("rejected.reject", "basic.reject without requeue", "dead-lettered, reason `rejected`")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind)
        desk.send(queue, b"1")
        desk.reject(queue)
        _method, properties, body = desk.buried()[0]
        equal((body, deaths(properties)), (b"1", [death(queue, "rejected")]))


@suite.each("rejected.nack", "basic.nack of several without requeue",
            "all dead-lettered, in the order they were delivered")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind)
        desk.send(queue, *[b"%d" % number for number in range(10)])
        consumer = desk.hold(queue, 10)
        desk.channel.basic_nack(consumer.tags[6], multiple=True, requeue=False)
        desk.becomes(desk.dead, 7)
        equal([body for _method, _properties, body in desk.buried(7)], [b"%d" % number for number in range(7)])
        desk.channel.basic_nack(0, multiple=True, requeue=False)
        equal([body for _method, _properties, body in desk.buried(3)], [b"7", b"8", b"9"])


@suite.each("rejected.requeue", "basic.reject with requeue, a channel closed", "returned, not dead-lettered")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind)
        desk.send(queue, b"1")
        desk.channel.basic_reject(desk.get(queue)[0].delivery_tag)
        channel = desk.connection.channel()
        eventually(lambda: channel.basic_get(queue)[0], "a message")
        channel.close()
        desk.becomes(queue, 1)
        nothing(desk)


@suite.each("acked", "basic.ack, an automatic one too", "not dead-lettered")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind)
        desk.send(queue, b"1", b"2")
        desk.channel.basic_ack(desk.get(queue)[0].delivery_tag)
        desk.get(queue, auto_ack=True)
        nothing(desk)


@suite.each("expired.argument", "x-message-ttl has passed",
            "dead-lettered, reason `expired`, without original-expiration")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind, x_message_ttl=100)
        desk.send(queue, b"1")
        _method, properties, body = desk.buried()[0]
        equal((body, properties.expiration, deaths(properties)), (b"1", None, [death(queue, "expired")]))


@suite.each("expired.property", "expiration has passed",
            "dead-lettered without expiration, which is in the death: original-expiration")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind)
        desk.send(queue, b"1", expiration="100")
        _method, properties, _body = desk.buried()[0]
        equal((properties.expiration, deaths(properties)),
              (None, [death(queue, "expired", **{"original-expiration": "100"})]))


@suite.each("expired.both", "x-message-ttl has passed, which was lower than expiration",
            "original-expiration all the same")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind, x_message_ttl=100)
        desk.send(queue, b"1", expiration="50000")
        _method, properties, _body = desk.buried()[0]
        equal((properties.expiration, deaths(properties)),
              (None, [death(queue, "expired", **{"original-expiration": "50000"})]))


@suite.each("expired.rejected", "rejecting a message with an expiration",
            "the expiration goes, original-expiration is kept")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind)
        desk.send(queue, b"1", expiration="50000")
        desk.reject(queue)
        _method, properties, _body = desk.buried()[0]
        equal((properties.expiration, deaths(properties)),
              (None, [death(queue, "rejected", **{"original-expiration": "50000"})]))


@suite.each("expired.zero", "expiration 0, no consumer", "dead-lettered at once")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind)
        desk.send(queue, b"1", expiration="0")
        equal(deaths(desk.buried()[0][1]), [death(queue, "expired", **{"original-expiration": "0"})])


@suite.each("expired.order", "20 messages of one time to live", "dead-lettered in their order")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind, x_message_ttl=300)
        desk.send(queue, *[b"%d" % number for number in range(20)])
        desk.becomes(desk.dead, 20)
        equal(desk.bodies(desk.dead, 20), [b"%d" % number for number in range(20)])


@suite.each("expired.returned", "a held message whose time has passed comes back", "dead-lettered, reason `expired`")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind, x_message_ttl=200)
        desk.send(queue, b"1")
        tag = desk.get(queue)[0].delivery_tag
        desk.connection.sleep(0.3)
        nothing(desk)
        desk.channel.basic_nack(tag)
        equal(deaths(desk.buried()[0][1]), [death(queue, "expired")])


@suite.each("maxlen", "more than x-max-length, and more than x-max-length-bytes",
            "the oldest is dead-lettered, reason `maxlen`")
def _(kind):
    with Morgue() as desk:
        for argument, limit in ("x_max_length", 2), ("x_max_length_bytes", 250):
            queue = desk.mortal(kind, **{argument: limit})
            sent = [b"%d" % number * 100 for number in range(4)]
            equal(desk.send(queue, *sent), [True] * 4)
            dead = desk.buried(2)
            equal([(body, deaths(properties)) for _method, properties, body in dead],
                  [(body, [death(queue, "maxlen")]) for body in sent[:2]], argument)
            equal(desk.bodies(queue, 2), sent[2:])


@suite.each("reject-publish", "x-overflow reject-publish, one too many", "nacked, not dead-lettered")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind, x_max_length=1, x_overflow="reject-publish")
        sent = desk.send(queue, *[b"x"] * 5)
        equal((sent[0], sent[-1]), (True, False))
        nothing(desk)


@suite.each("reject-publish-dlx", "x-overflow reject-publish-dlx, one too many",
            {CLASSIC: "nacked and dead-lettered, reason `maxlen`", QUORUM: "as drop-head: the oldest is dead-lettered"})
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind, x_max_length=1, x_overflow="reject-publish-dlx")
        sent = desk.send(queue, b"1", b"2")
        _method, properties, body = desk.buried()[0]
        equal((sent, body), ([True, False], b"2") if kind == CLASSIC else ([True, True], b"1"))
        equal(deaths(properties), [death(queue, "maxlen")])


@suite.each("delivery-limit", "x-delivery-limit 1, rejected with requeue twice",
            "dead-lettered, reason `delivery_limit`",
            types=(QUORUM,))
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind, x_delivery_limit=1)
        desk.send(queue, b"1")
        for _number in range(2):
            desk.channel.basic_reject(desk.get(queue)[0].delivery_tag)
        _method, properties, body = desk.buried()[0]
        equal((body, deaths(properties)), (b"1", [death(queue, "delivery_limit")]))
        equal([name for name in properties.headers if name in ("x-delivery-count", "x-acquired-count")], [])


@suite.each("purge", "queue.purge and queue.delete of a queue with messages", "nothing is dead-lettered")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind)
        desk.send(queue, b"1", b"2")
        desk.channel.queue_purge(queue)
        desk.send(queue, b"3")
        desk.channel.queue_delete(queue)
        desk.forget(queue)
        nothing(desk)



@suite.each("many", "2,000 messages rejected at once with basic.nack multiple", "each dead-lettered once, in order")
def _(kind):
    with Morgue() as desk:
        queue, count = desk.mortal(kind), 2000
        for number in range(count):
            desk.channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2))
        consumer = desk.hold(queue, count)
        desk.channel.basic_nack(consumer.tags[-1], multiple=True, requeue=False)
        taker = Consumer(desk.channel, desk.dead, auto_ack=True)
        taker.wait(count)
        equal(taker.bodies, [b"%d" % number for number in range(count)])
        desk.stays(queue, 0)


@suite.each("confirm", "a message that dies at once, published with confirms", "confirmed: the queue has taken it")
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind, x_max_length=0)
        equal(desk.send(queue, b"1", b"2"), [True, True])
        equal([body for _method, _properties, body in desk.buried(2)], [b"1", b"2"])


@suite.each("equal", "declaring again with another dead-letter exchange",
            "406 inequivalent arg `x-dead-letter-exchange`")
def _(kind):
    with Morgue() as desk:
        queue = desk.make(kind, x_dead_letter_exchange="a")
        code, text = refusal(lambda: desk.channel.queue_declare(
            queue, durable=True, arguments={"x-queue-type": kind, "x-dead-letter-exchange": "b"}))
        equal((code, text), (406, f"PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue "
                                  f"'{queue}' in vhost '{suite.uri.vhost}': received 'b' but current is 'a'"))


ARGUMENTS = [
    ("exchange", {"x-dead-letter-exchange": 1},
     "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue '{queue}' in vhost '{vhost}'", BOTH),
    ("key-alone", {"x-dead-letter-routing-key": "k"}, "invalid arg 'x-dead-letter-routing-key' for queue '{queue}' in "
     "vhost '{vhost}': routing_key_but_no_dlx_defined", BOTH),
    ("key", {"x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": 3}, "invalid arg 'x-dead-letter-routing-key' for "
     "queue '{queue}' in vhost '{vhost}': {{unacceptable_type,signedint}}", BOTH),
    ("strategy", {"x-dead-letter-strategy": "x"},
     "invalid arg 'x-dead-letter-strategy' for queue '{queue}' in vhost '{vhost}': invalid_dlx_strategy", (QUORUM,)),
    ("strategy", {"x-dead-letter-strategy": "at-least-once"}, "invalid arg 'x-dead-letter-strategy' for queue "
        "'{queue}' in "
     "vhost '{vhost}' of queue type rabbit_classic_queue", (CLASSIC,)),
]


def add_argument(name, arguments, why, types):
    told = why.replace("{{", "{").replace("}}", "}")

    @suite.each(f"argument.{name}", f"declaring with {arguments}".replace("'", ""), f"406 `{told}`", types=types)
    def _(kind):
        with Bench() as desk:
            queue = fresh("absent")
            equal(refusal(lambda: desk.channel.queue_declare(
                queue, durable=True, arguments={"x-queue-type": kind, **arguments})),
                (406, "PRECONDITION_FAILED - " + why.format(queue=queue, vhost=suite.uri.vhost)))


for one_argument in ARGUMENTS:
    add_argument(*one_argument)


# RabbitMQ tries again after 180 s.
SURE_SECONDS_MAX = 240
SURE = {"x_dead_letter_strategy": "at-least-once", "x_overflow": "reject-publish"}


@suite.each("sure.reasons", "x-dead-letter-strategy at-least-once with x-overflow reject-publish: rejected, expired, "
            "failed",
            "dead-lettered with the same headers as at most once", types=(QUORUM,))
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind, x_delivery_limit=0, **SURE)
        desk.send(queue, b"1")
        desk.reject(queue)
        desk.send(queue, b"2", expiration="50")
        desk.becomes(desk.dead, 2)
        desk.send(queue, b"3")
        desk.channel.basic_reject(desk.get(queue)[0].delivery_tag)
        dead = [(body, deaths(properties)) for _method, properties, body in desk.buried(3)]
        equal(dead, [(b"1", [death(queue, "rejected")]),
                     (b"2", [death(queue, "expired", **{"original-expiration": "50"})]),
                     (b"3", [death(queue, "delivery_limit")])])


@suite.each("sure.many", "at-least-once: 300 messages rejected at once", "each dead-lettered, in order",
            types=(QUORUM,))
def _(kind):
    with Morgue() as desk:
        queue, count = desk.mortal(kind, **SURE), 300
        for number in range(count):
            desk.channel.basic_publish("", queue, b"%d" % number)
        consumer = desk.hold(queue, count)
        desk.channel.basic_nack(consumer.tags[-1], multiple=True, requeue=False)
        taker = Consumer(desk.channel, desk.dead, auto_ack=True)
        taker.wait(count)
        equal(taker.bodies, [b"%d" % number for number in range(count)])


@suite.each("sure.drop-head", "at-least-once with x-overflow drop-head, x-max-length 1",
            "as at-most-once: the oldest is dead-lettered", types=(QUORUM,))
def _(kind):
    with Morgue() as desk:
        queue = desk.mortal(kind, x_dead_letter_strategy="at-least-once", x_max_length=1)
        equal(desk.send(queue, b"1", b"2"), [True, True])
        _method, properties, body = desk.buried()[0]
        equal((body, deaths(properties)), (b"1", [death(queue, "maxlen")]))


@suite.each("sure.cycle", "at-least-once, the queue its own dead-letter queue, the message expires", "dropped",
            types=(QUORUM,))
def _(kind):
    with Morgue() as desk:
        queue = desk.make(kind, x_dead_letter_exchange="", x_message_ttl=100, **SURE)
        desk.send(queue, b"1")
        desk.connection.sleep(0.3)
        desk.stays(queue, 0)


@suite.each("sure.full", "at-least-once, the dead-letter queue is full and refuses; later there is room",
            "tried again until it is taken (RabbitMQ: after 180 s; ours: each second)", types=(QUORUM,), seconds_max=SURE_SECONDS_MAX)
def _(kind):
    with Morgue() as desk:
        dead = desk.make(kind, x_max_length=1, x_overflow="reject-publish")
        while all(desk.send(dead, b"before")):
            pass
        queue = desk.mortal(kind, x_dead_letter_routing_key=dead, **SURE)
        desk.send(queue, b"1")
        desk.reject(queue)
        desk.connection.sleep(0.5)
        desk.channel.queue_purge(dead)
        eventually(lambda: desk.count(dead) == 1, "dead-lettered after all", SURE_SECONDS_MAX - 10)
        equal(desk.get(dead, auto_ack=True)[2], b"1")


@suite.each("sure.unroutable", "at-least-once, nothing is bound to the dead-letter exchange; later something is",
            "tried again until it is routed (RabbitMQ: after 180 s; ours: each second)", types=(QUORUM,),
            seconds_max=SURE_SECONDS_MAX)
def _(kind):
    with Morgue() as desk:
        exchange = desk.exchange("fanout")
        queue = desk.mortal(kind, x_dead_letter_exchange=exchange, **SURE)
        desk.send(queue, b"1")
        desk.reject(queue)
        desk.connection.sleep(0.5)
        nothing(desk)
        desk.channel.queue_bind(desk.dead, exchange)
        eventually(lambda: desk.count(desk.dead) == 1, "dead-lettered after all", SURE_SECONDS_MAX - 10)
        equal([entry["reason"] for entry in desk.buried()[0][1].headers["x-death"]], ["rejected"])
