"""Foreign code is tried once, with every index checked, before compiled code runs it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import siag
from siag.checks import Bowl
from siag.live.task import check_method
from siag.methods import SIAG, Averaged, Method, Table, advance, compute, fade, receive, table, try_method
from siag.problems import exact, sample

PROBLEM = siag.problems.LeastSquares.random(n=5, d=3, p=2, noise=0.1)
PARTS = siag.activity.Uniform(3), siag.steps.Constant(0.1)
IN_RECEIVE, IN_HELPER, IN_ADVANCE, LATE, IN_FADE = range(5)


class Leaky(NamedTuple):
    w: np.ndarray
    table: Table
    turn: np.ndarray  # (1,) iterations so far
    flaw: int


@siag.compiled
def poke(array, k):
    array[k] = 1.0


@receive.when(Leaky)
def take(state, i, message, age):
    receive(state.table, i, message, age)
    if state.flaw == IN_RECEIVE:
        state.table.rows[i, message.size] = 0.0  # beyond the row
    if state.flaw == IN_HELPER:
        poke(state.table.total, message.size)


@advance.when(Leaky)
def go(state, eta):
    advance(state.table, eta)
    state.turn[0] += 1
    if state.flaw == IN_ADVANCE:
        state.w[-state.w.size - 1] = 0.0  # before the beginning
    if state.flaw == LATE:
        state.w[state.turn[0]] += 0.0  # beyond the end, after a while


@fade.when(Leaky)
def let_go(state, i, factor):
    if state.flaw == IN_FADE:
        state.w[i] = 0.0  # there are more workers than parameters


def leak(flaw):
    """A method of a class that was never met before."""

    @dataclass(frozen=True)
    class Leak(Method):
        def init(self, w0, n):
            rows = table(w0, n, 64, 0.0)
            return Leaky(rows.w, rows, np.zeros(1, np.int64), flaw)

    return Leak()


def simulate(problem, method, **more):
    return siag.simulate(problem, method, *PARTS, iterations=5, **more)


@pytest.mark.parametrize("around", [lambda method: method, Averaged], ids=["itself", "within another"])
@pytest.mark.parametrize(
    ("flaw", "verb", "function", "source"),
    [
        (IN_RECEIVE, "receive", "take", "# beyond the row"),
        (IN_HELPER, "receive", "poke", "array[k] = 1.0"),
        (IN_ADVANCE, "advance", "go", "# before the beginning"),
        (LATE, "advance", "go", "# beyond the end"),
        (IN_FADE, "fade", "let_go", "# there are more workers"),
    ],
)
def test_an_index_out_of_bounds_is_an_error_that_names_the_function_and_the_line(flaw, verb, function, source, around):
    with open(__file__, encoding="utf-8") as stream:
        line = next(number for number, text in enumerate(stream, 1) if source in text)
    with pytest.raises(siag.SiagError) as caught:
        simulate(PROBLEM, around(leak(flaw)))
    message = str(caught.value)
    assert message.startswith(f"`{verb}` for `Leaky` reaches beyond an array: {__file__}, line {line}, in {function}: ")
    assert "\n" not in message
    assert isinstance(caught.value.__cause__, IndexError)


def test_it_is_found_in_a_model_too_large_for_python_by_trying_a_small_one_first():
    with pytest.raises(siag.SiagError, match="`receive` for `Leaky` reaches beyond an array"):
        simulate(Bowl(np.zeros((2, 300_000)), np.ones(300_000)), leak(IN_RECEIVE))


class Short(Bowl):
    def oracle(self):
        return Cut(self.centers, self.curvature[:-1])


class Cut(NamedTuple):
    centers: np.ndarray
    curvature: np.ndarray


@exact.when(Cut)
def slope_of_all(oracle, i, w, out):
    for j in range(w.size):
        out[j] = oracle.curvature[j] * (w[j] - oracle.centers[i, j])


@sample.when(Cut)
def slope_of_some(oracle, rng, i, w, out):
    out[:] = 0.0


def test_a_problem_is_tried_as_far_as_the_method_needs_it():
    problem = Short(np.zeros((2, 3)), np.ones(3))
    assert np.isfinite(simulate(problem, SIAG()).w).all()
    with pytest.raises(siag.SiagError, match=r"`exact` for `Cut` reaches beyond an array: .* in slope_of_all: index 2"):
        simulate(problem, siag.methods.IAG())


class Choosy(NamedTuple):
    """A worker that can do with one problem only."""


@compute.when(Choosy)
def look_inside(memory, oracle, rng, i, w, out):
    out[:] = oracle.centers[i + 1]  # the last worker has no next
    return True


@dataclass(frozen=True)
class Particular(SIAG):
    def recruit(self, w0, n):
        return Choosy()


def test_workers_that_need_a_certain_problem_are_tried_on_it():
    with pytest.raises(siag.SiagError, match="`compute` for `Choosy` reaches beyond an array"):
        simulate(Bowl(np.zeros((2, 3)), np.ones(3)), Particular())


def test_what_was_tried_is_not_tried_again():
    made = []

    class Counted(SIAG):
        def init(self, w0, n):
            made.append(n)
            return super().init(w0, n)

    method, w0 = Counted(), np.zeros(3)
    for _ in range(3):
        try_method(method, w0, 5, method.init(w0, 5), method.recruit(w0, 5))
    assert len(made) == 3 + 1


def test_the_packages_own_are_not_tried():
    method, nonsense = Averaged(SIAG()), None
    try_method(method, nonsense, nonsense, method.init(np.zeros(3), 5), method.recruit(np.zeros(3), 5))


class Log(NamedTuple):
    w: np.ndarray
    entries: np.ndarray  # (iterations,)
    count: np.ndarray  # (1,)


@receive.when(Log)
def write_down(state, i, message, age):
    state.entries[state.count[0]] = message[0]
    state.count[0] += 1


@advance.when(Log)
def stay(state, eta):
    pass


class Logging(Method):
    def init(self, w0, n):
        return Log(w0.copy(), np.zeros(5), np.zeros(1, np.int64))


def test_no_more_is_tried_than_the_run_has_room_for():
    method, w0 = Logging(), np.zeros(3)
    parts = method.init(w0, 5), method.recruit(w0, 5)
    try_method(method, w0, 5, *parts, iterations=5)
    with pytest.raises(siag.SiagError, match="`receive` for `Log` reaches beyond an array"):
        try_method(method, w0, 5, *parts, iterations=6)


@pytest.mark.parametrize("problem", [None, PROBLEM], ids=["streams", "problem"])
def test_a_live_run_is_refused_before_it_starts_what_a_simulation_is(problem):
    with pytest.raises(siag.SiagError, match="Leaky"):
        check_method(leak(IN_RECEIVE), problem, np.zeros(3), 5)
    with pytest.raises(siag.Unsuitable, match="Sharing"):
        check_method(Sharing(), problem, np.zeros(3), 5)


def test_a_live_worker_looks_at_its_method_without_room_for_all_models_of_all_workers():
    made = []

    class Asked(siag.methods.STORM):
        def recruit(self, w0, n):
            made.append(w0.size)
            return super().recruit(w0, n)

    Asked.__module__ = siag.methods.STORM.__module__
    check_method(Asked(), None, np.zeros(1000), 1000)
    assert made == [1]


def test_plain_runs_need_no_trial_since_python_checks_by_itself():
    with pytest.raises(IndexError):
        simulate(PROBLEM, leak(IN_ADVANCE), compiled=False)


@dataclass(frozen=True)
class Sharing(SIAG):
    def init(self, w0, n):
        return super().init(w0, n)._replace(w=w0)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_state_whose_w_is_the_callers_w0_is_refused(compiled):
    with pytest.raises(siag.Unsuitable, match=r"Sharing\(.*\): init must copy w0: .*; write w0.copy\(\)"):
        simulate(PROBLEM, Sharing(), compiled=compiled)


class Double(NamedTuple):
    w: np.ndarray
    one: Table
    two: Table


@dataclass(frozen=True)
class Doubled(Method):
    def init(self, w0, n):
        one = table(w0, n, 64, 0.0)
        return Double(one.w, one, table(w0, n, 64, 0.0))


def test_a_verb_that_two_fields_could_answer_is_refused_before_any_work():
    with pytest.raises(siag.SiagError, match="`fade` is ambiguous for `Double`: one and two"):
        simulate(PROBLEM, Doubled())
