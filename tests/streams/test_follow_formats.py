"""What is in the lines of a file that is followed; what is done with bad ones."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Script

from siag.foundations.errors import BadFile
from siag.streams import Follow


def test_csv_lines_are_arrays_of_their_numbers(path):
    path.write_text("x,y,z\n1, 2.5,-3e2\n\n  \r\n4,5,6\r\n")
    first, second = Follow(path, header=True, wait=False)
    assert first.dtype == second.dtype == np.float64
    assert first.tolist() == [1, 2.5, -300]
    assert second.tolist() == [4, 5, 6]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_csv_numbers_are_read_to_the_last_bit(numbers):
    line = ",".join(map(repr, numbers)).encode() + b"\n"
    (sample,) = Follow("unused").convert([line], "unused")
    assert sample.tobytes() == np.array(numbers).tobytes()


def test_json_lines_are_what_they_say(path):
    values = [{"x": [1, 2.5]}, [1], "é", None, 3]
    path.write_text("".join(json.dumps(value) + "\n\n" for value in values))
    assert list(Follow(path, "json", wait=False)) == values


def test_blank_lines_are_lines(path):
    path.write_text("a\n\n b \n")
    assert list(Follow(path, "lines", wait=False)) == ["a", "", " b "]


def test_a_byte_order_mark_is_not_part_of_the_first_number(path):
    path.write_bytes(b"\xef\xbb\xbf1,2\n")
    assert [sample.tolist() for sample in Follow(path, wait=False)] == [[1, 2]]


def test_parse_is_applied_to_what_the_format_gives(path):
    path.write_text("1,2\n3,4\n")
    assert list(Follow(path, parse=np.sum, wait=False)) == [3, 7]


BAD = [
    ("csv", b"1,two,3", "'two' is not a finite number"),
    ("csv", b"1,,3", "'' is not a finite number"),
    ("csv", b"1,nan", "'nan' is not a finite number"),
    ("csv", b"-inf", "'-inf' is not a finite number"),
    ("csv", b"1_000", "'1_000' is not a finite number"),
    ("csv", b"1;2", "'1;2' is not a finite number"),
    ("csv", b"1,5;2,5", "'5;2' is not a finite number, as columns are separated by commas and numbers have points"),
    ("csv", b"1,\xff", "not UTF-8: b'1,\\xff'"),
    ("json", b'{"x": 1', "not JSON, Expecting ',' delimiter at column 8: '{\"x\": 1'"),
    ("json", b"9" * 5000, "JSON that Python cannot read"),
    ("json", b"[" * 100_000, "JSON that Python cannot read"),
    ("lines", b"\xff", "not UTF-8: b'\\xff'"),
]


@pytest.mark.parametrize(("format", "line", "reason"), BAD)
def test_a_bad_line_is_an_error_of_one_line_that_names_it(path, format, line, reason):
    path.write_bytes(b"1\n\n" + line + b"\n3\n")
    samples = iter(Follow(path, format, wait=False))
    next(samples)
    if format == "lines":
        next(samples)
    with pytest.raises(BadFile) as caught:
        next(samples)
    message = str(caught.value)
    assert message.startswith(f"{path}, line 3: {reason}")
    assert message.endswith("; mend it, or leave such lines out with bad='skip'")
    assert "\n" not in message
    assert str(pickle.loads(pickle.dumps(caught.value))) == message


@pytest.mark.parametrize(("format", "line", "reason"), BAD)
def test_a_bad_line_can_be_skipped_and_is_counted(path, format, line, reason):
    path.write_bytes(b"1\n" + line + b"\n3\n" + line + b"\n")
    stream = Follow(path, format, wait=False, bad="skip")
    assert len(list(stream)) == 2
    assert stream.skipped == 2


def test_what_parse_raises_is_told_and_kept(path):
    path.write_text('{"x": 1}\n{"y": 2}\n')
    samples = iter(Follow(path, "json", parse=lambda sample: sample["x"], wait=False))
    assert next(samples) == 1
    with pytest.raises(BadFile, match=r"line 2: parse fails on '{\"y\": 2}' with KeyError: 'x'; mend it") as caught:
        next(samples)
    assert isinstance(caught.value.__cause__, KeyError)


def test_lines_that_parse_refuses_can_be_skipped(path):
    path.write_text("1\nx\n3\n")
    stream = Follow(path, "lines", parse=int, wait=False, bad="skip")
    assert list(stream) == [1, 3]
    assert stream.skipped == 1


def test_lines_are_counted_anew_in_a_new_file(path):
    path.write_text("1\n2\n3\n")
    samples = Follow(path).samples(Script(lambda: path.write_text("4\nx\n")))
    with pytest.raises(BadFile, match="line 2: 'x'"):
        list(samples)
