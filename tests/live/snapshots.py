"""Snapshots to show: an ordinary one, and any."""

import math

from hypothesis import strategies as st

from siag.server.status import Snapshot, State, WorkerView

counts = st.integers(0, 2**53)
reals = st.floats(width=64)  # NaN and infinities, too
words = st.text(st.characters(), max_size=30)  # control characters and halves of characters, too

workers = st.builds(
    WorkerView,
    row=st.integers(0, 10**6),
    name=words,
    state=st.sampled_from(State),
    reports=counts,
    rate=reals,
    age=st.integers(-1, 2**53),
    silent=reals,
    refused=counts,
    reason=words,
)
snapshots = st.builds(
    Snapshot,
    version=counts,
    target=st.none() | counts,
    reports=counts,
    refused=counts,
    seconds=reals,
    rate=reals,
    ages=st.lists(st.integers(0, 2**40), max_size=54).map(tuple),
    workers=st.lists(workers, max_size=25, unique_by=lambda worker: worker.name).map(tuple),
    loss=st.none() | reals,
    saved=st.none() | reals,
    problems=st.lists(words, max_size=7).map(tuple),
    done=st.booleans(),
)


def worker(row, **changes):
    fields = {"state": "working", "reports": 100 + row, "rate": 2.0 + row, "age": row % 9, "silent": 0.1}
    fields |= {"name": f"edge-{row}", "refused": 0, "reason": ""} | changes
    return WorkerView(row=row, **fields)


def snapshot(n=3, **changes):
    fields = {"version": 1234, "target": 5000, "reports": 4321, "refused": 0, "seconds": 187.0, "rate": 50.0}
    fields |= {"ages": (3000, 1000, 321), "workers": tuple(worker(row) for row in range(n))}
    return Snapshot(**fields | {"loss": 0.25, "saved": 3.0, "problems": ()} | changes)


def extreme(n):
    """Numbers as they are when nothing has happened yet, or everything has gone wrong."""
    nobody = (worker(row, state="expected", reports=0, rate=math.nan, age=-1, silent=math.inf) for row in range(n))
    return snapshot(workers=tuple(nobody), loss=math.nan, rate=math.inf, seconds=math.nan, saved=math.inf, target=0)
