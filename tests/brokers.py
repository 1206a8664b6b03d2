"""A broker in memory, which outlives its readers as a real one does; its failures are planned."""

from dataclasses import dataclass, field

from siag.foundations.errors import SiagError
from siag.streams.messages import Down, Entry, Numbered

BROKERS = {}


class Broker:
    """Entries, the place up to which they are acknowledged, and the number of samples it stands for."""

    def __init__(self, entries):
        self.entries, self.place, self.samples = list(entries), 0, None
        self.reader, self.calls, self.down = None, 0, set()  # the numbers of calls at which it is not there

    def call(self, reader):
        if reader is not self.reader:
            raise SiagError("another reader has come")
        self.calls += 1
        if self.calls in self.down:
            raise Down("it is away")


class Reader:
    def __init__(self, broker):
        self.broker = broker
        broker.reader = self

    def place(self, samples):
        self.broker.call(self)
        self.next = self.broker.place
        if self.broker.samples is None:
            self.broker.samples = samples
        return self.broker.samples

    def fetch(self):
        self.broker.call(self)
        found = [Entry(k, self.broker.entries[k]) for k in range(self.next, len(self.broker.entries))][:3]
        self.next += len(found)
        if not found:
            raise SiagError("there are no more entries: one was lost")
        return found

    def acknowledge(self, positions, samples):
        self.broker.call(self)
        assert list(positions) == list(range(self.broker.place, self.broker.place + len(positions)))
        self.broker.place += len(positions)
        self.broker.samples = samples

    def close(self):
        pass


@dataclass(eq=False)
class Kept(Numbered):
    """The stream of a broker in `BROKERS`."""

    name: str = field(kw_only=True)
    where = "memory"

    def connect(self):
        return Reader(BROKERS[self.name])


def kept(name, entries, **options):
    """A new broker, and its stream."""
    BROKERS[name] = Broker(entries)
    return Kept(name=name, **options)
