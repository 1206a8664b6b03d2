"""Watchers that keep the curves of a run: MLflow and TensorBoard, given to `siag.train(…, progress=…)`.

What they write goes through a thread of its own. If it cannot be written, one line says so, training goes on, and it is
tried again a little later.
"""

from __future__ import annotations

import logging
import math
import os
import re
import tempfile
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput, SiagError, reason_of
from siag.foundations.extras import needed
from siag.live.monitor.watch import Problems, Watcher
from siag.server.status import Snapshot
from siag.simulation import Run
from siag.storage.background import OneThread

log = logging.getLogger("siag")

AGAIN = 10.0  # seconds after which what failed is tried again
PATIENCE = 10.0  # seconds that the end of a run waits for what is not written yet
MOST = 1000  # points that wait, of which the oldest are dropped first
BATCH = 1000  # metrics that MLflow takes at a time
LONG = 250  # letters of a parameter, from which on it is left out


class Tracker(Watcher):
    """What both have in common: which numbers, how often, and what happens if they cannot be written.

    Args:
        every: seconds between two points of a curve.
        workers: of how many workers there are curves, the first ones.
    """

    title = ""

    def __init__(self, every: float, workers: int) -> None:
        self.every = check.real("every", every, low=0.2)
        self.workers = check.integer("workers", workers, low=0)
        self._jobs: deque[Callable[[], None]] = deque()
        self._thread = OneThread(f"siag-{self.title}")
        self._writing: Future[Any] | None = None
        self._latest: Snapshot | None = None
        self._begun = False
        self._told: set[str] = set()  # warnings
        self._noted = self._failed = -math.inf  # when a point was taken, and when writing failed
        self._wrong = ""  # why it does

    # What a tracker is

    @abstractmethod
    def _open(self, about: Mapping[str, str]) -> None:
        """Begin a run with these parameters."""

    @abstractmethod
    def _write(self, step: int, at: float, values: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """A point of every curve, at a time in seconds since 1970, and warnings by name."""

    @abstractmethod
    def _keep(self, run: Run) -> None:
        """The result."""

    def _end(self, done: bool) -> None:
        """The last point was written; the result may follow."""
        return

    # What it is told

    def begin(self, about: Mapping[str, Any]) -> None:
        """What is run; a tracker keeps one run."""
        if self._begun:
            raise SiagError(f"this {type(self).__name__} has kept a run already; make one for each run")
        self._begun = True
        words = {name: value if isinstance(value, str) else repr(value) for name, value in about.items()}
        self._do(partial(self._open, {name: word for name, word in words.items() if len(word) < LONG}))

    def show(self, snapshot: Snapshot) -> None:
        """A point, if it is time for one."""
        self._latest, now = snapshot, time.monotonic()
        if now - self._noted >= self.every:
            self._noted = now
            self._do(self._point(snapshot))

    def close(self) -> None:
        """The last point; waits until it is written, for ten seconds at most."""
        if self._latest is not None:
            latest, self._latest = self._latest, None
            self._do(self._point(latest))
            self._do(partial(self._end, latest.done), last=True)

    def result(self, run: Run) -> None:
        """Keep it; waits until it is written, for ten seconds at most."""
        self._do(partial(self._keep, run), last=True)

    def _point(self, snapshot: Snapshot) -> Callable[[], None]:
        new = [text for text in snapshot.warnings if text not in self._told]
        self._told.update(new)
        texts = {f"warning {len(self._told) - len(new) + k + 1}": text for k, text in enumerate(new)}
        values = {name: value for name, value in numbers_of(snapshot, self.workers) if math.isfinite(value)}
        return partial(self._write, snapshot.version, time.time(), values, texts)

    # How it is written

    def _do(self, job: Callable[[], None], last: bool = False) -> None:
        """Have it done after all before it, soon, or if `last` now."""
        self._jobs.append(job)
        if len(self._jobs) > MOST:
            del self._jobs[1]  # not the first, which begins the run or is being done
        idle = self._writing is None or self._writing.done()
        stuck = bool(self._wrong) and not idle
        if last or (idle and time.monotonic() - self._failed >= AGAIN):
            self._writing = self._thread.submit(self._work)
        if last and not stuck and self._writing is not None:
            with suppress(TimeoutError):  # what does not answer is not waited for
                self._writing.result(PATIENCE)
            if self._jobs and not self._wrong:
                self._wrong = f"no answer within {PATIENCE:g} seconds"
                self._say(f"{self.title}: {self._wrong}; the end of the run is missing there")

    def _work(self) -> None:
        """In the thread: all that is to be done, up to what fails."""
        while self._jobs:
            try:
                self._jobs[0]()
            except Exception as error:  # of any library, on any network: training goes on
                self._failed = time.monotonic()
                if not self._wrong:
                    self._wrong = " ".join(reason_of(error).split())[:MOST]
                    self._say(f"{self.title} cannot be written: {self._wrong}; training goes on, and it is tried again")
                return
            self._jobs.popleft()
            if self._wrong:
                self._wrong = ""
                self._say(f"{self.title} is written again")

    def _say(self, text: str) -> None:
        log.warning(text)
        Problems().problem(text)


def numbers_of(snapshot: Snapshot, workers: int) -> Iterator[tuple[str, float]]:
    """What there are curves of, by name; workers' own after a slash."""
    reports = sum(worker.reports for worker in snapshot.workers)
    ages = sum(worker.mean_age * worker.reports for worker in snapshot.workers if worker.reports)
    whole = {
        "loss": snapshot.loss,
        "progressive loss": snapshot.progressive,
        **snapshot.metrics,
        "updates per second": snapshot.rate,
        "reports": snapshot.reports,
        "refused": snapshot.refused,
        "seconds": snapshot.seconds,
        "mean age": ages / reports if reports else None,
    }
    yield from ((name, float(value)) for name, value in whole.items() if value is not None)
    for worker in snapshot.workers[:workers]:
        if worker.loss is not None:
            yield f"worker loss/{worker.name}", worker.loss
        if worker.reports:
            yield f"worker age/{worker.name}", worker.age
        yield f"worker rate/{worker.name}", worker.rate


class MLflow(Tracker):
    """Keeps a run in MLflow: parameters, curves, warnings as tags, and `w.npy` and `run.npz` as artifacts.

    There are curves of the loss, the progressive loss, your own metrics, updates per second, reports and their mean
    age, and for each of the first workers of its loss, its rate and the age of its gradient; x is the iteration.

    Args:
        experiment: the name of the experiment; it is made if there is none.
        name: of the run; by default MLflow chooses one.
        uri: of the tracking server, or a folder or database; by default as MLflow is set up, `MLFLOW_TRACKING_URI`.
        every: seconds between two points of a curve.
        workers: how many workers have curves of their own.

    Attributes:
        run_id: MLflow's own, once the run was made there.
    """

    title = "MLflow"

    def __init__(
        self,
        experiment: str = "siag",
        name: str | None = None,
        *,
        uri: str | None = None,
        every: float = 1.0,
        workers: int = 20,
    ) -> None:
        super().__init__(every, workers)
        self._mlflow, self._entities = needed("mlflow", "mlflow"), needed("mlflow.entities", "mlflow")
        self._experiment, self._name, self._uri = experiment, name, uri
        self.run_id: str | None = None

    def _open(self, about: Mapping[str, str]) -> None:
        self._client = client = self._mlflow.MlflowClient(tracking_uri=self._uri)
        if self.run_id is None:
            found = client.get_experiment_by_name(self._experiment)
            number = client.create_experiment(self._experiment) if found is None else found.experiment_id
            self.run_id = client.create_run(number, run_name=self._name).info.run_id
        client.log_batch(self.run_id, params=[self._entities.Param(*each) for each in about.items()])

    def _write(self, step: int, at: float, values: Mapping[str, float], texts: Mapping[str, str]) -> None:
        metric, when = self._entities.Metric, int(1000 * at)
        points = [metric(allowed(name), value, when, step) for name, value in values.items()]
        for k in range(0, len(points), BATCH):
            self._client.log_batch(self.run_id, metrics=points[k : k + BATCH])
        if texts:
            self._client.log_batch(self.run_id, tags=[self._entities.RunTag(*each) for each in texts.items()])

    def _end(self, done: bool) -> None:
        self._client.set_terminated(self.run_id, "FINISHED" if done else "KILLED")

    def _keep(self, run: Run) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for path in save_both(run, Path(folder)):
                self._client.log_artifact(self.run_id, str(path))
        self._client.set_terminated(self.run_id, "FAILED" if run.diverged[0] >= 0 else "FINISHED")


class TensorBoard(Tracker):
    """Keeps a run in a folder for TensorBoard: the curves of `MLflow`, texts, and `w.npy` and `run.npz` beside them.

    Nothing but the package `tensorboard` is needed. `tensorboard --logdir` of the folder above shows several runs.

    Args:
        folder: one for each run.
        every: seconds between two points of a curve.
        workers: how many workers have curves of their own.
    """

    title = "TensorBoard"

    def __init__(self, folder: str | os.PathLike[str], *, every: float = 1.0, workers: int = 20) -> None:
        super().__init__(every, workers)
        if not isinstance(folder, str | os.PathLike):
            raise BadInput("folder", folder, "a path")
        self.folder = Path(folder)
        self._files = needed("tensorboard.summary.writer.event_file_writer", "tensorboard")
        self._event = needed("tensorboard.compat.proto.event_pb2", "tensorboard").Event
        self._scalar = needed("tensorboard.plugins.scalar.summary_v2", "tensorboard").scalar_pb
        self._text = needed("tensorboard.plugins.text.summary_v2", "tensorboard").text_pb

    def _open(self, about: Mapping[str, str]) -> None:
        self._writer = self._files.EventFileWriter(str(self.folder))
        rows = [f"| {name} | {value} |" for name, value in about.items()]
        self._write(0, time.time(), {}, {"parameters": "\n".join(["| | |", "|---|---|", *rows])})

    def _write(self, step: int, at: float, values: Mapping[str, float], texts: Mapping[str, str]) -> None:
        made = [self._scalar(name, value) for name, value in values.items()]
        for summary in made + [self._text(name, text) for name, text in texts.items()]:
            self._writer.add_event(self._event(step=step, wall_time=at, summary=summary))
        self._writer.flush()

    def _end(self, done: bool) -> None:
        self._writer.close()

    def _keep(self, run: Run) -> None:
        save_both(run, self.folder)


def allowed(name: str) -> str:
    """A name as MLflow takes it."""
    return re.sub(r"[^\w.\- /]", "_", name)


def save_both(run: Run, folder: Path) -> tuple[Path, Path]:
    """The model and the run as files."""
    model, whole = folder / "w.npy", folder / "run.npz"
    np.save(model, run.w[0])
    run.save(whole)
    return model, whole
