"""Scaffnew: ProxSkip where the proximal step is communication, left out most of the time by the toss of a coin."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from siag.activity import Activity, Clock, Everyone, WaitForAll
from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.errors import Unsuitable
from siag.foundations.rng import fresh, uniform
from siag.foundations.types import Booleans, Floats, Integers, Record, Rng
from siag.methods.local import Local, local, walk
from siag.methods.method import GRADIENTS, Method, advance, compute, cost, forget, ready, receive, shown
from siag.problems import Problem
from siag.steps import Constant, Step

COIN = 3  # what a key of random numbers is for, beside data, activity and clock
MOST = 2.0**53  # local steps; larger whole numbers are not exact as floating-point ones


@dataclass(frozen=True, kw_only=True)
class Scaffnew(Method):
    r"""Local steps with control variates, a random number of them between two rounds: Õ(√κ) rounds instead of Õ(κ).

        x̂_i = x_i − γ (∇f_i(x_i) − h_i)
        x_i⁺ = (1/n) Σ_j x̂_j  with probability p, for all at once;  otherwise x̂_i
        h_i⁺ = h_i + (p/γ) (x_i⁺ − x̂_i)

    Between two rounds the h_i stand still, so an iteration here is a round: the server draws the number of local steps
    up to it, geometric with mean 1/p, and shows it with w. The server moves to the mean of the x̂_i whatever its step
    is, for the h_i add up to 0 only if it does; give `Constant(1.0)`.

    γ = 1/L and p = 1/√κ, κ = L/μ of the single F_i, are the paper's choice. p = 1 is gradient descent. All workers must
    take part in every round, and none may forget its h_i: the others' would no longer balance it and w would be biased
    for ever. So there is no live server for it; `SCAFFOLD` bears both.

    Args:
        p: the probability of communication after a local step.
        size: γ, the size of local steps.
        gradients: `"exact"` for exact ones, `"sample"` for stochastic.
        seed: of the coin, which is the same in all repeats of a run.

    Example:
        >>> Scaffnew(p=0.1, size=0.5)
        Scaffnew(p=0.1, size=0.5, gradients='exact', seed=0)

    Reference:
        K. Mishchenko, G. Malinovsky, S. Stich, P. Richtárik, "ProxSkip: yes! Local gradient steps provably lead to
        communication acceleration! Finally!", ICML 2022, Algorithm 2.
    """

    NO_PROX = "its server takes a mean, not a step along a gradient; use PIAG"
    NO_CLIP = "its workers send models, not gradients; use Clipped(FedAvg(…))"
    NO_CHANGES = "the h_i of the others would no longer add up to 0; use SCAFFOLD"
    NO_WEIGHTS = "its workers send models, whose mean is taken; use Weighted(SCAFFOLD(…), …)"
    NO_MOMENTUM = "its h_i add up to 0 only if w moves to the mean; use Momentum(FedAvg(…))"

    p: float
    size: float
    gradients: str = "exact"
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", check.real("p", self.p, above=0, high=1))
        object.__setattr__(self, "size", check.real("size", self.size, above=0))
        check.choice("gradients", self.gradients, GRADIENTS)
        object.__setattr__(self, "seed", check.seed(self.seed))

    def tuned(self, eta: float, gamma: float) -> tuple[Method, Step]:
        """The size of the local steps is chosen, 1/p of them on average between two rounds; the server moves by 1."""
        return replace(self, size=eta * self.p), Constant(1.0)

    def init(self, w0: Floats, n: int) -> Record:
        """The first number of local steps is drawn."""
        d, rng = w0.size, fresh(self.seed, 0, COIN)
        model = np.append(w0, toss(rng, self.p))
        return Coin(model[:d], model, np.zeros(d), np.zeros(1, np.int64), rng, self.p, n)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that remember their h_i, and the x̂_i they sent."""
        walker = local(w0, n, steps=1, size=self.size, gradients=self.gradients)
        own, sent = np.zeros((n, w0.size)), np.zeros((n, w0.size))
        ever, steps = np.zeros(n, np.bool_), np.zeros(1, np.int64)
        return Skipping(walker, own, sent, ever, np.zeros(w0.size), steps, self.p)

    def work(self, n: int) -> int:
        """1/p of them, on average."""
        return round(1.0 / self.p)

    def pair(self, step: Step) -> None:
        """Refuse any step but 1: the h_i add up to 0 only if w moves to the mean."""
        if step != Constant(1.0):
            raise Unsuitable(f"Scaffnew's server moves to the mean of what it gets, not by {step!r}; use Constant(1.0)")

    def suit(self, problem: Problem, activity: Activity) -> None:
        """Refuse rounds in which not everyone takes part."""
        super().suit(problem, activity)
        waits = isinstance(activity, Clock) and isinstance(activity.server, WaitForAll)
        if not (isinstance(activity, Everyone) or waits):
            raise Unsuitable(
                f"Scaffnew needs everyone in every round and cannot follow {activity!r}; "
                "use Everyone(), a Clock with server=WaitForAll(), or SCAFFOLD"
            )

    def serve(self) -> None:
        """A live server waits for nobody."""
        raise Unsuitable("Scaffnew needs everyone in every round, but a live server waits for nobody; use SCAFFOLD")


class Coin(NamedTuple):
    """A server that takes the mean of everyone's model, and tosses the coin for all."""

    w: Floats  # (d,) the first d numbers of `model`
    model: Floats  # (d + 1,) w, and how many local steps to take from it
    total: Floats  # (d,) the sum of this round's x̂_i
    arrived: Integers  # (1,) their number
    rng: Rng  # (2,) of the coin
    p: float
    n: int


@compiled
def toss(rng: Rng, p: float) -> float:
    """How often a coin is tossed until it shows what has probability p."""
    u = uniform(rng)
    return 1.0 if p >= 1.0 else min(1.0 + math.floor(math.log1p(-u) / math.log1p(-p)), MOST)


@shown.when(Coin)
def model_and_steps(state: Coin) -> Floats:
    """Both w and the number of local steps."""
    return state.model


@ready.when(Coin)
def everyone_has_reported(state: Coin) -> bool:
    """Whether there is a mean of all to be taken."""
    return bool(state.arrived[0] == state.n)


@receive.when(Coin)
def add_model(state: Coin, i: int, message: Floats, age: int) -> None:
    """Add x̂_i to the others."""
    for j in range(message.size):
        state.total[j] += message[j]
    state.arrived[0] += 1


@advance.when(Coin)
def average(state: Coin, eta: float) -> None:
    """Once all are there, w ← (1/n) Σ x̂_i, and the coin is tossed again."""
    everyone = ready(state)
    for j in range(state.w.size):
        if everyone:
            state.w[j] = state.total[j] / state.n
        state.total[j] = 0.0
    state.arrived[0] = 0
    if everyone:
        state.model[state.w.size] = toss(state.rng, state.p)


class Skipping(NamedTuple):
    """Workers that take as many local steps as they are told, each with a control variate."""

    local: Local
    own: Floats  # (n, d) h_i
    sent: Floats  # (n, d) x̂_i
    ever: Booleans  # (n,) whether worker i has sent one
    correction: Floats  # (d,) scratch: −h_i
    steps: Integers  # (1,) how many the last message took
    p: float


@compute.when(Skipping)
def skip_and_walk(memory: Skipping, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """h_i ← h_i + (p/γ) (w − x̂_i), now that w is known; then x̂_i, after the steps until the next round."""
    own, sent, y = memory.own[i], memory.sent[i], memory.local.y
    for j in range(y.size):
        if memory.ever[i]:
            own[j] += memory.p / memory.local.size * (w[j] - sent[j])
        memory.correction[j] = -own[j]
    memory.steps[0] = int(w[y.size])
    walk(memory.local, oracle, rng, i, w, memory.correction, memory.steps[0])
    for j in range(y.size):
        sent[j] = y[j]
        out[j] = y[j]
    memory.ever[i] = True
    return True


@cost.when(Skipping)
def steps_taken(memory: Skipping) -> int:
    """As many as the coin said."""
    return int(memory.steps[0])


@forget.when(Skipping)
def lose_all(memory: Skipping, i: int) -> None:
    """h_i ← 0, and nothing sent: no longer in balance with the others."""
    memory.own[i, :] = 0.0
    memory.sent[i, :] = 0.0
    memory.ever[i] = False
