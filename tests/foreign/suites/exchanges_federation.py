"""Exchanges that brokers in front declare: `x-federation-upstream` passes messages on as far as they may go.

Asked of RabbitMQ 4.3.6 with rabbitmq_exchange_federation. What a broker in front makes of them is in `federation_long`.
"""

from pika.compat import long
from proton import Message, symbol
from proton.utils import BlockingConnection, SendException

from lab.cases import equal
from suites.exchanges_bench import Bench, fresh, refused, suite

KIND = "x-federation-upstream"
HOPS, NAME, VHOST, FROM = "x-max-hops", "x-downstream-name", "x-downstream-vhost", "x-received-from"


def hop(name, vhost="/"):
    return {"cluster-name": name, "vhost": vhost}


def declared(hops=1):
    return {HOPS: long(hops), NAME: "front", VHOST: "/", "x-internal-purpose": "federation"}


@suite.case("federation.declare", f"`{KIND}` declared with `{HOPS}` of 64 bits, of 32, as text, and without it",
            "taken; 406 `Argument x-max-hops must be of type long`, twice; 406 `Argument x-max-hops missing`")
def declare():
    with Bench() as desk:
        desk.exchange(KIND, arguments={HOPS: long(1)})
        wrong = (406, f"PRECONDITION_FAILED - Argument {HOPS} must be of type long")
        for arguments, expected in (
                ({HOPS: 1}, wrong), ({HOPS: "1"}, wrong), ({}, (406, f"PRECONDITION_FAILED - Argument {HOPS} missing"))):
            channel = desk.connection.channel()
            equal(refused(lambda: channel.exchange_declare(fresh("exchange"), KIND, arguments=arguments)), expected)


@suite.case("federation.declare-again", f"`{KIND}` declared again with the same arguments, with another name in front, and with "
            "other hops", "taken, taken; 406 `inequivalent arg 'x-max-hops' ...`")
def declare_again():
    with Bench() as desk:
        exchange = desk.exchange(KIND, arguments=declared(2))
        for arguments in declared(2), {**declared(2), NAME: "other"}:
            desk.channel.exchange_declare(exchange, KIND, durable=True, arguments=arguments)
        code, text = refused(lambda: desk.channel.exchange_declare(exchange, KIND, durable=True, arguments=declared(3)))
        equal((code, f"inequivalent arg '{HOPS}' for exchange" in text), (406, True), text)


ROUTES = [
    (1, None, True), (1, [], True), (1, [hop("a")], False), (2, [hop("a")], True), (2, [hop("a"), hop("b")], False),
    (9, [hop("a"), hop("front")], False), (9, [hop("front", "other")], True), (9, [{"cluster-name": "front"}], True),
    (9, ["front"], True), (0, [], False), (0, None, True), (1, "front", True), (1, hop("front"), True),
]


@suite.case("federation.hops", f"`{KIND}`: messages without and with `{FROM}`: as long as `{HOPS}`, shorter, the broker in front "
            "among them, or only its name, no list", "what came through as many brokers, or was there, goes nowhere; the rest to all")
def hops():
    with Bench() as desk:
        exchanges = {most: desk.exchange(KIND, arguments=declared(most)) for most in {most for most, _, _ in ROUTES}}
        for exchange in exchanges.values():
            desk.channel.queue_bind(desk.queue(), exchange, "whatever")
        for most, received, expected in ROUTES:
            headers = {} if received is None else {FROM: received}
            equal(desk.send(exchanges[most], "k", headers=headers), expected, f"{most} hops, {received}")


@suite.case("federation.behind", f"a topic exchange that leads to an internal, auto-deleted `{KIND}` and a queue behind it; one too "
            "far; the binding goes", "by the topic's key; not what came too far, of which the other queues hear; gone with its binding")
def behind():
    with Bench() as desk:
        source, queue, other = desk.exchange("topic"), desk.queue(), desk.queue()
        desk.channel.queue_bind(other, source, "#")
        name = fresh("exchange")
        desk.channel.exchange_declare(name, KIND, durable=True, auto_delete=True, internal=True, arguments=declared(1))
        desk.channel.queue_bind(queue, name)
        desk.channel.exchange_bind(name, source, "a.*", {"x-bound-from": [{"cluster-name": "front", "hops": 1}]})
        for key, headers in ("a.b", {}), ("b.a", {}), ("a.c", {FROM: [hop("elsewhere")]}):
            equal(desk.send(source, key, key.encode(), headers=headers), True)
        equal((desk.drained(queue), desk.drained(other)), ([b"a.b"], [b"a.b", b"b.a", b"a.c"]))
        channel = desk.connection.channel()
        channel.confirm_delivery()
        equal(refused(lambda: channel.basic_publish(name, "k", b"x"))[0], 403)
        desk.channel.queue_unbind(queue, name)
        equal(refused(lambda: desk.connection.channel().exchange_declare(name, passive=True))[0], 404)


@suite.case("federation.amqp10", f"`{KIND}`: messages of AMQP 1.0 with the annotation `{FROM}`", "as the header of 0-9-1")
def amqp10():
    with Bench() as desk:
        exchange, queue = desk.exchange(KIND, arguments=declared(2)), desk.queue()
        desk.channel.queue_bind(queue, exchange)
        connection = BlockingConnection(suite.uri.text, allowed_mechs="PLAIN", timeout=15)
        sender = connection.create_sender(f"/exchanges/{exchange}/k")

        def is_taken(received):
            annotations = {} if received is None else {symbol(FROM): received}
            try:
                sender.send(Message(body="m", annotations=annotations))
            except SendException:
                return False
            return True

        equal([is_taken(received) for received in (None, [hop("a")], [hop("a"), hop("b")], [hop("front")])],
              [True, True, False, False])
        connection.close()
        equal(len(desk.drained(queue)), 2)
