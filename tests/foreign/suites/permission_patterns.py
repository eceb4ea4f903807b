"""Patterns that look around, refer back or forbid to go back, in permissions and topic permissions; and one that would never end.

Each user may declare what the pattern matches, and nothing else.
"""

from pika import exceptions

from lab.cases import equal
from suites.permission_bench import allow_topics, restricted, suite
from suites.permission_topics import open_as

NAMES = [
    (r"^(?!secret).*", ["public", "a.secret"], ["secret", "secret.q"]),
    (r"^(.*(?<![E|e]rror))?$", ["orders"], ["orders_error", "ordersError"]),
    (r"^(?=.*-in$)team", ["team.a-in"], ["team.a-out", "other-in"]),
    (r"(?<=^app\.)own", ["app.own"], ["own", "xapp.own"]),
    (r"^(\w+)\.\1$", ["a.a", "bc.bc"], ["a.b"]),
    (r"^(?<n>[a-z])\k<n>$", ["aa"], ["ab"]),
    (r"^(?>a+)b", ["aab"], ["aac"]),
    (r"^a++b", ["aab"], ["b"]),
    (r"^(x)?(?(1)1|2)$", ["x1", "2"], ["1"]),
    (r"^\Qa.b\E\d$", ["a.b1"], ["axb1", "a.b"]),
]
FOREVER = r"^(?:(a+)+)+\1$(?<!a)"


def declares(uri, name):
    """Whether the user may declare a queue of this name."""
    connection = open_as(uri)
    try:
        channel = connection.channel()
        channel.queue_declare(name, exclusive=True)
        return True
    except exceptions.ChannelClosedByBroker as closed:
        equal(closed.reply_code, 403)
        return False
    finally:
        if connection.is_open:
            connection.close()


@suite.case("patterns.names", "ten patterns with look-ahead, look-behind, references, atomic groups, possessive quantifiers, conditions and quoted text",
            "the user may declare what each matches, and is refused with 403 what it does not")
def names():
    wrong = []
    for pattern, yes, no in NAMES:
        with restricted((pattern, ".*", ".*")) as uri:
            wrong += [(pattern, name) for name in yes + no if declares(uri, name) != (name in yes)]
    equal(wrong, [])


@suite.case("patterns.topics", "topic permissions that look ahead and behind, with the user's name in them",
            "keys that do not match are refused, the others are not")
def topics():
    with restricted((".*", ".*", ".*")) as uri:
        allow_topics(uri, "amq.topic", r"^(?!secret\.)(?!{username}\.x).*(?<!\.internal)$")
        for key, is_allowed in [("a.b", True), ("secret.a", False), ("secretary.a", True), ("a.internal", False), (f"{uri.user}.x", False),
                                (f"{uri.user}.y", True)]:
            connection = open_as(uri)
            channel = connection.channel()
            channel.confirm_delivery()
            try:
                channel.basic_publish("amq.topic", key, b"x")
                found = True
            except exceptions.ChannelClosedByBroker as closed:
                found = closed.reply_code != 403
            equal(found, is_allowed, key)
            connection.close()


@suite.case("patterns.forever", "a pattern that takes more steps than there is time for, and whoever else is there",
            "refused with 403; another connection is answered meanwhile")
def forever():
    with restricted((FOREVER, ".*", ".*")) as uri:
        other = open_as(uri)
        channel = other.channel()
        equal([declares(uri, "a" * length) for length in (200, 200, 255)], [False] * 3)
        channel.basic_qos(prefetch_count=1)
        other.close()
