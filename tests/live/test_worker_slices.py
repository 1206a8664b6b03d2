"""A worker's side of a model that is split, as a state machine: who is sent what, and when the worker hears of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siag.live.protocol import wire
from siag.live.sharding.slices import slice_of
from siag.live.sharding.worker_slices import Slices

HELLO = wire.text(wire.HELLO, {})


def head(kind, stamp=0, length=0):
    return wire.Head(length, kind, stamp, 0)


def welcome(slices, k):
    return slices.came(k, head(wire.WELCOME), {"shard": k})


def greeted(shards=3):
    """A worker that all servers have welcomed."""
    slices = Slices(shards, 5)
    list(slices.cut(HELLO, None))
    for k in (*range(1, shards), 0):
        welcome(slices, k)
    return slices


@given(st.integers(2, 5), st.data())
def test_the_lead_is_greeted_when_all_followers_have_welcomed_in_any_order(shards, data):
    slices, d = Slices(shards, 5), shards + 2
    assert list(slices.cut(HELLO, None)) == [(k, HELLO, None) for k in range(1, shards)]
    order = data.draw(st.permutations(range(1, shards)))
    for k in order:
        assert slices.awaited == sorted({*order} - {*order[: order.index(k)]})
        assert welcome(slices, k) == (False, HELLO if k == order[-1] else b"")
    assert slices.awaited == [0]
    assert welcome(slices, 0) == (True, b"")
    assert list(slices.cut(wire.head(wire.SKIP), None)) == [(0, wire.head(wire.SKIP), None)]
    array, whole = np.arange(float(d)), np.empty(d)
    for k, raw, part in slices.cut(wire.head(wire.REPORT, 8 * d, 3, 4, 0.5), array):
        assert wire.parse_head(raw, {wire.REPORT: (8 * part.size, 8 * part.size)})[2:] == (3, 4, 0.5)
        slice_of(whole, shards, k)[:] = part
    assert np.array_equal(whole, array)
    assert k == 0  # the lead decides, so it has its slice last
    expected = {wire.MODEL: (8 * d, 8 * d)}
    assert sum(slices.expected(k, expected)[wire.MODEL][0] for k in range(shards)) == 8 * d


@given(st.permutations(range(3)), st.permutations(range(3)))
def test_a_model_is_told_when_all_slices_of_one_version_are_there(first, second):
    slices = greeted()
    for version, order in ((8, first), (9, second)):
        for k in order:
            found = slices.came(k, head(wire.MODEL, version), {})
            assert found == (k == order[-1], b"")


def test_what_the_lead_says_is_passed_on_at_once():
    slices = greeted()
    slices.came(2, head(wire.MODEL, 4), {})  # a slice may be early
    for kind in (wire.REFUSAL, wire.GOODBYE):
        assert slices.came(0, head(kind), {"a": 1}) == (True, b"")
    assert slices.awaited == [0, 1]


def test_a_followers_refusal_is_the_answer_to_a_hello_and_later_only_a_final_one():
    slices, no, never = Slices(2, 5), {"reason": "busy", "final": False}, {"reason": "no", "final": True}
    list(slices.cut(HELLO, None))
    assert slices.came(1, head(wire.REFUSAL), no) == (True, b"")
    slices = greeted()
    assert slices.came(1, head(wire.REFUSAL), never) == (True, b"")
    with pytest.raises(wire.BadFrame, match="shard 1: busy"):
        slices.came(1, head(wire.REFUSAL), no)


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(wire.BadFrame, match="shard 2: it is another one"):
        Slices(3, 5).came(2, head(wire.WELCOME), {"shard": 1})
    slices = greeted()
    slices.came(1, head(wire.MODEL, 3), {})
    with pytest.raises(wire.BadFrame, match="two models"):
        slices.came(1, head(wire.MODEL, 3), {})
    with pytest.raises(wire.BadFrame, match="versions 3 and 4"):
        slices.came(0, head(wire.MODEL, 4), {})
