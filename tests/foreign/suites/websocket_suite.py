"""AMQP over WebSocket: other people's AMQP clients behind other people's WebSocket client, and raw frames.

Open RabbitMQ does not serve this; its answers to the same requests were seen on its MQTT over WebSocket.
"""

import base64
import contextlib
import os
import socket
import struct
import threading

import pika
from proton import Message
from proton.utils import BlockingConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from lab.cases import Suite, equal
from suites.alarm_roads import ALARMS, WebStream, during, first_091, first_10, login_091, reached
from suites.network_bench import Ground, alarm, options

suite = Suite("websocket")
suite.without_broker = "RabbitMQ serves it in its paid edition alone"
ground = Ground(suite)
GREETING_10 = b"AMQP\x03\x01\x00\x00"
GREETING_091 = b"AMQP\x00\x00\x09\x01"


def open_web(protocols=("amqp",), secure=False, path="/ws", **more):
    scheme, port = ("wss", ground.port("wss")) if secure else ("ws", ground.port("ws"))
    if secure:
        more["ssl"] = ground.context()
    more.setdefault("compression", None)
    return connect(f"{scheme}://localhost:{port}{path}", subprotocols=protocols, max_size=None, **more)


@contextlib.contextmanager
def bridge(protocol, **more):
    """A port on which a client of plain TCP speaks through a WebSocket."""
    ground.broker()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError, ConnectionClosed):
            stream, _ = listener.accept()
            with stream, open_web((protocol,), **more) as web:
                threading.Thread(target=pump, args=(stream, web), daemon=True).start()
                for message in web:
                    stream.sendall(message)

    def pump(stream, web):
        with contextlib.suppress(OSError, ConnectionClosed):
            while data := stream.recv(1 << 16):
                web.send(data)
            web.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def speak_091(**more):
    with bridge("amqp091", **more) as port:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for body in (b"", b"x", b"words " * 1000, os.urandom(300_000), bytes(2_000_000)):
            channel.basic_publish("", queue, body)
            equal(channel.basic_get(queue, auto_ack=True)[2] == body, True)
        connection.close()


def speak_10(**more):
    with bridge("amqp", **more) as port:
        connection = BlockingConnection(f"amqp://guest:guest@127.0.0.1:{port}", timeout=15, allowed_mechs="PLAIN")
        broker = ground.broker()
        with contextlib.closing(pika.BlockingConnection(pika.URLParameters(broker.uri))) as desk:
            channel = desk.channel()
            queue = channel.queue_declare(f"websocket-{os.urandom(4).hex()}", durable=True).method.queue
            sender = connection.create_sender(f"/queues/{queue}")
            receiver = connection.create_receiver(f"/queues/{queue}", credit=10)
            for body in ("x", "words " * 1000, os.urandom(150_000).hex()):
                sender.send(Message(body=body, durable=True))
                equal(receiver.receive(timeout=10).body == body, True)
                receiver.accept()
            connection.close()
            channel.queue_delete(queue)


for name, more in (("plain", {}), ("tls", {"secure": True}), ("deflate", {"compression": "deflate"})):
    suite.add(f"091.{name}", f"0-9-1 over WebSocket ({name}): publish, confirm, get, bodies up to 2 MB", "served",
              lambda more=more: speak_091(**more))
    suite.add(f"10.{name}", f"1.0 over WebSocket ({name}): send, receive, accept, bodies up to 300 kB", "served",
              lambda more=more: speak_10(**more))


def over_alarm(kind, secure, protocol, *checks):
    broker = ground.broker()
    reach = reached(broker, lambda: WebStream(open_web((protocol,), secure)))
    for check in checks:
        with during(broker, alarm(broker), kind) as (_early, count, clear):
            check(reach, count, clear)


for kind in ALARMS:
    for name, secure in (("plain", False), ("tls", True)) if kind == "disk" else (("plain", False),):
        suite.add(f"alarm.091.{kind}.{name}", f"0-9-1 over WebSocket ({name}): connections opened while the {kind} alarm holds publish: as "
                  "over TCP, and all in one piece with the login", "connection.blocked; no body is read and nothing confirmed, but for a "
                  "first message without a body; then unblocked, and all is taken",
                  lambda kind=kind, secure=secure: over_alarm(kind, secure, "amqp091", first_091, login_091), 60)
        suite.add(f"alarm.10.{kind}.{name}", f"1.0 over WebSocket ({name}): a connection opened while the {kind} alarm holds attaches a "
                  "sender", "its session has a window of 0; then one, and the first message is accepted",
                  lambda kind=kind, secure=secure: over_alarm(kind, secure, "amqp", first_10), 60)


def status(**more):
    """The status an upgrade is refused with."""
    try:
        with open_web(**more) as web:
            return f"accepted {web.subprotocol}"
    except InvalidStatus as refused:
        return refused.response.status_code


for name, behaviour, more, answer in (
    ("protocol.both", "sub-protocols `mqtt`, `amqp091` and `amqp`", {"protocols": ("mqtt", "amqp091", "amqp")}, "accepted amqp"),
    ("protocol.none", "no sub-protocol", {"protocols": None}, 400),
    ("protocol.other", "sub-protocol `mqtt` alone", {"protocols": ("mqtt",)}, 400),
    ("path", "another path", {"path": "/"}, 404),
    ("origin.ours", "an origin that is let in", {"origin": "https://ours.example"}, "accepted amqp"),
    ("origin.theirs", "an origin that is not let in", {"origin": "https://theirs.example"}, 403),
):
    suite.add(name, f"a request with {behaviour}", str(answer), lambda more=more, answer=answer: equal(status(**more), answer))


@suite.case("version.by-header", "the version of AMQP is told by its header, not by the sub-protocol", "both are answered")
def _():
    with open_web(("amqp",)) as web:
        web.send(GREETING_091)
        equal(web.recv(timeout=10)[:1], b"\x01")
    with open_web(("amqp091",)) as web:
        web.send(GREETING_10)
        equal(web.recv(timeout=10)[:8], GREETING_10)


@suite.case("header.wrong", "a wrong protocol header", "the right one, then close 1000")
def _():
    with open_web() as web:
        web.send(b"AMQP\x09\x09\x09\x09")
        equal(web.recv(timeout=10), GREETING_10)
        try:
            web.recv(timeout=10)
        except ConnectionClosed as closed:
            equal(closed.rcvd.code, 1000)
            return
    raise AssertionError("it stays open")


@suite.case("ping", "pings between the frames of a message", "pongs, and the message arrives whole")
def _():
    with Raw() as raw:
        raw.send(0x02, GREETING_091[:3])
        raw.send(0x89, b"are you there")
        raw.send(0x00, GREETING_091[3:5])
        raw.send(0x80, GREETING_091[5:])
        equal(raw.receive(), (0x8A, b"are you there"))
        first, payload = raw.receive()
        equal((first, payload[:1]), (0x82, b"\x01"))


class Raw:
    """A WebSocket of which every bit is the case's."""

    def __init__(self, extension=""):
        self.stream = socket.create_connection(("localhost", ground.port("ws")), timeout=20)
        key = base64.b64encode(os.urandom(16)).decode()
        self.stream.sendall((
            "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: amqp\r\n{extension}\r\n").encode())
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            self.rest += self.stream.recv(4096)
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        equal(head[:12], b"HTTP/1.1 101")

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.stream.close()

    def send(self, first, payload, masked=True, announced=None):
        length = len(payload) if announced is None else announced
        mark = 0x80 if masked else 0
        if length < 126:
            head = struct.pack(">BB", first, mark | length)
        elif length < 1 << 16:
            head = struct.pack(">BBH", first, mark | 126, length)
        else:
            head = struct.pack(">BBQ", first, mark | 127, length)
        key = os.urandom(4) if masked else b""
        if masked:
            payload = bytes(byte ^ key[at % 4] for at, byte in enumerate(payload))
        self.stream.sendall(head + key + payload)

    def take(self, count):
        while len(self.rest) < count:
            more = self.stream.recv(4096)
            if not more:
                raise EOFError
            self.rest += more
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def receive(self):
        first, length = self.take(2)
        if length == 126:
            (length,) = struct.unpack(">H", self.take(2))
        return first, self.take(length)

    def code(self):
        """The code of the close frame that comes next."""
        first, payload = self.receive()
        equal(first, 0x88)
        return struct.unpack(">H", payload)[0]


for name, behaviour, frames, code in (
    ("unmasked", "a frame without a mask", [(0x82, b"x", False)], 1002),
    ("reserved", "a reserved bit", [(0xA2, b"x")], 1002),
    ("opcode", "an opcode that is not there", [(0x83, b"x")], 1002),
    ("continuation", "more of a message that has not begun", [(0x80, b"x")], 1002),
    ("interleaved", "a message within another", [(0x02, b"A"), (0x82, b"M")], 1002),
    ("control.fragmented", "half a ping", [(0x09, b"x")], 1002),
    ("control.long", "a ping of 126 bytes", [(0x89, bytes(126))], 1002),
    ("compressed", "a compressed frame without agreement", [(0xC2, b"x")], 1002),
    ("text", "a message of text", [(0x81, b"AMQP")], 1003),
    ("length", "a frame of 2^62 bytes", [(0x82, b"", True, 1 << 62)], 1009),
    ("close.code", "a close with a code nobody may send", [(0x88, struct.pack(">H", 1005))], 1002),
    ("close.reason", "a close whose reason is no UTF-8", [(0x88, struct.pack(">H", 1000) + b"\xff")], 1007),
    ("close.echo", "a close with code 4000", [(0x88, struct.pack(">H", 4000))], 4000),
):
    def _(frames=frames, code=code):
        with Raw() as raw:
            for frame in frames:
                raw.send(*frame)
            equal(raw.code(), code)
            equal(raw.stream.recv(100), b"")

    suite.add(f"frame.{name}", behaviour, f"close {code}", _)


@suite.case("bomb", "100 kB that inflate to 100 MB, before any login", "closed; the broker's memory does not grow by 16 MB")
def _():
    import zlib

    from lab.broker import resident_bytes

    broker = ground.broker()
    before = resident_bytes(broker.pid)
    with Raw("Sec-WebSocket-Extensions: permessage-deflate\r\n") as raw:
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        bomb = packer.compress(bytes(100_000_000)) + packer.flush(zlib.Z_SYNC_FLUSH)
        with contextlib.suppress(OSError, EOFError):
            raw.send(0xC2, bomb[:-4])
            while raw.receive()[0] != 0x88:
                pass
    grown = resident_bytes(broker.pid) - before
    equal(grown < 16 << 20, True, f"grew by {grown} bytes")


@suite.case("request.slow", "a request that is never finished", "closed after 10 s (`handshake_timeout`)")
def _():
    with socket.create_connection(("localhost", ground.port("ws")), timeout=20) as stream:
        stream.sendall(b"GET /ws HTTP/1.1\r\n")
        equal(stream.recv(100), b"")


@suite.case("request.long", "a request of more than 8 KiB", "431")
def _():
    with socket.create_connection(("localhost", ground.port("ws")), timeout=20) as stream:
        stream.sendall(b"GET /ws HTTP/1.1\r\nA: " + b"a" * 8192)
        equal(stream.recv(100)[:12], b"HTTP/1.1 431")


@suite.case("request.none", "AMQP without WebSocket on the port of WebSocket", "400")
def _():
    with socket.create_connection(("localhost", ground.port("ws")), timeout=20) as stream:
        stream.sendall(GREETING_091 + b"\r\n\r\n")
        equal(stream.recv(100)[:12], b"HTTP/1.1 400")


if __name__ == "__main__":
    suite.main(options)
