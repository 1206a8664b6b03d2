"""Simulation: Sec. IV, at the speed of compiled code."""

from siag.simulation.run import Run, load
from siag.simulation.simulate import MOST, simulate
from siag.simulation.sweep import Sweep, sweep

__all__ = ["MOST", "Run", "Sweep", "load", "simulate", "sweep"]
