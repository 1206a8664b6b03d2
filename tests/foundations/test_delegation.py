"""Delegated verbs: a tuple without a meaning of its own passes them on to the field that has one, compiled or not."""

from typing import NamedTuple

import numpy as np
import pytest

from siag.foundations.dispatch import compiled, delegated_verb, optional_verb
from siag.foundations.errors import SiagError


class Tank(NamedTuple):
    level: np.ndarray


class Wall(NamedTuple):
    height: float


class Shed(NamedTuple):
    wall: Wall
    tank: Tank


class Yard(NamedTuple):
    shed: Shed
    size: float


class Row(NamedTuple):
    tanks: tuple


class Twins(NamedTuple):
    one: Tank
    two: Tank


class Farm(NamedTuple):
    yard: Yard
    tank: Tank


class Deaf(NamedTuple):
    tank: Tank


@delegated_verb
def drain(thing, factor):
    """Let some of it out; by default there is nothing to let out."""
    return -1.0


@drain.when(Tank)
def drain_tank(thing, factor):
    thing.level[0] *= factor
    return thing.level[0]


@drain.when(Deaf)
def refuse(thing, factor):
    return 0.0


@optional_verb
def fill(thing, factor):
    """By default nothing."""
    return -1.0


@fill.when(Tank)
def fill_tank(thing, factor):
    return 1.0


@compiled
def drain_compiled(thing, factor):
    return drain(thing, factor)


def tank():
    return Tank(np.array([8.0]))


either = pytest.mark.parametrize("call", [drain, drain_compiled], ids=["plain", "compiled"])


@either
@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        pytest.param(Shed(Wall(1.0), tank()), 4.0, id="its field"),
        pytest.param(Yard(Shed(Wall(1.0), tank()), 2.0), 4.0, id="a field of its field"),
        pytest.param(Row((Wall(1.0), tank())), 4.0, id="one in a plain tuple"),
        pytest.param(Deaf(tank()), 0.0, id="a meaning of its own comes first"),
        pytest.param(Wall(1.0), -1.0, id="nobody answers: the default"),
    ],
)
def test_it_is_the_one_that_has_a_meaning_who_answers(call, thing, expected):
    fresh = type(thing)._make(thing)
    assert call(fresh, 0.5) == expected
    if expected == 4.0:
        assert call(fresh, 2.0) == 8.0  # it was the very array, and is as before


@either
@pytest.mark.parametrize(
    ("thing", "fields"),
    [
        (Twins(tank(), tank()), "one and two"),
        (Farm(Yard(Shed(Wall(1.0), tank()), 1.0), tank()), "yard.shed.tank and tank"),
        (Row((tank(), tank())), r"tanks\[0\] and tanks\[1\]"),
    ],
)
def test_if_two_fields_could_answer_it_is_an_error_that_names_them(call, thing, fields):
    kind = type(thing).__name__
    with pytest.raises(SiagError, match=rf"^`drain` is ambiguous for `{kind}`: {fields} .*@drain\.when\({kind}\)$"):
        call(thing, 0.5)


def test_an_ordinary_optional_verb_is_not_passed_on():
    assert fill(Shed(Wall(1.0), tank()), 1.0) == -1.0


def test_a_verb_reaches_those_with_a_meaning_and_those_that_hold_one():
    assert drain.reaches(tank())
    assert drain.reaches(Yard(Shed(Wall(1.0), tank()), 2.0))
    assert not drain.reaches(Wall(1.0))
    assert not fill.reaches(Shed(Wall(1.0), tank()))


def test_a_field_in_use_cannot_be_given_another_meaning_behind_compiled_code():
    class Lid(NamedTuple):
        weight: float

    class Pot(NamedTuple):
        lid: Lid

    assert drain_compiled(Pot(Lid(1.0)), 1.0) == -1.0
    with pytest.raises(SiagError, match="drain has been compiled for Lid already"):
        drain.when(Lid)(refuse)
