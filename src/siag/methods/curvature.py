"""Curvature-aided IAG: stale gradients are brought up to date by their Hessians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.activity import Activity
from siag.foundations.errors import Unsuitable
from siag.foundations.memory import check_fits
from siag.foundations.types import Floats, Record, Rng
from siag.methods.method import Exact, advance, compute, receive
from siag.methods.table import SEEN, Aggregated, Table, sum_anew, total_weight
from siag.problems import Problem, hessian


@dataclass(frozen=True, kw_only=True)
class CurvatureIAG(Aggregated):
    r"""IAG that extrapolates every gradient from the w it was computed at to the current one.

        w^{t+1} = w^t − (η/n) Σ_i [∇F_i(w^{τ_i}) + ∇²F_i(w^{τ_i}) (w^t − w^{τ_i})],    τ_i = τ_i(t)

    What is wrong with a stale gradient is then of second order in w^t − w^{τ_i}: on quadratics the iterates are those
    of gradient descent, and near w* it bears gradient descent's step, where IAG's must shrink with the ages.

    A worker sends b_i = ∇F_i(w) − ∇²F_i(w) w and ∇²F_i(w), d + d² numbers; the server keeps both and their sums, so a
    report and a step take O(d²).

    Args:
        resum: as in `SIAG`.
        wait: as in `SIAG`; by default everybody is waited for, since the paper starts from a full pass.
        rows: as in `SIAG`. The b_i are differences of larger numbers: in single precision w* is missed by more.

    Reference:
        H.-T. Wai, W. Shi, C. Uribe, A. Nedić, A. Scaglione, "Accelerating incremental gradient optimization with
        curvature information", Computational Optimization and Applications 2020.
    """

    NO_CLIP = "its messages are no gradients; use Clipped(IAG())"
    ages = ""  # old rows are brought up to date

    wait: float = 1.0

    def message(self, d: int, n: int) -> int:
        """b_i and the Hessian, row by row."""
        return d + d * d

    def init(self, w0: Floats, n: int) -> Record:
        """An empty table of models ∇F_i(w) ≈ b_i + H_i w."""
        width = self.message(w0.size, n)
        check_fits(
            n * width * np.dtype(self.rows).itemsize,
            f"CurvatureIAG with a table of {n} × {width} numbers",
            "use IAG, whose rows have d numbers",
        )
        table = super().init(w0, n)
        return Bent(table.w, table, np.zeros(w0.size))

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that send their exact gradient and Hessian, and remember nothing."""
        return Curved(Exact())

    def suit(self, problem: Problem, activity: Activity) -> None:
        """Refuse a problem without Hessians."""
        super().suit(problem, activity)
        oracle = type(problem.oracle())
        if not hessian.knows(oracle):
            raise Unsuitable(
                f"CurvatureIAG needs Hessians, which {type(problem).__name__} does not offer; "
                f"use IAG, or give `hessian` a meaning for {oracle.__name__}"
            )


class Curved(NamedTuple):
    """A worker that sends the linear model of its gradient."""

    source: Exact


@compute.when(Curved)
def send_model(memory: Curved, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """[g − H w, H] with g = ∇F_i(w), H = ∇²F_i(w)."""
    d = w.size
    offset, curvature = out[:d], out[d:].reshape((d, d))
    compute(memory.source, oracle, rng, i, w, offset)
    hessian(oracle, i, w, curvature)
    for j in range(d):
        for k in range(d):
            offset[j] -= curvature[j, k] * w[k]
    return True


class Bent(NamedTuple):
    """A table of linear models of the gradients."""

    w: Floats  # (d,) the table's own
    table: Table  # of rows (d + d²,): b_i, H_i
    slope: Floats  # (d,) scratch


@receive.when(Bent)
def replace_model(state: Bent, i: int, message: Floats, age: int) -> None:
    """b_i, H_i ← message."""
    receive(state.table, i, message, age)


@advance.when(Bent)
def step_along_models(state: Bent, eta: float) -> None:
    """w ← w − (η/n) (b + H w), with the sums b and H."""
    w, table, slope = state.w, state.table, state.slope
    sum_anew(table)
    if table.tally[SEEN] >= table.quorum:
        n, d = total_weight(table), w.size
        for j in range(d):
            slope[j] = table.total[j]
            for k in range(d):
                slope[j] += table.total[d + j * d + k] * w[k]
        for j in range(d):
            w[j] -= eta / n * slope[j]
