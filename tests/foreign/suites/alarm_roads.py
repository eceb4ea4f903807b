"""Connections that come while an alarm holds: the part of a first message that is read, of however many bytes.

`reach` makes a new raw peer that has said nothing yet; `count` tells how many messages are in the queue; `clear` ends the alarm.
"""

import contextlib
import struct
import time

import pika

from lab.cases import Uri, equal, eventually
from lab.wire import BODY, CLIENT, HEADER_091, Peer, connection_open, content_header, frame, method, plain, short, start_ok
from lab.wire import tune_ok
from lab.wire10 import ATTACH, DISPOSITION, FLOW, TRANSFER, Described, Peer10, Uint, encode, performative
from lab.wire_stream import CONFIRM, CREATE, DECLARE, DELETE, Peer as StreamPeer, pairs, text
from lab.wire_stream import message as stream_message

# Bytes: the tools do not take the same units.
ALL_OF_IT, NEXT_TO_NOTHING = "900000000000000", "1000000"
ALARMS = {
    "memory": (("set_vm_memory_high_watermark", "0"), ("set_vm_memory_high_watermark", "0.9"), "low on memory"),
    "disk": (("set_disk_free_limit", ALL_OF_IT), ("set_disk_free_limit", NEXT_TO_NOTHING), "low on disk"),
}
# By then what should not come would have come.
QUIET_SECONDS = 0.5
# At most so long what should come is waited for.
COMES_SECONDS = 30
QUEUE, STREAM = "foreign.alarm.first", "foreign.alarm.stream"
BLOCKED, UNBLOCKED, ACK = (10, 60), (10, 61), (60, 80)
ACCEPTED = 0x24
HEARS_ALL = {"capabilities": {"connection.blocked": True, **CLIENT["capabilities"]}}
PUBLISH = method(1, 60, 40, b"\0\0" + short("") + short(QUEUE) + b"\0")


def message(body):
    frames = PUBLISH + content_header(1, len(body))
    return frames + frame(BODY, 1, body) if body else frames


def heard(peer, seconds=QUIET_SECONDS, least=0):
    """Ids of the methods that come: so many are waited for, further ones until it is quiet."""
    found = []
    try:
        while True:
            peer.socket.settimeout(seconds if len(found) >= least else COMES_SECONDS)
            _channel, class_id, method_id, _arguments = peer.method()
            found.append((class_id, method_id))
    except TimeoutError:
        return found


def opened(reach):
    peer = reach()
    peer.login(client=HEARS_ALL)
    peer.channel()
    peer.send(method(1, 85, 10, b"\0"))
    peer.expect(85, 11)
    return peer


WHOLE = message(b"xx")
SPLIT = WHOLE.index(content_header(1, 2))
# Rows: pieces that a connection sends, answers it hears, how many messages it is, and how many of them are taken at once.
FIRST = (
    ([WHOLE], [BLOCKED], 1, 0), ([message(b"") + WHOLE], [ACK, BLOCKED], 2, 1), ([WHOLE[:SPLIT], WHOLE[SPLIT:]], [BLOCKED], 1, 0),
)
FURTHER = (([WHOLE * 3], [BLOCKED], 3, 0), ([message(b"") * 3], [ACK, BLOCKED], 3, 1), ([PUBLISH], [], 0, 0))


def first_091(reach, count, clear, seconds=QUIET_SECONDS, rows=FIRST):
    """First messages of connections with confirms: no body is read."""
    peers = []
    for pieces, expected, messages, _taken in rows:
        peer = opened(reach)
        for piece in pieces:
            peer.send(piece)
            time.sleep(0.05)
        # Which of both is told first is a matter of threads.
        equal(sorted(heard(peer, seconds, len(expected))), sorted(expected), f"{pieces}")
        peers.append((peer, messages))
    equal(count(), sum(taken for *_, taken in rows), "those without a body")
    clear()
    eventually(lambda: count() == sum(messages for _, messages in peers), "all there", COMES_SECONDS, 0.2)
    for peer, messages in peers:
        equal(UNBLOCKED in heard(peer, seconds, min(messages, 1)), messages > 0)
        peer.socket.close()


def login_091(reach, count, clear, seconds=QUIET_SECONDS):
    """Login, open, channel and two messages in one piece."""
    with reach() as peer:
        peer.send(HEADER_091, start_ok("PLAIN", plain(peer.uri), HEARS_ALL), tune_ok(2047, 131072, 0),
                  connection_open(peer.uri.vhost), method(1, 20, 10, short("")), method(1, 85, 10, b"\0"), message(b"xx") * 2)
        expected = [(10, 10), (10, 30), (10, 41), (20, 11), (85, 11), BLOCKED]
        equal((sorted(heard(peer, seconds, len(expected))), count()), (sorted(expected), 0))
        clear()
        eventually(lambda: count() == 2, "taken", COMES_SECONDS, 0.2)
        answers = heard(peer, seconds, 2)
        equal((answers[0], ACK in answers), (UNBLOCKED, True))


def window(peer, seconds=QUIET_SECONDS):
    """The incoming-window that flows of the session tell last: one is waited for, further ones until it is quiet."""
    found = None
    try:
        while True:
            peer.socket.settimeout(COMES_SECONDS if found is None else seconds)
            _channel, value, _payload = peer.frame10()
            equal(value.code == FLOW, True, f"{value}")
            found = value.value[1]
    except TimeoutError:
        return found


def first_10(reach, count, clear):
    """A session of AMQP 1.0 that attaches a sender has no window; with one its first message is accepted."""
    with reach(Peer10) as peer:
        peer.login10()
        peer.session()
        peer.attach("sender", 0, False, f"/queues/{QUEUE}")
        peer.expect10(ATTACH)
        equal((window(peer), count()), (0, 0))
        clear()
        peer.socket.settimeout(COMES_SECONDS)
        while (value := peer.frame10()[1]).code != FLOW or not value.value[1]:
            pass
        payload = encode(Described(0x75, b"x"))
        peer.send(performative(TRANSFER, Uint(0), Uint(0), b"t", Uint(0), False, False, payload=payload))
        while (value := peer.frame10()[1]).code != DISPOSITION:
            pass
        equal((value.value[4].code, count()), (ACCEPTED, 1))


DECLARATION = text("") + text(STREAM)


def declared(peer, publisher):
    return peer.code(DECLARE, struct.pack(">B", publisher) + DECLARATION)


def held_stream(early, late, clear, is_held, quiet=QUIET_SECONDS):
    """`early` has declared publisher 1 before the alarm, `late` comes while it holds."""
    equal(declared(late, 1), 17 if is_held else 1)
    # Bytes that RabbitMQ has asked its socket for already are still read, so one goes before.
    for number in (1, 2):
        early.publish(1, stream_message(number, b"\0Su\xa0\1x"))
        time.sleep(0.2)
    early.socket.settimeout(quiet if is_held else COMES_SECONDS)
    confirmed = []
    with contextlib.suppress(TimeoutError):
        while len(confirmed) < 2:
            confirmed += early.next(CONFIRM).ids()
    equal(2 in confirmed, not is_held)
    clear()
    early.socket.settimeout(COMES_SECONDS)
    while len(confirmed) < 2:
        confirmed += early.next(CONFIRM).ids()
    equal(confirmed, [1, 2])
    eventually(lambda: declared(late, 2) == 1, "declared", COMES_SECONDS, 0.2)


# ---- over TLS and WebSocket, with a broker of our own


@contextlib.contextmanager
def during(broker, run, kind, before=lambda: None):
    """The alarm of this kind holds: what counts messages, and what ends it. `before` is called before.

    Nothing is waited for: when the tool has answered publishers are held, or let go."""
    raises, clears, _ = ALARMS[kind]
    owner = pika.BlockingConnection(pika.URLParameters(broker.uri))
    channel = owner.channel()
    channel.queue_declare(QUEUE, durable=True)
    channel.queue_purge(QUEUE)
    early = before()
    run(*raises)
    try:
        yield early, lambda: channel.queue_declare(QUEUE, passive=True).method.message_count, lambda: run(*clears)
    finally:
        run(*clears)
        channel.queue_delete(QUEUE)
        owner.close()


def reached(broker, stream):
    """Makes peers of a broker over what `stream` opens."""

    class Over:
        """A raw peer whose bytes go another way."""

        def __init__(self):
            self.uri, self.socket = Uri(broker.uri), stream()

    def reach(kind=Peer):
        return type(kind.__name__, (Over, kind), {})()
    return reach


def over_streams(broker, port, context, run, kind):
    """Streams over TLS."""
    def peer():
        return StreamPeer(Uri(broker.uri), port, secure=context)

    def before():
        early = peer()
        early.ask(DELETE, text(STREAM))
        equal((early.code(CREATE, text(STREAM) + pairs({})), declared(early, 1)), (1, 1))
        return early

    with during(broker, run, kind, before) as (early, _count, clear), peer() as late:
        held_stream(early, late, clear, kind == "disk")
        early.ask(DELETE, text(STREAM))
        early.socket.close()


class WebStream:
    """A WebSocket connection as if it were a socket."""

    def __init__(self, web):
        self.web, self.kept, self.seconds = web, b"", 15.0

    def sendall(self, data):
        self.web.send(data)

    def settimeout(self, seconds):
        self.seconds = seconds

    def recv(self, count):
        if not self.kept:
            self.kept = self.web.recv(timeout=self.seconds)
        data, self.kept = self.kept[:count], self.kept[count:]
        return data

    def close(self):
        self.web.close()
