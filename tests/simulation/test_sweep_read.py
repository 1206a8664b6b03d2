"""What is read from a sweep: parameters as columns, frames, figures, and a text that fits on a screen."""

import sys
from dataclasses import dataclass, replace

import matplotlib as mpl
import numpy as np
import pytest

import siag
from siag.activity import Clock, Exponential, Uniform
from siag.methods import SGD, SIAG, Automatic, Averaged
from siag.simulation.parameters import columns_of, labels_of, parameters_of
from siag.steps import Constant, Harmonic

SIZE = {"iterations": 60, "repeats": 3, "seed": 4, "record": 6}
PROBLEMS = [siag.problems.LeastSquares.random(n=n, d=3, p=2, noise=0.1, seed=n) for n in (4, 40)]
STEP = Harmonic(0.8, 50)


@pytest.fixture(scope="module")
def cube():
    """Two problems, two methods, two activities."""
    return siag.sweep(PROBLEMS, [SIAG(), SGD()], [Uniform(3), Uniform(5)], STEP, **SIZE)


@pytest.fixture
def pyplot():
    mpl.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


# Columns -------------------------------------------------------------------------------------------------------------


def test_every_parameter_that_is_a_number_or_a_word_is_a_column(cube):
    table = cube.table()
    assert list(table)[:4] == ["problem", "method", "activity", "step"]
    assert {len(column) for column in table.values()} == {sum(len(run.t) for run in cube.runs)}
    ends = table["t"] == 60
    assert table["problem.n"][ends].tolist() == [4] * 4 + [40] * 4
    assert table["problem.seed"][ends].tolist() == [4] * 4 + [40] * 4
    assert table["method.kind"][ends].tolist() == ["SIAG", "SIAG", "SGD", "SGD"] * 2
    assert table["activity.T"][ends].tolist() == [3, 5] * 4
    assert set(table["step.beta"]) == {0.8}
    average, kinds = table["method.average"][ends], table["method.kind"][ends]
    assert (np.isnan(average) == (kinds == "SGD")).all()
    assert set(table["method.normalization"][ends][kinds == "SIAG"]) == {""}


def test_parts_within_parts_have_their_parameters_after_a_point():
    found = parameters_of(Averaged(SIAG(average=4), start=7))
    assert (found["kind"], found["method.kind"], found["method.average"], found["start"]) == ("Averaged", "SIAG", 4, 7)
    clock = parameters_of(Clock(compute=Exponential(2.0), slowness=[1.0, 2.0]))
    assert (clock["compute.kind"], clock["compute.mean"], clock["server.k"]) == ("Exponential", 2.0, 1)
    assert "slowness" not in clock


def test_what_a_problem_was_drawn_from_is_a_parameter_too():
    drawn = siag.problems.LogisticRegression.random(n=3, d=2, m=5, heterogeneity=0.5, seed=7)
    found = parameters_of(drawn)
    assert (found["n"], found["d"], found["heterogeneity"], found["seed"]) == (3, 2, 0.5, 7)
    given = parameters_of(siag.problems.LeastSquares(PROBLEMS[0].centers, 2, 0.1))
    assert (given["n"], given["p"], given["noise"]) == (4, 2, 0.1)
    assert "origin" not in given
    assert parameters_of(drawn.by_sample())["n"] == 15


def test_columns_keep_their_kind_where_all_have_a_value_and_are_nan_or_empty_elsewhere():
    rows = [{"a": 1, "b": True, "c": "x", "d": 1.5}, {"a": 2, "b": False, "c": "y"}]
    columns = {name: np.array(values) for name, values in columns_of(rows).items()}
    assert [columns[name].dtype.kind for name in "abcd"] == ["i", "b", "U", "f"]
    assert np.isnan(columns["d"][1])
    assert columns_of([{"a": 1}, {"a": "ring"}, {}])["a"] == ["1", "ring", ""]


@dataclass(frozen=True)
class Odd:
    """Parts that differ in what does not print."""

    array: object


def test_labels_are_short_and_tell_parts_apart():
    assert labels_of([SIAG()]) == ["SIAG"]
    assert labels_of([SIAG(), SIAG(average=4), SGD()]) == ["SIAG average=1", "SIAG average=4", "SGD"]
    assert labels_of([Constant(0.1), Constant(0.25)]) == ["eta=0.1", "eta=0.25"]
    assert len(set(labels_of([Odd([1]), Odd([2])]))) == 2


@pytest.mark.thorough
def test_a_methods_own_step_has_no_parameters():
    result = siag.sweep(PROBLEMS[0], [Automatic(), SIAG()], Uniform(3), STEP, **SIZE)
    assert "step.beta" not in result.parameters[0]
    assert result.labels[0]["step"] == "its own"
    assert np.isnan(result.table()["step.beta"][0])


# Frames --------------------------------------------------------------------------------------------------------------


def test_sweeps_and_runs_are_frames(cube):
    pandas = pytest.importorskip("pandas")
    frame = cube.to_frame()
    assert list(frame.columns) == list(cube.table())
    ends = frame[frame.t == 60].groupby(["problem.n", "method.kind"]).error.mean()
    wanted = np.mean([run.mean[-1] for run in cube.runs[:2]])
    assert ends.loc[4, "SIAG"] == pytest.approx(wanted)
    one = cube.runs[0].to_frame()
    assert isinstance(one, pandas.DataFrame)
    assert one.error.tolist() == cube.runs[0].mean.tolist()


def test_without_pandas_there_is_one_line_with_the_remedy(cube, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for what in (cube, cube.runs[0]):
        with pytest.raises(siag.SiagError, match=r"^pandas is missing; install it with pip install 'siag\[pandas\]'"):
            what.to_frame()


# Figures -------------------------------------------------------------------------------------------------------------


def legend(ax):
    shown = ax.get_legend() or (ax.figure.legends or [None])[0]
    return [] if shown is None else [text.get_text() for text in shown.get_texts()]


def test_a_figure_has_a_line_for_every_combination_and_a_legend_of_what_differs(cube, pyplot):
    ax = cube.plot()
    assert len(ax.lines) == 8
    assert len(ax.collections) == 8  # bands
    assert len({line.get_color() for line in ax.lines}) == 2
    assert legend(ax)[:2] == ["SIAG", "SGD"]
    assert len(legend(ax)) == 2 + 4
    assert (ax.get_xlabel(), ax.get_xscale(), ax.get_yscale()) == ("iteration t", "log", "log")
    assert ax.get_ylabel() == "‖wᵗ − w*‖², mean over repeats"
    assert ax.get_title() == "Harmonic"
    assert np.array_equal(ax.lines[0].get_ydata(), cube.runs[0].mean[1:])


def test_the_error_at_the_end_is_drawn_against_a_parameter(cube, pyplot):
    ax = cube.plot(x="problem.n", by=["method", "activity.T"])
    assert len(ax.lines) == 4
    assert ax.lines[0].get_xdata().tolist() == [4.0, 40.0]
    assert ax.lines[0].get_ydata().tolist() == [cube.runs[k].mean[-1] for k in (0, 4)]
    assert legend(ax) == ["SIAG, T = 3", "SIAG, T = 5", "SGD, T = 3", "SGD, T = 5"]
    assert (ax.get_xlabel(), ax.get_xscale()) == ("problem.n", "log")
    assert legend(cube.plot(x="problem.n"))[:2] == ["SIAG", "SGD"]
    other = cube.plot(x="activity.T", by="problem.n")
    assert legend(other) == ["n = 4", "n = 40", "SIAG", "SGD"]


def test_what_differs_beside_the_parameter_on_the_axis_makes_lines_of_their_own(pyplot):
    problems = [
        siag.problems.LeastSquares.random(n=n, d=3, p=2, noise=noise, seed=n) for n in (4, 6) for noise in (0.1, 1.0)
    ]
    ax = siag.sweep(problems, SIAG(), Uniform(3), STEP, **SIZE).plot(x="problem.n", by="problem.noise")
    assert [line.get_xdata().tolist() for line in ax.lines] == [[4.0, 6.0], [4.0, 6.0]]
    assert legend(ax) == ["noise = 0.1", "noise = 1"]


def test_many_lines_have_shades_and_a_short_legend(pyplot):
    steps = [Harmonic(0.1 * k, 50) for k in range(1, 15)]
    ax = siag.sweep(PROBLEMS[0], SIAG(), Uniform(3), steps, **(SIZE | {"repeats": 1})).plot()
    assert len(ax.lines) == 14
    assert len(legend(ax)) == 8
    assert not ax.collections  # a single run has no band


def test_too_many_of_the_rest_are_told_in_one_line(cube, pyplot):
    steps = [Harmonic(0.1 * k, 50) for k in range(1, 9)]
    result = siag.sweep(PROBLEMS[0], [SIAG(), SGD()], Uniform(3), steps, **(SIZE | {"repeats": 1}))
    assert legend(result.plot()) == ["SIAG", "SGD", "8 combinations of the rest"]


def test_axes_that_are_given_keep_their_labels_and_scale(cube, pyplot):
    ax = pyplot.subplots()[1]
    ax.set_xlabel("mine")
    assert cube.plot(ax, x="samples", alpha=0.5) is ax
    assert (ax.get_xlabel(), ax.get_title()) == ("mine", "")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x": "n"}, r"^x = 'n': must be one of t, time, samples, bytes, problem.n, "),
        ({"x": "method.kind"}, "^x = 'method.kind'"),
        ({"by": "metod"}, r"^by = 'metod': must be one of problem, method, activity, step, problem.kind"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_what_can(cube, given, words):
    with pytest.raises(siag.BadInput, match=words):
        cube.plot(**given)
    with pytest.raises(siag.Unsuitable, match="no run"):
        replace(cube, runs=[], steps=[], parameters=[], labels=[]).plot()


def test_a_sweep_prints_on_a_few_lines(cube):
    text = repr(cube)
    assert text.splitlines()[0] == "Sweep of 8 runs, 3 repeats each"
    assert "  method: SIAG, SGD" in text
    best = min(cube.runs, key=lambda run: run.mean[-1])
    assert f"from {best.mean[-1]:.4g} (" in text
