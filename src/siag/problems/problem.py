"""What a problem is: n local objectives with a stochastic gradient each, eq. (1) of the paper."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled, optional_verb, verb
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats, Integers, Record, Rng

LARGEST_SOLVED = 1024  # d of quadratic problems whose optimum is found by d + 1 gradients


class Constants(NamedTuple):
    """The constants of Assumptions 1 and 2."""

    mu: float  # F is μ-strongly convex
    L: float  # every ∇F_i is L-Lipschitz
    sigma2: float  # E‖∇f_i(w; ξ) − ∇F_i(w)‖² ≤ σ² (1 + ‖w − w*‖²) for all i and w


class Problem(ABC):
    """min F(w) over w in R^d, with F = (1/n) Σ F_i and F_i(w) = E f_i(w; ξ_i): worker i sees only samples of its own.

    To bring your own: subclass this, let `oracle` return a `NamedTuple` of arrays, and give `sample` a meaning for it
    (and `exact`, if ∇F_i can be computed, and `hessian`, if ∇²F_i can). A whole one is in
    docs/tutorials/own_problem.md. `FromFunction` makes one from a function that Numba need not understand.
    """

    no_exact: ClassVar[str] = ""  # what a user does to have exact gradients, where it is not to write a meaning

    @property
    @abstractmethod
    def n(self) -> int:
        """The number of workers."""

    @property
    @abstractmethod
    def d(self) -> int:
        """The dimension of w."""

    @property
    def optimum(self) -> Floats | None:
        """(d,) w*, from which errors are measured; `None` where it is not known, or where there is no such point.

        A run on a problem without one is judged by ‖∇F‖², where `exact` is known, or by F.
        """
        return None

    @property
    def start(self) -> Floats:
        """(d,) where runs begin that are not told where: 0, unless that is a bad place to begin."""
        return np.zeros(self.d)

    @abstractmethod
    def oracle(self) -> Record:
        """What compiled code needs to draw gradients: arrays, numbers, and scratch space no other thread uses."""

    @property
    def finite(self) -> bool:
        """Whether the F_i are means over finite data; if not, they are those of a stream."""
        return False

    def __repr__(self) -> str:
        """What it is, without its arrays: a line of a saved run."""
        return f"{type(self).__name__}(n={self.n}, d={self.d})"

    def among(self, workers: Integers) -> Problem:
        """The problem of some of the workers: F is the mean of their F_i, which is what errors are measured by.

        By default its ∇F is known where `exact` is, and its optimum where the F_i are quadratic.
        """
        return Some(self, workers)

    def constants(self) -> Constants:
        """μ, L and σ² of Assumptions 1 and 2, where they are known."""
        raise Unsuitable(f"{type(self).__name__} does not know its constants; give it a method constants()")

    @property
    def smoothness(self) -> Floats:
        """(n,) the L_i: ∇F_i is L_i-Lipschitz. Where they are known."""
        raise Unsuitable(f"{type(self).__name__} does not know the L_i of its workers; give it a property smoothness")

    @property
    def has_objective(self) -> bool:
        """Whether F can be computed."""
        return type(self).objective is not Problem.objective

    def objective(self, w: Floats) -> float:
        """F(w), where it is known."""
        raise Unsuitable(f"{type(self).__name__} does not know F; give it a method objective(w)")

    def full_gradient(self, w: Floats) -> Floats:
        """(d,) ∇F(w), exactly: the mean of the ∇F_i(w)."""
        each, out = np.empty((2, self.d))
        mean_gradient(self.oracle(), self.n, check.floats("w", w, (self.d,)), each, out)
        return out

    def gradient(self, i: int, w: Floats) -> Floats:
        """(d,) ∇F_i(w), exactly."""
        out = np.empty(self.d)
        i = check.integer("i", i, low=0, high=self.n - 1)
        exact(self.oracle(), i, check.floats("w", w, (self.d,)), out)
        return out

    def hessian(self, i: int, w: Floats) -> Floats:
        """(d, d) ∇²F_i(w), exactly."""
        out = np.empty((self.d, self.d))
        i = check.integer("i", i, low=0, high=self.n - 1)
        hessian(self.oracle(), i, check.floats("w", w, (self.d,)), out)
        return out


class Some(Problem):
    """Some workers of a problem that has no such problem of its own."""

    def __init__(self, whole: Problem, workers: Integers) -> None:
        self._whole, self._workers = whole, workers

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self._workers)

    @property
    def d(self) -> int:
        """The dimension of w."""
        return self._whole.d

    def oracle(self) -> Record:
        """That of all workers, under their own numbers."""
        return self._whole.oracle()

    def full_gradient(self, w: Floats) -> Floats:
        """(d,) ∇F(w), exactly: the mean of the ∇F_i(w)."""
        each = [self._whole.gradient(int(i), w) for i in self._workers]
        return np.asarray(np.average(each, axis=0, weights=of_each(self._whole, self._workers).get("weights")))

    @cached_property
    def optimum(self) -> Floats | None:
        """(d,) w*, if the whole has one, F is quadratic, and w* is the only one."""
        if self._whole.optimum is None or self.d > LARGEST_SOLVED or not exact.knows(type(self.oracle())):
            return None
        zero, probe = np.zeros(self.d), np.linspace(1.0, 2.0, self.d)
        constant = self.full_gradient(zero)
        hessian = np.stack([self.full_gradient(e) - constant for e in np.eye(self.d)], axis=1)
        if np.linalg.cond(hessian) > 1.0 / np.finfo(float).eps:
            return None
        gap, size = self.full_gradient(probe) - hessian @ probe - constant, np.abs(hessian).sum()
        return np.asarray(np.linalg.solve(hessian, -constant)) if np.abs(gap).max() <= 1e-9 * size else None


def of_each(problem: Problem, workers: Integers) -> dict[str, Any]:
    """What a problem may have of each worker beside its data, weights and numbers of points, of some of them."""
    given = {name: getattr(problem, name, None) for name in ("weights", "counts")}
    return {name: values[workers] for name, values in given.items() if values is not None}


def optimum_of(problem: Problem) -> Floats:
    """(d,) w*, for what cannot do without it."""
    if problem.optimum is None:
        raise Unsuitable(f"{type(problem).__name__} knows no optimum; give it a property optimum")
    return problem.optimum


@verb
def sample(oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """Worker: draw ξ ~ D_i and write ∇f_i(w; ξ) to `out`. Must not write to w."""


@verb
def exact(oracle: Record, i: int, w: Floats, out: Floats) -> None:
    """Worker: write ∇F_i(w) to `out`. Must not write to w."""


@compiled
def mean_gradient(oracle: Record, n: int, w: Floats, each: Floats, out: Floats) -> None:
    """Write ∇F(w) = (1/n) Σ ∇F_i(w) to `out`."""
    out[:] = 0.0
    for i in range(n):
        exact(oracle, i, w, each)
        for j in range(w.size):
            out[j] += each[j] / n


@verb
def hessian(oracle: Record, i: int, w: Floats, out: Floats) -> None:
    """Worker: write ∇²F_i(w) to `out`, (d, d). Must not write to w."""


@optional_verb
def again(oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """Worker: write ∇f_i(w; ξ) to `out`, ξ being the sample drawn last and `rng` as before it was drawn.

    By default the same random numbers are drawn again. Must not write to w.
    """
    sample(oracle, rng, i, w, out)


@compiled
def difference_along(x: Floats, y: Floats, w: Floats, v: Floats) -> float:
    """(x − y)·(w − v)."""
    total = 0.0
    for j in range(w.size):
        total += (x[j] - y[j]) * (w[j] - v[j])
    return total


@optional_verb
def curvature(oracle: Record, rng: Rng, i: int, w: Floats, v: Floats, gradient: Floats, scratch: Floats) -> float:
    """Worker: (∇f_i(w; ξ) − ∇f_i(v; ξ))·(w − v), where `gradient` is ∇f_i(w; ξ) and `rng` as before ξ was drawn.

    By default the same ξ is drawn again. An oracle that does not make gradients of samples draws it from its law.
    """
    again(oracle, rng, i, v, scratch)
    return difference_along(gradient, scratch, w, v)
