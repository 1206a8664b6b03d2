"""The parameter server without I/O: Fig. 1, with membership, guard and durability."""

from siag.server.guard import Guard, Refused
from siag.server.members import DROP, KEEP, Departed
from siag.server.parameter_server import Diverged, ParameterServer, Ticket
from siag.server.snapshot import Snapshot, WorkerView

__all__ = [
    "DROP",
    "KEEP",
    "Departed",
    "Diverged",
    "Guard",
    "ParameterServer",
    "Refused",
    "Snapshot",
    "Ticket",
    "WorkerView",
]
