"""`fit` on processes: a worker for each source, by `siag.train`."""

from __future__ import annotations

from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats, Integers
from siag.live.until import Until
from siag.losses import Loss
from siag.methods import Method
from siag.steps import Step
from siag.streams import Batched


def dealt(workers: Any, sources: int | Integers, names: int, count: int, random: np.random.RandomState) -> Integers:
    """(count,) which process each row goes to: its source's; if there is one source, any of as many as are wanted."""
    if workers is True and names > 1:
        workers = names
    wanted = check.integer("workers", workers, low=2)
    if isinstance(sources, int) or names == 1:
        return random.permutation(np.arange(count) % wanted)
    if wanted != names:
        remedy = "or True for one process for each source, or None for none"
        raise BadInput("workers", workers, f"the number of sources, {names}", remedy)
    return sources


def train_on_processes(
    loss: Loss,
    X: Any,
    y: Any,
    sources: Integers,
    *,
    method: Method | None,
    step: Step | None,
    weights: Floats | None,
    size: int,
    passes: int,
    seed: int,
) -> Floats:
    """w after the given number of passes over the data."""
    from siag.live.train import train  # with all that starts processes

    if not isinstance(X, np.ndarray):
        raise BadInput("workers", int(sources.max()) + 1, "None where X is sparse", "or give X.toarray()")
    groups = [np.flatnonzero(sources == i) for i in range(int(sources.max()) + 1)]
    streams = [Batched((X[rows], y[rows]), size) for rows in groups]
    until = Until(reports=passes * max(1, -(-len(X) // size)))
    w0 = np.zeros(loss.dimension(X.shape[1]))
    w: Floats = train(loss, streams, w0, method, step, until, seed=seed, weights=weights).w[0]
    return w
