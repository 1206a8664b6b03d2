"""What tables that are read a part at a time share: their rows become samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from siag.foundations.errors import BadFile, BadInput
from siag.streams.labelled import Columns
from siag.streams.lines import BadLine

MEND = "mend it, or take the row out"
Row: TypeAlias = tuple[int, tuple[Any, ...]]
"""The number of a row, from 0, and its values."""


@dataclass(eq=False, kw_only=True)
class Table(ABC):
    """Rows of a table as samples: named tuples, pairs (x, y) if one column is the label, or what `parse` makes.

    They can be read again, as a list can: workers go through them pass after pass. `Repeated` asks for each pass in its
    order, and after the samples that were reported before.
    """

    label: str | None = None
    parse: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if self.label is not None and (not isinstance(self.label, str) or self.parse is not None):
            raise BadInput("label", self.label, "the name of a column, without parse", "parse may make the pairs")
        if self.parse is not None and not callable(self.parse):
            raise BadInput("parse", self.parse, "a function of one row, or None")

    def __iter__(self) -> Iterator[Any]:
        return self.ordered(None, 0)

    @property
    @abstractmethod
    def where(self) -> str:
        """What is read, for errors."""

    @abstractmethod
    def ordered(self, rng: np.random.Generator | None, skip: int) -> Iterator[Any]:
        """The samples in the order that follows from `rng`, or that they have, after the first `skip`."""

    def made(self, names: Sequence[str], rows: Iterator[Row]) -> Iterator[Any]:
        """The samples of numbered rows."""
        parse = self.parse
        if self.label is not None:
            if self.label not in names:
                raise BadInput("label", self.label, f"one of the columns {', '.join(names)}")
            parse = Columns(tuple(names), tuple(name for name in names if name != self.label), self.label)
        if parse is None:
            row = namedtuple("Row", names, rename=True)  # type: ignore[misc]  # the names are not known before
            yield from (row._make(values) for _, values in rows)
            return
        for number, values in rows:
            try:
                sample = parse(list(values) if isinstance(parse, Columns) else dict(zip(names, values, strict=True)))
            except BadLine as error:
                raise BadFile(f"{self.where}, row {number + 1}: {error}; {error.remedy or MEND}") from None
            yield sample
