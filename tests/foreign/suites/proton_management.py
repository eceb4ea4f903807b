"""The management node through qpid-proton: queues, exchanges and bindings by requests over a link pair."""

import json

from proton import Link, float32, int32, symbol, timestamp, uint, ulong

from lab.cases import equal, eventually
from suites.pika_bench import fresh
from suites.proton_bench import Bench, LinkDetached, connect, queue_address, suite
from suites.proton_pair import NODE, Ended, Pair, Paired, Request

LOCKED = (
    "cannot obtain exclusive access to locked queue '{}' in vhost '/'. It could be originally declared on another "
    "connection or the exclusive property value does not match that of the original declaration."
)


class Desk:
    """A connection with a pair; what is made through it is deleted at the end."""

    def __enter__(self):
        self.bench = Bench()
        self.connection = self.bench.connection
        self.pair = Pair(self.connection)
        self.made = []
        return self

    def __exit__(self, *error):
        try:
            pair = Pair(self.connection)
            for path in self.made:
                pair.ask("DELETE", path)
        except Exception:  # noqa: BLE001 - a case may have ended the session on purpose
            pass
        self.bench.__exit__(*error)

    def name(self, kind):
        name = fresh(kind)
        self.made.insert(0, f"/{kind}s/{name}")
        return name

    def queue(self, body=None):
        name = self.name("queue")
        equal(self.pair.ask("PUT", f"/queues/{name}", body or {})[0], "201")
        return name

    def exchange(self, body=None):
        name = self.name("exchange")
        equal(self.pair.ask("PUT", f"/exchanges/{name}", body or {}), ("204", None))
        return name

    def ask(self, *request, **properties):
        return self.pair.ask(*request, **properties)


def plain(answer, *names):
    """The fields of a queue's map in plain Python types."""
    status, body = answer
    return status, {name: body[name] for name in names or body if name not in ("leader", "replicas")}


def described(name, **changes):
    fields = {
        "message_count": 0, "consumer_count": 0, "name": name, "vhost": "/", "durable": True, "auto_delete": False,
        "exclusive": False, "type": "classic", "arguments": {"x-queue-type": "classic"},
    }
    return {**fields, **changes}


@suite.case("manage.pair", "two links of one name to `/management` with the property `paired`",
            "attached with the same addresses and `paired`; credit for 8 requests")
def _():
    with Desk() as desk:
        for link in (desk.pair.sender.link, desk.pair.receiver.link):
            equal((link.remote_source.address, link.remote_target.address), (NODE, NODE))
            equal(link.remote_properties, {symbol("paired"): True})
        equal(desk.pair.sender.link.credit, 8)


@suite.case("manage.capability", "what open offers for the pair", "LINK_PAIR_V1_0 among the offered capabilities")
def _():
    with Bench() as bench:
        offered = [str(name) for name in bench.connection.conn.remote_offered_capabilities]
        equal("LINK_PAIR_V1_0" in offered, True)


def add_unpaired(name, value):
    @suite.case(f"manage.unpaired-{name}", f"a link to `/management` with the property `paired` {name}",
                "refused: `amqp:invalid-field`")
    def _():
        class Unpaired(Paired):
            def apply(self, link):
                super().apply(link)
                link.properties = value
        with Bench() as bench:
            try:
                bench.connection.create_receiver(NODE, name=fresh("pair"), options=Unpaired())
            except LinkDetached as refused:
                text = "Link property 'paired' is not set to boolean value 'true'"
                equal((refused.condition, text in str(refused)), ("amqp:invalid-field", True))
                return
            raise AssertionError("it was attached")


add_unpaired("missing", None)
add_unpaired("false", {symbol("paired"): False})


@suite.case("manage.unsettled", "a sender to `/management` that does not send settled", "refused: `amqp:invalid-field`")
def _():
    class Mixed(Paired):
        def apply(self, link):
            super().apply(link)
            link.snd_settle_mode = Link.SND_MIXED
    with Bench() as bench:
        try:
            bench.connection.create_sender(NODE, name=fresh("pair"), options=Mixed())
        except LinkDetached as refused:
            equal(refused.condition, "amqp:invalid-field")
            return
        raise AssertionError("it was attached")


@suite.case("manage.large", "requests with arguments of 65,000 bytes and of 119,000 bytes",
            "the first is done, the second refused: at most 64 KiB; RabbitMQ does both")
def _():
    with Desk() as desk:
        for size, status in ((65_000, "201"), (119_000, "409")):
            body = {"durable": True, "exclusive": True, "arguments": {"x-filler": "x" * size}}
            equal(desk.pair.ask("PUT", f"/queues/{fresh('large')}", body)[0], status)


@suite.case("manage.too-large", "a request of 5,000,000 bytes", "session ended: none may have more than 128 KiB")
def _():
    with Desk() as desk:
        desk.pair.send("PUT", f"/queues/{fresh('large')}", {"arguments": {"x-filler": "x" * 5_000_000}})
        try:
            desk.pair.take()
        except Ended:
            return
        raise AssertionError("it was answered")


@suite.case("manage.answer", "the shape of an answer",
            "settled; subject is the status, correlation-id the request's message-id, application property "
            "`http:response` is `1.1`")
def _():
    with Desk() as desk:
        number = desk.pair.send("GET", f"/queues/{fresh('absent')}")
        answer = desk.pair.take()
        equal((answer.code, answer.correlation, answer.properties), ("404", number, {"http:response": "1.1"}))
        desk.pair.sender.send(Request(id="text", subject="GET", address="/queues/x", reply_to="$me",
                                      correlation_id="other"))
        equal(desk.pair.take().correlation, "text")


@suite.case("manage.pipelined", "twelve requests before the first answer is read", "answered in their order")
def _():
    with Desk() as desk:
        sent = [desk.pair.send("GET", f"/queues/{fresh('absent')}") for _ in range(12)]
        equal([desk.pair.take().correlation for _ in sent], sent)


@suite.case("manage.body-first", "a request whose body stands before its properties, as RabbitMQ's Python client writes it",
            "answered")
def _():
    class BodyFirst(Request):
        def encode(self):
            return b"\x00\x53\x77\x40" + super().encode()[:-4]
    with Desk() as desk:
        queue = desk.queue()
        desk.pair.sender.send(BodyFirst(id=1000, subject="GET", address=f"/queues/{queue}", reply_to="$me"))
        answer = desk.pair.take()
        equal((answer.code, answer.correlation, answer.body["name"]), ("200", 1000, queue))


@suite.case("manage.two-pairs", "two pairs in one session", "each gets its own answers")
def _():
    with Desk() as desk:
        queue, other = desk.queue(), Pair(desk.connection)
        equal(other.ask("GET", f"/queues/{queue}")[0], "200")
        equal(desk.ask("GET", f"/queues/{queue}")[0], "200")


def add_ended(name, behaviour, act, text):
    @suite.case(f"manage.{name}", behaviour, f"session ended: `amqp:precondition-failed` `{text}`")
    def _():
        with Bench() as bench:
            try:
                act(bench.connection)
            except Ended as ended:
                equal(str(ended), f"amqp:precondition-failed {text}")
                return
            raise AssertionError("it was answered")


def ask_half_open(connection):
    pair = Pair(connection)
    pair.receiver.close()
    pair.ask("GET", "/queues/x")


add_ended("half-open", "a request while the link for the answers is not attached", ask_half_open,
          "received transfer on half open management link pair")
add_ended("no-credit", "a request while there is no credit for its answer",
          lambda connection: Pair(connection, credit=0).ask("GET", "/queues/x"),
          "insufficient credit (0) for management link from RabbitMQ to client")


@suite.case("manage.queue.declare", "PUT /queues/{queue}", "201 with all that is known of it; 200 when it is there")
def _():
    with Desk() as desk:
        queue = desk.name("queue")
        equal(plain(desk.ask("PUT", f"/queues/{queue}", {})), ("201", described(queue)))
        again = {"durable": True, "exclusive": False, "auto_delete": False, "arguments": {}}
        equal(plain(desk.ask("PUT", f"/queues/{queue}", again)), ("200", described(queue)))
        leader = desk.ask("GET", f"/queues/{queue}")[1]
        equal(list(leader["replicas"].elements), [leader["leader"]])


@suite.case("manage.queue.types", "the types of the numbers in a queue's map", "message_count ulong, consumer_count uint")
def _():
    with Desk() as desk:
        _status, body = desk.ask("GET", f"/queues/{desk.queue()}")
        equal((type(body["message_count"]), type(body["consumer_count"])), (ulong, uint))
        equal(list(body)[:3], ["leader", "message_count", "consumer_count"])


@suite.case("manage.queue.quorum", "PUT with the argument x-queue-type quorum", "201, type quorum")
def _():
    with Desk() as desk:
        body = {"arguments": {"x-queue-type": "quorum"}}
        queue = desk.queue(body)
        equal(plain(desk.ask("GET", f"/queues/{queue}"), "type", "arguments"),
              ("200", {"type": "quorum", "arguments": {"x-queue-type": "quorum"}}))


@suite.case("manage.queue.counts", "GET /queues/{queue} with 3 messages and a consumer", "message_count and consumer_count")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.bench.send(queue, 1, 2, 3)
        receiver = desk.bench.receiver(queue, 0)
        eventually(lambda: plain(desk.ask("GET", f"/queues/{queue}"), "message_count", "consumer_count")
                   == ("200", {"message_count": 3, "consumer_count": 1}), "counted")
        receiver.close()


@suite.case("manage.queue.arguments", "arguments of every type that one can have", "told again in the types they were declared in")
def _():
    with Desk() as desk:
        queue = desk.name("queue")
        arguments = {"b": True, "f": 1.5, "i": int32(5), "l": [1, "a"], "n": None, "s": "text", "u": uint(5),
                     "t": timestamp(5000), "y": symbol("symbol"), "m": {"k": "v"}, "z": b"bytes"}
        desk.ask("PUT", f"/queues/{queue}", {"arguments": arguments})
        told = desk.ask("GET", f"/queues/{queue}")[1]["arguments"]
        expected = {**arguments, "y": "symbol", "z": "bytes", "m": {symbol("k"): "v"}, "x-queue-type": "classic"}
        equal(told, expected)
        equal({name: type(told[name]) for name in "iut"}, {"i": int32, "u": uint, "t": timestamp})


def add_differs(name, body, why):
    @suite.case(f"manage.queue.differs-{name}", f"PUT of a queue that is there with {json.dumps(body)}", f"409 {why}")
    def _():
        with Desk() as desk:
            queue = desk.queue()
            equal(desk.ask("PUT", f"/queues/{queue}", body), ("409", why.replace("{queue}", queue)))


add_differs("durable", {"durable": False},
            "inequivalent arg 'durable' for queue '{queue}' in vhost '/': received 'false' but current is 'true'")
add_differs("auto-delete", {"auto_delete": True},
            "inequivalent arg 'auto_delete' for queue '{queue}' in vhost '/': received 'true' but current is 'false'")
add_differs("type", {"arguments": {"x-queue-type": "quorum"}},
            "inequivalent arg 'x-queue-type' for queue '{queue}' in vhost '/': received 'quorum' but current is 'classic'")
add_differs("argument", {"arguments": {"x-max-length": 5}},
            "inequivalent arg 'x-max-length' for queue '{queue}' in vhost '/': received the value '5' of type 'long' "
            "but current is none")


def add_refused(name, method, path, body, status, text):
    shown = text.replace("\n", "\\n").replace("\r", "\\r")

    @suite.case(f"manage.{name}", f"{method} {path} {'' if body is None else json.dumps(body)}".strip(), f"{status} {shown}")
    def _():
        with Desk() as desk:
            queue, exchange, absent = desk.queue(), desk.exchange(), fresh("absent")

            def filled(value):
                if isinstance(value, str):
                    for mark, real in (("{queue}", queue), ("{exchange}", exchange), ("{absent}", absent)):
                        value = value.replace(mark, real)
                    return value
                return {key: filled(item) for key, item in value.items()} if isinstance(value, dict) else value

            equal(desk.ask(method, filled(path), filled(body)), (status, filled(text)))
            equal(desk.ask("GET", f"/queues/{queue}")[0], "200")


add_refused("queue.get-absent", "GET", "/queues/{absent}", None, "404", "queue '{absent}' in vhost '/' not found")
add_refused("queue.purge-absent", "DELETE", "/queues/{absent}/messages", None, "404", "no queue '{absent}' in vhost '/'")
add_refused("queue.exclusive-again", "PUT", "/queues/{queue}", {"exclusive": True}, "400", LOCKED.format("{queue}"))
add_refused("queue.unknown-property", "PUT", "/queues/{absent}", {"unknown": 1}, "400",
            'bad queue property {{utf8,<<"unknown">>},{long,1}}')
add_refused("queue.wrong-type", "PUT", "/queues/{absent}", {"durable": "x"}, "400",
            'bad queue property {{utf8,<<"durable">>},{utf8,<<"x">>}}')
add_refused("queue.reserved", "PUT", "/queues/amq.{absent}", {}, "403",
            "queue 'amq.{absent}' in vhost '/' starts with reserved prefix 'amq.'")
add_refused("queue.no-name", "PUT", "/queues/", {}, "400", "declare queue with empty name not allowed")
add_refused("queue.line-ends", "PUT", "/queues/{absent}%0a%0d", {}, "400",
            "Bad name '{absent}\n\r': line feed and carriage return characters not allowed")
add_refused("queue.unknown-type", "PUT", "/queues/{absent}", {"arguments": {"x-queue-type": "foo"}}, "409",
            "invalid arg 'x-queue-type' for queue '{absent}' in vhost '/': \"unsupported queue type 'foo'\"")
add_refused("exchange.differs-type", "PUT", "/exchanges/{exchange}", {"type": "topic"}, "409",
            "inequivalent arg 'type' for exchange '{exchange}' in vhost '/': received 'topic' but current is 'direct'")
add_refused("exchange.differs-durable", "PUT", "/exchanges/{exchange}", {"durable": False}, "409",
            "inequivalent arg 'durable' for exchange '{exchange}' in vhost '/': received 'false' but current is 'true'")
add_refused("exchange.differs-internal", "PUT", "/exchanges/{exchange}", {"internal": True}, "409",
            "inequivalent arg 'internal' for exchange '{exchange}' in vhost '/': received 'true' but current is 'false'")
add_refused("exchange.unknown-type", "PUT", "/exchanges/{absent}", {"type": "nope"}, "400",
            "unknown exchange type 'nope'")
add_refused("exchange.unknown-property", "PUT", "/exchanges/{absent}", {"foo": 5}, "400",
            'bad exchange property {{utf8,<<"foo">>},{long,5}}')
add_refused("exchange.alternate-type", "PUT", "/exchanges/{absent}", {"arguments": {"alternate-exchange": 5}}, "400",
            "invalid type 'long' for arg 'alternate-exchange'")
add_refused("exchange.reserved", "PUT", "/exchanges/amq.{absent}", {}, "403",
            "exchange 'amq.{absent}' in vhost '/' starts with reserved prefix 'amq.'")
add_refused("exchange.default", "PUT", "/exchanges/", {}, "403", "operation not permitted on the default exchange")
add_refused("exchange.delete-default", "DELETE", "/exchanges/", None, "403",
            "operation not permitted on the default exchange")
add_refused("exchange.delete-reserved", "DELETE", "/exchanges/amq.direct", None, "403",
            "exchange 'amq.direct' in vhost '/' starts with reserved prefix 'amq.'")
add_refused("binding.no-source", "POST", "/bindings",
            {"source": "{absent}", "destination_queue": "{queue}", "binding_key": "k", "arguments": {}}, "400",
            "no exchange '{absent}' in vhost '/'")
add_refused("binding.no-queue", "POST", "/bindings",
            {"source": "{exchange}", "destination_queue": "{absent}", "binding_key": "k", "arguments": {}}, "400",
            "no queue '{absent}' in vhost '/'")
add_refused("binding.no-exchange", "POST", "/bindings",
            {"source": "{exchange}", "destination_exchange": "{absent}", "binding_key": "k", "arguments": {}}, "400",
            "no exchange '{absent}' in vhost '/'")
add_refused("binding.default-source", "POST", "/bindings",
            {"source": "", "destination_queue": "{queue}", "binding_key": "k", "arguments": {}}, "403",
            "operation not permitted on the default exchange")
add_refused("binding.unknown-field", "POST", "/bindings",
            {"source": "{exchange}", "destination_queue": "{queue}", "binding_key": "k", "arguments": {}, "foo": 1}, "400",
            'bad binding field {{utf8,<<"foo">>},{long,1}}')
add_refused("binding.list-default", "GET", "/bindings?src=&dstq={queue}&key={queue}", None, "403",
            "operation not permitted on the default exchange")
add_refused("binding.bad-segment", "DELETE", "/bindings/garbage", None, "400", "bad binding path segment 'garbage'")
add_refused("binding.short-segment", "DELETE", "/bindings/src={exchange};dstq={queue};key=k", None, "400",
            "bad binding path segment 'src={exchange};dstq={queue};key=k'")


@suite.case("manage.queue.delete", "DELETE /queues/{queue} with 2 messages; again", "200 message_count 2; 200 message_count 0")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.bench.send(queue, 1, 2)
        equal(desk.ask("DELETE", f"/queues/{queue}"), ("200", {"message_count": 2}))
        equal(desk.ask("DELETE", f"/queues/{queue}"), ("200", {"message_count": 0}))
        equal(desk.ask("GET", f"/queues/{queue}")[0], "404")


@suite.case("manage.queue.purge", "DELETE /queues/{queue}/messages with 3 messages", "200 message_count 3; the queue stays")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.bench.send(queue, 1, 2, 3)
        equal(desk.ask("DELETE", f"/queues/{queue}/messages"), ("200", {"message_count": 3}))
        equal(plain(desk.ask("GET", f"/queues/{queue}"), "message_count"), ("200", {"message_count": 0}))


@suite.case("manage.queue.encoded", "names in percent-encoding", "decoded")
def _():
    with Desk() as desk:
        name = fresh("a/b c")
        path = "/queues/" + name.replace("/", "%2F").replace(" ", "%20")
        equal(desk.ask("PUT", path, {})[1]["name"], name)
        equal(desk.ask("GET", path)[1]["name"], name)
        equal(desk.ask("DELETE", path)[0], "200")


@suite.case("manage.queue.exclusive-durable", "an exclusive queue, declared again as durable and as transient",
            "201, durable; 200; 409 inequivalent arg 'durable'")
def _():
    with Bench() as bench:
        pair, path = Pair(bench.connection), f"/queues/{fresh('exclusive')}"
        equal(plain(pair.ask("PUT", path, {"exclusive": True}), "durable"), ("201", {"durable": True}))
        equal(pair.ask("PUT", path, {"exclusive": True, "durable": True})[0], "200")
        status, text = pair.ask("PUT", path, {"exclusive": True, "durable": False})
        equal((status, text.startswith("inequivalent arg 'durable' for queue")), ("409", True))
        equal(plain(pair.ask("GET", path), "durable", "exclusive"), ("200", {"durable": True, "exclusive": True}))


@suite.case("manage.queue.exclusive", "an exclusive queue and another connection",
            "seen with GET; purge, delete, bind and declare answered 400; gone with its connection")
def _():
    with Desk() as desk:
        queue = fresh("exclusive")
        owner = connect()
        equal(plain(Pair(owner).ask("PUT", f"/queues/{queue}", {"exclusive": True}), "exclusive"),
              ("201", {"exclusive": True}))
        equal(desk.ask("GET", f"/queues/{queue}")[0], "200")
        locked = ("400", LOCKED.format(queue))
        equal(desk.ask("DELETE", f"/queues/{queue}/messages"), locked)
        equal(desk.ask("DELETE", f"/queues/{queue}"), locked)
        equal(desk.ask("PUT", f"/queues/{queue}", {"exclusive": True}), locked)
        binding = {"source": "amq.direct", "destination_queue": queue, "binding_key": "k", "arguments": {}}
        equal(desk.ask("POST", "/bindings", binding), locked)
        owner.close()
        eventually(lambda: desk.ask("GET", f"/queues/{queue}")[0] == "404", "gone")


@suite.case("manage.exchange.declare", "PUT and DELETE /exchanges/{exchange}, each twice", "204 each")
def _():
    with Desk() as desk:
        exchange = desk.exchange({"type": "topic", "durable": True, "auto_delete": False, "internal": False,
                                  "arguments": {}})
        equal(desk.ask("PUT", f"/exchanges/{exchange}", {"type": "topic"}), ("204", None))
        equal(desk.ask("PUT", "/exchanges/amq.direct", {}), ("204", None))
        for _ in range(2):
            equal(desk.ask("DELETE", f"/exchanges/{exchange}"), ("204", None))


@suite.case("manage.binding.queue", "POST /bindings to a queue, twice; a message; DELETE of its location, twice",
            "204 each; routed; then no longer")
def _():
    with Desk() as desk:
        queue, exchange = desk.queue(), desk.exchange()
        binding = {"source": exchange, "destination_queue": queue, "binding_key": "k", "arguments": {}}
        for _ in range(2):
            equal(desk.ask("POST", "/bindings", binding), ("204", None))
        location = f"/bindings/src={exchange};dstq={queue};key=k;args="
        listing = f"/bindings?src={exchange}&dstq={queue}&key=k"
        equal(desk.ask("GET", listing), ("200", [{**binding, "location": location}]))
        desk.bench.sender(address=f"/exchanges/{exchange}/k").send(Request(body="x"))
        eventually(lambda: desk.ask("GET", f"/queues/{queue}")[1]["message_count"] == 1, "routed")
        for _ in range(2):
            equal(desk.ask("DELETE", location), ("204", None))
        equal(desk.ask("GET", listing), ("200", []))


@suite.case("manage.binding.exchange", "a binding to an exchange", "204; listed with destination_exchange; 204")
def _():
    with Desk() as desk:
        source, destination = desk.exchange(), desk.exchange({"type": "fanout"})
        binding = {"source": source, "destination_exchange": destination, "binding_key": "k", "arguments": {}}
        equal(desk.ask("POST", "/bindings", binding), ("204", None))
        location = f"/bindings/src={source};dste={destination};key=k;args="
        listing = f"/bindings?src={source}&dste={destination}&key=k"
        equal(desk.ask("GET", listing), ("200", [{**binding, "location": location}]))
        equal(desk.ask("DELETE", location), ("204", None))
        equal(desk.ask("GET", listing), ("200", []))


@suite.case("manage.binding.arguments", "two bindings that differ in their arguments alone",
            "listed with locations of their own, by which each can be deleted")
def _():
    with Desk() as desk:
        queue, exchange = desk.queue(), desk.exchange({"type": "headers"})
        wanted = [{"x-match": "all", "a": 1}, {"x-match": "any", "a": "b"}]
        for arguments in wanted:
            binding = {"source": exchange, "destination_queue": queue, "binding_key": "", "arguments": arguments}
            equal(desk.ask("POST", "/bindings", binding), ("204", None))
        listing = f"/bindings?src={exchange}&dstq={queue}&key="
        found = {row["arguments"]["x-match"]: row["location"] for row in desk.ask("GET", listing)[1]}
        equal((set(found), len(set(found.values()))), ({"all", "any"}, 2))
        equal(desk.ask("DELETE", found["all"]), ("204", None))
        equal([row["arguments"] for row in desk.ask("GET", listing)[1]], [wanted[1]])


@suite.case("manage.binding.absent", "listing and deleting where an end is not there", "200 with nothing; 204")
def _():
    with Desk() as desk:
        queue, exchange, absent = desk.queue(), desk.exchange(), fresh("absent")
        for source, end in ((exchange, absent), (absent, queue)):
            equal(desk.ask("GET", f"/bindings?src={source}&dstq={end}&key=k"), ("200", []))
            equal(desk.ask("DELETE", f"/bindings/src={source};dstq={end};key=k;args="), ("204", None))


def add_match(name, value, text):
    @suite.case(f"manage.binding.match-{name}", f"a binding of a headers exchange with x-match {value!r}", f"400 {text}")
    def _():
        with Desk() as desk:
            binding = {"source": desk.exchange({"type": "headers"}), "destination_queue": desk.queue(), "binding_key": "",
                       "arguments": {"x-match": value}}
            equal(desk.ask("POST", "/bindings", binding), ("400", text))


add_match("unknown", "foo", 'Invalid x-match field value <<"foo">>; expected all, any, all-with-x, or any-with-x')
add_match("number", 5, "Invalid x-match field type long (value 5); expected longstr")


@suite.case("manage.token", "PUT /auth/tokens with a binary, logged in with a password", "204")
def _():
    with Desk() as desk:
        equal(desk.ask("PUT", "/auth/tokens", b"token"), ("204", None))
        equal(desk.ask("GET", f"/queues/{desk.queue()}")[0], "200")


@suite.case("manage.float", "an argument of type float", "it is an argument like any other: 201")
def _():
    with Desk() as desk:
        queue = desk.queue({"arguments": {"x-some": float32(1.5)}})
        equal(float(desk.ask("GET", f"/queues/{queue}")[1]["arguments"]["x-some"]), 1.5)


@suite.case("manage.use", "a queue declared, filled, read and deleted by one AMQP 1.0 connection", "works whole")
def _():
    with Desk() as desk:
        queue = desk.queue()
        desk.bench.send(queue, "a")
        receiver = desk.bench.receiver(queue, 1)
        equal(receiver.receive().body, "a")
        receiver.close()
        equal(desk.ask("DELETE", f"/queues/{queue}")[0], "200")
        try:
            desk.connection.create_receiver(queue_address(queue), name=fresh("receiver"))
        except LinkDetached as refused:
            equal(refused.condition, "amqp:not-found")
