"""A broker of our own: started on a free port and a temporary folder, stopped by its id.

Only a process that this class started is ever signalled. The folder goes when the
broker is closed, unless it is to be kept for a look.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from lab import several

START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 30
LISTENER = re.compile(rb"started TCP listener on \S*?:(\d+)")
WEB_LISTENER = re.compile(rb"started WebSocket listener on \S*?:(\d+)")
SECURE_STREAM_LISTENER = re.compile(rb"started stream TLS listener on \S*?:(\d+)")
STREAM_LISTENER = re.compile(rb"started stream listener on \S*?:(\d+)")
READY = b"Server startup complete"
# As RabbitMQ without being told: there ANONYMOUS stands for an administrator.
USUAL = ("anonymous_login_user=guest",)


class BrokerError(Exception):
    """The broker did not start or did not stop; carries the end of its log."""


class Broker:
    def __init__(self, binary, settings=(), folder=None, usual=USUAL, nodes=None):
        self.binary = os.path.abspath(binary)
        self.settings = [*usual, *settings]
        self.folder = folder or tempfile.mkdtemp(prefix="leveret-foreign-")
        self.log = os.path.join(self.folder, "broker.log")
        self.process = None
        self.port = None
        self.start_seconds = None
        self.begin = None
        self.said_before = 0
        self.others = None
        self.is_closed = False
        self.moves = 0
        nodes = several.count() if nodes is None else nodes
        if nodes > 1:
            self.others = several.Others(self.alone, self.folder, self.settings, nodes)
            self.settings = [*self.settings, *self.others.settings]

    def alone(self, folder, settings):
        """A broker of the same program without others."""
        os.makedirs(folder, exist_ok=True)
        return Broker(self.binary, settings, folder, usual=(), nodes=1)

    @property
    def uri(self):
        return f"amqp://guest:guest@127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self.process.pid

    def start(self, wait=True):
        """Returns when the broker says that all listeners accept, or does not `wait`."""
        if self.others and not self.others.are_up():
            self.others.start()
            several.keep_moving(self)
        words = [self.binary, "server", "--data-dir", os.path.join(self.folder, "data")]
        for setting in ["listeners.tcp.default=127.0.0.1:0", *self.settings]:
            words += ["--set", setting]
        self.begin = time.monotonic()
        with open(self.log, "ab") as log:
            self.said_before = log.tell()
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        return self.wait() if wait else self

    def wait(self):
        """Returns when the broker says that all listeners accept."""
        while True:
            with open(self.log, "rb") as log:
                log.seek(self.said_before)
                said = log.read()
            listener = LISTENER.search(said)
            if READY in said and listener:
                self.port = int(listener.group(1))
                self.start_seconds = time.monotonic() - self.begin
                break
            if self.process.poll() is not None:
                raise BrokerError(f"the broker ended with {self.process.returncode}: {self.last_line()}")
            if time.monotonic() - self.begin > START_SECONDS_MAX:
                self.kill()
                raise BrokerError(f"not ready after {START_SECONDS_MAX} s: {self.last_line()}")
            time.sleep(0.005)
        if self.others:
            several.until(lambda: several.has_catalog(self), "catalog")
        return self

    def web_port(self):
        """Where it speaks WebSocket, if it was told to."""
        return self.port_of(WEB_LISTENER, "WebSocket")

    def stream_port(self):
        """Where it speaks to stream clients."""
        return self.port_of(STREAM_LISTENER, "stream")

    def secure_stream_port(self):
        """Where it speaks to them over TLS."""
        return self.port_of(SECURE_STREAM_LISTENER, "stream TLS")

    def port_of(self, pattern, what):
        with open(self.log, "rb") as log:
            listeners = pattern.findall(log.read())
        if not listeners:
            raise BrokerError(f"no {what} listener in the log")
        return int(listeners[-1])

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """kill -9: nothing in the process gets to run again."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """SIGTERM, which must end the broker cleanly; answers its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerError(f"still running {STOP_SECONDS_MAX} s after SIGTERM") from None

    def close(self, keep=False):
        self.is_closed = True
        if self.alive():
            self.kill()
        if self.others:
            self.others.close()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def last_line(self):
        with open(self.log, "rb") as log:
            lines = log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no output"


def resident_bytes(pid):
    """Resident memory of a process, or None where the system does not tell."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
