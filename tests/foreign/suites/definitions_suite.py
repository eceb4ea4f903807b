"""Definitions from RabbitMQ and back; `python -m suites.definitions_suite --uri URI --broker BINARY`.

Imports what `definitions_record.py` kept of a RabbitMQ. With --theirs, the base URI of the HTTP API of a RabbitMQ that runs, what is
exported here is imported there as well.
"""

import json

import pika
from lab.cases import Skip, Uri, equal
from suites import management_suite
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
    # Whoever may configure what begins with c alone.
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


def options(parser):
    add_options(parser)
    parser.add_argument("--theirs", default="", help="base URI of the HTTP API of a RabbitMQ, with user and password")


def main():
    # Its way to a broker is that suite's.
    management_suite.suite = suite
    suite.main(options)


if __name__ == "__main__":
    main()
