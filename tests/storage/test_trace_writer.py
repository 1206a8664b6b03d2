"""Writing traces: nothing is overwritten, and nothing that was flushed is lost."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.activity.trace_cases import HEAD, N, histories, lines_of, put
from traces import MANY, OWN, STRANGE, TWO, Place, both, quick

from refusals import refused
from siag.activity import Trace
from siag.activity.trace import COLUMNS
from siag.foundations.errors import BadFile, BadInput
from siag.storage.trace_writer import TraceWriter


@pytest.mark.few(1)
@both
@quick
@given(histories(), st.integers(1, 5))
def test_what_is_written_is_read(name, history, every):
    lines, end = history
    place = Place(name)
    place.write(lines, end, every)
    assert place.lines == lines
    assert (place.trace.length, place.trace.about) == (end, OWN)


def test_any_tool_that_reads_csv_reads_it(tmp_path):
    """On a real disk, with a thread."""
    writer = TraceWriter(tmp_path / "t.csv.gz", {"workers": N, "seed": np.int64(7), "odd": {1, 2}})
    put([(0, 3, 0, 0, 0.0131), (0, 1, 0, 0, 0.0132, 0.69314718), (1, 2, 0.5, 0.02)], writer)
    writer.memory_lost(1, 1, 0.75)
    writer.sync()
    writer.close(2)
    with gzip.open(tmp_path / "t.csv.gz", "rt") as stream:
        head, columns, *lines, end = stream.read().splitlines()
    about = {"workers": N, "seed": 7, "odd": "{1, 2}"}
    assert json.loads(head.removeprefix("# siag-trace-2 ")) == about
    assert (columns, end) == (COLUMNS, "# end 2")
    assert lines == ["0,3,0,0,0.013100,,", "0,1,0,0,0.013200,,0.693147", "1,2,,,0.020000,0.5,", "1,1,,,0.750000,-1.0,"]
    assert Trace.read(tmp_path / "t.csv.gz").about == about
    assert os.listdir(tmp_path) == ["t.csv.gz"]


@both
def test_a_file_that_exists_is_never_overwritten(name):
    place = Place(name, b"precious")
    with pytest.raises(BadInput, match=r"trace = .*a file that does not exist yet; move the old one"):
        place.writer()
    assert place.content == b"precious"
    with pytest.raises(BadFile):
        Place(f"nowhere/{name}").writer()


@both
@pytest.mark.parametrize("end", [None, 0])
def test_a_trace_without_a_report_may_be_written_over(name, end):
    place = Place(name)
    place.write([], end)
    place.write(TWO, 2, about=OWN | {"run": "b"})
    assert place.lines == TWO
    assert place.trace.about["run"] == "b"


def test_so_may_an_empty_file():
    place = Place("t", b"")
    place.write(TWO, 2)
    assert place.lines == TWO


@both
@pytest.mark.parametrize("body", ["0,0,0,0,0.1,\n", "0,0,,,0.1,0.5\n", "0,0,0", "# ended by 1\n", "\n"])
def test_one_that_holds_anything_may_not(name, body):
    content = (HEAD + body).encode()
    place = Place(name, gzip.compress(content) if name.endswith(".gz") else content)
    before = place.content
    with refused("trace"):
        place.writer()
    assert place.content == before


def test_what_is_no_trace_may_not_be_written_over_however_little_it_holds(tmp_path):
    for name, content in STRANGE.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe")
    for name in (*STRANGE, "folder", "nowhere", "pipe"):
        with refused("trace"):
            TraceWriter(tmp_path / name, {})
    assert all((tmp_path / name).read_bytes() == content for name, content in STRANGE.items())


@pytest.mark.parametrize("again", [False, True])
def test_a_trace_that_another_run_writes_to_is_refused_before_its_first_report_too(tmp_path, again):
    first = TraceWriter(tmp_path / "t", OWN, keep=0 if again else None)
    for options in ({}, {"keep": 0}):
        with pytest.raises(BadInput, match="a file that no other run writes to; give another path"):
            TraceWriter(tmp_path / "t", OWN, **options)
    put(TWO, first)
    first.close(2)
    assert lines_of(Trace.read(tmp_path / "t")) == TWO


@both
def test_a_trace_that_is_discarded_is_gone_unless_it_was_closed_or_is_no_longer_there(name):
    place = Place(name)
    writer = place.writer()
    writer.sync()
    writer.discard()
    assert place.disk.names(Path()) == []
    writer.close(0)
    closed = place.writer()
    closed.close(0)
    closed.discard()
    assert place.disk.names(Path()) == [name]
    moved = place.writer()
    place.disk.replace(place.path, Path("moved"))
    other = place.disk.append(place.path)
    other.write(b"precious")
    moved.discard()
    assert place.content == b"precious"


@both
def test_all_that_was_flushed_survives_a_kill(name):
    place = Place(name)
    writer = place.writer()
    for line in MANY:
        put([line], writer)
        writer.flush()
    put(TWO, writer)  # not flushed
    place.disk.kill()
    assert place.lines == MANY


def test_a_trace_is_ended_once():
    place = Place("t")
    writer = place.writer()
    writer.close(501)
    writer.close(502)
    assert place.trace.length == 501
