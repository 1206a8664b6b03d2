"""A worker without I/O: what it wants done after each event."""

import math
import random

import numpy as np
import pytest

from siag.live.protocol import wire
from siag.live.protocol.worker import (
    LONGEST_WAIT,
    REJOIN,
    Connect,
    End,
    HangUp,
    Phase,
    Send,
    Worker,
)
from siag.live.task import UNKNOWN, FromProblem
from siag.methods import SIAG
from siag.problems import LeastSquares

D = 3
WELCOME = {"protocol": 1, "row": 0, "name": "a", "workers": 2, "d": D, "samples": 0, "method": {"kind": "SIAG"}}


class Counting:
    """A task that counts what it is asked."""

    tied = True

    loss, first, passes, settle = math.nan, UNKNOWN, 0, None

    def __init__(self):
        self.drawn, self.forgot, self.stopped, self.begun = 0, 0, False, []

    def begin(self, *given):
        *place, self.drawn, _ = given
        self.begun.append((*place, self.drawn))

    def compute(self, w, out):
        self.drawn += 1
        out[:] = w + self.drawn
        return True

    def forget(self):
        self.forgot += 1

    def stop(self):
        self.stopped = True

    @property
    def sample(self):
        return self.drawn - 1


class Driven:
    """A worker, and short words for what happens to it."""

    def __init__(self, task=None, **given):
        self.task, self.remarks = Counting() if task is None else task, []
        given |= {"rng": random.Random(1), "where": "there", "say": self.remarks.append}
        self.worker = Worker(lambda description, w0: self.task, **given)

    def connect(self, now=0.0, welcome=WELCOME):
        """Everything up to the first model."""
        if self.worker.task is None:
            assert self.worker.start(now) == [Connect(0.0)]
        self.worker.connected(now)
        assert self.say(wire.WELCOME, now, **welcome) == []
        return self.model(0, now)

    def say(self, kind, now=0.0, **content):
        assert kind in self.worker.expected
        return list(self.worker.frame(wire.Head(0, kind, 0, 0), content, now))

    def model(self, stamp, now=0.0, numbers=0.0):
        self.worker.model_place()[:] = numbers
        return list(self.worker.frame(wire.Head(8 * D, wire.MODEL, stamp, 0), {}, now))

    def compute(self, now=0.0):
        assert self.worker.busy
        return list(self.worker.computed(self.worker.compute(), now))


def header(action):
    """Kind, stamp and sample of what is sent."""
    _, kind, _, stamp, sample, _ = wire.HEADER.unpack_from(action.frame)
    return kind, stamp, sample


@pytest.fixture
def driven():
    made = Driven()
    made.connect()
    return made


def test_it_says_hello_joins_computes_and_reports():
    driven = Driven(name="a", token="secret", origin={"seed": 3}, share=True)
    assert driven.worker.start(0.0) == [Connect(0.0)]
    (hello,) = driven.worker.connected(0.0, {"visit": 5})
    assert wire.parse_text(hello.frame[wire.HEADER.size :]).items() >= {
        "protocol": 1, "worker": "a", "token": "secret", "seed": 3, "memory": True, "visit": 5,
    }.items()  # fmt: skip
    assert driven.say(wire.WELCOME, **WELCOME) == []
    assert driven.model(7) == []
    assert driven.remarks == ["joined as worker a, row 0 of 2"]
    (report,) = driven.compute()
    assert report.array is driven.worker.message
    assert report.content == report.frame + np.ones(D).tobytes()
    assert header(report) == (wire.REPORT, 7, 0)
    assert driven.worker.message.tolist() == [1.0] * D
    assert not driven.worker.busy
    assert driven.model(8) == []
    assert driven.worker.busy
    assert driven.task.begun == [(0, 2, D, 0)]
    with pytest.raises(ValueError, match="read-only"):
        driven.worker.w[0] = 1.0


def test_that_there_is_nothing_to_send_has_the_stamp_and_the_sample_of_a_report(driven):
    driven.worker.compute()
    (skip,) = driven.worker.computed(False, 0.0)
    assert header(skip) == (wire.SKIP, 0, 0)
    assert driven.worker.reports == 0


@pytest.mark.parametrize(
    "more", [{"d": 10**18}, {"d": -1}, {"row": "0"}, {"row": 2}, {"samples": None}, {"message": 0}]
)
def test_a_welcome_that_is_none_is_a_bad_frame(more):
    driven = Driven()
    driven.worker.start(0.0)
    driven.worker.connected(0.0)
    with pytest.raises(wire.BadFrame, match="welcome"):
        driven.say(wire.WELCOME, **{**WELCOME, **more})


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"row": 1}, "another than before: row 1 of 2, d = 3, not row 0 of 2, d = 3"),
        ({"workers": 3}, "another than before: row 0 of 3, d = 3, not row 0 of 2, d = 3"),
        ({"message": 2 * D}, "another than before: reports of 6 numbers of float64, not reports of 3 numbers"),
        ({"messages": "float32"}, "another than before: reports of 3 numbers of float32, not reports of 3 numbers"),
    ],
)
def test_it_does_not_work_for_another_server_in_the_same_place(driven, more, says):
    driven.compute()
    driven.worker.lost("gone", 1.0)
    driven.worker.connected(2.0)
    assert driven.say(wire.WELCOME, **{**WELCOME, **more}) == [HangUp()]
    assert driven.worker.end[0] is End.DISMISSED
    assert says in driven.worker.end[1]


def test_a_worker_whose_samples_are_its_own_takes_another_row(driven):
    """An open server that has lost its last seconds in a crash may give the rows anew."""
    driven.worker.compute()
    driven.worker.task.tied = False
    driven.worker.lost("gone", 0.0)
    driven.worker.connected(1.0)
    assert driven.say(wire.WELCOME, **{**WELCOME, "row": 1}) == []
    assert driven.worker.place == (1, 2, D)
    assert driven.worker.end is None


# Refusals


def refused(driven, stamp):
    """A report, its refusal, and what follows the model."""
    driven.compute()
    assert driven.say(wire.REFUSAL, reason="too old", final=False) == []
    assert driven.remarks[-1] == "refused: too old"
    return driven.model(stamp)


def test_after_three_refusals_in_a_row_it_begins_with_a_new_hello(driven):
    assert REJOIN == 3
    for turn in range(2):
        assert refused(driven, turn) == []
    driven.compute()
    assert driven.model(2) == []  # accepted: what came before does not count any more
    assert driven.task.forgot == 2  # but what was refused is not remembered
    for turn in range(2):
        assert refused(driven, turn) == []
    hang_up, again = refused(driven, 3)
    assert (hang_up, type(again)) == (HangUp(), Connect)
    assert driven.remarks[-1] == "refused 3 times in a row; trying again in 0.1 s"
    assert (driven.worker.refused, driven.worker.phase) == (5, Phase.AWAY)


@pytest.mark.parametrize(
    ("kind", "content", "end", "reason"),
    [
        (wire.REFUSAL, {"final": True, "reason": "no\nmore"}, End.DISMISSED, "the server refused: no more"),
        (wire.GOODBYE, {"done": True, "reason": "enough"}, End.DONE, "enough"),
        (wire.GOODBYE, {"done": True}, End.DONE, "the server is done"),
    ],
)
@pytest.mark.parametrize("joined", [False, True])
def test_a_word_that_is_final_ends_it_whenever_it_comes(kind, content, end, reason, joined):
    driven = Driven()
    if joined:
        driven.connect()
        driven.worker.compute()
    else:
        driven.worker.start(0.0)
        driven.worker.connected(0.0)
    assert driven.say(kind, **content) == [HangUp()]
    assert driven.worker.end == (end, reason)
    assert driven.task.stopped is joined  # code that waits for a sample is to wait no longer
    assert driven.worker.computed(True, 1.0) == []
    assert driven.worker.lost("", 2.0) == []
    assert driven.worker.phase is Phase.ENDED


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        (wire.REFUSAL, {"reason": "all rows are taken"}, "all rows are taken"),
        (wire.REFUSAL, {}, "the server is busy"),
        (wire.GOODBYE, {"done": False, "reason": "stopped by SIGTERM"}, "stopped by SIGTERM"),
    ],
)
def test_a_word_that_is_not_final_has_it_try_again(kind, content, reason):
    driven = Driven()
    driven.worker.start(0.0)
    driven.worker.connected(0.0)
    hang_up, again = driven.say(kind, **content)
    assert (hang_up, type(again)) == (HangUp(), Connect)
    assert driven.remarks == [f"no connection to there ({reason}); trying again in 0.1 s"]


# Connections that are lost


def test_it_waits_twice_as_long_each_time_and_begins_anew_when_it_has_joined(driven):
    waits, now = [], 0.0
    for _ in range(9):
        (again,) = driven.worker.lost("refused", now)
        waits.append(float(driven.remarks[-1].split()[-2]))
        assert waits[-1] / 2 <= again.after <= waits[-1]
        now += again.after
        driven.worker.connected(now)
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, LONGEST_WAIT, LONGEST_WAIT, LONGEST_WAIT]
    driven.say(wire.WELCOME, now, **WELCOME)
    driven.model(0, now)
    driven.worker.lost("gone", now)
    assert driven.remarks[-1].endswith("in 0.1 s")


def test_it_gives_up_after_the_time_it_was_given_since_the_connection_was_lost():
    driven = Driven(give_up=10.0)
    driven.connect(now=100.0)
    assert driven.worker.lost("gone", 200.0)[0].after > 0
    assert driven.worker.lost("gone", 209.0)[0].after > 0
    assert driven.worker.lost("nobody is there", 210.5) == [HangUp()]
    assert driven.worker.end == (End.GAVE_UP, "no server at there for 10 seconds: nobody is there")


def test_samples_that_others_have_reported_in_its_place_are_left_out(driven):
    driven.compute()
    driven.worker.lost("gone", 0.0)
    driven.connect(welcome={**WELCOME, "samples": 100})
    (report,) = driven.compute()
    assert header(report)[2] == 100
    driven.model(1)
    (report,) = driven.compute()
    assert header(report)[2] == 101


def test_a_worker_of_a_problem_goes_on_with_the_sample_of_that_number():
    problem = LeastSquares.random(n=2, d=D, p=3, noise=0.1)
    driven = Driven(FromProblem(problem, SIAG(), 0, np.zeros(D)))
    driven.connect()
    driven.compute()
    driven.worker.lost("gone", 0.0)
    driven.connect(welcome={**WELCOME, "samples": 100})
    assert header(driven.compute()[0])[2] == driven.task.sample == 100


def test_what_was_computed_while_the_connection_was_away_is_of_no_use(driven):
    driven.worker.compute()
    driven.worker.lost("gone", 0.0)
    assert driven.worker.computed(True, 0.0) == []
    assert driven.connect() == []
    assert driven.worker.busy
    assert driven.task.forgot == 1


@pytest.mark.parametrize(("samples", "reported"), [(0, True), (1, False)])
def test_what_was_computed_while_it_joined_again_is_reported_unless_another_has_done_so(driven, samples, reported):
    w = driven.worker.w.copy()
    driven.worker.compute()
    driven.worker.lost("gone", 0.0)
    driven.worker.connected(0.0)
    driven.say(wire.WELCOME, **{**WELCOME, "samples": samples})
    assert driven.model(5, numbers=9.0) == []
    assert driven.worker.w.tolist() == w.tolist()
    actions = driven.worker.computed(True, 0.0)
    assert driven.worker.busy is not reported
    if reported:
        assert [header(action) for action in actions] == [(wire.REPORT, 0, 0)]
    else:
        assert actions == []
        assert driven.worker.w.tolist() == [9.0] * D


def test_signs_of_life_are_sent_when_nothing_else_was_for_a_while():
    driven = Driven(heartbeat=2.0)
    assert driven.worker.time(50.0) == []  # not before it has joined
    driven.connect(now=100.0)
    assert driven.worker.wakes == 102.0
    assert driven.worker.time(101.9) == []
    (alive,) = driven.worker.time(102.1)
    assert header(alive)[0] == wire.ALIVE
    assert driven.worker.time(103.0) == []
    driven.compute(now=104.0)
    assert driven.worker.time(105.9) == []
    driven.worker.lost("gone", 106.0)
    assert driven.worker.time(200.0) == []
    assert driven.worker.wakes is None


# Ends


@pytest.mark.parametrize(
    ("event", "end", "reason", "failed"),
    [
        (lambda worker: worker.stream_ended(1.0), End.STREAM_ENDED, "its stream ended", False),
        (lambda worker: worker.failed("ValueError: no", 1.0), End.FAILED, "ValueError: no", True),
        (lambda worker: worker.interrupted(1.0), End.INTERRUPTED, "it was interrupted", True),
    ],
)
@pytest.mark.parametrize("phase", ["before", "greeting", "joined", "away"])
def test_it_says_farewell_to_a_server_that_it_has_joined(event, end, reason, failed, phase):
    driven = Driven()
    driven.worker.start(0.0)
    if phase == "greeting":
        driven.worker.connected(0.0)
    elif phase != "before":
        driven.connect()
        if phase == "away":
            driven.worker.lost("gone", 0.5)
    actions = event(driven.worker)
    assert driven.worker.end == (end, reason)
    if phase == "joined":
        (leave,) = actions
        assert isinstance(leave, Send)
        assert header(leave)[0] == wire.LEAVE
        assert wire.parse_text(leave.frame[wire.HEADER.size :]) == {"reason": reason, "failed": failed}
        assert driven.worker.phase is Phase.LEAVING
        assert driven.model(3) == []  # whatever comes now
        assert driven.worker.lost("the server hung up", 2.0) == []
    else:
        assert actions == [HangUp()]
    assert driven.worker.phase is Phase.ENDED
    assert driven.worker.interrupted(3.0) == []
    assert driven.worker.end == (end, reason)
