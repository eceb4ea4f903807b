"""Streams under `kill -9` and on a disk that lies: what was confirmed is there, once, under the offset it was read at.

The load is raw sockets: publishers of the stream protocol with a reference, a publisher over AMQP 0-9-1, and a reader
that takes down what each chunk held. A publisher goes on after the restart as applications do, but that it sends again
some of what it knows to be stored. Every body says who sent it as which, so what is read back needs no ledger but this.
"""

import os
import random
import struct
import threading
import time
import zlib

from lab import wire
from lab.broker import Broker
from lab.cases import Uri, equal, eventually
from lab.wire import method, short
from lab.wire_stream import (
    CONFIRM, CREATE, CREDIT, DECLARE, DELETE, DELIVER, FIRST, OK, SEQUENCE, STATS, Closed, Peer, message, offset, pairs,
    text,
)

LISTENER = "stream.listeners.tcp.1=127.0.0.1:0"
MARK = b"\xa5LOAD"
BODY = struct.Struct(">5sIQ")  # the mark, who, which
AMQP = 1000  # writers from this number on are AMQP's
WINDOW, FRAME = 4000, 100
AGAIN = 60  # messages that a writer sends again though they are stored
WAIT_SECONDS_MAX = 30.0


def body(writer, number):
    return BODY.pack(MARK, writer, number) + bytes([number & 0xFF]) * (number * 37 % 150)


def section(content):
    """One data section of AMQP 1.0: a whole message."""
    return b"\0\x53\x75\xa0" + bytes([len(content)]) + content


def whose(entry):
    """The writer and the number of an entry; its bytes are all right."""
    at = entry.rindex(MARK)
    _mark, writer, number = BODY.unpack_from(entry, at)
    equal(entry[at:] == body(writer, number), True, f"bytes of {writer}.{number}")
    return writer, number


class Worker(threading.Thread):
    """A connection that works until it is told to stop or loses the broker."""

    def __init__(self, uri, port, stream):
        super().__init__(daemon=True)
        self.uri, self.port, self.stream = uri, port, stream
        self.over, self.fault = threading.Event(), None

    def run(self):
        try:
            self.work()
        except (Closed, wire.Closed, OSError):
            pass  # the broker died, as it was to
        except Exception as error:  # noqa: BLE001: whatever it is, the round tells it
            self.fault = error

    def end(self):
        self.over.set()
        self.join(WAIT_SECONDS_MAX)
        equal(self.is_alive(), False, "a worker still works")
        if self.fault:
            raise AssertionError(f"{type(self).__name__}: {self.fault!r}")


class Writer(Worker):
    """Publishes under a reference, as much as a window of unconfirmed messages lets it."""

    def __init__(self, uri, port, stream, number):
        super().__init__(uri, port, stream)
        self.number, self.reference = number, f"writer {number}"
        self.sent, self.confirmed = 0, set()

    def declare(self, peer):
        equal(peer.code(DECLARE, b"\x01" + text(self.reference) + text(self.stream)), OK, "declare")

    def publish(self, peer, first, last):
        for begin in range(first, last + 1, FRAME):
            numbers = range(begin, min(begin + FRAME, last + 1))
            peer.publish(1, *(message(number, section(body(self.number, number))) for number in numbers))

    def hear(self, peer):
        self.confirmed.update(peer.next(CONFIRM).ids())

    def work(self):
        with Peer(self.uri, self.port, seconds_max=WAIT_SECONDS_MAX) as peer:
            self.declare(peer)
            while not self.over.is_set():
                if self.sent - len(self.confirmed) < WINDOW:
                    first, self.sent = self.sent + 1, self.sent + FRAME
                    self.publish(peer, first, self.sent)
                else:
                    self.hear(peer)

    def go_on(self, uri, port):
        """All that was sent is confirmed in the end; some is sent once more than it had to be."""
        with Peer(uri, port, seconds_max=WAIT_SECONDS_MAX) as peer:
            last, = struct.unpack(">Q", peer.ask(SEQUENCE, text(self.reference) + text(self.stream)).rest[6:])
            known = max(self.confirmed, default=0)
            if not known <= last <= self.sent:
                raise AssertionError(f"{self.reference} has come to {last}; {known} is confirmed, {self.sent} was sent")
            self.declare(peer)
            first = max(1, last - AGAIN)
            self.publish(peer, first, self.sent)
            self.confirmed.update(range(1, first))
            while len(self.confirmed) < self.sent:
                self.hear(peer)


class AmqpWriter(Worker):
    """Publishes over AMQP 0-9-1 with confirms, as much as a window lets it."""

    def __init__(self, uri, port, stream, number):
        super().__init__(uri, port, stream)
        self.number, self.sent, self.confirmed = number, 0, set()

    def work(self):
        with wire.Peer(self.uri, seconds_max=WAIT_SECONDS_MAX) as peer:
            peer.login()
            peer.channel()
            peer.send(method(1, 85, 10, b"\0"))
            peer.expect(85, 11)
            done = 0
            while not self.over.is_set():
                if self.sent - done < WINDOW // 4:
                    frames = []
                    for number in range(self.sent + 1, self.sent + FRAME // 2 + 1):
                        content = body(self.number, number)
                        head = wire.content_header(1, len(content), flags=0x1000, properties=b"\x02")
                        frames += [method(1, 60, 40, b"\0\0" + short("") + short(self.stream) + b"\0"), head,
                                   wire.frame(wire.BODY, 1, content)]
                    self.sent += FRAME // 2
                    peer.send(*frames)
                else:
                    _channel, arguments = peer.expect(60, 80)
                    tag, multiple = struct.unpack(">QB", arguments)
                    self.confirmed.update(range(done + 1, tag + 1) if multiple else [tag])
                    while done + 1 in self.confirmed:
                        done += 1


class Reader(Worker):
    """Reads from the first offset on and takes down each chunk."""

    def __init__(self, uri, port, stream):
        super().__init__(uri, port, stream)
        self.chunks, self.next = {}, 0

    def work(self):
        with Peer(self.uri, self.port, seconds_max=WAIT_SECONDS_MAX) as peer:
            equal(peer.subscribe(1, self.stream, offset(FIRST), credit=20), OK, "subscribe")
            while not self.over.is_set():
                first, entries, crc = self.chunk(peer)
                self.chunks[first] = (len(entries), crc)

    def chunk(self, peer):
        """The next chunk, which is whole and goes on where the one before ended."""
        frame = peer.next(DELIVER)
        peer.say(CREDIT, struct.pack(">BH", 1, 1))
        _id, first, entries = frame.chunk()
        crc, length = struct.unpack(">II", frame.rest[33:41])
        equal(zlib.crc32(frame.rest[49:49 + length]), crc, f"checksum of the chunk at {first}")
        equal(first, self.next, "offsets are dense")
        self.next += len(entries)
        return first, entries, crc

    def read_all(self, end):
        """Every entry up to an offset; what was read before is as it was."""
        before, self.next, found = self.chunks, 0, []
        with Peer(self.uri, self.port, seconds_max=WAIT_SECONDS_MAX) as peer:
            equal(peer.subscribe(1, self.stream, offset(FIRST), credit=100), OK, "subscribe")
            while self.next < end:
                first, entries, crc = self.chunk(peer)
                seen = (len(entries), crc)
                equal(before.get(first, seen), seen, f"the chunk at {first} is as it was read before")
                before.pop(first, None)
                found += [whose(entry) for entry in entries]
        equal(sorted(before), [], "chunks that were read before and are not there")
        return found


def figure(peer, stream, name):
    rest = peer.ask(STATS, text(stream)).rest
    at = rest.index(text(name)) + len(text(name))
    return struct.unpack(">q", rest[at:at + 8])[0]


def kill_once(broker, name, dice, seconds):
    uri, port = Uri(broker.uri), broker.stream_port()
    with Peer(uri, port) as peer:
        equal(peer.code(CREATE, text(name) + pairs({"stream-max-segment-size-bytes": str(dice.choice([1, 50]) << 20)})), OK)
    writers = [Writer(uri, port, name, number) for number in (1, 2)]
    amqp, reader = AmqpWriter(uri, port, name, AMQP), Reader(uri, port, name)
    workers = [*writers, amqp, reader]
    for worker in workers:
        worker.start()
    time.sleep(dice.uniform(*seconds))
    equal(broker.alive(), True, f"alive before the kill ({broker.last_line()})")
    broker.kill()
    for worker in workers:
        worker.end()
    broker.start()
    print(f"{name}: up again after {broker.start_seconds:.2f} s", flush=True)
    uri, port = Uri(broker.uri), broker.stream_port()
    for writer in writers:
        equal(writer.confirmed != set(), True, f"{writer.reference} got confirms")
        writer.go_on(uri, port)
    reader.uri, reader.port = uri, port
    with Peer(uri, port) as peer:
        found = reader.read_all(figure(peer, name, "committed_offset") + 1)
        equal(peer.code(DELETE, text(name)), OK)
    for writer in writers:
        its = [number for of, number in found if of == writer.number]
        equal(its == list(range(1, writer.sent + 1)), True, f"{writer.reference}: each once, in order")
    its = [number for of, number in found if of == AMQP]
    equal(its == sorted(set(its)), True, "AMQP: none twice, in order")
    lost = amqp.confirmed - set(its)
    if lost:
        raise AssertionError(f"AMQP: {len(lost)} confirmed are lost, {min(lost)} the first")
    equal(amqp.confirmed != set(), True, "AMQP got confirms")
    print(f"{name}: {len(found)} messages", flush=True)


def kill_rounds(binary, seed, rounds, seconds, restart_seconds_max):
    dice = random.Random(f"{seed} streams")
    broker, keep = Broker(binary, [LISTENER]), True
    try:
        broker.start()
        for number in range(rounds):
            try:
                kill_once(broker, f"kill.{number}", dice, seconds)
                if broker.start_seconds > restart_seconds_max:
                    raise AssertionError(f"restart took {broker.start_seconds:.2f} s")
            except (AssertionError, Closed) as error:
                raise AssertionError(f"round {number}: {error}") from error
        keep = False
    finally:
        if keep:
            print(f"the broker's folder is kept: {broker.folder}", flush=True)
        broker.close(keep=keep)


# ---- a disk that lies

CHUNKS, MESSAGES = 60, 100
INDEXED = 64 << 10  # bytes of a segment of which the index knows the first chunk


def segments(broker):
    folder = os.path.join(broker.folder, "data")
    return sorted(
        os.path.join(path, name) for path, _folders, files in os.walk(folder) for name in files if name.endswith(".stream"))


def chunks_of(data):
    """Where each chunk of a segment begins, and how long it is."""
    at, found = 8, []
    while at < len(data):
        length = 48 + sum(struct.unpack(">II", data[at + 36:at + 44])) + data[at + 44]
        found.append((at, length))
        at += length
    return found


def rot(binary, at_byte, lost_bytes_max):
    """A byte of a chunk in the midst of a segment changes: the others are read, and the log tells where it is."""
    broker = Broker(binary, [LISTENER])
    try:
        broker.start()
        with Peer(Uri(broker.uri), broker.stream_port()) as peer:
            equal(peer.code(CREATE, text("rotten") + pairs({})), OK)
            equal(peer.code(DECLARE, b"\x01" + text("") + text("rotten")), OK)
            for first in range(0, CHUNKS * MESSAGES, MESSAGES):
                numbers = range(first, first + MESSAGES)
                peer.publish(1, *(message(number, section(body(1, number))) for number in numbers))
                confirmed = []
                while len(confirmed) < MESSAGES:
                    confirmed += peer.next(CONFIRM).ids()
        equal(broker.stop(), 0, "exit code")
        path, = segments(broker)
        with open(path, "r+b") as file:
            chunks = chunks_of(file.read())
            position, length = chunks[len(chunks) // 2]
            kept = [at for at, _length in chunks if not position <= at < position + max(length, lost_bytes_max)]
            file.seek(position + at_byte)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        broker.start()
        with Peer(Uri(broker.uri), broker.stream_port()) as peer:
            equal(peer.subscribe(1, "rotten", offset(FIRST), credit=len(chunks) + 1), OK)
            found, end = [], 0
            while end < CHUNKS * MESSAGES:
                _id, first, entries = peer.next(DELIVER).chunk()
                equal(first >= end, True, "offsets rise")
                numbers = [whose(entry)[1] for entry in entries]
                equal(numbers, list(range(first, first + len(entries))), "what the chunk holds")
                found.append(first)
                end = first + len(entries)
        lost = len(chunks) - len(found)
        equal(1 <= lost <= len(chunks) - len(kept), True, f"{lost} of {len(chunks)} chunks are not delivered")

        def told():
            with open(broker.log, encoding="utf-8", errors="replace") as log:
                return f"from byte {position} is damaged and left out" in log.read()

        eventually(told, "the log tells of it", WAIT_SECONDS_MAX)
        return lost
    finally:
        broker.close()
