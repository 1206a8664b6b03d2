"""Verbs that may go without a meaning: they do what they say by default, plain and compiled."""

from typing import NamedTuple

import numpy as np
import pytest

from siag.foundations.dispatch import compiled, optional_verb, verb
from siag.foundations.errors import SiagError


class Loud(NamedTuple):
    volume: np.ndarray


class Quiet(NamedTuple):
    volume: np.ndarray


class Pair(NamedTuple):
    one: Loud
    two: Quiet


@optional_verb
def hush(state, factor):
    """Make it less loud; nothing to do for what makes no sound."""


@hush.when(Loud)
def turn_down(state, factor):
    state.volume[0] *= factor


@optional_verb
def answer(state):
    """By default 42."""
    return 42.0


@answer.when(Loud)
def shout(state):
    return state.volume[0]


@compiled
def hush_both(pair, factor):
    hush(pair.one, factor)
    hush(pair.two, factor)


@compiled
def ask(state):
    return answer(state)


def test_without_a_meaning_it_does_what_the_example_does():
    for call in (hush_both, hush_both.plain):
        pair = Pair(Loud(np.array([8.0])), Quiet(np.array([8.0])))
        call(pair, 0.5)
        assert (pair.one.volume[0], pair.two.volume[0]) == (4.0, 8.0)


def test_its_default_may_return_something():
    for call in (ask, ask.plain):
        assert call(Loud(np.array([7.0]))) == 7.0
        assert call(Quiet(np.array([7.0]))) == 42.0


def test_it_knows_only_what_it_was_told_and_has_a_meaning_for_all():
    assert hush.knows(Loud)
    assert not hush.knows(Quiet)
    assert hush.meaning(Loud) is turn_down
    assert hush.meaning(Quiet) is hush.otherwise
    assert hush.__doc__.startswith("Make it less loud")


def test_an_ordinary_verb_has_no_default():
    @verb
    def needed(state):
        """It must be given."""

    with pytest.raises(SiagError, match="`needed` is not defined for `Quiet`"):
        needed(Quiet(np.zeros(1)))


def test_a_meaning_that_comes_after_the_default_was_compiled_is_refused():
    class Late(NamedTuple):
        volume: np.ndarray

    assert ask(Late(np.array([7.0]))) == 42.0
    with pytest.raises(SiagError, match="answer has been compiled for Late already"):
        answer.when(Late)(shout)
