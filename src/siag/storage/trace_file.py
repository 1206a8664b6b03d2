"""Traces as they are found: whether a new run may write there, and what a run that goes on has of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from siag.activity.trace import COLUMNS, good_lines, head_in, text_in
from siag.foundations.errors import BadFile, BadInput, reason_of
from siag.storage.disk import LOCAL, Disk, Place

BARE = 1 << 20  # a trace without a report is smaller


def check_new(path: Place, disk: Disk = LOCAL) -> None:
    """Refuse a file that a new trace must not be written to: one that exists, unless it is a trace without a report."""
    found = disk.stat(path)
    if found is not None and not (found.regular and found.size <= BARE and _bare(path, disk, found.size)):
        raise BadInput("trace", os.fspath(path), "a file that does not exist yet", "move the old one")


def _bare(path: Place, disk: Disk, size: int) -> bool:
    """Whether this is a trace that holds nothing that could be lost: its run was ended before the first report."""
    if size == 0:
        return True
    try:
        text = _text(path, disk)
        head_in(os.fspath(path), text)
    except BadFile:
        return False
    return re.fullmatch(rf"{COLUMNS}\n(# end \d+\n)?", text.partition("\n")[2]) is not None


def kept_lines(path: Place, disk: Disk, about: Mapping[str, Any], count: int, tail: Sequence[str]) -> list[str]:
    """The first `count` lines of the run that goes on; a file that is not its trace is refused.

    Those of the tail may not have reached the disk, or only in part: the file is asked for the ones before them.
    """
    found = disk.stat(path)
    if found is None and count == 0:
        return []
    text = _text(path, disk)
    fault = "" if found is not None and found.size == 0 else _fault(text, about)  # that holds nothing to be lost
    if fault:
        new, old = "give the path of a new file", "give the trace it began with, or go on without one"
        allowed = f"the trace of the run that goes on, and this file {fault}"
        raise BadInput("trace", os.fspath(path), allowed, old if count > 0 else new)
    known = list(tail[-count:]) if count else []
    wanted = count - len(known)
    there = text.split("\n")[2:-1][:wanted]
    kept = [line + "\n" for line in there[: good_lines(there)]]
    if len(kept) < wanted:
        remedy = "go on without a trace, or start anew with another folder and another trace"
        lacks = f"lacks the last {count - len(kept)} lines of the run that goes on"
        raise BadFile(f"{os.fspath(path)}: {lacks}; {remedy}")
    return kept + known


def _text(path: Place, disk: Disk) -> str:
    """What a trace holds."""
    try:
        with disk.read(path) as stream:
            raw = stream.read()
    except OSError as error:
        raise BadFile(f"{path}: {reason_of(error)}; give the path of a trace") from None
    return text_in(os.fspath(path), raw)


def _fault(text: str, about: Mapping[str, Any]) -> str:
    """Why this text is not the trace of a run; nothing if it is."""
    try:
        head = head_in("", text)
    except BadFile:
        return "is no trace"
    if "run" not in head:
        return "has no id of a run"
    return "" if head["run"] == about.get("run") else "is another run's"
