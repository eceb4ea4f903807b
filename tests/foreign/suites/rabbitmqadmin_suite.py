"""`rabbitmqadmin`, of version 2 and the older one; `python -m suites.rabbitmqadmin_suite --program PATH --old PATH --broker BINARY`.

PATH are the programs. With --admin and --uri they ask that broker.
"""

import json
import os
import subprocess
import sys
import time
import urllib.parse

from lab.cases import Skip, Suite, equal
from suites import management_suite
from suites.management_suite import api
from suites.rabbitmqadmin_script import ANSWERS, run

suite = Suite("rabbitmqadmin")


@suite.case("script", "164 commands of rabbitmqadmin 2", "the exit codes of each are those with RabbitMQ", 400)
def script():
    if not suite.options.program:
        raise Skip("needs --program")
    with open(ANSWERS, encoding="utf-8") as file:
        expected = list(json.load(file).values())
    node = api().get("/nodes")[0]["name"]
    found = run([suite.options.program], api().port, urllib.parse.urlsplit(api().uri).port, node)
    equal(len(found), len(expected))
    equal([f"{line}: {code}, not {wanted}: {said}" for (line, code, said), wanted in zip(found, expected) if code != wanted], [])


@suite.case("old", "the older rabbitmqadmin, as images ran it: declare queue name=... queue_type=classic durable=true, and so on",
            "each ends with 0; what cannot be declared with 1", 120)
def old():
    if not suite.options.old:
        raise Skip("needs --old")
    queue = f"old-{time.time_ns():x}"
    exchange = queue + "-x"
    rows = [
        (f"declare queue name={queue} queue_type=classic durable=true", 0, "queue declared"),
        (f"declare queue name={queue} queue_type=quorum durable=true", 1, ""),
        (f"declare exchange name={exchange} type=topic", 0, "exchange declared"),
        (f"declare binding source={exchange} destination={queue} routing_key=k.#", 0, "binding declared"),
        (f"publish exchange={exchange} routing_key=k.a payload=hello", 0, "Message published"),
        (f"publish exchange={exchange} routing_key=nowhere payload=hello", 0, "Message published but NOT routed"),
        ("list queues name messages", 0, queue),
        (f"get queue={queue} ackmode=ack_requeue_false", 0, "hello"),
        (f"purge queue name={queue}", 0, "queue purged"),
        (f"declare policy name={queue} pattern=^{queue}$ definition={{\"max-length\":5}} apply-to=queues", 0, "policy declared"),
        (f"delete policy name={queue}", 0, "policy deleted"),
        ("list exchanges", 0, exchange), ("list bindings", 0, queue), ("list users", 0, "guest"), ("show overview", 0, "4.3"),
        ("list connections", 0, ""), ("list nodes", 0, ""), ("list vhosts", 0, ""),
        (f"delete queue name={queue}", 0, "queue deleted"), (f"delete exchange name={exchange}", 0, "exchange deleted"),
        (f"delete queue name={queue}", 1, "Not found"),
    ]
    for line, code, said in rows:
        words = [sys.executable, suite.options.old, "-H", api().host, "-P", str(api().port), *line.split()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "HOME": "/nonexistent"})
        text = done.stdout + done.stderr
        equal((done.returncode, said in text), (code, True), f"{line}: {text[-200:]}")


def options(parser):
    management_suite.add_options(parser)
    parser.add_argument("--program", default="", help="rabbitmqadmin of version 2")
    parser.add_argument("--old", default="", help="rabbitmqadmin in Python")


if __name__ == "__main__":
    # Its way to a broker is that suite's.
    management_suite.suite = suite
    suite.main(options)
