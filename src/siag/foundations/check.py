"""Checks of user input: each returns the value in the form the code wants, or raises `BadInput`."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from siag.foundations.errors import BadInput
from siag.foundations.types import Floats

Array = TypeVar("Array", bound=np.ndarray[Any, Any])
LARGEST_SEED = 2**64 - 1
LARGEST = 2**53  # whole numbers up to here are exact as floating-point numbers


def integer(parameter: str, value: object, *, low: int = 1, high: int = LARGEST) -> int:
    """A whole number from `low` to `high`; truth values are not numbers."""
    allowed = f"a whole number of at least {low}" if high == LARGEST else f"a whole number from {low} to {high}"
    if isinstance(value, bool | np.bool_):
        raise BadInput(parameter, value, allowed)
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # anything is tried, and refused below
    except TypeError:
        raise BadInput(parameter, value, allowed) from None
    if not low <= number <= high:
        remedy = f"at most {high}" if number > high == LARGEST else ""
        raise BadInput(parameter, value, allowed, remedy)
    return number


def integers(parameter: str, value: object, *, low: int = 1, high: int = LARGEST) -> int | tuple[int, ...]:
    """A whole number from `low` to `high` that is meant for all workers, or one for each."""
    values = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(values, list | tuple):
        return integer(parameter, value, low=low, high=high)
    if not values:
        raise BadInput(parameter, value, "a whole number, or one for each worker")
    return tuple(integer(f"{parameter}[{i}]", each, low=low, high=high) for i, each in enumerate(values))


def seed(value: object) -> int:
    """A seed: any whole number that fits 64 bits."""
    return integer("seed", value, low=0, high=LARGEST_SEED)


def real(
    parameter: str,
    value: object,
    *,
    above: float | None = None,
    low: float | None = None,
    high: float | None = None,
    below: float | None = None,
    remedy: str = "",
) -> float:
    """A finite number, above `above`, at least `low`, at most `high` and below `below`, where those are given."""
    limits = [
        f"{word} {limit}"
        for word, limit in (("above", above), ("at least", low), ("at most", high), ("below", below))
        if limit is not None
    ]
    allowed = "a finite number" + (" " + " and ".join(limits) if limits else "")
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise BadInput(parameter, value, allowed, remedy)
    try:
        number = float(value)  # type: ignore[arg-type]  # anything is tried, and refused below
    except (TypeError, ValueError, OverflowError):
        raise BadInput(parameter, value, allowed, remedy) from None
    inside = (
        math.isfinite(number)
        and (above is None or number > above)
        and (low is None or number >= low)
        and (high is None or number <= high)
        and (below is None or number < below)
    )
    if not inside:
        raise BadInput(parameter, value, allowed, remedy)
    return number


def choice(parameter: str, value: object, options: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in options:
        raise BadInput(parameter, value, "one of " + ", ".join(repr(option) for option in options))
    return value


def truth(parameter: str, value: object) -> bool:
    """True or False, nothing that merely behaves like them."""
    if not isinstance(value, bool):
        raise BadInput(parameter, value, "True or False")
    return value


def floats(parameter: str, value: object, shape: tuple[int | None, ...]) -> Floats:
    """A read-only array of finite reals of the given shape; `None` stands for any length of at least 1."""
    wanted = " × ".join("any" if size is None else str(size) for size in shape)
    allowed = f"an array of finite real numbers of shape ({wanted})"
    try:
        array = np.asarray(value)
    except ValueError:
        raise BadInput(parameter, value, allowed, "give all its rows the same length") from None
    if array.dtype.kind not in "iuf":
        raise BadInput(parameter, value, allowed, f"its dtype is {array.dtype}, convert it to float64")
    if array.ndim != len(shape) or any(
        have != want if want is not None else have < 1 for have, want in zip(array.shape, shape, strict=True)
    ):
        raise BadInput(parameter, value, allowed, f"its shape is {array.shape}")
    result = np.array(array, dtype=np.float64, order="C")
    if not np.isfinite(result).all():
        raise BadInput(parameter, value, allowed, "it holds NaN or infinity")
    return read_only(result)


def read_only(array: Array) -> Array:
    """A view that cannot be written to: pickle makes arrays writable, and these need machine code of their own."""
    view = array.view()
    view.setflags(write=False)
    return view
