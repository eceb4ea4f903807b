"""Web pages and the HTTP API: what they may change, what browsers are told, names that a node goes by, paths below a prefix.

RabbitMQ takes what any page sends. What browsers are told of pages that the operator named is RabbitMQ's: `TOLD`, written down from
a node with `SETTINGS`, which asked `--admin` has to have where the case `page-answers` is to run against RabbitMQ.
"""

import base64
import contextlib
import hashlib
import json
import re
import socket
from http.client import HTTPConnection

import pika
from lab.broker import Broker
from lab.cases import equal

HTTP = re.compile(rb"started HTTP listener on \S*?:(\d+)")
METRICS = re.compile(rb"started Prometheus listener on \S*?:(\d+)")
SETTINGS = ["management.cors.allow_origins.1=https://ours.example", "management.cors.max_age=77"]
OWN = ["management.tcp.ip=127.0.0.1", "management.tcp.port=0", "prometheus.tcp.ip=127.0.0.1", "prometheus.tcp.port=0"]
OURS, EVIL = "https://ours.example", "https://evil.example"
GUEST = base64.b64encode(b"guest:guest").decode()
JSON, FORM, TEXT, PARTS = "application/json", "application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=b"
ALLOWED = {"access-control-allow-origin": OURS, "access-control-allow-credentials": "true"}
QUEUE = "HEAD, GET, PUT, DELETE, OPTIONS"
# Method, path, headers of the request: headers of the answer that begin with `access-control`, and its status.
TOLD = [
    ("GET", "/whoami", {"Origin": OURS}, ALLOWED, 200),
    ("GET", "/whoami", {"Origin": EVIL}, {}, 200),
    ("GET", "/whoami", {"Origin": "null"}, {}, 200),
    ("GET", "/whoami", {"Origin": OURS, "Authorization": ""}, ALLOWED, 401),
    ("GET", "/none-such", {"Origin": EVIL}, {}, 404),
    ("PUT", "/queues/%2F/pages-q", {"Origin": OURS}, ALLOWED, 201),
    ("DELETE", "/queues/%2F/pages-q", {"Origin": OURS}, ALLOWED, 204),
    ("OPTIONS", "/queues/%2F/x", {"Origin": OURS}, {**ALLOWED, "access-control-allow-methods": QUEUE, "access-control-max-age": "77"}, 200),
    ("OPTIONS", "/overview", {"Origin": OURS}, {**ALLOWED, "access-control-allow-methods": "HEAD, GET, OPTIONS", "access-control-max-age": "77"}, 200),
    ("OPTIONS", "/none-such", {"Origin": OURS}, {**ALLOWED, "access-control-allow-methods": "HEAD, GET, OPTIONS", "access-control-max-age": "77"}, 200),
    ("OPTIONS", "/queues/%2F/x", {"Origin": EVIL}, {}, 200),
    ("OPTIONS", "/queues/%2F/x", {}, {}, 200),
    # RabbitMQ's time for which a browser may remember is lost where the browser names headers.
    ("OPTIONS", "/queues/%2F/x", {"Origin": OURS, "Access-Control-Request-Headers": "authorization, content-type"},
     {**ALLOWED, "access-control-allow-methods": QUEUE, "access-control-allow-headers": "authorization, content-type"}, 200),
]
LATE = "access-control-max-age"


def ask(port, method, path, headers=(), body=None):
    """Status, headers and body of one request as guest; a header without a value is not sent."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        head = {"Authorization": "Basic " + GUEST, **dict(headers)}
        connection.request(method, path, body, {name: value for name, value in head.items() if value})
        response = connection.getresponse()
        data = response.read()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, data
    finally:
        connection.close()


def raw(port, text):
    """The status that these bytes are answered with."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(text)
        line = client.makefile("rb").readline()
    return int(line.split()[1])


class Own:
    """A broker with these settings, and the ports of its HTTP API and metrics."""

    def __init__(self, binary, settings=()):
        self.broker = Broker(binary, [*OWN, *settings])

    def __enter__(self):
        self.broker.start()
        return self.broker.port_of(HTTP, "HTTP"), self.broker.port_of(METRICS, "metrics")

    def __exit__(self, *_):
        self.broker.close()


@contextlib.contextmanager
def with_client(binary):
    """A broker, the port of its HTTP API, and a connection to it."""
    own = Own(binary)
    with own as (port, _), contextlib.closing(pika.BlockingConnection(pika.URLParameters(own.broker.uri))) as connection:
        yield own.broker, port, connection


def answers(port):
    for method, path, headers, told, status in TOLD:
        got, heads, _ = ask(port, method, "/api" + path, headers)
        found = {name: value for name, value in heads.items() if name.startswith("access-control")}
        if "Access-Control-Request-Headers" in headers:
            found.pop(LATE, None)
        equal((got, found), (status, told), f"{method} {path} {headers}")
        equal("origin" in heads.get("vary", ""), True, f"{method} {path} {headers}")


def has_settings(port):
    """Whether the node that is asked lets in the page that the case is about."""
    return "access-control-allow-origin" in ask(port, "GET", "/api/whoami", {"Origin": OURS})[1]


def changes(port):
    """Each page tries to make a user, in each way that a browser has."""
    user = json.dumps({"users": [{"name": "pages-u", "password": "x", "tags": "administrator"}]})
    mine = f"http://127.0.0.1:{port}"
    pages = [
        ({}, True), ({"Origin": EVIL}, False), ({"Origin": "null"}, False), ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False), ({"Sec-Fetch-Site": "same-site", "Origin": mine}, False), ({"Origin": mine}, True),
        ({"Origin": f"http://127.0.0.1:{port + 1}"}, False), ({"Origin": f"http://localhost:{port}"}, False),
        ({"Origin": f"http://[::1]:{port}"}, False), ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, True),
        ({"Sec-Fetch-Site": "none"}, True), ({"Origin": OURS}, True), ({"Origin": OURS, "Sec-Fetch-Site": "cross-site"}, True),
        ({"Origin": EVIL, "X-HTTP-Method-Override": "GET"}, False), ({"Origin": f"http://127.0.0.1:{port}@evil.example"}, False),
    ]
    wrong = []
    for page, passes in pages:
        for kind in (JSON, FORM, TEXT, ""):
            status = ask(port, "POST", "/api/definitions", {**page, "Content-Type": kind}, user)[0]
            there = ask(port, "GET", "/api/users/pages-u")[0] == 200
            if there:
                ask(port, "DELETE", "/api/users/pages-u")
            # A request that is let in still needs the content type JSON.
            let_in = (204, True) if kind == JSON else (415, False)
            if (status, there) != (let_in if passes else (403, False)):
                wrong.append(f"{page} {kind}: {status}, {'made' if there else 'not made'}")
        for method, path, well in (("PUT", "/api/vhosts/pages-v", (201, 204)), ("DELETE", "/api/vhosts/pages-v", (204, 404)),
                                   ("POST", "/api/rebalance/queues", (204,))):
            status = ask(port, method, path, page)[0]
            if (status in well) != passes or (status == 403) == passes:
                wrong.append(f"{method} {path} {page}: {status}")
        # Nobody reads what is not told to pages; a method is what the request says it is.
        if ask(port, "GET", "/api/whoami", {**page, "X-HTTP-Method-Override": "DELETE"})[0] != 200:
            wrong.append(f"GET {page}")
    equal(wrong, [])
    ask(port, "DELETE", "/api/vhosts/pages-v")


def names(port, metrics):
    """Guest comes from this machine, by a name of it; so do those who read metrics there."""
    login = b"Authorization: Basic " + GUEST.encode() + b"\r\n"
    rows = [
        (b"localhost", 200), (b"LOCALHOST.:15672", 200), (b"127.0.0.1", 200), (b"[::1]:15672", 200), (b"10.9.8.7:80", 200),
        (socket.gethostname().encode(), 200), (b"named.example", 200), (b"", 200), (b"evil.example:15672", 403),
        (b"localhost.evil.example", 403), (b"127.0.0.1.evil.example", 403), (b"guest@localhost", 400), (b"localhost:x", 400),
        (b"local host", 400), (b"localhost\r\nHost: localhost", 400), (b"localhost\r\nHost: evil.example", 400),
    ]
    for host, status in rows:
        for version in (b"1.1", b"1.0"):
            head = b" HTTP/" + version + b"\r\nHost: " + host + b"\r\n"
            equal(raw(port, b"GET /api/whoami" + head + login + b"\r\n"), status, host)
            equal(raw(metrics, b"GET /metrics" + head + b"\r\n"), status, host)
    # A form that names the user.
    form = b"username=guest&password=guest"
    for host, status in ((b"localhost", 200), (b"evil.example", 401)):
        head = b"POST /api/login HTTP/1.1\r\nHost: " + host + b"\r\nContent-Type: " + FORM.encode() + b"\r\nContent-Length: "
        equal(raw(port, head + str(len(form)).encode() + b"\r\n\r\n" + form), status, host)
    equal(raw(port, b"GET /api/whoami HTTP/1.1\r\n" + login + b"\r\n"), 400)
    equal(raw(port, b"GET /api/whoami HTTP/1.0\r\n" + login + b"\r\n"), 200)
    for target, status in ((b"http://localhost", 200), (b"http://evil.example", 400), (b"http://guest:guest@localhost", 400)):
        equal(raw(port, b"GET " + target + b"/api/whoami HTTP/1.1\r\nHost: localhost\r\n" + login + b"\r\n"), status, target)
    # Users that may come from everywhere are let in by any name.
    ask(port, "PUT", "/api/users/pages-n", {"Content-Type": JSON}, json.dumps({"password": "n", "tags": "management"}))
    other = {"Authorization": "Basic " + base64.b64encode(b"pages-n:n").decode(), "Host": "evil.example"}
    equal(ask(port, "GET", "/api/whoami", other)[0], 200)
    ask(port, "DELETE", "/api/users/pages-n")


def heads(port, metrics):
    """Headers of answers for browsers and for caches."""
    rows = [
        ("GET", "/api/overview", "no-cache"), ("GET", "/api/users", "no-store"), ("GET", "/api/users/guest", "no-store"),
        ("GET", "/api/users/none-such", "no-store"), ("GET", "/api/definitions", "no-store"), ("GET", "/api/definitions/%2F", "no-store"),
        ("GET", "/api/auth/hash_password/x", "no-store"), ("GET", "/api/config/effective", "no-store"),
        ("GET", "/api/parameters", "no-store"), ("GET", "/api/global-parameters", "no-store"), ("GET", "/api/none-such", "no-cache"),
        ("GET", "/none-such", "no-cache"), ("OPTIONS", "/api/users", "no-store"), ("DELETE", "/api/users/none-such", "no-store"),
    ]
    for method, path, cache in rows:
        _, told, _ = ask(port, method, path)
        equal((told.get("cache-control"), told.get("x-content-type-options")), (cache, "nosniff"), path)
        for word in ("default-src 'self'", "script-src 'self'", "object-src 'self'", "frame-ancestors 'none'"):
            equal(word in told["content-security-policy"], True, path)
    for path in ("/metrics", "/none-such"):
        _, told, _ = ask(metrics, "GET", path)
        equal((told.get("x-content-type-options"), "frame-ancestors 'none'" in told["content-security-policy"]), ("nosniff", True), path)


API_PAGES = ("/api", "/api/", "/api/index.html?x=1")


def first(port, metrics, paths):
    """The page without a login that says what there is: what is in it, and that a browser may have its style alone."""
    for path in paths:
        status, told, body = ask(port, "GET", path, {"Authorization": "", "Host": "localhost:1"})
        equal((status, told.get("content-type"), told.get("cache-control")), (200, "text/html; charset=utf-8", "no-cache"), path)
        text = body.decode()
        for part in ("<h1>Leveret 0.", "docs/guide", 'href="/api/x/openapi.json"', f'href="http://localhost:{metrics}/metrics"'):
            equal(part in text, True, f"{path}: {part}")
        style = re.search("<style>(.*?)</style>", text, re.DOTALL).group(1)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        policy = [rule.strip() for rule in told["content-security-policy"].split(";")]
        for rule in ("default-src 'none'", f"style-src 'sha256-{digest}'", "frame-ancestors 'none'", "base-uri 'none'",
                     "form-action 'none'", "require-trusted-types-for 'script'"):
            equal(rule in policy, True, f"{path}: {rule}")
        for name, value in (("x-content-type-options", "nosniff"), ("referrer-policy", "same-origin"),
                            ("cross-origin-opener-policy", "same-origin")):
            equal(told.get(name), value, f"{path}: {name}")
        equal(re.findall("<script|style=|javascript:|src=| on[a-z]+=", text), [], path)
        status, again, nothing = ask(port, "HEAD", path, {"Authorization": "", "Host": "localhost:1"})
        equal((status, nothing, again["content-security-policy"]), (200, b"", told["content-security-policy"]), path)
        equal((ask(port, "POST", path)[0], ask(port, "OPTIONS", path)[1]["allow"]), (405, "HEAD, GET, OPTIONS"), path)
    equal(ask(port, "GET", "/api/x/openapi.json", {"Authorization": ""})[0], 200)
    for path in ("/none-such", "/ui", "/api/index.htm"):
        equal(ask(port, "GET", path)[0], 404, path)


def prefix(binary):
    for said, path in (("/rabbit", "/rabbit"), ("Rabbit", "/Rabbit"), ("/a/b c/", "/a/b%20c"), ("/", "")):
        with Own(binary, [f"management.path_prefix={said}"]) as (port, metrics):
            for status, asked in (
                    (200, path + "/api/whoami"), (200, path + "/api/queues/%2F/"), (404, path + "/api/none-such"), (404, "/x" + path + "/api/whoami"),
                    (200 if not path else 404, "/api/whoami"), (404, "/" + path + "/api/whoami"), (404, path.swapcase() + "/API/whoami")):
                equal(ask(port, "GET", asked)[0], status, f"{said}: {asked}")
            equal(json.loads(ask(port, "GET", path + "/api/x/openapi.json")[2])["servers"], [{"url": path + "/api"}])
            equal(ask(metrics, "GET", "/metrics")[0], 200)
            status, told, body = ask(port, "GET", path + "/api", {"Authorization": ""})
            equal((status, f'href="{path}/api/x/openapi.json"' in body.decode()), (200, True), path)
            # Addresses in the web interface's page are below that of the page.
            status, told, body = ask(port, "GET", path + "/", {"Authorization": ""})
            equal(status, 200, path)
            module = re.search('src="(ui/[0-9a-f]+/app.js)"', body.decode()).group(1)
            equal(ask(port, "GET", f"{path}/{module}", {"Authorization": ""})[0], 200, path)
            if path:
                status, told, _ = ask(port, "GET", "/")
                equal((status, told.get("location")), (301, path + "/"))
                status, told, _ = ask(port, "GET", path)
                equal((status, told.get("location")), (301, path + "/"))
