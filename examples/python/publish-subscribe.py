"""Publishes news to every subscriber through a fanout exchange."""

import os
import sys

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
EXCHANGE = "example-news"

connection = pika.BlockingConnection(pika.URLParameters(URL))
channel = connection.channel()
channel.exchange_declare(EXCHANGE, "fanout", durable=True)

# A queue for each subscriber. An exclusive queue goes with its connection; the broker makes up its name.
queues = {}
for subscriber in ("first", "second"):
    queues[subscriber] = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queues[subscriber], EXCHANGE)

for news in ("rain on Saturday", "sun on Sunday"):
    channel.basic_publish(EXCHANGE, "", news)
    print(f"published: {news}")

for subscriber, queue in queues.items():
    received = 0
    for method, _, body in channel.consume(queue, auto_ack=True, inactivity_timeout=10):
        if method is None:
            sys.exit("no message within 10 seconds")
        print(f"{subscriber} subscriber: {body.decode()}")
        received += 1
        if received == 2:
            break
    channel.cancel()

channel.exchange_delete(EXCHANGE)
connection.close()
