"""Numba's errors in a line: which function, in which file and line, could not be compiled, and why."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

FAILED = "Failed in nopython mode pipeline"
PLACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+):\s*\n\s*(?:@.*\n\s*)*def (?P<name>\w+)')
COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # which Numba writes where the package colorama can be imported
LONGEST = 200  # characters of Numba's reason


def explain(error: Exception, functions: Iterable[tuple[str, Callable[..., Any]]], outermost: str) -> str:
    """One line for a compile error.

    Args:
        error: Numba's.
        functions: those that may be to blame, each with what to call it, as "`receive` for `Ball`".
        outermost: the function that was called, named if none of those is.
    """
    places = list(_places(_plain(error)))
    named = next((what for place in places for what, function in functions if _within(place, function)), outermost)
    where = "{}, line {}, in {}: ".format(*places[0]) if places else ""
    return (
        f"{named} could not be compiled: {where}{essence(error)}; "
        "write it in the subset of Python that Numba compiles, or use compiled=False"
    )


def essence(error: Exception) -> str:
    """The reason of the innermost of the errors that one of Numba's long messages tells of."""
    lines = [line.strip() for line in _plain(error).rpartition(FAILED)[2].splitlines() if line.strip()]
    reasons = [line for line in lines if not line.startswith(("(step:", "File ", "During:"))]
    reason = (reasons or ["no reason given"])[0]
    if reason.endswith("for signature:"):
        called = next((line.removeprefix(">>> ") for line in reasons if line.startswith(">>> ")), "")
        reason = f"no such function as {called}"
    reason = reason.rstrip(":.")
    return reason if len(reason) <= LONGEST else reason[: LONGEST - 1] + "…"


def _plain(error: Exception) -> str:
    """Its message without colours."""
    return COLOURS.sub("", str(error))


def _places(text: str) -> Iterator[tuple[str, int, str]]:
    """The files, lines and functions that a message names, the innermost first; those within Numba help nobody."""
    for found in PLACE.finditer(text):
        if f"{os.sep}numba{os.sep}" not in found["file"]:
            yield os.path.abspath(found["file"]), int(found["line"]), found["name"]


def _within(place: tuple[str, int, str], function: Callable[..., Any]) -> bool:
    """Whether the place is in the function's code."""
    file, line, name = place
    code = getattr(function, "__code__", None)
    if code is None or code.co_name != name or os.path.basename(code.co_filename) != os.path.basename(file):
        return False
    lines = [number for _, _, number in code.co_lines() if number is not None]
    return bool(min(lines) <= line <= max(lines))
