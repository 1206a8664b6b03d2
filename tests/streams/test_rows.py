"""Rows of a Ray Dataset: each worker has its part, and goes on in it when it is started again, as does who reads."""

import errno
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refusals import failing
from siag.foundations.errors import BadInput, SiagError
from siag.live.task import FromStream, StreamEnded
from siag.methods import SIAG
from siag.streams import Buffered, Rows, split
from siag.streams import parts as parts_module
from siag.streams.parts import Dealer, Reading
from siag.streams.stream import Stop

IGNORED = ("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
pytestmark = [pytest.mark.ray, *(pytest.mark.filterwarnings(warning) for warning in IGNORED)]  # Ray's own


@pytest.fixture(scope="module")
def ray():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    import ray.data

    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address="local", num_cpus=2, object_store_memory=150 << 20, **options)
    level = logging.getLogger("ray.data").level
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    yield ray
    logging.getLogger("ray.data").setLevel(level)
    ray.shutdown()


@pytest.fixture(scope="module")
def dataset(ray):
    """50 rows in 7 blocks, of which the first is ready last."""
    blocks = ray.data.range(50, override_num_blocks=7)

    def late(batch):
        if 0 in batch["id"]:
            time.sleep(0.1)
        return {"id": batch["id"], "x": np.stack([batch["id"], -batch["id"]], axis=1), "name": batch["id"].astype(str)}

    return blocks.map_batches(late)


@pytest.fixture(scope="module")
def parts(dataset):
    return split(dataset, 4)


def numbers(stream):
    return [int(row["id"]) for row in stream]


def test_rows_are_dicts_in_order(dataset):
    for rows in (Rows(dataset), Rows(dataset.iterator())):
        found = list(rows)
        assert [int(row["id"]) for row in found] == list(range(50))
        assert [row["name"] for row in found] == [str(i) for i in range(50)]
        assert all(np.array_equal(row["x"], [i, -i]) for i, row in enumerate(found))
    assert numbers(rows) == list(range(50))  # and once more


def test_row_r_is_worker_r_mod_n_s(parts):
    assert [numbers(part) for part in parts] == [list(range(k, 50, 4)) for k in range(4)]
    found = next(iter(parts[1]))
    assert np.array_equal(found["x"], [1, -1])
    assert found["name"] == "1"


def test_parts_do_not_depend_on_how_data_lie_in_blocks(ray):
    found = [numbers(part) for part in split(ray.data.range(20, override_num_blocks=20), 3)]
    assert found == [list(range(k, 20, 3)) for k in range(3)]
    whole = ray.data.range(5, override_num_blocks=1)
    assert [numbers(part) for part in split(whole, 7)] == [[0], [1], [2], [3], [4], [], []]
    assert not whole.context.execution_options.preserve_order  # as it was


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(samples=st.lists(st.integers(0, 15), max_size=3), k=st.integers(0, 3))
def test_rows_after_some_are_the_others(parts, samples, k):
    rows = parts[k]
    for count in samples:
        rows = rows.after(count)
    assert numbers(rows) == list(range(k, 50, 4))[sum(samples) :]


class Source:
    """As much of a Dataset as is read, in batches of some sizes; how often it was begun."""

    def __init__(self, sizes, fails=False):
        self.context = SimpleNamespace(execution_options=SimpleNamespace())
        self.sizes, self.fails, self.begun = sizes, fails, 0

    def iter_batches(self, **_):
        self.begun += 1
        start = 0
        for size in self.sizes:
            yield {"id": np.arange(start, start + size)}
            start += size
        if self.fails:
            raise OSError(errno.EIO, "the disk is gone")


@settings(max_examples=200)
@given(data=st.data(), workers=st.integers(1, 5), sizes=st.lists(st.integers(0, 40), max_size=12))
def test_whoever_asks_for_what_gets_it(data, workers, sizes):
    import ray

    source, total = Source(sizes), sum(sizes)
    with mock.patch.object(ray, "put", lambda columns: columns), mock.patch.object(parts_module, "PIECE", 4):
        dealer = Dealer(source, workers)
        for _ in range(data.draw(st.integers(0, 25))):
            part, after = data.draw(st.integers(0, workers - 1)), data.draw(st.integers(0, total // workers + 2))
            own = list(range(part, total, workers))
            piece = dealer.take(part, after)
            if after >= len(own):
                assert piece is None
            else:
                assert piece.first <= after < piece.end
                assert piece.columns["id"].tolist() == own[piece.first : piece.end]


def taken(dealer, part, after=0):
    """The rows of a part, and how far reading had come before each of its pieces."""
    found = []
    while (piece := dealer.take(part, after)) is not None:
        found += piece.columns["id"].tolist()[after - piece.first :]
        after = piece.end
    return found


def test_data_are_read_as_far_as_the_fastest_has_come_once_for_all_who_do_not_go_far_back():
    import ray

    source = Source([1000] * 20)
    with mock.patch.object(ray, "put", lambda columns: columns):
        dealer = Dealer(source, 2)
        dealer.take(0, 0)
        (reading,) = set(dealer._readings)
        assert reading._start == 1000
        assert taken(dealer, 0) == list(range(0, 20_000, 2))
        assert taken(dealer, 1) == list(range(1, 20_000, 2))
        assert taken(dealer, 0, 9000) == list(range(18_000, 20_000, 2))  # still there
        assert source.begun == 1
        assert taken(dealer, 0, 10) == list(range(20, 20_000, 2))  # long gone
        assert source.begun == 2
        assert taken(dealer, 1, 9000) == list(range(18_001, 20_000, 2))


def test_all_who_get_there_are_told_what_went_wrong():
    import ray

    with mock.patch.object(ray, "put", lambda columns: columns):
        dealer = Dealer(Source([1000], fails=True), 2)
        for part in (0, 1, 0):
            assert dealer.take(part, 0).end == 500
            with pytest.raises(OSError, match="the disk is gone"):
                dealer.take(part, 500)


def test_what_was_read_before_an_error_is_dealt_out():
    batches = Source([10, 20], fails=True).iter_batches()
    chunks = parts_module._chunks(batches, 4)
    assert next(chunks)[1] == 30
    with failing(errno.EIO):
        next(chunks)


def test_only_what_is_alike_is_put_together():
    def batch(size, shape=(), kind=float, **more):
        return {"x": np.ones((size, *shape), kind), **{name: np.ones(size) for name in more}}

    def sizes(*batches):
        found = list(parts_module._chunks(batches, 100))
        for columns, size in found:
            assert all(len(values) == size for values in columns.values())
        return [(size, sorted(columns)) for columns, size in found]

    assert sizes(batch(2), batch(3), batch(0), {}, batch(4)) == [(9, ["x"])]
    assert sizes(batch(2), batch(3, y=1), batch(4, y=1)) == [(2, ["x"]), (7, ["x", "y"])]
    assert sizes(batch(2, y=1), batch(3)) == [(2, ["x", "y"]), (3, ["x"])]
    assert sizes(batch(2, (4, 4)), batch(3, (8, 8))) == [(2, ["x"]), (3, ["x"])]
    assert sizes(batch(2), batch(3, kind=int)) == [(2, ["x"]), (3, ["x"])]
    assert sizes(batch(2, kind="U3"), batch(3, kind="U5")) == [(5, ["x"])]


def test_rows_that_come_slowly_are_dealt_out_as_they_come(monkeypatch):
    monkeypatch.setattr(parts_module, "SOON", 0.005)

    def slow():
        for size in (1, 2, 3):
            time.sleep(0.01)
            yield {"x": np.zeros(size)}

    assert [size for _, size in parts_module._chunks(slow(), 4)] == [1, 2, 3]


def test_rows_that_are_there_are_given_while_others_are_read_and_what_nobody_wants_is_not_kept():
    import ray

    with mock.patch.object(ray, "put", lambda columns: columns):
        reading = Reading(Source([1000] * 20).iter_batches(), 2, range(2))
        assert reading.take(0, 0).end == 500
        with ThreadPoolExecutor(2) as pool:
            with reading._reader:  # another one reads
                assert reading.take(1, 0).end == 500
                waiting = [pool.submit(reading.take, part, 5200) for part in (0, 1)]
                while any(reading._shares[part].wanted != 5200 for part in (0, 1)):
                    time.sleep(0.001)
            assert [each.result(20).first for each in waiting] == [5000, 5000]
        assert [len(reading._shares[part].pieces) for part in (0, 1)] == [2, 2]  # the first, and this one


def test_whoever_asks_for_a_part_that_was_dropped_meanwhile_gets_nothing_and_reads_nothing():
    import ray

    with mock.patch.object(ray, "put", lambda columns: columns), ThreadPoolExecutor(1) as pool:
        reading = Reading(Source([1000] * 20).iter_batches(), 2, range(2))
        with reading._reader:
            waiting = pool.submit(reading.take, 1, 3)
            while reading._shares[1].wanted != 3:
                time.sleep(0.001)
            reading.drop(1)
        assert waiting.result(20) is None
        assert reading._start == 0


def test_what_went_wrong_in_reading_is_said_in_a_line(ray):
    def bad(batch):
        if 7 in batch["id"]:
            raise ValueError("bad record 7")
        return batch

    dataset = ray.data.range(40, override_num_blocks=8).map_batches(bad)
    for rows in (Rows(dataset), split(dataset, 2)[0]):
        found = []
        with pytest.raises(SiagError, match=r"^the Dataset cannot be read: ValueError: bad record 7$"):
            found.extend(numbers([row]) for row in rows)
        assert len(found) <= 5


def test_large_rows_are_dealt_out_a_few_at_a_time():
    batches = [{"x": np.zeros((3, 1 << 19))} for _ in range(10)]  # of 12 MiB
    assert [size for _, size in parts_module._chunks(batches, 4)] == [9, 9, 9, 3]


def test_who_deals_out_may_die(ray):
    part = split(ray.data.range(5000, override_num_blocks=10), 2)[1]
    rows = part.samples(Stop())
    found = [int(next(rows)["id"]) for _ in range(10)]
    ray.kill(part._dealer, no_restart=False)
    found += [int(row["id"]) for row in rows]
    assert found == list(range(1, 5000, 2))


def test_a_row_at_a_time_ends_when_told(parts):
    stop = Stop()
    rows = parts[0].samples(stop)
    assert next(rows)["id"] == 0
    stop.set()
    assert list(rows) == []
    assert numbers(Buffered(parts[1], full="block").after(3)) == list(range(13, 50, 4))


def test_a_worker_goes_on_in_its_part_though_another_does_nothing_and_all_cpus_are_taken(ray, dataset):
    parts = split(dataset.materialize(), 4)

    def gradient(w, row):
        return w - row["x"]

    @ray.remote(num_cpus=1)
    class Worker:
        def work(self, rows, samples, most):
            """The rows seen, from `samples` on, `most` of them before it dies."""
            task = FromStream(gradient, rows, SIAG(), np.zeros(2))
            task.begin(0, 4, 2, samples)
            out, seen = np.empty(2), []
            try:
                while len(seen) < most:
                    task.compute(np.zeros(2), out)
                    seen.append(int(-out[0]))
            except StreamEnded:
                return seen
            os._exit(1)

    idle, dying = Worker.remote(), Worker.remote()  # both CPUs
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(dying.work.remote(parts[1], 0, 5), timeout=60)
    again = Worker.remote()
    assert ray.get(again.work.remote(parts[1], 5, 100), timeout=60) == list(range(21, 50, 4))
    assert ray.get(idle.work.remote(parts[3], 0, 100), timeout=60) == list(range(3, 50, 4))
    for worker in (idle, again):
        ray.kill(worker)


def test_what_is_no_dataset_is_refused(ray):
    with pytest.raises(BadInput, match=r"^source = \[1, 2\]: must be a Ray Dataset, or its iterator$"):
        Rows([1, 2])
    with pytest.raises(BadInput, match=r"must be an iterator that can be begun again .* siag.streams.split\(dataset"):
        Rows(ray.data.range(4).streaming_split(2)[0])
    with pytest.raises(BadInput, match=r"^dataset = \[1, 2\]: must be a Ray Dataset$"):
        split([1, 2], 2)
    with pytest.raises(BadInput, match="workers"):
        split(ray.data.range(4), 0)
