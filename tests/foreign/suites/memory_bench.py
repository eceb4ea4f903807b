"""Helpers of the cases of memory: nodes with a small watermark, what they hold and take, and somebody who is beside it.

The watermark is small, so that the share of a user is: 100 MB beside another user. Each case has a node of its own: what
one left in the heap would count for the next.
"""

import contextlib
import http.client
import re
import time

from lab import wire
from lab.broker import resident_bytes
from lab.cases import Suite, eventually
from lab.wire import method, publish, queue_declare, short
from suites import tenants_bench

suite = Suite("memory")
WATERMARK = 400_000_000
SHARE = WATERMARK // 4
CONNECTION = 64 << 20
# Input that came before it was refused is kept all the same: a buffer of each connection, of 1 MiB at most.
INPUT = 4 << 20
# The node's needs beside what is held: sockets, work in the turn, what the allocator keeps.
REST = 24 << 20
BODY = b"x" * (1 << 20)
HELD = re.compile(rb"^\S*leveret_connections_held_bytes (\d+)", re.M)
REFUSED = re.compile(r"no memory for .*\(leveret\.(connection_memory_max|user_memory_share)\)")


def node(*settings, watermark=WATERMARK):
    """A node of this case alone."""
    return tenants_bench.fresh(
        suite.options.broker, 8192,
        [f"vm_memory_high_watermark.absolute={watermark}", "stream.listeners.tcp.1=127.0.0.1:0", *settings])


def held(the):
    """Bytes that the ledger says connections hold."""
    client = http.client.HTTPConnection("127.0.0.1", the.metrics_port, timeout=20)
    try:
        client.request("GET", "/metrics")
        return int(HELD.search(client.getresponse().read()).group(1))
    finally:
        client.close()


def settled_bytes(the, looks=5):
    """Bytes the node has resident, once they have not changed by more than a MiB for so many looks, ten a second."""
    seen = []

    def is_settled():
        seen.append(resident_bytes(the.broker.pid))
        return len(seen) >= looks and max(seen[-looks:]) - min(seen[-looks:]) < 1 << 20

    eventually(is_settled, "the node's memory is as it stays", 20, 0.1)
    return seen[-1]


# Looks at a node that is idle until it has given back what its heap kept of a burst.
IDLE = 35


class Watch:
    """Another user, who publishes and holds a transaction of his own, and how much memory the node takes meanwhile."""

    def __init__(self, the):
        self.the = the
        self.peer = the.logs_in(user="other", password="secret")
        self.peer.channel(1)
        self.peer.send(queue_declare(1, "others", 0b10), method(1, 85, 10, b"\0"))
        self.peer.expect(50, 11)
        self.peer.expect(85, 11)
        self.before = resident_bytes(the.broker.pid)

    def grown(self):
        """Bytes that the node has resident beyond those it had."""
        return resident_bytes(self.the.broker.pid) - self.before

    def check(self, most, resident=None, factor=1.2):
        """The node took at most so much, and `factor` times what the ledger says; the other user is served at once."""
        said = held(self.the)
        assert said <= most + INPUT, f"the ledger says {said >> 20} MiB of {most >> 20}"
        if resident is None:
            # What was refused just now is the system's again once the node is idle, which it is not where it is asked all the
            # time.
            eventually(lambda: self.grown() <= factor * held(self.the) + REST, "the node has little more than is held", 20, 0.5)
        else:
            grown = resident - self.before
            assert grown <= factor * said + REST, f"{grown >> 20} MiB more, the ledger says {said >> 20}"
        begin = time.monotonic()
        self.peer.send(publish(1, "", "others", b"m" * 1000))
        self.peer.expect(60, 80)
        assert time.monotonic() - begin < 1, "the other user waited"
        return said

    def close(self):
        self.peer.socket.close()


@contextlib.contextmanager
def watched(the):
    watch = Watch(the)
    try:
        yield watch
    finally:
        watch.close()
    eventually(lambda: held(the) == 0, "the ledger says 0 once nobody is there")


@contextlib.contextmanager
def tenants(the, count, channels):
    """Connections of the tenant with so many channels each."""
    with contextlib.ExitStack() as stack:
        peers = []
        for _ in range(count):
            peer = stack.enter_context(the.logs_in(user="tenant", password="secret"))
            peer.send(*(method(number, 20, 10, short("")) for number in range(1, channels + 1)))
            for _ in range(channels):
                peer.expect(20, 11)
            peer.send(queue_declare(1, "theirs", 0b10))
            peer.expect(50, 11)
            peers.append(peer)
        yield peers


def refusal(peer):
    """The close that a peer was sent, `None` if it was sent none in a second."""
    peer.socket.settimeout(1)
    try:
        return peer.close_seen()
    except (TimeoutError, wire.Closed):
        return None
    finally:
        peer.socket.settimeout(15)


def send(peer, data):
    """Whether all of it could be sent."""
    try:
        peer.socket.sendall(data)
        return True
    except OSError:
        return False
