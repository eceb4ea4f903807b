"""Direct reply-to through pika: requests, replies, and what can be done with a name."""

import urllib.parse

import pika
from proton import Message
from proton.utils import BlockingConnection

from lab.cases import eventually, equal
from suites.pika_bench import CLOSED, Consumer, Desk, suite

REPLY_TO = "amq.rabbitmq.reply-to"


class Requester(Desk):
    """A desk that consumes direct replies, and the name it got."""

    def __enter__(self):
        super().__enter__()
        self.mailbox = self.queue()
        self.replies = Consumer(self.channel, REPLY_TO, auto_ack=True, consumer_tag="replies")
        self.channel.basic_publish("", self.mailbox, b"ask", pika.BasicProperties(reply_to=REPLY_TO, message_id="m"))
        _method, properties, _body = self.get(self.mailbox, auto_ack=True)
        self.name, self.request = properties.reply_to, properties
        return self


def routed(channel, key, exchange="", **properties):
    try:
        channel.basic_publish(exchange, key, b"reply", pika.BasicProperties(**properties), mandatory=True)
    except pika.exceptions.UnroutableError:
        return False
    return True


@suite.case("reply-to.delivery", "a reply to a direct reply-to name",
            "delivered with the consumer's tag, the name as routing key, not redelivered, properties as sent")
def _():
    with Requester() as desk, Desk() as server:
        equal((desk.name.startswith(REPLY_TO + "."), desk.request.message_id), (True, "m"))
        server.channel.basic_publish("", desk.name, b"1", pika.BasicProperties(
            correlation_id="c", delivery_mode=2, headers={"a": 1}))
        server.channel.basic_publish("", desk.name, b"x" * 300_000)
        (method, properties, body), (_, _, large) = desk.replies.wait(2)
        equal((method.consumer_tag, method.exchange, method.routing_key, method.redelivered),
              ("replies", "", desk.name, False))
        equal((properties.correlation_id, properties.delivery_mode, properties.headers), ("c", 2, {"a": 1}))
        equal((body, large == b"x" * 300_000), (b"1", True))


@suite.case("reply-to.order", "1000 replies from each of two connections", "all, in each one's order")
def _():
    with Requester() as desk, Desk() as first, Desk() as second:
        for number in range(1000):
            for server in (first, second):
                server.channel.basic_publish("", desk.name, b"%d" % number,
                                             pika.BasicProperties(app_id="1" if server is first else "2"))
        seen = desk.replies.wait(2000, 20)
        for who in "12":
            equal([body for _, properties, body in seen if properties.app_id == who],
                  [b"%d" % number for number in range(1000)])


@suite.case("reply-to.mandatory", "a mandatory reply to a requester that has gone", "confirmed, not returned")
def _():
    with Desk() as server:
        with Requester() as desk:
            server.channel.confirm_delivery()
            equal(routed(server.channel, desk.name), True, "while it is there")
            desk.replies.wait(1)
        equal(routed(server.channel, desk.name), True, "when it has gone")


@suite.case("reply-to.no-name", "a mandatory message to the pseudo-queue itself, to a malformed name, by another exchange",
            "basic.return 312 `NO_ROUTE`")
def _():
    with Requester() as desk:
        channel = desk.connection.channel()
        channel.confirm_delivery()
        for exchange, key in (("", REPLY_TO), ("", REPLY_TO + "."), ("", REPLY_TO + ".garbage"), ("amq.direct", desk.name)):
            equal(routed(channel, key, exchange), False, f"{exchange} {key}")


@suite.case("reply-to.other-names", "a reply-to that only begins like the pseudo-queue", "kept as it is")
def _():
    with Requester() as desk:
        for name in (REPLY_TO + ".x", REPLY_TO + "x"):
            desk.channel.basic_publish("", desk.mailbox, b"", pika.BasicProperties(reply_to=name))
            equal(desk.get(desk.mailbox, auto_ack=True)[1].reply_to, name)


@suite.case("reply-to.cc", "a direct reply-to name in a CC header", "delivered there as well")
def _():
    with Requester() as desk:
        desk.channel.basic_publish("", desk.mailbox, b"both", pika.BasicProperties(headers={"CC": [desk.name]}))
        equal(desk.replies.wait(1)[0][2], b"both")
        equal(desk.get(desk.mailbox)[2], b"both")


@suite.case("reply-to.passive", "declaring a name while its requester listens, and the pseudo-queue, passively or not",
            "declare-ok: 0 messages, 1 consumer")
def _():
    with Requester() as desk, Desk() as server:
        for name in (desk.name, REPLY_TO):
            for passive in (True, False):
                found = server.channel.queue_declare(name, passive=passive).method
                equal((found.queue, found.message_count, found.consumer_count), (name, 0, 1))


def gone(leave):
    def act():
        with Requester() as desk, Desk() as server:
            leave(desk)
            expected = f"NOT_FOUND - no queue '{desk.name}' in vhost '{suite.uri.vhost}'"
            # the end of a channel is not awaited by other connections
            answer = eventually(lambda: refusal(server, desk.name), "refused")
            equal(answer, (404, expected))

    return act


def refusal(desk, name):
    try:
        desk.connection.channel().queue_declare(name, passive=True)
    except CLOSED as closed:
        return closed.reply_code, closed.reply_text
    return None


for word, leave in (
    ("cancelled", lambda desk: desk.channel.basic_cancel("replies")),
    ("closed", lambda desk: desk.channel.close()),
    ("gone", lambda desk: desk.connection.close()),
):
    suite.add(f"reply-to.passive-{word}", f"passive declare of a name whose consumer is {word}",
              "channel closed: 404 `NOT_FOUND - no queue '...' in vhost '{vhost}'` (50, 10)", gone(leave))


@suite.case("reply-to.again", "a reply consumer after the first was cancelled", "another name; the first leads nowhere")
def _():
    with Requester() as desk:
        desk.channel.basic_cancel("replies")
        replies = Consumer(desk.channel, REPLY_TO, auto_ack=True)
        desk.channel.basic_publish("", desk.mailbox, b"", pika.BasicProperties(reply_to=REPLY_TO))
        name = desk.get(desk.mailbox, auto_ack=True)[1].reply_to
        desk.channel.basic_publish("", desk.name, b"late")
        desk.channel.basic_publish("", name, b"now")
        equal((name != desk.name, replies.wait(1)[0][2]), (True, b"now"))


@suite.case("reply-to.many", "two channels of a connection with reply consumers", "each gets its own replies")
def _():
    with Requester() as desk:
        other = desk.connection.channel()
        replies = Consumer(other, REPLY_TO, auto_ack=True)
        other.basic_publish("", desk.mailbox, b"", pika.BasicProperties(reply_to=REPLY_TO))
        other.basic_publish("", desk.get(desk.mailbox, auto_ack=True)[1].reply_to, b"other")
        other.basic_publish("", desk.name, b"first")
        equal((desk.replies.wait(1)[0][2], replies.wait(1)[0][2]), (b"first", b"other"))


@suite.case("reply-to.transaction", "a reply within a transaction", "delivered at tx.commit, not before")
def _():
    with Requester() as desk, Desk() as server:
        server.channel.tx_select()
        server.channel.basic_publish("", desk.name, b"x")
        desk.later()
        equal(desk.replies.bodies, [])
        server.channel.tx_commit()
        equal(desk.replies.wait(1)[0][2], b"x")


@suite.case("reply-to.prefetch", "replies beyond the prefetch of the channel", "delivered: a reply is never unsettled")
def _():
    with Desk() as desk:
        desk.channel.basic_qos(prefetch_count=1)
        mailbox = desk.queue()
        replies = Consumer(desk.channel, REPLY_TO, auto_ack=True)
        desk.channel.basic_publish("", mailbox, b"", pika.BasicProperties(reply_to=REPLY_TO))
        name = desk.get(mailbox)[1].reply_to
        for _number in range(5):
            desk.channel.basic_publish("", name, b"x")
        replies.wait(5)


@suite.case("reply-to.delete", "queue.delete of the pseudo-queue and of a name", "delete-ok, nothing changes")
def _():
    with Requester() as desk:
        for name in (REPLY_TO, desk.name):
            equal(desk.channel.queue_delete(name).method.message_count, 0)
        desk.channel.basic_publish("", desk.name, b"still")
        equal(desk.replies.wait(1)[0][2], b"still")


@suite.case("reply-to.across", "a request over 0-9-1 answered over AMQP 1.0: by a link to its reply-to and by the anonymous "
            "terminus", "reply-to is `/queues/` and the name; both replies are delivered with their correlation-id")
def _():
    with Requester() as desk:
        desk.channel.basic_publish("", desk.mailbox, b"ask", pika.BasicProperties(reply_to=REPLY_TO, correlation_id="c"))
        uri = suite.uri
        server = BlockingConnection(f"amqp://{uri.host}:{uri.port}", timeout=10, user=uri.user, password=uri.password,
                                    allowed_mechs="PLAIN")
        receiver = server.create_receiver(f"/queues/{desk.mailbox}")
        request = receiver.receive(timeout=10)
        receiver.accept()
        equal(urllib.parse.unquote(request.reply_to), f"/queues/{desk.name}")
        for sender, address in ((server.create_sender(request.reply_to), None), (server.create_sender(None), request.reply_to)):
            sender.send(Message(address=address, body=b"answer", inferred=True, correlation_id=request.correlation_id))
        answers = [(properties.correlation_id, body) for _method, properties, body in desk.replies.wait(2)]
        equal(answers, [("c", b"answer")] * 2)
        server.close()
