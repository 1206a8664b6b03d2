"""Parts of a run that tell the shadow what they see: workers, the trace, the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.torture.disk import Deferred
from tests.torture.shadow import Shadow

from siag.live import wire
from siag.live.parts import Parts
from siag.live.spec import Spec
from siag.live.task import FromProblem, StreamEnded
from siag.live.worker import Phase, Worker
from siag.server import ParameterServer
from siag.storage.store import Store

if TYPE_CHECKING:
    from tests.torture.world import Torture

FOLDER = Path("state")


class Task(FromProblem):
    """A worker of the problem, whose stream may end."""

    last: int | None = None

    def compute(self, w: Any, out: Any) -> bool:
        """The next message."""
        if self.last is not None and self.sample + 1 >= self.last:
            raise StreamEnded
        return super().compute(w, out)


class Told(Worker):
    """A worker that tells what it has read, and which of its samples were acknowledged."""

    def __init__(self, shadow: Shadow, row: int, **given: Any) -> None:
        super().__init__(**given)
        self._shadow, self._row, self._sent = shadow, row, -1

    def computed(self, send: bool, now: float) -> Any:
        """A message is sent, if there is a server."""
        number = -1 if self.task is None else self.task.sample
        actions = super().computed(send, now)
        self._sent = number if any(hasattr(action, "head") for action in actions) else -1
        return actions

    def lost(self, reason: str, now: float) -> Any:
        """Whether it has arrived is not known."""
        self._sent = -1
        return super().lost(reason, now)

    def frame(self, head: wire.Head, content: dict[str, Any], now: float) -> Any:
        """An answer."""
        if head.kind == wire.REFUSAL:
            self._sent = -1
        if head.kind == wire.MODEL and self.phase in (Phase.JOINED, Phase.WELCOMED):
            self._shadow.read(self._row, head.stamp, self._sent)
            self._sent = -1
        return super().frame(head, content, now)


class Tap:
    """Tells the shadow what a server does, and then its trace."""

    def __init__(self, torture: Torture, trace: Any) -> None:
        self._torture, self._shadow, self._trace = torture, torture.shadow, trace

    def report(self, version: int, worker: int, stamp: int, sample: int, seconds: float) -> None:
        """A report was taken."""
        self._torture.check_owner(worker)
        self._shadow.report(version, worker, stamp, sample)
        if self._trace is not None:
            self._trace.report(version, worker, stamp, sample, seconds)

    def fade(self, version: int, worker: int, factor: float, seconds: float) -> None:
        """A row counts for less."""
        self._shadow.fade(worker, factor)
        if self._trace is not None:
            self._trace.fade(version, worker, factor, seconds)

    def memory_lost(self, version: int, worker: int, seconds: float) -> None:
        """A worker has lost what it remembered."""
        if self._trace is not None:
            self._trace.memory_lost(version, worker, seconds)


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

    def _write(self, save: Any) -> None:
        super()._write(save)
        if save.done:
            self._shadow.saved = max(self._shadow.saved, self._version)


class SimulatedParts(Parts):
    """A session on the simulated disk."""

    def __init__(self, torture: Torture, store: type[Watched], spec: Spec) -> None:
        given: dict[str, Any] = {"entropy": torture.rng.randbytes, "clock": lambda: torture.now}
        super().__init__(spec, disk=torture.disk, background=self._deferred, **given)
        self._torture, self._kind = torture, store

    @property
    def run_id(self) -> str:
        """The same in each life."""
        return f"run {self._torture.options.seed}"

    def _deferred(self, name: str) -> Deferred:
        made = Deferred()
        self._torture._backgrounds.append(made)
        return made

    def store(self, stack: Any, server: ParameterServer) -> Store:
        """A store that tells which version is on disk."""
        options = self._torture.options
        given: dict[str, Any] = {"durable": options.durable, "spare": options.spare, "disk": self._torture.disk}
        made = self._kind(
            self._torture.shadow,
            FOLDER,
            self.spec.identity,
            **given,
            background=self._deferred("store"),
            entropy=self.entropy,
        )
        stack.callback(made.close)
        return made
