"""One process of a busy tenant, which asks the broker for dear work of one kind as fast as it can.

    python -m suites.tenants_busy KIND URI HTTP_PORT

It makes what its kind needs, says `ready`, and obeys lines of its standard input until that ends: `work SECONDS` asks
for the work and says how many operations there were; `spin SECONDS` takes as much of the processor without a word to
the broker, and says 0. All of a tenant's processes have one virtual host: policies match, and lists have, the queues
of the others.
"""

import base64
import http.client
import json
import sys
import time
import urllib.parse

import pika

# Patterns of a topic exchange, and their words; the first stands for any number of them.
PATTERNS, WORDS = 100, 24
# Bindings by headers, and their arguments.
HEADER_BINDINGS, ARGUMENTS = 200, 20
# Messages of a transaction, and the queues that they go to.
TRANSACTION_MESSAGES, TRANSACTION_QUEUES = 5_000, 1_000
# Queues that each message is copied to.
COPIES = 500
FILTERS = 24
BODY_BYTES = 30_000
# What most queues keep: their messages are work, and no store of them grows.
ONE = {"x-max-length": 1}
REQUEST_SECONDS_MAX = 60


class Tenant:
    """What a kind of work asks by: a channel, or requests over HTTP."""

    def __init__(self, uri, http_port):
        self.uri = urllib.parse.urlsplit(uri)
        self.http_port = http_port
        self.connection = self.client = None
        self.parameters = pika.URLParameters(uri)
        # A process that spins, or waits for its turn, answers no heartbeats.
        self.parameters.heartbeat = 0

    def channel(self):
        self.connection = pika.BlockingConnection(self.parameters)
        return self.connection.channel()

    def ask(self, verb, path, body=None):
        """A request that has to succeed; one connection for all of them."""
        if self.client is None:
            self.client = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=REQUEST_SECONDS_MAX)
        login = base64.b64encode(f"{self.uri.username}:{self.uri.password}".encode()).decode()
        head = {"Content-Type": "application/json", "Authorization": f"Basic {login}"}
        self.client.request(verb, f"/api{path}", None if body is None else json.dumps(body), head)
        answer = self.client.getresponse()
        said = answer.read()
        assert answer.status in (200, 201, 204), f"{verb} {path}: {answer.status} {said[:200]!r}"
        return said

    def close(self):
        if self.client:
            self.client.close()
        if self.connection:
            self.connection.close()


# Each kind makes what it needs before its first `yield`; each `yield` behind that says how many operations were done.


def patterns(tenant):
    """A topic exchange whose patterns all match, each by words of its own."""
    channel = tenant.channel()
    channel.exchange_declare("patterns", "topic", durable=True)
    channel.queue_declare("patterns", durable=True, arguments=ONE)
    for number in range(PATTERNS):
        words = ["a" if number >> at % 8 & 1 else "*" for at in range(WORDS - 2)]
        channel.queue_bind("patterns", "patterns", ".".join(["#", *words, "z"]))
    key = ".".join(["a"] * (WORDS - 1) + ["z"])
    yield 0
    while True:
        channel.basic_publish("patterns", key, b"small")
        yield 1


def headers(tenant):
    """A headers exchange none of whose bindings is for the message, which the last of its arguments alone tells."""
    channel = tenant.channel()
    channel.exchange_declare("headers", "headers", durable=True)
    channel.queue_declare("headers", durable=True, arguments=ONE)
    usual = {f"h{at:02}": at for at in range(ARGUMENTS - 1)}
    for number in range(HEADER_BINDINGS):
        channel.queue_bind("headers", "headers", "", {"x-match": "all", **usual, "number": number})
    properties = pika.BasicProperties(headers={**usual, "number": -1})
    yield 0
    while True:
        channel.basic_publish("headers", "", b"small", properties)
        yield 1


def transactions(tenant):
    """Commits: each message to the next queue, and in the next commit each to all of them."""
    channel = tenant.channel()
    channel.exchange_declare("transactions", "fanout", durable=True)
    queues = [f"transactions.{number}" for number in range(TRANSACTION_QUEUES)]
    for queue in queues:
        channel.queue_declare(queue, durable=True, arguments={"x-max-length": 10})
        channel.queue_bind(queue, "transactions")
    channel.tx_select()
    yield 0
    while True:
        for at in range(TRANSACTION_MESSAGES):
            channel.basic_publish("", queues[at % TRANSACTION_QUEUES], b"small")
        channel.tx_commit()
        yield 1
        for at in range(TRANSACTION_MESSAGES):
            channel.basic_publish("transactions", "", b"small")
        channel.tx_commit()
        yield 1


def copies(tenant):
    """A fanout exchange with many queues."""
    channel = tenant.channel()
    channel.exchange_declare("copies", "fanout", durable=True)
    for number in range(COPIES):
        channel.queue_declare(f"copies.{number}", durable=True, arguments=ONE)
        channel.queue_bind(f"copies.{number}", "copies")
    yield 0
    while True:
        channel.basic_publish("copies", "", b"small")
        yield 1


def declarations(tenant):
    """Queues of two types, exchanges and bindings, which come and go."""
    channel = tenant.channel()
    yield 0
    while True:
        for kind in ("classic", "quorum"):
            channel.exchange_declare("declared", "topic", durable=True)
            for number in range(10):
                channel.queue_declare(f"declared.{number}", durable=True, arguments={"x-queue-type": kind})
                channel.queue_bind(f"declared.{number}", "declared", f"a.{number}.*")
                yield 2
            channel.queue_unbind("declared.0", "declared", "a.0.*")
            channel.exchange_delete("declared")
            for number in range(10):
                channel.queue_delete(f"declared.{number}")
                yield 1
            yield 3


def policies(tenant):
    """Policies that count for all queues of the tenant, which come, change and go."""
    vhost = tenant.uri.path[1:]
    yield 0
    while True:
        for number in range(5):
            for length in (1_000, 2_000):
                tenant.ask("PUT", f"/policies/{vhost}/busy-{number}", {
                    "pattern": "^(transactions|copies|.*[a-z]).*[0-9]$", "definition": {"max-length": length + number},
                    "priority": number, "apply-to": "queues"})
                yield 1
        for number in range(5):
            tenant.ask("DELETE", f"/policies/{vhost}/busy-{number}")
            yield 1


def lists(tenant):
    """All queues in one answer, and a page of those that a pattern finds, sorted."""
    vhost = tenant.uri.path[1:]
    page = "page=1&page_size=500&sort=messages&sort_reverse=true&use_regex=true&name=.*1.*"
    yield 0
    while True:
        rows = json.loads(tenant.ask("GET", f"/queues/{vhost}"))
        assert isinstance(rows, list)
        yield 1
        tenant.ask("GET", f"/queues/{vhost}?{page}")
        yield 1


def bodies(tenant):
    """Large bodies, which filters of bindings look into, and then those of as many readers of a stream."""
    channel = tenant.channel()
    channel.exchange_declare("bodies", "x-content", durable=True)
    for number in range(FILTERS):
        channel.queue_declare(f"bodies.{number}", durable=True, arguments=ONE)
        # Half of them are true; all are known at the end of the body alone.
        end = "yes" if number % 2 else "no"
        wanted = f"body.legs.venue = 'V{number:02}' AND body.total > {number} AND body.end = '{end}'"
        channel.queue_bind(f"bodies.{number}", "bodies", "", {"x-filter": wanted})
    channel.queue_declare("bodies.stream", durable=True, arguments={
        "x-queue-type": "stream", "x-max-length-bytes": 100_000_000, "x-stream-max-segment-size-bytes": 10_000_000})
    channel.queue_bind("bodies.stream", "bodies")
    channel.basic_qos(prefetch_count=10)
    for number in range(FILTERS):
        # Nothing is for them: this process publishes all the time, and reads nothing.
        wanted = f"body.legs.venue = 'V{number:02}' AND body.end = 'never'"
        channel.basic_consume("bodies.stream", lambda *_delivery: None, arguments={"x-filter": wanted})
    leg = {"venue": "", "price": 120.5, "note": "n" * 60}
    count = BODY_BYTES // len(json.dumps(leg | {"venue": "V00"}))
    legs = [leg | {"venue": f"V{at % FILTERS:02}"} for at in range(count)]
    body = json.dumps({"id": 1, "legs": legs, "total": 1_000, "end": "yes"}).encode()
    properties = pika.BasicProperties(content_type="application/json")
    yield 0
    while True:
        channel.basic_publish("bodies", "", body, properties)
        yield 1


KINDS = {kind.__name__: kind for kind in (
    patterns, headers, transactions, copies, declarations, policies, lists, bodies)}


def main(kind, uri, http_port):
    tenant = Tenant(uri, http_port)
    work = KINDS[kind](tenant)
    next(work)
    print("ready", flush=True)
    for line in sys.stdin:
        order, seconds = line.split()
        ends, done = time.monotonic() + float(seconds), 0
        while time.monotonic() < ends:
            if order == "work":
                done += next(work)
        print(done, flush=True)
    tenant.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
