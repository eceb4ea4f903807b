"""Streams beyond RabbitMQ: letting go of their beginning, consumers whose place is remembered, queues filled from them."""

import os
import random
import subprocess
import threading
import time

import pika
from proton import ulong

from lab.cases import Uri, equal, eventually
from suites.pika_bench import Consumer
from suites.queue_bench import needs_broker, refusal

NAME = "x-stream-consumer-name"


def ctl(broker, *words):
    words = [broker.binary, "ctl", "--data-dir", os.path.join(broker.folder, "data"), *words]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


def holds(desk, queue, count):
    eventually(lambda: desk.count(queue) == count, f"{queue} holds {count}")


def add(suite, streams, needs_replay, seen10, numbered):
    """Registers them; `streams` is a desk for streams, the others are what its own cases go by."""

    def own_broker(act):
        broker = needs_broker(suite)
        broker.start()
        before, suite.uri = suite.uri, Uri(broker.uri)
        try:
            act(broker)
        finally:
            suite.uri = before
            broker.close()

    def again(broker):
        broker.kill()
        broker.start()
        suite.uri = Uri(broker.uri)

    @suite.case("truncate", "truncate_stream of the command line, within a stream and at its end; the broker killed after each",
                "what lies before goes, in whole segments, and stays away; a stream that is not there: exit code 65")
    def _():
        def act(broker):
            with streams() as desk:
                stream = desk.stream(x_stream_max_segment_size_bytes=20_000)
                desk.forget(stream)
                desk.send(stream, *(b"%d" % number + b" " * 1000 for number in range(200)))
            words = ctl(broker, "truncate_stream", stream, "120", "-q").stdout.split()
            first = int(words[-1])
            if not 90 < first <= 120:
                raise AssertionError(f"the first offset is {first}")
            for before in (first, 200):
                again(broker)
                with streams() as desk:
                    seen = [offset for offset, _body in desk.read(stream, 200 - before, prefetch=500)]
                    equal(seen, list(range(before, 200)))
                equal(ctl(broker, "truncate_stream", stream, "1000", "-q").stdout, "The first offset is 200\n")
            with streams() as desk:
                desk.send(stream, b"200")
                equal(desk.read(stream, 1), numbered(200))
            equal(ctl(broker, "truncate_stream", "none-such", "1").returncode, 65)
        own_broker(act)

    @suite.case("name.resumed", "a consumer with x-stream-consumer-name over 0-9-1 settles five of ten; one of that name over 1.0; "
                "another name", "it goes on with the sixth, wherever it says to begin; the other begins there")
    def _():
        with streams() as desk:
            stream = desk.stream()
            needs_replay(stream)
            desk.send(stream, *(b"%d" % number for number in range(10)))
            reader = desk.reader(stream, "first", **{NAME: "app"})
            reader.wait(10)
            reader.channel.basic_ack(reader.deliveries[4][0].delivery_tag, multiple=True)
            # A message that is given back is not done with.
            reader.channel.basic_nack(reader.deliveries[5][0].delivery_tag, requeue=True)
            reader.channel.basic_ack(reader.deliveries[9][0].delivery_tag)
            reader.channel.close()
            equal(seen10(stream, 5, {"name": (NAME, "app")}), (numbered(5, 6, 7, 8, 9), ["name", "offset"]))
            equal(seen10(stream, 10, {"name": (NAME, "other")}), (numbered(*range(10)), ["name", "offset"]))

    @suite.case("name.refused", "x-stream-consumer-name of no and of 256 bytes, and a number; a filter of a number",
                "406, by name; not in place")
    def _():
        with streams() as desk:
            stream = desk.stream()
            needs_replay(stream)
            for name in "", "x" * 256, 5:
                channel = desk.connection.channel()
                channel.basic_qos(prefetch_count=5)
                why = "it is to be a text of 1 to 255 bytes"
                expected = f"PRECONDITION_FAILED - invalid arg '{NAME}' for queue '{stream}' in vhost '/': {why}"
                equal(refusal(lambda channel=channel, name=name: channel.basic_consume(
                    stream, lambda *_: None, arguments={NAME: name})), (406, expected))
            equal(seen10(stream, 0, {"name": (NAME, ulong(5))}), ([], ["offset"]))

    @suite.case("source.follows", "a queue with x-source-stream, from an offset on, with a filter, consumed and settled",
                "it holds what was wanted of the past, then what comes; what is rejected is dead-lettered; deleted, it begins anew")
    def _():
        with streams() as desk:
            stream, graves = desk.stream(), desk.queue()
            needs_replay(stream)
            for number in range(10):
                desk.send(stream, b"%d" % number, headers={"kind": "even" if number % 2 == 0 else "odd"})
            arguments = {"x-source-stream": stream, "x-source-offset": 3, "x-source-filter": "kind = 'even'",
                         "x-dead-letter-exchange": "", "x-dead-letter-routing-key": graves}
            queue = desk.queue(arguments=arguments)
            holds(desk, queue, 3)
            desk.send(stream, b"10", headers={"kind": "even"})
            desk.send(stream, b"11", headers={"kind": "odd"})
            holds(desk, queue, 4)
            method, properties, body = desk.channel.basic_get(queue)
            equal((body, method.routing_key, properties.headers["x-stream-offset"]), (b"4", stream, 4))
            desk.channel.basic_reject(method.delivery_tag, requeue=False)
            holds(desk, graves, 1)
            desk.channel.queue_delete(queue)
            queue = desk.queue(arguments=arguments)
            holds(desk, queue, 4)

    @suite.case("source.killed", "two queues filled from a stream, classic and quorum, while it is published to; the broker killed "
                "(kill -9) five times", "each holds each message of the stream once, in order")
    def _():
        def act(broker):
            with streams() as desk:
                stream = desk.stream()
                desk.forget(stream)
            number, queues = 0, {}
            for turn in range(6):
                with streams() as desk:
                    for kind in ("classic", "quorum") if turn == 1 else ():
                        queues[kind] = desk.queue(arguments={"x-queue-type": kind, "x-source-stream": stream})
                        desk.forget(queues[kind])
                    end = threading.Event()
                    channel = desk.connection.channel()
                    seconds = random.uniform(0.1, 0.6)
                    timer = threading.Timer(seconds, lambda: (broker.kill() if turn < 5 else None, end.set()))
                    timer.start()
                    try:
                        while not end.is_set():
                            properties = pika.BasicProperties(delivery_mode=2)
                            for _ in range(50):
                                channel.basic_publish("", stream, b"%d" % number, properties)
                                number += 1
                            # Not more than can be looked at in time.
                            desk.connection.process_data_events(0.01)
                    except (pika.exceptions.AMQPError, OSError):
                        pass
                    timer.join()
                if turn == 5:
                    break
                broker.start()
                suite.uri = Uri(broker.uri)
            with streams() as desk:
                reader = desk.reader(stream, "first", prefetch=5000)
                deadline = time.monotonic() + 30
                seen = -1
                while seen < len(reader.deliveries) and time.monotonic() < deadline:
                    seen = len(reader.deliveries)
                    if reader.deliveries:
                        reader.channel.basic_ack(reader.deliveries[-1][0].delivery_tag, multiple=True)
                    desk.later()
                total = [body for _method, _properties, body in reader.deliveries]
                for queue in queues.values():
                    holds(desk, queue, len(total))
                    consumer = Consumer(desk.connection.channel(), queue, auto_ack=True)
                    consumer.wait(len(total))
                    equal(consumer.bodies == total, True)
                equal(len(set(total)), len(total))
        own_broker(act)
