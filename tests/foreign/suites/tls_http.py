"""The HTTP API and metrics over TLS, and certificates that are read anew while the broker runs."""

import base64
import json
import os
import re
import socket
import ssl
import tempfile
from http.client import HTTPSConnection

from lab import certificates
from lab.broker import Broker
from lab.cases import equal

PORTS = {
    "https": re.compile(rb"started HTTPS listener on \S*?:(\d+)"),
    "metrics": re.compile(rb"started Prometheus over TLS listener on \S*?:(\d+)"),
    "amqps": re.compile(rb"started TLS listener on \S*?:(\d+)"),
}


# What browsers are told about coming over TLS.
POLICY = "max-age=600; includeSubDomains"


class Ground:
    """A broker with TLS on three kinds of listeners, and the folder of its certificates."""

    def __init__(self, binary, folder):
        self.folder = folder
        self.policy = None  # of the last answer
        certificates.make(folder)
        files = {"certfile": "server.pem", "keyfile": "server.key"}
        options = [f"{prefix}.{name}={os.path.join(folder, file)}" for name, file in files.items()
                   for prefix in ("ssl_options", "management.ssl", "prometheus.ssl")]
        self.broker = Broker(binary, [
            "listeners.ssl.default=127.0.0.1:0", "management.ssl.ip=127.0.0.1", "management.ssl.port=0",
            "prometheus.ssl.ip=127.0.0.1", "prometheus.ssl.port=0", f"management.hsts.policy={POLICY}",
            *options]).start()
        self.ports = {name: self.broker.port_of(pattern, name) for name, pattern in PORTS.items()}

    def context(self):
        return ssl.create_default_context(cafile=os.path.join(self.folder, "ca.pem"))

    def ask(self, method, path, port="https", context=None):
        connection = HTTPSConnection("localhost", self.ports[port], timeout=20, context=context or self.context())
        try:
            head = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
            connection.request(method, path, headers=head)
            response = connection.getresponse()
            self.policy = response.getheader("strict-transport-security")
            return response.status, response.read()
        finally:
            connection.close()

    def shakes_hands(self, port, context):
        try:
            with socket.create_connection(("localhost", self.ports[port]), timeout=20) as plain, \
                    context.wrap_socket(plain, server_hostname="localhost"):
                return True
        except ssl.SSLError:
            return False

    def certificate(self):
        with open(os.path.join(self.folder, "server.pem"), encoding="ascii") as file:
            return file.read()


def served(binary):
    with tempfile.TemporaryDirectory(prefix="leveret-certificates-") as folder:
        ground = Ground(binary, folder)
        try:
            equal((ground.ask("GET", "/api/whoami")[0], ground.policy), (200, POLICY))
            equal((ground.ask("GET", "/")[0], ground.policy), (200, POLICY))
            status, text = ground.ask("GET", "/metrics", "metrics")
            equal((status, b"rabbitmq_identity_info" in text, ground.policy), (200, True, None))
            equal(b"started HTTP listener" in open(ground.broker.log, "rb").read(), False)
            with socket.create_connection(("localhost", ground.ports["https"]), timeout=20) as plain:
                plain.sendall(b"GET /api/whoami HTTP/1.1\r\nhost: h\r\n\r\n")
                equal(plain.recv(12).startswith(b"HTTP"), False)
            listeners = json.loads(ground.ask("GET", "/api/overview")[1])["listeners"]
            equal({"https", "https/prometheus"} <= {own["protocol"] for own in listeners}, True)
            # The certificates are made for two days.
            equal(ground.ask("GET", "/api/health/checks/certificate-expiration/1/days")[0], 200)
            equal(ground.ask("GET", "/api/health/checks/certificate-expiration/1/weeks")[0], 503)
        finally:
            ground.broker.close()


def reloaded(binary):
    with tempfile.TemporaryDirectory(prefix="leveret-certificates-") as folder:
        ground = Ground(binary, folder)
        try:
            before = ground.context()
            for name in os.listdir(folder):
                os.remove(os.path.join(folder, name))
            certificates.make(folder)
            after = ground.context()
            shakes = lambda context: {ground.shakes_hands(port, context) for port in PORTS}
            equal((shakes(before), shakes(after)), ({True}, {False}), "before they are read")
            equal(ground.ask("POST", "/api/x/certificates/reload", context=before)[0], 200)
            equal((shakes(before), shakes(after)), ({False}, {True}), "after they were read")
            with open(os.path.join(folder, "server.key"), "w", encoding="ascii") as file:
                file.write("no key")
            equal(ground.ask("POST", "/api/x/certificates/reload")[0], 400)
            equal(shakes(after), {True}, "what is wrong changes nothing")
        finally:
            ground.broker.close()
