"""Linear models of any number of outputs on a few named features, compiled: what `Sources` learns from.

w has, feature after feature, a weight for each output; feature 0 is the intercept, whose value is always 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

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
    """A batch of samples, one after the other; the loss of each, and (ridge/2) ‖v‖² of all weights but intercepts."""

    loss: Record
    features: Integers  # (p,) the numbers of the features that X has
    X: Floats  # (m, p)
    y: Floats  # (m,)
    weights: Floats  # (m,) by which the samples' losses are multiplied
    u: Floats  # (outputs,) scratch
    ridge: float


@sample.when(Rows)
def gradient_of_row(oracle: Rows, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """The gradient of sample `rng[0]` at w."""
    features, u, row = oracle.features, oracle.u, np.int64(rng[0])
    x, outputs = oracle.X[row], oracle.u.size
    for k in range(outputs):
        u[k] = 0.0
    for j in range(features.size):
        first = features[j] * outputs
        for k in range(outputs):
            u[k] += w[first + k] * x[j]
    slopes(oracle.loss, u, oracle.y[row])
    for k in range(outputs):
        u[k] *= oracle.weights[row]
        out[k] = 0.0
    for j in range(outputs, w.size):
        out[j] = oracle.ridge * w[j]
    for j in range(features.size):
        first = features[j] * outputs
        for k in range(outputs):
            out[first + k] += u[k] * x[j]
