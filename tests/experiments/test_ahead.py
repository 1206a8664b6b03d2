"""Machine code that another process makes ahead."""

import importlib
import subprocess

from numba.core import event

from siag.experiments import ahead
from siag.experiments.ahead import CHAPTERS, made_ahead
from siag.server.intake import admit

live = importlib.import_module("siag.experiments.live")


def test_a_process_is_started_once_and_only_if_machine_code_is_missing(monkeypatch):
    started = []

    class Process:
        def __init__(self, command, **_):
            self.command, self.ended = command[1:], []
            started.append(self)

        def kill(self):
            self.ended.append("killed")

        def wait(self):
            self.ended.append("gone")

    monkeypatch.setattr(subprocess, "Popen", Process)
    with made_ahead():
        assert not started
        for _ in range(2):
            with event.trigger_event("numba:compile"):
                pass
    assert [(process.command, process.ended) for process in started] == [
        (["-m", "siag.experiments.ahead"], ["killed", "gone"])
    ]


def test_chapters_that_need_code_of_their_own_are_run_whatever_becomes_of_the_others(monkeypatch):
    made = []

    def make(name):
        def chapter(scale, tick):
            made.append(name)
            tick()
            raise ValueError(name)

        return chapter

    monkeypatch.setattr(live, "rehearse", lambda seed: made.append("live"))
    report = importlib.import_module("siag.experiments.reproduce")  # the package's own name is the function
    known = [name for name, _, _ in report.parts(ahead.LEAST)]
    monkeypatch.setattr(report, "parts", lambda scale: [(name, make(name), 1) for name in known])
    ahead.main()
    assert made == [*CHAPTERS, "live"]


def test_a_rehearsal_makes_the_machine_code_that_takes_reports_in(monkeypatch):
    monkeypatch.setattr(admit, "_for", {})
    live.rehearse(seed=1)
    assert len(admit._for) == len(live.LINES)
