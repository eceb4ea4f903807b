"""Alarms, and who comes while one holds: what of a first message is read, over every protocol and over HTTP.

Frames are written by hand, so that it is known what came in one piece.
"""

import base64
import contextlib
import json
import re
import time
import urllib.parse
import urllib.request

from lab.cases import Skip, equal, eventually
from lab.wire import Peer
from lab.wire_stream import CREATE, DELETE, pairs, text
from lab.wire_stream import Peer as StreamPeer
from suites.alarm_roads import ALARMS, FIRST, FURTHER, QUEUE, STREAM, declared, first_091, held_stream, login_091
from suites.limits_alarms import LOOK_SECONDS, SECONDS_MAX, Tool
from suites.limits_bench import Ctl, connect, started, suite

SETTINGS = ("memory_monitor_interval=100", "stream.listeners.tcp.1=127.0.0.1:0", "management.tcp.ip=127.0.0.1",
            "management.tcp.port=0")
HTTP_LISTENER = re.compile(rb"started HTTP listener on \S*?:(\d+)")


@contextlib.contextmanager
def during(kind):
    """The broker (`uri`, `stream`, `admin`) and what clears the alarm of this kind, which holds."""
    raises, clears, _ = ALARMS[kind]
    if suite.options.tool:
        tool, stream, admin = Tool(), suite.options.stream_port, suite.options.admin
    elif suite.options.broker:
        broker = started(*SETTINGS)
        tool, stream = Ctl(broker), broker.stream_port()
        admin = f"http://guest:guest@127.0.0.1:{broker.port_of(HTTP_LISTENER, 'HTTP')}"
    else:
        raise Skip("stops everybody's publishers: needs --broker, or --tool of a broker of one's own")
    before = connect(tool.uri)
    queue = before.channel().queue_declare(QUEUE, durable=True).method.queue
    before.channel().queue_purge(queue)
    streams = StreamPeer(tool.uri, stream)
    streams.ask(DELETE, text(STREAM))
    equal(streams.code(CREATE, text(STREAM) + pairs({})), 1)
    equal(declared(streams, 1), 1)
    tool.run(*raises)
    time.sleep(LOOK_SECONDS if suite.options.broker else 2)
    try:
        yield tool.uri, (stream, streams), admin, lambda: tool.run(*clears)
    finally:
        tool.run(*clears)
        eventually(lambda: declared(streams, 9) == 1, "cleared", 30, 0.2)
        streams.ask(DELETE, text(STREAM))
        before.channel().queue_delete(queue)
        before.close()


def quiet():
    """Seconds after which what comes has come: RabbitMQ takes its time."""
    return 0.5 if suite.options.broker else 1.0


def asked(admin, method_name, path, value=None):
    parts = urllib.parse.urlsplit(admin)
    login = base64.b64encode(f"{parts.username}:{parts.password}".encode()).decode()
    request = urllib.request.Request(
        f"{parts.scheme}://{parts.hostname}:{parts.port}/api/{path}", value and json.dumps(value).encode(), method=method_name,
        headers={"authorization": f"Basic {login}", "content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def count(uri):
    connection = connect(uri)
    found = connection.channel().queue_declare(QUEUE, passive=True).method.message_count
    connection.close()
    return found


def first(kind):
    @suite.case(f"alarm.first.{kind}", f"a connection opened while the {kind} alarm holds publishes: one body, three in one piece, "
                "messages without a body, the method alone, its header behind it",
                "connection.blocked with the content header; no body is read and nothing confirmed, but for a first message "
                "without a body; then unblocked, and all is confirmed", seconds_max=SECONDS_MAX)
    def _():
        with during(kind) as (uri, _stream, _admin, clear):
            first_091(lambda: Peer(uri), lambda: count(uri), clear, quiet(), FIRST + FURTHER)


def at_once(kind):
    @suite.case(f"alarm.login.{kind}", f"login, open, channel and two messages in one piece while the {kind} alarm holds",
                "all is answered up to the first body; the messages are taken when the alarm is over", seconds_max=SECONDS_MAX)
    def _():
        with during(kind) as (uri, _stream, _admin, clear):
            login_091(lambda: Peer(uri), lambda: count(uri), clear, quiet())


def streams(kind, is_held):
    @suite.case(f"alarm.stream.{kind}", f"the stream protocol while the {kind} alarm holds: declaring a publisher, publishing",
                "refused with 17, and nothing more is read of who has a publisher" if is_held else "taken and confirmed as always",
                seconds_max=SECONDS_MAX)
    def _():
        with during(kind) as (uri, (port, early), _admin, clear):
            held_stream(early, StreamPeer(uri, port), clear, is_held, 1.0)


def over_http(kind):
    @suite.case(f"alarm.http.{kind}", f"publishing over the HTTP API and the aliveness test while the {kind} alarm holds",
                "taken, routed; ok", seconds_max=SECONDS_MAX)
    def _():
        with during(kind) as (uri, _stream, admin, _clear):
            if not admin:
                raise Skip("needs the HTTP API of the running broker: --admin")
            body = {"properties": {}, "routing_key": QUEUE, "payload": "x", "payload_encoding": "string"}
            equal(asked(admin, "POST", "exchanges/%2F/amq.default/publish", body), {"routed": True})
            equal(count(uri), 1)
            equal(asked(admin, "GET", "aliveness-test/%2F"), {"status": "ok"})


for name in ALARMS:
    first(name)
    at_once(name)
    streams(name, name == "disk")
    over_http(name)
