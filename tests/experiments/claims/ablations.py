"""What defines a method is taken away: which of its claims no longer hold."""

from collections.abc import Callable
from dataclasses import dataclass

from siag.report import Claim


@dataclass(frozen=True)
class Ablation:
    """A method without something, and the claims that break; `breaks` are their places in the list."""

    method: str
    taken: str
    claims: Callable[[], list[Claim]]
    breaks: tuple[int, ...]
