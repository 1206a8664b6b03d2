"""`siag.train`: streams and problems, on worker processes of this machine."""

import itertools
import multiprocessing
import os
import threading
from functools import partial

import jobs
import numpy as np
import pytest
from jobs import Notes
from trainings import STEP, VIRTUAL, problem, same, train, virtual

import siag
from instant import Instant
from siag.activity import EveryArrivals, Tick, Trace
from siag.live.reasons import UNHEARD, Ended, Ending
from siag.server import DROP
from siag.streams import Buffered, Follow, Paced


def test_training_ends_with_the_streams():
    streams = [[1.0] * 300, partial(jobs.numbers, 300, 2.0), itertools.repeat(6.0, 300)]
    run = train(streams, until=None)
    assert run.about["ending"] == Ending.ALL_LEFT
    assert "failed" not in run.about
    assert run.samples[0, -1] == run.t[-1] == 900


def test_a_run_is_a_run_like_any_other(tmp_path):
    run = virtual([[1.0] * 50, [3.0] * 50], loss=lambda w: float(np.sum(np.square(w - 2.0))))
    assert run.t[0] == 0
    assert run.error.shape == run.samples.shape == run.time.shape == (1, len(run.t))
    assert (np.diff(run.t) > 0).all()
    assert (np.diff(run.samples[0]) > 0).all()
    assert (np.diff(run.time[0]) >= 0).all()
    assert run.time[0, 0] == 0.0
    assert run.error[0, 0] == 8.0
    assert run.error[0, -1] < 4.0
    assert run.repeats == 1
    assert run.diverged.tolist() == [-1]
    assert run.about["problem"] == "pull on streams"
    run.save(tmp_path / "run.npz")
    loaded = siag.load(tmp_path / "run.npz")
    assert same(run, loaded)
    assert loaded.about == run.about


def test_without_a_loss_the_error_is_not_a_number():
    assert np.isnan(virtual([[1.0] * 5]).error).all()


def test_streams_of_files_and_threads_and_clocks_reach_the_workers(tmp_path):
    (tmp_path / "readings.csv").write_text("1,2\n" * 40)
    streams = [
        Follow(tmp_path / "readings.csv", wait=False),
        Buffered(iter([np.array([3.0, 4.0])] * 40), capacity=3, full="block"),
        Paced(iter([np.array([5.0, 6.0])] * 20), seconds=0.001),
    ]
    run = train(streams)
    assert run.samples[0, -1] == 100
    assert 0.3 < run.w[0, 1] - run.w[0, 0] < 1.7  # which differ by 1 in all samples


def test_a_stream_that_waits_for_data_does_not_keep_the_run_from_ending(tmp_path):
    (tmp_path / "readings.csv").write_text("1,2\n")
    streams = [Follow(tmp_path / "readings.csv", poll=0.01), jobs.waiting, partial(jobs.numbers, 1000)]
    run = train(streams, until=200)
    assert run.t[-1] == 200
    assert run.about["ending"] == Ending.REACHED


def test_a_run_in_which_nobody_reports_is_a_run_of_one_point(tmp_path):
    from matplotlib import pyplot

    class Stopped(Instant):
        def carry(self, session, tasks):
            session.begin(0.0)
            session.end(Ending.STOPPED, "SIGTERM")
            session.finish(0.0)

    given = {"w0": (1.0, 2.0), "loss": lambda w: float(w.sum()), "folder": tmp_path, "runtime": Stopped()}
    run = train([[1.0], [2.0]], **given)
    assert (run.t.tolist(), run.samples.tolist(), run.error.tolist()) == ([0], [[0]], [[3.0]])
    assert run.w.tolist() == [[1.0, 2.0]]
    assert run.warnings == [UNHEARD]
    ax = run.plot()
    ax.figure.canvas.draw()
    pyplot.close(ax.figure)


def test_training_starts_from_w0_and_leaves_it_as_it_was():
    w0 = np.array([7.0, -7.0])
    run = siag.train(jobs.pull, [iter([w0])], w0, step=STEP)
    assert run.w.tolist() == [w0.tolist()]
    assert w0.tolist() == [7.0, -7.0]
    started = siag.train(problem=problem(), w0=np.ones(4), step=STEP, until=1)
    assert started.error[0, 0] == pytest.approx(np.square(1.0 - problem().optimum).sum())


def test_iterations_reports_and_seconds_end_a_run():
    endless = [itertools.repeat(1.0)] * 2
    assert virtual(endless, until=57).t[-1] == 57
    reports = virtual(endless, until=siag.Until(reports=60), server=EveryArrivals(4))
    assert (reports.samples[0, -1], reports.t[-1]) == (60, 15)
    seconds = virtual(endless, until=siag.Until(seconds=0.5))
    assert seconds.time[0, -1] >= 0.5
    assert seconds.about["ended"] == Ended(Ending.TIME, "0.5").text


@pytest.mark.parametrize(
    ("method", "server"),
    [
        (siag.methods.SIAG(), EveryArrivals(1)),
        (siag.methods.SGD(), EveryArrivals(3)),
        (siag.methods.IAG(wait=1.0), Tick(0.005)),
    ],
)
def test_a_problem_run_again_from_its_trace_is_the_same_to_the_bit(tmp_path, method, server):
    run = siag.train(
        problem=problem(),
        method=method,
        step=siag.steps.Harmonic(1.0, 50),
        until=60,
        w0=np.arange(4.0),
        seed=5,
        server=server,
        pauses=[0, 0.001, 0.002],
        trace=tmp_path / "trace.csv",
    )
    assert run.t[-1] == 60
    again = siag.replay(tmp_path / "trace.csv")
    assert np.array_equal(again.w, run.w)
    assert np.array_equal(again.t, run.t)
    assert np.array_equal(again.error, run.error)


def test_the_server_steps_after_k_arrivals():
    run = siag.train(runtime=VIRTUAL, problem=problem(), step=STEP, until=20, server=EveryArrivals(3))
    assert run.samples[0].tolist() == (3 * run.t).tolist()


def test_the_server_steps_in_time_whoever_has_arrived(tmp_path):
    trace = tmp_path / "trace.csv"
    run = siag.train(problem=problem(), step=STEP, until=20, server=Tick(0.01), pauses=[0.004, 0.004, 10], trace=trace)
    assert run.t[-1] == 20
    assert run.time[0, -1] >= 0.18
    assert set(Trace.read(trace).worker.tolist()) in ({0}, {1}, {0, 1})


def test_the_trace_of_a_run_on_streams_names_all_reports(tmp_path):
    run = virtual([[1.0] * 20, [2.0] * 10], trace=tmp_path / "trace.csv.gz", departed=DROP)
    trace = Trace.read(tmp_path / "trace.csv.gz")
    reports = np.isnan(trace.factor)
    assert trace.length == run.t[-1] == 30
    assert np.bincount(trace.worker[reports]).tolist() == [20, 10]
    assert trace.worker[~reports].tolist() == [1]  # the last row that is there stays
    assert np.array_equal(trace.sample[reports & (trace.worker == 1)], np.arange(10))


def test_workers_have_the_names_they_are_given():
    watcher = Notes()
    virtual([[1.0]] * 2, names=["Oslo", "Ålesund"], progress=watcher)
    assert [worker.name for worker in watcher.snapshots[-1].workers] == ["Oslo", "Ålesund"]
    assert watcher.heard("worker Ålesund left")
    assert watcher.closed == 1


def test_a_run_is_kept_at_a_url_and_goes_on_from_there(tmp_path):
    places = {"folder": (tmp_path / "state").as_uri(), "trace": (tmp_path / "trace.csv").as_uri()}
    train([[1.0] * 10], until=siag.Until(reports=4), **places)
    run = train([[1.0] * 10], **places)
    assert run.about["before"] == 4
    assert Trace.read(tmp_path / "trace.csv").length == run.t[-1]
    assert np.array_equal(siag.storage.read_model(places["folder"]).w, run.w[0])
    assert {path.suffix for path in tmp_path.rglob("*.*")} == {".siag", ".csv"}


def test_training_can_be_started_from_another_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(train([[1.0] * 10])))
    thread.start()
    thread.join(20)
    assert found[0].t[-1] == 10


def test_what_a_gradient_returns_may_be_any_d_real_numbers():
    run = virtual([[1.0] * 10], gradient=jobs.whole_column, w0=(3.0, -5.0), until=10)
    assert np.abs(run.w).max() < 5.0


def test_a_run_that_goes_on_from_a_folder_draws_the_next_samples_and_replays_as_one(tmp_path):
    options = {"problem": problem(), "step": STEP, "folder": tmp_path / "state", "trace": tmp_path / "trace.csv"}
    first = siag.train(**options, until=40)
    second = siag.train(**options, until=100)
    assert (first.t[-1], second.t[0], second.t[-1]) == (40, 0, 100)
    k = second.t.tolist().index(40)  # its curve begins with that of the first
    assert np.array_equal(second.error[0, : k + 1], first.error[0])
    assert second.time[0, k + 1] >= first.time[0, -1]
    assert np.array_equal(siag.replay(tmp_path / "trace.csv").w, second.w)
    again = siag.train(**options, until=100)
    assert np.array_equal(again.error, second.error)
    assert np.array_equal(again.w, second.w)
    assert again.about["ending"] == Ending.REACHED_BEFORE
    assert np.array_equal(siag.replay(tmp_path / "trace.csv").w, second.w)


def test_nothing_is_left_of_a_run():
    train([itertools.repeat(1.0)] * 2, until=50)
    assert not multiprocessing.active_children()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        train([itertools.repeat(1.0)] * 2, until=50)
    assert len(os.listdir("/proc/self/fd")) == before
    assert not [name for name in os.listdir("/dev/shm") if name.startswith(f"pym-{os.getpid()}-")]
