"""Who does what must not hold up training: executors that do one job after the other, in a thread or at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any


class Inline(Executor):
    """Does a job at once."""

    def submit(self, job: Callable[..., Any], /, *given: Any, **more: Any) -> Future[Any]:
        """Do it."""
        done: Future[Any] = Future()
        self._do(done, partial(job, *given, **more))
        return done

    def _do(self, done: Future[Any], job: Callable[[], Any]) -> None:
        try:
            done.set_result(job())
        except Exception as error:
            done.set_exception(error)


class OneThread(Inline):
    """One thread, started with the first job. Unlike Python's pools it works while other threads outlive the main one.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Return when all jobs are done; there will be no others."""
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()

    def _do(self, done: Future[Any], job: Callable[[], Any]) -> None:
        if self._thread.ident is None:
            self._thread.start()
        self._jobs.put(partial(super()._do, done, job))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
