"""What the server must be, known from who reported which sample when; and what it must not lose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.types import Floats
from siag.live.sharding import bounds
from siag.live.task import FromProblem
from siag.methods import SIAG, Method, weigh
from siag.problems import LeastSquares
from siag.server.method_state import NOWHERE, arrays_of, fade_away, move, take
from siag.server.parameter_server import ParameterServer
from siag.server.sums import weights_of

if TYPE_CHECKING:
    from tests.torture.relay_shadow import RelayShadow

ETA = 0.05
FAR = 1e8  # where w starts: gradients shrink by so much that a sum which is never made anew is seen to be off


class Broken(AssertionError):
    """Something that must always be so is not."""


def require(condition: bool, otherwise: str) -> None:
    """Refuse to go on if a promise is broken."""
    if not condition:
        raise Broken(otherwise)


Held = dict[int, int]
"""Whose reports are in a row: the worker's own, or those in a relay's sum; and the how manieth that it has sent."""


class Point(NamedTuple):
    """The server after something changed it."""

    version: int
    reports: int
    arrived: int
    fades: int
    samples: tuple[int, ...]
    arrays: dict[str, Floats]
    lines: int
    held: dict[int, Held]


class Shadow:
    """A second server, told of each report, that computes the worker's message itself.

    Args:
        problem: what is minimised.
        method: with which method.
        every: steps after so many reports; 0: when the real one does.
        shards: how many servers the real one is split over.
        rows: how many rows it has, if that is another number than the problem has workers.
        relays: those among its workers, by their numbers.

    Attributes:
        lives: the w's of all versions, by the life in which a version means one of them.
    """

    def __init__(
        self,
        problem: LeastSquares,
        method: Method,
        every: int,
        shards: int = 1,
        *,
        rows: int | None = None,
        relays: dict[int, RelayShadow] | None = None,
    ) -> None:
        self._problem, self._every = problem, every
        n, w0 = problem.n if rows is None else rows, np.full(problem.d, FAR)
        self.n, self.relays = n, relays or {}
        self._task = FromProblem(problem, SIAG(), 0, w0)
        self._state: Any = method.init(w0, n)
        self.resum = getattr(method, "resum", 0)
        self._version = self._reports = self._arrived = self._fades = 0
        self._samples = [0] * n
        self.models: dict[int, Floats] = {0: w0.copy()}
        self.lines: list[tuple[int, ...]] = []
        self.lives: dict[str, dict[int, Floats]] = {}
        self._sent: dict[int, dict[tuple[int, int], tuple[bytes, int]]] = defaultdict(dict)  # by stamp and sample
        self.sends: dict[int, int] = defaultdict(int)  # how many each worker has sent
        self._held: dict[int, Held] = {}  # by row
        self._owners: dict[int, int] = {}  # whose rows they are
        self._summed: dict[int, tuple[int, ...]] = {}  # when each shard's sum was last checked
        self._expected: dict[int, tuple[Point, dict[str, bytes]]] = {}  # what each shard was last checked against
        self._points = [self._point()]
        whole, thin = arrays_of(self._state), arrays_of(method.init(w0[:1], n))
        self._split = {name for name, array in whole.items() if array.shape != thin[name].shape}
        self._slices = [slice(*bounds(problem.d, shards, k)) for k in range(shards)]
        self.seen = 0  # the newest version that a worker has read
        self.acknowledged: dict[int, int] = defaultdict(lambda: -1)  # the last sample of each worker's that was
        self.saved = 0  # the version of the newest save on disk

    # What workers and the server say they have done

    def send(self, worker: int, stamp: int, sample: int, message: Floats) -> None:
        """A worker has sent a report."""
        self.sends[worker] += 1
        self._sent[worker][stamp, sample] = message.tobytes(), self.sends[worker]

    def report(self, version: int, row: int, worker: int, stamp: int, sample: int) -> None:
        """It has taken a report of the worker whose row this is."""
        self._owners[row] = worker
        require(version == self._version, f"a report at version {version}, which is {self._version}")
        require(sample >= self._samples[row], f"sample {sample} of worker {row} was counted twice")
        message = self._message(row, worker, stamp, sample)
        self._reports += 1
        self._arrived += 1
        self._samples[row] = sample + 1
        go = self._every > 0 and self._arrived >= self._every
        take(self._state, row, message, version - stamp, int(go), ETA if go else 0.0, NOWHERE)
        self.lines.append((version, row, stamp, sample))
        if go:
            self._stepped()
        self._points.append(self._point())

    def _message(self, row: int, worker: int, stamp: int, sample: int) -> Floats:
        """What was reported, which is what was sent."""
        if worker in self.relays:
            self._held[row] = self.relays[worker].held_of(stamp, sample)
            return self.relays[worker].sum_of(stamp, sample, float(self.weights[row]))
        models, message = self._models_read(), np.empty(self._problem.d)
        require(stamp in models, f"a report from version {stamp}, which never was")
        self._task.begin(worker, self._problem.n, self._problem.d, sample)
        self._task.compute(check.read_only(models[stamp]), message)  # as workers read it
        what = f"sample {sample} of worker {worker} from version {stamp}"
        require((stamp, sample) in self._sent[worker], f"{what} was never sent")
        sent, number = self._sent[worker][stamp, sample]
        require(sent == message.tobytes(), f"{what} was sent with other numbers")
        self._held[row] = {worker: number}
        return message

    @property
    def weights(self) -> Floats:
        """(n,) what the rows count for."""
        weights = weights_of(self._state)
        assert weights is not None
        return weights

    @property
    def contents(self) -> Held:
        """Whose reports are in the sum of all rows."""
        return {worker: number for held in self._held.values() for worker, number in held.items()}

    def _models_read(self) -> dict[int, Floats]:
        """What workers have read, by version."""
        return self.models

    def weigh(self, row: int, worker: int, weight: float) -> None:
        """The row of a relay counts for so much from now on."""
        require(weight in self.relays[worker].claims, f"worker {worker} has never said that it counts for {weight:g}")
        weigh(self._state, row, weight)
        self._fades += 1
        self._points.append(self._point())

    def fade(self, row: int, factor: float) -> None:
        """The row of a worker that has left counts for less."""
        if factor == 0.0:
            self._held.pop(row, None)
        fade_away(self._state, row, factor)
        self._fades += 1
        self._points.append(self._point())

    def read(self, worker: int, version: int, sample: int) -> None:
        """A worker has read w of a version; that acknowledges a sample it has sent, unless it is -1."""
        self.seen = max(self.seen, version)
        self.acknowledged[worker] = max(self.acknowledged[worker], sample)
        if worker in self.relays:
            self.relays[worker].passed_on(sample)

    def live(self, life: str) -> None:
        """A server begins, in this life."""
        self.lives[life] = self.models

    def begin_afresh(self) -> None:
        """A server has found nothing on disk."""
        self._go_back(self._points[0])
        del self._points[1:]

    def _stepped(self) -> None:
        self._version += 1
        self._arrived = 0
        self.models[self._version] = self._state.w.copy()

    def _point(self) -> Point:
        arrays = {name: array.copy() for name, array in arrays_of(self._state).items()}
        counts = self._version, self._reports, self._arrived, self._fades
        return Point(*counts, tuple(self._samples), arrays, len(self.lines), dict(self._held))

    # What must be so

    def catch_up(self, server: ParameterServer) -> None:
        """Do the ticks that the server has done: they are not told."""
        while self._every == 0 and self._version < server.version:
            move(self._state, ETA)
            self._stepped()
            self._points.append(self._point())

    def check(self, server: ParameterServer) -> None:
        """The server is what it must be, to the bit."""
        self.catch_up(server)
        counts = server.version, server.reports, server.arrived
        require(counts == self._points[-1][:3], f"it is at {counts}, and should be at {self._points[-1][:3]}")
        self.check_slice(0, len(self._points) - 1, arrays_of(server.state))
        known = [member.samples for member in server.members]
        require(known == self._samples, f"samples {known} are known, and {self._samples} were reported")

    def check_slice(self, k: int, point: int, found: dict[str, Any]) -> None:
        """The arrays of shard k are what they must be after so many changes, and its sum is that of its rows."""
        require(point < len(self._points), f"shard {k} has seen {point} changes of {len(self._points) - 1}")
        known = self._expected.get(k)
        if known is None or known[0] is not self._points[point]:
            part = self._part(self._points[point], k)
            known = self._expected[k] = self._points[point], {name: array.tobytes() for name, array in part.items()}
        for name, content in known[1].items():
            if found[name].tobytes() != content:
                expected = self._part(self._points[point], k)[name]
                raise Broken(f"{name} of shard {k} is {found[name]}, and should be {expected}")
        counts = self._points[point][:4]
        if counts != self._summed.get(k):
            self._summed[k] = counts
            self._check_sum(k, point, found)

    def change(self, point: int) -> tuple[int, int] | None:
        """The row and the sample of the report that this change was; `None` if it was none."""
        require(point < len(self._points), f"change {point} of {len(self._points) - 1}")
        before, after = self._points[point - 1].lines, self._points[point].lines
        return (self.lines[before][1], self.lines[before][3]) if after > before else None

    @property
    def in_order(self) -> bool:
        """Whether every worker has the row of its number, as in a simulation."""
        return all(row == worker for row, worker in self._owners.items())

    @property
    def changes(self) -> int:
        """How many changes lead to the state as it is."""
        return len(self._points) - 1

    def _part(self, point: Point, k: int) -> dict[str, Floats]:
        """The slices of shard k."""
        if len(self._slices) == 1:
            return point.arrays
        return {
            name: array[..., self._slices[k]] if name in self._split else array for name, array in point.arrays.items()
        }

    def _check_sum(self, k: int, point: int, found: dict[str, Any]) -> None:
        """The sum of shard k is that of its rows, up to rounding since it was last summed."""
        rows, total = ("rows", "total") if "rows" in found else ("table.rows", "table.total")
        size = max(1.0, *(float(np.abs(recent.arrays[rows]).max()) for recent in self._recent(point)))
        error = float(np.abs(found[total] - found[rows].sum(axis=0)).max())
        require(error <= 1e-13 * size * self.n, f"the sum of shard {k} is off by {error}, with rows of size {size}")

    def _recent(self, last: int) -> list[Point]:
        """Those since the sum was made anew, and a few before."""
        first = self._points[last].reports - (self.resum + 2) * self.n
        return [point for point in self._points[: last + 1] if point.reports >= first]

    def recovered(self, server: ParameterServer, durable: bool, others: Sequence[dict[str, Any] | None] = ()) -> None:
        """A server was started again, and goes on with what it has found; so do the other shards, where known."""
        parts, counts = [arrays_of(server.state), *others], (server.version, server.reports, server.arrived)
        while self._points and not self._same(self._points[-1], counts, parts):
            self._points.pop()
        require(bool(self._points), f"it goes on from {counts}, with a state that never was")
        if durable:
            require(server.version >= self.seen, f"version {server.version}: a worker has read {self.seen}")
            for worker, sample in self.acknowledged.items():
                known = next((each.samples for each in server.members if each.name == str(worker)), 0)
                require(known > sample, f"sample {sample} of worker {worker} was acknowledged, and is lost")
        require(server.version >= self.saved, f"version {server.version}: {self.saved} was saved")
        for member in server.members:
            owner = self._owners.get(member.row) if member.reports else None
            right = owner is None or member.name == str(owner)
            require(right, f"row {member.row} is {member.name!r}'s, and has reports of {owner}")
        self._go_back(self._points[-1])

    def _same(self, point: Point, counts: tuple[int, ...], parts: Sequence[dict[str, Any] | None]) -> bool:
        return point[:3] == counts and all(
            arrays is None or arrays[name].tobytes() == array.tobytes()
            for k, arrays in enumerate(parts)
            for name, array in self._part(point, k).items()
        )

    def _go_back(self, point: Point) -> None:
        for name, array in arrays_of(self._state).items():
            array[...] = point.arrays[name]
        self._version, self._reports, self._arrived, self._fades = point[:4]
        self._samples, self._held = list(point.samples), dict(point.held)
        self.models = {version: w for version, w in self.models.items() if version <= point.version}
        del self.lines[point.lines :]
        known = {worker: point.samples[row] for row, worker in self._owners.items()}
        for worker, last in self.acknowledged.items():
            self.acknowledged[worker] = min(last, known.get(worker, 0) - 1)
        self.seen, self.saved = min(self.seen, point.version), min(self.saved, point.version)
