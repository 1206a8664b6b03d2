"""Tasks on threads: order, errors, progress, and a Ctrl-C that is obeyed."""

import signal
import threading

import pytest

import siag
from refusals import refused
from siag.foundations.parallel import Cancelled, Watch, cores, run_all

PATIENCE = 60  # seconds until a test that hangs fails instead; no test that passes waits for it


def run(task, count, *, work=1, threads=2, progress=False):
    return run_all(task, count, work=work, threads=threads, progress=progress, title="testing")


def squared(index, watch):
    watch.did(1)
    return index**2


def simulate_for_long(threads, progress):
    problem = siag.problems.LeastSquares.random(n=2, d=1, p=1, noise=0.1)
    parts = problem, siag.methods.SIAG(), siag.activity.Uniform(2), siag.steps.Harmonic(1.0, 10.0)
    siag.simulate(*parts, iterations=300_000_000, repeats=2, threads=threads, progress=progress)


def ours():
    """The pool's threads that are alive."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("siag-pool")]


@pytest.mark.parametrize("threads", [None, 1, 2, 50])
def test_results_come_in_the_order_of_the_tasks(threads):
    assert run(squared, 9, threads=threads) == [index**2 for index in range(9)]
    assert ours() == []


def test_tasks_that_are_to_run_apart_do_not_run_in_the_main_thread():
    def where(index, watch):
        return threading.current_thread() is threading.main_thread()

    given = {"work": 1, "progress": False, "title": ""}
    assert run_all(where, 1, threads=1, **given) == [True]
    assert run_all(where, 2, threads=1, apart=True, **given) == [False, False]
    assert ours() == []


def test_results_come_in_order_even_if_the_first_task_ends_last():
    second_has_ended = threading.Event()

    def task(index, watch):
        if index == 0:
            assert second_has_ended.wait(PATIENCE)
        else:
            second_has_ended.set()
        return index

    assert run(task, 2) == [0, 1]


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2"])
def test_threads_that_are_no_number_of_threads_are_refused(threads):
    with refused("threads"):
        run(squared, 2, threads=threads)


def test_this_process_may_use_a_core():
    assert cores() >= 1


def test_an_error_in_a_task_surfaces_and_later_tasks_do_not_start():
    started = []

    def task(index, watch):
        started.append(index)
        raise ZeroDivisionError(f"in task {index}")

    with pytest.raises(ZeroDivisionError, match="in task 0"):
        run(task, 5, threads=1)
    assert started == [0]


@pytest.mark.parametrize("bad", [0, 1])
def test_an_error_in_one_task_stops_the_others_whichever_comes_first(bad):
    both_run, ends = threading.Barrier(2), {}

    def task(index, watch):
        both_run.wait(PATIENCE)
        if index == bad:
            raise ZeroDivisionError
        try:
            for _ in range(2_000_000):  # far longer than it takes to be told
                watch.did(0)
        except Cancelled:
            ends[index] = "cancelled"
            raise
        ends[index] = "ran to its end"

    with pytest.raises(ZeroDivisionError):
        run(task, 2)
    assert list(ends.values()) == ["cancelled"]
    assert ours() == []


def test_after_a_stop_every_report_is_answered_by_cancelled():
    shown = []
    watch = Watch(10, shown.append)
    watch.did(5)
    watch.stop()
    for _ in range(2):
        with pytest.raises(Cancelled):
            watch.did(5)
    assert shown == [0.5]


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_ascends_to_one(threads):
    shown = []

    def task(index, watch):
        for _ in range(10):
            watch.did(3)

    run(task, 4, work=30, threads=threads, progress=shown.append)
    assert len(shown) == 40
    assert shown == sorted(shown)
    assert shown[-1] == 1.0


def test_a_bar_is_drawn_on_stderr_and_nothing_on_stdout(capsys):
    assert run(squared, 2, progress=True) == [0, 1]
    assert capsys.readouterr().out == ""


class Interrupter:
    """A progress callback that interrupts the main thread, as Ctrl-C does, once: at the given report."""

    def __init__(self, report):
        self.fraction = 0.0
        self.left = report

    def __call__(self, fraction):
        self.fraction = fraction
        self.left -= 1
        if self.left == 0:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


@pytest.mark.parametrize(("threads", "report"), [(1, 1), (1, 100), (2, 100)])
def test_an_interrupt_stops_a_long_simulation_and_leaves_no_threads(threads, report):
    interrupter = Interrupter(report)
    with pytest.raises(KeyboardInterrupt):
        simulate_for_long(threads, interrupter)
    assert ours() == []
    assert interrupter.fraction < 0.1  # a report is less than a hundred-thousandth of the work


def test_threads_interrupted_while_they_start_end_by_themselves():
    # An interrupt within Thread.start leaves a thread that the pool does not know and cannot wait for.
    interrupter = Interrupter(report=1)
    with pytest.raises(KeyboardInterrupt):
        simulate_for_long(2, interrupter)
    for thread in ours():
        thread.join(PATIENCE)
    assert ours() == []
    assert interrupter.fraction < 0.1


def test_an_interrupt_raised_in_a_callback_stops_the_simulation_too():
    calls = []

    def interrupt(fraction):
        calls.append(fraction)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_for_long(2, interrupt)
    assert ours() == []
    assert len(calls) <= 2  # at most one from each thread
