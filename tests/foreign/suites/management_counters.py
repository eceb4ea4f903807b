"""Counters of messages in the HTTP API and the metrics, after a short load that is known."""

import re
import urllib.request

import pika
from lab.cases import Skip, equal, eventually

# RabbitMQ brings what it tells up to date every five seconds.
WAIT_S = 25


def load(vhost):
    """20 messages to a queue and a stranger's, 3 routed nowhere and one returned; what becomes of them. The connection stays."""
    connection = vhost.client()
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    for number in range(20):
        channel.basic_publish("", "q", b"x" * (10 if number % 2 else 2000), mandatory=True)
    for _ in range(3):
        channel.basic_publish("amq.direct", "nowhere", b"x")
    try:
        channel.basic_publish("amq.direct", "nowhere", b"x", mandatory=True)
        raise AssertionError("a message that is routed nowhere came back to nobody")
    except pika.exceptions.UnroutableError:
        pass
    channel.basic_qos(prefetch_count=8)
    tags = [method.delivery_tag for method, _, _ in
            (found for found, _ in zip(channel.consume("q", inactivity_timeout=5), range(8)))]
    channel.basic_ack(tags[5], multiple=True)
    channel.basic_nack(tags[7], multiple=True, requeue=True)
    method, _, _ = next(iter(channel.consume("q", inactivity_timeout=5)))
    return connection, channel, method


def counters(vhost):
    """By queue, channel, virtual host: counters of one load agree with it."""
    connection, channel, _ = load(vhost)
    try:
        def told():
            stats = vhost.api.get(f"/queues/{vhost.name}/q").get("message_stats", {})
            return stats if stats.get("publish") == 20 and stats.get("ack") == 6 and stats.get("redeliver", 0) >= 2 else None

        stats = eventually(told, "the counters of the queue", WAIT_S, 0.5)
        for name in ("publish", "deliver", "deliver_no_ack", "ack", "get", "get_no_ack", "redeliver", "deliver_get"):
            equal(type(stats[name + "_details"]["rate"]), float, name)
        equal(stats["deliver_get"], stats["deliver"])
        rows = eventually(lambda: [row for row in vhost.api.get(f"/vhosts/{vhost.name}/channels")
                                   if row.get("message_stats", {}).get("publish") == 24], "the channel", WAIT_S, 0.5)
        found = rows[0]
        equal((found["number"], found["confirm"], found["prefetch_count"], found["vhost"]), (1, True, 8, vhost.name))
        told = found["message_stats"]
        equal((told["confirm"], told["return_unroutable"], told["drop_unroutable"], told["ack"]), (24, 1, 3, 6))
        whole = vhost.api.get(f"/vhosts/{vhost.name}")["message_stats"]
        equal((whole["publish"], whole["confirm"]), (24, 24))
        exchange = vhost.api.get(f"/exchanges/{vhost.name}/amq.direct")["message_stats"]
        equal(exchange["publish_in"], 4)
    finally:
        connection.close()


def filters(vhost):
    """What filters of bindings were asked, by exchange; of ten messages one has no body that can be read."""
    with vhost.client() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("e", "x-content")
        for number in range(3):
            channel.queue_declare(f"q{number}")
            channel.queue_bind(f"q{number}", "e", "", {"x-filter": f"body.n + 1 > {number}"})
        for number in range(10):
            channel.basic_publish("e", "", b'{"n": 9}' if number else b'{"n": ')
        channel.basic_publish("amq.fanout", "", b'{"n": 9}')

        def told(exchange):
            return vhost.api.get(f"/exchanges/{vhost.name}/{exchange}").get("message_stats", {})

        stats = eventually(lambda: told("e") if told("e").get("publish_in") == 10 else None, "the exchange", WAIT_S, 0.5)
        equal([stats.get(f"filter_{name}") for name in ("messages", "evaluations", "unreadable")], [10, 30, 1])
        equal([name for name in told("amq.fanout") if name.startswith("filter")], [])


def listed(vhost):
    """Channels and consumers of a connection that has some."""
    connection, channel, _ = load(vhost)
    try:
        own = eventually(lambda: vhost.api.get(f"/consumers/{vhost.name}"), "the consumer is listed", WAIT_S, 0.5)
        keys = ("ack_required", "active", "exclusive", "prefetch_count", "queue", "arguments")
        equal({key: own[0][key] for key in keys},
              {"ack_required": True, "active": True, "exclusive": False, "prefetch_count": 8,
               "queue": {"name": "q", "vhost": vhost.name}, "arguments": {}})
        details = own[0]["channel_details"]
        equal((details["number"], details["peer_host"], details["name"]),
              (1, "127.0.0.1", details["connection_name"] + " (1)"))
        name = details["name"].replace(" ", "%20").replace(">", "%3E").replace(":", "%3A")
        one = eventually(lambda: vhost.api.get(f"/channels/{name}"), "the channel", WAIT_S)
        equal(len(one["consumer_details"]), 1)
        equal(vhost.api.status("GET", "/channels/none"), 404)
    finally:
        connection.close()


def parameters(vhost):
    """Limits and the operator's policies as parameters; parameters of the node."""
    name = f"p{vhost.name}"
    policy = {"pattern": "^a", "definition": {"max-length": 5}, "priority": 0, "apply-to": "queues"}
    missing = {"error": "Object Not Found", "reason": "Not Found"}
    vhost.rows([
        ("PUT", "/parameters/vhost-limits/VHOST/limits", {"value": {"max-connections": 10}}, 201),
        ("PUT", "/parameters/operator_policy/VHOST/x", {"value": policy}, 201),
        ("GET", "/parameters/operator_policy/VHOST/x", None, 200,
         {"value": policy, "vhost": "VHOST", "component": "operator_policy", "name": "x"}),
        ("DELETE", "/parameters/operator_policy/VHOST/x", None, 204),
        ("DELETE", "/parameters/operator_policy/VHOST/x", None, 404, missing),
        ("PUT", "/parameters/none-such/VHOST/x", {"value": {}}, 400,
         {"error": "bad_request", "reason": "Validation failed\n\ncomponent none-such not found\n"}),
        ("PUT", "/parameters/operator_policy/VHOST/x", {"value": {"pattern": "^a", "definition": {"max-length": 5}}}, 400,
         {"error": "bad_request", "reason": "Validation failed\n\nKey \"priority\" not found in x\n"}),
        ("PUT", "/parameters/operator_policy/VHOST/x", {"value": {}}, 400,
         {"error": "bad_request", "reason": "Validation failed\n\nKey \"definition\" not found in x\n"
          "Key \"pattern\" not found in x\nKey \"priority\" not found in x\n"}),
        ("PUT", "/parameters/operator_policy/VHOST/x", {"value": 7}, 400,
         {"error": "bad_request", "reason": "Validation failed\n\nx not a list 7\n"}),
        ("PUT", f"/global-parameters/{name}", {"name": name, "value": {"a": 1}}, 201),
        ("PUT", f"/global-parameters/{name}", {"name": name, "value": {"a": 2}}, 204),
        ("PUT", f"/global-parameters/{name}", {}, 400, {"error": "bad_request", "reason": "[{key_missing,value}]"}),
        ("DELETE", f"/global-parameters/{name}", None, 204),
        ("DELETE", f"/global-parameters/{name}", None, 404, missing),
        ("POST", "/rebalance/queues", None, 204),
    ])


def policymaker(vhost, user):
    """Parameters by who may make policies, and by who may do everything."""
    api = vhost.api
    whole = {"pattern": "^a", "definition": {"max-length": 5}, "priority": 0}
    policy = {"vhost": vhost.name, "component": "policy", "name": "p"}
    refused = (400, {"error": "bad_request", "reason": "policies may not be set using this method"})
    wanted = [
        ("PUT", "operator_policy/VHOST/o", {"value": whole}, (201, None)),
        ("DELETE", "operator_policy/VHOST/o", None, (204, None)),
        ("PUT", "vhost-limits/VHOST/limits", {"value": {"max-connections": 10}}, (201, None)),
        ("DELETE", "vhost-limits/VHOST/limits", None, (204, None)),
        ("PUT", "policy/VHOST/new", {"value": whole}, refused),
        ("PUT", "policy/VHOST/p", {"value": 7}, refused),
        ("PUT", "policy/VHOST/p", {}, (400, {"error": "bad_request", "reason": "[{key_missing,value}]"})),
        ("DELETE", "policy/VHOST/new", None, (404, {"error": "Object Not Found", "reason": "Not Found"})),
        ("GET", "policy/VHOST/p", None,
         (200, {**policy, "value": {**whole, "apply-to": "all"}})),
        ("GET", "policy/VHOST", None, (200, [{**policy, "value": {**whole, "apply-to": "all"}}])),
    ]
    try:
        equal(api.status("PUT", f"/users/{user}", {"password": user, "tags": "policymaker"}), 201)
        for name in (user, "guest"):
            api.status("PUT", f"/permissions/{vhost.name}/{name}", {"configure": "", "write": "", "read": ""})
        equal(api.status("PUT", f"/policies/{vhost.name}/p", {"pattern": "^a", "definition": {"max-length": 5}}, user=user), 201)
        for name in (user, "guest"):
            for method, path, body, expected in wanted:
                status, _, value = api.ask(method, "/parameters/" + path.replace("VHOST", vhost.name), body, user=name)
                equal((status, value), expected, f"{name}: {method} {path} {body}")
        for path in (f"/operator-policies/{vhost.name}/o", f"/vhost-limits/{vhost.name}/max-queues"):
            body = {"value": 9, "pattern": "^a", "definition": {"max-length": 5}}
            status, _, value = api.ask("PUT", path, body, user=user)
            equal((status, value), (401, {"error": "not_authorised", "reason": "Not administrator user"}), path)
        equal(api.status("GET", f"/operator-policies/{vhost.name}/o", user=user), 401)
    finally:
        api.status("DELETE", f"/users/{user}")


def metrics(vhost, port):
    """Sums of one load, between two looks at the metrics."""
    if port is None:
        raise Skip("needs --broker, whose metrics nobody else changes")

    def read():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as response:
            text = response.read().decode()
        return {name: float(value) for name, value in re.findall(r"^(rabbitmq_\S+) (\S+)$", text, re.M)}

    before = read()
    connection, _, _ = load(vhost)
    connection.close()
    protocol, queue = '{protocol="amqp091"}', '{protocol="amqp091",queue_type="rabbit_classic_queue"}'
    wanted = {
        f"global_messages_received_total{protocol}": 24,
        f"global_messages_received_confirm_total{protocol}": 24,
        f"global_messages_confirmed_total{protocol}": 24,
        f"global_messages_routed_total{protocol}": 20,
        f"global_messages_unroutable_dropped_total{protocol}": 3,
        f"global_messages_unroutable_returned_total{protocol}": 1,
        f"global_messages_acknowledged_total{queue}": 6,
        f"message_size_bytes_count{protocol}": 24,
        f"message_size_bytes_sum{protocol}": 10 * 2000 + 10 * 10 + 4,
        'message_size_bytes_bucket{protocol="amqp091",le="100.0"}': 14,
    }

    def grown():
        now = read()
        return {name: now["rabbitmq_" + name] - before["rabbitmq_" + name] for name in wanted}

    eventually(lambda: grown() == wanted, "the metrics", WAIT_S, 0.5)
    equal(before["rabbitmq_global_messages_delivered_get_auto_ack_total" + queue], 0)
