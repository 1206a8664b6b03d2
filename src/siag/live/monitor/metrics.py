"""The latest snapshot for Prometheus, over HTTP; a new metric is a line in `families`.

The ages of reports are a counter for each bin: "0", "1", "2-3", "4-7" and so on. They are no histogram of Prometheus,
which would need the sum of all ages; a snapshot does not have it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from siag.foundations import check
from siag.foundations.errors import BadInput, reason_of
from siag.live.monitor.watch import Watcher
from siag.live.security import check_open
from siag.server.status import Snapshot, State, WorkerView, bin_label

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

TIMEOUT = 10.0  # seconds for a client to send its request


class Metrics(Watcher):
    """Serves the latest snapshot to Prometheus, from a thread of its own, until it is closed.

    Args:
        host: the address to listen at; only this machine can reach the default.
        port: 0 takes any free one; `port` says which.
        insecure: listen beyond this machine; everyone who can reach the port may read the metrics.
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
        """Keep it for the next request."""
        self._latest = snapshot

    def collect(self) -> Iterator[Metric]:
        """The metrics of the latest snapshot; none before the first. Prometheus' registry calls this."""
        return iter(()) if self._latest is None else families(self._latest)

    def close(self) -> None:
        """Stop serving; the port is free when this returns."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def families(snapshot: Snapshot) -> Iterator[Metric]:
    """The metrics of a snapshot; those without a value are left out."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    counter, gauge = CounterMetricFamily, GaugeMetricFamily
    named = {worker.name.encode(errors="backslashreplace").decode(): worker for worker in snapshot.workers}
    states = Counter(worker.state for worker in snapshot.workers)
    for kind, name, words, value in (
        (counter, "iterations", "Iterations done.", snapshot.version),
        (gauge, "iterations_target", "Iterations asked for.", snapshot.target),
        (counter, "reports", "Reports accepted.", snapshot.reports),
        (counter, "refused", "Reports refused.", snapshot.refused),
        (gauge, "updates_per_second", "Iterations per second, recently.", snapshot.rate),
        (gauge, "running_seconds", "Seconds since the start.", snapshot.seconds),
        (gauge, "loss", "Loss of the model, as last evaluated.", snapshot.loss),
        (
            gauge,
            "progressive_loss",
            "Loss of new samples, weighted as the objective is.",
            snapshot.progressive,
        ),
        (gauge, "step", "The size of recent steps.", snapshot.step),
        (gauge, "saved_seconds", "Seconds since the state was last saved.", snapshot.saved),
        (gauge, "problems", "Problems while training goes on.", len(snapshot.problems)),
        (gauge, "warnings", "What seems to be wrong with the training, since the start.", len(snapshot.warnings)),
    ):
        if value is not None:
            yield kind(f"siag_{name}", words, value=value)
    ages = {bin_label(k): count for k, count in enumerate(snapshot.ages)}
    old = {name: worker.age for name, worker in named.items() if worker.age >= 0}
    losses = {name: worker.loss for name, worker in named.items() if worker.loss is not None}
    counts = {name: worker.share for name, worker in named.items() if not math.isnan(worker.share)}
    for kind, name, words, label, values in (
        (counter, "report_ages", "Reports accepted, by their age in versions.", "bin", ages),
        (gauge, "workers", "Workers by state.", "state", {state: states[state] for state in State}),
        (counter, "worker_reports", "Reports accepted from a worker.", "worker", _each(named, "reports")),
        (counter, "worker_refused", "Reports of a worker refused.", "worker", _each(named, "refused")),
        (gauge, "worker_reports_per_second", "Reports accepted per second, recently.", "worker", _each(named, "rate")),
        (gauge, "worker_age", "Age in versions of a worker's gradient; absent if it never reported.", "worker", old),
        (gauge, "worker_loss", "Loss of a worker's new samples, recently.", "worker", losses),
        (gauge, "worker_share", "What part of the objective a worker is.", "worker", counts),
        (gauge, "worker_weight", "What it counts for; a relay: all its workers.", "worker", _each(named, "weight")),
        (gauge, "metric", "The user's own metrics of the model, as last evaluated.", "name", snapshot.metrics),
        (gauge, "worker_silent_seconds", "Since it was last heard of; +Inf: never.", "worker", _each(named, "silent")),
    ):
        family = kind(f"siag_{name}", words, labels=[label])
        for each, number in values.items():
            family.add_metric([each], number)
        if values:
            yield family


def _each(named: dict[str, WorkerView], field: str) -> dict[str, float]:
    return {name: getattr(worker, field) for name, worker in named.items()}


def _listen(host: str, port: int, registry: CollectorRegistry) -> tuple[Any, Any]:
    """Prometheus' own server, and its thread; it is silent about clients that go away, and does not wait for ever."""
    from prometheus_client import start_http_server

    server: Any
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        allowed = f"one to listen on at {host} ({reason_of(error)})"
        raise BadInput("port", port, allowed, "choose another port, or an address of this machine") from None
    server.RequestHandlerClass = type("Handler", (server.RequestHandlerClass,), {"timeout": TIMEOUT})
    server.handle_error = lambda request, address: None
    return server, thread
