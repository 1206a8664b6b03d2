"""PyTorch: a loop over the iterations, all active workers of one at once, without autograd."""

from __future__ import annotations

import time

import torch

from job import BETA, GAMMA, NOISE, D, N, P, T, answer, centers
from serving import serve

torch.set_num_threads(1)
CENTERS = torch.from_numpy(centers())


@torch.inference_mode()
def run(seed: int, iterations: int) -> dict[str, object]:
    """One run."""
    rng = torch.Generator().manual_seed(seed)
    options = {"generator": rng, "dtype": torch.float64}
    w, table, total = (torch.zeros(*shape, dtype=torch.float64) for shape in ((D,), (N, D), (D,)))
    due = torch.randint(0, T, (N,), generator=rng)
    gradients = 0
    began = time.perf_counter()
    for t in range(iterations):
        active = torch.nonzero(due == t)[:, 0]
        k = len(active)
        if k:
            A = torch.randn(k, P, D, **options)
            residual = torch.bmm(A, (w - CENTERS[active])[:, :, None]) - NOISE * torch.randn(k, P, 1, **options)
            g = torch.bmm(A.transpose(1, 2), residual)[:, :, 0]
            total += (g - table[active]).sum(dim=0)
            table[active] = g
            due[active] = t + torch.randint(1, T + 1, (k,), generator=rng)
            gradients += k
        w -= BETA / (t + GAMMA) / N * total
    return answer(time.perf_counter() - began, gradients, w.numpy())


if __name__ == "__main__":
    serve(run)
