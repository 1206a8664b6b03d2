"""A source that is told when to go on, and what sees to it that no thread outlives its loop."""

import gc
import threading

import pytest

from siag.streams import Stream

LONG = 30.0  # seconds until a test that hangs gives up; none that passes waits for it


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "siag-buffered"]


@pytest.fixture(autouse=True)
def none_is_left():
    """Every test must leave its loop, and with it its threads."""
    assert threads() == []
    yield
    if threads():
        gc.collect()  # which takes long where much is in memory
    for thread in threads():
        thread.join(LONG)
    assert threads() == []


class Source(Stream[int]):
    """Counts up to `size`, then fails, waits or ends; tells how far it came, and waits for `go` in between."""

    def __init__(self, size, failure=None, endless=False):
        self.size, self.failure, self.endless = size, failure, endless
        self.come, self.closed = threading.Semaphore(0), threading.Event()
        self.given, self.go = 0, threading.Event()
        self.go.set()

    def samples(self, stop):
        try:
            for k in range(self.size):
                self.given += 1
                yield k
                self.come.release()  # the sample was taken
                self.go.wait(LONG)
            if self.failure is not None:
                raise self.failure
            if self.endless:
                stop.wait(1000.0)
        finally:
            self.closed.set()

    def await_taken(self, count):
        for _ in range(count):
            assert self.come.acquire(timeout=LONG)


class OddError(Exception):
    pass


def ends(source):
    assert source.closed.wait(LONG)
    for thread in threads():
        thread.join(LONG)
    return threads() == []
