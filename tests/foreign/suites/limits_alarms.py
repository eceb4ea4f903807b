"""Alarms: who is stopped, who goes on, and what is announced, over both protocols.

The limit of free disk is raised above what any disk has and lowered again with the broker's own tool.
"""

import contextlib
import os
import shlex
import subprocess
import threading
import time

import pika

from lab.cases import Skip, Uri, equal, eventually
from lab.wire10 import ATTACH, BEGIN, DISPOSITION, FLOW, TRANSFER, Described, Peer10, Uint, encode, performative
from suites.alarm_roads import ALL_OF_IT, NEXT_TO_NOTHING
from suites.limits_bench import Ctl, connect, started, suite

# RabbitMQ's tool takes seconds to start.
SECONDS_MAX = 180
ACCEPTED = 0x24
# By then a look has been had.
LOOK_SECONDS = 0.5
QUIET_SECONDS = 1.5


class Tool:
    """The tool of the running broker."""

    def __init__(self):
        self.uri = suite.uri

    def run(self, *words):
        command = [*shlex.split(suite.options.tool), *words]
        subprocess.run(command, check=True, timeout=SECONDS_MAX / 2, capture_output=True)


@contextlib.contextmanager
def alarming():
    """Where the broker is, and what raises and clears the alarm over its disk; cleared in the end."""
    if suite.options.tool:
        tool = Tool()
    elif suite.options.broker:
        tool = Ctl(started("memory_monitor_interval=100"))
    else:
        raise Skip("stops everybody's publishers: needs --broker, or --tool of a broker of one's own")
    tool.run("set_disk_free_limit", NEXT_TO_NOTHING)
    time.sleep(LOOK_SECONDS)
    try:
        yield tool.uri, lambda: tool.run("set_disk_free_limit", ALL_OF_IT), lambda: tool.run(
            "set_disk_free_limit", NEXT_TO_NOTHING)
    finally:
        tool.run("set_disk_free_limit", NEXT_TO_NOTHING)


def blocked_publisher(uri):
    """A connection with a queue and a channel, and what it hears of being blocked."""
    connection, heard = connect(uri), []
    connection.add_on_connection_blocked_callback(
        lambda _connection, frame: heard.append(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda _connection, _frame: heard.append("over"))
    channel = connection.channel()
    return connection, channel, channel.queue_declare("", exclusive=True).method.queue, heard


@suite.case("alarm.blocked", "publishing while the disk alarm is on",
            "connection.blocked `low on disk` to the publisher when it publishes, not before; others go on",
            seconds_max=SECONDS_MAX)
def _():
    with alarming() as (uri, alarm, _clear):
        (connection, channel, queue, heard), other = blocked_publisher(uri), connect(uri)
        alarm()
        connection.sleep(QUIET_SECONDS)
        equal(heard, [])
        channel.basic_publish("", queue, b"x")
        eventually(lambda: connection.process_data_events(0.1) or heard, "blocked")
        equal(heard, ["low on disk"])
        other.channel().queue_declare("", exclusive=True)
        other.close()


@suite.case("alarm.unblocked", "the disk alarm comes and goes while two connections publish, of which one consumes elsewhere too",
            "what is published meanwhile waits; who only consumes gets what was there; connection.unblocked, then all is taken",
            seconds_max=SECONDS_MAX)
def _():
    with alarming() as (uri, alarm, clear):
        connection, channel, queue, heard = blocked_publisher(uri)
        consumer = connect(uri)
        taken = []
        reading = consumer.channel()
        shared = reading.queue_declare("foreign.alarm", durable=True).method.queue
        reading.queue_purge(shared)
        channel.basic_publish("", shared, b"before")
        alarm()
        eventually(lambda: (channel.basic_publish("", shared, b"late"), connection.process_data_events(0.1)) and heard,
                   "blocked")
        count = reading.queue_declare(shared, passive=True).method.message_count
        channel.basic_publish("", shared, b"last")
        connection.sleep(0.5)
        equal(reading.queue_declare(shared, passive=True).method.message_count, count, "ready while blocked")
        reading.basic_consume(shared, lambda consuming, method, _properties, body: (
            taken.append(body), consuming.basic_ack(method.delivery_tag)))
        eventually(lambda: consumer.process_data_events(0.1) or len(taken) == count, "what was there")
        equal((taken[0], heard), (b"before", ["low on disk"]))
        clear()
        eventually(lambda: connection.process_data_events(0.1) or heard[1:], "unblocked")
        equal(heard, ["low on disk", "over"])
        eventually(lambda: consumer.process_data_events(0.1) or taken[-1] == b"last", "the rest")
        reading.queue_delete(shared)
        equal(queue != shared, True)
        for one in (connection, consumer):
            one.close()


def windows(peer, seconds_max=60.0):
    """The incoming-window the next flow of the session tells, which names no link."""
    peer.socket.settimeout(seconds_max)
    while True:
        _channel, value, _payload = peer.frame10()
        if value.code == FLOW and value.value[4] is None:
            return value.value[1]


def transfer(number):
    payload = encode(Described(0x75, b"%d" % number))
    return performative(TRANSFER, Uint(0), Uint(number), b"t", Uint(0), False, False, payload=payload)


@suite.case("10.alarm", "AMQP 1.0: the disk alarm comes and goes while a session publishes and consumes",
            "a flow with incoming-window 0; what is delivered and settled on the session goes on; another session begins with "
            "a window of 0 (ours: is told so when it attaches a sender); then a flow with a window, and messages are accepted", seconds_max=SECONDS_MAX)
def _():
    with alarming() as (uri, alarm, clear), Peer10(uri) as peer:
        owner = connect(uri)
        channel = owner.channel()
        queue = channel.queue_declare("foreign.alarm.10", durable=True).method.queue
        channel.queue_purge(queue)
        peer.login10()
        peer.session()
        peer.attach("sender", 0, False, f"/queues/{queue}")
        peer.expect10(ATTACH)
        peer.expect10(FLOW)
        peer.attach("receiver", 1, True, f"/queues/{queue}")
        peer.expect10(ATTACH)
        peer.send(transfer(0))
        equal(peer.expect10(DISPOSITION)[1][4].code, ACCEPTED)
        alarm()
        equal(windows(peer), 0)
        peer.send(performative(FLOW, Uint(0), Uint(100), Uint(1), Uint(100), Uint(1), Uint(0), Uint(5)))
        equal(peer.expect10(TRANSFER)[1][0] in (0, 1), True)
        peer.send(performative(DISPOSITION, True, Uint(0), None, True, Described(ACCEPTED, [])))
        eventually(lambda: channel.queue_declare(queue, passive=True).method.message_count == 0, "settled")
        peer.send(performative(BEGIN, None, Uint(0), Uint(9), Uint(9), channel=2))
        if peer.expect10(BEGIN)[1][2] > 0:
            peer.attach("another", 0, False, f"/queues/{queue}", channel=2)
            equal(windows(peer), 0)
        clear()
        equal(windows(peer) > 0, True)
        peer.send(transfer(1))
        while (value := peer.frame10()[1]).code != DISPOSITION:
            pass
        equal(value.value[4].code, ACCEPTED)
        channel.queue_delete(queue)
        owner.close()


@suite.case("alarm.announced", "the disk alarm comes and goes, told at amq.rabbitmq.event",
            "alarm.set and alarm.cleared with source `disk` and the node; nothing twice", seconds_max=SECONDS_MAX)
def _():
    with alarming() as (uri, alarm, clear):
        connection = connect(uri)
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "amq.rabbitmq.event", "alarm.*")
        heard = []

        def hear():
            method, properties, _body = channel.basic_get(queue, auto_ack=True)
            if method is not None:
                heard.append((method.routing_key, properties.headers["source"], "@" in properties.headers["node"]))
            return method is not None

        for act in (alarm, clear, alarm):
            act()
            eventually(hear, "announced")
        time.sleep(QUIET_SECONDS)
        equal(hear(), False)
        equal(heard, [("alarm.set", "disk", True), ("alarm.cleared", "disk", True), ("alarm.set", "disk", True)])
        connection.close()


@suite.case("alarm.memory", "vm_memory_high_watermark 0, and 0.9 again, by the tool",
            "connection.blocked `low on memory`, connection.unblocked", seconds_max=SECONDS_MAX)
def _():
    with alarming() as (uri, _alarm, _clear):
        tool = Tool() if suite.options.tool else Ctl(started("memory_monitor_interval=100"))
        connection, channel, queue, heard = blocked_publisher(uri)
        try:
            tool.run("set_vm_memory_high_watermark", "0")
            eventually(lambda: (channel.basic_publish("", queue, b"x"), connection.process_data_events(0.1)) and heard,
                       "blocked")
        finally:
            tool.run("set_vm_memory_high_watermark", "0.9")
        eventually(lambda: connection.process_data_events(0.1) or heard[1:], "unblocked")
        equal(heard, ["low on memory", "over"])
        connection.close()


@suite.case("alarm.at-once", "a limit of memory or disk changed by the tool, a publish right behind that; five times each",
            "what is published is held from then on; let go right behind the tool's answer as well", seconds_max=SECONDS_MAX)
def _():
    if suite.options.tool:
        tool = Tool()
    elif suite.options.broker:
        # No look comes of itself while this lasts.
        tool = Ctl(started("memory_monitor_interval=600000"))
    else:
        raise Skip("stops everybody's publishers: needs --broker, or --tool of a broker of one's own")
    connection, channel, _queue, heard = blocked_publisher(tool.uri)
    other = connect(tool.uri)
    looking = other.channel()
    looking.queue_declare("foreign.at-once")

    def count():
        return looking.queue_declare("foreign.at-once", passive=True).method.message_count

    limits = (("set_vm_memory_high_watermark", "0", "0.9"), ("set_disk_free_limit", ALL_OF_IT, NEXT_TO_NOTHING))
    try:
        for number in range(10):
            word, holds, lets_go = limits[number % 2]
            tool.run(word, holds)
            channel.basic_publish("", "foreign.at-once", b"held")
            eventually(lambda: connection.process_data_events(0.05) or len(heard) == 2 * number + 1, "blocked")
            equal(count(), number)
            tool.run(word, lets_go)
            eventually(lambda: connection.process_data_events(0.05) or len(heard) == 2 * number + 2, "unblocked")
            eventually(lambda: count() == number + 1, "let go")
    finally:
        for word, _holds, lets_go in limits:
            tool.run(word, lets_go)
    looking.queue_delete("foreign.at-once")
    connection.close()
    other.close()


@suite.case("alarm.full-disk", "publishing until the disk is full, and consuming then",
            "beyond RabbitMQ: what is settled makes room again; the publisher goes on, and every message arrives in order",
            seconds_max=SECONDS_MAX)
def _():
    uri = Uri(started("leveret.test_disk_bytes=120MiB", "leveret.journal_file_bytes=16MiB",
                      "disk_free_limit.absolute=1MB").uri)
    publisher, consumer = connect(uri), connect(uri)
    heard = []
    publisher.add_on_connection_blocked_callback(lambda *_: heard.append("blocked"))
    publisher.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
    channel, taking = publisher.channel(), consumer.channel()
    arguments = {"x-queue-type": "quorum"}
    queue = channel.queue_declare("foreign.full-disk", durable=True, arguments=arguments).method.queue
    persistent = pika.BasicProperties(delivery_mode=2)
    published = taken = 0
    wanted = threading.Event()
    is_over = threading.Event()

    def publish():
        """A publisher that is stopped in the middle of a message waits there: hence a thread of its own."""
        nonlocal published
        while not is_over.is_set():
            if wanted.is_set() and heard[-1:] != ["blocked"]:
                channel.basic_publish("", queue, b"%08d" % published + bytes(100_000), persistent)
                published += 1
                publisher.process_data_events(0)
            else:
                publisher.process_data_events(0.01)

    def take():
        nonlocal taken
        method, _, body = taking.basic_get(queue)
        if method:
            equal(int(body[:8]), taken)
            taken += 1
            taking.basic_ack(method.delivery_tag)
        return method

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    try:
        for turn in range(2):
            wanted.set()
            eventually(lambda: published >= (turn + 1) * 400 and stands(lambda: published), "blocked", 60, 0)
            wanted.clear()
            eventually(lambda: take() is None and taken == published and heard[-1:] != ["blocked"], "taken", 60, 0)
            equal(heard.count("blocked") > turn, True)
        wanted.set()
        eventually(lambda: take() and published >= taken + 10, "it goes on", 60, 0)
        wanted.clear()
        eventually(lambda: take() is None and taken == published, "all taken", 60, 0)
    finally:
        is_over.set()
        thread.join(SECONDS_MAX / 4)
    equal(thread.is_alive(), False)


def stands(count):
    """Whether it has not changed for as long as it takes to look at the disk twice."""
    before = count()
    time.sleep(2 * QUIET_SECONDS)
    return count() == before


@suite.case("memory.given-back", "200 MB of transient messages that come and are taken",
            "ours alone: the memory they took is the system's again, so that an alarm clears")
def _():
    broker = started()
    channel = connect(Uri(broker.uri)).channel()

    def resident():
        with open(f"/proc/{broker.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for _ in range(1000):
        channel.basic_publish("", queue, bytes(200_000))
    eventually(lambda: channel.queue_declare(queue, passive=True).method.message_count == 1000, "all there")
    held = resident() - before
    assert held > 200_000_000, f"{held} bytes for 200 MB: where are they?"
    while channel.basic_get(queue, auto_ack=True)[0]:
        pass
    eventually(lambda: resident() - before < held / 4, f"given back of {held} bytes", 10, 0.2)


@suite.case("memory.cleared", "180 MB of transient messages of 30 KB, twice what the memory limit allows, and taken then",
            "ours alone: they go to disk in time, and the alarm is never set")
def _():
    uri = Uri(started("vm_memory_high_watermark.absolute=100MB").uri)
    publisher, consumer = connect(uri), connect(uri)
    heard = []
    publisher.add_on_connection_blocked_callback(lambda *_: heard.append("blocked"))
    publisher.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
    channel, taking = publisher.channel(), consumer.channel()
    queue = channel.queue_declare("foreign.memory.cleared", durable=True).method.queue
    count = 6_000
    for number in range(count):
        body = number.to_bytes(4, "big") + bytes(30_000)
        channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=1))
        if number % 100 == 0:
            publisher.process_data_events(0)
    eventually(lambda: channel.queue_declare(queue, passive=True).method.message_count == count, "all there", 30)
    for number in range(count):
        method, _properties, body = taking.basic_get(queue, auto_ack=True)
        assert method, f"{number} is not there"
        equal((int.from_bytes(body[:4], "big"), len(body)), (number, 30_004))
    equal(taking.basic_get(queue, auto_ack=True)[0], None)
    publisher.process_data_events(QUIET_SECONDS)
    equal(heard, [])
