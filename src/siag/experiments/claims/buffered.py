"""What is claimed of local steps that nobody waits for: FedBuff and FedAsync.

Each function takes what makes the method from its parameters, and when the server steps, so that a test can put another
in its place and see the claims fail.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from siag.activity import Clock, EveryArrivals, Exponential, Fixed, WaitForAll
from siag.experiments.claims.fitted import slope
from siag.experiments.claims.local_steps import (
    SLOWNESS,
    STEPS,
    WITHIN,
    Maker,
    N,
    Rest,
    large,
    local_parameters,
    rests_where_predicted,
    shared,
    small,
    square,
    unlike,
    when,
)
from siag.experiments.claims.nonconvex import Order, Server, Servers, from_buffers, root
from siag.foundations.types import Floats
from siag.methods import Method
from siag.methods.fedasync import FedAsync
from siag.methods.fedavg import FedAvg
from siag.methods.fedbuff import FedBuff
from siag.problems import Ridge
from siag.report import Basis, Claim
from siag.simulation import simulate
from siag.steps import Constant, Harmonic
from siag.theory import local_fixed_point, quadratics

AT_ONCE = EveryArrivals()

NGUYEN, XIE = "Nguyen et al. 2022", "Xie et al. 2019"
SETTLING = Harmonic(beta=50.0, gamma=167.0)  # from 0.3 on; the slowest direction has a rate of 0.04 per unit step
D, P = 5, 4
SIZE = 0.5 / P
WAY = 1.0 - (1.0 - SIZE * P) ** STEPS  # how much of the way to w* local steps go, on the isotropic problem


def fedbuff(
    method: Maker = FedBuff, server: Servers = EveryArrivals, seed: int = 0, order: Order = root
) -> list[Claim]:
    """The buffer lessens noise, damping the harm of old updates; sooner than waiting; unequal speeds bias it.

    Args:
        method: to be put to the test.
        server: when it steps, for a buffer of a size.
        seed: of the runs, but for those on a problem that is not convex.
        order: of the local steps there, for T iterations.
    """
    clock = Clock(Exponential(1.0), slowness=SLOWNESS, server=EveryArrivals(3), gradients=1)
    even = _settles(method(damp=False, **local_parameters()), clock, lambda age: np.ones(len(age)), seed, 4)
    root = _settles(method(damp=True, **local_parameters()), clock, lambda age: (1.0 + age) ** -0.5, seed, 4)
    thrown = _thrown(method(steps=STEPS, size=SIZE, damp=True, gradients="exact"), 0.1)
    return [
        _less_noise(method, server, seed),
        _tamed("1/(1 + τ)", NGUYEN, thrown, [(0.1 * WAY) ** 2 / (1 + age) for age in AGES]),
        _sooner(method, server(3), 1.0, NGUYEN, seed),
        rests_where_predicted("Fast workers weigh more", "Σ r_i M_i ∇F_i(w) = 0", even),
        rests_where_predicted("Damping weighs the slow even less", "Σ r_i s̄_i M_i ∇F_i(w) = 0", root),
        Claim(
            "Damping old updates adds to the bias",
            "siag.theory.local_fixed_point",
            f"{root.predicted / even.predicted:.2f} times the squared bias",
            f"{root.measured / even.measured:.2f} times",
            abs(root.measured / even.measured * even.predicted / root.predicted - 1.0) < 2 * WITHIN,
            Basis.OURS,
        ),
        *from_buffers(method, f"{NGUYEN}, the theorem on convergence", server, order),
    ]


def fedasync(method: Maker = FedAsync, server: Server = AT_ONCE, seed: int = 0) -> list[Claim]:
    """Linear where all want the same, old models tamed, sooner than by waiting; elsewhere unequal speeds bias it.

    Args:
        method: to be put to the test.
        server: when it steps.
        seed: of the runs.
    """
    clock = Clock(Exponential(1.0), slowness=SLOWNESS, gradients=1)  # times of reports without memory
    dampings: dict[str, Callable[[Floats], Floats]] = {
        "constant": lambda age: np.ones(len(age)),
        "polynomial": lambda age: (1.0 + age) ** -0.5,
        "hinge": lambda age: 1.0 / (0.5 * np.maximum(age - 4.0, 0.0) + 1.0),
    }
    claims = [_linear(method)]
    for damp, law in (("polynomial", "(τ + 1)^−1"), ("hinge", "(0.5 (τ − 4) + 1)^−2")):
        made = method(steps=STEPS, size=SIZE, damp=damp, a=0.5, b=4.0, gradients="exact")
        weights = dampings[damp](np.array(AGES, float))
        claims.append(_tamed(law, f"{XIE}, {damp} damping", _thrown(made, 0.6), [*(0.6 * (1 - WAY) * weights) ** 2]))
    claims.append(_sooner(method, server, 0.6, XIE, seed))
    for damp, weight in dampings.items():
        made = method(damp=damp, a=0.5, b=4.0, **local_parameters())
        statement = f"Fast workers weigh more, with {damp} damping"
        claims.append(
            rests_where_predicted(statement, "Σ r_i s̄_i M_i ∇F_i(w) = 0", _settles(made, clock, weight, seed))
        )
    return claims


def _less_noise(method: Maker, server: Servers, seed: int) -> Claim:
    """Sixteen workers with the same data, which noise takes away from w*.

    The slope has a standard deviation of about 0.04 over seeds: less than one in 1000 would fail.
    """
    one = Ridge.random(n=1, d=D, m=20, noise=1.0, regularization=0.1, seed=3)
    problem = Ridge(np.tile(one.features, (16, 1, 1)), np.tile(one.targets, (16, 1)), one.regularization)
    buffers, errors = (1, 2, 4, 8), []
    for size in buffers:
        made = method(steps=STEPS, size=small(problem), damp=False)
        clock = Clock(Exponential(1.0), server=server(size), gradients=1)
        run = simulate(
            problem, made, clock, Constant(0.02), iterations=300, repeats=200, record=2, w0=one.optimum, seed=seed
        )
        errors.append(float(run.mean[-1]))
    fall = slope(buffers, errors)
    return Claim(
        "A buffer of B updates makes a step of the server B times less noisy",
        "the noise of a mean of B updates",
        f"16 workers with the same data, constant steps, begun at w*: the error after 300 steps ∝ Bᵃ for B = "
        f"{list(buffers)}, a = −1 ± 0.15",
        f"a = {fall:.2f}",
        abs(fall + 1) <= 0.15,
        Basis.OURS,
    )


def isotropic() -> Ridge:
    """Workers that all want the same, with a curvature of P in all directions."""
    return Ridge(np.repeat(np.sqrt(D * P) * np.eye(D)[None], N, axis=0), np.ones((N, D)), regularization=0.0)


AGES = tuple((N - 1) * slow for slow in (100, 200, 400))


def _thrown(method: Method, eta: float) -> list[float]:
    """How far an update that is very old throws w, which has come to rest: a part of the first error, for each age."""
    problem, thrown = isotropic(), []
    for age in AGES:
        clock = Clock(Fixed(1.0), slowness=[1.0] * (N - 1) + [age / (N - 1)], gradients=1)
        run = simulate(problem, method, clock, Constant(eta), iterations=age + 20, record=10**6)
        thrown.append(float(run.error[0, run.t > age - 20].max() / run.error[0, 0]))
    return thrown


def _tamed(law: str, source: str, thrown: list[float], predicted: list[float]) -> Claim:
    ratios = [have / want for have, want in zip(thrown, predicted, strict=True)]
    return Claim(
        "Damping tames staleness: the older an update, the less it moves the model",
        f"{source}, its definition",
        f"updates of age {', '.join(map(str, AGES))} throw a model at rest by a squared distance that falls as {law}: "
        f"{', '.join(f'{want:.2e}' for want in predicted)} of the first, within 1 %",
        ", ".join(f"{have:.2e}" for have in thrown),
        all(abs(ratio - 1) <= 0.01 for ratio in ratios),
    )


def _linear(method: Maker) -> Claim:
    """With workers of one speed all ages are N − 1, and the rate is a root of x^N = (1 − β) x^(N−1) + β (1 − WAY)."""
    problem, iterations, alpha = isotropic(), 300, 0.6
    made = method(steps=STEPS, size=SIZE, damp="polynomial", a=0.5, gradients="exact")
    run = simulate(problem, made, Clock(Fixed(1.0)), Constant(alpha), iterations=iterations, record=10**5)
    share = alpha * N**-0.5
    roots = np.roots([1.0, share - 1.0, *[0.0] * (N - 2), -share * (1.0 - WAY)])
    predicted = -2 * float(np.log10(np.abs(roots).max()))
    late = (run.t > 3 * N) & (run.error[0] > 1e-26 * run.error[0, 0])
    rate = -float(np.polyfit(run.t[late], np.log10(run.error[0, late]), 1)[0])
    return Claim(
        "Where all workers want the same it converges linearly, old models notwithstanding",
        f"{XIE}, its theorem, measured on a convex problem",
        f"{predicted:.4f} decades per model, K = {STEPS} local steps and models of age {N - 1} with polynomial "
        "damping, within 5 %",
        f"{rate:.4f}",
        abs(rate / predicted - 1) <= 0.05,
    )


def _sooner(method: Maker, server: Server, eta: float, source: str, seed: int) -> Claim:
    """Simulated time to an error, against FedAvg that waits for everybody, on a problem where nothing is biased."""
    problem, goal = shared(), 1e-6
    times = []
    for make, policy, step in ((method, server, eta), (FedAvg, WaitForAll(), 1.0)):
        made = make(steps=STEPS, size=large(problem), gradients="exact")
        clock = Clock(Exponential(1.0), slowness=SLOWNESS, server=policy)
        run = simulate(problem, made, clock, Constant(step), iterations=1500, record=3000, repeats=4, seed=seed)
        times.append(np.array([when(run, repeat, goal) for repeat in range(run.repeats)]))
    own, waiting = times
    return Claim(
        "It reaches a given error in less time than FedAvg, which waits for everybody",
        f"{source}, experiments",
        f"less simulated time to {goal:.0e} of the first error, in each of {len(own)} runs",
        f"{own.mean():.4g} against {waiting.mean():.4g}, {(waiting / own).min():.1f} times sooner at least",
        bool((own < waiting).all()),
        Basis.OBSERVED,
    )


def _settles(method: Method, clock: Clock, weight: Callable[[Floats], Floats], seed: int, repeats: int = 8) -> Rest:
    """Run with a decreasing step; predict from the shares of the reports, each weighted for its age."""
    problem, iterations = unlike(), 10_000
    run = simulate(problem, method, clock, SETTLING, iterations=iterations, record=2, repeats=repeats, seed=seed)
    weights = np.zeros(N)
    for repeat in range(repeats):
        for events in clock.paced(method.work(N)).events(N, iterations, seed, repeat, problem.d):
            report = (events.code >= 0) & (events.code < N)
            weights += np.bincount(events.code[report], weight(events.age[report].astype(float)), N)
    point = local_fixed_point(*quadratics(problem), weights / weights.sum(), steps=STEPS, size=small(problem))
    w = run.w.mean(axis=0)
    return Rest(square(point - problem.optimum), square(w - problem.optimum), square(w - point))
