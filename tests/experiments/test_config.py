"""Experiments from TOML: what is written is what runs, and every mistake is one clear line."""

import textwrap

import numpy as np
import pytest

import siag
from siag.experiments.config import KINDS, build, problem_named, read, read_problem, typed, written
from siag.foundations.errors import BadInput

GOOD = {
    "problem": {"kind": "LeastSquares", "n": 6, "d": 3, "p": 2, "noise": 0.1, "seed": 4},
    "method": {"kind": "SIAG"},
    "activity": {"kind": "Uniform", "T": 4},
    "step": {"kind": "Harmonic", "beta": 1.0, "gamma": 50},
    "run": {"iterations": 100, "repeats": 2, "seed": 7, "record": 5},
}


def changed(**tables):
    """The good file with some tables replaced; None removes one."""
    merged = {**GOOD, **tables}
    return {name: table for name, table in merged.items() if table is not None}


def test_a_file_runs_what_it_says_as_if_written_in_python():
    run = build(GOOD).run()
    problem = siag.problems.LeastSquares.random(n=6, d=3, p=2, noise=0.1, seed=4)
    same = siag.simulate(
        problem,
        siag.methods.SIAG(),
        siag.activity.Uniform(4),
        siag.steps.Harmonic(1.0, 50),
        iterations=100,
        repeats=2,
        seed=7,
        record=5,
    )
    assert np.array_equal(run.error, same.error)
    assert run.about == same.about


def test_a_file_may_ask_for_f_its_gradient_and_metrics_of_the_users_own():
    asked = {**GOOD["run"], "objective": True, "evaluate": {"size": "numpy.linalg:norm"}}
    run = build(changed(run=asked)).run()
    assert set(run.metrics) == {"size", "objective", "stationarity"}
    assert np.allclose(run.metrics["size"][:, -1], np.linalg.norm(run.w, axis=1))
    swept = build(changed(run=asked, activity={"kind": "Uniform", "T": [3, 4]})).sweep(None).table()
    assert {"size", "objective", "stationarity"} <= swept.keys()


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"activity": {"kind": "Uniform", "T": 0}}, ["activity.T = 0", "at least 1"]),
        ({"activity": {"kind": "Nonuniform", "low": 9, "high": 3}}, ["activity.low = 9", "high = 3", "swap"]),
        ({"activity": {"kind": "Unifrom", "T": 4}}, ["activity.kind = 'Unifrom'", "did you mean Uniform?"]),
        ({"activity": {"kind": "Uniform"}}, ["activity.T", "add T = … to [activity]"]),
        ({"activity": {"T": 4}}, ["activity.kind", "one of Everyone, Cyclic"]),
        ({"activity": {"kind": "Bernoulli", "rates": [0.5, -0.1]}}, ["activity.rates", "above 0 and at most 1"]),
        ({"activity": {"kind": "Uniform", "T": 4, "speed": 1}}, ["activity.speed = 1", "one of T"]),
        ({"step": {"kind": "Harmonic", "beta": -1.0, "gamma": 5}}, ["step.beta = -1.0", "above 0"]),
        ({"step": {"kind": "Harmonic", "beta": float("nan"), "gamma": 5}}, ["step.beta = nan", "finite"]),
        ({"step": {"kind": "Harmonic", "beta": "0.2", "gamma": 5}}, ["step.beta = '0.2'", "a number"]),
        ({"step": {"kind": "theorem", "T": 3, "beta": 1.0}}, ["step.beta = 1.0", "beta > 4/mu"]),
        ({"run": {"iterations": 100, "itertions": 3}}, ["run.itertions = 3", "did you mean iterations?"]),
        ({"run": {"iterations": 1.5}}, ["run.iterations = 1.5", "a whole number"]),
        ({"run": {"iterations": 9, "objective": 1}}, ["run.objective = 1", "True or False"]),
        ({"run": {"iterations": 9, "evaluate": "norm"}}, ["evaluate = 'norm'", "a table"]),
        ({"run": {"iterations": 9, "evaluate": {"size": "nowhere:norm"}}}, ["evaluate", "can be imported"]),
        ({"run": {"iterations": 9, "evaluate": {"size": "math:pi"}}}, ["evaluate", "functions of w by name"]),
        ({"run": {"iterations": True}}, ["run.iterations = True", "a whole number"]),
        ({"run": {"repeats": 3}}, ["run.iterations", "add iterations = … to [run]"]),
        ({"method": None}, ["method", "add the table [method]"]),
        ({"metod": {"kind": "SIAG"}}, ["metod", "did you mean method?"]),
        ({"method": 3}, ["method = 3", "a table, written [method]"]),
        ({"method": "SIAGG()"}, ["method = 'SIAGG()'", "did you mean SIAG?"]),
        ({"step": "Harmonic(beta=-1.0, gamma=5)"}, ["step.beta = -1.0", "above 0"]),
        ({"method": {"kind": "SGD", "normalization": "median"}}, ["method.normalization = 'median'", "'mean', 'sum'"]),
        ({"method": {"kind": "no_such_module:Method"}}, ["method.kind", "no_such_module"]),
        ({"method": {"kind": "..:x"}}, ["method.kind = '..:x'", "importing it raised"]),
        ({"method": {"kind": "builtins:dict"}}, ["method.kind", "arguments Python can tell"]),
        ({"method": {"kind": "SIAG", "resum": 10**30}}, ["method.resum", "from 0 to 2147483648"]),
        ({"activity": {"kind": "Bernoulli", "rates": [0.5, 0.5]}}, ["rates", "6 numbers for 6 workers"]),
        ({"activity": {"kind": "Uniform", "T": 10**30}}, ["activity.T", "at most 9007199254740992"]),
        ({"run": {"iterations": 0}}, ["run.iterations = 0", "at least 1"]),
        ({"run": {"iterations": 10**20}}, ["run.iterations", "at most 9007199254740992"]),
        ({"run": {"iterations": 5, "repeats": 10**10}}, ["run.repeats", "from 1 to 1000000"]),
        ({"run": {"iterations": 5, "seed": -1}}, ["run.seed = -1", "from 0 to"]),
        ({"method": {"kind": "math:pi"}}, ["method.kind", "cannot be called"]),
        ({"method": {"kind": "siag.activity:Everyone"}}, ["method.kind", "the name of a Method"]),
        ({"problem": {**GOOD["problem"], "noise": -0.5}}, ["problem.noise = -0.5", "at least 0"]),
        ({"problem": {**GOOD["problem"], "n": 0}}, ["problem.n = 0", "at least 1"]),
    ],
)
def test_a_mistake_is_one_line_with_parameter_value_and_remedy(tables, words):
    with pytest.raises(siag.SiagError) as caught:
        build(changed(**tables)).run()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_a_sampler_or_a_method_that_does_not_fit_is_refused_before_any_work():
    with pytest.raises(siag.Unsuitable, match="SAG"):
        build(changed(method={"kind": "SAG"})).run()


def test_a_clock_is_made_of_tables_within_the_table():
    table = {"kind": "Clock", "compute": {"kind": "Pareto", "mean": 2.0}, "server": {"kind": "Tick", "seconds": 0.5}}
    (clock,) = build(changed(activity=table)).activity
    assert clock == siag.activity.Clock(compute=siag.activity.Pareto(2.0), server=siag.activity.Tick(0.5))


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        ({"kind": "Tik", "seconds": 1.0}, "activity.server.kind = 'Tik'.*did you mean Tick"),
        ({"kind": "Tick", "seconds": 0}, "activity.server.seconds = 0"),
        ({"kind": "Tick"}, "activity.server.seconds is missing"),
        ({"seconds": 1.0}, "activity.server.kind = None"),
    ],
)
def test_a_mistake_in_a_table_within_the_table_is_named_in_full(piece, words):
    table = {"kind": "Clock", "compute": {"kind": "Fixed", "mean": 2.0}, "server": piece}
    with pytest.raises(siag.BadInput, match=words):
        build(changed(activity=table))


def test_workers_that_come_and_go_are_written_by_their_numbers(tmp_path):
    inner, text = {"kind": "Uniform", "T": 4}, "Members(Uniform(4), arrive={5: 40, 0: 90}, leave={0: 60})"
    wanted = siag.activity.Members(siag.activity.Uniform(4), arrive={0: 90, 5: 40}, leave={0: 60})
    for dates in (
        {"arrive": {"5": 40, "0": 90}, "leave": {"0": 60}},  # as TOML has { 5 = 40, 0 = 90 }
        {"arrive": [90, 0, 0, 0, 0, 40], "leave": [60, *[float("inf")] * 5]},
    ):
        experiment = build(changed(activity={"kind": "Members", "activity": inner, **dates}))
        (made,) = experiment.activity
        assert [each.members.tolist() for each in made.changes(6)] == [
            each.members.tolist() for each in wanted.changes(6)
        ]
        assert np.isfinite(experiment.run().error).all()
    assert typed("activity", text, tmp_path) == written("activity", repr(wanted)) == wanted
    assert build(changed(activity=text)).activity == [wanted]
    clock = {"kind": "Clock", "compute": {"kind": "Fixed", "mean": 1.0}, "arrive": {"5": 2.5}, "leave": [3.5]}
    assert build(changed(activity={**clock, "leave": {"0": 3.5}})).activity[0].leave == {0: 3.5}
    with pytest.raises(BadInput, match="leave = "):
        build(changed(activity=clock))
    with pytest.raises(BadInput, match="worker = 6"):
        build(changed(activity={"kind": "Members", "activity": inner, "leave": {"6": 9}}))


def test_theorems_step_takes_the_constants_of_the_problem():
    experiment = build(changed(step={"kind": "theorem", "T": 3, "beta": 3.0}))
    constants = experiment.problem[0].constants()
    theorem = siag.theory.Theorem1(**constants._asdict(), n=6, T=3, beta=3.0)
    assert experiment.step == [theorem.step]


def test_a_method_of_the_users_own_is_found_beside_the_file(tmp_path):
    (tmp_path / "mine_beside.py").write_text(
        "from siag.methods import SGD\n\ndef Summing():\n    return SGD(normalization='sum')\n"
    )
    lines = textwrap.dedent(
        """
        [problem]
        kind = "LeastSquares"
        n = 6
        d = 3
        p = 2
        noise = 0.1
        [method]
        kind = "mine_beside:Summing"
        [activity]
        kind = "Everyone"
        [step]
        kind = "Constant"
        eta = 0.01
        [run]
        iterations = 10
        """
    )
    (tmp_path / "own.toml").write_text(lines)
    assert read(tmp_path / "own.toml").method == [siag.methods.SGD(normalization="sum")]


@pytest.mark.parametrize(
    ("content", "word"), [(b"[problem\n", "not TOML"), (b"\xff\xfe\x00", "not a text file"), (None, "no such file")]
)
def test_a_file_that_is_none_is_refused_by_name(tmp_path, content, word):
    path = tmp_path / "broken.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(siag.BadFile, match=word) as caught:
        read(path)
    assert "broken.toml" in str(caught.value)


def test_every_part_of_the_package_can_be_named_in_a_file():
    for role, module in (("method", siag.methods), ("activity", siag.activity), ("problem", siag.problems)):
        base = {"method": module.__dict__.get("Method"), "activity": module.__dict__.get("Activity")}.get(
            role, module.__dict__.get("Problem")
        )
        classes = {
            name
            for name in module.__all__
            if isinstance(getattr(module, name), type)
            and issubclass(getattr(module, name), base)
            and getattr(module, name) is not base
        }
        assert classes - {"Timed", "FromFunction"} == set(KINDS[role])  # a function of yours may make the latter


@pytest.mark.parametrize(
    "module", ["def broken(:\n", "raise RuntimeError('no')\n", "import sys\nsys.exit(3)\n", "Mine = 3\n"]
)
def test_a_module_of_the_users_own_that_fails_is_named_in_one_line(tmp_path, module):
    (tmp_path / "failing_module.py").write_text(module)
    tables = changed(method={"kind": "failing_module:Mine"})
    with pytest.raises(siag.BadInput, match=r"method.kind = 'failing_module:Mine'") as caught:
        build(tables, tmp_path)
    assert "\n" not in str(caught.value)


def test_a_constructor_of_the_users_own_that_raises_is_named_with_its_error(tmp_path):
    (tmp_path / "raising_module.py").write_text("def Mine(x: 'Unknown'):\n    raise ValueError('x is odd')\n")
    with pytest.raises(siag.BadInput, match=r"raising_module:Mine.*x is odd"):
        build(changed(method={"kind": "raising_module:Mine", "x": 1}), tmp_path)


def test_the_problem_of_a_file_can_be_read_alone_with_its_seed(tmp_path):
    path = tmp_path / "problem.toml"
    text = '[problem]\nkind = "LeastSquares"\nn = 2\nd = 3\np = 2\nnoise = 0.1\n'
    path.write_text(text)
    assert [repr(part) for part in read_problem(path)] == [
        repr(siag.problems.LeastSquares.random(n=2, d=3, p=2, noise=0.1)),
        "0",
    ]
    path.write_text(text + "[run]\nseed = 8\n[other]\n")
    assert read_problem(path)[1] == 8


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[method]\n", r"problem.toml: it has no table \[problem\]"),
        ('[problem]\nkind = "LeastSquares"\nn = [2, 3]\nd = 3\np = 2\nnoise = 0.1\n', "it has 2 problems; leave one"),
        ('[problem]\nkind = "LeastSquares"\nn = 0\nd = 3\np = 2\nnoise = 0.1\n', "problem.n = 0: must be"),
        ('[problem]\nkind = "LeastSquares"\nn = 2\nd = 3\np = 2\nnoise = 0.1\n[run]\nseed = -1', "run.seed = -1"),
        ("[problem", "problem.toml: not TOML"),
    ],
)
def test_a_file_without_one_problem_is_refused(tmp_path, content, words):
    path = tmp_path / "problem.toml"
    path.write_text(content)
    with pytest.raises(siag.SiagError, match=words) as caught:
        read_problem(path)
    assert "\n" not in str(caught.value)


def test_a_part_can_be_written_as_it_prints():
    for method in (siag.methods.SIAG(wait=0.5, rows="float32"), siag.methods.SGD(normalization="sum")):
        assert written("method", repr(method)) == method
    assert written("step", "Harmonic(beta=1, gamma=2.5)") == siag.steps.Harmonic(1, 2.5)
    with pytest.raises(BadInput, match=r"^method.wait = 3: must be"):
        written("method", "SIAG(wait=3)")
    with pytest.raises(BadInput, match=r"^method = 'SIAG\(rows=open\)': must be one of ACE, ACED, Adagrad, Adam, "):
        written("method", "SIAG(rows=open)")


@pytest.mark.parametrize(
    "method",
    [
        siag.methods.Prox(siag.methods.SIAG(wait=0.5), l1=0.1, low=-1.0),
        siag.methods.Averaged(siag.methods.Prox(siag.methods.IAG(), l1=0.1), start=3),
        siag.methods.Averaged(siag.methods.FedProx(steps=2, size=0.1, pull=0.5)),
    ],
    ids=repr,
)
def test_a_method_around_another_can_be_written_as_it_prints(method):
    assert written("method", repr(method)) == method


def test_arguments_have_no_name_where_python_needs_none():
    assert written("step", "Constant(0.1)") == siag.steps.Constant(0.1)
    assert written("step", "Harmonic(1, gamma=2.5)") == siag.steps.Harmonic(1, 2.5)
    assert written("method", "Prox(SIAG(), l1=0.1)") == siag.methods.Prox(siag.methods.SIAG(), l1=0.1)


@pytest.mark.parametrize(
    ("role", "text", "words"),
    [
        ("method", "Prox(SIAG(), l1=-1)", r"^method.l1 = -1: must be a finite number at least 0"),
        ("method", "Prox(SIAG(wait=3))", r"^method.wait = 3: must be"),
        ("method", "Prox(3)", r"^method.method = 3: must be a method"),
        ("method", "Prox(method={'kind': 'SIAG'})", r"^method.method = \{'kind': 'SIAG'\}: must be a method"),
        ("method", "Prox(SIAG(), SGD())", r"^method = SGD\(…\): must be an argument with its name, one of method, l1"),
        ("method", "Prox(SIAG(), method=SGD())", r"^method.method = SGD\(…\): must be given once to Prox"),
        ("method", "FedAvg(steps=2)", r"^method.size is missing; write FedAvg\(size=…\)"),
        ("method", "Averaged(FedAvg())", r"^method.steps is missing; write FedAvg\(steps=…, size=…\)"),
        ("method", "Averaged(SIAG(), strat=1)", r"^method.strat = 1: must be one of method, .*; did you mean start"),
        ("method", "Averaged(Constant(0.1))", r"^method = 'Averaged\(Constant\(0.1\)\)': must be one of ACE"),
        ("method", "SIAG(**{'wait': 1})", r"must be one of ACE"),
        ("step", "Constant(0.1, 0.2)", r"^step = 0.2: must be an argument with its name, one of eta"),
    ],
)
def test_a_mistake_in_what_is_written_is_told_as_itself(role, text, words):
    with pytest.raises(BadInput, match=words):
        written(role, text)


def test_a_part_of_ones_own_is_written_with_its_module(tmp_path):
    (tmp_path / "mine_written.py").write_text(
        "from siag.methods import SGD\n\ndef Mine(kind='mean'):\n    return SGD(normalization=kind)\n"
    )
    summing = siag.methods.SGD(normalization="sum")
    assert typed("method", "mine_written:Mine", tmp_path) == siag.methods.SGD()
    assert typed("method", "mine_written:Mine(kind='sum')", tmp_path) == summing
    assert typed("method", "Averaged(mine_written:Mine(kind='sum'), start=3)", tmp_path) == siag.methods.Averaged(
        summing, start=3
    )
    assert typed("method", " SIAG ", tmp_path) == siag.methods.SIAG()
    for text, words in (
        ("mine_written:Mine(kind=open)", 'must be "module:name", with arguments as in Python'),
        ("mine_written:Mine(kind=3)", r"^method.normalization = 3: must be one of"),
        ("mine_written:Mine(kind='a:b')", r"^method.normalization = 'a:b': must be one of"),
        ("mine_written:Mine(sort='sum')", r"^method.sort = 'sum': must be one of kind"),
        ("mine_written:Yours", "^method = 'mine_written:Yours'.*importing it raised"),
        ("./mine_written.py:Mine()", 'the name of a module, not of its file; write "mine_written:Mine"'),
        ("mine_written:SGD.__name__", "cannot be called"),
        ("siag.steps:Constant(1.0)", "must be the name of a Method"),
        ("Averaged(mine_written:Mine", "must be one of ACE, .*with arguments as in Python"),
    ):
        with pytest.raises(BadInput, match=words) as caught:
            typed("method", text, tmp_path)
        assert "\n" not in str(caught.value)


def test_activities_with_parts_of_their_own_can_be_typed(tmp_path):
    from siag.activity import Clock, EveryArrivals, Exponential, OnOff, Uniform

    text = "Clock(Exponential(2.0), server=EveryArrivals(k=3), slowness=[1, 2], availability=OnOff(5, [1, 0]))"
    clock = Clock(Exponential(2.0), server=EveryArrivals(3), slowness=[1, 2], availability=OnOff(5.0, [1.0, 0.0]))
    assert typed("activity", text, tmp_path) == clock
    assert typed("activity", repr(clock), tmp_path) == clock
    assert typed("activity", "Uniform(4)", tmp_path) == Uniform(4)
    with pytest.raises(BadInput, match="the name of an Activity"):
        typed("activity", "Exponential(2.0)", tmp_path)


def test_a_problem_can_be_typed_too(tmp_path):
    (tmp_path / "mine_problem.py").write_text(
        "import siag\n\ndef make(n=3):\n    return siag.problems.LeastSquares.random(n=n, d=2, p=2, noise=0.1)\n"
    )
    for text, n in (
        ("LeastSquares(n=4, d=2, p=2, noise=0.1)", 4),
        ("LeastSquares.random(n=5, d=2, p=2, noise=0.1)", 5),
        ("mine_problem:make(n=6)", 6),
        ("mine_problem:make", 3),
    ):
        found, seed = problem_named(text, tmp_path)
        assert (found.n, seed) == (n, 0)
    with pytest.raises(siag.BadFile, match=r"problem.toml: no such file"):
        problem_named("problem.toml", tmp_path)


def test_a_file_may_have_texts_in_place_of_tables(tmp_path):
    tables = changed(
        method=["SIAG(wait=1.0)", {"kind": "SGD"}], activity="Uniform(T=3)", step=["Tuned(eta=0.5)", "Constant(0.1)"]
    )
    experiment = build(tables, tmp_path)
    assert experiment.method == [siag.methods.SIAG(wait=1.0), siag.methods.SGD()]
    assert experiment.activity == [siag.activity.Uniform(3)]
    assert experiment.step == [siag.Tuned(eta=0.5), siag.steps.Constant(0.1)]


def test_a_step_that_is_to_be_found_makes_a_sweep_of_one_combination():
    experiment = build(changed(step={"kind": "Tuned"}))
    assert not experiment.single
    (row,) = experiment.sweep(None).parameters
    assert row["step.kind"] == "Harmonic"
    assert row["tuned.eta"] > 0
    with pytest.raises(BadInput, match=r"step.eta = -1"):
        build(changed(step={"kind": "Tuned", "eta": -1.0}))


def test_lists_and_repeated_tables_make_a_grid():
    tables = changed(
        problem={**GOOD["problem"], "n": [6, 8]},
        method={"kind": ["SIAG", "SGD"]},
        activity=[{"kind": "Uniform", "T": [2, 4]}, {"kind": "Bernoulli", "rates": [0.5] * 6}],
    )
    experiment = build(tables)
    assert [problem.n for problem in experiment.problem] == [6, 8]
    assert experiment.method == [siag.methods.SIAG(), siag.methods.SGD()]
    assert experiment.activity[:2] == [siag.activity.Uniform(2), siag.activity.Uniform(4)]
    assert experiment.activity[2].rates == (0.5,) * 6
    assert not experiment.single


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"problem": {**GOOD["problem"], "n": []}}, "problem.n = .*at least one value"),
        ({"method": []}, "method = .*at least one table"),
        ({"step": {"kind": "theorem", "T": 3, "beta": 3.0}, "problem": {**GOOD["problem"], "n": [6, 8]}}, "step.kind"),
        ({"run": {"iterations": [5, 6]}}, r"run.iterations = \[5, 6\]"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(tables, words):
    with pytest.raises(siag.BadInput, match=words):
        build(changed(**tables))


def test_a_method_around_another_has_it_as_a_table_of_its_own():
    inner = {"kind": "Prox", "l1": 0.1, "method": {"kind": "SIAG", "wait": 1.0}}
    method = {"kind": "Averaged", "start": 3, "method": inner}
    made = build(GOOD | {"method": method}).method[0]
    assert made == siag.methods.Averaged(siag.methods.Prox(siag.methods.SIAG(wait=1.0), l1=0.1), start=3)
    with pytest.raises(BadInput, match="wait"):
        build(GOOD | {"method": {"kind": "Averaged", "method": {"kind": "SIAG", "wait": 3}}})
