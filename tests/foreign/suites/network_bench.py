"""Helpers of the suites over TLS and WebSocket: a broker of our own that listens for both, or one that runs.

Certificates are made for the run. A RabbitMQ with TLS takes part with `--tls HOST:PORT --certificates FOLDER`.
"""

import atexit
import os
import re
import shutil
import ssl
import subprocess
import tempfile

from lab import certificates
from lab.broker import Broker
from lab.cases import Skip

SETTINGS = {
    "listeners.ssl.1": "127.0.0.1:0",
    "web_amqp.tcp.listener": "127.0.0.1:0",
    "web_amqp.ssl.listener": "127.0.0.1:0",
    "web_amqp.allow_origins.1": "https://ours.example",
    "ssl_options.cacertfile": "{folder}/ca.pem",
    "ssl_options.certfile": "{folder}/server.pem",
    "ssl_options.keyfile": "{folder}/server.key",
    "ssl_options.verify": "verify_peer",
    "ssl_cert_login_from": "common_name",
    "auth_mechanisms.1": "PLAIN",
    "auth_mechanisms.2": "AMQPLAIN",
    "auth_mechanisms.3": "ANONYMOUS",
    "auth_mechanisms.4": "EXTERNAL",
}
LISTENERS = {"tls": b"TLS", "ws": b"WebSocket", "wss": b"WebSocket over TLS"}


def options(parser):
    parser.add_argument("--broker", default="", help="a leveret binary; the suite starts one that listens for all")
    parser.add_argument("--tls", default="", help="HOST:PORT where a running broker speaks AMQP over TLS")
    parser.add_argument("--certificates", default="", help="the folder with that broker's certificates")


def alarm(broker):
    """A function that runs words of the command line at a broker of our own."""
    def run(*words):
        subprocess.run([broker.binary, "ctl", "-q", "--data-dir", os.path.join(broker.folder, "data"), *words], check=True,
                       timeout=20, stdout=subprocess.DEVNULL)
    return run


class Ground:
    """The broker, its ports and the folder of certificates; made when first asked for."""

    def __init__(self, suite):
        self.suite = suite
        self.started = {}
        self.own_folder = None

    @property
    def folder(self):
        if self.suite.options.certificates:
            return self.suite.options.certificates
        if self.own_folder is None:
            self.own_folder = tempfile.mkdtemp(prefix="leveret-certificates-")
            atexit.register(shutil.rmtree, self.own_folder, ignore_errors=True)
            certificates.make(self.own_folder)
        return self.own_folder

    def broker(self, **more):
        """A broker of our own with these settings besides the usual ones; started once for each."""
        if not self.suite.options.broker:
            raise Skip(self.suite.without_broker)
        key = tuple(sorted(more.items()))
        if key not in self.started:
            values = {**SETTINGS, **{name.replace("__", "."): value for name, value in more.items()}}
            settings = [f"{name}={value.format(folder=self.folder)}" for name, value in values.items()]
            broker = Broker(self.suite.options.broker, settings)
            atexit.register(broker.close)
            self.started[key] = broker.start()
        return self.started[key]

    def port(self, kind, **more):
        """Where this kind is spoken: `tls`, `ws` or `wss`."""
        if kind == "tls" and self.suite.options.tls and not more:
            return int(self.suite.options.tls.rpartition(":")[2])
        broker = self.broker(**more)
        with open(broker.log, "rb") as log:
            found = re.search(rb"started " + LISTENERS[kind] + rb" listener on \S*?:(\d+)", log.read())
        return int(found.group(1))

    def context(self, own=None, newest=None, oldest=None):
        """A client's settings of TLS: it trusts the run's root; `own`: the name of the certificate it shows."""
        context = ssl.create_default_context(cafile=os.path.join(self.folder, "ca.pem"))
        if own:
            context.load_cert_chain(*(os.path.join(self.folder, own + end) for end in (".pem", ".key")))
        if oldest:
            context.minimum_version = oldest
        if newest:
            context.maximum_version = newest
        return context
