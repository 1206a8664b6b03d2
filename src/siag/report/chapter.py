"""What a report is made of: chapters, each with a figure, the numbers behind it, and claims that hold or do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Columns: TypeAlias = Mapping[str, np.ndarray | Sequence[float | int | str]]
"""A table, by the name of its columns; all of one length."""


class Basis(StrEnum):
    """What a claim rests on."""

    PROVED = "proved"  # a theorem of the paper, or the construction of its method
    OBSERVED = "observed"  # an experiment of the paper: what is measured here can only be consistent with it
    OURS = "ours"  # derived here: put to the test, but not counted for a paper


@dataclass(frozen=True)
class Claim:
    """A statement, what it predicts, what was measured, and whether it holds."""

    statement: str
    source: str  # where it is made: "Theorem 1", "Sec. IV"
    prediction: str
    measured: str
    holds: bool
    basis: Basis = Basis.PROVED

    def __post_init__(self) -> None:
        object.__setattr__(self, "holds", bool(self.holds))  # comparisons of arrays give NumPy's own kind of truth


@dataclass(frozen=True, eq=False)
class Chapter:
    """One question and its answer.

    Attributes:
        name: of its files.
        title: the question, or the answer, as a heading.
        text: paragraphs of HTML; every number in them comes from a computation.
        figure: the picture.
        caption: what the picture shows.
        tables: the numbers behind it, each a CSV file of the given name.
        claims: what was put to the test.
    """

    name: str
    title: str
    text: Sequence[str]
    figure: Figure
    caption: str
    tables: Mapping[str, Columns]
    claims: Sequence[Claim] = field(default_factory=tuple)
