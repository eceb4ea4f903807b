"""Sends messages to queues by patterns of their routing keys."""

import os
import sys

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
EXCHANGE = "example-topics"

connection = pika.BlockingConnection(pika.URLParameters(URL))
channel = connection.channel()
channel.exchange_declare(EXCHANGE, "topic", durable=True)

# A routing key is words with dots between them. `*` stands for one word, `#` for any number of words.
queues = {}
for pattern in ("orders.#", "*.eu.*"):
    queues[pattern] = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queues[pattern], EXCHANGE, pattern)

for key in ("orders.eu.paid", "orders.us.cancelled", "invoices.eu.sent"):
    channel.basic_publish(EXCHANGE, key, "")
    print(f"published: {key}")

for pattern, queue in queues.items():
    received = 0
    for method, _, _ in channel.consume(queue, auto_ack=True, inactivity_timeout=10):
        if method is None:
            sys.exit("no message within 10 seconds")
        print(f"received by {pattern}: {method.routing_key}")
        received += 1
        if received == 2:
            break
    channel.cancel()

channel.exchange_delete(EXCHANGE)
connection.close()
