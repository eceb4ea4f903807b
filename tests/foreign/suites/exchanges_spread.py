"""Exchanges that give each message to one of their queues: by a hash, or by lot.

Where a message goes was seen on RabbitMQ: hashing is the same, so that a queue's share stays where it was.
"""

from lab.cases import equal
from suites.exchanges_bench import Bench, closes, fresh, suite

KEYS = [f"key-{number}" for number in range(40)]
HASH = "x-consistent-hash"


@suite.case("hash.key", f"`{HASH}`: 40 routing keys over queues of weights 1, 2 and 3", "see the test: which key goes where")
def hash_key():
    with Bench() as desk:
        exchange = desk.exchange(HASH)
        queues = desk.lettered("abc")
        for (_letter, queue), weight in zip(sorted(queues.items()), "123"):
            desk.channel.queue_bind(queue, exchange, weight)
        equal(desk.spread(exchange, queues, KEYS), BY_KEY)


@suite.case("hash.gone", f"`{HASH}`: one of three queues is deleted", "its keys go to the others; see the test")
def hash_gone():
    with Bench() as desk:
        exchange = desk.exchange(HASH)
        queues = desk.bound(exchange, "abc", "2")
        equal(desk.spread(exchange, queues, KEYS), BEFORE)
        desk.channel.queue_delete(queues.pop("b"))
        equal(desk.spread(exchange, queues, KEYS), AFTER)


@suite.case("hash.unbound", f"`{HASH}`: a queue is unbound, and bound again", "it gets nothing; then the same as before, "
            "where it was the last")
def hash_unbound():
    with Bench() as desk:
        exchange = desk.exchange(HASH)
        queues = desk.bound(exchange, "abc", "2")
        before = desk.spread(exchange, queues, KEYS)
        desk.channel.queue_unbind(queues["c"], exchange, "2")
        equal("c" in desk.spread(exchange, queues, KEYS), False)
        desk.channel.queue_bind(queues["c"], exchange, "2")
        equal(desk.spread(exchange, queues, KEYS), before)


@suite.case("hash.nobody", f"`{HASH}` without bindings", "unroutable")
def hash_nobody():
    with Bench() as desk:
        equal(desk.send(desk.exchange(HASH), "k"), False)


@suite.case("hash.exchange", f"`{HASH}` bound to exchanges", "one of them gets each message")
def hash_exchange():
    with Bench() as desk:
        exchange = desk.exchange(HASH)
        queues = desk.lettered("ab")
        for queue in queues.values():
            middle = desk.exchange("fanout")
            desk.channel.exchange_bind(middle, exchange, "1")
            desk.channel.queue_bind(queue, middle)
        places = desk.spread(exchange, queues, KEYS).split()
        equal(sorted(set(places)), ["a", "b"])
        equal(len(places), len(KEYS))


def by(arguments, made, rows):
    """Publishes with the properties each row is, all with one routing key; which row goes where."""
    with Bench() as desk:
        exchange = desk.exchange(HASH, arguments=arguments)
        queues = desk.bound(exchange, "abcd", "1")
        for number, row in enumerate(rows):
            desk.send(exchange, "same", str(number).encode(), **made(row))
        desk.arrived(queues, len(rows))
        return " ".join(desk.where(queues, [str(number) for number in range(len(rows))]))


HEADERS = [f"value-{number}" for number in range(20)] + [1, 2, -3, 2**40, True, False, None, "", "é"]


@suite.case("hash.header", f"`{HASH}` with `hash-header`: texts, numbers, truth values, nothing", "see the test")
def hash_header():
    equal(by({"hash-header": "h"}, lambda value: {"headers": {"h": value}}, HEADERS), BY_HEADER)


@suite.case("hash.header-missing", f"`{HASH}` with `hash-header`, a message without that header or without any",
            "goes where all without it go")
def hash_header_missing():
    rows = [{}, {"headers": {"other": 1}}, {"headers": {"h": "x"}, "message_id": "m"}]
    equal(by({"hash-header": "h"}, lambda row: row, rows), MISSING)


for name in ("message_id", "correlation_id", "timestamp"):
    @suite.case(f"hash.property.{name}", f"`{HASH}` with `hash-property` `{name}`", "see the test: which value goes where")
    def hash_property(name=name):
        values = list(range(1, 2_000_000_000, 93_000_001)) if name == "timestamp" else KEYS[:20]
        rows = [{name: value} for value in values] + [{}]
        equal(by({"hash-property": name}, lambda row: row, rows), BY_PROPERTY[name])


def add_refused_declaration(name, arguments, text):
    @suite.case(f"hash.declare.{name}", f"declaring `{HASH}` with {arguments}",
                f"channel closed: 406 `PRECONDITION_FAILED - {text}`")
    def refuse():
        with Bench() as desk:
            closes(lambda: desk.channel.exchange_declare(fresh("absent"), HASH, arguments=arguments), text)


add_refused_declaration("both", {"hash-header": "h", "hash-property": "message_id"},
                        "hash-header and hash-property are mutually exclusive")
add_refused_declaration("property", {"hash-property": "app_id"}, "Unsupported property: app_id")


def add_refused_weight(name, weight, text):
    @suite.case(f"hash.weight.{name}", f"binding to `{HASH}` with the key `{weight}`",
                f"channel closed: 406 `PRECONDITION_FAILED - {text}`")
    def refuse():
        with Bench() as desk:
            exchange, queue = desk.exchange(HASH), desk.queue()
            closes(lambda: desk.channel.queue_bind(queue, exchange, weight), text)


add_refused_weight("empty", "", "The binding key must be an integer: <<>>")
add_refused_weight("text", "heavy", 'The binding key must be an integer: <<"heavy">>')
add_refused_weight("zero", "0", "The binding key must be greater than 0")
add_refused_weight("negative", "-1", "The binding key must be greater than 0")
add_refused_weight("large", "10001", "The binding key must not exceed 10000")


@suite.case("modulus.key", "`x-modulus-hash`: 40 routing keys over four queues, oldest first and by name alike",
            "see the test: which key goes where")
def modulus_key():
    with Bench() as desk:
        exchange = desk.exchange("x-modulus-hash")
        equal(desk.send(exchange, "k"), False)
        queues = desk.bound(exchange, "abcd")
        equal(desk.spread(exchange, queues, KEYS), BY_REMAINDER)


@suite.case("modulus.bound-twice", "`x-modulus-hash`: a queue bound by two keys", "it gets twice as much; see the test")
def modulus_twice():
    with Bench() as desk:
        exchange = desk.exchange("x-modulus-hash")
        queues = desk.bound(exchange, "ab")
        desk.channel.queue_bind(queues["b"], exchange, "again")
        equal(desk.spread(exchange, queues, KEYS), TWICE)


def by_lot(kind, count=200):
    with Bench() as desk:
        exchange = desk.exchange(kind)
        equal(desk.send(exchange, "k"), False)
        queues = desk.bound(exchange, "abcd")
        bodies = [f"{kind}-{number}" for number in range(count)]
        for body in bodies:
            equal(desk.send(exchange, "same", body.encode()), True)
        desk.arrived(queues, count)
        places = desk.where(queues, bodies)
        equal({len(place) for place in places}, {1}, "queues that have a message")
        shares = [places.count(letter) for letter in "abcd"]
        equal([20 <= share <= 90 for share in shares], [True] * 4, f"shares {shares}")


for kind in ("x-random", "x-local-random"):
    @suite.case(f"lot.{kind}", f"`{kind}`: 200 messages with one routing key over four queues",
                "each is in one queue; each queue has its share")
    def lot(kind=kind):
        by_lot(kind)


@suite.case("lot.local-key", "binding to `x-local-random` with a key",
            "channel closed: 406 `PRECONDITION_FAILED - Non empty binding 'k' key not permitted`")
def local_key():
    with Bench() as desk:
        exchange, queue = desk.exchange("x-local-random"), desk.queue()
        closes(lambda: desk.channel.queue_bind(queue, exchange, "k"), "Non empty binding 'k' key not permitted")


@suite.case("lot.random-key", "binding to `x-random` with keys", "the key plays no part; by a second one it is drawn "
            "twice as often")
def random_key():
    with Bench() as desk:
        exchange = desk.exchange("x-random")
        queues = desk.bound(exchange, "ab", "any")
        for number in range(6):
            desk.channel.queue_bind(queues["b"], exchange, str(number))
        for number in range(160):
            desk.send(exchange, "other", str(number).encode())
        desk.arrived(queues, 160)
        share = desk.count(queues["a"])
        equal(5 <= share <= 45, True, f"{share} of 160 where one in eight is to be expected")


@suite.case("spread.cc", "a message with CC keys to exchanges that hash", "one queue gets it; the first key decides "
            "(`x-consistent-hash`), or all together (`x-modulus-hash`)")
def spread_cc():
    for kind, expected in (("x-consistent-hash", CC_HASH), ("x-modulus-hash", CC_MODULUS)):
        with Bench() as desk:
            exchange = desk.exchange(kind)
            queues = desk.bound(exchange, "abcd", "1")
            rows = [("key-1", []), ("key-1", ["key-9"]), ("key-9", ["key-1"]), ("key-9", ["key-3", "key-4"]), ("key-5", [])]
            for number, (key, more) in enumerate(rows):
                desk.send(exchange, key, str(number).encode(), headers={"CC": more} if more else None)
            desk.arrived(queues, len(rows))
            equal(" ".join(desk.where(queues, [str(number) for number in range(len(rows))])), expected, kind)


BY_KEY = "c b c b c b c c c a a c a b b b c a c c b c c c a c c c c b c c a b b c c c a c"
BEFORE = "b a c a c a b c b a a c a b b b c a c c a c b c a c c c c a b c a a b c b b a c"
AFTER = "c a a a a a c c c a a c a c c c c a c a a a c c a c a c a a c c a a c c c c a a"
BY_HEADER = "b b a a c a b a a b d c c c b b d b a b d a b d a a b a b"
MISSING = "b b d"
BY_PROPERTY = {
    "message_id": "d b b b b b d d d a a c a c c c c a c b b",
    "correlation_id": "d b b b b b d d d a a c a c c c c a c b b",
    "timestamp": "c b c a a d a a a a c a b a b c c b a a a a b",
}
BY_REMAINDER = "b c d c c a a d a a c b c c b c c b b d d d a b a a c a d a a c c b b d a d b b"
TWICE = "b a b b b b b a b a b b b b a b a b a a b b b b b b a b b b a b b b a b b b b b"
CC_HASH = "b b a a b"
CC_MODULUS = "c d d b a"
