"""Keeps so many half-open connections to a port, from one address: those that the broker closes are opened again.

    python -m suites.tenants_flood PORT COUNT KIND ORIGIN

A process of its own, so that its work is not the measurement's. It says `full HELD` once it has opened them, or as
many as it could in a few seconds, and how many of them the broker keeps; it goes on until its standard input ends.
KIND is what each connection says and no more: nothing, half a request, the first bytes of a TLS record, or a whole
hello of TLS, which the broker answers. HELD is the most that it kept at once until then.
"""

import errno
import selectors
import socket
import ssl
import sys
import time

HALF = b"GET /api/overview HTTP/1.1\r\nHost: x\r\n"
# Connections opened again in a second: a flood, and yet less than a machine's whole time.
AGAIN_MAX = 400
FIRST_SECONDS_MAX = 6
# Connections that wait for an answer at once, and how long each does. A listener whose backlog is full answers nothing,
# and the system would ask again a second later.
ASKING_MAX, ASKING_SECONDS_MAX = 64, 0.1


def hello():
    """The first bytes of a client of TLS 1.3."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    sent = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
    raise AssertionError("a handshake without a peer")


KINDS = {"silent": lambda: b"", "half": lambda: HALF, "record": lambda: b"\x16\x03\x01", "hello": hello}


class Flood:
    def __init__(self, port, count, kind, origin):
        self.port, self.count, self.first, self.origin = port, count, KINDS[kind](), origin
        self.selector = selectors.DefaultSelector()
        # Connections that the broker keeps, and since when others wait for an answer of its system, oldest first.
        self.held, self.asking = 0, {}

    def open(self):
        """Asks for one more, without a wait for the answer."""
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setblocking(False)
        try:
            one.bind((f"127.0.0.{self.origin}", 0))
            asked = one.connect_ex(("127.0.0.1", self.port))
        except OSError:
            one.close()
            return
        if asked not in (0, errno.EINPROGRESS):
            one.close()
            return
        self.selector.register(one, selectors.EVENT_WRITE)
        self.asking[one] = time.monotonic()

    def forget(self):
        """Gives up those that have waited for long."""
        for one, since in list(self.asking.items()):
            if time.monotonic() - since < ASKING_SECONDS_MAX:
                return
            del self.asking[one]
            self.selector.unregister(one)
            one.close()

    def opened(self, one):
        """The system has answered: what this kind says is said."""
        del self.asking[one]
        try:
            refusal = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if refusal:
                raise OSError(refusal, "the connection is refused")
            one.send(self.first)
        except OSError:
            self.selector.unregister(one)
            one.close()
            return
        self.selector.modify(one, selectors.EVENT_READ)
        self.held += 1

    def sweep(self, seconds):
        """Closes those that the broker has closed, and reads the others' answers; False once it is to end."""
        for key, events in self.selector.select(seconds):
            if key.fileobj is sys.stdin:
                return False
            if events & selectors.EVENT_WRITE:
                self.opened(key.fileobj)
                continue
            try:
                if key.fileobj.recv(1 << 16):
                    continue
            except BlockingIOError:
                continue
            except OSError:
                pass
            self.selector.unregister(key.fileobj)
            key.fileobj.close()
            self.held -= 1
        return True

    def run(self):
        self.selector.register(sys.stdin, selectors.EVENT_READ)
        begin, is_full, opened, most = time.monotonic(), False, 0, 0
        while True:
            self.forget()
            now = time.monotonic()
            most = max(most, self.held)
            if not is_full and (self.held >= self.count or now - begin > FIRST_SECONDS_MAX):
                print(f"full {most}", flush=True)
                is_full, begin, opened = True, now, 0
            room = min(self.count - self.held - len(self.asking), ASKING_MAX - len(self.asking))
            if is_full:
                room = min(room, int((now - begin) * AGAIN_MAX) - opened)
            for _ in range(room):
                self.open()
                opened += 1
            if not self.sweep(0.002):
                return


if __name__ == "__main__":
    Flood(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])).run()
