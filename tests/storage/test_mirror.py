"""Copies at a URL: whenever they are cut short, what is there is a saved state, and a trace with all its reports."""

import functools
import os
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

from siag.activity.trace import text_in
from siag.foundations.errors import BadInput, SiagError
from siag.live import parts as module
from siag.storage.generations import generations_in
from siag.storage.mirror import Mirror, check_url, is_url
from siag.storage.remote import Remote
from siag.storage.store import Store
from specs import assembly_of
from waiting import PATIENCE, wait_until

NEVER = 1e6  # seconds
N, D = 3, 4


class Disk(MemoryFileSystem):
    """A made-up file system on which a file appears when it is opened and grows; it can fail, wait, and die."""

    protocol = "disk"
    store, pseudo_dirs = {}, [""]
    cachable = False

    calls = 0
    dies_at = None  # at which call, with how much of it done
    share = 0.0
    reason = None  # why it fails
    gate = None  # an event that whatever is written waits for
    meanwhile = None  # what happens elsewhere during each call

    @classmethod
    def renew(cls):
        cls.store, cls.pseudo_dirs = {}, [""]
        cls.heal()

    @classmethod
    def heal(cls):
        for kind in (Disk, Objects):
            kind.calls, kind.dies_at, kind.share = 0, None, 0.0
            kind.reason = kind.gate = kind.meanwhile = None

    def _call(self):
        """Count a call; whether it is the one to die in."""
        kind = type(self)
        if kind.reason is not None:
            raise OSError(kind.reason)
        if kind.gate is not None:
            assert kind.gate.wait(PATIENCE)
        kind.calls += 1
        if kind.meanwhile is not None:
            kind.meanwhile()
        if kind.dies_at is not None and kind.calls > kind.dies_at:
            raise OSError("gone")
        return kind.calls == kind.dies_at

    def _written(self, path, content):
        dies = self._call()
        if dies:
            content = self._half(content)
        if content is not None:
            super().pipe_file(path, content)
        if dies:
            raise OSError("gone")

    def _half(self, content):
        return content[: int(len(content) * self.share)]

    def put_file(self, source, path, **_):
        self._written(path, Path(source).read_bytes())

    def pipe_file(self, path, content, **_):
        self._written(path, content)

    def cat_file(self, path, *given, **named):
        self._call()
        return super().cat_file(path, *given, **named)

    def rm_file(self, path):
        self._call()
        super().rm_file(path)

    def mv(self, source, target, **_):
        dies = self._call()
        if not dies or self.share > 0.5:
            content = super().cat_file(source)
            super().pipe_file(target, content)
            super().rm_file(source)
        if dies:
            raise OSError("gone")


class Objects(Disk):
    """A made-up object store, in which a file appears when it is complete."""

    protocol = ("objects", "memory")
    store, pseudo_dirs = {}, [""]

    def _half(self, content):
        return content if self.share > 0.5 else None

    def mv(self, source, target, **_):
        raise AssertionError("an object store cannot move")


@pytest.fixture(autouse=True)
def _systems():
    fsspec.register_implementation("disk", Disk, clobber=True)
    fsspec.register_implementation("objects", Objects, clobber=True)
    Disk.renew()
    Objects.renew()
    MemoryFileSystem.store.clear()
    with pulse(NEVER):  # nobody seems alive, unless a test says so
        yield


def pulse(seconds):
    """How often those who copy from now on show that they are alive."""
    return mock.patch("siag.storage.mirror.PULSE", seconds)


class Training:
    """A server with a store and a trace, and what its model was after each report."""

    def __init__(self, folder, history=None, trace=True):
        self.folder, self.trace = folder / "state", folder / "trace.csv" if trace else None
        self.history = {} if history is None else history
        small = functools.partial(Store, spare=0)  # generations follow each other soon
        with mock.patch.object(module, "Store", small):
            self.assembly = assembly_of(list("abc"), D, folder=self.folder, trace=self.trace)
        self.session, self.server = self.assembly.session, self.assembly.server
        self.session.begin(0.0)
        for row in range(N):
            self.session.join(row, 0.0)
        self.rng = np.random.default_rng(self.server.reports)
        self.note()

    def note(self):
        self.history[self.server.reports] = self.server.w.copy()

    def report(self, times=1):
        for _ in range(times):
            row = int(self.rng.integers(N))
            sample = self.server.members[row].samples
            self.session.push(row, self.server.version, self.rng.normal(size=D), sample, 1.0)
            self.note()

    def save(self):
        self.session.save(1.0, wait=True)
        assert self.session.problems == ()

    def mirror(self, system, **options):
        trace = None if self.trace is None else (self.trace, f"{system}://run/trace.csv")
        return Mirror(folder=(self.folder, f"{system}://run/state"), trace=trace, **options)

    def close(self):
        """End in order."""
        self.assembly.run(lambda session: session.finish(2.0))

    def stop(self):
        """Let go of the files, as a kill does."""
        if self.server.trace is not None:
            self.server.trace._close()
        self.session.store.close()


@contextmanager
def training(**options):
    with TemporaryDirectory() as folder:
        run = Training(Path(folder), **options)
        try:
            yield run
        finally:
            run.stop()


@contextmanager
def fetched(system, history):
    """A run that goes on from a URL, on another machine."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        places = (folder / "state", f"{system}://run/state"), (folder / "trace.csv", f"{system}://run/trace.csv")
        Mirror(folder=places[0], trace=places[1]).fetch()
        lines = text_in("", found.read_bytes()).split("\n")[2:-1] if (found := folder / "trace.csv").exists() else []
        run = Training(folder, dict(history))
        try:
            assert len([line for line in lines if line.endswith(",")]) >= run.server.reports
            assert np.array_equal(run.server.w, history[run.server.reports])
            yield run
        finally:
            run.stop()


@settings(max_examples=80)
@given(
    system=st.sampled_from(["disk", "objects"]),
    plan=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    dies_at=st.integers(1, 60),
    share=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    busy=st.booleans(),
)
def test_whenever_copying_is_cut_short_the_run_goes_on_from_a_state_its_trace_has(system, plan, dies_at, share, busy):
    kind = {"disk": Disk, "objects": Objects}[system]
    kind.renew()
    copied = 0  # reports that are known to be there
    with training() as run:

        def go_on():
            run.report(2)
            run.save()

        kind.dies_at, kind.share = dies_at, share
        run.save()
        mirror = run.mirror(system, every=NEVER, run="one")
        with suppress(SiagError):
            mirror.start()
            for reports in plan:
                run.report(reports)
                run.save()
                before, kind.meanwhile = run.server.reports, go_on if busy else None
                if mirror._attempt():  # a round, in this thread
                    copied = before
        kind.heal()
        with fetched(system, run.history) as other:
            assert other.server.reports >= copied
            again = other.mirror(system, every=NEVER, run="one")
            again.fetch()
            other.save()
            again.start()
            other.report(3)
            other.save()
            assert again.push()
            again.close()
            with fetched(system, other.history) as third:
                assert third.server.reports == other.server.reports


def test_a_run_at_a_url_of_each_kind_is_found_again_whole(tmp_path):
    for number, url in enumerate(["memory://bucket", f"file://{tmp_path}/elsewhere/deep", "disk://run"]):
        check_url("folder", f"{url}/state")
        check_url("trace", f"{url}/trace.csv.gz", file=True)
        here = tmp_path / str(number)
        places = {"folder": f"{url}/state", "trace": f"{url}/trace.csv.gz"}
        mirror = Mirror(
            folder=(here / "state", places["folder"]), trace=(here / "trace.csv", places["trace"]), every=0.01
        )
        mirror.fetch()
        run = Training(here)
        mirror.start()
        for _ in range(20):
            run.report(5)
            run.save()
        run.close()
        assert mirror.push(wait=True)
        assert mirror.problem is None
        mirror.close()

        there = tmp_path / f"{number} again"
        copy = Mirror(folder=(there / "state", places["folder"]), trace=(there / "trace.csv", places["trace"]))
        copy.fetch()
        assert contents(there / "state") == contents(here / "state")
        assert (there / "trace.csv").read_bytes() == (here / "trace.csv").read_bytes()
        system, path = fsspec.url_to_fs(url)
        left = sorted(name.rsplit("/", 1)[-1] for name in system.find(path))
        assert left == sorted(["trace.csv.gz", *contents(here / "state")])  # no lock, no mark, no draft
        again = Training(there, run.history)
        assert again.server.reports == 100
        again.stop()


def contents(folder):
    return {path.name: path.read_bytes() for path in generations_in(folder).values()}


def test_only_what_has_changed_is_copied():
    puts = []

    def put_file(source, path, **_):
        puts.append(path.rsplit("/", 1)[1])

    with training() as run, mock.patch.object(Objects, "put_file", side_effect=put_file):
        run.save()
        mirror = run.mirror("objects", every=NEVER)
        mirror.start()
        assert puts == ["state-000001.siag"]
        assert mirror.push()
        assert puts == ["state-000001.siag", "trace.csv"]
        assert mirror.push()
        assert len(puts) == 2
        run.report()
        run.server.trace.flush()
        assert mirror.push()
        assert puts[2:] == ["trace.csv"]
        run.save()
        assert mirror.push()
        assert puts[3:] == ["state-000001.siag"]
        mirror.close()


def test_old_generations_go_after_the_newer_one_is_there():
    with training() as run:
        mirror = run.mirror("objects", every=NEVER)
        mirror.start()
        for _ in range(40):
            run.report()
            run.save()
            assert mirror.push()
            assert state_names(Objects) == set(contents(run.folder))
        assert max(generations_in(run.folder)) > 3
        assert len(generations_in(run.folder)) == 2
        for path in generations_in(run.folder).values():  # a folder that is emptied is no newer state
            path.unlink()
        before = state_names(Objects)
        assert mirror.push()
        assert state_names(Objects) == before
        mirror.close()


def state_names(kind):
    return {path.rsplit("/", 1)[-1] for path in kind.store if path.endswith(".siag")}


def test_a_problem_is_told_and_gone_when_copying_works_again():
    with training() as run:
        run.report()
        run.save()
        mirror = run.mirror("disk", every=0.01)
        mirror.start()
        Disk.reason = "the network\nis down"
        wait_until(lambda: mirror.problem)
        assert mirror.problem == "copying to disk://run/trace.csv and disk://run/state: the network is down"
        assert not mirror.push(wait=True, patience=0.01)
        Disk.heal()
        assert mirror.push(wait=True)
        assert mirror.problem is None
        mirror.close()
    with fetched("disk", run.history) as other:
        assert other.server.reports == 1


def test_nothing_waits_for_a_url_that_does_not_answer():
    with training() as run:
        mirror = run.mirror("disk", every=NEVER)
        mirror.start()
        Disk.gate = gate = threading.Event()
        assert not mirror.push(wait=False)
        for _ in range(3):
            run.report()
            run.save()
        assert run.session.problems == ()
        gate.set()
        assert mirror.push(wait=True)
        mirror.close()
    with fetched("disk", run.history) as other:
        assert other.server.reports == 3


def test_copying_takes_at_most_a_tenth_of_the_time():
    waits, wait_for = [], threading.Condition.wait_for
    rounds = [(7.0, True), (0.01, True), (7.0, False)]  # how long each takes, and whether it succeeds

    def note(condition, predicate, timeout=None):
        waits.append(timeout)
        return wait_for(condition, predicate, 0.001)

    with training() as run, mock.patch("siag.storage.mirror.time") as clock:
        clock.monotonic.return_value = 100.0
        mirror = run.mirror("disk", every=0.5)

        def attempt():
            seconds, good = rounds.pop(0) if rounds else (0.0, True)
            clock.monotonic.return_value += seconds
            return good

        with (
            mock.patch.object(mirror, "_attempt", attempt),
            mock.patch.object(mirror._changed, "wait_for", functools.partial(note, mirror._changed)),
        ):
            mirror.start()
            wait_until(lambda: len(waits) >= 5)
            mirror.close()
    assert waits[:5] == [0.5, 63.0, 0.5, 0.5, 7.0]  # the second last before it is tried again


@contextmanager
def slow(system, seconds, told=True, gone=False):
    """Files take so long to get there; the driver tells of it meanwhile, or does not, and may fail in the end."""

    def put_file(self, source, path, callback=fsspec.callbacks.DEFAULT_CALLBACK, **_):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            threading.Event().wait(0.02)
            if told:
                callback.relative_update(1)
        if gone:
            raise OSError("gone")
        self._written(path, Path(source).read_bytes())

    with mock.patch.object(system, "put_file", put_file):
        yield


def test_a_copy_that_makes_progress_is_waited_for():
    with training(trace=False) as run:
        mirror = run.mirror("objects", every=NEVER)
        mirror.start()
        run.report()
        run.save()
        with slow(Objects, 1.2):
            assert mirror.push(wait=True, patience=0.5)
        run.report()
        run.save()
        with slow(Objects, 1.2), mock.patch("siag.storage.mirror.LAST_ROUND", 0.5):
            mirror.push(wait=False)
            wait_until(lambda: mirror.moving)
            mirror.close()
        assert not mirror._thread.is_alive()
        assert not mirror.moving
        assert Objects().cat_file("objects://run/state/state-000001.siag") == contents(run.folder)["state-000001.siag"]


def test_a_file_that_is_copied_on_this_machine_tells_of_its_progress(tmp_path):
    (tmp_path / "source").write_bytes(bytes(100))
    moves = []
    remote = Remote(f"file://{tmp_path}/there")
    remote.make()
    with mock.patch("siag.storage.remote.PART", 10):
        remote.put(tmp_path / "source", "file", lambda: moves.append(1))
    assert len(moves) == 10
    assert (tmp_path / "there" / "file").read_bytes() == bytes(100)


def test_a_driver_that_says_nothing_has_time_by_the_size_of_the_file():
    with training(trace=False) as run:
        mirror = run.mirror("objects", every=NEVER)
        mirror.start()
        run.report()
        run.save()
        with slow(Objects, 0.5, told=False), mock.patch("siag.storage.mirror_side.SLOWEST", 10.0):
            assert mirror.push(wait=True, patience=0.1)
        run.report()
        run.save()
        with slow(Objects, 0.5, told=False):
            assert not mirror.push(wait=True, patience=0.1)
            mirror.close()


def test_a_copy_that_fails_again_and_again_is_given_up_though_there_is_progress_each_time():
    with training(trace=False) as run:
        mirror = run.mirror("objects", every=NEVER)
        mirror.start()
        run.report()
        run.save()
        with slow(Objects, 0.1, gone=True), mock.patch("siag.storage.mirror.RETRY", 0.05):
            assert not mirror.push(wait=True, patience=0.4)
            mirror.close()
        assert mirror.problem == "copying to objects://run/state: gone"


def test_who_takes_a_url_over_has_it_alone():
    with training() as first:
        first.report()
        first.save()
        mirror = first.mirror("disk", every=NEVER)
        mirror.start()
        assert mirror.push()
        with fetched("disk", first.history) as second:
            with pulse(0.01):
                other = second.mirror("disk", every=NEVER)
            other.fetch()
            other.start()  # the first shows no sign of life, as if its machine slept
            first.report(5)
            first.save()
            before = state_of(Disk)
            assert not mirror.push()
            assert mirror.lost == "disk://run/trace.csv"
            assert mirror.problem == (
                "disk://run/trace.csv: another run has taken it over; this one copies nothing there any more"
            )
            assert not mirror.push()
            mirror.close()
            assert state_of(Disk) == before
            second.report()
            second.save()
            assert other.push()
            assert other.lost is None
            other.close()
    assert not marks(Disk)
    with fetched("disk", second.history) as third:
        assert third.server.reports == 2


def marks(kind):
    """The names of the files that say whose a URL is, and whether he is alive."""
    return {path.rsplit("/", 1)[-1] for path in list(kind.store) if ".siag" not in path and not path.endswith(".csv")}


def state_of(kind):
    """All there is, but for the signs of life."""
    kept = [path for path in list(kind.store) if not path.endswith(".alive") and "draft" not in path]
    return {path: kind.store[path].getvalue() for path in kept}


@pytest.mark.parametrize("system", ["disk", "objects"])
@pytest.mark.parametrize("late", [False, True])
def test_a_run_that_is_alive_keeps_its_url(system, late):
    kind = {"disk": Disk, "objects": Objects}[system]
    with training() as first, pulse(0.05):
        first.save()
        mirror = first.mirror(system, every=NEVER)
        mirror.start()
        assert mirror.push()
        with fetched(system, first.history) as second:
            other = second.mirror(system, every=NEVER)
            if late:
                other.fetch()
                wait_until(lambda: {"owner.alive", "trace.csv.owner.alive"} <= marks(kind))
            before = state_of(kind)
            with pytest.raises(SiagError) as caught:
                other.start()
            url = f"{system}://run/trace.csv"
            assert str(caught.value) == f"{url}: another run is writing there; stop it, or choose another URL"
            assert state_of(kind) == before
            other.close()
        first.report()
        first.save()
        assert mirror.push()
        assert mirror.problem is None
        mirror.close()
    assert not marks(kind)
    with fetched(system, first.history) as third:
        assert third.server.reports == 1


def test_a_run_whose_round_takes_long_is_alive():
    with training(trace=False) as first, pulse(0.05):
        mirror = first.mirror("objects", every=NEVER)
        mirror.start()
        first.report()
        first.save()
        with slow(Objects, 1.0, told=False), training(trace=False) as second:
            mirror.push(wait=False)
            wait_until(lambda: mirror.moving)
            with pytest.raises(SiagError, match="another run is writing there"):
                second.mirror("objects").start()
            assert mirror.moving
        assert mirror.push()
        mirror.close()


def test_a_new_run_that_still_sends_its_first_save_is_alive():
    with training(trace=False) as first, training(trace=False) as second, pulse(0.05):
        first.save()
        mirror = first.mirror("objects", every=NEVER)
        starting = threading.Thread(target=mirror.start)
        with slow(Objects, 1.0):
            starting.start()
            wait_until(lambda: "owner" in marks(Objects))
            with pytest.raises(SiagError, match="another run is writing there"):
                second.mirror("objects").start()
            assert starting.is_alive()
            starting.join(PATIENCE)
        assert mirror.push()
        mirror.close()


def waited(begin):
    """How long those who copy have slept in a call."""
    clock = "siag.storage.mirror.time"
    with mock.patch(f"{clock}.sleep") as sleep, mock.patch(f"{clock}.monotonic") as now:
        now.side_effect = lambda: 100.0 + sum(call.args[0] for call in sleep.call_args_list)
        begin()
        return now() - 100.0


def test_the_url_of_a_run_that_was_killed_is_free_after_a_while():
    with training(trace=False) as first:
        first.save()
        first.mirror("disk", every=NEVER).start()
        with fetched("disk", first.history) as second, pulse(4.0):
            other = second.mirror("disk", every=NEVER)

            def begin():
                other.fetch()
                other.start()

            assert 12.0 <= waited(begin) <= 13.0
            assert other.push()
            other.close()
            assert not marks(Disk)


def test_time_since_fetching_counts():
    with training(trace=False) as first:
        first.save()
        first.mirror("disk", every=NEVER).start()
        with fetched("disk", first.history) as second, pulse(4.0):
            other = second.mirror("disk", every=NEVER)
            with mock.patch("siag.storage.mirror.time.monotonic", return_value=90.0):
                other.fetch()
            assert 2.0 <= waited(other.start) <= 3.0
            other.close()


def test_a_server_that_was_started_again_does_not_wait_for_itself():
    with training(trace=False) as first:
        first.save()
        first.mirror("disk", every=NEVER, run="one").start()
        with fetched("disk", first.history) as second:
            other = second.mirror("disk", every=NEVER, run="one")
            other.fetch()
            assert waited(other.start) == 0.0
            assert other.push()
            other.close()


def test_a_run_that_ends_in_order_leaves_its_url_at_once():
    with training(trace=False) as first, training(trace=False) as second:
        mirror = first.mirror("disk", every=NEVER)
        mirror.start()
        Disk().pipe_file("disk://run/state/owner.alive", b"1")
        other = second.mirror("disk", every=NEVER)
        other.fetch()
        calls, read = [], Remote.read

        def end(remote, name):
            """Between a look at the mark and one at the pulse."""
            content = read(remote, name)
            if not calls:
                calls.append(name)
                mirror.close()
            return content

        with mock.patch.object(Remote, "read", end):
            assert waited(other.start) == 0.0
        other.close()


def test_of_two_that_find_a_dead_run_one_goes_on():
    with training(trace=False) as first, training(trace=False) as second, training(trace=False) as third:
        first.mirror("disk", every=NEVER, run="one").start()
        with pulse(0.2):
            slower = second.mirror("disk", every=NEVER)
        quicker = third.mirror("disk", every=NEVER, run="one")
        slower.fetch()
        quicker.start()
        with pytest.raises(SiagError, match="another run is writing there"):
            slower.start()
        assert quicker.push()
        quicker.close()


def test_of_two_that_start_at_once_one_goes_on():
    with training(trace=False) as first, training(trace=False) as second:
        mirror, other = (run.mirror("disk", every=NEVER) for run in (first, second))
        write = Remote.write

        def both(remote, name, content):
            write(remote, name, content)
            with mock.patch.object(Remote, "write", write), mock.patch.object(other, "_watch"):
                other.start()

        with (
            mock.patch.object(Remote, "write", both),
            pytest.raises(SiagError, match=r"^disk://run/state: another run is writing there; stop it, or choose"),
        ):
            mirror.start()
        assert other.push()
        other.close()


def test_a_run_that_was_taken_over_hears_of_it_between_rounds():
    with training(trace=False) as run, pulse(0.05):
        mirror = run.mirror("objects", every=NEVER)
        mirror.start()
        wait_until(lambda: "owner.alive" in marks(Objects))
        Objects().pipe_file("objects://run/state/owner", b"another")
        wait_until(lambda: mirror.problem)
        wait_until(lambda: not mirror._thread.is_alive())
        assert mirror.lost == "objects://run/state"
        assert not mirror.push()
        mirror.close()
        assert Objects().cat_file("objects://run/state/owner") == b"another"


def test_signs_of_life_that_fail_do_not_end_them():
    with training(trace=False) as run, pulse(0.02):
        mirror = run.mirror("disk", every=NEVER)
        with mock.patch.object(mirror._states, "beat", side_effect=OSError("the network is down")) as beat:
            mirror.start()
            wait_until(lambda: beat.call_count >= 3)
            assert not any(path.endswith(".alive") for path in Disk.store)
        wait_until(lambda: "owner.alive" in marks(Disk))
        assert mirror.problem is None
        mirror.close()


def test_a_small_file_is_written_while_a_large_one_is_on_its_way(tmp_path):
    remote = Remote("disk://run")
    (tmp_path / "large").write_bytes(b"large")
    put = Disk.put_file

    def meanwhile(self, source, path, **options):
        put(self, source, path, **options)
        remote.write("small", b"small")

    with mock.patch.object(Disk, "put_file", meanwhile):
        remote.put(tmp_path / "large", "large", lambda: None)
    assert (remote.read("large"), remote.read("small")) == (b"large", b"small")
    assert remote.sizes().keys() == {"large", "small"}


def test_what_changed_between_fetching_and_starting_is_another_run():
    with training() as first:
        mirror = first.mirror("disk", every=NEVER)
        mirror.start()
        first.report()
        first.save()
        with training() as second:
            other = second.mirror("disk", every=NEVER)
            other.fetch()
            assert mirror.push()
            mirror.close()
            with pytest.raises(SiagError, match=r"^disk://run/trace.csv: another run has just written there; stop it"):
                other.start()
    assert not marks(Disk)


def test_a_url_that_cannot_be_read_or_written_at_the_start_is_an_error(tmp_path):
    mirror = Mirror(folder=(tmp_path / "state", "disk://run"))
    Disk.reason = "no permission"
    with pytest.raises(SiagError, match=r"^disk://run: cannot be written: no permission$"):
        mirror.start()
    Disk.heal()
    with (
        mock.patch.object(Disk, "ls", side_effect=PermissionError(13, "Permission denied")),
        pytest.raises(SiagError, match=r"^disk://run: cannot be read: permission denied$"),
    ):
        mirror.fetch()


def test_a_trace_alone_is_copied_too_and_what_is_here_already_stays(tmp_path):
    Objects().pipe_file("objects://run/trace.csv", b"older")
    (tmp_path / "trace.csv").write_bytes(b"newer")
    mirror = Mirror(trace=(tmp_path / "trace.csv", "objects://run/trace.csv"), every=NEVER)
    mirror.fetch()
    assert (tmp_path / "trace.csv").read_bytes() == b"newer"
    mirror.start()
    assert mirror.push()
    mirror.close()
    assert Objects().cat_file("objects://run/trace.csv") == b"newer"


def test_a_trace_that_is_gone_holds_the_state_back():
    with training() as run:
        run.save()
        mirror = run.mirror("objects", every=NEVER)
        mirror.start()
        assert mirror.push()
        before = dict(Objects.store)
        run.report()
        run.save()
        os.rename(run.trace, run.folder / "moved")
        assert not mirror.push(wait=False)
        wait_until(lambda: mirror.problem)
        assert "no such file" in mirror.problem
        assert Objects.store == before
        mirror.close()


def test_urls_are_told_from_paths():
    for url in ("s3://bucket/run", "file:///data", "memory://", "simplecache::s3://bucket/x", "gs://b"):
        assert is_url(url)
    for path in ("/data/run", "run", "C:\\run", "C:/run", "a::b", "", Path("s3://bucket"), None, "/a://b", "./s3://x"):
        assert not is_url(path)


DRIVER = "must be a URL whose driver is installed; {} has none here; {}, on all nodes".format
USELESS = {
    "s4://bucket/run": "must be a URL of a known kind, such as s3://, gs://, az://, hdfs://, sftp:// or file://",
    "s3://bucket/run": DRIVER("s3://", "pip install s3fs"),
    "gs://bucket/run": DRIVER("gs://", "pip install gcsfs"),
    "simplecache::s3://bucket/run": DRIVER("s3://", "pip install s3fs"),
    "sftp://host/run": DRIVER("sftp://", 'SFTPFileSystem requires "paramiko" to be installed'),
    "file:///proc/run": "must be a URL that can be written; no such file or directory",
    "disk://run": "must be a URL that can be written; no permission here",
}


@pytest.mark.parametrize("url", USELESS)
def test_a_url_that_is_no_use_is_refused_in_one_line(url):
    Disk.reason = "no permission\nhere"
    with pytest.raises(BadInput) as caught:
        check_url("folder", url)
    assert str(caught.value) == f"folder = {url!r}: {USELESS[url]}"


def test_a_url_that_does_not_answer_or_does_not_keep_is_refused():
    Disk.gate = gate = threading.Event()
    with pytest.raises(BadInput, match=r"must be a URL that can be written; no answer within 0.01 seconds$"):
        check_url("folder", "disk://run", patience=0.01)
    gate.set()
    wait_until(lambda: not any(thread.name == "siag-check-url" for thread in threading.enumerate()))
    with (
        mock.patch.object(Objects, "_written"),
        pytest.raises(BadInput, match="what was written there is not what is read back"),
    ):
        check_url("folder", "objects://run")
    with pytest.raises(BadInput, match=r"^trace = 'objects://run/': must be the URL of a file; it must not end in /$"):
        check_url("trace", "objects://run/", file=True)


def test_a_check_leaves_nothing_behind():
    check_url("folder", "disk://run/state")
    check_url("trace", "objects://run/trace.csv", file=True)
    assert not Disk.store
    assert not Objects.store
