"""Made-up storage at URLs, for tests: it fails, waits and dies when they say so."""

import io

from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from waiting import PATIENCE


class Writing(io.BytesIO):
    """A file that is being written to made-up storage."""

    def __init__(self, system, path):
        super().__init__()
        self._system, self._path = system, path
        if not system.whole:
            system.keep(path, b"")

    def write(self, part):
        dies = self._system.call()
        super().write(part[: int(len(part) * self._system.share)] if dies else part)
        if not self._system.whole:
            self._system.keep(self._path, self.getvalue())
        if dies:
            raise OSError("gone")
        return len(part)

    def discard(self):
        self._path = None

    def close(self):
        if not self.closed and self._path is not None:
            dies = self._system.call()
            if not dies or self._system.share > 0.5:
                self._system.keep(self._path, self.getvalue())
            super().close()
            if dies:
                raise OSError("gone")


class Files(MemoryFileSystem):
    """A made-up file system, on which a file appears when it is opened, and grows."""

    protocol = "files"
    whole = False
    store, pseudo_dirs = {}, [""]
    cachable = False

    calls = 0
    dies_at = None  # at which call, with how much of it done
    share = 0.0
    reason = None  # why it fails
    gate = None  # an event that whatever is called waits for

    @classmethod
    def renew(cls):
        cls.store, cls.pseudo_dirs = {}, [""]
        cls.heal()

    @classmethod
    def heal(cls):
        cls.calls, cls.dies_at, cls.share, cls.reason, cls.gate = 0, None, 0.0, None, None

    def call(self):
        """Count a call; whether it is the one to die in."""
        kind = type(self)
        if kind.reason is not None:
            raise OSError(kind.reason)
        if kind.gate is not None:
            assert kind.gate.wait(PATIENCE)
        kind.calls += 1
        if kind.dies_at is not None and kind.calls > kind.dies_at:
            raise OSError("gone")
        return kind.calls == kind.dies_at

    def keep(self, path, content):
        path = self._strip_protocol(path)
        self.store[path] = MemoryFile(self, path, content)

    def open(self, path, mode="rb", **given):
        if mode == "rb":
            self.call()
            return io.BytesIO(MemoryFileSystem.cat_file(self, path))
        return Writing(self, path)

    def pipe_file(self, path, content, **_):
        if self.call():
            raise OSError("gone")
        self.keep(path, content)

    def cat_file(self, path, *given, **named):
        self.call()
        return super().cat_file(path, *given, **named)

    def rm_file(self, path):
        self.call()
        super().rm_file(path)

    def mv(self, source, target, **_):
        dies = self.call()
        if not dies or self.share > 0.5:
            self.keep(target, super().cat_file(source))
            super().rm_file(source)
        if dies:
            raise OSError("gone")


class Objects(Files):
    """A made-up object store, in which a file appears when it is complete."""

    protocol = ("objects", "s3")
    whole = True
    store, pseudo_dirs = {}, [""]

    def mv(self, source, target, **_):
        raise AssertionError("an object store cannot move")

    def makedirs(self, path, exist_ok=False):
        raise AssertionError("an object store has no folders")


KINDS = {"files": Files, "objects": Objects}
