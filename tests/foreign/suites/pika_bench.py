"""Helpers of the pika cases: the suite, connections, throw-away names, collecting.

A `Desk` is one connection with one channel and the queues and exchanges a case made;
leaving it deletes them, also when the case broke its channel or connection.
"""

import itertools
import logging
import os
import time

import pika
from pika import exceptions, spec
from pika.adapters.blocking_connection import BlockingChannel

from lab.cases import Suite

logging.getLogger("pika").setLevel(logging.CRITICAL)

suite = Suite("pika")
_numbers = itertools.count(1)
# Consumers of all cases choose, and choose everything: what holds without selectors is to hold with one.
CHOOSES_ALL = os.environ.get("LEVERET_CHOOSES_ALL") == "1"
CLOSED = (exceptions.ChannelClosedByBroker, exceptions.ConnectionClosedByBroker)
QUIET_SECONDS = 0.25


if CHOOSES_ALL:
    _consume = BlockingChannel.basic_consume

    def _choosing(channel, queue, callback, *words, arguments=None, **options):
        return _consume(channel, queue, callback, *words, arguments={"x-filter": "TRUE", **(arguments or {})}, **options)

    BlockingChannel.basic_consume = _choosing


def fresh(word):
    """A name no other case and no other run uses."""
    return f"foreign.{word}.{os.getpid():x}.{next(_numbers)}"


def parameters(**changed):
    uri = suite.uri
    fixed = {
        "host": uri.host,
        "port": uri.port,
        "virtual_host": uri.vhost,
        "credentials": pika.PlainCredentials(uri.user, uri.password),
        "socket_timeout": 15,
    }
    return pika.ConnectionParameters(**{**fixed, **changed})


def connect(**changed):
    return pika.BlockingConnection(parameters(**changed))


class Desk:
    def __init__(self, **changed):
        self.connection = connect(**changed)
        self.channel = self.connection.channel()
        self._queues = []
        self._exchanges = []

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        try:
            if self.connection.is_open:
                self.connection.close()
        except exceptions.AMQPError:
            pass
        if self._queues or self._exchanges:
            with connect() as connection:
                channel = connection.channel()
                for queue in self._queues:
                    channel.queue_delete(queue)
                for exchange in self._exchanges:
                    channel.exchange_delete(exchange)

    def queue(self, durable=True, **options):
        name = fresh("queue")
        self._queues.append(name)
        self.channel.queue_declare(name, durable=durable, **options)
        return name

    def forget(self, queue):
        """The broker removes this one, or the case does."""
        self._queues.remove(queue)

    def exchange(self, exchange_type, durable=True, **options):
        name = fresh("exchange")
        self._exchanges.append(name)
        self.channel.exchange_declare(name, exchange_type, durable=durable, **options)
        return name

    def fill(self, queue, bodies, **properties):
        """Publishes each body and waits until the broker has them all (confirms)."""
        channel = self.connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2, **properties)
        for body in bodies:
            channel.basic_publish("", queue, body, properties)
        channel.close()

    def count(self, queue):
        return self.channel.queue_declare(queue, passive=True).method.message_count

    def get(self, queue, auto_ack=False, seconds_max=5.0):
        """basic.get until there is a message; a confirm may outrun what a get sees."""
        deadline = time.monotonic() + seconds_max
        while True:
            method, properties, body = self.channel.basic_get(queue, auto_ack=auto_ack)
            if method is not None:
                return method, properties, body
            if time.monotonic() > deadline:
                raise AssertionError(f"no message in {queue} after {seconds_max} s")
            time.sleep(0.01)

    def drained(self, queue):
        """The bodies left in the queue, taken out."""
        bodies = []
        while True:
            method, _properties, body = self.channel.basic_get(queue, auto_ack=True)
            if method is None:
                return bodies
            bodies.append(body)

    def later(self):
        """Time for what should not come."""
        self.connection.sleep(QUIET_SECONDS)


class Consumer:
    """Keeps every delivery; `wait` runs the connection until enough have come."""

    def __init__(self, channel, queue, **options):
        self.deliveries = []
        self.channel = channel
        self.tag = channel.basic_consume(queue, self._take, **options)

    def _take(self, _channel, method, properties, body):
        self.deliveries.append((method, properties, body))

    def wait(self, count, seconds_max=10.0):
        deadline = time.monotonic() + seconds_max
        while len(self.deliveries) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(self.deliveries)} deliveries of {count} after {seconds_max} s")
            self.channel.connection.process_data_events(time_limit=0.05)
        return self.deliveries

    @property
    def bodies(self):
        return [body for _method, _properties, body in self.deliveries]

    @property
    def tags(self):
        return [method.delivery_tag for method, _properties, _body in self.deliveries]


def watch_methods(channel, look):
    """Shows each incoming method to `look` before the library acts on it."""
    connection = channel._impl.connection
    process = connection._process_frame

    def see(frame):
        method = getattr(frame, "method", None)
        if method is not None:
            look(method)
        return process(frame)

    connection._process_frame = see


class CloseWatch:
    """Sees the ids in channel.close and connection.close, which the exceptions omit."""

    def __init__(self, channel):
        self.ids = None
        self.scope = None
        watch_methods(channel, self._look)

    def _look(self, method):
        if isinstance(method, (spec.Channel.Close, spec.Connection.Close)):
            self.scope = "channel" if isinstance(method, spec.Channel.Close) else "connection"
            self.ids = (method.class_id, method.method_id)
