"""A disk in memory that fails as real ones do: it loses what was not forced, tears writes, is full, returns errors.

    disk = SimulatedDisk(random.Random(1), DiskFaults(short_write=0.1))
    store = Store("state", identity, disk=disk, background=Deferred())
    ...
    disk.crash()  # the power fails: whoever opens the store anew finds what was forced, and some of the rest

All that is left to chance comes from the generator, so a seed repeats it.
"""

from __future__ import annotations

import errno
import io
import os
import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from siag.storage.disk import Place, Stat

SECTOR = 64  # bytes that the disk writes whole or not at all; real ones write more, so that records are torn less often


@dataclass(frozen=True)
class DiskFaults:
    """How likely each call is to fail.

    Attributes:
        short_write: a write takes only some of the bytes.
        no_space: a write takes nothing: the disk is full. So does the creation of a file.
        write_error: a write, or cutting a file, fails.
        force_error: forcing a file to disk fails; what was not forced may be lost, and no later call tells.
        folder_error: forcing the names of a folder to disk, or making one, fails.
        replace_error: renaming a file fails.
    """

    short_write: float = 0.0
    no_space: float = 0.0
    write_error: float = 0.0
    force_error: float = 0.0
    folder_error: float = 0.0
    replace_error: float = 0.0


@dataclass(eq=False)
class _Content:
    """A file: what processes see of it, and what is on disk. They agree up to `same`."""

    seen: bytearray = field(default_factory=bytearray)
    forced: bytearray = field(default_factory=bytearray)
    same: int = 0
    modified: float = 0.0
    owner: SimulatedFile | None = None  # who has locked it

    def force(self) -> None:
        """Put all on disk."""
        self.forced[self.same :] = self.seen[self.same :]
        self.same = len(self.seen)

    def lose(self, rng: random.Random) -> None:
        """Keep what is on disk, and of the rest what chance leaves, a sector at a time."""
        if self.same == len(self.seen) == len(self.forced):
            return
        ends = sorted((len(self.seen), len(self.forced)))
        size = rng.choice((*ends, rng.randint(self.same, ends[1])))
        torn, at = self.seen[: self.same], self.same
        whole = rng.random() < 0.5  # cut, but not torn
        while at < size:
            end = min(size, at - at % SECTOR + SECTOR)
            kind = 0 if whole else rng.choice((0, 0, 0, 1, 2, 3))
            part = (self.seen, self.forced)[kind][at:end] if kind < 2 else b"" if kind == 2 else rng.randbytes(end - at)
            torn += part + bytes(end - at - len(part))
            at = end
        self.seen, self.forced, self.same = torn, bytearray(torn), len(torn)


@dataclass
class _Folder:
    """The names in a folder: as processes see them, on disk, and what was changed since they were forced."""

    seen: dict[str, _Content] = field(default_factory=dict)
    forced: dict[str, _Content] = field(default_factory=dict)
    changes: list[dict[str, _Content | None]] = field(default_factory=list)

    def change(self, names: dict[str, _Content | None]) -> None:
        """Give names to files, or take them away, all at once."""
        _apply(self.seen, names)
        self.changes.append(names)

    def force(self) -> None:
        """Put all on disk."""
        for names in self.changes:
            _apply(self.forced, names)
        self.changes.clear()

    def lose(self, rng: random.Random) -> None:
        """Keep what is on disk, and some of the changes: the first of them, or any, in their order."""
        kept = rng.randint(0, len(self.changes))
        ordered = rng.random() < 0.5
        for k, names in enumerate(self.changes):
            if k < kept if ordered else rng.random() < 0.5:
                _apply(self.forced, names)
        self.changes.clear()
        self.seen = dict(self.forced)


def _apply(names: dict[str, _Content], changes: dict[str, _Content | None]) -> None:
    for name, content in changes.items():
        if content is None:
            names.pop(name, None)
        else:
            names[name] = content


class SimulatedFile:
    """A file of a simulated disk, open to be appended to."""

    def __init__(self, disk: SimulatedDisk, content: _Content) -> None:
        self._disk, self._content, self._life = disk, content, disk.life

    def write(self, content: bytes | bytearray | memoryview) -> int:
        """Append the first bytes of this; return how many."""
        disk, size = self._alive(), len(content)
        disk.fail(disk.faults.no_space, errno.ENOSPC)
        disk.fail(disk.faults.write_error, errno.EIO)
        if size > 1 and disk.happens(disk.faults.short_write):
            size = disk.rng.randint(1, size - 1)
        self._content.seen += content[:size]
        self._content.modified = disk.clock()
        return size

    def force(self) -> None:
        """Return when all that was written is on disk."""
        disk = self._alive()
        if disk.happens(disk.faults.force_error):
            if disk.rng.random() < 0.5:  # the system forgets what it could not write
                self._content.lose(disk.rng)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._content.force()

    def truncate(self, size: int) -> None:
        """Cut it to a size."""
        disk = self._alive()
        disk.fail(disk.faults.write_error, errno.EIO)
        del self._content.seen[size:]
        self._content.same = min(self._content.same, size)
        self._content.modified = disk.clock()

    def lock(self) -> bool:
        """Lock it for as long as it is open; False if somebody else has."""
        self._alive()
        owner = self._content.owner
        if owner is not None and owner is not self and owner.open:
            return False
        self._content.owner = self
        return True

    def is_at(self, place: Place) -> bool:
        """Whether this place leads to it."""
        return self._alive().found(place) is self._content

    def close(self) -> None:
        """Close it."""
        self._life = -1

    @property
    def open(self) -> bool:
        """Whether it is neither closed nor lost with its process."""
        return self._life == self._disk.life

    def _alive(self) -> SimulatedDisk:
        """The disk, if this file is still open."""
        if not self.open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        self._disk.operate()
        return self._disk


class SimulatedDisk:
    """A disk in memory that fails as real ones do.

    Args:
        rng: decides what fails and what a crash leaves.
        faults: how likely each call is to fail; may be set anew at any time.
        clock: the time, in seconds since 1970.

    Attributes:
        left: how many more operations succeed before the power fails; `None`: it does not. All others fail until
            `crash` says what is left.
        life: how often all processes have ended.
    """

    rested = True

    def __init__(
        self,
        rng: random.Random,
        faults: DiskFaults = DiskFaults(),  # noqa: B008  # frozen
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.rng, self.faults, self.clock = rng, faults, clock
        self.left: int | None = None
        self.life = 0
        self._folders: dict[Path, _Folder] = {Path(): _Folder(), Path("/"): _Folder()}

    def crash(self) -> None:
        """The power fails, and comes back: what was not forced to disk is lost, or some of it."""
        for folder in self._folders.values():
            folder.lose(self.rng)
            for content in folder.seen.values():
                content.lose(self.rng)
        self.kill()

    def kill(self) -> None:
        """All processes end: their files are closed, with all that was written in them."""
        self.life += 1
        self.left = None

    def names(self, folder: Place) -> list[str]:
        """The names in a folder."""
        self.operate()
        below = [path.name for path in self._folders if path.parent == Path(folder) != path]
        return [*self.folder(folder).seen, *below]

    def stat(self, place: Place) -> Stat | None:
        """What is there; `None` if nothing is."""
        if Path(place) in self._folders:
            return Stat(0, 0.0, False)
        found = self.found(place) if Path(place).parent in self._folders else None
        return None if found is None else Stat(len(found.seen), found.modified, True)

    def read(self, place: Place) -> io.BufferedIOBase:
        """Open a file to read it."""
        self.operate()
        return io.BytesIO(self._content(place).seen)

    def append(self, place: Place, *, create: bool = True) -> SimulatedFile:
        """Open a file to append to it."""
        self.operate()
        path = Path(place)
        folder = self.folder(path.parent)
        if create and path.name not in folder.seen and path not in self._folders:
            self.fail(self.faults.no_space, errno.ENOSPC)
            folder.change({path.name: _Content(modified=self.clock())})
        return SimulatedFile(self, self._content(path))

    def replace(self, source: Place, target: Place) -> None:
        """Rename a file, in place of another if there is one."""
        self.operate()
        self.fail(self.faults.replace_error, errno.EIO)
        content, old, new = self._content(source), Path(source), Path(target)
        there, here = self.folder(new.parent), self.folder(old.parent)
        if there is here:
            there.change({old.name: None, new.name: content})
        else:
            there.change({new.name: content})
            here.change({old.name: None})

    def remove(self, place: Place) -> None:
        """Remove a file."""
        self.operate()
        self._content(place)
        self.folder(Path(place).parent).change({Path(place).name: None})

    def make_folder(self, folder: Place) -> None:
        """Make a folder and those above it, where they are missing; their names are on disk when this returns."""
        if Path(folder) not in self._folders:
            self.operate()
            self.fail(self.faults.folder_error, errno.EIO)
            for path in (Path(folder), *Path(folder).parents):
                self._folders.setdefault(path, _Folder())

    def force_folder(self, folder: Place) -> None:
        """Return when the names in a folder are on disk."""
        self.operate()
        self.fail(self.faults.folder_error, errno.EIO)
        self.folder(folder).force()

    def folder(self, place: Place) -> _Folder:
        """What is in a folder."""
        if Path(place) not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self._folders[Path(place)]

    def found(self, place: Place) -> _Content | None:
        """The file at a place, if there is one."""
        return self.folder(Path(place).parent).seen.get(Path(place).name)

    def operate(self) -> None:
        """Count an operation; it fails if the power has."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.EIO, "the power has failed")

    def happens(self, probability: float) -> bool:
        """Let chance decide."""
        return probability > 0.0 and self.rng.random() < probability

    def fail(self, probability: float, number: int) -> None:
        """Fail, if chance says so."""
        if self.happens(probability):
            raise OSError(number, os.strerror(number))

    def _content(self, place: Place) -> _Content:
        found = self.found(place)
        if found is None:
            number = errno.EISDIR if Path(place) in self._folders else errno.ENOENT
            raise OSError(number, os.strerror(number))
        return found


class Deferred(Executor):
    """Does a job when the simulator says so, or when somebody waits for it."""

    def __init__(self) -> None:
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, job: Callable[..., Any], /, *given: Any, **more: Any) -> Future[Any]:
        """Have a job done after those before it."""
        done = Awaited(self)
        self._jobs.append((done, partial(job, *given, **more)))
        return done

    @property
    def busy(self) -> bool:
        """Whether a job is not done yet."""
        return bool(self._jobs)

    def step(self) -> bool:
        """Do the next job; False if there is none."""
        if self._jobs:
            done, job = self._jobs[0]
            try:
                done.set_result(job())
            except OSError as error:
                done.set_exception(error)
            self._jobs.popleft()
            return True
        return False

    def drop(self) -> None:
        """Do none of them: the process dies."""
        self._jobs.clear()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do all jobs."""
        while self.step():
            pass


class Awaited(Future[Any]):
    """What comes of a job, and has it done if somebody waits for it."""

    def __init__(self, background: Deferred) -> None:
        super().__init__()
        self._background = background

    def result(self, timeout: float | None = None) -> Any:
        """Do all jobs first."""
        self._background.shutdown()
        return super().result(0.0)
