"""The command line, as scripts use RabbitMQ's tools: words, columns, exit codes, what goes to standard output.

Every row is run by the tool's own name. A broker of our own is started (--broker) and its binary linked to the names of
RabbitMQ's tools; a running broker is asked by a program that is called with the tool's name and the words (--tools PROGRAM),
and over --uri. What only ours has or says differently is in rows of their own.
"""

import atexit
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time

import pika

from lab.broker import LISTENER, Broker
from lab.cases import Skip, Suite, Uri, equal, eventually
from lab.wire_stream import (
    CONFIRM, CONSUMER_UPDATE, CREATE, DECLARE, DELETE, OK, STORE, UPDATE, Peer, message, pairs, text,
)

suite = Suite("ctl")
VHOST = "ctl-v"
# RabbitMQ's tools end some empty lists with an empty line.
NOTHING = re.compile(r"\A\n?\Z")
TOOLS = ("rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-queues", "rabbitmq-streams", "rabbitmq-plugins",
         "rabbitmq-upgrade")
# Secrets that RabbitMQ 4.3.6 encrypted, with their passphrases, what they are, and how.
THEIR_SECRETS = [
    ('{encrypted,<<"hcqyKhCXedXYImwj3jT0Hec2bDjSTfRiZXxoCahBjvKv/pYBxiH6Zz2w/3MHaWMS">>}', "pass phrase", "secret", []),
    ('{encrypted,<<"zwGTEMWs5n4SlIFPLwWg5XLI8u05163sucP+WFU/1SFRXDwtQCVXKBnppblYxv1WVPgEeDWqiwOSczNbKBGDJRHjaSz5K1DGF6Jt483kBBs=">>}',
     "p", "longer than one block of sixteen", ["--cipher", "aes_128_cbc", "--hash", "sha256", "--iterations", "17"]),
    ('{encrypted,<<"3UQO3Vw/1TxwBfCS4qtHd5quR3BPdon+4Sh0sZ4BtnNfGjWRLXnAxNQct3Xb8vmJ">>}', "p", "list", []),
]
_made = {}


class Tools:
    """Calls tools by their names."""

    def __init__(self):
        if suite.options.tools:
            self.is_ours, self.uri = False, suite.uri
            self.command = lambda tool: [suite.options.tools, tool]
            return
        if not suite.options.broker:
            raise Skip("needs a broker of our own (--broker), or the tools of the one that runs (--tools)")
        self.is_ours, self.broker = True, Broker(suite.options.broker, [
            "stream.listeners.tcp.default=127.0.0.1:0", "management.tcp.listener=127.0.0.1:0",
            "prometheus.tcp = none", "web_amqp.tcp = none"])
        self.broker.start()
        atexit.register(self.broker.close)
        self.uri = Uri(self.broker.uri)
        self.folder = tempfile.mkdtemp(prefix="leveret-tools-")
        for tool in TOOLS:
            os.link(self.broker.binary, os.path.join(self.folder, tool))
        atexit.register(self.tidy)
        data = os.path.join(self.broker.folder, "data")
        self.command = lambda tool: [os.path.join(self.folder, tool), "--data-dir", data]

    def tidy(self):
        for tool in TOOLS:
            os.unlink(os.path.join(self.folder, tool))
        os.rmdir(self.folder)

    def run(self, line, stdin=None, tool="rabbitmqctl"):
        """Words between spaces; what is to hold some is in a list."""
        words = line if isinstance(line, list) else line.split()
        if words[0] in TOOLS:
            tool, words = words[0], words[1:]
        return subprocess.run(self.command(tool) + words, input=stdin, capture_output=True, text=True, timeout=60)


def case(name, behaviour, answer):
    """RabbitMQ's tools take a second each."""
    return suite.case(name, behaviour, answer, seconds_max=lambda options: 300 if options.tools else 30)


def tools():
    if "tools" not in _made:
        _made["tools"] = Tools()
        _made["tools"].run(["add_vhost", VHOST])
        _made["tools"].run(["set_permissions", "-p", VHOST, "guest", ".*", ".*", ".*"])
    return _made["tools"]


def connect():
    uri = tools().uri
    login = pika.PlainCredentials(uri.user, uri.password)
    return pika.BlockingConnection(pika.ConnectionParameters(uri.host, uri.port, VHOST, login, heartbeat=0))


def check(rows):
    """Each row: words, exit code, and what is on standard output; on standard error, where a fourth is there.

    A text is all of it; a pattern is looked for.
    """
    for row in rows:
        words, code, out = row[:3]
        done = tools().run(words)
        told = f"{words}: ended with {done.returncode}: {done.stdout!r} {done.stderr!r}"
        assert done.returncode == code, f"{told}; expected {code}"
        for expected, said in ((out, done.stdout), *((row[3], done.stderr) for _ in row[3:])):
            if isinstance(expected, re.Pattern):
                assert expected.search(said), f"{told}; expected {expected.pattern!r}"
            elif expected is not None:
                assert said == expected, f"{told}; expected {expected!r}"


def has(text):
    return re.compile(re.escape(text))


def lines(*all_lines):
    return "".join(line + "\n" for line in all_lines)


def only_ours():
    if not tools().is_ours:
        raise Skip("RabbitMQ's tools say it in words of their own")


def declare(channel, name, **arguments):
    channel.queue_declare(name, durable=True, arguments={key.replace("_", "-"): value
                                                         for key, value in arguments.items()})


@case("users", "add_user, authenticate_user, change_password, set_user_tags, clear_password, delete_user",
            "a password that fits: 0; one that does not: 65; a user that is not there: 67; one that is there already: 70")
def _():
    check([
        ("add_user ctl-u secret", 0, re.compile(r'^Adding user "ctl-u" \.\.\.\nDone\. Don\'t forget to grant')),
        ("add_user ctl-u again", 70, 'Adding user "ctl-u" ...\n', has('User "ctl-u" already exists')),
        ("authenticate_user ctl-u secret", 0, lines('Authenticating user "ctl-u" ...', "Success")),
        ("authenticate_user ctl-u wrong", 65, 'Authenticating user "ctl-u" ...\n',
         has('Error: failed to authenticate user "ctl-u"\nuser \'ctl-u\' - invalid credentials')),
        ("authenticate_user ctl-none wrong", 65, None, has("user 'ctl-none' - invalid credentials")),
        ("change_password ctl-u other", 0, 'Changing password for user "ctl-u" ...\n'),
        ("authenticate_user ctl-u other -q", 0, "Success\n"),
        ("set_user_tags ctl-u monitoring policymaker", 0,
         'Setting tags for user "ctl-u" to [monitoring, policymaker] ...\n'),
        ("list_users -q", 0, re.compile(r"^user\ttags\n(.*\n)*ctl-u\t\[monitoring, policymaker\]\n")),
        ("set_user_tags ctl-none monitoring", 67, None, has('User "ctl-none" does not exist')),
        ("change_password ctl-none x", 67, None, has('User "ctl-none" does not exist')),
        ("clear_password ctl-u", 0, 'Clearing password for user "ctl-u" ...\n'),
        ("authenticate_user ctl-u other -q", 65, ""),
        ("clear_password ctl-none", 69, 'Clearing password for user "ctl-none" ...\n'),
        ("set_permissions_globally ctl-u ^a .* ^b", 0,
         'Setting permissions for user "ctl-u" in all virtual hosts ...\n'),
        ("list_user_permissions ctl-u -s", 0, has(f"{VHOST}\t^a\t.*\t^b\n")),
        ("list_user_permissions ctl-none", 69, 'Listing permissions for user "ctl-none" ...\n'),
        ("delete_user ctl-u", 0, 'Deleting user "ctl-u" ...\n'),
        ("delete_user ctl-u", 0, 'Deleting user "ctl-u" ...\n'),
        ("hash_password secret -q", 0, re.compile(r"^[A-Za-z0-9+/]{48}\n$")),
        ("add_user", 64, ""),
    ])
    if not tools().is_ours:
        return  # RabbitMQ's needs a terminal
    done = tools().run("authenticate_user guest -q", stdin="guest\n")
    assert (done.returncode, done.stdout) == (0, "Success\n"), done


@case("vhosts", "add_vhost, delete_vhost, set_permissions, vhost and user limits, and what they say of what is not there",
            "a virtual host that is not there: 65 to delete and to list permissions of, 69 to set permissions in")
def _():
    check([
        ("add_vhost ctl-w", 0, 'Adding vhost "ctl-w" ...\n'),
        ("add_vhost ctl-w", 0, 'Adding vhost "ctl-w" ...\n'),
        ("list_permissions -p ctl-w -q", 0, NOTHING),
        ("delete_vhost ctl-w", 0, 'Deleting vhost "ctl-w" ...\n'),
        ("delete_vhost ctl-w", 65, 'Deleting vhost "ctl-w" ...\n', "Virtual host 'ctl-w' does not exist\n"),
        ("list_permissions -p ctl-none", 65, 'Listing permissions for vhost "ctl-none" ...\n',
         "Virtual host 'ctl-none' does not exist\n"),
        ("set_permissions -p ctl-none guest .* .* .*", 69, None, has("does not exist")),
        (f"set_permissions -p {VHOST} guest (* .* .*", 69, None),
        (f"list_vhost_limits -p {VHOST} -q", 0, "\n"),
        (["set_vhost_limits", "-p", VHOST, '{"max-queues": 100}'], 0, None),
        (f"list_vhost_limits -p {VHOST} -q", 0, '{"max-queues":100}\n'),
        ("list_vhost_limits --global -q", 0, has(f'vhost\tlimits\n{VHOST}\t{{"max-queues":100}}\n')),
        (["set_vhost_limits", "-p", VHOST, '{"bogus": 1}'], 69, None),
        (f"clear_vhost_limits -p {VHOST}", 0, f'Clearing vhost "{VHOST}" limits ...\n'),
        (["set_user_limits", "guest", '{"max-channels": 500}'], 0, None),
        ("list_user_limits --user guest -q", 0, '{"max-channels":500}\n'),
        ("clear_user_limits guest all", 0, 'Clearing all limits for user "guest" ...\n'),
        ("set_user_limits guest nojson", 69, None, has("JSON")),
        ("list_user_limits --user ctl-none", 69, None),
    ])


@case("topology", "list_bindings, list_exchanges, list_queues: columns, formats, and of a virtual host that is not there",
            "an empty list has no names of columns; a column that is not known: 64; a virtual host that is not there: nothing, 0")
def _():
    with connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("ctl-x", "topic", durable=True)
        declare(channel, "ctl-q")
        declare(channel, "ctl-qq", x_queue_type="quorum")
        channel.queue_bind("ctl-q", "ctl-x", "a.#")
        channel.queue_bind("ctl-q", "amq.headers", "", {"x-match": "all"})
        channel.exchange_bind("ctl-x", "amq.fanout", "k")
    header = "source_name\tsource_kind\tdestination_name\tdestination_kind\trouting_key\targuments\n"
    check([
        (f"list_bindings -p {VHOST}", 0, re.compile(f"^Listing bindings for vhost {VHOST}\\.\\.\\.\n{header}")),
        (f"list_bindings -p {VHOST} -s", 0, re.compile(r"^\texchange\tctl-q\tqueue\tctl-q\t\[\]$", re.M)),
        (f"list_bindings -p {VHOST} -q", 0, re.compile("^ctl-x\texchange\tctl-q\tqueue\ta.#\t\\[\\]$", re.M)),
        (f"list_bindings -p {VHOST} -q", 0,
         re.compile(r'^amq.headers\texchange\tctl-q\tqueue\t\t\[\{"x-match","all"\}\]$', re.M)),
        (f"list_bindings -p {VHOST} -q", 0, re.compile(r"^amq.fanout\texchange\tctl-x\texchange\tk\t\[\]$", re.M)),
        (f"list_bindings -p {VHOST} --no-table-headers -q source_name destination_name", 0,
         re.compile("^ctl-x\tctl-q$", re.M)),
        (f"list_bindings -p {VHOST} bogus", 64, "", has("Info key(s) bogus are not supported")),
        ("list_bindings -p ctl-none -q", 0, ""),
        ("list_queues -p ctl-none -q", 0, ""),
        (f"list_queues -p {VHOST}", 0,
         has(f"Timeout: 60.0 seconds ...\nListing queues for vhost {VHOST} ...\nname\tmessages\n")),
        (f"list_queues -p {VHOST} -q name type messages durable auto_delete state", 0,
         re.compile("^ctl-qq\tquorum\t0\ttrue\tfalse\trunning$", re.M)),
        (f"list_queues -p {VHOST} bogus", 64, ""),
        (f"list_exchanges -p {VHOST} -q", 0, re.compile(r"^name\ttype\n(.*\n)*\tdirect\n(.*\n)*ctl-x\ttopic\n")),
        (f"list_exchanges -p {VHOST} -s name type durable internal --formatter csv", 0,
         has('"ctl-x","topic","true","false"\n')),
    ])
    rows = json.loads(tools().run(f"list_bindings -p {VHOST} --formatter json").stdout)
    assert {"source_name": "ctl-x", "source_kind": "exchange", "destination_name": "ctl-q", "destination_kind": "queue",
            "routing_key": "a.#"}.items() <= rows[[row["source_name"] for row in rows].index("ctl-x")].items(), rows


@case("queues", "purge_queue and delete_queue, with --if-empty and --if-unused",
            "a queue that is not there: 65 to purge, 64 to delete; one with messages or consumers: 69")
def _():
    connection = connect()
    channel = connection.channel()
    channel.confirm_delivery()
    for name in ("ctl-full", "ctl-used", "ctl-gone"):
        declare(channel, name)
    declare(channel, "ctl-s", x_queue_type="stream")
    for _number in range(2):
        channel.basic_publish("", "ctl-full", b"x", pika.BasicProperties(delivery_mode=2))
    channel.basic_consume("ctl-used", lambda *_all: None)
    at = f"-p {VHOST}"
    check([
        (f"delete_queue {at} ctl-full --if-empty", 69,
         f"Deleting queue 'ctl-full' on vhost '{VHOST}' if queue is empty ...\n", has("not empty")),
        (f"delete_queue {at} ctl-used --if-unused", 69,
         f"Deleting queue 'ctl-used' on vhost '{VHOST}' if queue is unused ...\n", has("in use")),
        (f"delete_queue {at} ctl-full --if-empty --if-unused", 69,
         f"Deleting queue 'ctl-full' on vhost '{VHOST}' if queue is empty and if queue is unused ...\n"),
        (f"purge_queue {at} ctl-full", 0, f"Purging queue 'ctl-full' in vhost '{VHOST}' ...\n"),
        (f"list_queues {at} -s name messages", 0, re.compile("^ctl-full\t0$", re.M)),
        (f"delete_queue {at} ctl-full --if-empty", 0, lines(
            f"Deleting queue 'ctl-full' on vhost '{VHOST}' if queue is empty ...",
            "Queue was successfully deleted with 0 ready messages")),
        (f"delete_queue {at} ctl-gone -q", 0, "Queue was successfully deleted with 0 ready messages\n"),
        (f"delete_queue {at} ctl-gone", 64, f"Deleting queue 'ctl-gone' on vhost '{VHOST}' ...\n",
         "Error:\nNo such queue was found\n"),
        ("delete_queue -p ctl-none ctl-gone -q", 64, "", "Error:\nNo such queue was found\n"),
        (f"purge_queue {at} ctl-gone -q", 65, "", "Object (queue, stream, exchange, etc) was not found\n"),
        (f"purge_queue {at} ctl-s -q", 69, ""),
        (f"list_unresponsive_queues {at}", 0, f"Listing unresponsive queues for vhost {VHOST} ...\n"),
    ])
    connection.close()


@case("connections", "list_connections, list_channels, list_consumers; close_connection and its kin",
            "the client hears CONNECTION_FORCED with the reason; a connection that is not there: 69; others: how many were closed")
def _():
    def closed(connection):
        try:
            for _look in range(50):
                connection.process_data_events(0.1)
        except pika.exceptions.ConnectionClosed as error:
            return error.reply_code, error.reply_text
        raise AssertionError("the connection is still open")

    def pid_of(name):
        rows = tools().run("list_connections -s name pid").stdout.splitlines()
        return [row.split("\t")[1] for row in rows if row.split("\t")[0].startswith(name)][0]

    connection = connect()
    channel = connection.channel()
    declare(channel, "ctl-consumed")
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("ctl-consumed", lambda *_all: None, consumer_tag="tag", arguments={"x-priority": 5})
    host, port = connection._impl._transport._sock.getsockname()[:2]
    check([
        ("list_connections user peer_port state vhost -q", 0, re.compile(f"^guest\t{port}\trunning\t{VHOST}$", re.M)),
        ("list_connections bogus", 64, ""),
        ("list_channels -q", 0, re.compile(r"^pid\tuser\tconsumer_count\tmessages_unacknowledged\n<\S+>\tguest\t1\t0$", re.M)),
        ("list_channels -s name vhost number prefetch_count confirm transactional", 0,
         re.compile(rf"^{re.escape(host)}:{port} -> \S+ \(1\)\t{VHOST}\t1\t7\tfalse\tfalse$", re.M)),
        ("list_channels global_prefetch_count", 64, ""),
        (f"list_consumers -p {VHOST}", 0, re.compile(
            f"^Listing consumers in vhost {VHOST} \\.\\.\\.\n"
            "queue_name\tchannel_pid\tconsumer_tag\tack_required\tprefetch_count\tactive\targuments\n"
            r'ctl-consumed\t<\S+>\ttag\ttrue\t7\ttrue\t\[\{"x-priority",5\}\]$', re.M)),
        (f"list_consumers -p {VHOST} -s queue_name activity_status", 0, re.compile("^ctl-consumed\tup$", re.M)),
        (["close_connection", pid_of(f"{host}:{port}"), "enough of it"], 0, re.compile("reason: enough of it...\n")),
    ])
    code, text = closed(connection)
    assert code == 320 and "enough of it" in text, (code, text)
    many = [connect() for _number in range(3)]
    check([
        ("close_connection nopid reason", 69, "Closing connection nopid, reason: reason...\n"),
        ("close_all_connections -p ctl-none reason", 0, re.compile("vhost ctl-none, reason: reason...\nClosed 0 connections\n$")),
        (f"close_all_connections -p {VHOST} --limit 1 reason", 0, has("Closed 1 connections\n")),
        (f"close_all_connections -p {VHOST} --per-connection-delay 50 reason -q", 0,
         re.compile(r"^Closed [23] connections\n$")),  # one that does not answer yet is still there
    ])
    assert [closed(one)[0] for one in many] == [320] * 3
    other = connect()
    check([
        ("close_all_user_connections ctl-none reason", 0, "Closing connections of user ctl-none, reason: reason...\n"),
        ("close_all_user_connections guest reason -q", 0, ""),
    ])
    assert closed(other)[0] == 320


@case("parameters", "policies, operator policies, parameters and global parameters",
            "what is not there: 69 to clear; what cannot be set: 69, and why")
def _():
    value = '{"max-length":1000}'
    check([
        (["set_policy", "-p", VHOST, "pol", "^ctl", value, "--apply-to", "queues"], 0,
         f'Setting policy "pol" for pattern "^ctl" to "{value}" with priority "0" for vhost "{VHOST}" ...\n'),
        (f"list_policies -p {VHOST}", 0, lines(
            f'Listing policies for vhost "{VHOST}" ...', "vhost\tname\tpattern\tapply-to\tdefinition\tpriority",
            f"{VHOST}\tpol\t^ctl\tqueues\t{value}\t0")),
        (["set_policy", "-p", VHOST, "bad", "^ctl", '{"max-lengthx":1}'], 69, None, has("not recognised policy settings")),
        (["set_policy", "-p", VHOST, "bad", "^ctl", "nojson"], 69, None),
        (f"clear_policy -p {VHOST} pol", 0, f'Clearing policy "pol" on vhost "{VHOST}" ...\n'),
        (f"clear_policy -p {VHOST} pol", 69, None, "Error:\nParameter does not exist\n"),
        (f"list_policies -p {VHOST} -q", 0, NOTHING),
        (["set_operator_policy", "-p", VHOST, "pol", "^ctl", value, "--apply-to", "queues", "-q"], 0, ""),
        (f"list_operator_policies -p {VHOST} -s", 0, f"{VHOST}\tpol\t^ctl\tqueues\t{value}\t0\n"),
        (f"clear_operator_policy -p {VHOST} pol", 0, f'Clearing operator policy "pol" on vhost "{VHOST}" ...\n'),
        (["set_parameter", "-p", VHOST, "bogus", "name", '{"a":1}'], 69,
         f'Setting runtime parameter "name" for component "bogus" to "{{"a":1}}" in vhost "{VHOST}" ...\n',
         has("Validation failed\n\ncomponent bogus not found\n")),
        (["set_parameter", "-p", VHOST, "vhost-limits", "limits", '{"max-queues":100}', "-q"], 0, ""),
        (f"list_parameters -p {VHOST}", 0, lines(
            f'Listing runtime parameters for vhost "{VHOST}" ...', "component\tname\tvalue",
            'vhost-limits\tlimits\t{"max-queues":100}')),
        (f"clear_parameter -p {VHOST} vhost-limits limits", 0,
         f'Clearing runtime parameter "limits" for component "vhost-limits" on vhost "{VHOST}" ...\n'),
        (f"clear_parameter -p {VHOST} vhost-limits limits", 69, None, "Error:\nParameter does not exist\n"),
        (["set_global_parameter", "ctl-g", '{"a":1}'], 0,
         'Setting global runtime parameter "ctl-g" to "{"a":1}" ...\n'),
        ("list_global_parameters -q", 0, re.compile(r'^name\tvalue\n(.*\n)*ctl-g\t\{"a":1\}\n')),
        ("clear_global_parameter ctl-g", 0, 'Clearing global runtime parameter "ctl-g" ...\n'),
        ("clear_global_parameter ctl-g", 69, None, "Error:\nParameter does not exist\n"),
        ("set_global_parameter ctl-g nojson", 69, None, has("Could not parse JSON document")),
    ])


@case("checks", "the health checks of rabbitmq-diagnostics",
            "well: 0; a port or protocol that is not listened on, 69; a port that is none, 65")
def _():
    tool = "rabbitmq-diagnostics "
    port = tools().uri.port
    check([
        (tool + "ping -q", 0, "Ping succeeded\n"),
        ("-s ping", 0, "Ping succeeded\n"),
        (tool + "check_running -q", 0, re.compile("^RabbitMQ on node .*@.* is fully booted and running\n$")),
        (tool + "check_running", 0, re.compile("^Checking if RabbitMQ is running on node .* \\.\\.\\.\nRabbitMQ on node")),
        (tool + "check_running --formatter json", 0, re.compile(r'^\{"message":"RabbitMQ on node .* running"\}\n$')),
        (tool + "is_running -q", 0, re.compile("is fully booted and running\n$")),
        (tool + "is_booting -q", 0, re.compile("is fully booted")),
        (tool + "check_alarms -q", 0, re.compile("^Node .* reported no alarms, local or clusterwide\n$")),
        (tool + "check_local_alarms -q", 0, re.compile("Node .* reported no local alarms\n$")),
        (tool + "alarms -q", 0, re.compile("reported no alarms, local or clusterwide\n$")),
        (tool + "alarms --formatter json", 0, re.compile(r'"alarms":\[\]')),
        (tool + f"check_port_listener {port}", 0, re.compile(
            f"^Asking node .* if there's an active listener on port {port} \\.\\.\\.\n"
            f"A listener for port {port} is running on node .*\\.\n$")),
        (tool + "check_port_listener 1", 69, None, re.compile(
            f"^No listener for port 1 is active on node .*\\. Found listeners that use the following ports: .*{port}")),
        (tool + "check_port_listener abc", 65, "", has("Argument must be a positive integer")),
        (tool + "check_protocol_listener amqp -q", 0,
         re.compile(r"^A listener for protocol amqp is running on node .*\.\n$")),
        (tool + "check_protocol_listener bogus -q", 69, "", re.compile(
            "No listener for protocol bogus is active on node .* Found listeners for the following protocols: amqp, ")),
        (tool + "check_port_connectivity -q", 0, re.compile(f"Will connect to .*:{port}\n(.*\n)*Successfully connected to ports")),
        (tool + "check_virtual_hosts -q", 0, re.compile("^Node .* reported all vhosts as running\n$")),
        (tool + "check_certificate_expiration --within 1 --unit months -q", 0, "No certificates are expiring within 1 month.\n"),
        (tool + "check_if_node_is_quorum_critical -q", 0, re.compile("the check does not apply\n$")),
        (tool + "check_if_any_deprecated_features_are_used -q", 0, None),
        (tool + "check_for_quorum_queues_without_an_elected_leader --vhost / ^ -q", 0, None),
        (tool + "check_if_metadata_store_is_initialized -q", 0, re.compile("has completed its initialization\n$")),
        (tool + "check_if_metadata_store_is_initialized_with_data -q", 0, None),
        (tool + "check_if_new_quorum_queue_replicas_have_finished_initial_sync -q", 0,
         re.compile("reported no queues with promotable replicas\n$")),
        ("has_reached_target_cluster_size -q", 0, re.compile("^Target cluster size has been reached on node")),
        (tool + "listeners -q", 0, re.compile(
            rf"^Interface: \S+, port: {port}, protocol: amqp, purpose: AMQP 0-9-1 and AMQP 1.0$", re.M)),
        (tool + "server_version -q", 0, re.compile(r"^4\.\d+\.\d+\n$")),
        (tool + "memory_breakdown -q", 0, re.compile(r"^\w+: [\d.]+ gb \([\d.]+%\)$", re.M)),
        ("rabbitmq-upgrade await_online_quorum_plus_one -t 5 -q", 0, None),
        ("await_startup --timeout 10", 0, ""),
        ("await_online_nodes 1 -q", 0, ""),
    ])
    told = json.loads(tools().run(tool + "listeners --formatter json").stdout)
    assert port in [listener["port"] for listener in told["listeners"]] and told["result"] == "ok", told


@case("waits", "wait for a process by its id and by its file; for a file that does not come",
            "75 when the time is over")
def _():
    check([
        ("wait /none/such/pid --timeout 1", 75, "Waiting for pid file '/none/such/pid' to appear\n"),
        (f"wait --pid {os.getpid() if tools().is_ours else 1} --timeout 10", 0,
         re.compile("Applications 'rabbit_and_plugins' are running on node '.*'\n$")),
    ])


@case("node", "cluster_status, version, log levels, memory and disk limits, feature flags",
            "a level or a limit that is none: 69 and 65")
def _():
    check([
        ("cluster_status -q", 0, re.compile(r"Basics\n\nCluster name: .*\n(.*\n)*Running Nodes\n\n.*@.*\n")),
        ("version", 0, re.compile(r"^4\.\d+\.\d+\n$")),
        ("set_log_level error", 0, 'Setting log level to "error" ...\n'),
        ("set_log_level bogus", 69, "", has(
            "level bogus is not supported. Try one of debug, info, warning, error, critical, none")),
        ("set_log_level warning -q", 0, ""),
        ("set_vm_memory_high_watermark 0.9", 0, re.compile("^Setting memory threshold")),
        ("set_vm_memory_high_watermark bogus", 65, None),
        ("set_disk_free_limit 50MB", 0, re.compile("^Setting disk free limit")),
        ("set_disk_free_limit bogus", 65, None),
        ("list_feature_flags -q", 0, re.compile("^name\tstate\n(.*\n)*stream_queue\tenabled\n")),
        ("enable_feature_flag all", 0, "Enabling all feature flags ...\n"),
        ("enable_feature_flag none_such", 64, 'Enabling feature flag "none_such" ...\n'),
        ("rotate_logs", 69, ""),
        ("bogus_command", 64, ""),
        ("list_queues --bogus", 64, ""),
        ("-n nosuch@localhost status", 69, "", has("unable to perform an operation on node 'nosuch@localhost'")),
    ])
    told = json.loads(tools().run("cluster_status --formatter json").stdout)
    assert len(told["running_nodes"]) == 1 and told["running_nodes"][0] in told["listeners"], told


@case("members", "rabbitmq-queues and rabbitmq-streams: status of queues and streams, super streams",
            "a queue that is not there: 65; one of another type: 69; a super stream that is there already, or not: 70")
def _():
    with connect() as connection:
        channel = connection.channel()
        for name, kind in ("ctl-mq", "quorum"), ("ctl-mc", "classic"), ("ctl-ms", "stream"):
            declare(channel, name, x_queue_type=kind)
    at = f"-p {VHOST}"
    check([
        (f"rabbitmq-queues quorum_status {at} ctl-mq -q", 0, has("leader")),
        (f"rabbitmq-queues quorum_status {at} ctl-none", 65, None,
         f"queue 'ctl-none' was not found in virtual host '{VHOST}'\n"),
        (f"rabbitmq-queues quorum_status {at} ctl-mc -q", 69, ""),
        (f"rabbitmq-streams stream_status {at} ctl-ms -q", 0, has("writer")),
        (f"rabbitmq-streams stream_status {at} ctl-none -q", 65, "",
         "Object (queue, stream, exchange, etc) was not found\n"),
        (f"rabbitmq-streams list_stream_tracking ctl-ms --vhost {VHOST} --offset -q", 0, ""),
        ("rabbitmq-streams list_stream_connections", 0, "Listing stream connections ...\n"),
        (f"rabbitmq-streams list_stream_publishers {at}", 0, "Listing stream publishers ...\n"),
        (f"rabbitmq-streams list_stream_consumers {at}", 0, "Listing stream consumers ...\n"),
        (f"rabbitmq-streams add_super_stream ctl-super --vhost {VHOST} --partitions 3", 0,
         lines("Adding a super stream...", "Super stream ctl-super has been created")),
        (f"list_queues {at} -s name type", 0, re.compile("^ctl-super-2\tstream$", re.M)),
        (f"rabbitmq-streams add_super_stream ctl-super --vhost {VHOST} --partitions 3", 70, "Adding a super stream...\n"),
        (f"rabbitmq-streams delete_super_stream ctl-super --vhost {VHOST}", 0,
         lines("Deleting a super stream...", "Super stream ctl-super has been deleted")),
        (f"rabbitmq-streams delete_super_stream ctl-super --vhost {VHOST}", 70, "Deleting a super stream...\n",
         "Error:\nstream_not_found\n"),
        (f"rabbitmq-streams add_super_stream ctl-keyed --vhost {VHOST} --binding-keys a,b --max-age PT10M -q", 0,
         "Super stream ctl-keyed has been created\n"),
        (f"list_queues {at} -s name arguments", 0, re.compile(r"^ctl-keyed-b\t.*x-max-age.*600s", re.M)),
        (f"rabbitmq-streams delete_super_stream ctl-keyed --vhost {VHOST} -q", 0, None),
        ("rabbitmq-queues rebalance all -q", 0, None),
        (f"rabbitmq-queues shrink rabbit@other", 69, None),
    ])


@case("readers", "peek, reset_offset, groups of consumers of streams",
            "what is looked at stays; a place that is empty, a stream that is not there, an offset that is not kept: 69")
def _():
    with connect() as connection:
        channel = connection.channel()
        for name, kind in ("ctl-pq", "quorum"), ("ctl-pc", "classic"), ("ctl-ps", "stream"):
            declare(channel, name, x_queue_type=kind)
        channel.queue_purge("ctl-pq")
        channel.confirm_delivery()
        properties = pika.BasicProperties(content_type="text/plain", delivery_mode=2, headers={"h": "v"})
        channel.basic_publish("", "ctl-pq", b"first", properties)
        channel.basic_publish("", "ctl-pq", b"x" * 100, properties)
    at = f"-p {VHOST}"
    peek = f"rabbitmq-queues peek {at} ctl-pq"
    check([
        (f"{peek} 1", 0, re.compile(r"^Peeking at quorum queue ctl-pq at position 1 on node .* \.\.\.\n")),
        (f"{peek} 1 --formatter json", 0, None),
        (f"{peek} 3 -q", 69, ""),
        (f"rabbitmq-queues peek {at} ctl-none 1 -q", 69, "", has(f"Target queue was not found in virtual host '{VHOST}'")),
        (f"rabbitmq-queues peek {at} ctl-ps 1 -q", 69, ""),
    ])
    for _ in range(100):
        told = tools().run(f"list_queues {at} -s name messages_ready messages_unacknowledged").stdout
        if "ctl-pq\t2\t0\n" in told:
            break
    assert "ctl-pq\t2\t0\n" in told, told
    for place, payload in (1, "first"), (2, "x" * 64):
        told = json.loads(tools().run(f"{peek} {place} --formatter json").stdout)
        rows = told["message"]
        assert rows["payload (max 64 bytes)"] == payload and rows["routing_keys"] == ["ctl-pq"], rows
        assert rows["exchange"] == "" and rows["content_type"] == "text/plain" and rows["delivery_mode"] == 2, rows
        assert rows["header.h"] == "v", rows
    of = f"--vhost {VHOST} --stream ctl-ps --reference ctl-app"
    tool = "rabbitmq-streams "
    check([
        (f"{tool}reset_offset {of}", 69, "Resetting stored offset ...\n",
         has("There is no stored offset for this reference, no need to reset")),
        (f"{tool}reset_offset --vhost {VHOST} --stream ctl-none --reference x -q", 69, "",
         has("The stream does not exist")),
        (f"{tool}reset_offset --vhost {VHOST} --stream ctl-ps", 64, ""),
        (f"{tool}list_stream_consumer_groups {at} -q", 0, ""),
        (f"{tool}list_stream_group_consumers {of} -q", 69, "", has("The group does not exist")),
        (f"{tool}activate_stream_consumer {of} -q", 69, "", has("The group does not exist")),
    ])
    uri = tools().uri
    port = tools().broker.stream_port() if tools().is_ours else suite.options.stream_port
    with Peer(uri, port, user=uri.user, password=uri.password, vhost=VHOST) as client:
        client.say(STORE, text("ctl-app") + text("ctl-ps") + struct.pack(">Q", 7))
        tracked = f"{tool}list_stream_tracking ctl-ps --vhost {VHOST} --offset --formatter json"
        for _ in range(100):
            if "7" in tools().run(tracked).stdout:
                break
        check([
            (f"{tool}reset_offset {of}", 0, lines("Resetting stored offset ...", "Done")),
            (f"{tool}reset_offset {of} -q", 0, NOTHING),
            (tracked, 0, re.compile(r'"tracking_value": ?0\b')),
        ])
        client.subscribe(3, "ctl-ps", **{"single-active-consumer": "true", "name": "ctl-app"})
        for _ in range(100):
            if tools().run(f"{tool}list_stream_consumer_groups {at} -q").stdout:
                break
        rows = json.loads(tools().run(f"{tool}list_stream_consumer_groups {at} --formatter json").stdout)
        assert rows == [{"stream": "ctl-ps", "reference": "ctl-app", "partition_index": -1, "consumers": 1}], rows
        rows = json.loads(tools().run(f"{tool}list_stream_group_consumers {of} --formatter json").stdout)
        assert len(rows) == 1 and rows[0]["subscription_id"] == 3 and "active" in rows[0]["state"], rows
        check([(f"{tool}activate_stream_consumer {of} -q", 0, "OK\n")])


@case("restart-stream", "restart_stream of a stream that connections of the stream protocol publish to and read",
      "each hears once that it is not available, what they have there ends, and they come again; others hear nothing; of a queue "
      "that is none, or that is not there, it fails")
def restart_stream():
    tool = "rabbitmq-streams "
    uri = tools().uri
    port = tools().broker.stream_port() if tools().is_ours else suite.options.stream_port
    own = {"single-active-consumer": "true", "name": "ctl-restarted"}

    def peer():
        return Peer(uri, port, user=uri.user, password=uri.password, vhost=VHOST)

    with peer() as writer, peer() as reader, peer() as waiting, peer() as other:
        for name in ("ctl-restarted", "ctl-untouched"):
            writer.ask(CREATE, text(name) + pairs({}))
        declare = b"\x01" + text("") + text("ctl-restarted")
        equal(writer.code(DECLARE, declare), OK)
        equal((reader.subscribe(3, "ctl-restarted", **own), waiting.subscribe(4, "ctl-restarted", **own)), (OK, OK))
        equal(reader.next(CONSUMER_UPDATE).rest[4:], b"\x03\x01")
        equal(other.code(DECLARE, b"\x01" + text("") + text("ctl-untouched")), OK)
        try:
            check([
                (f"{tool}restart_stream --vhost {VHOST} ctl-restarted", 0, re.compile("Restarting stream ctl-restarted")),
            ])
            assert tools().run(f"{tool}restart_stream --vhost {VHOST} ctl-none -q").returncode != 0
            for one in (writer, reader, waiting):
                equal(one.next(UPDATE).rest, struct.pack(">H", 6) + text("ctl-restarted"))
            # A stream that elects its leader takes a moment.
            eventually(lambda: writer.code(DECLARE, declare) == OK, "a publisher again")
            eventually(lambda: waiting.subscribe(4, "ctl-restarted", **own) == OK, "a subscription again")
            equal(waiting.next(CONSUMER_UPDATE).rest[4:], b"\x04\x01")
            writer.publish(1, message(1, b"after"))
            equal(writer.next(CONFIRM).ids(), [1])
            other.publish(1, message(1, b"all along"))
            equal(other.next(CONFIRM).ids(), [1])
            equal([frame for frame in other.waiting if frame.key == UPDATE], [])
        finally:
            for name in ("ctl-restarted", "ctl-untouched"):
                other.ask(DELETE, text(name))


@case("moves", "redrive_queue and move_messages, in nobody's name",
            "dead messages are back where they died, others elsewhere; those that name a user, and those in a user's queue, too")
def _():
    only_ours()
    with connect() as connection:
        channel = connection.channel()
        declare(channel, "ctl-dead", x_queue_type="quorum")
        declare(channel, "ctl-dying", x_queue_type="quorum", x_dead_letter_exchange="", x_dead_letter_routing_key="ctl-dead")
        declare(channel, "ctl-target", x_queue_type="classic")
        channel.confirm_delivery()
        uri = tools().uri
        for number in range(10):
            channel.basic_publish("", "ctl-dying", b"%d" % number, pika.BasicProperties(delivery_mode=2, user_id=uri.user))
        for _ in range(10):
            got = channel.basic_get("ctl-dying")[0]
            channel.basic_reject(got.delivery_tag, requeue=False)
        at, counts = f"-p {VHOST}", f"list_queues -p {VHOST} -s name messages_ready"

        def until(*expected):
            for _ in range(100):
                told = tools().run(counts).stdout.splitlines()
                if all(f"{name}\t{count}" in told for name, count in expected):
                    return
            raise AssertionError(f"{told}, not {expected}")

        until(("ctl-dead", 10), ("ctl-dying", 0))
        check([(f"redrive_queue {at} ctl-dead --count 4 -q", 0, None)])
        until(("ctl-dead", 6), ("ctl-dying", 4))
        check([(["move_messages", "-p", VHOST, "ctl-dead", "", "ctl-target", "-q"], 0, None)])
        until(("ctl-dead", 0), ("ctl-target", 6))
        for number in range(4, 10):
            assert channel.basic_get("ctl-target", auto_ack=True)[2] == b"%d" % number
        check([
            (f"redrive_queue {at} ctl-none -q", 65, "", has("was not found")),
            (["move_messages", "-p", VHOST, "ctl-dying", "ctl-no-exchange", "k", "-q"], 69, "", has("ctl-no-exchange")),
        ])
        until(("ctl-dying", 4))


@case("place", "the tools without --data-dir: from the folder that the node was started in, by LEVERET_DATA_DIR, and from elsewhere",
      "found; from elsewhere 69, with the places that were tried")
def _():
    only_ours()
    broker, tool = tools().broker, os.path.join(tools().folder, "rabbitmqctl")
    bare = {name: value for name, value in os.environ.items() if name != "LEVERET_DATA_DIR"}

    def run(folder, *words, **environment):
        return subprocess.run([tool, *words], cwd=folder, env={**bare, **environment}, capture_output=True, text=True, timeout=60)

    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(broker.folder, "data")
        if not any(os.path.exists(f"/{place}/ctl.sock") for place in ("var/lib/leveret", "var/lib/rabbitmq", "run/leveret")):
            done = run(folder, "ping", "-q")
            tried = "leveret-data/ctl.sock", "/var/lib/leveret/ctl.sock", "/var/lib/rabbitmq/ctl.sock", "/run/leveret/ctl.sock"
            assert done.returncode == 69 and all(place in done.stderr for place in tried), done
        assert run(folder, "ping", "-q", LEVERET_DATA_DIR=data).returncode == 0
        os.symlink(data, os.path.join(folder, "leveret-data"))
        assert run(folder, "ping", "-q").stdout == "Ping succeeded\n"
        # One that is named is the one that is meant, also while it is down.
        assert run(folder, "ping", "-q", LEVERET_DATA_DIR="/nowhere").returncode == 69
        assert run(folder, "ping", "-q", "--data-dir", "/nowhere").returncode == 69


@case("help", "help, help WORD, and words that there are not",
      "0, with every word by what it is about; 64 for a word that there is not, with those that are near")
def _():
    check([
        ("help", 0, re.compile(r"^\nUsage\n\nrabbitmqctl (.*\n)*Available commands:\n(.*\n)*   list_queues ")),
        ("help list_queues", 0, re.compile("list_queues(.*\n)*.*--online")),
        ("help list_queus", 64, "", has("not found")),
        ("list_queus", 64, "", has("Did you mean 'list_queues'")),
        ("xyzzyxyzzy", 64, "", re.compile(r"\A\n?Command 'xyzzyxyzzy' not found")),
    ])
    if tools().is_ours:
        assert "Did you mean" not in tools().run("xyzzyxyzzy").stderr
        assert tools().run("clear_permision").stderr.count("\n   ") == 0
        done = subprocess.run([tools().broker.binary, "ctl", "list_queus"], capture_output=True, text=True, timeout=30)
        assert done.returncode == 64 and "'list_queues'" in done.stderr and "list_unresponsive" not in done.stderr, done


@case("secrets", "encode and encrypt_conf_value, and back; a passphrase that does not fit",
      "the same value; 69 with another passphrase, 65 for a cipher or hash that there is not")
def _():
    told = tools().run(["encode", '<<"secret word">>', "pass phrase", "-q"]).stdout
    secret = re.search(r'\{encrypted,\s*<<"([A-Za-z0-9+/=\s]+)">>\}', told)
    assert secret, told
    whole = '{encrypted,<<"' + "".join(secret.group(1).split()) + '">>}'
    check([
        (["decode", whole, "pass phrase", "-q"], 0, has('<<"secret word">>')),
        (["decode", whole, "other", "-q"], 69, None),
        (["encode", '<<"x">>', "p", "--cipher", "none"], 65, None),
        (["encrypt_conf_value", "x", "p", "--hash", "none"], 65, None),
    ])
    told = tools().run(["encrypt_conf_value", "secret", "p", "-q"]).stdout
    value = re.search(r"encrypted:[A-Za-z0-9+/=]+", "".join(told.split()))
    assert value and "secret" in tools().run(["decrypt_conf_value", value.group(0), "p", "-q"]).stdout, told
    if tools().is_ours:
        # What RabbitMQ 4.3.6 encrypted.
        for theirs, passphrase, text, way in THEIR_SECRETS:
            assert tools().run(["decode", theirs, passphrase, *way, "-q"]).stdout == f'<<"{text}">>\n', theirs


@case("streaming", "log_tail_stream and consume_event_stream for a second or two", "0; lines of the log; events, a JSON document a line")
def _():
    only_ours()
    tools().run("set_log_level info")
    for words, made, expected in (
        (["log_tail_stream", "-d", "3", "-q"], "connection", "accepting AMQP connection"),
        (["consume_event_stream", "-d", "3", "--pattern", "queue.#"], "queue", '"queue.created"'),
    ):
        with subprocess.Popen(tools().command("rabbitmq-diagnostics") + words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as told:
            time.sleep(1)
            with connect() as connection:
                if made == "queue":
                    declare(connection.channel(), "ctl-event")
            out, err = told.communicate(timeout=30)
        assert told.returncode == 0 and expected in out, (words, out, err)
        if made == "queue":
            events = [json.loads(line) for line in out.splitlines()]
            assert [event["name"] for event in events if event["event"] == "queue.created"] == ["ctl-event"], events
    tools().run(f"delete_queue -p {VHOST} ctl-event")
    assert not [row for row in tools().run("list_queues -s name").stdout.splitlines() if row.startswith("leveret.events")]


@case("report", "report, and policies that match a name", "0; the answers of the words that it is made of, for every virtual host")
def _():
    done = tools().run("report")
    assert done.returncode == 0, done
    for part in ("Status of node", "Cluster status of node", f"Listing queues for vhost {VHOST} ...", "Listing queues for vhost / ...",
                 "Listing permissions for vhost"):
        assert part in done.stdout, part
    with connect() as connection:
        declare(connection.channel(), "ctl-matched")
    tools().run(["set_policy", "-p", VHOST, "low", "^ctl-m", '{"max-length":1}'])
    tools().run(["set_policy", "-p", VHOST, "high", "^ctl-matched$", '{"max-length":2}', "--priority", "9", "--apply-to", "classic_queues"])
    tools().run(["set_policy", "-p", VHOST, "none", "^x", '{"max-length":3}'])
    tools().run(["set_policy", "-p", VHOST, "streams", "^ctl", '{"max-age":"1D"}', "--apply-to", "streams"])
    told = json.loads(tools().run(f"rabbitmq-diagnostics list_policies_that_match -p {VHOST} ctl-matched --formatter json").stdout)
    assert [(row["name"], row["definition"]) for row in told["policies"]] == [("high", {"max-length": 2}), ("low", {"max-length": 1})], told
    for name in "low", "high", "none", "streams":
        tools().run(f"clear_policy -p {VHOST} {name}")


@case("completions", "completions for shells, manual pages, and what RabbitMQ's own completions ask for",
            "words and options that begin so, a line each; a word that is whole: nothing")
def _():
    check([
        (["autocomplete", "--", "list_unre"], 0, "list_unresponsive_queues\n"),
        (["autocomplete", "--", "--form"], 0, "--formatter\n"),
        (["autocomplete", "--", "nonsense"], 0, NOTHING),
        (["rabbitmq-diagnostics", "autocomplete", "--", "check_virt"], 0, "check_virtual_hosts\n"),
    ])
    if not tools().is_ours:
        return
    with tempfile.TemporaryDirectory() as folder:
        binary = tools().broker.binary
        for tool in ("leveret", *TOOLS):
            for shell in "bash", "zsh", "fish":
                done = subprocess.run([binary, "completions", shell, "--name", tool], capture_output=True, text=True,
                                      timeout=30)
                assert done.returncode == 0 and tool in done.stdout, (tool, shell, done.stderr)
                path = os.path.join(folder, f"{tool}.{shell}")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(done.stdout)
                if shutil.which(shell):
                    checked = subprocess.run([shell, "-n", path], capture_output=True, text=True, timeout=30)
                    assert checked.returncode == 0 and not checked.stderr, (tool, shell, checked)
        own = tools().run("completions bash").stdout
        assert own == subprocess.run([binary, "completions", "bash", "--name", "rabbitmqctl"], capture_output=True,
                                     text=True, timeout=30).stdout
        done = subprocess.run([binary, "man", os.path.join(folder, "man")], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done
        pages = os.listdir(os.path.join(folder, "man"))
        for page in "leveret.1", "leveret-server.1", "leveret-top.1", "leveret-ctl-list_queues.1", "rabbitmqctl.1":
            assert page in pages, (page, sorted(pages))


@case("at-once", "an import of 3,000 queues while others ask", "each is answered while the import goes on")
def _():
    only_ours()
    queues = [{"vhost": VHOST, "name": f"ctl-many-{number}", "durable": True, "auto_delete": False, "arguments": {}}
              for number in range(3000)]
    text = json.dumps({"queues": queues})
    words = tools().command("rabbitmqctl") + ["import_definitions", "-", "-q"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as importing:
        importing.stdin.write(text)
        importing.stdin.close()
        answered = 0
        while importing.poll() is None:
            begin = time.monotonic()
            assert tools().run("ping -q").returncode == 0
            is_meanwhile = importing.poll() is None
            answered += is_meanwhile
            assert time.monotonic() - begin < 5, "somebody waits for another's import"
        assert importing.returncode == 0, importing
    assert answered > 0
    told = tools().run(f"list_queues -p {VHOST} -s name").stdout
    assert told.count("ctl-many-") == 3000


class Screen:
    """A program on a terminal of its own, and what it wrote there."""

    def __init__(self, words, columns=120, rows=40):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        environment = {**os.environ, "TERM": "xterm"}
        self.process = subprocess.Popen(words, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=environment,
                                        start_new_session=True)
        self.said = b""

    def until(self, text, seconds_max=20):
        """Reads until the text is there. Only what has changed is written, so a text is one that comes whole."""
        end = time.monotonic() + seconds_max
        while text.encode() not in self.said:
            left = end - time.monotonic()
            assert left > 0, f"{text!r} is not in {self.said!r}"
            if select.select([self.master], [], [], min(left, 0.1))[0]:
                self.said += os.read(self.master, 65536)
        self.said = self.said[self.said.index(text.encode()) + len(text):]

    def type(self, keys):
        os.write(self.master, keys.encode())

    def ends(self, code):
        assert self.process.wait(20) == code, self.process
        while select.select([self.master], [], [], 0.1)[0]:
            self.said += os.read(self.master, 65536)
        # The other screen is left, the cursor is back, and lines are edited again.
        assert b"\x1b[?1049l" in self.said and b"\x1b[?25h" in self.said, self.said
        assert termios.tcgetattr(self.slave) == self.before

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@case("top", "the dashboard: on a terminal, ended by keys and by a signal; a frame as text",
            "it shows queues and connections, finds some by name, and leaves the terminal as it was")
def _():
    only_ours()
    connection = connect()
    channel = connection.channel()
    for number in range(50):
        declare(channel, f"ctl-top-{number}")
    for _ in range(7):
        channel.basic_publish("", "ctl-top-33", b"x")
    channel.queue_declare("ctl-top-33", passive=True)
    words = [tools().broker.binary, "top", "--data-dir", os.path.join(tools().broker.folder, "data"), "--interval", "0.3"]
    done = subprocess.run([*words, "--once", "--search", "ctl-top"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done
    shown = done.stdout.splitlines()
    assert any(re.match(r"ctl-top-33\s+ctl-v\s+classic\s+7\s", line) for line in shown), done.stdout
    assert "of 50 queues" in shown[-1], done.stdout
    done = subprocess.run([*words, "--once", "--connections", "--sort", "channels"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and "AMQP 0-9-1" in done.stdout, done
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    assert done.returncode == 64 and "--once" in done.stderr, done
    done = subprocess.run([words[0], "top", "--socket", "/nowhere.sock"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=30)
    assert done.returncode in (64, 69), done
    for end in "key", "control", "signal":
        screen = Screen(words)
        try:
            screen.until("\x1b[?1049h")
            screen.until("READY")
            screen.type("/ctl-top-33")
            screen.until("search:")
            screen.type("\r")
            screen.until('with "ctl-top-33"')
            screen.type("\t")
            screen.until("PROTOCOL")
            screen.type("?")
            screen.until("keys")
            if end == "key":
                screen.type("q")
            elif end == "control":
                screen.type("\x03")
            else:
                os.kill(screen.process.pid, signal.SIGTERM)
            screen.ends(0)
        finally:
            screen.close()
    connection.close()


@case("plugins", "rabbitmq-plugins list and is_enabled",
            "what is there: 0; what is not: 69")
def _():
    check([
        ("rabbitmq-plugins list -m -q", 0, re.compile("^rabbitmq_management$", re.M)),
        ("rabbitmq-plugins list stream -q", 0, re.compile(r"^\[E\*\] rabbitmq_stream\s+\d", re.M)),
        ("rabbitmq-plugins is_enabled rabbitmq_management -q", 0,
         re.compile("^Plugin rabbitmq_management is enabled on node .*\n$")),
        ("rabbitmq-plugins is_enabled none_such -q", 69, "", has("Plugin none_such is not enabled on node")),
        ("rabbitmq-plugins enable rabbitmq_management -q", 0, None),
    ])


@case("definitions", "export_definitions to standard output and to a file; import_definitions of it",
            "what was exported imports; a file that is not there: 65")
def _():
    only_ours()
    with connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("ctl-dx", "direct", durable=True)
        declare(channel, "ctl-dq", x_max_length=5)
        channel.queue_bind("ctl-dq", "ctl-dx", "k")
    columns = ("name vhost type durable auto_delete exclusive arguments policy operator_policy effective_policy_definition "
               "state node leader members online pid owner_pid messages messages_ready messages_unacknowledged "
               "messages_delayed consumers memory").split()
    rows = json.loads(tools().run(["list_queues", "-p", VHOST, "--formatter", "json", *columns]).stdout)
    row = rows[[row["name"] for row in rows].index("ctl-dq")]
    assert set(row) == set(columns) and None not in row.values() and row["arguments"] == {"x-max-length": 5, "x-queue-type": "classic"}, row
    text = tools().run("export_definitions - --format json").stdout
    told = json.loads(text)
    assert "ctl-dq" in [queue["name"] for queue in told["queues"]], told
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "defs.json")
        check([
            (["export_definitions", path], 0, f'Exporting definitions in JSON to a file at "{path}" ...\n'),
            (f"delete_queue -p {VHOST} ctl-dq -q", 0, None),
            (["import_definitions", path], 0, re.compile("^Importing definitions in JSON from a file at ")),
            (f"list_bindings -p {VHOST} -s source_name destination_name routing_key", 0,
             re.compile("^ctl-dx\tctl-dq\tk$", re.M)),
            (["import_definitions", path + ".none"], 65, "", has("does not exist")),
        ])
        assert os.stat(path).st_mode & 0o077 == 0, "hashes of passwords are for nobody else"
        # One that is there, and that anybody may read, is another file afterwards, as with RabbitMQ's tool.
        os.chmod(path, 0o644)
        with open(path, encoding="utf-8") as before:
            os.truncate(path, 0)
            assert tools().run(["export_definitions", path]).returncode == 0
            assert before.read() == "", "who has the file open does not see what is written"
        assert os.stat(path).st_mode & 0o077 == 0 and os.listdir(folder) == ["defs.json"]
    done = tools().run("import_definitions", stdin=text)
    assert done.returncode == 0, done
    done = tools().run("import_definitions - -q", stdin='{"queues": 3}')
    assert done.returncode == 69 and "queues is not a list" in done.stderr, done


@case("stops", "shutdown, and stop with the file of the process id; load_definitions at the next start",
            "the process has ended when the command has; what the file names is there before anybody is served")
def _():
    only_ours()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "defs.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({
                "vhosts": [{"name": "/"}, {"name": "loaded"}],
                "users": [{"name": "loader", "password": "secret", "tags": "administrator"}],
                "permissions": [{"user": "loader", "vhost": "loaded", "configure": ".*", "write": ".*", "read": ".*"}],
                "queues": [{"name": name, "vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}}
                           for name, vhost in (("q", "loaded"), ("heard", "/"))],
                "exchanges": [{"name": "x", "vhost": "loaded", "type": "fanout", "durable": True, "auto_delete": False,
                               "arguments": {}}],
                "bindings": [{"source": "x", "vhost": "loaded", "destination": "q", "destination_type": "queue",
                              "routing_key": "", "arguments": {}},
                             {"source": "amq.rabbitmq.event", "vhost": "/", "destination": "heard", "destination_type": "queue",
                              "routing_key": "queue.deleted", "arguments": {}}],
            }, file)
        broker = Broker(suite.options.broker, [f"load_definitions={path}", "definitions.skip_if_unchanged=true"])
        try:
            broker.start()
            data = os.path.join(broker.folder, "data")

            def ctl(*words):
                return subprocess.run([broker.binary, "ctl", "--data-dir", data, *words], capture_output=True, text=True,
                                      timeout=60)

            assert ctl("list_users", "-s").stdout == "loader\t[administrator]\n", ctl("list_users", "-s")
            assert ctl("list_bindings", "-p", "loaded", "-s", "source_name", "destination_name").stdout.count("x\tq") == 1
            # The event exchange is in the first virtual host alone, and tells from the start.
            told = {vhost: "amq.rabbitmq.event" in ctl("list_exchanges", "-p", vhost, "-s", "name").stdout.split()
                    for vhost in ("/", "loaded")}
            assert told == {"/": True, "loaded": False}, told
            assert ctl("delete_queue", "-p", "loaded", "q").returncode == 0
            eventually(lambda: ctl("list_queues", "-p", "/", "-s", "name", "messages").stdout == "heard\t1\n", "the news")
            pid = broker.pid
            done = ctl("shutdown", "-t", "20")
            assert done.returncode == 0 and "successfully shut down" in done.stdout, done
            assert broker.process.wait(1) == 0
            broker.start()
            assert broker.pid != pid
            # The same definitions were imported before.
            assert ctl("list_queues", "-p", "loaded", "-s", "name").stdout == ""
            pid_file = os.path.join(folder, "pid")
            with open(pid_file, "w", encoding="utf-8") as file:
                file.write(f"{broker.pid}\n")
            assert ctl("stop", pid_file, "-t", "20").returncode == 0
            assert broker.process.wait(1) == 0
            with open(path, "a", encoding="utf-8") as file:
                file.write("]")
            checked = subprocess.run([broker.binary, "server", "--data-dir", data, "--check-config", "--set",
                                      f"load_definitions={path}"], capture_output=True, text=True, timeout=60)
            assert checked.returncode == 1 and path in checked.stdout, checked
        finally:
            broker.close()


@case("stop-app", "stop_app, reset and start_app, and what is answered meanwhile; publishing with confirms across it",
      "clients are told, no port is open, words that need the broker end with 64; what was confirmed is there; after a reset nothing is")
def _():
    only_ours()
    broker = Broker(suite.options.broker, ["stream.listeners.tcp.default=127.0.0.1:0"])
    try:
        broker.start()
        data, uri = os.path.join(broker.folder, "data"), Uri(broker.uri)

        def ctl(*words):
            return subprocess.run([broker.binary, "ctl", "--data-dir", data, *words], capture_output=True, text=True, timeout=60)

        def ends(code, *words):
            done = ctl(*words)
            assert done.returncode == code, (words, done)
            return done.stdout + done.stderr

        def client():
            login = pika.PlainCredentials("guest", "guest")
            return pika.BlockingConnection(pika.ConnectionParameters(uri.host, broker.port, "/", login, heartbeat=0))

        def listens(port):
            with socket.socket() as peer:
                return peer.connect_ex(("127.0.0.1", port)) == 0

        assert "stop_app" in ends(64, "reset")
        ends(0, "start_app")
        for turn, kind in enumerate(("classic", "quorum", "stream")):
            connection = client()
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
            confirmed = 0
            stopping = None
            try:
                while confirmed < 20000:
                    channel.basic_publish("", kind, b"x" * 100, pika.BasicProperties(delivery_mode=2))
                    confirmed += 1
                    if confirmed == 200:
                        stopping = subprocess.Popen([broker.binary, "ctl", "--data-dir", data, "stop_app", "-q"])
            except pika.exceptions.AMQPError:
                pass
            assert stopping.wait(30) == 0 and 200 <= confirmed < 20000, confirmed
            ports = [broker.port, broker.stream_port()]
            assert not any(listens(port) for port in ports), ports
            if turn == 0:
                ends(0, "stop_app", "-q")
                assert "Ping succeeded" in ends(0, "ping")
                assert "not running" in ends(69, "check_running")
                assert "not running" in ends(0, "is_running")
                for words in (["list_queues"], ["add_user", "x", "y"], ["status"], ["list_vhosts"], ["cluster_status"], ["listeners"]):
                    assert "start_app" in ends(64, *words), words
                ends(0, "version")
                ends(75, "await_startup", "-t", "1")
                assert "unsupported" in ends(69, "force_reset")
            ends(0, "start_app", "-q")
            ends(0, "await_startup", "-q")
            ends(0, "check_running", "-q")
            with open(broker.log, "rb") as log:
                broker.port = int(LISTENER.findall(log.read())[-1])
            told = dict(row.split("\t") for row in ends(0, "list_queues", "-s", "name", "messages").splitlines())
            assert confirmed <= int(told[kind]) <= confirmed + 1, (told, confirmed)
        pid = broker.pid
        ends(0, "add_user", "gone", "x")
        ends(0, "stop_app")
        ends(0, "reset")
        ends(0, "start_app")
        assert ends(0, "list_queues", "-s", "name") == "" and ends(0, "list_users", "-s") == "guest\t[administrator]\n"
        assert broker.pid == pid and broker.alive()
        ends(0, "stop_app")
        ends(0, "stop")
        assert broker.process.wait(10) == 0
        broker.start()
        ends(0, "list_queues", "-s")
        ends(0, "stop_app")
        assert broker.stop() == 0, "a signal ends one that was stopped"
    finally:
        broker.close()


if __name__ == "__main__":
    def add_options(parser):
        parser.add_argument("--broker", default="", help="a binary of ours to start")
        parser.add_argument("--stream-port", type=int, default=5552, help="where the broker at --uri speaks to streams")
        parser.add_argument("--tools", default="", help="a program that runs the tools of the broker at --uri")

    suite.main(add_options)
