"""What the papers of the methods claim, as functions that put it to the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from siag.experiments.claims.adaptive import adagrad, adam, yogi
from siag.experiments.claims.ages import delay_adaptive
from siag.experiments.claims.aggregated import averaged, iag, piag
from siag.experiments.claims.arrivals import ace, async_sgd, dude
from siag.experiments.claims.buffered import fedasync, fedbuff
from siag.experiments.claims.clipping import clipped
from siag.experiments.claims.concurrent import delay_threshold, rennala, ringmaster
from siag.experiments.claims.engaged import aced
from siag.experiments.claims.federated import fedavg, fedprox, mifa
from siag.experiments.claims.feedback import ef21
from siag.experiments.claims.finite import curvature_iag, incremental, sag, saga
from siag.experiments.claims.gossip import adpsgd
from siag.experiments.claims.lazy import lag
from siag.experiments.claims.momentum import momentum
from siag.experiments.claims.normalized import fednova
from siag.experiments.claims.not_measured import NOT_MEASURED
from siag.experiments.claims.recursive import storm
from siag.experiments.claims.streaming import siag
from siag.experiments.claims.variates import scaffnew, scaffold
from siag.report import Basis, Claim

__all__ = ["CLAIMS", "NOT_MEASURED", "claims_of", "verdict"]

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

WORDS = {
    Basis.PROVED: ("reaches", "partly", "not"),
    Basis.OBSERVED: ("consistent with", "partly consistent with", "not consistent with"),
}
"""How to say that all, some or none of a paper's claims hold: an experiment here cannot prove what one there showed."""


@cache
def claims_of(name: str) -> tuple[Claim, ...]:
    """What the paper of a method, or a step, claims, put to the test once; nothing for one without an entry."""
    return tuple(CLAIMS[name]()) if name in CLAIMS else ()


def verdict(claims: Sequence[Claim]) -> str:
    """Whether a method reaches what its paper proves, and is consistent with what its paper observed.

    All of it, some, or none. What was derived here does not count.

    >>> ours = Claim("", "siag.theory.local_fixed_point", "", "", True, Basis.OURS)
    >>> seen = Claim("", "", "", "", True, Basis.OBSERVED)
    >>> verdict([Claim("", "", "", "", True), Claim("", "", "", "", False), seen, ours])
    'partly (1 of 2), consistent with (1 of 1)'
    """
    parts = []
    for basis, words in WORDS.items():
        held = [claim.holds for claim in claims if claim.basis is basis]
        if held:
            word = words[0] if all(held) else words[1] if any(held) else words[2]
            parts.append(f"{word} ({sum(held)} of {len(held)})")
    return ", ".join(parts)
