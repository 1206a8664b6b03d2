"""What streams from brokers share: entries become samples, which are acknowledged once the server has them.

The broker keeps, with the place up to which entries are acknowledged, the number of samples that this place stands for,
and both change together. The server knows how many samples it has. So whatever dies, and whenever: the first entries
after the place are those that the server has and the broker does not know of yet, and are passed over; the next one is
the first that the server does not have. This holds for a worker that is started again as for a connection that is.
"""

from __future__ import annotations

import copy
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

from siag.foundations import check
from siag.foundations.errors import BadInput, SiagError, shorten
from siag.streams.lines import FORMATS, BadLine, parsed
from siag.streams.remarks import Tally, say
from siag.streams.stream import Stop, Stream

FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0  # seconds before a broker that is not there is tried again
OLDEST, NEWEST = "oldest", "newest"  # where to begin
SOON = 1.0  # seconds after which samples are acknowledged while others are computed on
SKIP = "mend it, or leave such entries out with bad='skip'"


class Down(Exception):
    """A broker that is not there now; the reason."""


class Entry(NamedTuple):
    """What a broker gives out."""

    position: Any  # by which it is acknowledged
    content: Any  # `None` if the broker has it no more


class Reader(Protocol):
    """A connection to a broker; each call may raise `Down`."""

    def place(self, samples: int) -> int:
        """How many samples stand before the first entry; `samples`, of which it makes a note, if that is not known."""

    def fetch(self) -> Sequence[Entry]:
        """The next entries, from the first that is not acknowledged on, in one order for ever; none if there are none.

        They are those there are now: it does not wait.
        """

    def acknowledge(self, positions: Sequence[Any], samples: int) -> None:
        """The next entries, in their order, are done with, and `samples` stand before what follows: both or neither."""

    def close(self) -> None:
        """End the connection."""


@dataclass(eq=False)
class Messages(Stream[Any]):
    """A stream from a broker; `Redis`, `Kafka` and `MQTT` describe the arguments."""

    format: str = field(default="json", kw_only=True)
    parse: Callable[[Any], Any] | None = field(default=None, kw_only=True)
    bad: str = field(default="raise", kw_only=True)
    poll: float = field(default=0.05, kw_only=True)
    skipped: int = field(default=0, init=False, repr=False)
    _first: int = field(default=0, init=False, repr=False)  # the number of the first sample to give
    _has: int = field(default=0, init=False, repr=False)  # how many the server has

    def __post_init__(self) -> None:
        check.choice("format", self.format, (*FORMATS, "bytes"))
        if self.parse is not None and not callable(self.parse):
            raise BadInput("parse", self.parse, "a function of one sample, or None")
        check.choice("bad", self.bad, ("raise", "skip"))
        self.poll = check.real("poll", self.poll, above=0)

    @property
    @abstractmethod
    def where(self) -> str:
        """The address, for remarks, without a password."""

    def after(self, samples: int) -> Self:
        """The same stream without its first samples."""
        later = copy.copy(self)
        later._first += check.integer("samples", samples, low=0)
        return later

    def accepted(self, samples: int) -> None:
        """The server has the first `samples` samples; they are acknowledged soon."""
        self._has = max(self._has, samples)

    def decode(self, content: Any) -> Any:
        """The sample of an entry; a `BadLine` says what is wrong with it."""
        sample = content
        if isinstance(content, bytes) and self.format != "bytes":
            try:
                sample = FORMATS[self.format](content.decode())
            except UnicodeDecodeError:
                raise BadLine(f"not UTF-8: {shorten(content)}") from None
        return parsed(self.parse, sample, content)

    def leave_out(self, position: Any, error: BadLine, tally: Tally) -> None:
        """What to do about a bad entry: raise, or count it and now and then say so."""
        which = f"{self.where}, entry {position}: {error}"
        if self.bad == "raise":
            raise SiagError(f"{which}; {error.remedy or SKIP}") from error.__cause__
        self.skipped += 1
        if tally.add():
            others = f", as {tally.count - 1:,} before it" if tally.count > 1 else ""
            tally.say(f"{which}; it is left out{others}")

    def tally(self) -> Tally:
        """For the bad entries that a loop leaves out."""
        return Tally(f"{self.where}: {{}} bad entries were left out in all")


class Patience:
    """Waits for a broker that is not there, longer each time; that it is away, and back, is said once.

    Args:
        where: the broker's address.
        stop: ends the waiting.
    """

    def __init__(self, where: str, stop: Stop) -> None:
        self._where, self._stop, self._wait, self._away = where, stop, FIRST_WAIT, False

    def away(self, reason: object) -> None:
        """It is not there; wait a while."""
        if not self._away:
            say(f"{self._where}: cannot be reached ({reason}); it is tried again until it is there")
        self._away = True
        self._stop.wait(self._wait)
        self._wait = min(2 * self._wait, LONGEST_WAIT)

    def back(self) -> None:
        """It is there."""
        if self._away:
            say(f"{self._where}: is there; reading goes on")
        self._away, self._wait = False, FIRST_WAIT


@dataclass(eq=False)
class Numbered(Messages):
    """A stream from a broker that keeps a number beside its place."""

    @abstractmethod
    def connect(self) -> Reader:
        """A connection to the broker; may raise `Down`."""

    def samples(self, stop: Stop) -> Generator[Any, None, None]:
        """The samples from the first that is not acknowledged on, until `stop` is set."""
        given, patience = self._first, Patience(self.where, stop)
        with self.tally() as tally:
            while not stop.is_set():
                try:
                    with closing(self.connect()) as reader:
                        place = self._place(reader, given)
                        patience.back()
                        for sample in self._read(reader, place, given, stop, tally):
                            given += 1
                            yield sample
                except Down as error:
                    patience.away(error)

    def _place(self, reader: Reader, given: int) -> int:
        """How many samples stand before the first entry that is read."""
        place = reader.place(given)
        if place > given:
            less = f"the server has {given:,} of the {place:,} samples acknowledged here"
            say(f"{self.where}: {less}: it is another run, or has lost some; reading goes on after those acknowledged")
            reader.acknowledge([], given)
        return min(place, given)

    def _read(self, reader: Reader, place: int, given: int, stop: Stop, tally: Tally) -> Iterator[Any]:
        """The samples after the first `given`, of entries before the first of which there are `place` samples."""
        due: deque[tuple[int, Any]] = deque()  # samples up to an entry, and its position, which is to be acknowledged
        then = time.monotonic()
        try:
            while not stop.is_set():
                entries = reader.fetch()
                reported = given - place  # of those that are gone, these were read
                lost = sum(content is None for _, content in entries[max(0, reported) :])
                if lost:
                    say(f"{self.where}: {lost:,} entries were taken away before they were read; they are lost")
                for position, content in entries:
                    sample, good = None, place < given  # one that was reported, if it is gone
                    if content is not None:
                        try:
                            sample, good = self.decode(content), True
                        except BadLine as error:
                            good = False
                            self.leave_out(position, error, tally)
                    place += good
                    due.append((place, position))
                    if good and place > given:
                        if time.monotonic() > then + SOON:
                            self._acknowledge(reader, due)
                            then = time.monotonic()
                        yield sample
                        if stop.is_set():
                            return
                self._acknowledge(reader, due)
                if not entries:
                    stop.wait(self.poll)
        finally:
            with suppress(Down, SiagError):  # of one that was taken over, too
                self._acknowledge(reader, due)

    def _acknowledge(self, reader: Reader, due: deque[tuple[int, Any]]) -> None:
        """Acknowledge the entries that the server has, and bad ones among and after them."""
        positions, place = [], 0
        while due and due[0][0] <= self._has:
            place, position = due.popleft()
            positions.append(position)
        if positions:
            reader.acknowledge(positions, place)


def check_name(parameter: str, name: object) -> None:
    """Refuse what is no name."""
    if not isinstance(name, str) or not name:
        raise BadInput(parameter, name, "a text that is not empty")
