"""Every line that was completed comes once and in order, whatever happens to the file in the meantime.

Nothing sleeps here: the stream's waits run the steps of a script, and its end is the end of the script.
"""

import json
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import siag
from siag.foundations.errors import BadFile, BadInput
from siag.streams import Follow, Stop, lines
from siag.streams.lines import split


class Script(Stop):
    """Whenever the stream waits, the next step happens; after the last one the stream is to end."""

    def __init__(self, *steps):
        super().__init__()
        self.steps, self.waits = list(steps), []

    def wait(self, seconds):
        self.waits.append(seconds)
        if self.steps:
            self.steps.pop(0)()
        else:
            self.set()
        return self.is_set()


def append(path, text):
    def step():
        with open(path, "ab") as file:
            file.write(text if isinstance(text, bytes) else text.encode())

    return step


def nothing():
    pass


def follow(path, *steps, **options):
    return list(Follow(path, "lines", **options).samples(Script(*steps)))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "data"
    path.write_text("")
    return path


# ------------------------------------------------------------------------------------------------ lines


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


# -------------------------------------------------------------------------------------------- following


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


# -------------------------------------------------------------------------------------------- formats


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


# ------------------------------------------------------------------------------------------ bad lines


BAD = [
    ("csv", b"1,two,3", "'two' is not a finite number"),
    ("csv", b"1,,3", "'' is not a finite number"),
    ("csv", b"1,nan", "'nan' is not a finite number"),
    ("csv", b"-inf", "'-inf' is not a finite number"),
    ("csv", b"1_000", "'1_000' is not a finite number"),
    ("csv", b"1;2", "'1;2' is not a finite number"),
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


@pytest.mark.parametrize("first", ["price,area", "price", '"price",area', "\ufeffprice,area"])
def test_a_header_is_met_with_the_advice_to_say_so(path, first):
    path.write_text(f"{first}\n1,2\n")
    with pytest.raises(
        BadFile, match=r"line 1: .* not a finite number; if this line names the columns, give header=True$"
    ):
        list(Follow(path, wait=False))
    assert [sample.tolist() for sample in Follow(path, wait=False, header=True)] == [[1.0, 2.0]]


def test_a_first_line_with_a_number_is_no_header(path):
    path.write_text("1,price\n1,2\n")
    with pytest.raises(BadFile, match="line 1: 'price' is not a finite number; mend it, or leave such lines out"):
        list(Follow(path, wait=False))


def test_fields_are_the_texts_between_the_commas(path):
    path.write_text('a,"b, c",1\n\n"half\n')
    samples = iter(Follow(path, "fields", wait=False))
    assert next(samples) == ["a", "b, c", "1"]
    with pytest.raises(BadFile, match="line 3: not CSV, unexpected end of data: "):
        next(samples)


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


# ------------------------------------------------------------------------------------------ arguments


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


# -------------------------------------------------------------------------------------------- going on


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


def test_a_run_on_this_machine_that_is_gone_on_with_uses_no_line_twice(path, tmp_path):
    path.write_text("".join(f"{k}\n" for k in range(10)))
    given = {"method": siag.methods.SGD(), "step": siag.steps.Constant(1.0), "folder": tmp_path / "state"}
    first = siag.train(one_hot, [Follow(path, "lines", wait=False)], np.zeros(10), until=4, **given)
    assert np.array_equal(first.w[0], [1] * 4 + [0] * 6)
    second = siag.train(one_hot, [Follow(path, "lines", wait=False)], np.zeros(10), **given)
    assert np.array_equal(second.w[0], np.ones(10))
