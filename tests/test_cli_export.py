"""`siag export` as a user meets it, beside a server that holds the folder."""

import re

import numpy as np
import pytest

from siag.methods import SIAG
from siag.server import ParameterServer
from siag.steps import Constant
from siag.storage import Store
from siag.storage.background import Inline
from siag.storage.history import History
from terminals import typed

W = [-0.05, 1 / 3, -1e-300]


@pytest.fixture
def export(monkeypatch, capsys):
    return lambda *words: typed(monkeypatch, capsys, "export", *words)


@pytest.fixture
def locked(tmp_path):
    """The folder of a server that is at work, and the store with which this process has it locked."""
    server = ParameterServer(SIAG(), Constant(0.5), np.zeros(3), 1)
    server.push(0, 0, -2.0 * np.array(W), 0, 0.0)
    with Store(tmp_path / "state", {"n": 1}, durable=True) as store:
        assert store.save(server.arrays(), np.arange(1), server.meta(1.0), wait=True)
        yield tmp_path / "state", store


@pytest.fixture
def folder(locked):
    return locked[0]


def read_csv(path):
    assert path.read_text().startswith("w\n")
    return np.loadtxt(path, skiprows=1)


@pytest.mark.parametrize(("name", "read"), [("w.npy", np.load), ("w.csv", read_csv), ("w.txt", np.loadtxt)])
def test_a_model_is_exported_in_full_precision_while_its_server_is_at_work(folder, tmp_path, name, read, export):
    before = sorted(path.name for path in folder.iterdir())
    result = export(folder, tmp_path / name)
    assert result.returncode == 0, result.stderr
    assert read(tmp_path / name).tolist() == W
    assert re.fullmatch(r"version 1, 1 report, d = 3, saved [\d.]+s ago\n", result.stdout)
    assert result.stderr == ""
    assert sorted(path.name for path in folder.iterdir()) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state", name]


def test_a_dash_is_the_standard_output_with_numbers_only(folder, export):
    result = export(folder, "-")
    assert [float(line) for line in result.stdout.splitlines()] == W
    assert result.stderr.startswith("version 1, 1 report,")


def test_what_was_logged_since_the_save_is_counted(locked, export):
    folder, store = locked
    for _ in range(2):
        store.log(b"a report")
    store.sync()
    told = (
        r"version 1, 1 report, d = 3; not in it: 2 entries that the server has logged since that save, the last .* ago"
    )
    assert re.fullmatch(told, export(folder, "-").stderr.strip())


def test_damage_is_told(folder, tmp_path, export):
    path = folder / "state-000001.siag"
    (folder / "state-000002.siag").write_bytes(path.read_bytes()[:30])
    result = export(folder, tmp_path / "w.npy")
    assert result.returncode == 0
    assert "state-000002.siag: damaged in its header; used generation 1" in result.stderr
    assert np.load(tmp_path / "w.npy").tolist() == W


def test_mistakes_are_one_line_and_exit_status_2(folder, tmp_path, export):
    (tmp_path / "taken.npy").mkdir()
    for words, expected in (
        ((tmp_path / "nowhere", "w.npy"), "nowhere: cannot be read: no such file or directory"),
        ((tmp_path / "taken.npy", tmp_path / "w.npy"), "taken.npy: is empty; give the folder of a run"),
        ((folder, tmp_path / "w.mat"), "must be a name that ends in .npy, .csv or .txt, or -"),
        ((folder, tmp_path / "taken.npy"), "there is a folder of this name"),
        ((folder, tmp_path / "no" / "w.npy"), "cannot be written: no such file or directory; make its folder"),
        ((folder,), "Missing argument 'FILE'"),
        ((folder, tmp_path / "w.npy", "--version", "7"), "version 7 was not kept; there are: none; keep=10 keeps"),
        ((folder, tmp_path / "w.npy", "--versions"), "--versions lists them, and goes with FOLDER alone"),
    ):
        result = export(*words)
        assert (result.returncode, result.stdout) == (2, "")
        assert expected in result.stderr
        assert result.stderr.startswith("siag: ")
        assert result.stderr.count("\n") == 1
    assert not (tmp_path / "w.npy").exists()


def test_versions_that_were_kept_are_listed_and_exported(folder, tmp_path, export):
    history = History(str(folder), 5, 0.0, background=Inline())
    for version in (3, 40):
        history.note(version, np.full(2, version / 3), now=float(version))
    listed = export(folder, "--versions")
    lines = r"version 3, kept [\d.]+s ago\nversion 40, kept [\d.]+s ago\nversion 1, the last save, [\d.]+s ago\n"
    assert re.fullmatch(lines, listed.stdout), listed.stderr
    result = export(folder, tmp_path / "w.npy", "--version", "40")
    assert re.fullmatch(r"version 40, d = 2, saved [\d.]+s ago\n", result.stdout), result.stderr
    assert np.load(tmp_path / "w.npy").tolist() == [40 / 3, 40 / 3]
    assert [float(line) for line in export(folder, "-", "--version", "1").stdout.splitlines()] == W
    assert "there are: 3, 40" in export(folder, "-", "--version", "4").stderr
