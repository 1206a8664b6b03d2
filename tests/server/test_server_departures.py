"""The rows of workers that have left: kept, dropped, or fading."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers import (
    CENTERS,
    CURVATURE,
    GUARD_OFF,
    POLICIES,
    N,
    gradient,
    make,
    moves,
    ones,
    play,
    quick,
    rounds,
    second_life,
)

import siag
from siag.activity import Tick
from siag.server import DROP, KEEP, Departed, ParameterServer


@pytest.mark.parametrize("rows", ["float64", "float32"])
@pytest.mark.parametrize("departed", POLICIES, ids=repr)
@quick
@given(plan=st.lists(moves, max_size=60), resum=st.integers(0, 3))
def test_the_total_is_the_sum_of_the_rows_whoever_comes_and_goes(rows, departed, plan, resum):
    server = make(siag.methods.SIAG(rows=rows, resum=resum), departed=departed, guard=GUARD_OFF)
    for move in plan:
        play(server, [move])
        total = server.state.rows.astype(float).sum(axis=0)
        np.testing.assert_allclose(server.state.total, total, rtol=0, atol=1e-9)


@pytest.mark.parametrize("departed", POLICIES, ids=repr)
def test_only_the_row_of_the_departed_fades_and_only_until_it_reports_again(departed):
    server = make(departed=departed)
    for i in range(N):
        server.push(i, server.version, ones(i + 1.0), 0, now=0.0)
    server.leave(1, now=0.0)
    server.leave(1, now=0.0)  # once is enough
    for k in range(4):
        server.push(0, server.version, ones(), k + 1, now=0.0)
    fades = [k for k in range(4, 8) if k % departed.every == 0] if 0 < departed.half_life < math.inf else []
    expected = 2.0 * departed.factor ** len(fades) if departed != DROP else 0.0
    assert server.state.rows[1] == pytest.approx(ones(expected))
    assert server.state.rows[2].tolist() == ones(3.0).tolist()
    assert server.fades == (1 if departed == DROP else len(fades))
    server.join(1, now=1.0)
    server.push(1, server.version, ones(5.0), 1, now=1.0)
    for k in range(40):
        server.push(0, server.version, ones(), k + 5, now=1.0)
    assert server.state.rows[1].tolist() == ones(5.0).tolist()


def test_after_sixty_four_half_lives_nothing_is_left_and_nothing_is_done_any_more():
    server = make(departed=Departed(10.0), server=Tick(1.0))
    for i in range(N):
        server.push(i, 0, ones(), 0, now=0.0)
    server.leave(2, now=0.0)
    for _ in range(10 * 64 + 20):
        server.tick(now=0.0)
    assert not server.state.rows[2].any()
    fades = server.fades
    server.changed[:] = False
    for _ in range(100):
        server.tick(now=0.0)
    assert server.fades == fades
    assert not server.changed.any()


def minimiser(workers, pull=0.0):
    """Where Σ ∇F_i(w) + pull = 0."""
    a = CURVATURE[workers]
    return (a @ CENTERS[workers] - pull) / a.sum()


def depart(departed, after=5):
    """A server that worker 2 has left while w was still on its way; and its last gradient."""
    server = make(step=siag.steps.Constant(0.05), d=2, departed=departed, guard=GUARD_OFF)
    rounds(server, [0, 1, 2], 3 * after)
    pull = server.state.rows[2].copy()
    server.leave(2, now=0.0)
    return server, pull


def test_all_present_the_minimiser_is_that_of_the_average():
    server, _ = depart(KEEP, after=1000)
    np.testing.assert_allclose(server.w, minimiser([0, 1, 2]), atol=1e-12)


def test_a_row_that_is_kept_pulls_as_it_did_last():
    server, pull = depart(KEEP)
    rounds(server, [0, 1], 3000)
    np.testing.assert_allclose(server.w, minimiser([0, 1], pull), atol=1e-12)
    assert np.linalg.norm(server.w - minimiser([0, 1, 2])) > 0.05  # right only near where it was computed
    near, _ = depart(KEEP, after=1000)
    rounds(near, [0, 1], 3000)
    np.testing.assert_allclose(near.w, minimiser([0, 1, 2]), atol=1e-12)


def test_once_a_row_is_dropped_the_model_is_that_of_those_who_are_left():
    server, _ = depart(DROP)
    rounds(server, [0, 1], 3000)
    np.testing.assert_allclose(server.w, minimiser([0, 1]), atol=1e-12)


def test_those_who_are_left_go_on_at_the_same_speed():
    """One of three has left: w moves as in a run of the other two alone."""
    server, _ = depart(DROP)
    alone = ParameterServer(siag.methods.SIAG(), siag.steps.Constant(0.05), server.w.copy(), 2, guard=GUARD_OFF)
    alone.state.rows[:] = server.state.rows[:2]
    alone.state.total[:] = server.state.total
    for i in (0, 1):
        alone.join(i, 0.0)
    for k in range(50):
        for one in (server, alone):
            row, samples = k % 2, one.members[k % 2].samples
            one.push(row, one.version, gradient(row, one.w), samples, now=0.0)
        np.testing.assert_allclose(server.w, alone.w, rtol=1e-12)


def test_dropping_is_the_default_and_the_last_row_stays_until_another_worker_reports():
    server = ParameterServer(siag.methods.SIAG(), siag.steps.Constant(0.1), np.zeros(1), 3)
    for i in range(3):
        server.join(i, 0.0)
        server.push(i, server.version, np.ones(1), 0, now=0.0)
    for i, rows in ((0, [0, 1, 1]), (2, [0, 1, 0]), (1, [0, 1, 0])):
        server.leave(i, now=1.0)
        assert server.state.rows[:, 0].tolist() == rows
    assert (server.fading.gone, server.fading.times) == ({0, 2}, {1: 0})
    again = second_life(server, 1.0)
    assert (again.fading.gone, again.fading.times) == ({0, 2}, {1: 0})
    server.join(2, 2.0)
    server.push(2, server.version, np.full(1, 5.0), 1, now=2.0)
    assert server.state.rows[:, 0].tolist() == [0, 0, 5]
    assert (server.fading.gone, server.fading.times) == ({0, 1}, {})


@pytest.mark.thorough
def test_a_row_that_decays_leads_slowly_from_the_one_to_the_other():
    """The half-life is thirty times as long as w needs, so w follows the minimiser of the moment to a few percent."""
    half_life = 1600
    server, pull = depart(Departed(half_life))
    whole = np.linalg.norm(minimiser([0, 1], pull) - minimiser([0, 1]))
    for halvings in range(1, 5):
        rounds(server, [0, 1], half_life)
        share = np.linalg.norm(server.state.rows[2]) / np.linalg.norm(pull)
        assert share == pytest.approx(0.5**halvings, rel=0.1)
        behind = np.linalg.norm(server.w - minimiser([0, 1], 0.5**halvings * pull))
        assert behind < 0.1 * whole * 0.5**halvings
    rounds(server, [0, 1], 64 * half_life)
    np.testing.assert_allclose(server.w, minimiser([0, 1]), atol=1e-12)
