"""Every claim of every method holds, fails once what defines the method is taken away, and is listed in the docs."""

import pytest
from ablations import gathered
from listing import PAGE, _in_order, page, section, skeleton

from siag.experiments.claims import CLAIMS, NOT_MEASURED, claims_of
from siag.report import Basis

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("name", CLAIMS)
def test_all_claims_hold(name):
    claims = claims_of(name)
    assert claims
    for claim in claims:
        assert claim.holds, claim


@pytest.mark.parametrize("ablation", gathered(), ids=lambda ablation: f"{ablation.method}: {ablation.taken}")
def test_without_what_defines_a_method_claims_fail(ablation):
    claims = ablation.claims()
    assert [index for index in ablation.breaks if claims[index].holds] == []
    assert len(claims) == len(claims_of(ablation.method))


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_that_counts_fails_without_something_that_defines_the_method(name):
    counted = {index for index, claim in enumerate(claims_of(name)) if claim.basis is not Basis.OURS}
    broken = {index for ablation in gathered() if ablation.method == name for index in ablation.breaks}
    assert counted - broken == set()


@pytest.mark.parametrize("name", CLAIMS)
def test_the_docs_state_what_is_claimed_what_breaks_it_and_what_is_not_measured(name):
    """Made anew by `python -m tests.experiments.claims`."""
    assert skeleton(section(name)) in skeleton(PAGE.read_text())


def test_the_docs_have_a_row_for_every_ablation_and_a_section_for_every_method():
    """Made anew by `python -m tests.experiments.claims`."""
    text = PAGE.read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| method")]
    assert rows == [line for line in page().splitlines() if line.startswith("| ") and not line.startswith("| method")]
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == ["What is taken away", *CLAIMS]


def test_every_ablation_is_of_a_method_with_claims_and_every_method_says_what_is_not_measured():
    assert len(_in_order()) == len(gathered())
    assert set(NOT_MEASURED) == set(CLAIMS)
