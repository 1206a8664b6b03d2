"""Who is a member when: workers that come later, leave, and come back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.memory import check_fits
from siag.foundations.types import Booleans, Floats, Integers

When: TypeAlias = float | Sequence[float] | None
Dates: TypeAlias = Mapping[int, When] | Sequence[When]
"""When workers come or leave: by worker, for those that do; or one for each worker, `None` where it never does.

One that does so several times has a list.
"""

NEVER = ((), (math.inf,), (None,))


class Change(NamedTuple):
    """From some moment on others are members than before."""

    when: float  # an iteration, or seconds; 0: who is there from the start
    left: Integers  # those who are no members from now on
    members: Integers  # those who are, ascending


class Switches(NamedTuple):
    """All that changes, one worker at a time, in the order in which it happens."""

    time: Floats  # (switches,) ascending
    worker: Integers  # (switches,)
    joins: Booleans  # (switches,) whether it comes, or leaves


class Membership:
    """When workers come and leave, checked; nobody does if both are empty.

    A worker is there from the start if it never comes, comes at 0, or leaves before it first comes.

    Args:
        arrive: when workers come.
        leave: when they leave.
        whole: whether moments are iterations, and so whole numbers; else they are seconds.
    """

    def __init__(self, arrive: object, leave: object, whole: bool) -> None:
        self._lengths = {"arrive": _count(arrive), "leave": _count(leave)}
        come, go = _by_worker("arrive", arrive, whole), _by_worker("leave", leave, whole)
        self._turns = {i: _turns(i, come.get(i, ()), go.get(i, ())) for i in sorted(come.keys() | go.keys())}

    def __bool__(self) -> bool:
        """Whether anybody is ever missing."""
        return any(self._turns.values())

    def switches(self, n: int) -> Switches:
        """Everything that changes among n workers; those who are missing at first leave at 0."""
        self._fits(n)
        turns = sorted((time, not joins, i) for i, own in self._turns.items() for time, joins in own)
        return Switches(
            np.array([time for time, _, _ in turns], np.float64),
            np.array([i for _, _, i in turns], np.int64),
            np.array([not leaves for _, leaves, _ in turns], np.bool_),
        )

    def changes(self, n: int) -> tuple[Change, ...]:
        """Who is a member from when on, the first from the start; none if everybody is, always."""
        there, found, moments = np.ones(n, np.bool_), [], {time for own in self._turns.values() for time, _ in own}
        check_fits(8 * n * len(moments), f"{len(moments)} changes among {n} workers", "let more come and leave at once")
        every = zip(*(column.tolist() for column in self.switches(n)), strict=True)
        for when, some in groupby(every, key=lambda each: each[0]):
            before = there.copy()
            for _, i, joins in some:
                there[i] = joins
            if not there.any():
                raise BadInput("leave", when, "such that somebody is left", f"all {n} workers are gone at {when:g}")
            found.append(Change(when, np.flatnonzero(before & ~there), np.flatnonzero(there)))
        if found and found[0].when > 0:
            found.insert(0, Change(0.0, np.empty(0, np.int64), np.arange(n)))
        return tuple(found)

    def _fits(self, n: int) -> None:
        """Refuse what is meant for another number of workers."""
        for name, length in self._lengths.items():
            if length is not None and length != n:
                raise BadInput(name, f"{length} moments", f"{n} for {n} workers", "or moments by worker, as {3: 100}")
        for i in self._turns:
            if i >= n:
                raise BadInput("worker", i, f"from 0 to {n - 1}", "arrive and leave name workers by their numbers")


def pieces(changes: Sequence[Change], first: int, count: int, more: Iterable[int] = ()) -> list[tuple[int, int]]:
    """Iterations `first` to `first + count`, cut before every change, one iteration before it, and at `more`.

    So all w that a piece leads to are measured against the same members: w^t belongs to the members of iteration t.
    """
    at = {int(change.when) - first - back for change in changes for back in (0, 1)} | set(more)
    return list(pairwise([0, *sorted(place for place in at if 0 < place < count), count]))


class Dated:
    """A part of activities with dates: the fields `arrive` and `leave`, and who is a member when."""

    WHOLE: ClassVar[bool]  # whether moments are iterations; else they are seconds

    arrive: Dates
    leave: Dates

    def _check_dates(self) -> None:
        """Check the dates, and keep them as they are printed."""
        self._membership  # noqa: B018  # it is checked when it is made
        for name in ("arrive", "leave"):
            object.__setattr__(self, name, plain_dates(getattr(self, name)))

    @cached_property
    def _membership(self) -> Membership:
        return Membership(self.arrive, self.leave, whole=self.WHOLE)

    def changes(self, n: int) -> tuple[Change, ...]:
        """Who is a member from which iteration or second on."""
        return self._membership.changes(n)


def in_force(changes: Sequence[Change], t: float) -> int:
    """Which of the changes is the last by t."""
    return sum(change.when <= t for change in changes) - 1


def plain_dates(moments: Any) -> Any:
    """Moments as they are kept and printed: numbers, tuples, and a dict by worker."""
    if isinstance(moments, Mapping):
        return {i: _plain(when) for i, when in sorted((_worker(key), when) for key, when in moments.items())}
    return tuple(_plain(when) for when in moments)


def _plain(when: Any) -> Any:
    return tuple(when) if isinstance(when, list | tuple | np.ndarray) else when


def _count(moments: object) -> int | None:
    """For how many workers there are moments, if it says."""
    return None if isinstance(moments, Mapping) or not isinstance(moments, Sequence) or not moments else len(moments)


def _worker(key: object) -> int:
    """The number of a worker; a file has it as a text."""
    number = int(key) if isinstance(key, str) and key.isascii() and key.isdigit() else key
    return check.integer("worker", number, low=0)


def _by_worker(name: str, moments: object, whole: bool) -> dict[int, tuple[float, ...]]:
    """The moments of each worker that has any."""
    if isinstance(moments, Mapping):
        given = {_worker(key): when for key, when in moments.items()}
    elif isinstance(moments, list | tuple | np.ndarray):
        given = dict(enumerate(moments))
    else:
        raise BadInput(name, moments, "moments by worker, as {3: 100}, or a list with one for each")
    found = {}
    for i, when in given.items():
        several = tuple(when) if isinstance(when, list | tuple | np.ndarray) else (when,)
        if several not in NEVER:
            found[i] = tuple(_moment(f"{name}[{i}]", each, whole, name == "leave") for each in several)
    return found


def _moment(parameter: str, value: object, whole: bool, leaves: bool) -> float:
    """An iteration or seconds; nobody leaves at 0."""
    if whole:
        return float(check.integer(parameter, value, low=1 if leaves else 0))
    return check.real(parameter, value, above=0.0 if leaves else None, low=None if leaves else 0.0)


def _turns(i: int, come: Sequence[float], go: Sequence[float]) -> list[tuple[float, bool]]:
    """When worker i comes (True) and leaves (False), in turn; first, at 0, that it is missing."""
    both = sorted([(time, True) for time in come] + [(time, False) for time in go])
    for (time, joins), (later, again) in pairwise(both):
        if time == later or joins == again:
            twice = f"it {'comes' if joins else 'leaves'} at {time:g} and again at {later:g}"
            remedy = twice if joins == again else f"it comes and leaves at {time:g}"
            raise BadInput(f"arrive[{i}]" if again else f"leave[{i}]", later, "moments that take turns", remedy)
    if both and both[0] == (0.0, True):
        return both[1:]
    return [(0.0, False), *both] if both and both[0][1] else both
