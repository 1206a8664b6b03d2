"""The judge: compiled, as plain Python and as the guard's words say it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siag.foundations import check
from siag.foundations.errors import BadInput, SiagError
from siag.server import Guard, Refused, Verdict, ledger
from siag.server.guard import judge, refusal_for, square_norm

quick = settings(deadline=None, max_examples=100)
VERSION = 20


def twin(guard, here, banned, known, stamp, sample, square):
    """The rule as one would tell it; what is wrong is looked for in this order."""
    reports, largest, last, samples, others, count = known
    norm = math.sqrt(square) if math.isfinite(square) and square >= 0 else math.nan
    usual = largest if reports >= 20 else others
    power = 1 if reports >= 20 or count >= 3 else 2
    wrong = {
        Verdict.BANNED: banned,
        Verdict.FROM_THE_FUTURE: stamp not in range(VERSION + 1),
        Verdict.TOO_OLD: guard.age is not None and VERSION - stamp > guard.age,
        Verdict.BEFORE_ITS_LAST: stamp < last,
        Verdict.NO_SAMPLE: sample not in range(check.LARGEST + 1),
        Verdict.REPEATED: sample < samples,
        Verdict.NOT_FINITE: math.isnan(norm),
        Verdict.TOO_LARGE: guard.norm is not None and norm > guard.norm,
        Verdict.JUMP: guard.jump is not None and usual > 0 and norm > guard.jump**power * usual,
        Verdict.NOT_HERE: not here,
    }
    return next((verdict for verdict, is_so in wrong.items() if is_so), Verdict.ACCEPTED)


squares = st.one_of(st.floats(0.0, 1e9), st.sampled_from([0.0, -1.0, math.nan, math.inf, -math.inf]))
samples = st.one_of(st.integers(-2, 25), st.sampled_from([check.LARGEST, check.LARGEST + 1, 2**62]))
GUARDS = [Guard(), Guard(age=3), Guard(norm=10.0), Guard(jump=2.0), Guard(jump=math.inf), Guard(jump=None)]


@settings(deadline=None, max_examples=500)
@given(
    guard=st.sampled_from(GUARDS),
    here=st.booleans(),
    banned=st.sampled_from([False, False, False, True]),
    known=st.tuples(
        st.integers(15, 25),
        st.floats(0, 1e3),
        st.integers(0, 20),
        st.integers(0, 20),
        st.floats(0, 1e3),
        st.integers(0, 4),
    ),
    stamp=st.integers(-2, VERSION + 2),
    sample=samples,
    square=squares,
)
def test_the_verdict_is_the_first_thing_that_is_wrong(guard, here, banned, known, stamp, sample, square):
    line, everybody = ledger.blank(1)
    line[[ledger.REPORTS, ledger.LARGEST, ledger.LAST, ledger.SAMPLES]] = known[:4]
    line[[ledger.HERE, ledger.BANNED]] = here, banned
    everybody[[ledger.LARGEST, ledger.REPORTS]] = known[4:]
    evidence = line, everybody, guard.bounds, VERSION, stamp, sample, square
    verdict = twin(guard, here, banned, known, stamp, sample, square)
    assert judge(*evidence) == judge.plain(*evidence) == verdict
    reason = refusal_for(verdict, *evidence).reason
    assert reason
    assert "\n" not in reason


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (Verdict.FROM_THE_FUTURE, "stamp 6: the server is at version 20, a report cannot be from another"),
        (Verdict.TOO_OLD, "age 14: at most 3 is allowed; read w anew"),
        (Verdict.BEFORE_ITS_LAST, "stamp 6: from before this worker's last report, at version 7; read w anew"),
        (Verdict.NO_SAMPLE, "sample 8: must be a whole number of at least 0"),
        (Verdict.REPEATED, "sample 8: this worker has reported sample 8 already"),
        (Verdict.NOT_FINITE, "not finite: a number of the gradient is NaN, infinite, or too large to square"),
        (Verdict.TOO_LARGE, "norm 50: at most 10 is allowed"),
        (Verdict.JUMP, "norm 50: more than 2 times the largest of the others so far, 4"),
    ],
)
def test_a_verdict_is_told_with_the_numbers_it_rests_on(verdict, reason):
    line, everybody = ledger.blank(1)
    line[[ledger.REPORTS, ledger.LARGEST, ledger.LAST, ledger.SAMPLES]] = 5, 1.0, 7, 9
    everybody[[ledger.LARGEST, ledger.REPORTS]] = 4.0, 3
    evidence = everybody, Guard(age=3, norm=10.0, jump=2.0).bounds, VERSION, 6, 8, 2500.0
    assert refusal_for(verdict, line, *evidence).reason == reason
    line[ledger.REPORTS] = ledger.KNOWN_AFTER
    assert refusal_for(verdict, line, *evidence).reason == reason.replace(
        "the others so far, 4", "this worker so far, 1"
    )


@quick
@given(st.lists(st.floats(-1e100, 1e100), max_size=40))
def test_the_square_of_the_norm_is_right_in_whatever_order_it_is_summed(values):
    message = np.array(values, float)
    assert square_norm(message, message.size) == pytest.approx(math.fsum(x * x for x in values), rel=1e-13)
    assert square_norm(message, message.size) == square_norm.plain(message, message.size)


@quick
@given(
    st.integers(1, 40).flatmap(lambda d: st.tuples(st.just(d), st.integers(0, d - 1))),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e200]),
)
def test_one_bad_number_anywhere_shows_in_the_norm(place, bad):
    d, k = place
    message = np.ones(d)
    message[k] = bad
    assert not math.isfinite(square_norm(message, message.size))


def test_a_refusal_is_an_error_of_this_package_with_a_reason():
    refusal = Refused("too late", final=True)
    assert isinstance(refusal, SiagError)
    assert (str(refusal), refusal.reason, refusal.final, refusal.blame) == ("too late", "too late", True, True)
    assert (Refused("too late").final, Refused("too late").why) == (False, None)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"age": -1}, "age = -1"),
        ({"age": 1.5}, "age = 1.5"),
        ({"norm": 0.0}, "norm = 0.0"),
        ({"norm": math.inf}, "norm = inf"),
        ({"jump": 1.0}, "jump = 1.0: must be a finite number above 1; or inf for any"),
        ({"jump": math.nan}, "jump = nan"),
        ({"jump": -math.inf}, "jump = -inf"),
        ({"jump": "big"}, "jump = 'big'"),
        ({"strikes": 0}, "strikes = 0"),
    ],
)
def test_a_guard_that_makes_no_sense_is_refused_by_name(settings, words):
    with pytest.raises(BadInput, match=words):
        Guard(**settings)
