"""Hostile bytes over real sockets: malformed frames, slow and half-open handshakes.

Each case runs beside a bystander of each protocol, whose messages must keep flowing
on the same connections. Answers to single malformed frames are in wire091.py and
wire10.py; here it is the broker that must live, and its memory that must stay flat.
"""

import random
import struct
import threading
import time

from lab import wire, wire10
from lab.broker import resident_bytes
from lab.cases import Skip, Suite, equal
from lab.wire import Closed, Peer, method, short
from lab.wire10 import (ATTACH, BEGIN, DISPOSITION, FLOW, TRANSFER, Described, Peer10, Symbol, Uint, encode, is_ours,
                        performative)

suite = Suite("malformed")
FRAMES, FRAMES_FULL = 500, 10_000
PAUSE_SECONDS_MAX = 5.0
MESSAGES_MIN = 20
GROWTH_BYTES_MAX = 32 << 20
TIMEOUT_SECONDS = (9.0, 14.0)
HALF_OPEN = 300


class Bystander(threading.Thread):
    """Sends and receives numbered messages on one connection until told to stop."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self.count = 0
        self.slowest = 0.0
        self.failure = None

    def run(self):
        try:
            self.open()
            while not self.stopping.is_set():
                begin = time.monotonic()
                self.exchange(b"%d" % self.count)
                self.slowest = max(self.slowest, time.monotonic() - begin)
                self.count += 1
                time.sleep(0.01)
            self.leave()
        except Exception as error:  # noqa: BLE001 - told to the case, which fails
            self.failure = error

    def finish(self):
        deadline = time.monotonic() + 2 * PAUSE_SECONDS_MAX
        while self.count < MESSAGES_MIN and self.failure is None and time.monotonic() < deadline:
            time.sleep(0.01)
        self.stopping.set()
        self.join(30)
        if self.failure is not None:
            raise AssertionError(f"{type(self).__name__} after {self.count} messages: {self.failure!r}")
        equal(self.count >= MESSAGES_MIN and self.slowest < PAUSE_SECONDS_MAX, True,
              f"{type(self).__name__}: {self.count} messages, the slowest {self.slowest:.2f} s")


class Bystander091(Bystander):
    def open(self):
        self.peer = Peer(suite.uri, 30)
        self.peer.login()
        self.peer.channel()
        self.queue = f"foreign.bystander.{time.monotonic_ns():x}"
        self.peer.send(wire.queue_declare(1, self.queue, bits=0b100), method(1, 85, 10, b"\0"),
                       method(1, 60, 20, b"\0\0" + short(self.queue) + short("tag") + b"\x02" + wire.table({})))
        for ids in ((50, 11), (85, 11), (60, 21)):
            self.peer.expect(*ids)

    def exchange(self, body):
        self.peer.send(wire.publish(1, "", self.queue, body))
        confirmed = delivered = False
        while not (confirmed and delivered):
            kind, _channel, payload = self.peer.frame()
            if kind == wire.METHOD and payload[:4] == struct.pack(">HH", 60, 80):
                confirmed = True
            elif kind == wire.BODY:
                equal(payload, body, "bystander's message")
                delivered = True
            elif kind == wire.METHOD:
                equal(payload[:4], struct.pack(">HH", 60, 60), "bystander's method")

    def leave(self):
        self.peer.socket.close()


class Bystander10(Bystander):
    def open(self):
        self.owner = Peer(suite.uri, 30)
        self.owner.login()
        self.owner.channel()
        self.queue = f"foreign.bystander10.{time.monotonic_ns():x}"
        self.owner.send(wire.queue_declare(1, self.queue, bits=0b010))
        self.owner.expect(50, 11)
        self.peer = Peer10(suite.uri, 30)
        self.peer.login10()
        self.peer.session(window=100_000)
        self.peer.attach("sender", 0, False, f"/queues/{self.queue}")
        self.peer.expect10(ATTACH)
        self.peer.expect10(FLOW)
        self.peer.attach("receiver", 1, True, f"/queues/{self.queue}")
        self.peer.expect10(ATTACH)

    def exchange(self, body):
        number = Uint(self.count)
        self.peer.send(
            performative(FLOW, number, Uint(100_000), number, Uint(100_000), Uint(1), number, Uint(1)),
            performative(TRANSFER, Uint(0), number, b"t", Uint(0), False, False, payload=encode(Described(0x75, body))))
        settled = delivered = False
        while not (settled and delivered):
            _channel, value, payload = self.peer.frame10()
            if value.code == DISPOSITION and value.value[0] is True:
                settled = True
            elif value.code == TRANSFER:
                equal(payload.endswith(body), True, "bystander's message")
                delivered = True
                self.peer.send(performative(DISPOSITION, True, Uint(value.value[1]), None, True, Described(0x24, [])))
            else:
                equal(value.code in (FLOW, DISPOSITION), True, f"bystander's frame {value}")

    def leave(self):
        self.peer.socket.close()
        self.owner.send(method(1, 50, 40, b"\0\0" + short(self.queue) + b"\0"))
        self.owner.expect(50, 41)
        self.owner.socket.close()


def beside_bystanders(act):
    bystanders = [Bystander091(), Bystander10()]
    for bystander in bystanders:
        bystander.start()
    act()
    for bystander in bystanders:
        bystander.finish()


# Inputs that are mutated. Nothing here makes a queue or an exchange, so that a mutation hardly can.
METHODS_091 = [
    method(1, 60, 40, b"\0\0" + short("") + short("foreign.absent") + b"\1") + wire.content_header(1, 4)
    + wire.frame(wire.BODY, 1, b"abcd"),
    method(1, 60, 10, b"\0\0\0\0\0\x0a\0"),
    method(1, 60, 80, b"\0\0\0\0\0\0\0\x01\0"),
    method(1, 60, 120, b"\0\0\0\0\0\0\0\0\x03"),
    method(1, 60, 70, b"\0\0" + short("foreign.absent") + b"\0"),
    method(1, 60, 20, b"\0\0" + short("foreign.absent") + short("tag") + b"\0" + wire.table({"x-priority": 5})),
    method(1, 50, 20, b"\0\0" + short("foreign.absent") + short("amq.topic") + short("a.#") + b"\0"
           + wire.table({"a": "b", "c": {"d": 1}})),
    method(1, 85, 10, b"\0"),
    method(1, 20, 40, b"\0\xc8" + short("bye") + b"\0\0\0\0"),
    wire.frame(wire.HEARTBEAT, 0, b""),
]
FRAMES_10 = [
    performative(BEGIN, None, Uint(0), Uint(100), Uint(100), channel=1),
    performative(ATTACH, "other", Uint(1), False, None, None, Described(0x28, ["local"]), Described(0x29, [None]), None,
                 None, Uint(0)),
    performative(ATTACH, "third", Uint(2), True, None, None, Described(0x28, ["/queues/foreign.absent"]),
                 Described(0x29, ["local"]), {Symbol("a"): Uint(1)}),
    performative(FLOW, Uint(0), Uint(100), Uint(0), Uint(100), Uint(0), Uint(0), Uint(10)),
    performative(TRANSFER, Uint(0), Uint(0), b"t", Uint(0), False, False, payload=encode(Described(0x75, b"abcd"))),
    performative(TRANSFER, Uint(0), Uint(0), b"t", Uint(0), False, True, payload=encode(
        Described(0x74, {"a": 1, "b": "two"})) + encode(Described(0x77, ["list", {"x": None}]))),
    performative(DISPOSITION, True, Uint(0), Uint(9), True, Described(0x24, [])),
    performative(wire10.DETACH, Uint(0), True),
    performative(wire10.END),
]


def mutate(dice, data):
    data = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        way, at = dice.randrange(6), dice.randrange(len(data)) if data else 0
        if way == 0 and data:
            data[at] ^= 1 << dice.randrange(8)
        elif way == 1 and data:
            data[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif way == 2:
            del data[at:at + dice.randint(1, 8)]
        elif way == 3:
            data[at:at] = dice.randbytes(dice.randint(1, 8))
        elif way == 4 and len(data) > 8:
            at = min(at, len(data) - 4)
            data[at:at + 4] = struct.pack(">I", dice.choice((0, 1, 255, 65535, 1 << 20, 1 << 31, 0xFFFFFFFF)))
        else:
            del data[at:]
    return bytes(data)


def some(dice, samples):
    return b"".join(dice.choice(samples) for _ in range(dice.randint(1, 3)))


def no_header(_peer, dice):
    return dice.choice((b"", b"AMQP", b"\x16\x03\x01")) + dice.randbytes(dice.randint(1, 64))


def early_091(peer, dice):
    peer.send(wire.HEADER_091)
    peer.expect(10, 10)
    handshake = wire.start_ok("PLAIN", wire.plain(suite.uri)) + wire.tune_ok(2047, 131072, 0) + wire.connection_open("/")
    return mutate(dice, handshake)


def late_091(peer, dice):
    peer.login()
    peer.channel()
    return mutate(dice, some(dice, METHODS_091))


def cut_content_091(peer, dice):
    peer.login()
    peer.channel()
    whole = METHODS_091[0]
    return whole[:dice.randrange(1, len(whole))]


def early_10(peer, dice):
    peer.send(wire10.SASL_HEADER)
    peer.read(8)
    init = performative(wire10.INIT, Symbol("PLAIN"), wire.plain(suite.uri), "host", kind=1)
    return mutate(dice, init + wire10.AMQP_HEADER + performative(wire10.OPEN, "foreign", "vhost:/"))


def late_10(peer, dice):
    peer.login10()
    peer.session()
    peer.attach("link", 0, False, "/exchanges/amq.fanout/foreign")
    peer.expect10(ATTACH)
    return mutate(dice, some(dice, FRAMES_10))


KINDS = {
    "no-header": no_header, "handshake-091": early_091, "frames-091": late_091, "cut-content-091": cut_content_091,
    "handshake-10": early_10, "frames-10": late_10,
}


# Inputs that are legal, or only out of place: these are not mutated.
LEGAL_091 = METHODS_091 + [
    method(1, 50, 10, b"\0\0" + short("foreign.absent") + b"\1" + wire.table({})),
    method(1, 40, 10, b"\0\0" + short("amq.fanout") + short("fanout") + b"\1" + wire.table({})),
    method(1, 60, 110, b"\1"), method(1, 90, 10), method(1, 90, 20), method(1, 20, 20, b"\1"),
    method(1, 60, 30, short("tag") + b"\0"), method(2, 85, 10, b"\0"), method(2, 20, 10, short("")),
    wire.frame(wire.BODY, 1, b"body out of place"), wire.content_header(1, 5),
    method(1, 20, 41), method(1, 60, 90, b"\0\0\0\0\0\0\0\5\0"),
]
LEGAL_10 = FRAMES_10 + [
    performative(ATTACH, "fourth", Uint(3), True, None, None, Described(0x28, ["/queues/foreign.absent"]),
                 Described(0x29, ["local"])),
    performative(wire10.DETACH, Uint(2), False),
    performative(FLOW, Uint(5), Uint(100), Uint(7), Uint(100)),
    performative(BEGIN, None, Uint(0), Uint(100), Uint(100)),
    performative(TRANSFER, Uint(0), Uint(1), b"t", Uint(0), True, False, payload=encode(Described(0x77, "text"))),
    wire10.raw_frame(b""),
]
MARK = 9  # a channel that no frame above uses


def sequence_091(peer, dice):
    """A few rounds of frames; each is answered until a channel opens behind it, or by a close of the connection."""
    peer.login()
    peer.channel()
    for _ in range(dice.randint(1, 4)):
        peer.send(some(dice, LEGAL_091), method(MARK, 20, 10, short("")))
        if not heard_091(peer, (20, 11)):
            return
        peer.send(method(MARK, 20, 40, b"\0\xc8" + short("bye") + b"\0\0\0\0"))
        if not heard_091(peer, (20, 41)):
            return


def heard_091(peer, mark):
    """Reads and checks answers until the mark; false where the connection is closed instead."""
    while True:
        kind, channel, payload = peer.frame()
        equal(kind in (wire.METHOD, wire.HEADER, wire.BODY, wire.HEARTBEAT), True, f"frame type {kind}")
        ids = struct.unpack(">HH", payload[:4]) if kind == wire.METHOD else None
        if ids in ((10, 50), (20, 40)):
            scope, code, text, _ids = wire.close_of(*ids, payload[4:])
            equal((300 <= code < 600, bool(text)), (True, True), f"{scope} close {code} {text}")
            if scope == "connection":
                return False
            peer.send(method(channel, 20, 41), method(channel, 20, 10, short("")))
        if (channel, ids) == (MARK, mark):
            return True


def sequence_10(peer, dice):
    """As `sequence_091`; a session that begins is the mark. Who ended session 0 begins it anew."""
    peer.login10()
    peer.session()
    for _ in range(dice.randint(1, 4)):
        peer.send(some(dice, LEGAL_10), performative(BEGIN, None, Uint(0), Uint(9), Uint(9), channel=MARK))
        has_ended = False
        while True:
            _channel, value, _payload = peer.frame10()
            equal(wire10.OPEN <= value.code <= wire10.CLOSE, True, f"performative {value}")
            if value.code in (wire10.DETACH, wire10.END, wire10.CLOSE):
                error = value.value[2 if value.code == wire10.DETACH else 0]
                equal(error is None or error.value[0].startswith("amqp:"), True, f"error {error}")
            if value.code == wire10.CLOSE:
                return
            has_ended |= value.code == wire10.END
            if value.code == BEGIN and value.value[0] == MARK:
                break
        peer.send(performative(wire10.END, channel=MARK))
        while peer.frame10()[1].code not in (wire10.END, wire10.CLOSE):
            pass
        if has_ended:
            return


def sequences(act):
    """Sessions of frames that are legal, or only out of place; every one must be answered as the protocol wants."""
    if act is sequence_10 and not is_ours(suite.uri):
        raise Skip("it leaves what comes behind a session it has ended unanswered, at times")
    dice = random.Random(f"{suite.options.seed} {act.__name__}")
    count = (FRAMES_FULL if suite.options.full else FRAMES) // 2

    def run():
        for number in range(count):
            with Peer10(suite.uri, 30) as peer:
                try:
                    act(peer, dice)
                except (Closed, TimeoutError) as error:
                    raise AssertionError(f"sequence {number}: {error!r}") from error

    beside_bystanders(run)


def throw(kind, dice):
    with Peer10(suite.uri, 30) as peer:
        try:
            peer.send(KINDS[kind](peer, dice))
            if dice.random() < 0.3:  # listen to what it says; the others leave at once
                peer.socket.settimeout(0.2)
                while peer.socket.recv(65536):
                    pass
        except (OSError, TimeoutError):
            pass


def bombard(kind):
    """A case per kind; its share of the frames, in two halves that memory is compared over."""
    count = (FRAMES_FULL if suite.options.full else FRAMES) // len(KINDS)
    dice = random.Random(f"{suite.options.seed} {kind}")

    def act():
        sizes = []
        for half in range(2):
            for number in range(count // 2):
                try:
                    throw(kind, dice)
                except (Closed, AssertionError) as error:
                    raise AssertionError(f"{half}:{number}: the handshake failed: {error}") from error
            sizes.append(resident_bytes(suite.options.broker_pid) if suite.options.broker_pid else 0)
        with Peer(suite.uri) as peer:
            peer.login()
            peer.channel()
        if sizes[1] - sizes[0] > GROWTH_BYTES_MAX:
            raise AssertionError(f"resident memory grew from {sizes[0]} to {sizes[1]} bytes")

    beside_bystanders(act)


for kind in KINDS:
    suite.add(kind, f"mutated and cut bytes: {kind}", "the broker and the bystanders go on; memory stays flat",
              lambda kind=kind: bombard(kind), seconds_max=1800)


for name, act in (("sequence-091", sequence_091), ("sequence-10", sequence_10)):
    suite.add(name, f"frames in any order: {name}", "each sequence is answered to its end, or by a close with a reason",
              lambda act=act: sequences(act), seconds_max=1800)


def closes_in_time(begin, answers):
    """Starts a handshake by `begin(peer)`, then waits for the broker to close."""
    try:
        with Peer10(suite.uri, 30) as peer:
            started = time.monotonic()
            begin(peer)
            peer.rest(TIMEOUT_SECONDS[1] + 5)
            answers.append(time.monotonic() - started)
    except Exception as error:  # noqa: BLE001 - told to the case, which fails
        answers.append(error)


def start(peer):
    peer.send(wire.HEADER_091)
    peer.expect(10, 10)


def drip_login(peer):
    """The handshake as it should be, but slower than allowed."""
    start(peer)
    try:
        for byte in wire.start_ok("PLAIN", wire.plain(suite.uri)):
            peer.send(bytes([byte]))
            time.sleep(0.34)
    except OSError:
        return


SLOW = {
    "silent": lambda peer: None,
    "half a header": lambda peer: peer.send(b"AMQP"),
    "silent after connection.start": start,
    "silent after start-ok": lambda peer: (start(peer), peer.send(wire.start_ok("PLAIN", wire.plain(suite.uri)))),
    "a byte each third of a second after start": drip_login,
    "silent after the SASL header": lambda peer: peer.send(wire10.SASL_HEADER),
    "silent after SASL": lambda peer: peer.sasl(),
    "silent after the AMQP header": lambda peer: (peer.sasl(), peer.send(wire10.AMQP_HEADER)),
}


@suite.case("slow-handshakes", f"{len(SLOW)} ways to be slow before the connection is open",
            "closed after 10 s each", seconds_max=90)
def _():
    def act():
        answers = {name: [] for name in SLOW}
        threads = [threading.Thread(target=closes_in_time, args=(begin, answers[name])) for name, begin in SLOW.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        shortest, longest = TIMEOUT_SECONDS
        wrong = {name: times[0] for name, times in answers.items()
                 if isinstance(times[0], Exception) or not shortest <= times[0] <= longest}
        equal(wrong, {}, "closed too early or too late")

    beside_bystanders(act)


@suite.case("half-open", f"{HALF_OPEN} connections that stop in the middle of a frame header of 4 GiB",
            "closed or held within bounds, memory flat, then gone", seconds_max=90)
def _():
    def act():
        before = resident_bytes(suite.options.broker_pid) if suite.options.broker_pid else 0
        peers = []
        for number in range(HALF_OPEN):
            peer = Peer10(suite.uri, 30)
            peers.append(peer)
            if number % 3 == 0:
                start(peer)
                peer.send(struct.pack(">BHI", 1, 0, 0xFFFFFFFF))
            elif number % 3 == 1:
                peer.send(wire10.SASL_HEADER, struct.pack(">IBB", 0xFFFFFFFF, 2, 1))
            else:
                peer.send(b"AMQ")
        grown = (resident_bytes(suite.options.broker_pid) - before) if suite.options.broker_pid else 0
        for peer in peers:
            peer.rest(20)
            peer.socket.close()
        equal(grown < GROWTH_BYTES_MAX, True, f"resident memory grew by {grown} bytes")

    beside_bystanders(act)


def options(parser):
    parser.add_argument("--broker-pid", type=int, default=0, help="the broker's process, to look at its memory")


if __name__ == "__main__":
    suite.main(options)
