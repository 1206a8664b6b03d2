"""Steps that follow the ages there are, not the largest there might be."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import part
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats, Integers, Record
from siag.steps.step import Step, heard, left, size

VARIANTS, AGES = ("first", "second"), ("table", "arrivals")
MISSING, OLDEST = 0, 1  # the entries of `tally`
UNKNOWN, NEVER, GONE = -1, -1, 1 << 62  # in place of a stamp
SLACK = 1e-9  # of γ′: a sum of steps may be off by rounding where the rule's inequality is an equation


@dataclass(frozen=True)
class DelayAdaptive(Step):
    r"""Steps that share what the steps since the oldest gradient in use have left over.

    With τ_t the age of that gradient, the steps made since then and the next are γ′ at most, taken together:

        0 ≤ η_t ≤ max{0, γ′ − S_t},    S_t = Σ_{s=t−τ_t}^{t−1} η_s

        first:   η_t = α max{0, γ′ − S_t}
        second:  η_t = γ′/(τ_t + 1) if that is at most γ′ − S_t, otherwise 0

    So nobody has to know a bound on the ages: a worker that is silent for long stops the server, and when it is back
    the server goes on as fast as before. `simulate` and a live server can follow it; theory, which knows t alone,
    cannot.

    The paper's other half, asynchronous block coordinate descent, is left out.

    A worker that dies and is not declared departed lets τ_t grow and η_t tend to 0. Let its row count for nothing
    then (`Departed`); rows that fade count until they have.

    Args:
        gamma: γ′; for IAG and PIAG h/L with 0 < h < 1 and L = √((1/n) Σ L_i²).
        variant: `"first"` or `"second"`, the paper's Adaptive 1 and 2.
        alpha: α of the first. The paper has α < 1. With 1 a step takes all that is left and none follows until that
            step is older than every gradient in use; the principle allows it, so it is accepted.
        ages: `"table"` for methods that keep a gradient of every worker: the oldest of those is meant, and the server
            waits until it has them all. `"arrivals"` for those that use each once: the oldest since the last step.
        horizon: the largest age that is followed; beyond it the step is 0, which the principle always allows.

    Example:
        >>> from siag.steps import heard, size
        >>> rule = DelayAdaptive(1.0, variant="second").rule(n=2)
        >>> heard(rule, 0, 0), heard(rule, 1, 0)
        (None, None)
        >>> [float(size(rule, t)) for t in range(3)]
        [1.0, 0.0, 0.0]

    Reference:
        X. Wu, S. Magnússon, H. Feyzmahdavian, M. Johansson, "Delay-adaptive step-sizes for asynchronous learning",
        ICML 2022.
    """

    gamma: float
    _: KW_ONLY
    variant: str = "first"
    alpha: float = 0.9
    ages: str = "table"
    horizon: int = 65536

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check.real("gamma", self.gamma, above=0))
        check.choice("variant", self.variant, VARIANTS)
        object.__setattr__(self, "alpha", check.real("alpha", self.alpha, above=0, high=1))
        check.choice("ages", self.ages, AGES)
        object.__setattr__(self, "horizon", check.integer("horizon", self.horizon, high=2**26))

    def sizes(self, t: Integers) -> Floats:
        """Refused: t alone does not say."""
        raise Unsuitable(
            f"{self!r} depends on the ages of reports, not on t alone; "
            "use simulate or a live server with it, and Constant or Harmonic elsewhere"
        )

    def rule(self, n: int) -> Record:
        """Nobody heard of, no steps made."""
        table = self.ages == "table"
        tally = np.array([n, UNKNOWN] if table else [0, GONE], np.int64)
        sums, second = np.zeros(self.horizon + 1), int(self.variant == "second")
        return Delays(np.full(n, NEVER, np.int64), sums, tally, self.gamma, self.alpha, second, int(table))


class Delays(NamedTuple):
    """The reports in use, and the steps made since the oldest of them."""

    stamp: Integers  # (n,) what worker i's latest report was computed from; NEVER, or GONE
    sums: Floats  # (horizon + 1,) Σ_{s<t} η_s at t modulo its length, up to a constant common to all
    tally: Integers  # (2,) workers not heard of yet; the oldest stamp in use, UNKNOWN or GONE
    gamma: float
    alpha: float
    second: int  # 1: the second variant
    table: int  # 1: reports are in use until replaced; 0: until the next step


@heard.when(Delays)
def take_stamp(rule: Delays, i: int, stamp: int) -> None:
    """The worker's stamp is this one now."""
    if rule.table == 1:
        replace(rule, i, stamp)
    elif stamp < rule.tally[OLDEST]:
        rule.tally[OLDEST] = stamp


@left.when(Delays)
def drop_stamp(rule: Delays, i: int) -> None:
    """The worker's age matters no longer, whether it was ever heard of or not."""
    if rule.table == 1:
        replace(rule, i, GONE)


@part
def replace(rule: Delays, i: int, stamp: int) -> None:
    """Replace a worker's stamp; if it may have been the oldest, that is looked for when it is needed."""
    before = rule.stamp[i]
    rule.stamp[i] = stamp
    if before == NEVER:
        rule.tally[MISSING] -= 1
    if before == rule.tally[OLDEST]:
        rule.tally[OLDEST] = UNKNOWN
    elif stamp < rule.tally[OLDEST]:
        rule.tally[OLDEST] = stamp


@size.when(Delays)
def what_is_left(rule: Delays, t: int) -> float:
    """η_t by the principle; 0 while a gradient is missing, or if none is in use."""
    length = rule.sums.size
    if rule.tally[OLDEST] == UNKNOWN and rule.tally[MISSING] == 0:
        oldest = GONE
        for i in range(rule.stamp.size):
            oldest = min(oldest, rule.stamp[i])
        rule.tally[OLDEST] = oldest
    oldest, before = rule.tally[OLDEST], rule.sums[t % length]
    eta = 0.0
    if rule.tally[MISSING] == 0 and oldest <= t < oldest + length:
        rest = max(rule.gamma - (before - rule.sums[oldest % length]), 0.0)
        share = rule.gamma / (t - oldest + 1)
        if rule.second == 0:
            eta = rule.alpha * rest
        elif share <= rest + SLACK * rule.gamma:
            eta = min(share, rest)
    if rule.table == 0:
        rule.tally[OLDEST] = GONE
    add(rule.sums, t, before + eta)
    return eta


@part
def add(sums: Floats, t: int, total: float) -> None:
    """Enter the sum before t + 1; once a round take off what all have in common, so that they stay small and exact."""
    at = (t + 1) % sums.size
    sums[at] = total
    if at == 0:
        common = sums[1]
        for k in range(sums.size):
            sums[k] -= common
