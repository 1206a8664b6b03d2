"""Where a live run runs, and who watches it: the public names of `siag.live`."""

from siag.live.connection import Limits
from siag.live.monitor.metrics import Metrics
from siag.live.monitor.watch import JsonLines, Quiet, Several, Terminal, Watcher
from siag.live.network import serve, work
from siag.live.ray import Ray
from siag.live.train import train
from siag.live.until import Until

__all__ = [
    "JsonLines",
    "Limits",
    "Metrics",
    "Quiet",
    "Ray",
    "Several",
    "Terminal",
    "Until",
    "Watcher",
    "serve",
    "train",
    "work",
]
