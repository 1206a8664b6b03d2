"""sIAG on streaming least squares as a competent user would write it in NumPy."""

from __future__ import annotations

import numpy as np


def siag_numpy(centers, p, noise, T, beta, gamma, iterations, seed):
    """One run under uniform selection; return the final w and the gradients drawn.

    The active workers of an iteration are drawn and multiplied at once, and the sum of the table is kept up to date.
    """
    rng = np.random.default_rng(seed)
    n, d = centers.shape
    w, table, total = np.zeros(d), np.zeros((n, d)), np.zeros(d)
    due = rng.integers(0, T, n)
    drawn = 0
    for t in range(iterations):
        active = np.flatnonzero(due == t)
        if active.size:
            A = rng.standard_normal((active.size, p, d))
            residual = np.matmul(A, (w - centers[active])[:, :, None]) - noise * rng.standard_normal(
                (active.size, p, 1)
            )
            g = np.matmul(A.transpose(0, 2, 1), residual)[:, :, 0]
            total += (g - table[active]).sum(axis=0)
            table[active] = g
            due[active] = t + rng.integers(1, T + 1, active.size)
            drawn += active.size
        w -= beta / (t + gamma) / n * total
    return w, drawn
