"""What is claimed of servers that step at arrivals: AsyncSGD, which forgets, DuDe and ACE, which do not."""

from __future__ import annotations

import numpy as np

from siag.activity import Clock, EveryArrivals, Exponential, Fixed, WaitForAll
from siag.experiments.claims.fitted import slope
from siag.experiments.claims.nonconvex import Order, Servers, from_shared_data, root, whatever_the_data
from siag.foundations.types import Floats
from siag.methods.ace import ACE
from siag.methods.async_sgd import AsyncSGD
from siag.methods.dude import DuDe
from siag.methods.method import Method
from siag.problems import LeastSquares
from siag.report import Basis, Claim
from siag.simulation import Run, simulate
from siag.steps import Constant, Harmonic

N, D, P, NOISE = 10, 5, 4, 0.1
ETA = Constant(0.005)
SLOWEST = 10.0
AT_ONCE = EveryArrivals()
LIAN, MISHCHENKO = "Lian et al. 2015", "Mishchenko et al. 2022"
BEYOND = f"beyond the papers: {MISHCHENKO} bound what data that differ cost, not where they lead"
DUDE_PAPER, ACE_PAPER = "Wang et al. 2024 (DuDe-ASGD)", "Chang et al. 2025 (ACE)"
NONE = 1e-6  # a part of another's bias that is none
DEEP = 1e-20  # an error no method with a bias or with noise gets to

PLAIN, ADAPTIVE, NOISY = AsyncSGD(gradients="exact"), AsyncSGD(adaptive=True, gradients="exact"), AsyncSGD()
DUDE, NOISY_DUDE = DuDe(gradients="exact"), DuDe()
ENGAGED, NOISY_ENGAGED = ACE(gradients="exact"), ACE()


def async_sgd(
    plain: Method = PLAIN,
    adaptive: Method = ADAPTIVE,
    noisy: Method = NOISY,
    server: EveryArrivals | WaitForAll = AT_ONCE,
    servers: Servers = EveryArrivals,
    order: Order = root,
) -> list[Claim]:
    """On shared data it speeds up; old gradients can be tamed, so that delays do not matter; fast workers bias it."""
    return [
        _speedup(noisy, server),
        _old(plain, adaptive),
        _any_delay(adaptive),
        *_biased(plain, adaptive),
        *from_shared_data(noisy, f"{LIAN}, the theorem on AsySG-con", server, servers, order),
    ]


def dude(method: Method = DUDE, noisy: Method = NOISY_DUDE) -> list[Claim]:
    """However the data differ and however fast the workers are, there is no bias."""
    errors = [_end(problem, method, c) for problem in (_problem(), _problem(100.0)) for c in (1, 4)]
    off, expected = _offset(noisy)
    return [
        Claim(
            "However much the workers' data differ, the fast ones do not bias the model",
            DUDE_PAPER,
            f"a convex problem, slowness 1 … {SLOWEST:g}, a step at every arrival or every 4th, data as drawn or 100 "
            f"times further apart: error below {DEEP:g} with exact gradients",
            f"at most {max(errors):.1e}",
            max(errors) < DEEP,
        ),
        Claim(
            "Nor do they with stochastic gradients",
            DUDE_PAPER,
            "a convex problem: the mean over repeats is as near to w* as chance allows, ‖mean − w*‖² < 4.1 · "
            f"variance/repeats (χ² with {D} degrees of freedom exceeds that about once in 1000)",
            f"{off:.1e}, variance/repeats {expected:.1e}",
            off < 4.1 * expected,
        ),
        whatever_the_data(noisy, f"{DUDE_PAPER}, the theorem on convergence"),
    ]


def ace(method: Method = ENGAGED, plain: Method = PLAIN, noisy: Method = NOISY_ENGAGED) -> list[Claim]:
    """Stepping at once along everybody's latest update removes the bias, whatever the delays."""
    spreads = (3.0, 10.0, 30.0)
    errors = [_end(_problem(), method, 1, slowest) for slowest in spreads]
    biases, own = ([_bias(each, 1, slowest)[0] for slowest in spreads] for each in (plain, method))
    label = ", ".join(f"{slowest:g}" for slowest in spreads)
    return [
        Claim(
            "Steps along the latest updates of all clients have no participation bias, whatever the delays",
            ACE_PAPER,
            f"slowest client {label} times slower than the fastest: error below {DEEP:g} with exact gradients",
            ", ".join(f"{error:.1e}" for error in errors),
            max(errors) < DEEP,
        ),
        Claim(
            "Steps along the arriving update alone have one that grows as speeds become more unequal; ACE has none",
            ACE_PAPER,
            f"‖E w − w*‖² for {label}: asynchronous SGD's increasing, the last at least twice the first; ACE's after "
            f"as many arrivals below {NONE:g} of them",
            f"{', '.join(f'{bias:.3f}' for bias in biases)}; {', '.join(f'{bias:.1e}' for bias in own)}",
            biases[0] < biases[1] < biases[2]
            and biases[2] > 2 * biases[0] > 0.01
            and all(mine < NONE * bias for mine, bias in zip(own, biases, strict=True)),
        ),
        whatever_the_data(noisy, f"{ACE_PAPER}, the theorem on convergence"),
    ]


def _speedup(noisy: Method, server: EveryArrivals | WaitForAll) -> Claim:
    """With η = β/(t + γ) the error tends to β²s²/((2βp − 1)(t + γ)), s² = σ²pd the noise at w*; t grows as n.

    The start is forgotten as t^(−2βp), which a server that waits has not enough steps for. The slope has a standard
    deviation of about 0.04 over seeds: less than one in 1000 would fail.
    """
    seconds, beta, gamma, noise, counts = 300, 2.0 / P, 100.0, 1.0, (4, 8, 16)
    law, measured = [], []
    for n in counts:
        problem, clock = LeastSquares(np.full((n, D), 0.5), P, noise), Clock(Exponential(1.0), server=server)
        steps = int(1.2 * seconds * n)
        run = simulate(problem, noisy, clock, Harmonic(beta, gamma), iterations=steps, repeats=300, record=300)
        then = (run.time <= seconds).sum(axis=1) - 1
        law.append(beta**2 * noise**2 * P * D / ((2 * beta * P - 1) * (seconds * n + gamma)))
        measured.append(float(run.error[np.arange(run.repeats), then].mean()))
    ratios, fall = [have / want for have, want in zip(measured, law, strict=True)], slope(counts, measured)
    wanted = slope(counts, law)
    return Claim(
        "On shared data the speedup is linear: n workers that nobody waits for make the error n times lower in a given "
        "time",
        f"{LIAN}, measured on a convex problem",
        f"after {seconds} seconds of a gradient each, n = {', '.join(map(str, counts))}: the error of one worker that "
        f"draws all the gradients, within 25 %, and ∝ nᵃ, a = {wanted:.2f} ± 0.15",
        f"{', '.join(f'{ratio:.2f}' for ratio in ratios)} times that, a = {fall:.2f}",
        all(abs(ratio - 1) < 0.25 for ratio in ratios) and abs(fall - wanted) <= 0.15,
    )


def _old(plain: Method, adaptive: Method) -> Claim:
    """One worker takes so long that all is over when its gradient at w⁰ arrives; it throws w to η v p ‖w⁰ − w*‖."""
    slow = 200
    age, eta = (N - 1) * slow, 1.0 / (4 * N * P)
    clock = Clock(Fixed(1.0), slowness=[1.0] * (N - 1) + [float(slow)])
    problem = _problem(0.0)
    thrown = []
    for method in (plain, adaptive):
        run = simulate(problem, method, clock, Constant(eta), iterations=age + 50, record=10 * age)
        thrown.append(float(run.error[0, run.t > age - 50].max() / run.error[0, 0]))
    law = (eta * P) ** 2 * np.array([1.0, (N / age) ** 2])
    return Claim(
        "With delay-adaptive steps a gradient, however old, does no more harm than the number of workers explains",
        MISHCHENKO,
        f"n = {N}, a gradient of age {age}: it throws the error up to {law[0]:.2e} of the start at constant steps, "
        f"to (n/τ)² of that, {law[1]:.2e}, at adaptive ones, within 1 %",
        f"{thrown[0]:.2e} and {thrown[1]:.2e}",
        bool(np.all(np.abs(thrown / law - 1) < 0.01)),
    )


def _any_delay(adaptive: Method) -> Claim:
    """Steps of 1/(4nL) until the error stays below a goal, for ever slower workers and for more of them."""
    goal, usual, slownesses, counts = 1e-6, 100, (30, 100, 300, 1000), (5, 10, 20, 40)

    def needed(n: int, slow: int) -> float:
        problem = LeastSquares(np.full((n, D), 0.5), P, NOISE)
        clock = Clock(Fixed(1.0), slowness=[1.0] * (n - 1) + [float(slow)])
        steps = (n - 1) * slow + 200 * n
        run = simulate(problem, adaptive, clock, Constant(1 / (4 * n * P)), iterations=steps, record=10**5)
        above = np.flatnonzero(run.error[0] > goal * run.error[0, 0])
        return float(run.t[above[-1]]) + 1

    delays = [needed(N, slow) for slow in slownesses]
    workers = [needed(n, usual) for n in counts]
    in_delay, in_n = slope(slownesses, delays), slope(counts, workers)
    return Claim(
        "The number of iterations depends on the number of workers, not on the largest delay",
        f"{MISHCHENKO}, measured on a convex problem",
        f"η = 1/(4nL): iterations to {goal:g} of the start, for good, ∝ τᵃ with a = 0 ± 0.1 for one worker "
        f"{slownesses[0]} to {slownesses[-1]} times as slow as the others, τ its delay, and ∝ nᵇ with b = 1 ± 0.1 for "
        f"n = {counts[0]} to {counts[-1]}",
        f"a = {in_delay:.2f} ({delays[0]:g} to {delays[-1]:g}), b = {in_n:.2f}",
        abs(in_delay) <= 0.1 and abs(in_n - 1) <= 0.1,
    )


def _biased(plain: Method, adaptive: Method) -> list[Claim]:
    each, both = _bias(plain, 1), _bias(plain, 4)
    damped = _bias(adaptive, 1, damped=True)
    return [
        Claim(
            "Where data differ fast workers count for more: asynchronous SGD tends to Σ r_i ∇F_i(w) = 0",
            BEYOND,
            f"‖E w − w*‖² = {each[1]:.4f}, r_i proportional to 1/slowness, at every arrival and every 4th, within 10 %",
            f"{each[0]:.4f} and {both[0]:.4f}",
            abs(each[0] / each[1] - 1) < 0.1 and abs(both[0] / both[1] - 1) < 0.1,
            Basis.OURS,
        ),
        Claim(
            "Delay-adaptive steps add to that bias: who is slow is seldom heard and is old as well",
            BEYOND,
            f"‖E w − w*‖² = {damped[1]:.4f} within 10 %, and at least 1.15 times that of constant steps",
            f"{damped[0]:.4f}, {damped[0] / each[0]:.2f} times",
            abs(damped[0] / damped[1] - 1) < 0.1 and damped[0] > 1.15 * each[0],
            Basis.OURS,
        ),
    ]


def _problem(spread: float = 1.0) -> LeastSquares:
    """The centres of LeastSquares.random, drawn apart by a factor about their mean."""
    centers = np.random.default_rng(0).random((N, D))
    mean = centers.mean(axis=0)
    return LeastSquares(mean + spread * (centers - mean), P, NOISE)


def _clock(c: int, slowest: float) -> Clock:
    return Clock(Exponential(1.0), server=EveryArrivals(c), slowness=np.linspace(1.0, slowest, N).tolist())


def _end(problem: LeastSquares, method: Method, c: int, slowest: float = SLOWEST) -> float:
    """The error after enough steps for exact gradients to get to the precision of numbers."""
    return float(simulate(problem, method, _clock(c, slowest), ETA, iterations=10_000, record=2).error[0, -1])


def _final(method: Method, c: int, slowest: float, repeats: int) -> Run:
    return simulate(_problem(), method, _clock(c, slowest), ETA, iterations=1000, repeats=repeats, record=2)


def _bias(method: Method, c: int, slowest: float = SLOWEST, damped: bool = False) -> tuple[float, float]:
    """‖E w − w*‖², from the mean over repeats, and as predicted."""
    problem, rates = _problem(), 1.0 / np.linspace(1.0, slowest, N)
    weights = rates / rates.sum()
    if damped:
        weights = weights * mean_weight(weights)
    there = weights / weights.sum() @ problem.centers - problem.optimum
    gap = _final(method, c, slowest, 200).w.mean(axis=0) - problem.optimum
    return float(gap @ gap), float(there @ there)


def mean_weight(shares: Floats) -> Floats:
    """(n,) E min(1, n/max(τ, 1)) for workers that make these shares of the arrivals.

    Times being exponential, each arrival is worker i's with probability r_i, whatever came before; so its age τ is
    geometric, P(τ = k) = r_i (1 − r_i)^k.
    """
    ages = np.arange(20_000)
    weight = np.minimum(1.0, len(shares) / np.maximum(ages, 1))
    return np.array([(share * (1 - share) ** ages) @ weight for share in shares])


def _offset(method: Method) -> tuple[float, float]:
    """‖mean − w*‖² of the mean over repeats, and its expectation if only chance is in it."""
    repeats, optimum = 200, _problem().optimum
    w = _final(method, 1, SLOWEST, repeats).w
    gap = w.mean(axis=0) - optimum
    return float(gap @ gap), float(w.var(axis=0, ddof=1).sum() / repeats)
