"""Messages of a long queue looked for, moved, deleted and settled by an expression, while somebody publishes to it.

A request looks for a while, so each pass over the queue is as many requests as that takes.
"""

import json
import time
import urllib.parse

from lab.broker import Broker
from lab.bulk import fill, publishing, told
from lab.cases import Uri, equal, eventually

# Kinds of messages, one in so many being of each.
KINDS = 1000
PASS_SECONDS_MAX, RATE_MIN = 5.0, 0.9
# Messages a second that somebody publishes meanwhile.
PACE, PACE_OF_FEW = 40_000, 5_000
SETTINGS = ["management.tcp.ip=127.0.0.1", "management.tcp.port=0"]


def document(number, kind):
    """A kilobyte."""
    return b'{"number":%d,"kind":%d,"pad":"%s"}' % (number, kind, b"x" * 970)


class Passes:
    """Passes over the first so many positions of the queue `from`."""

    def __init__(self, vhost, count):
        self.api, self.path, self.count = vhost.api, f"/x/queues/{vhost.name}/from/", count

    def shown(self, where):
        """The numbers of those that are shown."""
        seen, position = [], 0
        while position is not None and position < self.count:
            asked = urllib.parse.urlencode({"where": where, "count": 500, "position": position})
            page = self.api.get(f"{self.path}messages?{asked}")
            seen += [json.loads(message["payload"])["number"] for message in page["messages"]]
            position = page["next_position"]
        return seen

    def act(self, verb, what, **body):
        """How many it were."""
        count, position = 0, 0
        while position is not None and position < self.count:
            status, _, told = self.api.ask("POST", self.path + verb, {**body, "position": position})
            equal(status, 200, str(told))
            count, position = count + told[what], told["next_position"]
        return count


def many(binary, make_api, make_vhost, kind, count, is_full):
    """Of each kind that is asked for all are found, and no others; with `is_full` in time."""
    broker = Broker(binary, SETTINGS).start()
    try:
        with make_vhost(make_api(broker)) as vhost:
            connection = vhost.client()
            channel = connection.channel()
            for name, arguments in (("dead", {}), ("goal", {}),
                                    ("from", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-queue-type": kind})):
                channel.queue_declare(name, durable=True, arguments=arguments)
            worked_through(vhost, channel, Uri(f"{broker.uri}/{vhost.name}"), count, is_full)
            connection.close()
    finally:
        broker.close()


def worked_through(vhost, channel, uri, count, is_full):
    fill(uri, "from", (document(number, number % KINDS) for number in range(count)))
    passes, each = Passes(vhost, count), count // KINDS
    rows = [
        ("listed", lambda: len(passes.shown("body.kind = 1"))),
        ("moved", lambda: passes.act("move", "moved", where="body.kind = 2", exchange="", routing_key="goal")),
        ("deleted", lambda: passes.act("delete", "deleted", where="body.kind = 3")),
        ("rejected", lambda: passes.act("settle", "settled", where="body.kind = 4", outcome="rejected")),
        ("accepted", lambda: passes.act("settle", "settled", where="body.kind = 5", outcome="accepted")),
    ]
    seen = []
    with publishing(uri, "from", document(-1, -1), PACE if is_full else PACE_OF_FEW) as meter:
        before_seconds = 2.0 if is_full else 0.2
        time.sleep(before_seconds)
        begin = time.monotonic()
        before = meter.rate(begin - before_seconds, begin)
        for what, act in rows:
            begin = time.monotonic()
            equal(act(), each, what)
            end = time.monotonic()
            seen.append((end - begin, meter.rate(begin, end) / max(before, 1)))
            told(f"{each} of {count} {what} in {end - begin:.2f} s; published {before:.0f} a second before, "
                 f"{meter.rate(begin, end):.0f} meanwhile")
    equal(passes.shown("body.kind IN (2, 3, 4, 5)"), [], "left of those that went")
    equal(passes.shown("body.kind = 1"), list(range(1, count, KINDS)), "those that were shown")
    left = {"from": count + meter.count - 4 * each, "goal": each, "dead": each}
    eventually(lambda: all(channel.queue_declare(name, passive=True).method.message_count == count for name, count in left.items()),
               f"{left}")
    for queue, kind in (("goal", 2), ("dead", 4)):
        numbers = [json.loads(channel.basic_get(queue, auto_ack=True)[2])["number"] for _ in range(each)]
        equal(numbers, list(range(kind, count, KINDS)), queue)
    if is_full:
        took, kept = (max(took for took, _ in seen), min(kept for _, kept in seen))
        assert took <= PASS_SECONDS_MAX and kept >= RATE_MIN, (took, kept)
