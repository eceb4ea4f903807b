"""Messages as raw bytes over both protocols: put with one, got with the other."""

import contextlib
import struct
import time

from lab import wire
from lab.cases import Suite, equal, eventually
from lab.wire10 import (ATTACH, CLOSE, DETACH, DISPOSITION, END, FLOW, TRANSFER, Described, Peer10, Uint, performative)

suite = Suite("conversion")


class Ended(Exception):
    """The broker ended the reader's session: code, condition."""


@contextlib.contextmanager
def queue():
    """A durable queue, and the 0-9-1 peer that owns it, on channel 1 in confirm mode."""
    with wire.Peer(suite.uri) as owner:
        owner.login()
        owner.channel()
        name = f"foreign.convert.{time.monotonic_ns():x}"
        owner.send(wire.queue_declare(1, name, bits=0b010), wire.method(1, 85, 10, b"\0"))
        owner.expect(50, 11)
        owner.expect(85, 11)
        try:
            yield owner, name
        finally:
            with wire.Peer(suite.uri) as other:
                other.login()
                other.channel()
                other.send(wire.method(1, 50, 40, b"\0\0" + wire.short(name) + b"\0"))
                other.expect(50, 41)


def put_091(owner, name, properties, body):
    """Publishes and waits for the confirm."""
    size, flags = len(body), struct.unpack(">H", properties[:2])[0]
    owner.send(wire.method(1, 60, 40, b"\0\0" + wire.short("") + wire.short(name) + b"\0"),
               wire.content_header(1, size, flags=flags, properties=properties[2:]),
               wire.frame(wire.BODY, 1, body) if body else b"")
    owner.expect(60, 80)


def got_091(owner, name):
    """(properties, body) of the next message."""
    def is_there():
        owner.send(wire.method(1, 60, 70, b"\0\0" + wire.short(name) + b"\1"))
        _channel, class_id, method_id, arguments = owner.method()
        close = wire.close_of(class_id, method_id, arguments)
        if close:
            raise Ended(f"{close[0]} closed: {close[1]} {close[2]}")
        return (class_id, method_id) == (60, 71)

    eventually(is_there, "a message in the queue")
    _kind, _channel, header = owner.frame()
    size, body = struct.unpack(">Q", header[4:12])[0], b""
    while len(body) < size:
        body += owner.frame()[2]
    return header[12:], body


def put_10(name, *messages):
    """Sends messages and waits until each is accepted."""
    with Peer10(suite.uri) as sender:
        sender.login10()
        sender.session()
        sender.attach("sender", 0, False, f"/queues/{name}")
        sender.expect10(ATTACH)
        sender.expect10(FLOW)
        for number, sections in enumerate(messages):
            sender.send(performative(TRANSFER, Uint(0), Uint(number), b"t", Uint(0), False, False, payload=sections))
        accepted = 0
        while accepted < len(messages):
            value = sender.frame10()[1]
            if value.code == DISPOSITION:
                equal(value.value[4].code, 0x24, "outcome of the transfer")
                accepted += (value.value[2] or value.value[1]) - value.value[1] + 1
            ended(value)


def ended(value):
    if value.code in (DETACH, END, CLOSE):
        error = value.value[2 if value.code == DETACH else 0]
        raise Ended(f"{ {DETACH: 'link', END: 'session', CLOSE: 'connection'}[value.code]} ended: "
                    f"{error.value[0] if error else None}")


def got_10(name, count=1):
    """The sections of the next messages, as bytes, one after the other."""
    with Peer10(suite.uri) as receiver:
        receiver.login10()
        receiver.session(window=1000)
        receiver.attach("receiver", 0, True, f"/queues/{name}")
        receiver.expect10(ATTACH)
        receiver.send(performative(FLOW, Uint(0), Uint(1000), Uint(0), Uint(1000), Uint(0), Uint(0), Uint(count)))
        data = b""
        while count:
            _channel, value, payload = receiver.frame10()
            ended(value)
            if value.code == TRANSFER:
                data += payload
                if not value.value[5]:
                    receiver.send(performative(DISPOSITION, True, Uint(value.value[1]), None, True, Described(0x24, [])))
                    yield data
                    data, count = b"", count - 1
