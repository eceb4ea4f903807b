"""Exchanges that remember: `x-recent-history` gives who is bound the last messages that came before."""

import pika

from lab.broker import Broker
from lab.cases import Skip, Uri, equal, eventually
from suites import pika_bench
from suites.exchanges_bench import Bench, closes, fresh, suite

KIND = "x-recent-history"
LENGTH = "x-recent-history-length"
NO_STORE = "x-recent-history-no-store"


def numbers(first, last):
    return [str(number).encode() for number in range(first, last + 1)]


def got(desk, queue, count):
    """So many bodies of a queue, and no more come."""
    eventually(lambda: desk.count(queue) >= count, f"{count} messages in {queue}")
    desk.later()
    return desk.drained(queue)


def fill(desk, exchange, bodies, **properties):
    for body in bodies:
        desk.send(exchange, "k", body, **properties)


@suite.case("history.length", f"`{KIND}`: 25 messages, then queues are bound", "a queue gets the last 20, in order; the "
            f"last 3 with `{LENGTH}` 3")
def history_length():
    with Bench() as desk:
        for arguments, first in ((None, 6), ({LENGTH: 3}, 23)):
            exchange = desk.exchange(KIND, arguments=arguments)
            fill(desk, exchange, numbers(1, 25))
            for kind in ("classic", "quorum"):
                queue = desk.queue(arguments={"x-queue-type": kind})
                desk.channel.queue_bind(queue, exchange)
                equal(got(desk, queue, 26 - first), numbers(first, 25), f"{arguments}, {kind}")


@suite.case("history.follow", f"`{KIND}`: what comes after the binding, whatever the keys", "each bound queue gets it once, "
            "behind what was remembered")
def history_follow():
    with Bench() as desk:
        exchange = desk.exchange(KIND)
        fill(desk, exchange, numbers(1, 2))
        one, other = desk.queue(), desk.queue()
        desk.channel.queue_bind(one, exchange, "a")
        desk.channel.queue_bind(other, exchange, "b")
        fill(desk, exchange, numbers(3, 4))
        equal(got(desk, one, 4), numbers(1, 4))
        equal(got(desk, other, 4), numbers(1, 4))


@suite.case("history.nobody", f"`{KIND}` without a binding", "unroutable, and remembered")
def history_nobody():
    with Bench() as desk:
        exchange, queue = desk.exchange(KIND), desk.queue()
        equal(desk.send(exchange, "k", b"1"), False)
        desk.channel.queue_bind(queue, exchange)
        equal(got(desk, queue, 1), [b"1"])


@suite.case("history.again", f"`{KIND}`: a queue is bound again, by another key, and after an unbind",
            "nothing by the same binding; all again by a new one")
def history_again():
    with Bench() as desk:
        exchange, queue = desk.exchange(KIND), desk.queue()
        fill(desk, exchange, numbers(1, 3))
        for key, expected in (("a", 3), ("a", 0), ("b", 3)):
            desk.channel.queue_bind(queue, exchange, key)
            equal(len(got(desk, queue, expected)), expected, key)
        desk.channel.queue_unbind(queue, exchange, "a")
        desk.channel.queue_bind(queue, exchange, "a")
        equal(got(desk, queue, 3), numbers(1, 3))


@suite.case("history.no-store", f"`{KIND}`: the header `{NO_STORE}`", "a message that says true is routed and not "
            "remembered; any other value is as none")
def history_no_store():
    with Bench() as desk:
        exchange, bound, late = desk.exchange(KIND), desk.queue(), desk.queue()
        desk.channel.queue_bind(bound, exchange)
        for value in (True, False, "true", 1, None):
            desk.send(exchange, "k", str(value).encode(), headers={NO_STORE: value})
        equal(len(got(desk, bound, 5)), 5)
        desk.channel.queue_bind(late, exchange)
        equal(got(desk, late, 4), [b"False", b"true", b"1", b"None"])


@suite.case("history.as-it-came", f"`{KIND}`: a remembered message", "exchange, routing key, properties and headers as it "
            "was published; not redelivered")
def history_as_it_came():
    with Bench() as desk:
        exchange, queue = desk.exchange(KIND), desk.queue()
        properties = {"content_type": "text/plain", "message_id": "m", "priority": 3, "headers": {"a": [1, "b"]},
                      "delivery_mode": 2, "reply_to": "r", "timestamp": 1_000_000}
        desk.send(exchange, "some.key", b"body", **properties)
        desk.channel.queue_bind(queue, exchange)
        method, seen, body = desk.get(queue, auto_ack=True)
        equal((method.exchange, method.routing_key, method.redelivered, body), (exchange, "some.key", False, b"body"))
        equal({name: getattr(seen, name) for name in properties}, properties)


@suite.case("history.ttl", f"`{KIND}`: a remembered message with an expiration", "it begins to live when it comes into the "
            "queue")
def history_ttl():
    with Bench() as desk:
        exchange, queue = desk.exchange(KIND), desk.queue()
        desk.send(exchange, "k", b"1", expiration="1000")
        desk.connection.sleep(1.3)
        desk.channel.queue_bind(queue, exchange)
        eventually(lambda: desk.count(queue) == 1, "the message")
        eventually(lambda: desk.count(queue) == 0, "its end", 5)


@suite.case("history.through", f"`{KIND}` bound to an exchange, and as the alternate of one", "what comes through it is "
            "remembered, under the exchange and the key it was published with")
def history_through():
    with Bench() as desk:
        exchange, queue = desk.exchange(KIND), desk.queue()
        source = desk.exchange("topic")
        lonely = desk.exchange("direct", arguments={"alternate-exchange": exchange})
        desk.channel.exchange_bind(exchange, source, "a.*")
        for name, key in ((source, "a.b"), (source, "b.b"), (lonely, "x")):
            desk.send(name, key, key.encode())
        desk.channel.queue_bind(queue, exchange)
        eventually(lambda: desk.count(queue) == 2, "two messages")
        found = [desk.get(queue, auto_ack=True)[0] for _ in range(2)]
        equal([(method.exchange, method.routing_key) for method in found], [(source, "a.b"), (lonely, "x")])


@suite.case("history.onward", f"an exchange is bound to `{KIND}`", "what is remembered goes through it, by its bindings")
def history_onward():
    with Bench() as desk:
        exchange, queue = desk.exchange(KIND), desk.queue()
        topic = desk.exchange("topic")
        desk.channel.queue_bind(queue, topic, "#")
        for key in ("a.1", "b.2"):
            desk.send(exchange, key, key.encode())
        desk.channel.exchange_bind(topic, exchange)
        equal(sorted(got(desk, queue, 2)), [b"a.1", b"b.2"])


@suite.case("history.dead", f"a queue's dead letters go to `{KIND}`", "they are remembered")
def history_dead():
    with Bench() as desk:
        exchange, late = desk.exchange(KIND), desk.queue()
        queue = desk.queue(arguments={"x-dead-letter-exchange": exchange, "x-message-ttl": 0})
        desk.send("", queue, b"dead")
        desk.connection.sleep(0.5)
        desk.channel.queue_bind(late, exchange)
        equal(got(desk, late, 1), [b"dead"])


@suite.case("history.transaction", f"`{KIND}`: messages of a transaction that is committed", "remembered")
def history_transaction():
    with Bench() as desk:
        exchange, queue = desk.exchange(KIND), desk.queue()
        channel = desk.connection.channel()
        channel.tx_select()
        channel.basic_publish(exchange, "k", b"1")
        channel.tx_commit()
        desk.channel.queue_bind(queue, exchange)
        equal(got(desk, queue, 1), [b"1"])


@suite.case("history.deleted", f"`{KIND}` is deleted and declared anew", "it remembers nothing")
def history_deleted():
    with Bench() as desk:
        exchange, queue = desk.exchange(KIND), desk.queue()
        fill(desk, exchange, numbers(1, 3))
        desk.channel.exchange_delete(exchange)
        desk.channel.exchange_declare(exchange, KIND, durable=True)
        desk.channel.queue_bind(queue, exchange)
        equal(got(desk, queue, 0), [])


@suite.case("history.redeclare", f"`{KIND}` declared again with another length", "declare-ok; the length stays")
def history_redeclare():
    with Bench() as desk:
        exchange, queue = desk.exchange(KIND, arguments={LENGTH: 2}), desk.queue()
        desk.channel.exchange_declare(exchange, KIND, durable=True, arguments={LENGTH: 5})
        desk.channel.exchange_declare(exchange, KIND, durable=True)
        fill(desk, exchange, numbers(1, 5))
        desk.channel.queue_bind(queue, exchange)
        equal(got(desk, queue, 2), numbers(4, 5))


for name, value, text in (("zero", 0, "0"), ("negative", -1, "-1"), ("text", "five", '<<"five">>'), ("bool", True, "true")):
    @suite.case(f"history.length.{name}", f"declaring `{KIND}` with `{LENGTH}` {value!r}",
                f"channel closed: 406 `PRECONDITION_FAILED - Invalid argument {text}, '{LENGTH}' must be a positive integer`")
    def history_refused(value=value, text=text):
        with Bench() as desk:
            closes(lambda: desk.channel.exchange_declare(fresh("absent"), KIND, arguments={LENGTH: value}),
                   f"Invalid argument {text}, '{LENGTH}' must be a positive integer")


@suite.case("history.restart", f"a durable `{KIND}` after a restart of the broker, and after kill -9",
            "it remembers what it did, transient messages too", seconds_max=60)
def history_restart():
    if not suite.options.broker:
        raise Skip("needs a broker that it may stop (--broker)")
    broker = Broker(suite.options.broker)
    own = suite.uri
    try:
        suite.uri = Uri(broker.start().uri)
        pika_bench.suite = suite
        with pika_bench.connect() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.exchange_declare("h", KIND, durable=True, arguments={LENGTH: 4})
            for body in numbers(1, 6):
                channel.basic_publish("h", "k", body, pika.BasicProperties(delivery_mode=1 + int(body) % 2))
        for number, end in enumerate((broker.stop, broker.kill)):
            if number:
                with pika_bench.connect() as connection:
                    connection.channel().basic_publish("h", "k", b"7")
                    connection.sleep(0.5)
            end()
            broker.start()
            suite.uri = Uri(broker.uri)
            with pika_bench.connect() as connection:
                channel = connection.channel()
                channel.queue_declare(f"q{number}", durable=True)
                channel.queue_bind(f"q{number}", "h")
                eventually(lambda: channel.queue_declare(f"q{number}", passive=True).method.message_count == 4, "four")
                bodies = [channel.basic_get(f"q{number}", auto_ack=True)[2] for _ in range(4)]
                equal(bodies, numbers(3 + number, 6 + number))
    finally:
        suite.uri = own
        broker.close()
