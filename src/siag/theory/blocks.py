"""Means and covariances of everything a method remembers, carried along a schedule: for any quadratic problem.

The d-vectors that the server keeps (w, the sum of the rows, a velocity, a mean of iterates, …) and the rows g_1 … g_n
are the *blocks* of one long vector. A message ∇f_i(w; ξ) = H_i w − b_i + noise becomes a block, too, and then `receive`
and `advance` of a linear method map blocks linearly:

    block_r ← Σ_q T_rq block_q,    so that    E ← T E,    Cov ← T Cov Tᵀ.

T is found by the method's own code: it runs on unit vectors instead of w and gradients, which leaves the rows of T in
their places (`siag.theory.linear`). A report touches two blocks or three, so it costs O((n + k) d²), k being the number
of vectors, and O((n + k) d³) for the product H_i Cov(w, ·).

Where all H_i are p·I, traces of the covariances are enough, and everything is as above with 1 in place of d.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from siag.foundations.dispatch import compiled, is_own, rarely, verb
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.schedule import Schedule
from siag.foundations.types import Floats, Integers, Record
from siag.methods import Method
from siag.problems import Problem
from siag.theory.linear import Coefficients, coefficients_of, unroll, without
from siag.theory.moments import RESUM, Source
from siag.theory.noise import Silent, noise
from siag.theory.quadratic import quadratics
from siag.theory.trail import Trail, mark

LARGEST = 4096  # numbers whose covariances with each other are carried: 128 MiB


class Quadratic(NamedTuple):
    """The law of the gradients of a quadratic problem."""

    hessians: Floats  # (n, d, d) H_i
    linear: Floats  # (n, d) b_i: ∇F_i(w) = H_i w − b_i
    oracle: Record  # what `noise` has a meaning for
    V: Floats  # (d, d) scratch: the covariance of w
    N: Floats  # (d, d) scratch: the noise
    scratch: Floats  # (2, d, d)


class Linear(NamedTuple):
    """A linear method, and the moments of all its blocks."""

    m: Floats  # (d,) the mean of the result
    V: Floats  # (1,) the trace of its covariance
    method: Coefficients
    blocks: Blocks


class Blocks(NamedTuple):
    """Moments of all blocks: first the message, then the server's vectors, then the rows."""

    source: Record
    mean: Floats  # (blocks, d)
    C: Floats  # (blocks · c, blocks · c) covariances, c = d; or their traces, c = 1
    at: Integers  # (k + 2,) which blocks the rows of T stand for
    m: Floats  # (d,) the mean of the result
    V: Floats  # (1,) the trace of its covariance
    since: Integers  # (1,) steps since the sum of the rows was summed anew
    read: int  # the block that workers read
    result: int  # the block that is the result
    total: int  # the block that is the sum of the rows; 0 if none is
    scratch: Scratch


class Scratch(NamedTuple):
    """Room for blocks that change."""

    moved: Integers  # (k + 2,) which rows of T are to be applied
    mean: Floats  # (k + 2, d)
    C: Floats  # (k + 2, c, blocks · c)
    among: Floats  # (k + 2, c, c)


def quadratic(problem: Problem, noisy: bool) -> Quadratic:
    """The law of a problem's gradients: stochastic ones, or exact ones."""
    n, d, oracle = problem.n, problem.d, problem.oracle() if noisy else Silent()
    if n * d * d > LARGEST**2:
        most = f"{8 * n * d * d / 2**30:.1f} GiB; at most {8 * LARGEST**2 / 2**30:g} are"
        raise Unsuitable(f"the {n} Hessians for the exact error take {most}; use simulate, or fewer parameters")
    hessians, linear = quadratics(problem, "the exact error")
    source = Quadratic(hessians, linear, oracle, np.zeros((d, d)), np.zeros((d, d)), np.zeros((2, d, d)))
    check_noise(source, type(problem).__name__)
    return source


def check_noise(source: Quadratic, name: str) -> None:
    """Refuse a problem without noise of its own; if it is not the package's, try it before it is compiled."""
    kind, d = type(source.oracle), len(source.V)
    if not noise.knows(kind):
        raise Unsuitable(
            f"the exact error is known where the covariance of ∇f_i is, and {name} does not tell it; use simulate, or "
            f"give `siag.theory.noise` a meaning for {kind.__name__}"
        )
    if not is_own(kind):
        for i in sorted({0, len(source.linear) - 1}):
            N = np.full((d, d), np.nan)
            noise(source.oracle, i, np.zeros(d), np.eye(d), N, source.scratch)
            if not np.allclose(N, N.T, rtol=1e-9):
                raise BadInput(
                    f"noise of worker {i}", N, "a symmetric matrix of finite numbers", "see siag.theory.noise"
                )


def blocks_at_start(source: Record, method: Method, w0: Floats, n: int) -> Linear:
    """Before iteration 0."""
    made, begin = coefficients_of(method, w0, n)
    size, d = len(made.T), w0.size
    count, c = len(begin) + 1, d if isinstance(source, Quadratic) else 1
    check_size(count * c, f"{n} workers and {d} parameters")
    mean, C, V = np.concatenate((np.zeros((1, d)), begin)), np.zeros((count * c, count * c)), np.zeros(1)
    moved, among = np.zeros(size, np.int64), np.zeros((size, c, c))
    scratch = Scratch(moved, np.zeros((size, d)), np.zeros((size, c, count * c)), among)
    at, m, since = np.arange(size), mean[made.result], np.zeros(1, np.int64)
    blocks = Blocks(source, mean, C, at, m, V, since, made.read, made.result, made.total, scratch)
    return Linear(m, V, made, blocks)


def check_size(numbers: int, what: str) -> None:
    """Refuse a problem whose covariances would be too large."""
    if numbers > LARGEST:
        raise Unsuitable(
            f"the exact moments for {what} are covariances of {numbers} numbers, {8 * numbers**2 / 2**30:.1f} GiB; "
            f"at most {LARGEST} numbers are carried; use simulate, or fewer workers or parameters"
        )


@verb
def respond(source: Record, i: int, read: int, mean: Floats, C: Floats) -> None:
    """Worker i has read w, block `read`: write the mean and the covariances of its message, block 0."""


@respond.when(Quadratic)
def respond_quadratic(source: Quadratic, i: int, read: int, mean: Floats, C: Floats) -> None:
    """E y = H_i E w − b_i, Cov(y, ·) = H_i Cov(w, ·) and Cov(y) = H_i Cov(w) H_i + E[N_i(w)]."""
    d = mean.shape[1]
    H, first = source.hessians[i], read * d
    for a in range(d):
        total = -source.linear[i, a]
        for b in range(d):
            total += H[a, b] * mean[read, b]
            source.V[a, b] = C[first + a, first + b]
        mean[0, a] = total
    noise(source.oracle, i, mean[read], source.V, source.N, source.scratch)
    spread_through(H, source.N, first, C)


@rarely
def spread_through(H: Floats, N: Floats, first: int, C: Floats) -> None:
    """The rows and columns of the message in C, given those of w from `first` on."""
    d = H.shape[0]
    for a in range(d):
        to = C[a]
        to[:] = 0.0
        for k in range(d):
            h, through = H[a, k], C[first + k]
            for j in range(d, to.size):
                to[j] += h * through[j]
    for a in range(d):
        for b in range(a + 1):
            total = N[a, b]
            for k in range(d):
                total += C[a, first + k] * H[b, k]
            C[a, b] = C[b, a] = total
    for j in range(d, C.shape[0]):
        for a in range(d):
            C[j, a] = C[a, j]


@respond.when(Source)
def respond_alike(source: Source, i: int, read: int, mean: Floats, C: Floats) -> None:
    """The same in traces, for H_i = p·I and noise of trace p(d+1)‖w − w_i*‖² + σ²pd."""
    p, V, apart = source.slope, C[read, read], 0.0
    for k in range(mean.shape[1]):
        e = mean[read, k] - source.centers[i, k]
        apart += e * e
        mean[0, k] = p * e
    for j in range(1, C.shape[0]):
        C[0, j] = p * C[read, j]
        C[j, 0] = C[0, j]
    C[0, 0] = p * p * V + source.spread * (V + apart) + source.floor


@rarely
def transform(T: Floats, count: int, at: Integers, mean: Floats, C: Floats, scratch: Scratch) -> None:
    """block at[r] ← Σ_q T[r, q] block at[q] for all r < count at once."""
    c, moved, changes = scratch.C.shape[1], scratch.moved, 0
    for r in range(count):
        if not stays(T[r], r, count):
            moved[changes] = r
            changes += 1
            mix(T[r], count, at, mean, scratch.mean[r : r + 1])  # means are blocks of one row
            mix(T[r], count, at, C, scratch.C[r])
    for s in range(changes):
        new = scratch.C[moved[s]]  # with all blocks as they were; now with each other
        for v in range(changes):
            among(T[moved[v]], count, at, new, scratch.among[v])
        for v in range(changes):
            own = scratch.among[v]
            for a in range(c):
                for b in range(c):  # C must stay symmetric to the last bit, or rounding errors would grow
                    both = 0.5 * (own[a, b] + own[b, a]) if v == s else own[a, b]
                    new[a, at[moved[v]] * c + b] = both
    for s in range(changes):
        write_block(at[moved[s]], moved[s], mean, C, scratch)


@compiled
def stays(shares: Floats, r: int, count: int) -> bool:
    """Whether block r is to be itself."""
    same = True
    for q in range(count):
        same &= shares[q] == (1.0 if r == q else 0.0)
    return same


@compiled
def mix(shares: Floats, count: int, at: Integers, old: Floats, new: Floats) -> None:
    """new ← Σ_q shares[q] · block at[q] of the old, blocks being as many rows as the new has."""
    rows = new.shape[0]
    for a in range(rows):
        to = new[a]
        to[:] = 0.0
        for q in range(count):
            if shares[q] != 0.0:
                share, row = shares[q], old[at[q] * rows + a]
                for j in range(to.size):
                    to[j] += share * row[j]


@compiled
def among(shares: Floats, count: int, at: Integers, new: Floats, out: Floats) -> None:
    """The covariance of a new block, given by its covariances with old ones, with the new one of these shares."""
    c = new.shape[0]
    for a in range(c):
        for b in range(c):
            total = 0.0
            for q in range(count):
                if shares[q] != 0.0:
                    total += shares[q] * new[a, at[q] * c + b]
            out[a, b] = total


@compiled
def write_block(block: int, r: int, mean: Floats, C: Floats, scratch: Scratch) -> None:
    """What was computed for a block: its mean, its rows and its columns."""
    c = scratch.C.shape[1]
    for j in range(mean.shape[1]):
        mean[block, j] = scratch.mean[r, j]
    for a in range(c):
        new = scratch.C[r, a]
        for j in range(new.size):
            C[block * c + a, j] = new[j]
    for j in range(C.shape[0]):
        for a in range(c):
            C[j, block * c + a] = scratch.C[r, a, j]


def carry_blocks(moments: Linear, schedule: Schedule, first: int, trail: Trail) -> None:
    """Carry the moments along the schedule."""
    T = moments.method.T
    maps = np.empty((len(schedule.worker) + schedule.iterations, *T.shape))
    unroll(moments.method, schedule, maps)
    follow(moments.blocks, schedule, maps, len(moments.method.rows) > 0, first, trail)


def drop_from_blocks(moments: Linear, i: int) -> None:
    """Worker i has left: its row is dropped."""
    blocks, last = moments.blocks, len(moments.method.T) - 1
    if len(moments.method.rows):
        blocks.at[last] = last + i
        transform(without(moments.method, i), last + 1, blocks.at, blocks.mean, blocks.C, blocks.scratch)


@compiled
def follow(blocks: Blocks, schedule: Schedule, maps: Floats, rows: bool, first: int, trail: Trail) -> None:
    """What every report and every step does to the moments, given its T."""
    at, mean, C, done = blocks.at, blocks.mean, blocks.C, 0
    last = at.size - 1
    for k in range(schedule.eta.size):
        for arrival in range(schedule.start[k], schedule.start[k + 1]):
            i = schedule.worker[arrival]
            respond(blocks.source, i, blocks.read, mean, C)
            at[last] = last + i
            transform(maps[done], last + 1 if rows else last, at, mean, C, blocks.scratch)
            done += 1
        transform(maps[done], last, at, mean, C, blocks.scratch)
        done += 1
        blocks.since[0] += 1
        if blocks.total > 0 and blocks.since[0] >= RESUM:  # a running sum gathers rounding errors
            blocks.since[0] = 0
            sum_anew(blocks.total, last, mean, C)
        if first + k + 1 == trail.t[trail.cursor[0]]:
            c = blocks.scratch.C.shape[1]
            blocks.V[0] = 0.0
            for a in range(blocks.result * c, blocks.result * c + c):
                blocks.V[0] += C[a, a]
            mark(trail, blocks.m, blocks.V)


@rarely
def sum_anew(total: int, first: int, mean: Floats, C: Floats) -> None:
    """Block `total` is the sum of all from `first` on."""
    count = mean.shape[0]
    c = C.shape[0] // count
    for j in range(mean.shape[1]):
        mean[total, j] = 0.0
        for block in range(first, count):
            mean[total, j] += mean[block, j]
    for j in range(C.shape[0]):
        for a in range(c):
            C[total * c + a, j] = 0.0
    for block in range(first, count):
        for a in range(c):
            for j in range(C.shape[0]):
                C[total * c + a, j] += C[block * c + a, j]
    for a in range(c):
        for b in range(a + 1):
            own = 0.0
            for block in range(first, count):
                own += C[total * c + a, block * c + b]
            C[total * c + a, total * c + b] = C[total * c + b, total * c + a] = own
    for j in range(C.shape[0]):
        for a in range(c):
            C[j, total * c + a] = C[total * c + a, j]
