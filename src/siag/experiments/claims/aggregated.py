"""What the papers on IAG, PIAG, steps that follow ages, and averaging claim, put to the test."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import copy

import numpy as np

from siag.activity import Activity, Clock, Cyclic, Everyone, Exponential, Recorded, Uniform
from siag.activity.agenda import STEP
from siag.foundations.errors import DivergenceWarning
from siag.foundations.types import Floats
from siag.methods import IAG, SIAG, Method
from siag.methods.averaged import Averaged
from siag.methods.piag import PIAG
from siag.problems import LeastSquares
from siag.problems.ridge import Ridge
from siag.report import Claim
from siag.simulation import Run, simulate
from siag.simulation.aged import aged_events
from siag.steps import Constant, DelayAdaptive, Step

DEEP = 1e-18  # of the start: a linear rate gets there, a sublinear one does not
FLOOR = 1e-24  # of the start: below this, rounding
PER_AGE = 400  # iterations for every iteration that a report may be old
VARIANTS = ("first", "second")


def iag(
    method: Callable[[], Method] = IAG, step: Callable[[float], Step] = Constant, bounds: Sequence[int] = (1, 5, 15, 45)
) -> list[Claim]:
    """IAG's linear rate, in the order of its paper and for gaps of any bound.

    Args:
        method: to be put to the test.
        step: makes the step of a size.
        bounds: the T for which gaps are drawn from {1, …, T}.
    """
    problem = Ridge.random(n=10, d=10, m=20, spread=0.5, tilt=0.3, regularization=0.1, seed=6)
    cycle = _linear(problem, method(), Cyclic(), step, problem.n)
    drawn = [_linear(problem, method(), Uniform(T), step, T) for T in bounds]
    prediction = f"error below {DEEP:g} of the start after {PER_AGE} T iterations, on a straight line in t (r² ≥ 0.99)"
    several = "; ".join(f"T = {T}: {_told(*found)}" for T, found in zip(bounds, drawn, strict=True))
    return [
        Claim(
            "IAG converges linearly with a constant step if the workers take turns",
            "Blatt, Hero, Gauchman 2007",
            f"{prediction}, T = n = {problem.n}",
            _told(*cycle),
            _straight(*cycle),
        ),
        Claim(
            "It does so at any bounded delay: the linear rate needs neither an order nor an end of the heterogeneity",
            "Gürbüzbalaban, Ozdaglar, Parrilo 2017",
            f"{prediction}, for every bound T",
            several,
            all(_straight(*found) for found in drawn),
        ),
    ]


def piag(method: Callable[..., Method] = PIAG, bounds: Sequence[int] = (5, 15)) -> list[Claim]:
    """PIAG's limit and rate, for an ℓ₁ norm and for a box.

    Args:
        method: makes the method for `l1`, or for `low` and `high`.
        bounds: the T for which gaps are drawn from {1, …, T}.
    """
    problem = Ridge.random(n=10, d=10, m=20, spread=0.3, tilt=0.3, seed=1)
    l1, low, high = 0.3, -0.2, 0.4
    lasso, boxed = minimiser(problem, l1=l1), minimiser(problem, low=low, high=high)
    runs = [_composite(problem, method(l1=l1), lasso, T) for T in bounds]
    box = _composite(problem, method(low=low, high=high), boxed, bounds[0])
    zeros = [(run.w[0] == 0).tolist() for run in runs]
    at_bounds = (boxed == low) | (boxed == high)
    same = np.array_equal(box.w[0][at_bounds], boxed[at_bounds])
    fell = f"error below {DEEP:g} of the start, and 10⁴ times less at half of the run than at a quarter"
    source = "Vanli, Gürbüzbalaban, Ozdaglar 2018; Aytekin, Feyzmahdavian, Johansson 2016"
    return [
        Claim(
            "PIAG converges linearly to the minimiser of F + λ‖w‖₁ with a constant step, however the workers differ",
            source,
            f"{fell}, for every bound T on the gaps",
            "; ".join(f"T = {T}: {_fall(run)}" for T, run in zip(bounds, runs, strict=True)),
            all(_falls(run) for run in runs),
        ),
        Claim(
            "The coordinates that are 0 in the minimiser are exactly 0",
            source,
            f"{(lasso == 0).sum()} of {problem.d} zeros, those that coordinate descent finds",
            ", ".join(f"{sum(found)} for T = {T}" for T, found in zip(bounds, zeros, strict=True)),
            all(found == (lasso == 0).tolist() for found in zeros) and 0 < (lasso == 0).sum() < problem.d,
        ),
        Claim(
            "With bounds on w it converges linearly to the minimiser within them",
            source,
            f"{fell}; the {at_bounds.sum()} of {problem.d} coordinates at a bound are there exactly",
            f"{_fall(box)}; {'exactly' if same else 'not exactly'} at the bounds",
            _falls(box) and same,
        ),
    ]


def delay_adaptive(step: Callable[..., Step] = DelayAdaptive) -> list[Claim]:
    """What steps that follow ages gain over a constant one.

    Args:
        step: makes the step for γ′ and a `variant`.
    """
    problem = Ridge.random(n=10, d=10, m=20, spread=0.5, tilt=0.3, regularization=0.1, seed=6)
    gamma = 0.99 / float(np.sqrt(np.square(problem.smoothness).mean()))
    steps = [step(gamma, variant=variant) for variant in VARIANTS]
    silent = _one_silent(problem.n, 1000)
    bursts = Recorded([range(problem.n) if t % 50 == 0 else () for t in range(3000)])
    longest, usual = silent.bound(problem.n) or 0, 2
    after = [_end(problem, silent, one) for one in steps]
    cautious = _end(problem, silent, Constant(gamma / (longest + 1)))
    late = [_end(problem, bursts, one) for one in steps]
    bold = _end(problem, bursts, Constant(gamma / (usual + 1)))
    used = [_fullest(problem.n, one, gamma) for one in steps]
    source = "Wu, Magnússon, Feyzmahdavian, Johansson 2022"
    return [
        Claim(
            "A long silence costs the time it lasts; a constant step for the worst case pays for it all along",
            source,
            f"ages up to {longest}, error of the start {_start(problem):.2g}: below 1e-20 with either variant, "
            "above 0.01 with the constant step",
            f"{after[0]:.1e} and {after[1]:.1e}; {cautious:.1e}",
            max(after) < 1e-20 and cautious > 0.01,
        ),
        Claim(
            "No bound on the ages has to be known: where a constant step for smaller ages diverges, these converge",
            source,
            f"ages up to {bursts.bound(problem.n)}: below 1e-8 with either variant, no limit for γ′/{usual + 1}",
            f"{late[0]:.1e} and {late[1]:.1e}; {bold:.1e}",
            max(late) < 1e-8 and not bold < 1e6,
        ),
        Claim(
            "By construction, over no window as long as an age do the steps exceed γ′ together",
            source,
            "on a clock with unequal workers η_t + Σ_{s=t−τ_t}^{t−1} η_s reaches γ′/2 and never exceeds γ′",
            " and ".join(f"{share:.6f} γ′ at most" for share in used),
            all(0.5 <= share <= 1 + 1e-9 for share in used),
        ),
    ]


def averaged(around: Callable[..., Method] = Averaged) -> list[Claim]:
    """What the mean of the iterates gains at a constant step. Another seed would fail about once in 10⁴.

    Args:
        around: makes the method from another and `start`.
    """
    problem, start, iterations = LeastSquares.random(n=4, d=5, p=4, noise=0.1), 200, 2000
    large, small = 0.05, 0.025

    def error(method: Method, eta: float) -> float:
        run = simulate(problem, method, Everyone(), Constant(eta), iterations=iterations, repeats=20, record=2)
        return float(run.error[:, -1].mean())

    last = error(SIAG(), large)
    means = [error(around(SIAG(), start=start), eta) for eta in (large, small)]
    law = float(problem.noise_at(problem.optimum).mean()) / (problem.n * problem.p**2 * (iterations - start))
    source = "Polyak, Juditsky 1992"
    return [
        Claim(
            "With a constant step the mean of the iterates tends to the optimum where the iterates do not",
            source,
            "an error at least 50 times smaller",
            f"{means[0]:.2e} and {last:.2e}, {last / means[0]:.0f} times smaller",
            50 * means[0] <= last,
        ),
        Claim(
            "Its error is that of the best estimate from as many samples, whatever the step",
            source,
            f"σ*²/(n p² (t − start)) = {law:.2e} within a factor of 2, for η = {large:g} and {small:g}",
            " and ".join(f"{mean:.2e}, {mean / law:.2f} times that" for mean in means),
            all(law / 2 <= mean <= 2 * law for mean in means),
        ),
    ]


def minimiser(problem: Ridge, *, l1: float = 0.0, low: float = -np.inf, high: float = np.inf) -> Floats:
    """(d,) the minimiser of F + λ‖w‖₁ within bounds, by coordinate descent until nothing changes."""
    points, targets = problem.features.reshape(-1, problem.d), problem.targets.reshape(-1)
    matrix = points.T @ points / len(points) + problem.regularization * np.eye(problem.d)
    vector, w = points.T @ targets / len(points), np.zeros(problem.d)
    for _ in range(10_000):
        before = w.copy()
        for j in range(problem.d):
            rest = vector[j] - matrix[j] @ w + matrix[j, j] * w[j]
            w[j] = np.clip(np.sign(rest) * max(abs(rest) - l1, 0.0) / matrix[j, j], low, high)
        if np.abs(w - before).max() <= 1e-16:
            break
    return w


def _linear(
    problem: Ridge, method: Method, activity: Activity, step: Callable[[float], Step], T: int
) -> tuple[float, float]:
    """The last error as a part of the first, and how straight log error against t is."""
    eta = 1.0 / (problem.constants().L * T)
    run = simulate(problem, method, activity, step(eta), iterations=PER_AGE * T, record=2000)
    part = run.error[0] / run.error[0, 0]
    shown = (part > FLOOR) & (run.t > 2 * T)
    return float(part[-1]), float(np.corrcoef(run.t[shown], np.log(part[shown]))[0, 1] ** 2)


def _told(part: float, r2: float) -> str:
    return f"{part:.1e} of the start, r² = {r2:.4f}"


def _straight(part: float, r2: float) -> bool:
    return part <= DEEP and r2 >= 0.99


def _composite(problem: Ridge, method: Method, reference: Floats, T: int) -> Run:
    """A run whose errors are measured from another point than the optimum of F."""
    moved = copy(problem)
    vars(moved)["optimum"] = reference
    step = Constant(1.0 / (float(problem.smoothness.max()) * (T + 1)))
    return simulate(moved, method, Uniform(T), step, iterations=PER_AGE * T, record=1000, seed=2)


def _parts(run: Run) -> tuple[float, float, float]:
    """The errors at a quarter, at half and at the end of a run, as parts of the first."""
    places = [int(np.searchsorted(run.t, run.t[-1] // k)) for k in (4, 2, 1)]
    quarter, half, end = (run.error[0, places] / run.error[0, 0]).tolist()
    return quarter, half, end


def _fall(run: Run) -> str:
    return "{:.1e}, {:.1e}, {:.1e} of the start at a quarter, half and the end".format(*_parts(run))


def _falls(run: Run) -> bool:
    quarter, half, end = _parts(run)
    return end <= DEEP and half <= 1e-4 * quarter


def _one_silent(n: int, iterations: int) -> Recorded:
    """Gaps of up to 3, but from iteration 100 to 600 nothing is heard of worker 0."""
    tape = Recorded.of(Uniform(3), n, iterations).tape
    sets = np.split(tape.worker, tape.start[1:-1])
    return Recorded([[i for i in workers if i > 0 or not 100 <= t < 600] for t, workers in enumerate(sets)])


def _start(problem: Ridge) -> float:
    return float(np.square(problem.optimum).sum())


def _end(problem: Ridge, activity: Recorded, step: Step) -> float:
    """The last error of IAG with all rows; ∞ if there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        run = simulate(problem, IAG(wait=1.0), activity, step, iterations=activity.length, record=2)
    return float(run.error[0, -1]) if np.isfinite(run.error[0, -1]) else np.inf


def _fullest(n: int, step: Step, gamma: float) -> float:
    """The largest sum of a step and those since the oldest report in use, as a part of γ′."""
    clock, iterations = Clock(compute=Exponential(1.0), slowness=np.linspace(1.0, 10.0, n).tolist()), 5000
    rule, sizes, stamp, fullest = step.rule(n), np.empty(0), np.full(n, -1), 0.0
    for chunk in clock.events(n, iterations, 0, 0, 1):
        t, steps = len(sizes), int((chunk.code == STEP).sum())
        eta = step.sizes(np.arange(t, t + steps)) if rule is None else aged_events(rule, chunk, t, steps, True)
        sizes = np.append(sizes, eta)
        for code, age in zip(chunk.code.tolist(), chunk.age.tolist(), strict=True):
            if code == STEP:
                fullest = max(fullest, float(sizes[max(stamp.min(), 0) : t + 1].sum()) / gamma)
                t += 1
            elif code >= 0:
                stamp[code] = t - age
    return fullest
