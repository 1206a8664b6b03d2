"""What is skipped or dropped is told: the first, then seldom, and in all at the end; nowhere is it silent."""

import sys
import threading

import pytest

from siag.streams import Buffered, Directory, Follow, Paced, remarks
from siag.streams.remarks import PAUSE, Tally, heard_by, say


class Clock:
    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(remarks, "time", clock)
    return clock


@pytest.fixture
def said():
    said = []
    with heard_by(said.append):
        yield said


def test_the_first_is_told_then_when_there_are_twice_as_many(clock):
    told = []
    tally = Tally("{}")
    for _ in range(100):
        clock.now += PAUSE
        if tally.add():
            told.append(tally.count)
    assert told == [1, 2, 4, 8, 16, 32, 64]


def test_however_many_there_are_no_more_than_a_line_comes_every_few_seconds(clock):
    tally = Tally("{}")
    told = sum(tally.add() for _ in range(10_000))
    clock.now += 0.99 * PAUSE
    told += sum(tally.add() for _ in range(10_000))
    assert told == 1
    clock.now += 0.02 * PAUSE
    assert tally.add()
    assert not tally.add()


@pytest.mark.parametrize(("count", "last"), [(0, []), (1, []), (2, ["2 in all"]), (1234, ["1,234 in all"])])
def test_the_total_is_told_at_the_end(said, count, last):
    with Tally("{} in all") as tally:
        for _ in range(count):
            tally.add()
    assert said == last


def test_a_bad_line_that_is_skipped_is_told_with_its_place(tmp_path, said, clock):
    path = tmp_path / "data.csv"
    path.write_text("1\nx\n2\ny\n\nz\n")

    def slowly(sample):
        clock.now += PAUSE
        return sample

    assert len(list(Follow(path, wait=False, bad="skip", parse=slowly))) == 2
    assert said == [
        f"{path}, line 2: 'x' is not a finite number; it is left out",
        f"{path}, line 4: 'y' is not a finite number; it is left out, as 1 before it",
        f"{path}: 3 bad lines were left out in all",
    ]


def test_one_that_was_passed_over_by_a_worker_that_is_started_again_is_not_told_again(tmp_path, said):
    path = tmp_path / "data.csv"
    path.write_text("x\n1\ny\n2\nz\n3\n")
    assert len(list(Follow(path, wait=False, bad="skip").after(2))) == 1
    assert said[1:] == [f"{path}, line 5: 'z' is not a finite number; it is left out"]


def test_the_bad_lines_of_all_files_of_a_folder_are_counted_together(tmp_path, said):
    for name in "ab":
        (tmp_path / name).write_text("1\nx\n")
    assert len(list(Directory(tmp_path, wait=False, bad="skip"))) == 2
    assert said == [
        f"{tmp_path / 'a'}, line 2: 'x' is not a finite number; it is left out",
        f"{tmp_path}: 2 bad lines were left out in all",
    ]


def test_a_folder_that_is_read_anew_says_so(tmp_path, said):
    (tmp_path / "a").write_text("1\n")
    assert list(Directory(tmp_path, format="lines", wait=False).after(3)) == ["1"]
    assert said == [f"{tmp_path}: has fewer samples than the 3 reported before, so all of it is read anew"]


def drained():
    """A source, and an event that is set when all of it was read."""
    read = threading.Event()

    def source():
        yield from range(50)
        read.set()

    return source(), read


def test_samples_that_are_dropped_are_told_by_their_number(said):
    source, read = drained()
    stream = Buffered(source, capacity=10)
    samples = iter(stream)
    first = next(samples)
    assert read.wait(30)
    assert len([first, *samples]) + stream.dropped == 50
    assert said == [
        "a sample was dropped: they come faster than the worker takes them, and 10 are kept",
        f"{stream.dropped} samples were dropped in all",
    ]


def test_a_source_that_is_blocked_has_nothing_to_tell(said):
    assert len(list(Buffered(range(50), capacity=1, full="block"))) == 50
    assert said == []


def test_what_a_stream_inside_others_says_is_heard_from_the_thread_that_reads_it(tmp_path, said):
    path = tmp_path / "data.csv"
    path.write_text("x\n1\n")
    assert len(list(Paced(Buffered(Follow(path, wait=False, bad="skip")), 1e-6))) == 1
    assert len(said) == 1


def test_a_loop_that_is_left_says_what_it_has_left_out(tmp_path, said):
    path = tmp_path / "data.csv"
    path.write_text("x\ny\n1\n2\n")
    samples = iter(Follow(path, bad="skip"))
    next(samples)
    samples.close()
    assert said[1:] == [f"{path}: 2 bad lines were left out in all"]


def test_if_nobody_listens_it_is_told_on_standard_error_in_one_line(capsys):
    say("a name\x1b[2J\nof two lines")
    assert capsys.readouterr().err == "siag: a name·[2J·of two lines\n"


@pytest.mark.parametrize("stream", [None, "closed"])
def test_without_a_standard_error_nothing_is_raised(monkeypatch, tmp_path, stream):
    with open(tmp_path / "err", "w") as file:
        pass
    monkeypatch.setattr(sys, "stderr", None if stream is None else file)
    say("nobody reads this")
