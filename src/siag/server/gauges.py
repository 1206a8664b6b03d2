"""What a server shows of its steps and of its workers' parts in them; looked at a few times a second."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from siag.foundations.types import Floats, Record
from siag.methods import fade, travelled
from siag.methods.weighted import SAMPLES, weighing_in
from siag.server.guard import square_norm
from siag.server.members import Departed
from siag.server.step_sizes import Sizes
from siag.server.sums import weights_of

LONGEST = 100_000  # numbers of w that are looked at: it must not take the time of training


def shares(
    alike: bool,
    reports: Sequence[int],
    departed: Departed,
    fading: Mapping[int, int],
    gone: Collection[int],
    weights: Floats | None = None,
) -> list[float]:
    """What part of the objective each worker is: its weight among those that are there, or as often as it reports.

    NaN if nobody counts for anything, as where weights are numbers of reports, before the first.

    Args:
        alike: whether the server keeps something of each worker, so that its next report replaces its last one.
        reports: of each worker.
        departed: how the rows of those that have left fade.
        fading: how often each of these was faded.
        gone: of which nothing is left.
        weights: (n,) what each counts for beside others; `None`: the same.
    """
    each = [1.0] * len(reports) if weights is None else weights.tolist()
    if alike:
        each = [0.0 if row in gone else weight for row, weight in enumerate(each)]
    else:
        each = [weight * count for weight, count in zip(each, reports, strict=True)]
    total = sum(each)
    if not total:
        return [0.0 if row in gone else math.nan for row in range(len(reports))]
    found = [weight / total for weight in each]
    for row, times in fading.items():
        found[row] *= departed.factor**times
    return found


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
