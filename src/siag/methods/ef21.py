"""EF21: workers send the few coordinates in which the server's picture of their gradient is most wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import part
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Booleans, Floats, Record, Rng
from siag.methods.method import GRADIENTS, Method, advance, compute, forget, receive, source
from siag.methods.table import Table, count_report, table


@dataclass(frozen=True, kw_only=True)
class EF21(Method):
    r"""Error feedback: compressed differences between a worker's gradient and what the server believes it to be.

        v_i ← ∇f_i(w; ξ)    or with momentum    v_i ← (1 − η) v_i + η ∇f_i(w; ξ)
        worker i sends c_i = C(v_i − g_i), the k coordinates that are largest in absolute value
        g_i ← g_i + c_i at both ends,    w^{t+1} = w^t − (η_t/n) Σ_i g_i

    v_i begins with the first gradient, and g_i with 0, so that the first message is C(v_i). With exact gradients this
    is EF21, which converges as gradient descent does. With noise, large in comparison with v_i − g_i, the largest
    coordinates are those of the noise, and their mean is not that of the gradient: EF21 stays off w*, however small the
    step. Momentum, EF21-SGDM, mends that: η is to be small where the noise is strong.

    A report is 2k + 1 numbers of 8 bytes, all of which are counted: k values, their k indices, and whether the worker
    begins anew. The value that is sent is that of v_i itself, which g_i + c_i is equal to in these coordinates.

    One thing is not the paper's: its server keeps the mean of the g_i alone. Here it keeps them all in a table, so that
    a worker may leave. A worker that has lost its memory, or whose report was refused, begins anew with g_i = 0 and
    says so in its next message; the server then lets go of the g_i it had.

    Args:
        k: how many coordinates are sent, from 1 to d.
        momentum: η, above 0 and at most 1; `None`, or 1: the gradient as it is.
        gradients: `"sample"` for stochastic, `"exact"` for exact ones.

    Example:
        >>> EF21(k=2, momentum=0.1)
        EF21(k=2, momentum=0.1, gradients='sample')

    References:
        P. Richtárik, I. Sokolov, I. Fatkhullin, "EF21: a new, simpler, theoretically better, and practically faster
        error feedback", NeurIPS 2021, Algorithm 2. I. Fatkhullin, A. Tyurin, P. Richtárik, "Momentum provably improves
        error feedback!", NeurIPS 2023, Algorithm 1; its workers begin with g_i = v_i.
    """

    NO_CLIP = "its messages are coordinates of gradients; use Clipped(SIAG())"

    k: int
    momentum: float | None = None
    gradients: str = "sample"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check.integer("k", self.k))
        if self.momentum is not None:
            eta = check.real("momentum", self.momentum, above=0, high=1, remedy="None: the gradient as it is")
            object.__setattr__(self, "momentum", eta)
        check.choice("gradients", self.gradients, GRADIENTS)

    @property
    def least(self) -> int:
        """As many as are sent."""
        return self.k

    def message(self, d: int, n: int) -> int:
        """The values, their indices, and whether the worker begins anew."""
        if self.k > d:
            raise Unsuitable(f"EF21 cannot send k = {self.k} of {d} coordinates; use a k from 1 to {d}")
        return 2 * self.k + 1

    def measured(self, d: int, n: int) -> int:
        """The values."""
        return self.k

    def weighed(self, d: int, n: int) -> int:
        """The values."""
        return self.k

    def counts_to(self, d: int) -> int:
        """The last index."""
        return d - 1

    def init(self, w0: Floats, n: int) -> Record:
        """A table in which all g_i are 0."""
        self.message(w0.size, n)
        rows = table(w0, n, resum=64, wait=0.0)
        return Pictures(rows.w, rows)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that remember v_i and g_i."""
        d, width = w0.size, self.message(w0.size, n) // 2
        eta = 1.0 if self.momentum is None else self.momentum
        smooth, own, ever = np.zeros((n, d)), np.zeros((n, d)), np.zeros(n, np.bool_)
        return Feedback(source(self.gradients), smooth, own, ever, np.zeros(d), np.zeros(d), width, eta)


class Feedback(NamedTuple):
    """What workers remember, so that they know what the server believes."""

    source: Record
    smooth: Floats  # (n, d) v_i
    own: Floats  # (n, d) g_i
    ever: Booleans  # (n,) whether worker i has sent anything
    gradient: Floats  # (d,) scratch
    sizes: Floats  # (d,) scratch
    k: int
    eta: float  # of the momentum


@part
def threshold(sizes: Floats, k: int) -> float:
    """The k-th largest of these numbers, which are put into another order: Hoare's selection, O(d) on average."""
    low, high, wanted = 0, sizes.size - 1, k - 1
    while low < high:
        pivot, i, j = sizes[(low + high) // 2], low, high
        while i <= j:
            while sizes[i] > pivot:
                i += 1
            while sizes[j] < pivot:
                j -= 1
            if i <= j:
                sizes[i], sizes[j] = sizes[j], sizes[i]
                i += 1
                j -= 1
        if wanted <= j:
            high = j
        elif wanted >= i:
            low = i
        else:
            break
    return float(sizes[wanted])


@compute.when(Feedback)
def send_largest(memory: Feedback, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """The k coordinates in which v_i and g_i differ most, of equal ones the first; from now on g_i is v_i there."""
    v, own, gradient, sizes, k = memory.smooth[i], memory.own[i], memory.gradient, memory.sizes, memory.k
    compute(memory.source, oracle, rng, i, w, gradient)
    share = memory.eta if memory.ever[i] else 1.0
    for j in range(w.size):
        v[j] = (1.0 - share) * v[j] + share * gradient[j]
        gap = abs(v[j] - own[j])
        sizes[j] = np.inf if math.isnan(gap) else gap  # which is to be noticed
        gradient[j] = sizes[j]
    least, sent = threshold(sizes, k), 0
    for both in range(2):  # first the larger ones, then as many of those equal to the k-th as there is room for
        for j in range(w.size):
            if sent < k and (gradient[j] > least if both == 0 else gradient[j] == least):
                out[sent], out[k + sent] = v[j], j
                own[j] = v[j]
                sent += 1
    out[2 * k] = 0.0 if memory.ever[i] else 1.0
    memory.ever[i] = True
    return True


@forget.when(Feedback)
def begin_anew(memory: Feedback, i: int) -> None:
    """v_i and g_i ← 0; the next message says so."""
    memory.smooth[i] = 0.0
    memory.own[i] = 0.0
    memory.ever[i] = False


class Pictures(NamedTuple):
    """The table of the g_i."""

    w: Floats  # (d,) the table's own
    table: Table


@receive.when(Pictures)
def correct_row(state: Pictures, i: int, message: Floats, age: int) -> None:
    """Set the coordinates of g_i that were sent; all others to 0 if the worker begins anew."""
    rows, d, k = state.table, state.w.size, message.size // 2
    row, total = rows.rows[i], rows.total
    if message[2 * k] != 0.0:
        for j in range(d):
            total[j] -= row[j]
            row[j] = 0.0
    for position in range(k):
        if 0.0 <= message[k + position] < d:  # a worker may send anything
            j = int(message[k + position])
            total[j] += message[position] - row[j]
            row[j] = message[position]
    count_report(rows, i)


@advance.when(Pictures)
def step_along_pictures(state: Pictures, eta: float) -> None:
    """w ← w − (η/n) Σ g_i."""
    advance(state.table, eta)
