"""What a run has to say: watchers that look are shown how things stand, and nothing is made for others."""

from types import SimpleNamespace

import pytest

from siag.live.announcer import Announcer
from siag.live.monitor.watch import Quiet, Several


class Looks(Quiet):
    def __init__(self):
        self.seen = []

    def show(self, snapshot):
        self.seen.append(snapshot)


def test_a_watcher_that_inherits_from_a_quiet_one_is_shown_snapshots():
    watcher = Looks()
    Announcer(watcher).show(lambda: "snapshot")
    assert watcher.seen == ["snapshot"]


def test_so_is_one_whose_method_is_its_own():
    seen = []
    Announcer(SimpleNamespace(show=seen.append)).show(lambda: "snapshot")
    assert seen == ["snapshot"]


class Patient(Looks):
    def wants(self, seconds):
        return seconds >= 5.0


@pytest.mark.parametrize("around", [lambda watcher: watcher, lambda watcher: Several([Quiet(), watcher])])
def test_one_that_says_what_it_wants_is_shown_that_and_the_end(around):
    watcher = Patient()
    announcer = Announcer(around(watcher))
    announcer.show(lambda: pytest.fail("it was made"), 4.9)
    announcer.show(lambda: "later", 5.0)
    announcer.show(lambda: "the end")
    assert watcher.seen == ["later", "the end"]


@pytest.mark.parametrize("watcher", [None, Quiet()])
def test_nothing_is_made_for_one_that_does_not_look(watcher):
    Announcer(watcher).show(lambda: pytest.fail("it was made"))
