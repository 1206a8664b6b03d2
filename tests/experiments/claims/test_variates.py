"""What SCAFFOLD and Scaffnew claim holds, and would not hold of other methods."""

import pytest

from siag.experiments.claims.variates import scaffnew, scaffold
from siag.methods.fedavg import FedAvg
from siag.methods.scaffnew import Scaffnew
from siag.methods.scaffold import SCAFFOLD


def without_variates(option, **rest):
    return FedAvg(**rest)


def with_option_2_alone(option, **rest):
    return SCAFFOLD(option=2, **rest)


def gradient_descent(p, size):
    return Scaffnew(p=1.0, size=size)


def rare_rounds(p, size):
    return Scaffnew(p=0.5 * p, size=size)


def another_coin(p, size):
    return Scaffnew(p=p, size=size, seed=1)


def test_scaffold_keeps_its_promises():
    for claim in scaffold():
        assert claim.holds, claim


@pytest.mark.parametrize("method", [Scaffnew, another_coin])
def test_scaffnew_keeps_its_promises(method):
    for claim in scaffnew(method):
        assert claim.holds, claim


def test_without_control_variates_none_of_scaffolds_claims_holds():
    assert [claim.holds for claim in scaffold(without_variates)] == [False] * 4


def test_option_2_does_not_take_advantage_of_as_many_local_steps():
    assert [claim.holds for claim in scaffold(with_option_2_alone)] == [True, True, True, False]


def test_with_gradient_descent_in_its_place_only_that_they_are_the_same_holds():
    assert [claim.holds for claim in scaffnew(gradient_descent)] == [False, False, False, False, True]


def test_with_other_probabilities_scaffnew_is_not_gradient_descent():
    *_, same = scaffnew(rare_rounds)
    assert not same.holds
