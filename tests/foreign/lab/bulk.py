"""Many messages over raw sockets of AMQP 0-9-1: a million go out, and come in, in seconds.

`Publisher` sends bodies in large pieces and waits for their confirms; `Reader` has consumers on channels and takes
deliveries apart. A client library for Python does a tenth of that. Neither retries anything: what is not expected is an
error.
"""

import bisect
import contextlib
import itertools
import os
import struct
import sys
import threading
import time

from lab.wire import BODY, HEADER, METHOD, Closed, Peer, close_of, content_header, method, short, table

FRAME = struct.Struct(">BHI")
LONG = struct.Struct(">Q")
PERSISTENT = {"flags": 0x1000, "properties": b"\x02"}
PIECE_BYTES = 1 << 18
DELIVER, CANCEL_OK, ACK = (60, 60), (60, 31), (60, 80)
CLOSE_OK = struct.pack(">HH", 10, 51)


class Bulk(Peer):
    """A connection that is logged in, whose frames are read in large pieces."""

    def __init__(self, uri, seconds_max=60.0):
        super().__init__(uri, seconds_max)
        self.login(vhost=uri.vhost)
        self.kept = b""

    def frames(self):
        """What came, at least something: type, channel, begin and end of the payload of each whole frame, and the bytes that
        those are in."""
        more = self.socket.recv(PIECE_BYTES)
        if not more:
            raise Closed("nothing more came")
        data, at, found = self.kept + more, 0, []
        while len(data) - at >= 8:
            kind, channel, size = FRAME.unpack_from(data, at)
            if len(data) - at < size + 8:
                break
            found.append((kind, channel, at + 7, at + 7 + size))
            at += size + 8
        self.kept = data[at:]
        return data, found

    def close(self):
        """Says goodbye: what was sent before is carried out."""
        self.send(method(0, 10, 50, b"\0\xc8" + short("") + b"\0\0\0\0"))
        while True:
            data, frames = self.frames()
            if any(kind == METHOD and data[begin:begin + 4] == CLOSE_OK for kind, _channel, begin, _end in frames):
                return


def method_of(data, begin, end):
    """The ids of a method; a close is an error."""
    ids = struct.unpack_from(">HH", data, begin)
    closed = close_of(*ids, data[begin + 4:end])
    if closed:
        raise Closed(str(closed))
    return ids


class Publisher(Bulk):
    """Publishes durable messages to a queue, at most `window` of them not confirmed."""

    def __init__(self, uri, queue, window=20_000, batch=500):
        super().__init__(uri)
        self.channel()
        self.send(method(1, 85, 10, b"\0"))
        self.expect(85, 11)
        self.publish = method(1, 60, 40, b"\0\0" + short("") + short(queue) + b"\0")
        self.window, self.batch = window, batch
        self.heads = {}
        self.sent = 0
        # All up to this one are confirmed, and some behind it.
        self.first, self.early = 0, set()

    @property
    def confirmed(self):
        return self.first + len(self.early)

    def head(self, size):
        """What stands in front of a body of this size."""
        head = self.heads.get(size)
        if head is None:
            head = self.publish + content_header(1, size, **PERSISTENT) + FRAME.pack(BODY, 1, size)
            self.heads[size] = head
        return head

    def send_all(self, bodies):
        """Returns when all are confirmed. No body is larger than a frame."""
        bodies = iter(bodies)
        while batch := list(itertools.islice(bodies, self.batch)):
            self.send(*(part for body in batch for part in (self.head(len(body)), body, b"\xce")))
            self.sent += len(batch)
            self.wait(self.window)
        self.wait(0)

    def wait(self, left):
        """Until no more than so many are not confirmed."""
        while self.sent - self.confirmed > left:
            data, frames = self.frames()
            for kind, _channel, begin, end in frames:
                if kind == METHOD:
                    ids = method_of(data, begin, end)
                    assert ids == ACK, ids
                    self.take(*struct.unpack_from(">Q?", data, begin + 4))

    def take(self, tag, is_multiple):
        if is_multiple:
            self.first = max(self.first, tag)
            self.early = {early for early in self.early if early > self.first}
        else:
            self.early.add(tag)
        while self.first + 1 in self.early:
            self.first += 1
            self.early.remove(self.first)


class Reader(Bulk):
    """Consumers, one on each channel, which is its tag too."""

    def __init__(self, uri, seconds_max=60.0):
        super().__init__(uri, seconds_max)
        # By channel: the tag of a delivery that has not come whole, the bytes that are missing, and those that are there.
        self.half = {}
        self.consumers = set()

    def consume(self, channel, queue, arguments=None, prefetch=0):
        """Begins a consumer that settles, or without a prefetch one that does not; nothing is answered."""
        self.consumers.add(channel)
        self.send(method(channel, 20, 10, short("")))
        if prefetch:
            self.send(method(channel, 60, 10, struct.pack(">IHB", 0, prefetch, 0)))
        bits = 0b1000 if prefetch else 0b1010  # no-wait; no-ack
        self.send(method(channel, 60, 20, b"\0\0" + short(queue) + short(str(channel)) + bytes([bits]) + table(arguments or {})))

    def ack(self, channel, tag):
        """Settles all up to this one."""
        self.send(method(channel, *ACK, LONG.pack(tag) + b"\1"))

    def cancel(self):
        """Ends the consumers, and answers what came until then."""
        for channel in self.consumers:
            self.send(method(channel, 60, 30, short(str(channel)) + b"\0"))
        found = []
        while self.consumers:
            found += self.deliveries()
        return found

    def deliveries(self):
        """Those that came whole: channel, delivery tag and body of each."""
        data, frames = self.frames()
        found = []
        for kind, channel, begin, end in frames:
            if kind == BODY:
                half = self.half[channel]
                half[1] -= end - begin
                half[2] += data[begin:end]
                if half[1] == 0:
                    found.append((channel, half[0], half[2]))
            elif kind == HEADER:
                self.half[channel][1], = LONG.unpack_from(data, begin + 4)
            elif kind == METHOD:
                ids = method_of(data, begin, end)
                if ids == DELIVER:
                    self.half[channel] = [LONG.unpack_from(data, begin + 5 + data[begin + 4])[0], 0, b""]
                elif ids == CANCEL_OK:
                    self.consumers.discard(channel)
        return found


class Meter:
    """How many there had been at which moments."""

    def __init__(self):
        self.moments, self.counts = [0.0], [0]

    @property
    def count(self):
        return self.counts[-1]

    def add(self, count):
        self.moments.append(time.monotonic())
        self.counts.append(self.count + count)

    def rate(self, begin, end):
        """So many a second between two moments."""
        first, last = (self.counts[bisect.bisect(self.moments, moment) - 1] for moment in (begin, end))
        return (last - first) / (end - begin)


class Beside(threading.Thread):
    """Runs something beside the case, and tells the case what went wrong with it."""

    def __init__(self, act):
        super().__init__(daemon=True)
        self.act, self.error = act, None

    def run(self):
        try:
            self.act()
        except Exception as error:  # noqa: BLE001 - it is told where the case waits for the end
            self.error = error

    def done(self, seconds_max=600.0):
        self.join(seconds_max)
        assert not self.is_alive(), f"no end after {seconds_max} s"
        if self.error:
            raise self.error


@contextlib.contextmanager
def published(uri, queue, bodies):
    """Publishes these meanwhile; all are confirmed at the end."""
    with Publisher(uri, queue) as publisher:
        beside = Beside(lambda: publisher.send_all(bodies))
        beside.start()
        yield
        beside.done()


@contextlib.contextmanager
def publishing(uri, queue, body, pace, batch=100):
    """Publishes this body so many times a second meanwhile; counts what is confirmed."""
    meter, is_over = Meter(), threading.Event()

    def act():
        begin = time.monotonic()
        while not is_over.wait(max(0.0, begin + meter.count / pace - time.monotonic())):
            publisher.send_all([body] * batch)
            meter.add(batch)

    with Publisher(uri, queue) as publisher:
        beside = Beside(act)
        beside.start()
        try:
            yield meter
        finally:
            is_over.set()
        beside.done()


def fill(uri, queue, bodies):
    """Publishes all, and answers how long that took."""
    begin = time.monotonic()
    with Publisher(uri, queue) as publisher:
        publisher.send_all(bodies)
    return time.monotonic() - begin


def told(text):
    """Leaves a figure in the log of the suite, beside the load of the machine: others may have its cores."""
    print(f"{text}; load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
