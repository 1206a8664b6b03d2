"""Memory, foreseen: what a job will hold, and what there is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from siag.foundations.errors import Unsuitable

GIB = 2.0**30


def arrays_within(records: Iterable[Any]) -> Iterator[np.ndarray[Any, Any]]:
    """All arrays in some `NamedTuple`s, nested ones included."""
    for value in records:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, tuple):
            yield from arrays_within(value)


def size(records: Iterable[Any]) -> int:
    """The bytes of all arrays in some `NamedTuple`s, nested ones included."""
    return sum(array.nbytes for array in arrays_within(records))


def available() -> int | None:
    """Bytes that can still be had without swapping, as far as the system tells."""
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            (line,) = (line for line in stream if line.startswith("MemAvailable"))
        return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pages = os.sysconf_names.get("SC_AVPHYS_PAGES") if hasattr(os, "sysconf_names") else None
        return None if pages is None else os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")


def check_fits(needed: int, what: str, remedy: str) -> None:
    """Refuse a job that would not fit."""
    room = available()
    if room is not None and needed > room:
        raise Unsuitable(f"{what} needs {needed / GIB:.1f} GiB, {room / GIB:.1f} GiB are free; {remedy}")
