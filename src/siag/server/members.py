"""Membership: which worker has which row, who is here, and who has not been heard of for long."""

from __future__ import annotations

import math
from dataclasses import dataclass

from siag.foundations import check
from siag.foundations.types import Floats
from siag.server import ledger
from siag.server.snapshot import WorkerView

RECENT = 3.0  # seconds over which rates are averaged
LOOK = 0.2  # seconds between two looks at a rate
FORGOTTEN = 64  # half-lives after which nothing is left of a row
PATIENCE = 10.0  # seconds without a report after which a worker that is here counts as stalled


@dataclass(frozen=True)
class Departed:
    """What becomes of the row of a worker that has left for good.

    `Departed()` keeps it as it is: the model goes on to minimise the average over all workers, with the departed one's
    gradient frozen where it last was, a constant pull that is right only near the w it was computed at.
    `Departed(half_life=0)` drops it at once: the model minimises the average over those that are left.
    `Departed(half_life=h)` leads from the first to the second: the row counts for half after h iterations, and for
    nothing after 64 h. A worker that returns ends this with its next report.

    Args:
        half_life: in iterations; 0 for none, infinity for ever.
    """

    half_life: float = math.inf

    def __post_init__(self) -> None:
        if self.half_life != math.inf:
            object.__setattr__(self, "half_life", check.real("half_life", self.half_life, low=0))

    @property
    def every(self) -> int:
        """The row is faded after every so many iterations."""
        return max(1, math.ceil(self.half_life / 8)) if 0 < self.half_life < math.inf else 1

    @property
    def factor(self) -> float:
        """By how much, each time."""
        return 0.0 if self.half_life == 0 else 0.5 ** (self.every / self.half_life)

    @property
    def times(self) -> int:
        """How often; the last time nothing is left."""
        return max(1, math.ceil(FORGOTTEN * self.half_life / self.every)) if self.half_life < math.inf else 0


KEEP, DROP = Departed(), Departed(half_life=0)


class _Count:
    """A whole number in a worker's line of the ledger."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __get__(self, member: Member, _: type) -> int:
        return int(member.line[self._place])

    def __set__(self, member: Member, value: int) -> None:
        member.line[self._place] = value


class _Figure:
    """A number in a worker's line of the ledger."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __get__(self, member: Member, _: type) -> float:
        return float(member.line[self._place])

    def __set__(self, member: Member, value: float) -> None:
        member.line[self._place] = value


class Member:
    """What the server knows of one worker; its numbers are in the ledger.

    Args:
        row: its own.
        name: its own.
        line: (9,) its line of the ledger.
    """

    reports = _Count(ledger.REPORTS)
    stamp = _Count(ledger.STAMP)  # of its last accepted report
    last = _Count(ledger.LAST)  # version at which that arrived
    samples = _Count(ledger.SAMPLES)  # it has drawn, as far as is known
    largest = _Figure(ledger.LARGEST)  # norm of its reports so far
    heard = _Figure(ledger.HEARD)
    worked = _Figure(ledger.WORKED)  # when it last reported; a sign of life is no work

    def __init__(self, row: int, name: str, line: Floats | None = None) -> None:
        self.row, self.name = row, name
        self.line = ledger.blank(1)[0] if line is None else line
        self._state, self._strikes = "expected", 0
        self.refused = 0
        self.reason = ""
        self.joined = -math.inf
        self.rate = 0.0
        self.patience = PATIENCE
        self._counted, self._counted_at = 0, -math.inf  # reports when the rate was last looked at

    @property
    def state(self) -> str:
        """Expected, working, away, left or refused."""
        return self._state

    @state.setter
    def state(self, state: str) -> None:
        self._state = state
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
        self.line[ledger.HERE] = self._state == "working" and self._strikes == 0

    def accepted(self) -> None:
        """A report has passed a closer look, and is in the ledger: the worker is here, and in good standing."""
        self.state, self.strikes = "working", 0

    def view(self, version: int, now: float) -> WorkerView:
        """As others may see it."""
        silent = now - self.heard
        stalled = self.state == "working" and now - max(self.worked, self.joined) > self.patience
        passed = now - self._counted_at
        if passed >= LOOK:
            rate = (self.reports - self._counted) / passed if passed < math.inf else 0.0
            self.rate += (1.0 - math.exp(-passed / RECENT)) * (rate - self.rate)
            self._counted, self._counted_at = self.reports, now
        return WorkerView(
            row=self.row,
            name=self.name,
            state="stalled" if stalled else self.state,
            reports=self.reports,
            rate=self.rate,
            age=version - self.stamp if self.stamp >= 0 else -1,
            silent=silent,
            refused=self.refused,
            reason=self.reason,
        )

    def saved(self) -> dict[str, object]:
        """What outlives the server."""
        return {
            "name": self.name,
            "left": self.state == "left",
            "seen": self.state != "expected" or self.reports > 0,
            "reason": self.reason,
            "reports": self.reports,
            "refused": self.refused,
            "stamp": self.stamp,
            "last": self.last,
            "samples": self.samples,
            "largest": self.largest,
        }

    def restore(self, saved: dict[str, object]) -> None:
        """Take over what an earlier server knew; whoever was there is away now, and who was refused has another try."""
        self.name, self.reason = str(saved["name"]), str(saved["reason"])
        for what in ("reports", "refused", "stamp", "last", "samples"):
            setattr(self, what, int(saved[what]))  # type: ignore[call-overload]  # written by `saved`
        self.largest = float(saved["largest"])  # type: ignore[arg-type]  # written by `saved`
        seen = self.reports > 0 or bool(saved.get("seen"))
        self.state = "left" if saved["left"] else "away" if seen else "expected"
