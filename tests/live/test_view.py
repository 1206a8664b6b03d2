"""How a run has ended shows in the heading of its last view."""

import pytest
from snapshots import snapshot, worker
from test_watch import CODES, console

from siag.live.monitor.view import view


def heading(shown):
    """The word for how it ended, and its colour."""
    screen = console()
    screen.print(view(shown, screen, final=True))
    line = screen.file.getvalue().splitlines()[0]
    colours = {"\x1b[1;32m": "green", "\x1b[1;33m": "yellow"}
    (colour,) = [name for code, name in colours.items() if code in line.split(" ")[2]]
    return CODES.sub("", line).split()[1], colour


def states(*names):
    return tuple(worker(row, state=state) for row, state in enumerate(names))


@pytest.mark.parametrize("shown", [snapshot(done=True), snapshot(target=None, workers=states("left", "left"))])
def test_an_ordinary_end_looks_done(shown):
    assert heading(shown) == ("done", "green")


@pytest.mark.parametrize("workers", [(), states("left", "away"), states("left", "refused"), states("working")])
@pytest.mark.parametrize("target", [None, 5000])
def test_any_other_end_looks_stopped(target, workers):
    assert heading(snapshot(target=target, workers=workers)) == ("stopped", "yellow")
