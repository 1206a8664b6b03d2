"""Clipping: a gradient that is longer than a threshold is shortened to it before it counts."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats, Record
from siag.methods.around import Around
from siag.methods.method import advance, receive
from siag.methods.weighted import Weighted


@dataclass(frozen=True)
class Clipped(Around):
    r"""A method whose server shortens every message to a norm of at most c.

        g ← g min{1, c/‖g‖}

    before it is received; workers see no difference. `Clipped(AsyncSGD(), norm=c)` is clipped asynchronous SGD, and
    around a method with local steps it is the update that is clipped. A single message, however long, then moves w by
    at most η c/n, or η c where it counts alone. The price is a bias: with noise, or with workers that differ, the mean
    of clipped gradients is 0 elsewhere than at w*, in the worst case by about min{σ, σ²/c}.

    It stands innermost, `Averaged(Prox(Momentum(Clipped(SIAG(), norm=1.0)), l1=0.1))`, and around methods whose
    messages are a gradient or an update and nothing else. Since it needs the whole norm, it is not split over shards.

    Args:
        method: whose messages.
        norm: c.

    Example:
        >>> from siag.methods import SGD
        >>> Clipped(SGD(), norm=10)
        Clipped(method=SGD(normalization='mean'), norm=10.0)

    References:
        J. Zhang, T. He, S. Sra, A. Jadbabaie, "Why gradient clipping accelerates training: a theoretical justification
        for adaptivity", ICLR 2020. A. Koloskova, H. Hendrikx, S. Stich, "Revisiting gradient clipping: stochastic bias
        and tight convergence guarantees", ICML 2023.
    """

    NO_WEIGHTS = "messages are clipped before they are weighted: write Clipped(Weighted(…), norm=…)"

    _: KW_ONLY
    norm: float

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.method
        if isinstance(inner, Clipped):
            raise Unsuitable(f"Clipped cannot follow {inner!r}; leave the larger norm out")
        if isinstance(inner, Around) and not isinstance(inner, Weighted):
            kind = type(inner).__name__
            raise Unsuitable(f"Clipped cannot follow {inner!r}; clipping comes first: write {kind}(Clipped(…), …)")
        plain = inner.message(inner.least, 1) == inner.least
        if remedy := inner.NO_CLIP or ("" if plain else "its messages are more than a gradient"):
            raise Unsuitable(f"Clipped cannot follow {inner!r}; {remedy}")
        for name in ("NO_PROX", "NO_MOMENTUM"):
            object.__setattr__(self, name, getattr(inner, name))
        object.__setattr__(self, "split", False)
        object.__setattr__(self, "relayed", False)  # a sum is not to be clipped as one message is
        object.__setattr__(self, "norm", check.real("norm", self.norm, above=0))

    def init(self, w0: Floats, n: int) -> Record:
        """The method's own memory, and room for a message."""
        inner = self.method.init(w0, n)
        return Clipping(inner.w, inner, np.zeros(self.method.message(w0.size, n)), self.norm)


class Clipping(NamedTuple):
    """A method's memory, and the threshold."""

    w: Floats  # (d,) the method's own
    inner: Record
    shortened: Floats  # (d,) scratch: a message
    norm: float


@receive.when(Clipping)
def shorten_and_receive(state: Clipping, i: int, message: Floats, age: int) -> None:
    """g min{1, c/‖g‖}; what is not a number stays so, and is noticed."""
    square = 0.0
    for j in range(message.size):
        square += message[j] * message[j]
    length = math.sqrt(square)
    share = state.norm / length if length > state.norm else 1.0
    for j in range(message.size):
        state.shortened[j] = share * message[j]
    receive(state.inner, i, state.shortened, age)


@advance.when(Clipping)
def step_within(state: Clipping, eta: float) -> None:
    """As the method does."""
    advance(state.inner, eta)
