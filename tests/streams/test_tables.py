"""Lines of numbers that are no table: told with the line, and what to do."""

import pytest

from siag.foundations.errors import BadFile
from siag.streams import Follow


def read(tmp_path, text, **options):
    path = tmp_path / "data.csv"
    path.write_text(text)
    return [row.tolist() for row in Follow(path, wait=False, **options)]


@pytest.mark.parametrize("first", ["price,area", "price", '"price",area', "\ufeffprice,area"])
def test_a_header_is_met_with_the_advice_to_say_so(tmp_path, first):
    text = f"{first}\n1,2\n"
    with pytest.raises(BadFile, match=r"line 1: .* not a finite number; .* names the columns, give header=True$"):
        read(tmp_path, text)
    assert read(tmp_path, text, header=True) == [[1, 2]]


def test_a_first_line_with_a_number_is_no_header(tmp_path):
    with pytest.raises(BadFile, match="line 1: 'price' is not a finite number; mend it, or leave such lines out"):
        read(tmp_path, "1,price\n1,2\n")


def test_fields_are_the_texts_between_the_commas(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text('a,"b, c",1\n\n"half\n')
    samples = iter(Follow(path, "fields", wait=False))
    assert next(samples) == ["a", "b, c", "1"]
    with pytest.raises(BadFile, match="line 3: not CSV, unexpected end of data: "):
        next(samples)


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
