"""Finite data: a run ends after so many passes of the slowest worker, and each worker counts the same."""

import math
from itertools import islice

import jobs
import numpy as np
import pytest
from pair import Desk, Pair, begun
from sessions import join, report
from trainings import VIRTUAL, train

import siag
from siag.live.protocol import wire
from siag.live.reasons import Ended, Ending, departure
from siag.server import DROP, KEEP, Departed
from siag.streams import Repeated

ONE_A_SECOND = siag.Simulated(times=siag.activity.Fixed(1.0))


# When it ends


@pytest.mark.parametrize(
    ("until", "passes"),
    [
        (siag.Until(), 10),
        (siag.Until(epochs=3), 3),
        (siag.Until(epochs=3, seconds=5), 3),
        (siag.Until(seconds=5), math.inf),
        (siag.Until(iterations=5), math.inf),
        (siag.Until(reports=5), math.inf),
    ],
    ids=repr,
)
def test_ten_epochs_if_nothing_is_said_and_no_end_by_epochs_if_something_else_is(until, passes):
    assert until.passes == passes


@pytest.mark.parametrize("epochs", [0, -1, 1.5, "many", True])
def test_epochs_that_make_no_sense_are_refused(epochs):
    with pytest.raises(siag.BadInput, match=r"^epochs = "):
        siag.Until(epochs=epochs)


@pytest.fixture
def reading(assembled):
    """A session of two workers that have reported, and ends after three epochs."""
    session = assembled(siag.Until(epochs=3))
    session.begin(0.0)
    join(session)
    for row in range(2):
        report(session, row, 0.1)
    return session


def test_the_slowest_worker_counts(reading):
    reading.passes[:] = 50, 2
    reading.look_after(1.0)
    assert not reading.over
    reading.passes[1] = 3
    reading.look_after(2.0)
    assert reading.ended == Ended(Ending.EPOCHS, "3")
    assert reading.why == "all data were read 3 times"
    assert reading.snapshot(2.0).done


def test_a_worker_that_has_failed_is_not_waited_for(reading):
    reading.passes[:] = 3, 2
    reading.look_after(1.0)
    assert not reading.over
    reading.failed(1, "KeyError")
    reading.look_after(2.0)
    assert reading.ended == Ended(Ending.EPOCHS, "3")


def test_a_stream_that_is_read_once_is_waited_for_until_it_ends(reading):
    reading.passes[0] = 100
    reading.look_after(1.0)
    assert not reading.over
    reading.left(1, 2.0, "its stream ended")
    reading.look_after(2.1)
    assert reading.ended == Ended(Ending.EPOCHS, "3")


def test_another_end_may_come_before(assembled):
    session = assembled(siag.Until(seconds=5.0))
    session.begin(0.0)
    join(session)
    report(session, 0, 0.1)
    session.passes[:] = 10**6
    session.look_after(1.0)
    assert not session.over
    session.look_after(5.2)
    assert session.ended == Ended(Ending.TIME, "5")


# How often data are read


def test_a_run_on_lists_ends_after_ten_epochs():
    run = train([[1.0] * 3, [3.0] * 20], until=None, runtime=ONE_A_SECOND, names=["a", "b"])
    assert run.about["ending"] == "all left"  # these were read once

    run = siag.train(jobs.pull, [[1.0] * 3, [3.0] * 20], np.zeros(2), runtime=ONE_A_SECOND, progress=False)
    assert (run.about["ending"], run.about["ended"]) == ("epochs", "all data were read 10 times")
    assert 2 * 201 - 1 <= run.samples[0, -1] <= 2 * 202  # they take turns; the first of pass 11 tells
    assert "left" not in run.about


def test_as_many_as_asked_and_streams_read_once_are_waited_for():
    given = {"w0": np.zeros(2), "until": siag.Until(epochs=2), "runtime": ONE_A_SECOND, "progress": False}
    run = siag.train(jobs.pull, [[1.0] * 10], **given)
    assert 21 <= run.samples[0, -1] <= 22
    run = siag.train(jobs.pull, [[1.0] * 10, iter([3.0] * 50)], **given)
    assert 101 <= run.samples[0, -1] <= 104
    assert run.about["ending"] == "epochs"
    assert len(run.about["left"]) == 1


def test_a_worker_that_fails_does_not_keep_a_run_from_ending():
    def gradient(w, x):
        if x < 0:
            raise KeyError("no such reading")
        return w - x

    run = siag.train(gradient, [[1.0] * 5, [-1.0] * 9], np.zeros(2), runtime=ONE_A_SECOND, progress=False)
    assert run.about["ending"] == "epochs"
    assert len(run.about["failed"]) == 1


def recorded(streams, **given):
    """The samples in the order in which gradients of them were taken, and the run."""
    found = []

    def gradient(w, x):
        found.append(x)
        return w - x

    run = siag.train(gradient, streams, np.zeros(1), step=siag.steps.Constant(0.1), progress=False, **given)
    return found, run


def test_the_order_is_a_function_of_the_seed():
    given = {"runtime": ONE_A_SECOND, "until": siag.Until(epochs=2)}
    data = [float(k) for k in range(9)]
    first, run = recorded([data], **given, seed=4)
    assert first == list(islice(Repeated(data).read_by(0, 4), len(first)))
    again, same = recorded([data], **given, seed=4)
    other, _ = recorded([data], **given, seed=5)
    assert first == again != other
    assert np.array_equal(run.w, same.w)
    two, _ = recorded([data, data], **given, seed=4)
    assert two[0::2][:9] != two[1::2][:9]  # each worker has an order of its own


def test_a_run_that_goes_on_reads_on_where_it_was(tmp_path):
    data = [float(k) for k in range(4)]
    order = list(islice(Repeated(data).read_by(0, 7), 60))
    given = {"runtime": ONE_A_SECOND, "folder": tmp_path / "state", "seed": 7}
    first, run = recorded([data], **given, until=siag.Until(epochs=2))
    reported = int(run.samples[0, -1])
    assert 9 <= reported <= 10
    assert first == order[: len(first)]
    second, run = recorded([data], **given, until=siag.Until(epochs=5))
    assert second == order[reported : reported + len(second)]
    assert 21 <= run.samples[0, -1] <= 22
    assert run.about["ending"] == "epochs"


# Little data counts as much as much


FEW, MANY = 1.0 + 0.1 * np.linspace(-1, 1, 5), 3.0 + 0.1 * np.linspace(-1, 1, 300)


@pytest.mark.parametrize("step", [None, siag.steps.Harmonic(5.0, 20)], ids=["automatic", "harmonic"])
def test_five_samples_count_as_much_as_three_hundred(step):
    run = siag.train(jobs.pull, [list(FEW), list(MANY)], [0.0], step=step, runtime=VIRTUAL, progress=False)
    assert run.w[0, 0] == pytest.approx(2.0, abs=0.1)
    assert run.about["ending"] == "epochs"


def test_if_they_are_read_once_the_model_forgets_the_five_and_says_so():
    notes, step = jobs.Notes(), siag.steps.Harmonic(5.0, 20)
    given = {"names": ["north", "south"], "step": step, "runtime": VIRTUAL, "progress": notes}
    run = siag.train(jobs.pull, [iter(FEW.tolist()), iter(MANY.tolist())], [0.0], **given)
    assert run.w[0, 0] == pytest.approx(3.0, abs=0.1)
    remark = "worker north left after 5 samples: its stream ended; the model goes on to fit the other 1"
    assert run.about["left"] == [remark, "worker south left after 300 samples: its stream ended"]
    assert notes.heard(remark)


@pytest.mark.thorough
def test_processes_read_again_too():
    """A smoke test: two processes, ten epochs, the mean."""
    run = siag.train(jobs.pull, [list(FEW), list(MANY)], [0.0], step=siag.steps.Harmonic(5.0, 20), progress=False)
    assert (run.about["ending"], run.about["ended"]) == ("epochs", "all data were read 10 times")
    assert run.samples[0, -1] > 3000
    assert run.w[0, 0] == pytest.approx(2.0, abs=0.1)


# Streams without a sample


def test_a_stream_without_a_sample_fails_its_worker():
    words = "its stream ended without a sample; give it some, or leave this worker out"
    run = train([iter([]), [1.0] * 5], names=["a", "b"], runtime=VIRTUAL)
    assert run.about["failed"] == [f"worker a failed: {words}"]
    assert run.samples[0, -1] == 5
    with pytest.raises(siag.SiagError, match=f"worker 0 failed: {words}"):
        train([iter([])], runtime=VIRTUAL)


def test_one_that_has_reported_before_leaves_in_order(tmp_path):
    train([[1.0] * 5], runtime=VIRTUAL, folder=tmp_path)
    run = train([iter([])], runtime=VIRTUAL, folder=tmp_path)
    assert (run.about["ending"], "failed" in run.about) == ("all left", False)
    assert run.about["left"] == ["worker 0 left after 5 samples: its stream ended"]


# Who has left


@pytest.mark.parametrize(
    ("samples", "others", "half_life", "text"),
    [
        (5, 15, 0.0, "worker north left after 5 samples: why; the model goes on to fit the other 15"),
        (1, 1, 0.0, "worker north left after 1 sample: why; the model goes on to fit the other 1"),
        (
            1234567,
            2000,
            0.0,
            "worker north left after 1,234,567 samples: why; the model goes on to fit the other 2,000",
        ),
        (5, 2, math.inf, "worker north left after 5 samples: why; its last gradient stays in the average"),
        (5, 2, 30.0, "worker north left after 5 samples: why; its last gradient fades"),
        (0, 0, 0.0, "worker north left after 0 samples: why"),
    ],
)
def test_what_is_told_of_a_worker_that_has_left(samples, others, half_life, text):
    assert departure("north", samples, "why", others, half_life) == text


@pytest.mark.parametrize(
    ("departed", "row"),
    [(DROP, "the model goes on to fit the other"), (KEEP, "stays in the average"), (Departed(30.0), "fades")],
    ids=["dropped", "kept", "fading"],
)
def test_the_first_that_leaves_is_a_problem_and_all_are_in_what_the_run_says(assembled, departed, row):
    session, alarms, events = assembled(workers=("a", "b", "c", "d"), departed=departed), [], []
    session.alarm, session.event = alarms.append, events.append
    session.begin(0.0)
    join(session)
    report(session, 0, 0.1)
    session.failed(3, "KeyError")
    for k in range(3):
        session.left(k, 1.0 + k, "its stream ended")
    assert len(session.has_left) == 3
    assert alarms[1:] == session.has_left[:1]
    assert events[-2:] == session.has_left[1:]
    assert row in session.has_left[0]
    assert session.has_left[2] == "worker c left after 0 samples: its stream ended"  # d has failed: nobody is there


# Over the protocol


def looked_after(pair):
    """Let things happen until the session is over."""
    desk = pair.desk
    pair.do(pair.worker.start(desk.now))
    for _ in range(10_000):
        pair.turn()
        desk.now += 0.05
        desk.session.look_after(desk.now)
        if desk.session.over:
            return desk.session
    raise AssertionError("it does not end")


@pytest.mark.parametrize("budget", [None, 300, 1000], ids=["whole", "cut early", "cut late"])
def test_passes_travel_in_signs_of_life_and_are_told_again_after_a_cut(budget):
    data = [np.full(2, float(k)) for k in range(3)]
    pair = Pair(Desk(begun(until=siag.Until(epochs=4))), stream=data, budget=budget)
    session = looked_after(pair)
    assert session.ended == Ended(Ending.EPOCHS, "4")
    assert session.server.members[0].samples == 13
    assert pair.cuts == (budget is not None)


@pytest.mark.parametrize("passes", [0, -1, wire.SAMPLES, 2**63 - 1, -(2**63)])
def test_numbers_of_passes_that_cannot_be_change_nothing(desk, passes):
    caller = desk.call()
    caller.join(worker="b")
    caller.give(wire.head(wire.ALIVE, sample=7))
    caller.give(wire.head(wire.ALIVE, sample=passes))
    assert desk.session.passes.tolist() == [0, 7]
    assert not caller.closed
