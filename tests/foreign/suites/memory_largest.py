"""Cases of memory: far beyond the watermark the connection that holds most is closed, and nobody else.

The watermark is lowered while the node holds what it holds: where that is far beyond, it is so at the next look.
"""

import contextlib
import sys
import threading
import time

from lab.broker import resident_bytes
from lab.cases import equal, eventually
from lab.wire import method, publish, queue_declare
from suites.memory_bench import held, node, refusal, settled_bytes, suite, tenants
from suites.memory_holders import deaf, hold_answers, hold_transactions, transact
from suites.tenants_seen import fetch

LARGE = 100_000_000
SMALL = 3_000_000
# Looks at the memory are so far apart: publishers wait for two of them at least, as the alarm holds meanwhile.
SETTINGS = ["memory_monitor_interval=200", "leveret.connection_memory_max=infinity", "leveret.user_memory_share=infinity",
            "leveret.lone_user_memory_share=infinity"]
LINE = "most of all (leveret.alarm_refuses_growth)"


class Other:
    """A client that does the same all the time, and the longest it waited for one answer."""

    def __init__(self, the, ask, expected):
        self.peer = the.logs_in(user="other", password="secret")
        self.peer.channel(1)
        self.peer.send(queue_declare(1, "others", 0b10), method(1, 85, 10, b"\0"))
        self.peer.expect(50, 11)
        self.peer.expect(85, 11)
        self.ask, self.expected = ask, expected
        self.longest, self.count, self.error, self.is_ended = 0.0, 0, None, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            while not self.is_ended:
                begin = time.monotonic()
                self.peer.send(self.ask)
                for expected in self.expected:
                    self.peer.expect(*expected)
                self.longest = max(self.longest, time.monotonic() - begin)
                self.count += 1
                time.sleep(0.01)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def end(self):
        self.is_ended = True
        self.thread.join(20)
        self.peer.socket.close()


def publisher(the):
    return Other(the, publish(1, "", "others", b"m" * 1000), [(60, 80)])


def asker(the):
    return Other(the, queue_declare(1, "others", 0b11), [(50, 11)])


def connections(the):
    """The connections that the tenant has."""
    return sum(row["user"] == "tenant" for row in fetch(the, "/connections"))


@contextlib.contextmanager
def pressed(the, large, also=lambda large: None):
    """The node is far beyond its watermark by what `large` holds once it did this too; others hold a little, and go on."""
    with contextlib.ExitStack() as stack:
        small = stack.enter_context(tenants(the, 3, 1))
        for peer in small:
            transact(peer, [1])
            hold_transactions(peer, [1], SMALL)
        eventually(lambda: held(the) >= 3 * SMALL, "the small ones hold what they are to")
        before = held(the)
        transact(large, range(1, 5))
        assert hold_transactions(large, range(1, 5), LARGE), "it was not taken"
        eventually(lambda: held(the) >= LARGE + 3 * SMALL, "all of it is held")
        also(large)
        resident = settled_bytes(the)
        others = [publisher(the), asker(the)]
        stack.callback(lambda: [other.end() for other in others])
        eventually(lambda: all(other.count > 5 for other in others), "the others go on")
        the.tool("set_vm_memory_high_watermark", "absolute", str(resident * 10 // 14))
        yield
        eventually(lambda: the.ask("GET", "/health/checks/alarms") == 200, "the alarm is over")
        counts = [other.count for other in others]
        eventually(lambda: all(other.count > before + 5 for other, before in zip(others, counts)), "the others go on")
        # What the large one held is the system's again; the small ones hold what they held.
        assert resident_bytes(the.broker.pid) < resident - LARGE * 8 // 10, "its memory was not given back"
        equal(connections(the), 3, "connections of the tenant")
        equal(held(the), before, "bytes that are held")
        for peer in small:
            peer.send(method(1, 90, 20))
            peer.expect(90, 21)
        for other in others:
            other.end()
            equal(other.error, None, "another client")
            print(f"longest of {other.count}: {other.longest * 1000:.0f} ms", file=sys.stderr)
            assert other.longest <= 1, f"another client waited for {other.longest:.2f} s"
    lines = the.log_lines(LINE)
    equal(len(lines), 1, "lines in the log")
    assert "of user 'tenant' in vhost '/'" in lines[0], lines[0]


@suite.case("largest", "a node whose memory is far beyond its watermark, most of it in transactions of one connection",
            "ours: beyond 5/4 of the watermark the connection that holds most is closed: 506 `RESOURCE_ERROR - the node is far "
            "beyond its memory watermark, and this connection holds most: ...`, with a line in the log; nobody else is, and "
            "others are answered within a second. `leveret.alarm_refuses_growth = false` turns it off; RabbitMQ blocks all "
            "publishers until an operator finds it", 60)
def _():
    with node(*SETTINGS) as the, tenants(the, 1, 4) as (large,):
        with pressed(the, large):
            eventually(lambda: the.log_lines(LINE), "it is closed", 5)
            seen = refusal(large)
            assert seen, "it was not told why"
            kind, code, text, _where = seen
            equal((kind, code), ("connection", 506))
            assert text.startswith("RESOURCE_ERROR - the node is far beyond its memory watermark"), text
            assert "and this connection holds most:" in text, text
            large.send(method(0, 10, 51))
            eventually(lambda: connections(the) == 3, "its place is free")


@suite.case("largest.deaf", "the same where that connection does not read what it is sent",
            "ours: its place and its memory are free after seconds", 60)
def _():
    name = "q" * 250

    def stops_reading(large):
        large.send(queue_declare(1, name, 0b10))
        large.expect(50, 11)
        hold_answers(deaf(large), name, 40)
        eventually(lambda: any(row["held_back"] == "unread_output" for row in fetch(the, "/connections")), "it does not read")

    with node(*SETTINGS, "heartbeat=0") as the, tenants(the, 1, 4) as (large,):
        with pressed(the, large, stops_reading):
            begin = time.monotonic()
            eventually(lambda: the.log_lines(LINE), "it is closed", 5)
            eventually(lambda: connections(the) == 3, "its place is free", 10)
            print(f"free after {time.monotonic() - begin:.1f} s", file=sys.stderr)
