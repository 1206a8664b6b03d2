"""Parts of one's own in a comparison, methods that fail, and methods that have no place along an axis."""

import csv
import json
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner
from compared import CLOCK, PROBLEM

import siag
from siag.activity import Nonuniform, Uniform
from siag.cli import siag as group
from siag.experiments.comparison import compare
from siag.experiments.comparison.contenders import chosen
from siag.experiments.comparison.result import best_first
from siag.methods import SGD, Method
from siag.report import files

pytestmark = pytest.mark.usefixtures("compiled_here")
MINE = """
import siag

def Summing(b1=0.5):
    return siag.methods.SGD(normalization="sum" if b1 > 0.3 else "mean")

def Shifts(day, open=2):
    return siag.activity.Uniform(day + open)

def small(n=4):
    return siag.problems.LeastSquares.random(n=n, d=3, p=4, noise=0.1)

def first(w):
    return w[0]

def grumpy(w):
    raise ValueError("not today")
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module of the user's own in the current folder; its name."""
    name = f"mine_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return name


def cli(*words):
    """The exit status and what the command prints; pictures are left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "write_figure", lambda folder, name, figure, png: "data:,")
        result = CliRunner().invoke(
            group, ["compare", "--no-claims", "--iterations", "60", "--repeats", "2", *words], standalone_mode=False
        )
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.output


def test_methods_activities_problems_and_metrics_of_ones_own_are_compared_from_the_shell(mine):
    status, output = cli(
        *("--methods", f"{mine}:Summing(b1=0.9), sIAG", "--method", f"{mine}:Summing(b1=0.1)"),
        *("--activities", f"{mine}:Shifts(3, open=1), Uniform(5)", "--activity", "uniform"),
        *("--problem", f"{mine}:small(n=5)", "--evaluate", f"first={mine}:first", "--json"),
    )
    document = json.loads(output)
    assert status == 0
    names = [f"{mine}:Summing(b1=0.9)", "sIAG", f"{mine}:Summing(b1=0.1)"]
    assert [row["method"] for row in document["rows"]] == names * 3
    assert list(document["compared"]["activities"].values()) == [repr(Uniform(T)) for T in (4, 5, 15)]
    assert SGD(normalization="sum") == chosen([names[0]])[0].method
    with open("out/compare.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(np.isfinite(float(row["first"])) for row in rows)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--methods", "{}:Summing(b2=1)"), r"^method.b2 = 1: must be one of b1"),
        (("--methods", "{}:first"), r"^method.w is missing; write mine_.*:first\(w=…\)"),
        (("--methods", "{}.py:Summing"), "^methods = .*: must be the name of a module, not of its file"),
        (("--methods", "nowhere:X"), r"^methods = 'nowhere:X'.*No module named 'nowhere'"),
        (("--methods", "Summing"), r"^methods = 'Summing': must be a method, or one of: sIAG.*module:name\(key=1.0\)"),
        (("--activities", "{}:Shifts"), r"^activity.day is missing; write mine_.*:Shifts\(day=…\)"),
        (("--activities", "{}:Summing"), "must be the name of an Activity"),
        (("--activities", "unifrom"), r"^activities = 'unifrom': must be one of uniform, .*Uniform\(15\)"),
        (("--activities", "Uniform(0)"), r"^activity.T = 0"),
        (("--problem", "{}:small(m=4)"), r"^problem.m = 4: must be one of n"),
        (("--problem", "{}:first"), r"^problem = .*: must be a Problem"),
        (("--evaluate", "first"), r"^evaluate = \['first'\]: must be NAME=module:function"),
        (("--by", "time", "--activities", "uniform", "--methods", "sIAG, IAG"), r"^by = 'time': .*sIAG, IAG: only a"),
    ],
)
def test_a_mistake_is_one_line(mine, words, why):
    with pytest.raises(siag.SiagError, match=why) as caught:
        cli(*(word.replace("{}", mine) for word in words))
    assert "\n" not in str(caught.value)


# Methods that fail ---------------------------------------------------------------------------------------------------


class Mute(NamedTuple):
    w: np.ndarray


@dataclass(frozen=True)
class Unfinished(Method):
    """A method whose server half was not written yet."""

    def init(self, w0, n):
        return Mute(w0.copy())


@pytest.mark.parametrize("axis", ["iterations", "bytes"])
def test_a_method_that_fails_is_listed_with_the_reason_and_the_others_go_on(axis):
    places = {"uniform": Uniform(4)}
    found = compare(PROBLEM, ["SGD", Unfinished()], places, iterations=60, repeats=2, claims=False, axis=axis)
    assert [(entry.failed, entry.run is None) for entry in found.entries] == [(False, False), (True, True)]
    assert "receive" in found.entries[1].remark
    assert f"- Unfinished(): {found.entries[1].reason}" in found.markdown()


def test_if_no_method_is_left_it_is_an_error():
    with pytest.raises(siag.SiagError, match=r"^Unfinished\(\): .*receive"):
        compare(PROBLEM, [Unfinished()], {"uniform": Uniform(4)}, iterations=60, repeats=2, claims=False)


def test_a_metric_that_fails_is_one_line(mine):
    with pytest.raises(siag.SiagError, match=r"^sIAG: evaluate\['x'\] raised ValueError: not today$"):
        cli(
            "--problem",
            f"{mine}:small",
            "--methods",
            "sIAG",
            "--activities",
            "uniform",
            "--evaluate",
            f"x={mine}:grumpy",
        )


# Axes ----------------------------------------------------------------------------------------------------------------


class Silent(SGD):
    """A method of which nothing travels."""

    def traffic(self, d, n):
        return 0, 0


def test_who_has_no_place_along_an_axis_is_named_with_the_reason():
    places = {"uneven": Nonuniform(2, 12), "clock": CLOCK}
    size = {"iterations": 60, "repeats": 2, "claims": False}
    by_samples = compare(PROBLEM, ["sIAG", "IAG"], places, axis="samples", **size)
    assert [note.partition(";")[0] for note in by_samples.unplaced("clock")] == ["IAG: an exact gradient is no sample"]
    assert "\n- IAG: an exact gradient is no sample; not ranked there" in by_samples.markdown()
    by_time = compare(PROBLEM, ["sIAG", "IAG"], places, axis="time", **size)
    assert by_time.unplaced("clock") == []
    assert by_time.unplaced("uneven")[0].startswith("all methods: only a clock counts time; ")
    rows = best_first(map(by_time.row, by_time.ran("uneven")), "time")
    assert [row["method"] for row in rows] == ["IAG", "sIAG"]  # by what they have
    assert f"  uneven: IAG {rows[0]['iterations']:.1e}, sIAG " in repr(by_time)
    by_bytes = compare(PROBLEM, ["sIAG", Silent()], {"uneven": places["uneven"]}, axis="bytes", **size)
    assert by_bytes.unplaced("uneven")[0].startswith("Silent(normalization='mean'): it sends and reads nothing; ")
    assert [entry.run.t[-1] for entry in by_bytes.entries] == [60, 60]  # it takes no iterations from the others
    assert by_bytes.budgets["uneven"]["bytes"] > 0


@pytest.mark.parametrize(
    ("methods", "axis", "why"),
    [
        (["sIAG", "SGD"], "time", "sIAG, SGD: only a clock counts time"),
        (["IAG", "LAG"], "samples", "IAG, LAG: an exact gradient is no sample"),
        ([Silent()], "bytes", r"Silent\(normalization='mean'\): it sends and reads nothing"),
    ],
)
def test_an_axis_on_which_nobody_has_a_place_is_refused_before_any_work(methods, axis, why):
    with pytest.raises(siag.BadInput, match=rf"^axis = '{axis}': must be one by which a method can be ranked; {why}"):
        compare(PROBLEM, methods, {"a": Uniform(4), "b": Uniform(5)}, iterations=60, axis=axis)


def test_a_comparison_is_a_frame():
    pytest.importorskip("pandas")
    found = compare(PROBLEM, ["sIAG", "SAG"], {"uniform": Uniform(4)}, iterations=60, repeats=2, claims=False)
    frame = found.to_frame()
    assert frame.method.tolist() == ["sIAG", "SAG"]
    assert frame.iterations.isna().tolist() == [False, True]
