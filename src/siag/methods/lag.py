"""Lazily aggregated gradient: a worker whose gradient has hardly changed does not send it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput, Missing, Unsuitable
from siag.foundations.types import Booleans, Floats, Integers, Record, Rng
from siag.methods.method import GRADIENTS, advance, compute, cost, forget, receive, shown, source
from siag.methods.table import Aggregated, Table, table
from siag.steps import Step

TRIGGERS = ("worker", "server")


@dataclass(frozen=True, kw_only=True)
class LAG(Aggregated):
    r"""IAG whose workers report only news: the server steps along the last gradient it has of everybody.

        w^{t+1} = w^t − (η/n) Σ_i ∇F_i(ŵ_i)

    where ŵ_i is the w of worker i's latest report. Having read w^t, worker i stays silent if

        worker:  ‖∇F_i(ŵ_i) − ∇F_i(w^t)‖²   ≤ (ξ/η²) Σ_{k=1}^D ‖w^{t+1−k} − w^{t−k}‖²    (LAG-WK)
        server:  L_i² ‖ŵ_i − w^t‖²          ≤ the same                                   (LAG-PS)

    The paper's F is a sum of M = n terms and its step α = η/n, whence its factor 1/(α²M²) is 1/η². The server sends the
    right-hand side along with w, with the η of its last step. A silent arrival is one all the same: the server steps
    on, so that w moves away from ŵ_i and nobody stays silent for ever. Everybody active is the paper's setting.

    LAG-PS is decided at the worker, which computes no gradient when it stays silent, because a server of reports in
    flight no longer has the w they came from. Iterates and uploads are the paper's; its saving of downloads is not.
    A worker that crashes, or whose report was refused, sends unconditionally the next time.

    Args:
        resum: as in `SIAG`.
        wait: as in `SIAG`.
        rows: as in `SIAG`.
        trigger: which of the two conditions.
        weight: ξ. The theory wants ξ < 1/D; the authors ran LAG-WK with 1/D and LAG-PS with 10/D. 0 is IAG.
        depth: D, how many steps the right-hand side looks back.
        smoothness: for `"server"`, the L_i: one number, or one for each worker, as `problem.smoothness` has them.
        gradients: `"exact"`; or `"sample"`, which saves little, since noise alone exceeds the right-hand side most of
            the time.

    Reference:
        T. Chen, G. Giannakis, T. Sun, W. Yin, "LAG: Lazily aggregated gradient for communication-efficient distributed
        learning", NeurIPS 2018, Algorithms 1 and 2.
    """

    NO_PROX = "it measures how far w moved before the proximal step; use PIAG"
    NO_MOMENTUM = "it measures how far w moved by its own step; use Momentum(IAG())"

    trigger: str = "worker"
    weight: float = 0.1
    depth: int = 10
    smoothness: float | Sequence[float] | None = None
    gradients: str = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.choice("trigger", self.trigger, TRIGGERS)
        object.__setattr__(self, "weight", check.real("weight", self.weight, low=0))
        object.__setattr__(self, "depth", check.integer("depth", self.depth, high=10**6))
        check.choice("gradients", self.gradients, GRADIENTS)
        if self.smoothness is not None:
            object.__setattr__(self, "smoothness", _positive(self.smoothness))
        elif self.trigger == "server":
            raise Missing("smoothness", "give problem.smoothness where it is known, or use trigger='worker'")

    def pair(self, step: Step) -> None:
        """Refuse steps that depend on ages: what a silent worker last said is older than its last report."""
        if step.rule(1) is not None:
            raise Unsuitable(f"LAG's workers may be silent, so {step!r} would not see how old rows are; use Constant")

    def init(self, w0: Floats, n: int) -> Record:
        """An empty table, and w with a threshold of 0 behind it."""
        model = np.append(w0, 0.0)
        rows = table(w0, n, self.resum, self.wait, self.rows)._replace(w=model[:-1])
        return Unhurried(rows.w, model, rows, w0.copy(), np.zeros(self.depth), np.zeros(1, np.int64), self.weight)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that have sent nothing yet."""
        server = self.trigger == "server"
        each = np.asarray(self.smoothness if server else 0.0, np.float64)
        if each.ndim == 1 and each.size != n:
            raise Unsuitable(f"{each.size} numbers in smoothness do not fit {n} workers; give problem.smoothness")
        kept, ever = np.zeros((n, w0.size)), np.zeros(n, np.bool_)
        smooth, work = np.broadcast_to(each, n).copy(), np.zeros(1, np.int64)
        return Lazy(source(self.gradients), kept, ever, smooth, int(server), work)


def _positive(value: object) -> float | tuple[float, ...]:
    """The L_i as a number or a tuple of numbers, all above 0."""
    if isinstance(value, list | tuple | np.ndarray):
        numbers = check.floats("smoothness", value, (None,))
        if numbers.min() <= 0:
            raise BadInput("smoothness", value, "numbers above 0")
        return tuple(map(float, numbers))
    return check.real("smoothness", value, above=0)


class Unhurried(NamedTuple):
    """A table, and how far w has moved lately."""

    w: Floats  # (d,) the first numbers of model, and the table's own
    model: Floats  # (d + 1,) w, and the threshold
    table: Table
    before: Floats  # (d,) scratch: w before a step
    moves: Floats  # (D,) the squared lengths of the last steps, in a ring
    turn: Integers  # (1,) the oldest of them
    weight: float


class Lazy(NamedTuple):
    """What workers have last sent, or last sent from."""

    source: Record
    kept: Floats  # (n, d) the gradient last sent, or for LAG-PS the w it was computed from
    ever: Booleans  # (n,) whether worker i has sent anything
    smooth: Floats  # (n,) L_i, for LAG-PS
    server: int  # 1 for LAG-PS
    work: Integers  # (1,) gradients the last message took


@compute.when(Lazy)
def send_news(memory: Lazy, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """The gradient, unless it, or w, is too near to what was last sent."""
    d, kept = out.size, memory.kept[i]
    model = w[:d]
    memory.work[0] = 0
    if memory.server == 1 and memory.ever[i]:
        square = 0.0
        for j in range(d):
            square += (model[j] - kept[j]) * (model[j] - kept[j])
        if memory.smooth[i] * memory.smooth[i] * square <= w[d]:
            return False
    compute(memory.source, oracle, rng, i, model, out)
    memory.work[0] = 1
    if memory.server == 0 and memory.ever[i]:
        square = 0.0
        for j in range(d):
            square += (out[j] - kept[j]) * (out[j] - kept[j])
        if square <= w[d]:
            return False
    memory.ever[i] = True
    for j in range(d):
        kept[j] = model[j] if memory.server == 1 else out[j]
    return True


@cost.when(Lazy)
def gradients_taken(memory: Lazy) -> int:
    """None, if w was too near."""
    return int(memory.work[0])


@forget.when(Lazy)
def send_next_time(memory: Lazy, i: int) -> None:
    """Nothing has been sent."""
    memory.ever[i] = False
    memory.kept[i] = 0.0


@receive.when(Unhurried)
def take_news(state: Unhurried, i: int, message: Floats, age: int) -> None:
    """As the table does."""
    receive(state.table, i, message, age)


@advance.when(Unhurried)
def step_and_measure(state: Unhurried, eta: float) -> None:
    """As the table does; then the threshold anew, (ξ/η²) Σ_{k=1}^D ‖w^{t+1−k} − w^{t−k}‖²."""
    w, before, moves = state.w, state.before, state.moves
    for j in range(w.size):
        before[j] = w[j]
    advance(state.table, eta)
    square = 0.0
    for j in range(w.size):
        square += (w[j] - before[j]) * (w[j] - before[j])
    moves[state.turn[0]] = square
    state.turn[0] = (state.turn[0] + 1) % moves.size
    total = 0.0
    for k in range(moves.size):
        total += moves[k]
    state.model[w.size] = state.weight * total / (eta * eta) if eta > 0.0 else 0.0


@shown.when(Unhurried)
def show_threshold(state: Unhurried) -> Floats:
    """W and the threshold."""
    return state.model
