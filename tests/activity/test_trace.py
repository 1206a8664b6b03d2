"""Traces: what a live run leaves behind is read as it was written, refused if it cannot be, and runs again."""

import gzip
import json
import os

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import siag
from siag.activity import EveryArrivals, Tick, Trace
from siag.activity.agenda import FADE, FORGET, STEP
from siag.activity.trace import COLUMNS, FORMAT, _columns
from siag.foundations.errors import BadFile, BadInput, Unsuitable
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.methods import compute
from siag.server import DROP, KEEP, Departed, Guard, ParameterServer, Refused
from siag.storage import TraceWriter, trace_writer

quick = settings(deadline=None, max_examples=60)
N, D = 4, 3
PROBLEM = siag.problems.LeastSquares.random(n=N, d=D, p=2, noise=0.1, seed=2)
STEPS = siag.steps.Harmonic(beta=0.3, gamma=40)
HEAD = '# siag-trace-1 {"workers": 4}\n' + COLUMNS + "\n"


@st.composite
def histories(draw):
    """Lines (version, worker, stamp, sample, seconds) or (version, worker, factor, seconds) that may have happened."""
    version, seconds, lines = 0, 0.0, []
    last, drawn = [0] * N, [0] * N
    for _ in range(draw(st.integers(0, 40))):
        i = draw(st.integers(0, N - 1))
        seconds = round(seconds + draw(st.sampled_from([0.0, 1e-6, 0.25, 1000.0])), 6)
        if draw(st.integers(0, 9)) == 0:
            lines.append((version, i, draw(st.sampled_from([0.0, 0.5, 0.9170040432046712])), seconds))
        else:
            stamp = draw(st.integers(last[i], version))
            sample = drawn[i] + draw(st.sampled_from([0, 0, 0, 1, 7]))
            lines.append((version, i, stamp, sample, seconds))
            last[i], drawn[i] = version, sample + 1
        version += draw(st.integers(0, 2))
    return lines, version


def write(path, lines, end=None, flush_every=3, about=None, **options):
    """Write lines as the server does; `end=None` leaves the file as a crash would."""
    writer = TraceWriter(path, {"workers": N, "seed": 5} if about is None else about, **options)
    put(writer, lines, flush_every)
    if end is None:
        writer.flush()
        writer._raw.close()
    else:
        writer.close(end)


def put(writer, lines, flush_every=3):
    for k, line in enumerate(lines):
        if len(line) == 5:
            writer.report(*line)
        else:
            version, i, factor, seconds = line
            writer.fade(version, i, factor, seconds)
        if k % flush_every == 0:
            writer.flush()


def lines_of(trace):
    rows = zip(*(getattr(trace, name).tolist() for name in COLUMNS.split(",")), strict=True)
    return [(v, i, f, s) if f == f else (v, i, p, k, s) for v, i, p, k, s, f in rows]  # noqa: PLR0124  # NaN: a report


# Files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@quick
@given(histories(), st.integers(1, 5))
def test_what_is_written_is_read(tmp_path_factory, name, history, flush_every):
    lines, end = history
    path = tmp_path_factory.mktemp("trace") / name
    write(path, lines, end, flush_every)
    trace = Trace.read(path)
    assert lines_of(trace) == lines
    assert trace.length == end
    assert trace.about == {"workers": N, "seed": 5}


def test_any_tool_that_reads_csv_reads_it(tmp_path):
    write(tmp_path / "t.csv.gz", [(0, 3, 0, 0, 0.0131), (1, 2, 0.5, 0.02)], 2)
    with gzip.open(tmp_path / "t.csv.gz", "rt") as stream:
        text = stream.read()
    head, columns, report, fade, end = text.splitlines()
    assert json.loads(head.removeprefix("# siag-trace-1 "))["workers"] == N
    assert (columns, end) == (COLUMNS, "# end 2")
    assert (report, fade) == ("0,3,0,0,0.013100,", "1,2,,,0.020000,0.5")


def test_what_was_run_may_hold_numbers_of_numpy_and_things_json_does_not_know(tmp_path):
    TraceWriter(tmp_path / "t", {"seed": np.int64(7), "noise": np.float32(0.5), "odd": {1, 2}}).close(0)
    assert Trace.read(tmp_path / "t").about == {"seed": 7, "noise": 0.5, "odd": "{1, 2}"}


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_file_that_exists_is_never_overwritten(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"precious")
    with pytest.raises(BadInput, match=r"trace = .*a file that does not exist yet; move the old one"):
        TraceWriter(path, {})
    assert path.read_bytes() == b"precious"
    with pytest.raises(BadFile, match="cannot be written: no such file"):
        TraceWriter(tmp_path / "nowhere" / name, {})


@pytest.mark.parametrize("end", [None, 0])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_trace_without_a_report_may_be_written_over(tmp_path, name, end):
    path = tmp_path / name
    write(path, [], end)
    write(path, TWO, 2, about={"workers": N, "run": "b"})
    assert lines_of(Trace.read(path)) == TWO
    assert Trace.read(path).about["run"] == "b"


@pytest.mark.parametrize("size", [0, 20, len(HEAD) - len(COLUMNS), len(HEAD) - 1, len(HEAD)])
def test_so_may_one_whose_head_was_torn_by_a_crash(tmp_path, size):
    (tmp_path / "t").write_text(HEAD[:size])
    write(tmp_path / "t", TWO, 2)
    assert lines_of(Trace.read(tmp_path / "t")) == TWO


@pytest.mark.parametrize("body", ["0,0,0,0,0.1,\n", "0,0,,,0.1,0.5\n", "0,0,0", "# end 1\n", "\n"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_one_that_holds_anything_may_not(tmp_path, name, body):
    text = (HEAD + body).replace("# end", "# ended by")
    content = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match="a file that does not exist yet"):
        TraceWriter(tmp_path / name, {})
    assert (tmp_path / name).read_bytes() == content


def test_what_is_no_trace_may_not_be_written_over_however_little_it_holds(tmp_path):
    for name, content in STRANGE.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe")
    for name in (*STRANGE, "folder", "nowhere", "pipe"):
        with pytest.raises(BadInput, match="a file that does not exist yet"):
            TraceWriter(tmp_path / name, {})
    assert all((tmp_path / name).read_bytes() == content for name, content in STRANGE.items())


def test_a_trace_that_another_run_writes_to_is_refused_before_its_first_report_too(tmp_path):
    first = TraceWriter(tmp_path / "t", {"workers": N})
    first.flush()
    with pytest.raises(BadInput, match="a file that no other run writes to; give another path"):
        TraceWriter(tmp_path / "t", {})
    put(first, TWO)
    first.close(2)
    assert lines_of(Trace.read(tmp_path / "t")) == TWO


def test_the_trace_of_a_run_that_goes_on_is_its_own_too(tmp_path):
    about = {"workers": N, "run": "a"}
    TraceWriter(tmp_path / "t", about).close(0)
    second = TraceWriter(tmp_path / "t", about, keep=0, tail=())
    with pytest.raises(BadInput, match="a file that no other run writes to; give another path"):
        TraceWriter(tmp_path / "t", {})
    put(second, TWO)
    second.close(2)
    assert lines_of(Trace.read(tmp_path / "t")) == TWO


def test_a_trace_is_not_written_to_a_file_that_its_writer_removes_meanwhile(tmp_path, monkeypatch):
    path = tmp_path / "t"
    first, take = TraceWriter(path, {}), trace_writer._own_file

    def slowly(path):
        monkeypatch.setattr(trace_writer, "_own_file", take)
        file = open(path, "ab", buffering=0)  # noqa: SIM115  # the writer closes it
        first.discard()
        return file

    monkeypatch.setattr(trace_writer, "_own_file", slowly)
    second = TraceWriter(path, {"workers": N})
    put(second, TWO)
    second.close(2)
    assert lines_of(Trace.read(path)) == TWO


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_trace_that_is_discarded_is_gone_unless_it_was_closed_or_is_no_longer_there(tmp_path, name):
    path = tmp_path / name
    writer = TraceWriter(path, {})
    writer.sync()
    writer.discard()
    assert not path.exists()
    writer.close(0)
    closed = TraceWriter(path, {})
    closed.close(0)
    closed.discard()
    assert path.exists()
    moved = TraceWriter(path, {})
    path.rename(tmp_path / "moved")
    path.write_bytes(b"precious")
    moved.discard()
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@quick
@given(histories(), st.floats(0, 1))
def test_a_torn_file_is_read_as_far_as_it_goes(tmp_path_factory, name, history, share):
    """Cut anywhere, it has the first of its lines and no others: whole lines that reached the disk."""
    lines, _ = history
    path = tmp_path_factory.mktemp("trace") / name
    write(path, lines)
    raw = path.read_bytes()
    least = len(HEAD) if name == "t.csv" else 0
    path.write_bytes(raw[: round(least + share * (len(raw) - least))])
    try:
        trace = Trace.read(path)
    except BadFile as error:
        assert "not a trace" in str(error)  # noqa: PT017  # not even the head has come through
        assert share < 1
        return
    found = lines_of(trace)
    assert found == lines[: len(found)]
    if share == 1:
        assert found == lines
    reports = [line[0] + 1 for line in found if len(line) == 5]
    assert trace.length == max(reports + [line[0] for line in found], default=0)


def test_all_that_was_flushed_survives_a_crash_compressed_or_not(tmp_path):
    lines = [(k, k % N, k - k % 2, k, 0.5 * k) for k in range(500)]
    for name in ("t.csv", "t.csv.gz"):
        writer = TraceWriter(tmp_path / name, {})
        put(writer, lines, flush_every=1)
        writer.report(500, 0, 500, 500, 1e3)  # not flushed
        (tmp_path / "copy").mkdir(exist_ok=True)
        (tmp_path / "copy" / name).write_bytes((tmp_path / name).read_bytes())
        assert lines_of(Trace.read(tmp_path / "copy" / name)) == lines
        writer.close(501)
        assert Trace.read(tmp_path / name).length == 501
        writer.close(502)  # once is enough
        assert Trace.read(tmp_path / name).length == 501


class Full:
    """A disk that takes a few bytes at a time, and is full every other time."""

    def __init__(self, raw):
        self.raw, self.turn = raw, 0
        self.closed = False

    def write(self, content):
        self.turn += 1
        if self.turn % 2:
            raise OSError(28, "No space left on device")
        return self.raw.write(bytes(content[:7]))

    def close(self):
        self.raw.close()


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_full_disk_costs_nothing_once_there_is_room_again(tmp_path, name):
    writer = TraceWriter(tmp_path / name, {"workers": N})
    raw = writer._raw
    writer._raw = Full(raw)
    lines = [(k, k % N, k, k, float(k)) for k in range(50)]
    for line in lines:
        writer.report(*line)
        with pytest.raises(OSError, match="No space"):
            writer.flush()
    writer._raw = raw
    writer.close(50)
    assert lines_of(Trace.read(tmp_path / name)) == lines


class NoRoom:
    """A file on a disk without any room."""

    closed = False

    def __init__(self, raw):
        self.raw = raw

    def write(self, content):
        raise OSError(28, "No space left on device")

    def fileno(self):
        return self.raw.fileno()

    def close(self):
        self.raw.close()
        self.closed = True


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_disk_that_stays_full_is_waited_for_within_bounds_then_the_trace_is_given_up(tmp_path, monkeypatch, name):
    monkeypatch.setattr(trace_writer, "ROOM", 1 << 20)
    writer = TraceWriter(tmp_path / name, {"workers": N})
    writer.report(0, 0, 0, 0, 0.0)
    writer.flush()
    writer._raw = NoRoom(writer._raw)
    words = []
    for k in range(1, 60_001):
        writer.report(k, 0, k, k, float(k))
        if k % 1000 == 0:
            with pytest.raises(OSError, match="No space") as caught:
                writer.flush()
            words.append(caught.value.strerror)
            assert len(writer._doubtful) + writer._size + sum(map(len, writer._lines)) < 3 << 20
    assert list(dict.fromkeys(words)) == [
        "No space left on device",
        "No space left on device; given up, with 1 MB waiting for the disk",
    ]
    assert writer.tail is None
    assert writer._size == len(writer._doubtful) == 0
    writer.close(60_001)
    assert writer._raw.closed
    assert Trace.read(tmp_path / name).length == 1


def test_what_was_flushed_is_forced_to_disk_without_waiting_for_it(tmp_path, monkeypatch):
    forced, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: forced.append(os.fstat(file).st_size) or real(file))
    writer = TraceWriter(tmp_path / "t", {})
    writer.report(0, 0, 0, 0, 0.0)
    assert writer.tail == "0,0,0,0,0.000000,\n"
    forced.clear()
    writer.sync()
    assert writer.tail == "0,0,0,0,0.000000,\n"  # on its way
    writer._forcing.join()
    assert forced == [(tmp_path / "t").stat().st_size]
    writer.report(1, 0, 1, 1, 0.0)
    writer.flush()
    assert writer.settled
    assert writer.tail == "1,0,1,1,0.000000,\n"
    writer.sync(wait=True)
    assert writer.tail == ""
    writer.close(2)
    assert forced[-1] == (tmp_path / "t").stat().st_size


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_what_could_not_be_forced_to_disk_is_written_again_and_the_trouble_lasts_as_long(tmp_path, monkeypatch, name):
    writer = TraceWriter(tmp_path / name, {"workers": N})
    lines = [(k, k % N, k, k, float(k)) for k in range(30)]

    def drop(file):
        os.ftruncate(file, writer._safe)  # the system forgets what it could not write
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", drop)
        for line in lines[:20]:
            writer.report(*line)
            with pytest.raises(OSError, match="Input/output error"):
                writer.sync(wait=True)
            with pytest.raises(OSError, match="Input/output error"):
                writer.flush()
    writer.sync(wait=True)
    put(writer, lines[20:])
    writer.close(30)
    assert lines_of(Trace.read(tmp_path / name)) == lines


def test_a_trace_that_nobody_forces_to_disk_goes_there_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_writer, "TAIL", 1000)
    writer = TraceWriter(tmp_path / "t", {})
    for k in range(1000):
        writer.report(k, 0, k, k, float(k))
        writer.flush()
        if writer._forcing is not None:
            writer._forcing.join()
        assert writer._size < 2000
    writer.close(1000)


# A run that goes on --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@quick
@given(histories(), st.integers(0, 40), st.booleans())
def test_a_run_that_goes_on_keeps_what_is_its_own(tmp_path_factory, name, history, saved, closed):
    """The first `saved` lines were saved, those after them are lost; then the same happens again."""
    lines, end = history
    saved = min(saved, len(lines))
    assume(saved > 0)
    path = tmp_path_factory.mktemp("trace") / name
    write(path, lines, end if closed else None, about={"workers": N, "run": "a"})
    keep = sum(len(line) == 5 for line in lines[:saved])
    writer = TraceWriter(path, {"workers": N, "again": True, "run": "a"}, keep=keep, fades=saved - keep)
    assert lines_of(Trace.read(path)) == lines[:saved]  # on disk at once: another crash loses nothing
    put(writer, lines[saved:])
    writer.close(end)
    trace = Trace.read(path)
    assert lines_of(trace) == lines
    assert (trace.length, trace.about) == (end, {"workers": N, "again": True, "run": "a"})
    if name.endswith(".gz"):
        assert gzip.decompress(path.read_bytes()).endswith(b"# end %d\n" % end)


def test_a_run_that_goes_on_needs_the_file_it_goes_on_with(tmp_path):
    with pytest.raises(BadFile, match="no such file"):
        TraceWriter(tmp_path / "gone", {}, keep=3)
    write(tmp_path / "t", [(0, 0, 0, 0, 0.0), (1, 0, 1, 1, 0.0)], 2)
    before = (tmp_path / "t").read_bytes()
    with pytest.raises(BadFile, match="lacks the last 3 lines of the run that goes on; go on without a trace, or"):
        TraceWriter(tmp_path / "t", {}, keep=5)
    assert (tmp_path / "t").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@quick
@given(histories(), st.integers(0, 40), st.integers(0, 40))
def test_lines_that_have_not_reached_the_disk_are_taken_from_the_saved_state(
    tmp_path_factory, name, history, cut, known
):
    lines, end = history
    assume(lines)
    path = tmp_path_factory.mktemp("trace") / name
    cut, known = min(cut, len(lines)), min(known, len(lines))
    write(path, lines[:cut])
    told = trace_writer.Unwritten()
    for line in lines[len(lines) - known :]:
        told.report(*line) if len(line) == 5 else told.fade(*line)
    keep = sum(len(line) == 5 for line in lines)
    options = {"keep": keep, "fades": len(lines) - keep, "tail": told.lines}
    if cut + known < len(lines):
        with pytest.raises(BadFile, match=f"lacks the last {len(lines) - cut} lines of the run that goes on"):
            TraceWriter(path, {"workers": N}, **options)
        return
    TraceWriter(path, {"workers": N}, **options).close(end)
    assert lines_of(Trace.read(path)) == lines


TWO = [(0, 0, 0, 0, 0.0), (1, 0, 1, 1, 0.0)]
OWN = {"workers": N, "seed": 5, "run": "a"}
OLD = {"workers": N, "seed": 5}  # from before runs had ids


def refused(path, words, about=OWN, **options):
    """A run that goes on refuses this file in one line, and leaves it and its folder as they are."""
    before, names = path.read_bytes(), sorted(path.parent.iterdir())
    with pytest.raises((BadInput, BadFile), match=words) as caught:
        TraceWriter(path, about, again=True, **options)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == names


STRANGE = {
    "a text": b"important results\n",
    "a table": f"{COLUMNS}\n0,0,0,0,0.0,\n".encode(),
    "another format": HEAD.replace("trace-1", "trace-9").encode(),
    "no JSON": f"# {FORMAT} {{workers\n{COLUMNS}\n".encode(),
    "other columns": f"# {FORMAT} {{}}\nversion,worker\n".encode(),
    "blank lines": b"\n\n\n",
}


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("content", STRANGE.values(), ids=STRANGE)
def test_a_run_that_goes_on_refuses_what_is_no_trace(tmp_path, content, keep):
    remedy = "give the trace it began with, or go on without one" if keep else "give the path of a new file"
    words = f"^trace = .*must be the trace of the run that goes on, and this file is no trace; {remedy}$"
    (tmp_path / "t").write_bytes(content)
    (tmp_path / "t.gz").write_bytes(gzip.compress(content))
    (tmp_path / "plain.gz").write_bytes(content)
    for name in ("t", "t.gz", "plain.gz"):
        refused(tmp_path / name, words, keep=keep)
    (tmp_path / "picture").write_bytes(b"\x89PNG")
    refused(tmp_path / "picture", "picture: not a text; give the path of a trace", keep=keep)


@pytest.mark.parametrize("keep", [0, 1, 2])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("about", [OWN | {"run": "b"}, OLD])
def test_a_run_that_goes_on_refuses_the_trace_of_another(tmp_path, about, name, keep):
    write(tmp_path / name, TWO, 2, about=about)
    refused(tmp_path / name, "and this file is another run's; give the", keep=keep)


def test_a_run_from_before_there_were_ids_refuses_the_trace_of_one_with_an_id(tmp_path):
    write(tmp_path / "t", TWO, about=OWN)
    refused(tmp_path / "t", "is another run's; give the trace it began with", about=OLD, keep=1)


@pytest.mark.parametrize("end", [None, 2])
def test_a_run_from_before_there_were_ids_goes_on_with_a_trace_that_agrees(tmp_path, end):
    write(tmp_path / "t", TWO, end, about=OLD | {"siag": "0.1", "activity": "live", "problem": "<a at 0x1>"})
    about = OLD | {"siag": "0.2", "activity": "live, elsewhere", "problem": "<a at 0x2>", "upload": 3}
    TraceWriter(tmp_path / "t", about, keep=2).close(2)
    assert lines_of(Trace.read(tmp_path / "t")) == TWO


@pytest.mark.parametrize("keep", [0, 2])
def test_a_run_from_before_there_were_ids_refuses_a_trace_that_does_not_agree(tmp_path, keep):
    write(tmp_path / "t", TWO, about=OLD)
    refused(tmp_path / "t", "is another run's, with another seed; give the", about=OLD | {"seed": 6}, keep=keep)


def test_a_run_from_before_there_were_ids_refuses_a_trace_with_more_reports_than_a_crash_would_leave(tmp_path):
    words = "is another run's, with more reports; give the"
    write(tmp_path / "crashed", TWO, about=OLD)
    refused(tmp_path / "crashed", words, about=OLD, keep=0)
    write(tmp_path / "ended", TWO, 2, about=OLD)
    refused(tmp_path / "ended", words, about=OLD, keep=1)
    TraceWriter(tmp_path / "crashed", OLD, keep=1).close(1)
    assert lines_of(Trace.read(tmp_path / "crashed")) == TWO[:1]


@pytest.mark.parametrize("size", [0, 20, len(HEAD) - len(COLUMNS), len(HEAD) - 1])
def test_a_head_torn_by_a_crash_holds_nothing_to_lose(tmp_path, size):
    (tmp_path / "t").write_text(HEAD[:size])
    told = trace_writer.Unwritten()
    told.report(*TWO[0])
    TraceWriter(tmp_path / "t", OWN, keep=1, tail=told.lines).close(1)
    assert lines_of(Trace.read(tmp_path / "t")) == TWO[:1]


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("0,4,0,0,0.1,\n", r"line 3: names a worker that is not among the 4 \(worker 4\)"),
        ("0,0,0,0,0.1,\n0,-1,0,0,0.1,\n", "line 4: names a worker below 0"),
        ("0,0,0,0,0.2,\n1,0,1,1,0.1,\n", "line 4: goes back in time"),
        ("1,0,1,0,0.1,\n0,1,0,0,0.1,\n", "line 4: goes back in time"),
        ("-1,0,0,0,0.1,\n", "line 3: goes back in time"),
        ("0,0,0,0,-0.1,\n", "line 3: goes back in time"),
        ("0,0,0,0,0.1,\n1,1,2,0,0.1,\n", "line 4: has a stamp from the future"),
        ("0,0,-1,0,0.1,\n", "line 3: has a stamp from the future, or below 0"),
        ("0,0,0,-1,0.1,\n", "line 3: has a sample below 0"),
        ("0,0,0,3,0.1,\n1,1,1,3,0.1,\n1,0,1,3,0.1,\n", r"line 5: goes back to a sample.*\(worker 0\)"),
        ("0,2,0,0,0.1,\n2,2,0,1,0.1,\n3,2,1,2,0.1,\n", r"line 5: goes back to .* version .*\(worker 2\)"),
        ("0,0,0,0,0.1,\n1,1,,,0.1,0.5\n5,0,5,1,0.1,\n# end 3\n", "line 5: comes after the end, at version 3"),
        ("0,0,0,0,0.1\n", "line 3: not of the form version,worker,stamp,sample,seconds,factor"),
        ("0,0,0,0,0.1,\n0,0,0,0,0.1,,\n", "line 4: not of the form"),
        ("0,0,0,0,0.1,\n0,0,,0,0.1,\n", "line 4: not of the form"),
        ("0,0,0,0,0.1,\n0,0,,,0.1,\n", "line 4: not of the form"),
        ("0,0,0,0,0.1,0.5\n", "line 3: not of the form"),
        ("0,0,,,0.1,nan\n", "line 3: not of the form"),
        ("0,0,,,0.1,-0.5\n", "line 3: not of the form"),
        ("0,0,,,0.1,1.5\n", "line 3: not of the form"),
        ("0,0,0,0,nan,\n", "line 3: not of the form"),
        ("0,0,0,0,inf,\n", "line 3: not of the form"),
        ("0,0,0,0,0.1,\n0,1,0,99999999999999999999,0.1,\n", "line 4: not of the form"),
        ("0,0,0,0.5,0.1,\n", "line 3: not of the form"),
        ("0,0,0,0,0.1,\n\n1,0,1,1,0.1,\n", "line 4: not of the form"),
        ("0,0,0,0,0.1,\n# end 1\n1,0,1,1,0.1,\n", "line 4: not of the form"),
        ("0,0,0,0,0.1,\n# end soon\n", "line 4: '# end soon' does not say how many steps"),
        ("0,0,0,0,0.1,\n# end -1\n", "line 4: '# end -1' does not say"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_trace_that_cannot_have_happened_is_refused_with_file_and_line(tmp_path, name, body, words):
    path = tmp_path / name
    content = (HEAD + body).encode()
    path.write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    with pytest.raises(BadFile, match=rf"{name}, {words}"):
        Trace.read(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello\n",
        b"\x89PNG\r\n\x1a\n\xff\xfe",
        b"# siag-trace-2 {}\n" + COLUMNS.encode() + b"\n",
        b"# siag-trace-1 {}\nversion,worker\n",
        b"# siag-trace-1 {}\n",
        gzip.compress(b"hello\n", mtime=0),
        gzip.compress(HEAD.encode(), mtime=0)[:12],
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_foreign_file_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadFile, match=rf"{name}: not a (trace of format siag-trace-1; siag serve|text; give)"):
        Trace.read(tmp_path / name)


def test_a_head_that_is_not_json_is_refused_with_its_line(tmp_path):
    for head in ("{broken", '{"a": }', "{" + '{"a":' * 100_000):
        (tmp_path / "t").write_text(f"# siag-trace-1 {head}\n{COLUMNS}\n")
        with pytest.raises(BadFile, match="t, line 1: what was run is not in JSON"):
            Trace.read(tmp_path / "t")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadFile, match="nothing: no such file or directory; give the path of a trace"):
        Trace.read(tmp_path / "nothing")
    with pytest.raises(BadFile, match="is a directory"):
        Trace.read(tmp_path)


def plain_columns(lines):
    """Line by line, written to be read."""
    rows = []
    for line in lines:
        version, worker, stamp, sample, seconds, factor = line.split(",")
        if factor:
            rows.append((int(version), int(worker), 0, 0, float(seconds), float(factor)))
        else:
            rows.append((int(version), int(worker), int(stamp), int(sample), float(seconds), np.nan))
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * 6


@quick
@given(histories())
def test_reading_by_columns_is_reading_line_by_line(history):
    writer = TraceWriter.__new__(TraceWriter)
    writer._lines = []
    for line in history[0]:
        writer.report(*line) if len(line) == 5 else writer.fade(*line[:3], line[3])
    lines = [line.removesuffix("\n") for line in writer._lines]
    for fast, plain in zip(_columns(lines), plain_columns(lines), strict=True):
        assert np.array_equal(fast, np.array(plain, fast.dtype), equal_nan=fast.dtype == float)


def test_a_worker_that_numbers_its_samples_beyond_all_bounds_does_not_exhaust_the_memory(tmp_path):
    write(tmp_path / "t", [(0, 0, 0, 2**53, 0.0)], 1)
    with pytest.raises(Unsuitable, match="its samples may be numbered wrongly"):
        again(Trace.read(tmp_path / "t"), siag.methods.SIAG())


# Events --------------------------------------------------------------------------------------------------------------


def history_of(trace, iterations, cost=1 << 21):
    parts = [tuple(map(np.copy, chunk)) for chunk in trace.events(N, iterations, seed=0, repeat=0, cost=cost)]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


@quick
@given(histories(), st.floats(0, 1))
def test_the_invariants_hold_for_every_trace_and_any_part_of_it(tmp_path_factory, history, share):
    lines, end = history
    assume(end > 0)
    path = tmp_path_factory.mktemp("trace") / "t"
    write(path, lines, end)
    trace = Trace.read(path)
    iterations = max(1, round(share * end))
    code, age, time, factor = history_of(trace, iterations)
    assert (np.diff(time, prepend=0.0) >= 0).all()
    version, read, drawn, found = 0, {}, [0] * N, []
    for c, a, now, f in zip(code.tolist(), age.tolist(), time.tolist(), factor.tolist(), strict=True):
        if c == STEP:
            version += 1
        elif c <= FADE + N:
            found.append((version, c - FADE, f, now))
        elif c < 0:
            read[-1 - c] = version
            drawn[-1 - c] += 1
        else:
            stamp = read.pop(c)
            assert a == version - stamp
            found.append((version, c, stamp, drawn[c] - 1, now))
    assert version == iterations
    assert code[-1] == STEP
    assert found == [line for line in lines if line[0] < iterations]
    for one, two in zip((code, age, time, factor), history_of(trace, iterations, cost=1), strict=True):
        assert np.array_equal(one, two, equal_nan=one.dtype == float)


def test_more_steps_than_were_taken_and_fewer_workers_than_reported_are_refused(tmp_path):
    write(tmp_path / "t", [(0, 3, 0, 0, 0.5), (1, 0, 0, 0, 0.5)], 2)
    trace = Trace.read(tmp_path / "t")
    with pytest.raises(BadInput, match="iterations = 3: must be at most the trace's 2"):
        siag.simulate(PROBLEM, siag.methods.SIAG(), trace, STEPS, iterations=3)
    small = siag.problems.LeastSquares.random(n=3, d=D, p=2, noise=0.1)
    with pytest.raises(BadInput, match="trace = 3: must be made of workers 0 to 2"):
        siag.simulate(small, siag.methods.SIAG(), trace, STEPS, iterations=2)
    with pytest.raises(Unsuitable, match="a Trace has no fixed iterations"):
        siag.theory.exact_error(PROBLEM, siag.methods.SIAG(), trace, STEPS, iterations=2)


def test_the_last_step_is_as_late_as_the_last_report_it_took(tmp_path):
    """Not as one that came after it."""
    write(tmp_path / "t", [(0, 0, 0, 0, 1.0), (1, 1, 0, 0, 3.0), (2, 2, 0, 0, 9.0)], 2)
    run = again(Trace.read(tmp_path / "t"), siag.methods.SIAG())
    assert run.time[0].tolist() == [0.0, 1.0, 3.0]


@quick
@given(histories())
def test_recorded_are_the_sets_of_those_who_reported(tmp_path_factory, history):
    lines, end = history
    assume(end > 0)
    path = tmp_path_factory.mktemp("trace") / "t"
    write(path, lines, end)
    tape = Trace.read(path).recorded.tape
    sets = [sorted({line[1] for line in lines if len(line) == 5 and line[0] == t}) for t in range(end)]
    assert [workers.tolist() for workers in np.split(tape.worker, tape.start[1:-1])] == sets


# The same run again --------------------------------------------------------------------------------------------------


def again(trace, method, seed=0, **options):
    return siag.simulate(PROBLEM, method, trace, STEPS, iterations=trace.length, seed=seed, record=10**4, **options)


class Hand:
    """Workers of a problem, moved by hand, on a server that is traced."""

    def __init__(self, path, method, server, departed, seed):
        self.server = ParameterServer(
            method, STEPS, np.zeros(D), N, server=server, departed=departed, guard=Guard(jump=None, strikes=10**6)
        )
        self.server.trace = TraceWriter(path, {"workers": N})
        self.oracle, self.memory = PROBLEM.oracle(), method.recruit(np.zeros(D), N)
        self.seed, self.now, self.drawn, self.flying = seed, 0.0, [0] * N, {}
        self.errors = [float(np.square(PROBLEM.optimum).sum())]

    def read(self, i):
        """What it had computed before, and not reported, is lost."""
        rng, message = blank(), np.empty(D)
        rewind(rng, key(self.seed, 0, SAMPLES), i, self.drawn[i])
        compute(self.memory, self.oracle, rng, i, self.server.w, message)
        self.flying[i] = (self.server.version, message, self.drawn[i])
        self.drawn[i] += 1

    def play(self, what, i, seconds):
        self.now += seconds
        server = self.server
        if what == "read":
            self.read(i)
        elif what == "report" and i in self.flying:
            stamp, message, sample = self.flying.pop(i)
            server.push(i, stamp, message, sample, self.now)
        elif what == "bad" and i in self.flying:
            stamp, message, sample = self.flying.pop(i)
            with pytest.raises(Refused):
                server.push(i, stamp, message * np.nan, sample, self.now)
        elif what == "leave":
            server.leave(i, self.now)
        elif what == "tick" and isinstance(server.pace, Tick):
            server.tick(self.now)
        if server.version == len(self.errors):
            self.errors.append(float(np.square(server.w - PROBLEM.optimum).sum()))


moves = st.tuples(
    st.sampled_from(["read"] * 6 + ["report"] * 6 + ["tick"] * 3 + ["leave", "bad"]),
    st.integers(0, N - 1),
    st.sampled_from([0.0, 0.001, 0.5]),
)
METHODS = [
    siag.methods.SIAG(),
    siag.methods.SIAG(resum=1, rows="float32", wait=0.5),
    siag.methods.SGD(),
    siag.methods.IAG(),
]


@pytest.mark.parametrize("method", METHODS, ids=repr)
@settings(deadline=None, max_examples=80)
@given(
    plan=st.lists(moves, min_size=20, max_size=120),
    server=st.sampled_from([EveryArrivals(), EveryArrivals(3), Tick(1.0)]),
    departed=st.sampled_from([KEEP, DROP, Departed(1.0), Departed(20.0)]),
    seed=st.integers(0, 2**64 - 1),
)
def test_a_live_run_is_repeated_bit_for_bit(tmp_path_factory, method, plan, server, departed, seed):
    path = tmp_path_factory.mktemp("trace") / "t.gz"
    hand = Hand(path, method, server, departed, seed)
    for move in plan:
        hand.play(*move)
    live = hand.server
    live.trace.close(live.version)
    trace = Trace.read(path)
    assert trace.length == live.version
    assert (np.isnan(trace.factor).sum(), (~np.isnan(trace.factor)).sum()) == (live.reports, live.fades)
    assume(live.version > 0)
    run = again(trace, method, seed)
    assert np.array_equal(run.w[0], live.w)
    np.testing.assert_allclose(run.error[0], np.array(hand.errors)[run.t], rtol=1e-12)
    # Any shorter part of it is that part.
    half = (live.version + 1) // 2
    part = siag.simulate(PROBLEM, method, trace, STEPS, iterations=half, seed=seed, record=10**4)
    assert np.array_equal(part.error[0], run.error[0, : half + 1])
    assert np.array_equal(part.time[0], run.time[0, : half + 1])


def test_a_trace_runs_as_plain_python_too(tmp_path):
    hand = Hand(tmp_path / "t", siag.methods.SIAG(), EveryArrivals(2), Departed(2.0), seed=3)
    rng = np.random.default_rng(0)
    for k in range(200):
        hand.play(("read", "report")[k % 2], int(rng.integers(N)), 0.1)
        if k == 100:
            hand.play("leave", 2, 0.0)
    hand.server.trace.close(hand.server.version)
    trace = Trace.read(tmp_path / "t")
    fast, slow = (again(trace, siag.methods.SIAG(), 3, compiled=compiled) for compiled in (True, False))
    assert np.array_equal(fast.w, slow.w)
    assert np.array_equal(fast.w[0], hand.server.w)


def test_a_run_that_goes_on_from_its_very_start_may_write_its_trace_anew(tmp_path):
    path, about = tmp_path / "trace.csv", {"workers": 1, "run": "a"}
    first = TraceWriter(path, about)
    first.report(0, 0, 0, 0, 0.1)
    first.close(1)
    with pytest.raises(BadInput, match="a file that does not exist yet"):
        TraceWriter(path, about)
    again = TraceWriter(path, about, again=True)
    again.report(0, 0, 0, 0, 0.2)
    again.close(1)
    assert Trace.read(path).seconds.tolist() == [0.2]


# What workers forget


def test_a_memory_that_was_lost_is_a_line_of_its_own(tmp_path):
    writer = TraceWriter(tmp_path / "a.trace", {"workers": 2})
    writer.report(0, 1, 0, 0, 0.5)
    writer.memory_lost(1, 1, 0.75)
    writer.close(1)
    assert (tmp_path / "a.trace").read_text().splitlines()[2:] == [
        "0,1,0,0,0.500000,",
        "1,1,,,0.750000,-1.0",
        "# end 1",
    ]
    trace = Trace.read(tmp_path / "a.trace")
    assert trace.factor.tolist()[1] == -1.0
    assert trace.length == 1


@pytest.mark.parametrize("factor", ["-0.5", "-2.0", "1.5", "-1.0000001"])
def test_no_other_number_below_zero_is_a_factor(tmp_path, factor):
    (tmp_path / "a.trace").write_text(f'# {FORMAT} {{"workers": 2}}\n{COLUMNS}\n0,1,,,0.5,{factor}\n# end 1\n')
    with pytest.raises(BadFile, match="line 3"):
        Trace.read(tmp_path / "a.trace")


def codes_of(tmp_path, lines, versions):
    text = "\n".join([f'# {FORMAT} {{"workers": 3}}', COLUMNS, *lines, f"# end {versions}", ""])
    (tmp_path / "a.trace").write_text(text)
    (events,) = Trace.read(tmp_path / "a.trace").events(3, versions, 0, 0, 1)
    names = {STEP: "step"} | {-1 - i: f"read {i}" for i in range(3)} | {i: f"arrive {i}" for i in range(3)}
    names |= {FORGET + i: f"forget {i}" for i in range(3)} | {FADE + i: f"fade {i}" for i in range(3)}
    return [names[code] for code in events.code.tolist()]


def test_what_was_lost_with_a_memory_is_read_before_and_the_next_read_comes_after(tmp_path):
    lines = ["0,0,0,0,0.1,", "1,0,,,0.2,-1.0", "1,0,1,2,0.3,"]  # sample 1 was refused at version 1
    events = ["read 0", "arrive 0", "step", "read 0", "forget 0", "read 0", "arrive 0", "step"]
    assert codes_of(tmp_path, lines, 2) == events


def test_a_read_some_versions_after_a_memory_was_lost_stays_where_its_stamp_says(tmp_path):
    lines = ["0,0,0,0,0.1,", "0,1,,,0.2,-1.0", "1,1,1,1,0.4,"]
    events = ["read 0", "arrive 0", "read 1", "forget 1", "step", "read 1", "arrive 1", "step"]
    assert codes_of(tmp_path, lines, 2) == events


def test_a_memory_lost_twice_is_read_for_before_the_second_time(tmp_path):
    lines = ["0,0,,,0.1,-1.0", "0,0,,,0.2,-1.0", "0,0,0,2,0.3,"]
    assert codes_of(tmp_path, lines, 1) == ["forget 0", "read 0", "read 0", "forget 0", "read 0", "arrive 0", "step"]


def test_a_sample_that_went_missing_without_a_word_is_read_where_the_next_one_is(tmp_path):
    lines = ["0,0,0,0,0.1,", "1,1,,,0.2,-1.0", "2,0,1,2,0.3,"]  # what was lost is another's
    events = ["read 0", "arrive 0", "step", "read 0", "read 0", "forget 1", "step", "arrive 0", "step"]
    assert codes_of(tmp_path, lines, 3) == events
