"""A model that is split, for tests: a lead, its followers and workers, all in threads of this process."""

import multiprocessing
import threading
from functools import cached_property, partial

import numpy as np
from peers import PATIENCE, InThread, Notes, Working
from tests.specs import spec_of

import siag
from siag.live.assembly import Assembly
from siag.live.protocol.connections import Connections
from siag.live.protocol.reception import Limits
from siag.live.protocol.welcome import make_method
from siag.live.security import Tokens
from siag.live.sharding import Follower
from siag.live.sharding.client import connect
from siag.live.sharding.lead import LeadAssembly, LeadConnections
from siag.live.sharding.slices import Shard
from siag.live.task import FromProblem
from siag.live.transports.tcp.client import ClientConnection
from siag.live.until import Until
from siag.methods import SIAG
from siag.problems import LeastSquares
from siag.server.guard import Guard
from siag.steps import Constant

STEP = Constant(0.005)
SECRET = "a secret of the servers"
PROBLEM = LeastSquares.random(n=4, p=30, d=23, noise=0.1, seed=3)


class Split(InThread):
    """A lead and its followers."""

    def __init__(
        self,
        shards=2,
        *,
        method=None,
        step=None,
        w0=None,
        names=None,
        until=None,
        tokens=None,
        context=None,
        client=None,
        followers=None,
        secret=SECRET,
        about=None,
        share=False,
        **options,
    ):
        self.notes = Notes()
        self.method, self.w0 = SIAG() if method is None else method, np.zeros(PROBLEM.d) if w0 is None else w0
        self.step = STEP if step is None else step
        self.names = [str(i) for i in range(PROBLEM.n)] if names is None else names
        tokens = Tokens.none() if tokens is None else tokens
        options = {"linger": None, "guard": Guard(jump=None), "progress": self.notes, **options}
        options |= {"method": self.method, "step": self.step, "w0": self.w0, "until": until or Until(reports=400)}
        spec = spec_of(self.names, **options)
        self.followers, self._owns = followers, followers is None
        if followers is None:
            given = {"tokens": tokens, "secret": SECRET, "context": context, "share": share}
            self.followers = [Running(Follower(Shard(spec, k, shards), **given)) for k in range(1, shards)]
        try:
            others, dial = [each.address for each in self.followers], partial(ClientConnection, context=client)
            about = about or {"problem": repr(PROBLEM), "seed": 0}
            lead = LeadAssembly(spec, others, secret, dial, about=about) if others else None
            assembly = lead or Assembly(spec, about=about)
        except BaseException:
            self._stop_followers()
            raise
        make = LeadConnections if self.followers else Connections
        super().__init__(assembly, context=context, tokens=tokens, limits=Limits(), share=share, make=make)

    def addresses(self):
        return [("127.0.0.1", self.port), *(each.address for each in self.followers)]

    def _stop_followers(self):
        if self._owns:
            for each in self.followers:
                each.stop()

    def stop(self, why="as the test says"):
        super().stop(why)
        self._stop_followers()


class Running:
    """A follower in a thread."""

    def __init__(self, follower):
        self.follower, self.address = follower, follower.address
        self.thread = threading.Thread(target=follower.run)
        self.thread.start()

    def stop(self):
        self.follower.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


def of_problem(address, name, *, method=None, problem=PROBLEM, seed=0, pause=0.0, connect=connect, **given):
    """A worker of the problem, at work in a thread."""

    def make(description, w0):
        return FromProblem(problem, make_method(description) if method is None else method, seed, w0, pause)

    worker = Working(address, make, name=name, connect=connect, **given)
    worker.thread.start()
    return worker


def hands(split, **given):
    """A worker for each row."""
    return [of_problem(split.addresses, name, **given) for name in split.names]


def finish(split, workers):
    """Wait until a run is over and its workers have gone; the run."""
    split.wait()
    for worker in workers:
        worker.__exit__()
    if split.error is not None:
        raise split.error
    return split.run


def same(path, split, run, problem=PROBLEM):
    """Whether a replay of the trace ends where the run did, to the bit."""
    again = siag.replay(path, problem, split.method, split.step, seed=0, w0=split.w0)
    assert run.diverged[0] < 0
    assert run.w.any()
    return run.w.tobytes() == again.w.tobytes()


def serve_follower(pipe, k, shards, folder):
    """A follower in a process of its own; it says where it listens."""
    spec = spec_of([str(i) for i in range(PROBLEM.n)], d=PROBLEM.d, step=STEP, folder=folder)
    follower = Follower(Shard(spec, k, shards), tokens=Tokens.none(), secret=SECRET)
    pipe.send(follower.address)
    follower.run()


class Process:
    """A follower in a process of its own."""

    def __init__(self, split_over, k, folder):
        spawn = multiprocessing.get_context("spawn")
        here, there = spawn.Pipe()
        self._process = spawn.Process(target=serve_follower, args=(there, k, split_over, folder), daemon=True)
        self._process.start()
        self._pipe = here

    @cached_property
    def address(self):
        """Where it listens, once it does."""
        assert self._pipe.poll(4 * PATIENCE)
        return self._pipe.recv()

    def stop(self):
        """Kill it."""
        self._process.kill()
        self._process.join(PATIENCE)
        assert not self._process.is_alive()
