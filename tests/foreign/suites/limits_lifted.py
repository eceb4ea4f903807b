"""Bounds that RabbitMQ does not have, where a key has lifted them."""

from lab.cases import Uri, equal
from lab.wire10 import ATTACH, END, Peer10
from suites.limits_bench import connect, refusal, started, suite

LIFTED = ("leveret.arguments_max=infinity", "leveret.link_name_bytes_max=infinity", "leveret.topic_words_max=infinity")


@suite.case("lifted.words", "a topic pattern of 255 words where leveret.topic_words_max is infinity",
            "bound, and matches; by default ours has 250 words at most")
def _():
    channel = connect(Uri(started(*LIFTED).uri)).channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "amq.topic", "*" + "." * 254)
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "a" + "." * 254, b"", mandatory=True)
    equal(channel.basic_get(queue, auto_ack=True)[0] is not None, True, "routed")


@suite.case("lifted.arguments", "a binding with 1,025 arguments where leveret.arguments_max is infinity",
            "bound; by default ours has 1,024 arguments at most")
def _():
    channel = connect(Uri(started(*LIFTED).uri)).channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    arguments = {f"h{at}": at for at in range(1025)}
    equal(refusal(lambda: channel.queue_bind(queue, "amq.headers", "", arguments)), None)


def attached(uri, name):
    """The answer to an attach under this name: the name, or an error's condition and text."""
    with Peer10(uri) as peer:
        peer.login10()
        peer.session()
        peer.attach(name, 0, False, "/exchanges/amq.fanout")
        while True:
            value = peer.frame10()[1]
            if value.code == ATTACH:
                return value.value[0]
            if value.code == END:
                return tuple(value.value[0].value[:2])


@suite.case("lifted.link-name", "AMQP 1.0: a link with a name of 1,025 bytes, and one of 5,000 where "
            "leveret.link_name_bytes_max is infinity",
            "ours: session ended: amqp:resource-limit-exceeded `a link's name has 1025 bytes, at most 1024 "
            "(leveret.link_name_bytes_max)`; attached. RabbitMQ has no bound")
def _():
    text = "a link's name has 1025 bytes, at most 1024 (leveret.link_name_bytes_max)"
    usual = Uri(started().uri)
    equal(attached(usual, "n" * 1024), "n" * 1024)
    equal(attached(usual, "n" * 1025), ("amqp:resource-limit-exceeded", text))
    equal(attached(Uri(started(*LIFTED).uri), "n" * 5000), "n" * 5000)
