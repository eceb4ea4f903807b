"""The management HTTP API over Python's own HTTP; `python -m suites.management_suite --uri URI --broker BINARY`.

Starts a broker of its own (--broker), or asks the one at --admin. Shapes are compared by `management_shapes.py`.
"""

import atexit
import base64
import json
import re
import time
import urllib.parse
from http.client import HTTPConnection

import pika
from lab.broker import Broker
from lab.cases import Skip, Suite, equal, eventually
from suites import (
    management_beyond,
    management_counters,
    management_held,
    management_lists,
    management_many,
    management_pages,
    management_past,
    management_sessions,
    management_trail,
    management_users,
    management_windows,
)

suite = Suite("management")
_found = []
HTTP = re.compile(rb"started HTTP listener on \S*?:(\d+)")
METRICS = re.compile(rb"started Prometheus listener on \S*?:(\d+)")
STAMP = f"{time.time_ns():x}"


class Api:
    """Requests to one broker."""

    # The port of its metrics, where nobody else uses the broker.
    metrics = None

    def __init__(self, host, port, uri):
        self.host, self.port, self.uri = host, port, uri

    def ask(self, method, path, body=None, user="guest", password=None, headers=()):
        """Status, headers and what the body is in JSON."""
        connection = HTTPConnection(self.host, self.port, timeout=20)
        try:
            head = {"Content-Type": "application/json"} | dict(headers)
            if user:
                pair = f"{user}:{user if password is None else password}"
                head["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
            text = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
            connection.request(method, "/api" + path, text, head)
            response = connection.getresponse()
            data = response.read()
            try:
                value = json.loads(data) if data else None
            except ValueError:
                value = data
            return response.status, dict((name.lower(), text) for name, text in response.getheaders()), value
        finally:
            connection.close()

    def status(self, *words, **options):
        return self.ask(*words, **options)[0]

    def get(self, path, **options):
        status, _, value = self.ask("GET", path, **options)
        equal(status, 200, path)
        return value


def api():
    if not _found:
        if suite.options.broker:
            broker = Broker(suite.options.broker, ["management.tcp.ip=127.0.0.1", "management.tcp.port=0",
                                                   "prometheus.tcp.ip=127.0.0.1", "prometheus.tcp.port=0"])
            broker.start()
            atexit.register(broker.close)
            _found.append(Api("127.0.0.1", broker.port_of(HTTP, "HTTP"), broker.uri))
            _found[0].metrics = broker.port_of(METRICS, "metrics")
        elif suite.options.admin:
            parts = urllib.parse.urlsplit(suite.options.admin)
            _found.append(Api(parts.hostname, parts.port, suite.uri.text))
        else:
            _found.append(None)
    if _found[0] is None:
        raise Skip("needs --broker, or --admin with the base URI of the HTTP API")
    return _found[0]


class Vhost:
    """A virtual host for one case."""

    def __init__(self):
        self.api = api()
        self.name = f"foreign-{STAMP}-{time.monotonic_ns():x}"

    def __enter__(self):
        equal(self.api.status("PUT", f"/vhosts/{self.name}"), 201)
        return self

    def __exit__(self, *error):
        self.api.status("DELETE", f"/vhosts/{self.name}")

    def rows(self, rows):
        """Requests one after the other, with the statuses and parts of the answers that they must have."""
        for method, path, body, status, *wanted in rows:
            found, _, value = self.api.ask(method, path.replace("VHOST", self.name), body)
            shown = json.dumps(value).replace(self.name, "VHOST")
            equal(found, status, f"{method} {path} {body}: {shown}")
            if wanted:
                equal(json.loads(shown), wanted[0], f"{method} {path} {body}")

    def client(self):
        parameters = pika.URLParameters(self.api.uri)
        parameters.virtual_host = self.name
        parameters.client_properties = {"connection_name": "a-name"}
        return pika.BlockingConnection(parameters)


def bad(reason):
    return {"error": "bad_request", "reason": reason}


NOT_FOUND = {"error": "Object Not Found", "reason": "Not Found"}


@suite.case("login", "who asks without a user, with a wrong password, or without a tag", "401 each; a challenge for the first")
def login():
    status, headers, value = api().ask("GET", "/overview", user="")
    equal((status, value), (401, None))
    equal(headers["www-authenticate"], 'Basic realm="RabbitMQ Management"')
    equal(api().status("PUT", f"/users/u{STAMP}", {"password": "p", "tags": ""}), 201)
    refused = {"error": "not_authorized", "reason": "Not_Authorized"}
    for user, password in [("guest", "wrong"), ("nobody", "x")]:
        status, _, value = api().ask("GET", "/overview", user=user, password=password)
        equal((status, value), (401, refused), user)
    status, _, value = api().ask("GET", "/overview", user=f"u{STAMP}", password="p")
    equal((status, value), (401, {"error": "not_authorised", "reason": "Not management user"}))
    equal(api().status("DELETE", f"/users/u{STAMP}"), 204)


@suite.case("tags", "what each tag may ask for", "by path and tag: 200, 401 or 404")
def tags():
    rows = {
        "/whoami": (200, 200, 200), "/users": (401, 401, 401), "/nodes": (401, 200, 401), "/vhosts": (200, 200, 200),
        "/queues": (200, 200, 200), "/permissions": (401, 401, 401), "/connections": (200, 200, 200),
        "/definitions": (401, 401, 401), "/overview": (200, 200, 200), "/parameters": (401, 401, 200),
        "/global-parameters": (401, 401, 200), "/operator-policies": (200, 200, 200), "/vhost-limits": (200, 200, 200),
        "/user-limits": (401, 401, 401), "/topic-permissions": (401, 401, 401), "/feature-flags": (200, 200, 200),
        "/health/checks/local-alarms": (200, 200, 200), "/cluster-name": (200, 200, 200), "/users/guest": (401, 401, 401),
        "/queues/VHOST": (404, 404, 404), "/policies/VHOST": (404, 404, 404), "/vhosts/VHOST": (401, 401, 401),
    }
    with Vhost() as vhost:
        names = [f"{tag}{STAMP}" for tag in ("management", "monitoring", "policymaker")]
        for name in names:
            equal(vhost.api.status("PUT", f"/users/{name}", {"password": "p", "tags": name.removesuffix(STAMP)}), 201)
        for path, expected in rows.items():
            path = path.replace("VHOST", vhost.name)
            found = tuple(vhost.api.status("GET", path, user=name, password="p") for name in names)
            equal(found, expected, path)
            equal(vhost.api.status("PUT", f"/vhosts/never{STAMP}", user=names[1], password="p"), 401)
        for name in names:
            equal(vhost.api.status("DELETE", f"/users/{name}"), 204)


@suite.case("paths", "escaped segments, trailing slashes, unknown paths, verbs that are not served",
            "decoded after they are split; 404; 405 with the verbs there are")
def paths():
    with Vhost() as vhost:
        name = urllib.parse.quote("a/b c-ü.%2F", safe="")
        vhost.rows([
            ("PUT", f"/queues/VHOST/{name}", {}, 201),
            ("GET", f"/queues/VHOST/{name}?columns=name", None, 200, {"name": "a/b c-ü.%2F"}),
            ("DELETE", f"/queues/VHOST/{name}", None, 204),
            ("GET", "/queues/%2F?columns=x", None, 200),
            ("GET", "/nothing", None, 404, NOT_FOUND),
            ("GET", "/queues/none-such", None, 404, NOT_FOUND),
            ("PATCH", "/users/guest", None, 405),
        ])
        status, headers, _ = vhost.api.ask("OPTIONS", "/users")
        equal((status, headers["allow"]), (200, "HEAD, GET, OPTIONS"))


@suite.case("plugins", "lists of shovels, of links of federation and of traces where there are none, by tag and with unknown virtual hosts",
            "[]; shovels and links for those who may watch, and 404 without the virtual host; traces for administrators")
def plugins():
    with Vhost() as vhost:
        name = f"watcher{STAMP}"
        equal(vhost.api.status("PUT", f"/users/{name}", {"password": "p", "tags": "monitoring"}), 201)
        for path, watched in (("/shovels/VHOST", 200), ("/federation-links/VHOST", 200), ("/federation-links/VHOST/state/down", 200),
                              ("/shovels", 200), ("/federation-links", 200), ("/traces", 401), ("/traces/VHOST", 401),
                              ("/trace-files", 401)):
            vhost.rows([("GET", path, None, 200, [])])
            path = path.replace("VHOST", vhost.name)
            equal(vhost.api.status("GET", path, user=name, password="p"), watched, path)
        vhost.rows([
            ("GET", "/shovels/none-such", None, 404),
            ("GET", "/federation-links/none-such", None, 404),
            ("GET", "/traces/none-such", None, 200, []),
            ("GET", "/traces/VHOST/none-such", None, 404),
            ("DELETE", f"/users/{name}", None, 204),
        ])


@suite.case("queues", "a queue is declared, declared otherwise, shown and deleted",
            "201, 204 when it is there, 400 with 0-9-1's text when it is another, 401 for reserved names")
def queues():
    with Vhost() as vhost:
        vhost.rows([
            ("PUT", "/queues/VHOST/q", {"durable": True}, 201),
            ("PUT", "/queues/VHOST/q", {"durable": True}, 204),
            ("PUT", "/queues/VHOST/q", {"durable": False}, 400,
             bad("inequivalent arg 'durable' for queue 'q' in vhost 'VHOST': received 'false' but current is 'true'")),
            ("PUT", "/queues/VHOST/q", {"durable": "zz"}, 400, bad(["not_boolean", "zz"])),
            ("PUT", "/queues/VHOST/amq.q", {}, 401, {"error": "not_authorised", "reason": "Access refused."}),
            ("PUT", "/queues/none-such/q", {}, 404, {"error": "not_found", "reason": "vhost_not_found"}),
            ("PUT", "/queues/VHOST/t", {}, 201),
            ("GET", "/queues/VHOST/t?columns=durable,exclusive", None, 200, {"durable": False, "exclusive": False}),
            ("PUT", "/queues/VHOST/s", {"durable": True, "arguments": {"x-queue-type": "stream"}}, 201),
            ("GET", "/queues/VHOST?columns=name,type&sort=name&sort_reverse=true", None, 200,
             [{"name": "t", "type": "classic"}, {"name": "s", "type": "stream"}, {"name": "q", "type": "classic"}]),
            ("GET", "/queues/VHOST/none", None, 404, NOT_FOUND),
            ("DELETE", "/queues/VHOST/q", None, 204),
            ("DELETE", "/queues/VHOST/q", None, 404, NOT_FOUND),
        ])


@suite.case("pages", "a list in pages, with names and expressions over them, and pages that there are not",
            "page, page_count, page_size, item_count, filtered_count, total_count, items; 400")
def pages():
    with Vhost() as vhost:
        for number in range(5):
            equal(vhost.api.status("PUT", f"/queues/{vhost.name}/q{number}", {}), 201)
        path = f"/queues/{vhost.name}?columns=name&"

        def page(query):
            value = vhost.api.get(path + query)
            names = [item["name"] for item in value.pop("items")]
            return names, [value[key] for key in sorted(value)], sorted(value)

        keys = ["filtered_count", "item_count", "page", "page_count", "page_size", "total_count"]
        equal(page("page=2&page_size=2"), (["q2", "q3"], [5, 2, 2, 3, 2, 5], keys))
        equal(page("page=1&name=Q3"), (["q3"], [1, 1, 1, 1, 100, 5], keys))
        equal(page("page=1&name=q%5B01%5D%24&use_regex=true"), (["q0", "q1"], [2, 2, 1, 1, 100, 5], keys))
        equal(page("page=1&name=%28&use_regex=true"), ([], [0, 0, 1, 0, 100, 5], keys))
        vhost.rows([
            ("GET", path + "page=9&page_size=2", None, 400,
             {"error": "page_out_of_range", "reason": "Page out of range, page: 9 page size: 2, len: 5"}),
            ("GET", path + "page=1&page_size=1000", None, 400,
             {"error": "invalid_pagination_parameters",
              "reason": "Invalid pagination parameters: page number 1, page size 1000"}),
            ("GET", path + "page=x", None, 400, bad("Pagination parameters are invalid")),
        ])


@suite.case("exchanges", "exchanges and bindings are made, shown and deleted", "201 with where the binding is, 204, 400, 404")
def exchanges():
    with Vhost() as vhost:
        binding = {"source": "x", "vhost": "VHOST", "destination": "q", "destination_type": "queue",
                   "routing_key": "a~b c/d", "arguments": {}, "properties_key": "a%7Eb+c%2Fd"}
        vhost.rows([
            ("PUT", "/exchanges/VHOST/x", {"type": "topic"}, 201),
            ("PUT", "/exchanges/VHOST/x", {"type": "topic"}, 204),
            ("PUT", "/exchanges/VHOST/x", {"type": "fanout"}, 400,
             bad("inequivalent arg 'type' for exchange 'x' in vhost 'VHOST': received 'fanout' but current is 'topic'")),
            ("PUT", "/exchanges/VHOST/y", {"type": "nope"}, 400, bad("unknown exchange type 'nope'")),
            ("PUT", "/exchanges/VHOST/y", {}, 201),
            ("GET", "/exchanges/VHOST/y?columns=type,durable,internal,auto_delete", None, 200,
             {"type": "direct", "durable": False, "internal": False, "auto_delete": False}),
            ("GET", "/exchanges/VHOST/amq.default?columns=name", None, 200, {"name": ""}),
            ("DELETE", "/exchanges/VHOST/amq.direct", None, 401, {"error": "not_authorised", "reason": "Access refused."}),
            ("PUT", "/queues/VHOST/q", {}, 201),
            ("POST", "/bindings/VHOST/e/x/q/none", {"routing_key": "a"}, 404,
             {"error": "not_found", "reason": "no queue 'none' in vhost 'VHOST'"}),
        ])
        status, headers, _ = vhost.api.ask("POST", f"/bindings/{vhost.name}/e/x/q/q", {"routing_key": "a~b c/d"})
        equal((status, headers["location"]), (201, "q/a%257Eb%2Bc%252Fd"))
        vhost.rows([
            ("GET", "/bindings/VHOST/e/x/q/q", None, 200, [binding]),
            ("GET", "/bindings/VHOST/e/x/q/none", None, 200, []),
            ("GET", "/bindings/VHOST/e/none/q/q", None, 200, []),
            ("GET", "/bindings/VHOST/e/x/e/none", None, 200, []),
            ("GET", "/bindings/VHOST/e/x/q/q/a%257Eb%2Bc%252Fd", None, 200, binding),
            ("GET", "/exchanges/VHOST/x/bindings/source", None, 200, [binding]),
            ("DELETE", "/exchanges/VHOST/x?if-unused=true", None, 400, bad("exchange 'x' in vhost 'VHOST' in use")),
            ("DELETE", "/bindings/VHOST/e/x/q/q/a%257Eb%2Bc%252Fd", None, 204),
            ("DELETE", "/bindings/VHOST/e/x/q/q/a%257Eb%2Bc%252Fd", None, 404, NOT_FOUND),
            ("DELETE", "/exchanges/VHOST/x", None, 204),
        ])
        # A key that is escaped once, as a path is, stands for its binding too.
        for key, path in (("user.*", "user.%2A"), ("user.#", "user.%23"), ("a b", "a%20b"), ("é", "%C3%A9"), ("x&y", "x&y")):
            equal(vhost.api.status("POST", f"/bindings/{vhost.name}/e/y/q/q", {"routing_key": key}), 201)
            equal(vhost.api.get(f"/bindings/{vhost.name}/e/y/q/q/{path}")["routing_key"], key)
            equal(vhost.api.status("DELETE", f"/bindings/{vhost.name}/e/y/q/q/{path}"), 204)
            equal(vhost.api.status("DELETE", f"/bindings/{vhost.name}/e/y/q/q/{path}"), 404)
        # The key of a binding with arguments is the broker's own business, but it leads back to it.
        status, headers, _ = vhost.api.ask("POST", f"/bindings/{vhost.name}/e/y/q/q", {"routing_key": "k", "arguments": {"n": 1}})
        equal(status, 201)
        where = f"/bindings/{vhost.name}/e/y/q/{headers['location']}"
        equal(vhost.api.get(where)["arguments"], {"n": 1})
        equal(vhost.api.status("DELETE", where), 204)


@suite.case("messages", "publishing and getting over HTTP", "routed or not; payloads as text or base64, requeued or gone; 400 for what is missing")
def messages():
    with Vhost() as vhost:
        properties = {"delivery_mode": 2, "headers": {"a": 1, "b": "c"}, "content_type": "t/p", "message_id": "m", "priority": 3}
        message = {"properties": properties, "routing_key": "q", "payload": "aGk=", "payload_encoding": "base64"}
        get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
        got = {"payload_bytes": 2, "redelivered": False, "exchange": "", "routing_key": "q", "message_count": 0,
               "properties": properties, "payload": "hi", "payload_encoding": "string"}
        publish = "/exchanges/VHOST/amq.default/publish"
        vhost.rows([
            ("PUT", "/queues/VHOST/q", {"durable": True}, 201),
            ("POST", publish, message, 200, {"routed": True}),
            ("POST", publish, {**message, "routing_key": "none"}, 200, {"routed": False}),
            ("POST", publish, {"routing_key": "q", "payload": "", "payload_encoding": "string"}, 400,
             bad("[{key_missing,properties}]")),
            ("POST", publish, {**message, "payload_encoding": "zz"}, 400, bad(["unsupported_encoding", "zz"])),
            ("POST", publish, {**message, "payload": "*"}, 400, bad(["not_base64", "*"])),
            ("POST", publish, {**message, "properties": {"delivery_mode": "zz"}}, 400, bad(["not_int", "delivery_mode"])),
            ("POST", publish, {**message, "properties": {"user_id": "zz"}}, 400,
             bad("406 PRECONDITION_FAILED - user_id property set to 'zz' but authenticated user was 'guest'")),
            ("POST", "/exchanges/VHOST/none/publish", message, 404, {"error": "not_found", "reason": "exchange_not_found"}),
            ("POST", "/queues/VHOST/q/get", get, 200, [got]),
            ("POST", "/queues/VHOST/q/get", {**get, "ackmode": "ack_requeue_false", "encoding": "base64", "truncate": 1}, 200,
             [{**got, "redelivered": True, "payload": "aA==", "payload_encoding": "base64"}]),
            ("POST", "/queues/VHOST/q/get", get, 200, []),
            ("POST", "/queues/VHOST/q/get", {"count": 1, "encoding": "auto"}, 400, bad("[{key_missing,ackmode}]")),
            ("POST", "/queues/VHOST/q/get", {"ackmode": "ack_requeue_true", "encoding": "auto"}, 400, bad("[{key_missing,count}]")),
            ("POST", "/queues/VHOST/q/get", {**get, "encoding": "zz"}, 400, bad("Unsupported encoding. Please use auto or base64.")),
            ("POST", "/queues/VHOST/q/get", {**get, "ackmode": "zz"}, 400,
             bad("Invalid ackmode value: zz. Valid values are: ack_requeue_true, ack_requeue_false, reject_requeue_true, "
                 "reject_requeue_false")),
            ("POST", "/queues/VHOST/q/get", "{", 400, bad("not_json")),
            ("POST", "/queues/VHOST/none/get", get, 404, {"error": "not_found", "reason": "queue_not_found"}),
            ("POST", publish, message, 200, {"routed": True}),
            ("DELETE", "/queues/VHOST/q/contents", None, 204),
            ("POST", "/queues/VHOST/q/get", get, 200, []),
            ("GET", "/aliveness-test/VHOST", None, 200, {"status": "ok"}),
        ])


@suite.case("access", "users, permissions, limits and virtual hosts are made, shown and deleted", "201, 204, 400 with RabbitMQ's reasons, 412 for what is protected")
def access():
    user = f"user{STAMP}"
    missing = "vhost_or_user_not_found"
    permission = {"configure": ".*", "write": "a", "read": "b"}
    topic = {"exchange": "amq.topic", "write": "a", "read": "b"}
    with Vhost() as vhost:
        vhost.rows([
            ("PUT", f"/users/{user}", {"password": "p"}, 400, bad("tags_not_present")),
            ("PUT", f"/users/{user}", {"password": "p", "password_hash": "x", "tags": ""}, 400,
             bad("both_password_and_password_hash_are_provided")),
            ("PUT", f"/users/{user}", {"password_hash": "zz", "tags": ""}, 400, bad(["not_base64", "zz"])),
            ("PUT", f"/users/{user}", {"password": "p", "tags": "a, b"}, 201),
            ("PUT", f"/users/{user}", {"tags": ["c"]}, 204),
            ("GET", f"/users/{user}", None, 200,
             {"name": user, "password_hash": "", "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": ["c"], "limits": {}}),
            ("PUT", f"/permissions/VHOST/{user}", permission, 201),
            ("PUT", f"/permissions/VHOST/{user}", permission, 204),
            ("GET", f"/permissions/VHOST/{user}", None, 200, {"user": user, "vhost": "VHOST", **permission}),
            ("PUT", f"/permissions/VHOST/{user}", {"write": "", "read": ""}, 400, bad("[{key_missing,configure}]")),
            ("PUT", "/permissions/VHOST/none-such", permission, 400, bad(missing)),
            ("PUT", f"/topic-permissions/VHOST/{user}", topic, 201),
            ("GET", f"/topic-permissions/VHOST/{user}", None, 200, [{"user": user, "vhost": "VHOST", **topic}]),
            ("DELETE", f"/topic-permissions/VHOST/{user}", None, 204),
            ("DELETE", f"/permissions/VHOST/{user}", None, 204),
            ("DELETE", f"/permissions/VHOST/{user}", None, 404, NOT_FOUND),
            ("PUT", f"/user-limits/{user}/max-channels", {"value": 9}, 204),
            ("GET", f"/user-limits/{user}", None, 200, [{"user": user, "value": {"max-channels": 9}}]),
            ("PUT", "/user-limits/none-such/max-channels", {"value": 9}, 400, bad(["no_such_user", "none-such"])),
            ("POST", "/users/bulk-delete", {"users": [user]}, 204),
            ("GET", f"/users/{user}", None, 404, NOT_FOUND),
            ("PUT", "/vhost-limits/VHOST/max-queues", {"value": 9}, 204),
            ("GET", "/vhost-limits/VHOST", None, 200, [{"vhost": "VHOST", "value": {"max-queues": 9}}]),
            ("PUT", "/vhost-limits/VHOST/max-queues", {}, 400, bad("[{key_missing,value}]")),
            ("PUT", "/vhost-limits/VHOST/zz", {"value": 9}, 400,
             bad('Validation failed\n\nUnrecognised terms [{<<"zz">>,9}] in limits\n')),
            ("PUT", "/vhost-limits/VHOST/max-queues", {"value": "x"}, 400,
             bad('Validation failed\n\nmax-queues should be a number, actually was <<"x">>\n')),
            ("DELETE", "/vhost-limits/VHOST/max-queues", None, 204),
            ("DELETE", "/vhost-limits/VHOST/zz", None, 204),
            ("PUT", "/vhosts/VHOST", {"description": "d", "tags": "a,b"}, 204),
            ("GET", "/vhosts/VHOST?columns=name,description,tags,default_queue_type", None, 200,
             {"name": "VHOST", "description": "d", "tags": ["a", "b"], "default_queue_type": "classic"}),
            ("PUT", "/vhosts/never", {"default_queue_type": "zz"}, 400, bad("zz is not a valid queue type")),
            ("POST", "/vhosts/VHOST/deletion/protection", None, 204),
            ("DELETE", "/vhosts/VHOST", None, 412,
             {"error": "precondition_failed",
              "reason": "Refusing to delete virtual host 'VHOST' because it is protected from deletion"}),
            ("DELETE", "/vhosts/VHOST/deletion/protection", None, 204),
        ])


@suite.case("policies", "policies and the operator's are set, shown and cleared, and seen on a queue", "201, 204, 400, 404; the lower number counts")
def policies():
    with Vhost() as vhost:
        policy = {"pattern": "^q$", "definition": {"max-length": 10}, "priority": 1, "apply-to": "queues"}
        operator = {**policy, "definition": {"max-length": 5}}
        vhost.rows([
            ("PUT", "/queues/VHOST/q", {}, 201),
            ("PUT", "/policies/VHOST/p", policy, 201),
            ("PUT", "/policies/VHOST/p", policy, 204),
            ("GET", "/policies/VHOST/p", None, 200, {"vhost": "VHOST", "name": "p", **policy}),
            ("PUT", "/operator-policies/VHOST/o", operator, 201),
            ("GET", "/operator-policies/VHOST", None, 200, [{"vhost": "VHOST", "name": "o", **operator}]),
            ("GET", "/parameters/operator_policy/VHOST", None, 200,
             [{"value": operator, "vhost": "VHOST", "component": "operator_policy", "name": "o"}]),
            ("PUT", "/policies/VHOST/bad", {**policy, "definition": {"zz": 1}}, 400,
             bad('Validation failed\n\n[{<<"zz">>,1}] are not recognised policy settings\n')),
            ("PUT", "/policies/VHOST/bad", {"definition": {"max-length": 1}}, 400, bad("[{key_missing,pattern}]")),
            ("GET", "/policies/VHOST/none", None, 404, NOT_FOUND),
        ])

        def seen():
            queue = vhost.api.get(f"/queues/{vhost.name}/q")
            return queue.get("policy"), queue.get("operator_policy"), queue.get("effective_policy_definition")

        eventually(lambda: seen() == ("p", "o", {"max-length": 5}), "the queue shows its policies")
        vhost.rows([
            ("DELETE", "/policies/VHOST/p", None, 204),
            ("DELETE", "/operator-policies/VHOST/o", None, 204),
            ("DELETE", "/policies/VHOST/p", None, 404, NOT_FOUND),
        ])


@suite.case("connections", "a connection is listed with the name its client gave it, and closed with a reason",
            "204; the client is told 320 CONNECTION_FORCED and the reason; 404 afterwards")
def connections():
    with Vhost() as vhost:
        client = vhost.client()

        def own():
            rows = [row for row in vhost.api.get("/connections") if row.get("vhost") == vhost.name]
            return rows and "user" in rows[0] and rows[0]

        eventually(own, "the connection is listed")
        row = own()
        equal((row["user"], row["protocol"], row["state"]), ("guest", "AMQP 0-9-1", "running"))
        equal((row["user_provided_name"], row["client_properties"]["connection_name"]), ("a-name", "a-name"))
        where = "/connections/" + urllib.parse.quote(row["name"], safe="")
        equal(vhost.api.get(where)["name"], row["name"])
        equal(vhost.api.status("DELETE", where, headers={"X-Reason": "out"}), 204)
        try:
            for _ in range(100):
                client.process_data_events(0.1)
            raise AssertionError("the connection is still open")
        except pika.exceptions.ConnectionClosedByBroker as closed:
            equal((closed.reply_code, closed.reply_text), (320, "CONNECTION_FORCED - out"))
        eventually(lambda: vhost.api.status("GET", where) == 404, "the connection is gone")
        equal(vhost.api.ask("DELETE", where)[::2], (404, NOT_FOUND))


@suite.case("definitions", "what is exported is imported again, of everything and of a virtual host", "204, as often as one likes; the same export")
def definitions():
    with Vhost() as vhost, Vhost() as other:
        vhost.rows([
            ("PUT", "/queues/VHOST/q", {"durable": True, "arguments": {"x-queue-type": "quorum", "x-max-length": 7}}, 201),
            ("PUT", "/exchanges/VHOST/x", {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "amq.fanout"}}, 201),
            ("POST", "/bindings/VHOST/e/x/q/q", {"routing_key": "k.#", "arguments": {"n": 1}}, 201),
            ("PUT", "/policies/VHOST/p", {"pattern": "", "definition": {"expires": 100000}}, 201),
            ("PUT", "/vhost-limits/VHOST/max-queues", {"value": 5}, 204),
        ])
        keys = ("queues", "exchanges", "bindings", "policies", "parameters")
        single = vhost.api.get(f"/definitions/{vhost.name}")
        for _ in range(2):
            equal(vhost.api.status("POST", f"/definitions/{other.name}", single), 204)
            again = vhost.api.get(f"/definitions/{other.name}")
            equal({key: again[key] for key in keys}, {key: single[key] for key in keys})
        everything = vhost.api.get("/definitions")
        mine = {key: [row for row in everything[key] if row.get("vhost") == vhost.name] for key in keys}
        vhosts = [row for row in everything["vhosts"] if row["name"] == vhost.name]
        equal(vhosts[0]["limits"], {"max-queues": 5})
        equal(vhost.api.status("DELETE", f"/vhosts/{vhost.name}"), 204)
        equal(vhost.api.status("POST", "/definitions", {"vhosts": vhosts, **mine}), 204)
        everything = vhost.api.get("/definitions")
        equal({key: [row for row in everything[key] if row.get("vhost") == vhost.name] for key in keys}, mine)
        vhost.rows([
            ("POST", "/definitions", "[]", 400),
            ("POST", "/definitions/none-such", {}, 404, {"error": "not_found", "reason": "vhost_not_found"}),
        ])


@suite.case("health", "health checks", "200 with ok; 503 with what is missing; some for everybody")
def health():
    ok = {"status": "ok"}
    for check in ("alarms", "local-alarms", "virtual-hosts", "certificate-expiration/1/months", "metadata-store/initialized",
                  "metadata-store/initialized/with-data", "quorum-queues-without-elected-leaders/all-vhosts"):
        equal(api().get(f"/health/checks/{check}"), ok, check)
    for check in ("is-in-service", "ready-to-serve-clients", "below-node-connection-limit"):
        equal(api().get(f"/health/checks/{check}", user=""), ok, check)
    equal(api().get("/health/checks/node-is-quorum-critical"), {"status": "ok", "reason": "single node cluster"})
    port = urllib.parse.urlsplit(api().uri).port
    equal(api().get(f"/health/checks/port-listener/{port}"), {"status": "ok", "port": port})
    status, _, value = api().ask("GET", "/health/checks/port-listener/1")
    equal((status, value["status"], value["reason"], value["missing"]), (503, "failed", "No active listener", 1))
    equal(api().get("/health/checks/protocol-listener/amqp091,amqp10")["status"], "ok")
    status, _, value = api().ask("GET", "/health/checks/protocol-listener/zz")
    equal((status, value["missing"]), (503, ["zz"]))
    status, _, value = api().ask("GET", "/health/checks/port-listener/x")
    equal((status, value), (400, bad("Invalid port")))


@suite.case("counters", "what is told of messages after a load", "publish, confirm, deliver, ack, redeliver, unroutable: by queue, channel, exchange, virtual host")
def counters():
    with Vhost() as vhost:
        management_counters.counters(vhost)


@suite.case("channels", "channels and consumers of a connection", "listed with what they were opened with")
def channels():
    with Vhost() as vhost:
        management_counters.listed(vhost)


@suite.case("parameters", "parameters of a virtual host and of the node", "201, 204, 400, 404")
def parameters():
    with Vhost() as vhost:
        management_counters.parameters(vhost)


@suite.case("policymaker", "a policymaker and an administrator set parameters of each component: operator_policy, vhost-limits, policy",
            "both may set and clear the first two, `policy` is refused with 400 and still told; operator-policies are the administrator's")
def policymaker():
    with Vhost() as vhost:
        management_counters.policymaker(vhost, f"p{STAMP}")


@suite.case("sessions", "sessions of a connection over AMQP 1.0, and of one over 0-9-1",
            "figures of each session, its links with addresses, settling, credit and filters; 400, 404")
def sessions():
    with Vhost() as vhost:
        management_sessions.sessions(vhost)


@suite.case("declared", "queues by who declared them: over 0-9-1, 1.0 and HTTP, and imported",
            "those of the first to declare each, also of who is gone; none of who is unknown; in virtual hosts that one sees", 90)
def declared():
    with Vhost() as vhost:
        management_users.queues(vhost)


def binary():
    if not suite.options.broker:
        raise Skip("needs settings of its own (--broker)")
    return suite.options.broker


@suite.case("page-answers", "what browsers are told of pages: answers and what is asked first, of an origin that is named and of others",
            "the named one may read answers and send what it asked for; others are told nothing")
def page_answers():
    if not suite.options.broker:
        if not management_pages.has_settings(api().port):
            raise Skip("needs " + " ".join(management_pages.SETTINGS))
        return management_pages.answers(api().port)
    with management_pages.Own(binary(), management_pages.SETTINGS) as (port, _):
        return management_pages.answers(port)


@suite.case("page-changes", "what web pages send that changes something, by Origin, Sec-Fetch-Site and kind of body",
            "takes it all; here 403 for pages that are neither ours nor named")
def page_changes():
    with management_pages.Own(binary(), management_pages.SETTINGS) as (port, _):
        management_pages.changes(port)


@suite.case("page-names", "requests of guest, and for metrics, by names of this machine and by others; hosts that are none",
            "400 for what is no host; lets in guest by any name, where here it is 403")
def page_names():
    with management_pages.Own(binary(), ["management.hosts.1=named.example"]) as ports:
        management_pages.names(*ports)


@suite.case("page-heads", "headers for browsers: what they may run and frame, and what no cache keeps",
            "a policy for scripts and objects; here `nosniff`, no frames, `no-store` for what has secrets in it too")
def page_heads():
    with management_pages.Own(binary()) as ports:
        management_pages.heads(*ports)


@suite.case("first-page", "the page at /api, and at the root of the management port with leveret.ui = false, without a login",
            "a description of the API; here a page with the version and links, which runs nothing")
def first_page():
    with management_pages.Own(binary()) as ports:
        management_pages.first(*ports, management_pages.API_PAGES)
    with management_pages.Own(binary(), ["leveret.ui=false"]) as ports:
        management_pages.first(*ports, (*management_pages.API_PAGES, "/", "/index.html"))


@suite.case("path-prefix", "management.path_prefix with and without slashes around it", "the API is below it, and nowhere else")
def path_prefix():
    management_pages.prefix(binary())


@suite.case("trail", "changes of users, permissions, virtual hosts, policies, limits, queues and definitions, over HTTP and by the command line",
            "a line of the log each; here with the acting user, names in quotes that no name can end, and no secret")
def left_in_log():
    management_trail.trail(binary())


@suite.case("trail.orders", "limits of memory and disk, the log's level, moves of logs, memory given back, passwords that are tried, stop_app, "
            "reset, start_app, stop, a signal; the first start",
            "a line of the log each, in RabbitMQ's words where it has some, with the acting user; none of an order that is refused")
def orders_in_log():
    management_trail.orders(binary())


@suite.case("slips", "queues and exchanges with arguments that are nearly known ones, once and a hundred times",
            "they are made, and nothing is said; here a warning with the argument that was meant, ten of them a minute")
def slips():
    management_trail.slips(binary())


@suite.case("without-figures", "queues, exchanges, virtual hosts, nodes and the overview with disable_stats, and with enable_queue_totals",
            "what was declared, without figures; of queues their lengths where these are asked for")
def without_figures():
    with Vhost() as vhost:
        management_lists.plain(vhost)


@suite.case("gzip", "lists, pages, metrics and definitions for clients that take gzip, and for others",
            "in gzip; here from 1,000 bytes on, and not what has secrets in it")
def in_gzip():
    management_lists.short(binary())


@suite.case("order", "pages of 2,000 queues by their length, again and again while lengths change", "each as of a few seconds ago at most", seconds_max=60)
def order():
    management_lists.order(binary())


@suite.case("past", "samples of a time when nobody asked for any, of the node and of a queue",
            "they are there; here as well, of the node for a day and of the 1,000 busiest queues for an hour", seconds_max=60)
def past():
    management_past.kept(binary())


@suite.case("metrics", "metrics after a load", "received = routed + unroutable; sizes; as many as the load did")
def metrics():
    with Vhost() as vhost:
        management_counters.metrics(vhost, vhost.api.metrics)


def beyond():
    """A virtual host of a broker that has what RabbitMQ has not."""
    if not suite.options.broker:
        raise Skip("needs --broker: RabbitMQ has nothing like it")
    return Vhost()


@suite.case("peek", "messages looked at page by page", "all in order; nothing is taken or marked")
def peek():
    with beyond() as vhost:
        management_beyond.peek(vhost)


@suite.case("peek-anywhere", "messages of a queue of 66,000 by position and from its end, classic and quorum queue, some of them held",
            "those that are ready from there on, and where to go on", seconds_max=120)
def peek_anywhere():
    with beyond() as vhost:
        management_beyond.peek_anywhere(vhost)


@suite.case("peek-stream", "messages of a stream from its first, its last ones, an offset, a time and an age; page by page",
            "all in order, with their offsets and where to go on; no offset is stored")
def peek_stream():
    with beyond() as vhost:
        management_beyond.peek_stream(vhost)


@suite.case("redrive", "dead messages sent back at a rate, one that never died among them, and moved by name",
            "they are in the queue they died in, without headers of deaths; the other one stays until it is moved")
def redrive():
    with beyond() as vhost:
        management_beyond.redriven(vhost)


@suite.case("filtered", "ten messages to an exchange whose three bindings have filters, one of them with a body that is cut off",
            "message_stats of the exchange count messages, filters that were looked at, and bodies that could not be read")
def filtered():
    with beyond() as vhost:
        management_counters.filters(vhost)


@suite.case("move-refused", "messages of a quorum queue with x-delivery-limit 2 moved to an exchange that is not there, again and again",
            "400 with 404 NOT_FOUND; each time they are back, and no delivery counts as failed")
def move_refused():
    with beyond() as vhost:
        management_beyond.refused(vhost)


@suite.case("redrive-hidden", "dead messages sent back from behind 150 that never died; 10,001 that never died",
            "those that died are back, as many as were asked for; it ends at 10,000")
def redrive_hidden():
    with beyond() as vhost:
        management_beyond.hidden(vhost)


@suite.case("move-copied", "a message with the header CC, moved", "it moves without that header, and no copy is made")
def move_copied():
    with beyond() as vhost:
        management_beyond.copied(vhost)


def api_of(broker):
    return Api("127.0.0.1", broker.port_of(HTTP, "HTTP"), broker.uri)


def vhost_of(own):
    vhost = Vhost.__new__(Vhost)
    vhost.api, vhost.name = own, f"foreign-{STAMP}"
    return vhost


@suite.case("move-wanted.classic", "messages moved, deleted, accepted and rejected by an expression, classic queue",
            "ours alone: those of which it is true, a piece of the queue in a request; faults are 400")
def move_wanted_classic():
    with beyond() as vhost:
        management_beyond.wanted(vhost, "classic")


@suite.case("move-wanted.quorum", "messages moved, deleted, accepted and rejected by an expression, quorum queue",
            "ours alone: those of which it is true, a piece of the queue in a request; faults are 400")
def move_wanted_quorum():
    with beyond() as vhost:
        management_beyond.wanted(vhost, "quorum")


def in_vhost(work, kind):
    with beyond() as vhost:
        work(vhost, kind)


for KIND in ("classic", "quorum"):
    for NAME, WORK, GIVEN, EXPECTED in (
        ("wire", management_held.held, "messages that a consumer holds, settled by an expression and by position, with ready ones among them",
         "ours alone: it has room again at once; what it says of them later changes nothing and closes nothing"),
        ("ten", management_held.ten, "AMQP 1.0: a message that a receiver holds, rejected by an expression",
         "ours alone: the broker settles the delivery as released; it is dead-lettered once, and an outcome of the receiver's changes nothing"),
        ("transaction", management_held.transaction, "messages settled whose acks are in a transaction, which is committed or rolled back",
         "ours alone: they are gone, once; the rest of the transaction is as ever"),
        ("rules", management_held.rules, "messages settled that consumers hold, in a queue with groups, with leases, with one active consumer",
         "ours alone: the group goes to another, the lease of the next one begins, the active consumer stays it"),
    ):
        suite.add(f"settle-held-{NAME}.{KIND}", f"{GIVEN}, {KIND} queue", EXPECTED, lambda work=WORK, kind=KIND: in_vhost(work, kind), 60)


@suite.case("settle-held-killed", "600 messages of which a consumer holds 400, two thirds settled by an expression, and the broker killed",
            "ours alone: the other third is there, in order; the rejected ones are dead-lettered", seconds_max=60)
def settle_held_killed():
    if not suite.options.broker:
        raise Skip("needs a broker that it may stop (--broker)")
    management_held.killed(suite.options.broker, api_of, vhost_of)


def move_many(kind):
    if not suite.options.broker:
        raise Skip("needs a broker of its own (--broker): RabbitMQ has nothing like it")
    full = suite.options.full
    management_many.many(suite.options.broker, api_of, vhost_of, kind, 1_000_000 if full else 20_000, full)


for KIND in ("classic", "quorum"):
    suite.add(f"move-many.{KIND}", "20,000 messages of 1 KB (--full: 1 M), one in a thousand of which is listed, moved, deleted, rejected and "
              f"accepted by an expression, while somebody publishes, {KIND} queue",
              "ours alone: those of which it is true, and no others; with --full each pass within 5 s, while 90 % of 40,000 a second are published",
              lambda kind=KIND: move_many(kind), lambda options: 300 if options.full else 60)


@suite.case("move-chosen.classic", "messages of a queue with one active consumer moved and deleted by position, classic queue",
            "those that are ready, with what they had; the others are named, and stay where they were")
def move_chosen_classic():
    with beyond() as vhost:
        management_beyond.chosen(vhost, "classic")


@suite.case("move-chosen.quorum", "messages of a queue with one active consumer moved and deleted by position, quorum queue",
            "those that are ready, with what they had; the others are named, and stay where they were")
def move_chosen_quorum():
    with beyond() as vhost:
        management_beyond.chosen(vhost, "quorum")


@suite.case("move-chosen-killed", "300 messages of 20 kB, some of them moved and deleted by position, the broker killed before and after",
            "they come from disk; positions are the same, and what went is gone", seconds_max=90)
def move_chosen_killed():
    if not suite.options.broker:
        raise Skip("needs a broker that it may stop (--broker)")
    management_beyond.chosen_killed(suite.options.broker, api_of, vhost_of)


@suite.case("move-large", "a message of 20 MiB, where that is permitted, looked at, got and moved", "200 each; it is where it was to go")
def move_large():
    if not suite.options.broker:
        raise Skip("needs settings of its own (--broker)")
    management_beyond.large(suite.options.broker, api_of, vhost_of)


for KIND in ("classic", "quorum"):
    for NAME, WORK, GIVEN, EXPECTED in (
        ("some", management_windows.some, "600 messages moved to an exchange that takes every third one, by position and all",
         "those move, in order; the others stay where they were"),
        ("full", management_windows.full, "600 messages moved to a queue that takes a hundred and refuses more",
         "the first ones move, in order; those that are refused stay where they were"),
        ("gaps", management_windows.gaps,
         "positions of a queue with x-max-unsettled 5 moved, deleted and rejected, of which every third has no message",
         "the others go, in order; each that is missing is named"),
    ):
        suite.add(f"move-{NAME}.{KIND}", f"{GIVEN}, {KIND} queue", EXPECTED,
                  lambda work=WORK, kind=KIND: in_vhost(work, kind), 60)


@suite.case("move-first", "the first 7 of 300 messages of a queue with x-max-unsettled 5 moved, then 100, then 150 at 60 a second",
            "so many, in order; never more at once than the rate permits")
def move_first():
    with beyond() as vhost:
        management_windows.first(vhost)


@suite.case("move-nowhere", "600 messages of a quorum queue with x-delivery-limit 1 moved to an exchange that is not there, and to one that "
            "takes none", "400 with 404 NOT_FOUND, and 200; all are where they were, and no delivery counts as failed")
def move_nowhere():
    with beyond() as vhost:
        management_windows.nowhere(vhost)


@suite.case("redrive-some", "600 messages sent back, every second of which never died", "those that died are back, in order; the others stay",
            seconds_max=60)
def redrive_some():
    with beyond() as vhost:
        management_windows.origins(vhost)


@suite.case("move-too-large", "300 messages moved of which one is larger than a new max_message_size, three times",
            "400; those in front of it move, and once; the others stay")
def move_too_large():
    if not suite.options.broker:
        raise Skip("needs settings of its own (--broker)")
    management_windows.too_large(suite.options.broker, api_of, vhost_of)


@suite.case("move-large-many", "600 small messages and 40 of 4 MiB behind them moved",
            "all of them, in order; memory is less than half of what they have")
def move_large_many():
    if not suite.options.broker:
        raise Skip("needs a broker of its own (--broker)")
    management_windows.large(suite.options.broker, api_of, vhost_of)


@suite.case("move-alarmed", "30,000 messages moved, an alarm meanwhile", "500 with how many moved; the others are back, and none comes twice "
            "when the alarm is over", seconds_max=90)
def move_alarmed():
    if not suite.options.broker:
        raise Skip("needs a broker whose limits it chooses (--broker)")
    management_windows.alarmed(suite.options.broker, api_of, vhost_of)


@suite.case("redrive-killed", "the broker killed while messages go back", "each is in one of both queues at least",
            seconds_max=90)
def redrive_killed():
    if not suite.options.broker:
        raise Skip("needs a broker that it may stop (--broker)")
    management_beyond.killed(suite.options.broker, api_of, vhost_of)


@suite.case("alarm", "publishing, moving, the aliveness test and getting while an alarm holds",
            "moving is refused at once with 503; the others go on")
def alarm():
    if not suite.options.broker:
        raise Skip("needs a broker whose limits it chooses (--broker)")
    management_beyond.alarmed(suite.options.broker, api_of, vhost_of)


@suite.case("redrive-stopped", "the broker stopped while messages go back slowly",
            "it stops within seconds; each is in one of both queues", seconds_max=90)
def redrive_stopped():
    if not suite.options.broker:
        raise Skip("needs a broker that it may stop (--broker)")
    management_beyond.stopped(suite.options.broker, api_of, vhost_of)


@suite.case("events", "listening to events while messages are published, and what is not for everybody to hear",
            "an event a second with rates of all and of the queues that are named; 401, 404, 400; it ends with its user")
def events():
    with beyond() as vhost:
        management_beyond.heard(vhost)


@suite.case("events-stopped", "the broker stopped while clients listen to events", "it stops within seconds; streams end")
def events_stopped():
    if not suite.options.broker:
        raise Skip("needs a broker that it may stop (--broker)")
    management_beyond.unheard(suite.options.broker, api_of, vhost_of)


@suite.case("route", "where a message would go", "the queues, and of each binding whether and why not; no message anywhere")
def route():
    with beyond() as vhost:
        management_beyond.routed(vhost)


def add_options(parser):
    parser.add_argument("--broker", default="", help="path of a leveret binary to start")


if __name__ == "__main__":
    suite.main(add_options)
