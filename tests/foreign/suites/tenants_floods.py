"""Cases of tenants: thousands of half-open connections from one address, and what others wait for meanwhile.

Of the addresses 127.0.0.9 floods, and 127.0.0.2 is somebody else. A bound that is there holds in the best of a few
rounds, however busy the machine of the test is; one that is not there holds in none.
"""

import atexit
import contextlib
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time

from lab import certificates
from lab.cases import equal
from suites.tenants_bench import connect, login, node, suite, waits

HEALTH = "/health/checks/is-in-service"
COUNT = 100
ROUNDS = 4
USUAL_MS, LONGEST_MS, OWN_MS = 50, 500, 1000
# A flood opens hundreds of connections a second, handshakes among them: on a machine that is busy with other work too
# it has its part of the processor.
TIMES_CALM = 8
# The longest of all rounds, those that a busy machine spoiled too.
EVER_MS = 2000
FILES = 8192
_certificates = {}


def tls():
    """Settings of a node that speaks TLS at each port, with certificates of this run."""
    if not _certificates:
        made = tempfile.mkdtemp(prefix="leveret-certificates-")
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        _certificates["folder"] = certificates.make(made)
    folder = _certificates["folder"]
    files = [f"{part}{name}={folder}/{file}" for part in ("ssl_options.", "management.ssl.")
             for name, file in (("cacertfile", "ca.pem"), ("certfile", "server.pem"), ("keyfile", "server.key"))]
    return [*files, "listeners.ssl.1=127.0.0.1:0", "management.ssl.ip=127.0.0.1", "management.ssl.port=0"]


def trusting():
    tls()
    return ssl.create_default_context(cafile=os.path.join(_certificates["folder"], "ca.pem"))


@contextlib.contextmanager
def flood(port, count, kind, least, origin=9):
    """So many connections that say no more than that, as long as this lasts; the broker keeps `least` of them at once."""
    words = [sys.executable, "-m", "suites.tenants_flood", str(port), str(count), kind, str(origin)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            word, held = process.stdout.readline().split() or (b"nothing", b"0")
            equal(word, b"full", "the flood")
            print(f"{count} {kind}: {int(held)} are held", file=sys.stderr)
            assert int(held) >= least, f"a flood of {count} connections holds {int(held)}, {least} are due"
            yield
            equal(process.poll(), None, "the flood's end before its time")
        finally:
            process.stdin.close()
            code = process.wait()
        equal(code, 0, "the flood's exit status")


def calm(asks):
    """The wait that 99 of 100 have for each of these, by name, with nobody else at the node: as busy as the machine is."""
    return {name: waits(ask, COUNT)[COUNT * 99 // 100 - 1] for name, ask in asks.items()}


def check(asks, before):
    """Each of these, by name, is done in time: 99 of 100 within `USUAL_MS`, or within so many times what they had before
    where the machine is too busy for that, and all within `LONGEST_MS`."""
    for name, ask in asks.items():
        found, usual_ms = [], max(USUAL_MS, TIMES_CALM * before[name])
        for _round in range(ROUNDS):
            took = waits(ask, COUNT)
            found.append((took[COUNT * 99 // 100 - 1], took[-1]))
            print(f"{name}: p99 {found[-1][0]:.1f} ms, longest {found[-1][1]:.1f} ms", file=sys.stderr)
            if found[-1][0] <= usual_ms and found[-1][1] <= LONGEST_MS:
                break
        else:
            raise AssertionError(f"{name}: p99 and longest of {ROUNDS} rounds, ms: "
                                 + ", ".join(f"{p99:.0f} {longest:.0f}" for p99, longest in found)
                                 + f"; {usual_ms:.0f} are allowed, {before[name]:.0f} were there before")
        never_longer(name, [longest for _p99, longest in found])


def never_longer(what, found):
    """No round, however busy the machine, had a wait beyond what a bound that is not there would give."""
    assert max(found) <= EVER_MS, f"{what}: longest of each round, ms: " + ", ".join(f"{longest:.0f}" for longest in found)


def own(what, ask):
    """The same for somebody at the address that floods: in the best of a few rounds ten are done within a second each."""
    found = []
    for _round in range(ROUNDS):
        found.append(waits(ask, 10)[-1])
        print(f"{what} from the same address: longest {found[-1]:.1f} ms", file=sys.stderr)
        if found[-1] <= OWN_MS:
            return never_longer(what, found)
    raise AssertionError(f"{what} from the same address: {found} ms at most")


def logs_in(the, origin):
    with the.logs_in(origin) as peer:
        peer.channel()


def secure_login(port, origin, words, expected):
    """The first bytes of an answer over TLS, from 127.0.0.ORIGIN."""
    with trusting().wrap_socket(connect(port, origin, 15), server_hostname="localhost") as one:
        one.sendall(words)
        said = b""
        while len(said) < len(expected):
            more = one.recv(len(expected) - len(said))
            if not more:
                break
            said += more
        equal(said, expected)


def asks_securely(port, origin):
    head = "".join(f"{name}: {value}\r\n" for name, value in login("guest").items())
    secure_login(port, origin, f"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode(), b"HTTP/1.1 200 OK")


def others(the):
    """What somebody else does."""
    return {"a health check": lambda: equal(the.ask("GET", HEALTH, origin=2), 200),
            "a login": lambda: equal(the.ask("GET", "/whoami", origin=2), 200),
            "a scrape": lambda: equal(the.ask("GET", "/metrics", port=the.metrics_port, origin=2), 200)}


@suite.case("floods.half-requests", "1,000 half requests to the HTTP API and 1,000 to metrics from one address, opened "
            "again when they are closed",
            "ours: a health check, a login and a scrape from another address take at most 50 ms (p99) and never 500 ms, and "
            "a login from the same address less than 1 s, in the best of four rounds; RabbitMQ keeps all connections as long "
            "as it has files", 120)
def _():
    the = node(FILES)
    asks = others(the)
    before = calm(asks)
    with flood(the.http_port, 1000, "half", 100), flood(the.metrics_port, 1000, "half", 16):
        check(asks, before)
        own("a login", lambda: equal(the.ask("GET", "/whoami", origin=9), 200))


@suite.case("floods.silent", "silent AMQP connections from one address, twice as many as fit",
            "ours: the same, and for a client of AMQP; RabbitMQ lets nobody in until they time out", 120)
def _():
    the = node(2000)
    asks = {"a client": lambda: logs_in(the, 2), **others(the)}
    before = calm(asks)
    with flood(the.uri.port, 3000, "silent", 1000):
        check(asks, before)
        own("a client", lambda: logs_in(the, 9))


@suite.case("floods.handshakes", "4,000 half-open handshakes from one address at the port of AMQP over TLS, then 5,000 "
            "that have said hello",
            "ours: the same, and for a client of AMQP over TLS: beyond 4,096 handshakes the oldest of the address with "
            "most of them goes. In RabbitMQ each holds a process and a file", 180)
def _():
    # So much time that the number held says nothing of how quickly a busy machine opens them.
    the = node(FILES, settings=[*tls(), "ssl_handshake_timeout=60000"])
    port = the.port_of("TLS")
    greets = lambda origin: secure_login(port, origin, b"AMQP\0\0\x09\x01", b"\1\0\0")
    asks = {"a client over TLS": lambda: greets(2), **others(the)}
    before = calm(asks)
    for count, kind, least in ((4000, "record", 1000), (5000, "hello", 500)):
        with flood(port, count, kind, least):
            check(asks, before)
            own("a client over TLS", lambda: greets(9))


@suite.case("floods.https", "1,000 half-open handshakes from one address at the port of the HTTP API over TLS, then 1,000 "
            "that have said hello",
            "ours: the same, and for a client of HTTPS: addresses take turns with handshakes, a handshake has the time of "
            "`ssl_handshake_timeout`, and beyond its address's share a second", 180)
def _():
    the = node(FILES, settings=tls())
    port = the.port_of("HTTPS")
    asks = {"a client of HTTPS": lambda: asks_securely(port, 2), **others(the)}
    before = calm(asks)
    for kind in ("record", "hello"):
        with flood(port, 1000, kind, 100):
            check(asks, before)
            own("a client of HTTPS", lambda: asks_securely(port, 9))


@suite.case("floods.slow-handshake", "a handshake over HTTPS that goes on after `ssl_handshake_timeout`",
            "the connection is closed then, as RabbitMQ does", 30)
def _():
    the = node(FILES, settings=[*tls(), "ssl_handshake_timeout=1500"])
    port = the.port_of("HTTPS")
    with contextlib.closing(connect(port, 2, 10)) as one:
        begin = time.monotonic()
        one.sendall(b"\x16\x03\x01")
        equal(one.recv(1), b"", "the end")
        took = time.monotonic() - begin
        assert 1.2 < took < 4, f"{took:.1f} s"
