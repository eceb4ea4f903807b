"""Stamps of a node on messages that come in: published and read over both protocols."""

import time

import pika
from pika import exceptions
from proton import Message, symbol, timestamp
from proton.utils import BlockingConnection

from lab.cases import eventually

# As RabbitMQ 4.3.6 answered with both interceptors on: what the publisher wrote, and what is read then. NOW: about the time of the
# test, in milliseconds; NOW_S in seconds; NODE: the node's name.
OWN_HEADERS = {"a": 1, "timestamp_in_ms": 5, "x-routed-by": "me"}
OWN_ANNOTATIONS = {symbol("x-routed-by"): "me", symbol("x-opt-rabbitmq-received-time"): timestamp(77000)}
KEPT = [
    # Published over 0-9-1: properties, headers and timestamp over 0-9-1, annotations and creation time over 1.0.
    ({}, {"timestamp_in_ms": "NOW", "x-routed-by": "NODE"}, "NOW_S", {"x-opt-rabbitmq-received-time": "NOW", "x-routed-by": "NODE"}, 0),
    ({"timestamp": 1000, "headers": {"a": 1}}, {"a": 1, "timestamp_in_ms": "NOW", "x-routed-by": "NODE"}, 1000,
     {"x-opt-rabbitmq-received-time": "NOW", "x-routed-by": "NODE"}, 1000),
    ({"timestamp": 1000, "headers": OWN_HEADERS}, OWN_HEADERS, 1000, {"x-routed-by": "me"}, 1000),
    # Published over 1.0.
    ({"annotations": {}}, {"timestamp_in_ms": "NOW", "x-routed-by": "NODE"}, "NOW_S",
     {"x-opt-rabbitmq-received-time": "NOW", "x-routed-by": "NODE"}, 0),
    ({"annotations": OWN_ANNOTATIONS, "creation_time": 1000, "properties": {"timestamp_in_ms": 8}},
     {"timestamp_in_ms": "NOW", "x-routed-by": "me"}, 1000, {"x-opt-rabbitmq-received-time": "NOW", "x-routed-by": "me"}, 1000),
]
REPLACED = [
    ({"headers": OWN_HEADERS}, {"a": 1, "timestamp_in_ms": "NOW", "x-routed-by": "NODE"}, "NOW_S",
     {"x-opt-rabbitmq-received-time": "NOW", "x-routed-by": "NODE"}, 0),
    ({"timestamp": 1000}, {"timestamp_in_ms": "NOW", "x-routed-by": "NODE"}, "NOW_S", None, None),
    ({"annotations": OWN_ANNOTATIONS}, {"timestamp_in_ms": "NOW", "x-routed-by": "NODE"}, "NOW_S",
     {"x-opt-rabbitmq-received-time": "NOW", "x-routed-by": "NODE"}, 0),
]
# Annotations of every delivery.
USUAL = {"x-exchange", "x-routing-key"}


class Desk:
    """A connection of each protocol and a queue."""

    def __init__(self, port, node, kind="quorum"):
        self.node = node
        self.slow = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        self.channel = self.slow.channel()
        self.queue = f"stamped-{kind}"
        self.channel.queue_declare(self.queue, durable=True, arguments={"x-queue-type": kind})
        self.fast = BlockingConnection(f"amqp://guest:guest@127.0.0.1:{port}/%2f", timeout=20)

    def publish(self, wish, queue=None):
        """Over the protocol that the wish is of."""
        queue = queue or self.queue
        if "annotations" in wish:
            sender = self.fast.create_sender(f"/queues/{queue}")
            sender.send(Message(body=b"b", inferred=True, durable=True, **wish))
            sender.close()
        else:
            self.channel.basic_publish("", queue, b"b", pika.BasicProperties(delivery_mode=2, **wish))

    def named(self, value):
        """A value without what differs from run to run."""
        now = time.time()
        if value == self.node:
            return "NODE"
        if isinstance(value, int) and abs(value / 1000 - now) < 60:
            return "NOW"
        if isinstance(value, int) and abs(value - now) < 60:
            return "NOW_S"
        return value

    def read091(self):
        """Headers and timestamp."""
        def got():
            method, properties, _ = self.channel.basic_get(self.queue, auto_ack=True)
            return method and properties

        properties = eventually(got, "a message")
        headers = {name: self.named(value) for name, value in (properties.headers or {}).items()}
        return headers, self.named(properties.timestamp)

    def read10(self):
        """Annotations but the usual ones, and creation time."""
        receiver = self.fast.create_receiver(f"/queues/{self.queue}", credit=1)
        message = receiver.receive(timeout=10)
        receiver.accept()
        receiver.close()
        annotations = {str(name): self.named(value) for name, value in (message.annotations or {}).items()}
        return {name: value for name, value in annotations.items() if name not in USUAL}, self.named(int(message.creation_time))

    def returned(self):
        """Headers and timestamp of a message that came back."""
        channel = self.slow.channel()
        channel.confirm_delivery()
        try:
            channel.basic_publish("", "stamped-nobody", b"b", mandatory=True)
        except exceptions.UnroutableError as error:
            properties = error.messages[0].properties
            return {name: self.named(value) for name, value in properties.headers.items()}, self.named(properties.timestamp)
        raise AssertionError("it was routed")

    def matched(self):
        """Which bindings of a headers exchange a message over each protocol matches."""
        channel, bindings = self.slow.channel(), {
            "node": {"x-match": "any-with-x", "x-routed-by": None}, "time": {"x-match": "any", "timestamp_in_ms": None},
            "received": {"x-match": "any-with-x", "x-opt-rabbitmq-received-time": None}}
        channel.exchange_declare("stamped", "headers")
        for name, arguments in bindings.items():
            channel.queue_declare(f"stamped-{name}")
            channel.queue_bind(f"stamped-{name}", "stamped", "", arguments)
        channel.basic_publish("stamped", "", b"b")
        sender = self.fast.create_sender("/exchanges/stamped")
        sender.send(Message(body=b"b", inferred=True))
        return {name: channel.queue_declare(f"stamped-{name}", passive=True).method.message_count for name in bindings}

    def close(self):
        self.fast.close()
        self.slow.close()


def differences(desk, rows):
    """Differences from RabbitMQ's answers."""
    found = []
    for wish, headers, seconds, annotations, created in rows:
        desk.publish(wish)
        told = desk.read091()
        # Application properties of 1.0 are headers too, and are no matter of these.
        if told != (headers, seconds):
            found.append(f"{wish}: over 0-9-1 {told}")
        if annotations is None:
            continue
        desk.publish(wish)
        told = desk.read10()
        if told != (annotations, created):
            found.append(f"{wish}: over 1.0 {told}")
    return found
