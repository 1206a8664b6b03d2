"""Runs as plain Python: some thousand reports take less time than machine code takes to be made.

What is claimed of a method here holds of its machine code too: tests/methods/test_machine_code.py has both take the
same steps to the bit, for every method.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

import siag
from siag import checks
from siag.foundations.dispatch import plainly

MACHINE_CODE = ("same_seed_same_run", "compiled_is_plain")  # the checks of machine code

simulate = partial(siag.simulate, compiled=False)


def conform(method: siag.methods.Method, skip: Iterable[str] = ()) -> None:
    """Do what every method must, machine code aside."""
    checks.conform(method, skip=[*skip, *MACHINE_CODE])


@contextmanager
def as_python() -> Iterator[None]:
    """Meanwhile everything in this thread that is compiled runs as plain Python, random numbers included."""
    with plainly(), np.errstate(over="ignore"):  # hashes overflow, as they should
        yield
