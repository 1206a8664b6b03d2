"""Claims about methods on finite sums: they hold, and would not of another method."""

import pytest

from siag.experiments.claims import finite
from siag.methods import IAG, SAG, SGD

CLAIMS = {"incremental": 2, "sag": 2, "saga": 3, "curvature_iag": 3}


@pytest.mark.parametrize("name", CLAIMS)
def test_the_claims_hold(name):
    claims = getattr(finite, name)()
    assert len(claims) == CLAIMS[name]
    for claim in claims:
        assert claim.holds, claim


@pytest.mark.filterwarnings("ignore::siag.DivergenceWarning")  # IAG does not bear gradient descent's step
@pytest.mark.parametrize(
    ("name", "kind", "holding"),
    [
        ("incremental", SGD, [False, False]),
        ("incremental", IAG, [False, False]),
        ("sag", SGD, [False, False]),
        ("saga", SGD, [True, False, False]),
        ("saga", SAG, [False, False, True]),
        ("curvature_iag", IAG, [False, False, False]),
    ],
)
def test_the_claims_do_not_hold_of_another_method(name, kind, holding):
    assert [claim.holds for claim in getattr(finite, name)(kind)] == holding
