"""Many connected workers of which few report, or all, over TCP or TLS.

`python -m benchmarks.crowd tcp 50:50 1000:50` serves 50 that all report, then 1000 of which 50 do; it prints what each
took. This process is the server. One other plays all workers. Those that do not report have said hello, hold their
connection, and give the sign of life that a worker with a long gradient gives, each at a time of its own. The process
never sleeps, with a crowd or without. Workers are elsewhere; one that sleeps on this machine has to be woken by the
server, which makes the call that sends an answer some three times as long, and how often it sleeps depends on how the
two fall into step, of which any other process that wakes now and then puts them out. That is no cost of serving.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import select
import socket
import ssl
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import numpy as np

import siag
from benchmarks.jobs import ENOUGH, STEP, Watch
from siag.live.certificates import make_certificates
from siag.live.protocol import wire
from siag.live.protocol.worker import HEARTBEAT
from siag.live.security import client_context
from siag.server.parameter_server import ParameterServer
from siag.server.status import Snapshot

D, SECONDS, JOINING = 20, 1.0, 0.8
EACH = 3e-4  # seconds for each worker, until it has reported and that was seen
JOINING_AT_ONCE = 4
TRIES = 3
FRAME = wire.HEADER.size + 8 * D


def memory() -> int:
    """Bytes of this process in memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def receive(line: socket.socket, count: int) -> bytes:
    """So many bytes; TLS has no flag to wait for them all."""
    found = line.recv(count)
    while len(found) < count and (more := line.recv(count - len(found))):
        found += more
    return found


def hello(port: int, name: int, context: ssl.SSLContext | None) -> socket.socket:
    """A connection on which everything up to the first w has been said."""
    line = socket.create_connection(("127.0.0.1", port))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is not None:
        line = context.wrap_socket(line, server_hostname="127.0.0.1")
    line.sendall(wire.text(wire.HELLO, {"protocol": wire.PROTOCOL, "worker": str(name), "token": None}))
    kind = 0
    while kind != wire.MODEL:
        length, kind, *_ = wire.HEADER.unpack(receive(line, wire.HEADER.size))
        receive(line, length)
    return line


def play(ports, reporting: int, connected: int, ca: Path | None) -> None:
    """All workers: the first report as soon as they are sent w, the others do not."""
    port, context = ports.get(), None if ca is None else client_context(ca)
    with ThreadPoolExecutor(JOINING_AT_ONCE) as threads:  # so that both ends of a handshake are at work
        lines = list(threads.map(lambda name: hello(port, name, context), range(connected)))
    lines, others = lines[:reporting], lines[reporting:]
    by_number = {line.fileno(): [line, 0] for line in lines}
    poll = select.epoll()
    for number, (line, _) in by_number.items():
        poll.register(number, select.EPOLLIN)
        line.sendall(wire.head(wire.REPORT, 8 * D, 0, 0) + bytes(8 * D))
    turns, apart, due = cycle(others), HEARTBEAT / max(1, len(others)), time.monotonic()
    try:
        while True:
            while others and time.monotonic() > due:
                next(turns).sendall(wire.head(wire.ALIVE))
                due += apart
            for number, _ in poll.poll(0):  # it never sleeps, see above
                entry = by_number[number]
                frame = receive(entry[0], FRAME)
                _, kind, _, stamp, *_ = wire.HEADER.unpack_from(frame)
                if kind != wire.MODEL:
                    return
                entry[1] += 1
                entry[0].sendall(wire.head(wire.REPORT, 8 * D, stamp, entry[1]) + frame[wire.HEADER.size :])
    except (OSError, wire.struct.error):
        return


class Scale(Watch):
    """Weighs the process with every look, and notes the time it took while reports were counted."""

    most = 0
    began = used = float("nan")

    def show(self, snapshot: Snapshot) -> None:
        """A look at the server."""
        super().show(snapshot)
        self.most = max(self.most, memory())
        if self.points:
            self.used = time.process_time()
            self.began = self.used if len(self.points) == 1 else self.began


def serve(connected: int, reporting: int, before: int, secrets: Path | None, more: float = 0.0) -> dict[str, float]:
    """Serve them; the rate, seconds of the server's own per report, its memory, and by how much that grew, in bytes."""
    context = multiprocessing.get_context("fork")
    ports = context.SimpleQueue()
    process = context.Process(target=play, args=(ports, reporting, connected, secrets and secrets / "ca.pem"))
    process.start()
    watch = Scale(reporting, connected)
    seconds = SECONDS + JOINING + EACH * connected + more
    tls = {} if secrets is None else {"certificate": secrets / "server.pem", "key": secrets / "server.key"}
    siag.serve(
        np.zeros(D),
        connected,
        step=STEP,
        until=siag.Until(seconds=seconds),
        port=0,
        ready=lambda host, port: ports.put(port),
        progress=watch,
        **tls,
    )
    process.join()
    if watch.seconds < ENOUGH * SECONDS:
        if more >= TRIES:
            raise SystemExit(f"{connected} workers: they do not get to work in {seconds:g} seconds")
        return serve(connected, reporting, before, secrets, more + 1.0)
    cpu = (watch.used - watch.began) / (watch.rate * watch.seconds)
    return {"rate": watch.rate, "cpu": cpu, "grown": watch.most - before, "memory": watch.most}


def main(transport: str, crowds: list[str]) -> None:
    """Serve them all, one crowd after the other, and print what came out."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the other process has as many connections
    warm = ParameterServer(siag.methods.SIAG(), STEP, np.zeros(D), workers=1)
    warm.push(0, stamp=0, message=np.zeros(D), sample=0, now=0.0)
    with tempfile.TemporaryDirectory() as folder:
        secrets = Path(folder) / "certificates" if transport == "tls" else None
        if secrets is not None:
            make_certificates(secrets, hosts=["127.0.0.1"], workers=1)
        before = memory()
        for crowd in crowds:
            connected, reporting = map(int, crowd.split(":"))
            print(json.dumps(serve(connected, reporting, before, secrets)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
