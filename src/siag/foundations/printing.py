"""What prints in the same words in every process, so that two of them can compare it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np


def prints_alike(value: Any) -> bool:
    """Whether another process would print the same for it: not if a part of it prints its place in memory."""
    if isinstance(value, str | bytes | int | float | complex | None.__class__ | np.ndarray | np.generic):
        return True
    if isinstance(value, Mapping):
        return all(prints_alike(each) for pair in value.items() for each in pair)
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(prints_alike, value))
    if callable(value) or cast(Any, type(value)).__repr__ is object.__repr__:
        return False
    return not is_dataclass(value) or all(prints_alike(getattr(value, each.name)) for each in fields(value))
