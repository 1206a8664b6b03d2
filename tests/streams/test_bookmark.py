"""A followed file that is rotated: with a bookmark no line is lost or used twice, without one what may be is told."""

import json
import os

import pytest
from scripted import Script, append

from siag.foundations.errors import BadFile, BadInput
from siag.streams import Buffered, Follow
from siag.streams.remarks import heard_by


@pytest.fixture
def path(tmp_path):
    return tmp_path / "app.log"


@pytest.fixture
def said():
    """What streams say."""
    said = []
    with heard_by(said.append):
        yield said


def numbers(first, end):
    return [str(k) for k in range(first, end)]


def write(path, first, end):
    append(path, "".join(f"{k}\n" for k in range(first, end)))()


def rotate(path, k=1):
    """As logrotate does: the oldest names move first."""
    while path.with_name(f"app.log.{k}").exists():
        k += 1
    for j in range(k, 1, -1):
        path.with_name(f"app.log.{j - 1}").rename(path.with_name(f"app.log.{j}"))
    path.rename(path.with_name("app.log.1"))


def stream(path, marked=True):
    return Follow(path, "lines", bookmark=path.with_name("place") if marked else None)


def read_across(path, marked=True):
    """600 lines of one file, and 400 of the next."""
    write(path, 0, 600)

    def step():
        rotate(path)
        write(path, 600, 1000)

    assert list(stream(path, marked).samples(Script(step))) == numbers(0, 1000)


def test_after_a_rotation_a_worker_goes_on_where_it_was(path, said):
    read_across(path)
    write(path, 1000, 1800)  # 1200 lines by now, more than were reported of both
    assert list(stream(path).after(1000).samples(Script())) == numbers(1000, 1800)
    assert said == []


def test_without_a_bookmark_what_may_be_lost_is_told(path, said):
    read_across(path, marked=False)
    write(path, 1000, 1800)
    list(stream(path, marked=False).after(1000).samples(Script()))
    (line,) = said
    assert line.startswith(f"{path}: goes on after the 1,000 samples reported before, counted from its beginning; if")
    assert line.endswith("lines were lost (a bookmark prevents that)")


def test_without_a_bookmark_what_may_be_used_twice_is_told(path, said):
    read_across(path, marked=False)
    assert list(stream(path, marked=False).after(1000).samples(Script())) == numbers(600, 1000)
    (line,) = said
    assert "has fewer samples than the 1,000 reported before, so it is read from its beginning" in line


@pytest.mark.parametrize("reported", [1, 599, 600, 601, 999, 1000])
def test_it_goes_on_after_what_was_reported_in_whichever_file_that_is(path, said, reported):
    """A queue reads ahead, so the files may be further than the reports."""
    read_across(path)
    write(path, 1000, 1100)
    again = stream(path).after(reported)
    assert list(again.samples(Script())) == numbers(reported, 1100)
    assert list(stream(path).after(1050).samples(Script())) == numbers(1050, 1100)  # and once more
    assert said == []


def test_a_file_that_was_rotated_while_nobody_read_is_read_to_its_end_first(path, said):
    write(path, 0, 50)
    list(stream(path).samples(Script()))
    write(path, 50, 60)
    rotate(path)
    write(path, 60, 160)
    assert list(stream(path).after(40).samples(Script())) == numbers(40, 160)
    (line,) = said
    assert f"{path}: was rotated since it was read; {path}.1 is read to its end first" in line
    assert list(stream(path).after(70).samples(Script())) == numbers(70, 160)


def test_without_waiting_the_old_and_the_new_file_are_read(path, said):
    write(path, 0, 5)
    place = path.with_name("place")
    assert list(Follow(path, "lines", bookmark=place, wait=False)) == numbers(0, 5)
    rotate(path)
    write(path, 5, 9)
    assert list(Follow(path, "lines", bookmark=place, wait=False).after(3)) == numbers(3, 9)


def test_lines_that_an_old_file_gets_late_shift_those_after_it(path, said):
    read_across(path)
    append(path.with_name("app.log.1"), "late\n")()
    assert list(stream(path).after(590).samples(Script())) == [*numbers(590, 600), "late", *numbers(600, 1000)]
    assert list(stream(path).after(1000).samples(Script())) == ["999"]


def test_several_rotations_are_gone_through_in_their_order(path, said):
    def step(first):
        def later():
            rotate(path)
            write(path, first, first + 10)

        return later

    write(path, 0, 10)
    assert list(stream(path).samples(Script(*map(step, (10, 20, 30))))) == numbers(0, 40)
    assert list(stream(path).after(5).samples(Script(step(40)))) == numbers(5, 50)
    assert said == []


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda path: append(path.with_name("app.log.3"), "late\n")(), [*numbers(5, 10), "late", *numbers(10, 40)]),
        (lambda path: path.with_name("app.log.3").unlink(), numbers(10, 40)),
        (lambda path: path.with_name("app.log.2").unlink(), [*numbers(5, 10), *numbers(20, 40)]),
    ],
    ids=["the oldest got a line", "the oldest is gone", "the one after it is gone"],
)
def test_what_becomes_of_one_file_leaves_the_others_in_their_places(path, spoil, found):
    steps = [lambda first=first: (rotate(path), write(path, first, first + 10)) for first in (10, 20, 30)]
    write(path, 0, 10)
    assert list(stream(path).samples(Script(*steps))) == numbers(0, 40)
    spoil(path)
    assert list(stream(path).after(5).samples(Script())) == found
    assert list(stream(path).after(5 + len(found)).samples(Script())) == []


def test_a_link_is_followed_to_where_the_file_and_its_rotated_ones_are(tmp_path, path, said):
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "app.log"
    link.symlink_to(path)
    write(path, 0, 10)
    assert list(stream(link).samples(Script())) == numbers(0, 10)
    write(path, 10, 12)
    assert list(stream(link).after(10).samples(Script())) == numbers(10, 12)
    assert said == []
    rotate(path)
    write(path, 12, 15)
    assert list(stream(link).after(11).samples(Script())) == numbers(11, 15)


def test_a_path_may_be_written_in_any_way(tmp_path, path, said):
    write(path, 0, 10)
    other, place = f"{tmp_path}//app.log", tmp_path / "place"
    assert list(Follow(other, "lines", bookmark=place, wait=False)) == numbers(0, 10)
    write(path, 10, 12)
    assert list(Follow(other, "lines", bookmark=place, wait=False).after(10)) == numbers(10, 12)
    assert said == []


def test_a_file_that_is_gone_is_told_with_what_was_not_reported_of_it(path, said):
    read_across(path)
    path.with_name("app.log.1").unlink()
    assert list(stream(path).after(597).samples(Script())) == numbers(600, 1000)
    assert said == [f"{path}: a file that was here before is not found any more in its folder; samples lost: 3"]
    said.clear()
    assert list(stream(path).after(607).samples(Script())) == numbers(610, 1000)  # the worker counts on from 597


def test_if_the_present_file_is_another_and_the_old_one_gone_it_is_told_and_read_whole(path, said):
    write(path, 0, 10)
    list(stream(path).samples(Script()))
    rotate(path)
    path.with_name("app.log.1").rename(path.parent.parent / "elsewhere")
    write(path, 10, 40)
    assert list(stream(path).after(10).samples(Script())) == numbers(10, 40)
    (line,) = said
    assert line.endswith("not been read of it is lost, and the present one is read from its beginning")
    (path.parent.parent / "elsewhere").unlink()


def test_a_truncated_file_is_another(path, said):
    append(path, "header\n")()
    again = Follow(path, "lines", bookmark=path.with_name("place"), header=True)
    steps = [append(path, "1\n2\n3\n"), lambda: path.write_text("header\n4\n"), append(path, "5\n6\n7\n8\n")]
    assert list(again.samples(Script(*steps))) == numbers(1, 9)
    assert list(again.after(5).samples(Script())) == numbers(6, 9)
    assert said == []
    assert list(again.after(2).samples(Script())) == numbers(4, 9)
    (line,) = said
    assert line.endswith("samples lost: 1")


def test_a_file_with_another_beginning_is_another_though_its_inode_be_the_same(path, said):
    write(path, 0, 10)
    list(stream(path).samples(Script()))
    with open(path, "r+") as file:
        file.truncate()
        file.writelines(f"{k}\n" for k in range(10, 100))
    assert list(stream(path).after(10).samples(Script())) == numbers(10, 100)
    assert len(said) == 1


def test_a_bookmark_that_comes_later_begins_with_what_is_counted(path, said):
    write(path, 0, 10)
    assert list(stream(path).after(4).samples(Script())) == numbers(4, 10)
    assert said.pop().endswith("(from now on its bookmark knows)")
    rotate(path)
    write(path, 10, 30)
    assert list(stream(path).after(8).samples(Script())) == numbers(8, 30)


def test_a_run_that_begins_anew_begins_its_bookmark_anew(path, said):
    read_across(path)
    assert list(stream(path).samples(Script())) == numbers(600, 1000)
    assert len(said) == 1
    assert list(stream(path).after(100).samples(Script())) == numbers(700, 1000)


def test_the_place_is_noted_before_the_first_sample_of_a_file_is_given(path):
    write(path, 0, 3)
    samples = stream(path).samples(Script())
    assert next(samples) == "0"
    (mark,) = json.loads(path.with_name("place").read_text())
    assert (mark["inode"], mark["before"]) == (os.stat(path).st_ino, 0)
    samples.close()


def test_all_files_are_closed_if_the_loop_is_left_in_the_first(path):
    read_across(path)
    samples = stream(path).after(3).samples(Script())
    assert next(samples) == "3"
    samples.close()  # a file left open would be a warning, and an error


@pytest.mark.parametrize("content", ["", "no", "3", '[{"inode": 1}]', "\xff"])
def test_what_is_no_bookmark_is_refused_and_left_as_it_is(path, content):
    write(path, 0, 3)
    place = path.with_name("place")
    place.write_text(content, encoding="latin-1")
    with pytest.raises(BadFile, match="place: not a bookmark of a stream; if it is of no use, delete it"):
        list(stream(path).samples(Script()))
    assert place.read_text(encoding="latin-1") == content


def test_a_bookmark_that_cannot_be_written_is_an_error_before_any_sample(path):
    write(path, 0, 3)
    with pytest.raises(BadFile, match=r"nowhere/place: cannot be written"):
        next(Follow(path, "lines", bookmark=path.with_name("nowhere") / "place").samples(Script()))


def test_a_bookmark_is_a_path():
    with pytest.raises(BadInput, match="bookmark = 3: must be the path of a file"):
        Follow("data", bookmark=3)


def test_a_queue_around_it_loses_nothing_that_was_read_ahead(path, said):
    read_across(path)
    again = Buffered(Follow(path, "lines", bookmark=path.with_name("place"), wait=False), full="block").after(10)
    assert list(again) == numbers(10, 1000)
