"""RabbitMQ's Python client for AMQP 1.0: it declares over the management node."""

import itertools
import os

from rabbitmq_amqp_python_client import (
    AddressHelper,
    AMQPMessagingHandler,
    ClassicQueueSpecification,
    Converter,
    Environment,
    ExchangeSpecification,
    ExchangeToQueueBindingSpecification,
    ExchangeType,
    Message,
    OutcomeState,
    QueueType,
    QuorumQueueSpecification,
    ValidationCodeException,
)
from rabbitmq_amqp_python_client.qpid.proton._utils import SendException

from lab.cases import Suite, equal

suite = Suite("rabbitmq-amqp-python")
_numbers = itertools.count(1)


def fresh(word):
    return f"foreign.python10.{word}.{os.getpid():x}.{next(_numbers)}"


class Enough(Exception):
    """Ends a consumer's loop: the handler has what it wants."""


class Taker(AMQPMessagingHandler):
    """Settles each message by `judge`, until it has seen `count` of them."""

    def __init__(self, count, judge):
        super().__init__()
        self.count = count
        self.judge = judge
        self.bodies = []

    def on_amqp_message(self, event):
        body = Converter.bytes_to_string(event.message.body)
        self.bodies.append(body)
        self.judge(self.delivery_context, event, body)
        if len(self.bodies) == self.count:
            raise Enough


def take(connection, queue, count, judge=lambda context, event, _body: context.accept(event)):
    """The bodies of so many deliveries."""
    taker = Taker(count, judge)
    consumer = connection.consumer(AddressHelper.queue_address(queue), message_handler=taker)
    try:
        consumer.run()
    except Enough:
        pass
    consumer.close()
    return taker.bodies


def case(name, behaviour, answer, specification=QuorumQueueSpecification):
    """Registers a function that gets a connection, its management and a queue that is deleted at the end."""

    def register(act):
        def run():
            with Environment(uri=suite.uri.text) as environment:
                connection = environment.connection()
                connection.dial()
                management = connection.management()
                queue = fresh("queue")
                management.declare_queue(specification(name=queue))
                try:
                    act(connection, management, queue)
                finally:
                    management.delete_queue(queue)

        suite.add(name, behaviour, answer, run)
        return act

    return register


def fill(connection, queue, *bodies):
    publisher = connection.publisher(AddressHelper.queue_address(queue))
    for body in bodies:
        status = publisher.publish(Message(body=Converter.string_to_bytes(body)))
        equal(status.remote_state, OutcomeState.ACCEPTED, "outcome")
    publisher.close()


def released(publisher):
    try:
        publisher.publish(Message(body=b"lost"))
    except SendException as error:
        equal(error.state, OutcomeState.RELEASED, "outcome")
    else:
        raise AssertionError("taken by a queue")


@case("publish.quorum", "100 messages to a quorum queue, counted and purged", "each accepted")
def _(connection, management, queue):
    fill(connection, queue, *map(str, range(100)))
    info = management.queue_info(queue)
    equal((info.name, info.queue_type, info.is_durable, info.message_count), (queue, QueueType.quorum, True, 100), "info")
    equal(management.purge_queue(queue), 100, "purged")


@case("publish.classic", "a message to a classic queue, and one that no queue takes", "accepted; released", ClassicQueueSpecification)
def _(connection, management, queue):
    fill(connection, queue, "x")
    equal(management.queue_info(queue).queue_type, QueueType.classic, "type")
    publisher = connection.publisher(AddressHelper.exchange_address("amq.direct", fresh("key")))
    released(publisher)
    publisher.close()


@case("consume.outcomes", "accept, discard and requeue", "what was requeued comes again")
def _(connection, management, queue):
    fill(connection, queue, "1", "2", "3")
    seen = []

    def judge(context, event, body):
        if body == "2":
            context.discard(event)
        elif body == "3" and body not in seen:
            context.requeue(event)
        else:
            context.accept(event)
        seen.append(body)

    equal(take(connection, queue, 4, judge), ["1", "2", "3", "3"], "bodies")
    equal(management.queue_info(queue).message_count, 0, "messages left")


@case("management.topology", "an exchange declared, bound, unbound, deleted", "routed while bound")
def _(connection, management, queue):
    exchange = fresh("exchange")
    management.declare_exchange(ExchangeSpecification(name=exchange, exchange_type=ExchangeType.topic))
    binding = ExchangeToQueueBindingSpecification(source_exchange=exchange, destination_queue=queue, binding_key="a.*")
    path = management.bind(binding)
    publisher = connection.publisher(AddressHelper.exchange_address(exchange, "a.b"))
    equal(publisher.publish(Message(body=b"routed")).remote_state, OutcomeState.ACCEPTED, "while bound")
    management.unbind(path)
    released(publisher)
    publisher.close()
    management.delete_exchange(exchange)
    equal(take(connection, queue, 1), ["routed"], "bodies")


@case("management.errors", "what is not there, and a queue declared otherwise than it is", "404 and 409; the connection lives")
def _(connection, management, queue):
    for act in (lambda: management.queue_info(fresh("absent")), lambda: management.declare_queue(ClassicQueueSpecification(name=queue))):
        try:
            act()
        except ValidationCodeException:
            continue
        raise AssertionError("not refused")
    fill(connection, queue, "x")


if __name__ == "__main__":
    suite.main()
