"""Transactions through qpid-proton. RabbitMQ has none: what it answers to a coordinator is asked, the rest is ours.

A case that RabbitMQ cannot pass is skipped where no coordinator is to be had.
"""

from proton import Delivery, Described, Link, Message, Terminus, symbol, ulong
from proton.handlers import TransactionHandler
from proton.reactor import LinkOption, Transaction

from lab.cases import Skip, equal, eventually
from suites.pika_bench import fresh
from suites.proton_bench import Bench, LinkDetached, suite

TRANSACTIONAL = 0x34
ANSWER = "whole or not at all"


class Coordinator(LinkOption):
    def apply(self, link):
        link.target.type = Terminus.COORDINATOR
        link.target.address = None


class Heard(TransactionHandler):
    """The outcome of the transaction."""

    def __init__(self):
        super().__init__()
        self.what, self.condition = None, None

    def on_transaction_declared(self, event):
        self.what = "declared"

    def on_transaction_declare_failed(self, event):
        self.what = "declare failed"

    def on_transaction_committed(self, event):
        self.what = "committed"

    def on_transaction_commit_failed(self, event):
        self.what, self.condition = "refused", event.delivery.remote.condition

    def on_transaction_aborted(self, event):
        self.what = "aborted"


class Work:
    """A connection with a coordinator."""

    def __init__(self):
        self.bench = Bench()
        self.connection = self.bench.connection
        self.control = None

    def __enter__(self):
        try:
            self.control = self.connection.create_sender(None, name=fresh("coordinator"), options=Coordinator())
        except LinkDetached as refused:
            self.bench.__exit__()
            raise Skip(f"no coordinator: {refused.condition}") from refused
        return self

    def __exit__(self, *error):
        self.bench.__exit__(*error)

    def declare(self, settled=False):
        heard = Heard()
        transaction = Transaction(self.control.link, heard, settled)
        transaction.heard = heard
        self.settle_control(transaction, transaction._declare)
        equal(heard.what, "declared")
        return transaction

    def settle_control(self, transaction, delivery):
        """The client's reactor would call the transaction; a blocking connection does it by hand."""
        self.connection.wait(lambda: delivery.settled or delivery.remote_state, timeout=10)

        class Event:
            pass
        event = Event()
        event.delivery = delivery
        transaction.handle_outcome(event)
        delivery.settle()

    def discharge(self, transaction, fail=False):
        transaction.abort() if fail else transaction.commit()
        self.settle_control(transaction, transaction._discharge)
        return transaction.heard.what

    def send(self, transaction, queue, *messages):
        sender = self.bench.sender(queue)
        for message in messages:
            delivery = transaction.send(sender.link, message)
            self.connection.wait(lambda: delivery.settled, timeout=10)  # noqa: B023 - awaited at once
            equal((delivery.remote_state, bytes(delivery.remote.data[0])), (TRANSACTIONAL, bytes(transaction.id)))
        sender.close()

    def take(self, receiver, transaction, count):
        for _ in range(count):
            receiver.receive()
            transaction.accept(receiver.unsettled.popleft())
        self.settled()

    def settled(self):
        """Everything said so far has been read: a coordinator answers in order."""
        self.discharge(self.declare(), fail=True)

    def count(self, queue):
        return self.bench.desk.count(queue)


def durable(*bodies):
    return [Message(body=body, durable=True) for body in bodies]


@suite.case("transaction.coordinator", "a sender to a coordinator", "refused: `amqp:not-implemented` (ours: attached, local transactions)")
def _():
    with Bench() as bench:
        try:
            link = bench.connection.create_sender(None, name=fresh("coordinator"), options=Coordinator()).link
        except LinkDetached as refused:
            equal(refused.condition, "amqp:not-implemented")
            return
        equal(link.remote_target.type, Terminus.COORDINATOR)


@suite.case("transaction.commit", "messages to two queues in a transaction, committed", ANSWER)
def _():
    with Work() as work:
        first, second = work.bench.queue(), work.bench.queue()
        transaction = work.declare()
        work.send(transaction, first, *durable(1, 2))
        work.send(transaction, second, *durable(3))
        equal((work.count(first), work.count(second)), (0, 0))
        equal(work.discharge(transaction), "committed")
        equal((work.count(first), work.count(second)), (2, 1))


@suite.case("transaction.large", "a message of 1 MiB in a transaction", ANSWER)
def _():
    with Work() as work:
        queue = work.bench.queue()
        transaction = work.declare()
        work.send(transaction, queue, Message(body="x" * (1 << 20), durable=True))
        equal(work.count(queue), 0)
        equal(work.discharge(transaction), "committed")
        equal(len(work.bench.receiver(queue, 1).receive().body), 1 << 20)


@suite.case("transaction.abort", "messages in a transaction, rolled back", ANSWER)
def _():
    with Work() as work:
        queue = work.bench.queue()
        transaction = work.declare()
        work.send(transaction, queue, *durable(1, 2))
        equal(work.discharge(transaction, fail=True), "aborted")
        equal(work.count(queue), 0)


@suite.case("transaction.two", "two transactions at once over one link", "each by itself")
def _():
    with Work() as work:
        queue = work.bench.queue()
        first, second = work.declare(), work.declare()
        sender = work.bench.sender(queue)
        for number in range(4):
            delivery = (second if number % 2 else first).send(sender.link, durable(number)[0])
            work.connection.wait(lambda: delivery.settled, timeout=10)  # noqa: B023 - awaited at once
        equal(work.discharge(second), "committed")
        equal(work.discharge(first, fail=True), "aborted")
        got = work.bench.receiver(queue, 5)
        equal([got.receive().body for _ in range(2)], [1, 3])


def add_accept(settled):
    name = "settled" if settled else "unsettled"

    @suite.case(f"transaction.accept-{name}", f"deliveries accepted in a transaction, {name}, committed", ANSWER)
    def _():
        with Work() as work:
            queue = work.bench.queue()
            work.bench.send(queue, 1, 2, 3)
            receiver = work.bench.receiver(queue, 3)
            transaction = work.declare(settled)
            work.take(receiver, transaction, 2)
            equal(work.discharge(transaction), "committed")
            receiver.receive()
            work.connection.close()
            eventually(lambda: work.count(queue) == 1, "the third is back, the others are gone")

    @suite.case(f"transaction.accept-{name}-abort", f"deliveries accepted in a transaction, {name}, rolled back",
                "back in the queue as failed deliveries")
    def _():
        with Work() as work:
            queue = work.bench.queue()
            work.bench.send(queue, 1, 2)
            receiver = work.bench.receiver(queue, 2)
            transaction = work.declare(settled)
            work.take(receiver, transaction, 2)
            equal(work.count(queue), 0)
            equal(work.discharge(transaction, fail=True), "aborted")
            eventually(lambda: work.count(queue) == 2, "back")
            again = work.bench.receiver(queue, 2).receive()
            equal((again.body, again.first_acquirer, again.delivery_count), (1, False, 1))


add_accept(True)
add_accept(False)


@suite.case("transaction.move", "a message moved from one queue to another in a transaction", ANSWER)
def _():
    with Work() as work:
        source, target = work.bench.queue(), work.bench.queue()
        work.bench.send(source, "x")
        receiver = work.bench.receiver(source, 1)
        transaction = work.declare(settled=True)
        work.take(receiver, transaction, 1)
        work.send(transaction, target, *durable("x"))
        equal(work.discharge(transaction), "committed")
        work.connection.close()
        eventually(lambda: (work.count(source), work.count(target)) == (0, 1), "moved")


@suite.case("transaction.unknown", "a discharge of a transaction that is over", "rejected: `amqp:transaction:unknown-id`")
def _():
    with Work() as work:
        transaction = work.declare()
        equal(work.discharge(transaction), "committed")
        equal(work.discharge(transaction), "refused")
        equal(transaction.heard.condition.name, "amqp:transaction:unknown-id")


@suite.case("transaction.unknown-post", "a message in a transaction that is over", "link detached: `amqp:transaction:unknown-id`")
def _():
    with Work() as work:
        queue = work.bench.queue()
        transaction = work.declare()
        equal(work.discharge(transaction), "committed")
        sender = work.bench.sender(queue)
        transaction.send(sender.link, durable("x")[0])
        try:
            work.connection.wait(lambda: False, timeout=10)
        except LinkDetached as detached:
            equal(detached.condition, "amqp:transaction:unknown-id")
        equal(work.count(queue), 0)


@suite.case("transaction.unroutable", "a transaction with a message that no queue takes",
            "refused: `amqp:transaction:rollback`; nothing of it is done")
def _():
    with Work() as work:
        queue = work.bench.queue()
        transaction = work.declare()
        work.send(transaction, queue, *durable(1))
        sender = work.bench.sender(address=f"/exchanges/amq.direct/{fresh('none')}")
        delivery = transaction.send(sender.link, durable(2)[0])
        work.connection.wait(lambda: delivery.settled, timeout=10)
        equal(work.discharge(transaction), "refused")
        equal((transaction.heard.condition.name, work.count(queue)), ("amqp:transaction:rollback", 0))


@suite.case("transaction.link-gone", "a link is closed whose delivery was accepted in the transaction",
            "refused: `amqp:transaction:rollback`; the message is back")
def _():
    with Work() as work:
        queue = work.bench.queue()
        work.bench.send(queue, 1)
        receiver = work.bench.receiver(queue, 1)
        transaction = work.declare(settled=True)
        work.take(receiver, transaction, 1)
        receiver.close()
        equal(work.discharge(transaction), "refused")
        equal(transaction.heard.condition.name, "amqp:transaction:rollback")
        eventually(lambda: work.count(queue) == 1, "back")


@suite.case("transaction.coordinator-gone", "the coordinator's link is closed before the discharge", "rolled back")
def _():
    with Work() as work:
        target, source = work.bench.queue(), work.bench.queue()
        work.bench.send(source, 1)
        receiver = work.bench.receiver(source, 1)
        transaction = work.declare(settled=True)
        work.send(transaction, target, *durable("x"))
        work.take(receiver, transaction, 1)
        work.control.close()
        eventually(lambda: (work.count(source), work.count(target)) == (1, 0), "undone")


@suite.case("transaction.beside", "messages outside of the transaction while one is under way", "at once")
def _():
    with Work() as work:
        queue = work.bench.queue()
        transaction = work.declare()
        work.send(transaction, queue, *durable(1))
        work.bench.send(queue, 2)
        equal(work.count(queue), 1)
        equal(work.discharge(transaction), "committed")
        got = work.bench.receiver(queue, 2)
        equal([got.receive().body for _ in range(2)], [2, 1])


@suite.case("transaction.many", "200 transactions of two messages, one after the other", "all committed, in order")
def _():
    with Work() as work:
        queue = work.bench.queue()
        sender = work.bench.sender(queue)
        for number in range(200):
            transaction = work.declare()
            deliveries = [transaction.send(sender.link, message) for message in durable(2 * number, 2 * number + 1)]
            work.connection.wait(lambda: all(it.settled for it in deliveries), timeout=10)  # noqa: B023
            equal(work.discharge(transaction), "committed")
        receiver = work.bench.receiver(queue, 400)
        equal([receiver.receive().body for _ in range(400)], list(range(400)))


@suite.case("transaction.settled-modes", "a transaction beside a link that sends settled", "committed")
def _():
    with Work() as work:
        queue = work.bench.queue()

        class Settled(LinkOption):
            def apply(self, link):
                link.snd_settle_mode = Link.SND_SETTLED
        sender = work.bench.sender(queue, options=Settled())
        transaction = work.declare()
        delivery = sender.link.send(durable("x")[0])
        delivery.settle()
        equal(work.discharge(transaction), "committed")
        eventually(lambda: work.count(queue) == 1, "stored")


def modified(work, fail):
    """The message as a receiver gets it, after it was modified with annotations in a transaction that is over."""
    queue = work.bench.queue(durable=True, exclusive=False, arguments={"x-queue-type": "quorum"})
    work.bench.send(queue, 1)
    receiver = work.bench.receiver(queue, 1)
    receiver.receive()
    transaction = work.declare()
    delivery = receiver.unsettled.popleft()
    outcome = Described(ulong(Delivery.MODIFIED), [True, False, {symbol("x-why"): "again"}])
    delivery.local.data = [transaction.id, outcome]
    delivery.update(TRANSACTIONAL)
    delivery.settle()
    work.settled()
    equal(work.count(queue), 0)
    equal(work.discharge(transaction, fail=fail), "aborted" if fail else "committed")
    again = work.bench.receiver(queue, 1).receive()
    return again.body, again.delivery_count, (again.annotations or {}).get("x-why")


@suite.case("transaction.modified", "a delivery of a quorum queue modified in a transaction, with annotations",
            "committed: it comes again with them; rolled back: without, as a failed delivery")
def _():
    with Work() as work:
        equal(modified(work, fail=False), (1, 1, "again"))
        equal(modified(work, fail=True), (1, 1, None))
