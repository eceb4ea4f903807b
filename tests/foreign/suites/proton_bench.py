"""Helpers of the proton cases: blocking connections, links, queues made over 0-9-1.

Queues are declared with pika: the two protocols of one broker meet in every case.
"""

import collections
import logging

from proton import Delivery, Described, Endpoint, Message, Timeout, symbol, ulong
from proton.handlers import MessagingHandler
from proton.reactor import ReceiverOption
from proton.utils import BlockingConnection, LinkDetached

from lab.cases import Suite
from suites import pika_bench
from suites.pika_bench import fresh

suite = Suite("proton")
logging.getLogger("proton").setLevel(logging.CRITICAL)
OUTCOMES = {
    Delivery.ACCEPTED: "accepted",
    Delivery.REJECTED: "rejected",
    Delivery.RELEASED: "released",
    Delivery.MODIFIED: "modified",
}


class Bench:
    """One AMQP 1.0 connection and one 0-9-1 desk, both closed at the end."""

    def __init__(self, **options):
        pika_bench.suite.uri = suite.uri
        self.desk = pika_bench.Desk()
        self.connection = connect(**options)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        try:
            self.connection.close()
        except Exception:  # noqa: BLE001 - a case may have broken it on purpose
            pass
        self.desk.__exit__(*error)

    def queue(self, **options):
        return self.desk.queue(**options)

    def sender(self, queue=None, address=None, **options):
        return self.connection.create_sender(address or queue and queue_address(queue), **options)

    def receiver(self, queue, credit=None, **options):
        return Receiver(self.connection, queue, credit or 0, **options)

    def send(self, queue, *bodies, **properties):
        sender = self.sender(queue)
        for body in bodies:
            sender.send(Message(body=body, durable=True, **properties))
        sender.close()


class Taker(MessagingHandler):
    """Keeps what comes. The client's own would grant one more credit for each message taken."""

    def __init__(self):
        super().__init__(prefetch=0, auto_accept=False)
        self.incoming = collections.deque()

    def on_message(self, event):
        self.incoming.append((event.message, event.delivery))
        event.container.yield_()

    def on_link_error(self, event):
        if event.link.state & Endpoint.LOCAL_ACTIVE:  # told once, not again while it closes
            event.link.close()
            raise LinkDetached(event.link)


class Wants(ReceiverOption):
    """Filters of a receiver's source: by name the descriptor and the value."""

    def __init__(self, filters):
        self.filters = filters

    def apply(self, link):
        filters = {symbol(name): Described(symbol(of) if isinstance(of, str) else ulong(of), value)
                   for name, (of, value) in self.filters.items()}
        link.source.filter.put_dict(filters)


class Receiver:
    """A receiver whose credit is what the case grants; deliveries stay unsettled until settled."""

    def __init__(self, connection, queue, credit, **options):
        self.connection = connection
        self.taker = Taker()
        # the client would name two links to one address alike, which no broker takes
        self.blocking = connection.create_receiver(
            queue_address(queue), credit=credit, handler=self.taker, name=fresh("receiver"), **options
        )
        self.link = self.blocking.link
        self.incoming = self.taker.incoming
        self.unsettled = collections.deque()

    def receive(self, timeout=10):
        self.connection.wait(lambda: self.incoming, timeout=timeout, msg="receiving")
        message, delivery = self.incoming.popleft()
        if not delivery.settled:
            self.unsettled.append(delivery)
        return message

    def gets_nothing(self, seconds=0.3):
        """Nothing more comes."""
        try:
            self.receive(timeout=seconds)
        except Timeout:
            return
        raise AssertionError("one more")

    def filters(self):
        """Those of its source that are in place, by name."""
        told = self.link.remote_source.filter
        told.rewind()
        in_place = told.get_dict() if told.next() else {}
        return sorted(str(name) for name in in_place)

    def settle(self, state):
        """Settles the oldest delivery taken."""
        delivery = self.unsettled.popleft()
        delivery.update(state)
        delivery.settle()

    def close(self):
        self.blocking.close()


def connect(login=None, **options):
    uri = suite.uri
    login = login or f"{uri.user}:{uri.password}"
    settings = {"timeout": 15, "allowed_mechs": "PLAIN", "sasl_enabled": True}
    return BlockingConnection(f"amqp://{login}@{uri.host}:{uri.port}", **{**settings, **options})


def queue_address(queue):
    return f"/queues/{queue}"


def body_of(message):
    """Binary arrives as a view of memory that lasts as long as its message: copied here."""
    body = message.body
    return bytes(body) if isinstance(body, memoryview) else body


def outcome(delivery):
    return OUTCOMES.get(delivery.remote_state, str(delivery.remote_state))
