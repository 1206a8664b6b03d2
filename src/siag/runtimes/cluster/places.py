"""Where a run's state and trace are kept: at a path, or in a scratch folder that is copied to a URL."""

from __future__ import annotations

import errno
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from siag.runtimes.assembly import Options
from siag.runtimes.mirror import Mirror, is_url


class Places:
    """The options of a run, with paths where it has URLs; what is at the URLs has been fetched.

    Args:
        options: as the user gave them.
        shard: the number of the shard whose state this is about, the lead's being 0; `None` if there is one server.
    """

    def __init__(self, options: Options, shard: int | None = None) -> None:
        self._scratch: Path | None = None
        self._mirror: Mirror | None = None
        self._told: str | None = None
        folder, trace = (None if place is None else str(place) for place in (options.folder, options.trace))
        copied = folder is not None and is_url(folder)
        traced = trace is not None and is_url(trace) and not shard  # the lead alone keeps a trace
        if copied or traced:
            self._scratch = Path(tempfile.mkdtemp(prefix="siag-"))
            own = "" if shard is None else f"shard-{shard}"
            states = (self._scratch / "state" / own, f"{str(folder).rstrip('/')}/{own}") if copied else None
            place = Path(str(folder)) if folder is not None and not copied else self._scratch  # as safe as the state
            lines = (place / str(trace).rpartition("/")[2], str(trace)) if traced else None
            self._mirror = Mirror(folder=states, trace=lines)
            self._mirror.fetch()
            if states is not None:
                publish = None if shard is None else self.publish  # all shards must have a save at their URLs
                options = replace(options, folder=self._scratch / "state", publish=publish)
            if lines is not None:
                options = replace(options, trace=lines[0])
        self.options = options
        self._started = False

    def start(self) -> None:
        """Begin to copy, unless it has begun."""
        if self._mirror is not None and not self._started:
            self._started = True
            self._mirror.start()

    def publish(self) -> None:
        """Have what was just saved copied; an `OSError` if it is not there in the end."""
        self.start()
        if self._mirror is not None and not self._mirror.push(wait=True):
            raise OSError(errno.EIO, self._mirror.problem or "it was not copied in time")

    def news(self) -> str | None:
        """What has gone wrong since this was last asked, or works again."""
        now = None if self._mirror is None else self._mirror.problem
        before, self._told = self._told, now
        if now == before:
            return None
        return f"problem: {now}; training goes on" if now else "copying works again"

    def finish(self) -> bool:
        """Copy what is left, the run having ended; whether all is there."""
        return self._mirror is None or self._mirror.push(wait=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._mirror is not None:
            self._mirror.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
