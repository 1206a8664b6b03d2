"""A server does what the simulator does."""

import numpy as np
import pytest
from servers import GUARD_OFF, SIAG, STEPS, D, N, make, ones

import siag
from siag.activity import Clock, EveryArrivals, Exponential, LogNormal, OnOff, Tick, Trace
from siag.activity.agenda import STEP
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.methods import compute
from siag.server import ParameterServer
from siag.storage import TraceWriter

PROBLEMS = [
    siag.problems.LeastSquares.random(n=N, d=D, p=3, noise=0.1, seed=2),
    siag.problems.LogisticRegression.random(n=N, d=D, m=7, seed=3),
]


class Hand:
    """Workers of a problem, moved by hand: worker i's k-th sample is that of the simulator."""

    def __init__(self, problem, server, seed):
        self.problem, self.server, self.seed = problem, server, seed
        self.oracle, self.memory = problem.oracle(), server.method.recruit(np.zeros(problem.d), problem.n)
        self.drawn, self.flying = [0] * problem.n, {}

    def read(self, i):
        """Worker i reads w and computes; what it had computed before is lost."""
        rng, message = blank(), np.empty(self.problem.d)
        rewind(rng, key(self.seed, 0, SAMPLES), i, self.drawn[i])
        sent = compute(self.memory, self.oracle, rng, i, self.server.w, message)
        self.flying[i] = (self.server.version, message, self.drawn[i], sent)
        self.drawn[i] += 1

    def report(self, i, now):
        stamp, message, sample, sent = self.flying.pop(i)
        if sent:
            self.server.push(i, stamp, message, sample, now)


CLOCKS = [
    Clock(compute=Exponential(1.0), slowness=[1.0, 2.0, 7.0]),
    Clock(compute=LogNormal(1.0), travel=Exponential(0.3), server=EveryArrivals(3), availability=OnOff(5.0, 2.0)),
    Clock(compute=Exponential(1.0), server=Tick(0.2), slowness=[1.0, 2.0, 7.0]),
]


@pytest.mark.few(3)
@pytest.mark.parametrize("clock", CLOCKS, ids=lambda clock: repr(clock.server))
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
@pytest.mark.parametrize("method", [SIAG, siag.methods.SGD(), siag.methods.IAG(wait=1.0)], ids=repr)
def test_run_along_a_clock_it_does_what_the_simulator_does_bit_for_bit(method, problem, clock, tmp_path):
    server = ParameterServer(method, STEPS, np.zeros(problem.d), N, server=clock.server, guard=GUARD_OFF)
    server.trace = TraceWriter(tmp_path / "trace", {"workers": N})
    hand, iterates, ages = Hand(problem, server, seed=5), [], []
    for chunk in clock.events(N, 200, seed=5, repeat=0, cost=D):
        for code, age, now in zip(chunk.code.tolist(), chunk.age.tolist(), chunk.time.tolist(), strict=True):
            if code == STEP:
                if isinstance(clock.server, Tick):
                    server.tick(now)
                iterates.append(float(np.square(server.w - problem.optimum).sum()))
                assert server.version == len(iterates)
            elif code < 0:
                hand.read(-1 - code)
            else:
                stamp = hand.flying[code][0]
                ages.append((server.version - stamp, age))
                hand.report(code, now)
    run = siag.simulate(problem, method, clock, STEPS, iterations=200, seed=5, record=10**5)
    assert np.array_equal(server.w, run.w[0])
    np.testing.assert_allclose(iterates, run.error[0, 1:], rtol=1e-12)
    assert all(mine == its for mine, its in ages)
    # And so does its trace.
    server.trace.close(server.version)
    trace = Trace.read(tmp_path / "trace")
    again = siag.simulate(problem, method, trace, STEPS, iterations=200, seed=5, record=10**5)
    assert np.array_equal(again.w, run.w)
    assert np.array_equal(again.error, run.error)


def test_reports_from_one_version_are_taken_together_once_k_have_arrived():
    server = make(siag.methods.SGD(normalization="sum"), server=EveryArrivals(3))
    for i in (2, 0, 1):
        server.push(i, 0, ones(float(i)), 0, now=0.0)
    eta = 0.6 / 60
    assert server.w.tolist() == [-(eta / 3) * 3.0] * D
