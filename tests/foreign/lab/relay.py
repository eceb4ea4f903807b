"""A relay before the broker whose connections can be cut, for clients that must come back.

It passes bytes both ways and looks at none. Whoever connects to its second port has all
relayed connections reset; that connection is closed when it is done. New ones are taken
at once, so a client that connects again gets through.
"""

import contextlib
import selectors
import socket
import struct
import threading

CHUNK_BYTES = 1 << 16
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close sends RST


class Relay:
    def __init__(self, host, port):
        self._to = (host, port)
        self._selector = selectors.DefaultSelector()
        self._pairs = {}
        self._in = self._listen()
        self._cut = self._listen()
        self.port = self._in.getsockname()[1]
        self.cut_port = self._cut.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def cut(self):
        """Resets all relayed connections; returns when that is done."""
        with socket.create_connection(("127.0.0.1", self.cut_port), 10) as knock:
            knock.recv(1)

    def _listen(self):
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._selector.register(listener, selectors.EVENT_READ)
        return listener

    def _run(self):
        while True:
            for key, _events in self._selector.select():
                if key.fileobj is self._in:
                    self._take()
                elif key.fileobj is self._cut:
                    knock = self._cut.accept()[0]
                    for one in list(self._pairs):
                        self._drop(one)
                    knock.close()
                elif key.fileobj in self._pairs:
                    self._pass(key.fileobj)

    def _take(self):
        client = self._in.accept()[0]
        try:
            server = socket.create_connection(self._to, 10)
        except OSError:
            client.close()
            return
        for one, other in ((client, server), (server, client)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass(self, one):
        try:
            data = one.recv(CHUNK_BYTES)
            if data:
                self._pairs[one].sendall(data)
                return
        except OSError:
            pass
        self._drop(one)

    def _drop(self, one):
        other = self._pairs.get(one)
        for end in (one, other):
            if end is not None and self._pairs.pop(end, None) is not None:
                self._selector.unregister(end)
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                end.close()
