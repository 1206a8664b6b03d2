"""Where a run's state and trace are kept: at a path, or in a scratch folder that is copied to a URL.

What counts is at the URL: the scratch folder of a server that was killed is not used again.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from siag.foundations.errors import BadFile, SiagError, reason_of
from siag.live.parts import REMEDY, SPLIT
from siag.live.reasons import Problem, Trouble
from siag.live.sharding.saves import NOT_SPLIT
from siag.live.spec import Spec
from siag.storage.generations import NAME
from siag.storage.mirror import Mirror, is_url
from siag.storage.remote import Remote
from siag.storage.scratch import PREFIX, Scratch

STALE = "what is at the URL is older than this run's end"
STATE, TRACE = "state", "trace"  # folders in it
ANY_STATE = re.compile(rf"(?:/[^/\s'\"]+)*/{PREFIX}\w+/{STATE}(?![\w.-])")


class Places:
    """The description of a run, with paths where it has URLs; what is at the URLs has been fetched.

    A `SiagError` that leaves its context names the URLs, not the scratch folder.

    Args:
        spec: as the user gave it.
        shard: the number of the shard whose state this is about, the lead's being 0; `None` if there is one server.
        run: as for `Mirror`: what a server that was started again has in common with the one before.
    """

    def __init__(self, spec: Spec, shard: int | None = None, run: str | None = None) -> None:
        self.publisher: Callable[[], None] | None = None  # makes a save known elsewhere
        self._scratch: Scratch | None = None
        self._mirror: Mirror | None = None
        self._told: Problem | None = None
        self._folder: str | None = None  # the URL
        self._trace: tuple[str, str] | None = None  # where it is written, and the URL
        self._started, self._starting = False, threading.Lock()
        self._refusal: SiagError | None = None  # why copying has not begun
        try:
            self.spec = self._opened(spec, shard, run)
        except BaseException:
            self._leave()
            raise

    def _opened(self, spec: Spec, shard: int | None, run: str | None) -> Spec:
        """Fetch what is at the URLs; the description with paths."""
        folder, trace = (None if place is None else str(place) for place in (spec.folder, spec.trace))
        copied = folder is not None and is_url(folder)
        traced = trace is not None and is_url(trace) and not shard  # the lead alone keeps a trace
        if not copied and not traced:
            return spec
        self._scratch = Scratch()
        scratch = self._scratch.path
        states = lines = None
        if copied:
            self._folder = str(folder).rstrip("/")
            _check_split(self._folder, shard is not None)
            own = "" if shard is None else f"shard-{shard}"
            states = scratch / STATE / own, f"{self._folder}/{own}" if own else self._folder
            self.publisher = None if shard is None else self.publish  # all shards must have a save at their URLs
            spec = replace(spec, folder=scratch / STATE)
        if traced:
            place = Path(str(folder)) if folder is not None and not copied else scratch / TRACE  # as safe as the state
            lines = place / str(trace).rpartition("/")[2], str(trace)
            self._trace = str(lines[0]), lines[1]
            spec = replace(spec, trace=lines[0])
        self._mirror = Mirror(folder=states, trace=lines, scratch=scratch, run=run)
        self._mirror.fetch()
        return spec

    def start(self) -> None:
        """Begin to copy, unless it has begun; a `SiagError`, each time, if another run has the URLs."""
        with self._starting:  # by whoever saves, or whoever serves
            if self._refusal is not None:
                raise self._refusal
            if self._mirror is None or self._started:
                return
            try:
                self._mirror.start()
            except SiagError as error:
                self._refusal = error
                raise
            self._started = True

    def publish(self) -> None:
        """Have what was just saved copied; an `OSError` if it is not there in the end."""
        self.start()
        if self._mirror is not None and not self._mirror.push(wait=True):
            raise OSError(errno.EIO, self._mirror.problem or "it was not copied in time")

    def news(self) -> str | None:
        """What has gone wrong since this was last asked, or works again."""
        before, reason = self._told, None if self._mirror is None else self._mirror.problem
        now = self._told = Problem(Trouble.COPYING, reason) if reason else None
        if now == before:
            return None
        return before.end if now is None and before is not None else None if now is None else now.alarm

    def finish(self) -> str:
        """Copy what is left, the run having ended; what is wrong if not all is there."""
        if self._mirror is None or self._mirror.push(wait=True):
            return ""
        lost = self._mirror.lost
        return STALE if lost is None else f"{lost}: another run has taken it over; what is there is not this run's"

    def named(self, text: str) -> str:
        """The same with the user's URLs in place of paths in scratch folders, be they another server's."""
        if self._trace is not None:
            text = text.replace(*self._trace)
        if self._folder is not None and self._scratch is not None:
            folder = self._folder
            text = text.replace(str(self._scratch.path / STATE), folder)
            text = ANY_STATE.sub(lambda _: folder, text)
        return text

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        if isinstance(error, SiagError) and (named := self._renamed(error)) is not None:
            raise named.with_traceback(trace) from None

    def _leave(self) -> None:
        if self._mirror is not None:
            self._mirror.close()
        if self._scratch is not None:
            self._scratch.remove()

    def _renamed(self, error: SiagError) -> SiagError | None:
        """The error with URLs, made of the parts it travels with; `None` if it has them already."""
        reduced: Any = error.__reduce__()
        kind, parts = reduced[:2]
        texts = (os.fspath(part) if isinstance(part, Path) else part for part in parts)
        named = tuple(self.named(text) if isinstance(text, str) else text for text in texts)
        if named == parts:
            return None
        renamed: SiagError = kind(*named)
        return renamed


def _check_split(url: str, split: bool) -> None:
    """Refuse the URL of a run that was split when this is not, or the other way round."""
    other = url if split else f"{url}/shard-0"
    try:
        found = Remote(other).sizes()
    except Exception as error:  # each driver has its own kinds
        raise SiagError(f"{url}: cannot be read: {reason_of(error)}") from None
    if any(NAME.fullmatch(name) for name in found):
        raise BadFile(f"{url}: {NOT_SPLIT if split else SPLIT}; {REMEDY}")
