"""Methods with a table or a mean of iterates, and steps that follow ages, without what defines them."""

from __future__ import annotations

import warnings

from ablations import Ablation

from siag.activity import Sequential
from siag.experiments.claims.ages import delay_adaptive
from siag.experiments.claims.aggregated import averaged, iag, piag
from siag.experiments.claims.finite import curvature_iag, incremental, sag, saga
from siag.experiments.claims.lazy import lag
from siag.experiments.claims.streaming import siag
from siag.foundations.errors import DivergenceWarning
from siag.methods import IAG, SAG, SGD, SIAG
from siag.methods.async_sgd import AsyncSGD
from siag.methods.averaged import Averaged
from siag.methods.lag import LAG
from siag.methods.piag import PIAG
from siag.methods.prox import Prox
from siag.report import Claim
from siag.steps import Constant, DelayAdaptive, Harmonic


def without_table() -> AsyncSGD:
    """Exact gradients, each used once, when it arrives."""
    return AsyncSGD(gradients="exact")


class Newest(DelayAdaptive):
    """Steps that see the age of what has just come, not of the oldest row."""

    def rule(self, n):
        return DelayAdaptive(self.gamma, variant=self.variant, alpha=self.alpha, ages="arrivals").rule(n)


def plain_iag() -> list[Claim]:
    """IAG does not bear gradient descent's step, and need not warn of that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        return curvature_iag(IAG)


def weaker(**terms):
    return PIAG(**{name: 0.1 * value for name, value in terms.items()})


def one_step_back(**given):
    return LAG(**{**given, "depth": 1, "weight": 1.0})


def never_silent(**given):
    return IAG()


def careless(**given):
    return LAG(**{**given, "depth": 100, "weight": 1e3})


def asked_at_the_worker(**given):
    return LAG(weight=given["weight"], depth=given["depth"])


def only(variant):
    """Both steps by one of the two rules."""
    return lambda gamma, alpha, **_: DelayAdaptive(gamma, variant=variant, alpha=alpha)


def constant(divisor):
    return lambda gamma, **_: Constant(gamma / divisor)


ABLATIONS = [
    Ablation("SIAG", "the table (instead: SGD)", lambda: siag(SGD()), (0, 1, 2)),
    Ablation("IAG", "the table (instead: a gradient is used once)", lambda: iag(method=without_table), (0, 1)),
    Ablation("IAG", "the exactness of gradients (instead: sIAG)", lambda: iag(method=SIAG), (0, 1)),
    Ablation("IAG", "the constant step", lambda: iag(step=lambda eta: Harmonic(20 * eta, 20.0)), (0, 1)),
    Ablation("PIAG", "the proximal step (instead: IAG)", lambda: piag(method=lambda **terms: IAG()), (0, 1, 2)),
    Ablation(
        "PIAG",
        "the table (instead: a gradient is used once)",
        lambda: piag(method=lambda **terms: Prox(without_table(), **terms)),
        (0, 1, 2),
    ),
    Ablation("PIAG", "nine tenths of the regulariser", lambda: piag(method=weaker), (0, 1, 2)),
    Ablation(
        "Incremental",
        "the order (instead: workers are drawn)",
        lambda: incremental(without_table, Sequential()),
        (0, 1),
    ),
    Ablation("Incremental", "that gradients are forgotten (instead: IAG)", lambda: incremental(IAG), (0, 1)),
    Ablation("SAG", "the memory of gradients (instead: SGD)", lambda: sag(SGD), (0, 1)),
    Ablation("SAGA", "the memory of gradients (instead: SGD)", lambda: saga(SGD), (1, 2)),
    Ablation("SAGA", "the correction that makes a step unbiased (instead: SAG)", lambda: saga(SAG), (0, 1)),
    Ablation("CurvatureIAG", "the Hessians (instead: IAG)", plain_iag, (0, 1, 2)),
    Ablation(
        "LAG", "the trigger (instead: all gradients are sent)", lambda: lag(never_silent, never_silent), (0, 1, 3, 4)
    ),
    Ablation("LAG", "the memory of D steps (instead: D = 1, ξ = 1)", lambda: lag(one_step_back, one_step_back), (3,)),
    Ablation("LAG", "the bound on the trigger (instead: ξD = 10⁵)", lambda: lag(careless, careless), (0, 1, 2)),
    Ablation("LAG", "the server's side of the trigger", lambda: lag(server=asked_at_the_worker), (4,)),
    Ablation(
        "DelayAdaptive",
        "ages (instead: a constant step for the largest)",
        lambda: delay_adaptive(constant(502)),
        (0, 2, 3, 4),
    ),
    Ablation("DelayAdaptive", "ages (instead: a constant step of γ′)", lambda: delay_adaptive(constant(1)), (1, 2)),
    Ablation(
        "DelayAdaptive",
        "the oldest age (instead: they follow the newest)",
        lambda: delay_adaptive(Newest),
        (2,),
    ),
    Ablation(
        "DelayAdaptive",
        "the second rule (instead: the first in its place)",
        lambda: delay_adaptive(only("first")),
        (4,),
    ),
    Ablation(
        "DelayAdaptive",
        "the first rule (instead: the second in its place)",
        lambda: delay_adaptive(only("second")),
        (3,),
    ),
    Ablation(
        "Averaged", "the mean (instead: the last iterate)", lambda: averaged(lambda method, start: method), (0, 1)
    ),
    Ablation(
        "Averaged",
        "all of the mean but the last ten iterates",
        lambda: averaged(lambda method, start: Averaged(method, start=6390)),
        (1,),
    ),
]
