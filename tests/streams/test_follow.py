"""Every line that was completed comes once and in order, whatever happens to the file in the meantime.

Nothing sleeps here: the stream's waits run the steps of a script, and its end is the end of the script.
"""

import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Script, append, follow

from siag.foundations.errors import BadFile, BadInput
from siag.streams import Follow, Stop, lines
from siag.streams.lines import split


def nothing():
    pass


@given(st.lists(st.binary(max_size=6).map(lambda part: part.replace(b"c", b"\n"))))
def test_lines_do_not_depend_on_where_the_blocks_end(blocks):
    assert list(split(blocks)) == b"".join(blocks).split(b"\n")[:-1]


@given(st.lists(st.text("aé€😀 ", max_size=5), max_size=8), st.integers(1, 7), st.sampled_from(["\n", "\r\n"]))
def test_text_does_not_depend_on_the_size_of_the_blocks(tmp_path_factory, texts, size, line_break):
    path = tmp_path_factory.mktemp("follow") / "data"
    path.write_bytes("".join(text + line_break for text in texts).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", size)
        assert list(Follow(path, "lines", wait=False)) == texts


@given(st.lists(st.binary(min_size=1, max_size=9), max_size=9))
def test_a_file_written_in_pieces_gives_the_lines_of_the_whole(tmp_path_factory, pieces):
    pieces = [bytes(b"a\n\xc3\xa9"[byte % 4] for byte in piece) for piece in pieces]
    path = tmp_path_factory.mktemp("follow") / "data"
    path.touch()
    stream = Follow(path, "lines", bad="skip")
    samples = list(stream.samples(Script(*(append(path, piece) for piece in pieces))))
    whole = Follow(path, "lines", bad="skip", wait=False)
    assert samples == list(whole)
    assert stream.skipped == whole.skipped


def test_lines_are_samples_before_the_next_block_is_read():
    def blocks():
        yield b"one\ntw"
        pytest.fail("the first line was held back")

    assert next(split(blocks())) == b"one"


def test_lines_written_later_follow_those_that_are_there(path):
    path.write_text("1\n2\n")
    assert follow(path, append(path, "3\n"), nothing, append(path, "4\n5\n")) == ["1", "2", "3", "4", "5"]


def test_a_half_written_line_waits_for_its_other_half(path):
    path.write_text("1\nhal")
    script = Script(append(path, "f"), append(path, "\n"))
    samples = Follow(path, "lines").samples(script)
    assert next(samples) == "1"
    assert script.waits == []
    assert next(samples) == "half"
    assert len(script.waits) == 2
    samples.close()


def test_a_character_may_be_written_in_two_halves(path):
    path.write_bytes("é".encode()[:1])
    assert follow(path, append(path, "é\n".encode()[1:])) == ["é"]


def test_without_waiting_the_stream_ends_before_a_half_written_line(path):
    path.write_text("1\n2\nhal")
    assert list(Follow(path, "lines", wait=False)) == ["1", "2"]


def test_it_looks_as_often_as_it_is_told_to(path):
    script = Script(nothing, nothing)
    assert list(Follow(path, "lines", poll=0.125).samples(script)) == []
    assert script.waits == [0.125] * 3


def test_a_file_that_does_not_exist_yet_is_waited_for(tmp_path):
    path = tmp_path / "later" / "data"
    steps = [nothing, path.parent.mkdir, append(path, "1\n"), append(path, "2\n")]
    assert follow(path, *steps) == ["1", "2"]


def test_without_waiting_a_missing_file_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"^path = .*data'?: must be a file that exists; with wait=True it is waited"):
        list(Follow(tmp_path.name + "/data", wait=False))


def test_a_truncated_file_is_read_from_its_beginning(path):
    path.write_text("name\n1\n2\nhal")
    steps = [lambda: path.write_text("name\n3\n"), append(path, "4\n"), lambda: path.write_text("")]
    assert follow(path, *steps, append(path, "name\n5\n"), header=True) == ["1", "2", "3", "4", "5"]


def test_a_rotated_file_is_read_to_its_end_and_then_the_new_one(path):
    old = path.with_name("data.1")
    path.write_text("name\n1\n")

    def rotate():
        path.rename(old)
        append(old, "2\n")()
        append(path, "name\n3\n")()

    assert follow(path, rotate, append(path, "4\n"), header=True) == ["1", "2", "3", "4"]


def test_the_old_file_is_followed_until_the_new_one_has_content(path):
    old = path.with_name("data.1")
    path.write_text("1\n")
    steps = [lambda: path.rename(old), append(old, "2\n"), path.touch, append(old, "3\n")]
    assert follow(path, *steps, append(path, "4\n")) == ["1", "2", "3", "4"]


def test_a_deleted_file_may_come_back(path):
    path.write_text("1\n")
    assert follow(path, path.unlink, nothing, append(path, "1\n")) == ["1", "1"]


def test_a_half_written_line_does_not_outlive_its_file(path):
    path.write_text("1\nhal")
    assert follow(path, path.unlink, append(path, "2\n")) == ["1", "2"]


def test_every_loop_starts_at_the_beginning(path):
    path.write_text("1\n2\n")
    stream = Follow(path, "lines", wait=False)
    assert list(stream) == list(stream) == ["1", "2"]


def test_a_wait_is_ended_from_another_thread(path):
    stop = Stop()
    path.write_text("1\n")
    samples = Follow(path, "lines", poll=1000.0).samples(stop)
    assert next(samples) == "1"
    thread = threading.Thread(target=stop.set)
    thread.start()
    assert list(samples) == []
    thread.join()


def test_lines_written_by_another_thread_arrive(path):
    texts = [f"line {k}" for k in range(200)]

    def write():
        with open(path, "w", buffering=7) as file:
            for text in texts:
                file.write(text + "\n")

    thread = threading.Thread(target=write)
    samples = iter(Follow(path, "lines", poll=0.001))
    thread.start()
    assert [next(samples) for _ in texts] == texts
    thread.join()
    samples.close()


def test_a_stream_can_be_pickled_and_read_elsewhere(path):
    path.write_text("1,2\n3,4\n")
    stream = pickle.loads(pickle.dumps(Follow(path, parse=np.sum, wait=False)))
    assert list(stream) == [3, 7]
    assert list(pickle.loads(pickle.dumps(stream))) == [3, 7]


def test_nothing_is_open_before_the_loop_nor_after_it(path):
    opened = []

    def opener(*arguments, **options):
        opened.append(open(*arguments, **options))  # noqa: SIM115  # closed by the code under test
        return opened[-1]

    path.write_text("1\n2\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "open", opener, raising=False)
        samples = iter(Follow(path))
        assert opened == []
        next(samples)
        assert not opened[0].closed
        samples.close()
        assert opened[0].closed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": 3}, "path = 3: must be the path of a file or folder, as str or Path"),
        ({"path": ""}, "path = '': must be the path of a file or folder, as str or Path"),
        ({"path": "a\0b"}, "path = 'a\\x00b': must be the path of a file or folder, as str or Path"),
        ({"path": b"a"}, "path = b'a': must be the path of a file or folder, as str or Path"),
        ({"format": "xml"}, "format = 'xml': must be one of 'csv', 'fields', 'json', 'lines'"),
        ({"parse": 3}, "parse = 3: must be a function of one sample, or None"),
        ({"wait": 1}, "wait = 1: must be True or False"),
        ({"poll": 0}, "poll = 0: must be a finite number above 0"),
        ({"header": "yes"}, "header = 'yes': must be True or False"),
        ({"bad": "warn"}, "bad = 'warn': must be one of 'raise', 'skip'"),
    ],
)
def test_arguments_are_checked_at_once(arguments, message):
    with pytest.raises(BadInput) as caught:
        Follow(**({"path": "data"} | arguments))
    assert str(caught.value) == message


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(BadInput, match="must be a regular file; for the files in a folder, use Directory"):
        list(Follow(tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_refused_without_being_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="must be a regular file; pipes and devices are not followed"):
        list(Follow(tmp_path / "pipe"))


def test_a_file_that_cannot_be_read_is_an_error_of_one_line(path, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(lines, "open", refuse, raising=False)
    with pytest.raises(BadFile, match=r"^.*data: cannot be read: permission denied$"):
        list(Follow(path))


def test_a_relative_path_is_looked_up_where_the_loop_runs(tmp_path, monkeypatch):
    stream = Follow(Path("data"), "lines", wait=False)
    (tmp_path / "data").write_text("here\n")
    monkeypatch.chdir(tmp_path)
    assert list(stream) == ["here"]
