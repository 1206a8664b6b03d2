"""A relay's other side: to the root it is one worker, whose message is the sum of its members'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from siag.foundations.encodings import FLOAT64, Encoding, Packed, put
from siag.foundations.types import Floats
from siag.live.protocol import wire
from siag.live.protocol.worker import Actions, End, Send, Worker
from siag.live.relays.server import Gather, RelayServer
from siag.live.rounding import Packer
from siag.live.task import Task
from siag.server.sums import Sum


class RootTask(Task):
    """What a relay sends: the sum of its members' messages, as it is when the root is sent the next.

    Args:
        server: whose table it is.
    """

    def __init__(self, server: RelayServer) -> None:
        super().__init__(server.method, server.w, 0)
        self._server, self._numbers = server, np.zeros(server.message_size)
        self.what = Sum(0.0, 0, 0)  # of the last message

    def begin(self, row: int, n: int, d: int, samples: int, encoding: Encoding = FLOAT64) -> None:
        """Go on after the reports that the root has had from this relay."""
        self._row, self._drawn = row, samples
        self._packer = Packer(encoding, 0, row, self._numbers.size) if isinstance(encoding, Packed) else None

    def compute(self, w: Floats, out: Floats) -> bool:
        """The sum."""
        self._drawn += 1
        self.loss = self._server.loss
        self.what = self._server.sum_to(self._numbers, self.version)
        if self._packer is None:
            put(self._numbers, out)
        else:
            self._packer.pack(self._numbers, out, self.sample)
        return True

    def forget(self) -> bool:
        """A sum is of what is in the table; nothing is remembered of the last."""
        return False


class RootWorker(Worker):
    """A worker that is busy as long as there is nothing new to send; `ready` says whether it may be called.

    Args:
        weight: what it counts for until its first report.
        given: as for `Worker`.

    Attributes:
        server: the relay's, once it is made.
        fresh: whether a w has come since it was last set to False.
    """

    def __init__(self, weight: float, **given: Any) -> None:
        super().__init__(self._task, **given)
        self._hello["weight"] = weight
        self.server: RelayServer | None = None
        self.fresh = False

    @property
    def description(self) -> dict[str, Any]:
        """The root's method, as members are told."""
        return inner_of(self._method if isinstance(self._method, dict) else {})

    @property
    def life(self) -> str:
        """In which a version of the root's means one w."""
        return self._life

    @property
    def stamp(self) -> int:
        """The version of w that was read last."""
        return self._stamp

    @property
    def samples(self) -> int:
        """How many reports the root has had from this relay, as it said when it was joined."""
        return self._samples

    def gather(self) -> Gather:
        """What a server of the relay does."""
        _, _, d = self.place
        message, shown = self.lengths
        if shown != d:  # the root refuses those
            raise wire.BadFrame("the root's method shows more than w")
        return Gather(numbers=message, gradient=min(d, message))

    def frame(self, head: wire.Head, content: dict[str, Any], now: float) -> Actions:
        """As of any worker; a new w is noted."""
        actions = super().frame(head, content, now)
        self.fresh = self.fresh or head.kind == wire.MODEL
        return actions

    def weigh(self, what: Sum) -> Send:
        """What the next report is the sum of."""
        return Send(wire.head(wire.WEIGHT, 0, what.mean, what.oldest, what.weight))

    def computed(self, send: bool, now: float) -> Actions:
        """The sum, after what it is the sum of."""
        said = super().computed(send, now)
        if not said or not isinstance(self.task, RootTask):
            return said
        return self.weigh(self.task.what), *said

    def _task(self, description: dict[str, Any], w0: Floats) -> Task:
        if self.server is None:
            raise RuntimeError("the relay has no server yet")
        return RootTask(self.server)

    def _welcome(self, content: dict[str, Any]) -> Actions:
        """As of any worker; what members have been told to compute must be what is asked for now, too."""
        known, before = self.lengths[0] > 0, self.description
        actions = super()._welcome(content)
        if known and self.end is None and self.description != before:
            there, here = in_words(self.description), in_words(before)
            reason = f"the server is another than before: {there}, not {here}; start the relay again"
            return self._finish(End.DISMISSED, reason)
        return actions

    def _retry_later(self, remark: str, reason: str, now: float) -> Actions:
        """Nothing is at work while it is away: it reads w anew, and sends what the sum is then."""
        self.busy = False
        return super()._retry_later(remark, reason, now)


def inner_of(description: dict[str, Any]) -> dict[str, Any]:
    """A method's description without weights, which are by the root's rows and none of its members' business."""
    inner = {name: inner_of(value) if isinstance(value, dict) else value for name, value in description.items()}
    within = inner.get("method")
    return within if inner.get("kind") == "Weighted" and isinstance(within, dict) else inner


def in_words(description: dict[str, Any]) -> str:
    """A method's description, as it would print."""
    rest = ", ".join(f"{name}={value!r}" for name, value in description.items() if name != "kind")
    return wire.words(f"{description.get('kind', 'no method')}({rest})")


Do = Callable[[Actions], None]
"""Carries out what the worker wants done."""
