"""Rights that a user loses, and the login that is renewed afterwards: what an open connection hears.

Users are made over the HTTP API (--admin), or with `leveret ctl` on a broker of our own (--broker).
"""

import atexit
import os
import struct
import subprocess
import time
import urllib.parse

from lab.broker import Broker
from lab.cases import Skip, Uri, equal
from lab.wire_stream import (
    CONFIRM, CONSUMER_UPDATE, CREATE, CREDIT, DECLARE, DELETE, ERROR, OK, UPDATE, Peer, message, pairs, text,
)
from suites.permission_bench import Api
from suites.stream_wire_refusals import SILENCE_SECONDS, fresh, suite

PUBLISHER_GONE, SUBSCRIPTION_GONE, NOT_AVAILABLE, REFUSED = 0x12, 0x04, 0x06, 0x10
_started = []


class House:
    """A broker, and what makes users of it."""

    def __init__(self):
        self.name = f"foreign-rights-{os.getpid():x}"
        if suite.options.admin:
            self.uri, self.port, self.api = suite.uri, suite.options.stream_port, Api(suite.options.admin)
            return
        if not suite.options.broker:
            raise Skip("needs another user: --admin or --broker")
        if not _started:
            _started.append(Broker(suite.options.broker, ["stream.listeners.tcp.1=127.0.0.1:0", "web_amqp.tcp=none"]))
            atexit.register(_started[0].close)
            _started[0].start()
        self.uri, self.port, self.api = Uri(_started[0].uri), _started[0].stream_port(), None

    def ctl(self, *words):
        data = os.path.join(_started[0].folder, "data")
        subprocess.run([_started[0].binary, "ctl", "--data-dir", data, *words], check=True, capture_output=True, timeout=20)

    def make(self, password):
        """The user has this password."""
        if self.api:
            self.api.call("PUT", f"users/{self.name}", {"password": password, "tags": ""})
        else:
            self.ctl("add_user" if password == "old" else "change_password", self.name, password)

    def permit(self, write, read):
        if self.api:
            vhost = urllib.parse.quote(self.uri.vhost, safe="")
            self.api.call("PUT", f"permissions/{vhost}/{self.name}", {"configure": ".*", "write": write, "read": read})
        else:
            self.ctl("set_permissions", "-p", self.uri.vhost, self.name, ".*", write, read)

    def __enter__(self):
        self.make("old")
        self.permit(".*", ".*")
        return self

    def __exit__(self, *_error):
        if self.api:
            self.api.call("DELETE", f"users/{self.name}")
        else:
            self.ctl("delete_user", self.name)

    def peer(self, seconds_max=10.0):
        return Peer(self.uri, self.port, user=self.name, password="old", vhost=self.uri.vhost, seconds_max=seconds_max)


class Scene:
    """A user's connection with a publisher and a subscription of each of some streams, and what is left of them."""

    def __init__(self, publishes, reads, group):
        self.publishes, self.reads, self.group = publishes, reads, group

    def __enter__(self):
        self.house = House().__enter__()
        self.peer = self.house.peer()
        self.streams = {}
        for word in dict.fromkeys(self.publishes + self.reads):
            self.streams[word] = fresh(word)
            equal(self.peer.code(CREATE, text(self.streams[word]) + pairs({})), OK, "create")
        for number, word in enumerate(self.publishes):
            equal(self.peer.code(DECLARE, struct.pack(">B", number) + text("") + text(self.streams[word])), OK, "declare")
        for number, word in enumerate(self.reads):
            equal(self.peer.subscribe(number, self.streams[word], credit=1, **self.group), OK, "subscribe")
        return self

    def __exit__(self, *error):
        self.peer.socket.close()
        self.house.permit(".*", ".*")
        with Peer(self.house.uri, self.house.port, vhost=self.house.uri.vhost) as other:
            for name in self.streams.values():
                other.ask(DELETE, text(name))
        self.house.__exit__(*error)

    def renew(self, password="new"):
        self.house.make(password)
        equal(self.peer.login(self.house.name, password).code, OK, "the renewed login")

    def told(self, count):
        """Codes and streams of as many metadata updates."""
        word_of = {name.encode(): word for word, name in self.streams.items()}
        seen = {}
        for _ in range(count):
            rest = self.peer.next(UPDATE).rest
            word = word_of[rest[4:]]
            assert word not in seen, f"told twice of {word}"
            seen[word] = struct.unpack(">H", rest[:2])[0]
        return seen

    def publisher(self, word):
        """The fate of a message: confirmed, or the code of the error."""
        number = self.publishes.index(word)
        self.peer.publish(number, message(7, b"m"))
        while True:
            frame = self.peer.read()
            if frame.key == CONFIRM:
                return OK
            if frame.key == ERROR:
                return frame.ids()[0][1]
            assert frame.key != UPDATE, "another metadata update"

    def subscription(self, word):
        """Whether it is there: what credit for it is answered with."""
        number = self.reads.index(word)
        self.peer.say(CREDIT, struct.pack(">BH", number, 1))
        self.peer.say(CREDIT, struct.pack(">BH", 200, 1))
        codes = {}
        while 200 not in codes:
            frame = self.peer.next(CREDIT)
            code, at = struct.unpack(">HB", frame.rest)
            codes[at] = code
        return codes.get(number, OK)


GROUP = {"single-active-consumer": "true", "name": "app"}


def case(name, behaviour, answer, publishes=(), reads=(), group=()):
    def register(function):
        def act():
            with Scene(list(publishes), list(reads), dict(group)) as scene:
                function(scene)
        suite.add(f"rights.{name}", behaviour, answer, act)
        return function
    return register


@case("renewed", "a login renewed after the user lost streams that it publishes to or reads",
      "response 0x01; a metadata update 0x06 for each; their publishers and subscriptions are gone, others go on",
      ["both", "written", "kept"], ["both", "read", "kept"])
def _(scene):
    kept = r"\.kept\."
    scene.house.permit(kept, kept)
    scene.renew()
    equal(scene.told(3), dict.fromkeys(["both", "written", "read"], NOT_AVAILABLE))
    equal({word: scene.publisher(word) for word in scene.publishes},
          {"both": PUBLISHER_GONE, "written": PUBLISHER_GONE, "kept": OK})
    equal({word: scene.subscription(word) for word in scene.reads},
          {"both": SUBSCRIPTION_GONE, "read": SUBSCRIPTION_GONE, "kept": OK})


@case("renewed-write", "the same where only writing is lost, of streams published to, read, and both",
      "an update for those published to; where one is read as well, that ends too", ["both", "written"], ["both", "read"])
def _(scene):
    scene.house.permit("^$", ".*")
    scene.renew()
    equal(scene.told(2), dict.fromkeys(["both", "written"], NOT_AVAILABLE))
    equal((scene.publisher("both"), scene.publisher("written")), (PUBLISHER_GONE, PUBLISHER_GONE))
    equal((scene.subscription("both"), scene.subscription("read")), (SUBSCRIPTION_GONE, OK))


@case("renewed-read", "the same where only reading is lost",
      "an update for those read; where one is published to as well, that ends too", ["both", "written"], ["both", "read"])
def _(scene):
    scene.house.permit(".*", "^$")
    scene.renew()
    equal(scene.told(2), dict.fromkeys(["both", "read"], NOT_AVAILABLE))
    equal((scene.publisher("both"), scene.publisher("written")), (PUBLISHER_GONE, OK))
    equal((scene.subscription("both"), scene.subscription("read")), (SUBSCRIPTION_GONE, SUBSCRIPTION_GONE))


@case("renewed-unchanged", "a login renewed with another password and the same rights", "response 0x01 and nothing else",
      ["both"], ["both"])
def _(scene):
    scene.renew()
    equal((scene.publisher("both"), scene.subscription("both")), (OK, OK))


@case("renewed-again", "rights that are back, and the login renewed once more", "the stream can be published to again",
      ["both"], ["both"])
def _(scene):
    scene.house.permit("^$", "^$")
    scene.renew()
    equal(scene.told(1), {"both": NOT_AVAILABLE})
    declare = struct.pack(">B", 0) + text("") + text(scene.streams["both"])
    equal(scene.peer.code(DECLARE, declare), REFUSED)
    scene.house.permit(".*", ".*")
    scene.renew("newer")
    equal(scene.peer.code(DECLARE, declare), OK)
    equal(scene.publisher("both"), OK)


@case("renewed-active", "the single active consumer whose user may no longer read, and another that waits",
      "the metadata update, and the other becomes the active one", [], ["read"], GROUP)
def _(scene):
    scene.peer.next(CONSUMER_UPDATE)
    uri, port = scene.house.uri, scene.house.port
    with Peer(uri, port, vhost=uri.vhost) as other:
        equal(other.subscribe(5, scene.streams["read"], **GROUP), OK)
        scene.house.permit(".*", "^$")
        scene.renew()
        equal(scene.told(1), {"read": NOT_AVAILABLE})
        equal(other.next(CONSUMER_UPDATE).rest[4:], b"\x05\x01")


@case("renewed-wrong", "a login renewed with a wrong password on a connection that publishes",
      "after 3 s response 0x08, then the end", ["both"], ["both"])
def _(scene):
    begin = time.monotonic()
    equal(scene.peer.login(scene.house.name, "wrong").code, 0x08)
    assert time.monotonic() - begin > SILENCE_SECONDS, "the answer came at once"
    scene.peer.ends()
