"""Servers of a split model answer a report with w as it was then, however many reports come at once."""

from collections import deque

import numpy as np

from siag.live import wire
from siag.live.assembly import Assembly
from siag.live.connection import Limits, SendModel
from siag.live.parts import Parts
from siag.live.security import Tokens
from siag.live.sharding.connections import LeadConnections
from siag.live.sharding.follower_connections import FollowerConnections
from siag.live.sharding.lead import LeadServer
from siag.live.sharding.link import Note
from siag.live.sharding.orders import Answer, Take, pack
from siag.live.sharding.slice_server import SliceServer
from siag.methods import SIAG
from specs import spec_of

SECRET = "secret"


def models(connections, actions):
    """What each worker is sent, each action being carried out before the next is asked for."""
    return [connections.shown.copy() for action in actions if isinstance(action, SendModel)]


def receive(connections, connection, content):
    """These bytes have come."""
    connection.reader.buffer()[: len(content)] = content
    return connections.receive(connection, len(content), 0.0)


def hello(**given):
    return wire.text(wire.HELLO, {"protocol": wire.PROTOCOL, "shards": 2, **given})


def report(*numbers):
    return wire.head(wire.REPORT, 8 * len(numbers), 0, 0) + np.array(numbers, float).tobytes()


def orders(*given):
    content = b"".join(map(pack, given))
    return wire.head(wire.ORDERS, len(content)) + content


def follower_with_reports():
    """A follower that has got the reports of two workers, and its lead's connection."""
    make = lambda: SliceServer(SIAG(), np.zeros(2), 2, 1, 2)  # noqa: E731
    follower = FollowerConnections(make, (1, 2), {"shards": 2}, Tokens.none(), SECRET, Limits(), None)
    lead, *workers = (follower.open(None, 0.0) for _ in range(3))
    list(receive(follower, lead, hello(lead=SECRET)))
    for row, worker in enumerate(workers):
        list(receive(follower, worker, hello(visit=row)))
    list(receive(follower, lead, orders(Answer(0, 0, 0), Answer(1, 0, 1))))
    for worker in workers:
        list(receive(follower, worker, report(1.0)))
    return follower, lead


def test_a_follower_answers_between_orders_that_come_together():
    given = [Take(0, 0, 0, 0.5, 1), Answer(0, 1, 0), Take(1, 1, 0, 0.5, 1), Answer(1, 2, 1)]
    apart, lead = follower_with_reports()
    expected = [w for order in given for w in models(apart, receive(apart, lead, orders(order)))]
    together, lead = follower_with_reports()
    assert models(together, receive(together, lead, orders(*given))) == expected
    assert expected[0] != expected[1]


class FakeLink:
    """A follower that has its slices."""

    k, beyond = 1, False

    def __init__(self):
        self.notes = deque()

    def order(self, content):
        pass

    def hear(self):
        pass


class LeadParts(Parts):
    """Of a lead with one follower."""

    def server(self, stack):
        spec = self.spec
        return LeadServer(spec.method, spec.step, spec.w0, spec.names, [FakeLink()], **self.given)


def test_a_lead_answers_between_reports_that_are_complete_together():
    spec = spec_of(("a", "b"), d=2)
    assembly = Assembly(spec, parts=LeadParts(spec))
    lead = LeadConnections(assembly.session, Tokens.none(), Limits(), now=0.0)
    (link,) = assembly.server.links
    for row in range(2):
        worker = lead.open(None, 0.0)
        list(receive(lead, worker, hello(visit=row)))
        list(receive(lead, worker, report(1.0)))
        link.notes.append(Note(visit=row, sample=0, row=row, square=1.0))
    first, second = models(lead, lead.heard(link, 0.0))
    assert first != second
    assembly.close()
