"""`siag.adapters.Torch`: modules as they are, trained from loaders, datasets and batches."""

import copy
import pickle
import queue
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import siag
from siag.adapters import Torch
from siag.adapters.torch_batches import read
from siag.foundations.errors import Missing, SiagError
from siag.live.task import FromStream
from siag.methods import SIAG, STORM, FedAvg
from siag.runtimes import Faults
from siag.streams import Batched, Paced, Repeated
from siag.streams.stream import Stop

STEP = siag.steps.Constant(0.1)
RUNTIME = siag.Simulated(seed=1)
X = torch.linspace(-1.0, 1.0, 24)[:, None]


def linear(seed=0, bias=True):
    torch.manual_seed(seed)
    return nn.Linear(1, 1, bias=bias)


def line(level):
    """y = 2 x + level."""
    return X, 2.0 * X + level


def train(model, streams=None, **options):
    given = {"step": STEP, "until": 200, "runtime": RUNTIME, "progress": False} | options
    return siag.train(model, streams or [line(1.0), line(3.0)], **given)


def gradient(model, batch, w=None, seed=0):
    loss, found = model.value_and_gradient(model.w0 if w is None else np.asarray(w), batch, seed)
    return loss, np.array(found)


def plain(module, batch, loss=nn.functional.mse_loss):
    """The gradient as torch itself computes it."""
    module = copy.deepcopy(module)
    module.zero_grad()
    value = loss(module(batch[0]), batch[1])
    value.backward()
    ours = [each for each in module.parameters() if each.requires_grad]
    return value.item(), np.concatenate([each.grad.numpy().ravel() for each in ours])


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


class Noisy(Dataset):
    """Samples with a transform that draws random numbers."""

    def __init__(self, pair):
        self.pair = pair

    def __len__(self):
        return len(self.pair[0])

    def __getitem__(self, k):
        return self.pair[0][k] + 0.1 * torch.randn(1), self.pair[1][k]


def test_workers_have_dropout_of_their_own_and_the_last_sample_keeps_its():
    masks = []

    class Masked(nn.Linear):
        def forward(self, x):
            masks.append(nn.functional.dropout(torch.ones(8)).tolist())
            return super().forward(x)

    train(Torch(Masked(1, 1), nn.MSELoss()), method=STORM(), until=20)
    assert len(masks) > 20
    assert all(masks.count(mask) <= 2 for mask in masks)


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


# What is read


def batches(stream, batch=4, row=0):
    """The first batches that a worker reads."""
    task = FromStream(Torch(linear(), nn.MSELoss(), batch=batch), stream, SIAG(), np.zeros(2))
    task.begin(row, 1, 2, 0)
    found = []
    for _ in range(7):
        task._pull()
        found.append(task._item)
    return found, task


@pytest.mark.parametrize(
    "stream",
    [
        TensorDataset(*line(1.0)),
        line(1.0),
        tuple(part.numpy() for part in line(1.0)),
        Batched(TensorDataset(*line(1.0)), 4),
        Repeated(line(1.0), passes=3),
        Paced(TensorDataset(*line(1.0)), 1e-6),
        lambda: TensorDataset(*line(1.0)),
        DataLoader(TensorDataset(*line(1.0)), 4, shuffle=True),
        Noisy(line(1.0)),
    ],
    ids=["dataset", "tensors", "arrays", "batched", "repeated", "paced", "function", "loader", "own dataset"],
)
def test_samples_become_batches_pass_after_pass(stream):
    found, task = batches(stream)
    assert [tuple(x.shape) for x, _ in found] == [(4, 1)] * 7
    first = np.sort(np.concatenate([np.ravel(y) for _, y in found[:6]]))
    assert first == pytest.approx(line(1.0)[1].numpy().ravel())
    assert np.concatenate([np.ravel(y) for _, y in found[:6]]) != pytest.approx(line(1.0)[1].numpy().ravel())
    assert task.passes == 1


class Stream(IterableDataset):
    def __len__(self):
        return 24

    def __iter__(self):
        return iter(zip(*line(1.0), strict=True))


@pytest.mark.parametrize("stream", [Stream(), [tuple(p[k : k + 4] for p in line(1.0)) for k in range(0, 24, 4)]])
def test_iterable_datasets_and_lists_of_batches_are_read_too(stream):
    found, _ = batches(stream)
    assert [tuple(x.shape) for x, _ in found] == [(4, 1)] * 7


def test_samples_that_are_tables_are_collated():
    rows = [{"x": torch.tensor([float(k)]), "y": k} for k in range(8)]
    stream = read(Batched(rows, 4), 2)
    first = next(stream.samples(Stop()))
    assert first["x"].shape == (4, 1)
    assert first["y"].tolist() == [0, 1, 2, 3]


# What is refused


class Counting(nn.Module):
    """A module whose buffer counts its calls."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(1, 1)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        return self.inner(x)


def complex_module():
    module = nn.Module()
    module.phase = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    return module


def views():
    module, memory = nn.Module(), torch.zeros(4)
    module.a, module.b = nn.Parameter(memory[:3]), nn.Parameter(memory[2:])
    return module


BAD = {
    "no module": (lambda: Torch(3, nn.MSELoss()), "module = 3: must be a torch.nn.Module"),
    "class": (lambda: Torch(nn.Linear, nn.MSELoss()), "must be a module, not its class; make one: Linear"),
    "nothing to train": (
        lambda: Torch(nn.ReLU(), nn.MSELoss()),
        "module = 'ReLU': must be one with trainable parameters; requires_grad_",
    ),
    "all frozen": (lambda: Torch(linear().requires_grad_(False), nn.MSELoss()), "one with trainable parameters"),
    "complex": (lambda: Torch(complex_module(), nn.MSELoss()), "'phase': must be of real numbers, not complex64"),
    "lazy": (lambda: Torch(nn.LazyLinear(1), nn.MSELoss()), "initialised; call the module on a batch first"),
    "mixed": (
        lambda: Torch(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1).double()), nn.MSELoss()),
        "'1.weight': must be torch.float32 on cpu as 0.weight, not torch.float64 on cpu",
    ),
    "views": (lambda: Torch(views(), nn.MSELoss()), "'a and b': must be parameters of memory of their own"),
    "batch norm": (
        lambda: Torch(nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2)), nn.MSELoss()),
        "module = 'BatchNorm1d 1': must be a module without it: its running statistics .* use GroupNorm or LayerNorm",
    ),
    "no loss": (lambda: Torch(linear()), "loss is missing; give a function of outputs and targets"),
    "two": (lambda: Torch(linear(), nn.MSELoss(), objective=len), "objective = .*: must be given without loss"),
    "loss class": (lambda: Torch(linear(), nn.MSELoss), "must be a function, not a class; make one: MSELoss"),
    "loss number": (lambda: Torch(linear(), 3), "loss = 3: must be a function that returns a tensor with one number"),
    "loss trained": (lambda: Torch(linear(), linear()), "without trainable parameters; make it a part of the module"),
    "batch": (lambda: Torch(linear(), nn.MSELoss(), batch=0), "batch = 0: must be a whole number of at least 1"),
    "threads": (lambda: Torch(linear(), nn.MSELoss(), threads=0), "threads = 0: must be"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_bad_input_is_refused_in_one_clear_line(case):
    make, words = case
    with pytest.raises((siag.BadInput, Missing), match=words) as error:
        make()
    assert "\n" not in str(error.value)


def test_batch_norm_that_is_frozen_or_keeps_no_statistics_is_trained():
    frozen = nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2).eval(), nn.Linear(2, 1))
    without = nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2, track_running_stats=False), nn.Linear(2, 1))
    for module in (frozen, without):
        assert np.isfinite(train(Torch(module, nn.MSELoss()), until=20).w).all()


FAILS = {
    "not a scalar": (
        nn.MSELoss(reduction="none"),
        r"the loss is a tensor of shape \(24, 1\); it must be a tensor with",
    ),
    "a number": (lambda out, y: ((out - y) ** 2).mean().item(), "the loss is .*; it must be a tensor with one real"),
    "no graph": (lambda out, y: ((out - y) ** 2).mean().detach(), "the loss does not depend on the parameters"),
}


@pytest.mark.parametrize("case", FAILS.values(), ids=FAILS)
def test_a_loss_that_cannot_be_differentiated_is_an_error_that_says_so(case):
    loss, words = case
    with pytest.raises(SiagError, match=words):
        train(Torch(linear(), loss, batch=24))


def test_a_buffer_that_changes_is_an_error_that_names_it():
    with pytest.raises(SiagError, match="the buffer calls changes while the module computes"):
        train(Torch(Counting(), nn.MSELoss()))


def test_batches_that_are_no_pairs_are_an_error_that_names_the_remedy():
    with pytest.raises(SiagError, match=r"a batch must be a pair \(inputs, targets\); for others give objective="):
        train(Torch(linear(), nn.MSELoss()), [[X, X]])


def test_pairs_of_unequal_length_are_refused():
    with pytest.raises(SiagError, match="a pair of 24 rows and 3 rows': must be a pair"):
        train(Torch(linear(), nn.MSELoss()), [(X, X[:3])])


def test_a_loader_with_processes_is_refused_in_a_worker_process():
    loader = DataLoader(TensorDataset(*line(1.0)), 4, num_workers=2)
    with pytest.raises(SiagError, match="num_workers = 2: must be 0 for a loader that is a stream"):
        train(Torch(linear(), nn.MSELoss()), [loader], runtime=None)


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
