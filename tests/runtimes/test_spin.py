"""Waiting without sleeping: it finds what is there, and is given up where it is in vain."""

import asyncio
import os
import socket
import threading

import pytest

from siag.runtimes import spin
from siag.runtimes.spin import REST, TRIES, Spinner, Waiter, event_loop, suffice


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def counted(waiter):
    """How often it looked, without sleeping and ready to sleep."""
    looks, poll = [0, 0], waiter._poll

    def look(pause):
        looks[pause != 0] += 1
        return poll(pause)

    waiter._poll, waiter._look = look, lambda: look(0)
    return looks


@pytest.mark.parametrize("able", [True, False])
def test_what_is_there_is_found_and_what_comes_is_waited_for(pipe, able):
    reader, writer = pipe
    waiter = Waiter(reader, able=able)
    assert waiter.wait(0.001) == []
    threading.Timer(0.02, os.write, (writer, b"x")).start()
    assert [number for number, _ in waiter.wait(20.0)] == [reader]
    assert [number for number, _ in waiter.wait()] == [reader]
    waiter.drop(reader)
    assert waiter.wait(0.0) == []


def test_an_answer_that_is_there_soon_is_found_without_sleeping(pipe):
    reader, writer = pipe
    waiter = Waiter(reader, able=True)
    looks = counted(waiter)
    os.write(writer, b"x")
    for _ in range(2 * TRIES):
        assert waiter.wait()
    assert looks == [2 * TRIES, 0]


def test_in_vain_it_is_given_up_and_tried_again_later(pipe):
    waiter = Waiter(pipe[0], able=True)
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
    waiter = Waiter(reader, able=True)
    for _ in range(TRIES - 1):
        assert waiter.spin() == []
    os.write(writer, b"x")
    assert waiter.spin()
    os.read(reader, 1)
    looks = counted(waiter)
    for _ in range(TRIES):
        waiter.spin()
    assert looks[0] > TRIES


def test_without_cores_it_sleeps_at_once(pipe):
    waiter = Waiter(pipe[0], able=False)
    looks = counted(waiter)
    for _ in range(2 * REST):
        assert waiter.spin() == []
    assert looks == [0, 0]


@pytest.mark.parametrize(("processes", "enough"), [(1, True), (2, True), (3, False)])
def test_each_process_needs_a_core(monkeypatch, processes, enough):
    monkeypatch.setattr(spin, "cores", lambda: 2)
    assert suffice(processes) is enough


@pytest.mark.parametrize("able", [True, False])
def test_an_event_loop_looks_before_it_sleeps(able):
    spinner, looks = Spinner(), []

    async def talk():
        here, there = socket.socketpair()
        with here, there:
            reader, writer = await asyncio.open_connection(sock=here)
            there.sendall(b"x")
            assert await reader.readexactly(1) == b"x"
            spinner.able = able
            threading.Timer(0.02, there.sendall, (b"y",)).start()
            assert await reader.readexactly(1) == b"y"
            await asyncio.sleep(0.001)
            writer.close()
            await writer.wait_closed()

    with asyncio.Runner(loop_factory=lambda: event_loop(spinner)) as runner:
        selector = runner.get_loop()._selector
        look = selector._look
        selector._look = lambda: looks.append(1) or look()
        runner.run(talk())
    assert bool(looks) is able
