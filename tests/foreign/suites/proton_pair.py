"""The management link pair through qpid-proton: two links to `/management`, requests over one, answers over the other."""

import collections

from proton import Endpoint, Link, Message, symbol
from proton.reactor import LinkOption

from suites.pika_bench import fresh
from suites.proton_bench import Taker

NODE = "/management"
REPLY_TO = "$me"

Answer = collections.namedtuple("Answer", "code body correlation content properties")


class Request(Message):
    """A message whose missing body is a null value: the client would write no body at all."""

    def encode(self):
        return super().encode() + (b"\x00\x53\x77\x40" if self.body is None else b"")


class Ended(Exception):
    """The session is over; says the condition and the description."""


class Paired(LinkOption):
    """Says that two links of one name and container belong together, and from where the answers go."""

    def __init__(self, paired=True):
        self.paired = paired

    def apply(self, link):
        link.properties = {symbol("paired"): self.paired}
        link.source.address = NODE
        link.target.address = NODE
        link.snd_settle_mode = Link.SND_SETTLED
        link.rcv_settle_mode = Link.RCV_FIRST


class Pair:
    """A pair of links and a count of requests."""

    def __init__(self, connection, credit=64):
        self.connection = connection
        name = fresh("pair")
        self.taker = Taker()
        self.receiver = connection.create_receiver(NODE, credit=credit, handler=self.taker, name=name,
                                                   options=Paired())
        self.sender = connection.create_sender(NODE, name=name, options=Paired())
        self.requests = 0

    def send(self, method, path, body=None, reply_to=REPLY_TO, **properties):
        """Sends without waiting for the answer; answers its number."""
        self.requests += 1
        message = Request(id=self.requests, subject=method, address=path, reply_to=reply_to, body=body, inferred=False,
                          **properties)
        self.sender.send(message)
        return self.requests

    def take(self):
        session = self.sender.link.session
        self.connection.wait(lambda: self.taker.incoming or session.state & Endpoint.REMOTE_CLOSED, timeout=10,
                             msg="an answer")
        if not self.taker.incoming:
            raise Ended(f"{session.remote_condition.name} {session.remote_condition.description}")
        message, delivery = self.taker.incoming.popleft()
        if not delivery.settled:
            delivery.update(delivery.ACCEPTED)
            delivery.settle()
        return Answer(message.subject, message.body, message.correlation_id, message.content_type, message.properties)

    def ask(self, method, path, body=None, **properties):
        """The code and the body of the answer."""
        number = self.send(method, path, body, **properties)
        answer = self.take()
        if answer.correlation != number:
            raise AssertionError(f"answer to {answer.correlation}, asked {number}")
        return answer.code, answer.body
