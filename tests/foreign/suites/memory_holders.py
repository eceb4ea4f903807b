"""Ways in which a client holds memory, one for each kind that the ledger knows, and in each protocol that has it."""

import socket
import struct

from lab import wire, wire10, wire_stream
from lab.wire import content_header, frame, method, publish, queue_declare, short
from suites.memory_bench import BODY, send

PIECE = 100_000
# Bytes of a frame of the stream protocol that does not end.
FRAME = 900_000
# Bytes of one consumer's arguments.
ARGUMENTS = 60_000


def transact(peer, channels):
    """Begins a transaction on each of these channels."""
    for channel in channels:
        peer.send(method(channel, 90, 10))
        while peer.method()[1:3] != (90, 11):
            pass


def hold_transactions(peer, channels, size):
    """Publishes so many bytes in the transactions of these channels, in turns; whether all could be sent."""
    channels = list(channels)
    return all(send(peer, publish(channels[at % len(channels)], "", "theirs", BODY[:PIECE])) for at in range(size // PIECE))


def hold_bodies(peer, channels, size):
    """On each of these channels so many bytes of a message of 16 MiB; whether all could be sent."""
    room = 131064
    for channel in channels:
        head = method(channel, 60, 40, b"\0\0" + short("") + short("theirs") + b"\0") + content_header(channel, 16 << 20)
        if not send(peer, head + b"".join(frame(wire.BODY, channel, BODY[:room]) for _ in range(size // room))):
            return False
    return True


def begin10(the):
    """A tenant's AMQP 1.0 connection with a sender's link to its queue."""
    peer = wire10.Peer10(the.uri.as_user("tenant", "secret"), 5)
    peer.login10()
    peer.session()
    peer.attach("out", 0, False, "/queues/theirs")
    peer.expect10(wire10.ATTACH)
    peer.expect10(wire10.FLOW)
    return peer


def transfer(first, payload):
    fields = [wire10.Uint(0), b"1", wire10.Uint(0)] if first else [None, None, None]
    return wire10.performative(wire10.TRANSFER, wire10.Uint(0), *fields, None, True, payload=payload)


def hold_delivery(peer, pieces):
    """So many times 130,000 bytes of a message that does not end."""
    return send(peer, b"".join(transfer(number == 0, BODY[:130_000]) for number in range(pieces)))


def begin_stream(the):
    """A tenant's connection of the stream protocol."""
    peer = wire_stream.Peer(the.uri, the.broker.stream_port(), user="tenant", password="secret")
    assert peer.opened.code == wire_stream.OK, peer.opened
    return peer


def hold_frame(peer):
    """The most of a frame that does not end: a publish."""
    head = struct.pack(">IHH", FRAME + 10_000, wire_stream.PUBLISH, 1)
    return send(peer, head + BODY[:FRAME])


def requester(the, channels):
    """A tenant's connection with a consumer of direct replies on each channel, which reads no more, and their addresses."""
    peer = the.logs_in(user="tenant", password="secret")
    peer.channel(1)
    peer.send(queue_declare(1, "requests", 0b10))
    peer.expect(50, 11)
    for channel in range(2, channels + 2):
        peer.channel(channel)
        ask_on(peer, channel)
    return peer


def ask_on(peer, channel):
    """A consumer of direct replies on this channel, and a request that names it."""
    peer.send(method(channel, 60, 20, b"\0\0" + short("amq.rabbitmq.reply-to") + short("") + b"\x02" + b"\0\0\0\0"))
    peer.expect(60, 21)
    properties = short("amq.rabbitmq.reply-to")
    peer.send(method(channel, 60, 40, b"\0\0" + short("") + short("requests") + b"\0"),
              content_header(channel, 1, flags=0x0200, properties=properties), frame(wire.BODY, channel, b"?"))


def addresses(peer, count):
    """The addresses that requests are to be answered to."""
    peer.send(method(1, 60, 20, b"\0\0" + short("requests") + short("") + b"\x02" + b"\0\0\0\0"))
    peer.expect(60, 21)
    found = []
    while len(found) < count:
        kind, _channel, payload = peer.frame()
        if kind == wire.HEADER:
            size = payload[14]
            found.append(payload[15:15 + size].decode())
    return found


def answer(server, names):
    """A reply of 1 MiB to each of these addresses; returns once all were looked at."""
    for name in names:
        server.send(publish(1, "", name, BODY))
    server.send(queue_declare(1, "requests", 0b10))
    server.expect(50, 11)


def hold_routes(peer, channels, count):
    """So many keys of 250 letters on each of these channels, of messages that go nowhere."""
    header = [content_header(channel, 0) for channel in channels]
    for channel, head in zip(channels, header):
        keys = (f"{number:0250}" for number in range(count))
        words = b"".join(method(channel, 60, 40, b"\0\0" + short("amq.fanout") + short(key) + b"\0") + head for key in keys)
        if not send(peer, words):
            return False
    return True


def hold_arguments(peer, channels, count):
    """So many consumers on each of these channels, with arguments of many small values."""
    table = wire.long(short("a") + b"A" + wire.long(b"V" * ARGUMENTS))
    return all(send(peer, method(channel, 60, 20, b"\0\0" + short("theirs") + short("") + b"\x0a" + table) * count)
               for channel in channels)


def deaf(peer):
    """The peer reads no more, and its kernel takes little: less than it has offered already would lose the node's
    acknowledgements with what comes in one piece with them."""
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 128 << 10)
    return peer


def hold_answers(peer, name, rounds):
    """Asks 2,000 times a round for a queue by its long name, and reads none of it."""
    peer.socket.settimeout(0.1)
    ask = queue_declare(1, name, 0b1) * 2000
    for _ in range(rounds):
        if not send(peer, ask):
            return


def reader(the, queue):
    """A consumer over 0-9-1, without acknowledgements, that reads nothing."""
    peer = the.logs_in(user="tenant", password="secret")
    peer.channel(1)
    deaf(peer).send(method(1, 60, 20, b"\0\0" + short(queue) + short("") + b"\x0a" + b"\0\0\0\0"))
    return peer


def reader10(the, queue):
    """The same over 1.0."""
    peer = wire10.Peer10(the.uri.as_user("tenant", "secret"), 15)
    peer.login10()
    peer.session()
    source, target = wire10.Described(wire10.SOURCE, [f"/queues/{queue}"]), wire10.Described(wire10.TARGET, ["local"])
    peer.send(wire10.performative(wire10.ATTACH, "in", wire10.Uint(0), True, wire10.Ubyte(1), None, source, target))
    peer.expect10(wire10.ATTACH)
    windows = [wire10.Uint(0), wire10.Uint(1 << 20), wire10.Uint(0), wire10.Uint(1 << 20)]
    deaf(peer).send(wire10.performative(wire10.FLOW, *windows, wire10.Uint(0), wire10.Uint(0), wire10.Uint(1 << 20)))
    return peer


def stream_reader(the, stream):
    """The same of a stream, over its own protocol."""
    peer = deaf(begin_stream(the))
    peer.say(wire_stream.SUBSCRIBE, struct.pack(">IB", 1 << 20, 1) + wire_stream.text(stream)
             + wire_stream.offset(wire_stream.FIRST) + struct.pack(">H", 60_000))
    return peer
