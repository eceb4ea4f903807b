"""Links whose queue or exchange goes, and messages that cannot be addressed; raw, to see every frame."""

import time

from lab import wire
from lab.cases import equal
from lab.wire10 import (
    ATTACH, BEGIN, DETACH, DISPOSITION, FLOW, TRANSFER, Described, Peer10, Symbol, Uint, encode, performative,
)
from suites.wire091 import suite

ACCEPTED, REJECTED, RELEASED = 0x24, 0x25, 0x26
DATA = encode(Described(0x75, b"x"))
GONE = "amqp:resource-deleted"


class Bench:
    """A queue and an exchange made over 0-9-1, a raw peer with a session."""

    def __init__(self, queue_type="classic"):
        mark = f"{time.monotonic_ns():x}"
        self.queue, self.exchange = f"foreign.gone.{mark}", f"foreign.gone.{mark}.exchange"
        self.queue_type = queue_type
        self.owner = wire.Peer(suite.uri)
        self.peer = Peer10(suite.uri)

    def __enter__(self):
        self.owner.__enter__()
        self.owner.login()
        self.owner.channel()
        arguments = wire.table({"x-queue-type": self.queue_type})
        self.owner.send(wire.method(1, 50, 10, b"\0\0" + wire.short(self.queue) + b"\x02" + arguments))
        self.owner.expect(50, 11)
        self.owner.send(wire.method(1, 40, 10, b"\0\0" + wire.short(self.exchange) + wire.short("direct") + b"\x02" +
                                    wire.table({})))
        self.owner.expect(40, 11)
        names = wire.short(self.queue) + wire.short(self.exchange) + wire.short("k")
        self.owner.send(wire.method(1, 50, 20, b"\0\0" + names + b"\0" + wire.table({})))
        self.owner.expect(50, 21)
        self.peer.__enter__()
        self.peer.login10()
        self.peer.session()
        return self

    def __exit__(self, *error):
        self.peer.__exit__(*error)
        self.delete_queue()
        self.delete_exchange()
        self.owner.__exit__(*error)

    def delete_queue(self):
        self.owner.send(wire.method(1, 50, 40, b"\0\0" + wire.short(self.queue) + b"\0"))
        self.owner.expect(50, 41)

    def delete_exchange(self):
        self.owner.send(wire.method(1, 40, 20, b"\0\0" + wire.short(self.exchange) + b"\0"))
        self.owner.expect(40, 21)

    def sender(self, handle, address, channel=0):
        self.peer.attach(f"sender-{handle}", handle, False, address, channel=channel)
        self.peer.expect10(ATTACH)
        self.peer.expect10(FLOW)

    def to_queue(self, handle, channel=0):
        self.sender(handle, f"/queues/{self.queue}", channel)

    def receiver(self, handle):
        self.peer.attach(f"receiver-{handle}", handle, True, f"/queues/{self.queue}")
        self.peer.expect10(ATTACH)

    def send(self, handle, delivery, settled=False, payload=DATA, channel=0):
        self.peer.send(performative(TRANSFER, Uint(handle), Uint(delivery), b"t%d" % delivery, Uint(0), settled, False,
                                    payload=payload, channel=channel))

    def outcome(self):
        """The outcome the next disposition tells."""
        return self.peer.expect10(DISPOSITION)[1][4]

    def sent(self, handle, delivery, channel=0):
        self.send(handle, delivery, channel=channel)
        equal(self.outcome().code, ACCEPTED)

    def detached(self, count):
        """The next frames, which are detaches: handle, closed, condition, description, in the order of handles."""
        frames = [self.peer.expect10(DETACH)[1] for _ in range(count)]
        return sorted((fields[0], fields[1], *error(fields[2])) for fields in frames)

    def quiet(self):
        """Nothing was to come: the answer to a begin is the next frame."""
        time.sleep(0.3)
        self.peer.send(performative(BEGIN, None, Uint(0), Uint(9), Uint(9), channel=9))
        self.peer.expect10(BEGIN)


def error(described):
    fields = described.value + [None] * (3 - len(described.value))
    return fields[0], fields[1]


def gone(name, words, answer, act, queue_types=("classic", "quorum")):
    def each():
        for queue_type in queue_types:
            with Bench(queue_type) as bench:
                act(bench)

    suite.add(f"gone.{name}", words, answer, each)


def used(bench):
    bench.to_queue(0)
    bench.sent(0, 0)
    bench.delete_queue()
    equal(bench.detached(1), [(0, True, GONE, None)])
    bench.sender(1, "/exchanges/amq.fanout")


def unused(bench):
    bench.to_queue(0)
    bench.delete_queue()
    bench.quiet()
    bench.send(0, 0)
    equal(bench.outcome().code, RELEASED)


def two(bench):
    bench.to_queue(0)
    bench.to_queue(1)
    bench.sent(1, 0)
    bench.delete_queue()
    equal(bench.detached(2), [(0, True, GONE, None), (1, True, GONE, None)])


def beside_receiver(bench):
    bench.to_queue(0)
    bench.receiver(1)
    bench.delete_queue()
    equal(bench.detached(2), [(0, True, GONE, None), (1, True, GONE, None)])


def behind_receiver(bench):
    bench.receiver(0)
    bench.to_queue(1)
    bench.delete_queue()
    equal(bench.detached(2), [(0, True, GONE, None), (1, True, GONE, None)])


def other_session(bench):
    bench.peer.session(1)
    bench.to_queue(0)
    bench.to_queue(0, channel=1)
    bench.sent(0, 0)
    bench.delete_queue()
    equal(bench.detached(1), [(0, True, GONE, None)])
    bench.quiet()


def by_exchange(bench):
    bench.sender(0, f"/exchanges/{bench.exchange}/k")
    bench.sent(0, 0)
    bench.delete_queue()
    bench.quiet()


def anonymous(bench):
    bench.sender(0, None)
    to = Described(0x73, [None, None, f"/queues/{bench.queue}"])
    bench.send(0, 0, payload=encode(to) + DATA)
    equal(bench.outcome().code, ACCEPTED)
    bench.delete_queue()
    bench.quiet()


def again(bench):
    """Attached anew to a queue of the same name."""
    used(bench)
    bench.peer.send(performative(DETACH, Uint(0), True))
    bench.owner.send(wire.queue_declare(1, bench.queue, bits=0b10))
    bench.owner.expect(50, 11)
    bench.to_queue(0)
    bench.sent(0, 1)
    bench.delete_queue()
    equal(bench.detached(1), [(0, True, GONE, None)])


for row in [
    ("used", "the queue of a sender's link is deleted, over which something was sent",
     f"detach closed: `{GONE}`, without a description; the session lives on", used),
    ("unused", "the queue of a sender's link is deleted, over which nothing was sent",
     "the link stays; a message is released", unused),
    ("two", "the queue of two links of a session is deleted, something was sent over one", "both are detached", two),
    ("beside-receiver", "the queue of a sender's link is deleted, the session then received from it",
     "both links are detached", beside_receiver),
    ("behind-receiver", "the queue of a receiver's link is deleted, the session then attached a sender to it",
     "both links are detached", behind_receiver),
    ("other-session", "the queue of a sender's link is deleted, over which another session has sent",
     "the other session's link is detached, this one stays", other_session),
    ("by-exchange", "a queue is deleted to which a session has sent by an exchange", "the link stays", by_exchange),
    ("anonymous", "a queue is deleted to which a session has sent by an anonymous terminus", "the link stays", anonymous),
    ("again", "a queue is deleted, made and attached to anew, and deleted", "detached again", again),
]:
    gone(*row)


def exchange(settled):
    def act(bench):
        bench.sender(0, f"/exchanges/{bench.exchange}/k")
        bench.delete_exchange()
        bench.quiet()
        bench.send(0, 0, settled)
        if not settled:
            equal(bench.outcome().code, RELEASED)
        equal(bench.detached(1), [(0, True, "amqp:not-found", f"no exchange '{bench.exchange}' in vhost '/'")])

    return act


GONE_EXCHANGE = "detach closed: `amqp:not-found` `no exchange '{exchange}' in vhost '/'`"
gone("exchange", "a message over a link whose exchange was deleted", f"released, then {GONE_EXCHANGE}", exchange(False),
     ("classic",))
gone("exchange-settled", "a settled message over a link whose exchange was deleted", GONE_EXCHANGE, exchange(True),
     ("classic",))

UNADDRESSED = "anonymous terminus requires 'to' address to be set"
for name, words, to, condition, text in [
    ("none", "without `to`", None, "amqp:precondition-failed", UNADDRESSED),
    ("bad", "to `plain`", "plain", "amqp:precondition-failed", "bad 'to' address string: plain"),
    ("exchange", "to an unknown exchange", "/exchanges/foreign.absent/k", "amqp:not-found",
     "no exchange 'foreign.absent' in vhost '/'"),
]:
    payload = (encode(Described(0x73, [None, None, to])) if to else b"") + DATA

    def rejected(bench, payload=payload, condition=condition, text=text):
        bench.sender(0, None)
        bench.send(0, 0, payload=payload)
        outcome = bench.outcome()
        equal((outcome.code, *error(outcome.value[0])), (REJECTED, condition, text))

    def settled(bench, payload=payload, condition=condition, text=text):
        bench.sender(0, None)
        bench.send(0, 7, True, payload=payload)
        fields = bench.peer.expect10(DETACH)[1]
        equal((fields[1], *error(fields[2])), (True, condition, text))
        equal(fields[2].value[2], {Symbol("delivery-tag"): b"t7"}, "info")

    gone(f"to-{name}", f"a message over an anonymous terminus {words}", f"rejected: `{condition}` `{text}`", rejected,
         ("classic",))
    gone(f"to-{name}-settled", f"a settled message over an anonymous terminus {words}",
         f"detach closed: `{condition}` `{text}`, with the delivery-tag in info", settled, ("classic",))


def bad_cc(address, settled):
    payload = encode(Described(0x72, {Symbol("x-cc"): "a"})) + encode(Described(0x73, [None, None, "/queues/q"])) + DATA

    def act(bench):
        bench.sender(0, address)
        bench.send(0, 0, settled, payload=payload)
        text = "bad value for 'x-cc' message-annotation: {utf8,<<\"a\">>}"
        if address is None and not settled:
            outcome = bench.outcome()
            return equal((outcome.code, *error(outcome.value[0])), (REJECTED, "amqp:invalid-field", text))
        if not settled:
            equal(bench.outcome().code, RELEASED)
        equal(bench.detached(1), [(0, True, "amqp:invalid-field", text)])

    return act


for name, words, address, settled, answer in [
    ("link", "x-cc that is no list, over a link", "/exchanges/amq.fanout", False, "released, then detached"),
    ("link-settled", "x-cc that is no list, settled", "/exchanges/amq.fanout", True, "detached"),
    ("anonymous", "x-cc that is no list, over an anonymous terminus", None, False, "rejected"),
]:
    gone(f"cc-{name}", words, f"{answer}: `amqp:invalid-field` `bad value for 'x-cc' message-annotation: ...`",
         bad_cc(address, settled), ("classic",))
