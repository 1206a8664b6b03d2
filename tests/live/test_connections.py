"""The server's side of its connections, without I/O: who joins as whom, what is answered, what is refused."""

import errno
import json
import math
import os
import random

import numpy as np
import pytest
from pair import D, Desk, begun

import siag
from siag.foundations.errors import BadInput
from siag.live.certificates import make_certificates
from siag.live.protocol import wire
from siag.live.protocol.connections import OCCUPIED
from siag.live.protocol.reception import GRACE, UNREAD, Limits
from siag.live.reasons import Ending
from siag.live.security import Tokens, read_token
from siag.live.session import Session
from siag.server.guard import Guard

NONSENSE = np.full(D, np.nan).tobytes()


@pytest.fixture
def desk():
    return Desk(begun(["a", "b"]))


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
        "samples": 0,
        "life": "",
        "method": {"kind": "SIAG", "resum": 64, "wait": 0.0, "rows": "float64"},
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
    again = desk.call()
    assert again.join(worker="a")["samples"] == 1
    again.lose()
    desk.now = OCCUPIED
    assert desk.call().join()["samples"] == 1


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


def test_an_error_that_is_no_workers_fault_is_the_servers_failure():
    class Broken(Session):
        def _moved(self, now):
            raise ZeroDivisionError

    desk = Desk(begun(session=Broken))
    caller = desk.call()
    caller.join()
    assert caller.report(np.ones(D)) is None
    assert isinstance(desk.connections.failure, ZeroDivisionError)


# Answers that wait for the disk


class OnDisk(Session):
    """A durable session with a disk that can be full."""

    full, forced = False, 0

    def commit(self):
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.forced += 1


@pytest.fixture
def durable():
    session = begun(["a", "b"], session=OnDisk)
    session.durable = True
    return Desk(session)


def test_in_durable_mode_answers_come_after_the_disk_and_together(durable):
    one, two = durable.call(), durable.call()
    assert one.hello() is None
    assert two.hello() is None
    durable.flush()
    assert durable.session.forced == 1
    assert [one.frame()[0], one.frame()[0], two.frame()[0], two.frame()[0]] == [wire.WELCOME, wire.MODEL] * 2
    assert one.report(np.ones(D)) is None
    two.give(wire.text(wire.LEAVE, {"reason": "enough"}))
    assert not two.closed
    durable.flush()
    assert one.frame()[:2] == (wire.MODEL, 1)
    assert two.closed
    durable.flush()
    assert durable.session.forced == 2  # nothing was held back


def test_a_full_disk_is_told_once_and_nothing_acknowledged_until_there_is_room(durable):
    caller = durable.call()
    caller.hello()
    durable.flush()
    caller.sent = b""
    durable.session.full = True
    caller.report(np.ones(D))
    for _ in range(5):
        durable.now += 1.0
        durable.flush()
        caller.give(wire.head(wire.ALIVE))
    assert caller.sent == b""
    told = [event for event in durable.session.notes.events if "acknowledged" in event]
    assert len(told) == 1
    assert os.strerror(errno.ENOSPC).lower() in told[0].lower()
    durable.session.full = False
    durable.now += 1.0
    durable.flush()
    assert caller.frame()[:2] == (wire.MODEL, 1)
    assert "on disk again" in durable.session.notes.events[-1]
    assert not durable.connections.pending


def test_in_durable_mode_the_answer_must_be_waited_for(durable):
    caller = durable.call()
    caller.hello()
    durable.flush()
    caller.sent = b""
    caller.give(wire.head(wire.SKIP) * 2)
    kind, _, content = caller.frame()
    assert (kind, content["final"], caller.closed) == (wire.REFUSAL, False, True)
    assert "must be waited for" in content["reason"]
    durable.flush()
    assert caller.sent == b""


# Time


def test_a_hello_must_come_in_time(desk):
    silent, slow = desk.call(), desk.call()
    desk.now = 9.9
    slow.give(wire.text(wire.HELLO, {"protocol": 1})[:30])
    assert desk.connections.slow(desk.now) == ([], [])
    desk.now = 10.1
    cut, actions = desk.connections.slow(desk.now)
    desk.perform(actions)
    assert cut == []
    for caller in (silent, slow):
        assert caller.frame()[2] == {"reason": "no complete frame in time", "final": False}
        assert caller.closed
    assert desk.connections.slow(desk.now + GRACE)[0] == []
    assert len(desk.connections.slow(desk.now + 1.1 * GRACE)[0]) == 2  # they did not hang up


@pytest.mark.parametrize("d", [D, 100_000])
def test_a_frame_must_end_in_time_however_its_bytes_trickle(d):
    desk = Desk(begun(d=d))
    caller = desk.call()
    caller.join()
    assert caller.connection.due == math.inf
    frame = wire.head(wire.REPORT, 8 * d) + bytes(8 * d)
    late = 30.0 + 8 * d / Limits.slowest
    for k, byte in enumerate(frame[:39]):
        desk.now = 0.5 * k
        caller.give(bytes([byte]))
    desk.now = late * 0.99  # from the first byte, or the last of the header, if that says that much is to come
    assert desk.connections.slow(desk.now)[1] == []
    desk.now = late + 12.1
    desk.perform(desk.connections.slow(desk.now)[1])
    assert not caller.frame()[2]["final"]
    assert desk.server.members[0].refused == 1


def test_a_worker_that_does_not_read_is_not_read_from_and_cut_off_in_the_end():
    desk = Desk(begun(guard=Guard(strikes=10**9)))
    caller, room, sent = desk.call(), desk.connections.unread(), 0
    assert room == UNREAD
    caller.join()
    frames = wire.head(wire.SKIP) * 100
    place = caller.connection.reader.buffer()
    place[: len(frames)] = frames
    for action in desk.connections.receive(caller.connection, len(frames), desk.now):
        desk.perform([action])
        sent += 1
        if sent == 3:
            assert desk.connections.pause(caller.connection, desk.now)  # as a transport does when too much is unread
    assert sent == 3
    assert caller.connection.due == math.inf  # it is not its fault that the rest is not read
    desk.now = 30.0
    assert desk.connections.slow(desk.now) == ([], [])
    desk.now = 30.1 + UNREAD / Limits.slowest
    assert desk.connections.slow(desk.now) == ([caller.connection], [])
    desk.perform(desk.connections.resume(caller.connection, desk.now))
    assert desk.connections.slow(desk.now) == ([], [])
    kinds = []
    while (frame := caller.frame()) is not None:
        kinds.append(frame[0])
    assert kinds.count(wire.MODEL) == 100


def test_limits_are_checked():
    for name in ("connections", "hello", "frame"):
        with pytest.raises(BadInput, match=name):
            Limits(**{name: 0})


# Garbage


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "no frame"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40), "no frame"),
        (wire.head(wire.REPORT, 40) + bytes(40), "REPORT: now HELLO is expected"),
        (wire.head(wire.HELLO, 2**32 - 1), "HELLO, 4294967295 bytes: 2 to 4072"),
        (wire.head(wire.HELLO, 4073), "HELLO, 4073 bytes: 2 to 4072"),
        (wire.head(wire.HELLO, 4) + b"nope", "JSON"),
        (wire.head(wire.HELLO, 4000) + b"[" * 4000, "JSON"),
        (wire.text(wire.HELLO, {"protocol": 2**64}), "protocol 18446744073709551616"),
    ],
)
def test_what_is_no_hello_is_answered_once_and_hung_up_on(desk, sent, says):
    caller = desk.call()
    caller.give(sent)
    kind, _, content = caller.frame()
    assert (kind, caller.closed, caller.sent) == (wire.REFUSAL, True, b"")
    assert says in content["reason"]
    assert desk.connections.garbage == 1
    assert desk.states() == ["expected"] * 2


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (wire.text(wire.HELLO, {"protocol": 1}), "HELLO: now REPORT or SKIP or ALIVE or LEAVE is expected"),
        (wire.head(wire.MODEL, 8 * D) + bytes(8 * D), "MODEL: now"),
        (wire.head(wire.REPORT, 8 * D + 8), "REPORT, 24 bytes: 16"),
        (wire.head(wire.REPORT, 2**31), "REPORT, 2147483648 bytes: 16"),
        (wire.head(wire.ALIVE, 5) + b"hello", "ALIVE, 5 bytes: 0"),
        (wire.head(wire.LEAVE, 3) + b"[1]", "JSON object"),
        (wire.head(wire.REPORT, 8 * D, 0, 2**62) + bytes(8 * D), "sample 4611686018427387904"),
        (wire.head(wire.SHARED_REPORT), "SHARED_REPORT: now"),
    ],
)
def test_garbage_of_a_worker_ends_the_connection_and_counts_against_it(sent, says):
    desk = Desk(begun(guard=Guard(strikes=2)))
    for final in (False, True):
        caller = desk.call()
        caller.join(worker="a")
        before = desk.state()
        caller.give(sent)
        kind, _, content = caller.frame()
        assert (kind, content["final"], caller.closed) == (wire.REFUSAL, final, True)
        assert says in content["reason"]
        assert desk.state() == before
        caller.lose()
    assert desk.states() == ["refused"]


def bad_frame(chance):
    """A frame that was good once, or never. None of them is a report that could be accepted."""
    good = [
        wire.head(wire.REPORT, len(NONSENSE), 0, chance.randrange(100)) + NONSENSE,
        wire.head(wire.SKIP, 0, -1, -1),
        wire.head(wire.ALIVE),
        wire.text(wire.HELLO, {"protocol": 1, "worker": str(chance.randrange(1, 8))}),
        wire.head(wire.MODEL, 8 * D) + NONSENSE,
        wire.text(wire.REFUSAL, {"reason": "no", "final": True}),
        wire.text(wire.GOODBYE, {"done": True}),
        wire.head(wire.LEAVE, 4000) + b'{"a":' + b"[" * 3995,
        wire.head(wire.REPORT, chance.choice([0, 8, 2**31, 2**32 - 1])),
        json.dumps({"protocol": 1}).encode() + bytes(20),
    ]
    raw = bytearray(chance.choice(good))
    kind = chance.randrange(6)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 200)), False
    if kind == 1:
        return bytes(raw[: chance.randrange(len(raw))]), False
    if kind > 2:
        for _ in range(chance.randrange(1, 4)):
            raw[chance.randrange(min(len(raw), 24))] = chance.randrange(256)
    return bytes(raw), len(raw) > 24


def test_ten_thousand_bad_frames_change_nothing():
    chance = random.Random(3)
    desk = Desk(begun([str(i) for i in range(8)], guard=Guard(strikes=10**9)))
    good = desk.call()
    good.join(worker="0")
    good.report(np.ones(D))
    before, sent = desk.state(), 0
    while sent < 10_000:
        caller = desk.call()
        if chance.random() < 0.9:
            caller.give(wire.text(wire.HELLO, {"protocol": 1, "worker": str(chance.randrange(1, 8))}))
        more = True
        while more:
            frame, more = bad_frame(chance)
            caller.give(frame)
            sent += 1
            more = more and chance.random() < 0.5
        caller.lose()
    assert desk.state() == before
    assert desk.connections.garbage > 1000
    assert good.report(np.ones(D), 1, 1)[:2] == (wire.MODEL, 2)
    assert list(desk.connections.connections) == [good.connection]
