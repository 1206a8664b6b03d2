"""Runs at a URL: whenever an upload is cut short, a saved state is there, and a trace with all its reports."""

import functools
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st
from systems import KINDS, Files, Objects

from siag.activity import Trace
from siag.foundations.errors import BadFile, BadInput, SiagError
from siag.live.assembly import Assembly
from siag.storage import remote_disk, urls
from siag.storage.lease import TAKEN_OVER, Lease
from siag.storage.remote_disk import EVERY, RemoteDisk
from siag.storage.saved_model import read_model
from siag.storage.trace_writer import TraceWriter
from siag.storage.urls import check_url, is_url
from specs import spec_of
from waiting import PATIENCE, wait_until

NEVER = 1e6  # seconds
N, D = 3, 4


@pytest.fixture(autouse=True)
def _systems():
    for name, kind in KINDS.items():
        fsspec.register_implementation(name, kind, clobber=True)
        kind.renew()
    MemoryFileSystem.store.clear()


class Small(Assembly):
    """Its generations follow each other soon."""

    def make_store(self, folder, **writing):
        return super().make_store(folder, spare=0, **writing)


class Training:
    """A server with a store and a trace at a URL, and what its model was after each report.

    Its lease shows no sign of life, unless a test asks for it; what else is `given` is for its disks.
    """

    def __init__(self, url, history=None, run="one", trace="trace.csv", period=NEVER, **given):
        self.history = {} if history is None else history
        spec = spec_of(list("abc"), D, folder=f"{url}/state", trace=trace and f"{url}/{trace}")
        with mock.patch.object(urls, "RemoteDisk", functools.partial(RemoteDisk, period=period, **given)):
            self.assembly = Small(spec, run=run)
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

    def save(self, wait=True):
        self.session.save(1.0, wait=wait)
        return self.session.problems

    def close(self):
        """End in order."""
        self.assembly.run(lambda session: session.finish(2.0))

    def kill(self):
        """Write nothing more, and leave the marks, as a kill does."""
        for disk in (self.session.store._disk, getattr(self.server.trace, "_disk", None)):
            if disk is not None and disk._lease is not None:
                disk._lease._lost = True
        self.session.store.close()
        if self.server.trace is not None:
            self.server.trace._close()


@contextmanager
def training(url, **options):
    run = Training(url, **options)
    try:
        yield run
    finally:
        run.kill()


def names_at(url):
    system, path = fsspec.url_to_fs(url)
    return sorted(name.rsplit("/", 1)[-1] for name in system.find(path))


@pytest.mark.thorough
@settings(max_examples=60)
@given(
    kind=st.sampled_from(list(KINDS)),
    plan=st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=6),
    dies_at=st.integers(8, 120),
    share=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
)
def test_whenever_an_upload_is_cut_short_the_run_goes_on_from_a_state_its_trace_has(kind, plan, dies_at, share):
    url, system, history, saved = f"{kind}://run", KINDS[kind], {}, 0
    system.renew()
    system.dies_at, system.share = dies_at, share
    several = mock.patch.object(remote_disk, "PART", 300)  # parts of a file
    with several, suppress(SiagError), training(url, history=history) as first:
        for reports, wait in plan:
            first.report(reports)
            with mock.patch.object(RemoteDisk, "rested", True):
                problems = first.save(wait)
            saved = first.server.reports if wait and not problems else saved
        first.session.store.wait()
    system.heal()
    with training(url, history=history) as second:
        assert second.server.reports >= saved
        assert np.array_equal(second.server.w, history[second.server.reports])
        second.report(3)
        second.close()
    assert names_at(f"{url}/trace.csv") == ["trace.csv"]
    with training(url, history=history) as third:
        assert third.server.reports == second.server.reports


def test_a_run_at_a_url_of_each_kind_is_found_again_whole_and_leaves_nothing_else(tmp_path):
    for url in ("memory://bucket", f"file://{tmp_path}/deep/below", "files://run", "objects://run"):
        first = Training(url, trace="trace.csv.gz")
        for _ in range(5):
            first.report(5)
            assert not first.save()
        first.close()
        left = names_at(url)
        assert [name for name in left if not name.startswith("state-")] == ["trace.csv.gz"]
        assert len(left) == 3  # two generations
        model = read_model(f"{url}/state/")
        assert (model.reports, model.remarks) == (25, ())
        assert np.array_equal(model.w, first.server.w)
        with training(url, trace="trace.csv.gz") as again:
            assert again.server.reports == 25
            assert np.array_equal(again.server.w, first.server.w)
    assert Trace.read(tmp_path / "deep" / "below" / "trace.csv.gz").length == 25


def test_a_problem_is_told_and_gone_when_the_url_can_be_written_again():
    with training("objects://run") as run:
        run.report()
        Objects.reason = "the network\nis down"
        assert [problem.text for problem in run.save()] == [
            "the trace: the network is down",
            "saving: the network is down",
        ]
        Objects.heal()
        assert not run.save()


def test_a_run_whose_end_could_not_be_sent_says_so():
    run = Training("objects://run")
    run.report()
    Objects.reason = "unplugged"
    with pytest.warns(RuntimeWarning, match="unplugged") as told:
        run.close()
    assert sorted(str(each.message).partition(":")[0] for each in told) == ["saving", "the trace"]


def test_what_makes_no_progress_is_given_up_and_not_overtaken():
    with training("files://run", trace=None, patience=0.05) as run:
        Files.gate = threading.Event()
        for _ in range(2):
            assert [problem.reason for problem in run.save()] == ["no progress within 0.05 seconds"]
        calls = Files.calls
        Files.gate.set()
        wait_until(lambda: not any(thread.name == "siag-url" for thread in threading.enumerate()))
        assert Files.calls > calls
        Files.heal()
    with training("files://run", trace=None, patience=PATIENCE) as run:
        assert not run.save()


def test_nothing_waits_for_an_upload_and_it_takes_at_most_a_tenth_of_the_time():
    clock = mock.Mock(return_value=0.0)
    with training("files://run", clock=clock) as run:
        checkpoints, disk = run.session._saves, run.session.store._disk
        clock.return_value = 1000.0
        Files.gate = threading.Event()
        run.report()
        assert not run.save(wait=False)
        wait_until(lambda: not disk.rested)
        clock.return_value += 3.0
        Files.gate.set()
        run.session.store.wait()
        assert run.session.store.problem is None
        assert not checkpoints.due(1e9)  # however long ago the last save was
        clock.return_value += 26.9
        assert not disk.rested
        clock.return_value += 0.2
        assert disk.rested
        before = Files.calls
        run.save(wait=True)
        assert Files.calls > before
        clock.return_value += EVERY - 0.1
        assert not disk.rested


def test_a_state_carries_the_lines_that_its_trace_lacks_at_the_url():
    history = {}
    with training("objects://run", history=history) as first:
        assert not first.save()
        first.report(40)
        with mock.patch.object(RemoteDisk, "rested", False):
            assert not first.save(wait=False)  # the trace is not sent
            first.session.store.wait()
        assert Objects().cat_file("objects://run/trace.csv").count(b"\n") == 2
    with training("objects://run", history=history) as second:
        assert second.server.reports == 40
        assert Objects().cat_file("objects://run/trace.csv").count(b"\n") == 42


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("what", ["folder", "trace"])
def test_a_run_that_is_alive_keeps_its_url(kind, what):
    url = f"{kind}://run"
    with training(url, period=0.25) as first:
        first.save()
        if what == "folder":
            with pytest.raises(BadFile, match=rf"^{url}/state: "):
                Training(url, run="two", period=0.25)
        else:
            with pytest.raises(BadInput, match=rf"^trace = '{url}/trace.csv': must be a file that no other run writes"):
                TraceWriter(f"{url}/trace.csv", {"run": "two"}, keep=0, disk=RemoteDisk(period=0.25))
        first.report()
        assert not first.save()
        first.close()
    assert [name for name in names_at(url) if "owner" in name] == []


def a_lease(run="two", period=NEVER, **given):
    return Lease("files://run/lock.owner", run, period, **given)


def waited(run, period=NEVER):
    """What taking a lease came to, and how long that slept."""
    slept = []
    return a_lease(run, period, clock=lambda: 100.0 + sum(slept), sleep=slept.append).take(), sum(slept)


def test_the_url_of_a_run_that_was_killed_is_free_after_a_while_and_to_itself_at_once():
    assert waited("one") == (True, 0)
    assert waited("one") == (True, 0)
    assert waited("two", period=4.0) == (True, 12.0)


def test_a_run_that_ends_while_it_is_watched_leaves_its_url_at_once():
    first = a_lease("one")
    other = a_lease("two", sleep=lambda _: first.release())
    assert first.take()
    assert other.take()
    other.check()


def test_of_two_that_start_at_once_one_goes_on():
    first, other = a_lease("one"), a_lease("two")
    write, marks = Files.pipe_file, []

    def both(system, path, content):
        marks.append(content)
        if len(marks) == 1:
            assert other.take()  # it sees nobody, and marks the URL a moment after the first
        else:
            for mark in marks:
                write(system, path, mark)

    with mock.patch.object(Files, "pipe_file", both):
        assert not first.take()
    other.check()
    with pytest.raises(OSError, match=TAKEN_OVER):
        first.check()


def test_a_run_that_was_taken_over_writes_no_more_and_says_so():
    with training("files://run", trace=None) as first:
        first.report()
        first.save()
        with training("files://run", trace=None, run="one") as second:  # as if the first one's machine had slept
            before = dict(Files.store)
            first.report()
            assert [problem.reason for problem in first.save()] == [TAKEN_OVER]
            with pytest.raises(OSError, match=TAKEN_OVER):
                first.session.store._disk.remove("files://run/state/state-000001.siag")
            assert Files.store == before
            second.report()
            assert not second.save()


def test_signs_of_life_that_fail_do_not_end_them():
    lease = a_lease(period=0.01)
    assert lease.take()
    Files.reason, before = "the network is down", set(Files.store)
    lease._ended.wait(0.05)
    assert set(Files.store) == before
    Files.heal()
    wait_until(lambda: any(path.endswith(".alive") for path in Files.store))
    lease.release()
    assert not Files.store


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
    "files://run": "must be a URL that can be written; no permission here",
}


@pytest.mark.parametrize("url", USELESS)
def test_a_url_that_is_no_use_is_refused_in_one_line(url):
    Files.reason = "no permission\nhere"
    with pytest.raises(BadInput) as caught:
        check_url("folder", url)
    assert str(caught.value) == f"folder = {url!r}: {USELESS[url]}"


def test_a_url_that_does_not_keep_what_is_written_or_is_a_folder_is_refused():
    with (
        mock.patch.object(Objects, "keep", lambda system, path, content: Files.keep(system, path, b"1")),
        pytest.raises(BadInput, match="what was written there is not what is read back"),
    ):
        check_url("folder", "objects://run")
    with pytest.raises(BadInput, match=r"^trace = 'objects://run/': must be the URL of a file; it must not end in /$"):
        check_url("trace", "objects://run/")


def test_a_check_leaves_nothing_behind():
    check_url("folder", "files://run/state")
    check_url("trace", "objects://run/trace.csv")
    assert not Files.store
    assert not Objects.store
