"""Rounds in which nodes are killed under load, and what is due at the end of each."""

import random
import statistics
import time

from lab.cases import eventually
from suites.crash_several_ledger import Ledger, check
from suites.crash_several_load import Load
from suites.crash_several_nodes import NODES, Nodes

# Quorum queues, and classic ones whose confirms promise as much here: their logs are on all nodes as well.
QUEUES = {"q1": "quorum", "q2": "quorum", "q3": "quorum", "c1": "classic", "c2": "classic"}
BEGIN_SECONDS_MAX = 15
OUTCOME_SECONDS_MAX = 15
DRAIN_SECONDS_MAX = 25
GAP_SECONDS_MAX = 5.0


def declare(nodes, dice):
    """Each queue at some node."""
    for queue, kind in QUEUES.items():
        channel = nodes.channel(dice.choice(NODES))
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
        channel.connection.close()


def counts(nodes, number):
    """Ready messages of each queue, as its leader says to a client of this node."""
    channel = nodes.channel(number)
    try:
        return {queue: channel.queue_declare(queue, passive=True).method.message_count for queue in QUEUES}
    finally:
        channel.connection.close()


class Round:
    """Clients at all nodes, from the first confirms until all queues are empty again."""

    def __init__(self, nodes, seed, name):
        self.nodes = nodes
        self.name = name
        self.ledger = Ledger(nodes)
        self.load = Load(nodes, self.ledger, list(QUEUES), seed)
        self.led = {}

    def __enter__(self):
        self.led = self.nodes.led()
        self.load.start()
        eventually(lambda: len(self.ledger.confirms) == len(self.load.publishers) * len(QUEUES), "confirms of all publishers",
                   BEGIN_SECONDS_MAX)
        return self

    def __exit__(self, *_error):
        self.load.close()

    def living_gaps(self, gone, begin, end):
        """The longest times without a confirm at nodes that lived, for each publisher and queue led by one that did not."""
        return self.ledger.gaps(begin, end, lambda session, queue: session.node not in gone and self.led[queue] in gone)

    def finish(self):
        """Publishers hear of all outcomes, consumers take what is there, and then nothing is."""
        nodes, ledger = self.nodes, self.ledger
        late = self.load.end(self.load.publishers, OUTCOME_SECONDS_MAX)
        for publisher in late:
            waits = ledger.undecided([publisher.node])
            ledger.note(f"{publisher.session} has no outcome of {len(waits)} publishes after {OUTCOME_SECONDS_MAX} s: {waits[:3]}")
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        while time.monotonic() < deadline and (ledger.unsettled() or any(counts(nodes, 0).values())):
            time.sleep(0.2)
        unsettled = ledger.unsettled()
        self.load.end(self.load.consumers, 10)
        left = [counts(nodes, number) for number in NODES]
        again, marked = ledger.again()
        turned = "; ".join(self.load.turned_away)
        print(f"{self.name}: {len(ledger.messages)} published, {ledger.count('confirmed')} confirmed, "
              f"{ledger.count('nacked', 'rejected', 'released', 'modified')} refused, {ledger.count(None)} unknown; {again} "
              f"deliveries again, {marked} marked so without a first one{'; turned away: ' + turned if turned else ''}", flush=True)
        if unsettled or any(any(each.values()) for each in left):
            ledger.note(f"after {DRAIN_SECONDS_MAX} s {unsettled} messages are not settled, in queues are {left}")
        check(ledger)
        if ledger.late:
            print(f"{self.name}: {ledger.late} deliveries were under way when their node was stopped, and come again", flush=True)
        nodes.wait_level()


def said(gaps):
    """p50 and longest of some gaps."""
    return f"p50 {statistics.median(gaps):.2f} s, longest {max(gaps):.2f} s of {len(gaps)}" if gaps else "none"


def kill_once(nodes, dice, name):
    victim = dice.choice(NODES)
    # Half of the logs, so that those who lead are killed more often than they would be.
    nodes.spread(lambda: dice.choice((victim, victim, (victim + 1) % 3, (victim + 2) % 3)))
    with Round(nodes, dice.random(), name) as each:
        time.sleep(dice.uniform(0.5, 2.0))
        begin = time.monotonic()
        nodes.kill(victim)
        time.sleep(dice.uniform(2.5, 4.0))
        nodes.start(victim)
        end = time.monotonic()
        time.sleep(dice.uniform(0.5, 1.5))
        gaps = each.living_gaps([victim], begin, end)
        print(f"{name}: node {victim + 1} killed, which led {sorted(queue for queue, led in each.led.items() if led == victim)}; up "
              f"again in {nodes.brokers[victim].start_seconds:.2f} s; gaps between confirms elsewhere: {said(gaps)}", flush=True)
        each.finish()
    longest = max(gaps, default=0)
    if longest > GAP_SECONDS_MAX:
        raise AssertionError(f"{longest:.2f} s without a confirm at a node that lived")
    return gaps


def kill_rounds(binary, seed, rounds):
    dice = random.Random(seed)
    gaps = []
    with Nodes(binary) as nodes:
        nodes.start_all()
        declare(nodes, dice)
        for number in range(rounds):
            name = f"seed {seed}, round {number + 1}"
            try:
                gaps += kill_once(nodes, dice, name)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error
    print(f"seed {seed}: {rounds} rounds; gaps between confirms at living nodes, queues whose leader was killed: {said(gaps)}",
          flush=True)


def all_once(nodes, dice, name):
    nodes.spread(lambda: dice.choice(NODES))
    with Round(nodes, dice.random(), name) as each:
        time.sleep(dice.uniform(0.5, 2.0))
        nodes.kill(*dice.sample(NODES, len(NODES)))
        begin = time.monotonic()
        nodes.start(*dice.sample(NODES, len(NODES)))
        nodes.leaders()
        print(f"{name}: all killed; leaders of all logs {time.monotonic() - begin:.2f} s later", flush=True)
        time.sleep(dice.uniform(0.5, 1.5))
        each.finish()


def all_rounds(binary, seed, rounds):
    dice = random.Random(seed)
    with Nodes(binary) as nodes:
        nodes.start_all()
        declare(nodes, dice)
        for number in range(rounds):
            name = f"seed {seed}, round {number + 1}"
            try:
                all_once(nodes, dice, name)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error
