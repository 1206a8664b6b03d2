"""This machine's disk, for tests: it is full when they say so, and processes that write to it can be killed."""

import errno
import os

from siag.storage.background import Inline
from siag.storage.disk import LocalDisk, LocalFile


class SmallDisk(LocalDisk):
    """A disk on which some files take nothing.

    Args:
        full: the number of the error that writing to them fails with; 0: none does.
        only: what is in the names of files this is so for; all by default.
    """

    def __init__(self, full=0, only=""):
        self.full, self.only, self._files = full, only, []

    def append(self, path, *, create=True):
        file = SmallFile(self, path, super().append(path, create=create)._file)
        self._files.append(file)
        return file

    def kill(self):
        """The process that has opened its files is killed."""
        for file in self._files:
            file.close()
        self._files.clear()

    def fill(self, number=errno.ENOSPC):
        """Nothing more is taken."""
        self.full = number

    def clean(self):
        """There is room again."""
        self.full = 0

    def check(self, path):
        if self.full and self.only in os.path.basename(path):
            raise OSError(self.full, os.strerror(self.full))


class SmallFile(LocalFile):
    def __init__(self, disk, path, file):
        super().__init__(file)
        self._disk, self._path = disk, path

    def write(self, content):
        self._disk.check(self._path)
        return super().write(content)

    def force(self):
        self._disk.check(self._path)
        super().force()


def on_disk(runtime, disk):
    """A kind of runtime whose folder and trace are on that disk, written to at once."""

    class OnDisk(runtime):
        def assemble(self, spec, **given):
            return super().assemble(spec, **given | {"disk": disk, "background": lambda _: Inline()})

    return OnDisk
