"""What is claimed of steps that follow the ages there are, by either of two rules."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from siag.activity import Clock, Exponential, Fixed, Recorded, Uniform
from siag.activity.agenda import STEP
from siag.foundations.errors import DivergenceWarning
from siag.foundations.types import Floats, Integers
from siag.methods import IAG
from siag.problems.ridge import Ridge
from siag.report import Claim
from siag.simulation import simulate
from siag.simulation.aged import aged_events
from siag.steps import Constant, DelayAdaptive, Step

WU = "Wu, Magnússon, Feyzmahdavian, Johansson 2022"
ALPHA = 0.9  # α of the first rule
EXACT = 1e-9  # of γ′: rounding


def delay_adaptive(step: Callable[..., Step] = DelayAdaptive) -> list[Claim]:
    """What steps that follow ages gain over a constant one, and what tells the two rules apart.

    Args:
        step: makes the step for γ′, a `variant` and its `alpha`.
    """
    problem = Ridge.random(n=10, d=10, m=20, spread=0.5, tilt=0.3, regularization=0.1, seed=6)
    gamma = 0.99 / float(np.sqrt(np.square(problem.smoothness).mean()))
    first, second = (step(gamma, variant=variant, alpha=ALPHA) for variant in ("first", "second"))
    unequal = Clock(compute=Exponential(1.0), slowness=np.linspace(1.0, 10.0, problem.n).tolist())
    used = [_sizes(problem.n, one, unequal) / gamma for one in (first, second)]
    even = _sizes(problem.n, second, Clock(compute=Fixed(1.0)))
    return [
        *_gains(problem, gamma, first, second),
        Claim(
            "By construction, over no window as long as an age do the steps exceed γ′ together",
            f"{WU}, the step-size principle",
            "on a clock with unequal workers η_t + Σ_{s=t−τ_t}^{t−1} η_s reaches γ′/2 and never exceeds γ′",
            " and ".join(f"{each.window.max():.6f} γ′ at most" for each in used),
            all(0.5 <= each.window.max() <= 1 + EXACT for each in used),
        ),
        Claim(
            "By the first rule they use at least αγ′ of it at every t: no age, however it changes, leaves them idle",
            f"{WU}, Adaptive 1",
            f"α = {ALPHA:g}, the same clock: η_t + Σ_{{s=t−τ_t}}^{{t−1}} η_s ≥ αγ′ at all t from the first step on",
            f"{used[0].window.min():.6f} γ′ at least",
            used[0].window.min() >= ALPHA - EXACT,
        ),
        Claim(
            "By the second rule the steps are even where the age is: all are γ′/(τ + 1), the largest constant step the "
            "principle allows",
            f"{WU}, Adaptive 2",
            f"workers of one speed, τ = {even.age[-1]}: η_t = γ′/(τ + 1) to {EXACT:g} of γ′ at the last 2000 of 5000",
            f"from {even.eta[-2000:].min() / gamma:.6f} to {even.eta[-2000:].max() / gamma:.6f} γ′, "
            f"1/(τ + 1) = {1 / (even.age[-1] + 1):.6f}",
            bool(np.all(np.abs(even.eta[-2000:] / gamma - 1 / (even.age[-2000:] + 1)) <= EXACT)),
        ),
    ]


def _gains(problem: Ridge, gamma: float, first: Step, second: Step) -> list[Claim]:
    """Against constant steps, one too cautious and one too bold."""
    silent = _one_silent(problem.n, 1000)
    bursts = Recorded([range(problem.n) if t % 50 == 0 else () for t in range(3000)])
    longest, usual = silent.bound(problem.n) or 0, 2
    after = [_end(problem, silent, one) for one in (first, second)]
    cautious = _end(problem, silent, Constant(gamma / (longest + 1)))
    late = [_end(problem, bursts, one) for one in (first, second)]
    bold = _end(problem, bursts, Constant(gamma / (usual + 1)))
    start = float(np.square(problem.optimum).sum())
    return [
        Claim(
            "A long silence costs the time it lasts; a constant step for the worst case pays for it all along",
            WU,
            f"ages up to {longest}, error of the start {start:.2g}: below 1e-20 by either rule, "
            "above 0.01 with the constant step",
            f"{after[0]:.1e} and {after[1]:.1e}; {cautious:.1e}",
            max(after) < 1e-20 and cautious > 0.01,
        ),
        Claim(
            "No bound on the ages has to be known: where a constant step for smaller ages diverges, these converge",
            WU,
            f"ages up to {bursts.bound(problem.n)}: below 1e-8 by either rule, no limit for γ′/{usual + 1}",
            f"{late[0]:.1e} and {late[1]:.1e}; {bold:.1e}",
            max(late) < 1e-8 and not bold < 1e6,
        ),
    ]


def _one_silent(n: int, iterations: int) -> Recorded:
    """Gaps of up to 3, but from iteration 100 to 600 nothing is heard of worker 0."""
    tape = Recorded.of(Uniform(3), n, iterations).tape
    sets = np.split(tape.worker, tape.start[1:-1])
    return Recorded([[i for i in workers if i > 0 or not 100 <= t < 600] for t, workers in enumerate(sets)])


def _end(problem: Ridge, activity: Recorded, step: Step) -> float:
    """The last error of IAG with all rows; ∞ if there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        run = simulate(problem, IAG(wait=1.0), activity, step, iterations=activity.length, record=2)
    return float(run.error[0, -1]) if np.isfinite(run.error[0, -1]) else np.inf


class Sizes(NamedTuple):
    """The steps since the first that is not 0."""

    eta: Floats  # η_t
    age: Integers  # τ_t, of the oldest report in use
    window: Floats  # η_t and the steps since that was computed, together

    def __truediv__(self, gamma: float) -> Sizes:
        return Sizes(self.eta / gamma, self.age, self.window / gamma)


def _sizes(n: int, step: Step, clock: Clock, iterations: int = 5000) -> Sizes:
    """The steps along a clock, for a table of every worker's gradient."""
    rule, sizes, stamp, oldest = step.rule(n), np.empty(0), np.full(n, -1), []
    for chunk in clock.events(n, iterations, 0, 0, 1):
        t, steps = len(sizes), int((chunk.code == STEP).sum())
        eta = step.sizes(np.arange(t, t + steps)) if rule is None else aged_events(rule, chunk, t, steps, True)
        sizes = np.append(sizes, eta)
        for code, age in zip(chunk.code.tolist(), chunk.age.tolist(), strict=True):
            if code == STEP:
                oldest.append(max(int(stamp.min()), 0))
                t += 1
            elif code >= 0:
                stamp[code] = t - age
    begun, total = int(np.flatnonzero(sizes)[0]), np.concatenate(([0.0], np.cumsum(sizes)))
    window = total[1:] - total[oldest]
    return Sizes(sizes[begun:], (np.arange(len(sizes)) - oldest)[begun:], window[begun:])
