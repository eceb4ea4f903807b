"""Cases of memory: what a node keeps for channels, sessions, links and consumers, and for deliveries nobody settles."""

import contextlib
import struct
import threading

from lab import wire, wire10, wire_stream
from lab.cases import equal
from lab.wire import method, publish, queue_declare, short
from suites.memory_bench import SHARE, held, node, send, suite, tenants, watched
from suites.memory_holders import begin_stream

CHANNELS = 2000
CONSUMERS = 8000
LINKS = 250
SUBSCRIPTIONS = 250
# A user may be a quarter beyond his share by what is not refused.
OVERDRAFT = SHARE * 5 // 4
ANSWER = ("ours: counted in the same bounds; a connection whose user is a quarter beyond his is closed: {}. "
          "RabbitMQ has no bound")


def closed_with(peer):
    """The last that the peer was sent: up to its close, if it was closed."""
    data = b""
    with contextlib.suppress(OSError):
        while b"RESOURCE_ERROR" not in data and (more := peer.recv(1 << 20)):
            data = (data + more)[-4096:]
    return data


@suite.case("tables.091", f"connections with {CHANNELS:,} channels and {CONSUMERS:,} consumers, whose tags have 250 letters, until "
            "one is closed", ANSWER.format("506 `RESOURCE_ERROR - no memory for ... bytes of channels, consumers and unsettled "
                                           "deliveries: ...`"), 60)
def _():
    with node() as the, watched(the) as watch, contextlib.ExitStack() as stack:
        def hold():
            peer = stack.enter_context(tenants(the, 1, CHANNELS))[0]
            for first in range(0, CONSUMERS, 500):
                consumes = (method(1 + number % CHANNELS, 60, 20, b"\0\0" + short("theirs") + short(f"{number:0250}") +
                                   b"\x0a" + b"\0\0\0\0") for number in range(first, first + 500))
                peer.send(*consumes, queue_declare(1, "theirs", 0b1))
                peer.expect(50, 11)
            watch.check(OVERDRAFT)

        hold()
        one = held(the)
        assert one > 2_000_000, f"the ledger says {one} bytes"
        try:
            for _ in range(40):
                hold()
        except AssertionError as error:
            seen = str(error)
        else:
            raise AssertionError("no connection was closed")
        assert "506" in seen and "no memory for" in seen and "(leveret.user_memory_share)" in seen, seen
        watch.check(OVERDRAFT)


@suite.case("tables.10", f"connections of {LINKS} receivers in each of ten sessions, with names of 1,000 letters, until one is "
            "closed", ANSWER.format("`amqp:resource-limit-exceeded`"), 60)
def _():
    with node() as the, watched(the) as watch, tenants(the, 1, 1), contextlib.ExitStack() as stack:
        ended = False
        for _ in range(60):
            peer = stack.enter_context(wire10.Peer10(the.uri.as_user("tenant", "secret"), 15))
            peer.login10()
            for channel in range(10):
                peer.session(channel)
            said = b""
            for channel in range(10):
                for handle in range(LINKS):
                    peer.attach(f"{handle:01000}", handle, True, "/queues/theirs", channel)
                with contextlib.suppress(OSError):
                    while said.count(b"\0\x53\x12") < LINKS * (channel + 1):
                        more = peer.socket.recv(1 << 20)
                        if not more or b"resource-limit-exceeded" in said:
                            break
                        said += more
            watch.check(OVERDRAFT)
            if ended := b"resource-limit-exceeded" in said:
                break
        assert ended, "no connection was closed"


@suite.case("tables.streams", f"{SUBSCRIPTIONS} subscriptions of each of 40 connections, each with 3,000 bytes of properties",
            "ours alone: counted in the same bounds", 60)
def _():
    with node() as the, watched(the) as watch, tenants(the, 1, 1) as peers, contextlib.ExitStack() as stack:
        peers[0].send(queue_declare(1, "log", 0b10, {"x-queue-type": "stream"}))
        peers[0].expect(50, 11)
        for _ in range(40):
            peer = begin_stream(the)
            stack.enter_context(peer)
            for number in range(SUBSCRIPTIONS):
                said = peer.subscribe(number, "log", credit=1, note="n" * 3000)
                equal(said.code if hasattr(said, "code") else said, wire_stream.OK)
            said = watch.check(OVERDRAFT)
        assert said > 40 * SUBSCRIPTIONS * 3000, f"the ledger says {said} bytes"


@suite.case("tables.unsettled", "messages for a consumer that reads them and settles none, until it is closed",
            ANSWER.format("506 `RESOURCE_ERROR - no memory for ...`; the messages go back to their queue"), 120)
def _():
    watermark = 160_000_000
    with node(watermark=watermark) as the, watched(the) as watch, tenants(the, 2, 1) as (publisher, consumer):
        consumer.send(method(1, 60, 20, b"\0\0" + short("theirs") + short("c") + b"\0" + b"\0\0\0\0"))
        consumer.expect(60, 21)
        seen = []
        reads = threading.Thread(target=lambda: seen.append(closed_with(consumer.socket)))
        consumer.socket.settimeout(60)
        reads.start()
        batch = publish(1, "", "theirs", b"") * 2000
        for _ in range(1500):
            if not reads.is_alive() or not send(publisher, batch):
                break
        reads.join(60)
        assert seen and b"no memory for" in seen[0] and b"unsettled deliveries" in seen[0], seen
        equal(struct.unpack(">H", seen[0][seen[0].rindex(b"RESOURCE_ERROR") - 3:][:2])[0], 506)
        watch.check(watermark // 4 * 5 // 4)
