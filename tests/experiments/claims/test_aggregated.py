"""The claims of IAG, PIAG, delay-adaptive steps and averaging hold, and would not hold of something else."""

import math

import numpy as np
import pytest

from siag.experiments.claims.aggregated import averaged, delay_adaptive, iag, minimiser, piag
from siag.methods import IAG, SGD, SIAG
from siag.methods.averaged import Averaged
from siag.methods.piag import PIAG
from siag.problems.ridge import Ridge
from siag.steps import Constant, DelayAdaptive, Harmonic


@pytest.mark.parametrize("claims", [iag, piag, delay_adaptive, averaged])
def test_it_holds(claims):
    found = claims()
    assert found
    for claim in found:
        assert claim.holds, claim


@pytest.mark.parametrize("method", [SIAG, SGD])
def test_stochastic_gradients_do_not_converge_linearly_at_a_constant_step(method):
    assert [claim.holds for claim in iag(method=method)] == [False, False]


def test_a_diminishing_step_does_not_converge_linearly():
    assert [claim.holds for claim in iag(step=lambda eta: Harmonic(20 * eta, 20.0))] == [False, False]


def test_without_the_proximal_step_none_of_piags_claims_holds():
    assert [claim.holds for claim in piag(method=lambda **terms: IAG())] == [False, False, False]


def test_with_another_weight_or_box_none_of_piags_claims_holds():
    def weaker(**terms):
        return PIAG(**{name: 0.1 * value for name, value in terms.items()})

    assert [claim.holds for claim in piag(method=weaker)] == [False, False, False]


def test_a_bold_constant_step_neither_bears_bursts_nor_keeps_to_the_principle():
    _, bursts, principle = delay_adaptive(step=lambda gamma, variant: Constant(gamma))
    assert not bursts.holds
    assert not principle.holds


def test_a_cautious_constant_step_is_not_fast_after_a_silence():
    silence, _, _ = delay_adaptive(step=lambda gamma, variant: Constant(gamma / 502))
    assert not silence.holds


class Newest(DelayAdaptive):
    """Steps that see the age of what has just come, not of the oldest row."""

    def rule(self, n):
        return DelayAdaptive(self.gamma, variant=self.variant, ages="arrivals").rule(n)


def test_adaptive_steps_that_see_the_newest_age_alone_break_the_principle():
    _, _, principle = delay_adaptive(step=lambda gamma, variant: Newest(gamma, variant=variant))
    assert not principle.holds


@pytest.mark.parametrize(
    "other",
    [lambda method, start: method, lambda method, start: Averaged(method, start=1990)],
    ids=["the last iterate", "the mean of the last ten"],
)
def test_the_claims_of_the_mean_do_not_hold_of(other):
    assert [claim.holds for claim in averaged(around=other)] == [False, False]


@pytest.mark.parametrize("terms", [{"l1": 0.2}, {"low": -0.1, "high": 0.3}, {"l1": 0.1, "low": 0.0}], ids=repr)
def test_the_minimiser_is_stationary(terms):
    problem = Ridge.random(n=4, d=6, m=10, spread=0.3, tilt=0.3, seed=1)
    w = minimiser(problem, **terms)
    points, targets = problem.features.reshape(-1, 6), problem.targets.reshape(-1)
    slope = points.T @ (points @ w - targets) / len(points)
    l1, low, high = terms.get("l1", 0.0), terms.get("low", -math.inf), terms.get("high", math.inf)
    moved = w - 0.1 * slope
    moved = np.clip(np.sign(moved) * np.maximum(np.abs(moved) - 0.1 * l1, 0.0), low, high)
    np.testing.assert_allclose(moved, w, atol=1e-12)
