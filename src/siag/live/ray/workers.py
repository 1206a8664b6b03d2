"""The workers of a run, as its driver sees them: actors that Ray places, and restarts if they die."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Any

from siag.foundations.version import __version__
from siag.live.plan import Plan
from siag.live.ray.actors import Ended, How, Secrets, WorkerActor
from siag.live.ray.cluster import as_bundles, as_options, installed, parcel, why_lost
from siag.live.ray.room import ONE_CPU, Amounts, room_for
from siag.live.ray.servers import greeted, is_placed


class Workers:
    """Starts the workers, and notes which of them are up and which have ended.

    Ray Data reads Datasets by tasks that need a CPU. Ray cannot keep one free for them, so with Datasets only as many
    workers are started as leave one. The others are started one after the other, when Ray has room for one more worker
    and that CPU: a placement group asks for both, which Ray's autoscaler sees, and goes when it has them.

    Args:
        plan: the run.
        secrets: of the run.
        resources: what each worker needs.
        first: what is placed before the workers: servers, and with Datasets the CPU for reading.
        reads: whether Datasets are read meanwhile.
        name: of the run.
    """

    def __init__(
        self, plan: Plan, secrets: Secrets, resources: Amounts, first: Sequence[Amounts], *, reads: bool, name: str
    ) -> None:
        self._ray = installed()
        self._names, self._streams, self._tokens = plan.names, plan.own, secrets.tokens
        self._resources, self._first, self._reads, self._name = dict(resources), first, reads, name
        self._shared = parcel((plan.source, None if secrets.tls is None else secrets.tls[0]))  # what all get
        self._server: Any = None  # the server's actor, once they are to work
        self._actors: dict[int, Any] = {}
        self._sent: dict[int, Any] = {}  # streams, in Ray's object store
        self._greetings: dict[Any, int] = {}  # of those that are not known to be up
        self._work: dict[Any, int] = {}
        self._waiting = list(range(len(plan.names)))  # those that are not started
        self._probe: Any = None  # a placement group that tells whether there is room for one more
        self.up: set[int] = set()
        self.ended: dict[int, Ended] = {}

    def start(self) -> None:
        """Have Ray start all that are not, or with Datasets as many as there may be."""
        limit = self._limit()
        rows, self._waiting = self._waiting[:limit], self._waiting[limit:]
        for row in rows:
            self._start(row)

    def work(self, server: Any) -> None:
        """Let all work for this server's actor, also those that come later."""
        self._server = server
        for row in self._actors:
            self._put_to_work(row)

    def meet(self, patience: float = 0.0) -> None:
        """See which workers have come up; wait so many seconds for the first of them."""
        done = self._ray.wait(list(self._greetings), timeout=patience)[0] if self._greetings else []
        while done:
            row = self._greetings.pop(done[0])
            if self._server is None:  # what is wrong with later ones is known when their work ends
                greeted(f"worker {self._names[row]}", done[0])
            self.up.add(row)
            done = self._ray.wait(list(self._greetings), timeout=0)[0] if self._greetings else []

    def note_ends(self) -> None:
        """See which workers have ended for good; their room is for those that wait."""
        done = self._ray.wait(list(self._work), num_returns=len(self._work), timeout=0)[0] if self._work else []
        for work in done:
            row = self._work.pop(work)
            try:
                self.ended[row] = self._ray.get(work)
            except self._ray.exceptions.RayError as error:
                self.ended[row] = Ended(How.GAVE_UP, why_lost(error))
            self._stop(row)

    @property
    def paused(self) -> bool:
        """Whether none is started though some could be."""
        return not self._actors and bool(self._waiting)

    def pause(self) -> None:
        """End all processes of workers; `start` starts them again."""
        self._drop_probe()
        self._work.clear()
        self._waiting = sorted([*self._waiting, *self._actors])
        for row in list(self._actors):
            self._stop(row)

    def adjust(self) -> None:
        """With Datasets, keep a CPU free for reading: start one more worker if there is room, end some if not."""
        if not self._reads:
            return
        for row in sorted(self._actors)[self._limit() :]:
            self._work = {work: other for work, other in self._work.items() if other != row}
            self._stop(row)
            self._waiting.append(row)
        if not self._waiting:
            self._drop_probe()
        elif self._probe is None:
            from ray.util import placement_group

            self._probe = placement_group(as_bundles([self._resources, ONE_CPU]), name=f"siag room {self._name}")
        elif is_placed(self._probe):
            self._drop_probe()
            self._start(self._waiting.pop(0))

    def finish(self, patience: float) -> None:
        """Let those that are up end in order."""
        there = [work for work, row in self._work.items() if row in self.up]
        if there:
            self._ray.wait(there, num_returns=len(there), timeout=patience)

    def remove(self) -> None:
        """Leave nothing of them on the cluster."""
        with suppress(Exception):  # the cluster is gone as well
            for row in list(self._actors):
                self._stop(row)
            self._drop_probe()

    def _limit(self) -> int:
        """How many may be started, at most."""
        if not self._reads:
            return len(self._names)
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return room_for(nodes, self._first, self._resources, len(self._names))[1]

    def _start(self, row: int) -> None:
        """Have Ray start a worker."""
        how = {**as_options(self._resources), "max_restarts": -1, "max_task_retries": -1}
        unique = f"siag worker {self._names[row]} {self._name} {token_hex(2)}"
        actor = self._ray.remote(WorkerActor).options(**how, name=unique)
        self._actors[row] = actor.remote(__version__, row, self._names[row], self._tokens[row])
        if row not in self._sent:
            self._sent[row] = parcel(self._streams[row])
        self._greetings[self._actors[row].load.remote(self._shared, self._sent[row])] = row
        if self._server is not None:
            self._put_to_work(row)

    def _put_to_work(self, row: int) -> None:
        self._work[self._actors[row].run.remote(self._shared, self._sent[row], self._server)] = row

    def _stop(self, row: int) -> None:
        self._ray.kill(self._actors.pop(row))
        self.up.discard(row)
        self._greetings = {hello: other for hello, other in self._greetings.items() if other != row}

    def _drop_probe(self) -> None:
        from ray.util import remove_placement_group

        if self._probe is not None:
            remove_placement_group(self._probe)
            self._probe = None
