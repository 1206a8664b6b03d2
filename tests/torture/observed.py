"""Parts of a run that tell the shadow what they see: workers, the trace, the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tests.torture.disk import Deferred
from tests.torture.shadow import Shadow, require

from siag.foundations.types import Floats
from siag.live.assembly import Assembly
from siag.live.protocol import wire
from siag.live.protocol.worker import Phase, Send, Worker
from siag.live.session import Session
from siag.live.spec import Spec
from siag.live.task import FromProblem, StreamEnded
from siag.server.guard import Refused
from siag.storage.store import Store

if TYPE_CHECKING:
    from tests.torture.world import Torture

FOLDER = Path("state")


class Task(FromProblem):
    """A worker of the problem, whichever row it is given, whose stream may end."""

    last: int | None = None
    index, tied = 0, False

    def begin(self, row: int, *given: Any, **more: Any) -> Any:
        """Which row it has, and of how many, does not matter to its samples."""
        return super().begin(self.index, self._problem.n, *given[1:], **more)

    def compute(self, w: Any, out: Any) -> bool:
        """The next message."""
        if self.last is not None and self.sample + 1 >= self.last:
            raise StreamEnded
        return super().compute(w, out)


class Told(Worker):
    """A worker that tells what it sends, what it has read, and which of its samples were acknowledged."""

    def __init__(self, shadow: Shadow, index: int, **given: Any) -> None:
        super().__init__(**given)
        self._shadow, self._index, self._sent = shadow, index, -1
        self._newest: dict[str, int] = {}  # version that it has read, by the server's life

    def computed(self, send: bool, now: float) -> Any:
        """A message is sent, if there is a server."""
        actions, self._sent = super().computed(send, now), -1
        for action in actions:
            if isinstance(action, Send) and action.array is not None:
                _, _, _, stamp, self._sent, _ = wire.HEADER.unpack(action.frame)
                self.sends(stamp, self._sent, action.array, now)
        return actions

    def sends(self, stamp: int, sample: int, message: Floats, now: float) -> None:
        """This is sent."""
        self._shadow.send(self._index, stamp, sample, message)

    def lost(self, reason: str, now: float) -> Any:
        """Whether it has arrived is not known."""
        self._sent = -1
        return super().lost(reason, now)

    def frame(self, head: wire.Head, content: dict[str, Any], now: float) -> Any:
        """An answer."""
        if head.kind == wire.REFUSAL:
            self._sent = -1
        if head.kind == wire.MODEL and self.phase in (Phase.JOINED, Phase.WELCOMED):
            known = self._newest.get(self._life, 0)
            require(head.stamp >= known, f"worker {self._index} is sent version {head.stamp} after {known}")
            self._newest[self._life] = head.stamp
            self._shadow.read(self._index, head.stamp, self._sent)
            self._sent = -1
        return super().frame(head, content, now)


class Tap:
    """Tells the shadow what a server does, and then its trace."""

    def __init__(self, source: Source, trace: Any) -> None:
        self._source, self._shadow, self._trace = source, source.shadow, trace

    def report(self, version: int, worker: int, stamp: int, sample: int, seconds: float, loss: float) -> None:
        """A report was taken."""
        self._shadow.report(version, worker, self._source.check_owner(worker), stamp, sample)
        if self._trace is not None:
            self._trace.report(version, worker, stamp, sample, seconds, loss)

    def fade(self, version: int, worker: int, factor: float, seconds: float) -> None:
        """A row counts for less."""
        self._shadow.fade(worker, factor)
        if self._trace is not None:
            self._trace.fade(version, worker, factor, seconds)

    def weigh(self, version: int, worker: int, weight: float, seconds: float) -> None:
        """A row counts for so much from now on."""
        self._shadow.weigh(worker, self._source.client_of(worker), weight)
        if self._trace is not None:
            self._trace.weigh(version, worker, weight, seconds)

    def memory_lost(self, version: int, worker: int, seconds: float) -> None:
        """A worker has lost what it remembered."""
        if self._trace is not None:
            self._trace.memory_lost(version, worker, seconds)


class Source(Protocol):
    """A server's process that is watched."""

    @property
    def shadow(self) -> Shadow:
        """What it must be."""

    def check_owner(self, row: int) -> int:
        """A report was taken: it must have come by the connection that has the row. The number of its worker."""

    def client_of(self, row: int) -> int:
        """The number of the worker whose row this is."""


def expect_no_refusals(session: Session) -> None:
    """Workers here are honest: none of their reports is to be refused."""
    refused = session.refused

    def told(row: int, reason: Refused) -> None:
        require(reason.why is None, f"a report of row {row} was refused: {reason.reason}")
        refused(row, reason)

    session.refused = told  # type: ignore[method-assign]


class Watched(Store):
    """A store that tells which version is on disk."""

    def __init__(self, shadow: Shadow, *given: Any, **more: Any) -> None:
        self._shadow, self._version = shadow, 0
        super().__init__(*given, **more)

    def save(self, arrays: Any, changed: Any, meta: Any, **more: Any) -> bool:
        """Have the state written."""
        if not self.busy:
            self._version = meta["version"]
        return super().save(arrays, changed, meta, **more)

    def _write(self, *given: Any) -> bool:
        done = super()._write(*given)
        if done:
            self._shadow.saved = self._version  # which may be less than before at a relay whose root went back
        return done


def simulated(torture: Torture) -> dict[str, Any]:
    """What an assembly in the simulated world is given."""

    def deferred(name: str) -> Deferred:
        torture._backgrounds.append(made := Deferred())
        return made

    given = {"disk": torture.disk, "background": deferred}
    return given | {"entropy": torture.rng.randbytes, "clock": lambda: torture.now}


class SimulatedAssembly(Assembly):
    """A session on the simulated disk."""

    def __init__(self, torture: Torture, store: type[Watched], spec: Spec) -> None:
        self._torture, self._kind = torture, store
        super().__init__(spec, **simulated(torture))

    def make_store(self, folder: str, **writing: Any) -> Store:
        """A store that tells which version is on disk."""
        shadow, options = self._torture.shadow, self._torture.options
        given: dict[str, Any] = {"durable": options.durable, "spare": options.spare, **writing}
        return self._kind(shadow, folder, self.spec.identity, **given)
