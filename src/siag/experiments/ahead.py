"""Machine code made ahead: while a report's first chapters run, another process makes what later ones need.

From an empty cache half of the work of a report is making machine code, one piece after the other on one core.
`python -m siag.experiments.ahead` makes it, by running the chapters with next to nothing to do, and a live run in
virtual time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from siag.experiments.setting import Scale
from siag.report import styled

CHAPTERS = ("Theorem 1", "lemmas", "exact gradients", "virtual clock", "other methods")
LEAST = Scale(
    sizes=(10, 20),
    iterations=200,
    repeats=2,
    draws=1,
    checks=2,
    horizon=600,
    gammas=0.01,
    contest=50,
    choosing=20,
    crowds=(8,),
)


@contextmanager
def made_ahead() -> Iterator[None]:
    """Start the other process as soon as machine code turns out to be missing, and end it with the report."""
    from numba.core import event

    started: list[subprocess.Popen[bytes]] = []

    class Missed(event.Listener):  # type: ignore[misc]  # Numba has no types
        def on_start(self, _: object) -> None:
            if not started:
                quiet = subprocess.DEVNULL
                started.append(subprocess.Popen([sys.executable, "-m", __name__], stdout=quiet, stderr=quiet))

        def on_end(self, _: object) -> None:
            pass

    listener = Missed()
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
        for process in started:
            process.kill()
            process.wait()


def main() -> None:
    """Run the chapters that need machine code which no chapter before has; what fails will be told where it counts."""
    from siag.experiments.live import rehearse
    from siag.experiments.reproduce import parts

    makers = {name: make for name, make, _ in parts(LEAST)}
    with styled():
        for name in CHAPTERS:
            with suppress(Exception):
                makers[name](LEAST, lambda: None)
        with suppress(Exception):
            rehearse(LEAST.seed)


if __name__ == "__main__":
    main()
