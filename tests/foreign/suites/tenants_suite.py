"""Many tenants on one node: what one takes, others still have; `python -m suites.tenants_suite --broker BINARY`.

Addresses of 127.0.0.0/8 stand for machines: the broker tells them apart, and none is exempt.
"""

import contextlib
import re
import threading
import time

from lab import wire
from lab.cases import equal, eventually
from lab.wire import method, short
from suites.tenants_bench import HALF, connect, login, node, quick, stream, suite
from suites.tenants_seen import places
from suites import tenants_floods  # noqa: F401 - registers its cases

HEALTH = "/health/checks/is-in-service"
FULL = re.compile(r"connection refused for user 'tenant': user connection limit \((\d+)\) is reached")


@suite.case("http.half-requests", "300 half requests to the HTTP API and 300 to metrics, all from one address",
            "ours: a health check, a login and a scrape from another address are answered within 50 ms; RabbitMQ keeps all "
            "connections, and has as many as it has files")
def _():
    the = node()
    with the.opens(the.http_port, 300, HALF), the.opens(the.metrics_port, 300, HALF):
        quick(lambda: equal(the.ask("GET", HEALTH), 200), "health")
        quick(lambda: equal(the.ask("GET", "/overview"), 200), "a login")
        quick(lambda: equal(the.ask("GET", "/metrics", port=the.metrics_port), 200), "a scrape")


@suite.case("http.own-address", "the same, and a login from the address that they come from",
            "ours: is answered within a second")
def _():
    the = node()
    with the.opens(the.http_port, 300, HALF):
        quick(lambda: equal(the.ask("GET", "/overview", origin=9), 200), "a login")


@suite.case("http.share", "half requests that stay, of one address",
            "ours: after a second an eighth of the places, 32 of 256, and after ten seconds none; "
            "RabbitMQ keeps them", 40)
def _():
    the = node()
    with the.opens(the.http_port, 120, HALF) as crowd:
        def is_open(one):
            one.settimeout(0.01)
            try:
                return one.recv(1) != b""
            except TimeoutError:
                return True
            except OSError:
                return False
        time.sleep(2.5)
        left = sum(map(is_open, crowd.sockets))
        assert 0 < left <= 32, f"{left} are open"
        time.sleep(9)
        equal(sum(map(is_open, crowd.sockets)), 0, "those that are left")


@suite.case("tcp.silent", "more silent connections of one address than the node has places",
            "ours: the oldest of them go, and a client from any address logs in within a second; RabbitMQ lets nobody in "
            "until they time out")
def _():
    the = node(files=700)
    with the.opens(the.uri.port, 900):
        for origin in (1, 9):
            begin = time.monotonic()
            with the.logs_in(origin) as peer:
                peer.channel()
                equal(time.monotonic() - begin < 1, True, f"the login from 127.0.0.{origin}")


@suite.case("tcp.known", "the same while another client is connected",
            "it stays connected")
def _():
    the = node(files=700)
    with the.logs_in(9) as peer:
        peer.channel()
        with the.opens(the.uri.port, 900):
            peer.send(method(1, 50, 10, b"\0\0" + short("") + b"\x04" + b"\0\0\0\0"))
            peer.expect(50, 11)


@suite.case("tcp.user-share", "more connections of one user than `leveret.user_connection_share` of all places, over 0-9-1",
            "ours: connection closed: 530 `NOT_ALLOWED - connection refused for user '...': user connection limit (...) is "
            "reached`; others are let in. RabbitMQ has no such limit unless one is set for the user; "
            "`leveret.user_connection_share = 1` turns ours off")
def _():
    the = node(files=700, settings=["leveret.user_connection_share=0.02"])
    with contextlib.ExitStack() as stack:
        for number in range(30):
            try:
                stack.enter_context(the.logs_in(user="tenant", password="secret"))
            except wire.Closed as closed:
                found = FULL.search(str(closed))
                break
            except AssertionError as refused:
                found = FULL.search(str(refused))
                break
        else:
            raise AssertionError("30 connections of one user")
        assert found and int(found.group(1)) == number, f"{number} connections, then {found}"
        stack.enter_context(the.logs_in(user="other", password="secret"))
    the.ask("PUT", "/user-limits/tenant/max-connections", {"value": number + 5})
    with contextlib.ExitStack() as stack:
        for _number in range(number + 2):
            stack.enter_context(the.logs_in(user="tenant", password="secret"))


@suite.case("http.events", "clients of one address, and of one user, that listen to events",
            "ours alone: an eighth of those that may, and a quarter, then 429; administrators have some for themselves")
def _():
    the = node(files=4096)
    with contextlib.ExitStack() as stack:
        def listen(origin, user):
            one, status = stream(the, origin, user)
            stack.callback(one.close)
            return status
        # 32 may listen where 4,096 files may be open.
        equal([listen(9, "tenant") for _ in range(5)], [200, 200, 200, 200, 429])
        equal([listen(8, "tenant") for _ in range(5)], [200, 200, 200, 200, 429])
        equal(listen(7, "tenant"), 429, "its user has a quarter")
        equal(listen(7, "other"), 200)
        equal(listen(9, "guest"), 200, "an administrator is not kept out")
        equal(the.ask("GET", "/overview"), 200)


@suite.case("http.moves", "five slow moves of messages by one user, and another's move of one message",
            "ours alone: it is done within two seconds", 60)
def _():
    the = node()
    for queue in ("from-tenant", "from-other", "to"):
        equal(the.ask("PUT", f"/queues/%2F/{queue}", {"durable": True}) in (201, 204), True)
        for _ in range(30):
            body = {"properties": {}, "routing_key": queue, "payload": "x", "payload_encoding": "string"}
            equal(the.ask("POST", "/exchanges/%2F/amq.default/publish", body), 200)

    def move(user, count, rate):
        body = {"exchange": "", "routing_key": "to", "count": count, "rate": rate}
        return the.ask("POST", f"/x/queues/%2F/from-{user}/move", body, user=user, seconds_max=50)

    slow = [threading.Thread(target=move, args=("tenant", 2, 1)) for _ in range(5)]
    for one in slow:
        one.start()
    eventually(lambda: places(the)["http_connections"]["users"].get("tenant", {}).get("taken") == 5, "all five are asked for")
    begin = time.monotonic()
    equal(move("other", 1, 1000), 200)
    assert time.monotonic() - begin < 2, "it waited for the others"
    for one in slow:
        one.join()


@suite.case("http.bodies", "bodies without an end by one user, and another's import",
            "ours: it is answered at once; those are ended when less than 16 KiB come in ten seconds", 40)
def _():
    the = node()
    head = "".join(f"{name}: {value}\r\n" for name, value in login("tenant").items())
    start = f"POST /api/definitions HTTP/1.1\r\nHost: x\r\n{head}Transfer-Encoding: chunked\r\n\r\n".encode()
    piece = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    guest = "".join(f"{name}: {value}\r\n" for name, value in login("guest").items())
    unended = start.replace(head.encode(), guest.encode()) + piece
    with the.opens(the.http_port, 6, unended) as crowd:
        begin = time.monotonic()
        equal(the.ask("POST", "/definitions", {"queues": [], "padding": "x" * 40_000}, user="boss") in (200, 204), True)
        assert time.monotonic() - begin < 2, "the import waited"
        crowd.sockets[0].settimeout(20)
        said = crowd.sockets[0].recv(100)
        equal(said[9:12], b"408", "it did not go on")
        assert 8 < time.monotonic() - begin < 15
    # A user that may not ask is refused before any of the body is read.
    with contextlib.closing(connect(the.http_port, 9, 10)) as one:
        one.sendall(start + piece)
        equal(one.recv(100)[9:12], b"401")


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker"))
