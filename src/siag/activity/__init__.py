"""Activities: who reports when. Sec. II's A_t, with the selection schemes of Sec. IV among them."""

from siag.activity.activity import Activity, Moments, active
from siag.activity.bernoulli import Bernoulli
from siag.activity.clock import Clock, EveryArrivals, OnOff, Tick, WaitForAll
from siag.activity.cyclic import Cyclic
from siag.activity.everyone import Everyone
from siag.activity.gaps import Nonuniform, Uniform
from siag.activity.members import Members
from siag.activity.membership import Change
from siag.activity.recorded import Recorded
from siag.activity.sequential import Sequential
from siag.activity.timed import Timed
from siag.activity.times import Arrivals, Exponential, Fixed, LogNormal, Pareto, Times
from siag.activity.trace import Trace
from siag.activity.unfold import checked_sizes, lasts, unfold, waited

__all__ = [
    "Activity",
    "Arrivals",
    "Bernoulli",
    "Change",
    "Clock",
    "Cyclic",
    "EveryArrivals",
    "Everyone",
    "Exponential",
    "Fixed",
    "LogNormal",
    "Members",
    "Moments",
    "Nonuniform",
    "OnOff",
    "Pareto",
    "Recorded",
    "Sequential",
    "Tick",
    "Timed",
    "Times",
    "Trace",
    "Uniform",
    "WaitForAll",
    "active",
    "checked_sizes",
    "lasts",
    "unfold",
    "waited",
]
