"""Data that can be read again: which these are, and their samples by number."""

from __future__ import annotations

from collections import Counter, namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from siag.foundations.errors import BadInput
from siag.streams.stream import Stream

NUMBER = (int, float, np.integer, np.floating, np.bool_)  # bool is an int
IN_ORDER = "give y.loc[X.index], or reset_index(drop=True) on both"
ROWS = "give rows, for example zip(*columns.values()) in a list"


def is_finite(data: object) -> bool:
    """Whether it is data that can be read again, rather than a stream that is read as it comes.

    Example:
        >>> is_finite([1, 2]), is_finite(iter([1, 2]))
        (True, False)
    """
    iterable = isinstance(data, Iterable) or hasattr(data, "__getitem__")
    return iterable and not isinstance(data, Iterator | Stream | str | bytes)


def check_finite(parameter: str, data: Any) -> None:
    """Refuse data by columns, with masked numbers, without a sample, or pairs of unequal length or order."""
    parts = data if is_pair(data) else (data,)
    sizes = [None if hasattr(part, "ordered") else _length(part) for part in parts]  # these are opened by the worker
    if len(set(sizes)) > 1:
        both = " and ".join(f"{size} rows" for size in sizes)
        raise BadInput(parameter, f"a pair of {both}", "a pair (X, y) of equal length")
    for part in parts:
        if isinstance(part, Mapping) or (hasattr(part, "column_names") and not _is_arrow(part)):
            raise BadInput(parameter, data, "rows; this is by columns", ROWS)
        if isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part):
            raise BadInput(parameter, data, "without masked numbers", "leave their rows out, or fill them")
    if sizes[0] == 0:
        raise BadInput(parameter, data, "data with at least one sample", "or leave this worker out")
    if len(parts) == 2 and _reordered(*parts):
        both = "a pair whose indexes hold the same labels in another order"
        raise BadInput(parameter, both, "a pair (X, y) of rows in the same order", IN_ORDER)


def samples_of(data: Any) -> Sequence[Any] | Iterable[Any]:
    """The samples of data that can be read again; by number, if they can be had so.

    The rows of an array or a DataFrame, the values of a Series, the pairs of a tuple (X, y) of two such, the items of
    anything else. In a pair the rows of a DataFrame of numbers are arrays, as a gradient computes with them.

    Example:
        >>> pairs = samples_of((np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1])))
        >>> len(pairs), [part.tolist() for part in pairs[1]]
        (2, [[3.0, 4.0], 1])
    """
    if is_pair(data):
        return Pairs(*map(_part_of_pair, data))
    if isinstance(data, np.ndarray):
        return np.asarray(data)  # of a masked array without masked numbers, too
    if hasattr(data, "itertuples"):  # a DataFrame of pandas
        return list(data.itertuples(index=False, name="Row"))
    if hasattr(data, "iter_rows"):  # or of Polars
        row = namedtuple("Row", data.columns, rename=True)  # type: ignore[misc]  # the names are not known before
        return list(map(row._make, data.iter_rows()))
    if hasattr(data, "to_numpy"):  # a Series
        return data.to_numpy()  # type: ignore[no-any-return]
    return _by_rows(data) if _is_arrow(data) else data


def is_pair(data: object) -> bool:
    """Whether it is a tuple (X, y) of two arrays, DataFrames or Series; the labels y of a table may be a list."""
    if not isinstance(data, tuple) or type(data) is not tuple or len(data) != 2:
        return False
    X, y = data
    return _is_array(X) and (_is_array(y) or (isinstance(y, list) and _dimensions(X) == 2))


def some_of(pair: Any, rows: int) -> tuple[Any, Any]:
    """About `rows` rows of a pair (X, y), from all over, without a copy of the others.

    Example:
        >>> [part.tolist() for part in some_of((np.eye(5)[:, :2], np.arange(5)), 2)]
        [[[1.0, 0.0], [0.0, 0.0]], [0, 4]]
    """
    which = np.unique(np.linspace(0, len(pair[0]) - 1, min(rows, len(pair[0]))).astype(np.int64))
    X, y = (np.asarray(_part_of_pair(_rows_of(part, which))) for part in pair)
    return X, y


def _rows_of(part: Any, which: Any) -> Any:
    """Some rows of an array, a DataFrame or a Series."""
    if hasattr(part, "iloc"):
        return part.iloc[which]
    return np.asarray(part.to_numpy() if hasattr(part, "to_numpy") else part)[which]


def is_table_with_labels(data: object) -> bool:
    """Whether it is a tuple (X, y) of a table and as many labels, both arrays of whatever library."""
    if not is_pair(data):
        return False
    X, y = cast(tuple[Any, Any], data)
    return (_dimensions(X), _dimensions(y)) == (2, 1) and len(X) == len(y)


def columns_of(data: Any) -> list[Any]:
    """The names of the columns of a DataFrame, alone or as X of a pair; none where they are only numbered.

    Example:
        >>> columns_of(np.zeros((2, 3)))
        []
    """
    table = data[0] if is_pair(data) else data
    names = list(getattr(table, "columns", ())) if _is_array(table) else []
    return [] if all(isinstance(name, NUMBER) for name in names) else names


def is_indexed(samples: object) -> bool:
    """Whether samples can be had by number, and counted."""
    return hasattr(samples, "__getitem__") and _length(samples) is not None


def size_if_ordered(samples: Any) -> int | None:
    """How many samples there are that come in any order they are asked for, as of `Parquet`; `None` of all others."""
    return _length(samples) if hasattr(samples, "ordered") else None


class Pairs(Sequence[tuple[Any, Any]]):
    """Two sequences as one of pairs."""

    def __init__(self, first: Any, second: Any) -> None:
        self._parts = first, second

    def __len__(self) -> int:
        return len(self._parts[0])

    def __getitem__(self, k: Any) -> Any:
        return self._parts[0][k], self._parts[1][k]


def _is_arrow(part: object) -> bool:
    """Whether it is a table of Arrow."""
    return hasattr(part, "to_batches") and type(part).__module__.partition(".")[0] == "pyarrow"


def _by_rows(table: Any) -> Iterable[Any]:
    from siag.streams.arrow import Arrow

    return Arrow(table)


def _is_array(part: object) -> bool:
    """Whether it is an array, a DataFrame or a Series, of whatever library."""
    return isinstance(part, np.ndarray) or (hasattr(part, "__len__") and hasattr(part, "to_numpy"))


def _dimensions(part: Any) -> int:
    """How many an array has: 2 for a DataFrame, 1 for a Series, 0 for what is no array."""
    return len(getattr(part, "shape", ()))


def _reordered(X: Any, y: Any) -> bool:
    """Whether both have an index, as of pandas, with the same labels in another order."""
    indexes: list[Any] = [getattr(part, "index", None) for part in (X, y)]  # of a list it is a method
    if not all(hasattr(index, "equals") for index in indexes):
        return False
    return not indexes[0].equals(indexes[1]) and Counter(indexes[0]) == Counter(indexes[1])


def _part_of_pair(part: Any) -> Any:
    """The samples of X or y: those of a DataFrame of numbers as rows of an array."""
    if isinstance(part, list | np.ndarray) or _dimensions(part) != 2:
        return samples_of(part)
    table = np.asarray(part.to_numpy())
    mixed = table.dtype.kind == "O" and all(isinstance(each, NUMBER) for each in table.flat)  # as of truth values too
    return table.astype(np.float64) if mixed or table.dtype.kind in "biuf" else samples_of(part)


def _length(data: Any) -> int | None:
    """How many there are; `None` where that is not known."""
    try:
        return len(data)
    except TypeError:
        return None
