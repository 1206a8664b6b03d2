"""The warnings of a live server on the battery of `benchmarks.automatic`: of runs that go well, and of others.

`python -m benchmarks.alarms [PART OF A NAME]` prints them, without writing anything down.
"""

from __future__ import annotations

import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

import siag
from benchmarks.automatic import ETAS, cases, excess, read_after_report
from benchmarks.networks import Digits
from benchmarks.targets import Target, table
from siag.activity import Activity, Clock, Recorded, Trace
from siag.activity.recorded import Tape
from siag.foundations.errors import DivergenceWarning
from siag.live.first_loss import FirstLoss
from siag.live.health import Health
from siag.live.task import RARER, FromProblem
from siag.methods import SIAG, Automatic, Method
from siag.methods.automatic import SCALE
from siag.problems import LeastSquares, LogisticRegression, Problem
from siag.server.parameter_server import Diverged, ParameterServer
from siag.steps import Constant, Harmonic, Step

SEED = 502  # used for nothing else; the limits of the warnings were set with 501
REPORTS, LOOKS, SECONDS = 10_000, 200, 0.05  # of a run, at it, and between two reports of it
FACTORS = (10.0, 100.0, 1000.0)  # of the best step, to get one that is too large


@dataclass(frozen=True)
class Job:
    """What a run is given but for its steps, and how bad a w is."""

    name: str
    problem: Problem
    who: np.ndarray  # reports, one after the other; the server steps with each
    w0: np.ndarray
    badness: Callable[[np.ndarray], float]
    tried: list[Step]  # among which the best is

    def simulated(self, step: Step) -> float:
        """How bad it ends, in the simulator, for the search."""
        tape: Activity = Recorded(Tape(np.arange(len(self.who) + 1), self.who))
        activity = read_after_report(tape, self.problem.n, len(self.who), SEED)
        run = siag.simulate(
            self.problem,
            SIAG(),
            activity,
            step,
            iterations=len(self.who),
            seed=SEED,
            record=1,
            threads=1,
            w0=self.w0,
        )
        return math.inf if run.diverged[0] >= 0 else self.badness(run.w[0])

    def live(self, method: Method, step: Step) -> tuple[float, Health]:
        """How bad it ends, live, with all workers in one thread, each reading w after its report; what is said."""
        n, w0 = self.problem.n, self.w0
        server = ParameterServer(method, step, w0, workers=n)
        server.begin(0.0)
        first, due = FirstLoss(n), np.ones(n, np.int64)
        health = Health(server, first)
        tasks = [FromProblem(self.problem, method, SEED, w0) for _ in range(n)]
        for row, task in enumerate(tasks):
            server.join(row, 0.0)
            task.begin(row, n, self.problem.d, 0)
        read, stamps = np.tile(server.shown, (n, 1)), np.zeros(n, np.int64)
        message, rng = np.empty(server.message_size), np.random.default_rng(SEED)
        for k, row in enumerate(self.who.tolist()):
            tasks[row].compute(read[row], message)
            state = rng.bit_generator.state
            loss = sample_loss(self.problem, read[row], row, rng)
            if (drawn := tasks[row].sample + 1) >= due[row] and not math.isnan(loss):  # as a worker does
                due[row] = drawn + 1 + drawn // RARER
                rng.bit_generator.state = state
                first.add(row, sample_loss(self.problem, w0, row, rng), loss)
            try:
                server.push(row, int(stamps[row]), message, tasks[row].sample, k * SECONDS, loss=loss)
            except Diverged:
                return math.inf, health
            read[row], stamps[row] = server.shown, server.version
            if k % (REPORTS // LOOKS) == 0:
                health.look(k * SECONDS)
        health.look(REPORTS * SECONDS, last=True)
        return self.badness(server.w), health


def sample_loss(problem: Problem, w: np.ndarray, row: int, rng: np.random.Generator) -> float:
    """What a worker tells with its gradient, as a user's would; nothing for quadratics, which need no help."""
    if isinstance(problem, Digits):
        return problem.loss(w, row, rng)
    if isinstance(problem, LogisticRegression):
        j = rng.integers(problem.labels.shape[1])
        loss = np.logaddexp(0.0, -problem.labels[row, j] * (problem.features[row, j] @ w))
        return float(loss + 0.5 * problem.regularization * (w @ w))
    return math.nan


def jobs(named: str = "") -> Iterator[Job]:
    """All of the battery, networks too."""
    for case in cases():
        if named in case.name:
            problem = case.problem(SEED)
            worker = order(case.activity, problem.n)
            each = max(1.0, len(worker) / REPORTS)  # a live server steps with each report, that many times as often
            steps: list[Step] = [Harmonic(beta, gamma * each) for beta in case.betas for gamma in case.gammas]
            yield Job(case.name, problem, worker[:REPORTS], np.zeros(problem.d), partial(excess, problem), steps)
    for relu, batch, spread in product((True, False), (1, 8), (1, 70, 1000)):
        name = f"network, {'ReLU' if relu else 'tanh'}, batch {batch}, rates 1 : {spread}"
        if named in name:
            network = Digits(32, relu, batch, SEED)
            rng = np.random.default_rng(SEED)
            rates = rng.permutation(float(spread) ** -np.linspace(0, 1, network.n))
            who = rng.choice(network.n, REPORTS, p=rates / rates.sum())
            steps = [Constant(eta) for eta in ETAS]
            yield Job(name, network, who, network.w0, lambda w, network=network: 1.0 - network.accuracy(w), steps)


def order(activity: Activity, n: int) -> np.ndarray:
    """Who reports in `REPORTS` iterations, one after the other."""
    if isinstance(activity, Clock):
        job = LeastSquares.random(n=n, d=1, p=1, noise=0.1, seed=0)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace"
            runtime = siag.Simulated(
                times=activity.compute, slowness=activity.slowness, availability=activity.availability, seed=SEED
            )
            siag.train(problem=job, until=REPORTS, runtime=runtime, trace=path, progress=False)
            return Trace.read(path).worker
    return Recorded.of(activity, n, REPORTS, SEED).tape.worker.astype(np.int64)


@dataclass(frozen=True)
class Outcome:
    """A run: its job, its steps, how much of what was bad at first is left, and what was said of it."""

    name: str
    steps: str
    left: float
    said: tuple[str, ...]
    kinds: frozenset[str]

    @property
    def well(self) -> bool:
        """Whether it went well."""
        return self.left < 0.5


def outcomes(named: str = "") -> list[Outcome]:
    """Automatic steps, the best that a search finds, and steps that are larger."""
    found = []
    with ThreadPoolExecutor() as pool:
        for job in jobs(named):
            best = job.tried[int(np.argmin(np.nan_to_num(list(pool.map(job.simulated, job.tried)), nan=math.inf)))]
            runs = [("automatic", Automatic(), SCALE), ("best", SIAG(), best)]
            runs += [(f"{factor:g} × best", SIAG(), enlarged(best, factor)) for factor in FACTORS]
            for steps, method, step in runs:
                bad, health = job.live(method, step)
                kinds = frozenset(each.kind.value for each in health.warned)
                found.append(Outcome(job.name, steps, bad / job.badness(job.w0), health.texts, kinds))
                print(found[-1], flush=True)
    return found


def enlarged(step: Step, factor: float) -> Step:
    """The same, larger."""
    if isinstance(step, Harmonic):
        return Harmonic(factor * step.beta, step.gamma)
    return Constant(factor * step.eta)


def chapter() -> tuple[str, list[Target]]:
    """Count them; the text and the targets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        found = outcomes()
    rows = []
    for steps in dict.fromkeys(each.steps for each in found):
        runs = [each for each in found if each.steps == steps]
        gone = [each for each in runs if each.left == math.inf]
        well, ill = [each for each in runs if each.well], [each for each in runs if not each.well and each not in gone]
        rows.append(f"| {steps} | {len(well)} | {told(well)} | {len(ill)} | {told(ill)} | {len(gone)} |")
    alarms = sum(bool(each.said) for each in found if each.well and each.steps in ("automatic", "best"))
    targets = [Target(alarms, "false alarms on runs of the battery that go well", most=0)]
    lines = "\n".join(rows)
    text = f"""## Warnings

What a live server warns of on the battery of automatic steps, {REPORTS:,} reports a run, one seed. Steps are automatic,
the best of the grid for this run, or larger. Workers tell the loss of a sample, but for least squares and ridge. A run
goes well if less than half of the error is left that it began with. Where a larger step recovers from a bad start, as
one that falls may, a warning is no false alarm. Of the others most that nothing is said of are networks whose units are
all dead: their loss is not above where it began.

| steps | go well | of which warned of | others | of which warned of | w overflowed, which is an error |
|---|---:|---:|---:|---:|---:|
{lines}

{table(targets)}
"""
    return text, targets


def told(runs: list[Outcome]) -> str:
    """How many were warned, and of what."""
    warned = [each for each in runs if each.said]
    kinds = sorted({kind for each in warned for kind in each.kinds})
    return f"{len(warned)} ({', '.join(kinds)})" if kinds else "0"


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        outcomes(sys.argv[1] if len(sys.argv) > 1 else "")
