"""What rounding messages at random costs: σ² grows by the variance of the rounding."""

from __future__ import annotations

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.encodings import BFLOAT16, ENCODINGS, INT8
from siag.foundations.errors import Missing
from siag.foundations.packing import BLOCK, LEVELS
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.foundations.types import Floats, Record, Rng
from siag.problems import Problem, sample

KEPT = 8  # bits of a number's fraction in bfloat16, the first of which is always 1
SMALLEST = -125  # the exponent of the smallest float32 with all its bits


def rounding_variance(
    problem: Problem, messages: str, *, w: Floats | None = None, draws: int = 1000, seed: int = 0
) -> Floats:
    r"""(n, d) how much rounding adds to the variance of every number of the workers' stochastic gradients.

    A number x that is rounded to a multiple of s, up or down at random so that its mean stays x, has the variance

        Var Q(x) = s² f (1 − f),    f = x/s − ⌊x/s⌋,

    at most s²/4, and s²/6 on average if x is spread over several steps. Messages of int8 have s = max |x|/127 over
    blocks of 256 numbers, those of bfloat16 2⁻⁷ to 2⁻⁸ of |x|. Rounding is independent of all else, so this adds to the
    covariance of ∇f_i, and its sum over a worker's numbers to σ_i². It is a mean over gradients that are drawn.

    Args:
        problem: whose gradients.
        messages: as in `siag.train`; 0 for `"float64"` and `"float32"`, which round to the nearest, by 10⁻⁷ at most.
        w: (d,) where; the optimum by default.
        draws: gradients of every worker, over which the mean is taken.
        seed: of these.

    References:
        D. Alistarh, D. Grubic, J. Li, R. Tomioka, M. Vojnovic, "QSGD", NeurIPS 2017.

    Example:
        >>> from siag.problems import LeastSquares
        >>> problem = LeastSquares.random(n=3, d=20, p=10, noise=0.1)
        >>> added = rounding_variance(problem, "int8", draws=100).sum(axis=1)
        >>> bool((added < 1e-3 * problem.noise_at(problem.optimum)).all())
        True
    """
    check.choice("messages", messages, tuple(ENCODINGS))
    draws, seed = check.integer("draws", draws), check.seed(seed)
    if w is None and problem.optimum is None:
        raise Missing("w", "the problem knows no optimum; say where its gradients are rounded")
    at = check.floats("w", problem.optimum if w is None else w, (problem.d,))
    found = np.zeros((problem.n, problem.d))
    if messages in (BFLOAT16.name, INT8.name):
        gradients, oracle = np.zeros((draws, problem.d)), problem.oracle()
        for i in range(problem.n):
            draw(oracle, blank(), key(seed, 0, SAMPLES), i, np.array(at), gradients)
            found[i] = variance_of(messages, gradients).mean(axis=0)
    return found


@compiled
def draw(oracle: Record, rng: Rng, key: Rng, i: int, w: Floats, out: Floats) -> None:
    """Worker i's first gradients at w."""
    for k in range(out.shape[0]):
        rewind(rng, key, i, k)
        sample(oracle, rng, i, w, out[k])


def variance_of(messages: str, numbers: Floats) -> Floats:
    """Of every number of these messages, one in a row: s² f (1 − f)."""
    if messages == INT8.name:
        blocks = range(0, numbers.shape[1], BLOCK)
        step = np.empty_like(numbers)
        for first in blocks:
            some = slice(first, first + BLOCK)
            step[:, some] = np.abs(numbers[:, some]).max(axis=1, keepdims=True) / LEVELS
    else:
        step = np.ldexp(1.0, np.maximum(np.frexp(numbers)[1], SMALLEST) - KEPT)
    multiple = np.divide(numbers, step, out=np.zeros_like(numbers), where=step > 0)
    part = multiple - np.floor(multiple)
    return np.asarray(step**2 * part * (1.0 - part))
