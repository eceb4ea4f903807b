"""Virtual hosts, users, queues and what else the tools list, make and delete."""

import json
import os
import re
import struct
import tempfile

import pika

from lab.cases import equal, eventually
from lab.wire_stream import (
    CONFIRM, CONSUMER_UPDATE, CREATE, DECLARE, DELETE, OK, STORE, UPDATE, Peer, message, pairs, text,
)
from suites.ctl_bench import (
    NOTHING, VHOST, case, check, connect, declare, has, lines, only_ours, suite, tools,
)


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


@case("stream-pid", "list_stream_connections conn_name,pid,client_properties and the other lists' connection_pid; close_connection of that pid",
      "a row each; the connection of that pid ends, as for list_connections")
def stream_pid():
    tool = "rabbitmq-streams "
    uri = tools().uri
    port = tools().broker.stream_port() if tools().is_ours else suite.options.stream_port
    with Peer(uri, port, user=uri.user, password=uri.password, vhost=VHOST) as peer:
        peer.ask(CREATE, text("ctl-pid") + pairs({}))
        try:
            equal(peer.code(DECLARE, b"\x01" + text("") + text("ctl-pid")), OK)
            equal((peer.subscribe(3, "ctl-pid"), peer.subscribe(4, "ctl-pid")), (OK, OK))
            listed = eventually(lambda: [
                row.split("\t") for row in tools().run(
                    f"{tool}list_stream_connections -q --formatter table vhost,pid,client_properties,subscriptions").stdout.splitlines()
                if row.startswith(VHOST)], "listed")
            (_, pid, properties, subscriptions), = listed
            assert re.fullmatch(r"<\d+(\.\d+)+>", pid) and properties.startswith("["), listed
            equal(subscriptions, "2")
            at = f"--vhost {VHOST}"
            for words in (f"list_stream_publishers {at} -s connection_pid", f"list_stream_consumers {at} -s connection_pid,subscription_id"):
                rows = tools().run(tool + words).stdout.splitlines()
                assert rows and all(row.split("\t")[0] == pid for row in rows), (words, rows, pid)
            told = json.loads(tools().run(f"{tool}list_stream_consumers {at} --formatter json").stdout)
            equal({"messages_consumed", "offset_lag", "properties"} <= set(told[0]), True)
            assert tools().run(f"{tool}list_stream_consumers {at} messages -q").returncode == 64
            check([(f"close_connection {pid} enough", 0, re.compile("^Closing connection"))])
            eventually(lambda: pid not in tools().run(f"{tool}list_stream_connections -s pid").stdout, "gone")
        finally:
            tools().run(f"delete_queue -p {VHOST} ctl-pid")


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
        equal(other.code(DECLARE, b"\x01" + text("") + text("ctl-untouched")), OK)
        try:
            # Members on several shards are told in no order; who waits is not made active by the end of the others.
            for _ in range(5 if tools().is_ours else 1):
                equal(writer.code(DECLARE, declare), OK)
                equal((reader.subscribe(3, "ctl-restarted", **own), waiting.subscribe(4, "ctl-restarted", **own)), (OK, OK))
                equal(reader.next(CONSUMER_UPDATE).rest[4:], b"\x03\x01")
                check([
                    (f"{tool}restart_stream --vhost {VHOST} ctl-restarted", 0, re.compile("Restarting stream ctl-restarted")),
                ])
                for one in (writer, reader, waiting):
                    equal(one.next(UPDATE).rest, struct.pack(">H", 6) + text("ctl-restarted"))
                    if tools().is_ours:
                        equal([frame for frame in one.waiting if frame.key == CONSUMER_UPDATE], [])
            assert tools().run(f"{tool}restart_stream --vhost {VHOST} ctl-none -q").returncode != 0
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


@case("moves", "redrive_queue, move_messages and settle_messages, in nobody's name, of all messages and by what is in them",
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
        # By what is in them.
        for number in range(20):
            channel.basic_publish("", "ctl-dying", b'{"k":%d}' % (number % 4), pika.BasicProperties(delivery_mode=2))
        check([
            (["move_messages", "-p", VHOST, "ctl-dying", "", "ctl-target", "--where", "body.k = 1", "-q"], 0, has("Moved 5 messages")),
            (["settle_messages", "-p", VHOST, "ctl-dying", "rejected", "--where", "body.k = 2", "-q"], 0, has("5 messages were rejected")),
            (["settle_messages", "-p", VHOST, "ctl-dying", "accepted", "--where", "body.k = 3", "-q"], 0, has("5 messages were accepted")),
            (["settle_messages", "-p", VHOST, "ctl-dying", "accepted", "--where", "body.k = ", "-q"], 69, "", has("at byte 9")),
            (["settle_messages", "-p", VHOST, "ctl-dying", "lost", "--where", "TRUE", "-q"], 64, "", has("lost")),
        ])
        until(("ctl-dying", 9), ("ctl-target", 5), ("ctl-dead", 5))
        # Of nine four were there before; two are held.
        held = connection.channel()
        for _ in range(2):
            held.basic_get("ctl-dying")
        check([
            (["settle_messages", "-p", VHOST, "ctl-dying", "accepted", "--where", "STATE() = 'held'", "-q"], 0, has("0 messages were accepted")),
            (["settle_messages", "-p", VHOST, "ctl-dying", "accepted", "--held", "--where", "STATE() = 'held'", "-q"], 0,
             has("2 messages were accepted")),
            (["settle_messages", "-p", VHOST, "ctl-dying", "accepted", "--held", "--where", "TRUE", "-q"], 0, has("7 messages were accepted")),
        ])
        until(("ctl-dying", 0))


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
