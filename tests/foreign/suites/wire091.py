"""The bytes of AMQP 0-9-1, where no client library shows or sends them.

Texts in which RabbitMQ prints Erlang terms are matched by their beginning; where it
crashes without a word, any close of that connection will do.
"""

import struct
import time

from lab import wire
from lab.cases import Suite, equal
from lab.wire import Closed, Peer, content_header, frame, long, method, queue_declare, short, table

suite = Suite("wire")
SILENT_SECONDS_MAX = 8
PUBLISH = method(1, 60, 40, b"\0\0" + short("") + short("foreign.absent") + b"\0")
NESTED = long(b"\x01aF" + long(b"\x01aF" + long(b"\x01bt\x01")))
ANY = None
ANY_CLOSE = "any"


def printable(header):
    return "".join(chr(byte) if 32 < byte < 127 else f"\\{byte}" for byte in header)


def answered(header, answer):
    with Peer(suite.uri) as peer:
        peer.send(header)
        equal(peer.rest(SILENT_SECONDS_MAX), answer)


SASL = b"AMQP\x03\x01\x00\x00"
for header, answer in [
    (b"AMQP\x00\x00\x08\x00", SASL), (b"AMQP\x01\x01\x08\x00", SASL), (b"AMQP\x01\x01\x00\x0a", SASL),
    (b"AMQP\x00\x01\x00\x00", SASL), (b"AMQP\x02\x01\x00\x00", SASL), (b"GET / HT", SASL), (b"AMQX\x00\x00\x09\x01", SASL),
    (b"AMQP\x00\x00\x09\x00", wire.HEADER_091), (b"AMQP\x00\x00\x09\x02", wire.HEADER_091),
]:
    suite.add(f"header.{header.hex()}", f"the protocol header `{printable(header)}`",
              f"`{printable(answer)}`, closed", lambda header=header, answer=answer: answered(header, answer))


@suite.case("start.first", "connection.start", "version 0-9; mechanisms PLAIN, AMQPLAIN, ANONYMOUS; locale en_US")
def _():
    with Peer(suite.uri) as peer:
        start = peer.login()
        at = 6 + struct.unpack(">I", start[2:6])[0]
        size = struct.unpack(">I", start[at:at + 4])[0]
        mechanisms, locales = start[at + 4:at + 4 + size].decode().split(), start[at + 8 + size:]
        equal((start[:2], sorted(mechanisms), locales), (b"\0\x09", ["AMQPLAIN", "ANONYMOUS", "PLAIN"], b"en_US"))


def logged_in(mechanism, response):
    with Peer(suite.uri) as peer:
        peer.login(mechanism, response(suite.uri))
        peer.channel()


suite.add("login.plain", "login by PLAIN", "open", lambda: logged_in("PLAIN", wire.plain))
suite.add("login.amqplain", "login by AMQPLAIN", "open", lambda: logged_in("AMQPLAIN", wire.amqplain))
suite.add("login.anonymous", "login by ANONYMOUS", "open, as guest", lambda: logged_in("ANONYMOUS", lambda _uri: b""))


def handshake(sent):
    """Answers the close that follows `sent` after connection.start, or None for a silent one."""
    with Peer(suite.uri) as peer:
        peer.send(wire.HEADER_091)
        peer.expect(10, 10)
        peer.send(sent)
        begin = time.monotonic()
        try:
            while True:
                _channel, class_id, method_id, arguments = peer.method()
                seen = wire.close_of(class_id, method_id, arguments)
                if seen:
                    return seen
        except Closed:
            waited = time.monotonic() - begin
            equal(waited < SILENT_SECONDS_MAX, True, f"closed in time, took {waited:.1f} s")
            return None


def refused(sent, expected):
    seen = handshake(sent)  # raises unless the connection was closed
    if expected is not ANY_CLOSE:
        equal(seen, expected)


def start_then(*tuned):
    return lambda: wire.start_ok("PLAIN", wire.plain(suite.uri)) + wire.tune_ok(*tuned) + wire.connection_open("/")


REFUSED = "ACCESS_REFUSED - Login was refused using authentication mechanism %s. For details see the broker logfile."
WRONG_PLAIN = b"\0guest\0wrong"
WRONG_AMQPLAIN = table({"LOGIN": "guest", "PASSWORD": "wrong"})[4:]
for name, words, sent, expected in [
    ("wrong-plain", "PLAIN with a wrong password", lambda: wire.start_ok("PLAIN", WRONG_PLAIN),
     ("connection", 403, REFUSED % "PLAIN", (0, 0))),
    ("wrong-amqplain", "AMQPLAIN with a wrong password", lambda: wire.start_ok("AMQPLAIN", WRONG_AMQPLAIN),
     ("connection", 403, REFUSED % "AMQPLAIN", (0, 0))),
    ("wrong-incapable", "a wrong password without the capability authentication_failure_close",
     lambda: wire.start_ok("PLAIN", WRONG_PLAIN, {"product": "foreign"}), None),
    ("unknown-vhost", "an unknown virtual host",
     lambda: wire.start_ok("PLAIN", wire.plain(suite.uri)) + wire.tune_ok(2047, 131072, 0)
     + wire.connection_open("absent"), ("connection", 530, "NOT_ALLOWED - vhost absent not found", (10, 40))),
    ("garbled-plain", "a PLAIN response that is none", lambda: wire.start_ok("PLAIN", b"zz"), ANY_CLOSE),
    ("garbled-amqplain", "an AMQPLAIN response that is none", lambda: wire.start_ok("AMQPLAIN", b"zz"), ANY_CLOSE),
    ("unknown-mechanism", "a mechanism that was not offered", lambda: wire.start_ok("EXTERNAL", b""), None),
    ("frame-max-0", "tune-ok with frame-max 0", start_then(2047, 0, 0), None),
    ("frame-max-8191", "tune-ok with frame-max 8191", start_then(2047, 8191, 0), None),
    ("frame-max-131073", "tune-ok with frame-max 131073", start_then(2047, 131073, 0), None),
    ("channel-max-0", "tune-ok with channel-max 0", start_then(0, 131072, 0), None),
    ("channel-max-2048", "tune-ok with channel-max 2048", start_then(2048, 131072, 0), None),
    ("early-open", "connection.open before start-ok", lambda: wire.connection_open("/"), None),
    ("early-channel", "channel.open before start-ok", lambda: method(1, 20, 10, short("")), None),
    ("early-frame", "a frame of 9000 bytes before login", lambda: frame(1, 0, bytes(9000)), None),
    ("early-frame-header", "the header of a 1 MiB frame before login", lambda: struct.pack(">BHI", 1, 0, 1 << 20), None),
    ("early-garbage", "no frame at all before login", lambda: b"garbagegarbagegarbage", None),
]:
    if expected in (None, ANY_CLOSE):
        answer = "closed without a word" if expected is None else "closed (RabbitMQ: without a word)"
    else:
        answer = f"connection closed: {expected[1]} `{expected[2]}` {expected[3]}"
    suite.add(f"handshake.{name}", words, answer, lambda s=sent, e=expected: refused(s(), e))


UNIMPLEMENTED = "COMMAND_INVALID - unimplemented method"
RUNNING = "CHANNEL_ERROR - unexpected method in connection state running"
NO_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
NO_HEADER = "UNEXPECTED_FRAME - expected content header for class 60, got %s instead"
FRAME_ERROR = "FRAME_ERROR - ..."
# name, what is sent on an open channel 1, bytes, code, text ("..." ends a beginning), ids
FRAME_ROWS = [
    ("end-octet", "a frame with a wrong end octet", frame(1, 1, b"\0\x14\0\x0a\0", end=b"\0"), 501, FRAME_ERROR, (0, 0)),
    ("unknown-type", "a frame of type 9", frame(9, 1, b"abc"), 501, FRAME_ERROR, (0, 0)),
    ("too-large", "a frame over the negotiated frame-max", struct.pack(">BHI", 3, 1, 131073), 501, FRAME_ERROR, (0, 0)),
    ("header-again", "the protocol header again", wire.HEADER_091, 501, FRAME_ERROR, (0, 0)),
    ("empty-method", "a method frame without a method", frame(1, 1, b""), 501, FRAME_ERROR, (0, 0)),
    ("cut-arguments", "a method whose arguments are cut short", method(1, 50, 10, b"\0\0\x05ab"), 501, FRAME_ERROR,
     (50, 10)),
    ("trailing-arguments", "a method with bytes after its arguments", method(1, 20, 20, b"\1zzzz"), 501, FRAME_ERROR,
     (20, 20)),
    ("table-overrun", "a table longer than its method",
     method(1, 50, 10, b"\0\0" + short("q") + b"\0" + struct.pack(">I", 1000) + b"\x01aS"), 501, FRAME_ERROR, (50, 10)),
    ("not-utf8", "a queue name that is not UTF-8", method(1, 50, 10, b"\0\0\x02\xff\xfe\2" + table({})), 501,
     "FRAME_ERROR - Malformed UTF-8 in shortstr", (0, 0)),
    ("unknown-class", "a method of an unknown class", method(1, 99, 1), ANY, "", ANY),
    ("unknown-method", "an unknown method", method(1, 50, 99), ANY, "", ANY),
    ("table-type", "a table field of an unknown type",
     method(1, 50, 10, b"\0\0" + short("q") + b"\0" + long(b"\x03abcZ")), ANY, "", ANY),
    ("table-cut", "a table field cut short",
     method(1, 50, 10, b"\0\0" + short("q") + b"\0" + long(b"\x01aS\0\0\0\x09x")), ANY, "", ANY),
    ("properties-cut", "a content header whose properties are cut short",
     PUBLISH + frame(2, 1, struct.pack(">HHQH", 60, 0, 0, 0x8000) + b"\x09a"), ANY, "", ANY),
    ("connection-on-channel", "a connection method on channel 1", method(1, 10, 40, short("/") + short("") + b"\0"), 503,
     UNIMPLEMENTED, (10, 40)),
    ("channel-on-connection", "a queue method on channel 0",
     method(0, 50, 10, b"\0\0" + short("q") + b"\0" + table({})), 504, RUNNING, (50, 10)),
    ("start-ok-again", "start-ok on an open connection", wire.start_ok("PLAIN", b""), 504, RUNNING, (10, 11)),
    ("open-again", "connection.open on an open connection", wire.connection_open("/"), 504, RUNNING, (10, 40)),
    ("channel-not-open", "a method on a channel that is not open", queue_declare(7, "q"), 504,
     "CHANNEL_ERROR - expected 'channel.open'", (50, 10)),
    ("channel-open-twice", "channel.open on an open channel", method(1, 20, 10, short("")), 504,
     "CHANNEL_ERROR - second 'channel.open' seen", (20, 10)),
    ("channel-close-not-open", "channel.close on a channel that is not open",
     method(9, 20, 40, b"\0\0" + short("") + b"\0\0\0\0"), 504, "CHANNEL_ERROR - expected 'channel.open'", (20, 40)),
    ("close-ok-unasked", "channel.close-ok nobody asked for", method(1, 20, 41), 503, UNIMPLEMENTED, (20, 41)),
    ("server-method", "queue.declare-ok from the client", method(1, 50, 11, short("q") + bytes(8)), 503, UNIMPLEMENTED,
     (50, 11)),
    ("header-alone", "a content header without a publish", content_header(1, 5), 505, NO_METHOD, (0, 0)),
    ("body-alone", "a body without a publish", frame(3, 1, b"abc"), 505, NO_METHOD, (0, 0)),
    ("method-in-content", "a method between publish and header", PUBLISH + queue_declare(1, "q"), 505,
     NO_HEADER % "non content header frame", (60, 40)),
    ("body-before-header", "a body before its header", PUBLISH + frame(3, 1, b"abc"), 505,
     NO_HEADER % "non content header frame", (60, 40)),
    ("header-other-class", "a content header of class 50", PUBLISH + content_header(1, 0, class_id=50), 505,
     NO_HEADER % "one for class 50", (60, 40)),
    ("header-twice", "two content headers", PUBLISH + content_header(1, 5) + content_header(1, 5), 505,
     "UNEXPECTED_FRAME - expected content body, got non content body frame instead", (60, 40)),
    ("body-too-long", "more body than the header said", PUBLISH + content_header(1, 2) + frame(3, 1, b"abc"), 501,
     "FRAME_ERROR - content body frame exceeds remaining content size", (60, 40)),
    ("body-size-absurd", "a content header for 2^63 bytes", PUBLISH + content_header(1, 1 << 63), 501,
     "FRAME_ERROR - content body size 9223372036854775808 exceeds maximum allowed size 536870912", (60, 40)),
    ("heartbeat-on-channel", "a heartbeat on channel 1", frame(8, 1, b""), 505,
     "UNEXPECTED_FRAME - type 8, all octets = <<>>", (0, 0)),
    ("heartbeat-payload", "a heartbeat with a payload", frame(8, 0, b"abc"), 501, FRAME_ERROR, (0, 0)),
]


def closes(sent, code, text, ids):
    with Peer(suite.uri) as peer:
        peer.login()
        peer.channel()
        peer.send(sent)
        try:
            scope, seen_code, seen_text, seen_ids = peer.close_seen()
        except Closed:
            equal(code, ANY, "code of the close (the connection ended without one)")
            return
        equal(scope, "connection")
        if code is not ANY:
            seen_text = seen_text[:len(text) - 3] + "..." if text.endswith("...") else seen_text
            equal((seen_code, seen_text, seen_ids), (code, text, ids))
        peer.send(method(0, 10, 51))
        peer.rest(SILENT_SECONDS_MAX)


for name, words, sent, code, text, ids in FRAME_ROWS:
    answer = "connection closed" if code is ANY else f"connection closed: {code} `{text}` {ids}"
    suite.add(f"frame.{name}", words, answer, lambda s=sent, c=code, t=text, i=ids: closes(s, c, t, i))


@suite.case("frame.largest", "a frame whose payload is exactly frame-max", "taken")
def _():
    with Peer(suite.uri) as peer:
        peer.login()
        peer.channel()
        peer.send(PUBLISH, content_header(1, 131072), frame(3, 1, bytes(131072)), queue_declare(1, "foreign.absent", 1))
        equal(peer.close_seen()[:2], ("channel", 404))


@suite.case("frame.early-heartbeat", "a heartbeat during the handshake", "passed over")
def _():
    with Peer(suite.uri) as peer:
        peer.send(wire.HEADER_091)
        peer.expect(10, 10)
        peer.send(frame(8, 0, b""), wire.start_ok("PLAIN", wire.plain(suite.uri)))
        peer.expect(10, 30)


@suite.case("frame.nested-table", "a table in a table in a table", "taken")
def _():
    with Peer(suite.uri) as peer:
        peer.login()
        peer.channel()
        peer.send(method(1, 50, 10, b"\0\0" + short("") + b"\2" + NESTED))
        peer.expect(50, 11)


@suite.case("channel.max", "a second channel where channel-max 1 was negotiated",
            "connection closed: 530 `NOT_ALLOWED - number of channels opened (1) has reached the negotiated "
            "channel_max (1)` (0, 0)")
def _():
    with Peer(suite.uri) as peer:
        peer.login(tune=(1, 131072, 0))
        peer.channel(1)
        peer.send(method(2, 20, 10, short("")))
        text = "NOT_ALLOWED - number of channels opened (1) has reached the negotiated channel_max (1)"
        equal(peer.close_seen(), ("connection", 530, text, (0, 0)))


@suite.case("channel.closing", "methods on a channel that the broker has closed",
            "dropped until close-ok; then the number opens anew")
def _():
    with Peer(suite.uri) as peer:
        peer.login()
        peer.channel()
        peer.send(queue_declare(1, "foreign.absent", 1), queue_declare(1, "foreign.absent", 1), PUBLISH,
                  content_header(1, 0))
        equal(peer.close_seen()[:2], ("channel", 404))
        peer.send(queue_declare(1, "foreign.absent", 1), method(1, 20, 41))
        peer.channel()


@suite.case("connection.closing", "connection.close", "close-ok; what follows is dropped")
def _():
    with Peer(suite.uri) as peer:
        peer.login()
        peer.channel()
        peer.send(method(0, 10, 50, b"\0\xc8" + short("bye") + b"\0\0\0\0"), queue_declare(1, "foreign.absent", 1))
        peer.expect(10, 51)


@suite.case("heartbeat.silent-peer", "a peer that stays silent with a heartbeat of 1 s",
            "the broker sends one each half second, and closes after 2 to 4 s")
def _():
    with Peer(suite.uri) as peer:
        peer.login(tune=(2047, 131072, 1))
        begin, beats = time.monotonic(), 0
        try:
            while True:
                equal(peer.frame(), (8, 0, b""))
                beats += 1
        except Closed:
            waited = time.monotonic() - begin
        if not 1.9 <= waited <= 4.5 or not 2 <= beats <= 8:
            raise AssertionError(f"{beats} heartbeats, closed after {waited:.1f} s")


@suite.case("heartbeat.gap", "a heartbeat of 1 s, and an answer asked for right behind each heartbeat that comes",
            "never silent for the whole of it, as some clients wait no longer")
def _():
    with Peer(suite.uri) as peer:
        peer.login(tune=(2047, 131072, 1))
        peer.channel()
        began = last = time.monotonic()
        longest, beats = 0.0, 0
        while last < began + 6:
            kind, _channel, _payload = peer.frame()
            now = time.monotonic()
            longest, last = max(longest, now - last), now
            if kind == 8:
                beats += 1
                peer.send(frame(8, 0, b""), queue_declare(1, "", bits=0b01100))
        # Delays by the machine's other work are no silence of the broker's.
        assert beats >= 3 and longest < 1.05, f"{beats} heartbeats, silent for {longest:.3f} s"


@suite.case("heartbeat.asking", "a client with a heartbeat of 1 s that asks, and asks again when it has the answer, and sends no heartbeats",
            "still open after 5 s: who speaks is alive")
def _():
    with Peer(suite.uri) as peer:
        peer.login(tune=(2047, 131072, 1))
        peer.channel()
        peer.send(queue_declare(1, "", bits=0b01100))
        queue = peer.expect(50, 11)[1]
        queue = queue[1:1 + queue[0]].decode()
        for asked in [queue_declare(1, queue, bits=0b01101), method(1, 60, 70, b"\0\0" + short(queue) + b"\1")] * 12:
            time.sleep(0.2)
            peer.send(asked)
            peer.method()
