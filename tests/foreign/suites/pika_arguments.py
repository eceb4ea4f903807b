"""Arguments of queues that mean little or nothing any more, and where a queue is to live: what is taken, and what is refused."""

from lab.cases import equal
from suites.pika_bench import CLOSED, Desk, fresh, suite

LOCATORS = "invalid_queue_locator_arg"
DEPRECATED = "INTERNAL_ERROR - Feature `queue_master_locator` is deprecated.\nBy default, this feature is not permitted anymore."

# name, argument, value, type of the queue, what a refusal says; none: it is taken
ROWS = [
    ("mode", "x-queue-mode", "lazy", "classic", None),
    ("mode-number", "x-queue-mode", 5, "classic", None),
    ("mode-quorum", "x-queue-mode", "lazy", "quorum", " of queue type rabbit_quorum_queue"),
    ("version-1", "x-queue-version", 1, "classic", ": \"unsupported queue version '1'\""),
    ("version-2", "x-queue-version", 2, "classic", None),
    ("version-3", "x-queue-version", 3, "classic", ": \"unsupported queue version '3'\""),
    ("locator", "x-queue-leader-locator", "client-local", "classic", None),
    ("locator-unknown", "x-queue-leader-locator", "nope", "classic", f": {LOCATORS}"),
    ("locator-quorum", "x-queue-leader-locator", "balanced", "quorum", None),
    ("locator-unknown-quorum", "x-queue-leader-locator", "nope", "quorum", f": {LOCATORS}"),
    ("group-size", "x-quorum-initial-group-size", 1, "quorum", None),
    ("group-size-zero", "x-quorum-initial-group-size", 0, "quorum", ": {value_zero,0}"),
    ("group-size-classic", "x-quorum-initial-group-size", 1, "classic", " of queue type rabbit_classic_queue"),
]


def refusal(desk, queue, kind, argument, value):
    """Code and text of the close; none: the queue is there, and goes again."""
    try:
        desk.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind, argument: value})
    except CLOSED as closed:
        return closed.reply_code, closed.reply_text
    desk.channel.queue_delete(queue)
    return None


def add(name, argument, value, kind, why):
    answer = "taken" if why is None else f"channel closed: 406 `PRECONDITION_FAILED - invalid arg '{argument}' for queue ...{why}`"

    @suite.case(f"argument.{name}", f"declaring a {kind} queue with {argument} {value!r}", answer)
    def _():
        with Desk() as desk:
            queue = fresh("argument")
            text = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '{suite.uri.vhost}'{why}"
            equal(refusal(desk, queue, kind, argument, value), None if why is None else (406, text))


for row in ROWS:
    add(*row)


@suite.case("argument.master-locator", "declaring a classic queue with x-queue-master-locator",
            f"connection closed: 541 `{DEPRECATED.splitlines()[0]} ...`")
def _():
    with Desk() as desk:
        code, text = refusal(desk, fresh("argument"), "classic", "x-queue-master-locator", "min-masters") or (0, "")
        equal((code, text[:len(DEPRECATED)]), (541, DEPRECATED))
