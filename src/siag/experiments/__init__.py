"""Experiments: the paper's figures and claims, and experiments from a file."""

from siag.experiments.reproduce import left_out, reproduce
from siag.experiments.setting import PAPER, QUICK, Scale

__all__ = ["PAPER", "QUICK", "Scale", "left_out", "reproduce"]
