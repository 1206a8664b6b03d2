"""Activities: who reports when. Sec. II's A_t, with the selection schemes of Sec. IV among them."""

from siag.activity.activity import Activity, Moments, active
from siag.activity.bernoulli import Bernoulli
from siag.activity.cyclic import Cyclic
from siag.activity.everyone import Everyone
from siag.activity.gaps import Nonuniform, Uniform
from siag.activity.recorded import Recorded
from siag.activity.sequential import Sequential
from siag.activity.unfold import lasts, unfold

__all__ = [
    "Activity",
    "Bernoulli",
    "Cyclic",
    "Everyone",
    "Moments",
    "Nonuniform",
    "Recorded",
    "Sequential",
    "Uniform",
    "active",
    "lasts",
    "unfold",
]
