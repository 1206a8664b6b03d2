"""For real: worker processes of unequal speed on this machine, and what a replay of their trace shows."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from siag.activity import Recorded, Trace
from siag.experiments.setting import STEP, Scale, Tick, draw
from siag.foundations.types import Floats
from siag.methods import SGD, SIAG, Method
from siag.problems import LeastSquares
from siag.report import BLUE, INK, ORANGE, Chapter, Claim, figure, logarithmic
from siag.runtimes import Until, train
from siag.simulation import Run, simulate
from siag.theory import biased_optimum, shares

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N = 8
FASTEST, SLOWEST = 0.0002, 0.004  # seconds a worker waits before each gradient: 1 to 20
LINES: tuple[tuple[str, Method, str], ...] = (("sIAG", SIAG(), BLUE), ("SGD", SGD(), ORANGE))


def live(scale: Scale, tick: Tick) -> Chapter:
    """Eight processes under sIAG and under SGD, and each run again from its trace."""
    problem = draw(N, 0)
    runs, again, traces = {}, {}, {}
    for name, method, _ in LINES:
        runs[name], traces[name] = _for_real(problem, method, scale)
        tick()
        again[name] = simulate(
            problem, method, traces[name], STEP, iterations=traces[name].length, seed=scale.seed, threads=1
        )
        tick()
    errors = {name: float(run.error[0, -1]) for name, run in runs.items()}
    same = all(np.array_equal(again[name].w, run.w) for name, run in runs.items())
    pattern = traces["SGD"].recorded
    wrong = biased_optimum(problem, pattern)
    bias, missed = (float(np.square(point - wrong).sum()) for point in (problem.optimum, runs["SGD"].w[0]))
    spread = _spread(pattern)
    claims = [
        Claim(
            "A live run can be run again, bit for bit",
            "the trace of who reported when, from which version",
            "the replay's last iterate equals the live one, for both methods",
            "equal" if same else "different",
            same,
        ),
        Claim(
            "Live, too, sIAG is not biased by fast workers",
            f"Sec. IV, with {N} real processes, the fastest reporting {spread:.0f} times as often as the slowest",
            "sIAG ends with less than a third of SGD's error",
            f"{errors['sIAG']:.1e} against {errors['SGD']:.1e}",
            errors["sIAG"] < errors["SGD"] / 3,
        ),
        Claim(
            "Live SGD goes where its participation takes it",
            "beyond the paper: the biased optimum of the recorded shares",
            "closer to the optimum of the recorded shares than a tenth of the bias",
            f"{missed:.1e} from there, the bias being {bias:.1e}",
            missed < 0.1 * bias,
        ),
    ]
    counts = {name: int(run.samples[0, -1]) for name, run in runs.items()}
    text = [
        f"Nothing is simulated here: {N} worker processes of this machine, which wait for {FASTEST * 1e3:g} to "
        f"{SLOWEST * 1e3:g} ms before each gradient, report to a parameter server that steps at every arrival. In "
        f"{scale.live:g} seconds each, sIAG took in {counts['sIAG']:,} gradients and SGD "
        f"{counts['SGD']:,}.",
        "Each run left a trace, from which the simulator ran it again: dots on the lines. Who reported when is not "
        "known before the run, so its numbers differ from run to run; the replay's do not.",
    ]
    caption = "Error against seconds of real time, and of the replay (dots)."
    tables = {f"live-{name.lower()}": run.table() for name, run in runs.items()}
    return Chapter("live", "Live: real processes of unequal speed", text, _draw(runs, again), caption, tables, claims)


def _for_real(problem: LeastSquares, method: Method, scale: Scale) -> tuple[Run, Trace]:
    """A live run and its trace."""
    pauses = np.geomspace(FASTEST, SLOWEST, N).tolist()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.csv"
        run = train(
            problem=problem,
            method=method,
            step=STEP,
            until=Until(seconds=scale.live),
            pauses=pauses,
            seed=scale.seed,
            trace=path,
        )
        return run, Trace.read(path)


def _spread(pattern: Recorded) -> float:
    """How many times as often the fastest worker reports as the slowest; infinite if that one has not yet."""
    parts: Floats = shares(pattern, N)
    return float(parts.max() / parts.min()) if parts.all() else math.inf


def _draw(runs: dict[str, Run], again: dict[str, Run]) -> Figure:
    picture, (ax,) = figure(width=7.0)
    for name, _, color in LINES:
        ax.plot(runs[name].time[0], runs[name].error[0], color=color, label=f"{name}, live")
        dots = slice(None, None, max(1, len(again[name].t) // 25))
        ax.plot(again[name].time[0][dots], again[name].error[0][dots], "o", color=INK, markersize=2.5)
    ax.plot([], [], "o", color=INK, markersize=2.5, label="replay")
    logarithmic(ax, "seconds", "‖wᵗ − w*‖²")
    ax.set_xscale("linear")
    ax.legend()
    return picture
