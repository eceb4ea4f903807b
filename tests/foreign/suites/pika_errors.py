"""Every refusal as a row: what is asked, what closes, and with which code, text and ids.

The texts are RabbitMQ's, letter for letter: scripts and test suites match on them.
`{queue}` and `{exchange}` exist, `{locked}` is exclusive to another connection,
`{absent}` exists nowhere.
"""

import pika
from pika import spec

from lab.cases import equal
from suites.pika_bench import CLOSED, CloseWatch, Desk, fresh, suite

LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '{vhost}'. "
    "It could be originally declared on another connection or the exclusive property value does not "
    "match that of the original declaration."
)
IN_USE = "ACCESS_REFUSED - queue '{queue}' in vhost '{vhost}' in exclusive use"
NO_QUEUE = "NOT_FOUND - no queue '{absent}' in vhost '{vhost}'"
NO_EXCHANGE = "NOT_FOUND - no exchange '{absent}' in vhost '{vhost}'"
DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"
UNEQUAL_QUEUE = "PRECONDITION_FAILED - inequivalent arg '%s' for queue '{queue}' in vhost '{vhost}': "
UNEQUAL_EXCHANGE = "PRECONDITION_FAILED - inequivalent arg '%s' for exchange '{exchange}' in vhost '{vhost}': "
REPLY_TO = "amq.rabbitmq.reply-to"
LARGE = 16 * 1024 * 1024 + 1


class Stage:
    """The things that an error row acts upon: one desk, its channel, and names."""

    def __init__(self, desk):
        self.desk = desk
        self.channel = desk.channel
        self.queue = desk.queue()
        self.exchange = desk.exchange("direct")
        self.absent = fresh("absent")
        self.named = {}
        self._other = None
        self._locked = None

    @property
    def locked(self):
        if self._locked is None:
            self._locked = fresh("locked")
            self._other = Desk()
            self._other.channel.queue_declare(self._locked, exclusive=True)
        return self._locked

    def names(self):
        return {
            "queue": self.queue,
            "exchange": self.exchange,
            "absent": self.absent,
            "locked": self._locked,
            "vhost": suite.uri.vhost,
            **self.named,
        }

    def leave(self):
        if self._other is not None:
            self._other.connection.close()

    def declare(self, name=None, durable=True, arguments=None, **options):
        self.channel.queue_declare(name or self.queue, durable=durable, arguments=arguments, **options)

    def declare_exchange(self, name=None, kind="direct", durable=True, **options):
        self.channel.exchange_declare(name or self.exchange, kind, durable=durable, **options)

    def consume(self, queue=None, channel=None, **options):
        (channel or self.channel).basic_consume(self.queue if queue is None else queue, lambda *_: None, **options)

    def publish(self, exchange="", key=None, body=b"x", channel=None, **properties):
        key = self.queue if key is None else key
        (channel or self.channel).basic_publish(exchange, key, body, pika.BasicProperties(**properties))

    def settle(self):
        """A round trip, so that an error of an asynchronous method has arrived."""
        self.channel.queue_declare(self.queue, passive=True)

    def send(self, method):
        """A method that the client library would refuse to send."""
        content = (pika.BasicProperties(), b"x") if isinstance(method, spec.Basic.Publish) else None
        self.channel._impl._send_method(method, content)
        self.settle()


def then(*steps):
    """Steps in a row as one action."""

    def act(stage):
        for step in steps:
            step(stage)
        stage.settle()

    return act


def ack_twice(stage):
    stage.desk.fill(stage.queue, [b"x"])
    method, _properties, _body = stage.desk.get(stage.queue)
    stage.channel.basic_ack(method.delivery_tag)
    stage.channel.basic_ack(method.delivery_tag)
    stage.settle()


def ack_on_other_channel(stage):
    stage.desk.fill(stage.queue, [b"x", b"y"])
    other = stage.desk.connection.channel()
    stage.desk.channel = other
    stage.desk.get(stage.queue)
    method, _properties, _body = stage.desk.get(stage.queue)
    stage.channel.basic_ack(method.delivery_tag)
    stage.settle()


def delete_filled(stage):
    stage.desk.fill(stage.queue, [b"x"])
    stage.channel.queue_delete(stage.queue, if_empty=True)


def publish_internal(stage):
    stage.exchange = stage.desk.exchange("direct", internal=True)
    stage.publish(stage.exchange, "k")
    stage.settle()


def second_consumer(first_exclusive, second_exclusive):
    def act(stage):
        stage.consume(exclusive=first_exclusive)
        stage.consume(exclusive=second_exclusive)

    return act


def same_tag(stage):
    stage.consume(consumer_tag="same")
    stage.send(spec.Basic.Consume(queue=stage.queue, consumer_tag="same"))


def other_queue_type(stage, **options):
    arguments = {"x-queue-type": "quorum"}
    stage.absent = fresh("absent")
    stage.declare(stage.absent, arguments=arguments, **options)


# name, what is asked, action, code, text, (class id, method id)
CHANNEL_ROWS = [
    ("passive-unknown-queue", "queue.declare passive of an unknown queue",
     lambda s: s.declare(s.absent, passive=True), 404, NO_QUEUE, (50, 10)),
    ("passive-unknown-exchange", "exchange.declare passive of an unknown exchange",
     lambda s: s.declare_exchange(s.absent, passive=True), 404, NO_EXCHANGE, (40, 10)),
    ("redeclare-durable", "redeclaring a durable queue as transient",
     lambda s: s.declare(durable=False), 406,
     UNEQUAL_QUEUE % "durable" + "received 'false' but current is 'true'", (50, 10)),
    ("redeclare-auto-delete", "redeclaring a queue with auto-delete",
     lambda s: s.declare(auto_delete=True), 406,
     UNEQUAL_QUEUE % "auto_delete" + "received 'true' but current is 'false'", (50, 10)),
    ("redeclare-exclusive", "redeclaring a shared queue as exclusive",
     lambda s: s.declare(exclusive=True), 405, LOCKED, (50, 10)),
    ("redeclare-argument", "redeclaring a queue with another argument",
     lambda s: s.declare(arguments={"x-max-length": 5}), 406,
     UNEQUAL_QUEUE % "x-max-length" + "received the value '5' of type 'signedint' but current is none", (50, 10)),
    ("redeclare-queue-type", "redeclaring a classic queue as quorum",
     lambda s: s.declare(arguments={"x-queue-type": "quorum"}), 406,
     UNEQUAL_QUEUE % "x-queue-type" + "received 'quorum' but current is 'classic'", (50, 10)),
    ("bad-queue-type", "x-queue-type with an unknown type",
     lambda s: s.declare(s.absent, arguments={"x-queue-type": "bad"}), 406,
     "PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue '{absent}' in vhost '{vhost}': "
     "\"unsupported queue type 'bad'\"", (50, 10)),
    ("negative-argument", "x-message-ttl below zero",
     lambda s: s.declare(s.absent, arguments={"x-message-ttl": -5}), 406,
     "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue '{absent}' in vhost '{vhost}': "
     "{{value_negative,-5}}", (50, 10)),
    ("mistyped-argument", "x-message-ttl as text",
     lambda s: s.declare(s.absent, arguments={"x-message-ttl": "a"}), 406,
     "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue '{absent}' in vhost '{vhost}': "
     "\"expected integer, got longstr\"", (50, 10)),
    ("quorum-transient", "a quorum queue that is not durable",
     lambda s: other_queue_type(s, durable=False), 406,
     "PRECONDITION_FAILED - invalid property 'non-durable' for queue '{absent}' in vhost '{vhost}'", (50, 10)),
    ("quorum-exclusive", "an exclusive quorum queue",
     lambda s: other_queue_type(s, exclusive=True), 406,
     "PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue '{absent}' in vhost '{vhost}'", (50, 10)),
    ("quorum-auto-delete", "an auto-delete quorum queue",
     lambda s: other_queue_type(s, auto_delete=True), 406,
     "PRECONDITION_FAILED - invalid property 'auto-delete' for queue '{absent}' in vhost '{vhost}'", (50, 10)),
    ("reserved-queue", "declaring a queue whose name begins amq.",
     lambda s: s.declare("amq.foreign"), 403,
     "ACCESS_REFUSED - queue name 'amq.foreign' contains reserved prefix 'amq.*'", (50, 10)),
    ("reserved-exchange", "declaring an exchange whose name begins amq.",
     lambda s: s.declare_exchange("amq.foreign"), 403,
     "ACCESS_REFUSED - exchange name 'amq.foreign' contains reserved prefix 'amq.*'", (40, 10)),
    ("redeclare-predeclared", "redeclaring amq.direct with another type",
     lambda s: s.declare_exchange("amq.direct", "fanout"), 406,
     "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in vhost '{vhost}': "
     "received 'fanout' but current is 'direct'", (40, 10)),
    ("redeclare-exchange-type", "redeclaring an exchange with another type",
     lambda s: s.declare_exchange(kind="fanout"), 406,
     UNEQUAL_EXCHANGE % "type" + "received 'fanout' but current is 'direct'", (40, 10)),
    ("redeclare-exchange-durable", "redeclaring a durable exchange as transient",
     lambda s: s.declare_exchange(durable=False), 406,
     UNEQUAL_EXCHANGE % "durable" + "received 'false' but current is 'true'", (40, 10)),
    ("redeclare-exchange-auto-delete", "redeclaring an exchange with auto-delete",
     lambda s: s.declare_exchange(auto_delete=True), 406,
     UNEQUAL_EXCHANGE % "auto_delete" + "received 'true' but current is 'false'", (40, 10)),
    ("redeclare-exchange-internal", "redeclaring an exchange as internal",
     lambda s: s.declare_exchange(internal=True), 406,
     UNEQUAL_EXCHANGE % "internal" + "received 'true' but current is 'false'", (40, 10)),
    ("redeclare-exchange-argument", "redeclaring an exchange with an alternate exchange",
     lambda s: s.declare_exchange(arguments={"alternate-exchange": "a"}), 406,
     UNEQUAL_EXCHANGE % "alternate-exchange"
     + "received the value 'a' of type 'longstr' but current is none", (40, 10)),
    ("unknown-exchange-type", "declaring an exchange of an unknown type",
     lambda s: s.declare_exchange(s.absent, "no-such-type"), 406,
     "PRECONDITION_FAILED - unknown exchange type 'no-such-type'", (40, 10)),
    ("default-exchange-passive", "passive declare of the default exchange",
     lambda s: s.channel.exchange_declare("", passive=True), 403, DEFAULT, (40, 10)),
    ("default-exchange-delete", "deleting the default exchange",
     lambda s: s.channel.exchange_delete(""), 403, DEFAULT, (40, 20)),
    ("default-exchange-bind", "binding to the default exchange",
     lambda s: s.channel.queue_bind(s.queue, "", routing_key="a"), 403, DEFAULT, (50, 20)),
    ("default-exchange-unbind", "unbinding from the default exchange",
     lambda s: s.channel.queue_unbind(s.queue, "", routing_key=s.queue), 403, DEFAULT, (50, 50)),
    ("predeclared-delete", "deleting amq.direct",
     lambda s: s.channel.exchange_delete("amq.direct"), 403,
     "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '{vhost}' not allowed", (40, 20)),
    ("exchange-in-use", "exchange.delete if-unused of a bound exchange",
     lambda s: (s.channel.queue_bind(s.queue, s.exchange, "a"),
                s.channel.exchange_delete(s.exchange, if_unused=True)), 406,
     "PRECONDITION_FAILED - exchange '{exchange}' in vhost '{vhost}' in use", (40, 20)),
    ("bind-unknown-queue", "binding an unknown queue",
     lambda s: s.channel.queue_bind(s.absent, s.exchange, "a"), 404, NO_QUEUE, (50, 20)),
    ("bind-unknown-exchange", "binding to an unknown exchange",
     lambda s: s.channel.queue_bind(s.queue, s.absent, "a"), 404, NO_EXCHANGE, (50, 20)),
    ("exchange-bind-unknown-source", "exchange.bind from an unknown source",
     lambda s: s.channel.exchange_bind(s.exchange, s.absent, "a"), 404, NO_EXCHANGE, (40, 30)),
    ("exchange-bind-unknown-destination", "exchange.bind to an unknown destination",
     lambda s: s.channel.exchange_bind(s.absent, s.exchange, "a"), 404, NO_EXCHANGE, (40, 30)),
    ("topic-three-hashes", "a topic binding key with three #",
     lambda s: s.channel.queue_bind(s.queue, "amq.topic", "#.a.#.b.#"), 406,
     "PRECONDITION_FAILED - Topic binding key '#.a.#.b.#' uses 3 '#' wildcards, at most 2 are allowed", (50, 20)),
    ("headers-bad-match", "a headers binding with an unknown x-match",
     lambda s: s.channel.queue_bind(s.queue, "amq.headers", arguments={"x-match": "some"}), 406,
     "PRECONDITION_FAILED - Invalid x-match field value <<\"some\">>; expected all, any, all-with-x, "
     "or any-with-x", (50, 20)),
    ("headers-mistyped-match", "a headers binding whose x-match is a number",
     lambda s: s.channel.queue_bind(s.queue, "amq.headers", arguments={"x-match": 1}), 406,
     "PRECONDITION_FAILED - Invalid x-match field type signedint (value 1); expected longstr", (50, 20)),
    ("purge-unknown", "purging an unknown queue",
     lambda s: s.channel.queue_purge(s.absent), 404, NO_QUEUE, (50, 30)),
    ("delete-in-use", "queue.delete if-unused with a consumer",
     lambda s: (s.consume(), s.channel.queue_delete(s.queue, if_unused=True)), 406,
     "PRECONDITION_FAILED - queue '{queue}' in vhost '{vhost}' in use", (50, 40)),
    ("delete-not-empty", "queue.delete if-empty with a message",
     delete_filled, 406, "PRECONDITION_FAILED - queue '{queue}' in vhost '{vhost}' not empty", (50, 40)),
    ("consume-unknown", "consuming from an unknown queue",
     lambda s: s.consume(s.absent), 404, NO_QUEUE, (60, 20)),
    ("get-unknown", "basic.get from an unknown queue",
     lambda s: s.channel.basic_get(s.absent), 404, NO_QUEUE, (60, 70)),
    ("no-last-queue-bind", "queue.bind with an empty queue name before any declare",
     lambda s: s.desk.connection.channel().queue_bind("", "amq.direct", "a"), 404,
     "NOT_FOUND - no previously declared queue", (50, 20)),
    ("publish-unknown-exchange", "publishing to an unknown exchange",
     then(lambda s: s.publish(s.absent, "k")), 404, NO_EXCHANGE, (60, 40)),
    ("publish-internal", "publishing to an internal exchange",
     publish_internal, 403,
     "ACCESS_REFUSED - cannot publish to internal exchange '{exchange}' in vhost '{vhost}'", (60, 40)),
    ("ack-unknown", "basic.ack of an unknown delivery tag",
     then(lambda s: s.channel.basic_ack(77)), 406, "PRECONDITION_FAILED - unknown delivery tag 77", (60, 80)),
    ("ack-unknown-multiple", "basic.ack multiple up to an unknown delivery tag",
     then(lambda s: s.channel.basic_ack(77, multiple=True)), 406,
     "PRECONDITION_FAILED - unknown delivery tag 77", (60, 80)),
    ("ack-zero", "basic.ack of tag 0 without multiple",
     then(lambda s: s.channel.basic_ack(0)), 406, "PRECONDITION_FAILED - unknown delivery tag 0", (60, 80)),
    ("nack-unknown", "basic.nack of an unknown delivery tag",
     then(lambda s: s.channel.basic_nack(77)), 406, "PRECONDITION_FAILED - unknown delivery tag 77", (60, 120)),
    ("reject-unknown", "basic.reject of an unknown delivery tag",
     then(lambda s: s.channel.basic_reject(77)), 406, "PRECONDITION_FAILED - unknown delivery tag 77", (60, 90)),
    ("ack-twice", "acknowledging a delivery twice",
     ack_twice, 406, "PRECONDITION_FAILED - unknown delivery tag 1", (60, 80)),
    ("ack-on-other-channel", "acknowledging a delivery on another channel",
     ack_on_other_channel, 406, "PRECONDITION_FAILED - unknown delivery tag 2", (60, 80)),
    ("bad-expiration", "an expiration that is no number",
     then(lambda s: s.publish(expiration="abc")), 406,
     "PRECONDITION_FAILED - invalid expiration 'abc': no_integer", (60, 40)),
    ("negative-expiration", "an expiration below zero",
     then(lambda s: s.publish(expiration="-1")), 406,
     "PRECONDITION_FAILED - invalid expiration '-1': {{value_negative,-1}}", (60, 40)),
    ("large-message", "a body over max_message_size (16 MiB)",
     then(lambda s: s.publish(body=bytes(LARGE))), 406,
     f"PRECONDITION_FAILED - message size {LARGE} is larger than configured max size {LARGE - 1}", (60, 40)),
    ("exclusive-then-shared", "a second consumer beside an exclusive one",
     second_consumer(True, False), 403, IN_USE, (60, 20)),
    ("shared-then-exclusive", "an exclusive consumer beside another",
     second_consumer(False, True), 403, IN_USE, (60, 20)),
    ("mistyped-priority", "x-priority as text",
     lambda s: s.consume(arguments={"x-priority": "s"}), 406,
     "PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{queue}' in vhost '{vhost}': "
     "\"expected integer, got longstr\"", (60, 20)),
] + [
    (f"locked-{name}", f"{what} on a queue exclusive to another connection", action, 405,
     LOCKED.replace("{queue}", "{locked}"), ids)
    for name, what, action, ids in [
        ("declare", "queue.declare", lambda s: s.declare(s.locked, durable=False, exclusive=True), (50, 10)),
        ("passive", "passive queue.declare", lambda s: s.declare(s.locked, passive=True), (50, 10)),
        ("bind", "queue.bind", lambda s: s.channel.queue_bind(s.locked, "amq.direct", "a"), (50, 20)),
        ("purge", "queue.purge", lambda s: s.channel.queue_purge(s.locked), (50, 30)),
        ("delete", "queue.delete", lambda s: s.channel.queue_delete(s.locked), (50, 40)),
        ("consume", "basic.consume", lambda s: s.consume(s.locked), (60, 20)),
        ("get", "basic.get", lambda s: s.channel.basic_get(s.locked), (60, 70)),
    ]
]

CONNECTION_ROWS = [
    ("immediate", "basic.publish with immediate",
     lambda s: s.send(spec.Basic.Publish(exchange="", routing_key=s.queue, immediate=True)),
     540, "NOT_IMPLEMENTED - immediate=true", (60, 40)),
    ("prefetch-size", "basic.qos with a prefetch size",
     lambda s: s.channel.basic_qos(prefetch_size=10, prefetch_count=1),
     540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)", (60, 10)),
    ("flow-off", "channel.flow active=false from the client",
     lambda s: s.channel.flow(False), 540, "NOT_IMPLEMENTED - active=false", (20, 20)),
    ("same-consumer-tag", "basic.consume with a tag in use on the channel",
     same_tag, 530, "NOT_ALLOWED - attempt to reuse consumer tag 'same'", (60, 20)),
]



def reply_name(stage):
    """The name of a reply consumer on a channel of its own."""
    channel = stage.desk.connection.channel()
    channel.basic_consume(REPLY_TO, lambda *_: None, auto_ack=True)
    channel.basic_publish("", stage.queue, b"", pika.BasicProperties(reply_to=REPLY_TO))
    stage.named["name"] = stage.desk.get(stage.queue, auto_ack=True)[1].reply_to
    return stage.named["name"]


REPLY_ROWS = [
    ("reply-acknowledged", "consuming amq.rabbitmq.reply-to without no-ack",
     lambda s: s.consume(REPLY_TO), 406, "PRECONDITION_FAILED - reply consumer cannot acknowledge", (60, 20)),
    ("reply-twice", "two reply consumers on one channel",
     lambda s: (s.consume(REPLY_TO, auto_ack=True), s.consume(REPLY_TO, auto_ack=True)), 406,
     "PRECONDITION_FAILED - reply consumer already set", (60, 20)),
    ("reply-unheard", "a request with reply-to amq.rabbitmq.reply-to and no reply consumer",
     then(lambda s: s.publish(reply_to=REPLY_TO)), 406,
     "PRECONDITION_FAILED - fast reply consumer does not exist", (60, 40)),
    ("reply-get", "basic.get from amq.rabbitmq.reply-to",
     lambda s: s.channel.basic_get(REPLY_TO), 404, f"NOT_FOUND - no queue '{REPLY_TO}' in vhost '{{vhost}}'", (60, 70)),
    ("reply-bind", "binding a direct reply-to name",
     lambda s: s.channel.queue_bind(reply_name(s), s.exchange, "k"), 403,
     "ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) queue", (50, 20)),
    ("reply-consume", "consuming from a direct reply-to name of another channel",
     lambda s: s.consume(reply_name(s), auto_ack=True), 406,
     "PRECONDITION_FAILED - only creator channel may consume from queue '{name}' in vhost '{vhost}'", (60, 20)),
]

HEADER_ROWS = [
    ("cc-text", "a CC header that is no array",
     then(lambda s: s.publish(headers={"CC": "k"})), 406,
     'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"CC",longstr}}', (60, 40)),
    ("bcc-number", "a BCC header that is no array",
     then(lambda s: s.publish(headers={"BCC": 5})), 406,
     'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"BCC",signedint}}', (60, 40)),
    ("empty-user-id", "an empty user-id",
     then(lambda s: s.publish(user_id="")), 406,
     "PRECONDITION_FAILED - user_id property set to '' but authenticated user was 'guest'", (60, 40)),
    ("wrong-twice", "a bad expiration and an unknown exchange at once",
     then(lambda s: s.publish(s.absent, "k", expiration="abc")), 404, NO_EXCHANGE, (60, 40)),
    ("alternate-type", "an alternate exchange whose name is a number",
     lambda s: s.declare_exchange(s.absent, arguments={"alternate-exchange": 5}), 406,
     "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange '{absent}' in vhost "
     "'{vhost}'", (40, 10)),
    ("exchange-bind-default-source", "exchange.bind from the default exchange",
     lambda s: s.channel.exchange_bind(s.exchange, "", "k"), 403, DEFAULT, (40, 30)),
    ("exchange-bind-default-destination", "exchange.bind to the default exchange",
     lambda s: s.channel.exchange_bind("", s.exchange, "k"), 403, DEFAULT, (40, 30)),
]

TRANSACTION_ROWS = [
    ("tx-unknown-exchange", "publishing to an unknown exchange in a transaction",
     lambda s: (s.channel.tx_select(), s.publish(s.absent, "k"), s.settle()), 404, NO_EXCHANGE, (60, 40)),
    ("tx-ack-twice", "acknowledging a delivery twice in a transaction",
     lambda s: (s.desk.fill(s.queue, [b"x"]), s.channel.tx_select(), s.desk.get(s.queue),
                s.channel.basic_ack(1), s.channel.basic_ack(1), s.settle()),
     406, "PRECONDITION_FAILED - unknown delivery tag 1", (60, 80)),
    ("rollback-without-tx", "tx.rollback on a plain channel",
     lambda s: s.channel.tx_rollback(), 406, "PRECONDITION_FAILED - channel is not transactional", (90, 30)),
    ("foreign-user-id", "a user-id that is not the connection's user",
     then(lambda s: s.publish(user_id="abc")), 406,
     "PRECONDITION_FAILED - user_id property set to 'abc' but authenticated user was 'guest'", (60, 40)),
    ("tx-then-confirm", "confirm.select on a transactional channel",
     lambda s: (s.channel.tx_select(), s.channel.confirm_delivery()), 406,
     "PRECONDITION_FAILED - cannot switch from tx to confirm mode", (85, 10)),
    ("confirm-then-tx", "tx.select on a confirming channel",
     lambda s: (s.channel.confirm_delivery(), s.channel.tx_select()), 406,
     "PRECONDITION_FAILED - cannot switch from confirm to tx mode", (90, 10)),
    ("commit-without-tx", "tx.commit on a plain channel",
     lambda s: s.channel.tx_commit(), 406, "PRECONDITION_FAILED - channel is not transactional", (90, 20)),
]


RECOVER_ROWS = [
    ("recover-keep", "basic.recover without requeue",
     lambda s: s.channel.basic_recover(False), 540, "NOT_IMPLEMENTED - requeue=false", (60, 110)),
]


def refuse(scope, action, code, text, ids):
    """Runs one row, then sees that nothing more than its scope was closed."""
    with Desk() as desk:
        stage = Stage(desk)
        watch = CloseWatch(desk.channel)
        bystander = desk.connection.channel()
        try:
            action(stage)
        except CLOSED as closed:
            expected = text.format(**stage.names())
            equal((closed.reply_code, closed.reply_text), (code, expected), "code and text")
        else:
            raise AssertionError("nothing was closed")
        equal((watch.scope, watch.ids), (scope, ids), "scope and method ids")
        equal(desk.connection.is_open, scope == "channel", "connection open")
        if scope == "channel":
            bystander.queue_declare(stage.queue, passive=True)
            bystander.close()
        stage.leave()


def register(rows, scope):
    for name, what, action, code, text, ids in rows:
        shown = text.replace("{{", "{").replace("}}", "}")
        answer = f"{scope} closed: {code} `{shown}` {ids}"
        suite.add(
            f"error.{name}", what, answer,
            lambda a=action, c=code, t=text, i=ids: refuse(scope, a, c, t, i),
        )


register(CHANNEL_ROWS, "channel")
register(CONNECTION_ROWS, "connection")
register(REPLY_ROWS, "channel")
register(HEADER_ROWS, "channel")
register(TRANSACTION_ROWS, "channel")
register(RECOVER_ROWS, "connection")
