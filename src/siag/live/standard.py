"""The method of a run that names none: automatic steps, for ready-made losses in the coordinates that suit the data."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from siag.foundations.errors import SiagError
from siag.foundations.types import Floats
from siag.live.data import rows_of
from siag.losses import Logistic, Loss, Softmax
from siag.methods import Automatic, Method, Standardised
from siag.storage.generations import newest_identity
from siag.storage.urls import disk_of

ROWS, AT_ALL = 20_000, 100_000  # rows of a worker that are looked at, and of all, at most: about a second, of files
COLUMNS = 10_000  # at most, whose means and deviations a trace and a folder name
CENTRED, ALIKE = 0.5, 2.0  # deviations that a mean may be from 0, and times as large as another that a column may be,
# the intercept being one of 1, where data are left as they are
MOSTLY = 0.5  # of its rows in which a column is 0 that is not shifted
CONSTANT = 1e-9  # of its size that a column may differ, by rounding
FINE = 1000.0  # parts of a deviation to which means are rounded: texts that name them are short, and read back exactly


def default_method(gradient: Any, streams: Any, w0: Any, folder: str | os.PathLike[str] | None) -> Method:
    """Automatic steps; for one of `siag.losses` on data that can be looked at before, on columns as if standardised.

    A run that goes on from its folder has the coordinates it began with, however its data have grown.
    """
    plain = Automatic()
    if not isinstance(gradient, Loss) or not isinstance(streams, Sequence) or isinstance(streams, str | bytes):
        return plain
    tables = [X for X, _ in (rows_of(streams, ROWS, AT_ALL) if streams else None) or ()]
    if not tables or tables[0].shape[1] > COLUMNS or gradient.dimension(tables[0].shape[1]) != np.size(w0):
        return plain
    begun = None if folder is None else _begun_with(folder, plain)
    return begun or _standardised(plain, gradient, tables)


def _standardised(plain: Method, loss: Loss, tables: list[Floats]) -> Method:
    """On columns as if standardised, unless they nearly are; every worker counts the same, whatever it has.

    Columns that are mostly 0, as those that say which class it is, are not shifted: each sample would move them all.
    A ridge adds to what the loss curves by a weight, so a column's deviation is counted as so much more.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.mean([X.mean(axis=0) for X in tables], axis=0)
        zeros = np.mean([(X == 0.0).mean(axis=0) for X in tables], axis=0)
        means[zeros > MOSTLY] = 0.0
        squares = np.mean([np.square(X - means).mean(axis=0) for X in tables], axis=0)
    if not (np.isfinite(means).all() and np.isfinite(squares).all()):
        return plain
    size = np.max([np.abs(X).max(axis=0) for X in tables], axis=0)
    constant = np.sqrt(squares) <= CONSTANT * size
    bend = 0.25 if isinstance(loss, Logistic | Softmax) else 1.0
    deviations = np.sqrt(squares + loss.ridge / bend)
    size[size == 0.0] = 1.0
    far = np.abs(means) / np.where(constant, np.inf, deviations)
    if not loss.intercept:  # a constant column is one, to which the others' common part is left
        size /= np.sqrt(1.0 + np.square(far).sum())
    deviations[constant] = np.maximum(deviations, size)[constant]
    deviations = np.array([float(f"{each:.3g}") for each in deviations])
    means = np.array([_rounded(m, s) for m, s in zip(means.tolist(), deviations.tolist(), strict=True)])
    sizes = np.append(deviations, [1.0] * loss.intercept)
    if sizes.max() <= ALIKE * sizes.min() and (far <= CENTRED).all():
        return plain
    return Standardised(plain, means=means.tolist(), deviations=deviations.tolist(), intercept=loss.intercept)


def _rounded(mean: float, deviation: float) -> float:
    """A mean to a thousandth of the deviation, in as few digits as that takes."""
    return round(mean, -int(np.floor(np.log10(deviation / FINE)))) + 0.0


def _begun_with(folder: str | os.PathLike[str], plain: Method) -> Method | None:
    """The method of the run that a folder holds, if it is one that is chosen here; else `None`."""
    try:
        disk, place = disk_of("folder", folder)
        text = str(newest_identity(place, disk).get("method", ""))
        if text == repr(plain):
            return plain
        call: Any = ast.parse(text, mode="eval").body
        given = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords if each.arg != "method"}
        made = Standardised(plain, **given)
    except (SiagError, OSError, SyntaxError, ValueError, TypeError, AttributeError):
        return None
    return made if repr(made) == text else None
