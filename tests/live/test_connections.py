"""The server's side of its connections, without I/O: who joins as whom, what is answered, what is refused."""

import random

import numpy as np
import pytest
from pair import D, Desk, begun

import siag
from siag.live.certificates import make_certificates
from siag.live.protocol import wire
from siag.live.protocol.connections import OCCUPIED
from siag.live.reasons import Ending, Problem, Trouble
from siag.live.security import Tokens, read_token
from siag.live.session import Session
from siag.server.guard import Guard


def test_a_welcome_says_all_that_a_worker_needs(desk):
    assert desk.call().join() == {
        "protocol": 1,
        "siag": siag.__version__,
        "row": 0,
        "name": "a",
        "workers": 2,
        "d": D,
        "message": D,
        "shown": D,
        "messages": "float64",
        "samples": 0,
        "life": "",
        "method": {"kind": "SIAG", "resum": 64, "wait": 0.0, "rows": "float64", "average": 1},
    }
    assert desk.call().join()["name"] == "b"
    kind, _, content = desk.call().hello()
    assert (kind, content["final"]) == (wire.REFUSAL, False)
    assert "all rows are taken" in content["reason"]


def test_each_report_and_each_skip_is_answered_with_the_new_model(desk):
    caller = desk.call()
    caller.join()
    for k in range(3):
        kind, version, w = caller.report(np.ones(D), k, k)
        assert (kind, version, w.tolist()) == (wire.MODEL, k + 1, [-0.25 * (k + 1)] * D)
    caller.give(wire.head(wire.ALIVE))
    assert caller.sent == b""
    assert caller.skip(3, 3)[:2] == (wire.MODEL, 4)
    assert (desk.server.reports, desk.server.skips, desk.server.members[0].samples) == (4, 1, 4)


@pytest.mark.parametrize("d", [D, 509, 510, 3000])
def test_frames_may_come_in_any_pieces(d):
    """509 numbers just fit on the stage, 510 do not."""
    numbers = np.linspace(-1.0, 1.0, d)
    chance = random.Random(d)
    frames = wire.text(wire.HELLO, {"protocol": 1})
    for k in range(4):
        frames += wire.head(wire.REPORT, 8 * d, k, k) + numbers.tobytes() + wire.head(wire.ALIVE)
    for longest in (1, 7, 100, 10_000):
        desk = Desk(begun(d=d, step=1.0))
        caller, rest = desk.call(), frames
        while rest:
            count = chance.randint(1, longest)
            caller.give(rest[:count])
            rest = rest[count:]
        assert caller.frame()[0] == wire.WELCOME
        for k in range(5):
            kind, version, w = caller.frame()
            assert (kind, version) == (wire.MODEL, k)
            assert np.array_equal(w, -k * numbers)


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize(("stamp", "sample", "reason"), [(7, 2, "stamp 7"), (0, 2, "from before"), (2, 0, "sample 0")])
def test_a_report_with_a_wrong_stamp_or_sample_changes_nothing_and_is_followed_by_the_model(
    desk, skips, stamp, sample, reason
):
    caller = desk.call()
    caller.join()
    caller.skip(0, 0)
    caller.report(np.ones(D), 1, 1)
    before = desk.state()
    kind, _, content = caller.skip(stamp, sample) if skips else caller.report(np.ones(D), stamp, sample)
    assert (kind, content["final"]) == (wire.REFUSAL, False)
    assert reason in content["reason"]
    assert caller.frame()[:2] == (wire.MODEL, 2)
    assert desk.state() == before


def test_a_worker_that_is_refused_too_often_is_sent_away_for_good():
    desk = Desk(begun(["a"], guard=Guard(strikes=2)))
    caller = desk.call()
    caller.join()
    assert caller.report([np.nan] * D)[2]["final"] is False
    caller.frame()
    assert caller.report([np.nan] * D, 0, 1)[2]["final"] is True
    assert caller.closed
    caller.lose()
    kind, _, content = desk.call().hello(worker="a")
    assert (kind, content["final"], desk.states()) == (wire.REFUSAL, True, ["refused"])


# Hello


@pytest.mark.parametrize("protocol", [0, 2, None, "1", 1.5, [1], {"a": [[]]}, 10**4000, "x" * 3000])
def test_another_protocol_is_refused_with_both_versions(desk, protocol):
    caller = desk.call()
    kind, _, content = caller.hello(protocol=protocol)
    assert (kind, content["final"], caller.closed) == (wire.REFUSAL, True, True)
    assert f"siag {siag.__version__}, speaks 1; install the same version" in content["reason"]
    assert desk.states() == ["expected"] * 2


@pytest.mark.parametrize("name", ["c", "", 0, ["a"], "\x1b[2J" * 100])
def test_a_name_that_is_not_the_servers_is_refused(desk, name):
    kind, _, content = desk.call().hello(worker=name)
    assert (kind, content["final"]) == (wire.REFUSAL, True)
    assert "not among this server's" in content["reason"]
    assert "\x1b" not in content["reason"] + "".join(desk.session.notes.events)


@pytest.mark.parametrize(
    ("hello", "says"),
    [
        ({"problem": "P", "seed": 4}, "the server's seed is 3, this worker's 4"),
        ({"problem": "Q", "seed": 3}, "the server's problem is P, this worker's Q"),
        ({}, "this worker's none"),
    ],
)
def test_another_problem_or_seed_is_refused_before_a_row_is_taken(hello, says):
    desk = Desk(begun(), origin={"problem": "P", "seed": 3})
    kind, _, content = desk.call().hello(**hello)
    assert (kind, content["final"]) == (wire.REFUSAL, True)
    assert says in content["reason"]
    assert desk.call().join(problem="P", seed=3)["row"] == 0


@pytest.fixture
def tokens(tmp_path):
    make_certificates(tmp_path / "ours", hosts=[], workers=3)
    make_certificates(tmp_path / "theirs", hosts=[], workers=1)
    secret = [read_token(tmp_path / "ours" / f"worker-{row}.token") for row in range(3)]
    known = Tokens.load(tmp_path / "ours" / "tokens.json", [str(row) for row in range(3)])
    return known, secret, read_token(tmp_path / "theirs/worker-0.token")


def test_a_token_binds_a_worker_to_its_row_and_nothing_else_does(tokens):
    known, secret, stranger = tokens
    desk = Desk(begun(["a", "b", "c"]), known)
    wrong = [
        ({}, "token is missing"),
        ({"token": None}, "token is missing"),
        ({"token": ""}, "token is missing"),
        ({"worker": "a"}, "token is missing"),
        ({"token": stranger}, "not one of this server's"),
        ({"token": secret[0][:-1]}, "not one of this server's"),
        ({"token": [secret[0]]}, "not one of this server's"),
        ({"token": "\ud800"}, "not one of this server's"),
        ({"token": secret[0], "worker": "b"}, "another's row"),
        ({"token": secret[0], "worker": "nobody"}, "not among"),
    ]
    for hello, says in wrong:
        caller = desk.call()
        kind, _, content = caller.hello(**hello)
        assert (kind, content["final"], caller.closed) == (wire.REFUSAL, True, True), hello
        assert says in content["reason"]
    assert desk.states() == ["expected"] * 3
    told = [event for event in desk.session.notes.events if "turned away" in event]
    assert told == ["a worker from somewhere was turned away: the token is missing; give the worker's .token file"]
    assert desk.call().join(token=secret[1])["name"] == "b"
    assert desk.call().join(token=secret[0], worker="a")["row"] == 0
    assert desk.call().hello(token=secret[1])[2]["final"] is False  # it is here already


# Rows


def test_two_workers_cannot_have_one_row_unless_the_first_was_silent_for_long(desk):
    first = desk.call()
    first.join(worker="a")
    first.report(np.ones(D))
    assert desk.call().hello(worker="a")[2] == {"reason": "worker a is connected already", "final": False}
    desk.now = OCCUPIED
    second = desk.call()
    assert second.join(worker="a")["samples"] == 1
    assert first.frame()[2]["reason"].startswith("another connection has taken over")
    assert first.closed
    first.lose()  # which is no loss of the worker's
    assert desk.states()[0] == "working"
    assert second.report(np.ones(D), 1, 1)[:2] == (wire.MODEL, 2)


def test_a_sign_of_life_keeps_a_row(desk):
    first = desk.call()
    first.join(worker="a")
    desk.now = 0.9 * OCCUPIED
    first.give(wire.head(wire.ALIVE))
    desk.now = 1.8 * OCCUPIED
    assert desk.call().hello(worker="a")[0] == wire.REFUSAL


def test_a_row_that_is_away_is_kept_for_its_worker_for_a_while():
    desk = Desk(begun())
    caller = desk.call()
    caller.join()
    caller.report(np.ones(D))
    caller.lose()
    assert desk.states() == ["away"]
    assert desk.server.state.rows[0].any()
    kind, _, content = desk.call().hello()
    assert (kind, content["final"]) == (wire.REFUSAL, False)
    assert "may come back" in content["reason"]
    desk.now = OCCUPIED
    assert desk.call().join()["samples"] == 1


def test_the_row_of_a_worker_that_has_said_its_name_is_never_given_to_one_without():
    desk = Desk(begun())
    caller = desk.call()
    caller.join(worker="a")
    caller.report(np.ones(D))
    caller.lose()
    desk.now = 1000.0 * OCCUPIED
    kind, _, content = desk.call().hello()
    assert (kind, content["final"]) == (wire.REFUSAL, True)
    assert "give the worker its name" in content["reason"]
    assert desk.call().join(worker="a")["samples"] == 1


@pytest.mark.parametrize(("failed", "state"), [(False, "left"), (True, "away")])
def test_a_worker_leaves_and_its_row_is_given_to_a_new_one(desk, failed, state):
    stays, leaves = desk.call(), desk.call()
    stays.join(), leaves.join()
    leaves.report(np.ones(D), 0, 4)
    leaves.give(wire.text(wire.LEAVE, {"reason": "\x1b[2J\nbye" + "x" * 2000, "failed": failed}))
    assert leaves.closed
    leaves.lose()
    assert desk.states() == ["working", state]
    event = next(event for event in desk.session.notes.events if "bye" in event)
    assert len(event) < 600
    assert "\x1b" not in event
    assert "\n" not in event
    welcome = desk.call().join()
    assert (welcome["row"], welcome["samples"]) == (1, 5)


def test_goodbye_is_told_to_all_and_what_comes_after_the_end_is_not_handled(desk):
    one, two, stranger = desk.call(), desk.call(), desk.call()
    one.join(), two.join()
    before = desk.state()
    desk.session.end(Ending.DIVERGED, "enough")  # whose words are any
    desk.perform(desk.connections.goodbye(True, desk.session.why))
    for caller in (one, two, stranger):
        assert caller.frame() == (wire.GOODBYE, 0, {"done": True, "reason": "enough"})
    assert one.report(np.ones(D)) is None
    two.give(wire.text(wire.LEAVE, {"reason": "late"}))
    assert desk.state() == before
    one.lose()
    assert not any("is gone" in event for event in desk.session.notes.events)


def test_workers_are_told_to_come_again_if_the_last_save_failed():
    """Who starts the server again goes on from an older save, and needs them."""

    class Unsaved(Session):
        @property
        def problems(self):
            return (Problem(Trouble.SAVING, "no space left on device"),)

    desk = Desk(begun(session=Unsaved))
    caller = desk.call()
    caller.join()
    desk.perform(desk.connections.goodbye(True, "enough"))
    assert caller.frame() == (wire.GOODBYE, 0, {"done": False, "reason": "enough"})


def test_an_error_that_is_no_workers_fault_is_the_servers_failure():
    class Broken(Session):
        def _moved(self, now):
            raise ZeroDivisionError

    desk = Desk(begun(session=Broken))
    caller = desk.call()
    caller.join()
    assert caller.report(np.ones(D)) is None
    assert isinstance(desk.connections.failure, ZeroDivisionError)
