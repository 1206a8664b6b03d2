"""Lines of numbers that are no table: told with the line, and what to do."""

import pytest

from siag.foundations.errors import BadFile
from siag.streams import Follow


def read(tmp_path, text, **options):
    path = tmp_path / "data.csv"
    path.write_text(text)
    return [row.tolist() for row in Follow(path, wait=False, **options)]


def test_a_line_of_names_is_skipped_on_request_and_its_error_says_how(tmp_path):
    text = "x,y\n1,2\n3,4\n"
    with pytest.raises(BadFile, match=r"data\.csv, line 1: 'x' is not a finite number; .*header=True"):
        read(tmp_path, text)
    assert read(tmp_path, text, header=True) == [[1, 2], [3, 4]]


@pytest.mark.parametrize(("line", "columns"), [("3", 1), ("3,4,5", 3)])
def test_a_line_of_another_width_is_bad(tmp_path, line, columns):
    text = f"1,2\n{line}\n5,6\n"
    with pytest.raises(BadFile, match=rf"line 2: {columns} columns where the lines before have 2; .*bad='skip'"):
        read(tmp_path, text)
    assert read(tmp_path, text, bad="skip") == [[1, 2], [5, 6]]


def test_a_bad_first_line_does_not_say_how_wide_the_others_are(tmp_path):
    assert read(tmp_path, "# a remark\n1,2\n3,4\n", bad="skip") == [[1, 2], [3, 4]]


def test_a_stream_that_goes_on_counts_lines_of_another_width_as_bad(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("1,2\n3\n5,6\n7,8\n")
    assert [row.tolist() for row in Follow(path, wait=False, bad="skip").after(2)] == [[7, 8]]
