"""Every finished file is read whole and once. As for `Follow`, waits run the steps of a script."""

import pickle

import numpy as np
import pytest

from siag.foundations.errors import BadFile, BadInput
from siag.streams import Directory, Stop, directory, lines


class Script(Stop):
    """Whenever the stream waits, the next step happens; after the last one the stream is to end."""

    def __init__(self, *steps):
        super().__init__()
        self.steps = list(steps)

    def wait(self, seconds):
        if self.steps:
            self.steps.pop(0)()
        else:
            self.set()
        return self.is_set()


def put(folder, **texts):
    def step():
        for name, text in texts.items():
            (folder / name).write_text(text)

    return step


def read(folder, *steps, **options):
    return list(Directory(folder, format="lines", **options).samples(Script(*steps)))


def test_files_that_are_there_are_read_in_order_of_name(tmp_path):
    put(tmp_path, b="3\n4\n", a="1\n2\n", c="5\n")()
    assert list(Directory(tmp_path, format="lines", wait=False)) == ["1", "2", "3", "4", "5"]


def test_files_that_arrive_are_read_in_order_of_arrival(tmp_path):
    put(tmp_path, m="1\n")()
    assert read(tmp_path, put(tmp_path, z="4\n", y="3\n"), put(tmp_path, a="5\n")) == ["1", "3", "4", "5"]


def test_files_that_arrive_while_others_are_read_are_not_forgotten(tmp_path):
    put(tmp_path, b="1\n2\n")()
    samples = iter(Directory(tmp_path, format="lines", wait=False))
    assert next(samples) == "1"
    put(tmp_path, a="3\n")()
    assert list(samples) == ["2", "3"]


def test_the_last_line_of_a_file_needs_no_line_break(tmp_path):
    put(tmp_path, a="1\n2", b="3\n", c="", d="4")()
    assert list(Directory(tmp_path, format="lines", wait=False)) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_size_of_blocks_does_not_matter(tmp_path, monkeypatch, size):
    monkeypatch.setattr(lines, "BLOCK", size)
    put(tmp_path, a="é\n\nb", b="€\n")()
    assert list(Directory(tmp_path, format="lines", wait=False)) == ["é", "", "b", "€"]


def test_a_line_cut_off_by_a_stop_is_no_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK", 4)
    put(tmp_path, a="1\ncut off")()
    stop = Stop()
    samples = Directory(tmp_path, format="lines").samples(stop)
    assert next(samples) == "1"
    stop.set()
    assert list(samples) == []


def test_files_that_are_being_written_are_left_alone_until_renamed(tmp_path):
    put(tmp_path, **{".a": "1\n", "b.tmp": "2\n", "c.part": "3\n", "d": "4\n"})()
    rename = [lambda name=name: (tmp_path / name).rename(tmp_path / name[:1]) for name in ("c.part", "b.tmp")]
    assert read(tmp_path, *rename) == ["4", "3", "2"]


def test_only_names_of_the_pattern_and_no_folders_are_read(tmp_path):
    put(tmp_path, **{"a.csv": "1\n", "b.txt": "2\n", "c.CSV": "3\n"})()
    (tmp_path / "folder.csv").mkdir()
    assert list(Directory(tmp_path, "*.csv", format="lines", wait=False)) == ["1"]


def test_a_file_is_read_once_even_if_it_grows(tmp_path):
    put(tmp_path, a="1\n")()
    assert read(tmp_path, put(tmp_path, a="1\n2\n"), put(tmp_path, b="3\n")) == ["1", "3"]


def test_the_name_of_a_deleted_file_can_be_used_again(tmp_path):
    put(tmp_path, a="1\n")()
    assert read(tmp_path, (tmp_path / "a").unlink, put(tmp_path, a="2\n")) == ["1", "2"]


def test_files_are_read_once_even_if_the_folder_is_away_for_a_while(tmp_path):
    folder, away = tmp_path / "folder", tmp_path / "away"
    folder.mkdir()
    put(folder, a="1\n")()
    steps = [lambda: folder.rename(away), lambda: away.rename(folder), put(folder, b="2\n")]
    assert read(folder, *steps) == ["1", "2"]


def test_a_file_that_is_gone_before_its_turn_is_passed_over(tmp_path):
    put(tmp_path, a="1\n", b="2\n", c="3\n")()
    samples = iter(Directory(tmp_path, format="lines", wait=False))
    assert next(samples) == "1"
    (tmp_path / "b").unlink()
    assert list(samples) == ["3"]


def test_a_folder_that_does_not_exist_yet_is_waited_for(tmp_path):
    folder = tmp_path / "folder"
    assert read(folder, folder.mkdir, put(folder, a="1\n")) == ["1"]


def test_without_waiting_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(BadInput, match="must be a folder that exists; with wait=True it is waited for"):
        list(Directory(tmp_path / "folder", wait=False))


def test_a_file_is_refused(tmp_path):
    put(tmp_path, a="1\n")()
    with pytest.raises(BadInput, match="must be a folder; for a single file, use Follow"):
        list(Directory(tmp_path / "a"))


def test_a_folder_that_cannot_be_read_is_an_error_of_one_line(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(directory.os, "scandir", refuse)
    with pytest.raises(BadFile, match=rf"^{tmp_path}: .*permission denied$"):
        list(Directory(tmp_path))


def test_every_file_has_its_header_and_its_line_numbers(tmp_path):
    put(tmp_path, a="x,y\n1,2\n", b="x,y\n3,4\n5,x\n")()
    samples = iter(Directory(tmp_path, header=True, wait=False))
    assert [next(samples).tolist() for _ in range(2)] == [[1, 2], [3, 4]]
    with pytest.raises(BadFile) as caught:
        next(samples)
    assert str(caught.value).startswith(f"{tmp_path / 'b'}, line 3: 'x' is not a finite number")


def test_bad_lines_are_counted_over_all_files(tmp_path):
    put(tmp_path, a="1\nx\n", b="y\n2")()
    stream = Directory(tmp_path, wait=False, bad="skip")
    assert [float(sample[0]) for sample in stream] == [1, 2]
    assert stream.skipped == 2


def test_a_stream_can_be_pickled_and_read_elsewhere(tmp_path):
    put(tmp_path, a="1,2\n", b="3,4\n")()
    stream = pickle.loads(pickle.dumps(Directory(tmp_path, "*", parse=np.sum, wait=False)))
    assert list(stream) == [3, 7]


@pytest.mark.parametrize("pattern", ["", "data/*.csv", None])
def test_a_pattern_is_one_of_names(pattern):
    with pytest.raises(BadInput, match=r"^pattern = .*: must be a pattern of names like '.*.csv', without a folder$"):
        Directory("data", pattern)


def test_the_other_arguments_are_checked_as_for_follow():
    with pytest.raises(BadInput, match=r"^format = 'xml': must be one of"):
        Directory("data", format="xml")


def test_after_so_many_samples_come_those_of_the_other_files(tmp_path):
    put(tmp_path, a="h\n1\n2\n", b="h\n3", c="h\n4\n5\n")()
    stream = Directory(tmp_path, format="lines", wait=False, header=True)
    whole = list(stream)
    for count in range(6):
        assert list(stream.after(count)) == whole[count:]
    assert list(stream.after(6)) == whole  # files were taken away


def test_a_folder_that_comes_later_may_have_what_was_reported(tmp_path):
    folder = tmp_path / "later"

    def come():
        folder.mkdir()
        put(folder, a="1\n2\n")()

    script = Script(come, put(folder, b="3\n"))
    assert list(Directory(folder, format="lines").after(1).samples(script)) == ["2", "3"]


def test_files_that_arrive_after_those_passed_over_are_read_whole(tmp_path):
    put(tmp_path, a="1\n2\n")()
    script = Script(put(tmp_path, b="3\n"))
    assert list(Directory(tmp_path, format="lines").after(2).samples(script)) == ["3"]
