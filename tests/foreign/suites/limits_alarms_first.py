"""Alarms, and who comes while one holds: what of a first message is read, over every protocol and over HTTP.

Frames are written by hand, so that it is known what came in one piece.
"""

import base64
import contextlib
import json
import re
import struct
import time
import urllib.parse
import urllib.request

from lab.cases import Skip, equal, eventually
from lab.wire import BODY, CLIENT, HEADER_091, Peer, connection_open, content_header, frame, method, plain, short, start_ok
from lab.wire import tune_ok
from lab.wire_stream import CONFIRM, CREATE, DECLARE, DELETE, pairs, text
from lab.wire_stream import Peer as StreamPeer
from lab.wire_stream import message as stream_message
from suites.limits_alarms import ALL_OF_IT, LOOK_SECONDS, NEXT_TO_NOTHING, SECONDS_MAX, Tool
from suites.limits_bench import Ctl, connect, started, suite

ALARMS = {
    "memory": (("set_vm_memory_high_watermark", "0"), ("set_vm_memory_high_watermark", "0.9"), "low on memory"),
    "disk": (("set_disk_free_limit", ALL_OF_IT), ("set_disk_free_limit", NEXT_TO_NOTHING), "low on disk"),
}
SETTINGS = ("memory_monitor_interval=100", "stream.listeners.tcp.1=127.0.0.1:0", "management.tcp.ip=127.0.0.1",
            "management.tcp.port=0")
HTTP_LISTENER = re.compile(rb"started HTTP listener on \S*?:(\d+)")
# By then what comes has come.
QUIET_SECONDS = 1.0
BLOCKED, UNBLOCKED, ACK = (10, 60), (10, 61), (60, 80)
HEARS_ALL = {"capabilities": {"connection.blocked": True, **CLIENT["capabilities"]}}


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
    queue = before.channel().queue_declare("foreign.alarm.first", durable=True).method.queue
    before.channel().queue_purge(queue)
    streams = StreamPeer(tool.uri, stream)
    streams.ask(DELETE, text("foreign.alarm.stream"))
    equal(streams.code(CREATE, text("foreign.alarm.stream") + pairs({})), 1)
    equal(streams.code(DECLARE, struct.pack(">B", 1) + text("") + text("foreign.alarm.stream")), 1)
    tool.run(*raises)
    time.sleep(LOOK_SECONDS if suite.options.broker else 2)
    try:
        yield tool.uri, (stream, streams), admin, lambda: tool.run(*clears)
    finally:
        tool.run(*clears)
        eventually(lambda: streams.code(DECLARE, struct.pack(">B", 9) + text("") + text("foreign.alarm.stream")) == 1,
                   "cleared", 30, 0.2)
        streams.ask(DELETE, text("foreign.alarm.stream"))
        before.channel().queue_delete(queue)
        before.close()


def message(body):
    arguments = b"\0\0" + short("") + short("foreign.alarm.first") + b"\0"
    frames = method(1, 60, 40, arguments) + content_header(1, len(body))
    return frames + frame(BODY, 1, body) if body else frames


def heard(peer):
    """Ids of the methods that come until it is quiet."""
    peer.socket.settimeout(QUIET_SECONDS / 2 if suite.options.broker else QUIET_SECONDS)
    found = []
    try:
        while True:
            _channel, class_id, method_id, _arguments = peer.method()
            found.append((class_id, method_id))
    except TimeoutError:
        return found


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
    found = connection.channel().queue_declare("foreign.alarm.first", passive=True).method.message_count
    connection.close()
    return found


def opened(uri):
    peer = Peer(uri)
    peer.login(client=HEARS_ALL)
    peer.channel()
    peer.send(method(1, 85, 10, b"\0"))
    peer.expect(85, 11)
    return peer


def first(kind):
    @suite.case(f"alarm.first.{kind}", f"a connection opened while the {kind} alarm holds publishes: one body, three in one piece, "
                "messages without a body, the method alone, its header behind it",
                "connection.blocked with the content header; no body is read and nothing confirmed, but for a first message "
                "without a body; then unblocked, and all is confirmed", seconds_max=SECONDS_MAX)
    def _():
        with during(kind) as (uri, _stream, _admin, clear):
            whole = message(b"xx")
            split = whole.index(content_header(1, 2))
            rows = (
                ([whole], [BLOCKED], 1), ([whole * 3], [BLOCKED], 3), ([message(b"") * 3], [ACK, BLOCKED], 3),
                ([message(b"") + whole], [ACK, BLOCKED], 2), ([whole[:split], whole[split:]], [BLOCKED], 1),
                ([method(1, 60, 40, b"\0\0" + short("") + short("foreign.alarm.first") + b"\0")], [], 0),
            )
            peers = []
            for pieces, expected, messages in rows:
                peer = opened(uri)
                for piece in pieces:
                    peer.send(piece)
                    time.sleep(0.05)
                # Which of both is told first is a matter of threads.
                equal(sorted(heard(peer)), expected and sorted(expected), f"{pieces}")
                peers.append((peer, messages))
            equal(count(uri), 2, "those without a body")
            clear()
            eventually(lambda: count(uri) == sum(messages for _, messages in peers), "all there", 30, 0.2)
            for peer, messages in peers:
                equal(UNBLOCKED in heard(peer), messages > 0)
                peer.socket.close()


def at_once(kind):
    @suite.case(f"alarm.login.{kind}", f"login, open, channel and two messages in one piece while the {kind} alarm holds",
                "all is answered up to the first body; the messages are taken when the alarm is over", seconds_max=SECONDS_MAX)
    def _():
        with during(kind) as (uri, _stream, _admin, clear), Peer(uri) as peer:
            peer.send(HEADER_091, start_ok("PLAIN", plain(uri), HEARS_ALL), tune_ok(2047, 131072, 0), connection_open(uri.vhost),
                      method(1, 20, 10, short("")), method(1, 85, 10, b"\0"), message(b"xx") * 2)
            answers = heard(peer)
            equal((sorted(answers), count(uri)), (sorted([(10, 10), (10, 30), (10, 41), (20, 11), (85, 11), BLOCKED]), 0))
            clear()
            eventually(lambda: count(uri) == 2, "taken", 30, 0.2)
            answers = heard(peer)
            equal((answers[0], ACK in answers), (UNBLOCKED, True))


def streams(kind, is_held):
    @suite.case(f"alarm.stream.{kind}", f"the stream protocol while the {kind} alarm holds: declaring a publisher, publishing",
                "refused with 17, and nothing more is read of who has a publisher" if is_held else "taken and confirmed as always",
                seconds_max=SECONDS_MAX)
    def _():
        with during(kind) as (uri, (port, early), _admin, clear):
            late = StreamPeer(uri, port)
            declare = struct.pack(">B", 1) + text("") + text("foreign.alarm.stream")
            equal(late.code(DECLARE, declare), 17 if is_held else 1)
            # What RabbitMQ has asked its socket for already is still read, so one goes before.
            for number in (1, 2):
                early.publish(1, stream_message(number, b"\0Su\xa0\1x"))
                time.sleep(0.2)
            early.socket.settimeout(QUIET_SECONDS)
            confirmed = []
            with contextlib.suppress(TimeoutError):
                while len(confirmed) < 2:
                    confirmed += early.next(CONFIRM).ids()
            equal(2 in confirmed, not is_held)
            clear()
            early.socket.settimeout(30)
            while len(confirmed) < 2:
                confirmed += early.next(CONFIRM).ids()
            equal(confirmed, [1, 2])
            eventually(lambda: late.code(DECLARE, struct.pack(">B", 2) + declare[1:]) == 1, "declared", 30, 0.2)


def over_http(kind):
    @suite.case(f"alarm.http.{kind}", f"publishing over the HTTP API and the aliveness test while the {kind} alarm holds",
                "taken, routed; ok", seconds_max=SECONDS_MAX)
    def _():
        with during(kind) as (uri, _stream, admin, _clear):
            if not admin:
                raise Skip("needs the HTTP API of the running broker: --admin")
            body = {"properties": {}, "routing_key": "foreign.alarm.first", "payload": "x", "payload_encoding": "string"}
            equal(asked(admin, "POST", "exchanges/%2F/amq.default/publish", body), {"routed": True})
            equal(count(uri), 1)
            equal(asked(admin, "GET", "aliveness-test/%2F"), {"status": "ok"})


for name in ALARMS:
    first(name)
    at_once(name)
    streams(name, name == "disk")
    over_http(name)
