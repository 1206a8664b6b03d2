"""Methods: Algorithm 1 and its relatives, one file each."""

from siag.methods.fit import check_fit
from siag.methods.iag import IAG
from siag.methods.method import (
    Exact,
    Method,
    Streaming,
    advance,
    answer,
    arrive,
    compute,
    cost,
    fade,
    forget,
    needs,
    ready,
    receive,
    shown,
)
from siag.methods.sag import SAG
from siag.methods.sgd import NORMALIZATIONS, SGD, Fresh
from siag.methods.siag import SIAG
from siag.methods.table import Table, table

__all__ = [
    "IAG",
    "NORMALIZATIONS",
    "SAG",
    "SGD",
    "SIAG",
    "Exact",
    "Fresh",
    "Method",
    "Streaming",
    "Table",
    "advance",
    "answer",
    "arrive",
    "check_fit",
    "compute",
    "cost",
    "fade",
    "forget",
    "needs",
    "ready",
    "receive",
    "shown",
    "table",
]
