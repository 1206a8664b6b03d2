"""What is claimed of methods on finite sums: incremental gradient, SAG, SAGA, and IAG with curvature."""

from __future__ import annotations

import numpy as np

from siag.activity import Activity, Cyclic, Everyone, Sequential
from siag.experiments.claims.fitted import slope
from siag.foundations.types import Floats
from siag.methods import IAG, SAG, SGD, Method, advance, receive
from siag.methods.curvature import CurvatureIAG
from siag.methods.incremental import Incremental
from siag.methods.saga import SAGA
from siag.methods.table import Aggregated
from siag.problems import LogisticRegression, Problem, Ridge
from siag.report import Basis, Claim
from siag.simulation import Run, simulate
from siag.steps import Constant, Harmonic, Step

BERTSEKAS = "Bertsekas 2011"
RATE_OF_INCREMENTAL = "Gürbüzbalaban, Ozdaglar, Parrilo 2019"
SCHMIDT = "Schmidt, Le Roux, Bach 2017"
DEFAZIO = "Defazio, Bach, Lacoste-Julien 2014"
WAI = "Wai, Shi, Uribe, Nedić, Scaglione 2020"

PASSES, REPEATS = 100, 8  # of SAG and SAGA over the samples; runs whose mean stands for an expectation
DISTANCES = (0.1, 0.01, 0.001)  # of a start from w*
COMPARED = (1, 3, 10, 30, 100)  # iterations after which iterates are compared with gradient descent's


def incremental(kind: type[Method] = Incremental, activity: Activity | None = None) -> list[Claim]:
    """A constant step leads next to w*, by as much as η; a step of 1/t leads to w*, at the rate 1/t.

    Args:
        kind: the method that is put to the test.
        activity: who takes part when; one after the other in turn, unless something else is put in the place of that.
    """
    problem = Ridge.random(n=8, d=5, m=20, spread=1.0, tilt=0.5, regularization=0.1, seed=3)
    mu, L, _ = problem.constants()
    steps = (0.02, 0.01, 0.005)
    ends = [_end(problem, kind(), Constant(eta), 24_000, activity) for eta in steps]
    off = max(_square(end - _fixed_point(problem, eta)) for eta, end in zip(steps, ends, strict=True))
    errors = [_square(end - problem.optimum) for end in ends]
    in_eta = slope(steps, errors)
    times = (8_000, 16_000, 32_000)
    harmonic = Harmonic(4.0 / mu, 4.0 / mu * L)
    in_time = [_square(_end(problem, kind(), harmonic, t, activity) - problem.optimum) for t in times]
    in_t = slope(np.add(times, harmonic.gamma), in_time)
    return [
        Claim(
            "With a constant step the passes end at a point of their own, whose distance from w* is of the order of η",
            BERTSEKAS,
            f"the fixed point of a pass to 1e-20; η = {_listed(steps)}: ‖w − w*‖² ∝ ηᵃ, a = 2 ± 0.2",
            f"{off:.1e} from it; {_listed(errors)}, a = {in_eta:.2f}",
            off < 1e-20 and abs(in_eta - 2) <= 0.2,
        ),
        Claim(
            "With a step of 1/t it converges to w*, with a distance of the order of 1/t",
            RATE_OF_INCREMENTAL,
            f"‖w − w*‖² below 1e-6 at t = {times[-1]}, and ∝ (t + γ)ᵃ at t = {_listed(times, '.0f')}: a = −2 ± 0.2",
            f"{in_time[-1]:.1e}, a = {in_t:.2f}",
            in_time[-1] < 1e-6 and abs(in_t + 2) <= 0.2,
        ),
    ]


def sag(kind: type[Method] = SAG) -> list[Claim]:
    """Linear convergence with the step 1/(16L), and no slower than its theorem has it.

    Args:
        kind: the method that is put to the test.
    """
    problem = _samples()
    mu, L, _ = problem.constants()
    n, step = problem.n, Constant(1.0 / (16.0 * L))
    run, sgd = _drawn(problem, kind(), step), _drawn(problem, SGD(), step)
    scatter = sum(_square(problem.gradient(i, problem.optimum)) for i in range(n)) / n
    start = problem.objective(np.zeros(problem.d)) - problem.objective(problem.optimum)
    constant = start + 4.0 * L / n * _square(problem.optimum) + scatter / (16.0 * L)
    rate = 1.0 - min(mu / (16.0 * L), 1.0 / (8.0 * n))
    return [
        _deep(run, sgd, PASSES, 1e-14, SCHMIDT),
        _bounded(run, 2.0 / mu * constant, rate, f"{SCHMIDT}, its theorem, with (μ/2) ‖w − w*‖² ≤ F(w) − F(w*)"),
    ]


def saga(kind: type[Method] = SAGA) -> list[Claim]:
    """Every step is unbiased; linear convergence with the step 1/(3L), and no slower than its theorem has it.

    Args:
        kind: the method that is put to the test.
    """
    problem = _samples()
    n, L, mu = problem.n, problem.constants().L, problem.regularization  # μ of every sample's loss
    step = Constant(1.0 / (3.0 * L))
    run, sgd = _drawn(problem, kind(), step), _drawn(problem, SGD(), step)
    gamma = 1.0 / (2.0 * (mu * n + L))
    c = 1.0 / (2.0 * gamma * (1.0 - gamma * mu) * n)
    apart = _square(problem.optimum) + _remembered_at_minima(problem) / c
    bias = _bias_of_steps(problem, kind())
    return [
        Claim(
            "The mean of the step over the samples is that of gradient descent, whatever is in the table",
            DEFAZIO,
            "equal to 1e-12 of its length",
            f"apart by {bias:.1e} of it",
            bias < 1e-12,
        ),
        _deep(run, sgd, PASSES // 2, 1e-16, DEFAZIO),
        _bounded(_drawn(problem, kind(), Constant(gamma)), apart, 1.0 - gamma * mu, f"{DEFAZIO}, its theorem"),
    ]


def curvature_iag(kind: type[Aggregated] = CurvatureIAG) -> list[Claim]:
    """Gradient descent itself on quadratics and nearly so near w*; far fewer iterations than IAG.

    Args:
        kind: the method that is put to the test; one with a table.
    """
    counts = {n: _races(n, kind(wait=1.0)) for n in (20, 80)}
    faster = all(mine <= 4 * n and 4 * mine <= best for n, (mine, best) in counts.items())
    told = "; ".join(f"n = {n}: {mine}, IAG at its best step {best}" for n, (mine, best) in counts.items())
    off, drifts = _off_descent(kind(wait=1.0)), _drifts(kind(wait=1.0))
    order = slope(DISTANCES, drifts)
    return [
        Claim(
            "On quadratics its iterates are those of gradient descent with the same step, at one worker a time",
            WAI,
            f"equal to 1e-10 after {_listed(COMPARED)} iterations",
            f"apart by {off:.1e} at most",
            off < 1e-10,
        ),
        Claim(
            "Started near w* it follows gradient descent: it strays by the square of the distance at the start",
            WAI,
            f"started {_listed(DISTANCES)} from w*, 10 steps: the straying ∝ distanceᵃ, a = 2 ± 0.2",
            f"a = {order:.2f}",
            abs(order - 2) <= 0.2,
        ),
        Claim(
            "It converges in far fewer iterations than IAG",
            WAI,
            "error below 1e-16 within 4n iterations, the first pass included, and in a quarter of IAG's",
            told,
            faster,
            Basis.OBSERVED,
        ),
    ]


def _end(problem: Problem, method: Method, step: Step, iterations: int, activity: Activity | None = None) -> Floats:
    """(d,) w after this number of iterations, the workers taking turns unless something else is said."""
    w: Floats = simulate(problem, method, activity or Cyclic(), step, iterations=iterations, record=2).w[0]
    return w


def _fixed_point(problem: Problem, eta: float) -> Floats:
    """(d,) the w that a pass of incremental steps over quadratics leads back to."""
    d, zero = problem.d, np.zeros(problem.d)
    matrix, offset = np.eye(d), zero
    for i in range(problem.n):
        shrink = np.eye(d) - eta * problem.hessian(i, zero)
        matrix, offset = shrink @ matrix, shrink @ offset - eta * problem.gradient(i, zero)
    return np.asarray(np.linalg.solve(np.eye(d) - matrix, offset))


def _samples() -> Ridge:
    """One data set of 60 samples, each with a loss of its own."""
    return Ridge.random(n=1, d=5, m=60, spread=0.0, regularization=0.1, noise=0.5, seed=4).by_sample()


def _drawn(problem: Problem, method: Method, step: Step) -> Run:
    """Some passes over the samples, drawn at random."""
    iterations = PASSES * problem.n
    return simulate(problem, method, Sequential(), step, iterations=iterations, repeats=REPEATS, record=300)


def _deep(run: Run, sgd: Run, passes: int, level: float, source: str) -> Claim:
    """A constant step goes on to w*, where SGD with the same step stops short of it."""
    n = int(run.t[-1]) // PASSES
    then = int(np.searchsorted(run.t, passes * n))
    worst, stuck = run.error[:, then].max(), sgd.error[:, -1].min()
    return Claim(
        "It converges linearly with a constant step, where SGD stops short of w*",
        source,
        f"error below {level:g} after {passes} passes in all of {run.repeats} runs; SGD's above 1e-4 after {PASSES}",
        f"{worst:.1e} at most; SGD {stuck:.1e} at least",
        worst < level and stuck > 1e-4,
    )


def _bounded(run: Run, constant: float, rate: float, source: str) -> Claim:
    """The mean error is below constant · rate^t at all recorded t."""
    bound = constant * rate**run.t
    share = (run.mean / bound).max()
    return Claim(
        "Its error is below the bound of its theorem at all times",
        source,
        f"E‖w^t − w*‖² ≤ {constant:.3g} · {rate:.5f}^t, {bound[-1]:.1e} at t = {run.t[-1]}",
        f"{100.0 * share:.1f} % of it at most; {run.mean[-1]:.1e} at t = {run.t[-1]}",
        share <= 1.0,
    )


def _remembered_at_minima(problem: Ridge) -> float:
    """(1/n) Σ_i f_i(φ_i) − f_i(w*) − ∇f_i(w*)·(φ_i − w*) of quadratics, φ_i the minimum of f_i: rows that are zero."""
    total = 0.0
    for i in range(problem.n):
        gradient = problem.gradient(i, problem.optimum)
        total += 0.5 * float(gradient @ np.linalg.solve(problem.hessian(i, problem.optimum), gradient))
    return total / problem.n


def _bias_of_steps(problem: Problem, method: Method) -> float:
    """How far the mean step over all samples is from −η∇F(w), relative to that, from a table of random rows."""
    draw = np.random.default_rng(1)
    w, rows, eta = draw.standard_normal(problem.d), draw.standard_normal((problem.n, problem.d)), 0.5
    gradients = np.array([problem.gradient(i, w) for i in range(problem.n)])
    moves = np.zeros(problem.d)
    for i in range(problem.n):
        state = method.init(w, problem.n)
        for row in range(problem.n):
            receive(state, row, rows[row], 0)
        advance(state, 0.0)
        receive(state, i, gradients[i], 0)
        advance(state, eta)
        moves += (state.w - w) / problem.n
    descent = -eta * gradients.mean(axis=0)
    return float(np.linalg.norm(moves - descent) / np.linalg.norm(descent))


def _off_descent(method: Method) -> float:
    """The largest gap between a coordinate of w and of gradient descent's, after some iterations on quadratics."""
    problem = Ridge.random(n=10, d=5, m=20, spread=1.0, tilt=0.5, regularization=0.1, seed=7)
    curvature = np.mean([problem.hessian(i, problem.optimum) for i in range(problem.n)], axis=0)
    values, basis = np.linalg.eigh(curvature)
    eta = 1.0 / float(values[-1])
    gaps = []
    for k in COMPARED:
        mine = _end(problem, method, Constant(eta), problem.n - 1 + k)  # it moves first when all have reported
        descent = problem.optimum - basis @ ((1.0 - eta * values) ** k * (basis.T @ problem.optimum))
        gaps.append(float(np.abs(mine - descent).max()))
    return max(gaps)


def _logistic(n: int) -> tuple[LogisticRegression, float]:
    """A problem that is not quadratic, and 1/L of its mean, whose Hessian is largest at 0."""
    problem = LogisticRegression.random(n=n, d=5, m=10, heterogeneity=0.5, regularization=0.1, seed=5)
    curvature = np.mean([problem.hessian(i, np.zeros(problem.d)) for i in range(n)], axis=0)
    return problem, 1.0 / float(np.linalg.eigvalsh(curvature)[-1])


def _in_turn(problem: Problem, method: Method, eta: float, iterations: int, w0: Floats) -> Run:
    """A run of one worker after the other, every iteration recorded."""
    return simulate(problem, method, Cyclic(), Constant(eta), iterations=iterations, record=10**5, w0=w0)


def _drifts(method: Method, steps: int = 10) -> list[float]:
    """How far w is from gradient descent's after some iterations, started ever closer to w*."""
    problem, eta = _logistic(20)
    drifts = []
    for distance in DISTANCES:
        w0 = problem.optimum + distance / np.sqrt(problem.d)
        mine = _in_turn(problem, method, eta, problem.n - 1 + steps, w0).w[0]
        descent = simulate(problem, IAG(), Everyone(), Constant(eta), iterations=steps, record=2, w0=w0).w[0]
        drifts.append(float(np.linalg.norm(mine - descent)))
    return drifts


def _races(n: int, method: Method) -> tuple[int, int]:
    """Iterations to an error of 1e-16 at gradient descent's step, and those of IAG at the best of several."""
    problem, eta = _logistic(n)
    zero = np.zeros(problem.d)
    mine = _first_below(_in_turn(problem, method, eta, 8 * n, zero))
    others = [_in_turn(problem, IAG(wait=1.0), eta / (share * n), 24 * n, zero) for share in (0.25, 0.5, 1, 2)]
    return mine, min(_first_below(run) for run in others)


def _first_below(run: Run, level: float = 1e-16) -> int:
    """The first iteration with so small an error; one more than all if there is none."""
    found = np.flatnonzero(run.error[0] <= level)
    return int(run.t[found[0]]) if len(found) else int(run.t[-1]) + 1


def _square(v: Floats) -> float:
    return float(v @ v)


def _listed(values: tuple[float, ...] | list[float], form: str = ".3g") -> str:
    return ", ".join(format(value, form) for value in values)
