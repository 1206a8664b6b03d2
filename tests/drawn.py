"""The samples that a run sees, one by one, for twins written in plain NumPy."""

import numpy as np

from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.problems import sample


class Drawn:
    """Draws ∇f_i(w; ξ) with the samples that `simulate` with this seed sees."""

    def __init__(self, problem, seed=0):
        self._oracle, self._d = problem.oracle(), problem.d
        self._rng, self._key, self._count = blank(), key(seed, 0, SAMPLES), np.zeros(problem.n, int)

    def at(self, i, *points):
        """The gradients of worker i's next sample, the same one, at each of these points."""
        found = []
        for w in points:
            gradient = np.empty(self._d)
            rewind(self._rng, self._key, i, self._count[i])
            sample(self._oracle, self._rng, i, w, gradient)
            found.append(gradient)
        self._count[i] += 1
        return found


def some_reports(n, iterations, seed):
    """Who reports when: about a third of the workers, and now and then nobody."""
    chance = np.random.default_rng(seed)
    return [[] if t % 7 == 3 else np.flatnonzero(chance.random(n) < 0.3).tolist() for t in range(iterations)]
