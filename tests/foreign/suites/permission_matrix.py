"""The matrix: operation x permission x protocol.

A name begins with the letters of what its user may do with it: `rw.x` may be read and written, not configured;
`-.x` nothing. Every operation is tried with all eight sets of letters for each name it touches, the other
names being free, and with no letters at all: which check comes first shows too.
"""

import contextlib
import itertools
import re

from lab import wire
from lab.cases import equal
from lab.wire import Peer, long, method, short
from lab.wire10 import (ATTACH, CLOSE, DETACH, DISPOSITION, END, FLOW, SOURCE, TARGET, TRANSFER, Described, Peer10,
                        Symbol, Ubyte, Uint, decode, encode, performative)
from suites.permission_bench import owner, restricted, suite

LETTERS = {"configure": "c", "write": "w", "read": "r"}
# Passive declares need any of the three; the refusal names configure.
ANY = "any"
ALL = "crw"
SLOTS = ("queue", "exchange", "source", "destination", "alternate")
SETS = ["".join(letters) for size in range(4) for letters in itertools.combinations(ALL, size)]
# Of the default exchange, which has one name for all.
NO_DEFAULT = tuple(rf"^[crw]*{letter}[crw]*\." for letter in LETTERS.values())
WITH_DEFAULT = tuple(rf"{pattern}|^amq\.default$" for pattern in NO_DEFAULT)


def named(slot, letters):
    return f"{letters or '-'}.foreign.{slot}"


def attempts(slots):
    """Letters for each slot, one slot after the other; then nothing for all."""
    for slot in slots:
        for letters in SETS:
            yield {**dict.fromkeys(SLOTS, ALL), slot: letters}
    yield dict.fromkeys(SLOTS, "")


def refused(uri, checks, names, granted, words):
    """The error of the first check that fails; None where all pass."""
    for permission, kind, slot in checks:
        if not set(LETTERS.get(permission, ALL)) & set(granted.get(slot, "")):
            shown = "configure" if permission == ANY else permission
            return words.format(permission=shown, kind=kind, name=names.get(slot, slot), vhost=uri.vhost,
                                user=uri.user)
    return None


def every_cell(row, act, words, patterns):
    """Runs `act(uri, names)` for each attempt and compares its answer."""
    default = {"amq.default": ALL if patterns == WITH_DEFAULT else ""}
    with restricted(patterns) as uri, owned_queues(row.has_queues):
        for granted in attempts([slot for slot in SLOTS if any(check[2] == slot for check in row.checks)]):
            names = {slot: named(slot, letters) for slot, letters in granted.items()}
            expected = refused(uri, row.checks, names, {**granted, **default}, words)
            equal(act(uri, names), expected or row.then.format(vhost=uri.vhost, **names), f"with {granted}")


@contextlib.contextmanager
def owned_queues(wanted):
    """The queue of each set of letters, made by a user who may do anything."""
    if not wanted:
        yield
        return
    with Peer(owner()) as peer:
        peer.login(vhost=suite.uri.vhost)
        peer.channel()
        for letters in SETS:
            peer.send(wire.queue_declare(1, named("queue", letters), bits=0b010))
            peer.expect(50, 11)
        try:
            yield
        finally:
            for letters in SETS:
                peer.send(method(1, 50, 40, b"\0\0" + short(named("queue", letters)) + b"\0"))
                peer.expect(50, 41)


class Row:
    """An operation: what it needs, in this order; what it does; the answer when all is permitted; what undoes it.

    `has_queues`: the queues are there, made by somebody who may.
    """

    def __init__(self, name, words, checks, build, then, tidy=None, later=False, has_queues=False):
        self.name, self.words, self.checks, self.build = name, words, checks, build
        self.then, self.tidy, self.later, self.has_queues = then, tidy, later, has_queues


def register(group, protocol, rows, act, words):
    for row in rows:
        needed = ", then ".join(f"{permission} of {kind} `{slot}`" for permission, kind, slot in row.checks)
        for name, patterns in ((row.name, NO_DEFAULT), (f"{row.name}-permitted", WITH_DEFAULT)):
            touches_default = any(slot == "amq.default" for _permission, _kind, slot in row.checks)
            if patterns == NO_DEFAULT or touches_default:
                answer = f"needs {needed}" if needed else "needs no permission"
                suite.add(f"{group}.{name}", f"{protocol}: {row.words}",
                          f"{answer}; refused: `{words}`" + (f"; else `{row.then}`" if row.then else ""),
                          lambda row=row, patterns=patterns: every_cell(row, act(row), words, patterns),
                          seconds_max=60, later=row.later)


# --- AMQP 0-9-1 ----------------------------------------------------------------------------------

WORDS_091 = ("channel closed: 403 ACCESS_REFUSED - {permission} access to {kind} '{name}' in vhost '{vhost}' refused "
             "for user '{user}'")
GENERATED = re.compile(r"amq\.gen-[\w-]{22}")


def act_091(row):
    """Sends what the row builds on a channel in confirm mode; answers the close, or `ok`."""

    def act(uri, names):
        with Peer(uri) as peer:
            peer.login(vhost=uri.vhost)
            peer.channel()
            peer.send(method(1, 85, 10, b"\0"))
            peer.expect(85, 11)
            sent, ids = row.build(names)
            peer.send(sent)
            _channel, class_id, method_id, arguments = peer.method()
            close = wire.close_of(class_id, method_id, arguments)
            if close:
                equal(close[3], struct_ids(sent), "class and method of the close")
                return GENERATED.sub("amq.gen-", f"{close[0]} closed: {close[1]} {close[2]}")
            equal((class_id, method_id), ids, "answer")
            if row.tidy:
                peer.send(row.tidy(names))
                peer.method()
            return "ok"

    return act


def struct_ids(sent):
    """Class and method of the first frame."""
    return int.from_bytes(sent[7:9]), int.from_bytes(sent[9:11])


def long_string_table(**values):
    data = b"".join(short(name.replace("_", "-")) + b"S" + long(value) for name, value in values.items())
    return long(data)


EMPTY = long(b"")


def queue_method(number, rest=b"", bits=b"\0"):
    return lambda n: method(1, 50, number, b"\0\0" + short(n["queue"]) + rest + bits)


def queue_declare(bits=0b100, arguments=None):
    def build(n):
        table = long_string_table(**{key: n[slot] for key, slot in (arguments or {}).items()})
        return method(1, 50, 10, b"\0\0" + short(n["queue"]) + bytes([bits]) + table), (50, 11)

    return build


def exchange_declare(bits=0, arguments=None):
    def build(n):
        table = long_string_table(**{key: n[slot] for key, slot in (arguments or {}).items()})
        return method(1, 40, 10, b"\0\0" + short(n["exchange"]) + short("direct") + bytes([bits]) + table), (40, 11)

    return build


def queue_binding(number, ok):
    bits = b"\0" if number == 20 else b""
    rest = short("k") + bits + EMPTY
    return lambda n: (method(1, 50, number, b"\0\0" + short(n["queue"]) + short(n["exchange"]) + rest), (50, ok))


def exchange_binding(number, ok):
    rest = short("k") + b"\0" + EMPTY
    return lambda n: (method(1, 40, number, b"\0\0" + short(n["destination"]) + short(n["source"]) + rest), (40, ok))


def published(exchange):
    def build(n):
        parts = [method(1, 60, 40, b"\0\0" + short(exchange(n)) + short("k") + b"\0"), wire.content_header(1, 0)]
        return b"".join(parts), (60, 80)

    return build


def delete_queue(n):
    return method(1, 50, 40, b"\0\0" + short(n["queue"]) + b"\0")


def delete_exchange(n):
    return method(1, 40, 20, b"\0\0" + short(n["exchange"]) + b"\0")


NO_QUEUE = "channel closed: 404 NOT_FOUND - no queue '{queue}' in vhost '{vhost}'"
NO_EXCHANGE = "channel closed: 404 NOT_FOUND - no exchange '{exchange}' in vhost '{vhost}'"
BINDING = [("write", "queue", "queue"), ("read", "exchange", "exchange")]
EXCHANGE_BINDING = [("write", "exchange", "destination"), ("read", "exchange", "source")]

ROWS_091 = [
    Row("queue-declare", "queue.declare", [("configure", "queue", "queue")], queue_declare(), "ok", delete_queue),
    Row("queue-declare-named", "queue.declare with a name of the server", [("configure", "queue", "amq.gen-")],
        lambda n: queue_declare()({"queue": ""}), ""),
    Row("queue-declare-passive", "queue.declare, passive", [(ANY, "queue", "queue")], queue_declare(0b101),
        NO_QUEUE),
    Row("queue-declare-dead-letter", "queue.declare with x-dead-letter-exchange",
        [("configure", "queue", "queue"), ("read", "queue", "queue"), ("write", "exchange", "exchange")],
        queue_declare(arguments={"x_dead_letter_exchange": "exchange"}), "ok", delete_queue),
    Row("queue-delete", "queue.delete", [("configure", "queue", "queue")], lambda n: (delete_queue(n), (50, 41)), "ok"),
    Row("queue-purge", "queue.purge", [("read", "queue", "queue")],
        lambda n: (method(1, 50, 30, b"\0\0" + short(n["queue"]) + b"\0"), (50, 31)), NO_QUEUE),
    Row("queue-bind", "queue.bind", BINDING, queue_binding(20, 21), NO_EXCHANGE),
    Row("queue-unbind", "queue.unbind", BINDING, queue_binding(50, 51), "ok"),
    Row("exchange-declare", "exchange.declare", [("configure", "exchange", "exchange")], exchange_declare(), "ok",
        delete_exchange),
    Row("exchange-declare-passive", "exchange.declare, passive", [(ANY, "exchange", "exchange")],
        exchange_declare(1), NO_EXCHANGE),
    Row("exchange-declare-alternate", "exchange.declare with alternate-exchange",
        [("configure", "exchange", "exchange"), ("read", "exchange", "exchange"), ("write", "exchange", "alternate")],
        exchange_declare(arguments={"alternate_exchange": "alternate"}), "ok", delete_exchange),
    Row("exchange-delete", "exchange.delete", [("configure", "exchange", "exchange")],
        lambda n: (delete_exchange(n), (40, 21)), "ok"),
    Row("exchange-bind", "exchange.bind", EXCHANGE_BINDING, exchange_binding(30, 31),
        "channel closed: 404 NOT_FOUND - no exchange '{source}' in vhost '{vhost}'"),
    Row("exchange-unbind", "exchange.unbind", EXCHANGE_BINDING, exchange_binding(40, 51), "ok"),
    Row("publish", "basic.publish", [("write", "exchange", "exchange")], published(lambda n: n["exchange"]), NO_EXCHANGE),
    Row("publish-default", "basic.publish to the default exchange", [("write", "exchange", "amq.default")],
        published(lambda n: ""), "ok"),
    Row("get", "basic.get", [("read", "queue", "queue")],
        lambda n: (method(1, 60, 70, b"\0\0" + short(n["queue"]) + b"\1"), (60, 71)), NO_QUEUE),
    Row("consume", "basic.consume", [("read", "queue", "queue")],
        lambda n: (method(1, 60, 20, b"\0\0" + short(n["queue"]) + short("t") + b"\0" + EMPTY), (60, 21)), NO_QUEUE),
]

# --- AMQP 1.0 ------------------------------------------------------------------------------------

WORDS_10 = ("session ended: amqp:unauthorized-access {permission} access to {kind} '{name}' in vhost '{vhost}' refused "
            "for user '{user}'")
ENDS = {DETACH: "link detached", END: "session ended", CLOSE: "connection closed"}


def act_10(row):
    """Attaches as the row says, and sends a message where it says one; answers how that went."""

    def act(uri, names):
        with Peer10(uri) as peer:
            peer.login10(hostname=f"vhost:{uri.vhost}")
            peer.session()
            is_receiver, address, to = row.build(names)
            peer.attach("link", 0, is_receiver, address)
            while True:
                _channel, value, _payload = peer.frame10()
                fields = value.value
                if value.code in ENDS:
                    error = fields[2 if value.code == DETACH else 0]
                    return f"{ENDS[value.code]}: {error.value[0]} {error.value[1]}" if error else ENDS[value.code]
                if value.code == ATTACH and is_receiver and fields[5] is not None:
                    return "attached"
                if value.code == FLOW and to is None:
                    return "attached"
                if value.code == FLOW:
                    message = encode(Described(0x73, [None, None, to])) + encode(Described(0x75, b"x"))
                    peer.send(performative(TRANSFER, Uint(0), Uint(0), b"t", Uint(0), False, False, payload=message))
                    to = None
                    value = next(value for _channel, value, _payload in iter(peer.frame10, None) if value.code != FLOW)
                    if value.code == DISPOSITION:
                        return outcome(value.value[4])
                    error = value.value[2 if value.code == DETACH else 0]
                    return f"{ENDS[value.code]}: {error.value[0]} {error.value[1]}"

    return act


def outcome(state):
    names = {0x24: "accepted", 0x25: "rejected", 0x26: "released"}
    error = state.value[0] if state.value else None
    return names[state.code] + (f": {error.value[0]} {error.value[1]}" if error else "")


ROWS_10 = [
    Row("receive", "a receiver from `/queues/QUEUE`", [("read", "queue", "queue")],
        lambda n: (True, f"/queues/{n['queue']}", None), "attached", has_queues=True),
    Row("receive-absent", "a receiver from `/queues/QUEUE` that is not there", [],
        lambda n: (True, f"/queues/{n['queue']}", None),
        "link detached: amqp:not-found no queue '{queue}' in vhost '{vhost}'"),
    Row("send-queue-absent", "a sender to `/queues/QUEUE` that is not there", [],
        lambda n: (False, f"/queues/{n['queue']}", None),
        "link detached: amqp:not-found no queue '{queue}' in vhost '{vhost}'"),
    Row("send-exchange", "a sender to `/exchanges/EXCHANGE/k`", [("write", "exchange", "exchange")],
        lambda n: (False, f"/exchanges/{n['exchange']}/k", None),
        "link detached: amqp:not-found no exchange '{exchange}' in vhost '{vhost}'"),
    Row("send-queue", "a sender to `/queues/QUEUE`", [("write", "exchange", "amq.default")],
        lambda n: (False, f"/queues/{n['queue']}", None), "attached", has_queues=True),
    Row("send-anonymous", "a message to `/exchanges/EXCHANGE/k` over the anonymous terminus",
        [("write", "exchange", "exchange")], lambda n: (False, None, f"/exchanges/{n['exchange']}/k"),
        "rejected: amqp:not-found no exchange '{exchange}' in vhost '{vhost}'"),
    Row("send-anonymous-queue", "a message to `/queues/QUEUE` over the anonymous terminus",
        [("write", "exchange", "amq.default")], lambda n: (False, None, f"/queues/{n['queue']}"), "released"),
]

# --- the management node over AMQP 1.0 -----------------------------------------------------------

NULL = encode(Described(0x77, None))


def attach_management(peer, handle, is_receiver):
    terminus = [Described(code, ["/management"]) for code in (SOURCE, TARGET)]
    peer.send(performative(ATTACH, "pair", Uint(handle), is_receiver, Ubyte(1), Ubyte(0), *terminus, None, None,
                           None if is_receiver else Uint(0), None, None, None, {Symbol("paired"): True}))


def act_management(row):
    """Asks the management node; answers the code, and what was wrong."""

    def act(uri, names):
        with Peer10(uri) as peer:
            peer.login10(hostname=f"vhost:{uri.vhost}")
            peer.session()
            attach_management(peer, 0, False)
            attach_management(peer, 1, True)
            attached = granted = 0
            while attached < 2 or not granted:
                value = peer.frame10()[1]
                attached += value.code == ATTACH
                granted += value.code == FLOW
            peer.send(performative(FLOW, Uint(0), Uint(100), Uint(0), Uint(100), Uint(1), Uint(0), Uint(10)))
            answer = asked(peer, 0, *row.build(names))
            if row.tidy and answer.startswith("2"):
                asked(peer, 1, *row.tidy(names))
            return answer

    return act


def asked(peer, number, verb, path, body=NULL):
    """Sends a request; its code, and the text of a refusal."""
    properties = encode(Described(0x73, [number, None, path, verb, "$me"]))
    peer.send(performative(TRANSFER, Uint(0), Uint(number), b"t", Uint(0), True, False, payload=properties + body))
    value, payload = next((value, payload) for _channel, value, payload in iter(peer.frame10, None)
                          if value.code in (TRANSFER, *ENDS))
    if value.code in ENDS:
        error = value.value[0]
        return f"{ENDS[value.code]}: {error.value[0]} {error.value[1]}"
    sections, at = {}, 0
    while at < len(payload):
        section, at = decode(payload, at)
        sections[section.code] = section.value
    code, text = sections[0x73][3], sections.get(0x77)
    return f"{code}: {text}" if isinstance(text, str) else code


def map_body(**values):
    return encode(Described(0x77, values))


def bound(n):
    return map_body(source=n["exchange"], binding_key="k", destination_queue=n["queue"], arguments={})


def bound_exchange(n):
    return map_body(source=n["source"], binding_key="k", destination_exchange=n["destination"], arguments={})


def queue_body(dead_letters_to):
    return map_body(durable=True, exclusive=False, auto_delete=False,
                    arguments={"x-dead-letter-exchange": dead_letters_to})


def exchange_body(alternate):
    return map_body(durable=True, auto_delete=False, internal=False, type="direct",
                    arguments={"alternate-exchange": alternate})


QUEUE_BODY = map_body(durable=True, exclusive=False, auto_delete=False, arguments={})
EXCHANGE_BODY = map_body(durable=True, auto_delete=False, internal=False, type="direct", arguments={})
GONE_QUEUE = "404: no queue '{queue}' in vhost '{vhost}'"
ROWS_MANAGEMENT = [
    Row("put-queue", "PUT /queues/QUEUE", [("configure", "queue", "queue")],
        lambda n: ("PUT", f"/queues/{n['queue']}", QUEUE_BODY), "201", lambda n: ("DELETE", f"/queues/{n['queue']}")),
    Row("put-queue-dead-letter", "PUT /queues/QUEUE with x-dead-letter-exchange",
        [("configure", "queue", "queue"), ("read", "queue", "queue"), ("write", "exchange", "exchange")],
        lambda n: ("PUT", f"/queues/{n['queue']}", queue_body(n["exchange"])), "201",
        lambda n: ("DELETE", f"/queues/{n['queue']}")),
    Row("get-queue", "GET /queues/QUEUE", [(ANY, "queue", "queue")],
        lambda n: ("GET", f"/queues/{n['queue']}"), "404: queue '{queue}' in vhost '{vhost}' not found"),
    Row("delete-queue", "DELETE /queues/QUEUE", [("configure", "queue", "queue")],
        lambda n: ("DELETE", f"/queues/{n['queue']}"), "200"),
    Row("purge-queue", "DELETE /queues/QUEUE/messages", [("read", "queue", "queue")],
        lambda n: ("DELETE", f"/queues/{n['queue']}/messages"), GONE_QUEUE),
    Row("put-exchange", "PUT /exchanges/EXCHANGE", [("configure", "exchange", "exchange")],
        lambda n: ("PUT", f"/exchanges/{n['exchange']}", EXCHANGE_BODY), "204",
        lambda n: ("DELETE", f"/exchanges/{n['exchange']}")),
    Row("put-exchange-alternate", "PUT /exchanges/EXCHANGE with alternate-exchange",
        [("configure", "exchange", "exchange"), ("read", "exchange", "exchange"), ("write", "exchange", "alternate")],
        lambda n: ("PUT", f"/exchanges/{n['exchange']}", exchange_body(n["alternate"])), "204",
        lambda n: ("DELETE", f"/exchanges/{n['exchange']}")),
    Row("delete-exchange", "DELETE /exchanges/EXCHANGE", [("configure", "exchange", "exchange")],
        lambda n: ("DELETE", f"/exchanges/{n['exchange']}"), "204"),
    Row("post-binding", "POST /bindings of a queue", BINDING, lambda n: ("POST", "/bindings", bound(n)),
        "400: no exchange '{exchange}' in vhost '{vhost}'"),
    Row("post-binding-exchange", "POST /bindings of an exchange", EXCHANGE_BINDING,
        lambda n: ("POST", "/bindings", bound_exchange(n)), "400: no exchange '{source}' in vhost '{vhost}'"),
    Row("delete-binding", "DELETE /bindings/...", BINDING,
        lambda n: ("DELETE", f"/bindings/src={n['exchange']};dstq={n['queue']};key=k;args="), "204"),
    Row("get-bindings", "GET /bindings?...", BINDING,
        lambda n: ("GET", f"/bindings?dstq={n['queue']}&src={n['exchange']}&key=k"), "200"),
]

register("091", "0-9-1", ROWS_091, act_091, WORDS_091)
register("10", "AMQP 1.0", ROWS_10, act_10, WORDS_10)
register("management", "the management node", ROWS_MANAGEMENT, act_management, WORDS_10)
