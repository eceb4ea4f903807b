"""Messages that come back to a quorum queue and wait before they are delivered again: x-delayed-retry-type, -min and
-max, and the policy keys of the same names.
"""

import time

from proton import Delivery, symbol, timestamp

from lab.cases import Uri, equal, eventually
from suites import policies_suite, proton_bench
from suites.delivery_limit_suite import WAYS, Trial, nack, reject
from suites.pika_bench import Consumer
from suites.queue_bench import QUORUM, Bench, QueueSuite, needs_broker, refusal

suite = QueueSuite("delayed-retry")
MIN = 700  # milliseconds
LATE_SECONDS_MAX = 1.5  # on a machine that is doing much else
DELIVERY_TIME = symbol("x-opt-delivery-time")
TYPES = ("all", "failed", "returned", "disabled")


def retrying(desk, kind="all", low=MIN, high=None, **arguments):
    """A queue that delays what comes back."""
    if high is not None:
        arguments["x_delayed_retry_max"] = high
    return desk.make(QUORUM, x_delayed_retry_type=kind, x_delayed_retry_min=low, **arguments)


def is_delayed(desk, queue):
    """The message that just came back is not ready, or is at once."""
    for _ in range(20):
        if desk.count(queue) == 1:
            return False
        time.sleep(0.02)
    return True


def delay_of(desk, queue, act):
    """How long after `act` began the one message of a queue is ready again, in milliseconds."""
    begin = time.monotonic()
    act(desk, queue)
    desk.becomes(queue, 1)
    return (time.monotonic() - begin) * 1000


def is_about(delay, expected):
    equal(expected - 20 <= delay <= expected + LATE_SECONDS_MAX * 1000, True, f"{delay:.0f} ms instead of {expected}")


def delays(of_type, fails):
    return of_type == "all" or of_type == ("failed" if fails else "returned")


def add_way(name, act, words, fails):
    delaying = [of_type for of_type in TYPES if delays(of_type, fails)]

    @suite.case(f"way.{name}", f"a message held, then {words}, in a queue of each x-delayed-retry-type",
                f"{' and '.join(delaying)}: not ready before x-delayed-retry-min is over; the others: at once")
    def _():
        with Bench() as desk:
            for of_type in TYPES:
                queue = retrying(desk, of_type, 60_000)
                desk.send(queue, b"1")
                act(desk, queue)
                equal(is_delayed(desk, queue), delays(of_type, fails), f"delayed by {of_type}")


for one_way in WAYS:
    add_way(*one_way)


@suite.case("back", "x-delayed-retry-type all and -min 700: a message is rejected with requeue",
            "ready again after 700 ms, with its counts")
def _():
    with Trial() as desk:
        queue = retrying(desk)
        desk.send(queue, b"1")
        is_about(delay_of(desk, queue, reject), MIN)
        equal(desk.counts(queue)[1], (1, 1))


@suite.case("backoff", "x-delayed-retry-min 400, -max 1000: a message fails four times",
            "400, 800, 1000, 1000 ms: the least, times the failures, up to the most")
def _():
    with Trial() as desk:
        queue = retrying(desk, "failed", 400, 1000)
        desk.send(queue, b"1")
        for expected in (400, 800, 1000, 1000):
            is_about(delay_of(desk, queue, reject), expected)


@suite.case("backoff.returned", "x-delayed-retry-min 400, -max 2000: a message is returned three times and fails twice",
            "400 ms each until it fails the second time: 800")
def _():
    with Trial() as desk:
        queue = retrying(desk, "all", 400, 2000)
        desk.send(queue, b"1")
        for act, expected in (nack, 400), (nack, 400), (nack, 400), (reject, 400), (reject, 800), (nack, 800):
            is_about(delay_of(desk, queue, act), expected)


@suite.case("backoff.default", "no x-delayed-retry-max: a message fails twice", "the least each time")
def _():
    with Trial() as desk:
        queue = retrying(desk, "all", 400)
        desk.send(queue, b"1")
        for _number in range(2):
            is_about(delay_of(desk, queue, reject), 400)


@suite.case("backoff.below", "x-delayed-retry-max below -min", "the most counts")
def _():
    with Trial() as desk:
        queue = retrying(desk, "all", 60_000, 400)
        desk.send(queue, b"1")
        is_about(delay_of(desk, queue, reject), 400)


@suite.case("arguments", "what x-delayed-retry-type, -min and -max may be; with and without one another",
            "declared all; delays only with a type it knows and a least delay that is an integer above 0")
def _():
    rows = [
        ({"type": "all"}, False),
        ({"min": 60_000}, False),
        ({"type": "some", "min": 60_000}, False),
        ({"type": 5, "min": 60_000}, False),
        ({"type": "", "min": 60_000}, False),
        ({"type": "all", "min": 0}, False),
        ({"type": "all", "min": -5}, False),
        ({"type": "all", "min": "60000"}, False),
        ({"type": "all", "min": 60_000, "max": 0}, True),
        ({"type": "all", "min": 60_000, "max": -1}, True),
        ({"type": "all", "min": 60_000, "max": "10"}, True),
        ({"type": "all", "min": 2**40}, True),
    ]
    with Bench() as desk:
        for arguments, expected in rows:
            queue = desk.make(QUORUM, **{f"x_delayed_retry_{name}": value for name, value in arguments.items()})
            desk.send(queue, b"1")
            reject(desk, queue)
            equal(is_delayed(desk, queue), expected, f"delayed by {arguments}")


@suite.case("classic", "x-delayed-retry-type, -min and -max for a classic queue", "406, as any argument of quorum queues")
def _():
    for name, value in ("type", "all"), ("min", 5), ("max", 5):
        with Bench() as desk:
            code, text = refusal(lambda: desk.make("classic", **{f"x_delayed_retry_{name}": value}))
            equal((code, f"x-delayed-retry-{name}" in text), (406, True), text)


@suite.case("equivalent", "a queue declared again with another type, least or most delay, or without",
            "406, naming the argument")
def _():
    for name, value in ("type", "failed"), ("min", MIN + 1), ("max", 9000), ("type", None), ("min", None), ("max", None):
        with Bench() as desk:
            queue = retrying(desk, high=5000)
            arguments = {"type": "all", "min": MIN, "max": 5000, name: value}
            arguments = {f"x-delayed-retry-{key}": one for key, one in arguments.items() if one is not None}
            again = {"x-queue-type": QUORUM, **arguments}
            code, text = refusal(lambda: desk.channel.queue_declare(queue, durable=True, arguments=again))
            equal((code, f"x-delayed-retry-{name}" in text), (406, True), text)


@suite.case("order", "five messages held, some rejected, later others, among them a message that never was out",
            "what waits holds up nobody; back in the order in which they are due, before what never was out")
def _():
    with Bench() as desk:
        queue = retrying(desk)
        desk.send(queue, b"1", b"2", b"3", b"4", b"5")
        tags = [desk.get(queue)[0].delivery_tag for _ in range(4)]
        desk.channel.basic_reject(tags[3])
        desk.channel.basic_reject(tags[1])
        time.sleep(0.2)
        desk.channel.basic_reject(tags[0])
        desk.channel.basic_reject(tags[2])
        time.sleep(0.1)
        equal(desk.count(queue), 1)
        consumer = Consumer(desk.channel, queue, auto_ack=True)
        consumer.wait(5)
        equal(consumer.bodies[0], b"5")
        equal((sorted(consumer.bodies[1:3]), sorted(consumer.bodies[3:])), ([b"2", b"4"], [b"1", b"3"]))


@suite.case("order.ready", "a message comes due while nobody consumes", "before what never was out")
def _():
    with Bench() as desk:
        queue = retrying(desk)
        desk.send(queue, b"1", b"2")
        reject(desk, queue)
        equal(is_delayed(desk, queue), False)  # the other one
        desk.send(queue, b"3")
        desk.becomes(queue, 3)
        equal(desk.bodies(queue, 3), [b"1", b"2", b"3"])


@suite.case("get", "basic.get of a queue where all waits", "empty")
def _():
    with Bench() as desk:
        queue = retrying(desk)
        desk.send(queue, b"1")
        reject(desk, queue)
        equal(desk.channel.basic_get(queue)[0], None)
        equal(desk.get(queue)[2], b"1")


@suite.case("limit", "x-delivery-limit 1: a message fails twice", "waits after the first; dead-lettered at once after the second")
def _():
    with Trial() as desk:
        queue = desk.limited(1, x_delayed_retry_type="all", x_delayed_retry_min=400, x_delayed_retry_max=60_000)
        desk.send(queue, b"1")
        is_about(delay_of(desk, queue, reject), 400)
        reject(desk, queue)
        _method, properties, body = desk.get(desk.dead)
        equal((body, properties.headers["x-first-death-reason"]), (b"1", "delivery_limit"))


@suite.case("reject", "basic.reject without requeue, in a queue of type all", "dead-lettered at once")
def _():
    with Trial() as desk:
        queue = desk.limited(None, x_delayed_retry_type="all", x_delayed_retry_min=60_000)
        desk.send(queue, b"1")
        desk.channel.basic_reject(desk.get(queue)[0].delivery_tag, requeue=False)
        equal(desk.get(desk.dead)[2], b"1")


@suite.case("ttl", "a message with expiration 300 comes back and waits for 700 ms",
            "lives until it is due; then it is expired and dead-lettered, not delivered")
def _():
    with Trial() as desk:
        queue = desk.limited(None, x_delayed_retry_type="all", x_delayed_retry_min=MIN)
        begin = time.monotonic()
        desk.send(queue, b"1", expiration="300")
        reject(desk, queue)
        consumer = Consumer(desk.channel, queue)
        time.sleep(0.45)
        equal(desk.count(desk.dead), 0)
        _method, properties, body = desk.get(desk.dead)
        equal((body, properties.headers["x-first-death-reason"]), (b"1", "expired"))
        is_about((time.monotonic() - begin) * 1000, MIN)
        equal(consumer.bodies, [])


@suite.case("purge", "a queue with a message that waits and one that is ready is purged", "both go and are counted")
def _():
    with Bench() as desk:
        queue = retrying(desk)
        desk.send(queue, b"1", b"2")
        reject(desk, queue)
        equal(desk.channel.queue_purge(queue).method.message_count, 2)
        time.sleep(2 * MIN / 1000)
        equal(desk.count(queue), 0)


@suite.case("length.drop", "x-max-length 2 with drop-head; one message waits; two more are published",
            "what waits counts: the first of the two goes")
def _():
    with Bench() as desk:
        queue = retrying(desk, x_max_length=2)
        desk.send(queue, b"1")
        reject(desk, queue)
        desk.send(queue, b"2", b"3")
        equal(desk.count(queue), 1)
        desk.becomes(queue, 2)
        equal(desk.bodies(queue, 2), [b"1", b"3"])


@suite.case("length.refuse", "x-max-length 1 with reject-publish; one message waits", "another one is refused")
def _():
    with Bench() as desk:
        queue = retrying(desk, x_max_length=1, x_overflow="reject-publish")
        desk.send(queue, b"1")
        reject(desk, queue)
        eventually(lambda: desk.send(queue, b"2") == [False], "refused")


@suite.case("bytes.drop", "x-max-length-bytes with drop-head; a message of half of that waits; two more are published",
            "what waits counts: the first of the two goes")
def _():
    with Bench() as desk:
        queue = retrying(desk, x_max_length_bytes=250)
        desk.send(queue, b"1" * 100)
        reject(desk, queue)
        desk.send(queue, b"2" * 100, b"3" * 100)
        desk.becomes(queue, 2)
        equal([body[:1] for body in desk.bodies(queue, 2)], [b"1", b"3"])


@suite.case("single-active", "x-single-active-consumer: a message of the active consumer waits, and that consumer goes",
            "the next one has the others at once and the one that waits when it is due")
def _():
    with Bench() as desk:
        queue = retrying(desk, x_single_active_consumer=True)
        channel = desk.connection.channel()
        first = Consumer(channel, queue)
        second = Consumer(desk.channel, queue, auto_ack=True)
        desk.send(queue, b"1")
        first.wait(1)
        begin = time.monotonic()
        channel.close()
        desk.send(queue, b"2")
        second.wait(1)
        equal(second.bodies, [b"2"])
        second.wait(2)
        is_about((time.monotonic() - begin) * 1000, MIN)
        equal(second.bodies, [b"2", b"1"])


def over_10(name, behaviour, answer):
    def register(function):
        @suite.case(name, behaviour, answer)
        def act():
            proton_bench.suite.uri = suite.uri
            with Trial() as desk, proton_bench.Bench() as bench:
                function(desk, bench)
    return register


@over_10("outcomes", "AMQP 1.0: released; modified, failed or not; a link detached, in a queue of each x-delayed-retry-type",
         "all: waits; failed: after modified with delivery-failed; returned: after the others")
def _(desk, bench):
    def modified(failed):
        def act(receiver):
            receiver.unsettled[0].local.failed = failed
            receiver.settle(Delivery.MODIFIED)
        return act

    ways = {"failed": (modified(True), True), "modified": (modified(False), False),
            "released": (lambda receiver: receiver.settle(Delivery.RELEASED), False),
            "detached": (lambda _receiver: None, False)}
    for of_type in TYPES:
        for name, (act, fails) in ways.items():
            queue = retrying(desk, of_type, 60_000)
            desk.send(queue, b"1")
            receiver = bench.receiver(queue, credit=1)
            receiver.receive()
            act(receiver)
            receiver.close()
            equal(is_delayed(desk, queue), delays(of_type, fails), f"{name} in a queue of {of_type}")


@over_10("explicit", "AMQP 1.0: modified with x-opt-delivery-time, later or sooner than the queue would say, or past",
         "then; one that is past is passed over")
def _(desk, bench):
    for at, expected in (1200, 1200), (300, 300), (-1000, 700):
        queue = retrying(desk)
        desk.send(queue, b"1")
        receiver = bench.receiver(queue, credit=2)
        receiver.receive()
        begin = time.time()
        delivery = receiver.unsettled.popleft()
        delivery.local.failed = True
        delivery.local.annotations = {DELIVERY_TIME: timestamp(int(begin * 1000) + at)}
        delivery.update(Delivery.MODIFIED)
        delivery.settle()
        receiver.receive()
        is_about((time.time() - begin) * 1000, expected)
        receiver.close()


def policed(name, behaviour, answer):
    """A case in a virtual host of its own, where policies are set."""
    def register(function):
        @suite.case(name, behaviour, answer)
        def act():
            policies_suite.suite.options, policies_suite.suite.uri = suite.options, suite.uri
            with policies_suite.Room() as room:
                function(room)
    return register


def fails(room, queue):
    """A message of this queue fails; how long it then waits, in milliseconds, None where it is more than a second or two."""
    room.fill(queue, 1)
    eventually(lambda: room.count(queue) == 1, "a message")
    begin = time.monotonic()
    room.channel.basic_reject(room.channel.basic_get(queue)[0].delivery_tag)
    while room.count(queue) == 0:
        if time.monotonic() > begin + 2:
            room.channel.queue_purge(queue)
            return None
        time.sleep(0.02)
    delay = (time.monotonic() - begin) * 1000
    room.channel.queue_purge(queue)
    return delay


def waits(room, queue, expected):
    """A message that fails in this queue waits so long; None: for longer than a second or two."""
    def as_expected():
        delay = fails(room, queue)
        if expected is None or delay is None:
            return delay is expected
        return expected - 20 <= delay <= expected + 400
    eventually(as_expected, f"a delay of {expected}", 30)


@policed("policy", "a policy with delayed-retry-type and -min, changed and cleared while messages wait",
         "counts at once for what comes back then; what waits keeps its time")
def _(room):
    queue = room.queue("q", QUORUM)
    waits(room, queue, 0)
    room.policy({"delayed-retry-type": "all", "delayed-retry-min": 600})
    waits(room, queue, 600)
    room.policy({"delayed-retry-type": "returned", "delayed-retry-min": 600})
    waits(room, queue, 0)
    room.policy({"delayed-retry-type": "all", "delayed-retry-min": 60_000})
    waits(room, queue, None)
    room.fill(queue, 1)
    room.channel.basic_reject(room.channel.basic_get(queue)[0].delivery_tag)
    room.clear()
    waits(room, room.queue("other", QUORUM), 0)
    equal(room.count(queue), 0)


@policed("policy.argument", "the type, the least and the most delay, by argument and by policy",
         "of types the policy's counts, of delays the lower one each; they go together wherever they come from")
def _(room):
    def declare(name, **arguments):
        return room.queue(name, QUORUM, **{f"x_delayed_retry_{key}": value for key, value in arguments.items()})

    room.policy({"delayed-retry-type": "failed", "delayed-retry-min": 700}, pattern="^a")
    waits(room, declare("a1", type="returned", min=60_000), 700)
    waits(room, declare("a2", type="disabled", min=350), 350)
    waits(room, declare("a3", max=350), 350)
    room.policy({"delayed-retry-type": "disabled"}, pattern="^b", name="b")
    waits(room, declare("b", type="all", min=60_000), 0)
    room.policy({"delayed-retry-min": 700}, pattern="^c", name="c")
    waits(room, declare("c1", type="all"), 700)
    waits(room, declare("c2"), 0)


@policed("policy.operator", "a policy and an operator policy with delayed-retry-type, -min and -max",
         "of types the operator's counts, of least delays the higher, of most delays the lower one")
def _(room):
    queue = room.queue("q", QUORUM)
    room.policy({"delayed-retry-type": "all", "delayed-retry-min": 60_000})
    room.operator_policy({"delayed-retry-type": "disabled"})
    waits(room, queue, 0)
    room.policy({"delayed-retry-type": "disabled", "delayed-retry-min": 300})
    room.operator_policy({"delayed-retry-type": "failed", "delayed-retry-min": 800})
    waits(room, queue, 800)
    room.policy({"delayed-retry-type": "all", "delayed-retry-min": 900, "delayed-retry-max": 1000})
    room.operator_policy({"delayed-retry-min": 500, "delayed-retry-max": 600})
    waits(room, queue, 600)


@suite.case("killed", "the broker is killed (kill -9) while messages wait", "each waits until its time; counts are kept")
def _():
    broker = needs_broker(suite)
    broker.start()
    before, suite.uri = suite.uri, Uri(broker.uri)
    try:
        desk = Bench()
        queue = retrying(desk, low=6000, high=30_000)
        desk.send(queue, b"1", b"2")
        begin = time.monotonic()
        desk.channel.basic_reject(desk.get(queue)[0].delivery_tag)
        # what is confirmed is on disk, and what was written before
        desk.send(queue, b"3")
        broker.kill()
        broker.start()
        suite.uri = Uri(broker.uri)
        with Trial() as desk:
            desk.becomes(queue, 2)
            desk.becomes(queue, 3)
            is_about((time.monotonic() - begin) * 1000, 6000)
            counted = {}
            for _number in range(3):
                _method, properties, body = desk.get(queue)
                counted[body] = (properties.headers or {}).get("x-delivery-count")
            equal(counted, {b"1": 1, b"2": None, b"3": None})
    finally:
        suite.uri = before
        broker.close()


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default="", help="a leveret to start"))
