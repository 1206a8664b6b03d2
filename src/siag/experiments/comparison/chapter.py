"""The report's chapter: sIAG among its relatives, each with the best step one rule finds for it."""

from __future__ import annotations

from typing import NamedTuple

from siag.experiments.comparison.contenders import chosen
from siag.experiments.comparison.contest import activities_of, compare
from siag.experiments.comparison.figures import draw_ends, html_table
from siag.experiments.comparison.result import Comparison, bias
from siag.experiments.comparison.tuning import Trial
from siag.experiments.setting import NOISE, D, P, Scale, Tick
from siag.problems import LeastSquares, optimum_of
from siag.report import Chapter, Claim

N = 20
CLOCK = "clock"
LONGER = 4  # times the iterations, for the claim
FADED, LASTING = 0.1, 0.5  # shares of the error


def methods(scale: Scale, tick: Tick) -> Chapter:
    """Methods of the paper's introduction, and some since, on its problem."""
    problem = LeastSquares.random(n=N, d=D, p=P, noise=NOISE, seed=N)
    activities = {name: activity for name, activity in activities_of(problem).items() if name != "uniform"}
    repeats = max(6, scale.repeats // 5)
    names, seed = scale.methods, scale.seed
    found = compare(problem, names, activities, iterations=scale.contest, repeats=repeats, seed=seed, claims=False)
    later = {name: offset(found, name, 2 * repeats, scale) for name in ("sIAG", "SGD")}
    tick()
    rows = {row["method"]: row for row in map(found.row, found.ran(CLOCK))}
    sooner = {name: Offset(row["bias"], row["iterations"]) for name, row in rows.items()}
    text = [
        f"The problem of Sec. IV with n = {N}, {scale.contest:,} iterations. Non-uniform selection as in the paper, "
        "one draw of it for all; and a clock on which the slowest worker is ten times slower than the fastest and "
        "reports have ages. <code>siag compare</code> has more methods, uniform selection, the claims of the methods' "
        f"papers, and curves against samples, bytes and time. {found.rule} {found.legend}",
        *(html_table(found, activity) for activity in found.activities),
        "The step with the least error leaves an offset in any method: a larger one would forget w⁰ sooner, but at the "
        f"price of more noise. With the same steps for {LONGER} times as many iterations, what is left of w⁰ fades and "
        f"a bias stays. On the clock offset² goes from {sooner['sIAG'].square:.1e} to {later['sIAG'].square:.1e} in "
        f"sIAG and from {sooner['SGD'].square:.1e} to {later['SGD'].square:.1e} in SGD.",
    ]
    caption = "Error at the end, mean over the runs; a bar is offset², where it is beyond two standard errors."
    tables = {"methods": found.table(), "methods-curves": found.curves()}
    claims = [unbiased(later["sIAG"], later["SGD"], LONGER * scale.contest)]
    return Chapter("methods", "sIAG among its relatives", text, draw_ends(found), caption, tables, claims)


class Offset(NamedTuple):
    """How far the mean of the final iterates is from w*."""

    square: float
    total: float  # the mean squared error, of which the square is a part

    @property
    def share(self) -> float:
        """Of the mean squared error."""
        return self.square / self.total


def offset(found: Comparison, name: str, repeats: int, scale: Scale) -> Offset:
    """On the clock, with the steps found for a method, after more iterations."""
    contender, problem = chosen([name])[0], found.problem
    eta = next(found.row(entry)["eta"] for entry in found.ran(CLOCK) if entry.contender == contender)
    trial = Trial(contender, problem, activities_of(problem)[CLOCK], scale.contest, scale.seed)
    run = trial.run(eta, repeats, longer=LONGER)
    return Offset(bias(run.w, optimum_of(problem))[0], float(run.mean[-1]))


def unbiased(siag: Offset, sgd: Offset, iterations: int) -> Claim:
    """What the paper says of both, where workers differ in speed."""
    return Claim(
        "However unequal the workers' speeds, sIAG is unbiased and non-aggregated SGD is not",
        "Sec. I, II",
        f"bias² after {iterations:,} iterations: below {FADED:.0%} of the error in sIAG, above {LASTING:.0%} "
        "of it in SGD",
        f"sIAG: {siag.share:.1%} of its error, SGD: {sgd.share:.1%}",
        siag.share < FADED and sgd.share > LASTING,
    )
