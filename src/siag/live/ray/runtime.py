"""`Ray`: a run of `train` on a Ray cluster; what it is told is checked here, before any work starts."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from siag.foundations import check
from siag.foundations.errors import BadInput, Missing, reason_of
from siag.live.protocol.wire import LARGEST
from siag.live.ray.resources import ONE_CPU, checked
from siag.live.runtime import Runtime
from siag.live.security import MOST_WORKERS
from siag.live.sharding.slices import check_split
from siag.live.spec import Spec
from siag.simulation import Run
from siag.storage.urls import check_url, is_url
from siag.streams import Part, Rows


@dataclass(frozen=True, kw_only=True)
class Ray(Runtime):
    """Train on a Ray cluster: `siag.train(…, runtime=siag.runtimes.Ray())`.

    Each worker and each server is an actor, which Ray places, and restarts if it dies. They talk to each other over the
    network directly. A server that dies goes on from `folder`, if the run has one on storage that all nodes see, a path
    or a URL. All nodes must have the same version of siag.

    Args:
        address: of the cluster, "auto" or host:port. By default the one this process is connected to, or that of
            RAY_ADDRESS, or else one started on this machine for the run.
        workers: how many there are, if `streams` is a Ray Dataset, which is split among them; otherwise there is one
            for each stream.
        resources: what each worker needs, {"CPU": 1} by default; also GPU, memory in bytes, and resources of your own.
        server_resources: what each server needs, {"CPU": 1} by default.
        shards: how many servers the model is split over.
        fewest: how many workers must be there for the run to start; by default all. The others join when there is room
            for them.
        tls: talk over TLS, by an authority made for this run. Workers always have tokens.
        port: of the server, the next ones being those of more shards; by default any that is free.
        start_timeout: seconds for the actors to come up at the start.
    """

    address: str | None = None
    workers: int | None = None
    resources: Mapping[str, float] = field(default_factory=lambda: ONE_CPU)
    server_resources: Mapping[str, float] = field(default_factory=lambda: ONE_CPU)
    shards: int = 1
    fewest: int | None = None
    tls: bool = False
    port: int | None = None
    start_timeout: float = 60.0

    def __post_init__(self) -> None:
        if self.address is not None and (not isinstance(self.address, str) or not self.address):
            raise BadInput("address", self.address, '"auto", or host:port of a Ray cluster', "or leave it out")
        for name in ("workers", "fewest"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check.integer(name, getattr(self, name), high=MOST_WORKERS))
        for name in ("resources", "server_resources"):
            object.__setattr__(self, name, checked(name, getattr(self, name)))
        object.__setattr__(self, "shards", check.integer("shards", self.shards, high=1000))
        check.truth("tls", self.tls)
        if self.port is not None:
            object.__setattr__(self, "port", check.integer("port", self.port, high=65536 - self.shards))
        object.__setattr__(self, "start_timeout", check.real("start_timeout", self.start_timeout, above=0))

    def train(self, spec: Spec) -> Run:
        """Run it on the cluster."""
        dataset = spec.streams if _is_dataset(spec.streams) else None
        spec = self.checked(replace(self._check_places(spec), streams=self._streams(spec.streams)))
        if find_spec("ray") is None:
            raise Missing("ray", "install it with pip install 'siag[ray]'")
        from siag.live.ray.driver import run_on_cluster

        self.prepare(spec)
        return run_on_cluster(self, spec, dataset)

    def _streams(self, given: Any) -> Any:
        """The streams, Datasets among them as rows; one for all is checked as if each worker had the whole of it."""
        if _is_dataset(given):
            if self.workers is None:
                allowed = "given with a Ray Dataset, which is split among them"
                raise BadInput("workers", None, allowed, "write Ray(workers=4)")
            return [Rows(given)] * self.workers
        if isinstance(given, list | tuple):
            return [Rows(stream) if _is_dataset(stream) else stream for stream in given]
        return given

    def _check_places(self, spec: Spec) -> Spec:
        """Folder and trace: a URL with its driver, or a path that means the same to all."""
        found: dict[str, Any] = {}
        for name in ("folder", "trace"):
            place = getattr(spec, name)
            if not isinstance(place, str | os.PathLike):  # none, or refused later
                continue
            text = os.fspath(place)
            if isinstance(text, str) and is_url(text):
                if text.startswith("memory:"):
                    allowed = "storage that all nodes see, not the memory of one process"
                    raise BadInput(name, text, allowed, "give a path, or a URL of object storage")
                check_url(name, text)
            else:
                found[name] = os.path.abspath(text)
        return replace(spec, **found)

    def check_workers(self, number: int) -> None:
        """As many workers as were asked for, and enough for the fewest."""
        if self.workers is not None and self.workers != number:
            raise BadInput("workers", self.workers, f"{number}, one for each stream", "or leave it out")
        if number > MOST_WORKERS:
            raise BadInput("workers", number, f"at most {MOST_WORKERS}")
        if self.fewest is not None and self.fewest > number:
            raise BadInput("fewest", self.fewest, f"at most {number}, the number of workers")

    def check_sendable(self, parameter: str, value: Any, remedy: str) -> None:
        """Refuse what cannot be sent to an actor, or cannot be found there.

        Functions may come from anywhere, but a method's or a problem's meaning is registered by its module.
        """
        import cloudpickle

        if isinstance(value, Rows | Part):  # Ray has its own way to send a Dataset
            return
        registered = parameter in ("method", "problem")
        try:
            content = pickle.dumps(value) if registered else cloudpickle.dumps(value)
        except Exception as error:  # whatever pickling raises, and a user's __reduce__
            raise BadInput(parameter, value, f"something that can be pickled ({reason_of(error)})", remedy) from None
        if registered and b"__main__" in content:
            allowed = "of a class the nodes can import"
            raise BadInput(parameter, value, allowed, "define it in a module, not in the script")

    def checked(self, spec: Spec) -> Spec:
        """The same with nothing left out; all of it can be sent, and fits into a frame."""
        spec = super().checked(spec)
        for name in ("step", "loss", "guard"):
            remedy = "define it at the top of a module, without open files or locks"
            self.check_sendable(name, getattr(spec, name), remedy)
        largest = d = int(spec.w0.size)
        if self.shards > 1:
            if spec.durable:
                raise BadInput("durable", True, f"False with {self.shards} shards", "use shards=1")
            if spec.keep:
                raise BadInput("keep", spec.keep, f"left out with {self.shards} shards", "use shards=1")
            check_split(spec.method, spec.w0, spec.n, self.shards)
        else:
            largest = max(spec.method.traffic(d, spec.n))
        if 8 * largest > LARGEST * self.shards:
            raise BadInput("w0", d, f"at most {LARGEST // 8} numbers, what a frame can carry", "use more shards")
        return spec


def _is_dataset(streams: Any) -> bool:
    return type(streams).__module__.startswith("ray.data.")
