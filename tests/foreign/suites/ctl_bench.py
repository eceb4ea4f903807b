"""The command line, as scripts use RabbitMQ's tools: words, columns, exit codes, what goes to standard output.

Every row is run by the tool's own name. A broker of our own is started (--broker) and its binary linked to the names of
RabbitMQ's tools; a running broker is asked by a program that is called with the tool's name and the words (--tools PROGRAM),
and over --uri. What only ours has or says differently is in rows of their own.
"""

import atexit
import os
import re
import subprocess
import tempfile

import pika

from lab.broker import Broker
from lab.cases import Skip, Suite, Uri

suite = Suite("ctl")
VHOST = "ctl-v"
# RabbitMQ's tools end some empty lists with an empty line.
NOTHING = re.compile(r"\A\n?\Z")
TOOLS = ("rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-queues", "rabbitmq-streams", "rabbitmq-plugins",
         "rabbitmq-upgrade")
# Links to the program that are none of the tools with common words.
LINKS = (*TOOLS, "rabbitmqadmin", "rabbitmq-server")
_made = {}


class Tools:
    """Calls tools by their names."""

    def __init__(self):
        if suite.options.tools:
            self.is_ours, self.uri = False, suite.uri
            self.command = lambda tool: [suite.options.tools, tool]
            return
        if not suite.options.broker:
            raise Skip("needs a broker of our own (--broker), or the tools of the one that runs (--tools)")
        self.is_ours, self.broker = True, Broker(suite.options.broker, [
            "stream.listeners.tcp.default=127.0.0.1:0", "management.tcp.listener=127.0.0.1:0",
            "prometheus.tcp = none", "web_amqp.tcp = none"])
        self.broker.start()
        atexit.register(self.broker.close)
        self.uri = Uri(self.broker.uri)
        self.folder = tempfile.mkdtemp(prefix="leveret-tools-")
        for tool in LINKS:
            os.link(self.broker.binary, os.path.join(self.folder, tool))
        atexit.register(self.tidy)
        data = os.path.join(self.broker.folder, "data")
        self.command = lambda tool: [os.path.join(self.folder, tool), "--data-dir", data]

    def tidy(self):
        for tool in LINKS:
            os.unlink(os.path.join(self.folder, tool))
        os.rmdir(self.folder)

    def run(self, line, stdin=None, tool="rabbitmqctl"):
        """Words between spaces; what is to hold some is in a list."""
        words = line if isinstance(line, list) else line.split()
        if words[0] in TOOLS:
            tool, words = words[0], words[1:]
        return subprocess.run(self.command(tool) + words, input=stdin, capture_output=True, text=True, timeout=60)


def case(name, behaviour, answer):
    """RabbitMQ's tools take a second each."""
    return suite.case(name, behaviour, answer, seconds_max=lambda options: 300 if options.tools else 30)


def tools():
    if "tools" not in _made:
        _made["tools"] = Tools()
        _made["tools"].run(["add_vhost", VHOST])
        _made["tools"].run(["set_permissions", "-p", VHOST, "guest", ".*", ".*", ".*"])
    return _made["tools"]


def connect():
    uri = tools().uri
    login = pika.PlainCredentials(uri.user, uri.password)
    return pika.BlockingConnection(pika.ConnectionParameters(uri.host, uri.port, VHOST, login, heartbeat=0))


def check(rows):
    """Each row: words, exit code, and what is on standard output; on standard error, where a fourth is there.

    A text is all of it; a pattern is looked for.
    """
    for row in rows:
        words, code, out = row[:3]
        done = tools().run(words)
        told = f"{words}: ended with {done.returncode}: {done.stdout!r} {done.stderr!r}"
        assert done.returncode == code, f"{told}; expected {code}"
        for expected, said in ((out, done.stdout), *((row[3], done.stderr) for _ in row[3:])):
            if isinstance(expected, re.Pattern):
                assert expected.search(said), f"{told}; expected {expected.pattern!r}"
            elif expected is not None:
                assert said == expected, f"{told}; expected {expected!r}"


def has(text):
    return re.compile(re.escape(text))


def lines(*all_lines):
    return "".join(line + "\n" for line in all_lines)


def only_ours():
    if not tools().is_ours:
        raise Skip("RabbitMQ's tools say it in words of their own")


def declare(channel, name, **arguments):
    channel.queue_declare(name, durable=True, arguments={key.replace("_", "-"): value
                                                         for key, value in arguments.items()})


def options(parser):
    parser.add_argument("--broker", default="", help="a binary of ours to start")
    parser.add_argument("--stream-port", type=int, default=5552, help="where the broker at --uri speaks to streams")
    parser.add_argument("--tools", default="", help="a program that runs the tools of the broker at --uri")
