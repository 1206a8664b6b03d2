"""The verdict on a method counts what its paper claims, and nothing else."""

import pytest

from siag.experiments.claims import verdict
from siag.report import Claim


def claim(source, holds):
    return Claim("", source, "", "", holds)


OWN = [claim("siag.theory.local_fixed_point", True), claim("beyond the papers, that is ours", True)]
FAILED = [claim("siag.theory.local_fixed_point", False), claim("beyond the papers, that is ours", False)]


@pytest.mark.parametrize("ours", [[], OWN, FAILED])
@pytest.mark.parametrize(
    ("theirs", "words"),
    [([True, True], "reaches (2 of 2)"), ([True, False], "partly (1 of 2)"), ([False], "not (0 of 1)"), ([], "")],
)
def test_own_predictions_do_not_count(ours, theirs, words):
    assert verdict([*ours, *(claim("Somebody et al. 2020", holds) for holds in theirs)]) == words
