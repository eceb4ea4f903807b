"""Identity: no user can pose as another, or hear another's messages; `python -m suites.identity_suite --uri URI --admin HTTP`.

Here: who a message says that sent it, by each protocol and on the ways between them.
"""

import struct
import time

from lab import wire, wire_stream
from lab.cases import Skip, equal
from lab.wire import method, short
from lab.wire10 import (
    ATTACH, DETACH, DISPOSITION, FLOW, SOURCE, TARGET, TRANSFER, Described, Symbol, Ubyte, Uint, decode, encode, is_ours,
    performative,
)
from suites import identity_doors, identity_guesses, identity_replies  # noqa: F401 - importing registers the cases
from suites.identity_bench import (
    ACCEPTED, COORDINATOR, DATA, DECLARE, DECLARED, DISCHARGE, MESSAGE_TYPE, PASSWORD, POSER, PROPERTIES, TRANSACTIONAL,
    UNAUTHORIZED, USER, USER_ID, VHOST, answer_of, attach, claim_of, desk, got, message10, options, outcome10, peer091,
    peer10, publish_with, queue_of, suite, with_property,
)


def over_091(user, queue, claim):
    with peer091(user) as peer:
        peer.send(method(1, 85, 10, b"\0"))
        peer.expect(85, 11)
        flags, properties = (0, b"") if claim is None else with_property(USER_ID, claim)
        peer.send(publish_with(1, "", queue, flags, properties))
        return answer_of(peer, (60, 80))


def over_091_transaction(user, queue, claim):
    with peer091(user) as peer:
        peer.send(method(1, 90, 10))
        peer.expect(90, 11)
        flags, properties = (0, b"") if claim is None else with_property(USER_ID, claim)
        peer.send(publish_with(1, "", queue, flags, properties), method(1, 90, 20))
        return answer_of(peer, (90, 21))


def over_10(target, to=False, settled=False, key=None):
    def send(user, queue, claim):
        with peer10(user) as peer:
            address = target and target.format(queue=queue)
            attach(peer, 0, Described(TARGET, [address]))
            payload = message10(claim if claim is None else claim.encode(), f"/queues/{queue}" if to else None, key)
            peer.send(performative(TRANSFER, Uint(0), Uint(0), b"\1", Uint(0), settled, payload=payload))
            if settled:
                # Of a settled message nobody hears but that its link goes; what comes behind it says that it is done.
                peer.send(performative(TRANSFER, Uint(0), Uint(1), b"\2", Uint(0), False, payload=message10(None)))
            said = outcome10(peer)
        if settled and said == "taken":
            with peer091(USER) as reader:
                # The second message goes out of the way.
                reader.send(method(1, 60, 70, b"\0\0" + short(queue) + b"\0"), method(1, 60, 70, b"\0\0" + short(queue) + b"\1"))
                time.sleep(0.2)
        return said
    return send


def over_10_transaction(user, queue, claim):
    if not is_ours(desk().uri):
        raise Skip("RabbitMQ has no transactions over AMQP 1.0")
    with peer10(user) as peer:
        attach(peer, 0, Described(TARGET, [f"/queues/{queue}"]))
        attach(peer, 1, Described(COORDINATOR, []))
        value = encode(Described(0x77, Described(DECLARE, [])))
        peer.send(performative(TRANSFER, Uint(1), Uint(0), b"\0", Uint(0), False, payload=value))
        state = peer.expect10(DISPOSITION)[1][4]
        equal(state.code, DECLARED)
        transaction, payload = state.value[0], message10(claim if claim is None else claim.encode())
        peer.send(performative(TRANSFER, Uint(0), Uint(1), b"\1", Uint(0), False, None, None,
                               Described(TRANSACTIONAL, [transaction]), payload=payload))
        _channel, posted, _payload = peer.frame10()
        if posted.code == DETACH:
            error = posted.value[2].value
            return f"link closed: {error[0]} {error[1]}"
        equal(posted.value[4].code, TRANSACTIONAL)
        value = encode(Described(0x77, Described(DISCHARGE, [transaction, False])))
        peer.send(performative(TRANSFER, Uint(1), Uint(2), b"\2", Uint(0), False, payload=value))
        return outcome10(peer)


# ---- HTTP


def over_http(user, queue, claim):
    body = {"properties": {} if claim is None else {"user_id": claim}, "routing_key": queue, "payload": "x",
            "payload_encoding": "string"}
    status, value = desk().ask("POST", f"/exchanges/{VHOST}/amq.default/publish", body, user, PASSWORD)
    return "taken" if status == 200 and value == {"routed": True} else f"{status} {value.get('reason')}"


PROTOCOLS = [
    ("091", "0-9-1", over_091, "channel closed: 406 PRECONDITION_FAILED - {text}"),
    ("091-transaction", "a transaction of 0-9-1", over_091_transaction, "channel closed: 406 PRECONDITION_FAILED - {text}"),
    ("10", "1.0, a link to a queue", over_10("/queues/{queue}"), "link closed: " + UNAUTHORIZED + " {text}"),
    ("10-id", "1.0, a message with an id as well", over_10("/queues/{queue}", key="id"), "link closed: " + UNAUTHORIZED + " {text}"),
    ("10-exchange", "1.0, a link to an exchange", over_10("/exchanges/amq.direct/{queue}"),
     "link closed: " + UNAUTHORIZED + " {text}"),
    ("10-anonymous", "1.0, an anonymous terminus", over_10(None, to=True), "link closed: " + UNAUTHORIZED + " {text}"),
    ("10-transaction", "a transaction of 1.0 (ours alone)", over_10_transaction, "link closed: " + UNAUTHORIZED + " {text}"),
    ("http", "HTTP", over_http, "400 406 PRECONDITION_FAILED - {text}"),
]


def vouched(send, refusal):
    """The user-ids that a message may have, and its fate with each."""
    with queue_of() as queue:
        for user, claim in ((USER, None), (USER, USER), (POSER, None), (POSER, POSER), (POSER, "boss"), (POSER, "")):
            equal(send(user, queue, claim), "taken", f"{user} as {claim!r}")
            equal(got(queue), claim or "", f"{user} as {claim!r}")
        for claim in ("boss", "", USER.upper(), f"{USER} ", POSER, "guest"):
            text = f"user_id property set to '{claim}' but authenticated user was '{USER}'"
            equal(send(USER, queue, claim), refusal.format(text=text), f"{USER} as {claim!r}")
            equal(got(queue), None, "nothing came of it")


for _name, _words, _send, _refusal in PROTOCOLS:
    suite.add(f"user-id.{_name}", f"user-id over {_words}: nobody's, one's own, another's, an empty one; with the tag impersonator",
              f"delivered as it is, or refused: `{_refusal.format(text='...')}`; with the tag all are delivered",
              lambda send=_send, refusal=_refusal: vouched(send, refusal))


@suite.case("user-id.10-settled", "user-id over 1.0 of a settled message: one's own, another's",
            f"delivered; link closed: `{UNAUTHORIZED}`")
def _():
    send = over_10("/queues/{queue}", settled=True)
    with queue_of() as queue:
        text = f"user_id property set to 'boss' but authenticated user was '{USER}'"
        equal(send(USER, queue, "boss"), f"link closed: {UNAUTHORIZED} {text}")
        equal(got(queue), None)
        equal(send(USER, queue, USER), "taken")


@suite.case("user-id.10-untyped", "user-id over 1.0 that is no binary: a string, a symbol, a number; with the tag impersonator",
            "the session ends: `amqp:internal-error` (ours: the link, `amqp:decode-error`)")
def _():
    for user in (USER, POSER):
        for claim in (user, "boss", Symbol("boss"), Uint(7), True):
            with queue_of() as queue, peer10(user) as peer:
                attach(peer, 0, Described(TARGET, [f"/queues/{queue}"]))
                peer.send(performative(TRANSFER, Uint(0), Uint(0), b"\1", Uint(0), False, payload=message10(claim)))
                said = outcome10(peer)
                begin = "link closed: amqp:decode-error " if is_ours(desk().uri) else "session closed: amqp:internal-error "
                equal(said[:len(begin)], begin, f"{claim!r}")
                equal(got(queue), None)


@suite.case("user-id.10-order", "another's user-id over 1.0 in messages behind good ones on one link",
            "those before it are in the queue, the link goes with it, the session stays")
def _():
    with queue_of() as queue, peer10(USER) as peer:
        attach(peer, 0, Described(TARGET, [f"/queues/{queue}"]))
        for number, claim in enumerate((None, USER.encode(), b"boss")):
            tag = bytes([number])
            peer.send(performative(TRANSFER, Uint(0), Uint(number), tag, Uint(0), False, payload=message10(claim)))
        while (value := peer.frame10()[1]).code != DETACH:
            equal(value.value[4].code, ACCEPTED)
        equal(value.value[2].value[0], UNAUTHORIZED)
        attach(peer, 1, Described(TARGET, [f"/queues/{queue}"]))
        equal([got(queue) for _message in range(3)], ["", USER, None])


@suite.case("user-id.10-shapes", "another's user-id over 1.0 in a message of several frames, one whose properties are described by "
            "name, one with annotations, one to a stream", f"link closed: `{UNAUTHORIZED}`")
def _():
    plain = message10(b"boss")
    named = b"\0\xa3\x14amqp:properties:list" + encode([None, b"boss"]) + encode(Described(DATA, b"x"))
    annotated = encode(Described(0x72, {Symbol("x-opt-own"): "v"})) + plain
    for payloads in ([plain[:3], plain[3:9], plain[9:]], [named], [annotated]):
        for arguments in ({}, {"x-queue-type": "stream"}):
            with queue_of(arguments) as queue, peer10(USER) as peer:
                attach(peer, 0, Described(TARGET, [f"/queues/{queue}"]))
                for at, payload in enumerate(payloads):
                    more = at + 1 < len(payloads)
                    peer.send(performative(TRANSFER, Uint(0), Uint(0), b"\1", Uint(0), False, more, payload=payload))
                begin = f"link closed: {UNAUTHORIZED} user_id property set to 'boss'"
                equal(outcome10(peer)[:len(begin)], begin, f"{payloads}")
                if not arguments:
                    equal(got(queue), None)


@suite.case("user-id.management", "requests to `/management` over 1.0 with another's user-id, and one that is no binary",
            "answered: they become no message")
def _():
    paired = {Symbol("paired"): True}
    node = Described(SOURCE, ["/management"]), Described(TARGET, ["/management"])
    with queue_of() as queue, peer10(USER) as peer:
        for handle, receives in ((0, True), (1, False)):
            first = None if receives else Uint(0)
            peer.send(performative(ATTACH, "pair", Uint(handle), receives, Ubyte(1), Ubyte(0), *node, None, None, first,
                                   None, None, None, paired))
            peer.expect10(ATTACH)
        peer.send(performative(FLOW, Uint(0), Uint(100), Uint(0), Uint(100), Uint(0), Uint(0), Uint(10)))
        for claim in (None, USER.encode(), b"boss", "boss"):
            request = [f"{claim}", claim, f"/queues/{queue}", "GET", "$me"]
            payload = encode(Described(PROPERTIES, request)) + encode(Described(0x77, None))
            peer.send(performative(TRANSFER, Uint(1), Uint(0), b"\1", Uint(0), True, payload=payload))
            while (frame := peer.frame10())[1].code != TRANSFER:
                pass
            properties, _end = decode(frame[2])
            equal((properties.value[3], properties.value[5]), ("200", f"{claim}"))


@suite.case("user-id.smuggled", "a body that is sections of 1.0 by its type `amqp-1.0`, properties with another's user-id among them: "
            "published over 0-9-1, read over 1.0", "ours: the whole body is data; RabbitMQ delivers the user-id")
def _():
    if not is_ours(desk().uri):
        raise Skip("it delivers the user-id")
    with queue_of() as queue:
        body = message10(b"boss")
        with peer091(USER) as peer:
            peer.send(publish_with(1, "", queue, MESSAGE_TYPE, short("amqp-1.0"), body))
            peer.send(wire.queue_declare(1, "", 0b1100))
            peer.expect(50, 11)
        with peer10(USER) as peer:
            peer.attach("reader", 0, True, f"/queues/{queue}")
            peer.expect10(ATTACH)
            peer.send(performative(FLOW, Uint(0), Uint(100), Uint(0), Uint(100), Uint(0), Uint(0), Uint(1)))
            while (frame := peer.frame10())[1].code != TRANSFER:
                pass
            at, sections = 0, []
            while at < len(frame[2]):
                section, at = decode(frame[2], at)
                sections.append((section.code, section.value))
            equal([code for code, _value in sections], [0x70, 0x72, DATA])
            equal(sections[2][1], body)


def publish_to_stream(stream, claim):
    with wire_stream.Peer(desk().as_user(USER), desk().stream_port, vhost=VHOST) as peer:
        declared = peer.code(wire_stream.DECLARE, b"\0" + wire_stream.text("") + wire_stream.text(stream))
        equal(declared, wire_stream.OK)
        peer.publish(0, wire_stream.message(1, message10(claim)))
        peer.next(wire_stream.CONFIRM)


@suite.case("user-id.stream", "a message with another's user-id, published by the stream protocol and read over 0-9-1",
            "is delivered as it was published, with `x-stream-offset`: who reads a stream cannot rely on the user-id")
def _():
    with queue_of({"x-queue-type": "stream"}) as stream:
        publish_to_stream(stream, b"boss")
        with peer091(USER) as peer:
            peer.send(method(1, 60, 10, struct.pack(">IH", 0, 10) + b"\0"))
            peer.expect(60, 11)
            peer.send(method(1, 60, 20, b"\0\0" + short(stream) + short("t") + b"\0"
                             + wire.table({"x-stream-offset": "first"})))
            peer.expect(60, 21)
            peer.expect(60, 60)
            header = peer.frame()[2]
            equal((claim_of(header), b"x-stream-offset" in header), ("boss", True))


@suite.case("user-id.fed", "the same in a queue that is filled from the stream, and in its dead letters",
            "ours alone: as it was published, with `x-stream-offset`")
def _():
    if not is_ours(desk().uri):
        raise Skip("beyond RabbitMQ")
    with queue_of({"x-queue-type": "stream"}) as stream, queue_of() as buried:
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": buried, "x-message-ttl": 1000}
        with queue_of({"x-source-stream": stream, **dead}) as fed:
            for queue in (fed, buried):
                if queue == fed:
                    publish_to_stream(stream, b"boss")
                with peer091(USER) as peer:
                    peer.send(method(1, 60, 20, b"\0\0" + short(queue) + short("t") + b"\0" + wire.table({})))
                    peer.expect(60, 21)
                    peer.expect(60, 60)
                    header = peer.frame()[2]
                    equal((claim_of(header), b"x-stream-offset" in header), ("boss", True), queue)


if __name__ == "__main__":
    suite.main(options)
