"""Scratch folders: gone after their owner however it ends, and never heard of by the user."""

import os
import pickle
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from siag.foundations.errors import BadFile, BadInput, SiagError
from siag.live.ray.places import Places
from siag.live.spec import Spec
from siag.storage import scratch as module
from siag.storage.mirror import Mirror
from siag.storage.store import Store

N, D = 3, 4
IDENTITY = {"n": N, "d": D}
OWNER = """
import sys
from siag.live.spec import Spec
from siag.live.ray.places import Places
places = Places(Spec(folder=sys.argv[1]))
places.start()
(places.spec.folder / "state-000009.siag").write_text("newer than all at the URL")
print(places.spec.folder.parent, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files that no other test has."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@contextmanager
def owner(temporary, url):
    """A process with a scratch folder, and that folder."""
    command = [sys.executable, "-c", OWNER, url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(temporary)}, **pipes) as process:
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def kill(process):
    process.kill()
    process.wait()


def test_what_a_killed_process_leaves_is_removed_and_never_used(tmp_path, temporary):
    url = f"file://{tmp_path}/run"
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("a user's")
    with owner(temporary, url) as (killed, dead), owner(temporary, f"{url}-2") as (_, alive):
        assert dead.parent == alive.parent == temporary
        os.symlink(kept, dead / "state" / "link")
        os.symlink(kept, dead / "link")
        kill(killed)
        with Places(Spec(folder=url)) as places:
            assert not dead.exists()
            assert (alive / "state" / "state-000009.siag").exists()
            assert not list(places.spec.folder.iterdir())
        assert sorted(temporary.iterdir()) == [alive]
    assert (kept / "file").read_text() == "a user's"
    assert not list((tmp_path / "run").glob("*.siag"))


def test_what_is_not_certainly_dead_and_ones_own_stays(tmp_path, temporary):
    url = f"file://{tmp_path}/run"
    with owner(temporary, url) as (process, dead):
        kill(process)
    elsewhere = tmp_path / "elsewhere"
    dead.rename(elsewhere)
    (temporary / f"{module.PREFIX}link").symlink_to(elsewhere)
    (temporary / f"{module.PREFIX}file").touch()
    (temporary / f"{module.PREFIX}unlocked").mkdir()
    before = {*temporary.iterdir()}
    Places(Spec(folder=url)).__exit__(None, None, None)
    assert {*temporary.iterdir()} == before
    assert (elsewhere / "state" / "state-000009.siag").exists()

    elsewhere.rename(dead)
    for foreign in (
        mock.patch.object(module.os, "getuid", return_value=os.getuid() + 1),
        mock.patch.object(module.socket, "gethostname", return_value="another"),
    ):
        with foreign:
            Places(Spec(folder=url)).__exit__(None, None, None)
        assert (dead / "state" / "state-000009.siag").exists()
    Places(Spec(folder=url)).__exit__(None, None, None)
    assert not dead.exists()


def test_all_temporary_files_of_a_run_are_in_its_scratch_folder(tmp_path, temporary):
    seen, put = [], Mirror._round

    def note(mirror, scratch):
        seen.append(({*temporary.iterdir()}, scratch))
        return put(mirror, scratch)

    with (
        mock.patch.object(Mirror, "_round", note),
        Places(Spec(folder=f"file://{tmp_path}/run", trace=f"file://{tmp_path}/state")) as places,
    ):
        own = places.spec.folder.parent
        assert places.spec.trace.parent.parent == own
        places.spec.trace.touch()
        places.start()
        assert not places.finish()
    assert seen
    assert all(there == {own} and scratch.parent == own for there, scratch in seen)
    assert not list(temporary.iterdir())


def test_a_url_that_cannot_be_read_leaves_nothing_behind(tmp_path, temporary):
    (tmp_path / "run").mkdir()
    with (
        mock.patch("siag.storage.remote.Remote.sizes", side_effect=PermissionError(13, "Permission denied")),
        pytest.raises(SiagError, match="cannot be read: permission denied"),
    ):
        Places(Spec(folder=f"file://{tmp_path}/run"))
    assert not list(temporary.iterdir())


def test_where_there_are_no_locks_a_scratch_folder_goes_with_its_owner(tmp_path, temporary):
    with mock.patch.object(module, "lock_file", side_effect=OSError(37, "No locks available")):
        with Places(Spec(folder=f"file://{tmp_path}/run")) as places:
            scratch = places.spec.folder.parent
            with Places(Spec(folder=f"file://{tmp_path}/run")):
                assert scratch.exists()
        assert not list(temporary.iterdir())


@pytest.mark.parametrize("shard", [None, 1])
def test_errors_name_the_url(tmp_path, temporary, shard):
    saved = tmp_path / "run" if shard is None else tmp_path / "run" / "shard-1"
    saved.mkdir(parents=True)
    (saved / "state-000001.siag").write_text("something else")
    own = "" if shard is None else "/shard-1"
    with pytest.raises(BadFile) as caught, Places(Spec(folder=f"file://{tmp_path}/run/"), shard) as places:
        Store(Path(f"{places.spec.folder}{own}"), IDENTITY).recover({})
    assert str(caught.value).startswith(f"file://{tmp_path}/run{own}/state-000001.siag: not written by this package; ")
    assert str(temporary) not in str(caught.value)


@pytest.mark.parametrize(("before", "now"), [(None, 0), (None, 1), (0, None)])
def test_a_split_run_does_not_go_on_where_one_was_not_split_nor_the_other_way_round(tmp_path, temporary, before, now):
    saved = tmp_path / "run" if before is None else tmp_path / "run" / "shard-0"
    with Store(saved, IDENTITY) as store:
        store.save({"w": np.zeros(D)}, np.arange(N), {}, wait=True)
    was = "a server whose model was not split" if before is None else "a model that was split over several servers"
    with pytest.raises(BadFile, match=rf"^file://{tmp_path}/run: holds the state of {was}; choose another folder"):
        Places(Spec(folder=f"file://{tmp_path}/run"), now)
    assert not list(temporary.iterdir())


def test_what_is_wrong_with_a_trace_at_a_url_names_that(tmp_path, temporary):
    trace = f"file://{tmp_path}/{'long' * 20}/trace.csv"
    with pytest.raises(BadInput) as caught, Places(Spec(trace=trace)) as places:
        raise BadInput("trace", str(places.spec.trace), "a file that does not exist yet", "move the old one")
    expected = BadInput("trace", trace, "a file that does not exist yet", "move the old one")
    assert str(caught.value) == str(expected)
    assert pickle.loads(pickle.dumps(caught.value)).value == trace


def test_other_errors_are_left_as_they_are(tmp_path, temporary):
    for error in (SiagError("nothing about files"), OSError(28, "No space left on device", str(temporary / "x"))):
        with pytest.raises(type(error)) as caught, Places(Spec(folder=f"file://{tmp_path}/run")):
            raise error
        assert caught.value is error


def test_another_servers_scratch_folder_is_named_by_the_url(tmp_path, temporary):
    with Places(Spec(folder="file:///data/run", trace="file:///data/trace.csv.gz"), 0) as places:
        other = f"/var/tmp/{module.PREFIX}abc_1234/state"
        assert places.named(f"shard 1: {other}/shard-1: holds no save 3") == (
            "shard 1: file:///data/run/shard-1: holds no save 3"
        )
        assert places.named(f"{places.spec.folder}: x; {places.spec.trace}: y") == (
            "file:///data/run: x; file:///data/trace.csv.gz: y"
        )
        assert places.named("/data/state: x") == "/data/state: x"
    with Places(Spec(folder=tmp_path / "run")) as places:
        assert places.named(f"{other}: x") == f"{other}: x"


def test_a_run_in_places_is_found_again(tmp_path, temporary):
    spec = Spec(folder=f"file://{tmp_path}/run", trace=f"file://{tmp_path}/trace.csv")
    with Places(spec) as places, Store(places.spec.folder, IDENTITY) as store:
        store.save({"w": np.arange(float(D))}, np.arange(N), {}, wait=True)
        places.spec.trace.write_text("lines")
        places.start()
        assert not places.finish()
    with Places(spec) as places, Store(places.spec.folder, IDENTITY) as store:
        again = {"w": np.zeros(D)}
        assert store.recover(again) is not None
        assert again["w"].tolist() == list(range(D))
        assert places.spec.trace.read_text() == "lines"


def test_a_url_belongs_to_the_run_that_is_alive(tmp_path, temporary):
    url = f"file://{tmp_path}/run"
    words = f"^{url}: another run is writing there; stop it, or choose another URL$"
    with mock.patch("siag.storage.mirror.PULSE", 0.1), Places(Spec(folder=url)) as first:
        first.start()
        with Places(Spec(folder=url)) as second:
            for _ in range(2):  # whoever saves may have been the first to hear
                with pytest.raises(SiagError, match=words):
                    second.start()
            with pytest.raises(SiagError, match=words):
                second.publish()
        assert not first.finish()
    with Places(Spec(folder=url)) as third:
        third.start()


@pytest.mark.parametrize("run", [None, "one"])
def test_a_killed_servers_url_is_taken_over_and_at_once_by_the_same_run(tmp_path, temporary, run):
    url = f"file://{tmp_path}/run"
    with owner(temporary, url) as (process, _):
        kill(process)
    (tmp_path / "run" / "owner").write_text("one before")
    seconds = 0.1 if run is None else 1e6
    with mock.patch("siag.storage.mirror.PULSE", seconds), Places(Spec(folder=url), run=run) as places:
        places.start()
        assert not places.finish()


def test_a_run_that_was_taken_over_says_so_at_its_end(tmp_path, temporary):
    url = f"file://{tmp_path}/run"
    with Places(Spec(folder=url)) as first:
        first.start()
        with mock.patch("siag.storage.mirror.PULSE", 0.01), Places(Spec(folder=url)) as second:
            second.start()  # the first one's pulse is too slow for it
            assert first.finish() == f"{url}: another run has taken it over; what is there is not this run's"
            assert not second.finish()
