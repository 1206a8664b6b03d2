"""`Ray`: a run of `train` on a Ray cluster; what it is told is checked here, before any work starts."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.live.monitor.watch import Watcher, watcher_of
from siag.live.plan import Plan, Source, planned
from siag.live.ray.actors import Secrets, ServerSpec
from siag.live.ray.cluster import connected, installed
from siag.live.ray.driver import Driver
from siag.live.ray.room import ONE_CPU, Amounts, room_for
from siag.live.ray.servers import Servers
from siag.live.ray.workers import Workers
from siag.live.security import MOST_WORKERS
from siag.live.sharding.slices import check_split
from siag.live.wire import LARGEST
from siag.simulation import Run
from siag.storage.mirror import check_url, is_url
from siag.streams import Part, Rows, split
from siag.streams.parts import dismiss
from siag.streams.rows import is_streamed


@dataclass(frozen=True, kw_only=True)
class Ray:
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

    def train(self, gradient: Any, streams: Any, w0: Any, method: Any, step: Any, until: Any, **options: Any) -> Run:
        """Run `siag.train`, which says what the arguments are, on the cluster."""
        installed()
        self._check_places(options)
        if isinstance(streams, list | tuple):
            streams = [Rows(stream) if _is_dataset(stream) else stream for stream in streams]
        reading = dict(ONE_CPU) if _is_read_meanwhile(streams) else {}
        with ExitStack() as stack:
            ours = None
            if _is_dataset(streams):
                workers = self._split_over()
                ours = stack.enter_context(connected(self.address, self._wanted(workers, reading)))
                streams = split(streams, workers)
                stack.callback(dismiss, streams)
            plan = planned(
                gradient, streams, w0, method, step, until, **options, few_enough=self._check_count, sendable=sendable
            )
            self._check_plan(plan)
            watcher = watcher_of(plan.options.progress)
            stack.callback(watcher.close)
            if ours is None:
                ours = stack.enter_context(connected(self.address, self._wanted(len(plan.own), reading)))
            nodes = self._check_room(len(plan.own), reading)
            where = f"on Ray, {nodes} node{'s' * (nodes > 1)}"
            about = plan.about | {"activity": f"{plan.about['activity']} {where}"}
            plan = replace(plan, options=replace(plan.options, progress=False), about=about)
            return self._driver(plan, watcher, ours, reading).run()

    def _driver(self, plan: Plan, watcher: Watcher, ours: bool, reading: Amounts) -> Driver:
        """Have Ray start the servers' actors."""
        secrets, name = Secrets.new(len(plan.own), self.tls), token_hex(3)
        bare = replace(plan, own=[], source=Source(None, None, plan.method, plan.source.seed, plan.w0))
        spec = ServerSpec(bare, secrets, "127.0.0.1" if ours else None, self.port, self.shards)
        first, reads = self.placed_first(reading), bool(reading)
        workers = Workers(plan, secrets, self.resources, first, reads=reads, name=name)
        servers = Servers(spec, self.server_resources, self.patience, name)
        return Driver(self, plan, watcher, servers, workers, ours=ours, reads=reads)

    def _check_places(self, options: dict[str, Any]) -> None:
        """Folder and trace: a URL with its driver, or a path that means the same to all."""
        for name in ("folder", "trace"):
            place = options[name]
            if place is None:
                continue
            text = os.fspath(place)
            if isinstance(text, str) and is_url(text):
                if text.startswith("memory:"):
                    allowed = "storage that all nodes see, not the memory of one process"
                    raise BadInput(name, text, allowed, "give a path, or a URL of object storage")
                check_url(name, text, file=name == "trace")
            else:
                options[name] = os.path.abspath(text)
        durable = check.truth("durable", options["durable"])
        if durable and options["folder"] is not None and is_url(str(options["folder"])):
            remedy = "give the path of a folder on storage that all nodes see"
            raise BadInput(
                "durable", True, "False with a folder at a URL, to which it is copied every few seconds", remedy
            )
        if durable and self.shards > 1:
            raise BadInput("durable", True, f"False with {self.shards} shards", "use shards=1")

    def _check_count(self, number: int) -> None:
        """As many workers as were asked for, and enough for the fewest."""
        if self.workers is not None and self.workers != number:
            raise BadInput("workers", self.workers, f"{number}, one for each stream", "or leave it out")
        if number > MOST_WORKERS:
            raise BadInput("workers", number, f"at most {MOST_WORKERS}")
        if self.fewest is not None and self.fewest > number:
            raise BadInput("fewest", self.fewest, f"at most {number}, the number of workers")

    def _check_plan(self, plan: Plan) -> None:
        """What else must reach the servers, and fit on a line."""
        options = plan.options
        d, n = plan.w0.size, len(plan.own)
        if 8 * max(plan.method.traffic(d, n)) > LARGEST * self.shards:
            raise BadInput("w0", d, f"at most {LARGEST // 8} numbers, what a frame can carry", "use more shards")
        if self.shards > 1:
            check_split(plan.method, plan.w0, n, self.shards)
        for name, value in (("step", plan.step), ("loss", options.loss), ("guard", options.guard)):
            sendable(name, value, "define it at the top of a module, without open files or locks")

    def placed_first(self, reading: Amounts) -> list[Amounts]:
        """What has its place before the workers: servers, and tasks that read Datasets meanwhile."""
        return [self.server_resources] * self.shards + [reading] * bool(reading)

    def _wanted(self, workers: int, reading: Amounts) -> dict[str, float]:
        """All that a run needs."""
        total = {"CPU": 0.0}
        for need in [*self.placed_first(reading), *[self.resources] * workers]:
            for what, amount in need.items():
                total[what] = total.get(what, 0.0) + amount
        return total

    def _check_room(self, workers: int, reading: Amounts) -> int:
        """Refuse more than the cluster has, whoever uses it now; return how many nodes there are."""
        nodes = [dict(node["Resources"]) for node in installed().nodes() if node["Alive"]]
        first = self.placed_first(reading)
        placed, fit = room_for(nodes, first, self.resources, workers)
        if placed < self.shards:
            allowed = f"what the nodes have, {self.shards} times ({_sum(nodes)} in all)"
            raise BadInput("server_resources", dict(self.server_resources), allowed, "ask for less, or add nodes")
        fewest = workers if self.fewest is None else self.fewest
        if fit < fewest:
            beside = "beside a CPU for reading, " if reading else ""
            each = "a CPU" if self.resources == ONE_CPU else _listed(self.resources)
            allowed = f"at most {fit}: so many fit into the cluster ({_sum(nodes)} in all), {beside}with {each} each"
            remedy = f"ask for less with resources=, add nodes, or start with those that fit by fewest={fit}"
            parameter = "workers" if self.fewest is None else "fewest"
            raise BadInput(parameter, fewest, allowed, remedy if fit else "ask for less with resources=, or add nodes")
        return len(nodes)

    def _split_over(self) -> int:
        """How many workers a Dataset is split among."""
        if self.workers is None:
            raise BadInput(
                "workers", None, "given with a Ray Dataset, which is split among them", "write Ray(workers=4)"
            )
        return self.workers


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


def _is_read_meanwhile(streams: Any) -> bool:
    """Whether Ray Data reads while the workers train, which takes a CPU that none of them holds."""
    if _is_dataset(streams):
        return is_streamed(streams)
    listed = streams if isinstance(streams, list) else []
    return any(isinstance(stream, Rows | Part) and stream.streamed for stream in listed)


def _listed(amounts: Amounts) -> str:
    return ", ".join(f"{amount:g} {what}" for what, amount in amounts.items())


def _sum(nodes: Sequence[Mapping[str, float]]) -> str:
    """What nodes have together, in words."""
    names = sorted({name for node in nodes for name in node if not name.startswith("node:") and "memory" not in name})
    return ", ".join(f"{sum(node.get(name, 0.0) for node in nodes):g} {name}" for name in names) or "nothing"
