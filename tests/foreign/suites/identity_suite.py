"""Who says what, and who may hear it: nobody can pose as another; `python -m suites.identity_suite --uri URI --admin HTTP`.

Each protocol by itself and the ways between them, on raw sockets. Starts a broker of its own (--broker), or asks the one at
--uri whose HTTP API is at --admin (RabbitMQ: with its stream plugin at --stream-port).
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

from lab import wire, wire_stream
from lab.broker import Broker
from lab.cases import Skip, Suite, Uri, equal
from lab.wire import Closed, close_of, method, publish, short
from lab.wire10 import (
    ATTACH, DETACH, DISPOSITION, END, FLOW, SOURCE, TARGET, TRANSFER, Described, Peer10, Symbol, Uint, decode, encode, is_ours,
    performative,
)

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

HEADERS, DELIVERY_MODE, REPLY_TO, MESSAGE_ID, USER_ID = 1 << 13, 1 << 12, 1 << 9, 1 << 7, 1 << 4


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


def over_091(user, queue, claim):
    with peer091(user) as peer:
        peer.send(method(1, 85, 10, b"\0"))
        peer.expect(85, 11)
        flags, properties = (0, b"") if claim is None else with_property(USER_ID, claim)
        peer.send(publish_with(1, "", queue, flags, properties))
        return answer_of(peer, (60, 80))


def over_091_transaction(user, queue, claim):
    with peer091(user) as peer:
        peer.send(method(1, 90, 10))
        peer.expect(90, 11)
        flags, properties = (0, b"") if claim is None else with_property(USER_ID, claim)
        peer.send(publish_with(1, "", queue, flags, properties), method(1, 90, 20))
        return answer_of(peer, (90, 21))


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
    """What becomes of a message: "taken", or what is closed and why."""
    while True:
        _channel, value, _payload = peer.frame10()
        if value.code == DISPOSITION:
            state = value.value[4]
            return {ACCEPTED: "taken", RELEASED: "released"}.get(state.code, repr(state))
        if value.code in (DETACH, END):
            error = value.value[2 if value.code == DETACH else 0].value
            return f"{'link' if value.code == DETACH else 'session'} closed: {error[0]} {error[1]}"


def over_10(target, to=False, settled=False, key=None):
    def send(user, queue, claim):
        with peer10(user) as peer:
            address = target and target.format(queue=queue)
            attach(peer, 0, Described(TARGET, [address]))
            payload = message10(claim if claim is None else claim.encode(), f"/queues/{queue}" if to else None, key)
            peer.send(performative(TRANSFER, Uint(0), Uint(0), b"\1", Uint(0), settled, payload=payload))
            if settled:
                # Of a settled message nobody hears but that its link goes; what comes behind it says that it is done.
                peer.send(performative(TRANSFER, Uint(0), Uint(1), b"\2", Uint(0), False, payload=message10(None)))
            said = outcome10(peer)
        if settled and said == "taken":
            with peer091(USER) as reader:
                # The second message goes out of the way.
                reader.send(method(1, 60, 70, b"\0\0" + short(queue) + b"\0"), method(1, 60, 70, b"\0\0" + short(queue) + b"\1"))
                time.sleep(0.2)
        return said
    return send


def over_10_transaction(user, queue, claim):
    if not is_ours(desk().uri):
        raise Skip("RabbitMQ has no transactions over AMQP 1.0")
    with peer10(user) as peer:
        attach(peer, 0, Described(TARGET, [f"/queues/{queue}"]))
        attach(peer, 1, Described(COORDINATOR, []))
        value = encode(Described(0x77, Described(DECLARE, [])))
        peer.send(performative(TRANSFER, Uint(1), Uint(0), b"\0", Uint(0), False, payload=value))
        state = peer.expect10(DISPOSITION)[1][4]
        equal(state.code, DECLARED)
        transaction, payload = state.value[0], message10(claim if claim is None else claim.encode())
        peer.send(performative(TRANSFER, Uint(0), Uint(1), b"\1", Uint(0), False, None, None,
                               Described(TRANSACTIONAL, [transaction]), payload=payload))
        _channel, posted, _payload = peer.frame10()
        if posted.code == DETACH:
            error = posted.value[2].value
            return f"link closed: {error[0]} {error[1]}"
        equal(posted.value[4].code, TRANSACTIONAL)
        value = encode(Described(0x77, Described(DISCHARGE, [transaction, False])))
        peer.send(performative(TRANSFER, Uint(1), Uint(2), b"\2", Uint(0), False, payload=value))
        return outcome10(peer)


# ---- HTTP


def over_http(user, queue, claim):
    body = {"properties": {} if claim is None else {"user_id": claim}, "routing_key": queue, "payload": "x",
            "payload_encoding": "string"}
    status, value = desk().ask("POST", f"/exchanges/{VHOST}/amq.default/publish", body, user, PASSWORD)
    return "taken" if status == 200 and value == {"routed": True} else f"{status} {value.get('reason')}"


PROTOCOLS = [
    ("091", "0-9-1", over_091, "channel closed: 406 PRECONDITION_FAILED - {text}"),
    ("091-transaction", "a transaction of 0-9-1", over_091_transaction, "channel closed: 406 PRECONDITION_FAILED - {text}"),
    ("10", "1.0, a link to a queue", over_10("/queues/{queue}"), "link closed: " + UNAUTHORIZED + " {text}"),
    ("10-id", "1.0, a message with an id as well", over_10("/queues/{queue}", key="id"), "link closed: " + UNAUTHORIZED + " {text}"),
    ("10-exchange", "1.0, a link to an exchange", over_10("/exchanges/amq.direct/{queue}"),
     "link closed: " + UNAUTHORIZED + " {text}"),
    ("10-anonymous", "1.0, an anonymous terminus", over_10(None, to=True), "link closed: " + UNAUTHORIZED + " {text}"),
    ("10-transaction", "a transaction of 1.0 (ours alone)", over_10_transaction, "link closed: " + UNAUTHORIZED + " {text}"),
    ("http", "HTTP", over_http, "400 406 PRECONDITION_FAILED - {text}"),
]


@contextlib.contextmanager
def queue_of(arguments=None):
    name = f"identity.{time.monotonic_ns():x}"
    desk().ask("PUT", f"/queues/{VHOST}/{name}", {"durable": True, "arguments": arguments or {}})
    desk().ask("POST", f"/bindings/{VHOST}/e/amq.direct/q/{name}", {"routing_key": name, "arguments": {}})
    try:
        yield name
    finally:
        desk().ask("DELETE", f"/queues/{VHOST}/{name}")


def vouched(send, refusal):
    """What the user-id of a message may say, and what becomes of it."""
    with queue_of() as queue:
        for user, claim in ((USER, None), (USER, USER), (POSER, None), (POSER, POSER), (POSER, "boss"), (POSER, "")):
            equal(send(user, queue, claim), "taken", f"{user} as {claim!r}")
            equal(got(queue), claim or "", f"{user} as {claim!r}")
        for claim in ("boss", "", USER.upper(), f"{USER} ", POSER, "guest"):
            text = f"user_id property set to '{claim}' but authenticated user was '{USER}'"
            equal(send(USER, queue, claim), refusal.format(text=text), f"{USER} as {claim!r}")
            equal(got(queue), None, "nothing came of it")


for _name, _words, _send, _refusal in PROTOCOLS:
    suite.add(f"user-id.{_name}", f"user-id over {_words}: nobody's, one's own, another's, an empty one; with the tag impersonator",
              f"delivered as it is, or refused: `{_refusal.format(text='...')}`; with the tag all are delivered",
              lambda send=_send, refusal=_refusal: vouched(send, refusal))


@suite.case("user-id.10-settled", "user-id over 1.0 of a settled message: one's own, another's",
            f"delivered; link closed: `{UNAUTHORIZED}`")
def _():
    send = over_10("/queues/{queue}", settled=True)
    with queue_of() as queue:
        text = f"user_id property set to 'boss' but authenticated user was '{USER}'"
        equal(send(USER, queue, "boss"), f"link closed: {UNAUTHORIZED} {text}")
        equal(got(queue), None)
        equal(send(USER, queue, USER), "taken")


@suite.case("user-id.10-untyped", "user-id over 1.0 that is no binary: a string, a symbol, a number; with the tag impersonator",
            "the session ends: `amqp:internal-error` (ours: the link, `amqp:decode-error`)")
def _():
    for user in (USER, POSER):
        for claim in (user, "boss", Symbol("boss"), Uint(7), True):
            with queue_of() as queue, peer10(user) as peer:
                attach(peer, 0, Described(TARGET, [f"/queues/{queue}"]))
                peer.send(performative(TRANSFER, Uint(0), Uint(0), b"\1", Uint(0), False, payload=message10(claim)))
                said = outcome10(peer)
                begin = "link closed: amqp:decode-error " if is_ours(desk().uri) else "session closed: amqp:internal-error "
                equal(said[:len(begin)], begin, f"{claim!r}")
                equal(got(queue), None)


@suite.case("user-id.10-order", "another's user-id over 1.0 in messages behind good ones on one link",
            "those before it are in the queue, the link goes with it, the session stays")
def _():
    with queue_of() as queue, peer10(USER) as peer:
        attach(peer, 0, Described(TARGET, [f"/queues/{queue}"]))
        for number, claim in enumerate((None, USER.encode(), b"boss")):
            tag = bytes([number])
            peer.send(performative(TRANSFER, Uint(0), Uint(number), tag, Uint(0), False, payload=message10(claim)))
        while (value := peer.frame10()[1]).code != DETACH:
            equal(value.value[4].code, ACCEPTED)
        equal(value.value[2].value[0], UNAUTHORIZED)
        attach(peer, 1, Described(TARGET, [f"/queues/{queue}"]))
        equal([got(queue) for _message in range(3)], ["", USER, None])


def read_stream_091(stream):
    with peer091(USER) as peer:
        peer.send(method(1, 60, 10, struct.pack(">IH", 0, 10) + b"\0"))
        peer.expect(60, 11)
        peer.send(method(1, 60, 20, b"\0\0" + short(stream) + short("t") + b"\0" + wire.table({"x-stream-offset": "first"})))
        peer.expect(60, 21)
        peer.expect(60, 60)
        return claim_of(peer.frame()[2])


def publish_to_stream(stream, claim):
    with wire_stream.Peer(desk().as_user(USER), desk().stream_port, vhost=VHOST) as peer:
        declared = peer.code(wire_stream.DECLARE, b"\0" + wire_stream.text("") + wire_stream.text(stream))
        equal(declared, wire_stream.OK)
        peer.publish(0, wire_stream.message(1, message10(claim)))
        peer.next(wire_stream.CONFIRM)


@suite.case("user-id.stream", "a message with another's user-id, published by the stream protocol and read over 0-9-1",
            "is delivered as it was published, with `x-stream-offset`: who reads a stream cannot rely on the user-id")
def _():
    with queue_of({"x-queue-type": "stream"}) as stream:
        publish_to_stream(stream, b"boss")
        with peer091(USER) as peer:
            peer.send(method(1, 60, 10, struct.pack(">IH", 0, 10) + b"\0"))
            peer.expect(60, 11)
            peer.send(method(1, 60, 20, b"\0\0" + short(stream) + short("t") + b"\0"
                             + wire.table({"x-stream-offset": "first"})))
            peer.expect(60, 21)
            peer.expect(60, 60)
            header = peer.frame()[2]
            equal((claim_of(header), b"x-stream-offset" in header), ("boss", True))


@suite.case("user-id.fed", "the same in a queue that is filled from the stream, and in its dead letters",
            "ours alone: as it was published, with `x-stream-offset`")
def _():
    if not is_ours(desk().uri):
        raise Skip("beyond RabbitMQ")
    with queue_of({"x-queue-type": "stream"}) as stream, queue_of() as buried:
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": buried, "x-message-ttl": 1000}
        with queue_of({"x-source-stream": stream, **dead}) as fed:
            for queue in (fed, buried):
                if queue == fed:
                    publish_to_stream(stream, b"boss")
                with peer091(USER) as peer:
                    peer.send(method(1, 60, 20, b"\0\0" + short(queue) + short("t") + b"\0" + wire.table({})))
                    peer.expect(60, 21)
                    peer.expect(60, 60)
                    header = peer.frame()[2]
                    equal((claim_of(header), b"x-stream-offset" in header), ("boss", True), queue)


# ---- direct replies


def requester(peer):
    """The name of a reply consumer, as a request shows it."""
    queue = f"identity.requests.{time.monotonic_ns():x}"
    peer.send(wire.queue_declare(1, queue, 0b100))
    peer.expect(50, 11)
    peer.send(method(1, 60, 20, b"\0\0" + short("amq.rabbitmq.reply-to") + short("r") + b"\2" + wire.table({})))
    peer.expect(60, 21)
    peer.send(publish_with(1, "", queue, REPLY_TO, short("amq.rabbitmq.reply-to")))
    while True:
        peer.send(method(1, 60, 70, b"\0\0" + short(queue) + b"\1"))
        if peer.method()[1:3] == (60, 71):
            payload = peer.frame()[2]
            peer.frame()
            at = payload.index(b"amq.rabbitmq.reply-to.")
            return payload[at:at + payload[at - 1]].decode()


def replied(peer, seconds=1.0):
    """Whether a reply comes."""
    peer.socket.settimeout(seconds)
    try:
        peer.expect(60, 60)
        peer.frame()
        return peer.frame()[2].decode()
    except TimeoutError:
        return None
    finally:
        peer.socket.settimeout(15)


def reply_091(vhost, name):
    with peer091(USER, vhost) as peer:
        peer.send(publish(1, "", name, vhost.encode()))
        peer.send(wire.queue_declare(1, "", 0b1100))
        peer.expect(50, 11)


def reply_10(vhost, name):
    with peer10(USER, vhost) as peer:
        attach(peer, 0, Described(TARGET, [None]))
        address = f"/queues/{urllib.parse.quote(name, safe='')}"
        payload = encode(Described(PROPERTIES, [None, None, address])) + encode(Described(DATA, vhost.encode()))
        peer.send(performative(TRANSFER, Uint(0), Uint(0), b"\1", Uint(0), False, payload=payload))
        peer.expect10(DISPOSITION)


@suite.case("reply.vhost", "a direct reply from another virtual host, whose name was told; over 0-9-1 and 1.0",
            "nobody hears it; from its own it comes")
def _():
    with peer091(USER) as peer:
        name = requester(peer)
        for reply in (reply_091, reply_10):
            reply(OTHER, name)
            equal(replied(peer), None)
            reply(VHOST, name)
            equal(replied(peer, 10), VHOST)


@suite.case("reply.asked", "whether a requester is there, asked from its own virtual host and from another, over 0-9-1 and 1.0",
            "it is; it is not: 404, `amqp:not-found`")
def _():
    with peer091(USER) as peer:
        name = requester(peer)
        for vhost, is_there in ((VHOST, True), (OTHER, False)):
            with peer091(USER, vhost) as other:
                other.send(wire.queue_declare(1, name, 0b1))
                said = answer_of(other, (50, 11))
                missing = f"channel closed: 404 NOT_FOUND - no queue '{name}' in vhost '{vhost}'"
                equal(said, "taken" if is_there else missing)
            with peer10(USER, vhost) as other:
                other.attach("replier", 0, False, f"/queues/{urllib.parse.quote(name, safe='')}")
                answer = other.expect10(ATTACH)[1]
                equal(answer[6] is not None, is_there)


@suite.case("reply.key", "names of reply consumers", "ours: 128 bits of each, its last 32 digits, are nobody's to guess")
def _():
    if not is_ours(desk().uri):
        raise Skip("RabbitMQ's names are of another form")
    keys = []
    for _number in range(8):
        with peer091(USER) as peer:
            name = requester(peer)
            equal(len(name), len("amq.rabbitmq.reply-to.") + 28 + 32)
            keys.append(int(name[-32:], 16))
    differing = [bin(one ^ other).count("1") for at, one in enumerate(keys) for other in keys[:at]]
    # Of 128 bits some 64 differ; below 24 or above 104 one pair in 10^12.
    equal(all(24 <= bits <= 104 for bits in differing), True, f"bits that differ: {differing}")


# ---- who hears events, and who logs in without a name

EVENTS = "amq.rabbitmq.event"


def plain_desk():
    """A broker to which nothing was said."""
    if not suite.options.broker:
        raise Skip("needs a broker of its own: --broker")
    if len(_desks) < 2:
        desk()
        broker = Broker(suite.options.broker, ["management.tcp.ip=127.0.0.1", "management.tcp.port=0",
                                               "stream.listeners.tcp.1=127.0.0.1:0"], usual=())
        broker.start()
        atexit.register(broker.close)
        _desks.append(Desk(Uri(broker.uri), broker.port_of(HTTP, "HTTP"), broker.stream_port()))
        _desks[1].log = broker.log
    return _desks[1]


@suite.case("events.reader", f"binding to `{EVENTS}` as a user with all permissions and no tag, management, policymaker, impersonator, "
            "monitoring, administrator: over 0-9-1, to an exchange, over 1.0 and HTTP",
            "ours: refused (403) but for the last two, as what it tells is of all virtual hosts; RabbitMQ takes all")
def _():
    own = plain_desk()
    user, vhost = f"{USER}-ears", "/"
    for tags in ("", "management", "policymaker", "impersonator", "monitoring", "administrator"):
        own.ask("PUT", f"/users/{user}", {"password": PASSWORD, "tags": tags})
        own.ask("PUT", f"/permissions/%2F/{user}", {"configure": ".*", "write": ".*", "read": ".*"})
        may = tags in ("monitoring", "administrator")
        no = f"channel closed: 403 ACCESS_REFUSED - read access to exchange '{EVENTS}' in vhost '/' refused for user '{user}'"
        uri = own.as_user(user, vhost)
        for bind, answer in (((50, 20), (50, 21)), ((40, 30), (40, 31))):
            with wire.Peer(uri) as peer:
                peer.login()
                peer.channel()
                name = f"identity.ears.{time.monotonic_ns():x}"
                peer.send(wire.queue_declare(1, name, 0b1000))
                peer.expect(50, 11)
                if bind == (40, 30):
                    name = "amq.fanout"
                words = short(name) + short(EVENTS) + short("#") + b"\0" + wire.table({})
                peer.send(method(1, *bind, b"\0\0" + words))
                equal(answer_of(peer, answer), "taken" if may else no, f"{tags} {bind}")
                if may and bind == (40, 30):
                    peer.send(method(1, 40, 40, b"\0\0" + words))
                    peer.expect(40, 51)
        if tags not in ("", "impersonator"):
            status, _value = own.ask("POST", f"/bindings/%2F/e/{EVENTS}/e/amq.fanout", {"routing_key": "http"}, user, PASSWORD)
            equal(status, 201 if may else 401, f"{tags} over HTTP")
    own.ask("DELETE", f"/bindings/%2F/e/{EVENTS}/e/amq.fanout/http")
    own.ask("DELETE", f"/users/{user}")


@suite.case("events.login", "a login as somebody who is not there, and with a wrong password, told of at "
            f"`{EVENTS}`", "ours: the first without the name, which may be a password; RabbitMQ tells both")
def _():
    own = plain_desk()
    with wire.Peer(own.uri) as ears:
        ears.login()
        ears.channel()
        ears.send(wire.queue_declare(1, "identity.logins", 0b100))
        ears.expect(50, 11)
        ears.send(method(1, 50, 20, b"\0\0" + short("identity.logins") + short(EVENTS) + short("user.authentication.failure")
                         + b"\0" + wire.table({})))
        ears.expect(50, 21)
        ears.send(method(1, 60, 20, b"\0\0" + short("identity.logins") + short("t") + b"\2" + wire.table({})))
        ears.expect(60, 21)
        for user, is_told in (("hunter2", False), ("guest", True)):
            for begin in ("0-9-1", "1.0", "stream"):
                with contextlib.suppress(Closed, wire_stream.Closed, AssertionError, OSError):
                    as_user = Uri(f"amqp://{user}:wrong@{own.uri.host}:{own.uri.port}/")
                    if begin == "0-9-1":
                        with wire.Peer(as_user) as peer:
                            peer.login()
                    elif begin == "1.0":
                        with Peer10(as_user) as peer:
                            peer.sasl()
                    else:
                        with wire_stream.Peer(as_user, own.stream_port):
                            pass
                ears.expect(60, 60)
                told = ears.frame()[2]
                equal((user.encode() in told, b"invalid credentials" in told), (is_told, True), f"{user} over {begin}")


@suite.case("anonymous.default", "ANONYMOUS where nothing is said of it, over 0-9-1, 1.0 and streams: guest is an administrator, has no tag, "
            "has one again", "ours: not offered, and refused; offered, and logs in as guest; not offered. RabbitMQ offers and takes it always")
def _():
    own = plain_desk()
    for tags in ("administrator", "", "monitoring"):
        with contextlib.suppress(AssertionError):
            own.ask("PUT", f"/users/{POSER}", {"password": PASSWORD, "tags": "administrator"})
        own.ask("PUT", "/users/guest", {"password": "guest", "tags": tags}, POSER, PASSWORD)
        with wire.Peer(own.uri) as peer:
            peer.send(wire.HEADER_091)
            start = peer.method()[3]
            equal(b"ANONYMOUS" in start, not tags, f"0-9-1, {tags!r}")
            peer.send(wire.start_ok("ANONYMOUS", b""))
            try:
                said = peer.method()[1:3]
            except Closed:
                said = "closed"
            equal(said, "closed" if tags else (10, 30), f"0-9-1, {tags!r}")
        with Peer10(own.uri) as peer:
            try:
                offered, outcome = peer.sasl("ANONYMOUS", b"x")
            except Closed:
                offered, outcome = None, "closed"
            equal(outcome, "closed" if tags else 0, f"1.0, {tags!r}")
        with wire_stream.Peer(own.uri, own.stream_port, upto=wire_stream.HANDSHAKE) as peer:
            equal(b"ANONYMOUS" in peer.ask(wire_stream.HANDSHAKE).rest, not tags, f"streams, {tags!r}")
            proof = wire_stream.text("ANONYMOUS") + struct.pack(">i", -1)
            equal(peer.ask(wire_stream.AUTHENTICATE, proof).code, 0x07 if tags else wire_stream.OK, f"streams, {tags!r}")
    own.ask("PUT", "/users/guest", {"password": "guest", "tags": "administrator"}, POSER, PASSWORD)


@suite.case("anonymous.named", "ANONYMOUS where `anonymous_login_user` names an administrator", "offered, and logs in as that user")
def _():
    with wire.Peer(desk().uri) as peer:
        equal(b"ANONYMOUS" in peer.login("ANONYMOUS", b""), True)
    with Peer10(desk().uri) as peer:
        offered, outcome = peer.sasl("ANONYMOUS", b"x")
        equal(("ANONYMOUS" in offered, outcome), (True, 0))


@suite.case("start.warnings", "starts with guest's default password: with nothing said, loopback_users = none, listeners on all interfaces, "
            "another password, anonymous_login_user = guest", "ours: each is warned of in the log, but for the first and the last but one")
def _():
    if not suite.options.broker:
        raise Skip("needs a broker of its own: --broker")
    near, far = "listeners.tcp.default=127.0.0.1:0", "listeners.tcp.default=0.0.0.0:0"
    rest = ["management.tcp=none", "prometheus.tcp=none", "stream.listeners.tcp=none", "web_amqp.tcp=none"]
    known, anywhere, listeners = "has its default password", "may log in from anywhere", "Listeners for other machines: amqp on 0.0.0.0"
    anonymous = "whoever logs in with ANONYMOUS is user 'guest'"
    for settings, told, untold in (
        ([near], [], [known, anonymous]),
        ([near, "loopback_users=none"], [known, anywhere], [listeners]),
        ([far], [known, "this machine alone", listeners], [anywhere]),
        ([far, "loopback_users=none"], [known, anywhere, listeners], []),
        ([far, "loopback_users=none", "default_pass=another"], [], [known]),
        ([near, "anonymous_login_user=guest"], [anonymous], [known]),
    ):
        broker = Broker(suite.options.broker, [*settings, *rest], usual=())
        try:
            broker.start()
            with open(broker.log, encoding="utf-8") as file:
                log = file.read()
            equal([words in log for words in told + untold], [True] * len(told) + [False] * len(untold), f"{settings}")
        finally:
            broker.close()


def options(parser):
    parser.add_argument("--broker", default="", help="a leveret to start")
    parser.add_argument("--stream-port", type=int, default=5552)


if __name__ == "__main__":
    suite.main(options)
