"""The verdict on a method counts what its paper claims, and nothing else."""

import pytest

from siag.experiments.claims import verdict
from siag.report import Basis, Claim


def claim(holds, basis=Basis.PROVED):
    return Claim("", "", "", "", holds, basis)


@pytest.mark.parametrize("ours", [[], [claim(True, Basis.OURS)], [claim(False, Basis.OURS)]])
@pytest.mark.parametrize(
    ("theirs", "words"),
    [([True, True], "reaches (2 of 2)"), ([True, False], "partly (1 of 2)"), ([False], "not (0 of 1)"), ([], "")],
)
def test_own_predictions_do_not_count(ours, theirs, words):
    assert verdict([*ours, *(claim(holds) for holds in theirs)]) == words
