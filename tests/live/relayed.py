"""Relays in virtual time: a root, relays, their members, all in one process, with the code of live runs."""

import math
import random

import numpy as np
from pair import begun

from siag.activity import Clock, Exponential
from siag.live.curve import Curve
from siag.live.protocol.connections import Connections
from siag.live.protocol.reception import Limits
from siag.live.protocol.welcome import make_method
from siag.live.protocol.worker import Phase, Worker
from siag.live.relays.connections import AT_ONCE, RelayConnections
from siag.live.relays.root import RootWorker
from siag.live.relays.server import ENDLESS, NEVER, RelayServer
from siag.live.security import Tokens
from siag.live.session import Session
from siag.live.task import FromStream
from siag.live.transports.simulated.world import Client, Link, World
from siag.server.guard import Guard
from siag.steps import Constant

MANY = Limits(connections=1 << 30, max_weight=1e9)
LOOK = 0.05


class Place:
    """Something that can be connected to; nobody is there at times."""

    connections = None

    def dial(self, client):
        return None if self.connections is None else Link(client._world, client, self.connections, client.delay)

    def cut_all(self):
        connections, self.connections = self.connections, None
        for connection in list(connections.connections):
            connection.place.cut()


class Root(Place):
    """The root."""

    def __init__(self, session):
        self.session, self.server = session, session.server
        self.connections = Connections(session, Tokens.none(), MANY, now=0.0)

    def look(self, now):
        if self.connections is None:
            return
        if self.session.over:
            for action in self.connections.goodbye(self.session.ended.ending.done, self.session.why):
                action.connection.place.perform(action)
        else:
            self.session.look_after(now)


class Relay(Client, Place):
    """A relay's process: a client of the root and a place for its members."""

    delay = None

    def __init__(self, town, row, above, names, name, pace=AT_ONCE):
        self.town, self.names, self.name, self.pace, self.above = town, names, name, pace, above
        super().__init__(town.world, row, self.new(), above.dial, town.agenda)

    def new(self):
        rng = random.Random(self.name)
        return RootWorker(len(self.names), name=self.name, heartbeat=math.inf, rng=rng)

    def open(self):
        root = self.worker
        given = {"server": NEVER, "guard": Guard(jump=None), "messages": root.encoding.name}
        server = RelayServer(root.gather(), Constant(1.0), root.w.astype(float), self.names, **given)
        self.session = Session(server, Curve(ENDLESS, 10, None))
        self.session.begin(self._world.now)
        given = {"root": root, "pace": self.pace, "do": super().do, "now": self._world.now}
        self.connections = RelayConnections(self.session, Tokens.none(), MANY, **given)

    def do(self, actions):
        super().do(actions)
        if self.connections is None and self.worker.phase is Phase.JOINED:
            self.open()
        self.follow()

    def follow(self):
        if self.connections is not None:
            for action in self.connections.root_moved(self._world.now):
                action.connection.place.perform(action)

    def look(self, now):
        if self.connections is not None:
            self.session.look_after(now)
            self.connections.time(now)
            if self.connections.failure is not None:
                raise self.connections.failure

    def crash(self, down):
        """Killed; started again `down` seconds later, with nothing."""
        self.cut_all()
        self.kill(self.new(), down)

    def _compute(self):
        pass


class Member(Client):
    """A worker's process."""

    delay = None


class Town:
    """A world with a root, relays and workers; `sizes` says how many members each relay has, 0: workers of the root."""

    def __init__(self, n, *, method=None, step=1 / 16, d=2, seed=1, times=None, **given):
        self.world, self.n, self.seed = World(), n, seed
        self.agenda = Clock(times or Exponential(1.0)).begin(n, seed, 0)
        self._given = {"method": method, "step": step, "d": d, **given}
        self.places, self.members = [], []

    def rooted(self, names):
        self.names, self.lives = names, 1
        self.root = Root(begun(names, life="1", **self._given))
        self.root_connections = self.root.connections
        self.places.append(self.root)
        return self.root

    def crash_root(self, down):
        """The root is killed; one that has saved nothing is there `down` seconds later."""
        self.root.cut_all()

        def back():
            self.lives += 1
            session = begun(self.names, life=f"{self.lives}", **self._given)
            self.root.__init__(session)

        self.world.after(down, back)

    def relay(self, above, names, name, **given):
        relay = Relay(self, self.n + len(self.places), above, names, name, **given)
        self.places.append(relay)
        self.world.at(0.0, relay.start)
        return relay

    def work(self, row, place, name, gradient, stream):
        def make(description, w0):
            return FromStream(gradient, stream, make_method(description), w0)

        worker = Worker(make, name=name, heartbeat=math.inf, rng=random.Random(row))
        member = Member(self.world, row, worker, place.dial, self.agenda)
        self.members.append(member)
        self.world.at(0.1, member.start, row)  # when all places are there

    def run(self, seconds):
        look = self.world.now
        until = look + seconds
        self.world.at(until, lambda: None)
        while self.world.now < until and self.world.step():
            if self.world.now >= look:
                look = self.world.now + LOOK
                for place in self.places:
                    place.look(self.world.now)
        return self


def numbers(row, d=2, count=10_000):
    """Small whole numbers, the row's own."""
    return iter(np.random.default_rng(row).integers(-8, 9, (count, d)).astype(float))


def whole(w, x):
    """A gradient of whole numbers, so that sums of many are exact in any order."""
    return np.floor(4.0 * w) - x
