"""Queues by the user that declared them, in the HTTP API."""

import urllib.parse

import pika
from lab.cases import equal, eventually
from proton.utils import BlockingConnection
from suites.proton_pair import Pair

ANY = {"configure": ".*", "write": ".*", "read": ".*"}


def old(vhost, user):
    parameters = pika.URLParameters(vhost.api.uri)
    parameters.virtual_host = vhost.name
    parameters.credentials = pika.PlainCredentials(user, user)
    return pika.BlockingConnection(parameters)


def new(vhost, user):
    parts = urllib.parse.urlsplit(vhost.api.uri)
    uri = f"amqp://{user}:{user}@{parts.hostname}:{parts.port}"
    return BlockingConnection(uri, allowed_mechs="PLAIN", timeout=15, virtual_host=f"vhost:{vhost.name}")


def queues(vhost):
    """Queues by whoever declares them, over every protocol, and who is shown them."""
    api = vhost.api
    user, other = f"{vhost.name}-u", f"{vhost.name}-o"

    def names(of, seen_by="guest", query=""):
        found = api.get(f"/users/{of}/queues{query}", user=seen_by)
        rows = found["items"] if query else found
        return [row["name"] for row in rows if row["vhost"] == vhost.name]

    def declare(name, by):
        return api.status("PUT", f"/queues/{vhost.name}/{name}", {"durable": True}, user=by)

    try:
        for name in (user, other):
            equal(api.status("PUT", f"/users/{name}", {"password": name, "tags": "management"}), 201)
        equal(api.status("PUT", f"/permissions/{vhost.name}/{user}", ANY), 201)
        equal([declare("a", "guest"), declare("b", user), declare("a", user)], [201, 201, 204])
        imported = {"queues": [{"name": "c", "vhost": vhost.name, "durable": True, "auto_delete": False, "arguments": {}}]}
        equal(api.status("POST", "/definitions", imported), 204)
        first, second = old(vhost, user), new(vhost, user)
        channel = first.channel()
        channel.queue_declare("d", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_declare("e", exclusive=True)
        channel.queue_declare("c", durable=True)
        equal(Pair(second).ask("PUT", "/queues/f", {})[0], "201")
        # RabbitMQ tells of what is new after a while.
        eventually(lambda: names(user) == ["b", "d", "e", "f"], "the queues of who declared them", 25, 0.5)
        equal(names("guest"), ["a", "c"])
        equal([names("guest", user), names("guest", other), names("none-such")], [["a", "c"], [], []])
        equal(names(user, query="?page=2&page_size=3"), ["f"])
        equal(names(user, query="?page=1&name=%5Bde%5D&use_regex=true&sort=name&sort_reverse=true"), ["e", "d"])
        second.close()
        first.close()
        eventually(lambda: names(user) == ["b", "d", "f"], "the queues that are left", 25, 0.5)
        # They stay those of a user who is gone.
        equal(api.status("DELETE", f"/users/{user}"), 204)
        equal(names(user), ["b", "d", "f"])
        equal(api.status("POST", f"/users/{user}/queues", {}), 405)
    finally:
        for name in (user, other):
            api.status("DELETE", f"/users/{name}")
