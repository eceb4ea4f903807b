"""The configuration: the lines that are taken, those that are refused, the effect of the served keys.

The first case compares the answer to each line of `settings_answers.json` with RabbitMQ's own (`settings_record`); what differs is listed
here with its reason, and a difference that is listed and gone fails as well.
"""

import concurrent.futures
import contextlib
import fnmatch
import gzip
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import tempfile
import time

import pika
from pika import exceptions

from lab import certificates
from lab.broker import Broker, BrokerError
from lab.cases import Skip, Suite, Uri, equal
from suites import network_bench, settings_files, settings_stamps

suite = Suite("settings")
ANSWERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "settings_answers.json")

ALONE = "a configuration that asks for a cluster is refused until there is one"
PROTOCOL = "a listener of a protocol that is not served yet is refused"
BACKEND = "another authentication backend is refused"
UNSAFE = "what is relied on for safety is refused where it is not there"
STRICT = "a value that cannot be meant is refused, where RabbitMQ finds out later or never"
LATER = "the feature is not served yet, and relied on"
OLD = "a key of older releases, or of what is always so here, is named in the log: it starts with the files that people have"
CLEAR = "what is meant is clear, and can be had"
FILES = "what the line names is looked at as well, certificates, definitions, passphrases: RabbitMQ fails at it later in its start"
# Lines that RabbitMQ takes and ours refuses.
REFUSED = {
    "auth_backends.*": BACKEND,
    "auth_mechanisms.1 = RABBIT-CR-DEMO": UNSAFE,
    "cluster_formation.classic_config.nodes.*": ALONE,
    "cluster_formation.peer_discovery_backend = *": ALONE,
    "cluster_formation.target_cluster_size_hint = 3": ALONE,
    "credential_validator.validation_backend = *": UNSAFE,
    "password_hashing_module = rabbit_password_hashing_sha512": UNSAFE,
    "proxy_protocol = true": UNSAFE,
    "ssl_options.psk_identity = x": UNSAFE,
    "ssl_options.versions.1 = tlsv1.1": UNSAFE,
    "mqtt.listeners.*": PROTOCOL,
    "stomp.listeners.*": PROTOCOL,
    "web_mqtt.*.port = *": PROTOCOL,
    "web_stomp.*.port = *": PROTOCOL,
    "log.syslog = true": LATER,
    "management.restrictions.operator_policy_changes.disabled = true": UNSAFE,
    "message_interceptors.outgoing.timestamp.enabled = true": LATER,
    "channel_max = -1": STRICT,
    "default_policies.operator.?.*_pattern = *": STRICT,
    "default_queue_type = strem": STRICT,
    "default_users.app.configure = (": STRICT,
    "frame_max = 100": STRICT,
    "heartbeat = -1": STRICT,
    "heartbeat = 70000": STRICT,
    "listeners.tcp.1 = 127.0.0.1:70000": STRICT,
    "log.file.rotation.date = daily": STRICT,
    "loopback_users.guest = maybe": STRICT,
    "prometheus.path = prom": STRICT,
    "vm_memory_high_watermark.absolute = -1": STRICT,
    "*load_definitions = /dev/null": FILES,
    "management.ssl.port = 15671": FILES,
    "prometheus.ssl.port = 15691": FILES,
    "stream.listeners.ssl.default = 5551": FILES,
    "*pass* = encrypted:abc": FILES,
}
# Lines that RabbitMQ refuses and ours takes.
TAKEN = {
    "channel_operation_timeout = *": OLD,
    "classic_queue.index.embed_msgs_below = *": OLD,
    "cluster_formation.lock_timeout = *": OLD,
    "cluster_formation.randomized_startup_delay_range.*": OLD,
    "cluster_partition_handling*pause_if_all_down*": OLD,
    "feature_flags.forced = x": OLD,
    "lazy_queue_explicit_gc_run_operation_threshold = *": OLD,
    "log.ldap.level = debug": OLD,
    "log.level = debug": OLD,
    "log.prelaunch.level = debug": OLD,
    "log.summarize_process_state = on": OLD,
    "log.syslog.ip = *": OLD,
    "management.max_http_body_size = *": OLD,
    "management.process_stats_gc_timeout = *": OLD,
    "management.require_auth_for_api_desc_page = *": OLD,
    "management.restrictions.vhost.delete = *": OLD,
    "management.swagger = true": OLD,
    "mqtt.default_user = guest": OLD,
    "mqtt.subscription_ttl = *": OLD,
    "msg_store_file_size_limit = *": OLD,
    "queue_explicit_gc_run_operation_threshold = *": OLD,
    "quorum_commands_soft_limit = *": OLD,
    "quorum_queue.leader_locator = *": OLD,
    "ssl_options.hibernate_after = *": OLD,
    "ssl_options.max_handshake_size = *": OLD,
    "trace_vhosts.events = true": OLD,
    "config_entry_decoder.passphrase = x": CLEAR,
    "default_permissions.configure = .[*]": CLEAR,
    "disk_free_limit.absolute = 50 MB": CLEAR,
    "disk_free_limit.relative = [01]": CLEAR,
    "listeners.tcp.*": CLEAR,
    "log.dir = /var/log/none": CLEAR,
    "log.file.rotation.size = 10MB": CLEAR,
    "loopback_users.some.user = false": CLEAR,
    "management.ssl.cacertfile = /x": CLEAR,
    "max_message_size = 0": CLEAR,
    "nodename = rabbit@x": CLEAR,
    "vm_memory_high_watermark.*": CLEAR,
}


def check_config(text="", advanced=None, environment=(), named="rabbitmq.conf"):
    """Exit code and report of `--check-config` for these files."""
    if not suite.options.broker:
        raise Skip("needs --broker")
    folder = tempfile.mkdtemp(prefix="leveret-settings-")
    try:
        path = os.path.join(folder, named)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        if advanced is not None:
            with open(os.path.join(folder, "advanced.config"), "w", encoding="utf-8") as file:
                file.write(advanced)
        words = [suite.options.broker, "server", "--data-dir", os.path.join(folder, "data"), "--check-config", "--config", path]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "LEVERET_"))}
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, env={**clean, **dict(environment)}, check=False)
        return done.returncode, (done.stdout + done.stderr).replace(folder + "/", "")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def difference(listed, line):
    return next((pattern for pattern in listed if fnmatch.fnmatchcase(line, pattern)), None)


@suite.case("lines", "each of 461 lines of rabbitmq.conf by itself, as they stand in configurations in use",
            "taken or refused, as by RabbitMQ 4.3.6; what differs is listed in the suite with its reason")
def _():
    with open(ANSWERS, encoding="utf-8") as file:
        answers = json.load(file)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        ours = dict(zip(answers, pool.map(lambda line: check_config(line + "\n"), answers)))
    wrong, seen = [], set()
    for line, theirs in answers.items():
        code, report = ours[line]
        answer = "refused" if code else "taken"
        listed = difference(REFUSED if answer == "refused" else TAKEN, line)
        if answer != theirs and listed is None:
            wrong.append(f"{line}: {theirs} by RabbitMQ, ours: {report.strip()}")
        if answer != theirs and listed is not None:
            seen.add(listed)
    equal(wrong, [])
    equal({*REFUSED, *TAKEN} - seen, set(), "listed, and no difference")


@suite.case("report", "--check-config of a file with four problems and an advanced.config with one",
            "all are told, with line and remedy, and counted; exit code 1; 0 and no problem for a file that can be used")
def _():
    code, report = check_config(
        "heartbeat = 30\nmqtt.vhost = x\nheartbeet = 1\nauth_backends.1 = ldap\ncluster_formation.peer_discovery_backend = k8s\n"
        "ssl_options.certfile = /nowhere/cert.pem\nlisteners.ssl.1 = 5671\n", "[{rabbit, [{tcp_listeners, nothing}]}].")
    equal(code, 1)
    for expected in (
            "warning: rabbitmq.conf:2: configuration key 'mqtt.vhost' has no effect: MQTT is not served yet", "unknown: rabbitmq.conf:3: unknown key 'heartbeet'",
            "the nearest known key is 'heartbeat'", "LDAP is not served yet; auth_backends.1 can be: internal", "no cluster is formed yet",
            "refused: advanced.config:1: rabbit.tcp_listeners", "ssl_options.keyfile",
            "the configuration cannot be used: served 3, without effect 1, refused 4, unknown 1 (rabbitmq.conf, advanced.config)"):
        equal(expected in report, True, f"{expected!r} in {report}")
    code, report = check_config("listeners.ssl.1 = 5671\nssl_options.certfile = /nowhere/a.pem\nssl_options.keyfile = /a.key\n"
                                "management.ssl.port = 15671\nmanagement.ssl.certfile = /nowhere/b.pem\nmanagement.ssl.keyfile = /b.key\n")
    equal((code, "refused: rabbitmq.conf:2: ssl_options.certfile /nowhere/a.pem" in report,
           "refused: rabbitmq.conf:5: management.ssl.certfile /nowhere/b.pem" in report),
          (1, True, True), report)
    equal(check_config("heartbeat = 30\n"), (0, "the configuration can be used: served 1, without effect 0, refused 0, unknown 0 (rabbitmq.conf)\n"))


@suite.case("whole", "--check-config of seven files as charts, operators, images and guides make them",
            "counts what is served, without effect, refused and unknown in each")
def _():
    for name, (text, advanced, expected) in settings_files.WHOLE.items():
        code, report = check_config(text, advanced)
        equal((counted(report), code), (expected, int(any(expected[2:]))), f"{name}: {report}")


def counted(report):
    """Settings that are served, without effect, refused and unknown, as the last line of a report has them."""
    return tuple(int(number) for number in re.findall(r"(?:served|effect|refused|unknown) (\d+)", report.splitlines()[-1]))


@suite.case("origins", "--check-config of twenty-two files in the forms of charts, operators, images, roles, hosted brokers and guides, old and new",
            "counts what is served, without effect, refused and unknown in each, and says of each refused setting why", 60)
def _():
    wrong = {}
    with tempfile.TemporaryDirectory(prefix="leveret-settings-") as folder:
        certificates.make(folder)
        with open(os.path.join(folder, "definitions.json"), "w", encoding="utf-8") as file:
            json.dump({"vhosts": [{"name": "/"}], "queues": [{"name": "q", "vhost": "/", "durable": True}]}, file)

        def check(of):
            placed = {key: text.replace("@CERTS@", folder).replace("@FILES@", folder) if isinstance(text, str) else text
                      for key, text in of[0].items()}
            return check_config(**placed)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            reports = dict(zip(settings_files.FILES, pool.map(check, settings_files.FILES.values())))
    for name, (_, counts, reasons) in settings_files.FILES.items():
        code, report = reports[name]
        told = [line for line in report.splitlines() if line.startswith(("refused: ", "unknown: "))]
        is_told = len(told) == len(reasons) and all(reason in line for reason, line in zip(reasons, told))
        if (counted(report), code, is_told) != (counts, int(bool(reasons)), True):
            wrong[name] = report
    assert not wrong, json.dumps(wrong, indent=1)


@suite.case("relied-on", "LDAP, a cluster, an MQTT listener, by a line, a term, the classic format, a variable, flags of the starter",
            "the start is refused, by each way")
def _():
    ldap, mqtt = "[{rabbit, [{auth_backends, [rabbit_auth_backend_ldap]}]}].", "[{rabbitmq_mqtt, [{tcp_listeners, [1883]}]}]."
    nodes = "[{rabbit, [{cluster_nodes, {['rabbit@a', 'rabbit@b'], disc}}]}]."
    ways = [{"text": line} for line in ("auth_backends.1 = ldap\n", "mqtt.listeners.tcp.1 = 1883\n",
                                        "cluster_formation.classic_config.nodes.1 = rabbit@other\n")]
    for term in (ldap, mqtt, nodes):
        ways += [{"advanced": term}, {"text": term, "named": "rabbitmq.config"}]
    ways += [{"environment": {"LEVERET_AUTH_BACKENDS_1": "ldap"}}, {"environment": {"RABBITMQ_ENABLED_PLUGINS": "rabbitmq_mqtt"}},
             {"environment": {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-rabbit auth_backends [rabbit_auth_backend_ldap]"}}]
    for way in ways:
        code, report = check_config(**way)
        equal((code, "not served yet" in report or "no cluster is formed yet" in report), (1, True), f"{way}: {report}")
    with contextlib.closing(Broker(suite.options.broker, ["auth_backends.1=ldap", "proxy_protocol=true"])) as broker:
        try:
            broker.start()
            raise AssertionError("it started")
        except BrokerError:
            said = broker_log(broker)
            equal(("LDAP is not served yet" in said, "the PROXY protocol is not served yet" in said), (True, True), said)


def broker_log(broker):
    with open(broker.log, encoding="utf-8") as file:
        return file.read()


@contextlib.contextmanager
def started(*settings, files=()):
    """A broker of our own with these settings; `{folder}` in them is its folder."""
    if not suite.options.broker:
        raise Skip("needs --broker")
    broker = Broker(suite.options.broker)
    broker.settings = [setting.format(folder=broker.folder) for setting in settings]
    for name, text in dict(files).items():
        with open(os.path.join(broker.folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    try:
        yield broker.start()
    finally:
        broker.close()


def may_log_in(broker, user, password, vhost="/"):
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port, vhost, pika.PlainCredentials(user, password), socket_timeout=10)
    try:
        pika.BlockingConnection(parameters).close()
        return True
    except (exceptions.ProbableAuthenticationError, exceptions.AuthenticationError, exceptions.ProbableAccessDeniedError,
            exceptions.ConnectionClosedByBroker):
        return False


def ctl(broker, *words):
    words = [broker.binary, "ctl", "-q", "--data-dir", os.path.join(broker.folder, "data"), *words]
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=True).stdout


@suite.case("users", "default_users: with the first virtual host, and one made since whose name matches",
            "is made with the first, may use what matches, and keeps the password it had")
def _():
    settings = ["default_users.app.vhost_pattern=^foreign", "default_users.app.password=s3cret", "default_users.app.tags=monitoring,own",
                "default_users.app.read=^r", "default_users.first.password=one", "default_users.first.vhost_pattern=^/$"]
    with started(*settings) as broker:
        equal((may_log_in(broker, "app", "s3cret"), may_log_in(broker, "first", "one")), (False, True))
        ctl(broker, "add_vhost", "foreign-1")
        equal(may_log_in(broker, "app", "s3cret", "foreign-1"), True)
        equal(may_log_in(broker, "first", "one", "foreign-1"), False)
        equal("app\\t[monitoring, own]" in ctl(broker, "list_users").replace("\t", "\\t"), True)
        equal("app\t.*\t.*\t^r" in ctl(broker, "list_permissions", "-p", "foreign-1"), True)
        ctl(broker, "change_password", "app", "another")
        ctl(broker, "add_vhost", "foreign-2")
        equal((may_log_in(broker, "app", "another", "foreign-2"), may_log_in(broker, "app", "s3cret", "foreign-2")), (True, False))


SECRET = "encrypted:ZD0qYC37J28lVH1cSMR7K7tzzkfbpAkch+rr9YWOJKK20hn1VDm569oKIrs3AFet3nB68KhqmQzepXW5RG6s9Q=="


@suite.case("encrypted", "default_pass as RabbitMQ's rabbitmqctl encode wrote it; a wrong passphrase, none, a cipher that is not served",
            "logs in, and is shown nowhere; the start is refused, and says why")
def _():
    with started("config_entry_decoder.passphrase=mypassphrase", "default_user=me", f"default_pass={SECRET}") as broker:
        equal((may_log_in(broker, "me", "s3cret pass"), may_log_in(broker, "me", SECRET)), (True, False))
        shown = ctl(broker, "environment")
        equal(("s3cret" in shown, "mypassphrase" in shown), (False, False), shown)
    for lines, expected in (
            (f"default_pass = {SECRET}\n", "config_entry_decoder.passphrase is not set"),
            (f"config_entry_decoder.passphrase = other\ndefault_pass = {SECRET}\n", "cannot be decrypted"),
            (f"config_entry_decoder.passphrase = mypassphrase\nconfig_entry_decoder.cipher = rc4\ndefault_pass = {SECRET}\n", "aes_128_cbc")):
        code, report = check_config(lines)
        equal((code, expected in report), (1, True), report)
    advanced = f'[{{rabbit, [{{config_entry_decoder, [{{passphrase, <<"mypassphrase">>}}]}}, {{default_pass, {{encrypted, <<"{SECRET[10:]}">>}}}}]}}].'
    equal(check_config("", advanced)[0], 0)


@suite.case("log-json", "log.console.formatter = json, and what becomes of fields, times and levels",
            "each line is an object with time, level and msg, by the names that are set")
def _():
    def lines(*settings):
        with started(*settings) as broker:
            return [json.loads(line) for line in broker_log(broker).splitlines() if line.strip()]

    # The bench waits for words in the log, which are there in either form.
    plain = lines("log.console.formatter=json")
    equal([list(line) for line in plain], [["time", "level", "msg", "pid", "domain"]] * len(plain))
    equal(bool(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\+00:00", plain[0]["time"])), True, plain[0])
    equal({line["domain"] for line in plain}, {"rabbitmq"})
    mapped = lines("log.console.formatter=json", "log.console.formatter.json.field_map=verbosity:v time:at msg level:- *:-",
                   "log.console.formatter.json.verbosity_map=info:6 warning:4", "log.console.formatter.time_format=epoch_usecs")
    equal({tuple(line) for line in mapped if line.get("v")}, {("v", "at", "msg")})
    equal(all(isinstance(line["at"], int) for line in mapped), True)


@suite.case("log-file", "log.file with a size and a count, beside the console, the file moved away by somebody else",
            "lines are in both; so many files are kept by RabbitMQ's names, group-readable; a new one is made")
def _():
    settings = ["log.file=rabbit.log", "log.dir={folder}/logs", "log.file.rotation.size=2000", "log.file.rotation.count=2",
                "log.file.rotation.compress=true", "log.file.level=info", "log.file.formatter=json"]
    with started(*settings) as broker:
        folder = os.path.join(broker.folder, "logs")
        path = os.path.join(folder, "rabbit.log")
        for _ in range(30):
            may_log_in(broker, "guest", "guest")
        deadline = time.monotonic() + 10
        while not os.path.exists(path + ".1.gz") and time.monotonic() < deadline:
            may_log_in(broker, "guest", "guest")
        equal(sorted(os.listdir(folder)), ["rabbit.log", "rabbit.log.0.gz", "rabbit.log.1.gz"])
        with gzip.open(path + ".0.gz", "rt", encoding="utf-8") as file:
            equal(all({"time", "level", "msg"} <= set(json.loads(line)) for line in file), True)
        equal(stat.S_IMODE(os.stat(path).st_mode), 0o640)
        os.rename(path, path + ".theirs")
        deadline = time.monotonic() + 10
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.2)
            may_log_in(broker, "guest", "guest")
        equal(os.path.exists(path), True)
        equal("[info]" in broker_log(broker), True)


def key_ways(folder):
    """Ways to encrypt the key of the bench, by name."""
    key, out = f"{folder}/server.key", ["-passout", "pass:t0p $3kRe7"]
    return {
        "pkcs8": ["pkcs8", "-topk8", "-in", key, *out],
        "pkcs8-aes128-sha512": ["pkcs8", "-topk8", "-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA512", "-in", key, *out],
        "pkcs8-scrypt": ["pkcs8", "-topk8", "-scrypt", "-in", key, *out],
        "pkcs8-des3": ["pkcs8", "-topk8", "-v2", "des3", "-in", key, *out],
    }


@suite.case("key-password", "ssl_options.keyfile encrypted by OpenSSL in several ways, with its password, a wrong one, none",
            "serves TLS; the start is refused, and says why")
def _():
    ground = network_bench.Ground(suite)
    if not shutil.which("openssl"):
        raise Skip("needs openssl")
    folder = ground.folder
    base = ["listeners.ssl.1=127.0.0.1:0", f"ssl_options.cacertfile={folder}/ca.pem", f"ssl_options.certfile={folder}/server.pem"]
    text = "".join(setting.replace("=", " = ", 1) + "\n" for setting in base).replace("127.0.0.1:0", "5671")
    for name, words in key_ways(folder).items():
        key = f"{folder}/{name}.key"
        subprocess.run(["openssl", *words, "-out", key], check=True, capture_output=True, timeout=60)
        with started(*base, f"ssl_options.keyfile={key}", "ssl_options.password=t0p $3kRe7") as broker:
            port = int(re.search(rb"started TLS listener on 127\.0\.0\.1:(\d+)", broker_log(broker).encode()).group(1))
            with socket.create_connection(("127.0.0.1", port), 10) as plain, ground.context().wrap_socket(
                    plain, server_hostname="localhost") as secure:
                secure.sendall(b"AMQP\x00\x00\x09\x01")
                equal(secure.recv(1), b"\x01", name)
        for password, expected in (("ssl_options.password = other\n", "the password is not that of the key"), ("", "no password is set")):
            code, report = check_config(f"{text}ssl_options.keyfile = {key}\n{password}")
            equal((code, expected in report), (1, True), f"{name}: {report}")


@suite.case("ciphers", "a list of ciphers of which some are known; of which none is, with a TLS listener",
            "starts with those; is refused, and the known ones are named")
def _():
    ground = network_bench.Ground(suite)
    folder = ground.folder
    tls = (f"listeners.ssl.1 = 5671\nssl_options.cacertfile = {folder}/ca.pem\nssl_options.certfile = {folder}/server.pem\n"
           f"ssl_options.keyfile = {folder}/server.key\n")
    code, report = check_config(f"{tls}ssl_options.ciphers.1 = DHE-RSA-AES256-SHA\nssl_options.ciphers.2 = TLS_AES_128_GCM_SHA256\n"
                                "ssl_options.ciphers.3 = ECDHE-RSA-AES128-GCM-SHA256\n")
    equal((code, "no cipher suite 'DHE-RSA-AES256-SHA' is known" in report), (0, True), report)
    code, report = check_config(f"{tls}ssl_options.ciphers.1 = DHE-RSA-AES256-SHA\n")
    equal((code, "none of ssl_options.ciphers is known: known are TLS_AES_256_GCM_SHA384" in report), (1, True), report)


def answers_another_user(path):
    """Whether the administration socket says anything to a user that is not the node's, though the system lets that user connect."""
    os.chmod(os.path.dirname(path), 0o711)
    os.chmod(os.path.dirname(os.path.dirname(path)), 0o711)
    os.chmod(path, 0o777)
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(10)
        os.seteuid(65534)
        try:
            peer.connect(path)
        finally:
            os.seteuid(0)
        try:
            peer.sendall(b"{}\n")
            return peer.recv(100) != b""
        except (BrokenPipeError, ConnectionResetError):
            return False


@suite.case("files", "the data folder of a node that was started with umask 0, one that others may write to, one with a link in it",
            "all of it is for its user alone; is mended, and the log says so; the start is refused")
def _():
    if not suite.options.broker:
        raise Skip("needs --broker")
    before = os.umask(0)
    try:
        with contextlib.closing(Broker(suite.options.broker, ["log.file=r.log"])) as broker:
            data = os.path.join(broker.folder, "data")
            os.mkdir(data, 0o777)
            os.mkdir(os.path.join(data, "journal"), 0o777)
            broker.start()
            equal("others could write to the data folder" in broker_log(broker), True)
            may_log_in(broker, "guest", "guest")
            loose = []
            for folder, _, names in os.walk(data):
                for path in [folder, *(os.path.join(folder, name) for name in names)]:
                    mode = stat.S_IMODE(os.lstat(path).st_mode)
                    if mode & 0o077 and not path.startswith(os.path.join(data, "log")):
                        loose.append(f"{path} {mode:o}")
            equal(loose, [])
            with open(f"/proc/{broker.pid}/limits", encoding="utf-8") as file:
                equal([line.split()[4] for line in file if line.startswith("Max core file size")], ["1"])
            if os.geteuid() == 0:
                equal(answers_another_user(os.path.join(data, "ctl.sock")), False)
                equal("guest" in ctl(broker, "list_users"), True)
            broker.stop()
            folder, elsewhere = os.path.join(data, "journal"), os.path.join(broker.folder, "elsewhere")
            os.rename(folder, elsewhere)
            os.symlink(elsewhere, folder)
            try:
                broker.start()
                raise AssertionError("it started through a link")
            except BrokerError:
                equal("is a link: mount what it leads to instead" in broker_log(broker), True)
    finally:
        os.umask(before)


STAMPS = "message_interceptors.incoming.set_header_timestamp.overwrite={0}", "message_interceptors.incoming.set_header_routing_node.overwrite={0}"


@contextlib.contextmanager
def stamping(overwrites, kind="quorum"):
    with started(*(setting.replace("{0}", overwrites) for setting in STAMPS)) as broker:
        node = json.loads(ctl(broker, "status", "--formatter", "json"))["node"] if broker else None
        desk = settings_stamps.Desk(broker.port, node, kind)
        try:
            yield desk
        finally:
            desk.close()


@suite.case("stamps.kept", "incoming interceptors for time and node, without overwriting: messages of both protocols read over both",
            "timestamp_in_ms, x-routed-by and timestamp over 0-9-1, x-opt-rabbitmq-received-time and x-routed-by over 1.0; what is there stays")
def _():
    for kind in ("quorum", "classic"):
        with stamping("false", kind) as desk:
            equal(settings_stamps.differences(desk, settings_stamps.KEPT), [])


@suite.case("stamps.replaced", "the same with overwriting, of messages that have all of it", "the node's take the place of theirs")
def _():
    with stamping("true") as desk:
        equal(settings_stamps.differences(desk, settings_stamps.REPLACED), [])


@suite.case("stamps.elsewhere", "messages that come back, of a transaction, of a headers exchange, of a queue whose dead go on, in a stream",
            "are written on too; they are routed by the node's name and not by the time; a stream keeps the time and no timestamp")
def _():
    with stamping("false") as desk:
        both = {"timestamp_in_ms": "NOW", "x-routed-by": "NODE"}
        equal(desk.returned(), (both, "NOW_S"))
        equal(desk.matched(), {"node": 2, "time": 0, "received": 0})
        channel = desk.slow.channel()
        channel.tx_select()
        channel.basic_publish("", desk.queue, b"b")
        channel.tx_commit()
        equal(desk.read091(), (both, "NOW_S"))
        channel.basic_publish("", desk.queue, b"b")
        channel.tx_commit()
        annotations = {"x-opt-rabbitmq-received-time": "NOW", "x-routed-by": "NODE"}
        equal(desk.read10(), (annotations, 0))
        arguments = {"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": desk.queue}
        desk.channel.queue_declare("stamped-dying", arguments=arguments)
        for read, expected in ((desk.read091, (both, "NOW_S")), (desk.read10, (annotations, 0))):
            desk.publish({}, "stamped-dying")
            found, at = read()
            equal(({name: value for name, value in found.items() if name in expected[0]}, at), expected)
    with stamping("false", "stream") as desk:
        desk.publish({})
        desk.publish({"annotations": {}})
        desk.channel.basic_qos(prefetch_count=10)
        told = []
        for method, properties, _ in desk.channel.consume(desk.queue, arguments={"x-stream-offset": "first"}, inactivity_timeout=10):
            told.append(({name: desk.named(value) for name, value in properties.headers.items() if name != "x-stream-offset"},
                         properties.timestamp))
            desk.channel.basic_ack(method.delivery_tag)
            if len(told) == 2:
                break
        equal(told, [(both, None)] * 2)


@suite.case("stamps.refused", "an interceptor for what goes out, and two that RabbitMQ has none of", "the start is refused, with the reason")
def _():
    for line, reason in (("outgoing.timestamp.enabled = true", "when they go out"), ("incoming.timestamp.overwrite = true", "set_header_timestamp"),
                         ("incoming.set_header_timestamp.overwrite = maybe", "is no value for")):
        code, report = check_config(f"message_interceptors.{line}\n")
        equal((code, reason in report), (1, True), report)
    equal(check_config("message_interceptors.outgoing.timestamp.enabled = false\n")[0], 0)


@suite.case("log-claimed", "log.file in the data folder of a node that runs, for a second one, and in a folder that is another user's",
            "the second is refused, and no line of it is in the first one's file; no log is made in a folder that is refused")
def _():
    with started("log.file=r.log") as broker:
        data = os.path.join(broker.folder, "data")
        path = os.path.join(data, "log", "r.log")
        with open(path, encoding="utf-8") as file:
            before = file.read().count("Starting Leveret")
        words = [broker.binary, "server", "--data-dir", data, "--set", "log.file=r.log", "--set", "listeners.tcp.default=127.0.0.1:0"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        equal((done.returncode, "in use" in done.stderr or "another" in done.stderr), (1, True), done.stderr)
        with open(path, encoding="utf-8") as file:
            equal((before, file.read().count("Starting Leveret")), (1, 1))
        if os.geteuid() == 0:
            foreign = os.path.join(broker.folder, "foreign")
            os.mkdir(foreign)
            os.chmod(foreign, 0o777)
            os.chown(foreign, 65534, 65534)
            done = subprocess.run([*words[:3], foreign, *words[4:]], capture_output=True, text=True, timeout=30, check=False)
            equal((done.returncode, os.listdir(foreign)), (1, []), done.stderr)


if __name__ == "__main__":
    suite.main(network_bench.options)
