"""A report that is the sum of many: what a relay says of it."""

from __future__ import annotations

import math
from typing import NamedTuple

from siag.foundations.errors import shorten
from siag.foundations.types import Floats, Record
from siag.methods import Method, Table
from siag.methods.weighted import without_weights
from siag.server.guard import Refused, Verdict


class Sum(NamedTuple):
    """What a sum of messages counts for, and how old they are."""

    weight: float  # Σ c_k over those whose messages were summed
    mean: int  # the mean of their stamps, by which the sum's age is counted
    oldest: int  # the smallest of them, which a guard looks at


def check_sum(what: Sum, stamp: int) -> None:
    """Refuse what no sum can be, reported by one that has read w of version `stamp`."""
    if not 0.0 <= what.weight < math.inf:
        raise Refused(f"weight {what.weight:g}: must be a finite number of at least 0", why=Verdict.MALFORMED)
    if not 0 <= what.oldest <= what.mean <= stamp:
        order = f"{what.oldest}, {what.mean} and {stamp} must be in order"
        raise Refused(f"stamps of a sum: the oldest, the mean and the newest, {order}", why=Verdict.MALFORMED)


def weights_of(state: Record) -> Floats | None:
    """(n,) what the rows of a method's table count for; `None` if it has none."""
    if isinstance(state, Table):
        return state.weights
    within = (weights_of(part) for part in state if isinstance(part, tuple))
    return next((weights for weights in within if weights is not None), None)


def no_relays(method: Method) -> str:
    """Why a relay cannot work for a server with this method, and what can; "" if it can."""
    if method.relayed:
        return ""
    what = "does not take the sum of several workers' messages for one"
    inner, weights = without_weights(method)
    averages = getattr(inner, "average", 1)
    name = type(inner).__name__ + (f"(average={averages})" if averages != 1 else "")
    name += "" if weights is None else f" with weights {shorten(weights)}"
    return f"{name} {what}; use SIAG or Automatic, or connect the workers to the server"
