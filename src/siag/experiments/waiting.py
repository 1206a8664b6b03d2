"""Beyond the paper's iterations: a virtual clock with stragglers, and what is gained by not waiting for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from siag.activity import Clock, EveryArrivals, Exponential, Pareto, Times, WaitForAll
from siag.experiments.setting import Scale, Tick, draw
from siag.foundations.types import Floats
from siag.methods import SGD, SIAG, Method
from siag.report import BLUE, INK, ORANGE, Chapter, Claim, figure, logarithmic
from siag.simulation import Run, simulate
from siag.theory import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N = 40
SLOWEST = 4.0
OLDEST = 10 * N  # arrivals; what the step is planned for
TIMES: tuple[tuple[str, Times], ...] = (
    ("exponential", Exponential(1.0)),
    ("Pareto, infinite variance", Pareto(1.0, alpha=1.5)),
)

LINES: tuple[tuple[str, Method, EveryArrivals | WaitForAll, int, str, str], ...] = (
    ("asynchronous sIAG", SIAG(), EveryArrivals(), OLDEST, BLUE, "-"),
    ("asynchronous SGD", SGD(), EveryArrivals(), OLDEST, ORANGE, "-."),
    ("synchronous SGD", SGD(), WaitForAll(), 0, INK, "--"),
)


def waiting(scale: Scale, tick: Tick) -> Chapter:
    """The same workers under three servers, against simulated seconds."""
    seconds = scale.iterations / 4.0
    runs = {law: _runs(times, seconds, scale, tick) for law, times in TIMES}
    errors = {law: [_error_at(run, seconds) for run in own.values()] for law, own in runs.items()}
    siag, biased, synchronous = errors["exponential"]
    heavy, heavy_biased, heavy_synchronous = errors["Pareto, infinite variance"]
    claims = [
        Claim(
            "Not waiting for everyone pays, if the times have a moderate spread",
            "beyond the paper: messages that travel, Sec. II",
            f"exponential times, after {seconds:,.0f} s: sIAG below synchronous SGD by a factor of at least 1.5",
            f"{siag:.2e} against {synchronous:.2e}, {synchronous / siag:.2f} times lower",
            synchronous >= 1.5 * siag,
        ),
        Claim(
            "Aggregation keeps asynchrony from biasing the model",
            "beyond the paper: messages that travel, Sec. II",
            f"after {seconds:,.0f} s: asynchronous sIAG below half the error of asynchronous SGD, for both laws",
            f"{biased / siag:.1f} and {heavy_biased / heavy:.1f} times lower",
            biased > 2 * siag and heavy_biased > 2 * heavy,
        ),
    ]
    text = [
        "So far a gradient was computed and received within one iteration. Here time is simulated: each of "
        f"n = {N} workers reads w, is away for a random time, reports, and reads again; the slowest is {SLOWEST:g} "
        "times slower than the fastest. The asynchronous servers step at every arrival, the synchronous one when all "
        "have arrived. All see the same workers with the same times, and take their steps by the same rule "
        "(<code>siag theory</code>).",
        "Synchronous SGD is unbiased but spends its time waiting for the last. Asynchronous SGD does not wait, and "
        "ends where its bias begins. sIAG neither waits nor forgets anybody. But a straggler's old gradient is used as "
        "long as it is away, which costs a factor κ = E[G²]/E[G]: with exponential times synchronous SGD has "
        f"{synchronous / siag:.1f} times its error, with times of infinite variance (right) only "
        f"{heavy_synchronous / heavy:.1f} times.",
    ]
    caption = "Error against simulated seconds, mean of 20 runs ± 2 standard errors."
    tables = {
        f"clock-{law.split(',')[0].lower()}-{name.lower().replace(' ', '-')}": run.table()
        for law, own in runs.items()
        for name, run in own.items()
    }
    title = "What is gained by not waiting for everyone"
    return Chapter("clock", title, text, _draw(runs, seconds), caption, tables, claims)


def _runs(times: Times, seconds: float, scale: Scale, tick: Tick) -> dict[str, Run]:
    """One run per server, each a little longer than `seconds`."""
    slowness = np.linspace(1.0, SLOWEST, N)
    arrivals, rounds = float((1.0 / slowness).sum()), 0.12
    runs = {}
    for name, method, server, oldest, _, _ in LINES:
        problem = draw(N, 0)
        step = Plan(*problem.constants(), N, oldest).step
        clock = Clock(compute=times, server=server, slowness=slowness.tolist())
        rate = arrivals if isinstance(server, EveryArrivals) else rounds
        iterations = int(1.2 * seconds * rate)
        runs[name] = simulate(problem, method, clock, step, iterations=iterations, repeats=20, seed=scale.seed)
        tick()
    return runs


def _error_at(run: Run, seconds: float) -> float:
    """The mean error at a time, each repeat having its own clock."""
    each: list[Floats] = [np.interp(seconds, time, error) for time, error in zip(run.time, run.error, strict=True)]
    return float(np.mean(each))


def _draw(runs: dict[str, dict[str, Run]], seconds: float) -> Figure:
    picture, axes = figure(2)
    for ax, (law, own) in zip(axes, runs.items(), strict=True):
        for name, _, _, _, color, dashes in LINES:
            own[name].plot(ax, x="time", color=color, linestyle=dashes, label=name)
        logarithmic(ax, "simulated seconds", "‖wᵗ − w*‖²" if ax is axes[0] else "")
        ax.axvline(seconds, color=INK, linewidth=0.6)
        ax.set_xlim(1.0, 1.2 * seconds)
        ax.set_title(f"Times: {law}")
    axes[0].legend(loc="lower left")
    return picture
