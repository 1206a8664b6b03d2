"""The guard: a report is judged before it may change anything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled, part
from siag.foundations.errors import SiagError
from siag.foundations.packing import unpack
from siag.foundations.types import Bytes, Floats, Record
from siag.server.ledger import BANNED, HERE, KNOWN_AFTER, LARGEST, LAST, REPORTS, SAMPLES, SEVERAL

F = np.float64  # squares of short numbers would be rounded to short ones
MOST = check.LARGEST


class Verdict(IntEnum):
    """What the judge says of a report: accepted, or the first thing that is wrong with it."""

    ACCEPTED = 0
    NOT_HERE = 1  # nothing is wrong with the report, but its worker was not expected to send one
    BANNED = 2  # too many of the worker's reports were refused
    FROM_THE_FUTURE = 3  # its version does not exist yet, or never will
    TOO_OLD = 4
    BEFORE_ITS_LAST = 5  # computed from a version before the worker's last report
    NO_SAMPLE = 6  # its sample has a number that no sample can have
    REPEATED = 7  # its sample was reported already
    NOT_FINITE = 8
    TOO_LARGE = 9
    JUMP = 10  # much larger than what is usual
    MALFORMED = 11  # another length or type; found before the judge is asked
    UNKNOWN = 12  # from nobody this server knows; found before the judge is asked


# As numbers, for compiled code: an edit of a number makes it compile anew, one of a class would not.
ACCEPTED, NOT_HERE, IS_BANNED = int(Verdict.ACCEPTED), int(Verdict.NOT_HERE), int(Verdict.BANNED)
FROM_THE_FUTURE, TOO_OLD = int(Verdict.FROM_THE_FUTURE), int(Verdict.TOO_OLD)
BEFORE_ITS_LAST, NO_SAMPLE = int(Verdict.BEFORE_ITS_LAST), int(Verdict.NO_SAMPLE)
REPEATED, NOT_FINITE = int(Verdict.REPEATED), int(Verdict.NOT_FINITE)
TOO_LARGE, JUMP = int(Verdict.TOO_LARGE), int(Verdict.JUMP)


class Bounds(NamedTuple):
    """What a `Guard` says in numbers; infinite where it says nothing."""

    age: float
    norm: float
    jump: float


class Refused(SiagError):
    """A report, or a worker, was refused; nothing has changed.

    Args:
        reason: in one line, for the worker and for watchers.
        final: whether the worker is to be disconnected.
        blame: whether it is the worker's fault; slowness is not.
        why: the verdict; `None` if it is not a report that was refused.
    """

    def __init__(self, reason: str, final: bool = False, blame: bool = True, why: Verdict | None = None) -> None:
        super().__init__(reason)
        self.reason, self.final, self.blame, self.why = reason, final, blame, why

    @classmethod
    def malformed(cls, message: Floats, size: int, kind: str) -> Refused:
        """A message of another length or type."""
        expected = f"{size} of type {kind} are expected"
        return cls(f"{message.size} numbers of type {message.dtype}: {expected}", why=Verdict.MALFORMED)

    @classmethod
    def unknown(cls, row: int, n: int) -> Refused:
        """A report for a row that does not exist."""
        return cls(f"row {row}: there are rows 0 to {n - 1}", final=True, why=Verdict.UNKNOWN)


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What a report must be like.

    What is always asked: finite numbers, as many as the method's messages have; a version that exists, read after the
    worker's last report; a sample that was not reported before.

    Args:
        age: the most versions its w may be old; `None` for any.
        norm: the largest Euclidean norm; `None` for any.
        jump: by how many times the norm may exceed the largest this worker has ever sent, or during its first 20
            reports the largest of the workers that are known by then; jump² times, if these are fewer than three, of
            which all may be at their optimum. `None` or infinity for any.
        strikes: refusals in a row that are its fault, after which a worker is disconnected until it is readmitted
            or the server is started again. Being slow is no fault.

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


@compiled
def times_of(line: Floats, everybody: Floats, bounds: Bounds) -> float:
    """How many times the usual norm is a jump: many more if it is of one or two others, perhaps at their optimum."""
    if line[REPORTS] < KNOWN_AFTER and everybody[REPORTS] < SEVERAL:
        return bounds.jump * bounds.jump
    return bounds.jump


@compiled
def judge(line: Floats, everybody: Floats, bounds: Bounds, version: int, stamp: int, sample: int, square: float) -> int:
    """The verdict, as a number, on a report of this sample, computed from w of version `stamp`, with ‖message‖².

    `line` is the worker's, of the ledger, and `everybody` the ledger's last; `version` is that of the server's w.
    """
    norm = math.sqrt(square) if 0.0 <= square < math.inf else math.inf
    usual = line[LARGEST] if line[REPORTS] >= KNOWN_AFTER else everybody[LARGEST]
    if line[BANNED] != 0.0:
        verdict = IS_BANNED
    elif stamp < 0 or stamp > version:
        verdict = FROM_THE_FUTURE
    elif version - stamp > bounds.age:
        verdict = TOO_OLD
    elif stamp < line[LAST]:
        verdict = BEFORE_ITS_LAST
    elif sample < 0 or sample > MOST:
        verdict = NO_SAMPLE
    elif sample < line[SAMPLES]:
        verdict = REPEATED
    elif norm == math.inf:
        verdict = NOT_FINITE
    elif norm > bounds.norm:
        verdict = TOO_LARGE
    elif usual > 0.0 and norm > times_of(line, everybody, bounds) * usual:  # from 0 all is a jump
        verdict = JUMP
    elif line[HERE] == 0.0:
        verdict = NOT_HERE
    else:
        verdict = ACCEPTED
    return verdict


def refusal_for(
    verdict: int, line: Floats, everybody: Floats, bounds: Bounds, version: int, stamp: int, sample: int, square: float
) -> Refused:
    """What is told of a report with this verdict, given what the judge was given."""
    why = Verdict(verdict)
    match why:
        case Verdict.FROM_THE_FUTURE:
            reason = f"stamp {stamp}: the server is at version {version}, a report cannot be from another"
        case Verdict.TOO_OLD:
            reason = f"age {version - stamp}: at most {bounds.age:.0f} is allowed; read w anew"
        case Verdict.BEFORE_ITS_LAST:
            reason = f"stamp {stamp}: from before this worker's last report, at version {line[LAST]:.0f}; read w anew"
        case Verdict.NO_SAMPLE:
            reason = f"sample {sample}: must be a whole number of at least 0"
        case Verdict.REPEATED:
            reason = f"sample {sample}: this worker has reported sample {line[SAMPLES] - 1:.0f} already"
        case Verdict.NOT_FINITE:
            reason = "not finite: a number of the gradient is NaN, infinite, or too large to square"
        case Verdict.TOO_LARGE:
            reason = f"norm {math.sqrt(square):.4g}: at most {bounds.norm:.4g} is allowed"
        case Verdict.JUMP:
            known = line[REPORTS] >= KNOWN_AFTER
            usual, whose = (line[LARGEST], "this worker") if known else (everybody[LARGEST], "the others")
            what = f"more than {times_of(line, everybody, bounds):g} times the largest of {whose} so far"
            reason = f"norm {math.sqrt(square):.4g}: {what}, {usual:.4g}"
        case _:
            reason = why.name.lower().replace("_", " ")
    return Refused(reason, blame=why != Verdict.TOO_OLD, why=why)


LANES = 64  # sums that are added to side by side: so many that it is done in vectors, none of which waits for another
BLOCK = 4 * LANES  # numbers that are still in the fastest cache when they are read again


@part
def add_squares(message: Floats, first: int, last: int, sums: Floats) -> None:
    """Add the squares of the numbers from `first` to `last`, a multiple of `LANES` of them, to that many sums."""
    for begin in range(first, last, LANES):
        some = message[begin : begin + LANES]  # whose indices begin at 0: so it is done in vectors
        for j in range(LANES):
            x = F(some[j])
            sums[j] += x * x


@part
def add_rest(message: Floats, first: int, d: int, sums: Floats) -> float:
    """The sum of all, with the numbers from `first` to `d`; NaN or infinite if a number after the first d is."""
    total = 0.0
    for j in range(sums.size):
        total += sums[j]
    for rest in range(first, d):
        total += F(message[rest]) * F(message[rest])
    for beyond in range(d, message.size):
        total += 0.0 * message[beyond]
    return total


@part
def whole_lanes(d: int) -> int:
    """How many of d numbers are taken many at a time."""
    return d - d % LANES


@part
def norm_of_few(message: Floats, d: int) -> float:
    """`square_norm`, to the bit if d is below `LANES`, without an array of sums, which no lean machine code makes."""
    total = 0.0
    for j in range(d):
        total += F(message[j]) * F(message[j])
    for beyond in range(d, message.size):
        total += 0.0 * message[beyond]
    return total


@compiled
def square_norm(message: Floats, d: int) -> float:
    """The squared norm of the first d numbers, the gradient; NaN or infinite if any number of the message is.

    Written by hand because NumPy's `dot` spreads long arrays over all cores, which the workers need.
    """
    last = whole_lanes(d)
    sums = np.zeros(min(last, LANES))
    add_squares(message, 0, last, sums)
    return add_rest(message, last, d, sums)


@compiled
def widen(message: Floats, wide: Floats, d: int) -> float:
    """Copy a message of short numbers to doubles; their squared norm, to the bit `square_norm`'s, in the same pass."""
    last = whole_lanes(d)
    sums = np.zeros(min(last, LANES))
    for first in range(0, last, BLOCK):
        until = min(first + BLOCK, last)
        some, out = message[first:until], wide[first:until]
        for j in range(out.size):
            out[j] = some[j]
        add_squares(wide, first, until, sums)
    for j in range(last, message.size):
        wide[j] = message[j]
    return add_rest(wide, last, d, sums)


@compiled
def widen_packed(way: Record, message: Bytes, wide: Floats, d: int) -> float:
    """The same of a packed message: its numbers, and the squared norm of the first d of them."""
    last = whole_lanes(d)
    sums = np.zeros(min(last, LANES))
    for first in range(0, last, BLOCK):
        until = min(first + BLOCK, last)
        unpack(way, message, wide, first, until)
        add_squares(wide, first, until, sums)
    unpack(way, message, wide, last, wide.size)
    return add_rest(wide, last, d, sums)
