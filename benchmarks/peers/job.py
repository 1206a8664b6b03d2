"""The job all sides do: sIAG on the paper's least-squares problem, uniform selection."""

from __future__ import annotations

import numpy as np

N, D, P, NOISE, T, BETA, GAMMA = 100, 20, 10, 0.1, 15, 0.2, 200.0


def centers(n: int = N) -> np.ndarray:
    """(n, d) the same problem for everyone: that of LeastSquares.random(n=n, d=20, p=10, noise=0.1, seed=0)."""
    return np.random.default_rng(0).random((n, D))


def answer(seconds: float, gradients: int, w: np.ndarray) -> dict[str, object]:
    """What a peer reports: its time, its work, and the final iterates, one row a repeat."""
    return {"seconds": seconds, "gradients": gradients, "w": np.atleast_2d(np.asarray(w, float)).tolist()}
