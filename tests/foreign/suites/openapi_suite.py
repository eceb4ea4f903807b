"""The HTTP API against its own OpenAPI document; `python -m suites.openapi_suite --broker BINARY`.

schemathesis makes requests that the document allows, and such that it does not, for every endpoint. What it may not
see is a 5xx that is not described, a status or a shape that is not described, and the end of the broker.
"""

import atexit
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from http.client import HTTPConnection

from lab.broker import Broker
from lab.cases import Skip, Suite, equal

suite = Suite("openapi")
HTTP = re.compile(rb"started HTTP listener on \S*?:(\d+)")
BODY_BYTES_MAX = 100_000
SECONDS = 45
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# Checks of health answer 503 when something is wrong, which most ports and protocols are.
CONFIG = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503]
"""
_found = []


class Api:
    def __init__(self, broker):
        self.broker = broker
        self.port = broker.port_of(HTTP, "HTTP")

    def ask(self, method, path, body=None, user="guest"):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            head = {"Content-Type": "application/json"}
            if user:
                head["Authorization"] = "Basic " + base64.b64encode(f"{user}:{user}".encode()).decode()
            text = body if body is None or isinstance(body, bytes) else json.dumps(body)
            connection.request(method, "/api" + path, text, head)
            response = connection.getresponse()
            data = response.read()
            kind = response.getheader("content-type")
            return response.status, json.loads(data) if data and kind == "application/json" else data
        finally:
            connection.close()

    def status(self, *words, **options):
        return self.ask(*words, **options)[0]


def started():
    """A broker that just started."""
    if not suite.options.broker:
        raise Skip("needs --broker: what it does is not for a broker that others use")
    broker = Broker(suite.options.broker, [
        "management.tcp.ip=127.0.0.1", "management.tcp.port=0", f"management.http.max_body_size={BODY_BYTES_MAX}"])
    broker.start()
    atexit.register(broker.close)
    return Api(broker)


def api():
    """The broker that all cases share but the one that makes requests by chance."""
    if not _found:
        _found.append(started())
        equal(_found[0].status("PUT", "/vhosts/v"), 201)
        equal(_found[0].status("PUT", "/users/monitor", {"password": "monitor", "tags": "monitoring"}), 201)
        nothing = {"configure": "^$", "write": "^$", "read": "^$"}
        equal(_found[0].status("PUT", "/permissions/v/monitor", nothing), 201)
    return _found[0]


@suite.case("document", "the OpenAPI document, without a user", "200; every path has verbs, every verb has answers")
def document():
    status, value = api().ask("GET", "/x/openapi.json", user="")
    equal((status, value["openapi"]), (200, "3.1.0"))
    for path, item in value["paths"].items():
        verbs = [name for name in item if name != "parameters"]
        assert verbs and all(item[name]["responses"] for name in verbs), path


@suite.case("fuzz", "requests for every endpoint, made from the document by schemathesis",
            "answers that the document describes, and no 5xx but 503 of a check of health", seconds_max=SECONDS + 40)
def fuzz():
    # A broker of its own: among the requests are such that delete virtual hosts.
    own = started()
    script = os.path.join(os.path.dirname(sys.executable), "schemathesis")
    # A user of its own: some of the requests change or delete users.
    equal(own.status("PUT", "/users/fuzz", {"password": "fuzz", "tags": "administrator"}), 201)
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    equal(own.status("PUT", "/vhosts/v"), 201)
    for vhost in ("v", "%2F"):
        equal(own.status("PUT", f"/permissions/{vhost}/fuzz", everything), 201)
    with tempfile.TemporaryDirectory(prefix="leveret-openapi-") as folder:
        config = os.path.join(folder, "schemathesis.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG)
        words = [script, "--config-file", config, "run", f"http://127.0.0.1:{own.port}/api/x/openapi.json",
                 "--auth", "fuzz:fuzz", "--checks", CHECKS, "--phases", "coverage,fuzzing", "--max-time", str(SECONDS),
                 "--max-examples", "6", "--seed", str(suite.options.seed), "--no-shrink", "--continue-on-failure",
                 "--request-timeout", "20", "--exclude-path", "/x/events",
                 "--exclude-path", "/x/log", "--exclude-path", "/x/queues/{vhost}/{queue}/tail", "--suppress-health-check", "all", "--warnings", "off"]
        done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=SECONDS + 35, check=False)
    said = done.stdout.decode(errors="replace")
    print(said, file=sys.stderr)
    assert own.broker.alive(), f"the broker ended: {own.broker.last_line()}"
    equal(own.status("GET", "/overview"), 200)
    failures = re.findall(r"^_+ (.*?) _+$", said, re.MULTILINE)
    assert done.returncode == 0, f"exit code {done.returncode}: {failures[:20] or said[-300:]}"


def sample(path):
    names = {"vhost": "v", "user": "guest", "node": "nowhere", "exchange": "amq.topic", "source": "amq.topic"}
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found.group(1), "thing"), path)


@suite.case("watcher", "every verb that changes something, by a user with the tag monitoring and no permissions",
            "401 or 404 each; definitions stay as they were")
def watcher():
    own = api()
    paths = own.ask("GET", "/x/openapi.json")[1]["paths"]
    equal(own.status("PUT", "/queues/v/thing", {"durable": True}), 201)
    before = own.ask("GET", "/definitions")[1]
    asked = 0
    for path, item in paths.items():
        for verb in item:
            if verb in ("parameters", "get") or item[verb].get("security") == [] or "/username/" in path:
                continue
            if path.endswith(("/route", "/filter/check")):
                # Only say where a message would go, and what an expression means.
                continue
            schema = item[verb].get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            body = {name: value(own) for name, own in schema.get("properties", {}).items()
                    if name in schema.get("required", [])}
            status, answer = own.ask(verb.upper(), sample(path), body, user="monitor")
            assert status in (400, 401, 404), f"{verb} {path}: {status} {answer}"
            asked += 1
    assert asked > 50, asked
    equal(own.ask("GET", "/definitions")[1], before)


def value(schema):
    kinds = {"string": "x", "integer": 1, "boolean": True, "object": {}, "array": []}
    return schema.get("enum", [kinds.get(schema.get("type"), "x")])[0]


@suite.case("hostile", "bodies over the limit, that are no JSON or no UTF-8, and paths that are none",
            "413, 400, 400, 400 or 404; the broker serves on")
def hostile():
    own = api()
    equal(own.status("PUT", "/queues/v/large", b" " * (BODY_BYTES_MAX + 1)), 413)
    for body in (b"{", b"[]", b"nonsense", b'{"durable": tru', b'{"a":"\xff"}', b"\xfe\xff", b"[" * 50_000):
        equal(own.status("PUT", "/queues/v/bad", body), 400, repr(body[:20]))
    for path in ("/queues/v/%", "/queues/v/%ff", "/queues/%zz", "/queues?name=%ff"):
        equal(own.status("GET", path), 400, path)
    for path in ("/../../etc/passwd", "/./overview", "//overview", "/queues/v/..", "/queues/%00/x"):
        assert own.status("GET", path) in (400, 404), path
    equal(own.status("GET", "/overview"), 200)


@suite.case("names", "names with markup, with ways out of a folder, and with every odd character",
            "they are names: declared, shown as they are in JSON, deleted")
def names():
    own = api()
    for name in ("<script>alert(1)</script>", "../../etc/passwd", "..", "a/b", 'quo"te\\', "nul\x01", "é✓", "%2F", " "):
        quoted = "".join(f"%{byte:02X}" for byte in name.encode())
        equal(own.status("PUT", f"/queues/v/{quoted}", {"durable": True}), 201, name)
        status, shown = own.ask("GET", f"/queues/v/{quoted}")
        equal((status, shown["name"]), (200, name))
        assert name in [queue["name"] for queue in own.ask("GET", "/queues/v")[1]], name
        equal(own.status("DELETE", f"/queues/v/{quoted}"), 204, name)


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default="", help="path of a leveret binary"))
