"""Connections of a split model in the simulated network: a worker's to all servers, and the lead's to its followers."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.torture.network import Process, Wire

from siag.foundations.encodings import FLOAT64
from siag.foundations.types import Floats
from siag.live.protocol import wire
from siag.live.protocol.frame_reader import FrameReader
from siag.live.protocol.worker import Actions
from siag.live.sharding.slices import slice_of
from siag.live.sharding.worker_slices import VISITS, Slices

if TYPE_CHECKING:
    from tests.torture.followers import Follower
    from tests.torture.shards import ShardedTorture

HELLO, REPORT = bytes([wire.HELLO]), bytes([wire.REPORT])


class End:
    """A worker's end of its connection to one of the servers."""

    def __init__(self, link: SplitLink, k: int) -> None:
        self.link, self._k, self.worker = link, k, self
        self._early: list[tuple[FrameReader, wire.Raw, float]] = []  # what has come and is not listened to yet

    @property
    def expected(self) -> wire.Expected:
        """The frames that may come now."""
        return self.link.slices.expected(self._k, self.link.client.worker.expected)

    def feed(self, reader: FrameReader, content: wire.Raw, now: float) -> Actions:
        """These bytes have come."""
        link, actions = self.link, list[Any]()
        self._early.append((reader, content, now))
        while end := next((end for end in link.ends if end._early and end._k in link.slices.awaited), None):
            actions += end._take(*end._early.pop(0))
        return actions

    def _take(self, reader: FrameReader, content: wire.Raw, now: float) -> Actions:
        link, actions = self.link, list[Any]()
        reader.expected = self.expected
        for head, payload in reader.feed(content):
            model = head.kind == wire.MODEL
            if model:
                link.numbers[self._k] = FLOAT64.read(bytes(payload))
            content = {} if model else wire.parse_text(payload)
            told, to_lead = link.slices.came(self._k, head, content)
            if to_lead:
                link.wires[0].to_server(to_lead)
            if told:
                actions += link.pass_on(head, content, now)
            reader.expected = self.expected
        return actions

    def do(self, actions: Actions) -> None:
        """Carry out what the worker wants done."""
        self.link.client.do(actions)

    def lost(self, lost: Wire, reason: str) -> None:
        """The connection is gone."""
        self.link.lost(reason)


class SplitLink:
    """A worker's connections to all servers of a split model, used as one is; see `Link`."""

    def __init__(self, torture: ShardedTorture, client: Any) -> None:
        self._rng, self.client, self.up = torture.rng, client, True
        self.slices = Slices(torture.shards, self._rng.getrandbits(VISITS))
        self.numbers: dict[int, Floats] = {}
        self.ends = [End(self, k) for k in range(torture.shards)]
        self.wires = [Wire(torture, *both) for both in zip(self.ends, torture.processes, strict=True)]

    def to_server(self, content: bytes) -> None:
        """The worker sends a frame."""
        array = None
        if content[4:5] == HELLO:
            hello = wire.parse_text(content[wire.HEADER.size :])
            content = wire.text(wire.HELLO, hello | self.slices.extras)
        elif content[4:5] == REPORT:
            content, array = content[: wire.HEADER.size], FLOAT64.read(content[wire.HEADER.size :])
        for k, start, part in self.slices.cut(content, array):
            self.wires[k].to_server(start if part is None else start + part.tobytes())

    def pass_on(self, head: wire.Head, content: dict[str, Any], now: float) -> Actions:
        """Tell the worker of a frame."""
        worker = self.client.worker
        if head.kind == wire.MODEL:
            place = worker.model_place()
            for k, numbers in self.numbers.items():
                slice_of(place, len(self.wires), k)[:] = numbers
        actions: Actions = worker.frame(head, content, now)
        return actions

    def lost(self, reason: str) -> None:
        """One connection is gone: all are given up."""
        if self.up:
            self.close_here()
            self.client.lost(self, reason)

    def close_here(self) -> None:
        """The worker hangs up."""
        self.up = False
        for each in self.wires:
            if each.up:
                each.close_here()

    # What goes wrong with one of them

    def break_off(self, noticed: bool) -> None:
        """Nothing arrives any more."""
        self._rng.choice(self.wires).break_off(noticed)

    def abandon(self) -> None:
        """The worker has given it up; what is on its way still arrives."""
        self._rng.choice(self.wires).abandon()

    def stall(self, seconds: float) -> None:
        """What the worker sends from now on arrives so many seconds later."""
        self._rng.choice(self.wires).stall(seconds)


class LeadWire(Wire):
    """The lead's connection to a follower; what is on its way can be made to arrive while the lead waits for it."""

    def __init__(self, torture: ShardedTorture, line: Line, process: Process) -> None:
        self._queue: list[tuple[float, int, list[Callable[[], None]]]] = []
        self._sent = 0
        super().__init__(torture, line, process)

    def pump(self) -> bool:
        """Let the next thing arrive; False if nothing is on its way."""
        while self._queue:
            if arrival := heapq.heappop(self._queue)[2]:
                arrival.pop()()
                return True
        return False

    def _travel(self, way: int, arrive: Callable[[], None]) -> None:
        delay = 0.0 if self._delay is None else self._delay()
        at = self._last[way] = max(self._last[way], self._world.now + delay)
        self._sent += 1
        arrival = [arrive]
        heapq.heappush(self._queue, (at, self._sent, arrival))
        self._world.at(at, lambda: arrival.pop()() if arrival else None)


class Line:
    """The lead's end of a connection to a follower: what a `ClientConnection` is over TCP."""

    def __init__(self, torture: ShardedTorture, follower: Follower) -> None:
        if follower.connections is None:
            raise ConnectionRefusedError("nobody listens there")
        self._torture, self.follower, self.number = torture, follower, torture.number_of_line()
        self._arrived, self._buffer = bytearray(), bytearray()  # not received yet, and received but not read
        self._broken = ""
        self.worker, self.expected = self, dict[int, tuple[int, int]]()  # as `Wire` sees its client
        self.wire = LeadWire(torture, self, follower)
        torture.lines.append(self)

    # What the network tells

    def feed(self, reader: FrameReader, content: wire.Raw, now: float) -> Actions:
        """These bytes have come."""
        self._arrived += content
        return []

    def do(self, actions: Actions) -> None:
        """They are there."""
        self._torture.world.after(0.0, self._ready)

    def lost(self, lost: Wire, reason: str) -> None:
        """The connection is gone."""
        self._broken = reason
        self._torture.world.after(self._torture.rng.uniform(0.0, 0.2), self._ready)  # whoever sends notices it before

    @property
    def readable(self) -> bool:
        """Whether there is something to be received."""
        return bool(self._arrived or self._broken)

    def _ready(self) -> None:
        """An event loop that waits for this is woken, unless all was received meanwhile."""
        if self.readable:
            self._torture.hear(self)

    # What the lead does

    def fileno(self) -> int:
        """Another one for each connection."""
        return self.number

    def send(self, head: bytes) -> None:
        """Send a frame."""
        if self._broken:
            raise BrokenPipeError(self._broken)
        self.wire.to_server(head)

    def receive(self, expected: wire.Expected, place: Floats | None = None) -> tuple[wire.Head, memoryview]:
        """The next frame; the numbers of a MODEL go to a place."""
        size = wire.HEADER.size
        self._wait_for(size)
        head = wire.parse_head(self._buffer, expected)
        self._wait_for(size + head.length)
        payload = memoryview(bytes(self._buffer[size : size + head.length]))
        del self._buffer[: size + head.length]
        if head.kind == wire.MODEL and place is not None:
            place[:] = FLOAT64.read(payload)
        return head, payload

    def waiting(self) -> bool:
        """Whether something was said; never waits."""
        if not self._buffer:
            self._take()
        return bool(self._buffer)

    def close(self) -> None:
        """Hang up."""
        with suppress(ValueError):
            self._torture.lines.remove(self)
        if self.wire.up:
            self.wire.close_here()

    def _take(self) -> None:
        """Receive what is there."""
        if self._broken and not self._arrived:
            raise ConnectionResetError(self._broken)
        self._buffer += self._arrived
        self._arrived.clear()

    def _wait_for(self, count: int) -> None:
        """Receive until so much is there; the follower goes on meanwhile, and nobody else does."""
        while len(self._buffer) < count:
            if not self.readable:
                self._torture.wait_for(self)
            self._take()
