"""A short mixed load that is known, and what scrapes of it say."""

import re
import urllib.request

import pika
from lab.cases import eventually
from lab.wire_stream import DECLARE, Peer, message, text
from proton import Message
from proton.reactor import AtMostOnce
from proton.utils import BlockingConnection

# Messages of the load, by protocol: published, confirmed, routed to so many queues, returned, dropped.
DONE = {
    "amqp091": {"received": 34, "received_confirm": 34, "confirmed": 34, "routed": 31, "unroutable_returned": 1,
                "unroutable_dropped": 2},
    "amqp10": {"received": 10, "received_confirm": 10, "confirmed": 10, "routed": 10, "unroutable_returned": 0,
               "unroutable_dropped": 0},
    "stream": {"received": 10, "received_confirm": 10, "confirmed": 10, "routed": 10, "unroutable_returned": 0,
               "unroutable_dropped": 0},
}
DEAD = 2
PREFETCH = 3
BODY = b"x" * 500
STAMP = 1_700_000_000


class Load:
    """Objects with a prefix of their own; connections stay open until `close`."""

    def __init__(self, uri, stream_port, prefix):
        self.prefix = prefix
        self.uri = uri
        self.names = {kind: f"{prefix}-{kind}" for kind in ("classic", "quorum", "stream", "dead", "x")}
        self.rabbit = pika.BlockingConnection(pika.URLParameters(uri.text))
        self.channel = self.rabbit.channel()
        self.ten = self.peer = None
        self.stream_port = stream_port

    def run(self):
        names, channel = self.names, self.channel
        channel.confirm_delivery()
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": names["dead"]}
        for kind, arguments in (("classic", dead), ("quorum", {"x-queue-type": "quorum"}),
                                ("stream", {"x-queue-type": "stream"}), ("dead", {})):
            channel.queue_declare(names[kind], durable=True, arguments=arguments)
        channel.exchange_declare(names["x"], "topic", durable=True)
        channel.queue_bind(names["classic"], names["x"], "k")
        stamped = pika.BasicProperties(delivery_mode=2, timestamp=STAMP)
        for kind in ("classic", "quorum", "stream"):
            for _ in range(9):
                channel.basic_publish("", names[kind], BODY, stamped)
        for _ in range(4):
            channel.basic_publish(names["x"], "k", BODY, stamped)
        for _ in range(2):
            channel.basic_publish(names["x"], "nowhere", b"y")
        try:
            channel.basic_publish(names["x"], "nowhere", b"y", mandatory=True)
            raise AssertionError("what is routed nowhere came back to nobody")
        except pika.exceptions.UnroutableError:
            pass
        self.consume(channel)
        self.over_ten()
        self.over_streams()

    def consume(self, channel):
        """Gets of each kind, deliveries that are settled in each way and some that are not."""
        found, _, _ = channel.basic_get(self.names["classic"])
        channel.basic_ack(found.delivery_tag)
        channel.basic_get(self.names["classic"], auto_ack=True)
        for _ in range(DEAD):
            found, _, _ = channel.basic_get(self.names["classic"])
            channel.basic_reject(found.delivery_tag, requeue=False)
        eventually(lambda: channel.queue_declare(self.names["dead"], passive=True).method.message_count == DEAD, "the dead")
        channel.basic_get(self.names["dead"])
        channel.basic_qos(prefetch_count=PREFETCH)
        tags = [found.delivery_tag for found, _ in zip(
            (item[0] for item in channel.consume(self.names["quorum"], inactivity_timeout=5)), range(PREFETCH))]
        channel.basic_ack(tags[0])
        channel.basic_nack(tags[1], requeue=True)

    def over_ten(self):
        self.ten = BlockingConnection(self.uri.text, allowed_mechs="PLAIN", timeout=15)
        sender = self.ten.create_sender(f"/queues/{self.names['classic']}")
        for _ in range(10):
            sender.send(Message(body=BODY, durable=True))
        receiver = self.ten.create_receiver(f"/queues/{self.names['classic']}", credit=4)
        for _ in range(4):
            receiver.receive(timeout=10)
            receiver.accept()
        self.ten.create_receiver(f"/queues/{self.names['classic']}", credit=1, name="settled",
                                 options=AtMostOnce()).receive(timeout=10)

    def over_streams(self):
        self.peer = Peer(self.uri, self.stream_port)
        stream = self.names["stream"]
        self.peer.code(DECLARE, bytes([1]) + text("") + text(stream))
        self.peer.publish(1, *(message(number, BODY) for number in range(10)))
        self.peer.subscribe(1, stream)

    def close(self):
        self.channel.close()
        channel = self.rabbit.channel()
        for kind in ("classic", "quorum", "stream", "dead"):
            channel.queue_delete(self.names[kind])
        channel.exchange_delete(self.names["x"])
        for connection in (self.ten, self.rabbit):
            if connection:
                connection.close()


FAMILIES = [
    "queue_coarse_metrics", "queue_consumer_count", "queue_metrics", "queue_delivery_metrics", "queue_exchange_metrics",
    "exchange_metrics", "channel_metrics", "channel_exchange_metrics", "channel_process_metrics", "channel_queue_metrics",
    "channel_queue_exchange_metrics", "connection_metrics", "connection_coarse_metrics", "connection_churn_metrics",
    "node_metrics", "node_coarse_metrics", "node_persister_metrics", "auth_attempt_metrics",
    "auth_attempt_detailed_metrics", "stream_consumer_metrics", "ra_metrics", "vhost_status", "exchange_names",
    "exchange_bindings",
]
PATHS = {"aggregated": "", "per-object": "/per-object", "memory-breakdown": "/memory-breakdown",
         **{f"detailed {family}": f"/detailed?family={family}" for family in FAMILIES}}
SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Scrape:
    """One exposition: types by family, samples with their labels."""

    def __init__(self, base, path=""):
        with urllib.request.urlopen(f"{base}/metrics{path}", timeout=30) as response:
            lines = response.read().decode().splitlines()
        self.types = dict(line.split()[2:4] for line in lines if line.startswith("# TYPE"))
        found = [SAMPLE.match(line).groups() for line in lines if line and not line.startswith("#")]
        self.samples = [(name, dict(LABEL.findall(labels or "")), value) for name, labels, value in found]

    def shapes(self):
        """Type, names of labels, and whether numbers have fractions, by family; histograms by their parts."""
        shapes = {name: [kind, [], ""] for name, kind in self.types.items()}
        for name, labels, value in self.samples:
            shape = shapes.setdefault(name, ["", [], ""])
            shape[0] = shape[0] or self.types.get(re.sub("_(bucket|sum|count)$", "", name), "untyped")
            own = sorted(labels)
            if own not in shape[1]:
                shape[1].append(own)
            shape[2] = shape[2] or ("real" if "." in value else "whole")
        return {name: [kind, sorted(labels), form] for name, (kind, labels, form) in shapes.items()}

    def sum(self, name, **labels):
        name = "rabbitmq_" + name
        values = [float(value) for of, own, value in self.samples if of == name and labels.items() <= own.items()]
        return sum(values) if values else None
