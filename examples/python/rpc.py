"""Asks a server for the squares of numbers; answers come back by direct reply-to, without a queue for them."""

import os
import sys
import time
import uuid

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
QUEUE = "example-squares"
REPLIES = "amq.rabbitmq.reply-to"

connection = pika.BlockingConnection(pika.URLParameters(URL))

# The server, which would be another program.
server = connection.channel()
server.queue_declare(QUEUE, durable=True)


def serve(channel, method, properties, body):
    answer = str(int(body) ** 2)
    about = pika.BasicProperties(correlation_id=properties.correlation_id)
    channel.basic_publish("", properties.reply_to, answer, about)
    channel.basic_ack(method.delivery_tag)


server.basic_consume(QUEUE, serve)

# The client. It consumes from the pseudo-queue first, without acknowledgements, and asks on the same channel.
client = connection.channel()
answers = {}


def note(_channel, _method, properties, body):
    answers[properties.correlation_id] = int(body)


client.basic_consume(REPLIES, note, auto_ack=True)


def ask(number):
    # The id tells which answer belongs to which question.
    question = str(uuid.uuid4())
    about = pika.BasicProperties(reply_to=REPLIES, correlation_id=question)
    client.basic_publish("", QUEUE, str(number), about)
    deadline = time.monotonic() + 10
    while question not in answers:
        if time.monotonic() > deadline:
            sys.exit("no answer within 10 seconds")
        connection.process_data_events(time_limit=1)
    return answers.pop(question)


for number in (3, 12):
    print(f"asked: the square of {number}")
    print(f"answered: {ask(number)}")

server.queue_delete(QUEUE)
connection.close()
