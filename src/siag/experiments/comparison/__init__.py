"""`siag.compare`: methods and activities on one problem, on one footing."""

from siag.experiments.comparison.contenders import CONTENDERS, Contender
from siag.experiments.comparison.contest import compare
from siag.experiments.comparison.result import Comparison, Entry

__all__ = ["CONTENDERS", "Comparison", "Contender", "Entry", "compare"]
