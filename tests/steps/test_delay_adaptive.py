"""Steps that follow ages: their formulas, the principle they keep, and what they refuse."""

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import siag
from siag.foundations.errors import BadInput, Unsuitable
from siag.steps import Constant, DelayAdaptive, Harmonic, heard, left, size

quick = settings(deadline=None, max_examples=80)
variants = st.sampled_from(["first", "second"])
reports = st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=120)


def readable(step, taus):
    """The formulas of the paper, given the ages; None where there is nothing to step along."""
    eta = []
    for t, tau in enumerate(taus):
        if tau is None or tau > step.horizon:
            eta.append(0.0)
            continue
        rest = max(step.gamma - math.fsum(eta[t - tau : t]), 0.0)
        share = step.gamma / (tau + 1)
        fits = share <= rest + 1e-9 * step.gamma
        eta.append(step.alpha * rest if step.variant == "first" else share if fits else 0.0)
    return eta


def followed(step, arrivals, n=4, late=()):
    """η_t and τ_t when in iteration t the workers arrivals[t] report, what they read `late` iterations before."""
    rule, stamps, eta, taus = step.rule(n), np.full(n, -1), [], []
    for t, workers in enumerate(arrivals):
        now = []
        for i in workers:
            stamp = max(stamps[i], t - (late[i] if late else 0), 0)
            heard(rule, i, stamp)
            stamps[i] = stamp
            now.append(t - stamp)
        eta.append(float(size(rule, t)))
        if step.ages == "arrivals":
            taus.append(int(max(now)) if now else None)
        else:
            taus.append(int(t - stamps.min()) if stamps.min() >= 0 else None)
    return np.array(eta), taus


@quick
@given(
    variant=variants,
    ages=st.sampled_from(["table", "arrivals"]),
    gamma=st.floats(1e-3, 1e3),
    alpha=st.floats(0.01, 1.0),
    horizon=st.integers(1, 60),
    arrivals=reports,
    late=st.tuples(*[st.integers(0, 20)] * 4),
)
def test_the_sizes_are_those_of_the_formulas(variant, ages, gamma, alpha, horizon, arrivals, late):
    step = DelayAdaptive(gamma, variant=variant, alpha=alpha, ages=ages, horizon=horizon)
    eta, taus = followed(step, arrivals, late=late)
    np.testing.assert_allclose(eta, readable(step, taus), rtol=1e-7, atol=1e-9 * gamma)


@quick
@given(variant=variants, alpha=st.floats(0.01, 1.0), gamma=st.floats(1e-6, 1e6), taus=st.lists(st.integers(0, 40)))
@example(variant="second", alpha=0.9, gamma=0.1, taus=list(range(40)) * 3)
def test_the_principle_holds_whatever_the_ages(variant, alpha, gamma, taus):
    step, rule, eta, before = DelayAdaptive(gamma, variant=variant, alpha=alpha), None, [], -1
    rule = step.rule(1)
    for t, drawn in enumerate(taus):
        tau = min(drawn, before + 1)  # gradients do not get older faster than time goes by
        before = tau
        heard(rule, 0, t - tau)
        window = math.fsum(eta[t - tau :])
        eta.append(float(size(rule, t)))
        assert 0.0 <= eta[t] <= max(0.0, gamma - window) * (1 + 1e-12) + 1e-12 * gamma
        assert math.fsum(eta[t - tau :]) <= gamma * (1 + 1e-12)


@pytest.mark.parametrize("variant", ["first", "second"])
def test_constant_ages_lead_to_the_constant_step_of_that_age(variant):
    gamma, tau = 0.3, 6
    rule, eta = DelayAdaptive(gamma, variant=variant).rule(1), []
    for t in range(5000):
        heard(rule, 0, max(t - tau, 0))
        eta.append(float(size(rule, t)))
    assert np.mean(eta[1000:]) == pytest.approx(gamma / (tau + 1), rel=0.05 if variant == "first" else 1e-9)


def test_a_sum_of_many_steps_stays_exact():
    """The second variant divides γ′ evenly: were the sums off by more than a share, steps would be left out."""
    step, gamma = DelayAdaptive(0.1, variant="second", horizon=5), 0.1
    sizes = siag.compiled(many)(step.rule(1), 1_000_000)
    assert sizes == pytest.approx(gamma / 4 * 1_000_000, rel=1e-5)


def many(rule, count):
    total = 0.0
    for t in range(count):
        heard(rule, 0, max(t - 3, 0))
        total += size(rule, t)
    return total


def test_nothing_moves_until_everybody_was_heard():
    eta, _ = followed(DelayAdaptive(1.0), [[0], [1, 2], [0], [3], [0]])
    assert eta[:3].tolist() == [0.0] * 3
    assert (eta[3:] > 0).all()


def test_a_worker_that_never_came_holds_nobody_up_once_it_has_left():
    rule = DelayAdaptive(1.0).rule(2)
    heard(rule, 0, 0)
    assert size(rule, 0) == 0.0
    left(rule, 1)
    assert size(rule, 1) > 0.0


def test_the_age_of_a_worker_that_has_left_no_longer_counts():
    rule, twin = DelayAdaptive(1.0).rule(2), DelayAdaptive(1.0).rule(2)
    for one in (rule, twin):
        heard(one, 0, 0)
        heard(one, 1, 0)
    left(rule, 1)
    eta = []
    for t in range(50):
        heard(rule, 0, t)
        heard(twin, 0, t)
        eta.append((float(size(rule, t)), float(size(twin, t))))
    assert eta[-1][0] == pytest.approx(0.9)
    assert eta[-1][1] < 1e-12  # it waits for the other


def test_a_worker_that_is_back_counts_again_with_what_it_read_long_ago():
    rule = DelayAdaptive(1.0).rule(2)
    for i in (0, 1):
        heard(rule, i, 0)
    left(rule, 1)
    for t in range(10):
        heard(rule, 0, t)
        assert size(rule, t) > 0.0
    heard(rule, 1, 2)
    heard(rule, 0, 10)
    assert size(rule, 10) == 0.0  # more than γ′ was used since
    heard(rule, 1, 11)
    heard(rule, 0, 11)
    assert size(rule, 11) == pytest.approx(0.9)


def test_nobody_left_means_no_step():
    rule = DelayAdaptive(1.0).rule(1)
    heard(rule, 0, 0)
    left(rule, 0)
    assert size(rule, 0) == 0.0


def test_beyond_the_horizon_the_step_is_zero_and_then_goes_on():
    step = DelayAdaptive(1.0, variant="second", horizon=3)
    rule = step.rule(1)
    heard(rule, 0, 0)
    assert [float(size(rule, t)) for t in range(6)] == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    heard(rule, 0, 6)
    assert size(rule, 6) == 1.0


def test_a_step_without_arrivals_is_none_if_they_are_used_once():
    rule = DelayAdaptive(1.0, ages="arrivals").rule(3)
    assert size(rule, 0) == 0.0
    heard(rule, 2, 1)
    assert size(rule, 1) == pytest.approx(0.9)
    assert size(rule, 2) == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gamma": 0.0}, r"^gamma = 0.0: must be a finite number above 0$"),
        ({"gamma": math.nan}, r"^gamma = nan: must be a finite number above 0$"),
        ({"alpha": 0.0}, r"^alpha = 0.0: must be a finite number above 0 and at most 1$"),
        ({"alpha": 1.1}, r"^alpha = 1.1: must be a finite number above 0 and at most 1$"),
        ({"variant": "third"}, r"^variant = 'third': must be one of 'first', 'second'$"),
        ({"ages": "rows"}, r"^ages = 'rows': must be one of 'table', 'arrivals'$"),
        ({"horizon": 0}, r"^horizon = 0: must be a whole number from 1"),
        ({"horizon": 1.5}, r"^horizon = 1.5: must be a whole number from 1"),
    ],
)
def test_nonsense_is_refused(arguments, message):
    with pytest.raises(BadInput, match=message):
        DelayAdaptive(**({"gamma": 1.0} | arguments))


def test_its_sizes_are_refused_with_what_works_instead():
    problem = siag.problems.LeastSquares.random(n=3, d=2, p=1, noise=0.1)
    with pytest.raises(Unsuitable, match=r"depends on the ages of reports.*use simulate or a live server"):
        siag.theory.exact_error(
            problem, siag.methods.SIAG(), siag.activity.Uniform(3), DelayAdaptive(0.1), iterations=10
        )


def test_steps_that_see_t_alone_have_no_rule():
    assert Constant(1.0).rule(3) is None
    assert Harmonic(1.0, 2.0).rule(3) is None


def test_it_says_what_it_is_and_cannot_be_changed():
    step = DelayAdaptive(1, variant="second")
    assert eval(repr(step)) == step
    assert [field.name for field in fields(step)] == ["gamma", "variant", "alpha", "ages", "horizon"]
    with pytest.raises(AttributeError):
        step.gamma = 2.0
