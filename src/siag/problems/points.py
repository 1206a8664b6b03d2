"""Problems on points that workers hold, each with a loss of x·w: what logistic and ridge regression have in common."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled, verb
from siag.foundations.rng import below
from siag.foundations.types import Floats, Integers, Record, Rng
from siag.problems.problem import Drawn, exact, hessian, sample
from siag.problems.weights import POINTS, among, check_counts, listed, stacked, unequal


class Square(NamedTuple):
    """The penalty x²/2, per coordinate."""


class OnPoints(Drawn):
    """Worker i holds m_i points, of which its F_i is a mean."""

    VALUES: ClassVar[str]  # the name of the field that holds the y_ik, (n, m)

    features: Floats  # (n, m, how many numbers a point has), 0 from worker i's m_i on
    batch: int
    counts: Any  # (n,) the m_i, once they are checked

    @property
    def n(self) -> int:
        """The number of workers."""
        return int(self.features.shape[0])

    @property
    def m(self) -> int:
        """The number of points per worker; if they differ, the largest of the m_i, which are `counts`."""
        return int(self.features.shape[1])

    @property
    def finite(self) -> bool:
        """They are means over the points."""
        return True

    @property
    def _sizes(self) -> str:
        """n and m as they print."""
        return f"n={self.n}, m={self.m if self._full else listed(self.counts)}"

    @property
    def _full(self) -> bool:
        """Whether all workers have as many points."""
        return bool((self.counts == self.m).all())

    @property
    def _there(self) -> Any:
        """(n, m) whether there is such a point."""
        return np.arange(self.m) < self.counts[:, np.newaxis]

    @cached_property
    def _shares(self) -> Floats | None:
        """(n, m) p_i/m_i, what a point counts in F, 0 where there is none; `None`: all are there and count the same."""
        if self._full and self.weights is None:
            return None
        weights = np.ones(self.n) if self.weights is None else self.weights
        return np.where(self._there, (weights / (self.n * self.counts))[:, np.newaxis], 0.0)

    def _mean(self, values: Floats) -> float:
        """The mean over all points that F is, of (n, m) numbers."""
        return float(values.mean() if self._shares is None else (self._shares * values).sum())

    def _check_points(self) -> None:
        """Check the points, their numbers and the weights, and keep them as read-only arrays."""
        given = stacked(self.features, self.VALUES, getattr(self, self.VALUES), self.counts)
        features = check.floats("features", given[0], (None, None, None))
        values = check.floats(self.VALUES, given[1], features.shape[:2])
        counts = check_counts(given[2], *features.shape[:2])
        vars(self).update({"features": features, self.VALUES: values, "counts": counts})
        if not self._full:
            none = ~self._there
            for name in ("features", self.VALUES):
                array = np.array(getattr(self, name))
                array[none] = 0.0
                vars(self)[name] = check.read_only(array)
        weights = self.weights
        if isinstance(weights, str):
            check.choice("weights", weights, (POINTS,))
            weights = counts
        vars(self).update(weights=unequal(weights, self.n), batch=check.integer("batch", self.batch))

    def among(self, workers: Integers) -> Self:
        """The problem of some of the workers."""
        own = {name: getattr(self, name)[workers] for name in ("features", self.VALUES, "counts")}
        return replace(self, **own, weights=among(self.weights, workers))  # type: ignore[type-var]  # subclasses are dataclasses


class Pointwise(OnPoints):
    """F_i(w) = (1/m_i) Σ_k ℓ(x_ik·w, y_ik) + λ Σ_j r(w_j); a stochastic gradient takes `batch` of the m_i points.

    A subclass is a frozen dataclass with the fields below and one for the y_ik, and names its loss ℓ: an empty
    `NamedTuple` for which `slope` and `bend` have a meaning. Its penalty r is another, x²/2 by default, for which
    `pull` and `stiffness` have one.
    """

    LOSS: ClassVar[Record]
    PENALTY: ClassVar[Record] = Square()
    STIFFEST: ClassVar[float] = 1.0  # the largest second derivative of r
    CURVATURE: ClassVar[float]  # the largest second derivative of ℓ

    regularization: float

    @property
    def d(self) -> int:
        """The dimension of w."""
        return int(self.features.shape[2])

    @property
    def smoothness(self) -> Floats:
        """(n,) L_i = λ r″ + ℓ″ ‖X_i‖²/m_i, with ‖X_i‖ the spectral norm and the largest second derivatives."""
        norms = np.array([np.linalg.norm(points, 2) for points in self.features])
        return np.asarray(self.STIFFEST * self.regularization + self.CURVATURE * norms**2 / self.counts)

    def by_sample(self) -> Self:
        """The same F as a finite sum: a worker for each point, the table by sample of SAG and SAGA.

        The points are shared, not copied, if workers have as many of them. A sample is then the exact gradient, so
        methods see no noise. Where the points do not count the same in F, their workers have weights.
        """
        made, shares = copy(self), self._shares
        weights = None if shares is None else unequal(shares[self._there], int(self.counts.sum()))
        for name in ("features", self.VALUES):
            array = getattr(self, name)
            array = array if self._full else check.read_only(array[self._there])
            vars(made)[name] = array.reshape(-1, 1, *self.features.shape[2:] if name == "features" else ())
        counts = check.read_only(np.ones(made.n, np.int64))
        vars(made).update(batch=1, origin=f"{self!r}.by_sample()", counts=counts, weights=weights)
        vars(made).pop("_shares", None)
        return made

    def oracle(self) -> Record:
        """The arrays the gradients are made from."""
        features, values, counts = map(check.read_only, (self.features, getattr(self, self.VALUES), self.counts))
        return Points(self.LOSS, self.PENALTY, features, values, counts, self.regularization, self.batch)

    def __repr__(self) -> str:
        """How it was drawn, or what it is."""
        own = f"{self._sizes}, d={self.d}, regularization={self.regularization}, batch={self.batch}"
        return self._printed(f"{type(self).__name__}({own})")

    def _moment(self, values: Floats) -> Floats:
        """Σ over all points of x_ik values_ik, as much as each counts in F; values are one number or more a point."""
        points = self.features.reshape(-1, self.d)
        if self._shares is None:
            return np.asarray(points.T @ values / len(points))
        return np.asarray((points.T * self._shares.reshape(-1)) @ values)

    @property
    def _noise_factors(self) -> Floats:
        """(n,) by what the variance of a worker's points is multiplied: (n p_i)² over the batch; 0 for one point."""
        weights = np.ones(self.n) if self.weights is None else self.weights
        return np.where(self.counts > 1, weights**2 / self.batch, 0.0)

    @property
    def _steepest(self) -> float:
        """The L of Assumption 1: the largest n p_i L_i."""
        return float((self.smoothness if self.weights is None else self.weights * self.smoothness).max())

    def _check(self, *, above: float | None = None, low: float | None = None) -> None:
        """Check all fields, λ against these limits, and keep them as read-only arrays and numbers."""
        self._check_points()
        vars(self)["regularization"] = check.real("regularization", self.regularization, above=above, low=low)


class Points(NamedTuple):
    """Points with a loss, per worker."""

    loss: Record
    penalty: Record
    features: Floats  # (n, m, d)
    values: Floats  # (n, m)
    counts: Integers  # (n,) m_i, how many points worker i has
    regularization: float
    batch: int


@verb
def slope(loss: Record, u: float, y: float) -> float:
    """∂ℓ(u, y)/∂u."""
    return 0.0


@verb
def bend(loss: Record, u: float, y: float) -> float:
    """∂²ℓ(u, y)/∂u²."""
    return 0.0


@verb
def pull(penalty: Record, x: float) -> float:
    """r′(x)."""
    return 0.0


@verb
def stiffness(penalty: Record, x: float) -> float:
    """r″(x)."""
    return 0.0


@pull.when(Square)
def pull_square(penalty: Square, x: float) -> float:
    """x."""
    return x


@stiffness.when(Square)
def stiffness_square(penalty: Square, x: float) -> float:
    """1."""
    return 1.0


@compiled
def along(x: Floats, w: Floats) -> float:
    """x·w."""
    u = 0.0
    for j in range(w.size):
        u += x[j] * w[j]
    return u


@compiled
def add_point(oracle: Points, i: int, k: int, share: float, w: Floats, out: Floats) -> None:
    """Add `share` of the loss's gradient at worker i's point k."""
    x = oracle.features[i, k]
    weight = share * slope(oracle.loss, along(x, w), oracle.values[i, k])
    for j in range(w.size):
        out[j] += weight * x[j]


@compiled
def add_outer(oracle: Points, i: int, k: int, share: float, w: Floats, out: Floats) -> None:
    """Add `share` of the loss's Hessian at worker i's point k, symmetric to the last bit."""
    x = oracle.features[i, k]
    weight = share * bend(oracle.loss, along(x, w), oracle.values[i, k])
    for j in range(w.size):
        for other in range(w.size):
            out[j, other] += weight * (x[j] * x[other])


@sample.when(Points)
def sample_points(oracle: Points, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """The mean over `batch` of the worker's points, drawn with replacement."""
    for j in range(w.size):
        out[j] = oracle.regularization * pull(oracle.penalty, w[j])
    for _ in range(oracle.batch):
        add_point(oracle, i, below(rng, oracle.counts[i]), 1.0 / oracle.batch, w, out)


@exact.when(Points)
def exact_points(oracle: Points, i: int, w: Floats, out: Floats) -> None:
    """The mean over all of the worker's points."""
    m = oracle.counts[i]
    for j in range(w.size):
        out[j] = oracle.regularization * pull(oracle.penalty, w[j])
    for k in range(m):
        add_point(oracle, i, k, 1.0 / m, w, out)


@hessian.when(Points)
def hessian_points(oracle: Points, i: int, w: Floats, out: Floats) -> None:
    """∇²F_i(w) = λ diag(r″(w_j)) + (1/m_i) Σ_k ℓ″ x_ik x_ikᵀ."""
    m = oracle.counts[i]
    out[:] = 0.0
    for j in range(w.size):
        out[j, j] = oracle.regularization * stiffness(oracle.penalty, w[j])
    for k in range(m):
        add_outer(oracle, i, k, 1.0 / m, w, out)
