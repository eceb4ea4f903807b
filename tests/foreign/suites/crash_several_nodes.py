"""Three brokers of one cluster that a case kills, stops and starts, and who leads which log.

A disturbance is a time in which a node was dead or stood still. What its clients had under way then may be lost or
come again; for clients of the other nodes the promises hold all the time.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time

import pika

from lab import several
from lab.broker import Broker
from lab.cases import eventually
from suites.management_suite import HTTP, Api

NODES = (0, 1, 2)
AGREE_SECONDS_MAX = 20
# What a node had handed out when it was stopped, and had not written to its sockets yet, comes when it goes on.
WRITTEN_SECONDS = 0.5
SETTINGS = ["stream.listeners.tcp=none", "web_amqp.tcp=none", "management.tcp.ip=127.0.0.1", "management.tcp.port=0",
            "prometheus.tcp=none", "leveret.shards=2"]


class Nodes:
    """Three nodes, by numbers from 0; in the broker's words they are 1 to 3."""

    def __init__(self, binary):
        self.binary = binary
        self.folder = tempfile.mkdtemp(prefix="leveret-several-")
        others = several.Others(self.make, self.folder, [], len(NODES))
        last = self.make(os.path.join(self.folder, f"node{len(NODES)}"), others.settings)
        self.brokers = [*others.brokers, last]
        self.up = set()
        self.still = set()
        self.disturbed = []  # node, from when, until when
        self.is_kept = False

    def make(self, folder, settings):
        os.makedirs(folder, exist_ok=True)
        return Broker(self.binary, [*settings, *SETTINGS], folder, nodes=1)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        """A case that failed leaves the folder, with the nodes' logs."""
        self.is_kept = error[0] is not None
        if self.is_kept:
            print(f"the nodes' folders are kept: {self.folder}", flush=True)
        for number in list(self.still):
            self.go_on(number)
        for broker in self.brokers:
            broker.close(keep=True)
        if not self.is_kept:
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, *numbers, wait=True):
        for number in numbers:
            self.brokers[number].start(wait=False)
        if wait:
            self.wait(*numbers)

    def wait(self, *numbers):
        """Returns when these nodes accept clients."""
        for number in numbers:
            self.brokers[number].wait()
        self.up.update(numbers)
        self.undisturb(numbers)

    def start_all(self):
        self.start(*NODES)
        eventually(lambda: all(several.has_catalog(broker) for broker in self.brokers), "a catalog at each node",
                   AGREE_SECONDS_MAX, pause=0.1)
        self.leaders()

    def kill(self, *numbers):
        """All of them as good as at once: SIGKILL is sent to each before the end of any is waited for."""
        for number in numbers:
            self.up.discard(number)
            self.disturb(number)
            self.brokers[number].process.send_signal(signal.SIGKILL)
        for number in numbers:
            self.brokers[number].process.wait()

    def stand_still(self, *numbers):
        for number in numbers:
            self.disturb(number)
            self.still.add(number)
            self.brokers[number].process.send_signal(signal.SIGSTOP)

    def go_on(self, *numbers):
        for number in numbers:
            self.still.discard(number)
            self.brokers[number].process.send_signal(signal.SIGCONT)
        self.undisturb(numbers)

    def disturb(self, number):
        self.disturbed.append((number, time.monotonic(), None))

    def undisturb(self, numbers):
        now = time.monotonic()
        self.disturbed = [(node, begin, now if end is None and node in numbers else end)
                          for node, begin, end in self.disturbed]

    def was_away(self, number, begin, end):
        """The node was dead or stood still at some time between."""
        return any(node == number and since <= end and (until is None or until >= begin)
                   for node, since, until in self.disturbed)

    def just_went_on(self, session, at):
        """The session's node stood still in the midst of it until right before."""
        return any(node == session.node and session.begin < since and until is not None and until <= at < until + WRITTEN_SECONDS
                   for node, since, until in self.disturbed)

    def was_disturbed(self, number, begin, end):
        """It was away, or had no majority: what it says of its clients may then come too late for the next leader."""
        if self.was_away(number, begin, end):
            return True
        spans = [(node, max(since, begin), end if until is None else min(until, end)) for node, since, until in self.disturbed]
        spans = [span for span in spans if span[1] <= span[2]]
        return any(one[0] != other[0] and one[1] <= other[2] and other[1] <= one[2] for one in spans for other in spans)

    def asked(self):
        """The nodes that can answer."""
        return [number for number in NODES if number in self.up and number not in self.still]

    def rows(self, number):
        """A row for each log, as a node sees it; None where it does not answer."""
        try:
            return several.rows(self.brokers[number])
        except (subprocess.SubprocessError, ValueError):
            return None

    def leaders(self, seconds_max=AGREE_SECONDS_MAX):
        """The node that leads each log, and its term: once all nodes that can answer say the same."""
        def look():
            tables = [self.rows(number) for number in self.asked()]
            if not tables or any(table is None for table in tables):
                return None
            found = []
            for rows in zip(*tables):
                leading = [(number, row["leads"]) for number, row in zip(self.asked(), rows) if row["leads"] is not None]
                if len(leading) != 1 or any(row["leader"] != leading[0][0] + 1 for row in rows):
                    return None
                found += leading
            return found

        return eventually(look, "a leader of each log whom all follow", seconds_max, pause=0.1)

    def give_lead(self, log, number):
        """The log is led by this node, as all that can answer say."""
        def look():
            leader = self.leaders()[log][0]
            if leader != number:
                several.ctl(self.brokers[leader], "give_lead", str(log), str(number + 1))
            return leader == number

        eventually(look, f"node {number + 1} leads log {log}", AGREE_SECONDS_MAX, pause=0.1)

    def spread(self, choose):
        """Each log is led by the node that `choose()` says."""
        for log in range(several.LOGS):
            self.give_lead(log, choose())

    def are_level(self):
        """Each node has applied the same entries."""
        tables = [self.rows(number) for number in NODES]
        return all(tables) and all(len({tuple(row["applied"]) for row in rows}) == 1 for rows in zip(*tables))

    def wait_level(self):
        eventually(self.are_level, "the same entries applied at each node", AGREE_SECONDS_MAX, pause=0.1)

    def led(self):
        """The node that leads each queue, by the queue's name, as those say that can answer."""
        names = {}
        for number in self.asked():
            api = Api("127.0.0.1", self.brokers[number].port_of(HTTP, "HTTP"), self.brokers[number].uri)
            for row in api.get("/queues"):
                names[row["name"]] = row.get("leader") or row["node"]
        return {queue: int(name.removeprefix("rabbit@n")) - 1 for queue, name in names.items()}

    def channel(self, number, **options):
        """A channel of a connection of its own."""
        parameters = pika.ConnectionParameters("127.0.0.1", self.brokers[number].port, heartbeat=0, socket_timeout=15, **options)
        return pika.BlockingConnection(parameters).channel()
