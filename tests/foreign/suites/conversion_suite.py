"""Conversion of messages from protocol to protocol, property by property and type by type.

Each row sends one message as raw bytes over one protocol and reads it as raw bytes over the other, so
that types show which client libraries hide. `lab.typed` says both in words: letters of table fields for
0-9-1 (`I 5`), names of types for 1.0 (`int 5`).
"""

from lab import wire
from lab.cases import equal
from lab.typed import message10, message091, properties091, sections10
from lab.wire10 import ATTACH, DISPOSITION, FLOW, TRANSFER, Peer10, Uint, is_ours, performative
from suites import conversion_deaths, conversion_rows  # noqa: F401 - the first registers its cases
from suites.conversion_bench import Ended, got_091, got_10, put_091, put_10, queue, suite

def to_091(sections):
    with queue() as (owner, name):
        put_10(name, sections)
        return message091(*got_091(owner, name))


def to_10(message):
    properties, body = message
    with queue() as (owner, name):
        put_091(owner, name, properties, body)
        return message10(next(got_10(name)))


def check(convert, sent, answers):
    """`answers`: what RabbitMQ says, and what we say where that is something else."""
    expected = answers[-1] if is_ours(suite.uri) else answers[0]
    try:
        seen = convert(sent)
    except Ended as end:
        seen = str(end)
    except wire.Closed:
        seen = "connection lost"
    equal(seen, expected)


def shown(answers):
    return f"`{answers[0]}`" + (f"; ours: `{answers[1]}`" if len(answers) > 1 else "")


def register(group, convert, rows):
    for name, words, sent, *answers in rows:
        if answers:
            where = "over 0-9-1" if convert is to_091 else "over AMQP 1.0"
            suite.add(f"{group}.{name}", f"{words}; read {where}", shown(answers),
                      lambda sent=sent, answers=answers: check(convert, sent, answers))


register("to-091", to_091, conversion_rows.TO_091)
register("to-10", to_10, conversion_rows.TO_10)


def bare(sections):
    """Everything from properties on, which nobody may change (part 3 §3.2)."""
    return b"".join(data for code, data in sections10(sections) if code >= 0x73)


@suite.case("same.bare", "AMQP 1.0 to 1.0: bare message and footer, whatever is in them and however it is encoded",
            "the same bytes; delivery-annotations are for one hop and not passed on")
def _():
    sent = [row[2] for row in conversion_rows.TO_091 if row[0] not in conversion_rows.NOT_TO_10]
    with queue() as (_owner, name):
        put_10(name, *sent)
        for message, seen in zip(sent, got_10(name, len(sent)), strict=True):
            equal(bare(seen), bare(message))
            equal([data for code, data in sections10(seen) if code == 0x71], [], "delivery-annotations")


@suite.case("same.properties", "0-9-1 to 0-9-1: properties, with one header at most, and body",
            "the same bytes; but `L` numbers come back as `l`, of a header that is there twice the first; ours: the same")
def _():
    ours = is_ours(suite.uri)
    with queue() as (owner, name):
        for row, _words, (properties, body), *_answers in conversion_rows.TO_10:
            if row not in conversion_rows.NOT_THE_SAME or ours and row != "bcc":
                put_091(owner, name, properties, body)
                equal(got_091(owner, name), (properties, body), row)


@suite.case("same.get-after-confirm", "basic.get, on another connection, right after a transient message was accepted",
            "the message, each time of 100")
def _():
    with queue() as (owner, name), Peer10(suite.uri) as sender:
        sender.login10()
        sender.session()
        sender.attach("sender", 0, False, f"/queues/{name}")
        sender.expect10(ATTACH)
        sender.expect10(FLOW)
        for number in range(100):
            sender.send(performative(TRANSFER, Uint(0), Uint(number), b"t", Uint(0), False, False,
                                     payload=conversion_rows.DATA))
            while sender.frame10()[1].code != DISPOSITION:
                pass
            owner.send(wire.method(1, 60, 70, b"\0\0" + wire.short(name) + b"\1"))
            owner.expect(60, 71)
            owner.frame()
            equal(owner.frame()[2], b"b")


if __name__ == "__main__":
    suite.main()
