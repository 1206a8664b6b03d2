"""How many workers fit into a cluster beside its servers, and whether a server has no place in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

Amounts = Mapping[str, float]
ONE_CPU = {"CPU": 1.0}
TINY = 1e-9  # amounts are decimal fractions


def room_for(nodes: Sequence[Amounts], server: Amounts, servers: int, worker: Amounts, most: int) -> tuple[int, int]:
    """How many servers fit, and how many workers beside them, at most as many as are wanted.

    A process needs all that it needs on one node. Servers come first: each where it takes the place of the fewest
    workers, and of such nodes to the one with the fewest servers.

    Args:
        nodes: what each node has.
        server: what each server needs.
        servers: how many of them there are.
        worker: what each worker needs.
        most: how many workers are wanted.

    >>> room_for([{"CPU": 4}, {"CPU": 2, "GPU": 1}], {"CPU": 1}, 1, {"CPU": 2}, 10)
    (1, 2)
    """
    left = [dict(node) for node in nodes]
    hosted = [0] * len(left)
    placed = 0
    for _ in range(servers):
        able = [k for k, node in enumerate(left) if fits(node, server)]
        if not able:
            break
        loss = {k: _times(left[k], worker, most) - _times(_without(left[k], server), worker, most) for k in able}
        best = min(able, key=lambda k: (loss[k], hosted[k]))
        left[best] = _without(left[best], server)
        hosted[best] += 1
        placed += 1
    return placed, min(most, sum(_times(node, worker, most) for node in left))


def without_reader(nodes: Sequence[Amounts], need: Amounts) -> list[dict[str, float]] | None:
    """What nodes have left if what reading needs is taken from the largest that has it; `None` if none has.

    >>> without_reader([{"CPU": 4}, {"CPU": 2, "GPU": 1}], {"CPU": 1, "GPU": 1})
    [{'CPU': 4}, {'CPU': 1, 'GPU': 0}]
    """
    left = [dict(node) for node in nodes]
    able = [k for k, node in enumerate(left) if fits(node, need)]
    if not able:
        return None
    best = max(able, key=lambda k: left[k].get("CPU", 0.0))
    left[best] = _without(left[best], need)
    return left


def is_crowded(
    nodes: Mapping[str, Amounts], taken: Iterable[tuple[str, Amounts]], free: Amounts, server: Amounts
) -> bool:
    """Whether a server has no place: no node has enough left of its own, or all nodes together have not.

    A server must fit on one node, so what two of them have left does not add up. What others take is known only of all
    nodes together.

    Args:
        nodes: what each node has, by its name.
        taken: what the run's own processes take, each with its node.
        free: what nobody takes, on all nodes together.
        server: what the server needs.

    >>> halves = [("a", {"CPU": 0.5}), ("b", {"CPU": 0.5})]
    >>> is_crowded({"a": {"CPU": 1}, "b": {"CPU": 1}}, halves, {"CPU": 1}, {"CPU": 1})
    True
    """
    left = dict(nodes)
    for node, need in taken:
        if node in left:
            left[node] = _without(left[node], need)
    return not fits(free, server) or not any(fits(each, server) for each in left.values())


def fits(node: Amounts, need: Amounts) -> bool:
    """Whether a node has what is needed."""
    return _times(node, need, 1) > 0


def _times(node: Amounts, need: Amounts, most: int) -> int:
    """How often a node has what is needed."""
    return min(
        (math.floor(node.get(what, 0.0) / amount + TINY) for what, amount in need.items() if amount), default=most
    )


def _without(node: Amounts, need: Amounts) -> dict[str, float]:
    return {**node, **{what: node.get(what, 0.0) - amount for what, amount in need.items()}}
