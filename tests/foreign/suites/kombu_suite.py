"""kombu over py-amqp: what Celery and other applications in Python build on."""

import itertools
import os
import socket
import threading
import time

import amqp
import kombu
from kombu.mixins import ConsumerProducerMixin
from kombu.pools import Connections, Producers

from lab.cases import Suite, equal
from lab.relay import Relay

suite = Suite("kombu")
_numbers = itertools.count(1)
SECONDS_MAX = 15
QUIET_SECONDS = 0.25


def fresh(word):
    return f"foreign.kombu.{word}.{os.getpid():x}.{next(_numbers)}"


def connect(uri=None, **options):
    settings = {"transport_options": {"confirm_publish": True}, "connect_timeout": SECONDS_MAX, **options}
    return kombu.Connection(uri or suite.uri.text, **settings)


def case(name, behaviour, answer, later=False):
    """Registers a function that gets a connection, closed when it ends."""

    def register(act):
        def run():
            with connect() as connection:
                act(connection)

        suite.add(name, behaviour, answer, run, later=later)
        return act

    return register


def declared(connection, word="queue", **options):
    """A queue that goes with its connection."""
    queue = kombu.Queue(fresh(word), channel=connection.default_channel, **{"exclusive": True, **options})
    queue.declare()
    return queue


def send(connection, queue, *bodies, **options):
    with connection.channel() as channel:
        producer = kombu.Producer(channel)
        for body in bodies:
            producer.publish(body, routing_key=queue.name, **options)


class Taken:
    """A consumer's messages; `take` runs the connection until some have come."""

    def __init__(self, connection, queue, channel=None, **options):
        self.connection = connection
        self.messages = []
        self.consumer = kombu.Consumer(channel or connection, [queue], on_message=self.messages.append, **options)
        self.consumer.consume()

    def take(self, count):
        deadline = time.monotonic() + SECONDS_MAX
        while len(self.messages) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(self.messages)} messages of {count} after {SECONDS_MAX} s")
            self.drain(0.1)
        taken, self.messages[:] = self.messages[:count], self.messages[count:]
        return taken

    def quiet(self):
        self.drain(QUIET_SECONDS)
        equal(words(self.messages), "", "messages too many")

    def drain(self, seconds):
        try:
            self.connection.drain_events(timeout=seconds)
        except socket.timeout:
            pass


def words(messages):
    """Payloads; `*` marks a redelivered one."""
    return " ".join(f"{message.decode()}{'*' * message.delivery_info['redelivered']}" for message in messages)


@case("publish.confirm", "300 persistent messages, `confirm_publish`", "each publish returns when it is confirmed")
def _(connection):
    queue = declared(connection, exclusive=False, auto_delete=True)
    send(connection, queue, *range(300))
    equal(queue.queue_declare(passive=True).message_count, 300, "messages")
    queue.delete()


@case("publish.serializers", "json, pickle and yaml-free raw bodies, gzip and zlib compression, headers", "equal")
def _(connection):
    queue = declared(connection)
    taken = Taken(connection, queue, accept=["json", "pickle", "application/data", "text/plain"])
    value = {"name": "grün", "list": [1, 2.5, None, True]}
    for options in ({"serializer": "json"}, {"serializer": "pickle"}, {"serializer": "json", "compression": "gzip"},
                    {"serializer": "json", "compression": "zlib", "headers": {"a": 1, "t": {"x": "y"}}}):
        send(connection, queue, value, **options)
        message = taken.take(1)[0]
        equal(message.decode(), value, f"body with {options}")
        for name, header in options.get("headers", {}).items():
            equal(message.headers[name], header, name)
        message.ack()
    for body in (b"\x00\xff", "text"):
        send(connection, queue, body)
        equal(taken.take(1)[0].decode(), body, "raw body")


@case("consume.settle", "ack, requeue, reject and an ack of many", "what was requeued comes again, redelivered=true")
def _(connection):
    queue = declared(connection)
    taken = Taken(connection, queue)
    send(connection, queue, *"12345")
    messages = taken.take(5)
    messages[0].requeue()
    equal(words(taken.take(1)), "1*", "after requeue")
    messages[1].reject()
    messages[4].ack(multiple=True)
    taken.quiet()
    equal(queue.queue_declare(passive=True).message_count, 0, "messages left")


@case("consume.qos", "a prefetch of 2", "two at once; each ack brings one more")
def _(connection):
    queue = declared(connection)
    send(connection, queue, *"1234")
    taken = Taken(connection, queue, prefetch_count=2)
    first = taken.take(2)
    taken.quiet()
    first[0].ack()
    equal(words(taken.take(1)), "3", "after one ack")
    taken.quiet()


@case("simple.queue", "SimpleQueue: put, get, requeue", "as documented; `Empty` when there is nothing")
def _(connection):
    with connection.SimpleQueue(fresh("simple")) as queue:
        queue.put({"one": 1})
        queue.put("two")
        first = queue.get(timeout=SECONDS_MAX)
        equal(first.payload, {"one": 1}, "first")
        first.requeue()
        seen = [queue.get(timeout=SECONDS_MAX) for _ in range(2)]
        equal(sorted(str(message.payload) for message in seen), ["two", "{'one': 1}"], "both")
        for message in seen:
            message.ack()
        try:
            queue.get(timeout=QUIET_SECONDS)
            raise AssertionError("a message too many")
        except queue.Empty:
            pass
    queue.queue(connection.default_channel).delete()


@case("exchange.route", "direct, topic, fanout and headers exchanges declared by the producer", "routed by each")
def _(connection):
    for kind, pattern, key, headers in (("direct", "key", "key", None), ("topic", "a.#", "a.b.c", None),
                                        ("fanout", "", "any", None), ("headers", "", "", {"kind": "x"})):
        exchange = kombu.Exchange(fresh(kind), kind, durable=False, auto_delete=True)
        arguments = {"x-match": "all", **headers} if headers else None
        queue = declared(connection, exchange=exchange, routing_key=pattern, binding_arguments=arguments)
        kombu.Producer(connection, exchange=exchange).publish(kind, routing_key=key, headers=headers)
        equal(words(Taken(connection, queue, no_ack=True).take(1)), kind, "message")


@case("error.channel", "a passive declare of an absent queue, then a new channel", "`NotFound` (404); the connection lives")
def _(connection):
    name = fresh("absent")
    try:
        kombu.Queue(name, channel=connection.channel()).queue_declare(passive=True)
    except amqp.NotFound as error:
        equal(error.reply_text, f"NOT_FOUND - no queue '{name}' in vhost '/'", "text")
    else:
        raise AssertionError("no error")
    declared(connection)


@case("pool.threads", "8 threads publish through one pool of connections and producers", "all there, each confirmed")
def _(connection):
    queue = declared(connection, exclusive=False, auto_delete=True)
    pool = Producers(limit=4)[connection]
    failures = []

    def publish(lane):
        try:
            for number in range(50):
                with pool.acquire(block=True, timeout=SECONDS_MAX) as producer:
                    producer.publish(f"{lane}:{number}", routing_key=queue.name)
        except Exception as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=publish, args=(lane,)) for lane in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS_MAX)
    equal(failures, [], "failures")
    equal(queue.queue_declare(passive=True).message_count, 400, "messages")
    pool.force_close_all()
    queue.delete()


@case("delete.consumed", "a queue deleted on the channel that consumes from it", "queue.delete-ok, then basic.cancel")
def _(connection):
    channel = connection.channel()
    queue = declared(connection)(channel)
    cancelled = []
    channel.basic_consume(queue.name, on_cancel=cancelled.append, consumer_tag="tag")
    queue.delete()
    equal(cancelled, [], "cancelled before delete-ok")
    connection.drain_events(timeout=SECONDS_MAX)
    equal(cancelled, ["tag"], "cancelled")


class Doubler(ConsumerProducerMixin):
    def __init__(self, connection, queue):
        self.connection = connection
        self.queue = queue

    def get_consumers(self, Consumer, channel):  # noqa: N803 - kombu's name
        return [Consumer([self.queue], on_message=self.answer, prefetch_count=1)]

    def answer(self, message):
        self.producer.publish(message.decode() * 2, exchange="", routing_key=message.properties["reply_to"],
                              correlation_id=message.properties["correlation_id"])
        message.ack()


@case("rpc.mixin", "`ConsumerProducerMixin` answers 20 calls; its connection is cut after 10",
      "each its answer, one perhaps twice: it comes back by itself")
def _(connection):
    relay = Relay(suite.uri.host, suite.uri.port)
    calls = declared(connection, "calls", exclusive=False, auto_delete=False)
    replies = declared(connection, "replies")
    serving = connect(f"amqp://{suite.uri.user}:{suite.uri.password}@127.0.0.1:{relay.port}//")
    server = Doubler(serving, calls(None))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    taken = Taken(connection, replies, no_ack=True)
    for number in range(20):
        send(connection, calls, number, reply_to=replies.name, correlation_id=str(number))
        answer = taken.take(1)[0]
        while int(answer.properties["correlation_id"]) < number:  # answered again: the cut took its ack
            answer = taken.take(1)[0]
        equal((answer.decode(), answer.properties["correlation_id"]), (number * 2, str(number)), "answer")
        if number == 10:
            relay.cut()
    server.should_stop = True
    thread.join(SECONDS_MAX)
    calls.delete()


@case("ensure.publish", "publishing with `retry=True` while the connection is cut three times",
      "each publish returns; every message is there")
def _(connection):
    relay = Relay(suite.uri.host, suite.uri.port)
    queue = declared(connection, exclusive=False, auto_delete=True)
    uri = f"amqp://{suite.uri.user}:{suite.uri.password}@127.0.0.1:{relay.port}//"
    policy = {"max_retries": 20, "interval_start": 0, "interval_step": 0.05, "interval_max": 0.2}
    with Connections(limit=2)[connect(uri)].acquire(block=True) as cut:
        producer = kombu.Producer(cut)
        for number in range(60):
            if number % 20 == 10:
                relay.cut()
            producer.publish(number, routing_key=queue.name, retry=True, retry_policy=policy)
    count = queue.queue_declare(passive=True).message_count
    taken = Taken(connection, queue, no_ack=True)
    seen = {message.decode() for message in taken.take(count)}
    taken.consumer.cancel()
    equal(seen, set(range(60)), "messages")


@case("failover.order", "a list of two brokers of which the first does not listen", "connected to the second")
def _(connection):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with kombu.Connection(f"amqp://127.0.0.1:{port};{suite.uri.text}", failover_strategy="round-robin") as second:
        second.ensure_connection(max_retries=3, interval_start=0.05)
        equal(second.connection.transport.sock.getpeername()[1], suite.uri.port, "port")
        declared(second)


@case("heartbeat.check", "a heartbeat of 2 s, sent and checked by hand for 5 s", "the connection lives")
def _(_connection):
    with connect(heartbeat=2) as connection:
        connection.ensure_connection()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            connection.heartbeat_check(rate=2)
            try:
                connection.drain_events(timeout=0.5)
            except socket.timeout:
                pass
        declared(connection)


@case("queue.priority", "`max_priority` of 10, priorities 1, 9 and 5", "highest first")
def _(connection):
    queue = declared(connection, max_priority=10)
    for priority in (1, 9, 5):
        send(connection, queue, priority, priority=priority)
    equal(words(Taken(connection, queue, no_ack=True).take(3)), "9 5 1", "order")


@case("queue.expiry", "`message_ttl` of 0.2 s, a dead-letter exchange", "dead-lettered when expired")
def _(connection):
    dead = declared(connection, "dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name}
    queue = declared(connection, message_ttl=0.2, queue_arguments=arguments)
    send(connection, queue, "old")
    message = Taken(connection, dead, no_ack=True).take(1)[0]
    equal((message.decode(), message.headers["x-death"][0]["reason"]), ("old", "expired"), "dead letter")


if __name__ == "__main__":
    suite.main()
