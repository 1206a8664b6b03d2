"""Problems: min (1/n) Σ F_i, eq. (1). Each draws stochastic gradients of every worker's own objective."""

from siag.problems.least_squares import LeastSquares
from siag.problems.logistic_regression import LogisticRegression
from siag.problems.problem import Constants, Problem, again, curvature, exact, hessian, sample
from siag.problems.ridge import Ridge

__all__ = [
    "Constants",
    "LeastSquares",
    "LogisticRegression",
    "Problem",
    "Ridge",
    "again",
    "curvature",
    "exact",
    "hessian",
    "sample",
]
