"""Short runs of `siag.train` for tests."""

import jobs
import numpy as np

import siag

STEP = siag.steps.Harmonic(5.0, 20)
LIMIT = siag.Until(seconds=30)  # never reached, unless something is wrong
VIRTUAL = siag.Simulated(times=siag.activity.Exponential(0.01), seed=1)


def problem(n=3, noise=0.1, seed=0):
    return siag.problems.LeastSquares.random(n=n, d=4, p=2, noise=noise, seed=seed)


def train(streams, gradient=jobs.pull, w0=(0.0, 0.0), step=STEP, until=LIMIT, **options):
    """A run on streams, lists among them being read once."""
    return siag.train(
        gradient, [jobs.once(stream) for stream in streams], np.array(w0), step=step, until=until, **options
    )


def virtual(*given, **options):
    """The same in virtual time, for what does not depend on processes."""
    return train(*given, **{"runtime": VIRTUAL} | options)


def same(run, other):
    """Whether two runs are the same to the bit."""
    return all(np.array_equal(getattr(run, name), getattr(other, name)) for name in ("t", "error", "samples", "w"))
