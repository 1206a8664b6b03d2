"""sIAG's own claims: they hold, and would not for SGD."""

from siag.experiments.claims.streaming import siag
from siag.methods import SGD


def test_they_hold():
    for claim in siag():
        assert claim.holds, claim


def test_sgd_does_not_reach_them():
    assert not any(claim.holds for claim in siag(SGD()))
