"""`siag reproduce`: every figure and every claim of the paper, as one report."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from siag.experiments.agreement import LAWS, agreement
from siag.experiments.ahead import made_ahead
from siag.experiments.bound import bound
from siag.experiments.choosing import DIFFERENCES, SPEEDS, choosing
from siag.experiments.comparison.chapter import methods
from siag.experiments.convergence import METHODS, nonuniform, uniform
from siag.experiments.cyclic import cyclic
from siag.experiments.inequalities import inequalities
from siag.experiments.live import LINES as PROCESSES
from siag.experiments.live import live
from siag.experiments.relatives import LINES as RELATIVES
from siag.experiments.relatives import relatives
from siag.experiments.setting import NOISE, PAPER, STEP, D, P, Scale, Tick
from siag.experiments.speedup import LINES, speedup
from siag.experiments.staleness import LONGEST, staleness
from siag.experiments.waiting import LINES as SERVERS
from siag.experiments.waiting import TIMES, waiting
from siag.foundations.files import writable_folder
from siag.foundations.parallel import cores
from siag.foundations.version import __version__
from siag.report import Chapter, Claim, styled, write_report

TITLE = "Linear speedup of incremental aggregated gradient methods on streaming data"


def reproduce(
    out: str | os.PathLike[str],
    scale: Scale = PAPER,
    progress: Callable[[float, str], None] | None = None,
    found: Callable[[str, Chapter], None] | None = None,
) -> tuple[Path, list[Claim]]:
    """Run all experiments and write the report to the folder `out`; return the page and the claims.

    The folder is tried before the work starts. `progress` is called with the fraction done and what comes next, `found`
    with each chapter as soon as it is there, and what the progress bar calls it.
    """
    folder = writable_folder("out", out)
    began = time.perf_counter()
    wanted = [part for part in parts(scale) if part[0] not in scale.leave_out]
    total, done = sum(ticks for _, _, ticks in wanted), 0
    chapters = []
    with styled(), nullcontext() if scale.leave_out else made_ahead():
        for name, make, ticks in wanted:
            tick = Ticker(progress or (lambda _, __: None), name, done, total)
            chapters.append(make(scale, tick))
            if found is not None:
                found(name, chapters[-1])
            done += ticks
    facts = _facts(scale, time.perf_counter() - began)
    page = write_report(folder, TITLE, facts, chapters, png=not scale.leave_out)
    return page, [claim for chapter in chapters for claim in chapter.claims]


class Ticker:
    """Tells how far the report is, counting from what was done before this chapter."""

    def __init__(self, progress: Callable[[float, str], None], name: str, done: int, total: int) -> None:
        self._progress, self._name, self._done, self._total = progress, name, done, total
        progress(done / total, name)

    def __call__(self) -> None:
        """One more piece of work is done."""
        self._done += 1
        self._progress(self._done / self._total, self._name)


def parts(scale: Scale) -> list[tuple[str, Callable[[Scale, Tick], Chapter], int]]:
    """The chapters in order, each with what to call it while it is being made and how many pieces of work it is."""
    sizes = len(scale.sizes)
    return [
        ("uniform selection", uniform, 2 * sizes * len(METHODS) + sizes),
        ("non-uniform selection", nonuniform, sizes * len(METHODS) + sizes + scale.draws),
        ("cyclic selection", cyclic, sizes),
        ("speedup", speedup, 1 + len(LINES)),
        ("staleness", staleness, len(LONGEST)),
        ("Theorem 1", bound, 2),
        ("lemmas", inequalities, 1),
        ("exact gradients", relatives, len(RELATIVES)),
        ("virtual clock", waiting, len(SERVERS) * len(TIMES)),
        ("other methods", methods, 1),
        ("when not to use it", choosing, len(scale.crowds) * len(DIFFERENCES) * len(SPEEDS)),
        ("agreement", agreement, len(METHODS) + len(LAWS)),
        ("real processes", live, 2 * len(PROCESSES)),
    ]


def _facts(scale: Scale, seconds: float) -> dict[str, str]:
    facts = {
        "problem": f"least squares of Sec. IV, d = {D}, p = {P}, σ = {NOISE}, n = {', '.join(map(str, scale.sizes))}",
        "step": f"{STEP}, {scale.iterations:,} iterations from w⁰ = 0, unless said otherwise",
        "runs": f"{scale.repeats} per curve; exact values: mean over up to {scale.draws} problems; seed {scale.seed}",
        "SGD": "mean over the active workers; read literally, eq. (sgd) has a step smaller by |A|/n",
        "made by": f"siag {__version__} on Python {platform.python_version()}, {cores()} cores, {seconds:.0f} s",
        "make it again": "siag reproduce --quick" if scale.leave_out else "siag reproduce",
    }
    return facts | ({"left out": left_out(scale)} if scale.leave_out else {})


def left_out(scale: Scale) -> str:
    """What a quick report does not have, and how to get it."""
    return (
        f"{', '.join(scale.leave_out)}, pictures as PNG; "
        f"curves are means of {scale.repeats} runs instead of {PAPER.repeats}, "
        f"n is at most {max(scale.sizes)} instead of {max(PAPER.sizes)}; siag reproduce has them all"
    )
