"""Clients that are kept out, or thrown out: limits, mechanisms, deletions by an administrator."""

import re
import socket
import struct

from proton.utils import BlockingConnection

from lab.cases import Uri, equal, eventually
from lab.wire import Closed
from lab.wire10 import Peer10
from lab.wire_stream import OK, Peer
from suites import limits_alarms, limits_alarms_first, limits_lifted, limits_settings  # noqa: F401 - registers the cases
from suites.limits_bench import Ctl, add_options, closed, connect, made, refusal, refused, started, suite


@suite.case("vhost.connections", "a connection more than max-connections of a virtual host",
            "connection closed: 530 `NOT_ALLOWED - access to vhost '...' refused for user '{user}': connection limit "
            "(1) is reached`; free again when one goes")
def _():
    with made("vhost", max_connections=1) as (admin, name):
        first = connect(admin.uri, vhost=name)
        expected = f"access to vhost '{name}' refused for user '{admin.uri.user}': connection limit (1) is reached"
        equal(expected in (refused(admin.uri, vhost=name) or ""), True, "refused")
        first.close()
        eventually(lambda: refused(admin.uri, vhost=name) is None, "admitted again")


@suite.case("vhost.none", "max-connections 0 of a virtual host", "nobody is let in")
def _():
    with made("vhost", max_connections=0) as (admin, name):
        equal("connection limit (0) is reached" in (refused(admin.uri, vhost=name) or ""), True)


@suite.case("vhost.queues", "a queue more than max-queues of a virtual host",
            "channel closed: 406 `PRECONDITION_FAILED - cannot declare queue 'two': queue limit in vhost '...' (1) is "
            "reached`; declaring the first again is allowed")
def _():
    with made("vhost", max_queues=1) as (admin, name):
        connection = connect(admin.uri, vhost=name)
        connection.channel().queue_declare("one", durable=True)
        connection.channel().queue_declare("one", durable=True)
        equal(refusal(lambda: connection.channel().queue_declare("two", durable=True)),
              (406, f"PRECONDITION_FAILED - cannot declare queue 'two': queue limit in vhost '{name}' (1) is reached"))
        connection.close()


@suite.case("vhost.deleted", "deleting a virtual host with a connection in it",
            "connection closed: 320 `CONNECTION_FORCED - vhost '...' is deleted`, at times `... is down`")
def _():
    with made("vhost") as (admin, name):
        connection = connect(admin.uri, vhost=name)
        connection.channel().queue_declare("q", exclusive=True)
        admin.delete_vhost(name)
        code, text = closed(connection) or (0, "")
        equal((code, text.replace("is down", "is deleted")), (320, f"CONNECTION_FORCED - vhost '{name}' is deleted"))


@suite.case("user.connections", "a connection more than max-connections of a user",
            "connection closed: 530 `NOT_ALLOWED - connection refused for user '...': user connection limit (1) is "
            "reached`")
def _():
    with made("user", max_connections=1) as (admin, name):
        first = connect(admin.uri, name, "secret")
        expected = f"connection refused for user '{name}': user connection limit (1) is reached"
        equal(expected in (refused(admin.uri, user=name, password="secret") or ""), True, "refused")
        first.close()


@suite.case("user.channels", "a channel more than max-channels of a user",
            "connection closed: 530 `NOT_ALLOWED - number of channels opened for user '...' has reached the maximum "
            "allowed user limit of 2`")
def _():
    with made("user", max_channels=2) as (admin, name):
        connection = connect(admin.uri, name, "secret")
        for _channel in range(2):
            connection.channel()
        equal(refusal(connection.channel),
              (530, f"NOT_ALLOWED - number of channels opened for user '{name}' has reached the maximum allowed user "
                    "limit of 2"))


@suite.case("user.both", "limits of a user set one after the other",
            "both count: what is not named stays as it was")
def _():
    with made("user", max_connections=1, max_channels=1) as (admin, name):
        connection = connect(admin.uri, name, "secret")
        expected = f"connection refused for user '{name}': user connection limit (1) is reached"
        equal(expected in (refused(admin.uri, user=name, password="secret") or ""), True, "refused")
        connection.channel()
        equal((refusal(connection.channel) or (0, ""))[0], 530)


@suite.case("user.deleted", "deleting a user who is connected",
            "connection closed: 320 `CONNECTION_FORCED - user '...' is deleted`")
def _():
    with made("user") as (admin, name):
        connection = connect(admin.uri, name, "secret")
        admin.delete_user(name)
        equal(closed(connection), (320, f"CONNECTION_FORCED - user '{name}' is deleted"))


@suite.case("node.connections", "a connection more than connection_max",
            "connection closed: 530 `NOT_ALLOWED - connection refused: node connection limit (2) is reached`")
def _():
    uri = Uri(started("connection_max=2").uri)
    both = [connect(uri), connect(uri)]
    expected = "connection refused: node connection limit (2) is reached"
    equal(expected in (refused(uri) or ""), True, "refused")
    both.pop().close()
    eventually(lambda: refused(uri) is None, "admitted again")
    both.pop().close()


@suite.case("node.connections-by-name", "a connection more than max_connections, the key's other name",
            "as with connection_max")
def _():
    uri = Uri(started("max_connections=1").uri)
    first = connect(uri)
    equal("connection refused: node connection limit (1) is reached" in (refused(uri) or ""), True)
    first.close()


@suite.case("node.stream-connections", "a connection more than stream.max_connections",
            "after 3 s response 0x0c to its open, then the connection ends; those of other protocols do not count, those "
            "that are not open yet do")
def _():
    broker = started("stream.max_connections=1", "stream.listeners.tcp.default=127.0.0.1:0")
    uri = Uri(broker.uri)
    other = connect(uri)
    first = Peer(uri, broker.stream_port())
    equal(first.opened.code, OK)
    with Peer(uri, broker.stream_port()) as second:
        equal(second.opened.code, 0x0c)
        second.ends()
    first.socket.close()
    eventually(lambda: peer_code(uri, broker.stream_port()) == OK, "admitted again")
    with Peer(uri, broker.stream_port(), upto=None):
        # It counts from where its shard has taken it, which another shard may be ahead of.
        eventually(lambda: peer_code(uri, broker.stream_port()) == 0x0c, "the connection that is not open counts")
    other.close()


def peer_code(uri, port):
    """The code that opening one more connection of the stream protocol is answered with."""
    with Peer(uri, port) as peer:
        return peer.opened.code


@suite.case("node.channels", "a channel more than channel_max_per_node, counted over all connections",
            "connection closed: 530 `NOT_ALLOWED - number of channels opened on node 'rabbit@HOST' has reached the "
            "maximum allowed limit of 3`; its channels are free again; sessions of AMQP 1.0 do not count")
def _():
    uri = Uri(started("channel_max_per_node=3").uri)
    sessions = BlockingConnection(uri.text, allowed_mechs="PLAIN", timeout=15)
    sessions.create_sender("/exchanges/amq.fanout")
    one, other = connect(uri), connect(uri)
    for connection in (one, one, other):
        connection.channel()
    code, text = refusal(one.channel) or (0, "")
    equal((code, re.sub("rabbit@[^']*", "N", text)),
          (530, "NOT_ALLOWED - number of channels opened on node 'N' has reached the maximum allowed limit of 3"))
    other.channel()
    other.channel()
    other.close()
    sessions.close()


@suite.case("node.queues", "a queue more than cluster_queue_limit",
            "channel closed: 406 `PRECONDITION_FAILED - cannot declare queue 'two': queue limit in cluster (1) is "
            "reached`; exclusive ones count; declaring the first again is allowed, bad arguments are refused for that")
def _():
    connection = connect(Uri(started("cluster_queue_limit=1").uri))
    connection.channel().queue_declare("one", durable=True)
    connection.channel().queue_declare("one", durable=True)
    text = "PRECONDITION_FAILED - cannot declare queue 'two': queue limit in cluster (1) is reached"
    equal(refusal(lambda: connection.channel().queue_declare("two", durable=True)), (406, text))
    equal(refusal(lambda: connection.channel().queue_declare("two", exclusive=True)), (406, text))
    code, text = refusal(lambda: connection.channel().queue_declare("two", arguments={"x-max-length": "s"})) or (0, "")
    equal((code, "invalid arg 'x-max-length' for queue 'two'" in text), (406, True))
    connection.close()


@suite.case("node.exchanges", "an exchange more than cluster_exchange_limit, predeclared ones counted",
            "channel closed: 406 `PRECONDITION_FAILED - cannot declare exchange 'two' in vhost '/': exchange limit of 8 "
            "is reached`; declaring the first again is allowed, an unknown type is refused for that")
def _():
    connection = connect(Uri(started("cluster_exchange_limit=8").uri))
    connection.channel().exchange_declare("one", "fanout", durable=True)
    connection.channel().exchange_declare("one", "fanout", durable=True)
    text = "PRECONDITION_FAILED - cannot declare exchange 'two' in vhost '/': exchange limit of 8 is reached"
    equal(refusal(lambda: connection.channel().exchange_declare("two", "fanout")), (406, text))
    equal(refusal(lambda: connection.channel().exchange_declare("two", "nonsense")),
          (406, "PRECONDITION_FAILED - unknown exchange type 'nonsense'"))
    connection.close()


@suite.case("node.vhosts", "a virtual host more than vhost_max, by the tool",
            "`cannot create vhost 'two': vhost limit of 2 is reached`; one that is there is no further one")
def _():
    admin = Ctl(started("vhost_max=2"))
    admin.add_vhost("one")
    admin.add_vhost("one")
    equal(admin.fails("add_vhost", "two"), "Error:\ncannot create vhost 'two': vhost limit of 2 is reached")
    admin.delete_vhost("one")
    admin.add_vhost("two")


@suite.case("queue.relaxed", "a quorum queue declared as a classic one where "
            "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration is true",
            "declared, whatever its durability; arguments that both types have must be the same: 406 `PRECONDITION_FAILED"
            " - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received '6' but current is '5'`; a classic "
            "queue is not declared as a quorum one")
def _():
    uri = Uri(started("quorum_queue.property_equivalence.relaxed_checks_on_redeclaration=true").uri)
    connection = connect(uri)

    def declare(name, queue_type, length=5, **flags):
        arguments = {"x-queue-type": queue_type, "x-max-length": length}
        return refusal(lambda: connection.channel().queue_declare(name, arguments=arguments, **flags))

    equal(declare("q", "quorum", durable=True), None)
    equal(declare("q", "classic", durable=True), None)
    equal(declare("q", "classic", auto_delete=True, exclusive=True), None)
    begin = "PRECONDITION_FAILED - inequivalent arg"
    equal(declare("q", "classic", 6, durable=True),
          (406, f"{begin} 'x-max-length' for queue 'q' in vhost '/': received '6' but current is '5'"))
    equal(declare("c", "classic", durable=True), None)
    equal(declare("c", "quorum", durable=True),
          (406, f"{begin} 'x-queue-type' for queue 'c' in vhost '/': received 'quorum' but current is 'classic'"))
    connection.close()


@suite.case("channel.consumers", "a consumer more than consumer_max_per_channel",
            "connection closed: 530 `NOT_ALLOWED - reached maximum (1) of consumers per channel`")
def _():
    connection = connect(Uri(started("consumer_max_per_channel=1").uri))
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_consume(queue, lambda *_: None)
    equal(refusal(lambda: channel.basic_consume(queue, lambda *_: None)),
          (530, "NOT_ALLOWED - reached maximum (1) of consumers per channel"))


def is_cut(uri, vhost):
    """An AMQP 1.0 connection logs in and says open, and gets no open in answer: it is cut."""
    with Peer10(uri) as peer:
        try:
            peer.login10(hostname=f"vhost:{vhost}")
        except Closed:
            return True
    return False


SILENT = "cut before its open is answered, without a word"


@suite.case("10.vhost", "AMQP 1.0: a connection more than max-connections of a virtual host", SILENT)
def _():
    with made("vhost", max_connections=1) as (admin, name):
        first = connect(admin.uri, vhost=name)
        equal(is_cut(admin.uri, name), True, "one more")
        first.close()
        eventually(lambda: not is_cut(admin.uri, name), "admitted again")


@suite.case("10.user", "AMQP 1.0: a connection more than max-connections of a user", SILENT)
def _():
    with made("user", max_connections=1) as (admin, name):
        uri = admin.uri.as_user(name, "secret")
        first = connect(admin.uri, name, "secret")
        equal(is_cut(uri, admin.uri.vhost), True, "one more")
        first.close()
        eventually(lambda: not is_cut(uri, admin.uri.vhost), "admitted again")


@suite.case("10.node", "AMQP 1.0: a connection more than connection_max", SILENT)
def _():
    uri = Uri(started("connection_max=1", "session_max_per_connection=9").uri)
    first = connect(uri)
    equal(is_cut(uri, "/"), True, "one more")
    first.close()
    eventually(lambda: not is_cut(uri, "/"), "admitted again")


@suite.case("queue.transient", "a transient shared queue where deprecated_features.permit.transient_nonexcl_queues is "
            "false", "connection closed: 541 `INTERNAL_ERROR - Feature ...`; exclusive and durable ones are declared")
def _():
    uri = Uri(started("deprecated_features.permit.transient_nonexcl_queues=false").uri)
    connection = connect(uri)
    channel = connection.channel()
    channel.queue_declare("", exclusive=True)
    channel.queue_declare("lasting", durable=True)
    code, text = refusal(lambda: channel.queue_declare("passing")) or (0, "")
    begin = ("INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated.\nIts use is not permitted per the "
             "configuration (overriding the default, which is permitted):\n    "
             '"deprecated_features.permit.transient_nonexcl_queues = false"\nIts use will not be permit...')
    equal((code, text), (541, begin))


def sharing(*queues, own=0, most=4, full=None):
    """A channel whose consumers of these queues share a prefetch, and what they were sent. `full` has ten messages, each
    queue by default."""
    connection = connect(Uri(started("deprecated_features.permit.global_qos=true").uri))
    channel, taken = connection.channel(), []
    for queue in queues:
        channel.queue_declare(queue, exclusive=True)
        for number in range(10 if queue in (full or queues) else 0):
            channel.basic_publish("", queue, f"{queue}{number}".encode())
    channel.basic_qos(prefetch_count=own)
    channel.basic_qos(prefetch_count=most, global_qos=True)
    for queue in queues:
        channel.basic_consume(queue, lambda _channel, method, _properties, body: taken.append(
            (body.decode(), method.delivery_tag)))
    return connection, channel, taken


def sent_now(connection, taken, count):
    """The bodies of the next deliveries, when no more than so many come."""
    begin = len(taken)
    eventually(lambda: connection.process_data_events(0.05) or len(taken) >= begin + count, "delivered")
    connection.process_data_events(0.3)
    return [body for body, _tag in taken[begin:]]


@suite.case("qos.shared", "basic.qos 4 with global where deprecated_features.permit.global_qos is true: consumers of two "
            "queues, each with a prefetch of 3 of its own", "3 of the first, 1 of the second; after an ack one more; with 6 "
            "two more")
def _():
    connection, channel, taken = sharing("a", "b", own=3)
    equal(sent_now(connection, taken, 4), ["a0", "a1", "a2", "b0"])
    channel.basic_ack(taken[0][1])
    equal(len(sent_now(connection, taken, 1)), 1)
    channel.basic_qos(prefetch_count=6, global_qos=True)
    equal(len(sent_now(connection, taken, 2)), 2)
    connection.close()


@suite.case("qos.shared-idle", "a shared prefetch of 1, one queue empty, the other not", "each message comes when the one "
            "before is acked, and those of the first queue when they arrive")
def _():
    connection, channel, taken = sharing("a", "b", most=1, full="b")
    bodies = []
    for number in range(11):
        if number == 5:
            channel.basic_publish("", "a", b"late")
        bodies += sent_now(connection, taken, 1)
        channel.basic_ack(taken[-1][1])
    equal(sorted(bodies), sorted([f"b{number}" for number in range(10)] + ["late"]))
    connection.close()


@suite.case("qos.shared-ends", "basic.qos 9 without global after a shared prefetch", "each consumer has its own, as opened")
def _():
    connection, channel, taken = sharing("a", most=2)
    equal(sent_now(connection, taken, 2), ["a0", "a1"])
    channel.basic_qos(prefetch_count=9)
    equal(sent_now(connection, taken, 8), [f"a{number}" for number in range(2, 10)])
    connection.close()


@suite.case("qos.shared-gets", "a shared prefetch of 2, and three messages of basic.get not acked", "gets do not count: two "
            "are delivered")
def _():
    connection = connect(Uri(started("deprecated_features.permit.global_qos=true").uri))
    channel, taken = connection.channel(), []
    channel.queue_declare("a", exclusive=True)
    for number in range(9):
        channel.basic_publish("", "a", f"a{number}".encode())
    channel.basic_qos(prefetch_count=2, global_qos=True)
    for _number in range(3):
        channel.basic_get("a")
    channel.basic_consume("a", lambda _channel, method, _properties, body: taken.append(
        (body.decode(), method.delivery_tag)))
    equal(sent_now(connection, taken, 2), ["a3", "a4"])
    connection.close()


@suite.case("qos.shared-quorum", "a consumer of a quorum queue on a channel that shares a prefetch",
            "connection closed: 540 `NOT_IMPLEMENTED - queue 'foreign.shared' in vhost '/' does not support global qos`; one "
            "that was there before goes on")
def _():
    connection = connect(Uri(started("deprecated_features.permit.global_qos=true").uri))
    channel = connection.channel()
    channel.queue_declare("foreign.shared", durable=True, arguments={"x-queue-type": "quorum"})
    channel.basic_consume("foreign.shared", lambda *_: None)
    channel.basic_qos(prefetch_count=2, global_qos=True)
    equal(refusal(lambda: channel.basic_consume("foreign.shared", lambda *_: None)),
          (540, "NOT_IMPLEMENTED - queue 'foreign.shared' in vhost '/' does not support global qos"))


def offered(uri):
    """The mechanisms in connection.start, read from the bytes: clients do not show them."""
    with socket.create_connection((uri.host, uri.port), timeout=10) as connection:
        connection.sendall(b"AMQP\x00\x00\x09\x01")
        reader = connection.makefile("rb")
        _kind, _channel, size = struct.unpack(">BHI", reader.read(7))
        arguments = reader.read(size)[6:]
        (table,) = struct.unpack_from(">I", arguments)
        (length,) = struct.unpack_from(">I", arguments, 4 + table)
        return arguments[8 + table:8 + table + length].decode().split()


@suite.case("mechanisms", "auth_mechanisms.1 = PLAIN, and anonymous_login_user = none",
            "nothing else is offered; without ANONYMOUS")
def _():
    uri = Uri(started("auth_mechanisms.1=PLAIN").uri)
    equal(offered(uri), ["PLAIN"])
    connect(uri).close()
    equal(offered(Uri(started("anonymous_login_user=none").uri)), ["PLAIN", "AMQPLAIN"])
    equal(offered(Uri(started().uri)), ["ANONYMOUS", "PLAIN", "AMQPLAIN"])


if __name__ == "__main__":
    suite.main(add_options)
