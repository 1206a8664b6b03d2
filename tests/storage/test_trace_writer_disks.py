"""Writing traces on disks that fail: nothing is lost, or the trace is given up."""

import math
from pathlib import Path

import pytest
from tests.activity.trace_cases import put
from tests.torture.disk import Deferred, DiskFaults
from traces import MANY, TWO, Place, both

from siag.foundations.errors import BadFile

NO_SPACE, FAILS = DiskFaults(no_space=1.0), DiskFaults(force_error=1.0)


@both
@pytest.mark.parametrize("faults", [NO_SPACE, FAILS, DiskFaults(write_error=1.0)])
def test_a_disk_that_fails_for_a_while_costs_nothing_and_the_trouble_lasts_as_long(name, faults):
    place = Place(name)
    writer = place.writer()
    place.disk.faults = faults
    if faults != FAILS:
        put(MANY[:5], writer)
        with pytest.raises(OSError, match=r"No space|Input/output"):
            writer.flush()
    for line in MANY[5 if faults != FAILS else 0 : 20]:
        put([line], writer)
        for act in (lambda: writer.sync(wait=True), writer.flush):
            with pytest.raises(OSError, match=r"No space|Input/output"):
                act()
    place.disk.faults = DiskFaults(short_write=0.9)
    writer.sync(wait=True)
    put(MANY[20:], writer)
    writer.close(50)
    assert place.lines == MANY


@both
def test_a_disk_that_stays_full_is_waited_for_within_bounds_then_the_trace_is_given_up(name):
    place = Place(name)
    writer = place.writer(room=1 << 20)
    put(TWO[:1], writer)
    writer.flush()
    place.disk.faults = NO_SPACE
    words = []
    for k in range(1, 60_001):
        writer.report(k, 0, k, k, float(k), math.nan)
        if k % 1000 == 0:
            with pytest.raises(OSError, match="No space") as caught:
                writer.flush()
            words.append(caught.value.strerror)
    assert list(dict.fromkeys(words)) == [
        "No space left on device",
        "No space left on device; given up, with 1 MB waiting for the disk",
    ]
    assert writer.tail is None
    place.disk.faults = DiskFaults()
    writer.close(60_001)
    assert place.trace.length == 1


def test_a_trace_is_given_up_if_nobody_knows_what_the_disk_has_of_it():
    place = Place("t")
    writer = place.writer()
    put(TWO, writer)
    place.disk.faults = FAILS
    with pytest.raises(OSError, match="Input/output error"):
        writer.sync(wait=True)
    put(TWO, writer)
    with pytest.raises(OSError, match="Input/output error"):
        writer.sync()
    place.disk.faults = DiskFaults(write_error=1.0)
    with pytest.raises(OSError, match="given up, what the disk has of it is uncertain"):
        writer.flush()
    assert writer.tail is None


def test_what_was_flushed_is_forced_to_disk_without_waiting_for_it():
    place, background = Place("t"), Deferred()
    writer = place.writer(background=background)
    writer.report(0, 0, 0, 0, 0.0, math.nan)
    assert writer.tail == "0,0,0,0,0.000000,,\n"
    writer.sync()
    assert not writer.settled
    assert writer.tail == "0,0,0,0,0.000000,,\n"  # on its way
    background.step()
    assert writer.settled
    writer.report(1, 0, 1, 1, 0.0, math.nan)
    writer.flush()
    assert writer.tail == "1,0,1,1,0.000000,,\n"
    writer.sync(wait=True)
    assert writer.tail == ""
    writer.close(2)
    place.disk.crash()
    assert place.trace.length == 2


def test_a_trace_that_nobody_forces_to_disk_goes_there_by_itself():
    writer = Place("t").writer(background=Deferred(), carried=1000)
    put(MANY[:20], writer)
    writer.flush()
    assert writer.settled
    put(MANY, writer)
    writer.flush()
    assert not writer.settled


def test_a_disk_that_is_full_at_the_start_is_told_then():
    place = Place("t")
    for faults in (NO_SPACE, FAILS, DiskFaults(folder_error=1.0), DiskFaults(replace_error=1.0)):
        place.disk.faults = faults
        with pytest.raises(BadFile, match=r"^t: cannot be written: "):
            place.writer()
    place.disk.faults = DiskFaults()
    place.write(TWO, 2)
    assert place.lines == TWO
    assert place.disk.names(Path()) == ["t"]
