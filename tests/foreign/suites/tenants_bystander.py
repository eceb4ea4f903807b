"""A bystander of the cases of busy tenants: few messages, one at a time, and how long each took.

    python -m suites.tenants_bystander URI

A message is published and confirmed, got and acknowledged; the next one begins 10 ms after that one began, or when it
is over. A process of its own, so that nothing else has its time. It says `ready`, and for each line `work SECONDS` of
its standard input the milliseconds of all messages of that time, as JSON.
"""

import json
import sys
import time

import pika

EVERY_SECONDS = 0.01
QUEUE = "bystander"


def message(channel, body):
    """One message from beginning to end; milliseconds."""
    begin = time.monotonic()
    channel.basic_publish("", QUEUE, body, pika.BasicProperties(delivery_mode=2), mandatory=True)
    method, _properties, found = channel.basic_get(QUEUE)
    assert found == body, f"{found!r} in place of {body!r}"
    channel.basic_ack(method.delivery_tag)
    return (time.monotonic() - begin) * 1000


def main(uri):
    parameters = pika.URLParameters(uri)
    parameters.heartbeat = 0
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(QUEUE, durable=True)
    number = 0
    print("ready", flush=True)
    for line in sys.stdin:
        _work, seconds = line.split()
        begin, took = time.monotonic(), []
        due = begin
        while due < begin + float(seconds):
            time.sleep(max(0, due - time.monotonic()))
            # A wait is one message's, not that of all that were due meanwhile: they are published one at a time.
            due = max(due, time.monotonic()) + EVERY_SECONDS
            number += 1
            took.append(round(message(channel, f"message {number}".encode()), 3))
        print(json.dumps(took), flush=True)
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
