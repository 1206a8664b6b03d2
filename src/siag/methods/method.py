"""What a method is: a worker half, which decides what to send, and a server half, which decides what to do with it.

Both halves are a few small functions on plain `NamedTuple`s of arrays, so one definition is compiled into the
simulator's loop, runs as plain Python, and can be saved, shared and printed without code of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from siag.activity import Activity
from siag.foundations.dispatch import optional_verb, verb
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats, Record, Rng
from siag.problems import Problem, exact, sample


class Method(ABC):
    """The rule by which n workers and a server minimise F.

    To add one: subclass this as a frozen dataclass of its hyper-parameters, let `init` return a `NamedTuple` with a
    field `w`, and give `receive` and `advance` a meaning for it. Nothing else of the package changes; CONTRIBUTING.md
    shows it whole.
    """

    @abstractmethod
    def init(self, w0: Floats, n: int) -> Record:
        """The server's memory before iteration 0; its field `w` (d,) starts as a copy of w0."""

    def recruit(self, w0: Floats, n: int) -> Record:
        """The workers' memory before iteration 0; by default none, and they send one stochastic gradient each time."""
        return Streaming()

    def suit(self, problem: Problem, activity: Activity) -> None:
        """Raise `Unsuitable`, naming what would work, where the method cannot run."""
        memory = self.recruit(problem.optimum, problem.n)
        if isinstance(memory, Exact) and not exact.knows(type(problem.oracle())):
            raise Unsuitable(
                f"{type(self).__name__} needs exact gradients, which {type(problem).__name__} does not offer; "
                f"use SIAG, or give `exact` a meaning for {type(problem.oracle()).__name__}"
            )


@verb
def compute(memory: Record, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """Worker i has read w: write its message to `out`, and return whether to send it. Must not write to w."""
    return False


@verb
def receive(state: Record, i: int, message: Floats, age: int) -> None:
    """Server: take in a message that worker i computed from the w of `age` iterations ago. Must not write to w."""


@verb
def advance(state: Record, eta: float) -> None:
    """Server: end the iteration with a step of size η. Called also when nobody reported: silence is an event."""


@optional_verb
def arrive(state: Record, i: int, message: Floats, age: int, eta: float) -> None:
    """Server: a report and a step at once: `receive`, then `advance`. A method may do both in one pass over memory."""
    receive(state, i, message, age)
    advance(state, eta)


@optional_verb
def fade(state: Record, i: int, factor: float) -> None:
    """Server: worker i has left for good; let what is kept of it count for `factor` as much, 0 being nothing.

    Nothing to do for a method that keeps nothing.
    """


class Streaming(NamedTuple):
    """A worker that sends one stochastic gradient each time, and remembers nothing."""


@compute.when(Streaming)
def send_sample(memory: Streaming, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """∇f_i(w; ξ)."""
    sample(oracle, rng, i, w, out)
    return True


class Exact(NamedTuple):
    """A worker that sends its exact gradient each time, and remembers nothing."""


@compute.when(Exact)
def send_exact(memory: Exact, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """∇F_i(w)."""
    exact(oracle, i, w, out)
    return True
