"""The other nodes of a broker that is one of several, and what does not hold there yet.

They start before the broker and lead all logs when it comes up, so that it leads none: what its clients use is led
elsewhere. They outlive its restarts, and end when it is closed.
"""

import contextlib
import fnmatch
import json
import os
import random
import socket
import subprocess
import threading
import time

# How many nodes a broker is one of, for `lab.broker` in every process of a run.
NODES = "LEVERET_FOREIGN_NODES"
# Seconds after which another node leads each log, again and again, in every process of a run; 0: leaders stay.
MOVES = "LEVERET_FOREIGN_MOVES"
LOGS = 4
AGREE_SECONDS_MAX = 20
COOKIE = "a cookie of tests"

# Suites that are left out, with reasons.
LEFT_OUT = {
    name: "streams are read at the node that leads their log alone"
    for name in ("streams", "stream-wire", "rstream", "go-stream", "java-stream", "js-stream", "rust-stream")
} | {
    "tenants-long": "its bounds are those of a node that shares its machine with no other",
    "crash-several": "it starts three nodes of its own",
}

# Cases that need not hold: patterns of names, with reasons.
ROWS = "rows of a queue come from the node that is asked"
STREAMS = "streams are read at the node that leads their log alone"
OTHERS = "the node that leads goes on while this one is stopped or killed"
ENTRIES = "each log keeps the last entries in memory for nodes that are behind, up to 64 MiB"
PACE = "messages over a limit go in rounds that nodes agree on, which takes its time"
EXCUSED = {
    "barrier.credit.*": ROWS,
    "barrier.killed.*": OTHERS,
    "browse.killed.*": OTHERS,
    "dead-letter.fields.kill": OTHERS,
    "delay.listed.*": ROWS,
    "firehose.restart": OTHERS,
    "firehose.stream": STREAMS,
    "identity.start.warnings": "a node that starts knows no users before the others have told it",
    "identity.user-id.stream": STREAMS,
    "limits.memory.cleared": ENTRIES,
    "limits.memory.given-back": ENTRIES,
    "macros.http": ROWS,
    "macros.streams": STREAMS,
    "policies.live.bytes-disk": PACE,
    "queue-time.restart": OTHERS,
    "selectors.tenants.*": ROWS,
}


def excuse(result):
    """A case that failed and is excused was skipped."""
    why = next((why for pattern, why in EXCUSED.items() if fnmatch.fnmatch(result["name"], pattern)), None)
    if why and result["status"] == "failed":
        result["status"], result["why"] = "skipped", f"several nodes: {why}; {result['why']}"


def count():
    """How many nodes a broker is one of."""
    return int(os.environ.get(NODES, "1"))


def free_port():
    """A port on which nothing listens. Not one that the system gives to connections: a node that comes back needs it again."""
    for _ in range(1000):
        port = random.SystemRandom().randrange(20_000, 30_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise OSError("a thousand ports are taken")


class Others:
    """The nodes beside one: `make(folder, settings)` makes a broker that is alone. The last number is that one's."""

    def __init__(self, make, folder, settings, nodes):
        names = [f"rabbit@n{number}" for number in range(1, nodes + 1)]
        ports = [free_port() for _ in names]
        shared = ["leveret.cluster.experimental=true", f"leveret.cluster.cookie={COOKIE}", f"leveret.logs={LOGS}",
                  "cluster_formation.peer_discovery_backend=classic_config"]
        for number, (name, port) in enumerate(zip(names, ports), 1):
            shared += [f"cluster_formation.classic_config.nodes.{number}={name}",
                       f"leveret.cluster.address.{number}={name}=127.0.0.1:{port}"]
        own = [[*shared, f"nodename={name}", f"leveret.cluster.listener=127.0.0.1:{port}"]
               for name, port in zip(names, ports)]
        self.settings = own.pop()
        self.number = nodes
        self.brokers = [make(os.path.join(folder, f"node{number}"), [*settings, *those])
                        for number, those in enumerate(own, 1)]

    def are_up(self):
        return all(broker.alive() for broker in self.brokers)

    def start(self):
        """Returns when they lead all logs."""
        for broker in self.brokers:
            broker.start(wait=False)
        for broker in self.brokers:
            broker.wait()
        until(lambda: all(row["leader"] for row in rows(self.brokers[0])), "leaders of all logs")

    def close(self):
        for broker in self.brokers:
            broker.close(keep=True)


def until(check, what):
    deadline = time.monotonic() + AGREE_SECONDS_MAX
    while not check():
        if time.monotonic() > deadline:
            raise OSError(f"no {what} after {AGREE_SECONDS_MAX} s")
        time.sleep(0.05)


def ctl(broker, *words):
    """What a word of the command line answers at a broker."""
    words = [broker.binary, "ctl", "-q", "--data-dir", os.path.join(broker.folder, "data"), *words]
    return subprocess.run(words, check=True, timeout=20, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout


def rows(broker):
    """A row for each log: its number, and that of the node that leads it, as far as the broker knows."""
    return json.loads(ctl(broker, "replica_status"))["replicas"]


def has_catalog(broker):
    """The broker knows what the others know; it says that it has started before that."""
    try:
        return "/" in ctl(broker, "list_vhosts", "name").split()
    except subprocess.CalledProcessError:
        return False


def led(broker):
    """The logs that a broker leads."""
    return [row["log"] for row in rows(broker) if row["leads"] is not None]


def give_away(broker):
    """The broker leads nothing any more: others have its logs."""
    for log in led(broker):
        ctl(broker, "give_lead", str(log), str(1 + log % (broker.others.number - 1)))


def keep_moving(broker):
    """From now on each log is led by the next node every few seconds, as long as the broker is there; `broker.moves` counts."""
    seconds = int(os.environ.get(MOVES, "0"))
    nodes = [*broker.others.brokers, broker]

    def move():
        while not broker.is_closed:
            time.sleep(seconds)
            # One that is down, or leads nothing any more, is asked again next time.
            with contextlib.suppress(subprocess.SubprocessError, ValueError):
                for row in rows(nodes[0]):
                    leader = row["leader"]
                    if leader:
                        led = ctl(nodes[leader - 1], "give_lead", str(row["log"]), str(1 + leader % len(nodes)))
                        broker.moves += json.loads(led)

    if seconds:
        threading.Thread(target=move, daemon=True).start()
