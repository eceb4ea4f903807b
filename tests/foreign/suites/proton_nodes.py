"""Nodes that are made for a link, through qpid-proton: temporary queues, and volatile queues for replies."""

import urllib.parse

from proton import UNDESCRIBED, Array, Data, Described, Link, Message, Terminus, symbol
from proton.reactor import LinkOption

from lab.cases import equal, eventually
from suites.pika_bench import fresh
from suites.proton_bench import Bench, LinkDetached, Taker, connect, outcome, suite
from suites.proton_pair import Pair

NOT_SERVED = "amqp:not-implemented"
TEMPORARY = "temporary-queue"
VOLATILE = "rabbitmq:volatile-queue"
ON_CLOSE = {
    symbol("lifetime-policy"): Described(symbol("amqp:delete-on-close:list"), []),
    symbol("supported-dist-modes"): Array(UNDESCRIBED, Data.SYMBOL, symbol("move")),
}


class Dynamic(LinkOption):
    """Asks for a node with these capabilities at the broker's end; `change` alters what is asked."""

    def __init__(self, *capabilities, change=None):
        self.capabilities = capabilities
        self.change = change

    def apply(self, link):
        terminus = link.source if link.is_receiver else link.target
        terminus.dynamic, terminus.address = True, None
        if self.capabilities:
            names = [symbol(name) for name in self.capabilities]
            terminus.capabilities.put_object(Array(UNDESCRIBED, Data.SYMBOL, *names))
        if self.change:
            self.change(link)


def replies(change=None):
    def settled(link):
        link.source.expiry_policy = Terminus.EXPIRE_WITH_LINK
        link.snd_settle_mode = Link.SND_SETTLED
        if change:
            change(link)
    return Dynamic(VOLATILE, change=settled)


def receiver(connection, option, credit=0):
    """A receiver whose node the broker makes, its address, and what takes its messages."""
    taker = Taker()
    link = connection.create_receiver(None, name=fresh("link"), options=option, handler=taker, credit=0)
    if credit:
        link.flow(credit)
        run(connection)
    return link, link.link.remote_source.address, taker


def run(connection):
    """Writes what waits to be written; an answer shows that the broker has read it."""
    Pair(connection).ask("GET", "/queues/none")


def told(terminus):
    terminus.properties.rewind()
    terminus.properties.next()
    return terminus.dynamic, terminus.durability, terminus.expiry_policy, terminus.properties.get_object()


def refused(behaviour, name, option, condition, role="receiver"):
    @suite.case(f"node.{name}", behaviour, f"refused: `{condition}`")
    def _():
        with Bench() as bench:
            make = bench.connection.create_receiver if role == "receiver" else bench.connection.create_sender
            try:
                make(None, name=fresh("link"), options=option)
            except LinkDetached as error:
                equal(error.condition, condition)
                return
            raise AssertionError("it was attached")


def unsettled(link):
    link.snd_settle_mode = Link.SND_UNSETTLED


def session_end(link):
    link.source.expiry_policy = Terminus.EXPIRE_WITH_SESSION


def durable(link):
    link.source.durability = Terminus.DELIVERIES


refused("a dynamic source without capabilities", "source-plain", Dynamic(), NOT_SERVED)
refused("a dynamic target without capabilities", "target-plain", Dynamic(), NOT_SERVED, role="sender")
refused("a volatile queue with a sender that does not settle", "volatile-unsettled", replies(unsettled), NOT_SERVED)
refused("a volatile queue that expires with the session", "volatile-session", replies(session_end), NOT_SERVED)
refused("a durable volatile queue", "volatile-durable", replies(durable), NOT_SERVED)


@suite.case("node.source", "a dynamic source with the capability temporary-queue",
            "an exclusive queue named `amq.dyn-...`; the source says dynamic, link-detach and delete-on-close")
def _():
    with Bench() as bench:
        link, address, _taker = receiver(bench.connection, Dynamic(TEMPORARY))
        equal(address.startswith("/queues/amq.dyn-"), True)
        equal(told(link.link.remote_source), (True, 0, Terminus.EXPIRE_WITH_LINK, ON_CLOSE))
        status, queue = Pair(bench.connection).ask("GET", address)
        equal((status, queue["exclusive"], queue["auto_delete"], queue["type"]), ("200", True, False, "classic"))


@suite.case("node.target", "a dynamic target with the capability temporary-queue",
            "an exclusive queue; the target says dynamic, link-detach, delete-on-close and its capability")
def _():
    with Bench() as bench:
        link = bench.connection.create_sender(None, name=fresh("link"), options=Dynamic(TEMPORARY)).link
        equal(told(link.remote_target), (True, 0, Terminus.EXPIRE_WITH_LINK, ON_CLOSE))
        link.remote_target.capabilities.next()
        equal(list(link.remote_target.capabilities.get_object().elements), [symbol(TEMPORARY)])
        equal(Pair(bench.connection).ask("GET", link.remote_target.address)[0], "200")


@suite.case("node.use", "a message to a temporary queue from another connection", "accepted; received")
def _():
    with Bench() as bench:
        _link, address, taker = receiver(bench.connection, Dynamic(TEMPORARY), credit=5)
        other = connect()
        equal(outcome(other.create_sender(address).send(Message(body="hi"))), "accepted")
        bench.connection.wait(lambda: taker.incoming, timeout=5)
        equal(taker.incoming[0][0].body, "hi")
        other.close()


@suite.case("node.locked", "another connection receives from a temporary queue",
            "refused: `amqp:resource-locked` `cannot obtain exclusive access to locked queue '{queue}' in vhost '/'`")
def _():
    with Bench() as bench:
        _link, address, _taker = receiver(bench.connection, Dynamic(TEMPORARY))
        other = connect()
        try:
            other.create_receiver(address)
        except LinkDetached as error:
            text = f"cannot obtain exclusive access to locked queue '{address[len('/queues/'):]}' in vhost '/'"
            equal((error.condition, str(error).endswith(f"\"{text}\")")), ("amqp:resource-locked", True))
            return
        raise AssertionError("it was attached")


@suite.case("node.locked-name", "another connection receives from an exclusive queue with a full stop in its name",
            "refused: `amqp:resource-locked` `cannot obtain exclusive access to locked queue 'a. b...' in vhost '/'`")
def _():
    with Bench() as bench:
        name = fresh("a. b")
        address = "/queues/" + urllib.parse.quote(name, safe="")
        equal(Pair(bench.connection).ask("PUT", address, {"exclusive": True})[0], "201")
        other = connect()
        try:
            other.create_receiver(address)
        except LinkDetached as error:
            text = f"cannot obtain exclusive access to locked queue '{name}' in vhost '/'"
            equal((error.condition, str(error).endswith(f"\"{text}\")")), ("amqp:resource-locked", True))
            return
        raise AssertionError("it was attached")


@suite.case("node.detach", "the link that asked for a temporary queue detaches, another is still there",
            "the queue is deleted; the other link is detached with `amqp:resource-deleted`, without a description")
def _():
    with Bench() as bench:
        link, address, _taker = receiver(bench.connection, Dynamic(TEMPORARY))
        bench.connection.create_receiver(address, name=fresh("link"))
        watch = connect()
        try:
            link.close()
            bench.connection.wait(lambda: False, timeout=5)
        except LinkDetached as error:
            equal((error.condition, "Condition('amqp:resource-deleted')" in str(error)), ("amqp:resource-deleted", True))
        pair = Pair(watch)
        eventually(lambda: pair.ask("GET", address)[0] == "404", "gone")
        watch.close()


@suite.case("node.sender-detach", "the link of a temporary target detaches", "the queue is deleted")
def _():
    with Bench() as bench:
        link = bench.connection.create_sender(None, name=fresh("link"), options=Dynamic(TEMPORARY))
        address, pair = link.link.remote_target.address, Pair(bench.connection)
        equal(pair.ask("GET", address)[0], "200")
        link.close()
        eventually(lambda: pair.ask("GET", address)[0] == "404", "gone")


@suite.case("node.connection-end", "the connection of a temporary queue ends", "the queue is deleted")
def _():
    with Bench() as bench:
        other = connect()
        _link, address, _taker = receiver(other, Dynamic(TEMPORARY))
        pair = Pair(bench.connection)
        equal(pair.ask("GET", address)[0], "200")
        other.close()
        eventually(lambda: pair.ask("GET", address)[0] == "404", "gone")


@suite.case("node.volatile", "a source with the capability rabbitmq:volatile-queue, settled, expiring with its link",
            "an address `/queues/amq.rabbitmq.reply-to.`..., of its own for each link; no queue")
def _():
    with Bench() as bench:
        link, address, _taker = receiver(bench.connection, replies())
        _link, other, _taker = receiver(bench.connection, replies())
        equal((address.startswith("/queues/amq.rabbitmq.reply-to."), address != other), (True, True))
        equal(told(link.link.remote_source), (True, 0, Terminus.EXPIRE_WITH_LINK, ON_CLOSE))
        equal(link.link.remote_snd_settle_mode, Link.SND_SETTLED)


VOLATILE_QUEUE = {
    "message_count": 0, "consumer_count": 1, "vhost": "/", "durable": False, "auto_delete": True, "exclusive": False,
    "type": "rabbit_volatile_queue", "arguments": {},
}


def asked(request, expected, words, name):
    """The management node's answer about a volatile queue, asked over another connection; the queue is there all the time."""
    @suite.case(f"node.volatile-{name}", f"{words} a volatile queue by its address, over another connection", expected[1])
    def _():
        with Bench() as bench:
            link, address, _taker = receiver(bench.connection, replies(), credit=1)
            other = connect()
            pair = Pair(other)
            status, body = pair.ask(*(part.format(address) if isinstance(part, str) else part for part in request))
            equal((status, expected[2](body, address)), (expected[0], True), f"{status} {body}")
            equal(pair.ask("GET", address)[0], "200")
            other.close()


def is_described(body, address):
    name = urllib.parse.unquote(address[len("/queues/"):])
    fields = {key: value for key, value in body.items() if key not in ("leader", "replicas")}
    return fields == {**VOLATILE_QUEUE, "name": name} and not body["replicas"].elements


def is_nothing(body, _address):
    return body == {"message_count": 0}


asked(("GET", "{}"), ("200", "200; type `rabbit_volatile_queue`, auto-delete, one consumer, no replicas", is_described), "asking for",
      "get")
asked(("DELETE", "{}/messages"), ("200", "200; message_count 0", is_nothing), "purging", "purge")
asked(("DELETE", "{}"), ("200", "200; message_count 0; it stays", is_nothing), "deleting", "delete")


def goes(name, words, act):
    @suite.case(f"node.volatile-{name}", f"asking for a volatile queue after {words}", "404")
    def _():
        with Bench() as bench:
            requester = connect()
            link, address, _taker = receiver(requester, replies(), credit=1)
            pair = Pair(bench.connection)
            equal(pair.ask("GET", address)[0], "200")
            act(requester, link)
            eventually(lambda: pair.ask("GET", address)[0] == "404", "gone")
            name = urllib.parse.unquote(address[len("/queues/"):])
            equal(pair.ask("GET", address), ("404", f"queue '{name}' in vhost '/' not found"))


goes("detached", "its link is detached", lambda _requester, link: link.close())
goes("closed", "its connection is closed", lambda requester, _link: requester.close())


@suite.case("node.volatile-absent", "asking for addresses like that of a volatile queue, of none",
            "404, also where they are shorter or longer")
def _():
    with Bench() as bench:
        _link, address, _taker = receiver(bench.connection, replies(), credit=1)
        other = connect()
        pair = Pair(other)
        for absent in (address + "x", address[:len("/queues/amq.rabbitmq.reply-to.") + 6], "/queues/amq.rabbitmq.reply-to."):
            equal(pair.ask("GET", absent)[0], "404", absent)
        other.close()


@suite.case("node.reply", "a request over a queue, the reply to a volatile queue by link and by `to`",
            "accepted; the requester gets both, settled")
def _():
    with Bench() as bench:
        queue = bench.queue()
        _link, address, taker = receiver(bench.connection, replies(), credit=5)
        bench.sender(queue).send(Message(body="request", reply_to=address, correlation_id="7"))
        responder = connect()
        asked = responder.create_receiver(f"/queues/{queue}", credit=1).receive(timeout=5)
        to = asked.reply_to
        equal(to, address)
        answer = Message(body="by link", correlation_id=asked.correlation_id)
        equal(outcome(responder.create_sender(to).send(answer)), "accepted")
        anonymous = responder.create_sender(None, name=fresh("link"))
        equal(outcome(anonymous.send(Message(body="by to", address=to, correlation_id="8"))), "accepted")
        bench.connection.wait(lambda: len(taker.incoming) == 2, timeout=5)
        got = [(message.body, message.correlation_id, delivery.settled) for message, delivery in taker.incoming]
        equal(got, [("by link", "7", True), ("by to", "8", True)])
        responder.close()


@suite.case("node.reply-no-credit", "three replies to a requester with credit for one", "accepted; the first arrives, the others are dropped")
def _():
    with Bench() as bench:
        link, address, taker = receiver(bench.connection, replies(), credit=1)
        responder = connect()
        sender = responder.create_sender(address)
        equal([outcome(sender.send(Message(body=number))) for number in range(3)], ["accepted"] * 3)
        link.flow(5)
        run(bench.connection)
        equal([message.body for message, _delivery in taker.incoming], [0])
        responder.close()


@suite.case("node.reply-gone", "a sender to a volatile queue whose link is gone",
            "refused: `amqp:not-found` `no queue '{queue}' in vhost '/'`")
def _():
    with Bench() as bench:
        link, address, _taker = receiver(bench.connection, replies())
        link.close()
        responder = connect()
        try:
            responder.create_sender(address)
        except LinkDetached as error:
            equal(error.condition, "amqp:not-found")
            return
        finally:
            responder.close()
        raise AssertionError("it was attached")


@suite.case("node.reply-name", "a receiver from `/queues/amq.rabbitmq.reply-to`", "refused: `amqp:not-found`")
def _():
    with Bench() as bench:
        try:
            bench.connection.create_receiver("/queues/amq.rabbitmq.reply-to", name=fresh("link"))
        except LinkDetached as error:
            equal(error.condition, "amqp:not-found")
            return
        raise AssertionError("it was attached")


@suite.case("node.reply-from-091", "a 0-9-1 responder publishes to the reply-to of an AMQP 1.0 request", "the requester gets it")
def _():
    with Bench() as bench:
        queue = bench.queue()
        _link, address, taker = receiver(bench.connection, replies(), credit=5)
        bench.sender(queue).send(Message(body=b"request", inferred=True, reply_to=address, correlation_id="7"))

        def asked():
            return bench.desk.channel.basic_get(queue, auto_ack=True)
        method, properties, body = asked()
        equal((method is not None, bytes(body)), (True, b"request"))
        key = properties.reply_to
        equal(key.startswith("amq.rabbitmq.reply-to."), True)
        bench.desk.channel.basic_publish("", key, b"reply")
        bench.connection.wait(lambda: taker.incoming, timeout=5)
        equal(bytes(taker.incoming[0][0].body), b"reply")
