"""How much memory a method takes, at its server and at a worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from siag.experiments.comparison.contenders import Contender
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Record
from siag.problems import Problem


def memory(contender: Contender, problem: Problem) -> tuple[int, int]:
    """Bytes the server keeps, those of its step included, and a worker: its own, and what all have alike."""
    w0, n = np.zeros(problem.d), problem.n
    method, step = contender.tuned(1.0, 1.0)
    rule = step.rule(n)
    server = _bytes(method.init(w0, n)) + (0 if rule is None else _bytes(rule))
    team = _bytes(method.recruit(w0, n))
    try:
        each = _bytes(method.recruit(w0, n + 1)) - team
    except Unsuitable:  # it is made for n
        each = team // n
    return server, team - (n - 1) * each


def _bytes(record: Record) -> int:
    return sum(array.nbytes for array in _arrays(record))


def _arrays(record: Record) -> list[np.ndarray[Any, Any]]:
    """The arrays of a record, those of records within it too, each once; a view counts as what it is a view of."""
    found: dict[int, np.ndarray[Any, Any]] = {}
    for array in _within(record):
        whole = array if array.base is None else array.base
        found.setdefault(id(whole), whole if isinstance(whole, np.ndarray) else array)
    return list(found.values())


def _within(record: Iterable[Any]) -> Iterable[np.ndarray[Any, Any]]:
    for value in record:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, tuple):
            yield from _within(value)
