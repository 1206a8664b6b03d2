"""Seeded schedules of saves, faults and crashes: what was acknowledged is found again, and nothing that never was."""

import math
import random
from pathlib import Path

import pytest
from states import IDENTITY, Server, same
from tests.torture.disk import Deferred, DiskFaults, SimulatedDisk, SimulatedFile

from siag.activity.trace import good_lines, text_in
from siag.foundations.errors import BadFile, BadInput
from siag.storage.disk import Disk, File
from siag.storage.store import Store
from siag.storage.trace_writer import TraceWriter

SEEDS = 300
NO_FAULTS = DiskFaults()


def some_faults(rng):
    """None at all, or a few kinds."""
    kinds = ("short_write", "no_space", "write_error", "force_error", "folder_error", "replace_error")
    if rng.random() < 0.4:
        return NO_FAULTS
    return DiskFaults(**{kind: rng.choice((0.0, 0.0, 0.05, 0.3)) for kind in kinds})


class StoreOnADisk:
    """A durable store, the states there were, and up to which of them it has acknowledged."""

    def __init__(self, rng, disk):
        self.rng, self.disk, self.spare = rng, disk, rng.choice((-10_000, 0, 600, 4 << 20))
        self.states, self.acknowledged = [Server().copy()], None
        self.begin()

    def begin(self):
        """Open the store, and hold what is found against what there was."""
        self.disk.faults = NO_FAULTS
        self.background, self.server = Deferred(), Server()
        options = {"durable": True, "spare": self.spare, "entropy": self.rng.randbytes}
        self.store = Store("state", IDENTITY, disk=self.disk, background=self.background, **options)
        found = self.store.recover(self.server.arrays)
        if found is None:
            assert self.acknowledged is None
        else:
            self.server.version = found.meta["version"]
            assert same(self.server.arrays, self.states[self.server.version])
            self.server.replay(found.entries)
            self.server.changed.clear()
            assert (self.acknowledged or 0) <= self.server.version < len(self.states)
            assert same(self.server.arrays, self.states[self.server.version])
            if not found.remarks:
                self.acknowledged = self.server.version
            self.server.changed.update(range(len(self.server.arrays["rows"])))
        del self.states[self.server.version + 1 :]
        if self.acknowledged is not None and self.rng.random() < 0.5 and not self.server.save(self.store, wait=True):
            raise AssertionError("a disk without faults takes a save")

    def act(self):
        what = self.rng.choice(("log", "log", "log", "sync", "sync", "save", "save", "wait", "step", "step", "faults"))
        if what == "log":
            self.store.log(self.server.update(self.rng.randrange(5), float(self.rng.randint(-9, 9))))
            self.states.append(self.server.copy())
        elif what == "sync":
            try:
                self.store.sync()
            except OSError:
                return
            self.acknowledged = self.server.version
        elif what == "save":
            self.server.save(self.store)
        elif what == "wait":
            rows, self.server.changed = set(self.server.changed), set(range(5))  # a save before it may have failed
            if self.server.save(self.store, wait=True):
                self.acknowledged = self.server.version
            else:
                self.server.changed = rows
        elif what == "step":
            self.background.step()
        else:
            self.disk.faults = some_faults(self.rng)


class TraceOnADisk:
    """A trace, its lines, up to which of them it has acknowledged, and the last state that was saved with its tail."""

    def __init__(self, rng, disk):
        self.rng, self.disk, self.path = rng, disk, Path(rng.choice(("t.csv", "t.csv.gz")))
        self.lines, self.acknowledged, self.saved = [], 0, (0, "")
        self.version, self.again = 0, False
        self.begin()

    def begin(self):
        """Look at what is left of the file, then go on with it."""
        self.disk.faults = NO_FAULTS
        if self.again:
            assert self.disk.stat(self.path) is not None
            found = self._found()
            assert found[: self.acknowledged] == self.lines[: self.acknowledged]
            assert found == self.lines[: len(found)] or self.path.suffix == ".gz"  # which may unpack garbage
        count, tail = self.saved
        self.background = Deferred()
        options = {"keep": count if self.again else None, "tail": tail.splitlines(keepends=True)}
        self.writer = TraceWriter(self.path, {"run": "a"}, **options, disk=self.disk, background=self.background)
        del self.lines[count:]
        if self.again:
            assert self._found() == self.lines
        self.again, self.acknowledged, self.saved = True, count, (count, "")

    def _found(self):
        with self.disk.read(self.path) as stream:
            lines = text_in(str(self.path), stream.read()).split("\n")[2:-1]
        return [line + "\n" for line in lines[: good_lines(lines)]]

    def act(self):
        what = self.rng.choice(("line", "line", "line", "flush", "sync", "wait", "save", "step", "step", "faults"))
        if what == "line":
            for _ in range(self.rng.choice((1, 1, 30))):
                self.version += 1
                loss = self.rng.choice((math.nan, 0.25))
                place = self.version, self.rng.randrange(5), self.version, self.version
                self.writer.report(*place, self.rng.random(), loss)
                self.lines.append(self.writer.lines[-1])
        elif what == "save":  # of the state, which goes to disk at once
            if self.writer.tail is not None:
                self.saved = len(self.lines), self.writer.tail
        elif what == "step":
            self.background.step()
        elif what == "faults":
            self.disk.faults = some_faults(self.rng)
        else:
            try:
                self.writer.flush() if what == "flush" else self.writer.sync(wait=what == "wait")
            except OSError:
                return
            if what == "wait":
                self.acknowledged = len(self.lines)


def torture(kind, seed, disk=SimulatedDisk):
    """A schedule: a few lives, each ended by a crash between two actions, in the midst of one, or by a kill."""
    rng = random.Random(seed)
    life = kind(rng, disk(rng))
    for _ in range(4):
        for _ in range(rng.randrange(25)):
            life.act()
        if rng.random() < 0.5:
            life.disk.left = rng.randrange(12)
            for _ in range(3):
                life.act()
        if rng.random() < 0.2:
            life.disk.kill()
        else:
            life.disk.crash()
        life.begin()


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", [StoreOnADisk, TraceOnADisk])
def test_whatever_happens_what_was_acknowledged_is_found_and_nothing_that_never_was(kind):
    for seed in range(SEEDS):
        try:
            torture(kind, seed)
        except Exception as error:
            raise AssertionError(f"torture({kind.__name__}, {seed})") from error


class Forgetful(SimulatedFile):
    """A file of which nothing reaches the disk."""

    def force(self):
        self._alive()


class ForgetfulDisk(SimulatedDisk):
    """Forgets to force files."""

    def append(self, path, *, create=True):
        file = super().append(path, create=create)
        return Forgetful(self, file._content)


class NamelessDisk(SimulatedDisk):
    """Forgets to force folders."""

    def force_folder(self, folder):
        self.operate()


class EagerDisk(SimulatedDisk):
    """Renames a file before its content is on disk."""

    def replace(self, source, target):
        super().replace(source, target)
        self._content(target).same = 0
        self._content(target).forced.clear()


@pytest.mark.parametrize("kind", [StoreOnADisk, TraceOnADisk])
@pytest.mark.parametrize("disk", [ForgetfulDisk, NamelessDisk, EagerDisk])
def test_it_is_seen_if_the_disk_does_not_keep_its_word(kind, disk):
    def holds(seed):
        try:
            torture(kind, seed, disk)
        except (AssertionError, BadFile, BadInput):
            return False
        return True

    assert not all(holds(seed) for seed in range(SEEDS))


def test_both_are_members_of_the_interface(tmp_path):
    from siag.storage.disk import LOCAL

    def use(disk: Disk, path: Path) -> bytes:
        file: File = disk.append(path)
        assert file.write(b"some") == 4
        file.force()
        assert file.lock()
        assert not disk.append(path).lock()
        disk.replace(path, path.with_name("other"))
        assert file.is_at(path.with_name("other"))
        assert not file.is_at(path)
        assert disk.stat(path) is None
        assert disk.stat(path.with_name("other"))[::2] == (4, True)
        file.truncate(3)
        file.close()
        assert disk.append(path.with_name("other")).lock()
        with disk.read(path.with_name("other")) as stream:
            content = stream.read()
        disk.make_folder(path.parent / "a" / "b")
        assert sorted(disk.names(path.parent)) == ["a", "other"]
        disk.remove(path.with_name("other"))
        with pytest.raises(FileNotFoundError):
            disk.remove(path.with_name("other"))
        with pytest.raises(FileNotFoundError):
            disk.append(path, create=False)
        with pytest.raises(FileNotFoundError):
            disk.append(path.parent / "nowhere" / "file")
        with pytest.raises(OSError, match="directory"):
            disk.append(path.parent / "a")
        return content

    simulated = SimulatedDisk(random.Random(0))
    assert use(LOCAL, tmp_path / "file") == use(simulated, Path("file")) == b"som"
