"""Saving: what is found after a crash, a full disk or a damaged file is a state that was saved, whole."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from states import IDENTITY, D, N, Server, a_disk, content_of, files, overwrite, recovered, same
from tests.torture.disk import Deferred, DiskFaults, SimulatedDisk

from refusals import failing, refused
from siag.foundations.errors import BadFile, BadInput, reason_of
from siag.storage.background import Inline
from siag.storage.disk import LocalDisk
from siag.storage.records import HEADER, MAGIC, make_record
from siag.storage.store import Store

FOLDER = Path("state")
FIRST = FOLDER / "state-000001.siag"
NO_SPACE, FAILS = DiskFaults(no_space=1.0), DiskFaults(force_error=1.0)
FULL, FAILED = (reason_of(OSError(number, os.strerror(number))) for number in (errno.ENOSPC, errno.EIO))


def a_store(disk, background=None, **options):
    return Store(FOLDER, IDENTITY, disk=disk, background=background or Inline(), **options)


def found_on(disk):
    return recovered(FOLDER, disk)


def history(disk, saves=4, **options):
    """Save a few states; return all of them."""
    server, states = Server(), []
    with a_store(disk, **options) as store:
        for k in range(saves):
            server.update(k % N, 1.5 + k)
            assert server.save(store, wait=True)
            states.append(server.copy())
    return states


def damage(path, disk, place):
    content = bytearray(content_of(path, disk))
    content[place] ^= 255
    overwrite(path, content, disk)


# What is found -------------------------------------------------------------------------------------------------------


def test_what_was_saved_is_found_again_on_a_real_disk(tmp_path):
    folder, server = tmp_path / "new" / "folder", Server()
    assert recovered(folder)[1] is None
    with Store(folder, IDENTITY) as store:
        for k in range(4):
            server.update(k, 1.5 + k)
            assert server.save(store, wait=True)
    other, found = recovered(folder)
    assert same(other.arrays, server.arrays)
    assert (found.meta, found.entries, found.remarks) == ({"version": 4}, [], ())
    assert files(folder) == ["state-000001.siag"]


def test_arrays_of_any_order_and_size_are_found_again():
    disk = a_disk()
    arrays = {"f": np.asfortranarray(np.arange(15.0).reshape(5, 3)), "none": np.zeros((5, 0)), "z": np.ones(2, complex)}
    with a_store(disk) as store:
        assert store.save(arrays, np.arange(0), {}, wait=True)
        arrays["f"][3] = -1
        assert store.save(arrays, np.array([3]), {}, wait=True)
    there = {name: np.zeros_like(array) for name, array in arrays.items()}
    with a_store(disk) as store:
        assert store.recover(there) is not None
    assert same(there, arrays)


def test_only_rows_that_changed_are_written():
    n, d, disk = 100, 1000, a_disk()
    state = {"rows": np.ones((n, d)), "w": np.zeros(d)}
    with Store(FOLDER, {"n": n}, disk=disk) as store:
        assert store.save(state, np.arange(0), {}, wait=True)
        before = disk.stat(FIRST).size
        assert n * d * 8 < before < n * d * 8 + 10_000
        assert store.save(state, np.array([7, 50]), {}, wait=True)
        assert 3 * d * 8 < disk.stat(FIRST).size - before < 3 * d * 8 + 200


def test_a_save_is_a_copy_of_the_moment():
    disk, server = a_disk(), Server()
    with a_store(disk, Deferred()) as store:
        server.update(1, 2.0)
        state = server.copy()
        assert server.save(store)
        server.update(1, 3.0)
        assert not server.save(store)
        assert server.changed == {1}
    assert same(found_on(disk)[0].arrays, state)


def test_a_file_that_has_grown_is_followed_by_a_new_one_and_the_previous_one_is_kept():
    disk = a_disk()
    states = history(disk, saves=40, spare=0)
    names = files(FOLDER, disk)
    assert len(names) == 2
    assert names[1] > "state-000003.siag"
    disk.remove(FOLDER / names[1])
    assert any(same(found_on(disk)[0].arrays, state) for state in states)


@pytest.mark.parametrize("spare", [0, 1000])
def test_a_store_goes_on_after_it_was_reopened(spare):
    disk = a_disk()
    for k in range(6):
        with a_store(disk, spare=spare) as store:
            server = Server()
            found = store.recover(server.arrays)
            assert (found is None) == (k == 0)
            assert server.arrays["tally"] == k
            server.update(k % N, 7.0 + k)
            assert server.save(store, wait=True)


def test_entries_follow_the_save_that_does_not_cover_them():
    disk, server = a_disk(), Server()
    with a_store(disk, durable=True) as store:
        assert server.save(store, wait=True)
        store.log(b"one", memoryview(b" and a half"))
        assert server.save(store, wait=True)
        store.log(b"two", np.arange(2, dtype=np.uint8).data)
        store.log()
        store.sync()
        assert store.logged == 3
        store.log(b"not forced to disk")
    assert found_on(disk)[1].entries == [b"two\0\1", b"", b"not forced to disk"]


@pytest.mark.parametrize("full", [True, False])
def test_entries_logged_while_the_state_is_being_written_are_kept(full):
    """Whichever comes first in the file, and also if the file they were first written to is gone."""
    disk, server, background = a_disk(), Server(), Deferred()
    with a_store(disk, background, durable=True, spare=-10_000 if full else 10_000) as store:
        assert server.save(store, wait=True)
        store.log(b"covered")
        assert server.save(store)
        store.log(b"during")
        store.sync()
        assert background.step()
        store.log(b"after")
        store.sync()
    assert files(FOLDER, disk) == ["state-000001.siag", "state-000002.siag"][: 1 + full]
    if full:
        disk.remove(FIRST)
    assert found_on(disk)[1].entries == [b"during", b"after"]


def test_entries_can_be_logged_before_the_first_save_after_a_crash():
    disk, server = a_disk(), Server()
    with a_store(disk, durable=True) as store:
        assert server.save(store, wait=True)
        store.log(b"first")
        store.log(b"torn")
    overwrite(FIRST, content_of(FIRST, disk)[:-2], disk)
    with a_store(disk, durable=True) as store:
        assert store.recover(server.arrays).entries == [b"first"]
        store.log(b"second")
        store.sync()
    found = found_on(disk)[1]
    assert (found.entries, found.remarks) == ([b"first", b"second"], ())


# Damage --------------------------------------------------------------------------------------------------------------


def test_a_file_cut_anywhere_gives_an_earlier_state_or_is_refused():
    disk, reached = a_disk(), set()
    states = history(disk)
    content = content_of(FIRST, disk)
    for cut in range(len(content)):
        overwrite(FIRST, content[:cut], disk)
        server = Server()
        with a_store(disk) as store:
            try:
                found = store.recover(server.arrays)
            except BadFile:
                assert not any(array.any() for array in server.arrays.values())
                continue
        assert found.remarks == ()
        assert same(server.arrays, states[found.meta["version"] - 1])
        reached.add(found.meta["version"])
    assert reached == {1, 2, 3}


def test_a_flipped_bit_anywhere_never_gives_wrong_data():
    """The file holds saves and entries; what is found is a state that was saved, with entries that follow it."""
    disk, server, states, entries = a_disk(), Server(), {}, []
    with a_store(disk, durable=True) as store:
        for k in range(3):
            server.update(k, 1.5 + k)
            states[server.version] = server.copy()
            assert server.save(store, wait=True)
            entries += [b"entry %d" % k, b"and %d" % k]
            store.log(entries[-2])
            store.log(entries[-1])
            store.sync()
    content = content_of(FIRST, disk)
    refused = 0
    for place in range(len(content)):
        flipped = content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :]
        overwrite(FIRST, flipped, disk)
        server = Server()
        with a_store(disk) as store:
            try:
                found = store.recover(server.arrays)
            except BadFile:
                refused += 1
                assert not any(array.any() for array in server.arrays.values())
                continue
        version = found.meta["version"]
        assert same(server.arrays, states[version])
        after = entries[2 * (version - 1) :]
        assert found.entries == after[: len(found.entries)]
        assert found.remarks or (version == 3 and found.entries == after)  # nothing is missing without a word
    assert 0 < refused < len(content)


def test_a_damaged_save_loses_nothing_that_was_logged():
    disk, server = a_disk(), Server()
    with a_store(disk, durable=True) as store:
        assert server.save(store, wait=True)
        for k in range(3):
            store.log(server.update(k, 2.0))
            store.sync()
            end = disk.stat(FIRST).size
            assert server.save(store, wait=True)
    damage(FIRST, disk, end + 50)
    other, found = found_on(disk)
    other.replay(found.entries)
    assert same(other.arrays, server.arrays)
    assert found.remarks == (f"generation 1 is damaged at byte {end}; used what is intact of it",)


def test_the_previous_generation_stands_in_for_a_damaged_one():
    disk, server, states = a_disk(), Server(), []
    with a_store(disk, durable=True, spare=-10_000) as store:
        for k in range(4):
            server.update(k, 3.0)
            states.append(server.copy())
            assert server.save(store, wait=True)
            store.log(b"after %d" % server.version)
            store.sync()
    assert files(FOLDER, disk) == ["state-000003.siag", "state-000004.siag"]
    damage(FOLDER / "state-000004.siag", disk, 400)
    other = Server()
    with a_store(disk, durable=True) as store:
        found = store.recover(other.arrays)
        assert same(other.arrays, states[2])
        assert found.meta == {"version": 3}
        assert found.entries == [b"after 3", b"after 4"]  # the second from the damaged file
        (remark,) = found.remarks
        assert "state-000004.siag: damaged at byte" in remark
        assert "used generation 3" in remark
        store.log(b"too early")
        with pytest.raises(OSError, match="save first"):
            store.sync()
        assert other.save(store, wait=True)
        store.log(b"in time")
        store.sync()
    assert files(FOLDER, disk) == ["state-000003.siag", "state-000004.siag", "state-000005.siag"]
    found = found_on(disk)[1]
    assert (found.entries, found.remarks) == ([b"in time"], ())


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"PK\3\4 a foreign file", b"\x89sia", bytes(500)])
def test_a_foreign_file_is_refused(content):
    disk, server = a_disk(), Server()
    disk.make_folder(FOLDER)
    overwrite(FIRST, content, disk)
    with a_store(disk) as store:
        with pytest.raises(BadFile, match=r"state-000001\.siag: .*; put back a copy, or move what is there away"):
            store.recover(server.arrays)
        with pytest.raises(BadFile, match="holds a saved state"):
            server.save(store)


def test_a_state_of_another_format_is_refused_even_if_an_older_one_is_there():
    disk, text = a_disk(), b"{}"
    history(disk)
    checksum = zlib.crc32(text, zlib.crc32(HEADER.pack(MAGIC, 1, len(text), 0)))
    overwrite(FOLDER / "state-000002.siag", HEADER.pack(MAGIC, 1, len(text), checksum) + text, disk)
    with pytest.raises(BadFile, match=r"state-000002\.siag: of format 1, not 3; use the version of siag that wrote it"):
        found_on(disk)


def test_a_record_of_a_kind_that_is_not_known_is_refused():
    disk = a_disk()
    history(disk)
    content = bytes(content_of(FIRST, disk))
    salt = HEADER.unpack_from(content)[-1]
    overwrite(FIRST, content + b"".join(make_record(9, 1, [b"new"], salt)), disk)
    with pytest.raises(BadFile, match=r"state-000001\.siag: a record of kind 9, unknown here"):
        found_on(disk)


def test_a_state_of_another_server_is_refused():
    disk = a_disk()
    history(disk)
    for identity, message in (
        ({**IDENTITY, "method": "SAG"}, "method is 'SIAG' there and 'SAG' here"),
        ({"n": N, "d": D}, "method is 'SIAG' there and not given here"),
        ({**IDENTITY, "seed": 1}, "seed is not given there and 1 here"),
    ):
        with Store(FOLDER, identity, disk=disk) as store, pytest.raises(BadFile, match=message):
            store.recover(Server().arrays)
    for name, array, message in (
        ("w", np.zeros(D, np.float32), r"array w is '<f8 \(4,\)' there and '<f4 \(4,\)' here"),
        ("rows", np.zeros((N, D + 1)), r"array rows is '<f8 \(5, 4\)' there and '<f8 \(5, 5\)' here"),
        ("new", np.zeros(1), r"array new is not given there"),
    ):
        server = Server()
        server.arrays[name] = array
        with a_store(disk) as store, pytest.raises(BadFile, match=message):
            store.recover(server.arrays)
        assert not server.arrays["rows"].any()


def test_two_stores_cannot_share_a_folder_be_it_in_two_processes(tmp_path):
    code = "import sys, siag.storage; siag.storage.Store(sys.argv[1], {}); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(BadFile, match="in use by another server; stop that one, or choose another folder"):
            Store(tmp_path, IDENTITY)
    with Store(tmp_path, IDENTITY) as store:
        with pytest.raises(BadFile):
            Store(tmp_path, IDENTITY)
        store.close()
        Store(tmp_path, IDENTITY).close()


def test_mistakes_are_told(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with refused("folder"):
            Store(folder, IDENTITY)
    server = Server()
    with a_store(a_disk()) as store:
        with pytest.raises(BadInput, match="durable"):
            store.log(b"")
        with pytest.raises(BadInput, match="numbers or truth values"):
            store.save({"o": np.array([None])}, np.arange(0), {})
        assert server.save(store, wait=True)
        with pytest.raises(BadInput, match="as in the saves before"):
            store.save({"w": np.zeros(2)}, np.arange(0), {})
        with pytest.raises(IndexError):
            store.save(server.arrays, np.array([N]), {})
    store.close()


# Disks that fail -----------------------------------------------------------------------------------------------------


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
