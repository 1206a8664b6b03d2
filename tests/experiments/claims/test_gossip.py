"""The claims of AD-PSGD hold; and each fails where it should."""

from siag.experiments.claims.gossip import COMPLETE, RING, adpsgd
from siag.methods.adpsgd import ADPSGD
from siag.methods.iag import IAG
from siag.methods.sgd import SGD


def verdicts(claims):
    return [claim.holds for claim in claims]


def test_every_claim_holds():
    for claim in adpsgd():
        assert claim.holds, claim


def test_noise_keeps_constant_steps_from_converging_where_there_is_any():
    agreed, _, different, _, _ = verdicts(adpsgd(ring=ADPSGD()))
    assert agreed  # the common optimum fits every point exactly, so that there is none
    assert different


def test_of_two_graphs_the_better_connected_one_is_told_apart():
    assert not verdicts(adpsgd(ring=COMPLETE, complete=RING))[1]
    assert not verdicts(adpsgd(complete=RING))[1]


def test_neither_sgd_nor_exact_gradients_have_the_speedup():
    assert not verdicts(adpsgd(noisy=SGD()))[3]
    assert not verdicts(adpsgd(noisy=IAG()))[3]
