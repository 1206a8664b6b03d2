"""What becomes of a method's claims when what defines the method is taken away: data, which tests and a table read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from siag.report import Claim

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Ablation:
    """A method without what defines it.

    Attributes:
        method: the key of its claims in `CLAIMS`.
        taken: what is taken away, in plain words.
        claims: makes the method's claims with what is left in its place.
        breaks: the indices of those that then fail.
    """

    method: str
    taken: str
    claims: Callable[[], list[Claim]]
    breaks: tuple[int, ...]


@cache
def gathered() -> tuple[Ablation, ...]:
    """The `ABLATIONS` of all modules `ablated_*` beside this one."""
    if str(HERE) not in sys.path:
        sys.path.append(str(HERE))
    names = sorted(path.stem for path in HERE.glob("ablated_*.py"))
    return tuple(ablation for name in names for ablation in import_module(name).ABLATIONS)
