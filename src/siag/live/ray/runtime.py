"""`Ray`: a run of `train` on a Ray cluster; what it is told is checked here, before any work starts."""

from __future__ import annotations

import os
import pickle
import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.live.monitor.watch import watcher_of
from siag.live.ray.link import connected, installed
from siag.live.ray.reading import Reader, room_to_read
from siag.live.ray.room import ONE_CPU, room_for, without_reader
from siag.live.runtime import Runtime
from siag.live.security import MOST_WORKERS
from siag.live.session import Session
from siag.live.sharding.slices import check_split
from siag.live.spec import Spec
from siag.live.task import Task
from siag.live.wire import LARGEST
from siag.simulation import Run
from siag.storage.mirror import check_url, is_url
from siag.streams import Part, Rows, split
from siag.streams.parts import dismiss
from siag.streams.rows import is_streamed


@dataclass(frozen=True, kw_only=True)
class Ray(Runtime):
    """Train on a Ray cluster: `siag.train(…, runtime=siag.runtimes.Ray())`.

    Each worker and each server is an actor, which Ray places and starts again if it dies; what they say to each other
    goes over the network directly. A server that dies goes on from `folder`, if the run has one on storage that all
    nodes see, a path or a URL. Nodes must have the same version of siag.

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
        patience: seconds for the actors to come up at the start.
    """

    address: str | None = None
    workers: int | None = None
    resources: Mapping[str, float] = field(default_factory=lambda: ONE_CPU)
    server_resources: Mapping[str, float] = field(default_factory=lambda: ONE_CPU)
    shards: int = 1
    fewest: int | None = None
    tls: bool = False
    port: int | None = None
    patience: float = 60.0

    def __post_init__(self) -> None:
        if self.address is not None and (not isinstance(self.address, str) or not self.address):
            raise BadInput("address", self.address, '"auto", or host:port of a Ray cluster', "or leave it out")
        for name in ("workers", "fewest"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check.integer(name, getattr(self, name), high=MOST_WORKERS))
        for name in ("resources", "server_resources"):
            object.__setattr__(self, name, _amounts(name, getattr(self, name)))
        object.__setattr__(self, "shards", check.integer("shards", self.shards, high=1000))
        check.truth("tls", self.tls)
        if self.port is not None:
            object.__setattr__(self, "port", check.integer("port", self.port, high=65536 - self.shards))
        object.__setattr__(self, "patience", check.real("patience", self.patience, above=0))

    def carry(self, session: Session, tasks: list[Task]) -> None:
        """Not called: the session is on the cluster."""
        raise NotImplementedError

    def train(self, spec: Spec) -> Run:
        """Run it on the cluster."""
        from siag.live.ray.driver import Driver

        installed()
        spec = self._check_places(spec)
        streams: Any = spec.streams
        with ExitStack() as stack:
            ours, reader = None, None
            if isinstance(streams, list | tuple):
                streams = [Rows(stream) if _is_dataset(stream) else stream for stream in streams]
            spare, kept = _spare(streams)
            if _is_dataset(streams):
                ours = stack.enter_context(connected(self.address, self._wanted(self.workers or 1, spare)))
                if kept:
                    reader = Reader(f"siag reader {secrets.token_hex(3)}", spare)
                    stack.callback(reader.remove)
                streams = self._split(streams, reader)
                stack.callback(dismiss, streams)
            spec = replace(spec, streams=streams).validate()
            self.check_workers(spec.n)
            for parameter, value, remedy in spec.sent():
                sendable(parameter, value, remedy)
            self.prepare(spec)
            self._check_spec(spec)
            workers = spec.n
            watcher = watcher_of(spec.progress)
            stack.callback(watcher.close)
            if ours is None:
                ours = stack.enter_context(connected(self.address, self._wanted(workers, spare)))
            nodes = self._check_room(workers, spare)
            where = f"on Ray, {nodes} node{'s' * (nodes > 1)}"
            about = spec.about | {"activity": f"{spec.about['activity']} {where}"}
            spec = replace(spec, progress=False, spoken=(about, spec.identity))
            return Driver(self, spec, watcher, ours, reader, reads=bool(spare)).run()

    def _check_places(self, spec: Spec) -> Spec:
        """Folder and trace: a URL with its driver, or a path that means the same to all."""
        for name in ("folder", "trace"):
            place = getattr(spec, name)
            if place is None:
                continue
            if not isinstance(place, str | os.PathLike):
                raise BadInput(name, place, "a path", "give it as text, or leave it out")
            text = os.fspath(place)
            if isinstance(text, str) and is_url(text):
                if text.startswith("memory:"):
                    allowed = "storage that all nodes see, not the memory of one process"
                    raise BadInput(name, text, allowed, "give a path, or a URL of object storage")
                check_url(name, text, file=name == "trace")
            else:
                changed: Any = {name: os.path.abspath(text)}
                spec = replace(spec, **changed)
        durable = check.truth("durable", spec.durable)
        if durable and spec.folder is not None and is_url(str(spec.folder)):
            remedy = "give the path of a folder on storage that all nodes see"
            raise BadInput(
                "durable", True, "False with a folder at a URL, to which it is copied every few seconds", remedy
            )
        if durable and self.shards > 1:
            raise BadInput("durable", True, f"False with {self.shards} shards", "use shards=1")
        return spec

    def check_workers(self, number: int) -> None:
        """As many workers as were asked for, and enough for the fewest."""
        if self.workers is not None and self.workers != number:
            raise BadInput("workers", self.workers, f"{number}, one for each stream", "or leave it out")
        if number > MOST_WORKERS:
            raise BadInput("workers", number, f"at most {MOST_WORKERS}")
        if self.fewest is not None and self.fewest > number:
            raise BadInput("fewest", self.fewest, f"at most {number}, the number of workers")

    def _check_spec(self, spec: Spec) -> None:
        """What else must reach the servers, and fit on a line."""
        d, n = spec.w0.size, spec.n
        if 8 * max(spec.method.traffic(d, n)) > LARGEST * self.shards:
            raise BadInput("w0", d, f"at most {LARGEST // 8} numbers, what a frame can carry", "use more shards")
        if self.shards > 1:
            check_split(spec.method, spec.w0, n, self.shards)
        for name, value in (("step", spec.step), ("loss", spec.measure), ("guard", spec.guard)):
            sendable(name, value, "define it at the top of a module, without open files or locks")

    def _wanted(self, workers: int, spare: Mapping[str, float]) -> dict[str, float]:
        """All that the actors need together, and tasks that read Datasets meanwhile."""
        total = {"CPU": 0.0}
        for need, count in ((spare, 1), (self.resources, workers), (self.server_resources, self.shards)):
            for what, amount in need.items():
                total[what] = total.get(what, 0.0) + count * amount
        return total

    def _check_room(self, workers: int, spare: Mapping[str, float]) -> int:
        """Refuse more than the cluster has, whoever uses it now; return how many nodes there are."""
        nodes = [dict(node["Resources"]) for node in installed().nodes() if node["Alive"]]
        beside = without_reader(nodes, spare)
        if beside is None:
            allowed = f"Datasets that a node can read ({_sum(nodes)} in all), which takes {_listed(spare)} of one"
            raise BadInput("streams", "Datasets", allowed, "materialize() them, or add nodes")
        servers, fit = room_for(beside, self.server_resources, self.shards, self.resources, workers)
        if servers < self.shards:
            allowed = f"what the nodes have, {self.shards} times ({_sum(nodes)} in all)"
            raise BadInput("server_resources", dict(self.server_resources), allowed, "ask for less, or add nodes")
        fewest = workers if self.fewest is None else self.fewest
        if fit < fewest:
            taken = f"beside {_listed(spare)} for reading, " if spare else ""
            each = f"{taken}with {_listed(self.resources)} each"
            allowed = f"at most {fit}: so many fit into the cluster ({_sum(nodes)} in all), {each}"
            remedy = f"ask for less with resources=, add nodes, or start with those that fit by fewest={fit}"
            parameter = "workers" if self.fewest is None else "fewest"
            raise BadInput(parameter, fewest, allowed, remedy if fit else "ask for less with resources=, or add nodes")
        return len(nodes)

    def _split(self, dataset: Any, reader: Reader | None) -> list[Part]:
        """A stream for each worker."""
        if self.workers is None:
            raise BadInput(
                "workers", None, "given with a Ray Dataset, which is split among them", "write Ray(workers=4)"
            )
        return split(dataset, self.workers) if reader is None else reader.split(dataset, self.workers)


def sendable(parameter: str, value: Any, remedy: str) -> None:
    """Refuse what cannot be sent to an actor, or cannot be found there.

    Functions may come from anywhere, but a method's or a problem's meaning is registered by its module.
    """
    from ray import cloudpickle

    if isinstance(value, Rows | Part):  # Ray has its own way to send a Dataset
        return
    try:
        cloudpickle.dumps(value)
        content = pickle.dumps(value) if parameter in ("method", "problem") else b""
    except Exception as error:  # whatever pickling raises, and a user's __reduce__
        reason = " ".join(str(error).split())
        raise BadInput(parameter, value, f"something that can be pickled ({reason})", remedy) from None
    if b"__main__" in content:
        raise BadInput(parameter, value, "of a class the nodes can import", "define it in a module, not in the script")


def _amounts(parameter: str, given: Any) -> dict[str, float]:
    """Amounts of resources by name."""
    allowed = 'amounts by name, such as {"CPU": 1}'
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise BadInput(parameter, given, allowed)
    found = {name: check.real(f"{parameter}[{name!r}]", amount, low=0) for name, amount in given.items()}
    for name, amount in found.items():
        if name == "GPU" and amount > 1 and amount != int(amount):
            raise BadInput(f"{parameter}['GPU']", amount, "a fraction of one, or a whole number")
    return found


def _is_dataset(streams: Any) -> bool:
    return type(streams).__module__.startswith("ray.data.")


def _spare(streams: Any) -> tuple[dict[str, float], bool]:
    """What tasks that read Datasets need, and whether that is kept for them.

    Datasets of a list are read each by its own worker: in a place kept for all, a slow one would hold up the others.
    """
    if not _is_dataset(streams):
        listed = streams if isinstance(streams, list) else []
        read = any(isinstance(stream, Rows | Part) and stream.streamed for stream in listed)
        return dict(ONE_CPU) if read else {}, False
    if not is_streamed(streams):
        return {}, False
    needs = room_to_read(streams)
    return (dict(ONE_CPU), False) if needs is None else (needs, True)


def _listed(amounts: Mapping[str, float]) -> str:
    return "a CPU" if amounts == ONE_CPU else ", ".join(f"{amount:g} {what}" for what, amount in amounts.items())


def _sum(nodes: Sequence[Mapping[str, float]]) -> str:
    """What nodes have together, in words."""
    names = sorted({name for node in nodes for name in node if not name.startswith("node:") and "memory" not in name})
    return ", ".join(f"{sum(node.get(name, 0.0) for node in nodes):g} {name}" for name in names) or "nothing"
