"""The two ends of an attach, as it asks for them and as the answer describes them; raw, as clients show only some of it."""

import struct
import time

from lab import wire
from lab.cases import equal
from lab.wire10 import (
    ATTACH, DETACH, FLOW, SOURCE, TARGET, TRANSFER, Described, Peer10, Symbol, Ubyte, Uint, encode, is_ours,
    performative,
)
from suites.wire091 import suite

OUTCOMES = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"]
RELEASED = 0x26
SOURCE_FIELDS = ["address", "durable", "expiry-policy", "timeout", "dynamic", "dynamic-node-properties",
                 "distribution-mode", "filter", "default-outcome", "outcomes", "capabilities"]
TARGET_FIELDS = ["address", "durable", "expiry-policy", "timeout", "dynamic", "dynamic-node-properties", "capabilities"]


def fresh(name):
    return f"foreign.{name}.{time.monotonic_ns():x}"


class Raw:
    """A value already encoded."""

    def __init__(self, data):
        self.data = data


def put(value):
    """As `encode`, which knows nothing of raw values and of descriptors that are names."""
    if isinstance(value, Raw):
        return value.data
    if isinstance(value, Described):
        descriptor = encode(value.code) if isinstance(value.code, Symbol) else b"\x80" + struct.pack(">Q", value.code)
        return b"\x00" + descriptor + put(value.value)
    if isinstance(value, list):
        data = b"".join(map(put, value))
        return b"\xd0" + struct.pack(">II", len(data) + 4, len(value)) + data
    if isinstance(value, dict):
        data = b"".join(put(key) + put(item) for key, item in value.items())
        return b"\xd1" + struct.pack(">II", len(data) + 4, 2 * len(value)) + data
    return encode(value)


def symbols(*names):
    data = b"".join(struct.pack(">I", len(name)) + name.encode() for name in names)
    return Raw(b"\xf0" + struct.pack(">II", len(data) + 5, len(names)) + b"\xb3" + data)


def integer(number):
    return Raw(b"\x71" + struct.pack(">i", number))


def terminus(code, names, address, fields):
    values = {"address": address, **fields}
    return Described(code, [values.get(name) for name in names])


def shown(value):
    """The contents of a described value, without the classes that carry it."""
    if isinstance(value, Described):
        return value.code, shown(value.value)
    return {key: shown(item) for key, item in value.items()} if isinstance(value, dict) else value


class Bench:
    """A queue of a type, and a raw peer with a session."""

    def __init__(self, queue_type="classic"):
        self.queue = fresh("attach")
        self.owner = wire.Peer(suite.uri)
        self.peer = Peer10(suite.uri)
        self.queue_type = queue_type

    def __enter__(self):
        self.owner.__enter__()
        self.owner.login()
        self.owner.channel()
        arguments = wire.table({"x-queue-type": self.queue_type})
        self.owner.send(wire.method(1, 50, 10, b"\0\0" + wire.short(self.queue) + b"\x02" + arguments))
        self.owner.expect(50, 11)
        self.peer.__enter__()
        self.peer.login10()
        self.peer.session()
        return self

    def __exit__(self, *error):
        self.peer.__exit__(*error)
        self.owner.send(wire.method(1, 50, 40, b"\0\0" + wire.short(self.queue) + b"\0"))
        self.owner.expect(50, 41)
        self.owner.__exit__(*error)

    def attach(self, receiver, source=None, target=None, **others):
        """The broker's answer to an attach: its fields, by their places."""
        address = f"/queues/{self.queue}"
        source = terminus(SOURCE, SOURCE_FIELDS, address if receiver else "local", source or {})
        target = terminus(TARGET, TARGET_FIELDS, "local" if receiver else address, target or {})
        fields = [fresh("link"), Uint(0), receiver, others.get("sender_settles"), others.get("receiver_settles"), source,
                  target, others.get("unsettled"), others.get("incomplete"), None if receiver else Uint(0), None, None,
                  None, others.get("properties")]
        body = put(Described(ATTACH, fields))
        self.peer.send(struct.pack(">IBBH", len(body) + 8, 2, 0, 0) + body)
        return self.peer.expect10(ATTACH)[1]

    def refused(self):
        return self.peer.end_seen()


def told(fields, names):
    values = dict(zip(names, map(shown, fields)))
    return {name: value for name, value in values.items() if value not in (None, False, 0)}


def source_case(name, words, answer, asked, expected, also=None):
    """`also`: what may be said instead of some of what is expected."""
    def act():
        for queue_type in ("classic", "quorum"):
            with Bench(queue_type) as bench:
                seen = told(bench.attach(True, source=asked)[5].value, SOURCE_FIELDS)
                always = {"address": f"/queues/{bench.queue}", "distribution-mode": "move",
                          "default-outcome": (RELEASED, []), "outcomes": OUTCOMES}
                expected_here = {**always, **expected}
                if also and all(seen.get(name) == value for name, value in also.items()):
                    expected_here.update(also)
                equal(seen, expected_here, queue_type)

    suite.add(f"source.{name}", words, answer, act)


source_case("plain", "a source that says nothing but its address",
            "move, default outcome released, four outcomes; no filter, no capabilities", {}, {})
source_case("own", "a source that is durable 2, expires never, with timeout 77 and node properties", "repeated",
            {"durable": Uint(2), "expiry-policy": Symbol("never"), "timeout": Uint(77),
             "dynamic-node-properties": {Symbol("a"): "b"}},
            {"durable": 2, "expiry-policy": "never", "timeout": 77, "dynamic-node-properties": {"a": "b"}})
source_case("copy", "a source that asks for distribution-mode copy", "move (ours: copy)",
            {"distribution-mode": Symbol("copy")}, {}, also={"distribution-mode": "copy"})
source_case("outcomes", "a source with the outcome accepted alone", "repeated",
            {"outcomes": symbols("amqp:accepted:list")}, {"outcomes": ["amqp:accepted:list"]})
source_case("capabilities", "a source with capabilities", "none", {"capabilities": symbols("queue", "x")}, {})

STREAM_FILTERS = {
    "rabbitmq:stream-offset-spec": "first", "rabbitmq:stream-filter": ["a"], "rabbitmq:stream-match-unfiltered": True,
}
for filter_name, value in STREAM_FILTERS.items():
    source_case(f"filter.{filter_name.split(':')[1]}", f"the filter {filter_name} on a queue", "repeated",
                {"filter": {Symbol("any"): Described(Symbol(filter_name), value)}},
                {"filter": {"any": (filter_name, value)}})
for label, words, value in [
    ("plain", "a filter of a stream that is not described", {Symbol("rabbitmq:stream-offset-spec"): "first"}),
    ("mistyped", "a stream's offset that is a boolean",
     {Symbol("x"): Described(Symbol("rabbitmq:stream-offset-spec"), True)}),
    ("unknown", "a filter nobody knows", {Symbol("foo"): Described(Symbol("foo"), "bar")}),
    ("none", "a filter set without filters", {}),
]:
    source_case(f"filter.{label}", words, "an empty filter set", {"filter": value}, {"filter": {}})


def content_filter(name, words, asked, is_repeated=True):
    """RabbitMQ delivers everything, whatever it says of such a filter of a queue; ours what the filter is true of."""
    def act():
        with Bench() as bench:
            ours = is_ours(suite.uri)
            bench.owner.send(wire.publish(1, "", bench.queue, b"x"))
            seen = shown(bench.attach(True, source={"filter": asked})[5].value[7])
            equal(list(seen), [str(name) for name in asked] if ours or is_repeated else [], "filters")
            bench.peer.send(performative(FLOW, Uint(0), Uint(9), Uint(0), Uint(9), Uint(0), Uint(0), Uint(1)))
            if ours:
                # This module is a part of that one.
                from suites.wire10_bench import quiet

                quiet(bench.peer, flows=True)
            else:
                bench.peer.expect10(TRANSFER)

    suite.add(f"source.filter.{name}", words,
              f"RabbitMQ: {'repeated' if is_repeated else 'left out'}, and everything is delivered; ours: repeated, and what it "
              "is true of is delivered", act)


content_filter("jms", "a JMS selector", {Symbol("jms-selector"): Described(0x468C00000004, "a = 1")}, is_repeated=False)
content_filter("sql", "an SQL filter on a queue", {Symbol("sql-filter"): Described(Symbol("amqp:sql-filter"), "a = 1")})
content_filter("properties", "a properties filter on a queue",
               {Symbol("f"): Described(Symbol("amqp:properties-filter"), {Symbol("subject"): "none"})})


@suite.case("target.own", "a target that is durable 2, expires never, with timeout 77, node properties and capabilities",
            "repeated")
def _():
    with Bench() as bench:
        answer = bench.attach(False, target={
            "durable": Uint(2), "expiry-policy": Symbol("never"), "timeout": Uint(77),
            "dynamic-node-properties": {Symbol("a"): "b"}, "capabilities": symbols("queue")})
        equal(told(answer[6].value, TARGET_FIELDS),
              {"address": f"/queues/{bench.queue}", "durable": 2, "expiry-policy": "never", "timeout": 77,
               "dynamic-node-properties": {"a": "b"}, "capabilities": ["queue"]})
        equal((answer[5].value[0], answer[4]), ("local", 0), "source and receiver's settle mode")


NOT_SERVED = "amqp:not-implemented"
SECOND = Ubyte(1)
for name, words, text, asked in [
    ("outcomes", "a source with outcomes nobody knows",
     'Outcomes not supported: [{symbol,<<"a">>},{symbol,<<"b">>}]',
     {"source": {"outcomes": symbols("a", "amqp:accepted:list", "b")}}),
    ("outcome", "a source with an outcome that is no array",
     'Outcomes not supported: {symbol,<<"amqp:accepted:list">>}',
     {"source": {"outcomes": Symbol("amqp:accepted:list")}}),
    ("second", "rcv-settle-mode second", "rcv-settle-mode second not supported", {"receiver_settles": SECOND}),
    ("unsettled", "an attach with unsettled deliveries", "Link recovery not supported",
     {"unsettled": {b"tag": None}}),
    ("incomplete", "an attach with more unsettled deliveries than it says", "Link recovery not supported",
     {"incomplete": True}),
]:
    for receiver in (True, False):
        def not_served(receiver=receiver, text=text, asked=asked):
            with Bench() as bench:
                answer = bench.attach(receiver, **asked)
                equal(answer[5 if receiver else 6], None, "terminus of a refused attach")
                equal(bench.refused(), (DETACH, NOT_SERVED, text))

        role = "receiver" if receiver else "sender"
        suite.add(f"attach.{role}-{name}", f"{words} ({role})", f"refused: `{NOT_SERVED}` `{text}`", not_served)


@suite.case("attach.second-settled", "rcv-settle-mode second of a receiver that is sent settled deliveries", "attached")
def _():
    with Bench() as bench:
        answer = bench.attach(True, sender_settles=Ubyte(1), receiver_settles=SECOND)
        equal((answer[3], answer[4], answer[5] is None), (1, 1, False))


@suite.case("attach.properties", "a consumer priority and timeout of other types, and a property nobody knows",
            "passed over: attached")
def _():
    for properties in [{Symbol("rabbitmq:priority"): Uint(5)}, {Symbol("rabbitmq:priority"): "5"},
                       {Symbol("rabbitmq:consumer-timeout"): integer(5)}, {Symbol("foo"): "bar"}]:
        with Bench("quorum") as bench:
            equal(bench.attach(True, properties=properties)[5] is None, False)


@suite.case("attach.priority", "consumers with the priorities 1 as an int and 5 as a uint; one message",
            "it goes to the first: a priority is an int")
def _():
    with Bench() as bench, Peer10(suite.uri) as other:
        other.login10()
        other.session()
        other.attach("plain", 0, True, f"/queues/{bench.queue}")
        other.expect10(ATTACH)
        flow = performative(FLOW, Uint(0), Uint(9), Uint(0), Uint(9), Uint(0), Uint(0), Uint(1), None, False, True)
        other.send(flow)
        other.expect10(FLOW)
        bench.attach(True, properties={Symbol("rabbitmq:priority"): integer(1)})
        bench.peer.send(flow)
        bench.peer.expect10(FLOW)
        bench.owner.send(wire.publish(1, "", bench.queue, b"x"))
        bench.peer.expect10(TRANSFER)
