"""Sessions of AMQP 1.0 and their links in the HTTP API."""

import urllib.parse

from lab.cases import equal, eventually
from proton import Described, Message, symbol
from proton.reactor import AtMostOnce, Filter, ReceiverOption, SenderOption
from proton.utils import BlockingConnection

# RabbitMQ lists connections every five seconds.
WAIT_S = 25
SETTLED, UNSETTLED = 1, 0


class Settles(SenderOption):
    def __init__(self, mode):
        self.mode = mode

    def apply(self, link):
        link.snd_settle_mode = self.mode


class Takes(ReceiverOption):
    def __init__(self, size):
        self.size = size

    def apply(self, link):
        link.max_message_size = self.size


def sessions(vhost):
    """Links of each kind on one session."""
    api = vhost.api
    for name, arguments in (("c", {}), ("sp ace", {}), ("q", {"x-queue-type": "quorum"}), ("s", {"x-queue-type": "stream"})):
        body = {"durable": True, "arguments": arguments}
        equal(api.status("PUT", f"/queues/{vhost.name}/{urllib.parse.quote(name)}", body), 201)
    says = {"connection_name": "ten", "product": "links"}
    ten = BlockingConnection(api.uri, allowed_mechs="PLAIN", timeout=15, virtual_host=f"vhost:{vhost.name}",
                             properties={symbol(name): value for name, value in says.items()})
    old = vhost.client()
    old.channel()
    try:
        told(vhost, ten)
        row = eventually(lambda: listed(api, vhost, "AMQP 1-0"), "the connection over 1.0", WAIT_S, 0.5)
        equal((row["client_properties"], row["auth_mechanism"], row.get("user_provided_name")), (says, "PLAIN", None))
        equal(row["container_id"], ten.container.container_id)
        equal("container_id" in eventually(lambda: listed(api, vhost, "AMQP 0-9-1"), "the other's row", WAIT_S, 0.5), False)
        name = eventually(lambda: named(api, vhost, "AMQP 0-9-1"), "the connection over 0-9-1", WAIT_S, 0.5)
        status, _, value = api.ask("GET", f"/connections/{name}/sessions")
        equal((status, value), (400, {"error": "bad_request", "reason": "connection does not use AMQP 1.0"}))
        equal(api.status("GET", "/connections/none/sessions"), 404)
    finally:
        old.close()
        ten.close()


def listed(api, vhost, protocol):
    """A connection's row, once it is filled in."""
    rows = [row for row in api.get("/connections") if row["vhost"] == vhost.name and row["protocol"] == protocol]
    return rows[0] if rows else None


def named(api, vhost, protocol):
    row = listed(api, vhost, protocol)
    return row and urllib.parse.quote(row["name"], safe="")


def told(vhost, ten):
    api = vhost.api
    sender = ten.create_sender("/queues/c", name="to-c")
    ten.create_sender("/exchanges/amq.topic/a%2Fb", name="to-x", options=Settles(SETTLED))
    ten.create_sender("/queues/sp%20ace", name="to-sp", options=Settles(UNSETTLED))
    ten.create_sender(None, name="anywhere")
    for _ in range(5):
        sender.send(Message(body=b"x", durable=True))
    ten.create_receiver("/queues/c", credit=4, name="from-c").receive(timeout=10)
    ten.create_receiver("/queues/q", credit=1, name="from-q", options=[AtMostOnce(), Takes(4321)])
    described = {"rabbitmq:stream-offset-spec": "first", "rabbitmq:stream-filter": ["a", "b"]}
    chosen = Filter({symbol(name): Described(symbol(name), value) for name, value in described.items()})
    ten.create_receiver("/queues/s", credit=10, name="from-s", options=[chosen])
    name = eventually(lambda: named(api, vhost, "AMQP 1-0"), "the connection over 1.0", WAIT_S, 0.5)
    rows = api.get(f"/connections/{name}/sessions")
    equal(len(rows), 1)
    row = rows[0]
    whole = {key for key in row if not key.endswith("_links")}
    equal(whole, {"channel_number", "handle_max", "next_incoming_id", "incoming_window", "next_outgoing_id",
                  "remote_incoming_window", "remote_outgoing_window", "outgoing_unsettled_deliveries"})
    equal((row["channel_number"], row["handle_max"], row["next_incoming_id"]), (0, 255, 5))
    # How much is given at once is each broker's own.
    own = ("credit", "delivery_count")
    incoming = [{key: value for key, value in link.items() if key not in own} for link in row["incoming_links"]]
    equal(incoming, [
        {"handle": handle, "link_name": name, "snd_settle_mode": mode, "target_address": address,
         "max_message_size": 16777216, "unconfirmed_messages": 0}
        for handle, name, mode, address in (
            (0, "to-c", "mixed", "/queues/c"), (1, "to-x", "settled", "/exchanges/amq.topic/a%2Fb"),
            (2, "to-sp", "unsettled", "/queues/sp%20ace"), (3, "anywhere", "mixed", None))])
    equal([link["delivery_count"] for link in row["incoming_links"]], [5, 0, 0, 0])
    outgoing = [{key: value for key, value in link.items() if key not in own} for link in row["outgoing_links"]]
    filters = [{"name": name, "descriptor": name, "value": value} for name, value in described.items()]
    equal(outgoing, [
        {"handle": handle, "link_name": f"from-{queue}", "source_address": f"/queues/{queue}", "queue_name": queue,
         "send_settled": settled, "max_message_size": most, "filter": found, "consumer_timeout": False}
        for handle, queue, settled, most, found in (
            (4, "c", False, "unlimited", []), (5, "q", True, 4321, []), (6, "s", False, "unlimited", filters))])
    equal(row["outgoing_unsettled_deliveries"] >= 4, True, "what the receiver has not settled")
    equal([set(found) for found in api.get(f"/connections/{name}/sessions?columns=channel_number")], [{"channel_number"}])
    equal(api.get(f"/connections/{name}/channels"), [])
