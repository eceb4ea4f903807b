"""Words about the tools themselves, and answers that go on: help, secrets, reports, completions, the dashboard."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time

from suites.ctl_bench import (
    NOTHING, TOOLS, VHOST, case, check, connect, declare, has, only_ours, tools,
)

# Secrets that RabbitMQ 4.3.6 encrypted, with their passphrases, what they are, and how.
THEIR_SECRETS = [
    ('{encrypted,<<"hcqyKhCXedXYImwj3jT0Hec2bDjSTfRiZXxoCahBjvKv/pYBxiH6Zz2w/3MHaWMS">>}', "pass phrase", "secret", []),
    ('{encrypted,<<"zwGTEMWs5n4SlIFPLwWg5XLI8u05163sucP+WFU/1SFRXDwtQCVXKBnppblYxv1WVPgEeDWqiwOSczNbKBGDJRHjaSz5K1DGF6Jt483kBBs=">>}',
     "p", "longer than one block of sixteen", ["--cipher", "aes_128_cbc", "--hash", "sha256", "--iterations", "17"]),
    ('{encrypted,<<"3UQO3Vw/1TxwBfCS4qtHd5quR3BPdon+4Sh0sZ4BtnNfGjWRLXnAxNQct3Xb8vmJ">>}', "p", "list", []),
]


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


@case("admin", "rabbitmqadmin beside the node: declare, list, publish, get, purge, delete; words that fit nothing, a login that fails",
      "the objects are made and gone; 64 for what fits nothing, 65 for the login")
def _():
    only_ours()

    def admin(*words, code=0, said="", stdin=None):
        done = tools().run([f"--vhost={VHOST}", *words], tool="rabbitmqadmin", stdin=stdin)
        text = done.stdout + done.stderr
        assert done.returncode == code and said in text, (words, done)
        return text

    admin("declare", "exchange", "name=ctl-admin-x", "type=topic", said="exchange declared")
    admin("declare", "queue", "name=ctl-admin", 'arguments={"x-max-length":5}', said="queue declared")
    admin("declare", "binding", "source=ctl-admin-x", "destination=ctl-admin", "routing_key=a.#", said="binding declared")
    admin("publish", "exchange=ctl-admin-x", "routing_key=a.b", "payload=hello", said="Message published\n")
    admin("publish", "exchange=ctl-admin-x", "routing_key=b", "payload=hello", said="Message published but NOT routed")
    rows = json.loads(admin("-f", "raw_json", "list", "queues", "name", "messages"))
    assert {"name": "ctl-admin", "messages": 1} in rows, rows
    admin("publish", "routing_key=ctl-admin", said="Message published\n", stdin="from a pipe")
    rows = json.loads(admin("-f", "raw_json", "get", "queue=ctl-admin", "count=2"))
    assert [row["payload"] for row in rows] == ["hello", "from a pipe"], rows
    admin("publish", "routing_key=ctl-admin", "payload_encoding=base64", code=64, said="payload=..., which is missing")
    rows = json.loads(admin("-f", "raw_json", "list", "permissions", "vhost"))
    assert rows and all(row["vhost"] == VHOST for row in rows), rows
    parameter = ("component=federation-upstream", "name=ctl-admin")
    admin("declare", "parameter", *parameter, 'value={"uri":"amqp://localhost"}', said="parameter declared")
    rows = json.loads(admin("-f", "raw_json", "list", "parameters", "name", "vhost"))
    assert rows == [{"name": "ctl-admin", "vhost": VHOST}], rows
    admin("delete", "parameter", *parameter, said="parameter deleted")
    admin("-f", "tsv", "list", "bindings", "source", "destination", "routing_key", said="ctl-admin-x\tctl-admin\ta.#")
    admin("get", "queue=ctl-admin", "ackmode=ack_requeue_true", said="hello")
    admin("purge", "queue", "name=ctl-admin", said="queue purged")
    admin("delete", "binding", "source=ctl-admin-x", "destination=ctl-admin", "properties_key=a.%23", said="binding deleted")
    admin("delete", "queue", "name=ctl-admin", said="queue deleted")
    admin("delete", "exchange", "name=ctl-admin-x", said="exchange deleted")
    admin("-u", "guest", "-p", "guest", "-H", "localhost", "-P", "15672", "list", "users", said="guest")
    admin("show", "overview", said="product_name")
    admin("-u", "guest", "-p", "wrong", "list", "users", code=65)
    admin("-H", "example.org", "list", "users", code=64, said="example.org")
    admin("declare", "queue", "name=x", "size=1", code=64, said="size is unknown here")
    admin("delete", "queue", "name=ctl-none", code=65)


@case("server-name", "the program by the name rabbitmq-server: a start, on a port that is taken, and with a plugin that is not served",
      "it serves; the second is refused with the process that has the port and the setting for another; the third with the plugin's name")
def _():
    only_ours()
    server = os.path.join(tools().folder, "rabbitmq-server")
    others = ("management.tcp = none", "prometheus.tcp = none", "web_amqp.tcp = none", "stream.listeners.tcp = none")
    with tempfile.TemporaryDirectory() as folder:
        words = [server, "--data-dir", os.path.join(folder, "data")]
        for setting in others:
            words += ["--set", setting]
        done = subprocess.run([*words, "--set", f"listeners.tcp.default=127.0.0.1:{tools().uri.port}"], capture_output=True, text=True,
                              timeout=30)
        holder = f"(process {tools().broker.pid}). Another port: --set listeners.tcp.default="
        assert done.returncode == 1 and (done.stdout + done.stderr).count(holder) == 1, done
        plugins = os.path.join(folder, "enabled_plugins")
        with open(plugins, "w", encoding="utf-8") as file:
            file.write("[rabbitmq_management,rabbitmq_shovel].\n")
        done = subprocess.run([*words, "--set", "listeners.tcp.default=127.0.0.1:0"], capture_output=True, text=True, timeout=30,
                              env={**os.environ, "RABBITMQ_ENABLED_PLUGINS_FILE": plugins})
        assert done.returncode == 1 and "rabbitmq_shovel cannot be used: not served yet" in done.stderr, done
        with subprocess.Popen([*words, "--set", "listeners.tcp.default=127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as node:
            said = ""
            for line in node.stdout:
                said += line
                if " ready in " in line:
                    break
            node.terminate()
            assert node.wait(timeout=30) == 0 and "Server startup complete" in said, said
            assert re.search(r"Leveret \S+ ready in \d+ ms · AMQP amqp://localhost:\d+ · user guest", said), said


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
        # Values that RabbitMQ 4.3.6 encrypted.
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
            # The queue, with its messages, and back.
            screen.type("\r")
            screen.until("head")
            screen.type("\x1b")
            screen.until("READY")
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
