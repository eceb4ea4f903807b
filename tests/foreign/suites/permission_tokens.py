"""Tokens that are set over the management node: the permissions of all links of the connection are asked anew.

A login with a password has no token; any is taken, and what its user may do by then counts. No link notices otherwise that
permissions are lost: they are asked when it is attached.
"""

from lab.cases import equal
from lab.wire10 import (
    ATTACH, CLOSE, DETACH, END, FLOW, SOURCE, TARGET, TRANSFER, Described, Peer10, Symbol, Ubyte, Uint, encode, performative,
)
from suites.permission_bench import allow, owner, restricted, suite
from suites.permission_topics import open_as

QUEUE = "foreign.token"
ALL = ".*"
NONE = "^$"
OTHER = 1  # the session beside that of the management node


class Bench:
    """A queue, and a user's raw peer with a management pair in session 0 and another session."""

    def __enter__(self):
        self.connection = open_as(owner())
        self.connection.channel().queue_declare(QUEUE, auto_delete=False)
        self.user = restricted((ALL, ALL, ALL))
        self.uri = self.user.__enter__()
        self.peer = Peer10(self.uri)
        self.peer.login10(hostname=f"vhost:{self.uri.vhost}")
        self.peer.session(0)
        self.peer.session(OTHER)
        for handle, receives in ((0, True), (1, False)):
            self.peer.send(performative(
                ATTACH, "pair", Uint(handle), receives, Ubyte(1), None, Described(SOURCE, ["/management"]),
                Described(TARGET, ["/management"]), None, None, None if receives else Uint(0), None, None, None,
                {Symbol("paired"): True}))
            self.peer.expect10(ATTACH)
        self.credit(0, 0, 20)
        self.requests = 0
        return self

    def __exit__(self, *error):
        self.peer.__exit__(*error)
        self.user.__exit__(*error)
        self.connection.channel().queue_delete(QUEUE)
        self.connection.close()

    def credit(self, channel, handle, credit):
        self.peer.send(performative(FLOW, Uint(0), Uint(100), Uint(0), Uint(100), Uint(handle), Uint(0), Uint(credit),
                                    channel=channel))

    def next(self):
        """The next frame that is no flow: channel, code, fields, payload."""
        while True:
            channel, value, payload = self.peer.frame10()
            if value.code != FLOW:
                return channel, value.code, value.value, payload

    def ask(self, method, path, body=None):
        """The status that a request is answered with."""
        self.requests += 1
        head = encode(Described(0x73, [str(self.requests), None, path, method, "$me"]))
        payload = head + encode(Described(0x77, body))
        self.peer.send(performative(TRANSFER, Uint(1), Uint(self.requests), b"%d" % self.requests, Uint(0), True,
                                    payload=payload))
        channel, code, _fields, payload = self.next()
        equal((channel, code), (0, TRANSFER))
        return payload

    def set_token(self):
        equal(b"204" in self.ask("PUT", "/auth/tokens", b"token"), True, "204")

    def send_to(self, address, channel=OTHER):
        self.peer.attach("sender", 7, False, address, channel=channel)
        self.expect(ATTACH)

    def receive(self, channel=OTHER):
        self.peer.attach("receiver", 8, True, f"/queues/{QUEUE}", channel=channel)
        self.expect(ATTACH)

    def expect(self, code):
        equal(self.next()[1], code)

    def ended(self, words, channel=OTHER):
        """A session ends, and says why."""
        at, code, fields, _payload = self.next()
        error = fields[0].value
        text = f"{words} in vhost '{self.uri.vhost}' refused for user '{self.uri.user}'"
        equal((at, code, error[0], error[1]), (channel, END, "amqp:unauthorized-access", text))

    def stays(self):
        """The other session does what it is asked, and so does the management node's."""
        self.peer.attach("another", 9, False, None, channel=OTHER)
        channel, code, _fields, _payload = self.next()
        equal((channel, code), (OTHER, ATTACH))
        equal(b"404" in self.ask("GET", "/queues/foreign.absent"), True, "404")


READ = f"read access to queue '{QUEUE}'"
WRITE = "write access to exchange '{}'"
REFUSED = "204; session ended: `amqp:unauthorized-access` `{}...`"
DEFAULT, FANOUT = WRITE.format("amq.default"), WRITE.format("amq.fanout")
ROWS = [
    ("receiver", "a receiver whose user may no longer read", lambda own: own.receive(), (ALL, ALL, NONE), READ),
    ("sender", "a sender to a queue whose user may no longer write", lambda own: own.send_to(f"/queues/{QUEUE}"),
     (ALL, NONE, ALL), DEFAULT),
    ("exchange", "a sender to an exchange whose user may no longer write",
     lambda own: own.send_to("/exchanges/amq.fanout"), (ALL, NONE, ALL), FANOUT),
    ("one", "a sender to one of two exchanges, which is no longer among those its user may write to",
     lambda own: own.send_to("/exchanges/amq.fanout"), (ALL, "^amq.direct$", ALL), FANOUT),
    ("anonymous", "a sender to the anonymous terminus whose user may no longer write", lambda own: own.send_to(None),
     (ALL, NONE, ALL), None),
    ("others", "a receiver whose user may no longer configure and write", lambda own: own.receive(), (NONE, NONE, ALL),
     None),
    ("same", "a receiver whose user's permissions are as they were", lambda own: own.receive(), (ALL, ALL, ALL), None),
]
for name, words, attach, patterns, refused in ROWS:
    def token(attach=attach, patterns=patterns, refused=refused):
        with Bench() as own:
            attach(own)
            allow(own.uri, patterns)
            own.set_token()
            if refused:
                own.ended(refused)
                own.peer.send(performative(END, channel=OTHER))
                own.peer.session(OTHER)
            own.stays()

    suite.add(f"10.token-{name}", f"AMQP 1.0: PUT /auth/tokens with {words}",
              REFUSED.format(refused) + " alone; the other goes on" if refused else "204; nothing else", token)


@suite.case("10.token-own", "AMQP 1.0: PUT /auth/tokens in the session of a receiver whose user may no longer read",
            REFUSED.format(READ))
def _():
    with Bench() as own:
        own.receive(channel=0)
        allow(own.uri, (ALL, ALL, NONE))
        own.set_token()
        own.ended(READ, channel=0)


@suite.case("10.token-none", "AMQP 1.0: a receiver whose user may no longer read, and no token", "it stays attached")
def _():
    with Bench() as own:
        own.receive()
        allow(own.uri, (ALL, ALL, NONE))
        own.stays()
        own.peer.send(performative(DETACH, Uint(8), True, channel=OTHER))
        _channel, code, fields, _payload = own.next()
        equal((code, fields[2]), (DETACH, None))


@suite.case("10.token-vhost", "AMQP 1.0: PUT /auth/tokens with the user's permissions cleared",
            "204; connection closed: `amqp:unauthorized-access`")
def _():
    with Bench() as own:
        own.receive()
        allow(own.uri, None)
        own.set_token()
        _channel, code, fields, _payload = own.next()
        equal((code, fields[0].value[0]), (CLOSE, "amqp:unauthorized-access"))
