"""Verbs and compiled functions: one definition, two lives."""

from typing import NamedTuple

import numpy as np
import pytest

from siag.foundations.dispatch import compiled, part, verb
from siag.foundations.errors import SiagError
from siag.foundations.types import Floats

SCALE = 3.0


class Circle(NamedTuple):
    radius: float


class Square(NamedTuple):
    side: float


class Stranger(NamedTuple):
    name: int


class Several(NamedTuple):
    first: Circle
    second: Square


@verb
def size(shape, out):
    """Write the area of a shape."""


@size.when(Circle)
def size_of_circle(shape: Circle, out: Floats) -> None:
    out[0] = SCALE * shape.radius * shape.radius


@size.when(Square)
def size_of_square(shape: Square, out: Floats) -> None:
    out[0] = shape.side * shape.side


@compiled
def twice(x):
    return 2.0 * x


@compiled
def twice_the_size(shape, out):
    size(shape, out)
    return twice(out[0])


@compiled
def sum_of_both(several, out):
    size(several.first, out)
    total = out[0]
    size(several.second, out)
    return total + out[0]


@pytest.mark.parametrize(("shape", "expected"), [(Circle(2.0), 24.0), (Square(2.0), 8.0)])
def test_a_verb_means_what_the_type_of_its_first_argument_says(shape, expected):
    assert twice_the_size(shape, np.empty(1)) == expected
    assert twice_the_size.plain(shape, np.empty(1)) == expected


def test_called_from_python_a_verb_runs_its_meaning_as_it_is():
    out = np.empty(1)
    size(Circle(1.0), out)
    assert out[0] == 3.0
    assert size.meaning(Circle) is size_of_circle
    assert size.knows(Square)
    assert not size.knows(Stranger)


def test_verbs_are_resolved_within_nested_tuples():
    several = Several(Circle(1.0), Square(2.0))
    assert sum_of_both(several, np.empty(1)) == 7.0
    assert sum_of_both.plain(several, np.empty(1)) == 7.0


def test_compiled_and_plain_agree_bit_for_bit():
    for x in np.random.default_rng(0).standard_normal(100):
        assert twice_the_size(Circle(x), np.empty(1)) == twice_the_size.plain(Circle(x), np.empty(1))


def test_a_verb_without_a_meaning_says_what_to_write():
    with pytest.raises(SiagError) as caught:
        size(Stranger(1), np.empty(1))
    assert str(caught.value) == "`size` is not defined for `Stranger`; write one: @size.when(Stranger)"


def test_names_and_docstrings_survive():
    assert (size.__name__, size.__doc__) == ("size", "Write the area of a shape.")
    assert twice.__name__ == "twice"


def test_a_meaning_can_be_replaced_until_it_is_compiled_and_not_after():
    class Local(NamedTuple):
        x: float

    @size.when(Local)
    def wrong(shape, out):
        out[0] = -1.0

    @size.when(Local)
    def right(shape, out):
        out[0] = shape.x

    assert twice_the_size(Local(4.0), np.empty(1)) == 8.0
    with pytest.raises(SiagError, match=r"size has been compiled for Local already; define the class Local anew"):
        size.when(Local)(wrong)
    assert twice_the_size(Local(4.0), np.empty(1)) == 8.0


def test_a_class_defined_anew_gets_its_new_meaning_at_once():
    results = []
    for factor in (1.0, 10.0):

        class Again(NamedTuple):
            x: float

        @size.when(Again)
        def scaled(shape, out, factor=factor):
            out[0] = factor * shape.x

        results.append(twice_the_size(Again(1.0), np.empty(1)))
    assert results == [2.0, 20.0]


def test_compiled_functions_take_keywords_and_defaults():
    @compiled
    def power(x, exponent=2):
        return x**exponent

    assert power(3.0) == power.plain(3.0) == 9.0
    assert power(3.0, exponent=3) == 27.0


def test_a_function_made_in_a_function_keeps_what_it_closes_over():
    def by(factor):
        @compiled
        def scaled(x):
            return factor * x

        return scaled

    assert [by(factor)(2.0) for factor in (3.0, 5.0)] == [6.0, 10.0]


def test_a_part_is_inlined_in_compiled_code_and_plain_elsewhere():
    @part
    def twice(x):
        return 2.0 * x

    @compiled
    def four_times(x):
        return twice(twice(x))

    assert four_times(1.5) == four_times.plain(1.5) == 6.0
    assert twice(3) == 6.0
    assert not twice._for  # it was never compiled by itself


def test_parts_of_compiled_code_become_no_machine_code_of_their_own():
    from numba.core.codegen import JITCodeLibrary

    made = []
    finalize = JITCodeLibrary._finalize_specific

    def counted(library):
        made.append(library.name)
        finalize(library)

    @part
    def double(x):
        return 2.0 * x

    @compiled
    def doubled_twice(x):
        return double(double(x))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(JITCodeLibrary, "_finalize_specific", counted)
        assert doubled_twice(3.0) == 12.0
    assert [name for name in made if "doubled_twice" in name]
    assert not [name for name in made if name.endswith("double")]
