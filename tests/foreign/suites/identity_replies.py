"""Direct replies: they reach their requester, in its own virtual host, by a name nobody can guess."""

import time
import urllib.parse

from lab import wire
from lab.cases import Skip, equal
from lab.wire import method, publish, short
from lab.wire10 import (
    ATTACH, DISPOSITION, FLOW, SOURCE, TARGET, TRANSFER, Described, Symbol, Symbols, Ubyte, Uint, encode, is_ours,
    performative,
)
from suites.identity_bench import (
    DATA, HEADERS, HTTP, OTHER, PASSWORD, PROPERTIES, REPLY_TO, USER, VHOST, answer_of, attach, desk, peer091, peer10,
    publish_with, suite,
)


def requester(peer):
    """The name of a reply consumer, as a request shows it."""
    queue = f"identity.requests.{time.monotonic_ns():x}"
    peer.send(wire.queue_declare(1, queue, 0b100))
    peer.expect(50, 11)
    peer.send(method(1, 60, 20, b"\0\0" + short("amq.rabbitmq.reply-to") + short("r") + b"\2" + wire.table({})))
    peer.expect(60, 21)
    peer.send(publish_with(1, "", queue, REPLY_TO, short("amq.rabbitmq.reply-to")))
    while True:
        peer.send(method(1, 60, 70, b"\0\0" + short(queue) + b"\1"))
        if peer.method()[1:3] == (60, 71):
            payload = peer.frame()[2]
            peer.frame()
            at = payload.index(b"amq.rabbitmq.reply-to.")
            return payload[at:at + payload[at - 1]].decode()


def replied(peer, seconds=1.0):
    """Whether a reply comes."""
    peer.socket.settimeout(seconds)
    try:
        peer.expect(60, 60)
        peer.frame()
        return peer.frame()[2].decode()
    except TimeoutError:
        return None
    finally:
        peer.socket.settimeout(15)


def reply_091(vhost, name):
    with peer091(USER, vhost) as peer:
        peer.send(publish(1, "", name, vhost.encode()))
        peer.send(wire.queue_declare(1, "", 0b1100))
        peer.expect(50, 11)


def reply_copy(vhost, name):
    """By the header CC, which names further keys."""
    with peer091(USER, vhost) as peer:
        keys = b"S" + wire.long(name)
        headers = wire.long(short("CC") + b"A" + wire.long(keys))
        peer.send(publish_with(1, "", "identity.nowhere", HEADERS, headers, vhost.encode()))
        peer.send(wire.queue_declare(1, "", 0b1100))
        peer.expect(50, 11)


def reply_transaction(vhost, name):
    with peer091(USER, vhost) as peer:
        peer.send(method(1, 90, 10), publish(1, "", name, vhost.encode()), method(1, 90, 20))
        peer.expect(90, 11)
        peer.expect(90, 21)


def reply_http(vhost, name):
    body = {"properties": {}, "routing_key": name, "payload": vhost, "payload_encoding": "string"}
    equal(desk().ask("POST", f"/exchanges/{vhost}/amq.default/publish", body, USER, PASSWORD)[0], 200)


def reply_10(vhost, name):
    with peer10(USER, vhost) as peer:
        attach(peer, 0, Described(TARGET, [None]))
        address = f"/queues/{urllib.parse.quote(name, safe='')}"
        payload = encode(Described(PROPERTIES, [None, None, address])) + encode(Described(DATA, vhost.encode()))
        peer.send(performative(TRANSFER, Uint(0), Uint(0), b"\1", Uint(0), False, payload=payload))
        peer.expect10(DISPOSITION)


@suite.case("reply.vhost", "a direct reply from another virtual host, whose name was told; over 0-9-1, in a transaction, by CC, over 1.0 "
            "and HTTP", "nobody hears it; from its own it comes")
def _():
    with peer091(USER) as peer:
        name = requester(peer)
        for reply in (reply_091, reply_transaction, reply_copy, reply_10, reply_http):
            reply(OTHER, name)
            equal(replied(peer), None, f"{reply.__name__} from another")
            reply(VHOST, name)
            equal(replied(peer, 10), VHOST, reply.__name__)


@suite.case("reply.vhost-10", "the same of a requester over 1.0", "nobody hears it; from its own it comes")
def _():
    with peer10(USER) as peer:
        peer.socket.settimeout(2)
        source = Described(SOURCE, [None, Uint(0), Symbol("link-detach"), Uint(0), True, None, None, None, None, None,
                                    Symbols(["rabbitmq:volatile-queue"])])
        peer.send(performative(ATTACH, "requester", Uint(0), True, Ubyte(1), Ubyte(0), source, Described(TARGET, ["local"])))
        name = urllib.parse.unquote(peer.expect10(ATTACH)[1][5].value[0].removeprefix("/queues/"))
        peer.send(performative(FLOW, Uint(0), Uint(100), Uint(0), Uint(100), Uint(0), Uint(0), Uint(10)))
        for reply in (reply_091, reply_10):
            for vhost in (OTHER, VHOST):
                reply(vhost, name)
                try:
                    while (frame := peer.frame10())[1].code != TRANSFER:
                        pass
                    heard = frame[2][-len(vhost):].decode()
                except TimeoutError:
                    heard = None
                equal(heard, vhost if vhost == VHOST else None, f"{reply.__name__} from {vhost}")


@suite.case("reply.asked", "whether a requester is there, asked from its own virtual host and from another, over 0-9-1 and 1.0",
            "it is; it is not: 404, `amqp:not-found`")
def _():
    with peer091(USER) as peer:
        name = requester(peer)
        for vhost, is_there in ((VHOST, True), (OTHER, False)):
            with peer091(USER, vhost) as other:
                other.send(wire.queue_declare(1, name, 0b1))
                said = answer_of(other, (50, 11))
                missing = f"channel closed: 404 NOT_FOUND - no queue '{name}' in vhost '{vhost}'"
                equal(said, "taken" if is_there else missing)
            with peer10(USER, vhost) as other:
                other.attach("replier", 0, False, f"/queues/{urllib.parse.quote(name, safe='')}")
                answer = other.expect10(ATTACH)[1]
                equal(answer[6] is not None, is_there)


@suite.case("reply.key", "names of reply consumers", "ours: 128 bits of each, its last 32 digits, are nobody's to guess")
def _():
    if not is_ours(desk().uri):
        raise Skip("RabbitMQ's names are of another form")
    keys = []
    for _number in range(8):
        with peer091(USER) as peer:
            name = requester(peer)
            equal(len(name), len("amq.rabbitmq.reply-to.") + 32 + 32)
            keys.append(int(name[-32:], 16))
    differing = [bin(one ^ other).count("1") for at, one in enumerate(keys) for other in keys[:at]]
    # Of 128 bits some 64 differ; below 24 or above 104 one pair in 10^12.
    equal(all(24 <= bits <= 104 for bits in differing), True, f"bits that differ: {differing}")
