"""`replay`: a live run again from its trace alone, and nothing in a trace that is ever run as code."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import siag
from plain import as_python
from siag.activity import EveryArrivals, Tick
from siag.cli import siag as group
from siag.experiments.replay import made_again, replay
from siag.foundations.errors import BadFile, BadInput
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.methods import compute, forget
from siag.server import Departed, Guard, ParameterServer, Refused
from siag.storage import TraceWriter

N, D = 5, 3
LEAST_SQUARES = siag.problems.LeastSquares.random(n=N, d=D, p=2, noise=0.1, seed=2)
LITERAL = siag.problems.LeastSquares.random(n=N, d=D, p=2, noise=0.25, seed=7, sampler="literal")
LOGISTIC = siag.problems.LogisticRegression.random(n=N, d=D, m=9, heterogeneity=0.5, batch=2, seed=4)
STEPS = siag.steps.Harmonic(beta=0.3, gamma=40.5)


def live(path, problem, method=None, step=STEPS, server=None, w0=None, seed=11, about=()):
    """A run of a server whose workers are moved by hand, at random but always the same; return the server."""
    method = siag.methods.SIAG() if method is None else method
    start = np.zeros(problem.d) if w0 is None else w0
    words = {
        "problem": repr(problem),
        "method": repr(method),
        "step": repr(step),
        "w0": "0" if w0 is None else w0.tolist(),
        "workers": problem.n,
        "seed": seed,
    }
    writer = TraceWriter(path, {name: value for name, value in (words | dict(about)).items() if value is not None})
    options = {"departed": Departed(4.0), "guard": Guard(jump=None), "trace": writer}
    made = ParameterServer(method, step, start, problem.n, server=server or EveryArrivals(), **options)
    rng, draw, flying = np.random.default_rng(0), blank(), {}
    oracle, memory, drawn = problem.oracle(), method.recruit(start, problem.n), [0] * problem.n
    for k in range(400):
        i, now = int(rng.integers(problem.n)), 0.01 * k
        if i == 1 and 250 < k < 350:
            pass  # it has left, and will be back
        elif i in flying and rng.random() < 0.7:
            made.push(i, *flying.pop(i), now)
        else:  # what it had computed before is lost
            read, message = np.empty(problem.d), np.empty(problem.d)
            stamp = made.pull(read)
            rewind(draw, key(seed, 0, SAMPLES), i, drawn[i])
            compute(memory, oracle, draw, i, read, message)
            flying[i] = (stamp, message, drawn[i])
            drawn[i] += 1
        if isinstance(made.pace, Tick) and k % 3 == 0:
            made.tick(now)
        if k == 250:
            made.leave(1, now)
    writer.close(made.version)
    return made


@pytest.mark.parametrize("server", [EveryArrivals(), EveryArrivals(3), Tick(0.03)], ids=repr)
def test_a_run_is_repeated_bit_for_bit_from_its_trace_alone(tmp_path, server):
    made = live(tmp_path / "run.trace.gz", LEAST_SQUARES, server=server)
    run = replay(tmp_path / "run.trace.gz")
    assert np.array_equal(run.w[0], made.w)
    assert run.t[-1] == made.version
    assert made.w.any()
    assert made.fades > 0


@pytest.mark.parametrize("problem", [LITERAL, LOGISTIC], ids=repr)
def test_so_it_is_on_any_problem(tmp_path, problem):
    with as_python():
        made = live(tmp_path / "run.trace.gz", problem, server=EveryArrivals(3))
        run = replay(tmp_path / "run.trace.gz")
    assert np.array_equal(run.w[0], made.w)
    assert run.t[-1] == made.version
    assert made.w.any()
    assert made.fades > 0


@pytest.mark.parametrize(
    ("method", "step"),
    [
        (siag.methods.SIAG(resum=3, wait=0.4, rows="float32"), siag.steps.Constant(0.012345678901234567)),
        (siag.methods.SGD(normalization="sum"), siag.steps.Harmonic(1 / 3, 1e2)),
        (siag.methods.IAG(), siag.steps.Constant(1e-3)),
        (siag.methods.Prox(siag.methods.SIAG(wait=0.4), l1=0.01, high=1.0), siag.steps.Constant(0.01)),
        (siag.methods.Averaged(siag.methods.Prox(siag.methods.IAG(), l1=0.01), start=9), siag.steps.Constant(0.01)),
        (siag.methods.Averaged(siag.methods.AsyncSGD()), siag.steps.DelayAdaptive(0.01, ages="arrivals")),
    ],
    ids=repr,
)
def test_method_and_step_come_back_to_the_last_digit(tmp_path, method, step):
    w0 = np.array([0.1, -1 / 3, 1e-17])
    with as_python():
        made = live(tmp_path / "t", LEAST_SQUARES, method, step, w0=w0)
        run = replay(tmp_path / "t", record=5)
    assert np.array_equal(run.w[0], made.w)
    assert (run.about["method"], run.about["step"]) == (repr(method), repr(step))
    assert len(run.t) <= 5
    assert run.error[0, 0] == pytest.approx(np.square(w0 - LEAST_SQUARES.optimum).sum())


@pytest.mark.thorough
def test_parts_that_are_given_are_used(tmp_path):
    own = siag.problems.LeastSquares(LEAST_SQUARES.centers, 2, 0.1)
    made = live(tmp_path / "t", own, seed=2**64 - 1, method=siag.methods.SGD())
    with pytest.raises(BadFile, match=r"LeastSquares\(n=5, .* is not a Problem that can be made again; give it: siag"):
        replay(tmp_path / "t")  # its centers are not in how it prints
    assert np.array_equal(replay(tmp_path / "t", own).w[0], made.w)
    assert np.array_equal(siag.replay(tmp_path / "t", own, siag.methods.SGD(), STEPS).w[0], made.w)
    assert not np.array_equal(siag.replay(tmp_path / "t", own, step=siag.steps.Constant(0.01)).w[0], made.w)
    other = siag.problems.LeastSquares.random(n=N + 1, d=D, p=2, noise=0.1)
    with pytest.raises(BadInput, match=r"problem = LeastSquares.*one of 5 workers, as the trace"):
        replay(tmp_path / "t", other)


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"problem": "gradient on streams"}, "'gradient on streams' is not a Problem that can be made again; give it"),
        ({"problem": None}, "it does not say which problem; give it: siag.replay"),
        ({"method": "HeavyBall(momentum=0.5)"}, r"'HeavyBall\(momentum=0.5\)' is not a Method .*method=…"),
        ({"step": "Constant(eta=-1.0)"}, r"'Constant\(eta=-1.0\)' is not a Step"),
        ({"step": "Constant(0.1, 0.2)"}, "is not a Step"),
        ({"w0": "not kept"}, "did not start from 0, and where it did was too long to keep"),
        ({"w0": "somewhere"}, "w0 = 'somewhere': must be an array"),
        ({"w0": [0.0, float("nan"), 0.0]}, "w0 = .*NaN"),
        ({"seed": "abc"}, "seed = 'abc': must be a whole number"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_what_cannot_be_made_again_is_named_with_the_file_and_a_remedy(tmp_path, about, words):
    live(tmp_path / "run.trace", LEAST_SQUARES, about=about)
    with pytest.raises(BadFile, match=f"run.trace: .*{words}"):
        replay(tmp_path / "run.trace")


def test_a_run_without_a_step_cannot_be_replayed(tmp_path):
    TraceWriter(tmp_path / "t", {"workers": 1}).close(0)
    with pytest.raises(BadFile, match="t: no step was taken in this run, so there is nothing to replay"):
        replay(tmp_path / "t")


def test_a_start_of_another_length_is_refused(tmp_path):
    live(tmp_path / "t", LEAST_SQUARES, w0=np.ones(D), about={"problem": repr(LEAST_SQUARES).replace("d=3", "d=4")})
    with pytest.raises(BadInput, match="w0 = "):
        replay(tmp_path / "t")


EVIL = [
    "Prox(method={{'kind': 'evil:run'}})",
    "Prox(method=evil.run())",
    "Prox(evil.run())",
    "Prox(open('{file}', 'w'))",
    "Prox(SIAG(wait=open('{file}', 'w')))",
    "Prox(*[open('{file}', 'w')])",
    "Prox(method=Prox)",
    "Averaged(" * 80 + "SIAG()" + ")" * 80,
    "__import__('os').system('touch {file}')",
    "SIAG(wait=__import__('os').system('touch {file}'))",
    "SIAG(**__import__('os').__dict__)",
    "SIAG(*[open('{file}', 'w')])",
    "SIAG(kind='pathlib:Path', args='{file}')",
    "SIAG(kind='evil:run')",
    "evil:run",
    "evil.run()",
    "SIAG.__init__.__globals__['__builtins__']['open'](file='{file}')",
    "(lambda: open('{file}', 'w'))()",
    "[open('{file}', 'w') for _ in (1,)]",
    "SIAG(wait=[open('{file}', 'w') for _ in (1,)])",
    'SIAG(wait=f\'{{open("{file}", "w")}}\')',
    "SIAG().__class__(wait=0.5)",
    "SIAG.mro()",
    "eval(expression='1')",
    "SIAG(wait=0.5); open('{file}', 'w')",
    "SIAG(wait=(x := open('{file}', 'w')))",
    "SIAG(wait={{[]}})",
    "SIAG(wait=0.5, wait=0.6)",
    "SIAG(unknown=1)",
    "SIAG(wait=1e999)",
    "SIAG(resum='many')",
    "SIAG",
    "",
    "\0",
    "(" * 100_000,
    "SIAG(wait=" + "-" * 100_000 + "1)",
    "SIAG(wait=" + "(" * 150 + "1" + ",)" * 150 + ")",
    "SIAG(resum=" + "9" * 10_000 + ")",
    "SIAG(wait={'kind': 'Arrivals', 'trace': []})",
]


@pytest.mark.parametrize("text", EVIL, ids=lambda text: text[:40])
@pytest.mark.parametrize("role", ["problem", "method", "step"])
def test_what_a_trace_says_is_never_run(tmp_path, monkeypatch, role, text):
    file = tmp_path / "run"
    (tmp_path / "evil.py").write_text(f"open({str(file)!r}, 'w')\ndef run(**_): pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    said = text.replace("{file}", str(file)).replace("{{", "{").replace("}}", "}")
    for each in (said, said.replace("SIAG", "Constant"), said.replace("SIAG", "LeastSquares.random")):
        with pytest.raises(BadFile, match=r"t: .*; give it: siag.replay"):
            made_again(role, {role: each}, "t")
    assert not file.exists()
    assert "evil" not in sys.modules


def test_a_trace_with_such_texts_is_refused_whole(tmp_path):
    file = tmp_path / "run"
    live(tmp_path / "t", LEAST_SQUARES, about={"step": f"Constant(eta=open({str(file)!r}, 'w'))"})
    with pytest.raises(BadFile, match="is not a Step that can be made again"):
        replay(tmp_path / "t")
    assert not file.exists()


# From the shell ------------------------------------------------------------------------------------------------------


def command(*words):
    return subprocess.run([sys.executable, "-m", "siag", *map(str, words)], capture_output=True, text=True, check=False)


@pytest.mark.thorough
def test_from_the_shell_it_is_the_same_bit_for_bit(tmp_path):
    made = live(tmp_path / "run.trace.gz", LEAST_SQUARES)
    result = command("replay", tmp_path / "run.trace.gz", "--out", tmp_path / "out", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    told = json.loads(result.stdout)
    assert told["problem"] == repr(LEAST_SQUARES)
    assert told["t"][-1] == made.version
    assert np.array_equal(siag.load(tmp_path / "out" / "run.npz").w[0], made.w)


def test_from_the_shell_it_is_another_method_on_the_same_reports(tmp_path, monkeypatch):
    live(tmp_path / "t", LEAST_SQUARES)
    (tmp_path / "mine_replayed.py").write_text(
        "from siag.methods import SGD\n\ndef Mine(kind='mean'):\n    return SGD(normalization=kind)\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["replay", "t", "--method", "mine_replayed:Mine(kind='sum')", "--step", "Constant(0.01)", "--json"]
    result = CliRunner().invoke(group, words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    other = replay(tmp_path / "t", method=siag.methods.SGD(normalization="sum"), step=siag.steps.Constant(0.01))
    assert told["method"] == other.about["method"]
    assert told["error"] == other.mean.tolist()
    for option, text, why in (
        ("--method", "mine_replayed:Yours", "^method = 'mine_replayed:Yours'"),
        ("--method", "SIAGG", "did you mean SIAG"),
        ("--step", "Constant(-1)", r"^step.eta = -1"),
        ("--step", "Tuned()", "is not a Step"),
        ("--problem", "LeastSquares(n=9, d=3, p=2, noise=0.1)", "one of 5 workers, as the trace"),
    ):
        failed = CliRunner().invoke(group, ["replay", "t", option, text])
        assert re.search(why, str(failed.exception)), failed.exception
        assert isinstance(failed.exception, siag.SiagError)


def test_from_the_shell_an_error_is_one_line_and_a_status(tmp_path):
    (tmp_path / "t").write_text("0,1\n")
    result = command("replay", tmp_path / "t")
    assert result.returncode not in (0, 1)
    assert len(result.stderr.splitlines()) == 1
    assert str(tmp_path / "t") in result.stderr


RIDGE = siag.problems.Ridge.random(n=N, d=D, m=8, spread=0.5, tilt=0.3, regularization=0.1, batch=2, seed=3)
LAG, SCAFFOLD = siag.methods.LAG(), siag.methods.SCAFFOLD(steps=2, size=0.02)
ADAPTIVE = siag.steps.DelayAdaptive(0.05, variant="second", ages="arrivals", horizon=8)
SERVERS = [EveryArrivals(), EveryArrivals(2), Tick(0.03)]
REMEMBERING = [
    (siag.methods.Automatic(), siag.steps.Constant(1.0), EveryArrivals(2)),
    (siag.methods.LAG(gradients="sample", weight=3.0), siag.steps.Constant(0.05), EveryArrivals()),
    (siag.methods.Averaged(replace(SCAFFOLD, option=1)), siag.steps.Constant(0.5), EveryArrivals(2)),
    (siag.methods.SIAG(), siag.steps.DelayAdaptive(0.1), Tick(0.03)),
    (siag.methods.AsyncSGD(), ADAPTIVE, EveryArrivals(2)),
]


class Fallible:
    """A server and its workers, moved by hand: reports are refused, workers and the server start anew."""

    def __init__(self, path, method, step, server, seed=5):
        self.method, self.step, self.when, self.seed = method, step, server, seed
        about = {"workers": N, "seed": seed, "w0": "0"}
        self.trace = TraceWriter(path, about)
        self.oracle, self.rng, self.key = RIDGE.oracle(), blank(), key(seed, 0, SAMPLES)
        self.memory = method.recruit(np.zeros(D), N)
        self.drawn, self.flying, self.forgets = [0] * N, {}, 0
        self.server = self.made()
        for i in range(N):
            self.server.join(i, 0.0)

    def made(self):
        options = {"departed": Departed(0), "guard": Guard(jump=None, strikes=10**6), "trace": self.trace}
        return ParameterServer(self.method, self.step, np.zeros(D), N, server=self.when, **options)

    def compute(self, i):
        read, out = np.empty(self.server.shown.size), np.empty(self.server.message_size)
        stamp = self.server.pull(read)
        rewind(self.rng, self.key, i, self.drawn[i])
        send = compute(self.memory, self.oracle, self.rng, i, read, out)
        self.flying[i] = stamp, send, out, self.drawn[i]
        self.drawn[i] += 1

    def deliver(self, i, now):
        stamp, send, out, sample = self.flying.pop(i)
        if send:
            self.server.push(i, stamp, out, sample, now)
        else:
            self.server.skip(i, stamp, sample, now)

    def spoil(self, i, now):
        stamp, _, out, sample = self.flying.pop(i)
        with pytest.raises(Refused):
            self.server.push(i, stamp, np.full_like(out, np.nan), sample, now)
        forget(self.memory, i)

    def crash(self, i, now):
        self.flying.pop(i, None)
        forget(self.memory, i)
        self.server.join(i, now)

    def restart(self, now):
        arrays, meta = {name: a.copy() for name, a in self.server.arrays().items()}, self.server.meta(now)
        self.server = self.made()
        for name, array in self.server.arrays().items():
            array[...] = arrays[name]
        self.server.restore(json.loads(json.dumps(meta)), now)
        for i in range(N):
            self.crash(i, now)

    def run(self, count):
        chance = np.random.default_rng(1)
        for k in range(count):
            i, luck, now = int(chance.integers(N)), chance.random(), 0.01 * k
            if k == count // 2:
                self.restart(now)
            elif i == 2 and k > 3 * count // 4:
                self.server.leave(i, now)
            elif i not in self.flying:
                self.compute(i)
            elif luck < 0.8:
                self.deliver(i, now)
            else:
                (self.spoil if luck < 0.9 else self.crash)(i, now)
            if isinstance(self.when, Tick) and k % 3 == 0:
                self.server.tick(now)
        self.trace.close(self.server.version)


@pytest.mark.thorough
@pytest.mark.parametrize("server", SERVERS, ids=repr)
@pytest.mark.parametrize(("method", "eta"), [(LAG, 0.1), (SCAFFOLD, 0.5)], ids=["LAG", "SCAFFOLD"])
def test_what_workers_forget_is_forgotten_again_bit_for_bit(tmp_path, method, eta, server):
    check_that_a_replay_forgets(tmp_path, method, siag.steps.Constant(eta), server)


@pytest.mark.parametrize(("method", "step", "server"), REMEMBERING, ids=repr)
def test_so_it_is_with_any_method_and_step(tmp_path, method, step, server):
    with as_python():
        check_that_a_replay_forgets(tmp_path, method, step, server)


def check_that_a_replay_forgets(tmp_path, method, step, server):
    made = Fallible(tmp_path / "run.trace", method, step, server)
    made.run(600)
    run = replay(tmp_path / "run.trace", RIDGE, method, step)
    assert np.array_equal(run.w[0], made.server.w)
    assert run.t[-1] == made.server.version
    assert made.server.w.any()
    lines = (tmp_path / "run.trace").read_text().splitlines()
    assert any(line.endswith(",-1.0,") for line in lines) == made.server.remembers
    if isinstance(method, siag.methods.LAG):
        assert 0 < made.server.skips < made.server.reports
        assert run.uploads[0, -1] <= made.server.reports - made.server.skips


@pytest.mark.thorough
def test_a_replay_without_the_lines_of_what_was_forgotten_is_another_run(tmp_path):
    method, step = SCAFFOLD, siag.steps.Constant(0.5)
    made = Fallible(tmp_path / "run.trace", method, step, EveryArrivals())
    made.run(600)
    lines = (tmp_path / "run.trace").read_text().splitlines(keepends=True)
    (tmp_path / "less.trace").write_text("".join(line for line in lines if not line.endswith(",-1.0,\n")))
    run = replay(tmp_path / "less.trace", RIDGE, method, step)
    assert not np.array_equal(run.w[0], made.server.w)
