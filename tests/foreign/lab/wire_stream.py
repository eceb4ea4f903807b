"""Raw sockets and the bytes of the stream protocol, for what no client library would send.

Encodes just enough to log in and to say wrong things on purpose; decodes what a
broker answers. Not a client: nothing here retries, negotiates or keeps state.
"""

import socket
import struct
import time

DECLARE, PUBLISH, CONFIRM, ERROR, SEQUENCE, DELETE_PUBLISHER, SUBSCRIBE, DELIVER, CREDIT = range(1, 10)
STORE, OFFSET, UNSUBSCRIBE, CREATE, DELETE, METADATA, UPDATE, PROPERTIES, HANDSHAKE, AUTHENTICATE = range(10, 20)
TUNE, OPEN, CLOSE, HEARTBEAT, ROUTE, PARTITIONS, CONSUMER_UPDATE, VERSIONS, STATS, MAKE_SUPER = range(20, 30)
DELETE_SUPER, RESOLVE = 30, 31
FIRST, LAST, NEXT, AT, SINCE = range(1, 6)
OK = 1


class Closed(Exception):
    """The peer ended the connection while more was expected."""


def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return struct.pack(">H", len(value)) + value


def pairs(values):
    items = [text(key) + text(value) for key, value in values.items()]
    return struct.pack(">I", len(items)) + b"".join(items)


def names(values):
    return struct.pack(">I", len(values)) + b"".join(text(value) for value in values)


def offset(kind, value=None):
    return struct.pack(">H", kind) + (b"" if value is None else struct.pack(">Q", value))


def message(publishing_id, body):
    return struct.pack(">QI", publishing_id, len(body)) + body


def batch(publishing_id, count, body, compression=0, size=None):
    size = len(body) if size is None else size
    return struct.pack(">QBHII", publishing_id, 0x80 | compression << 4, count, size, len(body)) + body


class Frame:
    """A frame that came: its key without the bit of responses, its version, and the rest."""

    def __init__(self, data):
        key, self.version = struct.unpack(">HH", data[:4])
        self.key, self.is_response, self.rest = key & 0x7FFF, key >= 0x8000, data[4:]

    @property
    def code(self):
        return struct.unpack(">H", self.rest[4:6])[0]

    def __repr__(self):
        return f"{self.key}{'!' if self.is_response else '?'}{self.rest!r}"

    def ids(self):
        """Publishing ids of a confirm, or ids and codes of an error."""
        at, found = 5, []
        while at < len(self.rest):
            if self.key == CONFIRM:
                found.append(struct.unpack(">Q", self.rest[at:at + 8])[0])
                at += 8
            else:
                found.append(struct.unpack(">QH", self.rest[at:at + 10]))
                at += 10
        return found

    def chunk(self):
        """Subscription, first offset and entries of a chunk."""
        head = 1 if self.version == 1 else 9
        body = self.rest[head:]
        first, = struct.unpack(">Q", body[24:32])
        length, = struct.unpack(">I", body[36:40])
        data, entries = body[48:48 + length], []
        while data:
            if data[0] & 0x80:
                count, _size, size = struct.unpack(">HII", data[1:11])
                entries.append((data[0] >> 4 & 7, count, data[11:11 + size]))
                data = data[11 + size:]
            else:
                size, = struct.unpack(">I", data[:4])
                entries.append(data[4:4 + size])
                data = data[4 + size:]
        return self.rest[0], first, entries


class Peer:
    """One TCP connection, logged in unless `upto` says less; reads block for at most the given seconds."""

    def __init__(self, uri, port, upto=OPEN, user=None, password=None, vhost=None, seconds_max=10.0, secure=None,
                 source=None):
        own = source and (source, 0)
        self.socket = socket.create_connection((uri.host, port), timeout=seconds_max, source_address=own)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if secure:
            self.socket = secure.wrap_socket(self.socket, server_hostname=uri.host)
        self.correlation = 0
        self.kept = b""
        if upto:
            self.ask(PROPERTIES, pairs({"product": "foreign"}))
        if upto and upto > PROPERTIES:
            self.mechanisms = self.ask(HANDSHAKE)
        if upto and upto > HANDSHAKE:
            self.login(user or uri.user, password or uri.password)
        if upto == OPEN:
            self.open(vhost or uri.vhost)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.socket.close()

    def login(self, user, password, mechanism="PLAIN"):
        proof = f"\0{user}\0{password}".encode()
        self.answer = self.ask(AUTHENTICATE, text(mechanism) + struct.pack(">I", len(proof)) + proof)
        return self.answer

    def open(self, vhost):
        """Opens the virtual host after a login."""
        self.tune = self.next(TUNE)
        self.say(TUNE | 0x8000, struct.pack(">II", 1 << 20, 0))
        self.opened = self.ask(OPEN, text(vhost))

    def say(self, key, body=b"", version=1):
        self.socket.sendall(struct.pack(">IHH", len(body) + 4, key, version) + body)

    def ask(self, key, body=b"", version=1):
        """The response to a request; what comes before it is kept for `read`."""
        self.correlation += 1
        self.say(key, struct.pack(">I", self.correlation) + body, version)
        kept = []
        while True:
            frame = self.read()
            if frame.is_response and frame.key == key:
                break
            kept.append(frame)
        self.waiting = kept + getattr(self, "waiting", [])
        return frame

    def code(self, key, body=b""):
        return self.ask(key, body).code

    def next(self, key):
        """The next frame with this key, among those kept first."""
        waiting = getattr(self, "waiting", [])
        for frame in waiting:
            if frame.key == key:
                waiting.remove(frame)
                return frame
        while True:
            frame = self.read()
            if frame.key == key:
                return frame
            self.waiting = waiting = waiting + [frame]

    def read(self):
        while len(self.kept) < 4 or len(self.kept) < 4 + struct.unpack(">I", self.kept[:4])[0]:
            try:
                more = self.socket.recv(1 << 16)
            except (ConnectionResetError, BrokenPipeError):
                more = b""
            if not more:
                raise Closed("nothing more came")
            self.kept += more
        size, = struct.unpack(">I", self.kept[:4])
        frame, self.kept = Frame(self.kept[4:4 + size]), self.kept[4 + size:]
        return frame

    def ends(self, seconds_max=10.0):
        """The peer closes without another word."""
        deadline = time.monotonic() + seconds_max
        while time.monotonic() < deadline:
            try:
                self.read()
            except Closed:
                return
        raise AssertionError(f"still open after {seconds_max} s")

    def publish(self, publisher, *messages, version=1):
        body = struct.pack(">BI", publisher, len(messages)) + b"".join(messages)
        self.say(PUBLISH, body, version)

    def subscribe(self, subscription, stream, where=None, credit=10, **properties):
        body = struct.pack(">B", subscription) + text(stream) + (where or offset(FIRST)) + struct.pack(">H", credit)
        named = {name.replace("_", "-"): value for name, value in properties.items()}
        return self.code(SUBSCRIBE, body + (pairs(named) if named else b""))
