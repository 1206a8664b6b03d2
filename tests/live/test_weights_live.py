"""Workers that count for more than others in live runs: Σ p_i F_i, saved, replayed, split and shown."""

import json
from contextlib import nullcontext

import jobs
import numpy as np
import pytest
from jobs import Notes
from snapshots import snapshot, worker
from splits import Split, finish, hands
from splits import same as same_as_one
from test_watch import CODES, console

import siag
from plain import as_python
from siag.experiments.recorded import recorded
from siag.live.monitor.dashboard.messages import now_of, row_of
from siag.live.monitor.metrics import families
from siag.live.monitor.view import view
from siag.live.protocol.welcome import described, make_method
from siag.live.spec import Spec
from siag.methods import SGD, SIAG, Automatic, Averaged, FedAsync, Weighted
from siag.runtimes import Faults
from siag.server import Departed
from siag.steps import Constant, Harmonic

N = 3
SHARES = [6.0, 1.0, 0.5]
PROBLEM = siag.problems.LeastSquares.random(n=N, d=2, p=2, noise=0.1, seed=1)
STEP = Harmonic(1.0, 100.0)
WANTED = np.average(PROBLEM.centers, axis=0, weights=SHARES)
NAMES = ["north", "south"]
STREAMS = {"gradient": jobs.pull, "streams": [[1.0], [2.0]], "w0": np.zeros(2), "step": STEP, "names": NAMES}
UNEQUAL = siag.Simulated(slowness=[1, 2, 5], seed=1)


@pytest.fixture(autouse=True)
def plain(request):
    """As plain Python, so that no machine code is made."""
    alone = request.node.get_closest_marker("thorough") or "processes" in request.node.name
    with nullcontext() if alone else as_python():
        yield


def train(weights=SHARES, until=400, runtime=UNEQUAL, step=STEP, **given):
    how = {"weights": weights, "until": until, "runtime": runtime, "step": step, "progress": False}
    return siag.train(problem=PROBLEM, **how | given)


def same(run, other):
    return run.w.tobytes() == other.w.tobytes()


# What may be given


@pytest.mark.parametrize("weights", [{"south": 1.0, "north": 2.0}, [2, 1], (2.0, 1.0), np.array([2.0, 1.0])], ids=type)
def test_weights_are_by_name_or_in_the_order_of_the_workers(weights):
    spec = Spec(**STREAMS, weights=weights).validate()
    assert spec.weights == (2.0, 1.0)
    assert spec.weighted == Weighted(SIAG(), (2.0, 1.0))
    assert spec.validate().weights == (2.0, 1.0)


def test_weights_that_are_equal_are_none_and_those_of_a_method_are_the_runs():
    assert Spec(**STREAMS, weights=[3, 3]).validate().weights is None
    spec = Spec(**STREAMS, method=Averaged(Weighted(SIAG(), [2, 1]))).validate()
    assert (spec.method, spec.weights) == (Averaged(SIAG()), (2.0, 1.0))
    assert spec.weighted == Averaged(Weighted(SIAG(), [2, 1]))


def test_a_method_that_has_weights_takes_no_others():
    with pytest.raises(siag.SiagError, match="multiply the weights"):
        Spec(**STREAMS, method=Weighted(SIAG(), [2, 1]), weights=[2, 1]).validate()


@pytest.mark.parametrize(
    ("method", "weights", "words"),
    [(FedAsync(steps=2, size=0.1), [2, 1], "cannot follow FedAsync"), (SGD(), "samples", "SGD keeps no table")],
)
def test_a_method_that_cannot_have_weights_says_so(method, weights, words):
    with pytest.raises(siag.SiagError, match=words):
        Spec(**STREAMS, method=method, weights=weights).validate()


def test_of_many_that_are_missing_some_are_named():
    names = [f"w{k}" for k in range(9)]
    given = {**STREAMS, "streams": [[1.0]] * 9, "names": names, "weights": {"w0": 1.0, "w1": 2.0}}
    with pytest.raises(siag.BadInput, match=r"give one to w2, w3, w4 and 4 more, too; it may be 0$"):
        Spec(**given).validate()


def test_whoever_comes_later_counts_1_however_often_the_run_is_checked():
    """The command line checks what it was given, and the server does so again."""
    given = {"w0": np.zeros(2), "step": STEP, "names": NAMES, "open": True, "max_workers": 4}
    spec = Spec(**given, weights={"north": 3.0, "south": 2.0}).validate(serving=True)
    assert spec.weights == (3.0, 2.0, 1.0, 1.0)
    assert spec.validate(serving=True).weights == spec.weights
    with pytest.raises(siag.BadInput, match="there are 3 for 2 workers"):
        Spec(**given, weights=[3.0, 2.0, 1.0]).validate(serving=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"names": ["0", "1"], "weights": {0: 2.0, 1: 1.0}}, "weights = 0: .* expected, such as '0'; names are texts$"),
        ({"names": [], "open": True, "weights": {"north": 2.0}}, "weights = 'north': .* expected; give names, too$"),
    ],
    ids=["a number", "nobody is expected"],
)
def test_a_name_that_nobody_has_is_refused(given, words):
    with pytest.raises(siag.BadInput, match=words):
        Spec(w0=np.zeros(2), step=STEP, **given).validate(serving=True)


# Where it leads


@pytest.mark.parametrize("given", [{}, {"step": None}], ids=["SIAG", "Automatic"])
def test_a_run_ends_at_the_optimum_of_the_weighted_objective(given):
    """Within a fifth of the distance between the two optima."""
    run = train(until=4000, **given)
    apart = np.linalg.norm(WANTED - PROBLEM.optimum)
    assert np.linalg.norm(run.w[0] - WANTED) < 0.2 * apart
    assert run.error[0, -1] < 0.01 * run.error[0, 0]
    assert run.error[0, 0] == pytest.approx(np.square(WANTED).sum())  # errors are from there, and w_0 = 0


def test_names_say_whose_streams_count_for_more():
    def made(weights):
        streams = [jobs.once([1.0] * 600), jobs.once([4.0] * 600)]
        how = {"names": NAMES, "weights": weights, "runtime": siag.Simulated(seed=1), "progress": False}
        return siag.train(jobs.pull, streams, np.zeros(1), step=Constant(0.1), until=1000, **how).w[0, 0]

    assert made({"south": 1.0, "north": 2.0}) == pytest.approx(2.0, abs=0.01)
    assert made({"south": 2.0, "north": 1.0}) == pytest.approx(3.0, abs=0.01)
    assert made(None) == pytest.approx(2.5, abs=0.01)
    assert made({"south": 1.0, "north": 0.0}) == pytest.approx(4.0, abs=0.01)


def test_equal_weights_change_nothing_to_the_bit():
    assert same(train(None), train([0.3] * N))
    assert not same(train(None), train())


def test_samples_count_as_often_as_they_came():
    run = train("samples", until=4000, runtime=siag.Simulated(slowness=[1, 3, 9], seed=2))
    reports = [each["reports"] for each in run.workers]
    wanted = np.average(PROBLEM.centers, axis=0, weights=reports)
    assert np.linalg.norm(run.w[0] - wanted) < 0.2 * np.linalg.norm(wanted - PROBLEM.optimum)
    assert [each["share"] for each in run.workers] == pytest.approx(np.array(reports) / sum(reports))
    assert np.isnan(run.error).all()  # an objective that moves has no optimum that stays


# Saved, replayed, split


@pytest.mark.thorough
@pytest.mark.parametrize("weights", [SHARES, "samples"], ids=str)
@pytest.mark.parametrize("method", [SIAG(), Automatic()], ids=lambda method: type(method).__name__)
def test_a_trace_replays_to_the_bit_in_machine_code(tmp_path, weights, method):
    test_a_trace_replays_to_the_bit(tmp_path, weights, method)


@pytest.mark.parametrize("weights", [SHARES, "samples"], ids=str)
@pytest.mark.parametrize("method", [SIAG(), Automatic()], ids=lambda method: type(method).__name__)
def test_a_trace_replays_to_the_bit(tmp_path, weights, method):
    step = STEP if isinstance(method, SIAG) else None
    run = train(weights, trace=tmp_path / "run.trace", method=method, step=step, messages="int8")
    assert same(siag.replay(tmp_path / "run.trace"), run)
    others = siag.replay(tmp_path / "run.trace", method=Weighted(method, [1.0, 6.0, 0.5]))
    assert not same(others, run)


def test_so_it_does_with_thousands_of_weights(tmp_path):
    n = 3000
    problem, weights = siag.problems.LeastSquares.random(n=n, d=2, p=1, noise=0.1), 1.0 + np.arange(n) / 7.0
    how = {"weights": weights, "until": 200, "step": STEP, "runtime": siag.Simulated(seed=3), "record": 2}
    run = siag.train(problem=problem, progress=False, trace=tmp_path / "run.trace", **how)
    assert run.about["weights"] == weights.tolist()
    assert same(siag.replay(tmp_path / "run.trace", record=2), run)


@pytest.mark.parametrize("weights", [[1.0, -1.0, 0.0], [1.0, 2.0], "sizes", 3], ids=str)
def test_a_trace_with_other_weights_is_refused(tmp_path, weights):
    path = tmp_path / "run.trace"
    train(trace=path, until=10)
    head, *rest = path.read_text().splitlines(keepends=True)
    before = json.dumps(SHARES)
    assert before in head
    path.write_text("".join([head.replace(before, json.dumps(weights)), *rest]))
    with pytest.raises(siag.SiagError, match="weights"):
        siag.replay(path)


def test_processes_and_shared_memory(tmp_path):
    run = train(runtime=None, trace=tmp_path / "run.trace")
    assert same(siag.replay(tmp_path / "run.trace"), run)
    assert [each["share"] for each in run.workers] == pytest.approx(np.array(SHARES) / sum(SHARES))


@pytest.mark.few(1)
@pytest.mark.parametrize("weights", [[4.0, 1.0, 0.0, 2.0], "samples"], ids=str)
def test_a_model_that_is_split_has_them_in_all_shards(tmp_path, weights):
    with Split(3, weights=weights, trace=tmp_path / "run.trace") as split:
        run = finish(split, hands(split))
    assert run.reads[0, -1] == 400
    assert same_as_one(tmp_path / "run.trace", split, run)


@pytest.mark.parametrize("weights", [SHARES, "samples"], ids=str)
def test_a_durable_run_whose_server_crashes_goes_on_with_them(tmp_path, weights):
    places = {"folder": tmp_path / "state", "durable": True, "trace": tmp_path / "run.trace"}
    notes = Notes()
    runtime = siag.Simulated(seed=4, faults=Faults(server=8.0, crashes=20.0))
    run = train(weights, until=300, runtime=runtime, **places, departed=Departed(4), forget=1.0, progress=notes)
    assert notes.heard("went on from version")
    assert same(siag.replay(tmp_path / "run.trace"), run)
    each = np.array(SHARES if weights is SHARES else [each["reports"] for each in run.workers])
    assert [each["share"] for each in run.workers] == pytest.approx(each / each.sum())


def test_a_run_goes_on_with_the_same_weights_and_no_others(tmp_path):
    places = {"folder": tmp_path / "state"}
    train(until=60, **places)
    kept = {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir() if path.is_file()}
    words = r"weights is \[6\.0, 1\.0, 0\.5\] there and (\[2\.0, 1\.0, 0\.5\]|not given|'samples') here; run what was"
    for others in ([2.0, 1.0, 0.5], None, "samples"):
        with pytest.raises(siag.SiagError, match=words) as caught:
            train(others, until=100, **places)
        assert "\n" not in str(caught.value)
    assert kept == {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir() if path.is_file()}
    notes = Notes()
    assert train(until=100, progress=notes, **places).t[-1] == 100
    assert notes.heard("went on from version 60")


def test_workers_are_not_told_of_weights():
    many = Averaged(Weighted(SIAG(wait=0.5), np.arange(1.0, 5001.0)))
    assert make_method(described(many)) == Averaged(SIAG(wait=0.5))


# Shown


def last(**given):
    notes = Notes()
    run = train(progress=notes, **given)
    return run, notes.snapshots[-1]


def test_a_snapshot_has_the_shares_of_the_objective():
    run, shown = last()
    parts = np.array(SHARES) / sum(SHARES)
    assert [each.share for each in shown.workers] == pytest.approx(parts)
    assert (shown.weights, shown.alike) == ("given", True)
    assert [each["share"] for each in shown.as_dict()["workers"]] == pytest.approx(parts)
    assert [each["share"] for each in run.workers] == pytest.approx(parts)
    gauge = next(family for family in families(shown) if family.name == "siag_worker_share")
    assert [each.value for each in gauge.samples] == pytest.approx(parts)
    assert [row_of(each)[7] for each in shown.workers] == pytest.approx(parts, abs=1e-3)
    assert now_of(shown)["weights"] == "given"


def test_with_samples_the_shares_move():
    notes = Notes()
    train("samples", progress=notes)
    assert notes.snapshots[0].workers[0].share == 1.0  # the first to report
    shown = notes.snapshots[-1]
    assert [each.share for each in shown.workers] == pytest.approx([w.reports / shown.reports for w in shown.workers])
    assert shown.weights == "samples"


def test_a_method_that_keeps_nothing_counts_reports_times_weights():
    _, shown = last(method=SGD())
    each = np.array([worker.reports * weight for worker, weight in zip(shown.workers, SHARES, strict=True)])
    assert [worker.share for worker in shown.workers] == pytest.approx(each / each.sum())


def priced(w, sample):
    return float(sample), w - 1.0


def test_the_progressive_loss_is_weighted_as_the_objective_is():
    streams = [jobs.once([1.0] * 50), jobs.once([5.0] * 50)]
    how = {"weights": [3.0, 1.0], "until": 60, "runtime": siag.Simulated(seed=1), "step": Constant(0.1)}
    notes = Notes()
    run = siag.train(priced, streams, np.zeros(1), progress=notes, **how)
    assert run.metrics["progressive loss"][0, -1] == pytest.approx(2.0)
    assert notes.snapshots[-1].progressive == pytest.approx(2.0)
    assert run.error[0, -1] == pytest.approx(2.0)


def test_a_page_of_a_trace_shows_the_same_shares_and_losses(tmp_path):
    for weights, parts in (([3.0, 1.0], [0.75, 0.25]), ("samples", None)):
        path, streams = tmp_path / f"{parts is None}.trace", [jobs.once([1.0] * 50), jobs.once([5.0] * 50)]
        how = {"weights": weights, "until": 60, "runtime": siag.Simulated(seed=1), "step": Constant(0.1)}
        run = siag.train(priced, streams, np.zeros(1), progress=False, trace=path, **how)
        found = recorded(path).moment(1e9)
        reports = np.array([each["reports"] for each in run.workers])
        assert [each.share for each in found.workers] == pytest.approx(reports / 60 if parts is None else parts)
        assert found.progressive == pytest.approx(np.average([1.0, 5.0], weights=[w.share for w in found.workers]))
        assert found.weights == ("samples" if parts is None else "given")


def test_the_terminal_has_a_column_of_shares_where_they_differ():
    def text(*shares):
        screen = console()
        screen.print(view(snapshot(workers=tuple(worker(k, share=each) for k, each in enumerate(shares))), screen))
        return CODES.sub("", screen.file.getvalue())

    assert "counts" not in text(0.5, 0.5)
    assert "counts" not in text(1.0, 0.0)  # one has left
    assert "75.0%" in text(0.75, 0.25)
