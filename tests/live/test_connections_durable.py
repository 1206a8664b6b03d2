"""Answers that wait until they are on disk."""

import errno
import os

import numpy as np
import pytest
from pair import D, Desk, begun

from siag.live.protocol import wire
from siag.live.session import Session


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
