"""What a server shows of its steps and of its workers' parts in them; looked at a few times a second."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from siag.foundations.types import Floats, Record
from siag.methods import answer, fade, travelled
from siag.methods.weighted import SAMPLES, weighing_in, without_weights
from siag.server.guard import square_norm
from siag.server.ledger import REPORTS
from siag.server.status import Snapshot
from siag.server.step_sizes import Sizes
from siag.server.sums import weights_of

if TYPE_CHECKING:
    from siag.server.parameter_server import ParameterServer

LONGEST = 100_000  # numbers of w that are looked at: it must not take the time of training


class Gauges:
    """What a server shows of itself.

    Args:
        server: whose method has its state already.

    Attributes:
        alike: whether workers count for their weights, however often they report.
        weights: (n,) what each worker counts for beside others, as it is at any time; `None` if that is not kept.
    """

    def __init__(self, server: ParameterServer) -> None:
        self._server, self._pace = server, Pace()
        self.alike, self.weights = counts_alike(server.state), weights_in(server.state)

    @property
    def shares(self) -> list[float]:
        """What part of the objective each worker is."""
        server = self._server
        reports = server.ledger[:-1, REPORTS].astype(int).tolist()
        return shares(self.alike, reports, [server.fading.left_of(row) for row in range(server.n)], self.weights)

    @property
    def progressive_loss(self) -> float | None:
        """The mean of the workers' recent losses, weighted as the objective is; `None` if they tell none."""
        return self._server.roster.progressive_loss(self.weights)

    def snapshot(self, now: float) -> Snapshot:
        """How things stand, as far as the server knows."""
        server = self._server
        lines = server.ledger.tolist()  # but for the last those of workers
        weights = [1.0] * server.n if self.weights is None else self.weights.tolist()
        each = zip(server.members, self.shares, weights, lines, strict=False)
        views = tuple(member.view(server.version, now, *told) for member, *told in each if not member.vacant)
        return Snapshot(
            version=server.version,
            reports=server.reports,
            refused=sum(view.refused for view in views),
            seconds=server.seconds(now),
            rate=server.rate.of(server.version, now),
            ages=tuple(server.roster.counted_ages),
            progressive=self.progressive_loss,
            workers=views,
            alike=self.alike,
            weights=kind_of(without_weights(server.method)[1]),
            step=self._pace.of(server.sizes, server.scheduled, server.state, server.version),
            length=length_of(answer(server.state), server.d),
        )


def shares(alike: bool, reports: Sequence[int], left: Sequence[float], weights: Floats | None = None) -> list[float]:
    """What part of the objective each worker is: its weight among those that are there, or as often as it reports.

    NaN if nobody counts for anything, as where weights are numbers of reports, before the first.

    Args:
        alike: whether the server keeps something of each worker, so that its next report replaces its last one.
        reports: of each worker.
        left: what part of its row there is, see `Fading.left_of`.
        weights: (n,) what each counts for beside others; `None`: the same.
    """
    each = [1.0] * len(reports) if weights is None else weights.tolist()
    counted = [part > 0.0 for part in left] if alike else reports
    each = [weight * count for weight, count in zip(each, counted, strict=True)]
    total = sum(each)
    if not total:
        return [math.nan if part else 0.0 for part in left]
    return [weight / total * (part if alike else 1.0) for weight, part in zip(each, left, strict=True)]


def counts_alike(state: Record) -> bool:
    """Whether a method keeps something of every worker: then fast ones replace their own, and nobody else's."""
    return fade.reaches(state)


def weights_in(state: Record) -> Floats | None:
    """(n,) what each worker counts for beside others, as it is at any time; `None` if that is not kept."""
    rows, found = weights_of(state), weighing_in(state)
    return rows if rows is not None or found is None else found.weights


def kind_of(weights: object) -> str:
    """For `Snapshot.weights`: of which kind they are."""
    return "" if weights is None else SAMPLES if isinstance(weights, str) else "given"


class Pace:
    """The size of recent steps: as scheduled, or the mean since the last look of those that a method chooses."""

    def __init__(self) -> None:
        self._version, self._sum, self._mean = 0, 0.0, math.nan

    def of(self, sizes: Sizes, scheduled: int, state: Record, version: int) -> float | None:
        """The size, if it is known: a step that looks at ages is asked once only, when it is taken."""
        whole = travelled(state)
        if math.isnan(whole):
            return None if sizes.rule is not None else sizes.at(scheduled)
        if version > self._version:
            self._mean = (whole - self._sum) / (version - self._version)
            self._version, self._sum = version, whole
        return self._mean if math.isfinite(self._mean) else None


def length_of(w: Floats, d: int) -> float | None:
    """‖w‖, if all of it is here and not too long to look at."""
    return None if w.size != d or d > LONGEST else math.sqrt(square_norm(w, d))
