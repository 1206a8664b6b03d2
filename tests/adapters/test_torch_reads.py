"""What `siag.adapters.Torch` reads and what it refuses: datasets, loaders and batches; modules, losses and streams."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch_jobs import Noisy, X, gradient, line, linear, train

import siag
from siag.adapters import Torch
from siag.adapters.torch_batches import read
from siag.foundations.errors import Missing, SiagError
from siag.live.task import FromStream
from siag.methods import SIAG
from siag.streams import Batched, Paced, Repeated
from siag.streams.stream import Stop

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
    """A module whose buffer counts its calls, once there were some, in place or as another tensor."""

    def __init__(self, after=0, in_place=True):
        super().__init__()
        self.inner, self.called, self.after, self.in_place = nn.Linear(1, 1), 0, after, in_place
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.called += 1
        if self.called > self.after:
            if self.in_place:
                self.calls += 1
            else:
                self.calls = self.calls + 1
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
    "meta": (lambda: Torch(linear().to("meta"), nn.MSELoss()), "'weight': must be on a device with numbers, not meta"),
    "no device": (
        lambda: Torch(linear(), nn.MSELoss(), device="cuda:999"),
        "device = 'cuda:999': must be a device of torch that is there .* leave it out",
    ),
    "device's name": (lambda: Torch(linear(), nn.MSELoss(), device="gpu"), "device = 'gpu': must be a device of torch"),
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


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("after", [0, 3])
def test_a_buffer_that_changes_is_an_error_that_names_it_whenever_it_does(after, in_place):
    model = Torch(Counting(after, in_place), nn.MSELoss())
    for _ in range(after):
        gradient(model, line(1.0))
    with pytest.raises(SiagError, match="the buffer calls changes while the module computes"):
        gradient(model, line(1.0))


def test_a_buffer_that_is_written_anew_with_the_same_numbers_is_none_that_changes():
    class Same(nn.Linear):
        def forward(self, x):
            self.level = torch.tensor([1.0, float("nan")])
            return super().forward(x)

    module = Same(1, 1)
    module.register_buffer("level", torch.tensor([1.0, float("nan")]))
    model = Torch(module, nn.MSELoss())
    assert gradient(model, line(1.0))[0] == gradient(model, line(1.0))[0]


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
