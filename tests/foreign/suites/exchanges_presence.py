"""The event exchange: what `amq.rabbitmq.event` says of channels, consumers and queues' policies.

Asked of RabbitMQ 4.3.6 with rabbitmq_event_exchange. A channel's `pid` is compared with itself alone.
"""

import contextlib
import os

import pika
from proton.utils import BlockingConnection

from lab.cases import equal
from suites import pika_bench
from suites.exchanges_bench import Bench, fresh, suite
from suites.exchanges_events import Ears, administrator


def of(*pids):
    return lambda headers: headers.get("pid") in pids or headers.get("channel") in pids


@contextlib.contextmanager
def scene():
    """Ears, a connection, and a channel 3 of it whose `channel.created` was heard."""
    with Ears("channel.*", "consumer.*", "connection.*") as ears:
        connection = pika_bench.connect()
        host, port = connection._impl._transport._sock.getsockname()[:2]
        name = f"{host}:{port} -> {suite.uri.host}:{suite.uri.port}"
        opened = ears.hear(1, lambda headers: headers.get("name") == name)[0]
        equal("@" in opened[2]["node"], True)
        channel = connection.channel(3)
        created = ears.told(lambda headers: headers.get("name") == f"{name} (3)", ("channel.created", {
            "connection": opened[2]["pid"], "number": 3, "user": suite.uri.user, "vhost": suite.uri.vhost,
            "user_who_performed_action": suite.uri.user}))[0]
        try:
            yield ears, connection, channel, created[2]["pid"]
        finally:
            with contextlib.suppress(Exception):
                connection.close()


@suite.case("events.channel", "a channel opens and closes", "channel.created with name, number, connection, user and virtual host; "
            "channel.closed with the same `pid`")
def channels():
    with scene() as (ears, _connection, channel, pid):
        channel.close()
        ears.told(of(pid), ("channel.closed", {"consumer_count": 0, "user_who_performed_action": suite.uri.user}))


@suite.case("events.channel-gone", "a connection is closed, or cut, with an open channel", "channel.closed")
def channel_gone():
    for end in ("close", "cut"):
        with scene() as (ears, connection, _channel, pid):
            if end == "close":
                connection.close()
            else:
                connection._impl._transport._sock.shutdown(2)
            ears.told(of(pid), ("channel.closed", {}))


def add_consumer(kind):
    by = {"classic": lambda: suite.uri.user, "quorum": lambda: "rmq-internal"}[kind]

    @suite.case(f"events.consumer.{kind}", f"consumers of a {kind} queue come, are cancelled, and go with their channel",
                "consumer.created with tag, channel, queue, prefetch and arguments; consumer.deleted"
                f"{', by `rmq-internal`' if kind == 'quorum' else ''}, before channel.closed")
    def consumer():
        with Bench() as desk, scene() as (ears, connection, channel, pid):
            queue = desk.queue(arguments={"x-queue-type": kind})
            channel.basic_qos(prefetch_count=11)
            channel.basic_consume(queue, lambda *_all: None, consumer_tag="one", arguments={"x-priority": 3})
            at = {"consumer_tag": "one", "channel": pid, "queue": queue, "vhost": suite.uri.vhost}
            ears.told(of(pid), ("consumer.created", {
                **at, "ack_required": True, "exclusive": False, "prefetch_count": 11,
                "arguments": ['{<<"x-priority">>,signedint,3}'], "user_who_performed_action": suite.uri.user}))
            channel.basic_cancel("one")
            ears.told(of(pid), ("consumer.deleted", {**at, "user_who_performed_action": by()}))
            channel.basic_consume(queue, lambda *_all: None, consumer_tag="two", auto_ack=True)
            channel.basic_get(queue)
            ears.told(of(pid), ("consumer.created", {"consumer_tag": "two", "ack_required": False, "arguments": []}))
            channel._impl.close()
            connection.process_data_events(0.1)
            ears.told(of(pid), ("consumer.deleted", {**at, "consumer_tag": "two", "user_who_performed_action": by()}),
                      ("channel.closed", {"consumer_count": 0}))


for _kind in ("classic", "quorum"):
    add_consumer(_kind)


@suite.case("events.consumer-queue-gone", "a queue is deleted that somebody consumes from", "consumer.deleted with the queue's name")
def queue_gone():
    with Bench() as desk, scene() as (ears, connection, channel, pid):
        queue = fresh("queue")
        desk.channel.queue_declare(queue, durable=True)
        channel.basic_consume(queue, lambda *_all: None, consumer_tag="one")
        ears.told(of(pid), ("consumer.created", {"queue": queue}))
        desk.channel.queue_delete(queue)
        connection.process_data_events(0.1)
        ears.told(of(pid), ("consumer.deleted", {"consumer_tag": "one", "queue": queue, "vhost": suite.uri.vhost}))


@suite.case("events.consumer-amqp10", "a receiver attaches over AMQP 1.0 and detaches", "consumer.created and consumer.deleted; the "
            "tag is the link's handle, the prefetch 0; nothing of the session")
def amqp10():
    with Ears("channel.*", "consumer.*") as ears, Bench() as desk:
        queue = desk.queue()
        uri = suite.uri
        connection = BlockingConnection(f"amqp://{uri.user}:{uri.password}@{uri.host}:{uri.port}", timeout=20, allowed_mechs="PLAIN")
        ears.hear(1, lambda headers: headers.get("number") == 1)
        receiver = connection.create_receiver(f"/queues/{queue}", credit=1)
        about = lambda headers: headers.get("queue") == queue or headers.get("number") == 0  # noqa: E731
        at = {"consumer_tag": "0", "queue": queue, "vhost": uri.vhost, "user_who_performed_action": uri.user}
        ears.told(about, ("consumer.created", {**at, "ack_required": True, "exclusive": False, "prefetch_count": 0, "arguments": []}))
        receiver.close()
        ears.told(about, ("consumer.deleted", at))
        connection.close()
        ears.silent(about)


@suite.case("events.queue-policy", "a policy that is for a queue comes and goes", "queue.policy.updated with the policy and "
            "queue.policy.cleared, each before what is told of the policy; nothing of a queue it is not for")
def queue_policy():
    admin = administrator()
    vhost, uri = f"events-{os.getpid():x}-governed", admin.uri
    admin.do("add_vhost", vhost)
    try:
        admin.do("enter", vhost, uri.user)
        connection = pika.BlockingConnection(pika.ConnectionParameters(
            uri.host, uri.port, vhost, pika.PlainCredentials(uri.user, uri.password), socket_timeout=15))
        for queue in ("ev-q", "other"):
            connection.channel().queue_declare(queue, durable=True)
        with Ears("policy.*", "queue.policy.*", uri=uri) as ears:
            admin.do("policy", vhost)
            admin.do("no_policy", vhost)
            at = {"vhost": vhost, "user_who_performed_action": admin.who}
            of_queue = {**at, "name": "ev-q", "type": "rabbit_classic_queue"}
            policy = {"pattern": "^ev", "definition": {"max-length": 3}, "priority": 1, "apply-to": "queues"}
            about = lambda headers: headers.get("vhost") == vhost  # noqa: E731
            ears.told(about, ("queue.policy.updated", {**of_queue, **policy}), ("policy.set", {**at, "name": "p"}),
                      ("queue.policy.cleared", of_queue), ("policy.cleared", {**at, "name": "p"}))
        connection.close()
    finally:
        admin.do("delete_vhost", vhost)
