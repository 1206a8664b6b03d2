"""Experiments: the paper's figures and claims, and experiments from a file."""

from siag.experiments.reproduce import reproduce
from siag.experiments.setting import PAPER, Scale

__all__ = ["PAPER", "Scale", "reproduce"]
