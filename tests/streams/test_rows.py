"""Rows of a Ray Dataset: each worker has its part, and goes on in it when it is started again."""

import logging
import os
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from siag.foundations.errors import BadInput
from siag.methods import SIAG
from siag.runtimes.task import FromStream, StreamEnded
from siag.streams import Buffered, Rows, split
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
            time.sleep(0.5)
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


def test_parts_are_disjoint_all_and_even(dataset, parts):
    assert [numbers(part) for part in parts] == [
        list(range(12)),
        list(range(12, 25)),
        list(range(25, 37)),
        list(range(37, 50)),
    ]


def test_parts_do_not_depend_on_how_data_lie_in_blocks(ray):
    for blocks in (1, 3, 20):
        found = [numbers(part) for part in split(ray.data.range(20, override_num_blocks=blocks), 3)]
        assert found == [list(range(6)), list(range(6, 13)), list(range(13, 20))]
    whole = ray.data.range(5)
    assert numbers(split(whole, 1)[0]) == list(range(5))
    assert not whole.context.execution_options.preserve_order  # as it was


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(samples=st.lists(st.integers(0, 15), max_size=3), k=st.integers(0, 3))
def test_rows_after_some_are_the_others(parts, samples, k):
    rows = parts[k]
    for count in samples:
        rows = rows.after(count)
    assert numbers(rows) == list(range(50))[50 * k // 4 : 50 * (k + 1) // 4][sum(samples) :]


def test_a_row_at_a_time_ends_when_told(parts):
    stop = Stop()
    rows = parts[0].samples(stop)
    assert next(rows)["id"] == 0
    stop.set()
    assert list(rows) == []
    assert numbers(Buffered(parts[1], full="block").after(3)) == list(range(15, 25))


def test_a_worker_goes_on_in_its_part_though_another_does_nothing_and_all_cpus_are_taken(ray, parts):
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
    assert ray.get(again.work.remote(parts[1], 5, 100), timeout=60) == list(range(17, 25))
    assert ray.get(idle.work.remote(parts[3], 0, 100), timeout=60) == list(range(37, 50))
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
    with pytest.raises(BadInput, match=r"must be of at least 5 rows, one for each worker; it has 4$"):
        split(ray.data.range(4), 5)
