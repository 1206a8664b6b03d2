"""Local steps with control variates: what SCAFFOLD and Scaffnew claim."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from siag.activity import Activity, Bernoulli, Everyone, Nonuniform
from siag.experiments.claims.fitted import first_below, slope
from siag.foundations.errors import DivergenceWarning
from siag.foundations.types import Floats
from siag.methods import IAG, Method
from siag.methods.fedavg import FedAvg
from siag.methods.scaffnew import Scaffnew
from siag.methods.scaffold import SCAFFOLD
from siag.problems import Ridge
from siag.report import Basis, Claim
from siag.simulation import Run, simulate
from siag.steps import Constant

MEAN = Constant(1.0)  # the server's step, with which w is the mean of the workers' models
PROXSKIP = "Mishchenko et al. 2022"
STEPS = 10  # local steps of SCAFFOLD
DEEP = 1e-12  # an error relative to the start; a biased method does not get there
GOAL = 1e-10  # the relative error up to which rounds are counted
FAR = 1e-3  # a relative error above which a method is called biased
FEWER = (
    8.0,
    12.0,
    25.0,
)  # how many times fewer rounds than gradient descent Scaffnew is to take, from small κ to large


def scaffold(method: Callable[..., Method] = SCAFFOLD) -> list[Claim]:
    """SCAFFOLD: neither unlike workers nor unequal participation bias it, and local steps save rounds.

    Args:
        method: makes what is put to the test from `steps`, `size`, `gradients` and `option`.
    """
    paper = "Karimireddy et al. 2020"
    return [
        _however_unlike(method, f"{paper}, the theorem on SCAFFOLD"),
        _sampled(method, f"{paper}, the theorem on SCAFFOLD"),
        _uneven(method, f"{paper}, Algorithm 1: w* stays at any rates"),
        _alike(method, f"{paper}, the theorem on quadratics"),
    ]


def _however_unlike(make: Callable[..., Method], source: str) -> Claim:
    """The further apart the workers' optima are, the further FedAvg drifts."""
    spreads, rounds = (0.1, 1.0, 10.0), 150
    both = [[_needs(make, spread, option, Everyone(), rounds) for spread in spreads] for option in (1, 2)]
    trends = [slope(spreads, needed) for needed in both]
    drift = _end(FedAvg, spreads[-1], Everyone(), rounds)
    return Claim(
        "Data that differ leave no client drift: the number of rounds does not depend on how much they differ",
        source,
        f"optima apart by {', '.join(f'{spread:g}' for spread in spreads)}, {STEPS} local steps, both options: rounds "
        f"to {DEEP:g} of the start ∝ spreadᵃ, a = 0 ± 0.1; FedAvg stays above {FAR:g} at the largest",
        f"{_told(both)}: a = {trends[0]:.2f} and {trends[1]:.2f}; FedAvg {drift:.1e}",
        all(abs(trend) <= 0.1 for trend in trends) and drift > FAR,
    )


def _sampled(make: Callable[..., Method], source: str) -> Claim:
    """A part of all workers takes part in a round, each with the same probability."""
    parts, rounds = (1.0, 0.5, 0.25), 1500
    both = [[_needs(make, 1.0, option, Bernoulli(part), rounds) for part in parts] for option in (1, 2)]
    trends = [slope([1 / part for part in parts], needed) for needed in both]
    return Claim(
        "Sampling of workers does no harm but that of their number: rounds grow at most as N/S",
        source,
        f"S/N = {', '.join(f'{part:g}' for part in parts)}, {STEPS} local steps, both options: rounds to {DEEP:g} of "
        "the start ∝ (N/S)ᵃ, a ≤ 1.1",
        f"{_told(both)}: a = {trends[0]:.2f} and {trends[1]:.2f}",
        all(trend <= 1.1 for trend in trends),
    )


def _uneven(make: Callable[..., Method], source: str) -> Claim:
    activity, rounds = Nonuniform(2, 20), 800
    first, second = (_end(partial(make, option=option), 1.0, activity, rounds) for option in (1, 2))
    drift = _end(FedAvg, 1.0, activity, rounds)
    return Claim(
        "Workers that report more often than others do not bias it",
        source,
        f"error below {DEEP:g} of the start after {rounds} rounds of {activity!r} with {STEPS} local steps each, "
        f"for both options; FedAvg stays above {FAR:g}",
        f"option 1 {first:.1e}, option 2 {second:.1e}; FedAvg {drift:.1e}",
        max(first, second) < DEEP and drift > FAR,
    )


def _local_run(make: Callable[..., Method], spread: float, activity: Activity, rounds: int, record: int) -> Floats:
    """Errors as parts of the first, on workers whose curvatures differ, where FedAvg goes astray."""
    problem = Ridge.random(n=10, d=5, m=20, spread=spread, tilt=0.5, regularization=0.1, seed=7)
    size = 0.5 / float(problem.smoothness.max())
    run = _simulate(problem, make(steps=STEPS, size=size, gradients="exact"), activity, rounds, record)
    errors: Floats = run.error[0] / run.error[0, 0]
    return errors


def _end(make: Callable[..., Method], spread: float, activity: Activity, rounds: int) -> float:
    return float(_local_run(make, spread, activity, rounds, record=2)[-1])


def _needs(make: Callable[..., Method], spread: float, option: int, activity: Activity, rounds: int) -> float:
    """Rounds until the error is as small as only a method without bias has it; infinite if it never is."""
    errors = _local_run(partial(make, option=option), spread, activity, rounds, record=10**5)
    return first_below(errors, DEEP, np.arange(len(errors)))


def _told(both: list[list[float]]) -> str:
    return " and ".join(_listed(each, "g") for each in both)


def _alike(make: Callable[..., Method], source: str) -> Claim:
    """Workers with curvatures of one law, and workers whose curvatures differ, with many local steps.

    This is so for option 1 alone. Option 2 with as many local steps saves less, and no more on workers that are alike.
    """
    steps, fewer = 50, 10
    counts = []
    for tilt in (0.0, 1.0):
        problem = Ridge.random(n=10, d=8, m=50, condition=30.0, tilt=tilt, seed=0)
        size = 1.0 / float(problem.smoothness.max())
        descent = _descent(problem, size)
        most = int(descent.rounds / fewer)
        local = make(steps=steps, size=0.5 * size, gradients="exact", option=1)
        counts.append((descent, _first(_simulate(problem, local, Everyone(), most, record=10**6)), most))
    (alike, found, most), (unlike, lost, limit) = counts
    return Claim(
        "On quadratics option 1 takes advantage of workers that are alike: many local steps save rounds",
        source,
        f"with {steps} local steps to {GOAL:g} of the start in at most 1/{fewer} of the rounds of gradient descent if "
        "the workers' curvatures have one law, and not if they differ",
        f"{found.text(most)} instead of {alike.rounds:g}; {lost.text(limit)} instead of {unlike.rounds:g}",
        found.rounds <= most and lost.rounds > limit,
    )


def scaffnew(method: Callable[..., Method] = Scaffnew) -> list[Claim]:
    """Scaffnew: rounds that grow as √κ, for as many local steps as gradient descent takes.

    Args:
        method: makes what is put to the test from `p` and `size`.
    """
    conditions = (100.0, 300.0, 1000.0)
    contests = [_against_descent(method, *each) for each in zip(conditions, FEWER, strict=True)]
    work = max(contest.found.steps / contest.descent.steps for contest in contests)
    return [
        _root_of_kappa(contests),
        Claim(
            "It takes about as many local steps as gradient descent",
            f"{PROXSKIP}, abstract",
            "at most twice as many",
            f"{work:.2f} times as many",
            work <= 2.0,
        ),
        Claim(
            "E[Ψ] falls by 1 − min(γμ, p²) per local step, Ψ = Σ‖x_i − x*‖² + (γ/p)² Σ‖h_i − ∇f_i(x*)‖²",
            f"{PROXSKIP}, the theorem on the rate of ProxSkip",
            f"at most {_listed([contest.bound for contest in contests], '.0f')} rounds to {GOAL:g} of the start",
            _listed([contest.found.rounds for contest in contests], "g"),
            all(contest.found.rounds <= contest.bound for contest in contests),
        ),
        _best_choice(method, contests[0]),
        _descent_itself(method, contests[0]),
    ]


def _root_of_kappa(contests: list[Contest]) -> Claim:
    kappas, rounds = [contest.kappa for contest in contests], [contest.found.rounds for contest in contests]
    others = [contest.descent.rounds for contest in contests]
    saved = [other / own for other, own in zip(others, rounds, strict=True)]
    own, descent = slope(kappas, rounds), slope(kappas, others)
    return Claim(
        "The number of rounds grows as √κ, that of gradient descent as κ",
        f"{PROXSKIP}, abstract",
        f"with p = 1/√κ at least {_listed(FEWER, 'g')} times fewer rounds than gradient descent at κ = "
        f"{_listed(kappas, '.0f')}; ∝ κᵃ with a = 0.5 ± 0.15, gradient descent's with a = 1 ± 0.1",
        f"{_listed(rounds, 'g')} rounds, {_listed(saved, '.1f')} times fewer: a = {own:.2f}, gradient descent's "
        f"{descent:.2f}",
        all(have >= want for have, want in zip(saved, FEWER, strict=True))
        and abs(own - 0.5) <= 0.15
        and abs(descent - 1) <= 0.1,
    )


def _best_choice(make: Callable[..., Method], mild: Contest) -> Claim:
    others = [
        _first(_simulate(mild.problem, make(p=factor * mild.p, size=mild.size), Everyone(), mild.most, record=10**6))
        for factor in (0.5, 2.0)
    ]
    return Claim(
        "p = 1/√κ is the best choice",
        f"{PROXSKIP}, the corollary on the choice of p",
        f"at κ = {mild.kappa:.0f} fewer rounds than with half and with twice that p",
        f"{mild.found.rounds:g}; {others[0].text(mild.most)} and {others[1].text(mild.most)} with those",
        mild.found.rounds < min(other.rounds for other in others),
    )


def _descent_itself(make: Callable[..., Method], mild: Contest) -> Claim:
    one = _simulate(mild.problem, make(p=1.0, size=mild.size), Everyone(), 100, record=100)
    twin = simulate(mild.problem, IAG(), Everyone(), Constant(mild.size), iterations=100, record=100)
    gap = float(np.abs(one.error - twin.error).max() / twin.error.max())
    return Claim(
        "p = 1 is gradient descent, by construction",
        f"{PROXSKIP}, Algorithm 2",
        "the same errors to 1e-10 of the start, round by round",
        f"they differ by {gap:.1e}",
        gap <= 1e-10,
        Basis.OURS,
    )


def _listed(values: Sequence[float], form: str) -> str:
    return ", ".join(format(value, form) for value in values)


class First(NamedTuple):
    """When a run first got as far as the goal; infinite if it did not."""

    rounds: float
    steps: float  # local steps of one worker

    def text(self, most: int) -> str:
        """How many rounds that took."""
        return f"{self.rounds:g} rounds" if self.rounds < math.inf else f"more than {most} rounds"


class Contest(NamedTuple):
    """Scaffnew against gradient descent on one problem."""

    problem: Ridge
    kappa: float
    p: float  # 1/√κ
    size: float  # 1/L
    most: int  # the rounds that were run
    bound: float  # the rounds that theory asks for
    descent: First
    found: First


def _against_descent(make: Callable[..., Method], condition: float, fewer: float) -> Contest:
    """Both with steps of 1/L, L the largest of the workers'."""
    problem = Ridge.random(n=10, d=8, m=200, condition=condition, seed=0)
    largest = float(problem.smoothness.max())
    mu = min(float(np.linalg.eigvalsh(problem.hessian(i, problem.optimum))[0]) for i in range(problem.n))
    kappa = largest / mu
    p, size = 1.0 / math.sqrt(kappa), 1.0 / largest
    descent = _descent(problem, size)
    start = float(problem.n * problem.optimum @ problem.optimum)
    slopes = np.array([problem.gradient(i, problem.optimum) for i in range(problem.n)])
    psi = start + (size / p) ** 2 * float((slopes**2).sum())
    bound = p / min(size * mu, p * p) * math.log(psi / (GOAL * start))
    most = int(descent.rounds / fewer)
    found = _first(_simulate(problem, make(p=p, size=size), Everyone(), most, record=10**6))
    return Contest(problem, kappa, p, size, most, bound, descent, found)


def _descent(problem: Ridge, size: float) -> First:
    """Gradient descent with steps of 1/L or less; by the last (1 − ημ)^2t is below the goal."""
    enough = math.ceil(-0.5 * math.log(GOAL) / (size * problem.constants().mu))
    return _first(simulate(problem, IAG(), Everyone(), Constant(size), iterations=enough, record=10**6))


def _simulate(problem: Ridge, method: Method, activity: Activity, rounds: int, record: int) -> Run:
    """A run with the server's step 1; one that diverges has not kept its promise, and needs no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        return simulate(problem, method, activity, MEAN, iterations=rounds, record=record)


def _first(run: Run) -> First:
    """The first round whose error is at most the goal."""
    there = np.flatnonzero(run.error[0] <= GOAL * run.error[0, 0])
    if len(there) == 0:
        return First(math.inf, math.inf)
    steps = run.samples[0, there[0]] * run.t[there[0]] / run.reads[0, there[0]]  # all workers take part in all rounds
    return First(float(run.t[there[0]]), float(steps))
