"""Workers that count for more than others: the objective is Σ p_i F_i instead of the mean of the F_i."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from siag.activity import Activity, Nonuniform, Recorded
from siag.foundations import check
from siag.foundations.dispatch import part
from siag.foundations.errors import BadInput, Unsuitable, shorten
from siag.foundations.types import Floats, Record
from siag.methods.around import Around
from siag.methods.method import Method, advance, arrive, fade, receive, weigh
from siag.problems import Problem, weights_of
from siag.problems.weights import Weights, check_weights

SAMPLES = "samples"


def with_weights(method: Method, weights: str | Sequence[float] | None) -> Method:
    """The method with these weights of its workers, within all that is around it; as it is if there are none."""
    if weights is None:
        return method
    if isinstance(method, Around) and not isinstance(method, Weighted):
        return replace(method, method=with_weights(method.method, weights))
    return Weighted(method, weights)


def weighted_for(problem: Problem, method: Method) -> Method:
    """The method as it runs on a problem: with the problem's weights, unless it has weights of its own."""
    weights = weights_of(problem) if weighting_of(method) is None else None
    return method if weights is None else with_weights(method, weights.tolist())


def weighting_of(method: object) -> Weighted | None:
    """What weighs the messages of a method, within all that is around it; `None` if nothing does."""
    while isinstance(method, Around) and not isinstance(method, Weighted):
        method = method.method
    return method if isinstance(method, Weighted) else None


def weigh_parts(
    problem: Problem, method: Method, activity: Activity, weights: Weights, iterations: int
) -> tuple[Problem, Method]:
    """The problem and the method for the argument `weights` of a simulation, or of its exact error.

    Numbers, and words that the problem knows, are the problem's. `"samples"` is the method's, which counts reports; the
    problem gets the shares of reports that the activity leads to, so that errors are measured from their optimum.
    """
    if weights is None or not isinstance(problem, Problem):  # which `check_fit` has words for
        return problem, method
    if isinstance(weights, str) and weights == SAMPLES and isinstance(method, Method):
        return problem.weighted(rates_of(activity, problem.n, iterations)), with_weights(method, SAMPLES)
    try:
        return problem.weighted(weights), method
    except BadInput as error:
        if not isinstance(weights, str):
            raise
        remedy = f"or {SAMPLES!r}: as often as they report{'; ' if error.remedy else ''}{error.remedy}"
        raise BadInput("weights", weights, error.allowed, remedy) from None


def rates_of(activity: Activity, n: int, iterations: int) -> Floats:
    """(n,) how often workers report, up to a factor; refused where that is not known ahead of a run."""
    if isinstance(activity, Recorded):
        activity.bound(n)  # refuses workers that do not exist
        start, worker = activity.tape
        return np.bincount(worker[: start[min(iterations, activity.length)]], minlength=n).astype(np.float64)
    try:
        if isinstance(activity, Nonuniform):
            raise Unsuitable(f"{activity!r} draws them anew for every repeat")
        return np.asarray(1.0 / activity.moments(n).mean)
    except Unsuitable as error:
        remedy = "give numbers, Recorded.of(activity, …), or Weighted(method, 'samples') as the method, whose errors "
        raise Unsuitable(
            f"weights={SAMPLES!r}: it is not known how often workers report: {error}; {remedy}are measured from the "
            "problem's own optimum"
        ) from None


def without_weights(method: Method) -> tuple[Method, str | Sequence[float] | None]:
    """The method without weights of its workers, and these, if it has any: what `with_weights` puts together."""
    if isinstance(method, Weighted):
        return method.method, method.weights
    if isinstance(method, Around):
        inner, weights = without_weights(method.method)
        return (method, None) if weights is None else (replace(method, method=inner), weights)
    return method, None


def for_one(method: Method) -> Method:
    """The same for a single worker, of which the same machine code is made."""
    inner, weights = without_weights(method)
    return method if weights is None else with_weights(inner, weights if isinstance(weights, str) else (1.0,))


@dataclass(frozen=True, repr=False)
class Weighted(Around):
    r"""A method that minimises Σ p_i F_i: what worker i sends counts n p_i times.

        w^{t+1} = w^t − η_t Σ_i p_i g_i    in place of    w^t − (η_t/n) Σ_i g_i,    p_i = weights_i/Σ_k weights_k

    The server multiplies messages; workers see no difference. That is right for all methods that are linear in their
    messages, which most are. Of a worker that takes local steps it is how far it came that counts n p_i times: with
    everybody active, and weights that are numbers of samples, that is McMahan's average with n_k/n.

    If workers leave, their weight is shared by those that are left in proportion to theirs. With weights = `"samples"`
    a worker counts as often as it has reported so far, each report being as one sample: then those that report more
    often count for more, but for the newest report of each only, so there is no noise of who came last. That takes a
    method that keeps a table.

    Equal weights change nothing, to the bit.

    A problem that has weights of its own, `problem.weighted([3, 1])`, needs no `Weighted`: methods get it when they
    run. One that is `Weighted` already keeps its own weights; the problem's only say what errors are measured from.

    Args:
        method: the other.
        weights: one number of 0 or more for each worker, only their ratios matter; or `"samples"`.

    Example:
        >>> from siag.methods import SIAG
        >>> Weighted(SIAG(), [3.0, 1.0])
        Weighted(method=SIAG(resum=64, wait=0.0, rows='float64', average=1), weights=(3.0, 1.0))

    Reference:
        X. Li, K. Huang, W. Yang, S. Wang, Z. Zhang, "On the convergence of FedAvg on non-IID data", ICLR 2020: weights
        of workers, and how to keep them where only some are active, scheme II.
    """

    takes_short = True

    weights: str | Sequence[float] = SAMPLES

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.method
        if isinstance(inner, Weighted):
            raise Unsuitable(f"Weighted cannot follow {inner!r}; multiply the weights")
        if remedy := inner.NO_WEIGHTS:
            raise Unsuitable(f"Weighted cannot follow {inner!r}; {remedy}")
        for name in ("NO_PROX", "NO_CLIP", "NO_MOMENTUM"):
            object.__setattr__(self, name, getattr(inner, name))
        if isinstance(self.weights, str):
            check.choice("weights", self.weights, (SAMPLES,))
            object.__setattr__(self, "relayed", False)  # what is behind a sum has reported nobody knows how often
            if not fade.reaches(inner.init(np.zeros(inner.least), 1)):
                kind = type(inner).__name__
                raise Unsuitable(f"weights='samples': {kind} keeps no table of what workers sent; use SIAG")
        else:
            if (check_weights(self.weights) != 1.0).any():
                object.__setattr__(self, "relayed", False)  # a relay says what its row counts for, in place of p_i
            object.__setattr__(self, "weights", tuple(map(float, self.weights)))

    def __repr__(self) -> str:
        """Both, weights of many workers in short."""
        return f"Weighted(method={self.method!r}, weights={shorten(self.weights)})"

    def init(self, w0: Floats, n: int) -> Record:
        """The method's own memory, told who counts how much."""
        inner, width = self.method.init(w0, n), self.method.message(w0.size, n)
        counted = self.weights == SAMPLES
        if not counted and len(self.weights) != n:
            raise Unsuitable(f"{len(self.weights)} weights do not fit {n} workers; give one for each")
        each = np.zeros(n) if counted else check_weights(self.weights)
        for i in range(n):
            weigh(inner, i, each[i])
        return Weighing(inner.w, inner, each, np.zeros(width), self.method.weighed(w0.size, n), int(counted))


class Weighing(NamedTuple):
    """A method's memory, and what its workers count for."""

    w: Floats  # (d,) the method's own
    inner: Record
    weights: Floats  # (n,) n p_i; or how many reports each has sent
    weighed: Floats  # (a message's length,) scratch: a message times its weight
    numbers: int  # of a message, from its beginning, that are to be multiplied
    counted: int  # whether the weights are numbers of reports


def weighing_in(state: Record) -> Weighing | None:
    """The part of a state that has the weights of workers, if there is one."""
    if isinstance(state, Weighing):
        return state
    parts = (weighing_in(each) for each in state if hasattr(each, "_fields"))
    return next((each for each in parts if each is not None), None)


@part
def multiply(state: Weighing, i: int, message: Floats) -> None:
    """`weighed` ← n p_i times the message."""
    if state.counted == 1:
        state.weights[i] += 1.0
        weigh(state.inner, i, state.weights[i])
    weight = state.weights[i]
    for j in range(state.numbers):
        state.weighed[j] = weight * message[j]
    for j in range(state.numbers, message.size):
        state.weighed[j] = message[j]


@receive.when(Weighing)
def receive_multiplied(state: Weighing, i: int, message: Floats, age: int) -> None:
    """n p_i times the message."""
    multiply(state, i, message)
    receive(state.inner, i, state.weighed, age)


@arrive.when(Weighing)
def arrive_multiplied(state: Weighing, i: int, message: Floats, age: int, eta: float) -> None:
    """The same, and the step, as the method does both."""
    multiply(state, i, message)
    arrive(state.inner, i, state.weighed, age, eta)


@advance.when(Weighing)
def step_within(state: Weighing, eta: float) -> None:
    """As the method does."""
    advance(state.inner, eta)


@weigh.when(Weighing)
def weigh_own(state: Weighing, i: int, weight: float) -> None:
    """What worker i sends is weighted already, and is taken as it is."""
    state.weights[i] = 1.0
    weigh(state.inner, i, weight)
