"""`siag.Simulated`: the same call of `siag.train`, in one process, in virtual time, the same to the bit each time."""

import itertools
from dataclasses import replace
from functools import partial

import jobs
import numpy as np
import pytest
from jobs import Notes

import siag
from siag import Simulated
from siag.activity import EveryArrivals, Exponential, Fixed, OnOff, Pareto, Tick, Trace
from siag.foundations.schedule import points
from siag.live.reasons import Ending, Failure, WorkerFailure
from siag.methods import LAG, SCAFFOLD, SIAG, FedBuff
from siag.runtimes import Faults
from siag.server import DROP, KEEP, Guard

N, D = 4, 3
STEP = siag.steps.Harmonic(1.0, 50)
PROBLEM = siag.problems.LeastSquares.random(n=N, d=D, p=2, noise=0.1)
RUNTIME = Simulated(times=Exponential(1.0), seed=1)


def train(streams, gradient=lambda w, x: w - x, runtime=RUNTIME, **options):
    streams = [jobs.once(stream) for stream in streams]
    return siag.train(gradient, streams, np.zeros(2), step=STEP, runtime=runtime, progress=False, **options)


def train_problem(runtime=RUNTIME, **options):
    return siag.train(problem=PROBLEM, step=STEP, runtime=runtime, progress=False, **options)


def same(run, other, *names):
    """Whether two runs are the same to the bit."""
    return all(np.array_equal(getattr(run, name), getattr(other, name)) for name in ("t", "error", "w", *names))


# Like the simulator


RUNTIMES = {
    "exponential": RUNTIME,
    "unequal": Simulated(times=Exponential(1.0), slowness=[1, 1, 5, 20], seed=2),
    "fixed": Simulated(times=Fixed(1.0), slowness=[1, 1, 2, 3], seed=3),
    "on their way": Simulated(times=Pareto(0.5, 2.5), travel=Exponential(0.3), slowness=2.0, seed=4),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=RUNTIMES)
@pytest.mark.parametrize(
    "method", [SIAG(), LAG(), FedBuff(steps=3, size=0.1)], ids=lambda method: type(method).__name__
)
def test_it_takes_the_steps_that_the_simulator_takes(method, runtime):
    live = train_problem(runtime, method=method, until=200, seed=runtime.seed)
    how = {"seed": runtime.seed, "compiled": method == SIAG()}  # for the others compiling would take longer
    simulated = siag.simulate(PROBLEM, method, runtime.activity(), STEP, iterations=200, **how)
    assert same(live, simulated)
    assert np.allclose(np.diff(live.time[0, 1:]), np.diff(simulated.time[0, 1:]))  # from the first report, and from 0


@pytest.mark.parametrize("there", [OnOff(on=3.0, off=5.0), OnOff(on=[3.0, 1.0, 9.0, 2.0], off=[5.0, 0.0, 1.0, 4.0])])
def test_so_it_does_with_workers_that_come_and_go(there):
    runtime = Simulated(availability=there, slowness=[1, 1, 2, 4], seed=5)
    live = train_problem(runtime, until=200, seed=5)
    assert same(live, siag.simulate(PROBLEM, SIAG(), runtime.activity(), STEP, iterations=200, seed=5))


# Replayed


@pytest.mark.few(3)
@pytest.mark.parametrize("server", [EveryArrivals(1), EveryArrivals(3), Tick(0.5)], ids=repr)
@pytest.mark.parametrize("method", [SIAG(), SIAG(wait=1.0, rows="float32"), LAG()], ids=["SIAG", "float32", "LAG"])
def test_its_trace_replays_to_the_bit(tmp_path, server, method):
    path = tmp_path / "trace.csv"
    runtime = Simulated(times=Exponential(1.0), slowness=[1, 2, 3, 9], seed=6)
    run = train_problem(runtime, method=method, server=server, until=100, seed=7, trace=path, w0=np.ones(D))
    assert run.t[-1] == 100
    assert same(run, siag.replay(path, compiled=method == SIAG()))


# Any gradient, any stream, the same each time


def make(values):
    yield from values


def test_any_gradient_and_any_streams_run_and_it_is_the_same_each_time(tmp_path):
    runs = []
    for k in range(2):
        rng = np.random.default_rng(0)
        streams = [
            [1.0] * 50,
            make([2.0] * 30),
            lambda: iter([6.0] * 40),
            map(float, range(20)),
            itertools.islice(itertools.repeat(0.5), 10),
        ]
        gradient = lambda w, x: w - x + 0.1 * rng.normal(size=2)  # noqa: B023, E731
        trace = tmp_path / f"{k}.csv"
        runs.append(
            train(streams, gradient, loss=lambda w: float(np.square(w).sum()), trace=trace, folder=tmp_path / str(k))
        )
    first, second = runs
    assert first.about["ending"] == Ending.ALL_LEFT
    assert first.samples[0, -1] == 150
    assert same(first, second, "samples", "time")
    assert (tmp_path / "0.csv").read_bytes() == (tmp_path / "1.csv").read_bytes()
    assert not same(first, train([[1.0] * 150]), "samples")


def test_another_seed_is_another_run():
    one, two = (train([[1.0] * 50, [2.0] * 50], runtime=replace(RUNTIME, seed=seed)) for seed in (1, 2))
    assert not np.array_equal(one.time, two.time)


def test_a_thousand_workers_are_nothing_special():
    run = train([itertools.repeat(float(k % 3)) for k in range(1000)], until=siag.Until(reports=2000))
    assert run.samples[0, -1] == 2000


def test_time_is_virtual_for_ends_and_pauses_between_steps():
    run = train([itertools.repeat(1.0)] * 3, until=siag.Until(seconds=1000.0), server=Tick(10.0))
    assert run.about["ending"] == Ending.TIME
    assert run.t[-1] in (99, 100, 101)


def test_unequal_workers_count_the_same_with_siag_and_not_with_sgd():
    runtime = Simulated(times=Fixed(1.0), slowness=[1, 10], seed=1)
    streams = [itertools.repeat(0.0), itertools.repeat(3.0)]
    fair, unfair = (
        train(streams, runtime=runtime, method=method, until=1500).w for method in (SIAG(), siag.methods.SGD())
    )
    assert np.allclose(fair, 1.5, atol=0.2)
    assert (unfair < 0.8).all()


# Saved and gone on with


def test_a_run_that_goes_on_from_its_folder_replays_as_one(tmp_path):
    options = {"folder": tmp_path / "state", "trace": tmp_path / "trace.csv"}
    first = train_problem(**options, until=40)
    second = train_problem(**options, until=100)
    k = second.t.tolist().index(40)  # its curve begins with that of the first
    assert np.array_equal(second.error[0, : k + 1], first.error[0])
    assert same(second, siag.replay(tmp_path / "trace.csv"))
    assert train_problem(**options, until=100).about["ending"] == Ending.REACHED_BEFORE


# What goes wrong


FAULTS = {
    "crashes": Faults(crashes=30.0),
    "cuts": Faults(cuts=20.0),
    "delay": Faults(delay=Exponential(0.5)),
    "server": Faults(server=40.0, down=2.0),
    "all": Faults(crashes=50.0, cuts=30.0, delay=Fixed(0.2), server=60.0, down=3.0),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("durable", [False, True], ids=["", "durable"])
def test_with_faults_too_the_run_ends_as_asked_and_is_the_same_each_time(tmp_path, faults, durable):
    runs, notes = [], Notes()
    for k in range(2):
        options = {"folder": tmp_path / str(k), "trace": tmp_path / f"{k}.csv", "durable": durable}
        runtime = replace(RUNTIME, faults=faults)
        runs.append(siag.train(problem=PROBLEM, step=STEP, until=200, runtime=runtime, progress=notes, **options))
    first, second = runs
    assert notes.heard("connection was lost") == (faults.delay != Exponential(0.5))
    assert first.t[-1] == 200
    assert first.about["ending"] == Ending.REACHED
    assert same(first, second, "samples", "time")
    assert np.array_equal(first.w, siag.replay(tmp_path / "0.csv").w)
    assert not durable or first.t.tolist() == points(200, 200).tolist()  # whatever crashed


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 4, 7])
@pytest.mark.parametrize("method", [LAG(), SCAFFOLD(steps=2, size=0.1)], ids=lambda method: type(method).__name__)
def test_what_workers_remember_is_lost_at_the_same_moments_in_a_replay(tmp_path, method, seed):
    runtime = Simulated(seed=seed, faults=Faults(crashes=20.0, cuts=10.0))
    run = train_problem(runtime, method=method, until=200, trace=tmp_path / "trace.csv")
    assert np.array_equal(run.w, siag.replay(tmp_path / "trace.csv", compiled=False).w)


def test_a_worker_that_is_down_does_not_crash_again():
    runtime = Simulated(times=Fixed(0.1), seed=1, faults=Faults(crashes=0.5, down=5.0))
    run = train([partial(make, [1.0] * 30)] * 2, runtime=runtime, until=20)
    assert run.t[-1] == 20


def test_crashes_of_workers_begin_their_streams_anew_and_all_samples_of_others_count():
    runtime = replace(RUNTIME, faults=Faults(crashes=40.0, down=1.0))
    run = train([partial(make, [1.0] * 30), [2.0] * 30], runtime=runtime)
    assert run.about["ending"] == Ending.ALL_LEFT
    assert run.samples[0, -1] > 60


def test_a_worker_whose_code_fails_is_told_and_the_others_go_on():
    notes = Notes()

    def gradient(w, x):
        if x < 0:
            raise KeyError("no such\nreading")
        return w - x

    streams = [iter([1.0] * 30), iter([1.0, -1.0])]
    run = siag.train(gradient, streams, np.zeros(2), step=STEP, names=["a", "b"], runtime=RUNTIME, progress=notes)
    (event,) = (event for event in notes.events if "failed" in event)
    reason = notes.last("b").reason
    assert reason.startswith(r"KeyError: 'no such\nreading' (test_simulated.py, line ")
    failure = WorkerFailure(1, "b", Failure.OWN_CODE, reason, 1)
    assert (event, run.about["failed"]) == (failure.alarm, [failure.text])
    assert run.samples[0, -1] == 31
    with pytest.raises(siag.SiagError, match=r"worker 0.* KeyError"):
        train([[-1.0]], gradient)


def test_reports_that_are_refused_cost_a_worker_its_place():
    run = train([[1.0] * 30, itertools.repeat(np.nan)], guard=Guard(strikes=3))
    assert run.samples[0, -1] == 30
    assert len(run.about["failed"]) == 1


@pytest.mark.parametrize(("departed", "limit"), [(KEEP, (-3.0, 0.0)), (DROP, (3.5, 4.5))], ids=["kept", "dropped"])
def test_a_stream_that_ends_lets_its_worker_leave_and_its_row_counts_or_not(departed, limit):
    notes = Notes()
    run = siag.train(
        lambda w, x: w - x,
        [iter([-8.0]), iter([4.0] * 400)],
        np.zeros(1),
        step=siag.steps.Constant(0.1),
        departed=departed,
        runtime=RUNTIME,
        progress=notes,
    )
    row = "the model goes on to fit the other 1" if departed == DROP else "its last gradient stays in the average"
    first, second = run.about["left"]
    assert first == f"worker 0 left after 1 sample: its stream ended; {row}"
    assert second == "worker 1 left after 400 samples: its stream ended"
    assert notes.heard(first)
    assert notes.heard(second)
    assert "failed" not in run.about
    if departed == DROP:
        assert limit[0] < run.w[0, 0] < limit[1]
    else:
        assert run.w[0, 0] < 3.5


def test_an_error_of_the_one_who_watches_ends_the_run_with_a_last_save(tmp_path):
    class Failing(Notes):
        failed = False

        def show(self, snapshot):
            super().show(snapshot)
            if snapshot.reports >= 20 and not self.failed:
                self.failed = True
                raise ArithmeticError("no view")

    options = {"folder": tmp_path / "state", "trace": tmp_path / "trace.csv", "runtime": RUNTIME, "step": STEP}
    watcher = Failing()
    with pytest.raises(ArithmeticError, match="no view"):
        siag.train(problem=PROBLEM, until=1000, progress=watcher, **options)
    again = siag.train(problem=PROBLEM, until=60, progress=False, **options)
    assert again.about["before"] >= 20
    assert len(Trace.read(tmp_path / "trace.csv").version) == 60


# Bad input


BAD = {
    "no times": ({"times": 1.0}, r"^times = 1.0: must be"),
    "arrivals": ({"times": siag.activity.Arrivals([(1.0, 0)])}, r"^times = .*siag.simulate takes recorded arrivals"),
    "no travel": ({"travel": "far"}, r"^travel = 'far': must be"),
    "slowness": ({"slowness": [1.0, 0.0]}, r"^slowness = "),
    "availability": ({"availability": 0.5}, r"^availability = 0.5: must be"),
    "seed": ({"seed": -1}, r"^seed = -1: must be"),
    "faults": ({"faults": "many"}, r"^faults = 'many': must be a siag.runtimes.Faults"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_one_clear_line(case):
    change, message = BAD[case]
    with pytest.raises(siag.BadInput, match=message) as caught:
        Simulated(**change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "given", [{"crashes": 0}, {"cuts": -1.0}, {"server": float("nan")}, {"down": -1.0}, {"delay": 0.1}], ids=repr
)
def test_bad_faults_are_refused_under_their_names(given):
    (name,) = given
    with pytest.raises(siag.BadInput, match=rf"^{name} = "):
        Faults(**given)


def test_what_has_no_meaning_in_virtual_time_is_refused():
    with pytest.raises(siag.BadInput, match=r"^pauses = .*Simulated has slowness="):
        train_problem(until=5, pauses=[0.1] * N)
    with pytest.raises(siag.BadInput, match=r"^slowness = .*"):
        train_problem(Simulated(slowness=[1.0, 2.0]), until=5)
    with pytest.raises(siag.SiagError, match=r"^folder is missing; a server that crashes goes on from there"):
        train_problem(Simulated(faults=Faults(server=5.0)), until=5)
    with pytest.raises(siag.BadInput, match=r"^streams = .*give a function that makes the stream"):
        train([make([1.0])], runtime=Simulated(faults=Faults(crashes=5.0)))
