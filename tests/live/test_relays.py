"""Relays in virtual time: to the bit what a flat server does, trees, cuts, crashes of relays and of the root."""

import numpy as np
import pytest
from relayed import Town, numbers, whole

from siag.activity import EveryArrivals, Tick
from siag.live.relays.connections import AT_ONCE
from siag.methods import SIAG, Automatic
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
@pytest.mark.parametrize("method", [SIAG(), Automatic()], ids=["SIAG", "Automatic"])
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
