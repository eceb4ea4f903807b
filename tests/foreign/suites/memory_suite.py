"""Memory that clients hold in ways that no queue shows; `python -m suites.memory_suite --broker BINARY`.

Each case measures what the node takes, what another user waits for meanwhile, and that the ledger says 0 once the clients
are gone.
"""

import contextlib

from lab import wire, wire_stream
from lab.cases import equal, eventually
from lab.wire import method, publish, queue_declare, short
from suites.memory_bench import (
    BODY, IDLE, REFUSED, SHARE, held, node, refusal, send, settled_bytes, suite, tenants, watched)
from suites.memory_holders import (
    addresses, answer, begin10, begin_stream, deaf, hold_answers, hold_arguments, hold_bodies, hold_delivery, hold_frame,
    hold_routes, hold_transactions, PIECE, reader, reader10, requester, stream_reader, transact)
from suites import memory_all, memory_largest, memory_tables  # noqa: F401 - registers their cases


@suite.case("transactions", "transactions over 16 channels of one connection, 60 MiB each, and of three connections of one user",
            "ours: 64 MiB for a connection, or twice `max_message_size` (`leveret.connection_memory_max`), and a quarter of the "
            "watermark for a user beside others (`leveret.user_memory_share`); beyond it channel closed: 406 `PRECONDITION_FAILED "
            "- no memory for the transaction: ...`; `infinity` turns either off. RabbitMQ has no bound", 60)
def _():
    with node() as the, watched(the) as watch, tenants(the, 3, 16) as peers:
        refusals = []
        for peer in peers:
            transact(peer, range(1, 17))
            hold_transactions(peer, range(1, 17), 80_000_000)
            refusals.append(refusal(peer))
            watch.check(SHARE)
        for seen in refusals:
            assert seen, "nothing was refused"
            equal((seen[0], seen[1], seen[3]), ("channel", 406, (60, 40)))
            assert REFUSED.search(seen[2]), seen[2]
        kinds = {REFUSED.search(seen[2]).group(1) for seen in refusals}
        equal(kinds, {"connection_memory_max", "user_memory_share"})


@suite.case("bodies", "messages whose bodies do not come to their end, on 64 channels of each of three connections",
            "ours: the same bounds; connection closed: 506 `RESOURCE_ERROR - no memory for ...`; RabbitMQ has no bound", 60)
def _():
    with node() as the, watched(the) as watch, tenants(the, 3, 64) as peers:
        refusals = []
        for peer in peers:
            peer.socket.settimeout(5)
            hold_bodies(peer, range(1, 65), 2 << 20)
            refusals.append(refusal(peer))
            watch.check(SHARE)
        # A close is lost at times, where the broker left unread what came behind; not each of three is.
        seen = [one for one in refusals if one]
        assert seen, "no connection was told why it was closed"
        for kind, code, text, where in seen:
            equal((kind, code, where), ("connection", 506, (60, 40)))
            assert REFUSED.search(text), text


@suite.case("deliveries", "12 connections over 1.0, of each of which 14 MiB of a message have come that does not end",
            "ours: the same bounds; beyond them the session ends: `amqp:resource-limit-exceeded`; RabbitMQ has no bound", 60)
def _():
    with node() as the, watched(the) as watch, tenants(the, 1, 1), contextlib.ExitStack() as stack:
        ended = 0
        for _ in range(12):
            peer = begin10(the)
            stack.enter_context(peer)
            hold_delivery(peer, 110)
            peer.socket.settimeout(0.3)
            said = b""
            with contextlib.suppress(TimeoutError, OSError):
                while True:
                    more = peer.socket.recv(65536)
                    said += more
                    if not more:
                        break
            ended += b"amqp:resource-limit-exceeded" in said
            watch.check(SHARE)
        assert ended >= 3, f"{ended} were ended"


@suite.case("replies", "direct replies for 40 channels of one connection that is not read, 16 MiB for each",
            "ours: those that find no room are dropped, as all replies are that nobody takes; RabbitMQ keeps them", 60)
def _():
    with node() as the, watched(the) as watch, contextlib.ExitStack() as stack:
        asker = stack.enter_context(requester(the, 40))
        server = stack.enter_context(the.logs_in(user="tenant", password="secret"))
        server.channel(1)
        names = addresses(server, 40)
        equal(len(set(names)), 40, "addresses")
        deaf(asker)
        for _round in range(4):
            answer(server, names)
            watch.check(SHARE)
        assert held(the) > 1 << 20, "nothing was kept"


@suite.case("answers", "answers that 80 connections of one user do not read",
            "ours: beyond 128 MiB of a user (`leveret.user_unread_max`), or its share of memory, a connection is not heard while it "
            "has more than 64 KiB unread; RabbitMQ hears any while the kernel takes what it says", 90)
def _():
    name = "q" * 250
    with node("leveret.user_unread_max=32MiB") as the, watched(the) as watch, contextlib.ExitStack() as stack:
        with tenants(the, 1, 1) as (first,):
            first.send(queue_declare(1, name, 0b10))
            first.expect(50, 11)
            for _ in range(80):
                peer = stack.enter_context(the.logs_in(user="tenant", password="secret"))
                peer.channel(1)
                hold_answers(peer, name, 20)
            # A turn's worth for each beyond the bound.
            watch.check((32 << 20) + 80 * (600 << 10))


@suite.case("frames", "150 connections of the stream protocol, of each of which 900,000 bytes of a frame have come that does "
            "not end", "ours: the same bounds; beyond them the connection is closed without a word, as the protocol has none for it; "
            "RabbitMQ has no bound", 60)
def _():
    with node() as the, watched(the) as watch, contextlib.ExitStack() as stack:
        peers = []
        for number in range(150):
            try:
                peers.append(stack.enter_context(begin_stream(the)))
            except wire_stream.Closed:
                break
            hold_frame(peers[-1])
            if number % 30 == 29:
                watch.check(SHARE)
        said = watch.check(SHARE)
        assert said > SHARE // 2, f"the ledger says {said >> 20} MiB"
        ended = 0
        for peer in peers:
            peer.socket.settimeout(0.01)
            with contextlib.suppress(TimeoutError):
                try:
                    peer.read()
                except (wire_stream.Closed, OSError) as closed:
                    ended += not isinstance(closed, TimeoutError)
        assert ended >= 30, f"{ended} of {len(peers)} were closed"


@suite.case("routes", "4,500 keys of 250 letters on each of 40 channels, remembered with the way they go",
            "ours: 2 MiB for a channel, and the bounds above for all of them; what has no room is worked out for each message, "
            "and nobody is refused. RabbitMQ remembers none", 90)
def _():
    with node("leveret.user_memory_share=0.1") as the, watched(the) as watch, tenants(the, 1, 40) as (peer,):
        for channel in range(1, 41):
            assert hold_routes(peer, [channel], 4500), "the connection was closed"
            if channel in (10, 40):
                peer.send(queue_declare(channel, "theirs", 0b11))
                peer.expect(50, 11)
                said = watch.check(SHARE * 4 // 10)
                assert said > channel << 19, f"the ledger says {said >> 20} MiB"


@suite.case("consumers", "1,200 consumers of each of two connections, each with 60,000 bytes of arguments that are small values",
            "ours: the same bounds; channel closed: 406 `PRECONDITION_FAILED - no memory for a consumer's arguments: ...`. "
            "RabbitMQ has no bound", 60)
def _():
    with node() as the, watched(the) as watch, tenants(the, 2, 16) as peers:
        kinds = set()
        for peer in peers:
            hold_arguments(peer, range(1, 17), 75)
            seen = refusal(peer)
            assert seen, "nothing was refused"
            equal((seen[0], seen[1], seen[3]), ("channel", 406, (60, 20)))
            kinds.add(REFUSED.search(seen[2]).group(1))
            watch.check(SHARE)
        equal(kinds, {"connection_memory_max", "user_memory_share"})


@suite.case("readers", "messages for eight consumers over 0-9-1, four over 1.0 and four of a stream over its own protocol, of "
            "which none reads", "ours: the same as of answers: a connection is given no more while it has too much unread; what is "
            "not given stays in its queue. RabbitMQ bounds each connection alone", 90)
def _():
    with node("leveret.user_unread_max=16MiB") as the, contextlib.ExitStack() as stack:
        sender = stack.enter_context(the.logs_in())
        sender.channel(1)
        # What is not handed out is not to count: the queue keeps little.
        sender.send(queue_declare(1, "many", 0b10, {"x-max-length-bytes": 1_000_000}))
        sender.send(queue_declare(1, "log", 0b10, {"x-queue-type": "stream"}))
        sender.expect(50, 11)
        sender.expect(50, 11)
        sender.send(publish(1, "", "log", BODY[:PIECE]) * 100, queue_declare(1, "log", 0b11))
        sender.expect(50, 11)

        def offer():
            sender.send(publish(1, "", "many", BODY[:PIECE]) * 160, queue_declare(1, "many", 0b11))
            sender.expect(50, 11)

        # What the heap keeps of so many messages that came and went is no part of what is held.
        for _round in range(6):
            offer()
        settled_bytes(the, IDLE)
        with watched(the) as watch, contextlib.ExitStack() as readers:
            for begin, name, count in ((reader, "many", 8), (reader10, "many", 4), (stream_reader, "log", 4)):
                for _ in range(count):
                    readers.enter_context(begin(the, name))
            for _round in range(6):
                offer()
                # A turn's worth for each beyond the bound.
                assert held(the) <= (16 << 20) + 16 * (600 << 10), f"{held(the)} bytes are held"
            said = watch.check((16 << 20) + 16 * (600 << 10), settled_bytes(the, IDLE))
            assert said > 8 << 20, f"the ledger says {said >> 20} MiB"


@suite.case("unbounded", "100 MB in a transaction of one connection, with `leveret.connection_memory_max = infinity` and "
            "`leveret.user_memory_share = infinity`", "it is committed, as RabbitMQ does", 60)
def _():
    settings = ["leveret.connection_memory_max=infinity", "leveret.user_memory_share=infinity"]
    with node(*settings) as the, watched(the), tenants(the, 1, 2) as (peer,):
        transact(peer, (1, 2))
        assert hold_transactions(peer, (1, 2), 100_000_000), "it was not taken"
        peer.send(queue_declare(1, "theirs", 0b11))
        peer.expect(50, 11)
        assert held(the) > 95_000_000, "it is held"
        for channel in (1, 2):
            peer.send(method(channel, 90, 20))
            peer.expect(90, 21)
        eventually(lambda: held(the) < 1 << 20, "what was committed is given back")


def asks(peer, *parts):
    """What a client is answered on a new channel: `None`, or the code and text that closed the channel."""
    peer.asked = getattr(peer, "asked", 1) + 1
    peer.channel(peer.asked)
    peer.send(*(part(peer.asked) for part in parts))
    while True:
        _channel, class_id, method_id, arguments = peer.method()
        if (class_id, method_id) == (20, 40):
            peer.send(method(peer.asked, 20, 41))
            _kind, code, text, _where = wire.close_of(class_id, method_id, arguments)
            return code, text
        if (class_id, method_id) in ((50, 11), (50, 21), (50, 41), (50, 31), (40, 11), (60, 21)):
            return None


def bind(queue, key, arguments=None):
    rest = wire.table(arguments or {})
    return lambda channel: method(channel, 50, 20, b"\0\0" + short(queue) + short("amq.headers") + short(key) + b"\0" + rest)


def consume(queue, arguments):
    rest = wire.table(arguments)
    return lambda channel: method(channel, 60, 20, b"\0\0" + short(queue) + short("") + b"\x02" + rest)


@suite.case("arguments", "200 bindings, each with 60,000 bytes of arguments that are small values",
            "ours: the node grows by at most three times what was sent, the same for all cores; RabbitMQ keeps terms of "
            "16 bytes and more for each value", 60)
def _():
    with node() as the, the.logs_in(user="tenant", password="secret") as peer:
        equal(asks(peer, lambda channel: queue_declare(channel, "argued", 0b10)), None)
        size, count = 60_000, 200
        voids = b"A" + wire.long(b"V" * size)
        before = settled_bytes(the)
        peer.channel(1)
        for number in range(count):
            table = wire.long(short("n") + b"I" + number.to_bytes(4, "big") + short("a") + voids)
            peer.send(method(1, 50, 20, b"\0\0" + short("argued") + short("amq.headers") + short("") + b"\0" + table))
            peer.expect(50, 21)
        grown = settled_bytes(the) - before
        assert grown <= 3 * size * count, f"{size * count >> 20} MiB of arguments took {grown >> 20} MiB"


@suite.case("alarm", "what a client asks for while the memory alarm holds: new queues, bindings, exchanges, over 0-9-1 and HTTP",
            "ours: channel closed: 406 `PRECONDITION_FAILED - no memory for a new queue while the memory alarm holds: ...`, HTTP "
            "400; what is there is declared again, consumed from and deleted; an administrator is not refused over HTTP. "
            "RabbitMQ takes all of it; `leveret.alarm_refuses_growth = false` turns it off", 60)
def _():
    with node(watermark="1MB") as the:
        refuses_growth(the)


def refuses_growth(the):
    eventually(lambda: the.ask("GET", "/health/checks/alarms") == 503, "the alarm holds")
    equal(the.ask("PUT", "/queues/%2F/there", {"durable": True}), 201, "an administrator's queue")
    equal(the.ask("PUT", "/queues/%2F/new", {"durable": True}, user="tenant"), 400, "a tenant's, over HTTP")
    equal(the.ask("PUT", "/queues/%2F/there", {"durable": True}, user="tenant"), 204, "declared again over HTTP")
    large = {"x-note": "n" * 5000}
    with the.logs_in(user="tenant", password="secret") as peer:
        for thing, ask in (
                ("a new queue", lambda channel: queue_declare(channel, "new", 0b10)),
                ("a new binding", bind("there", "k")),
                ("a consumer's arguments", consume("there", large))):
            code, text = asks(peer, ask)
            equal(code, 406)
            assert text.startswith(f"PRECONDITION_FAILED - no memory for {thing}"), text
            assert "leveret.alarm_refuses_growth" in text, text
        equal(asks(peer, lambda channel: queue_declare(channel, "there", 0b10)), None, "declared again")
        equal(asks(peer, consume("there", {"x-priority": 5})), None, "consumed from")
        equal(asks(peer, lambda channel: method(channel, 50, 30, b"\0\0" + short("there") + b"\0")), None, "purged")
        equal(asks(peer, lambda channel: method(channel, 50, 40, b"\0\0" + short("there") + b"\0")), None, "deleted")


@suite.case("alarm.off", "a new queue while the memory alarm holds, with leveret.alarm_refuses_growth = false",
            "is declared, as in RabbitMQ", 60)
def _():
    with node("leveret.alarm_refuses_growth=false", watermark="1MB") as the:
        eventually(lambda: the.ask("GET", "/health/checks/alarms") == 503, "the alarm holds")
        with the.logs_in(user="tenant", password="secret") as peer:
            equal(asks(peer, lambda channel: queue_declare(channel, "new", 0b10)), None)


WHOSE = (("/user-limits/tenant/max-memory-bytes", "user"), ("/vhost-limits/%2F/max-memory-bytes", "vhost"))


@suite.case("limits", "max-memory-bytes of a user and of a virtual host, set over HTTP, and a transaction beyond it",
            "ours: channel closed: 406 `PRECONDITION_FAILED - no memory for the transaction: user 'tenant' holds ... of at most "
            "1000000 bytes (limit max-memory-bytes of the user)`, of a virtual host in the same words; RabbitMQ knows no such "
            "limit", 60)
def _():
    with node() as the:
        for path, whose in WHOSE:
            refuses_more(the, path, whose)


def refuses_more(the, path, whose):
    equal(the.ask("PUT", path, {"value": 1_000_000}), 204)
    with the.logs_in(user="tenant", password="secret") as peer:
        peer.channel(1)
        peer.send(queue_declare(1, "theirs", 0b10), method(1, 90, 10))
        peer.expect(50, 11)
        peer.expect(90, 11)
        for _ in range(12):
            send(peer, publish(1, "", "theirs", BODY[:100_000]))
        _kind, code, text, _where = refusal(peer)
        equal(code, 406)
        assert f"of at most 1000000 bytes (limit max-memory-bytes of the {whose})" in text, text
    equal(the.ask("DELETE", path), 204)


if __name__ == "__main__":
    suite.main(lambda parser: parser.add_argument("--broker", default=""))
