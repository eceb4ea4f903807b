"""Raw sockets and the bytes of AMQP 0-9-1, for what no client library would send.

Encodes just enough to log in and to say wrong things on purpose; decodes what a
broker answers. Not a client: nothing here retries, negotiates or keeps state.
"""

import socket
import struct
import time

HEADER_091 = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
CLIENT = {"capabilities": {"authentication_failure_close": True, "consumer_cancel_notify": True}}


class Closed(Exception):
    """The peer ended the connection while more was expected."""


class Peer:
    """One TCP connection, from the address `source` if one is given; reads block for at most the given seconds."""

    def __init__(self, uri, seconds_max=15.0, source=None):
        self.uri = uri
        own = source and (source, 0)
        self.socket = socket.create_connection((uri.host, uri.port), timeout=seconds_max, source_address=own)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.socket.close()

    def send(self, *parts):
        self.socket.sendall(b"".join(parts))

    def read(self, count):
        data = b""
        while len(data) < count:
            try:
                more = self.socket.recv(count - len(data))
            except (ConnectionResetError, BrokenPipeError):
                more = b""
            if not more:
                raise Closed(f"after {data!r}")
            data += more
        return data

    def rest(self, seconds_max=15.0):
        """Everything until the peer closes; a peer that does not is an error."""
        self.socket.settimeout(seconds_max)
        data = b""
        while True:
            try:
                more = self.socket.recv(65536)
            except (ConnectionResetError, BrokenPipeError):
                return data
            except TimeoutError:
                raise AssertionError(f"still open after {seconds_max} s") from None
            if not more:
                return data
            data += more

    def closed_after(self, seconds_max):
        """Seconds until the peer closed, reading and dropping what comes before."""
        begin = time.monotonic()
        self.rest(seconds_max)
        return time.monotonic() - begin

    def frame(self):
        """The next frame: (type, channel, payload)."""
        kind, channel, size = struct.unpack(">BHI", self.read(7))
        payload = self.read(size)
        if self.read(1) != b"\xce":
            raise AssertionError("a frame of the broker has no frame end")
        return kind, channel, payload

    def method(self):
        """The next method frame: (channel, class id, method id, arguments); skips heartbeats."""
        while True:
            kind, channel, payload = self.frame()
            if kind == METHOD:
                return channel, *struct.unpack(">HH", payload[:4]), payload[4:]

    def login(self, mechanism="PLAIN", response=None, tune=(2047, 131072, 0), vhost="/", client=None):
        """The whole handshake up to connection.open-ok; answers the start method's arguments."""
        self.send(HEADER_091)
        start = self.method()[3]
        self.send(start_ok(mechanism, plain(self.uri) if response is None else response, client or CLIENT))
        self.expect(10, 30)
        self.send(tune_ok(*tune), connection_open(vhost))
        self.expect(10, 41)
        return start

    def expect(self, class_id, method_id):
        channel, seen_class, seen_method, arguments = self.method()
        if (seen_class, seen_method) != (class_id, method_id):
            seen = close_of(seen_class, seen_method, arguments) or (seen_class, seen_method)
            raise AssertionError(f"saw {seen}, expected method {(class_id, method_id)}")
        return channel, arguments

    def channel(self, number=1):
        self.send(method(number, 20, 10, short("")))
        self.expect(20, 11)

    def close_seen(self):
        """The next close: ("connection" or "channel", code, text, (class id, method id))."""
        while True:
            _channel, class_id, method_id, arguments = self.method()
            seen = close_of(class_id, method_id, arguments)
            if seen:
                return seen


def close_of(class_id, method_id, arguments):
    if (class_id, method_id) not in ((10, 50), (20, 40)):
        return None
    code, size = struct.unpack(">HB", arguments[:3])
    ids = struct.unpack(">HH", arguments[3 + size:])
    return ("connection" if class_id == 10 else "channel", code, arguments[3:3 + size].decode(), ids)


def frame(kind, channel, payload, size=None, end=b"\xce"):
    return struct.pack(">BHI", kind, channel, len(payload) if size is None else size) + payload + end


def method(channel, class_id, method_id, arguments=b""):
    return frame(METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def content_header(channel, size, class_id=60, flags=0, properties=b""):
    return frame(HEADER, channel, struct.pack(">HHQH", class_id, 0, size, flags) + properties)


def short(text):
    data = text.encode()
    return struct.pack(">B", len(data)) + data


def long(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack(">I", len(data)) + data


def table(values):
    data = b""
    for name, value in values.items():
        if isinstance(value, bool):
            field = b"t" + struct.pack(">?", value)
        elif isinstance(value, int):
            field = b"I" + struct.pack(">i", value)
        elif isinstance(value, dict):
            field = b"F" + table(value)
        else:
            field = b"S" + long(value)
        data += short(name) + field
    return long(data)


def plain(uri):
    return f"\0{uri.user}\0{uri.password}".encode()


def amqplain(uri):
    return table({"LOGIN": uri.user, "PASSWORD": uri.password})[4:]


def start_ok(mechanism, response, client=None, locale="en_US"):
    return method(0, 10, 11, table(client if client is not None else CLIENT) + short(mechanism) + long(response)
                  + short(locale))


def tune_ok(channel_max, frame_max, heartbeat):
    return method(0, 10, 31, struct.pack(">HIH", channel_max, frame_max, heartbeat))


def connection_open(vhost):
    return method(0, 10, 40, short(vhost) + short("") + b"\0")


def queue_declare(channel, queue, bits=0b100, arguments=None):
    return method(channel, 50, 10, b"\0\0" + short(queue) + bytes([bits]) + table(arguments or {}))


def publish(channel, exchange, key, body, frame_max=131072):
    parts = [method(channel, 60, 40, b"\0\0" + short(exchange) + short(key) + b"\0"), content_header(channel, len(body))]
    room = frame_max - 8
    parts += [frame(BODY, channel, body[at:at + room]) for at in range(0, len(body), room)]
    return b"".join(parts)
