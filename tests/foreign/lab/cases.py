"""The frame of a suite written in Python: named cases, one result each.

A case is a function with a name, the behaviour it states and the answer it
expects, the last two in words fit for the tables of docs/compatibility. A suite registers cases
and calls `main`. Results leave as JSON lines on standard output, one a case; the
runner turns them into its report. What a client library prints goes to standard
error, so it cannot be taken for a result.

Invariant: every registered case that was selected yields exactly one result, also
when it hangs (the alarm) or raises something odd.
"""

import argparse
import fnmatch
import json
import os
import signal
import sys
import time
import traceback
import urllib.parse

CASE_SECONDS_MAX = 30
TIDY_SECONDS_MAX = 5


class Skip(Exception):
    """The broker or the machine lacks what this case needs; says what."""


class Case:
    def __init__(self, name, behaviour, answer, function, seconds_max, later):
        self.name = name
        self.later = later
        self.behaviour = behaviour
        self.answer = answer
        self.function = function
        self.seconds_max = seconds_max


class Uri:
    """`amqp://user:password@host:port/vhost`, taken apart once."""

    def __init__(self, text):
        parts = urllib.parse.urlsplit(text)
        self.text = text
        self.user = urllib.parse.unquote(parts.username or "guest")
        self.password = urllib.parse.unquote(parts.password or "guest")
        self.host = parts.hostname or "127.0.0.1"
        self.port = parts.port or 5672
        path = parts.path[1:]
        self.vhost = urllib.parse.unquote(path) if path else "/"

    def as_user(self, user, password):
        """The same broker for somebody else."""
        quoted = [urllib.parse.quote(part, safe="") for part in (user, password, self.vhost)]
        return Uri(f"amqp://{quoted[0]}:{quoted[1]}@{self.host}:{self.port}/{quoted[2]}")


class Suite:
    """Cases in the order they were written, and the options of the run."""

    def __init__(self, name):
        self.name = name
        self.cases = []
        self.options = None
        self.uri = None

    def case(self, name, behaviour, answer="", seconds_max=CASE_SECONDS_MAX, later=False):
        """Registers the decorated function; it takes no argument.

        `seconds_max` may be a function of the options.
        `later`: the behaviour is on the road map but not due; runs with `--later` alone.
        """

        def register(function):
            self.add(name, behaviour, answer, function, seconds_max, later)
            return function

        return register

    def add(self, name, behaviour, answer, function, seconds_max=CASE_SECONDS_MAX, later=False):
        full_name = f"{self.name}.{name}"
        assert all(case.name != full_name for case in self.cases), full_name
        self.cases.append(Case(full_name, behaviour, answer, function, seconds_max, later))

    def main(self, add_options=None):
        parser = argparse.ArgumentParser(prog=self.name)
        parser.add_argument("--uri", default="amqp://guest:guest@127.0.0.1:5672")
        parser.add_argument("--only", default="*", help="pattern of case names")
        parser.add_argument("--full", action="store_true")
        parser.add_argument("--later", action="store_true", help="also what is not due yet")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--admin", default="", help="base URI of the HTTP API")
        if add_options:
            add_options(parser)
        self.options = parser.parse_args()
        self.uri = Uri(self.options.uri)
        results = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        failed = 0
        for case in self.cases:
            due = self.options.later or not case.later
            if due and fnmatch.fnmatch(case.name, self.options.only):
                result = run(case, self.options)
                failed += result["status"] == "failed"
                results.write(json.dumps(result) + "\n")
        results.flush()
        sys.exit(1 if failed else 0)


class TooLong(BaseException):
    """Not an `Exception`: client libraries swallow those in their callbacks."""


def run(case, options=None):
    seconds_max = case.seconds_max(options) if callable(case.seconds_max) else case.seconds_max

    def too_long(_signal, _frame):
        raise TooLong(f"no end after {seconds_max} s")

    signal.signal(signal.SIGALRM, too_long)
    # again and again: what tidies up after the case may hang as well
    signal.setitimer(signal.ITIMER_REAL, seconds_max, TIDY_SECONDS_MAX)
    begin = time.monotonic()
    status, why = "ok", ""
    try:
        case.function()
    except Skip as reason:
        status, why = "skipped", str(reason)
    except (Exception, TooLong) as error:  # noqa: BLE001 - a case may fail in any way
        status, why = "failed", describe(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {
        "name": case.name,
        "status": status,
        "why": why,
        "behaviour": case.behaviour,
        "answer": case.answer,
        "seconds": round(time.monotonic() - begin, 3),
    }


def describe(error):
    """One line: what was wrong, and the line of the suite that saw it."""
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if os.path.basename(os.path.dirname(frame.filename)) in ("suites", "foreign"):
            place = f" ({os.path.basename(frame.filename)}:{frame.lineno})"
    text = str(error) or repr(error)
    return f"{type(error).__name__}: {text}".replace("\n", " ")[:500] + place


def equal(seen, expected, what=""):
    """The comparison of all suites; the message carries both sides."""
    if seen != expected:
        raise AssertionError(f"{what or 'value'}: saw {shorten(seen)}, expected {shorten(expected)}")


def shorten(value):
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:140]} ... {text[-140:]} ({len(text)} characters)"


def eventually(check, what, seconds_max=10.0, pause=0.02):
    """Waits for counts that a broker brings up to date a little later."""
    deadline = time.monotonic() + seconds_max
    while True:
        seen = check()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not so after {seconds_max} s")
        time.sleep(pause)
