"""The workers of a run, as its driver sees them: actors that Ray places, and restarts if they die."""

from __future__ import annotations

from contextlib import suppress
from secrets import token_hex
from typing import Any

from siag.foundations.errors import SiagError
from siag.foundations.version import __version__
from siag.live.ray.actors import Gone, Secrets, WorkerActor
from siag.live.ray.cluster import installed, parcel, why_lost
from siag.live.ray.resources import Amounts, as_options
from siag.live.reasons import Failure
from siag.live.spec import Spec


class Workers:
    """Has Ray start the workers, and notes which of them are up and which are gone for good.

    Args:
        spec: the run.
        secrets: of the run.
        resources: what each worker needs.
        name: of the run.

    Attributes:
        up: rows of the workers that are up.
        gone: why the workers that are gone for good have ended, by row.
    """

    def __init__(self, spec: Spec, secrets: Secrets, resources: Amounts, name: str) -> None:
        self._ray = installed()
        self._shared = parcel((spec.source, secrets.authority))
        self._streams = [parcel(stream) for stream in spec.per_worker]
        self._names, self._tokens = spec.names, secrets.tokens
        self._how = {**as_options(resources), "max_restarts": -1, "max_task_retries": -1}
        self._name = name
        self._server: Any = None  # the server's actor, once they are to work
        self._waiting = list(range(spec.n))  # rows of workers that are not started
        self._actors: dict[int, Any] = {}
        self._starts: dict[Any, int] = {}  # calls, each with the row of its worker
        self._runs: dict[Any, int] = {}
        self.up: set[int] = set()
        self.gone: dict[int, Gone] = {}

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
        """Let the workers work for this server's actor; workers that are started later begin at once."""
        self._server = server
        for row in self._actors:
            self._put_to_work(row)

    def look(self, patience: float = 0.0) -> None:
        """Wait up to `patience` seconds for workers to come up; note who is up, and who has ended."""
        for call in self._answered(self._starts, patience):
            row = self._starts.pop(call)
            failed = self._result(call)
            if failed is None:
                self.up.add(row)
            elif self._server is None:  # a run does not begin with a worker that cannot work; later, its work ends
                raise SiagError(f"worker {self._names[row]} could not be started: {failed.why}")
        for call in self._answered(self._runs):
            row = self._runs[call]
            self.gone[row] = self._result(call)
            self._stop(row)

    def finish(self, patience: float) -> None:
        """Wait up to `patience` seconds for the workers that are up to end by themselves."""
        if there := [call for call, row in self._runs.items() if row in self.up]:
            self._ray.wait(there, num_returns=len(there), timeout=patience)

    def remove(self) -> None:
        """Leave nothing of them on the cluster."""
        with suppress(Exception):  # the cluster is gone as well
            self.keep(0)

    def _start(self, row: int) -> None:
        who = self._names[row]
        kind = self._ray.remote(WorkerActor).options(**self._how, name=f"siag worker {who} {self._name} {token_hex(2)}")
        actor = self._actors[row] = kind.remote(__version__, row, who, self._tokens[row])
        self._starts[actor.load.remote(self._shared, self._streams[row])] = row
        if self._server is not None:
            self._put_to_work(row)

    def _put_to_work(self, row: int) -> None:
        self._runs[self._actors[row].run.remote(self._shared, self._streams[row], self._server)] = row

    def _stop(self, row: int) -> None:
        """End a worker's process."""
        self._ray.kill(self._actors.pop(row))
        self.up.discard(row)
        self._starts = {call: other for call, other in self._starts.items() if other != row}
        self._runs = {call: other for call, other in self._runs.items() if other != row}

    def _result(self, call: Any) -> Any:
        """What a worker has answered; why not, if it never will."""
        try:
            return self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            return Gone(Failure.GAVE_UP, why_lost(error))

    def _answered(self, calls: dict[Any, int], patience: float = 0.0) -> list[Any]:
        """The calls that have an answer; wait up to `patience` seconds for all of them."""
        return self._ray.wait(list(calls), num_returns=len(calls), timeout=patience)[0] if calls else []
