"""Machine code is made once, however many processes need it at the same time: the others wait, and find it on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # on Windows each makes its own
    fcntl = None  # type: ignore[assignment]


def made_once(made: Any) -> Any:
    """Let a function of Numba's that is kept on disk compile only while no other process compiles it."""
    make: Callable[[Any], Any] = made.compile
    path = Path(made.stats.cache_path) / f".{made.py_func.__qualname__}.lock"

    def compile_alone(signature: Any) -> Any:
        with _alone(path):
            return make(signature)

    made.compile = compile_alone
    return made


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock of this name; where there can be none, go on without."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    except OSError:
        yield
        return
    try:
        if fcntl is not None:
            with suppress(OSError):  # a disk that knows no locks
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):  # another process may have done so already; whoever waits has the file open
            path.unlink()
        os.close(handle)
