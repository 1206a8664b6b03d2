"""Finite data: which these are, their samples by number, and what is refused before a run begins."""

from collections import deque
from typing import NamedTuple

import numpy as np
import pytest

import siag
from siag.foundations.errors import BadInput
from siag.streams import Follow, Repeated
from siag.streams.finite import check_finite, columns_of, is_finite, is_indexed, is_pair, samples_of


class Frame:
    """As a DataFrame of pandas: columns by name, rows by `itertuples`; a loop over it gives the names."""

    def __init__(self, **columns):
        self._columns = columns

    def __len__(self):
        return len(next(iter(self._columns.values()), ()))

    def __iter__(self):
        return iter(self._columns)

    def __getitem__(self, name):
        return self._columns[name]

    def itertuples(self, index=True, name="Pandas"):
        assert (index, name) == (False, "Row")
        row = NamedTuple(name, [(column, float) for column in self._columns])
        return map(row._make, zip(*self._columns.values(), strict=True))

    @property
    def shape(self):
        return len(self), len(self._columns)

    def to_numpy(self):
        columns = [np.array(column) for column in self._columns.values()]
        alike = len({column.dtype.kind in "if" for column in columns}) == 1
        return np.array([column if alike else column.astype(object) for column in columns]).T


class Polars:
    """As a DataFrame of Polars: a loop over it gives columns, `iter_rows` tuples."""

    def __init__(self, **columns):
        self._columns, self.columns = columns, list(columns)

    def __len__(self):
        return len(next(iter(self._columns.values()), ()))

    def __iter__(self):
        return iter(self._columns.values())

    def iter_rows(self):
        return zip(*self._columns.values(), strict=True)

    @property
    def shape(self):
        return len(self), len(self._columns)

    def to_numpy(self):
        columns = [np.array(column) for column in self._columns.values()]
        alike = len({column.dtype.kind in "if" for column in columns}) == 1
        return np.array([column if alike else column.astype(object) for column in columns]).T


class Series:
    """As a Series, whose index is not 0, 1, 2, …."""

    def __init__(self, *values):
        self._values = values

    def __len__(self):
        return len(self._values)

    def __iter__(self):
        return iter(self._values)

    def __getitem__(self, label):
        raise KeyError(label)

    @property
    def shape(self):
        return (len(self),)

    def to_numpy(self):
        return np.array(self._values)


class Dataset:
    """As one of torch, for maps: samples by number, and how many; no loop of its own."""

    def __len__(self):
        return 3

    def __getitem__(self, k):
        if not 0 <= k < 3:
            raise IndexError(k)
        return 10 * k


class Loader:
    """As torch's `DataLoader`: it can be gone through again and again, and has no numbers."""

    def __iter__(self):
        return iter([1, 2, 3])


class Arrow:
    """As a table of Arrow: columns."""

    column_names = ("a",)

    def __len__(self):
        return 2

    def __getitem__(self, k):
        return [1, 2]


@pytest.mark.parametrize(
    "data",
    [
        [1],
        (1, 2),
        np.ones(3),
        {1, 2},
        deque([1]),
        range(4),
        {"a": [1]},
        Frame(a=[1]),
        Polars(a=[1]),
        Series(1),
        Dataset(),
        Loader(),
        [],
        (np.ones(2), np.ones(2)),
    ],
    ids=lambda data: type(data).__name__,
)
def test_data_that_can_be_read_again_are_finite(data):
    assert is_finite(data)


@pytest.mark.parametrize(
    "stream",
    [
        iter([1]),
        (x for x in [1]),
        map(abs, [1]),
        zip([1], [2], strict=True),
        Follow("a.csv"),
        Repeated([1]),
        "abc",
        b"abc",
        5,
        None,
        lambda: [1],
    ],
    ids=lambda stream: type(stream).__name__,
)
def test_what_is_read_once_or_is_no_data_is_not(stream):
    assert not is_finite(stream)


def rows(data):
    """The samples by number, as lists of numbers."""
    samples = samples_of(data)
    assert is_indexed(samples)
    return [np.asarray(samples[k]).tolist() for k in range(len(samples))]


def test_the_samples_of_an_array_are_its_rows():
    assert rows(np.array([[1.0, 2.0], [3.0, 4.0]])) == [[1.0, 2.0], [3.0, 4.0]]
    assert rows(np.array([5, 6])) == [5, 6]
    assert rows(np.ma.array([1.0, 2.0], mask=[False, False])) == [1.0, 2.0]
    assert type(samples_of(np.ma.array([1.0]))) is np.ndarray


def test_the_samples_of_a_dataframe_are_rows_with_names():
    for frame in (Frame(wind=[1.0, 2.0], rain=[3.0, 4.0]), Polars(wind=[1.0, 2.0], rain=[3.0, 4.0])):
        assert rows(frame) == [[1.0, 3.0], [2.0, 4.0]]
        assert (samples_of(frame)[1].wind, samples_of(frame)[1].rain) == (2.0, 4.0)
    odd = samples_of(Polars(**{"the wind": [1.0], "class": [2.0]}))
    assert tuple(odd[0]) == (1.0, 2.0)  # a column whose name no attribute can have is there all the same


def test_the_samples_of_pandas_are_these_too():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"wind": [1.0, 2.0], "rain": [3.0, 4.0]}, index=[7, 9])
    assert rows(frame) == [[1.0, 3.0], [2.0, 4.0]]
    assert samples_of(frame)[0].rain == 3.0
    assert rows(frame["rain"]) == [3.0, 4.0]
    X, y = samples_of((frame[["wind"]], frame["rain"]))[1]
    assert (tuple(X), y) == ((2.0,), 4.0)


def test_the_samples_of_a_series_are_its_values_whatever_its_index():
    assert rows(Series(4, 5)) == [4, 5]


def test_a_pair_of_arrays_is_data_by_pairs():
    data = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), Series(0, 1, 0)
    pairs = samples_of(data)
    assert len(pairs) == 3
    assert [(x.tolist(), int(y)) for x, y in pairs] == [([1.0, 2.0], 0), ([3.0, 4.0], 1), ([5.0, 6.0], 0)]


TABLES = {
    "pandas": Frame(wind=[1, 2], rain=[3.5, 4.5]),
    "Polars": Polars(wind=[1, 2], rain=[3.5, 4.5]),
    "array": np.array([[1, 3.5], [2, 4.5]]),
}


@pytest.mark.parametrize("labels", [Series(0, 1), np.array([0, 1]), [0, 1]], ids=lambda y: type(y).__name__)
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_in_a_pair_the_rows_of_a_table_of_numbers_are_arrays(table, labels):
    check_finite("stream", (table, labels))
    x, y = samples_of((table, labels))[1]
    assert (type(x), x.dtype, x.tolist(), y) == (np.ndarray, np.float64, [2.0, 4.5], 1)
    assert x @ np.ones(2) == 6.5


@pytest.mark.parametrize("table", [Frame, Polars])
def test_in_a_pair_truth_values_are_numbers_and_rows_with_texts_keep_their_names(table):
    x, _ = samples_of((table(wind=[1.0, 2.0], wet=[True, False]), [0, 1]))[0]
    assert (x.dtype, x.tolist()) == (np.float64, [1.0, 1.0])
    for texts in (["paris", "rome"], ["1", "2"], [None, None]):
        x, _ = samples_of((table(wind=[1.0, 2.0], city=texts), [0, 1]))[1]
        assert (x.wind, x.city) == (2.0, texts[1])


def test_a_pair_of_pandas_is_one_too():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"wind": [1, 2], "wet": [True, False], "rain": [0.5, 1.5]}, index=[7, 9])
    x, y = samples_of((frame, frame["wet"]))[1]
    assert (type(x), x.dtype, x.tolist(), bool(y)) == (np.ndarray, np.float64, [2.0, 0.0, 1.5], False)
    x, _ = samples_of((frame.astype({"wind": "Int64"}), [0, 1]))[0]
    assert x.tolist() == [1.0, 1.0, 0.5]
    x, _ = samples_of((frame.assign(city="paris"), [0, 1]))[0]
    assert x.city == "paris"


def test_pairs_with_a_dataframe_reach_a_gradient_of_ones_own_and_a_loss_alone_or_in_batches():
    data = TABLES["pandas"], Series(0.0, 1.0)
    given = {"w0": np.zeros(2), "until": 20, "runtime": siag.Simulated(), "progress": False}
    own = siag.train(lambda w, sample: (sample[0] @ w - sample[1]) * sample[0], [data], **given)
    loss = siag.losses.Squared(intercept=False)
    assert own.w == pytest.approx(siag.train(loss, [data], method=siag.methods.Automatic(), **given).w)
    assert siag.train(loss, [siag.streams.Batched(data, 2)], **given).w.shape == (1, 2)


def test_no_other_tuple_is_a_pair():
    class Named(NamedTuple):
        x: object
        y: object

    array = np.ones(2)
    for data in ((1.0, 2.0), [array, array], (array,), (array, array, array), (array, [1, 2]), Named(array, array)):
        assert not is_pair(data)
    assert [sample is array for sample in samples_of((array, array, array))] == [True] * 3


def test_a_dataset_has_its_samples_by_number_and_a_loader_has_none():
    assert rows(Dataset()) == [0, 10, 20]
    assert not is_indexed(samples_of(Loader()))
    assert not is_indexed(samples_of({1, 2}))


@pytest.mark.parametrize("data", [[], (), np.empty((0, 3)), Frame(a=[]), Polars(a=[]), Series(), set(), range(0)])
def test_data_without_a_sample_are_refused(data):
    with pytest.raises(
        BadInput, match=r"^streams\[1\] = .*must be data with at least one sample; or leave this worker"
    ):
        check_finite("streams[1]", data)


def test_an_empty_pair_is_refused_too():
    with pytest.raises(BadInput, match="at least one sample"):
        check_finite("stream", (np.empty((0, 2)), np.empty(0)))


def test_a_pair_of_unequal_parts_is_refused_with_their_sizes():
    words = r"^stream = 'a pair of 3 rows and 2 rows': must be a pair \(X, y\) of equal length$"
    with pytest.raises(BadInput, match=words):
        check_finite("stream", (np.ones((3, 2)), np.ones(2)))


@pytest.mark.parametrize("data", [{"a": [1, 2]}, {}, Arrow()], ids=["a dict", "an empty one", "Arrow"])
def test_data_by_columns_are_refused_with_how_to_make_rows(data):
    with pytest.raises(BadInput, match=r"must be rows; this is by columns; give rows, for example zip\(\*columns"):
        check_finite("stream", data)


def test_masked_numbers_are_refused():
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    for data in (masked, (np.ones(2), masked)):
        with pytest.raises(BadInput, match="must be without masked numbers; leave their rows out, or fill them"):
            check_finite("stream", data)
    check_finite("stream", np.ma.array([1.0, 2.0]))


def test_data_of_unknown_length_pass():
    check_finite("stream", Loader())


def test_rows_of_a_pair_are_matched_by_position_unless_their_labels_say_otherwise():
    pandas = pytest.importorskip("pandas")
    X, y = pandas.DataFrame({"wind": [1.0, 2.0, 3.0]}, index=[7, 8, 9]), pandas.Series([1.0, 2.0, 3.0], index=[7, 8, 9])
    words = r"^streams\[0\] = .*same labels in another order': must be .*; give y.loc\[X.index\], or reset_index"
    for other in (y[::-1], y.loc[[8, 7, 9]].to_frame()):
        with pytest.raises(BadInput, match=words):
            check_finite("streams[0]", (X, other))
        check_finite("streams[0]", (X.reset_index(drop=True), other.reset_index(drop=True)))
        check_finite("streams[0]", (X, other.to_numpy()))
        check_finite("streams[0]", (X, other.loc[X.index]))
    for index in ([0, 1, 2], [8, 9, 10], [7, 7, 9], list("abc")):
        check_finite("streams[0]", (X, y.set_axis(index)))


def test_columns_have_names_unless_these_are_numbers():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"wind": [1.0], "rain": [2.0]})
    assert columns_of(frame) == columns_of((frame, [1.0])) == columns_of(Polars(wind=[1], rain=[2])) == ["wind", "rain"]
    for other in (frame.set_axis([0, 1], axis=1), frame.wind, frame.to_numpy(), [frame], iter([frame])):
        assert columns_of(other) == []
