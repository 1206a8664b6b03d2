"""FedAsync: the model is mixed with each worker's own as it comes in, the older the less."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import part
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.types import Floats, Integers, Record
from siag.methods.local import MODEL, check_local, local, local_of
from siag.methods.method import Method, advance, ready, receive
from siag.steps import Harmonic, Step

DAMPINGS = ("constant", "polynomial", "hinge")  # their numbers are their kinds


@dataclass(frozen=True, kw_only=True)
class FedAsync(Method):
    r"""Local steps without waiting: workers send models, of which the server keeps a running average.

        h_i(y; w) = F_i(y) + (ρ/2) ‖y − w‖²,  y_i is K steps on h_i from the w^{t−τ} that worker i has read
        w^{t+1} = (1 − α_t) w^t + α_t y_i,    α_t = α s(τ)

        constant:    s(τ) = 1
        polynomial:  s(τ) = (τ + 1)^−a
        hinge:       s(τ) = 1 if τ ≤ b, else 1/(a (τ − b) + 1)

    α is the step: `Constant(0.6)`, say, and never above 1. The server mixes at every arrival, `Clock(…,
    server=EveryArrivals())`; if several arrive at once it takes the mean of their moves s(τ_i) (y_i − w^t). A worker
    counts as often as it reports, so under unequal speeds it is biased towards the fast ones, and damping adds to that.

    Args:
        steps: K, how many steps a worker takes before it reports.
        size: η_l, the size of each.
        fall: after how many iterations they are half as long, falling as 1/t from then on; `None`: they do not.
        pull: ρ, how strongly a worker is held back to the w it has read.
        damp: how a model's weight falls with its age: `"constant"`, `"polynomial"` or `"hinge"`.
        a: how fast it falls; not used by `"constant"`.
        b: the age up to which it does not, for `"hinge"` alone.
        gradients: `"sample"` for stochastic, `"exact"` for exact ones.

    Reference:
        C. Xie, S. Koyejo, I. Gupta, "Asynchronous federated optimization", arXiv 1903.03934, 2019, Algorithm 1.
    """

    NO_PROX = "its server moves by local steps, not by η times a gradient; use PIAG"
    NO_WEIGHTS = "its workers send models, which are mixed; use Weighted(FedBuff(…), …)"
    NO_CLIP = "its workers send models, not gradients; use Clipped(FedBuff(…))"
    split = True

    steps: int
    size: float
    fall: float | None = None
    pull: float = 0.0
    damp: str = "polynomial"
    a: float = 0.5
    b: float = 4.0
    gradients: str = "sample"

    def __post_init__(self) -> None:
        check_local(self)
        check.choice("damp", self.damp, DAMPINGS)
        for name in ("pull", "a", "b"):
            object.__setattr__(self, name, check.real(name, getattr(self, name), low=0))
        if self.damp == "hinge" and self.a == 0:
            raise BadInput("a", self.a, "above 0 with damp='hinge'", "use damp='constant' for no damping")

    def pair(self, step: Step) -> None:
        """Refuse an α that begins above 1: what it makes is no mean."""
        super().pair(step)
        if step.rule(1) is None and (alpha := float(step.sizes(np.zeros(1, np.int64))[0])) > 1.0:
            raise Unsuitable(
                f"FedAsync mixes models with the step as their share, and {step!r} begins with {alpha:g}; "
                "use one of at most 1, as Constant(0.6), and a larger size for longer local steps"
            )

    def tuned(self, eta: float, gamma: float) -> tuple[Method, Step]:
        """The size of the local steps is chosen; the share of new models begins with 1 and falls."""
        return replace(self, size=eta / self.steps), Harmonic(beta=gamma, gamma=gamma)

    def init(self, w0: Floats, n: int) -> Record:
        """Nothing received yet."""
        kind = DAMPINGS.index(self.damp)
        return Mixing(w0.copy(), np.zeros(w0.size), np.zeros(1), np.zeros(1, np.int64), kind, self.a, self.b)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that send y."""
        return local(w0, n, **local_of(self), pull=self.pull, what=MODEL)


class Mixing(NamedTuple):
    """The models of the current iteration, and what they weigh."""

    w: Floats  # (d,)
    total: Floats  # (d,) Σ s y
    weight: Floats  # (1,) Σ s
    arrived: Integers  # (1,) how many
    kind: int  # the place in DAMPINGS
    a: float
    b: float


@part
def trust(kind: int, a: float, b: float, age: int) -> float:
    """s(τ)."""
    if kind == 1:
        return math.exp(-a * math.log(1.0 + age))
    if kind == 2 and age > b:
        return 1.0 / (a * (age - b) + 1.0)
    return 1.0


@receive.when(Mixing)
def add_model(state: Mixing, i: int, message: Floats, age: int) -> None:
    """Σ s y ← Σ s y + s(τ) y."""
    s = trust(state.kind, state.a, state.b, age)
    for j in range(message.size):
        state.total[j] += s * message[j]
    state.weight[0] += s
    state.arrived[0] += 1


@ready.when(Mixing)
def any_model_came(state: Mixing) -> bool:
    """Whether there is anything to mix with."""
    return bool(state.arrived[0] > 0)


@advance.when(Mixing)
def mix(state: Mixing, eta: float) -> None:
    """w ← w − (α/|A|) (w Σ s − Σ s y)."""
    if state.arrived[0] > 0:
        for j in range(state.w.size):
            state.w[j] -= eta / state.arrived[0] * (state.weight[0] * state.w[j] - state.total[j])
            state.total[j] = 0.0
        state.weight[0] = 0.0
        state.arrived[0] = 0
