"""Problems: min (1/n) Σ F_i, eq. (1), or Σ p_i F_i. Each draws stochastic gradients of every worker's own objective."""

from siag.problems.from_function import FromFunction
from siag.problems.least_squares import LeastSquares
from siag.problems.logistic_regression import LogisticRegression
from siag.problems.network import Network
from siag.problems.nonconvex_logistic import NonconvexLogistic
from siag.problems.problem import (
    Constants,
    Problem,
    again,
    curvature,
    exact,
    hessian,
    optimum_of,
    reweighted,
    sample,
    weights_of,
)
from siag.problems.ridge import Ridge

__all__ = [
    "Constants",
    "FromFunction",
    "LeastSquares",
    "LogisticRegression",
    "Network",
    "NonconvexLogistic",
    "Problem",
    "Ridge",
    "again",
    "curvature",
    "exact",
    "hessian",
    "optimum_of",
    "reweighted",
    "sample",
    "weights_of",
]
