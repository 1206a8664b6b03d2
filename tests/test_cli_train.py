"""`siag train` as users meet it; in this process, on a runtime that waits for nothing, unless a signal is the point."""

import os
import pickle
import shutil
import signal
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import siag
from siag.live import train as module
from siag.methods import Averaged, Prox
from siag.runtimes import Ending, Ray
from siag.steps import Constant, DelayAdaptive
from terminals import Desk, Shell, wait_for

EXAMPLES = Path(__file__).parent.parent / "examples"
MORE = """

def hopeless(w):
    raise KeyError("no data")


def interrupts(w, sample):
    import signal

    signal.raise_signal(signal.SIGINT)
    return w - sample


def prints(w, sample):
    print("a sample")
    return w - sample


def explodes(w, sample):
    return -w - sample


def summing():
    return Own(normalization="sum")


def lenient():
    from siag.streams import Follow

    return Follow(name, wait=False, bad="skip")


from siag.methods import SGD


class Own(SGD):
    pass
"""
DATA = "--gradient job:gradient --stream job:ones --stream job:threes --dimension 3"
TRAIN = f"train {DATA} --eta 0.05"
INSTANT = "--runtime instant:Instant"
POSED = "train --problem problem.toml --seed 4 --eta 0.05 --reports 300 --trace run.trace.gz --out out --json"
RAY = f"{TRAIN} --runtime ray"


@pytest.fixture
def desk(tmp_path):
    with Desk(tmp_path, MORE) as made:
        yield made


@pytest.fixture
def shell(desk, monkeypatch, capsys):
    return Shell(desk, monkeypatch, capsys)


def test_streams_are_trained_on_by_one_command(shell):
    ended = shell(f"{TRAIN} {INSTANT} --iterations 2000 --name one --name three --out out")
    assert ended.status == 0, ended.err
    assert ended.err  # a line of summary
    assert ended.out[-1] == "Written: out/w.npy, run.npz, run.csv, run.png, run.svg"
    assert np.abs(np.load("out/w.npy") - 2.0).max() < 0.5
    assert siag.load("out/run.npz").t[-1] == 2000


@pytest.mark.parametrize(
    "words",
    [
        f"{TRAIN} --weights 1,3",
        f"{TRAIN} --name one --name three --weights three=3,one=1",
        "train run.toml --eta 0.05",
    ],
)
def test_weights_say_which_stream_counts_for_more(shell, words):
    data = DATA_FILE.replace("few", "ones", 1).replace("few", "threes")
    Path("run.toml").write_text(f"{data}[weights]\n1 = 3\n0 = 1")
    ended = shell(f"{words} {INSTANT} --iterations 2000 --out out")
    assert ended.status == 0, ended.err
    assert np.abs(np.load("out/w.npy") - 2.5).max() < 0.2
    run = siag.load("out/run.npz")
    assert run.about["weights"] == [1.0, 3.0]
    assert [each["share"] for each in run.workers] == [0.25, 0.75]


def test_samples_in_the_shell_and_the_table_of_workers(shell):
    ended = shell(f"{TRAIN} {INSTANT} --iterations 300 --weights samples")
    assert ended.status == 0, ended.err
    assert any("counts for" in line for line in ended.out)
    assert "weights     samples" in ended.out


@pytest.mark.thorough
def test_processes_of_this_machine_and_a_signal_that_stops_them_in_order(desk):
    streams = ("--gradient", "job:gradient", "--stream", "job:slow_ones", "--stream", "job:slow_threes")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a script
    trained = desk.siag("train", *streams, "--dimension", 3, "--eta", 0.05, "--json", "--out", "out")
    signal.signal(signal.SIGINT, before)
    wait_for(trained, lambda snapshot: snapshot["reports"] > 20)
    trained.process.send_signal(signal.SIGTERM)
    assert trained.end() == 0, trained.err
    result = trained.documents()[-1]
    assert (result["ending"], result["ended"]) == (Ending.STOPPED, "stopped by SIGTERM")
    assert "processes on one machine" in result["activity"]
    assert (desk.folder / "out" / "run.npz").exists()
    assert trained.err == []


@pytest.mark.thorough
def test_what_workers_print_into_a_pipe_is_not_lost_when_the_run_ends(desk, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    data = ("--gradient", "job:prints", "--stream", "job:ones", "--dimension", 3, "--eta", 0.05)
    trained = desk.siag("train", *data, "--reports", 5, "--quiet")
    assert trained.end() == 0, trained.err
    assert trained.out.count("a sample\n") >= 5


def test_ctrl_c_stops_it_in_order(shell):
    ended = shell(f"train --gradient job:interrupts --stream job:ones --dimension 3 --eta 0.05 --json {INSTANT}")
    assert (ended.status, ended.err) == (0, [])
    assert ended.result["ending"] == Ending.INTERRUPTED


@pytest.mark.thorough
def test_a_problem_is_replayed_from_the_trace_bit_for_bit(shell):
    ended = shell(f"{POSED} {INSTANT}")
    assert ended.status == 0, ended.err
    *lines, result = ended.documents
    assert all(set(line) in ({"seconds", "event"}, {"seconds", "snapshot"}) for line in lines)
    assert (result["result"], result["seed"], result["samples"][-1]) == (True, 4, 300)
    assert shell("replay run.trace.gz --out again --json").status == 0
    w = np.load("out/w.npy")
    assert np.array_equal(siag.load("again/run.npz").w[0], w)
    assert result["w"] == w.tolist()
    assert w.any()


def test_the_same_command_goes_on_from_its_folder(shell):
    words = f"train --problem problem.toml --eta 0.05 --folder state --json {INSTANT}"
    assert shell(f"{words} --iterations 200").status == 0
    second = shell(f"{words} --iterations 500")
    assert "went on from version 200, 200 reports" in second.events
    assert second.result["t"][-1] == 500


def test_a_folder_for_results_that_vanished_is_made_again(shell, monkeypatch):
    after(monkeypatch, lambda: shutil.rmtree("out"))
    ended = shell(f"{TRAIN} {INSTANT} --reports 50 --json --out out")
    assert (ended.status, ended.err) == (0, [])
    assert ended.result["w"] == np.load("out/w.npy").tolist()
    assert os.path.exists("out/run.svg")


def test_a_model_that_cannot_be_written_is_printed_and_can_be_exported(shell, monkeypatch):
    def replace():
        shutil.rmtree("out")
        Path("out").write_text("")

    after(monkeypatch, replace)
    ended = shell(f"{TRAIN} {INSTANT} --reports 50 --json --out out --folder state")
    assert ended.status == 1
    *lines, last = ended.err
    names = ("w.npy", "run.npz", "run.csv", "run.png", "run.svg")
    assert [line.split(": ")[:3] for line in lines] == [["siag", f"out/{name}", "cannot be written"] for name in names]
    assert last == "siag: state: siag export reads the model from it: siag export state w.npy"
    assert shell("export state w.npy").status == 0
    assert np.load("w.npy").tolist() == ended.result["w"]
    assert any(ended.result["w"])


def test_one_file_that_cannot_be_written_is_named_and_the_others_are_there(shell, monkeypatch):
    after(monkeypatch, lambda: os.mkdir("out/run.npz"))
    ended = shell(f"{TRAIN} {INSTANT} --reports 50 --json --out out")
    assert (ended.status, ended.err) == (1, ["siag: out/run.npz: cannot be written: is a directory"])
    assert os.path.exists("out/run.svg")


def after(monkeypatch, change):
    """Have something done when the run has ended, before its files are written."""
    real = module.run_spec

    def changed(spec, runtime=None):
        result = real(spec, runtime)
        change()
        return result

    monkeypatch.setattr(module, "run_spec", changed)


def test_sigterm_after_the_end_of_a_run_loses_nothing_but_a_second_one_ends_at_once():
    from siag.cli.early import NotBegun, Terminated, meaning
    from siag.cli.running import terminable

    def early(number, frame):
        raise NotBegun

    with meaning(signal.SIGTERM, early), terminable() as begun:
        with pytest.raises(NotBegun):
            os.kill(os.getpid(), signal.SIGTERM)
        begun.show(None)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Terminated) as second:
            os.kill(os.getpid(), signal.SIGTERM)
    assert not isinstance(second.value, NotBegun)


# Exit statuses


def test_a_run_whose_workers_have_all_failed_ends_with_status_1(shell):
    ended = shell(f"train --gradient job:gradient --stream job:bad --dimension 3 --eta 1 --quiet {INSTANT}")
    assert ended.status == 1
    (line,) = ended.err
    assert "1 away; worker 0 failed: RuntimeError: torn cable (job.py, line" in line
    assert ended.out[0].startswith("w  ")


def test_a_run_in_which_one_of_two_has_failed_goes_on_to_its_end(shell):
    data = "--gradient job:gradient --stream job:bad --stream job:ones --dimension 3"
    assert shell(f"train {data} --eta 0.05 --iterations 100 --quiet {INSTANT}").status == 0


def test_a_run_that_diverges_ends_with_status_1(shell):
    words = "train --gradient job:explodes --stream job:ones --dimension 3 --eta 100 --quiet --out out"
    ended = shell(f"{words} {INSTANT}")
    assert ended.status == 1
    (line,) = ended.err
    assert line.startswith("siag: w left the range of numbers")
    assert line.endswith("what was recorded until then is kept")
    assert os.path.exists("out/w.npy")


def test_a_run_in_which_nobody_reported_ends_with_status_1(shell):
    ended = shell(f"train --gradient job:fails --stream job:ones --dimension 3 --eta 1 --quiet {INSTANT}")
    assert (ended.status, ended.out) == (1, [])
    (line,) = ended.err
    assert "worker 0 failed: OSError: [Errno 5] no sensor (job.py, line" in line


def test_lines_that_are_left_out_are_told_with_the_name_of_the_worker(shell):
    Path("readings.csv").write_text("1\nx\n2\ny\n")
    words = "train --gradient job:gradient --stream job:lenient --name edge --dimension 1 --eta 0.05 --json"
    told = [
        "worker edge: readings.csv, line 2: 'x' is not a finite number; it is left out",
        "worker edge: readings.csv: 2 bad lines were left out in all",
    ]
    assert [event for event in shell(f"{words} {INSTANT}").events if "readings" in event] == told


# What is typed, and what is in a file


class Seen(Exception):
    """What would have been run, and where."""


@pytest.fixture
def called(shell, monkeypatch):
    """What is run by some words."""
    from siag.cli import main

    def fake(spec, runtime=None):
        raise Seen(spec.validate(), runtime)

    def call(words):
        with monkeypatch.context() as patched:
            patched.setattr(module, "run_spec", fake)
            patched.setattr("sys.argv", ["siag", *words.split()])
            with pytest.raises(Seen) as seen:
                main()
        return seen.value.args

    return call


def test_what_is_typed_reaches_python(called):
    usual, runtime = called(TRAIN)
    assert runtime is None
    assert (usual.until, usual.guard, usual.names) == (siag.Until(), None, ["0", "1"])
    assert called(RAY)[1] == Ray()
    words = "--address auto --workers 2 --resources CPU=2,GPU=0.5 --server-resources CPU=4 --shards 2 --fewest 1"
    words += " --tls --port 7460 --start-timeout 5 --folder s3://bucket/state --reports 7 --patience 3 --preload json"
    full, runtime = called(f"{RAY} {words}")
    assert runtime == Ray(
        address="auto",
        workers=2,
        resources={"CPU": 2.0, "GPU": 0.5},
        server_resources={"CPU": 4.0},
        shards=2,
        fewest=1,
        tls=True,
        port=7460,
        start_timeout=5.0,
    )
    assert (full.folder, full.until.reports, full.patience) == ("s3://bucket/state", 7, 3.0)
    assert full.preload == ["json"]


@pytest.mark.parametrize(
    ("words", "method", "step"),
    [
        ("--method Prox(SIAG(),l1=0.1) --eta 1", Prox(siag.methods.SIAG(), l1=0.1), Constant(1.0)),
        ("--method Averaged(SGD(),start=3) --step Constant(1)", Averaged(siag.methods.SGD(), start=3), Constant(1.0)),
        ("--step DelayAdaptive(gamma=0.1)", siag.methods.SIAG(), DelayAdaptive(0.1)),
        ("--step siag.steps:Constant(eta=2.0)", siag.methods.SIAG(), Constant(2.0)),
        ("--method siag.methods:SGD --eta 1", siag.methods.SGD(), Constant(1.0)),
        ("--method siag.methods:SGD(normalization='sum') --eta 1", siag.methods.SGD(normalization="sum"), Constant(1)),
        ("--beta 2 --gamma 5", siag.methods.SIAG(), siag.steps.Harmonic(2, 5)),
    ],
)
def test_methods_and_steps_are_written_as_in_python(words, method, step, called):
    spec, _ = called(f"train {DATA} {words}")
    assert (spec.method, spec.step) == (method, step)


def test_a_method_of_ones_own_is_run(shell):
    ended = shell(f"{TRAIN} {INSTANT} --reports 50 --method job:summing --json")
    assert ended.result["method"] == "Own(normalization='sum')"


def test_a_loss_can_be_sent_to_another_process(called):
    loss = called(f"{TRAIN} --loss math:fsum")[0].loss
    assert pickle.loads(pickle.dumps(loss))(np.full(3, -2.0)) == -6.0


FILE = """
gradient = "job:gradient"
streams = ["job:ones", "job:threes"]
names = ["one", "three"]
dimension = 3
loss = "job:size"
folder = "state"
departed = "drop"
forget = 5.0

[method]
kind = "Prox"
l1 = 0.1
method = { kind = "SIAG" }

[step]
kind = "Harmonic"
beta = 2.0
gamma = 100

[until]
iterations = 50
seconds = 60

[guard]
age = 7

[server]
kind = "EveryArrivals"
k = 2
"""


def test_a_file_says_all_of_it_and_what_is_typed_overrides_it(shell, called, monkeypatch):
    os.mkdir("jobs")
    for name in ("job.py", "helper.py"):
        os.rename(name, f"jobs/{name}")
    Path("jobs/run.toml").write_text(FILE)
    spec, runtime = called("train jobs/run.toml")
    assert (spec.names, spec.w0.tolist(), spec.folder) == (["one", "three"], [0.0] * 3, Path("jobs/state"))
    assert (spec.method, spec.step) == (Prox(siag.methods.SIAG(), l1=0.1), siag.steps.Harmonic(2.0, 100))
    assert (spec.until, spec.guard) == (siag.Until(iterations=50, seconds=60), siag.server.Guard(age=7))
    assert (spec.server, spec.departed, spec.forget) == (siag.activity.EveryArrivals(2), siag.server.DROP, 5.0)
    assert (spec.loss(np.ones(3)), runtime) == (3.0, None)
    over, _ = called("train jobs/run.toml --seconds 1 --max-norm 3 --eta 1 --name a --name b --folder here")
    assert over.until == siag.Until(iterations=50, seconds=1)
    assert over.guard == siag.server.Guard(age=7, norm=3)
    assert (over.step, over.names, over.folder) == (Constant(1.0), ["a", "b"], Path("here"))
    assert shell(f"train jobs/run.toml {INSTANT} --quiet --json").result["t"][-1] == 50


def test_a_method_and_a_step_of_a_file_may_be_texts(called):
    table = '[method]\nkind = "Prox"\nl1 = 0.1\nmethod = { kind = "SIAG" }\n'
    texts = 'method = "Prox(SIAG(), l1=0.1)"\nstep = "siag.steps:Constant(eta=2.0)"\n'
    step = '[step]\nkind = "Harmonic"\nbeta = 2.0\ngamma = 100\n'
    Path("run.toml").write_text(texts + FILE.replace(table, "").replace(step, ""))
    spec, _ = called("train run.toml")
    assert (spec.method, spec.step) == (Prox(siag.methods.SIAG(), l1=0.1), Constant(2.0))


def test_options_override_single_keys_of_the_table_ray_and_local_all_of_it(called):
    Path("run.toml").write_text(FILE + "\n[ray]\nshards = 2\nport = 7460\n")
    assert called("train run.toml --shards 3")[1] == Ray(shards=3, port=7460)
    assert called("train run.toml --runtime local")[1] is None


def test_what_only_ray_has_is_refused_where_a_typed_runtime_is_another_than_the_files(shell):
    Path("run.toml").write_text(FILE + "\n[ray]\nshards = 2\n")
    wrong = "shards = 3: must be given with --runtime ray"
    assert shell.mistake("train run.toml --runtime local --shards 3") == wrong


def test_the_example_of_a_file_runs(shell):
    for name in ("live.toml", "shops.py"):
        shutil.copy(EXAMPLES / name, name)
    assert shell(f"train live.toml {INSTANT} --reports 40 --quiet").status == 0


@pytest.mark.thorough
def test_the_example_of_a_rehearsal_is_the_run_of_python_to_the_bit(shell):
    path = EXAMPLES / "rehearsal.toml"
    ended = shell(f"train {path} --iterations 300 --json")
    assert (ended.status, ended.err) == (0, [])
    assert ended.result["activity"] == "live, 4 workers in virtual time"
    runtime = siag.Simulated(
        times=siag.activity.Exponential(1.0),
        travel=siag.activity.LogNormal(0.1, 0.5),
        slowness=[1.0, 1.0, 5.0, 20.0],
        availability=siag.activity.OnOff(300.0, 60.0),
        seed=7,
        faults=siag.runtimes.Faults(crashes=500.0, cuts=200.0, delay=siag.activity.Fixed(0.01)),
    )
    problem = siag.problems.LeastSquares.random(n=4, d=3, p=2, noise=0.1)
    same = siag.train(problem=problem, step=siag.steps.Harmonic(2.0, 100.0), until=300, seed=7, runtime=runtime)
    assert ended.result["w"] == same.w[0].tolist()


def test_a_rehearsal_is_typed_with_its_seed_or_overrides_that_of_a_file(called):
    assert called(f"{TRAIN} --runtime simulated")[1] == siag.Simulated()
    assert called(f"{TRAIN} --runtime simulated --simulated-seed 3")[1] == siag.Simulated(seed=3)
    Path("run.toml").write_text(FILE + "\n[simulated]\nslowness = 2\nseed = 1\n")
    assert called("train run.toml")[1] == siag.Simulated(slowness=2.0, seed=1)
    assert called("train run.toml --simulated-seed 3")[1] == siag.Simulated(slowness=2.0, seed=3)
    assert called("train run.toml --runtime ray")[1] == Ray()
    assert called("train run.toml --runtime local")[1] is None


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ("[simulated]\n[ray]\nshards = 2", "ray = {'shards': 2}: must be given alone; leave out ray or simulated"),
        ("[simulated]\nslownes = 2", "simulated.slownes = 2: must be one of times, travel, slowness, availability"),
        ("[simulated]\ntimes = 2", "simulated.times = 2: must be one of"),
        ('[simulated]\ntimes = { kind = "Exponental", mean = 1 }', "did you mean Exponential?"),
        ('[simulated]\ntimes = { kind = "Fixed", mean = -1 }', "simulated.times.mean = -1: must be"),
        ("[simulated]\nfaults = 2", "simulated.faults = 2: must be a table, written [simulated.faults]"),
        ("[simulated.faults]\ncrash = 2", "did you mean crashes?"),
        ("[simulated.faults]\ncrashes = 0", "simulated.faults.crashes = 0: must be"),
        ("[simulated.faults]\nserver = 9.0", "folder is missing; a server that crashes goes on from there"),
        ("[simulated]\nseed = -1", "simulated.seed = -1: must be"),
    ],
)
def test_a_mistake_in_a_table_simulated_is_one_line(tables, says, shell):
    Path("run.toml").write_text(FILE.replace('folder = "state"\n', "") + tables)
    assert says in shell.mistake("train run.toml")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("names", "nmaes"), "nmaes = ['one', 'three']: must be one of"),
        (("forget", "forgte"), "did you mean forget?"),
        (("age = 7", "aeg = 7"), "did you mean age?"),
        (("age = 7", "age = -1"), "guard.age = -1: must be"),
        (('kind = "Harmonic"', 'kind = "Harmonc"'), "did you mean Harmonic?"),
        (('kind = "EveryArrivals"', 'kind = "WaitForAll"'), "a live server waits for nobody"),
        (("iterations = 50", "iterations = 0"), "until.iterations = 0: must be"),
        (('"job:threes"', '"job:fours"'), "streams[1] = 'job:fours': must be something that can be imported"),
        (
            ("dimension = 3", 'dimension = 3\nw0 = "w.npy"'),
            "dimension = 3: must be given alone; leave out dimension or w0",
        ),
        (('departed = "drop"', 'departed = "dorp"'), "departed = 'dorp': must be keep, drop, or a half-life"),
        (
            ('[step]\nkind = "Harmonic"\nbeta = 2.0\ngamma = 100', ""),
            "step is missing; this method needs one: add",
        ),
        (("dimension = 3", ""), "dimension is missing; write dimension = D"),
        (("gradient =", "# gradient ="), 'gradient is missing; write gradient = "module:function"'),
        (("[guard]", "[linger]"), "linger = {'age': 7}: must be one of"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_in_a_file_is_named_as_it_is_there(change, says, shell):
    Path("run.toml").write_text(FILE.replace(*change))
    assert says in shell.mistake("train run.toml")


STEP = "\n[step]\nkind = 'Constant'\neta = 1.0\n"
PROBLEM = siag.problems.LeastSquares.random(n=2, d=3, p=2, noise=0.1)
ASKED_FILE, ASKED_WORDS = "until = 5\nproblem = 'problem.toml'\n", "--problem problem.toml --iterations 5 --eta 1"
ASKED = {"problem": PROBLEM, "until": 5, "step": Constant(1.0)}
DATA_FILE = "gradient = 'job:gradient'\nstreams = ['job:few', 'job:few']\ndimension = 3\n"
DATA_WORDS = "--gradient job:gradient --stream job:few --stream job:few --dimension 3 --eta 1"
FEW = {"gradient": abs, "streams": [[1.0], [1.0]], "w0": np.zeros(3), "step": Constant(1.0)}
SERVED_FILE, SERVED_WORDS = "workers = 2\ndimension = 3\n", "--workers 2 --dimension 3 --eta 1"
SHOWN = "LeastSquares.random(n=2, d=3, p=2, noise=0.1, seed=0, sampl…"
ALONE = "must be given alone; leave"


class Case(NamedTuple):
    """A contradiction as a file, as options, and in Python, where it can be written; and the line that all get."""

    line: str
    file: str | None
    words: str | None
    given: dict | None
    command: str = "train"
    typed: str | None = None  # what the option is called, if not as in the file
    python: str | None = None  # what it is called in Python


CONTRADICTIONS = {
    "problem and streams": Case(
        f"problem = {SHOWN}: {ALONE} gradient and streams out, or the problem",
        f"gradient = 'job:gradient'\nstreams = ['job:few']\n{ASKED_FILE}{STEP}",
        f"--gradient job:gradient --stream job:few {ASKED_WORDS}",
        {"gradient": abs, "streams": [[1.0]]} | ASKED,
    ),
    "problem and gradient of a worker": Case(
        f"problem = {SHOWN}: {ALONE} gradient and stream out, or the problem",
        None,
        "x --problem problem.toml --gradient job:gradient",
        {"address": "x", "problem": PROBLEM, "gradient": abs},
        "work",
    ),
    "dimension and w0": Case(
        f"dimension = 3: {ALONE} out dimension or w0",
        f"{DATA_FILE}w0 = 'w.npy'{STEP}",
        f"{DATA_WORDS} --w0 w.npy",
        None,
    ),
    "workers and names": Case(
        f"workers = 2: {ALONE} out workers or names",
        f"{SERVED_FILE}names = ['a', 'b']{STEP}",
        f"{SERVED_WORDS} --name a --name b",
        None,
        "serve",
    ),
    "two steps": Case(
        f"step.eta = 0.1: {ALONE} out eta, or beta and gamma",
        f"{DATA_FILE}[step]\nkind = 'Constant'\neta = 0.1\nbeta = 2.0",
        f"{DATA_WORDS.replace('--eta 1', '--eta 0.1')} --beta 2",
        None,
        typed="eta",
    ),
    "two steps, the other kind": Case(
        f"step.eta = 0.1: {ALONE} out eta, or beta and gamma",
        f"{DATA_FILE}[step]\nkind = 'Harmonic'\neta = 0.1\nbeta = 2.0\ngamma = 3.0",
        f"{DATA_WORDS.replace('--eta 1', '--eta 0.1')} --beta 2 --gamma 3",
        None,
        typed="eta",
    ),
    "two steps in one": Case(
        "step.beta = 2: must be one of eta; did you mean eta?",
        f"{DATA_FILE}step = 'Constant(eta=0.1,beta=2)'",
        f"{DATA_WORDS.replace('--eta 1', '--step Constant(eta=0.1,beta=2)')}",
        None,
    ),
    "by the clock and by reports": Case(
        "server.seconds = 1.0: must be given alone; a server steps by the clock or by reports",
        f"{DATA_FILE}{STEP}[server]\nkind = 'Tick'\nseconds = 1.0\nk = 2",
        f"{DATA_WORDS} --tick 1 --every 2",
        None,
        typed="tick",
    ),
    "durable without a folder": Case(
        "folder is missing; say where a durable run is to be kept",
        f"{ASKED_FILE}durable = true{STEP}",
        f"{ASKED_WORDS} --durable",
        ASKED | {"durable": True},
    ),
    "durable at a URL": Case(
        "durable = True: must be False with a folder at a URL, to which it is saved every few seconds; "
        "give the path of a folder",
        f"{ASKED_FILE}durable = true\nfolder = 's3://bucket/run'{STEP}",
        f"{ASKED_WORDS} --durable --folder s3://bucket/run",
        ASKED | {"durable": True, "folder": "s3://bucket/run"},
    ),
    "durable in shards": Case(
        "durable = True: must be False with 2 shards; use shards=1",
        f"{ASKED_FILE}durable = true\nfolder = 'state'{STEP}[ray]\nshards = 2",
        f"{ASKED_WORDS} --durable --folder state --runtime ray --shards 2",
        ASKED | {"durable": True, "folder": "state", "runtime": Ray(shards=2)},
    ),
    "a seed of a server without a problem": Case(
        "seed = 1: must be left out without a problem; streams have samples of their own",
        f"{SERVED_FILE}seed = 1{STEP}",
        f"{SERVED_WORDS} --seed 1",
        {"workers": 2, "w0": np.zeros(3), "step": Constant(1.0), "seed": 1},
        "serve",
    ),
    "pauses without a problem": Case(
        "pauses = [0.1, 0.1]: must be left out without a problem; siag.streams.Paced slows a stream down",
        f"{DATA_FILE}pauses = [0.1, 0.1]{STEP}",
        None,
        FEW | {"pauses": [0.1, 0.1]},
    ),
    "pauses in virtual time": Case(
        "pauses = [0.1, 0.1]: must be left out in virtual time; Simulated has slowness=",
        f"{ASKED_FILE}pauses = [0.1, 0.1]{STEP}[simulated]",
        None,
        ASKED | {"pauses": [0.1, 0.1], "runtime": siag.Simulated()},
    ),
    "a server that crashes without a folder": Case(
        "folder is missing; a server that crashes goes on from there",
        f"{ASKED_FILE}{STEP}[simulated.faults]\nserver = 9.0",
        None,
        ASKED | {"runtime": siag.Simulated(faults=siag.runtimes.Faults(server=9.0))},
    ),
    "names": Case(
        "names = ['a']: must be 2 different texts, one for each worker",
        f"{ASKED_FILE}names = ['a']{STEP}",
        f"{ASKED_WORDS} --name a",
        ASKED | {"names": ["a"]},
        typed="name",
    ),
    "names of a server": Case(
        "names = ['a']: must be 2 different texts, one for each worker",
        f"{ASKED_FILE}names = ['a']{STEP}",
        f"{ASKED_WORDS} --name a",
        ASKED | {"workers": ["a"]},
        "serve",
        typed="name",
        python="workers",
    ),
    "workers of a server": Case(
        "workers = 3: must be 2, as many as the problem has",
        f"{ASKED_FILE}workers = 3{STEP}",
        f"{ASKED_WORDS} --workers 3",
        ASKED | {"workers": 3},
        "serve",
    ),
    "another dimension": Case(
        "dimension = 2: must be 3, as many as the problem has; or leave it out",
        f"{ASKED_FILE}dimension = 2{STEP}",
        f"{ASKED_WORDS} --dimension 2",
        None,
    ),
    "another w0": Case(
        "w0 = array([0., 0.]): must be an array of finite real numbers of shape (3); its shape is (2,)",
        f"{ASKED_FILE}w0 = [0.0, 0.0]{STEP}",
        f"{ASKED_WORDS} --w0 two.npy",
        ASKED | {"w0": np.zeros(2)},
    ),
    "preload on another runtime": Case(
        "preload = ['json']: must be left out with a runtime of your own; the runtime says what its processes import",
        f"{DATA_FILE}preload = ['json']{STEP}[simulated]",
        f"{DATA_WORDS} --preload json --runtime simulated",
        FEW | {"preload": ["json"], "runtime": siag.Simulated()},
    ),
    "workers on Ray": Case(
        "workers = 3: must be 2, one for each stream; or leave it out",
        f"{DATA_FILE}{STEP}[ray]\nworkers = 3",
        f"{DATA_WORDS} --runtime ray --workers 3",
        FEW | {"runtime": Ray(workers=3)},
    ),
    "too few workers on Ray": Case(
        "fewest = 3: must be at most 2, the number of workers",
        f"{DATA_FILE}{STEP}[ray]\nfewest = 3",
        f"{DATA_WORDS} --runtime ray --fewest 3",
        FEW | {"runtime": Ray(fewest=3)},
    ),
    "a certificate without its key": Case(
        "key is missing; TLS needs both a certificate and its key",
        f"{ASKED_FILE}{STEP}[network]\ncertificate = 'job.py'",
        f"{ASKED_WORDS} --certificate job.py",
        ASKED | {"certificate": "job.py"},
        "serve",
    ),
    "negative weights": Case(
        "weights = [2.0, -1.0]: must be numbers of 0 or more, one above 0; they are shares of the whole",
        f"{ASKED_FILE}weights = [2.0, -1.0]{STEP}",
        f"{ASKED_WORDS} --weights 2,-1",
        ASKED | {"weights": [2.0, -1.0]},
    ),
    "weights that are all zero": Case(
        "weights = {'0': 0.0, '1': 0.0}: must be numbers of 0 or more, one above 0; they are shares of the whole",
        f"{ASKED_FILE}weights = {{0 = 0.0, 1 = 0.0}}{STEP}",
        f"{ASKED_WORDS} --weights 0=0,1=0",
        ASKED | {"weights": {"0": 0.0, "1": 0.0}},
    ),
    "weights that are not finite": Case(
        "weights = [1.0, inf]: must be an array of finite real numbers of shape (any); it holds NaN or infinity",
        f"{ASKED_FILE}weights = [1.0, inf]{STEP}",
        f"{ASKED_WORDS} --weights 1,inf",
        ASKED | {"weights": [1.0, np.inf]},
        "serve",
    ),
    "weights of some": Case(
        "weights = {'north': 2.0}: must be a number for each worker, by name or in their order, or 'samples'; "
        "give one to south, too; it may be 0",
        f"{ASKED_FILE}names = ['north', 'south']\nweights = {{north = 2.0}}{STEP}",
        f"{ASKED_WORDS} --name north --name south --weights north=2",
        ASKED | {"names": ["north", "south"], "weights": {"north": 2.0}},
    ),
    "weights of somebody unknown": Case(
        "weights = 'noth': must be the name of a worker that is expected, such as 'north'; did you mean north?",
        f"{ASKED_FILE}names = ['north', 'south']\nweights = {{south = 1.0, noth = 2.0}}{STEP}",
        f"{ASKED_WORDS} --name north --name south --weights south=1,noth=2",
        ASKED | {"names": ["north", "south"], "weights": {"south": 1.0, "noth": 2.0}},
    ),
    "weights of others": Case(
        "weights = [1.0, 2.0, 3.0]: must be a number for each worker, by name or in their order, or 'samples'; "
        "there are 3 for 2 workers",
        f"{ASKED_FILE}weights = [1.0, 2.0, 3.0]{STEP}",
        f"{ASKED_WORDS} --weights 1,2,3",
        ASKED | {"weights": [1.0, 2.0, 3.0]},
        "serve",
    ),
    "weights in a word": Case(
        "weights = 'sizes': must be a number for each worker, by name or in their order, or 'samples'",
        f"{ASKED_FILE}weights = 'sizes'{STEP}",
        f"{ASKED_WORDS} --weights sizes",
        ASKED | {"weights": "sizes"},
    ),
    "weights of a worker twice": Case(
        "weights = '0=2,0=1': must be each worker's once, like north=2,south=1",
        f"{ASKED_FILE}weights = '0=2,0=1'{STEP}",
        f"{ASKED_WORDS} --weights 0=2,0=1",
        None,
    ),
    "a method that needs a problem": Case(
        "IAG needs exact gradients, a stream has none; use SIAG, or give a problem",
        f"{DATA_FILE}method = 'IAG'{STEP}",
        f"{DATA_WORDS} --method IAG",
        FEW | {"method": siag.methods.IAG()},
    ),
}


@pytest.mark.parametrize("case", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_contradiction_is_the_same_line_in_python_in_the_shell_and_in_a_file(case, shell):
    np.save("two.npy", np.zeros(2))
    named = case.line.partition(" = ")[0]
    if case.file is not None:
        Path("run.toml").write_text(case.file)
        assert shell.mistake(f"{case.command} run.toml") == case.line
    if case.words is not None:
        typed = case.line.replace(named, case.typed or named, 1)
        assert shell.mistake(f"{case.command} {case.words}") == typed
    if case.given is not None:
        with pytest.raises(siag.SiagError) as caught:
            getattr(siag, case.command)(**case.given)
        assert str(caught.value) == case.line.replace(named, case.python or named, 1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("train --stream job:ones --dimension 3 --eta 1", "gradient is missing; give --gradient and --stream"),
        ("train --gradient job:gradient --dimension 3 --eta 1", "stream is missing; give --stream for each worker"),
        ("train --gradient job:gradient --stream job:ones --eta 1", "dimension is missing; give --dimension D"),
        (
            "train --gradient job:gradient --stream job:ones --dimension 3 --method SIAG",
            "eta is missing; this method needs one: --eta",
        ),
        (
            "train --problem problem.toml --eta 1",
            "iterations is missing; say when to end, with --iterations, --seconds, --reports or --epochs",
        ),
        (f"{TRAIN} --method FedAvg", "method.steps is missing; write FedAvg(steps=…, size=…)"),
        (f"{TRAIN} --method Prox", "method.method is missing; write Prox(method=…)"),
        (f"{TRAIN} --method Prox(SIAG(),l1=-1)", "method.l1 = -1: must be a finite number at least 0"),
        (f"{TRAIN} --method job:nothing", "method = 'job:nothing': must be something that can be imported"),
        (f"{TRAIN} --method job:problem", "method = 'job:problem': must be the name of a Method"),
        (f"{TRAIN} --step Constant(1)", "step = 'Constant(1)': must be given alone; leave out step, or eta"),
        (f"train {DATA} --beta 1", "gamma is missing; give --beta and --gamma for the step β/(t+γ), or --eta"),
        (f"train {DATA} --step Constant", "step.eta is missing; write Constant(eta=…)"),
        (f"train {DATA} --step Konstant", "step = 'Konstant': must be one of Constant, Harmonic"),
        (f"{TRAIN} --stream job:name", "must be a stream, not a name"),
        (f"{TRAIN} --name=", "name = ['']: must be 2 different texts"),
        (f"{TRAIN} --reports 0", "reports = 0: must be"),
        (f"{TRAIN} --max-age -1", "max-age = -1: must be"),
        (
            f"{TRAIN} --loss job:hopeless --reports 5 {INSTANT}",
            "loss = 'job:hopeless': must be a function of w; it raised",
        ),
        (f"{TRAIN} --method SAG", "SAG draws one sample per iteration"),
        (f"{TRAIN} --preload no_such", "preload = 'no_such': must be the name of a module that can be imported"),
        (f"{TRAIN} --shards 2", "shards = 2: must be given with --runtime ray"),
        (f"{TRAIN} --workers 2", "workers = 2: must be given with --runtime ray"),
        (f"{TRAIN} --tls", "tls = True: must be given with --runtime ray"),
        (f"{TRAIN} --address auto", "address = 'auto': must be given with --runtime ray"),
        (f"{TRAIN} --server-resources CPU=1", "server-resources = 'CPU=1': must be given with --runtime ray"),
        (
            f"{TRAIN} --folder s3://bucket/x {INSTANT}",
            "folder = 's3://bucket/x': must be a URL whose driver is installed",
        ),
        (f"{TRAIN} --runtime slurm", "runtime = 'slurm': must be local, ray, simulated, or yours as module:attribute"),
        (f"{TRAIN} --runtime job:few", "must be a siag.runtimes.Runtime"),
        (f"{TRAIN} --simulated-seed 1", "simulated-seed = 1: must be given with --runtime simulated"),
        (f"{TRAIN} --runtime simulated --simulated-seed -1", "simulated-seed = -1: must be"),
        (f"{TRAIN} --runtime simulated --shards 2", "shards = 2: must be given with --runtime ray"),
        (f"{RAY} --resources CPU", "resources = 'CPU': must be each once, like CPU=1,GPU=0.5"),
        (f"{RAY} --resources CPU=1,CPU=2", "resources = 'CPU=1,CPU=2': must be each once"),
        (f"{RAY} --server-resources CPU=x", "server-resources = 'CPU=x': must be each once"),
        (f"{RAY} --resources CPU=-1", "resources['CPU'] = -1.0: must be"),
        (f"{RAY} --shards 0", "shards = 0: must be"),
        (f"{RAY} --fewest 0", "fewest = 0: must be"),
        (f"{RAY} --start-timeout 0", "start-timeout = 0.0: must be"),
        (f"{RAY} --workers 3", "workers = 3: must be"),
        ("train nowhere.toml", "nowhere.toml: no such file or directory"),
        (
            "train jobs:gradient",
            "jobs:gradient: no such file; for a function of your own give --gradient jobs:gradient",
        ),
    ],
)
def test_a_mistake_is_one_line_and_exit_status_2(words, says, shell):
    assert says in shell.mistake(words)
