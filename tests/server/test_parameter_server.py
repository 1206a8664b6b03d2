"""The parameter server without I/O: versions and ages, what it shows, how it sees that w is lost."""

import json
import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers import GUARD_OFF, SIAG, STEPS, D, N, everything, make, ones, quick, rounds, second_life

import siag
from siag.activity import EveryArrivals, Tick
from siag.foundations.errors import BadInput
from siag.methods import Method, advance, receive
from siag.server import Diverged, Guard, ParameterServer, Refused, State, Verdict


def test_join_pull_push_leave():
    server = ParameterServer(SIAG, STEPS, np.zeros(2), ["a", "b"])
    ticket = server.join("b", now=1.0)
    assert (ticket.row, ticket.version, ticket.samples) == (1, 0, 0)
    server.push(1, stamp=0, message=np.array([2.0, -4.0]), sample=0, now=2.0)
    eta = 0.6 / 60
    assert server.w.tolist() == [-eta / 2 * 2.0, eta / 2 * 4.0]
    assert server.join(1, now=3.0) == server.join("b", now=3.0)
    assert (server.join("b", now=3.0).version, server.join("b", now=3.0).samples) == (1, 1)
    server.leave(1, now=4.0, reason="done")
    assert server.members[1].state == "left"
    assert server.join("b", now=5.0).row == 1  # it may come back
    assert server.members[1].state == "working"


def test_w_can_be_read_and_not_written():
    server = make()
    with pytest.raises(ValueError, match="read-only"):
        server.w[0] = 1.0


@pytest.mark.parametrize("name", ["z", "", -1, 3, 99])
def test_an_unknown_worker_is_refused_for_good(name):
    server = make()
    before = everything(server)
    with pytest.raises(Refused, match="not among the 3 workers") as caught:
        server.join(name, now=0.0)
    assert (caught.value.final, caught.value.why) == (True, Verdict.UNKNOWN)
    with pytest.raises(BadInput, match="worker = "):
        server.readmit(name)
    assert everything(server) == before


@pytest.mark.parametrize("row", [-1, 3, 10**9])
def test_a_report_of_an_unknown_row_is_refused(row):
    server = make()
    before = everything(server)
    with pytest.raises(Refused, match="rows 0 to 2") as caught:
        server.push(row, 0, np.ones(D), 0, now=0.0)
    assert caught.value.final
    assert everything(server) == before


class Diary(NamedTuple):
    w: np.ndarray
    ages: np.ndarray
    count: np.ndarray


class Listening(Method):
    """Writes down the ages it is told."""

    def init(self, w0, n):
        return Diary(w0.copy(), np.zeros(1000, np.int64), np.zeros(1, np.int64))


@receive.when(Diary)
def listen(state, i, message, age):
    state.ages[state.count[0]] = age
    state.count[0] += 1


@advance.when(Diary)
def on(state, eta):
    state.w[0] += 1.0


@quick
@given(st.lists(st.tuples(st.integers(0, N - 1), st.booleans()), max_size=60), st.integers(1, 4))
def test_ages_are_measured_from_the_download_stamp_and_versions_count_steps(events, k):
    server = make(Listening(), server=EveryArrivals(k))
    stamp, ages, drawn = [0] * N, [], [0] * N
    for i, reads in events:
        if reads:
            stamp[i] = server.version
        elif stamp[i] >= server.members[i].last:
            ages.append(server.version - stamp[i])
            server.push(i, stamp[i], np.ones(D), drawn[i], now=0.0)
            drawn[i] += 1
    assert server.version == len(ages) // k == server.w[0]
    assert (server.reports, server.arrived) == (len(ages), len(ages) % k)
    assert server.state.ages[: len(ages)].tolist() == ages
    assert sum(server.roster.counted_ages) == len(ages)


@pytest.mark.parametrize("k", [1, 3])
def test_the_server_steps_after_every_k_arrivals(k):
    server = make(server=EveryArrivals(k))
    versions = []
    for sample in range(9):
        server.push(0, server.version, np.ones(D), sample, now=0.0)
        versions.append(server.version)
    assert versions == [(sample + 1) // k for sample in range(9)]


def test_with_ticks_it_steps_when_told_whoever_has_arrived():
    server = make(server=Tick(0.5))
    for sample in range(5):
        server.push(0, 0, np.ones(D), sample, now=0.0)
    assert (server.version, server.w[0]) == (0, 0.0)
    server.tick(now=0.5)
    first = server.w[0]
    server.tick(now=1.0)
    assert server.version == 2
    assert first < 0
    assert server.w[0] < first  # silence is an event: the table still pulls


def test_a_server_that_waits_is_refused_and_so_are_workers_without_names_of_their_own():
    for options, words in (
        ({"server": siag.activity.WaitForAll()}, "a live server waits for nobody"),
        ({"patience": 0.0}, "patience = 0.0"),
        ({"n": 0}, "at least one"),
        ({"n": ["a", "b", "a"]}, "no name twice"),
    ):
        with pytest.raises(BadInput, match=words):
            make(**options)


def test_a_snapshot_tells_how_things_stand():
    server = ParameterServer(SIAG, STEPS, np.zeros(D), ["a", "b", "c", "d", "e"], patience=2.0)
    for row in range(4):
        server.join(row, now=0.0)
        server.push(row, 0 if row == 3 else server.version, ones(), 0, now=0.0)
    server.leave(1, now=1.0, reason="done")
    server.members[2].go_away("killed")
    server.push(0, 4, ones(), 1, now=9.0)
    shown = server.snapshot(10.0)
    assert [worker.state for worker in shown.workers] == ["working", "left", "away", "stalled", "expected"]
    assert [worker.reports for worker in shown.workers] == [2, 1, 1, 1, 0]
    assert [worker.age for worker in shown.workers] == [1, 4, 3, 5, -1]
    assert [worker.silent for worker in shown.workers] == [1.0, 9.0, 10.0, 10.0, math.inf]
    assert [worker.reason for worker in shown.workers] == ["", "done", "killed", "", ""]
    assert (shown.version, shown.reports, shown.refused, shown.seconds) == (5, 5, 0, 10.0)
    assert shown.ages == (4, 0, 1)  # ages 0, 0, 0, 3, 0
    assert json.loads(json.dumps(shown.as_dict()))["workers"][4]["silent"] is None


@pytest.mark.parametrize("k", [1, 4])
def test_the_rate_shown_is_steps_per_second(k):
    server = make(server=EveryArrivals(k), guard=GUARD_OFF)
    server.snapshot(0.0)
    for look in range(1, 61):
        for report in range(20):
            server.push(0, server.version, ones(), server.members[0].samples, now=look - 1 + report / 20)
        shown = server.snapshot(float(look))
    assert shown.rate == pytest.approx(20 / k, rel=0.01)
    assert shown.workers[0].rate == pytest.approx(20, rel=0.01)
    assert server.snapshot(60.01).rate == shown.rate  # too soon to tell anything new


def test_a_sign_of_life_is_no_work_so_the_worker_is_shown_as_stalled():
    server = make(patience=2.0)
    server.join(0, now=0.0)
    assert server.snapshot(3.0).workers[0].state == State.STALLED
    server.members[0].heard = 3.0
    view = server.snapshot(4.0).workers[0]
    assert (view.state, view.silent) == (State.STALLED, 1.0)
    server.push(0, 0, ones(), 0, now=4.0)
    assert server.snapshot(5.0).workers[0].state == State.WORKING


def test_after_a_restart_a_slow_worker_is_not_taken_for_a_stalled_one():
    server = make()
    server.join(0, now=0.0)
    for k in range(5):
        server.push(0, k, ones(), k, now=100.0 * (k + 1))
    again = second_life(server, 500.0)
    again.join(0, now=600.0)
    assert [again.snapshot(600.0 + silent).workers[0].state for silent in (900, 1100)] == ["working", "stalled"]


def test_a_step_that_is_too_large_is_named_as_the_cause():
    server = make(step=siag.steps.Constant(10.0), d=2, guard=Guard(jump=None))
    with pytest.raises(Diverged, match=r"left the range of numbers at version \d+; use a smaller step"):
        rounds(server, [0, 1, 2], 1000)
    assert server.version <= 200


def test_workers_are_not_blamed_for_what_they_compute_from_a_w_that_is_lost():
    """w is looked at now and then only; meanwhile gradients become infinite, and that is not the workers' fault."""
    server = make(step=siag.steps.Constant(1e40), d=2, guard=Guard(jump=None, strikes=1))
    with pytest.raises(Diverged):
        rounds(server, [0, 1, 2], 63)
    assert server.version < 60
    assert all(member.refused == 0 for member in server.members)


def test_a_pull_gives_a_copy_of_w_and_its_version():
    server = ParameterServer(siag.methods.SIAG(), siag.steps.Constant(0.5), np.zeros(2), workers=1)
    server.join(0, now=0.0)
    read = np.empty(2)
    assert server.pull(read) == 0
    server.push(0, stamp=0, message=np.array([1.0, -2.0]), sample=0, now=0.1)
    assert read.tolist() == [0.0, 0.0]
    assert server.pull(read) == 1
    assert read.tolist() == server.w.tolist() == [-0.5, 1.0]
