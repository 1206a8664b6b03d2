"""Callers that connect over TLS and hang up: how much memory a server keeps, `python -m benchmarks.callers`.

Every other caller begins a handshake first. This process is the server, a thread of it calls.
"""

from __future__ import annotations

import socket
import ssl
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import siag
from benchmarks.crowd import memory
from benchmarks.jobs import STEP
from siag.live.certificates import make_certificates

CALLERS, SETTLE = 3000, 2.0


def call(port: int, context: ssl.SSLContext | None) -> None:
    """Connect, perhaps begin a handshake, and hang up."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        if context is not None:
            outgoing = ssl.MemoryBIO()
            try:
                context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
            except ssl.SSLWantReadError:
                line.sendall(outgoing.read())


def grown(callers: int = CALLERS) -> float:
    """Megabytes by which the server's memory has grown when all have gone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    found: list[float] = []

    def call_all(port: int) -> None:
        call(port, context)
        before = memory()
        for k in range(callers):
            call(port, context if k % 2 else None)
        time.sleep(SETTLE)
        found.append((memory() - before) / 1e6)
        siag.work(f"127.0.0.1:{port}", lambda w, x: w - x, [np.ones(2)] * 3, ca=certificates / "ca.pem")

    with tempfile.TemporaryDirectory() as folder:
        certificates = Path(folder) / "certificates"
        make_certificates(certificates, hosts=["127.0.0.1"], workers=1)
        secret = {"certificate": certificates / "server.pem", "key": certificates / "server.key"}
        threads: list[threading.Thread] = []

        def ready(host: str, port: int) -> None:
            threads.append(threading.Thread(target=call_all, args=(port,)))
            threads[0].start()

        until = siag.Until(reports=3)
        siag.serve(np.zeros(2), 1, step=STEP, until=until, port=0, ready=ready, progress=False, **secret)
        threads[0].join()
    return found[0]


if __name__ == "__main__":
    print(f"{grown():.1f} MB more after {CALLERS:,} callers")
