"""What is claimed of methods with local steps in rounds: FedAvg, FedProx and MIFA.

Each function takes what makes the method from its parameters, so that a test can put another in its place and see the
claims fail.
"""

from __future__ import annotations

import numpy as np

from siag.activity import Activity, Clock, Everyone, Exponential, Nonuniform, Recorded
from siag.experiments.claims.fitted import first_below, slope
from siag.experiments.claims.local_steps import (
    AT_REST,
    NEAR,
    SLOWNESS,
    STEPS,
    Maker,
    N,
    Rest,
    alike,
    end,
    large,
    listed,
    reached,
    rests_where_predicted,
    small,
    square,
    unlike,
)
from siag.methods import IAG, NORMALIZATIONS
from siag.methods.fedavg import FedAvg
from siag.methods.fedprox import FedProx
from siag.methods.mifa import MIFA
from siag.problems import Ridge
from siag.report import Basis, Claim
from siag.simulation import simulate
from siag.steps import Constant, Harmonic
from siag.theory import local_fixed_point, quadratics, shares

MCMAHAN, GU = "McMahan et al. 2017", "Gu et al. 2021"


def fedavg(method: Maker = FedAvg) -> list[Claim]:
    """More local steps need fewer rounds, but drift; one is gradient descent; the busy weigh more."""
    unequal = [_the_busy_weigh_more(method, normalization) for normalization in NORMALIZATIONS]
    return [_fewer_rounds(method), _fewer_on_unlike(method), _one_step(method), _drift(method), *unequal]


def fedprox(method: Maker = FedProx) -> list[Claim]:
    """The pull keeps local models near, and lessens the drift: between FedAvg and gradient descent."""
    return [_kept_near(method), _less_drift(method)]


def mifa(method: Maker = MIFA) -> list[Claim]:
    """Participation does not bias it, whether workers are absent or late; steps that fall end the drift."""
    absent, late = Nonuniform(2, 20), Clock(Exponential(1.0), slowness=SLOWNESS)
    beyond = f"beyond {GU}, where updates are never old"
    return [
        _unbiased(method, absent, 6000, "Absent workers do not bias it", GU, Basis.PROVED),
        _falling(method, absent),
        _more_devices(method, absent),
        _unbiased(method, late, 20_000, "Slow workers do not bias it", beyond, Basis.OURS),
        _to_the_optimum(method, absent),
    ]


def _unbiased(method: Maker, activity: Activity, iterations: int, statement: str, source: str, basis: Basis) -> Claim:
    problem, size = unlike(), small(unlike())
    point = local_fixed_point(*quadratics(problem), steps=STEPS, size=size)
    gap, other = (
        square(
            end(problem, make(steps=STEPS, size=size, gradients="exact"), activity, Constant(0.3), iterations) - point
        )
        for make in (method, FedAvg)
    )
    return Claim(
        statement,
        source,
        f"‖w − w∞‖² < {AT_REST:.0e}, w∞ the end of FedAvg with everyone active; FedAvg is beyond {NEAR:g}",
        f"{gap:.1e}; FedAvg {other:.3g}",
        gap < AT_REST and other > NEAR,
        basis,
    )


def _falling(method: Maker, activity: Activity, fall: float = 200.0) -> Claim:
    problem = unlike()
    made = method(steps=STEPS, size=2.0 * small(problem), fall=fall, gradients="exact")
    run = simulate(problem, made, activity, Harmonic(beta=fall, gamma=fall), iterations=40_000, record=100)
    late = run.t >= 4000
    rate = slope(run.t[late], run.error[0, late])
    return Claim(
        "With steps that fall as 1/t it tends to w*, at a rate of 1/t or faster, however many local steps it takes",
        f"{GU}, the theorem on strong convexity",
        "‖w − w*‖² ∝ tᵃ from t = 4000 on with exact gradients: a ≤ −1",
        f"a = {rate:.2f}, to {run.error[0, -1]:.1e}",
        rate <= -1.0,
    )


def _more_devices(method: Maker, activity: Activity) -> Claim:
    """Two devices that are unlike, each copied, so that nothing but their number changes; K steps go as far as 5.

    The slopes have standard deviations of about 0.05 over seeds: less than one in 1000 would fail.
    """
    pair = Ridge.random(n=2, d=5, m=20, spread=0.3, noise=1.0, tilt=0.3, regularization=0.1, seed=7)
    counts, locals_, fall, rounds = (4, 8, 16), (2, 5, 10), 200.0, 4000

    def error(n: int, steps: int) -> float:
        copies = n // 2
        problem = Ridge(np.tile(pair.features, (copies, 1, 1)), np.tile(pair.targets, (copies, 1)), pair.regularization)
        made = method(steps=steps, size=2.0 * small(problem) * STEPS / steps, fall=fall)
        step = Harmonic(beta=fall, gamma=fall)
        run = simulate(problem, made, activity, step, iterations=rounds, repeats=150, record=2, w0=pair.optimum)
        return float(run.mean[-1])

    in_n = slope(counts, [error(n, STEPS) for n in counts])
    in_steps = slope(locals_, [error(counts[0], steps) for steps in locals_])
    return Claim(
        "With stochastic gradients its error falls as 1/(NK): linear speedup in the devices and in their local steps",
        f"{GU}, the theorem on strong convexity",
        f"{rounds} rounds: the error ∝ Nᵃ for N = {list(counts)} and ∝ Kᵇ for K = {list(locals_)}, a = −1 ± 0.2 and "
        "b = −1 ± 0.2",
        f"a = {in_n:.2f}, b = {in_steps:.2f}",
        abs(in_n + 1) <= 0.2 and abs(in_steps + 1) <= 0.2,
    )


def _to_the_optimum(method: Maker, activity: Activity) -> Claim:
    problem = unlike()
    w = end(problem, method(steps=1, size=small(problem), gradients="exact"), activity, Constant(1.0), 6000)
    error = square(w - problem.optimum)
    return Claim(
        "With one local step and steps that do not fall it reaches w* itself, being IAG",
        "by construction",
        f"‖w − w*‖² < {AT_REST:.0e}",
        f"{error:.1e}",
        error < AT_REST,
        Basis.OURS,
    )


def _one_step(method: Maker) -> Claim:
    problem, rounds = unlike(), 50
    hessians, linear = quadratics(problem)
    size, w = large(problem), np.zeros(problem.d)
    for _ in range(rounds):
        w = w - size * (hessians.mean(axis=0) @ w - linear.mean(axis=0))
    gap = square(end(problem, method(steps=1, size=size, gradients="exact"), Everyone(), Constant(1.0), rounds) - w)
    statement = "With one local step it is gradient descent, by construction"
    prediction = f"the same w after {rounds} rounds, to a squared distance of {AT_REST:.0e}"
    return Claim(statement, f"{MCMAHAN}, Algorithm 1", prediction, f"{gap:.1e}", gap < AT_REST, Basis.OURS)


def _fewer_rounds(method: Maker) -> Claim:
    problem, goal, counts = alike(), 1e-8, (1, 2, 5, 10)
    rounds, ends = [], []
    for steps in counts:
        made = method(steps=steps, size=large(problem), gradients="exact")
        run = simulate(problem, made, Everyone(), Constant(1.0), iterations=800, record=1000)
        rounds.append(int(run.t[reached(run.error[0], goal)]))
        ends.append(float(run.error[0, -1]))
    fall = slope(counts, rounds)
    return Claim(
        "K local steps save rounds of communication: where all curvatures are the same, K − 1 of K of them",
        f"{MCMAHAN}, experiments",
        f"rounds to {goal:.0e} of the first error for K = {list(counts)} ∝ Kᵃ, a = −1 ± 0.1; in the end "
        f"‖w − w*‖² < {AT_REST:.0e}",
        f"{rounds} rounds, a = {fall:.2f}; in the end at most {max(ends):.1e}",
        max(ends) < AT_REST and abs(fall + 1) <= 0.1,
        Basis.OBSERVED,
    )


def _fewer_on_unlike(method: Maker) -> Claim:
    problem, goal, counts, rounds = unlike(), 0.1, (1, 2, 5), []
    for steps in counts:
        made = method(steps=steps, size=small(problem), gradients="sample")
        run = simulate(problem, made, Everyone(), Constant(1.0), iterations=400, record=1000, repeats=20)
        rounds.append(first_below(run.mean, goal * run.mean[0], run.t))
    fall = slope(counts, rounds)
    return Claim(
        "They do so with stochastic gradients and data that differ in all respects, to an accuracy that drift leaves",
        f"{MCMAHAN}, experiments on data that are not identically distributed",
        f"rounds to {goal:g} of the first error for K = {list(counts)} ∝ Kᵃ, a ≤ −0.5",
        f"{', '.join(f'{needed:g}' for needed in rounds)} rounds, a = {fall:.2f}",
        fall <= -0.5,
        Basis.OBSERVED,
    )


def _drift(method: Maker) -> Claim:
    problem, counts = unlike(), (1, 2, 5, 10, 50)
    size, parts = large(problem), quadratics(problem)
    points = [local_fixed_point(*parts, steps=steps, size=size) for steps in counts]
    ends = [
        end(problem, method(steps=steps, size=size, gradients="exact"), Everyone(), Constant(1.0), 600)
        for steps in counts
    ]
    gap = max(square(w - point) for w, point in zip(ends, points, strict=True))
    errors = [square(w - problem.optimum) for w in ends]
    predicted = [square(point - problem.optimum) for point in points]
    return Claim(
        "Where curvatures differ local steps drift, the further the more of them",
        "siag.theory.local_fixed_point",
        f"‖w − w*‖² = {listed(predicted)} for K = {list(counts)}",
        f"{listed(errors)}; at most {gap:.0e} from the predicted points",
        gap < AT_REST and bool((np.diff(errors) > 0).all()) and errors[0] < AT_REST,
        Basis.OURS,
    )


def _the_busy_weigh_more(method: Maker, normalization: str) -> Claim:
    """Worker i reports every 2 + 2i-th round: nothing here is left to chance."""
    problem, iterations = unlike(), 20_000
    activity = Recorded([[i for i in range(N) if (t + i) % (2 + 2 * i) == 0] for t in range(iterations)])
    size, weights = small(problem), shares(activity, N, normalization)
    made = method(steps=STEPS, size=size, gradients="exact", normalization=normalization)
    w = end(problem, made, activity, Harmonic(beta=300.0, gamma=300.0), iterations)
    point = local_fixed_point(*quadratics(problem), weights, steps=STEPS, size=size)
    return rests_where_predicted(
        f"Workers that report more often weigh more, with the {normalization}",
        "Σ r_i M_i ∇F_i(w) = 0",
        Rest(square(point - problem.optimum), square(w - problem.optimum), square(w - point)),
    )


def _kept_near(method: Maker) -> Claim:
    problem, pulls, steps = unlike(), (0.3, 3.0, 10.0), 200
    hessians, linear = quadratics(problem)
    start, worst = problem.optimum, 0.0
    size = 0.5 / (problem.smoothness.max() + max(pulls))
    for pull in pulls:
        made = method(steps=steps, size=size, pull=pull, gradients="exact")
        for i in range(N):
            run = simulate(problem, made, Recorded([[i]]), Constant(1.0), iterations=1, record=2, w0=start)
            slope = np.linalg.norm(hessians[i] @ start - linear[i])
            bound = slope / (pull + np.linalg.eigvalsh(hessians[i])[0])
            worst = max(worst, float(np.linalg.norm(run.w[0] - start) / bound))
    return Claim(
        "The pull keeps local models near the w they began from",
        "Li et al. 2020, the proximal term",
        f"‖y_i − w‖ ≤ ‖∇F_i(w)‖/(ρ + μ_i) after {steps} steps, for ρ = {list(pulls)} and all workers",
        f"at most {worst:.3f} of that",
        worst <= 1.0 + 1e-9,
    )


def _less_drift(method: Maker) -> Claim:
    problem, pulls, steps = unlike(), (0.3, 1.0, 3.0, 10.0), 10
    parts, size = quadratics(problem), float(0.5 / (problem.smoothness.max() + max(pulls)))
    errors, predicted, gap = [], [], 0.0
    drift, descent = (
        square(end(problem, other, Everyone(), Constant(eta), 1000) - problem.optimum)
        for other, eta in ((FedAvg(steps=steps, size=size, gradients="exact"), 1.0), (IAG(), size))
    )
    for pull in pulls:
        made = method(steps=steps, size=size, pull=pull, gradients="exact")
        w = end(problem, made, Everyone(), Constant(1.0), 1000)
        point = local_fixed_point(*parts, steps=steps, size=size, pull=pull)
        errors.append(square(w - problem.optimum))
        predicted.append(square(point - problem.optimum))
        gap = max(gap, square(w - point))
    return Claim(
        "A stronger pull lessens the drift, and does not end it: it leads between FedAvg and gradient descent",
        "Li et al. 2020, experiments",
        f"‖w − w*‖² = {listed(predicted)} for ρ = {list(pulls)}; with the same size of steps FedAvg's is larger "
        f"than all, gradient descent's below {AT_REST:.0e}",
        f"{listed(errors)}, at most {gap:.0e} from the predicted points; FedAvg {drift:.3g}, gradient descent "
        f"{descent:.1e}",
        gap < AT_REST
        and bool((np.diff([drift, *errors, descent]) < 0).all())
        and errors[-1] > NEAR
        and descent < AT_REST,
        Basis.OBSERVED,
    )
