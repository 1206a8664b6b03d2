"""NumPy at its best: all active workers of an iteration at once."""

from __future__ import annotations

import time

import numpy as np

from job import BETA, GAMMA, NOISE, D, N, P, T, answer, centers
from serving import serve

CENTERS = centers()


def run(seed: int, iterations: int) -> dict[str, object]:
    """One run; active workers' samples are drawn and multiplied together."""
    rng = np.random.default_rng(seed)
    w, table, total = np.zeros(D), np.zeros((N, D)), np.zeros(D)
    due = rng.integers(0, T, N)
    gradients = 0
    began = time.perf_counter()
    for t in range(iterations):
        active = np.flatnonzero(due == t)
        if active.size:
            k = active.size
            A = rng.standard_normal((k, P, D))
            residual = np.matmul(A, (w - CENTERS[active])[:, :, None]) - NOISE * rng.standard_normal((k, P, 1))
            g = np.matmul(A.transpose(0, 2, 1), residual)[:, :, 0]
            total += (g - table[active]).sum(axis=0)
            table[active] = g
            due[active] = t + rng.integers(1, T + 1, k)
            gradients += k
        w -= BETA / (t + GAMMA) / N * total
    return answer(time.perf_counter() - began, gradients, w)


if __name__ == "__main__":
    serve(run)
