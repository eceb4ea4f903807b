"""Metrics after a short mixed load; `python -m suites.metrics_suite --uri URI --broker BINARY`.

Starts a broker of its own (--broker), or takes the one at --uri whose metrics are at --metrics and whose stream clients connect to
--stream-port. What RabbitMQ tells was written down by `metrics_record.py`.
"""

import atexit
import json
import re
import time

from lab.broker import Broker
from lab.cases import Skip, Suite, Uri, equal, eventually
from suites.metrics_load import BODY, DEAD, DONE, PATHS, PREFETCH, STAMP, Load, Scrape
from suites.metrics_record import ANSWERS

suite = Suite("metrics")
METRICS = re.compile(rb"started Prometheus listener on \S*?:(\d+)")
# RabbitMQ brings what it tells up to date every five seconds.
WAIT_S = 25
_found = []

# Metrics of RabbitMQ that we leave out, and why.
ABSENT = [
    (r"rabbitmq(_detailed)?_raft_(?!term$|commit_latency_seconds$|snapshot_index$|last_written_index$|commit_index$"
     r"|last_applied$|max_commit_latency_seconds$).*", "of its Raft library: queues have one member and no such log"),
    (r"rabbitmq(_detailed)?_erlang_(?!uptime).*", "of Erlang's runtime"),
]
# Labels that RabbitMQ's samples have and ours do not.
LABELS = [
    (r"rabbitmq(_detailed)?_raft_.*", "RabbitMQ's are of its metadata store and of its stream coordinator too"),
    (r"rabbitmq(_detailed)?_auth_attempts.*_total", "RabbitMQ's has one sample without a protocol, whichever that stands for"),
    (r"rabbitmq(_detailed)?_queue_head_message_timestamp", "the sample is there where a message says a time"),
]
# Families by the names that dashboards and alerts ask for, which a scrape of all has with a value after the load.
NAMED = """
    identity_info build_info erlang_uptime_seconds connections channels queues connections_opened_total
    connections_closed_total channels_opened_total channels_closed_total queues_declared_total queues_created_total
    queues_deleted_total queue_messages_ready queue_messages_unacked global_publishers global_consumers
    global_messages_received_total global_messages_received_confirm_total global_messages_confirmed_total
    global_messages_routed_total global_messages_unroutable_dropped_total global_messages_unroutable_returned_total
    global_messages_delivered_total global_messages_delivered_consume_auto_ack_total
    global_messages_delivered_consume_manual_ack_total global_messages_delivered_get_auto_ack_total
    global_messages_delivered_get_manual_ack_total global_messages_get_empty_total global_messages_redelivered_total
    global_messages_acknowledged_total message_size_bytes_bucket message_size_bytes_count message_size_bytes_sum
    process_open_fds process_max_fds process_resident_memory_bytes resident_memory_limit_bytes disk_space_available_bytes
    disk_space_available_limit_bytes raft_term raft_commit_latency_seconds raft_snapshot_index raft_last_written_index
    raft_commit_index raft_log_snapshot_index raft_log_last_written_index raft_log_commit_index
    global_messages_dead_lettered_maxlen_total global_messages_dead_lettered_expired_total
    global_messages_dead_lettered_rejected_total global_messages_dead_lettered_delivery_limit_total
    global_messages_dead_lettered_confirmed_total alarms_free_disk_space_watermark alarms_memory_used_watermark
    unreachable_cluster_peers_count auth_attempts_total auth_attempts_succeeded_total auth_attempts_failed_total
    queue_messages queue_consumers queue_consumer_capacity queue_consumer_utilisation queue_process_memory_bytes
    queue_messages_ram queue_messages_persistent queue_messages_bytes queue_messages_ready_bytes
    queue_messages_unacked_bytes queue_disk_reads_total queue_disk_writes_total stream_segments
    stream_consumer_max_offset_lag io_read_ops_total io_write_ops_total io_sync_ops_total io_seek_ops_total
    io_read_time_seconds_total io_write_time_seconds_total io_sync_time_seconds_total io_seek_time_seconds_total
    io_read_bytes_total io_write_bytes_total
    leveret_publish_to_commit_seconds_count leveret_commit_to_deliver_seconds_count leveret_deliver_to_settle_seconds_count
    leveret_flush_seconds_count leveret_flush_longest_seconds leveret_commit_bytes_count leveret_turn_seconds_count
    leveret_turn_longest_seconds
    leveret_turn_work_units
    leveret_turn_work_units_total
    leveret_held_back_total leveret_places leveret_places_taken leveret_places_refused_total
""".split() + [f"global_stream_error_{what}_total" for what in """
    access_refused authentication_failure frame_too_large internal_error precondition_failed publisher_does_not_exist
    sasl_authentication_failure_loopback sasl_challenge sasl_error sasl_mechanism_not_supported stream_already_exists
    stream_does_not_exist stream_not_available subscription_id_already_exists subscription_id_does_not_exist unknown_frame
    vhost_access_failure""".split()]
OURS = ("leveret_", "raft_log_")


class Bench:
    """A broker after the load, and its metrics before and after."""

    def __init__(self, base, uri, stream_port, is_ours):
        self.base, self.is_ours = base, is_ours
        self.before = Scrape(base)
        self.load = Load(uri, stream_port, f"metrics-{time.time_ns():x}")
        atexit.register(self.load.close)
        self.load.run()
        eventually(lambda: self.grown("global_messages_received_total", protocol="stream") == 10
                   and self.queue("queue_messages_unacked", "quorum"), "the load's metrics", WAIT_S, 0.5)
        if not is_ours:
            time.sleep(WAIT_S / 2)

    def grown(self, name, **labels):
        return (Scrape(self.base).sum(name, **labels) or 0) - (self.before.sum(name, **labels) or 0)

    def queue(self, name, kind):
        return Scrape(self.base, "/per-object").sum(name, queue=self.load.names[kind])


def bench():
    if not _found:
        _found.append(None)
        if suite.options.broker:
            broker = Broker(suite.options.broker, [
                "prometheus.tcp.ip=127.0.0.1", "prometheus.tcp.port=0", "stream.listeners.tcp.1=127.0.0.1:0",
                "stream.advertised_host=127.0.0.1"])
            broker.start()
            atexit.register(broker.close)
            base = f"http://127.0.0.1:{broker.port_of(METRICS, 'metrics')}"
            _found[0] = Bench(base, Uri(broker.uri), broker.stream_port(), True)
        elif suite.options.metrics:
            _found[0] = Bench(suite.options.metrics, suite.uri, suite.options.stream_port, False)
    if _found[0] is None:
        raise Skip("needs --broker, or --metrics with the base URI of the metrics")
    return _found[0]


def excused(name, rows):
    return any(re.fullmatch(pattern, name) for pattern, _ in rows)


@suite.case("names", "every family of RabbitMQ's, at each path", "there, with its type, its labels and its form of numbers", 60)
def names():
    with open(ANSWERS, encoding="utf-8") as file:
        answers = json.load(file)
    wrong = []
    for endpoint, path in PATHS.items():
        ours = Scrape(bench().base, path).shapes()
        for name, (kind, labels, form) in answers[endpoint].items():
            if excused(name, ABSENT):
                continue
            if name not in ours:
                wrong.append(f"{endpoint}: {name} is missing")
                continue
            own_kind, own_labels, own_form = ours[name]
            if own_kind != kind:
                wrong.append(f"{endpoint}: {name} is a {own_kind}, not a {kind}")
            if name.endswith("build_info"):
                labels = [sorted([*labels[0], "product_name", "product_version"])] if bench().is_ours else labels
            absent = [each for each in labels if each not in own_labels]
            if absent and not excused(name, LABELS):
                wrong.append(f"{endpoint}: {name} has labels {own_labels}, not {absent}")
            if form == "real" and own_form == "whole":
                wrong.append(f"{endpoint}: {name} has no fractions")
    equal(wrong, [])


@suite.case("named", "every metric that dashboards and alerts ask for", "there with a value", 60)
def named():
    scrape = Scrape(bench().base)
    wanted = [name for name in NAMED if bench().is_ours or not name.startswith(OURS)]
    # RabbitMQ tells some of each queue alone.
    each = Scrape(bench().base, "/per-object")
    missing = [name for name in wanted if scrape.sum(name) is None and each.sum(name) is None]
    equal(missing, [])
    equal(each.sum("queue_head_message_timestamp", queue=bench().load.names["classic"]), float(STAMP))
    impossible = [name for name in wanted if name != "raft_snapshot_index" and (scrape.sum(name) or 0) < 0]
    equal(impossible, [])
    nothing = [name for name in (
        "identity_info", "build_info", "erlang_uptime_seconds", "connections", "channels", "queues", "connections_opened_total",
        "queues_created_total", "process_open_fds", "process_max_fds", "process_resident_memory_bytes",
        "resident_memory_limit_bytes", "disk_space_available_bytes", "disk_space_available_limit_bytes", "raft_term",
        "queue_process_memory_bytes", "stream_segments") if not scrape.sum(name)]
    equal(nothing, [])


@suite.case("sums", "what was published, by protocol", "received = routed + unroutable; confirmed; sizes; as many as the load did", 60)
def sums():
    for protocol, counts in DONE.items():
        for name, count in counts.items():
            # RabbitMQ routes nothing for publishers to streams.
            told = 0 if (protocol, name) == ("stream", "routed") and not bench().is_ours else count
            equal(bench().grown(f"global_messages_{name}_total", protocol=protocol), told, f"{name} {protocol}")
        equal(bench().grown("message_size_bytes_count", protocol=protocol),
              0 if protocol == "stream" and not bench().is_ours else counts["received"])
        equal(counts["received"], counts["routed"] + counts["unroutable_returned"] + counts["unroutable_dropped"])
    equal(bench().grown("message_size_bytes_sum", protocol="amqp091"), 31 * len(BODY) + 3)
    equal(bench().grown("message_size_bytes_bucket", protocol="amqp091", le="100.0" if bench().is_ours else "100"), 3)


@suite.case("taken", "what was delivered, got, settled and dead-lettered, by protocol and type of queue",
            "as many as the load did; a sum is its parts", 60)
def taken():
    def grown(name, **labels):
        return bench().grown(f"global_messages_{name}_total", **labels)

    classic, quorum = "rabbit_classic_queue", "rabbit_quorum_queue"
    equal(grown("delivered_get_manual_ack", protocol="amqp091", queue_type=classic), 2 + DEAD)
    equal(grown("delivered_get_auto_ack", protocol="amqp091", queue_type=classic), 1)
    equal(grown("acknowledged", protocol="amqp091", queue_type=classic), 1)
    equal(grown("delivered_consume_manual_ack", protocol="amqp091", queue_type=quorum) >= PREFETCH, True)
    equal(grown("redelivered", protocol="amqp091", queue_type=quorum) >= 1, True)
    equal(grown("acknowledged", protocol="amqp10", queue_type=classic) >= 4, True)
    equal(grown("dead_lettered_rejected", queue_type=classic, dead_letter_strategy="at_most_once"), DEAD)
    for protocol in ("amqp091", "amqp10"):
        parts = [grown(f"delivered_{how}_ack", protocol=protocol)
                 for how in ("consume_manual", "consume_auto", "get_manual", "get_auto")]
        equal(grown("delivered", protocol=protocol), sum(parts), protocol)


@suite.case("queues", "what is told of each queue", "depths and bytes that agree; one of each type", 60)
def queues():
    for kind, size in (("classic", len(BODY)), ("quorum", len(BODY))):
        ready, held, depth = (bench().queue(f"queue_messages{what}", kind) for what in ("_ready", "_unacked", ""))
        equal(ready + held, depth, kind)
        for what, messages in (("ready_", ready), ("unacked_", held), ("", depth)):
            told = bench().queue(f"queue_messages_{what}bytes", kind)
            # A quorum queue counts properties too.
            equal(messages * size <= told <= messages * (size + 60), True, f"{kind} {what}{told} of {messages}")
    equal(bench().queue("queue_messages_unacked", "quorum") > 0, True)
    types = {labels["queue"]: labels["queue_type"] for name, labels, _ in Scrape(bench().base, "/per-object").samples
             if name == "rabbitmq_queue_info"}
    for kind in ("classic", "quorum", "stream"):
        equal(types[bench().load.names[kind]], f"rabbit_{kind}_queue")


@suite.case("channels", "what is told of a channel by exchange and by queue", "sums are those of the channel", 60)
def channels():
    load = bench().load
    exchanges = Scrape(bench().base, "/detailed?family=channel_exchange_metrics")
    for exchange, counts in ((load.names["x"], (7, 7, 1, 2)), ("", (27, 27, 0, 0))):
        for name, count in zip(("published", "confirmed", "unroutable_returned", "unroutable_dropped"), counts):
            equal(exchanges.sum(f"detailed_channel_messages_{name}_total", exchange=exchange), count, f"{name} {exchange}")
    taken_from = Scrape(bench().base, "/detailed?family=channel_queue_metrics")
    own = {name: taken_from.sum(f"detailed_channel_{name}_total", queue=load.names["classic"]) for name in
           ("get_ack", "get", "messages_delivered_ack")}
    equal((own["get_ack"], own["get"], own["messages_delivered_ack"]), (1 + DEAD, 1, 0))
    equal(taken_from.sum("detailed_channel_messages_acked_total", queue=load.names["quorum"]) >= 1, True)
    routed = Scrape(bench().base, "/detailed?family=channel_queue_exchange_metrics")
    equal(routed.sum("detailed_queue_messages_published_total", queue=load.names["classic"], exchange=load.names["x"]), 4)
    equal(routed.sum("detailed_queue_messages_published_total", queue=load.names["classic"], exchange=""), 9)


@suite.case("histograms", "how long messages took, beyond RabbitMQ", "each step has counted; buckets add up", 60)
def histograms():
    if not bench().is_ours:
        raise Skip("RabbitMQ has none")
    after = Scrape(bench().base)
    for name in ("publish_to_commit_seconds", "commit_to_deliver_seconds", "deliver_to_settle_seconds", "flush_seconds",
                 "commit_bytes", "turn_seconds"):
        count = after.sum(f"leveret_{name}_count")
        equal(count > 0, True, name)
        equal(after.sum(f"leveret_{name}_bucket", le="+Inf"), count, name)
        equal(after.sum(f"leveret_{name}_sum") >= 0, True, name)
    equal(bench().grown("leveret_publish_to_commit_seconds_count") >= 51, True)
    equal(0 < after.sum("leveret_flush_longest_seconds") <= after.sum("leveret_flush_seconds_sum"), True)
    equal(0 < after.sum("leveret_turn_longest_seconds") < 60, True)
    equal(0 < after.sum("leveret_look_longest_work_seconds") < 60, True)


def add_options(parser):
    parser.add_argument("--broker", default="", help="path of a leveret binary to start")
    parser.add_argument("--metrics", default="", help="base URI of the metrics of the broker at --uri")
    parser.add_argument("--stream-port", type=int, default=5552)


if __name__ == "__main__":
    suite.main(add_options)
