"""The vocabulary of the code: one name per kind of array, shapes beside fields."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
"""Real numbers: iterates (d,), tables (n, d), step sizes (iterations,)."""

Integers: TypeAlias = NDArray[np.int64]
"""Counts, iteration numbers and worker numbers."""

Booleans: TypeAlias = NDArray[np.bool_]
"""Flags, one per worker."""

Rng: TypeAlias = NDArray[np.uint64]
"""(2,) the state of a random generator; see `siag.rng`."""

Bytes: TypeAlias = NDArray[np.uint8]
"""A message whose numbers are packed."""

Message: TypeAlias = NDArray[Any]
"""A message as it travels: numbers, or bytes."""

Record: TypeAlias = Any
"""A `NamedTuple` of arrays and numbers: what compiled code can read, a file can hold and a person can print."""
