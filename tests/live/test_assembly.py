"""What a run leaves behind that was refused, or killed before it was saved, and what the same command makes of it."""

import math
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from jobs import Notes

import siag
from disks import SmallDisk
from refusals import refused
from siag.activity import Trace
from siag.storage import TraceWriter
from specs import assembly_of
from waiting import wait_until

STEP, D = siag.steps.Constant(0.1), 3


def assemble(**options):
    return assembly_of(**{"progress": Notes()} | options)


@pytest.fixture
def assembled():
    """Assembles sessions, and takes them apart at the end."""
    made = []

    def session_of(**options):
        disk = SmallDisk()
        made.append(assemble(disk=disk, **options))
        made[-1].session.disk = disk
        return made[-1].session

    yield session_of
    for assembly in made:
        assembly.close()


@pytest.fixture
def places(tmp_path):
    return {"folder": tmp_path / "state", "trace": tmp_path / "trace.csv"}


def report(session, times=1):
    for _ in range(times):
        member = session.server.members[0]
        session.push(0, session.server.version, np.ones(D), member.samples, 0.1)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


# Killed before the first save


def test_a_run_killed_before_anything_was_saved_begins_anew(assembled, places):
    first = assembled(**places)
    assert names_in(places["folder"]) == ["lock"]
    first.disk.kill()
    second = assembled(**places)
    assert not second.past.recovered
    second.begin(0.0)
    second.join(0, 0.0)
    report(second, 2)
    second.finish(1.0)
    trace = Trace.read(places["trace"])
    assert (trace.length, trace.about["run"]) == (2, second.past.run_id)


def test_a_run_killed_with_reports_in_its_trace_and_none_in_a_save_knows_its_trace(assembled, places):
    first = assembled(**places)
    first.begin(0.0)
    first.join(0, 0.0)
    report(first, 5)
    first.server.trace.flush()
    first.disk.kill()
    assert len(Trace.read(places["trace"]).version) == 5
    second = assembled(**places)
    assert (second.past.run_id, second.server.reports) == (first.past.run_id, 0)
    assert len(Trace.read(places["trace"]).version) == 0
    second.begin(0.0)
    second.join(0, 0.0)
    report(second, 2)
    second.finish(1.0)
    assert Trace.read(places["trace"]).length == 2


def test_a_run_without_a_trace_is_not_saved_before_it_has_something_to_save(assembled, tmp_path):
    assembled(folder=tmp_path).begin(0.0)
    assert names_in(tmp_path) == ["lock"]


def test_a_new_run_leaves_the_trace_of_another_alone_and_makes_no_folder(places):
    writer = TraceWriter(places["trace"], {"run": "b"})
    writer.report(0, 0, 0, 0, 0.1, math.nan)
    writer.flush()
    writer._file.close()
    before = places["trace"].read_bytes()
    for options in (places, {"trace": places["trace"]}):
        with refused("trace"):
            assemble(**options)
        assert places["trace"].read_bytes() == before
        assert not places["folder"].exists()


@pytest.mark.thorough
def test_a_program_that_is_killed_early_is_simply_started_again(tmp_path):
    text = """
        import sys, siag, jobs

        if __name__ == "__main__":
            options = {"folder": "state", "trace": "trace.csv", "progress": False}
            streams = [jobs.endless, jobs.endless]
            until = siag.Until(reports=int(sys.argv[1]))
            siag.train(jobs.pull, streams, [0.0, 0.0], step=siag.steps.Constant(0.1), until=until, **options)
    """
    script, trace = tmp_path / "script.py", tmp_path / "trace.csv"
    script.write_text(dedent(text))
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    given = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": path}}
    with subprocess.Popen([sys.executable, script.name, "1000000"], **given) as first:
        try:
            wait_until(lambda: trace.exists() and trace.read_text().count(",\n") >= 1)
        finally:
            first.kill()
    command = [sys.executable, script.name, "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **given)
    assert done.returncode == 0, done.stderr
    assert len(Trace.read(trace).version) >= 20


# Refused


def impossible(w):
    raise ZeroDivisionError("no such loss")


@pytest.mark.parametrize("given", [("folder", "trace"), ("trace",), ("folder",)], ids=" ".join)
def test_a_loss_that_is_a_mistake_leaves_nothing_behind(assembled, places, tmp_path, given):
    options = {name: places[name] for name in given}
    with pytest.raises(ZeroDivisionError):
        assemble(loss=impossible, **options)
    assert names_in(tmp_path) == []
    assembled(loss=lambda w: 1.0, **options).begin(0.0)


def test_so_it_does_where_runs_are_started(places, tmp_path):
    common = {"step": STEP, "loss": impossible, "progress": False, **places}
    with pytest.raises(ZeroDivisionError):
        siag.serve(w0=np.zeros(D), workers=1, port=0, **common)
    problem = siag.problems.LeastSquares.random(n=2, d=D, p=2, noise=0.1)
    with pytest.raises(ZeroDivisionError):
        siag.train(problem=problem, until=5, **common)
    assert names_in(tmp_path) == []


def test_the_loss_is_asked_once_at_the_start(assembled, places):
    asked = []

    def loss(w):
        asked.append(w.copy())
        return 1.0

    session = assembled(loss=loss, **places)
    session.begin(0.0)
    assert len(asked) == 1
    assert session.curve.latest == 1.0
    session.finish(1.0)
    assert session.curve.run(session.server.w, -1, {}).t.tolist() == [0]


@pytest.mark.parametrize("begun", [False, True])
def test_a_run_that_ends_with_an_error_before_its_first_report_leaves_no_trace(places, begun):
    def carry(session):
        if begun:
            session.begin(0.0)
        raise siag.BadInput("method", 7, "smaller")

    for _ in range(2):
        with pytest.raises(siag.BadInput, match="smaller"):
            assemble(trace=places["trace"]).run(carry)
        assert not places["trace"].exists()


def test_a_run_that_ends_in_order_without_a_report_leaves_a_trace_that_blocks_nobody(assembled, places):
    for _ in range(2):
        session = assembled(trace=places["trace"])
        session.begin(0.0)
        session.finish(1.0)
        trace = Trace.read(places["trace"])
        assert (trace.length, trace.about["run"]) == (0, session.past.run_id)
