"""Deliberate bugs of relays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from siag.foundations.types import Floats
from siag.live.protocol.connections import Connections
from siag.live.protocol.reception import Action, Actions, Connection
from siag.live.relays.connections import RelayConnections
from siag.live.relays.server import RelayServer
from siag.server.parameter_server import Ticket
from siag.server.sums import Sum


class CountsTwice(RelayServer):
    """Leaves in the sum what a member had sent before it connected again."""

    _joined: int | None = None

    def join(self, name: str | int, now: float) -> Ticket:
        """A member is here, for the first time or again."""
        ticket = super().join(name, now)
        self._joined = ticket.row
        return ticket

    def push(self, row: int, *given: Any, **more: Any) -> None:
        """A member reports."""
        before = self.rows.rows[row].copy()
        super().push(row, *given, **more)
        if row == self._joined:
            self._joined = None
            self.rows.total[:] += before


class CountsTheLost(RelayServer):
    """Sends its sum as one of all its members, whether it has a row of each or not."""

    def sum_to(self, out: Floats, read: int) -> Sum:
        """The sum, for too many."""
        return super().sum_to(out, read)._replace(weight=float(self.rows.weights.sum()))


class StaysYoung(RelayServer):
    """Says that all it sums is from the w that it has read last."""

    def sum_to(self, out: Floats, read: int) -> Sum:
        """The sum, as a new one."""
        return super().sum_to(out, read)._replace(mean=read, oldest=read)


class NeverGoesBack(RelayConnections):
    """Lets its members go on with what they compute when the root has gone back."""

    def _begin_anew(self, now: float) -> Iterator[Action]:
        self._life = self.root.life
        self.server.go_back()
        yield from ()


class KeepsStamps(RelayServer):
    """Believes its rows to be of later versions than there are after the root has gone back."""

    def go_back(self) -> None:
        """Do nothing."""


class AnswersEarly(RelayConnections):
    """Answers members before the root has answered, though it has one."""

    def _reply(self, connection: Connection, said: bytes, last: bool, now: float) -> Actions:
        self.pending = True
        return Connections._reply(self, connection, said, last, now)


class DoesNotWait(RelayConnections):
    """Sends what there is at once when it was started again without its rows."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._full_by = -np.inf


RELAY_BUGS: dict[str, dict[str, Any]] = {
    "a relay counts a member's report twice after it has connected again": {"relay_server": CountsTwice},
    "a relay sends its sum with the weight of members it has no row of": {"relay_server": CountsTheLost},
    "a relay says that its sum is newer than it is": {"relay_server": StaysYoung},
    "a relay does not send its members away when the root has gone back": {"relay_connections": NeverGoesBack},
    "a relay keeps stamps of versions that are no more": {"relay_server": KeepsStamps},
    "a relay answers before the root has": {"relay_connections": AnswersEarly},
    "a relay that has lost its rows does not wait for its members": {"relay_connections": DoesNotWait},
}
