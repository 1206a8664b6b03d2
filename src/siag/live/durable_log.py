"""The durable log: an entry for each thing that changed the server, and how they are done again after a crash."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from siag.foundations.errors import BadFile
from siag.live.curve import Curve
from siag.server.parameter_server import Diverged, ParameterServer
from siag.server.status import State
from siag.server.sums import Sum
from siag.storage.store import Recovery, Store
from siag.storage.trace_writer import TraceLines

LAYOUT = struct.Struct("<Bqqqdd")  # kind, row, stamp, sample, loss, seconds; a report's numbers follow, or a name
SUM = struct.Struct("<dqq")  # weight, mean and oldest stamp: between the two, of a report that is a sum
REPORTED, TICKED, LEFT, SKIPPED, MEMORY_LOST, LET_GO, DIVERGED, ADMITTED, SUMMED, WEIGHED = range(10)  # new ones last
BEYOND = "with them w leaves the range of numbers"


def go_on(
    server: ParameterServer, curve: Curve, store: Store, found: Recovery, now: float
) -> tuple[list[str], list[str]]:
    """Put a server where another was, its arrays being those of the last save: restore the rest, redo what was logged.

    It is done up to where w leaves the range of numbers.

    Returns:
        The lines this adds to the trace, and what there is to remark.
    """
    trace, remarks = server.trace, []
    entries = [entry for entry in found.entries if entry[0] != DIVERGED]  # which changed nothing
    with server.unguarded():
        good, lines = _redo_all(server, curve, found.meta, entries, now)
        if good < len(entries):
            store.recover(server.arrays())  # once more from the save, as far as it goes
            _, lines = _redo_all(server, curve, found.meta, entries[:good], now)
            remarks.append(f"the last {len(entries) - good} logged entries were not used: {BEYOND}")
    server.trace = trace
    server.count_from(now)
    return lines, remarks


def _redo_all(
    server: ParameterServer, curve: Curve, meta: Mapping[str, Any], entries: Sequence[bytes], now: float
) -> tuple[int, list[str]]:
    """Do these again after what was saved; after how many w was last within range, and the trace's lines."""
    good, last = 0, 0.0
    server.restore(meta, now)
    if "curve" in meta:
        curve.restore(meta["curve"])
    server.trace = redone = TraceLines()
    with suppress(Diverged):
        for done, entry in enumerate(entries, start=1):
            last = max(last, redo(server, entry, now))
            if server.in_range():
                good = done
                if server.version >= curve.next:
                    curve.note(server, now + last - server.seconds(now))
    if last > server.seconds(now):
        server.begin(now - last)  # time goes on from there
    return good, redone.lines


def redo(server: ParameterServer, entry: bytes, now: float) -> float:
    """Do again what an entry says was done; return when that was."""
    kind, row, stamp, sample, loss, seconds = LAYOUT.unpack_from(entry)
    at = now + seconds - server.seconds(now)
    if kind == REPORTED:
        # an array that may be written to, as a report is: for any other there would have to be machine code of its own
        numbers = np.frombuffer(bytearray(entry), server.encoding.dtype, offset=LAYOUT.size)
        server.push(row, stamp, numbers, sample, at, loss=loss)
    elif kind == SUMMED:
        numbers = np.frombuffer(bytearray(entry), server.encoding.dtype, offset=LAYOUT.size + SUM.size)
        server.push_sum(row, stamp, numbers, sample, at, Sum(*SUM.unpack_from(entry, LAYOUT.size)), loss)
    elif kind == WEIGHED:
        server.weigh(row, loss, at)
    elif kind == SKIPPED:
        server.skip(row, stamp, sample, at)
    elif kind == TICKED:
        server.tick(at)
    elif kind == MEMORY_LOST:
        server.memory_lost(row, at)
    elif kind == LET_GO:
        server.let_go(row, at)
    elif kind == LEFT:
        server.leave(row, at, "it had left before")
    elif kind == ADMITTED:
        server.admit(entry[LAYOUT.size :].decode())
    else:
        raise BadFile(f"an entry of kind {kind} in the log, unknown here; use the version of siag that wrote it")
    if kind in (REPORTED, SUMMED, SKIPPED):
        server.members[row].state = State.AWAY
    return float(seconds)
