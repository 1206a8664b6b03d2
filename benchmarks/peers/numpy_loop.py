"""Plain NumPy: a loop over the arrivals, written as one writes it down first."""

from __future__ import annotations

import time

import numpy as np

from job import BETA, GAMMA, NOISE, D, N, P, T, answer, centers
from serving import serve

CENTERS = centers()


def run(seed: int, iterations: int) -> dict[str, object]:
    """One run; the sum of the table is kept up to date."""
    rng = np.random.default_rng(seed)
    w, table, total = np.zeros(D), np.zeros((N, D)), np.zeros(D)
    due = rng.integers(0, T, N)
    gradients = 0
    began = time.perf_counter()
    for t in range(iterations):
        for i in np.flatnonzero(due == t):
            A = rng.standard_normal((P, D))
            g = A.T @ (A @ (w - CENTERS[i]) - NOISE * rng.standard_normal(P))
            total += g - table[i]
            table[i] = g
            due[i] = t + rng.integers(1, T + 1)
            gradients += 1
        w -= BETA / (t + GAMMA) / N * total
    return answer(time.perf_counter() - began, gradients, w)


if __name__ == "__main__":
    serve(run)
