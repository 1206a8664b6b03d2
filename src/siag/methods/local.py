"""Local steps: a worker that goes some way by itself before it reports, the part that federated methods share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import part
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats, Integers, Record, Rng
from siag.methods.method import GRADIENTS, Exact, Streaming, compute, cost, source, told
from siag.steps import Constant, Step

Tunable = TypeVar("Tunable", bound=Any)

# What a worker sends: how far it went, where it got to, how far for steps of `size`, or for as many as the mean worker.
DELTA, MODEL, RATE, NORMALIZED = range(4)


class Local(NamedTuple):
    """A worker that takes K steps of its own from the w it has read, and remembers nothing between reports.

        y ← w;  K_i times  y ← y − η_l (g_i(y) + ρ (y − w));  send w − y, or y

    η_l is `size`, or falls with the iteration t whose w was read: size/(1 + t/fall).

    A crash loses nothing but the steps under way: y is begun anew from the w that is read next.
    """

    source: Streaming | Exact  # of g_i
    y: Floats  # (d,) scratch: the local model
    g: Floats  # (d,) scratch: a gradient at y
    none: Floats  # (d,) zeros: no correction
    steps: Integers  # (n,) K_i
    mean: float  # of the K_i
    taken: Integers  # (1,) how many the last message took
    size: float  # η_l at first
    fall: float  # after how many iterations it is half of that; infinity: never
    eta: Floats  # (1,) η_l
    pull: float  # ρ
    what: int  # DELTA, MODEL, RATE or NORMALIZED


def local(
    w0: Floats,
    n: int,
    *,
    steps: int | Sequence[int],
    size: float,
    gradients: str,
    fall: float | None = None,
    pull: float = 0.0,
    what: int = DELTA,
) -> Local:
    """The memory of workers that take local steps on sampled or exact gradients."""
    y, g, none = np.empty(w0.size), np.empty(w0.size), np.zeros(w0.size)
    each, until, eta = steps_of_each(steps, n), math.inf if fall is None else fall, np.array([size])
    mean, taken = float(each.mean()), np.array([each.max()])
    return Local(source(gradients), y, g, none, each, mean, taken, size, until, eta, pull, what)


def steps_of_each(steps: int | Sequence[int], n: int) -> Integers:
    """(n,) how many local steps each worker takes."""
    each = np.array(steps, np.int64)
    if each.ndim == 1 and each.size != n:
        raise Unsuitable(f"{each.size} numbers in steps do not fit {n} workers; give {n}, or one for all")
    return np.broadcast_to(each, n).copy()


def local_of(method: Any) -> dict[str, Any]:
    """The parameters that all methods with local steps have, for `local`."""
    return {name: getattr(method, name) for name in ("steps", "size", "fall", "gradients")}


def check_local(method: Any, each: bool = False) -> None:
    """Check, in a method's `__post_init__`, the parameters that all methods with local steps have.

    These are `steps`, how many a worker takes before it reports, where `each` says so one number for each worker;
    `size`, of each; `fall`, after how many iterations they are half as long, falling as 1/t from then on, or `None`;
    and `gradients`, `"sample"` or `"exact"`.
    """
    object.__setattr__(method, "steps", (check.integers if each else check.integer)("steps", method.steps, high=2**31))
    object.__setattr__(method, "size", check.real("size", method.size, above=0))
    if method.fall is not None:
        object.__setattr__(method, "fall", check.real("fall", method.fall, above=0, remedy="None: never"))
    check.choice("gradients", method.gradients, GRADIENTS)


def tuned_local(method: Tunable, eta: float, gamma: float) -> tuple[Tunable, Step]:
    """K local steps make η, K on average, and fall as 1/t after γ iterations; the server takes where they led."""
    return replace(method, size=eta / float(np.mean(method.steps)), fall=gamma), Constant(1.0)


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
            y[j] -= memory.eta[0] * (g[j] + correction[j] + memory.pull * (y[j] - w[j]))


@part
def descend(memory: Local, oracle: Record, rng: Rng, i: int, w: Floats, correction: Floats) -> None:
    """`walk` worker i's own number of steps."""
    memory.taken[0] = memory.steps[i]
    walk(memory, oracle, rng, i, w, correction, memory.steps[i])


@compute.when(Local)
def send_progress(memory: Local, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """w − y or y, after K_i steps; or how far steps of `size`, or as many as the mean, would have led."""
    descend(memory, oracle, rng, i, w, memory.none)
    y, scale = memory.y, 1.0
    if memory.what == RATE:
        scale = memory.size / memory.eta[0]
    elif memory.what == NORMALIZED:
        scale = memory.mean / memory.steps[i]
    for j in range(y.size):
        out[j] = y[j] if memory.what == MODEL else scale * (w[j] - y[j])
    return True


@told.when(Local)
def shorten_steps(memory: Local, t: int) -> None:
    """η_l ← size/(1 + t/fall)."""
    memory.eta[0] = memory.size / (1.0 + t / memory.fall)


@cost.when(Local)
def every_step(memory: Local) -> int:
    """K_i."""
    return int(memory.taken[0])
