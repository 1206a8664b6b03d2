"""Saving on disks that are full, fail or have no locks, and by servers that are killed."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from states import IDENTITY, Server, a_disk, content_of, files, recovered, same
from stores import FIRST, FOLDER, a_store, found_on
from tests.torture.disk import DiskFaults, SimulatedDisk

from refusals import failing
from siag.foundations.errors import reason_of
from siag.storage.disk import LocalDisk
from siag.storage.store import Store

NO_SPACE, FAILS = DiskFaults(no_space=1.0), DiskFaults(force_error=1.0)
FULL, FAILED = (reason_of(OSError(number, os.strerror(number))) for number in (errno.ENOSPC, errno.EIO))


class SmallDisk(SimulatedDisk):
    """Has room for so many bytes more."""

    room = 1 << 30

    def append(self, path, *, create=True):
        file = super().append(path, create=create)
        write = file.write

        def limited(content):
            if self.room == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done = write(content[: self.room])
            self.room -= done
            return done

        file.write = limited
        return file


@pytest.mark.parametrize("spare", [-10_000, 4 << 20])
@pytest.mark.parametrize("room", [0, 1, 40, 150])
def test_a_full_disk_is_told_and_nothing_is_missing_when_there_is_room_again(room, spare):
    disk, server = SmallDisk(random.Random(0)), Server()
    with a_store(disk, spare=spare) as store:
        server.update(0, 1.0)
        assert server.save(store, wait=True)
        saved = content_of(FIRST, disk)
        disk.room = room
        server.update(1, 2.0)
        assert server.save(store)  # taken; training goes on
        server.update(2, 3.0)
        assert not server.save(store, wait=True)
        assert store.problem == FULL
        assert content_of(FIRST, disk) == saved
        disk.room = 1 << 30
        assert server.save(store, wait=True)
        assert store.problem is None
        assert not [name for name in disk.names(FOLDER) if name.endswith(".part")]
    assert same(found_on(disk)[0].arrays, server.arrays)


def test_a_write_without_progress_is_an_error_not_a_hang(tmp_path, monkeypatch):
    server = Server()
    with Store(tmp_path, IDENTITY) as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda file, part: 0)
            assert not server.save(store, wait=True)
        assert store.problem == "a write made no progress"
        assert server.save(store, wait=True)


@pytest.mark.parametrize("faults", [NO_SPACE, FAILS, DiskFaults(folder_error=1.0), DiskFaults(replace_error=1.0)])
def test_a_disk_that_fails_is_told_as_long_as_it_does(faults):
    disk, server = a_disk(), Server()
    with a_store(disk, spare=-10_000) as store:
        server.update(0, 1.0)
        assert server.save(store, wait=True)
        disk.faults = faults
        for k in range(3):
            server.update(k, 2.0)
            assert not server.save(store, wait=True)
            assert store.problem in (FULL, FAILED)
        disk.faults = DiskFaults()
        assert server.save(store, wait=True)
        assert store.problem is None
    other, found = found_on(disk)
    assert same(other.arrays, server.arrays)
    assert found.remarks == ()


def test_a_folder_that_was_deleted_is_told_and_made_anew(tmp_path):
    server, folder = Server(), tmp_path / "state"
    with Store(folder, IDENTITY) as store:
        server.update(0, 1.0)
        assert server.save(store, wait=True)
        shutil.rmtree(folder)
        server.update(1, 2.0)
        assert not server.save(store, wait=True)
        assert "deleted" in store.problem
        assert server.save(store, wait=True)
        assert store.problem is None
    other, found = recovered(folder)
    assert found.meta == {"version": 2}
    assert same(other.arrays, server.arrays)


def test_a_folder_that_cannot_be_forced_to_disk_does_not_hide_later_entries():
    disk, server = a_disk(), Server()
    with a_store(disk, durable=True, spare=-10_000) as store:
        assert server.save(store, wait=True)
        disk.faults = DiskFaults(folder_error=1.0)
        assert not server.save(store, wait=True)
        disk.faults = DiskFaults()
        store.log(b"not to be acknowledged")
        with failing(errno.EIO):
            store.sync()
        assert files(FOLDER, disk) == ["state-000001.siag"]
        assert server.save(store, wait=True)
        store.log(b"good")
        store.sync()
    assert found_on(disk)[1].entries == [b"good"]


@pytest.mark.parametrize("faults", [NO_SPACE, FAILS])
def test_entries_that_cannot_be_written_are_not_acknowledged_until_a_save_has_them(faults):
    disk, server = a_disk(), Server()
    with a_store(disk, durable=True) as store:
        assert server.save(store, wait=True)
        store.log(server.update(0, 1.0))
        store.sync()
        disk.faults = faults
        for i in range(1, 3):
            store.log(server.update(i, 2.0))
            with failing(errno.ENOSPC, errno.EIO):
                store.sync()
            assert store.problem
        disk.faults = DiskFaults()
        store.log(server.update(3, 3.0))
        with failing(errno.ENOSPC, errno.EIO):
            store.sync()  # some before it are missing
        assert server.save(store)
        store.log(server.update(4, 4.0))
        store.sync()
        disk.crash()
    other, found = found_on(disk)
    assert (len(found.entries), found.remarks) == (1, ())
    other.replay(found.entries)
    assert same(other.arrays, server.arrays)


def test_a_file_system_without_locks_serves_all_the_same(tmp_path, monkeypatch):
    def unable(file, blocking):
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr("siag.storage.disk.lock_descriptor", unable)
    with Store(tmp_path, IDENTITY, disk=LocalDisk()) as store:
        assert Server().save(store, wait=True)


LATE = """
import sys, threading
import numpy as np
from siag.storage.store import Store

def late():
    threading.main_thread().join()
    with Store(sys.argv[1], {}) as store:
        print(store.save({"w": np.zeros(3)}, np.arange(0), {}, wait=True))

threading.Thread(target=late).start()
"""


def test_a_server_in_a_thread_that_outlives_the_main_one_can_still_save(tmp_path):
    command = [sys.executable, "-c", LATE, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


SAVES = """
import sys
import numpy as np
from siag.storage.store import Store

rows, total = np.zeros((50, 40)), np.zeros(40)
store = Store(sys.argv[1], {"n": 50}, durable=True, spare=20_000)
found = store.recover({"rows": rows, "total": total})
version = 0 if found is None else found.meta["version"]

def update(i, value):
    global version
    total[:] += value - rows[i]
    rows[i] = value
    version += 1

for entry in () if found is None else found.entries:
    update(*np.frombuffer(entry, np.int64))
print(-1, version, flush=True)
store.save({"rows": rows, "total": total}, np.arange(50), {"version": version}, wait=True)
changed = set()
while True:
    entry = np.array([version % 50, version], np.int64)
    store.log(entry.data)
    update(*entry)
    changed.add(int(entry[0]))
    if store.save({"rows": rows, "total": total}, np.array(sorted(changed)), {"version": version}):
        changed.clear()
    if version % 3 == 0:
        store.sync()
        print(version, flush=True)
"""


def test_a_killed_server_is_found_consistent_with_all_it_acknowledged(tmp_path):
    """Killed after a few acknowledgements, wherever it is by then, three times; the last one goes on each time."""
    draw = random.Random(1)
    acknowledged = 0
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", SAVES, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        with process:
            start, version = map(int, process.stdout.readline().split())
            assert start == -1
            assert version >= acknowledged
            for _ in range(draw.randint(1, 60)):
                acknowledged = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            acknowledged = int(([acknowledged, *process.stdout.read().split("\n")[:-1]])[-1])
        rows, total = np.zeros((50, 40)), np.zeros(40)
        with Store(tmp_path, {"n": 50}) as store:
            found = store.recover({"rows": rows, "total": total})
        assert found.remarks == ()
        assert np.array_equal(total, rows.sum(axis=0))
        assert found.meta["version"] + len(found.entries) >= acknowledged
        for k, entry in enumerate(found.entries):
            version = found.meta["version"] + k
            assert np.frombuffer(entry, np.int64).tolist() == [version % 50, version]
