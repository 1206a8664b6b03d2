"""Why a run ended, why a worker failed, what is wrong now: as types, and in words; no other file has these words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

MOST_LINES = 100  # about workers that failed, in what a run says of itself
OLD = "what is on disk is older than this run's end"
UNMEASURED = "its points of the curve are NaN"


class Ending(StrEnum):
    """Why a run ended; `Run.about["ending"]` holds the value. Each has a sentence, with a place {} for the detail."""

    REACHED = "reached", "as many iterations or reports as asked"
    TIME = "time", "{} seconds have passed"
    EPOCHS = "epochs", "all data were read {} times"
    REACHED_BEFORE = "reached before", "it had been reached before"
    ROOT_DONE = "root done", "the root has ended: {}"
    ALL_LEFT = "all left", "all workers have left"
    NOBODY = "nobody", "no worker is there: {}"
    LINGERED = "lingered", "no worker was there for {} seconds"
    INTERRUPTED = "interrupted", "interrupted"
    STOPPED = "stopped", "stopped by {}"
    DIVERGED = "diverged", "{}"
    SERVER_ERROR = "server error", "an error of the server's"

    sentence: str

    def __new__(cls, value: str, sentence: str = "") -> Self:
        """A member, and its sentence."""
        member = str.__new__(cls, value)
        member._value_, member.sentence = value, sentence
        return member

    @property
    def done(self) -> bool:
        """Whether what was asked for is reached."""
        return self in (Ending.REACHED, Ending.TIME, Ending.EPOCHS, Ending.REACHED_BEFORE, Ending.ROOT_DONE)

    @property
    def deserted(self) -> bool:
        """Whether it ended because no worker was there, though not all had left in order."""
        return self in (Ending.NOBODY, Ending.LINGERED)


@dataclass(frozen=True)
class Ended:
    """Why a run ended."""

    ending: Ending
    detail: str = ""  # what its sentence has a place for: seconds, a signal's name, how many workers are where

    @property
    def text(self) -> str:
        """The reason in words.

        >>> Ended(Ending.TIME, "2").text
        '2 seconds have passed'
        """
        return self.ending.sentence.format(self.detail)


class Failure(StrEnum):
    """Why a worker is not there any more, though it has not left in order; the clearest kind first."""

    OWN_CODE = "own code"  # its gradient or its stream raised an error
    REFUSED = "refused"  # the server refused its reports for good
    GAVE_UP = "gave up"  # its process is not restarted any more
    GONE = "gone"  # its process or its connection ended without a word

    @property
    def vagueness(self) -> int:
        """The larger, the less such a failure explains."""
        return list(Failure).index(self)


@dataclass(frozen=True)
class WorkerFailure:
    """A worker that is gone without having left."""

    row: int
    name: str
    kind: Failure
    reason: str
    reports: int  # how many of its reports had been accepted

    @property
    def text(self) -> str:
        """The failure in words."""
        if self.kind is Failure.REFUSED:
            return f"worker {self.name}: {refusal(self.reason, final=True)}"
        return f"worker {self.name} {'is gone' if self.kind is Failure.GONE else 'failed'}: {self.reason}"

    @property
    def alarm(self) -> str:
        """What is told when it happens."""
        if self.kind is Failure.REFUSED:
            return self.text
        return f"{self.text}; {'its row stays' if self.kind is Failure.GONE else 'the others go on'}"

    @property
    def warning(self) -> str:
        """What is told when a run ends without it."""
        what = {Failure.GONE: "is gone", Failure.REFUSED: "was refused"}.get(self.kind, "failed")
        since = f"{what} after {self.reports:,} report{'s' * (self.reports != 1)}: {self.reason}"
        learns = "learns nothing from it any more" if self.reports else "has learned nothing from it"
        return f"worker {self.name} {since}; the model {learns}; mend it, or leave it out"


def departure(name: str, samples: int, reason: str, others: int, half_life: float) -> str:
    """What is told of a worker that has left, given how many others are there and what becomes of its row.

    >>> departure("north", 5, "its stream ended", 15, 0.0)
    'worker north left after 5 samples: its stream ended; the model goes on to fit the other 15'
    """
    left = f"worker {name} left after {samples:,} sample{'s' * (samples != 1)}: {reason}"
    if others == 0:
        return left
    if half_life == 0.0:
        return f"{left}; the model goes on to fit the other {others:,}"
    return f"{left}; its last gradient {'stays in the average' if half_life == math.inf else 'fades'}"


def refusal(reason: str, final: bool) -> str:
    """What is told of a refused report."""
    return f"refused: {reason}{'; it is disconnected' * final}"


UNHEARD = "no worker has reported anything: the model is as it was before"


def no_progress(failed: Sequence[str]) -> str:
    """What is told of a run in which workers failed and nobody reported anything, given what `some` says of them."""
    return f"no worker has reported anything; {failed[0]}"


def some(failures: Iterable[WorkerFailure]) -> list[str]:
    """The first few of many failures in words, the clearest kind first, and how many there are beside."""
    return first_of([failure.text for failure in sorted(failures, key=lambda failure: failure.kind.vagueness)])


def first_of(texts: list[str]) -> list[str]:
    """The first few, and how many there are beside."""
    rest = len(texts) - MOST_LINES
    return texts[:MOST_LINES] + ([f"and {rest} more"] if rest > 0 else [])


class Trouble(StrEnum):
    """What may go wrong while training goes on."""

    SAVING = "saving"
    KEEPING = "keeping a version"
    TRACE = "the trace"
    LOSS = "the loss"


@dataclass(frozen=True)
class Problem:
    """What is wrong now."""

    what: Trouble
    reason: str

    @property
    def text(self) -> str:
        """The problem in words."""
        return f"{self.what}: {self.reason}"

    @property
    def alarm(self) -> str:
        """What is told when it begins."""
        return f"problem: {self.text}; training goes on"

    @property
    def end(self) -> str:
        """What is told when it is over."""
        return f"{self.what}: works again"

    @property
    def warning(self) -> str:
        """What is told when a run ends with it."""
        return f"{self.text}; {UNMEASURED if self.what is Trouble.LOSS else OLD}"
