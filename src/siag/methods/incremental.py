"""Incremental gradient: one worker after the other, and nothing kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from siag.activity import Activity, Cyclic
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats, Record
from siag.methods.method import Exact, Method
from siag.methods.sgd import Fresh
from siag.problems import Problem


@dataclass(frozen=True, kw_only=True)
class Incremental(Method):
    r"""Step along the exact gradient of one worker at a time, in turn.

        w^{t+1} = w^t − η_t ∇F_{i_t}(w^t),    i_t = t mod n

    There is no 1/n: a pass of n steps moves w about n times as far as a step of gradient descent with the same η does.
    With a constant step the ends of the passes converge, but to a point whose distance from w* is of the order of η;
    a step that diminishes as 1/t leads to w*.

    Reference:
        D. P. Bertsekas, "Incremental gradient, subgradient, and proximal methods for convex optimization: a survey", in
        Optimization for Machine Learning, MIT Press 2011; the rate: M. Gürbüzbalaban, A. Ozdaglar, P. Parrilo,
        "Convergence rate of incremental gradient and incremental Newton methods", SIAM Journal on Optimization 2019.
    """

    NO_CHANGES = "it takes them in turn; use SGD, or IAG"

    def init(self, w0: Floats, n: int) -> Record:
        """Nothing received yet."""
        return Fresh(w0.copy(), np.zeros(w0.size), np.zeros(1, np.int64), 0)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that send ∇F_i(w)."""
        return Exact()

    def suit(self, problem: Problem, activity: Activity) -> None:
        """Refuse any activity but one worker after the other."""
        super().suit(problem, activity)
        if not isinstance(activity, Cyclic):
            raise Unsuitable(
                f"Incremental takes the workers in turn and cannot follow {activity!r}; "
                "use Cyclic(), or SGD for other activities"
            )

    def serve(self) -> None:
        """Refuse: live workers report when they are done, not in turn."""
        raise Unsuitable("Incremental takes the workers in turn, a live server cannot; use IAG, or SGD on streams")
