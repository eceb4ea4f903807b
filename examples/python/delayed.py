"""Sends messages that are delivered some time later."""

import os
import sys

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
EXCHANGE = "example-delays"
QUEUE = "example-kitchen"

connection = pika.BlockingConnection(pika.URLParameters(URL))
channel = connection.channel()
# The argument is the type that the exchange has otherwise: it decides which queues a message goes to.
channel.exchange_declare(EXCHANGE, "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
channel.queue_declare(QUEUE, durable=True)
channel.queue_bind(QUEUE, EXCHANGE, "kitchen")

for drink, delay_ms in (("coffee", 750), ("tea", 1500), ("water", 0)):
    about = pika.BasicProperties(headers={"x-delay": delay_ms})
    channel.basic_publish(EXCHANGE, "kitchen", drink, about)
    print(f"sent: {drink}, due in {delay_ms} ms")

received = 0
for method, _, body in channel.consume(QUEUE, auto_ack=True, inactivity_timeout=10):
    if method is None:
        sys.exit("no message within 10 seconds")
    print(f"received: {body.decode()}")
    received += 1
    if received == 3:
        break
channel.cancel()

channel.queue_delete(QUEUE)
channel.exchange_delete(EXCHANGE)
connection.close()
