"""Bindings with an expression, `x-filter`, over exchanges of every type: a message goes by them if it is true of it as well.

RabbitMQ knows no such argument: its headers exchange with `all-with-x` would take it for a header, all others pass it over.
"""

import json
import random
import re
import time

import pika
from proton import Message

from lab.broker import Broker
from lab.cases import Skip, Uri, equal, eventually
from suites import pika_bench, proton_bench
from suites.exchanges_bench import Bench, fresh, refused, suite
from suites.proton_management import Desk as Management

FILTER = "x-filter"
BAD = ("body.price > > 3", "at byte 13: a value expected")
JOBS = [
    {"kind": "video", "minutes": 30, "size": 2_000_000_000, "tags": ["hd", "long"]},
    {"kind": "video", "minutes": 1, "size": 5_000_000, "customer": {"email": "a@bank.example"}},
    {"kind": "thumbnail", "minutes": 0, "size": 100},
    {"kind": "render", "size": 3e9, "customer": {"email": "b@shop.example"}},
]
# By letter: an expression, and the jobs that pass it.
FILTERS = {
    "a": ("body.kind IN ('video', 'render') AND body.size > 1000000000", "03"),
    "b": ("body.kind = 'thumbnail' OR (body.kind = 'video' AND body.minutes <= 1)", "12"),
    "c": ("REGEXP_LIKE(body.customer.email, '@bank\\.')", "1"),
    "d": ("body.minutes IS NULL", "3"),
    "e": ("body.tags = 'hd' AND desk = 'blue'", "0"),
    "f": ("properties.content_type = 'application/json' AND header.priority > 4", "0123"),
}


def send_jobs(desk, exchange, key="k", **properties):
    """Publishes them; whether each was routed anywhere."""
    properties = {"content_type": "application/json", "priority": 5, "headers": {"desk": "blue"}, **properties}
    return [desk.send(exchange, key, json.dumps({**job, "number": at}).encode(), **properties) for at, job in enumerate(JOBS)]


def seen(desk, queue, count):
    """The numbers of the jobs in a queue, of which there are so many."""
    eventually(lambda: desk.count(queue) >= count, f"{count} in {queue}")
    desk.later()
    return "".join(sorted(str(json.loads(body)["number"]) for body in desk.drained(queue)))


@suite.case("content.kinds", "queues bound by six expressions over body, headers and properties: exchanges of types x-content, fanout, "
            "direct, topic, headers, x-recent-history, and through another exchange", "ours alone: each gets the messages of which its "
            "expression is true, where the exchange would send them there otherwise")
def kinds():
    with Bench() as desk:
        for kind, key, other, more in (
                ("x-content", "", None, {}), ("fanout", "", None, {}), ("x-recent-history", "", None, {}), ("direct", "k", "l", {}),
                ("topic", "#.k", "k.*", {}), ("headers", "", None, {"x-match": "all-with-x", "desk": "blue"}),
                ("headers", "", None, {"x-match": "any-with-x", "desk": "blue"})):
            exchange, queues = desk.exchange(kind), desk.lettered("abcdefxy")
            source = desk.exchange("fanout")
            desk.channel.exchange_bind(exchange, source, "", {FILTER: "body.kind <> 'render'"})
            for letter, (expression, _) in FILTERS.items():
                desk.channel.queue_bind(queues[letter], exchange, key, {FILTER: expression, **more})
            # One without, and one that the key or the headers do not lead to.
            desk.channel.queue_bind(queues["x"], exchange, key, more)
            if other or more:
                desk.channel.queue_bind(queues["y"], exchange, other or "", {FILTER: "body.kind = 'video'", **more, **({"desk": "red"} if more else {})})
            equal(send_jobs(desk, exchange), [True] * 4, kind)
            send_jobs(desk, source)
            for letter, expected in [*((letter, expected) for letter, (_, expected) in FILTERS.items()), ("x", "0123"), ("y", "")]:
                twice = "".join(sorted(expected + expected.replace("3", "")))
                equal(seen(desk, queues[letter], len(twice)), twice, f"{kind} {letter}")


@suite.case("content.one", "x-consistent-hash, x-modulus-hash, x-random: two queues, one of them bound by an expression",
            "ours alone: the exchange chooses one of both; a message that its queue does not want is unroutable")
def one():
    with Bench() as desk:
        for kind in ("x-consistent-hash", "x-modulus-hash", "x-random"):
            exchange, queues = desk.exchange(kind), desk.lettered("ab")
            desk.channel.queue_bind(queues["a"], exchange, "1")
            desk.channel.queue_bind(queues["b"], exchange, "1", {FILTER: "body.kind = 'video'"})
            routed = [all(send_jobs(desk, exchange, f"key-{at}", headers={"desk": str(at)})) for at in range(40)]
            assert True in routed and False in routed, f"{kind}: {routed}"
            eventually(lambda: desk.count(queues["b"]) > 0, "a message")
            bodies = [json.loads(body)["kind"] for body in desk.drained(queues["b"])]
            equal(set(bodies), {"video"}, kind)


@suite.case("content.delayed", "x-delayed-message bound by an expression, messages with a delay and without",
            "ours alone: each goes where it would at once, when its time has come")
def delayed():
    with Bench() as desk:
        exchange, queue = desk.exchange("x-delayed-message", arguments={"x-delayed-type": "direct"}), desk.queue()
        desk.channel.queue_bind(queue, exchange, "k", {FILTER: "body.kind = 'video'"})
        send_jobs(desk, exchange)
        send_jobs(desk, exchange, headers={"x-delay": 200})
        equal(seen(desk, queue, 4), "0011")


@suite.case("content.history", "a queue is bound to x-recent-history by an expression",
            "ours alone: it gets those of the remembered messages of which it is true")
def history():
    with Bench() as desk:
        exchange, queue, onward = desk.exchange("x-recent-history"), desk.queue(), desk.queue()
        send_jobs(desk, exchange)
        desk.channel.queue_bind(queue, exchange, "", {FILTER: "body.kind = 'video'"})
        equal(seen(desk, queue, 2), "01")
        # And through another exchange.
        second = desk.exchange("fanout")
        desk.channel.queue_bind(onward, second, "", {FILTER: "body.minutes > 1"})
        desk.channel.exchange_bind(second, exchange, "", {FILTER: "body.kind = 'video'"})
        equal(seen(desk, onward, 1), "0")


@suite.case("content.nowhere", "messages of which no expression is true: mandatory, and with an alternate exchange",
            "ours alone: returned; to the alternate exchange")
def nowhere():
    with Bench() as desk:
        rest, queue, other = desk.exchange("fanout"), desk.queue(), desk.queue()
        desk.channel.queue_bind(other, rest)
        for arguments, expected in ((None, [True, True, False, False]), ({"alternate-exchange": rest}, [True] * 4)):
            exchange = desk.exchange("direct", arguments=arguments)
            desk.channel.queue_bind(queue, exchange, "k", {FILTER: "body.kind = 'video'"})
            equal(send_jobs(desk, exchange), expected)
        equal((seen(desk, queue, 4), seen(desk, other, 2)), ("0011", "23"))


@suite.case("content.dead", "dead letters to an exchange with bindings by expressions over their bodies",
            "ours alone: each to its own")
def dead():
    with Bench() as desk:
        exchange, queues = desk.exchange("x-content"), desk.lettered("abc")
        for letter, expression in (("a", "body.kind = 'video'"), ("b", "body.kind <> 'video'"), ("c", "body.nothing")):
            desk.channel.queue_bind(queues[letter], exchange, "", {FILTER: expression})
        for kind in ("classic", "quorum"):
            queue = desk.queue(arguments={"x-queue-type": kind, "x-dead-letter-exchange": exchange, "x-message-ttl": 1})
            for at, job in enumerate(JOBS):
                desk.send("", queue, json.dumps({**job, "number": at}).encode())
        equal([seen(desk, queues[letter], count) for letter, count in (("a", 4), ("b", 4), ("c", 0))], ["0011", "2233", ""])


@suite.case("content.deaths", "messages of both protocols die in a queue whose dead letters come back to it until the fifth time, by bindings that "
            "ask for DEATHS(); one that a client says died",
            "ours alone: the first failures and the fifth ones are told apart, with `x-death` and x-opt-deaths that say so; a client's word "
            "counts for nothing")
def deaths():
    proton_bench.suite.uri = suite.uri
    with proton_bench.Bench() as bench:
        desk = bench.desk
        for kind, exchange_type in (("classic", "x-content"), ("quorum", "direct")):
            dead, first, fifth, never = desk.exchange(exchange_type), desk.queue(), desk.queue(), desk.queue()
            work = desk.queue(arguments={"x-queue-type": kind, "x-dead-letter-exchange": dead, "x-dead-letter-routing-key": "k"})
            for queue, expression in ((work, "DEATHS() < 5"), (first, "DEATHS() = 1"), (fifth, "DEATHS() >= 5"), (never, "DEATHS() = 0")):
                desk.channel.queue_bind(queue, dead, "k", {FILTER: expression})
            # Both come to the queue by its name.
            desk.channel.basic_publish("", work, b"0-9-1")
            bench.send(work, b"1.0", inferred=True)
            for _ in range(10):
                method, _properties, _body = desk.get(work)
                desk.channel.basic_reject(method.delivery_tag, requeue=False)
            eventually(lambda: desk.count(fifth) == 2, f"two that failed five times, {kind}")
            equal((desk.count(work), desk.count(first), desk.count(never)), (0, 2, 0), kind)
            counts = {body: properties.headers["x-death"][0]["count"] for _, properties, body in (desk.get(first, True), desk.get(first, True))}
            equal(counts, {b"0-9-1": 1, b"1.0": 1}, kind)
            receiver = bench.receiver(fifth, credit=2)
            messages = [receiver.receive(), receiver.receive()]
            counts = {proton_bench.body_of(message): dict(message.annotations["x-opt-deaths"].elements[0])["count"] for message in messages}
            equal(counts, {b"0-9-1": 5, b"1.0": 5}, kind)
            receiver.close()
            said = [{"count": 7, "reason": "rejected", "queue": work, "exchange": "", "routing-keys": [work]}]
            desk.channel.basic_publish(dead, "k", b"a client's word", pika.BasicProperties(headers={"x-death": said}))
            eventually(lambda: desk.count(never) == 1, f"one that never died, {kind}")


@suite.case("content.keys", "10,000 routing keys to exchanges of types topic and x-content, bound by a regular expression over ROUTING_KEY()",
            "ours alone: a queue gets the messages whose key Python's `re` finds the pattern in")
def keys():
    pattern, rng = r"^order\.(us|eu)\.", random.Random(20261129)
    words = ["order", "orders", "us", "eu", "usa", "eu ", "", "1", "\u00fc", "order\n"]
    sent = [".".join(rng.choice(words[:4] if rng.randrange(2) else words) for _ in range(rng.randrange(1, 6))) for _ in range(10_000)]
    expected = sorted(key for key in sent if re.search(pattern, key))
    assert 300 < len(expected) < 9_000, len(expected)
    with Bench() as desk:
        for kind, key in (("topic", "#"), ("x-content", "")):
            exchange, queue = desk.exchange(kind), desk.queue()
            desk.channel.queue_bind(queue, exchange, key, {FILTER: f"REGEXP_LIKE(ROUTING_KEY(), '{pattern}')"})
            for key in sent:
                desk.channel.basic_publish(exchange, key, key.encode())
            eventually(lambda: desk.count(queue) >= len(expected), f"{len(expected)} in {queue}")
            desk.later()
            equal(sorted(body.decode() for body in desk.drained(queue)), expected, kind)


@suite.case("content.10", "messages of AMQP 1.0 with bodies of JSON, maps and lists to an exchange whose bindings have expressions",
            "ours alone: to the queues whose expression is true; released where there is none")
def ten():
    proton_bench.suite.uri = suite.uri
    with proton_bench.Bench() as bench:
        desk, exchange = bench.desk, fresh("exchange")
        desk.channel.exchange_declare(exchange, "x-content", auto_delete=True)
        one, other = desk.queue(), desk.queue()
        desk.channel.queue_bind(one, exchange, "", {FILTER: "body.a.b = 5 AND properties.subject = 's'"})
        desk.channel.queue_bind(other, exchange, "", {FILTER: "body[0] = 7 OR region = 'eu'"})
        sender = bench.connection.create_sender(f"/exchanges/{exchange}")
        outcomes = []
        for body, more in (({"a": {"b": 5}}, {}), (b'{"a": {"b": 5}}', {"inferred": True}), ([7, 8], {}), ({"a": {"b": 6}}, {}),
                           ("text", {"properties": {"region": "eu"}}), ({"a": [{"b": 4}, {"b": 5}]}, {"properties": {"region": "eu"}})):
            delivery = sender.link.send(Message(body=body, subject="s", **more))
            bench.connection.wait(lambda: delivery.settled or delivery.remote_state, timeout=10)
            outcomes.append(proton_bench.OUTCOMES[delivery.remote_state])
        equal(outcomes, ["accepted"] * 3 + ["released"] + ["accepted"] * 2)
        eventually(lambda: (desk.count(one), desk.count(other)) == (3, 3), "three each")


@suite.case("content.refused", "bindings with an expression that cannot be read, or none: over 0-9-1 and over 1.0",
            "ours alone: 406 on the channel, 4xx, with the place of the fault")
def refused_everywhere():
    text = f"invalid arg '{FILTER}': {BAD[1]}"
    with Bench() as desk:
        queue = desk.queue()
        for kind in ("x-content", "direct", "x-random"):
            exchange = desk.exchange(kind)
            for value, expected in ((BAD[0], text), (5, f"invalid arg '{FILTER}': it is to be an expression")):
                channel = desk.connection.channel()
                equal(refused(lambda: channel.queue_bind(queue, exchange, "", {FILTER: value})), (406, f"PRECONDITION_FAILED - {expected}"))
                equal(desk.connection.is_open, True)
    proton_bench.suite.uri = suite.uri
    with Management() as desk:
        exchange, queue = desk.exchange({"type": "x-content"}), desk.queue()
        binding = {"source": exchange, "destination_queue": queue, "binding_key": "", "arguments": {FILTER: BAD[0]}}
        status, said = desk.ask("POST", "/bindings", binding)
        equal((status[0] == "4", BAD[1] in str(said)), (True, True), f"{status} {said}")
        binding["arguments"] = {FILTER: "body.a = 1"}
        equal(desk.ask("POST", "/bindings", binding)[0], "204")


@suite.case("content.many", "2,000 expressions on one exchange of type x-content, by equality, range, prefix and otherwise",
            "ours alone: each message is where a look at each expression by itself would send it")
def many():
    rng = random.Random(20261129)
    tests = [
        lambda n: (f"body.a = {n}", lambda m: m.get("a") == n),
        lambda n: (f"body.a > {n} AND body.b < 40", lambda m: "a" in m and "b" in m and m["a"] > n and m["b"] < 40),
        lambda n: (f"body.s LIKE 'x{n}%'", lambda m: "s" in m and m["s"].startswith(f"x{n}")),
        lambda n: (f"body.b BETWEEN {n} AND {n + 3}", lambda m: "b" in m and n <= m["b"] <= n + 3),
        lambda n: (f"body.s IN ('x{n}', 'x{n + 1}') OR body.a = {n}",
                   lambda m: m.get("s") in (f"x{n}", f"x{n + 1}") or m.get("a") == n),
        lambda n: (f"NOT (body.a = {n})", lambda m: "a" in m and m["a"] != n),
    ]
    with Bench() as desk:
        exchange, queues = desk.exchange("x-content"), desk.lettered([f"{at:02}" for at in range(50)])
        wanted = {letter: [] for letter in queues}
        for at in range(2000):
            letter = f"{at % 50:02}"
            # Mostly picky ones: the last of them would take nearly everything.
            test = tests[rng.randrange(5)] if at % 50 else tests[5]
            expression, is_wanted = test(rng.randrange(2000))
            desk.channel.queue_bind(queues[letter], exchange, "", {FILTER: expression})
            wanted[letter].append(is_wanted)
        messages = []
        for number in range(200):
            body = {"number": number}
            for name, value in (("a", rng.randrange(2000)), ("b", rng.randrange(60)), ("s", f"x{rng.randrange(2000)}")):
                if rng.randrange(4):
                    body[name] = value
            messages.append(body)
            desk.send(exchange, "", json.dumps(body).encode())
        for letter, queue in queues.items():
            expected = [m["number"] for m in messages if any(is_wanted(m) for is_wanted in wanted[letter])]
            eventually(lambda: desk.count(queue) >= len(expected), f"{len(expected)} in {queue}")
            equal(sorted(json.loads(body)["number"] for body in desk.drained(queue)), expected, letter)


@suite.case("content.restart", "bindings with expressions after a restart, and after kill -9",
            "ours alone: they are there and choose as before", seconds_max=60)
def restart():
    if not suite.options.broker:
        raise Skip("needs a broker that it may stop (--broker)")
    broker, own = Broker(suite.options.broker), suite.uri
    try:
        suite.uri = Uri(broker.start().uri)
        pika_bench.suite = suite
        with pika_bench.connect() as connection:
            channel = connection.channel()
            channel.exchange_declare("jobs", "x-content", durable=True)
            for queue, expression in (("gpu", FILTERS["a"][0]), ("cheap", FILTERS["b"][0])):
                channel.queue_declare(queue, durable=True)
                channel.queue_bind(queue, "jobs", "", {FILTER: expression})
        for number, end in enumerate((broker.stop, broker.kill)):
            end()
            broker.start()
            suite.uri = Uri(broker.uri)
            with Bench() as desk:
                send_jobs(desk, "jobs")
                equal((seen(desk, "gpu", 2), seen(desk, "cheap", 2)), ("03", "12"), f"{number}")
    finally:
        suite.uri = own
        broker.close()


@suite.case("content.steps", "300 bindings by regular expressions over a text of 60,000 characters; then a message that is short",
            "ours alone: channel closed: 406 `PRECONDITION_FAILED - routing by filters takes more than 1048576 steps ...`; the short one is routed")
def steps():
    with Bench() as desk:
        exchange, queue = desk.exchange("x-content"), desk.queue()
        for at in range(300):
            desk.channel.queue_bind(queue, exchange, "", {FILTER: f"REGEXP_LIKE(body.s, '(a|aa)+b{at}$')"})
        channel = desk.connection.channel()
        channel.confirm_delivery()
        began = time.monotonic()
        told = refused(lambda: channel.basic_publish(exchange, "", json.dumps({"s": "a" * 60_000}).encode()))
        equal((told[0], "steps" in told[1]), (406, True), told)
        assert time.monotonic() - began < 2, "it takes as long as one message may"
        equal(desk.send(exchange, "", json.dumps({"s": "aab7"}).encode()), True)
        eventually(lambda: desk.count(queue) == 1, "the short one")
