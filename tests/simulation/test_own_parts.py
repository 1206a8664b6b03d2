"""Parts of the user's own that are wrong: refused in a line, never read out of bounds."""

import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

import siag
from siag.activity import Activity, active
from siag.checks import Bowl
from siag.methods import Method, advance, receive
from siag.steps import Step

PROBLEM = siag.problems.LeastSquares.random(n=3, d=2, p=2, noise=0.1)
METHOD, ACTIVITY, STEP = siag.methods.SIAG(), siag.activity.Uniform(3), siag.steps.Constant(0.1)


class Sizes(Step):
    def __init__(self, values):
        self.values = values

    def sizes(self, t):
        return np.asarray(self.values)[: len(t)]


@pytest.mark.parametrize("values", [[-0.1] * 50, [np.nan] * 50, [np.inf] * 50, [0.1] * 3, [[0.1] * 50]])
def test_a_step_of_the_users_own_must_be_finite_not_negative_and_one_per_iteration(values):
    with pytest.raises(siag.BadInput, match=r"step = .* finite and not negative"):
        siag.simulate(PROBLEM, METHOD, ACTIVITY, Sizes(values), iterations=50)


class Wrong(Bowl):
    def __init__(self, optimum, **facts):
        super().__init__(np.zeros((3, 2)), np.ones(2))
        object.__setattr__(self, "facts", {"optimum": optimum, "n": 3, "d": 2} | facts)

    optimum = property(lambda self: self.facts["optimum"])
    start = property(lambda self: self.facts.get("start", np.zeros(2)))
    n = property(lambda self: self.facts["n"])
    d = property(lambda self: self.facts["d"])


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (Wrong(np.zeros(3)), "problem.optimum = .* shape"),
        (Wrong(None, start=np.zeros(3)), "problem.start = .* shape"),
        (Wrong(np.zeros((1, 2))), "problem.optimum = .* shape"),
        (Wrong(np.array([np.nan, 0.0])), "problem.optimum = .* NaN"),
        (Wrong(np.zeros(2), n=0), "problem.n = 0"),
        (Wrong(np.zeros(2), n=3.0), "problem.n = 3.0"),
        (Wrong(np.zeros(2), d=0), "problem.d = 0"),
    ],
)
def test_a_problem_of_the_users_own_must_have_a_size_and_points_that_fit(problem, words):
    with pytest.raises(siag.BadInput, match=words):
        siag.simulate(problem, METHOD, ACTIVITY, STEP, iterations=5)


class State(NamedTuple):
    w: np.ndarray


@pytest.mark.parametrize("w", [np.zeros(3), np.zeros(2, np.float32), None, 1.0])
def test_a_method_of_the_users_own_must_start_with_a_w_of_the_right_kind(w):
    class Odd(Method):
        def init(self, w0, n):
            return State(w)

    with pytest.raises(siag.Unsuitable, match="init must return a state with a field w"):
        siag.simulate(PROBLEM, Odd(), ACTIVITY, STEP, iterations=5)


class Names(NamedTuple):
    workers: np.ndarray


@active.when(Names)
def those_named(state, rng, t, out):
    for k in range(state.workers.size):
        out[k] = state.workers[k]
    return state.workers.size


@pytest.mark.parametrize("workers", [[2, 1], [1, 1], [3], [-1]])
def test_an_activity_of_the_users_own_must_name_workers_once_and_in_order(workers):
    class Odd(Activity):
        def start(self, n, rng):
            return Names(np.array(workers))

        def bound(self, n):
            return None

        def moments(self, n):
            raise AssertionError

    with pytest.raises(siag.SiagError, match="Odd"):
        siag.simulate(PROBLEM, METHOD, Odd(), STEP, iterations=5)


class Roomy(NamedTuple):
    """What is written to by way of a temporary array, as one would in NumPy."""

    w: np.ndarray
    total: np.ndarray


@receive.when(Roomy)
def add_copy(state, i, message, age):
    kept = message.copy()
    for j in range(kept.size):
        state.total[j] += kept[j]


@advance.when(Roomy)
def step_down(state, eta):
    for j in range(state.w.size):
        state.w[j] -= eta / 3.0 * state.total[j]
        state.total[j] = 0.0


@siag.compiled
def report_and_step(state, message):
    receive(state, 0, message, 0)
    advance(state, 0.6)


def test_functions_that_allocate_arrays_are_compiled_all_the_same():
    state = Roomy(np.array([1.0, 2.0]), np.zeros(2))
    report_and_step(state, np.array([5.0, 10.0]))
    np.testing.assert_allclose(state.w, [0.0, 0.0], atol=1e-15)
    assert report_and_step.settled(state, np.zeros(2)) is not report_and_step.plain


def test_bare_machine_code_is_that_for_the_types_and_layouts_given():
    state, together, apart = (
        Roomy(np.zeros(2), np.zeros(2)),
        np.array([5.0, 10.0]),
        np.array([5.0, 0.0, 10.0, 0.0])[::2],
    )
    for message in (together, apart):
        report_and_step(state, message)
    for message in (together, apart):
        state.w[:] = 0.0
        report_and_step.bare(state, message)(state, message)
        np.testing.assert_allclose(state.w, [-1.0, -2.0])


@pytest.mark.parametrize("d", [1, 300_000])
def test_an_interrupt_is_obeyed_within_one_short_chunk_however_large_the_model(d):
    """The work between two looks at the clock is bounded in numbers touched, not in gradients."""
    reports = []
    problem = Bowl(np.zeros((2, d)), np.ones(d))
    siag.simulate(problem, METHOD, siag.activity.Everyone(), STEP, iterations=40, threads=1, progress=reports.append)
    assert len(reports) == 1 if d == 1 else len(reports) >= 10


def test_ctrl_c_ends_a_run_with_one_line_and_status_130(tmp_path):
    script = (
        "import os, signal, sys, siag.cli, siag.experiments.config as config\n"
        "def run(self, progress=False):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    while True: pass\n"
        "config.Experiment.run = run\n"
        "sys.argv = ['siag', 'run', sys.argv[1], '--out', sys.argv[2]]\n"
        "siag.cli.main()\n"
    )
    file = tmp_path / "x.toml"
    file.write_text(
        "[problem]\nkind='LeastSquares'\nn=2\nd=2\np=2\nnoise=0\n[method]\nkind='SIAG'\n[activity]\nkind='Everyone'\n"
        "[step]\nkind='Constant'\neta=0.1\n[run]\niterations=10\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, str(file), str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert result.returncode == 130
    assert result.stderr == "siag: interrupted; no half-written file was left behind\n"
    assert list((tmp_path / "out").iterdir()) == []
