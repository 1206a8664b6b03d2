"""The fingerprint changes with whatever the machine code depends on, and with nothing else."""

import types
from typing import NamedTuple

import numpy as np
import pytest

from siag.foundations.dispatch import compiled, verb
from siag.foundations.fingerprint import LENGTH, fingerprint


class Thing(NamedTuple):
    x: float


class Other(NamedTuple):
    x: float


def defined(source, **names):
    """The last function a piece of source text defines, with `names` as its globals."""
    exec(compile(source, "somewhere.py", "exec"), names)
    return [value for value in names.values() if isinstance(value, types.FunctionType)][-1]


def mark(source, kinds=(), **names):
    return fingerprint(defined(source, **names), kinds)


def module(name, **contents):
    made = types.ModuleType(name)
    vars(made).update(contents)
    return made


FORMULA = "def f(x):\n    return 2.0 * x + 1.0\n"


def test_a_fingerprint_is_a_short_word_and_always_the_same():
    assert mark(FORMULA) == mark(FORMULA)
    assert len(mark(FORMULA)) == LENGTH
    assert mark(FORMULA).isalnum()


@pytest.mark.parametrize(
    "edited",
    [
        FORMULA.replace("2.0", "3.0"),
        FORMULA.replace("+", "-"),
        FORMULA.replace("2.0", "2"),  # a whole number compiles to other code than a real one
        FORMULA.replace("(x)", "(x, y=1)"),
        FORMULA.replace("2.0 * x", "2.0 * abs(x)"),
    ],
)
def test_an_edit_of_the_code_changes_it(edited):
    assert mark(edited) != mark(FORMULA)


@pytest.mark.parametrize(
    "edited",
    [
        "# a comment\n" + FORMULA,
        "\n\n\n" + FORMULA,
        FORMULA.replace("2.0 * x + 1.0", "(\n        2.0 * x  # a remark\n        + 1.0\n    )"),
        FORMULA + "# end\n",
    ],
)
def test_comments_and_line_numbers_do_not_change_it(edited):
    assert mark(edited) == mark(FORMULA)


def test_line_numbers_of_inner_functions_do_not_change_it():
    source = "def f(x):\n    return sorted([x], key=lambda y: -y)\n"
    assert mark("\n\n" + source) == mark(source)
    assert mark(source.replace("-y", "+y")) != mark(source)


@pytest.mark.parametrize("wrap", [lambda function: function, compiled])
def test_the_code_of_a_called_helper_counts(wrap):
    def with_helper(factor):
        helper = wrap(defined(f"def helper(x):\n    return {factor} * x\n"))
        return mark("def f(x):\n    return helper(x)\n", helper=helper)

    assert with_helper(2) == with_helper(2)
    assert with_helper(2) != with_helper(3)


def test_a_helper_of_a_helper_counts():
    def with_chain(factor):
        last = defined(f"def last(x):\n    return {factor} * x\n")
        middle = defined("def middle(x):\n    return last(x)\n", last=last)
        return mark("def f(x):\n    return middle(x)\n", middle=middle)

    assert with_chain(2) != with_chain(3)


def test_functions_that_call_each_other_have_a_fingerprint():
    source = "def g(x):\n    return f(x - 1) if x else 0\ndef f(x):\n    return g(x)\n"
    assert mark(source) == mark(source)
    assert mark(source.replace("x - 1", "x - 2")) != mark(source)


def test_the_meaning_of_a_verb_counts_for_the_kinds_it_meets_and_no_others():
    def with_meaning(kind, factor):
        @verb
        def act(thing):
            """Whatever it means."""

        act.when(Thing)(defined("def usual(thing):\n    return thing.x\n"))
        act.when(kind)(defined(f"def meaning(thing):\n    return {factor} * thing.x\n"))
        return mark("def f(thing):\n    return act(thing)\n", kinds=(Thing,), act=act)

    assert with_meaning(Thing, 2) == with_meaning(Thing, 2)
    assert with_meaning(Thing, 2) != with_meaning(Thing, 3)
    assert with_meaning(Other, 2) == with_meaning(Other, 3)


def test_whose_meaning_it_is_counts():
    def with_meaning_of(kind):
        @verb
        def act(thing):
            """Whatever it means."""

        act.when(kind)(defined("def meaning(thing):\n    return thing.x\n"))
        return mark("def f(thing):\n    return act(thing)\n", kinds=(Thing, Other), act=act)

    assert with_meaning_of(Thing) == with_meaning_of(Thing)
    assert with_meaning_of(Thing) != with_meaning_of(Other)


def test_the_fields_of_a_kind_count():
    one, two = (NamedTuple("Kind", [(field, float)]) for field in ("x", "y"))
    one.__module__ = two.__module__ = "somewhere"
    assert mark(FORMULA, kinds=(one,)) != mark(FORMULA, kinds=(two,))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, 2),
        (1, 1.0),
        (1, True),
        (1.0, 1.0 + 2**-52),
        ("a", "b"),
        ((1, 2), (2, 1)),
        (np.float64(1), np.float32(1)),
        (np.uint64(1), np.uint64(2)),
        (np.array([1.0, 2.0]), np.array([1.0, 3.0])),
        (np.array([1, 2]), np.array([1.0, 2.0])),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros(5000), np.where(np.arange(5000) == 2500, 1.0, 0.0)),
        ((np.array([1.0]),), (np.array([1.0 + 1e-12]),)),
    ],
    ids=str,
)
def test_a_constant_of_the_module_counts(before, after):
    source = "def f(x):\n    return C\n"
    assert mark(source, C=before) == mark(source, C=before)
    assert mark(source, C=before) != mark(source, C=after)


@pytest.mark.parametrize("place", ["default", "closure"])
def test_an_array_a_function_carries_with_it_counts_to_the_last_bit(place):
    def carrying(value):
        table = np.array([value])
        if place == "default":
            return fingerprint(defined("def f(x, table=TABLE):\n    return table[0] * x\n", TABLE=table), ())
        return fingerprint(lambda x: table[0] * x, ())

    assert carrying(1.0) == carrying(1.0)
    assert carrying(1.0) != carrying(1.0 + 1e-12)


def test_constants_that_happen_to_be_equal_still_count_each():
    source = "def f(x):\n    return A * x + B + C\n"
    assert mark(source, A=1, B=1, C=2) != mark(source, A=2, B=1, C=2)


def test_names_that_stand_for_the_same_function_still_count_each():
    one, two = (defined(f"def g(x):\n    return {factor} * x\n") for factor in (1, 2))
    source = "def f(x):\n    return a(x) + b(x) + c(x)\n"
    assert mark(source, a=one, b=one, c=two) != mark(source, a=two, b=one, c=two)


def test_digits_do_not_wander_from_one_constant_to_the_next():
    source = "def f(x):\n    return A * x + B\n"
    assert mark(source, A=1, B=12) != mark(source, A=21, B=1)


def test_what_is_taken_from_a_module_counts_and_the_rest_does_not():
    def with_module(**contents):
        return mark("def f(x):\n    return constants.RATE * x\n", constants=module("constants", **contents))

    assert with_module(RATE=1.0, OTHER=1.0) == with_module(RATE=1.0, OTHER=2.0)
    assert with_module(RATE=1.0) != with_module(RATE=2.0)


def test_what_is_taken_from_a_module_of_a_package_counts():
    def with_package(factor):
        helper = defined(f"def pull(x):\n    return {factor} * x\n")
        package = module("package", helper=module("package.helper", pull=helper))
        return mark("def f(x):\n    return package.helper.pull(x)\n", package=package)

    assert with_package(2) == with_package(2)
    assert with_package(2) != with_package(3)


def test_a_constant_that_the_function_does_not_name_does_not_count():
    assert mark(FORMULA, UNUSED=1) == mark(FORMULA, UNUSED=2)
