"""Twelve definitions files, each in the form of its origin, and what an export has after each was imported.

Some are those of `definitions_forms`, which are small; the others are what a broker of that release exports after some years of use. All
are of the virtual host and the users that `definitions_forms` clears away.
"""

import json

from suites.definitions_forms import (CASES, LISTS, MD5, SHA, SHOVEL, UPSTREAM, VHOST, binding, exchange, hashed, parameter, permission,
                                      policy, queue, user)


def head(version):
    return {"rabbit_version": version, "rabbitmq_version": version, "product_name": "RabbitMQ", "product_version": version}


# With mirrored, lazy queues, which 4.0 no longer has.
OF_3_9 = {
    **head("3.9.29"),
    "users": [user("sha256", ["administrator"], password_hash=hashed("a-sha256", "sha256"), limits={}, **SHA),
              user("md5", [], password_hash=hashed("a-md5", "md5"), limits={"max-connections": 20}, **MD5)],
    "vhosts": [{"name": VHOST}],
    "permissions": [permission("forms-sha256"), permission("forms-md5", configure="", write="^orders$", read="^orders\\.")],
    "topic_permissions": [{"user": "forms-md5", "vhost": VHOST, "exchange": "orders", "write": "^eu\\.", "read": ".*"}],
    "parameters": [], "global_parameters": [{"name": "forms-internal_cluster_id", "value": "rabbitmq-cluster-id-5fZ1"}],
    "policies": [policy({"ha-mode": "all", "ha-sync-mode": "automatic"}, name="mirror", pattern=".*", priority=0, **{"apply-to": "all"}),
                 policy({"ha-mode": "exactly", "ha-params": 2, "queue-mode": "lazy", "max-length": 100000}, name="lazy",
                        pattern="^orders", priority=5)],
    "queues": [queue("orders.eu", arguments={"x-queue-type": "classic", "x-dead-letter-exchange": "dead"}),
               queue("orders.us", arguments={"x-queue-type": "quorum", "x-delivery-limit": 3}), queue("dead", arguments={"x-message-ttl": 86400000}),
               queue("events", arguments={"x-queue-type": "stream", "x-max-age": "7D", "x-stream-max-segment-size-bytes": 100000000})],
    "exchanges": [exchange("orders"), exchange("dead", type="fanout")],
    "bindings": [binding("orders", "orders.eu", routing_key="eu.#"), binding("orders", "orders.us", routing_key="us.#"),
                 binding("dead", "dead", routing_key=""), binding("orders", "events", routing_key="#")]}
# With shovels, an operator policy and limits.
OF_3_11 = {
    **head("3.11.28"),
    "users": [user("sha512", ["management", "policymaker"], password_hash=hashed("a-sha512", "sha512"), limits={},
                   hashing_algorithm="rabbit_password_hashing_sha512")],
    "vhosts": [{"name": VHOST, "limits": [], "metadata": {"description": "billing", "tags": ["team-b", "eu"]}}],
    "permissions": [permission("forms-sha512")], "topic_permissions": [],
    "parameters": [parameter("shovel", "to-archive", {**SHOVEL, "src-delete-after": "never", "reconnect-delay": 5}),
                   parameter("operator_policy", "cap", {"apply-to": "queues", "definition": {"max-length": 1000000}, "pattern": ".*", "priority": 0})],
    "global_parameters": [], "policies": [policy({"dead-letter-exchange": "dlx", "message-ttl": 604800000}, name="dlx", pattern="^billing\\.")],
    "queues": [queue("billing.in", arguments={"x-max-priority": 5}), queue("left", arguments={}),
               queue("billing.once", arguments={"x-single-active-consumer": True, "x-overflow": "reject-publish", "x-max-length-bytes": 1048576})],
    "exchanges": [exchange("dlx", type="direct"), exchange("billing", type="headers", arguments={"alternate-exchange": "dlx"}),
                  exchange("inner", type="topic", internal=True)],
    "bindings": [binding("billing", "billing.in", routing_key="", arguments={"x-match": "all", "country": "de", "urgent": True}),
                 binding("billing", "inner", destination_type="exchange", routing_key="", arguments={"x-match": "any", "n": 5}),
                 binding("dlx", "left", routing_key="billing.in")]}
# With federation, and classic queues of both versions.
OF_3_13 = {
    **head("3.13.7"), "rabbitmq_definition_format": "cluster", "original_cluster_name": "rabbit@mq-0", "explanation": "Definitions of cluster 'rabbit@mq-0'",
    "users": [user("sha256", ["monitoring"], password_hash=hashed("a-sha256", "sha256"), limits={"max-channels": 200}, **SHA)],
    "vhosts": [{"name": VHOST, "description": "", "tags": [], "limits": [],
                "metadata": {"description": "", "tags": [], "default_queue_type": "quorum"}}],
    "permissions": [permission("forms-sha256", configure="^$", write=".*", read=".*")], "topic_permissions": [],
    "parameters": [parameter("federation-upstream", "hq", {**UPSTREAM, "prefetch-count": 500}),
                   parameter("federation-upstream-set", "all-of-us", [{"upstream": "hq"}])],
    "global_parameters": [{"name": "forms-mqtt_port_to_vhost_mapping", "value": {"1883": VHOST}}],
    "policies": [policy({"federation-upstream-set": "all"}, name="fed", pattern="^fed\\.", **{"apply-to": "exchanges"}),
                 policy({"queue-version": 2, "max-length": 50000}, name="v2", pattern="^c\\.", **{"apply-to": "classic_queues"})],
    "queues": [queue("c.one", arguments={"x-queue-type": "classic", "x-queue-version": 1}),
               queue("c.two", arguments={"x-queue-type": "classic", "x-queue-version": 2}),
               queue("q.one", arguments={"x-queue-type": "quorum", "x-quorum-initial-group-size": 3, "x-queue-leader-locator": "balanced"}),
               queue("mqtt-subscription-sensor-7qos1", auto_delete=False, arguments={"x-queue-type": "classic", "x-expires": 86400000})],
    "exchanges": [exchange("fed.news", type="fanout"), exchange("shards", type="x-consistent-hash", arguments={"hash-header": "customer"})],
    "bindings": [binding("fed.news", "c.one", routing_key=""), binding("shards", "c.two", routing_key="1"), binding("shards", "q.one", routing_key="2"),
                 binding("amq.topic", "mqtt-subscription-sensor-7qos1", routing_key="sensors.7.#")]}
# Without mirrors, with a super stream and streams' filters.
OF_4_0 = {
    **head("4.0.9"), "rabbitmq_definition_format": "cluster", "original_cluster_name": "mq", "explanation": "Definitions of cluster 'mq'",
    "users": [user("sha256", ["administrator"], password_hash=hashed("a-sha256", "sha256"), limits={}, **SHA)],
    "vhosts": [{"name": VHOST, "limits": {"max-connections": 5000, "max-queues": 1000},
                "metadata": {"description": "orders of all shops", "tags": ["production"], "default_queue_type": "quorum"}}],
    "permissions": [permission("forms-sha256")], "topic_permissions": [], "parameters": [],
    "global_parameters": [{"name": "forms-cluster_tags", "value": {"region": "eu-central-1", "environment": "production"}}],
    "policies": [policy({"delivery-limit": 20, "dead-letter-strategy": "at-least-once", "overflow": "reject-publish",
                         "dead-letter-exchange": "dlx"}, name="safe", pattern=".*", **{"apply-to": "quorum_queues"}),
                 policy({"max-age": "1D", "max-length-bytes": 5000000000}, name="short", pattern="^shop", **{"apply-to": "streams"})],
    "queues": [queue(f"shop-{number}", arguments={"x-queue-type": "stream", "x-stream-filter-size-bytes": 32}) for number in range(3)]
              + [queue("tasks", arguments={"x-queue-type": "quorum", "x-max-in-memory-length": 10})],
    "exchanges": [exchange("shop", type="direct", arguments={"x-super-stream": True}), exchange("dlx", type="fanout"), exchange("random", type="x-random")],
    "bindings": [binding("shop", f"shop-{number}", routing_key=str(number), arguments={"x-stream-partition-order": number}) for number in range(3)]
                + [binding("random", "tasks", routing_key="")]}
# Somebody's own, with as little as RabbitMQ takes.
BY_HAND = {
    "users": [{"name": "forms-clear", "password": "a-clear", "tags": "administrator"}],
    "vhosts": [{"name": VHOST}],
    "permissions": [permission("forms-clear")],
    "queues": [{"name": "orders", "vhost": VHOST, "durable": True}, {"name": "mail", "vhost": VHOST, "durable": True, "arguments": {"x-queue-type": "quorum"}}],
    "exchanges": [{"name": "shop", "vhost": VHOST, "type": "topic", "durable": True}],
    "bindings": [{"source": "shop", "vhost": VHOST, "destination": "orders", "destination_type": "queue", "routing_key": "order.*"}],
    "policies": [{"vhost": VHOST, "name": "limit", "pattern": "^orders$", "definition": {"max-length": 10000}}]}

# By origin: the query of the import, the file, and the remarks of the answer: list, entry, and what is said of it.
FILES = {
    "RabbitMQ 3.8": ("", CASES["file of 3.8"], []),
    "RabbitMQ 3.9": ("?strip=cmq", OF_3_9, [
        ("policies", "'mirror'", "left out: it has nothing but ha-mode, ha-sync-mode"),
        ("policies", "'lazy'", "without ha-mode, ha-params, queue-mode")]),
    "RabbitMQ 3.11": ("", OF_3_11, [("parameters", "'to-archive' of component 'shovel'", "kept; shovel is not served yet")]),
    "RabbitMQ 3.12": ("", CASES["file of 3.12"], []),
    "RabbitMQ 3.13": ("?strip=cmq", OF_3_13, [
        ("parameters", "'hq' of component 'federation-upstream'", "kept; federation-upstream is not served yet"),
        ("parameters", "'all-of-us' of component 'federation-upstream-set'", "kept; federation-upstream-set is not served yet"),
        ("policies", "'fed'", "kept; federation is not served yet: federation-upstream-set has no effect"),
        ("policies", "'v2'", "without queue-version"), ("queues", "'c.one'", "without x-queue-version"),
        ("queues", "'c.two'", "without x-queue-version")]),
    "RabbitMQ 4.0": ("", OF_4_0, []),
    "RabbitMQ 4.3": ("", CASES["file of 4.3"], [
        ("parameters", "'s' of component 'shovel'", "kept; shovel is not served yet"),
        ("policies", "'fed'", "kept; federation is not served yet: federation-upstream-set has no effect")]),
    "LavinMQ": ("", CASES["file of LavinMQ"], []),
    "a hosted broker": ("", CASES["file of a hosted broker"], [
        ("parameters", "'up' of component 'federation-upstream'", "kept; federation-upstream is not served yet"),
        ("policies", "'fed'", "kept; federation is not served yet: federation-upstream has no effect")]),
    "a cluster operator": ("", CASES["file of a cluster operator"], []),
    "a chart": ("", CASES["file of a chart"], []),
    "by hand": ("", BY_HAND, []),
}


def left_out(rows, remarks, kind):
    """The keys that remarks of a list say an entry is without, by its name; None for one that is left out as a whole."""
    found = {}
    for row in remarks:
        if row["list"] == kind and row["remark"].startswith("left out"):
            found[row["entry"].strip("'")] = None
        elif row["list"] == kind and row["remark"].startswith("without "):
            found[row["entry"].strip("'")] = row["remark"].removeprefix("without ").split(", ")
    assert set(found) <= {row["name"] for row in rows}, (found, kind)
    return found


def expected(definitions, remarks):
    """What an export is to have, in today's form: nothing that the file says is away, but for what remarks name as left out."""
    lists = {key: json.loads(json.dumps(definitions.get(key, []))) for key in LISTS}
    for key, field in (("policies", "definition"), ("queues", "arguments")):
        gone = left_out(lists[key], remarks, key)
        lists[key] = [row for row in lists[key] if gone.get(row["name"], ()) is not None]
        for row in lists[key]:
            for name in gone.get(row["name"], ()):
                del row[field][name]
    for row in lists["users"]:
        tags = row.pop("tags")
        row["tags"] = [tag for tag in tags.split(",") if tag] if isinstance(tags, str) else tags
        row.setdefault("limits", {})
        # Its salt is rolled; that it logs in is looked at.
        row.pop("password", None)
        if row["name"] == "forms-clear":
            row["hashing_algorithm"] = "rabbit_password_hashing_sha256"
    limits = {row["vhost"]: row["value"] for row in lists["parameters"] if row["component"] == "vhost-limits"}
    lists["parameters"] = [row for row in lists["parameters"] if row["component"] != "vhost-limits"]
    lists["vhosts"] = [virtual_host(row, limits.get(row["name"])) for row in lists["vhosts"]]
    for row in lists["vhosts"]:
        if row["limits"]:
            lists["parameters"].append({"component": "vhost-limits", "name": "limits", "vhost": row["name"], "value": row["limits"]})
        lists["permissions"].append({"user": "guest", "vhost": row["name"], "configure": ".*", "write": ".*", "read": ".*"})
    for row in lists["queues"]:
        row.setdefault("auto_delete", False)
        row.setdefault("arguments", {})
        untyped(row)
    for row in lists["exchanges"]:
        row.setdefault("auto_delete", False)
        row.setdefault("arguments", {})
        # Said of internal ones alone.
        if row.get("internal") is False:
            del row["internal"]
    for row in lists["bindings"]:
        row.setdefault("arguments", {})
    for row in lists["policies"]:
        row.setdefault("priority", 0)
        row.setdefault("apply-to", "all")
    return ordered(lists)


def virtual_host(row, limits):
    metadata = {"description": row.get("description", ""), "tags": row.get("tags", []), "default_queue_type": "classic", **row.get("metadata", {})}
    limits = limits or row.get("limits") or {}
    return {"name": row["name"], "metadata": metadata, "limits": {name: value for name, value in limits.items() if value >= 0}}


def exported(definitions):
    """The rows of an export that are of such a file, in the form of `expected`."""
    def of_ours(row):
        return any(str(row.get(key, "")).startswith("forms") for key in ("name", "user", "vhost"))

    lists = {key: [row for row in definitions[key] if of_ours(row)] for key in LISTS}
    for row in lists["users"]:
        if row["name"] == "forms-clear":
            del row["password_hash"]
    for row in lists["queues"]:
        untyped(row)
    return ordered(lists)


def untyped(queue_row):
    """Takes away the type of a classic queue: like RabbitMQ, an export names it also where the queue was declared without one."""
    queue_row.pop("type", None)
    if queue_row["arguments"].get("x-queue-type") == "classic":
        del queue_row["arguments"]["x-queue-type"]


def ordered(lists):
    return {key: sorted(rows, key=lambda row: json.dumps(row, sort_keys=True)) for key, rows in lists.items()}
