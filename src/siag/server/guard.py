"""The guard: a report is looked at before it may change anything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.errors import SiagError
from siag.foundations.types import Floats

KNOWN_AFTER = 20  # reports, before a worker's own history is held against it
U1, U2, U3, U4, U5, U6, U7 = (np.uint64(k) for k in range(1, 8))


class Bounds(NamedTuple):
    """What a `Guard` says in numbers; infinite where it says nothing."""

    age: float
    norm: float
    jump: float


class Refused(SiagError):
    """A report, or a worker, was refused; nothing has changed.

    Args:
        reason: in one line, for the worker and for whoever watches.
        final: whether the worker is to be disconnected.
        blame: whether it is the worker's fault; slowness is not.
    """

    def __init__(self, reason: str, final: bool = False, blame: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.final, self.blame = reason, final, blame


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What a report must be like.

    What is always asked: finite numbers, as many as the method's messages have; a version that exists, read after the
    worker's last report; a sample that was not reported before.

    Args:
        age: the most versions its w may be old; `None` for any.
        norm: the largest Euclidean norm; `None` for any.
        jump: by how many times the norm may exceed the largest this worker has ever sent, or during its first 20
            reports the largest of the workers that are known by then; `None` or infinity for any.
        strikes: after so many refusals in a row that are its fault, the worker is disconnected until the server is
            started again. Being slow is no fault.

    Example:
        >>> Guard(age=100)
        Guard(age=100, norm=None, jump=10000.0, strikes=10)
    """

    age: int | None = None
    norm: float | None = None
    jump: float | None = 1e4
    strikes: int = 10

    def __post_init__(self) -> None:
        if self.age is not None:
            object.__setattr__(self, "age", check.integer("age", self.age, low=0))
        if self.norm is not None:
            object.__setattr__(self, "norm", check.real("norm", self.norm, above=0))
        if self.jump == math.inf:
            object.__setattr__(self, "jump", None)
        if self.jump is not None:
            object.__setattr__(self, "jump", check.real("jump", self.jump, above=1, remedy="or inf for any"))
        object.__setattr__(self, "strikes", check.integer("strikes", self.strikes))

    @property
    def bounds(self) -> Bounds:
        """The same in numbers, for compiled code."""
        return Bounds(*(math.inf if bound is None else float(bound) for bound in (self.age, self.norm, self.jump)))

    def check_stamp(self, stamp: int, version: int, last: int = 0) -> None:
        """Refuse a report from the future, one that is too old, and one from before the worker's last, at `last`."""
        if not 0 <= stamp <= version:
            raise Refused(f"stamp {stamp}: the server is at version {version}, a report cannot be from another")
        if self.age is not None and version - stamp > self.age:
            raise Refused(f"age {version - stamp}: at most {self.age} is allowed; read w anew", blame=False)
        if stamp < last:
            raise Refused(f"stamp {stamp}: from before this worker's last report, at version {last}; read w anew")

    def check_sample(self, sample: int, drawn: int) -> None:
        """Refuse a sample that was reported already, and a number that no sample can have."""
        if sample < 0 or sample > check.LARGEST:
            raise Refused(f"sample {sample}: must be a whole number of at least 0")
        if sample < drawn:
            raise Refused(f"sample {sample}: this worker has reported sample {drawn - 1} already")

    def check_norm(self, square: float, largest: float, reports: int, others: float = 0.0) -> float:
        """Refuse what is not finite or too large, given the squared norm; return the norm.

        Args:
            square: the squared norm.
            largest: norm this worker has ever sent.
            reports: how many it has sent.
            others: the largest norm of all workers that are known.
        """
        if not math.isfinite(square):
            raise Refused("not finite: a number of the gradient is NaN, infinite, or too large to square")
        norm = math.sqrt(square)
        if self.norm is not None and norm > self.norm:
            raise Refused(f"norm {norm:.4g}: at most {self.norm:.4g} is allowed")
        usual, whose = (largest, "this worker") if reports >= KNOWN_AFTER else (others, "the others")
        if self.jump is not None and norm > self.jump * usual > 0:  # from 0 all is a jump
            raise Refused(f"norm {norm:.4g}: more than {self.jump:g} times the largest of {whose} so far, {usual:.4g}")
        return norm


@compiled
def square_norm(message: Floats) -> float:
    """‖message‖²; NaN or infinite if one of its numbers is.

    Written by hand because NumPy's `dot` spreads long arrays over all cores, which the workers need. Eight sums at a
    time, and indices without sign, as in `siag.problems.least_squares.apart`.
    """
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for k in range(message.size // 8):
        j = np.uint64(8 * k)
        s0 += message[j] * message[j]
        s1 += message[j + U1] * message[j + U1]
        s2 += message[j + U2] * message[j + U2]
        s3 += message[j + U3] * message[j + U3]
        s4 += message[j + U4] * message[j + U4]
        s5 += message[j + U5] * message[j + U5]
        s6 += message[j + U6] * message[j + U6]
        s7 += message[j + U7] * message[j + U7]
    for rest in range(message.size - message.size % 8, message.size):
        s0 += message[rest] * message[rest]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
