"""For real: worker processes of unequal speed on this machine, and what a replay of their trace shows."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from siag.activity import Recorded, Trace
from siag.experiments.setting import STEP, Scale, Tick, draw
from siag.foundations.types import Floats
from siag.methods import IAG, SGD, SIAG, Method
from siag.methods.async_sgd import AsyncSGD
from siag.problems import LeastSquares
from siag.report import BLUE, INK, ORANGE, Chapter, Claim, figure, logarithmic
from siag.runtimes import Simulated, Until, train
from siag.simulation import Run, simulate
from siag.theory import shares

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N = 8
FASTEST, SLOWEST = 0.0002, 0.004  # seconds a worker waits before each gradient: 1 to 20
LIMIT = 300.0  # seconds after which a run ends, however few reports there are
AGAIN = 20  # runs from a trace with samples of their own, to see how much noise there is
CHANCE = 10.0  # times the mean of a squared distance, in 20 dimensions: by chance less than once in 10²⁰
LINES: tuple[tuple[str, Method, str], ...] = (("sIAG", SIAG(wait=1.0), BLUE), ("SGD", SGD(), ORANGE))
EXACT: dict[str, Method] = {"sIAG": IAG(wait=1.0), "SGD": AsyncSGD(gradients="exact")}  # the same without noise


def live(scale: Scale, tick: Tick) -> Chapter:
    """Eight processes under sIAG and under SGD, and each run again from its trace."""
    problem = draw(N, 0)
    runs, again, traces, noises = {}, {}, {}, {}
    for name, method, _ in LINES:
        runs[name], traces[name] = _for_real(problem, method, scale)
        tick()
        again[name] = _replay(problem, method, traces[name], scale.seed)
        noises[name] = _noise(problem, name, method, traces[name], scale.seed, runs[name])
        tick()
    same = all(np.array_equal(again[name].w, run.w) for name, run in runs.items())
    biases = [_bias(problem, name, traces["sIAG"]) for name in EXACT]
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
            f"Sec. IV, with {N} real processes, the fastest reporting {_spread(traces['sIAG'].recorded):.0f} times as "
            "often as the slowest",
            "along the trace of sIAG's run ‖E w − w*‖² of sIAG is less than a third of that of SGD; both follow from "
            "the trace, by replays with exact gradients",
            f"{biases[0]:.1e} against {biases[1]:.1e}",
            biases[0] < biases[1] / 3,
        ),
        *(_goes_where_taken(name, noises[name]) for name in runs),
    ]
    counts = {name: int(run.samples[0, -1]) for name, run in runs.items()}
    text = [
        f"Nothing is simulated here: {N} worker processes of this machine, which wait for {FASTEST * 1e3:g} to "
        f"{SLOWEST * 1e3:g} ms before each gradient, report to a parameter server that steps at every arrival, sIAG's "
        f"once it has heard from everybody. sIAG took in {counts['sIAG']:,} gradients and SGD {counts['SGD']:,}.",
        "Each run left a trace, from which the simulator ran it again: dots on the lines. Who reported when is not "
        "known before the run, so its numbers differ from run to run; the replay's do not. So claims are judged by "
        "what the trace implies: its samples replaced by exact gradients, a replay ends at E w.",
    ]
    caption = "Error against seconds of real time, and of the replay (dots)."
    tables = {f"live-{name.lower()}": run.table() for name, run in runs.items()}
    return Chapter("live", "Live: real processes of unequal speed", text, _draw(runs, again), caption, tables, claims)


def rehearse(seed: int) -> None:
    """A few reports in virtual time: in one process, by the machine code that the chapter needs."""
    for _, method, _ in LINES:
        until = Until(reports=2 * N)
        train(problem=draw(N, 0), method=method, step=STEP, until=until, seed=seed, runtime=Simulated(seed=seed))


def _for_real(problem: LeastSquares, method: Method, scale: Scale) -> tuple[Run, Trace]:
    """A live run and its trace."""
    pauses = np.geomspace(FASTEST, SLOWEST, N).tolist()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.csv"
        run = train(
            problem=problem,
            method=method,
            step=STEP,
            until=Until(reports=scale.live, seconds=LIMIT),
            pauses=pauses,
            seed=scale.seed,
            trace=path,
        )
        return run, Trace.read(path)


def _replay(problem: LeastSquares, method: Method, trace: Trace, seed: int, repeats: int = 1) -> Run:
    return simulate(
        problem, method, trace, STEP, iterations=trace.length, seed=seed, repeats=repeats, threads=1, record=200
    )


def _mean(problem: LeastSquares, name: str, trace: Trace) -> Floats:
    """(d,) E w given who reported when: gradients are affine in w, so that their noise may be left out."""
    w: Floats = _replay(problem, EXACT[name], trace, 0).w[0]
    return w


def _bias(problem: LeastSquares, name: str, trace: Trace) -> float:
    return float(np.square(_mean(problem, name, trace) - problem.optimum).sum())


class Noise(NamedTuple):
    """How far runs along one trace end from their mean."""

    live: float  # ‖w − E w‖² of the live run
    replayed: float  # its mean over replays with samples of their own
    bias: float  # ‖E w − w*‖²


def _noise(problem: LeastSquares, name: str, method: Method, trace: Trace, seed: int, run: Run) -> Noise:
    mean = _mean(problem, name, trace)
    others = _replay(problem, method, trace, seed + 1, AGAIN).w
    replayed = float(np.square(others - mean).sum(axis=1).mean())
    return Noise(float(np.square(run.w[0] - mean).sum()), replayed, float(np.square(mean - problem.optimum).sum()))


def _goes_where_taken(name: str, noise: Noise) -> Claim:
    return Claim(
        f"Live {name} goes where its participation takes it",
        "beyond the paper: E w given the recorded trace",
        f"‖w − E w‖² at most {CHANCE:g} times its mean over {AGAIN} replays with samples of their own",
        f"{noise.live:.1e}, the mean {noise.replayed:.1e}; ‖E w − w*‖² = {noise.bias:.1e}",
        noise.live <= CHANCE * noise.replayed,
    )


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
