"""Rennala, Ringmaster, thresholds, ACED and FedNova without what defines them."""

from ablations import Ablation

from siag.experiments.claims.concurrent import delay_threshold, rennala, ringmaster
from siag.experiments.claims.engaged import aced
from siag.experiments.claims.normalized import fednova
from siag.methods import ACE, AsyncSGD, DuDe, FedAvg, FedNova, Rennala, Ringmaster
from siag.methods.recent import recent
from siag.methods.ringmaster import MOST


class AnyAge(Rennala):
    """Takes gradients of earlier points as well."""

    def init(self, w0, n):
        return recent(w0, self.batch, MOST)


class NotRescaled(FedNova):
    """Its steps are as long as of one local step."""

    def recruit(self, w0, n):
        return super().recruit(w0, n)._replace(mean=1.0)


def counted_in_arrivals(threshold, **rest):
    """What is ignored makes the rest older."""
    return AsyncSGD(adaptive=True, threshold=max(1, threshold - 1), drop=True, **rest)


ABLATIONS = [
    Ablation("Rennala", "gradients of earlier points count", lambda: rennala(AnyAge), (0, 2)),
    Ablation(
        "Rennala", "the first batch waits for everybody", lambda: rennala(lambda batch, **rest: DuDe(**rest)), (1,)
    ),
    Ablation(
        "Ringmaster",
        "the threshold is infinite",
        lambda: ringmaster(lambda threshold, **rest: Ringmaster(threshold=MOST, **rest)),
        (1,),
    ),
    Ablation("Ringmaster", "delays count arrivals, not steps", lambda: ringmaster(counted_in_arrivals), (0,)),
    Ablation(
        "DelayThreshold",
        "all ages count the same",
        lambda: delay_threshold(lambda adaptive, drop, gradients: AsyncSGD(gradients=gradients)),
        (0, 1),
    ),
    Ablation(
        "DelayThreshold",
        "the threshold is 3, however many workers there are",
        lambda: delay_threshold(lambda **given: AsyncSGD(**given, threshold=3)),
        (2,),
    ),
    Ablation("ACED", "nothing is too old", lambda: aced(lambda threshold, **rest: ACE(**rest)), (1, 2)),
    Ablation("ACED", "only what has just come counts", lambda: aced(lambda threshold, **rest: AsyncSGD(**rest)), (0,)),
    Ablation("FedNova", "ways are not divided by their numbers of steps", lambda: fednova(FedAvg), (1,)),
    Ablation("FedNova", "steps are not multiplied by τ_eff", lambda: fednova(NotRescaled), (0,)),
]
