"""Files with a row of features and a label in each line, as pairs (x, y) for `siag.losses`."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from glob import escape
from itertools import islice
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadFile, BadInput, shorten
from siag.foundations.types import Floats
from siag.streams.directory import Directory
from siag.streams.follow import Follow
from siag.streams.lines import POINTS, BadLine, LineStream, check_path, names_columns

MEND = "mend it, or take the line out"
TRUTH = {"true": 1.0, "false": 0.0}  # as labels
LONGEST = 10_000  # bytes of a first line that are looked at
PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst")
JSON = (".json", ".jsonl", ".ndjson")
DECIMAL = re.compile(rb"[^,]*|\"?\s*[+-]?\d*,\d+\s*\"?")  # what has no comma, or is a number with one in it
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Columns:
    """Makes a pair (x, y) of a row, the fields of a CSV line or what a line of JSON holds.

    Args:
        names: of all columns of a row, in its order; their numbers, from 1, if they have no names.
        features: which of them x has, in the order of x.
        label: which of them y is.
        guessed: whether nobody has said so.
        file: the name of the file they are of, without its folder.
    """

    names: tuple[str, ...]
    features: tuple[str, ...]
    label: str
    guessed: bool = False
    file: str = ""

    def __call__(self, row: Any) -> tuple[Floats, Any]:
        """The pair; a `BadLine` says what is wrong with the row."""
        if isinstance(row, list):
            if len(row) != len(self.names):
                raise BadLine(f"{len(row)} fields, where the first line has {len(self.names)}")
            row = dict(zip(self.names, row, strict=True))
        elif not isinstance(row, dict):
            raise BadLine(f"{shorten(row)} is neither an object nor a list")
        try:
            values, y = [row[name] for name in self.features], row[self.label]
        except KeyError as error:
            raise BadLine(f"there is no {error.args[0]!r}") from None
        for name, value in zip(self.features, values, strict=True) if _bad(values) else ():
            if _bad([value]):
                raise BadLine(f"{shorten(value)} in column {name} is not a finite number", self._remedy(name, value))
        if isinstance(y, str) and y.strip().lower() in TRUTH:
            y = TRUTH[y.strip().lower()]
        elif not _bad([y]):
            y = float(y)
        elif not _is_text(y) and "_" not in str(y):  # empty, infinite or NaN, be it written as a text
            raise BadLine(f"{shorten(y)} in column {self.label} is no label")
        return np.array(list(map(float, values))), y.strip() if isinstance(y, str) else y

    def _remedy(self, name: str, value: Any) -> str:
        """What to do about a text where a number should be: perhaps all of the column are texts."""
        if not _is_text(value):
            return ""
        if DECIMAL.fullmatch(value.encode()) and "," in value:
            return f"give {POINTS}"
        column = "if the column is not numbers, write numbers for its texts, or take it out"
        label = f'; if it is the label, give label="{name}" (--label {shlex.quote(name)})' if self.guessed else ""
        return f"{MEND}; {column}{label}"


def labelled(
    paths: Sequence[str | os.PathLike[str]], label: str | int | None = None, *, wait: bool = False
) -> list[Any]:
    r"""A stream of pairs (x, y) for each file: one column is the label y, the others are the features x.

    A file is CSV, or JSON lines if its name ends in .json, .jsonl or .ndjson: an object or a list in each line; or
    Parquet, if it ends in .parquet or .pq. A first line of CSV without a number in it is a header. Files with names
    must all have the same; their order may differ.
    Features are numbers; labels are numbers or texts, of which true and false are 1 and 0.

    Args:
        paths: the files, which must have a row already.
        label: the name of the label's column, or its number, from 1; by default the last of the first file.
        wait: wait for more lines at the end of a file, as `Follow` does.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "shop.csv")
        ...     _ = path.write_text("price,sold,area\n2.5,yes,7\n3,no,8")
        ...     [(x.tolist(), y) for x, y in labelled([path], label="sold")[0]]
        [([2.5, 7.0], 'yes'), ([3.0, 8.0], 'no')]
    """
    check.truth("wait", wait)
    if isinstance(paths, str | bytes | os.PathLike) or not paths:
        raise BadInput("paths", paths, "a list of files")
    found = [_File.seen(check_path(path, "paths")) for path in paths]
    first = found[0]
    y = first.named(label)
    features = tuple(name for name in first.names if name != y)
    if not features:
        raise BadFile(f"{first.path}: has no column but the label; give files with features, separated by commas")
    for each in found:
        if set(each.names) != set(first.names):
            columns = f"{', '.join(each.names)}; those of {first.path} are {', '.join(first.names)}"
            raise BadFile(f"{each.path}: its columns are {columns}; they must be the same")
    guessed = label is None
    return [each.stream(Columns(each.names, features, y, guessed, os.path.basename(each.path)), wait) for each in found]


@dataclass(frozen=True)
class _File:
    """What was seen at the beginning of a file."""

    path: str
    names: tuple[str, ...]
    header: bool

    @classmethod
    def seen(cls, path: str) -> _File:
        """Look at the first lines."""
        if not os.path.isfile(path):
            raise BadFile(f"{path}: there is no such file")
        if path.endswith(PARQUET):
            return cls(path, _columns_of(path), True)
        _check_format(path)
        rows = list(islice(cls(path, (), False).stream(None, False), 2))
        if not rows:
            raise BadFile(f"{path}: has no rows; a run needs one to begin with")
        if isinstance(rows[0], dict):
            return cls(path, tuple(rows[0]), False)
        if not isinstance(rows[0], list):
            raise BadFile(f"{path}, line 1: {shorten(rows[0])} is neither an object nor a list")
        if path.endswith(JSON) or not names_columns(rows[0]):
            return cls(path, tuple(str(k) for k in range(1, len(rows[0]) + 1)), False)
        if len(rows) < 2:
            raise BadFile(f"{path}: has no rows below its header; a run needs one to begin with")
        names = tuple(name.strip() for name in rows[0])
        for number, name in enumerate(names, 1):
            if not name:
                raise BadFile(f"{path}: column {number} has no name; if it counts the rows, write the file without it")
            if name in names[: number - 1]:
                raise BadFile(f"{path}: two columns have the name {name}; rename one")
        return cls(path, names, True)

    def named(self, label: str | int | None) -> str:
        """The name of the label's column."""
        known = f"one of the columns {', '.join(self.names)}" if self.header else "a column"
        if label is None:
            return self.names[-1]
        if isinstance(label, str) and label in self.names:
            return label
        number = int(label) if isinstance(label, str) and label.isdecimal() else label
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= len(self.names):
            raise BadInput("label", label, f"{known}, by name or as a number from 1 to {len(self.names)}")
        return self.names[number - 1]

    def stream(self, parse: Columns | None, wait: bool) -> Any:
        """The rows; of a file that is not to grow, the last line needs no line break."""
        if self.path.endswith(PARQUET):
            return _rows_of(self.path, self.names, parse, wait)
        format = "json" if self.path.endswith(JSON) else "fields"
        folder, name = os.path.split(self.path)
        stream: LineStream = (
            Follow(self.path, format, parse=parse, header=self.header)
            if wait
            else Directory(folder or ".", escape(name), format=format, parse=parse, header=self.header, wait=False)
        )
        stream._remedy = MEND
        return stream


def _columns_of(path: str) -> tuple[str, ...]:
    """The names of the columns of a Parquet file, which has a row."""
    from siag.streams.arrow import Parquet

    file = Parquet(path)
    if len(file) == 0:
        raise BadFile(f"{path}: has no rows; a run needs one to begin with")
    return tuple(file.names())


def _rows_of(path: str, names: tuple[str, ...], parse: Columns | None, wait: bool) -> Any:
    """The rows of a Parquet file, which does not grow."""
    from siag.streams.arrow import Parquet

    if wait:
        raise BadInput("wait", wait, f"False for {path}", "a Parquet file does not grow; leave out --follow")
    return Parquet(path, columns=names, parse=parse)


def _check_format(path: str) -> None:
    """Refuse what is no CSV with commas and no lines of JSON, as far as the first line shows it."""
    if path.endswith(PACKED):
        raise BadFile(f"{path}: is compressed; unpack it first")
    with open(path, "rb") as file:
        line = file.readline(LONGEST).strip(b" \r\n")
    if path.endswith(JSON) and (line == b"[" or line.replace(b" ", b"").startswith(b"[{")):
        raise BadFile(f"{path}: is one array; one object a line is expected, without [ and ]")
    for separator, word in ((b";", "semicolons"), (b"\t", "tabs")):
        fields = line.split(separator)
        if not path.endswith(JSON) and len(fields) > 1 and all(map(DECIMAL.fullmatch, fields)):
            raise BadFile(f"{path}: its columns are separated by {word}; commas are expected, and {POINTS}")


def _is_text(value: object) -> bool:
    """Whether it is a text that is not empty and no number, be it infinite or NaN."""
    if not isinstance(value, str) or not value.strip():
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def _bad(values: list[Any]) -> bool:
    """Whether one of them is not a finite number."""
    try:
        numbers = list(map(float, values))
    except (TypeError, ValueError, OverflowError):
        return True
    return not all(map(math.isfinite, numbers)) or any(isinstance(each, str) and "_" in each for each in values)
