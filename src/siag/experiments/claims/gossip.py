"""What is claimed of AD-PSGD: workers without a server agree, on w*, and the faster the more of them there are."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from siag.activity import Clock, Exponential, Sequential
from siag.experiments.claims.fitted import slope
from siag.experiments.claims.nonconvex import without_server
from siag.foundations.types import Floats, Record
from siag.methods.adpsgd import ADPSGD, consensus
from siag.methods.method import Method
from siag.problems import Ridge
from siag.report import Claim
from siag.simulation import simulate
from siag.steps import Constant, Harmonic, Step

PAPER = "Lian et al. 2018"
N, D, M, FEW = 8, 5, 20, 3  # workers, dimension, points per worker; fewer than determine w
DEEP = 1e-16
RING, COMPLETE, NOISY = ADPSGD(gradients="exact"), ADPSGD(graph="complete", gradients="exact"), ADPSGD()


@dataclass(frozen=True)
class Watched(Method):
    """A method whose state can be looked at after a run of one repeat."""

    method: Method
    states: list[Record] = field(default_factory=list, init=False, repr=False, compare=False)

    def init(self, w0: Floats, n: int) -> Record:
        """The method's, remembered."""
        self.states.append(self.method.init(w0, n))
        return self.states[-1]

    def recruit(self, w0: Floats, n: int) -> Record:
        """The method's."""
        return self.method.recruit(w0, n)

    def message(self, d: int, n: int) -> int:
        """The method's."""
        return self.method.message(d, n)

    def traffic(self, d: int, n: int) -> tuple[int, int]:
        """The method's."""
        return self.method.traffic(d, n)


def adpsgd(ring: Method = RING, complete: Method = COMPLETE, noisy: Method = NOISY, reports: int = 8000) -> list[Claim]:
    """Agreement and convergence, on data alike and different; speedup; the bias of fast workers; non-convex rates."""
    return [
        *_agreement(ring, complete, reports),
        _different(ring),
        _speedup(noisy),
        _biased(ring),
        *without_server(noisy, f"{PAPER}, its theorem"),
    ]


def _agreement(ring: Method, complete: Method, reports: int) -> list[Claim]:
    problem = Ridge.random(n=N, d=D, m=FEW, spread=0.0, noise=0.0, tilt=0.5, seed=3)
    step = Constant(0.3 / problem.constants().L)
    ends = [_watch(problem, method, step, reports) for method in (ring, complete)]
    early = [_watch(problem, method, step, reports // 4)[1] for method in (ring, complete)]
    return [
        Claim(
            "Without a server the workers come to agree, and on w*",
            f"{PAPER}, Algorithm 1",
            f"a convex problem, a common optimum that {FEW} points of one worker do not show, constant steps, ring and "
            f"complete graph: ‖w − w*‖² and the mean ‖x_i − w‖² are below "
            f"{DEEP:g} after {reports} reports",
            "; ".join(f"{error:.1e} and {spread:.1e}" for error, spread in ends),
            max(max(pair) for pair in ends) < DEEP,
        ),
        Claim(
            "The better connected they are, the sooner they agree",
            PAPER,
            f"after {reports // 4} reports the complete graph's mean ‖x_i − w‖² is below half the ring's",
            f"{early[1]:.1e} against {early[0]:.1e}",
            0 < 2 * early[1] < early[0],
        ),
    ]


def _different(ring: Method) -> Claim:
    problem = _unlike()
    constants = problem.constants()
    beta = 2 * N / constants.mu
    error, spread = _watch(problem, ring, Harmonic(beta, 4 * beta * constants.L), 40_000)
    return Claim(
        "With data that differ they still agree on w*, if all report alike and steps diminish",
        f"{PAPER}, Algorithm 1",
        "‖w − w*‖² below 2e-3 and mean ‖x_i − w‖² below 1e-4 after 40 000 reports on a ring",
        f"{error:.1e} and {spread:.1e}, from {float(problem.optimum @ problem.optimum):.1f} at the start",
        error < 2e-3 and spread < 1e-4,
    )


def _speedup(noisy: Method) -> Claim:
    """Two workers that are unlike, each copied: as many reports per worker, and steps that fall as in `_different`.

    The slope has a standard deviation of about 0.05 over seeds: less than one in 1000 would fail.
    """
    pair = Ridge.random(n=2, d=D, m=M, spread=1.0, noise=1.0, tilt=0.5, regularization=0.1, seed=3)
    constants, counts, errors = pair.constants(), (4, 8, 16), []
    for n in counts:
        copies = n // 2
        problem = Ridge(np.tile(pair.features, (copies, 1, 1)), np.tile(pair.targets, (copies, 1)), pair.regularization)
        beta = 2 * n / constants.mu
        step = Harmonic(beta, 4 * beta * constants.L)
        run = simulate(problem, noisy, Sequential(), step, iterations=600 * n, repeats=300, record=2, w0=pair.optimum)
        errors.append(float(run.mean[-1]))
    fall = slope(counts, errors)
    return Claim(
        "The speedup is linear in the number of workers, with data that differ",
        f"{PAPER}, its theorem, measured on a convex problem",
        f"n = {', '.join(map(str, counts))}, as many reports of each worker: the error of w ∝ nᵃ, a = −1 ± 0.2",
        f"{', '.join(f'{error:.2e}' for error in errors)}: a = {fall:.2f}",
        abs(fall + 1) <= 0.2,
    )


def _biased(ring: Method) -> Claim:
    problem, slowness = _unlike(), np.linspace(1.0, 5.0, N)
    clock = Clock(Exponential(1.0), slowness=slowness.tolist())
    step = Constant(0.01 / problem.constants().L)  # the law holds up to O(η)
    run = simulate(problem, ring, clock, step, iterations=40_000, repeats=8, record=2, w0=problem.optimum)
    gap = run.w.mean(axis=0) - problem.optimum
    rates = 1.0 / slowness
    there = _balance(problem, rates / rates.sum()) - problem.optimum
    bias, law = float(gap @ gap), float(there @ there)
    return Claim(
        "It minimises Σ p_i F_i, p_i being worker i's share of the updates: where data differ the fast count for more",
        f"{PAPER}, its objective",
        f"slowness 1 … {slowness[-1]:g}, p_i proportional to 1/slowness, exact gradients: "
        f"‖E w − w*‖² = {law:.4f}, within 10 %",
        f"{bias:.4f}",
        abs(bias / law - 1) < 0.1,
    )


def _unlike() -> Ridge:
    return Ridge.random(n=N, d=D, m=M, spread=0.3, tilt=0.5, regularization=0.1, seed=3)


def _balance(problem: Ridge, shares: Floats) -> Floats:
    """(d,) where Σ r_i ∇F_i(w) = 0."""
    zero = np.zeros(problem.d)
    curvature = sum(share * problem.hessian(i, zero) for i, share in enumerate(shares))
    pull = sum(share * problem.gradient(i, zero) for i, share in enumerate(shares))
    return np.asarray(np.linalg.solve(curvature, -pull))


def _watch(problem: Ridge, method: Method, step: Step, iterations: int) -> tuple[float, float]:
    """‖w − w*‖² and the mean ‖x_i − w‖² at the end of a run of one random report after the other."""
    watched = Watched(method)
    run = simulate(problem, watched, Sequential(), step, iterations=iterations, record=2)
    return float(run.error[0, -1]), float(consensus(watched.states[-1]))
