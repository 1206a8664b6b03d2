"""From blocks of bytes to lines, and from lines to samples: what all streams from files share."""

from __future__ import annotations

import codecs
import copy
import csv
import json
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from io import FileIO
from typing import Any, Self

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadFile, BadInput, reason_of, shorten
from siag.foundations.types import Floats
from siag.streams.remarks import Tally
from siag.streams.stream import Stop, Stream

BLOCK = 1 << 16  # bytes read at a time
SKIP = "mend it, or leave such lines out with bad='skip'"
POINTS = "numbers with points: pandas reads others by read_csv(file, sep=…, decimal=…), and writes these by to_csv"


@dataclass(eq=False)
class LineStream(Stream[Any]):
    """A stream whose samples are lines of text files; `Follow` and `Directory` describe the arguments."""

    path: str | os.PathLike[str]
    format: str = field(default="csv", kw_only=True)
    parse: Callable[[Any], Any] | None = field(default=None, kw_only=True)
    wait: bool = field(default=True, kw_only=True)
    poll: float = field(default=0.05, kw_only=True)
    header: bool = field(default=False, kw_only=True)
    bad: str = field(default="raise", kw_only=True)
    skipped: int = field(default=0, init=False, repr=False)
    _first: int = field(default=0, init=False, repr=False)  # the number of the first sample to give
    _remedy: str = field(default=SKIP, init=False, repr=False)  # for a bad line that has none of its own

    def __post_init__(self) -> None:
        self.path = check_path(self.path)
        check.choice("format", self.format, tuple(FORMATS))
        if self.parse is not None and not callable(self.parse):
            raise BadInput("parse", self.parse, "a function of one sample, or None")
        check.truth("wait", self.wait)
        self.poll = check.real("poll", self.poll, above=0)
        check.truth("header", self.header)
        check.choice("bad", self.bad, ("raise", "skip"))

    def after(self, samples: int) -> Self:
        """The same stream without its first samples."""
        later = copy.copy(self)
        later._first += check.integer("samples", samples, low=0)
        return later

    def count(self, blocks: Iterable[bytes], most: int) -> int:
        """How many samples there are, counted up to `most`."""
        found, width = 0, Width(self.format == "csv")
        for _, line in self._lines(blocks):
            found += self.bad == "raise" or self._is_good(line, width)
            if found == most:
                break
        return found

    def tally(self) -> Tally:
        """For the bad lines that a loop leaves out."""
        return Tally(f"{self.path}: {{}} bad lines were left out in all")

    def convert(
        self, blocks: Iterable[bytes], path: str, skip: int = 0, tally: Tally | None = None
    ) -> Generator[Any, None, int]:
        """The samples of a file that is read in blocks; what follows its last line break is left out.

        The first `skip` samples are passed over, without a look at them unless bad lines must be told from good ones;
        returned is how many of these there were too few. Bad lines that are left out after them are told by `tally`.
        """
        width = Width(self.format == "csv")
        for number, line in self._lines(blocks):
            if skip > 0 and self.bad == "raise":
                skip -= 1
                continue
            try:
                sample = self._sample(line, width)
            except BadLine as error:
                if self.bad == "raise":
                    remedy = error.remedy or self._remedy
                    if number == 1 and self.format == "csv" and names_columns(line.decode(errors="replace").split(",")):
                        remedy = "if this line names the columns, give header=True"
                    raise BadFile(f"{path}, line {number}: {error}; {remedy}") from error.__cause__
                self.skipped += 1
                if tally is not None and skip == 0 and tally.add():
                    others = f", as {tally.count - 1:,} before it" if tally.count > 1 else ""
                    tally.say(f"{path}, line {number}: {error}; it is left out{others}")
            else:
                if skip > 0:
                    skip -= 1
                else:
                    yield sample
        return skip

    def _lines(self, blocks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """The lines that should be samples, with their numbers."""
        for number, line in enumerate(split(blocks), 1):
            if number == 1:
                if self.header:
                    continue
                line = line.removeprefix(codecs.BOM_UTF8)  # noqa: PLW2901  # the same line, without its mark
            if self.format == "lines" or line.strip():
                yield number, line.removesuffix(b"\r")

    def _is_good(self, line: bytes, width: Width) -> bool:
        try:
            self._sample(line, width)
        except BadLine:
            return False
        return True

    def _sample(self, line: bytes, width: Width) -> Any:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise BadLine(f"not UTF-8: {shorten(line)}") from None
        sample = FORMATS[self.format](text)
        width.check(line)
        return parsed(self.parse, sample, text)


def parsed(parse: Callable[[Any], Any] | None, sample: Any, content: object) -> Any:
    """What a user's `parse`, if there is one, makes of a sample; what it raises becomes one line about the content."""
    if parse is None:
        return sample
    try:
        return parse(sample)
    except BadLine:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise BadLine(f"parse fails on {shorten(content)} with {reason}") from error


class BadLine(Exception):
    """What is wrong with a line; a `parse` may raise it, too.

    Args:
        reason: what it is.
        remedy: what to do about it, if that is not what one does with any bad line.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.remedy = remedy


class Width:
    """How many columns the first good line of a table has: all others must have as many.

    Args:
        table: whether it is one.
    """

    def __init__(self, table: bool) -> None:
        self._table, self._columns = table, 0

    def check(self, line: bytes) -> None:
        """Refuse a line of another width."""
        columns = line.count(b",") + 1 if self._table else 0
        if self._columns and columns != self._columns:
            raise BadLine(f"{columns} columns where the lines before have {self._columns}")
        self._columns = columns


def split(blocks: Iterable[bytes]) -> Iterator[bytes]:
    r"""The complete lines of a text that comes in blocks, without their line breaks.

    Bytes are split before they are decoded, so a character may lie across two blocks.

    Example:
        >>> list(split([b"on", b"e\n", b"two\nthree\nfo"]))
        [b'one', b'two', b'three']
    """
    pieces: list[bytes] = []
    for block in blocks:
        first, *others = block.split(b"\n")
        pieces.append(first)
        if others:
            yield b"".join(pieces)
            yield from others[:-1]
            pieces = [others[-1]]


def open_file(path: str) -> FileIO | None:
    """The file, to be read without a buffer; `None` if there is none."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode):
            return open(path, "rb", buffering=0)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from None
    remedy = "for the files in a folder, use Directory" if stat.S_ISDIR(mode) else "pipes and devices are not followed"
    raise BadInput("path", path, "a regular file", remedy)


def read_blocks(file: FileIO, path: str, stop: Stop) -> Iterator[bytes]:
    """What the file has from here to its present end, unless told to stop."""
    while not stop.is_set():
        try:
            block = file.read(BLOCK)
        except OSError as error:
            raise _unreadable(path, error) from None
        if not block:
            return
        yield block


def _unreadable(path: str, error: OSError) -> BadFile:
    return BadFile(f"{path}: cannot be read: {reason_of(error)}")


def check_path(path: object, parameter: str = "path") -> str:
    """A path as text."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise BadInput(parameter, path, "the path of a file or folder, as str or Path")
    return text


def names_columns(fields: Iterable[str]) -> bool:
    """Whether a first line is a header: none of its fields is a number."""
    return not any(map(is_number, fields))


def is_number(text: str) -> bool:
    """Whether a field is a finite number, as `float` reads it but for Python's 1_000."""
    try:
        return "_" not in text and bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _csv(text: str) -> Floats:
    """The numbers of a line; NaN, infinity and Python's 1_000 are not numbers here."""
    try:
        numbers = np.array(list(map(float, text.split(","))))
        if "_" not in text and np.isfinite(numbers).all():
            return numbers
    except ValueError:
        pass
    wrong = next(field for field in text.split(",") if not is_number(field))
    hint = ", as columns are separated by commas and numbers have points" if ";" in text else ""
    raise BadLine(f"{shorten(wrong)} is not a finite number{hint}")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadLine(f"not JSON, {error.msg} at column {error.colno}: {shorten(text)}") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
        raise BadLine(f"JSON that Python cannot read ({error}): {shorten(text)}") from None


def _fields(text: str) -> list[str]:
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        raise BadLine(f"not CSV, {error}: {shorten(text)}") from None


FORMATS: dict[str, Callable[[str], Any]] = {"csv": _csv, "fields": _fields, "json": _json, "lines": str}
