"""Servers for tests, and all that is in them."""

import json

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import siag
from siag.server import DROP, KEEP, Departed, Guard, ParameterServer, Refused

quick = settings(deadline=None, max_examples=60)
N, D = 3, 4
SIAG = siag.methods.SIAG()
STEPS = siag.steps.Harmonic(beta=0.6, gamma=60)
GUARD_OFF = Guard(jump=None, strikes=10**6)
POLICIES = [KEEP, DROP, Departed(3.0), Departed(40.0)]


def make(method=SIAG, step=None, n=N, d=D, **options):
    return ParameterServer(method, step or method.default_step or STEPS, np.zeros(d), n, **options)


def everything(server):
    """All that a report may change, as bytes and numbers, but for what is known of the workers."""
    arrays = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in server.arrays().items()}
    counts = (server.version, server.reports, server.arrived, server.fades, tuple(server.roster.counted_ages))
    return arrays, counts, server.changed.tobytes()


def ones(value=1.0, d=D, dtype=np.float64):
    return np.full(d, value, dtype)


moves = st.one_of(
    st.tuples(st.just("push"), st.integers(0, N - 1), st.floats(-1e3, 1e3)),
    st.tuples(st.sampled_from(["leave", "join", "away", "bad"]), st.integers(0, N - 1), st.just(0.0)),
    st.tuples(st.just("tick"), st.just(0), st.just(0.0)),
)


def play(server, plan, now=0.0):
    """Let moves happen, a quarter of a second apart; return the time of the last."""
    for what, i, value in plan:
        now += 0.25
        if what == "push":
            message = value * np.cos(np.arange(server.message_size) + server.members[i].samples)
            server.push(i, server.version, message, server.members[i].samples, now)
        elif what == "tick":
            server.tick(now)
        elif what == "leave":
            server.leave(i, now, "bye")
        elif what == "away":
            server.members[i].go_away("")
        elif what == "bad":
            with pytest.raises(Refused):
                server.push(i, -1, ones(), 0, now)
        else:
            server.join(i, now)
    return now


CURVATURE, CENTERS = np.array([1.0, 2.0, 0.5]), np.array([[0.0, 1.0], [1.0, -1.0], [4.0, 3.0]])


def gradient(i, w):
    """Of F_i(w) = a_i/2 ‖w − c_i‖²."""
    return CURVATURE[i] * (w - CENTERS[i])


def rounds(server, workers, count):
    """The workers report their exact gradients in turn."""
    for k in range(count):
        i = workers[k % len(workers)]
        server.push(i, server.version, gradient(i, server.w), server.members[i].samples, now=0.0)


def second_life(first, now, **options):
    """Another server that goes on where the first is: through text and bytes, as on disk."""
    again = make(first.method, **options)
    saved = {name: array.copy() for name, array in first.arrays().items()}
    for name, array in again.arrays().items():
        array[...] = saved[name]
    again.restore(json.loads(json.dumps(first.meta(now))), now)
    return again
