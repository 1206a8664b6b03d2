"""Where a live run runs, who watches it, and why it ended: the public names of `siag.live`.

The base class of runtimes is in `siag.live.runtime`.
"""

from siag.live.model import Model
from siag.live.monitor.dashboard.place import Dashboard
from siag.live.monitor.metrics import Metrics
from siag.live.monitor.watch import JsonLines, Quiet, Several, Terminal, Watcher
from siag.live.protocol.reception import Limits
from siag.live.ray import Ray
from siag.live.reasons import Ending, Failure
from siag.live.relays.relay import relay
from siag.live.runtime import Runtime
from siag.live.serve import Network, serve, work
from siag.live.spec import Spec
from siag.live.train import train
from siag.live.transports.shared_memory import SharedMemory
from siag.live.transports.simulated import Faults, Simulated
from siag.live.until import Until

__all__ = [
    "Dashboard",
    "Ending",
    "Failure",
    "Faults",
    "JsonLines",
    "Limits",
    "Metrics",
    "Model",
    "Network",
    "Quiet",
    "Ray",
    "Runtime",
    "Several",
    "SharedMemory",
    "Simulated",
    "Spec",
    "Terminal",
    "Until",
    "Watcher",
    "relay",
    "serve",
    "train",
    "work",
]
