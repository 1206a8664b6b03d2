"""Asynchronous decentralised SGD: no server, every worker has a model of its own and averages it with a neighbour's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled, part
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.rng import below
from siag.foundations.types import Booleans, Floats, Integers, Record, Rng
from siag.methods.method import GRADIENTS, Method, advance, compute, ready, receive, shown, source

GRAPHS = ("ring", "complete")
RESUM = 64  # reports per worker after which all models are averaged anew
TOUCHED, SINCE = 0, 1  # the entries of `tally`


@dataclass(frozen=True, kw_only=True)
class ADPSGD(Method):
    r"""A worker averages its model with that of a random neighbour, then steps along its gradient.

        x_i, x_j ← (x_i + x_j)/2;    x_i ← x_i − η g_i(x̂_i)        (X_{k+1} = X_k W_k − γ ∂g(X̂_k; ξ_k, i_k))

    where x̂_i is x_i as worker i read it. The result w is the mean of the x_i; averaging does not move it, so that a
    report moves it by η/n. The paper minimises Σ p_i F_i, p_i being worker i's share of the updates, and its workers'
    data may differ; so where they do and speeds do too, w tends to the minimiser of that and not to w*.

    This runs in the simulator only, along any activity; on a `Clock` x̂_i may be older than x_i. Workers are shown w
    and all models, of which each reads its own. Reports within an iteration take effect in their order, at its end. The
    paper's mini-batch is left to the problem: a gradient is one of its samples. Its communication graph is bipartite,
    so that workers that wait for each other do not block; here pairs average at once, nothing can block, and any
    connected graph will do.

    Args:
        graph: who is whose neighbour: `"ring"`, `"complete"`, or pairs of workers, which must connect them all.
        gradients: `"sample"`, stochastic, as in the paper; or `"exact"`.

    Example:
        >>> ADPSGD(graph=[(0, 1), (1, 2)])
        ADPSGD(graph=((0, 1), (1, 2)), gradients='sample')

    Reference:
        X. Lian, W. Zhang, C. Zhang, J. Liu, "Asynchronous decentralized parallel stochastic gradient descent", ICML
        2018, Algorithm 1.
    """

    NO_PROX = "it has no server; use PIAG"
    NO_CLIP = "it has no server; use Clipped(AsyncSGD())"
    NO_MOMENTUM = "it has no server; use Momentum(AsyncSGD())"
    NO_CHANGES = "nobody hands over the model of one that leaves; use SIAG, or AsyncSGD"
    NO_WEIGHTS = "it has no server; use Weighted(AsyncSGD(), …)"

    graph: str | Sequence[tuple[int, int]] = "ring"
    gradients: str = "sample"

    def __post_init__(self) -> None:
        if not isinstance(self.graph, str):
            object.__setattr__(self, "graph", _pairs(self.graph))
        elif self.graph not in GRAPHS:
            raise BadInput("graph", self.graph, "'ring', 'complete' or pairs of workers")
        check.choice("gradients", self.gradients, GRADIENTS)

    def init(self, w0: Floats, n: int) -> Record:
        """Every model is w0."""
        model = np.tile(w0, n + 1)
        models = model[w0.size :].reshape(n, w0.size)
        pending, touched, flags = np.zeros((n, w0.size)), np.zeros(n, np.int64), np.zeros(n, np.bool_)
        mean, tally = np.zeros(w0.size), np.zeros(2, np.int64)
        return Gossip(model[: w0.size], model, models, models.copy(), pending, mean, touched, flags, tally)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that know their neighbours and remember nothing."""
        near = _neighbours(self.graph, n)
        start = np.cumsum([0, *(len(those) for those in near)])
        who = np.array([j for those in near for j in sorted(those)], np.int64)
        return Neighbours(source(self.gradients), start, who)

    def message(self, d: int, n: int) -> int:
        """A gradient, and whom to average with."""
        return d + 1

    def traffic(self, d: int, n: int) -> tuple[int, int]:
        """A report is a model there and one back; the model that a worker reads is its own, and travels nowhere."""
        return 2 * d, 0

    def serve(self) -> None:
        """Refuse: there is no server."""
        raise Unsuitable("AD-PSGD has no server, its models live at the workers; simulate it, or serve SIAG")


def _pairs(graph: object) -> tuple[tuple[int, int], ...]:
    """The edges of a graph as pairs of numbers, none from a worker to itself."""
    allowed, edges = "'ring', 'complete' or pairs of workers", []
    try:
        for i, j in graph:  # type: ignore[attr-defined]  # anything is tried, and refused below
            edges.append((check.integer("graph", i, low=0), check.integer("graph", j, low=0)))
    except (TypeError, ValueError):
        raise BadInput("graph", graph, allowed) from None
    if loops := [pair for pair in edges if pair[0] == pair[1]]:
        raise BadInput("graph", graph, allowed, f"nobody is a neighbour of itself: leave {loops[0]} out")
    return tuple(edges)


def _neighbours(graph: str | Sequence[tuple[int, int]], n: int) -> list[set[int]]:
    """The neighbours of every worker, checked to be one connected graph."""
    if n < 2:
        raise Unsuitable(f"AD-PSGD needs a neighbour to average with, and there is {n} worker; use SGD")
    if graph == "complete":
        return [set(range(n)) - {i} for i in range(n)]
    edges = [(i, (i + 1) % n) for i in range(n)] if isinstance(graph, str) else list(graph)
    if strangers := [pair for pair in edges if max(pair) >= n]:
        raise Unsuitable(f"graph has {strangers[0]}, but workers are numbered from 0 to {n - 1}; use 'ring'")
    near: list[set[int]] = [set() for _ in range(n)]
    for i, j in edges:
        near[i].add(j)
        near[j].add(i)
    if len(parts := _parts(near)) > 1:
        shown_parts = ", ".join(str(sorted(part)) for part in parts[:4])
        raise Unsuitable(f"graph is in {len(parts)} parts: {shown_parts}; connect them, or use 'ring' or 'complete'")
    return near


def _parts(near: list[set[int]]) -> list[set[int]]:
    """The connected parts of a graph."""
    left, parts = set(range(len(near))), []
    while left:
        part, edge = set(), {min(left)}
        while edge:
            part |= edge
            edge = set().union(*(near[i] for i in edge)) - part
        parts.append(part)
        left -= part
    return parts


class Gossip(NamedTuple):
    """All models, and what this iteration's reports will make of them: `ahead` − η `push`."""

    w: Floats  # (d,) the mean of the models, the first numbers of `shown`
    whole: Floats  # ((n + 1) d,) w and the models, one after the other
    models: Floats  # (n, d) x_i, the rest of the same array
    ahead: Floats  # (n, d) the models, averaged
    push: Floats  # (n, d) the gradients, averaged along
    total: Floats  # (d,) the sum of this iteration's gradients
    touched: Integers  # (n,) the workers whose model will change …
    changed: Booleans  # (n,) … and whether worker i is among them
    tally: Integers  # (2,) their number, reports since w was last computed anew


class Neighbours(NamedTuple):
    """Who is whose neighbour: those of i are `who[start[i] : start[i + 1]]`."""

    source: Record
    start: Integers  # (n + 1,)
    who: Integers  # (twice the edges,)


@compute.when(Neighbours)
def send_to_neighbour(memory: Neighbours, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """g_i(x_i), and a neighbour, drawn first so that whom to ask does not depend on the gradients."""
    d, first = out.size - 1, memory.start[i]
    out[d] = memory.who[first + below(rng, memory.start[i + 1] - first)]
    return compute(memory.source, oracle, rng, i, w[(i + 1) * d : (i + 2) * d], out[:d])


@part
def touch(state: Gossip, i: int) -> None:
    """Remember that the model of worker i will change."""
    if not state.changed[i]:
        state.changed[i] = True
        state.touched[state.tally[TOUCHED]] = i
        state.tally[TOUCHED] += 1


@receive.when(Gossip)
def average_pair(state: Gossip, i: int, message: Floats, age: int) -> None:
    """The pair's models become their mean, then i's takes a step; η is not known yet, so it is left a factor."""
    d = state.w.size
    j = int(message[d])
    touch(state, i)
    touch(state, j)
    for k in range(d):
        ahead = 0.5 * (state.ahead[i, k] + state.ahead[j, k])
        push = 0.5 * (state.push[i, k] + state.push[j, k])
        state.ahead[i, k] = ahead
        state.ahead[j, k] = ahead
        state.push[i, k] = push + message[k]
        state.push[j, k] = push
        state.total[k] += message[k]
    state.tally[SINCE] += 1


@ready.when(Gossip)
def any_model_changes(state: Gossip) -> bool:
    """Whether anybody has reported."""
    return bool(state.tally[TOUCHED] > 0)


@advance.when(Gossip)
def step_models(state: Gossip, eta: float) -> None:
    """x_i ← ahead − η push for those that change; w ← w − (η/n) Σ g."""
    n, d = state.models.shape
    for a in range(state.tally[TOUCHED]):
        i = state.touched[a]
        for k in range(d):
            state.ahead[i, k] -= eta * state.push[i, k]
            state.models[i, k] = state.ahead[i, k]
            state.push[i, k] = 0.0
        state.changed[i] = False
    state.tally[TOUCHED] = 0
    for k in range(d):
        state.w[k] -= eta / n * state.total[k]
        state.total[k] = 0.0
    if state.tally[SINCE] >= RESUM * n:
        state.tally[SINCE] = 0
        for k in range(d):
            whole = 0.0
            for i in range(n):
                whole += state.models[i, k]
            state.w[k] = whole / n


@shown.when(Gossip)
def show_all_models(state: Gossip) -> Floats:
    """The mean, and every model."""
    return state.whole


@compiled
def consensus(state: Gossip) -> float:
    """(1/n) Σ ‖x_i − x̄‖²: how far the workers are from agreeing, x̄ being the mean of their models."""
    n, d = state.models.shape
    square = 0.0
    for k in range(d):
        mean = 0.0
        for i in range(n):
            mean += state.models[i, k]
        mean /= n
        for i in range(n):
            gap = state.models[i, k] - mean
            square += gap * gap
    return float(square / n)
