"""What a user's gradient function has returned, if it is a gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from siag.foundations.errors import SiagError, shorten
from siag.foundations.types import Floats


class Pieces:
    """A gradient in parts: arrays whose numbers, one after the other, are its own; nobody has to put them together.

    Args:
        parts: the arrays.

    Attributes:
        shape: of the whole.

    Example:
        >>> out = np.empty(3)
        >>> write_checked((0.5, Pieces([np.ones((1, 2)), np.zeros(1)])), out), out.tolist()
        (0.5, [1.0, 1.0, 0.0])
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts
        self.shape = (sum(part.size for part in parts),)

    def write(self, out: Floats) -> None:
        """Copy them to their places."""
        at = 0
        for part in self._parts:
            out[at : at + part.size] = part.reshape(-1)
            at += part.size

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.concatenate([part.reshape(-1) for part in self._parts]).astype(dtype)


def write_checked(found: Any, out: Floats) -> float | None:
    """Write the gradient that a user's function has returned to `out`, if it is one; the loss, if that came with it."""
    if type(found) is np.ndarray and found.dtype == out.dtype and found.shape == out.shape:
        out[:] = found
        return None
    if isinstance(found, tuple) and len(found) == 2 and math.prod(np.shape(found[1])) == out.size:
        if isinstance(found[1], Pieces):
            found[1].write(out)
        else:
            write_checked(found[1], out)
        return _checked_loss(found[0])
    try:
        array = np.asarray(found)
        if found is None or array.dtype.kind not in "fiubO":  # O: numbers of a user's own kind
            raise TypeError
        with np.errstate(over="ignore"):  # what is too large for short numbers is infinite, and refused
            out[:] = array.reshape(out.shape)
    except (TypeError, ValueError):
        kind = "" if found is None else f" ({type(found).__name__})"
        raise SiagError(f"gradient returned {shorten(found)}{kind}; it must return {out.size} real numbers") from None
    return None


def _checked_loss(loss: Any) -> float:
    """The loss that came with a gradient."""
    try:
        array = np.asarray(loss)
        if array.size != 1 or array.dtype.kind not in "fiubO":
            raise TypeError
        return float(array.reshape(()))
    except (TypeError, ValueError):
        said = f"gradient returned (loss, gradient) with the loss {shorten(loss)}"
        raise SiagError(f"{said}; it must be one real number, such as the mean over the batch") from None
