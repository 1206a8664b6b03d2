"""Machine code made ahead by several processes at once: most of a first comparison, and threads cannot share it.

`python -m siag.experiments.comparison.warm` reads its work from standard input.
"""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any, TypeAlias

import numpy as np

from siag.experiments.claims import claims_of
from siag.experiments.comparison.tuning import Trial
from siag.foundations import check
from siag.foundations.errors import SiagError
from siag.foundations.parallel import cores

Work: TypeAlias = Trial | str
"""A trial, of which one iteration is run, or a paper, whose claims are put to the test."""


def warm(work: Sequence[Work], processes: int | None = None) -> int:
    """Have machine code made and kept on disk to be found; return how many pieces of work went to other processes.

    Work is done here as long as all of its machine code is on disk already; other processes, which take some time to
    start, do what is left. What cannot be sent to them, a part of the user's own, is left to this one for later.
    """
    from numba.core.event import install_recorder

    for k, piece in enumerate(work):
        with install_recorder("numba:compile") as compiled:
            _do(piece)
        if compiled.buffer:
            return _delegate(work[k + 1 :], cores() if processes is None else processes)
    return 0


def _do(piece: Work) -> None:
    if isinstance(piece, Trial):
        with suppress(SiagError):  # it will fail again, and be told, where it is needed
            piece.run(1e-6, 1, threads=1)
    else:
        claims_of(piece)


def _delegate(work: Sequence[Work], processes: int) -> int:
    """Give work to processes, to each the next piece whenever it has done one."""
    waiting: deque[bytes] = deque()
    for piece in work:
        with suppress(pickle.PicklingError, AttributeError, TypeError):
            waiting.append(packed(piece))
    sent = len(waiting)
    command = [sys.executable, "-m", __name__]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    running = [subprocess.Popen(command, **pipes) for _ in range(min(processes, sent))]

    def feed(process: subprocess.Popen[bytes]) -> None:
        given, answers = process.stdin, process.stdout
        with suppress(IndexError, OSError):  # no work is left; or the process is gone
            while given is not None and answers is not None:
                given.write(waiting.popleft())
                given.flush()
                if not answers.read(1):
                    return

    with ThreadPoolExecutor(max(1, len(running))) as pool:
        try:
            list(pool.map(feed, running))
        finally:
            for process in running:
                process.kill()
                process.communicate()
    return sent


def packed(piece: Work) -> bytes:
    """A piece of work to be sent: read-only arrays stay so, being of another type to Numba than those that are not."""
    stream = io.BytesIO()
    _Pickler(stream).dump(piece)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Have a read-only array made read-only again; leave all else as it is."""
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            return check.read_only, (value.copy(),)
        return NotImplemented


def main(given: IO[bytes], answers: IO[bytes]) -> None:
    """Do one piece of work after the other; what fails here will fail, and be told, where it is needed."""
    while True:
        try:
            piece = pickle.load(given)
        except EOFError:
            return
        with suppress(Exception):
            _do(piece)
        answers.write(b".")
        answers.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
