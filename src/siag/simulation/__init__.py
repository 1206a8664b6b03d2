"""Simulation: Sec. IV, at the speed of compiled code."""

from siag.simulation.run import Run, load
from siag.simulation.simulate import MOST, simulate
from siag.simulation.sweep import sweep
from siag.simulation.swept import Incomplete, Sweep
from siag.simulation.tuning import Tuned

__all__ = ["MOST", "Incomplete", "Run", "Sweep", "Tuned", "load", "simulate", "sweep"]
