"""What is refused before a run on Ray starts, each with one clear line; and a cluster started for a run."""

import signal
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import clusters  # noqa: F401  # sets what Ray reads from the environment
import jobs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from siag.live.ray.lead import Lead, clearest
from siag.live.ray.link import _silent, reason_of
from siag.live.ray.reading import room_to_read

import siag
from siag.foundations.errors import Missing
from siag.live.ray.actors import STALE
from siag.live.ray.driver import READER, SERVER, Driver
from siag.live.ray.room import is_crowded, room_for
from siag.methods import SIAG
from siag.runtimes import Ray

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
    monkeypatch.setattr("siag.live.ray.link.PATIENCE", 0.2)
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


HALF, ONE = {"CPU": 0.5}, {"CPU": 1.0}
PAIR = {"a": {"CPU": 1.0}, "b": {"CPU": 1.0}}


@pytest.mark.parametrize(
    ("nodes", "taken", "free", "server", "crowded"),
    [
        (PAIR, [("a", HALF)], {"CPU": 1.5}, ONE, False),
        (PAIR, [("a", HALF), ("b", HALF)], ONE, ONE, True),  # two halves on two nodes
        (PAIR, [("a", ONE), ("b", HALF)], HALF, HALF, False),
        (PAIR, [("a", ONE)], {}, ONE, True),  # somebody else is on b
        (PAIR, [("lost", ONE)], {"CPU": 2.0}, ONE, False),
        (PAIR, [("a", ONE), ("b", ONE)], {}, {}, False),
        ({}, [], ONE, ONE, True),
        ({"a": {"CPU": 0.3}}, [("a", {"CPU": 0.1})] * 2, {"CPU": 0.1}, {"CPU": 0.1}, False),  # 0.3 − 0.2 is not 0.1
        (PAIR, [], {"CPU": 2.0}, {"CPU": 1.0, "GPU": 1.0}, True),
    ],
)
def test_a_server_needs_its_place_on_one_node(nodes, taken, free, server, crowded):
    assert is_crowded(nodes, taken, free, server) is crowded


class Watched(jobs.Notes):
    """A driver on no cluster, with what it says and whom it ends."""

    def __init__(self, workers=2, *, ours=False, shards=1, **cluster):
        super().__init__()
        import ray

        self.killed = []
        plan = SimpleNamespace(own=[None] * workers, names=[str(i) for i in range(workers)])
        plan.options = SimpleNamespace(folder="folder")
        driver = self.driver = Driver(Ray(resources=HALF, shards=shards), plan, self, ours)
        usual = {"exceptions": ray.exceptions, "kill": self.killed.append, "wait": lambda refs, **_: ([], refs)}
        driver._ray = SimpleNamespace(**usual | cluster)
        driver._lead = SimpleNamespace(
            hello=SimpleNamespace(remote=lambda: "hello"), end=SimpleNamespace(remote=lambda why: "farewell")
        )
        calls = {name: SimpleNamespace(remote=lambda name=name: name) for name in ("stop", "copying")}
        driver._shards = [SimpleNamespace(**calls) for _ in range(shards - 1)]
        driver._hands = {row: f"worker {row}" for row in range(workers)}
        driver._work = {f"work {row}": row for row in range(workers)}


def alive(**nodes):
    return lambda: [{"NodeID": name, "Alive": True, "Resources": {"CPU": cpus}} for name, cpus in nodes.items()]


def test_a_worker_makes_room_if_two_nodes_have_half_a_place_each(monkeypatch):
    monkeypatch.setattr("siag.live.ray.driver.CROWDED", 0.0)
    seen = Watched(nodes=alive(a=1.0, b=1.0), available_resources=lambda: ONE)
    seen.driver._nodes = {0: "a", 1: "b"}
    seen.driver._make_room(SERVER)
    assert seen.killed == ["worker 1"]
    assert seen.events == ["worker 1 makes room for a server that has none"]


def test_room_is_made_where_a_server_fits_and_also_by_workers_nobody_knows_the_node_of(monkeypatch):
    monkeypatch.setattr("siag.live.ray.driver.CROWDED", 0.0)
    seen = Watched(3, nodes=alive(a=1.0, b=0.5), available_resources=dict)
    seen.driver._nodes = {0: "a", 1: "b", 2: "lost"}
    for _ in range(4):
        seen.driver._make_room(SERVER)
    assert seen.killed == ["worker 0", "worker 1", "worker 2"]


def test_nobody_makes_room_for_a_server_that_is_only_slow(monkeypatch):
    monkeypatch.setattr("siag.live.ray.driver.CROWDED", 0.0)
    up = {"wait": lambda refs, **_: (refs, []), "get": lambda hello: SimpleNamespace(node="a")}
    seen = Watched(nodes=alive(a=2.0), available_resources=dict, **up)
    seen.driver._nodes = {0: "a", 1: "a"}
    seen.driver._make_room(SERVER)
    assert not seen.killed


class NoReader:
    """A place for reading that was lost with its node."""

    node = ""
    needs = ONE


@pytest.mark.parametrize(("cpus", "killed"), [(1.0, ["worker 1"]), (3.0, [])])
def test_a_worker_makes_room_for_reading(monkeypatch, cpus, killed):
    monkeypatch.setattr("siag.live.ray.driver.CROWDED", 0.0)
    seen = Watched(nodes=alive(a=cpus), available_resources=lambda: {"CPU": cpus - 1.0})
    driver = seen.driver
    driver._nodes = {0: "a", 1: "a"}
    driver._look = SimpleNamespace(ready=True)
    assert driver._lack() == ""
    driver._reader = NoReader()
    assert driver._lack() == READER
    driver._make_room(driver._lack())
    assert seen.killed == killed
    assert seen.heard("worker 1 makes room for reading the Dataset") == bool(killed)
    driver._missed = True
    assert driver._lack() == SERVER


def test_it_is_said_once_that_a_dataset_has_given_no_rows():
    seen = Watched(available_resources=dict)
    seen.driver._mention_rows()
    assert not seen.events
    seen.driver._unread = True
    for _ in range(2):
        seen.driver._mention_rows()
    (said,) = seen.events
    assert said.startswith("waiting for the Dataset's first rows (free: 0 CPU; what sorts or shuffles needs a free")


def test_reading_that_finds_no_room_is_not_waited_for_for_ever():
    seen = Watched(available_resources=dict)
    seen.driver._reader = NoReader()
    with pytest.raises(siag.SiagError, match=r"no room for reading the Dataset within 60 seconds: .*free: 0 CPU"):
        seen.driver._await_reader(0.0)


def stage(*inputs, compute=None, **given):
    return SimpleNamespace(ray_remote_args=given, compute=compute, input_dependencies=inputs)


def planned(end):
    return SimpleNamespace(_logical_plan=SimpleNamespace(dag=end))


READ = stage(scheduling_strategy="SPREAD")
POOL = SimpleNamespace(min_size=2)


@pytest.mark.parametrize(
    ("end", "needs"),
    [
        (READ, ONE),
        (stage(READ, num_cpus=2), {"CPU": 2.0}),
        (stage(stage(READ, num_cpus=0.5), num_gpus=1, resources={"disk": 1}), {"CPU": 1.0, "GPU": 1.0, "disk": 1.0}),
        (stage(READ, compute=POOL), {"CPU": 3.0}),
        (SimpleNamespace(input_dependencies=[READ, READ]), ONE),
        (SimpleNamespace(ray_remote_args={}, input_dependencies=[READ]), None),  # a sort, say
        (stage(label_selector={"site": "here"}), None),
        (stage(scheduling_strategy=SimpleNamespace(node="here")), None),
        (None, ONE),
    ],
)
def test_what_reading_needs(end, needs):
    assert room_to_read(planned(end)) == needs


def test_a_server_that_does_not_hear_of_the_end_is_not_waited_for(monkeypatch):
    from ray.exceptions import RayActorError

    monkeypatch.setattr("siag.live.ray.driver.HEARING", -1.0)
    answers = [None, RayActorError()]

    def get(farewell):
        if (answer := answers.pop(0)) is not None:
            raise answer

    seen = Watched(wait=lambda refs, **_: (refs, []), get=get)
    driver = seen.driver
    driver._check_heard()  # it does not have to
    driver._end("interrupted")
    driver._tell("life")
    driver._check_heard()  # it has heard
    with pytest.raises(KeyboardInterrupt):
        driver._check_heard()
    assert seen.heard("interrupted while the server is away: the run ends at once; start it again with the same folder")
    assert driver._told == ("", "", 0)


@pytest.mark.parametrize(("ours", "workers", "said"), [(True, 80, True), (True, 3, False), (False, 80, False)])
def test_more_processes_than_cores_are_mentioned(monkeypatch, ours, workers, said):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    seen = Watched(workers, ours=ours)
    seen.driver._mention_cores()
    assert seen.heard("81 processes share the 4 cores of this machine", "memory of its own; use fewer workers") is said


def broken(stop):
    from ray.exceptions import RayActorError

    raise RayActorError


@pytest.mark.parametrize(
    "cluster",
    [
        {"wait": lambda refs, **_: (refs, []), "get": lambda stop: STALE},
        {"wait": lambda refs, **_: (refs, []), "get": broken},
        {"wait": lambda refs, **_: ([], refs), "get": lambda copying, timeout: False},
    ],
)
def test_a_shard_whose_last_copy_failed_is_warned_of(cluster):
    seen = Watched(shards=2, **cluster)
    with pytest.warns(RuntimeWarning, match="shard 1: what is at the URL is older than this run's end"):
        seen.driver._part()


def test_a_shard_that_copies_is_waited_for():
    rounds = iter([False, False, True])
    answers = {"copying": True, "stop": ""}
    cluster = {"wait": lambda refs, **_: (refs if next(rounds) else [], [])}
    cluster["get"] = lambda ref, timeout=None: answers[ref]
    Watched(shards=2, **cluster).driver._part()
    assert next(rounds, None) is None


def test_of_many_failures_the_one_with_a_reason_is_shown():
    gone, died = "worker a is gone: its connection was lost", "worker b failed: its process has died 3 times before"
    vague = "worker c failed: The actor died unexpectedly before finishing this task."
    for clear in (
        "worker d failed: KeyError: 'x' (job.py, line 3)",
        "worker d: refused: not finite; it is disconnected",
    ):
        assert clearest([gone, vague, died, clear, "worker e failed: OSError"]) == clear
    assert clearest([gone, vague, died]) == died
    assert clearest([gone, vague]) == vague
    assert clearest([gone, "worker e is gone: its connection was lost"]) == gone


def test_workers_that_fail_in_the_same_words_have_all_failed():
    session = SimpleNamespace(over=False, failures=[])
    session.server = SimpleNamespace(members=[SimpleNamespace(name=name, state="expected") for name in ("1", "11")])
    session.failed = lambda row, why: session.failures.append(f"worker {('1', '11')[row]} failed: {why}")
    lead = Lead(siag.__version__)
    lead._session = session
    for _ in range(2):
        for row in (1, 0):
            lead.tell(row, True, "no stream")
            lead._apply()
    assert session.failures == ["worker 11 failed: no stream", "worker 1 failed: no stream"]


@pytest.mark.parametrize(
    ("folder", "again", "recovered", "refused"),
    [
        ("/runs/1", True, False, True),
        ("/runs/1", True, True, False),
        ("/runs/1", False, False, False),
        (None, True, False, False),
    ],
)
def test_a_server_started_again_where_nothing_of_the_run_is_says_so(monkeypatch, folder, again, recovered, refused):
    import ray

    context = SimpleNamespace(was_current_actor_reconstructed=again)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "10.0.0.7")
    lead, session = Lead(siag.__version__), SimpleNamespace(recovered=recovered)
    if not refused:
        lead._check_seen(folder, session)
        return
    with pytest.raises(
        siag.SiagError, match=r"and /runs/1 holds nothing of the run on the node at 10.0.0.7; give a folder"
    ):
        lead._check_seen(folder, session)


def test_what_ray_prints_is_back_after_nested_silence():
    from ray._private import worker

    usual = worker.print_to_stdstream
    with _silent():
        with _silent():
            assert worker.print_to_stdstream is not usual
        assert worker.print_to_stdstream is not usual
    assert worker.print_to_stdstream is usual


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
