"""What can go wrong with worker processes on one machine, and with the process that has started them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from itertools import repeat
from pathlib import Path
from textwrap import dedent

import jobs
import numpy as np
import pytest
from jobs import Notes

import siag
from disks import SmallDisk, on_disk
from siag.live.reasons import Ended, Ending, Failure, Problem, Trouble, WorkerFailure
from siag.live.session import Session
from siag.runtimes import SharedMemory
from siag.server import Guard
from siag.streams import Buffered

STEP = siag.steps.Harmonic(5.0, 20)
LIMIT = siag.Until(seconds=30)  # never reached, unless something is wrong
HERE = Path(__file__).parent


def train(streams, gradient=jobs.pull, until=LIMIT, **options):
    streams = [jobs.once(stream) for stream in streams]
    return siag.train(gradient, streams, np.zeros(2), step=STEP, until=until, **options)


# What a worker does wrong


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("stream", "words"),
    [
        ([1.0, "bad"], r"KeyError: 'no such\nreading' (jobs.py, line "),
        (partial(jobs.breaking, 2), "OSError: [Errno 5] the sensor is unplugged (jobs.py, line "),
        (Buffered(list("11x")), "ValueError: could not convert string to float: 'x' (jobs.py, line "),
    ],
)
def test_an_error_in_a_worker_is_told_with_its_name_and_place_and_the_others_go_on(tmp_path, stream, words):
    end = tmp_path / "end"
    watcher = Notes((jobs.in_state("b", "away"), lambda: None), (jobs.grown("a"), jobs.touch(end)))
    run = train([partial(jobs.until_there, end), stream], gradient=jobs.fragile, names=["a", "b"], progress=watcher)
    (event,) = (event for event in watcher.events if event.startswith("worker b failed"))
    reason = watcher.last("b").reason
    failure = WorkerFailure(1, "b", Failure.OWN_CODE, reason, watcher.last("b").reports)
    assert event == failure.alarm
    assert "\n" not in event
    assert run.about["failed"] == [failure.text]
    assert run.about["ending"] == Ending.NOBODY
    assert reason.startswith(words)


def test_gradients_that_are_not_numbers_are_refused_and_their_worker_is_disconnected_at_last(tmp_path):
    end = tmp_path / "end"
    watcher = Notes((jobs.in_state("b", "refused"), lambda: None), (jobs.grown("a"), jobs.touch(end)))
    run = train(
        [partial(jobs.until_there, end), [1.0, -1.0, 1.0, *[-1.0] * 50]],
        gradient=jobs.nan_below_zero,
        names=["a", "b"],
        guard=Guard(strikes=4),
        progress=watcher,
    )
    refusals = [event for event in watcher.events if event.startswith("worker b: refused: not finite")]
    assert len(refusals) == 5  # the one that was followed by a good report, and four in a row
    assert [event.endswith("; it is disconnected") for event in refusals] == [False] * 4 + [True]
    assert (watcher.last("b").reports, watcher.last("b").refused) == (2, 5)
    assert np.isfinite(run.w).all()
    assert len(run.about["failed"]) == 1


def test_a_short_run_hears_a_worker_whose_first_gradient_takes_a_while():
    run = train([repeat(1.0), partial(jobs.late, 0.5)], until=10)
    assert min(worker["reports"] for worker in run.workers) >= 1


def test_nobody_waits_for_ever_for_the_first_report_of_another(monkeypatch):
    monkeypatch.setattr("siag.live.transports.shared_memory.server.TOGETHER", 0.01)
    run = train([repeat(1.0), partial(jobs.late, 3600.0)], until=10)
    assert [worker["reports"] for worker in run.workers] == [10, 0]


def test_a_worker_that_is_killed_is_missed_by_nobody(tmp_path):
    end = tmp_path / "end"
    watcher = Notes(
        (jobs.reported(), jobs.send("b", signal.SIGKILL)),
        (jobs.in_state("b", "away"), lambda: None),
        (jobs.grown("a"), jobs.touch(end)),
    )
    run = train([partial(jobs.until_there, end)] * 2, names=["a", "b"], progress=watcher)
    assert watcher.heard(WorkerFailure(1, "b", Failure.GONE, jobs.KILLED, 0).alarm)
    assert run.about["ending"] == Ending.NOBODY


def test_a_worker_that_is_stopped_is_shown_as_stalled_nobody_waits_and_it_goes_on_later(tmp_path):
    end = tmp_path / "end"
    watcher = Notes(
        (jobs.reported(), jobs.send("b", signal.SIGSTOP)),
        (jobs.in_state("b", "stalled"), lambda: None),
        (jobs.grown("a", 20), jobs.send("b", signal.SIGCONT)),
        (jobs.in_state("b", "working"), lambda: None),
        (jobs.grown("b"), jobs.touch(end)),
    )
    run = train([partial(jobs.until_there, end)] * 2, names=["a", "b"], progress=watcher, patience=0.3)
    assert not watcher.plan
    assert run.about["ending"] == Ending.ALL_LEFT
    assert "failed" not in run.about


@pytest.mark.thorough
def test_a_stopped_worker_does_not_keep_the_run_from_ending():
    watcher = Notes((jobs.reported(), jobs.send("1", signal.SIGSTOP)))
    run = train([repeat(1.0)] * 2, until=siag.Until(seconds=0.6), progress=watcher)
    assert not watcher.plan
    assert run.about["ending"] == Ending.TIME
    assert not multiprocessing.active_children()


def test_if_all_workers_are_killed_training_ends_and_what_it_had_is_saved(tmp_path):
    kill = [jobs.send(name, signal.SIGKILL) for name in "01"]
    watcher = Notes((jobs.reported(), lambda: [each() for each in kill]))
    run = train([repeat(1.0)] * 2, progress=watcher, folder=tmp_path)
    assert run.about["ended"] == Ended(Ending.NOBODY, "2 away").text
    assert len(run.about["failed"]) == 2
    assert watcher.snapshots[-1].saved == 0.0
    again = train([iter([]), iter([])], folder=tmp_path)
    assert np.array_equal(again.w, run.w)
    assert np.array_equal(again.t, run.t)


# What goes wrong with the disk


FULL = Problem(Trouble.SAVING, "no space left on device")


@pytest.mark.few(1)
@pytest.mark.parametrize("durable", [False, True], ids=["", "durable"])
def test_while_the_disk_is_full_nobody_is_lost_and_later_all_is_saved(tmp_path, durable):
    """In durable mode workers wait, otherwise training goes on."""
    disk, end = SmallDisk(), tmp_path / "end"
    watcher = Notes(
        (jobs.reported(), disk.fill),
        (lambda snapshot: snapshot.problems == (FULL.text,), lambda: None),
        (lambda snapshot: True if durable else went_on(snapshot), disk.clean),
        (lambda snapshot: not snapshot.problems and snapshot.saved is not None, jobs.touch(end)),
    )
    went_on = jobs.grown("0")
    options = {"folder": tmp_path / "state", "durable": durable, "runtime": on_disk(SharedMemory, disk)()}
    run = train([partial(jobs.until_there, end)], progress=watcher, **options)
    assert not watcher.plan
    assert "failed" not in run.about
    assert watcher.heard(FULL.alarm)
    assert watcher.heard(FULL.end)
    again = train([iter([])], **options)
    assert np.array_equal(again.w, run.w)


# What happens to the process that has started the others


def processes(session):
    """The processes of a session of the system that are not waiting for somebody to take notice of their end."""
    found = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                name, _, rest = (place / "stat").read_text().partition("(")[2].rpartition(") ")
            except OSError:
                continue  # gone meanwhile
            state, parent, _, its_session = rest.split()[:4]
            if int(its_session) == session and not (state == "Z" and parent == "1"):  # init is yet to look
                found[int(place.name)] = f"{name} {state}"
    return found


def wait_for(condition, seconds, what):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, what()
        time.sleep(0.01)


class Script:
    """A script in a process and session of its own.

    Args:
        folder: where it is written.
        text: the script; `say(...)` writes a line at once.
    """

    def __init__(self, folder, text):
        head = "import os, sys, numpy as np, siag, jobs\nsay = lambda *words: print(*words, flush=True)\n"
        path = folder / "script.py"
        path.write_text(head + dedent(text))
        search = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": search, "TMPDIR": str(folder)}
        self.process = subprocess.Popen(
            [sys.executable, str(path)],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.session = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for number in processes(self.session):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.process.wait(10)
        self.process.stdout.close()
        self.process.stderr.close()

    def line(self, start):
        """The next line that starts so."""
        for line in self.process.stdout:
            if line.startswith(start):
                return line
        raise AssertionError(f"{start!r} was not said; {self.process.stderr.read()}")

    def end(self):
        """What it has still to say, once it has ended."""
        output, errors = self.process.communicate(timeout=120)
        return output, errors

    def all_gone(self):
        """All of its processes end within two seconds, and leave no shared memory."""
        wait_for(lambda: not processes(self.session), 2.0, lambda: f"left: {processes(self.session)}")
        assert not list(Path("/dev/shm").glob(f"pym-{self.session}-*"))


TRAINING = """
    from itertools import repeat
    class Watcher(jobs.Notes):
        def show(self, snapshot):
            if os.path.exists("raise"):
                raise ArithmeticError("no view")
            if all(worker.reports for worker in snapshot.workers):
                say("training")
    if __name__ == "__main__":
        streams = [repeat(1.0), jobs.waiting, repeat(2.0)]
        siag.train(jobs.pull, streams, np.zeros(2), step=siag.steps.Constant(0.1), progress=Watcher())
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("how", ["SIGKILL", "Ctrl-C", "exception"])
def test_however_the_parent_ends_all_its_workers_are_gone_with_it(tmp_path, how):
    with Script(tmp_path, TRAINING) as script:
        script.line("training")
        assert len(processes(script.session)) >= 5  # itself, three workers, and who starts them
        if how == "Ctrl-C":  # goes to all processes of the terminal
            os.killpg(script.session, signal.SIGINT)
        elif how == "exception":
            (tmp_path / "raise").touch()
        else:
            os.kill(script.process.pid, signal.SIGKILL)
        _, errors = script.end()
        script.all_gone()
    if how == "Ctrl-C":  # the run is returned
        assert (script.process.returncode, errors) == (0, "")
    if how == "exception":
        assert errors.rstrip().endswith("ArithmeticError: no view")
    assert errors.count("Traceback") == (how == "exception")  # no worker complains


@pytest.mark.thorough
def test_a_script_without_its_guard_is_told_so_and_ends(tmp_path):
    text = """
        def gradient(w, sample):
            return w - sample
        siag.train(gradient, [[1.0]] * 2, np.zeros(2), step=siag.steps.Constant(0.1))
    """
    with Script(tmp_path, text) as script:
        _, errors = script.end()
        script.all_gone()
    assert script.process.returncode == 1
    assert "siag: put the call of siag.train under  if __name__ == '__main__':" in errors
    assert "a script calls siag.train under if __name__ == '__main__':" in errors.rstrip().splitlines()[-1]
    assert errors.count("Traceback") == 1


@pytest.mark.thorough
def test_a_script_whose_gradient_is_in_a_module_needs_no_guard(tmp_path):
    text = "say(siag.train(jobs.pull, [[1.0]] * 2, np.zeros(2), step=siag.steps.Constant(0.1), until=2).t[-1])"
    with Script(tmp_path, text) as script:
        assert script.end() == ("2\n", "")


@pytest.mark.thorough
def test_a_gradient_typed_into_a_session_reaches_the_workers():
    text = """
        import numpy as np, siag
        def gradient(w, sample):
            return w - sample
        print(siag.train(gradient, [iter([1.0])], np.zeros(2), step=siag.steps.Constant(0.5), progress=False).w)
    """
    done = subprocess.run(
        [sys.executable, "-"], input=dedent(text), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("[[0.5 0.5]]\n", "")


# Killed in the middle, and started again


@pytest.fixture
def recovered(monkeypatch):
    """The servers of sessions as they were found again, before anything else happened to them."""
    found, real = [], Session.recover

    def recover(self, now):
        real(self, now)
        server = self.server
        arrays = {name: array.copy() for name, array in server.arrays().items()}
        found.append((server.version, [member.reports for member in server.members], arrays))

    monkeypatch.setattr(Session, "recover", recover)
    return found


@pytest.mark.thorough
def test_a_run_killed_in_the_middle_goes_on_from_its_last_save(tmp_path, recovered):
    text = """
        from siag.storage import store
        real = store.Store.save
        def save(self, arrays, changed, meta, **how):
            done = real(self, arrays, changed, meta, **(how | {"wait": True}))
            say("saved", meta["version"])
            return done
        store.Store.save = save
        if __name__ == "__main__":
            problem = siag.problems.LeastSquares.random(n=3, d=4, p=2, noise=0.1)
            step = siag.steps.Harmonic(5.0, 20)
            siag.train(problem=problem, step=step, until=10**9, folder="state", trace="trace.csv")
    """
    with Script(tmp_path, text) as script:
        script.line("saved")
        script.line("saved")
        os.kill(script.process.pid, signal.SIGKILL)
        output, _ = script.end()
        script.all_gone()
    saved = max((int(line.split()[1]) for line in output.splitlines()), default=1)
    problem = siag.problems.LeastSquares.random(n=3, d=4, p=2, noise=0.1)
    options = {"problem": problem, "step": STEP, "folder": tmp_path / "state", "trace": tmp_path / "trace.csv"}
    watcher = Notes()
    run = siag.train(**options, until=siag.Until(seconds=0.2), progress=watcher)
    version, reports, arrays = recovered[0]
    assert version >= saved
    assert run.t[0] == 0
    assert version < run.t[-1]
    assert watcher.heard(f" version {version}, {sum(reports)} reports")
    scale = np.abs(arrays["rows"]).sum(axis=0)
    assert (np.abs(arrays["rows"].sum(axis=0) - arrays["total"]) <= 1e-9 * (1.0 + scale)).all()
    assert np.array_equal(siag.replay(tmp_path / "trace.csv").w, run.w)


def test_in_durable_mode_nothing_that_was_acknowledged_is_lost(tmp_path, recovered):
    """A worker draws its next sample only when the report on the one before has been acknowledged."""
    text = """
        from functools import partial
        class Watcher(jobs.Notes):
            def show(self, snapshot):
                say("reports", min(worker.reports for worker in snapshot.workers))
        if __name__ == "__main__":
            streams = [partial(jobs.tallied, f"drawn-{k}") for k in range(2)]
            step = siag.steps.Harmonic(5.0, 20)
            siag.train(jobs.pull, streams, np.zeros(2), step=step, folder="state", durable=True, progress=Watcher())
    """
    with Script(tmp_path, text) as script:
        while int(script.line("reports").split()[1]) < 20:
            pass
        os.kill(script.process.pid, signal.SIGKILL)
        script.end()
        script.all_gone()
    drawn = [(tmp_path / f"drawn-{k}").stat().st_size for k in range(2)]
    run = train([iter([]), iter([])], folder=tmp_path / "state", durable=True)
    _, reports, arrays = recovered[0]
    for k in range(2):
        assert drawn[k] - 1 <= reports[k] <= drawn[k]
    assert run.t[-1] == sum(reports)
    assert np.allclose(arrays["rows"].sum(axis=0), arrays["total"], rtol=0, atol=1e-9)
