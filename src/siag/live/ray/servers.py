"""The servers of a run, as its driver sees them: actors in a placement group that Ray keeps for them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from siag.foundations.errors import SiagError
from siag.foundations.version import __version__
from siag.live.ray.actors import STALE, Hello, ServerSpec, ShardActor
from siag.live.ray.cluster import as_bundles, as_options, free, installed, parcel, why_lost
from siag.live.ray.room import Amounts
from siag.live.ray.server_actor import Look, Orders, Outcome, ServerActor

PAUSE = 0.05  # seconds between two looks while the servers start
TIMEOUT = 2.0  # seconds for an actor to answer
TOGETHER = 8  # calls that a server's actor answers at a time, one of them being its work


class Servers:
    """Starts the servers, and asks the first of them, which is the lead of several, how things stand.

    Ray keeps a bundle of a placement group for each server. If its node is lost, Ray looks for room elsewhere and
    restarts the server there, before any worker gets that room.

    Args:
        spec: what each server is given.
        resources: what each server needs.
        patience: seconds for them to come up.
        name: of the run.
    """

    def __init__(self, spec: ServerSpec, resources: Amounts, patience: float, name: str) -> None:
        self._ray = installed()
        self._spec, self._resources, self._patience, self._name = spec, dict(resources), patience, name
        self._restarts = -1 if spec.plan.options.folder is not None else 0  # without one there is nothing to go on from
        self._group: Any = None
        self._actors: list[Any] = []
        self._work: Any = None  # of the first one
        self._until = 0.0  # by when they must be up
        self.missed = False  # whether the server does not answer because it is being restarted

    @property
    def first(self) -> Any:
        """The actor of the only server, or of the lead."""
        return self._actors[0]

    def _actor(self, kind: type, k: int, name: str) -> Any:
        """Have Ray start the server of shard k."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        how = {**as_options(self._resources), "max_restarts": self._restarts, "max_concurrency": TOGETHER}
        if self._group is not None:
            how["scheduling_strategy"] = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=k)
        return self._ray.remote(kind).options(**how, name=name).remote(__version__, *([k] if k else []))

    def start(self, check: Callable[[], None]) -> None:
        """Have Ray start all, and wait for them, calling `check` meanwhile, which may raise; then let them serve."""
        from ray.util import placement_group

        self._until = time.monotonic() + self._patience
        shards, name = self._spec.shards, self._name
        bundles = as_bundles([self._resources] * shards)
        if bundles:
            self._group = placement_group(bundles, strategy="SPREAD", name=f"siag {name}")
        self._actors.append(self._actor(ServerActor, 0, f"siag server {name}"))
        for k in range(1, shards):
            self._actors.append(self._actor(ShardActor, k, f"siag shard {k} {name}"))
        for k, server in enumerate(self._actors):
            which = f"the server of shard {k}" if shards > 1 else "the server"
            hello = server.hello.remote()
            while not self._ray.wait([hello], timeout=PAUSE)[0]:
                check()
                if time.monotonic() > self._until:
                    what = f"{which} could not be placed within {self._patience:g} seconds"
                    raise SiagError(f"{what}: the cluster is busy ({free(self._resources)}); wait, or raise patience=")
            greeted(which, hello)
        spec, (first, *others) = parcel(self._spec), self._actors
        for shard in others:
            shard.run.options(max_task_retries=self._restarts).remote(spec)
        self._work = first.run.options(max_task_retries=self._restarts).remote(spec, others)

    def check_patience(self) -> None:
        """Refuse to wait longer for the server to be ready."""
        if time.monotonic() > self._until:
            raise SiagError(f"the server was not ready after {self._patience:g} seconds; raise patience=")

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.wait(0)

    def wait(self, seconds: float) -> bool:
        """Wait so long for the run to end; whether it has."""
        return self._work is not None and bool(self._ray.wait([self._work], timeout=seconds)[0])

    @property
    def placed(self) -> bool:
        """Whether Ray has room for all servers."""
        return self._group is None or is_placed(self._group)

    def look(self, life: str, known: int, orders: Orders) -> Look | None:
        """Ask the first server; `None` if it does not answer now."""
        errors = self._ray.exceptions
        try:
            look: Look = self._ray.get(self.first.look.remote(life, known, orders), timeout=TIMEOUT)
        except errors.GetTimeoutError:  # it is busy, or has no place yet
            return None
        except errors.ActorDiedError as error:
            raise self._gone(error) from None
        except errors.RayActorError:
            self.missed = True
            return None
        self.missed = False
        return look

    def outcome(self) -> Outcome:
        """What came out of the run, which is over."""
        try:
            outcome: Outcome = self._ray.get(self._work)
        except self._ray.exceptions.RayError as error:
            raise self._gone(error) from None
        return outcome

    def _gone(self, error: Exception) -> SiagError:
        started = "start the run again with the same folder"
        remedy = started if self._restarts else "with folder= it would be restarted from its last save"
        return SiagError(f"the server's process is gone: {why_lost(error)}; {remedy}")

    def finish(self) -> None:
        """Let the servers of the other shards end in order; warn of those whose last save is not where it belongs."""
        stops = [shard.stop.remote() for shard in self._actors[1:]]
        for k, stop in enumerate(stops, start=1):
            try:
                wrong = str(self._ray.get(stop))  # copying gives up by itself when there is no progress
            except self._ray.exceptions.RayError:
                wrong = STALE
            if wrong:
                warnings.warn(f"shard {k}: {wrong}", RuntimeWarning, stacklevel=6)

    def remove(self) -> None:
        """Leave nothing of them on the cluster."""
        from ray.util import remove_placement_group

        with suppress(Exception):  # the cluster is gone as well
            for actor in self._actors:
                self._ray.kill(actor)
            if self._group is not None:
                remove_placement_group(self._group)


def is_placed(group: Any) -> bool:
    """Whether Ray has room for all bundles of a placement group."""
    from ray.util import placement_group_table

    return bool(placement_group_table(group)["state"] == "CREATED")


def greeted(which: str, hello: Any) -> None:
    """Check that an actor, which has answered, can work."""
    ray = installed()
    try:
        said: Hello = ray.get(hello)
    except ray.exceptions.RayError as error:
        raise SiagError(f"{which} could not be started: {why_lost(error)}") from None
    if said.trouble:
        raise SiagError(f"{which}, on the node at {said.address}: {said.trouble}")
