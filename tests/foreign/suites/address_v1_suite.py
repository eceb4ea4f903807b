"""Addresses of version 1 over AMQP 1.0, where the operator permits them; `python -m suites.address_v1_suite --uri URI`.

Needs a broker of its own with the switch on (--broker), or one that runs with it; else every case is skipped.
"""

import atexit
import time

from lab import wire
from lab.broker import Broker
from lab.cases import Skip, Suite, Uri, equal
from lab.wire10 import (
    ATTACH, DETACH, DISPOSITION, FLOW, SOURCE, TARGET, TRANSFER, Described, Peer10, Uint, decode, encode, performative,
)

SWITCH = "deprecated_features.permit.amqp_address_v1=true"
ACCEPTED, RELEASED, DATA = 0x24, 0x26, 0x75
GONE, INVALID, MISSING = "amqp:resource-deleted", "amqp:invalid-field", "amqp:not-found"
suite = Suite("address-v1")
_permitting = []


def uri():
    """The broker that permits them."""
    if not _permitting:
        if suite.options.broker:
            broker = Broker(suite.options.broker, [SWITCH])
            broker.start()
            atexit.register(broker.close)
            _permitting.append(Uri(broker.uri))
        else:
            with Peer10(suite.uri) as peer:
                peer.login10()
                peer.session()
                peer.attach("asked", 0, False, "/exchange/amq.direct/k")
                permitted = peer.expect10(ATTACH)[1][6] is not None
            _permitting.append(suite.uri if permitted else None)
    if _permitting[0] is None:
        raise Skip("needs a broker with " + SWITCH)
    return _permitting[0]


class Bench:
    """A 0-9-1 channel, a raw peer with a session, names for queues."""

    def __init__(self):
        self.queue = f"foreign.v1.{time.monotonic_ns():x}"
        self.owner = wire.Peer(uri())
        self.peer = Peer10(uri())

    def __enter__(self):
        self.owner.__enter__()
        self.owner.login()
        self.owner.channel()
        self.peer.__enter__()
        self.peer.login10()
        self.peer.session()
        return self

    def __exit__(self, *error):
        self.peer.__exit__(*error)
        if error[0] is None:
            self.delete()
        self.owner.__exit__(*error)

    def declare(self, durable, queue_type=None, passive=False):
        arguments = wire.table({"x-queue-type": queue_type} if queue_type else {})
        bits = bytes([passive | durable << 1])
        self.owner.send(wire.method(1, 50, 10, b"\0\0" + wire.short(self.queue) + bits + arguments))
        self.owner.expect(50, 11)

    def bind(self, exchange, key):
        names = wire.short(self.queue) + wire.short(exchange) + wire.short(key)
        self.owner.send(wire.method(1, 50, 20, b"\0\0" + names + b"\0" + wire.table({})))
        self.owner.expect(50, 21)

    def delete(self, queue=None):
        self.owner.send(wire.method(1, 50, 40, b"\0\0" + wire.short(queue or self.queue) + b"\0"))
        self.owner.expect(50, 41)

    def publish(self, exchange, key, body):
        self.owner.send(wire.publish(1, exchange, key, body))

    def attach(self, receiver, address, handle=0, durable=None):
        there = [address, durable]
        source = Described(SOURCE, there if receiver else ["local"])
        target = Described(TARGET, ["local"] if receiver else there)
        self.peer.send(performative(ATTACH, f"link-{handle}", Uint(handle), receiver, None, None, source, target, None,
                                    None, None if receiver else Uint(0)))
        answer = self.peer.expect10(ATTACH)[1]
        terminus = answer[5 if receiver else 6]
        if terminus is not None and not receiver:
            self.peer.expect10(FLOW)
        return terminus and terminus.value[0]

    def receiver(self, address, handle=0, durable=None):
        equal(self.attach(True, address, handle, durable), address)
        self.peer.send(performative(FLOW, Uint(0), Uint(100), Uint(0), Uint(100), Uint(handle), Uint(0), Uint(50)))

    def sender(self, address, handle=0, durable=None):
        equal(self.attach(False, address, handle, durable), address)

    def send(self, delivery, body, subject=None, handle=0):
        properties = encode(Described(0x73, [None, None, None, subject])) if subject else b""
        payload = properties + encode(Described(0x75, body))
        self.peer.send(performative(TRANSFER, Uint(handle), Uint(delivery), b"t%d" % delivery, Uint(0), False, False,
                                    payload=payload))
        return self.peer.expect10(DISPOSITION)[1][4].code

    def received(self):
        """The body of the next message."""
        while True:
            _channel, value, payload = self.peer.frame10()
            at = 0
            while value.code == TRANSFER and at < len(payload):
                section, at = decode(payload, at)
                if section.code == DATA:
                    return section.value

    def refused(self):
        return self.peer.end_seen()


def unknown(address):
    return INVALID, f'Attach refused: {{unknown_destination,"{address}"}}'


def invalid(kind, rest):
    return INVALID, f"Attach refused: {{invalid_destination,{kind},{rest}}}"


NO_EXCHANGE = (MISSING, "no exchange 'foreign.absent' in vhost '/'")
NO_QUEUE = (MISSING, "no queue 'foreign.absent' in vhost '/'")
INTERNAL = ("amqp:unauthorized-access", "forbidden to publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'")
# address, what a sender's and a receiver's attach gets: True, or condition and description
ROWS = [
    ("foreign/absent", unknown("foreign/absent"), unknown("foreign/absent")),
    ("/", unknown("/"), unknown("/")),
    ("/foreign/x", unknown("/foreign/x"), unknown("/foreign/x")),
    ("/queue", True, invalid("queue", "[]")),
    ("/queue/", invalid("queue", '"/"'), invalid("queue", '"/"')),
    ("/queue/a/b", invalid("queue", '"/a/b"'), invalid("queue", '"/a/b"')),
    ("/exchange", invalid("exchange", "[]"), invalid("exchange", "[]")),
    ("/exchange/", invalid("exchange", '"/"'), invalid("exchange", '"/"')),
    ("/exchange//k", invalid("exchange", '"//k"'), invalid("exchange", '"//k"')),
    ("/exchange/amq.direct/k/l", invalid("exchange", '"/amq.direct/k/l"'), invalid("exchange", '"/amq.direct/k/l"')),
    ("/exchange/foreign.absent/k", NO_EXCHANGE, NO_EXCHANGE),
    ("/exchange/amq.rabbitmq.trace/k", INTERNAL, None),
    ("/exchange/amq.direct", True, None),
    ("/exchange/amq.direct/k%2Fl", True, None),
    ("/topic/a.b", True, None),
    ("/topic", invalid("topic", "[]"), invalid("topic", "[]")),
    ("/topic/", invalid("topic", '"/"'), invalid("topic", '"/"')),
    ("/topic/a/b", invalid("topic", '"/a/b"'), invalid("topic", '"/a/b"')),
    ("/amq/queue", invalid("amqqueue", "[]"), invalid("amqqueue", "[]")),
    ("/amq/queue/", invalid("amqqueue", '"/"'), invalid("amqqueue", '"/"')),
    ("/amq/queue/foreign.absent", NO_QUEUE, NO_QUEUE),
    ("/reply-queue", unknown("/reply-queue"), unknown("/reply-queue")),
    ("/exchanges/amq.direct/k", True, unknown("/exchanges/amq.direct/k")),
    ("/queues/foreign.absent", NO_QUEUE, NO_QUEUE),
]


def attached(receiver, address, expected):
    with Bench() as bench:
        seen = bench.attach(receiver, address)
        if expected is True:
            return equal(seen, address)
        equal(seen, None, "terminus of a refused attach")
        equal(bench.refused(), (DETACH, *expected))


for address, for_sender, for_receiver in ROWS:
    for receiver, expected in [(False, for_sender), (True, for_receiver)]:
        if expected is None:
            continue  # it would leave a queue behind: below
        role = "source" if receiver else "target"
        answer = "attached" if expected is True else f"refused: `{expected[0]}` `{expected[1]}`"
        label = address.strip("/").replace("/", "-") or "slash"
        label += "-slash" if address.endswith("/") and len(address) > 1 else ""
        suite.add(f"{role}.{label}", f"{role} address `{address}`", answer,
                  lambda r=receiver, a=address, e=expected: attached(r, a, e))

for form, words in [("{queue}", "a plain name"), ("/queue/{queue}", "`/queue/{queue}`")]:
    for receiver in (False, True):
        def made(form=form, receiver=receiver):
            for durable in (False, True):
                with Bench() as bench:
                    address = form.format(queue=bench.queue)
                    equal(bench.attach(receiver, address, durable=Uint(1) if durable else None), address)
                    bench.declare(durable)

        role = "receiver" if receiver else "sender"
        suite.add(f"made.{role}-{'plain' if form == '{queue}' else 'queue'}",
                  f"a {role} with {words} of a queue that is not there",
                  "a classic queue is made: durable where the terminus is, for all and to stay", made)


@suite.case("made.escaped", "a target `/queue/a%2Fb%20c`", "the queue `a/b%20c`")
def _():
    with Bench() as bench:
        plain = bench.queue
        bench.queue = f"{plain}/b%20c"
        bench.sender(f"/queue/{plain}%2Fb%20c")
        bench.declare(False, passive=True)


@suite.case("made.there", "a sender and a receiver with the plain name of a quorum queue", "attached to it")
def _():
    with Bench() as bench:
        bench.declare(True, "quorum")
        bench.sender(bench.queue, 0)
        equal(bench.send(0, b"1"), ACCEPTED)
        bench.receiver(f"/amq/queue/{bench.queue}", 1)
        equal(bench.received(), b"1")


@suite.case("send.queue", "a message to a plain name, one to `/amq/queue/{queue}`", "accepted, in the queue")
def _():
    with Bench() as bench:
        bench.sender(bench.queue, 0)
        bench.sender(f"/amq/queue/{bench.queue}", 1)
        equal([bench.send(0, b"1"), bench.send(1, b"2", handle=1)], [ACCEPTED, ACCEPTED])
        bench.receiver(f"/queue/{bench.queue}", 2)
        equal([bench.received(), bench.received()], [b"1", b"2"])


@suite.case("send.subject", "messages to `/queue`, with a queue's name as subject, an unknown one and none",
            "accepted; released; released")
def _():
    with Bench() as bench:
        bench.declare(False)
        bench.sender("/queue")
        outcomes = [bench.send(0, b"1", bench.queue), bench.send(1, b"2", "foreign.absent"), bench.send(2, b"3")]
        equal(outcomes, [ACCEPTED, RELEASED, RELEASED])


@suite.case("send.exchange", "messages to `/exchange/x`, `/exchange/x/` and `/exchange/x/k`, with subjects",
            "routed by the subject; by the subject; by the key")
def _():
    with Bench() as bench:
        bench.declare(False)
        bench.bind("amq.direct", f"{bench.queue}-key")
        for handle, address in enumerate(["/exchange/amq.direct", "/exchange/amq.direct/",
                                          f"/exchange/amq.direct/{bench.queue}-key"]):
            bench.sender(address, handle)
        key, other = f"{bench.queue}-key", "other"
        outcomes = [bench.send(0, b"1", key), bench.send(1, b"2", key, 1), bench.send(2, b"3", other, 2),
                    bench.send(3, b"4", other)]
        equal(outcomes, [ACCEPTED, ACCEPTED, ACCEPTED, RELEASED])


@suite.case("send.topic", "a message to `/topic/a.{queue}`", "routed by amq.topic")
def _():
    with Bench() as bench:
        bench.declare(False)
        bench.bind("amq.topic", f"*.{bench.queue}")
        bench.sender(f"/topic/a.{bench.queue}")
        equal(bench.send(0, b"1"), ACCEPTED)


def receives(form, exchange, binding):
    def act():
        with Bench() as bench:
            bench.declare(False)
            key = bench.queue
            bench.receiver(form.format(key=binding.format(key=key)))
            bench.publish(exchange, "other", b"0")
            bench.publish(exchange, key, b"1")
            equal(bench.received(), b"1")

    return act


suite.add("receive.exchange", "a receiver from `/exchange/amq.direct/{key}`",
          "a queue `amq.gen-...` bound with the key; the address is repeated as it was",
          receives("/exchange/amq.direct/{key}", "amq.direct", "{key}"))
suite.add("receive.topic", "a receiver from `/topic/{key}.#`", "a queue bound to amq.topic with the key",
          receives("/topic/{key}", "amq.topic", "{key}.#"))


@suite.case("receive.fanout", "a receiver from `/exchange/amq.fanout`", "a queue bound with the empty key")
def _():
    with Bench() as bench:
        bench.declare(False)
        bench.receiver("/exchange/amq.fanout")
        bench.publish("amq.fanout", "any", bench.queue.encode())
        while bench.received() != bench.queue.encode():
            pass


@suite.case("gone", "the queue of a sender's plain name is deleted, after something was sent",
            f"detach closed: `{GONE}`")
def _():
    with Bench() as bench:
        bench.sender(bench.queue)
        equal(bench.send(0, b"1"), ACCEPTED)
        bench.delete()
        equal(bench.refused(), (DETACH, GONE, None))


def add_options(parser):
    parser.add_argument("--broker", default="", help="path of a leveret binary to start")


if __name__ == "__main__":
    suite.main(add_options)
