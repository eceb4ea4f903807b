"""Values with their types, as bytes and as words: AMQP 1.0 (part 1) and 0-9-1 tables (§4.2.5).

For cases that compare which type a value has, which client libraries hide. Writers answer bytes;
readers answer a text such as `uint 5` or `I 5`, equal for all encodings of the same typed value.
"""

import struct
import uuid


# --- AMQP 1.0, writing ---------------------------------------------------------------------------

def v10(kind, value=None):
    """The bytes of a simple value of a named type, in its longest encoding."""
    code, form = SIMPLE10[kind]
    if form is None:
        return bytes([code])
    if form == "raw":
        return bytes([code]) + value
    if form == "variable":
        data = value.encode() if isinstance(value, str) else value
        return bytes([code]) + struct.pack(">I", len(data)) + data
    return bytes([code]) + struct.pack(form, value)


SIMPLE10 = {
    "null": (0x40, None), "boolean": (0x56, ">?"), "ubyte": (0x50, ">B"), "ushort": (0x60, ">H"), "uint": (0x70, ">I"),
    "ulong": (0x80, ">Q"), "byte": (0x51, ">b"), "short": (0x61, ">h"), "int": (0x71, ">i"), "long": (0x81, ">q"),
    "float": (0x72, ">f"), "double": (0x82, ">d"), "decimal32": (0x74, "raw"), "decimal64": (0x84, "raw"),
    "decimal128": (0x94, "raw"), "char": (0x73, ">I"), "timestamp": (0x83, ">q"), "uuid": (0x98, "raw"),
    "binary": (0xB0, "variable"), "string": (0xB1, "variable"), "symbol": (0xB3, "variable"),
}


def compound10(code, items):
    data = b"".join(items)
    return bytes([code]) + struct.pack(">II", len(data) + 4, len(items)) + data


def list10(*items):
    return compound10(0xD0, items)


def map10(*pairs):
    """Keys and values, already bytes, by turns."""
    return compound10(0xD1, pairs)


def array10(constructor, *items):
    """Elements without their constructor, which all share."""
    data = constructor + b"".join(items)
    return b"\xf0" + struct.pack(">II", len(data) + 4, len(items)) + data


def described10(descriptor, value):
    return b"\0" + descriptor + value


def section10(code, value):
    return described10(bytes([0x53, code]), value)


def string10(text):
    return v10("string", text)


def symbol10(text):
    return v10("symbol", text)


# --- AMQP 1.0, reading ---------------------------------------------------------------------------

NAMES10 = {
    0x50: ("ubyte", ">B"), 0x60: ("ushort", ">H"), 0x70: ("uint", ">I"), 0x52: ("uint", ">B"), 0x80: ("ulong", ">Q"),
    0x53: ("ulong", ">B"), 0x51: ("byte", ">b"), 0x61: ("short", ">h"), 0x71: ("int", ">i"), 0x54: ("int", ">b"),
    0x81: ("long", ">q"), 0x55: ("long", ">b"), 0x72: ("float", ">f"), 0x82: ("double", ">d"), 0x73: ("char", ">I"),
    0x83: ("timestamp", ">q"),
}
CONSTANTS10 = {0x40: "null", 0x41: "true", 0x42: "false", 0x43: "uint 0", 0x44: "ulong 0"}
RAW10 = {0x74: ("decimal32", 4), 0x84: ("decimal64", 8), 0x94: ("decimal128", 16)}
VARIABLE10 = {0: "binary", 1: "string", 3: "symbol"}


def read10(data, at=0):
    """(text, end) of the value at `at`."""
    code, at = data[at], at + 1
    if code == 0:
        descriptor, at = read10(data, at)
        value, at = read10(data, at)
        return f"described({descriptor}: {value})", at
    return read10_as(code, data, at)


def read10_as(code, data, at):
    if code in CONSTANTS10:
        return CONSTANTS10[code], at
    if code == 0x56:
        return ("true" if data[at] else "false"), at + 1
    if code in NAMES10:
        name, form = NAMES10[code]
        end = at + struct.calcsize(form)
        return f"{name} {struct.unpack(form, data[at:end])[0]}", end
    if code in RAW10:
        name, size = RAW10[code]
        return f"{name} {data[at:at + size].hex()}", at + size
    if code == 0x98:
        return f"uuid {uuid.UUID(bytes=bytes(data[at:at + 16]))}", at + 16
    if code == 0x45:
        return "list[]", at
    is_wide = code >> 4 in (0xB, 0xD, 0xF)
    size = struct.unpack(">I", data[at:at + 4])[0] if is_wide else data[at]
    at += 4 if is_wide else 1
    end = at + size
    if code >> 4 in (0xA, 0xB):
        return f"{VARIABLE10[code & 15]} {text_of(data[at:end])}", end
    count = struct.unpack(">I", data[at:at + 4])[0] if is_wide else data[at]
    at += 4 if is_wide else 1
    if code >> 4 in (0xE, 0xF):
        return f"array[{', '.join(elements10(data, at, count))}]", end
    items = []
    for _ in range(count):
        item, at = read10(data, at)
        items.append(item)
    if code in (0xC1, 0xD1):
        return f"map{{{', '.join(sorted(f'{k}: {v}' for k, v in zip(items[::2], items[1::2])))}}}", end
    return f"list[{', '.join(items)}]", end


def elements10(data, at, count):
    code, at = data[at], at + 1
    for _ in range(count):
        item, at = read10_as(code, data, at)
        yield item


def text_of(data):
    """A text or bytes as a literal; long ones by their length."""
    data = bytes(data)
    if len(data) > 60:
        return f"of {len(data)} bytes"
    try:
        return repr(data.decode())
    except UnicodeDecodeError:
        return repr(data)


HEADER10 = ("durable", "priority", "ttl", "first-acquirer", "delivery-count")
PROPERTIES10 = (
    "message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding",
    "absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id",
)
SECTIONS10 = {
    0x71: "delivery-annotations", 0x72: "annotations", 0x74: "application-properties", 0x75: "data", 0x76: "sequence",
    0x77: "value", 0x78: "footer",
}
OWN_ANNOTATIONS = ("symbol 'x-exchange'", "symbol 'x-routing-key'")
UNSAID = {"durable": "false", "first-acquirer": "true", "delivery-count": "uint 0"}


def sections10(data):
    """The sections of a message: (code, the bytes of the section, where the next begins)."""
    at = 0
    while at < len(data):
        _text, end = read10(data, at)
        yield data[at + 2], data[at:end]
        at = end


def message10(data):
    """A message in words: what is null, what is the default and the broker's own annotations left out."""
    parts = []
    for code, section in sections10(data):
        if code in (0x70, 0x73):
            names = HEADER10 if code == 0x70 else PROPERTIES10
            fields = zip(names, list_items(section, 3))
            said = [f"{name}: {text}" for name, text in fields if text not in ("null", UNSAID.get(name))]
            if said:
                parts.append(f"{'header' if code == 0x70 else 'properties'}({', '.join(said)})")
        elif code == 0x72:
            pairs = [f"{k}: {v}" for k, v in map_items(section, 3) if k not in OWN_ANNOTATIONS]
            if pairs:
                parts.append(f"annotations{{{', '.join(sorted(pairs))}}}")
        else:
            parts.append(f"{SECTIONS10[code]} {read10(section, 3)[0]}")
    return " ".join(parts)


def counted(data, at):
    """How many items a list or map has, and where they begin."""
    code = data[at]
    if code == 0x45:
        return 0, at + 1
    if code in (0xC0, 0xC1):
        return data[at + 2], at + 3
    return struct.unpack(">I", data[at + 5:at + 9])[0], at + 9


def list_items(data, at):
    count, at = counted(data, at)
    for _ in range(count):
        item, at = read10(data, at)
        yield item


def map_items(data, at):
    items = list(list_items(data, at))
    return zip(items[::2], items[1::2])


# --- AMQP 0-9-1 ----------------------------------------------------------------------------------

SIMPLE091 = {
    "t": ">?", "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q", "f": ">f",
    "d": ">d", "T": ">Q", "V": "",
}


def v091(letter, value=None):
    """The bytes of a field value: letter and value."""
    if letter in ("S", "x"):
        data = value.encode() if isinstance(value, str) else value
        return letter.encode() + struct.pack(">I", len(data)) + data
    if letter == "A":
        data = b"".join(value)
        return b"A" + struct.pack(">I", len(data)) + data
    if letter == "F":
        return b"F" + table091(*value)
    if letter == "D":
        return b"D" + struct.pack(">Bi", *value)
    form = SIMPLE091[letter]
    return letter.encode() + (struct.pack(form, value) if form else b"")


def table091(*pairs):
    """A field table of (name, value bytes) pairs, with its length."""
    data = b""
    for name, value in pairs:
        name = name.encode() if isinstance(name, str) else name
        data += bytes([len(name)]) + name + value
    return struct.pack(">I", len(data)) + data


def read091(data, at):
    letter, at = chr(data[at]), at + 1
    if letter in ("S", "x", "A", "F"):
        size = struct.unpack(">I", data[at:at + 4])[0]
        at, end = at + 4, at + 4 + size
        if letter == "F":
            return f"F{{{', '.join(fields091(data[at:end]))}}}", end
        if letter == "A":
            items = []
            while at < end:
                item, at = read091(data, at)
                items.append(item)
            return f"A[{', '.join(items)}]", end
        return f"{letter} {text_of(data[at:end])}", end
    if letter == "D":
        scale, number = struct.unpack(">Bi", data[at:at + 5])
        return f"D {number}e-{scale}", at + 5
    form = SIMPLE091[letter]
    if not form:
        return letter, at
    end = at + struct.calcsize(form)
    return f"{letter} {struct.unpack(form, data[at:end])[0]}", end


def fields091(data):
    """The fields of a table in words, by name."""
    at, fields = 0, []
    while at < len(data):
        size = data[at]
        name = data[at + 1:at + 1 + size]
        value, at = read091(data, at + 1 + size)
        fields.append(f"{text_of(name)}: {value}")
    return sorted(fields)


PROPERTIES091 = (
    "content-type", "content-encoding", "headers", "delivery-mode", "priority", "correlation-id", "reply-to",
    "expiration", "message-id", "timestamp", "type", "user-id", "app-id", "cluster-id",
)


def properties091(**values):
    """Flags and property list (§4.2.6.1); names with `_` for `-`, headers as the bytes of a table."""
    flags, data = 0, b""
    for place, name in enumerate(PROPERTIES091):
        value = values.pop(name.replace("-", "_"), None)
        if value is None:
            continue
        flags |= 1 << (15 - place)
        if name == "headers":
            data += value
        elif name in ("delivery-mode", "priority"):
            data += bytes([value])
        elif name == "timestamp":
            data += struct.pack(">Q", value)
        else:
            text = value.encode() if isinstance(value, str) else value
            data += bytes([len(text)]) + text
    assert not values, values
    return struct.pack(">H", flags) + data


def message091(raw, body):
    """Properties and body in words."""
    flags, at, parts = struct.unpack(">H", raw[:2])[0], 2, []
    for place, name in enumerate(PROPERTIES091):
        if not flags & 1 << (15 - place):
            continue
        if name == "headers":
            size = struct.unpack(">I", raw[at:at + 4])[0]
            parts.append(f"headers{{{', '.join(fields091(raw[at + 4:at + 4 + size]))}}}")
            at += 4 + size
        elif name in ("delivery-mode", "priority"):
            parts.append(f"{name}: {raw[at]}")
            at += 1
        elif name == "timestamp":
            parts.append(f"{name}: {struct.unpack('>Q', raw[at:at + 8])[0]}")
            at += 8
        else:
            size = raw[at]
            parts.append(f"{name}: {text_of(raw[at + 1:at + 1 + size])}")
            at += 1 + size
    return ", ".join([*parts, f"body {text_of(body)}"])
