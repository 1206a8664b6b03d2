"""The claims of AD-PSGD hold; and each fails where it should."""

from dataclasses import dataclass

import numpy as np

from siag.experiments.claims import verdict
from siag.experiments.claims.gossip import COMPLETE, RING, adpsgd
from siag.methods.adpsgd import ADPSGD, Neighbours
from siag.methods.iag import IAG
from siag.methods.method import Exact
from siag.methods.sgd import SGD


def verdicts(claims):
    return [claim.holds for claim in claims]


def test_every_claim_holds():
    found = adpsgd()
    for claim in found:
        assert claim.holds, claim
    assert verdict(found) == f"reaches ({len(found)} of {len(found)})"  # none is a prediction of our own


@dataclass(frozen=True, kw_only=True)
class Aloof(ADPSGD):
    """Couples that never talk to other couples: a graph the method itself would refuse."""

    def recruit(self, w0, n):
        return Neighbours(Exact(), np.arange(n + 1), np.arange(n) ^ 1)


def test_couples_that_talk_to_nobody_else_do_not_agree():
    agreed, _, different, _, biased = verdicts(adpsgd(ring=Aloof()))
    assert not agreed  # they want the same, but some couples take too long
    assert not different
    assert not biased


def test_a_tenth_of_the_reports_is_not_enough_to_agree():
    assert not verdicts(adpsgd(reports=800))[0]


def test_of_two_graphs_the_better_connected_one_is_told_apart():
    assert not verdicts(adpsgd(ring=COMPLETE, complete=RING))[1]
    assert not verdicts(adpsgd(complete=RING))[1]


def test_neither_sgd_nor_exact_gradients_have_the_speedup():
    assert not verdicts(adpsgd(noisy=SGD()))[3]
    assert not verdicts(adpsgd(noisy=IAG()))[3]
