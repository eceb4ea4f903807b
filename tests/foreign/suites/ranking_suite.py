"""Messages whose priority is the value of an expression over what is in them (x-priority-expression).

RabbitMQ passes over the argument: there the cases are skipped.
"""

import json
import random

from proton import Message

from lab.cases import Skip, equal
from suites import proton_bench
from suites.queue_bench import BOTH, CLASSIC, Bench, QueueSuite, killable, refusal

suite = QueueSuite("ranking")
EXPRESSION = "body.p"
_are_there = []


def body(priority, number=0, size=0):
    return json.dumps({"p": priority, "n": number, "filler": "x" * size}).encode()


def order(bodies):
    """What a queue is to hand out: the highest first, each in the order in which they came."""
    return sorted(bodies, key=lambda text: -min(max(json.loads(text)["p"] or 0, 0), 255))


class Desk(Bench):
    def ranked(self, kind, expression=EXPRESSION, **arguments):
        return self.make(kind, x_priority_expression=expression, **arguments)

    def in_order(self, queue, bodies):
        self.becomes(queue, len(bodies))
        equal([json.loads(text) for text in self.bodies(queue, len(bodies))], [json.loads(text) for text in bodies])


def needs_ranking():
    if not _are_there:
        with Desk() as desk:
            _are_there.append(refusal(lambda: desk.ranked(CLASSIC, "body.p +")) is not None)
    # RabbitMQ may; a broker of ours that passes over the argument has lost it.
    assert _are_there[0] or not suite.options.broker, "x-priority-expression is passed over"
    if not _are_there[0]:
        raise Skip("it knows no expressions")


each = suite.each_at(Desk, needs_ranking)


@each("order", "x-priority-expression body.p, 200 messages of JSON with a priority of 0 to 255 each", "the highest first, each priority in "
      "the order in which they came")
def _(desk, kind):
    queue = desk.ranked(kind)
    dice = random.Random(7)
    bodies = [body(dice.choice((0, 1, 4, 5, 31, 32, 100, 254, 255)), number) for number in range(200)]
    desk.send(queue, *bodies)
    desk.in_order(queue, order(bodies))


@each("values", "values below 0, above 255, with a fraction, truth values, null, text, and bodies that are no JSON", "0, 255, toward zero, "
      "1 and 0, 0, 0, 0")
def _(desk, kind):
    queue = desk.ranked(kind)
    texts = [b'{"p":null}', b'{"p":2}', b'{"p":1.9}', b'{"p":-5}', b'{"p":256}', b'{"p":"9"}', b"no JSON", b"{}", b'{"p":255}',
             b'{"p":true}', b'{"p":1}', b'{"p":1e9}']
    desk.send(queue, *texts)
    expected = [b'{"p":256}', b'{"p":255}', b'{"p":1e9}', b'{"p":2}', b'{"p":1.9}', b'{"p":true}', b'{"p":1}', b'{"p":null}',
                b'{"p":-5}', b'{"p":"9"}', b"no JSON", b"{}"]
    equal(desk.bodies(queue, len(texts)), expected)


@each("own", "a priority of the publisher's", "of no effect; the message has it as it was given")
def _(desk, kind):
    queue = desk.ranked(kind)
    desk.send(queue, body(1), priority=9)
    desk.send(queue, body(2), priority=0)
    taken = desk.collected(queue, 2)
    equal([(json.loads(text)["p"], properties.priority) for _method, properties, text in taken], [(2, 0), (1, 9)])


@each("several", "one exchange with two queues of different expressions, and one without", "each in its own order")
def _(desk, kind):
    exchange = desk.exchange("fanout")
    queues = [desk.ranked(kind, "body.n"), desk.ranked(kind, "255 - body.n"), desk.make(kind)]
    for queue in queues:
        desk.channel.queue_bind(queue, exchange, "")
    desk.send("", *[body(0, number) for number in (5, 9, 7)], exchange=exchange)
    for queue, expected in zip(queues, ([9, 7, 5], [5, 7, 9], [5, 9, 7]), strict=True):
        equal([json.loads(text)["n"] for text in desk.bodies(queue, 3)], expected)


@each("case", "an expression of headers, routing key and body", "its value counts")
def _(desk, kind):
    queue = desk.ranked(kind, "CASE WHEN tier = 'gold' THEN 200 WHEN EXCHANGE() = '' AND body.p > 5 THEN 100 ELSE body.p END")
    desk.send(queue, body(3), body(9), body(4))
    desk.send(queue, body(0), headers={"tier": "gold"})
    equal([json.loads(text)["p"] for text in desk.bodies(queue, 4)], [0, 9, 4, 3])


@each("back", "messages that are given back", "first among those of their priority, behind higher ones")
def _(desk, kind):
    queue = desk.ranked(kind)
    desk.send(queue, body(5, 1), body(5, 2))
    held = desk.get(queue)
    desk.send(queue, body(6, 3))
    desk.channel.basic_nack(held[0].delivery_tag, requeue=True)
    desk.becomes(queue, 3)
    equal([json.loads(text)["n"] for text in desk.bodies(queue, 3)], [3, 1, 2])


@each("proton", "AMQP 1.0: messages with application properties and bodies of values", "ranked by either")
def _(desk, kind):
    queue = desk.ranked(kind, "GREATEST(COALESCE(urgency, 0), COALESCE(body.p, 0))")
    proton_bench.suite.uri = suite.uri
    connection = proton_bench.connect()
    sender = connection.create_sender(proton_bench.queue_address(queue))
    sender.send(Message(body={"p": 3, "n": 1}, durable=True))
    sender.send(Message(body={"n": 2}, properties={"urgency": 7}, durable=True))
    sender.send(Message(body=body(5, 3), inferred=True, durable=True))
    sender.close()
    receiver = proton_bench.Receiver(connection, queue, 3)
    taken = [receiver.receive() for _ in range(3)]
    numbers = [taken[0].body["n"], json.loads(proton_bench.body_of(taken[1]))["n"], taken[2].body["n"]]
    equal(numbers, [2, 3, 1])
    connection.close()


@each("dead-letters", "dead letters of another queue", "ranked as they come")
def _(desk, kind):
    queue = desk.ranked(kind)
    source = desk.make(kind, x_dead_letter_exchange="", x_dead_letter_routing_key=queue)
    bodies = [body(priority) for priority in (3, 200, 7)]
    desk.send(source, *bodies)
    for _body in bodies:
        desk.channel.basic_reject(desk.get(source)[0].delivery_tag, requeue=False)
    desk.in_order(queue, order(bodies))


@each("stream", "a queue that is filled from a stream, small messages and large ones", "the same order")
def _(desk, kind):
    stream = desk.queue(arguments={"x-queue-type": "stream"})
    bodies = [body(number * 37 % 256, number, 3000 if number % 2 else 0) for number in range(60)]
    desk.send(stream, *bodies)
    queue = desk.ranked(kind, x_source_stream=stream, x_source_offset="first")
    desk.in_order(queue, order(bodies))


@each("arguments", "no text, expressions with a fault, of the present or of a consumer, and beside x-max-priority or x-group-key",
      "406 with what is wrong")
def _(desk, kind):
    for value, why in ((5, ": {unacceptable_type,signedint}"), ("body.p > > 3", "at byte 9"), ("UTC()", "hangs on the message alone"),
                       ("DELIVERIES()", "DELIVERIES"), ("CLIENT_ID() = 'a'", "CLIENT_ID")):
        code, about, text = refused(desk, kind, {"x-priority-expression": value})
        equal((code, about, why in text), (406, "invalid arg 'x-priority-expression'", True), text)
    others = [("x-group-key", "of", "priority_expression_and_group_key")]
    others += [("x-max-priority", 9, "priority_expression_and_max_priority")] if kind == CLASSIC else []
    for name, value, why in others:
        equal(refused(desk, kind, {"x-priority-expression": "body.p", name: value}),
              (406, "invalid arg 'x-priority-expression'", f": {why}"))


def refused(desk, kind, arguments, queue="foreign.absent"):
    """The code of a refusal, what it is about, and why."""
    channel = desk.connection.channel()
    code, text = refusal(lambda: channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind, **arguments}))
    about, why = text.removeprefix("PRECONDITION_FAILED - ").split(f" for queue '{queue}' in vhost '{suite.uri.vhost}'")
    return code, about, why


@suite.case("streams", "a stream with x-priority-expression", "406, of queue type rabbit_stream_queue")
def _():
    needs_ranking()
    with Desk() as desk:
        equal(refused(desk, "stream", {"x-priority-expression": "body.p"}),
              (406, "invalid arg 'x-priority-expression'", " of queue type rabbit_stream_queue"))


@each("same", "declared again with another expression", "406, inequivalent arg")
def _(desk, kind):
    queue = desk.ranked(kind)
    equal(refused(desk, kind, {"x-priority-expression": "body.q"}, queue),
          (406, "inequivalent arg 'x-priority-expression'", ": received 'body.q' but current is 'body.p'"))
    desk.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind, "x-priority-expression": "body.p"})


@suite.each("killed", "the broker is killed, with messages held and others ready", "the same order", BOTH, seconds_max=60)
def _(kind):
    needs_ranking()
    with killable(suite) as kill:
        desk = Desk()
        queue = desk.ranked(kind)
        bodies = [body(number * 73 % 256, number) for number in range(100)]
        desk.send(queue, *bodies[:50])
        desk.hold(queue, 50)
        desk.send(queue, *bodies[50:])
        kill()
        desk = Desk()
        desk.becomes(queue, 100)
        desk.send(queue, body(255, 1000))
        desk.in_order(queue, order([*bodies, body(255, 1000)]))


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default="", help="a leveret to start"))
