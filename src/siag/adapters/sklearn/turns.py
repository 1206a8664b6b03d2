"""Which rows are the next report, and whose."""

from __future__ import annotations

import numpy as np

from siag.adapters.rows import NO_INTEGERS
from siag.foundations.types import Integers

Reports = tuple[Integers, Integers, Integers]  # `whose`, `starts` and `order` of `Rows`


class Deck:
    """The rows of one source, dealt in a new random order each time through; all at once, if a report takes them all.

    Args:
        rows: their numbers.
        size: how many a report takes, at most.
        random: draws the orders; `None` to deal them as they are.
    """

    def __init__(self, rows: Integers, size: int, random: np.random.RandomState | None) -> None:
        self.size = min(size, len(rows))
        self._rows, self._random, self._left = rows, random if self.size < len(rows) else None, rows[:0]

    def deal(self, reports: int) -> Integers:
        """(reports, size) the rows of the next reports."""
        wanted = reports * self.size
        parts = [self._left]
        dealt = len(self._left)
        while dealt < wanted:
            parts.append(self._rows if self._random is None else self._random.permutation(self._rows))
            dealt += len(self._rows)
        cards = np.concatenate(parts)
        self._left = cards[wanted:]
        return cards[:wanted].reshape(reports, self.size)


class Turns:
    """Finite data in passes: sources take turns, a report each, however many rows they have.

    A pass is as many reports as it takes to read as many rows as there are, an equal share from each source.

    Args:
        sources: (rows,) the source of each row, or 0 if there is but one.
        count: rows.
        size: rows of a report; a source that has fewer reports them all.
        random: draws the order of the rows of each source; `None` to read them as they are.
    """

    def __init__(self, sources: int | Integers, count: int, size: int, random: np.random.RandomState | None) -> None:
        if isinstance(sources, int):
            groups = [np.arange(count)]
        else:
            sizes = np.bincount(sources)
            groups = np.split(np.argsort(sources, kind="stable"), np.cumsum(sizes)[:-1])
        self._decks = [Deck(rows, size, random) for rows in groups]
        sizes = np.array([deck.size for deck in self._decks])
        self.rounds = max(1, -(-count // int(sizes.sum())))
        self._sources = np.tile(np.arange(len(groups)), self.rounds)
        self._starts = np.concatenate([[0], np.cumsum(np.tile(sizes, self.rounds))])

    def next(self) -> Reports:
        """The reports of the next pass."""
        order = np.concatenate([deck.deal(self.rounds) for deck in self._decks], axis=1).ravel()
        return self._sources, self._starts, order


def as_they_come(sources: int | Integers, count: int, size: int) -> Reports:
    """Rows of a stream, read once in their order; `size` of a source make a report, or what is left of them."""
    if size == 1:
        whose = np.full(count, sources) if isinstance(sources, int) else sources
        return whose, np.arange(count + 1), NO_INTEGERS
    groups = [np.arange(count)] if isinstance(sources, int) else [np.flatnonzero(sources == i) for i in set(sources)]
    chunks = [rows[k : k + size] for rows in groups for k in range(0, len(rows), size)]
    chunks.sort(key=lambda rows: int(rows[-1]))
    whose = np.array([sources if isinstance(sources, int) else sources[rows[0]] for rows in chunks])
    starts = np.concatenate([[0], np.cumsum([len(rows) for rows in chunks])])
    return whose, starts, np.concatenate(chunks)
