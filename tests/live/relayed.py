"""Relays in virtual time without faults of their own: a root, relays, their members, in the network of the torture."""

import math
import random
from types import SimpleNamespace

import numpy as np
from pair import begun
from tests.torture.network import Host, Wire
from tests.torture.relay import MANY, Relay

from siag.activity import Clock, Exponential
from siag.live.protocol.connections import Connections
from siag.live.protocol.welcome import make_method
from siag.live.protocol.worker import Worker
from siag.live.security import Tokens
from siag.live.spec import Spec
from siag.live.task import FromStream
from siag.live.transports.simulated.world import World
from siag.server.guard import Guard

LOOK = 0.05


class Root:
    """The root, which is down at times, or takes no new connections."""

    open = True

    def __init__(self, town, session):
        self.town, self.arriving = town, None
        self.session, self.server = session, session.server
        self.connections = Connections(session, Tokens.none(), MANY, now=0.0)

    @property
    def now(self):
        return self.town.world.now

    def connect(self, client):
        return Wire(self.town, client, self) if self.open and self.connections is not None else None

    def perform(self, actions):
        for action in actions:
            action.connection.place.perform(action)

    def look(self):
        if self.connections is None:
            return
        if self.session.over:
            self.perform(self.connections.goodbye(self.session.ended.ending.done, self.session.why))
        else:
            self.session.look_after(self.now)


class Town:
    """A world with a root, relays and workers, in which nothing goes wrong by itself."""

    options = SimpleNamespace(seed=0, pieces=False, half_open=0.0, down=1.0)
    quiet, delay = False, None

    def __init__(self, n, *, method=None, step=1 / 16, d=2, seed=1, times=None, **given):
        self.world, self.n, self.rng = World(), n, random.Random(seed)
        self.agenda = Clock(times or Exponential(1.0)).begin(n, seed, 0)
        self.given = {"method": method, "step": step, "d": d, **given}
        self.relays, self.members = [], []

    def rooted(self, names):
        self.names, self.lives = names, 1
        self.root = Root(self, begun(names, life="1", **self.given))
        return self.root

    def crash_root(self, down):
        """The root is killed; one that has saved nothing is there `down` seconds later."""
        connections, self.root.connections = self.root.connections, None
        for connection in list(connections.connections):
            connection.place.cut()

        def back():
            self.lives += 1
            self.root.__init__(self, begun(self.names, life=f"{self.lives}", **self.given))

        self.world.after(down, back)

    def relay(self, above, names, name, **given):
        spec = Spec(progress=False, guard=Guard(jump=None))
        relay = Relay(self, self.n + len(self.relays), name, names, above, spec=spec, **given)
        self.relays.append(relay)
        self.world.at(0.0, relay.start)
        return relay

    def work(self, row, place, name, gradient, stream):
        def make(description, w0):
            return FromStream(gradient, stream, make_method(description), w0)

        worker = Worker(make, name=name, heartbeat=math.inf, rng=random.Random(row))
        member = Host(self, row, worker, place, self.agenda)
        self.members.append(member)
        self.world.at(0.1, member.start, row)  # when all places are there

    def run(self, seconds):
        look = self.world.now
        until = look + seconds
        self.world.at(until, lambda: None)
        while self.world.now < until and self.world.step():
            if self.world.now >= look:
                look = self.world.now + LOOK
                self.root.look()
        return self


def numbers(row, d=2, count=10_000):
    """Small whole numbers, the row's own."""
    return iter(np.random.default_rng(row).integers(-8, 9, (count, d)).astype(float))


def whole(w, x):
    """A gradient of whole numbers, so that sums of many are exact in any order."""
    return np.floor(4.0 * w) - x
