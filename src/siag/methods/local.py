"""Local steps: a worker that goes some way by itself before it reports, the part that federated methods share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import part
from siag.foundations.types import Floats, Record, Rng
from siag.methods.method import GRADIENTS, Exact, Streaming, compute, cost, source
from siag.steps import Harmonic, Step

Tunable = TypeVar("Tunable", bound=Any)

DELTA, MODEL = 0, 1  # what a worker sends: how far it went, or where it got to


class Local(NamedTuple):
    """A worker that takes K steps of its own from the w it has read, and remembers nothing between reports.

        y ← w;  K times  y ← y − η_l (g_i(y) + ρ (y − w));  send w − y, or y

    A crash loses nothing but the steps under way: y is begun anew from the w that is read next.
    """

    source: Streaming | Exact  # of g_i
    y: Floats  # (d,) scratch: the local model
    g: Floats  # (d,) scratch: a gradient at y
    none: Floats  # (d,) zeros: no correction
    steps: int  # K
    size: float  # η_l
    pull: float  # ρ
    what: int  # DELTA or MODEL


def local(w0: Floats, *, steps: int, size: float, gradients: str, pull: float = 0.0, what: int = DELTA) -> Local:
    """The memory of workers that take local steps on sampled or exact gradients."""
    y, g, none = np.empty(w0.size), np.empty(w0.size), np.zeros(w0.size)
    return Local(source(gradients), y, g, none, steps, size, pull, what)


def check_local(method: Any) -> None:
    """Check, in a method's `__post_init__`, the parameters that all methods with local steps have.

    These are `steps`, how many a worker takes before it reports; `size`, of each; and `gradients`, `"sample"` or
    `"exact"`.
    """
    object.__setattr__(method, "steps", check.integer("steps", method.steps, high=2**31))
    object.__setattr__(method, "size", check.real("size", method.size, above=0))
    check.choice("gradients", method.gradients, GRADIENTS)


def tuned_local(method: Tunable, eta: float, gamma: float, steps: int) -> tuple[Tunable, Step]:
    """K local steps make η; the server begins with 1, and its steps fall as 1/t after γ iterations."""
    return replace(method, size=eta / steps), Harmonic(beta=gamma, gamma=gamma)


@part
def walk(memory: Local, oracle: Record, rng: Rng, i: int, w: Floats, correction: Floats, steps: int) -> None:
    """Leave in `memory.y` where these steps y ← y − η_l (g_i(y) + correction + ρ (y − w)) lead from y = w.

    Of w the first d numbers are read: what is shown to workers may be longer.
    """
    y, g = memory.y, memory.g
    for j in range(y.size):
        y[j] = w[j]
    for _ in range(steps):
        compute(memory.source, oracle, rng, i, y, g)
        for j in range(y.size):
            y[j] -= memory.size * (g[j] + correction[j] + memory.pull * (y[j] - w[j]))


@part
def descend(memory: Local, oracle: Record, rng: Rng, i: int, w: Floats, correction: Floats) -> None:
    """`walk` the memory's own number of steps."""
    walk(memory, oracle, rng, i, w, correction, memory.steps)


@compute.when(Local)
def send_progress(memory: Local, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """w − y or y, after K steps."""
    descend(memory, oracle, rng, i, w, memory.none)
    y = memory.y
    for j in range(y.size):
        out[j] = y[j] if memory.what == MODEL else w[j] - y[j]
    return True


@cost.when(Local)
def every_step(memory: Local) -> int:
    """K."""
    return memory.steps
