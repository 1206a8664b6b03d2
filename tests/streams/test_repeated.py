"""Finite data read again and again: each pass a permutation, the order a function of seed, worker and pass."""

import pickle
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sources import none_is_left

from siag.foundations.errors import BadInput
from siag.streams import Batched, Buffered, Follow, Paced, Repeated, Stop
from siag.streams.repeated import mixed, read_again, repeated_within
from siag.streams.stream import Stream

__all__ = ["none_is_left"]
quick = settings(deadline=None, max_examples=60)


class Loop:
    """Data without numbers: only a loop, as often as one likes."""

    def __init__(self, size):
        self.size = size

    def __iter__(self):
        return iter(range(self.size))


def taken(stream, count):
    """The first samples of a stream."""
    samples = stream.samples(Stop())
    found = list(islice(samples, count))
    samples.close()
    return found


@quick
@given(size=st.integers(1, 12), seed=st.integers(0, 2**64 - 1), worker=st.integers(0, 999), passes=st.integers(1, 4))
def test_each_pass_is_all_data_in_another_order(size, seed, worker, passes):
    found = list(Repeated(list(range(size)), passes=passes).read_by(worker, seed))
    assert len(found) == size * passes
    for k in range(passes):
        assert sorted(found[k * size : (k + 1) * size]) == list(range(size))
    assert found == list(Repeated(np.arange(size), passes=passes).read_by(worker, seed))  # whatever holds the data


def test_the_order_is_that_of_a_seed_a_worker_and_a_pass():
    data = list(range(50))
    order = taken(Repeated(data).read_by(3, 7), 150)
    assert taken(Repeated(data).read_by(3, 7), 150) == order
    others = [taken(Repeated(data).read_by(*other), 50) for other in ((3, 8), (4, 7), (7, 3))]
    others += [order[50:100], order[100:], data]
    assert all(other != order[:50] for other in others)
    assert len({tuple(other) for other in others}) == len(others)


def test_the_order_stays_what_it_is():
    """Runs that go on, and those that are repeated, depend on it: by NumPy's generator of (seed, worker, pass)."""
    found = taken(Repeated(list("abcde")).read_by(2, 9), 10)
    orders = [np.random.default_rng([9, 2, k]).permutation(5) for k in range(2)]
    assert found == ["abcde"[k] for order in orders for k in order]


def test_a_seed_of_its_own_goes_before_the_runs():
    data = list(range(50))
    own = Repeated(data, seed=5)
    assert taken(own.read_by(1, 7), 50) == taken(own.read_by(1, 8), 50) == taken(Repeated(data).read_by(1, 5), 50)
    assert own.read_by(1, 7).seed == 5


def test_it_may_be_left_in_order():
    assert taken(Repeated([3, 1, 2], shuffle=False).read_by(1, 7), 7) == [3, 1, 2, 3, 1, 2, 3]


def test_data_without_numbers_are_read_in_their_own_order():
    assert taken(Repeated(Loop(3)).read_by(1, 7), 7) == [0, 1, 2, 0, 1, 2, 0]


@quick
@given(
    size=st.integers(1, 7),
    first=st.integers(0, 30),
    second=st.integers(0, 30),
    indexed=st.booleans(),
    passes=st.sampled_from([None, 1, 3]),
)
def test_after_some_samples_it_goes_on_exactly(size, first, second, indexed, passes):
    stream = Repeated(list(range(size)) if indexed else Loop(size), passes=passes).read_by(2, 3)
    whole = taken(stream, 80)
    later = stream.after(first).after(second)
    assert taken(later, 80 - first - second) == whole[first + second :]
    assert stream is not later


@pytest.mark.parametrize("data", [[1, 2, 3], Loop(3)], ids=["numbers", "no numbers"])
def test_passes_are_counted_when_they_are_complete(data):
    stream = Repeated(data).read_by(0, 1)
    samples = stream.samples(Stop())
    done = []
    for _ in range(8):
        next(samples)
        done.append(stream.done)
    assert done == [0, 0, 0, 1, 1, 1, 2, 2]
    samples.close()
    whole = Repeated(data, passes=2)
    assert len(list(whole)) == 6
    assert whole.done == 2


@pytest.mark.parametrize("data", [[1, 2, 3], Loop(3)], ids=["numbers", "no numbers"])
def test_passes_before_a_run_that_goes_on_are_counted_too(data):
    stream = Repeated(data).read_by(0, 1)
    later = stream.after(7)
    assert len(taken(later, 1)) == 1
    assert later.done == stream.done == 2  # the worker looks at either


def test_each_reader_counts_its_own():
    shared = Repeated([1, 2])
    one, two = shared.read_by(0, 1), shared.read_by(1, 1)
    taken(one, 5)
    assert (one.done, two.done, shared.done) == (2, 0, 0)


def test_a_stream_may_be_read_again_too(tmp_path):
    (tmp_path / "a.csv").write_text("1\n2\n")
    file = Follow(tmp_path / "a.csv", "lines", wait=False)
    stream = Repeated(file, shuffle=False, passes=2)
    assert list(stream) == ["1", "2", "1", "2"]
    assert stream.done == 2


def test_a_file_is_shuffled_anew_for_each_pass_and_gone_on_with_where_it_was(tmp_path):
    (tmp_path / "a.csv").write_text("".join(f"{k}\n" for k in range(50)))
    stream = Repeated(Follow(tmp_path / "a.csv", "lines", wait=False)).read_by(1, 7)
    whole = taken(stream, 150)
    passes = [whole[k : k + 50] for k in (0, 50, 100)]
    assert [sorted(map(int, each)) for each in passes] == [list(range(50))] * 3
    assert len({*map(tuple, passes)}) == 3
    assert taken(stream.after(70), 80) == whole[70:]


def test_of_a_long_stream_so_many_samples_are_in_memory():
    read = []
    source = (read.append(k) or k for k in range(1000))
    order = []
    for sample in mixed(source, np.random.default_rng(0), window=10):
        assert len(read) - len(order) <= 11
        order.append(sample)
    assert sorted(order) == list(range(1000))
    late = np.array(order) - np.arange(1000)  # a sample waits for ten others on average, and is never early by more
    assert late.max() <= 10
    assert 5 < np.abs(late).mean() < 20


def test_it_stops_when_it_is_told():
    stop, found = Stop(), []
    for sample in Repeated([1, 2, 3]).samples(stop):
        found.append(sample)
        if len(found) == 4:
            stop.set()
    assert len(found) == 4


def test_it_can_be_sent():
    stream = Repeated(list(range(9)), seed=3).after(4)
    again = pickle.loads(pickle.dumps(stream))
    assert taken(again, 20) == taken(stream, 20)


def test_data_that_turn_out_to_be_empty_do_not_loop_for_ever():
    with pytest.raises(BadInput, match="must be data with at least one sample"):
        next(Repeated(Loop(0)).samples(Stop()))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"data": iter([1])}, "data = .*must be data that can be read again; put what it gives into a list"),
        ({"data": "abc"}, "data = 'abc': must be data that can be read again"),
        ({"data": 5}, "data = 5: must be data that can be read again"),
        ({"data": [1], "passes": 0}, "passes = 0"),
        ({"data": [1], "shuffle": "yes"}, "shuffle = 'yes'"),
        ({"data": [1], "seed": -1}, "seed = -1"),
    ],
)
def test_what_makes_no_sense_is_refused(given, words):
    with pytest.raises(BadInput, match=f"^{words}"):
        Repeated(**given)


# As workers read ------------------------------------------------------------------------------------------------------


def test_workers_read_data_again_and_streams_once(tmp_path):
    once = [iter([1]), (x for x in [1]), Follow(tmp_path / "a.csv")]
    assert [read_again(stream, 1, 7) for stream in once] == once
    data = list(range(6))
    assert taken(read_again(data, 1, 7), 12) == taken(Repeated(data).read_by(1, 7), 12)
    plain = read_again(Repeated(data, shuffle=False), 1, 7)
    assert taken(plain, 12) == data * 2


@pytest.mark.parametrize(
    "around",
    [
        lambda data: Paced(data, 1e-6),
        lambda data: Buffered(data, 3, full="block"),
        lambda data: Paced(Buffered(data, full="block"), 1e-6),
    ],
    ids=["paced", "buffered", "both"],
)
def test_data_within_other_streams_are_read_again_too(around):
    data = list(range(4))
    whole = taken(Repeated(data).read_by(1, 7), 12)
    given = around(data)
    stream = read_again(given, 1, 7)
    assert taken(stream, 12) == whole
    assert taken(stream.after(5), 7) == whole[5:]
    assert repeated_within(stream).done >= 2
    assert list(given) == data  # what was given is as it was


def test_batches_go_over_the_end_of_a_pass():
    data = list(range(4))
    whole = taken(Repeated(data).read_by(1, 7), 12)
    stream = read_again(Batched(data, 3), 1, 7)
    batches = [whole[k : k + 3] for k in range(0, 12, 3)]
    assert taken(stream, 4) == batches
    assert taken(stream.after(2), 2) == batches[2:]
    paced = read_again(Paced(Batched(data, 3), 1e-6), 1, 7)
    assert taken(paced, 4) == batches
    assert repeated_within(paced).done == 2


def test_batches_of_pairs_of_arrays_are_pairs_of_arrays():
    X, y = taken(read_again(Batched((np.eye(4), np.arange(4)), 2), 0, 1), 1)[0]
    assert np.array_equal(X, np.eye(4)[y])


def test_what_holds_no_data_has_none(tmp_path):
    for stream in (iter([1]), Follow(tmp_path / "a.csv"), Batched(Follow(tmp_path / "a.csv"), 2), 5):
        assert repeated_within(stream) is None
    assert isinstance(repeated_within(read_again(Batched([1], 2), 0, 0)), Stream)


@pytest.mark.parametrize(
    ("wrap", "part"),
    [
        (lambda X: X, lambda sample: sample),
        (list, lambda sample: sample),
        (lambda X: (X, np.ones(len(X))), lambda sample: sample[0]),
        (lambda X: [(x, 1.0) for x in X], lambda sample: sample[0]),
        (lambda X: [{"x": x, "y": 1.0} for x in X], lambda sample: sample["x"]),
        (lambda X: [[x, 1.0] for x in X], lambda sample: sample[0]),
        (lambda X: [({"views": [x]}, 1.0) for x in X], lambda sample: sample[0]["views"][0]),
    ],
)
def test_samples_that_are_read_again_cannot_be_written_to_and_the_data_can(wrap, part):
    X = np.ones((3, 2))
    for sample in Repeated(wrap(X), passes=2):
        x = part(sample)
        with pytest.raises(ValueError, match="read-only"):
            x -= 1.0
    X -= 1.0
    assert not X.any()


def test_what_a_gradient_puts_into_a_sample_is_not_read_again():
    data = [{"x": 1.0}, [1.0, 2.0]]
    for sample in Repeated(data, shuffle=False, passes=2):
        assert sample in data
        sample.clear()
    assert data == [{"x": 1.0}, [1.0, 2.0]]
