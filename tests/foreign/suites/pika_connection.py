"""Connections and channels through pika: login, what is announced, heartbeats, ends."""

import base64
import json
import urllib.parse
import urllib.request

import pika
from pika import exceptions

from lab.cases import Skip, equal
from suites.pika_bench import Consumer, Desk, connect, fresh, parameters, suite

CAPABILITIES = [
    "publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
    "connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos",
]
REFUSED_LOGIN = (
    "(403) 'ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
    "For details see the broker logfile.'"
)


def refused(exception, text, **changed):
    try:
        connect(**changed).close()
    except exception as error:
        if text not in str(error):
            raise AssertionError(f"saw {error}, expected {text}") from error
        return
    raise AssertionError("the connection was opened")


@suite.case("login.wrong-password", "a wrong password", f"connection closed: {REFUSED_LOGIN}")
def _():
    refused(exceptions.ProbableAuthenticationError, REFUSED_LOGIN,
            credentials=pika.PlainCredentials(suite.uri.user, "wrong"))


@suite.case("login.unknown-user", "an unknown user", f"connection closed: {REFUSED_LOGIN}")
def _():
    refused(exceptions.ProbableAuthenticationError, REFUSED_LOGIN,
            credentials=pika.PlainCredentials("nobody", "wrong"))


@suite.case("login.unknown-vhost", "an unknown virtual host",
            "connection closed: (530) 'NOT_ALLOWED - vhost absent not found'")
def _():
    refused(exceptions.ProbableAccessDeniedError, "(530) 'NOT_ALLOWED - vhost absent not found'",
            virtual_host="absent")


@suite.case("login.properties", "server-properties in connection.start",
            "product `RabbitMQ`, version `4.3.6`, its capabilities (direct_reply_to apart)")
def _():
    with connect() as connection:
        seen = connection._impl.server_properties
        equal((seen["product"], seen["version"]), ("RabbitMQ", "4.3.6"))
        equal([name for name in CAPABILITIES if seen["capabilities"].get(name) is not True], [], "missing")


@suite.case("login.direct-reply-to", "the capability direct_reply_to", "announced", later=True)
def _():
    with connect() as connection:
        equal(connection._impl.server_properties["capabilities"].get("direct_reply_to"), True)


@suite.case("tune.defaults", "connection.tune", "frame-max 131072, channel-max 2047, heartbeat 60")
def _():
    with connect() as connection:
        tuned = connection._impl.params
        equal((tuned.frame_max, tuned.channel_max, tuned.heartbeat), (131072, 2047, 60))


@suite.case("tune.lower", "a client that asks for less", "granted; a large body still passes")
def _():
    with Desk(frame_max=8192, channel_max=10, heartbeat=20) as desk:
        tuned = desk.connection._impl.params
        equal((tuned.frame_max, tuned.channel_max, tuned.heartbeat), (8192, 10, 20))
        queue = desk.queue()
        body = bytes(100_000)
        desk.fill(queue, [body])
        equal(desk.get(queue)[2] == body, True, "body")


@suite.case("tune.no-heartbeat", "a client that wants no heartbeats", "granted")
def _():
    with connect(heartbeat=0) as connection:
        equal(connection._impl.params.heartbeat, 0)


@suite.case("heartbeat.idle", "an idle connection with a heartbeat of 1 s", "still open after 4 s")
def _():
    with Desk(heartbeat=1) as desk:
        queue = desk.queue()
        consumer = Consumer(desk.channel, queue)
        desk.connection.sleep(4)
        desk.fill(queue, [b"x"])
        equal(consumer.wait(1)[0][2], b"x")


@suite.case("channel.many", "200 channels at once, closed and opened again", "each works")
def _():
    with Desk() as desk:
        queue = desk.queue()
        for _ in range(2):
            channels = [desk.connection.channel() for _ in range(200)]
            for channel in channels:
                channel.basic_publish("", queue, b"x")
            for channel in channels:
                channel.close()
        desk.fill(queue, [b"last"])
        equal(len(desk.drained(queue)), 401)


@suite.case("channel.number-reused", "a channel number after a channel error", "may be opened again")
def _():
    with Desk() as desk:
        for _ in range(3):
            channel = desk.connection.channel(channel_number=5)
            try:
                channel.queue_declare(fresh("absent"), passive=True)
            except exceptions.ChannelClosedByBroker as closed:
                equal(closed.reply_code, 404)
        channel = desk.connection.channel(channel_number=5)
        equal(channel.is_open, True)


class OtherUser:
    """A user that may touch only names beginning `allowed`, made over the HTTP API."""

    def __init__(self):
        base = suite.options.admin
        if not base:
            raise Skip("needs the HTTP API to make a user (--admin)")
        parts = urllib.parse.urlsplit(base)
        login = base64.b64encode(f"{parts.username}:{parts.password}".encode()).decode()
        root = f"{parts.scheme}://{parts.hostname}:{parts.port}/api"
        self.name, self.password = fresh("user"), "secret"
        vhost = urllib.parse.quote(suite.uri.vhost, safe="")

        def call(method, path, value=None):
            request = urllib.request.Request(
                f"{root}/{path}", None if value is None else json.dumps(value).encode(), method=method,
                headers={"authorization": f"Basic {login}", "content-type": "application/json"})
            urllib.request.urlopen(request, timeout=10).close()

        self.call = call
        call("PUT", f"users/{self.name}", {"password": self.password, "tags": ""})
        call("PUT", f"permissions/{vhost}/{self.name}",
             {"configure": "^allowed", "write": "^allowed", "read": "^allowed"})

    def __enter__(self):
        return pika.PlainCredentials(self.name, self.password)

    def __exit__(self, *_error):
        self.call("DELETE", f"users/{self.name}")


PERMISSION_ROWS = [
    ("configure", "declaring a queue without configure permission", "configure", "queue", "denied",
     lambda channel, _queue: channel.queue_declare("denied")),
    ("read", "consuming without read permission", "read", "queue", "{queue}",
     lambda channel, queue: channel.basic_consume(queue, lambda *_: None)),
    ("get", "basic.get without read permission", "read", "queue", "{queue}",
     lambda channel, queue: channel.basic_get(queue)),
    ("write", "publishing without write permission", "write", "exchange", "amq.direct",
     lambda channel, _queue: (channel.confirm_delivery(), channel.basic_publish("amq.direct", "k", b""))),
    ("write-default", "publishing to the default exchange without write permission", "write", "exchange",
     "amq.default", lambda channel, queue: (channel.confirm_delivery(), channel.basic_publish("", queue, b""))),
    ("bind", "binding without write permission on the queue", "write", "queue", "{queue}",
     lambda channel, queue: channel.queue_bind(queue, "allowed", "k")),
    ("delete", "deleting without configure permission", "configure", "queue", "{queue}",
     lambda channel, queue: channel.queue_delete(queue)),
    ("purge", "purging without read permission", "read", "queue", "{queue}",
     lambda channel, queue: channel.queue_purge(queue)),
]
DENIED = "ACCESS_REFUSED - %s access to %s '%s' in vhost '{vhost}' refused for user '{user}'"


def denied(action, text):
    with OtherUser() as credentials, Desk() as desk:
        queue = desk.queue()
        connection = pika.BlockingConnection(parameters(credentials=credentials))
        try:
            action(connection.channel(), queue)
        except exceptions.ChannelClosedByBroker as closed:
            expected = text.format(queue=queue, vhost=suite.uri.vhost, user=credentials.username)
            equal((closed.reply_code, closed.reply_text), (403, expected))
        else:
            raise AssertionError("it was allowed")
        finally:
            connection.close()


for name, words, permission, kind, resource, action in PERMISSION_ROWS:
    text = DENIED % (permission, kind, resource)
    suite.add(f"permission.{name}", words, f"channel closed: 403 `{text}`",
              lambda action=action, text=text: denied(action, text))


@suite.case("permission.vhost", "a user without permissions in the virtual host",
            "connection closed: (530) `NOT_ALLOWED - access to vhost '{vhost}' refused for user '{user}'`")
def _():
    user = OtherUser()
    vhost = suite.uri.vhost
    with user as credentials:
        user.call("DELETE", f"permissions/{urllib.parse.quote(vhost, safe='')}/{user.name}")
        refused(exceptions.ProbableAccessDeniedError,
                f"NOT_ALLOWED - access to vhost '{vhost}' refused for user '{user.name}'", credentials=credentials)
