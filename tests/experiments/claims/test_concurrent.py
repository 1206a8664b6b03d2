"""The claims of Rennala, Ringmaster, thresholds, ACED and FedNova hold; and fail without what defines the method."""

import numpy as np
import pytest
from ablated_concurrent import ABLATIONS

from siag.experiments.claims import CLAIMS, verdict
from siag.experiments.claims.concurrent import time_for
from siag.report import Basis

COUNTED = {"Rennala": 3, "Ringmaster": 2, "DelayThreshold": 3, "ACED": 3, "FedNova": 2}


@pytest.mark.parametrize("name", COUNTED)
def test_every_claim_holds(name):
    found = CLAIMS[name]()
    for claim in found:
        assert claim.holds, claim
    assert verdict(found) == f"reaches ({COUNTED[name]} of {COUNTED[name]})"
    broken = {place for each in ABLATIONS if each.method == name for place in each.breaks}
    assert broken == {place for place, claim in enumerate(found) if claim.basis is not Basis.OURS}


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda each: f"{each.method}: {each.taken}")
def test_without_what_defines_the_method_its_claims_fail(ablation):
    found = ablation.claims()
    for place in ablation.breaks:
        assert not found[place].holds, found[place]


def test_the_time_for_some_gradients_is_that_of_the_best_number_of_workers():
    assert time_for(6, np.array([2.0])) == 14.0
    assert time_for(6, np.array([1.0, 1.0])) == 4.0
    assert time_for(6, np.array([100.0, 1.0])) == 7.0  # the slow one would only be waited for
