"""The verdict on a method counts what its paper claims, theorems apart from experiments, and nothing else."""

import pytest

from siag.cli.compare import brief, by_verdict
from siag.experiments.claims import verdict
from siag.report import Basis, Claim


def claims(basis, *held):
    return [Claim("", "", "", "", holds, basis) for holds in held]


@pytest.mark.parametrize("ours", [[], claims(Basis.OURS, True), claims(Basis.OURS, False)])
@pytest.mark.parametrize(
    ("proved", "observed", "words", "short"),
    [
        ([True, True], [], "reaches (2 of 2)", "reaches"),
        ([True, False], [], "partly (1 of 2)", "partly"),
        ([False], [], "not (0 of 1)", "not"),
        ([], [True], "consistent with (1 of 1)", "consistent"),
        ([], [True, False], "partly consistent with (1 of 2)", "partly consistent"),
        ([], [False], "not consistent with (0 of 1)", "not consistent"),
        ([True, True], [True], "reaches (2 of 2), consistent with (1 of 1)", "reaches, consistent"),
        ([], [], "", ""),
    ],
)
def test_own_predictions_do_not_count_and_experiments_count_apart(ours, proved, observed, words, short):
    found = verdict([*ours, *claims(Basis.PROVED, *proved), *claims(Basis.OBSERVED, *observed)])
    assert found == words
    assert brief(found) == short


def test_methods_are_listed_by_their_verdicts_without_counts():
    found = {"a": "reaches (2 of 2)", "b": "", "c": "consistent with (1 of 1)", "d": "reaches (1 of 1)"}
    assert by_verdict(found) == {"reaches": ["a", "d"], "consistent": ["c"]}
