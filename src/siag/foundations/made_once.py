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
    handle = None
    with suppress(OSError):  # a disk that is full, read-only, or knows no locks
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _locked(path)
    try:
        yield
    finally:
        if handle is not None:
            with suppress(OSError):
                path.unlink()
            os.close(handle)


def _locked(path: Path) -> int:
    """Lock the file of this name; once more if it was removed meanwhile, as a process does when it lets go of it."""
    while True:
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX)
            if fcntl is None or os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
