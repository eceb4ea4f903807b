"""Messages that consumers hold, settled over HTTP by an expression or by position."""

import json

import pika
from lab.broker import Broker
from lab.cases import equal, eventually
from proton import Delivery, Timeout
from proton.handlers import MessagingHandler
from proton.utils import BlockingConnection

QUIET_S = 0.3


class Room:
    """A queue `from` whose dead go to `dead`, a connection, and requests about the queue."""

    def __init__(self, vhost, kind, **arguments):
        self.vhost, self.connection = vhost, vhost.client()
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self.path = f"/x/queues/{vhost.name}/from/"
        self.channel.queue_declare("dead", durable=True)
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        self.channel.queue_declare("from", durable=True, arguments={"x-queue-type": kind, **dead, **arguments})

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        if self.connection.is_open:
            self.connection.close()

    def publish(self, *numbers, **headers):
        for number in numbers:
            properties = pika.BasicProperties(delivery_mode=2, headers=headers or None)
            self.channel.basic_publish("", "from", b'{"k":%d}' % number, properties)

    def ask(self, status=200, **body):
        found, _, told = self.vhost.api.ask("POST", self.path + "settle", body)
        equal(found, status, str(told))
        return told

    def settle(self, where, outcome="accepted", **body):
        """How many messages were settled, whatever the number of requests."""
        count, body = 0, {"where": where, "outcome": outcome, "held": True, **body}
        while True:
            told = self.ask(**body)
            count += told["settled"]
            if told["next_position"] is None:
                return count
            body["position"] = told["next_position"]

    def unacked(self):
        return [one["position"] for one in self.vhost.api.get(self.path + "unacked?count=500")["messages"]]

    def depth(self, queue="from"):
        return self.channel.queue_declare(queue, passive=True).method.message_count

    def turn(self, seconds=0.01):
        self.connection.process_data_events(seconds)

    def taker(self, prefetch=1):
        return Taker(self, prefetch)


class Taker:
    """A consumer on a channel of its own, which settles nothing by itself."""

    def __init__(self, room, prefetch):
        self.room, self.channel, self.numbers, self.tags = room, room.connection.channel(), [], []
        self.channel.basic_qos(prefetch_count=prefetch)
        self.channel.basic_consume("from", self.take)

    def take(self, _channel, method, _properties, body):
        self.numbers.append(json.loads(body)["k"])
        self.tags.append(method.delivery_tag)

    def has(self, *numbers):
        eventually(lambda: self.room.turn() or len(self.numbers) >= len(numbers), f"{numbers} came")
        self.room.turn(QUIET_S)
        equal(self.numbers, list(numbers))


def held(vhost, kind):
    """Over 0-9-1: the holder loses them, has room again at once, and settles them in vain."""
    with Room(vhost, kind) as room:
        taker = room.taker(4)
        room.publish(*range(8))
        taker.has(0, 1, 2, 3)
        equal(room.unacked(), [0, 1, 2, 3])
        # As ever, what is held is not taken.
        equal(room.ask(where="body.k IN (1, 6)", outcome="rejected")["settled"], 1)
        equal(room.settle("body.k IN (1, 7)", "rejected"), 2)
        taker.has(0, 1, 2, 3, 4)
        equal(room.settle("STATE() = 'held' AND body.k >= 3"), 2)
        taker.has(0, 1, 2, 3, 4, 5)
        equal(room.ask(positions=[2, 5, 9, 0], outcome="accepted", held=False), {"settled": 0, "missing": [2, 5, 9, 0]})
        equal(room.ask(positions=[2, 9, 1], outcome="accepted", held=True), {"settled": 1, "missing": [9, 1]})
        eventually(lambda: room.depth("dead") == 3, "three died")
        equal((room.unacked(), room.depth()), ([0, 5], 0))
        # All that it was sent, one by one and together, in every way.
        taker.channel.basic_ack(taker.tags[1])
        taker.channel.basic_nack(taker.tags[2], requeue=True)
        taker.channel.basic_reject(taker.tags[3], requeue=False)
        taker.channel.basic_ack(taker.tags[5], multiple=True)
        room.turn(QUIET_S)
        equal((taker.channel.is_open, room.unacked(), room.depth(), room.depth("dead")), (True, [], 0, 3))
        room.publish(8)
        taker.has(0, 1, 2, 3, 4, 5, 8)
        taker.channel.close()
        eventually(lambda: room.depth() == 1, "it is back")
        equal(room.settle("body.k = 8"), 1)
        equal(room.depth(), 0)
        for body in ({"held": 1}, {"held": "yes"}, {"held": []}):
            room.ask(400, where="TRUE", outcome="accepted", **body)
        room.ask(400, outcome="accepted", held=True)
        for verb in ("delete", "move", "redrive"):
            goal = {"exchange": "", "routing_key": "dead"} if verb == "move" else {}
            equal(vhost.api.status("POST", room.path + verb, {"positions": [0], "held": True, **goal}), 400, verb)


class Hands(MessagingHandler):
    def __init__(self):
        super().__init__(prefetch=0, auto_accept=False)
        self.deliveries = []

    def on_message(self, event):
        self.deliveries.append((event.delivery, event.message))


def pump(wire):
    try:
        wire.wait(lambda: False, timeout=QUIET_S)
    except Timeout:
        pass


def ten(vhost, kind):
    """Over 1.0: the broker settles the deliveries, as released, and outcomes that come later are about nothing."""
    with Room(vhost, kind) as room:
        room.publish(0, 1, 2)
        wire = BlockingConnection(vhost.api.uri, allowed_mechs="PLAIN", timeout=15, virtual_host=f"vhost:{vhost.name}")
        try:
            hands = Hands()
            receiver = wire.create_receiver("/queues/from", credit=2, handler=hands)
            wire.wait(lambda: len(hands.deliveries) == 2, timeout=10)
            first = hands.deliveries[0][0]
            equal(room.settle("body.k = 0", "rejected"), 1)
            wire.wait(lambda: first.settled, timeout=10)
            equal((first.remote_state, hands.deliveries[1][0].settled), (Delivery.RELEASED, False))
            first.update(Delivery.ACCEPTED)
            first.settle()
            receiver.link.flow(1)
            wire.wait(lambda: len(hands.deliveries) == 3, timeout=10)
            for delivery, _ in hands.deliveries[1:]:
                delivery.update(Delivery.ACCEPTED)
                delivery.settle()
            pump(wire)
            eventually(lambda: room.unacked() == [], "all are settled")
            equal((room.depth(), room.depth("dead")), (0, 1))
        finally:
            wire.close()


def transaction(vhost, kind):
    """An ack in a transaction that is not committed: the message goes all the same, and the commit is none the worse for it."""
    with Room(vhost, kind) as room:
        room.publish(0, 1, 2)
        channel = room.connection.channel()
        channel.tx_select()
        for commits in (True, False):
            tags = [channel.basic_get("from")[0].delivery_tag]
            channel.basic_ack(tags[0])
            channel.basic_publish("", "dead", b"{}", pika.BasicProperties(delivery_mode=2))
            equal(room.settle("STATE() = 'held'"), 1)
            channel.tx_commit() if commits else channel.tx_rollback()
            equal((room.unacked(), room.depth(), room.depth("dead")), ([], 2 if commits else 1, 1))
            # Rolled back, the delivery is the client's to settle again.
            if not commits:
                channel.basic_ack(tags[0])
                channel.tx_commit()
        equal(json.loads(room.channel.basic_get("from", auto_ack=True)[2])["k"], 2)
        equal((room.depth(), channel.is_open), (0, True))


def rules(vhost, kind):
    """Groups are free, leases are over without another, and the one active consumer goes on."""
    with Room(vhost, kind, **{"x-group-key": "desk"}) as room:
        first, other = room.taker(), room.taker()
        room.publish(0, 1, 2, desk="a")
        eventually(lambda: room.turn() or first.numbers + other.numbers == [0], "one has the group")
        holder, idle = (first, other) if first.numbers else (other, first)
        holder.channel.basic_cancel(holder.channel.consumer_tags[0])
        idle.has()
        equal(room.settle("body.k = 0"), 1)
        idle.has(1)
        equal(room.settle("body.k = 2"), 1)
        equal((room.unacked(), room.depth()), ([1], 0))
        for taker in (first, other):
            taker.channel.close()
        room.channel.queue_delete("from")
        room.channel.queue_declare("from", durable=True, arguments={"x-queue-type": kind, "x-lease": 1000})
        taker = room.taker()
        room.publish(10, 11)
        taker.has(10)
        equal(room.settle("body.k = 10"), 1)
        # The next one's lease is over once; what was settled does not come again.
        taker.has(10, 11)
        eventually(lambda: room.turn() or room.depth() == 1, "it is over")
        taker.channel.basic_ack(taker.tags[0])
        taker.channel.basic_ack(taker.tags[1])
        taker.has(10, 11, 11)
        taker.channel.close()
        room.channel.queue_delete("from")
        single = {"x-queue-type": kind, "x-single-active-consumer": True}
        room.channel.queue_declare("from", durable=True, arguments=single)
        first, other = room.taker(), room.taker()
        room.publish(20, 21)
        first.has(20)
        equal(room.settle("body.k = 20"), 1)
        first.has(20, 21)
        other.has()


def killed(binary, make_api, make_vhost):
    """On record: the broker is killed, and what was settled for its holder is gone."""
    settings = ["management.tcp.ip=127.0.0.1", "management.tcp.port=0"]
    broker = Broker(binary, settings).start()
    try:
        for kind in ("classic", "quorum"):
            with make_vhost(make_api(broker)) as vhost:
                room = Room(vhost, kind)
                taker = room.taker(400)
                room.publish(*range(600))
                eventually(lambda: room.turn() or len(taker.numbers) == 400, "400 are held")
                equal(room.settle("body.k % 3 = 0"), 200)
                equal(room.settle("body.k % 3 = 1", "rejected"), 200)
                room.connection.process_data_events(QUIET_S)
                # What it was sent since.
                equal(len(taker.numbers) > 400, True)
                room.publish(1000)
                broker.kill()
                broker.start()
                vhost.api = make_api(broker)
                again = Room(vhost, kind)
                eventually(lambda: again.depth() == 201, "the others are there")
                equal(again.depth("dead"), 200)
                got = [json.loads(again.channel.basic_get("from", auto_ack=True)[2])["k"] for _ in range(201)]
                equal(got, [number for number in range(600) if number % 3 == 2] + [1000])
                again.connection.close()
    finally:
        broker.close()
