"""Membership: the roster of workers, which has which row, who is here, and who has not been heard of for long."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats, Integers
from siag.server import ledger
from siag.server.guard import Refused, Verdict
from siag.server.status import Rate, State, WorkerView

RECENT = 3.0  # seconds over which a worker's rate is averaged
PATIENCE = 10.0  # seconds; no worker counts as stalled before
COUNTED = (
    "reports",
    "stamp",
    "last",
    "samples",
    "largest",
    "usual",
    "longest",
    "losses",
    "loss",
    "loss2",
    "first_loss",
    "start_loss",
)
SAVED = ("reason", "refused", *COUNTED, "norm", "first_norm", "aged", "zeros", "mean_norm")
USUAL, LONGEST = 10.0, 2.0  # times its usual and its longest time between reports after which a worker is stalled


Number = TypeVar("Number", bound=float)


class _Entry(Generic[Number]):
    """A number in a worker's line of the ledger."""

    def __init__(self, place: int, kind: Callable[[Any], Number]) -> None:
        self._place, self._kind = place, kind

    def __get__(self, member: Member, _: type) -> Number:
        return self._kind(member.lines[member.row, self._place])

    def __set__(self, member: Member, value: Number) -> None:
        member.lines[member.row, self._place] = value


class Member:
    """What the server knows of one worker; its numbers are in its line of the ledger.

    It counts as stalled after `patience` seconds without a report; if that is `None`, by its own habits.
    """

    reports = _Entry(ledger.REPORTS, int)
    stamp = _Entry(ledger.STAMP, int)  # of its last accepted report
    last = _Entry(ledger.LAST, int)  # version at which that arrived
    samples = _Entry(ledger.SAMPLES, int)  # it has drawn, as far as is known
    largest = _Entry(ledger.LARGEST, float)  # norm of its reports so far
    heard = _Entry(ledger.HEARD, float)
    since = _Entry(ledger.SINCE, float)  # when it last reported, or joined; a sign of life is no work
    usual = _Entry(ledger.USUAL, float)  # seconds between its reports
    longest = _Entry(ledger.LONGEST, float)  # recently
    losses = _Entry(ledger.LOSSES, int)  # that it has told, with its reports …
    loss = _Entry(ledger.LOSS, float)  # … their mean over the last 100 or so …
    loss2 = _Entry(ledger.LOSS2, float)  # … that of their squares …
    first_loss = _Entry(ledger.FIRST_LOSS, float)  # … and the mean of the first 100
    start_loss = _Entry(ledger.START_LOSS, float)  # … and the very first
    norm = _Entry(ledger.NORM, float)  # of its last report
    first_norm = _Entry(ledger.FIRST_NORM, float)  # the larger of its first two
    mean_norm = _Entry(ledger.MEAN_NORM, float)  # of its last 100 or so
    zeros = _Entry(ledger.ZEROS, int)  # of its first ten reports whose gradient was zero
    aged = _Entry(ledger.AGED, float)  # the ages of all its reports, summed

    def __init__(self, row: int, name: str, lines: Floats, patience: float | None = None) -> None:
        self.row, self.name, self.lines = row, name, lines
        self.began = False  # whether it may have computed something before
        self.claimed = False  # whether it has said who it is, so that no worker without a name is given its row
        self.refused = 0
        self.reason = ""
        self._state, self._strikes = State.EXPECTED, 0
        self._patience = patience
        self._rate = Rate(RECENT)

    @property
    def vacant(self) -> bool:
        """Whether nobody has the row yet; workers have names."""
        return not self.name

    @property
    def state(self) -> State:
        """Any but stalled, which a worker is only shown as."""
        return self._state

    @state.setter
    def state(self, state: State | str) -> None:
        self._state = State(state)
        if self._state != State.WORKING:
            self.since = -math.inf  # how long it is away says nothing about its habits
        self._stand()

    @property
    def strikes(self) -> int:
        """Refusals in a row that were its fault."""
        return self._strikes

    @strikes.setter
    def strikes(self, strikes: int) -> None:
        self._strikes = strikes
        self._stand()

    def _stand(self) -> None:
        self.lines[self.row, ledger.HERE] = self._state == State.WORKING and self._strikes == 0
        self.lines[self.row, ledger.BANNED] = self._state == State.REFUSED

    def join(self, now: float) -> None:
        """It is here, for the first time or again."""
        self.state, self.reason = State.WORKING, ""
        self.heard = self.since = now

    def welcome(self) -> None:
        """One of its reports is right: it is here, and in good standing."""
        self.state, self.strikes = State.WORKING, 0

    def go_away(self, reason: str) -> None:
        """Its connection is gone."""
        if self.state in (State.WORKING, State.EXPECTED):
            self.state, self.reason = State.AWAY, reason

    def leave(self, now: float, reason: str) -> bool:
        """It leaves for good; return whether that is news. One that was refused for good stays so."""
        news = self.state not in (State.LEFT, State.REFUSED)
        if news:
            self.state, self.reason, self.heard = State.LEFT, reason, now
        return news

    def banned(self) -> Refused:
        """What it is told once it was refused too often."""
        reason = f"worker {self.name}: refused {self.refused} times, last: {self.reason}"
        return Refused(reason, final=True, why=Verdict.BANNED)

    def strike(self, refusal: Refused, most: int, now: float) -> None:
        """Count a refusal; `most` in a row that are its fault make it final."""
        self.refused += 1
        self.strikes += refusal.blame
        self.heard = now
        if self.state != State.REFUSED:
            self.reason = refusal.reason
            if self.strikes >= most:
                self.state = State.REFUSED
                refusal.final = True

    @property
    def patience(self) -> float:
        """Seconds without a report after which it counts as stalled."""
        if self._patience is not None:
            return self._patience
        return max(PATIENCE, USUAL * self.usual, LONGEST * self.longest)

    def view(
        self,
        version: int,
        now: float,
        share: float = math.nan,
        weight: float = 1.0,
        line: list[float] | None = None,
    ) -> WorkerView:
        """As others may see it, and what it counts for; `line` is that of the ledger, if it is at hand."""
        line = self.lines[self.row].tolist() if line is None else line  # one number at a time would be slow
        reports, stamp = int(line[ledger.REPORTS]), int(line[ledger.STAMP])
        silent, state = now - line[ledger.SINCE], self._state
        stalled = silent > PATIENCE and state is State.WORKING and silent > self.patience
        if self._patience is not None:
            stalled = state is State.WORKING and silent > self._patience
        return WorkerView(
            self.row,
            self.name,
            State.STALLED if stalled else state,
            reports,
            self._rate.of(reports, now),
            version - stamp if stamp >= 0 else -1,
            now - line[ledger.HEARD],
            self.refused,
            self.reason,
            line[ledger.LOSS] if line[ledger.LOSSES] else None,
            line[ledger.AGED] / reports if reports else math.nan,
            line[ledger.MEAN_NORM] if reports else math.nan,
            share,
            weight,
        )

    def saved(self) -> dict[str, Any]:
        """What outlives the server."""
        return {
            "name": self.name,
            "left": self.state == State.LEFT,
            "seen": self.state != State.EXPECTED or self.reports > 0,
            "claimed": self.claimed,
            **{name: getattr(self, name) for name in SAVED},
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over what an earlier server knew; a worker that was there is away now, a refused one may try again."""
        self.name, self.claimed = str(saved["name"]), bool(saved["claimed"])
        for name in SAVED:
            setattr(self, name, saved[name])
        self.began, self.strikes = True, 0
        self.state = State.LEFT if saved["left"] else State.AWAY if saved["seen"] else State.EXPECTED


class Roster:
    """The workers of a server, in the order of their rows, and their ledger.

    Args:
        workers: how many there are, or their names.
        patience: as for `ParameterServer`.
        room: how many rows there are; those of no worker are vacant, for workers that come later.
    """

    def __init__(self, workers: int | Sequence[str], patience: float | None, room: int = 0) -> None:
        names = [str(i) for i in range(workers)] if isinstance(workers, int) else list(workers)
        if not (names or room) or len(set(names)) < len(names):
            raise BadInput("workers", workers, "at least one, and no name twice")
        names += [""] * (room - len(names))
        if patience is not None:
            patience = check.real("patience", patience, above=0)
        self.lines: Floats = ledger.blank(len(names))
        self.ages: Integers = np.zeros(ledger.BINS, np.int64)
        self.members = [Member(row, name, self.lines, patience) for row, name in enumerate(names)]

    def member(self, name: str | int) -> Member | None:
        """The worker of this name or row, if there is one."""
        if isinstance(name, int):
            return self.members[name] if 0 <= name < len(self.members) else None
        return next((member for member in self.members if member.name == name), None)

    def admit(self, name: str) -> Member:
        """Give a vacant row to a worker of this name, or of the row's number if it has none."""
        vacant = next((member for member in self.members if member.vacant), None)
        if vacant is None:
            what, most = f"worker {name}" if name else "a worker", len(self.members)
            reason = f"no room for {what}: this server has {most} rows; give it more with max_workers"
            raise Refused(reason, final=True, why=Verdict.UNKNOWN)
        taken = {member.name for member in self.members}
        vacant.name = name or next(f"{k}" for k in range(vacant.row, 2 * len(self.members) + 1) if f"{k}" not in taken)
        return vacant

    def joining(self, name: str | int) -> Member:
        """The worker of this name or row, if it may join."""
        member = self.member(name)
        if member is None:
            reason = f"worker {name!r}: not among the {len(self.members)} workers of this server"
            raise Refused(reason, final=True, why=Verdict.UNKNOWN)
        if member.state == State.REFUSED:
            raise member.banned()
        return member

    def readmit(self, name: str | int) -> bool:
        """Lift the ban on a worker that was refused too often; return whether there was one."""
        member = self.member(name)
        if member is None:
            raise BadInput("worker", name, f"one of the {len(self.members)} workers of this server")
        banned = member.state == State.REFUSED
        if banned:
            member.state, member.strikes = State.AWAY, 0
        return banned

    def progressive_loss(self, weights: Floats | None = None) -> float | None:
        """The mean of the recent losses of the workers that tell them, those who left apart.

        Each counts the same, or for its weight.
        """
        told = np.flatnonzero(self.lines[:-1, ledger.LOSSES]).tolist()
        rows = [row for row in told if self.members[row].state is not State.LEFT]
        losses = self.lines[rows, ledger.LOSS]
        if weights is None:
            return float(np.mean(losses)) if rows else None
        each = weights[rows]
        return float(losses @ each / each.sum()) if each.any() else None

    @property
    def counted_ages(self) -> list[int]:
        """How many reports were of which age, in bins: 0, 1, 2-3, 4-7 and so on, up to the last that has any."""
        return [int(count) for count in np.trim_zeros(self.ages, "b")]

    def saved(self) -> dict[str, Any]:
        """What outlives the server."""
        return {"ages": self.counted_ages, "members": [member.saved() for member in self.members]}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over what an earlier server knew."""
        self.ages[:] = 0
        self.ages[: len(saved["ages"])] = saved["ages"]
        for member, each in zip(self.members, saved["members"], strict=True):
            member.restore(each)
        known = [member.largest for member in self.members if member.reports >= ledger.KNOWN_AFTER]
        self.lines[-1, [ledger.REPORTS, ledger.LARGEST]] = len(known), max(known, default=0.0)
