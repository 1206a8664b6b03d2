"""The latest snapshot for Prometheus, over HTTP; a new metric is a line in `_of_server` or `_of_workers`.

The ages of reports are a counter for each bin: "0", "1", "2-3", "4-7" and so on. They are no histogram of Prometheus,
which would need the sum of all ages; a snapshot does not have it.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from siag.foundations import check
from siag.foundations.errors import BadInput, reason_of
from siag.live.security import check_open
from siag.server.snapshot import Snapshot, State, WorkerView, bin_label

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

TIMEOUT = 10.0  # seconds for a client to send its request


class Metrics:
    """Serves the latest snapshot to Prometheus, from a thread of its own, until it is closed.

    Args:
        host: the address to listen at; only this machine can reach the default.
        port: 0 takes any free one; `port` says which.
        insecure: listen beyond this machine; whoever can reach the port may read the metrics.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, insecure: bool = False) -> None:
        from prometheus_client import CollectorRegistry

        self._latest: Snapshot | None = None
        port = check.integer("port", port, low=0, high=65535)
        check_open("host", host, insecure)
        registry = CollectorRegistry()
        registry.register(self)
        self._server, self._thread = _listen(host, port, registry)
        self.host, self.port = str(self._server.server_address[0]), int(self._server.server_address[1])
        try:
            check_open("host", self.host, insecure)  # a name may mean anything; this is where the socket is
        except BadInput:
            self.close()
            raise

    def show(self, snapshot: Snapshot) -> None:
        """Keep it for whoever asks next."""
        self._latest = snapshot

    def event(self, text: str) -> None:
        """Remarks are not measurements."""

    def collect(self) -> Iterator[Metric]:
        """The metrics of the latest snapshot; none before the first. Prometheus' registry calls this."""
        if self._latest is not None:
            yield from families(self._latest)

    def close(self) -> None:
        """Stop serving; the port is free when this returns."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def families(snapshot: Snapshot) -> Iterator[Metric]:
    """The metrics of a snapshot; those without a value are left out."""
    return (family for family in (*_of_server(snapshot), *_of_workers(snapshot.workers)) if family.samples)


def _of_server(snapshot: Snapshot) -> Iterator[Metric]:
    yield _counter("siag_iterations", "Iterations done.", snapshot.version)
    yield _gauge("siag_iterations_target", "Iterations asked for.", snapshot.target)
    yield _counter("siag_reports", "Reports accepted.", snapshot.reports)
    yield _counter("siag_refused", "Reports refused.", snapshot.refused)
    yield _gauge("siag_updates_per_second", "Iterations per second, recently.", snapshot.rate)
    yield _gauge("siag_running_seconds", "Seconds since the start.", snapshot.seconds)
    yield _gauge("siag_loss", "Loss of the model, as last evaluated.", snapshot.loss)
    yield _gauge("siag_saved_seconds", "Seconds since the state was last saved.", snapshot.saved)
    yield _gauge("siag_problems", "Problems while training goes on.", len(snapshot.problems))
    ages = [(bin_label(k), count) for k, count in enumerate(snapshot.ages)]
    yield _counter("siag_report_ages", "Reports accepted, by their age in versions.", bin=ages)


def _of_workers(workers: Sequence[WorkerView]) -> Iterator[Metric]:
    count = Counter(worker.state for worker in workers)
    yield _gauge("siag_workers", "Workers by state.", state=[(state, count[state]) for state in State])
    each = list(zip(_labels(workers), workers, strict=True))
    reports = [(name, worker.reports) for name, worker in each]
    yield _counter("siag_worker_reports", "Reports accepted from a worker.", worker=reports)
    refused = [(name, worker.refused) for name, worker in each]
    yield _counter("siag_worker_refused", "Reports of a worker refused.", worker=refused)
    rates = [(name, worker.rate) for name, worker in each]
    yield _gauge("siag_worker_reports_per_second", "Reports accepted per second, recently.", worker=rates)
    ages = [(name, worker.age) for name, worker in each if worker.age >= 0]
    told = "Age in versions of a worker's gradient; absent if it never reported."
    yield _gauge("siag_worker_age", told, worker=ages)
    silent = [(name, worker.silent) for name, worker in each]
    told = "Seconds since a worker was last heard of; +Inf if never."
    yield _gauge("siag_worker_silent_seconds", told, worker=silent)


def _labels(workers: Sequence[WorkerView]) -> Iterator[str]:
    """Each worker's name; of those that share one, all but the first have their row added."""
    taken: set[str] = set()
    for worker in workers:
        name = worker.name.encode(errors="replace").decode() or f"#{worker.row}"
        while name in taken:
            name += f"#{worker.row}"
        taken.add(name)
        yield name


Values = Iterable[tuple[str, float]]  # by the value of a label


def _counter(name: str, told: str, value: float | None = None, **by_label: Values) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    return _filled(CounterMetricFamily(name, told, labels=tuple(by_label)), value, by_label)


def _gauge(name: str, told: str, value: float | None = None, **by_label: Values) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    return _filled(GaugeMetricFamily(name, told, labels=tuple(by_label)), value, by_label)


def _filled(family: Any, value: float | None, by_label: dict[str, Values]) -> Metric:
    """A metric with its value, or its values by label."""
    if value is not None:
        family.add_metric((), value)
    for values in by_label.values():
        for label, number in values:
            family.add_metric((label,), number)
    return family  # type: ignore[no-any-return]  # one of the two kinds


def _listen(host: str, port: int, registry: CollectorRegistry) -> tuple[Any, Any]:
    """Prometheus' own server, and its thread; it is silent about clients that go away, and does not wait for ever."""
    from prometheus_client import start_http_server

    server: Any
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            remedy = "something listens there already; take another, or 0 for any"
            raise BadInput("port", port, f"a free port of {host}", remedy) from None
        reason = reason_of(error)
        if error.errno == errno.EACCES:
            raise BadInput("port", port, "a port you may listen at", f"{reason}; take one above 1023") from None
        raise BadInput("host", host, "an address of this machine", reason) from None
    server.RequestHandlerClass = type("Handler", (server.RequestHandlerClass,), {"timeout": TIMEOUT})
    server.handle_error = lambda request, address: None
    return server, thread
