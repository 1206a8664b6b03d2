"""Numba's functions on arrays, without SciPy.

Numba imports all of `scipy.linalg` to learn whether there is a BLAS: a fifth of the time to the first result of a new
process. That SciPy can be found is enough; code that multiplies matrices imports it when it is compiled or loaded.
"""

from __future__ import annotations

from importlib.util import find_spec


def import_arrays() -> None:
    """Import `numba.np.arraymath`; with a Numba that does not have what it takes, let it be as slow as it is."""
    try:
        from numba.np import linalg

        ensure = linalg.ensure_blas
    except (ImportError, AttributeError):
        return

    def found() -> None:
        if find_spec("scipy") is None:
            raise ImportError("SciPy is not installed")

    linalg.ensure_blas = found
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = ensure
    if getattr(arraymath, "ensure_blas", None) is found:
        arraymath.ensure_blas = ensure
