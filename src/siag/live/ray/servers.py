"""The servers of a run, as its driver sees them: actors in a placement group that Ray keeps for them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from siag.foundations.errors import SiagError
from siag.foundations.version import __version__
from siag.live.ray.cluster import installed, parcel, why_lost
from siag.live.ray.resources import Amounts, as_bundles, as_options, is_placed
from siag.live.ray.server_actor import Look, Orders, Outcome, ServerActor, ServerSpec, ShardActor

TIMEOUT = 2.0  # seconds for an actor to answer
TOGETHER = 8  # calls that a server's actor answers at a time, one of them being its work


class Servers:
    """Starts the servers, and asks the first of them, which is the lead of several, how things stand.

    Ray keeps a bundle of a placement group for each server. If its node is lost, Ray looks for room elsewhere and
    restarts the server there, before any worker gets that room.

    Args:
        given: what each server is given.
        resources: what each server needs.
        name: of the run.

    Attributes:
        missed: whether the server does not answer because it is being restarted.
    """

    def __init__(self, given: ServerSpec, resources: Amounts, name: str) -> None:
        self._ray = installed()
        self._given, self._resources, self._name = given, dict(resources), name
        self._restarts = -1 if given.spec.folder is not None else 0  # without one there is nothing to go on from
        self._group: Any = None
        self._actors: list[Any] = []
        self._work: Any = None  # of the first one
        self._seen = self.missed = False

    @property
    def first(self) -> Any:
        """The actor of the only server, or of the lead."""
        return self._actors[0]

    def start(self) -> None:
        """Have Ray start all."""
        from ray.util import placement_group

        bundles = as_bundles([self._resources] * self._given.shards)
        if bundles:
            self._group = placement_group(bundles, strategy="SPREAD", name=f"siag {self._name}")
        first = self._actor(ServerActor, 0, "server")
        others = [self._actor(ShardActor, k, f"shard {k}", k) for k in range(1, self._given.shards)]
        self._actors, given = [first, *others], parcel(self._given)
        for shard in others:
            shard.run.options(max_task_retries=self._restarts).remote(given)
        self._work = first.run.options(max_task_retries=self._restarts).remote(given, others)

    def _actor(self, kind: type, k: int, what: str, *more: int) -> Any:
        """Have Ray start the server of shard k."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        how = {**as_options(self._resources), "max_restarts": self._restarts, "max_concurrency": TOGETHER}
        if self._group is not None:
            how["scheduling_strategy"] = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=k)
        return self._ray.remote(kind).options(**how, name=f"siag {what} {self._name}").remote(__version__, *more)

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.wait(0)

    def wait(self, seconds: float) -> bool:
        """Wait so long for the run to end; whether it has."""
        return bool(self._ray.wait([self._work], timeout=seconds)[0])

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
        except (errors.ActorDiedError, errors.RayTaskError) as error:
            raise self._gone(error) from None
        except errors.RayActorError:
            self.missed = True
            return None
        self._seen, self.missed = True, False
        return look

    def outcome(self) -> Outcome:
        """What came out of the run, which is over."""
        try:
            outcome: Outcome = self._ray.get(self._work)
        except self._ray.exceptions.RayError as error:
            raise self._gone(error) from None
        return outcome

    def _gone(self, error: Exception) -> SiagError:
        if not self._seen:
            return SiagError(f"the server could not be started: {why_lost(error)}")
        started = "start the run again with the same folder"
        remedy = started if self._restarts else "with folder= it would be restarted from its last save"
        return SiagError(f"the server's process is gone: {why_lost(error)}; {remedy}")

    def finish(self) -> None:
        """Let the servers of the other shards end in order; the lead has waited for their last saves."""
        with suppress(self._ray.exceptions.RayError):
            self._ray.get([shard.stop.remote() for shard in self._actors[1:]])

    def remove(self) -> None:
        """Leave nothing of them on the cluster."""
        from ray.util import remove_placement_group

        with suppress(Exception):  # the cluster is gone as well
            for actor in self._actors:
                self._ray.kill(actor)
            if self._group is not None:
                remove_placement_group(self._group)
