"""Cases of tenants: whoever is held back is seen, and why: in the HTTP API, on the command line, in metrics and the log."""

import contextlib
import json
import socket
import threading
import time
import urllib.request

from lab import wire
from lab.cases import equal, eventually
from suites.tenants_bench import connect, login, node, stream, suite

# Settings of its own: a broker that no other case has filled.
OWN = ["log.console.level=info"]


def own():
    return node(4096, settings=OWN)


def fetch(the, path, user="guest"):
    """An object of the HTTP API."""
    request = urllib.request.Request(f"http://127.0.0.1:{the.http_port}/api{path}", headers=login(user))
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def tenant(the, user):
    """The row of a user."""
    return {row["name"]: row for row in fetch(the, "/x/tenants")}.get(user)


def places(the):
    """The pools of places, by name."""
    return {row["name"]: row for row in fetch(the, "/x/places")}


def metrics(the, path="/metrics"):
    """The samples of this node's own metrics, by name and labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{the.metrics_port}{path}", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if "leveret_" in line and line[0] != "#"}


def soon(look, expected):
    """A look finds this, within ten seconds."""
    eventually(lambda: look() == expected, f"{expected!r}")


@contextlib.contextmanager
def talks(the, user):
    with the.logs_in(user=user, password="secret") as peer:
        peer.channel()
        yield peer


@suite.case("seen.unread", "a client that publishes what comes back to it, and reads nothing",
            "ours alone: its connection is `held_back` for `unread_output` in the list of connections, its user is in "
            "`GET /api/x/tenants`, `list_tenants`, metrics and once in the log", 60)
def _():
    the = own()
    with talks(the, "tenant") as peer:
        returned = wire.method(1, 60, 40, b"\0\0" + wire.short("") + wire.short("nobody") + b"\1")
        body = b"x" * 100_000
        piece = returned + wire.content_header(1, len(body)) + wire.frame(wire.BODY, 1, body)
        peer.socket.settimeout(3)
        with contextlib.suppress(TimeoutError, socket.timeout):
            for _ in range(400):
                peer.socket.sendall(piece)

        def row():
            rows = [own for own in fetch(the, "/connections") if own["user"] == "tenant"]
            return rows[0]["held_back"] if rows else "no connection"
        soon(lambda: row(), "unread_output")
        found = tenant(the, "tenant")
        equal((found["connections"], found["held_back"], found["held_back_by"]["unread_output"]), (1, 1, 1))
        assert found["held_back_total_by"]["unread_output"] >= 1
        equal(the.tool("list_connections", "user", "held_back"), [["user", "held_back"], ["tenant", "unread_output"]])
        rows = the.tool("list_tenants", "name", "connections", "held_back")
        equal(rows[0], ["name", "connections", "held_back"])
        assert ["tenant", "1", "1"] in rows, rows
        assert metrics(the)['rabbitmq_leveret_held_back_total{reason="unread_output"}'] >= 1
        each = metrics(the, "/metrics/per-object")
        equal(each['rabbitmq_leveret_user_connections_held_back{user="tenant",reason="unread_output"}'], 1)
        assert not any("user=" in name for name in metrics(the)), "users are told of one by one elsewhere"
        equal(len(the.log_lines("user 'tenant' was held back: clients do not read")), 1)
    soon(lambda: tenant(the, "tenant")["connections"], 0)


@suite.case("seen.alarm", "a client that publishes while the alarm of free disk is raised",
            "ours alone: its connection is `held_back` for `disk_alarm`, and `none` when the alarm is over", 60)
def _():
    the = own()
    with talks(the, "other") as peer:
        peer.send(wire.publish(1, "", "nobody", b"first"))
        the.tool("set_disk_free_limit", "1000TB")
        try:
            eventually(lambda: the.ask("GET", "/health/checks/alarms") == 503, "the alarm holds")
            peer.send(wire.publish(1, "", "nobody", b"second"))
            row = lambda: [own["held_back"] for own in fetch(the, "/connections") if own["user"] == "other"]  # noqa: E731
            soon(lambda: row(), ["disk_alarm"])
        finally:
            the.tool("set_disk_free_limit", "50MB")
        soon(lambda: row(), ["none"])
        assert tenant(the, "other")["held_back_total_by"]["disk_alarm"] >= 1
        # The alarm has lines of its own.
        equal(the.log_lines("user 'other' was held back"), [])


@suite.case("seen.share", "two users whose messages go to 300 queues each, at once",
            "ours alone: each has units of work to its name, and was held back for `share_of_work`", 60)
def _():
    # Users share what a shard has: both are on one.
    the = node(4096, settings=[*OWN, "leveret.shards=1"])
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(talks(the, user)) for user in ("tenant", "other")]
        for number, peer in enumerate(peers):
            name = f"wide-{number}"
            peer.send(wire.method(1, 40, 10, b"\0\0" + wire.short(name) + wire.short("fanout") + b"\0" + wire.table({})))
            peer.expect(40, 11)
            for at in range(300):
                queue = f"{name}-{at}"
                bind = b"\0\0" + wire.short(queue) + wire.short(name) + wire.short("") + b"\0" + wire.table({})
                # Exclusive ones, which go with the connection.
                peer.send(wire.queue_declare(1, queue, 0b100, {"x-max-length": 1}), wire.method(1, 50, 20, bind))
                peer.expect(50, 11)
                peer.expect(50, 21)

        # Until it is seen, and no longer than that: how much is too much is the machine's to say.
        seen, ends = threading.Event(), time.monotonic() + 20

        def publish(peer, name):
            with contextlib.suppress(OSError):
                while not seen.is_set() and time.monotonic() < ends:
                    peer.socket.sendall(wire.publish(1, name, "", b"") * 10)
        threads = [threading.Thread(target=publish, args=(peer, f"wide-{at}")) for at, peer in enumerate(peers)]
        for thread in threads:
            thread.start()
        held = lambda user: tenant(the, user)["held_back_total_by"]["share_of_work"]  # noqa: E731
        try:
            eventually(lambda: held("tenant") + held("other") > 0, "somebody is held back", 20)
        finally:
            seen.set()
            for thread in threads:
                thread.join(30)
        for user in ("tenant", "other"):
            eventually(lambda user=user: tenant(the, user)["work_units"] > 10_000, f"work of {user}")
        equal(len(the.log_lines("held back: its share of the work")) in (1, 2), True)


@suite.case("seen.places", "a user that listens to more events than may be",
            "ours alone: the refusal is counted for the user, in `GET /api/x/places` and metrics; users with the tag "
            "monitoring may look", 60)
def _():
    the = own()
    with contextlib.ExitStack() as stack:
        statuses = []
        for origin in (4, 4, 4, 4, 5, 5, 5, 5, 6):
            one, status = stream(the, origin, "tenant")
            stack.callback(one.close)
            statuses.append(status)
        equal(statuses, [200] * 8 + [429])
        found = places(the)["event_streams"]
        equal((found["places"], found["taken"], found["users"]["tenant"]), (32, 8, {"taken": 8, "refused": 1}))
        own_row = tenant(the, "tenant")
        equal((own_row["places"]["event_streams"], own_row["places_refused"]), ({"taken": 8, "refused": 1}, 1))
        assert metrics(the)['rabbitmq_leveret_places_refused_total{pool="event_streams"}'] >= 1
        each = metrics(the, "/metrics/per-object")
        equal(each['rabbitmq_leveret_user_places_taken{user="tenant",pool="event_streams"}'], 8)
    equal([the.ask("GET", path, user="other") for path in ("/x/tenants", "/x/places")], [401, 401])


@suite.case("seen.guesses", "wrong passwords of a user until they are no longer looked at",
            "ours alone: `logins_held_back` of the user says how many", 60)
def _():
    the = own()
    head = dict(login("other"))
    head["Authorization"] = "Basic b3RoZXI6d3Jvbmc="
    statuses = []
    for origin in range(20, 26):
        for _ in range(4):
            with contextlib.closing(connect(the.http_port, origin, 30)) as one:
                lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
                one.sendall(f"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
                statuses.append(int(one.recv(64)[9:12]))
    assert 429 in statuses, statuses
    assert tenant(the, "other")["logins_held_back"] >= 1
