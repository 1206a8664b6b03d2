"""The claims of LAG hold; and each fails where it should."""

from siag.experiments.claims.lazy import lag, uneven
from siag.methods.iag import IAG
from siag.methods.lag import LAG


def verdicts(claims):
    return [claim.holds for claim in claims]


def test_every_claim_holds():
    for claim in lag():
        assert claim.holds, claim


def test_gradient_descent_saves_nothing():
    assert verdicts(lag(worker=IAG(), server=IAG())) == [False, False, True, False]


def test_silence_that_is_too_easy_does_not_converge_in_time():
    careless = LAG(weight=1e3, depth=100)
    worker, _, lasting, _ = verdicts(lag(worker=careless))
    assert not worker
    assert not lasting


def test_what_the_worker_triggers_saves_no_gradients():
    assert verdicts(lag(server=LAG())) == [True, True, True, False]


def test_the_theorys_weight_is_too_careful_for_the_servers_trigger():
    method = LAG(trigger="server", weight=0.1, smoothness=uneven().smoothness.tolist())
    assert verdicts(lag(server=method))[:3] == [True, False, True]
