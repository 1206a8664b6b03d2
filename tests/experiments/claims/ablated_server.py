"""Ablations of momentum, adaptive steps, clipping, error feedback and recursive momentum."""

from typing import NamedTuple

from ablations import Ablation

from siag.experiments.claims.adaptive import adagrad, adam, yogi
from siag.experiments.claims.clipping import clipped
from siag.experiments.claims.feedback import ef21
from siag.experiments.claims.momentum import momentum
from siag.experiments.claims.recursive import storm
from siag.methods import EF21, SIAG, Adam, compute, forget
from siag.methods.ef21 import Feedback


def alone(method, **_):
    """The method without what is around it."""
    return method


def adam_instead(method, b1, epsilon, b2=0.99):
    return Adam(method, b1=b1, epsilon=epsilon, b2=b2)


class Forgetful(EF21):
    """EF21 whose workers compress gradients, not differences."""

    def recruit(self, w0, n):
        return Amnesia(super().recruit(w0, n))


class Amnesia(NamedTuple):
    feedback: Feedback


@compute.when(Amnesia)
def from_nothing(memory, oracle, rng, i, w, out):
    forget(memory.feedback, i)
    return compute(memory.feedback, oracle, rng, i, w, out)


def without_momentum(k, momentum, gradients):
    return EF21(k=k, gradients=gradients)


def moving_average(a, fall):
    """d_i ← d_i + a (∇f_i(w; ξ) − d_i)."""
    return SIAG(average=round(1.0 / a))


ABLATIONS = [
    Ablation("Momentum", "the velocity", lambda: momentum(alone), (0, 1)),
    Ablation("Adam", "the squares v: every coordinate moves as it would", lambda: adam(alone), (0,)),
    Ablation("Yogi", "the squares v: every coordinate moves as it would", lambda: yogi(alone), (0, 1)),
    Ablation("Yogi", "its own rule: v falls as Adam's does", lambda: yogi(adam_instead), (1,)),
    Ablation("Adagrad", "the squares v: every coordinate moves as it would", lambda: adagrad(alone), (0,)),
    Ablation("Adagrad", "the sum: v forgets, as Adam's does", lambda: adagrad(adam_instead), (1,)),
    Ablation("Clipped", "the threshold", lambda: clipped(alone), (0, 1)),
    Ablation("EF21", "the memory g_i: gradients are compressed, not differences", lambda: ef21(Forgetful), (0, 1, 3)),
    Ablation("EF21", "the momentum", lambda: ef21(without_momentum), (1, 2)),
    Ablation("STORM", "the second gradient: a moving average is left", lambda: storm(moving_average), (0, 1, 2)),
]
