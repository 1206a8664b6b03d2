"""How many workers fit into a cluster, beside its servers and the tasks that read Datasets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Amounts = Mapping[str, float]
ONE_CPU = {"CPU": 1.0}
TINY = 1e-9  # amounts are decimal fractions


def room_for(nodes: Sequence[Amounts], first: Sequence[Amounts], worker: Amounts, most: int) -> tuple[int, int]:
    """How many of the processes that are placed first fit, and how many workers beside them, at most `most`.

    A process needs all its resources on one node. Each of the first goes where it displaces the fewest workers, and of
    such nodes to the one that hosts the fewest of the first.

    Args:
        nodes: what each node has.
        first: what each process that is placed before the workers needs.
        worker: what each worker needs.
        most: how many workers are wanted.

    >>> room_for([{"CPU": 4}, {"CPU": 2, "GPU": 1}], [{"CPU": 1}], {"CPU": 2}, 10)
    (1, 2)
    """
    left = [dict(node) for node in nodes]
    hosted = [0] * len(left)
    for placed, need in enumerate(first):
        able = [k for k, node in enumerate(left) if _times(node, need, 1)]
        if not able:
            return placed, 0
        loss = {k: _times(left[k], worker, most) - _times(_without(left[k], need), worker, most) for k in able}
        best = min(able, key=lambda k: (loss[k], hosted[k]))
        left[best] = _without(left[best], need)
        hosted[best] += 1
    return len(first), min(most, sum(_times(node, worker, most) for node in left))


def _times(node: Amounts, need: Amounts, most: int) -> int:
    """How often a node has what is needed."""
    return min(
        (math.floor(node.get(what, 0.0) / amount + TINY) for what, amount in need.items() if amount), default=most
    )


def _without(node: Amounts, need: Amounts) -> dict[str, float]:
    return {**node, **{what: node.get(what, 0.0) - amount for what, amount in need.items()}}
