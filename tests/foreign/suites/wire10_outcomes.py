"""Answers of full queues, single active consumers and dead-letter exchanges to AMQP 1.0 peers; raw, to see every frame."""

import time

from lab.cases import equal
from lab.wire10 import ATTACH, DETACH, DISPOSITION, FLOW, Described, Symbol, Uint, performative
from suites.wire10_bench import (
    ACCEPTED, ANNOTATIONS, DATA, HEADER, LIMIT, MODIFIED, REJECTED, RELEASED, credit, delivery, each, quiet, send, sender,
    settle, transfer,
)

ACTIVE = "rabbitmq:active"


def heard(peer):
    """The activity in the next flow: True, False, or None."""
    return (peer.expect10(FLOW)[1][10] or {}).get(ACTIVE)


def full(overflow, fitting):
    def act(bench):
        queue = bench.declare(max_length=1, overflow=overflow)
        peer = sender(bench, queue)
        for number in range(fitting + 2):
            peer.send(transfer(number))
            time.sleep(0.05)
        outcomes = [peer.expect10(DISPOSITION)[1] for _ in range(fitting + 2)]
        equal((outcomes[0][4].code, [outcome[4].code for outcome in outcomes[fitting:]]),
              (ACCEPTED, [REJECTED, REJECTED]))
        equal([outcome[1] for outcome in outcomes], list(range(fitting + 2)), "delivery-ids")
        error = outcomes[-1][4].value[0].value
        equal(error, [LIMIT, f"queue '{queue}' exceeded maximum length", {"queue": queue, "reason": "maxlen"}])

    return act


FULL = f"rejected: `{LIMIT}` `queue '{{queue}}' exceeded maximum length`, info queue and reason `maxlen`; settled"
each("full", "messages to a full queue with reject-publish", FULL, full("reject-publish", 1), ("classic",))
each("full", "messages to a full queue with reject-publish, one or two of which fit", FULL, full("reject-publish", 2),
     ("quorum",))
each("full-dlx", "messages to a full queue with reject-publish-dlx", FULL, full("reject-publish-dlx", 1), ("classic",))


def active(bench):
    queue = bench.declare(single_active_consumer=True)
    first = bench.receiver(queue)
    equal(heard(first), True, "at once")
    second = bench.receiver(queue)
    quiet(second)
    credit(first)
    quiet(first)
    credit(second)
    equal(heard(second), False, "with its first credit")
    credit(second, echo=True)
    equal(heard(second), None, "it was said")
    first.send(performative(DETACH, Uint(0), True))
    equal(heard(second), True, "when the first has gone")


each("active", "two receivers from a queue with x-single-active-consumer",
     f"flows with the property `{ACTIVE}`: true to the first once attached; false to the second with its first credit, "
     "true when the first has detached", active, ("quorum",))


def active_never(bench):
    queue = bench.declare(single_active_consumer=True)
    first, second = bench.receiver(queue), bench.receiver(queue)
    for receiver in (first, second):
        credit(receiver)
        quiet(receiver)
        credit(receiver, echo=True)
        equal(heard(receiver), None)
    first.send(performative(DETACH, Uint(0), True))
    first.expect10(DETACH)
    quiet(second)
    bench.publish(queue)
    delivery(second)


each("active", "two receivers from a queue with x-single-active-consumer",
     f"no flow says `{ACTIVE}`; the second takes over when the first has detached", active_never, ("classic",))


def active_plain(bench):
    queue = bench.declare()
    receiver = bench.receiver(queue)
    quiet(receiver)
    credit(receiver)
    equal(heard(receiver), True)
    credit(receiver, echo=True)
    equal(heard(receiver), None)
    other = bench.receiver(queue)
    credit(other, drain=True)
    equal(heard(other), True, "the answer to a drain")


each("active-plain", "a receiver from a queue without x-single-active-consumer",
     f"the flow after its first credit, drained or not, says `{ACTIVE}` true", active_plain, ("quorum",))


def active_taken(bench):
    queue = bench.declare(single_active_consumer=True)
    low = bench.receiver(queue, priority=1)
    equal(heard(low), True)
    high = bench.receiver(queue, priority=2)
    equal((heard(low), heard(high)), (False, True))


each("active-priority", "a receiver of higher priority attaches to a queue with x-single-active-consumer",
     f"`{ACTIVE}` false to the one before, true to it", active_taken, ("quorum",))


def dead(outcome, fields=()):
    def act(bench):
        grave = bench.declare(plain=True)
        queue = bench.declare(dead_letter_exchange="", dead_letter_routing_key=grave)
        bench.publish(queue)
        receiver = bench.receiver(queue)
        credit(receiver)
        settle(receiver, delivery(receiver)[0], outcome, fields)
        mourner = bench.receiver(grave)
        credit(mourner)
        annotations = delivery(mourner)[1][ANNOTATIONS]
        death = dict(annotations["x-opt-deaths"][0])
        times = death.pop("first-time"), death.pop("last-time")
        equal((times[0] == times[1], abs(times[0] / 1000 - time.time()) < 60), (True, True), "times")
        equal(death, {"queue": queue, "reason": "rejected", "count": 1, "exchange": "", "routing-keys": [queue]})
        equal({name: annotations[name] for name in ("x-first-death-queue", "x-last-death-reason", "x-routing-key")},
              {"x-first-death-queue": queue, "x-last-death-reason": "rejected", "x-routing-key": grave})

    return act


DEAD = "dead-lettered for `rejected`: x-opt-deaths and the annotations of the first and last death"
each("dead-rejected", "a delivery rejected where there is a dead-letter exchange", DEAD,
     dead(REJECTED, [Described(0x1D, [Symbol("my:error"), "why"])]))
each("dead-undeliverable", "a delivery modified with undeliverable-here, with a dead-letter exchange", DEAD,
     dead(MODIFIED, [True, True]))


def dead_counts(bench, plain_grave=True):
    """The delivery-count of the dead: rejected, undeliverable with and without having failed, rejected after one failure,
    undeliverable without having failed after a failure, rejected after it was released; and how often the first
    failed when it comes back there as failed."""
    grave = bench.declare(plain=plain_grave)
    queue = bench.declare(dead_letter_exchange="", dead_letter_routing_key=grave)
    mourner = bench.receiver(grave)
    credit(mourner)
    counts = []
    failed, released = (MODIFIED, [True, False]), (RELEASED, [])
    for outcome, fields, before in ((REJECTED, [], []), (MODIFIED, [True, True], []), (MODIFIED, [False, True], []),
                                    (REJECTED, [], [failed]), (MODIFIED, [False, True], [failed]),
                                    (REJECTED, [], [released])):
        bench.publish(queue)
        receiver = bench.receiver(queue)
        credit(receiver)
        for first in before:
            settle(receiver, delivery(receiver)[0], *first)
        settle(receiver, delivery(receiver)[0], outcome, fields)
        number, sections = delivery(mourner)
        counts.append(count_of(sections))
        if len(counts) == 1:
            settle(mourner, number, *failed)
            number, sections = delivery(mourner)
            counts.append(count_of(sections))
        settle(mourner, number, ACCEPTED)
        receiver.send(performative(DETACH, Uint(0), True))
        while receiver.frame10()[1].code != DETACH:  # else it takes the next message, and goes with it
            pass
    return counts


def count_of(sections):
    """The header's delivery-count."""
    return (sections[HEADER] + [None] * 5)[4] or 0


for words, name, plain in (("a classic queue", "", True), ("a queue of the same type", "-same", False)):
    each(f"dead-counts{name}", f"the dead in {words}: rejected, and after it failed there; undeliverable here, failed and "
         "not; rejected after it failed once; undeliverable, not failed, after it failed once; rejected after it was "
         "released: delivery-count", "1, 2, 1, 0, 2, 1, 1",
         lambda bench, plain=plain: equal(dead_counts(bench, plain), [1, 2, 1, 0, 2, 1, 1]))


def late(bench):
    """A receiver with a timeout of one second and two messages, one of which it accepts in time."""
    queue = bench.declare()
    bench.publish(queue, b"1")
    bench.publish(queue, b"2")
    receiver = bench.peer()
    timeout = {Symbol("rabbitmq:consumer-timeout"): Uint(1000)}
    source, target = Described(0x28, [f"/queues/{queue}"]), Described(0x29, ["local"])
    send(receiver, ATTACH, ["late", Uint(0), True, None, None, source, target, None, None, None, None, None, None, timeout])
    receiver.expect10(ATTACH)
    credit(receiver)
    numbers = [delivery(receiver)[0] for _ in range(2)]
    settle(receiver, numbers[0], ACCEPTED)
    return queue, receiver, numbers[1]


def released_late(bench):
    queue, receiver, number = late(bench)
    disposition = None
    while disposition is None:
        _channel, value, _payload = receiver.frame10()
        disposition = value.value if value.code == DISPOSITION else None
    equal((disposition[:4], disposition[4].code), ([False, number, None, False], RELEASED))
    other = bench.receiver(queue)
    credit(other)
    sections = delivery(other)[1]
    equal((sections[DATA], (sections[HEADER] + [None] * 5)[4] or 0), (b"2", 0), "body and delivery-count")


def kept(bench):
    queue, receiver, _number = late(bench)
    time.sleep(1.5)
    quiet(receiver)
    other = bench.receiver(queue)
    credit(other)
    quiet(other)


each("late", "a receiver with `rabbitmq:consumer-timeout` 1000 holds a delivery for longer",
     "a disposition that releases it and does not settle it; another receiver gets it, delivery-count 0", released_late,
     ("quorum",))
each("late", "a receiver with `rabbitmq:consumer-timeout` 1000 holds a delivery for longer", "it keeps it", kept,
     ("classic",))
