"""The claims of AsyncSGD, DuDe and ACE hold; and each fails where it should."""

import numpy as np
import pytest

from siag.activity import Clock, Exponential
from siag.experiments.claims import verdict
from siag.experiments.claims.arrivals import NOISY, PLAIN, ace, async_sgd, dude, mean_weight
from siag.methods.async_sgd import AsyncSGD
from siag.methods.iag import IAG
from siag.methods.sgd import SGD


@pytest.mark.parametrize(("claims", "ours"), [(async_sgd, 2), (dude, 0), (ace, 0)])
def test_every_claim_holds(claims, ours):
    found = claims()
    for claim in found:
        assert claim.holds, claim
    theirs = len(found) - ours
    assert verdict(found) == f"reaches ({theirs} of {theirs})"  # predictions of our own do not count


def verdicts(claims):
    return [claim.holds for claim in claims]


def test_with_noise_a_constant_step_does_not_converge_and_without_bias_there_is_none():
    shared, _, _, biased, _ = verdicts(async_sgd(plain=NOISY))
    assert not shared
    assert biased  # noise leaves the mean where it is
    *_, biased, damped = verdicts(async_sgd(plain=IAG(), adaptive=IAG()))
    assert not biased
    assert not damped


def test_without_noise_there_is_no_law_of_the_noise():
    assert not verdicts(async_sgd(noisy=PLAIN))[1]


def test_constant_steps_let_old_gradients_through():
    _, _, old, _, damped = verdicts(async_sgd(adaptive=PLAIN))
    assert not old
    assert not damped


def test_a_method_that_forgets_is_biased_with_exact_and_with_stochastic_gradients():
    assert verdicts(dude(method=PLAIN, noisy=AsyncSGD())) == [False, False]
    assert verdicts(dude(noisy=SGD())) == [True, False]
    assert verdicts(ace(method=PLAIN)) == [False, False]


def test_a_method_with_a_table_has_no_bias_that_could_grow():
    assert verdicts(ace(plain=IAG())) == [True, False]


def test_the_mean_weight_is_that_of_a_clocks_ages():
    slowness = np.linspace(1.0, 10.0, 10)
    shares = (1 / slowness) / (1 / slowness).sum()
    weights = [[] for _ in range(10)]
    clock = Clock(Exponential(1.0), slowness=slowness.tolist())
    for chunk in clock.events(10, 40_000, 0, 0, 1):
        reports = (chunk.code >= 0) & (chunk.code < 10)
        for i, age in zip(chunk.code[reports], chunk.age[reports], strict=True):
            weights[i].append(min(1.0, 10 / max(age, 1)))
    expected = mean_weight(shares)
    for own, mean in zip(weights, expected, strict=True):
        # 5 standard errors, ten times: less than once in 100 000 by chance.
        assert abs(np.mean(own) - mean) < 5 * np.std(own) / np.sqrt(len(own)) + 1e-12
