"""Earlier versions of a model: the last few are kept, each whole or not at all."""

import errno
import os

import numpy as np
import pytest

import siag
from disks import SmallDisk
from siag.foundations.errors import BadFile, BadInput, Missing
from siag.problems import LeastSquares
from siag.storage import read_version, read_versions
from siag.storage.background import Inline
from siag.storage.disk import LOCAL
from siag.storage.history import History, versions_in
from siag.storage.urls import disk_of


def kept_in(folder):
    return [each.version for each in read_versions(folder)]


def a_history(folder, most=3, every=10.0, disk=LOCAL):
    folder.mkdir(exist_ok=True)
    history = History(str(folder), most, every, disk=disk, background=Inline())
    history.begin(0.0)
    return history


def test_the_last_few_are_kept_one_every_so_often(tmp_path):
    history = a_history(tmp_path)
    for version in range(1, 60):
        history.note(version, np.full(2, float(version)), now=float(version))
    assert kept_in(tmp_path) == [30, 40, 50]
    assert read_version(tmp_path, 40).tolist() == [40.0, 40.0]
    assert np.load(tmp_path / "w-000000000040.npy").tolist() == [40.0, 40.0]


def test_what_is_kept_is_a_copy(tmp_path):
    class Later(Inline):
        jobs = []  # noqa: RUF012

        def _do(self, done, job):
            self.jobs.append(job)

    history, w = History(str(tmp_path), 3, 0.0, background=Later()), np.zeros(2)
    history.note(7, w, now=0.0)
    w[:] = 5.0
    Later.jobs.pop()()
    assert read_version(tmp_path, 7).tolist() == [0.0, 0.0]


def test_a_version_half_written_is_not_listed_and_goes_when_the_run_goes_on(tmp_path):
    history = a_history(tmp_path, every=0.0)
    history.note(1, np.ones(2), now=0.0)
    (tmp_path / "w-000000000002.npy.part").write_bytes(b"half")
    assert kept_in(tmp_path) == [1]
    a_history(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["w-000000000001.npy"]


def test_a_full_disk_is_told_until_there_is_room_and_leaves_no_half(tmp_path):
    disk = SmallDisk()
    history = a_history(tmp_path, every=0.0, disk=disk)
    history.note(1, np.ones(2), now=0.0)
    disk.fill(errno.ENOSPC)
    history.note(2, np.ones(2), now=1.0)
    assert "no space" in history.problem
    assert list(versions_in(str(tmp_path))) == [1]
    assert len(list(tmp_path.iterdir())) == 1
    disk.clean()
    history.note(3, np.ones(2), now=2.0)
    assert history.problem is None
    assert kept_in(tmp_path) == [1, 3]


def test_a_run_that_begins_anew_in_the_folder_has_its_own_kept(tmp_path):
    history = a_history(tmp_path, most=2, every=0.0)
    for now, version in enumerate((800, 900, 10, 20)):
        history.note(version, np.ones(1), now=float(now))
        for path in tmp_path.iterdir():  # a second later
            stat = path.stat()
            os.utime(path, (stat.st_atime - 1, stat.st_mtime - 1))
    assert kept_in(tmp_path) == [10, 20]


def test_what_is_not_there_or_damaged_is_one_line(tmp_path):
    a_history(tmp_path, every=0.0).note(5, np.ones(4), now=0.0)
    with pytest.raises(BadFile, match=r"version 6 was not kept; there are: 5"):
        read_version(tmp_path, 6)
    path = tmp_path / "w-000000000005.npy"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(BadFile, match=r"w-000000000005\.npy: cannot be read"):
        read_version(tmp_path, 5)
    with pytest.raises(BadFile, match="cannot be read: no such file or directory"):
        read_versions(tmp_path / "nowhere")


def trained(folder, **options):
    problem = LeastSquares.random(n=2, d=3, p=2, noise=0.1)
    given = {"step": siag.steps.Constant(0.01), "folder": folder, "runtime": siag.Simulated(), **options}
    return siag.train(problem=problem, **given)


def test_a_run_keeps_versions_of_itself(tmp_path):
    folder = tmp_path / "state"
    run = trained(folder, until=siag.Until(seconds=9.0), keep=3, keep_every=2.0)
    versions = kept_in(folder)
    assert len(versions) == 3
    gaps = np.diff(versions) / int(run.t[-1]) * 9.0
    assert ((gaps > 1.5) & (gaps < 3.1)).all()
    assert not np.array_equal(read_version(folder, versions[0]), run.w[0])


def test_a_run_at_a_url_keeps_versions_there():
    trained("memory://kept", until=siag.Until(seconds=9.0), keep=2, keep_every=2.0)
    (last,) = kept_in("memory://kept")  # virtual seconds are too short for more than the save at the end
    assert read_version("memory://kept", last).shape == (3,)
    disk, place = disk_of("folder", "memory://kept", LOCAL)
    history = History(place, 2, 0.0, disk=disk, background=Inline())
    for version in (100, 200):
        history.note(version, np.full(2, float(version)), now=float(version))
    assert kept_in("memory://kept") == [100, 200]
    assert read_version("memory://kept", 100).tolist() == [100.0, 100.0]


def test_mistakes_are_one_line(tmp_path):
    with pytest.raises(Missing, match="folder is missing; say where versions are to be kept"):
        trained(None, until=5, keep=3)
    with pytest.raises(BadInput, match="keep = -1"):
        trained(tmp_path, until=5, keep=-1)
    with pytest.raises(BadInput, match="keep_every = -2"):
        trained(tmp_path, until=5, keep=1, keep_every=-2)
    with pytest.raises(BadInput, match="keep = 3: must be left out with 2 shards; use shards=1"):
        trained(tmp_path, until=5, keep=3, runtime=siag.runtimes.Ray(shards=2))
