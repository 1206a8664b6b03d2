"""Modules, streams and short runs for the tests of the adapter of torch."""

import copy

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

import siag

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


class Noisy(Dataset):
    """Samples with a transform that draws random numbers."""

    def __init__(self, pair):
        self.pair = pair

    def __len__(self):
        return len(self.pair[0])

    def __getitem__(self, k):
        return self.pair[0][k] + 0.1 * torch.randn(1), self.pair[1][k]
