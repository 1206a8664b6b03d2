"""Rows of a table, dense or sparse, as compiled code reads them: the gradient of a linear model on some of them.

Losses and kinds of tables are told apart by numbers, not by types, so that one piece of machine code serves all: it
takes seconds to make, a comparison takes less than a nanosecond.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from siag.foundations.dispatch import compiled
from siag.foundations.types import Floats, Integers, Rng
from siag.problems import again, sample

LOGISTIC, SOFTMAX, SQUARED, HUBER = range(4)
U1, U2, U3 = np.uint64(1), np.uint64(2), np.uint64(3)
NO_FLOATS: Floats = np.zeros(0)
NO_INTEGERS: Integers = np.zeros(0, np.int64)
NO_TABLE: Floats = np.zeros((0, 0))
NO_PLACES: np.ndarray[Any, Any] = np.zeros(0, np.int32)
NO_REPORTS = NO_INTEGERS, NO_INTEGERS, NO_INTEGERS  # `whose`, `starts` and `order`
for _empty in (NO_FLOATS, NO_TABLE, NO_PLACES):  # as what is given is, for one piece of machine code
    _empty.setflags(write=False)


class Rows(NamedTuple):
    """The rows of one call, and which reports they make."""

    X: Floats  # (rows, features), or none if they are sparse
    data: Floats  # of sparse rows: the numbers that are not 0 …
    indices: np.ndarray[Any, Any]  # … their columns, …
    indptr: np.ndarray[Any, Any]  # … (rows + 1,) and where each row begins; none if they are dense
    features: int
    y: Floats  # (rows,) −1 and 1 for LOGISTIC, 0, 1, … for SOFTMAX
    weights: Floats  # (rows,) by which losses are multiplied, or none
    whose: Integers  # (reports,) the sources of the reports, by number
    starts: Integers  # (reports + 1,) where the rows of each begin in `order`
    order: Integers  # rows by number, in the order of reports, or none: as they are
    loss: int  # LOGISTIC, SOFTMAX, SQUARED or HUBER
    delta: float  # of HUBER
    ridge: float  # λ of (λ/2) Σ_c ‖v_c‖²
    slopes: Floats  # (outputs,) scratch
    span: Integers  # (2,) the report is of order[span[0]:span[1]]
    told: Floats  # (2,) the loss of the last report, the ridge's apart, and the sum of such losses …
    # … each times the weight of its source; (2 + sources,) these follow, where they differ


def scratch(outputs: int, weights: Floats = NO_FLOATS) -> tuple[Floats, Integers, Floats]:
    """The last fields."""
    return np.zeros(outputs), np.zeros(2, np.int64), np.concatenate([np.zeros(2), weights])


@compiled
def outputs(rows: Rows, k: int, w: Floats, u: Floats) -> None:
    """u_c = x·v_c + b_c of row k; w has the (v_c, b_c) one after the other, or the v_c alone."""
    features, width = rows.features, w.size // u.size
    for c in range(u.size):
        v = w[c * width : (c + 1) * width]
        s0, s1, s2, s3 = (v[features] if width > features else 0.0), 0.0, 0.0, 0.0
        if rows.indptr.size > 0:
            for e in range(rows.indptr[k], rows.indptr[k + 1]):
                s0 += rows.data[e] * v[rows.indices[e]]
        else:  # four sums at a time: one would wait for itself
            x = rows.X[k]
            for q in range(features // 4):
                j = np.uint64(4 * q)
                s0 += x[j] * v[j]
                s1 += x[j + U1] * v[j + U1]
                s2 += x[j + U2] * v[j + U2]
                s3 += x[j + U3] * v[j + U3]
            for rest in range(features - features % 4, features):
                s0 += x[rest] * v[rest]
        u[c] = (s0 + s1) + (s2 + s3)


@compiled
def add_row(rows: Rows, k: int, slopes: Floats, share: float, out: Floats) -> None:
    """Add share · slopes_c (x, 1) of row k to the part of `out` that is class c's."""
    features, width = rows.features, out.size // slopes.size
    for c in range(slopes.size):
        part, slope = out[c * width : (c + 1) * width], share * slopes[c]
        if rows.indptr.size > 0:
            for e in range(rows.indptr[k], rows.indptr[k + 1]):
                part[rows.indices[e]] += slope * rows.data[e]
        else:
            x = rows.X[k]
            for j in range(features):
                part[j] += slope * x[j]
        if width > features:
            part[features] += slope


@compiled
def derive_softmax(u: Floats, label: int) -> float:
    """u_c ← exp(u_c)/Σ exp(u_k), less 1 for the label; return the loss. The largest is taken off, so none overflows."""
    largest, total = -math.inf, 0.0
    for c in range(u.size):
        largest = max(largest, u[c])
    value = largest - u[label]
    for c in range(u.size):
        u[c] = math.exp(u[c] - largest)
        total += u[c]
    for c in range(u.size):
        u[c] /= total
    u[label] -= 1.0
    return float(value + math.log(total))


@compiled
def derive(loss: int, delta: float, u: Floats, y: float) -> float:
    """u ← ∂ℓ(u, y)/∂u; return ℓ(u, y): those of `siag.losses`."""
    if loss == LOGISTIC:
        margin = y * u[0]
        small = math.exp(-abs(margin))
        u[0] = -y * (small if margin > 0.0 else 1.0) / (1.0 + small)
        return float(max(-margin, 0.0) + math.log1p(small))
    if loss == SOFTMAX:
        return float(derive_softmax(u, int(y)))
    gap = u[0] - y
    u[0] = gap if loss == SQUARED else min(max(gap, -delta), delta)
    return float(u[0] * (gap - 0.5 * u[0]))


@compiled
def write_gradient(rows: Rows, w: Floats, out: Floats) -> float:
    """out ← the mean gradient over the report's rows, and the ridge's; return the mean loss, the ridge's apart."""
    begin, end, slopes = rows.span[0], rows.span[1], rows.slopes
    width, total = w.size // slopes.size, 0.0
    for j in range(w.size):
        out[j] = rows.ridge * w[j]
    if width > rows.features:
        for c in range(slopes.size):
            out[(c + 1) * width - 1] = 0.0  # intercepts are not shrunk
    for e in range(begin, end):
        k = rows.order[e] if rows.order.size > 0 else e
        share = (rows.weights[k] if rows.weights.size > 0 else 1.0) / (end - begin)
        outputs(rows, k, w, slopes)
        total += share * derive(rows.loss, rows.delta, slopes, rows.y[k])
        add_row(rows, k, slopes, share, out)
    return total


@sample.when(Rows)
def sample_rows(oracle: Rows, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """The mean gradient over the rows of the report; their loss is noted."""
    oracle.told[0] = write_gradient(oracle, w, out)
    oracle.told[1] += (oracle.told[2 + i] if oracle.told.size > 2 else 1.0) * oracle.told[0]


@again.when(Rows)
def same_rows(oracle: Rows, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """The same rows at another point; the loss that is noted is that at the first."""
    write_gradient(oracle, w, out)
