"""What a ready-made loss is at w_0, from a few samples of the data, where these are here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from siag.foundations.errors import BadInput, SiagError
from siag.foundations.types import Floats
from siag.losses import Loss
from siag.streams.batched import stack
from siag.streams.finite import is_pair, some_of
from siag.streams.labelled import Columns
from siag.streams.repeated import data_within, never_ends

ROWS, AT_ALL = 200, 4000  # samples of a worker that are looked at, and of all workers, at most: a few milliseconds
FEWEST = 20  # of all workers together, from which something is concluded


class FirstLoss(NamedTuple):
    """The loss at w_0."""

    mean: Floats  # (n,) of each worker's samples
    spread: Floats  # (n,) their variance
    samples: int  # of a worker, the fewest


def glimpse(streams: Sequence[Any]) -> list[tuple[Any, Any]] | None:
    """Some rows (X, y) of each worker: of arrays and DataFrames, or of the files of `labelled`; `None` if of any not.

    Of arrays these are from all over; of files the first.
    """
    each = max(1, min(ROWS, AT_ALL // len(streams)))
    found = []
    for data in map(data_within, streams):
        try:
            if is_pair(data):
                found.append(some_of(data, each))
            elif isinstance(getattr(data, "parse", None), Columns) and not never_ends(data):
                found.append(stack(list(islice(data, each))))
            else:
                return None
        except (SiagError, OSError, TypeError, ValueError):  # its worker will say so
            return None
    return found


def first_loss(loss: object, streams: Sequence[Any], w0: Floats) -> FirstLoss | None:
    """The loss at w_0; `None` where that cannot be known, or where the first rows of files may be unlike the others."""
    seen = glimpse(streams) if isinstance(loss, Loss) else None
    if not isinstance(loss, Loss) or seen is None:
        return None
    try:
        losses = [loss.each(w0, rows) for rows in seen]
    except (BadInput, TypeError, ValueError):  # its worker will say so
        return None
    mean, spread = np.array([each.mean() for each in losses]), np.array([each.var() for each in losses])
    arrays = all(is_pair(data_within(stream)) for stream in streams)
    if sum(map(len, losses)) < FEWEST or not math.isfinite(spread.sum()) or not (arrays or spread.max() == 0.0):
        return None
    return FirstLoss(mean, spread, min(map(len, losses)))
