"""rstream: streams as Python applications use them, super streams and single active consumers included."""

import asyncio
import contextlib
import itertools
import logging
import os

import pika
from rstream import (
    AMQPMessage, CompressionType, Consumer, ConsumerOffsetSpecification, FilterConfiguration, MessageContext, OffsetType,
    Producer, SuperStreamConsumer, SuperStreamProducer, amqp_decoder,
)
from rstream import SuperStreamCreationOption, exceptions
from rstream.schema import OffsetSpecification
from rstream.superstream_producer import RouteType

from lab.cases import Suite, equal
from suites import network_bench, rstream_across

suite = Suite("rstream")
_numbers = itertools.count(1)
SECONDS_MAX = 20
QUIET_SECONDS = 0.3


def fresh(word):
    return f"foreign.rstream.{word}.{os.getpid():x}.{next(_numbers)}"


def address():
    return {"host": suite.uri.host, "port": suite.options.stream_port, "username": suite.uri.user,
            "password": suite.uri.password}


class Desk:
    """A producer, whose streams go with it, and consumers that end with it."""

    async def __aenter__(self):
        self.producer = Producer(**address())
        await self.producer.start()
        self.made, self.readers = [], []
        return self

    async def __aexit__(self, *_error):
        for reader in self.readers:
            await reader.close()
        for name in self.made:
            await self.producer.delete_stream(name, missing_ok=True)
        await self.producer.close()

    async def stream(self, **arguments):
        name = fresh("stream")
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        await self.producer.create_stream(name, arguments=named)
        self.made.append(name)
        return name

    async def send(self, stream, *bodies, **options):
        """Publishes and waits until all are confirmed."""
        for body in bodies:
            await soon(self.producer.send_wait(stream, AMQPMessage(body=body), **options))

    async def reader(self, stream, where=OffsetType.FIRST, value=None, **options):
        taken = Taken()
        consumer = Consumer(**address())
        await consumer.start()
        self.readers.append(consumer)
        offset = ConsumerOffsetSpecification(where, value)
        taken.id = await consumer.subscribe(stream, taken, decoder=amqp_decoder, offset_specification=offset, **options)
        taken.consumer = consumer
        return taken


class Taken:
    """The messages that came; `take` waits for some."""

    def __init__(self):
        self.queue = asyncio.Queue()

    async def __call__(self, message, context: MessageContext):
        await self.queue.put((bytes(message.body) if message.body else b"", context.offset, message))

    async def take(self, count):
        return [await soon(self.queue.get()) for _ in range(count)]

    async def bodies(self, count):
        return [body for body, _offset, _message in await self.take(count)]

    async def quiet(self):
        await asyncio.sleep(QUIET_SECONDS)
        equal(self.queue.qsize(), 0, "messages too many")


async def soon(future):
    return await asyncio.wait_for(future, SECONDS_MAX)


def case(name, behaviour, answer, **options):
    """Registers a coroutine that gets a desk."""

    def register(act):
        async def run():
            async with Desk() as desk:
                await act(desk)

        suite.add(name, behaviour, answer, lambda: asyncio.run(run()), **options)
        return act

    return register


def numbered(count, begin=0):
    return [b"message %d" % number for number in range(begin, begin + count)]


@case("publish.each", "messages sent one by one, each confirm awaited", "all are read, in order, with dense offsets")
async def _(desk):
    stream = await desk.stream()
    await desk.send(stream, *numbered(20))
    reader = await desk.reader(stream)
    taken = await reader.take(20)
    equal([body for body, _, _ in taken], numbered(20))
    equal([offset for _, offset, _ in taken], list(range(20)))


@case("publish.batches", "10,000 messages sent in batches of 100", "all are confirmed and read, in order")
async def _(desk):
    stream = await desk.stream()
    confirmed = 0
    done = asyncio.Event()

    async def told(status):
        nonlocal confirmed
        confirmed += status.is_confirmed
        if confirmed == 10_000:
            done.set()

    for begin in range(0, 10_000, 100):
        batch = [AMQPMessage(body=body) for body in numbered(100, begin)]
        await desk.producer.send_batch(stream, batch, on_publish_confirm=told)
    await soon(done.wait())
    reader = await desk.reader(stream)
    equal(await reader.bodies(10_000), numbered(10_000))


@case("publish.named", "a named publisher publishes ids again after a reconnection", "each id is stored once")
async def _(desk):
    stream = await desk.stream()
    for ids in (range(1, 6), range(3, 9)):
        async with Producer(**address()) as producer:
            for number in ids:
                message = AMQPMessage(body=b"message %d" % number)
                message.publishing_id = number
                await soon(producer.send_wait(stream, message, publisher_name="named"))
    reader = await desk.reader(stream)
    equal(await reader.bodies(8), numbered(8, 1))
    await reader.quiet()


@case("publish.compressed", "messages in batches compressed with gzip and not", "all are read, in order")
async def _(desk):
    stream = await desk.stream()
    done = asyncio.Event()
    confirmed = []

    async def told(status):
        confirmed.append(status.is_confirmed)
        if len(confirmed) == 2:
            done.set()

    for begin, compression in ((0, CompressionType.Gzip), (50, CompressionType.No)):
        batch = [AMQPMessage(body=body) for body in numbered(50, begin)]
        await desk.producer.send_sub_entry(
            stream, sub_entry_messages=batch, compression_type=compression, on_publish_confirm=told)
    await soon(done.wait())
    reader = await desk.reader(stream)
    equal(await reader.bodies(100), numbered(100))


@case("publish.large", "messages of 300,000 bytes", "are read as they were sent")
async def _(desk):
    stream = await desk.stream()
    bodies = [bytes([number]) * 300_000 for number in range(5)]
    await desk.send(stream, *bodies)
    reader = await desk.reader(stream)
    equal(await reader.bodies(5), bodies)


@case("stream.again", "a stream created twice, and deleted twice", "StreamAlreadyExists; StreamDoesNotExist")
async def _(desk):
    stream = await desk.stream()
    try:
        await desk.producer.create_stream(stream)
        raise AssertionError("created twice")
    except exceptions.StreamAlreadyExists:
        pass
    await desk.producer.delete_stream(stream)
    try:
        await desk.producer.delete_stream(stream)
        raise AssertionError("deleted twice")
    except exceptions.StreamDoesNotExist:
        pass


@case("stream.exists", "a stream looked for before and after it is deleted", "it is there, then it is not")
async def _(desk):
    stream = await desk.stream()
    equal(await desk.producer.stream_exists(stream), True)
    await desk.producer.delete_stream(stream)
    equal(await desk.producer.stream_exists(stream), False)


@case("read.offsets", "readers from first, next, last and an offset", "each gets what is from there on")
async def _(desk):
    stream = await desk.stream()
    await desk.send(stream, *numbered(10))
    at_next = await desk.reader(stream, OffsetType.NEXT)
    at_offset = await desk.reader(stream, OffsetType.OFFSET, 7)
    at_last = await desk.reader(stream, OffsetType.LAST)
    equal(await at_offset.bodies(3), numbered(3, 7))
    equal(await at_last.bodies(1), numbered(1, 9))
    await at_next.quiet()
    await desk.send(stream, b"new")
    for reader in (at_next, at_offset, at_last):
        equal(await reader.bodies(1), [b"new"])


@case("read.stored-offset", "a reader that stores its offset, and one that goes on from there", "nothing twice, nothing lost")
async def _(desk):
    stream = await desk.stream()
    await desk.send(stream, *numbered(10))
    reader = await desk.reader(stream)
    taken = await reader.take(5)
    await reader.consumer.store_offset(stream, "mine", taken[-1][1])
    await asyncio.sleep(QUIET_SECONDS)
    offset = await reader.consumer.query_offset(stream, "mine")
    equal(offset, 4)
    again = await desk.reader(stream, OffsetType.OFFSET, offset + 1)
    equal(await again.bodies(5), numbered(5, 5))


@case("read.no-offset", "an offset that was never stored", "OffsetNotFound")
async def _(desk):
    stream = await desk.stream()
    reader = await desk.reader(stream)
    try:
        await reader.consumer.query_offset(stream, "nobody")
        raise AssertionError("an offset")
    except exceptions.OffsetNotFound:
        pass


@case("read.fan-out", "five readers of one stream while it is written", "each gets everything, in order")
async def _(desk):
    stream = await desk.stream()
    readers = [await desk.reader(stream) for _ in range(5)]
    await desk.send(stream, *numbered(100))
    for reader in readers:
        equal(await reader.bodies(100), numbered(100))


@case("read.unsubscribed", "a reader that unsubscribes", "gets nothing more")
async def _(desk):
    stream = await desk.stream()
    reader = await desk.reader(stream)
    await desk.send(stream, b"one")
    equal(await reader.bodies(1), [b"one"])
    await reader.consumer.unsubscribe(reader.id)
    await desk.send(stream, b"two")
    await reader.quiet()


@case("read.filter", "messages with filter values, and a reader of one of them", "the reader gets those alone")
async def _(desk):
    stream = await desk.stream()
    region = lambda message: message.application_properties["region"]

    async def filter_value(message):
        return region(message)

    async with Producer(**address(), filter_value_extractor=filter_value) as producer:
        for number, name in enumerate(["north", "south", "north"]):
            message = AMQPMessage(body=b"%d" % number, application_properties={"region": name})
            await soon(producer.send_wait(stream, message))
    wanted = FilterConfiguration(
        values_to_filter=["north"], predicate=lambda message: message.application_properties[b"region"] == b"north")
    reader = await desk.reader(stream, filter_input=wanted)
    equal(await reader.bodies(2), [b"0", b"2"])
    await reader.quiet()


@case("read.content", "messages of JSON in chunks of their own, readers with the property x-filter, one of them with a fault",
      "ours alone: a reader gets the chunks in which something matches, and no others; 0x11")
async def _(desk):
    stream = await desk.stream()
    for number in range(5):
        await desk.send(stream, b'{"n": %d, "tags": ["t%d"]}' % (number, number % 2))
    for wanted, numbers in (("body.n >= 3", (3, 4)), ("body.tags = 't1'", (1, 3)), ("/n = 7", ())):
        reader = await desk.reader(stream, properties={"x-filter": wanted})
        equal(await reader.bodies(len(numbers)), [b'{"n": %d, "tags": ["t%d"]}' % (number, number % 2) for number in numbers], wanted)
        await reader.quiet()
    late = await desk.reader(stream, OffsetType.NEXT, properties={"x-filter": "body.n = 9"})
    await desk.send(stream, b'{"n": 8}', b'{"n": 9}')
    equal(await late.bodies(1), [b'{"n": 9}'])
    try:
        await desk.reader(stream, properties={"x-filter": "body.n > > 1"})
    except exceptions.PreconditionFailed:
        pass
    else:
        raise AssertionError("it was let in")


# ---- across protocols


def amqp091():
    uri = suite.uri
    credentials = pika.PlainCredentials(uri.user, uri.password)
    return pika.BlockingConnection(pika.ConnectionParameters(uri.host, uri.port, uri.vhost, credentials))


@case("across.from-091", "messages published over 0-9-1 to a stream", "are read with body, properties and headers")
async def _(desk):
    stream = await desk.stream()

    def publish():
        with contextlib.closing(amqp091()) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for number in range(3):
                properties = pika.BasicProperties(
                    content_type="text/plain", message_id=f"id-{number}", headers={"number": number})
                channel.basic_publish("", stream, b"%d" % number, properties)

    await asyncio.to_thread(publish)
    reader = await desk.reader(stream)
    taken = await reader.take(3)
    equal([(body, offset) for body, offset, _ in taken], [(b"0", 0), (b"1", 1), (b"2", 2)])
    for number, (_body, _offset, message) in enumerate(taken):
        equal(message.properties.content_type, b"text/plain", "content type")
        equal(message.properties.message_id, b"id-%d" % number, "message id")
        equal(message.application_properties[b"number"], number, "header")


@case("across.to-091", "messages published by a stream client, read over 0-9-1",
      "body, properties and headers; the header x-stream-offset counts them")
async def _(desk):
    stream = await desk.stream()
    for number in range(3):
        message = AMQPMessage(body=b"%d" % number, application_properties={"number": number})
        await soon(desk.producer.send_wait(stream, message))

    def read():
        with contextlib.closing(amqp091()) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=10)
            taken = []
            for method, properties, body in channel.consume(
                    stream, arguments={"x-stream-offset": "first"}, inactivity_timeout=10):
                assert method, f"only {taken} came"
                channel.basic_ack(method.delivery_tag)
                taken.append((body, properties.headers["number"], properties.headers["x-stream-offset"]))
                if len(taken) == 3:
                    return taken

    equal(await asyncio.to_thread(read), [(b"0", 0, 0), (b"1", 1, 1), (b"2", 2, 2)])


@case("across.batch-to-091", "messages in a batch that is not compressed, read over 0-9-1 from the second on",
      "one by one, from that offset")
async def _(desk):
    stream = await desk.stream()
    done = asyncio.Event()

    async def told(_status):
        done.set()

    batch = [AMQPMessage(body=body) for body in numbered(5)]
    await desk.producer.send_sub_entry(
        stream, sub_entry_messages=batch, compression_type=CompressionType.No, on_publish_confirm=told)
    await soon(done.wait())

    def read():
        with contextlib.closing(amqp091()) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=10)
            taken = []
            for method, _properties, body in channel.consume(
                    stream, arguments={"x-stream-offset": 1}, inactivity_timeout=10):
                assert method, f"only {taken} came"
                taken.append(body)
                if len(taken) == 4:
                    return taken

    equal(await asyncio.to_thread(read), numbered(4, 1))


async def super_stream(count=3):
    name = fresh("super")

    async def key(message):
        return message.application_properties["id"]

    producer = SuperStreamProducer(
        **address(), super_stream=name, routing_extractor=key, routing=RouteType.Hash)
    return name, producer


@case("super.hash", "messages spread over a super stream by the hash of their key",
      "all arrive; those with the same key in order, from one partition")
async def _(desk):
    name, producer = await super_stream()
    option = SuperStreamCreationOption(n_partitions=3)
    creator = SuperStreamConsumer(**address(), super_stream=name, super_stream_creation_option=option)
    await creator.start()
    await producer.start()
    for number in range(60):
        key = str(number % 7)
        message = AMQPMessage(body=b"%d" % number, application_properties={"id": key})
        await producer.send(message)
    taken, partitions = [], {}

    done = asyncio.Event()

    async def heard(message, context):
        number = int(bytes(message.body))
        taken.append(number)
        partitions.setdefault(number % 7, set()).add(context.stream)
        if len(taken) == 60:
            done.set()

    await creator.subscribe(heard, decoder=amqp_decoder,
                            offset_specification=ConsumerOffsetSpecification(OffsetType.FIRST, None))
    await soon(done.wait())
    for key in range(7):
        own = [number for number in taken if number % 7 == key]
        equal(own, sorted(own), f"the order of key {key}")
        equal(len(partitions[key]), 1, f"partitions of key {key}")
    equal(len(set().union(*partitions.values())) > 1, True, "several partitions")
    await producer.close()
    await creator.close()
    async with SuperStreamConsumer(**address(), super_stream=name) as other:
        await other.delete_super_stream(name)


@case("single.takes-over", "two single active consumers, of which the active one leaves",
      "the other goes on from where it says")
async def _(desk):
    stream = await desk.stream()
    await desk.send(stream, *numbered(3))
    properties = {"single-active-consumer": "true", "name": "group"}

    async def begin(_active, _context):
        return OffsetSpecification(OffsetType.FIRST, 0)

    options = {"properties": properties, "consumer_update_listener": begin}
    first = await desk.reader(stream, subscriber_name="group", **options)
    equal(await first.bodies(3), numbered(3))
    second = await desk.reader(stream, subscriber_name="group", **options)
    await second.quiet()
    await first.consumer.close()
    desk.readers.remove(first.consumer)
    equal(await second.bodies(3), numbered(3))


rstream_across.add(suite, case, soon)


def add_options(parser):
    parser.add_argument("--stream-port", type=int, default=5552)
    network_bench.options(parser)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    suite.main(add_options)
