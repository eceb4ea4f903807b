"""Corners of AMQP 0-9-1 that two brokers were compared in by random talk: what is asked, and what is heard.

A row is a name, words, the words of the answer, and steps of bytes on channel 1 where classic queue `q`, quorum queue `u` and
the fanout exchange `f`, to which `q` is bound, are there and exclusive to nobody. What is heard of the last step counts.
"""

import struct
import time

from lab.cases import equal
from lab.typed import properties091, table091, v091
from lab.wire import METHOD, Peer, close_of, frame, method, short
from suites.wire091 import suite

CLASSIC, QUORUM = "rabbit_classic_queue", "rabbit_quorum_queue"
NOT_TEXT = b"\x01\xff"
DECLARE_OK, DELETE_OK, GET_OK = (50, 11), (50, 41), (60, 71)


class Corner:
    """A channel beside objects of its own, which go with it."""

    def __enter__(self):
        stem = f"foreign.corner.{time.time_ns():x}"
        self.names = {"q": f"{stem}.q", "u": f"{stem}.u", "f": f"{stem}.f", "new": f"{stem}.new"}
        self.peer, self.owner = Peer(suite.uri), Peer(suite.uri)
        for peer in (self.peer, self.owner):
            peer.login(vhost=suite.uri.vhost)
            peer.channel()
        q, f = short(self.names["q"]), short(self.names["f"])
        self.owner.send(declare(self.names["q"]), declare(self.names["u"], ("x-queue-type", v091("S", "quorum"))))
        self.owner.send(method(1, 40, 10, b"\0\0" + f + short("fanout") + b"\2" + table091()))
        self.owner.send(method(1, 50, 20, b"\0\0" + q + f + short("") + b"\0" + table091()))
        for ids in (DECLARE_OK, DECLARE_OK, (40, 11), (50, 21)):
            self.owner.expect(*ids)
        return self

    def __exit__(self, *_error):
        self.owner.send(*[method(1, 50, 40, b"\0\0" + short(self.names[name]) + b"\0") for name in ("q", "u", "new")])
        self.owner.send(method(1, 40, 20, b"\0\0" + short(self.names["f"]) + b"\0"))
        for _ in range(3):
            self.owner.expect(50, 41)
        self.owner.expect(40, 21)
        self.peer.socket.close()
        self.owner.socket.close()

    def heard(self):
        """The next method: a close with its text, else its ids with its arguments."""
        while True:
            kind, _channel, payload = self.peer.frame()
            if kind == METHOD:
                ids = struct.unpack(">HH", payload[:4])
                return close_of(*ids, payload[4:]) or (ids, payload[4:])


def declare(name, *arguments, bits=2):
    return method(1, 50, 10, b"\0\0" + short(name) + bytes([bits]) + table091(*arguments))


def delete(name):
    return method(1, 50, 40, b"\0\0" + short(name) + b"\0")


def publish(exchange, key, body=b"x", **properties):
    """Exchange and key as the bytes of short strings."""
    head = struct.pack(">HHQ", 60, 0, len(body)) + properties091(**properties)
    return method(1, 60, 40, b"\0\0" + exchange + key + b"\0") + frame(2, 1, head) + frame(3, 1, body)


def consume(queue, argument, value):
    return method(1, 60, 20, b"\0\0" + short(queue) + short("t") + b"\0" + table091((argument, value)))


def row(name, words, answer, steps, expected):
    """`steps`: bytes of names, and how many methods are heard before the last; `expected`: of the last."""

    def run():
        with Corner() as corner:
            *before, last = steps(corner.names)
            for step in before:
                corner.peer.send(step)
                seen = corner.heard()
                equal(seen[0] in ("channel", "connection"), False, f"heard {seen}")
            corner.peer.send(last)
            equal(corner.heard(), expected(corner.names))

    suite.add(f"corner.{name}", words, answer, run)


def refusal(name, words, said, steps, ids, code=406, what="channel"):
    """`said` with names in braces, braces of its own doubled."""
    shown = said.replace("{{", "{").replace("}}", "}")
    kind = {406: "PRECONDITION_FAILED", 404: "NOT_FOUND"}[code]

    def expected(names):
        return (what, code, f"{kind} - {said.format(vhost=suite.uri.vhost, **names)}", ids)

    row(name, words, f"{what} closed: {code} `{kind} - {shown}`", steps, expected)


for argument, value, shown in (
    ("x-stream-offset", v091("S", "first"), "offset"), ("x-stream-filter", v091("S", "a"), "filter"),
    ("x-stream-match-unfiltered", v091("t", True), "unfiltered"),
):
    for queue, module in (("q", CLASSIC), ("u", QUORUM)):
        refusal(f"consume.{shown}.{module.split('_')[1]}", f"a consumer with {argument} of a queue that is no stream",
                f"invalid arg '{argument}' for queue '{{{queue}}}' in vhost '{{vhost}}' of queue type {module}",
                lambda names, queue=queue, argument=argument, value=value: [consume(names[queue], argument, value)], (60, 20))

refusal("declare.passive-empty", "queue.declare passive of the empty name, after another queue was declared",
        "no queue '' in vhost '{vhost}'", lambda names: [declare(names["q"]), declare("", bits=3)], (50, 10), code=404)
row("delete.last", "queue.delete of the empty name, when the last queue that was declared is gone", "delete-ok, 0 messages",
    lambda names: [declare(names["new"]), delete(""), delete("")], lambda _names: (DELETE_OK, bytes(4)))
row("publish.key-bytes", "a routing key that is not UTF-8, to a fanout exchange", "routed; basic.get tells it byte by byte",
    lambda names: [publish(short(names["f"]), NOT_TEXT) + method(1, 60, 70, b"\0\0" + short(names["q"]) + b"\1")],
    lambda names: (GET_OK, bytes(7) + b"\1\0" + short(names["f"]) + NOT_TEXT + bytes(4)))
row("bind.key-bytes", "a binding key that is not UTF-8", "connection closed: 501 `FRAME_ERROR - Malformed UTF-8 in shortstr`",
    lambda names: [method(1, 50, 20, b"\0\0" + short(names["q"]) + short(names["f"]) + NOT_TEXT + b"\0" + table091())],
    lambda _names: ("connection", 501, "FRAME_ERROR - Malformed UTF-8 in shortstr", (0, 0)))

CC = "invalid message: {{unacceptable_type_in_header,\"CC\",longstr}}"
WRONG_CC = table091(("BCC", v091("I", 1)), ("CC", v091("S", "a")))
refusal("publish.expiration-first", "a wrong expiration, a wrong CC and another's user-id", "invalid expiration 'x': no_integer",
        lambda names: [publish(short(""), short(names["q"]), expiration="x", user_id="u", headers=WRONG_CC)], (60, 40))
refusal("publish.cc-second", "a wrong BCC, a wrong CC and another's user-id", CC,
        lambda names: [publish(short(""), short(names["q"]), user_id="u", headers=WRONG_CC)], (60, 40))

UNEQUAL = "inequivalent arg '{argument}' for queue '{{new}}' in vhost '{{vhost}}': "
for name, words, kind, argument, first, second, said in (
    ("array", "a number, then an array", "classic", "x-max-priority", v091("I", 1), v091("A", [v091("I", 1)]),
     "received '[{{signedint,1}}]' but current is '1'"),
    ("void", "a number, then void", "quorum", "x-delayed-retry-min", v091("I", 5), v091("V"), "received none but current is '5'"),
    ("long", "a text, then the letter L", "classic", "x-dead-letter-exchange", v091("S", "5"), v091("L", 5),
     "received '5' but current is '5'"),
):
    refusal(f"again.{name}", f"{argument}: {words}", UNEQUAL.format(argument=argument) + said,
            lambda names, kind=kind, argument=argument, first=first, second=second: [
                declare(names["new"], ("x-queue-type", v091("S", kind)), (argument, value)) for value in (first, second)],
            (50, 10))
row("again.time", "x-max-priority: a number, then a time of as many seconds", "declare-ok",
    lambda names: [declare(names["new"], ("x-max-priority", v091(letter, 5))) for letter in "IT"],
    lambda names: (DECLARE_OK, short(names["new"]) + bytes(8)))
refusal("declare.version-negative", "x-queue-version -1",
        "invalid arg 'x-queue-version' for queue '{new}' in vhost '{vhost}': {{value_negative,-1}}",
        lambda names: [declare(names["new"], ("x-queue-version", v091("I", -1)))], (50, 10))
refusal("declare.long", "x-dead-letter-exchange with the letter L",
        "invalid type 'long' for arg 'x-dead-letter-exchange' in queue '{new}' in vhost '{vhost}'",
        lambda names: [declare(names["new"], ("x-dead-letter-exchange", v091("L", 5)))], (50, 10))
for name, value, said in (
    ("empty", v091("S", ""), "value <<>>; expected all, any, all-with-x, or any-with-x"),
    ("bytes", v091("x", b"any"), "type binary (value <<\"any\">>); expected longstr"),
):
    refusal(f"match.{name}", f"x-match as {'no text' if name == 'empty' else 'bytes'}", f"Invalid x-match field {said}",
            lambda names, value=value: [
                method(1, 50, 20, b"\0\0" + short(names["q"]) + short("amq.headers") + short("") + b"\0"
                       + table091(("x-match", value)))], (50, 20))


CONFIRM_SELECT, UNROUTABLE = method(1, 85, 10, b"\0"), publish(short(""), short("foreign.corner.none"))
HANG_UP = struct.pack(">H", 200) + short("") + bytes(4)


def confirmed(name, words, step, answer, expected):
    """Three messages that go nowhere, with `step` right behind them: all three are confirmed, and then `expected` is heard."""

    def run():
        with Corner() as corner:
            corner.peer.send(CONFIRM_SELECT)
            equal(corner.heard()[0], (85, 11))
            corner.peer.send(3 * UNROUTABLE + step(corner.names))
            safe = set()
            while (heard := corner.heard())[0] == (60, 80):
                tag, multiple = struct.unpack(">QB", heard[1])
                safe |= set(range(1 if multiple else tag, tag + 1))
            equal((safe, heard[:2] if isinstance(heard[0], str) else heard[0]), ({1, 2, 3}, expected))

    suite.add(f"corner.confirmed.{name}", f"three messages that go nowhere and, in the same packet, {words}",
              f"all three are confirmed, then {answer}", run)


for name, words, step, answer, expected in (
    ("cc", "a publish with a CC header that is no array",
     lambda names: publish(short(""), short(names["q"]), headers=table091(("CC", v091("I", 0)))), "channel closed: 406", ("channel", 406)),
    ("exchange", "a publish to an exchange that is not there", lambda _names: publish(short("foreign.corner.none"), short("")),
     "channel closed: 404", ("channel", 404)),
    ("ack", "basic.ack of a delivery that never was", lambda _names: method(1, 60, 80, struct.pack(">QB", 7, 0)),
     "channel closed: 406", ("channel", 406)),
    ("immediate", "a publish with immediate",
     lambda _names: method(1, 60, 40, b"\0\0" + short("") + short("") + b"\2") + frame(2, 1, struct.pack(">HHQH", 60, 0, 0, 0)),
     "connection closed: 540", ("connection", 540)),
    ("frame", "a body without a publish", lambda _names: frame(3, 1, b"x"), "connection closed: 505", ("connection", 505)),
    ("channel-close", "channel.close", lambda _names: method(1, 20, 40, HANG_UP), "close-ok", (20, 41)),
    ("connection-close", "connection.close", lambda _names: method(0, 10, 50, HANG_UP), "close-ok", (10, 51)),
    ("qos", "basic.qos", lambda _names: method(1, 60, 10, struct.pack(">IHB", 0, 1, 0)), "qos-ok", (60, 11)),
    ("declare", "queue.declare", lambda names: declare(names["new"]), "declare-ok", DECLARE_OK),
):
    confirmed(name, words, step, answer, expected)
