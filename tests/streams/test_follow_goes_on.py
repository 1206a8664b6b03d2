"""After a restart a file is followed from where it was."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Script, append

import siag
from siag.foundations.errors import BadFile, BadInput
from siag.streams import Follow, lines


@given(st.integers(0, 12), st.integers(1, 40), st.booleans(), st.sampled_from(["csv", "lines", "json"]))
def test_after_so_many_samples_come_the_others(tmp_path_factory, count, size, header, format):
    path = tmp_path_factory.mktemp("follow") / "data"
    path.write_bytes(b"\xef\xbb\xbf7\n\n" + b"".join(b"%d\r\n" % k for k in range(9)) + b"1")
    stream = Follow(path, format, wait=False, header=header)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", size)
        whole, rest = list(stream), list(stream.after(count))
    assert len(whole) == 9 + (not header) + (format == "lines")
    assert rest == (whole[count:] if count <= len(whole) else whole)


def test_what_was_reported_is_passed_over_without_being_parsed_and_lines_keep_their_numbers(path):
    path.write_text("1\n2\nx\n")
    parsed = []
    stream = Follow(path, wait=False, parse=parsed.append).after(1)
    with pytest.raises(BadFile, match="data, line 3"):
        list(stream)
    assert [each.tolist() for each in parsed] == [[2.0]]


def test_bad_lines_that_are_left_out_are_no_samples_to_pass_over(path):
    path.write_text("x\n1\ny\n2\n3\n")
    stream = Follow(path, wait=False, bad="skip").after(2)
    assert [sample.tolist() for sample in stream] == [[3.0]]
    assert stream.skipped == 2


def test_a_file_with_fewer_samples_is_another_and_is_read_from_its_beginning(path):
    path.write_text("one\ntwo\n")
    script = Script(append(path, "three\n"))
    assert list(Follow(path, "lines").after(3).samples(script)) == ["one", "two", "three"]


def test_lines_that_come_later_follow_those_passed_over_and_a_rotated_file_is_read_whole(path):
    path.write_text("one\ntwo\n")

    def rotate():
        path.rename(path.with_suffix(".old"))
        path.write_text("new\nnewer\n")

    script = Script(append(path, "three\n"), rotate)
    assert list(Follow(path, "lines").after(2).samples(script)) == ["three", "new", "newer"]


def test_a_file_that_does_not_exist_yet_may_come_with_what_was_reported(tmp_path):
    script = Script(append(tmp_path / "later", "one\ntwo\n"))
    assert list(Follow(tmp_path / "later", "lines").after(1).samples(script)) == ["two"]


def test_going_on_twice_adds_up_and_leaves_the_stream_as_it_was(path):
    path.write_text("1\n2\n3\n4\n")
    stream = Follow(path, "lines", wait=False)
    later = pickle.loads(pickle.dumps(stream.after(1))).after(2)
    assert (list(later), list(stream)) == (["4"], ["1", "2", "3", "4"])
    with pytest.raises(BadInput, match="samples = -1"):
        stream.after(-1)


def one_hot(w, sample):
    return -np.eye(w.size)[int(sample)]


@pytest.mark.thorough
def test_a_run_on_this_machine_that_is_gone_on_with_uses_no_line_twice(path, tmp_path):
    path.write_text("".join(f"{k}\n" for k in range(10)))
    given = {"method": siag.methods.SGD(), "step": siag.steps.Constant(1.0), "folder": tmp_path / "state"}
    first = siag.train(one_hot, [Follow(path, "lines", wait=False)], np.zeros(10), until=4, **given)
    assert np.array_equal(first.w[0], [1] * 4 + [0] * 6)
    second = siag.train(one_hot, [Follow(path, "lines", wait=False)], np.zeros(10), **given)
    assert np.array_equal(second.w[0], np.ones(10))
