"""What the permission cases share: users that may touch some names only.

They are made over the HTTP API (--admin), or are the default user of a broker of our own whose settings
say so (--broker). Permissions are looked at before names are, so nothing has to exist.
"""

import atexit
import base64
import contextlib
import json
import os
import urllib.parse
import urllib.request

from lab.broker import Broker
from lab.cases import Skip, Suite, Uri

suite = Suite("permission")
PERMISSIONS = ("configure", "write", "read")
_started = {}


class Api:
    """The few calls of the HTTP API that make a user."""

    def __init__(self, base):
        parts = urllib.parse.urlsplit(base)
        self.root = f"{parts.scheme}://{parts.hostname}:{parts.port}/api"
        self.login = base64.b64encode(f"{parts.username}:{parts.password}".encode()).decode()

    def call(self, method, path, value=None):
        request = urllib.request.Request(
            f"{self.root}/{path}", None if value is None else json.dumps(value).encode(), method=method,
            headers={"authorization": f"Basic {self.login}", "content-type": "application/json"})
        urllib.request.urlopen(request, timeout=10).close()


@contextlib.contextmanager
def made_user(patterns, topics=()):
    """A user with these patterns for configure, write and read, if any, and for topics: (exchange, write, read)."""
    api, name, vhost = Api(suite.options.admin), f"foreign-{os.getpid():x}", urllib.parse.quote(suite.uri.vhost, safe="")
    api.call("PUT", f"users/{name}", {"password": "secret", "tags": ""})
    try:
        if patterns:
            api.call("PUT", f"permissions/{vhost}/{name}", dict(zip(PERMISSIONS, patterns)))
        for exchange, write, read in topics:
            api.call("PUT", f"topic-permissions/{vhost}/{name}", {"exchange": exchange, "write": write, "read": read})
        yield suite.uri.as_user(name, "secret")
    finally:
        api.call("DELETE", f"users/{name}")


@contextlib.contextmanager
def restricted(patterns):
    """The URI of a user with these patterns for configure, write and read."""
    if suite.options.admin:
        with made_user(patterns) as uri:
            yield uri
    elif suite.options.broker:
        if patterns not in _started:
            settings = [f"default_permissions.{name}={pattern}" for name, pattern in zip(PERMISSIONS, patterns)]
            _started[patterns] = Broker(suite.options.broker, settings)
            atexit.register(_started[patterns].close)
            _started[patterns].start()
        yield Uri(_started[patterns].uri)
    else:
        raise Skip("needs another user: --admin or --broker")


def owner():
    """The URI of a user who may do anything where the restricted ones are."""
    if not suite.options.admin:
        raise Skip("needs a second user: --admin")
    return suite.uri


def options(parser):
    parser.add_argument("--broker", default="", help="a leveret to start with such a default user")
