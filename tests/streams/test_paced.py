"""A pace is kept, in a time that only passes when somebody waits."""

import pickle
import threading

import pytest

from siag.foundations.errors import BadInput
from siag.streams import Follow, Paced, Stop, Stream, paced


class Clock(Stop):
    """Time that passes by waiting."""

    def __init__(self):
        super().__init__()
        self.now = 0.0

    def monotonic(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds
        return self.is_set()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(paced, "time", clock)
    return clock


def test_the_first_sample_comes_at_once_and_the_others_in_time(clock):
    times = [clock.now for _ in Paced(range(4), 0.5).samples(clock)]
    assert times == [0.0, 0.5, 1.0, 1.5]


def test_a_worker_slower_than_the_pace_does_not_wait_and_may_not_catch_up(clock):
    times = []
    for k in Paced(range(5), 1.0).samples(clock):
        times.append(clock.now)
        clock.now += 2.5 if k == 1 else 0.25
    assert times == [0.0, 1.0, 3.5, 4.5, 5.5]


def test_a_sample_is_taken_when_it_is_due(clock):
    taken = []

    def source():
        for k in range(3):
            taken.append(clock.now)
            yield k

    assert list(Paced(source(), 2.0).samples(clock)) == [0, 1, 2]
    assert taken == [0.0, 2.0, 4.0]


def test_a_wait_is_ended_from_another_thread():
    stop = Stop()
    samples = Paced(range(5), 1e300).samples(stop)
    assert next(samples) == 0
    thread = threading.Thread(target=stop.set)
    thread.start()
    assert list(samples) == []
    thread.join()


def test_the_stream_inside_is_stopped_and_closed_too():
    seen = []

    class Source(Stream[int]):
        def samples(self, stop):
            try:
                yield 1
                yield 2
            finally:
                seen.append(stop)

    stop = Stop()
    samples = Paced(Source(), 1e-6).samples(stop)
    next(samples)
    samples.close()
    assert seen == [stop]


def test_it_does_without_a_stop_as_well():
    assert list(Paced("abc", 1e-6)) == ["a", "b", "c"]


def test_it_goes_on_where_its_stream_does(clock, tmp_path):
    (tmp_path / "data").write_text("1\n2\n3\n")
    stream = Paced(Follow(tmp_path / "data", "lines", wait=False), 0.5)
    assert list(stream.after(2).samples(clock)) == ["3"]
    assert list(Paced([1, 2, 3], 0.5).after(2).samples(clock)) == [1, 2, 3]  # a list begins anew


def test_a_stream_can_be_pickled():
    assert list(pickle.loads(pickle.dumps(Paced([1, 2], 1e-6)))) == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (3, 1.0),
            "stream = 3: must be a stream, a function that makes one, or anything else a for loop can go through",
        ),
        (([], 0), "seconds = 0: must be a finite number above 0"),
        (([], float("inf")), "seconds = inf: must be a finite number above 0"),
    ],
)
def test_arguments_are_checked_at_once(arguments, message):
    with pytest.raises(BadInput) as caught:
        Paced(*arguments)
    assert str(caught.value) == message


def test_a_stop_is_set_with_its_parent_but_not_the_other_way():
    parent = Stop()
    child, other = Stop(parent), Stop(parent)
    child.set()
    assert (parent.is_set(), child.is_set(), other.is_set()) == (False, True, False)
    parent.set()
    assert other.wait(1000)
