"""Columns as a table of pandas, which is not needed for anything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from siag.foundations.errors import Missing

if TYPE_CHECKING:
    from pandas import DataFrame


def as_frame(columns: Mapping[str, Any]) -> DataFrame:
    """Columns of equal length as a `pandas.DataFrame`."""
    try:
        from pandas import DataFrame
    except ImportError:
        remedy = "install it with pip install 'siag[pandas]', or use table(), which needs nothing else"
        raise Missing("pandas", remedy) from None
    return DataFrame(dict(columns))
