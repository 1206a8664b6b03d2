"""The servers of a run, as its driver sees them: actors in a placement group that Ray keeps for them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from siag.foundations.errors import SiagError
from siag.foundations.version import __version__
from siag.live.ray.actors import Gone
from siag.live.ray.cluster import installed, parcel, why_lost
from siag.live.ray.resources import Amounts, as_options
from siag.live.ray.server_actor import Look, Outcome, ServerActor, ServerSpec, ShardActor
from siag.live.reasons import Ended

TIMEOUT = 2.0  # seconds for an actor to answer
TOGETHER = 8  # calls that a server's actor answers at a time, one of them being its work


@dataclass
class Servers:
    """Starts the servers, and asks the first of them, which is the lead of several, how things stand.

    Ray keeps a bundle of a placement group for each server. If its node is lost, Ray looks for room elsewhere and
    restarts the server there, before any worker gets that room.
    """

    given: ServerSpec  # to each server
    resources: Amounts  # for each server
    name: str  # of the run
    missed: bool = False  # whether the first does not answer because it is being restarted
    _group: Any = None
    _actors: list[Any] = field(default_factory=list)
    _work: Any = None  # the call of the first one
    _place: tuple[str, int] | None = None  # up to where its remarks are known

    def __post_init__(self) -> None:
        self._ray = installed()
        self._restarts = -1 if self.given.spec.folder is not None else 0  # without one there is nothing to go on from

    @property
    def first(self) -> Any:
        """The actor of the only server, or of the lead."""
        return self._actors[0]

    def start(self) -> None:
        """Have Ray start all."""
        from ray.util import placement_group

        if bundle := {what: amount for what, amount in self.resources.items() if amount}:  # Ray refuses empty ones
            self._group = placement_group([bundle] * self.given.shards, strategy="SPREAD", name=f"siag {self.name}")
        first = self._actor(ServerActor, 0, "server")
        others = [self._actor(ShardActor, k, f"shard {k}", k) for k in range(1, self.given.shards)]
        self._actors, given = [first, *others], parcel(self.given)
        for shard in others:
            shard.run.options(max_task_retries=self._restarts).remote(given)
        self._work = first.run.options(max_task_retries=self._restarts).remote(given, others)

    def _actor(self, kind: type, k: int, what: str, *more: int) -> Any:
        """Have Ray start the server of shard k."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        how = {**as_options(self.resources), "max_restarts": self._restarts, "max_concurrency": TOGETHER}
        if self._group is not None:
            how["scheduling_strategy"] = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=k)
        return self._ray.remote(kind).options(**how, name=f"siag {what} {self.name}").remote(__version__, *more)

    def over(self, patience: float = 0.0) -> bool:
        """Wait up to `patience` seconds for the run to end; return whether it has."""
        return bool(self._ray.wait([self._work], timeout=patience)[0])

    @property
    def placed(self) -> bool:
        """Whether Ray has room for all servers."""
        from ray.util import placement_group_table

        return self._group is None or placement_group_table(self._group)["state"] == "CREATED"

    def look(self, why: Ended | None, gone: dict[int, Gone]) -> Look | None:
        """Ask the first server, and tell it why the run is to end, and who is gone; `None` if it does not answer."""
        errors = self._ray.exceptions
        try:
            look: Look = self._ray.get(self.first.look.remote(self._place, why, gone), timeout=TIMEOUT)
        except errors.GetTimeoutError:  # it is busy, or has no place yet
            return None
        except (errors.ActorDiedError, errors.RayTaskError) as error:
            raise self._lost(error) from None
        except errors.RayActorError:
            self.missed = True
            return None
        self._place, self.missed = look.place, False
        return look

    def outcome(self) -> Outcome:
        """What came out of the run, which is over."""
        try:
            outcome: Outcome = self._ray.get(self._work)
        except self._ray.exceptions.RayError as error:
            raise self._lost(error) from None
        return outcome

    def _lost(self, error: Exception) -> SiagError:
        if self._place is None:
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
