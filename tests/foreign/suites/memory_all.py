"""Cases of memory: every kind of it at once, up to the bound of one connection, of one user and of one virtual host."""

import contextlib

from lab.cases import eventually
from lab.wire import publish, queue_declare
from suites.memory_bench import BODY, CONNECTION, SHARE, WATERMARK, held, node, suite, tenants, watched
from suites.memory_holders import (
    addresses, answer, begin10, begin_stream, deaf, hold_answers, hold_arguments, hold_bodies, hold_delivery, hold_frame,
    hold_routes, hold_transactions, PIECE, reader, reader10, requester, stream_reader, transact)

LONG = "q" * 250
ANSWER = ("ours alone: no more is held, the node takes at most 1.2 times what the ledger says, and another user is served within "
          "a second")


class Crowd:
    """The connections of one user, each of which holds one kind."""

    def __init__(self, the, stack):
        self.the, self.stack = the, stack
        self.server = self.opened()
        self.server.send(queue_declare(1, LONG, 0b10), queue_declare(1, "many", 0b10, {"x-max-length-bytes": 1_000_000}))
        self.server.expect(50, 11)
        self.server.expect(50, 11)

    def opened(self):
        peer = self.stack.enter_context(self.the.logs_in(user="tenant", password="secret"))
        peer.channel(1)
        return peer

    def channels(self, count):
        return self.stack.enter_context(tenants(self.the, 1, count))[0]

    def transactions(self):
        peer = self.channels(4)
        transact(peer, range(1, 5))
        hold_transactions(peer, range(1, 5), 8_000_000)

    def bodies(self):
        hold_bodies(self.channels(8), range(1, 9), 1 << 20)

    def deliveries(self):
        hold_delivery(self.stack.enter_context(begin10(self.the)), 60)

    def frames(self):
        for _ in range(9):
            # The bound may be reached before its login is over.
            with contextlib.suppress(Exception):
                hold_frame(self.stack.enter_context(begin_stream(self.the)))

    def replies(self):
        asker = self.stack.enter_context(requester(self.the, 8))
        names = addresses(self.server, 8)
        deaf(asker)
        for _ in range(2):
            answer(self.server, names)

    def routes(self):
        hold_routes(self.channels(5), range(1, 6), 4500)

    def arguments(self):
        hold_arguments(self.channels(2), (1, 2), 70)

    def answers(self):
        # With more of them the readers behind them would find the bound reached.
        for _ in range(2):
            hold_answers(self.opened(), LONG, 20)

    def readers(self):
        for begin in (reader, reader10):
            for _ in range(2):
                self.stack.enter_context(begin(self.the, "many"))
        self.stack.enter_context(stream_reader(self.the, "log"))
        self.server.send(publish(1, "", "many", BODY[:PIECE]) * 160)
        self.server.send(queue_declare(1, "many", 0b11))
        self.server.expect(50, 11)


KINDS = (Crowd.transactions, Crowd.bodies, Crowd.deliveries, Crowd.frames, Crowd.replies, Crowd.routes, Crowd.arguments,
         Crowd.answers, Crowd.readers)


def fill_log(the):
    """A stream for those who read one."""
    with the.logs_in() as peer:
        peer.channel(1)
        peer.send(queue_declare(1, "log", 0b10, {"x-queue-type": "stream"}))
        peer.expect(50, 11)
        peer.send(publish(1, "", "log", BODY[:PIECE]) * 60, queue_declare(1, "log", 0b11))
        peer.expect(50, 11)


def everything(settings, most):
    """Each kind once, so that all are there, and then again and again, with what is left of the room."""
    with node(*settings) as the:
        fill_log(the)
        with watched(the) as watch, contextlib.ExitStack() as stack:
            crowd = Crowd(the, stack)
            for kind in KINDS:
                before = held(the)
                kind(crowd)
                eventually(lambda before=before: held(the) > before + (64 << 10), f"{kind.__name__}: something of it is held")
            # A turn's worth beyond the bound for each that does not read.
            slack = 40 * (300 << 10)
            said = watch.check(most + slack)
            for kind in KINDS:
                # One of many connections is closed, which is how it is refused.
                with contextlib.suppress(Exception):
                    kind(crowd)
                said = watch.check(most + slack)
            assert said > most * 6 // 10, f"the ledger says {said >> 20} MiB"


@suite.case("all.vhost", "all of it at once in a virtual host with a bound of its own (`leveret.vhost_memory_share`)", ANSWER, 120)
def _():
    everything(["leveret.vhost_memory_share=0.22"], WATERMARK * 22 // 100)


@suite.case("all.user", "all of it at once by one user beside another", ANSWER, 120)
def _():
    everything([], SHARE)


@suite.case("all.connection", "transactions, halves of messages, replies, routes, arguments of consumers and answers, all at once "
            "of one connection that does not read", ANSWER, 90)
def _():
    with node() as the, watched(the) as watch, contextlib.ExitStack() as stack:
        server = stack.enter_context(the.logs_in(user="tenant", password="secret"))
        server.channel(1)
        server.send(queue_declare(1, LONG, 0b10), queue_declare(1, "theirs", 0b10))
        server.expect(50, 11)
        server.expect(50, 11)
        peer = stack.enter_context(requester(the, 8))
        for channel in range(10, 60):
            peer.channel(channel)
        names = addresses(server, 8)
        transact(peer, range(10, 20))

        def holds(what, least):
            nonlocal before
            # Accounts are up to a quarter more than what is held, so that some of it was there before.
            eventually(lambda: held(the) > before + least, f"{what} are held")
            before = watch.check(CONNECTION * 9 // 8)

        before = 0
        hold_transactions(peer, range(10, 20), 8_000_000)
        holds("transactions", 8_000_000)
        hold_bodies(peer, range(20, 28), 1_200_000)
        holds("bodies", 6 << 20)
        hold_routes(peer, range(30, 34), 4500)
        holds("routes", 1 << 20)
        hold_arguments(peer, range(40, 44), 30)
        holds("arguments", 4 << 20)
        # Beyond 4 MiB that it does not read, a connection is not heard: its replies come last.
        hold_transactions(peer, range(10, 20), 24_000_000)
        holds("more transactions", 8 << 20)
        deaf(peer)
        for _ in range(4):
            answer(server, names)
            said = watch.check(CONNECTION * 9 // 8)
        # What was reserved before was more than what was held, and at most the connection's bound.
        assert said > before, "no replies are held"
        hold_answers(peer, LONG, 10)
        said = watch.check(CONNECTION * 9 // 8)
        assert said > CONNECTION * 8 // 10, f"the ledger says {said >> 20} MiB"
