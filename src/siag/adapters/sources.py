"""Where samples came from: one name for all of them, or one for each."""

from __future__ import annotations

from collections.abc import Mapping
from operator import ne
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Integers
from siag.methods.weighted import SAMPLES

NAME = "a name: a text, a number or what else is hashable, none missing"
WEIGHTS = 'None, numbers by source such as {"north": 2.0}, or "samples"'
REMEDY = "give samples of unknown origin a name of their own"


def is_name(source: Any) -> bool:
    """Whether it is one for all samples; `None` is that of the source that has none."""
    return isinstance(source, str) or not hasattr(source, "__len__") or getattr(source, "ndim", 1) == 0


def one_for_each(source: Any, count: int) -> list[Any]:
    """The names of the samples' sources."""
    shape = getattr(source, "shape", (len(source),))
    if shape != (count,):
        raise BadInput("source", source, f"{count} entries, one for each row of X", f"its shape is {shape}")
    return list(source.tolist() if hasattr(source, "tolist") else source)


class Sources:
    """The sources met so far, by their rows in the server's table.

    Example:
        >>> sources = Sources()
        >>> sources.rows(["north", "south", "north"], 3), sources.rows("east", 3), sources.names
        (array([0, 1, 0]), 2, ['north', 'south', 'east'])
    """

    def __init__(self) -> None:
        self._rows: dict[Any, int] = {}

    @property
    def names(self) -> list[Any]:
        """In the order of their rows."""
        return list(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, name: Any) -> int:
        """The row of a source, a new one if it was not met before."""
        try:
            found = self._rows.get(name)
        except TypeError:
            raise BadInput("source", name, NAME) from None
        if found is None:
            check_names([name])
            found = self._rows[name.item() if isinstance(name, np.generic) else name] = len(self._rows)
        return found

    def rows(self, source: Any, count: int) -> int | Integers:
        """The row of the one source that all `count` samples are of, or (count,) the row of each's."""
        if is_name(source):
            return self.row(source)
        names = one_for_each(source, count)
        check_names(names, None)
        for name in dict.fromkeys(names):
            self.row(name)
        return np.array([self._rows[name] for name in names], np.int64)


def weight_of(weights: Any, name: Any, rows: float) -> float:
    """What a source counts for.

    Args:
        weights: by name, one that is not there counting for 1; or "samples": as many as it has rows; or `None`.
        name: of the source.
        rows: that it has given so far.

    Example:
        >>> [weight_of({"north": 2.0}, name, 50) for name in ("north", "east")], weight_of("samples", "east", 50)
        ([2.0, 1.0], 50.0)
    """
    if weights is None:
        return 1.0
    if isinstance(weights, Mapping):
        return check.real(f"source_weight[{name!r}]", weights.get(name, 1.0), low=0)
    if not isinstance(weights, str) or weights != SAMPLES:
        raise BadInput("source_weight", weights, WEIGHTS)
    return float(rows)


def check_names(names: list[Any], *missing: Any) -> None:
    """Refuse what is not hashable, and what a table has where a name is missing: NaN is not even equal to itself."""
    try:
        wrong = [name for name in dict.fromkeys(names) if ne(name, name) or name in missing]
    except TypeError:
        raise BadInput("source", names, NAME) from None
    if wrong:
        raise BadInput("source", wrong[0], NAME, REMEDY)
