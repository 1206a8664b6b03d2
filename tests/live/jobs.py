"""What workers of the tests do: gradients and streams a worker process can import, and watchers that act meanwhile.

Pytest puts this folder on `sys.path`, and worker processes get the `sys.path` of the process that starts them.
"""

import math
import multiprocessing
import os
import signal
import time

import numpy as np

from siag.live.task import UNKNOWN
from siag.streams.remarks import say

KILLED = "killed by SIGKILL"  # the reason that is told of a process
SPACING = 0.002  # seconds between two samples of streams that are to last


def pull(w, sample):
    """Of ½‖w − sample‖²."""
    return w - sample


def priced(w, sample):
    """With a loss that tells which sample it was."""
    return sample, w - sample


def priced_of_ones(w, sample):
    """The same, whatever the sample is."""
    return sample, w - 1.0


def fragile(w, sample):
    if sample == "bad":
        raise KeyError("no such\nreading")
    return w - float(sample)


def nan_below_zero(w, sample):
    return np.full(w.size, math.nan) if sample < 0 else w - sample


def matrix_gradient(w, sample):
    return np.zeros((w.size, 2))


def nothing(w, sample):
    return None


def letters(w, sample):
    return ["1"] * w.size


def imaginary(w, sample):
    return np.full(w.size, 1j)


def whole_column(w, sample):
    return [[int(x)] for x in w]


def overwriting(w, sample):
    w -= sample
    return w


def always_inf(w, sample):
    return np.full(w.size, math.inf)


def outward(w, sample):
    return -100.0 * w - 1.0


def leaving(w, sample):
    os._exit(7)


def once(stream):
    """A list to be read once, rather than again and again; all else, and what is empty, as it is."""
    return iter(stream) if isinstance(stream, list | tuple) and stream else stream


def numbers(count, value=1.0):
    for _ in range(count):
        yield float(value)


def until_there(path, value=1.0):
    """Samples until a file is there."""
    while not os.path.exists(path):
        yield float(value)
        time.sleep(SPACING)


def endless(value=1.0):
    """Samples without end, a few hundred a second."""
    while True:
        yield float(value)
        time.sleep(SPACING)


def once_there(path, value=1.0):
    """Samples without end, as soon as a file is there."""
    while not os.path.exists(path):
        time.sleep(SPACING)
    yield from endless(value)


def tallied(path, value=1.0):
    """Samples without end; how many were drawn is in a file, even if everybody is killed."""
    with open(path, "ab", buffering=0) as tally:
        while True:
            tally.write(b".")
            yield float(value)


def breaking(count):
    yield from numbers(count)
    raise OSError(5, "the sensor is unplugged")


def late(seconds):
    """Samples without end, the first of which takes its time."""
    time.sleep(seconds)
    while True:
        yield 1.0


def waiting():
    """A stream whose next sample never comes."""
    yield 1.0
    while True:
        signal.pause()


def no_stream():
    return 5


class Notes:
    """A watcher that writes everything down, and does things when it is their time.

    Args:
        plan: pairs (condition of a snapshot, action), done one after the other.
    """

    def __init__(self, *plan):
        self.events, self.snapshots, self.closed = [], [], 0
        self.plan = list(plan)

    def show(self, snapshot):
        self.snapshots.append(snapshot)
        while self.plan and self.plan[0][0](snapshot):
            self.plan.pop(0)[1]()

    def event(self, text):
        self.events.append(text)

    def close(self):
        self.closed += 1

    def heard(self, *parts):
        """Whether some event has all these parts."""
        return any(all(part in event for part in parts) for event in self.events)

    def last(self, name):
        """The worker of that name, in the last snapshot."""
        return next(worker for worker in self.snapshots[-1].workers if worker.name == name)


def reported(name=None, more_than=0):
    """Whether a worker, or all of them, have reported more than so many times."""

    def condition(snapshot):
        return all(worker.reports > more_than for worker in snapshot.workers if name in (None, worker.name))

    return condition


def grown(name, by=5):
    """Whether a worker has reported so many times more since this was first asked."""
    before = []

    def condition(snapshot):
        (worker,) = (worker for worker in snapshot.workers if worker.name == name)
        before.append(worker.reports)
        return worker.reports >= before[0] + by

    return condition


def in_state(name, state):
    return lambda snapshot: any(worker.name == name and worker.state == state for worker in snapshot.workers)


def process_of(name):
    return next(child for child in multiprocessing.active_children() if child.name == f"siag-worker-{name}")


def send(name, number):
    """An action: send a signal to a worker of this process."""
    return lambda: os.kill(process_of(name).pid, number)


def touch(path):
    """An action: make the file that streams wait for."""
    return lambda: open(path, "xb").close()


class Mute:
    """A task whose worker has something to send once, and never again."""

    loss, first, passes, counts, modules, settle = UNKNOWN, UNKNOWN, 0, False, (), None

    def __init__(self):
        self.sample, self.forgot = -1, 0

    def begin(self, row, n, d, samples, encoding):
        self.sample = samples - 1

    def forget(self):
        self.forgot += 1

    def compute(self, w, out):
        self.sample += 1
        out[:] = 1.0
        return self.sample == 0


def talking():
    """Says something, more than can be told at once, and fails."""
    for k in range(3):
        say(f"remark {k}")
    raise ValueError("the reason")
    yield
