"""Tries an order three times, with a pause between the attempts, and then puts it aside."""

import os
import sys

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
ORDERS = "example-orders"
WAITING = "example-orders-waiting"
FAILED = "example-orders-failed"
ATTEMPTS_MAX = 3

connection = pika.BlockingConnection(pika.URLParameters(URL))
channel = connection.channel()
channel.confirm_delivery()
# A rejected order goes to the queue of those that wait ...
channel.queue_declare(ORDERS, durable=True, arguments={
    "x-queue-type": "quorum",
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": WAITING,
})
# ... where nobody consumes. It expires after 300 ms and goes back.
channel.queue_declare(WAITING, durable=True, arguments={
    "x-message-ttl": 300,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": ORDERS,
})
channel.queue_declare(FAILED, durable=True)


def attempts_before(properties):
    """The broker counts in the header x-death how often a message left each queue."""
    deaths = (properties.headers or {}).get("x-death", [])
    return sum(death["count"] for death in deaths if death["queue"] == ORDERS)


persistent = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)
channel.basic_publish("", ORDERS, "order 7", persistent)
print("sent: order 7")

for method, properties, body in channel.consume(ORDERS, inactivity_timeout=10):
    if method is None:
        sys.exit("no order within 10 seconds")
    attempt = attempts_before(properties) + 1
    if attempt < ATTEMPTS_MAX:
        print(f"attempt {attempt} failed: {body.decode()}")
        channel.basic_reject(method.delivery_tag, requeue=False)
        continue
    print(f"attempt {attempt} failed, given up: {body.decode()}")
    # The copy is confirmed before the original is acknowledged, so the order is always in one of the queues.
    channel.basic_publish("", FAILED, body, persistent)
    channel.basic_ack(method.delivery_tag)
    break
channel.cancel()

method, _, body = channel.basic_get(FAILED, auto_ack=True)
if method is None:
    sys.exit("the order is not among the failed ones")
print(f"put aside: {body.decode()}")

for queue in (ORDERS, WAITING, FAILED):
    channel.queue_delete(queue)
connection.close()
