"""Queues, exchanges and bindings through pika, and where messages go."""

import pika

from lab.cases import equal, eventually
from suites.pika_bench import CLOSED, Consumer, Desk, connect, fresh, suite

PREDECLARED = [
    ("amq.direct", "direct"), ("amq.fanout", "fanout"), ("amq.topic", "topic"), ("amq.headers", "headers"),
    ("amq.match", "headers"),
]


def exists(desk, queue):
    channel = desk.connection.channel()
    try:
        channel.queue_declare(queue, passive=True)
        channel.close()
        return True
    except CLOSED as closed:
        equal(closed.reply_code, 404)
        return False


def exchange_exists(desk, exchange):
    channel = desk.connection.channel()
    try:
        channel.exchange_declare(exchange, passive=True)
        channel.close()
        return True
    except CLOSED as closed:
        equal(closed.reply_code, 404)
        return False


def declare_and_declare_again(**options):
    with Desk() as desk:
        queue = desk.queue(**options)
        desk.channel.basic_publish("", queue, b"x")
        eventually(lambda: desk.count(queue) == 1, "counted")
        again = desk.channel.queue_declare(queue, **{"durable": True, **options}).method
        equal((again.queue, again.message_count, again.consumer_count), (queue, 1, 0))


for name, options in [
    ("durable", {}),
    ("classic", {"arguments": {"x-queue-type": "classic"}}),
    ("quorum", {"arguments": {"x-queue-type": "quorum"}}),
    ("transient", {"durable": False}),
    ("exclusive", {"durable": False, "exclusive": True}),
    ("auto-delete", {"auto_delete": True}),
    ("unknown-argument", {"arguments": {"x-foreign": "kept"}}),
]:
    suite.add(f"queue.again-{name}", f"declaring the same queue again ({name})", "declare-ok with its counts",
              lambda options=options: declare_and_declare_again(**options))


@suite.case("queue.consumer-count", "passive declare tells messages and consumers", "counts")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, [b"1", b"2"])
        desk.get(queue)
        Consumer(desk.channel, queue)
        Consumer(desk.channel, queue)
        equal(desk.channel.queue_declare(queue, passive=True).method.consumer_count, 2)


@suite.case("queue.server-named", "an empty queue name", "the broker makes one, `amq.gen-...`; two differ")
def _():
    with Desk() as desk:
        names = {desk.channel.queue_declare("", exclusive=True).method.queue for _ in range(2)}
        equal((len(names), all(name.startswith("amq.gen-") for name in names)), (2, True))


@suite.case("queue.last-declared", "an empty queue name in bind, consume and get means the last declared queue",
            "used")
def _():
    with Desk() as desk:
        channel = desk.channel
        channel.queue_declare("", exclusive=True)
        key = fresh("key")
        channel.queue_bind("", "amq.direct", key)
        channel.basic_publish("amq.direct", key, b"x")
        equal(desk.get("")[2], b"x")
        consumer = Consumer(channel, "")
        channel.basic_publish("amq.direct", key, b"y")
        equal(consumer.wait(1)[0][2], b"y")


@suite.case("queue.exclusive-same-connection", "another channel of the owner uses its exclusive queue", "allowed")
def _():
    with Desk() as desk:
        queue = desk.queue(durable=False, exclusive=True)
        desk.fill(queue, [b"x"])
        other = desk.connection.channel()
        other.queue_declare(queue, exclusive=True)
        equal(other.basic_get(queue)[2], b"x")


@suite.case("queue.exclusive-publish", "another connection publishes to an exclusive queue", "allowed")
def _():
    with Desk() as desk, Desk() as other:
        queue = desk.queue(durable=False, exclusive=True)
        other.fill(queue, [b"x"])
        equal(desk.get(queue)[2], b"x")


@suite.case("queue.exclusive-gone", "an exclusive queue when its connection ends", "deleted")
def _():
    with Desk() as desk:
        other = connect()
        queue = fresh("exclusive")
        other.channel().queue_declare(queue, exclusive=True)
        other.close()
        eventually(lambda: not exists(desk, queue), "deleted")


def auto_deleted(leave):
    with Desk() as desk, Desk() as other:
        queue = fresh("auto")
        desk.channel.queue_declare(queue, durable=True, auto_delete=True)
        equal(exists(desk, queue), True, "there before the first consumer")
        first, second = Consumer(other.channel, queue), Consumer(desk.channel, queue)
        desk.channel.basic_cancel(second.tag)
        equal(exists(desk, queue), True, "there while a consumer is left")
        leave(other, first)
        eventually(lambda: not exists(desk, queue), "deleted")


for name, words, leave in [
    ("cancel", "cancelling the last consumer", lambda desk, consumer: desk.channel.basic_cancel(consumer.tag)),
    ("channel", "closing the last consumer's channel", lambda desk, _consumer: desk.channel.close()),
    ("connection", "closing the last consumer's connection", lambda desk, _consumer: desk.connection.close()),
]:
    suite.add(f"queue.auto-delete-{name}", f"{words} of an auto-delete queue", "deleted then, not before",
              lambda leave=leave: auto_deleted(leave))


@suite.case("queue.auto-delete-never-consumed", "an auto-delete queue that never had a consumer", "stays")
def _():
    with Desk() as desk:
        with connect() as other:
            queue = fresh("auto")
            other.channel().queue_declare(queue, durable=True, auto_delete=True)
        desk.later()
        equal(exists(desk, queue), True)
        desk.channel.queue_delete(queue)


@suite.case("queue.purge", "queue.purge", "the count of ready messages; unsettled ones stay")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.fill(queue, [b"1", b"2", b"3", b"4"])
        method = desk.get(queue)[0]
        equal(desk.channel.queue_purge(queue).method.message_count, 3)
        desk.channel.basic_nack(method.delivery_tag, requeue=True)
        equal(desk.get(queue)[2], b"1")


@suite.case("queue.delete-count", "queue.delete", "the count of its messages; gone at once")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.forget(queue)
        desk.fill(queue, [b"1", b"2"])
        equal(desk.channel.queue_delete(queue).method.message_count, 2)
        equal(exists(desk, queue), False)


@suite.case("queue.delete-conditions", "delete if-unused and if-empty when the condition holds", "delete-ok")
def _():
    with Desk() as desk:
        for options in ({"if_unused": True}, {"if_empty": True}):
            queue = desk.queue()
            desk.forget(queue)
            desk.channel.queue_delete(queue, **options)
            equal(exists(desk, queue), False)


@suite.case("queue.delete-unknown", "deleting an unknown queue", "delete-ok, 0 messages")
def _():
    with Desk() as desk:
        equal(desk.channel.queue_delete(fresh("absent")).method.message_count, 0)


@suite.case("queue.names", "names of 255 bytes, with spaces, slashes and UTF-8", "usable")
def _():
    with Desk() as desk:
        for name in ("q" * 255, "a b/c%d", "grün 鳥"):
            desk.channel.queue_declare(name, exclusive=True)
            desk.channel.basic_publish("", name, b"x")
            equal(desk.get(name)[0].routing_key, name)


@suite.case("exchange.predeclared", "the predeclared exchanges", "passive and equivalent declares are accepted")
def _():
    with Desk() as desk:
        for exchange, kind in PREDECLARED:
            desk.channel.exchange_declare(exchange, passive=True)
            desk.channel.exchange_declare(exchange, kind, durable=True)


@suite.case("exchange.delete-unknown", "deleting an unknown exchange", "delete-ok")
def _():
    with Desk() as desk:
        desk.channel.exchange_delete(fresh("absent"))


@suite.case("exchange.auto-delete", "an auto-delete exchange when its last binding goes", "deleted")
def _():
    with Desk() as desk:
        exchange = fresh("auto")
        queue = desk.queue()
        desk.channel.exchange_declare(exchange, "fanout", auto_delete=True)
        equal(exchange_exists(desk, exchange), True, "there before the first binding")
        desk.channel.queue_bind(queue, exchange, "a")
        desk.channel.queue_bind(queue, exchange, "b")
        desk.channel.queue_unbind(queue, exchange, "a")
        equal(exchange_exists(desk, exchange), True, "there while a binding is left")
        desk.channel.queue_unbind(queue, exchange, "b")
        equal(exchange_exists(desk, exchange), False, "there after its last binding")


@suite.case("route.default", "the default exchange", "routes to the queue named like the key")
def _():
    with Desk() as desk:
        queues = [desk.queue(), desk.queue()]
        desk.fill(queues[1], [b"x"])
        equal([desk.drained(queue) for queue in queues], [[], [b"x"]])


def routed(kind, bindings, publishes):
    """`bindings`: per queue, keys or argument tables; `publishes`: (key, headers, expected queues)."""
    with Desk() as desk:
        exchange = desk.exchange(kind)
        queues = []
        for binding in bindings:
            queue = desk.queue()
            queues.append(queue)
            for one in binding:
                key, arguments = ("", one) if isinstance(one, dict) else (one, None)
                desk.channel.queue_bind(queue, exchange, key, arguments)
        desk.channel.confirm_delivery()
        for number, (key, headers, _expected) in enumerate(publishes):
            desk.channel.basic_publish(exchange, key, b"%d" % number, pika.BasicProperties(headers=headers))
        for position, queue in enumerate(queues):
            expected = [b"%d" % number for number, row in enumerate(publishes) if position in row[2]]
            eventually(lambda: desk.count(queue) >= len(expected), "routed") if expected else None
            equal(desk.drained(queue), expected, f"queue of {bindings[position]}")


@suite.case("route.direct", "a direct exchange", "to every queue bound with the very key, once each")
def _():
    routed("direct", [["a"], ["a", "b"], ["b"], [""]], [
        ("a", None, {0, 1}), ("b", None, {1, 2}), ("", None, {3}), ("A", None, set()), ("a.b", None, set()),
    ])


@suite.case("route.fanout", "a fanout exchange", "to every bound queue, whatever the key, once each")
def _():
    routed("fanout", [["a"], ["b", "c"], [""]], [("a", None, {0, 1, 2}), ("zzz", None, {0, 1, 2})])


TOPIC_PATTERNS = [
    "a.b.c", "a.*.c", "a.#", "#.c", "#", "*", "a.#.c", "*.*", "", "#.b.#", "a.*", "*.b.*", "a..c", "*.#", "#.*",
]
TOPIC_KEYS = {
    "a.b.c": "a.b.c a.*.c a.# #.c # a.#.c #.b.# *.b.* *.# #.*",
    "a.c": "a.# #.c # a.#.c *.* a.* *.# #.*",
    "a": "a.# # * *.# #.*",
    "": "# <empty>",  # no word at all, not one empty word
    "b": "# * #.b.# *.# #.*",
    "a.b": "a.# # *.* #.b.# a.* *.# #.*",
    "a.b.b.c": "a.# #.c # a.#.c #.b.# *.# #.*",
    "a..c": "a.*.c a.# #.c # a.#.c a..c *.# #.*",
    "x.b.y": "# #.b.# *.b.* *.# #.*",
    ".": "# *.* *.# #.*",
    "A.b.c": "#.c # #.b.# *.b.* *.# #.*",
}


@suite.case("route.topic", "a topic exchange: `*` one word, `#` any number, words may be empty",
            f"{len(TOPIC_PATTERNS)} patterns against {len(TOPIC_KEYS)} keys")
def _():
    publishes = []
    for key, matching in TOPIC_KEYS.items():
        patterns = {"" if word == "<empty>" else word for word in matching.split()}
        publishes.append((key, None, {i for i, pattern in enumerate(TOPIC_PATTERNS) if pattern in patterns}))
    routed("topic", [[pattern] for pattern in TOPIC_PATTERNS], publishes)


HEADERS_BINDINGS = [
    {"x-match": "all", "a": 1, "b": "two"},
    {"x-match": "any", "a": 1, "b": "two"},
    {"a": 1},
    {"x-match": "all", "a": None},
    {"x-match": "all", "a": 1, "x-extra": "y"},
    {"x-match": "all-with-x", "a": 1, "x-extra": "y"},
    {"x-match": "any-with-x", "x-extra": "y"},
    {"x-match": "any", "x-extra": "y"},
    {"x-match": "all"},
    {"x-match": "any"},
]


@suite.case("route.headers", "a headers exchange: all, any, all-with-x, any-with-x, void for presence",
            f"{len(HEADERS_BINDINGS)} bindings against 8 messages")
def _():
    routed("headers", [[binding] for binding in HEADERS_BINDINGS], [
        ("", {"a": 1, "b": "two"}, {0, 1, 2, 3, 4, 8}),
        ("", {"a": 1}, {1, 2, 3, 4, 8}),
        ("", {"b": "two"}, {1, 8}),
        ("", {"a": 2}, {3, 8}),
        ("", {"a": "1"}, {3, 8}),
        ("", {"a": 1, "x-extra": "y"}, {1, 2, 3, 4, 5, 6, 8}),
        ("", {"x-extra": "y"}, {6, 8}),
        ("", None, {8}),
    ])


@suite.case("route.once", "several bindings of one queue match one message", "one copy")
def _():
    with Desk() as desk:
        queue = desk.queue()
        exchange = desk.exchange("topic")
        for pattern in ("a.*", "#", "a.b", "a.b"):
            desk.channel.queue_bind(queue, exchange, pattern)
        desk.channel.confirm_delivery()
        desk.channel.basic_publish(exchange, "a.b", b"x")
        equal(desk.get(queue, auto_ack=True)[2], b"x")
        desk.later()
        equal(desk.drained(queue), [])


@suite.case("bind.idempotent", "binding twice and unbinding once, or what was never bound", "unbound; unbind-ok")
def _():
    with Desk() as desk:
        queue, key = desk.queue(), fresh("key")
        desk.channel.queue_bind(queue, "amq.direct", key)
        desk.channel.queue_bind(queue, "amq.direct", key)
        desk.channel.queue_unbind(queue, "amq.direct", key)
        desk.channel.queue_unbind(queue, "amq.direct", key)
        desk.channel.queue_unbind(queue, fresh("absent"), key)
        desk.channel.queue_unbind(fresh("absent"), "amq.direct", key)
        desk.channel.confirm_delivery()
        desk.channel.basic_publish("amq.direct", key, b"x")
        equal(desk.count(queue), 0)


@suite.case("bind.arguments", "bindings that differ in arguments alone", "two bindings; each is unbound by itself")
def _():
    with Desk() as desk:
        queue, key = desk.queue(), fresh("key")
        for arguments in ({"n": 1}, {"n": 2}):
            desk.channel.queue_bind(queue, "amq.direct", key, arguments)
        desk.channel.queue_unbind(queue, "amq.direct", key, {"n": 1})
        desk.channel.confirm_delivery()
        desk.channel.basic_publish("amq.direct", key, b"x")
        equal(desk.get(queue)[2], b"x")


@suite.case("bind.gone-with-queue", "deleting a queue deletes its bindings", "unroutable afterwards")
def _():
    with Desk() as desk:
        queue, key = desk.queue(), fresh("key")
        desk.channel.queue_bind(queue, "amq.direct", key)
        desk.channel.queue_delete(queue)
        desk.channel.queue_declare(queue, durable=True)
        desk.channel.confirm_delivery()
        try:
            desk.channel.basic_publish("amq.direct", key, b"x", mandatory=True)
        except pika.exceptions.UnroutableError:
            return
        raise AssertionError("routed through a binding of a deleted queue")


@suite.case("bind.gone-with-exchange", "deleting an exchange deletes its bindings", "none after it is declared again")
def _():
    with Desk() as desk:
        queue, exchange = desk.queue(), desk.exchange("fanout")
        desk.channel.queue_bind(queue, exchange)
        desk.channel.exchange_delete(exchange)
        desk.channel.exchange_declare(exchange, "fanout", durable=True)
        desk.channel.confirm_delivery()
        desk.channel.basic_publish(exchange, "", b"x")
        equal(desk.count(queue), 0)


@suite.case("bind.exchange", "exchange.bind routes on to another exchange; unbind ends it",
            "each queue once, cycles included")
def _():
    with Desk() as desk:
        queue = desk.queue()
        first, second = desk.exchange("topic"), desk.exchange("fanout")
        desk.channel.exchange_bind(second, first, "a.#")
        desk.channel.exchange_bind(first, second, "#")
        desk.channel.queue_bind(queue, second)
        desk.channel.queue_bind(queue, first, "#")
        desk.channel.confirm_delivery()
        desk.channel.basic_publish(first, "a.b", b"1")
        equal(desk.get(queue, auto_ack=True)[2], b"1")
        desk.channel.queue_unbind(queue, first, "#")
        desk.channel.exchange_unbind(second, first, "a.#")
        desk.channel.basic_publish(first, "a.b", b"2")
        desk.later()
        equal(desk.drained(queue), [])


@suite.case("bind.exchange-self", "an exchange bound to itself", "each queue once")
def _():
    with Desk() as desk:
        queue, exchange = desk.queue(), desk.exchange("fanout")
        desk.channel.exchange_bind(exchange, exchange)
        desk.channel.queue_bind(queue, exchange)
        desk.fill(queue, [])
        desk.channel.confirm_delivery()
        desk.channel.basic_publish(exchange, "", b"x")
        equal(desk.get(queue, auto_ack=True)[2], b"x")
        equal(desk.drained(queue), [])


def is_there(desk, exchange):
    try:
        desk.connection.channel().exchange_declare(exchange, passive=True)
    except pika.exceptions.ChannelClosedByBroker as closed:
        equal(closed.reply_code, 404)
        return False
    return True


@suite.case("exchange.auto-delete-chain", "auto-delete exchanges bound in a row, when the last queue goes",
            "each goes with its last binding")
def _():
    with Desk() as desk:
        queue = desk.queue()
        chain = [desk.exchange("fanout", auto_delete=True) for _ in range(3)]
        for source, destination in zip(chain, chain[1:]):
            desk.channel.exchange_bind(destination, source)
        desk.channel.queue_bind(queue, chain[-1])
        desk.channel.basic_publish(chain[0], "", b"x")
        equal(desk.get(queue, auto_ack=True)[2], b"x")
        desk.channel.queue_delete(queue)
        equal([is_there(desk, exchange) for exchange in chain], [False, False, False])


@suite.case("exchange.auto-delete-destination", "deleting the only destination of an auto-delete exchange", "deleted")
def _():
    with Desk() as desk:
        source, destination = desk.exchange("fanout", auto_delete=True), desk.exchange("fanout")
        desk.channel.exchange_bind(destination, source)
        desk.channel.exchange_delete(destination)
        equal(is_there(desk, source), False)


@suite.case("exchange.delete-destination-if-unused", "exchange.delete if-unused of an exchange that others are bound to",
            "only bindings from it count")
def _():
    with Desk() as desk:
        source, destination = desk.exchange("fanout"), desk.exchange("fanout")
        desk.channel.exchange_bind(destination, source)
        desk.channel.exchange_delete(destination, if_unused=True)
        equal((is_there(desk, source), is_there(desk, destination)), (True, False))


@suite.case("route.alternate", "what an exchange routes nowhere goes to its alternate, which may be internal",
            "routed; the message keeps its exchange and key")
def _():
    with Desk() as desk:
        queue, other = desk.queue(), desk.queue()
        last = desk.exchange("fanout", internal=True)
        middle = desk.exchange("direct", arguments={"alternate-exchange": last})
        first = desk.exchange("direct", arguments={"alternate-exchange": middle})
        desk.channel.queue_bind(queue, last)
        desk.channel.queue_bind(other, first, "known")
        desk.channel.confirm_delivery()
        desk.channel.basic_publish(first, "unknown", b"x", mandatory=True)
        method, _properties, body = desk.get(queue, auto_ack=True)
        equal((method.exchange, method.routing_key, body), (first, "unknown", b"x"))
        desk.channel.basic_publish(first, "known", b"y", mandatory=True)
        equal((desk.get(other)[2], desk.drained(queue)), (b"y", []))


@suite.case("route.alternate-circle", "alternate exchanges in a circle, or one that is not there",
            "unroutable ends as unroutable: basic.return 312")
def _():
    with Desk() as desk:
        first, second = fresh("exchange"), fresh("exchange")
        for name, alternate in ((first, second), (second, first)):
            desk.channel.exchange_declare(name, "direct", durable=True, arguments={"alternate-exchange": alternate})
            desk._exchanges.append(name)
        lonely = desk.exchange("direct", arguments={"alternate-exchange": fresh("absent")})
        desk.channel.confirm_delivery()
        for exchange in (first, lonely):
            try:
                desk.channel.basic_publish(exchange, "k", b"x", mandatory=True)
            except pika.exceptions.UnroutableError:
                continue
            raise AssertionError(f"{exchange} routed")


def copies(headers, expected, kept):
    """Publishes to the first of three queues; `{n}` stands for the name of queue n."""
    def act():
        with Desk() as desk:
            queues = [desk.queue() for _ in range(3)]
            named = {name: [key.format(*queues) if isinstance(key, str) else key for key in keys]
                     for name, keys in headers.items()}
            desk.channel.confirm_delivery()
            desk.channel.basic_publish("", queues[0], b"x", pika.BasicProperties(headers=named, message_id="m"))
            for queue, count in zip(queues, expected):
                for _copy in range(count):
                    method, properties, _body = desk.get(queue, auto_ack=True)
                    equal((method.routing_key, properties.message_id), (queues[0], "m"))
                    equal(sorted(properties.headers), kept)
                equal(desk.drained(queue), [])

    return act


for name, words, headers, expected, kept in (
    ("cc", "a CC header", {"CC": ["{1}"], "x": []}, (1, 1, 0), ["CC", "x"]),
    ("bcc", "a BCC header", {"BCC": ["{1}", "{2}"], "x": []}, (1, 1, 1), ["x"]),
    ("cc-bcc", "both, and keys twice", {"CC": ["{1}", "{0}"], "BCC": ["{2}", "{1}"]}, (1, 1, 1), ["CC"]),
    ("cc-odd", "keys that are no text, or lead nowhere", {"CC": [5, "absent"]}, (1, 0, 0), ["CC"]),
    ("cc-case", "a header cc in small letters", {"cc": ["{1}"]}, (1, 0, 0), ["cc"]),
):
    suite.add(f"route.{name}", f"routing by {words}", "each queue once; BCC is not seen by anybody",
              copies(headers, expected, kept))


@suite.case("route.cc-exchanges", "CC keys through exchanges bound to each other and an alternate",
            "an exchange sees all keys at once")
def _():
    with Desk() as desk:
        queues = [desk.queue() for _ in range(3)]
        spare = desk.exchange("fanout")
        first = desk.exchange("topic", arguments={"alternate-exchange": spare})
        second = desk.exchange("direct")
        desk.channel.exchange_bind(second, first, "a.#")
        desk.channel.queue_bind(queues[0], second, "a.1")
        desk.channel.queue_bind(queues[1], second, "a.2")
        desk.channel.queue_bind(queues[2], spare)
        desk.channel.confirm_delivery()
        desk.channel.basic_publish(first, "none", b"x", pika.BasicProperties(headers={"CC": ["a.1", "a.2"]}))
        equal([desk.get(queue, auto_ack=True)[2] for queue in queues[:2]], [b"x", b"x"])
        equal(desk.drained(queues[2]), [])


@suite.case("bind.internal", "an internal exchange reached through a binding", "routes")
def _():
    with Desk() as desk:
        queue = desk.queue()
        outer, inner = desk.exchange("fanout"), desk.exchange("fanout", internal=True)
        desk.channel.exchange_bind(inner, outer)
        desk.channel.queue_bind(queue, inner)
        desk.channel.basic_publish(outer, "", b"x")
        equal(desk.get(queue)[2], b"x")
