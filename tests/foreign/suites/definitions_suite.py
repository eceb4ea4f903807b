"""Definitions from RabbitMQ and back; `python -m suites.definitions_suite --uri URI --broker BINARY`.

Imports what `definitions_record.py` kept of a RabbitMQ, and the forms of `definitions_forms.py`, which are answered as its RabbitMQ
answered but for what is named in `definitions_differences.py`. With --theirs, the base URI of the HTTP API of a RabbitMQ that runs, what is
exported here is imported there as well.
"""

import http.client
import json
import os
import subprocess
import tempfile

import pika
from lab.broker import Broker, BrokerError
from lab.cases import Skip, Uri, equal
from suites import definitions_files as files
from suites import definitions_forms as forms
from suites import management_suite
from suites.definitions_differences import DIFFERENCES
from suites.definitions_record import FILE, PASSWORDS, VHOST, mine, remove
from suites.management_shapes import ask
from suites.management_suite import add_options, api, suite as management

suite = management.__class__("definitions")
LISTS = ("users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters", "policies", "queues",
         "exchanges", "bindings")


def kept():
    with open(FILE, encoding="utf-8") as file:
        return json.load(file)


def base():
    return f"http://guest:guest@{api().host}:{api().port}"


def rows(found):
    """Lists of what was made for this, in an order of their own."""
    return {key: sorted((row for row in found[key] if mine(row)), key=lambda row: json.dumps(row, sort_keys=True))
            for key in LISTS}


def imported():
    remove(base())
    status, _, value = api().ask("POST", "/definitions", kept())
    equal((status, value), (204, None))


@suite.case("import", "definitions that a RabbitMQ exported, twice", "204; the same objects are there, and are exported again", 60)
def import_():
    imported()
    equal(api().status("POST", "/definitions", kept()), 204)
    theirs, ours = rows(kept()), rows(api().get("/definitions"))
    for key in LISTS:
        equal(ours[key], theirs[key], key)


@suite.case("passwords", "users whose passwords were hashed by RabbitMQ, with SHA-256 and SHA-512",
            "they log in with their old passwords, and with no other; one without a hash with none", 60)
def passwords():
    imported()
    for name, password in PASSWORDS.items():
        uri = Uri(Uri(api().uri).as_user(name, password).text.rsplit("/", 1)[0] + "/" + VHOST)
        connection = pika.BlockingConnection(pika.URLParameters(uri.text))
        channel = connection.channel()
        channel.basic_publish("fanouts", "", b"x")
        connection.close()
        equal(api().status("GET", "/whoami", user=name, password=password), 200)
        equal(api().status("GET", "/whoami", user=name, password=password + "x"), 401)
        wrong = Uri(uri.text).as_user(name, "wrong")
        try:
            pika.BlockingConnection(pika.URLParameters(wrong.text))
            raise AssertionError(f"{name} logged in with a wrong password")
        except pika.exceptions.AMQPConnectionError:
            pass
    equal(api().status("GET", "/whoami", user="moved-nobody", password=""), 401)


@suite.case("counts", "limits, policies and rights that came with definitions", "they hold", 60)
def counts():
    imported()
    queue = api().get(f"/queues/{VHOST}/classic")
    equal((queue["policy"], queue["operator_policy"]), ("lengths", "bounds"))
    equal(queue["effective_policy_definition"], {"max-length": 9, "overflow": "reject-publish"})
    equal(api().get(f"/vhost-limits/{VHOST}")[0]["value"], {"max-queues": 90})
    equal(api().get("/user-limits/moved-sha256")[0]["value"], {"max-connections": 7})
    equal([api().get(f"/queues/{VHOST}/{name}")["type"] for name in ("classic", "quorum", "stream")],
          ["classic", "quorum", "stream"])
    # This user may configure names that begin with c alone.
    user, secret = "moved-sha256", PASSWORDS["moved-sha256"]
    equal(api().status("PUT", f"/queues/{VHOST}/c-new", {"durable": True}, user=user, password=secret), 201)
    equal(api().status("PUT", f"/queues/{VHOST}/d-new", {"durable": True}, user=user, password=secret), 401)


@suite.case("back", "what is exported here, imported by a RabbitMQ", "it takes it, and exports the same", 60)
def back():
    if not suite.options.theirs:
        raise Skip("needs --theirs with the base URI of the HTTP API of a RabbitMQ")
    imported()
    ours = api().get("/definitions")
    rest = {key: [row for row in value if mine(row)] if isinstance(value, list) else value for key, value in ours.items()}
    try:
        remove(suite.options.theirs)
        ask(suite.options.theirs, "POST", "/definitions", rest)
        theirs = rows(ask(suite.options.theirs, "GET", "/definitions"))
        for key in LISTS:
            equal(theirs[key], rows(ours)[key], key)
    finally:
        remove(suite.options.theirs)


def normal(exported):
    """An export without the type that RabbitMQ adds to classic queues that were declared without one."""
    exported = json.loads(json.dumps(exported or {}))
    for queue in exported.get("queues", ()):
        if queue["arguments"].get("x-queue-type") == "classic":
            del queue["arguments"]["x-queue-type"]
    return exported


def unlike(ours, theirs):
    """In what our answer to a form differs from RabbitMQ's."""
    if theirs["status"] >= 300:
        # An import that RabbitMQ breaks off, or ends in a crash, is a bad request here; and nothing was imported.
        if ours["status"] != 400:
            return {"status": (ours["status"], theirs["status"])}
        return {} if ours["reason"] else {"reason": None}
    if ours["status"] != theirs["status"]:
        return {"status": (ours["status"], theirs["status"], ours.get("reason"))}
    found = {}
    mine_, their = normal(ours["exported"]), normal(theirs["exported"])
    for key in sorted({*mine_, *their}):
        if mine_.get(key) != their.get(key):
            found[key] = (mine_.get(key), their.get(key))
    for key in ("logins", "policy of"):
        if ours.get(key) != theirs.get(key):
            found[key] = (ours.get(key), theirs.get(key))
    return found


@suite.case("forms", "definitions files in the forms of RabbitMQ 3.5 to 4.3 and of other programs",
            "each is taken or refused as RabbitMQ does, with the same objects, logins and matches of patterns", 120)
def forms_():
    with open(forms.FILE, encoding="utf-8") as file:
        theirs = json.load(file)
    ours, wrong = forms.Api(base()), {}
    for name, case in forms.CASES.items():
        answer = forms.told(ours, case)
        found = unlike(answer, theirs[name])
        keys, _ = DIFFERENCES.get(name, ((), ""))
        if sorted(found) != sorted(keys):
            wrong[name] = found or "no difference, but one is named"
    ours.clear()
    assert not wrong, json.dumps(wrong, indent=1, ensure_ascii=False)
    equal(sorted({*DIFFERENCES} - {*forms.CASES}), [])


@suite.case("origins", "twelve whole files: of RabbitMQ 3.8, 3.9, 3.11, 3.12, 3.13, 4.0 and 4.3, LavinMQ, a hosted broker, an operator, a "
            "chart, and one written by hand", "the export has all that the file has, but for what the answer names as left out; users log in", 60)
def origins():
    ours = forms.Api(base())
    for origin, (query, definitions, said) in files.FILES.items():
        ours.clear()
        report = f"{query}&report=true" if query else "?report=true"
        status, answer = ours.ask("POST", f"/definitions{report}", definitions)
        equal(status, 200, f"{origin}: {answer}")
        remarks = answer["remarks"]
        equal([(row["list"], row["entry"], row["remark"]) for row in remarks], said, origin)
        there, due = files.exported(ours.ask("GET", "/definitions")[1]), files.expected(definitions, remarks)
        for key in forms.LISTS:
            equal(there[key], due[key], f"{key} of {origin}")
        for row in definitions["users"]:
            password = row["name"].replace("forms-", "a-")
            uri = Uri(api().uri).as_user(row["name"], password).text.rsplit("/", 1)[0]
            pika.BlockingConnection(pika.URLParameters(f"{uri}/{forms.VHOST}")).close()
    ours.clear()


def entries(answer):
    return [(row["list"], row["entry"], row.get("vhost")) for row in answer["refused"]]


WRONG = {
    "vhosts": [{"name": "moved"}],
    "users": [{"name": "moved-good", "password": "a", "tags": ""}, {"name": "moved-bad", "password_hash": "%%%", "tags": ""}],
    "permissions": [{"user": "moved-none", "vhost": "moved", "configure": "", "write": "", "read": ""}],
    "parameters": [{"component": "shovel", "name": "move", "vhost": "moved", "value": {"src-uri": "amqp://"}}],
    "policies": [{"vhost": "moved", "name": "mirrors", "pattern": "", "definition": {"ha-mode": "all"}},
                 {"vhost": "moved", "name": "typing", "pattern": "(", "definition": {"max-lenght": 5}}],
    "queues": [{"name": "good", "vhost": "moved", "durable": True}, {"name": "old", "vhost": "moved", "durable": True, "arguments": {"x-queue-version": 1}},
               {"name": 5, "vhost": "moved"}, {"name": "part", "durable": True}],
    "exchanges": [{"name": "e", "vhost": "moved", "type": "x-jms-topic", "durable": True}],
    "bindings": [{"source": "amq.direct", "vhost": "moved", "destination": "gone", "destination_type": "queue", "routing_key": "k", "arguments": {}}],
}
NAMED = [
    ("bindings", "from 'amq.direct' to queue 'gone' with key 'k'", "moved"), ("exchanges", "'e'", "moved"),
    ("parameters", "'move' of component 'shovel'", "moved"), ("permissions", "of user 'moved-none'", "moved"),
    ("policies", "'mirrors'", "moved"), ("policies", "'typing'", "moved"), ("queues", "'old'", "moved"), ("queues", "'part'", None),
    ("queues", "entry 3", "moved"), ("users", "'moved-bad'", None)]


@suite.case("all-at-once", "a file with ten entries that are wrong, of eight lists",
            "400; each is named with its list, and nothing was imported", 60)
def all_at_once():
    remove(base())
    status, _, answer = api().ask("POST", "/definitions", WRONG)
    equal((status, sorted(entries(answer), key=str)), (400, sorted(NAMED, key=str)))
    for word in ("ha-mode", "max-lenght", "x-queue-version", "x-jms-topic", "moved-none", "gone", "moved-bad"):
        assert word in answer["reason"], (word, answer["reason"])
    equal([api().status("GET", path) for path in ("/vhosts/moved", "/users/moved-good")], [404, 404])


@suite.case("dry-run", "?dry_run=true, with what can be imported and what cannot",
            "the same answers, and nothing is imported; what is neither true nor false is refused", 60)
def dry_run():
    remove(base())
    equal(api().status("POST", "/definitions?dry_run=true", WRONG), 400)
    status, _, answer = api().ask("POST", "/definitions?dry_run=true", kept())
    equal((status, answer["imported"], answer["entries"]["queues"]), (200, False, len(kept()["queues"])))
    equal([api().status("POST", f"/definitions?dry_run={word}", kept()) for word in ("1", "yes", "")], [400, 400, 400])
    equal(api().status("GET", "/vhosts/moved"), 404)
    status, _, answer = api().ask("POST", "/definitions?dry_run=false&report=true", kept())
    equal((status, answer["imported"]), (200, True))
    equal(api().status("GET", "/vhosts/moved"), 200)


MIRRORS = {
    "vhosts": [{"name": "moved"}],
    "policies": [{"vhost": "moved", "name": "only", "pattern": "", "definition": {"ha-mode": "all", "ha-sync-mode": "automatic"}},
                 {"vhost": "moved", "name": "more", "pattern": "^q", "definition": {"ha-mode": "all", "queue-mode": "lazy", "max-length": 5}}],
    "queues": [{"name": "q", "vhost": "moved", "durable": True, "arguments": {"x-queue-version": 1, "x-ha-policy": "all", "x-max-length": 9}}],
}


@suite.case("strip", "?strip=cmq, and without it, with policies and queues of mirrored classic queues",
            "without it refused by name; with it the dead keys are left out, and each is named", 60)
def strip():
    remove(base())
    status, _, answer = api().ask("POST", "/definitions", MIRRORS)
    equal((status, len(answer["refused"])), (400, 3))
    status, headers, answer = api().ask("POST", "/definitions?strip=cmq&report=true", MIRRORS)
    equal(status, 200)
    equal([(row["entry"], row["remark"]) for row in answer["remarks"]], [
        ("'only'", "left out: it has nothing but ha-mode, ha-sync-mode"), ("'more'", "without ha-mode, queue-mode"),
        ("'q'", "without x-ha-policy, x-queue-version")])
    assert "'only' in vhost 'moved'" in headers["leveret-remarks"], headers
    equal([row["definition"] for row in api().get("/policies/moved")], [{"max-length": 5}])
    equal(api().get("/definitions/moved")["queues"][0]["arguments"], {"x-max-length": 9})
    equal(api().status("POST", "/definitions?strip=all", MIRRORS), 400)


KEPT = {
    "vhosts": [{"name": "moved"}],
    "parameters": [
        {"component": "shovel", "name": "move", "vhost": "moved", "value": forms.SHOVEL},
        {"component": "federation-upstream", "name": "up", "vhost": "moved", "value": forms.UPSTREAM},
        {"component": "federation-upstream-set", "name": "ups", "vhost": "moved", "value": [{"upstream": "up"}]},
        {"component": "somebody", "name": "p", "vhost": "moved", "value": {"a": [1, None, "b"]}}],
    "policies": [{"vhost": "moved", "name": "fed", "pattern": "", "definition": {"federation-upstream-set": "all"}}],
    "global_parameters": [{"name": "moved-mqtt", "value": {"1883": "moved"}}],
}


@suite.case("kept", "parameters of shovels, of federation and of an unknown component: imported, asked for, changed, exported, deleted",
            "they are kept and come out as they came in; the answer says that they are not served; a component that is nobody's is "
            "refused one by one", 60)
def kept_parameters():
    remove(base())
    status, headers, _ = api().ask("POST", "/definitions", KEPT)
    equal(status, 204)
    for word in ("shovel is not served yet", "federation is not served yet", "'somebody' is not known here"):
        assert word in headers["leveret-remarks"], headers
    key = lambda row: (row["component"], row["name"])
    exported = api().get("/definitions")
    equal(sorted((row for row in exported["parameters"] if row["vhost"] == "moved"), key=key), sorted(KEPT["parameters"], key=key))
    equal([row["value"] for row in exported["global_parameters"] if row["name"] == "moved-mqtt"], [{"1883": "moved"}])
    equal(api().get("/parameters/shovel/moved/move")["value"], forms.SHOVEL)
    equal([row["name"] for row in api().get("/parameters/federation-upstream")], ["up"])
    path = "/parameters/shovel/moved/move"
    equal(api().status("PUT", path, {"value": forms.OLD_SHOVEL}), 204)
    equal(api().get(path)["value"], forms.OLD_SHOVEL)
    equal(api().status("PUT", path, {"value": {"src-uri": "amqp://"}}), 400)
    equal(api().status("PUT", "/parameters/somebody/moved/p", {"value": 5}), 204)
    equal(api().status("PUT", "/parameters/nobody/moved/p", {"value": 5}), 400)
    equal(api().status("PUT", "/parameters/shovel/moved-none/p", {"value": forms.SHOVEL}), 404)
    equal([api().status("DELETE", path), api().status("DELETE", path), api().status("GET", path)], [204, 404, 404])
    single = api().get("/definitions/moved")
    equal(sorted(key(row) for row in single["parameters"]),
          [("federation-upstream", "up"), ("federation-upstream-set", "ups"), ("somebody", "p")])
    large = {"value": {"uri": "amqp://" + "x" * (64 << 10)}}
    equal(api().status("PUT", "/parameters/federation-upstream/moved/large", large), 400)


# Parameters that RabbitMQ 4.3.6 refuses, with its reason; more of them are a test of the broker's own.
REFUSED_PARAMETERS = (
    ("federation-upstream", {"uri": 5}, "uri should be list, actually was 5\n"),
    ("federation-upstream", {"uri": "http://x", "expires": "x"},
     'expires should be a number, actually was <<"x">>\n"http://x" not a valid URI: {{unexpected_uri_scheme,"http"},"http://x"}\n'),
    ("federation-upstream", {"uri": "amqp://a", "nonsense": [1, {"a": "b"}]},
     'Unrecognised terms [{<<"nonsense">>,[1,#{<<"a">> => <<"b">>}]}] in p\n'),
    ("federation-upstream-set", [{"upstream": "u"}, {"queue": True}],
     'queue should be binary, actually was true\nKey "upstream" not found in p\n'),
    ("shovel", {"src-uri": [], "dest-uri": [], "src-queue": "a", "ack-mode": "z", "src-delete-after": -1},
     'src-delete-after should be a number greater than or equal to 0, "never" or "queue-length", actually was -1\n'
     'ack-mode should be one of [<<"no-ack">>,<<"on-publish">>,<<"on-confirm">>], actually was <<"z">>\n'),
)


@suite.case("parameters", "parameters of shovels and federation with wrong keys and values: one by one and among definitions",
            "400 with each line of what is wrong, in RabbitMQ's words; nothing is kept", 60)
def wrong_parameters():
    remove(base())
    equal(api().status("POST", "/definitions", {"vhosts": [{"name": "moved"}]}), 204)
    for component, value, lines in REFUSED_PARAMETERS:
        status, _, answer = api().ask("PUT", f"/parameters/{component}/moved/p", {"value": value})
        equal((status, answer["reason"]), (400, f"Validation failed\n\n{lines}"), value)
        row = {"component": component, "name": "p", "vhost": "moved", "value": value}
        status, _, answer = api().ask("POST", "/definitions", {"parameters": [row]})
        equal((status, lines.splitlines()[0] in answer["reason"]), (400, True), answer)
    equal(api().get("/definitions/moved")["parameters"], [])


def upload(path, body, content_type):
    connection = http.client.HTTPConnection(api().host, api().port, timeout=20)
    head = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=", **({"Content-Type": content_type} if content_type else {})}
    connection.request("POST", "/api" + path, body, head)
    response = connection.getresponse()
    response.read()
    status, place = response.status, response.getheader("location")
    connection.close()
    return status, place


def form(*parts):
    lines = [f'--xx\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in parts]
    return ("".join(lines) + "--xx--\r\n").encode()


@suite.case("uploads", "a file as JSON, as a form's, with a mark of the byte order, and of other types; of everything and of a virtual host",
            "204, or 303 where the form names a place to go to; 415 for other types, 400 for a form without the file", 60)
def uploads():
    remove(base())
    whole = json.dumps({"vhosts": [{"name": "moved"}], "queues": [{"name": "q", "vhost": "moved", "durable": True}]})
    part = json.dumps({"queues": [{"name": "p", "durable": True}]})
    multipart = "multipart/form-data; boundary=xx"
    rows = [
        ("", whole, "application/json", (204, None)), ("", whole, "Application/JSON; charset=utf-8", (204, None)),
        ("", "\ufeff" + whole, "application/json", (204, None)),
        ("", form(("file", whole)), multipart, (204, None)), ("", form(("file", "\ufeff" + whole)), multipart, (204, None)),
        ("", form(("redirect", "../#/x"), ("file", whole)), multipart, (303, "../#/x")),
        ("/moved", form(("file", part)), multipart, (204, None)), ("/moved", part, "application/json", (204, None)),
        ("", form(("other", whole)), multipart, (400, None)), ("", form(("file", "hello")), multipart, (400, None)),
        ("", whole, "multipart/form-data", (400, None)), ("", "--yy", multipart, (400, None)),
        *[("", whole, kind, (415, None)) for kind in ("", "text/plain", "application/x-www-form-urlencoded", "multipart/mixed; boundary=xx")],
        ("", "file=" + whole, "application/x-www-form-urlencoded", (415, None)),
    ]
    for path, body, kind, expected in rows:
        equal(upload("/definitions" + path, body.encode() if isinstance(body, str) else body, kind), expected, f"{path} {kind} {body[:60]}")
    equal([api().status("GET", f"/queues/moved/{name}") for name in "qp"], [200, 200])


def started(text):
    """A broker that imports a file when it starts: it, or None and what it said."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8", delete=False) as file:
        file.write(text)
    own = Broker(suite.options.broker, [f"load_definitions={file.name}", "management.tcp.ip=127.0.0.1", "management.tcp.port=0"])
    return own, file.name


@suite.case("at-start", "load_definitions with all that is kept, a mark of the byte order, and entries that are wrong",
            "the node starts with the first, and tells what is not served in its log and by its tools; the others stop the start, and each "
            "entry is named", 60)
def at_start():
    if not suite.options.broker:
        raise Skip("needs --broker")
    own, path = started("\ufeff" + json.dumps({**KEPT, "users": [{"name": "u", "password": "p", "tags": "administrator"}]}))
    try:
        own.start()
        with open(own.log, encoding="utf-8") as log:
            said = log.read()
        assert "'move' of component 'shovel' in vhost 'moved': kept; shovel is not served yet" in said, said
        data = os.path.join(own.folder, "data")

        def ctl(*words, text=None):
            return subprocess.run([own.binary, "ctl", "--data-dir", data, *words], capture_output=True, text=True, input=text, timeout=60)

        listed = ctl("list_parameters", "-p", "moved", "-s").stdout
        assert "shovel\tmove\t" in listed and "somebody\tp\t" in listed, listed
        done = ctl("set_parameter", "-p", "moved", "shovel", "other", json.dumps(forms.SHOVEL))
        equal(done.returncode, 0, done.stderr)
        assert "shovel\tother\t" in ctl("list_parameters", "-p", "moved", "-s").stdout
        equal(ctl("clear_parameter", "-p", "moved", "shovel", "other").returncode, 0)
        mirrors = json.dumps(MIRRORS)
        done = ctl("import_definitions", text=mirrors)
        assert done.returncode and "ha-mode" in done.stderr and "queues: 'q' in vhost 'moved'" in done.stderr, done
        done = ctl("import_definitions", "--dry-run", "--strip", "cmq", text=mirrors)
        assert done.returncode == 0 and "Nothing was changed" in done.stdout and "without x-ha-policy" in done.stdout, done
        equal(ctl("list_queues", "-p", "moved", "-s", "name").stdout, "")
        done = ctl("import_definitions", "--strip", "cmq", text="\ufeff" + mirrors)
        assert done.returncode == 0 and "Successfully imported" in done.stdout, done
        equal(ctl("list_queues", "-p", "moved", "-s", "name").stdout, "q\n")
    finally:
        own.close()
        os.unlink(path)
    own, path = started(json.dumps(WRONG))
    try:
        try:
            own.start()
            raise AssertionError("it started")
        except BrokerError:
            with open(own.log, encoding="utf-8") as log:
                said = log.read()
        for _, entry, vhost in NAMED:
            assert f"{entry} in vhost '{vhost}'" in said if vhost else entry in said, (entry, said)
    finally:
        own.close()
        os.unlink(path)


def options(parser):
    add_options(parser)
    parser.add_argument("--theirs", default="", help="base URI of the HTTP API of a RabbitMQ, with user and password")


def main():
    # Its way to a broker is that suite's.
    management_suite.suite = suite
    suite.main(options)


if __name__ == "__main__":
    main()
