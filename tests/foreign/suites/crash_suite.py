"""Confirmed means kept: connections cut and brokers killed under full load.

The load and the ledger of what was promised are go/load.go; this page decides when
what dies. `kill -9` cannot tell a flushed page from a cached one: losing what was not
synced is for the simulated disk. Everything random comes from the seed.
"""

import json
import os
import random
import subprocess
import time

from lab import wire
from lab.broker import Broker
from lab.cases import Skip, Suite, Uri, equal
from lab.wire import Peer, method, short
from suites import crash_streams

suite = Suite("crash")
PROTOCOLS = ("load091", "load10")
PLAIN, MORTAL, LATE = "plain", "mortal", "late"  # what the load does in its queues
RESTART_SECONDS_MAX = 2.0
LOAD_SECONDS = (0.6, 2.5)
ROUND_SECONDS_MAX = 60
SETTLE_SECONDS = 1.0
ROUNDS, DELAYED_ROUNDS = 5, 3


class Load:
    """One load process; commands go in, one JSON line comes back for each."""

    def __init__(self, protocol, uri, name, seed, queues=PLAIN):
        self.protocol = protocol
        self.queues = queues
        self.process = subprocess.Popen(
            [suite.options.load, protocol, "--uri", uri, "--round", name, "--seed", str(seed), "--queues", queues],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )

    def started(self):
        return self.answer("start")

    def ask(self, command):
        self.tell(command)
        return self.answer(command)

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self, command):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"{self.protocol} ended at `{command}` with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise AssertionError(f"{self.protocol} at `{command}`: {answer['error']}")
        return answer

    def end(self):
        self.process.kill()
        self.process.wait()


def checked(load, uri, before):
    """Drains and checks; answers the counts for the log."""
    after = load.ask(f"drain {uri}")
    if after["faults"]:
        raise AssertionError(f"{load.protocol}: {'; '.join(after['faults'][:3])}")
    equal(before["confirmed"] > 0, True, f"{load.protocol} got confirms")
    equal(after["buried" if load.queues == MORTAL else "drained"] > 0, True, f"{load.protocol} drained")
    print(load.protocol, json.dumps({**after, "confirmed": before["confirmed"]}), flush=True)


def cut(protocol, queues=PLAIN, rounds=2):
    dice = random.Random(f"{suite.options.seed} {protocol}")
    for number in range(rounds):
        name = f"cut{os.getpid():x}.{number}"
        load = Load(protocol, suite.uri.text, name, dice.randrange(1 << 32), queues)
        try:
            load.started()
            sleep(dice)
            counts = load.ask("cut")
            # what a cut connection held comes back when the broker has seen its end, so
            # a new consumer may start with later messages: order is due after that
            time.sleep(SETTLE_SECONDS)
            checked(load, suite.uri.text, counts)
        finally:
            load.end()


def sleep(dice):
    time.sleep(dice.uniform(*LOAD_SECONDS))


for protocol, words in zip(PROTOCOLS, ("0-9-1", "1.0")):
    suite.add(f"cut-{protocol[4:]}", f"sockets cut under full load over AMQP {words}, classic and quorum queues",
              "nothing confirmed lost; each publisher's order kept; second copies redelivered",
              lambda protocol=protocol: cut(protocol), seconds_max=2 * ROUND_SECONDS_MAX)
    suite.add(f"cut-dead-{protocol[4:]}",
              f"the same over AMQP {words}, in queues where messages expire, are too many or are rejected",
              "what is confirmed is in its queue or in the dead-letter queue",
              lambda protocol=protocol: cut(protocol, queues=MORTAL, rounds=1), seconds_max=ROUND_SECONDS_MAX)


def own_broker():
    if not suite.options.broker:
        raise Skip("needs a broker that it may kill (--broker)")
    return Broker(suite.options.broker)


def kill_rounds(queues=PLAIN, rounds=None):
    dice = random.Random(f"{suite.options.seed} {queues}")
    broker = own_broker()
    keep = True
    try:
        broker.start()
        for number in range(rounds or suite.options.rounds):
            kill_once(broker, f"kill.{number}", dice, queues)
        keep = False
    finally:
        if keep:
            print(f"the broker's folder is kept: {broker.folder}", flush=True)
        broker.close(keep=keep)


def kill_once(broker, name, dice, queues):
    loads = []
    try:
        for protocol in PROTOCOLS:
            loads.append(Load(protocol, broker.uri, f"{name}.{protocol}", dice.randrange(1 << 32), queues))
        for load in loads:
            load.started()
        sleep(dice)
        equal(broker.alive(), True, f"{name}: alive before the kill ({broker.last_line()})")
        broker.kill()
        for load in loads:
            load.tell("lost")
        before = [load.answer("lost") for load in loads]
        broker.start()
        print(f"{name}: up again after {broker.start_seconds:.2f} s", flush=True)
        if broker.start_seconds > RESTART_SECONDS_MAX:
            raise AssertionError(f"{name}: restart took {broker.start_seconds:.2f} s")
        for load, counts in zip(loads, before):
            checked(load, broker.uri, counts)
    except AssertionError as error:
        raise AssertionError(f"{name}: {error}") from error
    finally:
        for load in loads:
            load.end()


suite.add("kill", "`kill -9` at random moments under full load over both protocols, classic and quorum queues",
          "nothing confirmed lost; order kept; second copies redelivered; up again within 2 s", kill_rounds,
          seconds_max=lambda options: ROUND_SECONDS_MAX * options.rounds)

suite.add("kill-dead", "`kill -9` under the same load in queues where messages expire, are too many or are rejected",
          "what is confirmed is in its queue or in the dead-letter queue; up again within 2 s",
          lambda: kill_rounds(MORTAL), seconds_max=lambda options: ROUND_SECONDS_MAX * options.rounds)


def delayed_rounds(options):
    """Rounds of delayed messages, which take longer: fewer of them, unless more are asked for."""
    return DELAYED_ROUNDS if options.rounds == ROUNDS else options.rounds


suite.add("kill-delayed", "`kill -9` under the same load of messages of which three in four are delayed for up to 3 s, by "
          "`x-delay` and by `x-opt-delivery-time`",
          "nothing confirmed lost, nothing early; second copies redelivered; up again within 2 s",
          lambda: kill_rounds(LATE, delayed_rounds(suite.options)),
          seconds_max=lambda options: ROUND_SECONDS_MAX * delayed_rounds(options))


def stream_rounds():
    own_broker().close()  # or the case is skipped
    crash_streams.kill_rounds(suite.options.broker, suite.options.seed, suite.options.rounds, LOAD_SECONDS,
                              RESTART_SECONDS_MAX)


suite.add("kill-stream", "`kill -9` at random moments while a stream is filled over the stream protocol, by publishers with a "
          "reference, and over 0-9-1, and is read",
          "nothing confirmed lost, offsets dense, no publishing id stored twice though some are sent again; each chunk is "
          "as it was read before; up again within 2 s", stream_rounds,
          seconds_max=lambda options: ROUND_SECONDS_MAX * options.rounds)


@suite.case("stream-rot", "a bit of a stream's segment changes on disk: in the data of a chunk, its checksum, its offset, its length",
            "the log tells where; that chunk is not delivered, and where its length is damaged none behind it in the same "
            "64 KiB; all others are")
def _():
    own_broker().close()
    for at_byte, lost_bytes_max in ((60, 0), (32, 0), (31, 0), (38, crash_streams.INDEXED)):
        lost = crash_streams.rot(suite.options.broker, at_byte, lost_bytes_max)
        print(f"byte {at_byte} of a chunk: {lost} chunks are lost", flush=True)


DURABLE, TRANSIENT = 2, 1


def publish(peer, queue, mode, body):
    header = wire.content_header(1, len(body), flags=0x1000, properties=bytes([mode]))
    peer.send(method(1, 60, 40, b"\0\0" + short("") + short(queue) + b"\0"), header, wire.frame(wire.BODY, 1, body))
    peer.expect(60, 80)


def queue_exists(uri, queue):
    """The message count, or None where there is no such queue."""
    with Peer(uri) as peer:
        peer.login()
        peer.channel()
        peer.send(wire.queue_declare(1, queue, bits=0b001))
        _channel, class_id, method_id, arguments = peer.method()
        if (class_id, method_id) == (20, 40):
            return None
        equal((class_id, method_id), (50, 11))
        return int.from_bytes(arguments[1 + arguments[0]:][:4], "big")


@suite.case("restart", "SIGTERM and a new start",
            "durable queues with their persistent messages are there; transient messages and exclusive, transient "
            "queues are not; exit code 0")
def _():
    broker = own_broker()
    try:
        broker.start()
        with Peer(Uri(broker.uri)) as peer:
            peer.login()
            peer.channel()
            peer.send(method(1, 85, 10, b"\0"))
            peer.expect(85, 11)
            for queue, bits in [("kept", 0b010), ("transient", 0), ("exclusive", 0b110)]:
                peer.send(wire.queue_declare(1, queue, bits=bits))
                peer.expect(50, 11)
            for mode in (DURABLE, TRANSIENT, DURABLE):
                publish(peer, "kept", mode, b"x" * 100)
            equal(broker.stop(), 0, "exit code")
        broker.start()
        uri = Uri(broker.uri)
        equal([queue_exists(uri, queue) for queue in ("kept", "transient", "exclusive")], [2, None, None])
        equal(broker.stop(), 0, "exit code")
    finally:
        broker.close()


def options(parser):
    parser.add_argument("--load", required=True, help="the program built from go/")
    parser.add_argument("--broker", default="", help="a leveret to start and kill")
    parser.add_argument("--rounds", type=int, default=ROUNDS)


if __name__ == "__main__":
    suite.main(options)
