"""Helpers of the suites on exchanges: exchanges with queues bound to them, and the messages that each queue got.

RabbitMQ has these exchanges in plugins: rabbitmq_consistent_hash_exchange, rabbitmq_sharding, rabbitmq_random_exchange,
rabbitmq_recent_history_exchange, rabbitmq_exchange_federation and rabbitmq_event_exchange must be enabled where it is asked.
"""

import pika

from lab.cases import Suite, equal, eventually
from suites import pika_bench
from suites.pika_bench import CLOSED, Desk, fresh

suite = Suite("exchanges")
pika_bench.suite = suite


class Bench(Desk):
    """A desk whose publishes are confirmed, with queues that are told apart by letters."""

    def __init__(self):
        super().__init__()
        self.sender = self.connection.channel()
        self.sender.confirm_delivery()
        self.stem = fresh("queue")

    def lettered(self, letters):
        """Queues in the order of their letters, which is that of their names too; by letter."""
        return {letter: self.named(f"{self.stem}.{letter}") for letter in letters}

    def named(self, name, **options):
        self._queues.append(name)
        self.channel.queue_declare(name, durable=True, **options)
        return name

    def bound(self, exchange, letters, key=""):
        """Queues of these letters, bound in their order; by letter."""
        queues = self.lettered(letters)
        for queue in queues.values():
            self.channel.queue_bind(queue, exchange, key)
        return queues

    def send(self, exchange, key="", body=b"", **properties):
        """Whether the message was routed anywhere, once it is confirmed."""
        try:
            self.sender.basic_publish(exchange, key, body, pika.BasicProperties(**properties), mandatory=True)
        except pika.exceptions.UnroutableError:
            return False
        return True

    def where(self, queues, bodies):
        """Per body the letters of the queues that have it; all are taken out."""
        found = {body: "" for body in bodies}
        for letter, queue in sorted(queues.items()):
            for body in self.drained(queue):
                found[body.decode()] += letter
        return [found[body] for body in bodies]

    def spread(self, exchange, queues, keys):
        """Publishes a message with each key; where they are, a letter each (or more, or none)."""
        for key in keys:
            self.send(exchange, key, key.encode())
        self.arrived(queues, len(keys))
        return " ".join(self.where(queues, keys))

    def arrived(self, queues, count):
        eventually(lambda: sum(self.count(queue) for queue in queues.values()) >= count, f"{count} messages")


def refused(act):
    """Code and text with which the channel is closed, None where it is not."""
    try:
        act()
    except CLOSED as closed:
        return closed.reply_code, closed.reply_text
    return None


def closes(act, text):
    equal(refused(act), (406, f"PRECONDITION_FAILED - {text}"))


def options(parser):
    parser.add_argument("--broker", default="", help="a leveret to start, for cases that stop it or ask its tools")
