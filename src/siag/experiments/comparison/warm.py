"""Machine code made ahead by several processes at once: most of a first comparison, and threads cannot share it.

`python -m siag.experiments.comparison.warm` reads its share of the work from standard input.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from siag.activity import Activity
from siag.experiments.claims import claims_of
from siag.experiments.comparison.contenders import Contender
from siag.experiments.comparison.tuning import run_with
from siag.foundations.parallel import cores
from siag.problems import Problem

Work = Sequence[tuple[Contender, Problem, Activity]]


def warm(work: Work, papers: Sequence[str] = (), processes: int | None = None) -> None:
    """Have machine code made for every combination, and for the claims of some papers, and kept on disk to be found.

    What cannot be sent to another process, a part of the user's own, is left to this one.
    """
    count = max(1, cores() if processes is None else processes)
    running = []
    for k in range(count):
        with suppress(pickle.PicklingError, AttributeError, TypeError):
            content = pickle.dumps((list(work[k::count]), list(dict.fromkeys(papers))[k::count]))
            command = [sys.executable, "-m", __name__]
            running.append((subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL), content))
    try:
        for process, content in running:
            with suppress(BrokenPipeError):
                process.stdin.write(content)  # type: ignore[union-attr]  # it is a pipe
                process.stdin.close()  # type: ignore[union-attr]  # as above
        for process, _ in running:
            process.wait()
    finally:
        for process, _ in running:
            process.kill()
            process.wait()


def main() -> None:
    """Compile what standard input says."""
    work, papers = pickle.load(sys.stdin.buffer)
    for contender, problem, activity in work:
        run_with(contender, problem, activity, 1e-6, 1, 1, 0, 1)
    for paper in papers:
        claims_of(paper)


if __name__ == "__main__":
    main()
