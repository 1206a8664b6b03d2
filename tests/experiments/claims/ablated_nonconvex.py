"""Methods on a problem that is not convex, without what their rates there rest on."""

from __future__ import annotations

from ablations import Ablation

from siag.activity import EveryArrivals
from siag.experiments.claims.arrivals import async_sgd
from siag.experiments.claims.buffered import fedbuff
from siag.experiments.claims.recursive import storm
from siag.methods import STORM


def the_same(iterations):
    """Steps that do not depend on T."""
    return 0.1


def without_memory(a, fall):
    """Every new gradient replaces the estimate: sIAG."""
    return STORM(a=1.0)


ABLATIONS = [
    Ablation("AsyncSGD", "that steps are of the order of T^(−1/2)", lambda: async_sgd(order=the_same), (5,)),
    Ablation(
        "AsyncSGD",
        "the M gradients per step (instead: one)",
        lambda: async_sgd(servers=lambda size: EveryArrivals(1)),
        (6,),
    ),
    Ablation("FedBuff", "that local steps are of the order of (TK)^(−1/2)", lambda: fedbuff(order=the_same), (6,)),
    Ablation("STORM", "the memory (instead: a = 1, sIAG)", lambda: storm(without_memory), (0, 1, 2)),
]
