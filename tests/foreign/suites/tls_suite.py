"""AMQP over TLS: versions, certificates, logins by certificate, and handshakes that go wrong."""

import contextlib
import socket
import ssl
import threading
import time
import warnings

import pika
from pika.credentials import ExternalCredentials
from proton import SSLDomain
from proton.utils import BlockingConnection

from lab.cases import Skip, Suite, Uri, equal
from lab.wire_stream import AUTHENTICATE, CREATE, DELETE, HANDSHAKE, OK, Peer, pairs, text
from suites import tls_http
from suites.alarm_roads import ALARMS, during, first_091, first_10, login_091, over_streams, reached
from suites.network_bench import Ground, alarm, options

suite = Suite("tls")
suite.without_broker = "needs --broker"
ground = Ground(suite)
warnings.simplefilter("ignore", DeprecationWarning)
SECOND = 1.0


def open_091(own=None, credentials=None, **versions):
    context = ground.context(own, **versions)
    return pika.BlockingConnection(pika.ConnectionParameters(
        "localhost", ground.port("tls"), ssl_options=pika.SSLOptions(context, "localhost"), socket_timeout=10,
        credentials=credentials or pika.PlainCredentials("guest", "guest"), connection_attempts=1))


def open_10(own=None, mechanism=None):
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(f"{ground.folder}/ca.pem")
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    if own:
        domain.set_credentials(f"{ground.folder}/{own}.pem", f"{ground.folder}/{own}.key", None)
    login = "" if mechanism == "EXTERNAL" else "guest:guest@"
    return BlockingConnection(
        f"amqps://{login}localhost:{ground.port('tls')}", ssl_domain=domain, timeout=10,
        allowed_mechs=mechanism or "PLAIN", heartbeat=None)


def round_trip(connection, *sizes):
    channel = connection.channel()
    channel.confirm_delivery()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for size in sizes:
        body = bytes(number % 251 for number in range(size))
        channel.basic_publish("", queue, body)
        equal(channel.basic_get(queue, auto_ack=True)[2] == body, True)
    connection.close()


def raw(own=None, **versions):
    plain = socket.create_connection(("localhost", ground.port("tls")), timeout=20)
    return ground.context(own, **versions).wrap_socket(plain, server_hostname="localhost")


def refused(own=None, **versions):
    """How a handshake ends that must not succeed. TLS 1.3 tells a client after its own part of it."""
    try:
        with raw(own, **versions) as stream:
            stream.sendall(b"AMQP\x00\x00\x09\x01")
            return "closed" if stream.recv(100) == b"" else "accepted"
    except ssl.SSLError as error:
        return error.reason
    except ConnectionResetError:
        return "reset"


for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
    def _(version=version):
        with raw(newest=version, oldest=version) as stream:
            equal(stream.version(), version.name.replace("_", "."))
        round_trip(open_091(newest=version, oldest=version), 0, 12, 70_000)

    dotted = version.name[4:].replace("_", ".")
    suite.add(f"version.{dotted}", f"a client that speaks TLS {dotted} alone", "served", _)


@suite.case("version.1.1", "a client that speaks TLS 1.1 alone", "the handshake fails with an alert")
def _():
    context = ground.context(newest=ssl.TLSVersion.TLSv1_1, oldest=ssl.TLSVersion.TLSv1_1)
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    plain = socket.create_connection(("localhost", ground.port("tls")), timeout=20)
    try:
        context.wrap_socket(plain, server_hostname="localhost").close()
    except ssl.SSLError as error:
        if error.reason == "NO_CIPHERS_AVAILABLE":
            raise Skip("this machine's OpenSSL no longer speaks it") from None
        equal("ALERT" in error.reason, True, error.reason)
        return
    raise AssertionError("it was accepted")


@suite.case("bodies", "bodies of 1, 16,384, 100,000 and 3,000,000 bytes there and back", "the same")
def _():
    round_trip(open_091(), 1, 16_384, 100_000, 3_000_000)


@suite.case("amqp10", "AMQP 1.0 over TLS with PLAIN", "opened")
def _():
    open_10().close()


def over_alarm(kind):
    """The alarm over the disk or memory of a broker of its own."""
    more = {"stream__listeners__ssl__1": "127.0.0.1:0"}
    broker = ground.broker(**more)

    def stream():
        plain = socket.create_connection(("localhost", ground.port("tls", **more)), timeout=20)
        return ground.context().wrap_socket(plain, server_hostname="localhost")

    @contextlib.contextmanager
    def held():
        with during(broker, alarm(broker), kind) as (_early, count, clear):
            yield reached(broker, stream), count, clear
    return broker, held


for kind in ALARMS:
    @suite.case(f"alarm.091.{kind}", f"0-9-1 over TLS: connections opened while the {kind} alarm holds publish: as over TCP, and all "
                "in one piece with the login", "connection.blocked; no body is read and nothing confirmed, but for a first message "
                "without a body; then unblocked, and all is taken", seconds_max=60)
    def _(kind=kind):
        for check in first_091, login_091:
            with over_alarm(kind)[1]() as held:
                check(*held)

    @suite.case(f"alarm.10.{kind}", f"1.0 over TLS: a connection opened while the {kind} alarm holds attaches a sender",
                "its session has a window of 0; then one, and the first message is accepted", seconds_max=60)
    def _(kind=kind):
        with over_alarm(kind)[1]() as held:
            first_10(*held)

    @suite.case(f"alarm.stream.{kind}", f"streams over TLS while the {kind} alarm holds: declaring a publisher, publishing",
                "refused with 17, and nothing more is read of who has a publisher" if kind == "disk"
                else "taken and confirmed as always", seconds_max=60)
    def _(kind=kind):
        broker, _held = over_alarm(kind)
        over_streams(broker, broker.secure_stream_port(), ground.context(), alarm(broker), kind)


@suite.case("certificate.none", "no certificate where none is demanded", "served")
def _():
    round_trip(open_091(), 1)


@suite.case("certificate.right", "a certificate of a trusted root", "served")
def _():
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        round_trip(open_091("client", newest=version), 1)


@suite.case("certificate.expired", "a certificate whose time is over", "the handshake fails: alert certificate expired")
def _():
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        equal(refused("expired", newest=version), "SSLV3_ALERT_CERTIFICATE_EXPIRED")


@suite.case("certificate.stranger", "a certificate of another root", "the handshake fails: alert unknown ca")
def _():
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        equal(refused("stranger", newest=version), "TLSV1_ALERT_UNKNOWN_CA")


@suite.case("certificate.demanded", "no certificate with `fail_if_no_peer_cert`", "the handshake fails")
def _():
    port = ground.port("tls", ssl_options__fail_if_no_peer_cert="true")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with socket.create_connection(("localhost", port), timeout=20) as plain:
            try:
                with ground.context(newest=version).wrap_socket(plain, server_hostname="localhost") as stream:
                    stream.sendall(b"AMQP\x00\x00\x09\x01")
                    stream.recv(100)
            except ssl.SSLError as error:
                equal("ALERT" in error.reason, True, error.reason)
                continue
        raise AssertionError("it was accepted")


@suite.case("external.091", "0-9-1 with EXTERNAL and a certificate whose common name is a user", "opened as that user")
def _():
    connection = open_091("client", ExternalCredentials())
    round_trip(connection, 1)


@suite.case("external.10", "1.0 with EXTERNAL and a certificate whose common name is a user", "opened as that user")
def _():
    open_10("client", "EXTERNAL").close()


def mechanisms(own):
    with raw(own) as stream:
        stream.sendall(b"AMQP\x00\x00\x09\x01")
        return stream.recv(4096)


@suite.case("external.offered", "the mechanisms of `connection.start` for who has shown a certificate", "EXTERNAL is among them")
def _():
    equal(b"EXTERNAL" in mechanisms("client"), True)


@suite.case("external.stream", "the stream protocol with EXTERNAL and a certificate whose common name is a user; the "
            "mechanisms for who has shown one and for who has not", "opened as that user; EXTERNAL is among them; it is not")
def _():
    port = ground.broker(stream__listeners__ssl__1="127.0.0.1:0").secure_stream_port()

    def shown(own):
        peer = Peer(Uri("amqp://localhost"), port, upto=HANDSHAKE, secure=ground.context(own))
        return peer, text("EXTERNAL") in peer.mechanisms.rest

    other, is_offered = shown(None)
    with other:
        equal(is_offered, False)
    peer, is_offered = shown("client")
    with peer:
        equal(is_offered, True)
        equal(peer.code(AUTHENTICATE, text("EXTERNAL") + b"\0\0\0\0"), OK)
        peer.open("/")
        equal(peer.opened.code, OK)
        equal(peer.code(CREATE, text("secure") + pairs({})), OK)
        equal(peer.code(DELETE, text("secure")), OK)


@suite.case("external.unknown", "EXTERNAL with a certificate that names nobody there is",
            "connection closed: 403 `ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. "
            "For details see the broker logfile.`")
def _():
    try:
        open_091("unknown", ExternalCredentials()).close()
    except pika.exceptions.ProbableAuthenticationError as error:
        text = "(403) 'ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. For details see " \
            "the broker logfile.'"
        equal(text in str(error), True, str(error))
        return
    raise AssertionError("it was opened")


@suite.case("handshake.plain", "AMQP without TLS on the port of TLS", "closed, perhaps with an alert")
def _():
    with socket.create_connection(("localhost", ground.port("tls")), timeout=20) as stream:
        stream.sendall(b"AMQP\x00\x00\x09\x01")
        answer = stream.recv(100)
        equal(answer == b"" or answer[0] == 21, True, repr(answer))


@suite.case("handshake.slow", "a peer that sends half a handshake, or nothing", "closed after 5 s (`ssl_handshake_timeout`)")
def _():
    begin = time.monotonic()
    streams = [socket.create_connection(("localhost", ground.port("tls")), timeout=20) for _ in range(2)]
    streams[0].sendall(b"\x16\x03\x01\x02\x00\x01")
    for stream in streams:
        try:
            equal(stream.recv(100), b"")
        except ConnectionResetError:
            pass
        took = time.monotonic() - begin
        equal(4.5 < took < 9, True, f"closed after {took:.1f} s")
        stream.close()


@suite.case("handshake.storm", "200 handshakes at once, half of them left unfinished", "all of the others are served")
def _():
    port, failures = ground.port("tls"), []
    idle = [socket.create_connection(("localhost", port), timeout=20) for _ in range(100)]

    def meet():
        try:
            with raw() as stream:
                stream.sendall(b"AMQP\x00\x00\x09\x01")
                equal(stream.recv(8)[:1], b"\x01")
        except Exception as error:  # noqa: BLE001 - gathered for the case's own thread
            failures.append(repr(error))

    threads = [threading.Thread(target=meet) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for stream in idle:
        stream.close()
    equal(failures, [])


@suite.case("close", "a connection closed by its protocol", "TLS ends with close_notify")
def _():
    with raw() as stream:
        stream.suppress_ragged_eofs = False
        stream.sendall(b"AMQP\x09\x09\x09\x09")
        equal(stream.recv(100), b"AMQP\x03\x01\x00\x00")
        equal(stream.recv(100), b"")


@suite.case("http", "the HTTP API and metrics over TLS, named alone", "served over TLS and not without; certificates are checked")
def _():
    if not suite.options.broker:
        raise Skip(suite.without_broker)
    tls_http.served(suite.options.broker)


@suite.case("reload", "`POST /api/x/certificates/reload` after the files were replaced, and after one was spoiled",
            "who connects from then on sees the new ones, on every listener; a spoiled file: 400, and all stays")
def _():
    if not suite.options.broker:
        raise Skip(suite.without_broker)
    tls_http.reloaded(suite.options.broker)


if __name__ == "__main__":
    suite.main(options)
