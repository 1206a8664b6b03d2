"""The guard: what it refuses and what it says, on its own."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siag.foundations.errors import BadInput, SiagError
from siag.server.guard import KNOWN_AFTER, Guard, Refused, square_norm

quick = settings(deadline=None, max_examples=100)
numbers = st.floats(-1e100, 1e100)


@quick
@given(version=st.integers(0, 1000), stamp=st.integers(-50, 1050), age=st.none() | st.integers(0, 1000))
def test_a_stamp_is_accepted_if_and_only_if_its_version_exists_and_is_young_enough(version, stamp, age):
    guard = Guard(age=age)
    good = 0 <= stamp <= version and (age is None or version - stamp <= age)
    if good:
        guard.check_stamp(stamp, version)
        return
    with pytest.raises(Refused, match=rf"(stamp {stamp}|age {version - stamp}):") as caught:
        guard.check_stamp(stamp, version)
    assert not caught.value.final


def test_a_worker_reads_anew_before_it_reports_again():
    Guard().check_stamp(7, 9, last=7)
    with pytest.raises(Refused, match="stamp 6: from before this worker's last report, at version 7; read w anew"):
        Guard().check_stamp(6, 9, last=7)


@pytest.mark.parametrize(
    ("sample", "words"),
    [(4, "has reported sample 4 already"), (0, "already"), (-1, "at least 0"), (2**60, "a whole number")],
)
def test_a_sample_is_reported_once_and_has_a_number_a_sample_can_have(sample, words):
    Guard().check_sample(5, drawn=5)
    Guard().check_sample(500, drawn=5)  # those between were lost on the way
    with pytest.raises(Refused, match=words):
        Guard().check_sample(sample, drawn=5)


@pytest.mark.parametrize("square", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused_by_any_guard(square):
    with pytest.raises(Refused, match="not finite"):
        Guard(jump=None).check_norm(square, 1.0, 0)


def test_a_norm_is_held_against_the_limit_and_then_against_the_workers_own_history():
    guard = Guard(norm=100.0, jump=10.0)
    assert guard.check_norm(100.0**2, largest=1.0, reports=0) == 100.0
    with pytest.raises(Refused, match="norm 101: at most 100 is allowed"):
        guard.check_norm(101.0**2, largest=1.0, reports=0)
    assert guard.check_norm(50.0**2, largest=1.0, reports=KNOWN_AFTER - 1) == 50.0
    assert guard.check_norm(10.0**2, largest=1.0, reports=KNOWN_AFTER) == 10.0
    with pytest.raises(Refused, match="norm 50: more than 10 times the largest of this worker so far, 1"):
        guard.check_norm(50.0**2, largest=1.0, reports=KNOWN_AFTER)
    assert Guard(jump=None).check_norm(1e60, largest=1.0, reports=1000) == 1e30


def test_an_infinite_jump_is_any_jump():
    assert Guard(jump=math.inf) == Guard(jump=None)
    assert Guard(jump=math.inf).check_norm(1e60, largest=1.0, reports=1000) == 1e30


def test_a_worker_that_has_sent_nothing_but_zeros_may_send_something_else():
    assert Guard(jump=10.0).check_norm(4.0, largest=0.0, reports=1000) == 2.0


@quick
@given(st.lists(numbers, min_size=0, max_size=40))
def test_the_square_of_the_norm_is_that_of_numpy_in_whatever_order_it_is_summed(values):
    message = np.array(values, float)
    exact = math.fsum(float(x) ** 2 for x in values)
    assert square_norm(message) == pytest.approx(exact, rel=1e-13)
    assert square_norm(message) == square_norm.plain(message)


@quick
@given(
    st.integers(1, 40).flatmap(lambda d: st.tuples(st.just(d), st.integers(0, d - 1))),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e200]),
)
def test_one_bad_number_anywhere_shows_in_the_norm(place, bad):
    d, k = place
    message = np.ones(d)
    message[k] = bad
    assert not math.isfinite(square_norm(message))


def test_a_refusal_is_an_error_of_this_package_with_a_reason():
    refusal = Refused("too late", final=True)
    assert isinstance(refusal, SiagError)
    assert (str(refusal), refusal.reason, refusal.final) == ("too late", "too late", True)
    assert not Refused("too late").final


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"age": -1}, "age = -1"),
        ({"age": 1.5}, "age = 1.5"),
        ({"norm": 0.0}, "norm = 0.0"),
        ({"norm": math.inf}, "norm = inf"),
        ({"jump": 1.0}, "jump = 1.0: must be a finite number above 1; or inf for any"),
        ({"jump": math.nan}, "jump = nan"),
        ({"jump": -math.inf}, "jump = -inf"),
        ({"jump": "big"}, "jump = 'big'"),
        ({"strikes": 0}, "strikes = 0"),
    ],
)
def test_a_guard_that_makes_no_sense_is_refused_by_name(settings, words):
    with pytest.raises(BadInput, match=words):
        Guard(**settings)
