"""Means and covariances of the iterates of least squares, carried along a schedule exactly, without sampling.

Given who reports when, everything in E‖w^t − w*‖² is linear or quadratic in independent noise, and the gradient's mean
p(w − w_i*) and variance p(d+1)‖w − w_i*‖² + σ²pd are known. So it is enough to carry m = E w, h_i = E g_i and the
traces V = E‖w − m‖², C_i = E⟨w − m, g_i − h_i⟩, Q_ij = E⟨g_i − h_i, g_j − h_j⟩. Of Q only the row sums enter, and they
follow from snapshots of C: an iteration costs O(n) for every earlier one in which an active worker reported last.

If rows are moving averages, g_i ← (1 − a) g_i + a ∇f_i(w; ξ) with a = 1/min(k, m), the same moments are enough: what is
known of the old row enters with 1 − a, what a fresh gradient brings with a, and its own noise with a². Then Q is kept,
and an iteration costs O(n |A_t|).

If worker i counts c_i = n p_i times as much as others, its row is c_i ∇f_i(w; ξ): a mean of c_i p(w − w_i*), and c_i²
times the noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from siag.foundations.dispatch import optional_verb, part, verb
from siag.foundations.types import Floats, Integers, Record
from siag.theory.snapshots import Snapshots, keep, leave, no_snapshots, take_back, vanish

RESUM = 1000


class Source(NamedTuple):
    """The law of the gradients."""

    centers: Floats  # (n, d)
    slope: float  # p: ∇F_i(w) = p (w − w_i*)
    spread: float  # p(d + 1), or 0 for exact gradients
    floor: float  # σ²pd, or 0 for exact gradients
    weights: Floats  # (n,) c_i, what rows are multiplied by


class TableMoments(NamedTuple):
    """Of the iterate and of all rows of the table, and how they vary together."""

    source: Source
    m: Floats  # (d,) E w
    V: Floats  # (1,) E‖w − m‖²
    h: Floats  # (n, d) E g_i
    hsum: Floats  # (d,) Σ h_i
    C: Floats  # (n,) E⟨w − m, g_i − h_i⟩
    S: Floats  # (n,) Σ_j E⟨g_i − h_i, g_j − h_j⟩
    since: Integers  # (1,) steps since hsum was summed anew
    seen: Integers  # (n + 1,) 1 for those that have reported; last, how many
    quorum: int
    there: Floats  # (n,) whether rows count: 1; 0 for those whose worker has left, until it reports again
    past: Snapshots  # of C, from which S follows; empty if rows are moving averages


class MeanRowMoments(NamedTuple):
    """Of a table whose rows are moving averages of their workers' reports."""

    m: Floats  # (d,) the table's own
    V: Floats  # (1,) the table's own
    table: TableMoments
    Q: Floats  # (n, n) E⟨g_i − h_i, g_j − h_j⟩
    reports: Integers  # (n,) min(k, most) for the k-th report of worker i
    most: int  # m of the average


class FreshMoments(NamedTuple):
    """Of the iterate alone: non-aggregated SGD keeps nothing else."""

    source: Source
    m: Floats  # (d,)
    V: Floats  # (1,)
    drift: Floats  # (d,) Σ_{i∈A} ∇F_i(m), of this iteration
    noise: Floats  # (3,) Σ_{i∈A} variance of ∇f_i, |A| and Σ_{i∈A} c_i, of this iteration
    divisor: int  # n, or 0 for |A|


@verb
def renew(moments: Record, workers: Integers) -> None:
    """The active workers read w^t and report."""


@optional_verb
def drop(moments: Record, i: int) -> None:
    """Worker i has left, and its row counts no longer. Nothing to do where there are no rows."""


@verb
def move(moments: Record, eta: float) -> None:
    """The server steps."""


def table_moments(source: Source, w0: Floats, n: int, quorum: int, *, latest: bool = True) -> TableMoments:
    """Before iteration 0; `latest` if a row is the latest gradient, not a moving average."""
    d, slopes = w0.size, source.weights * source.slope
    return TableMoments(
        source,
        w0.copy(),
        np.zeros(1),
        np.zeros((n, d)),
        np.zeros(d),
        np.zeros(n),
        np.zeros(n),
        np.zeros(1, np.int64),
        np.zeros(n + 1, np.int64),
        quorum,
        np.ones(n),
        no_snapshots(slopes if latest else np.empty(0)),
    )


def mean_row_moments(source: Source, w0: Floats, n: int, quorum: int, most: int) -> MeanRowMoments:
    """Before iteration 0."""
    rows = table_moments(source, w0, n, quorum, latest=False)
    return MeanRowMoments(rows.m, rows.V, rows, np.zeros((n, n)), np.zeros(n, np.int64), most)


def fresh_moments(source: Source, w0: Floats, divisor: int) -> FreshMoments:
    """Before iteration 0."""
    return FreshMoments(source, w0.copy(), np.zeros(1), np.zeros(w0.size), np.zeros(3), divisor)


@part
def heard_of(moments: TableMoments, i: int) -> None:
    """Worker i has reported, and its row counts."""
    n, seen = moments.C.size, moments.seen
    seen[n] += 1 - seen[i]
    seen[i] = 1
    moments.there[i] = 1.0


@renew.when(TableMoments)
def renew_rows(moments: TableMoments, workers: Integers) -> None:
    """Rows of active workers now vary as ∇f_i(w^t): with all else through w alone, and by noise of their own.

    Q_ij becomes c_i pC_j for active i, with noise if j = i. Row sums follow: by difference where only Q_ji changed,
    anew for the active workers themselves, so that rounding errors do not outlive a report.
    """
    if workers.size == 0:
        return
    source, V, C, S, past = moments.source, moments.V[0], moments.C, moments.S, moments.past
    for i in workers:
        heard_of(moments, i)
        leave(past, i)
    take_back(past, S)
    fresh, total = 0.0, 0.0
    for i in workers:
        C[i] = past.slopes[i] * V
        fresh += past.slopes[i]
    for j in range(C.size):
        S[j] += fresh * C[j]
        total += C[j]
    keep(past, C, workers)
    for i in workers:
        apart, c, p = 0.0, source.weights[i], past.slopes[i]
        for k in range(moments.m.size):
            e = moments.m[k] - source.centers[i, k]
            apart += e * e
            moments.hsum[k] += p * e - moments.h[i, k]
            moments.h[i, k] = p * e
        S[i] = p * total + c * c * (source.spread * (V + apart) + source.floor)


@move.when(TableMoments)
def move_along_total(moments: TableMoments, eta: float) -> None:
    """V ← V − 2cΣC_i + c²ΣQ_ij, C_i ← C_i − cΣ_jQ_ij, m ← m − cΣh_i with c = η/n, n being the rows that count."""
    n = moments.C.size
    if moments.seen[n] < moments.quorum:
        return
    moments.since[0] += 1
    if moments.since[0] == RESUM:  # a running sum gathers rounding errors
        moments.since[0] = 0
        moments.hsum[:] = 0.0
        for i in range(n):
            for k in range(moments.m.size):
                moments.hsum[k] += moments.h[i, k]
    rows, with_w, among = 0.0, 0.0, 0.0
    for i in range(n):
        rows += moments.there[i] * moments.source.weights[i]
        with_w += moments.C[i]
        among += moments.S[i]
    c = eta / rows if rows > 0.0 else eta
    for i in range(n):
        moments.C[i] -= c * moments.S[i]
    moments.V[0] += c * (c * among - 2.0 * with_w)
    for k in range(moments.m.size):
        moments.m[k] -= c * moments.hsum[k]


@drop.when(TableMoments)
def drop_row(moments: TableMoments, i: int) -> None:
    """g_i ← 0: h_i, C_i and all Q_ij are 0, and it is one row less."""
    leave(moments.past, i)
    take_back(moments.past, moments.S)
    vanish(moments.past, i)
    silence(moments, i)


@part
def silence(moments: TableMoments, i: int) -> None:
    """Row i is 0, and does not count."""
    moments.S[i] = moments.C[i] = 0.0
    for k in range(moments.m.size):
        moments.hsum[k] -= moments.h[i, k]
        moments.h[i, k] = 0.0
    moments.there[i] = 0.0


@renew.when(MeanRowMoments)
def renew_means(moments: MeanRowMoments, workers: Integers) -> None:
    """Mix a fresh gradient into the row of every active worker, one after the other; all have read the same w.

    With a = 1/min(k, most) and b = 1 − a

        h_i ← b h_i + a p(m − w_i*),    C_i ← b C_i + a pV,    Q_ij ← b Q_ij + a pC_j for j ≠ i,
        Q_ii ← b² Q_ii + 2ab pC_i + a² (p²V + p(d+1)(V + ‖m − w_i*‖²) + σ²pd),

    the C on the right being those before. With a weight c_i, p is c_i p, and all that is noise is c_i² times as large.
    For a = 1 this is what `renew_rows` does.
    """
    rows = moments.table
    n, source, V = rows.C.size, rows.source, rows.V[0]
    C, Q, S = rows.C, moments.Q, rows.S
    for i in workers:
        c = source.weights[i]
        p = c * source.slope
        heard_of(rows, i)
        moments.reports[i] = min(moments.reports[i] + 1, moments.most)
        a = 1.0 / moments.reports[i]
        b = 1.0 - a
        apart = 0.0
        for k in range(rows.m.size):
            e = rows.m[k] - source.centers[i, k]
            apart += e * e
            new = b * rows.h[i, k] + a * p * e
            rows.hsum[k] += new - rows.h[i, k]
            rows.h[i, k] = new
        own = b * b * Q[i, i] + 2.0 * a * b * p * C[i]
        own += a * a * (p * p * V + c * c * (source.spread * (V + apart) + source.floor))
        row = Q[i]
        S[i] = 0.0
        for j in range(n):
            new = own if j == i else b * row[j] + a * p * C[j]
            S[i] += new
            if j != i:
                S[j] += new - row[j]
            row[j] = new
        for j in range(n):
            Q[j, i] = row[j]
        C[i] = b * C[i] + a * p * V


@move.when(MeanRowMoments)
def move_along_means(moments: MeanRowMoments, eta: float) -> None:
    """As for any table."""
    move(moments.table, eta)


@drop.when(MeanRowMoments)
def drop_mean(moments: MeanRowMoments, i: int) -> None:
    """As of any table; the worker's next report is its first."""
    Q, S = moments.Q, moments.table.S
    for j in range(S.size):
        S[j] -= Q[i, j]
        Q[i, j] = Q[j, i] = 0.0
    silence(moments.table, i)
    moments.reports[i] = 0


@renew.when(FreshMoments)
def renew_sum(moments: FreshMoments, workers: Integers) -> None:
    """The gradients' means add, and so do the variances of their noise."""
    source, V = moments.source, moments.V[0]
    for i in workers:
        apart, c = 0.0, source.weights[i]
        for k in range(moments.m.size):
            e = moments.m[k] - source.centers[i, k]
            apart += e * e
            moments.drift[k] += c * source.slope * e
        moments.noise[0] += c * c * (source.spread * (V + apart) + source.floor)
        moments.noise[1] += 1.0
        moments.noise[2] += c


@move.when(FreshMoments)
def move_and_forget(moments: FreshMoments, eta: float) -> None:
    """V ← (1 − cpΣc_i)² V + c² Σ noise_i, m ← m − c Σc_i∇F_i(m) with c = η/|A| or η/n; without weights c_i = 1."""
    count = moments.noise[1]
    if count > 0.0:
        c = eta / (moments.divisor if moments.divisor > 0 else count)
        kept = 1.0 - c * moments.source.slope * moments.noise[2]
        moments.V[0] = kept * kept * moments.V[0] + c * c * moments.noise[0]
        for k in range(moments.m.size):
            moments.m[k] -= c * moments.drift[k]
            moments.drift[k] = 0.0
        moments.noise[:] = 0.0
