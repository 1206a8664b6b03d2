"""The result of a simulation: immutable, self-describing, saved as one file."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from siag.foundations.encodings import FLOAT64, encoding_of
from siag.foundations.errors import BadFile, BadInput
from siag.foundations.files import write_atomically
from siag.foundations.frames import as_frame
from siag.foundations.types import Floats, Integers
from siag.simulation.metrics import DISTANCE, LEAST, OBJECTIVE, STATIONARITY, WORDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

FORMAT = "siag-run-1"
UNREADABLE = (OSError, ValueError, KeyError, EOFError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error)
ARRAYS = ("t", "error", "samples", "time", "w", "diverged", "reads", "uploads")
METRIC = "metric: "  # before the names of metrics in a file
ADDED = ("reads", "uploads")  # since the first version of the format: as many as samples, where they are missing
LINES, WIDE = 10, 200  # of a run as it prints
SHOWN = ("problem", "method", "step", "activity", "ended")  # of what was run


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """What a simulation has shown.

    Attributes:
        t: (points,) iterations recorded, first 0, last the number of iterations.
        error: (repeats, points) ‖w^t − w*‖², or what `measure` says; NaN after a divergence, or if there is no loss.
        samples: (repeats, points) gradients computed so far.
        time: (repeats, points) seconds, of a live run or on a virtual clock; otherwise iterations.
        w: (repeats, d) final iterates.
        diverged: (repeats,) the iteration at which a repeat left the range of numbers, or −1.
        about: what was run: problem, method, activity, step, seed and so on, as text and numbers.
        reads: (repeats, points) how often a worker has read w; as often as `samples` if that is not given.
        uploads: (repeats, points) reports sent so far; as many as `samples` if that is not given.
        metrics: (repeats, points), or (repeats, points, workers), of each of the user's own metrics (`evaluate`) by its
            name, and of a live run whose gradients tell their losses the "progressive loss": of samples that the model
            had not learned from. `objective` and `stationarity`, too, where they were measured.
        restore: makes the model of w, if a model was trained; it is not saved.
    """

    t: Integers
    error: Floats
    samples: Integers
    time: Floats
    w: Floats
    diverged: Integers
    about: dict[str, Any] = field(default_factory=dict)
    reads: Integers = None  # type: ignore[assignment]  # it is never None once made
    uploads: Integers = None  # type: ignore[assignment]  # nor is this
    metrics: dict[str, Floats] = field(default_factory=dict)
    restore: Callable[[Floats], Any] | None = None

    def __post_init__(self) -> None:
        for name in ADDED:
            if getattr(self, name) is None:
                object.__setattr__(self, name, self.samples.copy())
        for name in ARRAYS:
            getattr(self, name).setflags(write=False)

    @cached_property
    def model(self) -> Any:
        """What was trained, with its final parameters; `None` if that was w alone, or if the run was loaded."""
        return None if self.restore is None else self.restore(self.w[0])

    @property
    def workers(self) -> list[dict[str, Any]]:
        """Of a live run, each worker: name, state, reports, rate (a second), mean age of reports, loss, refused, share.

        The last is its share of the objective.
        """
        return list(self.about.get("by_worker", ()))

    @property
    def warnings(self) -> list[str]:
        """Of a live run, what seemed to be wrong while it went on, each with its remedy."""
        return list(self.about.get("warnings", ()))

    def __repr__(self) -> str:
        lines = [f"  {name}: {value}" for name, value in self.summary().items()]
        more = [f"  … {len(lines) - LINES} more in summary()"] if len(lines) > LINES else []
        return "\n".join(
            line if len(line) <= WIDE else f"{line[: WIDE - 1]}…" for line in ["Run", *lines[:LINES], *more]
        )

    def summary(self) -> dict[str, str]:
        """What was run and how it ended, in words, by name; what a shell and a notebook show."""
        rows = {key: str(self.about[key]) for key in SHOWN if self.about.get(key)}
        rows["iterations"] = f"{self.t[-1]:,}" + (f", {self.repeats} repeats" if self.repeats > 1 else "")
        rows["gradients"] = f"{self.samples[:, -1].mean():,.0f}"
        if self.measure:
            first = next((value for value in self.mean if np.isfinite(value)), np.nan)
            rows[self.measure] = f"{self.mean[-1]:.4g}, from {first:.4g}"
        rows |= {WORDS.get(name, name): f"{_means(self.metrics[name])[-1]:.4g}" for name in self.beside_error}
        if (self.diverged >= 0).any():
            cause = f": {self.about['cause']}" if "cause" in self.about else ""
            rows["diverged"] = f"{np.count_nonzero(self.diverged >= 0)} of {self.repeats}{cause}"
        return rows | {f"warning {k}": text for k, text in enumerate(self.warnings, 1)}

    @property
    def repeats(self) -> int:
        """How many repeats were run."""
        return int(self.error.shape[0])

    @property
    def measure(self) -> str:
        """What `error` is: ‖wᵗ − w*‖², unless `about["measure"]` says otherwise; "" if there is none, but NaN only."""
        return str(self.about.get("measure", DISTANCE)) if np.isfinite(self.error).any() else ""

    @property
    def beside_error(self) -> list[str]:
        """The names of the metrics that are not the error itself."""
        return [name for name in self.metrics if self.measure not in (name, WORDS.get(name))]

    @property
    def objective(self) -> Floats | None:
        """(repeats, points) F(w^t), if it was measured."""
        return self.metrics.get(OBJECTIVE)

    @property
    def stationarity(self) -> Floats | None:
        """(repeats, points) ‖∇F(w^t)‖², if it was measured."""
        return self.metrics.get(STATIONARITY)

    @property
    def least_stationarity(self) -> Floats | None:
        """(repeats, points) the least ‖∇F(w)‖² at the points so far, if it was measured; NaN after a divergence."""
        found = self.stationarity
        return None if found is None else np.asarray(np.minimum.accumulate(found, axis=1))

    def judged_by(self, name: str) -> Run:
        """The same run with something else as its error, for `mean`, `standard_error` and `plot`.

        Args:
            name: "objective", "stationarity", "least_stationarity", or one of the user's own metrics.
        """
        curve = self.least_stationarity if name == LEAST else self.metrics.get(name)
        if curve is None:
            names = [*self.metrics, *([LEAST] if STATIONARITY in self.metrics else ())]
            raise BadInput("name", name, f"one of {', '.join(names)}" if names else "left out: nothing was measured")
        values = curve.mean(axis=2) if curve.ndim > 2 else curve
        return replace(self, error=np.array(values), about=self.about | {"measure": WORDS.get(name, name)})

    @property
    def mean(self) -> Floats:
        """(points,) the mean error over the repeats, an estimate of E_t."""
        return np.asarray(self.error.mean(axis=0))

    @property
    def standard_error(self) -> Floats:
        """(points,) of that mean; infinite for a single repeat."""
        if self.repeats == 1:
            return np.full(len(self.t), np.inf)
        return np.asarray(self.error.std(axis=0, ddof=1) / np.sqrt(self.repeats))

    @property
    def bytes(self) -> Integers:
        """(repeats, points) sent so far: what was read and what was reported, as it travels.

        That is 8 bytes a number, and 4 of float32. A report of bfloat16 has 2 a number, one of int8 1, and 4 more for
        every 256 or fewer; what is read beside these two is of float32.
        """
        d = self.w.shape[1]
        up, down = (int(self.about[key]) if key in self.about else d for key in ("upload", "download"))
        encoding = encoding_of(self.about.get("messages", FLOAT64.name))
        return np.asarray(self.uploads * encoding.size(up) + self.reads * encoding.model.size(down))

    def plot(self, ax: Axes | None = None, x: str | None = None, **style: Any) -> Axes:
        """Draw the mean error against t, time, samples or bytes, with a band of 2 standard errors; return the axes.

        A live run without a loss has no error; then its pace is drawn: gradients against time.

        Args:
            ax: where to draw; its labels are left alone. By default new axes with labels.
            x: "t", "time", "samples" or "bytes"; by default t, and time for a pace.
            style: as of matplotlib's `plot`.
        """
        from siag.simulation.plot import draw

        return draw(self, ax, x, **style)

    def _repr_html_(self) -> str:
        """What a notebook shows: the run in a few rows, and its curve."""
        from siag.simulation.plot import as_html

        return as_html(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one `.npz` file, whole or not at all; `siag.load` reads it back."""
        about = json.dumps({"format": FORMAT, **self.about})
        arrays = {name: getattr(self, name) for name in ARRAYS}
        arrays |= {METRIC + name: values for name, values in self.metrics.items()}
        write_atomically(Path(path), lambda stream: np.savez_compressed(stream, about=np.array(about), **arrays))

    def table(self) -> dict[str, Floats | Integers]:
        """The recorded curve as columns: t, mean error, standard error, means of what was counted and measured."""
        own = {name: _means(values) for name, values in self.metrics.items()}
        if self.least_stationarity is not None:
            own[LEAST] = _means(self.least_stationarity)
        return {
            "t": self.t,
            "error": self.mean,
            "standard_error": self.standard_error,
            "samples": np.asarray(self.samples.mean(axis=0)),
            "uploads": np.asarray(self.uploads.mean(axis=0)),
            "bytes": np.asarray(self.bytes.mean(axis=0)),
            "time": np.asarray(self.time.mean(axis=0)),
            **own,
        }

    def to_frame(self) -> DataFrame:
        """`table` as a `pandas.DataFrame`."""
        return as_frame(self.table())


def _means(values: Floats) -> Floats:
    """(points,) over repeats and, if there are any, workers."""
    return np.asarray(values.mean(axis=(0, *range(2, values.ndim))))


def load(path: str | os.PathLike[str]) -> Run:
    """Read a run that `Run.save` has written."""
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            arrays: dict[str, Any] = {name: file[name] for name in ARRAYS if name not in ADDED or name in file}
            metrics = {name.removeprefix(METRIC): file[name] for name in file if name.startswith(METRIC)}
    except FileNotFoundError:
        raise BadFile(f"{os.fspath(path)}: no such file") from None
    except UNREADABLE:
        raise BadFile(f"{os.fspath(path)}: not a run, or a damaged one; write it with Run.save") from None
    if not isinstance(about, dict) or about.pop("format", None) != FORMAT:
        raise BadFile(f"{os.fspath(path)}: not of format {FORMAT}; load it with the version of siag that wrote it")
    return Run(**arrays, about=about, metrics=metrics)
