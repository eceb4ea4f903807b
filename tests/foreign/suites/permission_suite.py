"""What a user may not do: refusals of configure, write, read and of a virtual host.

Needs a user that may touch nothing but names beginning `allowed`: made over the HTTP API
(--admin), or the default user of a broker of our own whose settings say so (--broker).
Permissions are looked at before names are, so nothing has to exist.
"""

import atexit
import base64
import contextlib
import json
import os
import urllib.parse
import urllib.request

import pika
from pika import exceptions

from lab.broker import Broker
from lab.cases import Skip, Suite, Uri, equal
from suites.pika_bench import CloseWatch

suite = Suite("permission")
PATTERN = "^allowed"
PERMISSIONS = ("configure", "write", "read")
_started = []


class Api:
    """The few calls of the HTTP API that make a user."""

    def __init__(self, base):
        parts = urllib.parse.urlsplit(base)
        self.root = f"{parts.scheme}://{parts.hostname}:{parts.port}/api"
        self.login = base64.b64encode(f"{parts.username}:{parts.password}".encode()).decode()

    def call(self, method, path, value=None):
        request = urllib.request.Request(
            f"{self.root}/{path}", None if value is None else json.dumps(value).encode(), method=method,
            headers={"authorization": f"Basic {self.login}", "content-type": "application/json"})
        urllib.request.urlopen(request, timeout=10).close()


@contextlib.contextmanager
def made_user(permitted):
    api, name, vhost = Api(suite.options.admin), f"foreign-{os.getpid():x}", urllib.parse.quote(suite.uri.vhost, safe="")
    api.call("PUT", f"users/{name}", {"password": "secret", "tags": ""})
    try:
        if permitted:
            api.call("PUT", f"permissions/{vhost}/{name}", {permission: PATTERN for permission in PERMISSIONS})
        yield suite.uri, name, "secret"
    finally:
        api.call("DELETE", f"users/{name}")


@contextlib.contextmanager
def restricted():
    """(uri, user, password) of the user that may touch `allowed` names alone."""
    if suite.options.admin:
        with made_user(True) as user:
            yield user
    elif suite.options.broker:
        if not _started:
            settings = [f"default_permissions.{permission}={PATTERN}" for permission in PERMISSIONS]
            _started.append(Broker(suite.options.broker, settings))
            atexit.register(_started[0].close)
            _started[0].start()
        yield Uri(_started[0].uri), "guest", "guest"
    else:
        raise Skip("needs another user: --admin or --broker")


def open_as(uri, user, password):
    return pika.BlockingConnection(pika.ConnectionParameters(
        uri.host, uri.port, uri.vhost, pika.PlainCredentials(user, password), socket_timeout=15))


ROWS = [
    ("configure", "declaring a queue", "configure", "queue", "denied", (50, 10),
     lambda channel: channel.queue_declare("denied")),
    ("configure-exchange", "declaring an exchange", "configure", "exchange", "denied", (40, 10),
     lambda channel: channel.exchange_declare("denied")),
    ("delete", "deleting a queue", "configure", "queue", "denied", (50, 40),
     lambda channel: channel.queue_delete("denied")),
    ("consume", "consuming", "read", "queue", "denied", (60, 20),
     lambda channel: channel.basic_consume("denied", lambda *_: None)),
    ("get", "basic.get", "read", "queue", "denied", (60, 70), lambda channel: channel.basic_get("denied")),
    ("purge", "purging", "read", "queue", "denied", (50, 30), lambda channel: channel.queue_purge("denied")),
    ("bind-queue", "binding a queue that may not be written", "write", "queue", "denied", (50, 20),
     lambda channel: channel.queue_bind("denied", "allowed", "k")),
    ("bind-exchange", "binding to an exchange that may not be read", "read", "exchange", "amq.direct", (50, 20),
     lambda channel: channel.queue_bind("allowed", "amq.direct", "k")),
    ("publish", "publishing to an exchange", "write", "exchange", "amq.direct", (60, 40),
     lambda channel: (channel.confirm_delivery(), channel.basic_publish("amq.direct", "k", b""))),
    ("publish-default", "publishing to the default exchange", "write", "exchange", "amq.default", (60, 40),
     lambda channel: (channel.confirm_delivery(), channel.basic_publish("", "allowed", b""))),
]


def denied(act, expected, ids):
    with restricted() as (uri, user, password):
        connection = open_as(uri, user, password)
        try:
            channel = connection.channel()
            watch = CloseWatch(channel)
            act(channel)
        except exceptions.ChannelClosedByBroker as closed:
            text = expected.format(vhost=uri.vhost, user=user)
            equal((closed.reply_code, closed.reply_text, watch.ids), (403, text, ids))
            connection.channel()
        else:
            raise AssertionError("it was allowed")
        finally:
            connection.close()


for name, words, permission, kind, resource, ids, act in ROWS:
    text = f"ACCESS_REFUSED - {permission} access to {kind} '{resource}' in vhost '{{vhost}}' refused for user '{{user}}'"
    suite.add(name, f"{words} without {permission} permission", f"channel closed: 403 `{text}` {ids}",
              lambda act=act, text=text, ids=ids: denied(act, text, ids))


@suite.case("allowed", "what the same user is permitted: declare, publish through an exchange of its own, consume", "done")
def _():
    with restricted() as (uri, user, password):
        connection = open_as(uri, user, password)
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
    if not suite.options.admin:
        raise Skip("needs a second user: --admin")
    with made_user(False) as (uri, user, password):
        try:
            open_as(uri, user, password).close()
        except exceptions.ProbableAccessDeniedError as error:
            text = f"(530) \"NOT_ALLOWED - access to vhost '{uri.vhost}' refused for user '{user}'\""
            equal(text in str(error), True, str(error))
            return
    raise AssertionError("it was opened")


def options(parser):
    parser.add_argument("--broker", default="", help="a leveret to start with such a default user")


if __name__ == "__main__":
    suite.main(options)
