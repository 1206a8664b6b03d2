"""Runs that go on where another one ended, was refused, or was acknowledged under other rules."""

import numpy as np

import siag
from siag.runtimes.session import Session
from siag.runtimes.until import Curve, Until
from siag.server import Guard, ParameterServer, Store

STEP = siag.steps.Constant(0.1)
IDENTITY = {"n": 1}


def session(folder, guard=None):
    server = ParameterServer(siag.methods.SIAG(), STEP, np.zeros(2), 1, guard=guard)
    made = Session(server, Until(), Curve(Until(), 10, None), store=Store(folder, IDENTITY, durable=True), durable=True)
    made.recover(0.0)
    made.begin(0.0)
    return made


def test_what_was_acknowledged_is_recovered_under_a_stricter_guard_too(tmp_path):
    first = session(tmp_path)
    first.server.join(0, 0.0)
    for k in range(3):
        first.push(0, k, np.ones(2), k, 0.1 * k)
    first.commit()
    first.store.close()
    second = session(tmp_path, Guard(norm=0.5))
    assert second.server.version == 3
    assert second.server.guard == Guard(norm=0.5)
    second.store.close()


def test_a_folder_whose_workers_had_all_left_can_be_gone_on_with(tmp_path):
    first = session(tmp_path)
    first.server.join(0, 0.0)
    first.push(0, 0, np.ones(2), 0, 0.1)
    first.left(0, 0.2, "its stream ended")
    first.look_after(5.0)
    assert first.over
    first.finish(5.0)
    first.store.close()
    second = session(tmp_path)
    second.look_after(5.0)
    assert not second.over
    second.server.join(0, 6.0)
    second.push(0, 1, np.ones(2), 1, 6.0)
    second.left(0, 7.0, "its stream ended")
    second.look_after(12.0)
    assert second.over
    second.store.close()
