"""Relays in virtual time: to the bit what a flat server does, trees, cuts, crashes of relays and of the root."""

import numpy as np
import pytest
from relayed import Town, numbers, whole

from siag.activity import EveryArrivals, Tick
from siag.live.protocol.welcome import Dismissed, described
from siag.live.reasons import Ending
from siag.live.relays.connections import AT_ONCE
from siag.live.relays.root import inner_of
from siag.live.until import Until
from siag.methods import MIFA, SIAG, Automatic, Averaged, Weighted
from siag.server.guard import Refused
from siag.server.sums import weights_of


def flat(n, gradient=whole, seconds=60.0, **given):
    town = Town(n, **given)
    root = town.rooted([f"{row}" for row in range(n)])
    for row in range(n):
        town.work(row, root, f"{row}", gradient, numbers(row))
    return town.run(seconds)


def relayed(n, size, gradient=whole, seconds=60.0, pace=AT_ONCE, **given):
    """n workers behind relays of so many members each."""
    town = Town(n, **given)
    root = town.rooted([f"r{k}" for k in range(n // size)])
    relays = [town.relay(root, [f"{j}" for j in range(size)], f"r{k}", pace=pace) for k in range(n // size)]
    for row in range(n):
        town.work(row, relays[row // size], f"{row % size}", gradient, numbers(row))
    return town.run(seconds)


def own(w, x):
    """A gradient of any numbers."""
    return 0.1 * (w - 0.3 * x)


@pytest.mark.parametrize("gradient", [whole, own])
@pytest.mark.parametrize("method", [SIAG(), SIAG(wait=1.0), Automatic(), MIFA(steps=3, size=0.1, fall=50.0)], ids=repr)
def test_relays_of_one_member_are_to_the_bit_a_flat_server(gradient, method):
    one, other = flat(4, gradient, method=method), relayed(4, 1, gradient, method=method)
    assert other.root.server.version == one.root.server.version > 100
    assert np.array_equal(other.root.server.w, one.root.server.w)
    assert other.root.server.roster.counted_ages == one.root.server.roster.counted_ages


@pytest.mark.parametrize("size", [2, 4, 8])
def test_where_sums_are_exact_relays_of_many_are_so_too(size):
    one, other = flat(8), relayed(8, size)
    assert other.root.server.version == one.root.server.version > 300
    assert np.array_equal(other.root.server.w, one.root.server.w)
    assert weights_of(other.root.server.state).tolist() == [float(size)] * (8 // size)


def test_a_tree_of_relays_is_so_too():
    one, town = flat(8), Town(8)
    root = town.rooted(["left", "right"])
    for k, side in enumerate(("left", "right")):
        upper = town.relay(root, ["a", "b"], side)
        for i, name in enumerate("ab"):
            lower = town.relay(upper, ["0", "1"], name)
            for j in range(2):
                row = 4 * k + 2 * i + j
                town.work(row, lower, f"{j}", whole, numbers(row))
    town.run(60.0)
    assert weights_of(town.root.server.state).tolist() == [4.0, 4.0]
    assert town.root.server.version == one.root.server.version
    assert np.array_equal(town.root.server.w, one.root.server.w)


@pytest.mark.parametrize("pace", [EveryArrivals(8), Tick(1.0)], ids=repr)
def test_a_relay_of_its_own_pace_sends_less_and_leads_to_the_same_place(pace):
    one, other = (flat(8, own, 400.0), relayed(8, 4, own, 400.0, pace))
    assert other.root.server.reports < one.root.server.reports / 3
    assert np.abs(other.root.server.w - one.root.server.w).max() < 0.5
    assert other.root.server.members[0].aged / other.root.server.members[0].reports > 0.5


# What goes wrong


def pull(w, x):
    """The gradient of half the squared distance from x."""
    return w - x


def constant(value, count=10_000):
    return iter([np.full(2, value)] * count)


def town_of(values, size, *, pace=AT_ONCE, counts=None, **given):
    """Workers whose samples are always the same, so that w goes to the mean of all."""
    town = Town(len(values), step=0.1, **given)
    root = town.rooted([f"r{k}" for k in range(len(values) // size)])
    for k in range(root.server.n):
        town.relay(root, [f"{j}" for j in range(size)], f"r{k}", pace=pace)
    for row, value in enumerate(values):
        stream = constant(value, 10_000 if counts is None else counts[row])
        town.work(row, town.relays[row // size], f"{row % size}", pull, stream)
    return town


VALUES = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 11.0]


def test_while_a_relay_is_cut_off_its_members_go_on_and_it_sends_its_last_sum_when_it_is_back():
    town = town_of(VALUES, 4)
    relay, root = town.relays[0], town.root
    town.delay = lambda: 0.1  # so that members wait for the root when it is cut off
    town.run(20.0)
    root.open = False
    before = relay.session.server.reports
    relay.host.cut()
    told = root.server.members[0].reports
    town.run(10.0)
    assert relay.session.server.reports > before + 20
    assert root.server.members[0].reports == told
    root.open = True
    town.run(150.0)
    assert root.server.members[0].reports > told + 20
    assert np.allclose(root.server.w, np.mean(VALUES), atol=0.05)


@pytest.mark.parametrize("pace", [AT_ONCE, Tick(0.5)], ids=repr)
def test_a_relay_that_is_killed_costs_staleness_and_nothing_else(pace):
    town = town_of(VALUES, 4, pace=pace)
    town.run(30.0)
    relay, server = town.relays[0], town.root.server
    told, row = server.members[0].reports, server.state.rows[0].copy()
    relay.end_life(power=False, down=10.0)
    town.run(9.0)
    assert server.members[0].reports == told
    assert np.array_equal(server.state.rows[0], row)
    assert weights_of(server.state).tolist() == [4.0, 4.0]
    assert np.allclose(server.w, np.mean(VALUES), atol=1.0)  # of the mean of an old and a new gradient
    town.run(80.0)
    assert server.members[0].reports > told + 20
    assert server.members[0].refused == 0
    assert weights_of(server.state).tolist() == [4.0, 4.0]
    assert np.allclose(server.w, np.mean(VALUES), atol=0.05)


def test_members_that_do_not_come_back_to_a_relay_that_was_killed_count_for_nothing():
    town = town_of(VALUES, 4)
    town.run(30.0)
    town.members[3]._open = lambda client: None
    town.relays[0].end_life(power=False, down=1.0)
    town.run(5.0)
    assert weights_of(town.root.server.state).tolist() == [4.0, 4.0]  # it still waits for all
    town.run(80.0)
    assert weights_of(town.root.server.state).tolist() == [3.0, 4.0]
    assert np.allclose(town.root.server.w, np.mean([0.0, 1.0, 2.0, 4.0, 5.0, 6.0, 11.0]), atol=0.05)


def test_a_member_that_leaves_takes_its_weight_with_it_and_when_all_have_left_so_does_the_relay():
    town = town_of(VALUES, 4, counts=[20, 10_000, 10_000, 10_000, 20, 20, 20, 20])
    town.run(120.0)
    server = town.root.server
    assert weights_of(server.state)[0] == 3.0
    assert town.relays[1].ended is Ending.ALL_LEFT


def test_after_a_crash_of_the_root_members_read_anew_what_a_version_means():
    town = town_of(VALUES, 4)
    town.run(20.0)
    before = town.root.server.version
    town.crash_root(down=2.0)
    town.run(3.0)
    assert town.root.server.version < before
    town.run(80.0)
    assert town.root.server.members[0].refused == town.root.server.members[1].refused == 0
    assert all(member.refused == 0 for relay in town.relays for member in relay.session.server.members)
    assert np.allclose(town.root.server.w, np.mean(VALUES), atol=0.05)


def test_a_root_that_comes_back_with_another_method_has_no_use_for_the_relay():
    town = town_of(VALUES, 4)
    town.run(20.0)
    town.given["method"] = MIFA(steps=2, size=0.1)
    town.crash_root(down=2.0)
    with pytest.raises(Dismissed, match=r"another than before: MIFA\(.*, not SIAG\(.*start the relay again"):
        town.run(10.0)


def test_when_the_root_is_done_so_are_relays_and_members():
    town = town_of(VALUES, 4, until=Until(iterations=50))
    town.run(60.0)
    for relay in town.relays:
        assert relay.ended is Ending.ROOT_DONE


def test_a_worker_of_a_problem_is_refused_by_a_relay():
    town = town_of(VALUES, 4)
    town.run(1.0)
    with pytest.raises(Refused, match="which of a problem's workers"):
        town.relays[0].connections._compare({"problem": "LeastSquares()", "seed": 0})


def test_a_rows_weights_are_none_of_the_members_business():
    method = Weighted(SIAG(), [1.0, 1.0])
    assert inner_of(described(Averaged(method))) == described(Averaged(SIAG()))


@pytest.mark.parametrize("messages", ["float32", "int8"])
def test_messages_may_be_short(messages):
    town = town_of(VALUES, 4, messages=messages)
    town.run(100.0)
    assert town.relays[0].connections.encoding.name == messages
    assert np.allclose(town.root.server.w, np.mean(VALUES), atol=0.2)
