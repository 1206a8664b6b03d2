"""`siag.train`: streams and problems, on worker processes of this machine."""

import errno
import io
import itertools
import multiprocessing
import os
import signal
import threading
from functools import partial

import jobs
import numpy as np
import pytest
from jobs import Notes

import siag
from disks import SmallDisk, on_disk
from refusals import refused
from siag.activity import EveryArrivals, Fixed, Tick, Trace
from siag.foundations.errors import Missing
from siag.live.monitor.watch import Problems, Quiet, Terminal, watcher_of
from siag.live.reasons import Ended, Ending, Problem, Trouble
from siag.live.transports.shared_memory.memory import Memory
from siag.live.transports.shared_memory.server import Embedded
from siag.server import DROP, Guard
from siag.streams import Buffered, Follow, Paced

STEP = siag.steps.Harmonic(5.0, 20)
LIMIT = siag.Until(seconds=30)  # never reached, unless something is wrong
VIRTUAL = siag.Simulated(times=siag.activity.Exponential(0.01), seed=1)


def problem(n=3, noise=0.1, seed=0):
    return siag.problems.LeastSquares.random(n=n, d=4, p=2, noise=noise, seed=seed)


def train(streams, gradient=jobs.pull, w0=(0.0, 0.0), step=STEP, until=LIMIT, **options):
    return siag.train(gradient, streams, np.array(w0), step=step, until=until, **options)


def virtual(*given, **options):
    """The same in virtual time, for what does not depend on processes."""
    return train(*given, **{"runtime": VIRTUAL} | options)


def same(run, other):
    """Whether two runs are the same to the bit."""
    return all(np.array_equal(getattr(run, name), getattr(other, name)) for name in ("t", "error", "samples", "w"))


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
        Buffered([np.array([3.0, 4.0])] * 40, capacity=3, full="block"),
        Paced([np.array([5.0, 6.0])] * 20, seconds=0.001),
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


def test_streams_that_are_empty_give_a_run_of_one_point(tmp_path):
    from matplotlib import pyplot

    run = virtual([[], ()], w0=(1.0, 2.0), loss=lambda w: float(w.sum()), folder=tmp_path)
    assert (run.t.tolist(), run.samples.tolist(), run.error.tolist()) == ([0], [[0]], [[3.0]])
    assert run.w.tolist() == [[1.0, 2.0]]
    ax = run.plot()
    ax.figure.canvas.draw()
    pyplot.close(ax.figure)


def test_training_starts_from_w0_and_leaves_it_as_it_was():
    w0 = np.array([7.0, -7.0])
    run = siag.train(jobs.pull, [[w0]], w0, step=STEP)
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
    assert sorted(trace.worker[~reports].tolist()) == [0, 1]
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


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_the_run_in_order_and_returns_it(tmp_path):
    options = {"problem": problem(), "step": STEP, "folder": tmp_path / "state", "trace": tmp_path / "trace.csv"}
    watcher = Notes((jobs.reported(), interrupt))
    run = siag.train(**options, until=10**9, progress=watcher)
    assert run.about["ending"] == Ending.INTERRUPTED
    assert run.t[-1] > 0
    assert "failed" not in run.about
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not multiprocessing.active_children()
    assert watcher.snapshots[-1].saved == 0.0
    assert watcher.closed == 1
    assert np.array_equal(siag.replay(tmp_path / "trace.csv").w, run.w)
    again = siag.train(**options, until=int(run.t[-1]) + 10)
    k = len(run.t) - 1  # where it ended is a point of this curve, and need not be one of a longer run's
    assert np.array_equal(again.t[:k], run.t[:k])
    assert np.array_equal(again.error[0, :k], run.error[0, :k])


def test_ctrl_c_before_any_worker_has_joined_returns_a_run_of_one_point(monkeypatch):
    real = Embedded._start

    def start(self):
        real(self)
        interrupt()

    monkeypatch.setattr(Embedded, "_start", start)
    run = train([itertools.repeat(1.0)] * 2, until=None, progress=Notes())
    assert (run.t.tolist(), run.about["ending"]) == ([0], Ending.INTERRUPTED)
    assert not multiprocessing.active_children()


def test_a_second_ctrl_c_is_obeyed_at_once():
    watcher = Notes((jobs.reported(), interrupt), (lambda _: True, interrupt))
    with pytest.raises(KeyboardInterrupt):
        train([itertools.repeat(1.0)] * 2, progress=watcher)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not multiprocessing.active_children()


def test_a_program_that_handles_ctrl_c_itself_keeps_its_way(tmp_path):
    heard, end = [], tmp_path / "end"

    def handler(number, frame):
        heard.append(number)
        end.touch()

    signal.signal(signal.SIGINT, handler)
    try:
        run = train([partial(jobs.until_there, end)], progress=Notes((jobs.reported(), interrupt)))
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert heard == [signal.SIGINT]
    assert run.about["ending"] == Ending.ALL_LEFT


def test_after_an_error_ctrl_c_is_what_it_was():
    with pytest.raises(siag.SiagError, match="worker 0"):
        virtual([[1.0]], gradient=jobs.nothing, progress=False)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_a_terminal_problems_are_said_on_standard_error_and_nothing_else_is(capfd):
    streams = [[1.0] * 20, partial(jobs.breaking, 2)]
    train(streams, names=["good", "bad"])
    printed = capfd.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("siag: worker bad failed: OSError: [Errno 5] the sensor is unplugged (jobs.py, line ")
    train([[1.0] * 20])
    train(streams, progress=False)
    assert capfd.readouterr() == ("", "")


def test_problems_are_said_in_one_line_each_whatever_they_contain(monkeypatch):
    said = io.StringIO()
    monkeypatch.setattr("sys.stderr", said)
    Problems().problem("worker \x1b[2J failed: a\nb")
    assert said.getvalue() == "siag: worker ·[2J failed: a b\n"
    said.close()
    Problems().problem("nobody hears this")
    monkeypatch.setattr("sys.stderr", None)
    Problems().problem("nor this")


def test_by_default_there_is_a_view_on_a_terminal_and_none_where_there_is_no_standard_error(monkeypatch):
    class Screen(io.StringIO):
        def isatty(self):
            return True

    for place, wanted in ((Screen(), Terminal), (io.StringIO(), Problems), (None, Quiet)):
        monkeypatch.setattr("sys.stderr", place)
        assert type(watcher_of(None)) is wanted
    assert type(watcher_of(True)) is Terminal
    assert type(watcher_of(False)) is Quiet


def test_a_worker_that_is_gone_can_be_forgotten(tmp_path):
    end = tmp_path / "end"
    watcher = Notes(
        (jobs.reported(), jobs.send("b", signal.SIGKILL)),
        (jobs.in_state("b", "left"), lambda: None),
        (jobs.grown("a", 150), jobs.touch(end)),
    )
    streams = [partial(jobs.until_there, end, 4.0), partial(jobs.until_there, end, -8.0)]
    step = siag.steps.Constant(0.05)  # a step that shrinks would take longer, the later b is gone
    run = train(streams, step=step, names=["a", "b"], forget=0.1, departed=DROP, progress=watcher)
    assert watcher.heard("worker b left: not heard of for 0.1 seconds")
    assert run.about["ended"] == Ended(Ending.NOBODY, "1 forgotten, 1 left").text
    (failed,) = run.about["failed"]
    assert failed.endswith("killed by SIGKILL")
    assert (run.w > 1.0).all()  # with its row, w would tend to −2 or less


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    (tmp_path / "state").write_text("a file")
    with refused("folder"):
        virtual([[1.0]], folder=tmp_path / "state")
    with refused("folder"):
        virtual([[1.0]], folder=tmp_path / "state" / "below")


READ_ONLY = Problem(Trouble.SAVING, "read-only file system")


def test_training_survives_a_folder_that_becomes_read_only_and_saves_once_it_can_again(tmp_path):
    disk, stops = SmallDisk(), []
    watcher = Notes(
        (lambda snapshot: snapshot.saved is not None and snapshot.reports > 0, partial(disk.fill, errno.EROFS)),
        (lambda snapshot: snapshot.problems == (READ_ONLY.text,), lambda: None),
        (jobs.grown("0"), disk.clean),
        (lambda snapshot: not snapshot.problems, partial(stops.append, True)),
    )
    options = {"folder": tmp_path / "state", "runtime": on_disk(siag.Simulated, disk)(times=Fixed(0.01))}
    run = train([itertools.takewhile(lambda _: not stops, itertools.repeat(1.0))], progress=watcher, **options)
    assert not watcher.plan
    assert watcher.events[1:3] == [READ_ONLY.alarm, READ_ONLY.end]
    assert run.about["ending"] == Ending.ALL_LEFT
    again = train([[]], **options)
    assert np.array_equal(again.w, run.w)
    assert np.array_equal(again.t, run.t)


def test_if_saving_never_works_the_run_is_returned_with_a_warning(tmp_path):
    disk = SmallDisk()
    watcher = Notes((jobs.reported(), partial(disk.fill, errno.EROFS)))
    runtime = on_disk(siag.Simulated, disk)(times=Fixed(0.01))
    with pytest.warns(RuntimeWarning, match=f"^{READ_ONLY.warning}$"):
        run = train([[1.0] * 50], folder=tmp_path / "state", runtime=runtime, progress=watcher)
    assert run.t[-1] == 50
    assert watcher.heard(READ_ONLY.alarm)


GOOD = {"gradient": jobs.pull, "streams": [[1.0]], "w0": np.zeros(2), "step": STEP}
BAD = {
    "a lambda": ({"gradient": lambda w, x: w}, r"^gradient = .*pickled.*; define it with def at the top of a module"),
    "no function": ({"gradient": 5}, r"^gradient = 5: must be a function gradient\(w, sample\)"),
    "no gradient": ({"gradient": None}, r"^gradient is missing; give gradient and streams, or a problem"),
    "no streams": ({"streams": None}, r"^streams is missing; give gradient and streams, or a problem"),
    "no stream": ({"streams": []}, r"^streams = \[\]: must be a list with one stream for each worker"),
    "one text": ({"streams": "abc"}, r"^streams = 'abc': must be a list with one stream for each worker"),
    "a generator": ({"streams": [jobs.numbers(3)]}, r"^streams\[0\] = .*generator.*give the function that makes it"),
    "an array": ({"streams": np.zeros((2, 3))}, r"^streams = array.*must be a list with one stream"),
    "a number": ({"streams": [[1.0], 5]}, r"^streams\[1\] = 5: must be something to iterate over"),
    "a path": ({"streams": ["data.csv"]}, r"^streams\[0\] = 'data.csv': must be a stream.*siag.streams.Follow\(path\)"),
    "too many": ({"streams": [[1.0]] * 1001}, r"^workers = 1001: must be at most 1000 on one machine; use siag serve"),
    "no w0": ({"w0": None}, r"^w0 is missing; give the model's first parameters"),
    "w0 of text": ({"w0": "zero"}, r"^w0 = 'zero': must be an array of finite real numbers"),
    "w0 not finite": ({"w0": [np.nan]}, r"^w0 = .*it holds NaN"),
    "no step": ({"step": None}, r"^step is missing; give step=siag.steps.Harmonic"),
    "a number as step": ({"step": 0.1}, r"^step = 0.1: must be a Step"),
    "a class as method": ({"method": siag.methods.SIAG}, r"^method = .*must be a Method; make one: SIAG\(…\)"),
    "no method": ({"method": "SIAG"}, r"^method = 'SIAG': must be a Method"),
    "exact gradients": ({"method": siag.methods.IAG()}, r"^IAG needs exact gradients, a stream has none; use SIAG"),
    "no end": ({"until": 0}, r"^until = 0: must be a number of iterations"),
    "names": ({"names": ["a", "b"]}, r"^names = .*must be 1 different texts"),
    "waiting": ({"server": siag.activity.WaitForAll()}, r"^server = WaitForAll.*a live server waits for nobody"),
    "guard": ({"guard": "strict"}, r"^guard = 'strict': must be a siag.server.Guard"),
    "departed": ({"departed": 0}, r"^departed = 0: must be a siag.server.Departed"),
    "loss": ({"loss": 1.0}, r"^loss = 1.0: must be a function loss\(w\)"),
    "record": ({"record": 0}, r"^record = 0: must be"),
    "durable": ({"durable": True}, r"^folder is missing; say where a durable run is to be kept"),
    "progress": ({"progress": "yes"}, r"^progress = 'yes': must be True, False or a watcher"),
    "folder": ({"folder": 3}, r"^folder = 3: must be a path; give it as text, or leave it out"),
    "trace": ({"trace": 3}, r"^trace = 3: must be a path; give it as text, or leave it out"),
    "bytes": ({"trace": b"t"}, r"^trace = b't': must be a path; give it as text, or leave it out"),
    "on Ray": ({"folder": 3, "runtime": siag.runtimes.Ray()}, r"^folder = 3: must be a path"),
    "patience": ({"patience": 0}, r"^patience = 0: must be"),
    "forget": ({"forget": -1}, r"^forget = -1: must be a finite number at least 0; or leave it out"),
    "seed": ({"seed": -1}, r"^seed = -1: must be"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_one_clear_line(case):
    change, message = BAD[case]
    with pytest.raises(ValueError, match=message) as caught:
        siag.train(**GOOD | change)
    assert isinstance(caught.value, siag.SiagError)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


BAD_PROBLEMS = {
    "no end": ({"until": None}, r"^until is missing"),
    "an empty end": ({"until": siag.Until()}, r"^until is missing"),
    "streams too": ({"streams": [[1.0]]}, r"^problem = .*must be given alone"),
    "pauses of another number": ({"pauses": [0.1]}, r"^pauses = \[0.1\]: must be 3 numbers, one for each worker"),
    "pauses below zero": ({"pauses": [0, 0, -1]}, r"^pauses = -1: must be a finite number at least 0"),
    "one pause": ({"pauses": 0.1}, r"^pauses = 0.1: must be 3 numbers, one for each worker"),
    "w0 of another size": ({"w0": np.zeros(3)}, r"^w0 = .*shape \(4\)"),
    "no problem": ({"problem": "least squares"}, r"^problem = 'least squares': must be a Problem"),
    "a method for other activities": ({"method": siag.methods.SAG()}, r"^SAG "),
    "a method for other servers": ({"method": siag.methods.Scaffnew(p=0.5, size=0.1)}, r"^Scaffnew .*use SCAFFOLD$"),
}


@pytest.mark.parametrize("case", BAD_PROBLEMS)
def test_bad_input_with_a_problem_is_refused_in_one_clear_line(case):
    change, message = BAD_PROBLEMS[case]
    with pytest.raises(ValueError, match=message) as caught:
        siag.train(**{"problem": problem(), "step": STEP, "until": 10} | change)
    assert isinstance(caught.value, siag.SiagError)
    assert "\n" not in str(caught.value)


def test_more_workers_than_the_system_has_files_for_are_refused_at_once(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (250, 250))
    with pytest.raises(siag.BadInput, match=r"^workers = 51: must be at most 50 with 250 files.*ulimit -n"):
        siag.train(**GOOD | {"streams": [[1.0]] * 51})


def test_pauses_without_a_problem_are_refused():
    with pytest.raises(siag.BadInput, match=r"^pauses = \[0.1\]: must be left out.*siag.streams.Paced"):
        siag.train(**GOOD, pauses=[0.1])


def test_what_is_missing_is_of_its_own_kind():
    with pytest.raises(Missing):
        siag.train()


@pytest.mark.parametrize(
    ("gradient", "words"),
    [
        (
            jobs.matrix_gradient,
            "gradient returned array([[0., 0.], [0., 0.]]) (ndarray); it must return 2 real numbers",
        ),
        (jobs.nothing, "gradient returned None; it must return 2 real numbers"),
        (jobs.letters, "gradient returned ['1', '1'] (list); it must return 2 real numbers"),
        (jobs.imaginary, "gradient returned array([0.+1.j, 0.+1.j]) (ndarray); it must return 2 real numbers"),
        (jobs.overwriting, "ValueError: output array is read-only (jobs.py, line "),
        (jobs.always_inf, "worker 0: refused: not finite"),
        (jobs.leaving, "worker 0 is gone: its process ended with status 7"),
    ],
)
def test_a_gradient_that_is_wrong_from_the_start_is_an_error_that_says_how(gradient, words):
    carried = train if gradient is jobs.leaving else virtual
    with pytest.raises(siag.SiagError) as caught:
        carried([[1.0] * 20], gradient=gradient, guard=Guard(strikes=3))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_why_a_worker_failed_is_known_though_it_said_much_before_that():
    notes = Notes()
    run = train([jobs.talking, [1.0] * 20], progress=notes)
    assert len(run.about["failed"]) == 1
    assert run.about["failed"][0].startswith("worker 0 failed: ValueError: the reason (jobs.py, line ")
    said = [text for text in notes.events if text.startswith("worker 0: ")]
    assert said == [f"worker 0: remark {k}" for k in range(3)]


def test_what_a_worker_says_and_its_last_words_do_not_get_into_each_others_way():
    memory = Memory.shared(multiprocessing, 2, 1, 1)
    memory.say(1, "a remark")
    memory.say(1, "the end", last=True)
    memory.say(0, "another's")
    assert (memory.said(1), memory.said(1, last=True)) == ("a remark", "the end")
    memory.say(1, "")
    assert (memory.said(1), memory.said(1, last=True)) == ("", "the end")
    assert (memory.said(0), memory.said(0, last=True)) == ("another's", "")


def test_a_function_that_makes_no_stream_is_an_error_that_says_so():
    with pytest.raises(siag.SiagError, match="worker 0 failed: stream = 5: must be something to iterate over"):
        virtual([jobs.no_stream])


def test_a_run_that_leaves_the_range_of_numbers_ends_with_a_warning_and_keeps_what_it_had():
    with pytest.warns(siag.DivergenceWarning):
        run = virtual(
            [itertools.repeat(1.0)],
            gradient=jobs.outward,
            step=siag.steps.Constant(1.0),
            guard=Guard(jump=None),
            loss=lambda w: float(np.abs(w).max()),
        )
    assert run.diverged[0] == run.t[-1]
    assert np.isnan(run.error[0, -1])
    assert np.isfinite(run.error[0, :-1]).all()


def test_a_loss_that_fails_once_costs_a_point_of_the_curve_and_nothing_else():
    looks = []

    def loss(w):
        looks.append(w)
        return 1.0 / (len(looks) != 4)

    watcher = Notes()
    run = virtual([itertools.repeat(1.0)] * 2, until=50, loss=loss, record=10, progress=watcher)
    assert run.t[-1] == 50
    assert np.flatnonzero(np.isnan(run.error[0])).tolist() == [3]
    told, again = (event for event in watcher.events if "the loss" in event)
    assert "ZeroDivisionError: " in told
    assert again == Problem(Trouble.LOSS, "").end


def test_a_loss_that_fails_at_the_end_is_warned_of_and_the_run_is_returned():
    looks = []

    def loss(w):
        looks.append(w)
        return 1.0 / (len(looks) < 4)

    with pytest.warns(RuntimeWarning, match=r"^the loss: ZeroDivisionError: .*; its points of the curve are NaN$"):
        run = virtual([itertools.repeat(1.0)] * 2, until=50, loss=loss, record=10)
    assert np.isfinite(run.w).all()
    assert np.isnan(run.error[0, 3:]).all()


def test_a_loss_that_fails_from_the_start_ends_the_run_and_the_workers():
    def fail(w):
        raise ArithmeticError("no loss")

    with pytest.raises(ArithmeticError, match="no loss"):
        train([itertools.repeat(1.0)] * 2, loss=fail)
    assert not multiprocessing.active_children()


def test_nothing_is_left_of_a_run():
    train([itertools.repeat(1.0)] * 2, until=50)
    assert not multiprocessing.active_children()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        train([itertools.repeat(1.0)] * 2, until=50)
    assert len(os.listdir("/proc/self/fd")) == before
    assert not [name for name in os.listdir("/dev/shm") if name.startswith(f"pym-{os.getpid()}-")]


REPEATS, ITERATIONS = 300, 2000
SIZES = siag.steps.Harmonic(2.0, 100)


@pytest.fixture(scope="module")
def unequal(tmp_path_factory):
    """Live runs of sIAG and SGD on workers half of which are 20 times slower than the others, and their traces."""
    folder, runs = tmp_path_factory.mktemp("unequal"), {}
    hard = siag.problems.LeastSquares.random(n=6, d=4, p=2, noise=0.1, seed=4)
    runtime = siag.Simulated(times=siag.activity.Exponential(0.002), slowness=[1] * 3 + [20] * 3, seed=7)
    for name, method in (("siag", siag.methods.SIAG()), ("sgd", siag.methods.SGD())):
        trace = folder / f"{name}.csv"
        given = {"problem": hard, "method": method, "step": SIZES, "until": ITERATIONS, "seed": 7}
        runs[name] = siag.train(**given, trace=trace, runtime=runtime), trace
    return hard, runs


def test_live_siag_shows_exactly_the_error_of_its_replay(unequal):
    _, runs = unequal
    for run, trace in runs.values():
        assert np.array_equal(siag.replay(trace).error, run.error)


def test_live_siag_at_unequal_speeds_is_unbiased(unequal):
    """Its error is one like those of the same arrivals with other samples.

    Arrivals do not depend on samples, so the live error and those of repeats with other seeds are exchangeable. The
    error of SGD is beyond the largest, by far.
    """
    hard, runs = unequal
    (run, trace), (biased, _) = runs["siag"], runs["sgd"]
    given = {"iterations": ITERATIONS, "repeats": REPEATS, "seed": 8, "record": 2}
    others = siag.simulate(hard, siag.methods.SIAG(), Trace.read(trace), SIZES, **given)
    assert run.error[0, -1] <= others.error[:, -1].max()
    assert biased.error[0, -1] > others.error[:, -1].max()


def test_live_sgd_at_unequal_speeds_goes_to_the_optimum_of_the_wrong_weights(unequal):
    """It is nearer to the predicted wrong point than to the right one, by 10 times in ‖·‖²."""
    hard, runs = unequal
    run, trace = runs["sgd"]
    recorded = Trace.read(trace).recorded
    shares = siag.theory.bias.shares(recorded, hard.n)
    assert shares[:3].min() > 10 * shares[3:].max()
    wrong = siag.theory.biased_optimum(hard, recorded)
    assert 10 * np.square(run.w[0] - wrong).sum() < np.square(run.w[0] - hard.optimum).sum()


def test_a_run_that_explodes_without_leaving_the_numbers_is_warned_of():
    problem = siag.problems.LeastSquares.random(n=2, d=3, p=4, noise=0.1)
    with pytest.warns(siag.DivergenceWarning, match=r"from .* to .*;"):
        siag.train(
            problem=problem,
            step=siag.steps.Constant(5.0),
            until=14,
            runtime=VIRTUAL,
            guard=siag.server.Guard(jump=None),
        )
