"""Adaptive steps at the server: Adam, Yogi and Adagrad on where another method would go."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.types import Floats, Record
from siag.methods.around import Around, receive_within
from siag.methods.method import Method, advance, ready, receive
from siag.methods.momentum import check_moves
from siag.steps import Harmonic, Step

ADAGRAD, ADAM, YOGI = 0, 1, 2  # the kinds of rule


@dataclass(frozen=True)
class Adaptive(Around):
    r"""A method whose server takes its move as the pseudo-gradient of an adaptive rule.

        Δ = S_t(w) − w,  S_t(w) where the method would go from w with a step of 1
        m ← β₁ m + (1 − β₁) Δ
        v ← v + Δ²                            (Adagrad)
            β₂ v + (1 − β₂) Δ²                (Adam)
            v − (1 − β₂) Δ² sign(v − Δ²)      (Yogi)
        w ← w + η m/(√v + τ)

    coordinate by coordinate, from m = 0 and v = τ². There is no correction for the start, as in the paper. Iterations
    in which the method does not step change nothing. Workers see no difference. Δ is found as a difference of two w, so
    τ should be well above the rounding of w.
    """

    NO_PROX = "its steps have another size in every coordinate; use Prox(Momentum(…), …)"
    NO_MOMENTUM = "one momentum is enough: Momentum has its beta, Adam and its relatives their b1"
    RULE = ADAGRAD

    _: KW_ONLY
    b1: float = 0.9
    epsilon: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_moves(self)
        object.__setattr__(self, "b1", check.real("b1", self.b1, low=0, below=1))
        object.__setattr__(self, "epsilon", check.real("epsilon", self.epsilon, above=0))

    def tuned(self, eta: float, gamma: float) -> tuple[Method, Step]:
        """Both the method's local steps, if it has any, and the server's begin with η and fall."""
        inner, _ = self.method.tuned(eta, gamma)
        return replace(self, method=inner), Harmonic(beta=eta * gamma, gamma=gamma)

    def init(self, w0: Floats, n: int) -> Record:
        """No move yet."""
        inner, zeros, b2 = self.method.init(w0, n), np.zeros(w0.size), getattr(self, "b2", 0.0)
        squares = np.full(w0.size, self.epsilon * self.epsilon)
        return Adapting(inner.w, inner, zeros, squares, w0.copy(), self.RULE, self.b1, b2, self.epsilon)


@dataclass(frozen=True)
class Adagrad(Adaptive):
    r"""Steps that fall by themselves, in each coordinate by how far moves have led so far: see `Adaptive`.

        m ← β₁ m + (1 − β₁) Δ,    v ← v + Δ²,    w ← w + η m/(√v + τ)

    Δ is the method's own move with a step of 1. `Adagrad(FedAvg(…))` is FedAdagrad.

    Args:
        method: whose moves.
        b1: β₁, from 0, no momentum, to below 1.
        epsilon: τ, above 0: below it moves do not count as different from 0.

    Reference:
        S. Reddi, Z. Charles, M. Zaheer, Z. Garrett, K. Rush, J. Konečný, S. Kumar, B. McMahan, "Adaptive federated
        optimization", ICLR 2021, Algorithm 2.
    """

    RULE = ADAGRAD


@dataclass(frozen=True, kw_only=True)
class Fading(Adaptive):
    """A rule that forgets old moves."""

    b2: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "b2", check.real("b2", self.b2, low=0, below=1))


@dataclass(frozen=True)
class Adam(Fading):
    r"""Steps of about η in every coordinate, however long the method's own moves are there.

        m ← β₁ m + (1 − β₁) Δ,    v ← β₂ v + (1 − β₂) Δ²,    w ← w + η m/(√v + τ)

    coordinate by coordinate, from m = 0 and v = τ², where Δ is the method's own move with a step of 1. So
    `Adam(FedAvg(…))` is FedAdam, and `Adam(SIAG())` is Adam along the mean of everybody's latest gradient. As in the
    paper nothing is corrected for the start. Iterations in which the method does not step change nothing. Workers see
    no difference, and what a worker's crash means is up to the method. `Averaged` may go around it, `Clipped` inside.

    Args:
        method: whose moves.
        b1: β₁, from 0, no momentum, to below 1.
        epsilon: τ, above 0: moves much shorter than that are not made longer than η/τ times.
        b2: β₂, from 0 to below 1: v looks back about 1/(1 − β₂) steps.

    Example:
        >>> from siag.methods import SGD
        >>> Adam(SGD(), b1=0.0)
        Adam(method=SGD(normalization='mean'), b1=0.0, epsilon=0.001, b2=0.99)

    Reference:
        S. Reddi, Z. Charles, M. Zaheer, Z. Garrett, K. Rush, J. Konečný, S. Kumar, B. McMahan, "Adaptive federated
        optimization", ICLR 2021, Algorithm 2. Its η_l is the size of FedAvg's local steps.
    """

    RULE = ADAM


@dataclass(frozen=True)
class Yogi(Fading):
    r"""`Adam` whose v falls slowly: by (1 − β₂) Δ² a step, however large it is.

        m ← β₁ m + (1 − β₁) Δ,    v ← v − (1 − β₂) Δ² sign(v − Δ²),    w ← w + η m/(√v + τ)

    After a burst of long moves steps stay short for long. `Yogi(FedAvg(…))` is FedYogi.

    Args:
        method: whose moves.
        b1: as for `Adam`.
        epsilon: as for `Adam`.
        b2: β₂, from 0 to below 1.

    References:
        S. Reddi et al., "Adaptive federated optimization", ICLR 2021, Algorithm 2. M. Zaheer, S. Reddi, D. Sachan,
        S. Kale, S. Kumar, "Adaptive methods for nonconvex optimization", NeurIPS 2018.
    """

    RULE = YOGI


class Adapting(NamedTuple):
    """A method's memory, and the means of its moves."""

    w: Floats  # (d,) the method's own
    inner: Record
    mean: Floats  # (d,) m
    squares: Floats  # (d,) v
    before: Floats  # (d,) scratch: w before the step
    rule: int
    b1: float
    b2: float
    epsilon: float


receive.when(Adapting)(receive_within)


@advance.when(Adapting)
def step_adaptively(state: Adapting, eta: float) -> None:
    """Where the method would go with a step of 1, then the rule; of Yogi's signs that of 0 is 0."""
    w, before, mean, squares = state.w, state.before, state.mean, state.squares
    steps = ready(state.inner)  # asked first: some know only until they have stepped
    for j in range(w.size):
        before[j] = w[j]
    advance(state.inner, 1.0)
    if steps:
        for j in range(w.size):
            move = w[j] - before[j]
            square = move * move
            mean[j] += (1.0 - state.b1) * (move - mean[j])
            if state.rule == ADAGRAD:
                squares[j] += square
            elif state.rule == ADAM or squares[j] == square:
                squares[j] += (1.0 - state.b2) * (square - squares[j])
            elif squares[j] > square:
                squares[j] -= (1.0 - state.b2) * square
            else:
                squares[j] += (1.0 - state.b2) * square
            w[j] = before[j] + eta * mean[j] / (math.sqrt(squares[j]) + state.epsilon)
