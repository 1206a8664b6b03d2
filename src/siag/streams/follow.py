"""A file that grows, followed as `tail -F` does."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import FileIO
from typing import Any

from siag.foundations.errors import BadInput
from siag.streams.bookmark import Bookmark
from siag.streams.lines import LineStream, check_path, open_file, read_blocks
from siag.streams.remarks import say
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

    A worker that is started again goes on after the samples it has reported. How many they are is all it is told, so
    they are counted from the beginning of the file; if there are fewer in it, it is another by now, and is read from
    its beginning. That is right as long as the file is not rotated or truncated between the start of the run and that
    of the worker; if it is, lines are lost or used twice. So the stream says what it does, on standard error.

    With a `bookmark` it knows. The file it was in is found by its inode and its first bytes, under whatever name it has
    in the same folder, and read to its end; then come those that were begun after it, then the present one. What is
    then lost is told: a file that is gone, or compressed, and what came and went while nobody read.

    Args:
        path: the file, UTF-8. It need not exist yet if `wait` is true.
        format: "csv", the numbers of the line, separated by commas, as a float64 array, all finite; "fields", the
            texts between the commas, as a list; "json", what `json.loads` makes of the line; or "lines", the line as it
            is. Blank lines are left out, except of "lines".
        parse: what to make of that, a function of one sample; one a module defines, if the stream is to be pickled.
        wait: wait for more at the end of the file; if false, the stream ends there.
        poll: how many seconds to wait between two looks at the file.
        header: the first line of a file is not a sample.
        bad: what to do with a line that is not in the format, or that `parse` raises an exception on: "raise" a
            `BadFile` that names file and line, or "skip" it, count it in `skipped`, and say so on standard error: the
            first, then now and then, and how many in all at the end.
        bookmark: a file to keep the place in, one for each worker; its folder must exist. Give it if the file is
            rotated.

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
    bookmark: str | os.PathLike[str] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bookmark is not None:
            self.bookmark = check_path(self.bookmark, "bookmark")

    def samples(self, stop: Stop) -> Generator[Any, None, None]:
        """The lines from the beginning of the file, as samples, until `stop` is set."""
        path, given = os.fspath(self.path), self._first
        book = None if self.bookmark is None else Bookmark(os.fspath(self.bookmark))
        begun = [] if book is None else book.begun(path, given)
        to_count = given > 0 and (book is None or book.is_new)
        with self.tally() as tally, ExitStack() as opened:
            for each in begun:
                opened.enter_context(each.file)
            while not stop.is_set():
                again = begun.pop(0) if begun else None
                file, name = (open_file(path), path) if again is None else (again.file, again.name)
                if file is None:
                    if not self.wait:
                        raise BadInput("path", path, "a file that exists", "with wait=True it is waited for")
                    stop.wait(self.poll)
                    continue
                with file:
                    skip = 0 if again is None else max(0, self._first - again.mark.before)
                    if to_count:
                        skip, to_count = self._counted(file, path, stop), False
                    blocks = read_blocks(file, name, stop) if begun else self._blocks(file, path, stop)
                    if book is not None:
                        blocks = book.watch(file, None if again is None else again.mark, given - skip, blocks)
                    for sample in self.convert(blocks, name, skip, tally):
                        given += 1
                        yield sample
                if not self.wait and name == path:
                    return

    def _counted(self, file: FileIO, path: str, stop: Stop) -> int:
        """How many samples to pass over where only the number of those reported is known; it is told."""
        reported = self._first
        enough = self.count(read_blocks(file, path, stop), reported) == reported
        file.seek(0)
        if enough:
            what = f"goes on after the {reported:,} samples reported before, counted from its beginning"
            wrong = "lines were lost"
        else:
            what = f"has fewer samples than the {reported:,} reported before, so it is read from its beginning"
            wrong = "lines may be lost or used twice"
        hint = "from now on its bookmark knows" if self.bookmark is not None else "a bookmark prevents that"
        say(f"{path}: {what}; if it was rotated since the run began, {wrong} ({hint})")
        return reported if enough else 0

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
