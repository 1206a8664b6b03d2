"""What a session saves and logs is found again, whatever the disk does."""

import errno
import time

import numpy as np
import pytest
from sessions import D, join, report

import siag
from refusals import failing
from siag.activity import EveryArrivals, Tick
from siag.live.checkpoints import SAVE
from siag.live.reasons import Ended, Ending, Problem, Trouble
from siag.server import Departed
from siag.storage import Store

POSED = siag.problems.LeastSquares.random(n=2, d=D, p=2, noise=0.1)


def test_what_was_done_again_does_not_count_for_the_rate_that_is_shown(assembled, tmp_path):
    first = assembled(folder=tmp_path, durable=True)
    first.begin(0.0)
    join(first)
    for k in range(40):
        report(first, k % 2, 0.1 * k)
    first.commit()
    first.disk.kill()
    second = assembled(folder=tmp_path, durable=True)
    now = time.monotonic() + 1.0
    second.begin(now)
    assert (second.server.version, second.snapshot(now).rate) == (40, 0.0)


def test_what_was_saved_is_found_again(assembled, tmp_path):
    first = assembled(folder=tmp_path)
    first.begin(0.0)
    join(first)
    report(first, 0, 0.1, 2.0)
    report(first, 1, 0.2, 3.0)
    first.finish(0.3)
    first.store.close()
    second = assembled(folder=tmp_path)
    assert np.array_equal(second.server.w, first.server.w)
    assert (second.server.version, second.server.reports) == (2, 2)
    assert [member.state for member in second.server.members] == ["away", "away"]
    now = time.monotonic()
    second.begin(now)
    assert second.notes.heard(" version 2, 2 reports")
    assert second.server.seconds(now) >= 0.2


def test_an_end_that_was_reached_before_is_reached_at_once(assembled, tmp_path):
    until = siag.Until(reports=1)
    for session in (assembled(until, folder=tmp_path),):
        session.begin(0.0)
        join(session)
        report(session, 0, 0.1)
        session.finish(0.2)
        session.store.close()
    again = assembled(until, folder=tmp_path)
    again.begin(0.0)
    assert again.over
    assert again.ended == Ended(Ending.REACHED_BEFORE)
    again.finish(0.1)
    assert again.curve.run(again.server.w, -1, {}).t.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"workers": ("a", "b", "c")}, "n"),
        ({"problem": POSED}, "problem"),
        ({"problem": POSED, "seed": 1}, "seed"),
    ],
)
def test_a_folder_of_another_run_is_refused_with_what_differs(assembled, tmp_path, change, what):
    first = assembled(folder=tmp_path, **{"problem": POSED} if what == "seed" else {})
    first.begin(0.0)
    first.finish(1.0)
    first.store.close()
    with pytest.raises(siag.BadFile, match=f": {what} is .* there and .* here"):
        assembled(folder=tmp_path, **change)


@pytest.mark.parametrize("server", [EveryArrivals(1), EveryArrivals(3), Tick(0.1)])
@pytest.mark.parametrize("departed", [Departed(), Departed(half_life=0), Departed(half_life=4)])
def test_a_durable_session_is_found_as_it_was_whenever_it_is_killed(assembled, tmp_path, server, departed):
    options = {"folder": tmp_path, "durable": True, "server": server, "departed": departed}
    first = assembled(**options)
    first.begin(0.0)
    join(first)
    rng = np.random.default_rng(3)
    for k in range(40):
        report(first, k % 2, 0.01 * k, rng.normal())
        if k == 20:
            first.save(0.21, wait=True)  # the log goes on after a save
        if k == 30:
            first.left(1, 0.31, "its stream ended")
        first.look_after(0.01 * k)
        first.commit()
    first.disk.kill()
    second = assembled(**options)
    for name, array in first.server.arrays().items():
        assert np.array_equal(array, second.server.arrays()[name]), name
    assert (second.server.version, second.server.reports) == (first.server.version, first.server.reports)
    assert [member.samples for member in second.server.members] == [member.samples for member in first.server.members]
    total = second.server.state.rows.sum(axis=0)
    assert np.allclose(second.server.state.total, total, rtol=0, atol=1e-12)


def test_a_durable_session_can_log_from_the_very_first_report(assembled, tmp_path):
    session = assembled(folder=tmp_path, durable=True)
    session.begin(0.0)
    join(session)
    report(session, 0, 0.0)
    session.commit()
    session.disk.kill()
    assert assembled(folder=tmp_path, durable=True).server.reports == 1


def test_in_durable_mode_nothing_is_committed_while_the_disk_is_full_and_all_once_it_is_not(assembled, tmp_path):
    session = assembled(folder=tmp_path, durable=True)
    session.begin(0.0)
    join(session)
    session.disk.fill()
    report(session, 0, 0.1)
    with failing(errno.ENOSPC):
        session.commit()
    session.look_after(SAVE + 0.1)
    with failing(errno.ENOSPC):
        session.commit()
    session.disk.clean()
    session.save(1.0, wait=True)
    session.commit()
    session.disk.kill()
    assert assembled(folder=tmp_path, durable=True).server.reports == 1


def test_a_full_disk_is_reported_once_shown_and_its_end_is_reported(assembled, tmp_path):
    session = assembled(folder=tmp_path)
    session.disk.fill()
    session.begin(0.0)
    join(session)
    for k in range(1, 5):
        report(session, 0, float(k))
        session.save(float(k), wait=True)
    session.look_after(4.1)
    problem = Problem(Trouble.SAVING, "no space left on device")
    assert session.notes.events == [problem.alarm]
    assert session.notes.snapshots[-1].problems == (problem.text,)
    assert session.notes.snapshots[-1].saved is None
    session.disk.clean()
    session.finish(5.0)
    assert session.notes.events[-1] == problem.end
    assert session.notes.snapshots[-1].problems == ()
    session.store.close()
    assert assembled(folder=tmp_path).server.reports == 4


def test_a_folder_in_use_is_refused(assembled, tmp_path):
    assembled(folder=tmp_path)
    with pytest.raises(siag.BadFile, match=str(tmp_path)):
        assembled(folder=tmp_path)


def test_a_refused_assembly_leaves_nothing_locked(assembled, tmp_path):
    with pytest.raises(siag.BadInput, match="server"):
        assembled(folder=tmp_path, server="now")
    with pytest.raises(siag.BadInput, match="record"):
        assembled(folder=tmp_path, record=0)
    Store(tmp_path, {}).close()
