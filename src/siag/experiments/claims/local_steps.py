"""What claims about local steps share: problems that tell methods apart, and where a run has come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from siag.activity import Activity
from siag.foundations.types import Floats
from siag.methods import Method
from siag.problems import Ridge
from siag.report import Basis, Claim
from siag.simulation import Run, simulate
from siag.steps import Step

Maker: TypeAlias = Callable[..., Method]

N, STEPS = 10, 5
AT_REST = 1e-18  # a squared distance that is rounding and what is left of a linear decay
NEAR, WITHIN = 1e-3, 0.05  # of a mean over chance: a squared distance, and a relative one
SLOWNESS = tuple(np.linspace(1.0, 10.0, N).tolist())


class Rest(NamedTuple):
    """Where a method comes to rest on average."""

    predicted: float  # the squared bias
    measured: float
    gap: float  # the squared distance between the two points


def rests_where_predicted(statement: str, law: str, rest: Rest) -> Claim:
    """A claim of our own: the method ends on average where theory has it end."""
    return Claim(
        statement,
        "siag.theory.local_fixed_point",
        f"{law}: ‖w − w*‖² = {rest.predicted:.4f}, ± {WITHIN:.0%}, and w within {NEAR:g} of that point",
        f"{rest.measured:.4f}, and {rest.gap:.1e} from it",
        abs(rest.measured / rest.predicted - 1.0) < WITHIN and rest.gap < NEAR,
        Basis.OURS,
    )


def unlike() -> Ridge:
    """Workers that want different things, with curvatures of their own."""
    return Ridge.random(n=N, d=5, m=20, spread=1.0, tilt=0.5, regularization=0.1, seed=7)


def alike() -> Ridge:
    """Workers that want different things, all with the curvature of the first."""
    other = unlike()
    return Ridge(np.repeat(other.features[:1], N, axis=0), other.targets, other.regularization)


def shared() -> Ridge:
    """Workers that all want the same, with curvatures of their own."""
    return Ridge.random(n=N, d=5, m=20, spread=0.0, tilt=0.5, noise=0.0, seed=7)


def large(problem: Ridge) -> float:
    """A size of local steps with which they drift."""
    return float(0.5 / problem.smoothness.max())


def small(problem: Ridge) -> float:
    """A size of local steps with which they drift little."""
    return float(0.1 / problem.smoothness.max())


def local_parameters() -> dict[str, Any]:
    """The local steps of the methods on a clock."""
    return {"steps": STEPS, "size": small(unlike()), "gradients": "exact"}


def end(problem: Ridge, method: Method, activity: Activity, step: Step, iterations: int) -> Floats:
    """(d,) the last iterate."""
    last: Floats = simulate(problem, method, activity, step, iterations=iterations, record=2).w[0]
    return last


def reached(error: Floats, goal: float) -> int:
    """The first point at which an error is so much of the first; the last if it never is."""
    below = error <= goal * error[0]
    return int(np.argmax(below)) if below.any() else len(error) - 1


def when(run: Run, repeat: int, goal: float) -> float:
    """The simulated time at which a repeat gets there; infinite if it never does."""
    point = reached(run.error[repeat], goal)
    return float(run.time[repeat, point]) if run.error[repeat, point] <= goal * run.error[repeat, 0] else np.inf


def square(vector: Floats) -> float:
    """The squared length."""
    return float(vector @ vector)


def listed(values: list[float]) -> str:
    """Three digits of each."""
    return ", ".join(f"{value:.3g}" for value in values)
