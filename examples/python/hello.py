"""Sends a message to a queue and receives it."""

import os
import sys

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
QUEUE = "example-hello"

connection = pika.BlockingConnection(pika.URLParameters(URL))
channel = connection.channel()
channel.queue_declare(QUEUE, durable=True)

# The default exchange has no name. It takes a message to the queue that is named by the routing key.
channel.basic_publish("", QUEUE, "Hello, World!")
print("sent: Hello, World!")

method, _, body = next(channel.consume(QUEUE, inactivity_timeout=10))
if method is None:
    sys.exit("no message within 10 seconds")
print(f"received: {body.decode()}")
# The broker keeps a message until it is acknowledged.
channel.basic_ack(method.delivery_tag)

channel.queue_delete(QUEUE)
connection.close()
