"""What the papers of the methods claim, as functions that put it to the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from siag.experiments.claims.adaptive import adagrad, adam, yogi
from siag.experiments.claims.aggregated import averaged, delay_adaptive, iag, piag
from siag.experiments.claims.arrivals import ace, async_sgd, dude
from siag.experiments.claims.clipping import clipped
from siag.experiments.claims.concurrent import delay_threshold, rennala, ringmaster
from siag.experiments.claims.engaged import aced
from siag.experiments.claims.federated import fedasync, fedavg, fedbuff, fedprox, mifa
from siag.experiments.claims.feedback import ef21
from siag.experiments.claims.finite import curvature_iag, incremental, sag, saga
from siag.experiments.claims.gossip import adpsgd
from siag.experiments.claims.lazy import lag
from siag.experiments.claims.momentum import momentum
from siag.experiments.claims.normalized import fednova
from siag.experiments.claims.recursive import storm
from siag.experiments.claims.streaming import siag
from siag.experiments.claims.variates import scaffnew, scaffold
from siag.report import Basis, Claim

CLAIMS: Mapping[str, Callable[[], list[Claim]]] = {
    "SIAG": siag,
    "IAG": iag,
    "PIAG": piag,
    "Incremental": incremental,
    "SAG": sag,
    "SAGA": saga,
    "CurvatureIAG": curvature_iag,
    "LAG": lag,
    "DelayAdaptive": delay_adaptive,
    "AsyncSGD": async_sgd,
    "ADPSGD": adpsgd,
    "FedAvg": fedavg,
    "FedProx": fedprox,
    "SCAFFOLD": scaffold,
    "Scaffnew": scaffnew,
    "MIFA": mifa,
    "FedBuff": fedbuff,
    "FedAsync": fedasync,
    "DuDe": dude,
    "ACE": ace,
    "Averaged": averaged,
    "Rennala": rennala,
    "Ringmaster": ringmaster,
    "DelayThreshold": delay_threshold,
    "ACED": aced,
    "FedNova": fednova,
    "Momentum": momentum,
    "Adam": adam,
    "Yogi": yogi,
    "Adagrad": adagrad,
    "Clipped": clipped,
    "EF21": ef21,
    "STORM": storm,
}


@cache
def claims_of(name: str) -> tuple[Claim, ...]:
    """What the paper of a method, or a step, claims, put to the test once; nothing for one without an entry."""
    return tuple(CLAIMS[name]()) if name in CLAIMS else ()


def verdict(claims: Sequence[Claim]) -> str:
    """Whether a method reaches what its paper claims: all of it, some, or none. What was derived here does not count.

    >>> ours = Claim("", "siag.theory.local_fixed_point", "", "", True, Basis.OURS)
    >>> verdict([Claim("", "", "", "", True), Claim("", "", "", "", False), ours])
    'partly (1 of 2)'
    """
    theirs = [claim.holds for claim in claims if claim.basis is not Basis.OURS]
    if not theirs:
        return ""
    word = "reaches" if all(theirs) else "partly" if any(theirs) else "not"
    return f"{word} ({sum(theirs)} of {len(theirs)})"
