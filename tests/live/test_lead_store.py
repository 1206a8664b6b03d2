"""The store of a lead: whom it asks to save, and whom it waits for."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.specs import spec_of

from siag.live.sharding import ShardLost
from siag.live.sharding.saves import LeadStore
from siag.live.sharding.slices import Shard
from siag.storage.background import Inline


def test_a_shard_that_was_not_asked_because_another_is_lost_is_not_waited_for(tmp_path):
    asked, waited = [], []

    def save(number, common):
        asked.append(number)
        raise ShardLost("shard 2 is lost")

    links = [SimpleNamespace(k=k, saved=(0, None), wait_saved=waited.append) for k in (1, 2)]
    server = SimpleNamespace(shard=Shard(spec_of(folder=tmp_path), 0, 3), links=links, save=save)
    with LeadStore(tmp_path, server, background=Inline()) as store:
        for wait in (False, True):
            with pytest.raises(ShardLost):
                store.save({"w": np.zeros(3)}, np.empty(0, np.int64), {}, wait=wait)
        assert not store.ever
    assert (asked, waited) == ([1, 2], [0, 0])
