"""Time limits of connections, and what is done with garbage."""

import json
import math
import random

import numpy as np
import pytest
from pair import D, Desk, begun

from siag.foundations.errors import BadInput
from siag.live.protocol import wire
from siag.live.protocol.reception import GRACE, UNREAD, Limits
from siag.server.guard import Guard

NONSENSE = np.full(D, np.nan).tobytes()


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
    for k, byte in enumerate(frame[:47]):
        desk.now = 0.5 * k
        caller.give(bytes([byte]))
    desk.now = late * 0.99  # from the first byte, or the last of the header, if that says that much is to come
    assert desk.connections.slow(desk.now)[1] == []
    desk.now = late + 16.1
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
        (wire.head(wire.HELLO, 2**32 - 1), "HELLO, 4294967295 bytes: 2 to 4064"),
        (wire.head(wire.HELLO, 4065), "HELLO, 4065 bytes: 2 to 4064"),
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
            raw[chance.randrange(min(len(raw), wire.HEADER.size))] = chance.randrange(256)
    return bytes(raw), len(raw) > wire.HEADER.size


@pytest.mark.thorough
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
