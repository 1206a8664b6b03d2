"""The store of a lead: whom it asks to save, whom it waits for, and when a save is common to all shards."""

import numpy as np
import pytest
from tests.specs import spec_of

from siag.live.sharding import ShardLost
from siag.live.sharding.lead import LeadStore
from siag.live.sharding.orders import GoBack, Save
from siag.live.sharding.slices import Shard
from siag.storage.background import Inline

NOTHING = np.empty(0, np.int64)


class FakeLink:
    """A follower that has saved what the test says."""

    def __init__(self, k):
        self.k, self.saved, self.known, self.waited = k, (0, None), ([], 0), []

    def wait_saved(self, number):
        self.waited.append(number)


class FakeLead:
    """A lead that notes what it orders; one of its followers may be lost."""

    def __init__(self, folder):
        self.shard, self.links = Shard(spec_of(folder=folder), 0, 3), [FakeLink(1), FakeLink(2)]
        self.orders, self.lost = [], False

    def order(self, order):
        self.orders.append(order)

    def flush(self):
        if self.lost:
            raise ShardLost("shard 2 is lost")


@pytest.fixture
def lead(tmp_path):
    return FakeLead(tmp_path)


@pytest.fixture
def store(lead, tmp_path):
    with LeadStore(tmp_path, lead, background=Inline()) as made:
        assert made.recover({"w": np.zeros(3)}) is None
        assert lead.orders.pop() == GoBack(0)
        yield made


def save(store, **given):
    return store.save({"w": np.zeros(3)}, NOTHING, {}, **given)


def test_a_save_is_common_when_all_shards_have_it_and_a_problem_is_named_until_then(lead, store):
    first, second = lead.links
    assert save(store)
    first.saved = (1, None)
    assert not save(store)  # one is still at it
    assert not store.ever
    second.saved = (1, "full")
    assert (store.problem, store.ever) == ("shard 2: full", False)
    assert save(store)  # all are asked again
    assert store.problem is not None
    first.saved = second.saved = (2, None)
    assert (store.problem, store.ever) == (None, True)
    assert save(store)
    assert lead.orders == [Save(1, 0), Save(2, 0), Save(3, 2)]


def test_a_shard_that_was_not_asked_because_another_is_lost_is_not_waited_for(lead, store):
    lead.lost = True
    for wait in (False, True):
        with pytest.raises(ShardLost):
            save(store, wait=wait)
    assert not store.ever
    assert lead.orders == [Save(1, 0), Save(2, 0)]
    assert all(set(link.waited) == {0} for link in lead.links)


def test_a_save_that_is_waited_for_says_whether_all_have_it(lead, store):
    lead.links[0].saved = lead.links[1].saved = (1, None)
    assert save(store, wait=True)
    lead.links[1].saved = (2, "it has nothing to save")
    lead.links[0].saved = (2, None)
    assert not save(store, wait=True)
