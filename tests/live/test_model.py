"""A model in place of a gradient: where it starts, what is random in it, and what a run makes of it in the end."""

import pickle
import threading
from itertools import groupby
from multiprocessing import forkserver

import numpy as np
import pytest
from models import Pair, Preloading
from peers import in_thread, wait_until

import siag
from siag.activity import Exponential
from siag.live.by_value import Pickled, sendable
from siag.live.spec import Spec
from siag.methods import SIAG, STORM, AsyncSGD, FedAvg
from siag.runtimes import Faults

ONES, THREES = [1.0] * 200, [3.0] * 200
STEP, UNTIL = siag.steps.Harmonic(2.0, 20.0), 300
RUNTIME = siag.Simulated(times=Exponential(1.0), slowness=[1.0, 5.0], seed=1)


def train(model, streams=(ONES, THREES), **options):
    given = {"step": STEP, "until": UNTIL, "runtime": RUNTIME} | options
    return siag.train(model, list(streams), **given)


def distance(pair):
    """From (2, 2), the mean of the streams."""
    return (pair["a"] - 2.0) ** 2 + (pair["b"] - 2.0) ** 2


@pytest.mark.parametrize("runtime", [None, RUNTIME], ids=["processes", "virtual time"])
def test_a_model_knows_where_to_start_and_comes_back_trained(runtime):
    run = train(Pair((5.0, -5.0)), runtime=runtime, loss=distance, evaluate={"a": lambda pair: pair["a"]})
    assert run.about["w0"] == [5.0, -5.0]
    assert run.model == dict(zip("ab", run.w[0].tolist(), strict=True))
    assert run.model is run.model
    assert run.error[0, 0] == distance({"a": 5.0, "b": -5.0})
    assert run.error[0, -1] == distance(run.model) < 0.1
    assert run.metrics["a"][0, [0, -1]].tolist() == [5.0, run.model["a"]]
    assert np.isfinite(run.metrics["progressive loss"][0, -1])


def test_a_start_of_its_own_is_taken_and_one_of_another_size_refused():
    run = train(Pair(), w0=[1.0, 2.0], until=1)
    assert run.about["w0"] == [1.0, 2.0]
    with pytest.raises(siag.BadInput, match=r"^w0 = \[1.0\]: must be an array of finite real numbers of shape \(2\)"):
        train(Pair(), w0=[1.0])


@pytest.mark.parametrize("method", [AsyncSGD(), FedAvg(steps=2, size=0.1), None], ids=repr)
def test_any_method_that_can_be_live_trains_it(method):
    step = {} if method is None else {"step": STEP}
    run = siag.train(Pair(), [ONES, THREES], method=method, until=UNTIL, runtime=RUNTIME, **step)
    assert abs(run.model["a"] - 2.0) < 1.2  # the fast worker's mean is 1


def test_without_a_model_there_is_none():
    run = siag.train(lambda w, x: w - x, [ONES, THREES], np.zeros(2), until=10, runtime=RUNTIME)
    assert run.model is None


def test_a_run_that_was_saved_has_no_model_and_one_that_was_pickled_has(tmp_path):
    run = train(Pair(), until=10)
    run.save(tmp_path / "run.npz")
    assert siag.load(tmp_path / "run.npz").model is None
    assert Pair().restored(siag.load(tmp_path / "run.npz").w[0]) == run.model
    assert pickle.loads(pickle.dumps(run)).model == run.model


# What is random


def test_randomness_follows_from_seed_worker_and_number_of_the_sample():
    first, again, other = Pair(), Pair(), Pair()
    one, two = train(first, seed=4), train(again, seed=4)
    assert np.array_equal(one.w, two.w)
    assert first.asked == again.asked
    seeds = [seed for seed, _ in groupby(seed for _, seed in first.asked)]  # some samples are asked at w_0, too
    assert len(set(seeds)) == len(seeds) >= UNTIL
    assert not np.array_equal(train(other, seed=5).w, one.w)


def test_the_last_sample_at_another_w_has_the_same_randomness():
    model = Pair()
    train(model, method=STORM(), until=40)
    seeds = [seed for _, seed in model.asked]
    assert len(seeds) > 40
    assert all(seeds.count(seed) <= 3 for seed in seeds)  # as the newest, as the last, and at w_0
    assert len(set(seeds)) < 0.6 * len(seeds)


def test_one_model_serves_all_workers_of_virtual_time_also_those_that_begin_anew():
    model = Pair()
    faults = siag.Simulated(seed=1, faults=Faults(crashes=20.0))
    run = siag.train(model, [ONES] * 50, step=STEP, until=500, runtime=faults)
    assert len(model.asked) >= 500
    assert len({seed for _, seed in model.asked}) > 490
    assert run.t[-1] == 500


# How it is sent, and read


def test_it_says_how_a_stream_is_read():
    run = train(Pair(), [["1"] * 50, ["3"] * 50])
    assert abs(run.model["a"] - 2.0) < 0.3


def test_its_modules_are_imported_before_its_processes_begin():
    siag.train(Preloading(), [ONES], step=STEP, until=1)
    assert "colorsys" in forkserver._forkserver._preload_modules  # an earlier test may have started the fork server


def test_a_server_and_workers_elsewhere_have_the_same_model():
    place, result = [], []
    options = {"step": STEP, "until": UNTIL, "port": 0, "ready": lambda *at: place.append(at)}
    options |= {"loss": distance, "evaluate": {"a": lambda pair: pair["a"]}}
    server = threading.Thread(target=lambda: result.append(siag.serve(Pair(), ["a", "b"], **options)))
    server.start()
    host, port = wait_until(lambda: place)[0]
    pairs = ((ONES, "a"), (THREES, "b"))
    threads = [in_thread(f"{host}:{port}", Pair(), data, name=name) for data, name in pairs]
    server.join()
    for thread, outcome in threads:
        thread.join()
        assert outcome[0].reports > 0
    (run,) = result
    assert run.model == Pair().restored(run.w[0])
    assert run.error[0, -1] == distance(run.model)
    assert run.metrics["a"][0, -1] == run.model["a"]


def test_a_server_without_the_data_still_evaluates_the_model():
    spec = Spec(gradient=Pair(), streams=[ONES], loss=distance, evaluate={"a": lambda pair: pair["a"]}).validate()
    bare = spec.without_data()
    assert bare.gradient is None
    assert bare.measure(np.array([2.0, 3.0])) == 1.0
    assert bare.metrics["a"](np.array([7.0, 0.0])) == 7.0


def test_a_folder_knows_the_run_of_a_model_again(tmp_path):
    train(Pair(), until=20, folder=tmp_path / "run")
    assert train(Pair(), until=40, folder=tmp_path / "run").t[-1] == 40
    assert Spec(gradient=Pair(), streams=[ONES]).validate().identity["problem"] == "Pair() on streams"


def test_what_is_neither_a_gradient_nor_a_model_is_refused():
    words = r"^gradient = 3: must be a function gradient\(w, sample\), or a model; siag.adapters makes one"
    with pytest.raises(siag.BadInput, match=words):
        siag.train(3, [ONES], [0.0])


def test_what_holds_tensors_is_pickled_before_torch_can_share_their_memory(monkeypatch):
    import sys
    import types

    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    sent = sendable({"torch": 1})
    assert isinstance(sent, Pickled)
    assert pickle.loads(pickle.dumps(sent)) == {"torch": 1}
    assert isinstance(sendable(SIAG()), SIAG)
