"""One consumer at a time (x-single-active-consumer), exclusive consumers, priorities of consumers."""

import socket

from proton import Delivery

from lab.cases import equal, eventually
from suites import proton_bench
from suites.pika_bench import Consumer, connect, fresh
from suites.queue_bench import CLASSIC, QUORUM, Bench, QueueSuite, refusal

suite = QueueSuite("single-active")


class Stage(Bench):
    """A desk with consumers on channels of their own, so that one can go alone."""

    def single(self, kind, **arguments):
        return self.make(kind, x_single_active_consumer=True, **arguments)

    def consumer(self, queue, priority=None, prefetch=0, **options):
        channel = self.connection.channel()
        if prefetch:
            channel.basic_qos(prefetch_count=prefetch)
        arguments = None if priority is None else {"x-priority": priority}
        return Consumer(channel, queue, arguments=arguments, **options)

    def shares(self, *consumers):
        """How many each has once nothing more comes."""
        self.later()
        return [len(consumer.deliveries) for consumer in consumers]


@suite.each("one", "three consumers", "the first has all, the others wait")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        consumers = [desk.consumer(queue) for _number in range(3)]
        desk.send(queue, b"1", b"2", b"3")
        consumers[0].wait(3)
        equal(desk.shares(*consumers), [3, 0, 0])


@suite.each("blocked", "the active one has its prefetch of 1", "the others wait nevertheless")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        active, other = desk.consumer(queue, prefetch=1), desk.consumer(queue)
        desk.send(queue, b"1", b"2")
        active.wait(1)
        equal(desk.shares(active, other), [1, 0])
        active.channel.basic_ack(1)
        active.wait(2)


@suite.each("cancel", "the active one is cancelled", "the one that waited longest is next, with what comes then")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        consumers = [desk.consumer(queue) for _number in range(3)]
        for active in range(3):
            desk.send(queue, b"%d" % active)
            consumers[active].wait(1)
            consumers[active].channel.basic_ack(1)
            equal(desk.shares(*consumers), [1] * (active + 1) + [0] * (2 - active))
            consumers[active].channel.basic_cancel(consumers[active].tag)


@suite.each("cancel-held", "the active one is cancelled while it holds messages",
            "the next is active at once and has what is ready; the held may be acknowledged still")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        first, second = desk.consumer(queue, prefetch=2), desk.consumer(queue)
        desk.send(queue, b"1", b"2", b"3")
        first.wait(2)
        first.channel.basic_cancel(first.tag)
        second.wait(1)
        equal(second.bodies, [b"3"])
        first.channel.basic_ack(2, multiple=True)
        first.channel.close()
        equal(desk.shares(second), [1])


def taken_over(second, count):
    """The deliveries of the next consumer: bodies and redelivered marks, those that came back in order."""
    second.wait(count)
    seen = [(body, method.redelivered) for method, _properties, body in second.deliveries]
    return [one for one in seen if one[1]], [one for one in seen if not one[1]]


@suite.each("channel-closed", "the channel of the active one is closed while it holds messages",
            "what waits goes to the next, then what came back, redelivered and in order (ours: what came back is "
                "first)")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        first, second = desk.consumer(queue, prefetch=2), desk.consumer(queue)
        desk.send(queue, b"1", b"2", b"3")
        first.wait(2)
        first.channel.close()
        equal(taken_over(second, 3), ([(b"1", True), (b"2", True)], [(b"3", False)]))


@suite.each("connection-lost", "the connection of the active one is cut", "as when its channel is closed")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        other = connect()
        first = Consumer(other.channel(), queue)
        second = desk.consumer(queue)
        desk.send(queue, b"1", b"2")
        first.wait(2)
        other._impl._transport._sock.shutdown(socket.SHUT_RDWR)
        equal(taken_over(second, 2), ([(b"1", True), (b"2", True)], []))


@suite.each("waiting-gone", "one that waits goes, then the active one", "the next of those that are left")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        consumers = [desk.consumer(queue) for _number in range(3)]
        consumers[1].channel.basic_cancel(consumers[1].tag)
        consumers[0].channel.basic_cancel(consumers[0].tag)
        desk.send(queue, b"1")
        consumers[2].wait(1)
        equal(desk.shares(*consumers), [0, 0, 1])


@suite.each("all-gone", "all consumers go and new ones come", "the first of the new ones is active")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        for one in [desk.consumer(queue) for _number in range(2)]:
            one.channel.close()
        desk.send(queue, b"1")
        consumers = [desk.consumer(queue) for _number in range(2)]
        consumers[0].wait(1)
        equal(desk.shares(*consumers), [1, 0])


@suite.each("same-channel", "two consumers on one channel, the first is cancelled", "hand-over within the channel")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        first, second = Consumer(desk.channel, queue), Consumer(desk.channel, queue)
        desk.send(queue, b"1")
        first.wait(1)
        desk.channel.basic_cancel(first.tag)
        desk.send(queue, b"2")
        second.wait(1)
        equal((first.bodies, second.bodies), ([b"1"], [b"2"]))


@suite.each("requeue", "the active one requeues", "the message comes back to itself")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        first, second = desk.consumer(queue), desk.consumer(queue)
        desk.send(queue, b"1")
        first.wait(1)
        first.channel.basic_nack(1)
        first.wait(2)
        equal(desk.shares(first, second), [2, 0])


@suite.each("auto-ack", "consumers that acknowledge automatically", "one at a time as well")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        consumers = [desk.consumer(queue, auto_ack=True) for _number in range(2)]
        desk.send(queue, b"1", b"2")
        consumers[0].wait(2)
        consumers[0].channel.basic_cancel(consumers[0].tag)
        desk.send(queue, b"3")
        consumers[1].wait(1)
        equal(desk.shares(*consumers), [2, 1])


LOCKED = ("RESOURCE_LOCKED - cannot obtain access to locked queue '{}' in vhost '{}'. basic.get operations are not "
          "supported by <<\"quorum\">> queues with single active consumer")


@suite.each("get", "basic.get beside an active consumer, and without any",
            {CLASSIC: "takes what is ready", QUORUM: f"channel closed: 405 `{LOCKED.format('...', '/')}`"})
def _(kind):
    with Stage() as desk:
        for beside in (True, False):
            queue = desk.single(kind)
            if beside:
                desk.consumer(queue, prefetch=1)
            desk.send(queue, b"1", b"2")
            desk.becomes(queue, 1 if beside else 2)
            channel = desk.connection.channel()
            if kind == CLASSIC:
                equal(channel.basic_get(queue)[2], b"2" if beside else b"1")
            else:
                equal(refusal(lambda: channel.basic_get(queue)), (405, LOCKED.format(queue, suite.uri.vhost)))


@suite.each("exclusive", "an exclusive consumer", "channel closed: 403 `ACCESS_REFUSED - queue ... in exclusive use`",
            types=(CLASSIC,))
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        equal(refusal(lambda: desk.channel.basic_consume(queue, lambda *_: None, exclusive=True)),
              (403, f"ACCESS_REFUSED - queue '{queue}' in vhost '{suite.uri.vhost}' in exclusive use"))


@suite.each("count", "three consumers, in the answer to queue.declare",
            {CLASSIC: "3", QUORUM: "1, the active one (ours: 3)"})
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        for _number in range(3):
            desk.consumer(queue)
        expected = (3,) if kind == CLASSIC else (1, 3)
        eventually(lambda: desk.channel.queue_declare(queue, passive=True).method.consumer_count in expected, "counted")


@suite.each("deleted", "the queue is deleted", "all consumers are cancelled, those that waited too")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        gone = []
        for _number in range(3):
            channel = desk.connection.channel()
            channel.add_on_cancel_callback(lambda frame: gone.append(frame.method.consumer_tag))
            channel.basic_consume(queue, lambda *_: None)
        desk.channel.queue_delete(queue)
        desk.forget(queue)
        eventually(lambda: desk.connection.process_data_events(0.02) or len(gone) == 3, "3 cancelled")


@suite.each("priority.newcomer", "a consumer of higher priority comes while the active one holds nothing",
            {CLASSIC: "the active one stays active", QUORUM: "the newcomer is active"})
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        first, second = desk.consumer(queue), desk.consumer(queue, priority=5)
        desk.later()
        desk.send(queue, b"1")
        (first if kind == CLASSIC else second).wait(1)
        equal(desk.shares(first, second), [1, 0] if kind == CLASSIC else [0, 1])


@suite.each("priority.newcomer-held", "a consumer of higher priority comes while the active one holds messages",
            {CLASSIC: "the active one stays active",
             QUORUM: "the active one has nothing more; the newcomer is active when all is settled"})
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        first = desk.consumer(queue)
        desk.send(queue, b"1", b"2")
        first.wait(2)
        second = desk.consumer(queue, priority=5)
        desk.later()
        desk.send(queue, b"3")
        equal(desk.shares(first, second), [3, 0] if kind == CLASSIC else [2, 0])
        first.channel.basic_ack(1)
        equal(desk.shares(first, second), [3, 0] if kind == CLASSIC else [2, 0])
        first.channel.basic_ack(2)
        equal(desk.shares(first, second), [3, 0] if kind == CLASSIC else [2, 1])


@suite.each("priority.waiting", "the active one goes; those that wait have priorities 1, 5 and 5",
            "the older of priority 5 is next")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        first = desk.consumer(queue, priority=9)
        others = [desk.consumer(queue, priority=priority) for priority in (1, 5, 5)]
        first.channel.basic_cancel(first.tag)
        desk.send(queue, b"1")
        others[1].wait(1)
        equal(desk.shares(*others), [0, 1, 0])


@suite.each("priority.lower", "a newcomer of lower or equal priority", "waits")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        first = desk.consumer(queue, priority=3)
        others = [desk.consumer(queue, priority=priority) for priority in (3, 1)]
        desk.send(queue, b"1")
        first.wait(1)
        equal(desk.shares(first, *others), [1, 0, 0])


@suite.each("order", "40 messages while three consumers in turn hold 10, acknowledge 5 and go",
            "none lost, none twice but what was held, which comes redelivered")
def _(kind):
    with Stage() as desk:
        queue = desk.single(kind)
        consumers = [desk.consumer(queue, prefetch=10) for _number in range(4)]
        desk.send(queue, *[b"%d" % number for number in range(40)])
        settled, held = [], set()
        for consumer in consumers[:3]:
            consumer.wait(10)
            settled += consumer.bodies[:5]
            held |= set(consumer.bodies[5:])
            consumer.channel.basic_ack(consumer.tags[4], multiple=True)
            desk.later()
            consumer.channel.close()
        last = consumers[3]
        while len(settled) < 40:
            before = len(last.deliveries)
            last.wait(before + 1)
            settled += last.bodies[before:]
            last.channel.basic_ack(last.tags[-1], multiple=True)
        equal(sorted(settled, key=int), [b"%d" % number for number in range(40)])
        equal({body for method, _properties, body in last.deliveries if method.redelivered} <= held, True)


@suite.each("argument", "x-single-active-consumer that is no boolean", "406 `{unacceptable_type,longstr}`")
def _(kind):
    with Bench() as desk:
        queue = fresh("absent")
        equal(refusal(lambda: desk.channel.queue_declare(
            queue, durable=True, arguments={"x-queue-type": kind, "x-single-active-consumer": "true"})),
            (406, f"PRECONDITION_FAILED - invalid arg 'x-single-active-consumer' for queue '{queue}' in vhost "
                  f"'{suite.uri.vhost}': {{unacceptable_type,longstr}}"))


@suite.each("false", "x-single-active-consumer false", "consumers share")
def _(kind):
    with Stage() as desk:
        queue = desk.make(kind, x_single_active_consumer=False)
        consumers = [desk.consumer(queue, prefetch=1) for _number in range(2)]
        desk.send(queue, b"1", b"2")
        for consumer in consumers:
            consumer.wait(1)


# exclusive consumers and priorities of consumers, without x-single-active-consumer


@suite.each("exclusive.second", "a consumer beside an exclusive one, and an exclusive one beside another",
            {CLASSIC: "channel closed: 403 `ACCESS_REFUSED - queue ... in exclusive use`; allowed when it has gone",
             QUORUM: "allowed: exclusive means nothing there (ours: as classic)"})
def _(kind):
    with Stage() as desk:
        for first, second in (True, False), (False, True):
            queue = desk.make(kind)
            held = desk.connection.channel()
            held.basic_consume(queue, lambda *_: None, exclusive=first)
            channel = desk.connection.channel()
            seen = refusal(lambda: channel.basic_consume(queue, lambda *_: None, exclusive=second))
            in_use = (403, f"ACCESS_REFUSED - queue '{queue}' in vhost '{suite.uri.vhost}' in exclusive use")
            equal(seen == in_use or kind == QUORUM and seen is None, True, f"{seen}")
            held.close()
            if seen:
                desk.connection.channel().basic_consume(queue, lambda *_: None, exclusive=second)


@suite.each("exclusive.get", "basic.get and queue.purge beside an exclusive consumer",
            "served: it excludes consumers alone")
def _(kind):
    with Stage() as desk:
        queue = desk.make(kind)
        desk.consumer(queue, prefetch=1, exclusive=True)
        desk.send(queue, b"1", b"2", b"3")
        desk.becomes(queue, 2)
        equal(desk.get(queue)[2], b"2")
        equal(desk.channel.queue_purge(queue).method.message_count, 1)


@suite.each("consumers.priority", "consumers of priorities 5 (prefetch 2), 1 and 0",
            "the highest that has room has the next")
def _(kind):
    with Stage() as desk:
        queue = desk.make(kind)
        low, middle = desk.consumer(queue, prefetch=10), desk.consumer(queue, priority=1, prefetch=2)
        high = desk.consumer(queue, priority=5, prefetch=2)
        desk.later()
        for body in b"12345":
            desk.send(queue, bytes([body]))
        high.wait(2)
        middle.wait(2)
        low.wait(1)
        equal((high.bodies, middle.bodies, low.bodies), ([b"1", b"2"], [b"3", b"4"], [b"5"]))
        high.channel.basic_ack(1)
        desk.send(queue, b"6")
        high.wait(3)
        equal(desk.shares(high, middle, low), [3, 2, 1])


@suite.each("consumers.negative", "consumers of priorities -5 and none", "the one without is higher")
def _(kind):
    with Stage() as desk:
        queue = desk.make(kind)
        low, usual = desk.consumer(queue, priority=-5), desk.consumer(queue)
        desk.later()
        for _number in range(4):
            desk.send(queue, b"x")
        usual.wait(4)
        equal(desk.shares(low, usual), [0, 4])


@suite.each("consumers.equal", "three consumers of one priority, one lower, with room for all",
            "in turn among the equal ones")
def _(kind):
    with Stage() as desk:
        queue = desk.make(kind)
        low = desk.consumer(queue, priority=1)
        equals = [desk.consumer(queue, priority=7) for _number in range(3)]
        desk.later()
        for _number in range(6):
            desk.send(queue, b"x")
        for one in equals:
            one.wait(2)
        equal(desk.shares(low, *equals), [0, 2, 2, 2])


# AMQP 1.0


@suite.each("mixed", "an AMQP 1.0 receiver is active, a 0-9-1 consumer waits; the receiver goes",
            "hand-over across protocols")
def _(kind):
    proton_bench.suite.uri = suite.uri
    with proton_bench.Bench() as bench, Stage() as desk:
        queue = desk.single(kind)
        receiver = bench.receiver(queue, credit=10)
        waiting = desk.consumer(queue)
        desk.send(queue, b"1", b"2")
        for _number in range(2):
            receiver.receive()
        receiver.settle(Delivery.ACCEPTED)
        equal(desk.shares(waiting), [0])
        receiver.close()
        waiting.wait(1)
        equal(waiting.bodies, [b"2"])


if __name__ == "__main__":
    suite.main()
