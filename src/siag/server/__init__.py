"""The parameter server without I/O: Fig. 1, with membership and a guard."""

from siag.server.departing import DROP, KEEP, Departed
from siag.server.guard import Guard, Refused, Verdict
from siag.server.parameter_server import Diverged, ParameterServer, Ticket
from siag.server.status import Snapshot, State, WorkerView

__all__ = [
    "DROP",
    "KEEP",
    "Departed",
    "Diverged",
    "Guard",
    "ParameterServer",
    "Refused",
    "Snapshot",
    "State",
    "Ticket",
    "Verdict",
    "WorkerView",
]
