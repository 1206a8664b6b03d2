"""Automatic: the rule its docstring states, written out; what it measures; what it refuses; how good its steps are."""

import math

import numpy as np
import pytest

import siag
from plain import as_python, conform, simulate
from siag.activity import (
    Bernoulli,
    Clock,
    Cyclic,
    EveryArrivals,
    Everyone,
    Exponential,
    Nonuniform,
    Recorded,
    Timed,
    Trace,
)
from siag.activity.agenda import FADE, FORGET, STEP
from siag.activity.trace import COLUMNS, FORMAT
from siag.activity.unfold import unfold
from siag.foundations.rng import SAMPLES, blank, fresh, key, rewind
from siag.methods import SIAG, Automatic, Prox, advance, answer, compute, cost, fade, forget, receive, shown
from siag.problems import LeastSquares, LogisticRegression, Ridge, sample
from siag.steps import Constant, Harmonic

LITERAL = LeastSquares.random(n=5, d=4, p=3, noise=0.2, seed=3, sampler="literal")  # whose curvatures are those of A
LOGISTIC = LogisticRegression.random(n=5, d=4, m=20, seed=2)
MANY = LeastSquares.random(n=9, d=4, p=3, noise=0.2, seed=4, sampler="literal")
CLOCK = Clock(compute=Exponential(1.0), slowness=[1, 2, 4, 8, 30], server=EveryArrivals(2))
STEPS = 300


def trace_with_departures():
    """A run by hand in which rows of workers that have left fade and are dropped, and one of them comes again."""
    lines, stamp, drawn, version, chance = [], [0] * 5, [0] * 5, 0, np.random.default_rng(4)
    for k in range(STEPS):
        if k in (60, 61, 140):
            lines.append(f"{version},{1 if k == 140 else 4},,,{k},{0.5 if k == 60 else 0.0},")
        i = int(chance.integers(4 if 60 < k < 200 else 5))
        lines.append(f"{version},{i},{stamp[i]},{drawn[i]},{k},,")
        drawn[i] += 1
        version += 1
        stamp[i] = version - 1
    text = "\n".join([f'# {FORMAT} {{"workers": 5}}', COLUMNS, *lines, f"# end {version}", ""])
    return Trace.parse("by hand", text.encode())


def happenings(activity, n, seed):
    """What happens one after the other: ("read", i), ("arrive", i), ("fade", i, factor), ("step",)."""
    if isinstance(activity, Timed):
        for chunk in activity.events(n, STEPS, seed, 0, 1):
            factors = chunk.factor.tolist() or [math.nan] * chunk.code.size
            for code, factor in zip(chunk.code.tolist(), factors, strict=True):
                if code == STEP:
                    yield ("step",)
                elif code < FORGET // 2:
                    yield "fade", code - FADE, factor
                else:
                    yield ("arrive", code) if code >= 0 else ("read", -1 - code)
        return
    for _, schedule in unfold(activity, n, STEPS, seed, 0):
        for start, stop in zip(schedule.start[:-1], schedule.start[1:], strict=True):
            for i in schedule.worker[start:stop].tolist():
                yield "read", i
                yield "arrive", i
            yield ("step",)


class Twin:
    """The docstring in NumPy: every sum is over all workers, and nothing is kept up to date."""

    def __init__(self, problem, w0, seed, start=1e-6):
        self.problem, self.n, self.w0, self.w = problem, problem.n, w0, w0.copy()
        self.key, self.oracle = key(seed, 0, SAMPLES), problem.oracle()
        self.drawn, self.points, self.due = [0] * self.n, [None] * self.n, [2] * self.n
        self.measured, self.flying = [0.0] * self.n, {}
        self.rows, self.b, self.h, self.stamps, self.met, self.gone = {}, {}, {}, {}, set(), set()
        self.t = self.k = 0
        self.r, self.S, self.V = start * (1 + np.linalg.norm(w0)), 0.0, 0.0
        self.ever, self.H = [], 0.0
        self.news, self.mean, self.weights, self.numbers, self.seen = False, w0.copy(), 0.0, [], set()

    def gradient(self, i, w, k):
        rng, out = blank(), np.empty(w.size)
        rewind(rng, self.key, i, k)
        with as_python():
            sample(self.oracle, rng, i, w, out)
        return out

    def read(self, i):
        k, v, before = self.drawn[i], self.w.copy(), self.points[i]
        g = self.gradient(i, v, k)
        number = self.drawn[i] = k + 1
        if number >= self.due[i] and np.any(v != before):
            way = v - before
            self.measured[i] = abs((g - self.gradient(i, before, k)) @ way) / (way @ way)
            self.due[i] = 2 * number - 1
            self.numbers.append((i, number))
        self.points[i] = v
        self.flying[i] = g, g @ v, self.measured[i], self.t

    def arrive(self, i):
        self.rows[i], self.b[i], h, self.stamps[i] = self.flying.pop(i)
        self.weights = self.weights if i in self.seen else 0.0
        self.seen.add(i)
        self.gone.discard(i)
        if h > 0:
            if h != self.h.get(i):
                self.ever.append(h)
                self.news |= i not in self.met or len(self.ever) == 6
            self.met.add(i)
            self.h[i] = h

    def fade(self, i, factor):
        self.rows[i], self.b[i] = factor * self.rows[i], factor * self.b[i]
        if factor == 0:
            self.gone.add(i)
            for known in (self.rows, self.b, self.h, self.stamps):
                known.pop(i, None)

    def step(self):
        if self.rows:
            self.move()
        self.t += 1

    def move(self):
        n, total = self.n - len(self.gone), sum(self.rows.values(), np.zeros(self.w.size))
        mean = total / n
        a = np.sqrt(np.mean([(self.t - stamp) ** 2 for stamp in self.stamps.values()]))
        G, L = np.linalg.norm(total) / len(self.rows), np.mean(list(self.h.values())) if self.h else 0.0
        moved = np.linalg.norm(self.w - self.w0)
        if moved > 0:
            self.r = max(self.r, 1.5 * self.S / moved)
        if self.news and len(self.h) >= n / 2 and len(self.ever) >= 6:
            self.r = max(self.r, 0.3 * min(np.linalg.norm(mean), moved / self.H) / max(L, np.mean(self.ever)))
        self.news, r = False, self.r
        self.V += r**2 * G**2 * (1 + a)
        eta = 2 * r**2 / np.sqrt(self.V + (r**2 * G**2 * (1 + a) ** 2 if self.h else 0.0))
        if self.h:
            eta = min(eta, 1 / (L * (1 + a)))
        self.S += eta * (mean @ self.w0 - sum(self.b.values()) / n)
        self.H += eta
        self.w = self.w - eta * mean
        self.k += 1
        weight = self.k * r**2 / G
        self.weights += weight
        self.mean += max(weight / self.weights, 0.5 / self.k) * (self.w - self.mean)

    def run(self, activity, seed):
        for what, *given in happenings(activity, self.n, seed):
            getattr(self, what)(*given)
        assert self.t == STEPS
        return self.mean


@pytest.mark.few(3)
@pytest.mark.parametrize("method", [Automatic(), Automatic(resum=1), Automatic(resum=0)], ids=["64", "1", "never"])
@pytest.mark.parametrize(
    "activity",
    [Everyone(), Cyclic(), Nonuniform(1, 60), Bernoulli(0.3), CLOCK, trace_with_departures()],
    ids=lambda activity: type(activity).__name__,
)
@pytest.mark.parametrize("problem", [LITERAL, LOGISTIC], ids=["least squares", "logistic"])
def test_it_does_what_its_docstring_says(problem, activity, method):
    w0, seed = np.linspace(-1.0, 1.0, problem.d), 11
    twin = Twin(problem, w0, seed)
    expected = twin.run(activity, seed)
    run = simulate(problem, method, activity, iterations=STEPS, w0=w0, seed=seed)
    np.testing.assert_allclose(run.w[0], expected, rtol=1e-9)
    assert np.linalg.norm(expected - w0) > 0.1  # it has gone somewhere
    assert len(twin.numbers) > 2 * problem.n


@pytest.mark.parametrize("activity", [Everyone(), Cyclic(), Nonuniform(1, 60)], ids=["all", "cyclic", "nonuniform"])
def test_it_does_what_its_docstring_says_with_many_workers_too(activity):
    w0 = np.linspace(-1.0, 1.0, MANY.d)
    run = simulate(MANY, Automatic(), activity, iterations=STEPS, w0=w0, seed=11)
    np.testing.assert_allclose(run.w[0], Twin(MANY, w0, 11).run(activity, 11), rtol=1e-9)


def test_curvatures_are_measured_with_reports_2_3_5_9_and_so_on():
    twin = Twin(LITERAL, np.ones(4), 1)
    twin.run(Cyclic(), 1)
    assert [number for i, number in twin.numbers if i == 2] == [2, 3, 5, 9, 17, 33]
    memory, oracle, rng, out = Automatic().recruit(np.ones(4), 5), LITERAL.oracle(), fresh(1, 0, SAMPLES), np.empty(6)
    chance, found, seen = np.random.default_rng(1), [], []
    with as_python():
        for number in range(1, 40):
            assert compute(memory, oracle, rng, 2, chance.random(4), out)
            found += [number] * (cost(memory) == 2)
            seen.append(out[5])
    assert found == [2, 3, 5, 9, 17, 33]
    assert seen[0] == 0.0
    assert [number for number in range(2, 40) if seen[number - 1] != seen[number - 2]] == found


def test_between_equal_points_nothing_can_be_measured_and_the_next_report_is_due():
    memory, oracle, rng, out = Automatic().recruit(np.ones(4), 5), LITERAL.oracle(), fresh(1, 0, SAMPLES), np.empty(6)
    found = []
    with as_python():
        for number, w in enumerate([1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 6.0], 1):
            compute(memory, oracle, rng, 0, np.full(4, w), out)
            found += [number] * (cost(memory) == 2)
    assert found == [4, 7]


def test_a_worker_that_forgets_measures_as_a_new_one():
    memory, oracle, rng, out = Automatic().recruit(np.ones(4), 5), LITERAL.oracle(), fresh(1, 0, SAMPLES), np.empty(6)
    chance, found = np.random.default_rng(1), []
    with as_python():
        for number in range(1, 11):
            if number == 7:
                forget(memory, 3)
                assert forget.reaches(memory)
            compute(memory, oracle, rng, 3, chance.random(4), out)
            found += [number] * (cost(memory) == 2)
            assert (out[5] == 0.0) == (number in (1, 7))
    assert found == [2, 3, 5, 8, 9]


ODD = Automatic(resum=1, wait=0.6, rows="float32")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "activity"),  # both loops, and both kinds of rows; not each with each, for the time that compiling takes
    [
        (Automatic(), Nonuniform(1, 60)),
        (Automatic(), CLOCK),
        (Automatic(), trace_with_departures()),
        (ODD, CLOCK),
        (ODD, trace_with_departures()),
    ],
    ids=["plain-ages", "plain-clock", "plain-trace", "odd-clock", "odd-trace"],
)
def test_machine_code_does_the_same_to_the_bit(method, activity):
    given = {"iterations": STEPS, "seed": 2, "record": 50}
    fast, slow = (siag.simulate(LITERAL, method, activity, **given, compiled=compiled) for compiled in (True, False))
    assert np.array_equal(fast.w, slow.w)
    assert np.array_equal(fast.error, slow.error)


def test_a_row_that_was_dropped_counts_no_more_and_comes_again():
    """Its worker's gradient, age and curvature are left out of every sum, as if it had never been."""
    method, message = Automatic(), np.array([1.0, 2.0, 0.5, 3.0])
    state, never = (method.init(np.ones(2), n) for n in (3, 2))
    with as_python():
        for each, workers in ((state, (0, 1, 2)), (never, (0, 1))):
            for i in workers:
                receive(each, i, (i + 1) * message, 0)
        fade(state, 2, 0.0)
        fade(state, 2, 0.0)  # twice is once
        for each in (state, never):
            for _ in range(5):
                advance(each, 1.0)
        assert np.array_equal(answer(state), answer(never))
        assert np.array_equal(shown(state), shown(never))
        receive(state, 2, message, 1)
        advance(state, 1.0)
        assert not np.array_equal(shown(state), shown(never))


def test_a_run_in_which_all_have_left_stands_still():
    state = Automatic().init(np.ones(2), 2)
    with as_python():
        for i in range(2):
            receive(state, i, np.ones(4), 0)
        advance(state, 1.0)
        for i in range(2):
            fade(state, i, 0.0)
        before = shown(state).copy()
        advance(state, 1.0)
    assert np.array_equal(shown(state), before)
    assert not np.array_equal(before, np.ones(2))


def test_it_does_what_every_method_must():
    """But for steps of its own, whose sizes follow from ‖w_0‖, and from all that was averaged: of who has left, too."""
    conform(Automatic(), skip=["all_active_is_gradient_descent", "departures_are_obeyed", "shifting_shifts"])


def test_a_step_of_the_users_own_is_refused_but_for_a_factor():
    with pytest.raises(siag.Unsuitable, match=r"Automatic chooses its steps itself .*Harmonic.*leave the step out"):
        siag.simulate(LITERAL, Automatic(), Everyone(), Harmonic(1.0, 20), iterations=5)
    left_out, one, two = (
        simulate(LITERAL, Automatic(), Everyone(), step, iterations=40, seed=1).w
        for step in (None, Constant(1.0), Constant(0.5))
    )
    assert np.array_equal(left_out, one)
    assert not np.array_equal(one, two)


def test_a_method_that_needs_a_step_and_has_none_says_so():
    with pytest.raises(siag.SiagError, match=r"^step is missing; SIAG needs one, .*Automatic needs none$"):
        siag.simulate(LITERAL, SIAG(), Everyone(), iterations=5)


@pytest.mark.parametrize("start", [0.0, -1.0, math.nan, "small"])
def test_a_start_that_makes_no_sense_is_refused(start):
    with pytest.raises(siag.BadInput, match=r"^start = "):
        Automatic(start=start)


def test_a_regulariser_is_refused_with_what_works():
    with pytest.raises(siag.Unsuitable, match=r"use Prox\(SIAG\(\)\) and a step"):
        Prox(Automatic(), l1=0.1)


@pytest.mark.thorough
@pytest.mark.parametrize("activity", [Nonuniform(2, 200), Cyclic()], ids=["nonuniform", "cyclic"])
def test_its_steps_are_nearly_as_good_as_chosen_ones(activity):
    """Harmonic(0.1, 20) was the best of β = 0.05, 0.1, …, 1.6 and γ = 20, 50, …, 1600 for both; F is 10-convex."""
    literal, same = (  # samples of the same law, for which there is machine code already
        LeastSquares.random(n=20, d=20, p=10, noise=0.1, seed=1, sampler=sampler) for sampler in ("literal", "exact")
    )
    given = {"iterations": 3000, "repeats": 4, "seed": 5}
    automatic = siag.simulate(literal, Automatic(), activity, **given)
    chosen = siag.simulate(same, SIAG(), activity, Harmonic(0.1, 20), **given)
    assert automatic.error[:, -1].mean() < 2.5 * chosen.error[:, -1].mean()


@pytest.mark.thorough
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("d", [3, 10])
def test_few_workers_with_single_samples_do_not_explode(n, d):
    """One curvature of a single sample may be nearly 0; when r trusted the first, errors rose up to 10¹¹ times."""
    peaks, reports = [], Clock(compute=Exponential(1.0))
    for seed in range(40):
        problem = LeastSquares.random(n=n, d=d, p=1, noise=0.1, seed=seed, sampler="literal")
        error = siag.simulate(problem, Automatic(), reports, iterations=300, seed=seed, record=300).error[0]
        peaks.append(error.max() / error[0])
    assert max(peaks) < 100
    assert np.sum(np.array(peaks) > 10) <= 1


@pytest.mark.thorough
def test_the_first_example_of_the_readme_stays_near_where_it_starts():
    """Seen by w itself, which workers read and by which losses of new samples are measured."""

    def gradient(w, sample):
        x, y = sample
        losses.append(0.5 * (x @ w - y) ** 2)
        return (x @ w - y) * x

    for seed in range(20):
        losses, chance = [], np.random.default_rng(seed)
        x = chance.standard_normal((2, 100, 3))
        streams = [(x[0], x[0] @ [1.0, 2.0, 3.0]), (x[1], x[1] @ [3.0, 2.0, 1.0])]
        runtime = siag.Simulated(times=Exponential(1.0), slowness=[1, 10], seed=seed)
        siag.train(gradient, streams, np.zeros(3), until=300, runtime=runtime, progress=False)
        assert max(losses) < 1000


def test_the_result_does_not_freeze_where_one_worker_was_alone_and_its_gradients_vanished():
    """Worker 0 has no noise and reports alone until w fits it; once worker 1 comes, both count the same."""
    problem = Ridge(np.ones((2, 1, 1)), np.array([[1.0], [3.0]]), 0.0)
    alone, both = [[0]] * 500, [[0], [1]] * 250
    for tape, optimum in ((alone, 1.0), (alone + both, 2.0)):
        run = simulate(problem, Automatic(), Recorded(tape), iterations=len(tape))
        assert run.w[0, 0] == pytest.approx(optimum, abs=0.02)


def test_the_result_follows_where_one_worker_leaves_after_gradients_have_vanished():
    """The mean of the iterates has a part of at least 1/(2k) for the k-th, whatever was before."""
    state = Automatic().init(np.zeros(1), 2)
    for k in range(2000):
        if k == 1000:
            fade(state, 1, 0.0)
        for i, target in enumerate((1.0, 3.0) if k < 1000 else (1.0,)):
            g = float(state.w[0]) - target
            receive(state, i, np.array([g, g * float(state.w[0]), 1.0]), 0)
        advance(state, 1.0)
    assert state.w[0] == pytest.approx(1.0, abs=1e-6)
    assert 1.0 < answer(state)[0] < 1.99  # on its way from 2, where it would stay without that part
