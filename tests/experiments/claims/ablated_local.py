"""Methods with local steps, without what defines them."""

from __future__ import annotations

from ablations import Ablation

from siag.activity import EveryArrivals, WaitForAll
from siag.experiments.claims.buffered import fedasync, fedbuff
from siag.experiments.claims.federated import fedavg, fedprox, mifa
from siag.experiments.claims.variates import scaffnew, scaffold
from siag.methods.fedasync import FedAsync
from siag.methods.fedavg import FedAvg
from siag.methods.fedbuff import FedBuff
from siag.methods.fedprox import FedProx
from siag.methods.mifa import MIFA
from siag.methods.scaffnew import Scaffnew
from siag.methods.scaffold import SCAFFOLD


def one_local_step(*, steps, **rest):
    return FedAvg(steps=1, **rest)


def with_table(*, normalization="mean", **rest):
    return MIFA(**rest)


def always_the_sum(*, normalization="sum", **rest):
    return FedAvg(normalization="sum", **rest)


def half_the_size(*, size, **rest):
    return FedAvg(size=size / 2, **rest)


def no_pull(*, pull, **rest):
    return FedProx(pull=0.0, **rest)


def one_local_step_pulled(*, steps, **rest):
    return FedProx(steps=1, **rest)


def never_falling(*, fall=None, **rest):
    return MIFA(**rest)


def averaged_plainly(*, damp=True, **rest):
    return FedAvg(**rest)


def never_damped(*, damp=True, **rest):
    return FedBuff(damp=False, **rest)


def always_damped(*, damp=True, **rest):
    return FedBuff(damp=True, **rest)


def one_local_step_buffered(*, steps, **rest):
    return FedBuff(steps=1, **rest)


def never_mixed_less(*, damp="constant", **rest):
    return FedAsync(damp="constant", **rest)


def always_by_a_power(*, damp="polynomial", **rest):
    return FedAsync(damp="polynomial", **rest)


def one_local_step_mixed(*, steps, **rest):
    return FedAsync(steps=1, **rest)


def without_variates(*, option, **rest):
    return FedAvg(**rest)


def with_option_2_alone(*, option, **rest):
    return SCAFFOLD(option=2, **rest)


def no_variates(*, p, size):
    return FedAvg(steps=max(1, round(1.0 / p)), size=size, gradients="exact")


def always_communicating(*, p, size):
    return Scaffnew(p=1.0, size=size)


def seldom_communicating(*, p, size):
    return Scaffnew(p=0.5 * p, size=size)


ABLATIONS = [
    Ablation("FedAvg", "the local steps (instead: one)", lambda: fedavg(one_local_step), (0, 1, 3)),
    Ablation("FedAvg", "that updates are forgotten (instead: MIFA)", lambda: fedavg(with_table), (4, 5)),
    Ablation("FedAvg", "the mean (instead: the sum over n)", lambda: fedavg(always_the_sum), (4,)),
    Ablation("FedAvg", "half of the local steps' size", lambda: fedavg(half_the_size), (2, 3)),
    Ablation("FedProx", "the pull (instead: FedAvg)", lambda: fedprox(no_pull), (0, 1)),
    Ablation("FedProx", "the local steps (instead: one)", lambda: fedprox(one_local_step_pulled), (1,)),
    Ablation("SCAFFOLD", "the control variates (instead: FedAvg)", lambda: scaffold(without_variates), (0, 1, 2, 3)),
    Ablation("SCAFFOLD", "option 1 (instead: option 2)", lambda: scaffold(with_option_2_alone), (3,)),
    Ablation(
        "Scaffnew",
        "the variates h_i (instead: FedAvg with 1/p local steps)",
        lambda: scaffnew(no_variates),
        (0, 1, 2, 3),
    ),
    Ablation(
        "Scaffnew", "the coin (instead: p = 1, gradient descent)", lambda: scaffnew(always_communicating), (0, 1, 2, 3)
    ),
    Ablation("Scaffnew", "half of the rounds", lambda: scaffnew(seldom_communicating), (4,)),
    Ablation("MIFA", "the table (instead: FedAvg)", lambda: mifa(FedAvg), (0, 1, 2, 3, 4)),
    Ablation("MIFA", "that local steps fall", lambda: mifa(never_falling), (1,)),
    Ablation(
        "FedBuff",
        "buffer and damping (instead: FedAvg, which waits)",
        lambda: fedbuff(averaged_plainly, lambda size: WaitForAll()),
        (0, 1, 2),
    ),
    Ablation(
        "FedBuff",
        "the buffer (instead: a step at every arrival)",
        lambda: fedbuff(server=lambda size: EveryArrivals(1)),
        (0, 7),
    ),
    Ablation("FedBuff", "the local steps (instead: one)", lambda: fedbuff(one_local_step_buffered), (1, 6)),
    Ablation("FedBuff", "the damping", lambda: fedbuff(never_damped), (1, 4, 5)),
    Ablation("FedBuff", "that damping may be left out", lambda: fedbuff(always_damped), (3, 5)),
    Ablation(
        "FedAsync", "the damping (instead: constant weights)", lambda: fedasync(never_mixed_less), (0, 1, 2, 5, 6)
    ),
    Ablation("FedAsync", "the hinge (instead: damping by a power)", lambda: fedasync(always_by_a_power), (2, 4, 6)),
    Ablation("FedAsync", "the local steps (instead: one)", lambda: fedasync(one_local_step_mixed), (0,)),
    Ablation("FedAsync", "asynchrony (instead: the server waits for all)", lambda: fedasync(server=WaitForAll()), (3,)),
]
