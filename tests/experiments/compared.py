"""What is compared in tests of comparisons."""

import siag
from siag.activity import Clock, EveryArrivals, Exponential

PROBLEM = siag.problems.LeastSquares.random(n=8, d=3, p=4, noise=0.1)
CLOCK = Clock(compute=Exponential(1.0), slowness=list(range(1, 9)), server=EveryArrivals(1))


def row_of(found, activity, method):
    return next(found.row(e) for e in found.entries if (e.activity, e.contender.name) == (activity, method))
