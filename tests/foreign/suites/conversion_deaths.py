"""Deaths of a message that is read over the other protocol: `x-death` as `x-opt-deaths`, and back.

Queues are named A, B, ... in what is expected, times are T; answers are RabbitMQ's and ours.
"""

import re
import struct
import time

from lab import wire
from lab.cases import equal
from lab.typed import (list10, map10, message10, message091, properties091, section10, string10, symbol10, table091,
                       v10, v091)
from suites.conversion_bench import got_091, got_10, put_091, put_10, suite
from suites.conversion_death_answers import ANSWERS

BODY10 = section10(0x75, v10("binary", b"b"))


class Graves:
    """Queues with dead-letter arguments, and the 0-9-1 peer that owns them, on channel 1 in confirm mode."""

    def __init__(self):
        self.owner = wire.Peer(suite.uri)
        self.names = []

    def __enter__(self):
        self.owner.__enter__()
        self.owner.login()
        self.owner.channel()
        self.owner.send(wire.method(1, 85, 10, b"\0"))
        self.owner.expect(85, 11)
        self.base = f"foreign.deaths.{time.monotonic_ns():x}"
        return self

    def __exit__(self, *error):
        for name in self.names:
            self.owner.send(wire.method(1, 50, 40, b"\0\0" + wire.short(name) + b"\0"))
            self.owner.expect(50, 41)
        self.owner.__exit__(*error)

    def name(self, letter):
        return f"{self.base}.{letter}"

    def declare(self, letter, to=None, **arguments):
        values = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        if to:
            values |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.name(to)}
        name = self.name(letter)
        self.owner.send(wire.method(1, 50, 10, b"\0\0" + wire.short(name) + b"\2" + wire.table(values)))
        self.owner.expect(50, 11)
        self.names.append(name)

    def reject(self, letter):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            self.owner.send(wire.method(1, 60, 70, b"\0\0" + wire.short(self.name(letter)) + b"\0"))
            _channel, _class, method, arguments = self.owner.method()
            if method == 71:
                size = struct.unpack(">Q", self.owner.frame()[2][4:12])[0]
                while size:
                    size -= len(self.owner.frame()[2])
                self.owner.send(wire.method(1, 60, 90, arguments[:8] + b"\0"))
                return
            time.sleep(0.02)
        raise AssertionError(f"nothing to reject in {letter}")

    def shown(self, text):
        """Without what differs from run to run, and without the header, which is about deliveries."""
        text = re.sub(r"^header\([^)]*\) ", "", text)
        text = re.sub(re.escape(self.base) + r"\.(\w)", r"\1", text)
        return re.sub(r"(timestamp|T) 1[6-9]\d{8,11}", r"\1 T", text)


def sent_091(graves, ttl_ms=None, keys=()):
    fields = {"expiration": str(ttl_ms)} if ttl_ms is not None else {}
    if keys:
        cc = v091("A", [v091("S", graves.name(key)) for key in keys])
        fields["headers"] = table091(("CC", cc))
    put_091(graves.owner, graves.name("A"), properties091(**fields), b"b")


def sent_10(graves, ttl_ms=None, keys=()):
    ttl = v10("null") if ttl_ms is None else v10("uint", ttl_ms)
    sections = section10(0x70, list10(v10("null"), v10("null"), ttl))
    if keys:
        keys = list10(*[string10(graves.name(key)) for key in keys])
        sections += section10(0x72, map10(symbol10("x-cc"), keys))
    put_10(graves.name("A"), sections + BODY10)


def rejected(graves, sent):
    graves.declare("B")
    graves.declare("A", to="B")
    sent(graves)
    graves.reject("A")
    return "B"


def expired(graves, sent):
    graves.declare("B")
    graves.declare("A", to="B")
    sent(graves, ttl_ms=50)
    return "B"


def dropped(graves, sent):
    graves.declare("B")
    graves.declare("A", to="B", max_length=1)
    sent(graves)
    sent(graves)
    return "B"


def twice(graves, sent):
    """Rejected, then too old where it came to."""
    graves.declare("C")
    graves.declare("B", to="C", message_ttl=50)
    graves.declare("A", to="B")
    sent(graves)
    graves.reject("A")
    return "C"


def again(graves, sent):
    """Round in a circle: rejected, too old, rejected, too old."""
    graves.declare("B", to="A", message_ttl=50)
    graves.declare("A", to="B")
    sent(graves)
    graves.reject("A")
    graves.reject("A")
    return "A"


def copied(graves, sent):
    """One of several keys, which stay with the death."""
    graves.declare("C")
    graves.declare("B")
    graves.declare("A", to="B")
    sent(graves, keys=["C"])
    graves.reject("A")
    return "B"


def read(act, sent, got):
    with Graves() as graves:
        letter = act(graves, sent)
        return graves.shown(got(graves, graves.name(letter)))


def read_091(graves, name):
    return message091(*got_091(graves.owner, name))


def read_10(_graves, name):
    return message10(next(got_10(name)))


ROWS = [
    ("rejected", "rejected once", rejected),
    ("expired", "too old by its own time to live of 50 ms", expired),
    ("dropped", "one too many", dropped),
    ("twice", "rejected, then too old by the time to live of the queue it came to", twice),
    ("again", "rejected, too old, rejected, too old, in the same two queues", again),
    ("copied", "rejected, routed by a CC key too", copied),
]
WAYS = [("to-091", "1.0", "0-9-1", sent_10, read_091), ("to-10", "0-9-1", "1.0", sent_091, read_10),
        ("same-091", "0-9-1", "0-9-1", sent_091, read_091), ("same-10", "1.0", "1.0", sent_10, read_10)]


def add(way, sender, reader, sent, got):
    for name, words, act in ROWS:
        answer = ANSWERS[f"{way}.{name}"]
        suite.add(f"death-{way}.{name}", f"sent over {sender}, died: {words}; read over {reader}", f"`{answer}`",
                  lambda act=act, answer=answer: equal(read(act, sent, got), answer))


for row in WAYS:
    add(*row)
