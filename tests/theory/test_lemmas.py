"""Lemmas 1–3: left sides against sampling, right sides written anew from the paper, and that they hold."""

import numpy as np
import pytest

import siag

N, D, P, NOISE = 3, 2, 2, 0.4
PROBLEM = siag.problems.LeastSquares.random(n=N, d=D, p=P, noise=NOISE, seed=6)
STEP = siag.steps.Harmonic(0.9, 8)
ITERATIONS, RUNS = 60, 4000
TRACE = siag.activity.Recorded.of(siag.activity.Uniform(4), N, ITERATIONS, seed=2)


def evaluate(activity=TRACE, problem=PROBLEM, step=STEP, iterations=ITERATIONS, record=5000):
    return siag.theory.lemmas(problem, siag.methods.SIAG(), activity, step, iterations=iterations, record=record)


def sampled():
    """Per iteration and run ‖g/n‖², ⟨w − w*, g/n⟩ and ‖w − u_i‖², with A and y really drawn."""
    draw = np.random.default_rng(11)
    w, g, u = np.zeros((RUNS, D)), np.zeros((RUNS, N, D)), np.zeros((RUNS, N, D))
    square, inner, apart = [], [], []
    for t, active in enumerate(np.split(TRACE.tape.worker, TRACE.tape.start[1:-1])):
        for i in active:
            A = draw.standard_normal((RUNS, P, D))
            y = np.einsum("rpd,d->rp", A, PROBLEM.centers[i]) + NOISE * draw.standard_normal((RUNS, P))
            g[:, i] = np.einsum("rpd,rp->rd", A, np.einsum("rpd,rd->rp", A, w) - y)
            u[:, i] = w
        mean = g.mean(axis=1)
        square.append((mean**2).sum(axis=1))
        inner.append(((w - PROBLEM.optimum) * mean).sum(axis=1))
        apart.append(((w[:, None] - u) ** 2).sum(axis=2))
        w = w - 0.9 / (t + 8) * mean
    return np.array(square), np.array(inner), np.array(apart)


def within(truth, samples):
    """Five standard errors at fewer than 60 · 5 places: a false alarm in fewer than 300 · 6e-7 = 0.02 % of seeds."""
    se = samples.std(axis=1, ddof=1) / np.sqrt(RUNS)
    if samples.ndim == 2:
        return (np.abs(samples.mean(axis=1) - truth) <= np.maximum(5.0 * se, 1e-14)).all()
    # A largest mean is off by no more than the mean that is off most.
    return (np.abs(samples.mean(axis=1).max(axis=1) - truth) <= np.maximum(5.0 * se.max(axis=1), 1e-14)).all()


@pytest.mark.thorough
def test_the_left_sides_agree_with_sampled_runs():
    found = evaluate()
    square, inner, apart = (values[found.t] for values in sampled())
    assert len(found.t) > 50
    assert within(found.first.left, square)
    assert within(found.inner, inner)
    assert within(found.third.left, apart)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "activity", [TRACE, siag.activity.Cyclic(), siag.activity.Everyone(), siag.activity.Nonuniform(2, 5)]
)
def test_the_right_sides_are_those_of_the_paper(activity):
    found = evaluate(activity)
    T = {siag.activity.Cyclic: N - 1, siag.activity.Everyone: 0, siag.activity.Nonuniform: 4}.get(type(activity))
    T = activity.bound(N) if T is None else T
    E = siag.theory.exact_error(PROBLEM, siag.methods.SIAG(), activity, STEP, iterations=ITERATIONS, record=5000).error
    worst = max(((PROBLEM.centers.mean(axis=0) - center) ** 2).sum() for center in PROBLEM.centers)
    a, b = P * (D + 1), P * (D + 1) * worst + NOISE**2 * P * D
    sigma2 = (a + b + np.sqrt((a - b) ** 2 + 4 * a**2 * worst)) / 2  # the largest (a(r + √worst)² + …)/(1 + r²)
    mu = L = float(P)
    C_L = 20 * L**2 + 2 * sigma2 / N
    for k, t in enumerate(found.t):
        eta = 0.9 / (max(t - T, 0) + 8)
        near, far = E[max(t - T, 0) : t + 1].max(), E[max(t - 2 * T, 0) : t + 1].max()
        perturbation = (C_L * T * eta + (mu / 4 + 5 * L**2 / (2 * mu)) * C_L * T**2 * eta**2) * far
        perturbation += (2 * T * eta + (mu / 2 + 5 * L**2 / mu) * T**2 * eta**2) * sigma2 / N
        assert found.error[k] == pytest.approx(E[t], rel=1e-12)
        assert found.first.right[k] == pytest.approx(2 * sigma2 / N + C_L * near, rel=1e-12)
        assert found.second.right[k] == pytest.approx(perturbation, rel=1e-12)
        assert found.third.right[k] == pytest.approx(T**2 * eta**2 * (2 * sigma2 / N + C_L * far), rel=1e-12)


@pytest.mark.parametrize(
    "activity", [siag.activity.Uniform(15), siag.activity.Nonuniform(10, 20), siag.activity.Cyclic()]
)
@pytest.mark.parametrize("which", ["paper", "theorem"])
def test_the_lemmas_hold_along_runs(activity, which):
    problem = siag.problems.LeastSquares.random(n=8, d=20, p=10, noise=0.1, seed=1)
    mu, L, sigma2 = problem.constants()
    own = siag.steps.theorem(mu=mu, L=L, sigma2=sigma2, n=8, T=activity.bound(8), beta=0.5)
    step = siag.steps.Harmonic(0.2, 200) if which == "paper" else own
    found = evaluate(activity, problem, step, iterations=5000, record=300)
    for inequality in (found.first, found.second, found.third):
        assert inequality.holds, inequality.name
        assert len(inequality.left) == len(found.t) > 100
    # Lemma 2 as the paper writes it.
    assert (found.inner >= mu / 4 * found.error - found.second.right).all()


def test_an_inequality_that_fails_says_so_and_how_badly():
    wrong = siag.theory.Inequality("wrong", np.array([1.0, 3.0]), np.array([2.0, 2.0]))
    assert not wrong.holds
    assert wrong.slack == 1.5
    assert siag.theory.Inequality("equal", np.ones(2), np.ones(2)).holds


def test_iterations_before_all_have_reported_are_left_out():
    found = evaluate(siag.activity.Recorded([[0], [0, 1], [1], [2], [0], [1]]), iterations=6)
    assert found.t.tolist() == [3, 4, 5]


def test_an_activity_without_a_bound_is_refused_with_a_remedy():
    with pytest.raises(siag.Unsuitable, match=r"no bound on the age.*use Uniform or Cyclic"):
        evaluate(siag.activity.Bernoulli(0.5))


def test_a_method_without_a_table_is_refused_with_a_remedy():
    with pytest.raises(siag.Unsuitable, match=r"tables of the latest gradients.*use SIAG"):
        siag.theory.lemmas(PROBLEM, siag.methods.SGD(), siag.activity.Cyclic(), STEP, iterations=10)
