"""Helpers of the cases of tenants: brokers with few places, clients from several addresses of this machine.

Each needs a broker of its own (--broker): what one tenant takes is measured by what another waits for.
"""

import atexit
import base64
import contextlib
import http.client
import json
import os
import re
import socket
import stat
import subprocess
import tempfile
import time

from lab import wire
from lab.broker import Broker
from lab.cases import Skip, Suite, Uri
from lab.wire import Closed

suite = Suite("tenants")
HTTP = re.compile(rb"started HTTP listener on \S*?:(\d+)")
METRICS = re.compile(rb"started Prometheus HTTP listener on \S*?:(\d+)|started Prometheus listener on \S*?:(\d+)")
PORTS = ("management.tcp.ip=127.0.0.1", "management.tcp.port=0", "prometheus.tcp.ip=127.0.0.1", "prometheus.tcp.port=0")
HALF = b"GET /api/overview HTTP/1.1\r\nHost: x\r\n"
_nodes = {}


class Node:
    """A broker that may open so many files, with an ordinary user who may do everything in `/`, and another."""

    def __init__(self, broker, files, settings):
        folder = tempfile.mkdtemp(prefix="leveret-tenants-")
        binary = os.path.join(folder, "leveret")
        with open(binary, "w", encoding="utf-8") as script:
            script.write(f'#!/bin/sh\nulimit -n {files} && exec "{os.path.abspath(broker)}" "$@"\n')
        os.chmod(binary, stat.S_IRWXU)
        self.broker = Broker(binary, [*PORTS, *settings], folder)
        self.broker.start()
        atexit.register(self.broker.close)
        self.uri = Uri(self.broker.uri)
        self.http_port = self.broker.port_of(HTTP, "HTTP")
        with open(self.broker.log, "rb") as log:
            self.metrics_port = int(max(METRICS.findall(log.read())[-1]))
        for user, tag in (("tenant", "management"), ("other", "management"), ("boss", "administrator")):
            self.ask("PUT", f"/users/{user}", {"password": "secret", "tags": tag})
            self.ask("PUT", f"/permissions/%2F/{user}", {"configure": ".*", "write": ".*", "read": ".*"})

    def close(self):
        """Ends the broker; a node that no other case shares gives back what it took."""
        self.broker.close()
        atexit.unregister(self.broker.close)

    def ask(self, verb, path, body=None, user="guest", origin=1, port=None, seconds_max=20):
        """The status of a request from 127.0.0.ORIGIN."""
        client = http.client.HTTPConnection("127.0.0.1", port or self.http_port, timeout=seconds_max,
                                            source_address=(address(origin), 0))
        try:
            head = {"Content-Type": "application/json", **login(user)} if port is None else {}
            path = path if port else "/api" + path
            client.request(verb, path, None if body is None else json.dumps(body), head)
            answer = client.getresponse()
            answer.read()
            return answer.status
        finally:
            client.close()

    def port_of(self, kind):
        """The port of the listener that the log calls so."""
        return self.broker.port_of(re.compile(rb"started " + kind.encode() + rb" listener on \S*?:(\d+)"), kind)

    def tool(self, *words):
        """The lines that a command of `ctl` prints, as words."""
        data = os.path.join(self.broker.folder, "data")
        said = subprocess.run([self.broker.binary, "ctl", "--data-dir", data, "-q", *words], capture_output=True, text=True,
                              timeout=30, check=True)
        return [line.split() for line in said.stdout.splitlines()]

    def log_lines(self, part):
        """The lines of the log that have this in them."""
        with open(self.broker.log, encoding="utf-8") as log:
            return [line for line in log if part in line]

    def opens(self, port, count, first=b"", origin=9):
        """So many connections from 127.0.0.ORIGIN that say this and no more."""
        return contextlib.closing(Crowd(port, count, first, origin))

    def logs_in(self, origin=1, user="guest", password="guest"):
        """A connection that has logged in, from 127.0.0.ORIGIN; `Closed` says why it was not let in."""
        peer = wire.Peer.__new__(wire.Peer)
        peer.uri = self.uri.as_user(user, password)
        peer.socket = connect(self.uri.port, origin, 15)
        peer.login()
        return peer


def login(user):
    password = "guest" if user == "guest" else "secret"
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def address(origin):
    return f"127.0.0.{origin}"


def connect(port, origin, seconds_max):
    return socket.create_connection(("127.0.0.1", port), timeout=seconds_max, source_address=(address(origin), 0))


class Crowd:
    """Connections that hold places."""

    def __init__(self, port, count, first, origin):
        self.sockets = []
        for _ in range(count):
            # A broker that accepts no more is what they are after.
            with contextlib.suppress(OSError):
                one = connect(port, origin, 1)
                self.sockets.append(one)
                one.sendall(first)

    def close(self):
        for one in self.sockets:
            one.close()


def node(files=4096, settings=()):
    """The broker of all cases that ask for these settings."""
    key = (files, tuple(settings))
    if key not in _nodes:
        _nodes[key] = Node(needed(suite.options.broker), files, settings)
    return _nodes[key]


def fresh(broker, files=4096, settings=()):
    """A broker of one case alone, as long as the block lasts."""
    return contextlib.closing(Node(needed(broker), files, settings))


def needed(broker):
    if not broker:
        raise Skip("needs a broker of its own: --broker")
    return broker


def waits(ask, count=20):
    """How long each of so many took, in milliseconds, sorted."""
    took = []
    for _ in range(count):
        begin = time.monotonic()
        ask()
        took.append((time.monotonic() - begin) * 1000)
    return sorted(took)


def quick(ask, what):
    """Each is done at once, as if nobody else were there: half within 50 ms, all within a second."""
    took = waits(ask)
    assert took[len(took) // 2] <= 50 and took[-1] <= 1000, f"{what}: {took[len(took) // 2]:.0f} ms, {took[-1]:.0f} at most"


def stream(the, origin, user):
    """A client that listens to events, and the status that it was answered with."""
    one = connect(the.http_port, origin, 10)
    head = "".join(f"{name}: {value}\r\n" for name, value in login(user).items())
    one.sendall(f"GET /api/x/events HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode())
    said = b""
    while len(said) < 12:
        more = one.recv(12 - len(said))
        if not more:
            raise Closed(f"after {said!r}")
        said += more
    return one, int(said[9:])
