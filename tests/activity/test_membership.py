"""Workers that come later, leave, and come back: who is there when, along iterations and on a clock."""

import math

import numpy as np
import pytest

from refusals import refused
from siag.activity import (
    Arrivals,
    Clock,
    Cyclic,
    EveryArrivals,
    Everyone,
    Exponential,
    Fixed,
    Members,
    OnOff,
    Recorded,
    Sequential,
    Tick,
    Uniform,
    WaitForAll,
    unfold,
)
from siag.activity.agenda import FADE, FORGET, STEP
from siag.activity.membership import in_force, pieces
from siag.foundations import schedule
from siag.foundations.errors import BadInput, Unsuitable

N = 4


def sets(activity, iterations, seed=3, n=N):
    """A_0, A_1, …, as the simulator sees them."""
    found = []
    for _, chunk in unfold(activity, n, iterations, seed, 0):
        found += [part.tolist() for part in np.split(chunk.worker, chunk.start[1:-1])]
    return found


def there(activity, n=N):
    """From when on who is there."""
    return [(change.when, change.members.tolist()) for change in activity.changes(n)]


def test_members_are_there_from_when_they_come_until_they_leave():
    activity = Members(Everyone(), arrive={3: 2}, leave={0: 4})
    assert sets(activity, 6) == [[0, 1, 2], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3], [1, 2, 3], [1, 2, 3]]
    assert there(activity) == [(0, [0, 1, 2]), (2, [0, 1, 2, 3]), (4, [1, 2, 3])]
    assert [change.left.tolist() for change in activity.changes(N)] == [[3], [], [0]]


def test_a_worker_may_go_and_come_back_several_times():
    activity = Members(Everyone(), arrive={1: [2, 4]}, leave={1: [1, 3, 5]})
    assert [1 in each for each in sets(activity, 7)] == [True, False, True, False, True, False, False]


def test_a_list_has_a_moment_for_each_worker_and_none_where_nothing_happens():
    by_worker = Members(Uniform(3), arrive={3: 2}, leave={0: 4})
    for never in (None, math.inf, []):
        listed = Members(Uniform(3), arrive=[0, None, 0, 2], leave=[4, never, never, never])
        assert there(listed) == there(by_worker)
        assert sets(listed, 20) == sets(by_worker, 20)
    assert there(Members(Uniform(3), arrive={"3": 2}, leave={"0": 4})) == there(by_worker)  # as a file has them


@pytest.mark.parametrize("inner", [Uniform(3), Sequential(), Cyclic()], ids=repr)
def test_those_who_are_there_report_when_they_would_if_all_were(inner):
    activity = Members(inner, arrive={3: 20}, leave={0: 30})
    for t, (all_of_them, some) in enumerate(zip(sets(inner, 60), sets(activity, 60), strict=True)):
        missing = {3} if t < 20 else {0} if t >= 30 else set()
        assert some == [i for i in all_of_them if i not in missing]


def test_the_pattern_does_not_depend_on_how_it_is_cut(monkeypatch):
    activity = Members(Uniform(3), arrive={3: 7}, leave={0: 14})
    whole = sets(activity, 40)
    monkeypatch.setattr(schedule, "ITERATIONS", 7)
    assert sets(activity, 40) == whole


def test_nothing_changes_where_nobody_comes_or_goes():
    activity = Members(Uniform(3), arrive=[0] * N)
    assert activity.changes(N) == ()
    assert sets(activity, 30) == sets(Uniform(3), 30)
    assert Uniform(3).changes(N) == ()


def test_a_run_is_cut_before_a_change_and_one_iteration_earlier():
    """w^t is measured against the members of iteration t, and the last point before a change is one of these."""
    changes = Members(Everyone(), arrive={3: 2}, leave={0: 9}).changes(N)
    assert pieces(changes, 0, 20) == [(0, 1), (1, 2), (2, 8), (8, 9), (9, 20)]
    assert pieces(changes, 9, 5) == [(0, 5)]
    assert pieces(changes, 5, 4, [1, 3]) == [(0, 1), (1, 3), (3, 4)]
    assert pieces((), 5, 4) == [(0, 4)]
    assert [in_force(changes, t) for t in (0, 1, 2, 8, 9)] == [0, 0, 1, 1, 2]


def test_ages_are_bounded_as_those_of_the_other_and_gaps_are_not_known():
    activity = Members(Uniform(5), leave={0: 100})
    assert activity.bound(N) == 4
    with pytest.raises(Unsuitable, match="Uniform"):
        activity.kappa(N)
    with pytest.raises(Unsuitable, match="Recorded"):
        Recorded.of(activity, N, 10)
    assert Members(Recorded.of(Uniform(5), N, 10), leave={0: 5}).length == 10


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"leave": {0: 0}}, "leave[0]"),
        ({"leave": {0: 1.5}}, "leave[0]"),
        ({"arrive": {0: -1}}, "arrive[0]"),
        ({"arrive": {0: [1, 2]}}, "arrive[0]"),
        ({"arrive": {0: 5}, "leave": {0: 5}}, "arrive[0]"),
        ({"leave": {1: [3, 8]}}, "leave[1]"),
        ({"leave": {-1: 3}}, "worker"),
        ({"leave": {"north": 3}}, "worker"),
        ({"leave": 3}, "leave"),
        ({"leave": [3, math.nan, None, None]}, "leave[1]"),
    ],
    ids=str,
)
def test_moments_that_cannot_be_are_refused(given, parameter):
    with refused(parameter):
        Members(Everyone(), **given)


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"leave": {4: 3}}, "worker"),
        ({"leave": [3, None]}, "leave"),
        ({"leave": [3, 4, 5, 6]}, "leave"),
        ({"leave": [3, 4, 5, 9], "arrive": {0: 10}}, "leave"),
    ],
    ids=str,
)
@pytest.mark.parametrize("make", [Members, Clock])
def test_what_does_not_fit_the_workers_is_refused_and_so_is_an_empty_house(make, given, parameter):
    with refused(parameter):
        make(Everyone() if make is Members else Fixed(1.0), **given).bound(N)


def test_what_is_no_moments_is_printed_as_it_was_given():
    with pytest.raises(BadInput, match=r"^leave = 3: must be moments by worker"):
        Members(Everyone(), leave=3)


def test_a_clock_has_members_of_its_own_and_recorded_times_say_who_is_there():
    for inner in (Clock(Fixed(1.0)), Members(Everyone(), leave={0: 1}), "Uniform"):
        with refused("activity"):
            Members(inner, leave={0: 3})
    with refused("compute"):
        Clock(Arrivals([(0.5, 0), (1.0, 1)]), leave={0: 0.7})


def happened(clock, steps, n=3, cost=1, seed=0):
    """(what, who, when) until the server has stepped so often; of reports also how old they are."""
    found = []
    for chunk in clock.events(n, steps, seed, 0, cost):
        for code, age, time in zip(chunk.code.tolist(), chunk.age.tolist(), chunk.time.tolist(), strict=True):
            if code == STEP:
                found.append(("step", time))
            elif FADE <= code < FADE + n:
                found.append(("leaves", code - FADE, time))
            elif FORGET <= code < FORGET + n:
                found.append(("forgets", code - FORGET, time))
            elif code >= 0:
                found.append(("reports", code, time, age))
            else:
                found.append(("reads", -1 - code, time))
    return found


def test_on_a_clock_one_that_comes_reads_at_once_and_what_one_that_leaves_was_about_to_report_is_lost():
    clock = Clock(Fixed(1.0), slowness=[1.0, 3.0, 2.0], arrive={2: 0.5}, leave={1: 2.5})
    assert happened(clock, 4) == [
        ("leaves", 2, 0.0),
        ("forgets", 2, 0.0),
        ("reads", 0, 0.0),
        ("reads", 1, 0.0),
        ("reads", 2, 0.5),
        ("reports", 0, 1.0, 0),
        ("step", 1.0),
        ("reads", 0, 1.0),
        ("reports", 0, 2.0, 0),
        ("step", 2.0),
        ("reads", 0, 2.0),
        ("leaves", 1, 2.5),
        ("forgets", 1, 2.5),
        ("reports", 2, 2.5, 2),
        ("step", 2.5),
        ("reads", 2, 2.5),
        ("reports", 0, 3.0, 1),
        ("step", 3.0),
    ]


def test_a_server_that_waits_for_all_waits_for_those_who_are_there():
    clock = Clock(Fixed(1.0), slowness=[1.0, 1.0, 4.0], server=WaitForAll(), arrive={1: 6.5}, leave={1: 1.0, 2: 5.0})
    steps = [event[1] for event in happened(clock, 4) if event[0] == "step"]
    assert steps == [4.0, 5.0, 6.0, 7.5]  # at 5 only 0 is left, which has reported by then; at 6.5 worker 1 begins


def test_a_server_that_ticks_sees_a_change_before_the_step_of_the_same_moment():
    clock = Clock(Fixed(0.4), server=Tick(1.0), leave={1: 1.0})
    events = happened(clock, 2, n=2)
    assert events.index(("leaves", 1, 1.0)) + 2 == events.index(("step", 1.0))


@pytest.mark.parametrize("server", [EveryArrivals(), EveryArrivals(3), Tick(0.7), WaitForAll()], ids=repr)
def test_on_a_clock_nothing_is_heard_of_those_who_are_away_and_chunks_do_not_matter(server):
    away = {0: (3.0, 9.0), 2: (0.0, 5.0), 3: (12.0, math.inf)}
    clock = Clock(
        Exponential(1.0),
        server=server,
        availability=OnOff(4.0, 1.0),
        arrive={0: 9.0, 2: 5.0},
        leave={0: 3.0, 3: 12.0},
    )
    events = happened(clock, 200, n=N, seed=5)
    assert events == happened(clock, 200, n=N, seed=5, cost=1 << 21)
    heard = [event for event in events if event[0] in ("reads", "reports")]
    for i, (first, last) in away.items():
        assert not [event for event in heard if event[1] == i and first <= event[2] < last]
        assert [event for event in heard if event[1] == i and not first <= event[2] < last]
    assert [event[:2] for event in events if event[0] == "leaves"] == [("leaves", 2), ("leaves", 0), ("leaves", 3)]


def test_workers_that_stay_take_the_times_they_would_take_if_all_did():
    """Who reports when is a function of (seed, repeat, i, k); a server that ticks does not slow anybody down."""
    clocks = (Clock(Exponential(1.0), server=Tick(1.0), **more) for more in ({}, {"leave": {1: 10.0}}))
    all_of_them, some = ([event[1:3] for event in happened(clock, 50) if event[0] == "reports"] for clock in clocks)
    assert some == [(i, time) for i, time in all_of_them if i != 1 or time < 10.0]
