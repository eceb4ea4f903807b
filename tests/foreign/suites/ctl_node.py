"""The node: checks, limits, waiting for it, stopping and starting it."""

import json
import os
import re
import socket
import subprocess
import tempfile
import time

import pika

from lab.broker import LISTENER, Broker
from lab.cases import Uri, eventually
from suites.ctl_bench import VHOST, case, check, has, only_ours, suite, tools


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


@case("start-app-fails", "start_app while another has the node's port; a second node on the folder of one that is stopped",
      "fails and says why, the process stays and starts when the port is free; the second is refused")
def _():
    only_ours()
    broker = Broker(suite.options.broker)
    try:
        broker.start()
        data, taken = os.path.join(broker.folder, "data"), broker.port
        broker.stop()
        words = [broker.binary, "server", "--data-dir", data, "--set", "management.tcp=none", "--set", "prometheus.tcp=none",
                 "--set", "stream.listeners.tcp=none", "--set", "web_amqp.tcp=none"]
        with tempfile.TemporaryFile() as said:
            node = subprocess.Popen([*words, "--set", f"listeners.tcp.default=127.0.0.1:{taken}"], stdout=said, stderr=said)
            try:
                def ctl(*words):
                    done = subprocess.run([broker.binary, "ctl", "--data-dir", data, *words], capture_output=True, text=True, timeout=60)
                    return done.returncode, done.stdout + done.stderr

                assert ctl("await_startup", "-t", "30")[0] == 0
                assert ctl("stop_app")[0] == 0
                second = subprocess.run([*words, "--set", "listeners.tcp.default=127.0.0.1:0"], capture_output=True, text=True, timeout=60)
                assert second.returncode == 1 and "in use" in second.stdout + second.stderr, second
                with socket.socket() as other:
                    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    other.bind(("127.0.0.1", taken))
                    other.listen()
                    for _ in range(2):
                        code, text = ctl("start_app")
                        assert code == 69 and str(taken) in text and "waits" in text, (code, text)
                    assert ctl("ping")[0] == 0 and node.poll() is None
                    assert ctl("list_queues")[0] == 64
                assert ctl("start_app") [0] == 0
                assert ctl("list_queues", "-q")[0] == 0 and ctl("check_running")[0] == 0
                assert ctl("stop")[0] == 0 and node.wait(20) == 0
            finally:
                if node.poll() is None:
                    node.kill()
                    node.wait()
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
