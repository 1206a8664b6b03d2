"""How messages travel: between processes of one machine, or over a network."""

from siag.runtimes.cluster import Ray
from siag.runtimes.local import train
from siag.runtimes.metrics import Metrics
from siag.runtimes.network import serve, work
from siag.runtimes.tcp_server import Limits
from siag.runtimes.until import Until
from siag.runtimes.watch import JsonLines, Quiet, Several, Terminal, Watcher

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
