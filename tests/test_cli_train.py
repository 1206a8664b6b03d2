"""`siag train` as users meet it: one command, here or on Ray."""

import os
import shutil
import signal

import numpy as np
import pytest

import siag
from siag.methods import Averaged, Prox
from siag.steps import Constant, DelayAdaptive
from terminals import Desk, mistake, run, wait_for

MORE = """

def hopeless(w):
    raise KeyError("no data")


def explodes(w, sample):
    return -w - sample


def summing():
    return Own(normalization="sum")


def lenient():
    from siag.streams import Buffered, Follow

    return Buffered(Follow(name, wait=False, bad="skip"))


from siag.methods import SGD


class Own(SGD):
    pass
"""
STREAMS = ("--gradient", "job:gradient", "--stream", "job:slow_ones", "--stream", "job:slow_threes", "--dimension", 3)


@pytest.fixture
def desk(tmp_path):
    with Desk(tmp_path, MORE) as made:
        yield made


def test_streams_are_trained_on_by_one_command(desk):
    trained = desk.siag(
        "train", *STREAMS, "--eta", 0.05, "--iterations", 2000, "--name", "one", "--name", "three", "--out", "out"
    )
    assert trained.end() == 0, trained.err
    assert trained.err  # a line of summary
    assert trained.out[-1] == "Written: out/w.npy, run.npz, run.csv, run.png, run.svg\n"
    assert np.abs(np.load(desk.folder / "out" / "w.npy") - 2.0).max() < 0.5
    assert siag.load(desk.folder / "out" / "run.npz").t[-1] == 2000


def replayed(desk):
    """The model that the trace gives, and the one that was trained."""
    again = desk.siag("replay", "run.trace.gz", "--out", "again", "--json")
    assert again.end() == 0, again.err
    return siag.load(desk.folder / "again" / "run.npz").w[0], np.load(desk.folder / "out" / "w.npy")


def posed(desk, *more):
    """Train on the problem; the last line."""
    model = ("--problem", "problem.toml", "--seed", 4, "--eta", 0.05)
    kept = ("--trace", "run.trace.gz", "--out", "out", "--json")
    trained = desk.siag("train", *model, "--reports", 300, *kept, *more)
    assert trained.end() == 0, trained.err
    return trained.documents()


def test_a_problem_is_replayed_from_the_trace_bit_for_bit(desk):
    *lines, result = posed(desk)
    assert all(set(line) in ({"seconds", "event"}, {"seconds", "snapshot"}) for line in lines)
    assert (result["result"], result["seed"], result["samples"][-1]) == (True, 4, 300)
    assert result["activity"] == "live, 2 processes on one machine"
    again, w = replayed(desk)
    assert np.array_equal(again, w)
    assert result["w"] == w.tolist()
    assert w.any()


def test_the_same_on_a_ray_cluster_that_the_command_starts(desk, monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    result = posed(desk, "--runtime", "ray", "--workers", 2, "--resources", "CPU=0.5", "--folder", "state")[-1]
    assert (result["result"], result["seed"], result["samples"][-1]) == (True, 4, 300)
    assert "2 workers on Ray" in result["activity"]
    again, w = replayed(desk)
    assert np.array_equal(again, w)
    assert w.any()


def test_the_same_command_goes_on_from_its_folder(desk):
    words = ("train", "--problem", "problem.toml", "--eta", 0.05, "--folder", "state", "--json")
    first = desk.siag(*words, "--iterations", 200)
    assert first.end() == 0, first.err
    second = desk.siag(*words, "--iterations", 500)
    assert second.end() == 0, second.err
    assert second.says("went on from version 200", second.out)
    assert second.documents()[-1]["t"][-1] == 500


@pytest.mark.parametrize(
    ("usual", "number", "why"),
    [
        (signal.default_int_handler, signal.SIGINT, "interrupted"),
        (signal.default_int_handler, signal.SIGTERM, "stopped by SIGTERM"),
        (signal.SIG_IGN, signal.SIGTERM, "stopped by SIGTERM"),  # in the background of a script
    ],
    ids=["INT", "TERM", "TERM where INT is ignored"],
)
def test_it_is_stopped_in_order_by_a_signal(desk, usual, number, why):
    before = signal.signal(signal.SIGINT, usual)
    trained = desk.siag("train", *STREAMS, "--eta", 0.05, "--json", "--out", "out")
    signal.signal(signal.SIGINT, before)
    wait_for(trained, lambda snapshot: snapshot["reports"] > 20)
    trained.process.send_signal(number)
    assert trained.end() == 0, trained.err
    assert trained.documents()[-1]["ended"] == why
    assert (desk.folder / "out" / "run.npz").exists()
    assert trained.err == []


def stopped(desk, change, *more):
    """A run whose folder for results is changed meanwhile, and that is stopped then; the terminal, and its result."""
    trained = desk.siag("train", *STREAMS, "--eta", 0.05, "--json", "--out", "out", *more)
    wait_for(trained, lambda snapshot: snapshot["reports"] > 20)
    change(desk.folder / "out")
    trained.process.send_signal(signal.SIGTERM)
    trained.end()
    return trained, trained.documents()[-1]


def test_a_folder_for_results_that_vanished_is_made_again(desk):
    trained, result = stopped(desk, shutil.rmtree)
    assert (trained.process.returncode, trained.err) == (0, [])
    assert result["w"] == np.load(desk.folder / "out" / "w.npy").tolist()
    assert (desk.folder / "out" / "run.svg").exists()


def test_a_model_that_cannot_be_written_is_printed_and_can_be_exported(desk):
    def replace(folder):
        shutil.rmtree(folder)
        folder.write_text("")

    trained, result = stopped(desk, replace, "--folder", "state")
    assert trained.process.returncode == 1
    *lines, last = trained.err
    names = ("w.npy", "run.npz", "run.csv", "run.png", "run.svg")
    assert [line.split(": ")[:3] for line in lines] == [["siag", f"out/{name}", "cannot be written"] for name in names]
    assert last == "siag: state: siag export reads the model from it: siag export state w.npy\n"
    assert desk.siag("export", "state", "w.npy").end() == 0
    assert np.load(desk.folder / "w.npy").tolist() == result["w"]
    assert any(result["w"])


def test_one_file_that_cannot_be_written_is_named_and_the_others_are_there(desk):
    trained, result = stopped(desk, lambda folder: (folder / "run.npz").mkdir())
    assert trained.process.returncode == 1
    assert trained.err == ["siag: out/run.npz: cannot be written: is a directory\n"]
    assert result["w"] == np.load(desk.folder / "out" / "w.npy").tolist()
    assert (desk.folder / "out" / "run.svg").exists()


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


def test_a_run_whose_workers_have_all_failed_ends_with_status_1(desk):
    streams = ("--stream", "job:bad", "--stream", "job:bad")
    trained = desk.siag("train", "--gradient", "job:gradient", *streams, "--dimension", 3, "--eta", 1, "--quiet")
    assert trained.end() == 1
    (line,) = trained.err
    assert line.startswith("siag: no worker is there: 2 away; worker ")
    assert "failed: RuntimeError: torn cable (job.py, line" in line
    assert trained.out[0].startswith("w  ")


def test_a_run_in_which_one_of_two_has_failed_goes_on_to_its_end(desk):
    streams = ("--stream", "job:bad", "--stream", "job:ones")
    words = ("--dimension", 3, "--eta", 0.05, "--iterations", 500, "--quiet")
    assert desk.siag("train", "--gradient", "job:gradient", *streams, *words).end() == 0


def test_lines_that_are_left_out_are_told_with_the_name_of_the_worker(desk):
    (desk.folder / "readings.csv").write_text("1\nx\n2\ny\n")
    streams = ("--stream", "job:lenient", "--name", "edge", "--dimension", 1)
    trained = desk.siag("train", "--gradient", "job:gradient", *streams, "--eta", 0.05, "--json")
    assert trained.end() == 0, trained.err
    told = [
        "worker edge: readings.csv, line 2: 'x' is not a finite number; it is left out",
        "worker edge: readings.csv: 2 bad lines were left out in all",
    ]
    events = [document["event"] for document in trained.documents() if "event" in document]
    assert [event for event in events if "readings" in event] == told


def test_a_method_of_ones_own_reaches_the_workers(desk):
    trained = desk.siag("train", *STREAMS, "--eta", 0.05, "--reports", 50, "--method", "job:summing", "--json")
    assert trained.end() == 0, trained.err
    assert trained.documents()[-1]["method"] == "Own(normalization='sum')"


@pytest.mark.parametrize("method", ["Prox(SIAG(), l1=0.01)", "Averaged(method=Prox(SIAG(wait=0.5), l1=0.01), start=3)"])
def test_a_method_around_another_is_replayed_from_the_trace_alone(desk, method):
    assert posed(desk, "--method", method)[-1]["method"].startswith(method.partition("(")[0])
    again, w = replayed(desk)
    assert np.array_equal(again, w)
    assert w.any()


def test_a_run_that_diverges_ends_with_status_1(desk):
    streams = ("--gradient", "job:explodes", "--stream", "job:ones", "--dimension", 3)
    trained = desk.siag("train", *streams, "--eta", 100, "--quiet", "--out", "out")
    assert trained.end() == 1
    (line,) = trained.err
    assert line.startswith("siag: w left the range of numbers")
    assert (desk.folder / "out" / "w.npy").exists()


def test_a_run_in_which_nobody_reported_ends_with_status_1(desk):
    trained = desk.siag(
        "train", "--gradient", "job:fails", "--stream", "job:ones", "--dimension", 3, "--eta", 1, "--quiet"
    )
    assert trained.end() == 1
    (line,) = trained.err
    assert line.startswith("siag: no worker has reported anything; worker 0 failed: OSError: [Errno 5] no sensor (job")


class Seen(Exception):
    """What train would have been called with."""


def called(words, desk, monkeypatch):
    """What `siag.runtimes.train` is called with."""
    from siag import runtimes

    def fake(**options):
        raise Seen(options)

    with monkeypatch.context() as patched:
        patched.setattr(runtimes, "train", fake)
        with pytest.raises(Seen) as seen:
            run(words, desk, patched)
    return seen.value.args[0]


TRAIN = "train --gradient job:gradient --stream job:ones --dimension 3 --eta 0.1"
RAY = f"{TRAIN} --runtime ray"


def test_what_is_typed_reaches_python(desk, monkeypatch):
    from siag.runtimes import Ray

    usual = called(TRAIN, desk, monkeypatch)
    assert usual.get("runtime") is None
    assert (usual["until"], usual["guard"]) == (siag.Until(), siag.server.Guard())
    assert called(RAY, desk, monkeypatch)["runtime"] == Ray()
    words = "--address auto --workers 1 --resources CPU=2,GPU=0.5 --server-resources CPU=4 --shards 2 --fewest 1"
    words += " --tls --port 7460 --wait 5 --folder s3://bucket/state --reports 7 --patience 3"
    full = called(f"{RAY} {words}", desk, monkeypatch)
    assert full["runtime"] == Ray(
        address="auto",
        workers=1,
        resources={"CPU": 2.0, "GPU": 0.5},
        server_resources={"CPU": 4.0},
        shards=2,
        fewest=1,
        tls=True,
        port=7460,
        patience=5.0,
    )
    assert (full["folder"], full["until"].reports, full["patience"]) == ("s3://bucket/state", 7, 3.0)


@pytest.mark.parametrize(
    ("words", "method", "step"),
    [
        ("--method Prox(SIAG(),l1=0.1) --eta 1", Prox(siag.methods.SIAG(), l1=0.1), Constant(1.0)),
        ("--method Averaged(SGD(),start=3) --step Constant(1)", Averaged(siag.methods.SGD(), start=3), Constant(1.0)),
        ("--step DelayAdaptive(gamma=0.1)", siag.methods.SIAG(), DelayAdaptive(0.1)),
        ("--step siag.steps:Constant(eta=2.0)", siag.methods.SIAG(), Constant(2.0)),
        ("--method siag.methods:SGD --eta 1", siag.methods.SGD(), Constant(1.0)),
        ("--method siag.methods:SGD(normalization='sum') --eta 1", siag.methods.SGD(normalization="sum"), Constant(1)),
    ],
)
def test_methods_and_steps_are_written_as_in_python(words, method, step, desk, monkeypatch):
    seen = called(f"{TRAIN.removesuffix('--eta 0.1')} {words}", desk, monkeypatch)
    assert (seen["method"], seen["step"]) == (method, step)


def test_a_loss_can_be_sent_to_another_process(desk, monkeypatch):
    import pickle

    loss = called(f"{TRAIN} --loss math:fsum", desk, monkeypatch)["loss"]
    assert pickle.loads(pickle.dumps(loss))(np.full(3, -2.0)) == -6.0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("train --stream job:ones --dimension 3 --eta 1", "gradient is missing; give --gradient and --stream"),
        ("train --gradient job:gradient --dimension 3 --eta 1", "stream is missing; give --stream for each worker"),
        ("train --gradient job:gradient --stream job:ones --eta 1", "dimension is missing; give --dimension D"),
        ("train --gradient job:gradient --stream job:ones --dimension 3", "eta is missing; give --eta"),
        (f"{TRAIN} --problem problem.toml", "gradient = 'job:gradient': must be left out with --problem"),
        (
            "train --problem problem.toml --stream job:ones --eta 1",
            "stream = 'job:ones': must be left out with --problem",
        ),
        (
            "train --problem problem.toml --eta 1",
            "iterations is missing; say when to end, with --iterations, --seconds or --reports",
        ),
        (f"{TRAIN} --method FedAvg", "method.steps is missing; write FedAvg(steps=…, size=…)"),
        (f"{TRAIN} --method Prox", "method.method is missing; write Prox(method=…)"),
        (f"{TRAIN} --method Prox(SIAG(),l1=-1)", "method.l1 = -1: must be a finite number at least 0"),
        (f"{TRAIN} --method job:nothing", "method = 'job:nothing': must be one of"),
        (f"{TRAIN} --method job:problem", "method = 'job:problem': must be the name of a Method"),
        (f"{TRAIN} --step Constant(1)", "step = 'Constant(1)': must be given without --eta, --beta and --gamma"),
        (f"{TRAIN.removesuffix('--eta 0.1')} --step Constant", "step.eta is missing; write Constant(eta=…)"),
        (f"{TRAIN.removesuffix('--eta 0.1')} --step Konstant", "step = 'Konstant': must be one of Constant, Harmonic"),
        ("train --problem problem.toml --eta 1 --dimension 3", "dimension = 3: must be left out with --problem"),
        (f"{TRAIN} --stream job:name", "must be a stream, not a name"),
        (f"{TRAIN} --name a --name b", "name = ['a', 'b']: must be"),
        (f"{TRAIN} --name=", "name = '': must be not empty"),
        (f"{TRAIN} --seed 1", "seed = 1: must be given with --problem"),
        (f"{TRAIN} --every 2 --tick 1", "tick = 1.0: must be given without --every"),
        (f"{TRAIN} --reports 0", "reports = 0: must be"),
        (f"{TRAIN} --max-age -1", "max-age = -1: must be"),
        (f"{TRAIN} --durable", "folder is missing"),
        (
            f"{TRAIN} --loss job:hopeless --reports 5",
            "loss = 'job:hopeless': must be a function of w; it raised",
        ),
        (f"{TRAIN} --method SAG", "SAG draws one sample per iteration"),
        (f"{TRAIN} --shards 2", "shards = 2: must be given with --runtime ray"),
        (f"{TRAIN} --workers 2", "workers = 2: must be given with --runtime ray"),
        (f"{TRAIN} --tls", "tls = True: must be given with --runtime ray"),
        (f"{TRAIN} --address auto", "address = 'auto': must be given with --runtime ray"),
        (f"{TRAIN} --server-resources CPU=1", "server-resources = 'CPU=1': must be given with --runtime ray"),
        (f"{TRAIN} --folder s3://bucket/x", "folder = 's3://bucket/x': must be a path, or given with --runtime ray"),
        (f"{TRAIN} --runtime slurm", "'slurm' is not one of 'local', 'ray'"),
        (f"{RAY} --resources CPU", "resources = 'CPU': must be each once, like CPU=1,GPU=0.5"),
        (f"{RAY} --resources CPU=1,CPU=2", "resources = 'CPU=1,CPU=2': must be each once"),
        (f"{RAY} --server-resources CPU=x", "server-resources = 'CPU=x': must be each once"),
        (f"{RAY} --resources CPU=-1", "resources['CPU'] = -1.0: must be"),
        (f"{RAY} --shards 0", "shards = 0: must be"),
        (f"{RAY} --fewest 0", "fewest = 0: must be"),
        (f"{RAY} --wait 0", "wait = 0.0: must be"),
        (f"{RAY} --workers 3", "workers = 3: must be"),
    ],
)
def test_a_mistake_is_one_line_and_exit_status_2(words, says, desk, monkeypatch, capsys):
    assert says in mistake(words, desk, monkeypatch, capsys)
