"""Helpers of the cases of limits and settings: brokers with settings of their own, administrators, connections.

Each case has a broker with settings of its own (--broker), or asks the running one over the HTTP API (--admin) where that can
set what the case needs; what neither can is skipped, and says so. A running broker that was started with some settings can be
asked for what needs those: `--given "heartbeat=2;NAME=VALUE"`; and `--tool "COMMAND ..."` is its own tool for alarms.
"""

import atexit
import contextlib
import os
import subprocess
import time
import urllib.parse

import pika
from pika import exceptions

from lab.broker import Broker
from lab.cases import Skip, Suite, Uri
from suites.permission_bench import Api

suite = Suite("limits")
_started = {}


class Http:
    """Users, virtual hosts and their limits over the HTTP API of a running broker."""

    def __init__(self):
        self.api = Api(suite.options.admin)
        self.uri = suite.uri

    def add_user(self, name):
        self.api.call("PUT", f"users/{name}", {"password": "secret", "tags": ""})
        self.permit(name, self.uri.vhost)

    def permit(self, name, vhost):
        path = f"permissions/{urllib.parse.quote(vhost, safe='')}/{name}"
        self.api.call("PUT", path, {"configure": ".*", "write": ".*", "read": ".*"})

    def delete_user(self, name):
        self.api.call("DELETE", f"users/{name}")

    def tag_user(self, name, tag):
        self.api.call("PUT", f"users/{name}", {"password": "secret", "tags": tag})

    def add_vhost(self, name):
        self.api.call("PUT", f"vhosts/{name}")
        self.permit(self.uri.user, name)

    def delete_vhost(self, name):
        self.api.call("DELETE", f"vhosts/{name}")

    def limit(self, kind, name, what, number):
        self.api.call("PUT", f"{kind}-limits/{name}/{what}", {"value": number})


class Ctl:
    """The same through the command-line tool of a broker of our own."""

    def __init__(self, broker):
        self.broker = broker
        self.uri = Uri(broker.uri)

    def run(self, *words):
        data = os.path.join(self.broker.folder, "data")
        subprocess.run([self.broker.binary, "ctl", "-q", "--data-dir", data, *words], check=True, timeout=20,
                       stdout=subprocess.DEVNULL)

    def fails(self, *words):
        data = os.path.join(self.broker.folder, "data")
        done = subprocess.run([self.broker.binary, "ctl", "-q", "--data-dir", data, *words], timeout=20, text=True,
                              capture_output=True)
        return done.stderr.strip() if done.returncode else None

    def add_user(self, name):
        self.run("add_user", name, "secret")
        self.permit(name, "/")

    def permit(self, name, vhost):
        self.run("set_permissions", "-p", vhost, name, ".*", ".*", ".*")

    def delete_user(self, name):
        self.run("delete_user", name)

    def tag_user(self, name, tag):
        self.run("set_user_tags", name, tag)

    def add_vhost(self, name):
        self.run("add_vhost", name)
        self.permit("guest", name)

    def delete_vhost(self, name):
        self.run("delete_vhost", name)

    def limit(self, kind, name, what, number):
        definition = f'{{"{what}": {number}}}'
        words = ("-p", name, definition) if kind == "vhost" else (name, definition)
        self.run(f"set_{kind}_limits", *words)


class Given:
    """The running broker, where it was started with what a case needs."""

    def __init__(self):
        self.uri = suite.uri.text


def started(*settings):
    if settings and set(settings) <= set(suite.options.given.split(";")):
        return Given()
    if not suite.options.broker:
        raise Skip("needs settings of its own: --broker; RabbitMQ was asked so by hand")
    if settings not in _started:
        _started[settings] = Broker(suite.options.broker, settings)
        atexit.register(_started[settings].close)
        _started[settings].start()
    return _started[settings]


def desk():
    if suite.options.admin:
        return Http()
    return Ctl(started())


def connect(uri, user=None, password=None, vhost=None, **changed):
    credentials = pika.PlainCredentials(user or uri.user, password or uri.password)
    return pika.BlockingConnection(pika.ConnectionParameters(
        uri.host, uri.port, vhost or uri.vhost, credentials, socket_timeout=15, **changed))


def refused(uri, **who):
    """The answer to a connection that is not let in."""
    try:
        connect(uri, **who).close()
    except exceptions.AMQPConnectionError as error:
        return error.args[0] if error.args else type(error).__name__
    return None


def closed(connection, seconds_max=10):
    """Code and text of the close that comes without being asked for."""
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        try:
            connection.process_data_events(0.1)
        except exceptions.ConnectionClosedByBroker as error:
            return error.reply_code, error.reply_text
    return None


def refusal(act):
    try:
        act()
    except (exceptions.ChannelClosedByBroker, exceptions.ConnectionClosedByBroker) as error:
        return error.reply_code, error.reply_text
    return None


@contextlib.contextmanager
def made(kind, **limits):
    """A desk and the name of a user or virtual host with these limits; gone afterwards."""
    admin, name = desk(), f"foreign-{kind}-{os.getpid():x}"
    getattr(admin, f"add_{kind}")(name)
    try:
        for what, number in limits.items():
            admin.limit(kind, name, what.replace("_", "-"), number)
        yield admin, name
    finally:
        with contextlib.suppress(Exception):
            getattr(admin, f"delete_{kind}")(name)


def add_options(parser):
    parser.add_argument("--broker", default="", help="a leveret to start")
    parser.add_argument("--given", default="", help="settings the running broker was started with, between semicolons")
    parser.add_argument("--stream-port", type=int, default=5552)
    parser.add_argument("--tool", default="", help="the command line of the running broker's tool")
