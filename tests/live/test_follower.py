"""A follower's connections without I/O: who is let in, what orders do, and what it says of its saves."""

import numpy as np
import pytest
from pair import Desk
from tests.specs import spec_of

from siag.foundations.errors import BadFile
from siag.live.protocol import wire
from siag.live.protocol.reception import Limits
from siag.live.security import Tokens
from siag.live.sharding.follower import BEAT, FollowerConnections
from siag.live.sharding.orders import NOTE, Answer, GoBack, Move, Save, Take, frames, pack
from siag.live.sharding.slices import Shard
from siag.methods import SGD

SECRET = "a secret of the servers"
SPEC = spec_of(d=4, method=SGD())
FACTS = Shard(SPEC, 1, 2).facts


class Slow:
    """A store whose saves take until they are done."""

    busy, problem = False, None

    def known(self, arrays):
        return [1, 2], 2

    def save_as(self, number, common, arrays, rows, meta):
        free, self.busy = not self.busy, True
        return free

    def go_back(self, number, arrays):
        raise BadFile(f"there is no save {number}")

    def close(self):
        self.busy = False


class Following(Desk):
    """A follower with its lead."""

    def __init__(self, store=None):
        self.store, self.now = store, 0.0
        given = {"tokens": Tokens.none(), "secret": SECRET, "store": None if store is None else lambda: store}
        self.connections = FollowerConnections(Shard(SPEC, 1, 2), Limits(), **given)
        self.lead = self.call()
        kind, _, self.welcome = self.lead.hello(lead=SECRET, **FACTS)
        assert kind == wire.WELCOME

    def order(self, *orders):
        """The lead gives orders."""
        for frame in frames([pack(order) for order in orders]):
            self.lead.give(frame)

    def guest(self, visit, row):
        """A worker that the lead lets in."""
        caller = self.call()
        assert caller.hello(visit=visit, shards=2)[2] == {"shard": 1}
        self.order(Answer(row, 0, visit))
        assert caller.frame()[:2] == (wire.MODEL, 0)
        return caller

    def said(self):
        """What the lead is told next."""
        length = wire.HEADER.unpack_from(self.lead.sent)[0] + wire.HEADER.size
        frame, self.lead.sent = self.lead.sent[:length], self.lead.sent[length:]
        return frame

    def told(self):
        """What the lead is told next, as JSON."""
        return wire.parse_text(self.said()[wire.HEADER.size :])


def test_each_worker_is_sent_the_slice_of_its_own_version_though_orders_come_together():
    follower = Following()
    one, two = follower.guest(11, 0), follower.guest(22, 1)
    assert one.report([1.0, 2.0]) is None
    assert two.report([10.0, 20.0]) is None
    for row, visit, numbers in ((0, 11, (1.0, 2.0)), (1, 22, (10.0, 20.0))):
        note = follower.said()
        assert wire.HEADER.unpack_from(note)[1:4:2] == (wire.NOTE, visit)
        assert NOTE.unpack(note[wire.HEADER.size :]) == (row, sum(number**2 for number in numbers))
    follower.order(Take(0, 0, 0, 0.5, 1), Answer(0, 1, 11), Take(1, 1, 0, 0.5, 1), Move(0.0), Answer(1, 3, 22))
    kind, version, first = one.frame()
    assert (kind, version) == (wire.MODEL, 1)
    kind, version, second = two.frame()
    assert (kind, version) == (wire.MODEL, 3)
    assert first.tolist() == [-0.5, -1.0]
    assert second.tolist() == [-5.5, -11.0]


def test_a_guest_whom_the_lead_does_not_let_in_may_not_report():
    follower = Following()
    guest = follower.call()
    assert guest.hello(visit=7, shards=2)[0] == wire.WELCOME
    assert guest.report(np.zeros(2))[0] == wire.REFUSAL
    assert guest.closed


@pytest.mark.parametrize(
    ("hello", "says", "final"),
    [
        ({"visit": -1, "shards": 2}, "split over 2 servers", True),
        ({"visit": "1", "shards": 2}, "split over 2 servers", True),
        ({"visit": 1, "shards": 3}, "split over 2 servers", True),
        ({"visit": 11, "shards": 2}, "the visit is known already", False),
        ({"lead": ["no"]}, "the secret is not this server's", True),
        ({"lead": "a guess", **FACTS}, "the secret is not this server's", True),
        ({"lead": SECRET, **FACTS, "shards": 3}, "shards is 2 here, 3 at the lead", True),
        ({"protocol": 99}, "install the same version", True),
    ],
)
def test_what_is_neither_its_lead_nor_a_worker_of_this_run_is_refused(hello, says, final):
    follower = Following()
    follower.guest(11, 0)
    caller = follower.call()
    kind, _, content = caller.hello(**hello)
    assert (kind, content["final"], caller.closed) == (wire.REFUSAL, final, True)
    assert says in content["reason"]


@pytest.mark.parametrize(
    "content",
    [b"\0", b"\1\0", pack(Take(5, 0, 0, 0.1, 1)), pack(Take(0, 0, 9, 0.1, 1)), pack(Move(0.1))[:-1]],
)
def test_orders_that_are_none_end_the_leads_connection(content):
    follower = Following()
    follower.lead.give(wire.head(wire.ORDERS, len(content)) + content)
    assert follower.lead.closed


def test_without_its_lead_it_sends_the_workers_away_and_a_new_lead_begins_anew():
    follower = Following()
    worker = follower.guest(11, 0)
    follower.order(Move(0.0))
    follower.lead.lose()
    follower.flush()
    assert worker.frame()[2] == {"reason": "the lead is gone", "final": False}
    assert worker.closed
    assert follower.call().hello(visit=12, shards=2)[2]["reason"] == "there is no lead yet"
    before = follower.connections.server
    follower.lead = follower.call()
    assert follower.lead.hello(lead=SECRET, **FACTS)[0] == wire.WELCOME
    assert follower.connections.server is not before


def test_the_lead_hears_of_a_save_that_takes_long_and_of_its_end():
    follower = Following(Slow())
    assert (follower.welcome["saves"], follower.welcome["common"]) == ([1, 2], 2)
    follower.order(Save(3, 2))
    follower.flush()
    assert follower.lead.sent == b""
    follower.now = BEAT + 1.0
    follower.flush()
    assert follower.told() == {"saving": 3}
    follower.store.busy = False
    follower.flush()
    assert follower.told() == {"saved": 3, "problem": None}
    assert not follower.connections.pending


def test_a_save_or_a_way_back_that_cannot_be_is_told_with_the_reason():
    follower = Following()
    follower.order(Save(3, 2))
    assert follower.told() == {"saved": 3, "problem": "it has nothing to save"}
    follower.order(GoBack(0))
    assert follower.told() == {"saved": 0, "problem": None}
    follower = Following(Slow())
    follower.order(GoBack(7))
    assert follower.told() == {"saved": 7, "problem": "there is no save 7"}
    follower.order(Save(8, 0), Save(9, 0))
    assert follower.told() == {"saved": 9, "problem": "it is still at the save before"}


def test_a_row_that_another_connection_has_taken_over_is_no_longer_the_first_ones():
    follower = Following()
    first, other = follower.guest(11, 0), follower.guest(22, 1)
    assert first.report([1.0, 2.0]) is None
    follower.said()
    second = follower.guest(33, 0)
    assert "taken over" in first.frame()[2]["reason"]
    assert first.closed
    assert follower.connections.server.pending == {}
    assert second.report([3.0, 4.0]) is None
    assert wire.HEADER.unpack_from(follower.said())[3] == 33
    follower.order(Answer(0, 1, 22))
    kind, _, content = other.frame()
    assert (kind, content) == (wire.REFUSAL, {"reason": "this is another worker's row", "final": True})
