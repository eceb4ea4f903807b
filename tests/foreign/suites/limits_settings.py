"""Settings for connections, queues and virtual hosts that come later; and the right to write another's name."""

import contextlib
import time

import pika

from lab import wire
from lab.cases import Uri, equal, eventually
from lab.wire import Closed
from lab.wire10 import CLOSE, Peer10
from suites.limits_bench import Ctl, Given, Http, connect, made, refusal, started, suite

MAX_LENGTH, MAX_QUEUES = 2, 1
DEFAULT_LIMITS = ("default_limits.vhosts.1.pattern=^foreign-dev", f"default_limits.vhosts.1.max_queues={MAX_QUEUES}")
DEFAULT_POLICIES = ("default_policies.operator.cap.vhost_pattern=^foreign-cap", "default_policies.operator.cap.queue_pattern=^cap",
                    f"default_policies.operator.cap.max_length={MAX_LENGTH}")


def administrator(*settings):
    """Of a broker with these settings."""
    broker = started(*settings)
    return Http() if isinstance(broker, Given) else Ctl(broker)


@suite.case("setting.heartbeat", "heartbeat = 2: what is proposed, and a 1.0 peer that stays silent",
            "connection.tune says 2, open says idle-time-out 1000 ms; the peer is cut after 1 to 12 s (ours: told so by a close)")
def _():
    uri = Uri(started("heartbeat=2").uri)
    connection = connect(uri, heartbeat=None)
    equal(connection._impl.params.heartbeat, 2)
    connection.close()
    with Peer10(uri) as peer:
        equal(peer.login10()[4], 1000)
        begin = time.monotonic()
        with contextlib.suppress(Closed):
            while peer.frame10()[1].code != CLOSE:
                pass
        waited = time.monotonic() - begin
    equal(0.9 <= waited <= 12, True, f"cut after {waited:.1f} s")


@suite.case("setting.queue-type", "default_queue_type = quorum: a queue without a type in a virtual host made since",
            "is a quorum queue")
def _():
    admin, vhost = administrator("default_queue_type=quorum"), "foreign-typed"
    admin.add_vhost(vhost)
    try:
        connection = connect(admin.uri, vhost=vhost)
        connection.channel().queue_declare("q", durable=True)
        code, text = refusal(lambda: connection.channel().queue_declare(
            "q", durable=True, arguments={"x-queue-type": "classic"})) or (0, "")
        equal((code, "'x-queue-type'" in text and "'quorum'" in text), (406, True), text)
        connection.close()
    finally:
        admin.delete_vhost(vhost)


@suite.case("setting.vhost-limits", "default_limits.vhosts: a virtual host whose name matches, made since, and another",
            "has them from the beginning; has none")
def _():
    admin = administrator(*DEFAULT_LIMITS)
    for vhost, is_limited in (("foreign-dev-1", True), ("foreign-free", False)):
        admin.add_vhost(vhost)
        try:
            connection = connect(admin.uri, vhost=vhost)
            connection.channel().queue_declare("one", durable=True)
            seen = refusal(lambda: connection.channel().queue_declare("two", durable=True))
            text = f"PRECONDITION_FAILED - cannot declare queue 'two': queue limit in vhost '{vhost}' (1) is reached"
            equal(seen, (406, text) if is_limited else None)
            connection.close()
        finally:
            admin.delete_vhost(vhost)


@suite.case("setting.operator-policies", "default_policies.operator: queues in a virtual host whose name matches, made since",
            "those whose name matches are capped from the beginning")
def _():
    admin, vhost = administrator(*DEFAULT_POLICIES), "foreign-cap-1"
    admin.add_vhost(vhost)
    try:
        connection = connect(admin.uri, vhost=vhost)
        channel = connection.channel()
        channel.confirm_delivery()
        for queue, count in (("capped", MAX_LENGTH), ("other", 5)):
            channel.queue_declare(queue, durable=True)
            for _number in range(5):
                channel.basic_publish("", queue, b"x")
            eventually(lambda: channel.queue_declare(queue, passive=True).method.message_count == count, "capped")
        connection.close()
    finally:
        admin.delete_vhost(vhost)


@suite.case("setting.consumer-timeout", "consumer_timeout = 1000: a message of a quorum queue is held for longer, a classic queue's too",
            "basic.cancel to the quorum queue's consumer alone", seconds_max=60)
def _():
    with wire.Peer(Uri(started("consumer_timeout=1000").uri), seconds_max=3) as peer:
        peer.login()
        for channel, kind in ((1, "quorum"), (2, "classic")):
            queue = f"foreign.held.{kind}"
            peer.channel(channel)
            peer.send(wire.queue_declare(channel, queue, 0b10, {"x-queue-type": kind}))
            peer.expect(50, 11)
            peer.send(wire.method(channel, 50, 30, b"\0\0" + wire.short(queue) + b"\0"))
            peer.expect(50, 31)
            peer.send(wire.method(channel, 60, 20, b"\0\0" + wire.short(queue) + wire.short("tag") + b"\0" + wire.table({})))
            peer.expect(60, 21)
        peer.send(*[wire.publish(1, "", f"foreign.held.{kind}", b"x") for kind in ("quorum", "classic")])
        cancelled, deadline = [], time.monotonic() + 40
        with contextlib.suppress(TimeoutError):
            while not cancelled or time.monotonic() < deadline:
                channel, class_id, method_id, _arguments = peer.method()
                if (class_id, method_id) != (60, 60):
                    cancelled.append((channel, class_id, method_id))
        equal(cancelled, [(1, 60, 30)])
        # Without waiting for an answer: the other consumer is told first.
        for kind in ("quorum", "classic"):
            peer.send(wire.method(1, 50, 40, b"\0\0" + wire.short(f"foreign.held.{kind}") + b"\x04"))
        time.sleep(0.3)


@suite.case("user.impersonator", "publishing with the user-id of somebody else, without and with the tag impersonator",
            "channel closed: 406; confirmed, and the user-id is delivered")
def _():
    with made("user") as (admin, name):
        def publish():
            with connect(admin.uri, name, "secret") as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                queue = channel.queue_declare("", exclusive=True).method.queue
                channel.basic_publish("", queue, b"x", pika.BasicProperties(user_id="somebody"))
                return channel.basic_get(queue, auto_ack=True)[1].user_id

        text = f"PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated user was '{name}'"
        equal(refusal(publish), (406, text))
        admin.tag_user(name, "impersonator")
        equal(publish(), "somebody")
