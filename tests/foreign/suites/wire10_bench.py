"""Helpers of the raw cases of AMQP 1.0: queues made over 0-9-1, peers with a session, links, deliveries and outcomes."""

import struct
import time

from lab import wire
from lab.cases import equal
from lab.wire10 import (
    ATTACH, BEGIN, DISPOSITION, END, FLOW, TRANSFER, Described, Peer10, Symbol, Uint, decode, encode, performative,
)
from suites.wire091 import suite
from suites.wire10_attach import integer, put

ACCEPTED, REJECTED, RELEASED, MODIFIED = 0x24, 0x25, 0x26, 0x27
HEADER, ANNOTATIONS, DATA = 0x70, 0x72, 0x75
PAYLOAD = encode(Described(DATA, b"x"))
LIMIT = "amqp:resource-limit-exceeded"


class Bench:
    """Queues made over 0-9-1 and deleted again; raw peers with a session each."""

    def __init__(self, queue_type):
        self.queue_type = queue_type
        self.owner = wire.Peer(suite.uri)
        self.peers, self.queues = [], []

    def __enter__(self):
        self.owner.__enter__()
        self.owner.login()
        self.owner.channel()
        return self

    def __exit__(self, *error):
        for peer in self.peers:
            peer.__exit__(*error)
        for queue in self.queues:
            self.owner.send(wire.method(1, 50, 40, b"\0\0" + wire.short(queue) + b"\0"))
            self.owner.expect(50, 41)
        self.owner.__exit__(*error)

    def declare(self, plain=False, **arguments):
        queue = f"foreign.outcome.{time.monotonic_ns():x}"
        kind = "classic" if plain else self.queue_type
        values = {"x-queue-type": kind, **{f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}}
        self.owner.send(wire.method(1, 50, 10, b"\0\0" + wire.short(queue) + b"\x02" + wire.table(values)))
        self.owner.expect(50, 11)
        self.queues.append(queue)
        return queue

    def publish(self, queue, body=b"x"):
        self.owner.send(wire.publish(1, "", queue, body))

    def peer(self):
        peer = Peer10(suite.uri)
        peer.__enter__()
        self.peers.append(peer)
        peer.login10()
        peer.session()
        return peer

    def receiver(self, queue, handle=0, peer=None, priority=None):
        peer = peer or self.peer()
        properties = {Symbol("rabbitmq:priority"): integer(priority)} if priority is not None else None
        source = Described(0x28, [f"/queues/{queue}"])
        fields = [f"receiver-{handle}", Uint(handle), True, None, None, source, Described(0x29, ["local"]), None, None,
                  None, None, None, None, properties]
        send(peer, ATTACH, fields)
        equal(peer.expect10(ATTACH)[1][5] is None, False, "attached")
        return peer


def send(peer, code, fields):
    body = put(Described(code, fields))
    peer.send(struct.pack(">IBBH", len(body) + 8, 2, 0, 0) + body)


def credit(peer, count=10, echo=False, drain=False):
    peer.send(performative(FLOW, Uint(0), Uint(100), Uint(0), Uint(100), Uint(0), Uint(0), Uint(count), None, drain, echo))


def quiet(peer, flows=False):
    """Nothing was to come, or nothing but `flows`, in which a quorum queue tells who is active: a session begins next."""
    time.sleep(0.3)
    peer.send(performative(BEGIN, None, Uint(0), Uint(9), Uint(9), channel=9))
    while (code := peer.frame10()[1].code) != BEGIN:
        equal((flows, code), (True, FLOW), "what came")
    peer.send(performative(END, channel=9))
    peer.expect10(END)


def sender(bench, queue, handle=0, name="sender", peer=None):
    """A peer with a sender to a queue, which has been given credit."""
    peer = peer or bench.peer()
    peer.attach(name, handle, False, f"/queues/{queue}")
    peer.expect10(ATTACH)
    peer.expect10(FLOW)
    return peer


def transfer(number, handle=0, more=False, settled=False, payload=PAYLOAD):
    return performative(TRANSFER, Uint(handle), Uint(number), b"t", Uint(0), settled, more, payload=payload)


def delivery(peer):
    """Delivery-id and sections of the next transfer."""
    while True:
        _channel, value, payload = peer.frame10()
        if value.code == TRANSFER:
            sections, at = {}, 0
            while at < len(payload):
                section, at = decode(payload, at)
                sections[section.code] = section.value
            return value.value[1], sections
        if value.code != FLOW:
            raise AssertionError(f"saw {value}, expected a transfer")


def settle(peer, first, outcome, fields=()):
    send(peer, DISPOSITION, [True, Uint(first), None, True, Described(outcome, list(fields))])


def each(name, words, answer, act, queue_types=("classic", "quorum"), later=False):
    for queue_type in queue_types:
        def run(queue_type=queue_type):
            with Bench(queue_type) as bench:
                act(bench)

        suite.add(f"outcome.{name}-{queue_type}", f"{words} ({queue_type} queue)", answer, run, later=later)
