"""Delayed messages: through exchanges of type x-delayed-message, as RabbitMQ's archived plugin had them, and by the
annotation x-opt-delivery-time of AMQP 1.0. RabbitMQ 4.3 has neither, but for the annotation on what comes back
to a quorum queue (`delayed-retry.explicit`): against a broker without the exchange type the cases are skipped.
"""

import json
import os
import subprocess
import threading
import time

import pika
from proton import Delivery, Message, symbol, timestamp

from lab.cases import Skip, Uri, equal, eventually
from suites import proton_bench
from suites.pika_bench import Consumer, fresh
from suites.queue_bench import Bench, QueueSuite, needs_broker, refusal

suite = QueueSuite("delay")
TYPE = "x-delayed-message"
SHORT, LONG = 300, 60_000
LATE_SECONDS_MAX = 1.0  # on a machine that is doing much else; what is promised is 50 ms
DELIVERY_TIME = symbol("x-opt-delivery-time")


def needs_delays():
    with Bench() as desk:
        name = fresh("exchange")
        if refusal(lambda: desk.channel.exchange_declare(name, TYPE, arguments={"x-delayed-type": "direct"})):
            raise Skip("it knows no exchanges of type x-delayed-message")
        desk.channel.exchange_delete(name)


each = suite.each_at(Bench, needs_delays)


def delayed(desk, kind, of="direct", key="k", **options):
    """An exchange that delays, and a queue bound to it."""
    exchange, queue = fresh("exchange"), desk.make(kind, **options)
    arguments = {"x-delayed-type": of}
    desk.channel.exchange_declare(exchange, TYPE, auto_delete=True, arguments=arguments)
    desk.channel.queue_bind(queue, exchange, key)
    return exchange, queue


def send(desk, exchange, key, body, delay, **options):
    headers = {} if delay is None else {"x-delay": delay}
    return desk.send(key, body, exchange=exchange, headers=headers, **options)


def arrivals(desk, queue, count):
    """Bodies in the order in which they come, and when each came."""
    times = []
    consumer = Consumer(desk.channel, queue, auto_ack=True)
    for number in range(count):
        consumer.wait(number + 1)
        times.append(time.monotonic())
    return consumer.bodies, times


def now_ms():
    return int(time.time() * 1000)


@each("order", "messages with x-delay of 900, 300 and 600 ms and none",
      "delivered when each is due, in that order; the one without at once")
def _(desk, kind):
    exchange, queue = delayed(desk, kind)
    begin = time.monotonic()
    for body, delay in (b"900", 900), (b"300", 300), (b"600", 600), (b"none", None):
        equal(send(desk, exchange, "k", body, delay), [True])
    bodies, times = arrivals(desk, queue, 4)
    equal(bodies, [b"none", b"300", b"600", b"900"])
    for body, at in list(zip(bodies, times))[1:]:
        after = at - begin
        equal(int(body) / 1000 <= after <= int(body) / 1000 + LATE_SECONDS_MAX, True, f"{body} after {after}")


def load(uri, is_over):
    """Publishes large messages that lead nowhere until it is over."""
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    while not is_over.is_set():
        for _ in range(50):
            channel.basic_publish("amq.fanout", "", b"x" * 100_000)
    connection.close()


@each("never-early", "200 messages with x-delay 40, beside publishers of large messages",
      "each waits for 40 ms from when it was sent, or longer")
def _(desk, kind):
    exchange, queue = delayed(desk, kind)
    is_over = threading.Event()
    loads = [threading.Thread(target=load, args=(suite.options.uri, is_over)) for _ in range(3)]
    for thread in loads:
        thread.start()
    try:
        sent, came = [], {}
        consumer = desk.connection.channel()

        def note(_channel, _method, _properties, body):
            came[int(body)] = time.monotonic()
        consumer.basic_consume(queue, note, auto_ack=True)
        properties = pika.BasicProperties(headers={"x-delay": 40}, delivery_mode=2)
        for number in range(200):
            sent.append(time.monotonic())
            desk.channel.basic_publish(exchange, "k", b"%d" % number, properties)
            desk.connection.process_data_events(0.002)
        eventually(lambda: desk.connection.process_data_events(0.05) or len(came) == len(sent), "all of them")
    finally:
        is_over.set()
        for thread in loads:
            thread.join()
    early = [0.04 - (came[number] - at) for number, at in enumerate(sent) if came[number] - at < 0.04]
    equal(early, [], "seconds too early")


@each("order-unconsumed", "messages that come due while nobody consumes",
      "behind what was there before, in order of time, before what comes after")
def _(desk, kind):
    exchange, queue = delayed(desk, kind)
    send(desk, exchange, "k", b"2", 500)
    send(desk, exchange, "k", b"1", 250)
    desk.send(queue, b"before")
    equal(desk.count(queue), 1)
    desk.becomes(queue, 3)
    desk.send(queue, b"after")
    equal(desk.bodies(queue, 4), [b"before", b"1", b"2", b"after"])


@each("header", "the header x-delay of what was delayed, and of what was not",
      "negated, as a long integer; other headers and properties as they were sent")
def _(desk, kind):
    exchange, queue = delayed(desk, kind)
    desk.send("k", b"1", exchange=exchange, headers={"a": 1, "x-delay": SHORT, "b": "c"}, message_id="m")
    desk.becomes(queue, 1)
    _method, properties, _body = desk.get(queue)
    equal((properties.headers, properties.message_id), ({"a": 1, "x-delay": -SHORT, "b": "c"}, "m"))
    desk.send("k", b"1", exchange=exchange, headers={"x-delay": -5})
    equal(desk.get(queue)[1].headers, {"x-delay": -5})


@each("at-once", "x-delay of 0, below, below as an unsigned number, true, no number",
      "not delayed")
def _(desk, kind):
    exchange, queue = delayed(desk, kind)
    for number, delay in enumerate([0, -1, -LONG, str(2**64 - LONG), "soon", True]):
        send(desk, exchange, "k", b"x", delay)
        desk.becomes(queue, number + 1)


@each("far", "x-delay of 50 days, of ten years, of 2^62 ms and more, as numbers and as text",
      "none is delivered")
def _(desk, kind):
    exchange, queue = delayed(desk, kind)
    for delay in (2**32, 4_320_000_000, 315_360_000_000, 2**53, 2**62, 2**63 - 1, "15552000000", "9" * 30):
        send(desk, exchange, "k", b"x", delay)
    desk.stays(queue, 0)


@each("types", "x-delay as text, as a fraction, and as an integer of 64 bits", "taken as a number of milliseconds")
def _(desk, kind):
    exchange, queue = delayed(desk, kind)
    for delay in (str(LONG), 2**32 - 1):
        send(desk, exchange, "k", b"x", delay)
    desk.stays(queue, 0)


@each("elsewhere", "x-delay through an exchange of another type", "not delayed; the header stays")
def _(desk, kind):
    queue = desk.make(kind)
    send(desk, "", queue, b"1", LONG)
    equal(desk.get(queue)[1].headers, {"x-delay": LONG})


@each("routing", "x-delayed-type topic", "routed as that type does; what nothing is bound for is returned if mandatory")
def _(desk, kind):
    exchange, queue = delayed(desk, kind, of="topic", key="a.*")
    send(desk, exchange, "a.b", b"1", SHORT)
    send(desk, exchange, "b.b", b"2", SHORT)
    desk.becomes(queue, 1)
    desk.stays(queue, 1)
    channel = desk.connection.channel()
    channel.confirm_delivery()
    properties = pika.BasicProperties(headers={"x-delay": SHORT})
    try:
        channel.basic_publish(exchange, "c.d", b"3", properties, mandatory=True)
        raise AssertionError("not returned")
    except pika.exceptions.UnroutableError as returned:
        equal([message.body for message in returned.messages], [b"3"])


@each("exchange-to-exchange", "a fanout exchange that leads to a queue and through an exchange that delays",
      "the queue has the message at once, and the one behind the delay when it is due")
def _(desk, kind):
    exchange, later = delayed(desk, kind)
    at_once, first = desk.make(kind), fresh("exchange")
    desk.channel.exchange_declare(first, "fanout", auto_delete=True)
    desk.channel.exchange_bind(exchange, first)
    desk.channel.queue_bind(at_once, first)
    send(desk, first, "k", b"1", SHORT)
    equal(desk.count(at_once), 1)
    desk.becomes(later, 1)


@suite.case("declare", "declaring an exchange of type x-delayed-message",
            "without x-delayed-type, or with one that is no text, `x-delayed-message` or unknown: 406, the plugin's texts")
def _():
    needs_delays()
    rows = [
        ({}, "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": 5},
         "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": TYPE},
         "PRECONDITION_FAILED - Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'"),
        ({"x-delayed-type": "x-none"}, "PRECONDITION_FAILED - unknown exchange type 'x-none'"),
    ]
    for arguments, text in rows:
        with Bench() as desk:
            equal(refusal(lambda: desk.channel.exchange_declare(fresh("e"), TYPE, arguments=arguments)), (406, text))


@each("ttl", "a delayed message with an expiration, and one in a queue with x-message-ttl",
      "the time to live counts from when it is due")
def _(desk, kind):
    exchange, queue = delayed(desk, kind, x_message_ttl=LONG)
    send(desk, exchange, "k", b"1", 2 * SHORT, expiration=str(SHORT))
    desk.becomes(queue, 1)
    desk.becomes(queue, 0)


@each("limits", "x-max-length with drop-head and with reject-publish",
      "dropped: counts when it is due; refused: counts from the start")
def _(desk, kind):
    exchange, queue = delayed(desk, kind, x_max_length=1)
    send(desk, exchange, "k", b"1", SHORT)
    desk.send(queue, b"2")
    equal(desk.count(queue), 1)
    eventually(lambda: desk.count(queue) == 1, "one message")
    desk.later()
    exchange, queue = delayed(desk, kind, x_max_length=1, x_overflow="reject-publish")
    equal(send(desk, exchange, "k", b"1", LONG), [True])
    equal(desk.send(queue, b"2"), [False])


@each("purge", "a queue with delayed messages is purged", "they go, and are counted")
def _(desk, kind):
    exchange, queue = delayed(desk, kind)
    send(desk, exchange, "k", b"1", SHORT)
    desk.send(queue, b"2")
    equal(desk.channel.queue_purge(queue).method.message_count, 2)
    time.sleep(2 * SHORT / 1000)
    equal(desk.count(queue), 0)


@each("if-empty", "a queue with nothing but delayed messages is deleted if empty", "406: it is not empty")
def _(desk, kind):
    exchange, queue = delayed(desk, kind)
    send(desk, exchange, "k", b"1", LONG)
    equal(refusal(lambda: desk.channel.queue_delete(queue, if_empty=True))[0], 406)


@each("dead-letter", "a dead letter that goes through an exchange that delays, and was delayed before",
      "not delayed again: its header is negated")
def _(desk, kind):
    exchange, queue = delayed(desk, kind)
    dying = desk.make(kind, x_dead_letter_exchange=exchange, x_dead_letter_routing_key="k")
    desk.channel.queue_bind(dying, exchange, "dying")
    send(desk, exchange, "dying", b"1", SHORT)
    desk.becomes(dying, 1)
    desk.channel.basic_reject(desk.get(dying, auto_ack=False)[0].delivery_tag, requeue=False)
    desk.becomes(queue, 1)


# AMQP 1.0


def with_proton(function):
    def act(desk, kind):
        proton_bench.suite.uri = suite.uri
        with proton_bench.Bench() as bench:
            function(desk, bench, kind)
    return act


def message(body, annotations=None):
    return Message(body=body, durable=True, annotations=annotations)


@each("delivery-time", "AMQP 1.0: x-opt-delivery-time, a timestamp or a number of milliseconds, to a queue",
      "delivered then; the annotation as it was sent; one that is past: at once")
@with_proton
def _(desk, bench, kind):
    queue = desk.make(kind)
    sender = bench.sender(queue)
    begin = now_ms()
    for body, at in (b"late", timestamp(begin + 700)), (b"soon", begin + 400), (b"past", timestamp(begin - 1000)):
        sender.send(message(body, {DELIVERY_TIME: at}))
    equal(desk.count(queue), 1)
    receiver = bench.receiver(queue, credit=10)
    came = [(receiver.receive(), now_ms()) for _number in range(3)]
    equal([proton_bench.body_of(one) for one, _at in came], [b"past", b"soon", b"late"])
    for one, at in came:
        equal(at >= int(one.annotations[DELIVERY_TIME]), True, "too early")
    equal(came[2][1] <= begin + 700 + 1000 * LATE_SECONDS_MAX, True, "too late")


@each("modified", "AMQP 1.0: modified with x-opt-delivery-time in its annotations, delivery-failed or not",
      "comes back when it is due, not before; counted as a failed delivery where it is one")
@with_proton
def _(desk, bench, kind):
    queue = desk.make(kind)
    bench.send(queue, b"1", b"2")
    receiver = bench.receiver(queue, credit=10)
    receiver.receive(), receiver.receive()
    due = now_ms() + 600
    for failed in (True, False):
        delivery = receiver.unsettled.popleft()
        delivery.local.failed = failed
        delivery.local.annotations = {DELIVERY_TIME: timestamp(due)}
        delivery.update(Delivery.MODIFIED)
        delivery.settle()
    again = [receiver.receive() for _number in range(2)]
    equal(now_ms() >= due, True, "too early")
    equal([proton_bench.body_of(one) for one in again], [b"1", b"2"])
    equal([one.delivery_count for one in again], [1, 0])


# The command line, and restarts


def own_broker(act):
    needs_delays()
    broker = needs_broker(suite)
    broker.start()
    before, suite.uri = suite.uri, Uri(broker.uri)
    try:
        act(broker)
    finally:
        suite.uri = before
        broker.close()


def ctl(broker, *words):
    words = [broker.binary, "ctl", "--data-dir", os.path.join(broker.folder, "data"), *words]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


@suite.each("listed", "list_delayed_messages and cancel_delayed_message of the command line",
            "listed by time; cancelled ones never come; a queue that is not there: exit code 65")
def _(kind):
    def act(broker):
        with Bench() as desk:
            exchange, queue = delayed(desk, kind)
            begin = now_ms()
            for body, delay in (b"1", 2 * LONG), (b"2", LONG), (b"3", 2000):
                send(desk, exchange, "k", body, delay)
            listing = ctl(broker, "list_delayed_messages", queue, "--formatter", "json")
            rows = json.loads(listing.stdout)
            dues = [row["due_at"] - begin for row in rows]
            equal([round(due / 1000) for due in dues], [2, LONG // 1000, 2 * LONG // 1000])
            equal(ctl(broker, "cancel_delayed_message", queue, str(rows[0]["id"]), "999", "-q").stdout, "Cancelled 1\n")
            row = ctl(broker, "list_queues", "name", "messages_delayed", "--formatter", "json")
            equal([one["messages_delayed"] for one in json.loads(row.stdout) if one["name"] == queue], [2])
            time.sleep(2.5)
            equal(desk.count(queue), 0)
            equal(ctl(broker, "list_delayed_messages", "none-such").returncode, 65)
    own_broker(act)


@suite.each("killed", "the broker is killed (kill -9) while messages are delayed, twice, and comes back late",
            "none is lost; each comes when it is due, or at once where that was before")
def _(kind):
    def act(broker):
        desk = Bench()
        exchange, queue = fresh("exchange"), desk.make(kind)
        desk.channel.exchange_declare(exchange, TYPE, durable=True, arguments={"x-delayed-type": "direct"})
        desk.channel.queue_bind(queue, exchange, "k")
        expected = set()
        for round_number in range(3):
            begin = time.monotonic()
            for number in range(100):
                body, delay = b"%d:%d" % (round_number, number), 100 + number * 80
                equal(send(desk, exchange, "k", body, delay), [True])
                expected.add(body)
            if round_number < 2:
                broker.kill()
                broker.start()
                suite.uri = Uri(broker.uri)
                desk = Bench()
        with desk:
            bodies, _times = arrivals(desk, queue, 300)
            equal(set(bodies) == expected and len(bodies) == 300, True, "each once")
            equal(time.monotonic() - begin >= 8.0, True, "the last came early")
    own_broker(act)


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default=""))
