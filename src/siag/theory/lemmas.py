"""Lemmas 1–3: both sides of each inequality, exactly, along one run of sIAG on least squares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from siag.activity import Activity, unfold, waited
from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.schedule import Schedule, points
from siag.foundations.types import Floats, Integers
from siag.methods import Method, check_fit
from siag.problems import LeastSquares
from siag.steps import Sizes, Step, lemma_constant, shifted
from siag.theory.exact import least_squares, moments_at_start
from siag.theory.moments import TableMoments, move, renew


@dataclass(frozen=True, eq=False, repr=False)
class Inequality:
    """left ≤ right, at every recorded iteration."""

    name: str
    left: Floats  # (points,)
    right: Floats  # (points,)

    @property
    def holds(self) -> bool:
        """Whether it does, everywhere."""
        return bool((self.left <= self.right).all())

    @property
    def slack(self) -> float:
        """The largest left/right: 1 would be tight. Meaningful where both sides are positive."""
        return float((self.left / self.right).max())

    def __repr__(self) -> str:
        """Whether it holds."""
        return f"Inequality({self.name!r}: {'holds' if self.holds else 'fails'} at {len(self.left)} points)"


@dataclass(frozen=True, eq=False)
class Lemmas:
    """Both sides of the three lemmas.

    Attributes:
        t: (points,) the iterations at which they were evaluated, from the first on at which all had reported.
        first: E‖g/n‖² ≤ 2σ²/n + C_L max E.
        second: what is subtracted from (μ/4) E_t in Lemma 2 is at least (μ/4) E_t − E⟨w − w*, g/n⟩.
        third: max_i E‖w^t − w^{τ_i(t)}‖² ≤ T² η²_{t−T} (2σ²/n + C_L max E).
        inner: (points,) E⟨w − w*, g/n⟩ itself.
        error: (points,) E_t.
    """

    t: Integers = field(repr=False)
    first: Inequality
    second: Inequality
    third: Inequality
    inner: Floats = field(repr=False)
    error: Floats = field(repr=False)


def lemmas(
    problem: LeastSquares,
    method: Method,
    activity: Activity,
    step: Step,
    *,
    iterations: int,
    seed: int = 0,
    record: int = 200,
) -> Lemmas:
    """Evaluate Lemmas 1–3 along one activity pattern; T is the activity's own bound.

    Assumption 3 can hold only once every worker has reported, so earlier iterations are left out. Steps before
    iteration 0 are taken as η_0.
    """
    check_fit(problem, method, activity, step, check.integer("iterations", iterations))
    least_squares("the lemmas", problem)
    if activity.changes(problem.n):
        raise Unsuitable(f"{activity!r}: the lemmas are about workers that stay; use the activity within it")
    T = activity.bound(problem.n)
    if T is None:
        raise Unsuitable(f"{activity!r} has no bound on the age, which the lemmas assume; use Uniform or Cyclic")
    moments = moments_at_start(problem, method, None)
    if not isinstance(moments, TableMoments):
        raise Unsuitable(f"the lemmas are about tables of the latest gradients, not about {method!r}; use SIAG()")
    n = problem.n
    t = points(iterations - 1, check.integer("record", record)) if iterations > 1 else np.zeros(1, np.int64)
    past = Past(
        np.zeros((n, problem.d)), np.zeros(n), np.zeros(n), np.zeros((n, n)), np.zeros(n), np.full(2 * T + 1, -np.inf)
    )
    notes = Notes(t, np.array(problem.optimum), np.full((6, len(t)), np.nan), np.zeros(1, np.int64))
    sizes = shifted(step, waited(activity, n, method.quorum(n), iterations, check.seed(seed), 0))
    for first, chunk in unfold(activity, n, iterations, check.seed(seed), 0, sizes, 2 * n):
        follow(moments, past, chunk, first, notes)
    return _sides(problem, sizes, T, t, notes.values)


def _sides(problem: LeastSquares, sizes: Sizes, T: int, t: Integers, values: Floats) -> Lemmas:
    """Put the recorded terms into the inequalities."""
    known = ~np.isnan(values[0])
    if not known.any():
        raise BadInput("iterations", t[-1] + 1, "enough for every worker to report", "Assumption 3 asks for it")
    t, values = t[known], values[:, known]
    error, near, far, square, inner, gap = values
    mu, L, sigma2 = problem.constants()
    C_L, noise = lemma_constant(L, sigma2, problem.n), sigma2 / problem.n
    eta = sizes(np.maximum(t - T, 0))
    curvature = mu / 2 + 5 * L**2 / mu
    loss = (C_L * T * eta + curvature / 2 * C_L * (T * eta) ** 2) * far
    loss += (2 * T * eta + curvature * (T * eta) ** 2) * noise
    return Lemmas(
        t,
        Inequality("Lemma 1", square, 2 * noise + C_L * near),
        Inequality("Lemma 2", mu / 4 * error - inner, loss),
        Inequality("Lemma 3", gap, (T * eta) ** 2 * (2 * noise + C_L * far)),
        inner,
        error,
    )


class Past(NamedTuple):
    """How w varies together with the iterates u_i = w^{τ_i(t)} the rows were computed from."""

    m: Floats  # (n, d) E u_i
    V: Floats  # (n,) E‖u_i − E u_i‖²
    D: Floats  # (n,) E⟨w − E w, u_i − E u_i⟩
    R: Floats  # (n, n) R_ji = E⟨g_j − h_j, u_i − E u_i⟩
    S: Floats  # (n,) Σ_j R_ji
    errors: Floats  # (2T + 1,) the latest E_t, E_t at t mod (2T + 1)


class Notes(NamedTuple):
    """What is written down along the way."""

    t: Integers  # (points,)
    optimum: Floats  # (d,)
    values: Floats  # (6, points) E, max E over T, max E over 2T, E‖g/n‖², E⟨w − w*, g/n⟩, max_i E‖w − u_i‖²
    cursor: Integers  # (1,)


@compiled
def follow(moments: TableMoments, past: Past, schedule: Schedule, first: int, notes: Notes) -> None:
    """Carry the moments along the schedule, and at the points write down what the lemmas speak of."""
    n = moments.C.size
    for k in range(schedule.eta.size):
        t = first + k
        workers = schedule.worker[schedule.start[k] : schedule.start[k + 1]]
        look_back(moments, past, workers)
        renew(moments, workers)
        bias = 0.0
        for j in range(moments.m.size):
            bias += (moments.m[j] - notes.optimum[j]) ** 2
        past.errors[t % past.errors.size] = moments.V[0] + bias
        if t == notes.t[min(notes.cursor[0], notes.t.size - 1)]:
            if moments.seen[n] == n:
                write_down(moments, past, t, notes)
            notes.cursor[0] += 1
        stepping = moments.seen[n] >= moments.quorum
        move(moments, schedule.eta[k])
        if stepping:
            for i in range(n):
                past.D[i] -= schedule.eta[k] / n * past.S[i]


@compiled
def look_back(moments: TableMoments, past: Past, workers: Integers) -> None:
    """Before the rows are renewed: u_i becomes w for active i, and fresh rows vary with older u_i through w alone."""
    n, V = moments.C.size, moments.V[0]
    for i in workers:
        for k in range(moments.m.size):  # a row assigned at once would have references counted
            past.m[i, k] = moments.m[k]
        past.V[i] = past.D[i] = V
        for j in range(n):
            past.R[j, i] = moments.C[j]
    for j in workers:
        p = moments.source.weights[j] * moments.source.slope
        for i in range(n):
            past.R[j, i] = p * past.D[i]
    for i in range(n):
        past.S[i] = 0.0
        for j in range(n):
            past.S[i] += past.R[j, i]


@compiled
def write_down(moments: TableMoments, past: Past, t: int, notes: Notes) -> None:
    """The terms of the lemmas at iteration t, between the reports and the step."""
    n, d, at = moments.C.size, moments.m.size, notes.cursor[0]
    length = past.errors.size
    square, inner = 0.0, 0.0
    for j in range(d):
        h = 0.0
        for i in range(n):
            h += moments.h[i, j]
        square += h * h
        inner += h * (moments.m[j] - notes.optimum[j])
    widest = 0.0
    for i in range(n):
        square += moments.S[i]
        inner += moments.C[i]
        gap = moments.V[0] + past.V[i] - 2.0 * past.D[i]
        for j in range(d):
            gap += (moments.m[j] - past.m[i, j]) ** 2
        widest = max(widest, gap)
    near, far = 0.0, 0.0
    for age in range(min(t, length // 2) + 1):
        near = max(near, past.errors[(t - age) % length])
    for k in range(length):
        far = max(far, past.errors[k])
    notes.values[0, at] = past.errors[t % length]
    notes.values[1, at] = near
    notes.values[2, at] = far
    notes.values[3, at] = square / (n * n)
    notes.values[4, at] = inner / n
    notes.values[5, at] = widest
