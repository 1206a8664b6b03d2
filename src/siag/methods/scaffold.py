"""SCAFFOLD: local steps, corrected by what the others would have done meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.types import Floats, Record, Rng
from siag.methods.local import Local, check_local, descend, local, local_of, tuned_local
from siag.methods.method import Method, advance, compute, cost, forget, ready, receive, shown
from siag.methods.sgd import Fresh
from siag.methods.table import Table, sum_anew, table, total_weight
from siag.steps import Step


@dataclass(frozen=True, kw_only=True)
class SCAFFOLD(Method):
    r"""`FedAvg` with a control variate for every worker, so that local steps drift nowhere.

        y_i ← x;  K times  y_i ← y_i − η_l (g_i(y_i) + c − c_i)
        c_i⁺ = g_i(x)  (option 1)   or   c_i − c + (x − y_i)/(K η_l)  (option 2)
        x ← x + (η_g/|S|) Σ_{i∈S} (y_i − x),    c ← c + (1/N) Σ_{i∈S} (c_i⁺ − c_i)

    x is w here, S the workers active at t and η_g the step, in the paper mostly 1, `Constant(1.0)`. c_i tends to
    ∇F_i(w*), so w* stays where it is, however the workers differ and however often each reports.

    On a clock, or live, updates are old, which the paper does not treat. There the server's step must be smaller, about
    1/(1 + τ) with τ a usual age in steps of the server: with η_g = 1 it may diverge.

    One thing is not the paper's: workers send c_i⁺ instead of c_i⁺ − c_i, and the server keeps the c_i in a table, with
    c their mean. The iterates are the same. But a worker that has crashed begins with c_i = 0 while the paper's c would
    hold what was lost for ever; here its next report replaces the row, and nothing remains of the crash.

    Args:
        steps: K, how many steps a worker takes before it reports.
        size: η_l, the size of each.
        fall: after how many iterations they are half as long, falling as 1/t from then on; `None`: they do not.
        gradients: `"sample"` for stochastic, `"exact"` for exact ones.
        option: 1 takes one gradient more, at x, as the new c_i; 2 takes the mean of those on the way.

    Example:
        >>> SCAFFOLD(steps=5, size=0.1)
        SCAFFOLD(steps=5, size=0.1, fall=None, gradients='sample', option=2)

    Reference:
        S. P. Karimireddy, S. Kale, M. Mohri, S. Reddi, S. Stich, A. T. Suresh, "SCAFFOLD: stochastic controlled
        averaging for federated learning", ICML 2020, Algorithm 1.
    """

    NO_PROX = "its server moves by local steps, not by η times a gradient; use PIAG"
    NO_CLIP = "its messages have two parts; use Clipped(FedAvg(…))"

    steps: int
    size: float
    fall: float | None = None
    gradients: str = "sample"
    option: int = 2

    def __post_init__(self) -> None:
        check_local(self)
        object.__setattr__(self, "option", check.integer("option", self.option, high=2))

    def message(self, d: int, n: int) -> int:
        """Both x − y_i and c_i⁺."""
        return 2 * d

    def tuned(self, eta: float, gamma: float) -> tuple[Method, Step]:
        """The size of the local steps is chosen."""
        return tuned_local(self, eta, gamma)

    def init(self, w0: Floats, n: int) -> Record:
        """No control variate yet."""
        d = w0.size
        model = np.concatenate((w0, np.zeros(d)))
        fresh = Fresh(model[:d], np.zeros(d), np.zeros(1, np.int64), 0)
        variates = table(w0, n, resum=64, wait=0.0)._replace(w=model[d:])
        return Controlled(fresh.w, model, fresh, variates)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that remember their c_i."""
        walker = local(w0, n, **local_of(self))
        return Variates(walker, np.zeros((n, w0.size)), np.zeros(w0.size), self.option)


class Controlled(NamedTuple):
    """FedAvg's server, and beside it the table of the control variates."""

    w: Floats  # (d,) x, the first half of `model`
    model: Floats  # (2d,) x and c, which workers read
    fresh: Fresh  # of the x − y_i; its w is x
    table: Table  # of the c_i; its w is c, the second half of `model`


@shown.when(Controlled)
def model_and_variate(state: Controlled) -> Floats:
    """Both x and c."""
    return state.model


@receive.when(Controlled)
def take_both(state: Controlled, i: int, message: Floats, age: int) -> None:
    """Add x − y_i to the others; replace c_i."""
    d = state.w.size
    receive(state.fresh, i, message[:d], age)
    receive(state.table, i, message[d:], age)


@advance.when(Controlled)
def move_both(state: Controlled, eta: float) -> None:
    """Step x ← x − (η/|S|) Σ (x − y_i), and c ← (1/n) Σ c_i."""
    advance(state.fresh, eta)
    sum_anew(state.table)
    n = total_weight(state.table)
    for j in range(state.w.size):
        state.table.w[j] = state.table.total[j] / n


@ready.when(Controlled)
def somebody_has_reported(state: Controlled) -> bool:
    """Whether the next step moves x."""
    return bool(state.fresh.arrived[0] > 0)


class Variates(NamedTuple):
    """Workers with local steps that remember a control variate each."""

    local: Local
    own: Floats  # (n, d) c_i
    correction: Floats  # (d,) scratch: c − c_i
    option: int


@compute.when(Variates)
def descend_corrected(memory: Variates, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """Send x − y_i and c_i⁺, which is c_i from now on."""
    own, correction, y, g = memory.own[i], memory.correction, memory.local.y, memory.local.g
    d = y.size
    for j in range(d):
        correction[j] = w[d + j] - own[j]
    descend(memory.local, oracle, rng, i, w, correction)
    if memory.option == 1:
        compute(memory.local.source, oracle, rng, i, w[:d], g)
    for j in range(d):
        out[j] = w[j] - y[j]
        own[j] = g[j] if memory.option == 1 else out[j] / (memory.local.steps[i] * memory.local.eta[0]) - correction[j]
        out[d + j] = own[j]
    return True


@cost.when(Variates)
def all_gradients(memory: Variates) -> int:
    """K, and one more for option 1."""
    return cost(memory.local) + (1 if memory.option == 1 else 0)


@forget.when(Variates)
def lose_variate(memory: Variates, i: int) -> None:
    """c_i ← 0."""
    memory.own[i, :] = 0.0
