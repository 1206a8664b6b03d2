"""When not to use sIAG: who wins at equal iterations, samples, bytes and time, as workers differ, and grow unequal."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from siag.activity import Clock, EveryArrivals, Exponential, Recorded, WaitForAll
from siag.activity.agenda import STEP as STEPPED
from siag.activity.recorded import Tape
from siag.experiments.setting import Scale, Tick, each
from siag.foundations.types import Floats
from siag.methods import SGD, SIAG, AsyncSGD, FedAvg, Method
from siag.problems import LeastSquares
from siag.report import BLUE, ORANGE, PURPLE, Basis, Chapter, Claim, Columns
from siag.simulation import simulate
from siag.simulation.tuning import find_step, quiet
from siag.steps import Harmonic
from siag.theory import advantage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

D, P, NOISE, K = 10, 200, 1.0, 5
DIFFERENCES = (0.1, 2.0, 10.0)  # mean ‖∇F_i(w*)‖²/σ*²
SPEEDS = (1.0, 10.0, 100.0)  # how many times as fast the fastest worker is as the slowest
AXES = ("iterations", "samples", "bytes", "time")
CLOSE = 1.5  # a predicted factor between two methods that does not decide
FEWER = 4  # equal iterations are fewer by this factor: one of a server that waits takes n samples
GREY = "#7d8893"
LINES: tuple[tuple[str, Method, bool, str], ...] = (  # name, method, whether the server waits for all, colour
    ("sIAG", SIAG(), False, BLUE),
    ("asynchronous SGD", AsyncSGD(), False, ORANGE),
    ("synchronous SGD", SGD(), True, GREY),
    (f"FedAvg, K = {K}", FedAvg(steps=K, size=1.0), True, PURPLE),
)
NAMES = [name for name, *_ in LINES]


@dataclass(frozen=True)
class Cell:
    """Workers of one kind, and how the methods do with them."""

    n: int
    difference: float
    speed: float
    errors: dict[str, Floats]  # by axis, the errors of all methods
    predicted: float  # of SGD over sIAG at equal samples

    def winner(self, axis: str) -> int:
        """Whose error is the smallest."""
        return int(np.argmin(self.errors[axis]))


def choosing(scale: Scale, tick: Tick) -> Chapter:
    """A map of who wins, and the rule behind it."""

    def filled(index: int) -> Cell:
        cell = _fill(*grid[index], scale)
        tick()
        return cell

    grid: list[tuple[int, float, float]] = list(product(scale.crowds, DIFFERENCES, SPEEDS))
    with quiet():
        cells = each(filled, len(grid))
    decided = [cell for cell in cells if not 1.0 / CLOSE < cell.predicted < CLOSE]
    foreseen = sum((cell.predicted > 1.0) == _beats(cell) for cell in decided)
    alike = [cell for cell in cells if cell.difference == DIFFERENCES[0] and cell.speed == 1.0]
    apart = [cell for cell in cells if cell.difference == DIFFERENCES[-1] and cell.speed > 1.0]
    slow = [cell for cell in cells if cell.speed == SPEEDS[-1]]
    late = [float(cell.errors["time"][2] / cell.errors["time"][0]) for cell in slow]
    claims = [
        Claim(
            "Where workers are alike, sIAG loses to asynchronous SGD",
            "siag.theory.advantage",
            f"workers that differ by {DIFFERENCES[0]:g} of their noise, equally fast: a larger error for all n",
            _ratios(alike),
            not any(map(_beats, alike)),
            Basis.OURS,
        ),
        Claim(
            "Where they differ and are unequally fast, asynchronous SGD loses to sIAG",
            "Sec. I; siag.theory.advantage",
            f"workers that differ by {DIFFERENCES[-1]:g} times their noise, speeds 1 : {SPEEDS[1]:g} and "
            f"1 : {SPEEDS[2]:g}: a smaller error for all n",
            _ratios(apart),
            all(map(_beats, apart)),
            Basis.OURS,
        ),
        Claim(
            "Where some are much slower, waiting for everyone loses to sIAG at equal time",
            "beyond the paper: messages that travel, Sec. II",
            f"speeds 1 : {SPEEDS[-1]:g}: synchronous SGD's error is larger in all {len(slow)} cases",
            f"{min(late):.1f} to {max(late):.1f} times sIAG's",
            min(late) > 1.0,
            Basis.OURS,
        ),
        Claim(
            "The exact theory foresees which of the two wins",
            "siag.theory.advantage",
            f"in all but one of the {len(decided)} cases in which it predicts a factor of {CLOSE:g} or more, the steps "
            "being those that a search finds",
            f"in {foreseen} of {len(decided)}",
            foreseen >= len(decided) - 1,
            Basis.OURS,
        ),
    ]
    table: Columns = {
        "n": [cell.n for cell in cells],
        "difference": [cell.difference for cell in cells],
        "speeds": [cell.speed for cell in cells],
        "predicted SGD over sIAG": [cell.predicted for cell in cells],
        **{
            f"{name}, equal {axis}": [float(cell.errors[axis][k]) for cell in cells]
            for axis in AXES
            for k, name in enumerate(NAMES)
        },
    }
    caption = (
        f"Who has the smallest error, at equal amounts of what the columns say, {scale.choosing:,} reports of an "
        "asynchronous server; the numbers: how many times as large that of the next best is. Means of four runs, steps "
        "found for every method, case and amount."
    )
    title = "When not to use sIAG"
    return Chapter("choosing", title, _text(cells), _draw(cells), caption, {"choosing": table}, claims)


def _text(cells: list[Cell]) -> list[str]:
    wins = {axis: sum(cell.winner(axis) == 0 for cell in cells) for axis in AXES}
    return [
        "sIAG uses a gradient again until its worker's next report. That is its price: noise counts for κ = E[G²]/E[G] "
        "instead of 1, G being the gaps between two reports. What it buys is that nobody waits, that nobody counts for "
        "more than others, and that it does not matter who happens to report. There are workers for which that is not "
        "worth its price.",
        "<b>A rule to remember.</b> Ask first what is scarce. <i>Samples or bytes</i>: wait for everyone, and take "
        "local steps if it is bytes; who does not wait computes from older models, and cannot win that back. "
        "<i>Time</i>, or streams that do not wait: compare how far the workers' own gradients are from each other with "
        "how noisy one gradient is. If they differ by less and all are about equally fast, use asynchronous SGD; sIAG "
        "has about twice its error. If they differ by more, or differ at all and some report more often than others, "
        "use sIAG; SGD's error stops falling. Workers that report only a few times in a whole run cost sIAG its lead: "
        "run longer, or let them send larger batches.",
        f"Of these {len(cells)} cases sIAG wins "
        + ", ".join(f"{wins[axis]} at equal {axis}" for axis in AXES)
        + ". Iterations are no fair measure: one of a server that waits takes n samples, with K local steps nK. All "
        "workers have the same Hessian here, which is the best case for local steps.",
    ]


def _beats(cell: Cell) -> bool:
    return bool(cell.errors["samples"][0] < cell.errors["samples"][1])


def _ratios(cells: list[Cell]) -> str:
    """sIAG's error over asynchronous SGD's."""
    each_of = [(cell.errors["samples"][:2], cell) for cell in cells]
    return "; ".join(f"{a / b:.2g} times, n = {cell.n}, speeds 1 : {cell.speed:g}" for (a, b), cell in each_of)


def _fill(n: int, difference: float, speed: float, scale: Scale) -> Cell:
    """All methods on workers of one kind, each with the iterations it has a budget for, and steps found for that."""
    problem, slowness = _problem(n, difference), np.geomspace(1.0, speed, n).tolist()
    clocks = {
        waits: Clock(Exponential(1.0), server=WaitForAll() if waits else EveryArrivals(), slowness=slowness)
        for waits in (False, True)
    }
    found: dict[tuple[int, int], float] = {}
    errors = {axis: np.empty(len(LINES)) for axis in AXES}
    seconds = _seconds(clocks[False], SIAG(), n, scale)
    for axis, (k, (_, method, waits, _)) in product(AXES, enumerate(LINES)):
        work = int(np.max(method.work(n)))
        budgets = {
            "iterations": scale.choosing // FEWER,
            "samples": scale.choosing // (n * work) if waits else scale.choosing,
            "bytes": scale.choosing // n if waits else scale.choosing,
            "time": round(scale.choosing * seconds / _seconds(clocks[waits], method, n, scale)),
        }
        iterations = max(1, budgets[axis])
        if (k, iterations) not in found:
            found[k, iterations] = _error(problem, method, clocks[waits], iterations, scale.seed)
        errors[axis][k] = found[k, iterations]
    pattern = _pattern(clocks[False], n, scale)
    ratio = float(advantage(problem, pattern, Harmonic(2.0 / P, scale.choosing / 10)).ratio(scale.choosing))
    return Cell(n, difference, speed, errors, ratio)


def _problem(n: int, difference: float) -> LeastSquares:
    """Least squares whose workers' gradients at w* differ by this much, over the variance of one gradient's noise."""
    apart = np.random.default_rng(n).standard_normal((n, D))
    apart -= apart.mean(axis=0)
    apart /= np.sqrt(np.square(apart).sum(axis=1).mean())
    square = difference * NOISE**2 * P * D / (P * P - difference * P * (D + 1))
    return LeastSquares(1.0 / np.sqrt(D) + np.sqrt(square) * apart, P, NOISE)


def _seconds(clock: Clock, method: Method, n: int, scale: Scale) -> float:
    """How long an iteration takes on average."""
    iterations = 200 * (1 if isinstance(clock.server, WaitForAll) else n)
    last = [chunk.time[-1] for chunk in clock.paced(method.work(n)).events(n, iterations, scale.seed, 0, D)][-1]
    return float(last) / iterations


def _pattern(clock: Clock, n: int, scale: Scale) -> Recorded:
    """Who reports when, for as long that the gaps of the slowest are known well."""
    iterations, codes = max(scale.choosing, 100_000), []
    for chunk in clock.paced(1).events(n, iterations, scale.seed, 0, D):
        codes.append(chunk.code[(chunk.code >= 0) & (chunk.code != STEPPED)].copy())
    workers = np.concatenate(codes)
    return Recorded(Tape(np.arange(len(workers) + 1), workers))


def _error(problem: LeastSquares, method: Method, clock: Clock, iterations: int, seed: int) -> float:
    """The mean error at the end, with the best step that the one rule finds."""
    found = find_step(method.tuned, problem, clock, iterations, unit=1.0 / P, seed=seed)
    made, step = method.tuned(found.eta, iterations / 10.0)
    run = simulate(problem, made, clock, step, iterations=iterations, repeats=4, seed=seed, record=1, threads=1)
    return float(run.mean[-1]) if np.isfinite(run.mean[-1]) else np.inf


def _draw(cells: list[Cell]) -> Figure:
    """A row of maps for each n, a column for each axis; colours say who wins."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    picture = Figure(figsize=(9.0, 5.2), layout="constrained")
    sizes = sorted({cell.n for cell in cells})
    panels = picture.subplots(len(sizes), len(AXES), sharex=True, sharey=True, squeeze=False)
    for (row, n), (column, axis) in product(enumerate(sizes), enumerate(AXES)):
        ax = panels[row, column]
        for cell in cells:
            if cell.n == n:
                _paint(ax, cell, axis)
        ax.set(xlim=(0, len(DIFFERENCES)), ylim=(0, len(SPEEDS)))
        ax.set_xticks(np.arange(len(DIFFERENCES)) + 0.5, [f"{value:g}" for value in DIFFERENCES])
        ax.set_yticks(np.arange(len(SPEEDS)) + 0.5, [f"1 : {value:g}" for value in SPEEDS])
        ax.tick_params(length=0)
        ax.grid(False)
        if row == 0:
            ax.set_title(f"equal {axis}")
        if row == len(sizes) - 1:
            ax.set_xlabel("difference / noise")
        if column == 0:
            ax.set_ylabel(f"n = {n}\nspeeds")
    keys = [Patch(facecolor=color, label=name) for name, _, _, color in LINES]
    picture.legend(handles=keys, loc="outside lower center", ncols=len(LINES))
    return picture


def _paint(ax: Axes, cell: Cell, axis: str) -> None:
    from matplotlib.patches import Rectangle

    left, low = DIFFERENCES.index(cell.difference), SPEEDS.index(cell.speed)
    best, second = np.sort(cell.errors[axis])[:2]
    color = LINES[cell.winner(axis)][3]
    ax.add_patch(Rectangle((left, low), 1.0, 1.0, facecolor=color, edgecolor="white", linewidth=2.0))
    times = second / best
    text = f"{times:.1f}" if times < 9.95 else f"{times:.0f}" if times < 999.5 else "> 999"
    ax.text(left + 0.5, low + 0.5, text, ha="center", va="center", color="white", fontsize=9)
