"""What a relay must be, known from its members' reports, and what it may send to what is above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from tests.torture.shadow import Held, Shadow, require

from siag.foundations.types import Floats
from siag.live.relays.connections import REFILL
from siag.live.relays.server import RESUM, Gather
from siag.problems import LeastSquares
from siag.server.method_state import move
from siag.server.parameter_server import ParameterServer
from siag.server.sums import Sum


class Sent(NamedTuple):
    """A sum that was sent."""

    message: Floats
    what: Sum
    held: Held  # whose reports are in it
    samples: tuple[int, ...]  # how many of each row were counted by then


class RelayShadow(Shadow):
    """A second relay, told of each report, that makes the sum itself.

    Args:
        problem: what is minimised.
        members: how many it has.
        relays: those among them.
    """

    def __init__(self, problem: LeastSquares, members: int, relays: dict[int, RelayShadow]) -> None:
        super().__init__(problem, Gather(numbers=problem.d, gradient=problem.d), 0, rows=members, relays=relays)
        self.resum = RESUM
        self.claims = {float(members)}  # what it has said it counts for
        self._claim: Sum | None = None
        self._sums: dict[tuple[int, int], Sent] = {}  # by the mean stamp and the number of the report
        self._last: dict[int, Sent] = {}  # of each number
        self._stamps = [(0, 0)] * members  # the mean and the oldest in each row
        self._passed = (0,) * members  # how many of each row were counted in the last sum that was taken
        self._server: ParameterServer | None = None
        self._life: Callable[[], str] = lambda: ""
        self._in_life = ""
        self._waits_until, self._unread = -np.inf, False

    def serves(self, server: ParameterServer, life: Callable[[], str], now: float, had_reports: bool) -> None:
        """A process begins; `life` is that of what is above, as far as its members have been told.

        If what is above has had reports of this relay, of which nothing is left, it waits for its members.
        """
        self._server, self._life, self._in_life = server, life, life()
        self._unread = True  # w, which may be another one of the same version
        self._stamps = [(stamp, stamp) for stamp in self._found(server)]
        self._passed, self._claim = (0,) * self.n, None
        self._waits_until = now + REFILL if had_reports and server.reports == 0 else -np.inf

    def _found(self, server: ParameterServer) -> list[int]:
        return [max(0, member.stamp) for member in server.members]

    # What happens

    def catch_up(self, server: ParameterServer) -> None:
        """It has read w: that of this version."""
        life, models = self._life(), self._models_read()
        known = not self._unread and (life, server.version) == (self._in_life, self._version)
        if self._server is not server or known:
            return
        require(server.version in models, f"a relay has read version {server.version}, which never was")
        w = models[server.version]
        require(server.w.tobytes() == w.tobytes(), f"w of version {server.version} is {server.w} at a relay, not {w}")
        if life != self._in_life or server.version < self._version:  # its stamps were of another life
            self._stamps = [(min(a, server.version), min(b, server.version)) for a, b in self._stamps]
            self.seen = self.saved = 0
        self._in_life, self._version, self._state.w[:], self._unread = life, server.version, w, False
        self._points.append(self._point())

    def report(self, version: int, row: int, worker: int, stamp: int, sample: int) -> None:
        """It has taken a report."""
        self._caught_up()
        super().report(version, row, worker, stamp, sample)
        oldest = self.relays[worker].oldest_of(stamp, sample) if worker in self.relays else stamp
        self._stamps[row] = stamp, oldest

    def _models_read(self) -> dict[int, Floats]:
        return self.lives.get(self._life(), {})

    def _caught_up(self) -> None:
        if self._server is not None:
            self.catch_up(self._server)

    # What it sends

    def claim(self, what: Sum) -> None:
        """It says what it counts for, or what its next report is the sum of."""
        self._claim = what
        self.claims.add(what.weight)

    def send_sum(self, sample: int, message: Floats, now: float) -> None:
        """It has sent a sum, which is that of its rows, for as many as these count for."""
        self._caught_up()
        move(self._state, 0.0)  # it may be summed anew
        self._points.append(self._point())
        table, what = self._state.table, self._claim
        require(what is not None, "a sum was sent that is for nobody")
        there = table.seen & ~table.gone
        total = table.total if there.sum() != 1 else table.rows[np.argmax(there)]
        require(message.tobytes() == total.tobytes(), f"a relay has sent {message}, and its sum is {total}")
        weight = float(table.weights[~table.gone].sum())
        require(abs(what.weight - weight) < 1e-9, f"a sum of {weight:g} was sent as one of {what.weight:g}")
        self._check_stamps(what, np.flatnonzero(there), table.weights)
        waited = now >= self._waits_until or not table.gone.any()
        require(waited, "a relay that was started again has not waited for its members")
        sent = Sent(message.copy(), what, self.contents, tuple(self._samples))
        self._sums[what.mean, sample] = self._last[sample] = sent
        self._claim = None

    def _check_stamps(self, what: Sum, rows: Sequence[int] | np.ndarray, weights: Floats) -> None:
        """The ages that a sum is said to have are those of its rows."""
        read, c = self._version, weights[rows]
        stamps = [(min(mean, read), oldest) for mean, oldest in (self._stamps[row] for row in rows)]
        mean = oldest = read
        if c.sum() > 0.0:
            mean = round(sum(a * b for a, (b, _) in zip(c, stamps, strict=True)) / c.sum())
            oldest = min(mean, *(each for _, each in stamps))
        require((what.mean, what.oldest) == (mean, oldest), f"a sum of stamps {mean}, {oldest} was sent with {what}")

    def sum_of(self, mean: int, sample: int, weight: float) -> Floats:
        """The sum that was sent with this number and mean stamp, for so many."""
        sent = self._sums.get((mean, sample))
        require(sent is not None, f"sum {sample} of mean stamp {mean} was never sent")
        known = sent.what.weight
        require(known == weight, f"sum {sample} was sent for {known:g}, and counts for {weight:g}")
        return sent.message

    def held_of(self, mean: int, sample: int) -> Held:
        """Whose reports are in it."""
        return self._sums[mean, sample].held

    def oldest_of(self, mean: int, sample: int) -> int:
        """The oldest stamp in it."""
        return self._sums[mean, sample].what.oldest

    def passed_on(self, sample: int) -> None:
        """It was answered; -1: it has read w only."""
        if sample >= 0:
            self._passed = self._last[sample].samples

    def check_answer(self, row: int) -> None:
        """A member is answered as by what is above: its report must have been passed on, and answered there."""
        require(self._passed[row] >= self._samples[row], f"row {row} is answered before its report was passed on")
