"""A file is whole or not there; a folder that cannot be written is refused before the work."""

import os
import stat

import pytest

from siag.foundations.errors import BadInput
from siag.foundations.files import writable_folder, write_atomically, write_text


class DiskFullError(OSError):
    """What a writer may raise half-way."""


def fails_halfway(stream):
    stream.write(b"half")
    raise DiskFullError


def test_a_file_holds_what_was_written(tmp_path):
    write_atomically(tmp_path / "a", lambda stream: stream.write(b"all of it"))
    assert (tmp_path / "a").read_bytes() == b"all of it"
    assert os.listdir(tmp_path) == ["a"]


def test_text_is_written_as_utf8(tmp_path):
    write_text(tmp_path / "a", "η → 0\n")
    assert (tmp_path / "a").read_bytes() == "η → 0\n".encode()


def test_a_writer_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(DiskFullError):
        write_atomically(tmp_path / "a", fails_halfway)
    assert os.listdir(tmp_path) == []


def test_a_writer_that_fails_keeps_the_old_content(tmp_path):
    write_text(tmp_path / "a", "old")
    with pytest.raises(DiskFullError):
        write_atomically(tmp_path / "a", fails_halfway)
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_an_interrupted_writer_leaves_nothing_either(tmp_path):
    def interrupted(stream):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a", interrupted)
    assert os.listdir(tmp_path) == []


def test_the_old_content_is_there_until_the_new_is_whole(tmp_path):
    write_text(tmp_path / "a", "old")
    seen = []

    def write(stream):
        stream.write(b"new")
        stream.flush()
        seen.append((tmp_path / "a").read_text())

    write_atomically(tmp_path / "a", write)
    assert seen == ["old"]
    assert (tmp_path / "a").read_text() == "new"


def test_a_target_that_is_a_folder_is_left_alone(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_text(tmp_path / "a", "text")
    assert os.listdir(tmp_path) == ["a"]


def test_a_written_file_is_as_readable_as_any_other_new_file(tmp_path):
    (tmp_path / "ordinary").write_text("x")
    write_text(tmp_path / "atomic", "x")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "atomic")]
    assert modes[0] == modes[1]


def test_a_folder_is_made_with_its_parents_and_left_empty(tmp_path):
    folder = writable_folder("out", tmp_path / "a" / "b")
    assert folder == tmp_path / "a" / "b"
    assert os.listdir(folder) == []
    assert writable_folder("out", str(folder)) == folder


@pytest.mark.parametrize("below", ["", "deeper", "deeper/still"])
def test_a_folder_at_or_below_a_regular_file_is_refused(tmp_path, below):
    (tmp_path / "file").write_text("kept")
    path = tmp_path / "file" / below
    with pytest.raises(BadInput, match="must be a folder that can be written") as caught:
        writable_folder("out", path)
    assert caught.value.parameter == "out"
    assert caught.value.value == str(path)
    assert (tmp_path / "file").read_text() == "kept"
