"""Topic permissions: which keys of a topic exchange a user may publish with and bind, over each protocol.

The user may do anything with all names; of `amq.topic` it has what is like `^allowed`.
"""

import pika
from pika import exceptions

from lab.cases import equal
from suites.permission_bench import allow_topics, restricted, suite
from suites.permission_matrix import Row, act_10, act_management, map_body

EXCHANGE = "amq.topic"
QUEUE = "foreign.topic"
WORDS = "{permission} access to topic '{key}' in exchange 'amq.topic' in vhost '{vhost}' refused for user '{user}'"


def open_as(uri):
    return pika.BlockingConnection(pika.ConnectionParameters(
        uri.host, uri.port, uri.vhost, pika.PlainCredentials(uri.user, uri.password), socket_timeout=15))


def with_keys(act):
    """Runs `act(uri, channel, key)` with a key that is allowed, then with one that is not; the channel has a queue."""
    with restricted((".*", ".*", ".*")) as uri:
        allow_topics(uri, EXCHANGE, "^allowed")
        connection = open_as(uri)
        channel = connection.channel()
        channel.queue_declare(QUEUE, auto_delete=True)
        channel.confirm_delivery()
        try:
            for key in ("allowed.key", "denied.key"):
                act(uri, channel, key)
        finally:
            connection.channel().queue_delete(QUEUE)
            connection.close()


def said(uri, key, permission):
    return WORDS.format(permission=permission, key=key, vhost=uri.vhost, user=uri.user)


def over_091(permission, act):
    def once(uri, channel, key):
        try:
            act(channel, key)
        except exceptions.ChannelClosedByBroker as closed:
            equal((key, closed.reply_code, closed.reply_text),
                  ("denied.key", 403, f"ACCESS_REFUSED - {said(uri, key, permission)}"))
            return
        equal(key, "allowed.key")

    return lambda: with_keys(once)


for name, permission, act in [
    ("publish", "write", lambda channel, key: channel.basic_publish(EXCHANGE, key, b"x")),
    ("bind", "read", lambda channel, key: channel.queue_bind(QUEUE, EXCHANGE, key)),
]:
    words = WORDS.replace("{permission}", permission).replace("{key}", "denied.key")
    suite.add(f"topic-{name}", f"0-9-1: {name} with a key that topic permissions forbid",
              f"channel closed: 403 `ACCESS_REFUSED - {words}`", over_091(permission, act))


ENDED = "session ended: amqp:unauthorized-access {words}"


def over_10(act, permission, allowed):
    def once(uri, _channel, key):
        expected = allowed if key == "allowed.key" else ENDED.format(words=said(uri, key, permission))
        equal(act(uri, {"key": key, "queue": QUEUE}), expected, key)

    return lambda: with_keys(once)


UNBIND_EXCHANGE = lambda n: ("DELETE", f"/bindings/src={EXCHANGE};dste=amq.fanout;key={n['key']};args=")  # noqa: E731

for name, words, build, act, permission, allowed, tidy in [
    ("10.send", "AMQP 1.0: a message over a sender to `/exchanges/amq.topic/KEY`",
     lambda n: (False, f"/exchanges/{EXCHANGE}/{n['key']}", "it has a target"), act_10, "write", "released", None),
    ("10.send-anonymous", "AMQP 1.0: a message to `/exchanges/amq.topic/KEY` over the anonymous terminus",
     lambda n: (False, None, f"/exchanges/{EXCHANGE}/{n['key']}"), act_10, "write", "released", None),
    ("management.post-binding", "the management node: POST /bindings of a queue with KEY",
     lambda n: ("POST", "/bindings", map_body(source=EXCHANGE, binding_key=n["key"], destination_queue=QUEUE,
                                              arguments={})), act_management, "read", "204", None),
    ("management.post-binding-exchange", "the management node: POST /bindings of an exchange with KEY",
     lambda n: ("POST", "/bindings", map_body(source=EXCHANGE, binding_key=n["key"], destination_exchange="amq.fanout",
                                              arguments={})), act_management, "read", "204", UNBIND_EXCHANGE),
    ("management.delete-binding", "the management node: DELETE /bindings/... with KEY",
     lambda n: ("DELETE", f"/bindings/src={EXCHANGE};dstq={QUEUE};key={n['key']};args="), act_management, "read", "204",
     None),
    ("management.get-bindings", "the management node: GET /bindings?... with KEY",
     lambda n: ("GET", f"/bindings?dstq={QUEUE}&src={EXCHANGE}&key={n['key']}"), act_management, "read", "200", None),
]:
    row = Row(name, words, [], build, allowed, tidy)
    shown = ENDED.format(words=WORDS.replace("{permission}", permission).replace("{key}", "denied.key"))
    suite.add(f"topic-{name}", f"{words}, where topic permissions forbid it", f"`{shown}`; permitted: `{allowed}`",
              over_10(act(row), permission, allowed))
