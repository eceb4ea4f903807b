"""A broker of a case's own, with its HTTP API, for what leaves much behind or counts what is in the node."""

import contextlib

from lab.broker import Broker
from lab.cases import Uri
from suites.management_suite import HTTP, Api


@contextlib.contextmanager
def apart(suite):
    """The suite's cases connect to a broker of its own, where one may be started; its HTTP API, if so."""
    if not suite.options.broker:
        yield None
        return
    broker, before = Broker(suite.options.broker, ["management.tcp.ip=127.0.0.1", "management.tcp.port=0"]), suite.uri
    try:
        suite.uri = Uri(broker.start().uri)
        yield Api("127.0.0.1", broker.port_of(HTTP, "HTTP"), broker.uri)
    finally:
        suite.uri = before
        broker.close()
