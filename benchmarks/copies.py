"""Bare copies over the sockets that the live server uses: what carrying alone leaves time for.

A process sends back whatever it gets, a thread for each of some others, which send it an array and read it again and
again: as many bytes, calls of the system and, over TLS, bytes to encrypt and to decrypt as reports and models take.
`python -m benchmarks.copies tls 1000000 4`.
"""

from __future__ import annotations

import socket
import ssl
import sys
import tempfile
import threading
import time
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from siag.live.certificates import make_certificates

STARTING = 30.0  # seconds for processes to connect


def send_and_read(line: Any, view: memoryview, *, first: bool) -> None:
    """Send an array and read one of its size, or the other way round."""
    if first:
        line.sendall(view)
    got = 0
    while got < len(view):
        count = line.recv_into(view[got:])
        if not count:
            raise EOFError
        got += count
    if not first:
        line.sendall(view)


def echo(caller: socket.socket, context: ssl.SSLContext | None, size: int, counts: list[int], k: int) -> None:
    """Send everything back, until the other end hangs up."""
    caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line: Any = caller if context is None else context.wrap_socket(caller, server_side=True)
    view = memoryview(bytearray(size))
    with suppress(EOFError, OSError):
        while True:
            send_and_read(line, view, first=False)
            counts[k] += 1


def copy(port: int, secret: bool, size: int) -> None:
    """Send an array and read it, for ever."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=STARTING)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    line: Any = context.wrap_socket(plain) if secret else plain
    view = memoryview(bytearray(size))
    with suppress(EOFError, OSError):
        while True:
            send_and_read(line, view, first=True)


def rate(secret: bool, size: int, workers: int, seconds: float) -> float:
    """Arrays of so many bytes that went there and back, a second, over all connections together."""
    processes = get_context("fork")
    context = _context() if secret else None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(STARTING)
        port, counts = listener.getsockname()[1], [0] * workers
        clients = [processes.Process(target=copy, args=(port, secret, size), daemon=True) for _ in range(workers)]
        for client in clients:
            client.start()
        threads = []
        for k in range(workers):
            caller, _ = listener.accept()
            caller.settimeout(None)
            threads.append(threading.Thread(target=echo, args=(caller, context, size, counts, k), daemon=True))
            threads[k].start()
        while not all(counts):
            time.sleep(0.001)
        began, before = time.perf_counter(), sum(counts)
        time.sleep(seconds)
        found = (sum(counts) - before) / (time.perf_counter() - began)
        for client in clients:
            client.terminate()
        for each in [*clients, *threads]:
            each.join()
    return found


def _context() -> ssl.SSLContext:
    """The server's, as siag's is."""
    with tempfile.TemporaryDirectory() as folder:
        make_certificates(Path(folder) / "made", hosts=["127.0.0.1"], workers=1)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(Path(folder) / "made" / "server.pem", Path(folder) / "made" / "server.key")
    return context


if __name__ == "__main__":
    kind, d, n = sys.argv[1:]
    print(f"{rate(kind == 'tls', 8 * int(d), int(n), 2.0):.1f} arrays of {d} doubles there and back a second")
