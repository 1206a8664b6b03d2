"""Fixtures of the live half."""

import pytest
from jobs import Notes
from sessions import STEP

from disks import SmallDisk
from specs import assembly_of


@pytest.fixture
def assembled():
    """Assembles sessions, and takes them apart at the end."""
    made = []

    def assemble(until=None, workers=("a", "b"), step=STEP, **options):
        watcher = Notes()
        options = {"progress": watcher, "step": step, "until": until, "disk": SmallDisk()} | options
        assembly = assembly_of(workers, **options)
        made.append(assembly)
        assembly.session.notes, assembly.session.disk = watcher, options["disk"]
        return assembly.session

    yield assemble
    for assembly in made:
        assembly.close()
