"""The stream protocol byte by byte: the login, refusals and closes."""

import itertools
import os
import struct
import time

from lab.cases import Suite, equal
from lab.wire_stream import (
    AUTHENTICATE, CLOSE, CONFIRM, CREATE, CREDIT, DECLARE, DELETE, DELETE_PUBLISHER, DELETE_SUPER, DELIVER, ERROR,
    FIRST, HANDSHAKE, HEARTBEAT, METADATA, OFFSET, OK, OPEN, PARTITIONS, PROPERTIES, RESOLVE, ROUTE, SEQUENCE, STATS,
    SUBSCRIBE, TUNE, UNSUBSCRIBE, VERSIONS, Peer, message, names, offset, pairs, text,
)

suite = Suite("stream-wire")
_numbers = itertools.count(1)
SILENCE_SECONDS = 2.5


def fresh(word):
    return f"foreign.stream.{word}.{os.getpid():x}.{next(_numbers)}"


def peer(**options):
    return Peer(suite.uri, suite.options.stream_port, **options)


class Bench:
    """An open connection; streams that were made go with it."""

    def __init__(self, **options):
        self.peer = peer(**options)
        self.made = []

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.peer.socket.close()
        with peer() as other:
            for name in self.made:
                other.ask(DELETE, text(name))

    def stream(self, **arguments):
        name = fresh("stream")
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        equal(self.peer.code(CREATE, text(name) + pairs(named)), OK, "create")
        self.made.append(name)
        return name

    def publisher(self, stream, number=1, reference=""):
        equal(self.peer.code(DECLARE, struct.pack(">B", number) + text(reference) + text(stream)), OK, "declare")
        return number

    def confirmed(self, count):
        """Publishing ids in the order in which they are confirmed."""
        ids = []
        while len(ids) < count:
            ids += self.peer.next(CONFIRM).ids()
        return ids

    def fill(self, stream, *bodies):
        """Publishes bodies, each in a frame of its own and confirmed, so in a chunk of its own."""
        self.publisher(stream, 99)
        for number, body in enumerate(bodies):
            self.peer.publish(99, message(number, body))
            self.confirmed(1)
        self.peer.ask(DELETE_PUBLISHER, b"\x63")

    def entries(self, count):
        """Entries of the chunks that come, until there are so many."""
        entries = []
        while len(entries) < count:
            entries += self.peer.next(DELIVER).chunk()[2]
        return entries


def case(name, behaviour, answer, **options):
    def register(function):
        def act():
            with Bench() as bench:
                function(bench)
        suite.add(name, behaviour, answer, act, **options)
        return function
    return register


@suite.case("login.properties", "peer properties asked for", "product RabbitMQ, version 4.3.6")
def _():
    with peer(upto=None) as one:
        rest = one.ask(PROPERTIES, pairs({})).rest
        assert text("product") + text("RabbitMQ") in rest and text("version") + text("4.3.6") in rest, rest


@suite.case("login.mechanisms", "mechanisms asked for", "AMQPLAIN, ANONYMOUS, PLAIN, in this order")
def _():
    with peer(upto=HANDSHAKE) as one:
        equal(one.mechanisms.rest[6:] if hasattr(one, "mechanisms") else one.ask(HANDSHAKE).rest[6:],
              names(["AMQPLAIN", "ANONYMOUS", "PLAIN"]))


@suite.case("login.tune", "login accepted", "tune follows: frames of 1,048,576 bytes, heartbeat 60 s")
def _():
    with peer() as one:
        equal(one.tune.rest, struct.pack(">II", 1 << 20, 60))


@suite.case("login.open", "open answered", "advertised_host and advertised_port are told")
def _():
    with peer() as one:
        equal(one.opened.code, OK)
        assert b"advertised_host" in one.opened.rest and b"advertised_port" in one.opened.rest


def late(code, act):
    """The answer comes after a silence, and the end behind it."""
    begin = time.monotonic()
    equal(act().code, code, "code")
    assert time.monotonic() - begin > SILENCE_SECONDS, "the answer came at once"


@suite.case("login.wrong-password", "a wrong password", "after 3 s response 0x08, then the connection ends")
def _():
    with peer(upto=HANDSHAKE) as one:
        one.ask(HANDSHAKE)
        late(0x08, lambda: one.login("guest", "wrong"))
        one.ends()


@suite.case("login.unknown-mechanism", "a mechanism that is not there", "response 0x07, then the connection ends")
def _():
    with peer(upto=HANDSHAKE) as one:
        one.ask(HANDSHAKE)
        equal(one.login("guest", "guest", "CRAM-MD5").code, 0x07)
        one.ends()


@suite.case("login.unknown-vhost", "open of a virtual host that is not there", "after 3 s response 0x0c, then the end")
def _():
    with peer(upto=TUNE) as one:
        one.read()
        one.say(TUNE | 0x8000, struct.pack(">II", 1 << 20, 0))
        late(0x0c, lambda: one.ask(OPEN, text("nowhere")))
        one.ends()


@suite.case("login.order", "open before the login", "the connection ends without a word")
def _():
    with peer(upto=None) as one:
        one.say(OPEN, struct.pack(">I", 1) + text("/"))
        one.ends()


@suite.case("login.large-frame", "a frame of more than 8192 bytes before open", "the connection ends without a word")
def _():
    with peer(upto=None) as one:
        one.say(PROPERTIES, struct.pack(">I", 1) + pairs({"long": "x" * 9000}))
        one.ends()


@case("login.renew", "the same login again on an open connection", "response 0x01")
def _(bench):
    equal(bench.peer.login("guest", "guest").code, OK)


@suite.case("login.renew-mechanism", "another mechanism on an open connection", "after 3 s response 0x14, then the end")
def _():
    with peer() as one:
        late(0x14, lambda: one.ask(AUTHENTICATE, text("ANONYMOUS") + struct.pack(">i", -1)))
        one.ends()


@suite.case("heartbeat.asking", "a client with a heartbeat of 1 s that asks, and asks again when it has the answer, and sends no heartbeats",
            "still open after 5 s: who speaks is alive")
def _():
    with peer(upto=TUNE) as one:
        one.next(TUNE)
        one.say(TUNE | 0x8000, struct.pack(">II", 1 << 20, 1))
        equal(one.ask(OPEN, text(suite.uri.vhost)).code, OK)
        name = fresh("asking")
        equal(one.ask(CREATE, text(name) + pairs({})).code, OK)
        for _ in range(24):
            time.sleep(0.2)
            one.ask(OFFSET, text("nobody") + text(name))
        equal(one.ask(DELETE, text(name)).code, OK)


@case("close.by-client", "the client closes", "response 0x01, then the connection ends")
def _(bench):
    equal(bench.peer.code(CLOSE, struct.pack(">H", 1) + text("bye")), OK)
    bench.peer.ends()


def closes(bench, code, reason):
    frame = bench.peer.next(CLOSE)
    equal(frame.rest[4:], struct.pack(">H", code) + text(reason), "close")
    bench.peer.say(CLOSE | 0x8000, frame.rest[:4] + struct.pack(">H", 1))
    bench.peer.ends()


@case("close.unknown-command", "a command nobody knows", "close 0x0d `unknown frame`")
def _(bench):
    bench.peer.say(99, struct.pack(">I", 7))
    closes(bench, 0x0d, "unknown frame")


@case("close.unknown-version", "a version nobody knows", "close 0x0d `unknown frame`")
def _(bench):
    bench.peer.say(DECLARE, struct.pack(">IB", 7, 1) + text("") + text("x"), version=9)
    closes(bench, 0x0d, "unknown frame")


@case("close.null-reference", "a publisher whose reference is null", "close 0x0d `unknown frame`")
def _(bench):
    bench.peer.say(DECLARE, struct.pack(">IBh", 7, 1, -1) + text("x"))
    closes(bench, 0x0d, "unknown frame")


@case("close.too-large", "a frame over the bound that was agreed on", "close 0x0e `frame too large`")
def _(bench):
    bench.peer.socket.sendall(struct.pack(">I", (1 << 20) + 1) + b"\0" * 64)
    frame = bench.peer.next(CLOSE)
    equal(frame.rest[4:], struct.pack(">H", 0x0e) + text("frame too large"))


@case("heartbeat", "a heartbeat", "nothing is answered, and the connection goes on")
def _(bench):
    bench.peer.say(HEARTBEAT)
    equal(bench.peer.code(UNSUBSCRIBE, b"\x01"), 0x04)


@case("versions", "versions of commands exchanged", "20 commands; publish in versions 1 and 2")
def _(bench):
    frame = bench.peer.ask(VERSIONS, struct.pack(">IHHH", 1, DELIVER, 1, 2))
    equal(frame.rest[4:10], struct.pack(">HI", OK, 20))
    assert struct.pack(">HHH", 2, 1, 2) in frame.rest


ABSENT = [
    ("declare-publisher", DECLARE, lambda name: b"\x01" + text("r") + text(name), 0x02),
    ("delete-publisher", DELETE_PUBLISHER, lambda name: b"\x01", 0x12),
    ("query-sequence", SEQUENCE, lambda name: text("r") + text(name), 0x02),
    ("subscribe", SUBSCRIBE, lambda name: b"\x01" + text(name) + offset(FIRST) + b"\0\x01", 0x02),
    ("unsubscribe", UNSUBSCRIBE, lambda name: b"\x01", 0x04),
    ("query-offset", OFFSET, lambda name: text("r") + text(name), 0x02),
    ("delete", DELETE, text, 0x02),
    ("stats", STATS, text, 0x02),
    ("resolve", RESOLVE, lambda name: text(name) + offset(FIRST), 0x02),
    ("route", ROUTE, lambda name: text("k") + text(name), 0x02),
    ("partitions", PARTITIONS, text, 0x02),
    ("delete-super-stream", DELETE_SUPER, text, 0x02),
    ("create-reserved", CREATE, lambda name: text("amq." + name) + pairs({}), 0x11),
    ("create-unnamed", CREATE, lambda name: text("") + pairs({}), 0x11),
]


def absent(name, key, body, code):
    @case(f"absent.{name}", f"{name} of what is not there or may not be", f"response {code:#04x}")
    def _(bench):
        equal(bench.peer.code(key, body(fresh("absent"))), code)


for row in ABSENT:
    absent(*row)


@case("absent.publish", "messages of a publisher that was not declared", "publish error 0x12 for each")
def _(bench):
    bench.peer.publish(7, message(3, b"a"), message(5, b"b"))
    equal(bench.peer.next(ERROR).ids(), [(3, 0x12), (5, 0x12)])


@case("absent.credit", "credit for a subscription that is not there", "credit response 0x04")
def _(bench):
    bench.peer.say(CREDIT, struct.pack(">Bh", 7, 1))
    equal(bench.peer.next(CREDIT).rest, struct.pack(">HB", 0x04, 7))


@case("absent.metadata", "metadata of what is not there", "no broker; code 0x02, no leader, no replicas")
def _(bench):
    name = fresh("absent")
    frame = bench.peer.ask(METADATA, names([name]))
    equal(frame.rest[4:], struct.pack(">II", 0, 1) + text(name) + struct.pack(">HhI", 0x02, -1, 0))
