"""Files that appear in a folder."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from io import FileIO
from typing import Any

from siag.foundations.errors import BadFile, BadInput, reason_of
from siag.streams.lines import LineStream, open_file, read_blocks
from siag.streams.remarks import Tally, say
from siag.streams.stream import Stop


@dataclass(eq=False)
class Directory(LineStream):
    r"""The lines of the files in a folder, and of those still to be put there, each file once.

    Files are read in order of arrival; those that are found at the same look, in order of name. A file must be complete
    when it gets its name: write it under a name that begins with "." or ends with ".tmp" or ".part", which are left
    alone, then rename it. What is written to a file after it was read goes unnoticed; give new data a new name. Names
    of files that were deleted may be used again.

    A worker that is started again goes on after the samples it has reported, counted over the files in order of name;
    so let names be in order of time, and let files stay. If there are fewer samples in the folder, files were taken
    away, and all that are there are read, which is told.

    Args:
        path: the folder. It need not exist yet if `wait` is true. Folders in it are left alone.
        pattern: which names to read, as in the shell: `"*.csv"`.
        format: "csv", "fields", "json" or "lines", and the other arguments, as for `Follow`. The last line of a file
            needs no line break.
        parse: what to make of a sample.
        wait: wait for more files; if false, the stream ends when all that are there were read.
        poll: how many seconds to wait between two looks at the folder.
        header: the first line of each file is not a sample.
        bad: "raise" an error at a bad line, or "skip" it, which is told as by `Follow`.

    Attributes:
        skipped: how many bad lines were left out, in all loops over this object.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("2.txt", "1.txt", "3.txt.part"):
        ...         _ = pathlib.Path(folder, name).write_text(f"first of {name}\nsecond of {name}\n")
        ...     list(Directory(folder, format="lines", wait=False))
        ['first of 1.txt', 'second of 1.txt', 'first of 2.txt', 'second of 2.txt']
    """

    pattern: str = "*"
    poll: float = field(default=0.2, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.pattern, str) or not self.pattern or os.path.dirname(self.pattern):
            raise BadInput("pattern", self.pattern, "a pattern of names like '*.csv', without a folder")

    def samples(self, stop: Stop) -> Generator[Any, None, None]:
        """The lines of all files, as samples, until `stop` is set."""
        with self.tally() as tally:
            yield from self._samples(stop, tally)

    def _samples(self, stop: Stop, tally: Tally) -> Generator[Any, None, None]:
        done: set[str] = set()
        skip = self._first
        while not stop.is_set():
            names = self._names()
            if names is None and not self.wait:
                raise BadInput("path", self.path, "a folder that exists", "with wait=True it is waited for")
            new = sorted(names - done) if names else []
            if skip > 0 and names is not None and not self._has(skip, new, stop):
                say(f"{self.path}: has fewer samples than the {skip:,} reported before, so all of it is read anew")
                skip = 0
            for name in new:
                path = os.path.join(self.path, name)
                file = open_file(path)
                if file is not None:  # else somebody has taken it away
                    with file:
                        skip = yield from self.convert(_blocks(file, path, stop), path, skip, tally)
            if names is not None:
                done = names
            if not new:
                if not self.wait:
                    return
                stop.wait(self.poll)

    def _has(self, samples: int, names: list[str], stop: Stop) -> bool:
        """Whether these files have that many samples."""
        for name in names:
            path = os.path.join(self.path, name)
            file = open_file(path)
            if file is not None:
                with file:
                    samples -= self.count(_blocks(file, path, stop), samples)
            if samples == 0:
                return True
        return False

    def _names(self) -> set[str] | None:
        """The finished files that are there now; `None` if the folder is not."""
        try:
            with os.scandir(self.path) as entries:
                return {entry.name for entry in entries if self._wants(entry.name) and entry.is_file()}
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            raise BadInput("path", self.path, "a folder", "for a single file, use Follow") from None
        except OSError as error:
            raise BadFile(f"{self.path}: cannot be read: {reason_of(error)}") from None

    def _wants(self, name: str) -> bool:
        return fnmatchcase(name, self.pattern) and not name.startswith(".") and not name.endswith((".tmp", ".part"))


def _blocks(file: FileIO, path: str, stop: Stop) -> Iterator[bytes]:
    """What is in a complete file, with a line break after its last line."""
    block = b"\n"
    for block in read_blocks(file, path, stop):
        yield block
    if not block.endswith(b"\n") and not stop.is_set():
        yield b"\n"
