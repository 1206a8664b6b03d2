"""The report's chapter: sIAG among its relatives, each with the best step one rule finds for it."""

from __future__ import annotations

from siag.experiments.comparison.compare import compare
from siag.experiments.comparison.figures import draw_ends, html_table
from siag.experiments.comparison.result import LEGEND
from siag.experiments.setting import NOISE, D, P, Scale, Tick
from siag.problems import LeastSquares
from siag.report import Chapter, Claim

N, ITERATIONS = 20, 5000
NAMES = ("sIAG", "MIFA", "SGD", "async SGD", "AD-PSGD", "FedAvg", "FedBuff", "SCAFFOLD", "IAG")
CLOCK = "clock"


def methods(scale: Scale, tick: Tick) -> Chapter:
    """Methods of the paper's introduction, and some since, on its problem."""
    problem = LeastSquares.random(n=N, d=D, p=P, noise=NOISE, seed=N)
    found = compare(problem, NAMES, iterations=ITERATIONS, repeats=max(6, scale.repeats // 5), seed=scale.seed)
    tick()
    rows = {(row["activity"], row["method"]): row for row in map(found.row, found.entries)}
    lasting = [name for name in NAMES if rows[CLOCK, name]["bias"] > max(rows[CLOCK, name]["bias_error"], 0.0)]
    text = [
        f"The problem of Sec. IV with n = {N}, {ITERATIONS:,} iterations. Uniform and non-uniform selection as in the "
        "paper, one draw of it for all; and a clock on which the slowest worker is ten times slower than the fastest "
        "and reports have ages. <code>siag compare</code> makes the whole comparison, with curves against samples, "
        f"bytes and time. {found.rule} {LEGEND}",
        *(html_table(found, activity) for activity in found.activities),
        f"On the clock a bias of more than two standard errors is left in {', '.join(lasting) or 'no method'}.",
    ]
    claims = _claims(rows)
    caption = "Error at the end, mean over the runs; a bar is offset², where it is beyond two standard errors."
    tables = {"methods": found.table(), "methods-curves": found.curves()}
    return Chapter("methods", "sIAG among its relatives", text, draw_ends(found), caption, tables, claims)


def _claims(rows: dict[tuple[str, str], dict[str, float]]) -> list[Claim]:
    """What the paper says of others, where workers differ in speed."""
    siag, sgd = rows[CLOCK, "sIAG"], rows[CLOCK, "SGD"]
    share = siag["bias"] / siag["iterations"]
    return [
        Claim(
            "However unequal the workers' speeds, sIAG is unbiased and non-aggregated SGD is not",
            "Sec. I, II",
            "sIAG: bias² within two standard errors of 0, or below 10 % of its error; SGD: above half of its error",
            f"sIAG: {100 * share:.1f} % of its error, SGD: {100 * sgd['bias'] / sgd['iterations']:.1f} %",
            (siag["bias"] <= siag["bias_error"] or share < 0.1) and sgd["bias"] > 0.5 * sgd["iterations"],
        ),
    ]
