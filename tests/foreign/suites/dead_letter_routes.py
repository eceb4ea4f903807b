"""Where the dead go: keys, exchanges, cycles."""

import contextlib

from lab.cases import equal, eventually
from suites.dead_letter_bench import Morgue, death, deaths, nothing, suite
from suites.pika_bench import fresh
from suites.queue_bench import CLASSIC, QUORUM


@suite.each("key.own", "x-dead-letter-exchange without a routing key", "with the routing key it was published with")
def _(kind):
    with Morgue() as desk:
        exchange = desk.exchange("direct")
        queue = desk.make(kind, x_dead_letter_exchange=exchange)
        desk.channel.queue_bind(desk.dead, exchange, queue)
        desk.send(queue, b"1")
        desk.reject(queue)
        method, properties, _body = desk.buried()[0]
        equal((method.exchange, method.routing_key), (exchange, queue))
        equal(deaths(properties), [death(queue, "rejected")])


@suite.each("key.argument", "x-dead-letter-routing-key",
            "with that key, which the consumer sees; the death has the own one")
def _(kind):
    with Morgue() as desk:
        source, exchange = desk.exchange("topic"), desk.exchange("direct")
        queue = desk.make(kind, x_dead_letter_exchange=exchange, x_dead_letter_routing_key="dead.key")
        desk.channel.queue_bind(queue, source, "#")
        desk.channel.queue_bind(desk.dead, exchange, "dead.key")
        desk.send("own.key", b"1", exchange=source)
        desk.reject(queue)
        method, properties, _body = desk.buried()[0]
        equal((method.exchange, method.routing_key), (exchange, "dead.key"))
        equal(deaths(properties), [death(queue, "rejected", ["own.key"], source)])


@suite.each("key.empty", "x-dead-letter-routing-key empty", "with the empty key")
def _(kind):
    with Morgue() as desk:
        exchange = desk.exchange("topic")
        queue = desk.make(kind, x_dead_letter_exchange=exchange, x_dead_letter_routing_key="")
        desk.channel.queue_bind(desk.dead, exchange, "")
        desk.send(queue, b"1")
        desk.reject(queue)
        equal(desk.buried()[0][0].routing_key, "")


@suite.each("exchange.default", "x-dead-letter-exchange the default one, without a key, the queue named by CC",
            "to the queues that key and CC name, as on publishing; the own queue drops it where it expired")
def _(kind):
    with Morgue() as desk:
        queue = desk.make(kind, x_dead_letter_exchange="", x_message_ttl=200)
        desk.send(queue, b"1", headers={"CC": [desk.dead]})
        desk.becomes(desk.dead, 2)
        first, second = desk.buried(2)
        equal(("x-death" in first[1].headers, "x-death" in second[1].headers), (False, True))
        equal(deaths(second[1]), [death(queue, "expired", [queue, desk.dead])])
        desk.stays(queue, 0)


@suite.each("exchange.types", "a fanout, topic and headers exchange for the dead", "each routes as for a publish")
def _(kind):
    with Morgue() as desk:
        for exchange_type, key, arguments in [
            ("fanout", "", None), ("topic", "a.*.c", None), ("headers", "", {"x-match": "any", "colour": "red"}),
        ]:
            exchange, source = desk.exchange(exchange_type), desk.exchange("fanout")
            queue = desk.make(kind, x_dead_letter_exchange=exchange)
            desk.channel.queue_bind(queue, source)
            desk.channel.queue_bind(desk.dead, exchange, key, arguments)
            desk.send("a.b.c", b"1", exchange=source, headers={"colour": "red"})
            desk.reject(queue)
            equal(desk.buried()[0][0].exchange, exchange)


@suite.each("exchange.several", "an exchange that leads to three queues", "a copy in each")
def _(kind):
    with Morgue() as desk:
        exchange = desk.exchange("fanout")
        queues = [desk.dead, desk.make(CLASSIC), desk.make(QUORUM)]
        for one in queues:
            desk.channel.queue_bind(one, exchange)
        queue = desk.make(kind, x_dead_letter_exchange=exchange)
        desk.send(queue, b"1")
        desk.reject(queue)
        for one in queues:
            _method, properties, body = desk.get(one)
            equal((body, deaths(properties)), (b"1", [death(queue, "rejected")]))


@suite.each("exchange.absent", "a dead-letter exchange that is not there",
            "the queue may be declared; the dead are dropped; once there is one, they go there")
def _(kind):
    with Morgue() as desk:
        exchange = fresh("exchange")
        queue = desk.make(kind, x_dead_letter_exchange=exchange)
        desk.send(queue, b"1", b"2")
        desk.reject(queue)
        desk.later()
        desk.channel.exchange_declare(exchange, "fanout")
        desk.channel.queue_bind(desk.dead, exchange)
        desk.reject(queue)
        equal(desk.buried()[0][2], b"2")
        nothing(desk)
        equal(desk.count(queue), 0)
        desk.channel.exchange_delete(exchange)


@suite.each("exchange.unroutable", "a dead-letter exchange without bindings",
            "the dead are dropped, nobody hears of it")
def _(kind):
    with Morgue() as desk:
        queue = desk.make(kind, x_dead_letter_exchange=desk.exchange("fanout"))
        desk.send(queue, b"1")
        desk.reject(queue)
        desk.stays(queue, 0)
        equal(desk.channel.is_open, True)


@suite.each("exchange.alternate", "a dead-letter exchange without bindings that has an alternate exchange",
            "the dead go on to that one")
def _(kind):
    with Morgue() as desk:
        other = desk.exchange("fanout")
        exchange = desk.exchange("direct", arguments={"alternate-exchange": other})
        desk.channel.queue_bind(desk.dead, other)
        queue = desk.make(kind, x_dead_letter_exchange=exchange)
        desk.send(queue, b"1")
        desk.reject(queue)
        method, _properties, _body = desk.buried()[0]
        equal(method.exchange, exchange)


@suite.each("exchange.internal", "an internal exchange for the dead", "takes them")
def _(kind):
    with Morgue() as desk:
        exchange = desk.exchange("fanout", internal=True)
        desk.channel.queue_bind(desk.dead, exchange)
        queue = desk.make(kind, x_dead_letter_exchange=exchange)
        desk.send(queue, b"1")
        desk.reject(queue)
        equal(desk.buried()[0][2], b"1")


@suite.each("queue.missing", "a dead-letter routing key that names no queue", "dropped")
def _(kind):
    with Morgue() as desk:
        queue = desk.make(kind, x_dead_letter_exchange="", x_dead_letter_routing_key=fresh("absent"))
        desk.send(queue, b"1")
        desk.reject(queue)
        desk.stays(queue, 0)


@suite.each("target.full", "a dead-letter queue that is full and refuses publishes", "dropped there")
def _(kind):
    with Morgue() as desk:
        full = desk.make(CLASSIC, x_max_length=1, x_overflow="reject-publish")
        queue = desk.mortal(kind, x_dead_letter_routing_key=full)
        desk.send(queue, b"1", b"2", b"3")
        desk.reject(queue, 3)
        desk.stays(full, 1)
        equal(desk.get(full)[2], b"1")
        desk.stays(queue, 0)

@suite.each("cycle.self", "a queue that is its own dead-letter queue, the message expires", "dropped")
def _(kind):
    with Morgue() as desk:
        queue = desk.make(kind, x_dead_letter_exchange="", x_message_ttl=100)
        desk.send(queue, b"1")
        desk.connection.sleep(0.3)
        desk.stays(queue, 0)


@suite.each("cycle.two", "two queues that expire into each other", "dropped when it comes to the first again")
def _(kind):
    with Morgue() as desk:
        first, second = desk.make(kind), fresh("second")
        desk.channel.queue_delete(first)
        arguments = {"x-queue-type": kind, "x-dead-letter-exchange": "", "x-message-ttl": 100}
        desk.channel.queue_declare(first, durable=True, arguments={**arguments, "x-dead-letter-routing-key": second})
        desk.channel.queue_declare(second, durable=True, arguments={**arguments, "x-dead-letter-routing-key": first})
        desk.send(first, b"1")
        desk.connection.sleep(0.5)
        equal((desk.count(first), desk.count(second)), (0, 0))
        desk.channel.queue_delete(second)


@suite.each("cycle.rejected", "a queue that is its own dead-letter queue, the message is rejected",
            "comes back each time: a rejection is no cycle")
def _(kind):
    with Morgue() as desk:
        queue = desk.make(kind, x_dead_letter_exchange="")
        desk.send(queue, b"1")
        desk.reject(queue, 3)
        _method, properties, _body = desk.get(queue)
        equal(deaths(properties), [death(queue, "rejected", count=3)])


@suite.each("cycle.retry", "the retry pattern: rejected into a queue whose messages expire back",
            "comes back each time")
def _(kind):
    with Morgue() as desk:
        work, wait = desk.make(kind), desk.make(kind)
        desk.channel.queue_delete(work)
        desk.channel.queue_delete(wait)
        arguments = {"x-queue-type": kind, "x-dead-letter-exchange": ""}
        desk.channel.queue_declare(work, durable=True, arguments={**arguments, "x-dead-letter-routing-key": wait})
        desk.channel.queue_declare(wait, durable=True, arguments={
            **arguments, "x-dead-letter-routing-key": work, "x-message-ttl": 60})
        desk.send(work, b"1")
        desk.reject(work, 3)
        _method, properties, _body = desk.get(work)
        equal(deaths(properties), [death(wait, "expired", count=3), death(work, "rejected", count=3)])


@suite.each("cycle.maxlen", "a queue that is its own dead-letter queue, x-max-length 1", "the one too many is dropped")
def _(kind):
    with Morgue() as desk:
        queue = desk.make(kind, x_dead_letter_exchange="", x_max_length=1)
        desk.send(queue, b"1", b"2")
        desk.stays(queue, 1)


def ring(kind, size, exchanges, name_bytes=0):
    """Queues that expire into each other in a ring, by way of these exchanges in turn; their names."""
    @contextlib.contextmanager
    def made():
        with Morgue() as desk:
            names = [fresh("ring").ljust(name_bytes, "-") for _ in range(size)]
            through = exchanges(desk)
            for at, name in enumerate(names):
                desk.channel.queue_declare(name, durable=True, arguments={
                    "x-queue-type": kind, "x-message-ttl": 1, "x-dead-letter-exchange": through[at % len(through)],
                    "x-dead-letter-routing-key": names[(at + 1) % size]})
                for exchange in through[-1:] if through[-1] else ():
                    desk.channel.queue_bind(name, exchange, name)
            try:
                yield desk, names
            finally:
                for name in names:
                    desk.channel.queue_delete(name)
    return made()


def dropped(desk, names, seconds_max=60):
    """All queues are empty, and stay so."""
    eventually(lambda: sum(desk.count(name) for name in names) == 0, "dropped", seconds_max, 0.3)
    for _ in range(3):
        desk.connection.sleep(0.3)
        equal(sum(desk.count(name) for name in names), 0)


def direct(_desk):
    return [""]


def roundabout(desk):
    """The default exchange, one bound to another, one with an alternate exchange."""
    last = desk.exchange("direct")
    bound, fallen = desk.exchange("topic"), fresh("fallen")
    desk.channel.exchange_bind(last, bound, "#")
    desk.channel.exchange_declare(fallen, "direct", auto_delete=True, arguments={"alternate-exchange": last})
    return ["", bound, fallen, last]


@suite.each("cycle.ring", "70 queues that expire into each other in a ring, two messages that start at different ones",
            "dropped when they come to the first again", types=(CLASSIC,), seconds_max=120)
def _(kind):
    with ring(kind, 70, direct) as (desk, names):
        desk.send(names[0], b"1")
        desk.send(names[35], b"2")
        dropped(desk, names)


@suite.each("cycle.ring-long", "40 queues with names of 255 bytes in such a ring",
            "dropped when it comes to the first again", types=(CLASSIC,), seconds_max=120)
def _(kind):
    with ring(kind, 40, direct, 255) as (desk, names):
        desk.send(names[3], b"1")
        dropped(desk, names)


@suite.each("cycle.ring-exchanges", "70 queues in such a ring, through exchanges bound to exchanges and an alternate exchange",
            "dropped when it comes to the first again", types=(CLASSIC,), seconds_max=120)
def _(kind):
    with ring(kind, 70, roundabout) as (desk, names):
        desk.send(names[0], b"1")
        dropped(desk, names)


@suite.each("cycle.ring-rejected", "70 queues in a ring, rejected in the first whenever it comes there",
            "comes back each time", types=(CLASSIC,), seconds_max=120)
def _(kind):
    with ring(kind, 70, direct) as (desk, names):
        first = names[0]
        desk.channel.queue_delete(first)
        desk.channel.queue_declare(first, durable=True, arguments={
            "x-queue-type": kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": names[1]})
        desk.send(first, b"1")
        for _turn in range(3):
            eventually(lambda: desk.count(first) == 1, "it comes round", 60, 0.1)
            desk.reject(first)
        eventually(lambda: desk.count(first) == 1, "it comes round", 60, 0.1)
