"""A server of any method: its lengths, reports of nothing, steps that look at ages, what it refuses to serve."""

from typing import NamedTuple

import numpy as np
import pytest

import siag
from refusals import refused
from siag.activity import EveryArrivals, Tick
from siag.foundations.errors import Unsuitable
from siag.methods import EF21, LAG, SCAFFOLD, SGD, SIAG, Averaged, CurvatureIAG, Fresh, advance, receive, shown
from siag.server import Departed, Guard, ParameterServer, Refused, Verdict
from siag.steps import Constant, DelayAdaptive, Step, heard, size
from siag.storage import read_model
from siag.storage.store import Store
from siag.storage.trace_writer import TraceLines

N, D = 3, 4


def served(method, step=None, **options):
    server = ParameterServer(method, step or Constant(0.1), np.zeros(D), N, **options)
    for row in range(N):
        server.join(row, 0.0)
    return server


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("method", "message", "read"),
    [
        (SIAG(), D, D),
        (LAG(), D, D + 1),
        (SCAFFOLD(steps=2, size=0.1), 2 * D, 2 * D),
        (CurvatureIAG(), D + D * D, D),
        (Averaged(SCAFFOLD(steps=2, size=0.1)), 2 * D, 2 * D),
        (EF21(k=1), 3, D),
    ],
    ids=repr,
)
def test_reports_and_downloads_are_as_long_as_the_method_says(method, message, read):
    server = served(method)
    server.warm_up()
    assert (server.message_size, server.shown.size) == (message, read)
    server.push(0, 0, np.ones(message), 0, 0.1)
    out = np.full(read, np.nan)
    assert server.pull(out) == 1
    assert np.array_equal(out, shown(server.state))
    with pytest.raises(Refused, match=f"{message + 1} numbers of type float64: {message} of type float64 are"):
        server.push(0, 1, np.ones(message + 1), 1, 0.2)
    assert server.w.shape == (D,)


def test_the_result_is_the_methods_answer_here_and_in_a_folder(tmp_path):
    server = served(Averaged(SIAG()))
    for k in range(5):
        server.push(k % N, k, np.full(D, 1.0 + k), k, 0.1 * k)
    assert np.array_equal(server.w, server.state.mean)
    assert not np.array_equal(server.w, server.state.w)
    store = Store(tmp_path, {"n": N})
    store.save(server.arrays(), np.arange(N), server.meta(1.0), wait=True)
    store.close()
    assert np.array_equal(read_model(tmp_path).w, server.state.mean)


@pytest.mark.parametrize(
    ("method", "remedy"),
    [
        (siag.methods.ADPSGD(), "serve SIAG"),
        (siag.methods.Scaffnew(p=0.5, size=0.1), "use SCAFFOLD"),
        (siag.methods.Incremental(), "use IAG"),
        (Averaged(siag.methods.Scaffnew(p=0.5, size=0.1)), "use SCAFFOLD"),
    ],
    ids=repr,
)
def test_what_has_no_server_is_refused_in_a_line(method, remedy):
    with pytest.raises(Unsuitable, match=remedy) as refusal:
        served(method)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("around", [lambda method: method, Averaged], ids=["alone", "averaged"])
def test_a_buffer_that_all_workers_together_do_not_fill_is_refused(around):
    method = around(siag.methods.FedBuff(steps=2, size=0.1))
    served(method, server=EveryArrivals(N))
    served(method, server=Tick(0.1))
    with pytest.raises(Unsuitable, match=f"buffer of {N + 1} .* from 1 to {N}"):
        served(method, server=EveryArrivals(N + 1))


class Hiding(SGD):
    """Shows workers a copy, which would never change."""

    def init(self, w0, n):
        return Hidden(*super().init(w0, n))


class Hidden(Fresh):
    pass


receive.when(Hidden)(receive.meaning(Fresh))
advance.when(Hidden)(advance.meaning(Fresh))


@shown.when(Hidden)
def a_copy(state):
    return state.w.copy()


def test_what_workers_read_must_be_the_states_own():
    with pytest.raises(Unsuitable, match="begins with the state's own w"):
        served(Hiding())


def test_a_report_of_nothing_counts_and_lets_the_server_step():
    server = served(SIAG(), server=EveryArrivals(2), trace=TraceLines())
    server.push(0, 0, np.ones(D), 0, 0.5)
    server.skip(1, 0, 0, 0.6)
    assert (server.version, server.reports, server.skips, server.arrived) == (1, 2, 1, 0)
    assert np.array_equal(server.w, np.full(D, -0.1 / N))
    member = server.members[1]
    assert (member.reports, member.stamp, member.samples, member.largest) == (1, 0, 1, 0.0)
    assert server.roster.counted_ages == [2]
    assert server.trace.lines == ["0,0,0,0,0.000000,,\n", "0,1,0,0,0.100000,,\n"]


def test_with_ticks_a_report_of_nothing_waits_for_the_clock():
    server = served(SIAG(), server=Tick(1.0))
    server.skip(0, 0, 0, 0.5)
    assert (server.version, server.arrived) == (0, 1)
    server.tick(1.0)
    assert (server.version, server.arrived) == (1, 0)


def test_if_all_stay_silent_the_server_goes_on():
    server = served(LAG())
    for row in range(N):
        server.push(row, row, np.ones(D), 0, 0.1)
    before = server.w.copy()
    for k in range(30):
        server.skip(k % N, server.version, 1 + k, 0.2 + k)
    assert server.version == N + 30
    assert np.allclose(server.w, before - 3.0)


@pytest.mark.parametrize(
    ("row", "stamp", "sample", "why"),
    [
        (0, 5, 1, Verdict.FROM_THE_FUTURE),
        (0, -1, 1, Verdict.FROM_THE_FUTURE),
        (1, 1, 1, Verdict.BEFORE_ITS_LAST),
        (0, 3, 0, Verdict.REPEATED),
        (0, 0, 2, Verdict.TOO_OLD),
        (N, 0, 0, Verdict.UNKNOWN),
    ],
)
def test_a_report_of_nothing_is_guarded_too(row, stamp, sample, why):
    server = served(SIAG(), guard=Guard(age=2))
    server.skip(0, 0, 0, 0.1)
    server.skip(0, 1, 1, 0.2)
    server.skip(1, 2, 0, 0.3)
    with pytest.raises(Refused) as caught:
        server.skip(row, stamp, sample, 0.4)
    assert caught.value.why == why
    assert (server.version, server.reports, server.skips) == (3, 3, 3)


def test_silence_ends_a_strike_and_a_row_that_fades_as_a_report_does():
    server = served(SIAG(), departed=Departed(100.0))
    with pytest.raises(Refused):
        server.push(0, 9, np.ones(D), 0, 0.1)
    server.skip(0, 0, 0, 0.2)
    assert server.members[0].strikes == 0
    server.leave(0, 0.3)
    assert server.meta(0.3)["fading"] == [(0, 0)]
    server.skip(0, 1, 1, 0.4)
    assert server.meta(0.5)["fading"] == []
    assert server.members[0].state == "working"


def test_whoever_joins_again_or_is_refused_has_forgotten_and_the_trace_says_so():
    server = served(LAG(), trace=TraceLines())
    assert server.trace.lines == []
    server.push(0, 0, np.ones(D), 0, 1.0)
    server.join(0, 1.5)
    with pytest.raises(Refused):
        server.push(1, 0, np.full(D, np.nan), 0, 2.0)
    assert server.trace.lines[1:] == ["1,0,,,0.500000,-1.0,\n", "1,1,,,1.000000,-1.0,\n"]
    assert server.fades == 2


def test_workers_that_remember_nothing_forget_nothing():
    server = served(SIAG(), trace=TraceLines())
    server.join(0, 1.5)
    with pytest.raises(Refused):
        server.push(1, 0, np.full(D, np.nan), 0, 2.0)
    assert (server.trace.lines, server.fades) == ([], 0)


def test_after_a_restart_everybody_has_forgotten():
    server = served(LAG())
    again = ParameterServer(LAG(), Constant(0.1), np.zeros(D), N, trace=TraceLines())
    again.restore(server.meta(0.0), 0.0)
    again.join(2, 0.0)
    assert again.trace.lines == ["0,2,,,0.000000,-1.0,\n"]


def test_counts_of_silence_survive():
    server = served(LAG())
    server.skip(0, 0, 0, 0.0)
    again = ParameterServer(LAG(), Constant(0.1), np.zeros(D), N)
    again.restore(server.meta(0.0), 0.0)
    assert again.skips == 1


# Steps that look at ages


def test_a_step_that_looks_at_ages_hears_all_that_was_accepted():
    step = DelayAdaptive(1.0, variant="second")
    server, rule = served(SIAG(), step), step.rule(N)
    stamps = [(0, 0), (1, 0), (2, 1), (0, 3), (1, 4), (2, 5), (2, 6), (0, 5)]
    w = np.zeros(D)
    rows = np.zeros((N, D))
    for k, (row, stamp) in enumerate(stamps):
        rows[row] = 1.0 + k
        server.push(row, stamp, rows[row].copy(), k, 0.1 * k)
        heard(rule, row, stamp)
        w -= size(rule, k) * rows.mean(axis=0)
    assert np.allclose(server.w, w, rtol=1e-12)
    assert w.any()


def test_what_is_refused_is_not_heard_and_the_size_is_asked_once():
    server = served(SIAG(), DelayAdaptive(1.0, ages="arrivals"))
    server.push(0, 0, np.ones(D), 0, 0.0)
    before = {name: array.copy() for name, array in server.arrays().items()}
    with pytest.raises(Refused):
        server.push(1, 0, np.full(D, np.inf), 0, 0.1)
    with pytest.raises(Refused):
        server.push(1, 7, np.ones(D), 0, 0.1)
    with pytest.raises(Refused):
        server.push(1, 0, np.ones(D + 1), 0, 0.1)
    assert all(np.array_equal(array, before[name]) for name, array in server.arrays().items())
    assert {"step.stamp", "step.sums", "step.tally"} <= before.keys()


def test_many_at_once_is_left_to_one_by_one_with_such_a_step():
    server = served(SIAG(), DelayAdaptive(1.0))
    ones, notes = np.ones((N, D)), np.zeros((N, 2), np.int64)
    assert server.push_many(np.zeros(1, np.int32), ones, notes, np.full((N, 2), float(D)), 0.0, 9, 9) == 0
    assert server.reports == 0


def test_a_row_that_is_dropped_no_longer_holds_the_step_back():
    for departed, moves in ((Departed(0), True), (Departed(), False)):
        server = served(SIAG(), DelayAdaptive(1.0), departed=departed)
        server.push(0, 0, np.ones(D), 0, 0.0)
        server.push(1, 0, np.ones(D), 0, 0.1)
        server.leave(2, 0.2)
        server.push(0, 2, np.ones(D), 1, 0.3)
        assert server.w.any() == moves


def test_such_a_step_goes_on_where_it_was():
    step = DelayAdaptive(0.7, horizon=5)
    whole, half = served(SIAG(), step), served(SIAG(), step)
    for k in range(40):
        message, stamp = np.full(D, 1.0 + k % 7), max(0, k - k % N)
        whole.push(k % N, stamp, message, k, 0.1 * k)
        half.push(k % N, stamp, message, k, 0.1 * k)
        if k % 9 == 0:
            arrays, meta = {name: a.copy() for name, a in half.arrays().items()}, half.meta(0.1 * k)
            half = ParameterServer(SIAG(), step, np.zeros(D), N)
            for name, array in half.arrays().items():
                array[...] = arrays[name]
            half.restore(meta, 0.1 * k)
    assert whole.w.any()
    assert np.array_equal(whole.w, half.w)


class Wild(Step):
    """Its rule is a step that is none."""

    def sizes(self, t):
        raise AssertionError

    def rule(self, n):
        return Wilderness(np.zeros(1))


class Wilderness(NamedTuple):
    nothing: np.ndarray


@heard.when(Wilderness)
def deaf(rule, i, stamp):
    rule.nothing[0] = 0.0


@size.when(Wilderness)
def below(rule, t):
    return -1.0


def test_a_size_that_is_no_step_is_refused():
    with refused("step"):
        served(SIAG(), Wild()).push(0, 0, np.ones(D), 0, 0.0)
