"""What staleness costs: by how much the error is larger than if all workers were active in every iteration."""

from __future__ import annotations

from dataclasses import dataclass

from siag.activity import Activity
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats
from siag.problems import Problem, reweighted
from siag.problems.weights import Weights
from siag.steps import Step
from siag.theory.sharp import at_optimum, response_of, squared


@dataclass(frozen=True, eq=False)
class Staleness:
    """The price of staleness, for large t.

    Attributes:
        by_worker: (n,) κ_i, how much stronger the noise of worker i enters because its gradients are used again.
        overall: the error over that of the same workers when all are active in every iteration.
        due: the part of the error that is due to staleness, 1 − 1/overall.
        parts: (n,) the part of the error that comes from each worker's noise; they add up to 1.
    """

    by_worker: Floats
    overall: float
    parts: Floats

    @property
    def due(self) -> float:
        """1 − 1/overall."""
        return 1.0 - 1.0 / self.overall


def price_of_staleness(
    problem: Problem, activity: Activity, step: Step, *, average: int = 1, weights: Weights = None
) -> Staleness:
    r"""κ by worker and overall, and what of the error of sIAG is due to it, by the sharp law.

    The law's constant is a sum over the workers, Σ_i κ_i c_i with c_i what the noise of worker i would leave if it were
    always active, p_i² being part of it. So `overall` = Σ κ_i c_i/Σ c_i; it is the mean of the κ_i if all workers are
    equally noisy and count the same.

    Args:
        problem: as in `sharp_law`.
        activity: as there.
        step: as there.
        average: m, as there.
        weights: as there.

    Example:
        One of four workers reports every hundredth time, and is responsible for nearly all of the error:

        >>> from siag.activity import Bernoulli
        >>> from siag.problems import LeastSquares
        >>> from siag.steps import Harmonic
        >>> problem = LeastSquares([[0.0], [1.0], [0.0], [1.0]], p=1, noise=1.0)
        >>> price = price_of_staleness(problem, Bernoulli([1.0, 1.0, 1.0, 0.01]), Harmonic(2.0, 100.0))
        >>> price.by_worker.round(6).tolist(), round(price.overall, 6), price.parts.round(3).tolist()
        ([1.0, 1.0, 1.0, 199.0], 50.5, [0.005, 0.005, 0.005, 0.985])
    """
    problem = reweighted(problem, weights)
    curvatures, variances = at_optimum(problem)
    fresh = squared(problem) * (variances @ response_of(curvatures, step, averaged=False))
    if not fresh.any():
        raise Unsuitable("there is no noise at the optimum, so staleness costs nothing for large t")
    reuse = activity.reuse(problem.n, average)
    stale = reuse * fresh
    return Staleness(reuse, float(stale.sum() / fresh.sum()), stale / stale.sum())
