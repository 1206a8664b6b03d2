"""The sharp law, the speedup it states, and where SGD goes instead."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from siag.activity import Bernoulli, Cyclic, Everyone, Nonuniform, Recorded, Sequential, Uniform
from siag.theory import biased_optimum, exact_error, shares, sharp_law

STEP = siag.steps.Harmonic(0.2, 200)
LONG = 60_000


def drawn(n, seed=0):
    """The paper's problem: d = 20, p = 10, σ = 0.1."""
    return siag.problems.LeastSquares.random(n=n, d=20, p=10, noise=0.1, seed=seed)


def exact(problem, activity, iterations=LONG, method=None, **options):
    return exact_error(problem, method or siag.methods.SIAG(), activity, STEP, iterations=iterations, **options)


@pytest.mark.parametrize("activity", [Uniform(15), Nonuniform(10, 20)])
def test_the_law_of_a_pattern_is_its_exact_error_to_two_percent(activity):
    problem, pattern = drawn(20), Recorded.of(activity, 20, LONG, seed=1)
    assert exact(problem, pattern).error[-1] == pytest.approx(sharp_law(problem, pattern, STEP)(LONG), rel=0.02)


@pytest.mark.parametrize("activity", [Cyclic(), Everyone(), Bernoulli(0.3), Bernoulli(np.linspace(0.2, 0.9, 8))])
def test_the_law_of_an_activity_is_its_exact_error_to_two_percent(activity):
    problem = drawn(8)
    assert exact(problem, activity, seed=1).error[-1] == pytest.approx(
        sharp_law(problem, activity, STEP)(LONG), rel=0.02
    )


@pytest.mark.parametrize("rates", [(0.1, 0.5, 0.9), (0.9, 0.5, 0.1)])
def test_the_law_weighs_each_workers_noise_with_its_own_staleness(rates):
    # Worker 0 is far from the others and so the noisiest: that it is slow, or fast, makes the difference.
    problem = siag.problems.LeastSquares(np.array([[5.0, 5.0], [0.0, 0.0], [1.0, 0.0]]), p=10, noise=0.1)
    pattern = Recorded.of(Bernoulli(rates), 3, LONG, seed=1)
    assert exact(problem, pattern).error[-1] == pytest.approx(sharp_law(problem, pattern, STEP)(LONG), rel=0.02)


def bursts(n, on, day, iterations):
    """Worker i is active in the first `on` of every `day` iterations, the workers one after the other."""
    return Recorded([[i for i in range(n) if (t - i * day // n) % day < on] for t in range(iterations)])


@pytest.mark.few(6)
@pytest.mark.parametrize("average", [2, 8, 64])
@pytest.mark.parametrize(
    "activity", [Uniform(15), Nonuniform(10, 20), Bernoulli(0.3), Sequential(), Cyclic(), bursts(20, 5, 50, LONG)]
)
def test_the_law_of_rows_that_average_is_their_exact_error_to_two_percent(activity, average):
    problem = drawn(20)
    pattern = activity if isinstance(activity, Recorded) else Recorded.of(activity, 20, LONG, seed=1)
    error = exact(problem, pattern, method=siag.methods.SIAG(average=average)).error[-1]
    assert error == pytest.approx(sharp_law(problem, pattern, STEP, average=average)(LONG), rel=0.02)


def test_averages_take_away_what_irregular_gaps_cost_and_no_more():
    # κ_i = E[G](1 + CV²/(2m − 1)): half remains of geometric gaps, a quarter goes of uniform ones, turns stay.
    for activity, first, last in ((Bernoulli(0.01), 199, 100), (Uniform(99), 199 / 3, 50), (Cyclic(), 8, 8)):
        assert sharp_law(drawn(8), activity, STEP).kappa == pytest.approx(first)
        assert sharp_law(drawn(8), activity, STEP, average=10**6).kappa == pytest.approx(last, rel=1e-5)
    assert Bernoulli(0.5).kappa(8, average=3) == pytest.approx(2 * (1 + 0.5 / 5))


def test_until_all_have_reported_many_times_m_the_error_may_be_a_hundred_times_larger():
    """Cyclic n = 200: a hundred reports a worker are many times 4, but not many times 64."""
    problem, step = drawn(200), siag.steps.Harmonic(0.2, 2000)
    one, four, sixtyfour = (
        exact_error(problem, siag.methods.SIAG(average=m), Cyclic(), step, iterations=20_000) for m in (1, 4, 64)
    )
    assert four.error[-1] == pytest.approx(sharp_law(problem, Cyclic(), step)(20_000), rel=0.1)
    assert sixtyfour.error[-1] > 100 * one.error[-1]
    assert sixtyfour.bias[-1] > 0.9 * sixtyfour.error[-1]  # w has not forgotten where it came from


@pytest.mark.parametrize("average", [0, 1.5, True, 2**31 + 1])
def test_an_average_that_is_no_number_of_reports_is_refused(average):
    for activity in (Uniform(3), Nonuniform(2, 3), Recorded.of(Cyclic(), 8, 32)):
        with pytest.raises(siag.BadInput, match=r"^average = "):
            sharp_law(drawn(8), activity, STEP, average=average)


@pytest.mark.parametrize(
    ("activity", "kappa"),
    [
        (Everyone(), 1),
        (Cyclic(), 8),
        (Sequential(), 15),
        (Uniform(1), 1),
        (Uniform(15), 31 / 3),
        (Nonuniform(10, 20), 31 / 3),
        (Bernoulli(0.5), 3),
        (Bernoulli(1.0), 1),
        (Recorded([[*range(8)], [], []] * 4), 3),
    ],
)
def test_kappa_has_its_known_values(activity, kappa):
    law = sharp_law(drawn(8), activity, STEP)
    assert law.kappa == pytest.approx(kappa)
    assert activity.kappa(8) == pytest.approx(kappa)


def test_the_constant_is_the_formula():
    problem = drawn(8)
    law = sharp_law(problem, Cyclic(), STEP)
    spread = ((problem.optimum - problem.centers) ** 2).sum(axis=1)
    noise = (10 * 21 * spread + 0.01 * 10 * 20).mean()
    assert law.constant == pytest.approx(0.04 / (2 * 0.2 * 10 - 1) * noise * 8 / 8)
    assert law(800) == pytest.approx(law.constant / 1000)
    assert law(np.array([0, 800])).shape == (2,)


def test_the_error_falls_as_one_over_t():
    curve = exact(drawn(20), Uniform(15), repeats=4)
    late = curve.t > 3000
    slope = np.polyfit(np.log(curve.t[late] + STEP.gamma), np.log(curve.error[late]), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.03)


def test_the_error_is_linear_in_kappa():
    problem = drawn(20)
    lengths = (3, 7, 15, 25)
    errors = [exact(problem, Uniform(T), repeats=2).error[-1] for T in lengths]
    kappa = [Uniform(T).kappa(20) for T in lengths]
    assert np.polyfit(np.log(kappa), np.log(errors), 1)[0] == pytest.approx(1.0, abs=0.03)


def scaled(activity, n, draws=5):
    """E at 20 000 iterations, mean over problem draws."""
    return np.mean([exact(drawn(n, seed), activity, 20_000, seed=seed).error[-1] for seed in range(draws)])


@pytest.mark.thorough
@pytest.mark.parametrize("activity", [Uniform(15), Nonuniform(10, 20)])
def test_speedup_is_linear_when_workers_report_often_enough(activity):
    sizes = (20, 40, 80, 160)
    errors = np.array([scaled(activity, n) for n in sizes])
    flat = errors * sizes
    assert flat.max() / flat.min() < 1.1
    assert ((flat > 0.00225) & (flat < 0.00245)).all()
    assert np.polyfit(np.log(sizes), np.log(errors), 1)[0] == pytest.approx(-1.0, abs=0.05)


def test_there_is_no_speedup_when_workers_take_turns():
    errors = [scaled(Cyclic(), n, draws=3) for n in (20, 40, 80, 160)]
    assert max(errors) / min(errors) < 1.1


def test_the_law_is_refused_where_it_is_not_known():
    logistic = siag.problems.LogisticRegression.random(n=3, d=2, m=5)
    with pytest.raises(siag.Unsuitable, match="LogisticRegression"):
        sharp_law(logistic, Cyclic(), STEP)
    switched = siag.steps.Switched(STEP, 10, siag.steps.Constant(0.1))
    with pytest.raises(siag.Unsuitable, match="needs a Harmonic or a Constant step, not Switched"):
        sharp_law(drawn(3), Cyclic(), switched)


@pytest.mark.parametrize("beta", [0.05, 0.01])
def test_a_beta_too_small_for_the_law_is_refused_by_name(beta):
    with pytest.raises(siag.BadInput, match=r"^beta = .*above 1/\(2 mu\) = 0.05"):
        sharp_law(drawn(3), Cyclic(), siag.steps.Harmonic(beta, 200))


def test_a_trace_in_which_a_worker_hardly_reports_is_refused():
    with pytest.raises(siag.Unsuitable, match=r"worker 1 .*record more iterations"):
        sharp_law(drawn(2), Recorded([[0, 1], [0], [0]]), STEP)


@pytest.mark.parametrize(("normalization", "beta"), [("mean", 0.2), ("sum", 2.0)])
def test_sgd_settles_at_the_optimum_of_the_wrong_weights(normalization, beta):
    problem = drawn(20, seed=3)
    pattern = Recorded.of(Nonuniform(2, 20), 20, LONG, seed=1)
    method, step = siag.methods.SGD(normalization=normalization), siag.steps.Harmonic(beta, 200)
    bias = exact_error(problem, method, pattern, step, iterations=LONG).bias[-1]
    aim = biased_optimum(problem, pattern, normalization)
    away = ((aim - problem.optimum) ** 2).sum()
    assert away > 1e-3
    assert bias == pytest.approx(away, rel=0.05)


def test_the_plateau_of_sgd_is_tens_of_times_above_siag():
    problem = drawn(20, seed=2)
    ends = [
        exact(problem, Nonuniform(10, 20), 20_000, method, repeats=5).error[-1] for method in (siag.methods.SGD(), None)
    ]
    assert 15 < ends[0] / ends[1] < 80


def test_shares_count_a_report_among_k_as_one_kth():
    trace = Recorded([[0, 1], [0], [], [1], [0, 1, 2]])
    np.testing.assert_allclose(shares(trace, 3), np.array([1 / 2 + 1 + 1 / 3, 1 / 2 + 1 + 1 / 3, 1 / 3]) / 4)
    np.testing.assert_allclose(shares(trace, 3, "sum"), np.array([3, 3, 1]) / 7)


@settings(deadline=None, max_examples=50)
@given(trace=st.lists(st.sets(st.integers(0, 4)), min_size=1, max_size=30).filter(any))
def test_shares_add_up_to_one(trace):
    recorded = Recorded([sorted(active) for active in trace])
    for normalization in ("mean", "sum"):
        assert shares(recorded, 5, normalization).sum() == pytest.approx(1.0)


def test_equal_shares_mean_no_bias():
    problem, fair = drawn(5), Recorded([[0, 1, 2, 3, 4]] * 3)
    np.testing.assert_allclose(biased_optimum(problem, fair), problem.optimum)


@settings(deadline=None, max_examples=100)
@given(
    n=st.integers(1, 6),
    d=st.integers(1, 5),
    p=st.integers(1, 5),
    noise=st.floats(0, 3),
    distance=st.floats(0, 1e3),
    seed=st.integers(0, 1000),
)
def test_assumption_2_holds_with_the_constants_of_least_squares(n, d, p, noise, distance, seed):
    problem = siag.problems.LeastSquares.random(n=n, d=d, p=p, noise=noise, seed=seed)
    mu, L, sigma2 = problem.constants()
    assert mu == L == p
    direction = np.random.default_rng(seed + 1).standard_normal(d)
    w = problem.optimum + distance * direction / np.linalg.norm(direction)
    noise_there = problem.noise_at(w)
    assert (noise_there <= sigma2 * (1 + distance**2) * (1 + 1e-9)).all()
    e = w - problem.centers
    np.testing.assert_allclose(noise_there, p * (d + 1) * (e**2).sum(axis=1) + noise**2 * p * d, rtol=1e-9)
