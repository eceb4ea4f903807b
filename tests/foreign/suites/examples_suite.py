"""The programs of examples/: eight in each language, which print the same lines.

`--places` is what `lab.toolchain.examples` answers: for each language where its clients and programs are, or why they are absent.
"""

import concurrent.futures
import json
import os
import re
import subprocess

from lab import toolchain
from lab.cases import Skip, Suite, equal

suite = Suite("examples")
ROOT = toolchain.EXAMPLES
PROGRAM_SECONDS_MAX = 40
# Nobody listens at this port: it is for a service that no machine has had for decades.
NOWHERE = "amqp://guest:guest@127.0.0.1:1"
ENDINGS = {"python": ".py", "java": ".java", "go": "/main.go", "javascript": ".js", "rust": ".rs"}
LINES = {
    "hello": ["sent: Hello, World!", "received: Hello, World!"],
    "work-queue": [
        "confirmed: task 1", "confirmed: task 2", "confirmed: task 3", "done: task 1", "done: task 2", "done: task 3",
        "left in the queue: 0"],
    "publish-subscribe": [
        "published: rain on Saturday", "published: sun on Sunday", "first subscriber: rain on Saturday",
        "first subscriber: sun on Sunday", "second subscriber: rain on Saturday", "second subscriber: sun on Sunday"],
    "topics": [
        "published: orders.eu.paid", "published: orders.us.cancelled", "published: invoices.eu.sent",
        "received by orders.#: orders.eu.paid", "received by orders.#: orders.us.cancelled",
        "received by *.eu.*: orders.eu.paid", "received by *.eu.*: invoices.eu.sent"],
    "rpc": ["asked: the square of 3", "answered: 9", "asked: the square of 12", "answered: 144"],
    "dead-letter-retry": [
        "sent: order 7", "attempt 1 failed: order 7", "attempt 2 failed: order 7", "attempt 3 failed, given up: order 7",
        "put aside: order 7"],
    "delayed": [
        "sent: coffee, due in 750 ms", "sent: tea, due in 1500 ms", "sent: water, due in 0 ms", "received: water",
        "received: coffee", "received: tea"],
    "stream": [
        "appended: event 0", "appended: event 1", "appended: event 2", "appended: event 3", "appended: event 4",
        "read at offset 2: event 2", "read at offset 3: event 3", "read at offset 4: event 4"],
}
LIBRARIES = {"python": "pika", "java": "amqp-client", "go": "amqp091-go", "javascript": "amqplib", "rust": "lapin"}


def file_of(language, name):
    stem = "".join(word.title() for word in name.split("-")) if language == "java" else name
    return stem + ENDINGS[language]


def words(language, name, place):
    source = os.path.join(ROOT, language, file_of(language, name))
    return {
        "python": [place, source],
        "java": ["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", place, file_of(language, name)[:-len(".java")]],
        "go": [os.path.join(place, name)],
        "javascript": ["node", source],
        "rust": [os.path.join(place, name)],
    }[language]


def run(language, name, place, uri):
    """Exit code, lines, and what was said beside them."""
    environment = {**os.environ, "AMQP_URL": uri}
    if language == "javascript":
        environment["NODE_PATH"] = place
    done = subprocess.run(
        words(language, name, place), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROGRAM_SECONDS_MAX,
        env=environment, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr.strip()


def lacks_delays(name, said):
    """A broker without the exchange type of that example: RabbitMQ has it by a plugin that is archived."""
    return name == "delayed" and not suite.options.broker and "exchange type 'x-delayed-message'" in said


def wrong(language, place):
    """Examples that do not do what they are to do, and how."""
    found = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        ran = dict(zip(LINES, pool.map(lambda name: run(language, name, place, suite.uri.text), LINES)))
        failed = dict(zip(LINES, pool.map(lambda name: run(language, name, place, NOWHERE), LINES)))
    for name, lines in LINES.items():
        code, seen, said = ran[name]
        if (code, seen) != (0, lines) and not lacks_delays(name, said):
            found[name] = f"ended with {code}, printed {seen}, said {said[-200:]}"
        code, seen, said = failed[name]
        if code == 0 or seen or not said:
            found[f"{name} without a broker"] = f"ended with {code}, printed {seen}, said {said[-200:]}"
    return found


def add(language):
    def act():
        place = json.loads(suite.options.places)[language]
        if "missing" in place:
            raise Skip(place["missing"])
        equal(wrong(language, place["place"]), {})

    library = LIBRARIES[language]
    suite.add(language, f"the eight examples in {language.title()} ({library}), and each of them where no broker is",
              "each prints its lines and ends with 0; without a broker with another code and the reason", act, 150)


for each in ENDINGS:
    add(each)


def versions():
    """Versions that each language's manifest names."""
    def found(pattern, *path):
        return re.search(pattern, toolchain.text(os.path.join(*path))).group(1)

    def of(root, python):
        return {
            "python": found(r"pika==([\d.]+)", *python),
            "java": found(r"<artifactId>amqp-client</artifactId>\s*<version>([\d.]+)", root, "java", "pom.xml"),
            "go": found(r"amqp091-go v([\d.]+)", root, "go", "go.mod"),
            "javascript": found(r'"amqplib": "([\d.]+)"', root, "javascript" if root == ROOT else "node", "package.json"),
            "rust": found(r'lapin = \{ version = "=([\d.]+)"', root, "rust", "Cargo.toml"),
        }

    return (of(ROOT, (ROOT, "python", "requirements.txt")),
            of(toolchain.HERE, (toolchain.HERE, "lab", "toolchain.py")))


@suite.case("versions", "")
def _():
    # Newcomers install the versions that the examples were run with.
    examples, installed = versions()
    equal(examples, installed)


@suite.case("links", "")
def _():
    linked = set(re.findall(r"\]\(([^)]+)\)", toolchain.text(os.path.join(ROOT, "README.md"))))
    files = {f"{language}/{file_of(language, name)}" for language in ENDINGS for name in LINES}
    equal(files - linked, set(), "examples without a link")
    equal({path for path in linked if "://" not in path and not os.path.exists(os.path.join(ROOT, path))}, set(), "links to nothing")


def options(parser):
    parser.add_argument("--places", required=True, help="JSON of lab.toolchain.examples")
    parser.add_argument("--broker", default="", help="the binary that runs, where it is ours")


if __name__ == "__main__":
    suite.main(options)
