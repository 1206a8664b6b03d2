"""Stores on disks of the tests' own."""

from pathlib import Path

from states import IDENTITY, N, Server, recovered

from siag.storage.background import Inline
from siag.storage.store import Store

FOLDER = Path("state")
FIRST = FOLDER / "state-000001.siag"


def a_store(disk, background=None, **options):
    return Store(FOLDER, IDENTITY, disk=disk, background=background or Inline(), **options)


def found_on(disk):
    return recovered(FOLDER, disk)


def history(disk, saves=4, **options):
    """Save a few states; return all of them."""
    server, states = Server(), []
    with a_store(disk, **options) as store:
        for k in range(saves):
            server.update(k % N, 1.5 + k)
            assert server.save(store, wait=True)
            states.append(server.copy())
    return states
