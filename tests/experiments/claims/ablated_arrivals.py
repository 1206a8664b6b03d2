"""Methods whose server steps at arrivals, or that have none, without what defines them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ablations import Ablation

from siag.activity import WaitForAll
from siag.experiments.claims.arrivals import NOISY, PLAIN, ace, async_sgd, dude
from siag.experiments.claims.gossip import RING, adpsgd
from siag.methods.adpsgd import ADPSGD, Neighbours
from siag.methods.iag import IAG
from siag.methods.method import source
from siag.methods.sgd import SGD


@dataclass(frozen=True, kw_only=True)
class Couples(ADPSGD):
    """Couples that never talk to other couples, nor to workers unlike them: a graph the method itself would refuse."""

    def recruit(self, w0, n):
        return Neighbours(source(self.gradients), np.arange(n + 1), (np.arange(n) + n // 2) % n)


ALOOF = Couples(gradients="exact")

ABLATIONS = [
    Ablation(
        "AsyncSGD", "asynchrony (instead: the server waits for all)", lambda: async_sgd(server=WaitForAll()), (0, 5)
    ),
    Ablation("AsyncSGD", "the adaptive steps (instead: constant ones)", lambda: async_sgd(adaptive=PLAIN), (1, 2, 4)),
    Ablation(
        "AsyncSGD",
        "that gradients are forgotten (instead: IAG)",
        lambda: async_sgd(plain=IAG(), adaptive=IAG()),
        (3, 4),
    ),
    Ablation("DuDe", "the table (instead: asynchronous SGD)", lambda: dude(PLAIN, NOISY), (0, 1, 2)),
    Ablation("DuDe", "the table, with noise alone (instead: SGD)", lambda: dude(noisy=SGD()), (1,)),
    Ablation("ACE", "the table (instead: asynchronous SGD)", lambda: ace(PLAIN, noisy=NOISY), (0, 1, 2)),
    Ablation("ADPSGD", "the averaging, but for couples", lambda: adpsgd(ALOOF, ALOOF, Couples()), tuple(range(7))),
    Ablation("ADPSGD", "the better connections (instead: a ring)", lambda: adpsgd(complete=RING), (1,)),
]
