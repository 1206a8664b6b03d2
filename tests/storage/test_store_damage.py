"""A file that is cut or damaged never gives wrong data."""

import pytest
from states import Server, a_disk, content_of, files, overwrite, same
from stores import FIRST, FOLDER, a_store, found_on, history

from siag.foundations.errors import BadFile


def damage(path, disk, place):
    content = bytearray(content_of(path, disk))
    content[place] ^= 255
    overwrite(path, content, disk)


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
