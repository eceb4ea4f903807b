"""Pages of the guide whose programs are of several languages: copied from the page and run, one after the other.

`--places` is what `lab.toolchain.guide` answers: where the clients of each language are.
"""

import contextlib
import json
import os
import re
import subprocess

from lab import toolchain
from lab.broker import Broker
from lab.cases import Skip, Suite, Uri, equal

suite = Suite("guide-clients")
GUIDE = os.path.join(toolchain.HERE, os.pardir, os.pardir, "docs", "guide", "how-to")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
JOBS = "job-queue.md"
SECONDS_MAX = 60
ON_ERROR = """
rhea.on('receiver_error', ({ receiver: { error } }) => { console.log(error.condition, error.description); connection.close(); });
"""


@contextlib.contextmanager
def node():
    """A broker of this case alone, whose queues have the names of the page: its place."""
    if not suite.options.broker:
        raise Skip("needs a broker of ours (--broker)")
    broker = Broker(suite.options.broker)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


def of_page(name, uri):
    """The programs of a page, as language and text, for the broker at this place."""
    with open(os.path.join(GUIDE, name), encoding="utf-8") as page:
        blocks = BLOCK.findall(page.read())
    for language, text in blocks:
        text = text.replace("BlockingConnection()", f"BlockingConnection(pika.URLParameters({uri.text!r}))")
        text = text.replace("localhost:5672", f"{uri.host}:{uri.port}")
        text = text.replace("host: 'localhost', port: 5672", f"host: '{uri.host}', port: {uri.port}")
        if language in ("python", "js", "java"):
            yield language, text


def ran(language, text, folder):
    """What a program prints."""
    found = json.loads(suite.options.places)
    file = os.path.join(folder, {"python": "worker.py", "js": "worker.js", "java": "Worker.java"}[language])
    with open(file, "w", encoding="utf-8") as program:
        program.write(text)
    words = {"python": [found["python"], file], "js": ["node", file], "java": ["java", "-Xmx64m", "-cp", found["java"], file]}
    environment = {**os.environ, "NODE_PATH": found["js"]}
    done = subprocess.run(words[language], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_MAX,
                          env=environment, check=False)
    return done.stdout if done.returncode == 0 else done.stdout + done.stderr


@suite.case("job-queue", "the jobs of the guide's page, and its workers with pika, rhea and Qpid JMS, each copied from the page",
            "ours alone: each worker is given what it chooses, a gold customer's job first", 240)
def _():
    with node() as the:
        seen = [(language, ran(language, text, the.folder)) for language, text in of_page(JOBS, Uri(the.uri))]
    equal(seen, [
        ("python", "jobs: 5\n"),
        ("python", "text: 5\n"),
        ("js", "video: 3\nvideo: 2\n"),
        ("java", 'audio: {"job": 4, "kind": "audio"}\n'),
    ])


@suite.case("wrong", "an expression that ends too early: argument of a consumer of pika's, selector of rhea and of Qpid JMS",
            "ours alone: the place of the fault is told: 406 with the channel's close, `amqp:invalid-field`, and an exception", 240)
def _():
    def spoilt(text):
        return re.sub(r"body\.kind = 'text'|body\.minutes <= 10|body\.kind = 'audio'", "body.kind =", text)

    with node() as the:
        first, *workers = of_page(JOBS, Uri(the.uri))
        equal(ran(*first, the.folder), "jobs: 5\n")
        seen = []
        for language, text in workers:
            said = ran(language, spoilt(text) + (ON_ERROR if language == "js" else ""), the.folder)
            assert re.search(r"at byte \d+: a value expected", said), said
            seen.append((language, "406" in said, "invalid-field" in said))
    equal(seen, [("python", True, False), ("js", False, True), ("java", False, True)])


def options(parser):
    parser.add_argument("--places", required=True, help="JSON of lab.toolchain.guide")
    parser.add_argument("--broker", default="", help="a leveret to start")


if __name__ == "__main__":
    suite.main(options)
