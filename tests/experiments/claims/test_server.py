"""The claims of what is done at the server, and of compressed and recursive gradients; each fails where it should."""

import pytest
from ablated_server import ABLATIONS

from siag.experiments.claims import CLAIMS, claims_of
from siag.report import Basis

METHODS = ("Momentum", "Adam", "Yogi", "Adagrad", "Clipped", "EF21", "STORM")


@pytest.mark.parametrize("name", METHODS)
def test_every_claim_holds(name):
    claims = claims_of(name)
    assert claims
    for claim in claims:
        assert claim.holds, claim


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda ablation: f"{ablation.method} without {ablation.taken}")
def test_without_what_defines_a_method_its_claims_break(ablation):
    broken = tuple(place for place, claim in enumerate(ablation.claims()) if not claim.holds)
    assert broken == ablation.breaks


def test_every_counted_claim_has_an_ablation_that_breaks_it():
    for name in METHODS:
        counted = {place for place, claim in enumerate(claims_of(name)) if claim.basis is not Basis.OURS}
        broken = {place for ablation in ABLATIONS if ablation.method == name for place in ablation.breaks}
        assert counted <= broken
    assert set(METHODS) <= set(CLAIMS)
