"""The latest snapshot for Prometheus, over HTTP, in its text format 0.0.4.

The ages of reports are a counter per bin: "0", "1", "2-3", "4-7" and so on. They are no histogram of Prometheus': that
would need the sum of all ages, and a snapshot does not have it.
"""

from __future__ import annotations

import errno
import math
import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from siag.foundations import check
from siag.foundations.errors import BadInput, reason_of
from siag.live.security import check_open
from siag.server.snapshot import STATES, Snapshot, WorkerView, bin_label

FORMAT = "text/plain; version=0.0.4; charset=utf-8"
POLL = 0.1  # seconds until the thread that serves notices that it should end

Samples = Iterable[tuple[dict[str, str], float]]  # labels and value


class Metrics:
    """Serves the latest snapshot at /metrics, from a thread of its own, until it is closed.

    Args:
        host: the address to listen at; only this machine can reach the default.
        port: 0 takes any free one; `port` says which.
        insecure: listen beyond this machine; whoever can reach the port may read the metrics.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, insecure: bool = False) -> None:
        self._latest: Snapshot | None = None
        port = check.integer("port", port, low=0, high=65535)
        check_open("host", host, insecure)
        self._server = _listen(host, port, self)
        self.host, self.port = str(self._server.server_address[0]), int(self._server.server_address[1])
        try:
            check_open("host", self.host, insecure)  # a name may mean anything; this is where the socket is
        except BadInput:
            self._server.server_close()
            raise
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL,), name="metrics", daemon=True)
        self._thread.start()

    def show(self, snapshot: Snapshot) -> None:
        """Keep it for whoever asks next."""
        self._latest = snapshot

    def event(self, text: str) -> None:
        """Remarks are not measurements."""

    def close(self) -> None:
        """Stop serving; the port is free when this returns."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def text(self) -> str:
        """What is served now: nothing, before the first snapshot."""
        return "" if self._latest is None else exposition(self._latest)


def exposition(snapshot: Snapshot) -> str:
    """A snapshot in Prometheus' text format 0.0.4."""
    return "".join(line + "\n" for line in (*_server(snapshot), *_workers(snapshot.workers)))


def _server(snapshot: Snapshot) -> Iterator[str]:
    yield from _family("siag_iterations_total", "counter", "Iterations done.", _one(snapshot.version))
    yield from _family("siag_iterations_target", "gauge", "Iterations asked for.", _one(snapshot.target))
    yield from _family("siag_reports_total", "counter", "Reports accepted.", _one(snapshot.reports))
    yield from _family("siag_refused_total", "counter", "Reports refused.", _one(snapshot.refused))
    yield from _family("siag_updates_per_second", "gauge", "Iterations per second, recently.", _one(snapshot.rate))
    yield from _family("siag_running_seconds", "gauge", "Seconds since the start.", _one(snapshot.seconds))
    yield from _family("siag_loss", "gauge", "Loss of the model, as last evaluated.", _one(snapshot.loss))
    yield from _family("siag_saved_seconds", "gauge", "Seconds since the state was last saved.", _one(snapshot.saved))
    yield from _family("siag_problems", "gauge", "Problems while training goes on.", _one(len(snapshot.problems)))
    ages = [({"bin": bin_label(k)}, count) for k, count in enumerate(snapshot.ages)]
    yield from _family("siag_report_ages_total", "counter", "Reports accepted, by their age in versions.", ages)


def _workers(workers: Sequence[WorkerView]) -> Iterator[str]:
    count = Counter(worker.state for worker in workers)
    yield from _family(
        "siag_workers", "gauge", "Workers by state.", [({"state": each}, count[each]) for each in STATES]
    )
    each = list(zip(_labels(workers), workers, strict=True))
    reports = [(label, worker.reports) for label, worker in each]
    yield from _family("siag_worker_reports_total", "counter", "Reports accepted from a worker.", reports)
    refused = [(label, worker.refused) for label, worker in each]
    yield from _family("siag_worker_refused_total", "counter", "Reports of a worker refused.", refused)
    rates = [(label, worker.rate) for label, worker in each]
    yield from _family("siag_worker_reports_per_second", "gauge", "Reports accepted per second, recently.", rates)
    ages = [(label, worker.age) for label, worker in each if worker.age >= 0]
    told = "Age in versions of a worker's gradient; absent if it never reported."
    yield from _family("siag_worker_age", "gauge", told, ages)
    silent = [(label, worker.silent) for label, worker in each]
    told = "Seconds since a worker was last heard of; +Inf if never."
    yield from _family("siag_worker_silent_seconds", "gauge", told, silent)


def _labels(workers: Sequence[WorkerView]) -> Iterator[dict[str, str]]:
    """Each worker's name; of those that share one, all but the first have their row added."""
    taken: set[str] = set()
    for worker in workers:
        name = worker.name.encode(errors="replace").decode() or f"#{worker.row}"
        while name in taken:
            name += f"#{worker.row}"
        taken.add(name)
        yield {"worker": name}


def _one(value: float | None) -> Samples:
    return [] if value is None else [({}, value)]


def _family(name: str, kind: str, told: str, samples: Samples) -> Iterator[str]:
    """A metric and its samples; nothing if there are none."""
    lines = [f"{name}{_braces(labels)} {_value(value)}" for labels, value in samples]
    if lines:
        yield from (f"# HELP {name} {told}", f"# TYPE {name} {kind}", *lines)


def _braces(labels: dict[str, str]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(int(value) if value == int(value) and abs(value) < 2**53 else float(value))


class _Server(ThreadingHTTPServer):
    """A server that knows whose snapshots it serves, asks no name server, and is silent about lost connections."""

    daemon_threads = True
    allow_reuse_port = False  # two servers must not share a port unawares

    def __init__(self, address: tuple[str, int], metrics: Metrics) -> None:
        self.metrics = metrics
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind, without the look-up of this machine's name that may take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever asked has gone; so be it."""


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Server
    timeout = 10.0  # seconds for a client to say what it wants

    def do_GET(self) -> None:  # the name http.server looks for
        """Send the metrics, or 404."""
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "Not here", "The metrics are at /metrics.")
            return
        body = self.server.metrics.text().encode()
        self.send_response(200)
        self.send_header("Content-Type", FORMAT)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep no log."""


def _listen(host: str, port: int, metrics: Metrics) -> _Server:
    try:
        return _Server((host, port), metrics)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            remedy = "something listens there already; take another, or 0 for any"
            raise BadInput("port", port, f"a free port of {host}", remedy) from None
        reason = reason_of(error)
        if error.errno == errno.EACCES:
            raise BadInput("port", port, "a port you may listen at", f"{reason}; take one above 1023") from None
        raise BadInput("host", host, "an address of this machine", reason) from None
