"""Traces of live runs: who reported when, from which version of w. One line of text a report.

    # siag-trace-2 {"workers": 8, …}
    version,worker,stamp,sample,seconds,factor,loss
    0,3,0,0,0.0131,,0.693
    1,5,0,0,0.0138,,

The first line says what was run; its "run" is an id, which is in the saved state of the run, too. Worker 5's first
sample was computed from w⁰ and arrived when the server was at w¹; worker 3 has told the loss of its sample, too. That a
worker had nothing to send is a report, too. A line with a factor is none: the worker had left for good, and its row
counts for `factor` as much from then on; or, if that is −1, the worker had lost what it remembered, because it was
started anew or one of its reports was refused. If it is −2, the worker is a relay: what it reports from then on is the
sum of the messages of as many workers as the last column says, and its stamps are their mean. Any tool that reads CSV
reads it (a name that ends in .gz is compressed); a torn end, left by a crash, is ignored.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from siag.activity.agenda import FADE, FORGET, STEP, Events
from siag.activity.recorded import Recorded, Tape
from siag.activity.timed import Timed
from siag.foundations.errors import BadFile, BadInput, reason_of, shorten
from siag.foundations.memory import check_fits
from siag.foundations.types import Booleans, Floats, Integers

FORMAT = "siag-trace-2"
COLUMNS = "version,worker,stamp,sample,seconds,factor,loss"
FORGOTTEN, WEIGHED = -1.0, -2.0  # in place of a factor
GZIP = 31  # zlib's number for a gzip file
BLOCK = 1 << 16
TORN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffd]")  # in no line of a trace; a disk that failed may leave them
READING, ARRIVING, STEPPING = 0, 1, 2  # the order of events within a version
EVENT = 200  # bytes an event takes while all are put in order


@dataclass(frozen=True, eq=False)
class Trace(Timed):
    """A live run as it happened, to be run again: `simulate` with it repeats the run, bit for bit for seeded problems.

    Args:
        version: (reports,) at which each report arrived.
        worker: (reports,) whose it was.
        stamp: (reports,) the version it was computed from.
        sample: (reports,) which of the worker's samples it was computed from, the first being 0.
        seconds: (reports,) since the start.
        factor: (reports,) NaN for a report; otherwise by how much the row of a departed worker counts from now on, or
            −1 if a worker has lost what it remembered, −2 if it is a relay, whose weight is in place of a loss.
        versions: how many steps the server took.
        about: what was run.
        loss: (reports,) of each sample, at the w it was computed from; NaN where it was not told.
    """

    version: Integers = field(repr=False)
    worker: Integers = field(repr=False)
    stamp: Integers = field(repr=False)
    sample: Integers = field(repr=False)
    seconds: Floats = field(repr=False)
    factor: Floats = field(repr=False)
    versions: int = 0
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)
    loss: Floats | None = field(default=None, repr=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Trace:
        """Read what a live run has recorded."""
        try:
            raw = Path(path).read_bytes()
        except OSError as error:
            raise BadFile(f"{os.fspath(path)}: {reason_of(error)}; give the path of a trace") from None
        return cls.parse(os.fspath(path), raw)

    @classmethod
    def parse(cls, name: str, raw: bytes) -> Trace:
        """The same, from the content of a file of that name."""
        head, columns, versions = _parse(name, raw)
        version, worker, stamp, sample, seconds, factor, loss = columns
        trace = cls(version, worker, stamp, sample, seconds, factor, versions, head, loss)
        trace._check(name)
        return trace

    @property
    def length(self) -> int:
        """How many steps the server took."""
        return self.versions

    @property
    def recorded(self) -> Recorded:
        """The same reports as sets A_t, as if each had been computed in the iteration it arrived in."""
        counted = np.flatnonzero(np.isnan(self.factor) & (self.version < self.versions))
        order = counted[np.lexsort((self.worker[counted], self.version[counted]))]
        version, worker = self.version[order], self.worker[order]
        again = (np.diff(version, prepend=-1) == 0) & (np.diff(worker, prepend=-1) == 0)
        start = np.searchsorted(version[~again], np.arange(self.versions + 1))
        return Recorded(Tape(start.astype(np.int64), worker[~again]))

    def bound(self, n: int) -> None:
        """None; only that all its workers exist is checked."""
        if self.worker.max(initial=-1) >= n:
            raise BadInput("trace", int(self.worker.max()), f"made of workers 0 to {n - 1}")
        if (self.factor == WEIGHED).any():
            relay = int(self.worker[np.argmax(self.factor == WEIGHED)])
            raise BadInput("trace", f"with relays, such as worker {relay}", "one of workers whose samples are known")

    def events(self, n: int, iterations: int, seed: int, repeat: int, cost: int) -> Iterator[Events]:
        """Reads where the stamps say, arrivals and steps as recorded."""
        self.bound(n)
        whole = self._events()
        steps = np.flatnonzero(whole.code == STEP)
        room = max(256, (1 << 21) // max(cost, 32))
        last = int(steps[iterations - 1]) + 1
        for first in range(0, last, room):
            part = slice(first, min(first + room, last))
            yield Events(whole.code[part], whole.age[part], whole.time[part], whole.factor[part])

    def _events(self) -> Events:
        """All there is, in order: within a version first reads, then arrivals, each followed by its worker's next read.

        A sample that never arrived was drawn all the same: it is one more read, whose result is thrown away. If its
        worker has lost its memory since, that read comes before.
        """
        count = len(self.version)
        place = np.arange(count)
        reports = np.flatnonzero(np.isnan(self.factor))
        forgotten = self.factor == FORGOTTEN
        before, last = self._before(), self._last(forgotten)
        drawn = np.where(before >= 0, self.sample - self.sample[before], self.sample + 1)[reports]
        total = float(drawn.sum(dtype=np.float64)) + count + self.versions
        check_fits(int(EVENT * total), f"a trace of {total:.3g} events", "its samples may be numbered wrongly")
        at_once = (last >= 0) & (self.version[last] == self.stamp)
        phase = np.where(at_once, ARRIVING, READING)[reports]
        position = np.where(at_once, last + 0.5, place)[reports]
        reads = np.repeat(np.arange(len(reports)), drawn)
        rest = len(reads) + self.versions
        read_at, phase, position = self.stamp[reports][reads], phase[reads], position[reads]
        lost = (np.diff(reads, append=-1) == 0) & ((last >= 0) & forgotten[last])[reports][reads]
        until = last[reports][reads][lost]
        read_at[lost], phase[lost], position[lost] = self.version[until], ARRIVING, until - 0.25
        arriving = np.where(forgotten, FORGET + self.worker, FADE + self.worker)
        arriving[reports] = self.worker[reports]
        versions = np.concatenate([self.version, read_at, np.arange(self.versions)])
        phases = np.concatenate([np.full(count, ARRIVING), phase, np.full(self.versions, STEPPING)])
        positions = np.concatenate([place, position, np.zeros(self.versions)])
        keys = np.lexsort((positions, phases, versions))
        code = np.concatenate([arriving, -1 - self.worker[reports][reads], np.full(self.versions, STEP)])
        age = np.concatenate([self.version - self.stamp, np.zeros(rest, np.int64)])
        time = np.concatenate([self.seconds, np.zeros(rest)])  # reads and steps are as late as what they follow
        factor = np.concatenate([self.factor, np.full(rest, np.nan)])
        return Events(code[keys], age[keys], np.maximum.accumulate(time[keys]), factor[keys])

    def _before(self) -> Integers:
        """(reports,) for each report the place of the one before it of the same worker, −1 if there is none."""
        return self._preceding(np.flatnonzero(np.isnan(self.factor)))

    def _last(self, forgotten: Booleans) -> Integers:
        """(reports,) the same, but a loss of memory counts, too."""
        return self._preceding(np.flatnonzero(np.isnan(self.factor) | forgotten))

    def _preceding(self, places: Integers) -> Integers:
        """(reports,) for each of these places the one before it of the same worker, −1 elsewhere."""
        order = places[np.argsort(self.worker[places], kind="stable")]
        before = np.full(len(self.version), -1)
        same = self.worker[order[1:]] == self.worker[order[:-1]]
        before[order[1:][same]] = order[:-1][same]
        return before

    def _check(self, path: str) -> None:
        """Refuse a trace that cannot have happened, with the line."""
        reports, before = np.isnan(self.factor), self._before()
        relays = np.isin(self.worker, self.worker[self.factor == WEIGHED])  # their stamps are means of older ones
        repeated = (self.sample <= self.sample[before]) | (self.stamp < self.version[before]) & ~relays
        wrong = {
            "goes back in time": (np.diff(self.seconds, prepend=0.0) < 0) | (np.diff(self.version, prepend=0) < 0),
            f"comes after the end, at version {self.versions}": self.version > self.versions,
            "names a worker below 0": self.worker < 0,
            "has a stamp from the future, or below 0": reports & ((self.stamp > self.version) | (self.stamp < 0)),
            "has a sample below 0": self.sample < 0,
            "goes back to a sample or a version that its worker had left": reports & (before >= 0) & repeated,
        }
        workers = self.about.get("workers")
        if isinstance(workers, int):
            wrong[f"names a worker that is not among the {workers}"] = self.worker >= workers
        for what, lines in wrong.items():
            if lines.any():
                k = int(np.argmax(lines))
                raise BadFile(f"{path}, line {k + 3}: {what} (worker {self.worker[k]})")


def _parse(name: str, raw: bytes) -> tuple[dict[str, Any], list[Any], int]:
    """The first line, the columns, and the number of steps."""
    text = text_in(name, raw)
    about = head_in(name, text)
    lines = text.split("\n")
    lines.pop()  # nothing after the last line break, or half a line
    end = lines.pop() if lines[-1].startswith("# end ") else None
    try:
        columns = _columns(lines[2:])
    except (ValueError, OverflowError):
        raise BadFile(f"{name}, line {3 + good_lines(lines[2:])}: not of the form {COLUMNS}") from None
    if end is None:  # a crash: every version with a report had, or would have had, its step
        reports = np.isnan(columns[5])
        return about, columns, int((columns[0] + reports).max(initial=0))
    count = end.removeprefix("# end ")
    if not (count.isascii() and count.isdigit() and len(count) < 19):
        raise BadFile(f"{name}, line {len(lines) + 1}: {shorten(end)} does not say how many steps were taken")
    return about, columns, int(count)


def head_in(name: str, text: str) -> dict[str, Any]:
    """What the first line says was run; `BadFile` if this text is no trace."""
    first, _, rest = text.partition("\n")
    mark, _, head = first.partition(" {")
    if mark != f"# {FORMAT}" or not rest.startswith(f"{COLUMNS}\n"):
        raise BadFile(f"{name}: not a trace of format {FORMAT}; siag serve --trace and siag.train(trace=…) write them")
    try:
        return dict(json.loads("{" + head))
    except (ValueError, RecursionError):
        raise BadFile(f"{name}, line 1: what was run is not in JSON") from None


def _columns(lines: Sequence[str]) -> list[Any]:
    """Lines as seven arrays, column by column since that is fast; `ValueError` if a line is of another form."""
    if any(line.count(",") != 6 for line in lines):
        raise ValueError
    cells = ",".join(lines).split(",") if lines else []
    stamp, sample, last, end = cells[2::7], cells[3::7], cells[5::7], cells[6::7]
    factor = np.full(len(lines), np.nan)
    for k, text in enumerate(last):
        if text:
            factor[k] = float(text)
            weighed = factor[k] == WEIGHED and end[k]
            if stamp[k] or sample[k] or not (0.0 <= factor[k] <= 1.0 or factor[k] == FORGOTTEN or weighed):
                raise ValueError
            stamp[k] = sample[k] = "0"
    seconds = np.array(list(map(float, cells[4::7])), np.float64)
    if not np.isfinite(seconds).all():
        raise ValueError
    whole = [np.array(list(map(int, column)), np.int64) for column in (cells[0::7], cells[1::7], stamp, sample)]
    return [*whole, seconds, factor, np.array([float(text or "nan") for text in end], np.float64)]


def good_lines(lines: Sequence[str]) -> int:
    """How many of the first of these are lines of a trace."""
    try:
        _columns(lines)
        return len(lines)
    except (ValueError, OverflowError):
        if len(lines) == 1:
            return 0
        half = len(lines) // 2
        good = good_lines(lines[:half])
        return good if good < half else half + good_lines(lines[half:])


def text_in(name: str, raw: bytes) -> str:
    """What a trace of that name holds, unpacked; if it has no end, up to the first character that no trace has."""
    text = (_unpacked(raw) if name.endswith(".gz") else raw).decode(errors="replace")
    if "\ufffd" in text and not text.startswith(f"# {FORMAT} "):
        raise BadFile(f"{name}: not a text; give the path of a trace")
    torn = None if "\n# end " in text else TORN.search(text)
    return text[: torn.start()] if torn else text


def _unpacked(raw: bytes) -> bytes:
    """What a gzip file holds, as far as it goes: a crash leaves it without its end, or with a damaged one."""
    whole, at, size, unpack = bytearray(), 0, BLOCK, zlib.decompressobj(wbits=GZIP)
    while at < len(raw) and size:
        block, before = raw[at : at + size], unpack.copy()
        try:
            whole += unpack.decompress(block)
        except zlib.error:
            unpack, size = before, size // 2  # what comes before the damage is good
            continue
        at += len(block) - len(unpack.unused_data)
        if unpack.eof:  # a run that went on has added a part
            unpack = zlib.decompressobj(wbits=GZIP)
    return bytes(whole)
