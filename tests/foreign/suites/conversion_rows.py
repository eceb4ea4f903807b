"""The rows of the conversion suite: name, what is sent in words, what is sent, what RabbitMQ makes of it.

A fifth column is our answer where it is another one; docs/compatibility/differences.md says why.
"""

import uuid

from lab.typed import (array10, described10, list10, map10, properties091, section10, string10, symbol10, table091, v10,
                       v091)
from suites.conversion_answers import ANSWERS_091, ANSWERS_10

UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")
DATA = section10(0x75, v10("binary", b"b"))

# name, words, value: every type of AMQP 1.0 (§1.6)
SIMPLE = [
    ("null", "null", v10("null")),
    ("true", "boolean true", v10("boolean", True)),
    ("false", "boolean false", b"\x42"),
    ("ubyte", "ubyte 200", v10("ubyte", 200)),
    ("ushort", "ushort 60000", v10("ushort", 60_000)),
    ("uint", "uint 4000000000", v10("uint", 4_000_000_000)),
    ("ulong", "ulong 5", v10("ulong", 5)),
    ("ulong-large", "ulong 2^63", v10("ulong", 1 << 63)),
    ("byte", "byte -3", v10("byte", -3)),
    ("short", "short -300", v10("short", -300)),
    ("int", "int -70000", v10("int", -70_000)),
    ("long", "long -2^40", v10("long", -(1 << 40))),
    ("float", "float 1.5", v10("float", 1.5)),
    ("double", "double 2.5", v10("double", 2.5)),
    ("double-nan", "double NaN", b"\x82\x7f\xf8\0\0\0\0\0\0"),
    ("decimal32", "decimal32", v10("decimal32", b"\x22\x50\0\1")),
    ("decimal64", "decimal64", v10("decimal64", b"\x22\x30\0\0\0\0\0\1")),
    ("decimal128", "decimal128", v10("decimal128", b"\x22\x08" + bytes(13) + b"\1")),
    ("char", "char 'é'", v10("char", 0xE9)),
    ("timestamp", "timestamp 1700000000123", v10("timestamp", 1_700_000_000_123)),
    ("timestamp-early", "timestamp -1500", v10("timestamp", -1_500)),
    ("uuid", "uuid", v10("uuid", UUID.bytes)),
    ("binary", "binary", v10("binary", b"\0\xff")),
    ("string", "string 'é'", string10("é")),
    ("string-long", "string of 300 bytes", string10("s" * 300)),
    ("symbol", "symbol 'sy'", symbol10("sy")),
]
COMPOUND = [
    ("list", "list of int, string, null", list10(v10("int", 1), string10("a"), v10("null"))),
    ("list-empty", "empty list", b"\x45"),
    ("map", "map of symbol and string keys", map10(symbol10("a"), v10("int", 1), string10("b"), v10("boolean", True))),
    ("map-keys", "map with a key that is no text", map10(v10("int", 1), v10("int", 2))),
    ("array", "array of int", array10(b"\x71", b"\0\0\0\1", b"\0\0\0\2")),
    ("array-symbol", "array of symbol", array10(b"\xa3", b"\1a", b"\1b")),
    ("described", "described string", described10(symbol10("d"), string10("v"))),
    ("nested", "map of list of map", map10(symbol10("a"), list10(map10(symbol10("b"), list10(v10("ubyte", 1)))))),
]


def header(*fields):
    return section10(0x70, list10(*fields)) + DATA


def properties(place, value):
    return section10(0x73, list10(*[v10("null")] * place, value)) + DATA


def application(*pairs):
    return section10(0x74, map10(*pairs)) + DATA


def annotated(*pairs):
    return section10(0x72, map10(*pairs)) + DATA


def to_091_rows():
    yield "plain", "data alone", DATA
    null = v10("null")
    for value, words in ((True, "true"), (False, "false")):
        yield f"durable-{words}", f"durable {words}", header(v10("boolean", value))
    for priority in (0, 4, 9, 10, 255):
        yield f"priority-{priority}", f"priority {priority}", header(null, v10("ubyte", priority))
    for ttl in (60_000, (1 << 32) - 1):
        yield f"ttl-{ttl}", f"ttl {ttl}", header(null, null, v10("uint", ttl))
    yield ("acquirer", "first-acquirer false, delivery-count 3",
           header(null, null, null, v10("boolean", False), v10("uint", 3)))
    ids = [
        ("string", string10("id")), ("string-empty", string10("")), ("string-255", string10("i" * 255)),
        ("string-256", string10("i" * 256)), ("ulong", v10("ulong", 5)), ("ulong-max", v10("ulong", (1 << 64) - 1)),
        ("uuid", v10("uuid", UUID.bytes)), ("binary", v10("binary", b"\0\xff")), ("binary-empty", v10("binary", b"")),
        ("binary-256", v10("binary", b"i" * 256)),
    ]
    for place, name in ((0, "message-id"), (5, "correlation-id")):
        for kind, value in ids:
            yield f"{name}-{kind}", f"{name}: {kind.replace('-', ' ')}", properties(place, value)
    yield "user-id", "user-id", properties(1, v10("binary", b"guest"))
    yield "to", "to", properties(2, string10("/queues/q"))
    yield "subject", "subject", properties(3, string10("subject"))
    for name, text in [
        ("queue", "/queues/q"), ("queue-escaped", "/queues/a%20b%2Fc%25%C3%A9"), ("queue-broken", "/queues/a%zz"),
        ("exchange", "/exchanges/amq.direct/k"), ("exchange-alone", "/exchanges/amq.direct"), ("other", "reply here"),
        ("v1", "/queue/q"), ("empty", ""), ("255", "r" * 255), ("256", "r" * 256),
        ("queue-empty", "/queues/"), ("queue-not-text", "/queues/%FF"),
    ]:
        yield f"reply-to-{name}", f"reply-to `{text if len(text) < 60 else len(text)}`", properties(4, string10(text))
    for place, name in ((6, "content-type"), (7, "content-encoding")):
        yield name, name, properties(place, symbol10("a/b"))
        yield f"{name}-empty", f"{name} empty", properties(place, symbol10(""))
        yield f"{name}-256", f"{name} of 256 bytes", properties(place, symbol10("c" * 256))
    yield "absolute-expiry-time", "absolute-expiry-time", properties(8, v10("timestamp", 4_000_000_000_000))
    for name, ms in (("", 1_700_000_000_999), ("-0", 0), ("-negative", -1_500), ("-large", (1 << 63) - 1)):
        yield f"creation-time{name}", f"creation-time {ms}", properties(9, v10("timestamp", ms))
    yield "group-id", "group-id", properties(10, string10("g"))
    yield "group-id-256", "group-id of 256 bytes", properties(10, string10("g" * 256))
    yield "group-sequence", "group-sequence", properties(11, v10("uint", 3))
    yield "reply-to-group-id", "reply-to-group-id", properties(12, string10("rg"))
    for kind, words, value in SIMPLE:
        yield f"application-{kind}", f"application-property: {words}", application(string10("k"), value)
    for kind, words, value in SIMPLE + COMPOUND:
        yield f"annotation-{kind}", f"annotation: {words}", annotated(symbol10("x-k"), value)
    yield "application-name-x", "application-property `x-k`", application(string10("x-k"), v10("int", 1))
    yield "application-name-empty", "application-property without a name", application(string10(""), v10("int", 1))
    yield "application-name-255", "application-property with a name of 255 bytes", application(
        string10("n" * 255), v10("int", 1))
    yield "application-name-256", "application-property with a name of 256 bytes", application(
        string10("n" * 256), v10("int", 1))
    yield "application-name-utf8", "application-property `é`", application(string10("é"), v10("int", 1))
    yield "application-empty", "no application-property in the section", application()
    yield "application-cc", "application-property `CC`", application(string10("CC"), string10("k"))
    yield "application-twice", "an application-property twice", application(
        string10("k"), v10("int", 1), string10("k"), v10("int", 2))
    yield "annotation-plain-name", "annotation `k`", annotated(symbol10("k"), v10("int", 1))
    yield "annotation-empty-name", "annotation without a name", annotated(symbol10(""), v10("int", 1))
    yield "annotation-number", "annotation with a number for a name", annotated(v10("ulong", 7), v10("int", 1))
    yield "annotation-opt", "annotation `x-opt-k`", annotated(symbol10("x-opt-k"), v10("int", 1))
    yield "annotation-type", "annotation `x-basic-type`", annotated(symbol10("x-basic-type"), string10("t"))
    yield "annotation-type-256", "annotation `x-basic-type` of 256 bytes", annotated(
        symbol10("x-basic-type"), string10("t" * 256))
    yield "annotation-type-symbol", "annotation `x-basic-type`, a symbol", annotated(symbol10("x-basic-type"), symbol10("t"))
    for name in ("app-id", "cluster-id", "expiration", "delivery-mode"):
        yield f"annotation-{name}", f"annotation `x-basic-{name}`", annotated(symbol10(f"x-basic-{name}"), string10("v"))
    yield "annotation-cc", "annotation `x-cc`", annotated(symbol10("x-cc"), list10(string10("k1"), string10("k2")))
    yield "annotation-death", "annotation `x-death`", annotated(
        symbol10("x-death"), list10(map10(symbol10("queue"), string10("q"), symbol10("count"), v10("ulong", 1))))
    yield "annotation-own", "annotations `x-exchange` and `x-routing-key`", annotated(
        symbol10("x-exchange"), string10("e"), symbol10("x-routing-key"), string10("r"))
    yield "annotation-priority", "annotation `x-priority`", annotated(symbol10("x-priority"), v10("int", 1))
    yield "both", "an annotation and an application-property of one name", (
        section10(0x72, map10(symbol10("x-k"), v10("int", 1))) + application(string10("x-k"), v10("int", 2)))
    yield "delivery-annotations", "delivery-annotations", section10(0x71, map10(symbol10("x-k"), v10("int", 1))) + DATA
    yield "footer", "a footer", DATA + section10(0x78, map10(symbol10("x-k"), v10("int", 1)))
    data = lambda body: section10(0x75, v10("binary", body))  # noqa: E731
    yield "body-empty", "empty data", data(b"")
    yield "body-data-two", "two data sections", data(b"a") + data(b"bc")
    yield "body-data-four", "four data sections, one empty", data(b"a") + data(b"") + data(b"bc") + data(b"d")
    for kind, words, value in SIMPLE[:1] + SIMPLE[6:7] + SIMPLE[22:24] + COMPOUND:
        yield f"body-value-{kind}", f"amqp-value: {words}", section10(0x77, value)
    sequence = section10(0x76, list10(v10("int", 1), string10("a")))
    yield "body-sequence", "an amqp-sequence", sequence
    yield "body-sequences", "two amqp-sequences", sequence + section10(0x76, b"\x45")
    yield "body-value-type", "amqp-value with annotation `x-basic-type`", (
        section10(0x72, map10(symbol10("x-basic-type"), string10("t"))) + section10(0x77, string10("v")))
    yield "body-value-content", "amqp-value with content-type", (
        section10(0x73, list10(*[v10("null")] * 6, symbol10("a/b"))) + section10(0x77, string10("v")))
    yield "body-value-footer", "amqp-value and a footer", (
        section10(0x77, string10("v")) + section10(0x78, map10(symbol10("x-k"), v10("int", 1))))


# name, words, value: every type of a 0-9-1 table (as RabbitMQ reads them)
FIELDS = [
    ("bool", "t true", v091("t", True)),
    ("byte", "b -3", v091("b", -3)),
    ("ubyte", "B 253", v091("B", 253)),
    ("short", "s -300", v091("s", -300)),
    ("ushort", "u 60000", v091("u", 60_000)),
    ("int", "I -70000", v091("I", -70_000)),
    ("uint", "i 4000000000", v091("i", 4_000_000_000)),
    ("long", "l -2^40", v091("l", -(1 << 40))),
    ("ulong", "L 2^40", v091("L", 1 << 40)),
    ("ulong-negative", "L -1", v091("L", -1)),
    ("float", "f 1.5", v091("f", 1.5)),
    ("double", "d 2.5", v091("d", 2.5)),
    ("decimal", "D 1.50", v091("D", (2, 150))),
    ("text", "S 'é'", v091("S", "é")),
    ("text-not-utf8", "S that is not UTF-8", v091("S", b"\xff\xfe")),
    ("text-empty", "S ''", v091("S", "")),
    ("text-long", "S of 300 bytes", v091("S", "s" * 300)),
    ("bytes", "x", v091("x", b"\0\xff")),
    ("timestamp", "T 1700000000", v091("T", 1_700_000_000)),
    ("timestamp-large", "T 2^60", v091("T", 1 << 60)),
    ("void", "V", v091("V")),
    ("array", "A of I and S", v091("A", [v091("I", 1), v091("S", "a")])),
    ("array-empty", "A of nothing", v091("A", [])),
    ("table", "F of I and S", v091("F", [("a", v091("I", 1)), ("b", v091("S", "v"))])),
    ("table-empty", "F of nothing", v091("F", [])),
    ("nested", "F of A of F", v091("F", [("a", v091("A", [v091("F", [("b", v091("B", 1))])]))])),
]


def to_10_rows():
    yield "plain", "no properties", (properties091(), b"b")
    yield "body-empty", "an empty body", (properties091(), b"")

    def one(**values):
        return properties091(**values), b"b"

    for name in ("content_type", "content_encoding"):
        shown = name.replace("_", "-")
        yield shown, shown, one(**{name: "a/b"})
        yield f"{shown}-empty", f"{shown} empty", one(**{name: ""})
        yield f"{shown}-utf8", f"{shown} `é`", one(**{name: "é"})
        yield f"{shown}-not-utf8", f"{shown} that is not UTF-8", one(**{name: b"\xff"})
    for mode in (0, 1, 2, 3):
        yield f"delivery-mode-{mode}", f"delivery-mode {mode}", one(delivery_mode=mode)
    for priority in (0, 4, 9, 10, 255):
        yield f"priority-{priority}", f"priority {priority}", one(priority=priority)
    for name in ("message_id", "correlation_id"):
        shown = name.replace("_", "-")
        for kind, value in [
            ("text", "id"), ("empty", ""), ("digits", "5"), ("uuid", f"urn:uuid:{UUID}"),
            ("uuid-upper", f"urn:uuid:{str(UUID).upper()}"), ("uuid-bare", str(UUID)), ("uuid-broken", "urn:uuid:1234"),
            ("255", "i" * 255), ("not-utf8", b"\xff\xfe"),
        ]:
            yield f"{shown}-{kind}", f"{shown}: {kind.replace('-', ' ')}", one(**{name: value})
    for name, text in [
        ("queue", "q"), ("escaped", "a b/c%é"), ("empty", ""), ("address", "/queues/q"), ("exchange", "/exchanges/e/k"),
        ("not-utf8", b"\xff"), ("unreserved", "A-Z.a_z~0"), ("255", "r" * 255),
    ]:
        yield f"reply-to-{name}", f"reply-to: {name.replace('-', ' ')}", one(reply_to=text)
    for text in ("60000", "4294967295", "4294967296"):
        yield f"expiration-{text}", f"expiration `{text}`", one(expiration=text)
    for seconds in (1_700_000_000, 0, 1 << 40):
        yield f"timestamp-{seconds}", f"timestamp {seconds}", one(timestamp=seconds)
    yield "type", "type", one(type="t")
    yield "type-empty", "type empty", one(type="")
    yield "type-not-utf8", "type that is not UTF-8", one(type=b"\xff")
    yield "user-id", "user-id", one(user_id="guest")
    yield "app-id", "app-id", one(app_id="a")
    yield "app-id-empty", "app-id empty", one(app_id="")
    yield "app-id-not-utf8", "app-id that is not UTF-8", one(app_id=b"\xff")
    yield "cluster-id", "cluster-id", one(cluster_id="k")

    def headers(*pairs):
        return one(headers=table091(*pairs))

    yield "headers-empty", "an empty header table", headers()
    for kind, words, value in FIELDS:
        yield f"header-{kind}", f"header: {words}", headers(("k", value))
    for kind, words, value in FIELDS:
        yield f"header-x-{kind}", f"header `x-k`: {words}", headers(("x-k", value))
    integer = v091("I", 1)
    yield "header-name-empty", "a header without a name", headers(("", integer))
    yield "header-name-255", "a header with a name of 255 bytes", headers(("n" * 255, integer))
    yield "header-name-utf8", "header `é`", headers(("é", integer))
    yield "header-name-x-utf8", "header `x-é`", headers(("x-é", integer))
    yield "header-name-not-utf8", "a header whose name is not UTF-8", headers((b"\xff", integer))
    yield "header-name-x", "header `x-`", headers(("x-", integer))
    yield "header-name-upper", "header `X-K`", headers(("X-K", integer))
    yield "header-twice", "a header twice", headers(("k", integer), ("k", v091("I", 2)))
    yield "header-x-twice", "a header `x-k` twice", headers(("x-k", integer), ("x-k", v091("I", 2)))
    yield "header-own", "headers `x-exchange` and `x-routing-key`", headers(
        ("x-exchange", v091("S", "e")), ("x-routing-key", v091("S", "r")))
    for name in ("type", "app-id"):
        yield f"header-basic-{name}", f"header `x-basic-{name}`", headers((f"x-basic-{name}", v091("S", "v")))
    yield "header-x-cc", "header `x-cc`", headers(("x-cc", v091("A", [v091("S", "k")])))
    yield "cc", "CC", headers(("CC", v091("A", [v091("S", "k1"), v091("S", "k2")])))
    yield "bcc", "BCC", headers(("BCC", v091("A", [v091("S", "k1")])))
    yield "death", "x-death", headers(("x-death", v091("A", [v091("F", [
        ("queue", v091("S", "q")), ("count", v091("l", 1)), ("time", v091("T", 1_700_000_000)),
        ("routing-keys", v091("A", [v091("S", "k")]))])])))
    yield "first-death", "x-first-death-queue", headers(("x-first-death-queue", v091("S", "q")))
    sections = section10(0x77, string10("v"))
    yield "sections-value", "type `amqp-1.0`, the body an amqp-value", (properties091(type="amqp-1.0"), sections)
    yield "sections-two", "type `amqp-1.0`, the body two amqp-sequences", (
        properties091(type="amqp-1.0"), section10(0x76, b"\x45") + section10(0x76, b"\x45"))
    yield "sections-data", "type `amqp-1.0`, the body a data section", (properties091(type="amqp-1.0"), DATA)
    yield "sections-none", "type `amqp-1.0`, the body no section", (properties091(type="amqp-1.0"), b"text")
    yield "sections-empty", "type `amqp-1.0`, no body", (properties091(type="amqp-1.0"), b"")


def answered(rows, answers):
    return [(name, words, sent, *answers.get(name, ())) for name, words, sent in rows]


# Rows that RabbitMQ does not take, or cannot pass on, over 1.0.
NOT_TO_10 = ("annotation-null", "annotation-described", "annotation-plain-name", "annotation-empty-name",
             "annotation-number", "annotation-expiration")
# Rows it passes on over 0-9-1, but not as they came.
NOT_THE_SAME = ("header-ulong", "header-ulong-negative", "header-x-ulong", "header-x-ulong-negative", "header-twice",
                "header-x-twice", "bcc")
TO_091 = answered(to_091_rows(), ANSWERS_091)
TO_10 = answered(to_10_rows(), ANSWERS_10)
