"""Helpers of the permission cases: users that may touch some names only.

They are made over the HTTP API (--admin), or with `leveret ctl` on a broker of our own (--broker).
Permissions are looked at before names are, so nothing has to exist.
"""

import atexit
import base64
import contextlib
import json
import os
import subprocess
import urllib.parse
import urllib.request

from lab.broker import Broker
from lab.cases import Skip, Suite, Uri

suite = Suite("permission")
PERMISSIONS = ("configure", "write", "read")
_started = []


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


class Tool:
    """The same with the tool of a broker of our own, which is started once."""

    def __init__(self):
        if not _started:
            _started.append(Broker(suite.options.broker))
            atexit.register(_started[0].close)
            _started[0].start()
        self.broker = _started[0]

    def call(self, *words):
        command = [self.broker.binary, "ctl", "--data-dir", os.path.join(self.broker.folder, "data"), *words]
        subprocess.run(command, check=True, capture_output=True, timeout=20)


@contextlib.contextmanager
def restricted(patterns):
    """The URI of a user with these patterns for configure, write and read; without any permission where they are None."""
    name = f"foreign-{os.getpid():x}"
    if suite.options.admin:
        api, vhost = Api(suite.options.admin), urllib.parse.quote(suite.uri.vhost, safe="")
        api.call("PUT", f"users/{name}", {"password": "secret", "tags": ""})
        try:
            if patterns:
                api.call("PUT", f"permissions/{vhost}/{name}", dict(zip(PERMISSIONS, patterns)))
            yield suite.uri.as_user(name, "secret")
        finally:
            api.call("DELETE", f"users/{name}")
        return
    tool = Tool() if suite.options.broker else skip()
    tool.call("add_user", name, "secret")
    try:
        if patterns:
            tool.call("set_permissions", "-p", "/", name, *patterns)
        yield owner().as_user(name, "secret")
    finally:
        tool.call("delete_user", name)


def allow_topics(uri, exchange, pattern):
    """Lets the user of a URI publish to, and bind, only what is like this of an exchange."""
    if suite.options.admin:
        vhost = urllib.parse.quote(uri.vhost, safe="")
        value = {"exchange": exchange, "write": pattern, "read": pattern}
        return Api(suite.options.admin).call("PUT", f"topic-permissions/{vhost}/{uri.user}", value)
    return Tool().call("set_topic_permissions", "-p", "/", uri.user, exchange, pattern, pattern)


def allow(uri, patterns):
    """Gives the user of a URI other permissions: configure, write and read; none at all where they are None."""
    if suite.options.admin:
        path = f"permissions/{urllib.parse.quote(uri.vhost, safe='')}/{uri.user}"
        api = Api(suite.options.admin)
        return api.call("PUT", path, dict(zip(PERMISSIONS, patterns))) if patterns else api.call("DELETE", path)
    words = ("set_permissions", "-p", "/", uri.user, *patterns) if patterns else ("clear_permissions", "-p", "/", uri.user)
    return Tool().call(*words)


def owner():
    """The URI of a user who may do anything where the restricted ones are."""
    if suite.options.admin:
        return suite.uri
    return Uri(Tool().broker.uri) if suite.options.broker else skip()


def skip():
    raise Skip("needs another user: --admin or --broker")


def options(parser):
    parser.add_argument("--broker", default="", help="a leveret to start, and to make users with")
