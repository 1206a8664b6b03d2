"""A report that is refused changes nothing; who is refused too often is out."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import D, everything, make, ones, quick

from siag.server import Guard, Refused, State, Verdict

GUARD = Guard(age=30, norm=1e3, jump=50.0, strikes=10**6)


def spoilt(value):
    return st.integers(0, D - 1).map(lambda k: np.where(np.arange(D) == k, value, 1.0))


def bad_reports(version, drawn, last):
    """Strategies for (stamp, message, sample), all of them bad."""
    good, later = st.integers(max(last, version - 30), version), st.integers(drawn, drawn + 5)
    return st.one_of(
        st.tuples(good, st.sampled_from([math.nan, math.inf, -math.inf, 1e160]).flatmap(spoilt), later),
        st.tuples(good, st.sampled_from([0, 1, D - 1, D + 1, 100]).map(lambda d: ones(d=d)), later),
        st.tuples(good, st.just(np.ones((D, 1))), later),
        st.tuples(
            good, st.sampled_from([np.float32, np.int64, np.complex128, ">f8"]).map(lambda t: ones(1, D, t)), later
        ),
        st.tuples(st.integers(version + 1, version + 10**6), st.just(ones()), later),
        st.tuples(st.integers(-(10**6), -1), st.just(ones()), later),
        st.tuples(st.integers(0, version - 31), st.just(ones()), later),  # too old
        st.tuples(good, st.just(ones(1e3)), later),  # too large for anybody
        st.tuples(good, st.just(ones(60.0)), later),  # too large for this worker
        st.tuples(good, st.just(ones()), st.integers(-5, drawn - 1)),  # reported before
        st.tuples(good, st.just(ones()), st.just(2**62)),
    )


def practised(**options):
    """A server at version 40, of whose worker 1 much is known."""
    server = make(guard=GUARD, **options)
    for k in range(40):
        i = 1 if k < 30 else k % 2 * 2
        server.push(i, server.version, np.cos(np.arange(D) + k), server.members[i].samples, now=0.1 * k)
    return server


@settings(deadline=None, max_examples=200)
@given(bad_reports(version=40, drawn=30, last=29))
def test_a_refused_report_changes_nothing_at_all(report):
    stamp, message, sample = report
    server = practised()
    before, known = everything(server), [member.saved() for member in server.members]
    kept = message.copy()
    with pytest.raises(Refused) as caught:
        server.push(1, stamp, message, sample, now=5.0)
    assert everything(server) == before
    assert message.tobytes() == kept.tobytes()
    assert "\n" not in caught.value.reason
    assert (caught.value.final, caught.value.blame) == (False, caught.value.why != Verdict.TOO_OLD)
    known[1] |= {"refused": 1, "reason": caught.value.reason}
    assert [member.saved() for member in server.members] == known
    assert server.members[1].strikes == caught.value.blame


@quick
@given(st.data())
def test_a_run_with_refusals_is_the_run_without_them(data):
    one, two = practised(), practised()
    for k in range(data.draw(st.integers(0, 8))):
        for _ in range(data.draw(st.integers(0, 3))):
            member = one.members[1]
            stamp, message, sample = data.draw(bad_reports(one.version, member.samples, member.last))
            with pytest.raises(Refused):
                one.push(1, stamp, message, sample, now=5.0 + k)
        for server in (one, two):
            server.push(1, server.version, np.sin(np.arange(D) + k), server.members[1].samples, now=5.5 + k)
    assert everything(one) == everything(two)


def test_a_worker_must_read_after_its_report_before_it_reports_again():
    """Otherwise two of its gradients would be on their way at once, which no trace could tell apart."""
    server = make()
    server.push(0, 0, ones(), 0, now=0.0)
    server.push(1, 0, ones(), 0, now=0.0)
    server.push(0, 0, ones(), 1, now=0.0)  # from the very version its report arrived at
    with pytest.raises(Refused) as caught:
        server.push(0, 0, ones(), 2, now=0.0)
    assert caught.value.why == Verdict.BEFORE_ITS_LAST
    server.push(0, 2, ones(), 2, now=0.0)


def test_refusals_are_counted_for_each_worker_and_a_good_report_ends_a_row_of_them():
    server = make(guard=Guard(strikes=3))
    for sample in range(4):
        for _ in range(2):
            with pytest.raises(Refused) as caught:
                server.push(0, 0, ones(math.nan), 99, now=0.0)
            assert not caught.value.final
        server.push(0, server.version, ones(), sample, now=0.0)
    assert [member.refused for member in server.members] == [8, 0, 0]
    assert server.members[0].strikes == 0
    assert server.snapshot(0.0).refused == 8


def test_strikes_in_a_row_are_final_and_nothing_brings_the_worker_back():
    server = make(guard=Guard(strikes=3))
    server.join(0, now=0.0)
    finals = []
    for _ in range(3):
        with pytest.raises(Refused) as caught:
            server.push(0, 0, ones(math.inf), 0, now=0.0)
        finals.append(caught.value.final)
    assert finals == [False, False, True]
    with pytest.raises(Refused, match=r"worker 0: refused 3 times, last: not finite") as caught:
        server.join(0, now=1.0)
    assert caught.value.final
    before = everything(server)
    for late in (ones(), ones(d=D + 1)):  # a good one, and one that is not even looked at
        with pytest.raises(Refused) as caught:
            server.push(0, 0, late, 0, now=1.0)
        assert (caught.value.final, caught.value.why) == (True, Verdict.BANNED)
    server.members[0].go_away("")
    server.leave(0, now=2.0)
    assert server.members[0].state == "refused"
    with pytest.raises(Refused):
        server.join("0", now=3.0)
    assert everything(server) == before
    server.push(1, 0, ones(), 0, now=4.0)  # the others go on
    assert server.snapshot(4.0).workers[0].state == "refused"


def restarted(server):
    again = make(guard=server.guard)
    again.restore(json.loads(json.dumps(server.meta(1.0))), now=9.0)
    return again


def readmitted(server):
    assert server.readmit("0")
    assert not server.readmit(0)  # once is enough
    assert server.members[0].state == State.AWAY
    return server


@pytest.mark.parametrize("pardoned", [restarted, readmitted])
def test_a_worker_that_was_refused_may_try_again_after_a_restart_or_once_it_is_readmitted(pardoned):
    server = make(guard=Guard(strikes=2))
    for _ in range(2):
        with pytest.raises(Refused):
            server.push(0, 0, ones(math.inf), 0, now=0.0)
    with pytest.raises(Refused):
        server.join(0, now=0.5)
    again = pardoned(server)
    again.join(0, now=9.0)
    with pytest.raises(Refused) as caught:
        again.push(0, 7, ones(), 0, now=9.0)
    assert not caught.value.final  # its strikes are counted anew
    again.push(0, 0, ones(), 0, now=9.0)
    assert (again.version, again.members[0].state) == (1, State.WORKING)


def test_a_worker_that_is_only_slow_is_never_refused_for_good():
    server = make(guard=Guard(age=2, strikes=3))
    for k in range(10):
        server.push(1, server.version, ones(), k, now=0.0)
    for _ in range(20):
        with pytest.raises(Refused) as caught:
            server.push(0, 0, ones(), 0, now=0.0)
        assert (caught.value.final, caught.value.why) == (False, Verdict.TOO_OLD)
    assert server.members[0].refused == 20
    server.push(0, server.version, ones(), 0, now=0.0)


def test_a_norm_that_a_worker_has_found_itself_is_believed():
    server = make(guard=Guard(norm=10.0))
    server.push(0, 0, ones(), 0, now=0.0, square=4.0)
    with pytest.raises(Refused, match="norm 20"):
        server.push(0, 1, ones(), 1, now=0.0, square=400.0)
    with pytest.raises(Refused, match="not finite"):
        server.push(0, 1, ones(), 1, now=0.0, square=math.nan)


@pytest.mark.thorough
def test_messages_may_lie_in_memory_as_they_like():
    plain, server = make(), make()
    for k in range(6):
        values = np.sin(np.arange(D) + k)
        frozen = values.copy()
        frozen.setflags(write=False)
        shifted = np.frombuffer(b"x" + values.tobytes(), np.uint8)[1:].view(np.float64)
        forms = [values, frozen, np.repeat(values, 2)[::2], values[::-1].copy()[::-1], shifted, values]
        plain.push(0, k, values, k, now=0.0)
        server.push(0, k, forms[k], k, now=0.0)
    assert everything(plain) == everything(server)
