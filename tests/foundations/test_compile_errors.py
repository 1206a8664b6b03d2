"""Errors of Numba reach the user as one line: verb, class, file and line; the original is the cause."""

import re
from typing import NamedTuple

import numpy as np
import pytest
from numba.core.errors import NumbaError

from siag.foundations.compile_errors import LONGEST, essence, explain
from siag.foundations.dispatch import compiled, verb
from siag.foundations.errors import SiagError


class Box(NamedTuple):
    x: np.ndarray


class Bag(NamedTuple):
    x: np.ndarray


class Crate(NamedTuple):
    x: np.ndarray


@verb
def weigh(thing):
    """What it weighs."""
    return 0.0


@weigh.when(Box)
def ask_the_system(thing):
    return open("scale").read()  # nothing that can be compiled


@compiled
def mixed(x):
    return "grams" + x[0]


@weigh.when(Bag)
def ask_a_helper(thing):
    return mixed(thing.x)


@compiled
def total(thing):
    return weigh(thing)


def line_of(text):
    with open(__file__, encoding="utf-8") as stream:
        return next(number for number, line in enumerate(stream, 1) if text in line)


@pytest.mark.parametrize(
    ("kind", "function", "text", "why"),
    [
        (Box, "ask_the_system", 'return open("scale")', "open"),
        (Bag, "mixed", 'return "grams"', r"no such function as add\("),
    ],
)
def test_the_line_names_verb_class_file_and_line_and_the_rest_is_the_cause(kind, function, text, why):
    with pytest.raises(SiagError) as caught:
        total(kind(np.ones(1)))
    place = re.escape(f"{__file__}, line {line_of(text)}, in {function}: ")
    start = rf"`weigh` for `{kind.__name__}` could not be compiled: {place}"
    assert re.fullmatch(rf"{start}.*{why}.*; .*compiled=False", str(caught.value))
    assert " at 0x" not in str(caught.value)
    assert isinstance(caught.value.__cause__, NumbaError)


def test_a_verb_that_is_not_defined_is_said_so_in_compiled_code_too():
    with pytest.raises(SiagError, match=r"^`weigh` is not defined for `Crate`; write one: @weigh\.when\(Crate\)$"):
        total(Crate(np.ones(1)))


def test_a_function_that_is_no_verbs_is_named_itself():
    with pytest.raises(SiagError, match=r"^mixed could not be compiled: .*, in mixed: "):
        mixed(np.ones(1))


def test_an_error_without_a_reason_and_one_of_many_words_still_make_a_short_line():
    assert essence(NumbaError("")) == "no reason given"
    assert len(essence(NumbaError("x" * 10_000))) == LONGEST


def test_a_place_within_numba_is_not_the_one_that_is_told():
    place = 'File "{}", line {}:\ndef {}(state):\n'
    text = place.format("/site-packages/numba/cpython/builtins.py", 777, "min_iterable") + place.format(
        "mine.py", 3, "f"
    )
    assert "mine.py, line 3, in f: " in explain(NumbaError(text), [], "loop")


def test_colours_are_left_out():
    bold, plain = "\x1b[1m", "\x1b[0m"
    assert essence(NumbaError(f"{bold}{bold}no such thing{plain}{plain}")) == "no such thing"
