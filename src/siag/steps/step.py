"""What a step is: the size η_t of the server's move at iteration t."""

from __future__ import annotations

from abc import ABC, abstractmethod

from siag.foundations.types import Floats, Integers


class Step(ABC):
    """A rule for η_t > 0. It sees only t, so it can be unfolded ahead of any run."""

    @abstractmethod
    def sizes(self, t: Integers) -> Floats:
        """η at every iteration number in `t`."""
