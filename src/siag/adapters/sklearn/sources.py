"""Where each row came from: a column of X, an array, or one name for all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from siag.foundations.errors import BadInput
from siag.foundations.types import Integers

EACH = "a column of X, or an array with an entry for each row"
ALIKE = "all texts or all numbers, none missing"


def without_column(X: Any, name: Any) -> Any:
    """A DataFrame without this column, if it has it."""
    names = list(getattr(X, "columns", ()))
    return X[[each for each in names if each != name]] if name in names else X


def split_column(X: Any, source: Any) -> tuple[Any, Any, Any]:
    """X without the column that says where rows came from, that column, and its name; if `source` names one."""
    if source is None or np.ndim(source) > 0 or source not in list(getattr(X, "columns", ())):
        return X, source, None
    return without_column(X, source), X[source], source


def one_for_each(source: Any, count: int) -> np.ndarray[Any, Any]:
    """Where each row came from, as an array."""
    given = np.asarray(source)
    if given.shape != (count,):
        raise BadInput("source", source, f"{count} entries, one for each row of X", f"its shape is {given.shape}")
    return given


class Sources:
    """The sources met so far, in the order of their rows in the server's table."""

    def __init__(self) -> None:
        self.names: list[Any] = []
        self._rows: dict[Any, int] = {}

    def row(self, name: Any) -> int:
        """The row of a source, a new one if it was not met before."""
        try:
            found = self._rows.get(name)
        except TypeError:
            raise BadInput("source", name, EACH) from None
        if found is None:
            found = self._rows[name] = len(self.names)
            self.names.append(name)
        return found

    def rows(self, source: Any, count: int) -> int | Integers:
        """The row of the one source that all `count` samples are of, or (count,) the row of each's."""
        if source is None or np.ndim(source) == 0:
            return self.row(source.item() if isinstance(source, np.generic) else source)
        try:
            names, places = np.unique(one_for_each(source, count), return_inverse=True)
        except TypeError:
            raise BadInput("source", source, ALIKE) from None
        listed = names.tolist()
        if any(name is None or (isinstance(name, float) and math.isnan(name)) for name in listed):
            raise BadInput("source", source, ALIKE, "give rows of unknown origin a name of their own")
        return np.array([self.row(name) for name in listed], np.int64)[places]
