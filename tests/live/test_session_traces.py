"""The trace of a session: on disk before the state, gone on with, given up."""

import errno
import os
import time

import pytest
from sessions import join, report
from tests.torture.disk import Deferred

import siag
from disks import SmallDisk
from siag.activity import Trace
from siag.live.checkpoints import SAVE
from siag.live.reasons import Problem, Trouble
from siag.live.session import LOOK
from siag.server import Departed

FULL_TRACE = Problem(Trouble.TRACE, "no space left on device")


def test_a_trace_that_cannot_be_written_does_not_hide_that_saving_works_nor_end_the_run(assembled, tmp_path):
    disk = SmallDisk(only="trace.csv")
    session = assembled(folder=tmp_path / "state", trace=tmp_path / "trace.csv", disk=disk)
    session.begin(0.0)
    join(session)
    disk.fill()
    for k in range(4):
        report(session, 0, float(k))
        session.save(float(k), wait=True)
    assert session.problems == (FULL_TRACE,)
    assert session.notes.events == [FULL_TRACE.alarm]
    disk.clean()
    session.finish(5.0)
    assert session.notes.events[1:] == [FULL_TRACE.end]
    assert session.problems == ()
    assert Trace.read(tmp_path / "trace.csv").length == 4


def test_a_trace_that_is_whole_at_the_end_is_no_trouble_whatever_was_before(assembled, tmp_path):
    session = assembled(trace=tmp_path / "trace.csv")
    session.begin(0.0)
    join(session)
    session.disk.fill()
    report(session, 0, 0.1)
    session.look_after(SAVE)
    assert session.problems == (FULL_TRACE,)
    session.disk.clean()
    session.finish(SAVE + LOOK)
    assert session.problems == ()
    assert Trace.read(tmp_path / "trace.csv").length == 1


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_a_run_killed_while_the_disk_of_its_trace_is_full_goes_on_with_the_trace(assembled, tmp_path, name):
    options = {"folder": tmp_path / "state", "trace": tmp_path / name, "departed": Departed(half_life=0)}
    first = assembled(**options, disk=SmallDisk(only="trace.csv"))
    first.begin(0.0)
    join(first)
    report(first, 0, 0.1)
    first.save(0.2, wait=True)
    first.disk.fill()
    report(first, 1, 0.3)
    first.left(1, 0.4, "its stream ended")
    first.save(0.5, wait=True)
    report(first, 0, 0.6)  # not saved
    first.disk.kill()
    assert Trace.read(tmp_path / name).length == 1
    second = assembled(**options)
    assert second.server.reports == 2
    now = time.monotonic()
    second.begin(now)
    join(second, now)
    report(second, 0, now)
    second.finish(now)
    trace = Trace.read(tmp_path / name)
    assert trace.worker.tolist() == [0, 1, 1, 0]
    assert trace.length == 3


def test_a_durable_run_whose_trace_was_lost_with_the_power_finds_it_in_its_log(assembled, tmp_path):
    path = tmp_path / "trace.csv"
    options = {"folder": tmp_path / "state", "durable": True, "trace": path, "departed": Departed(half_life=1)}
    first = assembled(**options)
    first.begin(0.0)
    join(first)
    on_disk = path.stat().st_size
    for k in range(20):
        report(first, 0, 0.1 * k, stamp=0 if k == 0 else None)
        if k == 5:
            first.left(1, 0.55, "its stream ended")
        first.commit()
    whole = path.read_text()
    first.disk.kill()
    os.truncate(path, on_disk)
    second = assembled(**options)
    assert path.read_text().splitlines()[1:] == whole.splitlines()[1:]
    assert second.server.reports == 20


class Later:
    """Threads of a session that work when the test says so; what was saved of the trace."""

    def __init__(self):
        self.of = {}

    def __call__(self, name):
        self.of[name] = Deferred()
        return self.of[name]


def saved_tails(session, monkeypatch):
    """What saves of the state carry of the trace."""
    saved, real = [], session.store.save
    note = lambda *given, **how: saved.append(given[2]["trace"]) or real(*given, **how)  # noqa: E731
    monkeypatch.setattr(session.store, "save", note)
    return saved


def test_the_trace_is_on_disk_before_the_state_and_nobody_waits_for_it(assembled, tmp_path, monkeypatch):
    later = Later()
    session = assembled(folder=tmp_path / "state", trace=tmp_path / "trace.csv", background=later)
    session.begin(0.0)
    join(session)
    saved = saved_tails(session, monkeypatch)
    report(session, 0, 0.1)
    session.look_after(SAVE)
    assert not saved
    later.of["siag-trace"].shutdown()
    report(session, 0, SAVE + 0.01)
    session.look_after(SAVE + LOOK)
    assert saved == ["1,0,1,1,0.410000,,\n"]  # only what came meanwhile


def test_a_state_does_not_wait_for_ever_for_the_disk_of_the_trace(assembled, tmp_path, monkeypatch):
    session = assembled(folder=tmp_path / "state", trace=tmp_path / "trace.csv", background=Later())
    session.begin(0.0)
    join(session)
    report(session, 0, 0.1)
    saved = saved_tails(session, monkeypatch)
    session.look_after(SAVE)
    session.look_after(1.9 * SAVE)
    assert not saved
    session.look_after(2.1 * SAVE)
    assert saved == ["0,0,0,0,0.000000,,\n"]


def test_a_run_that_fails_before_its_first_save_can_be_started_again_with_its_trace(assembled, tmp_path):
    options = {"folder": tmp_path / "state", "trace": tmp_path / "trace.csv"}
    first = assembled(**options, disk=SmallDisk(errno.ENOSPC, only="state-"))
    first.begin(0.0)
    join(first)
    report(first, 0, 0.1)
    first.save(0.2, wait=True)
    assert [problem.what for problem in first.problems] == [Trouble.SAVING]
    first.give_up()
    first.disk.kill()
    assert assembled(**options).server.reports == 0


def test_after_a_trace_was_given_up_the_run_goes_on_without_one_as_the_message_says(assembled, tmp_path):
    options = {"folder": tmp_path / "state", "trace": tmp_path / "trace.csv"}
    first = assembled(**options, disk=SmallDisk(only="trace.csv"))
    first.begin(0.0)
    join(first)
    report(first, 0, 0.1)
    first.save(0.2, wait=True)
    first.trace.room = 0
    first.disk.fill()
    for k in range(3):
        report(first, 0, 0.3)
        first.save(0.4 + k, wait=True)
    first.finish(5.0)
    given_up = "given up, with 0 MB waiting for the disk"
    assert first.problems == (problem := Problem(Trouble.TRACE, given_up),)
    assert first.notes.events == [problem.alarm]
    first.store.close()
    words = "has gone on without a trace, or had to give it up; go on without one, or start anew with another folder"
    with pytest.raises(siag.BadInput, match=words):
        assembled(**options)
    second = assembled(folder=tmp_path / "state")
    assert second.server.reports == 4
    second.begin(0.0)
    second.finish(0.1)
    second.store.close()
    with pytest.raises(siag.BadInput, match=words):
        assembled(**options)
    assembled(folder=tmp_path / "another", trace=tmp_path / "another.csv")


def test_a_trace_that_a_run_went_on_without_is_not_gone_on_with(assembled, tmp_path):
    """It may have lines that were lost, and as many as the run has reports."""
    options = {"folder": tmp_path / "state", "trace": tmp_path / "trace.csv"}
    first = assembled(**options)
    first.begin(0.0)
    join(first)
    report(first, 0, 0.1)
    first.save(0.2, wait=True)
    report(first, 0, 0.3)
    first.server.trace.flush()
    first.disk.kill()
    second = assembled(folder=tmp_path / "state")
    second.begin(0.0)
    join(second)
    report(second, 1, 0.3)
    second.finish(0.4)
    second.store.close()
    with pytest.raises(siag.BadInput, match="go on without one"):
        assembled(**options)


def test_the_trace_of_a_killed_durable_session_goes_on_with_it(assembled, tmp_path):
    options = {"folder": tmp_path / "state", "durable": True, "trace": tmp_path / "trace.csv"}
    first = assembled(**options)
    first.begin(0.0)
    join(first)
    for k in range(5):
        report(first, 0, 0.1 * k)
        first.commit()
    first.disk.kill()
    second = assembled(**options)
    now = time.monotonic()
    second.begin(now)
    join(second, now)
    report(second, 1, now)
    second.finish(now)
    trace = Trace.read(tmp_path / "trace.csv")
    assert trace.worker.tolist() == [0, 0, 0, 0, 0, 1]
    assert trace.length == 6


def test_a_run_that_goes_on_without_the_trace_it_began_with_says_what_is_missing(assembled, tmp_path):
    first = assembled(folder=tmp_path / "state", trace=tmp_path / "moved.csv")
    first.begin(0.0)
    join(first)
    report(first, 0, 0.1)
    first.finish(0.2)
    first.store.close()
    with pytest.raises(siag.BadInput, match="with its 1 reports; record from the start, or not at all"):
        assembled(folder=tmp_path / "state", trace=tmp_path / "trace.csv")


def stopped(session, reports=0):
    """Let a session have so many reports, and end in order."""
    now = time.monotonic()
    session.begin(now)
    join(session, now)
    for _ in range(reports):
        report(session, 0, now)
    session.finish(now)
    session.store.close()


def test_a_run_that_goes_on_leaves_a_file_alone_that_is_no_trace(assembled, tmp_path):
    stopped(assembled(folder=tmp_path / "state"))
    precious = tmp_path / "precious.csv"
    precious.write_text("important results\n")
    with pytest.raises(siag.BadInput, match="and this file is no trace; give the path of a new file"):
        assembled(folder=tmp_path / "state", trace=precious)
    assert precious.read_text() == "important results\n"
    assembled(folder=tmp_path / "state", trace=tmp_path / "new.csv")


@pytest.mark.parametrize("reports", [0, 20])
def test_a_run_that_goes_on_leaves_the_trace_of_another_alone(assembled, tmp_path, reports):
    one = {"folder": tmp_path / "one", "trace": tmp_path / "one.csv"}
    two = {"folder": tmp_path / "two", "trace": tmp_path / "two.csv"}
    stopped(assembled(**one), 100)
    stopped(assembled(**two), reports)
    before = one["trace"].read_bytes()
    with pytest.raises(siag.BadInput, match="and this file is another run's; give the"):
        assembled(**two | {"trace": one["trace"]})
    assert one["trace"].read_bytes() == before
    for options, count in ((one, 100), (two, reports)):
        assert assembled(**options).server.reports == count
        assert len(Trace.read(options["trace"]).version) == count
