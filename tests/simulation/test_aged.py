"""Steps that follow ages, in the simulator: ahead of the loop, a chunk at a time, as if one report after the other."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import siag
from siag.activity.agenda import FADE, FORGET, STEP
from siag.foundations.errors import BadInput
from siag.simulation.aged import aged_events, aged_schedule
from siag.steps import DelayAdaptive, Step, heard, left, size

N = 5
PROBLEM = siag.problems.LeastSquares.random(n=N, d=3, p=2, noise=0.1, seed=1)
CLOCK = siag.activity.Clock(compute=siag.activity.Exponential(1.0), slowness=[1.0, 1.0, 2.0, 4.0, 8.0])
STEPS = [
    DelayAdaptive(0.2, variant=variant, ages=ages) for variant in ("first", "second") for ages in ("table", "arrivals")
]


def one_by_one(step, n, events):
    """The sizes, asked for as a live server would."""
    rule, eta = step.rule(n), []
    for code, age, factor in events:
        if code == STEP:
            eta.append(size(rule, len(eta)))
        elif code < FORGET:
            if factor == 0.0:
                left(rule, code - FADE)
        elif code >= 0:
            heard(rule, code, len(eta) - age)
    return np.array(eta)


def trace():
    """A live run of three workers in which the third leaves: first half of its row counts for nothing, then all."""
    lines, drawn = [], [0, 0, 0]
    for t in range(300):
        if t == 100:
            lines += [(t, 2, 0, 0, share) for share in (0.5, 0.0)]
        turns = 3 if t < 60 else 2
        i = t % turns
        lines.append((t, i, max(t - turns, 0), drawn[i], np.nan))
        drawn[i] += 1
    *whole, factor = zip(*lines, strict=True)
    columns = [np.array(column, np.int64) for column in whole]
    return siag.activity.Trace(*columns, np.arange(len(lines)) / 10, np.array(factor), 300)


@pytest.mark.parametrize(("activity", "n"), [(CLOCK, N), (trace(), 3)], ids=["clock", "trace"])
@pytest.mark.parametrize("step", STEPS, ids=repr)
@pytest.mark.parametrize("fast", [True, False])
def test_events_in_chunks_give_the_sizes_a_live_server_would_use_bit_for_bit(activity, n, step, fast):
    events, sizes, rule = [], [], step.rule(n)
    for chunk in activity.events(n, 300, 0, 0, 1 << 30):  # 256 events at a time
        steps = int((chunk.code == STEP).sum())
        sizes += aged_events(rule, chunk, len(sizes), steps, fast).tolist()
        factor = chunk.factor if len(chunk.factor) else np.full(len(chunk.code), np.nan)
        events += zip(chunk.code.tolist(), chunk.age.tolist(), factor.tolist(), strict=True)
    assert len(sizes) == 300
    assert np.array_equal(sizes, one_by_one(step, n, events))
    assert len(set(sizes)) > 2


def test_a_row_that_fades_counts_until_it_has_faded():
    (chunk,) = trace().events(3, 300, 0, 0, 1)
    eta = aged_events(DelayAdaptive(0.2).rule(3), chunk, 0, 300, True)
    assert eta[99] < 1e-6 * eta[:60].max()
    assert eta[101] > 0.1 * eta[:60].max()


@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_along_a_schedule_the_stamps_are_the_iterations(step):
    rules, sizes, expected = (step.rule(N), step.rule(N)), [], []
    for first, chunk in siag.activity.unfold(siag.activity.Uniform(4), N, 3000, 7, 0, None, 1 << 16):
        aged_schedule(rules[0], chunk, first, True)
        sizes += chunk.eta.tolist()
        for k in range(chunk.iterations):
            for i in chunk.worker[chunk.start[k] : chunk.start[k + 1]]:
                heard(rules[1], i, first + k)
            expected.append(size(rules[1], first + k))
    assert np.array_equal(sizes, expected)


@pytest.mark.parametrize("activity", [siag.activity.Uniform(4), CLOCK], ids=["uniform", "clock"])
@pytest.mark.parametrize("variant", ["first", "second"])
def test_compiled_is_plain_bit_for_bit(activity, variant):
    runs = [
        siag.simulate(
            PROBLEM,
            siag.methods.SIAG(),
            activity,
            DelayAdaptive(0.2, variant=variant),
            iterations=400,
            repeats=2,
            compiled=compiled,
        )
        for compiled in (True, False)
    ]
    assert np.array_equal(runs[0].error, runs[1].error)
    assert np.array_equal(runs[0].w, runs[1].w)
    assert runs[0].error[0, -1] < 0.2 * runs[0].error[0, 0]


def test_everybody_at_once_is_a_constant_step():
    aged, constant = (
        siag.simulate(PROBLEM, siag.methods.SIAG(), siag.activity.Everyone(), step, iterations=200, seed=3)
        for step in (DelayAdaptive(0.1, variant="second"), siag.steps.Constant(0.1))
    )
    assert np.array_equal(aged.error, constant.error)


def test_repeats_share_nothing():
    runs = [
        siag.simulate(
            PROBLEM, siag.methods.SIAG(), CLOCK, DelayAdaptive(0.2), iterations=300, repeats=4, threads=threads
        )
        for threads in (1, 3)
    ]
    assert np.array_equal(runs[0].error, runs[1].error)
    assert len(set(runs[0].error[:, -1])) == 4


def test_a_divergence_names_the_step():
    step = DelayAdaptive(50.0)
    with pytest.warns(siag.DivergenceWarning, match=r"with DelayAdaptive\(gamma=50.0, .*\);"):
        siag.simulate(PROBLEM, siag.methods.SIAG(), siag.activity.Everyone(), step, iterations=300)


def test_it_is_the_step_of_a_sweep_and_is_told_apart():
    steps = [DelayAdaptive(0.1), DelayAdaptive(0.1, variant="second")]
    swept = siag.sweep(PROBLEM, siag.methods.SIAG(), siag.activity.Uniform(4), steps, iterations=200)
    assert swept.runs[0].error[0, -1] != swept.runs[1].error[0, -1]
    assert swept.runs[0].about["step"] == repr(steps[0])


@dataclass(frozen=True)
class Own(Step):
    """η_t = scale/(1 + reports so far)."""

    scale: float

    def sizes(self, t):
        raise NotImplementedError

    def rule(self, n):
        return Count(np.zeros(1), self.scale)


class Count(NamedTuple):
    reports: np.ndarray
    scale: float


@heard.when(Count)
def count(rule, i, stamp):
    rule.reports[0] += 1


@size.when(Count)
def shrink(rule, t):
    return rule.scale / (1.0 + rule.reports[0])


@pytest.mark.parametrize("activity", [siag.activity.Everyone(), CLOCK], ids=["everyone", "clock"])
def test_a_rule_of_ones_own_is_followed(activity):
    run = siag.simulate(PROBLEM, siag.methods.SIAG(), activity, Own(2.0), iterations=500)
    assert run.error[0, -1] < 0.1 * run.error[0, 0]


@pytest.mark.parametrize("scale", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("activity", [siag.activity.Everyone(), CLOCK], ids=["everyone", "clock"])
def test_sizes_that_are_no_steps_are_refused(scale, activity):
    with pytest.raises(BadInput, match=r"^step = .*must be finite and not negative.*mend what `size` means"):
        siag.simulate(PROBLEM, siag.methods.SIAG(), activity, Own(scale), iterations=50)
