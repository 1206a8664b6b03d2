"""Traces on disks of the tests' own."""

import random
from pathlib import Path

import pytest
from hypothesis import settings
from tests.activity.trace_cases import HEAD, N, lines_of, put
from tests.torture.disk import SimulatedDisk

from siag.activity import Trace
from siag.activity.trace import COLUMNS, FORMAT
from siag.storage.background import Inline
from siag.storage.trace_writer import TraceWriter

quick = settings(deadline=None, max_examples=60)
both = pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
OWN = {"workers": N, "run": "a"}
TWO = [(0, 0, 0, 0, 0.0), (1, 0, 1, 1, 0.0)]
MANY = [(k, k % N, k, k, float(k)) for k in range(50)]


class Place:
    """A trace on a simulated disk."""

    def __init__(self, name, content=None):
        self.disk, self.path = SimulatedDisk(random.Random(0)), Path(name)
        if content is not None:
            file = self.disk.append(self.path)
            file.write(content)
            file.close()

    def writer(self, about=OWN, background=None, **options):
        return TraceWriter(self.path, about, **options, disk=self.disk, background=background or Inline())

    def write(self, lines, end=None, every=3, **options):
        """Write lines as the server does; `end=None` leaves the file as a crash would."""
        writer = self.writer(**options)
        for k in range(0, len(lines), every):
            put(lines[k : k + every], writer)
            writer.flush()
        if end is None:
            self.disk.kill()
        else:
            writer.close(end)

    @property
    def content(self):
        with self.disk.read(self.path) as stream:
            return stream.read()

    @property
    def trace(self):
        return Trace.parse(str(self.path), self.content)

    @property
    def lines(self):
        return lines_of(self.trace)


STRANGE = {
    "a text": b"important results\n",
    "a table": f"{COLUMNS}\n0,0,0,0,0.0,,\n".encode(),
    "another format": HEAD.replace(FORMAT, "siag-trace-9").encode(),
    "no JSON": f"# {FORMAT} {{workers\n{COLUMNS}\n".encode(),
    "other columns": f"# {FORMAT} {{}}\nversion,worker\n".encode(),
    "blank lines": b"\n\n\n",
}
