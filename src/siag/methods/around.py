"""A method around another: all that is the other's own stays as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from siag.activity import Activity
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats, Integers, Record
from siag.methods.method import Method, receive
from siag.problems import Problem
from siag.steps import Step


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
        object.__setattr__(self, "relayed", self.method.relayed)
        object.__setattr__(self, "default_step", self.method.default_step)

    def recruit(self, w0: Floats, n: int) -> Record:
        """The method's own workers."""
        return self.method.recruit(w0, n)

    def message(self, d: int, n: int) -> int:
        """As long as the method's own."""
        return self.method.message(d, n)

    def measured(self, d: int, n: int) -> int:
        """As many as of the method's own."""
        return self.method.measured(d, n)

    def weighed(self, d: int, n: int) -> int:
        """As many as of the method's own."""
        return self.method.weighed(d, n)

    def counts_to(self, d: int) -> int:
        """As far as the method does."""
        return self.method.counts_to(d)

    @property
    def least(self) -> int:
        """The method's own."""
        return self.method.least

    def traffic(self, d: int, n: int) -> tuple[int, int]:
        """As much as the method's own."""
        return self.method.traffic(d, n)

    def work(self, n: int) -> int | Integers:
        """As many as the method's own take."""
        return self.method.work(n)

    def quorum(self, n: int) -> int:
        """As many as the method waits for."""
        return self.method.quorum(n)

    def gather(self, k: int, n: int) -> None:
        """Refuse what the method refuses."""
        self.method.gather(k, n)

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


def receive_within(state: Record, i: int, message: Floats, age: int) -> None:
    """As the method does; for a state with the method's own in its field `inner`."""
    receive(state.inner, i, message, age)
