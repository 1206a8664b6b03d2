"""A state of which every part follows from its history, and how it is saved and found."""

import random
import struct

import numpy as np
from tests.torture.disk import SimulatedDisk

from siag.storage.disk import LOCAL
from siag.storage.store import Store

N, D = 5, 4
IDENTITY = {"method": "SIAG", "n": N, "d": D}
ENTRY = struct.Struct("<qqd")  # version, row, value


class Server:
    """Row i holds the last number reported for it."""

    def __init__(self, n=N, d=D):
        self.arrays = {
            "rows": np.zeros((n, d)),
            "half": np.zeros((n, 2, 2), np.float32),
            "w": np.zeros(d),
            "total": np.zeros(d),
            "seen": np.zeros(n, bool),
            "tally": np.zeros((), np.int64),
        }
        self.version = 0
        self.changed = set()

    def update(self, i, value):
        """Take a report; return the entry to be logged."""
        arrays = self.arrays
        arrays["total"] += value - arrays["rows"][i]
        arrays["rows"][i] = value
        arrays["half"][i] = value
        arrays["w"] -= 0.25 * value
        arrays["seen"][i] = True
        arrays["tally"] += 1
        self.version += 1
        self.changed.add(i)
        return ENTRY.pack(self.version, i, value)

    def replay(self, entries):
        """Take logged reports again, each of which must be the next."""
        for entry in entries:
            version, i, value = ENTRY.unpack(entry)
            assert version == self.version + 1
            self.update(i, value)

    def save(self, store, **options):
        rows = np.array(sorted(self.changed), np.int64)
        taken = store.save(self.arrays, rows, {"version": self.version}, **options)
        if taken:
            self.changed.clear()
        return taken

    def copy(self):
        return {name: array.copy() for name, array in self.arrays.items()}


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def a_disk(seed=0):
    return SimulatedDisk(random.Random(seed))


def recovered(folder, disk=LOCAL, **options):
    """The server found in a folder, and what was said about it; None if there is none."""
    server = Server()
    with Store(folder, IDENTITY, disk=disk, **options) as store:
        found = store.recover(server.arrays)
    if found is not None:
        server.version = found.meta["version"]
    return server, found


def files(folder, disk=LOCAL):
    return sorted(name for name in disk.names(folder) if name.startswith("state-"))


def content_of(path, disk):
    with disk.read(path) as stream:
        return stream.read()


def overwrite(path, content, disk):
    file = disk.append(path)
    file.truncate(0)
    file.write(content)
    file.force()
    file.close()
    disk.force_folder(path.parent)
