"""The lead of a split model answers a report with w as it was then, however many reports are complete at once."""

from collections import deque

import numpy as np

from siag.live.assembly import Assembly
from siag.live.protocol import wire
from siag.live.protocol.reception import Limits, SendModel
from siag.live.security import Tokens
from siag.live.sharding.lead import LeadConnections, LeadServer
from siag.live.sharding.link import Note
from siag.live.sharding.slices import Shard
from specs import spec_of


class FakeLink:
    """A follower that has its slices."""

    k, diverged = 1, False

    def __init__(self):
        self.notes = deque()

    def order(self, content):
        pass

    def hear(self):
        pass


class LeadAssembly(Assembly):
    """Of a lead with one follower."""

    def make_server(self, stack):
        return LeadServer(Shard(self.spec, 0, 2), [FakeLink()], **self.given)


def receive(connections, connection, content):
    """These bytes have come."""
    connection.reader.buffer()[: len(content)] = content
    return list(connections.receive(connection, len(content), 0.0))


def test_a_lead_answers_between_reports_that_are_complete_together():
    spec = spec_of(("a", "b"), d=2)
    assembly = LeadAssembly(spec)
    lead = LeadConnections(assembly.session, Tokens.none(), Limits(), now=0.0)
    (link,) = assembly.server.links
    for row in range(2):
        worker = lead.open(None, 0.0)
        receive(lead, worker, wire.text(wire.HELLO, {"protocol": wire.PROTOCOL, "shards": 2, "visit": row}))
        receive(lead, worker, wire.head(wire.REPORT, 8, 0, 0) + np.ones(1).tobytes())
        link.notes.append(Note(visit=row, sample=0, row=row, square=1.0))
    first, second = (
        lead.sent(action.version).copy() for action in lead.heard(link, 0.0) if isinstance(action, SendModel)
    )
    assert first != second
    assembly.close()
