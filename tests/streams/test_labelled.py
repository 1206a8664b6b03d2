"""Files of rows become pairs of features and label, whatever the order of their columns; mistakes are named."""

import json
import pickle

import numpy as np
import pytest

import siag
from siag.foundations.errors import BadFile, BadInput
from siag.streams import Batched, Follow, labelled


def pairs(stream):
    return [(x.tolist(), y) for x, y in stream]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(here, **files):
    for name, text in files.items():
        (here / name.replace("_", ".")).write_text(text)


ROWS = [([1.0, 2.0], 0.0), ([3.0, 4.5], 1.0)]


@pytest.mark.parametrize(
    ("name", "text", "label"),
    [
        ("a.csv", "1,2,0\n3,4.5,1\n", None),
        ("a.csv", "1,2,0\n\n3,4.5,1", None),  # the last line needs no line break
        ("a.csv", "x,z,y\n1,2,0\n3,4.5,1\n", None),
        ("a.csv", "\ufeffx , z,y\r\n1,2,0\r\n3,4.5,1\r\n", "y"),
        ("a.csv", "y,x,z\n0,1,2\n1,3,4.5\n", "y"),
        ("a.csv", "1,0,2\n3,1,4.5\n", 2),
        ("a.csv", "x,y,z\n1,0,2\n3,1,4.5\n", "2"),
        ("a.jsonl", '{"x": 1, "z": 2, "y": 0}\n{"y": true, "z": 4.5, "x": 3, "other": null}\n', None),
        ("a.json", "[1, 0, 2]\n[3, 1, 4.5]\n", "2"),
    ],
)
def test_one_column_is_the_label_and_the_others_are_the_features(here, name, text, label):
    (here / name).write_text(text, encoding="utf-8")
    (stream,) = labelled([name], label)
    assert pairs(stream) == ROWS
    assert pairs(stream.after(1)) == ROWS[1:]
    assert pairs(pickle.loads(pickle.dumps(stream))) == ROWS
    ((X, y),) = Batched(stream, 5)
    assert (X.shape, y.tolist()) == ((2, 2), [0.0, 1.0])


def test_columns_may_be_in_another_order_in_another_file(here):
    write(here, a_csv="x,z,y\n1,2,0\n", b_csv="y,z,x\n1,4.5,3\n", c_json='{"z": 4.5, "y": 1, "x": 3}\n')
    one, two, three = labelled(["a.csv", "b.csv", "c.json"])
    assert [pairs(one), pairs(two), pairs(three)] == [ROWS[:1], ROWS[1:], ROWS[1:]]


def test_labels_may_be_texts(here):
    write(here, a_csv='x,kind\n1,"a, b"\n2, c\n')
    assert pairs(labelled(["a.csv"])[0]) == [([1.0], "a, b"), ([2.0], "c")]


def test_a_file_that_grows_is_followed(here):
    write(here, a_csv="x,y\n1,0\n")
    (stream,) = labelled(["a.csv"], wait=True)
    assert isinstance(stream, Follow)
    samples = iter(stream)
    next(samples)
    with open("a.csv", "a") as file:
        file.write("2,1\n")
    assert next(samples)[1] == 1.0
    samples.close()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x,z,y\n1,2,0\n1,two,0\n", "line 3: 'two' in column z is not a finite number; mend it, or"),
        ("x,z,y\n1,,0\n", "line 2: '' in column z is not a finite number"),
        ('x,z,y\n1,"2,5",0\n', "line 2: '2,5' in column z is not a finite number; give numbers with points"),
        ("x,z,y\n1,nan,0\n", "line 2: 'nan' in column z is not a finite number"),
        ("x,z,y\n1,1_000,0\n", "line 2: '1_000' in column z is not a finite number"),
        ("x,z,y\n1,2,\n", "line 2: '' in column y is no label"),
        ("x,z,y\n1,2,nan\n", "line 2: 'nan' in column y is no label"),
        ("x,z,y\n1,2,-Inf\n", "line 2: '-Inf' in column y is no label"),
        ("x,z,y\n1,2\n", "line 2: 2 fields, where the first line has 3"),
        ("1,2,3\n1,x,0\n", "line 2: 'x' in column 2 is not a finite number"),
    ],
)
def test_a_bad_row_is_named(here, text, reason):
    write(here, a_csv=text)
    with pytest.raises(BadFile) as caught:
        list(labelled(["a.csv"])[0])
    assert str(caught.value).removeprefix("./").startswith(f"a.csv, {reason}")


MEND = "mend it, or take the line out"
COLUMN = f"{MEND}; if the column is not numbers, write numbers for its texts, or take it out"


@pytest.mark.parametrize(
    ("text", "label", "words"),
    [
        ("x,z,y\n1,,0\n", None, f"line 2: '' in column z is not a finite number; {MEND}"),
        ("x,z,y\n1,nan,0\n", None, f"line 2: 'nan' in column z is not a finite number; {MEND}"),
        ("x,z,y\n1,2\n", None, f"line 2: 2 fields, where the first line has 3; {MEND}"),
        ('x,y\n"1,2\n', None, f"""line 2: not CSV, unexpected end of data: '"1,2'; {MEND}"""),
        ("x,city,y\n1,paris,0\n", "y", f"line 2: 'paris' in column city is not a finite number; {COLUMN}"),
        (
            "late,x,z\nno,1,2\n",
            None,
            "line 2: 'no' in column late is not a finite number; "
            f'{COLUMN}; if it is the label, give label="late" (--label late)',
        ),
        (
            "is late,x\nno,1\n",
            None,
            "line 2: 'no' in column is late is not a finite number; "
            f"{COLUMN}; if it is the label, give label=\"is late\" (--label 'is late')",
        ),
    ],
)
def test_a_bad_row_is_met_with_what_can_be_done_about_it(here, text, label, words):
    write(here, a_csv=text)
    with pytest.raises(BadFile) as caught:
        list(labelled(["a.csv"], label)[0])
    assert str(caught.value).removeprefix("./") == f"a.csv, {words}"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"x": 1, "y": 0}, "there is no 'z'"),
        ({"x": 1, "z": None, "y": 0}, "None in column z is not a finite number"),
        ({"x": 1, "z": [2], "y": 0}, "[2] in column z is not a finite number"),
        ({"x": 1, "z": 2, "y": None}, "None in column y is no label"),
        (5, "5 is neither an object nor a list"),
    ],
)
def test_a_bad_object_is_named(here, row, reason):
    write(here, a_json=f'{{"x": 1, "z": 2, "y": 0}}\n{json.dumps(row)}\n')
    with pytest.raises(BadFile) as caught:
        list(labelled(["a.json"])[0])
    assert f"a.json, line 2: {reason}; mend it" in str(caught.value)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "a.csv: there is no such file"),
        ({"a_csv": ""}, "a.csv: has no rows; a run needs one to begin with"),
        ({"a_csv": "x,y\n"}, "a.csv: has no rows below its header; a run needs one to begin with"),
        ({"a_csv": "5\n"}, "a.csv: has no column but the label; give files with features, separated by commas"),
        ({"a_csv": ",x,y\n0,1,2\n"}, "a.csv: column 1 has no name; if it counts the rows, write the file without it"),
        ({"a_csv": "x,x,y\n0,1,2\n"}, "a.csv: two columns have the name x; rename one"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_at_once(here, files, reason):
    write(here, **files)
    with pytest.raises(BadFile) as caught:
        labelled(["a.csv"])
    assert str(caught.value) == reason


def test_files_must_have_the_same_columns(here):
    write(here, a_csv="x,y\n1,2\n", b_csv="x,z\n1,2\n")
    with pytest.raises(BadFile, match=r"^b.csv: its columns are x, z; those of a.csv are x, y; they must be the same$"):
        labelled(["a.csv", "b.csv"])


@pytest.mark.parametrize("label", ["z", "0", 4, -1, True, 1.5])
def test_a_label_that_is_no_column_is_refused(here, label):
    write(here, a_csv="x,w,y\n1,2,0\n")
    with pytest.raises(BadInput, match="must be one of the columns x, w, y, by name or as a number from 1 to 3"):
        labelled(["a.csv"], label)
    assert np.array(pairs(labelled(["a.csv"])[0])[0][0]).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "a;b;y\n1;2;0\n", "its columns are separated by semicolons; commas are expected"),
        ("a.csv", "1\t2\t0\n1\t2\t1\n", "its columns are separated by tabs; commas are expected"),
        ("a.csv", "a;b;y\n3,14;2,5;0\n", "separated by semicolons; commas are expected, and numbers with points"),
        ("a.csv", "3,14;2,5;0\n1,5;2;1\n", "separated by semicolons; commas are expected, and numbers with points"),
        ("a.csv", "3,14;yes\n2,5;no\n", "separated by semicolons; commas are expected, and numbers with points"),
        ("a.csv", "3,14\t2\n", "separated by tabs; commas are expected, and numbers with points"),
        ("a.csv.gz", "", "is compressed; unpack it first"),
        ("a.json", '[{"a": 1, "y": 2}]\n', "one object a line is expected"),
        ("a.json", '[\n{"a": 1, "y": 2}\n]\n', "one object a line is expected"),
    ],
)
def test_files_of_another_format_are_refused_in_words(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(siag.SiagError, match=said):
        siag.streams.labelled([tmp_path / name], "y")


def test_true_and_false_are_labels(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,True\n2,false\n")
    assert [y for _, y in siag.streams.labelled([tmp_path / "a.csv"])[0]] == [1.0, 0.0]
