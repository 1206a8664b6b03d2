"""The data of all workers, looked at together before a run: what is refused, what is doubtful, what a folder knows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from siag.foundations.errors import BadInput, SiagError, Unsuitable
from siag.foundations.types import Floats
from siag.live.scales import KNOWN, Doubt, doubt_about, entangled
from siag.live.task import check_stream
from siag.live.until import Until
from siag.losses import Logistic, Loss, Poisson, Softmax, Squared
from siag.streams.batched import stack
from siag.streams.finite import columns_of, is_finite, is_pair, is_table_with_labels, some_of
from siag.streams.labelled import Columns
from siag.streams.repeated import data_within, never_ends

FEW, MANY = 2, 10  # rows and columns, in multiples of d, of a table that seems to be transposed
ROWS, AT_ALL = 200, 4000  # rows of a worker that are looked at, and of all, at most: a few milliseconds
FAR = 10_000  # how many interquartile ranges a label may be from the median
ALIKE = "give all frames the same columns in the same order"


def check_streams(streams: Any) -> None:
    """Refuse what is no list of streams, and DataFrames whose columns differ from worker to worker."""
    if isinstance(streams, str | bytes) or not isinstance(streams, Sequence) or not streams:
        raise BadInput("streams", streams, "a list with one stream for each worker")
    if is_table_with_labels(streams):
        raise BadInput("streams", streams, "a list with one stream for each worker", "did you mean [(X, y)]?")
    for k, stream in enumerate(streams):
        check_stream(f"streams[{k}]", stream)
    _check_columns(streams)


def check_epochs(streams: Sequence[Any], until: Until | int | None) -> None:
    """Refuse a stream that never ends in a run that is to end by epochs alone."""
    if not isinstance(until, Until) or until != Until(epochs=until.epochs) or until.epochs is None:
        return
    for k, stream in enumerate(streams):
        if never_ends(stream):
            remedy = "end the run by iterations, reports or seconds instead, or as well"
            raise BadInput(f"streams[{k}]", stream, "data with an end, where a run ends by epochs", remedy)


def known_of_files(streams: Sequence[Any]) -> dict[str, Any]:
    """What the samples of files are, as `siag.streams.labelled` reads them: a run that goes on must have the same."""
    read = [getattr(data_within(stream), "parse", None) for stream in streams]
    files = [each if isinstance(each, Columns) else None for each in read]
    for known in filter(None, files):
        names = [None if each is None else each.file for each in files]
        return {"files": names, "label": known.label, "row of features": list(known.features)}
    return {}


def doubts_about(gradient: object, streams: Sequence[Any], d: int, *, scaled: bool = False) -> list[str]:
    """What seems to be wrong with the data, as far as they are here: arrays, DataFrames, pairs of these.

    `scaled`: the method bears columns of any scale.
    """
    data = [data_within(stream) for stream in streams]
    labels = [y for each in data if (y := _labels(each)) is not None]
    one = one_class(gradient, labels) if len(labels) == len(data) else []
    scale = scale_doubt(gradient, streams) if isinstance(gradient, Loss) and not scaled else None
    rows = rows_of(streams) if isinstance(gradient, Loss) else None
    alike, distant = list[str](), list[str]()
    if isinstance(gradient, Loss) and rows:
        alike = entangled(rows, _names(streams), gradient.intercept or scaled)
        distant = far_value(rows, data, _names(streams))
    far = far_label(gradient, labels)
    return [*_transposed(data, d), *one, *far, *distant, *([] if scale is None else [scale.text]), *alike]


def one_class(loss: object, labels: Sequence[Any], where: str = "") -> list[str]:
    """A doubt if a loss of classes is given labels of one class alone, or another of `siag.losses` one label, by all.

    Of a gradient of one's own nobody knows that the second part of a pair is a label: it may be a weight.

    Args:
        loss: the gradient.
        labels: those of each worker.
        where: which labels these are, if not all.
    """
    classes_of = isinstance(loss, Logistic | Softmax)
    try:
        arrays = [np.ravel(each) for each in labels]
        if not isinstance(loss, Loss) or (not classes_of and sum(map(len, arrays)) < KNOWN):
            return []
        if isinstance(loss, Logistic) and not all(
            np.isin(each.astype(np.float64), (-1, 0, 1)).all() for each in arrays
        ):
            return []  # refused by the loss
        classes = [each.astype(np.float64) > 0.0 if isinstance(loss, Logistic) else each for each in arrays]
        if any((each != classes[0][0]).any() for each in classes):
            return []
    except (TypeError, ValueError):  # no labels of this loss, which will say so
        return []
    label = arrays[0][:1].tolist()[0]
    what = f"all labels{where} are {'of one class' if classes_of else 'the same'}, {label!r}"
    remedy = f"{'add samples of another class, or ' * classes_of}check what is given as labels"
    return [f"{what}: the model can learn nothing but that; {remedy}"]


def far_label(loss: object, labels: Sequence[Any]) -> list[str]:
    """A doubt if a loss that grows without limit is given a label so far from all others that it decides the model.

    Args:
        loss: the gradient.
        labels: those of each worker.
    """
    if not isinstance(loss, Squared | Poisson):
        return []
    try:
        y = np.concatenate([np.ravel(each).astype(np.float64) for each in labels] or [np.zeros(0)])
    except (TypeError, ValueError):  # no labels of this loss, which will say so
        return []
    if y.size < KNOWN or not np.isfinite(y).all():
        return []
    low, middle, high = np.quantile(y, (0.25, 0.5, 0.75))
    furthest = y[np.abs(y - middle).argmax()]
    if not 0.0 < FAR * (high - low) < abs(furthest - middle):
        return []
    times = abs(furthest - middle) / (high - low)
    what = f"the label {furthest:g} is {times:.0g} times the interquartile range of all labels away from their median"
    return [f"{what}: it alone decides the model; check it, or use the Huber loss"]


def far_value(rows: Sequence[tuple[Floats, Any]], data: Sequence[Any], names: Sequence[Any]) -> list[str]:
    """A doubt if a column has a number so far from all others that it decides how large the column is.

    Args:
        rows: some of each worker, of which its quartiles are taken.
        data: of the workers; of pairs of arrays all rows are looked at.
        names: of the columns, as far as they have any.
    """
    some = np.concatenate([X for X, _ in rows])
    if len(some) < KNOWN:
        return []
    low, middle, high = np.quantile(some, (0.25, 0.5, 0.75), axis=0)
    tables = [some, *(np.asarray(each[0]) for each in data if is_pair(each))]
    ends = np.concatenate([end(X, axis=0, keepdims=True) for X in tables for end in (np.fmin.reduce, np.fmax.reduce)])
    off = np.where(np.isfinite(ends), np.abs(ends - middle), 0.0)
    found = np.argwhere((off > FAR * (high - low)) & (low < high))
    for line, k in found[:1]:
        name = names[k] if k < len(names) else k + 1
        times = off[line, k] / (high[k] - low[k])
        what = f"column {name} has {ends[line, k]:g}, {times:.0g} times its interquartile range away from its median"
        return [f"{what}: it alone decides what the column means; check it, or leave that row out"]
    return []


def scale_doubt(gradient: object, streams: Sequence[Any]) -> Doubt | None:
    """What is doubtful about the scale of columns: a few hundred rows of each worker are looked at."""
    tables = rows_of(streams)
    X = None if tables is None else np.concatenate([X for X, _ in tables])
    if X is None or len(X) < KNOWN:
        return None
    return doubt_about(X, _names(streams), not isinstance(gradient, Loss) or gradient.intercept)


def _names(streams: Sequence[Any]) -> list[Any]:
    """Those of the columns, as far as they have any."""
    return columns_of(data_within(streams[0])) or list(getattr(_parse(streams[0]), "features", ()))


def rows_of(streams: Sequence[Any], rows: int = ROWS, at_all: int = AT_ALL) -> list[tuple[Floats, Any]] | None:
    """Some rows (X, y) of each worker, if they are here and X numbers, all of the same columns; finite rows alone.

    Of arrays, and of lists of pairs (x, y), these are from all over; of the files of `labelled` the first.

    Args:
        streams: of all workers.
        rows: of each, at most.
        at_all: rows of all workers, at most.
    """
    each, found = max(1, min(rows, at_all // len(streams))), list[tuple[Floats, Any]]()
    for data in map(data_within, streams):
        try:
            X, y = map(np.asarray, _some_rows(data, each))
            if X.ndim != 2 or X.dtype.kind not in "biuf" or (found and X.shape[1:] != found[0][0].shape[1:]):
                return None
            X = X.astype(np.float64)
        except (SiagError, OSError, LookupError, TypeError, ValueError):  # its worker will say so
            return None
        fine = np.isfinite(X).all(axis=1)
        if not fine.any() or not X.size or len(y) != len(X):
            return None
        found.append((X[fine], y[fine]))
    return found


def _some_rows(data: Any, rows: int) -> tuple[Any, Any]:
    """Some rows (X, y), be they wrong; nothing if they cannot be had."""
    if is_pair(data):
        return some_of(data, rows)
    if isinstance(getattr(data, "parse", None), Columns) and not never_ends(data):
        return stack(list(islice(data, rows)))  # type: ignore[no-any-return]  # pairs, which `Columns` makes
    if isinstance(data, list) and data and all(type(each) is tuple and len(each) == 2 for each in data):
        some = [data[k] for k in np.linspace(0, len(data) - 1, min(rows, len(data))).astype(np.int64)]
        X, y = zip(*some, strict=True)  # x, or X of a batch
        return np.concatenate(list(map(np.atleast_2d, X))), np.concatenate(list(map(np.atleast_1d, y)))
    return (), ()


def _labels(data: Any) -> Any:
    """Those of a pair (X, y), or of a list of pairs (x, y); `None` if it is neither."""
    if is_pair(data):
        return data[1]
    if not isinstance(data, list) or not all(type(each) is tuple and len(each) == 2 for each in data):
        return None
    return [y for _, y in data] if data and np.ndim(data[0][1]) == 0 else None


def _parse(stream: Any) -> Any:
    """What makes samples of the lines of a file, if it is one."""
    return getattr(data_within(stream), "parse", None)


def _transposed(data: Sequence[Any], d: int) -> list[str]:
    """A doubt if tables have few rows for the number of parameters, and very many columns."""
    shapes = [getattr(each, "shape", None) if is_finite(each) else None for each in data]
    tables = [(k, shape) for k, shape in enumerate(shapes) if isinstance(shape, tuple) and len(shape) == 2]
    found = [(k, shape) for k, shape in tables if shape[0] <= FEW * d and shape[1] > MANY * d]
    for k, (rows, columns) in found[:1]:
        what = f"streams[{k}] has {rows:,} samples of {columns:,} numbers for {d:,} parameter{'s' * (d > 1)}"
        others = f" ({len(found) - 1} more like it)" * (len(found) > 1)
        return [f"{what}{others}; if its columns are the samples, give its transpose"]
    return []


def _check_columns(streams: Sequence[Any]) -> None:
    """Refuse DataFrames with names of columns that are not the same, in the same order: w would mix them up."""
    named = [(k, names) for k, stream in enumerate(streams) if (names := columns_of(data_within(stream)))]
    for k, names in named[1:]:
        first, wanted = named[0]
        for j in range(max(len(wanted), len(names))):
            if wanted[j : j + 1] != names[j : j + 1]:
                there, here = (repr(each[j]) if j < len(each) else "missing" for each in (wanted, names))
                both = f"column {j + 1} is {there} in streams[{first}] and {here} in streams[{k}]"
                raise Unsuitable(f"{both}; {ALIKE}")
