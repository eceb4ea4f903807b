"""Every word of RabbitMQ's tools in every form, against the notes of what RabbitMQ 4.3.6 answered (`tools_script`).

What differs on purpose is named below, with its reason: a difference that is not named fails, and so does a name that nothing
differs by any more.
"""

import fnmatch
import json
import os
import re
import shutil
import tempfile

from lab.broker import Broker
from lab.cases import Skip, Suite
from suites import tools_script
from suites.tools_script import ANSWERS, TOOLS

suite = Suite("tools")

# Documents of which keys are compared; and keys of theirs that are RabbitMQ's own: memory and tables of its runtime among them.
OWN_VALUES = ("status ", "cluster_status ", "rabbitmq-diagnostics memory_breakdown", "rabbitmq-diagnostics listeners ",
              "rabbitmq-diagnostics list_network_interfaces", "rabbitmq-diagnostics os_env", "rabbitmq-plugins directories",
              "rabbitmq-plugins list", "list_node_auth_attempt_stats", "version ", "rabbitmq-diagnostics log_location")
RUNTIME = ("atom", "mnesia", "plugins", "stream_queue", "quorum_", "reserved_", "metadata_store_ets", "other_ets", "msg_index", "eth",
           "lo", "ifb", "ADVANCED", "PLUGINS", "RABBITMQ", "node")

# Command lines that end with another code here, or say something else on standard output, and why. The first that fits counts.
DIFFERENT = [
    ("* --formatter erlang", "lines are broken between rows and columns, and not at 80 characters"),
    ("* --formatter string", "a table and no terms of Elixir"),
    ("* --formatter inspect", "there is no Elixir here"),
    ("* --formatter nonsense", "refused as other words that cannot be used are; RabbitMQ's tool breaks"),
    ("* --formatter csv", "lists are written as in tables, and sentences as they are; RabbitMQ's tool breaks, or writes an empty line; "
     "limits, logins and flags are those of the tables"),
    ("list_* --formatter pretty_table", "lists are written as in tables, not run together"),
    ("list_connections *client_properties*", "beyond RabbitMQ user_provided_name; of other properties what the node keeps"),
    ("list_user_topic_permissions *", "names of columns, as all lists have them"),
    ("list_vhost_limits *", "a limit below 0 is none"),
    ("list_parameters -p tools-v*", "as above; fields of documents by name"),
    ("list_queues -p tools-v name durable auto_delete *", "memory, reads and writes of queues, and what is in memory alone"),
    ("list_channels pid *", "a process id has the form of RabbitMQ's, and stands for shard and slot"),
    ("list_node_auth_attempt_stats*", "nobody came over HTTP"),
    ("list_feature_flags*", "flags of MQTT are not there"),
    ("list_policies_with_classic_queue_mirroring*", "an empty list; RabbitMQ's tool breaks"),
    ("list_operator_policies_with_classic_queue_mirroring*", "as above"),
    ("*check_if_cluster_has_classic_queue_mirroring_policy", "there is none; RabbitMQ's tool breaks"),
    ("remove_classic_queue_mirroring_from_policies", "nothing to remove; RabbitMQ's tool breaks"),
    ("federation_status", "an empty table"),
    ("certificates", "a list for people"),
    ("message_size_stats*", "other nodes have had other messages"),
    ("*status*", "each node's own: memory, versions, listeners, paths; members of queues without figures of Raft, which there is not"),
    ("ping", "there is no epmd"),
    ("rabbitmq-diagnostics listeners", "other ports"),
    ("rabbitmq-diagnostics memory_breakdown*", "other memory"),
    ("rabbitmq-diagnostics log_location", "standard output"),
    ("rabbitmq-diagnostics tls_versions*", "those that are served, a line each"),
    ("rabbitmq-diagnostics cipher_suites*", "those that are served"),
    ("rabbitmq-diagnostics discover_peers", "a name"),
    ("rabbitmq-diagnostics list_network_interfaces*", "what the kernel tells of each; addresses by ip"),
    ("rabbitmq-diagnostics os_env", "variables that settings were taken from"),
    ("rabbitmq-diagnostics command_line_arguments*", "words and no terms; in JSON too"),
    ("rabbitmq-diagnostics resolver_info", "there is no inetrc"),
    ("rabbitmq-plugins directories", "there are no plugins to load"),
    ("rabbitmq-plugins list *", "what is served"),
    ("list_hashes*", "those there are"),
    ("list_ciphers*", "those there are"),
    ("rabbitmq-upgrade *", "queues have one member"),
    ("rabbitmq-queues rebalance all", "streams are counted too"),
    ("-l *", "names of nodes may be long ones"),
    ("*--longnames*", "as above"),
    ("--dry-run *", "not there"),
    ("-n rabbit@nowhere.invalid *", "a name that is another's; RabbitMQ's cannot be reached so"),
    ("set_vm_memory_high_watermark bogus", "what is tried is said"),
    ("set_disk_free_limit bogus", "as above"),
    ("force_gc", "there are no processes to collect"),
    ("update_cluster_nodes a", "a node is alone"),
    ("force_boot", "as above"),
    ("rabbitmq-diagnostics check_local_alarms", "it is one here"),
    ("rabbitmq-diagnostics enable_auth_attempt_source_tracking", "refused: not done"),
    ("deactivate_free_disk_space_monitoring", "refused: always done"),
    ("*_listeners", "refused: not done"),
    ("eval_file *", "there is no Erlang here"),
    ("encode*", "value and passphrase are not asked for on the terminal"),
    ("encrypt_conf_value", "as above"),
    ("decode *", "no trace of a stack"),
    ("decrypt_conf_value *", "as above"),
    ("hash_password", "a password may come by standard input"),
]


def ours():
    """Our answers to all commands."""
    if not suite.options.broker:
        raise Skip("needs a broker of our own (--broker)")
    broker = Broker(suite.options.broker, [
        "stream.listeners.tcp.default=127.0.0.1:0", "management.tcp = none", "prometheus.tcp = none", "web_amqp.tcp = none"])
    folder = tempfile.mkdtemp(prefix="leveret-tools-")
    try:
        broker.start()
        for tool in TOOLS:
            os.link(broker.binary, os.path.join(folder, tool))
        program = os.path.join(folder, "program")
        data = os.path.join(broker.folder, "data")
        with open(program, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\ntool=$1\nshift\nLEVERET_DATA_DIR={data} exec {folder}/"$tool" "$@"\n')
        os.chmod(program, 0o755)
        return tools_script.run([program], broker.uri)
    finally:
        broker.close()
        shutil.rmtree(folder)


def even(line, out):
    """An answer without what two brokers need not share: moments, counts that pass, the order of rows and of keys, how tables are
    drawn, and the types of arguments that RabbitMQ's JSON has."""
    out = re.sub(r"rabbitmq-cluster-id-[\w-]+|leveret-[0-9a-f]{32}", "ID", tools_script.plain(out)).replace("\u200b", "")
    if re.search("--formatter.json", line) and out.strip()[:1] in ("[", "{"):
        documents = out.splitlines() if "json_stream" in line else [out]
        return rows_of([json.loads(document) for document in documents if document])
    if "\x1b(0" in out or "│" in out:
        out = "\n".join(cells(row) for row in out.splitlines())
    # How many messages there are passes.
    out = re.sub(r"^(q1|q2|q ä,\"3\"|one-reader)\t\d+", r"\1\tN", out, flags=re.M)
    head, lines = [], [row for row in out.splitlines() if row]
    while lines and lines[0].endswith("..."):
        head.append(lines.pop(0))
    if " -s" not in line and "--no-table-headers" not in line:
        head += lines[:1]
        del lines[:1]
    return head + sorted(lines)


def cells(row):
    """The cells of a table that is drawn; of a rule nothing. Terms of Erlang are left out."""
    if row.startswith("\x1b(0x"):
        parts = row.replace("\x1b[1m", "").replace("\x1b[0m", "").split("\x1b(0x\x1b(B")[1:-1]
    elif row.startswith("│"):
        parts = row.split("│")[1:-1]
    else:
        return "" if row.startswith(("\x1b(0", "┌", "├", "└")) else row
    parts = [part.strip() for part in parts]
    return "\t".join("..." if "<<" in part or part.startswith(("[", "#{", "{")) else part for part in parts)


def rows_of(documents):
    """Lists of objects as sets of rows; what passes is blanked."""
    def plainer(value, key=""):
        if isinstance(value, dict):
            return {name: plainer(own, name) for name, own in value.items()}
        if isinstance(value, list):
            if value and all(isinstance(own, list) and len(own) == 3 and isinstance(own[1], str) for own in value):
                return {name: plainer(own) for name, _kind, own in value}
            return {} if value == [] and key == "arguments" else [plainer(own) for own in value]
        if key in ("value", "limits", "definition") and isinstance(value, str) and value[:1] in ("{", "["):
            return plainer(json.loads(value))
        return 0 if key == "messages" else value

    documents = [plainer(document) for document in documents]
    if len(documents) == 1 and isinstance(documents[0], list):
        documents = documents[0]
    return sorted(json.dumps(document, sort_keys=True, ensure_ascii=False) for document in documents)


def lacking(line, seen, wanted):
    """Of documents whose values are each node's own: keys that ours has not. None: it is another document."""
    if not line.startswith(OWN_VALUES) or "--formatter json" not in line:
        return None
    seen, wanted = json.loads(seen), json.loads(wanted)
    both = [(seen, wanted)] + [(seen[key], wanted[key]) for key in wanted if isinstance(wanted, dict) and key in seen]
    return [key for ours, theirs in both if isinstance(ours, dict) and isinstance(theirs, dict)
            for key in theirs if key not in ours and not key.startswith(RUNTIME)]


def differences():
    with open(ANSWERS, encoding="utf-8") as file:
        theirs = json.load(file)
    found = ours()
    assert set(found) == set(theirs), sorted(set(found) ^ set(theirs))
    for line, wanted in theirs.items():
        seen = found[line]
        if seen["code"] != wanted["code"]:
            yield line, f"ended with {seen['code']}, not {wanted['code']}: {seen['err'][:200]!r}"
        elif lacking(line, seen["out"], wanted["out"]) == []:
            continue
        elif even(line, seen["out"]) != even(line, wanted["out"]):
            yield line, f"said {even(line, seen['out'])}, not {even(line, wanted['out'])}"


@suite.case("script", "472 command lines of the tools: every list in every form, options before and behind the word, words of former "
            "versions, what is refused", "the same code and the same on standard output, but for what is named", 120)
def script():
    unexpected, used = [], set()
    for line, what in differences():
        reason = next((number for number, (pattern, _why) in enumerate(DIFFERENT) if fnmatch.fnmatchcase(line, pattern)), None)
        if reason is None:
            unexpected.append(f"{line}: {what}")
        else:
            used.add(reason)
    unused = [pattern for number, (pattern, _why) in enumerate(DIFFERENT) if number not in used]
    if suite.options.show:
        with open(suite.options.show, "w", encoding="utf-8") as file:
            file.write("\n".join(unexpected))
    assert not unexpected, f"{len(unexpected)} differ: {unexpected}"
    assert not unused, f"nothing differs by {unused}"


if __name__ == "__main__":
    def add_options(parser):
        parser.add_argument("--broker", default="", help="a binary of ours to start")
        parser.add_argument("--show", default="", help="a file to write all differences to that are not named")

    suite.main(add_options)
