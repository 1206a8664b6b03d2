"""Rates for the view."""

import pytest

from siag.server.status import Rate


@pytest.mark.parametrize("gap", [0.001, 0.1, 1.0, 7.0])
@pytest.mark.parametrize("at_once", [True, False])
def test_the_rate_is_that_of_the_events_however_often_it_is_looked_at(gap, at_once):
    rate, count, now = Rate(3.0, at_once), 0, 0.0
    rate.of(0, now)
    for _ in range(200):
        more = max(1, round(0.25 / gap))
        count, now = count + more, now + more * gap
        shown = rate.of(count, now)
    assert shown == pytest.approx(1 / gap, rel=0.02)
    assert rate.of(count + 100, now + 0.1) == shown  # too soon to tell anything new


def test_it_goes_to_zero_when_nothing_happens_any_more_and_at_once_when_it_starts_anew():
    rate = Rate(3.0)
    rate.of(0, 0.0)
    assert rate.of(1000, 10.0) > 90
    for k in range(1, 61):
        last = rate.of(1000, 10.0 + k)
    assert last < 1e-3
    rate.restart(1000, 100.0)
    assert rate.of(1000, 200.0) == 0.0


def test_the_first_events_count_in_full_or_lead_slowly_away_from_zero():
    rates = Rate(3.0, at_once=True), Rate(3.0)
    for rate in rates:
        rate.restart(5, 0.0)
    at_once, slowly = (rate.of(25, 1.0) for rate in rates)
    assert at_once == 20.0
    assert 0 < slowly < 10.0
