"""The virtual clock: time never goes back, ages are counted from the download, nobody is in two places."""

import heapq
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from refusals import refused
from siag.activity import Arrivals, Clock, EveryArrivals, Exponential, Fixed, LogNormal, OnOff, Pareto, Tick, WaitForAll
from siag.activity.agenda import STEP
from siag.activity.times import duration
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.rng import CLOCK, SAMPLES, blank, fresh, key, rewind

quick = settings(deadline=None, max_examples=40)

clocks = st.builds(
    Clock,
    compute=st.sampled_from([Fixed(1.0), Exponential(0.7), LogNormal(1.0, 1.5), Pareto(1.0, 1.2)]),
    travel=st.sampled_from([Fixed(0.0), Exponential(0.3)]),
    server=st.sampled_from([EveryArrivals(), EveryArrivals(3), Tick(0.4), Tick(5.0), WaitForAll()]),
    slowness=st.sampled_from([1.0, (1.0, 2.0, 3.0, 10.0, 0.5)]),
    availability=st.sampled_from([None, OnOff(2.0, 1.0), OnOff(0.1, 5.0), OnOff([1.0] * 5, [0.0, 3.0, 0.1, 9.0, 0.0])]),
)
N = 5


def history(clock, iterations, seed=0, repeat=0, n=N, cost=1 << 21):
    """All events in one; the cost makes chunks short."""
    parts = [tuple(map(np.copy, chunk)) for chunk in clock.events(n, iterations, seed=seed, repeat=repeat, cost=cost)]
    code, age, time, _ = (np.concatenate(column) for column in zip(*parts, strict=True))
    return code, age, time


@quick
@given(clocks, st.integers(0, 1000))
def test_the_invariants_hold_for_every_clock(clock, seed):
    code, age, time = history(clock, 60, seed)
    assert (np.diff(time) >= 0).all()
    assert (age >= 0).all()
    version, read = 0, {}
    for c, a in zip(code.tolist(), age.tolist(), strict=True):
        if c == STEP:
            version += 1
        elif c < 0:
            assert -1 - c not in read  # a worker reads only when it has reported what it had
            read[-1 - c] = version
            assert len(read) <= N
        else:
            assert a == version - read.pop(c)  # measured from the download
    assert version == 60


@pytest.mark.parametrize("gradients", [1, 5, 50])
def test_a_report_of_many_gradients_takes_a_draw_for_each(gradients):
    """Sums of K exponential times: mean K, variance K. 4 standard errors of 4000 draws: 1 in 10⁴ seeds would fail."""
    clock = Clock(Exponential(1.0)).paced(gradients)
    assert clock.paced(7) == clock
    reports = np.diff(history(clock, 4000, n=1)[2][::3], prepend=0.0)[1:]
    assert reports.mean() == pytest.approx(gradients, abs=4 * math.sqrt(gradients / 4000))
    assert reports.var() == pytest.approx(gradients, rel=4 * math.sqrt((2 + 6 / gradients) / 4000))


def test_workers_may_take_unequal_numbers_of_gradients():
    clock = Clock(Fixed(1.0), slowness=[1.0, 0.5]).paced(np.array([2, 6]))
    code, _, time = history(clock, 5, n=2)
    assert [(time[e], code[e]) for e in range(len(code)) if 0 <= code[e] < 2] == [
        (2, 0),
        (3, 1),
        (4, 0),
        (6, 0),
        (6, 1),
    ]
    assert clock == Clock(Fixed(1.0), slowness=[1.0, 0.5], gradients=[2, 6])


def test_numbers_of_gradients_must_fit_the_workers():
    with refused("gradients"):
        history(Clock(Fixed(1.0), gradients=(1, 2)), 5, n=3)
    with refused("gradients[1]"):
        Clock(Fixed(1.0), gradients=(1, 0))


@quick
@given(clocks, st.integers(0, 1000))
def test_chunks_do_not_change_what_happens(clock, seed):
    short, long = history(clock, 40, seed, cost=1 << 21), history(clock, 40, seed, cost=1)
    for one, two in zip(short, long, strict=True):
        assert np.array_equal(one, two)


def plain_history(compute, slowness, arrivals, seed):
    """Asynchronous workers with a step at every arrival, written to be read."""
    rng, own = blank(), key(seed, 0, CLOCK)
    tasks, queue, log, version = [0] * len(slowness), [], [], 0

    def start(i, now):
        rewind(rng, own, i, tasks[i])
        tasks[i] += 1
        heapq.heappush(queue, (now + slowness[i] * duration(rng, compute.law()), i, version))

    for i in range(len(slowness)):
        start(i, 0.0)
    while version < arrivals:
        now, i, read = heapq.heappop(queue)
        log.append((i, version - read, now))
        version += 1
        start(i, now)
    return log


@pytest.mark.parametrize("compute", [Exponential(1.0), LogNormal(2.0, 1.0), Pareto(1.0, 1.5)], ids=repr)
def test_the_clock_does_what_a_plain_event_queue_does(compute):
    slowness = (1.0, 2.0, 3.0, 10.0, 0.5)
    code, age, time = history(Clock(compute=compute, slowness=slowness), 500, seed=3)
    arrived = (code >= 0) & (code != STEP)
    twin = plain_history(compute, slowness, 500, seed=3)
    assert code[arrived].tolist() == [i for i, _, _ in twin]
    assert age[arrived].tolist() == [a for _, a, _ in twin]
    np.testing.assert_allclose(time[arrived], [now for _, _, now in twin], rtol=1e-12)


def test_a_server_that_waits_for_all_sees_everyone_once_per_step_and_nothing_stale():
    code, age, time = history(Clock(compute=Exponential(1.0), server=WaitForAll()), 200)
    steps = np.flatnonzero(code == STEP)
    for begin, end in zip(np.append(-1, steps[:-1]) + 1, steps, strict=True):
        events = code[begin:end]
        assert sorted(events[events >= 0]) == list(range(N))
        assert sorted(events[events < 0]) == list(range(-N, 0))
    assert (age == 0).all()
    # Each round lasts as long as its slowest worker: E max of N exponentials is the N-th harmonic number.
    # Fails by chance with probability below 1e-6 (5 standard errors of 200 rounds).
    rounds = np.diff(np.append(0.0, time[steps]))
    assert abs(rounds.mean() - sum(1 / k for k in range(1, N + 1))) < 5 * rounds.std() / math.sqrt(200)


def test_ticks_come_at_their_times_whoever_has_arrived():
    code, _, time = history(Clock(compute=Exponential(50.0), server=Tick(0.25)), 400)
    np.testing.assert_allclose(time[code == STEP], 0.25 * np.arange(1, 401))
    assert (np.diff(np.flatnonzero(code == STEP)) == 1).any()  # silence is an event


def test_the_server_steps_after_every_k_arrivals():
    code, _, _ = history(Clock(compute=Exponential(1.0), server=EveryArrivals(3)), 100)
    arrived = np.cumsum((code >= 0) & (code != STEP))[code == STEP]
    assert arrived.tolist() == list(range(3, 303, 3))


def test_different_servers_see_the_same_workers():
    slowness = (1.0, 2.0, 3.0, 10.0, 0.5)
    times = []
    for server in (EveryArrivals(), EveryArrivals(4), Tick(0.1)):
        code, _, time = history(Clock(compute=LogNormal(1.0), server=server, slowness=slowness), 300, seed=9)
        times.append([time[(code == 2)][:20]])  # the reports of worker 2, who does not care how often the server steps
    for other in times[1:]:
        np.testing.assert_allclose(other[0][: len(times[0][0])], times[0][0][: len(other[0])], rtol=1e-12)


@pytest.mark.parametrize(
    ("law", "cdf"),
    [
        (Exponential(2.0), stats.expon(scale=2.0).cdf),
        (LogNormal(3.0, 0.8), stats.lognorm(0.8, scale=3.0 * math.exp(-0.32)).cdf),
        (Pareto(2.0, 2.5), stats.pareto(2.5, scale=2.0 * 1.5 / 2.5).cdf),
    ],
    ids=["exponential", "log-normal", "Pareto"],
)
def test_times_have_the_law_and_the_mean_they_are_named_for(law, cdf):
    rng = fresh(1, 0, SAMPLES)
    drawn = np.array([duration(rng, law.law()) for _ in range(20_000)])
    assert stats.kstest(drawn, cdf).pvalue > 1e-6  # fails by chance once in a million seeds
    assert abs(drawn.mean() - law.mean) < 5 * drawn.std() / math.sqrt(len(drawn))


@pytest.mark.thorough
def test_a_worker_that_is_often_away_reports_in_proportion_to_the_time_it_is_there():
    """With short tasks the share of reports is on/(on + off); 5 standard errors, so below 1e-6 by chance."""
    clock = Clock(compute=Fixed(0.01), server=Tick(1.0), availability=OnOff(on=3.0, off=1.0))
    code, _, _ = history(clock, 4000, n=20, cost=1)
    share = ((code >= 0) & (code != STEP)).sum() / (20 * 4000 / 0.01)
    assert abs(share - 0.75) < 5 * math.sqrt(0.75 * 0.25 * 2 * 0.75 / (20 * 4000))


def test_workers_may_differ_in_how_often_they_are_there():
    """Ten of each kind; 5 standard errors of the share of each, so below 1e-6 by chance. Who is never away is exact."""
    kinds = {(3.0, 1.0): 0.75, (1.0, 3.0): 0.25, (1.0, 0.0): 1.0}
    on, off = (np.repeat([kind[k] for kind in kinds], 10).tolist() for k in range(2))
    clock = Clock(compute=Fixed(0.01), server=Tick(1.0), availability=OnOff(on, off))
    code, _, _ = history(clock, 2000, n=30, cost=1)
    reports = np.bincount(code[(code >= 0) & (code != STEP)], minlength=30).reshape(3, 10)
    for own, share, (there, away) in zip(reports, kinds.values(), kinds, strict=True):
        cycle = 2.0 * there * away / (there + away)  # twice the time by which absences are correlated
        spread = math.sqrt(share * (1 - share) * cycle / (10 * 2000))
        assert abs(own.mean() / 200_000 - share) <= 5 * spread + 1e-5


def test_the_same_for_all_is_the_same_for_each():
    alike, each = OnOff(2.0, 1.0), OnOff([2.0] * N, 1.0)
    clock = Clock(compute=LogNormal(1.0), slowness=(1.0, 2.0, 3.0, 10.0, 0.5), availability=alike)
    for one, two in zip(history(clock, 200), history(replace(clock, availability=each), 200), strict=True):
        assert np.array_equal(one, two)
    never = history(replace(clock, availability=OnOff(2.0, 0.0)), 200)
    for one, two in zip(never, history(replace(clock, availability=None), 200), strict=True):
        assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Fixed(-1.0), "mean = -1.0"),
        (lambda: Exponential(0.0), "mean = 0.0: must be a finite number above 0"),
        (lambda: LogNormal(1.0, -1.0), "sigma = -1.0"),
        (lambda: LogNormal(math.nan), "mean = nan"),
        (lambda: Pareto(1.0, 1.0), "alpha = 1.0: .*no mean"),
        (lambda: Tick(0.0), "seconds = 0.0"),
        (lambda: EveryArrivals(0), "k = 0"),
        (lambda: OnOff(0.0, 1.0), "on = 0.0"),
        (lambda: OnOff(1.0, -1.0), "off = -1.0: must be a finite number at least 0"),
        (lambda: OnOff([1.0, 0.0], 1.0), r"on = \[1.0, 0.0\]: must be numbers above 0"),
        (lambda: OnOff(1.0, [1.0, -2.0]), "off = .*numbers of at least 0"),
        (lambda: OnOff([], 1.0), "on = "),
        (lambda: Clock(compute=Fixed(1.0), availability=OnOff([1.0, 2.0], 1.0)).bound(3), "on = .*3 numbers for 3"),
        (lambda: Clock(compute=Fixed(1.0), availability=OnOff(1.0, (1.0, 2.0))).bound(3), "off = .*3 numbers for 3"),
        (
            lambda: Clock(compute=Fixed(1.0), availability=[OnOff(1.0, 1.0)]),
            r"availability = .*OnOff\(on=\[…\], off=\[",
        ),
        (lambda: Clock(compute=Fixed(0.0)), "compute = .*time would stand still"),
        (lambda: Clock(compute=1.0), "compute = 1.0"),
        (lambda: Clock(compute=Fixed(1.0), server="fast"), "server = 'fast'"),
        (lambda: Clock(compute=Fixed(1.0), slowness=[1.0, 0.0]), "slowness = .*above 0"),
        (lambda: Clock(compute=Fixed(1.0), slowness=-1), "slowness = -1"),
        (lambda: Clock(compute=Fixed(1.0), slowness=[1.0, 2.0]).bound(3), "3 numbers for 3 workers"),
    ],
)
def test_times_that_cannot_be_are_refused_by_name(make, words):
    with pytest.raises(BadInput, match=words):
        make()


def test_theory_that_needs_iterations_refuses_a_clock():
    with pytest.raises(Unsuitable, match="simulate"):
        Clock(compute=Fixed(1.0)).moments(3)


def test_recorded_arrivals_come_at_their_times_and_with_the_ages_they_had():
    trace = [(0.5, 1), (0.5, 2), (1.0, 1), (2.0, 0), (2.5, 1)]
    code, age, time = history(Clock(compute=Arrivals(trace)), 5, n=3)
    arrived = (code >= 0) & (code != STEP)
    assert list(zip(time[arrived].tolist(), code[arrived].tolist(), strict=True)) == trace
    assert age[arrived].tolist() == [0, 1, 1, 3, 1]


def test_a_drawn_clock_recorded_is_the_same_clock():
    drawn = Clock(compute=LogNormal(1.0), slowness=(1.0, 2.0, 3.0, 10.0, 0.5))
    code, age, time = history(drawn, 200, seed=5)
    arrived = (code >= 0) & (code != STEP)
    trace = list(zip(time[arrived].tolist(), code[arrived].tolist(), strict=True))
    again = history(Clock(compute=Arrivals(trace)), 200)
    for one, two in zip((code, age, time), again, strict=True):
        assert np.array_equal(one[: len(two)], two[: len(one)])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Arrivals([(1.0, 0), (0.5, 1)]), r"trace\[1\], time = 0.5.*never goes back"),
        (lambda: Arrivals([(1.0, 0), (2.0, -1)]), r"trace\[1\], worker = -1"),
        (lambda: Arrivals([(-1.0, 0)]), r"trace\[0\], time = -1.0"),
        (lambda: Arrivals([(1.0,)]), r"trace\[0\] = .*a pair"),
        (lambda: Arrivals([]), "trace = .*at least one row"),
        (lambda: Clock(compute=Arrivals([(1.0, 3)])).bound(3), r"trace\[0\], worker = 3: must be from 0 to 2"),
        (lambda: Clock(compute=Arrivals([(1.0, 0)]), server=WaitForAll()), "only source of time"),
        (lambda: Clock(compute=Arrivals([(1.0, 0)]), slowness=2.0), "only source of time"),
        (lambda: Clock(compute=Fixed(1.0), travel=Arrivals([(1.0, 0)])), "recorded arrivals go to compute"),
    ],
)
def test_a_trace_that_cannot_be_is_refused_with_the_line(make, words):
    with pytest.raises(BadInput, match=words):
        make()


def test_a_trace_that_is_too_short_is_noticed_before_the_run():
    import siag

    problem = siag.problems.LeastSquares.random(n=2, d=2, p=2, noise=0.1)
    clock = Clock(compute=Arrivals([(1.0, 0), (2.0, 1), (3.0, 0)]))
    step = siag.steps.Constant(0.01)
    assert siag.simulate(problem, siag.methods.SIAG(), clock, step, iterations=3).time[0, -1] == 3.0
    with refused("iterations"):
        siag.simulate(problem, siag.methods.SIAG(), clock, step, iterations=4)
    ticking = Clock(compute=Arrivals([(1.0, 0), (2.0, 1), (3.0, 0)]), server=Tick(0.5))
    assert siag.simulate(problem, siag.methods.SIAG(), ticking, step, iterations=20).time[0, -1] == 10.0
