"""What is claimed of methods with local steps: FedAvg, FedProx, MIFA, FedBuff and FedAsync.

Each function takes what makes the method from its parameters, so that a test can put another in its place and see the
claims fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from siag.activity import Activity, Clock, EveryArrivals, Everyone, Exponential, Nonuniform, Recorded, WaitForAll
from siag.foundations.types import Floats
from siag.methods import IAG, NORMALIZATIONS, Method
from siag.methods.fedasync import FedAsync
from siag.methods.fedavg import FedAvg
from siag.methods.fedbuff import FedBuff
from siag.methods.fedprox import FedProx
from siag.methods.mifa import MIFA
from siag.problems import Ridge
from siag.report import Basis, Claim
from siag.simulation import Run, simulate
from siag.steps import Constant, Harmonic, Step
from siag.theory import local_fixed_point, quadratics, shares

Maker: TypeAlias = Callable[..., Method]

N, STEPS = 10, 5
AT_REST = 1e-18  # a squared distance that is rounding and what is left of a linear decay
NEAR, WITHIN = 1e-3, 0.05  # of a mean over chance: a squared distance, and a relative one
SLOWNESS = tuple(np.linspace(1.0, 10.0, N).tolist())
SETTLING = Harmonic(beta=50.0, gamma=167.0)  # from 0.3 on; the slowest direction has a rate of 0.04 per unit step


def fedavg(method: Maker = FedAvg) -> list[Claim]:
    """One step is gradient descent; more need fewer rounds, but drift; the busy weigh more."""
    unequal = [_the_busy_weigh_more(method, normalization) for normalization in NORMALIZATIONS]
    return [_one_step(method), _fewer_rounds(method), _drift(method), *unequal]


def fedprox(method: Maker = FedProx) -> list[Claim]:
    """The pull keeps local models near, and lessens the drift: between FedAvg and gradient descent."""
    return [_kept_near(method), _less_drift(method)]


def mifa(method: Maker = MIFA) -> list[Claim]:
    """Participation does not bias it, whether workers are absent or late; local steps still do."""
    problem, size = _unlike(), _small(_unlike())
    point = local_fixed_point(*quadratics(problem), steps=STEPS, size=size)
    absent, late = Nonuniform(2, 20), Clock(Exponential(1.0), slowness=SLOWNESS)
    claims = []
    for activity, statement in ((absent, "Absent workers do not bias it"), (late, "Slow workers do not bias it")):
        iterations = 20_000 if activity is late else 6000
        ends = {
            make: _end(problem, make(steps=STEPS, size=size, gradients="exact"), activity, Constant(0.3), iterations)
            for make in (method, FedAvg)
        }
        gap, other = _square(ends[method] - point), _square(ends[FedAvg] - point)
        prediction = f"‖w − w∞‖² < {AT_REST:.0e}, w∞ the end of FedAvg with everyone active; FedAvg is beyond {NEAR:g}"
        measured = f"{gap:.1e}; FedAvg {other:.3g}"
        claims.append(Claim(statement, "Gu et al. 2021", prediction, measured, gap < AT_REST and other > NEAR))
    claims.append(_falling(method, problem, absent))
    w = _end(problem, method(steps=1, size=size, gradients="exact"), absent, Constant(1.0), 6000)
    error = _square(w - problem.optimum)
    statement, prediction = "With one local step it reaches w* itself", f"‖w − w*‖² < {AT_REST:.0e}"
    claims.append(Claim(statement, "Gu et al. 2021", prediction, f"{error:.1e}", error < AT_REST))
    return claims


def _falling(method: Maker, problem: Ridge, activity: Activity, fall: float = 200.0) -> Claim:
    made = method(steps=STEPS, size=2.0 * _small(problem), fall=fall, gradients="exact")
    run = simulate(problem, made, activity, Harmonic(beta=fall, gamma=fall), iterations=40_000, record=100)
    t, error = run.t[1:], run.error[0, 1:]
    late = t >= 4000
    slope = float(np.polyfit(np.log(t[late]), np.log(error[late]), 1)[0])
    return Claim(
        "With steps that fall as 1/t it tends to w*, at a rate of 1/t or faster, however many local steps it takes",
        "Gu et al. 2021, Theorem 1",
        "the slope of log ‖w − w*‖² over log t from t = 4000 on is at most −1",
        f"{slope:.2f}, to {error[-1]:.1e}",
        slope <= -1.0,
    )


def fedbuff(method: Maker = FedBuff, seed: int = 0) -> list[Claim]:
    """Unequal speeds bias it, damping adds to that, and where nothing biases it it is faster than waiting."""
    clock = Clock(Exponential(1.0), slowness=SLOWNESS, server=EveryArrivals(3), gradients=1)
    even = _settles(method(damp=False, **_local()), clock, lambda age: np.ones(len(age)), seed, 4)
    root = _settles(method(damp=True, **_local()), clock, lambda age: (1.0 + age) ** -0.5, seed, 4)
    return [
        _rests_where_predicted("Fast workers weigh more", "Σ r_i M_i ∇F_i(w) = 0", even),
        _rests_where_predicted("Damping weighs the slow even less", "Σ r_i s̄_i M_i ∇F_i(w) = 0", root),
        Claim(
            "Damping old updates adds to the bias",
            "siag.theory.local_fixed_point",
            f"{root.predicted / even.predicted:.2f} times the squared bias",
            f"{root.measured / even.measured:.2f} times",
            abs(root.measured / even.measured * even.predicted / root.predicted - 1.0) < 2 * WITHIN,
            Basis.OURS,
        ),
        _sooner(method, EveryArrivals(3), 1.0, "Nguyen et al. 2022", seed),
    ]


def fedasync(method: Maker = FedAsync, seed: int = 0) -> list[Claim]:
    """It converges linearly where all want the same, sooner than by waiting; elsewhere unequal speeds bias it."""
    clock = Clock(Exponential(1.0), slowness=SLOWNESS, gradients=1)  # times of reports without memory
    dampings: dict[str, Callable[[Floats], Floats]] = {
        "constant": lambda age: np.ones(len(age)),
        "polynomial": lambda age: (1.0 + age) ** -0.5,
        "hinge": lambda age: 1.0 / (0.5 * np.maximum(age - 4.0, 0.0) + 1.0),
    }
    claims = [_linear(method, clock, seed), _sooner(method, EveryArrivals(), 0.6, "Xie et al. 2019", seed)]
    for damp, weight in dampings.items():
        made = method(damp=damp, a=0.5, b=4.0, **_local())
        statement = f"Fast workers weigh more, with {damp} damping"
        claims.append(
            _rests_where_predicted(statement, "Σ r_i s̄_i M_i ∇F_i(w) = 0", _settles(made, clock, weight, seed))
        )
    return claims


def _one_step(method: Maker) -> Claim:
    problem, rounds = _unlike(), 50
    hessians, linear = quadratics(problem)
    size, w = _large(problem), np.zeros(problem.d)
    for _ in range(rounds):
        w = w - size * (hessians.mean(axis=0) @ w - linear.mean(axis=0))
    gap = _square(_end(problem, method(steps=1, size=size, gradients="exact"), Everyone(), Constant(1.0), rounds) - w)
    statement = "With one local step it is gradient descent, by construction"
    prediction = f"the same w after {rounds} rounds, to a squared distance of {AT_REST:.0e}"
    return Claim(statement, "McMahan et al. 2017", prediction, f"{gap:.1e}", gap < AT_REST)


def _fewer_rounds(method: Maker) -> Claim:
    problem, goal, counts = _alike(), 1e-8, (1, 2, 5, 10)
    rounds, ends = [], []
    for steps in counts:
        made = method(steps=steps, size=_large(problem), gradients="exact")
        run = simulate(problem, made, Everyone(), Constant(1.0), iterations=800, record=1000)
        rounds.append(int(run.t[_reached(run.error[0], goal)]))
        ends.append(float(run.error[0, -1]))
    predicted = [-(-rounds[0] // steps) for steps in counts]
    return Claim(
        "Where all curvatures are the same, K local steps save K − 1 of K rounds, and do not drift",
        "McMahan et al. 2017",
        f"{predicted} rounds to {goal:.0e} of the first error for K = {list(counts)}, ± 1; in the end "
        f"‖w − w*‖² < {AT_REST:.0e}",
        f"{rounds} rounds; in the end at most {max(ends):.1e}",
        max(ends) < AT_REST and all(abs(have - want) <= 1 for have, want in zip(rounds, predicted, strict=True)),
    )


def _drift(method: Maker) -> Claim:
    problem, counts = _unlike(), (1, 2, 5, 10, 50)
    size, parts = _large(problem), quadratics(problem)
    points = [local_fixed_point(*parts, steps=steps, size=size) for steps in counts]
    ends = [
        _end(problem, method(steps=steps, size=size, gradients="exact"), Everyone(), Constant(1.0), 600)
        for steps in counts
    ]
    gap = max(_square(w - point) for w, point in zip(ends, points, strict=True))
    errors = [_square(w - problem.optimum) for w in ends]
    predicted = [_square(point - problem.optimum) for point in points]
    return Claim(
        "Where curvatures differ local steps drift, the further the more of them",
        "siag.theory.local_fixed_point",
        f"‖w − w*‖² = {_list(predicted)} for K = {list(counts)}",
        f"{_list(errors)}; at most {gap:.0e} from the predicted points",
        gap < AT_REST and bool((np.diff(errors) > 0).all()) and errors[0] < AT_REST,
        Basis.OURS,
    )


def _the_busy_weigh_more(method: Maker, normalization: str) -> Claim:
    """Worker i reports every 2 + 2i-th round: nothing here is left to chance."""
    problem, iterations = _unlike(), 20_000
    activity = Recorded([[i for i in range(N) if (t + i) % (2 + 2 * i) == 0] for t in range(iterations)])
    size, weights = _small(problem), shares(activity, N, normalization)
    made = method(steps=STEPS, size=size, gradients="exact", normalization=normalization)
    w = _end(problem, made, activity, Harmonic(beta=300.0, gamma=300.0), iterations)
    point = local_fixed_point(*quadratics(problem), weights, steps=STEPS, size=size)
    return _rests_where_predicted(
        f"Workers that report more often weigh more, with the {normalization}",
        "Σ r_i M_i ∇F_i(w) = 0",
        Rest(_square(point - problem.optimum), _square(w - problem.optimum), _square(w - point)),
    )


def _kept_near(method: Maker) -> Claim:
    problem, pulls, steps = _unlike(), (0.3, 3.0, 10.0), 200
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
        "Li et al. 2020",
        f"‖y_i − w‖ ≤ ‖∇F_i(w)‖/(ρ + μ_i) after {steps} steps, for ρ = {list(pulls)} and all workers",
        f"at most {worst:.3f} of that",
        worst <= 1.0 + 1e-9,
    )


def _less_drift(method: Maker) -> Claim:
    problem, pulls, steps = _unlike(), (0.3, 1.0, 3.0, 10.0), 10
    parts, size = quadratics(problem), float(0.5 / (problem.smoothness.max() + max(pulls)))
    errors, predicted, gap = [], [], 0.0
    drift, descent = (
        _square(_end(problem, other, Everyone(), Constant(eta), 1000) - problem.optimum)
        for other, eta in ((FedAvg(steps=steps, size=size, gradients="exact"), 1.0), (IAG(), size))
    )
    for pull in pulls:
        made = method(steps=steps, size=size, pull=pull, gradients="exact")
        w = _end(problem, made, Everyone(), Constant(1.0), 1000)
        point = local_fixed_point(*parts, steps=steps, size=size, pull=pull)
        errors.append(_square(w - problem.optimum))
        predicted.append(_square(point - problem.optimum))
        gap = max(gap, _square(w - point))
    return Claim(
        "A stronger pull lessens the drift, and does not end it: it leads between FedAvg and gradient descent",
        "Li et al. 2020",
        f"‖w − w*‖² = {_list(predicted)} for ρ = {list(pulls)}; with the same size of steps FedAvg's is larger "
        f"than all, gradient descent's below {AT_REST:.0e}",
        f"{_list(errors)}, at most {gap:.0e} from the predicted points; FedAvg {drift:.3g}, gradient descent "
        f"{descent:.1e}",
        gap < AT_REST
        and bool((np.diff([drift, *errors, descent]) < 0).all())
        and errors[-1] > NEAR
        and descent < AT_REST,
    )


def _linear(method: Maker, clock: Clock, seed: int) -> Claim:
    problem, iterations = _shared(), 1000
    made = method(steps=STEPS, size=_large(problem), damp="polynomial", gradients="exact")
    run = simulate(problem, made, clock, Constant(0.6), iterations=iterations, record=2000, seed=seed, repeats=4)
    middle = int(np.searchsorted(run.t, iterations // 2))
    first, second = (float(np.log10(run.error[:, a] / run.error[:, b]).mean()) for a, b in ((0, middle), (middle, -1)))
    return Claim(
        "Where all workers want the same it converges linearly, old models notwithstanding",
        "Xie et al. 2019",
        f"as many decades in the second {iterations // 2} steps as in the first, to a third, and at least 2",
        f"{first:.2f}, then {second:.2f}",
        min(first, second) > 2.0 and 2 / 3 < second / first < 3 / 2,
    )


def _sooner(method: Maker, server: EveryArrivals, eta: float, source: str, seed: int) -> Claim:
    """Simulated time to an error, against FedAvg that waits for everybody, on a problem where nothing is biased."""
    problem, goal = _shared(), 1e-6
    times = []
    for make, policy, step in ((method, server, eta), (FedAvg, WaitForAll(), 1.0)):
        made = make(steps=STEPS, size=_large(problem), gradients="exact")
        clock = Clock(Exponential(1.0), slowness=SLOWNESS, server=policy)
        run = simulate(problem, made, clock, Constant(step), iterations=1500, record=3000, repeats=4, seed=seed)
        times.append(np.array([_when(run, repeat, goal) for repeat in range(run.repeats)]))
    own, waiting = times
    return Claim(
        "It is sooner where it wants to be than FedAvg, which waits for everybody",
        source,
        f"less simulated time to {goal:.0e} of the first error, in each of {len(own)} runs",
        f"{own.mean():.4g} against {waiting.mean():.4g}, {(waiting / own).min():.1f} times sooner at least",
        bool((own < waiting).all()),
    )


class Rest(NamedTuple):
    """Where a method comes to rest on average."""

    predicted: float  # the squared bias
    measured: float
    gap: float  # the squared distance between the two points


def _settles(method: Method, clock: Clock, weight: Callable[[Floats], Floats], seed: int, repeats: int = 8) -> Rest:
    """Run with a decreasing step; predict from the shares of the reports, each weighted for its age."""
    problem, iterations = _unlike(), 10_000
    run = simulate(problem, method, clock, SETTLING, iterations=iterations, record=2, repeats=repeats, seed=seed)
    weights = np.zeros(N)
    for repeat in range(repeats):
        for events in clock.paced(method.work(N)).events(N, iterations, seed, repeat, problem.d):
            report = (events.code >= 0) & (events.code < N)
            weights += np.bincount(events.code[report], weight(events.age[report].astype(float)), N)
    point = local_fixed_point(*quadratics(problem), weights / weights.sum(), steps=STEPS, size=_small(problem))
    w = run.w.mean(axis=0)
    return Rest(_square(point - problem.optimum), _square(w - problem.optimum), _square(w - point))


def _rests_where_predicted(statement: str, law: str, rest: Rest) -> Claim:
    return Claim(
        statement,
        "siag.theory.local_fixed_point",
        f"{law}: ‖w − w*‖² = {rest.predicted:.4f}, ± {WITHIN:.0%}, and w within {NEAR:g} of that point",
        f"{rest.measured:.4f}, and {rest.gap:.1e} from it",
        abs(rest.measured / rest.predicted - 1.0) < WITHIN and rest.gap < NEAR,
        Basis.OURS,
    )


def _unlike() -> Ridge:
    """Workers that want different things, with curvatures of their own."""
    return Ridge.random(n=N, d=5, m=20, spread=1.0, tilt=0.5, regularization=0.1, seed=7)


def _alike() -> Ridge:
    """Workers that want different things, all with the curvature of the first."""
    unlike = _unlike()
    return Ridge(np.repeat(unlike.features[:1], N, axis=0), unlike.targets, unlike.regularization)


def _shared() -> Ridge:
    """Workers that all want the same, with curvatures of their own."""
    return Ridge.random(n=N, d=5, m=20, spread=0.0, tilt=0.5, noise=0.0, seed=7)


def _large(problem: Ridge) -> float:
    return float(0.5 / problem.smoothness.max())


def _small(problem: Ridge) -> float:
    return float(0.1 / problem.smoothness.max())


def _local() -> dict[str, Any]:
    """The local steps of the methods on a clock."""
    return {"steps": STEPS, "size": _small(_unlike()), "gradients": "exact"}


def _end(problem: Ridge, method: Method, activity: Activity, step: Step, iterations: int) -> Floats:
    """(d,) the last iterate."""
    last: Floats = simulate(problem, method, activity, step, iterations=iterations, record=2).w[0]
    return last


def _reached(error: Floats, goal: float) -> int:
    """The first point at which an error is so much of the first; the last if it never is."""
    below = error <= goal * error[0]
    return int(np.argmax(below)) if below.any() else len(error) - 1


def _when(run: Run, repeat: int, goal: float) -> float:
    """The simulated time at which a repeat gets there; infinite if it never does."""
    point = _reached(run.error[repeat], goal)
    return float(run.time[repeat, point]) if run.error[repeat, point] <= goal * run.error[repeat, 0] else np.inf


def _square(vector: Floats) -> float:
    return float(vector @ vector)


def _list(values: list[float]) -> str:
    return ", ".join(f"{value:.3g}" for value in values)
