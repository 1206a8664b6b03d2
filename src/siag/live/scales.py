"""Columns of data that are so unequal, so far from 0, or so much alike, that a model hardly learns from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from siag.foundations.types import Floats

KNOWN = 20  # rows, at least, of which scales are judged
UNEQUAL, OFF_CENTRE = 50.0, 20.0  # how many times as large a column may be as another, and its mean as its deviation
ENTANGLED = 1e3  # times as much as in the direction of least that standardised columns may vary in that of most, …
DETERMINED = 1e10  # … unless it is so much that the least is rounding: nothing depends on that direction then
PART, MORE = 0.1, 30.0  # of what columns tell of the labels, and times what chance tells, that these directions must
ROWS, WIDEST = 5, 300  # rows for each column, at least, and columns, at most, of which that is judged
SAME = 1e-9  # of its size that a constant column may differ, by rounding
SEEN = 0.5  # of that by which columns differ, which derivatives must show
ALONG, SEVERAL = 0.97, 8  # the part of SEVERAL gradients of length 1, by squares, that is along one line, …
EXACTLY = 1e-14  # … but for more than which, if there is anything else to learn, …
BOTH = 2  # … and how many must go either way, at least: before, all may lead to a distant optimum
SCALED = "standardise: subtract each column's mean, divide by its standard deviation"


class Doubt(NamedTuple):
    """What is doubtful about columns.

    Where a gradient is the user's own, nobody else knows whether it takes the columns as they are: its derivatives
    must show the same, the first of them being by the weights of the columns, as of a linear model.
    """

    text: str
    high: int  # the largest column, or the one that is furthest from 0 …
    low: int  # … and the smallest; −1 if they are far from 0, which `along_one_line` shows

    def shown_by(self, largest: Floats) -> bool:
        """Whether gradients show it, too: (d,) the largest derivative by each parameter that was seen."""
        unequal = self.low >= 0 and self.high < len(largest)
        return unequal and bool(largest[self.high] > SEEN * UNEQUAL * largest[self.low] > 0.0)


def along_one_line(directions: Floats) -> bool:
    """Whether gradients, of length 1 or 0, go to and fro nearly along one line, as of columns that are far from 0.

    Or of one column that is much larger than all others: samples hardly tell w anything else then. Each worker's own
    must go to and fro, since two workers that differ pull either way. Of gradients of any direction, eight of two
    parameters are so much alike by chance once in some 10⁵ times, others more rarely.

    Args:
        directions: (looks, workers, d).
    """
    distinct = np.unique(directions[directions.any(axis=2)], axis=0)
    if len(distinct) < SEVERAL:
        return False
    cosines = distinct @ distinct.T
    values, ways = np.linalg.eigh(cosines)
    along = directions @ (distinct.T @ ways[:, -1])
    turns = np.minimum((along > 0.0).sum(axis=0), (along < 0.0).sum(axis=0)).sum()
    nearly = values[-1] / len(distinct) > ALONG and np.abs(cosines).min() < 1.0 - EXACTLY
    return bool(nearly and turns >= BOTH)


def doubt_about(X: Floats, names: Sequence[object], intercept: bool, remedy: str = SCALED) -> Doubt | None:
    """What is doubtful about these rows; columns of two values, as 0 and 1, never are, and zeros do not count.

    Args:
        X: (rows, columns).
        names: of the columns, as far as they have any.
        intercept: whether the model has one, without which columns cannot be centred.
        remedy: what to do.
    """
    name = [str(names[k]) if k < len(names) else str(k + 1) for k in range(X.shape[1])]
    least, most = X.min(axis=0), X.max(axis=0)
    two = ((least == X) | (most == X)).all(axis=0) & (least < most)
    with np.errstate(over="ignore", invalid="ignore"):  # numbers that cannot be squared
        off = np.abs(X.mean(axis=0)) / np.where(least < most, X.std(axis=0), np.inf)  # constants cannot be centred
        size = np.sqrt(np.square(X).sum(axis=0) / np.maximum((X != 0.0).sum(axis=0), 1))
    far = np.flatnonzero((off > OFF_CENTRE) & ~two & intercept)
    if far.size:
        k = int(far[off[far].argmax()])
        what = f"the mean of column {name[k]} is {off[k]:.0f} times its standard deviation"
        others = f" ({far.size - 1} more like it)" * (far.size > 1)
        return Doubt(f"{what}{others}: the model will hardly learn; {remedy}", k, -1)
    size[two] = np.clip(size[two], 0.0, 1.0)
    there = np.flatnonzero((size > 0.0) | ~size.any())
    low, high = int(there[size[there].argmin()]), int(there[size[there].argmax()])
    if size[high] <= UNEQUAL * size[low]:
        return None
    what = f"column {name[high]} is {size[high] / size[low]:.0f} times as large as column {name[low]}"
    return Doubt(f"{what}: what is small is hardly learned; {remedy}", high, low)


def entangled(tables: Sequence[tuple[Floats, Any]], names: Sequence[object], intercept: bool) -> list[str]:
    """A doubt if columns nearly determine one another, and labels depend on what tells them apart: it is learned last.

    How much of the labels that explains is measured by least squares, be they numbers or two classes.

    Args:
        tables: rows (X, y) of each worker, which count the same.
        names: of the columns, as far as they have any.
        intercept: whether the model has one, which makes up for means.
    """
    columns, rows = tables[0][0].shape[1], sum(len(X) for X, _ in tables)
    numbers = all(y.dtype.kind in "biuf" and y.ndim == 1 for _, y in tables)
    if not numbers or not 2 <= columns <= WIDEST or rows < ROWS * columns:
        return []
    with np.errstate(all="ignore"):
        whole = [np.column_stack([X, y]).astype(np.float64) for X, y in tables]
        means = np.mean([each.mean(axis=0) for each in whole], axis=0) * intercept
        products = np.mean([(each - means).T @ (each - means) / len(each) for each in whole], axis=0)
        size = np.sqrt(np.diag(products))
        there = np.flatnonzero(size > SAME * np.max([np.abs(each).max(axis=0) for each in whole], axis=0))
        alike = (products / np.outer(size, size))[np.ix_(there, there)]
    if there.size < 3 or there[-1] != columns or not np.isfinite(alike).all():
        return []
    values, directions = np.linalg.eigh(alike[:-1, :-1])
    told = np.square(directions.T @ alike[:-1, -1]) / np.maximum(values, values[-1] / DETERMINED)  # of the labels
    slow = (values * ENTANGLED < values[-1]) & (values * DETERMINED > values[-1])
    if not slow.any() or told[slow].sum() < max(PART * told.sum(), MORE * slow.sum() / rows):
        return []
    direction = directions[:, np.where(slow, told, -1.0).argmax()]
    both = sorted(int(there[k]) for k in np.argsort(np.abs(direction))[-2:])
    one, other = (str(names[k]) if k < len(names) else str(k + 1) for k in both)
    what = f"columns {one} and {other} nearly determine one another, or with others; labels depend on their difference"
    return [f"{what}, which is hardly learned; give it as a column instead of one of them, or train for longer"]
