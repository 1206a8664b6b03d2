"""Membership: what is known of a worker, what is shown of it, what outlives the server."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siag.foundations.errors import BadInput
from siag.server import DROP, KEEP, Departed, State, ledger
from siag.server.departing import FORGOTTEN
from siag.server.members import PATIENCE, Member

quick = settings(deadline=None, max_examples=100)


@quick
@given(st.floats(1e-3, 1e6))
def test_a_row_counts_for_half_after_its_half_life_and_for_nothing_in_the_end(half_life):
    departed = Departed(half_life)
    times = half_life / departed.every
    assert departed.factor**times == pytest.approx(0.5)
    assert departed.every <= max(1, half_life / 8 + 1)  # smoothly
    assert departed.factor**departed.times < 1.01 * 0.5**FORGOTTEN  # so that the last, to 0, is no jump


def test_keeping_and_dropping_are_the_ends_of_decaying():
    assert KEEP.half_life == math.inf
    assert (KEEP.factor, KEEP.times) == (1.0, 0)
    assert (DROP.factor, DROP.times) == (0.0, 1)
    assert Departed(8e9).factor == pytest.approx(0.5 ** (1 / 8))
    assert Departed(1e-300).factor == 0.0


@pytest.mark.parametrize("half_life", [-1.0, math.nan, -math.inf, "long", None, True])
def test_a_half_life_that_makes_no_sense_is_refused_by_name(half_life):
    with pytest.raises(BadInput, match="half_life = "):
        Departed(half_life)


def member_of(row, name, **more):
    """A worker that nobody has heard of."""
    return Member(row, name, ledger.blank(row + 1), **more)


def accept(member, version, stamp, sample, norm, now, loss=math.nan):
    """A report of the worker's is accepted."""
    ledger.enter.plain(
        member.lines[member.row],
        np.zeros(ledger.ENTRIES),
        np.zeros(ledger.BINS, np.int64),
        version,
        stamp,
        sample,
        norm,
        loss,
        now,
    )
    member.welcome()


def reporting(member, gaps, now=0.0):
    """Reports at these gaps, after having joined; return when the last came."""
    member.join(now)
    for gap in gaps:
        now += gap
        accept(member, member.reports, member.reports, member.samples, 1.0, now)
    return now


def test_a_report_is_counted_and_ends_a_row_of_refusals():
    member = member_of(3, "c")
    member.strikes = member.refused = 4
    accept(member, version=9, stamp=7, sample=5, norm=2.0, now=1.5)
    assert (member.reports, member.strikes, member.refused) == (1, 0, 4)
    assert (member.stamp, member.last, member.samples, member.heard) == (7, 9, 6, 1.5)
    assert (member.largest, member.state) == (2.0, "working")


@quick
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_the_largest_norm_is_remembered(norms):
    member = member_of(0, "a")
    for k, norm in enumerate(norms):
        accept(member, k, k, k, norm, float(k))
    assert member.largest == max(norms)


def test_signs_of_life_do_not_count_as_reports_in_the_rate():
    member = member_of(0, "a")
    member.view(0, 0.0)
    for k in range(1, 400):
        member.heard = 0.5 * k
        if k % 10 == 0:
            accept(member, k, k, k, 1.0, 0.5 * k)
        view = member.view(k, 0.5 * k)
    assert view.rate == pytest.approx(0.2, rel=0.6)  # one in five seconds, averaged over three


@pytest.mark.parametrize(
    ("gaps", "patience"),
    [
        ([], PATIENCE),  # no habit yet: since it joined
        ([0.001] * 50, PATIENCE),  # nobody is stalled sooner
        ([7.0] * 50, 70.0),
        ([600.0], 6000.0),
        ([0.01, 60.0, 0.01] * 50, 200.0),  # in bursts: twenty seconds on average
        ([0.01] * 50 + [60.0] + [0.01] * 50, 100.0),  # one long pause, not forgotten at once
        ([0.01] * 50 + [60.0] + [0.01] * 2000, PATIENCE),  # but in the end
    ],
)
def test_a_worker_is_stalled_when_it_is_silent_for_much_longer_than_is_usual_for_it(gaps, patience):
    member = member_of(0, "a")
    last = reporting(member, gaps)
    assert member.patience == pytest.approx(patience, rel=0.25)
    assert member.view(1, last + member.patience).state == State.WORKING
    stalled = member.view(1, last + 1.01 * member.patience)
    assert (stalled.state, stalled.silent) == (State.STALLED, pytest.approx(1.01 * member.patience))
    assert member.state == State.WORKING  # it is only shown so


def test_a_patience_that_is_given_is_that_of_all():
    member = member_of(0, "a", patience=3.0)
    last = reporting(member, [600.0] * 30)
    assert [member.view(1, last + silent).state for silent in (2.9, 3.1)] == ["working", "stalled"]


@pytest.mark.parametrize("state", [State.AWAY, State.LEFT, State.REFUSED, State.EXPECTED])
def test_who_is_not_here_is_not_stalled_and_an_absence_is_no_habit(state):
    member = member_of(0, "a")
    now = reporting(member, [1.0] * 30)
    member.state = state
    assert member.view(1, now + 1e6).state == state
    accept(member, 31, 31, 31, 1.0, now + 1e6)  # without having joined again
    assert member.patience == pytest.approx(10.0)
    reporting(member, [1.0], now + 2e6)
    assert member.patience == pytest.approx(10.0)


def test_a_worker_nobody_has_heard_of_is_shown_as_such():
    view = member_of(2, "c").view(50, now=3.0)
    assert (view.state, view.age, view.reports, view.rate) == ("expected", -1, 0, 0.0)
    assert view.silent == math.inf


def test_the_age_of_a_row_grows_with_the_versions():
    member = member_of(0, "a")
    accept(member, version=12, stamp=10, sample=0, norm=1.0, now=0.0)
    assert [member.view(version, 0.0).age for version in (12, 13, 40)] == [2, 3, 30]


@quick
@given(
    state=st.sampled_from([state for state in State if state != State.STALLED]),
    counts=st.lists(st.integers(0, 2**53), min_size=5, max_size=5),
    figures=st.lists(st.floats(0, 1e300), min_size=3, max_size=3),
    reason=st.text(),
)
def test_what_is_saved_comes_back_with_nobody_there(state, counts, figures, reason):
    reports, refused, strikes, last, samples = counts
    one = member_of(1, "b")
    one.state, one.reports, one.refused, one.strikes, one.reason = state, reports, refused, strikes, reason
    one.stamp, one.last, one.samples = last, last, samples
    one.largest, one.usual, one.longest = figures
    two = member_of(1, "other")
    two.restore(json.loads(json.dumps(one.saved())))
    assert two.saved() == one.saved()
    assert two.state == (
        "left" if state == "left" else "away" if reports or state != "expected" else "expected"
    )  # a refused one may try again
    assert two.strikes == 0
    assert two.heard == -math.inf


def test_the_ledger_knows_who_is_here_without_strikes_and_who_is_banned():
    member, here, banned = member_of(0, "a"), [], []
    for state in State:
        for strikes in (0, 1):
            member.state, member.strikes = state, strikes
            here += [(state, strikes)] if member.lines[0, ledger.HERE] else []
            banned += [(state, strikes)] if member.lines[0, ledger.BANNED] else []
    assert here == [(State.WORKING, 0)]
    assert banned == [(State.REFUSED, 0), (State.REFUSED, 1)]
