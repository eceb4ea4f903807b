"""Streams over the stream protocol, byte by byte: making them, publishing, reading, offsets, super streams."""

import struct
import threading
import time
import zlib

from lab.broker import Broker
from lab.cases import Skip, Uri, equal, eventually
from lab.wire_stream import (
    AT, CONFIRM, CONSUMER_UPDATE, CREATE, CREDIT, DECLARE, DELETE, DELETE_PUBLISHER, DELETE_SUPER, DELIVER, ERROR, FIRST, LAST,
    MAKE_SUPER, METADATA, NEXT, OFFSET, OK, PARTITIONS, RESOLVE, ROUTE, SEQUENCE, SINCE, STATS, STORE, UNSUBSCRIBE,
    UPDATE, VERSIONS, Peer, batch, message, names, offset, pairs, text,
)
from suites.stream_wire_refusals import Bench, case, fresh, suite, peer

QUIET_SECONDS = 0.3
AGAIN = 0x05
UNFIT = 0x11


# ---- making and deleting


@case("create.again", "a stream created twice, then with other arguments", "0x01, 0x05, 0x11")
def _(bench):
    name = bench.stream()
    equal(bench.peer.code(CREATE, text(name) + pairs({})), AGAIN)
    equal(bench.peer.code(CREATE, text(name) + pairs({"max-age": "5h"})), UNFIT)


ARGUMENTS = [
    ("max-length-bytes", "1000000", OK), ("max-age", "5h", OK), ("stream-max-segment-size-bytes", "500000", OK),
    ("stream-filter-size-bytes", "32", OK), ("stream-filter-size-bytes", "15", UNFIT),
    ("stream-filter-size-bytes", "256", UNFIT), ("initial-cluster-size", "0", UNFIT),
    ("queue-leader-locator", "balanced", OK), ("queue-leader-locator", "nearest", UNFIT), ("unheard-of", "1", OK),
]


def created(argument, value, code):
    @case(f"create.{argument}.{value}", f"a stream created with {argument} {value}", f"response {code:#04x}")
    def _(bench):
        name = fresh("arguments")
        equal(bench.peer.code(CREATE, text(name) + pairs({argument: value})), code)
        if code == OK:
            bench.made.append(name)


for row in ARGUMENTS:
    created(*row)


@case("create.line-ends", "a name with ends of lines", "they are left out")
def _(bench):
    name = fresh("lines")
    equal(bench.peer.code(CREATE, text(name[:4] + "\r\n" + name[4:]) + pairs({})), OK)
    bench.made.append(name)
    equal(bench.peer.code(CREATE, text(name) + pairs({})), AGAIN)


@case("delete.told", "a stream deleted that the connection publishes to and reads",
      "response 0x01, then one metadata update 0x06; publisher and subscription are gone")
def _(bench):
    name = bench.stream()
    bench.publisher(name)
    equal(bench.peer.subscribe(4, name), OK)
    equal(bench.peer.code(DELETE, text(name)), OK)
    equal(bench.peer.next(UPDATE).rest, struct.pack(">H", 0x06) + text(name))
    equal(bench.peer.code(DELETE_PUBLISHER, b"\x01"), 0x12)
    equal(bench.peer.code(UNSUBSCRIBE, b"\x04"), 0x04)


@case("delete.told-others", "a stream deleted by another connection", "a metadata update 0x06")
def _(bench):
    name = bench.stream()
    bench.publisher(name)
    with Bench() as other:
        equal(other.peer.code(DELETE, text(name)), OK)
    equal(bench.peer.next(UPDATE).rest, struct.pack(">H", 0x06) + text(name))


@case("metadata.here", "metadata of a stream", "one broker, which is its leader, and no replicas")
def _(bench):
    name = bench.stream()
    rest = bench.peer.ask(METADATA, names([name])).rest
    equal(rest[4:8], struct.pack(">I", 1), "brokers")
    assert rest.endswith(struct.pack(">I", 1) + text(name) + struct.pack(">HHI", OK, 0, 0)), rest


# ---- publishing


@case("publish.confirm", "messages with publishing ids 7, 3 and 100", "each is confirmed under its id")
def _(bench):
    bench.publisher(bench.stream())
    bench.peer.publish(1, message(7, b"a"), message(3, b"b"), message(100, b"c"))
    equal(sorted(bench.confirmed(3)), [3, 7, 100])


@case("publish.taken", "a publisher with an id, then with a reference, that is taken", "response 0x11 for both")
def _(bench):
    name = bench.stream()
    bench.publisher(name, 1, "mine")
    equal(bench.peer.code(DECLARE, b"\x01" + text("other") + text(name)), UNFIT)
    equal(bench.peer.code(DECLARE, b"\x02" + text("mine") + text(name)), UNFIT)


@case("publish.long-reference", "references of 255 and of 256 bytes", "0x01 and 0x11")
def _(bench):
    name = bench.stream()
    equal(bench.peer.code(DECLARE, b"\x01" + text("r" * 255) + text(name)), OK)
    equal(bench.peer.code(DECLARE, b"\x02" + text("r" * 256) + text(name)), UNFIT)


@case("publish.most", "256 publishers on a connection, and one more", "0x01 each, then 0x11")
def _(bench):
    name = bench.stream()
    for number in range(256):
        bench.publisher(name, number)
    equal(bench.peer.code(DECLARE, b"\x00" + text("") + text(name)), UNFIT)


@case("publish.again", "messages published again under a reference", "all are confirmed, each is stored once")
def _(bench):
    name = bench.stream()
    bench.publisher(name, 1, "ref")
    bench.peer.publish(1, message(1, b"a"), message(2, b"b"))
    bench.confirmed(2)
    bench.peer.publish(1, message(2, b"b"), message(3, b"c"))
    equal(sorted(bench.confirmed(2)), [2, 3])
    equal(bench.peer.subscribe(1, name), OK)
    equal(bench.entries(3), [b"a", b"b", b"c"])


@case("publish.sequence", "the sequence of a reference before and after publishing", "0, then the highest id")
def _(bench):
    name = bench.stream()
    ask = lambda: struct.unpack(">HQ", bench.peer.ask(SEQUENCE, text("ref") + text(name)).rest[4:])
    equal(ask(), (OK, 0))
    bench.publisher(name, 1, "ref")
    bench.peer.publish(1, message(5, b"a"), message(9, b"b"))
    bench.confirmed(2)
    equal(ask(), (OK, 9))


@case("publish.batch", "a sub-batch of three messages, compressed", "delivered as it was sent; it takes three offsets")
def _(bench):
    name = bench.stream()
    bench.publisher(name)
    inner = b"".join(struct.pack(">I", 1) + body for body in (b"a", b"b", b"c"))
    packed = zlib.compress(inner, wbits=31)
    bench.peer.publish(1, batch(1, 3, packed, compression=1, size=len(inner)))
    bench.peer.publish(1, message(2, b"z"))
    equal(sorted(bench.confirmed(2)), [1, 2])
    equal(bench.peer.subscribe(1, name), OK)
    equal(bench.entries(2), [(1, 3, packed), b"z"])
    equal(bench.peer.code(UNSUBSCRIBE, b"\x01"), OK)
    equal(bench.peer.subscribe(2, name, offset(NEXT)), OK)
    bench.peer.publish(1, message(3, b"last"))
    equal(bench.peer.next(DELIVER).chunk()[1:], (4, [b"last"]))


BATCHES = [
    ("too-large", lambda: batch(2, 1, b"abcd", size=(64 << 20) + 1)), ("empty", lambda: batch(2, 0, b"abcd")),
    ("too-many", lambda: batch(2, 9, b"abcd", size=4)), ("unknown-compression", lambda: batch(2, 1, b"abcd", compression=5)),
    ("nothing-compressed", lambda: batch(2, 1, b"", compression=1, size=4)),
]


def unfit(name, make):
    @case(f"publish.batch.{name}", f"between two messages a sub-batch that cannot be ({name})",
          "the first is confirmed; publish error 0x11 for the batch and the last")
    def _(bench):
        bench.publisher(bench.stream())
        bench.peer.publish(1, message(1, b"a"), make(), message(3, b"c"))
        equal(bench.peer.next(ERROR).ids(), [(2, UNFIT), (3, UNFIT)])
        equal(bench.confirmed(1), [1])


for row in BATCHES:
    unfit(*row)


@case("publish.deleted", "messages of a publisher that was deleted", "publish error 0x12")
def _(bench):
    bench.publisher(bench.stream())
    equal(bench.peer.code(DELETE_PUBLISHER, b"\x01"), OK)
    bench.peer.publish(1, message(1, b"a"))
    equal(bench.peer.next(ERROR).ids(), [(1, 0x12)])


def seconds_to_publish(*settings):
    """How long 400 messages of 10,000 bytes take, each in a frame of its own, where a flush takes a tenth of a second."""
    slow = ("leveret.test_sync_delay_us=100000", "stream.listeners.tcp.1=127.0.0.1:0")
    broker = Broker(suite.options.broker, [*slow, *settings])
    try:
        broker.start()
        with Peer(Uri(broker.uri), broker.stream_port(), seconds_max=60.0) as peer:
            equal(peer.code(CREATE, text("s") + pairs({})), OK)
            equal(peer.code(DECLARE, b"\x01" + text("") + text("s")), OK)
            begin, body = time.monotonic(), b"x" * 10_000
            sender = threading.Thread(
                target=lambda: [peer.publish(1, message(number, body)) for number in range(400)], daemon=True)
            sender.start()
            ids = []
            while len(ids) < 400:
                ids += peer.next(CONFIRM).ids()
            sender.join()
            equal(ids, list(range(400)))
            return time.monotonic() - begin
    finally:
        broker.close()


@suite.case("publish.held", "400 messages of 10,000 bytes to a slow disk, with 20 initial credits and with 50,000",
            "20 and little more are read for each flush; all at once")
def _():
    if not suite.options.broker:
        raise Skip("needs a broker with a slow disk (--broker)")
    held = seconds_to_publish("stream.initial_credits=20", "stream.credits_required_for_unblocking=10")
    at_once = seconds_to_publish()
    assert held > 1.0 and at_once < held / 2, (held, at_once)


# ---- reading


@case("read.first", "a subscription from the first message", "all there is, then what comes")
def _(bench):
    name = bench.stream()
    bench.fill(name, b"a", b"b")
    equal(bench.peer.subscribe(1, name), OK)
    equal(bench.entries(2), [b"a", b"b"])
    bench.fill(name, b"c")
    equal(bench.entries(1), [b"c"])


@case("read.next", "a subscription from what comes next", "only what comes")
def _(bench):
    name = bench.stream()
    bench.fill(name, b"a", b"b")
    equal(bench.peer.subscribe(1, name, offset(NEXT)), OK)
    bench.fill(name, b"c")
    equal(bench.entries(1), [b"c"])


@case("read.last", "a subscription from the last chunk", "the last chunk, then what comes")
def _(bench):
    name = bench.stream()
    bench.fill(name, b"a", b"b", b"c")
    equal(bench.peer.subscribe(1, name, offset(LAST)), OK)
    equal(bench.entries(1), [b"c"])


@case("read.offset", "a subscription from an offset within a chunk", "the chunk is delivered from its beginning")
def _(bench):
    name = bench.stream()
    bench.publisher(name)
    bench.peer.publish(1, batch(1, 5, b"".join(struct.pack(">I", 1) + b"x" for _ in range(5))))
    bench.confirmed(1)
    bench.fill(name, b"behind")
    equal(bench.peer.subscribe(1, name, offset(AT, 3)), OK)
    equal(bench.peer.next(DELIVER).chunk()[1], 0)
    equal(bench.peer.subscribe(2, name, offset(AT, 5)), OK)
    while True:
        number, first, entries = bench.peer.next(DELIVER).chunk()
        if number == 2:
            equal((first, entries), (5, [b"behind"]))
            break


@case("read.negative", "a subscription from an offset below 0, which the protocol has none of; such an offset resolved",
      "the chunk with the message so many before the end; its offset")
def _(bench):
    name = bench.stream()
    for body in (b"a", b"b", b"c"):
        bench.fill(name, body)
    below = 2 ** 64 - 2
    resolved = struct.unpack(">HHQ", bench.peer.ask(RESOLVE, text(name) + offset(AT, below)).rest[4:])
    if resolved == (OK, 4, 3):
        raise Skip("to it that is an offset that is not there yet")
    equal(resolved, (OK, 4, 1))
    equal(bench.peer.subscribe(1, name, offset(AT, below)), OK)
    chunk = bench.peer.next(DELIVER).chunk()
    equal((chunk[1], chunk[2]), (1, [b"b"]))


@case("read.timestamp", "a subscription from a moment between two messages", "the second message")
def _(bench):
    name = bench.stream()
    bench.fill(name, b"a")
    time.sleep(0.1)
    moment = int(time.time() * 1000)
    time.sleep(0.1)
    bench.fill(name, b"b")
    equal(bench.peer.subscribe(1, name, offset(SINCE, moment)), OK)
    equal(bench.entries(1), [b"b"])


@case("read.beyond", "a subscription from an offset that is not there yet", "what comes next")
def _(bench):
    name = bench.stream()
    bench.fill(name, b"a")
    equal(bench.peer.subscribe(1, name, offset(AT, 1000)), OK)
    bench.fill(name, b"b")
    equal(bench.entries(1), [b"b"])


@case("read.credit", "a subscription with one credit, then two more", "one chunk, then two")
def _(bench):
    name = bench.stream()
    bench.fill(name, b"a", b"b", b"c", b"d")
    equal(bench.peer.subscribe(1, name, credit=1), OK)
    equal(bench.entries(1), [b"a"])
    time.sleep(QUIET_SECONDS)
    bench.peer.code(UNSUBSCRIBE, b"\x63")
    assert not [frame for frame in bench.peer.waiting if frame.key == DELIVER], "a chunk without credit"
    bench.peer.say(CREDIT, struct.pack(">Bh", 1, 2))
    equal(bench.entries(2), [b"b", b"c"])


@case("read.burst", "1,000 messages in one frame, and a subscription with one credit", "some of them, in one chunk, and not all")
def _(bench):
    name = bench.stream()
    bench.publisher(name)
    bench.peer.publish(1, *(message(number, b"x") for number in range(1000)))
    bench.confirmed(1000)
    equal(bench.peer.subscribe(1, name, credit=1), OK)
    _, first, entries = bench.peer.next(DELIVER).chunk()
    assert first == 0 and 0 < len(entries) < 1000, (first, len(entries))


@case("read.taken", "a subscription id that is taken", "response 0x03")
def _(bench):
    name = bench.stream()
    equal(bench.peer.subscribe(1, name), OK)
    equal(bench.peer.subscribe(1, name), 0x03)


@case("read.most", "256 subscriptions on a connection, and one more", "0x01 each, then 0x11")
def _(bench):
    name = bench.stream()
    for number in range(256):
        equal(bench.peer.subscribe(number, name, offset(NEXT)), OK)
    equal(bench.peer.subscribe(0, name, offset(NEXT)), UNFIT)


@case("read.unsubscribed", "messages after the subscription ended", "are not delivered")
def _(bench):
    name = bench.stream()
    equal(bench.peer.subscribe(1, name), OK)
    equal(bench.peer.code(UNSUBSCRIBE, b"\x01"), OK)
    bench.fill(name, b"a")
    time.sleep(QUIET_SECONDS)
    equal(bench.peer.code(UNSUBSCRIBE, b"\x01"), 0x04)
    assert not [frame for frame in bench.peer.waiting if frame.key == DELIVER], "a chunk"


@case("read.version", "delivery before and after version 2 was agreed on", "version 1, then 2 with the committed chunk id")
def _(bench):
    name = bench.stream()
    bench.fill(name, b"a")
    equal(bench.peer.subscribe(1, name, credit=1), OK)
    equal(bench.peer.next(DELIVER).version, 1)
    bench.peer.ask(VERSIONS, struct.pack(">IHHH", 1, DELIVER, 1, 2))
    equal(bench.peer.subscribe(2, name, credit=1), OK)
    frame = bench.peer.next(DELIVER)
    equal((frame.version, frame.rest[0], struct.unpack(">Q", frame.rest[1:9])[0]), (2, 2, 0))


@case("read.filter", "messages with filter values, and a subscription for one of them",
      "only chunks that may hold the value")
def _(bench):
    name = bench.stream()
    bench.publisher(name)
    for number, value in enumerate([b"apple", b"pear", b"apple"]):
        body = struct.pack(">Q", number) + text(value) + struct.pack(">I", 1) + b"%d" % number
        bench.peer.publish(1, body, version=2)
        bench.confirmed(1)
    bench.fill(name, b"none")
    equal(bench.peer.subscribe(1, name, **{"filter.0": "apple"}), OK)
    equal(bench.entries(2), [b"0", b"2"])
    equal(bench.peer.subscribe(2, name, **{"filter.0": "pear", "match-unfiltered": "true"}), OK)
    equal(bench.entries(2), [b"1", b"none"])


@case("read.chunk", "a chunk that was delivered", "its checksum is that of its data")
def _(bench):
    name = bench.stream()
    bench.fill(name, b"some bytes")
    equal(bench.peer.subscribe(1, name), OK)
    body = bench.peer.next(DELIVER).rest[1:]
    crc, length = struct.unpack(">II", body[32:40])
    equal((zlib.crc32(body[48:48 + length]), body[0], len(body) - 48), (crc, 0x50, length))


# ---- offsets


def stored(bench, name):
    return struct.unpack(">HQ", bench.peer.ask(OFFSET, text("ref") + text(name)).rest[4:])


@case("offset.stored", "an offset queried before and after it is stored", "0x13; then 0x01 and the offset")
def _(bench):
    name = bench.stream()
    equal(stored(bench, name), (0x13, 0))
    bench.fill(name, b"a", b"b", b"c")
    bench.peer.say(STORE, text("ref") + text(name) + struct.pack(">Q", 2))
    equal(stored(bench, name), (OK, 2), "the offset, at once")


@case("offset.beyond", "an offset beyond the last message stored, and one of 2^62", "kept as it was said")
def _(bench):
    name = bench.stream()
    bench.fill(name, b"a", b"b", b"c")
    for said in (100, 1 << 62, 1):
        bench.peer.say(STORE, text("ref") + text(name) + struct.pack(">Q", said))
        equal(stored(bench, name), (OK, said))


def holds(other, reference, name, offset):
    def is_told():
        return struct.unpack(">HQ", other.ask(OFFSET, text(reference) + text(name)).rest[4:]) == (OK, offset)

    eventually(is_told, reference, 30, 0.05)


@case("offset.crowd", "a consumer that stored its offset once, and another connection that stores 70,000 names, offsets of 2^62 among them",
      "the first one's stays (ours: of the others the oldest are forgotten beyond 65,536)", seconds_max=120)
def _(bench):
    name = bench.stream()
    bench.fill(name, b"a", b"b", b"c")
    bench.peer.say(STORE, text("ref") + text(name) + struct.pack(">Q", 2))
    equal(stored(bench, name), (OK, 2))
    with peer() as other:
        for first in range(0, 70_000, 100):
            for number in range(first, first + 100):
                other.say(STORE, text(f"name-{number}") + text(name) + struct.pack(">Q", 1 << 62 if number % 2 else 1))
            # Offsets that were stored before are stored when this is answered; of very many, once they are on disk.
            holds(other, f"name-{first}", name, 1)
        holds(other, "name-69999", name, 1 << 62)
    equal(stored(bench, name), (OK, 2), "of who stored one")
    # And what it stores from here on is kept.
    bench.peer.say(STORE, text("ref") + text(name) + struct.pack(">Q", 1))
    equal(stored(bench, name), (OK, 1))


@case("offset.stats", "statistics of an empty stream, and of one with three chunks", "-1 each; then 0, 2 and 2")
def _(bench):
    name = bench.stream()

    def stats():
        rest = bench.peer.ask(STATS, text(name)).rest
        return [struct.unpack(">q", rest[rest.index(text(key)) + len(text(key)):][:8])[0]
                for key in ("first_chunk_id", "last_chunk_id", "committed_offset")]

    equal(stats(), [-1, -1, -1])
    bench.fill(name, b"a", b"b", b"c")
    equal(stats(), [0, 2, 2])


@case("offset.resolve", "first, last, next and an offset resolved", "as offsets: 0, 2, 3 and 1")
def _(bench):
    name = bench.stream()
    bench.fill(name, b"a", b"b", b"c")
    resolve = lambda where: struct.unpack(">HHQ", bench.peer.ask(RESOLVE, text(name) + where).rest[4:])
    for where, expected in [(offset(FIRST), 0), (offset(LAST), 2), (offset(NEXT), 3), (offset(AT, 1), 1)]:
        equal(resolve(where), (OK, 4, expected))


# ---- single active consumers


def updates(bench, count):
    """Answers so many updates with `first`; which subscription became active or not."""
    seen = []
    for _ in range(count):
        frame = bench.peer.next(CONSUMER_UPDATE)
        seen.append((frame.rest[4], frame.rest[5] == 1))
        bench.peer.say(CONSUMER_UPDATE | 0x8000, frame.rest[:4] + struct.pack(">HH", OK, FIRST))
    return seen


SINGLE = {"single-active-consumer": "true", "name": "group"}


@case("single.one", "two subscriptions of a group, of which the first ends", "one at a time is active and gets messages")
def _(bench):
    name = bench.stream()
    bench.fill(name, b"a")
    equal(bench.peer.subscribe(1, name, **SINGLE), OK)
    equal(updates(bench, 1), [(1, True)])
    equal(bench.peer.next(DELIVER).chunk(), (1, 0, [b"a"]))
    equal(bench.peer.subscribe(2, name, **SINGLE), OK)
    equal(bench.peer.code(UNSUBSCRIBE, b"\x01"), OK)
    equal(updates(bench, 1), [(2, True)])
    equal(bench.peer.next(DELIVER).chunk(), (2, 0, [b"a"]))


@case("single.unnamed", "a single active consumer without a name", "response 0x11")
def _(bench):
    equal(bench.peer.subscribe(1, bench.stream(), **{"single-active-consumer": "true"}), UNFIT)


@case("single.credit", "credit for one that is not active", "credit response 0x11")
def _(bench):
    name = bench.stream()
    equal(bench.peer.subscribe(1, name, **SINGLE), OK)
    updates(bench, 1)
    equal(bench.peer.subscribe(2, name, **SINGLE), OK)
    bench.peer.say(CREDIT, struct.pack(">Bh", 2, 1))
    equal(bench.peer.next(CREDIT).rest, struct.pack(">HB", UNFIT, 2))


# ---- super streams


def super_stream(bench, count=3, **arguments):
    name = fresh("super")
    partitions = [f"{name}-{number}" for number in range(count)]
    keys = [str(number) for number in range(count)]
    body = text(name) + names(partitions) + names(keys) + pairs(arguments)
    return name, partitions, bench.peer.code(MAKE_SUPER, body)


@case("super.made", "a super stream of three partitions", "partitions in order; a key routes to its partition")
def _(bench):
    name, partitions, code = super_stream(bench)
    equal(code, OK)
    equal(bench.peer.ask(PARTITIONS, text(name)).rest[4:], struct.pack(">H", OK) + names(partitions))
    equal(bench.peer.ask(ROUTE, text("1") + text(name)).rest[4:], struct.pack(">H", OK) + names([partitions[1]]))
    equal(bench.peer.ask(ROUTE, text("none") + text(name)).rest[4:], struct.pack(">H", OK) + names([]))
    equal(bench.peer.code(DELETE_SUPER, text(name)), OK)
    equal(bench.peer.code(PARTITIONS, text(name)), 0x02)
    equal(bench.peer.code(DELETE, text(partitions[0])), 0x02)


@case("super.again", "a super stream that is there, and one of whose partitions is", "response 0x05 for both")
def _(bench):
    name, partitions, _ = super_stream(bench)
    body = text(name) + names(partitions) + names(["0", "1", "2"]) + pairs({})
    equal(bench.peer.code(MAKE_SUPER, body), AGAIN)
    other = text(fresh("super")) + names([partitions[0]]) + names(["0"]) + pairs({})
    equal(bench.peer.code(MAKE_SUPER, other), AGAIN)
    equal(bench.peer.code(DELETE_SUPER, text(name)), OK)


@case("super.single", "a member of a group whose super stream is not that of the others", "response 0x11")
def _(bench):
    name, partitions, _ = super_stream(bench)
    equal(bench.peer.subscribe(1, partitions[1], **SINGLE, **{"super-stream": name}), OK)
    updates(bench, 1)
    equal(bench.peer.subscribe(2, partitions[1], **SINGLE), UNFIT)
    equal(bench.peer.code(UNSUBSCRIBE, b"\x01"), OK)
    equal(bench.peer.subscribe(2, partitions[1], **SINGLE), OK)
    updates(bench, 1)
    equal(bench.peer.subscribe(1, partitions[1], **SINGLE, **{"super-stream": name}), UNFIT)
    equal(bench.peer.code(DELETE_SUPER, text(name)), OK)


UNFITS = [
    ("fewer-keys", lambda name: names([name + "-0", name + "-1"]) + names(["0"])),
    ("twice-the-same", lambda name: names([name + "-0", name + "-0"]) + names(["0", "1"])),
    ("too-many", lambda name: names([f"{name}-{n}" for n in range(1001)]) + names([str(n) for n in range(1001)])),
]


def unfit_super(name, make):
    @case(f"super.{name}", f"a super stream that cannot be ({name})", "response 0x11, and nothing is made")
    def _(bench):
        wanted = fresh("super")
        equal(bench.peer.code(MAKE_SUPER, text(wanted) + make(wanted) + pairs({})), UNFIT)
        equal(bench.peer.code(PARTITIONS, text(wanted)), 0x02)


for row in UNFITS:
    unfit_super(*row)


@case("super.deleted", "a super stream deleted whose partition the connection reads", "0x01, then a metadata update 0x06")
def _(bench):
    name, partitions, _ = super_stream(bench)
    equal(bench.peer.subscribe(1, partitions[1]), OK)
    equal(bench.peer.code(DELETE_SUPER, text(name)), OK)
    equal(bench.peer.next(UPDATE).rest, struct.pack(">H", 0x06) + text(partitions[1]))
