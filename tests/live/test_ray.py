"""`siag.train` on a Ray cluster: the same runs, and what is refused."""

import json
import signal
import subprocess
import sys
import urllib.request
from functools import partial

import clusters
import jobs
import numpy as np
import pytest
from clusters import STEP, exactly_replayed, train
from jobs import Notes

import siag
from siag.runtimes import Metrics, Ray, Several

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with clusters.small_cluster(6) as cluster:
        yield cluster


def test_a_problem_trains_as_on_one_machine(tmp_path):
    names = []
    notes = Notes((jobs.reported(more_than=10), lambda: names.extend(clusters.actors("siag"))))
    metrics, pages = Metrics(), []

    def read():
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as page:
            pages.append(page.read().decode())

    notes.plan.append((jobs.reported(more_than=20), read))
    run = train(2000, trace=tmp_path / "trace.csv", progress=Several([metrics, notes]), names=["a", "b", "c"])
    assert exactly_replayed(run, tmp_path / "trace.csv")
    assert run.t[-1] == 2000
    assert run.about["ended"] == "as many iterations or reports as asked"
    assert run.about["activity"] == "live, 3 workers on Ray, 1 node"
    assert sorted(" ".join(name.split()[:-2]) for name in names if "worker" in name) == [
        f"siag worker {x}" for x in "abc"
    ]
    assert sum(name.startswith("siag server ") for name in names) == 1
    assert all(notes.heard(f"worker {name} joined") for name in "abc")
    assert notes.snapshots[-1].version == 2000
    assert "siag_report_ages_total" in pages[0]


def test_lambdas_and_closures_on_streams_over_tls():
    target, seen = 2.0, Notes()
    streams = [[1.0] * 300, partial(jobs.numbers, 300, 3.0)]
    run = siag.train(
        lambda w, sample: w - sample,
        streams,
        np.zeros(2),
        step=STEP,
        loss=lambda w: float(np.square(w - target).sum()),
        runtime=Ray(tls=True, workers=2, resources={"CPU": 0.5}),
        progress=seen,
    )
    assert run.about["ended"] == "all workers have left"
    assert run.samples[0, -1] == 600
    assert run.error[0, 0] == 8.0
    assert run.error[0, -1] < 4.0
    assert "failed" not in run.about


def test_sigterm_ends_the_command_in_order():
    import ray

    address = ray.get_runtime_context().gcs_address
    words = ["--gradient", "jobs:pull", "--stream", "jobs:endless", "--dimension", "2", "--eta", "0.05", "--json"]
    words += ["--seconds", "60"]  # never reached
    command = [sys.executable, "-m", "siag", "train", *words, "--runtime", "ray", "--address", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines = (json.loads(line) for line in process.stdout)
        assert any(line.get("snapshot", {}).get("reports", 0) > 20 for line in lines)
        process.send_signal(signal.SIGTERM)
        *_, last = lines
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
    assert (last["result"], last["ended"]) == (True, "stopped by SIGTERM")
    assert clusters.all_gone()


def test_other_versions_on_the_nodes_are_refused(monkeypatch):
    monkeypatch.setattr("siag.live.ray.driver.__version__", "99.0")
    with pytest.raises(
        siag.SiagError, match=r"the server, on the node at .*: it has siag .*, the driver 99.0; install"
    ):
        train(n=2)


def test_too_few_resources_say_how_many_fit():
    with pytest.raises(
        siag.BadInput, match=r"workers = 3: must be at most 2: so many fit into the cluster \(6 CPU in all\)"
    ):
        train(runtime=Ray(resources={"CPU": 2}))
    with pytest.raises(siag.BadInput, match=r"fewest = 3: must be at most 0: .* with 1 unicorn each"):
        train(runtime=Ray(resources={"unicorn": 1}, fewest=3))
    with pytest.raises(siag.BadInput, match=r"server_resources = .*: must be what the nodes have, 2 times"):
        train(runtime=Ray(server_resources={"CPU": 3, "unicorn": 1}, shards=2))


def test_a_busy_cluster_is_not_waited_for_for_ever():
    import ray

    @ray.remote(num_cpus=2)
    class Busy:
        def up(self):
            return True

    others = [Busy.remote(), Busy.remote()]
    ray.get([other.up.remote() for other in others])
    try:
        with pytest.raises(siag.SiagError, match=r"1 of 3 workers were there after 15 seconds: .* by fewest=1"):
            train(runtime=Ray(patience=15))
        others.append(Busy.remote())
        ray.get(others[-1].up.remote())  # now nothing is free
        with pytest.raises(
            siag.SiagError, match="the server could not be placed within 1 seconds: the cluster is busy"
        ):
            train(runtime=Ray(patience=1))
    finally:
        for other in others:
            ray.kill(other)
    assert clusters.all_gone()


def test_another_cluster_than_the_connected_one_is_refused():
    with pytest.raises(siag.BadInput, match=r"since this process is connected there; call ray.shutdown"):
        train(runtime=Ray(address="127.0.0.1:1"))
