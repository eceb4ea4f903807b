"""The event exchange: what `amq.rabbitmq.event` says of what was settled with connections, and of whose a queue is.

Asked of RabbitMQ 4.3.6 with rabbitmq_event_exchange.
"""

from proton.utils import BlockingConnection

from lab.cases import equal
from suites import pika_bench
from suites.exchanges_bench import Bench, fresh, suite
from suites.exchanges_events import Ears, named

NAME = "foreign.caller"
# Columns that are empty for a connection without TLS.
WITHOUT_TLS = ("ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash", "peer_cert_subject", "peer_cert_issuer",
               "peer_cert_validity")


def opened(ears, opens):
    """connection.created and connection.closed of the connection that `opens` opens and closes."""
    before = {headers["pid"] for _key, _properties, headers, _body in ears.hear(1, lambda headers: "pid" in headers)}
    opens()
    created, gone = ears.hear(2, lambda headers: headers.get("pid") not in {None, *before})
    equal((created[0], gone[0], created[2]["pid"]), ("connection.created", "connection.closed", gone[2]["pid"]))
    return created[2], gone[2]


@suite.case("events.settled", "a 0-9-1 connection with heartbeat 30, frame-max 8192, channel-max 10 and a name of its own",
            "connection.created with timeout, frame_max, channel_max, auth_mechanism, client_properties, user_provided_name, empty "
            "texts for what TLS would say; connection.closed with client_properties and user_provided_name")
def settled():
    with Ears("connection.*") as ears:
        # An event of which is known that it is another's.
        pika_bench.connect().close()
        created, gone = opened(ears, lambda: pika_bench.connect(
            heartbeat=30, frame_max=8192, channel_max=10, client_properties={"connection_name": NAME, "x": 5}).close())
    told = {name: created.get(name) for name in ("timeout", "frame_max", "channel_max", "auth_mechanism", "user_provided_name")}
    equal(told, {"timeout": 30, "frame_max": 8192, "channel_max": 10, "auth_mechanism": "PLAIN", "user_provided_name": NAME})
    equal([created.get(name) for name in WITHOUT_TLS], [""] * len(WITHOUT_TLS))
    for headers in (created, gone):
        properties = headers["client_properties"]
        for shown in (f'{{<<"connection_name">>,longstr,<<"{NAME}">>}}', '{<<"x">>,signedint,5}'):
            equal(shown in properties, True, f"{shown} in {properties}")
        capabilities = [text for text in properties if text.startswith('{<<"capabilities">>,table,[')]
        equal('{<<"connection.blocked">>,bool,true}' in capabilities[0], True, capabilities)
    equal(gone["user_provided_name"], NAME)


@suite.case("events.settled-10", "an AMQP 1.0 connection with a container-id, max-frame-size 32768 and properties",
            "connection.created with container_id, timeout 60, frame_max, channel_max, auth_mechanism and client_properties in "
            "0-9-1's terms; connection.closed with client_properties")
def settled_10():
    with Ears("connection.*") as ears:
        pika_bench.connect().close()
        uri = suite.uri
        created, gone = opened(ears, lambda: BlockingConnection(
            uri.text, allowed_mechs="PLAIN", timeout=15, heartbeat=None, properties={"a": "b", "n": 5}).close())
    told = {name: created.get(name) for name in ("timeout", "frame_max", "channel_max", "auth_mechanism", "protocol")}
    equal(told, {"timeout": 60, "frame_max": 32768, "channel_max": 63, "auth_mechanism": "PLAIN", "protocol": "{1,0}"})
    equal(len(created["container_id"]) > 0, True)
    for headers in (created, gone):
        equal(sorted(headers["client_properties"]), ['{<<"a">>,longstr,<<"b">>}', '{<<"n">>,long,5}'])


@suite.case("events.queue-owner", "a classic queue, an exclusive one and a quorum queue are declared",
            "queue.created with leader and members, the node, of classic queues alone; with owner_pid, which is the connection's "
            "where it is exclusive, else an empty text")
def owner():
    with Ears("queue.created", "connection.created") as ears, Bench() as desk:
        pid = ears.hear(1, lambda headers: headers.get("name", "").startswith("127.") or "pid" in headers)[0][2]["pid"]
        names = [fresh("queue") for _ in range(3)]
        desk.channel.queue_declare(names[0], durable=True, auto_delete=True)
        desk.channel.queue_declare(names[1], exclusive=True)
        desk.channel.queue_declare(names[2], durable=True, arguments={"x-queue-type": "quorum"})
        events = [event[2] for event in ears.hear(3, named(*names))]
        desk.channel.queue_delete(names[0])
        desk.channel.queue_delete(names[2])
    for headers in events[:2]:
        equal((headers["members"], "@" in headers["leader"]), ([headers["leader"]], True))
    equal([headers.get("owner_pid") for headers in events], ["", pid, None])
    equal([name in events[2] for name in ("leader", "members")], [False, False])
