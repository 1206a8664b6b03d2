"""What a method is: a worker half, which decides what to send, and a server half, which decides what to do with it.

Both halves are a few small functions on plain `NamedTuple`s of arrays, so one definition is compiled into the
simulator's loop, runs as plain Python, and can be saved, shared and printed without code of its own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from siag.activity import Activity, Clock, EveryArrivals
from siag.foundations.dispatch import delegated_verb, optional_verb, verb
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats, Integers, Record, Rng
from siag.problems import Problem, exact, sample
from siag.steps import DelayAdaptive, Harmonic, Step

GRADIENTS = ("sample", "exact")


class Method(ABC):
    """The rule by which n workers and a server minimise F.

    To add one: subclass this as a frozen dataclass of its hyper-parameters, let `init` return a `NamedTuple` with a
    field `w`, and give `receive` and `advance` a meaning for it. Nothing else of the package changes. A whole one
    is in docs/tutorials/own_method.md.

    What workers remember is a `NamedTuple`, too: arrays with a row for every worker, filled with zeros where that will
    do, since a live worker holds them all and uses its own row alone. Where it has its gradients from is a part of it,
    `Streaming` or `Exact`, that `compute` is called with.

    A state may hold another as a field: a `Table`, or the state of another method. What it does not say itself is then
    that field's business: `fade`, `ready`, `shown`, `answer`, and for workers `cost` and `forget` ask the one field
    that says. If two fields do, it is an error that asks for a meaning of the state's own. `arrive` is not passed on:
    its default is the state's own `receive` and `advance`, which the field's would bypass.
    """

    @abstractmethod
    def init(self, w0: Floats, n: int) -> Record:
        """The server's memory before iteration 0; its field `w` (d,) starts as a copy of w0."""

    def recruit(self, w0: Floats, n: int) -> Record:
        """The workers' memory before iteration 0; by default none, and they send one stochastic gradient each time."""
        return Streaming()

    def message(self, d: int, n: int) -> int:
        """How many numbers a worker sends; by default d, those of a gradient."""
        return d

    def traffic(self, d: int, n: int) -> tuple[int, int]:
        """How many numbers travel for a report, and how many when a worker reads: what bytes are counted by."""
        return self.message(d, n), int(shown(self.init(np.zeros(d), n)).size)

    def measured(self, d: int, n: int) -> int:
        """How many numbers at the beginning of a message are a gradient, whose length a guard looks at."""
        return min(d, self.message(d, n))

    def weighed(self, d: int, n: int) -> int:
        """How many numbers at the beginning of a message are proportional to its worker's objective; by default all."""
        return self.message(d, n)

    def counts_to(self, d: int) -> int:
        """The largest whole number that a message or a model carries, as an index; 0: they carry none.

        Messages of numbers that would round it are refused.
        """
        return 0

    @property
    def least(self) -> int:
        """The smallest d there can be, which is enough to have the machine code made; by default 1."""
        return 1

    def work(self, n: int) -> int | Integers:
        """How many gradients a report takes, by which a clock counts its time; one number, or (n,) one for each worker.

        Those of rare reports are left out.
        """
        return max(1, cost(self.recruit(np.zeros(self.least), n)))

    def quorum(self, n: int) -> int:
        """How many workers must have reported before the server first steps; η_0 is the size of that step."""
        return 0

    NO_PROX: ClassVar[str] = ""  # why `Prox` cannot stand around it, and what to do instead
    NO_CLIP: ClassVar[str] = ""  # the same of `Clipped`
    NO_MOMENTUM: ClassVar[str] = ""  # the same of `Momentum` and `Adam`, which change how far its server moves
    NO_WEIGHTS: ClassVar[str] = ""  # the same of `Weighted`
    NO_CHANGES: ClassVar[str] = ""  # why its workers cannot come and go, and what to do instead

    ages: ClassVar[str] = ""
    """Whose ages a step may look at: of a `"table"` of every worker's gradient, or of the `"arrivals"`, used once.

    "": there are none that such a step would mean, as where messages are no gradients.
    """

    default_step: ClassVar[Step | None] = None  # where none is given; `None`: one must be

    split: ClassVar[bool] = False
    """Whether the server half can be split over several servers, each with some of the coordinates.

    It can if it works coordinate by coordinate, messages and what workers read being d numbers long: then slices of
    the state, each given its slice of every message, are to the bit the state of one server.
    """

    relayed: ClassVar[bool] = False
    """Whether a row of the server may be the sum of what several workers sent, as a relay sends it.

    It may if the server half is linear in the rows of a `Table` that knows their weights, and shows w alone.
    """

    takes_short: ClassVar[bool] = False
    """Whether the server half takes messages of float32 as they are, and makes the same of them as of doubles.

    It does if each number of a message meets a double before anything else is done with it. Otherwise a server that
    gets such messages makes doubles of them first, which is a pass over memory more. Packed ones are unpacked to
    float32, which holds them exactly, or to doubles.
    """

    def tuned(self, eta: float, gamma: float) -> tuple[Method, Step]:
        """The method, and a step that begins with η and falls as 1/t after γ iterations, for a search for a good η.

        A method with local steps has their size chosen, so that K of them make η, and the server begins with 1.
        """
        return self, Harmonic(beta=eta * gamma, gamma=gamma)

    def pair(self, step: Step) -> None:
        """Raise `Unsuitable`, naming what would work, where the method cannot take such a step."""
        if isinstance(step, DelayAdaptive) and step.ages != self.ages:
            remedy = f"give it ages={self.ages!r}" if self.ages else "use SIAG or AsyncSGD with it, or another step"
            raise Unsuitable(f"{step!r} looks at ages that {type(self).__name__} does not have; {remedy}")

    def gather(self, k: int, n: int) -> None:  # noqa: B027  # most take any k
        """Raise `Unsuitable`, with the range, where it cannot be that the server steps after k reports of n workers."""

    def serve(self) -> None:  # noqa: B027  # most have nothing to refuse
        """Raise `Unsuitable`, naming what would work, if a live server cannot run the method."""

    def suit(self, problem: Problem, activity: Activity) -> None:
        """Raise `Unsuitable`, naming what would work, where the method cannot run."""
        memory, oracle = self.recruit(problem.start, problem.n), type(problem.oracle())
        if needs(memory, Exact) and not exact.knows(oracle):
            remedy = "gradients='sample'" if hasattr(self, "gradients") else "SIAG"
            raise Unsuitable(
                f"{type(self).__name__} needs exact gradients, which {type(problem).__name__} does not offer; "
                f"use {remedy}, or {problem.no_exact or f'give `exact` a meaning for {oracle.__name__}'}"
            )
        fewest = self._check_members(activity, problem.n)
        if isinstance(activity, Clock) and isinstance(activity.server, EveryArrivals):
            self.gather(activity.server.k, fewest)

    def _check_members(self, activity: Activity, n: int) -> int:
        """How many members there are at least; refuse those who come and go where the method cannot bear it."""
        changes = activity.changes(n)
        if not changes:
            return n
        name, first = type(self).__name__, len(changes[0].members)
        if self.NO_CHANGES:
            raise Unsuitable(f"the workers of {name} cannot come and go: {self.NO_CHANGES}")
        if self.quorum(n) > first:
            remedy = f"give wait={first}/{n}, or less"
            waits = f"{name} waits for {self.quorum(n)} workers before its first step"
            raise Unsuitable(f"{waits}, and {first} are there at the start; {remedy}")
        return min(len(change.members) for change in changes)


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
def arrive_and_round(state: Record, i: int, message: Floats, age: int, eta: float, short: Floats) -> None:
    """Server: `arrive`, and what workers read is rounded to `short`, unless that is empty. No method has to say it.

    Where none does, a server rounds afterwards. To do so here would take an array out of the state, for which machine
    code counts references.
    """
    arrive(state, i, message, age, eta)


@delegated_verb
def fade(state: Record, i: int, factor: float) -> None:
    """Server: worker i has left for good; let what is kept of it count for `factor` as much, 0 being nothing.

    Nothing to do for a method that keeps nothing.
    """


@delegated_verb
def weigh(state: Record, i: int, weight: float) -> None:
    """Server: what worker i sends from now on is `weight` times a message of one that counts once; 1 until told.

    Nothing to do for a method that keeps nothing of its workers: it takes what they send as it is.
    """


@delegated_verb
def shown(state: Record) -> Floats:
    """Server: what workers read; by default w. Only `advance` may write to it.

    A method that shows more keeps it in one array, of which w is the first d numbers. It is the same throughout.
    """
    whole: Floats = state.w
    return whole


@delegated_verb
def answer(state: Record) -> Floats:
    """Server: (d,) the result so far, the same array throughout; by default w."""
    result: Floats = state.w
    return result


@delegated_verb
def ready(state: Record) -> bool:
    """Server: whether `advance` will step; one that waits for more workers, or has heard nobody, does not."""
    return True


@delegated_verb
def weight(state: Record) -> float:
    """Server: what the weights of the gradients in the next step sum to; asked before it. By default 1, as of a mean.

    So the step is η · weight along a mean of gradients, which is what a regulariser has to be scaled by.
    """
    return 1.0


@delegated_verb
def travelled(state: Record) -> float:
    """Server: Σ η of all its steps, where it chooses them itself; by default NaN: they are as scheduled."""
    return math.nan


@delegated_verb
def told(memory: Record, t: int) -> None:
    """Worker: the w that was read last is that of iteration t, live of version t; called before `compute`."""


@delegated_verb
def cost(memory: Record) -> int:
    """Worker: how many gradients its last message took; by default one."""
    return 1


@delegated_verb
def forget(memory: Record, i: int) -> None:
    """Worker i has lost its memory, or the server has refused what it sent: it is as if just recruited."""


def needs(memory: Record, source: type) -> bool:
    """Whether workers draw their gradients from such a source, themselves or through another part of their memory."""
    parts = (part for part in memory if isinstance(part, tuple))
    return isinstance(memory, source) or any(needs(part, source) for part in parts)


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


def source(gradients: str) -> Streaming | Exact:
    """Where workers have their gradients from, for the parameter `gradients` that many methods have."""
    return Exact() if gradients == "exact" else Streaming()
