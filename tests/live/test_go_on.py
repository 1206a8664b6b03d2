"""Runs that go on where another one ended, was refused, or was acknowledged under other rules."""

import numpy as np

import siag
from siag.live.curve import Curve
from siag.live.session import Session
from siag.live.until import Until
from siag.server import Guard, ParameterServer
from siag.storage import Store

STEP = siag.steps.Constant(0.1)
IDENTITY = {"n": 1}


def session(folder, guard=None):
    server = ParameterServer(siag.methods.SIAG(), STEP, np.zeros(2), 1, guard=guard)
    made = Session(server, Curve(Until(), 10, None), store=Store(folder, IDENTITY, durable=True), durable=True)
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


def curved(folder, iterations=100, durable=False):
    until = Until(iterations=iterations)
    server = ParameterServer(siag.methods.SIAG(), STEP, np.zeros(2), 1)
    curve = Curve(until, 10, lambda w: float(np.square(w - 1.0).sum()))
    made = Session(server, curve, store=Store(folder, IDENTITY, durable=durable), durable=durable)
    made.recover(0.0)
    made.begin(0.0)
    return made


def report(session, count):
    session.server.join(0, 0.0)
    for _ in range(count):
        version, sample = session.server.version, session.server.members[0].samples
        session.push(0, version, session.server.w - 1.0, sample, 0.01 * version)


def stopped(session):
    session.save(1.0, wait=True)
    session.store.close()


def test_a_run_that_was_restarted_has_its_whole_curve(tmp_path):
    through = curved(tmp_path / "one")
    report(through, 100)
    first = curved(tmp_path / "two")
    report(first, 37)
    stopped(first)
    second = curved(tmp_path / "two")
    assert second.curve.next == first.curve.next
    assert second.curve.latest == first.curve.latest
    report(second, 20)
    stopped(second)
    third = curved(tmp_path / "two")
    report(third, 43)
    whole, pieces = (each.curve.run(each.server.w, -1, {}) for each in (through, third))
    assert pieces.t.tolist() == whole.t.tolist()
    assert np.array_equal(pieces.error, whole.error)
    assert np.array_equal(pieces.reads, whole.reads)
    assert np.array_equal(pieces.w, whole.w)
    through.store.close()
    third.store.close()


def test_a_durable_run_that_crashed_has_its_whole_curve_and_no_other_point(tmp_path):
    through, first = curved(tmp_path / "one"), curved(tmp_path / "two", durable=True)
    report(through, 100)
    report(first, 37)
    first.commit()
    first.store.close()  # without a save
    second = curved(tmp_path / "two", durable=True)
    report(second, 63)
    whole, pieces = (each.curve.run(each.server.w, -1, {}) for each in (through, second))
    assert pieces.t.tolist() == whole.t.tolist()
    assert np.array_equal(pieces.error, whole.error)
    assert np.allclose(pieces.time[0, :8], whole.time[0, :8])  # to version 32
    through.store.close()
    second.store.close()


def test_a_curve_with_nothing_measured_and_an_open_end_goes_on_too(tmp_path):
    rows = []
    for count in (30, 30):
        server = ParameterServer(siag.methods.SIAG(), STEP, np.zeros(2), 1)
        made = Session(server, Curve(Until(), 100, None), store=Store(tmp_path, IDENTITY))
        made.recover(0.0)
        made.begin(0.0)
        report(made, count)
        stopped(made)
        rows.append(made.curve.run(server.w, -1, {}).t.tolist())
    assert rows[1][: len(rows[0])] == rows[0]
    assert rows[1][-1] > 30
    assert rows[1] == sorted(set(rows[1]))


def test_a_save_from_before_curves_were_kept_is_gone_on_with(tmp_path):
    first = curved(tmp_path)
    report(first, 37)
    first.curve.saved = lambda: None
    keep = first.store.save

    def without(arrays, rows, meta, **how):
        del meta["curve"]
        return keep(arrays, rows, meta, **how)

    first.store.save = without
    stopped(first)
    second = curved(tmp_path)
    assert second.server.version == 37
    report(second, 63)
    assert second.curve.run(second.server.w, -1, {}).t[0] == 37
    second.store.close()
