"""Clients of three nodes: a publisher and a consumer over each AMQP at each node, which write down what they see.

They come again when their connection is over, to the port that the node has then. A publisher has a few publishes of
each queue under way, so that a queue that stands still holds up no other.
"""

import contextlib
import logging
import os
import random
import threading
import time

import pika
from pika import exceptions
from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

from suites.crash_several_nodes import NODES

logging.getLogger("pika").setLevel(logging.CRITICAL)
logging.getLogger("proton").setLevel(logging.CRITICAL)

AGAIN_SECONDS = 0.2
WINDOW = 6
PREFETCH = 12
LARGE_BYTES = 20_000
HOLD_SECONDS_MAX = 0.4
RETURNS_OF_100 = 2
# A fault of our own in what the clients write down, `lost`, or in what they do, `double`: each run then fails.
PLANTED, PLANTED_AT = os.environ.get("LEVERET_CRASH_PLANTED", ""), 20


class Client(threading.Thread):
    """A connection at a node, again and again. `talk` has one; it returns when `is_over` or the connection is."""

    word = ""

    def __init__(self, load, node):
        super().__init__(daemon=True)
        self.load = load
        self.ledger = load.ledger
        self.node = node
        self.dice = random.Random(f"{load.seed} {self.word} {node}")
        self.session = None
        self.is_over = False
        self.count = 0

    @property
    def port(self):
        return self.load.nodes.brokers[self.node].port

    def run(self):
        while not self.is_over:
            self.session = None
            why = ""
            try:
                why = self.talk()
            except Exception as error:  # noqa: BLE001 - whatever a library makes of a dead broker
                why = f"{type(error).__name__} {error}"
            if self.session:
                self.ledger.ended(self.session, "" if self.is_over else why or "it is over")
            elif why and self.node in self.load.nodes.up:
                self.load.turned_away[why.split("(")[0][:60]] = why
            if not self.is_over:
                time.sleep(AGAIN_SECONDS)

    def open(self):
        self.session = self.ledger.opened(self.node, f"{self.word}{len(self.ledger.sessions)}")

    # ---- what publishers share

    def next_body(self, queue):
        """Another body that nobody had; now and then a large one."""
        self.count += 1
        body = f"{self.session.name}.{self.node + 1}.{self.count}"
        self.ledger.published(body, queue, self.session)
        if PLANTED and self.count == PLANTED_AT:
            self.plant(body, queue)
        return body, body if self.dice.randrange(40) else body.ljust(LARGE_BYTES)

    def plant(self, body, queue):
        """A fault that is none of the brokers', to see that it is found."""
        if PLANTED == "lost":
            lost = f"{body}.lost"
            self.ledger.published(lost, queue, self.session)
            self.ledger.confirmed(lost, self.session)
        elif PLANTED == "double":
            with contextlib.closing(connect(self.port)) as connection:
                connection.channel().basic_publish("", queue, body.encode())

    # ---- what consumers share

    def choice(self):
        """What becomes of a delivery, and after how many seconds."""
        word = "returned" if self.dice.randrange(100) < RETURNS_OF_100 else "settled"
        return word, self.dice.choice((0, 0, 0, self.dice.uniform(0, HOLD_SECONDS_MAX)))


def connect(port):
    parameters = pika.ConnectionParameters("127.0.0.1", port, heartbeat=0, socket_timeout=5, stack_timeout=8,
                                           blocked_connection_timeout=None)
    return pika.BlockingConnection(parameters)


class Publisher091(Client):
    word = "p091."

    def talk(self):
        connection = connect(self.port)
        channel = connection.channel()
        raw = channel._impl  # the blocking channel waits for each confirm
        bodies, under_way = {}, dict.fromkeys(self.load.queues, 0)
        tag = 0

        def outcome(frame):
            method = frame.method
            tags = [each for each in bodies if each <= method.delivery_tag] if method.multiple else [method.delivery_tag]
            for each in tags:
                if each not in bodies:
                    self.ledger.note(f"{self.session}: a confirm of {each}, which is not under way")
                    continue
                body, queue = bodies.pop(each)
                under_way[queue] -= 1
                if isinstance(method, pika.spec.Basic.Ack):
                    self.ledger.confirmed(body, self.session)
                else:
                    self.ledger.refused(body, "nacked")

        raw.confirm_delivery(outcome, callback=lambda _frame: self.open())
        raw.add_on_return_callback(lambda _channel, method, _properties, body: self.ledger.note(
            f"{body[:60].decode().strip()} came back: {method.reply_code} {method.reply_text}"))
        while not self.is_over or bodies and self.load.waits:
            connection.process_data_events(time_limit=self.load.pace)
            if self.session is None or self.load.is_quiet or self.is_over:
                continue
            for queue in self.load.queues:
                if under_way[queue] < WINDOW:
                    body, content = self.next_body(queue)
                    tag += 1
                    bodies[tag] = body, queue
                    under_way[queue] += 1
                    raw.basic_publish("", queue, content.encode(), pika.BasicProperties(delivery_mode=2), mandatory=True)
        connection.close()


class Consumer091(Client):
    word = "c091."

    def talk(self):
        connection = connect(self.port)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)
        self.open()
        cancelled = []
        channel.add_on_cancel_callback(cancelled.append)

        def settle(tag, body, word):
            # Written down before it is said: nobody is told of it sooner.
            self.ledger.let_go(body, self.session, word)
            if word == "settled":
                channel.basic_ack(tag)
            else:
                channel.basic_nack(tag, requeue=True)

        def take(queue, method, content):
            body = content.decode().strip()
            self.ledger.delivered(body, queue, self.session, method.redelivered)
            word, seconds = self.choice()
            if seconds:
                connection.call_later(seconds, lambda: settle(method.delivery_tag, body, word))
            else:
                settle(method.delivery_tag, body, word)

        for queue in self.load.queues:
            channel.basic_consume(queue, lambda _channel, method, _properties, content, queue=queue:
                                  take(queue, method, content))
        while not self.is_over:
            connection.process_data_events(time_limit=0.1)
            if cancelled:
                return f"cancelled: {cancelled}"
        connection.close()


class Handler10(MessagingHandler):
    """What both 1.0 clients share: a connection without coming again, and a look at the time."""

    def __init__(self, client, seconds, **options):
        super().__init__(**options)
        self.client = client
        self.seconds = seconds
        self.why = ""
        self.container = None
        self.connection = None
        self.is_closing = False

    def on_start(self, event):
        self.container = event.container
        # The client's own would come again by itself, and hide the end.
        self.connection = event.container.connect(
            f"amqp://guest:guest@127.0.0.1:{self.client.port}", reconnect=False, allowed_mechs="PLAIN", heartbeat=None)
        event.container.schedule(self.seconds, self)

    def on_connection_opened(self, _event):
        self.client.open()
        self.is_open()

    def is_open(self):
        """Links are made."""

    def turn(self):
        """Something is done each time; true: the connection is to be closed."""
        return self.client.is_over

    def on_timer_task(self, event):
        if self.is_closing:
            return
        if self.turn():
            self.is_closing = True
            self.connection.close()
        else:
            event.container.schedule(self.seconds, self)

    def end(self, why):
        self.why = self.why or why
        self.is_closing = True

    def on_transport_error(self, event):
        self.end(str(event.transport.condition))

    def on_disconnected(self, _event):
        if not self.client.is_over:
            self.end("disconnected")

    def on_connection_error(self, event):
        self.end(str(event.connection.remote_condition))
        event.connection.close()

    def on_link_error(self, event):
        self.end(f"{event.link.name}: {event.link.remote_condition}")
        event.connection.close()

    def on_session_error(self, event):
        self.end(str(event.session.remote_condition))
        event.connection.close()


class Publisher10(Client):
    word = "p10."

    def talk(self):
        handler = PublisherHandler10(self)
        Container(handler).run()
        return handler.why


class PublisherHandler10(Handler10):
    def __init__(self, client):
        super().__init__(client, client.load.pace)
        self.links = {}
        self.bodies = {}

    def is_open(self):
        for queue in self.client.load.queues:
            self.links[queue] = self.container.create_sender(self.connection, f"/queues/{queue}", name=f"to {queue}")

    def turn(self):
        load = self.client.load
        if self.client.is_over:
            return not self.bodies or not load.waits
        if not load.is_quiet:
            for queue, link in self.links.items():
                if link.credit > 0 and sum(each == queue for _body, each in self.bodies.values()) < WINDOW:
                    body, content = self.client.next_body(queue)
                    self.bodies[link.send(Message(body=content.encode(), inferred=True, durable=True)).tag, queue] = body, queue
        return False

    def settle(self, event, word):
        key = event.delivery.tag, event.link.name.removeprefix("to ")
        if key not in self.bodies:
            return self.client.ledger.note(f"{self.client.session}: an outcome of {key}, which is not under way")
        body, _queue = self.bodies.pop(key)
        if word:
            return self.client.ledger.refused(body, word)
        return self.client.ledger.confirmed(body, self.client.session)

    def on_accepted(self, event):
        self.settle(event, None)

    def on_rejected(self, event):
        self.settle(event, "rejected")

    def on_released(self, event):
        self.settle(event, "released")

    def on_modified(self, event):
        self.settle(event, "modified")


class Consumer10(Client):
    word = "c10."

    def talk(self):
        handler = ConsumerHandler10(self)
        Container(handler).run()
        return handler.why


class ConsumerHandler10(Handler10):
    def __init__(self, client):
        super().__init__(client, 0.02, prefetch=PREFETCH // 2, auto_accept=False)
        self.held = []  # when, delivery, body, word

    def is_open(self):
        for queue in self.client.load.queues:
            self.container.create_receiver(self.connection, f"/queues/{queue}", name=f"from {queue}")

    def on_message(self, event):
        content = event.message.body
        body = (bytes(content) if not isinstance(content, str) else content.encode()).decode().strip()
        # The header is the queue's: whoever had it first is told by `first-acquirer` alone where nothing failed.
        is_again = event.message.delivery_count > 0 or not event.message.first_acquirer
        self.client.ledger.delivered(body, event.link.name.removeprefix("from "), self.client.session, is_again)
        word, seconds = self.client.choice()
        self.held.append((time.monotonic() + seconds, event.delivery, body, word))
        if not seconds:
            self.settle_due()

    def settle_due(self):
        now = time.monotonic()
        due, self.held = [each for each in self.held if each[0] <= now], [each for each in self.held if each[0] > now]
        for _when, delivery, body, word in due:
            self.client.ledger.let_go(body, self.client.session, word)
            if word == "settled":
                self.accept(delivery)
            else:
                self.release(delivery, delivered=False)

    def turn(self):
        self.settle_due()
        return self.client.is_over


class Load:
    """Twelve clients. `pace`: seconds between a publisher's turns, in which each queue may get a message."""

    def __init__(self, nodes, ledger, queues, seed, pace=0.05):
        self.nodes = nodes
        self.ledger = ledger
        self.queues = queues
        self.seed = seed
        self.pace = pace
        self.is_quiet = False
        self.waits = True
        self.turned_away = {}
        self.publishers = [make(self, node) for node in NODES for make in (Publisher091, Publisher10)]
        self.consumers = [make(self, node) for node in NODES for make in (Consumer091, Consumer10)]

    def start(self):
        for client in [*self.publishers, *self.consumers]:
            client.start()

    def end(self, clients, seconds_max):
        """Ends some of them: publishers once they know what became of what they published."""
        for client in clients:
            client.is_over = True
        deadline = time.monotonic() + seconds_max
        for client in clients:
            client.join(max(0.0, deadline - time.monotonic()))
        return [client for client in clients if client.is_alive()]

    def close(self):
        """All of them, whatever is under way."""
        self.waits = False
        self.end([*self.publishers, *self.consumers], 10)
