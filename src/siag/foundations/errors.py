"""One root for every error; a mistake of the user's is also a `ValueError`, and says how to mend it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from types import FrameType


class SiagError(Exception):
    """Root of the errors this package raises on purpose."""


class BadInput(SiagError, ValueError):
    """A parameter has a value it cannot have.

    Args:
        parameter: its name, as the user wrote it.
        value: what was received.
        allowed: what it must be, completing "must be …".
        remedy: what to do instead, where that is not plain from `allowed`.
    """

    def __init__(self, parameter: str, value: object, allowed: str, remedy: str = "") -> None:
        self.parameter, self.value, self.allowed, self.remedy = parameter, value, allowed, remedy
        tail = f"; {remedy}" if remedy else ""
        super().__init__(f"{parameter} = {shorten(value)}: must be {allowed}{tail}")

    def __reduce__(self) -> tuple[type[BadInput], tuple[object, ...]]:
        """It travels between processes with its parts."""
        return type(self), (self.parameter, self.value, self.allowed, self.remedy)

    def inside(self, place: str) -> BadInput:
        """The same error, with the place it came from (a table of a file) before the parameter."""
        return BadInput(f"{place}.{self.parameter}", self.value, self.allowed, self.remedy)


class Missing(BadInput):
    """A parameter that is needed was not given; `remedy` says how to give it."""

    def __init__(self, parameter: str, remedy: str) -> None:
        super().__init__(parameter, None, "given", remedy)
        self.args = (f"{parameter} is missing; {remedy}",)

    def __reduce__(self) -> tuple[type[BadInput], tuple[object, ...]]:
        """It travels between processes with its parts."""
        return type(self), (self.parameter, self.remedy)


class Unsuitable(SiagError, ValueError):
    """Parts that are each fine do not fit together; the message names what would."""


class BadFile(SiagError, ValueError):
    """A file is missing, damaged, or was not written by this package."""


class TrainingWarning(UserWarning):
    """Something seems to be wrong with a live run; it has gone on all the same."""


class DivergenceWarning(UserWarning):
    """A run left the range of numbers; what it had until then is kept."""


def warn(text: str, category: type[Warning]) -> None:
    """Warn of something at the line that called this package."""
    level = 1
    caller: FrameType | None = sys._getframe()
    while caller is not None and str(caller.f_globals.get("__name__")).partition(".")[0] == "siag":
        level, caller = level + 1, caller.f_back
    warnings.warn(text, category, stacklevel=level)


def shorten(value: object, limit: int = 60) -> str:
    """`repr(value)` on one line, cut to `limit` characters."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python refuses to print whole numbers of thousands of digits
        text = f"a very long {type(value).__name__}"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def guess(name: object, allowed: Sequence[str]) -> str:
    """What was meant, as a question; nothing if no name is near."""
    lower = {word.lower(): word for word in allowed}
    near = get_close_matches(str(name).lower(), lower, n=1)
    return f"did you mean {lower[near[0]]}?" if near else ""


def reason_of(error: BaseException) -> str:
    """An error in one line, fit for the middle of a sentence; the one place where that is decided.

    >>> reason_of(FileNotFoundError(2, "No such file or directory")), reason_of(KeyError())
    ('no such file or directory', 'KeyError')
    """
    system = error.strerror if isinstance(error, OSError) else None
    text = system[:1].lower() + system[1:] if isinstance(system, str) else str(error)
    return " ".join(text.split()) or type(error).__name__
