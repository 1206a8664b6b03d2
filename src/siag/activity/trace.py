"""Traces of live runs: who reported when, from which version of w. One line of text a report.

    # siag-trace-1 {"workers": 8, …}
    version,worker,stamp,sample,seconds,factor
    0,3,0,0,0.0131,
    1,5,0,0,0.0138,

Worker 5's first sample was computed from w⁰ and arrived when the server was at w¹. A line with a factor is no report:
the worker had left for good, and its row counts for `factor` as much from then on. Any tool that reads CSV reads it (a
name that ends in .gz is compressed); a torn last line, left by a crash, is ignored.
"""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from siag.activity.agenda import FADE, STEP, Events
from siag.activity.recorded import Recorded, Tape
from siag.activity.timed import Timed
from siag.foundations.errors import BadFile, BadInput
from siag.foundations.types import Floats, Integers

FORMAT = "siag-trace-1"
COLUMNS = "version,worker,stamp,sample,seconds,factor"
READING, ARRIVING, STEPPING = 0, 1, 2  # the order of events within a version


class TraceWriter:
    """Writes a trace while the run goes on.

    Args:
        path: of the file; one that exists is not overwritten, unless a run goes on.
        about: what was run, kept in the first line.
        keep: how many reports of an existing file belong to the run that goes on; those after them were lost.
    """

    def __init__(self, path: str | os.PathLike[str], about: Mapping[str, Any], keep: int = 0) -> None:
        self._lines: list[str] = [f"# {FORMAT} {json.dumps(dict(about))}\n", COLUMNS + "\n"]
        if keep > 0:
            self._lines += _first_reports(path, keep)
            with suppress(FileNotFoundError):
                os.unlink(path)
        try:
            raw = open(path, "xb")  # noqa: SIM115  # it lives as long as the run
        except FileExistsError:
            raise BadInput("trace", os.fspath(path), "a file that does not exist yet", "move the old one") from None
        except OSError as error:
            raise BadFile(f"{os.fspath(path)}: cannot be written: {(error.strerror or str(error)).lower()}") from None
        self._raw = raw
        self._stream: Any = gzip.GzipFile(fileobj=raw, mode="wb") if str(path).endswith(".gz") else raw

    def report(self, version: int, worker: int, stamp: int, sample: int, seconds: float) -> None:
        """Worker's `sample`-th sample, computed from w of version `stamp`, arrived at `version`."""
        self._lines.append(f"{version},{worker},{stamp},{sample},{seconds:.6f},\n")

    def fade(self, version: int, worker: int, factor: float, seconds: float) -> None:
        """The row of a worker that has left counts for `factor` as much from now on."""
        self._lines.append(f"{version},{worker},,,{seconds:.6f},{factor!r}\n")

    def flush(self) -> None:
        """Hand what there is to the operating system."""
        self._stream.write("".join(self._lines).encode())
        self._lines.clear()
        self._stream.flush()
        self._raw.flush()

    def close(self, version: int) -> None:
        """End the file, the server being at `version`."""
        if not self._raw.closed:
            self._lines.append(f"# end {version}\n")
            self.flush()
            self._stream.close()
            self._raw.close()


@dataclass(frozen=True, eq=False)
class Trace(Timed):
    """A live run as it happened, to be run again: `simulate` with it repeats the run, bit for bit for seeded problems.

    Args:
        version: (reports,) at which each report arrived.
        worker: (reports,) whose it was.
        stamp: (reports,) the version it was computed from.
        sample: (reports,) which of the worker's samples it was computed from, the first being 0.
        seconds: (reports,) since the start.
        factor: (reports,) NaN for a report; otherwise by how much the row of a departed worker counts from now on.
        versions: how many steps the server took.
        about: what was run.
    """

    version: Integers = field(repr=False)
    worker: Integers = field(repr=False)
    stamp: Integers = field(repr=False)
    sample: Integers = field(repr=False)
    seconds: Floats = field(repr=False)
    factor: Floats = field(repr=False)
    versions: int = 0
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Trace:
        """Read what a live run has recorded."""
        head, columns, versions = _parse(path)
        version, worker, stamp, sample, seconds, factor = columns
        trace = cls(version, worker, stamp, sample, seconds, factor, versions, head)
        trace._check(os.fspath(path))
        return trace

    @property
    def length(self) -> int:
        """How many steps the server took."""
        return self.versions

    @property
    def recorded(self) -> Recorded:
        """The same reports as sets A_t, as if each had been computed in the iteration it arrived in."""
        reports = np.isnan(self.factor)
        pairs = np.unique(np.stack([self.version[reports], self.worker[reports]]), axis=1)
        start = np.searchsorted(pairs[0], np.arange(self.versions + 1))
        return Recorded(Tape(start.astype(np.int64), pairs[1]))

    def bound(self, n: int) -> None:
        """None; only that all its workers exist is checked."""
        if self.worker.max(initial=-1) >= n:
            raise BadInput("trace", int(self.worker.max()), f"made of workers 0 to {n - 1}")

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

        A sample that never arrived was drawn all the same: it is one more read, whose result is thrown away.
        """
        count = len(self.version)
        place = np.arange(count)
        reports = np.flatnonzero(np.isnan(self.factor))
        order = reports[np.lexsort((reports, self.worker[reports]))]  # by worker, then by time
        before = np.full(count, -1)
        same = self.worker[order][1:] == self.worker[order][:-1]
        before[order[1:][same]] = order[:-1][same]
        drawn = np.where(before >= 0, self.sample - self.sample[before], self.sample + 1)[reports]
        at_once = (before >= 0) & (self.version[before] == self.stamp)
        phase = np.where(at_once, ARRIVING, READING)[reports]
        position = np.where(at_once, before + 0.5, place)[reports]
        reads = np.repeat(np.arange(len(reports)), drawn)
        steps = np.arange(self.versions)
        arriving = np.where(np.isnan(self.factor), self.worker, FADE + self.worker)
        latest = np.zeros(self.versions)
        np.maximum.at(latest, np.minimum(self.version, self.versions - 1), self.seconds)
        latest = np.maximum.accumulate(latest)
        versions = np.concatenate([self.version, self.stamp[reports][reads], steps])
        phases = np.concatenate([np.full(count, ARRIVING), phase[reads], np.full(self.versions, STEPPING)])
        positions = np.concatenate([place, position[reads], np.zeros(self.versions)])
        keys = np.lexsort((positions, phases, versions))
        code = np.concatenate([arriving, -1 - self.worker[reports][reads], np.full(self.versions, STEP)])
        age = np.concatenate([self.version - self.stamp, np.zeros(len(reads) + self.versions, np.int64)])
        at = np.minimum(versions, self.versions - 1)
        time = np.concatenate([self.seconds, latest[np.maximum(at[count : count + len(reads)] - 1, 0)], latest])
        factor = np.concatenate([self.factor, np.full(len(reads) + self.versions, np.nan)])
        return Events(code[keys], age[keys], time[keys], factor[keys])

    def _check(self, path: str) -> None:
        """Refuse a trace that cannot have happened, with the line."""
        reports = np.isnan(self.factor)
        latest: dict[int, tuple[int, int]] = {}
        wrong = {
            "goes back in time": (np.diff(self.seconds, prepend=0.0) < 0) | (np.diff(self.version, prepend=0) < 0),
            "names a worker below 0": self.worker < 0,
            "has a stamp from the future, or below 0": reports & ((self.stamp > self.version) | (self.stamp < 0)),
        }
        workers = self.about.get("workers")
        if isinstance(workers, int):
            wrong[f"names a worker that is not among the {workers}"] = self.worker >= workers
        for what, lines in wrong.items():
            if lines.any():
                raise BadFile(f"{path}, line {int(np.argmax(lines)) + 3}: {what}")
        for k in np.flatnonzero(reports):
            i, stamp, sample = int(self.worker[k]), int(self.stamp[k]), int(self.sample[k])
            version, drawn = latest.get(i, (0, -1))
            if sample <= drawn or stamp < version:
                raise BadFile(f"{path}, line {k + 3}: worker {i} goes back to a sample or a version it had left")
            latest[i] = int(self.version[k]), sample


def _first_reports(path: str | os.PathLike[str], count: int) -> list[str]:
    """The lines of an existing trace up to its `count`-th report."""
    kept = []
    for line in _text(path).split("\n")[2:-1]:
        if count == 0 or line.startswith("#"):
            break
        kept.append(line + "\n")
        count -= line.endswith(",")
    if count > 0:
        raise BadFile(f"{os.fspath(path)}: has {count} reports less than the run that goes on; record to another file")
    return kept


def _text(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path)
    try:
        with open(path, "rb") as stream:
            raw = stream.read()
        return (_unpacked(raw) if name.endswith(".gz") else raw).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text"
        raise BadFile(f"{name}: {reason.lower()}; give the path of a trace") from None


def _parse(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[Any], int]:
    """The first line, the columns, and the number of steps."""
    name = os.fspath(path)
    lines = _text(path).split("\n")
    lines.pop()  # nothing after the last line break, or half a line
    mark, _, head = lines[0].partition(" {") if lines else ("", "", "")
    if mark != f"# {FORMAT}" or len(lines) < 2 or lines[1] != COLUMNS:
        raise BadFile(f"{name}: not a trace of format {FORMAT}; siag serve --trace and siag.train(trace=…) write them")
    end = None
    if lines[-1].startswith("# end "):
        end = int(lines.pop().removeprefix("# end "))
    rows = []
    for number, line in enumerate(lines[2:], 3):
        cells = line.split(",")
        try:
            version, worker, stamp, sample, seconds, factor = cells
            rows.append(
                (
                    int(version),
                    int(worker),
                    int(stamp or 0),
                    int(sample or 0),
                    float(seconds),
                    float(factor or "nan"),
                )
            )
        except ValueError:
            raise BadFile(f"{name}, line {number}: not of the form {COLUMNS}") from None
    columns = [np.array([row[k] for row in rows], np.int64 if k < 4 else np.float64) for k in range(6)]
    versions = int(columns[0].max(initial=-1)) + 1 if end is None else end
    return json.loads("{" + head), columns, versions


def _unpacked(raw: bytes) -> bytes:
    """What a gzip file holds, as far as it goes: a crash leaves it without its end."""
    whole, stream = bytearray(), gzip.GzipFile(fileobj=io.BytesIO(raw))
    try:
        while block := stream.read(1 << 16):
            whole += block
    except (EOFError, OSError):
        pass
    return bytes(whole)
