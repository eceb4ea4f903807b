"""Makes one of everything at a RabbitMQ and keeps what it exports: `python -m suites.definitions_record ADMIN`.

ADMIN is the base URI of its HTTP API with user and password. What it writes, `definitions_rabbitmq.json` beside it, is what the suite
`definitions` imports. Everything is made for this, and removed afterwards.
"""

import base64
import hashlib
import json
import os
import sys

from suites.management_shapes import ask

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "definitions_rabbitmq.json")
VHOST = "moved"
PASSWORDS = {"moved-sha256": "old secret 256", "moved-sha512": "old secret 512"}
SALT = b"salt"
# RabbitMQ hashes with SHA-256 unless it is told otherwise; a hash of its own it takes as it is.
USERS = {
    "moved-sha256": {"password": PASSWORDS["moved-sha256"]},
    "moved-sha512": {
        "password_hash": base64.b64encode(SALT + hashlib.sha512(SALT + PASSWORDS["moved-sha512"].encode()).digest()).decode(),
        "hashing_algorithm": "rabbit_password_hashing_sha512"},
}
MAKE = [
    ("PUT", f"/vhosts/{VHOST}", {"description": "moved from elsewhere", "tags": "a,b", "default_queue_type": "quorum"}),
    *[("PUT", f"/users/{name}", {**secret, "tags": "management,monitoring"}) for name, secret in USERS.items()],
    ("PUT", "/users/moved-nobody", {"password_hash": "", "tags": ""}),
    *[("PUT", f"/permissions/{VHOST}/{name}", {"configure": "^c", "write": ".*", "read": ".*"}) for name in USERS],
    ("PUT", "/user-limits/moved-sha256/max-connections", {"value": 7}),
    ("PUT", f"/vhost-limits/{VHOST}/max-queues", {"value": 90}),
    ("PUT", f"/queues/{VHOST}/classic", {"durable": True, "arguments": {
        "x-queue-type": "classic", "x-max-length": 5, "x-dead-letter-exchange": "", "x-message-ttl": 60000}}),
    ("PUT", f"/queues/{VHOST}/quorum", {"durable": True, "arguments": {
        "x-queue-type": "quorum", "x-delivery-limit": 4, "x-single-active-consumer": True}}),
    ("PUT", f"/queues/{VHOST}/stream", {"durable": True, "arguments": {
        "x-queue-type": "stream", "x-max-age": "5h", "x-stream-max-segment-size-bytes": 1000000}}),
    *[("PUT", f"/exchanges/{VHOST}/{kind}s", {"type": kind, "durable": True, "auto_delete": False})
      for kind in ("topic", "direct", "fanout", "headers")],
    ("PUT", f"/exchanges/{VHOST}/with", {"type": "fanout", "durable": True, "arguments": {"alternate-exchange": "fanouts"}}),
    ("POST", f"/bindings/{VHOST}/e/topics/q/classic", {"routing_key": "a.*.#"}),
    ("POST", f"/bindings/{VHOST}/e/headerss/q/quorum", {"arguments": {"x-match": "any", "n": 5, "text": "t"}}),
    ("POST", f"/bindings/{VHOST}/e/fanouts/q/stream", {}),
    ("POST", f"/bindings/{VHOST}/e/directs/e/with", {"routing_key": "k"}),
    ("PUT", f"/policies/{VHOST}/lengths", {"pattern": "^cl", "definition": {"max-length": 9, "overflow": "reject-publish"},
                                         "priority": 3, "apply-to": "classic_queues"}),
    ("PUT", f"/policies/{VHOST}/ages", {"pattern": "^st", "definition": {"max-age": "1h"}, "apply-to": "streams"}),
    ("PUT", f"/operator-policies/{VHOST}/bounds", {"pattern": "", "definition": {"max-length": 50}, "apply-to": "queues"}),
    ("PUT", f"/topic-permissions/{VHOST}/moved-sha256", {"exchange": "topics", "write": "^a", "read": "^b"}),
    ("PUT", "/global-parameters/moved", {"name": "moved", "value": {"a": [1, "b", None]}}),
]
REMOVE = [f"/vhosts/{VHOST}", *(f"/users/{name}" for name in [*USERS, "moved-nobody"]), "/global-parameters/moved"]


def mine(row):
    """It is of what was made here."""
    names = [str(row.get(key, "")) for key in ("name", "user", "vhost")]
    return any(name.startswith("moved") for name in names)


def exported(base):
    """The definitions that a broker exports, but only of objects that were made here."""
    found = ask(base, "GET", "/definitions")
    return {key: [row for row in value if mine(row)] if isinstance(value, list) else value for key, value in found.items()}


def remove(base):
    for path in REMOVE:
        try:
            ask(base, "DELETE", path)
        except SystemExit:
            pass


def main():
    base = sys.argv[1]
    remove(base)
    try:
        for words in MAKE:
            ask(base, *words)
        found = exported(base)
    finally:
        remove(base)
    with open(FILE, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1, sort_keys=True)
        file.write("\n")
    print({key: len(value) for key, value in found.items() if isinstance(value, list)})


if __name__ == "__main__":
    main()
