"""Bounds on the work of routing one message, which RabbitMQ does not have."""

from lab.cases import Skip, Uri, equal
from lab.wire10 import is_ours
from suites.exchanges_bench import Bench, closes, refused, suite

STEPS_MAX = 1_048_576
PATTERNS = 250
KEY = ".".join(["a"] * 127)
TAKES = "it takes such bindings"


def ours(why="it routes such messages, however long that takes"):
    if not is_ours(Uri(suite.options.uri)):
        raise Skip(why)


def pattern(number):
    """Words that a key of letters `a` leads all through."""
    return "#." + ".".join("a" if number >> at % 8 & 1 else "*" for at in range(122)) + ".z"


def work(refuse, named):
    """A refused publish closes its channel, and the next one of its connection serves."""
    with Bench() as desk:
        exchange = named(desk)
        code, text = refused(lambda: refuse(desk, exchange)) or (0, "")
        end = f" steps (leveret.route_steps_max) in exchange '{exchange}' in vhost '/'"
        equal((code, f" takes more than {STEPS_MAX}{end}" in text), (406, True), text)
        equal(desk.connection.is_open, True)
        desk.sender = desk.connection.channel()
        desk.sender.confirm_delivery()


@suite.case("work.topic", f"a topic exchange with {PATTERNS} patterns of 124 words, and a key of 127 that leads through all",
            f"ours alone: channel closed: 406 `PRECONDITION_FAILED - routing by a key of 253 bytes takes more than {STEPS_MAX} "
            "steps ...`; the connection goes on; a key of few words is routed")
def work_topic():
    ours()

    def bound(desk):
        exchange, queue = desk.exchange("topic"), desk.lettered("a")["a"]
        for number in range(PATTERNS):
            desk.channel.queue_bind(queue, exchange, pattern(number))
        desk.channel.queue_bind(queue, exchange, "few.#")
        equal(desk.send(exchange, "few.words"), True)
        return exchange

    work(lambda desk, exchange: desk.send(exchange, KEY), bound)


@suite.case("work.headers", "a headers exchange with 1,100 bindings of 1,000 arguments each, of which none is there",
            "ours alone: the same 406")
def work_headers():
    ours()

    def bound(desk):
        exchange, queue = desk.exchange("headers"), desk.lettered("a")["a"]
        arguments = {"x-match": "any", **{f"h{at}": at for at in range(998)}}
        for number in range(1100):
            desk.channel.queue_bind(queue, exchange, "", {**arguments, "number": number})
        return exchange

    work(lambda desk, exchange: desk.send(exchange, headers={"other": 1}), bound)


@suite.case("work.words", "a topic pattern of 251 words", "ours alone: channel closed: 406 `PRECONDITION_FAILED - topic "
            "binding key with wildcards has 251 words: at most 250 are allowed (leveret.topic_words_max): ...`; one of 250 is "
            "taken, and any key without wildcards")
def work_words():
    ours(TAKES)
    with Bench() as desk:
        exchange, queue = desk.exchange("topic"), desk.lettered("a")["a"]
        for taken in ("*" + "." * 249, "." * 252):
            desk.channel.queue_bind(queue, exchange, taken)
        long = "*" + "." * 250
        closes(lambda: desk.channel.queue_bind(queue, exchange, long),
               "topic binding key with wildcards has 251 words: at most 250 are allowed (leveret.topic_words_max): "
               f"'{long}'"[:255 - 22 - 3] + "...")


@suite.case("work.arguments", "a binding with 1,025 arguments", "ours alone: channel closed: 406 `PRECONDITION_FAILED - "
            "binding with 1025 arguments: at most 1024 are allowed (leveret.arguments_max)`")
def work_arguments():
    ours(TAKES)
    with Bench() as desk:
        exchange, queue = desk.exchange("headers"), desk.lettered("a")["a"]
        arguments = {f"h{at}": at for at in range(1025)}
        closes(lambda: desk.channel.queue_bind(queue, exchange, "", arguments),
               "binding with 1025 arguments: at most 1024 are allowed (leveret.arguments_max)")
