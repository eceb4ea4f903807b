"""Rights of a sender, through qpid-proton: annotations, further routing keys, internal exchanges; and ends of links."""

from proton import UNDESCRIBED, Array, Data, Endpoint, Message, Terminus, int32, symbol, uint, ulong
from proton.reactor import LinkOption

from lab.cases import equal, eventually
from suites.pika_bench import fresh
from suites.proton_bench import Bench, LinkDetached, outcome, suite

INTERNAL = "forbidden to publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'"


class Option(LinkOption):
    def __init__(self, change):
        self.change = change

    def apply(self, link):
        self.change(link)


def sent(sender, message):
    """The outcome of a message, or what ended with its condition and description."""
    link, delivery = sender.link, sender.link.send(message)
    ends = (("link", link), ("session", link.session))

    def ended():
        return [(name, end.remote_condition) for name, end in ends if end.state & Endpoint.REMOTE_CLOSED]
    try:
        sender.connection.wait(lambda: delivery.settled or ended(), timeout=5)
    except LinkDetached as detached:
        return "link", detached.condition, link.remote_condition.description
    if delivery.settled:
        return outcome(delivery)
    name, condition = ended()[0]
    return name, condition.name, condition.description


def add_annotation(name, key, refused):
    answer = f"link detached: `amqp:decode-error` `{refused}`" if refused else "accepted, and delivered with it"

    @suite.case(f"annotation.{name}", f"a message annotation with the key {key!r}", answer)
    def _():
        with Bench() as bench:
            queue = bench.queue()
            result = sent(bench.sender(queue), Message(body="x", annotations={key: "value"}))
            if refused:
                equal(result, ("link", "amqp:decode-error", f"failed to parse message: {refused}"))
                return
            equal(result, "accepted")
            equal(bench.receiver(queue, 1).receive().annotations[key], "value")


add_annotation("x", symbol("x-some"), None)
add_annotation("x-opt", symbol("x-opt-some"), None)
add_annotation("other", symbol("some"), '{reserved_annotation_key,{symbol,<<"some">>}}')
add_annotation("number", ulong(5), "{reserved_annotation_key,{ulong,5}}")


@suite.case("annotation.own", "annotations x-exchange and x-routing-key from a sender", "replaced by where it went")
def _():
    with Bench() as bench:
        queue = bench.queue()
        annotations = {symbol("x-exchange"): "mine", symbol("x-routing-key"): "mine"}
        equal(sent(bench.sender(queue), Message(body="x", annotations=annotations)), "accepted")
        got = bench.receiver(queue, 1).receive().annotations
        equal((got["x-exchange"], got["x-routing-key"]), ("", queue))


@suite.case("cc.routed", "the annotation x-cc with the keys of two queues, and a key of no queue",
            "accepted; one message in each; x-cc is delivered")
def _():
    with Bench() as bench:
        queues = [bench.queue(), bench.queue()]
        for queue in queues:
            bench.desk.channel.queue_bind(queue, "amq.direct", f"{queue}-key")
        keys = [f"{queue}-key" for queue in queues]
        sender = bench.sender(address=f"/exchanges/amq.direct/{fresh('none')}")
        equal(sent(sender, Message(body="x", annotations={symbol("x-cc"): keys})), "accepted")
        eventually(lambda: [bench.desk.count(queue) for queue in queues] == [1, 1], "routed")
        equal(list(bench.receiver(queues[0], 1).receive().annotations["x-cc"]), keys)


@suite.case("cc.twice", "x-cc names the address's own queue as well", "one message")
def _():
    with Bench() as bench:
        queue = bench.queue()
        for key in ("a", "b"):
            bench.desk.channel.queue_bind(queue, "amq.direct", queue + key)
        sender = bench.sender(address=f"/exchanges/amq.direct/{queue}a")
        equal(sent(sender, Message(body="x", annotations={symbol("x-cc"): [f"{queue}b", f"{queue}a"]})), "accepted")
        eventually(lambda: bench.desk.count(queue) == 1, "routed once")


@suite.case("cc.empty", "an empty x-cc on a message that no queue takes", "released")
def _():
    with Bench() as bench:
        sender = bench.sender(address=f"/exchanges/amq.direct/{fresh('none')}")
        equal(sent(sender, Message(body="x", annotations={symbol("x-cc"): []})), "released")


def add_bad_cc(name, value):
    @suite.case(f"cc.bad-{name}", f"x-cc that is {name.replace('-', ' ')}", "link detached: `amqp:invalid-field`")
    def _():
        with Bench() as bench:
            sender = bench.sender(bench.queue())
            result = sent(sender, Message(body="x", annotations={symbol("x-cc"): value}))
            equal((result[:2], result[2].startswith("bad value for 'x-cc' message-annotation: ")),
                  (("link", "amqp:invalid-field"), True))


add_bad_cc("a-string", "key")
add_bad_cc("a-number", 5)
add_bad_cc("a-list-with-a-number", ["key", 5])
add_bad_cc("an-array", Array(UNDESCRIBED, Data.STRING, "key"))


@suite.case("internal.attach", "a sender to an internal exchange",
            f"refused: `amqp:unauthorized-access` `{INTERNAL}`; the session lives on")
def _():
    with Bench() as bench:
        try:
            bench.sender(address="/exchanges/amq.rabbitmq.trace")
        except LinkDetached as refused:
            equal((refused.condition, INTERNAL in str(refused)), ("amqp:unauthorized-access", True))
            bench.send(bench.queue(), "alive")
            return
        raise AssertionError("it was attached")


@suite.case("internal.anonymous", "a message to an internal exchange over the anonymous terminus",
            f"link detached: `amqp:unauthorized-access` `{INTERNAL}`; the session lives on")
def _():
    with Bench() as bench:
        sender = bench.connection.create_sender(None, name=fresh("anonymous"))
        result = sent(sender, Message(body="x", address="/exchanges/amq.rabbitmq.trace/key"))
        equal(result, ("link", "amqp:unauthorized-access", INTERNAL))
        bench.send(bench.queue(), "alive")


def add_to(name, address, expected):
    @suite.case(f"anonymous.{name}", f"`to` is {address!r} on the anonymous terminus", " ".join(expected) if isinstance(
        expected, tuple) else expected)
    def _():
        with Bench() as bench:
            queue = bench.queue()
            sender = bench.connection.create_sender(None, name=fresh("anonymous"))
            to = address and address.replace("{queue}", queue)
            delivery = sender.link.send(Message(body="x", address=to))
            sender.connection.wait(lambda: delivery.settled, timeout=5)
            state = outcome(delivery)
            if state == "rejected":
                condition = delivery.remote.condition
                state = (state, condition.name, condition.description.replace(queue, "{queue}"))
            equal(state, expected)
            equal(bench.desk.count(queue), int(state == "accepted"))


def bad_to(address):
    return "rejected", "amqp:precondition-failed", f"bad 'to' address string: {address}"


add_to("queue", "/queues/{queue}", "accepted")
add_to("none", None, ("rejected", "amqp:precondition-failed", "anonymous terminus requires 'to' address to be set"))
for number, bad in enumerate(("", "{queue}", "/queues/", "/queues/a%zz", "/exchanges//key", "/exchanges/amq.default/{queue}",
                              "/queue/{queue}", "/topic/{queue}", "/foo/bar")):
    add_to(f"bad-{number}", bad, bad_to(bad))
add_to("unroutable", "/exchanges/amq.direct/{queue}", "released")


@suite.case("attach.query", "a sender to `/queues/{queue}?x=y`", "refused: `amqp:invalid-field`")
def _():
    with Bench() as bench:
        try:
            bench.sender(address=f"/queues/{bench.queue()}?x=y")
        except LinkDetached as refused:
            equal(refused.condition, "amqp:invalid-field")
            return
        raise AssertionError("it was attached")


@suite.case("attach.copy", "a source with distribution-mode copy", "attached; messages are moved all the same (ours: "
            "copied)")
def _():
    with Bench() as bench:
        queue = bench.queue()
        bench.send(queue, "x")

        def copy(link):
            link.source.distribution_mode = Terminus.DIST_MODE_COPY
        receiver = bench.receiver(queue, 1, options=Option(copy))
        equal(receiver.receive().body, "x")
        delivery = receiver.unsettled.popleft()
        delivery.update(delivery.ACCEPTED)
        delivery.settle()
        copied = receiver.link.remote_source.distribution_mode == Terminus.DIST_MODE_COPY
        receiver.close()
        eventually(lambda: bench.desk.count(queue) == int(copied), "moved, or copied")


def add_property(name, properties):
    @suite.case(f"attach.property-{name}", f"a receiver with the link properties {properties!r}", "attached; works")
    def _():
        with Bench() as bench:
            queue = bench.queue()
            bench.send(queue, "x")

            def change(link):
                link.properties = {symbol(key): value for key, value in properties.items()}
            equal(bench.receiver(queue, 1, options=Option(change)).receive().body, "x")


add_property("priority", {"rabbitmq:priority": int32(5)})
add_property("priority-text", {"rabbitmq:priority": "x"})
add_property("timeout", {"rabbitmq:consumer-timeout": uint(60_000)})
add_property("unknown", {"foo": "x"})


@suite.case("attach.priority", "two receivers with credit, one of rabbitmq:priority 5", "it gets the messages")
def _():
    with Bench() as bench:
        queue = bench.queue()

        def five(link):
            link.properties = {symbol("rabbitmq:priority"): int32(5)}
        low = bench.receiver(queue, 10)
        high = bench.receiver(queue, 10, options=Option(five))
        low.link.flow(0)
        bench.send(queue, 1, 2, 3)
        equal([high.receive().body for _ in range(3)], [1, 2, 3])
        equal(len(low.incoming), 0)
