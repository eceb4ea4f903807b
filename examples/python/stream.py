"""Appends events to a stream and reads them from the third one on. Reading takes nothing away from a stream."""

import os
import sys

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
STREAM = "example-events"

connection = pika.BlockingConnection(pika.URLParameters(URL))
channel = connection.channel()
channel.confirm_delivery()
channel.queue_declare(STREAM, durable=True, arguments={"x-queue-type": "stream", "x-max-age": "1D"})

for number in range(5):
    channel.basic_publish("", STREAM, f"event {number}")
    print(f"appended: event {number}")

# Offsets count from 0. An offset may also be "first", "last", "next", a timestamp, or an age such as "1h".
# Readers of streams need a prefetch, and acknowledgements to be given more.
channel.basic_qos(prefetch_count=10)
read = 0
for method, properties, body in channel.consume(STREAM, arguments={"x-stream-offset": 2}, inactivity_timeout=10):
    if method is None:
        sys.exit("no event within 10 seconds")
    print(f"read at offset {properties.headers['x-stream-offset']}: {body.decode()}")
    channel.basic_ack(method.delivery_tag)
    read += 1
    if read == 3:
        break
channel.cancel()

channel.queue_delete(STREAM)
connection.close()
