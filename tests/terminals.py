"""Terminals for tests of live commands: processes, and the folder they are started in."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

SIAG = shutil.which("siag", path=str(Path(sys.executable).parent)) or shutil.which("siag")
PATIENCE = 120.0  # seconds; processes start slowly on a busy machine
JOB = """
import time

import numpy as np


def gradient(w, sample):
    return w - sample


def noisy(value, pause=0.0):
    chance = np.random.default_rng(1)
    while True:
        time.sleep(pause)
        yield value + 0.3 * chance.standard_normal(3)


def ones():
    return noisy(1.0)


def threes():
    import helper

    return noisy(helper.VALUE)


def slow_ones():
    return noisy(1.0, 0.002)


def quiet():
    while True:
        time.sleep(1000)
        yield


def slow_threes():
    return noisy(3.0, 0.002)


def size(w):
    return float(np.abs(w).sum())


def bad():
    yield from [np.ones(3)] * 2
    raise RuntimeError("torn cable")


few = [np.ones(3)] * 5

def once():
    return iter(few)
name = "readings.csv"


def counted(w, sample):  # with steps of 1 and SGD, w counts how often each sample was accepted
    return -np.eye(w.size)[int(sample[0])]


def readings():
    from siag.streams import Follow

    return Follow(name, wait=False)


def growing():
    from siag.streams import Buffered, Follow

    return Buffered(Follow(name), full="block")


def problem():
    import siag

    return siag.problems.LeastSquares(np.eye(2), p=2, noise=0.1)


def no_problem():
    raise KeyError("no data")


def exits(w, sample):
    raise SystemExit(0)


def fails(w, sample):
    raise OSError(5, "no sensor")


def counts(w, sample, calls=[]):
    calls.append(sample)
    if len(calls) > 3:
        raise OSError(5, "no sensor")
    return w - sample


def broken(w, sample):
    if w.any():
        raise OSError(2, "no such sensor")
    return w - sample
"""
HELPER = "VALUE = 3.0\n"
PROBLEM = """
[problem]
kind = "LeastSquares"
n = 2
d = 3
p = 2
noise = 0.1

[run]
iterations = 1
seed = 9
"""


class Terminal:
    """A process whose lines are read as they come."""

    def __init__(self, *words, cwd):
        environment = {name: value for name, value in os.environ.items() if name != "SIAG_TOKEN"}
        self.process = subprocess.Popen(
            [SIAG, *map(str, words)],
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out, self.err = [], []
        self._threads = [
            threading.Thread(target=self._read, args=pair)
            for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, stream, lines):
        for line in stream:
            lines.append(line)
        stream.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.end()

    def end(self):
        """Wait for the end; the exit status."""
        status = self.process.wait(PATIENCE)
        for thread in self._threads:
            thread.join()
        return status

    def says(self, part, lines=None):
        """Wait until a line has this in it; the line."""
        lines = self.err if lines is None else lines
        until = time.monotonic() + PATIENCE
        while True:
            for line in list(lines):
                if part in line:
                    return line
            assert time.monotonic() < until, f"{part!r} is not in {self.out + self.err}"
            assert self.process.poll() is None or any(thread.is_alive() for thread in self._threads), (
                f"ended without {part!r}: {self.out + self.err}"
            )
            time.sleep(0.01)

    def documents(self):
        """Its output as JSON, strictly."""
        return [json.loads(line, parse_constant=pytest.fail) for line in list(self.out)]


class Desk(ExitStack):
    """A folder with a job in it, and terminals that are closed in the end."""

    def __init__(self, folder, more=""):
        super().__init__()
        self.folder = folder
        (folder / "job.py").write_text(JOB + more)
        (folder / "helper.py").write_text(HELPER)
        (folder / "problem.toml").write_text(PROBLEM)

    def siag(self, *words):
        return self.enter_context(Terminal(*words, cwd=self.folder))

    def serve(self, *words, port=0, model=("--dimension", 3), eta=0.05):
        server = self.siag("serve", *model, "--eta", eta, "--port", port, "--json", *words)
        event = json.loads(server.says("listening on", server.out))["event"]
        server.address = event.split()[2].rstrip(";")
        return server

    def work(self, server, *words, gradient="job:gradient", stream="job:ones"):
        address = server if isinstance(server, str) else server.address
        return self.siag("work", address, "--gradient", gradient, "--stream", stream, *words)


def snapshots(server):
    return [document["snapshot"] for document in server.documents() if "snapshot" in document]


def wait_for(server, condition):
    """Wait until a snapshot is as it should be."""
    until = time.monotonic() + PATIENCE
    while True:
        found = [snapshot for snapshot in snapshots(server)[-1:] if condition(snapshot)]
        if found:
            return found[0]
        assert time.monotonic() < until, server.out[-3:] + server.err
        time.sleep(0.02)


class Outcome(NamedTuple):
    """How a command in this process ended."""

    status: int
    out: list[str]
    err: list[str]

    @property
    def documents(self):
        """Its output as JSON, strictly."""
        return [json.loads(line, parse_constant=pytest.fail) for line in self.out]

    @property
    def result(self):
        """The last document."""
        return self.documents[-1]

    @property
    def events(self):
        """The remarks."""
        return [document["event"] for document in self.documents if "event" in document]


def typed(monkeypatch, capsys, *words):
    """Run `siag` with these words in this process; how it ended, as if it had been a process."""
    from siag.cli import main

    monkeypatch.setattr(sys, "argv", ["siag", *map(str, words)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    return subprocess.CompletedProcess(words, ended.value.code or 0, printed.out, printed.err)


class Shell:
    """The command line, in this process and in the folder of a desk."""

    def __init__(self, desk, monkeypatch, capsys):
        self.desk, self.folder, self._patch, self._captured = desk, desk.folder, monkeypatch, capsys
        monkeypatch.chdir(desk.folder)
        monkeypatch.delenv("SIAG_TOKEN", raising=False)
        monkeypatch.setattr(sys, "path", list(sys.path))
        for name in ("job", "helper"):
            monkeypatch.delitem(sys.modules, name, raising=False)

    def __call__(self, *words):
        """Run a command; how it ended."""
        ended = typed(self._patch, self._captured, *(words if len(words) > 1 else words[0].split()))
        return Outcome(ended.returncode, ended.stdout.splitlines(), ended.stderr.splitlines())

    def mistake(self, *words):
        """The line a mistake is answered with."""
        ended = self(*words)
        assert ended.status == 2
        (line,) = ended.err
        return line.removeprefix("siag: ")
