"""A worker and a server in memory, cut at every byte of what they say: nothing is lost, and nothing counted twice."""

import numpy as np
import pytest
from pair import D, Desk, Pair, begun

from siag.live.protocol.worker import End
from siag.methods import LAG, SIAG

SAMPLES = 3


def whole(method, budget=None):
    """A conversation from hello to farewell."""
    desk = Desk(begun(method=method))
    return desk, Pair(desk, SAMPLES, budget).run()


@pytest.mark.few(1)
@pytest.mark.parametrize("method", [SIAG(), LAG(gradients="sample", weight=0.01)], ids=["SIAG", "LAG"])
def test_wherever_the_connection_is_cut_each_sample_counts_at_most_once_and_the_worker_leaves(method):
    desk, pair = whole(method)
    assert desk.server.reports == SAMPLES
    length, fewer = pair.travelled, 0
    for budget in range(1, length):
        desk, pair = whole(method, budget)
        server = desk.server
        assert pair.cuts == 1
        assert pair.worker.end[0] is End.STREAM_ENDED
        assert pair.worker.refused == 0
        assert SAMPLES - 1 <= server.reports <= SAMPLES  # what was on its way may be lost
        assert server.version == server.reports
        assert server.members[0].samples <= SAMPLES
        fewer += server.reports < SAMPLES
        if isinstance(method, SIAG):
            assert np.array_equal(server.state.total, server.state.rows[0])
        assert desk.states()[0] in ("left", "away")  # away: the farewell was cut
    assert 0 < fewer < length


def test_a_server_that_begins_anew_from_a_save_takes_its_worker_back():
    desk = Desk(begun())
    pair = Pair(desk, 5)
    pair.do(pair.worker.start(0.0))
    while desk.server.reports < 2:
        pair.turn()
    pair.lost("the server is gone")
    pair.desk = Desk(begun())  # of before the first report
    while pair.worker.end is None:
        pair.turn()
    assert pair.desk.server.reports == 5 - 2
    assert pair.worker.refused == 0
    assert pair.desk.server.members[0].samples == 5  # it knows a higher number than the server


def test_a_model_that_comes_while_the_users_code_is_at_work_does_not_change_w():
    desk = Desk(begun())
    pair = Pair(desk, 5)
    pair.do(pair.worker.start(0.0))
    while desk.server.reports < 2 or not pair.worker.busy:
        pair.turn()
    w = pair.worker.w.copy()
    desk.server.state.w[:] = 7.0
    pair.lost("it was cut")
    pair.desk.now = pair.connect_at
    pair.connect()
    while pair.to_server or pair.caller.sent:
        (pair.travel_up if pair.to_server else pair.travel_down)()
    assert pair.worker.busy
    assert np.array_equal(pair.worker.w, w)
    pair.compute()
    pair.travel_up()
    assert desk.server.reports == 3  # what was computed meanwhile is reported
    pair.travel_down()
    assert not np.array_equal(pair.worker.w, w)
    assert pair.worker.w.shape == (D,)
