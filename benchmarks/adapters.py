"""What the adapter of torch costs: a gradient beside torch's own, and the start of ten workers beside that of one.

Run it in the environment of the adapters: .venv-adapters/bin/python -m benchmarks.adapters
"""

import random
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np

ROUNDS = 1000  # of one gradient of each kind, in random order
QUANTILE = 0.1  # of the times of each: what other processes take is not counted
SIZES = {"784-256-256-10, batch 64": ([784, 256, 256, 10], 64), "64-32-10, batch 16": ([64, 32, 10], 16)}
STARTED = """
import sys, time
import numpy as np, siag, torch

def begun(k):
    return lambda: iter([(torch.rand(4, 8), torch.rand(4, 1))] * k)

if __name__ == "__main__":
    workers = int(sys.argv[1])
    model = siag.adapters.Torch(torch.nn.Linear(8, 1), torch.nn.MSELoss())
    began = time.perf_counter()
    siag.train(model, [begun(1)] * workers, step=siag.steps.Constant(0.01), progress=False)
    print(time.perf_counter() - began)
"""


def overhead(sizes, batch):
    """Seconds of a gradient by torch alone, by the adapter, and with its message written, on one thread each."""
    import torch
    from torch import nn

    import siag

    torch.set_num_threads(1)
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())][:-1]
    module, loss = nn.Sequential(*layers), nn.CrossEntropyLoss()
    model = siag.adapters.Torch(module, loss)
    sample = torch.randn(batch, sizes[0]), torch.randint(0, sizes[-1], (batch,))
    w = model.w0.astype(np.float32)  # as messages are
    w.setflags(write=False)

    def plain():
        module.zero_grad()
        value = loss(module(sample[0]), sample[1])
        value.backward()
        return value.item()

    def adapted():
        return model.value_and_gradient(w, sample, 1)

    def sent():
        adapted()[1].write(message)

    message, kinds = np.empty(w.size, np.float32), (plain, adapted, sent)
    times = {each: [] for each in kinds}
    for function in random.Random(0).choices(kinds, k=3 * ROUNDS):
        began = time.perf_counter()
        function()
        times[function].append(time.perf_counter() - began)
    return [float(np.quantile(times[each][5:], QUANTILE)) for each in kinds]


def started(workers):
    """Seconds until so many workers have begun, reported once and ended."""
    return float(subprocess.run([sys.executable, "-c", STARTED, str(workers)], capture_output=True, check=True).stdout)


if __name__ == "__main__":
    for name, size in SIZES.items():
        plain, adapted, sent = overhead(*size)
        more = f"the adapter {adapted / plain - 1:+.1%}, with its message written {sent / plain - 1:+.1%}"
        print(f"{name}: torch alone {1e3 * plain:.2f} ms a gradient, {more}")
    one, ten = (min(started(workers) for _ in range(3)) for workers in (1, 10))
    print(f"one worker starts in {one:.1f} s, ten in {ten:.1f} s")
