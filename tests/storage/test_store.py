"""Saving: what is found after a crash, a full disk or a damaged file is a state that was saved, whole."""

import errno
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siag.foundations.errors import BadFile, BadInput, SiagError
from siag.storage import records, writer
from siag.storage import store as module
from siag.storage.store import Store

N, D = 5, 3
IDENTITY = {"method": "SIAG", "n": N, "d": D}


class Server:
    """A state of which every part follows from its history: row i holds the last number reported for it."""

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
        arrays = self.arrays
        arrays["total"] += value - arrays["rows"][i]
        arrays["rows"][i] = value
        arrays["half"][i] = value
        arrays["w"] -= 0.25 * value
        arrays["seen"][i] = True
        arrays["tally"] += 1
        self.version += 1
        self.changed.add(i)

    def entry(self, i, value):
        return struct.pack("<qd", i, value)

    def replay(self, entries):
        for entry in entries:
            self.update(*struct.unpack("<qd", entry))

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


def recovered(folder, **options):
    """The server found in a folder, and what was said about it; None if there is none."""
    server = Server()
    with Store(folder, IDENTITY, **options) as store:
        found = store.recover(server.arrays)
    if found is not None:
        server.version = found.meta["version"]
    return server, found


def files(folder):
    return sorted(path.name for path in Path(folder).glob("state-*"))


def size(folder):
    return sum(path.stat().st_size for path in Path(folder).glob("state-*"))


def history(folder, saves=4, **options):
    """Save a few states; return all of them."""
    server, states = Server(), []
    with Store(folder, IDENTITY, **options) as store:
        for k in range(saves):
            server.update(k % N, 1.5 + k)
            assert server.save(store, wait=True)
            states.append(server.copy())
    return states


def test_what_was_saved_is_found_again(tmp_path):
    states = history(tmp_path / "new" / "folder")
    server, found = recovered(tmp_path / "new" / "folder")
    assert same(server.arrays, states[-1])
    assert found.meta == {"version": 4}
    assert found.entries == []
    assert found.remarks == ()
    assert files(tmp_path / "new" / "folder") == ["state-000001.siag"]


def test_an_empty_folder_holds_nothing(tmp_path):
    assert recovered(tmp_path)[1] is None


def test_arrays_of_any_order_and_size_are_found_again(tmp_path):
    arrays = {"f": np.asfortranarray(np.arange(15.0).reshape(5, 3)), "none": np.zeros((5, 0)), "z": np.ones(2, complex)}
    with Store(tmp_path, IDENTITY) as store:
        assert store.save(arrays, np.arange(0), {}, wait=True)
        arrays["f"][3] = -1
        assert store.save(arrays, np.array([3]), {}, wait=True)
    there = {name: np.zeros_like(array) for name, array in arrays.items()}
    with Store(tmp_path, IDENTITY) as store:
        assert store.recover(there) is not None
    assert same(there, arrays)


def test_only_rows_that_changed_are_written(tmp_path):
    n, d = 100, 1000
    rows, w = np.ones((n, d)), np.zeros(d)
    with Store(tmp_path, {"n": n}) as store:
        assert store.save({"rows": rows, "w": w}, np.arange(0), {}, wait=True)
        before = size(tmp_path)
        assert n * d * 8 < before < n * d * 8 + 10_000
        assert store.save({"rows": rows, "w": w}, np.array([7, 50]), {}, wait=True)
        assert 3 * d * 8 < size(tmp_path) - before < 3 * d * 8 + 200


def test_a_save_is_a_copy_of_the_moment(tmp_path, monkeypatch):
    may_write = threading.Event()
    write = os.write

    def late(*arguments):
        may_write.wait()
        return write(*arguments)

    monkeypatch.setattr(os, "write", late)
    server = Server()
    with Store(tmp_path, IDENTITY) as store:
        server.update(1, 2.0)
        state = server.copy()
        assert server.save(store)
        server.update(1, 3.0)
        assert not server.save(store)
        assert server.changed == {1}
        may_write.set()
    assert same(recovered(tmp_path)[0].arrays, state)


def test_a_file_that_has_grown_is_followed_by_a_new_one_and_the_previous_one_is_kept(tmp_path):
    states = history(tmp_path, saves=40, spare=0)
    names = files(tmp_path)
    assert len(names) == 2
    assert names[1] > "state-000003.siag"
    os.unlink(tmp_path / names[1])
    server, _ = recovered(tmp_path)
    assert any(same(server.arrays, state) for state in states)


@pytest.mark.parametrize("spare", [0, 1000])
def test_a_store_goes_on_after_it_was_reopened(tmp_path, spare):
    for k in range(6):
        with Store(tmp_path, IDENTITY, spare=spare) as store:
            server = Server()
            found = store.recover(server.arrays)
            assert (found is None) == (k == 0)
            assert server.arrays["tally"] == k
            server.update(k % N, 7.0 + k)
            assert server.save(store, wait=True)


def test_entries_follow_the_save_that_does_not_cover_them(tmp_path):
    server = Server()
    with Store(tmp_path, IDENTITY, durable=True) as store:
        assert server.save(store, wait=True)
        store.log(b"one", memoryview(b" and a half"))
        assert server.save(store, wait=True)
        store.log(b"two", np.arange(2, dtype=np.uint8).data)
        store.log()
        store.sync()
        shutil.copytree(tmp_path, tmp_path / "copy")
        store.log(b"not forced to disk")
    assert recovered(tmp_path / "copy")[1].entries == [b"two\0\1", b""]
    assert recovered(tmp_path)[1].entries == [b"two\0\1", b"", b"not forced to disk"]


@pytest.mark.parametrize("full", [True, False])
def test_entries_logged_while_the_state_is_being_written_are_kept(tmp_path, monkeypatch, full):
    """Whichever comes first in the file, and also if the file they were first written to is gone."""
    may_write, is_writing = threading.Event(), threading.Event()
    record = records.make_record

    def late(kind, *arguments):
        if kind != records.ENTRY:
            is_writing.set()
            may_write.wait()
        return record(kind, *arguments)

    server = Server()
    with Store(tmp_path, IDENTITY, durable=True, spare=-10_000 if full else 10_000) as store:
        assert server.save(store, wait=True)
        store.log(b"covered")
        for place in (module, writer):
            monkeypatch.setattr(place, "make_record", late)
        assert server.save(store)
        store.log(b"during")
        if full:  # the old file still takes entries
            is_writing.wait()
            store.sync()
        may_write.set()
        store.sync()
        store.log(b"after")
        store.sync()
    assert files(tmp_path) == ["state-000001.siag", "state-000002.siag"][: 1 + full]
    if full:
        os.unlink(tmp_path / "state-000001.siag")
    assert recovered(tmp_path)[1].entries == [b"during", b"after"]


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), st.integers(0, N - 1), st.integers(-9, 9)),
        st.tuples(st.sampled_from(["save", "save", "wait", "sync", "crash", "reopen"])),
    ),
    max_size=40,
)


@given(actions=ACTIONS, spare=st.sampled_from([-10_000, 0, 300, 4 << 20]))
@settings(max_examples=60)
def test_any_interleaving_recovers_the_exact_state(actions, spare):
    """After a close everything; after a crash at least what was acknowledged, and always a state there was."""
    with tempfile.TemporaryDirectory() as top:
        server, states, acknowledged, folder = Server(), [], 0, Path(top, "0")
        states.append(server.copy())
        store = Store(folder, IDENTITY, durable=True, spare=spare)
        assert store.recover(server.arrays) is None
        assert server.save(store, wait=True)
        for k, (what, *arguments) in enumerate([*actions, ("crash",), ("reopen",)]):
            if what == "update":
                i, value = arguments
                store.log(server.entry(i, value))
                server.update(i, value)
                states.append(server.copy())
            elif what in ("save", "wait"):
                if server.save(store, wait=what == "wait") and what == "wait":
                    acknowledged = server.version
            elif what == "sync":
                store.sync()
                acknowledged = server.version
            else:
                if what == "crash":
                    moved = folder.with_name(f"{k + 1}")
                    copied(folder, moved)
                    store.close()
                    folder = moved
                else:
                    store.close()
                    acknowledged = server.version
                server = Server()
                store = Store(folder, IDENTITY, durable=True, spare=spare)
                found = store.recover(server.arrays)
                assert found.remarks == ()
                server.version = found.meta["version"]
                assert same(server.arrays, states[server.version])
                server.replay(found.entries)
                assert acknowledged <= server.version < len(states)
                assert same(server.arrays, states[server.version])
                del states[server.version + 1 :]
        store.close()


def copied(folder, place):
    """Copy a folder, as a crash at this moment might leave it, while a store may be at work in it."""
    place.mkdir()
    for _ in range(100):
        try:
            for name in files(folder):
                shutil.copyfile(folder / name, place / name)
        except FileNotFoundError:
            for name in files(place):
                os.unlink(place / name)
        else:
            return


def test_a_file_cut_anywhere_gives_an_earlier_state_or_is_refused(tmp_path):
    states = history(tmp_path)
    path = tmp_path / "state-000001.siag"
    content = path.read_bytes()
    server, reached = Server(), set()
    for cut in range(len(content)):
        path.write_bytes(content[:cut])
        for array in server.arrays.values():
            array[...] = 0
        with Store(tmp_path, IDENTITY) as store:
            try:
                found = store.recover(server.arrays)
            except BadFile:
                assert not any(array.any() for array in server.arrays.values())
                continue
        assert found.remarks == ()
        assert same(server.arrays, states[found.meta["version"] - 1])
        reached.add(found.meta["version"])
    assert reached == {1, 2, 3}


def test_a_flipped_byte_anywhere_never_gives_wrong_data(tmp_path):
    """The file holds saves and entries; what is found is a state that was saved, with entries that follow it."""
    server, states, entries = Server(), {}, []
    with Store(tmp_path, IDENTITY, durable=True) as store:
        for k in range(3):
            server.update(k, 1.5 + k)
            states[server.version] = server.copy()
            assert server.save(store, wait=True)
            entries += [b"entry %d" % k, b"and %d" % k]
            store.log(entries[-2])
            store.log(entries[-1])
            store.sync()
    path = tmp_path / "state-000001.siag"
    content = path.read_bytes()
    refused = 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :])
        server = Server()
        with Store(tmp_path, IDENTITY) as store:
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


def test_a_damaged_save_loses_nothing_that_was_logged(tmp_path):
    server = Server()
    with Store(tmp_path, IDENTITY, durable=True) as store:
        assert server.save(store, wait=True)
        for k in range(3):
            store.log(server.entry(k, 2.0))
            server.update(k, 2.0)
            store.sync()
            end = size(tmp_path)
            assert server.save(store, wait=True)
    path = tmp_path / "state-000001.siag"
    content = bytearray(path.read_bytes())
    content[end + 50] ^= 1
    path.write_bytes(content)
    other, found = recovered(tmp_path)
    other.replay(found.entries)
    assert same(other.arrays, server.arrays)
    assert found.remarks == (f"generation 1 is damaged at byte {end}; used what is intact of it",)


def test_the_previous_generation_stands_in_for_a_damaged_one(tmp_path):
    server, states = Server(), []
    with Store(tmp_path, IDENTITY, durable=True, spare=-10_000) as store:
        for k in range(4):
            server.update(k, 3.0)
            states.append(server.copy())
            assert server.save(store, wait=True)
            store.log(b"after %d" % server.version)
            store.sync()
    assert files(tmp_path) == ["state-000003.siag", "state-000004.siag"]
    path = tmp_path / "state-000004.siag"
    content = bytearray(path.read_bytes())
    content[400] ^= 255
    path.write_bytes(content)
    other = Server()
    with Store(tmp_path, IDENTITY, durable=True) as store:
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
    assert files(tmp_path) == ["state-000003.siag", "state-000004.siag", "state-000005.siag"]
    _, found = recovered(tmp_path)
    assert found.entries == [b"in time"]
    assert found.remarks == ()


def test_entries_can_be_logged_before_the_first_save_after_a_crash(tmp_path):
    server = Server()
    with Store(tmp_path, IDENTITY, durable=True) as store:
        assert server.save(store, wait=True)
        store.log(b"first")
        store.sync()
        store.log(b"torn")
    path = tmp_path / "state-000001.siag"
    path.write_bytes(path.read_bytes()[:-2])
    with Store(tmp_path, IDENTITY, durable=True) as store:
        assert store.recover(server.arrays).entries == [b"first"]
        store.log(b"second")
        store.sync()
    _, found = recovered(tmp_path)
    assert found.entries == [b"first", b"second"]
    assert found.remarks == ()


@pytest.mark.parametrize("content", [b"", b"PK\3\4 a foreign file", b"\x89sia", bytes(500)])
def test_a_foreign_file_is_refused(tmp_path, content):
    (tmp_path / "state-000001.siag").write_bytes(content)
    server = Server()
    with Store(tmp_path, IDENTITY) as store:
        with pytest.raises(BadFile, match=r"state-000001\.siag: .*; put back a copy, or move what is there away"):
            store.recover(server.arrays)
        with pytest.raises(BadFile, match="holds a saved state"):
            server.save(store)


def test_a_state_of_another_format_is_refused_even_if_an_older_one_is_there(tmp_path, monkeypatch):
    history(tmp_path)
    monkeypatch.setattr(records, "FORMAT", 2)
    header, _ = records.make_header(IDENTITY, {}, 2)
    (tmp_path / "state-000002.siag").write_bytes(header)
    monkeypatch.undo()
    with pytest.raises(BadFile, match=r"state-000002\.siag: of format 2, not 1"):
        recovered(tmp_path)


def test_a_state_of_another_server_is_refused(tmp_path):
    history(tmp_path)
    for identity, message in (
        ({**IDENTITY, "method": "SAG"}, "method is 'SIAG' there and 'SAG' here"),
        ({"n": N, "d": D}, "method is 'SIAG' there and not given here"),
        ({**IDENTITY, "seed": 1}, "seed is not given there and 1 here"),
    ):
        with Store(tmp_path, identity) as store, pytest.raises(BadFile, match=message):
            store.recover(Server().arrays)
    for name, array, message in (
        ("w", np.zeros(D, np.float32), r"array w is 'float64 \(3,\)' there and 'float32 \(3,\)' here"),
        ("rows", np.zeros((N, D + 1)), r"array rows is 'float64 \(5, 3\)' there and 'float64 \(5, 4\)' here"),
        ("new", np.zeros(1), r"array new is not given there"),
    ):
        server = Server()
        server.arrays[name] = array
        with Store(tmp_path, IDENTITY) as store, pytest.raises(BadFile, match=message):
            store.recover(server.arrays)
        assert not server.arrays["rows"].any()


def test_two_stores_cannot_share_a_folder(tmp_path):
    with Store(tmp_path, IDENTITY) as store:
        with pytest.raises(BadFile, match="in use by another server"):
            Store(tmp_path, IDENTITY)
        store.close()
        Store(tmp_path, IDENTITY).close()


def test_mistakes_are_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="folder that can be written"):
        Store(tmp_path / "file", IDENTITY)
    with pytest.raises(BadInput, match="identity"):
        Store(tmp_path, {"n": object()})
    server = Server()
    with Store(tmp_path, IDENTITY) as store:
        with pytest.raises(BadInput, match="durable"):
            store.log(b"")
        with pytest.raises(BadInput, match="numbers or truth values"):
            store.save({"o": np.array([None])}, np.arange(0), {})
        assert server.save(store, wait=True)
        with pytest.raises(BadInput, match="as in the saves before"):
            store.save({"w": np.zeros(2)}, np.arange(0), {})
        with pytest.raises(IndexError):
            store.save(server.arrays, np.array([N]), {})
        with pytest.raises(SiagError, match="recover comes before"):
            store.recover(server.arrays)
    with pytest.raises(SiagError, match="closed"):
        server.save(store)
    store.close()


class Disk:
    """Makes writing fail: after so many bytes, or when forcing to disk, or when opening."""

    def __init__(self, monkeypatch):
        self.room, self.force, self.fail_open = None, True, False
        self.turn = threading.Lock()
        self.write, self.fsync, self.open = os.write, os.fsync, os.open
        monkeypatch.setattr(os, "write", self._write)
        monkeypatch.setattr(os, "fsync", self._fsync)
        monkeypatch.setattr(os, "open", self._open)

    def _write(self, file, part):
        with self.turn:
            if self.room is None:
                return self.write(file, part)
            if self.room == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done = self.write(file, part[: self.room])
            self.room -= done
            return done

    def _fsync(self, file):
        if not self.force:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.fsync(file)

    def _open(self, path, flags, *arguments, **options):
        if self.fail_open and flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return self.open(path, flags, *arguments, **options)


@pytest.mark.parametrize("spare", [-10_000, 4 << 20])
@pytest.mark.parametrize("room", [0, 1, 40, 150])
def test_a_full_disk_is_told_and_nothing_is_missing_when_there_is_room_again(tmp_path, monkeypatch, room, spare):
    server, disk = Server(), Disk(monkeypatch)
    with Store(tmp_path, IDENTITY, spare=spare) as store:
        server.update(0, 1.0)
        assert server.save(store, wait=True)
        saved = server.copy()
        disk.room = room
        server.update(1, 2.0)
        assert server.save(store)  # taken; training goes on
        server.update(2, 3.0)
        assert not server.save(store, wait=True)
        assert store.problem == "No space left on device"
        copied(tmp_path, tmp_path / "crash")
        disk.room = None
        assert same(recovered(tmp_path / "crash")[0].arrays, saved)
        assert server.save(store, wait=True)
        assert store.problem is None
        assert not list(tmp_path.glob("*.part"))
    assert same(recovered(tmp_path)[0].arrays, server.arrays)


def test_a_write_without_progress_is_an_error_not_a_hang(tmp_path, monkeypatch):
    server = Server()
    with Store(tmp_path, IDENTITY) as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda file, part: 0)
            assert not server.save(store, wait=True)
        assert store.problem == "a write made no progress"
        assert server.save(store, wait=True)


@pytest.mark.parametrize("what", ["force", "fail_open"])
def test_a_disk_that_fails_or_is_read_only_is_told(tmp_path, monkeypatch, what):
    server, disk = Server(), Disk(monkeypatch)
    with Store(tmp_path, IDENTITY, spare=-10_000 if what == "fail_open" else 0) as store:
        server.update(0, 1.0)
        assert server.save(store, wait=True)
        setattr(disk, what, what == "fail_open")
        for k in range(3):
            server.update(k, 2.0)
            assert not server.save(store, wait=True)
            assert store.problem == os.strerror(errno.EIO if what == "force" else errno.EROFS)
        setattr(disk, what, what != "fail_open")
        assert server.save(store, wait=True)
        assert store.problem is None
        assert files(tmp_path)[-1] > "state-000001.siag"
    server_there, found = recovered(tmp_path)
    assert same(server_there.arrays, server.arrays)
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
    found = Server()
    with Store(folder, IDENTITY) as store:
        assert store.recover(found.arrays).meta == {"version": 2}
    assert same(found.arrays, server.arrays)


def test_a_folder_that_cannot_be_forced_to_disk_does_not_hide_later_entries(tmp_path, monkeypatch):
    server = Server()
    with Store(tmp_path, IDENTITY, durable=True, spare=-10_000) as store:
        assert server.save(store, wait=True)

        def fail(folder):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(writer, "force_folder", fail)
            assert not server.save(store, wait=True)
        store.log(b"not to be acknowledged")
        with pytest.raises(OSError, match="Input/output error"):
            store.sync()
        assert files(tmp_path) == ["state-000001.siag"]
        assert server.save(store, wait=True)
        store.log(b"good")
        store.sync()
    assert recovered(tmp_path)[1].entries == [b"good"]


@pytest.mark.parametrize("what", ["room", "force"])
def test_entries_that_cannot_be_written_are_not_acknowledged_until_a_save_has_them(tmp_path, monkeypatch, what):
    server, disk = Server(), Disk(monkeypatch)
    with Store(tmp_path, IDENTITY, durable=True) as store:
        assert server.save(store, wait=True)
        store.log(server.entry(0, 1.0))
        server.update(0, 1.0)
        store.sync()
        setattr(disk, what, 20 if what == "room" else False)
        for i in range(1, 3):
            store.log(server.entry(i, 2.0))
            server.update(i, 2.0)
            with pytest.raises(OSError, match=r"No space left|Input/output error"):
                store.sync()
            assert store.problem
        setattr(disk, what, None if what == "room" else True)
        store.log(server.entry(3, 3.0))
        server.update(3, 3.0)
        with pytest.raises(OSError, match=r"No space left|Input/output error"):
            store.sync()  # some before it are missing
        assert server.save(store)
        store.log(server.entry(4, 4.0))
        server.update(4, 4.0)
        store.sync()
        copied(tmp_path, tmp_path / "crash")
    other, found = recovered(tmp_path / "crash")
    assert found.remarks == ()
    assert len(found.entries) == 1
    other.replay(found.entries)
    assert same(other.arrays, server.arrays)


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
    """Killed after a few acknowledgements, wherever it is by then, five times; the last one goes on each time."""
    draw = random.Random(1)
    acknowledged = 0
    for _ in range(5):
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
