"""A session whose w leaves the range of numbers keeps what was good."""

import math
import time

import numpy as np
import pytest
from sessions import D, join, report

import siag
from siag.activity import Trace
from siag.live.checkpoints import SAVE
from siag.live.durable_log import LAYOUT, REPORTED
from siag.server import Guard, Refused
from siag.server.ledger import LARGEST


def test_after_a_divergence_the_error_is_not_a_number_and_the_session_is_over(assembled):
    session = assembled(loss=lambda w: float(w @ w), step=siag.steps.Constant(1e20), guard=Guard(jump=None))
    session.begin(0.0)
    join(session)
    for _ in range(100):
        if not session.over:
            report(session, 0, 1.0, 1e3)
    session.finish(2.0)
    assert session.over
    run = session.curve.run(session.server.w, session.diverged_at, {})
    assert run.diverged[0] == run.t[-1]
    assert np.isnan(run.error[0, -1])
    assert np.isfinite(run.error[0, 0])
    assert session.notes.heard("diverged", "smaller step")


def test_a_w_beyond_all_numbers_is_not_saved_over_a_good_one(assembled, tmp_path):
    first = assembled(folder=tmp_path, guard=Guard(jump=None))
    first.begin(0.0)
    join(first)
    report(first, 0, 0.1, 2.0)
    first.save(0.2, wait=True)
    good = first.server.w.copy()
    report(first, 1, 0.3, 1e150)
    first.look_after(0.3 + 2 * SAVE)
    assert first.over
    assert first.notes.heard("diverged", "smaller step")
    first.finish(2.0)
    first.disk.kill()
    second = assembled(folder=tmp_path, guard=Guard(jump=None))
    assert np.array_equal(second.server.w, good)


def diverged(session, good=5):
    """Let a durable session have some good reports, then others until it diverges; the good w."""
    session.begin(0.0)
    join(session)
    for k in range(200):
        if k == good:
            w = session.server.w.copy()
        if not session.over:
            report(session, k % 2, 0.01 * k, 1.0 if k < good else 1e18)
            session.commit()
    assert session.diverged_at > good + 1
    return w


def test_a_durable_run_that_diverged_goes_on_from_its_last_good_state(assembled, tmp_path):
    options = {"folder": tmp_path / "state", "durable": True, "trace": tmp_path / "t", "guard": Guard(jump=None)}
    first = assembled(**options)
    good = diverged(first)
    dropped = first.server.version - 5
    first.finish(3.0)
    first.disk.kill()
    for reports in (5, 8):
        second = assembled(**options)
        assert (second.server.version, second.server.reports) == (reports, reports)
        assert second.server.members[0].samples == -(-reports // 2)
        assert second.server.ledger[:, LARGEST].max() < 10.0
        if reports == 5:
            assert np.array_equal(second.server.w, good)
        assert len(Trace.read(tmp_path / "t").version) == reports
        now = time.monotonic()
        second.begin(now)
        assert not second.over
        words = f"the last {dropped} logged entries were not used: with them w leaves the range of numbers"
        assert second.notes.heard(words) == (reports == 5)
        assert second.notes.heard(f"went on from version {reports}, {reports} reports")
        join(second, now)
        for k in range(3):
            report(second, (reports + k) % 2, now)
            second.commit()
        second.disk.kill()


def test_a_log_that_ends_with_a_report_which_was_never_accepted_is_gone_on_with(assembled, tmp_path):
    """As it was written before such reports were kept out of it."""
    options = {"folder": tmp_path, "durable": True, "guard": Guard(jump=None)}
    first = assembled(**options)
    diverged(first)
    first.store.log(LAYOUT.pack(REPORTED, 0, 0, 0, 1.0, math.nan), np.full(D, math.nan).data.cast("B"))
    first.store.sync()
    first.disk.kill()
    assert assembled(**options).server.version == 5


UNACCEPTABLE = {
    "push": lambda session: report(session, 0, 0.3, math.inf),
    "skip": lambda session: session.push(0, 2, None, 0, 0.3),  # a sample it has reported before
}


@pytest.mark.parametrize("act", UNACCEPTABLE.values(), ids=UNACCEPTABLE)
def test_a_report_at_which_a_divergence_is_seen_is_neither_logged_nor_acknowledged(assembled, tmp_path, act):
    session = assembled(folder=tmp_path, durable=True, guard=Guard(jump=None))
    session.begin(0.0)
    join(session)
    report(session, 0, 0.1)
    report(session, 0, 0.2, 1e18)
    before = session.store.logged
    with pytest.raises(Refused, match="at version 2;") as caught:
        act(session)
    assert not caught.value.final
    assert (session.over, session.diverged_at) == (True, 2)
    assert session.store.logged == before
    assert (session.server.reports, session.server.members[0].refused) == (2, 0)
    session.commit()
    session.disk.kill()
    assert assembled(folder=tmp_path, durable=True).server.version == 1
