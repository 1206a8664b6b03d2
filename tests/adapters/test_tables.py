"""Tables of Arrow, Parquet files and folders, frames of Polars: as samples, by the real libraries."""

import pickle
import subprocess
import sys
from itertools import islice, pairwise

import numpy as np
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest

import siag
from siag.foundations.errors import BadFile, BadInput
from siag.streams import Arrow, Parquet, Repeated, labelled
from siag.streams.arrow import Block, blocks_of

ROWS = 100


def table(first=0, rows=ROWS):
    x = np.arange(first, first + rows, dtype=float)
    return pyarrow.table({"x": x, "z": -x, "y": ["ab"[k % 2] for k in range(rows)]})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data.parquet"
    pyarrow.parquet.write_table(table(), path, row_group_size=7)
    return path


@pytest.fixture
def folder(tmp_path):
    for k in range(3):
        place = tmp_path / "folder" / f"shop={'cab'[k]}"
        place.mkdir(parents=True)
        pyarrow.parquet.write_table(table(100 * k, 10), place / "part.parquet", row_group_size=4)
    return tmp_path / "folder"


def xs(samples):
    return [row.x for row in samples]


# Parquet


def test_rows_are_named_tuples_in_the_order_of_the_file(file):
    rows = list(Parquet(file))
    assert xs(rows) == list(range(ROWS))
    assert rows[3] == (3.0, -3.0, "b")
    assert rows[3]._fields == ("x", "z", "y")


def test_columns_are_read_in_the_order_asked_for(file):
    assert list(Parquet(file, columns=["y", "x"]))[1] == ("b", 1.0)


def test_a_column_may_be_the_label(file):
    x, y = list(Parquet(file, label="y"))[3]
    assert (x.tolist(), y) == ([3.0, -3.0], "b")


def test_parse_makes_a_sample_of_a_dict(file):
    assert list(Parquet(file, parse=lambda row: row["x"] + row["z"] + 1)) == [1.0] * ROWS


def test_passes_are_shuffled_by_row_group_and_within_and_are_the_same_each_time(file):
    stream = Repeated(Parquet(file), seed=3)
    two = xs(islice(stream, 2 * ROWS))
    first, second = two[:ROWS], two[ROWS:]
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert first != second
    assert xs(islice(Repeated(Parquet(file), seed=3), 2 * ROWS)) == two
    groups = [k // 7 for k in map(int, first)]
    assert sum(one != other for one, other in pairwise(groups)) == 14  # each is read once, whole
    assert first[:7] != sorted(first[:7])


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("after", [3, 50, 99, 100, 163])
def test_it_goes_on_anywhere_and_reads_only_the_row_groups_from_there(file, monkeypatch, shuffle, after):
    every = xs(islice(Repeated(Parquet(file), shuffle=shuffle), 300))
    read = []
    monkeypatch.setattr("siag.streams.arrow.blocks_of", lambda source: noted(blocks_of(source), read))
    later = Repeated(Parquet(file), shuffle=shuffle).after(after)
    assert xs(islice(later, 1)) == [every[after]]
    assert len(read) == 1
    assert xs(islice(later, 120)) == every[after : after + 120]


def noted(blocks, read):
    return [Block(size, lambda names, get=get: (read.append(1), get(names))[1]) for size, get in blocks]


def test_a_folder_is_read_in_order_of_names_and_its_folders_are_a_column(folder):
    rows = list(Parquet(folder))
    assert xs(rows) == [*range(100, 110), *range(200, 210), *range(10)]
    assert rows[0].shop == "a"
    assert len(Parquet(folder)) == 30


def test_it_can_be_sent_to_the_process_that_reads_it_also_after_it_was_read(file):
    stream = Parquet(file)
    assert len(stream) == ROWS
    assert len(list(pickle.loads(pickle.dumps(stream)))) == ROWS


def test_processes_train_on_it(tmp_path):
    rng = np.random.default_rng(0)
    streams = []
    for k in range(2):
        x = rng.normal(size=200)
        pyarrow.parquet.write_table(
            pyarrow.table({"x": x, "y": 2 * x + 1}), tmp_path / f"{k}.parquet", row_group_size=30
        )
        streams.append(Parquet(tmp_path / f"{k}.parquet", label="y"))
    run = siag.train(siag.losses.Squared(), streams, np.zeros(2), until=siag.Until(epochs=20), progress=False)
    assert np.allclose(run.w[0], [2, 1], atol=0.1)


@pytest.mark.parametrize(
    ("content", "words"), [(b"no", "cannot be read as Parquet: .*$"), (None, "there is no such file or folder$")]
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, content, words):
    path = tmp_path / "bad.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadFile, match=words) as told:
        list(Parquet(path))
    assert "\n" not in str(told.value)


def test_what_is_no_column_or_no_number_is_one_line(file, tmp_path):
    with pytest.raises(BadInput, match=r"columns = 'w': must be one of the columns x, z, y of .*data.parquet"):
        list(Parquet(file, columns=["x", "w"]))
    with pytest.raises(BadInput, match="label = 'w': must be one of the columns x, z, y"):
        list(Parquet(file, label="w"))
    with pytest.raises(BadInput, match="label = 'y': must be one of columns"):
        Parquet(file, columns=["x"], label="y")
    with pytest.raises(BadInput, match="each once"):
        Parquet(file, columns=["x", "x"])
    with pytest.raises(BadFile, match=r"data.parquet, row 1: 'a' in column y is not a finite number; mend it"):
        list(Parquet(file, label="x"))
    path = tmp_path / "null.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"x": [1.0, None], "y": [1, 2]}), path)
    with pytest.raises(BadFile, match=r"null.parquet, row 2: None in column x is not a finite number"):
        list(Parquet(path, label="y"))


def test_a_file_without_rows_is_refused(tmp_path):
    pyarrow.parquet.write_table(table(rows=0), tmp_path / "empty.parquet")
    with pytest.raises(BadInput, match="data with at least one sample"):
        next(iter(Repeated(Parquet(tmp_path / "empty.parquet"))))


# Files with labels


def test_labelled_reads_parquet_as_it_reads_csv(file, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("y,x,z\na,5,6\n")
    first, second = labelled([file, other], label="y")
    (x, y), (x2, y2) = next(iter(first)), next(iter(second))
    assert (x.tolist(), y, x2.tolist(), y2) == ([0.0, -0.0], "a", [5.0, 6.0], "a")
    with pytest.raises(BadInput, match=r"a Parquet file does not grow; leave out --follow"):
        labelled([file], wait=True)


def test_the_shell_trains_on_parquet(tmp_path):
    rng = np.random.default_rng(0)
    for name in "ab":
        x = rng.normal(size=100)
        data = pyarrow.table({"x": x, "y": (x + rng.normal(size=100) > 0).astype(int)})
        pyarrow.parquet.write_table(data, tmp_path / f"{name}.parquet", row_group_size=20)
    files = [f"--stream={tmp_path / name}.parquet" for name in "ab"]
    words = ["train", "--loss", "Logistic", *files, "--label", "y", "--epochs", "3"]
    ended = subprocess.run([sys.executable, "-m", "siag", *words], check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


# Arrow


def test_a_table_of_arrow_is_finite_data():
    rows = list(islice(Repeated(table(), shuffle=False), 2 * ROWS))
    assert xs(rows) == [*range(ROWS)] * 2
    run = siag.train(
        lambda w, row: w - row.x, [table(rows=10)], np.zeros(1), until=siag.Until(epochs=2),
        runtime=siag.Simulated(), progress=False,
    )  # fmt: skip
    assert int(run.samples[0, -1]) in (20, 21)


def test_a_table_may_have_labels():
    x, y = list(Arrow(table(), columns=["z", "y"], label="y"))[1]
    assert (x.tolist(), y) == ([-1.0], "b")


def test_datasets_of_other_formats_are_read_a_file_at_a_time(tmp_path):
    for k in range(3):
        pyarrow.feather.write_feather(table(10 * k, 10), tmp_path / f"{k}.feather")
    stream = Arrow(pyarrow.dataset.dataset(tmp_path, format="feather"), columns=["x"])
    assert xs(stream) == list(range(30))
    assert xs(Repeated(stream, shuffle=False, passes=1).after(12)) == list(range(12, 30))


def test_what_is_no_table_is_refused():
    with pytest.raises(BadInput, match=r"source = .*: must be a pyarrow Table or Dataset; siag.streams.Parquet reads"):
        Arrow("data.parquet")


# Polars


def test_a_frame_of_polars_is_finite_data_by_rows():
    frame = polars.DataFrame({"x": [1.0, 2.0], "y": ["a", "b"]})
    rows = list(Repeated(frame, shuffle=False, passes=1))
    assert rows == [(1.0, "a"), (2.0, "b")]
    assert rows[0].x == 1.0


def test_a_pair_of_polars_is_features_and_labels():
    frame = polars.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})
    pairs = list(Repeated((frame, polars.Series([0, 1])), shuffle=False, passes=1))
    assert [(x.tolist(), y) for x, y in pairs] == [([1.0, 3.0], 0), ([2.0, 4.0], 1)]
    run = siag.train(
        siag.losses.Squared(), [(frame, polars.Series([0.0, 1.0]))], np.zeros(3), until=siag.Until(epochs=3),
        runtime=siag.Simulated(), progress=False,
    )  # fmt: skip
    assert int(run.samples[0, -1]) in (6, 7)


def test_frames_of_polars_whose_columns_differ_are_refused():
    one, other = polars.DataFrame({"a": [1.0], "b": [2.0]}), polars.DataFrame({"b": [1.0], "a": [2.0]})
    with pytest.raises(ValueError, match="column 1 is 'a' in streams"):
        siag.train(siag.losses.Squared(), [(one, polars.Series([1.0])), (other, polars.Series([1.0]))], np.zeros(3))


def test_a_frame_of_polars_without_rows_is_refused():
    with pytest.raises(BadInput, match="data with at least one sample"):
        siag.train(lambda w, x: w, [polars.DataFrame({"a": []})], np.zeros(1))
