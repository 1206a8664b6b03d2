"""What is refused before a run on Ray starts, each with one clear line; and a cluster started for a run."""

import json
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import clusters
import jobs
import numpy as np
import pytest

import siag
from siag.foundations.errors import Missing
from siag.live.reasons import Ending
from siag.methods import SIAG
from siag.runtimes import Ray

pytestmark = pytest.mark.ray

STEP = siag.steps.Harmonic(5.0, 20)
MODULE = """
import os, time

def gradient(w, sample):
    if not os.path.exists("died"):
        open("died", "x").close()
        os._exit(1)
    return w - sample

def stream():
    while True:
        yield 1.0
        time.sleep(0.002)
"""


def train(gradient=jobs.pull, streams=([1.0], [2.0]), runtime=None, **options):
    runtime = Ray() if runtime is None else runtime
    return siag.train(gradient, list(streams), np.zeros(2), step=STEP, runtime=runtime, **options)


def test_the_command_has_a_cluster_of_its_own_outlives_a_worker_and_ends_in_order_at_sigterm(tmp_path):
    (tmp_path / "job.py").write_text(MODULE)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    given = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | {"PYTHONPATH": path}
    words = ["--gradient", "job:gradient", "--stream", "job:stream", "--dimension", "2", "--eta", "0.05", "--json"]
    words += ["--runtime", "ray", "--workers", "1", "--resources", "CPU=0.5", "--folder", "state"]
    words += ["--seconds", "300"]  # never reached
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-m", "siag", "train", *words], cwd=tmp_path, env=given, **pipes) as process:
        lines = map(json.loads, process.stdout)  # Ray's remarks on the worker that died are not among them
        try:
            assert any(line.get("snapshot", {}).get("reports", 0) > 20 for line in lines)
        finally:
            process.send_signal(signal.SIGTERM)
        *_, last = lines
        assert process.wait(clusters.PATIENCE) == 0
        assert clusters.own_lines(process.stderr.read()) == []
    assert (last["result"], last["ending"]) == (True, Ending.STOPPED)
    assert last["activity"] == "live, 1 worker on Ray, 1 node"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workers": 0}, "workers = 0: must be a whole number from 1"),
        ({"fewest": 0}, "fewest = 0"),
        ({"shards": 0}, "shards = 0"),
        ({"shards": 2.5}, "shards = 2.5"),
        ({"tls": 1}, "tls = 1: must be True or False"),
        ({"port": 70000}, "port = 70000"),
        ({"port": 65535, "shards": 2}, "port = 65535"),
        ({"start_timeout": 0}, "start_timeout = 0"),
        ({"address": 5}, "address = 5"),
        ({"resources": 4}, "resources = 4: must be amounts by name"),
        ({"resources": {"CPU": -1}}, r"resources\['CPU'\] = -1"),
        ({"resources": {"GPU": 1.5}}, r"resources\['GPU'\] = 1.5: must be a fraction of one, or a whole number"),
        ({"server_resources": {1: 1}}, "server_resources = {1: 1}"),
    ],
)
def test_bad_settings(given, said):
    with pytest.raises(siag.BadInput, match=said):
        Ray(**given)


@pytest.mark.parametrize("runtime", ["ray", Ray])
def test_something_else_than_a_runtime(runtime):
    with pytest.raises(siag.BadInput, match=r"must be a siag.runtimes.Runtime; write siag.runtimes.Ray\(\)"):
        train(runtime=runtime)


def test_without_ray_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Missing, match=r"ray is missing; install it with pip install 'siag\[ray\]'"):
        train()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", r"address = '127.0.0.1:1': must be that of a Ray cluster \(connection refused\); start one"),
        ("nowhere.invalid:6379", "must be that of a Ray cluster"),
        ("nowhere", "must be auto, or host:port of a Ray cluster"),
        ("ray://127.0.0.1:10001", "must be not one of Ray Client"),
    ],
)
def test_wrong_addresses(monkeypatch, address, said):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(siag.BadInput, match=said):
        train(runtime=Ray(address=address))


def test_another_cluster_than_the_connected_one_is_refused(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address="10.0.0.1:6379"))
    with pytest.raises(siag.BadInput, match=r"10.0.0.1:6379 or left out, since this process is connected there; call"):
        train(runtime=Ray(address="127.0.0.1:1"))


def test_more_than_the_cluster_has_is_refused(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address=""))
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    with pytest.raises(siag.BadInput, match=r"^workers = 2: must be at most 1: the cluster has 2 CPU, servers need 1 "):
        train()


@pytest.mark.parametrize(("streamed", "room"), [(True, 0), (False, 1)])
def test_a_dataset_needs_a_number_of_workers_and_a_cpu_to_be_read(monkeypatch, streamed, room):
    import ray

    kind = type("Dataset" if streamed else "MaterializedDataset", (), {"iter_batches": print})
    kind.__module__ = "ray.data.dataset"
    with pytest.raises(siag.BadInput, match=r"workers = None: must be given with a Ray Dataset, .*Ray\(workers=4\)"):
        siag.train(jobs.pull, kind(), np.zeros(2), step=STEP, runtime=Ray())
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address=""))
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    for streams in (kind(), [kind(), kind()]):
        with pytest.raises(siag.BadInput, match=f"^workers = 2: .* {room}: "):
            siag.train(jobs.pull, streams, np.zeros(2), step=STEP, runtime=Ray(workers=2))


class Own(SIAG):
    """A method of a script's, as it were."""


def test_what_cannot_be_sent_is_named(monkeypatch, tmp_path):
    lock = threading.Lock()
    with open(tmp_path / "data", "w") as stream:
        with pytest.raises(siag.BadInput, match=r"gradient = .*: must be something that can be pickled \(.*lock"):
            train(lambda w, sample: (lock, w)[1])
        with pytest.raises(siag.BadInput, match=r"streams\[1\] = .*: must be something that can be pickled"):
            train(streams=[[1.0], stream])
        with pytest.raises(siag.BadInput, match=r"loss = .*: must be something that can be pickled"):
            train(loss=lambda w: stream.tell())
    monkeypatch.setattr(Own, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Own", Own, raising=False)
    with pytest.raises(
        siag.BadInput, match=r"method = .*: must be of a class the nodes can import; define it in a mod"
    ):
        train(method=Own())


def test_numbers_that_do_not_fit_together():
    with pytest.raises(siag.BadInput, match="workers = 3: must be 2, one for each stream"):
        train(runtime=Ray(workers=3))
    with pytest.raises(siag.BadInput, match="fewest = 3: must be at most 2"):
        train(runtime=Ray(fewest=3))
    with pytest.raises(siag.BadInput, match="shards = 3: must be at most 2"):
        train(runtime=Ray(shards=3))
    with pytest.raises(siag.BadInput, match="streams"):
        train(streams=[])


def test_a_table_that_only_all_servers_together_can_hold_is_not_made_by_the_driver(monkeypatch):
    init = SIAG.init

    def init_small(self, w0, n):
        if w0.size > 1:
            raise MemoryError
        return init(self, w0, n)

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(SIAG, "init", init_small)
    with pytest.raises(siag.BadInput, match="address"):
        train(runtime=Ray(address="127.0.0.1:1", shards=2))


def test_places_that_do_not_suit(tmp_path):
    with pytest.raises(siag.BadInput, match=r"folder = 's3://bucket/run': .*s3fs"):
        train(folder="s3://bucket/run")
    with pytest.raises(siag.BadInput, match="durable = True: must be False with a folder at a URL"):
        train(folder=(tmp_path / "state").as_uri(), durable=True)
    with pytest.raises(siag.BadInput, match="folder = 'memory://run': must be storage that all nodes see"):
        train(folder="memory://run")
    with pytest.raises(siag.BadInput, match="durable = True: must be False with 2 shards"):
        train(folder=tmp_path / "state", durable=True, runtime=Ray(shards=2))


def test_ctrl_c_while_ray_starts_leaves_nothing_connected(monkeypatch):
    import ray

    ended, usual = [], signal.getsignal(signal.SIGTERM)

    def init(**given):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Ray has its own way with it
        raise KeyboardInterrupt

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(True))
    with pytest.raises(KeyboardInterrupt):
        train()
    assert ended
    assert not ray.is_initialized()
    assert signal.getsignal(signal.SIGTERM) is usual


def test_sigterm_while_ray_starts_means_what_it_meant(monkeypatch):
    import ray

    class Terminated(Exception):
        pass

    def end(number, frame):
        raise Terminated

    def init(**given):
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))  # as Ray does
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    usual = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(Terminated):
            train()
        assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, usual)
