"""Reports: figures, tables, and one page for a person to read."""

from siag.report.chapter import Basis, Chapter, Claim, Columns
from siag.report.files import write_csv, write_figure, write_report
from siag.report.style import BLUE, INK, ORANGE, PURPLE, figure, logarithmic, name_ends, shades, styled

__all__ = [
    "BLUE",
    "INK",
    "ORANGE",
    "PURPLE",
    "Basis",
    "Chapter",
    "Claim",
    "Columns",
    "figure",
    "logarithmic",
    "name_ends",
    "shades",
    "styled",
    "write_csv",
    "write_figure",
    "write_report",
]
