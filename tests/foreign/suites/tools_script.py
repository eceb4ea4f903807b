"""Commands for RabbitMQ's tools, one after the other; and the notes of their answers.

`python -m suites.tools_script PROGRAM AMQP_URI` runs it against a RabbitMQ and writes `tools_answers.json`: PROGRAM is called with a
tool's name and its words. What differs from one broker to the next is written the same (`plain`): names of nodes, process ids,
ports, times.
"""

import json
import os
import re
import shlex
import subprocess
import sys

import pika

ANSWERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools_answers.json")
SECONDS_MAX = 60
VHOST = "tools-v"

# Objects to be listed. The virtual host `tools-empty` has none.
BEFORE = """
add_vhost tools-v --description "d e" --tags one,two --default-queue-type classic
add_vhost tools-empty
add_user tools-u secret
set_user_tags tools-u monitoring management
add_user tools-none secret
set_permissions -p tools-v guest .* .* .*
set_permissions -p tools-v tools-u '^a|\\d+$' '' .*
set_topic_permissions -p tools-v tools-u amq.topic ^a '^b\\.'
set_policy -p tools-v limit ^q '{"max-length":10,"overflow":"reject-publish"}' --priority 7 --apply-to queues
set_policy --vhost tools-v --priority=3 --apply-to=exchanges ae ^x '{"alternate-exchange":"amq.fanout"}'
set_operator_policy -p tools-v cap ^q '{"message-ttl":60000}' --apply-to queues
set_vhost_limits -p tools-v '{"max-connections": 64, "max-queues": -1}'
set_user_limits tools-u '{"max-connections": 8}'
set_parameter -p tools-empty vhost-limits limits '{"max-queues":100}'
set_global_parameter tools-g '{"a":[1,"b",null],"c":{"d":true}}'
set_cluster_name tools
"""

AFTER = """
clear_policy -p tools-v limit
clear_operator_policy -p tools-v cap
clear_permissions -p tools-v tools-u
clear_topic_permissions -p tools-v tools-u
clear_user_limits tools-u all
clear_vhost_limits -p tools-v
clear_parameter -p tools-empty vhost-limits limits
clear_global_parameter tools-g
delete_user tools-u
delete_user tools-none
delete_vhost tools-v
delete_vhost tools-empty
"""

QUEUE = ("name durable auto_delete arguments policy pid owner_pid exclusive exclusive_consumer_pid exclusive_consumer_tag "
         "messages_ready messages_unacknowledged messages messages_ready_ram messages_unacknowledged_ram messages_ram "
         "messages_persistent message_bytes message_bytes_ready message_bytes_unacknowledged message_bytes_ram "
         "message_bytes_persistent head_message_timestamp disk_reads disk_writes consumers consumer_utilisation "
         "consumer_capacity memory state type leader members online operator_policy effective_policy_definition")
CONNECTION = ("pid name port host peer_port peer_host ssl ssl_protocol ssl_key_exchange ssl_cipher ssl_hash peer_cert_subject "
              "peer_cert_issuer peer_cert_validity state channels protocol auth_mechanism user vhost container_id timeout "
              "frame_max channel_max client_properties recv_oct recv_cnt send_oct send_cnt send_pend connected_at")
CHANNEL = ("pid connection name number user vhost transactional confirm consumer_count messages_unacknowledged "
           "messages_uncommitted acks_uncommitted messages_unconfirmed prefetch_count")

# Lists, each in every form.
LISTS = """
list_queues -p tools-v name messages durable auto_delete arguments policy type state
list_queues -p tools-empty
list_vhosts name description tags default_queue_type protected_from_deletion tracing cluster_state
list_connections client_properties
"""
# Lists in the forms that are used most.
LISTS_MOST = """
list_queues -p tools-v name effective_policy_definition operator_policy exclusive members online
list_exchanges -p tools-v name type durable auto_delete internal arguments policy
list_bindings -p tools-v
list_bindings -p tools-v source_name routing_key arguments
list_vhosts metadata
list_users
list_permissions -p tools-v
list_permissions -p tools-empty
list_user_permissions tools-u
list_topic_permissions -p tools-v
list_user_topic_permissions tools-u
list_policies -p tools-v
list_operator_policies -p tools-v
list_parameters -p tools-empty
list_parameters -p tools-v
list_global_parameters
list_vhost_limits -p tools-v
list_vhost_limits --global
list_user_limits --user tools-u
list_user_limits --user tools-none
list_user_limits --global
list_connections name user vhost protocol state channels auth_mechanism timeout frame_max channel_max ssl
list_connections client_properties user_provided_name
list_channels name number user vhost transactional confirm consumer_count messages_unacknowledged prefetch_count
list_consumers -p tools-v queue_name consumer_tag ack_required prefetch_count active activity_status arguments
list_unresponsive_queues -p tools-v
"""
FORMS_MOST = ("", "--formatter json", "--formatter csv", "--formatter pretty_table")
FORMS = ("", "-q", "-s", "-q --no-table-headers", "--formatter json", "--formatter csv", "--formatter pretty_table",
         "--formatter erlang", "--formatter json_stream", "--formatter table", "--formatter string", "--formatter inspect",
         "--formatter nonsense")
# Lists of what differs from one broker to the next.
LISTS_FEW = f"""
list_queues -p tools-v {QUEUE}
list_connections {CONNECTION}
list_channels {CHANNEL}
list_node_auth_attempt_stats
list_feature_flags
list_feature_flags name state stability provided_by desc doc_url
list_deprecated_features
list_stream_connections
list_stream_publishers -p tools-v
list_stream_consumers -p tools-v
list_stream_consumer_groups -p tools-v
rabbitmq-diagnostics list_policies_that_match -p tools-v q1
rabbitmq-diagnostics list_policies_that_match -p tools-v x1 --object-type exchange
rabbitmq-diagnostics list_policies_that_match -p tools-v none
list_policies_with_classic_queue_mirroring
list_operator_policies_with_classic_queue_mirroring
list_channel_interceptors
list_mqtt_connections
list_stomp_connections
list_web_mqtt_connections
shovel_status
federation_status
message_size_stats
certificates
"""
FORMS_FEW = ("", "--formatter json", "--formatter csv")

# Sentences and sections.
WORDS = """
status
status --unit bytes
status --unit mib
cluster_status
ping
rabbitmq-diagnostics check_running
rabbitmq-diagnostics is_running
rabbitmq-diagnostics is_booting
rabbitmq-diagnostics alarms
rabbitmq-diagnostics check_alarms
rabbitmq-diagnostics check_virtual_hosts
rabbitmq-diagnostics listeners
rabbitmq-diagnostics check_if_node_is_quorum_critical
rabbitmq-diagnostics check_if_any_deprecated_features_are_used
rabbitmq-diagnostics server_version
rabbitmq-diagnostics memory_breakdown
rabbitmq-diagnostics log_location
rabbitmq-diagnostics tls_versions
rabbitmq-diagnostics discover_peers
rabbitmq-diagnostics list_network_interfaces
rabbitmq-diagnostics os_env
rabbitmq-diagnostics command_line_arguments
rabbitmq-diagnostics resolver_info
rabbitmq-diagnostics check_port_listener 1
rabbitmq-diagnostics check_protocol_listener amqp
rabbitmq-plugins directories
rabbitmq-plugins is_enabled rabbitmq_management
rabbitmq-plugins is_enabled none_such
rabbitmq-plugins list -e -m
version
list_hashes
list_ciphers
authenticate_user tools-u secret
rabbitmq-queues quorum_status -p tools-v q2
rabbitmq-upgrade await_online_quorum_plus_one
rabbitmq-upgrade post_upgrade
"""
WORDS_FORMS = ("", "--formatter json")

# Where options stand, old words, words that change nothing, and what is refused.
SINGLE = """
-q list_queues -p tools-v
-p tools-v list_queues -q
--vhost tools-v list_queues -q name
--vhost=tools-v -q list_queues name
list_queues --vhost=tools-v -q
list_queues -p tools-v --online -q
list_queues -p tools-v --offline -q
list_queues -p tools-v --local -q
list_queues -p tools-v --online --offline -q
list_queues -p tools-v name,messages consumers -q
list_queues -p tools-v name, messages -q
list_queues -p tools-v NAME -q
list_queues -p tools-v nmae
list_queues -p tools-v name nmae foo
list_connections bogus
list_exchanges bogus
list_vhosts bogus
list_channels bogus
list_consumers bogus
list_bindings bogus
list_queues -p tools-none
list_queues --bogus
list_queues -t abc
list_queues -t 30 -q -p tools-empty
list_queues --timeout=30 -q -p tools-empty
list_queues --timeout infinity -q -p tools-empty
-l list_vhosts -q
--longnames list_vhosts -q
list_vhosts --longnames -q
--print-stacktrace list_vhosts -q
--dry-run list_queues
--script-name x list_vhosts -q
-n rabbit@nowhere.invalid list_queues
list_quues
list_queus
cluster_statu
certificate
xyzzyxyzzyxyzzy
--bogus
-q
help nonsense
add_user
add_user a b c
delete_user
set_permissions tools-u
set_policy p .* {
set_policy p .* '{"x":1}'
delete_queue
rabbitmq-queues peek
ping too many
status extra
list_queues -p
set_user_tags tools-none
set_user_tags tools-none -q
add_vhost tools-empty
add_vhost
delete_vhost tools-none
delete_user tools-nobody
change_password tools-nobody x
set_permissions -p tools-none guest .* .* .*
list_user_permissions tools-nobody
list_user_topic_permissions tools-nobody
list_user_limits --user tools-nobody
list_vhost_limits -p tools-none
list_permissions -p tools-none
list_topic_permissions -p tools-none
list_policies -p tools-none
list_operator_policies -p tools-none
list_parameters -p tools-none
list_exchanges -p tools-none
list_bindings -p tools-none
list_consumers -p tools-none
clear_policy -p tools-v none
clear_topic_permissions -p tools-v tools-nobody
clear_permissions -p tools-v tools-nobody
set_topic_permissions -p tools-v tools-nobody x .* .*
set_log_level bogus
set_vm_memory_high_watermark bogus
set_disk_free_limit bogus
enable_feature_flag all
enable_feature_flag quorum_queue
enable_feature_flag nonsense
trace_on -p tools-v
trace_off -p tools-v
force_gc
rotate_logs
reconcile_vhosts
reset_stats_db
node_health_check
rename_cluster_node a b
update_cluster_nodes a
rabbitmq-diagnostics node_health_check
rabbitmq-diagnostics check_local_alarms
rabbitmq-diagnostics check_if_node_is_mirror_sync_critical
rabbitmq-queues check_if_node_is_mirror_sync_critical
rabbitmq-diagnostics check_if_cluster_has_classic_queue_mirroring_policy
rabbitmq-queues check_if_cluster_has_classic_queue_mirroring_policy
remove_classic_queue_mirroring_from_policies
rabbitmq-diagnostics reset_node_auth_attempt_metrics
rabbitmq-diagnostics enable_auth_attempt_source_tracking
rabbitmq-diagnostics disable_auth_attempt_source_tracking
activate_free_disk_space_monitoring
deactivate_free_disk_space_monitoring
activate_free_disk_space_monitoring -q
rabbitmq-diagnostics consistent_hash_exchange_ring_state -p tools-v x1
rabbitmq-diagnostics consistent_hash_exchange_ring_state -p tools-v none
delete_shovel -p tools-v none
restart_shovel -p tools-v none
restart_federation_link none
force_boot
eval_file /nonexistent
suspend_listeners
resume_listeners
await_online_nodes 1
await_startup
list_queues -p tools-v name --formatter=json -q
close_all_connections -p tools-empty --limit 0 maintenance
close_all_user_connections tools-none why
restart_vhost -p tools-v
restart_vhost -p tools-none
rabbitmq-queues rebalance all
rabbitmq-queues peek -p tools-v q2 1
rabbitmq-queues quorum_status -p tools-v q1
rabbitmq-queues quorum_status -p tools-v none
rabbitmq-diagnostics stream_status -p tools-v none
rabbitmq-streams list_stream_tracking -p tools-v none
rabbitmq-diagnostics metadata_store_status
rabbitmq-diagnostics check_certificate_expiration
rabbitmq-diagnostics check_if_metadata_store_is_initialized
rabbitmq-diagnostics has_reached_target_cluster_size
rabbitmq-diagnostics log_tail -N 0
rabbitmq-diagnostics resolve_hostname localhost
rabbitmq-diagnostics resolve_hostname none.invalid
rabbitmq-diagnostics cipher_suites --format openssl
encode
encode '<<"secret">>'
encode '<<"secret">>' mypassphrase --cipher none
decode
decode '{encrypted,<<"DtCuxbjQnXSAn0kZYxeqbQ==">>}' wrong
decode nonsense mypassphrase
encrypt_conf_value
encrypt_conf_value secret mypassphrase --hash none
decrypt_conf_value encrypted:none mypassphrase
hash_password
"""


def lines(text):
    return [line for line in text.splitlines() if line]


def rows():
    """Every command, in order."""
    yield from lines(BEFORE)
    yield None  # clients come
    for line in lines(LISTS):
        yield from (f"{line} {form}".strip() for form in FORMS)
    for line in lines(LISTS_MOST):
        yield from (f"{line} {form}".strip() for form in FORMS_MOST)
    for line in lines(LISTS_FEW):
        yield from (f"{line} {form}".strip() for form in FORMS_FEW)
    for line in lines(WORDS):
        yield from (f"{line} {form}".strip() for form in WORDS_FORMS)
    yield from lines(SINGLE)
    yield ""  # and go
    yield from lines(AFTER)


TOOLS = ("rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-queues", "rabbitmq-streams", "rabbitmq-plugins", "rabbitmq-upgrade")
DIAGNOSTICS = ("list_policies_that", "list_policies_with", "list_operator_policies_with", "message_size", "certificates")


def words(line):
    """The tool and its words."""
    parts = shlex.split(line)
    if parts and parts[0] in TOOLS:
        return parts[0], parts[1:]
    if line.startswith(DIAGNOSTICS):
        return "rabbitmq-diagnostics", parts
    return "rabbitmqctl", parts


class Clients:
    """Objects that are declared in the virtual host, and a connection that stays."""

    def __init__(self, uri):
        parameters = pika.URLParameters(uri)
        parameters.virtual_host = VHOST
        parameters.heartbeat = 90
        parameters.client_properties = {
            "connection_name": "tools", "product": "script", "version": "1.2.3", "platform": "any", "information": "",
            "odd": {"number": 7, "yes": True, "list": [1, "two", {"three": 3}], "none": None},
            "capabilities": {"authentication_failure_close": True, "basic.nack": True},
        }
        self.connection = pika.BlockingConnection(parameters)
        channel = self.connection.channel()
        channel.queue_declare("q1", durable=True, arguments={"x-message-ttl": 3600000, "x-dead-letter-exchange": "dlx"})
        channel.queue_declare("q2", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_declare("q ä,\"3\"", durable=True)
        channel.queue_declare("one-reader", exclusive=True, auto_delete=True)
        channel.exchange_declare("x1", "topic", durable=True)
        channel.exchange_declare("x2", "headers", internal=True, auto_delete=True, arguments={"alternate-exchange": "x1", "n": 1})
        channel.queue_bind("q1", "x1", "a.#.b")
        channel.queue_bind("q1", "amq.headers", "", {"x-match": "all", "n": 1, "t": True})
        channel.exchange_bind("x1", "x2", "k")
        properties = pika.BasicProperties(delivery_mode=2, timestamp=1700000000, headers={"a": 1})
        channel.basic_publish("", "q1", b"x" * 100, properties)
        channel.basic_publish("", "q2", b"y" * 10, properties)
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume("q2", lambda *_all: None, consumer_tag="tag", arguments={"x-priority": 5})
        self.connection.process_data_events(1)
        other = self.connection.channel()
        other.confirm_delivery()
        self.connection.channel().tx_select()

    def close(self):
        self.connection.close()


def plain(text):
    """The same without what no two brokers share."""
    replaced = (
        (r"\b(rabbit|tools)@[\w.-]+", "NODE"),
        (r"\d+\.\d+\.\d+\.\d+:\d+ -> \d+\.\d+\.\d+\.\d+:\d+", "PEER"),
        (r"<(NODE\.)?[\d.]+>|<NODE\.[^>\s]*>", "PID"),
    )
    for pattern, name in replaced:
        text = re.sub(pattern, name, text)
    return text


def run(command, uri, only=None):
    """Runs what is wanted, and answers for each line its exit code and what it wrote."""
    answers, clients = {}, None
    for line in rows():
        if line is None:
            clients = Clients(uri)
        elif not line:
            clients.close()
            clients = None
        else:
            if clients:
                clients.connection.process_data_events(0)
            tool, parts = words(line)
            done = subprocess.run([*command, tool, *parts], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_MAX)
            answers[line] = {"code": done.returncode, "out": plain(done.stdout), "err": plain(done.stderr)}
    return answers


if __name__ == "__main__":
    with open(ANSWERS, "w", encoding="utf-8") as file:
        json.dump(run([sys.argv[1]], sys.argv[2]), file, indent=1, ensure_ascii=False)
        file.write("\n")
