"""Moves of messages that go in windows, many at once: places that take some of them, and messages that are not there.

Each queue has more messages than a window.
"""

import os
import subprocess
import threading
import time

import pika
from lab.broker import Broker, resident_bytes
from lab.bulk import fill, told
from lab.cases import Uri, equal, eventually
from suites.management_beyond import depth

COUNT = 600
SETTINGS = ["management.tcp.ip=127.0.0.1", "management.tcp.port=0"]
GOAL = {"exchange": "", "routing_key": "goal"}


class Room:
    """A queue with messages, whose bodies are their numbers, and the places they move to."""

    def __init__(self, vhost, count=COUNT, headers=lambda number: None, kind="classic", goal=None, **more):
        self.vhost, self.path = vhost, f"/x/queues/{vhost.name}/from/"
        self.connection = vhost.client()
        self.channel = self.connection.channel()
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-queue-type": kind, **more}
        for name, own in (("from", arguments), ("goal", goal), ("dead", None)):
            self.channel.queue_declare(name, durable=True, arguments=own)
        for number in range(count):
            # Those in memory and those on disk are confirmed at different times.
            mode = 2 if kind == "quorum" or number % 5 else 1
            self.publish("from", number, delivery_mode=mode, headers=headers(number))
        if count:
            eventually(lambda: depth(self.channel, "from") == count, "all of them")

    def publish(self, queue, number, body=None, **properties):
        body = str(number).encode() if body is None else body
        self.channel.basic_publish("", queue, body, pika.BasicProperties(**properties))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.connection.close()

    def ask(self, verb, **body):
        status, _, answer = self.vhost.api.ask("POST", self.path + verb, body)
        return status, answer

    def shown(self, queue="from"):
        """The numbers of messages, and their positions, in the order of the queue."""
        path, seen, offset = f"/x/queues/{self.vhost.name}/{queue}/messages?count=500&truncate=20&offset=", {}, 0
        while offset is not None:
            page = self.vhost.api.get(path + str(offset))
            seen.update((int(message["payload"]), message["position"]) for message in page["messages"])
            offset = page["next_offset"]
        return seen

    def got(self, queue):
        """The numbers of messages in a queue, which is empty then; a message that a consumer failed on is an error."""
        numbers = []
        while (found := self.channel.basic_get(queue, auto_ack=True))[0]:
            equal("x-delivery-count" in (found[1].headers or {}), False, "a failed delivery")
            numbers.append(int(found[2]))
        return numbers


def some(vhost, kind):
    """An exchange that takes every third message returns the others."""
    with Room(vhost, headers=lambda number: {"goes": number % 3 == 1}, kind=kind) as room:
        room.channel.queue_bind("goal", "amq.headers", "", {"x-match": "all", "goes": True})
        at = room.shown()
        goes = [number for number in range(COUNT) if number % 3 == 1]
        stays = [number for number in range(COUNT) if number % 3 != 1]
        through = {"exchange": "amq.headers", "routing_key": ""}
        chosen = list(range(400, 100, -1))
        moved = [number for number in chosen if number in goes]
        equal(room.ask("move", positions=[at[number] for number in chosen], **through),
              (200, {"moved": len(moved), "unplaced": len(chosen) - len(moved), "missing": [], "is_over": True}))
        left = {number: position for number, position in at.items() if number not in moved}
        eventually(lambda: room.shown() == left, "the others are where they were")
        equal(list(room.shown("goal")), moved)
        equal(room.ask("move", **through), (200, {"moved": len(goes) - len(moved), "unplaced": len(stays), "is_over": True}))
        eventually(lambda: depth(room.channel, "from") == len(stays), "all are back")
        equal(room.got("goal"), moved + [number for number in goes if number not in moved])
        equal(room.got("from"), stays)


def full(vhost, kind):
    """A queue takes a hundred messages and refuses the rest."""
    most = 100
    with Room(vhost, kind=kind, goal={"x-max-length": most, "x-overflow": "reject-publish"}) as room:
        status, answer = room.ask("move", **GOAL)
        moved = answer["moved"]
        equal((status, answer), (200, {"moved": moved, "unplaced": COUNT - moved, "is_over": True}))
        eventually(lambda: depth(room.channel, "from") == COUNT - moved, "all are back")
        goal, left = room.got("goal"), room.got("from")
        equal((goal, sorted(goal + left), left), (sorted(goal), list(range(COUNT)), sorted(left)))
        # Some of those that came together may all be taken.
        assert most <= len(goal) == moved < most + 300, moved


def first(vhost):
    """A few, of a queue from which they come in windows; and all, at a rate."""
    with Room(vhost, 300, **{"x-max-unsettled": 5}) as room:
        equal(room.ask("move", count=7, **GOAL), (200, {"moved": 7, "unplaced": 0, "is_over": True}))
        equal(room.ask("move", count=100, **GOAL), (200, {"moved": 100, "unplaced": 0, "is_over": True}))
        equal((list(room.shown()), list(room.shown("goal"))), (list(range(107, 300)), list(range(107))))
        seen, rate, begin = [], 60, time.monotonic()
        thread = threading.Thread(target=lambda: seen.append(room.ask("move", count=150, rate=rate, **GOAL)))
        thread.start()
        while thread.is_alive():
            moved = depth(room.channel, "goal") - 107
            most = rate * (time.monotonic() - begin) + rate / 10 + 1
            assert moved <= most, f"{moved} instead of {most:.0f} at most"
            time.sleep(0.02)
        took = time.monotonic() - begin
        equal(seen, [(200, {"moved": 150, "unplaced": 0, "is_over": True})])
        assert 2.4 < took < 5, f"150 at {rate} a second took {took:.1f} s"
        equal((room.got("from"), room.got("goal")), (list(range(257, 300)), list(range(257))))


def gaps(vhost, kind):
    """Positions of which every third has no message."""
    with Room(vhost, 900, kind=kind, **{"x-max-unsettled": 5}) as room:
        at = room.shown()
        gone = range(0, 900, 3)
        equal(room.ask("delete", positions=[at[number] for number in gone]), (200, {"deleted": 300, "missing": []}))
        for begin, verb, body, told in ((0, "move", GOAL, {"moved": 200, "unplaced": 0, "is_over": True}),
                                        (300, "delete", {}, {"deleted": 200}),
                                        (600, "settle", {"outcome": "rejected"}, {"settled": 200})):
            chosen = range(begin, begin + 300)
            missing = [at[number] for number in chosen if number in gone]
            equal(room.ask(verb, positions=[at[number] for number in chosen], **body), (200, {**told, "missing": missing}))
        eventually(lambda: [depth(room.channel, queue) for queue in ("from", "goal", "dead")] == [0, 200, 200], "all of them went")
        for queue, begin in (("goal", 0), ("dead", 600)):
            equal(room.got(queue), [number for number in range(begin, begin + 300) if number not in gone], queue)


def origins(vhost):
    """Dead messages among others that never died."""
    with Room(vhost, 0) as room:
        # They die in order at once.
        room.channel.queue_declare("orders", durable=True, arguments={
            "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "from"})
        for number in range(COUNT):
            if number % 2:
                room.publish("from", number)
                continue
            room.publish("orders", number, delivery_mode=2)
            method, _, _ = room.channel.basic_get("orders")
            room.channel.basic_reject(method.delivery_tag, requeue=False)
            if number % 50 == 0:
                eventually(lambda: depth(room.channel, "from") == number + 1, "the dead", pause=0.002)
        eventually(lambda: depth(room.channel, "from") == COUNT, "all of them")
        died = [number for number in room.shown() if number % 2 == 0]
        half = COUNT // 2
        equal(room.ask("redrive"), (200, {"moved": half, "unplaced": half, "is_over": True}))
        equal((room.got("orders"), room.got("from")), (died, list(range(1, COUNT, 2))))


def nowhere(vhost):
    """An exchange that is not there, and one that takes nothing."""
    with Room(vhost, kind="quorum", **{"x-delivery-limit": 1}) as room:
        at = room.shown()
        for chosen in ({}, {"positions": list(at.values())}):
            for _ in range(3):
                status, answer = room.ask("move", exchange="none", routing_key="goal", **chosen)
                equal((status, "404" in answer["reason"]), (400, True))
                eventually(lambda: room.shown() == at, "all are where they were")
        equal(room.ask("move", exchange="amq.fanout", routing_key=""), (200, {"moved": 0, "unplaced": COUNT, "is_over": True}))
        eventually(lambda: room.shown() == at, "all are where they were")
        equal((room.got("goal"), room.got("from")), ([], list(range(COUNT))))


def too_large(binary, make_api, make_vhost):
    """A message that may no longer be published, in the midst of others: those in front of it move, and once."""
    broker = Broker(binary, [*SETTINGS, "max_message_size=8000000"]).start()
    try:
        vhost = make_vhost(make_api(broker))
        with vhost:
            with Room(vhost, 150) as room:
                room.publish("from", 150, b"150".ljust(3_000_000, b" "), delivery_mode=2)
                for number in range(151, 300):
                    room.publish("from", number, delivery_mode=2)
                eventually(lambda: depth(room.channel, "from") == 300, "all of them")
            broker.stop()
            broker.settings[-1] = "max_message_size=2000000"
            broker.start()
            vhost.api = make_api(broker)
            with Room(vhost, 0) as room:
                # Those in memory alone went with the stop.
                before = list(room.shown())
                moved = [number for number in before if number < 150]
                for told in (len(moved), 0, 0):
                    status, answer = room.ask("move", **GOAL)
                    equal((status, answer.get("moved", 0)), (400, told), str(answer))
                    assert "message size 3000000 is larger" in answer["reason"], answer
                    eventually(lambda: list(room.shown()) == [number for number in before if number >= 150], "the others are back")
                equal(room.got("goal"), moved)
    finally:
        broker.close()


def large(binary, make_api, make_vhost, count=40, size=4 << 20):
    """Large messages behind small ones: a window as large as those permit would take more memory than it may."""
    broker = Broker(binary, SETTINGS).start()
    try:
        with make_vhost(make_api(broker)) as vhost, Room(vhost) as room:
            for number in range(COUNT, COUNT + count):
                room.publish("from", number, str(number).encode().ljust(size), delivery_mode=2)
            eventually(lambda: depth(room.channel, "from") == COUNT + count, "all of them", 30)
            seen, before, most = [], resident_bytes(broker.pid) or 0, 0
            thread = threading.Thread(target=lambda: seen.append(room.ask("move", **GOAL)))
            thread.start()
            while thread.is_alive():
                most = max(most, (resident_bytes(broker.pid) or 0) - before)
                time.sleep(0.002)
            equal(seen, [(200, {"moved": COUNT + count, "unplaced": 0, "is_over": True})])
            equal((room.got("from"), room.got("goal")), ([], list(range(COUNT + count))))
            told(f"{count} messages of {size} bytes moved with {most >> 20} MiB more than before")
            assert most < count * size // 2, most
    finally:
        broker.close()


def alarmed(binary, make_api, make_vhost, count=30_000):
    """An alarm is raised while a window is under way: nothing of it is published later that went back."""
    broker = Broker(binary, SETTINGS).start()

    def limit(text):
        words = [broker.binary, "ctl", "--data-dir", os.path.join(broker.folder, "data"), "set_disk_free_limit", text]
        subprocess.run(words, check=True, capture_output=True, timeout=60)

    try:
        with make_vhost(make_api(broker)) as vhost, Room(vhost, 0) as room:
            fill(Uri(f"{broker.uri}/{vhost.name}"), "from", (str(number).encode() for number in range(count)))
            seen = []
            thread = threading.Thread(target=lambda: seen.append(room.ask("move", **GOAL)))
            thread.start()
            eventually(lambda: depth(room.channel, "goal") > count // 20, "some have moved", pause=0.001)
            limit("900000000000000")
            thread.join()
            status, answer = seen[0]
            equal((status, answer["is_over"]), (500, False), str(answer))
            moved = answer["moved"]
            limit("1000000")
            time.sleep(1)
            equal((depth(room.channel, "goal"), depth(room.channel, "from")), (moved, count - moved))
            equal(room.ask("move", **GOAL), (200, {"moved": count - moved, "unplaced": 0, "is_over": True}))
            equal((depth(room.channel, "goal"), depth(room.channel, "from")), (count, 0))
    finally:
        broker.close()
