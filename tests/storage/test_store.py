"""Saving: what was saved is found again; what is foreign, or in use, is refused."""

import subprocess
import sys
import zlib

import numpy as np
import pytest
from states import IDENTITY, D, N, Server, a_disk, content_of, files, overwrite, recovered, same
from stores import FIRST, FOLDER, a_store, found_on, history
from tests.torture.disk import Deferred

from refusals import refused
from siag.foundations.errors import BadFile, BadInput
from siag.storage.records import HEADER, MAGIC, make_record
from siag.storage.store import Store


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
    with pytest.raises(BadFile, match=r"state-000002\.siag: of format 1"):
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
