"""Nodes that stand still or are gone for seconds: those who lead, a majority, and all but one at a start."""

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pika
from pika import exceptions

from lab.cases import equal
from suites.crash_several_ledger import check
from suites.crash_several_nodes import NODES, Nodes
from suites.crash_several_rounds import QUEUES, Round, declare, said

ELSEWHERE_SECONDS_MAX = 3.0
# A confirm that was on its way to a client when a majority was gone.
ON_ITS_WAY_SECONDS = 1.0
AWAY_SECONDS = 8
REFUSAL_SECONDS_MAX = 6.0
HELD_SECONDS_MAX = 5.0
WRITE_SECONDS_MAX = 3.0
SERVE_SECONDS_MAX = 3.0
PAUSE_SECONDS_MAX = 3.0
WAITING, HELD = 100, 20


def leader_stands_still(binary, seed, seconds):
    """One node leads all logs and is stopped for some seconds."""
    dice = random.Random(seed)
    with Nodes(binary) as nodes:
        nodes.start_all()
        declare(nodes, dice)
        stopped = dice.choice(NODES)
        nodes.spread(lambda: stopped)
        with Round(nodes, dice.random(), f"seed {seed}") as each:
            time.sleep(dice.uniform(0.5, 2.0))
            begin = time.monotonic()
            nodes.stand_still(stopped)
            time.sleep(seconds - 2)
            meanwhile = nodes.leaders()
            time.sleep(max(0.0, begin + seconds - time.monotonic()))
            nodes.go_on(stopped)
            end = time.monotonic()
            time.sleep(4)
            after = nodes.leaders()
            gaps = each.living_gaps([stopped], begin, end)
            terms = [later[1] - earlier[1] for earlier, later in zip(meanwhile, after)]
            print(f"{each.name}: node {stopped + 1}, which led all, stood still for {end - begin:.1f} s; gaps between confirms "
                  f"elsewhere: {said(gaps)}; leaders {meanwhile}, then {after}", flush=True)
            each.finish()
        equal(len(gaps), 2 * 2 * len(QUEUES), "publishers elsewhere that went on, by queue")
        if max(gaps) > ELSEWHERE_SECONDS_MAX:
            raise AssertionError(f"{max(gaps):.2f} s without a confirm at a node that lived")
        if max(terms) > 1:
            raise AssertionError(f"terms went on by {terms} once the node went on")


def fill(channel, queue, name, count):
    """Some confirmed messages."""
    channel.confirm_delivery()
    for number in range(count):
        channel.basic_publish("", queue, f"{name}.{number}".encode(), pika.BasicProperties(delivery_mode=2))


def turn(channel, is_over, seconds):
    """Takes what comes until that is so, or for some seconds."""
    deadline = time.monotonic() + seconds
    while not is_over() and time.monotonic() < deadline:
        channel.connection.process_data_events(time_limit=0.05)


def take_over(nodes, number, seconds):
    """A new consumer at a node, which settles each message: bodies, and whether each came marked as redelivered."""
    channel, taken = nodes.channel(number), {}
    channel.basic_consume("q1", lambda _channel, method, _properties, body: taken.update({body: method.redelivered}), auto_ack=True)
    turn(channel, lambda: False, seconds)
    channel.connection.close()
    return taken


def acks_wait(binary, rounds):
    """The clients of a leader that is stopped settle and ask for more, which it reads when another leads long since."""
    with Nodes(binary) as nodes:
        nodes.start_all()
        declare(nodes, random.Random(0))
        for number in range(rounds):
            stopped, other = number % 3, (number + 2) % 3
            nodes.spread(lambda stopped=stopped: stopped)
            writer = nodes.channel(other)
            fill(writer, "q1", f"{number}", WAITING)
            channel, asker, got, asked = nodes.channel(stopped), nodes.channel(stopped), [], []
            channel.basic_qos(prefetch_count=10)
            channel.basic_consume("q1", lambda _channel, method, _properties, body: got.append((method.delivery_tag, body)))
            turn(channel, lambda: len(got) == 10, 10)
            equal(len(got), 10, "deliveries at the node that leads")
            nodes.stand_still(stopped)
            time.sleep(0.2)
            for tag, _body in got:
                channel.basic_ack(tag)
            # The blocking one would wait for its answer.
            asker._impl.basic_get("q1", lambda _channel, _method, _properties, body: asked.append(body))
            asker.connection.process_data_events(time_limit=0)
            taken = take_over(nodes, other, 4)
            equal(len(taken), WAITING, "messages that others took and settled")
            nodes.go_on(stopped)
            turn(channel, lambda: False, 1.5)
            turn(asker, lambda: False, 0.2)
            late = [body for body in [*(body for _tag, body in got[10:]), *asked] if body in taken]
            print(f"node {stopped + 1} stood still: {len(taken)} settled meanwhile, {len(late)} handed out afterwards", flush=True)
            for each in (writer, channel, asker):
                each.connection.close()
            equal(late, [], "handed out by a leader whose time is over, though others had settled them")


def held_again(binary, rounds):
    """A consumer gives messages back, gets them again and holds them; then their leader is killed."""
    with Nodes(binary) as nodes:
        nodes.start_all()
        declare(nodes, random.Random(0))
        told = []
        for number in range(rounds):
            leader, own, other = number % 3, (number + 1) % 3, (number + 2) % 3
            nodes.spread(lambda leader=leader: leader)
            channel, got = nodes.channel(own), []
            fill(channel, "q1", f"{number}", HELD)
            holder = nodes.channel(own)
            holder.basic_consume("q1", lambda _channel, method, _properties, body: got.append((method.delivery_tag, body)))
            turn(holder, lambda: len(got) == HELD, 10)
            for tag, _body in got[::2]:
                holder.basic_nack(tag, requeue=True)
            turn(holder, lambda: len(got) == HELD + HELD // 2, 10)
            equal(len(got), HELD + HELD // 2, "deliveries, half of them once more")
            turn(holder, lambda: False, 0.5)
            nodes.kill(leader)
            told.append(len(take_over(nodes, other, 3.5)))
            nodes.start(leader)
            nodes.leaders()
            holder.connection.close()
            take_over(nodes, other, 1)
            channel.connection.close()
        print(f"handed out though a consumer held them, by round: {told}", flush=True)
        equal(told, [0] * rounds, "messages that were handed out though a consumer held them, by round")


def refused_seconds(channel):
    """How long it takes until a declaration is refused for want of a majority."""
    begin = time.monotonic()
    try:
        channel.queue_declare("late", durable=True)
    except exceptions.ConnectionClosedByBroker as closed:
        equal(closed.reply_code, 541, closed.reply_text)
        return time.monotonic() - begin
    raise AssertionError("a queue was declared without a majority")


def write_all(nodes, ledger, number, since):
    """A publish to each queue at a node, confirmed one after the other; answers after how many seconds each was."""
    told = []
    channel = nodes.channel(number)
    channel.confirm_delivery()
    session = ledger.opened(number, f"writes at {number + 1}")
    for queue in QUEUES:
        body = f"{session.name} to {queue}"
        ledger.published(body, queue, session)
        channel.basic_publish("", queue, body.encode(), pika.BasicProperties(delivery_mode=2), mandatory=True)
        ledger.confirmed(body, session)
        told.append(round(time.monotonic() - since, 2))
    channel.connection.close()
    ledger.ended(session)
    return told


def minority(binary, seed, is_killed):
    """Two nodes are killed or stopped; the one that is left has no majority."""
    dice = random.Random(seed)
    with Nodes(binary) as nodes:
        nodes.start_all()
        declare(nodes, dice)
        living = dice.choice(NODES)
        others = [number for number in dice.sample(NODES, len(NODES)) if number != living]
        nodes.spread(lambda: dice.choice(NODES))
        channel = nodes.channel(living)
        with Round(nodes, dice.random(), f"seed {seed}") as each:
            ledger = each.ledger
            time.sleep(dice.uniform(0.5, 2.0))
            (nodes.kill if is_killed else nodes.stand_still)(*others)
            begin = time.monotonic()
            refused = refused_seconds(channel)
            time.sleep(max(0.0, begin + AWAY_SECONDS - time.monotonic()))
            held = ledger.undecided(NODES)
            until = time.monotonic()
            (nodes.start if is_killed else nodes.go_on)(*others)
            back = time.monotonic()
            with ThreadPoolExecutor(len(NODES)) as pool:
                written = list(pool.map(lambda number: write_all(nodes, ledger, number, back), NODES))
            wrote = max(max(each) for each in written)
            while set(held) & set(ledger.undecided(NODES)) and time.monotonic() < back + 4 * HELD_SECONDS_MAX:
                time.sleep(0.02)
            confirmed = time.monotonic() - back
            print(f"{each.name}: nodes {[number + 1 for number in others]} {'killed' if is_killed else 'stood still'}, node "
                  f"{living + 1} led {sorted(queue for queue, led in each.led.items() if led == living)}: a declaration refused "
                  f"after {refused:.2f} s; {len(held)} publishes held, {confirmed:.2f} s later confirmed; all queues written at "
                  f"each node after {wrote:.2f} s: {written}", flush=True)
            early = ledger.confirms_between(begin + ON_ITS_WAY_SECONDS, until, living)
            equal(early, 0, "confirms without a majority")
            equal(len(held) > 0, True, "publishes were held")
            time.sleep(1)
            each.finish()
        for what, seconds, seconds_max in (("a declaration was refused", refused, REFUSAL_SECONDS_MAX),
                                           ("publishes that were held were confirmed", confirmed, HELD_SECONDS_MAX),
                                           ("all queues were written at each node", wrote, WRITE_SECONDS_MAX)):
            if seconds > seconds_max:
                raise AssertionError(f"{what} after {seconds:.2f} s")


def serves(nodes, number, queue, expected):
    """A node lets a client in, which declares, publishes and takes; answers when it was done."""
    channel = nodes.channel(number, stack_timeout=15)
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    body = f"{queue} at {number}".encode()
    channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2), mandatory=True)
    equal(channel.basic_get(queue, auto_ack=True)[2], body)
    for earlier in expected:
        channel.queue_declare(earlier, passive=True)
    channel.connection.close()
    return time.monotonic()


def start_in_order(nodes, order, dice, queue, expected):
    """One node after the other, with pauses."""
    first, second, third = order
    nodes.start(first)
    time.sleep(dice.uniform(0, PAUSE_SECONDS_MAX))
    nodes.start(second)
    told = []
    for number in (second, first):
        begin = time.monotonic()
        told.append((number, serves(nodes, number, queue, expected) - begin))
    time.sleep(dice.uniform(0, PAUSE_SECONDS_MAX))
    nodes.start(third)
    begin = time.monotonic()
    told.append((third, serves(nodes, third, queue, [*expected, queue]) - begin))
    print(f"started {[number + 1 for number in order]}: " + ", ".join(
        f"node {number + 1} serves after {seconds:.2f} s" for number, seconds in told), flush=True)
    for number, seconds in told:
        if seconds > SERVE_SECONDS_MAX:
            raise AssertionError(f"started {order}: node {number + 1} served after {seconds:.2f} s")


def starts(binary, seed, orders):
    """Starts in some orders, the first one with empty folders; between them all are killed."""
    dice = random.Random(seed)
    with Nodes(binary) as nodes:
        expected = []
        for count, order in enumerate(orders(dice)):
            if count:
                nodes.kill(*NODES)
            queue = f"started{count}"
            start_in_order(nodes, order, dice, queue, expected)
            expected.append(queue)


def of_old_folders(dice):
    """The first node is among the first two when folders are new: it is the one that begins the logs."""
    orders = [dice.choice(([0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 0, 1]))]
    return orders + [dice.sample(NODES, len(NODES)) for _ in range(2)] + [[2, 1, 0], [1, 2, 0]]


def of_new_folders(_dice):
    """The first node comes last."""
    return [[2, 1, 0]]
