"""Traces of runs that go on: what is the run's own is kept, all else is refused."""

import gzip
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.activity.trace_cases import N, histories, put, texts
from traces import OWN, STRANGE, TWO, Place, both, quick

from refusals import refused
from siag.foundations.errors import BadFile, BadInput


@pytest.mark.few(1)
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


@pytest.mark.thorough
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
