"""A bad network, for tests."""

import random
import select
import socket
import threading
from contextlib import suppress


class Proxy:
    """A line between workers and a server that is as bad as it is told to be.

    Args:
        port: of the server.
        spoil: called with the proxy's random numbers and some bytes; returns those to pass on, None to hang up.
    """

    def __init__(self, port, spoil, seed=1):
        self._to, self._spoil, self._random = port, spoil, random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.passed = 0  # connections
        self._over = False
        self._thread = threading.Thread(target=self._accept)
        self._threads = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over = True
        self._thread.join()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self):
        while not self._over:
            if select.select([self._listener], [], [], 0.05)[0]:
                near, _ = self._listener.accept()
                self.passed += 1
                thread = threading.Thread(target=self._carry, args=(near,))
                thread.start()
                self._threads.append(thread)

    def _carry(self, near):
        with near, suppress(OSError), socket.create_connection(("127.0.0.1", self._to)) as far:
            other = {near: far, far: near}
            while not self._over:
                for each in select.select([near, far], [], [], 0.05)[0]:
                    data = each.recv(1 << 16)
                    data = self._spoil(self._random, data) if data else None
                    if data is None:
                        return
                    other[each].sendall(data)
