"""Helpers of the cases of identity: a broker with two virtual hosts and two users, raw peers of each protocol.

A broker of their own (--broker), or one that runs, over its HTTP API (--admin; RabbitMQ with its stream plugin at --stream-port).
"""

import atexit
import base64
import contextlib
import json
import os
import re
import struct
import time
import urllib.parse
from http.client import HTTPConnection

from lab import wire
from lab.broker import Broker
from lab.cases import Skip, Suite, Uri, equal
from lab.wire import close_of, method, short
from lab.wire10 import ATTACH, DETACH, DISPOSITION, END, FLOW, SOURCE, Described, Peer10, Uint, encode, performative

suite = Suite("identity")
HTTP = re.compile(rb"started HTTP listener on \S*?:(\d+)")
VHOST, OTHER = f"identity-{os.getpid():x}", f"identity-other-{os.getpid():x}"
USER, POSER, PASSWORD = f"identity-u-{os.getpid():x}", f"identity-p-{os.getpid():x}", "secret"
ACCEPTED, REJECTED, RELEASED, DECLARE, DISCHARGE, DECLARED, TRANSACTIONAL = 0x24, 0x25, 0x26, 0x31, 0x32, 0x33, 0x34
COORDINATOR, PROPERTIES, DATA = 0x30, 0x73, 0x75
UNAUTHORIZED = "amqp:unauthorized-access"
_desks = []


class Desk:
    """A broker with two virtual hosts, an ordinary user of the first and one who may pose as others."""

    def __init__(self, uri, http_port, stream_port):
        self.uri, self.http_port, self.stream_port = uri, http_port, stream_port
        for vhost in (VHOST, OTHER):
            self.ask("PUT", f"/vhosts/{vhost}", {})
        for user, tags in ((USER, ""), (POSER, "impersonator")):
            self.ask("PUT", f"/users/{user}", {"password": PASSWORD, "tags": f"{tags},management"})
            for vhost in (VHOST, OTHER, "%2F"):
                self.ask("PUT", f"/permissions/{vhost}/{user}", {"configure": ".*", "write": ".*", "read": ".*"})
        atexit.register(self.clear)

    def clear(self):
        with contextlib.suppress(OSError):
            for path in (f"/vhosts/{VHOST}", f"/vhosts/{OTHER}", f"/users/{USER}", f"/users/{POSER}"):
                self.ask("DELETE", path)

    def ask(self, verb, path, body=None, user="guest", password=None):
        connection = HTTPConnection(self.uri.host, self.http_port, timeout=20)
        try:
            pair = base64.b64encode(f"{user}:{password or user}".encode()).decode()
            head = {"Content-Type": "application/json", "Authorization": f"Basic {pair}"}
            connection.request(verb, "/api" + path, None if body is None else json.dumps(body), head)
            response = connection.getresponse()
            data = response.read()
            with contextlib.suppress(ValueError):
                return response.status, json.loads(data) if data else None
            return response.status, data.decode(errors="replace")
        finally:
            connection.close()

    def as_user(self, user, vhost=VHOST):
        return Uri(f"amqp://{user}:{PASSWORD}@{self.uri.host}:{self.uri.port}/{urllib.parse.quote(vhost, safe='')}")


def desk():
    if not _desks:
        if suite.options.broker:
            broker = Broker(suite.options.broker, ["management.tcp.ip=127.0.0.1", "management.tcp.port=0",
                                                   "stream.listeners.tcp.1=127.0.0.1:0"])
            broker.start()
            atexit.register(broker.close)
            _desks.append(Desk(Uri(broker.uri), broker.port_of(HTTP, "HTTP"), broker.stream_port()))
        elif suite.options.admin:
            port = urllib.parse.urlsplit(suite.options.admin).port
            _desks.append(Desk(suite.uri, port, suite.options.stream_port))
        else:
            raise Skip("needs --broker or --admin")
    return _desks[0]


# ---- AMQP 0-9-1

HEADERS, DELIVERY_MODE, REPLY_TO, MESSAGE_ID, MESSAGE_TYPE, USER_ID = 1 << 13, 1 << 12, 1 << 9, 1 << 7, 1 << 5, 1 << 4


def with_property(flag, text):
    return flag, short(text)


def publish_with(channel, exchange, key, flags, properties, body=b"x"):
    return b"".join([method(channel, 60, 40, b"\0\0" + short(exchange) + short(key) + b"\0"),
                     wire.content_header(channel, len(body), flags=flags, properties=properties),
                     wire.frame(wire.BODY, channel, body)])


@contextlib.contextmanager
def peer091(user, vhost=VHOST):
    with wire.Peer(desk().as_user(user, vhost)) as peer:
        peer.login(vhost=vhost)
        peer.channel()
        yield peer


def got(queue):
    """The user-id of the only message in a queue; `None`: there is no message, "": it names nobody."""
    with peer091(USER) as peer:
        peer.send(method(1, 60, 70, b"\0\0" + short(queue) + b"\1"))
        if peer.method()[1:3] == (60, 72):
            return None
        flags, = struct.unpack(">H", (payload := peer.frame()[2])[12:14])
        equal(flags & ~(USER_ID | MESSAGE_ID | DELIVERY_MODE | HEADERS), 0, "nothing else is there")
        return claim_of(payload)


def claim_of(payload):
    """The user-id in a header frame: here it is the last property, behind headers and delivery-mode; "": there is none."""
    flags, = struct.unpack(">H", payload[12:14])
    at = 14
    if not flags & USER_ID:
        return ""
    if flags & HEADERS:
        at += 4 + struct.unpack(">I", payload[at:at + 4])[0]
    if flags & DELIVERY_MODE:
        at += 1
    if flags & MESSAGE_ID:
        at += 1 + payload[at]
    return payload[at + 1:at + 1 + payload[at]].decode()


def answer_of(peer, wanted):
    """"taken" where the wanted method comes, else code and text of the close."""
    while True:
        _channel, class_id, method_id, arguments = peer.method()
        if (class_id, method_id) == wanted:
            return "taken"
        seen = close_of(class_id, method_id, arguments)
        if seen:
            return f"{seen[0]} closed: {seen[1]} {seen[2]}"


# ---- AMQP 1.0


def message10(claim, to=None, key=None):
    return encode(Described(PROPERTIES, [key, claim, to])) + encode(Described(DATA, b"x"))


@contextlib.contextmanager
def peer10(user, vhost=VHOST):
    with Peer10(desk().as_user(user, vhost)) as peer:
        peer.login10(hostname=f"vhost:{vhost}")
        peer.session()
        yield peer


def attach(peer, handle, target):
    source = Described(SOURCE, ["local"])
    peer.send(performative(ATTACH, f"sender-{handle}", Uint(handle), False, None, None, source, target, None, None, Uint(0)))
    peer.expect10(ATTACH)
    peer.expect10(FLOW)


def outcome10(peer):
    """The fate of a message: "taken", or the end that is closed and why."""
    while True:
        _channel, value, _payload = peer.frame10()
        if value.code == DISPOSITION:
            state = value.value[4]
            return {ACCEPTED: "taken", RELEASED: "released"}.get(state.code, repr(state))
        if value.code in (DETACH, END):
            error = value.value[2 if value.code == DETACH else 0].value
            return f"{'link' if value.code == DETACH else 'session'} closed: {error[0]} {error[1]}"


@contextlib.contextmanager
def queue_of(arguments=None):
    name = f"identity.{time.monotonic_ns():x}"
    desk().ask("PUT", f"/queues/{VHOST}/{name}", {"durable": True, "arguments": arguments or {}})
    desk().ask("POST", f"/bindings/{VHOST}/e/amq.direct/q/{name}", {"routing_key": name, "arguments": {}})
    try:
        yield name
    finally:
        desk().ask("DELETE", f"/queues/{VHOST}/{name}")


def options(parser):
    parser.add_argument("--broker", default="", help="a leveret to start")
    parser.add_argument("--stream-port", type=int, default=5552)
