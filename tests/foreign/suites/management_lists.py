"""Lists of the HTTP API: without figures, in gzip, and in an order that is kept for a moment."""

import gzip
import json
import time

from lab.cases import equal, eventually
from suites.management_pages import JSON, Own, ask, with_client

# Queues from which on an order is kept, and the seconds for which it is.
MANY, KEPT = 2000, 5


def plain(vhost):
    """`vhost` is the suite's, with its API; the answers are RabbitMQ's."""
    api, name = vhost.api, vhost.name
    equal(api.status("PUT", f"/queues/{name}/q", {"durable": True, "arguments": {"x-max-length": 9}}), 201)
    equal(api.status("PUT", f"/exchanges/{name}/x", {"type": "topic"}), 201)
    counted = ("message_stats", "messages", "messages_ready", "memory", "consumers", "reductions", "backing_queue_status")

    def keys(path, *told):
        value = api.get(path)
        row = next(row for row in value if row["name"] in ("q", "x", name)) if isinstance(value, list) else value
        for key in told:
            equal(key in row, True, f"{path}: {key}")
        return row, [key for key in row if key in counted or key.endswith("_details")]

    queue, figures = keys(f"/queues/{name}?disable_stats=true", "vhost", "type", "durable", "arguments", "auto_delete", "exclusive")
    equal((queue["name"], figures), ("q", []))
    queue, figures = keys(f"/queues/{name}/q?disable_stats=true&enable_queue_totals=true", "arguments")
    equal(figures, [key for key in queue if key in ("messages", "messages_ready")])
    equal((queue["messages"], queue["messages_ready"], queue["messages_unacknowledged"]), (0, 0, 0))
    equal(keys(f"/exchanges/{name}/x?disable_stats=true", "type", "internal")[1], [])
    equal(keys("/vhosts?disable_stats=true", "name")[1], [])
    equal(api.get(f"/queues/{name}?disable_stats=true&columns=name,messages"), [{"name": "q"}])
    overview = api.get("/overview?disable_stats=true")
    equal([key for key in ("message_stats", "queue_totals", "churn_rates", "listeners", "contexts") if key in overview], [])
    equal((overview["disable_stats"], sorted(overview["object_totals"])), (True, ["connections", "exchanges", "queues"]))
    equal(api.get("/overview")["disable_stats"], False)
    node = api.get("/nodes?disable_stats=true")[0]
    equal([key for key in ("mem_used", "uptime", "applications") if key in node], [])
    equal(node["running"], True)


def short(binary):
    with Own(binary) as (port, metrics):
        body = json.dumps({"queues": [{"name": f"q{number:03}", "vhost": "/"} for number in range(300)]})
        equal(ask(port, "POST", "/api/definitions", {"Content-Type": JSON}, body)[0], 204)
        for where, path, headers, is_short in (
                (port, "/api/queues?columns=name", {"Accept-Encoding": "gzip"}, True),
                (port, "/api/queues?columns=name", {"Accept-Encoding": "deflate, GZIP;q=0.3"}, True),
                (port, "/api/queues?columns=name", {"Accept-Encoding": "gzip;q=0, *"}, False),
                (port, "/api/queues?columns=name", {}, False),
                (port, "/api/queues?columns=name&page=1&page_size=3", {"Accept-Encoding": "gzip"}, False),
                (port, "/api/overview", {"Accept-Encoding": "gzip"}, True),
                (port, "/api/definitions", {"Accept-Encoding": "gzip"}, False),
                (port, "/", {"Accept-Encoding": "gzip"}, True),
                (metrics, "/metrics", {"Accept-Encoding": "gzip"}, True),
                (metrics, "/metrics", {}, False)):
            status, told, data = ask(where, "GET", path, headers)
            equal((status, told.get("content-encoding")), (200, "gzip" if is_short else None), f"{path} {headers}")
            equal(told["content-length"], str(len(data)), path)
            equal("accept-encoding" in told.get("vary", ""), True if is_short else "vary" in told, path)
            whole = gzip.decompress(data) if is_short else data
            if "columns=name" in path and "page" not in path:
                equal(json.loads(whole), [{"name": f"q{number:03}"} for number in range(300)], path)
            equal(not is_short or len(data) < len(whole), True, f"{path}: {len(data)} of {len(whole)}")
        status, told, data = ask(port, "GET", "/api/x/events?count=1", {"Accept-Encoding": "gzip"})
        equal((status, told.get("content-encoding"), data[:6]), (200, None, b"event:"))


def order(binary):
    with with_client(binary) as (_, port, connection):
        body = json.dumps({"queues": [{"name": f"q{number:04}", "vhost": "/"} for number in range(MANY)]})
        equal(ask(port, "POST", "/api/definitions", {"Content-Type": JSON}, body)[0], 204)
        channel = connection.channel()
        channel.confirm_delivery()

        def fill(name, count):
            for _ in range(count):
                channel.basic_publish("", name, b"x")

        def page(query="", size=3):
            path = f"/api/queues?page=1&page_size={size}&sort=messages&sort_reverse=true&columns=name,messages{query}"
            status, _, data = ask(port, "GET", path)
            equal(status, 200, path)
            return [(row["name"], row["messages"]) for row in json.loads(data)["items"]]

        fill("q0007", 3)
        fill("q0500", 2)
        begin = time.monotonic()
        equal(page(), [("q0007", 3), ("q0500", 2), ("q1999", 0)])
        # What is shown is as of now; at which place, as of a moment ago.
        fill("q0500", 5)
        fill("q1000", 4)
        if time.monotonic() - begin < KEPT - 1:
            equal(page(), [("q0007", 3), ("q0500", 7), ("q1999", 0)])
        equal(page("&name=q1000"), [("q1000", 4)])
        eventually(lambda: page() == [("q0500", 7), ("q1000", 4), ("q0007", 3)], "the order is as of now", seconds_max=3 * KEPT)
        # A queue that is gone leaves its place, which another has when the order is made anew.
        equal(ask(port, "DELETE", "/api/queues/%2F/q0500")[0], 204)
        equal(("q0500", 7) in page(), False)
        eventually(lambda: page() == [("q1000", 4), ("q0007", 3), ("q1999", 0)], "the order is as of now", seconds_max=3 * KEPT)
