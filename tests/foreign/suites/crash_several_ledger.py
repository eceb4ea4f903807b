"""What three nodes promised to their clients, and where they broke it.

Clients write down what they do and see, each with its time; `faults` reads it when all is quiet. A body is published
once, whatever becomes of it: a second message with that body was made by the brokers.
"""

import collections
import threading
import time

# A client may hear of its node's end later than others hear of what follows from it.
LATE_SECONDS = 2.0
RECORDED_SECONDS = 1.0
FAULTS_MAX = 12


class Session:
    """A connection of a client at a node."""

    def __init__(self, node, name):
        self.node = node
        self.name = name
        self.begin = time.monotonic()
        self.end = None
        self.why = ""

    def __str__(self):
        return f"{self.name} at node {self.node + 1}"


class Message:
    """All that is known of a body: `deliveries` are [when, session, is again, end of the hold, word for that end]."""

    def __init__(self, queue, session, at):
        self.queue = queue
        self.session = session
        self.at = at
        self.confirmed = None
        self.outcome = None
        self.deliveries = []


class Ledger:
    """May be written to by several threads. The nodes say of each other when they were away, or disturbed in other ways."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.lock = threading.Lock()
        self.messages = {}
        self.sessions = []
        self.confirms = collections.defaultdict(list)  # by session and queue: times
        self.noted = []  # faults that clients saw at once
        self.late = 0  # deliveries that were under way when their node was stopped, and that others had meanwhile

    # ---- what clients say

    def opened(self, node, name):
        session = Session(node, name)
        with self.lock:
            self.sessions.append(session)
        return session

    def ended(self, session, why=""):
        if session.end is None:
            session.end, session.why = time.monotonic(), why

    def published(self, body, queue, session):
        with self.lock:
            self.messages[body] = Message(queue, session, time.monotonic())

    def confirmed(self, body, session):
        now = time.monotonic()
        with self.lock:
            message = self.messages[body]
            if message.outcome:
                self.noted.append(f"{body} of {session} was confirmed, and had been {message.outcome}")
            message.confirmed, message.outcome = now, "confirmed"
            self.confirms[session, message.queue].append(now)

    def refused(self, body, word):
        """Not taken by the broker, which says so; it may be there nevertheless."""
        with self.lock:
            self.messages[body].outcome = word

    def delivered(self, body, queue, session, is_again):
        with self.lock:
            message = self.messages.get(body)
            if message is None or message.queue != queue:
                self.noted.append(f"{queue} delivered {body[:60]!r}, which nobody published to it")
                return
            message.deliveries.append([time.monotonic(), session, is_again, None, ""])

    def let_go(self, body, session, word):
        """A delivery is held no more: `settled`, or `returned` for another one."""
        with self.lock:
            for delivery in reversed(self.messages[body].deliveries):
                if delivery[1] is session and delivery[3] is None:
                    delivery[3:] = [time.monotonic(), word]
                    return

    def note(self, fault):
        with self.lock:
            self.noted.append(fault)

    # ---- what follows

    def count(self, *outcomes):
        with self.lock:
            return sum(message.outcome in outcomes for message in self.messages.values())

    def confirms_between(self, begin, end, node):
        """How many confirms came at a node in a time."""
        with self.lock:
            return sum(begin < at < end for (session, _), times in self.confirms.items() if session.node == node for at in times)

    def unsettled(self):
        """How many messages are confirmed and not settled yet, or held."""
        with self.lock:
            return sum(bool(message.confirmed and not any(word == "settled" for *_rest, word in message.deliveries)
                            or any(end is None and session.end is None for _, session, _, end, _ in message.deliveries))
                       for message in self.messages.values())

    def undecided(self, nodes):
        """Publishes at these nodes, over connections that are open, without an outcome."""
        with self.lock:
            return [body for body, message in self.messages.items()
                    if message.outcome is None and message.session.end is None and message.session.node in nodes]

    def faults(self):
        """A sentence for each broken promise."""
        with self.lock:
            found = list(self.noted)
            for body, message in self.messages.items():
                found += self.faults_of(body, message)
            found += [f"{session} was closed though its node lived: {session.why}" for session in self.sessions
                      if session.why and not self.nodes.was_away(session.node, session.begin, session.end)]
        return found

    def faults_of(self, body, message):
        name = f"{body} of {message.queue}, published by {message.session},"
        if message.confirmed and not message.deliveries:
            yield f"{name} was confirmed and is lost"
        elif message.confirmed and not any(word == "settled" for *_rest, word in message.deliveries):
            yield f"{name} was confirmed, delivered and never settled, and is gone"
        for number, (at, session, is_again, _end, _word) in enumerate(message.deliveries):
            for earlier in message.deliveries[:number]:
                yield from self.faults_of_pair(name, earlier, (at, session, is_again))

    def faults_of_pair(self, name, earlier, later):
        first_at, first, _, end, word = earlier
        at, session, is_again = later
        if self.nodes.just_went_on(session, at):
            self.late += 1
            return
        told = f"{name} was delivered to {first}, and after {at - first_at:.2f} s to {session}"
        if not is_again:
            yield f"{told} without `redelivered`"
        # What was settled is recorded a moment later: a node that dies after that takes nothing back.
        until = end + RECORDED_SECONDS if word == "settled" and end < at else at
        lived = not self.nodes.was_disturbed(first.node, first_at, until)
        gone = first.end if first.end is not None and first.why else None
        if not lived or gone is not None and gone < at + LATE_SECONDS:
            return
        if end is None or end > at:
            yield f"{told}, while the first had it"
        elif word == "settled":
            yield f"{told}, {at - end:.2f} s after the first had settled it"

    def again(self):
        """How many deliveries were second ones, and how many were marked so without a first."""
        with self.lock:
            lists = [message.deliveries for message in self.messages.values()]
        return sum(len(each) - 1 for each in lists if each), sum(each[0][2] for each in lists if each)

    def gaps(self, begin, end, is_due):
        """The longest time without a confirm that began in a time, for each session and queue that `is_due` names."""
        with self.lock:
            rows = [(session, queue, list(times)) for (session, queue), times in self.confirms.items()]
        longest = []
        for session, queue, times in rows:
            if is_due(session, queue):
                pairs = [later - max(earlier, begin) for earlier, later in zip(times, times[1:])
                         if later > begin and earlier < end]
                longest += [max(pairs)] if pairs else []
        return sorted(longest)


def check(ledger):
    """Raises with the first faults, if there are any."""
    faults = ledger.faults()
    if faults:
        for fault in faults[:FAULTS_MAX]:
            print(fault, flush=True)
        raise AssertionError(f"{len(faults)} faults: {'; '.join(faults[:3])}")
