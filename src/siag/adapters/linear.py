"""Linear models of any number of outputs on a few named features, compiled: what `Sources` learns from.

w has, feature after feature, a weight for each output; feature 0 is the intercept, whose value is always 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from siag.foundations.dispatch import verb
from siag.foundations.types import Floats, Integers, Record, Rng
from siag.problems import sample


class Softmax(NamedTuple):
    """log Σ_k exp(u_k) − u_y, y being the number of the class."""


class Squared(NamedTuple):
    """½ (u − y)²."""


class Huber(NamedTuple):
    """½ r² where |r| ≤ δ, and δ (|r| − δ/2) elsewhere, r = u − y."""

    delta: float


@verb
def slopes(loss: Record, u: Floats, y: float) -> None:
    """Replace the outputs u by the derivatives of the loss by them."""


@slopes.when(Softmax)
def slopes_softmax(loss: Softmax, u: Floats, y: float) -> None:
    """exp(u_k) / Σ_j exp(u_j), less 1 where k = y; the largest u is taken off first, so that nothing overflows."""
    largest, total = u[0], 0.0
    for k in range(1, u.size):
        largest = max(largest, u[k])
    for k in range(u.size):
        u[k] = math.exp(u[k] - largest)
        total += u[k]
    for k in range(u.size):
        u[k] /= total
    u[int(y)] -= 1.0


@slopes.when(Squared)
def slopes_squared(loss: Squared, u: Floats, y: float) -> None:
    """u − y."""
    u[0] -= y


@slopes.when(Huber)
def slopes_huber(loss: Huber, u: Floats, y: float) -> None:
    """u − y, cut at −δ and δ."""
    u[0] = min(max(u[0] - y, -loss.delta), loss.delta)


class Rows(NamedTuple):
    """A batch of samples: their mean loss, and (ridge/2) ‖v‖² of all weights but the intercepts."""

    loss: Record
    features: Integers  # (p,) the numbers of the features that X has
    X: Floats  # (m, p)
    y: Floats  # (m,)
    weights: Floats  # (m,) by which the samples' losses are multiplied
    u: Floats  # (outputs,) scratch
    ridge: float


@sample.when(Rows)
def gradient_of_rows(oracle: Rows, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """The gradient at w."""
    features, X, u = oracle.features, oracle.X, oracle.u
    for j in range(w.size):
        out[j] = oracle.ridge * w[j]
    for k in range(u.size):
        out[k] = 0.0
    for row in range(X.shape[0]):
        for k in range(u.size):
            u[k] = 0.0
        for j in range(features.size):
            first = features[j] * u.size
            for k in range(u.size):
                u[k] += w[first + k] * X[row, j]
        slopes(oracle.loss, u, oracle.y[row])
        share = oracle.weights[row] / X.shape[0]
        for j in range(features.size):
            first = features[j] * u.size
            for k in range(u.size):
                out[first + k] += share * X[row, j] * u[k]
