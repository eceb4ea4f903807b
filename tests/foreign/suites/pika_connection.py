"""Connections and channels through pika: login, what is announced, heartbeats, ends."""

import pika
from pika import exceptions

from lab.cases import equal
from suites.pika_bench import Consumer, Desk, connect, fresh, suite

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


@suite.case("login.direct-reply-to", "the capability direct_reply_to", "announced")
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


@suite.case("update-secret", "connection.update-secret, with the password and with another",
            "update-secret-ok; the connection goes on")
def _():
    with Desk() as desk:
        queue = desk.queue()
        for secret in (suite.uri.password, "another"):
            desk.connection.update_secret(secret, "it is time")
        desk.fill(queue, [b"x"])
        equal(desk.get(queue)[2], b"x")
