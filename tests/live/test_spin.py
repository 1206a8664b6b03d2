"""Waiting without sleeping: it finds what is there, lets others run, and is given up where it is in vain."""

import asyncio
import os
import socket
import threading
from types import SimpleNamespace

import pytest

from siag.live.transports import waiting as spin
from siag.live.transports.waiting import FIRST_REST, LONGEST_REST, SPIN, TRIES, Spinner, Waiter, event_loop


class World:
    """Time that passes only when others run, and something that is there from some time on."""

    def __init__(self, monkeypatch, turn=SPIN / 10):
        self.now, self.turn, self.looks, self.there = 0.0, turn, 0, float("inf")
        monkeypatch.setattr(spin, "time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(spin, "let_others_run", self.run_others)

    def run_others(self):
        self.now += self.turn

    def look(self):
        self.looks += 1
        return self.now >= self.there

    def come(self, seconds):
        self.there = self.now + seconds

    def looked(self, spinner):
        """Whether it looks at all."""
        before = self.looks
        spinner(self.look)
        return self.looks > before


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def rest(world, spinner):
    """How often it does not look, until it does again."""
    count = 0
    while not world.looked(spinner):
        count += 1
    return count


def test_what_is_there_is_found_at_the_first_look(world):
    world.come(0.0)
    assert Spinner()(world.look)
    assert (world.looks, world.now) == (1, 0.0)


def test_others_run_between_two_looks(world):
    world.come(2.5 * world.turn)
    assert Spinner()(world.look)
    assert (world.looks, world.now) == (4, 3 * world.turn)


def test_in_vain_it_ends_in_time(world):
    assert not Spinner()(world.look)
    assert SPIN <= world.now <= SPIN + world.turn


def test_in_vain_it_is_given_up_for_twice_as_long_each_time(world):
    spinner = Spinner()
    for _ in range(TRIES):
        assert world.looked(spinner)
    expected = FIRST_REST
    while expected < LONGEST_REST:
        assert rest(world, spinner) == expected
        expected *= 2
    assert [rest(world, spinner) for _ in range(2)] == [LONGEST_REST] * 2


def test_an_answer_ends_the_doubt(world):
    spinner = Spinner()
    for _ in range(TRIES):
        spinner(world.look)
    assert rest(world, spinner) == FIRST_REST
    assert rest(world, spinner) == 2 * FIRST_REST
    for _ in range(4 * FIRST_REST):
        assert not world.looked(spinner)
    world.come(0.0)
    assert spinner(world.look)
    world.there = float("inf")
    for _ in range(TRIES):
        assert world.looked(spinner)
    assert rest(world, spinner) == FIRST_REST


def test_where_others_need_the_core_for_long_it_sleeps_though_it_finds_what_it_looks_for(monkeypatch):
    world, spinner = World(monkeypatch, turn=5 * SPIN), Spinner()
    for _ in range(TRIES):
        world.come(SPIN / 2)
        assert spinner(world.look)
    assert not world.looked(spinner)


def test_where_it_may_not_it_never_looks(world):
    spinner = Spinner(able=False)
    assert not any(world.looked(spinner) for _ in range(2 * FIRST_REST))
    spinner.able = True
    assert world.looked(spinner)


def test_a_waiter_finds_what_is_there_and_waits_for_what_comes(pipe):
    reader, writer = pipe
    waiter = Waiter(reader)
    for seconds in (0.0, SPIN / 2, 2 * SPIN):
        assert waiter.wait(seconds) == []
    threading.Timer(0.02, os.write, (writer, b"x")).start()
    assert [number for number, _ in waiter.wait(20.0)] == [reader]
    assert [number for number, _ in waiter.wait(20.0)] == [reader]
    waiter.drop(reader)
    assert waiter.wait(0.0) == []


def test_a_waiter_does_not_wait_for_longer_than_it_is_asked_to(pipe, monkeypatch):
    monkeypatch.setattr(spin.Spinner, "__call__", lambda *given: pytest.fail("it spins"))
    assert Waiter(pipe[0]).wait(SPIN / 2) == []


@pytest.mark.parametrize("able", [True, False])
def test_an_event_loop_looks_before_it_sleeps(able):
    spinner, looks = Spinner(able=False), []

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
