"""Problems on m points per worker, each with a loss of x·w: what logistic and ridge regression have in common."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import ClassVar, NamedTuple, Self

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled, verb
from siag.foundations.rng import below
from siag.foundations.types import Floats, Integers, Record, Rng
from siag.problems.problem import Problem, exact, hessian, of_each, sample


class Square(NamedTuple):
    """The penalty x²/2, per coordinate."""


class OnPoints(Problem):
    """Worker i holds m points, of which its F_i is a mean."""

    VALUES: ClassVar[str]  # the name of the field that holds the y_ik, (n, m)

    features: Floats  # (n, m, how many numbers a point has)

    @property
    def n(self) -> int:
        """The number of workers."""
        return int(self.features.shape[0])

    @property
    def m(self) -> int:
        """The number of points per worker."""
        return int(self.features.shape[1])

    @property
    def finite(self) -> bool:
        """They are means over the m points."""
        return True

    def among(self, workers: Integers) -> Self:
        """The problem of some of the workers."""
        own = {name: getattr(self, name)[workers] for name in ("features", self.VALUES)}
        return replace(self, **own, **of_each(self, workers))  # type: ignore[type-var]  # subclasses are dataclasses


class Pointwise(OnPoints):
    """F_i(w) = (1/m) Σ_k ℓ(x_ik·w, y_ik) + λ Σ_j r(w_j); a stochastic gradient takes `batch` of the m points.

    A subclass is a frozen dataclass with the fields below and one for the y_ik, and names its loss ℓ: an empty
    `NamedTuple` for which `slope` and `bend` have a meaning. Its penalty r is another, x²/2 by default, for which
    `pull` and `stiffness` have one.
    """

    LOSS: ClassVar[Record]
    PENALTY: ClassVar[Record] = Square()
    STIFFEST: ClassVar[float] = 1.0  # the largest second derivative of r
    CURVATURE: ClassVar[float]  # the largest second derivative of ℓ

    regularization: float
    batch: int
    origin: str

    @property
    def d(self) -> int:
        """The dimension of w."""
        return int(self.features.shape[2])

    @property
    def smoothness(self) -> Floats:
        """(n,) L_i = λ r″ + ℓ″ ‖X_i‖²/m, with ‖X_i‖ the spectral norm and the largest second derivatives."""
        norms = np.array([np.linalg.norm(points, 2) for points in self.features])
        return np.asarray(self.STIFFEST * self.regularization + self.CURVATURE * norms**2 / self.m)

    def by_sample(self) -> Self:
        """The same F as a finite sum: n·m workers with one point each, the table by sample of SAG and SAGA.

        The points are shared, not copied. A sample is then the exact gradient, so methods see no noise.
        """
        made = copy(self)
        for name in ("features", self.VALUES):
            array = getattr(self, name)
            vars(made)[name] = array.reshape(-1, 1, *array.shape[2:])
        vars(made).update(batch=1, origin=f"{self!r}.by_sample()")
        return made

    def oracle(self) -> Record:
        """The arrays the gradients are made from."""
        features, values = map(check.read_only, (self.features, getattr(self, self.VALUES)))
        return Points(self.LOSS, self.PENALTY, features, values, self.regularization, self.batch)

    def __repr__(self) -> str:
        """How it was drawn, or what it is."""
        own = f"n={self.n}, m={self.m}, d={self.d}, regularization={self.regularization}, batch={self.batch}"
        return self.origin or f"{type(self).__name__}({own})"

    def _check(self, *, above: float | None = None, low: float | None = None) -> None:
        """Check all fields, λ against these limits, and keep them as read-only arrays and numbers."""
        features = check.floats("features", self.features, (None, None, None))
        values = check.floats(self.VALUES, getattr(self, self.VALUES), features.shape[:2])
        strength = check.real("regularization", self.regularization, above=above, low=low)
        batch = check.integer("batch", self.batch)
        vars(self).update({"features": features, self.VALUES: values, "regularization": strength, "batch": batch})


class Points(NamedTuple):
    """Points with a loss, per worker."""

    loss: Record
    penalty: Record
    features: Floats  # (n, m, d)
    values: Floats  # (n, m)
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
        add_point(oracle, i, below(rng, oracle.values.shape[1]), 1.0 / oracle.batch, w, out)


@exact.when(Points)
def exact_points(oracle: Points, i: int, w: Floats, out: Floats) -> None:
    """The mean over all of the worker's points."""
    m = oracle.values.shape[1]
    for j in range(w.size):
        out[j] = oracle.regularization * pull(oracle.penalty, w[j])
    for k in range(m):
        add_point(oracle, i, k, 1.0 / m, w, out)


@hessian.when(Points)
def hessian_points(oracle: Points, i: int, w: Floats, out: Floats) -> None:
    """∇²F_i(w) = λ diag(r″(w_j)) + (1/m) Σ_k ℓ″ x_ik x_ikᵀ."""
    m = oracle.values.shape[1]
    out[:] = 0.0
    for j in range(w.size):
        out[j, j] = oracle.regularization * stiffness(oracle.penalty, w[j])
    for k in range(m):
        add_outer(oracle, i, k, 1.0 / m, w, out)
