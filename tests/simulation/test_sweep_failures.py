"""A combination that fails costs no other."""

import pickle

import numpy as np
import pytest

import siag
from siag.activity import Uniform
from siag.methods import SGD, SIAG
from siag.simulation import Incomplete
from siag.simulation.simulate import Job
from siag.steps import Harmonic

PROBLEMS = [siag.problems.LeastSquares.random(n=4, d=d, p=2, noise=0.1) for d in (2, 3)]
STEP = Harmonic(0.8, 50)
SIZE = {"iterations": 60, "repeats": 3, "record": 5}


def picky(w):
    """A metric that not every w suits."""
    if w.size == 2:
        raise ValueError("two are\ntoo few")
    return w[0]


def grid(step=STEP, **options):
    return siag.sweep(PROBLEMS, [SIAG(), SGD()], Uniform(3), step, **(SIZE | options))


@pytest.mark.parametrize("threads", [1, 2])
def test_the_others_finish_and_one_error_names_each_that_failed(tmp_path, threads):
    with pytest.raises(Incomplete) as caught:
        grid(evaluate={"first": picky}, folder=tmp_path, threads=threads)
    error = caught.value
    head, *lines = str(error).splitlines()
    assert head == f"2 of 4 combinations failed; the others are finished and kept in {tmp_path}:"
    names = [f"{PROBLEMS[0]!r} × {method!r} × {Uniform(3)!r} × {STEP!r}" for method in (SIAG(), SGD())]
    assert lines == [f"{name}: evaluate['first'] raised ValueError: two are too few" for name in names]
    assert list(error.failed) == names
    alone = siag.simulate(PROBLEMS[1], SGD(), Uniform(3), STEP, **SIZE)
    assert np.array_equal(error.sweep.runs[1].error, alone.error)
    assert error.sweep.labels[1]["method"] == "SGD"
    assert len(list(tmp_path.iterdir())) == 2


def test_what_finished_is_not_run_again(tmp_path, monkeypatch):
    with pytest.raises(Incomplete):
        grid(evaluate={"first": picky}, folder=tmp_path)
    done, real = [], Job.repeat
    monkeypatch.setattr(Job, "repeat", lambda self, *rest: done.append(self.problem.d) or real(self, *rest))
    grid(evaluate={"first": lambda w: w[0]}, folder=tmp_path)
    assert set(done) == {2}


def test_an_error_of_ours_in_the_middle_is_told_as_it_is(monkeypatch):
    real = Job.repeat

    def failing(self, repeat, t, watch):
        if self.problem.d == 2 and repeat == 1:
            raise siag.SiagError("the gradient of worker 1 has shape (5,), not (2,)")
        return real(self, repeat, t, watch)

    monkeypatch.setattr(Job, "repeat", failing)
    seen = []
    with pytest.raises(Incomplete, match=r"× Harmonic.*: the gradient of worker 1 has shape") as caught:
        grid(threads=1, progress=seen.append)
    assert "the others are finished:" in str(caught.value)
    assert seen == sorted(seen)
    assert [run.w.shape[1] for run in caught.value.sweep.runs] == [3, 3]


def test_whatever_else_is_raised_is_named_and_kept_as_the_cause(monkeypatch):
    def failing(self, repeat, t, watch):
        raise ZeroDivisionError("by 0")

    monkeypatch.setattr(Job, "repeat", failing)
    with pytest.raises(Incomplete, match="ZeroDivisionError: by 0") as caught:
        grid(threads=1)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_so_it_is_with_code_that_fails_when_it_is_first_tried(monkeypatch):
    real = Job.check

    def failing(self, threads=1):
        if self.problem.d == 2:
            raise siag.SiagError("sample reaches beyond an array")
        real(self, threads)

    monkeypatch.setattr(Job, "check", failing)
    with pytest.raises(Incomplete, match="beyond an array") as caught:
        grid()
    assert len(caught.value.sweep.runs) == 2


def test_so_it_is_with_a_search_for_steps_that_fails(monkeypatch):
    real = Job.repeat

    def failing(self, repeat, t, watch):
        if self.problem.d == 2:
            raise siag.SiagError("no")
        return real(self, repeat, t, watch)

    monkeypatch.setattr(Job, "repeat", failing)
    with pytest.raises(Incomplete, match=r"× Tuned\(eta=None\): no") as caught:
        grid(step=siag.Tuned())
    assert len(caught.value.sweep.runs) == 2


def test_if_all_fail_nothing_is_said_of_others():
    def broken(w):
        raise KeyError

    with pytest.raises(Incomplete) as caught:
        grid(evaluate={"x": broken})
    assert str(caught.value).splitlines()[0] == "4 of 4 combinations failed:"
    assert str(caught.value).endswith(": evaluate['x'] raised KeyError: KeyError")
    assert caught.value.sweep.runs == []
    assert caught.value.sweep.table() == {}
    assert "0 runs" in repr(caught.value.sweep)


def test_the_error_travels_between_processes():
    with pytest.raises(Incomplete) as caught:
        grid(evaluate={"first": picky})
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert len(again.sweep.runs) == 2


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()])
def test_what_is_not_the_combinations_own_fault_ends_the_sweep(monkeypatch, error):
    def failing(self, repeat, t, watch):
        raise error

    monkeypatch.setattr(Job, "repeat", failing)
    with pytest.raises(type(error)):
        grid(threads=1)
