"""Fixtures of the live half."""

import pytest
from certified import HOSTS
from jobs import Notes
from pair import Desk, begun
from sessions import STEP

from disks import SmallDisk
from siag.live.certificates import make_certificates
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


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certs")
    make_certificates(folder, hosts=HOSTS, workers=3)
    return folder


@pytest.fixture
def desk():
    return Desk(begun(["a", "b"]))
