"""Clipped: no message is longer than the threshold, and nothing else changes."""

import numpy as np
import pytest

from drawn import Drawn, some_reports
from plain import conform, simulate
from refusals import refused
from siag.activity import Recorded
from siag.foundations.errors import Unsuitable
from siag.methods import (
    ADPSGD,
    EF21,
    SCAFFOLD,
    SGD,
    SIAG,
    Adam,
    AsyncSGD,
    Automatic,
    Averaged,
    Clipped,
    CurvatureIAG,
    FedAsync,
    FedAvg,
    Momentum,
    Prox,
    Scaffnew,
    advance,
    receive,
)
from siag.problems import Ridge
from siag.steps import Constant

N, D, T = 5, 3, 60
RIDGE = Ridge.random(n=N, d=D, m=6, tilt=0.5, regularization=0.1, seed=2)
TRACE = some_reports(N, T, seed=1)
LOCAL = {"steps": 2, "size": 0.1}


def clip(gradient, norm):
    return gradient * min(1.0, norm / np.linalg.norm(gradient))


@pytest.mark.parametrize("norm", [0.05, 0.5])
def test_around_sgd_it_is_clipped_sgd(norm):
    drawn, w = Drawn(RIDGE, 4), np.zeros(D)
    for active in TRACE:
        if active:
            w = w - 0.1 * np.mean([clip(*drawn.at(i, w), norm) for i in active], axis=0)
    run = simulate(RIDGE, Clipped(SGD(), norm=norm), Recorded(TRACE), Constant(0.1), iterations=T, seed=4)
    np.testing.assert_allclose(run.w[0], w, rtol=0, atol=1e-9)


def test_around_siag_with_momentum_the_rows_are_clipped():
    drawn, rows, w = Drawn(RIDGE, 4), np.zeros((N, D)), np.zeros(D)
    before = w
    for active in TRACE:
        for i in active:
            rows[i] = clip(*drawn.at(i, w), 0.3)
        if rows.any():
            w, before = w - 0.1 * rows.mean(axis=0) + 0.5 * (w - before), w
    method = Momentum(Clipped(SIAG(), norm=0.3), beta=0.5)
    run = simulate(RIDGE, method, Recorded(TRACE), Constant(0.1), iterations=T, seed=4)
    np.testing.assert_allclose(run.w[0], w, rtol=0, atol=1e-9)


def test_with_a_large_threshold_it_conforms_in_all_respects():
    conform(Clipped(SIAG(), norm=1e6))


def test_with_a_small_one_it_conforms():
    clips = ["all_active_is_gradient_descent", "same_seed_same_run", "compiled_is_plain"]
    conform(Clipped(AsyncSGD(), norm=0.1), skip=clips)


def test_what_is_shorter_stays_to_the_bit_and_what_is_no_number_stays_none():
    for message in (np.array([0.1, -0.2]), np.array([np.nan, 1.0]), np.array([np.inf, 1.0])):
        one, two = Clipped(SGD(), norm=1.0).init(np.zeros(2), 1), SGD().init(np.zeros(2), 1)
        for state in (one, two):
            with np.errstate(invalid="ignore"):
                receive(state, 0, message, 0)
                advance(state, 0.1)
        if np.isfinite(message).all():
            assert np.array_equal(one.w, two.w)
        else:
            assert np.isnan(one.w).any()


@pytest.mark.parametrize("norm", [0.0, -1.0, float("nan"), float("inf"), "1"])
def test_a_threshold_that_is_none_is_refused(norm):
    with refused("norm"):
        Clipped(SIAG(), norm=norm)


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        (Clipped(SIAG(), norm=1.0), "leave the larger norm out"),
        (Momentum(SIAG()), r"clipping comes first: write Momentum\(Clipped\(…\), …\)"),
        (Adam(SIAG()), r"clipping comes first: write Adam\(Clipped\(…\), …\)"),
        (Prox(SIAG()), r"clipping comes first: write Prox\(Clipped\(…\), …\)"),
        (Averaged(SIAG()), r"clipping comes first: write Averaged\(Clipped\(…\), …\)"),
        (SCAFFOLD(**LOCAL), r"use Clipped\(FedAvg\(…\)\)"),
        (FedAsync(**LOCAL), r"use Clipped\(FedBuff\(…\)\)"),
        (Scaffnew(p=0.5, size=0.1), r"use Clipped\(FedAvg\(…\)\)"),
        (CurvatureIAG(), r"use Clipped\(IAG\(\)\)"),
        (Automatic(), r"use Clipped\(SIAG\(\)\) and a step"),
        (ADPSGD(), r"use Clipped\(AsyncSGD\(\)\)"),
        (EF21(k=2), r"use Clipped\(SIAG\(\)\)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_it_cannot_go_around_is_refused_in_a_line_with_the_remedy(inner, words):
    with pytest.raises(Unsuitable, match=f"^Clipped cannot follow .*{words}") as found:
        Clipped(inner, norm=1.0)
    assert "\n" not in str(found.value)


class Wordy(SGD):
    """Sends a number more than a gradient."""

    def message(self, d, n):
        return d + 1


def test_a_users_method_whose_messages_are_more_than_a_gradient_is_refused():
    with pytest.raises(Unsuitable, match="its messages are more than a gradient"):
        Clipped(Wordy(), norm=1.0)


def test_it_needs_whole_messages_and_is_not_split():
    assert SIAG().split
    assert not Clipped(SIAG(), norm=1.0).split
    assert not Clipped(FedAvg(**LOCAL), norm=1.0).split
