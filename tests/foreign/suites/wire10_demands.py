"""Demands of the specification on a peer, where RabbitMQ takes more than that or says less; raw, as no client errs so."""

from lab.cases import Skip, equal
from lab.wire import Closed
from lab.wire10 import (
    AMQP_HEADER, ATTACH, BEGIN, CLOSE, DETACH, DISPOSITION, FLOW, OPEN, SOURCE, TARGET, TRANSFER, Described, Peer10,
    Symbol, Ubyte, Uint, encode, is_ours, performative, raw_frame,
)
from suites.wire091 import SILENT_SECONDS_MAX, suite
from suites.wire10_attach import Bench, put, symbols

ACCEPTED, REJECTED, TRANSACTIONAL = 0x24, 0x25, 0x34
COORDINATOR, DECLARE, DISCHARGE = 0x30, 0x31, 0x32
DATA = encode(Described(0x75, b"x"))
UNSETTLED, SETTLED, MIXED, SECOND = Ubyte(0), Ubyte(1), Ubyte(2), Ubyte(1)
NAMES_ACCEPTED = symbols("amqp:accepted:list")
NAMES_BOTH = symbols("amqp:accepted:list", "amqp:rejected:list")
TAG = b"tag"


def transfer(peer, *fields, payload=DATA):
    peer.send(raw_frame(put(Described(TRANSFER, list(fields))) + payload))


def attach_sender(peer, address, handle=0, settles=None, outcomes=None, target=None):
    """Attaches a sender: its credit has come when this returns."""
    source = Described(SOURCE, ["local"] + [None] * 8 + [outcomes])
    target = target or Described(TARGET, [address])
    fields = [f"sender-{handle}", Uint(handle), False, settles, None, source, target, None, None, Uint(0)]
    peer.send(raw_frame(put(Described(ATTACH, fields))))
    answer = peer.expect10(ATTACH)[1]
    peer.expect10(FLOW)
    return answer


def answer(peer):
    """The next frame that is no flow: its code and fields."""
    while True:
        _channel, value, _payload = peer.frame10()
        if value.code != FLOW:
            return value.code, value.value


def outcome(peer):
    """The descriptor of the outcome that comes next, and the outcome itself."""
    code, fields = answer(peer)
    equal(code, DISPOSITION)
    return fields[4].code, fields[4]


def check_link(settles, act, theirs, ours):
    """The fate of messages over a link of this mode: `act` sends them, `theirs` and `ours` look at the peer."""
    with Bench() as bench:
        attach_sender(bench.peer, f"/queues/{bench.queue}", settles=settles)
        act(bench.peer)
        (ours if is_ours(suite.uri) else theirs)(bench.peer)


def accepted(peer):
    equal(outcome(peer)[0], ACCEPTED)


def detached(condition, text=None):
    def check(peer):
        code, said, description = peer.end_seen()
        equal((code, said), (DETACH, condition))
        if text:
            equal(description, text)
    return check


def taken(peer):
    """A delivery that was sent settled made no trouble: the link is still there, and detaches when asked."""
    peer.send(performative(DETACH, Uint(0), True))
    code, fields = answer(peer)
    equal((code, fields[2]), (DETACH, None))


def add_continuation(name, words, said, second, ours):
    def act(peer):
        transfer(peer, Uint(0), Uint(0), TAG, Uint(0), False, True)
        transfer(peer, Uint(0), *second, payload=b"")

    suite.add(f"demand.{name}", f"the second transfer of a delivery {words}", said,
              lambda: check_link(None, act, accepted, ours))


WRONG = "accepted (ours: link detached `amqp:invalid-field`)"
OTHER = "differs from that of the delivery's first transfer"
for name, words, said, second, ours in [
    ("format-other", "has another message-format", WRONG, (None, None, Uint(1), None, False),
     detached("amqp:invalid-field", f"message-format {OTHER}")),
    ("tag-other", "has another delivery-tag", WRONG, (None, b"other", None, None, False),
     detached("amqp:invalid-field", f"delivery-tag {OTHER}")),
    ("tag-longer", "has a longer delivery-tag", WRONG, (None, TAG + b"s", None, None, False),
     detached("amqp:invalid-field", f"delivery-tag {OTHER}")),
    ("tag-shorter", "has a shorter delivery-tag", WRONG, (None, TAG[:2], Uint(0), None, False),
     detached("amqp:invalid-field", f"delivery-tag {OTHER}")),
    ("first-repeated", "repeats all that the first said", "accepted", (Uint(0), TAG, Uint(0), False, False), accepted),
    ("first-left-out", "says nothing of what the first said", "accepted", (None, None, None, None, False), accepted),
]:
    add_continuation(name, words, said, second, ours)


SETTLED_WORDS = "sender settle mode is '{}' but transfer settled flag is interpreted as being '{}'"
for name, mode, settled, is_right in [
    ("settles-unsettled", UNSETTLED, True, False), ("settles-settled", SETTLED, False, False),
    ("settles-unsaid", SETTLED, None, False), ("settles-mixed", MIXED, False, True),
    ("settles-mixed-settled", MIXED, True, True), ("settles-none", UNSETTLED, None, True),
    ("settles-all", SETTLED, True, True),
]:
    word = {UNSETTLED: "unsettled", SETTLED: "settled", MIXED: "mixed"}[mode]
    text = SETTLED_WORDS.format(word, "true" if settled else "false")

    def check_settled(mode=mode, settled=settled, is_right=is_right, text=text):
        def act(peer):
            transfer(peer, Uint(0), Uint(0), TAG, Uint(0), settled)

        right = taken if settled else accepted
        expected = right if is_right else detached("amqp:invalid-field", text)
        check_link(mode, act, expected, expected)

    suite.add(f"demand.{name}", f"a transfer with settled {settled} over a link with snd-settle-mode {word}",
              "taken" if is_right else f"link detached: `amqp:invalid-field` `{text}`", check_settled)


@suite.case("demand.settles-frames", "a message of two frames, not settled, over a link with snd-settle-mode settled",
            "link detached: `amqp:invalid-field`")
def _():
    def act(peer):
        transfer(peer, Uint(0), Uint(0), TAG, Uint(0), False, True)
        transfer(peer, Uint(0), None, None, None, None, False, payload=b"")

    expected = detached("amqp:invalid-field", SETTLED_WORDS.format("settled", "false"))
    check_link(SETTLED, act, expected, expected)


@suite.case("demand.second", "a transfer that asks for rcv-settle-mode second",
            "link detached: `amqp:not-implemented` `rcv-settle-mode second not supported`")
def _():
    def act(peer):
        transfer(peer, Uint(0), Uint(0), TAG, Uint(0), False, False, SECOND)

    expected = detached("amqp:not-implemented", "rcv-settle-mode second not supported")
    check_link(None, act, expected, expected)


@suite.case("demand.second-settled", "a settled transfer that asks for rcv-settle-mode second", "taken")
def _():
    def act(peer):
        transfer(peer, Uint(0), Uint(0), TAG, Uint(0), True, False, SECOND)

    check_link(None, act, taken, taken)


def add_open(name, words, condition, *fields, code=OPEN, channel=0):
    @suite.case(f"demand.open-{name}", words,
                f"closed without a word after 3 s (ours: open, then close `{condition}` at once)")
    def _():
        with Peer10(suite.uri) as peer:
            peer.sasl()
            peer.send(AMQP_HEADER)
            peer.read(8)
            peer.send(performative(code, *fields, channel=channel))
            if not is_ours(suite.uri):
                peer.rest(SILENT_SECONDS_MAX)
                return
            peer.expect10(OPEN)
            equal(peer.end_seen()[:2], (CLOSE, condition))
            peer.send(performative(CLOSE))
            peer.rest(1.0)


FRAMING = "amqp:connection:framing-error"
add_open("empty", "an open without fields", "amqp:decode-error")
add_open("no-container", "an open without container-id", "amqp:decode-error", None, "vhost:/")
add_open("container-number", "an open whose container-id is a number", "amqp:decode-error", Uint(5), "vhost:/")
add_open("channel", "an open on channel 1", FRAMING, "foreign", "vhost:/", channel=1)
add_open("frames-none", "max-frame-size 0", FRAMING, "foreign", "vhost:/", Uint(0))
add_open("frames-small", "max-frame-size 511", FRAMING, "foreign", "vhost:/", Uint(511))
add_open("begin", "a begin in place of the open", "amqp:illegal-state", None, Uint(0), Uint(1), Uint(1), code=BEGIN)


@suite.case("demand.open-absent-frames", "after a bad open everything that comes is passed over up to the close",
            "closed without a word after 3 s (ours: open, close; nothing is answered)")
def _():
    with Peer10(suite.uri) as peer:
        peer.sasl()
        peer.send(AMQP_HEADER)
        peer.read(8)
        begin = performative(BEGIN, None, Uint(0), Uint(1), Uint(1))
        peer.send(performative(OPEN, None, "vhost:/"), begin, begin, performative(CLOSE))
        if is_ours(suite.uri):
            peer.expect10(OPEN)
            peer.expect10(CLOSE)
        equal(peer.rest(SILENT_SECONDS_MAX), b"")


def dynamic(receiver, properties, capabilities=None):
    """The answer to a client that wants a node made: the condition of the detach, or None where it was attached."""
    with Peer10(suite.uri) as peer:
        peer.login10()
        peer.session()
        if receiver:
            ends = [Described(SOURCE, [None] * 4 + [True, properties] + [None] * 4 + [capabilities]), Described(TARGET, [])]
        else:
            ends = [Described(SOURCE, []), Described(TARGET, [None] * 4 + [True, properties, capabilities])]
        fields = ["made", Uint(0), receiver, None, None, *ends, None, None, None if receiver else Uint(0)]
        peer.send(raw_frame(put(Described(ATTACH, fields))))
        made = peer.expect10(ATTACH)[1][5 if receiver else 6]
        if made is not None:
            return None
        code, condition, _text = peer.end_seen()
        equal(code, DETACH)
        return condition


ON_CLOSE = Described(0x2B, [])
for name, words, receiver, properties, ours in [
    ("source-policy", "a dynamic source whose lifetime-policy is a number", True, {Symbol("lifetime-policy"): Uint(7)},
     "amqp:invalid-field"),
    ("source-modes", "a dynamic source whose supported-dist-modes are a number", True,
     {Symbol("supported-dist-modes"): Uint(0)}, "amqp:invalid-field"),
    ("target-policy", "a dynamic target whose lifetime-policy is an outcome", False,
     {Symbol("lifetime-policy"): Described(REJECTED, [])}, "amqp:invalid-field"),
    ("target-modes", "a dynamic target whose supported-dist-modes are a number", False,
     {Symbol("supported-dist-modes"): Uint(0)}, "amqp:invalid-field"),
    ("source-right", "a dynamic source with a lifetime-policy, without capabilities", True,
     {Symbol("lifetime-policy"): ON_CLOSE}, "amqp:not-implemented"),
]:
    said = "refused: `amqp:not-implemented`" + (f" (ours: `{ours}`)" if ours == "amqp:invalid-field" else "")
    suite.add(f"demand.node-{name}", words, said, lambda receiver=receiver, properties=properties, ours=ours: equal(
        dynamic(receiver, properties), ours if is_ours(suite.uri) else "amqp:not-implemented"))


@suite.case("demand.node-temporary", "a dynamic source with the capability temporary-queue whose lifetime-policy is a number",
            "attached")
def _():
    equal(dynamic(True, {Symbol("lifetime-policy"): Uint(7)}, symbols("temporary-queue")), None)


def addressed(to):
    properties = encode(Described(0x73, [None, None, to]))
    return properties + DATA


ABSENT = "/exchanges/foreign.absent/key"


def relay(outcomes, settled, check):
    with Peer10(suite.uri) as peer:
        peer.login10()
        peer.session()
        attach_sender(peer, None, outcomes=outcomes)
        transfer(peer, Uint(0), Uint(0), TAG, Uint(0), settled, payload=addressed(ABSENT))
        check(peer)


def rejected_by_tag(peer):
    code, rejected = outcome(peer)
    error = rejected.value[0].value
    equal((code, error[0], error[2][Symbol("delivery-tag")]), (REJECTED, "amqp:not-found", TAG))


def rejected_alone(peer):
    code, rejected = outcome(peer)
    equal((code, rejected.value[0].value[0], rejected.value[0].value[2]), (REJECTED, "amqp:not-found", None))


def detached_by_tag(peer):
    code, fields = answer(peer)
    error = fields[2].value
    equal((code, error[0], error[2][Symbol("delivery-tag")]), (DETACH, "amqp:not-found", TAG))


for name, outcomes, settled, ours in [
    ("both", NAMES_BOTH, False, rejected_by_tag), ("unsaid", None, False, rejected_by_tag),
    ("accepted", NAMES_ACCEPTED, False, detached_by_tag), ("settled", NAMES_BOTH, True, detached_by_tag),
]:
    names = {"both": "accepted and rejected", "unsaid": "none", "accepted": "accepted", "settled": "accepted and rejected"}
    theirs = detached_by_tag if settled else rejected_alone
    words = {rejected_alone: "rejected: `amqp:not-found`",
             rejected_by_tag: "the same with the delivery-tag",
             detached_by_tag: "link detached: `amqp:not-found`, with the delivery-tag"}
    said = words[theirs] + ("" if theirs is ours else f" (ours: {words[ours]})")
    suite.add(f"demand.relay-{name}",
              f"a {'settled ' if settled else ''}message to an unknown exchange over the anonymous terminus, the source's "
              f"outcomes being {names[name]}", said,
              lambda outcomes=outcomes, settled=settled, theirs=theirs, ours=ours: relay(
                  outcomes, settled, ours if is_ours(suite.uri) else theirs))


class Work:
    """A peer with a coordinator, whose source names these outcomes, and a transaction."""

    def __init__(self, outcomes):
        self.outcomes = outcomes
        self.peer = Peer10(suite.uri)

    def __enter__(self):
        self.peer.__enter__()
        if not is_ours(suite.uri):
            self.peer.__exit__()
            raise Skip("no coordinator")
        self.peer.login10()
        self.peer.session()
        target = Described(COORDINATOR, [])
        self.source = attach_sender(self.peer, None, outcomes=self.outcomes, target=target)[5]
        self.ask(0, Described(DECLARE, []))
        declared = answer(self.peer)[1][4]
        self.id = declared.value[0]
        return self

    def __exit__(self, *error):
        self.peer.__exit__(*error)

    def ask(self, number, request):
        body = encode(Described(0x77, request))
        transfer(self.peer, Uint(0), Uint(number), bytes([number]), Uint(0), False, payload=body)

    def discharge(self, number, transaction=None):
        self.ask(number, Described(DISCHARGE, [transaction or self.id, False]))

    def post(self, number, outcomes, settled, to=ABSENT):
        attach_sender(self.peer, None, handle=1, outcomes=outcomes)
        state = Described(TRANSACTIONAL, [self.id])
        transfer(self.peer, Uint(1), Uint(number), TAG, Uint(0), settled, False, None, state, payload=addressed(to))


def rejected_with(condition):
    def check(peer):
        code, rejected = outcome(peer)
        equal((code, rejected.value[0].value[0]), (REJECTED, condition))
    return check


UNKNOWN, ROLLED_BACK = "amqp:transaction:unknown-id", "amqp:transaction:rollback"


def add_work(name, words, said, outcomes, act):
    def work():
        with Work(outcomes) as own:
            act(own)

    suite.add(f"demand.work-{name}", words, said, work)


def unknown(check):
    def act(work):
        work.discharge(1, b"absent")
        check(work.peer)
    return act


add_work("unknown", "the discharge of an unknown transaction", f"rejected: `{UNKNOWN}`", None,
         unknown(rejected_with(UNKNOWN)))
add_work("unknown-detached", "the same, the coordinator's source taking accepted alone", f"link detached: `{UNKNOWN}`",
         NAMES_ACCEPTED, unknown(detached(UNKNOWN)))


def posted(outcomes, settled, told, discharged):
    def act(work):
        work.post(1, outcomes, settled)
        if told:
            told(work.peer)
        work.discharge(2)
        discharged(work.peer)
    return act


def told_rejected(peer):
    code, state = outcome(peer)
    rejected = state.value[1]
    error = rejected.value[0].value
    equal((code, rejected.code, error[0], error[2][Symbol("delivery-tag")]),
          (TRANSACTIONAL, REJECTED, "amqp:not-found", TAG))


add_work("posted", "a message to an unknown exchange in a transaction, then its discharge",
         "rejected: `amqp:not-found`, with the delivery-tag; the discharge is accepted", None,
         posted(NAMES_BOTH, False, told_rejected, accepted))
add_work("posted-detached", "the same, the sender's source taking accepted alone",
         f"link detached: `amqp:not-found`; the discharge is rejected: `{ROLLED_BACK}`", None,
         posted(NAMES_ACCEPTED, False, detached_by_tag, rejected_with(ROLLED_BACK)))
add_work("posted-settled", "the same, the message being settled", f"the discharge is rejected: `{ROLLED_BACK}`", None,
         posted(NAMES_BOTH, True, None, rejected_with(ROLLED_BACK)))
add_work("posted-settled-detached", "the same, the coordinator's source taking accepted alone",
         f"the coordinator's link is detached: `{ROLLED_BACK}`", NAMES_ACCEPTED,
         posted(NAMES_BOTH, True, None, detached(ROLLED_BACK)))


@suite.case("demand.work-outcomes", "the outcomes that a coordinator's source is answered with",
            "those it names; else accepted, rejected and declared")
def _():
    for outcomes, expected in [(None, 3), (NAMES_BOTH, 2)]:
        with Work(outcomes) as work:
            equal(len(work.source.value[9]), expected)
