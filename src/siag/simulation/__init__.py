"""Simulation: Sec. IV, at the speed of compiled code."""

from siag.simulation.run import Run, load
from siag.simulation.simulate import MOST, simulate

__all__ = ["MOST", "Run", "load", "simulate"]
