"""Readers of the node's events, logins without a name, and warnings at a start."""

import atexit
import contextlib
import struct
import time

from lab import wire, wire_stream
from lab.broker import Broker
from lab.cases import Skip, Uri, equal
from lab.wire import Closed, method, short
from lab.wire10 import Peer10
from suites.identity_bench import Desk, HTTP, PASSWORD, POSER, USER, _desks, answer_of, desk, suite

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
            offered, outcome = peer.sasl("ANONYMOUS", b"x")
            equal(("ANONYMOUS" in offered, outcome), (False, 1) if tags else (True, 0), f"1.0, {tags!r}")
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
