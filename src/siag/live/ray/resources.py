"""The resources of a run: what it asks of a cluster, and whether all nodes together have that."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from siag.foundations import check
from siag.foundations.errors import BadInput

Amounts = Mapping[str, float]
ONE_CPU = {"CPU": 1.0}
TINY = 1e-9  # amounts are decimal fractions
OPTIONS = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}  # of an actor


@dataclass(frozen=True)
class Needs:
    """What a run asks of a cluster. Only sums are compared here: which node has room for what, Ray finds out."""

    server: Amounts  # for each server
    shards: int  # the number of servers
    worker: Amounts  # for each worker
    workers: int  # the number of workers
    reads: bool  # whether Ray Data reads Datasets meanwhile, by tasks that need a CPU that no worker holds

    def total(self, workers: int) -> dict[str, float]:
        """What the servers, reading, and this number of workers need together."""
        found = {what: amount * self.shards for what, amount in self.server.items()}
        found["CPU"] = found.get("CPU", 0.0) + self.reads
        return found | {what: found.get(what, 0.0) + amount * workers for what, amount in self.worker.items()}

    def room(self, cluster: Amounts) -> int:
        """How many workers have room in such a cluster, beside the servers and reading; at most all of them."""
        first = self.total(0)
        left = {what: cluster.get(what, 0.0) - first[what] for what in self.worker}
        often = [math.floor(left[what] / amount + TINY) for what, amount in self.worker.items() if amount]
        return max(0, min([self.workers, *often]))

    def part_of(self, cluster: Amounts) -> str:
        """What a cluster has of the kinds that are needed, in words."""
        return in_words({what: cluster.get(what, 0.0) for what in self.total(0)})

    def check(self, cluster: Amounts, fewest: int | None) -> None:
        """Refuse a run that can never begin: it needs more than all nodes have together."""
        room, asked = self.room(cluster), fewest or self.workers
        if room < asked:
            first = {what: amount for what, amount in self.total(0).items() if amount}
            needed = f"servers{' and reading' * self.reads} need {in_words(first)}, each worker {in_words(self.worker)}"
            allowed = f"at most {room}: the cluster has {self.part_of(cluster)}, {needed}"
            remedy = f"ask for less with resources=, add nodes{f', or start with fewest={room}' * (room > 0)}"
            raise BadInput("fewest" if fewest else "workers", asked, allowed, remedy)


def as_options(amounts: Amounts) -> dict[str, Any]:
    """Resources as the options of an actor."""
    usual = {OPTIONS[name]: amount for name, amount in amounts.items() if name in OPTIONS}
    own = {name: amount for name, amount in amounts.items() if name not in OPTIONS}
    return {"num_cpus": 0, **usual, "resources": own}


def in_words(amounts: Amounts) -> str:
    """Resources, in words."""
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
