"""Batches: none of the samples is lost, and where a worker goes on is exact, or said not to be."""

import pickle
import threading
from itertools import islice

import numpy as np
import pytest
from sources import LONG, OddError, Source, ends, none_is_left, threads  # noqa: F401  # a fixture for all

from siag.foundations.errors import BadInput
from siag.streams import Batched, Buffered, Follow, Paced, Stop, Stream
from siag.streams.remarks import heard_by
from siag.streams.repeated import read_again


def lines(path, count):
    path.write_text("".join(f"{k}\n" for k in range(count)))
    return Follow(path, "json", wait=False)


# ------------------------------------------------------------------------------------------ by number


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 25])
@pytest.mark.parametrize("size", [1, 2, 10, 1000])
@pytest.mark.parametrize("seconds", [None, 1000.0])
def test_batches_have_their_size_except_the_last_and_lose_nothing(count, size, seconds):
    batches = list(Batched(range(count), size, seconds))
    assert [x for batch in batches for x in batch] == list(range(count))
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(batches)


@pytest.mark.parametrize("seconds", [None, 1000.0])
def test_pairs_are_stacked(seconds):
    pairs = [(np.array([k, 1.0]), k % 2 == 0) for k in range(5)]
    (X, y), (rest, last) = Batched(pairs, 3, seconds)
    assert (X.tolist(), y.tolist()) == ([[0, 1], [1, 1], [2, 1]], [True, False, True])
    assert (rest.shape, last.shape) == ((2, 2), (2,))


def test_labels_may_be_texts_and_features_lists():
    ((X, y),) = Batched([([1, 2], "cat"), ([3, 4], "mouse")], 2)
    assert (X.tolist(), y.tolist()) == ([[1, 2], [3, 4]], ["cat", "mouse"])


@pytest.mark.parametrize(
    "samples", [[np.ones(2), np.ones(2)], [[1, 2], [3, 4]], [(1, 2), (3, 4, 5)], [({}, 1), ({}, 2)], ["ab", "cd"]]
)
def test_what_is_no_pair_of_numbers_stays_a_list(samples):
    (batch,) = Batched(samples, 2)
    assert batch is not samples
    assert all(found is given for found, given in zip(batch, samples, strict=True))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([([1, 2], 0), ([1], 0)], "x = ([1, 2], [1]): must be of one shape in all samples of a batch; "),
        ([([1], 0), ([1], "a")], "y = (0, 'a'): must be numbers or texts, not both, in a batch; "),
    ],
)
def test_pairs_that_cannot_be_stacked_are_refused(samples, message):
    with pytest.raises(BadInput) as caught:
        list(Batched(samples, 2))
    assert str(caught.value) == message + "pairs that are lists [x, y] stay as they are"


def test_an_error_of_the_stream_comes_before_a_batch_that_is_not_whole():
    """What was begun would count as a whole batch, and its rest would be passed over by a worker that comes again."""
    batches = iter(Batched(Source(5, OddError()), 2))
    assert [next(batches), next(batches)] == [[0, 1], [2, 3]]
    with pytest.raises(OddError):
        next(batches)


def test_a_batch_that_is_begun_when_it_is_stopped_is_not_given():
    stop = Stop()

    class Stopping(Stream[int]):
        def samples(self, inner):
            yield from range(3)
            inner.set()

    def plain():
        yield from range(3)
        stop.set()
        yield 3

    assert list(Batched(Stopping(), 2).samples(Stop())) == [[0, 1]]
    assert list(Batched(plain(), 2).samples(stop)) == [[0, 1]]


# ------------------------------------------------------------------------------------ by time, backlog


def test_the_backlog_is_all_that_has_come_since_the_last_batch():
    source = Source(8, endless=True)
    source.go.clear()
    batches = iter(Batched(source, 100, seconds=0))
    assert next(batches) == [0]
    source.go.set()
    source.await_taken(8)
    assert next(batches) == [1, 2, 3, 4, 5, 6, 7]
    batches.close()
    assert ends(source)


def test_a_backlog_has_a_limit_and_the_stream_waits_then():
    source = Source(10)
    batches = iter(Batched(source, 3, seconds=0))
    first = next(batches)
    source.await_taken(len(first) + 3)
    assert source.come.acquire(blocking=False) is False
    assert next(batches) == [len(first), len(first) + 1, len(first) + 2]
    assert [x for batch in batches for x in batch] == list(range(len(first) + 3, 10))


def test_a_batch_is_given_when_its_time_is_over_though_the_stream_waits():
    source = Source(1, endless=True)
    batches = iter(Batched(source, 100, seconds=1e-6))
    assert next(batches) == [0]
    batches.close()
    assert ends(source)


def test_a_full_batch_does_not_wait_for_its_time():
    source = Source(6, endless=True)
    batches = iter(Batched(source, 3, seconds=1e300))
    assert [next(batches), next(batches)] == [[0, 1, 2], [3, 4, 5]]
    batches.close()
    assert ends(source)


def test_what_came_before_an_error_is_given_before_it():
    source = Source(5, OddError())
    batches = iter(Batched(source, 100, seconds=1000.0))
    assert next(batches) == [0, 1, 2, 3, 4]
    with pytest.raises(OddError):
        next(batches)


def test_a_worker_that_waits_for_a_batch_is_woken_up_by_a_stop():
    source, stop = Source(1, endless=True), Stop()
    batches = Batched(source, 2, seconds=1000.0).samples(stop)
    helper = threading.Thread(target=lambda: (source.await_taken(1), stop.set()))
    helper.start()
    assert list(batches) == []
    helper.join(LONG)
    assert ends(source)


def test_no_thread_runs_before_the_first_batch_and_none_without_seconds():
    iter(Batched(Source(3), 2, seconds=0))
    batches = iter(Batched(Source(3), 2))
    assert next(batches) == [0, 1]
    assert threads() == []


# ---------------------------------------------------------------------------------------------- going on


@pytest.mark.parametrize("count", [20, 21, 25, 29])
@pytest.mark.parametrize("size", [1, 2, 10])
def test_after_any_number_of_batches_exactly_the_others_come(tmp_path, count, size):
    stream = Batched(lines(tmp_path / "data", count), size)
    whole = list(stream)
    for reported in range(len(whole) + 1):
        assert list(stream.after(reported)) == whole[reported:]
        assert list(stream.after(reported // 2).after(reported - reported // 2)) == whole[reported:]


def test_batches_of_batches_and_of_a_queue_go_on_too(tmp_path):
    inner = Batched(Buffered(lines(tmp_path / "data", 12), full="block"), 2)
    assert list(Batched(inner, 3).after(1)) == [[[6, 7], [8, 9], [10, 11]]]


@pytest.mark.parametrize("wrap", [list, lambda s: Buffered(s, full="block"), lambda s: Paced(s, 1e-6)])
@pytest.mark.parametrize("seconds", [None, 1000.0])
def test_a_stream_that_cannot_go_on_begins_anew(wrap, seconds):
    told = []
    with heard_by(told.append):
        assert list(Batched(wrap([0, 1, 2]), 2, seconds).after(1)) == [[0, 1], [2]]
    assert told == []


def test_by_time_nothing_is_lost_and_that_samples_come_again_is_told(tmp_path):
    told, stream = [], Batched(lines(tmp_path / "data", 10), 4, seconds=1000.0)
    with heard_by(told.append):
        assert list(stream.after(2)) == [[2, 3, 4, 5], [6, 7, 8, 9]]
    assert any("goes on after its first 2 samples" in line and "come again" in line for line in told)


# --------------------------------------------------------------------------- functions that make streams


def test_a_function_makes_the_stream_when_it_is_read_and_not_before():
    calls = []

    def numbers():
        calls.append(1)
        yield from range(5)

    for stream in (Batched(numbers, 2), Batched(numbers, 2, seconds=1000.0), Batched(Paced(numbers, 1e-6), 2)):
        calls.clear()
        assert list(stream) == list(stream) == [[0, 1], [2, 3], [4]]
        assert len(calls) == 2
    assert list(Buffered(numbers, full="block")) == list(range(5))
    assert calls == [1, 1, 1]


def test_what_a_function_makes_is_closed_with_the_loop():
    closed = []

    def numbers():
        try:
            yield from range(100)
        finally:
            closed.append(True)

    batches = iter(Batched(numbers, 2))
    assert next(batches) == [0, 1]
    batches.close()
    assert closed == [True]


def test_a_function_that_makes_no_stream_is_refused_with_what_it_made():
    with pytest.raises(BadInput, match=r"^stream = 3: must be something a for loop can go through; a function has ma"):
        list(Batched(lambda: 3, 2))


def test_workers_read_what_functions_make_as_they_read_it_alone(tmp_path):
    assert list(islice(read_again(Batched(lambda: [1, 2, 3], 3), 0, 7), 2)) == list(
        islice(read_again(Batched([1, 2, 3], 3), 0, 7), 2)
    )
    path = tmp_path / "data"
    lines(path, 5)
    follows = read_again(Batched(lambda: Follow(path, "json", wait=False), 2), 0, 7)
    assert list(follows.after(1)) == [[2, 3], [4]]


# ------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize("seconds", [None, 1000.0])
def test_it_can_be_pickled_and_read_elsewhere(tmp_path, seconds):
    stream = Batched(lines(tmp_path / "data", 3), 2, seconds)
    assert list(pickle.loads(pickle.dumps(stream))) == [[0, 1], [2]]
    assert repr(stream).endswith(f", size=2, seconds={seconds})")


SIZE = "say how many samples a batch has, at most: Batched(stream, 100, seconds=2.0)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 1), "stream = 3: must be a stream, a function that makes one, or anything else a for loop can go through"),
        (([], 0), "size = 0: must be a whole number of at least 1"),
        (([],), f"size is missing; {SIZE}"),
        (([], None, 0.05), f"size is missing; {SIZE}"),
        (([], 2, -1), "seconds = -1: must be a finite number at least 0; or leave it out"),
    ],
)
def test_arguments_are_checked_at_once(arguments, message):
    with pytest.raises(BadInput) as caught:
        Batched(*arguments)
    assert str(caught.value) == message
