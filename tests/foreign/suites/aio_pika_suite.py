"""aio-pika: what asyncio applications lean on, coming back after a cut connection included."""

import asyncio
import functools
import itertools
import os

import aio_pika
from aio_pika import DeliveryMode, Message
from aio_pika.patterns import RPC
from pamqp import commands as spec

from lab.cases import Suite, equal
from lab.relay import Relay

suite = Suite("aio-pika")
_numbers = itertools.count(1)
SECONDS_MAX = 20
QUIET_SECONDS = 0.25


def fresh(word):
    return f"foreign.aio.{word}.{os.getpid():x}.{next(_numbers)}"


def case(name, behaviour, answer, later=False):
    """Registers a coroutine that gets a connection; what it leaves open is closed."""

    def register(act):
        async def run():
            connection = await aio_pika.connect(suite.uri.text, timeout=SECONDS_MAX)
            async with connection:
                await act(connection)

        suite.add(name, behaviour, answer, lambda: asyncio.run(run()), later=later)
        return act

    return register


async def soon(future):
    return await asyncio.wait_for(future, SECONDS_MAX)


def persistent(body, **properties):
    return Message(body, delivery_mode=DeliveryMode.PERSISTENT, **properties)


async def fill(channel, queue, *bodies):
    for body in bodies:
        await channel.default_exchange.publish(persistent(body), queue.name)


class Taken:
    """A consumer's deliveries; `take` waits for some."""

    def __init__(self):
        self.queue = asyncio.Queue()

    async def __call__(self, message):
        await self.queue.put(message)

    async def take(self, count):
        return [await soon(self.queue.get()) for _ in range(count)]

    async def quiet(self):
        await asyncio.sleep(QUIET_SECONDS)
        equal(self.queue.qsize(), 0, "deliveries too many")


def words(messages):
    """Bodies; `*` marks a redelivered one."""
    return " ".join(message.body.decode() + "*" * message.redelivered for message in messages)


@case("publish.confirm", "500 persistent messages published at once, each confirm awaited", "each basic.ack")
async def _(connection):
    channel = await connection.channel()
    queue = await channel.declare_queue(fresh("queue"), durable=True)
    sends = [channel.default_exchange.publish(persistent(b"x"), queue.name) for _ in range(500)]
    confirms = await soon(asyncio.gather(*sends))
    equal({type(confirm).__name__ for confirm in confirms}, {"Ack"}, "confirms")
    equal((await channel.declare_queue(queue.name, passive=True)).declaration_result.message_count, 500, "messages")
    await queue.delete(if_unused=False, if_empty=False)


@case("publish.returned", "a mandatory message that no queue takes", "`DeliveryError` with basic.return 312 `NO_ROUTE`")
async def _(connection):
    channel = await connection.channel(on_return_raises=True)
    try:
        await soon(channel.default_exchange.publish(persistent(b"x"), fresh("absent")))
    except aio_pika.exceptions.DeliveryError as error:
        back = error.message.delivery
        equal((back.reply_code, back.reply_text), (312, "NO_ROUTE"), "return")
    else:
        raise AssertionError("the message was taken")


@case("consume.settle", "ack, nack and reject, with and without requeue, by `Message.process` too",
      "what was requeued comes again, redelivered=true")
async def _(connection):
    channel = await connection.channel()
    queue = await channel.declare_queue(fresh("queue"), auto_delete=True)
    taken = Taken()
    await queue.consume(taken)
    await fill(channel, queue, *b"1 2 3 4 5 6".split())
    messages = await taken.take(6)
    await messages[0].ack()
    await messages[1].nack(requeue=False)
    await messages[2].reject(requeue=False)
    await messages[3].nack(requeue=True)
    equal(words(await taken.take(1)), "4*", "after nack")
    await messages[4].reject(requeue=True)
    equal(words(await taken.take(1)), "5*", "after reject")
    try:
        async with messages[5].process(requeue=True):
            raise ValueError
    except ValueError:
        pass
    again = await taken.take(1)
    equal(words(again), "6*", "after an error in process()")
    async with again[0].process():
        pass
    await taken.quiet()


@case("consume.prefetch", "a prefetch of 3", "three at once; each ack brings one more")
async def _(connection):
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=3)
    queue = await channel.declare_queue(fresh("queue"), auto_delete=True)
    taken = Taken()
    await fill(channel, queue, *b"1 2 3 4 5".split())
    await queue.consume(taken)
    first = await taken.take(3)
    await taken.quiet()
    await first[0].ack()
    equal(words(await taken.take(1)), "4", "after one ack")
    await taken.quiet()


@case("consume.iterator", "`async for` over 1,000 messages, left early",
      "in order; what was not taken is in the queue, in order")
async def _(connection):
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=10)
    queue = await channel.declare_queue(fresh("queue"), durable=True)
    await asyncio.gather(*(fill(channel, queue, b"%d" % number) for number in range(1000)))
    number = 0
    async with queue.iterator() as messages:
        async for message in messages:
            async with message.process():
                equal(message.body, b"%d" % number, "body")
            number += 1
            if number == 900:
                break
    async def left():
        other = await connection.channel()
        return [(await (await other.get_queue(queue.name)).get(no_ack=True)).body for _ in range(100)]

    equal(await soon(left()), [b"%d" % number for number in range(900, 1000)], "what is left")
    await queue.delete(if_unused=False, if_empty=False)


@case("get.published", "publish without confirms, then basic.get on the same channel", "the message")
async def _(connection):
    channel = await connection.channel(publisher_confirms=False)
    for durable in (True, False):
        queue = await channel.declare_queue(fresh("queue"), durable=durable, exclusive=True)
        for number in range(20):
            for mode in (DeliveryMode.PERSISTENT, DeliveryMode.NOT_PERSISTENT):
                body = b"%d" % number
                await channel.default_exchange.publish(Message(body, delivery_mode=mode), queue.name)
                message = await soon(queue.get(fail=False, no_ack=True))
                equal(message and message.body, body, f"get, durable queue: {durable}, {mode}")


@case("purge.published", "publish without confirms, then a purge on the same channel", "the message is purged")
async def _(connection):
    channel = await connection.channel(publisher_confirms=False)
    for durable in (True, False):
        queue = await channel.declare_queue(fresh("queue"), durable=durable, exclusive=True)
        for _ in range(20):
            await channel.default_exchange.publish(persistent(b"x"), queue.name)
            equal((await queue.purge()).message_count, 1, f"purged, durable queue: {durable}")


@case("properties.all", "all properties and header types", "equal")
async def _(connection):
    channel = await connection.channel()
    queue = await channel.declare_queue(fresh("queue"), auto_delete=True)
    headers = {"text": "grün", "int": 7, "long": 1 << 40, "float": 2.5, "true": True, "void": None,
               "list": [1, "two"], "table": {"inner": "x"}}
    sent = Message(b"x", headers=headers, content_type="text/plain", content_encoding="utf-8", priority=7,
                   correlation_id="c", reply_to="r", expiration=60, message_id="m", timestamp=1_700_000_000, type="t",
                   user_id=suite.uri.user, app_id="a", delivery_mode=DeliveryMode.PERSISTENT)
    await channel.default_exchange.publish(sent, queue.name)
    seen = await soon(queue.get(no_ack=True, timeout=SECONDS_MAX))
    names = ("content_type", "content_encoding", "priority", "correlation_id", "reply_to", "expiration", "message_id",
             "timestamp", "type", "user_id", "app_id", "delivery_mode")
    equal({name: getattr(seen, name) for name in names}, {name: getattr(sent, name) for name in names}, "properties")
    equal({**seen.headers}, headers, "headers")


@case("exchange.route", "topic, direct, fanout and headers exchanges, bound and unbound again", "routed by each")
async def _(connection):
    channel = await connection.channel()
    queue = await channel.declare_queue(fresh("queue"), auto_delete=True)
    rows = [("topic", "a.*.c", "a.b.c", None), ("direct", "key", "key", None), ("fanout", "", "any", None),
            ("headers", "", "", {"x-match": "all", "kind": "x"})]
    for kind, pattern, key, arguments in rows:
        exchange = await channel.declare_exchange(fresh(kind), kind, auto_delete=True)
        await queue.bind(exchange, pattern, arguments=arguments)
        await exchange.publish(persistent(kind.encode(), headers={"kind": "x"}), key)
        message = await soon(queue.get(no_ack=True, timeout=SECONDS_MAX))
        equal((message.body.decode(), message.exchange, message.routing_key), (kind, exchange.name, key), "message")
        await queue.unbind(exchange, pattern, arguments=arguments)


@case("error.channel", "a passive declare of an absent queue, then a new channel",
      "`ChannelNotFoundEntity` (404); the connection lives")
async def _(connection):
    channel = await connection.channel()
    name = fresh("absent")
    try:
        await channel.declare_queue(name, passive=True)
    except aio_pika.exceptions.ChannelNotFoundEntity as error:
        equal(str(error), f"NOT_FOUND - no queue '{name}' in vhost '/'", "text")
    else:
        raise AssertionError("no error")
    await (await connection.channel()).declare_queue(fresh("queue"), exclusive=True)


@case("rpc.pattern", "the RPC pattern (its queue has dead letters): 50 calls at once, one that raises",
      "each its answer; the error comes back")
async def _(connection):
    channel = await connection.channel()
    name = fresh("method")

    async def double(*, number):
        if number == 13:
            raise ValueError("unlucky")
        return number * 2

    rpc = await RPC.create(channel)
    await rpc.register(name, double, auto_delete=True)
    calls = [rpc.call(name, kwargs={"number": number}) for number in range(50)]
    answers = await soon(asyncio.gather(*calls, return_exceptions=True))
    equal(str(answers.pop(13)), "unlucky", "error")
    equal(answers, [number * 2 for number in range(50) if number != 13], "answers")
    await rpc.close()


@case("rpc.direct-reply", "RPC with `amq.rabbitmq.reply-to`", "the answer comes on the asking channel")
async def _(connection):
    asking, serving = await connection.channel(), await connection.channel()
    queue = await serving.declare_queue(fresh("calls"), exclusive=True)

    async def serve(message):
        async with message.process():
            answer = Message(message.body.upper(), correlation_id=message.correlation_id)
            await serving.default_exchange.publish(answer, message.reply_to)

    await queue.consume(serve)
    taken = Taken()
    replies = await asking.get_queue("amq.rabbitmq.reply-to", ensure=False)
    await replies.consume(taken, no_ack=True)
    for number in range(10):
        ask = Message(b"ask", reply_to="amq.rabbitmq.reply-to", correlation_id=str(number))
        await asking.default_exchange.publish(ask, queue.name)
        answer = (await taken.take(1))[0]
        equal((answer.body, answer.correlation_id), (b"ASK", str(number)), "answer")


@case("transaction.commit", "a transaction committed, one rolled back", "only the first is delivered")
async def _(connection):
    channel = await connection.channel(publisher_confirms=False)
    queue = await channel.declare_queue(fresh("queue"), exclusive=True)
    async with channel.transaction():
        await fill(channel, queue, b"kept")
    transaction = channel.transaction()
    await transaction.select()
    await fill(channel, queue, b"dropped")
    await transaction.rollback()
    taken = Taken()
    await queue.consume(taken, no_ack=True)
    equal(words(await taken.take(1)), "kept", "delivered")
    await taken.quiet()


def robust(name, behaviour, answer):
    """A case that gets a connection which comes back by itself, and the relay to cut it."""

    def register(act):
        async def run():
            relay = Relay(suite.uri.host, suite.uri.port)
            uri = f"amqp://{suite.uri.user}:{suite.uri.password}@127.0.0.1:{relay.port}/?reconnect_interval=0.1"
            connection = await aio_pika.connect_robust(uri, timeout=SECONDS_MAX)
            async with connection:
                await act(connection, relay)

        suite.add(name, behaviour, answer, lambda: asyncio.run(run()))
        return act

    return register


async def cut(connection, relay):
    """Cuts, and waits until the client has noticed and is back."""
    lost = asyncio.Event()
    connection.close_callbacks.add(lambda *_ignored: lost.set())
    connection.reconnect_callbacks.add(lambda *_ignored: lost.set())
    await asyncio.to_thread(relay.cut)
    await soon(lost.wait())
    await soon(connection.ready())


@robust("robust.consume", "a robust connection is cut with an unsettled delivery, three times",
        "exclusive queue, binding and consumer are made again; a durable queue's message comes again, redelivered=true")
async def _(connection, relay):
    channel = await connection.channel()
    durable = await channel.declare_queue(fresh("queue"), durable=True)
    exchange = await channel.declare_exchange(fresh("exchange"), "fanout", durable=True)
    own = await channel.declare_queue(fresh("own"), exclusive=True)
    await own.bind(exchange, "")
    from_durable, from_own = Taken(), Taken()
    await durable.consume(from_durable)
    await own.consume(from_own, no_ack=True)
    await fill(channel, durable, b"held")
    equal(words(await from_durable.take(1)), "held", "before the cut")
    for turn in range(3):
        await cut(connection, relay)
        equal(words(await from_durable.take(1)), "held*", f"after cut {turn + 1}")
        # the client says that it is ready before it has bound the queue again
        for _ in range(50):
            if isinstance(await soon(exchange.publish(persistent(b"%d" % turn), "")), spec.Basic.Ack):
                break
            await asyncio.sleep(0.1)
        equal(words(await from_own.take(1)), str(turn), f"through the exclusive queue after cut {turn + 1}")
    await durable.delete(if_unused=False, if_empty=False)
    await exchange.delete()


@robust("robust.publish", "publishing with confirms goes on while the connection is cut five times",
        "every confirmed message is in the queue")
async def _(connection, relay):
    channel = await connection.channel()
    queue = await channel.declare_queue(fresh("queue"), durable=True)
    confirmed, stop = [], asyncio.Event()

    async def publish():
        for number in itertools.count():
            if stop.is_set():
                return
            try:
                await soon(channel.default_exchange.publish(persistent(b"%d" % number), queue.name))
                confirmed.append(number)
            except (aio_pika.exceptions.AMQPError, aio_pika.exceptions.ChannelInvalidStateError, ConnectionError,
                    asyncio.TimeoutError, RuntimeError):
                await asyncio.sleep(0.02)

    publisher = asyncio.create_task(publish())
    for _ in range(5):
        await asyncio.sleep(0.2)
        await cut(connection, relay)
    stop.set()
    await soon(publisher)
    seen, plain = set(), await aio_pika.connect(suite.uri.text)
    async with plain:
        source = await (await plain.channel()).get_queue(queue.name)
        while (message := await source.get(fail=False, no_ack=True)) is not None:
            seen.add(int(message.body))
        await source.delete(if_unused=False, if_empty=False)
    equal(sorted(set(confirmed) - seen), [], "confirmed and lost")
    equal(len(confirmed) > 10, True, "enough confirmed")


if __name__ == "__main__":
    suite.main()
