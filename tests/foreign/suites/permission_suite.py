"""All permission cases: what a user may not do, operation by operation and over both protocols."""

from pika import exceptions

from lab.cases import equal
from suites import (  # noqa: F401 - importing registers the cases
    permission_matrix, permission_patterns, permission_tokens, permission_topics,
)
from suites.permission_bench import options, restricted, suite
from suites.permission_topics import open_as

PATTERN = "^allowed"


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


if __name__ == "__main__":
    suite.main(options)
