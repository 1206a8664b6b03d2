"""What an ablation is: a method without the ingredient that defines it, and the claims that do not hold of that."""

from collections.abc import Callable
from dataclasses import dataclass

from siag.report import Claim


@dataclass(frozen=True)
class Ablation:
    """A method's claims, put to the test with something else in its place.

    Attributes:
        method: whose claims, by its name in `CLAIMS`.
        taken: what is taken away, in words.
        claims: puts them to the test.
        breaks: which of them fail, by their place.
    """

    method: str
    taken: str
    claims: Callable[[], list[Claim]]
    breaks: tuple[int, ...]
