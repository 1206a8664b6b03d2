"""A method around another: all that is the other's own stays as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from siag.activity import Activity
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats, Record
from siag.methods.method import Method, fade, ready, receive, shown
from siag.problems import Problem
from siag.steps import Step

Kind = TypeVar("Kind", bound=type)


@dataclass(frozen=True)
class Around(Method):
    """A method that adds something to what another's server does; the workers see no difference.

    Args:
        method: the other.
    """

    method: Method

    def __post_init__(self) -> None:
        if not isinstance(self.method, Method):
            raise BadInput("method", self.method, "a method", f"as in {type(self).__name__}(SIAG())")
        object.__setattr__(self, "split", self.method.split)

    def recruit(self, w0: Floats, n: int) -> Record:
        """The method's own workers."""
        return self.method.recruit(w0, n)

    def message(self, d: int, n: int) -> int:
        """As long as the method's own."""
        return self.method.message(d, n)

    def traffic(self, d: int, n: int) -> tuple[int, int]:
        """As much as the method's own."""
        return self.method.traffic(d, n)

    def serve(self) -> None:
        """Refuse what the method refuses."""
        self.method.serve()

    def tuned(self, eta: float, gamma: float) -> tuple[Method, Step]:
        """As the method is, with the same around it."""
        inner, step = self.method.tuned(eta, gamma)
        return replace(self, method=inner), step

    def pair(self, step: Step) -> None:
        """Refuse what the method refuses."""
        self.method.pair(step)

    def suit(self, problem: Problem, activity: Activity) -> None:
        """Refuse what the method refuses."""
        self.method.suit(problem, activity)


def around(kind: Kind) -> Kind:
    """Have a state with another in its field `inner` pass on to it what only concerns that one."""
    receive.when(kind)(receive_within)
    fade.when(kind)(fade_within)
    shown.when(kind)(shown_within)
    ready.when(kind)(ready_within)
    return kind


def receive_within(state: Record, i: int, message: Floats, age: int) -> None:
    """As the method does."""
    receive(state.inner, i, message, age)


def fade_within(state: Record, i: int, factor: float) -> None:
    """As the method does."""
    fade(state.inner, i, factor)


def shown_within(state: Record) -> Floats:
    """What the method shows."""
    return shown(state.inner)


def ready_within(state: Record) -> bool:
    """Whether the method is."""
    return ready(state.inner)
