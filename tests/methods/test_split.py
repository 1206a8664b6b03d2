"""Methods whose server can be split: slices of the state are, to the bit, the state of one server."""

import inspect
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siag import methods
from siag.foundations.errors import BadInput, Unsuitable
from siag.live.sharding.slices import bounds, check_split
from siag.methods import (
    ACE,
    ACED,
    EF21,
    IAG,
    LAG,
    MIFA,
    PIAG,
    SCAFFOLD,
    SGD,
    SIAG,
    STORM,
    AsyncSGD,
    Automatic,
    Averaged,
    Clipped,
    CurvatureIAG,
    DuDe,
    FedAsync,
    FedAvg,
    FedBuff,
    FedNova,
    FedProx,
    Method,
    Momentum,
    Prox,
    Rennala,
    Ringmaster,
    Yogi,
    answer,
    shown,
)
from siag.server.method_state import NOWHERE, arrays_of, fade_away, move, take

N = 3
LOCAL = {"steps": 2, "size": 0.1}
SPLIT = [
    SIAG(resum=1),
    SIAG(wait=0.5, rows="float32"),
    SIAG(average=3, resum=1),
    SIAG(average=2, rows="float32"),
    IAG(resum=2),
    DuDe(),
    ACE(),
    ACED(threshold=2, resum=1),
    ACED(threshold=3, wait=0.0, rows="float32"),
    MIFA(**LOCAL),
    PIAG(l1=0.1, low=-1.0),
    SGD(),
    SGD(normalization="sum"),
    AsyncSGD(adaptive=True),
    AsyncSGD(adaptive=True, threshold=2, drop=True),
    Rennala(batch=2),
    Ringmaster(threshold=2),
    FedAvg(**LOCAL),
    FedBuff(**LOCAL),
    FedNova(**LOCAL),
    FedProx(pull=0.1, **LOCAL),
    FedAsync(**LOCAL),
    Averaged(SIAG(), start=2),
    Prox(SGD(), l1=0.2, high=1.0),
    Averaged(Prox(SIAG(wait=0.5), l1=0.2)),
    STORM(),
    Prox(Momentum(SGD()), l1=0.2),
    Averaged(Yogi(MIFA(**LOCAL))),
]
WHOLE = [Automatic(), SCAFFOLD(**LOCAL), LAG(), CurvatureIAG(), Averaged(SCAFFOLD(**LOCAL)), Averaged(LAG())]
WHOLE += [EF21(k=2), Momentum(Clipped(SIAG(), norm=1.0))]

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["go", "hold", "move", "fade"]),
        st.integers(0, N - 1),
        st.integers(0, 9),
        st.floats(0.0, 1.0),
    ),
    max_size=25,
)


@pytest.mark.few(8)
@pytest.mark.parametrize("method", SPLIT, ids=repr)
@settings(max_examples=30)
@given(events=EVENTS, d=st.integers(N + 1, 40), shards=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_slices_are_to_the_bit_the_state_of_one_server(method, events, d, shards, seed):
    numbers = np.random.default_rng(seed)
    w0 = numbers.normal(size=d)
    cuts = [slice(*bounds(d, shards, k)) for k in range(shards)]
    whole, parts = method.init(w0, N), [method.init(w0[cut], N) for cut in cuts]
    for what, row, age, size in events:
        message = numbers.normal(size=d)
        for state, cut in [(whole, slice(None)), *zip(parts, cuts, strict=True)]:
            if what == "move":
                move.plain(state, size)
            elif what == "fade":
                fade_away.plain(state, row, size)
            else:
                take.plain(state, row, message[cut].copy(), age, int(what == "go"), size, NOWHERE)
        for read in (shown, answer):
            assert np.concatenate([read(state) for state in parts]).tobytes() == read(whole).tobytes()
    for name, array in arrays_of(whole).items():
        others = [arrays_of(state)[name] for state in parts]
        if array.shape[-1:] == (d,):
            assert np.concatenate(others, axis=-1).tobytes() == array.tobytes()
        else:
            assert all(np.array_equal(other, array) for other in others)


def test_all_methods_that_say_so_are_tried():
    kinds = [kind for _, kind in inspect.getmembers(methods, inspect.isclass) if issubclass(kind, Method)]
    assert {kind for kind in kinds if kind.split} <= {type(method) for method in SPLIT}
    assert not Method.split


@pytest.mark.parametrize("method", WHOLE, ids=repr)
def test_what_cannot_be_split_is_refused_in_one_line(method):
    with pytest.raises(Unsuitable, match=r"cannot be split over 2 shards; use shards=1, or SIAG") as refusal:
        check_split(method, np.zeros(5), N, 2)
    assert "\n" not in str(refusal.value)


class Boasting(SCAFFOLD):
    """Says it can be split, and shows twice as many numbers."""

    split = True


def test_a_method_with_other_lengths_is_refused_whatever_it_says():
    with pytest.raises(Unsuitable):
        check_split(Boasting(**LOCAL), np.zeros(5), N, 2)


def test_more_shards_than_coordinates_are_refused():
    check_split(SIAG(), np.zeros(3), N, 3)
    with pytest.raises(BadInput, match=r"shards.*4.*at most 3"):
        check_split(SIAG(), np.zeros(3), N, 4)


@given(d=st.integers(1, 10**9), shards=st.integers(1, 100))
def test_slices_cover_all_coordinates_and_differ_by_one_at_most(d, shards):
    ends = [bounds(d, shards, k) for k in range(shards)]
    assert ends[0][0] == 0
    assert ends[-1][1] == d
    assert all(before[1] == after[0] for before, after in pairwise(ends))
    sizes = {last - first for first, last in ends}
    assert max(sizes) - min(sizes) <= 1
