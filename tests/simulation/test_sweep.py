"""Sweeps: what `simulate` gives, for every combination, and never the same work twice."""

import importlib

import numpy as np
import pytest

import siag
from siag.checks import Bowl
from siag.simulation.simulate import Job

swept = importlib.import_module("siag.simulation.sweep")  # the package's own name is the function
PROBLEMS = [siag.problems.LeastSquares.random(n=n, d=3, p=2, noise=0.1, seed=n) for n in (4, 6)]
METHODS = [siag.methods.SIAG(), siag.methods.SGD()]
ACTIVITIES = [siag.activity.Uniform(3), siag.activity.Clock(compute=siag.activity.Exponential(1.0))]
STEP = siag.steps.Harmonic(0.8, 50)
SIZE = {"iterations": 120, "repeats": 3, "seed": 4, "record": 7}


def grid(**options):
    return siag.sweep(PROBLEMS, METHODS, ACTIVITIES, STEP, **(SIZE | options))


@pytest.fixture
def work(monkeypatch):
    """The (combination, repeat) pairs that are really run."""
    done, real = [], Job.repeat

    def counted(self, repeat, t, watch):
        done.append((repr(self.problem), repr(self.method), repr(self.activity), repeat))
        return real(self, repeat, t, watch)

    monkeypatch.setattr(Job, "repeat", counted)
    return done


def test_every_combination_is_run_in_order_and_is_what_simulate_gives():
    result = grid()
    assert len(result.runs) == 8
    wanted = [
        siag.simulate(problem, method, activity, STEP, **SIZE)
        for problem in PROBLEMS
        for method in METHODS
        for activity in ACTIVITIES
    ]
    for found, expected in zip(result.runs, wanted, strict=True):
        assert found.about == expected.about
        for name in ("error", "samples", "time", "w", "t"):
            assert np.array_equal(getattr(found, name), getattr(expected, name))


def test_the_table_has_a_row_for_every_combination_and_point():
    result = grid(threads=1)
    table = result.table()
    lengths = {len(column) for column in table.values()}
    assert lengths == {sum(len(run.t) for run in result.runs)}
    assert set(table["method"]) == {repr(method) for method in METHODS}
    last = table["error"][table["t"] == 120]
    assert last.tolist() == [run.mean[-1] for run in result.runs]


def test_what_is_finished_is_not_run_again(tmp_path, work):
    first = grid(folder=tmp_path)
    assert len(work) == 24
    work.clear()
    second = grid(folder=tmp_path)
    assert work == []
    assert all(np.array_equal(a.error, b.error) for a, b in zip(first.runs, second.runs, strict=True))


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path, work):
    def interrupt(fraction):
        if fraction > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grid(folder=tmp_path, progress=interrupt, threads=1)
    finished = len(list(tmp_path.iterdir()))
    assert 0 < finished < 8
    work.clear()
    result = grid(folder=tmp_path)
    assert len(work) == 3 * (8 - finished)
    whole = grid()
    assert all(np.array_equal(a.error, b.error) for a, b in zip(result.runs, whole.runs, strict=True))


def test_anything_that_changes_a_result_makes_it_run_anew(tmp_path, work):
    one = [PROBLEMS[0]], [METHODS[0]], [ACTIVITIES[0]]
    siag.sweep(*one, STEP, folder=tmp_path, **SIZE)
    other = siag.problems.LeastSquares(PROBLEMS[0].centers + 1e-9, 2, 0.1)
    same_words = siag.problems.LeastSquares(PROBLEMS[0].centers, 2, 0.1)
    changes = [
        (([other], *one[1:], STEP), {}),
        (([same_words], *one[1:], STEP), {}),
        ((one[0], [siag.methods.SIAG(wait=1.0)], one[2], STEP), {}),
        ((*one[:2], [siag.activity.Uniform(4)], STEP), {}),
        ((*one, siag.steps.Harmonic(0.8, 51)), {}),
        ((*one, STEP), {"seed": 5}),
        ((*one, STEP), {"repeats": 4}),
        ((*one, STEP), {"iterations": 121}),
        ((*one, STEP), {"record": 8}),
    ]
    for parts, options in changes:
        work.clear()
        siag.sweep(*parts, folder=tmp_path, **(SIZE | options))
        assert work, (parts, options)


def test_a_damaged_file_of_a_sweep_is_run_anew(tmp_path, work):
    grid(folder=tmp_path)
    victim = sorted(tmp_path.iterdir())[0]
    victim.write_bytes(victim.read_bytes()[:100])
    work.clear()
    grid(folder=tmp_path)
    assert len(work) == 3


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (([], METHODS, ACTIVITIES, STEP), "problem = .*at least one"),
        ((PROBLEMS, METHODS, [], STEP), "activity = .*at least one"),
        ((PROBLEMS, [METHODS[0], siag.methods.SIAG()], ACTIVITIES, STEP), "method = .*name it once"),
        (([PROBLEMS[0], PROBLEMS[0]], METHODS, ACTIVITIES, STEP), "problem = .*name it once"),
        ((PROBLEMS, [siag.methods.SAG()], ACTIVITIES, STEP), r"LeastSquares.* × SAG.* × Uniform.*use IAG, or SIAG"),
        ((PROBLEMS, METHODS, siag.activity.Bernoulli([0.5] * 4), STEP), "n=6.*one number, or 6 numbers"),
        ((PROBLEMS, METHODS, ACTIVITIES, [STEP, 3]), "step = 3 is not a Step"),
    ],
)
def test_an_impossible_grid_is_refused_before_any_work_naming_what_is_wrong(parts, words, work):
    with pytest.raises(siag.SiagError, match=words):
        siag.sweep(*parts, **SIZE)
    assert work == []


def test_problems_of_the_users_own_that_print_alike_are_not_mistaken_for_one_another():
    bowls = [Bowl(np.full((3, 2), level), np.ones(2)) for level in (0.0, 1.0)]
    result = siag.sweep(bowls, METHODS[0], siag.activity.Everyone(), siag.steps.Constant(0.1), iterations=50)
    assert not np.array_equal(result.runs[0].w, result.runs[1].w)


def test_the_data_of_a_part_are_looked_at_once_however_many_combinations_there_are(tmp_path, monkeypatch):
    looked, real = [], swept._mark
    monkeypatch.setattr(swept, "_mark", lambda part: looked.append(part) or real(part))
    steps = [siag.steps.Harmonic(0.8, 50 + k) for k in range(6)]
    siag.sweep(PROBLEMS, METHODS, ACTIVITIES[0], steps, iterations=2, record=2, folder=tmp_path)
    for parts, times in ((PROBLEMS, 2), (steps, 2)):  # as values along an axis, and in the names of files
        assert [sum(each is part for each in looked) for part in parts] == [times] * len(parts)


def test_a_method_that_finds_its_steps_runs_once_beside_others_that_are_given_some():
    automatic, parts = siag.methods.Automatic(), (PROBLEMS[0], [siag.methods.Automatic(), METHODS[0]], ACTIVITIES[0])
    for steps in ([siag.steps.Constant(0.05)], [siag.steps.Constant(0.05), STEP]):
        result = siag.sweep(*parts, steps, **SIZE)
        assert result.steps == ["its own", *map(repr, steps)]
        table = result.table()
        assert set(table["step"][table["method"] == repr(automatic)]) == {"its own"}
        alone = siag.simulate(PROBLEMS[0], automatic, ACTIVITIES[0], **SIZE)
        assert np.array_equal(result.runs[0].error, alone.error)


def test_steps_for_methods_that_find_theirs_and_no_others_mean_what_they_mean_in_simulate():
    factors = [siag.steps.Constant(0.5), siag.steps.Constant(2.0)]
    result = siag.sweep(PROBLEMS[0], siag.methods.Automatic(), ACTIVITIES[0], factors, **SIZE)
    assert result.steps == list(map(repr, factors))
    one = siag.simulate(PROBLEMS[0], siag.methods.Automatic(), ACTIVITIES[0], factors[1], **SIZE)
    assert np.array_equal(result.runs[1].error, one.error)
    assert siag.sweep(PROBLEMS[0], siag.methods.Automatic(), ACTIVITIES[0], **SIZE).steps == ["its own"]


def test_one_bar_for_all():
    seen = []
    grid(progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_a_sweep_counts_the_memory_of_all_its_threads(monkeypatch):
    from siag.foundations import memory

    problem = siag.problems.LeastSquares.random(n=50, d=10, p=4, noise=0.1)  # a table of 4000 bytes
    monkeypatch.setattr(memory, "available", lambda: 6000)
    ask = [
        problem,
        siag.methods.SIAG(),
        siag.activity.Uniform(5),
        [siag.steps.Constant(0.01), siag.steps.Constant(0.02)],
    ]
    siag.sweep(*ask, iterations=10, threads=1)
    with pytest.raises(siag.Unsuitable, match=r"2 at a time, needs .* or fewer threads"):
        siag.sweep(*ask, iterations=10, threads=2)
