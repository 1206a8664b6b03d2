"""When a live run ends."""

from __future__ import annotations

import math
from dataclasses import dataclass

from siag.foundations import check
from siag.foundations.errors import BadInput, Missing

EPOCHS = 10  # after which a run on finite data ends, if nothing is said


@dataclass(frozen=True, kw_only=True)
class Until:
    """When a live run ends: at the first of these; and in any case when all streams have ended.

    Finite data, such as a list, are read again and again. If nothing is said, a run on them ends after 10 epochs.

    Args:
        iterations: steps of the server.
        reports: accepted reports.
        seconds: since the first report, as workers need time to start; if none comes for 60 seconds, since then.
        epochs: passes over the data of the slowest worker, those with less data or more speed having made more;
            streams that are read once are waited for until they end.

    Example:
        >>> Until(iterations=1000, seconds=60)
        Until(iterations=1000, reports=None, seconds=60.0, epochs=None)
    """

    iterations: int | None = None
    reports: int | None = None
    seconds: float | None = None
    epochs: int | None = None

    @property
    def passes(self) -> float:
        """The epochs after which to end; infinite if something else was asked for."""
        if self.epochs is not None:
            return self.epochs
        return EPOCHS if self == Until() else math.inf

    def __post_init__(self) -> None:
        for name in ("iterations", "reports", "epochs"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check.integer(name, getattr(self, name)))
        if self.seconds is not None:
            object.__setattr__(self, "seconds", check.real("seconds", self.seconds, above=0))


def until_of(value: Until | int | None, streams: bool) -> Until:
    """What the user gave: an `Until`, a number of iterations, or nothing if the streams have an end."""
    given = Until() if value is None else value
    if isinstance(given, Until):
        if not streams and given == Until():
            raise Missing("until", "give until=1000 iterations, or until=siag.Until(seconds=60)")
        return given
    try:
        return Until(iterations=check.integer("until", given))
    except BadInput:
        raise BadInput("until", value, "a number of iterations, at least 1, or an Until") from None
