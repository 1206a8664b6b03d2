"""Every method that has a server runs live, on this machine and over TCP: silent, refused, killed, gone on with."""

import signal
import threading

import numpy as np
import pytest
from jobs import Mute, Notes, pull, reported, send
from peers import Served, Working, in_thread, wait_until
from proxy import Proxy

import siag
from plain import as_python
from siag.activity import EveryArrivals
from siag.foundations.errors import Unsuitable
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.live.curve import Curve
from siag.live.protocol.welcome import described, make_method
from siag.live.reasons import Ending
from siag.live.session import Session
from siag.live.task import FromProblem, FromStream, Given, StreamEnded
from siag.live.transports.shared_memory.server import Embedded
from siag.live.until import Until
from siag.methods import (
    ACED,
    ADPSGD,
    EF21,
    IAG,
    LAG,
    MIFA,
    SAGA,
    SCAFFOLD,
    SGD,
    SIAG,
    STORM,
    Adam,
    AsyncSGD,
    Automatic,
    Averaged,
    Clipped,
    CurvatureIAG,
    FedAvg,
    FedNova,
    Incremental,
    Momentum,
    Prox,
    Rennala,
    Ringmaster,
    Scaffnew,
    compute,
)
from siag.server import Guard, ParameterServer
from siag.steps import Constant, DelayAdaptive
from siag.storage import Store, TraceWriter

N = 3
RIDGE = siag.problems.Ridge.random(n=N, d=4, m=10, spread=0.5, tilt=0.3, regularization=0.1, batch=2, seed=3)
VARIATES = SCAFFOLD(steps=3, size=0.02)
METHODS = [
    (SIAG(), Constant(0.02)),
    (SIAG(average=3), Constant(0.02)),
    (SGD(), Constant(0.02)),
    (LAG(), Constant(0.1)),
    (VARIATES, Constant(1.0)),
    (FedAvg(steps=3, size=0.02, fall=50.0), Constant(1.0)),
    (CurvatureIAG(wait=0.3), Constant(0.1)),
    (Averaged(SIAG()), Constant(0.02)),
    (Prox(SIAG(), l1=0.05), Constant(0.02)),
    (AsyncSGD(), DelayAdaptive(0.02, ages="arrivals")),
    (Automatic(), None),
    (Rennala(batch=2), Constant(0.1)),
    (Ringmaster(threshold=2), Constant(0.02)),
    (ACED(threshold=4), Constant(0.02)),
    (FedNova(steps=(1, 3, 4), size=0.02), Constant(1.0)),
    (EF21(k=1, momentum=0.5), Constant(0.02)),
]
AROUND = [Momentum(Clipped(SIAG(), norm=1.0), beta=0.5), Adam(FedAvg(steps=3, size=0.02)), STORM(a=0.5, fall=50.0)]


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "step"), METHODS, ids=repr)
def test_a_live_run_of_each_method_is_its_replay_bit_for_bit(tmp_path, method, step):
    path = tmp_path / "run.trace"
    run = siag.train(problem=RIDGE, method=method, step=step, until=Until(reports=300), trace=path, progress=False)
    again = siag.replay(path, RIDGE, method, step, compiled=False)  # which takes less than compiling
    assert np.array_equal(run.w, again.w)
    assert run.w.any()
    if method != Automatic():  # whose workers take a gradient more now and then, of the same sample
        assert run.samples[0, -1] == again.samples[0, -1]
    assert (run.uploads[0, -1], run.reads[0, -1]) == (again.uploads[0, -1], 300)
    assert (run.uploads[0, -1] < 300) == isinstance(method, LAG)
    assert run.bytes[0, -1] <= again.bytes[0, -1]  # a worker that has not reported yet has read


@pytest.mark.thorough
@pytest.mark.parametrize("method", AROUND, ids=repr)
def test_so_is_a_rehearsal_as_plain_python_of_some_more(tmp_path, method):
    path, runtime = tmp_path / "run.trace", siag.Simulated(seed=1)
    given = {"method": method, "step": Constant(0.02), "until": Until(reports=200), "trace": path, "runtime": runtime}
    with as_python():
        run = siag.train(problem=RIDGE, **given, progress=False)
    again = siag.replay(path, RIDGE, method, Constant(0.02), compiled=False)
    assert np.array_equal(run.w, again.w)
    assert run.w.any()


@pytest.mark.parametrize(
    "method", [ADPSGD(), Scaffnew(p=0.5, size=0.1), Incremental(), SAGA(), Averaged(SAGA())], ids=repr
)
def test_a_method_without_a_server_is_refused_in_one_clear_line(method):
    for call in (
        lambda: siag.train(problem=RIDGE, method=method, step=Constant(0.1), until=9),
        lambda: siag.serve(problem=RIDGE, method=method, step=Constant(0.1), port=0),
        lambda: siag.serve(w0=np.zeros(2), workers=2, method=method, step=Constant(0.1), port=0),
    ):
        with pytest.raises(Unsuitable, match=r"use |serve ") as refusal:
            call()
        assert "\n" not in str(refusal.value)


# Silence


def session(method, tasks, until, **options):
    server = ParameterServer(method, Constant(0.1), np.zeros(2), tasks, server=EveryArrivals(2))
    return Session(server, Curve(until, 10, None), **options)


@pytest.mark.thorough
def test_if_all_workers_stay_silent_versions_go_on_on_this_machine():
    whole = session(SIAG(), 3, Until(iterations=200))
    Embedded(whole, [Mute(), Mute(), Mute()]).run()
    server = whole.server
    assert server.version == 200
    assert server.reports - server.skips <= 3
    assert server.w[0] < -1.0


def test_a_silent_worker_says_of_which_version_and_sample():
    with Served(1) as served, Working(("127.0.0.1", served.port), lambda description, w0: Mute()) as worker:
        wait_until(lambda: served.server.skips > 20)
        served.stop()
    assert (worker.machine.refused, served.server.reports - served.server.skips) == (0, 1)
    assert served.server.version == served.server.reports


@pytest.mark.thorough
def test_silence_is_on_disk_before_it_is_acknowledged(tmp_path):
    store = Store(tmp_path / "state", {"n": 2}, durable=True)
    first = session(LAG(), 2, Until(), store=store, durable=True)
    first.trace_to(TraceWriter(tmp_path / "run.trace", {"run": "first"}))
    first.recover(0.0)
    first.begin(0.0)
    for row in range(2):
        first.join(row, 0.0)
        first.push(row, 0, np.ones(2), 0, 0.1)
    for k in range(6):
        first.push(k % 2, first.server.version, None, 1 + k, 0.2 + k)
    first.join(1, 9.0)
    first.commit()
    store.close()  # nothing was saved since the beginning
    store = Store(tmp_path / "state", {"n": 2}, durable=True)
    second = session(LAG(), 2, Until(), store=store, durable=True)
    second.recover(20.0)
    one, two = first.server, second.server
    assert (two.version, two.reports, two.skips, two.fades) == (4, 8, 6, 1)
    assert all(np.array_equal(a, b) for a, b in zip(one.arrays().values(), two.arrays().values(), strict=True))
    assert len(second.past.tail) == 9
    assert second.past.tail[-1].endswith(",1,,,8.900000,-1.0,\n")
    assert [member.samples for member in two.members] == [6, 7]
    store.close()
    first.server.trace.close(4)


# Memories


@pytest.mark.thorough
def test_a_run_of_workers_that_remember_goes_on_after_a_kill(tmp_path):
    """A worker is killed, then the run is ended and started again: whoever begins anew has sent nothing yet."""
    method, step, path, folder = LAG(), Constant(0.1), tmp_path / "run.trace", tmp_path / "state"
    given = {"problem": RIDGE, "method": method, "step": step, "trace": path, "folder": folder}

    notes = Notes((reported(more_than=3), send("1", signal.SIGKILL)))
    first = siag.train(**given, until=Until(seconds=1.0), progress=notes, pauses=[0.001] * N)
    assert notes.heard("worker 1 is gone")
    second = siag.train(**given, until=Until(reports=int(first.reads[0, -1]) + 1500), progress=False)
    lines = path.read_text().splitlines()
    forgotten = [line for line in lines if line.endswith(",-1.0,")]
    assert forgotten
    again = siag.replay(path, RIDGE, method, step, compiled=False)
    assert np.array_equal(second.w, again.w)
    assert again.error[0, -1] < 1e-3 * again.error[0, 0]


@pytest.mark.thorough
def test_scaffold_over_tcp_is_its_replay_bit_for_bit(tmp_path):
    path, listening, place = tmp_path / "run.trace", threading.Event(), []

    def ready(host, port):
        place.append(f"{host}:{port}")
        listening.set()

    def workers():
        listening.wait(20)
        for i in range(N):
            in_thread(place[0], problem=RIDGE, name=str(i), give_up=1.0)

    starter = threading.Thread(target=workers)
    starter.start()
    run = siag.serve(
        problem=RIDGE,
        method=VARIATES,
        step=Constant(1.0),
        until=Until(reports=300),
        port=0,
        trace=path,
        ready=ready,
        progress=False,
    )
    starter.join()
    again = siag.replay(path, RIDGE, VARIATES, Constant(1.0), compiled=False)
    assert np.array_equal(run.w, again.w)
    assert run.w.any()


@pytest.mark.thorough
@pytest.mark.parametrize("method", [LAG(weight=0.01), EF21(k=1, momentum=0.5)], ids=repr)
def test_a_worker_whose_connection_breaks_forgets_and_the_trace_knows(tmp_path, method):
    step = Constant(0.1)

    def cut(random, data):
        return None if random.random() < 0.02 else data

    options = {"method": method, "step": 0.1, "trace": tmp_path / "run.trace", "guard": Guard(jump=None)}
    with Served(N, RIDGE.d, **options) as served:
        with Proxy(served.port, cut) as proxy:
            address = f"127.0.0.1:{proxy.port}"
            for i in range(N):
                in_thread(address, problem=RIDGE, name=str(i), give_up=0.5)
            wait_until(lambda: served.server.fades >= 5 and served.server.reports > 200)
        served.stop()
        w = served.server.w.copy()
    run = siag.replay(tmp_path / "run.trace", RIDGE, method, step, seed=0, w0=np.zeros(RIDGE.d), compiled=False)
    assert np.array_equal(run.w[0], w)


@pytest.mark.parametrize(
    "method", [Averaged(Prox(Momentum(SIAG(wait=0.5)), l1=0.1), start=3), LAG(depth=3), EF21(k=2), VARIATES], ids=repr
)
def test_a_worker_makes_the_method_its_server_describes(method):
    assert make_method(described(method)) == method


# Streams


def samples(method, given):
    """A task on a stream of so many numbers, begun."""
    task = FromStream(pull, iter(range(given)), method, np.zeros(2))
    task.begin(0, 1, 2, 0)
    return task


def test_local_steps_take_a_sample_each():
    task = samples(FedAvg(steps=3, size=0.5), 100)
    out, w, y = np.empty(2), np.zeros(2), np.zeros(2)
    for k in range(3):
        assert task.compute(w, out)
        y[:] = 0.0
        for item in range(3 * k, 3 * k + 3):
            y -= 0.5 * (y - item)
        assert task.sample == 3 * k + 2
        assert np.allclose(out, -y)


@pytest.mark.thorough
def test_a_stream_that_ends_in_the_middle_leaves_no_message():
    task = samples(VARIATES, 4)
    w, out = np.zeros(4), np.empty(4)
    assert task.compute(w, out)
    with pytest.raises(StreamEnded):
        task.compute(w, out)
    run = siag.train(pull, [iter([1.0] * 10), iter([1.0] * 8)], np.zeros(2), VARIATES, Constant(1.0), progress=False)
    assert run.reads[0, -1] == 3 + 2
    assert run.about["ending"] == Ending.ALL_LEFT
    assert "failed" not in run.about


@pytest.mark.parametrize(
    "method",
    [IAG(), CurvatureIAG(), LAG(), Prox(IAG(), l1=0.1), FedAvg(steps=2, size=0.1, gradients="exact")],
    ids=repr,
)
def test_a_stream_has_no_exact_gradients_wherever_they_are_needed(method):
    with pytest.raises(Unsuitable, match="a stream has none; use"):
        siag.train(pull, [[1.0]], np.zeros(2), method, Constant(0.1))
    with pytest.raises(Unsuitable):
        FromStream(pull, [1.0], method, np.zeros(2)).begin(0, 1, 2, 0)


def test_what_only_the_number_of_workers_tells_is_refused_when_it_is_known():
    task = FromStream(pull, [1.0], LAG(trigger="server", smoothness=(1.0, 2.0)), np.zeros(2))
    with pytest.raises(Unsuitable):
        task.begin(0, 2, 2, 0)


@pytest.mark.thorough
def test_a_lazy_worker_learns_from_a_stream():
    method = LAG(gradients="sample", weight=0.02)
    run = siag.train(pull, [iter([3.0] * 200)], np.zeros(2), method, Constant(0.3), progress=False)
    assert np.allclose(run.w, 3.0, atol=0.01)
    assert run.uploads[0, -1] < 100
    assert run.reads[0, -1] == 200


def test_a_task_that_forgets_begins_as_at_first():
    for task in (
        FromProblem(RIDGE, LAG(), 0, np.zeros(4)),
        FromStream(pull, [0.0] * 9, MIFA(steps=1, size=0.1), np.zeros(4)),
    ):
        task.begin(1, N, 4, 0)
        w, out = np.zeros(5 if isinstance(task, FromProblem) else 4), np.empty(4)
        assert task.compute(w, out)
        sent = task.compute(w, out)
        task.forget()
        assert task.compute(w, out)
        assert sent == isinstance(task, FromStream)


def test_a_users_function_is_never_compiled():
    memory = VARIATES.recruit(np.zeros(2), 1)
    items = iter(range(10))
    out = np.empty(4)
    rng = blank()
    rewind(rng, key(0, 0, SAMPLES), 0, 0)
    given = Given(pull, lambda: float(next(items)), lambda: None, [])
    assert compute(memory, given, rng, 0, np.zeros(4), out)
    assert next(items) == 3
