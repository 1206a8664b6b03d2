"""The past of a session: the run it goes on with, or the one after which it begins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from siag.foundations.errors import BadInput
from siag.foundations.types import Integers
from siag.live.curve import Curve
from siag.live.durable_log import go_on
from siag.live.predecessor import Predecessor
from siag.server.parameter_server import ParameterServer
from siag.steps import from_text
from siag.storage.store import Store


class Past:
    """What a session knows of earlier ones, and saves for the next.

    Args:
        server: the parameter server.
        run_id: by which a new run knows its trace; "" if it has none.

    Attributes:
        recovered: whether the session goes on where another was.
        tail: the last lines of its trace; `None` if it went on without one.
        steps: each in words, and from which η_t on.
        begun: what is told of where the run began, if that was where another one ended.
        passes: (n,) of each worker over its data, made before this run began.
        left: the names of workers that had left before.
        remarks: what is told when the session begins.
    """

    def __init__(self, server: ParameterServer, run_id: str) -> None:
        self._server = server
        self.run_id = run_id
        self.recovered = False
        self.tail: list[str] | None = []
        self.steps: list[tuple[int, str]] = [(0, repr(server.step))]
        self.begun: dict[str, Any] = {}
        self.passes: Integers = np.zeros(server.n, np.int64)
        self.left: set[str] = set()
        self.remarks: list[str] = []

    def recover(self, store: Store | None, curve: Curve, passes: Integers, now: float) -> None:
        """Go on where the last session with this store was, if there was one; fill in its `passes`."""
        found = None if store is None else store.recover(self._server.arrays())
        if store is None or found is None:
            return
        self.recovered, self.run_id = True, found.meta.get("run", "")
        traced = found.meta.get("trace", "")
        self.steps = [(int(at), str(step)) for at, step in found.meta["steps"]]
        self.begun = dict(found.meta["begun"])
        self.passes[:], passes[:] = found.meta["passes0"], found.meta["passes"]
        with self._its_own_step(bool(found.entries)):
            lines, remarks = go_on(self._server, curve, store, found, now)
        self.tail = None if traced is None else traced.splitlines(keepends=True) + lines
        self.remarks += *found.remarks, *remarks
        self.remarks.append(f"went on from version {self._server.version}, {self._server.reports} reports")

    def begin_after(self, before: Predecessor, about: dict[str, Any], store: Store | None) -> None:
        """Begin where a run with another way to choose steps has ended, and replace it in the store.

        Args:
            before: that run.
            about: what is told of this one's start, also when it has been started again.
            store: where both are saved.
        """
        if store is not None:
            store.begin_anew()
        for member, samples in zip(self._server.members, before.samples, strict=True):
            member.samples, member.began = int(samples), True  # so that its trace does not count on samples before
        self.left = set(before.model.left)
        self.passes[:] = [before.model.passes.get(member.name, 0) for member in self._server.members]
        self.begun = {**about, "from": before.words}
        self.remarks += before.model.remarks
        if before.diverged:
            self.remarks.append(f"what was logged before it diverged, {before.model.logged} in number, is left out")
        self.remarks.append(f"begins from w of {before.words}; versions, reports and epochs are counted from 0 again")

    def saved(self) -> dict[str, Any]:
        """What a save has of it."""
        return {"run": self.run_id, "steps": self.steps, "begun": self.begun, "passes0": self.passes.tolist()}

    @contextmanager
    def _its_own_step(self, logged: bool) -> Iterator[None]:
        """Let what was logged be done again with the step it was done with; the run goes on with the one given."""
        server, new, old = self._server, self._server.step, self.steps[-1][1]
        if repr(new) == old:
            yield
            return
        if logged:
            step = from_text(old)
            if step is None:
                raise BadInput("step", new, f"{old}, with which the reports of the log were taken")
            server.take_steps(step)
        yield
        server.take_steps(new)
        self.steps = [each for each in self.steps if each[0] < server.scheduled] + [(server.scheduled, repr(new))]
        self.remarks.append(f"the step is {new!r} from version {server.version} on")
