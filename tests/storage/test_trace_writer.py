"""Writing traces: nothing is overwritten, nothing that reached the disk is lost, and a run knows its own trace."""

import gzip
import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.activity.trace_cases import HEAD, N, histories, lines_of, put, texts
from tests.torture.disk import Deferred, DiskFaults, SimulatedDisk

from refusals import refused
from siag.activity import Trace
from siag.activity.trace import COLUMNS, FORMAT
from siag.foundations.errors import BadFile, BadInput
from siag.storage.background import Inline
from siag.storage.trace_writer import TraceWriter

quick = settings(deadline=None, max_examples=60)
both = pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
OWN = {"workers": N, "run": "a"}
TWO = [(0, 0, 0, 0, 0.0), (1, 0, 1, 1, 0.0)]
MANY = [(k, k % N, k, k, float(k)) for k in range(50)]
NO_SPACE, FAILS = DiskFaults(no_space=1.0), DiskFaults(force_error=1.0)


class Place:
    """A trace on a simulated disk."""

    def __init__(self, name, content=None):
        self.disk, self.path = SimulatedDisk(random.Random(0)), Path(name)
        if content is not None:
            file = self.disk.append(self.path)
            file.write(content)
            file.close()

    def writer(self, about=OWN, background=None, **options):
        return TraceWriter(self.path, about, **options, disk=self.disk, background=background or Inline())

    def write(self, lines, end=None, every=3, **options):
        """Write lines as the server does; `end=None` leaves the file as a crash would."""
        writer = self.writer(**options)
        for k in range(0, len(lines), every):
            put(lines[k : k + every], writer)
            writer.flush()
        if end is None:
            self.disk.kill()
        else:
            writer.close(end)

    @property
    def content(self):
        with self.disk.read(self.path) as stream:
            return stream.read()

    @property
    def trace(self):
        return Trace.parse(str(self.path), self.content)

    @property
    def lines(self):
        return lines_of(self.trace)


# Files ---------------------------------------------------------------------------------------------------------------


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
    put([(0, 3, 0, 0, 0.0131), (1, 2, 0.5, 0.02)], writer)
    writer.memory_lost(1, 1, 0.75)
    writer.sync()
    writer.close(2)
    with gzip.open(tmp_path / "t.csv.gz", "rt") as stream:
        head, columns, *lines, end = stream.read().splitlines()
    about = {"workers": N, "seed": 7, "odd": "{1, 2}"}
    assert json.loads(head.removeprefix("# siag-trace-1 ")) == about
    assert (columns, end) == (COLUMNS, "# end 2")
    assert lines == ["0,3,0,0,0.013100,", "1,2,,,0.020000,0.5", "1,1,,,0.750000,-1.0"]
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


STRANGE = {
    "a text": b"important results\n",
    "a table": f"{COLUMNS}\n0,0,0,0,0.0,\n".encode(),
    "another format": HEAD.replace("trace-1", "trace-9").encode(),
    "no JSON": f"# {FORMAT} {{workers\n{COLUMNS}\n".encode(),
    "other columns": f"# {FORMAT} {{}}\nversion,worker\n".encode(),
    "blank lines": b"\n\n\n",
}


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


# Disks that fail -----------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("faults", [NO_SPACE, FAILS, DiskFaults(write_error=1.0)])
def test_a_disk_that_fails_for_a_while_costs_nothing_and_the_trouble_lasts_as_long(name, faults):
    place = Place(name)
    writer = place.writer()
    place.disk.faults = faults
    if faults != FAILS:
        put(MANY[:5], writer)
        with pytest.raises(OSError, match=r"No space|Input/output"):
            writer.flush()
    for line in MANY[5 if faults != FAILS else 0 : 20]:
        put([line], writer)
        for act in (lambda: writer.sync(wait=True), writer.flush):
            with pytest.raises(OSError, match=r"No space|Input/output"):
                act()
    place.disk.faults = DiskFaults(short_write=0.9)
    writer.sync(wait=True)
    put(MANY[20:], writer)
    writer.close(50)
    assert place.lines == MANY


@both
def test_a_disk_that_stays_full_is_waited_for_within_bounds_then_the_trace_is_given_up(name):
    place = Place(name)
    writer = place.writer(room=1 << 20)
    put(TWO[:1], writer)
    writer.flush()
    place.disk.faults = NO_SPACE
    words = []
    for k in range(1, 60_001):
        writer.report(k, 0, k, k, float(k))
        if k % 1000 == 0:
            with pytest.raises(OSError, match="No space") as caught:
                writer.flush()
            words.append(caught.value.strerror)
    assert list(dict.fromkeys(words)) == [
        "No space left on device",
        "No space left on device; given up, with 1 MB waiting for the disk",
    ]
    assert writer.tail is None
    place.disk.faults = DiskFaults()
    writer.close(60_001)
    assert place.trace.length == 1


def test_a_trace_is_given_up_if_nobody_knows_what_the_disk_has_of_it():
    place = Place("t")
    writer = place.writer()
    put(TWO, writer)
    place.disk.faults = FAILS
    with pytest.raises(OSError, match="Input/output error"):
        writer.sync(wait=True)
    put(TWO, writer)
    with pytest.raises(OSError, match="Input/output error"):
        writer.sync()
    place.disk.faults = DiskFaults(write_error=1.0)
    with pytest.raises(OSError, match="given up, what the disk has of it is uncertain"):
        writer.flush()
    assert writer.tail is None


def test_what_was_flushed_is_forced_to_disk_without_waiting_for_it():
    place, background = Place("t"), Deferred()
    writer = place.writer(background=background)
    writer.report(0, 0, 0, 0, 0.0)
    assert writer.tail == "0,0,0,0,0.000000,\n"
    writer.sync()
    assert not writer.settled
    assert writer.tail == "0,0,0,0,0.000000,\n"  # on its way
    background.step()
    assert writer.settled
    writer.report(1, 0, 1, 1, 0.0)
    writer.flush()
    assert writer.tail == "1,0,1,1,0.000000,\n"
    writer.sync(wait=True)
    assert writer.tail == ""
    writer.close(2)
    place.disk.crash()
    assert place.trace.length == 2


def test_a_trace_that_nobody_forces_to_disk_goes_there_by_itself():
    writer = Place("t").writer(background=Deferred(), carried=1000)
    put(MANY[:20], writer)
    writer.flush()
    assert writer.settled
    put(MANY, writer)
    writer.flush()
    assert not writer.settled


def test_a_disk_that_is_full_at_the_start_is_told_then():
    place = Place("t")
    for faults in (NO_SPACE, FAILS, DiskFaults(folder_error=1.0), DiskFaults(replace_error=1.0)):
        place.disk.faults = faults
        with pytest.raises(BadFile, match=r"^t: cannot be written: "):
            place.writer()
    place.disk.faults = DiskFaults()
    place.write(TWO, 2)
    assert place.lines == TWO
    assert place.disk.names(Path()) == ["t"]


# A run that goes on --------------------------------------------------------------------------------------------------


@both
@quick
@given(histories(), st.integers(0, 40), st.booleans())
def test_a_run_that_goes_on_keeps_what_is_its_own(name, history, saved, closed):
    """The first `saved` lines were saved, those after them are lost; then the same happens again."""
    lines, end = history
    saved = min(saved, len(lines))
    assume(saved > 0)
    place = Place(name)
    place.write(lines, end if closed else None)
    writer = place.writer(OWN | {"again": True}, keep=saved)
    place.disk.crash()
    assert place.lines == lines[:saved]  # on disk at once: another crash loses nothing
    writer = place.writer(OWN | {"again": True}, keep=saved)
    put(lines[saved:], writer)
    writer.close(end)
    assert place.lines == lines
    assert (place.trace.length, place.trace.about) == (end, OWN | {"again": True})
    if name.endswith(".gz"):
        assert gzip.decompress(place.content).endswith(b"# end %d\n" % end)


def test_a_run_that_goes_on_from_its_very_start_may_write_its_trace_anew():
    place = Place("t")
    place.write(TWO, 2)
    with refused("trace"):
        place.writer()
    place.write(TWO[:1], 1, keep=0)
    assert place.lines == TWO[:1]


def test_a_run_that_goes_on_needs_the_file_it_goes_on_with():
    with pytest.raises(BadFile, match="gone"):
        Place("gone").writer(keep=3)
    place = Place("t")
    place.write(TWO, 2)
    before = place.content
    with pytest.raises(BadFile, match="lacks the last 3 lines of the run that goes on; go on without a trace, or"):
        place.writer(keep=5)
    assert place.content == before
    assert place.disk.names(Path()) == ["t"]


@both
@quick
@given(histories(), st.integers(0, 40), st.integers(0, 40))
def test_lines_that_have_not_reached_the_disk_are_taken_from_the_saved_state(name, history, cut, known):
    lines, end = history
    assume(lines)
    cut, known = min(cut, len(lines)), min(known, len(lines))
    place = Place(name)
    place.write(lines[:cut])
    options = {"keep": len(lines), "tail": texts(lines[len(lines) - known :])}
    if cut + known < len(lines):
        with pytest.raises(BadFile, match=f"the last {len(lines) - cut} "):
            place.writer(**options)
        return
    place.writer(**options).close(end)
    assert place.lines == lines


def no_way_on(place, words, **options):
    """A run that goes on refuses this file in one line, and leaves it and its folder as they are."""
    before, names = place.content, place.disk.names(Path())
    with pytest.raises((BadInput, BadFile), match=words) as caught:
        place.writer(**{"keep": 0} | options)
    assert "\n" not in str(caught.value)
    assert (place.content, place.disk.names(Path())) == (before, names)


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("content", STRANGE.values(), ids=STRANGE)
def test_a_run_that_goes_on_refuses_what_is_no_trace(content, keep):
    remedy = "give the trace it began with, or go on without one" if keep else "give the path of a new file"
    words = f"^trace = .*must be the trace of the run that goes on, and this file is no trace; {remedy}$"
    no_way_on(Place("t", content), words, keep=keep)
    no_way_on(Place("t.gz", gzip.compress(content)), words, keep=keep)
    no_way_on(Place("plain.gz", content), words, keep=keep)
    no_way_on(Place("picture", b"\x89PNG"), "picture: not a text; give the path of a trace", keep=keep)


@both
@pytest.mark.parametrize("keep", [0, 1, 2])
@pytest.mark.parametrize(
    ("about", "words"), [(OWN | {"run": "b"}, "is another run's; give the"), ({"workers": N}, "has no id of a run")]
)
def test_a_run_that_goes_on_refuses_the_trace_of_another(about, words, name, keep):
    place = Place(name)
    place.write(TWO, 2, about=about)
    no_way_on(place, f"and this file {words}", keep=keep)


def test_a_run_without_an_id_has_no_trace():
    place = Place("t")
    place.write(TWO, 2)
    no_way_on(place, "this file is another run's", about={"workers": N}, keep=2)
