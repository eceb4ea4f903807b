"""Compares the shapes of the management HTTP API's answers: `python -m suites.management_shapes THEIRS OURS`.

Both are base URIs with user and password (`http://guest:guest@127.0.0.1:15672`). Makes one of each kind of object in a virtual
host of its own, asks both for the same paths, and says which keys only one of them has, and which differ in type. Ends with 1
where ours has a type of its own or a key that RabbitMQ does not have and that is not named here.
"""

import base64
import json
import sys
import time
import urllib.parse
from http.client import HTTPConnection

VHOST = f"shapes-{time.time_ns():x}"
MAKE = [
    ("PUT", f"/vhosts/{VHOST}", {"description": "d", "tags": "a"}),
    ("PUT", f"/queues/{VHOST}/c", {"durable": True}),
    ("PUT", f"/queues/{VHOST}/q", {"durable": True, "arguments": {"x-queue-type": "quorum"}}),
    ("PUT", f"/queues/{VHOST}/s", {"durable": True, "arguments": {"x-queue-type": "stream"}}),
    ("PUT", f"/exchanges/{VHOST}/x", {"type": "topic", "durable": True}),
    ("POST", f"/bindings/{VHOST}/e/x/q/c", {"routing_key": "k"}),
    ("PUT", f"/policies/{VHOST}/p", {"pattern": "c", "definition": {"max-length": 5}}),
    ("PUT", f"/operator-policies/{VHOST}/o", {"pattern": "c", "definition": {"max-length": 5}}),
    ("PUT", f"/vhost-limits/{VHOST}/max-queues", {"value": 9}),
    ("PUT", f"/users/{VHOST}", {"password": "p", "tags": "management"}),
    ("PUT", f"/permissions/{VHOST}/{VHOST}", {"configure": "", "write": "", "read": ""}),
    ("PUT", f"/topic-permissions/{VHOST}/{VHOST}", {"exchange": "amq.topic", "write": "", "read": ""}),
    ("PUT", f"/user-limits/{VHOST}/max-channels", {"value": 9}),
]
PATHS = [
    "/overview", "/whoami", "/nodes", "/cluster-name", "/vhosts", f"/vhosts/{VHOST}", f"/users/{VHOST}", "/permissions",
    f"/topic-permissions/{VHOST}/{VHOST}", f"/queues/{VHOST}/c", f"/queues/{VHOST}/q", f"/queues/{VHOST}/s",
    f"/queues/{VHOST}?page=1", f"/exchanges/{VHOST}", f"/exchanges/{VHOST}/x", f"/bindings/{VHOST}", f"/policies/{VHOST}",
    f"/operator-policies/{VHOST}", f"/parameters/vhost-limits/{VHOST}", "/global-parameters", f"/vhost-limits/{VHOST}",
    f"/user-limits/{VHOST}", f"/definitions/{VHOST}", "/definitions", "/feature-flags", "/deprecated-features",
    "/health/checks/alarms", "/health/checks/protocol-listener/amqp",
]
# Keys of ours that RabbitMQ does not have, and why that does no harm: clients pass over what they do not know.
BEYOND = {"platform", "platform_version", "messages_delayed"}


def ask(base, method, path, body=None):
    parts = urllib.parse.urlsplit(base)
    pair = f"{parts.username or 'guest'}:{parts.password or 'guest'}"
    head = {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode(), "Content-Type": "application/json"}
    connection = HTTPConnection(parts.hostname, parts.port, timeout=20)
    connection.request(method, "/api" + path, None if body is None else json.dumps(body), head)
    response = connection.getresponse()
    data = response.read()
    connection.close()
    if response.status >= 300:
        raise SystemExit(f"{method} {path}: {response.status} {data[:200]}")
    return json.loads(data) if data else None


def shape(value, path, into):
    """Types by path; what is in a list has one path."""
    into.setdefault(path, set()).add(type(value).__name__)
    if isinstance(value, dict):
        for key, field in value.items():
            # Names of nodes are as they like.
            shape(field, f"{path}.{'NODE' if '@' in key else key}", into)
    elif isinstance(value, list):
        for item in value:
            shape(item, path + "[]", into)
    return into


def differences(theirs, ours, known):
    """Lines for people, and how many of them are faults. `known`: keys that RabbitMQ has somewhere; some come to one of its
    answers only after a while."""
    lines, faults = [], 0
    numbers = {"int", "float"}
    for path in sorted(theirs.keys() | ours.keys()):
        if path not in ours:
            if path.rsplit(".", 1)[0] in ours:
                lines.append(f"  not here: {path}")
        elif path not in theirs:
            key = path.rsplit(".", 1)[-1].removesuffix("[]")
            if path.rsplit(".", 1)[0].removesuffix("[]") in theirs and key not in known | BEYOND and not path.endswith("[]"):
                lines.append(f"  only here: {path}")
                faults += 1
        elif not ours[path] <= theirs[path] | {"NoneType"} and not ours[path] | theirs[path] <= numbers:
            lines.append(f"  another type: {path}: {sorted(ours[path])} instead of {sorted(theirs[path])}")
            faults += 1
    return lines, faults


def main():
    bases = sys.argv[1:3]
    faults, known = 0, set()
    try:
        for base in bases:
            for words in MAKE:
                ask(base, *words)
        time.sleep(6)
        for path in PATHS:
            theirs, ours = (shape(ask(base, "GET", path), "", {}) for base in bases)
            known |= {part.rsplit(".", 1)[-1] for part in theirs}
            lines, count = differences(theirs, ours, known)
            faults += count
            if lines:
                print(path.replace(VHOST, "VHOST"), *lines, sep="\n")
    finally:
        for base in bases:
            for path in (f"/vhosts/{VHOST}", f"/users/{VHOST}"):
                try:
                    ask(base, "DELETE", path)
                except SystemExit:
                    pass
    print(f"{faults} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
