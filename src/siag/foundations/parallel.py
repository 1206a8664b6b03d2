"""Independent tasks on a pool of threads, with progress, and a Ctrl-C that is obeyed at once.

Threads, not processes: the tasks spend their time in compiled code that holds no lock, and share the problem's arrays.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from siag.foundations import check

T = TypeVar("T")

Progress: TypeAlias = bool | Callable[[float], None]
"""`True` for a bar on the terminal, `False` for silence, or a function to be called with the fraction done."""


class Cancelled(Exception):
    """Raised inside a task whose result nobody waits for any more."""


class Watch:
    """What a task reports to: it counts work done, and ends the task once another has failed or was interrupted."""

    def __init__(self, total: int, show: Callable[[float], None]) -> None:
        self._total, self._show = total, show
        self._done = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def did(self, work: int) -> None:
        """Report some work; raise `Cancelled` if no more is wanted."""
        if self._stop.is_set():
            raise Cancelled
        with self._lock:
            self._done += work
            self._show(self._done / self._total)

    def stop(self) -> None:
        """End all tasks at their next report."""
        self._stop.set()

    def stopped(self) -> bool:
        """Whether tasks are to end."""
        return self._stop.is_set()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    task: Callable[[int, Watch], T],
    count: int,
    *,
    work: int,
    threads: int | None,
    progress: Progress,
    title: str,
    apart: bool = False,
) -> list[T]:
    """`[task(0), …, task(count − 1)]`, each of which reports `work` in all to its watch.

    With `apart` no task runs in the main thread, where signals interrupt it.
    """
    threads = min(cores(), count) if threads is None else min(check.integer("threads", threads), count)
    with _shown(progress, title) as show:
        watch = Watch(count * work, show)
        if threads == 1 and not (apart and threading.current_thread() is threading.main_thread()):
            return [task(index, watch) for index in range(count)]
        with ThreadPoolExecutor(threads, "siag-pool") as pool:
            futures: list[Future[T]] = []
            try:
                futures = [pool.submit(task, index, watch) for index in range(count)]
                ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in ended:
                    future.result()  # the first error, before the tasks that it makes pointless are waited for
                return [future.result() for future in futures]
            finally:
                watch.stop()
                pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _shown(progress: Progress, title: str) -> Iterator[Callable[[float], None]]:
    """Yield a function to be called with the fraction done."""
    if callable(progress):
        yield progress
    elif not progress:
        yield lambda _: None
    else:
        from rich.console import Console
        from rich.progress import Progress as Bar

        with Bar(transient=True, console=Console(stderr=True)) as bar:
            task = bar.add_task(title, total=1.0)
            yield lambda fraction: bar.update(task, completed=fraction)
