"""Reports: figures, tables, and one page for a person to read."""

from siag.report.chapter import Chapter, Claim, Columns
from siag.report.files import write_csv, write_figure, write_report
from siag.report.style import INK, LAW, SGD, SIAG, figure, logarithmic, name_at_end, shades, styled

__all__ = [
    "INK",
    "LAW",
    "SGD",
    "SIAG",
    "Chapter",
    "Claim",
    "Columns",
    "figure",
    "logarithmic",
    "name_at_end",
    "shades",
    "styled",
    "write_csv",
    "write_figure",
    "write_report",
]
