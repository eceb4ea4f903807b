"""Cases of rstream that need another client or another listener: AMQP 1.0 with proton, and streams over TLS."""

import asyncio

from proton import Described, Message, symbol
from proton.reactor import ReceiverOption
from rstream import AMQPMessage, Consumer, ConsumerOffsetSpecification, OffsetType, Producer, Properties, amqp_decoder

from lab.cases import equal
from suites import proton_bench
from suites.network_bench import LISTENERS, Ground

OFFSET = "rabbitmq:stream-offset-spec"
LISTENERS["stream-tls"] = b"stream TLS"
OVER_TLS = {"stream__listeners__tcp__1": "127.0.0.1:0", "stream__listeners__ssl__1": "127.0.0.1:0",
            "stream__advertised_tls_host": "localhost"}


class From(ReceiverOption):
    """Where in the stream a 1.0 receiver begins."""

    def __init__(self, offset):
        self.offset = offset

    def apply(self, link):
        link.source.filter.put_dict({symbol(OFFSET): Described(symbol(OFFSET), self.offset)})


def add(suite, case, soon):
    """Registers them; `case` gives a desk to a coroutine, `soon` bounds what is waited for."""
    proton_bench.suite = suite
    suite.without_broker = "needs --broker"
    ground = Ground(suite)

    @case("across.from-10", "messages published over AMQP 1.0 to a stream", "are read with body, properties, application "
          "properties and annotations")
    async def _(desk):
        stream = await desk.stream()

        def publish():
            with proton_bench.Bench() as bench:
                sender = bench.sender(stream)
                for number in range(3):
                    sender.send(Message(body=b"%d" % number, inferred=True, id=f"id-{number}", subject="s", content_type="text/plain",
                                        properties={"number": number}, annotations={symbol("x-mine"): "kept"}))

        await asyncio.to_thread(publish)
        taken = await (await desk.reader(stream)).take(3)
        equal([(body, offset) for body, offset, _ in taken], [(b"0", 0), (b"1", 1), (b"2", 2)])
        for number, (_body, _offset, message) in enumerate(taken):
            properties = message.properties
            equal((properties.message_id, properties.subject, properties.content_type),
                  (b"id-%d" % number, b"s", b"text/plain"), "properties")
            equal(message.application_properties[b"number"], number, "application property")
            equal(message.message_annotations[b"x-mine"], b"kept", "annotation")

    @case("across.to-10", "messages published by a stream client, read over AMQP 1.0 from the second on",
          "body, properties and application properties; the annotation x-stream-offset counts them")
    async def _(desk):
        stream = await desk.stream()
        for number in range(3):
            message = AMQPMessage(body=b"%d" % number, application_properties={"number": number},
                                  properties=Properties(message_id=f"id-{number}", subject="s"))
            await soon(desk.producer.send_wait(stream, message))

        def read():
            with proton_bench.Bench() as bench:
                receiver = bench.receiver(stream, credit=5, options=From(1))
                for number in (1, 2):
                    message = receiver.receive()
                    equal((proton_bench.body_of(message), message.id, message.subject, message.properties,
                           message.annotations[symbol("x-stream-offset")]),
                          (b"%d" % number, f"id-{number}", "s", {"number": number}, number))

        await asyncio.to_thread(read)

    def over_tls():
        ground.broker(**OVER_TLS)
        return {"host": "localhost", "port": ground.port("stream-tls", **OVER_TLS), "username": "guest", "password": "guest",
                "ssl_context": ground.context()}

    async def round_trip():
        where = over_tls()
        async with Producer(**where) as producer:
            await producer.create_stream("tls")
            bodies = [b"message %d" % number for number in range(100)] + [bytes(300_000)]
            for body in bodies:
                await soon(producer.send_wait("tls", AMQPMessage(body=body)))
            seen = asyncio.Queue()

            async def heard(message, _context):
                await seen.put(bytes(message.body))

            # The consumer is closed before the stream goes: rstream 1.1.1 drops a subscription when it hears that its
            # stream is gone, and fails with a KeyError where it is closing that subscription itself.
            async with Consumer(**where) as consumer:
                await consumer.subscribe("tls", heard, decoder=amqp_decoder,
                                         offset_specification=ConsumerOffsetSpecification(OffsetType.FIRST, None))
                equal([await soon(seen.get()) for _ in bodies] == bodies, True, "bodies")
            await producer.delete_stream("tls")

    suite.add("tls.round-trip", "a client that speaks TLS creates, writes and reads a stream", "served; it is sent to the port for TLS",
              lambda: asyncio.run(round_trip()))
