"""The rows of a query to a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput, SiagError, reason_of
from siag.streams.tables import Row, Table


@dataclass(eq=False)
class SQL(Table):
    """The rows of a query to a database, by any connection of Python's DB-API 2.0.

    Rows are fetched a few at a time, in the order of the query. The data can be read again: the query is run anew for
    each pass, and other rows may come of it then. A worker that is started again passes over the rows it has reported,
    for which the query should sort them; with `offset` the database passes over them, after counting its rows once.

    Args:
        connect: a function that makes a connection, in the process of the worker; one a module defines, if it is sent
            to other processes, such as `functools.partial(sqlite3.connect, "shop.db")`.
        query: what to ask, with ORDER BY.
        parameters: of the query, as its `execute` takes them.
        offset: what to append to the query so that it leaves out the first {} rows: " OFFSET {}" for PostgreSQL,
            " LIMIT -1 OFFSET {}" for SQLite.
        size: how many rows to fetch at a time.
        label: the column that is the label y of pairs (x, y), in which x is an array of the other columns; by default
            rows are named tuples.
        parse: what to make of a row, a dict by column.

    Example:
        >>> import sqlite3
        >>> list(SQL(lambda: sqlite3.connect(":memory:"), "SELECT 1 AS x, 'a' AS y UNION SELECT 2, 'b'"))
        [Row(x=1, y='a'), Row(x=2, y='b')]
    """

    connect: Callable[[], Any] = field(repr=False)  # which may have a password in it
    query: str
    parameters: Any = field(default=(), repr=False)
    offset: str | None = field(default=None, kw_only=True)
    size: int = field(default=1000, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.connect):
            raise BadInput("connect", self.connect, "a function that makes a connection", "lambda: sqlite3.connect(…)")
        if not isinstance(self.query, str) or not self.query.strip():
            raise BadInput("query", self.query, "a query, as text")
        if self.offset is not None and (not isinstance(self.offset, str) or "{}" not in self.offset):
            raise BadInput("offset", self.offset, "a text with {} for the number of rows to leave out")
        self.size = check.integer("size", self.size)

    @property
    def where(self) -> str:
        """The query."""
        return f"query {' '.join(self.query.split())[:60]!r}"

    def __len__(self) -> int:
        if self.offset is None:
            raise TypeError("rows are counted only with offset=")
        [(_, values)] = [row for _, row in self._rows(f"SELECT COUNT(*) FROM ({self._bare}) AS counted")]
        return int(values[0])

    def ordered(self, rng: np.random.Generator | None, skip: int) -> Iterator[Any]:
        """The samples in the order of the query."""
        query, left = self._bare, skip
        if self.offset is not None and skip:
            query, left = query + self.offset.replace("{}", str(skip)), 0
        rows = self._rows(query)
        for _ in zip(range(left), rows):  # noqa: B905  # as many as there are
            pass
        first = next(rows, None)
        if first is None:
            return
        names = first[0]

        def numbered() -> Iterator[Row]:
            yield first[1]
            yield from (row for _, row in rows)

        yield from self.made(names, numbered())

    @property
    def _bare(self) -> str:
        return self.query.strip().rstrip(";")

    def _rows(self, query: str) -> Iterator[tuple[list[str], Row]]:
        """The names of the columns, and a row with its number, for each row."""
        try:
            with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
                cursor.execute(query, self.parameters) if self.parameters else cursor.execute(query)
                if cursor.description is None:
                    raise BadInput("query", self.query, "one that gives rows")
                names, number = [column[0] for column in cursor.description], 0
                while found := cursor.fetchmany(self.size):
                    for values in found:
                        yield names, (number, tuple(values))
                        number += 1
        except (SiagError, GeneratorExit):
            raise
        except Exception as error:  # each library has errors of its own
            raise SiagError(f"{self.where}: fails with {type(error).__name__}: {reason_of(error)}") from None
