"""A file that grows, followed as `tail -F` does."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from io import FileIO
from typing import Any

from siag.foundations.errors import BadInput
from siag.streams.lines import LineStream, open_file, read_blocks
from siag.streams.stream import Stop


@dataclass(eq=False)
class Follow(LineStream):
    r"""The lines of a file, and those that are still to be written to it.

    A line is a sample as soon as its line break is there; what follows the last line break is taken for half-written.
    At the end of the file the stream looks every `poll` seconds whether there is more. It asks the file system rather
    than be told by it, because no way to be told works on all systems and on network disks.

    If the file is truncated, it is read again from its beginning. If another file takes its place (rotation), the old
    one is read until the new one has content, then the new one from its beginning. Truncation shows by the file being
    shorter than what was read; one that has already grown beyond that at the next look goes unnoticed. So it is safer
    to rotate than to truncate.

    A worker that is started again goes on after the samples it has reported, counted from the beginning of the file.
    If there are fewer in it, it is another file by now, and is read from its beginning.

    Args:
        path: the file, UTF-8. It need not exist yet if `wait` is true.
        format: "csv", the numbers of the line, separated by commas, as a float64 array, all finite; "json", what
            `json.loads` makes of the line; or "lines", the line as it is. Blank lines are left out, except of "lines".
        parse: what to make of that, a function of one sample; one a module defines, if the stream is to be pickled.
        wait: wait for more at the end of the file; if false, the stream ends there.
        poll: how many seconds to wait between two looks at the file.
        header: the first line of a file is not a sample.
        bad: what to do with a line that is not in the format, or that `parse` raises an exception on: "raise" a
            `BadFile` that names file and line, or "skip" it and count it in `skipped`.

    Attributes:
        skipped: how many bad lines were left out, in all loops over this object.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "readings.csv")
        ...     _ = path.write_text("x,y\n1,2\n3,4\n5,")
        ...     [sample.tolist() for sample in Follow(path, header=True, wait=False)]
        [[1.0, 2.0], [3.0, 4.0]]
    """

    format: str = "csv"

    def samples(self, stop: Stop) -> Generator[Any, None, None]:
        """The lines from the beginning of the file, as samples, until `stop` is set."""
        path, skip = os.fspath(self.path), self._first
        while not stop.is_set():
            file = open_file(path)
            if file is not None:
                with file:
                    if skip > 0:
                        skip = skip if self.count(read_blocks(file, path, stop), skip) == skip else 0
                        file.seek(0)
                    yield from self.convert(self._blocks(file, path, stop), path, skip)
                skip = 0
            elif self.wait:
                stop.wait(self.poll)
            else:
                raise BadInput("path", path, "a file that exists", "with wait=True it is waited for")
            if not self.wait:
                return

    def _blocks(self, file: FileIO, path: str, stop: Stop) -> Iterator[bytes]:
        """What is in this file or comes into it, until it is truncated or replaced."""
        size, last = 0, not self.wait
        while True:
            for block in read_blocks(file, path, stop):
                size += len(block)
                yield block
            if last or stop.is_set() or os.fstat(file.fileno()).st_size < size:
                return
            last = _is_replaced(file, path)  # if so, what the old one got in the meantime is read first
            if not last:
                stop.wait(self.poll)


def _is_replaced(file: FileIO, path: str) -> bool:
    """Whether `path` is another file by now, one with content: while it is empty, its writer may still use the old."""
    try:
        present = os.stat(path)
    except OSError:
        return False  # moved away, and nothing in its place yet
    return present.st_size > 0 and not os.path.samestat(present, os.fstat(file.fileno()))
