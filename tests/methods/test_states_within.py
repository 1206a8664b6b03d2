"""A state that holds a table, or another method's state, leaves to it what it does not say itself."""

import importlib.util
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import siag
from siag.methods import (
    LAG,
    SAGA,
    SCAFFOLD,
    SIAG,
    Adam,
    Averaged,
    Clipped,
    CurvatureIAG,
    Momentum,
    Prox,
    answer,
    cost,
    fade,
    forget,
    ready,
    shown,
)
from siag.methods.lag import Lazy, Unhurried
from siag.methods.local import local
from siag.server import DROP, ParameterServer
from siag.steps import Constant

spec = importlib.util.spec_from_file_location("heavy_ball", Path(__file__).parents[2] / "examples" / "heavy_ball.py")
heavy_ball = importlib.util.module_from_spec(spec)
spec.loader.exec_module(heavy_ball)

D, N = 2, 3
HOLDERS = [heavy_ball.HeavyBall(), LAG(), CurvatureIAG(), SAGA(), SCAFFOLD(steps=2, size=0.1)]
HOLDERS += [Prox(SIAG()), Averaged(LAG()), SIAG(average=4), Momentum(SIAG()), Adam(SIAG()), Clipped(SIAG(), norm=9.0)]


@siag.compiled
def fade_compiled(state, i, factor):
    fade(state, i, factor)


def table_of(state):
    """The table, however deep inside."""
    return state if hasattr(state, "rows") else table_of(getattr(state, "table", None) or state.inner)


@pytest.mark.parametrize("method", HOLDERS, ids=lambda method: type(method).__name__)
def test_a_row_fades_wherever_the_table_is(method):
    check_that_a_row_fades(method, fade)


@pytest.mark.parametrize("method", [heavy_ball.HeavyBall(), Averaged(LAG())], ids=lambda method: type(method).__name__)
def test_a_row_fades_wherever_the_table_is_in_compiled_code(method):
    check_that_a_row_fades(method, fade_compiled)


def check_that_a_row_fades(method, call):
    state = method.init(np.zeros(D), N)
    table = table_of(state)
    table.rows[:] = np.arange(table.rows.size).reshape(table.rows.shape)
    table.total[:] = table.rows.sum(axis=0)
    call(state, 1, 0.0)
    assert not table.rows[1].any()
    assert np.array_equal(table.total, table.rows[0] + table.rows[2])


def test_the_example_of_contributing_obeys_when_departed_workers_are_dropped():
    server = ParameterServer(heavy_ball.HeavyBall(momentum=0.0), Constant(1.0), np.zeros(D), N, departed=DROP)
    for row in (0, 1):
        server.join(str(row), 0.0)
        server.push(row, server.version, np.array([3.0, 6.0]) * (row + 1), 0, 0.0)
    server.leave(1, 1.0)
    before = server.w.copy()
    server.push(0, server.version, np.array([3.0, 6.0]), 1, 2.0)
    assert np.array_equal(server.w, before - np.array([1.5, 3.0]))  # two rows are left of three


class Wrapped(NamedTuple):
    w: np.ndarray
    inner: tuple


class Patient(NamedTuple):
    """A worker that has another inside."""

    inner: tuple


def test_what_workers_read_the_result_and_readiness_are_those_of_the_method_inside():
    inner = Averaged(LAG(wait=1.0)).init(np.ones(D), N)
    state = Wrapped(inner.w, inner)
    assert isinstance(inner.inner, Unhurried)
    assert shown(state) is inner.inner.model
    assert answer(state) is inner.mean
    assert not ready(state)
    table_of(inner).tally[1] = N
    assert ready(state)


def test_what_a_message_took_and_what_is_forgotten_are_the_inner_workers_business():
    assert cost(Patient(local(np.zeros(D), N, steps=7, size=0.1, gradients="sample"))) == 7
    lazy = LAG().recruit(np.zeros(D), N)
    assert isinstance(lazy, Lazy)
    lazy.ever[:] = True
    forget(Patient(lazy), 1)
    assert lazy.ever.tolist() == [True, False, True]


def test_a_report_and_a_step_at_once_are_never_passed_on_past_the_states_own():
    one, two = (heavy_ball.HeavyBall().init(np.zeros(D), N) for _ in range(2))
    for k in range(4):  # the table's own arrival would step along its sum, without momentum
        message = np.array([1.0, -2.0]) * k
        siag.methods.arrive(one, k % N, message, 0, 0.1)
        siag.methods.receive(two, k % N, message, 0)
        siag.methods.advance(two, 0.1)
    assert np.array_equal(one.w, two.w)
