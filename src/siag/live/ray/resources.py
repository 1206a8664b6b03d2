"""Resources of a cluster: how many workers fit beside servers and the tasks that read Datasets, and Ray's words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from siag.foundations import check
from siag.foundations.errors import BadInput

Amounts = Mapping[str, float]
ONE_CPU = {"CPU": 1.0}
TINY = 1e-9  # amounts are decimal fractions
OPTIONS = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}  # of an actor


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


def sum_of(needs: Iterable[Amounts]) -> dict[str, float]:
    """What all of them have, or need, together."""
    total = {"CPU": 0.0}
    for need in needs:
        for what, amount in need.items():
            total[what] = total.get(what, 0.0) + amount
    return total


def nodes_of(ray: Any) -> list[dict[str, float]]:
    """What each node of the cluster has, whoever uses it now."""
    return [dict(node["Resources"]) for node in ray.nodes() if node["Alive"]]


def as_options(amounts: Amounts) -> dict[str, Any]:
    """Resources as the options of an actor."""
    usual = {OPTIONS[name]: amount for name, amount in amounts.items() if name in OPTIONS}
    own = {name: amount for name, amount in amounts.items() if name not in OPTIONS}
    return {"num_cpus": 0, **usual, "resources": own}


def as_bundles(needs: Iterable[Amounts]) -> list[dict[str, float]]:
    """Resources as the bundles of a placement group, in which Ray refuses those of nothing."""
    found = ({what: amount for what, amount in need.items() if amount} for need in needs)
    return [bundle for bundle in found if bundle]


def is_placed(group: Any) -> bool:
    """Whether Ray has room for all bundles of a placement group."""
    from ray.util import placement_group_table

    return bool(placement_group_table(group)["state"] == "CREATED")


def free(resources: Amounts) -> str:
    """What nobody in the cluster uses, in words: CPUs, GPUs, and the other kinds among these resources."""
    import ray

    left = ray.available_resources()
    names = ("CPU", *(["GPU"] if "GPU" in left else []), *(name for name in resources if name not in OPTIONS))
    return "free: " + ", ".join(f"{left.get(name, 0):g} {name}" for name in names)


def in_all(nodes: Sequence[Amounts]) -> str:
    """What nodes have together, in words."""
    total = {name: amount for name, amount in sorted(sum_of(nodes).items()) if amount}
    return listed({name: amount for name, amount in total.items() if "node:" not in name and "memory" not in name})


def listed(amounts: Amounts) -> str:
    """Resources in words."""
    return ", ".join(f"{amount:g} {what}" for what, amount in amounts.items()) or "nothing"


def checked(parameter: str, given: Any) -> dict[str, float]:
    """Amounts of resources by name, as a user gave them."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise BadInput(parameter, given, 'amounts by name, such as {"CPU": 1}')
    found = {name: check.real(f"{parameter}[{name!r}]", amount, low=0) for name, amount in given.items()}
    gpus = found.get("GPU", 0.0)
    if gpus > 1 and gpus != int(gpus):
        raise BadInput(f"{parameter}['GPU']", gpus, "a fraction of one, or a whole number")
    return found
