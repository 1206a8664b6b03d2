"""The servers and the workers of a run, as its driver sees them: actors that Ray places, and restarts if they die."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any

import ray
from ray import exceptions
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from siag.foundations.errors import SiagError
from siag.foundations.types import Floats
from siag.foundations.version import __version__
from siag.live.ray.actors import Gone, Secrets, WorkerActor
from siag.live.ray.cluster import parcel, why_lost
from siag.live.ray.resources import Amounts, as_options
from siag.live.ray.server_actor import Look, Outcome, ServerActor, ServerSpec, ShardActor
from siag.live.reasons import Ended, Failure
from siag.live.spec import Spec

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
    _question: Any = None  # a call that has not been answered: what it says is said only once
    _answered: bool = False  # whether the first has ever answered

    def __post_init__(self) -> None:
        self._restarts = -1 if self.given.spec.folder is not None else 0  # without one there is nothing to go on from

    @property
    def first(self) -> Any:
        """The actor of the only server, or of the lead."""
        return self._actors[0]

    def start(self) -> None:
        """Have Ray start all."""
        if bundle := {what: amount for what, amount in self.resources.items() if amount}:  # Ray refuses empty ones
            bundles, name = [bundle] * self.given.shards, f"siag {self.name}"
            self._group = ray.util.placement_group(bundles, strategy="SPREAD", name=name)
        first = self._actor(ServerActor, 0, "server")
        others = [self._actor(ShardActor, k, f"shard {k}", k) for k in range(1, self.given.shards)]
        self._actors, given = [first, *others], parcel(self.given)
        for shard in others:
            shard.run.options(max_task_retries=self._restarts).remote(given)
        self._work = first.run.options(max_task_retries=self._restarts).remote(given, others)

    def _actor(self, kind: type, k: int, what: str, *more: int) -> Any:
        """Have Ray start the server of shard k."""
        how = {**as_options(self.resources), "max_restarts": self._restarts, "max_concurrency": TOGETHER}
        if self._group is not None:
            how["scheduling_strategy"] = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=k)
        return ray.remote(kind).options(**how, name=f"siag {what} {self.name}").remote(__version__, *more)

    def over(self, patience: float = 0.0) -> bool:
        """Wait up to `patience` seconds for the run to end; return whether it has."""
        return bool(ray.wait([self._work], timeout=patience)[0])

    @property
    def placed(self) -> bool:
        """Whether Ray has room for all servers."""
        return self._group is None or ray.util.placement_group_table(self._group)["state"] == "CREATED"

    def look(self, why: Ended | None, gone: dict[int, Gone]) -> Look | None:
        """Ask the first server, and tell it why the run is to end, and who is gone; `None` if it does not answer."""
        if self._question is None:
            self._question = self.first.look.remote(why, gone)
        if not ray.wait([self._question], timeout=TIMEOUT)[0]:  # it is busy, or has no place yet
            return None
        question, self._question = self._question, None
        try:
            look: Look = ray.get(question)
        except (exceptions.ActorDiedError, exceptions.RayTaskError) as error:
            raise self._lost(error) from None
        except exceptions.RayActorError:
            self.missed = True
            return None
        self._answered, self.missed = True, False
        return look

    def model(self) -> Future[Floats]:
        """Ask the first server for a copy of w."""
        if not self._actors:
            raise SiagError("the servers have not been started")
        answer: Future[Floats] = self.first.model.remote().future()
        return answer

    def outcome(self) -> Outcome:
        """What came out of the run, which is over."""
        try:
            outcome: Outcome = ray.get(self._work)
        except exceptions.RayError as error:
            raise self._lost(error) from None
        return outcome

    def _lost(self, error: Exception) -> SiagError:
        if not self._answered:
            return SiagError(f"the server could not be started: {why_lost(error)}")
        started = "start the run again with the same folder"
        remedy = started if self._restarts else "with folder= it would be restarted from its last save"
        return SiagError(f"the server's process is gone: {why_lost(error)}; {remedy}")

    def finish(self) -> None:
        """Let the servers of the other shards end in order; the lead has waited for their last saves."""
        with suppress(exceptions.RayError):
            ray.get([shard.stop.remote() for shard in self._actors[1:]])

    def remove(self) -> None:
        """Leave nothing of them on the cluster."""
        with suppress(Exception):  # the cluster is gone as well
            for actor in self._actors:
                ray.kill(actor)
            if self._group is not None:
                ray.util.remove_placement_group(self._group)


class Workers:
    """Has Ray start the workers, and notes which of them are up and which are gone for good.

    Args:
        spec: the run.
        secrets: of the run.
        resources: what each worker needs.
        name: of the run.
    """

    def __init__(self, spec: Spec, secrets: Secrets, resources: Amounts, name: str) -> None:
        self._shared = parcel((spec.source, secrets.authority))
        self._streams = [parcel(stream) for stream in spec.per_worker]
        self._names, self._tokens = spec.names, secrets.tokens
        self._how = {**as_options(resources), "max_restarts": -1, "max_task_retries": -1}
        self._name = name
        self._server: Any = None  # the server's actor, once they are to work
        self._waiting = list(range(spec.n))  # rows of workers that are not started
        self._actors: dict[int, Any] = {}
        self._calls: dict[Any, int] = {}  # with the row of the worker: to load, and once it is up to work
        self.up: set[int] = set()  # rows of the workers that are up
        self.gone: dict[int, Gone] = {}  # why the workers that are gone for good have ended, by row

    def keep(self, most: int) -> bool:
        """Let `most` workers run: start some that wait, or end some, which wait then; return whether any was ended."""
        surplus = sorted(self._actors)[most:]
        for row in surplus:
            self._stop(row)
        self._waiting += surplus
        while self._waiting and len(self._actors) < most:
            self._start(self._waiting.pop(0))
        return bool(surplus)

    def work(self, server: Any) -> None:
        """Let the workers work for this server's actor; others begin when they are up."""
        self._server = server
        for row in self.up:
            self._put_to_work(row)

    def look(self, patience: float = 0.0) -> None:
        """Wait up to `patience` seconds for workers to come up; note who is up, and who has ended."""
        calls = list(self._calls)
        for call in ray.wait(calls, num_returns=len(calls), timeout=patience)[0] if calls else []:
            row, result = self._calls.pop(call), self._result(call)
            if result is None:
                self.up.add(row)
                self._put_to_work(row)
            elif self._server is None:  # a run does not begin with a worker that cannot work
                raise SiagError(f"worker {self._names[row]} could not be started: {result.why}")
            else:
                self.gone[row] = result
                self._stop(row)

    def finish(self, patience: float) -> None:
        """Wait up to `patience` seconds for the workers that are up to end by themselves."""
        if there := [call for call, row in self._calls.items() if row in self.up]:
            ray.wait(there, num_returns=len(there), timeout=patience)

    def remove(self) -> None:
        """Leave nothing of them on the cluster."""
        with suppress(Exception):  # the cluster is gone as well
            self.keep(0)

    def _start(self, row: int) -> None:
        who = self._names[row]
        kind = ray.remote(WorkerActor).options(**self._how, name=f"siag worker {who} {self._name} {token_hex(2)}")
        actor = self._actors[row] = kind.remote(__version__, row, who, self._tokens[row])
        self._calls[actor.load.remote(self._shared, self._streams[row])] = row

    def _put_to_work(self, row: int) -> None:
        if self._server is not None:
            self._calls[self._actors[row].run.remote(self._shared, self._streams[row], self._server)] = row

    def _stop(self, row: int) -> None:
        """End a worker's process."""
        ray.kill(self._actors.pop(row))
        self.up.discard(row)
        self._calls = {call: other for call, other in self._calls.items() if other != row}

    def _result(self, call: Any) -> Gone | None:
        """What a worker has answered: nothing if it is up, or how its work has ended; why not, if it never will."""
        try:
            result: Gone | None = ray.get(call)
        except exceptions.RayError as error:
            return Gone(Failure.GAVE_UP, why_lost(error))
        return result
