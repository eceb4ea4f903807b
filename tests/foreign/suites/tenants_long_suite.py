"""A bystander beside a tenant at full speed; `python -m suites.tenants_long_suite --broker BINARY`, with pika.

Six minutes, which is too long for every run: `run --long` has it. LEVERET_BUSY_SECONDS makes each part shorter than a
minute, for a try. The broker and the bystander come before others where the system lets this process say so: with the
autogroup at -10, each in a session of its own. What is measured is the broker then, not how a system divides too few
processors among eight processes that want one each.
"""

import contextlib
import json
import math
import os
import subprocess
import sys
import time

from lab.cases import Suite, equal
from suites.tenants_bench import fresh
from suites.tenants_busy import KINDS
from suites.tenants_seen import metrics

suite = Suite("tenants-long")
SECONDS = float(os.environ.get("LEVERET_BUSY_SECONDS", "60"))
RUNS = 3
USUAL_MS, LONGEST_MS = 100, 500
# What is under way when the time is over comes to its end: a commit to a thousand queues, for one.
LATE_SECONDS_MAX = 60
# What held up a shard the longest, by the broker's own clock, of half a minute: turns, looks by lists and metrics among
# them, and, since the start, what was written and flushed.
LOOK_EVERY_SECONDS = 20
HOLDS = ("turn", "look", "flush")
# Listeners that the case does not need are at no fixed port.
FREE = ["stream.listeners.tcp.1=127.0.0.1:0", "web_amqp.tcp.listener=127.0.0.1:0"]


class Child:
    """A process of the tenant, or the bystander: it says `ready`, and then something for each line that it is told."""

    def __init__(self, name, *words, session=False):
        self.name = name
        self.process = subprocess.Popen([sys.executable, "-m", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, start_new_session=session)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        assert line, f"{self.name} ended with {self.process.wait()}"
        return line.strip()

    def close(self):
        """Has it close its connections, or ends it."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(LATE_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            print(f"{self.name} does not end", file=sys.stderr)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()


def put_first(pid):
    """Has the system run this session before others, where it may be told to."""
    try:
        with open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as group:
            group.write("-10")
    except OSError as error:
        print(f"no place before others for process {pid}: {error}", file=sys.stderr)


def at_most(took, share):
    """What this share of the sorted times is at most."""
    return took[math.ceil(len(took) * share) - 1]


def measure(the, order, tenant, bystander):
    """The bystander's times beside the tenant's processes, sorted, what those did, and what held up the broker."""
    for child in tenant:
        child.say(f"{order} {SECONDS}")
    bystander.say(f"work {SECONDS}")
    ends, holds = time.monotonic() + SECONDS, dict.fromkeys(HOLDS, 0)
    while time.monotonic() < ends:
        time.sleep(max(0, min(LOOK_EVERY_SECONDS, ends - time.monotonic())))
        seen = metrics(the)
        for hold in HOLDS:
            ours = [seen[name] for name in seen if name.startswith(f"rabbitmq_leveret_{hold}_longest_seconds")]
            holds[hold] = max(holds[hold], *ours)
    took = sorted(json.loads(bystander.hear()))
    return took, {child.name: int(child.hear()) for child in tenant}, holds


def told(what, took):
    p999, longest = at_most(took, 0.999), took[-1]
    print(f"{what}: {len(took)} messages, p50 {at_most(took, 0.5):.1f} ms, p99.9 {p999:.1f}, longest {longest:.1f}",
          file=sys.stderr)
    return p999, longest


def beside(number):
    """A bystander's p99.9 and longest time beside a tenant at full speed, on a broker of their own."""
    with contextlib.ExitStack() as broker_stack:
        the = broker_stack.enter_context(fresh(suite.options.broker, settings=FREE))
        put_first(the.broker.pid)
        equal(the.ask("PUT", "/vhosts/busy", {}), 201)
        equal(the.ask("PUT", "/users/tenant", {"password": "secret", "tags": "policymaker"}), 204)
        equal(the.ask("PUT", "/permissions/busy/tenant", {"configure": ".*", "write": ".*", "read": ".*"}), 201)
        uri = f"amqp://{{}}:secret@127.0.0.1:{the.uri.port}/{{}}"
        with contextlib.ExitStack() as stack:
            def child(*words, **options):
                made = Child(*words, **options)
                stack.callback(made.close)
                return made
            tenant = [child(kind, "suites.tenants_busy", kind, uri.format("tenant", "busy"), str(the.http_port))
                      for kind in KINDS]
            bystander = child("bystander", "suites.tenants_bystander", uri.format("other", "%2F"), session=True)
            put_first(bystander.process.pid)
            for one in (*tenant, bystander):
                equal(one.hear(), "ready", one.name)
            print(f"run {number}, load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
            took, _done, _holds = measure(the, "spin", tenant, bystander)
            told(f"run {number}, beside processes that spin", took)
            took, done, holds = measure(the, "work", tenant, bystander)
            found = told(f"run {number}, beside a tenant", took)
            longest = ", ".join(f"{hold} {seconds * 1000:.1f} ms" for hold, seconds in holds.items())
            operations = ", ".join(f"{kind} {count}" for kind, count in done.items())
            print(f"run {number}, longest {longest}; operations: {operations}", file=sys.stderr)
            equal([kind for kind, count in done.items() if not count], [], "kinds of which nothing was done")
        assert the.broker.alive(), f"the broker ended: {the.broker.last_line()}"
        equal(the.ask("GET", "/health/checks/is-in-service"), 200)
        equal([line for word in ("[error]", "[critical]", "panicked") for line in the.log_lines(word)], [], "the log")
    return found


@suite.case("busy", "eight processes of a tenant at full speed for a minute: 100 topic patterns of 24 words, 200 "
            "bindings of 20 arguments, commits of 5,000 messages to 1,000 queues, copies to 500 queues, declarations, "
            "policies, lists, 48 filters over bodies of 30 kB; another user publishes with confirms, gets and "
            "acknowledges, 100 a second",
            "ours: each takes at most 100 ms (p99.9) and never 500 ms, in each of three runs; no error is in the log",
            lambda _options: RUNS * (2 * SECONDS + 3 * LATE_SECONDS_MAX))
def _():
    found = [beside(number) for number in range(1, RUNS + 1)]
    slow = [f"{p999:.0f} and {longest:.0f}" for p999, longest in found if p999 > USUAL_MS or longest > LONGEST_MS]
    assert not slow, f"p99.9 and longest, ms: {', '.join(slow)}"


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker"))
