"""A queue of many messages whose consumers choose: a hundred of them, and new ones behind a backlog.

The messages are published and read over raw sockets (lab/bulk.py). In the long form there are a million of them, and
there are bounds for what is measured: the medians of three new consumers, while others take at a pace that leaves the
machine some of its time. A fourth comes while these take all they can, which is told and has no bound.
"""

import contextlib
import json
import statistics
import threading
import time

from lab.bulk import Beside, Meter, Reader, fill, published, told
from lab.cases import equal, eventually

SECONDS_MAX = 300
QUIET_SECONDS = 0.3
# The last messages of a backlog, which new consumers want.
LATE = 10
PREFETCH = 50
BEFORE_SECONDS, AWAY_SECONDS = 1.0, 0.2
# Messages a second that the others take; where they take all they can the cores of the machine are what is measured.
PACE, PACE_OF_FEW = 40_000, 5_000
FIRST_SECONDS_MAX, AGAIN_SECONDS_MAX, RATE_MIN = 2.0, 0.02, 0.8


def tenants(uri, queue, count, dice, unmatched, consumers=100):
    """So many messages, each for one of the consumers or for nobody, while all of these are there; how many stay, which is
    what `unmatched` tells meanwhile, if it tells anything."""
    chosen = [dice.randrange(consumers + 5) for _ in range(count)]
    expected = [[] for _ in range(consumers + 5)]
    for number, tenant in enumerate(chosen):
        expected[tenant].append(number)
    total = sum(map(len, expected[:consumers]))
    bodies = (b'{"tenant":"t%d","number":%d}' % (tenant, number) for number, tenant in enumerate(chosen))
    taken = [[] for _ in range(consumers)]
    begin = time.monotonic()

    def keep():
        deliveries = reader.deliveries()
        for channel, _tag, body in deliveries:
            taken[channel - 1].append(body)
        return len(deliveries)

    with Reader(uri) as reader:
        for tenant in range(consumers):
            reader.consume(1 + tenant, queue, {"x-filter": f"body.tenant = 't{tenant}'"})
        with published(uri, queue, bodies):
            seen = 0
            while seen < total and time.monotonic() < begin + SECONDS_MAX:
                seen += keep()
        took = time.monotonic() - begin
        reader.socket.settimeout(QUIET_SECONDS)
        with contextlib.suppress(TimeoutError):
            keep()
        eventually(lambda: unmatched() in (None, count - total), f"{count - total} of them unmatched ({unmatched()} now)")
    told(f"{count} messages to {consumers} consumers in {took:.1f} s")
    for tenant, own in enumerate(taken):
        equal([json.loads(body)["number"] for body in own], expected[tenant], f"t{tenant}")
    return count - total


def document(number, late):
    """A kilobyte, which a consumer of `kind` wants, or the new one of this number."""
    kind = 0 if late else number % 4
    return b'{"number":%d,"kind":%d,"late":%d,"pad":"%s"}' % (number, kind, late, b"x" * 960)


def number_of(body):
    return int(body[10:body.index(b",")])


class Others:
    """Consumers of the same queue, one without a selector and one with another, that take messages at a pace or as fast as
    they can."""

    def __init__(self, uri, queue):
        self.reader, self.pace, self.since = Reader(uri), 0, (0.0, 0)
        self.reader.socket.settimeout(QUIET_SECONDS)
        self.numbers = {1: [], 2: []}
        self.meter = Meter()
        self.may_take, self.is_over = threading.Event(), False
        self.reader.consume(1, queue, prefetch=PREFETCH)
        self.reader.consume(2, queue, {"x-filter": "body.kind = 1"}, prefetch=PREFETCH)
        self.beside = Beside(self.take)
        self.beside.start()

    def go(self, pace):
        """They take so many a second from now on; 0: as many as come."""
        self.pace, self.since = pace, (time.monotonic(), self.meter.count)
        self.may_take.set()

    def pause(self):
        self.may_take.clear()

    def take(self):
        while not self.is_over:
            if self.may_take.wait(0.05):
                with contextlib.suppress(TimeoutError):
                    self.settle(self.reader.deliveries())
                if self.pace:
                    begin, before = self.since
                    time.sleep(max(0.0, begin + (self.meter.count - before) / self.pace - time.monotonic()))

    def settle(self, deliveries):
        last = {}
        for channel, tag, body in deliveries:
            self.numbers[channel].append(number_of(body))
            last[channel] = tag
        for channel, tag in last.items():
            self.reader.ack(channel, tag)
        self.meter.add(len(deliveries))

    def end(self):
        """The numbers of what each was given; all of that is settled."""
        self.is_over = True
        self.beside.done()
        self.settle(self.reader.cancel())
        self.reader.close()
        return self.numbers.values()


def attached(uri, queue, expression, expected):
    """A new consumer that is given these, in order: when it came, and when its first message did."""
    with Reader(uri) as reader:
        bodies, first, begin = [], 0.0, time.monotonic()
        reader.consume(1, queue, {"x-filter": expression}, prefetch=2 * LATE)
        while len(bodies) < len(expected):
            bodies += [body for _channel, _tag, body in reader.deliveries()]
            first = first or (time.monotonic() if bodies else 0.0)
        equal([number_of(body) for body in bodies], expected)
        reader.close()
    return begin, first


def backlog(uri, queue, count, is_full):
    """New consumers of a backlog of so many messages, beside others that take what lies in front of it; how many stay."""
    others, sent = Others(uri, queue), 0
    firsts, again, kept = [], [], []
    for late, pace in enumerate((PACE, PACE, PACE, 0) if is_full else (PACE_OF_FEW,), 1):
        # Each finds as many, the last ten of which are its own.
        first, sent = sent, count + others.meter.count
        took = fill(uri, queue, (document(number, late if number >= sent - LATE else 0) for number in range(first, sent)))
        told(f"{sent - first} messages published in {took:.1f} s")
        expression, expected = f"body.late = {late}", list(range(sent - LATE, sent))
        others.go(pace)
        time.sleep(BEFORE_SECONDS if is_full else 0.05)
        begin, came = attached(uri, queue, expression, expected)
        for _ in range(5 if is_full else 1):
            # Those that the one before held are back by then.
            time.sleep(AWAY_SECONDS)
            begin_again, came_again = attached(uri, queue, expression, expected)
            again.append(came_again - begin_again)
        others.pause()
        rates = [others.meter.rate(begin - BEFORE_SECONDS, begin), others.meter.rate(begin, came)]
        told(f"first of {count} after {came - begin:.3f} s; others took {rates[0]:.0f} a second before, {rates[1]:.0f} meanwhile; "
             f"again after {', '.join(f'{1000 * one:.1f}' for one in again[-5:])} ms")
        if pace:
            firsts.append(came - begin)
            kept.append(rates[1] / max(rates[0], 1))
    plain, choosing = others.end()
    equal(sorted(plain), plain, "the one without a selector")
    equal(sorted(choosing), choosing, "the one with another")
    assert all(number % 4 == 1 for number in choosing), "it was given what it does not want"
    equal(len({*plain, *choosing}), len(plain) + len(choosing), "messages of both")
    if is_full:
        seen = [statistics.median(figures) for figures in (firsts, again, kept)]
        assert seen[0] <= FIRST_SECONDS_MAX and seen[1] <= AGAIN_SECONDS_MAX and seen[2] >= RATE_MIN, seen
    return sent - len(plain) - len(choosing)
