"""Celery: a worker in a process of its own, tasks and their results over the broker.

The worker is started by the first case that needs it and serves all; cases that need
other settings start their own.
"""

import atexit
import contextlib
import importlib
import itertools
import os
import signal
import subprocess
import sys
import time

import kombu

from lab.cases import Suite, equal, eventually
from lab.relay import Relay

suite = Suite("celery")
_numbers = itertools.count(1)
SECONDS_MAX = 25
CASE_SECONDS_MAX = 80


def settings(**changed):
    """The environment that makes `celery_tasks` an application on a queue of its own."""
    uri = suite.uri
    queue = f"foreign.celery.{os.getpid():x}.{next(_numbers)}"
    fixed = {"FOREIGN_BROKER": f"pyamqp://{uri.user}:{uri.password}@{uri.host}:{uri.port}//", "FOREIGN_QUEUE": queue,
             "FOREIGN_QUEUE_TYPE": "classic", "FOREIGN_PRIORITIES": "", "FOREIGN_REMOTE": ""}
    return {**fixed, **changed}


def application(environment):
    """The tasks' module with these settings; the one before stays usable by who holds it."""
    os.environ.update(environment)
    sys.modules.pop("suites.celery_tasks", None)
    return importlib.import_module("suites.celery_tasks")


class Worker:
    def __init__(self, environment):
        # 20 s of mingling with other workers need remote control: only with it
        quiet = [] if environment.get("FOREIGN_REMOTE") else ["--without-gossip", "--without-mingle"]
        command = [sys.executable, "-m", "celery", "-A", "suites.celery_tasks", "worker", "--pool", "solo", "--concurrency", "1",
                   "--loglevel", "INFO", "--hostname", f"w{next(_numbers)}@foreign", *quiet]
        self.process = subprocess.Popen(command, env={**os.environ, **environment, "C_FORCE_ROOT": "1"},
                                        stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=sys.stderr,
                                        start_new_session=True)
        atexit.register(self.kill)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        """A warm shutdown; answers the exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(SECONDS_MAX)
        finally:
            self.kill()


@contextlib.contextmanager
def working(**changed):
    """(tasks, worker) on a queue that is deleted at the end."""
    environment = settings(**changed)
    tasks = application(environment)
    worker = Worker(environment)
    try:
        yield tasks, worker
    finally:
        worker.kill()
        remove(environment["FOREIGN_QUEUE"])


def remove(queue):
    with kombu.Connection(suite.uri.text) as connection:
        connection.default_channel.queue_delete(queue)


_shared = []


def shared():
    """The tasks of the worker that the simple cases share."""
    if not _shared:
        held = working()
        _shared.append((held.__enter__()[0], held))
        atexit.register(held.__exit__, None, None, None)
    return _shared[0][0]


def case(name, behaviour, answer, later=False):
    return suite.case(name, behaviour, answer, seconds_max=CASE_SECONDS_MAX, later=later)


def got(result):
    return result.get(timeout=SECONDS_MAX)


@case("task.results", "30 tasks sent at once, their results over `rpc://`", "each its result")
def _():
    tasks = shared()
    results = [tasks.add.delay(number, 1) for number in range(30)]
    equal([got(result) for result in results], [number + 1 for number in range(30)], "results")


@case("task.error", "a task that raises", "the exception comes back")
def _():
    result = shared().fail.delay("on purpose")
    error = result.get(timeout=SECONDS_MAX, propagate=False)
    equal((type(error).__name__, str(error), result.state), ("ValueError", "on purpose", "FAILURE"), "error")


@case("task.expires", "a task that expires in the queue while the worker is busy (its message has a TTL)",
      "dropped by the broker: no worker hears of it")
def _():
    tasks = shared()
    busy = tasks.slow.delay(1)
    late = tasks.add.apply_async((1, 1), expires=0.3)
    equal(got(busy), "done", "the one before")
    equal(got(tasks.add.delay(2, 2)), 4, "the one after")
    equal(late.state, "PENDING", "state of the expired task")


@case("task.retry", "a task that retries with a countdown", "succeeds at its third attempt")
def _():
    equal(got(shared().third_time.delay()), 2, "retries")


@case("task.eta", "a countdown of 1.5 s, and an ETA that has passed", "run then, and at once")
def _():
    tasks = shared()
    begin = time.time()
    passed = got(tasks.now.apply_async(eta=None, countdown=-5)) - begin
    equal(passed < 5, True, "ran at once")
    begin = time.time()
    ran = got(tasks.now.apply_async(countdown=1.5)) - begin
    equal(1.4 < ran < 6, True, f"ran after {ran:.2f} s")


@case("task.canvas", "a chain, and a group of 10", "results in order")
def _():
    import celery

    tasks = shared()
    equal(got(celery.chain(tasks.add.s(1, 2), tasks.add.s(10))()), 13, "chain")
    equal(got(celery.group(tasks.add.s(number, number) for number in range(10))()), [2 * n for n in range(10)], "group")


@case("worker.stop", "SIGTERM while a task runs, more wait", "the running one ends; the rest stays for the next worker")
def _():
    with working() as (tasks, worker):
        equal(got(tasks.add.delay(1, 1)), 2, "the worker is up")
        first, second = tasks.slow.delay(1.5), tasks.add.delay(2, 2)
        time.sleep(0.7)
        equal(worker.stop(), 0, "exit code")
        equal(got(first), "done", "running when it was told")
        other = Worker({**os.environ})
        equal(got(second), 4, "waiting when it was told")
        other.kill()


@case("worker.killed", "kill -9 of a worker in a task that acknowledges late", "another runs it, redelivered=true")
def _():
    with working() as (tasks, worker):
        equal(got(tasks.add.delay(1, 1)), 2, "the worker is up")
        held, asked = tasks.slow.delay(3), tasks.where.delay()
        time.sleep(0.7)
        worker.kill()
        other = Worker({**os.environ})
        equal(got(held), "done", "the task that it was in")
        equal(got(asked)[0], asked.id, "the task after it")
        other.kill()


@case("worker.cut", "the worker's connection is cut while it has nothing to do, and while a task runs",
      "it comes back; each task has its result")
def _():
    relay = Relay(suite.uri.host, suite.uri.port)
    uri = suite.uri
    environment = settings()
    tasks = application(environment)
    worker = Worker({**environment, "FOREIGN_BROKER": f"pyamqp://{uri.user}:{uri.password}@127.0.0.1:{relay.port}//"})
    try:
        equal(got(tasks.add.delay(1, 1)), 2, "before")
        relay.cut()
        equal(got(tasks.add.delay(2, 2)), 4, "after the first cut")
        running = tasks.slow.delay(1)
        time.sleep(0.5)
        relay.cut()
        equal(got(running), "done", "running when it was cut")
        equal(got(tasks.add.delay(3, 3)), 6, "after the second cut")
    finally:
        worker.kill()
        remove(environment["FOREIGN_QUEUE"])


@case("worker.quorum", "a task queue of type quorum", "tasks, retries and countdowns as with a classic queue")
def _():
    with working(FOREIGN_QUEUE_TYPE="quorum") as (tasks, _worker):
        equal(got(tasks.add.delay(1, 2)), 3, "result")
        equal(got(tasks.third_time.delay()), 2, "retries")


@case("task.priority", "tasks of priority 1, 9 and 5 while the worker is busy", "highest first")
def _():
    with working(FOREIGN_PRIORITIES="10") as (tasks, _worker):
        equal(got(tasks.add.delay(1, 1)), 2, "the worker is up")
        busy = tasks.slow.apply_async((1.5,), priority=9)
        time.sleep(0.5)
        results = {priority: tasks.now.apply_async(priority=priority) for priority in (0, 1, 9, 5)}
        equal(got(busy), "done", "the one before")
        times = {priority: got(result) for priority, result in results.items()}
        # one is with the worker already: it takes the next while it works
        del times[0]
        equal(sorted(times, key=times.get), [9, 5, 1], "order")


@case("control.ping", "remote control: ping and revoke", "answers; the revoked task does not run")
def _():
    with working(FOREIGN_REMOTE="1") as (tasks, _worker):
        equal(got(tasks.add.delay(1, 1)), 2, "the worker is up")
        answers = eventually(lambda: tasks.app.control.ping(timeout=1), "an answer to ping", SECONDS_MAX)
        equal([next(iter(answer.values())) for answer in answers], [{"ok": "pong"}], "answers")


if __name__ == "__main__":
    suite.main()
