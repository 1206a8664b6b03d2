"""Waiting without sleeping: it finds what is there, and is given up where it is in vain."""

import os
import threading

import pytest

from siag.runtimes import spin
from siag.runtimes.spin import REST, TRIES, Waiter


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(spin, "cores", lambda: 2)


def counted(waiter):
    """How often it looked, without sleeping and ready to sleep."""
    looks, poll = [0, 0], waiter._poll

    def look(pause):
        looks[pause != 0] += 1
        return poll(pause)

    waiter._poll = look
    return looks


@pytest.mark.parametrize("processes", [2, 3])
def test_what_is_there_is_found_and_what_comes_is_waited_for(pipe, processes):
    reader, writer = pipe
    waiter = Waiter(reader, processes=processes)
    assert waiter.wait(0.001) == []
    threading.Timer(0.02, os.write, (writer, b"x")).start()
    assert [number for number, _ in waiter.wait(20.0)] == [reader]
    assert [number for number, _ in waiter.wait()] == [reader]
    waiter.drop(reader)
    assert waiter.wait(0.0) == []


def test_an_answer_that_is_there_soon_is_found_without_sleeping(pipe):
    reader, writer = pipe
    waiter = Waiter(reader, processes=2)
    looks = counted(waiter)
    os.write(writer, b"x")
    for _ in range(2 * TRIES):
        assert waiter.wait()
    assert looks == [2 * TRIES, 0]


def test_in_vain_it_is_given_up_and_tried_again_later(pipe):
    waiter = Waiter(pipe[0], processes=2)
    looks = counted(waiter)
    for _ in range(TRIES):
        assert waiter.wait(0.0) == []
    before = looks[0]
    assert before > TRIES  # time and again
    looks[0] = 0
    for _ in range(REST):
        waiter.spin()
    assert looks[0] == 0
    waiter.spin()
    assert looks[0] > 0
    looks[0] = 0
    for _ in range(REST):  # once in vain suffices now
        waiter.spin()
    assert looks[0] == 0


def test_an_answer_ends_the_doubt(pipe):
    reader, writer = pipe
    waiter = Waiter(reader, processes=2)
    for _ in range(TRIES - 1):
        assert waiter.spin() == []
    os.write(writer, b"x")
    assert waiter.spin()
    os.read(reader, 1)
    looks = counted(waiter)
    for _ in range(TRIES):
        waiter.spin()
    assert looks[0] > TRIES


def test_with_more_processes_than_cores_it_sleeps_at_once(pipe):
    waiter = Waiter(pipe[0], processes=3)
    looks = counted(waiter)
    for _ in range(2 * REST):
        assert waiter.spin() == []
    assert looks == [0, 0]
