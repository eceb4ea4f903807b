"""Samples that are kept whether somebody asks or not."""

import json
import time

from lab.cases import equal
from suites.management_pages import ask, with_client

# Seconds between two samples.
GAP = 10


def kept(binary):
    with with_client(binary) as (_, port, connection):
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)

        def fill(count):
            for _ in range(count):
                channel.basic_publish("", "q", b"x")

        fill(5)
        connection.sleep(2.3 * GAP)
        fill(7)
        # Nobody has asked before.
        age = f"lengths_age={3 * GAP}&lengths_incr=5&msg_rates_age={3 * GAP}&msg_rates_incr=5"
        for path, lengths, stats in (("/api/overview", lambda body: body["queue_totals"], lambda body: body["message_stats"]),
                                     ("/api/queues/%2F/q", lambda body: body, lambda body: body["message_stats"])):
            begin = time.monotonic()
            status, _, data = ask(port, "GET", f"{path}?{age}")
            body = json.loads(data)
            equal((status, time.monotonic() - begin < 5), (200, True), path)
            ready = [point["sample"] for point in lengths(body)["messages_ready_details"]["samples"]]
            published = [point["sample"] for point in stats(body)["publish_details"]["samples"]]
            equal((5 in ready, 5 in published), (True, True), f"{path}: {ready} {published}")
        status, _, data = ask(port, "GET", "/api/nodes")
        memory = json.loads(ask(port, "GET", f"/api/nodes/{json.loads(data)[0]['name']}/memory")[2])["memory"]
        assert memory["mgmt_db"] > 0, memory
