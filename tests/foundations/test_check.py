"""Every refusal is one line with the parameter, the value and what is allowed."""

import decimal
import fractions
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siag.foundations import check
from siag.foundations.errors import BadFile, BadInput, SiagError, Unsuitable, shorten

quick = settings(deadline=None, max_examples=100)


def refusal(call):
    """The one line with which `call` is refused."""
    with pytest.raises(BadInput) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 300
    return message


@quick
@given(st.integers(), st.integers(-5, 5), st.integers(0, 10))
def test_whole_numbers_pass_exactly_within_their_range(value, low, width):
    high = low + width
    if low <= value <= high:
        assert check.integer("n", value, low=low, high=high) == value
    else:
        message = refusal(lambda: check.integer("n", value, low=low, high=high))
        assert message == f"n = {shorten(value)}: must be a whole number from {low} to {high}"


@quick
@given(st.integers(max_value=0))
def test_without_a_range_a_whole_number_is_at_least_one(value):
    assert refusal(lambda: check.integer("n", value)) == f"n = {shorten(value)}: must be a whole number of at least 1"


@pytest.mark.parametrize("value", [np.int64(3), np.uint8(3), np.array(3)])
def test_whole_numbers_of_numpy_become_plain_ones(value):
    assert check.integer("n", value) == 3
    assert type(check.integer("n", value)) is int


@pytest.mark.parametrize("value", [True, False, np.True_, 3.0, math.nan, math.inf, "3", None, [3], 3j, np.array([3])])
def test_what_is_no_whole_number_is_refused(value):
    assert refusal(lambda: check.integer("n", value)).startswith(f"n = {shorten(value)}: ")


@pytest.mark.parametrize("value", [3, np.array(3), [3, 4], (3, 4), np.array([3, 4])])
def test_a_whole_number_for_all_or_one_for_each_becomes_plain(value):
    found = check.integers("n", value)
    assert found in (3, (3, 4))
    assert type(found) is int or {type(each) for each in found} == {int}


@pytest.mark.parametrize(
    ("value", "place"),
    [(0, "n"), ([1, 0], "n[1]"), ([[1], 2], "n[0]"), ([], "n"), ("12", "n"), (np.array([1.5]), "n[0]")],
)
def test_what_is_no_whole_number_for_all_or_each_is_refused(value, place):
    assert refusal(lambda: check.integers("n", value)).startswith(f"{place} = ")


@pytest.mark.parametrize("value", [0, 1, 2**64 - 1])
def test_any_64_bit_number_is_a_seed(value):
    assert check.seed(value) == value


@pytest.mark.parametrize("value", [-1, 2**64, 0.5, True, None])
def test_a_seed_outside_64_bits_is_refused(value):
    assert refusal(lambda: check.seed(value)).endswith(f" from 0 to {2**64 - 1}")


def test_a_number_too_long_to_print_is_refused_like_any_other():
    assert refusal(lambda: check.seed(10**5000)).startswith("seed = ")


@quick
@given(st.floats(), st.floats(-10, 10), st.floats(-10, 10))
def test_reals_pass_exactly_within_their_limits(value, low, high):
    allowed = f"a finite number at least {low} and at most {high}"
    if math.isfinite(value) and low <= value <= high:
        assert check.real("x", value, low=low, high=high) == value
    else:
        message = refusal(lambda: check.real("x", value, low=low, high=high))
        assert message == f"x = {value!r}: must be {allowed}"


@quick
@given(st.floats(-10, 10))
def test_above_excludes_its_limit(limit):
    assert refusal(lambda: check.real("x", limit, above=limit)).endswith(f" above {limit}")
    beyond = math.nextafter(limit, math.inf)
    assert check.real("x", beyond, above=limit) == beyond


@pytest.mark.parametrize("value", [1, np.float32(1), np.int8(1), fractions.Fraction(1), decimal.Decimal(1)])
def test_reals_of_any_kind_become_plain_ones(value):
    assert check.real("x", value) == 1.0
    assert type(check.real("x", value)) is float


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, np.float64("nan"), True, np.False_, "1", b"1", None, 1j, [1.0], {}, 10**400],
    ids=shorten,
)
def test_what_is_no_finite_number_is_refused(value):
    assert refusal(lambda: check.real("x", value)) == f"x = {shorten(value)}: must be a finite number"


def test_a_remedy_ends_the_message():
    assert refusal(lambda: check.real("x", -1, low=0, remedy="try 0")).endswith("at least 0; try 0")


def test_a_choice_is_one_of_its_words():
    assert check.choice("mode", "a", ("a", "b")) == "a"
    for value in ("c", None, 1, ["a"], ""):
        assert refusal(lambda value=value: check.choice("mode", value, ("a", "b"))) == (
            f"mode = {value!r}: must be one of 'a', 'b'"
        )


def test_a_truth_is_true_or_false_only():
    assert check.truth("flag", True) is True
    assert check.truth("flag", False) is False
    for value in (0, 1, None, "True", np.True_):
        message = refusal(lambda value=value: check.truth("flag", value))
        assert message == f"flag = {value!r}: must be True or False"


@pytest.mark.parametrize(
    "value", [[[1, 2]], ((1.0, 2.0),), np.array([[1, 2]], np.int8), np.array([[1, 2]], np.float32)]
)
def test_arrays_become_contiguous_read_only_doubles(value):
    array = check.floats("a", value, (None, 2))
    assert array.dtype == np.float64
    assert array.tolist() == [[1.0, 2.0]]
    assert array.flags.c_contiguous
    assert not array.flags.writeable


def test_an_array_is_copied_so_that_later_changes_do_not_show():
    mine = np.zeros((2, 3))
    checked = check.floats("a", mine, (2, 3))
    mine[0, 0] = 1.0
    assert checked[0, 0] == 0.0
    assert mine.flags.writeable


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (np.zeros((2, 3)), "its shape is (2, 3)"),
        (np.zeros(2), "its shape is (2,)"),
        (np.zeros((0, 2)), "its shape is (0, 2)"),
        (1.0, "its shape is ()"),
        ([[1.0, math.nan]], "it holds NaN or infinity"),
        ([[1.0, -math.inf]], "it holds NaN or infinity"),
        ([[True, False]], "its dtype is bool, convert it to float64"),
        ([[1j, 2]], "its dtype is complex128, convert it to float64"),
        ([["1", "2"]], "its dtype is <U1, convert it to float64"),
        ([[None, 2]], "its dtype is object, convert it to float64"),
        ([[1, 2], [3]], "give all its rows the same length"),
    ],
)
def test_arrays_of_the_wrong_kind_are_refused_with_the_reason(value, hint):
    message = refusal(lambda: check.floats("a", value, (None, 2)))
    assert message.startswith(f"a = {shorten(value)}: must be an array of finite real numbers of shape (any × 2)")
    assert message.endswith(hint)


def test_bad_input_is_both_an_error_of_ours_and_a_value_error():
    error = BadInput("n", 0, "at least 1", "add a worker")
    assert isinstance(error, SiagError)
    assert isinstance(error, ValueError)
    assert (error.parameter, error.value, error.allowed, error.remedy) == ("n", 0, "at least 1", "add a worker")
    assert str(error) == "n = 0: must be at least 1; add a worker"


def test_bad_input_can_say_where_it_came_from():
    error = BadInput("beta", -1, "positive", "try 0.2").inside("step")
    assert str(error) == "step.beta = -1: must be positive; try 0.2"


@pytest.mark.parametrize("kind", [Unsuitable, BadFile])
def test_the_other_mistakes_of_users_are_value_errors_too(kind):
    assert issubclass(kind, SiagError)
    assert issubclass(kind, ValueError)


@quick
@given(st.text(max_size=200) | st.lists(st.integers(), max_size=60) | st.floats(), st.integers(2, 80))
def test_a_shortened_value_is_one_line_of_limited_length(value, limit):
    text = shorten(value, limit)
    assert len(text) <= limit
    assert len(text.splitlines()) <= 1
    whole = " ".join(repr(value).split())
    assert text == whole or (text.endswith("…") and whole.startswith(text[:-1]))


def test_a_large_array_in_a_message_stays_on_one_line():
    message = refusal(lambda: check.floats("w0", np.zeros((40, 40)), (3,)))
    assert re.match(r"w0 = array\(\[\[0\., .*…: must be an array", message)
