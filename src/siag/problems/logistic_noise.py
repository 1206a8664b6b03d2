"""The σ² of Assumption 2 for logistic regression, a few percent above the smallest there is.

With z_k = y_k x_k and e = w − w* a worker's noise N(e) is the variance of a_k z_k, a_k = 1/(1 + exp(v_k)), at the
margins v_k = z_k·(w* + e). Wanted is the largest N(e)/(1 + ‖e‖²). It is bounded from above as follows.

1. A variance is the smallest mean square around any g: N(e) ≤ ‖g‖² + mean ψ_k(v_k), and each
   ψ_k(v) = ‖z_k‖² a² − 2 z_k·g a depends on one number.
2. Each ψ_k lies under a parabola. The mean of the parabolas is (e, 1)ᵀ M (e, 1), so the largest eigenvalue of M is a
   bound. It is nearly attained if the parabolas touch the ψ_k at the e that is wanted and are not too steep elsewhere.
3. They are too steep in one direction, along which all margins change together. So it is cut into slabs,
   low ≤ e·direction ≤ high. A multiple of (e·direction − low)(high − e·direction) may be added to the M of a slab,
   since it is not negative there. The slab with the largest bound is halved until that bound is `CLOSE` to a value
   that N(e)/(1 + ‖e‖²) has, or `HALVINGS` times.

The bound is returned, so the constant is valid in both cases, but for rounding.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

import numpy as np

from siag.foundations.types import Floats

CLOSE = 0.02  # how far above a value that is attained the bound may be
HALVINGS = 50  # of slabs, for a worker
ROUNDS = 3  # points at which the parabolas of a slab touch
MULTIPLES = 4  # that are tried at each, to the factor 10^(1/2)
NEGLIGIBLE = 1e-4  # a noise this much below the largest possible is not looked at


def miss(margins: Floats) -> Floats:
    """1 / (1 + exp(v)), without overflow."""
    return np.asarray(0.5 * (1.0 - np.tanh(0.5 * margins)))


GRID = np.linspace(-12.0, 12.0, 241)  # the v at which ψ is compared with a parabola
SPACE = 0.1  # between them
FLAT = 11.0  # a parabola that touches ψ further out is flat there
ON_GRID = miss(GRID)
BENT = 0.154, 0.0963  # the largest |(a²)″| and |a″|


def smallest_constant(workers: Iterable[tuple[float, Floats]], optimum: Floats) -> float:
    """A c with factor·N(e) ≤ c (1 + ‖e‖²) for all e and all workers; each is its factor and its (m, d) z_k."""
    order = []
    for factor, z in workers:
        at_optimum, _ = majorant(z, z @ optimum, np.zeros(len(optimum)))
        order.append((factor * at_optimum, factor, z))
    attained, bound = 0.0, 0.0
    for _, factor, z in sorted(order, key=lambda each: -each[0]):
        if factor > 0.0:
            above, found = _largest(z, z @ optimum, attained / factor)
            attained, bound = max(attained, factor * found), max(bound, factor * above)
    return float(bound)


def _largest(z: Floats, margins: Floats, attained: float) -> tuple[float, float]:
    """At least the largest N(e)/(1 + ‖e‖²), or what is little above `attained`; and the largest value found."""
    if len(z) < z.shape[1]:  # e need not leave the span of the points
        z = np.asarray(np.linalg.qr(z.T, mode="r")).T
    most = _saturated(z)
    if most <= 0.0:
        return 0.0, attained
    here, form = majorant(z, margins, np.zeros(z.shape[1]))
    attained = max(attained, here, NEGLIGIBLE * most)
    direction = np.linalg.eigh(form[:-1, :-1])[1][:, -1]
    reach = math.sqrt(max(most / attained - 1.0, 0.0))  # further out N/(1 + ‖e‖²) is less than `attained`
    slabs = [(-most, 0, -reach, reach, np.zeros(z.shape[1]))]
    for halving in range(HALVINGS):
        above, _, low, high, e = slabs[0]
        if -above <= (1.0 + CLOSE) * attained:
            break
        heapq.heappop(slabs)
        middle = 0.5 * (low + high)
        for side, ends in enumerate(((low, middle), (middle, high))):
            bound, found, where = _slab(z, margins, direction, ends, e, (1.0 + CLOSE) * attained)
            attained = max(attained, found)
            heapq.heappush(slabs, (max(above, -bound), 2 * halving + side, *ends, where))
    return max(-slabs[0][0], attained), attained


def _saturated(z: Floats) -> float:
    """At least the variance of a_k z_k for any a_k between 0 and 1: those are 1/2 + b_k with |b_k| ≤ 1/2."""
    square, centre = float((z * z).sum(axis=1).mean()), z.mean(axis=0)
    variance = max(square - float(centre @ centre), 0.0)
    return (math.sqrt(variance) + math.sqrt(square)) ** 2 / 4.0 if len(z) > 1 else 0.0


def _slab(
    z: Floats, margins: Floats, direction: Floats, ends: tuple[float, float], e: Floats, enough: float
) -> tuple[float, float, Floats]:
    """At least the largest N(e)/(1 + ‖e‖²) of a slab, or what is at most `enough`; the largest found, and where."""
    low, high = ends
    inside = np.zeros((len(e) + 1, len(e) + 1))
    inside[:-1, :-1] = -np.outer(direction, direction)
    inside[:-1, -1] = inside[-1, :-1] = 0.5 * (low + high) * direction
    inside[-1, -1] = -low * high
    bound, largest, where = math.inf, 0.0, e
    for _ in range(ROUNDS):
        e = e + (np.clip(e @ direction, low, high) - e @ direction) * direction
        found, form = majorant(z, margins, e)
        if found > largest:
            largest, where = found, e
        values, vectors = np.linalg.eigh(form)
        bound, top = min(bound, values[-1]), vectors[:, -1]
        scale, power, change = np.linalg.eigvalsh(form[:-1, :-1])[-1], 0.0, 2.0
        for _ in range(MULTIPLES):
            if bound <= enough or (power == 0.0 and top @ inside @ top >= 0.0):
                break
            values, vectors = np.linalg.eigh(form + scale * 10.0**power * inside)
            bound, top = min(bound, values[-1]), vectors[:, -1]
            power += -change if top @ inside @ top > 0.0 else change
            change /= 2.0
        if bound <= enough or abs(top[-1]) < 1e-9:
            break
        e = top[:-1] / top[-1]  # where the bound is largest: there parabolas that touch are lower
    return float(bound), largest, where


def majorant(z: Floats, margins: Floats, e: Floats) -> tuple[float, Floats]:
    """N(e)/(1 + ‖e‖²), and M for parabolas that touch the ψ_k there."""
    at, squares = margins + z @ e, (z * z).sum(axis=1)
    a = miss(at)
    g = a @ z / len(z)
    bend, slope, value = _parabolas(squares, z @ g, at)
    away = at - margins
    form = np.empty((len(e) + 1, len(e) + 1))
    form[:-1, :-1] = (z.T * bend) @ z / len(z)
    form[:-1, -1] = form[-1, :-1] = (slope - 2.0 * bend * away) @ z / (2.0 * len(z))
    form[-1, -1] = (value - slope * away + bend * away * away).mean() + g @ g
    return float(max((a * a * squares).mean() - g @ g, 0.0) / (1.0 + e @ e)), form


def _parabolas(squares: Floats, along: Floats, at: Floats) -> tuple[Floats, Floats, Floats]:
    """(c, b, h), (m,) each, with ψ(v) ≤ c (v − at)² + b (v − at) + h for all v, where ψ = squares a² − 2 along a.

    c is the least for the v on the grid, and for all beyond it, where ψ is at most the larger of its values at both
    ends, since it is convex in a. Between neighbours on the grid ψ rises above the parabola by at most an eighth of
    SPACE² times the difference of second derivatives, next to `at`, where c is not looked for, by as much again. h has
    that added.
    """

    def psi(a: Floats | float) -> Floats:
        return np.asarray(squares * a * a - 2.0 * along * a)

    a = miss(at)
    slope = -2.0 * (squares * a - along) * a * (1.0 - a)
    edge, limit = miss(np.copysign(FLAT, at)), np.where(at > 0.0, 0.0, 1.0)
    flat = np.abs(at) > FLAT
    slope, value = np.where(flat, 0.0, slope), np.where(flat, np.maximum(psi(edge), psi(limit)), psi(a))
    away = GRID - at[:, None]
    away[np.abs(away) < 0.5 * SPACE] = np.inf
    heights = squares[:, None] * ON_GRID**2 - 2.0 * along[:, None] * ON_GRID
    with np.errstate(invalid="ignore"):
        bend = np.nan_to_num((heights - value[:, None] - slope[:, None] * away) / (away * away)).max(axis=1)
    for end, last in ((0, 1.0), (-1, 0.0)):
        rise = np.maximum(psi(ON_GRID[end]), psi(last)) - value
        touched = flat & (at * GRID[end] > 0.0)  # beyond this end, where the parabola is flat
        least = np.where(touched, 0.0, 1.0 / np.where(touched, 1.0, GRID[end] - at))
        vertex = np.where(rise < 0.0, slope / (2.0 * np.minimum(rise, -1e-300)), least)
        inverse = np.clip(vertex, np.minimum(least, 0.0), np.maximum(least, 0.0))  # 1/(v − at)
        bend = np.maximum(bend, (rise * inverse - slope) * inverse)
    bend = np.maximum(bend, 0.0)
    spare = SPACE**2 / 4.0 * (bend + BENT[0] * squares + 2.0 * BENT[1] * np.abs(along))
    return bend, slope, value + spare
