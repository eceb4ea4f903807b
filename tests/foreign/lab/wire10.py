"""The bytes of AMQP 1.0: encoding a few performatives, decoding any value (parts 1-3).

For what no client library would send. `Described(code, value)` stands for a described
type, `Symbol` for a symbol; lists are lists, null is None.
"""

import struct

from lab.wire import Peer, plain

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
MECHANISMS, INIT, CHALLENGE, RESPONSE, OUTCOME = range(0x40, 0x45)
FIELDS_MAX = 14  # of a performative: attach has the most
ERROR, SOURCE, TARGET = 0x1D, 0x28, 0x29


class Symbol(str):
    pass


class Symbols(tuple):
    """An array of symbols."""


class Uint(int):
    pass


class Ushort(int):
    pass


class Ubyte(int):
    pass


class Described:
    def __init__(self, code, value):
        self.code = code
        self.value = value

    def __repr__(self):
        code = hex(self.code) if isinstance(self.code, int) else self.code
        return f"Described({code}, {self.value!r})"


def encode(value):
    if value is None:
        return b"\x40"
    if isinstance(value, bool):
        return b"\x41" if value else b"\x42"
    if isinstance(value, Described):
        return b"\x00" + b"\x80" + struct.pack(">Q", value.code) + encode(value.value)
    if isinstance(value, Symbols):
        body = b"\xa3" + b"".join(struct.pack(">B", len(symbol)) + symbol.encode("ascii") for symbol in value)
        return b"\xe0" + struct.pack(">BB", len(body) + 1, len(value)) + body
    if isinstance(value, Symbol):
        return b"\xb3" + struct.pack(">I", len(value)) + value.encode("ascii")
    if isinstance(value, Ubyte):
        return b"\x50" + struct.pack(">B", value)
    if isinstance(value, Ushort):
        return b"\x60" + struct.pack(">H", value)
    if isinstance(value, Uint):
        return b"\x70" + struct.pack(">I", value)
    if isinstance(value, int):
        return b"\x81" + struct.pack(">q", value)
    if isinstance(value, str):
        data = value.encode()
        return b"\xb1" + struct.pack(">I", len(data)) + data
    if isinstance(value, bytes):
        return b"\xb0" + struct.pack(">I", len(value)) + value
    if isinstance(value, list):
        data = b"".join(encode(item) for item in value)
        return b"\xd0" + struct.pack(">II", len(data) + 4, len(value)) + data
    if isinstance(value, dict):
        data = b"".join(encode(key) + encode(item) for key, item in value.items())
        return b"\xd1" + struct.pack(">II", len(data) + 4, 2 * len(value)) + data
    raise TypeError(type(value))


FIXED = {
    0x50: ">B", 0x51: ">b", 0x52: ">B", 0x53: ">B", 0x54: ">b", 0x55: ">b", 0x56: ">?", 0x60: ">H", 0x61: ">h",
    0x70: ">I", 0x71: ">i", 0x72: ">f", 0x73: ">I", 0x80: ">Q", 0x81: ">q", 0x82: ">d", 0x83: ">q",
}
CONSTANT = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0}


def decode(data, at=0):
    """(value, end) of the value at `at`."""
    code, at = data[at], at + 1
    if code == 0:
        descriptor, at = decode(data, at)
        value, at = decode(data, at)
        return Described(descriptor, value), at
    if code in CONSTANT:
        return CONSTANT[code], at
    if code in FIXED:
        size = struct.calcsize(FIXED[code])
        return struct.unpack(FIXED[code], data[at:at + size])[0], at + size
    if code == 0x45:
        return [], at
    if code >> 4 in (0x7, 0x8, 0x9):
        size = {0x7: 4, 0x8: 8, 0x9: 16}[code >> 4]
        return data[at:at + size], at + size
    wide = code >> 4 in (0xB, 0xD, 0xF)
    size = struct.unpack(">I", data[at:at + 4])[0] if wide else data[at]
    at += 4 if wide else 1
    body, end = data[at:at + size], at + size
    if code >> 4 in (0xA, 0xB):
        kind = code & 0xF
        if kind == 0:
            return body, end
        # RabbitMQ passes on text that is none.
        text = body.decode(errors="replace")
        return (Symbol(text) if kind == 3 else text), end
    count = struct.unpack(">I", body[:4])[0] if wide else body[0]
    place = 4 if wide else 1
    if code >> 4 in (0xE, 0xF):
        return decode_array(body, place, count), end
    items = []
    for _ in range(count):
        item, place = decode(body, place)
        items.append(item)
    if code in (0xC1, 0xD1):
        return dict(zip(items[::2], items[1::2])), end
    return items, end


def decode_array(body, place, count):
    """Items share one constructor: put it before each and decode as usual."""
    constructor, items = body[place:place + 1], []
    place += 1
    for _ in range(count):
        value, end = decode(constructor + body[place:])
        items.append(value)
        place += end - 1
    return items


def performative(code, *fields, channel=0, payload=b"", kind=0):
    body = encode(Described(code, list(fields))) + payload
    return raw_frame(body, channel, kind)


def raw_frame(body, channel=0, kind=0, size=None, doff=2):
    return struct.pack(">IBBH", len(body) + 8 if size is None else size, doff, kind, channel) + body


class Peer10(Peer):
    """A raw AMQP 1.0 peer."""

    def frame10(self):
        """The next frame that is not empty: (channel, Described, payload)."""
        while True:
            size, doff, _kind, channel = struct.unpack(">IBBH", self.read(8))
            body = self.read(size - 8)[(doff - 2) * 4:]
            if body:
                value, end = decode(body)
                if isinstance(value, Described) and isinstance(value.value, list):
                    # trailing nulls may be left out; a case indexes fields by their place
                    value.value += [None] * (FIELDS_MAX - len(value.value))
                return channel, value, body[end:]

    def expect10(self, code):
        channel, value, _payload = self.frame10()
        if value.code != code:
            raise AssertionError(f"saw {value}, expected performative {code:#x}")
        return channel, value.value

    def sasl(self, mechanism="PLAIN", response=None):
        """SASL up to its outcome; answers the mechanisms and the outcome code."""
        self.send(SASL_HEADER)
        header = self.read(8)
        if header != SASL_HEADER:
            raise AssertionError(f"saw header {header!r}")
        mechanisms = self.expect10(MECHANISMS)[1][0]
        response = plain(self.uri) if response is None else response
        self.send(performative(INIT, Symbol(mechanism), response, self.uri.host, kind=1))
        return mechanisms, self.expect10(OUTCOME)[1][0]

    def login10(self, hostname="vhost:/", frame_max=131072, channel_max=10, idle_ms=None):
        """SASL, both opens; answers the broker's open."""
        self.sasl()
        self.send(AMQP_HEADER)
        header = self.read(8)
        if header != AMQP_HEADER:
            raise AssertionError(f"saw header {header!r}")
        idle = None if idle_ms is None else Uint(idle_ms)
        self.send(performative(OPEN, "foreign", hostname, Uint(frame_max), Ushort(channel_max), idle))
        return self.expect10(OPEN)[1]

    def session(self, channel=0, window=2048):
        self.send(performative(BEGIN, None, Uint(0), Uint(window), Uint(window), channel=channel))
        return self.expect10(BEGIN)[1]

    def attach(self, name, handle, receiver, address, channel=0):
        """Role true: we receive from the address; false: we send to it."""
        source = Described(SOURCE, [address] if receiver else ["local"])
        target = Described(TARGET, ["local"] if receiver else [address])
        count = None if receiver else Uint(0)
        self.send(performative(ATTACH, name, Uint(handle), receiver, None, None, source, target, None, None, count,
                               channel=channel))

    def end_seen(self):
        """The next detach, end or close: (its code, error condition, description)."""
        while True:
            _channel, value, _payload = self.frame10()
            if value.code in (DETACH, END, CLOSE):
                position = 2 if value.code == DETACH else 0
                fields = value.value
                error = fields[position].value if len(fields) > position and fields[position] else [None, None]
                return value.code, error[0], error[1] if len(error) > 1 else None


def is_ours(uri):
    """Whether this is the broker of this project, which answers some rows otherwise than RabbitMQ."""
    with Peer10(uri) as peer:
        return "leveret" in str(peer.login10()[9].get("platform", "")).lower()
