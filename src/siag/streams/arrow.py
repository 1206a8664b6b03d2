"""Arrow tables and datasets, Parquet files and folders, a block at a time."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from siag.foundations.errors import BadFile, BadInput, reason_of
from siag.foundations.extras import needed
from siag.streams.lines import check_path
from siag.streams.tables import Row, Table


class Block(NamedTuple):
    """Rows that are read together."""

    size: int
    read: Callable[[list[str]], Any]  # given names of columns, a pyarrow Table


@dataclass(eq=False, kw_only=True)
class Blocks(Table):
    """A table in blocks: in each pass these come in another order, and the rows of each, too."""

    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        names = self.columns
        if names is None:
            return
        if isinstance(names, str) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise BadInput("columns", names, "a list of names of columns, each once")
        if self.label is not None and self.label not in names:
            raise BadInput("label", self.label, f"one of columns = {list(names)}")

    @abstractmethod
    def open(self) -> Any:
        """The table or dataset."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: kept for name, kept in vars(self).items() if name != "_opened"}

    def names(self) -> list[str]:
        """Of the columns that are read."""
        return self._open()[0]

    def __len__(self) -> int:
        return sum(block.size for block in self._open()[1])

    def ordered(self, rng: np.random.Generator | None, skip: int) -> Iterator[Any]:
        """The samples block by block; blocks of which all samples are skipped are not read."""
        names, blocks = self._open()
        order = range(len(blocks)) if rng is None else rng.permutation(len(blocks)).tolist()
        seeds = None if rng is None else rng.integers(1 << 62, size=len(blocks)).tolist()
        before = np.cumsum([0, *(block.size for block in blocks)]).tolist()

        def rows(left: int) -> Iterator[Row]:
            for k in order:
                size = blocks[k].size
                if left < size:
                    found = self._read(blocks[k], names)
                    which = range(size) if seeds is None else np.random.default_rng(seeds[k]).permutation(size).tolist()
                    yield from ((before[k] + row, found[row]) for row in which[left:])
                left = max(0, left - size)

        return self.made(names, rows(skip))

    def _read(self, block: Block, names: list[str]) -> list[tuple[Any, ...]]:
        try:
            return list(zip(*(column.to_pylist() for column in block.read(names).columns), strict=True))
        except (OSError, ValueError, KeyError) as error:  # those of pyarrow are derived from these
            raise BadFile(f"{self.where}: cannot be read: {reason_of(error)}") from None

    def _open(self) -> tuple[list[str], list[Block]]:
        """The names of the columns, and the blocks; opened once in a process."""
        if not hasattr(self, "_opened"):
            source = self.open()
            names = list(source.schema.names)
            for name in self.columns or ():
                if name not in names:
                    raise BadInput("columns", name, f"one of the columns {', '.join(names)} of {self.where}")
            self._opened = names if self.columns is None else list(self.columns), blocks_of(source)
        return self._opened


@dataclass(eq=False)
class Arrow(Blocks):
    """The rows of an Arrow table or dataset, read a block at a time: a row group of Parquet, a file of other formats.

    They can be read again: workers go through them pass after pass, the blocks in another order each time, and the rows
    of each in another order, which follow from the seed, the worker and the pass. Rows of different blocks are not
    mixed; `Repeated(…, shuffle=False)` leaves all in their order. A worker that is started again goes on after the rows
    it has reported; blocks before these are not read.

    Args:
        source: a `pyarrow.Table` or a `pyarrow.dataset.Dataset`.
        columns: which to read, in this order; by default all.
        label: the column that is the label y of pairs (x, y), in which x is an array of the other columns; by default
            rows are named tuples.
        parse: what to make of a row, a dict by column; one a module defines, if it is sent to other processes.
    """

    source: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        if not hasattr(self.source, "schema") or not hasattr(self.source, "to_batches"):
            raise BadInput("source", self.source, "a pyarrow Table or Dataset", "siag.streams.Parquet reads files")

    @property
    def where(self) -> str:
        """What is read."""
        return f"the Arrow {type(self.source).__name__}"

    def open(self) -> Any:
        """The table or dataset."""
        return self.source


@dataclass(eq=False)
class Parquet(Blocks):
    """The rows of a Parquet file, or of all files in a folder, read a row group at a time.

    Files of a folder are taken in order of name; folders in it named `key=value` make a column of the key. The data can
    be read again: workers go through them pass after pass, the row groups in another order each time, and the rows of
    each in another order; rows of different groups are not mixed. Of a worker that is started again the row groups it
    has reported are not read. One row group is in memory at a time.

    Args:
        path: the file or folder. It is opened by the process that reads it.
        columns: which to read, in this order; by default all.
        label: the column that is the label y of pairs (x, y), in which x is an array of the other columns; by default
            rows are named tuples.
        parse: what to make of a row, a dict by column; one a module defines, if it is sent to other processes.
    """

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.path = check_path(self.path)

    @property
    def where(self) -> str:
        """The file or folder."""
        return os.fspath(self.path)

    def open(self) -> Any:
        """The dataset."""
        datasets = needed("pyarrow.dataset", "arrow")
        if not os.path.exists(self.path):
            raise BadFile(f"{self.path}: there is no such file or folder")
        try:
            found = datasets.dataset(self.path, format="parquet", partitioning="hive")
            found.count_rows()
        except (OSError, ValueError) as error:
            raise BadFile(f"{self.path}: cannot be read as Parquet: {reason_of(error)}") from None
        return found


def blocks_of(source: Any) -> list[Block]:
    """The blocks of a table or dataset that have rows; of Parquet only metadata are read."""
    if not hasattr(source, "get_fragments"):
        return [Block(source.num_rows, source.select)] if source.num_rows else []
    found = []
    for fragment in source.get_fragments():
        groups = fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else None
        if groups is None:
            found.append(Block(fragment.count_rows(), _reader(fragment, source.schema)))
        for group in groups or ():  # whose `count_rows` counts those of the whole file
            found.append(Block(sum(each.num_rows for each in group.row_groups), _reader(group, source.schema)))
    return [block for block in found if block.size]


def _reader(fragment: Any, schema: Any) -> Callable[[list[str]], Any]:
    return lambda names: fragment.to_table(schema=schema, columns=names)
