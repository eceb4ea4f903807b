"""PerfTest, RabbitMQ's own load tool: its published command lines, to the end, nothing lost."""

import os
import re
import subprocess

from lab.cases import Suite, equal
from lab.wire import Peer, method, queue_declare, short

suite = Suite("perftest")
MESSAGES, MESSAGES_FULL = 50_000, 1_000_000
RATES = re.compile(r"(sending|receiving) rate avg: (\d+) msg/s")
SECONDS_MAX = 1200


def perf_test(*words):
    """Runs PerfTest; answers what it printed. It ends by itself or the case fails."""
    command = ["java", "-cp", os.path.join(suite.options.jars, "*"), "com.rabbitmq.perf.PerfTest",
               "--uri", suite.uri.text, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    print(done.stdout, done.stderr, flush=True)
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
        raise AssertionError(f"PerfTest ended with {done.returncode}: {lines[-1][:200]}")
    return done.stdout


def with_queue(queue, queue_type, act):
    with Peer(suite.uri, 60) as owner:
        owner.login()
        owner.channel()
        owner.send(queue_declare(1, queue, bits=0b010, arguments={"x-queue-type": queue_type}))
        owner.expect(50, 11)
        try:
            act()
            owner.send(queue_declare(1, queue, bits=0b001))
            arguments = owner.expect(50, 11)[1]
            left = int.from_bytes(arguments[1 + arguments[0]:][:4], "big")
            equal(left, 0, "messages left in the queue")
        finally:
            owner.send(method(1, 50, 40, b"\0\0" + short(queue) + b"\0"))
            owner.expect(50, 41)


def published(queue_type, confirm, prefetch, multi_ack):
    """The command line of the published comparison, with its own count or a short one."""
    queue = f"foreign-{queue_type}-queue"
    count = MESSAGES_FULL if suite.options.full else MESSAGES

    def act():
        said = perf_test(
            "--predeclared", "--exchange", "amq.default", "--routing-key", queue, "--queue", queue,
            "--flag", "persistent", "--flag", "mandatory", "--pmessages", count, "--cmessages", count, "--size", 12,
            "--confirm", confirm, "--qos", prefetch, "--multi-ack-every", multi_ack)
        complete(said)

    with_queue(queue, queue_type, act)


def complete(said):
    """Both limits were reached, nothing came back, nothing was refused."""
    for side in ("Producer", "Consumer"):
        equal(f"{side} reached message limit" in said, True, f"{side} reached its count")
    returned = [int(number) for number in re.findall(r"returned: (\d+) msg/s", said)]
    nacked = [int(number) for number in re.findall(r"nacked: (\d+) msg/s", said)]
    equal((sum(returned), sum(nacked)), (0, 0), "returned and nacked")
    equal(sorted(side for side, _rate in RATES.findall(said)), ["receiving", "sending"], "rates at the end")


suite.add("classic", "the published classic queue run: confirms of 192, prefetch 200, acks of 200",
          "all sent, confirmed and received; none returned; the queue ends empty",
          lambda: published("classic", 192, 200, 200), seconds_max=SECONDS_MAX)
suite.add("quorum", "the published quorum queue run: confirms of 3000, prefetch 5000, acks of 5000",
          "all sent, confirmed and received; none returned; the queue ends empty",
          lambda: published("quorum", 3000, 5000, 5000), seconds_max=SECONDS_MAX)


@suite.case("many", "5 queues, 5 producers and 5 consumers, bodies of 4 KiB, queues declared by PerfTest",
            "all received", seconds_max=SECONDS_MAX)
def _():
    said = perf_test("--queue-pattern", "foreign-perf-%d", "--queue-pattern-from", 1, "--queue-pattern-to", 5,
                     "--producers", 5, "--consumers", 5, "--pmessages", 2000, "--cmessages", 2000, "--size", 4096,
                     "--confirm", 100, "--qos", 100, "--auto-delete", "true")
    equal("reached message limit" in said, True, "limits reached")


def options(parser):
    parser.add_argument("--jars", required=True, help="the folder with PerfTest")


if __name__ == "__main__":
    suite.main(options)
