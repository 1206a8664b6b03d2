"""Runs as plain Python: some thousand reports take less time than machine code takes to be made.

What is claimed of a method here holds of its machine code too: `conform`, which every method is put through, has both
take the same steps to the bit.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

import siag
from siag.foundations.dispatch import plainly

simulate = partial(siag.simulate, compiled=False)


@contextmanager
def as_python() -> Iterator[None]:
    """Meanwhile everything in this thread that is compiled runs as plain Python, random numbers included."""
    with plainly(), np.errstate(over="ignore"):  # hashes overflow, as they should
        yield
