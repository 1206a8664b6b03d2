"""Fig. 2 of the paper: sIAG and SGD under uniform and non-uniform selection, for growing n."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from siag.activity import Activity, Recorded
from siag.experiments.deviation import deviation
from siag.experiments.setting import FLAT, NONUNIFORM, STEP, UNIFORM, Scale, Tick, draw, each
from siag.foundations.types import Floats
from siag.methods import SGD, SIAG, Method
from siag.problems import LeastSquares
from siag.report import INK, Chapter, Claim, Columns, figure, logarithmic, name_ends, shades
from siag.simulation import Run, simulate
from siag.theory import Curve, biased_optimum, exact_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHODS: tuple[tuple[str, Method], ...] = (("sIAG", SIAG()), ("SGD", SGD()))


def uniform(scale: Scale, tick: Tick) -> Chapter:
    """Equally fast workers."""
    panels = _panels(UNIFORM, scale, tick)
    siag, sgd = (_final_errors(UNIFORM, method, scale, tick) for _, method in METHODS)
    flat, ratio = _flatness(siag, scale), sgd / siag
    literal = _final_errors(UNIFORM, SGD(normalization="sum"), scale, tick)[-2] / siag[-2]
    claims = [
        Claim(
            "Under uniform selection sIAG speeds up linearly with n",
            "Sec. IV, Fig. 2 top",
            f"n·E the same for n = {_range(scale)}, within {FLAT - 1:.0%}",
            f"{_products(siag, scale)}; largest/smallest {flat:.3f}",
            flat <= FLAT,
        ),
        Claim(
            "SGD is comparable to sIAG under uniform selection",
            "Sec. IV, Fig. 2 top",
            "error of SGD within a factor 2 of sIAG's for every n",
            f"SGD/sIAG from {ratio.min():.2f} to {ratio.max():.2f}",
            bool(ratio.max() <= 2 and ratio.min() >= 0.5),
        ),
    ]
    text = [
        f"All workers are equally fast: gaps between reports are uniform on 1 … {UNIFORM.T}. Each curve is the mean "
        f"over {scale.repeats} runs of ‖w<sup>t</sup> − w*‖², the band two standard errors to either side; the dashed "
        "line is the exact expectation, computed without sampling. Doubling the number of workers halves the error.",
        f"The largest distance between a mean and its exact curve is {_worst(panels):.1f} standard errors, over all "
        f"curves and points. At t = {scale.iterations:,} SGD is {1 / ratio.max():.2f} to {1 / ratio.min():.2f} times "
        "as accurate as sIAG: forgetting stale gradients costs it little here. This is SGD with the mean over the "
        f"active workers; with the sum of eq. (sgd) divided by n, its step is smaller by |A|/n and its error "
        f"{literal:,.0f} times that of sIAG at n = {scale.sizes[-2]}.",
    ]
    return _chapter("uniform", "Equally fast workers: twice the workers, half the error", text, panels, claims)


def nonuniform(scale: Scale, tick: Tick) -> Chapter:
    """Unequal workers."""
    panels = _panels(NONUNIFORM, scale, tick)
    claims = _unbiased(scale, tick)
    text = [
        f"Now the workers differ: the gaps of worker i are uniform on 1 … T<sub>i</sub>, with T<sub>i</sub> between "
        f"{NONUNIFORM.low} and {NONUNIFORM.high}. A fast worker reports up to twice as often as a slow one. sIAG does "
        "not care, since every worker has one row in the table however often it is renewed.",
        "SGD weighs workers by how often they report and so solves another problem, whose optimum is the weighted mean "
        "Σr<sub>i</sub>w<sub>i</sub>*/Σr<sub>i</sub>. Dotted lines show the distance of that point from w*, computed "
        "from the very activity of the runs: this is where the curves of SGD end, however many iterations are spent.",
        f"The largest distance between a mean and its exact curve is {_worst(panels):.1f} standard errors.",
    ]
    return _chapter("nonuniform", "Unequal workers: sIAG stays unbiased, SGD gets stuck", text, panels, claims)


def _unbiased(scale: Scale, tick: Tick) -> list[Claim]:
    """What the paper says of sIAG and SGD under non-uniform selection."""
    siag = _final_errors(NONUNIFORM, SIAG(), scale, tick)
    flat = _flatness(siag, scale)
    n = scale.sizes[-2]
    ends = each(lambda index: _plateau(n, index, scale, tick), scale.draws)
    plateau, predicted, early = np.mean(ends, axis=0)
    final = siag[scale.sizes.index(n)]
    return [
        Claim(
            "Under non-uniform selection sIAG keeps the linear speedup",
            "Sec. IV, Fig. 2 bottom",
            f"n·E the same for n = {_range(scale)}, within {FLAT - 1:.0%}",
            f"{_products(siag, scale)}; largest/smallest {flat:.3f}",
            flat <= FLAT,
        ),
        Claim(
            "SGD does not converge under non-uniform selection",
            "Sec. IV, Fig. 2 bottom",
            "its error stops falling, at ‖Σrᵢwᵢ*/Σrᵢ − w*‖² within 5 % (rᵢ from the recorded activity)",
            f"n = {n}, t = {scale.horizon:,}: error {plateau:.3e}, fixed point {predicted:.3e}, ratio "
            f"{plateau / predicted:.3f}; from t = {scale.horizon // 2:,} on it fell by {1 - plateau / early:.1%}",
            abs(plateau / predicted - 1) <= 0.05 and plateau / early > 0.9,
        ),
        Claim(
            "Aggregating stale gradients is what removes the bias",
            "Sec. IV",
            f"sIAG at t = {scale.iterations:,} far below SGD's plateau",
            f"n = {n}: sIAG {final:.3e}, {plateau / final:.0f} times lower",
            final < 0.1 * plateau,
        ),
    ]


@dataclass(frozen=True, eq=False)
class Line:
    """One curve of a panel: a run, its exact expectation, and where it must end if it is biased."""

    n: int
    name: str
    run: Run
    curve: Curve
    end: float | None

    def columns(self) -> Columns:
        """The numbers behind the curve."""
        return {**self.run.table(), "exact": self.curve.error}


def _panels(activity: Activity, scale: Scale, tick: Tick) -> list[Line]:
    lines = []
    for n in scale.sizes:
        problem = draw(n, 0)
        for name, method in METHODS:
            T, R, seed = scale.iterations, scale.repeats, scale.seed
            run = simulate(problem, method, activity, STEP, iterations=T, repeats=R, seed=seed)
            curve = exact_error(problem, method, activity, STEP, iterations=T, repeats=R, seed=seed)
            end = _mean_bias(problem, activity, scale) if activity is NONUNIFORM and name == "SGD" else None
            lines.append(Line(n, name, run, curve, end))
            tick()
    return lines


def _mean_bias(problem: LeastSquares, activity: Activity, scale: Scale) -> float:
    """‖biased optimum − w*‖², averaged over the patterns of the runs."""

    def bias(repeat: int) -> float:
        return _bias(problem, Recorded.of(activity, problem.n, scale.iterations, scale.seed, repeat))

    return float(np.mean(each(bias, scale.repeats)))


def _bias(problem: LeastSquares, pattern: Recorded) -> float:
    return float(((biased_optimum(problem, pattern) - problem.optimum) ** 2).sum())


def _plateau(n: int, index: int, scale: Scale, tick: Tick) -> Floats:
    """(3,) SGD's exact error at the horizon, the fixed point's, and SGD's half-way to the horizon."""
    problem = draw(n, index)
    pattern = Recorded.of(NONUNIFORM, n, scale.horizon, scale.seed + index)
    curve = exact_error(problem, SGD(), pattern, STEP, iterations=scale.horizon, threads=1)
    half = np.searchsorted(curve.t, scale.horizon // 2)
    tick()
    return np.array([curve.error[-1], _bias(problem, pattern), curve.error[half]])


def _final_errors(activity: Activity, method: Method, scale: Scale, tick: Tick) -> Floats:
    """(sizes,) the exact error after the last iteration, averaged over problems and patterns."""
    errors = []
    for n in scale.sizes:

        def final(index: int, n: int = n) -> float:
            T, seed = scale.iterations, scale.seed + index
            curve = exact_error(draw(n, index), method, activity, STEP, iterations=T, seed=seed, record=1, threads=1)
            return float(curve.error[-1])

        errors.append(np.mean(each(final, scale.draws)))
        tick()
    return np.array(errors)


def _flatness(errors: Floats, scale: Scale) -> float:
    """Largest over smallest n·E, from n = 20 on: few w_i* are much closer to their own mean than many."""
    products = np.array(scale.sizes) * errors
    judged = products[np.array(scale.sizes) >= 20]
    return float(judged.max() / judged.min())


def _products(errors: Floats, scale: Scale) -> str:
    return "n·E = " + ", ".join(f"{n * error:.5f}" for n, error in zip(scale.sizes, errors, strict=True) if n >= 20)


def _range(scale: Scale) -> str:
    return f"{min(n for n in scale.sizes if n >= 20)} … {scale.sizes[-1]}"


def _worst(lines: list[Line]) -> float:
    return max(float(np.abs(deviation(line.run, line.curve)).max()) for line in lines)


def _chapter(name: str, title: str, text: list[str], lines: list[Line], claims: list[Claim]) -> Chapter:
    picture, axes = figure(2)
    for ax, (method, _) in zip(axes, METHODS, strict=True):
        _draw(ax, [line for line in lines if line.name == method])
        ax.set_title(method)
    logarithmic(axes[0], "iteration t", "E‖wᵗ − w*‖²")
    logarithmic(axes[1], "iteration t", "")
    axes[0].plot([], [], color=INK, label="mean of the runs, ± 2 standard errors")
    axes[0].plot([], [], color=INK, linestyle=(0, (4, 3)), linewidth=0.8, label="exact expectation")
    if name == "nonuniform":
        axes[1].plot([], [], color=INK, linestyle=":", linewidth=1.2, label="biased fixed point of SGD")
    for ax, (method, _) in zip(axes, METHODS, strict=True):
        own = [line for line in lines if line.name == method]
        colors = shades(len(own))
        name_ends(
            ax,
            [(line.curve.t, line.curve.error, f"n = {line.n}", color) for line, color in zip(own, colors, strict=True)],
        )
    for ax in axes[: 1 + (name == "nonuniform")]:
        ax.legend(loc="lower left")
    caption = (
        "Mean squared error against iterations, for n workers. Solid with band: mean of the runs ± 2 standard errors; "
        "dashed: exact expectation"
        + ("; dotted: distance of SGD's biased fixed point." if name == "nonuniform" else ".")
    )
    tables = {f"{name}-{line.name}-n{line.n}".lower(): line.columns() for line in lines}
    return Chapter(name, title, text, picture, caption, tables, claims)


def _draw(ax: Axes, lines: list[Line]) -> None:
    for line, color in zip(lines, shades(len(lines)), strict=True):
        line.run.plot(ax, color=color)
        shown = line.curve.t > 0
        t, error = line.curve.t[shown], line.curve.error[shown]
        ax.plot(t, error, color=INK, linestyle=(0, (4, 3)), linewidth=0.8)
        if line.end is not None:
            ax.plot(t[[-len(t) // 3, -1]], [line.end] * 2, color=INK, linestyle=":", linewidth=1.2)
