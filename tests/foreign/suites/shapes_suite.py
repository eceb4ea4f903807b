"""Shapes of what the HTTP API answers to every GET; `python -m suites.shapes_suite --uri URI --broker BINARY`.

`python -m suites.shapes_suite --record --uri AMQP --admin ADMIN --stream-port PORT` asks a RabbitMQ and writes down keys and types, null
among them, to `shapes_answers.json`; both are asked after the same load, with connections that are open.
"""

import atexit
import json
import os
import re
import sys
import time
import urllib.parse

from lab.broker import Broker
from lab.cases import Skip, Suite, Uri, equal
from suites.management_shapes import ask, shape
from suites.metrics_load import Load
from suites.shapes_made import fields, made

suite = Suite("shapes")
HERE = os.path.dirname(os.path.abspath(__file__))
ANSWERS = os.path.join(HERE, "shapes_answers.json")
MADE = os.path.join(HERE, "shapes_made_answers.json")
HTTP = re.compile(rb"started HTTP listener on \S*?:(\d+)")
SAMPLE_S = 6
SETTLE_S = 12
_found = []

PATHS = """
overview whoami version cluster-name extensions nodes nodes/NODE nodes/NODE/memory nodes/NODE/memory/relative feature-flags
deprecated-features deprecated-features/used auth/attempts/NODE auth/hash_password/secret definitions definitions/%2F
vhosts vhosts/%2F vhosts/%2F/permissions vhosts/%2F/topic-permissions vhosts/%2F/connections vhosts/%2F/channels
users users/guest users/guest/permissions users/guest/topic-permissions users/guest/queues
users/without-permissions permissions permissions/%2F/guest
topic-permissions topic-permissions/%2F/guest vhost-limits vhost-limits/%2F user-limits user-limits/guest
policies policies/%2F policies/%2F/P-p operator-policies operator-policies/%2F operator-policies/%2F/P-o
parameters parameters/operator_policy parameters/vhost-limits/%2F global-parameters global-parameters/P-g
exchanges exchanges/%2F exchanges/%2F/P-x exchanges/%2F/amq.direct exchanges/%2F/P-x/bindings/source
exchanges/%2F/P-x/bindings/destination queues queues/%2F queues?page=1&page_size=10 queues/%2F/P-classic queues/%2F/P-quorum
queues/%2F/P-stream queues/%2F/P-dead queues/%2F/P-classic/bindings bindings bindings/%2F bindings/%2F/e/P-x/q/P-classic
queues/%2F/P-empty queues/%2F/P-fresh queues/%2F/P-still queues/%2F/P-plain exchanges/%2F/amq.default
exchanges/%2F/amq.default/bindings/source queues/%2F/P-empty/bindings bindings/%2F/e/P-x/q/P-classic/k connections connections/CONNECTION connections/CONNECTION/channels
connections/TEN/sessions connections/username/guest channels channels/CHANNEL consumers consumers/%2F
stream/connections stream/connections/%2F stream/publishers stream/publishers/%2F stream/consumers stream/consumers/%2F
health/checks/alarms health/checks/local-alarms health/checks/virtual-hosts health/checks/node-is-quorum-critical
health/checks/protocol-listener/amqp health/checks/certificate-expiration/1/months health/checks/is-in-service
health/checks/ready-to-serve-clients health/checks/below-node-connection-limit
""".split()

# Keys of RabbitMQ's that are not here, and why: by path and key.
ABSENT = [
    (r"nodes\S* .*context_switches\S*", "of Erlang's scheduler; the system counts those of threads"),
    (r"nodes\S* .*ra_open_file_metrics", "of RabbitMQ's Raft library"),
    (r"nodes\S* .*config_files\[\]", "this broker was started without one"),
    (r"overview .*socket_opts\.(exit_on_close|linger\S*|send_timeout\S*|cowboy_opts\S*|ip\S*|port|protocol)",
     "options of Erlang's sockets; address, port and protocol of a listener are beside them"),
    (r"queues/%2F/P-empty .*idle_since", "nobody knows since when of a queue to which nothing ever came"),
    (r"(users/guest/)?queues\S* .*publishers", "a queue does not know who publishes to it"),
    (r"extensions .*", "of RabbitMQ's own pages"),
    (r"feature-flags .*callbacks\[\]", "of Erlang's modules"),
]
# Where types differ, and why.
TYPES = [
    (r"queues/%2F/P-(plain|fresh) .*single_active_consumer_tag", "a text, as RabbitMQ has it of quorum queues to which something came"),
    (r"(users/guest/)?queues\S* .*head_message_timestamp", "null where the oldest message has none, as RabbitMQ has it where one queue is asked for"),
    (r"(users/guest/)?queues\S* .*policy", "null without a policy, as RabbitMQ has it where one queue is asked for; its lists have an empty text"),
    (r"connections/CONNECTION .*(peer_cert_\w+|ssl_\w+)", "null without TLS, as RabbitMQ has it in lists; one connection has an empty text"),
    (r"(consumers|(users/guest/)?queues)\S* .*consumer_timeout", "a consumer of a classic queue has none: `infinity`"),
]
# Fields that are different here, and why: by thing and key.
DIFFERENT = [
    (r"exchange (|amq\.direct|amq\.rabbitmq\.trace) \.user_who_performed_action", "who made a virtual host is not kept"),
    (r"consumers \[0\]\.consumer_timeout", "a consumer of a classic queue has none: `infinity`"),
    (r"queue (quorum|stream) \.(exclusive|single_active)_consumer_tag", "null where there is none, as RabbitMQ has it of classic queues"),
    (r"connections \[0\]\.held_back", "beyond RabbitMQ: why the input of a connection is left alone"),
    (r"connections \[0\]\.memory_held", "beyond RabbitMQ: bytes that a connection makes the node hold"),
]
NUMBERS = {"int", "float"}
# Queues that nothing comes to: each type, and what is said of one that is asked for otherwise.
EMPTY = {
    "empty": {"durable": True},
    "fresh": {"durable": True, "arguments": {"x-queue-type": "quorum"}},
    "still": {"durable": True, "arguments": {"x-queue-type": "stream"}},
    "plain": {"durable": True, "arguments": {
        "x-queue-type": "quorum", "x-delivery-limit": -1, "x-single-active-consumer": True, "x-delayed-retry-type": "all",
        "x-delayed-retry-min": 1000}},
}


class Bench:
    """A broker after the load, asked at its HTTP API."""

    def __init__(self, base, uri, stream_port):
        self.base, self.uri, self.prefix = base, uri.text, f"shapes-{time.time_ns():x}"
        # A first question for rates has others' work counted before the load begins.
        ask(base, "GET", "/overview")
        time.sleep(SAMPLE_S)
        self.load = Load(uri, stream_port, self.prefix)
        atexit.register(self.close)
        self.load.run()
        for name, wish in EMPTY.items():
            ask(base, "PUT", f"/queues/%2F/{self.prefix}-{name}", wish)
        for words in (
                ("PUT", f"/policies/%2F/{self.prefix}-p", {"pattern": f"^{self.prefix}-c", "definition": {"max-length": 500}}),
                ("PUT", f"/operator-policies/%2F/{self.prefix}-o", {"pattern": f"^{self.prefix}-c", "definition": {"max-length": 900}}),
                ("PUT", "/vhost-limits/%2F/max-queues", {"value": 100000}),
                ("PUT", "/user-limits/guest/max-channels", {"value": 10000}),
                ("PUT", "/topic-permissions/%2F/guest", {"exchange": "amq.topic", "write": ".*", "read": ".*"}),
                ("PUT", f"/global-parameters/{self.prefix}-g", {"name": f"{self.prefix}-g", "value": {"a": 1}})):
            ask(base, *words)
        time.sleep(SETTLE_S)

    def close(self):
        self.load.close()
        for path in (*(f"/queues/%2F/{self.prefix}-{name}" for name in EMPTY), f"/policies/%2F/{self.prefix}-p", f"/operator-policies/%2F/{self.prefix}-o", "/vhost-limits/%2F/max-queues",
                     "/user-limits/guest/max-channels", "/topic-permissions/%2F/guest", f"/global-parameters/{self.prefix}-g"):
            try:
                ask(self.base, "DELETE", path)
            except (SystemExit, OSError):
                pass

    def shapes(self):
        """By path: types by key."""
        node = ask(self.base, "GET", "/nodes")[0]["name"]
        channel = ask(self.base, "GET", "/channels")[0]
        connection = channel["connection_details"]["name"]
        ten = next(row["name"] for row in ask(self.base, "GET", "/connections") if row["protocol"] == "AMQP 1-0")
        swap = {"CONNECTION": connection, "CHANNEL": channel["name"], "NODE": node, "TEN": ten}
        found = {}
        for path in PATHS:
            asked = "/" + path.replace("P-", self.prefix + "-")
            for word, value in swap.items():
                asked = asked.replace(word, urllib.parse.quote(value, safe=""))
            shapes = shape(ask(self.base, "GET", asked), "", {})
            # Names of what was made are not keys.
            found[path] = {key.replace(self.prefix, "P"): sorted(types) for key, types in sorted(shapes.items())}
        return found


def bench():
    if not _found:
        _found.append(None)
        if suite.options.broker:
            broker = Broker(suite.options.broker, [
                "management.tcp.ip=127.0.0.1", "management.tcp.port=0", "stream.listeners.tcp.1=127.0.0.1:0",
                "stream.advertised_host=127.0.0.1"])
            broker.start()
            atexit.register(broker.close)
            base = f"http://guest:guest@127.0.0.1:{broker.port_of(HTTP, 'HTTP')}"
            _found[0] = Bench(base, Uri(broker.uri), broker.stream_port())
        elif suite.options.admin:
            _found[0] = Bench(suite.options.admin, suite.uri, suite.options.stream_port)
    if _found[0] is None:
        raise Skip("needs --broker, or --admin with the base URI of the HTTP API")
    return _found[0]


def is_excused(rows, path, key):
    return any(re.fullmatch(pattern, f"{path} {key}") for pattern, _ in rows)


@suite.case("types", "what every GET of the HTTP API answers, key by key", "the same types, null where RabbitMQ has null", 90)
def types():
    with open(ANSWERS, encoding="utf-8") as file:
        answers = json.load(file)
    wrong = []
    for path, ours in bench().shapes().items():
        for key, kinds in ours.items():
            theirs = answers[path].get(key)
            if theirs is None or is_excused(TYPES, path, key):
                continue
            other = set(kinds) - set(theirs)
            if other and not (other <= NUMBERS and set(theirs) & NUMBERS):
                wrong.append(f"{path} {key}: {kinds}, not {theirs}")
    equal(wrong, [])


@suite.case("keys", "keys that RabbitMQ's answers have", "there, but for those that are named with a reason", 90)
def keys():
    with open(ANSWERS, encoding="utf-8") as file:
        answers = json.load(file)
    missing, excused = [], []
    for path, ours in bench().shapes().items():
        for key in answers[path]:
            parent = re.sub(r"(\.[^.\[]*|\[\])$", "", key)
            if key not in ours and (parent in ours or not parent):
                (excused if is_excused(ABSENT, path, key) else missing).append(f"{path} {key}")
    equal(missing, [])
    print(len(excused), "keys are not told")
    # A reason for what is there would hide its going away.
    idle = [pattern for pattern, _ in ABSENT if not any(re.fullmatch(pattern, key) for key in excused)]
    equal(idle, [])


@suite.case("made", "exchanges, queues, bindings, policies, users, consumers and connections, value by value, that two users made over AMQP, HTTP and with "
            "definitions, and that the server made", "the same values, but for those that are named with a reason", 60)
def values():
    with open(MADE, encoding="utf-8") as file:
        answers = json.load(file)
    ours = made(bench().base, bench().uri, SAMPLE_S)
    equal(sorted(ours), sorted(answers))
    wrong, excused = [], []
    for name, theirs in answers.items():
        theirs, own = fields(theirs), fields(ours[name])
        for key in sorted(theirs.keys() | own.keys()):
            if theirs.get(key, "<none>") != own.get(key, "<none>"):
                line = f"{name} {key}"
                (excused if is_excused(DIFFERENT, name, key) else wrong).append(f"{line}: {own.get(key)}, not {theirs.get(key)}")
    equal(wrong, [])
    print(len(excused), "values are others")


def record():
    with open(MADE, "w", encoding="utf-8") as file:
        json.dump(made(bench().base, bench().uri, SAMPLE_S), file, indent=1, sort_keys=True)
        file.write("\n")
    with open(ANSWERS, "w", encoding="utf-8") as file:
        found = bench().shapes()
        rows = (f" {json.dumps(path)}: {{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(kinds)}" for key, kinds in shapes.items())
                + "\n }" for path, shapes in found.items())
        file.write("{\n" + ",\n".join(rows) + "\n}\n")
    print(len(found), "paths")


def add_options(parser):
    parser.add_argument("--broker", default="", help="path of a leveret binary to start")
    parser.add_argument("--stream-port", type=int, default=5552)


if __name__ == "__main__":
    if "--record" in sys.argv:
        from argparse import ArgumentParser

        own = ArgumentParser()
        for option in ("--record", "--uri", "--admin", "--stream-port", "--broker"):
            own.add_argument(option, **({"action": "store_true"} if option == "--record" else {"default": ""}))
        suite.options = own.parse_args()
        suite.uri = Uri(suite.options.uri)
        suite.options.stream_port = int(suite.options.stream_port)
        record()
    else:
        suite.main(add_options)
