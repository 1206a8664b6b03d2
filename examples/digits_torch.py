"""Digits with torch: each worker sees one digit alone, the fastest 70 times as often as the slowest."""

import numpy as np
import torch
from sklearn.datasets import load_digits

import siag

X, y = (torch.from_numpy(part) for part in load_digits(return_X_y=True))
X = X.float() / 16
held_out = torch.arange(len(y)) % 4 == 0


def accuracy(module):
    """Of each digit, on held-out images."""
    right = module(X).argmax(dim=1) == y
    return [right[held_out & (y == digit)].float().mean().item() for digit in range(10)]


if __name__ == "__main__":
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    model = siag.adapters.Torch(module, torch.nn.CrossEntropyLoss(), batch=8)
    streams = [(X[~held_out & (y == digit)], y[~held_out & (y == digit)]) for digit in range(10)]
    times = siag.Simulated(slowness=np.geomspace(1, 70, 10), seed=1)
    run = siag.train(model, streams, until=siag.Until(epochs=2), evaluate={"accuracy": accuracy}, runtime=times)
    print("accuracy by digit:", run.metrics["accuracy"][0, -1].round(2))
    print("parameters:", list(run.model.state_dict()))
