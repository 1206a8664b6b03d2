"""The data of all workers, looked at together before a run: what is refused, what is doubtful, what a folder knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.types import Floats
from siag.live.first_loss import glimpse
from siag.live.task import check_stream
from siag.live.until import Until
from siag.losses import Logistic, Loss, Softmax
from siag.streams.finite import columns_of, is_finite, is_pair, is_table_with_labels
from siag.streams.labelled import Columns
from siag.streams.repeated import data_within, never_ends

FEW, MANY = 2, 10  # rows and columns, in multiples of d, of a table that seems to be transposed
KNOWN = 20  # rows, at least, of which scales are judged
UNEQUAL, OFF_CENTRE = 50.0, 20.0  # how many times as large a column may be as another, and its mean as its deviation
SCALED = "standardise: subtract each column's mean, divide by its standard deviation"
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


def doubts_about(gradient: object, streams: Sequence[Any], d: int) -> list[str]:
    """What seems to be wrong with the data, as far as they are here: arrays, DataFrames, pairs of these."""
    data = [data_within(stream) for stream in streams]
    labels = [each[1] for each in data if is_pair(each)]
    one = one_class(gradient, labels) if len(labels) == len(data) else []
    return [*_transposed(data, d), *one, *_unscaled(gradient, streams)]


def one_class(loss: object, labels: Sequence[Any], where: str = "") -> list[str]:
    """A doubt if a loss of classes is given labels of one class alone, by all workers.

    Args:
        loss: the gradient.
        labels: those of each worker.
        where: which labels these are, if not all.
    """
    if not isinstance(loss, Logistic | Softmax):
        return []
    try:
        arrays = [np.ravel(each) for each in labels]
        if isinstance(loss, Logistic) and not all(
            np.isin(each.astype(np.float64), (-1, 0, 1)).all() for each in arrays
        ):
            return []  # refused by the loss
        classes = [each.astype(np.float64) > 0.0 if isinstance(loss, Logistic) else each for each in arrays]
        if any((each != classes[0][0]).any() for each in classes):
            return []
    except (TypeError, ValueError):  # no labels of this loss, which will say so
        return []
    what = f"all labels{where} are of one class, {arrays[0][:1].tolist()[0]!r}: the model can learn nothing but that"
    return [f"{what}; add samples of another class, or check what is given as labels"]


def _unscaled(loss: object, streams: Sequence[Any]) -> list[str]:
    """A doubt if the columns of a ready-made loss are so unequal, or so far from 0, that they are hardly learned.

    A few hundred rows of each worker are looked at. Columns of two values, as 0 and 1, are never in doubt, and zeros
    do not count, so that rare ones are as large as others.
    """
    X = _features(streams) if isinstance(loss, Loss) else None
    if not isinstance(loss, Loss) or X is None:
        return []
    names = columns_of(data_within(streams[0])) or list(getattr(_parse(streams[0]), "features", ()))
    return doubtful_scales(X, names, loss.intercept)


def doubtful_scales(X: Floats, names: Sequence[Any], intercept: bool, remedy: str = SCALED) -> list[str]:
    """A doubt if columns are very unequal in size, or far from 0 though there is an intercept; from `KNOWN` rows on.

    Args:
        X: (rows, features) some rows, all finite.
        names: of the columns; those without one have a number.
        intercept: whether the model has one.
        remedy: what to do.
    """
    if len(X) < KNOWN:
        return []
    name = [str(names[k]) if k < len(names) else str(k + 1) for k in range(X.shape[1])]
    two = ((X.min(axis=0) == X) | (X.max(axis=0) == X)).all(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):  # numbers that cannot be squared
        off = np.abs(X.mean(axis=0)) / np.maximum(X.std(axis=0), np.finfo(np.float64).tiny)
        size = np.sqrt(np.square(X).sum(axis=0) / np.maximum((X != 0.0).sum(axis=0), 1))
    far = np.flatnonzero((off > OFF_CENTRE) & ~two & intercept)
    if far.size:
        k = int(far[off[far].argmax()])
        what = f"the mean of column {name[k]} is {off[k]:.0f} times its standard deviation"
        others = f" ({far.size - 1} more like it)" * (far.size > 1)
        return [f"{what}{others}: the model will hardly learn; {remedy}"]
    size[two] = np.clip(size[two], 0.0, 1.0)
    there = np.flatnonzero((size > 0.0) | ~size.any())
    low, high = int(there[size[there].argmin()]), int(there[size[there].argmax()])
    if size[high] <= UNEQUAL * size[low]:
        return []
    what = f"column {name[high]} is {size[high] / size[low]:.0f} times as large as column {name[low]}"
    return [f"{what}: what is small is hardly learned; {remedy}"]


def _features(streams: Sequence[Any]) -> Floats | None:
    """Some rows of all workers, if they are here and of numbers, all finite and of the same columns."""
    tables = [X for X, _ in glimpse(streams) or ()]
    alike = len({X.shape[1:] for X in tables}) == 1 and all(X.ndim == 2 and X.dtype.kind in "biuf" for X in tables)
    X = np.concatenate(tables).astype(np.float64) if alike else None
    return X if X is not None and len(X) >= KNOWN and np.isfinite(X).all() else None


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
