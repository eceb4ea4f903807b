"""All permission cases: what a user may not do, operation by operation and over both protocols."""

import pika
from pika import exceptions

from lab.cases import equal
from suites import permission_matrix  # noqa: F401 - importing registers the cases
from suites.permission_bench import allow_topics, options, restricted, suite

PATTERN = "^allowed"


def open_as(uri):
    return pika.BlockingConnection(pika.ConnectionParameters(
        uri.host, uri.port, uri.vhost, pika.PlainCredentials(uri.user, uri.password), socket_timeout=15))


@suite.case("allowed", "what the same user is permitted: declare, publish through an exchange of its own, consume", "done")
def _():
    with restricted((PATTERN, PATTERN, PATTERN)) as uri:
        connection = open_as(uri)
        channel = connection.channel()
        channel.queue_declare("allowed", auto_delete=True)
        channel.exchange_declare("allowed", "fanout", auto_delete=True)
        channel.queue_bind("allowed", "allowed")
        channel.confirm_delivery()
        channel.basic_publish("allowed", "", b"x")
        taken = next(channel.consume("allowed", inactivity_timeout=10))
        equal(taken[2], b"x")
        connection.close()


@suite.case("vhost", "a user without permissions in the virtual host",
            "connection closed: 530 `NOT_ALLOWED - access to vhost '{vhost}' refused for user '{user}'`")
def _():
    with restricted(None) as uri:
        try:
            open_as(uri).close()
        except exceptions.ProbableAccessDeniedError as error:
            text = f"(530) \"NOT_ALLOWED - access to vhost '{uri.vhost}' refused for user '{uri.user}'\""
            equal(text in str(error), True, str(error))
            return
    raise AssertionError("it was opened")


def topic(act, words):
    with restricted((".*", ".*", ".*")) as uri:
        allow_topics(uri, "amq.topic", "^allowed")
        connection = open_as(uri)
        channel = connection.channel()
        channel.queue_declare("foreign.topic", exclusive=True)
        channel.confirm_delivery()
        act(channel, "allowed.key")
        try:
            act(channel, "denied.key")
        except exceptions.ChannelClosedByBroker as closed:
            text = f"ACCESS_REFUSED - {words} in vhost '{uri.vhost}' refused for user '{uri.user}'"
            equal((closed.reply_code, closed.reply_text), (403, text))
            connection.close()
            return
        raise AssertionError("it was allowed")


for name, words, act in [
    ("publish", "write access to topic 'denied.key' in exchange 'amq.topic'",
     lambda channel, key: channel.basic_publish("amq.topic", key, b"x")),
    ("bind", "read access to topic 'denied.key' in exchange 'amq.topic'",
     lambda channel, key: channel.queue_bind("foreign.topic", "amq.topic", key)),
]:
    suite.add(f"topic-{name}", f"0-9-1: {name} with a key that topic permissions forbid",
              f"channel closed: 403 `ACCESS_REFUSED - {words} in vhost '{{vhost}}' refused for user '{{user}}'`",
              lambda act=act, words=words: topic(act, words))


if __name__ == "__main__":
    suite.main(options)
