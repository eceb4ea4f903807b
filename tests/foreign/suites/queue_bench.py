"""Helpers of the suites on queues: cases for each type of queue, queues with arguments, waiting for expiry and the like.

Queues are declared and watched over 0-9-1 with pika; nothing here looks into a broker.
"""

import contextlib
import time

import pika

from lab.broker import Broker
from lab.cases import Skip, Suite, Uri, equal, eventually
from suites import pika_bench
from suites.pika_bench import CLOSED, Desk

CLASSIC, QUORUM = "classic", "quorum"
BOTH = (CLASSIC, QUORUM)
GONE_SECONDS_MAX = 12.0  # RabbitMQ looks at quorum queues every 5 s


class QueueSuite(Suite):
    """A suite whose cases are told the type of the queues they are to make."""

    def __init__(self, name):
        super().__init__(name)
        pika_bench.suite = self

    def each(self, name, behaviour, answer, types=BOTH, later=False, **options):
        """A case for each type, the answer one text, or one a type; `later`: True, or the types that are not due."""

        def register(function):
            for kind in types:
                text = answer[kind] if isinstance(answer, dict) else answer
                self.add(f"{name}.{kind}", f"{behaviour}, {kind} queue", text, lambda kind=kind: function(kind),
                         later=later is True or later is not False and kind in later, **options)
            return function

        return register

    def each_at(self, make_desk, needs):
        """As `each`, of cases that are told the desk too; `needs` skips them where the broker lacks what they are about."""

        def each(name, behaviour, answer, **options):
            def register(function):
                def act(kind):
                    needs()
                    with make_desk() as desk:
                        function(desk, kind)
                return self.each(name, behaviour, answer, **options)(act)
            return register

        return each


class Bench(Desk):
    """A desk that makes queues of a type with arguments: `make(kind, x_message_ttl=100)`."""

    def make(self, kind, **arguments):
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        return self.queue(arguments={"x-queue-type": kind, **named})

    def send(self, queue, *bodies, exchange="", **properties):
        """Publishes each body and answers whether each was confirmed (or refused: basic.nack)."""
        channel = self.connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(**{"delivery_mode": 2, **properties})
        accepted = [accepts(channel, exchange, queue, body, properties) for body in bodies]
        channel.close()
        return accepted

    def becomes(self, queue, count):
        """Waits until that many messages are ready."""
        eventually(lambda: self.count(queue) == count, f"{count} messages in {queue} ({self.count(queue)} now)",
                   GONE_SECONDS_MAX)

    def stays(self, queue, count):
        """The count is this, and is so still after a while."""
        self.becomes(queue, count)
        self.later()
        equal(self.count(queue), count, "messages ready")

    def hold(self, queue, count=1, **options):
        """A consumer that has taken so many deliveries and holds them."""
        consumer = pika_bench.Consumer(self.channel, queue, **options)
        consumer.wait(count)
        return consumer

    def collected(self, queue, count):
        """Waits for that many messages and takes them out: method, properties and body of each."""
        return [self.get(queue, auto_ack=True) for _ in range(count)]

    def bodies(self, queue, count):
        """As `collected`, the bodies alone; and nothing else is there."""
        taken = [body for _method, _properties, body in self.collected(queue, count)]
        equal(self.channel.basic_get(queue)[0], None, "one more")
        return taken


def accepts(channel, exchange, key, body, properties):
    try:
        channel.basic_publish(exchange, key, body, properties)
    except pika.exceptions.NackError:
        return False
    return True


def refusal(act):
    """Code and text with which a channel or connection is closed, None where it is not."""
    try:
        act()
    except CLOSED as closed:
        return closed.reply_code, closed.reply_text
    return None


def exists(queue):
    """Whether a queue of this name is there, without touching it: a message nobody could take comes back."""
    with Desk() as desk:
        desk.channel.confirm_delivery()
        try:
            desk.channel.basic_publish("", queue, b"?", mandatory=True)
        except (pika.exceptions.UnroutableError, pika.exceptions.NackError):  # gone, or going just now
            return False
        return True


def gone_after(queue, seconds_max=GONE_SECONDS_MAX):
    """How long a queue was still there, in seconds."""
    begin = time.monotonic()
    eventually(lambda: not exists(queue), f"{queue} gone", seconds_max)
    return time.monotonic() - begin


@contextlib.contextmanager
def killable(suite):
    """A broker of our own, which the suite's cases then connect to; tells what kills it and starts it again."""
    broker = needs_broker(suite)
    before = suite.uri

    def kill():
        broker.kill()
        start()

    def start():
        broker.start()
        suite.uri = Uri(broker.uri)

    try:
        start()
        yield kill
    finally:
        suite.uri = before
        broker.close()


def needs_broker(suite):
    """A broker of our own that a case may stop and start."""
    if not suite.options.broker:
        raise Skip("needs a broker that it may stop (--broker)")
    return Broker(suite.options.broker)
