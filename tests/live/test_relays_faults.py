"""Relays under faults that a seed decides, in virtual time: cuts, crashes of relays, of the root and of members.

The last number of each member's gradient is 1, so that of a sum it says how many members are in it: that must never be
more than the weight it came with, and must be the same once all were heard.
"""

import random

import numpy as np
import pytest
from relayed import Town

from siag.activity import EveryArrivals, Tick
from siag.server.sums import weights_of

SIZE, RELAYS = 3, 3
PACES = [EveryArrivals(1), EveryArrivals(3), Tick(0.4)]


def counted(w, x):
    """w − x, and 1."""
    return np.append(w[:-1] - x, 1.0)


def stream(value):
    while True:
        yield np.full(2, value)


class Faulty(Town):
    """A town in which things go wrong for a while."""

    def __init__(self, seed):
        super().__init__(SIZE * RELAYS, d=3, step=0.1, seed=seed)
        self.rng = random.Random(seed)
        root = self.rooted([f"r{k}" for k in range(RELAYS)])
        pace = PACES[seed % len(PACES)]
        self.relays = [self.relay(root, [f"{j}" for j in range(SIZE)], f"r{k}", pace=pace) for k in range(RELAYS)]
        for row in range(self.n):
            self.work(row, self.relays[row // SIZE], f"{row % SIZE}", counted, stream(float(row)))
        self.crashes = 0

    def fault(self):
        """One thing goes wrong."""
        relay = self.rng.choice(self.relays)
        what = self.rng.randrange(4)
        if what == 0:
            relay.cut()
        elif what == 1 and relay.connections is not None:
            relay.crash(down=self.rng.expovariate(0.3))
        elif what == 2:
            self.rng.choice(self.members).cut()
        elif what == 3 and self.root.connections is not None and self.rng.random() < 0.3:
            self.crash_root(down=self.rng.expovariate(0.5))
            self.crashes += 1

    def check(self):
        """What must hold at any time."""
        table = self.root.server.state
        weights = weights_of(table)
        assert np.abs(table.rows.sum(axis=0) - table.total).max() < 1e-9 * (1.0 + np.abs(table.rows).max())
        for row, weight, seen in zip(table.rows, weights, table.seen, strict=True):
            assert row[-1] == round(row[-1])
            assert 0 <= row[-1] <= weight <= SIZE
            assert not seen or weight > 0
        for relay in self.relays:
            if relay.connections is not None:
                rows = relay.session.server.rows
                assert np.abs(rows.rows.sum(axis=0) - rows.total).max() < 1e-9 * (1.0 + np.abs(rows.rows).max())


@pytest.mark.few(6)
@pytest.mark.parametrize("seed", range(40))
def test_whatever_goes_wrong_a_sum_has_as_many_members_as_it_counts_for_and_the_model_comes_right(seed):
    town = Faulty(seed)
    for _ in range(40):
        town.run(town.rng.expovariate(0.5))
        town.fault()
        town.check()
    for _ in range(20):
        town.run(20.0)
        town.check()
    table = town.root.server.state
    assert weights_of(table).tolist() == [SIZE] * RELAYS
    assert table.rows[:, -1].tolist() == [SIZE] * RELAYS
    assert np.allclose(town.root.server.w[:-1], np.mean(range(town.n)), atol=0.05)
