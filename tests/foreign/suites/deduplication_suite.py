"""Deduplication: a message whose key came lately is confirmed and not in the queue.

RabbitMQ has it in a community plugin alone, and passes over the arguments without: there the cases are skipped. The
arguments and headers are named as the plugin's and LavinMQ's.
"""

import time

import pika
from proton import Message

from lab.cases import Skip, equal
from suites import proton_bench
from suites.pika_bench import Consumer
from suites.queue_bench import Bench, QueueSuite, killable, refusal

suite = QueueSuite("deduplication")
HEADER, TTL = "x-deduplication-header", "x-cache-ttl"
_is_there = []


class Desk(Bench):
    def window(self, kind, **arguments):
        return self.make(kind, x_message_deduplication=True, **arguments)

    def keyed(self, queue, *keys, **headers):
        """One message for each key, its body; answers whether each was confirmed."""
        return [self.send(queue, str(key).encode(), headers={HEADER: key, **headers})[0] for key in keys]


def needs_window():
    if not _is_there:
        with Desk() as desk:
            queue = desk.window("classic")
            desk.keyed(queue, "a", "a")
            desk.later()
            _is_there.append(desk.count(queue) == 1)
    if not _is_there[0]:
        raise Skip("it needs a plugin for it")


each = suite.each_at(Desk, needs_window)


@each("duplicate", "three messages with one x-deduplication-header", "all are confirmed, the first is in the queue")
def _(desk, kind):
    queue = desk.window(kind)
    equal(desk.keyed(queue, "a", "a", "a", "b"), [True] * 4)
    equal(desk.bodies(queue, 2), [b"a", b"b"])


@each("consumed", "a duplicate of a message that was consumed", "is one still")
def _(desk, kind):
    queue = desk.window(kind)
    desk.keyed(queue, "a")
    desk.bodies(queue, 1)
    desk.keyed(queue, "a")
    desk.stays(queue, 0)


@each("without", "messages without the header, and with an array as its value", "are all in the queue")
def _(desk, kind):
    queue = desk.window(kind)
    desk.send(queue, b"1", b"2")
    desk.send(queue, b"3", b"4", headers={HEADER: ["a"]})
    desk.stays(queue, 4)


@each("size", "x-cache-size 2 and three keys", "the first key is forgotten, the second is not")
def _(desk, kind):
    queue = desk.window(kind, x_cache_size=2)
    desk.keyed(queue, "a", "b", "c", "b", "a")
    equal(desk.bodies(queue, 4), [b"a", b"b", b"c", b"a"])


@each("size-default", "129 keys and the first again, without x-cache-size", "the 128 last are known")
def _(desk, kind):
    queue = desk.window(kind)
    desk.keyed(queue, *range(129))
    desk.keyed(queue, 0, 2, 128)
    desk.stays(queue, 130)


@each("ttl", "x-cache-ttl 500", "a key is forgotten when it has passed; a duplicate does not prolong it")
def _(desk, kind):
    queue = desk.window(kind, x_cache_ttl=500)
    desk.keyed(queue, "a")
    time.sleep(0.3)
    desk.keyed(queue, "a")
    equal(desk.count(queue), 1)
    time.sleep(0.3)
    desk.keyed(queue, "a")
    desk.stays(queue, 2)


@each("ttl-header", "the header x-cache-ttl of a message", "counts in place of the queue's")
def _(desk, kind):
    queue = desk.window(kind, x_cache_ttl=60_000)
    desk.keyed(queue, "a", **{TTL: 100})
    time.sleep(0.3)
    desk.keyed(queue, "a", "a")
    desk.stays(queue, 2)


@each("header-name", "a queue with x-deduplication-header `id`", "the header id counts")
def _(desk, kind):
    queue = desk.window(kind, x_deduplication_header="id")
    desk.keyed(queue, "a", "a")
    desk.send(queue, b"1", b"2", headers={"id": "a"})
    desk.stays(queue, 3)


@each("off", "x-message-deduplication false", "all are in the queue")
def _(desk, kind):
    queue = desk.make(kind, x_message_deduplication=False)
    desk.keyed(queue, "a", "a")
    desk.stays(queue, 2)


@each("fanout", "two queues, one of them with deduplication", "the other gets the duplicate")
def _(desk, kind):
    queue, other, exchange = desk.window(kind), desk.make(kind), desk.exchange("fanout")
    for one in (queue, other):
        desk.channel.queue_bind(one, exchange)
    desk.send("", b"1", b"2", exchange=exchange, headers={HEADER: "a"})
    desk.stays(other, 2)
    desk.stays(queue, 1)


@each("requeued", "a message that is requeued", "comes back")
def _(desk, kind):
    queue = desk.window(kind)
    desk.keyed(queue, "a")
    method, _properties, _body = desk.get(queue)
    desk.channel.basic_nack(method.delivery_tag)
    desk.stays(queue, 1)


@each("dead-letter", "a message that comes back as a dead letter", "is no duplicate of itself")
def _(desk, kind):
    queue = desk.window(kind, x_dead_letter_exchange="")
    desk.keyed(queue, "a")
    method, _properties, _body = desk.get(queue)
    desk.channel.basic_reject(method.delivery_tag, requeue=False)
    desk.stays(queue, 1)


@each("proton", "AMQP 1.0: the key as annotation and as application property, beside 0-9-1", "the same value is the same "
      "key; duplicates are accepted")
def _(desk, kind):
    queue = desk.window(kind)
    desk.keyed(queue, "a", "b")
    proton_bench.suite.uri = suite.uri
    connection = proton_bench.connect()
    sender = connection.create_sender(proton_bench.queue_address(queue))
    for body, options in (("1", {"annotations": {HEADER: "a"}}), ("2", {"properties": {HEADER: "b"}}),
                          ("3", {"properties": {HEADER: "c"}}), ("4", {"annotations": {HEADER: "c"}})):
        equal(proton_bench.outcome(sender.send(Message(body=body, durable=True, **options))), "accepted")
    connection.close()
    desk.stays(queue, 3)


@each("arguments", "x-message-deduplication `yes`, x-cache-size 0 and 1048577, x-cache-ttl 0, x-deduplication-header 5",
      "406 with what is wrong")
def _(desk, kind):
    for name, value, why in (
            ("x-message-deduplication", "yes", "{unacceptable_type,longstr}"), ("x-cache-size", 0, "{value_zero,0}"),
            ("x-cache-size", 1048577, "{value_too_large,1048577}"), ("x-cache-ttl", 0, "{value_zero,0}"),
            ("x-deduplication-header", 5, "{unacceptable_type,signedint}")):
        channel = desk.connection.channel()
        code, text = refusal(lambda: channel.queue_declare("foreign.absent", durable=True, arguments={  # noqa: B023
            "x-queue-type": kind, "x-message-deduplication": True, name: value}))  # noqa: B023
        equal((code, text.endswith(f": {why}")), (406, True), text)


@suite.each("killed", "20 times: the broker is killed while keys are published, and all are published again",
            "no key is there twice, and every key that was confirmed is there", seconds_max=120)
def _(kind):
    with killable(suite) as kill:
        desk = Desk()
        queue = desk.window(kind, x_cache_size=100_000)
        confirmed = set()
        for turn in range(20):
            channel = desk.connection.channel()
            keys = [f"{turn}.{number}" for number in range(30)]
            if turn % 2:
                channel.confirm_delivery()
            for key in keys:
                channel.basic_publish("", queue, key.encode(), pika.BasicProperties(
                    delivery_mode=2, headers={HEADER: key}))
                confirmed |= {key} if turn % 2 else set()
            kill()
            desk = Desk()
            desk.keyed(queue, *keys)
            confirmed |= set(keys)
        one = Consumer(desk.channel, queue)
        one.wait(len(confirmed))
        desk.later()
        found = [body.decode() for _method, _properties, body in one.deliveries]
        equal((len(found), set(found) == confirmed), (len(confirmed), True))


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default="", help="a leveret to start"))
