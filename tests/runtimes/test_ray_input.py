"""What is refused before a run on Ray starts, each with one clear line; and a cluster started for a run."""

import socket
import subprocess
import sys
import threading

import clusters  # noqa: F401  # sets what Ray reads from the environment
import jobs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import siag
from siag.foundations.errors import Missing
from siag.methods import SIAG
from siag.runtimes import Ray
from siag.runtimes.cluster.link import reason_of
from siag.runtimes.cluster.room import room_for

pytestmark = pytest.mark.ray

STEP = siag.steps.Harmonic(5.0, 20)
SCRIPT = """
import os
import siag, numpy as np

def gradient(w, sample):
    if sample == 2.0 and not os.path.exists("died"):
        open("died", "x").close()
        os._exit(1)
    return scale * (w - sample)

scale = 1.0
run = siag.train(gradient, [[1.0] * 40, [2.0] * 40], np.zeros(2), step=siag.steps.Harmonic(5.0, 20),
                 runtime=siag.runtimes.Ray())
print(run.about["activity"], int(run.t[-1]), run.about["ended"])
import ray
print(ray.is_initialized())
"""


def train(gradient=jobs.pull, streams=([1.0], [2.0]), runtime=None, **options):
    runtime = Ray() if runtime is None else runtime
    return siag.train(gradient, list(streams), np.zeros(2), step=STEP, runtime=runtime, **options)


def test_a_script_of_its_own_runs_on_a_cluster_of_its_own(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.splitlines() == ["live, 2 workers on Ray, 1 node 80 all workers have left", "False"]
    assert done.stderr == "siag: worker 1 is gone: its connection was lost; its row stays\n"


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
        ({"patience": 0}, "patience = 0"),
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


def test_something_else_than_a_runtime():
    with pytest.raises(siag.BadInput, match=r"runtime = 'ray': must be a siag.runtimes.Ray"):
        train(runtime="ray")
    with pytest.raises(siag.BadInput, match=r"write siag.runtimes.Ray\(\)"):
        train(runtime=Ray)


def test_without_ray_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Missing, match=r"ray is missing; install it with pip install 'siag\[ray\]'"):
        train()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", r"address = '127.0.0.1:1': must be that of a Ray cluster \(Connection refused\); start one"),
        ("nowhere.invalid:6379", "must be that of a Ray cluster"),
        ("nowhere", "must be auto, or host:port of a Ray cluster"),
        ("ray://127.0.0.1:10001", "must be not one of Ray Client"),
        ("auto", "must be left out, since no Ray cluster runs on this machine"),
    ],
)
def test_wrong_addresses(monkeypatch, address, said):
    from ray._private import services

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(services, "canonicalize_bootstrap_address", lambda address: None)  # others may run here
    with pytest.raises(siag.BadInput, match=said):
        train(runtime=Ray(address=address))


def test_a_port_where_something_else_answers(monkeypatch):
    monkeypatch.setattr("siag.runtimes.cluster.link.PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(siag.BadInput, match=r"must be that of a Ray cluster \(timed out\)"):
            train(runtime=Ray(address=address))


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


def test_places_that_do_not_suit(tmp_path):
    with pytest.raises(siag.BadInput, match=r"folder = 's3://bucket/run': .*s3fs"):
        train(folder="s3://bucket/run")
    with pytest.raises(siag.BadInput, match="durable = True: must be False with a folder at a URL"):
        train(folder=(tmp_path / "state").as_uri(), durable=True)
    with pytest.raises(siag.BadInput, match="folder = 'memory://run': must be storage that all nodes see"):
        train(folder="memory://run")
    with pytest.raises(siag.BadInput, match="durable = True: must be False with 2 shards"):
        train(folder=tmp_path / "state", durable=True, runtime=Ray(shards=2))


def test_a_node_without_siag_is_told_of():
    error = RuntimeError("The actor died.\n  ...\nModuleNotFoundError: No module named 'siag'\n")
    assert "cannot be imported on the node (ModuleNotFoundError: No module named 'siag'); install" in reason_of(error)
    error = RuntimeError(
        "The actor died because of an error raised in its creation task, \x1b[36mray::x\x1b[39m\nOSError: no"
    )
    assert reason_of(error) == "OSError: no"
    assert reason_of(RuntimeError("It died.\nfor some reason")) == "It died."


AMOUNTS = some.dictionaries(some.sampled_from(["CPU", "GPU"]), some.sampled_from([0.5, 1.0, 2.0]), min_size=1)


@given(some.lists(AMOUNTS, max_size=3), AMOUNTS, some.integers(1, 3), AMOUNTS)
def test_what_is_said_to_fit_does(nodes, server, servers, worker):
    placed, fit = room_for(nodes, server, servers, worker, 10)
    for what in ("CPU", "GPU"):
        used = placed * server.get(what, 0) + fit * worker.get(what, 0)
        assert used <= sum(node.get(what, 0) for node in nodes)
    assert room_for([*nodes, worker], server, servers, worker, 10)[1] >= fit
    alone = sum(min(int(node.get(what, 0) / amount) for what, amount in worker.items()) for node in nodes)
    assert room_for(nodes, server, 0, worker, 10) == (0, min(10, alone))
    assert fit <= min(10, alone)
