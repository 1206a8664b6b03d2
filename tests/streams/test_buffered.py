"""Between a fast source and a slow worker nothing is lost unawares, and no thread outlives its loop."""

import gc
import itertools
import os
import pickle
import subprocess
import sys
import threading

import pytest
from sources import LONG, OddError, Source, ends, none_is_left, threads  # noqa: F401  # a fixture for all

from refusals import refused
from siag.foundations.errors import BadInput
from siag.streams import Buffered, Follow, Paced, Stop

# -------------------------------------------------------------------------------------------- policies


@pytest.mark.parametrize("capacity", [1, 2, 3, 1000])
def test_a_source_that_is_blocked_loses_nothing(capacity):
    stream = Buffered(range(2000), capacity=capacity, full="block")
    assert list(stream) == list(range(2000))
    assert stream.dropped == 0


@pytest.mark.parametrize("capacity", [1, 2, 3, 1000])
def test_what_is_not_dropped_comes_in_order_and_the_rest_is_counted(capacity):
    stream = Buffered(range(2000), capacity=capacity)
    samples = list(stream)
    assert samples == sorted(set(samples))
    assert samples[-1] == 1999
    assert len(samples) + stream.dropped == 2000


def test_a_full_queue_drops_its_oldest():
    source = Source(10, endless=True)
    source.go.clear()
    stream = Buffered(source, capacity=3)
    samples = iter(stream)
    assert next(samples) == 0
    source.go.set()
    source.await_taken(10)
    assert [next(samples) for _ in range(3)] == [7, 8, 9]
    assert stream.dropped == 6
    samples.close()


def test_a_full_queue_lets_the_source_wait():
    source = Source(10)
    samples = iter(Buffered(source, capacity=3, full="block"))
    assert next(samples) == 0
    source.await_taken(4)  # the one that was asked for and the three that there is room for
    assert source.come.acquire(blocking=False) is False
    assert source.given <= 5
    assert list(samples) == list(range(1, 10))


def test_the_source_reads_on_while_the_worker_computes():
    source = Source(5)
    samples = iter(Buffered(source, capacity=10))
    assert next(samples) == 0
    assert source.closed.wait(LONG)  # nobody has asked for more
    assert list(samples) == [1, 2, 3, 4]


def test_an_empty_stream_is_empty():
    assert list(Buffered([])) == []


def test_counts_go_on_over_several_loops():
    stream = Buffered(range(100), capacity=1)
    got = len(list(stream)) + len(list(stream))
    assert got + stream.dropped == 200


# ------------------------------------------------------------------------------------------ exceptions


@pytest.mark.parametrize("full", ["drop oldest", "block"])
def test_an_exception_comes_in_its_place_after_what_was_read_before(full):
    failure = OddError("odd")
    source = Source(3, failure)
    samples = iter(Buffered(source, capacity=3, full=full))
    got = [next(samples) for _ in range(3)]
    with pytest.raises(OddError) as caught:
        next(samples)
    assert got == [0, 1, 2]
    assert caught.value is failure
    assert "samples" in [entry.name for entry in caught.traceback]  # where the source raised it
    assert list(samples) == []


def test_an_exception_is_not_dropped():
    source = Source(10, OddError())
    samples = iter(Buffered(source, capacity=1))
    next(samples)
    assert source.closed.wait(LONG)
    with pytest.raises(OddError):
        list(samples)


def test_a_stream_that_cannot_even_start_is_an_exception_too(tmp_path):
    with refused("path"):
        list(Buffered(Follow(tmp_path / "missing", wait=False)))


def test_even_an_exit_in_the_thread_reaches_the_worker():
    with pytest.raises(SystemExit):
        list(Buffered(Source(0, SystemExit())))


# ------------------------------------------------------------------------------------------------- end


def test_no_thread_runs_before_the_first_sample_is_asked_for():
    samples = iter(Buffered(Source(3)))
    assert threads() == []
    samples.close()


def test_the_thread_is_a_daemon_and_ends_with_its_stream():
    source = Source(3, endless=True)
    samples = iter(Buffered(source))
    next(samples)
    (thread,) = threads()
    assert thread.daemon
    samples.close()
    assert ends(source)


@pytest.mark.parametrize("full", ["drop oldest", "block"])
@pytest.mark.parametrize("size", [1, 100])
def test_closing_the_loop_ends_a_thread_that_waits(full, size):
    """For data, or for room."""
    source = Source(size, endless=True)
    samples = iter(Buffered(source, capacity=2, full=full))
    next(samples)
    source.await_taken(min(size, 3))
    samples.close()
    assert ends(source)


def test_leaving_the_loop_ends_the_thread():
    source = Source(10, endless=True)
    for _ in Buffered(source, capacity=2, full="block"):
        break
    assert ends(source)


def test_garbage_collection_ends_the_thread():
    source = Source(10, endless=True)
    samples = iter(Buffered(source, capacity=2))
    next(samples)
    cycle = [samples]
    cycle.append(cycle)
    del samples, cycle
    gc.collect()
    assert ends(source)


def test_an_exception_of_the_worker_ends_the_thread():
    source = Source(10, endless=True)

    def work():
        for _ in Buffered(source, capacity=2, full="block"):
            raise OddError

    with pytest.raises(OddError):
        work()
    assert ends(source)


def test_an_iterable_that_is_no_stream_ends_at_its_next_sample():
    asked, go = threading.Event(), threading.Event()

    def source():
        yield 1
        asked.set()
        go.wait(LONG)
        yield 2

    samples = iter(Buffered(source()))
    assert next(samples) == 1
    assert asked.wait(LONG)
    samples.close()
    (thread,) = threads()
    go.set()
    thread.join(LONG)
    assert not thread.is_alive()


def test_a_followed_file_is_let_go_of(tmp_path):
    path = tmp_path / "data"
    path.write_text("1\n2\n")
    samples = iter(Buffered(Follow(path, "lines", poll=1000.0)))
    assert [next(samples), next(samples)] == ["1", "2"]
    (thread,) = threads()
    samples.close()
    thread.join(LONG)
    assert not thread.is_alive()


@pytest.mark.parametrize("wrap", [lambda s: s, Buffered, lambda s: Paced(s, 1e-6), lambda s: Buffered(Buffered(s))])
def test_streams_around_streams_end_together(wrap):
    source = Source(5, endless=True)
    samples = iter(Buffered(wrap(source)))
    assert [next(samples) for _ in range(5)] == [0, 1, 2, 3, 4]
    samples.close()
    assert ends(source)


def test_a_worker_that_waits_is_woken_up_by_a_stop():
    source, stop = Source(1, endless=True), Stop()
    samples = Buffered(source).samples(stop)
    assert next(samples) == 0
    helper = threading.Thread(target=stop.set)
    helper.start()
    assert list(samples) == []
    helper.join()
    assert ends(source)


def test_a_program_may_end_in_the_middle_of_a_loop():
    """At its end Python freezes daemon threads, and one may hold the very lock that closing the loop asks for."""
    program = """
import itertools, threading
from siag.streams import Buffered

samples = iter(Buffered(itertools.count(), capacity=5))
next(samples)
thread = threading.Thread(target=samples.gi_frame.f_locals["queue"].changed.acquire)  # never to be released
thread.start()
thread.join()
"""
    subprocess.run([sys.executable, "-c", program], timeout=LONG, check=True, env=os.environ)


# ------------------------------------------------------------------------------------------- arguments


def test_a_stream_can_be_pickled_and_read_elsewhere(tmp_path):
    path = tmp_path / "data"
    path.write_text("1\n2\n")
    stream = Buffered(Paced(Follow(path, "lines", wait=False), 1e-6), capacity=7, full="block")
    assert list(pickle.loads(pickle.dumps(stream))) == ["1", "2"]
    assert list(pickle.loads(pickle.dumps(stream))) == ["1", "2"]


@pytest.mark.parametrize("full", ["block", "drop oldest"])
def test_it_goes_on_where_its_stream_does(tmp_path, full):
    (tmp_path / "data").write_text("1\n2\n3\n")
    stream = Buffered(Follow(tmp_path / "data", "lines", wait=False), 5, full)
    assert list(stream.after(2)) == ["3"]
    assert (stream.after(2).capacity, stream.after(2).full) == (5, full)
    assert list(Buffered([1, 2, 3], 5, full).after(2)) == [1, 2, 3]  # a list begins anew


def test_a_generator_that_was_handed_in_stays_open():
    numbers = itertools.count()
    generator = (k for k in numbers)
    samples = iter(Paced(generator, 1e-6))
    assert next(samples) == 0
    samples.close()
    assert next(generator) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"stream": 3},
            "stream = 3: must be a stream, a function that makes one, or anything else a for loop can go through",
        ),
        ({"capacity": 0}, "capacity = 0: must be a whole number of at least 1"),
        ({"capacity": 2.5}, "capacity = 2.5: must be a whole number of at least 1"),
        ({"full": "drop newest"}, "full = 'drop newest': must be one of 'drop oldest', 'block'"),
    ],
)
def test_arguments_are_checked_at_once(arguments, message):
    with pytest.raises(BadInput) as caught:
        Buffered(**({"stream": []} | arguments))
    assert str(caught.value) == message
