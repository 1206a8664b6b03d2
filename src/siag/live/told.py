"""The losses that workers tell with their gradients, averaged over workers as the objective weighs them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from siag.foundations.types import Floats
from siag.live.first_loss import FirstLoss, Start
from siag.server.ledger import WINDOW
from siag.server.members import Member
from siag.server.parameter_server import ParameterServer

KNOWN = 20  # reports of a worker, before its zeros or its losses are judged
ENDLESS = 10.0  # times its first value that a loss is below 0 where it has no minimum


class Told:
    """What the losses of workers say together; each counts for its weight, the same if there are none.

    Args:
        server: whose workers they are.
        first: the loss at w_0, as far as workers tell it.
    """

    def __init__(self, server: ParameterServer, first: FirstLoss) -> None:
        self._server, self._first = server, first

    def parts(self, members: Sequence[Member]) -> Floats:
        """(members,) what part of all of them each is; the same of each if none counts for anything."""
        weights = self._server.gauges.weights
        each = np.ones(len(members)) if weights is None else weights[[member.row for member in members]]
        found: Floats = each / each.sum() if each.any() else np.full(len(members), 1.0 / max(1, len(members)))
        return found

    def mean(self, members: Sequence[Member], values: Sequence[float] | Floats) -> float:
        """Of a number of each of them."""
        return float(np.dot(self.parts(members), values))

    def inverse(self, members: Sequence[Member]) -> float:
        """1 over their number; over a smaller one, if few of them count for most: Σ p_i²."""
        return float(np.square(self.parts(members)).sum())

    def spread(self, members: Sequence[Member], values: Floats) -> float:
        """The standard deviation of a number of each of them."""
        parts = self.parts(members)
        return math.sqrt(float(parts @ np.square(values - parts @ values)) / (1.0 - self.inverse(members)))

    def start(self, members: Sequence[Member]) -> Start | None:
        """The loss at w_0, if it is known."""
        return self._first.of([member.row for member in members], self.parts(members))

    def counted(self, members: Sequence[Member]) -> float:
        """The mean of 1 over the number of losses that the recent one of each is of."""
        return self.mean(members, [1.0 / min(each.losses, WINDOW / 2.0) for each in members])

    def risen(self, members: Sequence[Member]) -> float:
        """By how much the loss is above that at w_0, or of the very first samples, on average; NaN if not known."""
        told = _known(members)
        if not told:
            return math.nan
        known = self.start(told)
        began = self.mean(told, [each.start_loss for each in told]) if known is None else known.mean
        return self.mean(told, [each.loss for each in told]) - began

    def now(self, members: Sequence[Member]) -> float:
        """That of new samples, on average; NaN if it is not known."""
        told = _known(members)
        return self.mean(told, [member.loss for member in told]) if told else math.nan

    def began(self, members: Sequence[Member]) -> float:
        """How large the loss of the very first samples was, on average; NaN if it is not known."""
        told = _known(members)
        return self.mean(told, [abs(member.start_loss) for member in told]) if told else math.nan

    def better(self, members: Sequence[Member], errors: float = 0.0) -> bool:
        """Whether the loss falls, by so many standard errors, and not without end."""
        told = _known(members)
        least = errors * self.chance(told) if told else 0.0
        return self.risen(members) < -least and self.now(members) > -ENDLESS * self.began(members)

    def owed(self, members: Sequence[Member], told: Sequence[Member]) -> float:
        """By how much the loss of those known may rise though the mean over all falls: all that the others had.

        Where two workers differ and one is seldom heard, the model gets worse for the other one, and rightly so.
        """
        heard = [member for member in members if member.losses > 0]
        parts, known = self.parts(heard), {member.row for member in told}
        theirs = sum(part for part, each in zip(parts, heard, strict=True) if each.row in known)
        others = (part * abs(each.start_loss) for part, each in zip(parts, heard, strict=True) if each.row not in known)
        return float(sum(others) / theirs) if theirs else math.inf

    def chance(self, told: Sequence[Member]) -> float:
        """The standard error of the loss of new samples, as they differ now; recent reports count more than older."""
        spread = self.mean(told, [max(member.loss2 - member.loss**2, 0.0) for member in told])
        return math.sqrt(spread * self.counted(told) * self.inverse(told))


def _known(members: Sequence[Member]) -> list[Member]:
    """Those whose losses are judged."""
    return [member for member in members if member.losses >= KNOWN]
