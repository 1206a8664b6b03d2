"""Virtual time: `world` has the event queue, the network and the workers' processes, `runtime` the user's side."""

from siag.live.transports.simulated.runtime import Faults, Simulated

__all__ = ["Faults", "Simulated"]
