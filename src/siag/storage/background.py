"""Who does what must not hold up training: a thread, or nobody else."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeAlias

Job: TypeAlias = Callable[[], None]


class Background(Protocol):
    """Does jobs one after the other. A job raises nothing.

    Attributes:
        turn: to be entered by jobs and their owner for what only one of them may do at a time.
    """

    turn: AbstractContextManager[object]

    def submit(self, job: Job) -> None:
        """Have a job done after those before it."""

    @property
    def busy(self) -> bool:
        """Whether a job is not done yet."""

    def wait(self) -> None:
        """Return when all jobs are done."""

    def close(self) -> None:
        """Wait for all jobs; there will be no others."""


class Thread:
    """One thread, started with the first job."""

    def __init__(self, name: str) -> None:
        self.turn: AbstractContextManager[object] = threading.Lock()
        self._name = name
        self._jobs: queue.Queue[Job | None] = queue.Queue()
        self._thread: threading.Thread | None = None

    def submit(self, job: Job) -> None:
        """Have a job done after those before it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put(job)

    @property
    def busy(self) -> bool:
        """Whether a job is not done yet."""
        return self._jobs.unfinished_tasks > 0

    def wait(self) -> None:
        """Return when all jobs are done."""
        self._jobs.join()

    def close(self) -> None:
        """Wait for all jobs, and end the thread."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            finally:
                self._jobs.task_done()
        self._jobs.task_done()


class Inline:
    """Does a job at once."""

    busy = False

    def __init__(self) -> None:
        self.turn: AbstractContextManager[object] = nullcontext()

    def submit(self, job: Job) -> None:
        """Do it."""
        job()

    def wait(self) -> None:
        """Nothing to wait for."""

    def close(self) -> None:
        """Nothing to end."""
