"""Helpers of the cases on dead letters: a queue that takes the dead, queues whose dead go there, reading x-death."""

import datetime

from lab.cases import equal
from suites.queue_bench import CLASSIC, Bench, QueueSuite

suite = QueueSuite("dead-letter")


class Morgue(Bench):
    """A desk with a queue `dead`; `mortal` makes queues whose dead go there through the default exchange."""

    def __init__(self):
        super().__init__()
        self.dead = self.make(CLASSIC)

    def mortal(self, kind, **arguments):
        return self.make(kind, **{"x_dead_letter_exchange": "", "x_dead_letter_routing_key": self.dead, **arguments})

    def reject(self, queue, count=1):
        for _number in range(count):
            self.channel.basic_reject(self.get(queue)[0].delivery_tag, requeue=False)

    def buried(self, count=1):
        """The dead, with the headers of each."""
        return [(method, properties, body) for method, properties, body in self.collected(self.dead, count)]


def deaths(properties):
    """x-death without its times, which are now."""
    entries = properties.headers["x-death"]
    for entry in entries:
        at = entry.pop("time")
        equal(isinstance(at, datetime.datetime), True, "time is a timestamp")
        age = (datetime.datetime.now(datetime.UTC) - at).total_seconds()
        equal(-2 < age < 20, True, f"the time of the death, {age} s ago")
    return entries


def death(queue, reason, keys=None, exchange="", count=1, **more):
    return {"queue": queue, "reason": reason, "exchange": exchange, "routing-keys": keys or [queue], "count": count,
            **more}


def nothing(desk):
    desk.stays(desk.dead, 0)
