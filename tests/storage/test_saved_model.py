"""The model out of a folder: the newest good save, whoever is writing there."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from siag.foundations.errors import BadFile
from siag.methods import SIAG
from siag.server import ParameterServer
from siag.steps import Constant
from siag.storage import Store, read_model
from siag.storage import saved_model as module
from siag.storage.generations import generations_in
from siag.storage.records import form_of

NAMES = ["north", "south"]
IDENTITY = {"method": "SIAG()", "n": 2, "d": 3}


class Live:
    """A server with a store, as a session has them."""

    def __init__(self, folder, **options):
        self.server = ParameterServer(SIAG(), Constant(0.5), np.zeros(3), NAMES)
        self.store = Store(folder, IDENTITY, **options)
        for name in NAMES:
            self.server.join(name, 0.0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.store.close()

    def report(self, value, row=0):
        server = self.server
        sample = server.members[row].samples
        server.push(row, server.version, np.full(3, float(value)), sample, float(server.version))

    def save(self):
        assert self.store.save(self.server.arrays(), np.arange(2), self.server.meta(9.0), wait=True)


def damage(path, place=-20):
    content = bytearray(path.read_bytes())
    content[place] ^= 255
    path.write_bytes(content)


def test_the_model_is_read_while_its_server_is_at_work(tmp_path):
    with Live(tmp_path) as live:
        for value, row in ((1, 0), (2, 1), (3, 1)):
            live.report(value, row)
            live.save()
            found = read_model(tmp_path)
            assert np.array_equal(found.w, live.server.w)
            assert found.version == live.server.version
        assert os.listdir(tmp_path).count("lock") == 1
        live.report(4)
        live.save()
    assert (found.reports, found.seconds, found.workers) == (3, 9.0, {"north": 1, "south": 2})
    assert (found.about, found.logged, found.remarks) == (IDENTITY, 0, ())
    assert found.written == pytest.approx(os.stat(tmp_path / "state-000001.siag").st_mtime, abs=60)


@pytest.mark.few(1)
@pytest.mark.parametrize("spare", [-10_000, 3_000])
def test_what_is_read_while_it_is_written_is_a_state_that_was_saved(tmp_path, spare):
    with Live(tmp_path, spare=spare) as live:
        states = {0: live.server.w.copy()}
        live.save()
        over = threading.Event()

        def work():
            for k in range(150):
                live.report(k % 7, k % 2)
                states[live.server.version] = live.server.w.copy()
                live.save()
            over.set()

        thread = threading.Thread(target=work)
        thread.start()
        seen = []
        while not over.is_set():
            found = read_model(tmp_path)
            assert np.array_equal(found.w, states[found.version])
            assert found.remarks == ()
            seen.append(found.version)
        thread.join()
        assert seen == sorted(seen)
        assert read_model(tmp_path).version == 150


def test_generations_that_are_replaced_while_they_are_read_are_looked_for_again(tmp_path, monkeypatch):
    with Live(tmp_path, spare=-10_000) as live:
        live.save()
        good_scans, late = module.good_scans, [1.0, 2.0, 3.0]

        def overtaken(*arguments):
            while late:
                live.report(late.pop())
                live.save()
            return good_scans(*arguments)

        monkeypatch.setattr(module, "good_scans", overtaken)
        found = read_model(tmp_path)
        assert min(generations_in(tmp_path)) > 1
        assert (found.version, found.remarks) == (3, ())
        assert np.array_equal(found.w, live.server.w)


def test_a_folder_that_never_rests_is_given_up(tmp_path, monkeypatch):
    with Live(tmp_path, spare=-10_000) as live:
        live.save()
        good_scans = module.good_scans

        def overtaken(*arguments):
            for _ in range(3):
                live.save()
            return good_scans(*arguments)

        monkeypatch.setattr(module, "good_scans", overtaken)
        with pytest.raises(BadFile):
            read_model(tmp_path)


def saved_twice(live):
    """Save, report and save again; w of the first save."""
    live.report(1)
    live.save()
    before = live.server.w.copy()
    live.report(2)
    live.save()
    return before


def test_a_damaged_newest_generation_is_told_and_the_one_before_it_is_used(tmp_path):
    with Live(tmp_path, spare=-10_000) as live:
        before = saved_twice(live)
    damage(tmp_path / "state-000002.siag")
    found = read_model(tmp_path)
    assert np.array_equal(found.w, before)
    assert found.version == 1
    (remark,) = found.remarks
    assert "state-000002.siag: damaged at byte" in remark
    assert "used generation 1" in remark


def test_a_damaged_last_save_is_told_and_the_one_before_it_is_used(tmp_path):
    with Live(tmp_path) as live:
        before = saved_twice(live)
    damage(tmp_path / "state-000001.siag")
    found = read_model(tmp_path)
    assert np.array_equal(found.w, before)
    assert found.remarks[0].startswith("generation 1 is damaged")


def test_entries_logged_after_the_save_are_counted(tmp_path):
    with Live(tmp_path, durable=True) as live:
        live.report(1)
        live.save()
        live.store.log(b"a report")
        live.store.log(b"another")
        live.store.sync()
        assert read_model(tmp_path).logged == 2
        live.save()
        assert read_model(tmp_path).logged == 0


def test_a_folder_without_a_model_is_refused_in_one_line(tmp_path):
    def message(folder):
        with pytest.raises(BadFile) as caught:
            read_model(folder)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    assert message(tmp_path / "nowhere") == f"{tmp_path / 'nowhere'}: cannot be read: no such file or directory"
    assert message(tmp_path / "file").endswith(": not a directory")
    assert message(tmp_path / "empty").startswith(f"{tmp_path / 'empty'}: is empty; give the folder of a run")
    assert message(tmp_path).startswith(f"{tmp_path}: holds no saved state; give the folder of a run")
    with Live(tmp_path / "new"):
        assert "nothing was saved here yet" in message(tmp_path / "new")
    with Live(tmp_path / "bad", spare=-10_000) as live:
        live.save()
        live.save()
    for path in generations_in(tmp_path / "bad").values():
        damage(Path(path))
    assert message(tmp_path / "bad").endswith("put back a copy of the folder")
    with Store(tmp_path / "other", {}) as store:
        assert store.save({"v": np.zeros(2)}, np.arange(0), {}, wait=True)
    assert message(tmp_path / "other").endswith("state-000001.siag: holds no w")
    with Store(tmp_path / "odd", {}) as store:
        assert store.save({"w": np.zeros(2)}, np.arange(0), {}, wait=True)
    assert message(tmp_path / "odd").endswith("is not the state of a live run")


def test_forms_are_read_as_layouts_write_them():
    assert form_of("<f8 ()") == (np.dtype("f8"), ())
    assert form_of("<f4 (5, 3)") == (np.dtype("f4"), (5, 3))
    assert form_of(">f8 (7,)") == (np.dtype(">f8"), (7,))
