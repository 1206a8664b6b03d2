"""Automatic steps beside the best that a search finds: a battery of problems, activities, readings and lengths.

`python -m benchmarks.automatic [PART OF A NAME]` prints the cases of that name, without writing anything down.
"""

from __future__ import annotations

import math
import statistics
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import siag
from benchmarks.networks import Digits
from benchmarks.targets import Target, table
from siag.activity import (
    Activity,
    Bernoulli,
    Clock,
    Cyclic,
    Exponential,
    Nonuniform,
    OnOff,
    Pareto,
    Recorded,
    Trace,
)
from siag.activity.recorded import Tape
from siag.foundations.errors import DivergenceWarning
from siag.methods import SIAG, Automatic
from siag.problems import LeastSquares, LogisticRegression, Problem, Ridge
from siag.steps import Constant, Harmonic, Step

SEARCH, TEST = (9001, 9002), (401, 402, 403, 404, 405, 406)  # seeds; those of the test were used for nothing else
ETAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)  # constant steps for the networks
REPORTS = 20_000  # of the networks
WAYS = ("simulator", "live")  # reading: a report is computed from the newest w, or from that after the worker's last


def read_after_report(activity: Activity, n: int, iterations: int, seed: int) -> Trace:
    """The same reports, each computed from the w that there was right after its worker's previous report."""
    start, worker = Recorded.of(activity, n, iterations, seed).tape
    version = np.repeat(np.arange(iterations), np.diff(start))
    stamp, sample = np.zeros(len(worker), np.int64), np.zeros(len(worker), np.int64)
    for i in range(n):
        own = np.flatnonzero(worker == i)
        stamp[own[1:]] = version[own[:-1]] + 1
        sample[own] = np.arange(len(own))
    return Trace(
        version, worker.astype(np.int64), stamp, sample, version.astype(float), np.full(len(worker), np.nan), iterations
    )


@dataclass(frozen=True)
class Case:
    """A problem, an activity, and the grid of `Harmonic` that is searched."""

    name: str
    problem: Callable[[int], Problem]  # given a seed
    activity: Activity
    betas: Sequence[float]
    gammas: Sequence[float]
    iterations: Sequence[int] = (3_000, 30_000)
    seeds: int = len(TEST)

    def along(self, live: bool, n: int, iterations: int, seed: int) -> Activity:
        """Who reports when; a clock's workers read right after their report in any case."""
        if not live or isinstance(self.activity, Clock):
            return self.activity
        return read_after_report(self.activity, n, iterations, seed)

    def error(self, live: bool, seed: int, method: Any, step: Step | None, iterations: int, **changed: Any) -> float:
        """‖w − w*‖², or for a problem on points F(w) − F(w*), at the end of a run; infinite if it diverged."""
        problem = self.problem(seed)
        activity = self.along(live, problem.n, iterations, seed)
        run = siag.simulate(
            problem, method, activity, step, iterations=iterations, seed=seed, record=1, threads=1, **changed
        )
        if run.diverged[0] >= 0:
            return math.inf
        return excess(problem, run.w[0])


def excess(problem: Problem, w: np.ndarray) -> float:
    """How far w is from the best."""
    if isinstance(problem, LogisticRegression | Ridge):
        return problem.objective(w) - problem.objective(problem.optimum)
    return float(np.square(w - problem.optimum).sum())


def separable(seed: int) -> LogisticRegression:
    """Two classes with a gap between them, and hardly any regularisation."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(10)
    normal /= np.linalg.norm(normal)
    points = rng.standard_normal((20, 50, 10)) + 0.5 * rng.standard_normal((20, 1, 10))
    labels = np.where(points @ normal > 0, 1.0, -1.0)
    return LogisticRegression(points + 0.3 * labels[:, :, None] * normal, labels, regularization=1e-4)


def cases() -> list[Case]:
    """All convex ones."""

    def squares(n: int, d: int, p: int) -> Callable[[int], Problem]:
        return lambda seed: LeastSquares.random(n=n, d=d, p=p, noise=0.1, seed=seed)

    betas, gammas = np.array([0.5, 1, 2, 4, 8, 16]), np.array([0.15, 0.5, 1.5, 5, 15, 50])
    usual: list[tuple[Activity, float]] = [(Nonuniform(10, 20), 10), (Nonuniform(2, 200), 100)]
    found = [
        Case(f"least squares {n}, {d}, {p}, {activity!r}", squares(n, d, p), activity, betas / p, gammas * age)
        for n, d, p in ((20, 20, 10), (80, 20, 10), (160, 5, 1))
        for activity, age in [*usual, (Cyclic(), n)]
    ]
    long: Any = (30_000,)
    for n in (640, 2000):
        found.append(
            Case(f"least squares {n}, 20, 10, Cyclic()", squares(n, 20, 10), Cyclic(), betas / 10, gammas * n, long, 3)
        )
    twenty = squares(20, 20, 10)
    rates = [0.2] * 19 + [0.001]
    slow = np.geomspace(1, 20, 20).tolist()
    clocks: list[tuple[str, Clock, float]] = [
        ("Pareto times", Clock(Pareto(1.0, 1.5), slowness=slow), 100),
        ("absences of 300", Clock(Exponential(1.0), availability=OnOff(100, 300)), 1000),
        ("absences of 1000", Clock(Exponential(1.0), availability=OnOff(200, 1000)), 2000),
    ]
    found += [
        Case(
            "least squares 50, 20, 10, Nonuniform(2, 2000)",
            squares(50, 20, 10),
            Nonuniform(2, 2000),
            betas / 10,
            gammas * 1000,
            long,
        ),
        Case("least squares 20, 20, 10, Bernoulli, one 0.001", twenty, Bernoulli(rates), betas / 10, gammas * 20, long),
        *(
            Case(f"least squares 20, 20, 10, {name}", twenty, clock, betas / 10, gammas * age, long)
            for name, clock, age in clocks
        ),
    ]
    ridge = partial(Ridge.random, n=20, d=20, m=50, condition=1e3, spread=0.5, regularization=1e-6)
    wide, late = np.array([2.0, 8, 32, 128, 512, 2048]), np.array([0.3, 1, 4, 16, 64, 256])
    for activity, age in [(Nonuniform(10, 20), 10), (Cyclic(), 20)]:
        found.append(
            Case(f"ridge, condition 10³, {activity!r}", lambda seed: ridge(seed=seed), activity, wide, late * age)
        )
    logistic = partial(LogisticRegression.random, n=20, d=10)
    for activity, age in usual:
        own = np.array([0.1, 0.3, 1, 4, 16, 64]) * age
        found.append(
            Case(f"logistic, {activity!r}", lambda seed: logistic(seed=seed), activity, [1, 3, 10, 30, 100, 300], own)
        )
    far, long_after = [10, 50, 250, 1250, 6000, 30000], [10, 60, 360, 2000, 12000, 72000]
    found += [Case(f"separable, {activity!r}", separable, activity, far, long_after) for activity, _ in usual]
    return found


@dataclass(frozen=True)
class Score:
    """One line of the table."""

    name: str
    reading: str
    iterations: int
    best: float  # the error of the best Harmonic
    ratio: float  # that of automatic steps over it
    edge: bool  # whether the best was at the edge of the grid


def score(case: Case, live: bool, iterations: int, pool: ThreadPoolExecutor) -> Score:
    """Search on some seeds, compare on others."""
    grid = [(beta, gamma) for beta in case.betas for gamma in case.gammas]

    def searched(pair: tuple[float, float]) -> float:
        return sum(case.error(live, seed, SIAG(), Harmonic(*pair), iterations) for seed in SEARCH)

    found = list(pool.map(searched, grid))
    at = int(np.argmin(np.nan_to_num(found, nan=math.inf)))
    test = TEST[: case.seeds]
    best = list(pool.map(lambda seed: case.error(live, seed, SIAG(), Harmonic(*grid[at]), iterations), test))
    own = list(pool.map(lambda seed: case.error(live, seed, Automatic(), None, iterations), test))
    place = divmod(at, len(case.gammas))
    edge = place[0] in (0, len(case.betas) - 1) or place[1] in (0, len(case.gammas) - 1)
    name = WAYS[int(live)]
    return Score(case.name, name, iterations, float(np.mean(best)), float(np.mean(own) / np.mean(best)), edge)


def convex(pool: ThreadPoolExecutor, named: str = "") -> list[Score]:
    """All of them, both readings."""
    found = []
    for case in cases():
        for live in (False, True) if named in case.name else ():
            for iterations in case.iterations:
                found.append(score(case, live, iterations, pool))
                print(found[-1], flush=True)
    return found


def networks(pool: ThreadPoolExecutor, seeds: int = 12) -> list[tuple[str, str, float, float]]:
    """Name, reading, accuracy of the best constant step and of automatic steps."""
    settings = [
        (hidden, relu, batch, spread)
        for hidden, relu in ((32, True), (32, False))
        for batch in (1, 8)
        for spread in (1, 70, 1000)
    ]
    found = []
    for hidden, relu, batch, spread in [*settings, (8, True, 8, 70)]:

        def accuracy(live: bool, method: Any, step: Step | None, seed: int, *shape: Any) -> float:
            hidden, relu, batch, spread = shape
            problem = Digits(hidden, relu, batch, seed)
            rng = np.random.default_rng([seed, 1])
            rates = rng.permutation(float(spread) ** -np.linspace(0, 1, problem.n))
            who = rng.choice(problem.n, REPORTS, p=rates / rates.sum())
            activity: Activity = Recorded(Tape(np.arange(REPORTS + 1), who))
            if live:
                activity = read_after_report(activity, problem.n, REPORTS, seed)
            run = siag.simulate(
                problem, method, activity, step, iterations=REPORTS, seed=seed, record=1, threads=1, w0=problem.w0
            )
            return problem.accuracy(run.w[0])

        shape = hidden, relu, batch, spread
        for live in (False, True):
            tries = [(eta, seed) for eta in ETAS for seed in SEARCH]
            each = list(
                pool.map(lambda t: accuracy(live, SIAG(), Constant(t[0]), t[1], *shape), tries)  # noqa: B023  # done before the loop goes on
            )
            eta = ETAS[int(np.argmax(np.reshape(each, (len(ETAS), -1)).mean(axis=1)))]
            test = range(TEST[0], TEST[0] + seeds)
            best = list(pool.map(lambda s: accuracy(live, SIAG(), Constant(eta), s, *shape), test))  # noqa: B023  # done before the loop goes on
            own = list(pool.map(lambda s: accuracy(live, Automatic(), None, s, *shape), test))  # noqa: B023  # done before the loop goes on
            name = f"{'ReLU' if relu else 'tanh'} {hidden}, batch {batch}, rates 1 : {spread}"
            found.append((name, WAYS[int(live)], float(np.mean(best)), float(np.mean(own))))
            print(found[-1], f"constant {eta}, lowest {min(own):.3f}", flush=True)
    return found


def scaled_ridge(seed: int, factor: float, unit: float = 1.0) -> Ridge:
    """The ridge problem with F multiplied by `factor` and w by `unit`."""
    usual = Ridge.random(n=20, d=20, m=50, condition=1e3, spread=0.5, regularization=1e-6, seed=seed)
    root = math.sqrt(factor)
    return Ridge(root / unit * usual.features, root * usual.targets, 1e-6 * factor / unit**2)


def sensitivity(pool: ThreadPoolExecutor, iterations: int = 30_000) -> list[tuple[str, float, float]]:
    """What was changed, and the median and worst ratio of errors to those without the change, both readings."""
    by_name = {case.name: case for case in cases()}
    chosen = [
        by_name[name]
        for name in (
            "least squares 20, 20, 10, Nonuniform(low=10, high=20)",
            "least squares 80, 20, 10, Nonuniform(low=2, high=200)",
            "least squares 160, 5, 1, Cyclic()",
            "ridge, condition 10³, Nonuniform(low=10, high=20)",
            "logistic, Nonuniform(low=2, high=200)",
        )
    ]
    both = [(case, live) for case in chosen for live in (False, True)]

    def mean(case: Case, live: bool, method: Automatic, far: float = 1.0) -> float:
        errors = []
        for seed in TEST[:3]:
            optimum = case.problem(seed).optimum
            errors.append(case.error(live, seed, method, None, iterations, w0=(1.0 - far) * optimum))
        return float(np.mean(errors))

    usual = list(pool.map(lambda each: mean(*each, Automatic()), both))
    found = []

    def compared(what: str, errors: Iterable[float], over: Sequence[float]) -> None:
        ratios = [error / base for error, base in zip(errors, over, strict=True)]
        found.append((what, statistics.median(ratios), max(ratios)))
        print(found[-1], flush=True)

    for start in (1e-8, 1e-4, 1e-2):
        compared(f"r₀ = {start:g} (1 + ‖w₀‖)", pool.map(lambda each: mean(*each, Automatic(start=start)), both), usual)  # noqa: B023  # done before the loop goes on
    for far in (1e-6, 1e-3, 0.1, 10.0):
        compared(f"start {far:g} times as far", pool.map(lambda each: mean(*each, Automatic(), far), both), usual)  # noqa: B023  # done before the loop goes on
    ridge = Case("ridge", lambda seed: scaled_ridge(seed, 1.0), Nonuniform(10, 20), (), ())
    base = [mean(ridge, live, Automatic()) for live in (False, True)]
    for factor, unit in ((1e-6, 1.0), (1e6, 1.0), (1.0, 1e-6), (1.0, 1e-3), (1.0, 1e3), (1.0, 1e6)):
        case = Case("ridge", partial(scaled_ridge, factor=factor, unit=unit), Nonuniform(10, 20), (), ())
        errors = [mean(case, live, Automatic()) / factor for live in (False, True)]
        compared(f"ridge with F × {factor:g}, w × {unit:g}", errors, base)
    return found


def chapter() -> tuple[str, list[Target]]:
    """Measure everything; the text and the targets."""
    with warnings.catch_warnings(), ThreadPoolExecutor() as pool:
        warnings.simplefilter("ignore", DivergenceWarning)
        scores, nets, changes = convex(pool), networks(pool), sensitivity(pool)
    targets = []
    for reading, middle, most in (("simulator", 1.4, 2.5), ("live", 1.6, 4.0)):
        ratios = [each.ratio for each in scores if each.reading == reading]
        targets.append(Target(statistics.median(ratios), f"× the best `Harmonic`, median, {reading}", most=middle))
        targets.append(Target(max(ratios), f"× the best `Harmonic`, worst, {reading}", most=most))
    gap = max(best - own for _, _, best, own in nets)
    targets.append(Target(gap, "below the best constant step's accuracy, the worst network", most=0.03))
    rows = "\n".join(
        f"| {each.name} | {each.reading} | {each.iterations:,} | {each.best:.2e}{' *' if each.edge else ''} "
        f"| {each.ratio:.2f} |"
        for each in scores
    )
    lines = "\n".join(f"| {name} | {reading} | {best:.3f} | {own:.3f} |" for name, reading, best, own in nets)
    changed = "\n".join(f"| {what} | {middle:.2f} | {worst:.2f} |" for what, middle, worst in changes)
    text = f"""## Automatic steps

`Automatic()`, which is told nothing, beside `SIAG()` with the best of 36 pairs of `Harmonic`, searched for each line by
{len(SEARCH)} runs a pair on other seeds; errors are means over up to {len(TEST)} seeds that were used for nothing else.
The error is ‖w − w*‖² for least squares (n, d, p) and F(w) − F(w*) for the others. Reading as in the simulator: a
report is computed from the newest w; live: from the w right after the worker's last report. * : the best pair is at
the edge of its grid.

| problem and activity | reading | iterations | error of the best `Harmonic` | automatic, times that |
|---|---|---:|---:|---:|
{rows}

Networks with one hidden layer on handwritten digits, one class a worker, {REPORTS:,} reports: accuracy on held-out
images, means over twelve seeds, beside the best of {len(ETAS)} constant steps searched on other seeds.

| network | reading | best constant step | automatic |
|---|---|---:|---:|
{lines}

What it is sensitive to: errors after 30 000 iterations over those without the change, five convex problems, both
readings.

| change | median | worst |
|---|---:|---:|
{changed}

{table(targets)}
"""
    return text, targets


if __name__ == "__main__":
    with warnings.catch_warnings(), ThreadPoolExecutor() as threads:
        warnings.simplefilter("ignore", DivergenceWarning)
        wanted = sys.argv[1] if len(sys.argv) > 1 else ""
        if wanted == "networks":
            networks(threads)
        elif wanted == "sensitivity":
            sensitivity(threads)
        else:
            convex(threads, wanted)
