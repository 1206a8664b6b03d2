"""The workers of a run, as its driver sees them: actors that Ray places, and restarts if they die."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Any

from siag.foundations.errors import SiagError
from siag.foundations.version import __version__
from siag.live.ray.actors import Gone, Secrets, WorkerActor
from siag.live.ray.cluster import installed, parcel, why_lost
from siag.live.ray.resources import ONE_CPU, Amounts, as_bundles, as_options, is_placed, nodes_of, room_for
from siag.live.reasons import Failure
from siag.live.spec import Spec


class Workers:
    """Starts the workers, and notes which of them are up and which are gone for good.

    Ray Data reads Datasets by tasks that need a CPU. Ray cannot keep one free for them, so with Datasets only as many
    workers are started as leave one. The others are started one after the other, when Ray has room for one more worker
    and that CPU: a placement group asks for both, which Ray's autoscaler sees, and goes when it has them.

    Args:
        spec: the run.
        secrets: of the run.
        resources: what each worker needs.
        first: what is placed before the workers: servers, and with Datasets the CPU for reading.
        reads: whether Datasets are read meanwhile.
        name: of the run.

    Attributes:
        up: rows of those that are up.
        gone: those that have ended for good, by row.
    """

    def __init__(
        self, spec: Spec, secrets: Secrets, resources: Amounts, first: Sequence[Amounts], *, reads: bool, name: str
    ) -> None:
        self._ray = installed()
        self._names, self._streams, self._tokens = spec.names, spec.per_worker, secrets.tokens
        self._resources, self._first, self._reads, self._name = dict(resources), first, reads, name
        self._shared = parcel((spec.source, secrets.authority))  # what all get
        self._server: Any = None  # the server's actor, once they are to work
        self._actors: dict[int, Any] = {}
        self._sent: dict[int, Any] = {}  # streams, in Ray's object store
        self._greetings: dict[Any, int] = {}  # of those that are not known to be up
        self._work: dict[Any, int] = {}
        self._waiting = list(range(spec.n))  # those that are not started
        self._probe: Any = None  # a placement group that tells whether there is room for one more
        self.up: set[int] = set()
        self.gone: dict[int, Gone] = {}

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
        for hello in self._done(self._greetings, patience):
            row = self._greetings.pop(hello)
            if self._server is None:  # what is wrong with later ones is known when their work ends
                self._check(self._names[row], hello)
            self.up.add(row)

    def _check(self, name: str, hello: Any) -> None:
        """Refuse to begin with a worker that cannot work."""
        try:
            wrong = self._ray.get(hello)
        except self._ray.exceptions.RayError as error:
            wrong = f"it could not be started: {why_lost(error)}"
        if wrong:
            raise SiagError(f"worker {name}: {wrong}")

    def note_ends(self) -> None:
        """See which workers have ended for good; their room is for those that wait."""
        for work in self._done(self._work):
            row = self._work.pop(work)
            try:
                self.gone[row] = self._ray.get(work)
            except self._ray.exceptions.RayError as error:
                self.gone[row] = Gone(Failure.GAVE_UP, why_lost(error))
            self._stop(row)

    def _done(self, calls: dict[Any, int], patience: float = 0.0) -> list[Any]:
        """The calls that have been answered; wait so many seconds for the first of them."""
        found = self._ray.wait(list(calls), timeout=patience)[0] if calls else []
        return self._ray.wait(list(calls), num_returns=len(calls), timeout=0)[0] if found else []

    @property
    def paused(self) -> bool:
        """Whether none is started though some could be."""
        return not self._actors and bool(self._waiting)

    def pause(self) -> None:
        """End all processes of workers; `start` starts them again."""
        self._drop_probe()
        for row in sorted(self._actors):
            self._put_off(row)

    def adjust(self) -> None:
        """With Datasets, keep a CPU free for reading: start one more worker if there is room, end some if not."""
        if not self._reads:
            return
        for row in sorted(self._actors)[self._limit() :]:
            self._put_off(row)
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
            self.pause()

    def _limit(self) -> int:
        """How many may be started, at most."""
        if not self._reads:
            return len(self._names)
        return room_for(nodes_of(self._ray), self._first, self._resources, len(self._names))[1]

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

    def _put_off(self, row: int) -> None:
        """End a worker's process; it is to be started again."""
        self._work = {work: other for work, other in self._work.items() if other != row}
        self._stop(row)
        self._waiting.append(row)

    def _stop(self, row: int) -> None:
        self._ray.kill(self._actors.pop(row))
        self.up.discard(row)
        self._greetings = {hello: other for hello, other in self._greetings.items() if other != row}

    def _drop_probe(self) -> None:
        from ray.util import remove_placement_group

        if self._probe is not None:
            remove_placement_group(self._probe)
            self._probe = None
