"""A RabbitMQ in front: its federated exchanges and queues with a Leveret as their upstream, and its shovels, cut while they carry.

A broker of our own is started (--broker), with a relay before it whose connections are reset. The RabbitMQ is one that runs,
with the plugins for shovels and federation (--rabbitmq HOST:AMQP:HTTP, guest/guest): it gets a virtual host of the suite's, which
goes with it. In short 2,000 messages and two cuts; with --full 100,000 and ten, whose figures are printed.
"""

import atexit
import json
import os
import struct
import sys
import threading
import time

import pika

from lab import wire
from lab.broker import Broker
from lab.cases import Skip, Suite, Uri, equal, eventually
from lab.relay import Relay
from lab.wire import Peer, method, queue_declare, short, table
from suites.permission_bench import Api

suite = Suite("federation")
VHOST = f"foreign-federation-{os.getpid():x}"
PATIENCE_SECONDS = 60
WINDOW = 500
_house = []


class House:
    """Both brokers, once."""

    def __init__(self):
        if not suite.options.rabbitmq:
            raise Skip("needs a RabbitMQ with shovels and federation: --rabbitmq HOST:AMQP:HTTP")
        if not suite.options.broker:
            raise Skip("needs a broker of our own: --broker")
        host, amqp, http = suite.options.rabbitmq.split(":")
        self.api = Api(f"http://guest:guest@{host}:{http}")
        self.front = pika.ConnectionParameters(host, int(amqp), VHOST, heartbeat=0)
        self.front_uri = f"amqp://guest:guest@{host}:{amqp}/{VHOST}"
        self.broker = Broker(suite.options.broker, ["web_amqp.tcp=none"])
        self.broker.start()
        atexit.register(self.broker.close)
        self.uri = Uri(self.broker.uri)
        self.relay = Relay(self.uri.host, self.uri.port)
        self.behind_uri = f"amqp://guest:guest@127.0.0.1:{self.relay.port}/%2F"
        self.api.call("PUT", f"vhosts/{VHOST}")
        atexit.register(lambda: self.api.call("DELETE", f"vhosts/{VHOST}"))
        self.api.call("PUT", f"permissions/{VHOST}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        self.parameter("federation-upstream", "behind", {
            "uri": self.behind_uri, "reconnect-delay": 1, "ack-mode": "on-confirm", "prefetch-count": 200, "max-hops": 1})
        self.api.call("PUT", f"policies/{VHOST}/federate", {
            "pattern": "^federated", "definition": {"federation-upstream-set": "all"}, "apply-to": "all"})

    def parameter(self, component, name, value):
        self.api.call("PUT", f"parameters/{component}/{VHOST}/{name}", {"value": value})

    def publish(self, exchange, key, numbers):
        """Publishes numbers here, each confirmed."""
        with Peer(self.uri) as peer:
            peer.login()
            peer.channel()
            peer.send(method(1, 85, 10, b"\0"))
            peer.expect(85, 11)
            sent = acked = 0
            for at in range(0, len(numbers), WINDOW):
                some = numbers[at:at + WINDOW]
                peer.send(b"".join(persistent(exchange, key, b"%d" % number) for number in some))
                sent += len(some)
                while acked < sent:
                    _channel, class_id, method_id, arguments = peer.method()
                    equal((class_id, method_id), (60, 80), "basic.ack")
                    acked = max(acked, struct.unpack(">Q", arguments[:8])[0])

    def declare(self, *declarations):
        """Declares here: each a whole method and the method that answers it."""
        with Peer(self.uri) as peer:
            peer.login()
            peer.channel()
            for declared, answer in declarations:
                peer.send(declared)
                peer.expect(*answer)

    def left(self, queue):
        """Ready messages of a queue here."""
        with Peer(self.uri) as peer:
            peer.login()
            peer.channel()
            peer.send(queue_declare(1, queue, bits=1))
            arguments = peer.expect(50, 11)[1]
            return struct.unpack(">I", arguments[1 + arguments[0]:][:4])[0]


def persistent(exchange, key, body):
    properties = wire.content_header(1, len(body), flags=0x1000, properties=b"\x02")
    return method(1, 60, 40, b"\0\0" + short(exchange) + short(key) + b"\0") + properties + wire.frame(wire.BODY, 1, body)


def house():
    if not _house:
        _house.append(House())
    return _house[0]


class Taker:
    """A consumer at the RabbitMQ that remembers what it was given, and how often."""

    def __init__(self, queue):
        self.queue, self.seen, self.all, self.is_over = queue, set(), 0, False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        with pika.BlockingConnection(house().front) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=200)
            for deliver, _properties, body in channel.consume(self.queue, inactivity_timeout=0.2):
                if self.is_over:
                    break
                if deliver:
                    self.seen.add(int(body))
                    self.all += 1
                    channel.basic_ack(deliver.delivery_tag)

    def wait(self, count):
        """So many different ones have come."""
        seen, since = len(self.seen), time.monotonic()
        while len(self.seen) < count:
            time.sleep(0.02)
            if len(self.seen) > seen:
                seen, since = len(self.seen), time.monotonic()
            if time.monotonic() - since > PATIENCE_SECONDS:
                raise AssertionError(f"{len(self.seen)} of {count} came, and none for {PATIENCE_SECONDS} s")

    def end(self):
        self.is_over = True
        self.thread.join(30)


def size():
    """Messages, and cuts between."""
    return (100_000, 10) if suite.options.full else (2_000, 2)


def carried(what, taker, begin, cuts):
    """Everything came. What came twice is what was under way at the cuts."""
    count = size()[0]
    equal(taker.seen, set(range(count)), what)
    seconds = time.monotonic() - begin
    figures = {"what": what, "messages": count, "cuts": cuts, "lost": count - len(taker.seen),
               "twice": taker.all - count, "seconds": round(seconds, 1)}
    print(json.dumps(figures), file=sys.stderr)


def queue_here(name, kind):
    arguments = {"x-queue-type": kind}
    return method(1, 50, 10, b"\0\0" + short(name) + b"\x02" + table(arguments)), (50, 11)


@suite.case("exchange", "a topic exchange of RabbitMQ's federated with one of ours, cut while it carries",
            "every message that was published here, by the keys that are bound there", seconds_max=900)
def exchange():
    here = house()
    count, cuts = size()
    here.declare((method(1, 40, 10, b"\0\0" + short("federated.x") + short("topic") + b"\x02" + table({})), (40, 11)))
    with pika.BlockingConnection(here.front) as connection:
        channel = connection.channel()
        channel.exchange_declare("federated.x", "topic", durable=True)
        channel.queue_declare("taken.x", durable=True)
        channel.queue_bind("taken.x", "federated.x", "a.*")
        # The binding comes here once the link is up.
        number = [0]

        def comes():
            number[0] += 1
            here.publish("federated.x", "a.first", [10**9 + number[0]])
            time.sleep(0.1)
            return channel.queue_purge("taken.x").method.message_count
        eventually(comes, "the first message through the link", 40.0)
        time.sleep(1)
        channel.queue_purge("taken.x")
    begin, taker = time.monotonic(), Taker("taken.x")
    part, done = count // (cuts + 1), 0
    for cut in range(cuts + 1):
        numbers = range(done, count if cut == cuts else done + part)
        here.publish("federated.x", "a.b", numbers)
        here.publish("federated.x", "b.a", [2 * 10**9])
        done += len(numbers)
        if cut < cuts:
            taker.wait(done - len(numbers) // 2)
            here.relay.cut()
    taker.wait(count)
    taker.end()
    carried("federated exchange", taker, begin, cuts)


def federated_queue(kind):
    here = house()
    count, cuts = size()
    name = f"federated.{kind}"
    here.declare(queue_here(name, kind))
    here.publish("", name, range(count))
    with pika.BlockingConnection(here.front) as connection:
        connection.channel().queue_declare(name, durable=True, arguments={"x-queue-type": kind})
    begin, taker = time.monotonic(), Taker(name)
    for cut in range(cuts):
        taker.wait((cut + 1) * count // (cuts + 1))
        here.relay.cut()
    taker.wait(count)
    eventually(lambda: here.left(name) == 0, "nothing left here", 30.0)
    taker.end()
    carried(f"federated {kind} queue", taker, begin, cuts)


for one_kind in ("classic", "quorum"):
    suite.add(f"queue.{one_kind}", f"a {one_kind} queue of RabbitMQ's federated with one of ours that is full, cut while a consumer there "
              "drains it", "every message, and none is left here", lambda kind=one_kind: federated_queue(kind), seconds_max=900)


def shovel(source):
    """A shovel of RabbitMQ's that takes from us by this protocol."""
    here = house()
    count, cuts = size()
    name = f"shovel.{source}"
    here.declare(queue_here(name, "classic"))
    with pika.BlockingConnection(here.front) as connection:
        connection.channel().queue_declare(f"taken.{name}", durable=True)
    here.publish("", name, range(count))
    # Over 1.0 a virtual host is not in the path.
    value = {"src-uri": here.behind_uri.rsplit("/", 1)[0], "src-protocol": source, "dest-uri": here.front_uri,
             "dest-protocol": "amqp091", "dest-queue": f"taken.{name}", "reconnect-delay": 1, "ack-mode": "on-confirm"}
    value |= {"src-queue": name, "src-prefetch-count": 200} if source == "amqp091" else {
        "src-address": f"/queues/{name}", "src-prefetch-count": 200}
    begin, taker = time.monotonic(), Taker(f"taken.{name}")
    here.parameter("shovel", name, value)
    for cut in range(cuts):
        taker.wait((cut + 1) * count // (cuts + 1))
        here.relay.cut()
    taker.wait(count)
    eventually(lambda: here.left(name) == 0, "nothing left here", 30.0)
    here.api.call("DELETE", f"parameters/shovel/{VHOST}/{name}")
    taker.end()
    carried(f"shovel over {source}", taker, begin, cuts)


for one_source in ("amqp091", "amqp10"):
    suite.add(f"shovel.{one_source}", f"a shovel of RabbitMQ's over {one_source} from a queue of ours, cut while it carries",
              "every message, and none is left here", lambda source=one_source: shovel(source), seconds_max=900)


if __name__ == "__main__":
    def options(parser):
        parser.add_argument("--broker", default="", help="a binary of ours to start")
        parser.add_argument("--rabbitmq", default="", help="HOST:AMQP:HTTP of a RabbitMQ with shovels and federation")

    suite.main(options)
