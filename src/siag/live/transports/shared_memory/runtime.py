"""`SharedMemory`: the runtime by default."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from siag.foundations.errors import BadInput
from siag.live.runtime import Runtime
from siag.live.session import Session
from siag.live.spec import check_modules
from siag.live.task import Task
from siag.live.transports.shared_memory.server import Embedded

MOST_WORKERS = 1000  # processes
FILES, SPARE_FILES = 4, 50  # open files for each worker, and for all else


class SharedMemory(Runtime):
    """The runtime by default: worker processes on this machine.

    Args:
        preload: names of modules that are imported once, before workers start, each of which then has them.
    """

    def __init__(self, *, preload: Sequence[str] = ()) -> None:
        check_modules(preload)
        self._preload = tuple(preload)

    def check_workers(self, workers: int) -> None:
        """Refuse more processes, or more open files, than there can be."""
        if workers > MOST_WORKERS:
            raise BadInput("workers", workers, f"at most {MOST_WORKERS} on one machine", "use siag serve and siag work")
        if sys.platform != "win32":
            import resource

            files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            room = (files - SPARE_FILES) // FILES
            if files != resource.RLIM_INFINITY and workers > room:
                allowed = f"at most {room} with {files} files open at a time"
                raise BadInput("workers", workers, allowed, "raise the limit: ulimit -n")

    def describe(self, workers: int) -> str:
        """Processes."""
        return f"live, {workers} process{'es' * (workers > 1)} on one machine"

    def carry(self, session: Session, tasks: list[Task]) -> None:
        """Start the processes, serve them, and end them."""
        Embedded(session, tasks, self._preload).run()
