"""Bytes become frames, without I/O: a transport asks where the next bytes go, and what has become of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from siag.foundations.types import Floats
from siag.live.protocol import wire

HEADER = wire.HEADER.size


class FrameReader:
    """Reads the frames of one connection.

    Small frames are received on a stage, several at a time. A large array goes straight to its place.

    Args:
        expected: which frames may come now; it can be changed.
        stage: how many bytes are received at a time; what is larger, header and all, is a large array.

    Attributes:
        place: where a large array goes; `None`: to a place of the reader's own, which is used again for the next one.
        tap: sees every frame and may pass on another one in its place; used where arrays lie in shared memory.
    """

    def __init__(self, expected: wire.Expected, stage: int = wire.STAGE) -> None:
        self.expected = expected
        self.place: Floats | None = None
        self.tap: Callable[[wire.Head, memoryview], tuple[wire.Head, memoryview]] | None = None
        self._stage = bytearray(stage)
        self._view = memoryview(self._stage)
        self._first = self._view[: wire.STAGE]
        self._low = self._high = 0  # what is on the stage and not read yet
        self._head: wire.Head | None = None  # of a large frame on its way
        self._array = memoryview(b"")
        self._got = 0

    @property
    def missing(self) -> int | None:
        """How many bytes are missing of a large frame that has begun, 0 of a small one; `None` if none has begun."""
        if self._head is not None:
            return self._head.length - self._got
        return 0 if self._low < self._high else None

    def buffer(self) -> memoryview:
        """Where the next bytes go."""
        if self._head is not None:
            return self._array[self._got :]
        if not self._high:
            return self._first
        if self._low:
            left = self._high - self._low
            self._stage[:left] = self._stage[self._low : self._high]
            self._low, self._high = 0, left
        return self._view[self._high :]

    def received(self, count: int) -> None:
        """`count` bytes have come to where `buffer` said."""
        if self._head is None:
            self._high += count
        else:
            self._got += count

    def whole(self, count: int) -> tuple[wire.Head, memoryview] | None:
        """The same; the frame that these bytes complete, if nothing came before it that is not read, and nothing after.

        If it returns `None`, `next` may still have frames.
        """
        head = self._head
        if head is not None:
            self._got += count
            return self._finish_large(head)
        self._high += count
        if self._low or self._high < HEADER:
            return None
        head = wire.parse_head(self._stage, self.expected)
        end = HEADER + head.length
        if end == self._high:
            self._high = 0
            payload = self._view[HEADER:end]
            return (head, payload) if self.tap is None else self.tap(head, payload)
        if end > len(self._stage):
            self._begin_large(head, HEADER)
        return None

    def feed(self, content: wire.Raw) -> Iterator[tuple[wire.Head, memoryview]]:
        """The frames that are complete with these bytes; `expected` may change from one to the next."""
        rest = memoryview(content)
        while rest:
            room = self.buffer()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            rest = rest[count:]
            self.received(count)
            while (frame := self.next()) is not None:
                yield frame

    def next(self) -> tuple[wire.Head, memoryview] | None:
        """The next frame that is complete; what follows its header is good until the next `buffer`.

        Raises `wire.BadFrame` if what has come is no frame that is expected.
        """
        if self._head is not None:
            return self._finish_large(self._head)
        low = self._low
        if self._high - low < HEADER:
            return None
        head = wire.parse_head(self._stage, self.expected, low)
        end = low + HEADER + head.length
        if end <= self._high:
            self._low = end
            if end == self._high:
                self._low = self._high = 0
            payload = self._view[low + HEADER : end]
            return (head, payload) if self.tap is None else self.tap(head, payload)
        if HEADER + head.length > len(self._stage):
            self._begin_large(head, low + HEADER)
        return None

    def _begin_large(self, head: wire.Head, first: int) -> None:
        if self.place is not None:
            self._array = self.place.data.cast("B")
        elif len(self._array) != head.length:
            self._array = np.empty(head.length, np.uint8).data
        self._head, self._got = head, self._high - first
        self._array[: self._got] = self._view[first : self._high]
        self._low = self._high = 0

    def _finish_large(self, head: wire.Head) -> tuple[wire.Head, memoryview] | None:
        if self._got < head.length:
            return None
        self._head = None
        return (head, self._array) if self.tap is None else self.tap(head, self._array)
