"""The trail that administration leaves in the log, by HTTP and by the command line: a line a change, with the acting user."""

import json
import os
import re
import subprocess

from lab.broker import Broker
from lab.cases import equal, eventually
from suites.management_pages import JSON, OWN, Own, ask, with_client

LINE = re.compile(r"^\S+ \S+ \[(info|warning)\] <[\d.]+> (.*)$")
OF_CONNECTIONS = re.compile("accepting |AMQP connection |connection |closing ")
SECRET = "s3cret-of-the-case"
ODD = "a'b\nc\\d\u202e"
TOLD_ODD = r"'a\'b\nc\\d\u{202e}'"
SHOVEL = {"value": {"src-uri": f"amqp://u:{SECRET}@h", "dest-uri": "amqp://", "src-queue": "q"}}


def slips(binary):
    with with_client(binary) as (broker, port, connection):
        channel = connection.channel()

        def warned():
            with open(broker.log, encoding="utf-8") as log:
                found = [LINE.match(line.rstrip("\n")) for line in log]
            return [line[2] for line in found if line and line[1] == "warning" and "has no effect" in line[2]]

        told = "declared by user 'guest': argument '{}' is unknown and has no effect, is '{}' meant?"
        channel.queue_declare("q'1", durable=True, arguments={"x-max-lenght": 5})
        channel.queue_declare("q'1", durable=True, arguments={"x-max-lenght": 5})
        channel.queue_declare("mine", durable=True, arguments={"x-owner": "us", "team": "a", "x-max-length": 5})
        channel.exchange_declare("x", arguments={"x-alternate-exchange": "y"})
        ask(port, "PUT", "/api/queues/%2F/h", {"Content-Type": JSON}, json.dumps({"durable": True, "arguments": {"message-ttl": 5}}))
        expected = ["queue 'q\\'1' in vhost '/', " + told.format("x-max-lenght", "x-max-length"),
                    "exchange 'x' in vhost '/', " + told.format("x-alternate-exchange", "alternate-exchange"),
                    "queue 'h' in vhost '/', " + told.format("message-ttl", "x-message-ttl")]
        eventually(lambda: len(warned()) >= 3, "the slips are in the log")
        equal(warned(), expected)
        # A client cannot fill the log with them.
        for number in range(100):
            channel.queue_declare(f"many{number}", arguments={"x-expire": 5, "x-expires": 60_000}, exclusive=True)
        eventually(lambda: len(warned()) >= 10, "more of them are in the log")
        equal([len(warned()), warned()[-1].endswith("(no more of this for a minute)")], [10, True])


def quoted(name):
    return "".join(f"%{byte:02X}" for byte in name.encode())


def trail(binary):
    own = Own(binary)
    with own as (port, _):
        http(own.broker, port)
        tools(own.broker)
        with open(own.broker.log, encoding="utf-8") as log:
            text = log.read()
        equal(SECRET in text, False, "no secret is in the log")


def expect(broker, before, expected, what):
    """The lines that came since, those of connections apart; all of them, in their order."""

    def lines():
        with open(broker.log, encoding="utf-8") as log:
            found = [LINE.match(line.rstrip("\n")) for line in log.readlines()[before:]]
        equal(all(found), True, f"{what}: each line of the log begins as one")
        return [line[2] for line in found if not OF_CONNECTIONS.match(line[2])]

    eventually(lambda: len(lines()) >= len(expected), f"{what} is in the log")
    equal(lines(), expected, what)


def count(broker):
    with open(broker.log, encoding="utf-8") as log:
        return len(log.readlines())


def http(broker, port):
    odd = quoted(ODD)
    granted = {"configure": "^a", "write": ".*", "read": ""}
    rows = [
        ("PUT", "/users/app", {"password": SECRET, "tags": "management"}, 201,
         ["Created user 'app'", "Successfully set user tags for user 'app' to [management]"]),
        ("PUT", "/users/app", {"password": SECRET, "tags": ""}, 204,
         ["Successfully changed password for user 'app'", "Successfully set user tags for user 'app' to []"]),
        ("PUT", "/permissions/%2F/app", granted, 201,
         ["Successfully set permissions for user 'app' in virtual host '/' to '^a', '.*', ''"]),
        ("DELETE", "/permissions/%2F/app", None, 204, ["Successfully cleared permissions for user 'app' in virtual host '/'"]),
        ("PUT", f"/users/{odd}", {"password": SECRET, "tags": ""}, 201,
         [f"Created user {TOLD_ODD}", f"Successfully set user tags for user {TOLD_ODD} to []"]),
        ("DELETE", f"/users/{odd}", None, 204, [f"Deleted user {TOLD_ODD}"]),
        ("PUT", "/vhosts/v", {"description": "d", "tags": "a,b"}, 201,
         ["Adding vhost 'v' (description: 'd', tags: [a,b])",
          "Successfully set permissions for user 'guest' in virtual host 'v' to '.*', '.*', '.*'"]),
        ("PUT", "/policies/v/p", {"pattern": "^q", "definition": {"max-length": 5}, "apply-to": "queues"}, 201,
         ["Successfully set policy 'p' matching queues names in virtual host 'v' using pattern '^q'"]),
        ("PUT", "/policies/v/p", {"pattern": "(", "definition": {"max-length": 5}}, 400, []),
        ("DELETE", "/policies/v/p", None, 204, ["Successfully cleared policy 'p' in virtual host 'v'"]),
        ("PUT", "/vhost-limits/v/max-queues", {"value": 7}, 204,
         ["Successfully set limits of virtual host 'v': connections unlimited, queues 7"]),
        ("PUT", "/queues/v/q", {}, 201, []),
        ("DELETE", "/queues/v/q/contents", None, 204, ["Purged queue 'q' in virtual host 'v'"]),
        ("DELETE", "/queues/v/q", None, 204, ["Deleted queue 'q' in virtual host 'v'"]),
        ("PUT", "/exchanges/v/x", {}, 201, []),
        ("DELETE", "/exchanges/v/x", None, 204, ["Deleted exchange 'x' in virtual host 'v'"]),
        ("DELETE", "/vhosts/v", None, 204, ["Deleting vhost 'v'"]),
        ("POST", "/definitions", {"users": [{"name": "i", "password": SECRET, "tags": ""}],
                                  "queues": [{"name": f"i{number}", "vhost": "/"} for number in range(200)]}, 204,
         ["Asked to import definitions", "Created user 'i'", "Successfully set user tags for user 'i' to []",
          "Imported definitions (queues: 200, users: 1)"]),
        ("POST", "/definitions", {"users": [{"name": "j"}]}, 400,
         ["Asked to import definitions", "Definitions were not imported: entries that are refused: 1"]),
    ]
    for method, path, body, status, expected in rows:
        before = count(broker)
        text = None if body is None else json.dumps(body)
        equal(ask(port, method, "/api" + path, {"Content-Type": JSON}, text)[0], status, f"{method} {path}")
        expect(broker, before, [f"{line}. Acting user: 'guest'" for line in expected], f"{method} {path}")
    ask(port, "PUT", "/api/parameters/shovel/%2F/s", {"Content-Type": JSON}, json.dumps(SHOVEL))


def tools(broker):
    data = os.path.join(broker.folder, "data")
    rows = [
        (["add_user", "tool", SECRET], ["Created user 'tool'", "Successfully set user tags for user 'tool' to []"]),
        (["change_password", "tool", SECRET], ["Successfully changed password for user 'tool'"]),
        (["set_permissions", "tool", "a", "b", "c"],
         ["Successfully set permissions for user 'tool' in virtual host '/' to 'a', 'b', 'c'"]),
        (["add_vhost", ODD], [f"Adding vhost {TOLD_ODD} (description: '', tags: [])"]),
        (["delete_vhost", ODD], [f"Deleting vhost {TOLD_ODD}"]),
        (["delete_user", "tool"], ["Deleted user 'tool'"]),
    ]
    for words, expected in rows:
        before = count(broker)
        done = subprocess.run([broker.binary, "ctl", "--data-dir", data, *words], capture_output=True, text=True, timeout=60)
        equal(done.returncode, 0, f"{words}: {done.stderr}")
        expect(broker, before, [f"{line}. Acting user: 'rmq-cli'" for line in expected], str(words))


FIRST = ["Will seed default virtual host and user...", "Adding vhost '/' (description: 'Default virtual host', tags: [])",
         "Created user 'guest'", "Successfully set user tags for user 'guest' to [administrator]",
         "Successfully set permissions for user 'guest' in virtual host '/' to '.*', '.*', '.*'"]
TOTAL = "of 953 MiB (1000000000 bytes) total"
# Words of a tool, its exit code, and the lines with the tools' user that it leaves.
ORDERS = [
    ("set_vm_memory_high_watermark 0.5", 0, [f"Memory high watermark set to 476 MiB (500000000 bytes) {TOTAL}"]),
    ("set_vm_memory_high_watermark absolute 600MB", 0, [f"Memory high watermark set to 572 MiB (600000000 bytes) {TOTAL}"]),
    ("set_vm_memory_high_watermark 2", 65, []),
    ("set_disk_free_limit 60MB", 0, ["Disk free limit set to 60MB"]),
    ("set_disk_free_limit mem_relative 0.1", 0, ["Disk free limit set to 100MB"]),
    ("set_disk_free_limit much", 65, []),
    ("set_log_level error", 0, ["Logging: changing primary log level to error"]),
    ("set_log_level info", 0, ["Logging: changing primary log level to info"]),
    ("set_log_level loud", 69, []),
    ("force_gc", 0, ["Memory that is not needed goes back to the system"]),
    ("move_log 1 1", 0, ["Moved log 1 to shard 1"]),
    ("move_log 1 0", 0, ["Moved log 1 to shard 0"]),
    ("move_log 1 7", 65, []),
    ("authenticate_user guest guest", 0, ["User 'guest' authenticated successfully"]),
    (f"authenticate_user guest {SECRET}", 65, ["User 'guest' failed to authenticate: user 'guest' - invalid credentials"]),
    ("list_queues", 0, []),
    ("status", 0, []),
]
# The same of orders behind which the node says more.
STOPS = [
    ("stop_app", "RabbitMQ is asked to stop"),
    ("reset", "reset: all that was declared and stored is gone"),
    ("start_app", "RabbitMQ is asked to start"),
    ("stop", "RabbitMQ is asked to stop, and its process to end"),
]


def said(broker, before=0):
    with open(broker.log, encoding="utf-8") as log:
        return [line[2] for line in map(LINE.match, log.read().splitlines()[before:]) if line]


def orders(binary):
    broker = Broker(binary, [*OWN, "leveret.shards=2", "total_memory_available_override_value=1000000000"])
    try:
        broker.start()
        words = [broker.binary, "ctl", "--data-dir", os.path.join(broker.folder, "data")]
        at = said(broker).index(FIRST[0])
        equal(said(broker)[at:at + len(FIRST)], FIRST, "the first start")
        for order, code, expected in ORDERS:
            before = count(broker)
            done = subprocess.run([*words, *order.split()], capture_output=True, text=True, timeout=60, check=False)
            equal(done.returncode, code, f"{order}: {done.stderr}")
            expect(broker, before, [f"{line}. Acting user: 'rmq-cli'" for line in expected], order)
        for order, expected in STOPS:
            before = count(broker)
            done = subprocess.run([*words, order], capture_output=True, text=True, timeout=60, check=False)
            equal(done.returncode, 0, f"{order}: {done.stderr}")
            eventually(lambda: f"{expected}. Acting user: 'rmq-cli'" in said(broker, before), f"{order} is in the log")
        equal(broker.process.wait(timeout=60), 0, "the node ends")
        before = count(broker)
        broker.start()
        equal(FIRST[0] in said(broker, before), False, "a later start makes nothing")
        broker.stop()
        equal("SIGTERM received - shutting down" in said(broker, before), True, "a signal is in the log")
        with open(broker.log, encoding="utf-8") as log:
            equal(SECRET in log.read(), False, "no secret is in the log")
    finally:
        broker.close()
