"""Hands tasks to a worker so that no task is lost when the broker, the publisher or the worker ends."""

import os
import sys

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
QUEUE = "example-tasks"

connection = pika.BlockingConnection(pika.URLParameters(URL))
channel = connection.channel()
# Durable: queue and persistent messages are there after a restart of the broker.
channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})

# Publisher confirms: publishing returns once the task is stored, and fails where no queue takes it.
channel.confirm_delivery()
persistent = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)
for number in range(1, 4):
    channel.basic_publish("", QUEUE, f"task {number}", persistent, mandatory=True)
    print(f"confirmed: task {number}")

# Prefetch: a worker has one task at a time, so several workers share the work evenly.
channel.basic_qos(prefetch_count=1)
done = 0
for method, _, body in channel.consume(QUEUE, inactivity_timeout=10):
    if method is None:
        sys.exit("no task within 10 seconds")
    print(f"done: {body.decode()}")
    # After the work, not before: an unacknowledged task goes to another worker when this one ends.
    channel.basic_ack(method.delivery_tag)
    done += 1
    if done == 3:
        break

left = channel.queue_declare(QUEUE, passive=True).method.message_count
print(f"left in the queue: {left}")
channel.queue_delete(QUEUE)
connection.close()
