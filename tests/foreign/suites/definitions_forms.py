"""Definitions files in the forms of RabbitMQ 3.5 to 4.3 and of what exports for it, and what RabbitMQ makes of each.

`python -m suites.definitions_forms ADMIN` asks a RabbitMQ at the base URI of its HTTP API, whose plugins for shovels and federation are
on, and keeps the answers in `definitions_forms.json`. Each case is imported into a broker without the virtual hosts and users of
those before: a name, and what is imported. What is kept of it: status and reason, what is exported afterwards, who can log in.
"""

import base64
import hashlib
import json
import os
import sys
import urllib.parse
from http.client import HTTPConnection

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "definitions_forms.json")
VHOST = "forms"
LISTS = ("users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters", "policies", "queues",
         "exchanges", "bindings")


def hashed(password, algorithm, salt=b"\x01\x02\x03\x04"):
    return base64.b64encode(salt + hashlib.new(algorithm, salt + password.encode()).digest()).decode()


def file(**lists):
    return {"vhosts": [{"name": VHOST}], **lists}


def user(name, tags="management", **more):
    return {"name": "forms-" + name, "tags": tags, **more}


def queue(name, **more):
    return {"name": name, "vhost": VHOST, "durable": True, "auto_delete": False, "arguments": {}, **more}


def exchange(name, **more):
    return {"name": name, "vhost": VHOST, "type": "topic", "durable": True, "auto_delete": False, "internal": False, "arguments": {}, **more}


def binding(source, destination, **more):
    return {"source": source, "vhost": VHOST, "destination": destination, "destination_type": "queue", "routing_key": "k", "arguments": {},
            **more}


def policy(definition, **more):
    return {"vhost": VHOST, "name": "p", "pattern": "^q", "apply-to": "queues", "definition": definition, "priority": 0, **more}


def parameter(component, name, value, **more):
    return {"component": component, "vhost": VHOST, "name": name, "value": value, **more}


def permission(who, **more):
    return {"user": who, "vhost": VHOST, "configure": ".*", "write": ".*", "read": ".*", **more}


def argument(name, value, **more):
    return file(queues=[queue("q", arguments={name: value}, **more)])


SHOVEL = {"src-protocol": "amqp091", "src-uri": "amqp://u:p@host.example", "src-queue": "a", "dest-protocol": "amqp091",
          "dest-uri": "amqp://", "dest-queue": "b", "ack-mode": "on-confirm"}
OLD_SHOVEL = {"src-uri": "amqp://host.example", "src-queue": "a", "dest-uri": "amqp://", "dest-exchange": "x", "dest-exchange-key": "k",
              "add-forward-headers": False, "ack-mode": "on-confirm", "delete-after": "never"}
UPSTREAM = {"uri": "amqp://u:p@host.example", "ack-mode": "on-confirm", "trust-user-id": False, "exchange": "x", "max-hops": 1}

POLICIES = {
    "ha-mode": {"ha-mode": "all"},
    "ha-mode exactly": {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"},
    "ha-mode nodes": {"ha-mode": "nodes", "ha-params": ["rabbit@a"], "ha-promote-on-shutdown": "always", "ha-promote-on-failure": "always",
                      "ha-sync-batch-size": 1},
    "ha-mode and max-length": {"ha-mode": "all", "max-length": 5},
    "queue-master-locator": {"queue-master-locator": "min-masters"},
    "queue-leader-locator": {"queue-leader-locator": "balanced"},
    "queue-mode": {"queue-mode": "lazy"},
    "queue-version 1": {"queue-version": 1},
    "queue-version 2": {"queue-version": 2},
    "shards": {"shards-per-node": 2, "routing-key": "1"},
    "max-lenght": {"max-lenght": 5},
    "federation-upstream-set": {"federation-upstream-set": "all"},
    "federation-upstream": {"federation-upstream": "up", "max-length": 9},
    "federation-upstream-pattern": {"federation-upstream-pattern": "^up"},
    "federation-upstream of a number": {"federation-upstream": 5},
    "federation and ha": {"federation-upstream-set": "all", "ha-mode": "all"},
    "all that may be of a quorum queue": {"delivery-limit": 5, "dead-letter-strategy": "at-least-once", "dead-letter-exchange": "d",
                                          "overflow": "reject-publish", "max-in-memory-length": 5, "target-group-size": 3},
}
PATTERNS = {
    "ahead": r"^(?!amq\.).*", "ahead, positive": "^(?=q).*", "behind": r"^(.*(?<![E|e]rror))?$", "behind, positive": "(?<=q)1", "back": r"^(q)\1$",
    "named back": r"^(?<a>q)\k<a>", "python's named": "(?P<a>q)(?P=a)", "atomic": "^(?>q+)1", "possessive": "^q++1", "possessive star": "^q*+1",
    "condition": "^(q)?(?(1)1|2)", "recursion": r"^(q(?1)?1)$", "comment": "q(?#all)1", "posix": "^[[:alpha:]]+[[:digit:]]$", "reset": r"q\K1",
    "letters": r"^\p{L}\d$", "horizontal": r"^q\h?1", "not newline": r"^q\N", "ends": r"\Aq1\z", "end before a line": r"q1\Z", "quoted": r"^\Qq\E1",
    "flags": "(?i)^Q1", "inline flags": "^(?i:Q)1", "extended": "(?x) ^ q 1", "lazy": "^q.*?1", "hexadecimal": r"^\x71", "octal": r"^\161",
    "unicode": r"^\x{71}", "class of digits": r"^[\w-]+$", "open": "q(", "nothing to repeat": "*", "open class": "[q", "back to none": r"q\2",
    "brace alone": "q{", "brace of letters": "q{a}", "behind, of any length": "(?<=q*)1", "verb": "q(*FAIL)", "branch reset": "(?|(q)|(r))1", "R": r"q\R?1",
    "nested": "^((q+)+)+x$", "behind, of lengths": "(?<=a|xq)1|(?<=^q)1", "behind, bounded": "(?<=q{1,2})1", "not ahead at the end": "^q1(?!.)", "escaped letter": r"^\q",
    "relative back": r"^(q)\g{-1}?1", "braced back": r"^(q)\g{1}?1", "group by quotes": "^(?'n'q)1", "called by name": "^(?<n>q)(?&n)?1", "class with bracket": "^[[q]1",
    "class that begins with a bracket": "^[]q]1", "class of classes": r"^[^\W\d_]\d$", "range of letters": "^[a-z][0-9]$", "vertical": r"^q\v?1", "long": "^" + "q?" * 200 + "1$",
    "unset": r"^(a)?q\1?1", "unicode name": "^é", "dot all": "(?s)^q.$", "multi line": "(?m)^q1$", "ungreedy": "(?U)^q.*1", "start of word": r"\<q", "b": r"\bq1\b", "escaped dash": r"^q\-?1", "callout": "q(?C1)1", "long repeat": "q{0,70000}", "empty": "",
    "null": "^$", "dollar": "1$", "anchored G": r"\Gq",
}

CASES = {
    "nothing": {},
    "text": "hello", "list": [1, 2], "number": 5, "null": None,
    # -- users
    "hashes": file(users=[
        user("md5", password_hash=hashed("a-md5", "md5"), hashing_algorithm="rabbit_password_hashing_md5"),
        user("sha256", password_hash=hashed("a-sha256", "sha256"), hashing_algorithm="rabbit_password_hashing_sha256"),
        user("sha512", password_hash=hashed("a-sha512", "sha512"), hashing_algorithm="rabbit_password_hashing_sha512"),
        user("unnamed", password_hash=hashed("a-unnamed", "sha256")),
        user("clear", password="a-clear"),
        user("empty", password_hash="", hashing_algorithm="rabbit_password_hashing_sha256"),
        user("blank", password="")]),
    "an MD5 hash without an algorithm": file(users=[user("md5", password_hash=hashed("a-md5", "md5"))]),
    "a SHA-512 hash without an algorithm": file(users=[user("sha512", password_hash=hashed("a-sha512", "sha512"))]),
    "a SHA-256 hash called MD5": file(users=[user("md5", password_hash=hashed("a-md5", "sha256"), hashing_algorithm="rabbit_password_hashing_md5")]),
    "an MD5 hash called SHA-512": file(users=[user("md5", password_hash=hashed("a-md5", "md5"), hashing_algorithm="rabbit_password_hashing_sha512")]),
    "an algorithm that is not": file(users=[user("odd", password_hash=hashed("a", "sha1"), hashing_algorithm="rabbit_password_hashing_sha1")]),
    "an algorithm of elsewhere": file(users=[user("odd", password_hash=hashed("a", "sha256"), hashing_algorithm="SHA256")]),
    "a hash of bcrypt": file(users=[user("odd", password_hash="$2b$10$abcdefghijklmnopqrstuv", hashing_algorithm="Bcrypt")]),
    "no base64": file(users=[user("odd", password_hash="%%%")]),
    "base64 of three bytes": file(users=[user("odd", password_hash="AQID")]),
    "base64 without its end": file(users=[user("odd", password_hash=hashed("a", "md5").rstrip("="), hashing_algorithm="rabbit_password_hashing_md5")]),
    "base64 of other lines": file(users=[user("odd", password_hash=hashed("a", "sha256")[:20] + "\n" + hashed("a", "sha256")[20:])]),
    "a user with neither": file(users=[user("odd")]),
    "a user with both": file(users=[user("odd", password="a", password_hash=hashed("a", "sha256"))]),
    "a user whose password is null": file(users=[user("odd", password=None)]),
    "a user without tags": file(users=[{"name": "forms-odd", "password": "a"}]),
    "tags": file(users=[user("one", "administrator, monitoring ,own-tag", password="a"), user("two", ["management", "x"], password="a"), user("three", "", password="a"),
                        user("four", [], password="a"), user("five", "a,,b,", password="a")]),
    "tags of a number": file(users=[user("odd", 5, password="a")]),
    "limits of users": file(users=[user("l", password="a", limits={"max-connections": 5, "max-channels": -1}), user("none", password="a", limits={}), user("old", password="a", limits=[])]),
    "limits of users that are not": file(users=[user("l", password="a", limits={"max-cats": 5})]),
    "a user twice": file(users=[user("l", password="a"), user("l", password="b")]),
    "a user whose name is a number": file(users=[{"name": 5, "password": "a", "tags": ""}]),
    # -- virtual hosts and permissions
    "metadata": {"vhosts": [{"name": VHOST, "description": "x", "tags": ["a", "b"], "default_queue_type": "quorum", "tracing": False}]},
    "metadata inside": {"vhosts": [{"name": VHOST, "limits": [], "metadata": {"description": "x", "tags": ["a"], "default_queue_type": "classic"}}]},
    "a default type that is undefined": {"vhosts": [{"name": VHOST, "limits": [], "metadata": {"description": "x", "tags": [], "default_queue_type": "undefined"}}]},
    "a default type by its module": {"vhosts": [{"name": VHOST, "metadata": {"default_queue_type": "rabbit_quorum_queue"}}]},
    "a default type that is none": {"vhosts": [{"name": VHOST, "metadata": {"default_queue_type": "heap"}}]},
    "limits of a virtual host": {"vhosts": [{"name": VHOST, "limits": {"max-queues": 5, "max-connections": -1}}]},
    "limits of a virtual host as an old list": {"vhosts": [{"name": VHOST, "limits": [{"name": "max-queues", "value": 5}]}]},
    "protected from deletion": {"vhosts": [{"name": VHOST, "metadata": {"protected_from_deletion": True}}]},
    "permissions of nobody": file(permissions=[permission("forms-nobody")]),
    "permissions nowhere": file(users=[user("u", password="a")], permissions=[permission("forms-u", vhost="forms-none")]),
    "a permission without read": file(users=[user("u", password="a")], permissions=[{"user": "forms-u", "vhost": VHOST, "configure": "", "write": ""}]),
    "a permission that is no pattern": file(users=[user("u", password="a")], permissions=[permission("forms-u", read="(")]),
    "permissions that look ahead": file(users=[user("u", password="a")], permissions=[permission("forms-u", configure=r"^(?!secret).*", write=r"(?<!x)$", read=r"^(a)\1")]),
    "permissions of guest": file(permissions=[permission("guest")]),
    "topic permissions": file(users=[user("u", password="a")], permissions=[permission("forms-u")],
                              topic_permissions=[{"user": "forms-u", "vhost": VHOST, "exchange": "amq.topic", "write": "^(?!a)", "read": "^{username}"}]),
    "topic permissions of no exchange": file(users=[user("u", password="a")], topic_permissions=[{"user": "forms-u", "vhost": VHOST, "exchange": "none", "write": "", "read": ""}]),
    "topic permissions of nobody": file(topic_permissions=[{"user": "forms-nobody", "vhost": VHOST, "exchange": "amq.topic", "write": "", "read": ""}]),
    # -- queues
    "queue bare": file(queues=[{"name": "q", "vhost": VHOST}]),
    "queue durable alone": file(queues=[{"name": "q", "vhost": VHOST, "durable": True}]),
    "queue typed beside": file(queues=[queue("q", type="quorum")]),
    "queue typed twice": file(queues=[queue("q", type="quorum", arguments={"x-queue-type": "quorum", "x-delivery-limit": 10})]),
    "queue typed differently": file(queues=[queue("q", type="classic", arguments={"x-queue-type": "quorum"})]),
    "queue typed by a module": file(queues=[queue("q", type="rabbit_quorum_queue")]),
    "queue typed classic beside": file(queues=[queue("q", type="classic")]),
    "queue typed by a module inside": argument("x-queue-type", "rabbit_quorum_queue"),
    "queue typed stream by its module": argument("x-queue-type", "rabbit_stream_queue"),
    "queue typed classic by its module": argument("x-queue-type", "rabbit_classic_queue"),
    "queue typed undefined": argument("x-queue-type", "undefined"),
    "queue typed otherwise": argument("x-queue-type", "heap"),
    "queue typed delayed": argument("x-queue-type", "delayed"),
    "queue of an exclusive owner": file(queues=[queue("q", exclusive=True, durable=False)]),
    "queue transient": file(queues=[queue("q", durable=False)]),
    "queue transient and gone by itself": file(queues=[queue("q", durable=False, auto_delete=True)]),
    "queue quorum and transient": file(queues=[queue("q", durable=False, arguments={"x-queue-type": "quorum"})]),
    "queue quorum and gone by itself": file(queues=[queue("q", auto_delete=True, arguments={"x-queue-type": "quorum"})]),
    "queue texts for booleans": file(queues=[queue("q", durable="true", auto_delete="false")]),
    "queue other texts for booleans": file(queues=[queue("q", durable="yes")]),
    "queue arguments as a list": file(queues=[queue("q", arguments=[])]),
    "queue arguments as a text": file(queues=[queue("q", arguments="x")]),
    "queue arguments null": file(queues=[queue("q", arguments=None)]),
    "queue x-queue-version 1": argument("x-queue-version", 1),
    "queue x-queue-version 2": argument("x-queue-version", 2),
    "queue x-queue-version 3": argument("x-queue-version", 3),
    "queue x-queue-mode": argument("x-queue-mode", "lazy"),
    "queue x-queue-mode of nothing": argument("x-queue-mode", "eager"),
    "queue x-queue-mode on quorum": file(queues=[queue("q", arguments={"x-queue-type": "quorum", "x-queue-mode": "lazy"})]),
    "queue x-queue-master-locator": argument("x-queue-master-locator", "min-masters"),
    "queue x-queue-leader-locator": argument("x-queue-leader-locator", "client-local"),
    "queue x-ha-policy": argument("x-ha-policy", "all"),
    "queue x-quorum-initial-group-size": file(queues=[queue("q", arguments={"x-queue-type": "quorum", "x-quorum-initial-group-size": 3})]),
    "queue x-max-in-memory-length": file(queues=[queue("q", arguments={"x-queue-type": "quorum", "x-max-in-memory-length": 3})]),
    "queue x-message-ttl as a text": argument("x-message-ttl", "5000"),
    "queue x-message-ttl below 0": argument("x-message-ttl", -5),
    "queue x-max-priority 256": argument("x-max-priority", 256),
    "queue x-dead-letter": file(queues=[queue("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-expires": 60000, "x-overflow": "reject-publish-dlx"})]),
    "queue x-own": argument("x-own-word", {"a": [1, "b", None, 2.5]}),
    "queue amq.gen": file(queues=[queue("amq.gen-abcdef"), queue("amq.mine"), queue("q")]),
    "queue amq.gen with a binding": file(queues=[queue("amq.gen-abcdef"), queue("q")],
                                         bindings=[binding("amq.direct", "q"), binding("amq.direct", "amq.gen-abcdef")]),
    "queue nowhere": file(queues=[queue("q", vhost="forms-none")]),
    "queue of no name": file(queues=[queue("")]),
    "queue of a long name": file(queues=[queue("q" * 256)]),
    "queue of a number": file(queues=[queue(5)]),
    "queue without a name": file(queues=[{"vhost": VHOST, "durable": True}]),
    "queue without a virtual host": file(queues=[{"name": "q", "durable": True}]),
    "queues as an object": file(queues={"a": {}}),
    "queues as numbers": file(queues=[1]),
    "queues null": file(queues=None),
    "queue of unknown keys": file(queues=[queue("q", node="rabbit@a", policy="ha", state="running", messages=5)], more=[1]),
    # -- exchanges and bindings
    "exchange types": file(exchanges=[exchange(kind, type=kind) for kind in ("direct", "fanout", "topic", "headers")]),
    "exchange types of plugins": file(exchanges=[exchange(kind, type=kind) for kind in ("x-consistent-hash", "x-random", "x-recent-history")]),
    "exchange of an unknown type": file(exchanges=[exchange("e", type="x-jms-topic")]),
    "exchange of a type in capitals": file(exchanges=[exchange("e", type="TOPIC")]),
    "exchange without a type": file(exchanges=[{"name": "e", "vhost": VHOST, "durable": True}]),
    "exchange bare": file(exchanges=[{"name": "e", "vhost": VHOST, "type": "fanout"}]),
    "exchange amq.": file(exchanges=[exchange("amq.topic"), exchange("amq.mine", type="fanout"), exchange("amq.rabbitmq.log"), exchange("amq.direct", type="fanout"), exchange("e")]),
    "exchange of no name": file(exchanges=[exchange("", type="direct")]),
    "exchange internal": file(exchanges=[exchange("e", internal=True)]),
    "exchange alternate": file(exchanges=[exchange("e", arguments={"alternate-exchange": "none"})]),
    "exchange of a long name": file(exchanges=[exchange("e" * 256)]),
    "binding": file(queues=[queue("q")], exchanges=[exchange("e")], bindings=[binding("e", "q"), binding("amq.topic", "q"), binding("e", "amq.fanout", destination_type="exchange")]),
    "binding to no queue": file(bindings=[binding("amq.direct", "q-gone")]),
    "binding from no exchange": file(queues=[queue("q")], bindings=[binding("e-gone", "q")]),
    "binding of the default exchange": file(queues=[queue("q")], bindings=[binding("", "q", routing_key="q")]),
    "binding of the log": file(queues=[queue("q")], bindings=[binding("amq.rabbitmq.log", "q")]),
    "binding of the default exchange to no queue": file(bindings=[binding("", "q-gone", routing_key="q")]),
    "binding of another kind": file(queues=[queue("q")], bindings=[binding("amq.direct", "q", destination_type="stream")]),
    "binding without arguments": file(queues=[queue("q")], bindings=[{"source": "amq.direct", "vhost": VHOST, "destination": "q", "destination_type": "queue", "routing_key": "k"}]),
    "binding without a key": file(queues=[queue("q")], bindings=[{"source": "amq.direct", "vhost": VHOST, "destination": "q", "destination_type": "queue"}]),
    "binding with properties_key": file(queues=[queue("q")], bindings=[binding("amq.direct", "q", properties_key="k")]),
    "binding by headers": file(queues=[queue("q")], bindings=[binding("amq.headers", "q", arguments={"x-match": "all", "n": 5, "t": "5"})]),
    "binding by headers of no match": file(queues=[queue("q")], bindings=[binding("amq.headers", "q", arguments={"x-match": "some"})]),
    # -- parameters
    "shovel": file(parameters=[parameter("shovel", "move", SHOVEL)]),
    "shovel of before 3.7": file(parameters=[parameter("shovel", "move", OLD_SHOVEL)]),
    "shovel that says too little": file(parameters=[parameter("shovel", "move", {"src-uri": "amqp://"})]),
    "shovel of a number": file(parameters=[parameter("shovel", "move", 5)]),
    "upstream": file(parameters=[parameter("federation-upstream", "up", UPSTREAM)]),
    "upstream of nothing": file(parameters=[parameter("federation-upstream", "up", {})]),
    "upstream set": file(parameters=[parameter("federation-upstream", "up", UPSTREAM), parameter("federation-upstream-set", "ups", [{"upstream": "up"}])]),
    "upstream set all": file(parameters=[parameter("federation-upstream-set", "all", [{"upstream": "up"}])]),
    "parameter of nobody": file(parameters=[parameter("somebody", "p", {"a": 1})]),
    "parameter of an operator": file(parameters=[parameter("operator_policy", "o", {"pattern": "^q", "definition": {"max-length": 9}, "priority": 0, "apply-to": "queues"})]),
    "parameter of an operator, wrong": file(parameters=[parameter("operator_policy", "o", {"pattern": "^q", "definition": {"queue-mode": "lazy"}, "priority": 0})]),
    "parameter of limits": file(parameters=[parameter("vhost-limits", "limits", {"max-queues": 1000})]),
    "parameter nowhere": file(parameters=[parameter("shovel", "move", SHOVEL, vhost="forms-none")]),
    "parameter that is a policy": file(parameters=[parameter("policy", "p", {"pattern": "", "definition": {"max-length": 9}, "priority": 0})]),
    "global parameters": {"global_parameters": [{"name": "forms-mqtt_default_vhosts", "value": {"CN=x": "/"}}, {"name": "forms-text", "value": "t"},
                                                {"name": "forms-list", "value": [1, {"a": None}]}, {"name": "forms-empty", "value": []}]},
    "global parameter without a value": {"global_parameters": [{"name": "forms-none"}]},
    # -- policies
    **{f"policy {name}": file(policies=[policy(definition)]) for name, definition in POLICIES.items()},
    **{f"pattern {name}": file(queues=[queue("q1"), queue("other")], policies=[policy({"max-length": 7}, pattern=pattern)]) for name, pattern in PATTERNS.items()},
    "policy bare": file(policies=[{"vhost": VHOST, "name": "p", "pattern": "", "definition": {"max-length": 5}}]),
    "policy with a text for its priority": file(policies=[policy({"max-length": 5}, priority="3")]),
    "policy of applying to nothing": file(policies=[policy({"max-length": 5}, **{"apply-to": "cats"})]),
    "policy without a definition": file(policies=[{"vhost": VHOST, "name": "p", "pattern": ""}]),
    "policy of an empty definition": file(policies=[policy({})]),
    "policy nowhere": file(policies=[policy({"max-length": 5}, vhost="forms-none")]),
    # -- several
    "two that are wrong": file(policies=[policy({"max-lenght": 5}), policy({"ha-mode": "all"}, name="p2")], queues=[queue("q", arguments={"x-message-ttl": -5})],
                               bindings=[binding("amq.direct", "q-gone")]),
    "what is good behind what is wrong": file(queues=[queue("q-bad", arguments={"x-message-ttl": -5}), queue("q-good")]),
    "a part of one virtual host": {"rabbit_version": "4.3.6", "queues": [{"name": "q", "durable": True, "auto_delete": False, "arguments": {}}], "exchanges": [],
                                   "bindings": [], "policies": [], "parameters": []},
}

# Whole files, as each of these programs writes them or its documents have them written by hand.
HEAD = {"rabbit_version": "3.8.34", "rabbitmq_version": "3.8.34", "product_name": "RabbitMQ", "product_version": "3.8.34"}
SHA = {"hashing_algorithm": "rabbit_password_hashing_sha256"}
MD5 = {"hashing_algorithm": "rabbit_password_hashing_md5"}
CASES |= {
    "file of 3.5, by the interface": {
        "rabbit_version": "3.5.7", "vhosts": [{"name": VHOST}],
        "users": [user("md5", "administrator", password_hash=hashed("a-md5", "md5"), **MD5)],
        "permissions": [permission("forms-md5")], "parameters": [], "policies": [],
        "queues": [{"name": "q", "vhost": VHOST, "durable": True, "auto_delete": False, "arguments": {"x-expires": 60000}}],
        "exchanges": [exchange("e", type="direct")], "bindings": [binding("e", "q")]},
    "file of 3.6, with a policy of old": {
        "rabbit_version": "3.6.16", "users": [user("sha256", "administrator", password_hash=hashed("a-sha256", "sha256"), **SHA)], "vhosts": [{"name": VHOST}],
        "permissions": [permission("forms-sha256")], "topic_permissions": [], "parameters": [parameter("vhost-limits", "limits", {"max-connections": 100})],
        "global_parameters": [{"name": "forms-cluster", "value": "rabbit@old"}],
        "policies": [policy({"max-length": 5, "queue-mode": "lazy"}, name="lazy", pattern="", priority=1)],
        "queues": [queue("q", arguments={"x-queue-mode": "lazy"})], "exchanges": [], "bindings": []},
    "file of 3.8": {
        **HEAD, "users": [user("sha512", "", password_hash=hashed("a-sha512", "sha512"), hashing_algorithm="rabbit_password_hashing_sha512", limits={})],
        "vhosts": [{"name": VHOST}], "permissions": [permission("forms-sha512", configure="", write="^out$", read="^in$")],
        "topic_permissions": [{"user": "forms-sha512", "vhost": VHOST, "exchange": "amq.topic", "write": "^a", "read": ".*"}],
        "parameters": [], "global_parameters": [], "policies": [],
        "queues": [queue("in", type="classic", arguments={"x-queue-type": "classic"}), queue("out", type="quorum", arguments={"x-queue-type": "quorum"}),
                   queue("log", type="stream", arguments={"x-queue-type": "stream", "x-max-length-bytes": 1000000, "x-max-age": "7D"})],
        "exchanges": [exchange("e", arguments={"alternate-exchange": "amq.fanout"})],
        "bindings": [binding("e", "in", routing_key="a.*"), binding("e", "out", routing_key="#", arguments={}), binding("amq.headers", "in", arguments={"x-match": "any", "k": "v"})]},
    "file of 3.12": {
        **HEAD, "rabbit_version": "3.12.14", "users": [user("sha256", ["management"], password_hash=hashed("a-sha256", "sha256"), limits={"max-channels": 50}, **SHA)],
        "vhosts": [{"name": VHOST, "description": "of 3.12", "tags": ["a"], "limits": [], "metadata": {"description": "of 3.12", "tags": ["a"], "default_queue_type": "quorum"}}],
        "permissions": [permission("forms-sha256")], "topic_permissions": [], "parameters": [], "global_parameters": [],
        "policies": [policy({"dead-letter-exchange": "dead", "delivery-limit": 5}, name="dead", **{"apply-to": "quorum_queues"})],
        "queues": [queue("q", arguments={"x-queue-type": "quorum", "x-single-active-consumer": True}), queue("t", durable=False, auto_delete=True, arguments={"x-queue-type": "classic"})],
        "exchanges": [exchange("dead", type="fanout")], "bindings": [binding("dead", "q", routing_key="")]},
    "file of 4.3": {
        "explanation": "Definitions of cluster 'rabbit@a'", "original_cluster_name": "rabbit@a", "product_name": "RabbitMQ", "product_version": "4.3.6", "rabbit_version": "4.3.6",
        "rabbitmq_definition_format": "cluster", "rabbitmq_version": "4.3.6", "users": [user("sha256", ["administrator"], password_hash=hashed("a-sha256", "sha256"), limits={}, **SHA)],
        "vhosts": [{"name": VHOST, "limits": {}, "metadata": {"description": "", "tags": [], "default_queue_type": "classic"}}],
        "permissions": [permission("forms-sha256")], "topic_permissions": [], "global_parameters": [{"name": "forms-tags", "value": [{"a": "b"}]}],
        "parameters": [parameter("operator_policy", "cap", {"apply-to": "queues", "definition": {"max-length": 1000}, "pattern": ".*", "priority": 0}), parameter("shovel", "s", SHOVEL)],
        "policies": [policy({"federation-upstream-set": "all"}, name="fed", **{"apply-to": "exchanges"})],
        "queues": [queue("q", type="quorum", arguments={"x-queue-type": "quorum", "x-delayed-retry-type": "all", "x-delayed-retry-min": 100})], "exchanges": [exchange("e")],
        "bindings": [binding("e", "q")]},
    "file of a cluster operator": {
        "users": [user("clear", "administrator", password="a-clear")], "vhosts": [{"name": VHOST}], "permissions": [permission("forms-clear")],
        "policies": [policy({"max-length-bytes": 1000000, "overflow": "reject-publish"}, name="bytes", pattern=".*")],
        "queues": [{"name": "q", "vhost": VHOST, "durable": True, "auto_delete": False, "arguments": {"x-queue-type": "quorum"}}],
        "exchanges": [{"name": "e", "vhost": VHOST, "type": "topic", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}],
        "bindings": [{"source": "e", "vhost": VHOST, "destination": "q", "destination_type": "queue", "routing_key": "a.#", "arguments": {}}]},
    "file of a chart": {
        "vhosts": [{"name": VHOST}], "users": [user("clear", "administrator", password="a-clear")], "permissions": [permission("forms-clear")],
        "parameters": [parameter("vhost-limits", "limits", {"max-connections": 10, "max-queues": -1})],
        "policies": [policy({"expires": 3600000, "message-ttl": 60000}, name="ttl", pattern=r"^(?!amq\.).*")], "queues": [queue("q")], "exchanges": [], "bindings": []},
    "file of a hosted broker": {
        "rabbit_version": "3.13.7", "users": [user("sha256", "administrator", password_hash=hashed("a-sha256", "sha256"), limits={}, **SHA)],
        "vhosts": [{"name": VHOST, "tracing": False, "metadata": {"description": "", "tags": []}}], "permissions": [permission("forms-sha256")],
        "topic_permissions": [], "parameters": [parameter("federation-upstream", "up", {**UPSTREAM, "expires": 3600000, "prefetch-count": 1000, "reconnect-delay": 5})],
        "global_parameters": [{"name": "forms-internal", "value": {"a": 1}}],
        "policies": [policy({"federation-upstream": "up"}, name="fed"), policy({"max-length": 10, "overflow": "drop-head"}, name="len", pattern="^log", priority=5)],
        "queues": [queue("q", arguments={"x-queue-type": "classic", "x-queue-version": 2, "x-dead-letter-exchange": "e", "x-max-priority": 10})],
        "exchanges": [exchange("e", type="x-consistent-hash", arguments={"hash-header": "h"})], "bindings": [binding("e", "q", routing_key="10")]},
    "file of LavinMQ": {
        "rabbitmq_version": "2.0.0", "users": [user("sha256", "administrator", password_hash=hashed("a-sha256", "sha256"), **SHA)],
        "vhosts": [{"name": VHOST, "dir": "/var/lib/lavinmq/42099b4af021e53fd8fd4e056c2568d7c2e3ffa8"}], "permissions": [permission("forms-sha256")],
        "queues": [{"name": "q", "vhost": VHOST, "durable": True, "auto_delete": False, "arguments": {"x-message-deduplication": True, "x-max-length": 5}}],
        "exchanges": [{"name": "e", "vhost": VHOST, "type": "topic", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}],
        "bindings": [{"source": "e", "vhost": VHOST, "destination": "q", "destination_type": "queue", "routing_key": "k", "arguments": {}}],
        "policies": [policy({"max-length": 5}, name="p")], "parameters": []},
    "file of a deployment of OpenStack": {
        "vhosts": [{"name": VHOST}], "users": [user("clear", "administrator", password="a-clear")],
        "permissions": [permission("forms-clear")],
        "policies": [policy({"message-ttl": 600000, "expires": 3600000}, name="amqp-policy", pattern=r"^(?!(amq\.)|(.*_fanout_)|(reply_)).*")],
        "queues": [queue("nova"), queue("reply_1"), queue("scheduler_fanout_2")]},
}

# Passwords to try once a case is imported; whether RabbitMQ lets in with each is in the answers.
LOGINS = {"md5": ["a-md5"], "sha256": ["a-sha256"], "sha512": ["a-sha512"], "unnamed": ["a-unnamed"], "clear": ["a-clear"], "empty": ["", "a"], "blank": ["", "a"],
          "odd": ["a", ""]}


class Api:
    """Questions to an HTTP API, by its base URI."""

    def __init__(self, base):
        self.parts = urllib.parse.urlsplit(base)

    def ask(self, method, path, body=None, user=None, password=None, head=None):
        name, secret = (user, password) if user is not None else (self.parts.username or "guest", self.parts.password or "guest")
        heads = {"Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode(), "Content-Type": "application/json", **(head or {})}
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else None
        connection = HTTPConnection(self.parts.hostname, self.parts.port, timeout=30)
        try:
            connection.request(method, "/api" + path, data, heads)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        try:
            return response.status, json.loads(text) if text else None
        except ValueError:
            return response.status, text.decode(errors="replace")

    def clear(self):
        for path, prefix in (("/vhosts", VHOST), ("/users", "forms-"), ("/global-parameters", "forms-")):
            for row in self.ask("GET", path)[1]:
                if str(row["name"]).startswith(prefix):
                    if row.get("protected_from_deletion") or (row.get("metadata") or {}).get("protected_from_deletion"):
                        self.ask("DELETE", f"{path}/{row['name']}/deletion/protection")
                    self.ask("DELETE", f"{path}/{row['name']}")


def mine(row):
    return any(str(row.get(key, "")).startswith("forms") for key in ("name", "user", "vhost"))


def exported(api):
    found = api.ask("GET", "/definitions")[1]
    rows = {key: sorted((row for row in found[key] if mine(row)), key=lambda row: json.dumps(row, sort_keys=True)) for key in LISTS}
    for row in rows["users"]:
        if row["name"] in ("forms-clear", "forms-blank", "forms-one", "forms-two", "forms-three", "forms-four", "forms-five", "forms-l", "forms-none", "forms-old", "forms-u"):
            # Their salts are rolled.
            row.pop("password_hash")
    return {key: value for key, value in rows.items() if value}


def told(api, definitions):
    """A broker's result of a case."""
    api.clear()
    body = b"null" if definitions is None else definitions
    status, reason = api.ask("POST", "/definitions", body)
    answer = {"status": status}
    if status >= 300:
        answer["reason"] = reason.get("reason") if isinstance(reason, dict) else reason
    answer["exported"] = exported(api)
    names = [row["name"] for row in answer["exported"].get("users", ())]
    logins = {f"{name} {password}": api.ask("GET", "/whoami", user="forms-" + name, password=password)[0] == 200
              for name, all_ in LOGINS.items() if "forms-" + name in names for password in all_}
    if logins:
        answer["logins"] = logins
    matched = {row["name"]: row.get("policy") for row in api.ask("GET", f"/queues/{VHOST}?disable_stats=true")[1] if isinstance(row, dict)} if answer["exported"].get("policies") else {}
    if matched:
        answer["policy of"] = {name: policy or None for name, policy in matched.items()}
    return answer


def main():
    api = Api(sys.argv[1])
    answers = {name: told(api, case) for name, case in CASES.items()}
    api.clear()
    with open(FILE, "w", encoding="utf-8") as out:
        json.dump(answers, out, indent=1, sort_keys=True, ensure_ascii=False)
        out.write("\n")
    print({name: answer["status"] for name, answer in answers.items()})


if __name__ == "__main__":
    main()
