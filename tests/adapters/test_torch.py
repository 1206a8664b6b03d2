"""`siag.adapters.Torch`: modules as they are, trained; their gradients, random numbers, threads and way to workers."""

import copy
import pickle
import queue
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch_jobs import RUNTIME, STEP, Noisy, X, gradient, line, linear, plain, train

import siag
from siag.adapters import Torch
from siag.methods import STORM, FedAvg
from siag.runtimes import Faults

# Parameters and gradients


class Tied(nn.Module):
    """Two layers with one weight, a frozen layer, a mask and a layer that is not used."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second, self.frozen, self.unused = (nn.Linear(3, 3) for _ in range(4))
        self.second.weight = self.first.weight
        self.frozen.requires_grad_(False)
        self.register_buffer("mask", torch.tensor([1.0, 0.0, 1.0]))

    def forward(self, x):
        return self.frozen(self.second(torch.tanh(self.first(x))) * self.mask)


def test_the_gradient_is_torchs_own_with_tied_weights_counted_once_and_frozen_ones_left_out():
    module, batch = Tied(), (torch.randn(5, 3), torch.randn(5, 3))
    model = Torch(module, nn.functional.mse_loss)
    assert model.w0.size == 9 + 3 + 3 + 12
    module.unused.weight.sum().backward()  # gradients that are there already do not matter
    loss, found = gradient(model, batch)
    module.zero_grad()
    value, expected = plain_with_zeros(module, batch)
    assert loss == value
    assert np.array_equal(found, expected)
    assert np.array_equal(gradient(model, batch)[1], expected)


def plain_with_zeros(module, batch):
    module = copy.deepcopy(module)
    value = nn.functional.mse_loss(module(batch[0]), batch[1])
    value.backward()
    ours = [each for each in module.parameters() if each.requires_grad]
    return value.item(), np.concatenate(
        [np.zeros(each.numel()) if each.grad is None else each.grad.numpy().ravel() for each in ours]
    )


def test_the_gradient_of_a_sparse_embedding_is_that_of_a_dense_one():
    def network(sparse):
        torch.manual_seed(0)
        return nn.Sequential(nn.Embedding(9, 2, sparse=sparse), nn.Linear(2, 1))

    batch = torch.tensor([1, 1, 7]), torch.ones(3, 1)
    sparse, dense = (gradient(Torch(network(kind), nn.MSELoss()), batch) for kind in (True, False))
    assert sparse[0] == dense[0]
    assert np.array_equal(sparse[1], dense[1])


def test_w_is_what_the_gradient_is_taken_at():
    model, batch = Torch(linear(), nn.functional.mse_loss), line(1.0)
    assert gradient(model, batch, [2.0, 1.0])[0] == pytest.approx(0.0, abs=1e-12)
    assert gradient(model, batch, [2.0, 3.0])[0] == pytest.approx(4.0)
    assert gradient(model, batch)[0] != 0.0


@pytest.mark.parametrize(
    ("kind", "messages"), [(torch.float64, "float64"), (torch.bfloat16, "float32"), (torch.float16, "float32")]
)
def test_modules_of_other_types_are_trained_in_their_own(kind, messages):
    module = linear().to(kind)
    model = Torch(module, nn.functional.mse_loss)
    loss, found = gradient(model, line(1.0))
    value, expected = plain(linear().double(), tuple(part.double() for part in line(1.0)))
    assert model.messages == messages
    assert loss == pytest.approx(value, rel=0.03)
    assert found == pytest.approx(expected, rel=0.05)
    assert model.restored(model.w0).weight.dtype is kind


def test_a_large_w_of_the_same_type_is_read_where_it_is_and_others_are_copied():
    module, batch = nn.Linear(200, 200), (torch.randn(3, 200), torch.randn(3, 200))
    model = Torch(module, nn.functional.mse_loss)
    expected = plain(module, batch)
    w = model.w0.astype(np.float32)
    w.setflags(write=False)
    assert np.array_equal(gradient(model, batch, w)[1], expected[1])
    assert model._module.weight.data_ptr() == w.ctypes.data
    assert gradient(model, batch, w + np.float32(1.0))[0] != expected[0]
    assert np.array_equal(gradient(model, batch)[1], expected[1])
    assert model._module.weight.data_ptr() != w.ctypes.data
    trained = model.restored(w)
    assert trained.weight.data_ptr() != w.ctypes.data
    assert torch.equal(trained.weight, module.weight)


def test_a_w_beyond_float32_is_no_warning():
    assert not np.isfinite(gradient(Torch(linear(), nn.functional.mse_loss), line(1.0), [1e200, 0.0])[0])


def test_numpy_batches_are_taken_read_only_ones_too():
    batch = tuple(part.double().numpy() for part in line(1.0))
    for part in batch:
        part.setflags(write=False)
    model = Torch(linear(), nn.functional.mse_loss)
    assert gradient(model, batch)[0] == gradient(model, line(1.0))[0]


def test_several_inputs_and_inputs_by_name_reach_the_module():
    bilinear = nn.Bilinear(1, 1, 1)
    model = Torch(bilinear, nn.functional.mse_loss)
    both = gradient(model, ((X, X), X))
    assert both[0] == gradient(model, ({"input1": X, "input2": X}, X))[0]


def test_an_objective_takes_whatever_batches_there_are():
    model = Torch(linear(), objective=lambda module, batch: module(batch["x"]).square().mean())
    assert gradient(model, {"x": X})[0] == pytest.approx(linear()(X).square().mean().item())


# Runs


@pytest.mark.parametrize("runtime", [None, RUNTIME], ids=["processes", "virtual time"])
def test_the_module_comes_back_trained_and_the_users_own_is_as_it_was(runtime):
    module = linear()
    before = copy.deepcopy(module.state_dict())
    evaluate = {"bias": lambda module: module.bias.item()}
    run = train(Torch(module, nn.MSELoss()), runtime=runtime, until=400, evaluate=evaluate)
    assert isinstance(run.model, nn.Linear)
    assert list(run.model.state_dict()) == ["weight", "bias"]
    assert run.model.weight.item() == pytest.approx(2.0, abs=0.1)
    assert run.model.bias.item() == pytest.approx(2.0, abs=0.1)
    assert run.metrics["bias"][0, -1] == run.model.bias.item()
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert run.model.weight.grad is None
    assert run.model.weight.requires_grad
    assert np.isfinite(run.metrics["progressive loss"][0, -1])


@pytest.mark.parametrize("method", [FedAvg(steps=2, size=0.1), STORM(), None], ids=["FedAvg", "STORM", "automatic"])
def test_methods_that_can_be_live_train_it(method):
    options = {} if method is not None else {"step": None}
    run = train(Torch(linear(), nn.MSELoss()), method=method, until=600, **options)
    assert run.model.weight.item() == pytest.approx(2.0, abs=0.5)


def test_a_thousand_workers_of_virtual_time_share_one_module():
    module, copies = linear(), []
    counted = {"__deepcopy__": lambda self, memo: copies.append(1) or copied(self)}
    module.__class__ = type("Counted", (nn.Linear,), counted)
    model = Torch(module, nn.MSELoss())
    run = train(model, [line(float(k % 3)) for k in range(1000)], until=1500, step=siag.steps.Constant(0.5))
    assert run.samples[0, -1] == 1500
    assert len(copies) == 1
    assert len(run.workers) == 1000


def copied(module):
    other = linear()
    other.load_state_dict(module.state_dict())
    return other


def test_the_same_seed_is_the_same_run_with_dropout_loaders_and_transforms():
    def network():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(1, 8), nn.Dropout(0.5), nn.Linear(8, 1))

    def run(seed, before):
        torch.manual_seed(before)
        streams = [DataLoader(TensorDataset(*line(1.0)), 4, shuffle=True), Noisy(line(3.0))]
        return train(Torch(network(), nn.MSELoss()), streams, seed=seed, until=60, step=siag.steps.Constant(0.01)).w

    assert np.array_equal(run(1, before=5), run(1, before=6))
    assert not np.array_equal(run(1, before=5), run(2, before=5))


def test_workers_have_dropout_of_their_own_and_the_last_sample_keeps_its():
    masks = []

    class Masked(nn.Linear):
        def forward(self, x):
            masks.append(nn.functional.dropout(torch.ones(8)).tolist())
            return super().forward(x)

    train(Torch(Masked(1, 1), nn.MSELoss()), method=STORM(), until=20)
    assert len(masks) > 20
    assert all(masks.count(mask) <= 3 for mask in masks)  # as the newest, as the last, and at w_0


def test_one_thread_is_used_and_what_was_set_before_is_kept():
    seen = []

    def loss(outputs, targets):
        seen.append(torch.get_num_threads())
        return nn.functional.mse_loss(outputs, targets)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        gradient(Torch(linear(), loss), line(1.0))
        gradient(Torch(linear(), loss, threads=3), line(1.0))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 3]


def test_evaluate_gets_the_module_in_mode_eval_without_gradients_and_training_goes_on_in_its_own():
    module = nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.5))
    modes = []

    def seen(module):
        modes.append((module.training, torch.is_grad_enabled()))
        return 0.0

    model = Torch(module, nn.MSELoss())
    train(model, until=5, evaluate={"seen": seen})
    assert set(modes) == {(False, False)}
    assert model._module.training
    assert model._module[1].training


def test_a_worker_that_begins_anew_shares_the_module_too():
    model = Torch(linear(), nn.MSELoss())
    runtime = siag.Simulated(seed=1, faults=Faults(crashes=30.0))
    assert train(model, runtime=runtime, until=100).t[-1] == 100


def test_it_travels_as_a_module_and_not_as_shared_memory(tmp_path):
    model = Torch(Tied(), nn.functional.mse_loss)
    batch = torch.randn(5, 3), torch.randn(5, 3)
    expected = gradient(model, batch)
    other = pickle.loads(pickle.dumps(model))
    assert np.array_equal(other.w0, model.w0)
    assert np.array_equal(gradient(other, batch)[1], expected[1])
    assert repr(other) == repr(model) == "Torch(Tied, d=27)"
    assert len(pickle.dumps(model)) < 20_000


def test_a_saved_runs_parameters_are_restored_by_the_adapter(tmp_path):
    model = Torch(linear(), nn.MSELoss())
    run = train(model, until=50)
    run.save(tmp_path / "run.npz")
    loaded = siag.load(tmp_path / "run.npz")
    assert loaded.model is None
    assert model.restored(loaded.w[0]).state_dict() == run.model.state_dict()


# Over a network


def test_a_server_and_workers_over_tcp_train_one_module():
    ready, runs = queue.Queue(), []
    options = {"until": 300, "step": STEP, "port": 0, "ready": lambda *place: ready.put(place), "progress": False}
    options["evaluate"] = {"bias": lambda module: module.bias.item()}
    model = Torch(linear(), nn.MSELoss())
    server = threading.Thread(target=lambda: runs.append(siag.serve(model, ["a", "b"], **options)))
    server.start()
    host, port = ready.get(timeout=60)
    threads = [
        threading.Thread(
            target=siag.work, args=(f"{host}:{port}", Torch(linear(), nn.MSELoss()), line(level)), kwargs={"name": name}
        )
        for name, level in (("a", 1.0), ("b", 3.0))
    ]
    for thread in threads:
        thread.start()
    for thread in (*threads, server):
        thread.join()
    (run,) = runs
    assert run.model.bias.item() == pytest.approx(2.0, abs=0.3)
    assert run.metrics["bias"][0, -1] == run.model.bias.item()
