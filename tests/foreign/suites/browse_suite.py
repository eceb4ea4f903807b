"""Browsing: who is shown what is in a queue and takes nothing. RabbitMQ has it for no queue: `x-browse` is passed over
there, and a source with distribution-mode copy is answered with move, so that messages are consumed. Against such a broker
the cases are skipped.
"""

from proton import Terminus
from proton.reactor import LinkOption

from lab.cases import Skip, equal, eventually
from suites import proton_bench
from suites.pika_bench import Consumer
from suites.queue_bench import CLASSIC, Bench, QueueSuite, killable, refusal

suite = QueueSuite("browse")
BROWSE = {"x-browse": True}


class Copy(LinkOption):
    def apply(self, link):
        link.source.distribution_mode = Terminus.DIST_MODE_COPY


def needs_browsing():
    with Bench() as desk:
        queue = desk.queue(exclusive=True)
        desk.forget(queue)
        desk.send(queue, b"?")
        Consumer(desk.channel, queue, auto_ack=True, arguments=BROWSE).wait(1)
        desk.later()
        if desk.count(queue) == 0:
            raise Skip("it has no browsing of queues")


each = suite.each_at(Bench, needs_browsing)


def browser(desk, queue, auto_ack=True, prefetch=0, **options):
    channel = desk.connection.channel()
    if prefetch:
        channel.basic_qos(prefetch_count=prefetch)
    return Consumer(channel, queue, auto_ack=auto_ack, arguments=BROWSE, **options)


def seen(consumer):
    return [(body, method.redelivered) for method, _properties, body in consumer.deliveries]


@each("all", "a consumer with x-browse", "all that is ready in order, and then what comes; nothing is taken or marked")
def _(desk, kind):
    queue = desk.make(kind)
    desk.send(queue, b"1", b"2", b"3")
    one = browser(desk, queue)
    one.wait(3)
    desk.send(queue, b"4")
    one.wait(4)
    expected = [(body, False) for body in (b"1", b"2", b"3", b"4")]
    equal(seen(one), expected)
    equal(desk.count(queue), 4)
    another = browser(desk, queue)
    another.wait(4)
    equal(seen(another), expected)
    method, _properties, body = desk.get(queue)
    equal((body, method.redelivered, method.message_count), (b"1", False, 3))


@each("held", "messages that a consumer holds, and that come back", "not seen while they are held; behind the browser not "
      "seen, before it seen as redelivered")
def _(desk, kind):
    queue = desk.make(kind)
    desk.send(queue, b"1", b"2", b"3")
    method, _properties, _body = desk.get(queue)
    one = browser(desk, queue)
    one.wait(2)
    desk.channel.basic_nack(method.delivery_tag)
    desk.becomes(queue, 3)
    another = browser(desk, queue)
    another.wait(3)
    equal(seen(one), [(b"2", False), (b"3", False)])
    equal(seen(another), [(b"1", True), (b"2", False), (b"3", False)])


@each("acknowledged", "a browser that acknowledges, rejects and requeues, prefetch 1", "it is shown one after the other; "
      "nothing else changes")
def _(desk, kind):
    queue = desk.make(kind)
    desk.send(queue, b"1", b"2", b"3", b"4")
    one = browser(desk, queue, auto_ack=False, prefetch=1)
    for number, settle in enumerate((
            lambda tag: one.channel.basic_ack(tag),
            lambda tag: one.channel.basic_reject(tag, requeue=False),
            lambda tag: one.channel.basic_nack(tag, requeue=True)), 1):
        one.wait(number)
        desk.later()
        equal(len(one.deliveries), number)
        settle(one.tags[-1])
    one.wait(4)
    one.channel.close()
    desk.stays(queue, 4)
    equal([body for _method, _properties, body in desk.collected(queue, 4)], [b"1", b"2", b"3", b"4"])


@each("no-consumer", "a browser of a queue", "is not counted, neither keeps the queue from being deleted unused nor from "
      "being consumed exclusively")
def _(desk, kind):
    queue = desk.make(kind)
    one = browser(desk, queue)
    desk.send(queue, b"1")
    one.wait(1)
    equal(desk.channel.queue_declare(queue, passive=True).method.consumer_count, 0)
    holder = Consumer(desk.connection.channel(), queue, exclusive=True, auto_ack=True)
    holder.wait(1)
    late = browser(desk, queue)
    holder.channel.close()
    gone = []
    late.channel.add_on_cancel_callback(lambda frame: gone.append(frame.method.consumer_tag))
    desk.channel.queue_delete(queue, if_unused=True)
    desk.forget(queue)
    eventually(lambda: desk.connection.process_data_events(0.02) or gone == [late.tag], "cancelled")


@each("cancel", "a browser is cancelled", "cancel-ok, and it is shown nothing more")
def _(desk, kind):
    queue = desk.make(kind)
    one = browser(desk, queue)
    desk.send(queue, b"1")
    one.wait(1)
    one.channel.basic_cancel(one.tag)
    desk.send(queue, b"2")
    desk.later()
    equal(len(one.deliveries), 1)


@each("exclusive", "an exclusive consumer with x-browse", "channel closed: 406")
def _(desk, kind):
    queue = desk.make(kind)
    code, text = refusal(lambda: browser(desk, queue, exclusive=True))
    equal((code, text.split(":")[0]), (406, f"PRECONDITION_FAILED - invalid arg 'x-browse' for queue '{queue}' in vhost "
                                            f"'{suite.uri.vhost}'"))


@each("argument", "x-browse that is no truth value", "channel closed: 406")
def _(desk, kind):
    queue = desk.make(kind)
    code, text = refusal(lambda: Consumer(desk.channel, queue, arguments={"x-browse": "yes"}))
    equal((code, text.rsplit(": ", 1)[1]), (406, '"expected boolean, got longstr"'))


@each("priority", "messages with priorities", "seen in order of arrival", types=(CLASSIC,))
def _(desk, kind):
    queue = desk.make(kind, x_max_priority=5)
    for body, priority in ((b"1", 0), (b"2", 5), (b"3", 1)):
        desk.send(queue, body, priority=priority)
    one = browser(desk, queue)
    one.wait(3)
    equal([body for body, _redelivered in seen(one)], [b"1", b"2", b"3"])


class Pair:
    """An AMQP 1.0 connection beside the desk's."""

    def __enter__(self):
        proton_bench.suite.uri = suite.uri
        self.connection = proton_bench.connect()
        return self

    def __exit__(self, *_error):
        self.connection.close()

    def browser(self, queue, credit):
        return proton_bench.Receiver(self.connection, queue, credit, options=Copy())


@each("copy", "AMQP 1.0: a source with distribution-mode copy", "answered with copy; messages are seen in order, and stay "
      "whatever their outcome")
def _(desk, kind):
    queue = desk.make(kind)
    desk.send(queue, b"1", b"2", b"3")
    with Pair() as pair:
        receiver = pair.browser(queue, 3)
        equal(receiver.link.remote_source.distribution_mode, Terminus.DIST_MODE_COPY)
        for body in (b"1", b"2", b"3"):
            message = receiver.receive()
            equal((proton_bench.body_of(message), message.first_acquirer, message.delivery_count), (body, True, 0))
        for state in (proton_bench.Delivery.ACCEPTED, proton_bench.Delivery.REJECTED, proton_bench.Delivery.RELEASED):
            receiver.settle(state)
        receiver.close()
    desk.stays(queue, 3)


@each("drain", "AMQP 1.0: a browser drains", "all that is ready, then its credit is 0: the end of the queue; with new credit "
      "what comes later")
def _(desk, kind):
    queue = desk.make(kind)
    desk.send(queue, b"1", b"2")
    with Pair() as pair:
        receiver = pair.browser(queue, 1)
        equal(proton_bench.body_of(receiver.receive()), b"1")
        receiver.link.drain(10)
        pair.connection.wait(lambda: receiver.link.credit == 0, timeout=10, msg="draining")
        equal([proton_bench.body_of(message) for message, _delivery in receiver.incoming], [b"2"])
        receiver.incoming.clear()
        receiver.link.drained()
        desk.send(queue, b"3")
        receiver.link.drain_mode = False
        receiver.link.flow(1)
        equal(proton_bench.body_of(receiver.receive()), b"3")
    equal(desk.count(queue), 3)


@suite.each("killed", "a browser of a queue with 500 messages of 20 kB, after the broker was killed",
            "all of them in order, from disk, as redelivered")
def _(kind):
    with killable(suite) as kill:
        desk = Bench()
        queue = desk.make(kind)
        bodies = [b"%d:" % number + bytes(20_000) for number in range(500)]
        desk.send(queue, *bodies)
        kill()
        with Bench() as desk:
            one = browser(desk, queue)
            one.wait(500)
            equal(seen(one) == [(body, True) for body in bodies], True)
            equal(desk.count(queue), 500)


def options(parser):
    parser.add_argument("--broker", default="", help="a leveret binary, for the case that kills one")


if __name__ == "__main__":
    suite.main(options)
