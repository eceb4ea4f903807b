"""The bytes of AMQP 1.0, where no client library shows or sends them.

Where RabbitMQ's description prints Erlang terms or a stack, only the condition and
what is closed are compared; where it crashes, any end of that session or connection.
"""

import struct
import time

from lab import wire
from lab.cases import equal, eventually
from lab.wire import Closed
from lab.wire10 import (
    AMQP_HEADER, ATTACH, BEGIN, CLOSE, DETACH, DISPOSITION, END, FLOW, INIT, OPEN, TRANSFER, Described, Peer10, Symbol,
    Uint, Ushort, encode, is_ours, performative, raw_frame,
)
from suites.wire091 import SILENT_SECONDS_MAX, suite

CLOSED = {DETACH: "link detached", END: "session ended", CLOSE: "connection closed"}
DATA = encode(Described(0x75, b"x"))
REJECTED, RELEASED = 0x25, 0x26


def peer():
    return Peer10(suite.uri)


@suite.case("sasl.mechanisms", "the SASL mechanisms", "PLAIN, AMQPLAIN, ANONYMOUS")
def _():
    with peer() as p:
        equal(sorted(p.sasl()[0]), ["AMQPLAIN", "ANONYMOUS", "PLAIN"])


for mechanism, response in [
    ("PLAIN", wire.plain), ("AMQPLAIN", wire.amqplain), ("ANONYMOUS", lambda _uri: b""),
]:
    def outcome(mechanism=mechanism, response=response):
        with peer() as p:
            equal(p.sasl(mechanism, response(suite.uri))[1], 0)

    suite.add(f"sasl.{mechanism.lower()}", f"SASL {mechanism}", "outcome 0", outcome)


@suite.case("sasl.wrong-password", "SASL PLAIN with a wrong password", "outcome 1, then closed")
def _():
    with peer() as p:
        equal(p.sasl("PLAIN", b"\0guest\0wrong")[1], 1)
        p.rest(SILENT_SECONDS_MAX)


def ends_silently(act):
    with peer() as p:
        begin = time.monotonic()
        try:
            act(p)
        except Closed:
            equal(time.monotonic() - begin < SILENT_SECONDS_MAX, True, "closed in time")
            return
    raise AssertionError("it was accepted")


@suite.case("sasl.unknown-mechanism", "a SASL mechanism that was not offered",
            "closed without a word after 3 s (ours: outcome 1, after as long)")
def _():
    with peer() as p:
        begin = time.monotonic()
        try:
            equal((p.sasl("NONE", b"")[1], is_ours(suite.uri)), (1, True))
        except Closed:
            equal(is_ours(suite.uri), False)
        equal(2.5 < time.monotonic() - begin < SILENT_SECONDS_MAX, True, "after a while")
        p.rest(SILENT_SECONDS_MAX)


for name, words, act in [
    ("sasl.garbled-plain", "a PLAIN response that is none", lambda p: p.sasl("PLAIN", b"zz")),
    ("open.unknown-vhost", "an unknown virtual host in open.hostname", lambda p: p.login10(hostname="vhost:absent")),
]:
    suite.add(name, words, "closed without a word", lambda act=act: ends_silently(act))


@suite.case("open.answer", "the broker's open",
            "max-frame-size 131072, channel-max as asked (at most 63), idle-time-out 30000, "
            "capability ANONYMOUS-RELAY, properties product `RabbitMQ`, version `4.3.6`, node")
def _():
    with peer() as p:
        answer = p.login10(channel_max=10)
        properties = answer[9]
        equal((answer[2:5], "ANONYMOUS-RELAY" in answer[7]), ([131072, 10, 30000], True))
        equal((properties["product"], properties["version"]), ("RabbitMQ", "4.3.6"))
        equal("@" in properties["node"], True, f"node {properties['node']}")
    with peer() as p:
        equal(p.login10(channel_max=65535)[3], 63)


@suite.case("open.link-pair", "the capability LINK_PAIR_V1_0 (management over AMQP 1.0)", "offered")
def _():
    with peer() as p:
        equal("LINK_PAIR_V1_0" in p.login10()[7], True)


for name, hostname in [("none", None), ("other", "localhost")]:
    def accepted(hostname=hostname):
        with peer() as p:
            p.login10(hostname=hostname)
            p.session()

    suite.add(f"open.hostname-{name}", f"open.hostname {hostname!r}", "the default virtual host", accepted)


@suite.case("open.idle", "a peer with idle-time-out 1000 ms", "an empty frame at least each second")
def _():
    with peer() as p:
        p.login10(idle_ms=1000)
        for _ in range(3):
            begin = time.monotonic()
            equal(p.read(8), raw_frame(b""))
            equal(time.monotonic() - begin < 1.0, True, "in time")


@suite.case("begin.answer", "the broker's begin",
            "remote-channel as sent, next-outgoing-id 0, incoming-window 400, handle-max 255")
def _():
    with peer() as p:
        p.login10()
        p.send(performative(BEGIN, None, Uint(7), Uint(100), Uint(100), channel=3))
        channel, answer = p.expect10(BEGIN)
        equal((answer[0], answer[1] in (0, 4294967295), answer[2], answer[4]), (3, True, 400, 255), f"begin {answer}")


@suite.case("begin.channels-apart", "two sessions, one ended, its number used again", "each works by itself")
def _():
    with peer() as p:
        p.login10()
        p.session(0)
        p.session(1)
        p.send(performative(END, channel=0))
        p.expect10(END)
        p.session(0)
        p.attach("sender", 0, False, "/exchanges/amq.fanout", channel=1)
        p.expect10(ATTACH)


def receiving(count, act):
    """A queue with `count` messages and a receiver without credit; then `act(peer)`."""
    with wire.Peer(suite.uri) as owner, peer() as p:
        owner.login()
        owner.channel()
        queue = f"foreign.wire.{time.monotonic_ns():x}"
        owner.send(wire.queue_declare(1, queue, bits=0b010), wire.method(1, 85, 10, b"\0"))
        owner.expect(50, 11)
        owner.expect(85, 11)
        for number in range(count):
            owner.send(wire.publish(1, "", queue, b"%d" % number))
            owner.expect(60, 80)
        p.login10()
        p.session()
        p.attach("receiver", 0, True, f"/queues/{queue}")
        answer = p.expect10(ATTACH)[1]
        equal((answer[2], answer[5].value[0], answer[9]), (False, f"/queues/{queue}", 0), "attach")
        try:
            act(p)
        finally:
            owner.send(wire.method(1, 50, 40, b"\0\0" + wire.short(queue) + b"\0"))
            owner.expect(50, 41)


def link_flow(credit, drain=False, echo=False, count=0, window=100, next_in=0):
    return performative(FLOW, Uint(next_in), Uint(window), Uint(0), Uint(100), Uint(0), Uint(count), Uint(credit), None,
                        drain, echo)


def deliveries(p, count):
    """The delivery-ids of the next `count` transfers."""
    return [p.expect10(TRANSFER)[1][1] for _ in range(count)]


def flow_state(p):
    """delivery-count, link-credit, available, drain of the next flow."""
    return p.expect10(FLOW)[1][5:9]


def nothing_more(p):
    """An answer to `begin` is the next thing to come: no transfer is before it."""
    time.sleep(0.25)
    p.send(performative(BEGIN, None, Uint(0), Uint(1), Uint(1), channel=9))
    p.expect10(BEGIN)


@suite.case("credit.exact", "link credit 2, then 1 more, on a queue of 5", "2 transfers, then 1")
def _():
    def act(p):
        p.send(link_flow(2))
        equal(deliveries(p, 2), [0, 1])
        time.sleep(0.25)
        p.send(link_flow(1, count=2, next_in=2))
        flow = None
        while flow is None:
            value = p.frame10()[1]
            flow = value if value.code == TRANSFER else None
        equal(flow.value[1], 2)

    receiving(5, act)


@suite.case("credit.echo", "a link flow with echo", "transfers, then a flow: delivery-count 2, credit 0, available 3")
def _():
    def act(p):
        p.send(link_flow(2, echo=True))
        deliveries(p, 2)
        equal(flow_state(p), [2, 0, 3, False])

    receiving(5, act)


@suite.case("credit.drain", "drain with credit 10 on a queue of 3",
            "3 transfers, then a flow: delivery-count 10, credit 0")
def _():
    def act(p):
        p.send(link_flow(10, drain=True))
        equal(deliveries(p, 3), [0, 1, 2])
        equal(flow_state(p), [10, 0, 0, True])

    receiving(3, act)


@suite.case("credit.pause", "credit lowered to 0, and raised again", "no transfer meanwhile; then they go on")
def _():
    def act(p):
        p.send(link_flow(1))
        deliveries(p, 1)
        p.send(link_flow(0, count=1, next_in=1, echo=True))
        equal(flow_state(p)[:2], [1, 0])
        p.send(link_flow(2, count=1, next_in=1))
        equal(deliveries(p, 2), [1, 2])

    receiving(3, act)


@suite.case("window.incoming", "an incoming-window of 1 with credit 3", "1 transfer; a new window brings the next")
def _():
    def act(p):
        p.send(link_flow(3, window=1))
        deliveries(p, 1)
        nothing_more(p)
        p.send(performative(FLOW, Uint(1), Uint(1), Uint(0), Uint(100)))
        deliveries(p, 1)
        nothing_again(p)

    def nothing_again(p):
        p.send(performative(END, channel=9))
        p.expect10(END)

    receiving(3, act)


# name, what is sent in a session on channel 0, bytes, what ends, condition, description
FRAME_ROWS = [
    ("size-7", "a frame of size 7", raw_frame(b"", size=7), CLOSE, "amqp:connection:framing-error",
     "frame size (7 bytes) < minimum frame size (8 bytes)"),
    ("size-large", "a frame over the broker's max-frame-size", raw_frame(b"", size=131073), CLOSE,
     "amqp:connection:framing-error", "frame size (131073 bytes) > maximum frame size (131072 bytes)"),
    ("doff-small", "data offset 1", raw_frame(b"", doff=1), CLOSE, "amqp:connection:framing-error",
     "data offset (1) < minimum data offset (2)"),
    ("doff-large", "a data offset past the frame", raw_frame(b"", doff=9), CLOSE, "amqp:connection:framing-error",
     "data offset (36 bytes) > frame size (8 bytes)"),
    ("type-5", "frame type 5", raw_frame(b"abc", kind=5), CLOSE, "amqp:connection:framing-error",
     "unexpected frame type 5 in amqp mode (expected 0)"),
    ("sasl-again", "a SASL frame on an open connection", performative(INIT, Symbol("PLAIN"), b"", kind=1), CLOSE,
     "amqp:connection:framing-error", "unexpected frame type 1 in amqp mode (expected 0)"),
    ("header-again", "the protocol header again", AMQP_HEADER, CLOSE, "amqp:connection:framing-error",
     "frame size (1095586128 bytes) > maximum frame size (131072 bytes)"),
    ("channel-over-max", "begin on a channel over channel-max",
     performative(BEGIN, None, Uint(0), Uint(1), Uint(1), channel=11), CLOSE, "amqp:connection:framing-error",
     "channel number (11) exceeds maximum channel number (10)"),
    ("garbage", "a body that is no value", raw_frame(b"\xff\xff\xff"), CLOSE, None, None),
    ("unknown-performative", "an unknown performative", performative(0x99, 1), CLOSE, None, None),
    ("cut-list", "a performative cut short",
     raw_frame(b"\0\x80" + struct.pack(">Q", BEGIN) + b"\xd0\0\0\0\x50\0\0\0\5abc", channel=3), CLOSE, None, None),
    ("mistyped-field", "a begin whose next-outgoing-id is text",
     performative(BEGIN, None, "x", Uint(1), Uint(1), channel=3), CLOSE, None, None),
    ("missing-field", "a begin without its mandatory fields", performative(BEGIN, channel=3), CLOSE, None, None),
    ("open-again", "a second open", performative(OPEN, "x"), CLOSE, None, None),
    ("begin-again", "begin on a channel in use", performative(BEGIN, None, Uint(0), Uint(1), Uint(1)), None, None, None),
    ("not-a-performative", "a body that is text", raw_frame(encode("abc")), None, None, None),
    ("transfer-unattached", "a transfer on a handle that is not attached",
     performative(TRANSFER, Uint(4), Uint(0), b"t", Uint(0), payload=DATA), END, "amqp:session:unattached-handle",
     "Unknown link handle: 4"),
    ("flow-unattached", "a link flow on a handle that is not attached",
     performative(FLOW, Uint(0), Uint(10), Uint(0), Uint(10), Uint(5), Uint(0), Uint(5)), END,
     "amqp:session:unattached-handle", "Unattached link handle: 5"),
    ("end", "end", performative(END), END, None, None),
    ("close", "close", performative(CLOSE), CLOSE, None, None),
]


def ends(sent, code, condition, description):
    with peer() as p:
        p.login10()
        p.session()
        p.send(sent)
        seen = p.end_seen()
        if code is None:
            equal(seen[0] in (END, CLOSE), True, f"ended {seen}")
            return
        equal(seen[0], code, f"what ended {seen}")
        if condition is not None:
            equal(seen[1:], (condition, description))


for name, words, sent, code, condition, description in FRAME_ROWS:
    answer = CLOSED.get(code, "session or connection ended") + (f": `{condition}` `{description}`" if condition else "")
    suite.add(f"frame10.{name}", words, answer,
              lambda s=sent, c=code, n=condition, d=description: ends(s, c, n, d))


ABSENT = "foreign.absent"
V1_REFUSED = ("amqp:invalid-field", None)
# address, then what a receiver's and a sender's attach gets: (condition, description) or True
ADDRESS_ROWS = [
    (f"/queues/{ABSENT}", ("amqp:not-found", f"no queue '{ABSENT}' in vhost '/'"),
     ("amqp:not-found", f"no queue '{ABSENT}' in vhost '/'")),
    (f"/exchanges/{ABSENT}/k", V1_REFUSED, ("amqp:not-found", f"no exchange '{ABSENT}' in vhost '/'")),
    (f"/exchanges/{ABSENT}", V1_REFUSED, ("amqp:not-found", f"no exchange '{ABSENT}' in vhost '/'")),
    ("/exchanges/amq.direct/k", V1_REFUSED, True),
    ("/exchanges/amq.direct", V1_REFUSED, True),
    ("/exchanges/amq%2Edirect/k%2F%C3%BC", V1_REFUSED, True),
    ("/exchanges/amq.direct/k/z", V1_REFUSED, ("amqp:invalid-field", None)),
    ("/exchanges//k", V1_REFUSED, ("amqp:invalid-field", None)),
    ("/exchanges/amq.default/k", V1_REFUSED, ("amqp:invalid-field", None)),
    ("/queues/%zz", ("amqp:invalid-field", None), ("amqp:invalid-field", None)),
    ("/queues/a%2", ("amqp:invalid-field", None), ("amqp:invalid-field", None)),
    ("/queues", V1_REFUSED, V1_REFUSED),
    ("/queue/q", V1_REFUSED, V1_REFUSED),
    ("/amq/queue/q", V1_REFUSED, V1_REFUSED),
    ("/topic/t", V1_REFUSED, V1_REFUSED),
    ("plain-name", V1_REFUSED, V1_REFUSED),
    ("", V1_REFUSED, V1_REFUSED),
    (None, ("amqp:invalid-field", None), True),
]


def attached(address, receiver, expected):
    with peer() as p:
        p.login10()
        p.session()
        p.attach("link", 0, receiver, address)
        answer = p.expect10(ATTACH)[1]
        terminus = answer[5 if receiver else 6]
        if expected is True:
            equal((terminus.value or [None])[0], address, "address in the answer")
            if not receiver:
                flow = p.expect10(FLOW)[1]
                equal((answer[10], flow[6]), (16777216, 170), "max-message-size and credit")
            return
        equal(terminus, None, "terminus of a refused attach")
        code, condition, description = p.end_seen()
        equal((code, condition), (DETACH, expected[0]))
        if expected[1] is not None:
            equal(description, expected[1])
        # the session lives on, and so does the handle once the detach is answered
        p.send(performative(DETACH, Uint(0), True))
        p.attach("again", 0, False, None)
        p.expect10(ATTACH)


for address, for_receiver, for_sender in ADDRESS_ROWS:
    for role, receiver, expected in [("source", True, for_receiver), ("target", False, for_sender)]:
        if expected is True:
            answer = "attached" if receiver else "attached, max-message-size 16777216, credit 170"
        else:
            answer = f"attach without {role}, then detach closed: `{expected[0]}`" + (
                f" `{expected[1]}`" if expected[1] else "")
        shown = "null" if address is None else f"`{address}`"
        label = "null" if address is None else address.strip("/").replace("/", "-") or "empty"
        suite.add(f"address.{role}-{label}", f"{role} address {shown}", answer,
                  lambda a=address, r=receiver, e=expected: attached(a, r, e))


@suite.case("link.handle-in-use", "attach on a handle in use",
            "session ended: `amqp:session:handle-in-use` `handle 0 is already associated with a link`")
def _():
    with peer() as p:
        p.login10()
        p.session()
        for name in ("one", "two"):
            p.attach(name, 0, False, None)
        p.expect10(ATTACH)
        equal(p.end_seen(),
              (END, "amqp:session:handle-in-use", "handle 0 is already associated with a link"))


@suite.case("link.handle-over-max", "attach on handle 300",
            "session ended: `amqp:connection:framing-error` "
            "`link handle value (300) exceeds maximum link handle value (255)`")
def _():
    with peer() as p:
        p.login10()
        p.session()
        p.attach("link", 300, False, None)
        equal(p.end_seen(), (END, "amqp:connection:framing-error",
                             "link handle value (300) exceeds maximum link handle value (255)"))


def sent_to_fanout(*frames):
    """Attaches a sender to amq.fanout, sends, answers the performative that comes back."""
    with peer() as p:
        p.login10()
        p.session()
        p.attach("link", 0, False, "/exchanges/amq.fanout/foreign")
        p.expect10(ATTACH)
        p.expect10(FLOW)
        p.send(*frames)
        return p.frame10()[1]


def transfer(delivery, payload=DATA, more=False, settled=False):
    identifier = None if delivery is None else Uint(delivery)
    return performative(TRANSFER, Uint(0), identifier, b"t", Uint(0), settled, more, payload=payload)


@suite.case("transfer.unroutable", "a transfer that no queue takes", "disposition settled, `released`")
def _():
    seen = sent_to_fanout(transfer(0))
    equal((seen.code, seen.value[0], seen.value[1], seen.value[3], seen.value[4].code), (DISPOSITION, True, 0, True, RELEASED))


@suite.case("transfer.delivery-id", "a first delivery-id that is not 0", "taken as it is")
def _():
    seen = sent_to_fanout(transfer(4294967295))
    equal((seen.code, seen.value[1]), (DISPOSITION, 4294967295))


for name, words, payload in [
    ("empty", "a transfer without a message", b""),
    ("no-body", "a message without a body section", encode(Described(0x73, [None]))),
    ("garbage", "a payload that is no section", b"\xff\xff"),
    ("cut-section", "a body section cut short", b"\x00\x53\x75\xa0\x50ab"),
]:
    def refused(payload=payload):
        seen = sent_to_fanout(transfer(0, payload))
        equal(seen.code, DETACH, f"performative {seen}")
        equal((seen.value[1], seen.value[2].value[0]), (True, "amqp:decode-error"))

    suite.add(f"transfer.{name}", words, "link detached: `amqp:decode-error`", refused)


@suite.case("transfer.no-delivery-id", "a first transfer without a delivery-id", "session ended")
def _():
    equal(sent_to_fanout(transfer(None)).code, END)


@suite.case("transfer.multi", "a message in three transfers", "one disposition")
def _():
    section = encode(Described(0x75, bytes(300)))
    seen = sent_to_fanout(transfer(0, section[:100], more=True), transfer(None, section[100:200], more=True),
                          transfer(None, section[200:]))
    equal((seen.code, seen.value[1], seen.value[4].code), (DISPOSITION, 0, RELEASED))


@suite.case("transfer.wrap", "delivery-ids across 2^32", "each is settled under its own id")
def _():
    with peer() as p:
        p.login10()
        p.send(performative(BEGIN, None, Uint(4294967294), Uint(100), Uint(100)))
        p.expect10(BEGIN)
        p.attach("link", 0, False, "/exchanges/amq.fanout/foreign")
        p.expect10(ATTACH)
        p.expect10(FLOW)
        wanted = [4294967294, 4294967295, 0, 1]
        p.send(*[transfer(number) for number in wanted])
        seen = []

        def gather():
            _channel, value, _payload = p.frame10()
            if value.code == DISPOSITION:
                first = value.value[1]
                last = first if value.value[2] is None else value.value[2]
                while True:
                    seen.append(first)
                    if first == last:
                        break
                    first = (first + 1) & 0xFFFFFFFF
            return len(seen) >= 4

        eventually(gather, "four settled")
        equal(seen, wanted)
