"""Guesses of passwords: how many are tried over all protocols together, and who is let in meanwhile.

Each address of 127.0.0.0/8 is a client of its own.
"""

import atexit
import base64
import contextlib
import json
import re
import threading
import time
from http.client import HTTPConnection, HTTPException

from lab import wire, wire_stream
from lab.broker import Broker
from lab.cases import Skip, Uri, equal
from lab.wire import Closed
from lab.wire10 import Peer10
from suites.identity_bench import HTTP, PASSWORD, suite

METRICS = re.compile(rb"started Prometheus listener on \S*?:(\d+)")
TOLD = {"capabilities": {"authentication_failure_close": True}}
HOME, SECONDS = "127.0.0.1", 4.0
ATTACKERS = [HOME, *(f"127.0.1.{number}" for number in range(1, 9))]


class Door:
    """A broker of its own, and a login over each protocol from any address."""

    def __init__(self, *settings):
        if not suite.options.broker:
            raise Skip("needs a broker of its own: --broker")
        ports = ["management.tcp.ip=127.0.0.1", "management.tcp.port=0", "prometheus.tcp.ip=127.0.0.1",
                 "prometheus.tcp.port=0", "stream.listeners.tcp.1=127.0.0.1:0"]
        self.broker = Broker(suite.options.broker, [*ports, *settings])
        self.broker.start()
        atexit.register(self.broker.close)
        self.http_port, self.metrics_port = self.broker.port_of(HTTP, "HTTP"), self.broker.port_of(METRICS, "Prometheus")
        self.stream_port = self.broker.stream_port()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.broker.close()

    def make_user(self, user, fields=None):
        body = {"tags": "management", **(fields or {"password": PASSWORD})}
        status, value = self.ask(HOME, "PUT", f"/users/{user}", body)
        equal(status, 201, value)
        equal(self.ask(HOME, "PUT", f"/permissions/%2F/{user}", {"configure": "", "write": "", "read": ""})[0], 201)

    def ask(self, source, verb, path, body=None, user="guest", password="guest"):
        connection = HTTPConnection("127.0.0.1", self.http_port, timeout=40, source_address=(source, 0))
        try:
            pair = base64.b64encode(f"{user}:{password}".encode()).decode()
            head = {"Content-Type": "application/json", "Authorization": f"Basic {pair}"}
            connection.request(verb, "/api" + path, None if body is None else json.dumps(body), head)
            response = connection.getresponse()
            data = response.read().decode()
            return response.status, json.loads(data) if data else None
        finally:
            connection.close()

    def uri(self, user, password):
        return Uri(f"amqp://{user}:{password}@127.0.0.1:{self.broker.port}/")

    def over_091(self, source, user, password):
        with wire.Peer(self.uri(user, password), 40, source) as peer:
            try:
                peer.login(client=TOLD)
            except AssertionError as refused:
                return str(refused)
            return "in"

    def over_10(self, source, user, password):
        with Peer10(self.uri(user, password), 40, source) as peer:
            outcome = peer.sasl()[1]
            return "in" if outcome == 0 else f"outcome {outcome}"

    def over_streams(self, source, user, password):
        uri = self.uri(user, password)
        with wire_stream.Peer(uri, self.stream_port, wire_stream.AUTHENTICATE, seconds_max=40, source=source) as peer:
            code = peer.answer.code
            return "in" if code == wire_stream.OK else f"code {code}"

    def over_http(self, source, user, password):
        status, _value = self.ask(source, "GET", "/whoami", None, user, password)
        return "in" if status == 200 else f"status {status}"

    def ways(self):
        return {"0-9-1": self.over_091, "1.0": self.over_10, "streams": self.over_streams, "HTTP": self.over_http}

    def counted(self):
        """Logins that failed, and those of them that were not tried."""
        connection = HTTPConnection("127.0.0.1", self.metrics_port, timeout=20)
        try:
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        finally:
            connection.close()
        def total(name):
            return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{"))
        return total("rabbitmq_auth_attempts_failed_total"), total("rabbitmq_leveret_logins_held_back_total")

    def empty(self, user, source):
        """Guesses a user until no guess is tried any more."""
        for number in range(60):
            before = self.counted()[1]
            self.over_091(source, user, f"wrong-{number}")
            if self.counted()[1] > before:
                return
        raise AssertionError("60 guesses were tried")


@suite.case("guesses.bound", "an account guessed over 0-9-1, 1.0, streams and HTTP at once from nine addresses, among them its own, "
            "while another account logs in from each of them all the time",
            "ours: at most 41 guesses in a second and 11 a second later are tried, the others refused without a look; RabbitMQ tries all")
def _():
    with Door() as door:
        door.make_user("boss")
        door.make_user("insider")
        equal(door.over_http(HOME, "boss", PASSWORD), "in")
        for source in ATTACKERS:
            equal(door.over_http(source, "insider", PASSWORD), "in")
        before = door.counted()
        stop, lock, answers, wrongs = time.monotonic() + SECONDS, threading.Lock(), [0], []

        def work(way, source, number):
            at = 0
            while time.monotonic() < stop:
                at += 1
                with contextlib.suppress(Closed, wire_stream.Closed, OSError, HTTPException):
                    said = way(source, "boss", f"wrong-{number}-{at}")
                    with lock:
                        answers[0] += 1
                        if said == "in":
                            wrongs.append("a wrong password was taken")
                if at % 5 == 0:
                    said = door.over_http(source, "insider", PASSWORD)
                    if said != "in":
                        wrongs.append(f"the insider, from {source}: {said}")

        kinds = [(way, source) for way in door.ways().values() for source in ATTACKERS]
        threads = [threading.Thread(target=work, args=(*kind, number)) for number, kind in enumerate(kinds)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - began
        after = door.counted()
        equal(wrongs[:3], [])
        failed, held = after[0] - before[0], after[1] - before[1]
        tried = failed - held
        assert failed > 100 and held > 50, f"too little was asked: {failed}, {held}"
        most = 20 + 10 + 11 * (took + 1)
        assert tried <= most, f"{tried} guesses were tried in {took:.1f} s, may be {most:.0f}"


@suite.case("guesses.known", "the right password of an account that is guessed: from where it logged in before, over each protocol; from elsewhere",
            "ours: taken; refused, by the protocol's code for wrong passwords and 429 over HTTP; RabbitMQ takes both")
def _():
    with Door() as door:
        door.make_user("boss")
        for way in door.ways().values():
            equal(way(HOME, "boss", PASSWORD), "in")
        door.empty("boss", "127.0.1.1")
        for name, way in door.ways().items():
            equal(way(HOME, "boss", PASSWORD), "in", name)
        refused = "saw ('connection', 403, 'ACCESS_REFUSED - Login was refused using authentication mec"
        for name, begin in (("0-9-1", refused), ("1.0", "outcome 1"), ("streams", "code 8"), ("HTTP", "status 429")):
            # A second brings one more try.
            door.empty("boss", "127.0.1.1")
            said = door.ways()[name]("127.0.1.2", "boss", PASSWORD)
            equal(said[:len(begin)], begin, name)
        # Nobody else is refused there.
        equal(door.over_http("127.0.1.2", "guest", "guest"), "in")


@suite.case("guesses.address", "an address from which many accounts were guessed: one that logged in there before, one that did not; "
            "that one from another address", "ours: taken, refused, taken; RabbitMQ takes all")
def _():
    with Door("leveret.guesses_per_address=1") as door:
        for user in ("old", "new"):
            door.make_user(user)
        equal(door.over_http("127.0.1.1", "old", PASSWORD), "in")
        before = door.counted()[1]
        for number in range(40):
            door.over_091("127.0.1.1", f"nobody-{number}", "wrong")
        assert door.counted()[1] > before, "all were tried"
        equal(door.over_http("127.0.1.1", "old", PASSWORD), "in")
        equal(door.over_http("127.0.1.1", "new", PASSWORD), "status 429")
        equal(door.over_http("127.0.1.2", "new", PASSWORD), "in")


@suite.case("guesses.log", "lines of the log about logins of one account that are not tried", "ours: one a minute, with the key of the bound")
def _():
    with Door() as door:
        door.make_user("boss")
        door.empty("boss", "127.0.1.1")
        for number in range(20):
            door.over_091("127.0.1.1", "boss", f"again-{number}")
        with open(door.broker.log, "rb") as log:
            said = log.read().decode(errors="replace")
        lines = [line for line in said.splitlines() if "held back" in line]
        equal(len(lines), 1, lines)
        equal(("'boss'" in lines[0], "leveret.guesses_per_account" in lines[0]), (True, True), lines[0])


@suite.case("guesses.unbounded", "`leveret.guesses_per_account = infinity` and `leveret.guesses_per_address = infinity`: 150 wrong passwords, then "
            "the right one from a new address", "ours: all are tried; in")
def _():
    with Door("leveret.guesses_per_account=infinity", "leveret.guesses_per_address=infinity") as door:
        door.make_user("boss")
        for number in range(150):
            door.over_091("127.0.1.1", "boss", f"wrong-{number}")
        equal(door.counted()[1], 0)
        equal(door.over_091("127.0.1.2", "boss", PASSWORD), "in")


# ---- memory-hard hashes

# Made by argon2-cffi 25.1 of "a password".
HASH = "$argon2id$v=19$m=256,t=2,p=2$c2FsdCBvZiBsZXZlcmV0$jjQAtE0IzwJDILtsElBc5AFwQQBv/8wK"


@suite.case("hashes.login", "a user whose password is hashed with Argon2id, by its definition, by the setting, from elsewhere: the right and a "
            "wrong password over each protocol; its export, imported again", "ours: in, refused; in again")
def _():
    with Door("password_hashing_module=argon2id") as door:
        door.make_user("chosen", {"password": PASSWORD, "hashing_algorithm": "argon2id"})
        door.make_user("default")
        door.make_user("brought", {"password_hash": HASH, "hashing_algorithm": "argon2id"})
        door.make_user("old", {"password": PASSWORD, "hashing_algorithm": "rabbit_password_hashing_sha256"})
        users = {"chosen": PASSWORD, "default": PASSWORD, "brought": "a password", "old": PASSWORD}

        def check():
            for user, password in users.items():
                for name, way in door.ways().items():
                    equal(way(HOME, user, password), "in", f"{user} over {name}")
            for name, way in door.ways().items():
                assert way(HOME, "chosen", "wrong") != "in", name

        check()
        status, exported = door.ask(HOME, "GET", "/definitions")
        equal(status, 200)
        rows = {row["name"]: row for row in exported["users"]}
        algorithms = {user: rows[user]["hashing_algorithm"] for user in users}
        equal(algorithms, {"chosen": "argon2id", "default": "argon2id", "brought": "argon2id",
                           "old": "rabbit_password_hashing_sha256"})
        equal(rows["brought"]["password_hash"], HASH)
        assert rows["chosen"]["password_hash"].startswith("$argon2id$v=19$m=19456,t=2,p=1$"), rows["chosen"]
        for user in users:
            equal(door.ask(HOME, "DELETE", f"/users/{user}")[0], 204)
        equal(door.ask(HOME, "POST", "/definitions", exported)[0], 204)
        check()


@suite.case("hashes.dear", "a hash of 2 GiB of memory, one of 11 passes over 64 MiB: for one user, and in definitions",
            "ours: 400, with the user's name; nothing of it is there")
def _():
    with Door() as door:
        for costs in ("m=2097152,t=1,p=1", "m=65536,t=11,p=1", "m=65536,t=1,p=17"):
            row = {"tags": "", "password_hash": HASH.replace("m=256,t=2,p=2", costs), "hashing_algorithm": "argon2id"}
            for verb, path, body in (("PUT", "/users/dear", row), ("POST", "/definitions", {"users": [{"name": "dear", **row}]})):
                status, value = door.ask(HOME, verb, path, body)
                equal(status, 400, value)
                assert "dear" in json.dumps(value) and costs in json.dumps(value), value
            equal(door.ask(HOME, "GET", "/users/dear")[0], 404)


@suite.case("hashes.herd", "a hundred logins at once of one user whose password is hashed with Argon2id, over 0-9-1, 1.0, streams and HTTP",
            "ours: all are let in within five seconds")
def _():
    with Door() as door:
        door.make_user("herd", {"password": PASSWORD, "hashing_algorithm": "argon2id"})
        said, lock = [], threading.Lock()

        def come(way, number):
            try:
                answer = way(f"127.0.2.{number % 8}", "herd", PASSWORD)
            except (Closed, wire_stream.Closed, OSError, HTTPException) as error:
                answer = repr(error)
            with lock:
                said.append(answer)

        ways = list(door.ways().values())
        threads = [threading.Thread(target=come, args=(ways[number % 4], number)) for number in range(100)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal([answer for answer in said if answer != "in"], [])
        assert time.monotonic() - began < 5, time.monotonic() - began
        equal(door.counted(), (0, 0))
